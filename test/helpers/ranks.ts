/** Commands whose work several processes share, over loopback. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { loadNative } from '../../src/engine/torch/native.ts';
import type { Machines } from './machines.ts';
import { Child } from './tiny-run.ts';

/** Returns true if this libtorch has c10d with Gloo. */
export const hasDistributed = (): boolean => loadNative().distributed !== null;

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

/** Processes of a command as torchrun starts them; with `machines` each in a network namespace of its own. */
export function ranks(
  size: number,
  port: number,
  args: (rank: number) => readonly string[],
  env = {},
  machines: Machines | null = null,
): Child[] {
  return Array.from({ length: size }, (_, rank) => {
    const place = { RANK: rank, WORLD_SIZE: size, LOCAL_RANK: rank, LOCAL_WORLD_SIZE: size };
    const apart = machines === null ? {} : { LOCAL_RANK: 0, LOCAL_WORLD_SIZE: 1 };
    const host = machines?.address(0) ?? '127.0.0.1';
    const all = { ...place, ...apart, MASTER_ADDR: host, MASTER_PORT: port };
    const texts = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, `${value}`]));
    return new Child(args(rank), undefined, { ...texts, ...env }, machines?.through(rank));
  });
}

/** Children of a process; none where it has none or has ended, which ps calls a failure. */
export const childrenOf = (pid: number): number[] =>
  spawnSync('ps', ['-o', 'pid=', '--ppid', `${pid}`], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter((line) => line.trim() !== '')
    .map(Number);

/**
 * Returns true once a child has become a rank. Before that it is a copy of its parent, whose thread waits for it inside the system's call:
 * stopped in these milliseconds it stops the parent too, which no program can notice.
 */
export function isRank(pid: number): boolean {
  try {
    return /(^|\0)RANK=/.test(readFileSync(`/proc/${pid}/environ`, 'utf8'));
  } catch {
    return false; // has ended
  }
}

/** Returns true for a process that runs; one that has ended is listed until its parent, which may be stopped, asks for its code. */
export const isAlive = (pid: number): boolean =>
  /^[^Z]/.test(spawnSync('ps', ['-o', 'stat=', '-p', `${pid}`], { encoding: 'utf8' }).stdout.trim());
