import { expect, test } from 'vitest';
import { workerUrl } from '../../src/ground/paths.ts';
import {
  markFailed,
  requestStop,
  runWorkers,
  WorkerError,
  WorkerGroup,
  WorkerGroupEnded,
  workerGroupMemory,
} from '../../src/train/worker-group.ts';
import type { GroupJob, GroupReport } from '../helpers/worker-group-program.ts';

const program = workerUrl('../helpers/worker-group-program', import.meta.url);

async function group(size: number, job: GroupJob): Promise<GroupReport[]> {
  return runWorkers<GroupJob, number, GroupReport>({ size, program, job, onNote: () => {} });
}

test('barriers and sums hold over thousands of turns on three ranks', async () => {
  const reports = await group(3, { kind: 'sums', turns: 3000 });
  // Turn k contributes (rank + 1)·k from each rank: 6k in all.
  const expected = 6 * ((2999 * 3000) / 2);
  expect(reports.map((report) => report.total)).toEqual([expected, expected, expected]);
});

test('ranks with different numbers of values get those of all, in rank order', async () => {
  const expected = [
    0,
    ...Array.from({ length: 71 }, (_, i) => 1000 + i),
    ...Array.from({ length: 141 }, (_, i) => 2000 + i),
  ];
  for (const { gathered } of await group(3, { kind: 'gather', turns: 1 })) expect(gathered).toEqual(expected);
  expect([...WorkerGroup.single().gather([3, 1])]).toEqual([3, 1]);
  expect(WorkerGroup.single().gather([])).toHaveLength(0);
});

test('a rank that throws ends the group with its own error, though others wait for it', async () => {
  const failed = group(2, { kind: 'fail', turns: 1 });
  await expect(failed).rejects.toThrow('rank 1 broke');
  await expect(failed).rejects.not.toBeInstanceOf(WorkerError);
});

test('a typed error of a rank arrives typed', async () => {
  await expect(group(2, { kind: 'refuse', turns: 1 })).rejects.toBeInstanceOf(WorkerError);
});

test('two ranks training one flat parameter buffer agree with one rank, and repeat bit for bit', async () => {
  const [alone] = await group(1, { kind: 'train', turns: 60 });
  const first = await group(2, { kind: 'train', turns: 60 });
  const second = await group(2, { kind: 'train', turns: 60 });
  expect(first[0]!.parameters).toEqual(first[1]!.parameters);
  expect(first[0]!.parameters).toEqual(second[0]!.parameters);
  alone!.parameters!.forEach((value, i) => {
    expect(first[0]!.parameters![i]).toBeCloseTo(value, 4);
  });
  expect(alone!.loss!).toBeLessThan(0.05);
});

test('a gradient that is not finite skips the update on every rank and leaves the parameters alone', async () => {
  const reports = await group(2, { kind: 'poison', turns: 3 });
  for (const report of reports) {
    expect(report.skipped).toBe(3);
    expect(report.parameters!.every((value) => value === 0)).toBe(true);
  }
});

test('a requested stop is seen', () => {
  const memory = workerGroupMemory(1);
  const workers = new WorkerGroup(memory, 0, 1);
  expect(workers.stopRequested()).toBe(false);
  requestStop(memory);
  expect(workers.stopRequested()).toBe(true);
});

test('the shards of all ranks cover a range once', () => {
  for (const [n, size] of [
    [7, 3],
    [2, 4],
    [12, 1],
  ] as const) {
    const memory = workerGroupMemory(size);
    const shares = Array.from({ length: size }, (_, rank) => new WorkerGroup(memory, rank, size).shard(n));
    expect(shares[0]![0]).toBe(0);
    expect(shares.at(-1)![1]).toBe(n);
    shares.slice(1).forEach(([start], i) => {
      expect(start).toBe(shares[i]![1]);
    });
  }
});

test('a rank that waits is released when another one failed', () => {
  const memory = workerGroupMemory(2);
  const workers = new WorkerGroup(memory, 0, 2);
  markFailed(memory);
  expect(() => workers.barrier()).toThrow(WorkerGroupEnded);
});
