import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { fitLine, median, moments, noiseSigma, quantileInPlace, summarise } from '../../src/series/stats.ts';
import golden from '../golden/analysis.json' with { type: 'json' };

const seriesOf = (name: string): Float64Array =>
  Float64Array.from((golden.series as Record<string, number[]>)[name]!);

describe('summary statistics', () => {
  it.each(golden.summary.map((row) => [row.series, row] as const))('agree with SciPy on %s', (name, row) => {
    const summary = summarise(seriesOf(name));
    const pairs: [number, number | null][] = [
      [summary.mean, row.mean],
      [summary.std, row.std_pop],
      [summary.sampleStd, row.std_sample],
      [summary.min, row.min],
      [summary.max, row.max],
      [summary.q1, row.q1],
      [summary.median, row.median],
      [summary.q3, row.q3],
      [summary.mad, row.mad_raw],
      [summary.skew, row.skew],
      [summary.excessKurtosis, row.excess_kurtosis],
    ];
    for (const [got, expected] of pairs) {
      if (expected === null) expect(got).toBeNaN();
      else expect(got).toBeCloseTo(expected, 8);
    }
  });

  it('give a constant series no spread and no shape, whatever its rounding', () => {
    const summary = summarise(new Float64Array(37).fill(0.1));
    expect(summary.mean).toBe(0.1);
    expect(summary.std).toBe(0);
    expect(summary.skew).toBeNaN();
  });

  it('select the same quantiles as a full sort', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 1, maxLength: 60 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (list, q) => {
          const sorted = Float64Array.from(list).sort();
          const position = q * (list.length - 1);
          const low = sorted[Math.floor(position)]!;
          const high = sorted[Math.ceil(position)]!;
          const expected = low + (position - Math.floor(position)) * (high - low);
          expect(quantileInPlace(Float64Array.from(list), list.length, q)).toBeCloseTo(expected, 10);
        },
      ),
    );
  });

  it('leave the series unchanged', () => {
    const values = Float64Array.of(3, 1, 2, 9);
    summarise(values);
    median(values);
    expect([...values]).toEqual([3, 1, 2, 9]);
  });
});

describe('line fit', () => {
  it('recovers slope, intercept and residual of a line with a known rest', () => {
    const values = Float64Array.from({ length: 8 }, (_, i) => 2 + 0.5 * i + ([1, -1, -1, 1][i % 4] ?? 0));
    const line = fitLine(values);
    expect(line.slope).toBeCloseTo(0.5, 12);
    expect(line.intercept).toBeCloseTo(2, 12);
    expect(line.residualStd).toBeCloseTo(1, 12);
  });

  it('is flat through a single value', () => {
    expect(fitLine(Float64Array.of(7))).toMatchObject({ slope: 0, intercept: 7, r2: 0, residualStd: 0 });
  });
});

describe('noise estimate', () => {
  const random = new Random(7, 'noise');
  const noise = Float64Array.from({ length: 4000 }, () => random.normal(0.3, 0.2));

  it('finds the noise under a wave ten times as large', () => {
    const values = noise.map((value, i) => 3 * Math.sin(i / 20) + value);
    const truth = moments(noise).std;
    expect(Math.abs(noiseSigma(values) / truth - 1)).toBeLessThan(0.1);
  });

  it('is unmoved by a stretch of outliers', () => {
    const values = noise.map((value, i) => value + (i > 500 && i < 700 ? 50 : 0));
    expect(Math.abs(noiseSigma(values) / noiseSigma(noise) - 1)).toBeLessThan(0.05);
  });

  it('is zero below four values', () => {
    expect(noiseSigma(Float64Array.of(1, 5, 2))).toBe(0);
  });
});
