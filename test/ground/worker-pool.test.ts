import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { workerUrl } from '../../src/ground/paths.ts';
import { WorkerPool } from '../../src/ground/worker-pool.ts';

const program = workerUrl('../helpers/counting-worker.ts', pathToFileURL(import.meta.filename));
const failure = (problem: string): string => `failed (${problem})`;

let pool: WorkerPool<number, { thread: number; double: number }>;
const open = (size: number, depth?: number): typeof pool =>
  (pool = new WorkerPool({ size, program, failure, ...(depth === undefined ? {} : { depth }) }));
afterEach(() => pool.close());

describe('a pool of Workers', () => {
  test('ends the Worker whose request is taken back, and answers what waited behind it', async () => {
    open(1);
    const first = await pool.ask(1);
    const stop = new AbortController();
    const endless = pool.ask(-1, { signal: stop.signal });
    const behind = pool.ask(4);
    stop.abort(new Error('enough'));
    await expect(endless).rejects.toThrow('enough');
    const { thread, double } = await behind;
    expect(double).toBe(8);
    expect(thread).not.toBe(first.thread);
  });

  test('lets a Worker go on when a request is taken back that none has begun', async () => {
    open(1, 1);
    const stop = new AbortController();
    const first = pool.ask(1);
    const waiting = pool.ask(-1, { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect((await pool.ask(3)).thread).toBe((await first).thread);
  });

  test('takes no request whose signal was aborted before', async () => {
    open(1);
    await expect(pool.ask(1, { signal: AbortSignal.abort(new Error('late')) })).rejects.toThrow('late');
  });

  test('can be closed after requests were taken back', async () => {
    open(2);
    const stop = new AbortController();
    const all = [-1, -1, -1, -1, -1].map((value) => pool.ask(value, { signal: stop.signal }));
    const ended = Promise.allSettled(all);
    stop.abort(new Error('enough'));
    expect((await ended).map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
    expect((await pool.ask(5)).double).toBe(10);
    await pool.close();
    await expect(pool.ask(1)).rejects.toThrow(/closed/);
  });
});
