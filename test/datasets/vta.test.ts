import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { generatorOf } from '../../datasets/benchmarks/registry.ts';
import { VTA_LENGTH, VTA_MISSING, VTA_TYPES, type VtaType, vtaClass } from '../../datasets/generators/vta.ts';
import { openExamples } from '../../datasets/source.ts';
import { SPLITS } from '../../datasets/split.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import { type Series, univariate, vta, vtaIrregular } from '../helpers/series.ts';

const N = VTA_LENGTH;
const SIGMAS = 5;
const COUNT = 600;
const TAU = 2 * Math.PI;
/** Standard deviation of the noise as stated: 1.5 · 0.05. */
const NOISE = 0.075;

const mean = (xs: readonly number[]): number => xs.reduce((sum, x) => sum + x, 0) / xs.length;
function deviation(xs: readonly number[]): number {
  const m = mean(xs);
  return Math.sqrt(xs.reduce((sum, x) => sum + (x - m) ** 2, 0) / xs.length);
}
const expectMean = (xs: readonly number[], expected: number): void => {
  expect(Math.abs(mean(xs) - expected)).toBeLessThan((SIGMAS * deviation(xs)) / Math.sqrt(xs.length));
};

const drawn = new Map<VtaType, Series[]>();
function sample(type: VtaType): Series[] {
  const series = drawn.get(type) ?? Array.from({ length: COUNT }, (_, i) => vta(type, 42, 'test', i));
  drawn.set(type, series);
  return series;
}
const clean = (t: number, factor = 1): number => 1.5 * Math.sin(TAU * 0.04 * factor * t);
const inside = (intervals: readonly Interval[]): Uint8Array => {
  const mask = new Uint8Array(N);
  for (const [start, end] of intervals) mask.fill(1, start, end);
  return mask;
};

describe.each(VTA_TYPES)('vta/%s', (type) => {
  it('has exactly 5 % of its points anomalous, anywhere in the series', () => {
    const first: number[] = [];
    for (const { intervals } of sample(type)) {
      expect(intervals.reduce((sum, [start, end]) => sum + end - start, 0)).toBe(20);
      first.push(...intervals.map(([start, end]) => (start + end) / 2));
    }
    expectMean(first, N / 2);
    expect(Math.min(...first)).toBeLessThan(12);
    expect(Math.max(...first)).toBeGreaterThan(N - 12);
  });

  it('has the stated sine with noise of 0.075 outside the anomalies', () => {
    const rest: number[] = [];
    for (const { values, intervals } of sample(type)) {
      const mask = inside(intervals);
      // What a trend gains stays: only the points before the first one are those of the base.
      const end = type === 'trend' ? intervals[0]![0] : N;
      for (let t = 0; t < end; t++) if (mask[t] === 0) rest.push(values[t]! - clean(t));
    }
    expectMean(rest, 0);
    expect(deviation(rest)).toBeCloseTo(NOISE, 3);
  });
});

describe.each(['global', 'contextual'] as const)('points of vta/%s', (type) => {
  it('are runs of single points, as intervals that do not touch', () => {
    for (const { intervals } of sample(type)) {
      for (const [i, [start]] of intervals.slice(1).entries())
        expect(start).toBeGreaterThan(intervals[i]![1]);
    }
  });
});

/** Local deviation of the base without noise, over the 10 points from 5 before. */
function localDeviation(t: number): number {
  return deviation(
    Array.from({ length: 10 }, (_, i) => t - 5 + i)
      .filter((u) => u >= 0 && u < N)
      .map((u) => clean(u)),
  );
}

describe('anomalies of each type', () => {
  it('global: the value times 3.5 local deviations, at least the extent of the base', () => {
    const ratios: number[] = [];
    for (const { values, intervals } of sample('global')) {
      const mask = inside(intervals);
      const rest = values.filter((_, t) => mask[t] === 0);
      const [lo, hi] = [Math.min(...rest), Math.max(...rest)];
      for (let t = 0; t < N; t++) {
        if (mask[t] === 0) continue;
        expect(values[t]! >= hi || values[t]! <= lo).toBe(true);
        const wanted = clean(t) * localDeviation(t);
        // Away from the clamp and from the zeros of the sine, where noise decides.
        if (Math.abs(wanted) > 0.7) ratios.push(values[t]! / wanted);
      }
    }
    expect(ratios.length).toBeGreaterThan(500);
    expect(mean(ratios)).toBeGreaterThan(3.45);
    expect(mean(ratios)).toBeLessThan(3.6);
    expect(deviation(ratios)).toBeLessThan(0.35);
  });

  it('contextual: 2.5 local deviations while inside the extent of the base, never outside', () => {
    const ratios: number[] = [];
    let pulled = 0;
    let far = 0;
    for (const { values, intervals } of sample('contextual')) {
      const mask = inside(intervals);
      for (let t = 0; t < N; t++) {
        if (mask[t] === 0) continue;
        expect(Math.abs(values[t]!)).toBeLessThan(1.5 + 6 * NOISE);
        const wanted = clean(t) * localDeviation(t);
        if (Math.abs(wanted) > 0.25 && Math.abs(wanted) < 0.45) ratios.push(values[t]! / wanted);
        if (Math.abs(wanted) > 0.76) {
          far++;
          pulled += Number(Math.abs(values[t]!) < 0.67 * 0.5 * 1.7);
        }
      }
    }
    expect(ratios.length).toBeGreaterThan(500);
    expect(Math.abs(mean(ratios) - 2.5)).toBeLessThan(0.1);
    // The median of |N(0, 0.5)| is 0.337; of an extent near 1.7.
    expect(pulled / far).toBeGreaterThan(0.4);
    expect(pulled / far).toBeLessThan(0.6);
  });

  it.each(['seasonal', 'trend', 'shapelet'] as const)(
    '%s: two segments of 10 points that do not touch',
    (type) => {
      for (const { intervals } of sample(type)) {
        expect(intervals.map(([start, end]) => end - start)).toEqual([10, 10]);
        expect(intervals[1]![0]).toBeGreaterThan(intervals[0]![1]);
      }
    },
  );

  it('seasonal: three times the frequency inside', () => {
    const rest = sample('seasonal').flatMap(({ values, intervals }) =>
      intervals.flatMap(([start, end]) =>
        Array.from(values.subarray(start, end), (value, i) => value - clean(start + i, 3)),
      ),
    );
    expectMean(rest, 0);
    expect(deviation(rest)).toBeCloseTo(NOISE, 2);
  });

  it('trend: ± 0.5 a step with even odds, and what it gains stays', () => {
    const steps: number[] = [];
    const kept: number[] = [];
    for (const { values, intervals } of sample('trend')) {
      let level = 0;
      for (const [k, [start, end]] of intervals.entries()) {
        const rise = Array.from(values.subarray(start, end), (value, i) => value - clean(start + i) - level);
        const step = rise[9]! > 0 ? 0.5 : -0.5;
        steps.push(step);
        expect(Math.max(...rise.map((value, i) => Math.abs(value - step * i)))).toBeLessThan(6 * NOISE);
        level += 9 * step;
        const until = intervals[k + 1]?.[0] ?? N;
        kept.push(...Array.from(values.subarray(end, until), (value, i) => value - clean(end + i) - level));
      }
    }
    expectMean(kept, 0);
    expect(deviation(kept)).toBeCloseTo(NOISE, 2);
    expectMean(steps, 0);
  });

  it('shapelet: the 20-term Fourier series of a square wave', () => {
    const noise: number[] = [];
    const levels: number[] = [];
    for (const { values, intervals } of sample('shapelet')) {
      for (const [start, end] of intervals) {
        for (let t = start; t < end; t++) {
          let wave = 0;
          for (let k = 0; k < 20; k++) wave += Math.sin(TAU * 0.04 * (2 * k + 1) * t) / (2 * k + 1);
          noise.push(values[t]! - 1.5 * wave);
          levels.push(Math.abs(wave));
        }
      }
    }
    expectMean(noise, 0);
    // Each term has noise of 0.03; their weighted squares sum to Σ 1/(2k+1)² = 1.22127.
    expect(deviation(noise)).toBeCloseTo(1.5 * 0.03 * Math.sqrt(1.22127), 2);
    // π/4 on the plateaus; a period of 25 samples has one on a zero.
    const plateau = levels.filter((level) => Math.abs(level - Math.PI / 4) < 0.12).length / levels.length;
    expect(plateau).toBeGreaterThan(0.9);
  });
});

const type = fc.constantFrom(...VTA_TYPES);
const split = fc.constantFrom(...SPLITS);
const index = fc.integer({ min: 0, max: 0xffffffff });
const seed = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

describe('vta', () => {
  it('gives a valid record at any address and length', () => {
    fc.assert(
      fc.property(type, seed, split, index, fc.integer({ min: 20, max: 2000 }), (k, s, p, i, length) => {
        const series = vta(k, s, p, i, length);
        expect(series.values.length).toBe(length);
        expect(series.id).toBe(`vta/${k}/${p}/${i}`);
        expect(series.class).toBe(vtaClass(k));
      }),
    );
  });

  it('is a pure function of its address', () => {
    fc.assert(
      fc.property(type, seed, split, index, (k, s, p, i) => {
        const first = vta(k, s, p, i);
        vta(k, s, p, (i + 1) >>> 0);
        expect(vta(k, s, p, i)).toEqual(first);
      }),
      { numRuns: 30 },
    );
  });

  it('never repeats a series over splits, seeds and indices', () => {
    const seen = new Set<string>();
    for (const p of SPLITS) {
      for (const s of [42, 3407]) {
        for (let i = 0; i < 200; i++) seen.add(vta('global', s, p, i).values.slice(0, 4).join());
      }
    }
    expect(seen.size).toBe(SPLITS.length * 2 * 200);
  });

  it('keeps its series from version to version', () => {
    const hash = createHash('sha256');
    for (const k of VTA_TYPES) {
      for (let i = 0; i < 20; i++) {
        const { id, values, intervals } = vta(k, 42, 'test', i);
        // Nine digits: another processor may round a sine otherwise.
        hash.update(`${id} ${JSON.stringify(intervals)} ${Array.from(values, (x) => x.toFixed(9)).join()}\n`);
      }
    }
    expect(hash.digest('hex').slice(0, 16)).toBe('1fa75bcc9d7bf37d');
  });

  it('is opened by name, with its numbers', () => {
    const source = openExamples({ name: 'vta/shapelet', split: 'test', seed: 42, length: 400, count: 3 });
    expect([...source].map(univariate)).toEqual([0, 1, 2].map((i) => vta('shapelet', 42, 'test', i)));
    expect(source.facts.classes).toEqual(['shapelet']);
    expect(generatorOf('vta/shapelet')!.generator).toMatchObject({
      length: 400,
      parameters: { frequency: 0.04, ratio: 0.05, radius: 5, terms: 20 },
    });
  });

  it('refuses seeds, indices and lengths out of range', () => {
    expect(() => vta('global', -1, 'test', 0)).toThrow(ConfigError);
    expect(() => vta('global', 1, 'test', 2 ** 32)).toThrow(/index/);
    expect(() => vta('global', 1, 'test', 0, 19)).toThrow(
      /length: got 19, expected an integer of at least 20/,
    );
  });
});

describe('vtaIrregular', () => {
  it.each(VTA_MISSING)('leaves ⌊%d · N⌋ points out of the whole series and changes no other', (share) => {
    for (const k of VTA_TYPES) {
      const whole = vta(k, 42, 'test', 7);
      const { values, id } = vtaIrregular(k, share, 42, 'test', 7);
      expect(values.filter((value) => Number.isNaN(value)).length).toBe(Math.round(share * N));
      for (let t = 0; t < N; t++) if (!Number.isNaN(values[t])) expect(values[t]).toBe(whole.values[t]);
      expect(id).toBe(`vta/${k}/missing-${share}/test/7`);
    }
  });

  it('leaves out more of the same points with a larger share', () => {
    const missing = (share: number) => {
      const { values } = vtaIrregular('trend', share, 1, 'train', 3);
      return [...values.keys()].filter((t) => Number.isNaN(values[t]));
    };
    expect(missing(0.25)).toEqual(expect.arrayContaining(missing(0.05)));
    expect(missing(0)).toEqual([]);
  });

  it('loses points evenly over the series', () => {
    const lost = Array.from({ length: 200 }, (_, i) => vtaIrregular('global', 0.2, 5, 'test', i)).flatMap(
      ({ values }) => [...values.keys()].filter((t) => Number.isNaN(values[t])),
    );
    expectMean(lost, (N - 1) / 2);
  });

  it('names present points only, and segments from present point to present point', () => {
    let cut = 0;
    for (let i = 0; i < 100; i++) {
      for (const k of VTA_TYPES) {
        const { values, intervals, class: label } = vtaIrregular(k, 0.25, 42, 'test', i);
        expect(intervals.length).toBeGreaterThan(0);
        expect(label).toBe(vtaClass(k));
        for (const [start, end] of intervals) {
          expect(Number.isNaN(values[start]) || Number.isNaN(values[end - 1])).toBe(false);
          if (k === 'seasonal') cut += Number(end - start < 10);
          if (k !== 'global' && k !== 'contextual') continue;
          expect(values.subarray(start, end).some((value) => Number.isNaN(value))).toBe(false);
        }
      }
    }
    // Either end of a segment is missing with probability 1 − 0.75².
    expect(cut / 200).toBeGreaterThan(0.3);
    expect(cut / 200).toBeLessThan(0.57);
  });

  it('refuses a share of which too little would be left', () => {
    for (const share of [-0.1, 0.6, Number.NaN]) {
      expect(() => vtaIrregular('global', share, 1, 'test', 0)).toThrow(/missing: got/);
    }
  });
});
