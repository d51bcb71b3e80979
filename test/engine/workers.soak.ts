/** Several engines at once, one per Worker of a process. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { processor } from '../../src/engine/torch/kernel.ts';
import { loadNative } from '../../src/engine/torch/native.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { workerUrl } from '../../src/ground/paths.ts';
import { allocate, contribute, leavesOf, type Storage, update } from './team.ts';
import type { TeamData } from './team-worker.ts';

const RANKS = 2;
const STEPS = 1000;

interface Report {
  readonly loss: number;
  readonly leaked: number;
}

function rank(data: TeamData): Promise<Report> {
  const program = workerUrl('./team-worker.ts', import.meta.url);
  const worker = new Worker(program.url, { execArgv: program.execArgv, env: SHARE_ENV, workerData: data });
  return new Promise((done, failed) => {
    let report: Report | undefined;
    worker.on('message', (message: Report) => {
      report = message;
    });
    worker.on('error', failed);
    worker.on('exit', () => (report === undefined ? failed(new Error('no report')) : done(report)));
  });
}

describe('two Workers over shared storage', () => {
  it('train 1000 steps at once to the parameters of one thread, bit for bit', async () => {
    const engine = openTorch({ threads: 1 });
    const alone = engine.scope(() => {
      const storage = allocate(engine, RANKS);
      const leaves = leavesOf(engine, storage.parameters);
      const first = contribute(engine, leaves, storage, 1, 1);
      let loss = 0;
      for (let step = 1; step <= STEPS; step++) {
        for (let r = 0; r < RANKS; r++) loss = contribute(engine, leaves, storage, r, step);
        update(engine, storage, step);
      }
      return { first, loss, parameters: engine.floats(storage.parameters) };
    });
    expect(alone.loss).toBeLessThan(0.2 * alone.first); // it learns: equal parameters are not equal starts

    const storage = allocate(engine, RANKS);
    const tickets = Object.fromEntries(
      Object.entries(storage).map(([name, tensor]) => [name, engine.share(tensor)]),
    ) as Record<keyof Storage, number>;
    const gate = new Int32Array(new SharedArrayBuffer(8));
    const reports = await Promise.all(
      Array.from({ length: RANKS }, (_, r) => rank({ rank: r, ranks: RANKS, steps: STEPS, tickets, gate })),
    );
    expect(reports.map(({ leaked }) => leaked)).toEqual([0, 0]);
    expect(reports[1]!.loss).toBe(alone.loss);
    expect(engine.floats(storage.parameters)).toEqual(alone.parameters);
    for (const ticket of Object.values(tickets)) engine.unshare(ticket);
    engine.dispose(...(Object.values(storage) as (typeof storage.parameters)[]));
    expect(loadNative().live()).toBe(0);
  });
});

/** Without AVX-512, libtorch multiplies bfloat16 without oneDNN, whose cache this tries, and ten times as slowly. */
const withOneDnn = it.skipIf(processor().instructions !== 'AVX-512');

withOneDnn(
  'two Workers train in bfloat16 through thousands of shapes',
  () => {
    const out = mkdtempSync(join(tmpdir(), 'timeseer-bfloat16-'));
    const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));
    const sets = ['policy.dtype=bfloat16', 'sft.samples=8000'].flatMap((set) => ['--set', set]);
    const run = spawnSync(
      process.execPath,
      ['--import', 'tsx', cli, 'sft', '--recipe', 'quickstart', '--out', out, '--quiet', ...sets],
      { encoding: 'utf8', timeout: 580_000 },
    );
    rmSync(out, { recursive: true });
    expect({ status: run.status, signal: run.signal, error: run.stderr }).toMatchObject({
      status: 0,
      signal: null,
    });
  },
  600_000,
);

describe('a process ends well', () => {
  it.each([
    ['when many short-lived Workers load the engine and end', 'short-lived'],
    ['when Workers are terminated in the middle of their loops', 'terminate'],
    ['when it exits while Workers compute', 'main-exits'],
  ])(
    '%s',
    (_, scene) => {
      const program = fileURLToPath(new URL('./worker-scenes.ts', import.meta.url));
      const run = spawnSync(process.execPath, ['--import', 'tsx', program, scene], {
        encoding: 'utf8',
        timeout: 100_000,
      });
      expect({ status: run.status, signal: run.signal, out: run.stdout, error: run.stderr }).toEqual({
        status: 0,
        signal: null,
        out: 'done\n',
        error: '',
      });
    },
    120_000,
  );
});
