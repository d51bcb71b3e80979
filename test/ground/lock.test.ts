import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { OWNER, stateOf } from '../../src/ground/files.ts';
import { claimDirectory, takeLock, withLock } from '../../src/ground/lock.ts';

const PROCESSES = Number(process.env['LOCK_PROCESSES'] ?? 4);
const ROUNDS = Number(process.env['LOCK_ROUNDS'] ?? 40);

const ROOT = resolve(import.meta.dirname, '../..');
const LOCK = pathToFileURL(join(ROOT, 'dist/src/ground/lock.js')).href;
const RACER = join(ROOT, 'test/helpers/lock-racer.mjs');

const gone = OWNER.replace(/\d+$/, '1'); // this id, of a process that started before any
const elsewhere = OWNER.replace(/^[0-9a-f]+/, (place) => (place === '00000000' ? '11111111' : '00000000'));

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-lock-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('an owner', () => {
  test('is this process, or has ended, or is of a place where nobody can ask', () => {
    expect(stateOf(OWNER)).toBe('alive');
    expect(stateOf(gone)).toBe('gone');
    expect(stateOf(elsewhere)).toBe('unknown');
  });
});

describe('takeLock', () => {
  const path = (): string => join(directory, 'a.lock');

  test('is held by one at a time, waited for, and released after a failure', async () => {
    const events: string[] = [];
    const first = withLock(
      path(),
      () => events.push('a waits'),
      async () => {
        events.push('a in');
        await vi.waitUntil(() => events.includes('b waits'));
        events.push('a out');
        throw new Error('failed inside');
      },
    );
    await vi.waitUntil(() => events.includes('a in'));
    const second = withLock(
      path(),
      () => events.push('b waits'),
      async () => events.push('b in'),
    );
    const [a, b] = await Promise.allSettled([first, second]);
    expect(events).toEqual(['a in', 'b waits', 'a out', 'b in']);
    expect([a.status, b.status]).toEqual(['rejected', 'fulfilled']);
    expect(readdirSync(directory)).toEqual([]);
  });

  test('passes over what dead processes left, and takes it away', async () => {
    writeFileSync(`${path()}.${gone}.0`, 'held\n');
    writeFileSync(`${path()}.${gone}.1`, '');
    writeFileSync(`${path()}.mine`, '');
    (await takeLock(path())).release();
    expect(readdirSync(directory)).toEqual(['a.lock.mine']);
  });

  test('of a process elsewhere is taken once its ticket has not been touched for long', async () => {
    writeFileSync(`${path()}.${elsewhere}.0`, 'held\n');
    const now = vi.spyOn(performance, 'now').mockImplementation(() => 0);
    try {
      const waiting = takeLock(path(), { onWait: () => now.mockImplementation(() => 31_000) });
      (await waiting).release();
    } finally {
      now.mockRestore();
    }
    expect(readdirSync(directory)).toEqual([]);
  });
});

describe('claimDirectory', () => {
  test('makes what is missing, and leaves nothing where nothing came into it', async () => {
    const run = join(directory, 'a/b');
    const lock = await claimDirectory(run);
    expect(lock.held()).toBe(true);
    await expect(claimDirectory(run)).rejects.toThrow(ConfigError);
    await expect(claimDirectory(run)).rejects.toThrow(
      `${run}: process ${process.pid} is working on this directory`,
    );
    lock.release();
    expect(readdirSync(directory)).toEqual([]);
    const again = await claimDirectory(run);
    writeFileSync(join(run, 'kept'), '');
    again.release();
    expect(readdirSync(run)).toEqual(['kept']);
  });

  test('is lost with the directory, and does not make it again', async () => {
    const run = join(directory, 'run');
    const lock = await claimDirectory(run);
    rmSync(run, { recursive: true });
    expect(lock.held()).toBe(false);
    lock.release();
    expect(existsSync(run)).toBe(false);
  });

  test('of a living process elsewhere is refused as soon as it shows that it lives, by the ticket to remove', async () => {
    const ticket = join(directory, `.lock.${elsewhere}.0`);
    writeFileSync(ticket, 'held\n');
    const said = vi.spyOn(process.stderr, 'write').mockImplementation(() => {
      utimesSync(ticket, 5, 5);
      return true;
    });
    try {
      await expect(claimDirectory(directory)).rejects.toThrow(
        `process ${process.pid} of another machine or container is working on this directory; wait for it, or choose another --out (if it has ended, remove ${ticket})`,
      );
      expect(said).toHaveBeenCalledOnce();
    } finally {
      said.mockRestore();
    }
  });

  test('refuses a file', async () => {
    const file = join(directory, 'file');
    writeFileSync(file, 'mine');
    await expect(claimDirectory(file)).rejects.toThrow(/is a file; choose a directory/);
    await expect(claimDirectory(join(file, 'below'))).rejects.toThrow(
      /not written \(a part of the path is a file/,
    );
  });
});

describe('processes that race', () => {
  function race(...args: string[]): { readonly processes: ChildProcess[]; readonly outs: string[] } {
    const start = Date.now() + 150 + 60 * PROCESSES;
    const outs = new Array<string>(PROCESSES).fill('');
    const processes = outs.map((_, i) => {
      const child = spawn(process.execPath, [RACER, LOCK, String(start), ...args]);
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => {
          outs[i] += chunk.toString();
        });
      }
      return child;
    });
    return { processes, outs };
  }

  test('for directories that are new, or that dead processes had claimed: each goes to one of them', async () => {
    const directories = Array.from({ length: ROUNDS }, (_, i) => join(directory, `run-${i}`));
    for (const [i, path] of directories.entries()) {
      if (i % 2 === 0) continue;
      mkdirSync(path);
      writeFileSync(join(path, `.lock.${gone}.${i}`), 'held\n');
    }
    const { processes, outs } = race('claim', ...directories);
    await vi.waitUntil(() => outs.every((out) => out.includes('done\n')), { timeout: 50_000 });
    const ended = processes.map((child) => once(child, 'exit'));
    for (const child of processes) child.stdin!.end();
    await Promise.all(ended);
    const got = outs.flatMap((out) => out.split('\n').filter((line) => line !== '' && line !== 'done'));
    expect(got.sort()).toEqual(directories.sort());
  });

  test('for one lock, over and over, beside stale tickets: nobody meets another inside', async () => {
    const { processes, outs } = race('enter', directory, String(ROUNDS));
    const codes = await Promise.all(processes.map(async (child) => (await once(child, 'exit'))[0]));
    expect(outs.join('')).toBe('');
    expect(codes).toEqual(new Array(PROCESSES).fill(0));
    (await takeLock(join(directory, '.lock'))).release();
    expect(readdirSync(directory)).toEqual([]);
  });
});
