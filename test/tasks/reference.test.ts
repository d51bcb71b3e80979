import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import {
  distanceFrom,
  makeReference,
  REFERENCE_FILE,
  readReference,
  writeReference,
} from '../../src/tasks/reference.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('reference');

const D = 6;
const random = new Random(7, 'reference');
/** Around (3, 3, …): the first two dimensions go together, the third varies ten times as much as the others. */
function state(): Float32Array {
  const draws = Array.from({ length: D }, () => random.normal());
  return Float32Array.from(
    draws,
    (value, i) => 3 + (i === 1 ? draws[0]! + 0.1 * value : i === 2 ? 10 * value : value),
  );
}
const training = Array.from({ length: 400 }, state);
const validation = Array.from({ length: 300 }, state);
const reference = makeReference(
  training,
  validation,
  validation.map((_, i) => -i / 1000),
);
const at = (...offsets: number[]): number =>
  distanceFrom(
    reference,
    Float32Array.from({ length: D }, (_, i) => 3 + (offsets[i] ?? 0)),
  );

describe('the distance from what was taught', () => {
  test('is about 1 of what is alike, and its quantiles rise', () => {
    const { p50, p90, p99 } = reference.distance;
    expect(p50).toBeGreaterThan(0.7);
    expect(p50).toBeLessThan(1.2);
    expect(p90).toBeGreaterThan(p50);
    expect(p99).toBeGreaterThan(p90);
    expect(at(0, 0, 0, 0, 0, 0)).toBeLessThan(0.2);
  });

  test('counts in spreads of each direction, and together what goes together', () => {
    expect(at(0, 0, 10)).toBeCloseTo(at(0, 0, 0, 1), 0);
    expect(at(2, -2)).toBeGreaterThan(3 * at(2, 2));
  });

  test('of as many states as dimensions is still finite, and so where a dimension never varies', () => {
    const few = makeReference(training.slice(0, 4), validation, [-1]);
    expect(distanceFrom(few, validation[0]!)).toBeGreaterThan(0);
    const still = training.map((row) => Float32Array.from(row, (value, i) => (i === 5 ? 3 : value)));
    expect(distanceFrom(makeReference(still, still, [-1]), still[0]!)).toBeLessThan(10);
    const one = [Float32Array.of(1, 2), Float32Array.of(1, 2)];
    expect(distanceFrom(makeReference(one, one, [-1]), one[0]!)).toBe(0);
  });

  test('has quantiles of the log-probabilities from the least on', () => {
    expect(reference.logProbability).toEqual({ p01: -0.296, p10: -0.269, p50: -0.149 });
  });
});

describe('its file', () => {
  const file = join(directory, REFERENCE_FILE);

  test('holds the same', () => {
    writeReference(directory, reference);
    expect(readReference(directory, D)).toEqual(reference);
    expect(readReference(join(directory, 'nothing'), D)).toBeNull();
  });

  test.each([
    ['another version', (text: string) => text.replace('"version": 1', '"version": 2'), /version/],
    ['a field that is unknown', (text: string) => text.replace('{', '{ "more": 1,'), /more/],
    ['a field that is missing', (text: string) => text.replace(/"mean".*\n/, ''), /mean/],
    [
      'too few numbers',
      (text: string) => text.replace(/"mean": "\S{8}/, '"mean": "'),
      /mean: expected 6 numbers, got 4/,
    ],
    [
      'a number that is none',
      (text: string) =>
        text.replace(
          /"mean": "[^"]*"/,
          `"mean": "${Buffer.from(new Float32Array(D).fill(Number.NaN).buffer).toString('base64')}"`,
        ),
      /not finite/,
    ],
    [
      'a factor that is none',
      (text: string) =>
        text.replace(
          /"factor": "[^"]*"/,
          `"factor": "${Buffer.from(new Float32Array((D * (D + 1)) / 2).buffer).toString('base64')}"`,
        ),
      /factor: row 0/,
    ],
    ['no JSON', () => 'nothing', /not a reference/],
  ])('is refused with %s', (_, change, message) => {
    writeReference(directory, reference);
    const before = readFileSync(file, 'utf8');
    expect(change(before)).not.toBe(before);
    writeFileSync(file, change(before));
    expect(() => readReference(directory, D)).toThrow(CheckpointError);
    expect(() => readReference(directory, D)).toThrow(message);
  });

  test('is refused beside a policy of another size', () => {
    writeReference(directory, reference);
    expect(() => readReference(directory, 8)).toThrow(/dimensions: 6, the policy has 8/);
  });
});
