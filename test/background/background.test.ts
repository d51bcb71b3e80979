/** Backgrounds learned from windows: seasonal block bootstrap, flow matching, PrismFlow. */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { openEngine } from '../../src/answer/local.ts';
import {
  type Background,
  learnBackground,
  METHODS,
  type Method,
  readBackgrounds,
  sampleBackground,
  type Windows,
  writeBackgrounds,
} from '../../src/background/background.ts';
import { dynamics, Network, type Shape } from '../../src/background/flow.ts';
import { likeness, nearestDistance } from '../../src/background/likeness.ts';
import { Random } from '../../src/ground/random.ts';
import { periodogram } from '../../src/series/spectrum.ts';

const engine = openEngine();
const open = () => engine;
const directory = mkdtempSync(join(tmpdir(), 'backgrounds-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** Windows of 120 samples of a recording with a season of 24, in tenths, not negative. */
function seasonal(seed = 1): Windows {
  const random = new Random(seed, 'seasonal');
  const values = Float64Array.from(
    { length: 960 },
    (_, t) => Math.round(10 * (4 + 3 * Math.sin((2 * Math.PI * t) / 24) + random.normal(0, 0.2))) / 10,
  );
  const windows = Array.from({ length: 29 }, (_, i) => ({
    start: 30 * i,
    values: values.slice(30 * i, 30 * i + 120),
  }));
  return { windows, periods: [24] };
}

const QUICK = { seed: 1, steps: 20, width: 16, piece: 40 };
const learn = (method: Method, windows = seasonal()) => learnBackground(method, 'pump', windows, QUICK, open);
const methods = Object.keys(METHODS) as Method[];

describe.each(methods)('a background of %s', (method) => {
  test('samples the same windows from the same seed, and others from another', async () => {
    const background = await learn(method);
    const samples = sampleBackground(background, 3, 7, open);
    expect(samples.map(({ length }) => length)).toEqual([120, 120, 120]);
    expect(sampleBackground(background, 3, 7, open)).toEqual(samples);
    expect(sampleBackground(background, 3, 8, open)).not.toEqual(samples);
    // A window does not depend on how many are sampled beside it.
    expect(sampleBackground(background, 1, 7, open)[0]).toEqual(samples[0]);
  });

  test('is rounded as the recording is, and stays within its range', async () => {
    const background = await learn(method);
    const [low, high] = background.range;
    for (const value of sampleBackground(background, 4, 3, open).flatMap((values) => [...values])) {
      expect(value).toBeGreaterThanOrEqual(low);
      expect(value).toBeLessThanOrEqual(high);
      expect(Math.abs(10 * value - Math.round(10 * value))).toBeLessThan(1e-6);
    }
  });

  test('is the same after it was written and read', async () => {
    const background = await learn(method);
    const folder = join(directory, method);
    writeBackgrounds(folder, [background, { ...background, source: 'other' }]);
    const read = readBackgrounds(folder);
    expect(read).toEqual([background, { ...background, source: 'other' }]);
    expect(sampleBackground(read[0]!, 2, 5, open)).toEqual(sampleBackground(background, 2, 5, open));
  });

  test('refuses too few windows, and windows of one value', async () => {
    const { windows, periods } = seasonal();
    await expect(learn(method, { windows: windows.slice(0, 3), periods })).rejects.toThrow(
      'pump: 3 windows to learn from; at least 4 are needed',
    );
    const flat = windows.map(({ start }) => ({ start, values: new Float64Array(120).fill(5) }));
    await expect(learn(method, { windows: flat, periods })).rejects.toThrow('pump: all values are 5');
  });
});

test('a directory without backgrounds is refused, and a damaged one named', async () => {
  expect(() => readBackgrounds(join(directory, 'none'))).toThrow('no learned backgrounds there');
  const folder = join(directory, 'damaged');
  writeBackgrounds(folder, [await learn('bootstrap')]);
  truncateSync(join(folder, '000', 'background.safetensors'), 100);
  expect(() => readBackgrounds(folder)).toThrow('background.safetensors');
  writeFileSync(join(folder, '000', 'background.json'), '{"version": 2}');
  expect(() => readBackgrounds(folder)).toThrow('background.json: version');
});

describe('the seasonal block bootstrap', () => {
  test('keeps the season through all joins', async () => {
    const background = await learn('bootstrap');
    const windows = sampleBackground(background, 20, 1, open);
    for (const values of windows) {
      const { power } = periodogram(values);
      const total = power.reduce((sum, value) => sum + value, 0);
      expect(power[5]! / total).toBeGreaterThan(0.9); // five cycles of 24 samples
    }
    expect(new Set(windows.map((values) => values.join())).size).toBe(20);
  });

  test('takes no value from between the windows', async () => {
    const { windows, periods } = seasonal();
    const apart = windows.filter(({ start }) => start < 360 || start >= 600);
    const held = new Set(apart.flatMap(({ values }) => [...values]));
    const background = await learn('bootstrap', { windows: apart, periods });
    for (const value of sampleBackground(background, 10, 1, open).flatMap((values) => [...values])) {
      expect([...held].some((known) => Math.abs(known - value) < 1e-9)).toBe(true);
    }
  });
});

describe('PrismFlow', () => {
  const shape: Shape = { piece: 12, condition: 13, width: 8, experts: 4 };
  const randomly = (seed: number) =>
    new Network(engine, shape, (name, size) => {
      const random = new Random(seed, name);
      return Float32Array.from({ length: size }, () => random.normal(0, 0.3));
    });

  test('equals plain flow matching without its correction', async () => {
    const [flow, prism] = [await learn('flow'), await learn('prism')];
    const uncorrected: Background = { ...prism, settings: { ...prism.settings, gamma: 0 } };
    expect(sampleBackground(uncorrected, 3, 7, open)).toEqual(sampleBackground(flow, 3, 7, open));
    expect(sampleBackground(prism, 3, 7, open)).not.toEqual(sampleBackground(flow, 3, 7, open));
  });

  test('gives a gradient to the experts that won, and none to the others', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 999 }), (seed) => {
        const network = randomly(seed);
        const random = new Random(seed, 'batch');
        const draw = (size: number) => Float32Array.from({ length: size }, () => random.normal());
        const rows = 3;
        engine.scope(() => {
          const { loss, winners } = network.loss({
            ...{ begins: draw(rows * 12), ends: draw(rows * 12), condition: draw(rows * 13) },
            times: Float32Array.from({ length: rows }, () => random.between(0.1, 0.9)),
          });
          const won = [0, 1, 2, 3].map((k) => winners.some((weight, i) => i % 4 === k && weight > 0));
          expect(won).toContain(false);
          const gradients = engine.grad(loss, [network.weights['skew']!, network.weights['decay']!]);
          for (const gradient of gradients) {
            const values = engine.floats(gradient);
            const moved = [0, 1, 2, 3].map((k) =>
              values.subarray(k * 256, (k + 1) * 256).some((g) => g !== 0),
            );
            expect(moved).toEqual(won);
          }
        });
        network.dispose();
      }),
      { numRuns: 20 },
    );
  });

  test('has experts whose eigenvalues have real parts of at most −0.01', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 999 }),
        fc.double({ min: 0, max: 3, noNaN: true }),
        (seed, size) => {
          const random = new Random(seed, 'dynamics');
          const draw = (count: number) => Float32Array.from({ length: count }, () => size * random.normal());
          const values = engine.scope(() =>
            engine.doubles(
              dynamics(
                engine,
                engine.tensor(draw(1024), [4, 16, 16]),
                engine.tensor(draw(1024), [4, 16, 16]),
              ),
            ),
          );
          // Re μ ≤ max xᵀAx over unit x, by which every eigenvector is bounded.
          for (let k = 0; k < 4; k++) {
            const x = Float64Array.from({ length: 16 }, () => random.normal());
            const [square, product] = [
              x.reduce((sum, a) => sum + a * a, 0),
              quadratic(values.subarray(256 * k), x),
            ];
            expect(product / square).toBeLessThanOrEqual(-0.01 + 1e-4 * (1 + size * size));
          }
        },
      ),
    );
  });
});

function quadratic(matrix: Float64Array, x: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < 16; i++) for (let j = 0; j < 16; j++) sum += x[i]! * matrix[16 * i + j]! * x[j]!;
  return sum;
}

describe('likeness', () => {
  const windowsOf = (seed: number, change: (value: number) => number = (value) => value) =>
    seasonal(seed).windows.map(({ values }) => values.map(change));

  test('tells windows of the same source from those of another', async () => {
    const [real, training] = [windowsOf(1), windowsOf(2)];
    const same = await likeness(real, windowsOf(3), training);
    const random = new Random(1, 'noise');
    const other = await likeness(
      real,
      windowsOf(3, () => random.normal(10, 4)),
      training,
    );
    expect(same.spectral.generated).toBeLessThan(2);
    expect(other.spectral.generated).toBeGreaterThan(5);
    expect(same.autocorrelation.generated).toBeLessThan(0.1);
    expect(other.autocorrelation.generated).toBeGreaterThan(0.5);
    expect(other.discriminative.generated).toBeGreaterThan(0.4);
    expect(Math.abs(same.mean.real - same.mean.generated)).toBeLessThan(0.2);
    expect(Math.abs(same.spread.real - same.spread.generated)).toBeLessThan(0.2);
    expect(other.mean.generated).toBeGreaterThan(9);
    expect(other.spread.generated).toBeGreaterThan(3.5);
  });

  test('shows copies by their distance to the nearest training window', async () => {
    const [real, training] = [windowsOf(1), windowsOf(2)];
    const { nearest } = await likeness(real, training, training);
    expect(nearest.generated).toBe(0);
    expect(nearest.real).toBeGreaterThan(0.05);
    expect(nearestDistance(Float64Array.of(1, 2), [Float64Array.of(5, 5), Float64Array.of(1, 4)])).toBe(
      Math.sqrt(2),
    );
  });
});
