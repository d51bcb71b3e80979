/** The TCP store and Gloo's process group, in real processes over loopback. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ProcessGroup, Store } from '../../src/engine/torch/distributed.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { workerUrl } from '../../src/ground/paths.ts';
import { DEVICE } from '../helpers/device.ts';
import { hasDistributed } from '../helpers/ranks.ts';
import type { PeerData } from './distributed-peer.ts';

const HOST = '127.0.0.1';
/** NaN cast to bfloat16, which a GPU does in its own way. */
const NAN_BITS = !DEVICE.startsWith('cuda') ? 0x7fc0 : 0x7fff;
const PROGRAM = fileURLToPath(new URL('./distributed-peer.ts', import.meta.url));

/** Lines of the scene 'operations', by dtype and by name. */
type Operations = Record<`${string} gathered`, { root: number[][]; all: number[][]; own: number[] }> & {
  readonly [name: string]: unknown;
  readonly bits: number[];
};

/** A child process and the lines of JSON that it prints. */
class Peer {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  /** Exit code; null after a signal. */
  readonly ended: Promise<number | null>;

  constructor(data: Omit<PeerData, 'timeoutMs'> & { timeoutMs?: number }) {
    const argument = JSON.stringify({ timeoutMs: 20_000, ...data });
    this.child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, argument], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    peers.push(this);
    this.#lines = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]();
    this.ended = new Promise((done) => this.child.on('exit', done));
  }

  async line<T>(): Promise<T> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the peer ended without another line');
    return JSON.parse(value) as T;
  }
}

/** Runs a scene in a Worker of this process. */
function worker(data: Omit<PeerData, 'timeoutMs'>): Worker {
  const { url, execArgv } = workerUrl('./distributed-peer.ts', import.meta.url);
  const argv = [JSON.stringify({ timeoutMs: 20_000, ...data })];
  return new Worker(url, { execArgv, argv, env: SHARE_ENV, stdout: true });
}

const peers: Peer[] = [];
const stores: Store[] = [];

async function serve(): Promise<Store> {
  const store = await Store.open({ host: HOST, port: 0, server: true, timeoutMs: 20_000 });
  stores.push(store);
  return store;
}

async function start(
  scene: PeerData['scene'],
  size: number,
  more: { timeoutMs?: number } = {},
): Promise<Peer[]> {
  const { port } = await serve();
  return Array.from({ length: size }, (_, rank) => new Peer({ scene, port, rank, size, ...more }));
}

async function end(started: Peer[], served: Store[]): Promise<void> {
  for (const { child } of started) child.kill('SIGKILL');
  await Promise.all(started.splice(0).map(({ ended }) => ended));
  for (const store of served.splice(0)) store.close();
}
afterEach(() => end(peers, stores));

/** States of a process's threads, as the system's letters: T where stopped. */
function statesOf(pid: number): Set<string> {
  const tasks = `/proc/${pid}/task`;
  return new Set(
    readdirSync(tasks).map((task) => /\) (\w)/.exec(readFileSync(`${tasks}/${task}/stat`, 'utf8'))![1]!),
  );
}

const upTo = (size: number): number[] => Array.from({ length: size }, (_, rank) => rank);
const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

// A libtorch without c10d and Gloo has nothing to test but its error.
describe.runIf(!hasDistributed())('a libtorch without c10d', () => {
  it('says so', async () => {
    await expect(Store.open({ host: HOST, port: 0, server: true })).rejects.toThrow(/without c10d and Gloo/);
  });
});

describe.runIf(hasDistributed())('Store', () => {
  it('sets, gets, adds, checks and deletes, also through a second client', async () => {
    const server = await serve();
    const client = await Store.open({ host: HOST, port: server.port, timeoutMs: 20_000 });
    stores.push(client);
    await server.set('text', 'grüße');
    await client.set('bytes', Uint8Array.of(0, 255, 10, 0));
    await client.set('empty', '');
    expect((await client.get('text')).toString()).toBe('grüße');
    expect([...(await server.get('bytes'))]).toEqual([0, 255, 10, 0]);
    expect((await server.get('empty')).length).toBe(0);
    expect(await server.add('counter', 5)).toBe(5);
    expect(await client.add('counter', -7)).toBe(-2);
    expect((await client.get('counter')).toString()).toBe('-2');
    expect(await client.check(['text', 'bytes'])).toBe(true);
    expect(await client.check(['text', 'nothing'])).toBe(false);
    expect(await client.deleteKey('text')).toBe(true);
    expect(await client.deleteKey('text')).toBe(false);
    expect(await server.check(['text'])).toBe(false);
  });

  it('waits for keys and leaves the connection to other operations meanwhile', async () => {
    const store = await serve();
    const got = store.get('later');
    const waited = store.wait(['later', 'latest']).then(() => 'waited');
    expect(await store.add('counter', 1)).toBe(1);
    await store.set('later', 'here');
    expect((await got).toString()).toBe('here');
    expect(await Promise.race([waited, store.add('counter', 1)])).toBe(2);
    await store.set('latest', 'here');
    expect(await waited).toBe('waited');
  });

  it('gives up on a key after the time-out and stays in use', async () => {
    const store = await serve();
    await expect(store.get('never', 50)).rejects.toThrow(
      new RegExp(`store.get 'never': not set in the store at ${HOST}:${store.port} within 0.05 s`),
    );
    await store.set('never', 'after all');
    expect((await store.get('never')).toString()).toBe('after all');
  });

  it('rejects what is pending when it is closed', async () => {
    const store = await Store.open({ host: HOST, port: 0, server: true });
    const pending = store.get('never');
    store.close();
    await expect(pending).rejects.toThrow(/the store was closed/);
    await expect(store.add('counter', 1)).rejects.toThrow(/the store is closed/);
  });

  it('waits in the server for the clients, and says how many came', async () => {
    const open = { host: HOST, port: 0, server: true, world: 3, timeoutMs: 300 };
    await expect(Store.open(open)).rejects.toThrow(/1 of 3 ranks came to 127\.0\.0\.1:\d+ within 0\.3 s/);
  });

  it('names the port that another process holds', async () => {
    const { port } = await serve();
    const error = await Store.open({ host: HOST, port, server: true }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(EngineError);
    expect((error as Error).message).toMatch(
      new RegExp(`another process listens on port ${port} of ${HOST}.*MASTER_PORT`),
    );
  });

  it('names the address where nobody listens, within the time-out', async () => {
    const free = createServer();
    await new Promise<void>((done) => free.listen(0, HOST, done));
    const { port } = free.address() as { port: number };
    await new Promise((done) => free.close(done));
    await expect(Store.open({ host: HOST, port, timeoutMs: 1000 })).rejects.toThrow(
      new RegExp(`no answer from the store at ${HOST}:${port} within 1 s.*MASTER_ADDR`),
    );
  });

  it('tells the process that serves it when its address is that of no machine', async () => {
    const open = { host: 'nowhere.invalid', port: 0, server: true, timeoutMs: 1000 };
    await expect(Store.open(open)).rejects.toThrow(/set MASTER_ADDR to a name or address of its machine/);
  });

  it('of a stopped server keeps the event loop running, and the process ends', async () => {
    const server = new Peer({ scene: 'server', port: 0, rank: 0, size: 1 });
    const { port } = await server.line<{ port: number }>();
    const client = new Peer({ scene: 'client', port, rank: 0, size: 1, timeoutMs: 500 });
    expect(await client.line()).toBe('ready');
    server.child.kill('SIGSTOP');
    // The signal is only noted yet: a thread of the server that runs may still answer.
    await expect.poll(() => statesOf(server.child.pid!)).toEqual(new Set(['T']));
    client.child.stdin!.write('go\n');
    const { error, ticks } = await client.line<{ error: string; ticks: number }>();
    expect(error).toMatch(new RegExp(`store.add 'counter': no answer from the store at ${HOST}:${port}`));
    expect(ticks).toBeGreaterThan(5);
    expect(await client.ended).toBe(7);
  });

  it('of a Worker ends with it, also while an operation is pending', async () => {
    const store = await serve();
    await store.set('name', 'value');
    const idle = worker({ scene: 'idle', port: store.port, rank: 0, size: 1 });
    expect(await once(idle, 'exit')).toEqual([0]);
    const pending = worker({ scene: 'pending', port: store.port, rank: 0, size: 1 });
    await once(pending.stdout, 'data');
    await pending.terminate();
    expect(await store.check(['name'])).toBe(true);
  });

  it('does not keep an idle process alive', async () => {
    const store = await serve();
    await store.set('name', 'value');
    const peer = new Peer({ scene: 'idle', port: store.port, rank: 0, size: 1 });
    expect(await peer.line()).toEqual({ value: 'value' });
    expect(await peer.ended).toBe(0);
  });
});

describe.runIf(hasDistributed())('ProcessGroup', () => {
  const [halted, their]: [Peer[], Store[]] = [[], []];
  afterAll(() => end(halted, their));
  /** Starts a group whose last rank then stops; it outlives the test that runs. */
  async function halt(...args: Parameters<typeof start>): Promise<Peer[]> {
    const group = await start(...args);
    halted.push(...peers.splice(0));
    their.push(...stores.splice(0));
    for (const peer of group) expect(await peer.line()).toBe('ready');
    group.at(-1)!.child.kill('SIGSTOP');
    return group;
  }
  // The others need seconds to give the stopped rank up, in which the other tests run.
  let [stopped, absent]: Peer[][] = [];
  beforeAll(async () => {
    stopped = await halt('lost', 2, { timeoutMs: 6000 });
    absent = await halt('absent', 3);
  });

  it.each([1, 2, 3])('of size %i runs every operation', async (size) => {
    const group = await start('operations', size);
    for (const [rank, peer] of group.entries()) {
      const result = await peer.line<Operations>();
      const second = Math.min(1, size - 1);
      for (const dtype of ['float32', 'float64', 'int64', 'uint8']) {
        const reduced = [total(upTo(size).map((of) => 3 ** of)), total(upTo(size))];
        expect(result[dtype]).toEqual({
          sum: [total(upTo(size)) + size, 10 * total(upTo(size)), 7 * size],
          reduced: rank === size - 1 ? reduced : [],
        });
      }
      for (const dtype of ['float32', 'bfloat16', 'float16']) {
        const all = upTo(size).map((of) => [of, 1.5 - of, 0]);
        const root = rank === second ? all : upTo(size).map(() => [0, 0, 0]);
        expect(result[`${dtype} gathered`]).toEqual({ root, all, own: all[rank] });
      }
      expect(result['bool gathered']!.all).toEqual(upTo(size).map((of) => [Math.min(of, 1), 1, 0]));
      const integers = result['int64 gathered']!;
      expect(integers.all[rank]).toEqual(integers.own);
      const sums = [1, 2].map((i) => 100 * total(upTo(size)) + size * i);
      const copied = [4, 5].map((i) => 100 * (size - 1) + i);
      expect(result['flat']).toEqual([100 * rank, ...sums, 100 * rank + 3, ...copied, 100 * rank + 6]);
      expect(new Uint16Array(Uint8Array.from(result.bits).buffer)).toEqual(
        Uint16Array.of(0x0000, 0x8000, 0x0001, 0x7f80, NAN_BITS, 0xbfc0, 0x7f62),
      );
      expect(result['scalar']).toBe(second + 0.5);
      expect(result['refused']).toEqual([
        expect.stringMatching(
          /^EngineError: allReduce, rank \d of \d.*got bfloat16; cast it to float32 first/,
        ),
        expect.stringMatching(/the tensor is not contiguous/),
        expect.stringMatching(/root: no such rank/),
        expect.stringMatching(/into: expected one tensor per rank/),
        expect.stringMatching(/into: expected contiguous tensors of the size/),
      ]);
      expect(result['closed']).toMatch(/the process group is closed/);
      expect(await peer.ended).toBe(0);
    }
  });

  it('connects Workers of one process', async () => {
    const { port } = await serve();
    const ranks = [0, 1].map((rank) => worker({ scene: 'operations', port, rank, size: 2 }));
    expect(await Promise.all(ranks.map((rank) => once(rank, 'exit')))).toEqual([[0], [0]]);
  });

  it('throws in all others at once when a peer is killed, long before the time-out', async () => {
    const group = await start('lost', 3, { timeoutMs: 600_000 });
    for (const peer of group) expect(await peer.line()).toBe('ready');
    group[2]!.child.kill('SIGKILL');
    for (const peer of group.slice(0, 2)) {
      const { error, again } = await peer.line<{ error: string; again: string }>();
      expect(error).toMatch(/^EngineError: allReduce, rank [01] of 3: a peer has ended; check the logs/);
      expect(again).toMatch(/the group was closed by a failure: allReduce/);
      expect(await peer.ended).toBe(0);
    }
  });

  it('throws after the time-out when a peer has stopped', async () => {
    const { error } = await stopped![0]!.line<{ error: string }>();
    expect(error).toMatch(/allReduce, rank 0 of 2: a peer has not answered within 6 s/);
    expect(await stopped![0]!.ended).toBe(0);
  });

  it('names in rank 0 the ranks that a barrier misses', async () => {
    const { error } = await absent![0]!.line<{ error: string }>();
    expect(error).toMatch(/barrier, rank 0 of 3: no answer from rank 2 within 2 s/);
    expect((await absent![1]!.line<{ error: string }>()).error).toMatch(
      /barrier, rank 1 of 3: rank 0 did not let this rank pass/,
    );
  });

  it('names the ranks that do not come', async () => {
    const { port } = await serve();
    const peer = new Peer({ scene: 'alone', port, rank: 1, size: 4, timeoutMs: 300 });
    const { error } = await peer.line<{ error: string }>();
    expect(error).toMatch(
      new RegExp(`rank 1 of 4: ranks 0, 2, 3 of 4 did not join at ${HOST}:${port} within 0.3 s`),
    );
  });

  it('refuses a rank outside the group', () => {
    const open = { host: HOST, port: 1, prefix: '', rank: 2, size: 2 };
    expect(() => ProcessGroup.open(open)).toThrow(/rank 2 of 2/);
  });
});
