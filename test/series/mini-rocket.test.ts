import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { joinChannels } from '../../src/series/dtw.ts';
import {
  biasesOf,
  dilationsFor,
  fitMiniRocket,
  KERNELS,
  MiniRocketTransform,
} from '../../src/series/mini-rocket.ts';
import { fitRidge, ridgeClass, ridgeValues } from '../../src/series/ridge.ts';

interface Golden {
  readonly kernels: number[][];
  readonly dilations: readonly {
    length: number;
    features: number;
    dilations: number[];
    biasesPerKernel: number[];
  }[];
  readonly transforms: readonly {
    series: number[][][];
    features: number;
    dilations: number[];
    biasesPerKernel: number[];
    seen: number[][];
    draws: number[];
    step: number;
    biases: number[];
    rows: number[][];
  }[];
  readonly ridges: readonly {
    rows: number[][];
    labels: string[];
    penalty: number;
    errors: number[];
    fresh: number[][];
    values: number[][];
    predicted: string[];
  }[];
}
const golden = JSON.parse(
  readFileSync(join(import.meta.dirname, '../golden/mini_rocket.json'), 'utf8'),
) as Golden;
const setOf = (series: number[][][]) =>
  series.map((channels) => joinChannels(channels.map((channel) => Float64Array.from(channel))));
const every = (values: ArrayLike<number>, step: number): number[] =>
  Array.from(values).filter((_, i) => i % step === 0);

describe('MiniRocket', () => {
  it("has aeon's kernels, dilations and numbers of biases", () => {
    expect(KERNELS).toEqual(golden.kernels);
    for (const { length, features, ...expected } of golden.dilations) {
      const { dilations, biasesPerKernel } = dilationsFor(length, features);
      expect({ dilations: [...dilations], biasesPerKernel: [...biasesPerKernel] }).toEqual(expected);
    }
  });

  it.each(golden.transforms)(
    "has aeon's biases for the same draws, and its features ($features of them)",
    ({ series, features, dilations, biasesPerKernel, seen, draws, step, biases, rows }) => {
      const all = setOf(series);
      const { length, values } = all[0]!;
      const shape = {
        ...{ length, channels: values.length / length },
        ...dilationsFor(length, features),
        seen: seen.map((channels) => Int32Array.from(channels)),
      };
      expect([...shape.dilations]).toEqual(dilations);
      expect([...shape.biasesPerKernel]).toEqual(biasesPerKernel);
      const own = biasesOf(shape, (k) => all[draws[k]!]!);
      every(own, step).forEach((bias, i) => {
        expect(bias).toBeCloseTo(biases[i]!, 4);
      });
      const transform = new MiniRocketTransform({ ...shape, biases: own });
      // A value that is a bias itself counts or not by the last digit of the quantile.
      const tolerance = 1.5 / (length - 8 * Math.max(...dilations));
      let different = 0;
      for (const [i, one] of all.entries()) {
        every(transform.features(one), step).forEach((feature, f) => {
          expect(Math.abs(feature - rows[i]![f]!)).toBeLessThan(tolerance);
          if (Math.abs(feature - rows[i]![f]!) > 1e-6) different++;
        });
      }
      expect(different).toBeLessThan(0.01 * rows.length * rows[0]!.length);
    },
  );

  it('depends on the seed alone, and on nothing but the training series', () => {
    const all = setOf(golden.transforms[1]!.series);
    const [a, b, c] = [0, 0, 1].map((seed) => fitMiniRocket(all, { features: 168, seed }));
    expect(a).toEqual(b);
    expect(a!.biases).not.toEqual(c!.biases);
    expect(
      a!.seen.every((channels) => channels.length >= 1 && new Set(channels).size === channels.length),
    ).toBe(true);
    expect(fitMiniRocket(all, { features: 100 }).biases.length).toBe(84);
  });

  it('refuses series that it cannot compare', () => {
    const [one] = setOf([[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]]);
    const [short] = setOf([[[1, 2, 3, 4, 5, 6, 7, 8]]]);
    expect(() => fitMiniRocket([])).toThrow(ConfigError);
    expect(() => fitMiniRocket([short!])).toThrow('expected at least 9');
    expect(() => fitMiniRocket([one!, short!])).toThrow(
      'a series of 8 samples and 1 channels, expected 10 and 1',
    );
    expect(() => fitMiniRocket([one!], { features: 0.5 })).toThrow(ConfigError);
    expect(() => new MiniRocketTransform(fitMiniRocket([one!])).features(short!)).toThrow(ConfigError);
  });
});

describe('ridge classification', () => {
  it.each(golden.ridges)(
    'chooses the penalty of scikit-learn and predicts as it does: $labels',
    async (one) => {
      const rows = one.rows.map((row) => Float32Array.from(row));
      const ridge = await fitRidge(rows, one.labels);
      expect(ridge.penalty).toBeCloseTo(one.penalty, 9);
      ridge.errors.forEach((error, k) => {
        expect(error / one.errors[k]!).toBeCloseTo(1, 6);
      });
      for (const [i, fresh] of one.fresh.entries()) {
        const row = Float32Array.from(fresh);
        ridgeValues(ridge, row).forEach((value, t) => {
          expect(value).toBeCloseTo(one.values[i]![t]!, 6);
        });
        expect(ridgeClass(ridge, row)).toBe(one.predicted[i]);
      }
    },
  );

  it('refuses what nothing can be learned from, and stops when asked to', async () => {
    const rows = [Float32Array.of(1, 2), Float32Array.of(3, 1), Float32Array.of(0, 1)];
    await expect(fitRidge(rows, ['a', 'a', 'a'])).rejects.toThrow(ConfigError);
    await expect(fitRidge(rows.slice(0, 1), ['a'])).rejects.toThrow(ConfigError);
    await expect(fitRidge([...rows.slice(1), Float32Array.of(1)], ['a', 'b', 'b'])).rejects.toThrow(
      'of 2 and of 1',
    );
    await expect(fitRidge(rows, ['a', 'b', 'b'], { penalties: [] })).rejects.toThrow(ConfigError);
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(fitRidge(rows, ['a', 'b', 'b'], { signal })).rejects.toThrow('enough');
  });
});
