import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ANOMLLM_TASKS, type AnomLLMTask, anomllmClass } from '../../datasets/generators/anomllm.ts';
import { SPLITS } from '../../datasets/split.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { anomllm, anomllmMixed, type Series } from '../helpers/series.ts';

interface Reference {
  series: number;
  mean_intervals: number;
  hist_intervals: Record<string, number>;
  no_anomaly_series: number;
  mean_interval_len: number;
  median_len: number;
  min_len: number;
  max_len: number;
  anomalous_point_ratio: number;
  intervals_ending_at_N: number;
  value_min: number;
  value_max: number;
  base_first8?: number[];
}
const golden: { anomllm: Record<string, Reference> } = JSON.parse(
  readFileSync(new URL('../golden/anomllm_stats.json', import.meta.url), 'utf8'),
);

const BLOCK = 400;
const BLOCKS = 12;
const SIGMAS = 4;
const N = 1000;

const mean = (xs: readonly number[]): number => xs.reduce((sum, x) => sum + x, 0) / xs.length;
function deviation(xs: readonly number[]): number {
  const m = mean(xs);
  return Math.sqrt(xs.reduce((sum, x) => sum + (x - m) ** 2, 0) / (xs.length - 1));
}

/** The reference's mean of `n` draws is one that our draws allow. */
function expectSameMean(ours: readonly number[], reference: number, n: number): void {
  const error = deviation(ours) * Math.sqrt(1 / n + 1 / ours.length);
  expect(Math.abs(mean(ours) - reference)).toBeLessThan(SIGMAS * error);
}

/** Upper 1e-4 point of χ² (Wilson and Hilferty). */
const chiSquareBound = (df: number): number => df * (1 - 2 / (9 * df) + 3.72 * Math.sqrt(2 / (9 * df))) ** 3;

const drawn = new Map<AnomLLMTask, Series[]>();
function sample(task: AnomLLMTask): Series[] {
  let series = drawn.get(task);
  if (series === undefined) {
    series = Array.from({ length: BLOCK * BLOCKS }, (_, i) => anomllm(task, 42, 'test', i));
    drawn.set(task, series);
  }
  return series;
}

const references = Object.entries(golden.anomllm).map(([key, stats]) => {
  const [task, split] = key.split('/') as [AnomLLMTask, string];
  return { task, split, stats };
});

describe.each(references)('$task against the reference, $split split', ({ task, stats }) => {
  const all = sample(task);
  const intervals = all.flatMap((s) => s.intervals);
  const lengths = intervals.map(([start, end]) => end - start);
  const total = Object.entries(stats.hist_intervals).reduce((sum, [k, n]) => sum + Number(k) * n, 0);
  const below = (x: number): number => lengths.filter((l) => l < x).length / lengths.length;
  const upTo = (x: number): number => lengths.filter((l) => l <= x).length / lengths.length;

  it('has as many intervals per series, and as many series without one', () => {
    expectSameMean(
      all.map((s) => s.intervals.length),
      stats.mean_intervals,
      stats.series,
    );
    expectSameMean(
      all.map((s) => Number(s.intervals.length === 0)),
      stats.no_anomaly_series / stats.series,
      stats.series,
    );
  });

  it('has the histogram of intervals per series (two-sample χ², p > 1e-4)', () => {
    const most = Math.max(
      ...all.map((s) => s.intervals.length),
      ...Object.keys(stats.hist_intervals).map(Number),
    );
    const cells: [ours: number, theirs: number][] = [];
    let open: [number, number] = [0, 0];
    for (let k = 0; k <= most; k++) {
      open[0] += all.filter((s) => s.intervals.length === k).length;
      open[1] += stats.hist_intervals[k] ?? 0;
      if ((open[0] * stats.series) / all.length >= 5) {
        cells.push(open);
        open = [0, 0];
      }
    }
    const last = cells.at(-1)!;
    last[0] += open[0];
    last[1] += open[1];
    let chi = 0;
    for (const [ours, theirs] of cells) {
      const share = (ours + theirs) / (all.length + stats.series);
      chi += (ours - share * all.length) ** 2 / (share * all.length);
      chi += (theirs - share * stats.series) ** 2 / (share * stats.series);
    }
    expect(cells.length).toBeGreaterThan(1);
    expect(chi).toBeLessThan(chiSquareBound(cells.length - 1));
  });

  it('has the mean, median and extreme lengths of intervals', () => {
    expectSameMean(lengths, stats.mean_interval_len, total);
    const error = (SIGMAS * 0.5) / Math.sqrt(total);
    expect(below(stats.median_len)).toBeLessThan(0.5 + error);
    expect(upTo(stats.median_len)).toBeGreaterThan(0.5 - error);
    // Probability that the extreme of `total` lengths lies at or beyond the reference's, on either side.
    const oneMore = 1 / lengths.length;
    expect((1 - below(stats.min_len)) ** total).toBeGreaterThan(1e-4);
    expect(1 - (1 - upTo(stats.min_len) - oneMore) ** total).toBeGreaterThan(1e-4);
    expect(upTo(stats.max_len) ** total).toBeGreaterThan(1e-4);
    expect(1 - (below(stats.max_len) - oneMore) ** total).toBeGreaterThan(1e-4);
  });

  it('has the share of anomalous points, and of intervals cut at the end', () => {
    expectSameMean(
      all.map((s) => s.intervals.reduce((sum, [start, end]) => sum + end - start, 0) / N),
      stats.anomalous_point_ratio,
      stats.series,
    );
    expectSameMean(
      all.map((s) => Number(s.intervals.at(-1)?.[1] === N)),
      stats.intervals_ending_at_N / stats.series,
      stats.series,
    );
  });

  it('has the range of values of a split', () => {
    const extremes = (pick: (...xs: number[]) => number): number[] =>
      Array.from({ length: BLOCKS }, (_, b) =>
        pick(...all.slice(b * BLOCK, (b + 1) * BLOCK).map((s) => pick(...s.values))),
      );
    for (const [ours, theirs] of [
      [extremes(Math.min), stats.value_min],
      [extremes(Math.max), stats.value_max],
    ] as const) {
      // Five deviations: the extremes of normal draws are skewed.
      expect(Math.abs(mean(ours) - theirs)).toBeLessThan(
        5 * deviation(ours) * Math.sqrt(1 + 1 / BLOCKS) + 1e-9,
      );
    }
  });
});

it.each(
  references.flatMap(({ task, split, stats }) =>
    stats.base_first8 ? [{ task, split, base: stats.base_first8 }] : [],
  ),
)('$task starts on the base signal of the reference, $split split', ({ task, base }) => {
  const quiet = sample(task).find((s) => s.intervals.length === 0)!;
  expect(base.length).toBe(8);
  for (const [t, x] of base.entries()) expect(quiet.values[t]).toBeCloseTo(x, 12);
});

describe('anomalies of each type', () => {
  it('point: values are N(0, 0.5) inside and the exact sine outside', () => {
    const inside: number[] = [];
    let changed = 0;
    for (const { values, intervals } of sample('point').slice(0, 800)) {
      const mask = new Uint8Array(N);
      for (const [start, end] of intervals) mask.fill(1, start, end);
      for (let t = 0; t < N; t++) {
        if (mask[t] === 1) inside.push(values[t]!);
        else changed += Number(values[t] !== Math.sin(2 * Math.PI * 0.03 * t));
      }
    }
    expect(changed).toBe(0);
    expectSameMean(inside, 0, Number.POSITIVE_INFINITY);
    expect(Math.abs(deviation(inside) - 0.5)).toBeLessThan((SIGMAS * 0.5) / Math.sqrt(2 * inside.length));
  });

  it('range: one sign per interval, U(0.5, 0.8) per point over N(0, 0.1)', () => {
    const shifts: number[] = [];
    let up = 0;
    let count = 0;
    let wrongSigns = 0;
    for (const { values, intervals } of sample('range').slice(0, 1500)) {
      for (const [start, end] of intervals) {
        const cut = values.slice(start, end);
        const sign = Math.sign(cut.reduce((sum, x) => sum + x, 0));
        wrongSigns += cut.filter((x) => sign * x <= 0).length; // five deviations of the noise away
        shifts.push(...cut.map((x) => sign * x));
        up += Number(sign > 0);
        count++;
      }
    }
    expect(wrongSigns).toBe(0);
    expectSameMean(shifts, 0.65, Number.POSITIVE_INFINITY);
    expect(deviation(shifts)).toBeCloseTo(Math.sqrt(0.01 + 0.3 ** 2 / 12), 2);
    expect(Math.abs(up / count - 0.5)).toBeLessThan((SIGMAS * 0.5) / Math.sqrt(count));
  });

  it('freq: the phase runs on, 3 or ⅓ times as fast inside, at even odds', () => {
    let fast = 0;
    let count = 0;
    for (const { values, intervals } of sample('freq').slice(0, 600)) {
      for (const [start, end] of intervals) {
        if (end - start < 4) continue;
        // A sine obeys x[t+1] + x[t−1] = 2 cos(ω) x[t]; take the sample that tells ω best.
        let best = start + 1;
        for (let t = start + 1; t < end - 1; t++) {
          if (Math.abs(values[t]!) > Math.abs(values[best]!)) best = t;
        }
        const cosine = (values[best + 1]! + values[best - 1]!) / (2 * values[best]!);
        const isFast = Math.abs(cosine - Math.cos(2 * Math.PI * 0.09)) < 1e-9;
        const isSlow = Math.abs(cosine - Math.cos(2 * Math.PI * 0.01)) < 1e-9;
        expect(isFast || isSlow).toBe(true);
        fast += Number(isFast);
        count++;
      }
    }
    expect(Math.abs(fast / count - 0.5)).toBeLessThan((SIGMAS * 0.5) / Math.sqrt(count));
  });

  it.each([
    ['trend', 6, 20],
    ['flat-trend', 4.5, 6],
  ] as const)('%s: slope U(%d, %d)/N inside, 3/N outside, scaled to [−1, 1]', (task, low, high) => {
    const slopes: number[] = [];
    for (const { values, intervals } of sample(task)) {
      expect(Math.min(...values)).toBe(-1);
      expect(Math.max(...values)).toBeCloseTo(1, 12);
      for (const [start, end] of intervals) {
        if (end - start <= 50) continue;
        // One period of the sine is 50 samples, so differences over 50 hold only the slope.
        const rise = (t: number): number => values[t + 50]! - values[t]!;
        slopes.push((3 * rise(start)) / rise(start - 60));
      }
    }
    expect(slopes.length).toBeGreaterThan(500);
    expect(Math.min(...slopes)).toBeGreaterThanOrEqual(low - 1e-9);
    expect(Math.max(...slopes)).toBeLessThan(high + 1e-9);
    expectSameMean(slopes, (low + high) / 2, Number.POSITIVE_INFINITY);
  });

  it.each(['noisy-point', 'noisy-freq', 'noisy-trend'] as const)(
    '%s: the clean type plus N(0, 0.08)',
    (task) => {
      const clean = sample(task.slice('noisy-'.length) as AnomLLMTask);
      const base = clean.find((s) => s.intervals.length === 0)!;
      const noisy = Array.from({ length: 1500 }, (_, i) => anomllm(task, 42, 'test', i));
      const residuals = noisy
        .filter((s) => s.intervals.length === 0)
        .slice(0, 100)
        .flatMap((s) => Array.from(s.values, (x, t) => x - base.values[t]!));
      expect(Math.abs(deviation(residuals) - 0.08)).toBeLessThan(
        (SIGMAS * 0.08) / Math.sqrt(2 * residuals.length),
      );
      const counts = noisy.map((s) => s.intervals.length);
      expectSameMean(counts, mean(clean.map((s) => s.intervals.length)), clean.length);
    },
  );
});

const task = fc.constantFrom(...ANOMLLM_TASKS);
const split = fc.constantFrom(...SPLITS);
const index = fc.integer({ min: 0, max: 0xffffffff });
const seed = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

describe('anomllm', () => {
  it('gives a valid record at any address, with the class that its type maps to', () => {
    fc.assert(
      fc.property(task, seed, split, index, fc.integer({ min: 2, max: 3000 }), (t, s, p, i, length) => {
        const series = anomllm(t, s, p, i, length);
        expect(series.values.length).toBe(length);
        expect(series.id).toBe(`anomllm/${t}/${p}/${i}`);
        expect(series.class).toBe(series.intervals.length === 0 ? 'normal' : anomllmClass(t));
      }),
    );
  });

  it('is a pure function of its address', () => {
    fc.assert(
      fc.property(task, seed, split, index, (t, s, p, i) => {
        const first = anomllm(t, s, p, i);
        anomllm(t, s, p, (i + 1) >>> 0);
        expect(anomllm(t, s, p, i)).toEqual(first);
      }),
      { numRuns: 30 },
    );
  });

  it('never repeats a series over splits, seeds and indices', () => {
    const seen = new Set<string>();
    for (const p of SPLITS) {
      for (const s of [42, 3407]) {
        for (let i = 0; i < 200; i++) seen.add(anomllm('range', s, p, i).values.slice(0, 4).join());
      }
    }
    expect(seen.size).toBe(SPLITS.length * 2 * 200);
  });

  it('keeps at most eight intervals, except for freq', () => {
    const counts = (t: AnomLLMTask) =>
      Array.from({ length: 20 }, (_, i) => anomllm(t, 1, 'train', i, 40_000).intervals.length);
    expect(Math.max(...counts('point'))).toBe(8);
    expect(Math.max(...counts('range'))).toBe(8);
    expect(Math.min(...counts('freq'))).toBeGreaterThan(8);
  });

  it('refuses seeds, indices and lengths out of range', () => {
    expect(() => anomllm('point', -1, 'test', 0)).toThrow(ConfigError);
    expect(() => anomllm('point', 1.5, 'test', 0)).toThrow(/seed: got 1.5/);
    expect(() => anomllm('point', 1, 'test', 2 ** 32)).toThrow(/index: got 4294967296/);
    expect(() => anomllm('point', 1, 'test', 0, 1)).toThrow(
      /length: got 1, expected an integer of at least 2/,
    );
  });
});

describe('anomllmMixed', () => {
  it('holds each task once in every block of eight, in varying order', () => {
    const orders = new Set<string>();
    for (let block = 0; block < 30; block++) {
      const tasks = Array.from({ length: 8 }, (_, k) => anomllmMixed(42, 'test', 8 * block + k, 100).task);
      expect([...tasks].sort()).toEqual(ANOMLLM_TASKS.map((t) => `anomllm/${t}`).sort());
      orders.add(tasks.join());
    }
    expect(orders.size).toBeGreaterThan(25);
  });

  it('gives series of the single tasks, by the number of the block', () => {
    for (const i of [0, 5, 83]) {
      const mixed = anomllmMixed(42, 'test', i);
      const single = anomllm(
        mixed.task.slice('anomllm/'.length) as AnomLLMTask,
        42,
        'test',
        Math.floor(i / 8),
      );
      expect(mixed).toEqual(single);
    }
  });
});
