/**
 * Policies on small classification sets, from random weights and from trained ones, beside classical classifiers:
 *
 *     npm run bench -- classify [--sets cbf,umd] [--arms random,small+augment] [--start DIR] [--seed 1] [--samples 6000] [--data DIR…]
 *
 * Sets are those of archive.ts, drawn with --seed (settings were chosen with seed 0), and prepared data sets of --data. An arm is a start
 * (random, small, or start: the policy of --start), with `+augment` and `+answers` (no traces).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { custom } from '../../datasets/benchmarks/custom.ts';
import { prepare } from '../../datasets/prepare.ts';
import { columns } from '../../src/ground/terminal.ts';
import { evaluate, sft } from '../../src/index.ts';
import { ARCHIVE, archiveLines } from './archive.ts';

const { values: given } = parseArgs({
  options: {
    sets: { type: 'string', default: Object.keys(ARCHIVE).join(',') },
    arms: { type: 'string', default: 'random,random+augment,small,small+augment' },
    start: { type: 'string' },
    seed: { type: 'string', default: '1' },
    samples: { type: 'string', default: '6000' },
    rate: { type: 'string' },
    augment: { type: 'string', default: 'jitter=0.1,scale=0.1,warp=0.2,crop=0.15' },
    data: { type: 'string', multiple: true, default: [] },
    json: { type: 'boolean', default: false },
  },
});

const AUGMENT = {
  ...{ jitter: 0, scale: 0, warp: 0, crop: 0, flip: 0 },
  ...Object.fromEntries(
    given.augment.split(',').map((pair) => [pair.split('=')[0], Number(pair.split('=')[1])]),
  ),
};
const CLASSICAL = { '1nn-euclid': '1-NN-ED', '1nn-dtw': '1-NN-DTW', minirocket: 'MiniRocket' } as const;

const root = mkdtempSync(join(tmpdir(), 'timeseer-classify-'));
process.once('exit', () => rmSync(root, { recursive: true, force: true }));

/** Trains an arm on a data set. @returns the directory of the policy, and seconds */
async function train(arm: string, data: string): Promise<{ policy: string; seconds: number }> {
  const [start = '', ...more] = arm.split('+');
  const policy = start === 'random' ? 'nano' : start === 'start' ? given.start! : start;
  const began = performance.now();
  const last: { loss: number; ms: object }[] = [];
  const trained = await sft({
    ...{ policy, examples: data, seed: Number(given.seed) + 42, samples: Number(given.samples) },
    learningRate: given.rate === undefined ? (start === 'random' ? 1.4e-3 : 5e-4) : Number(given.rate),
    ...(more.includes('augment') ? { augment: AUGMENT } : {}),
    ...(more.includes('answers') ? { traces: 'none' as const } : {}),
    onStep: (metrics) => void last.splice(0, 1, metrics),
  });
  console.error(
    `${arm}: loss ${last[0]!.loss.toFixed(3)} per token, ms of the last step ${JSON.stringify(last[0]!.ms)}`,
  );
  return { policy: trained.policy, seconds: (performance.now() - began) / 1000 };
}

/** Accuracy of a policy or classifier on the test split. */
async function accuracy(policy: string, data: string): Promise<number> {
  const result = await evaluate({ policy, task: data, workers: 1, maxTokens: 160, classical: false });
  if (result.kind !== 'single') throw new Error('expected one policy on one data set');
  const metrics = result.sets[0]![1] as { overall: Record<string, { mean: number }> };
  return metrics.overall['class_accuracy']!.mean;
}

const arms = given.arms.split(',').filter((arm) => arm !== '');
const rows: Record<string, number | string>[] = [];
const sets: string[] = [...given.data];
for (const name of given.sets.split(',').filter((set) => set !== '')) {
  const file = join(root, `${name}.jsonl`);
  writeFileSync(file, archiveLines(name, Number(given.seed)));
  const directory = join(root, name);
  await prepare(custom, directory, { directory: file });
  sets.push(directory);
}
for (const data of sets) {
  const row: Record<string, number | string> = { set: basename(data) };
  for (const [name, label] of Object.entries(CLASSICAL))
    row[label] = await accuracy(`baseline:${name}`, data);
  for (const arm of arms) {
    const { policy, seconds } = await train(arm, data);
    row[arm] = await accuracy(policy, data);
    row[`${arm} s`] = Math.round(seconds);
    console.error(JSON.stringify(row));
  }
  rows.push(row);
}
if (given.json) console.log(JSON.stringify(rows));
else {
  const names = ['set', ...Object.values(CLASSICAL), ...arms];
  const mean = (name: string): number =>
    rows.reduce((sum, row) => sum + Number(row[name] ?? Number.NaN), 0) / rows.length;
  const means = { set: 'mean', ...Object.fromEntries(names.slice(1).map((name) => [name, mean(name)])) };
  const cell = (value: number | string | undefined): string =>
    typeof value === 'number' ? value.toFixed(3) : (value ?? '–');
  console.log(
    columns([names, ...[...rows, means].map((row) => names.map((name) => cell(row[name as never])))]),
  );
}
