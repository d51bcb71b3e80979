import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { expectedDepth, isolationOfWindows, isolationScores } from '../../src/series/isolation-forest.ts';
import { spectralResidual } from '../../src/series/point-scores.ts';
import {
  hampel,
  hampelScore,
  outlierIndices,
  runningMedians,
  summariseRobustly,
  trimmedMean,
  winsorizedMean,
} from '../../src/series/robust.ts';
import { analysis, series, seriesOf, worst } from './golden.ts';

const random = new Random(31, 'outliers');

describe('robust statistics', () => {
  it.each(series.robust.map((row) => [row.series, row] as const))('agree with SciPy on %s', (name, row) => {
    const values = seriesOf(name);
    const summary = summariseRobustly(values);
    expect(
      worst(
        [
          summary.iqr,
          summary.scaledMad,
          summary.trimmedMean,
          trimmedMean(values, 0.25),
          summary.winsorizedMean,
        ],
        [row.iqr, row.scaledMad, row.trimmed10, row.trimmed25, row.winsorized10],
      ),
    ).toBeLessThan(1e-12);
  });

  it.each(
    analysis.summary.flatMap((row) =>
      'abs_z_gt_3' in row
        ? [[row.series, row.abs_z_gt_3, row.iqr_1_5_outliers, row.modified_z_gt_3_5] as const]
        : [],
    ),
  )('name the outliers of %s as the definitions do', (name, byZ, byFence, byModifiedZ) => {
    expect(outlierIndices(seriesOf(name))).toEqual({ byZ, byFence, byModifiedZ });
  });

  it('name no outliers in a constant series, and refuse gaps, nothing, and parts out of range', () => {
    expect(outlierIndices(new Float64Array(30).fill(0.1))).toEqual({ byZ: [], byFence: [], byModifiedZ: [] });
    expect(() => outlierIndices(Float64Array.of(1, Number.NaN))).toThrow(DataError);
    expect(() => trimmedMean(Float64Array.of(1, 2), 0.5)).toThrow(ConfigError);
    expect(() => winsorizedMean(new Float64Array(0), 0.1)).toThrow(ConfigError);
  });
});

describe('Hampel filter', () => {
  it("scores by Hampel's rule exceed the number of MADs where the filter finds outliers", () => {
    for (const { series: name, half, sigmas } of series.hampel) {
      const values = seriesOf(name);
      const scores = hampelScore(values, half);
      const above = Int32Array.from(scores.keys()).filter((i) => scores[i]! > sigmas);
      expect(above).toEqual(hampel(values, { half, sigmas }).outliers);
    }
    expect(hampelScore(Float64Array.of(2, 2, 2, 2, 7, 2, 2, 2))).toEqual(
      Float64Array.of(0, 0, 0, 0, 1e6, 0, 0, 0),
    );
  });

  it.each(series.hampel.map((row) => [row.series, row.half, row.sigmas, row] as const))(
    'agrees with pandas on %s, half window %i, %f sigmas',
    (name, half, sigmas, row) => {
      const { filtered, outliers } = hampel(seriesOf(name), { half, sigmas });
      expect([...outliers]).toEqual(row.outliers);
      expect(worst(filtered, row.out)).toBeLessThan(1e-12);
    },
  );

  it('leaves clean data alone, so that a second pass over a line or a slow wave changes nothing', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -40, max: 40 }),
        fc.integer({ min: 0, max: 59 }),
        fc.integer({ min: 2, max: 9 }),
        (eighths, at, half) => {
          const slope = eighths / 8;
          const line = Float64Array.from({ length: 60 }, (_, i) => 3 + slope * i);
          expect(hampel(line, { half }).filtered).toEqual(line);
          const spiked = line.slice();
          spiked[at]! += 40 + Math.abs(slope) * 100;
          const once = hampel(spiked, { half });
          expect([...once.outliers]).toContain(at);
          const twice = hampel(once.filtered, { half });
          // What is left of the spike is a median of its neighbours: it lies among them.
          expect([...twice.outliers]).not.toContain(at);
        },
      ),
    );
    const wave = Float64Array.from({ length: 300 }, (_, i) => Math.sin(i / 20));
    const { filtered, outliers } = hampel(wave, { half: 6, sigmas: 4 });
    expect(outliers.length).toBe(0);
    expect(hampel(filtered, { half: 6, sigmas: 4 }).filtered).toEqual(filtered);
  });

  it('treats any departure from an equal majority as an outlier, and refuses gaps and odd options', () => {
    const values = new Float64Array(20).fill(2);
    values[7] = 2.001;
    expect([...hampel(values).outliers]).toEqual([7]);
    expect(hampel(new Float64Array(0)).filtered.length).toBe(0);
    expect(() => hampel(Float64Array.of(1, Number.NaN))).toThrow(DataError);
    expect(() => hampel(values, { half: 0 })).toThrow(ConfigError);
    expect(() => hampel(values, { sigmas: -1 })).toThrow(ConfigError);
  });
});

describe('spectral residual', () => {
  it.each(series.spectral_residual.map((row) => [row.series, row.extend, row] as const))(
    'agrees with NumPy on %s, extended %s',
    (name, extend, row) => {
      const { saliency, score } = spectralResidual(seriesOf(name), { extend: extend ? 5 : 0 });
      expect(worst(saliency, row.saliency)).toBeLessThan(1e-10);
      expect(worst(score, row.score)).toBeLessThan(1e-9);
    },
  );

  it('scores a lone spike in a wave highest, also at the last sample', () => {
    for (const at of [250, 399]) {
      const values = Float64Array.from({ length: 400 }, (_, i) => Math.sin(i / 7) + (i === at ? 3 : 0));
      const { score } = spectralResidual(values);
      expect(score.indexOf(Math.max(...score))).toBe(at);
      expect(score[at]).toBeGreaterThan(3);
    }
  });

  it('is finite for constants, single values and nothing', () => {
    for (const n of [0, 1, 2, 7, 40]) {
      const { saliency, score } = spectralResidual(new Float64Array(n).fill(0.1));
      expect(saliency.every(Number.isFinite)).toBe(true);
      expect(score.every((value) => Math.abs(value) < 1e-6)).toBe(true);
    }
    expect(spectralResidual(new Float64Array(12)).score).toEqual(new Float64Array(12));
  });

  it('refuses gaps and options out of range', () => {
    expect(() => spectralResidual(Float64Array.of(1, Number.NaN))).toThrow(DataError);
    expect(() => spectralResidual(Float64Array.of(1, 2), { average: 4 })).toThrow(ConfigError);
    expect(() => spectralResidual(Float64Array.of(1, 2), { before: 0 })).toThrow(ConfigError);
  });
});

describe('isolation forest', () => {
  const { rows, sample, scores } = series.isolation_forest;
  const table = Float64Array.from(rows.flat());

  it('converges to the scores of scikit-learn', () => {
    const own = isolationScores(table, 2, { trees: 1500, sample });
    for (const [i, expected] of scores.entries()) expect(Math.abs(own[i]! - expected)).toBeLessThan(0.012);
  });

  it('repeats with its seed, differs with another, and gives equal rows equal scores', () => {
    const doubled = Float64Array.from([...table, ...table]);
    const own = isolationScores(doubled, 2, { trees: 20 });
    expect(isolationScores(doubled, 2, { trees: 20 })).toEqual(own);
    expect(isolationScores(doubled, 2, { trees: 20, seed: 1 })).not.toEqual(own);
    expect(own.subarray(0, rows.length)).toEqual(own.subarray(rows.length));
  });

  it('does not depend on scale or offset of a column, and ignores one that never varies', () => {
    const moved = Float64Array.from(rows.flatMap(([a, b]) => [7, 4 * a! - 64, b! / 8]));
    const own = isolationScores(table, 2, { trees: 300 });
    const other = isolationScores(moved, 3, { trees: 300 });
    for (const [i, score] of own.entries()) expect(Math.abs(other[i]! - score)).toBeLessThan(1e-9);
  });

  it('scores ½ where all rows are equal, and finds a strange stretch of a series', () => {
    expect(worst(isolationScores(new Float64Array(40).fill(3), 2), Array(20).fill(0.5))).toBeLessThan(1e-14);
    expect(isolationScores(Float64Array.of(1, 2), 2)).toEqual(Float64Array.of(0.5));
    const values = Float64Array.from({ length: 500 }, (_, i) =>
      i >= 300 && i < 320 ? random.normal(0, 3) : Math.sin(i / 5),
    );
    const own = isolationOfWindows(values, 8);
    const top = own.indexOf(Math.max(...own));
    expect(top).toBeGreaterThan(290);
    expect(top).toBeLessThan(328);
    expect(isolationOfWindows(values.subarray(0, 8), 8)).toEqual(new Float64Array(8).fill(0.5));
  });

  it('expects the depth of a random search tree', () => {
    // n points are parted by k with probability 1/(n − 1): D(n) = 1 + 2/(n(n − 1)) · Σ k·D(k), exactly 2(H(n) − 1) on average per point.
    expect([expectedDepth(1), expectedDepth(2)]).toEqual([0, 1]);
    expect(expectedDepth(256)).toBeCloseTo(10.24477092, 6);
  });

  it('refuses gaps and sizes out of range', () => {
    expect(() => isolationScores(Float64Array.of(1, 2, Number.NaN, 4), 2)).toThrow(/row 1, column 0/);
    expect(() => isolationScores(table, 4)).toThrow(ConfigError);
    expect(() => isolationScores(table, 2, { trees: 0 })).toThrow(ConfigError);
    expect(() => isolationScores(table, 2, { sample: 1 })).toThrow(ConfigError);
  });
});

/** Median of every window by sorting it. */
function sortedMedians(values: Float64Array, window: number, stride: number): number[] {
  const medians: number[] = [];
  for (let start = 0; start + window <= values.length; start++) {
    const taken: number[] = [];
    for (let i = start; i < start + window; i += stride) taken.push(values[i]!);
    taken.sort((a, b) => a - b);
    const low = taken[(taken.length - 1) >> 1]!;
    medians.push(low + 0.5 * (taken[taken.length >> 1]! - low));
  }
  return medians;
}

describe('running medians', () => {
  it('are those of the sorted windows, ties and strides included', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: -3, max: 3 }), fc.double({ min: -9, max: 9, noNaN: true })), {
          minLength: 1,
          maxLength: 70,
        }),
        fc.integer({ min: 1, max: 30 }),
        fc.integer({ min: 1, max: 5 }),
        (list, window, stride) => {
          const values = Float64Array.from(list, (value) => value + 0);
          const expected = sortedMedians(values, window, stride);
          expect([...runningMedians(values, window, stride)]).toEqual(expected);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('are none for a series shorter than the window', () => {
    expect(runningMedians(Float64Array.of(4, 1, 3), 4)).toEqual(new Float64Array(0));
    expect(runningMedians(Float64Array.of(4, 1, 3), 3)).toEqual(Float64Array.of(3));
    expect(runningMedians(Float64Array.of(4, 1, 3, 9), 3, 2)).toEqual(Float64Array.of(3.5, 5));
  });
});
