/** The policy of the package itself: it finds what is obvious, and its confidences can be fitted again. */
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { detect } from '../../src/detect/detect.ts';
import {
  accountsOf,
  confidenceOf,
  EVIDENCE,
  type Evidence,
  isRight,
  placesOf,
  readConfidence,
  SUPPORT,
  type Support,
  weighAccounts,
} from '../../src/explain/confidence.ts';
import { askAll } from '../../src/explain/policy-answers.ts';
import { policiesDirectory } from '../../src/ground/paths.ts';
import { Random } from '../../src/ground/random.ts';
import { calibratePolicy } from '../../src/run/calibrate.ts';
import { openReader } from '../../src/run/explain.ts';
import { bridge } from '../../src/series/missing.ts';
import { inside } from '../helpers/command-line.ts';
import { LENGTH, writeObvious } from '../helpers/obvious.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('small');

const small = join(policiesDirectory(), 'small');

const table = join(root, 'obvious.csv');
beforeAll(() => writeObvious(table));

/**
 * The maximum of the penalised likelihood by plain gradient ascent: weights of inputs in units of their standard deviations cost half their
 * square, and one example at the mean is half right.
 */
function fitIndependently<Name extends string>(
  names: readonly Name[],
  examples: readonly { readonly inputs: Readonly<Record<Name, number>>; readonly right: boolean }[],
): (inputs: Readonly<Record<Name, number>>) => number {
  const columns = names.map((name) => examples.map(({ inputs }) => inputs[name]));
  const means = columns.map((column) => column.reduce((a, b) => a + b) / column.length);
  const stds = columns.map(
    (column, k) => Math.sqrt(column.reduce((sum, x) => sum + (x - means[k]!) ** 2, 0) / column.length) || 1,
  );
  const scaled = (inputs: Readonly<Record<Name, number>>): number[] => [
    1,
    ...names.map((name, k) => (inputs[name] - means[k]!) / stds[k]!),
  ];
  const weights = [1, ...names].map(() => 0);
  const share = (row: readonly number[]): number =>
    1 / (1 + Math.exp(-row.reduce((sum, x, k) => sum + x * weights[k]!, 0)));
  const rows = [
    ...examples.map(({ inputs, right }) => [scaled(inputs), Number(right)] as const),
    [[1, ...names.map(() => 0)], 0.5] as const,
  ];
  for (let step = 0; step < 6000; step++) {
    const slope = weights.map((weight, k) => (k === 0 ? 0 : -weight));
    for (const [row, target] of rows) {
      const residual = target - share(row);
      for (const [k, x] of row.entries()) slope[k]! += residual * x;
    }
    for (const [k, value] of slope.entries()) weights[k]! += value / rows.length;
  }
  return (inputs) => share(scaled(inputs));
}

test('calibrate writes the logistic regression of what is right among the intervals that a policy marks', async () => {
  const copy = join(root, 'copy');
  cpSync(small, copy, { recursive: true });
  const shipped = readConfidence(copy)!;
  const { code, out } = await inside('calibrate', '--policy', copy, '--count', '2', '--seed', '5', '--json');
  expect(code).toBe(0);
  const model = readConfidence(copy)!;
  expect(model.weights).not.toEqual(shipped.weights);
  const { reliability } = JSON.parse(out) as { reliability: { intervals: number; right: number }[] };

  const examples: { inputs: Support; right: boolean }[] = [];
  const places: { inputs: Evidence; right: boolean }[] = [];
  const { reader, policy } = await openReader(copy, {
    engine: undefined,
    device: undefined,
    calibrated: false,
  });
  for (const [times, count] of [
    [1, 2],
    [4, 1],
    [9, 1],
  ] as const) {
    const series = openExamples({
      name: 'wild',
      split: 'validation',
      seed: 5,
      length: times * LENGTH,
      count,
    });
    for (const { channels, gold } of series) {
      const { values } = bridge(channels[0]!);
      const truth = gold.kind === 'anomaly' ? gold.intervals : [];
      const accounts = accountsOf(await askAll(values, null, reader), values);
      for (const { interval, support } of accounts)
        if (support !== null) examples.push({ inputs: support, right: isRight(interval, truth) });
      for (const { interval, evidence } of placesOf(weighAccounts(accounts, model), detect(values).findings))
        places.push({ inputs: evidence, right: isRight(interval, truth) });
    }
  }
  await policy.dispose();

  const right = examples.filter((example) => example.right).length;
  expect(model.fitted).toMatchObject({ series: 4, intervals: examples.length, right });
  expect(reliability.reduce((sum, row) => sum + row.intervals, 0)).toBe(places.length);
  expect(reliability.reduce((sum, row) => sum + row.right, 0)).toBe(places.filter((one) => one.right).length);
  const support = fitIndependently(SUPPORT, examples);
  for (const { inputs } of examples) expect(confidenceOf(model, inputs)).toBeCloseTo(support(inputs), 4);
  const evidence = fitIndependently(EVIDENCE, places);
  for (const { inputs } of places)
    expect(confidenceOf(model.evidence, inputs)).toBeCloseTo(evidence(inputs), 4);

  // Recordings say what the policy is worth beside the detector, and change nothing in its own confidence.
  const random = new Random(8, 'recording');
  const recording = join(root, 'recording.csv');
  const rows = Array.from({ length: 240 }, (_, i) => 5 + Math.sin(i / 4) + random.normal(0, 0.1));
  writeFileSync(recording, `load\n${rows.join('\n')}\n`);
  const again = await inside(
    'calibrate',
    '--policy',
    copy,
    '--count',
    '2',
    '--seed',
    '5',
    '--data',
    recording,
  );
  expect(again.code).toBe(0);
  const other = readConfidence(copy)!;
  expect([other.constant, other.weights]).toEqual([model.constant, model.weights]);
  expect(other.evidence).not.toEqual(model.evidence);
  expect(other.fitted).toMatchObject({ data: 'wild, validation, seed 5; recording.csv', series: 4 });

  // A policy that was adapted to recordings is fitted to them alone, in as many stretches as are asked for.
  const columns = [{ name: 'load', values: Float64Array.from(rows) }];
  const recordings = [{ file: 'load', calendar: [], columns }];
  const { model: adapted } = await calibratePolicy({
    ...{ policy: copy, recordings, count: 30, seed: 5, device: undefined, quiet: true },
  });
  expect(adapted.fitted).toMatchObject({ data: 'recordings', series: 30 });
  expect(adapted.weights).not.toEqual(model.weights);

  // The policy that ships is copied, and the copy is fitted to the recordings alone.
  const own = join(root, 'own');
  const copied = ['calibrate', '--policy', 'small', '--count', '30', '--data', recording, '--out', own];
  expect((await inside(...copied)).code).toBe(0);
  expect(readConfidence(own)).toMatchObject({
    recordingsAlone: true,
    fitted: { data: 'recording.csv', series: 30 },
  });
  expect(readConfidence(small)).toEqual(shipped);
  expect((await inside(...copied)).err).toContain('holds files already');
  expect((await inside('calibrate', '--policy', own)).err).toContain(
    'its confidence is fitted to recordings',
  );
  expect((await inside('explain', recording, '--policy', own, '--out', join(root, 'page'))).code).toBe(0);
});
