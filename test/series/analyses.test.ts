import { describe, expect, it } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { frequencyTest, outlierTest, profileTest, rangeTest, trendTest } from '../../src/series/analyses.ts';

const random = new Random(11, 'analyses');
const noise = Float64Array.from({ length: 600 }, () => random.normal(0.2, 0.1));
const within =
  ([start, end]: Interval) =>
  (index: number) =>
    index >= start && index < end;

describe('range test', () => {
  it('flags what is more than three standard deviations off, on either side', () => {
    const values = noise.slice();
    values[40] = 1.4;
    values[300] = -1.1;
    const test = rangeTest(values);
    expect(test.intervals).toEqual([
      [40, 41],
      [300, 301],
    ]);
    expect(test.maxIndex).toBe(300);
    expect(test.upper - test.mean).toBeCloseTo(3 * test.std, 12);
  });

  it('finds nothing in equal values, whose mean carries a rounding error', () => {
    expect(rangeTest(new Float64Array(37).fill(0.1))).toMatchObject({ std: 0, maxAbsZ: 0, intervals: [] });
  });
});

describe('outlier test', () => {
  const stretch: Interval = [200, 350];

  it('finds a long shifted stretch that widens the plain standard deviation too much to be seen whole', () => {
    const shifted = noise.map((value, i) => value + (within(stretch)(i) ? 0.75 : 0));
    expect(rangeTest(shifted).intervals).toEqual([]);
    expect(outlierTest(shifted).intervals).toEqual([stretch]);
  });

  it('leaves the chance extremes of noise alone', () => {
    expect(rangeTest(noise).maxAbsZ).toBeGreaterThan(3);
    expect(outlierTest(noise).intervals).toEqual([]);
  });

  it('keeps the plain moments where most values sit in one narrow cluster', () => {
    const clustered = noise.map((value, i) => (i % 4 === 0 ? value : 0.2));
    clustered[77] = 3;
    const test = outlierTest(clustered);
    expect(test.std).toBe(rangeTest(clustered).std);
    expect(test.intervals).toEqual([[77, 78]]);
  });

  it('finds none among too few values for one', () => {
    expect(outlierTest(Float64Array.of(0, 0.1, 0, 90, 0.1)).intervals).toEqual([]);
  });
});

describe('trend test', () => {
  it('flags a step in a slow curve', () => {
    const test = trendTest(Float64Array.from({ length: 300 }, (_, i) => i / 900 + (i >= 180 ? 2 : 0)));
    expect(test?.intervals.length).toBe(1);
    const [start, end] = test?.intervals[0] ?? [0, 0];
    expect(start).toBeGreaterThan(170);
    expect(end).toBeLessThan(190);
    expect(test?.peak).toBeGreaterThan(test?.threshold ?? 0);
  });

  it('flags nothing on a straight or constant line, which differs from itself by rounding alone', () => {
    const line = Float64Array.from({ length: 150 }, (_, i) => 0.1 + i / 3);
    expect(trendTest(line)).toMatchObject({ std: 0, peak: 0, intervals: [] });
    expect(trendTest(new Float64Array(150).fill(0.1))).toMatchObject({ mean: 0, std: 0, intervals: [] });
  });

  it('needs 21 samples', () => {
    expect(trendTest(noise.subarray(0, 20))).toBeNull();
    expect(trendTest(noise.subarray(0, 21))).not.toBeNull();
  });
});

describe('frequency test', () => {
  it('flags the windows over a stretch of another period', () => {
    const values = Float64Array.from({ length: 2000 }, (_, i) =>
      Math.sin((2 * Math.PI * i) / (i >= 1200 && i < 1290 ? 5 : 25)),
    );
    const test = frequencyTest(values);
    expect(test?.stable).toBe(false);
    expect(test?.extreme).toBe(5);
    expect(test?.intervals.length).toBe(1);
    const [start, end] = test?.intervals[0] ?? [0, 0];
    expect(start).toBeLessThanOrEqual(1200);
    expect(end).toBeGreaterThanOrEqual(1290);
    expect(end - start).toBeLessThan(250);
  });

  it('calls a single wave stable', () => {
    const test = frequencyTest(
      Float64Array.from({ length: 400 }, (_, i) => Math.sin((2 * Math.PI * i) / 20)),
    );
    expect(test).toMatchObject({ mean: 20, std: 0, stable: true, intervals: [] });
  });

  it('needs 101 samples', () => {
    expect(frequencyTest(noise.subarray(0, 100))).toBeNull();
    expect(frequencyTest(noise.subarray(0, 101))).not.toBeNull();
  });
});

describe('matrix-profile test', () => {
  const bump: Interval = [420, 470];
  const jitter = new Random(5, 'jitter');
  const values = Float64Array.from({ length: 900 }, (_, i) =>
    within(bump)(i) ? jitter.normal(0, 0.5) : Math.sin(i / 5) + jitter.normal(0, 0.02),
  );

  it('finds the stretch that is like no other, and cuts the regions back to it', () => {
    const test = profileTest(values);
    expect(test?.z).toBeGreaterThan(3.5);
    expect(test?.intervals).toEqual([[test?.discord, (test?.discord ?? 0) + 50]]);
    expect(test?.regions.length).toBe(1);
    const [start, end] = test?.regions[0] ?? [0, 0];
    expect(Math.abs(start - bump[0])).toBeLessThan(16);
    expect(Math.abs(end - bump[1])).toBeLessThan(16);
  });

  it('does not look for the discord in the margins', () => {
    // The wave again, without the bump, bent at its beginning.
    const bent = Float64Array.from({ length: 900 }, (_, i) => Math.sin(i / 5) + (i < 20 ? (i * 13) % 7 : 0));
    expect(profileTest(bent)?.discord).toBeLessThan(20);
    expect(profileTest(bent, 25)?.discord).toBeGreaterThanOrEqual(25);
  });

  it('needs 100 samples', () => {
    expect(profileTest(values.subarray(0, 99))).toBeNull();
    expect(profileTest(values.subarray(0, 100))).not.toBeNull();
  });
});
