import { describe, expect, it } from 'vitest';
import { type DetectOptions, detect } from '../../src/detect/detect.ts';
import { onlyShift } from '../../src/detect/levels.ts';
import { Random } from '../../src/ground/random.ts';

const noise = (seed: number, n: number): Float64Array => {
  const random = new Random(seed, 'short');
  return Float64Array.from({ length: n }, () => 20 + random.normal());
};
/** Noise of `n` samples, `size` higher in [start, end). */
const raised = (seed: number, n: number, size: number, start: number, end = n): Float64Array =>
  noise(seed, n).map((value, i) => (i >= start && i < end ? value + size : value));
const found = (values: Float64Array, options: DetectOptions = {}) =>
  detect(values, options).findings.map(({ kind, start, end }) => ({ kind, start, end }));
const SEEDS = Array.from({ length: 40 }, (_, seed) => seed);

describe('a short series', () => {
  it.each([20, 30, 45, 60, 90])('of %i samples of noise has findings in one of twenty at most', (n) => {
    expect(SEEDS.filter((seed) => found(noise(seed, n)).length > 0).length).toBeLessThanOrEqual(2);
  });

  it.each([45, 60, 90, 180])('of %i samples has a shift of six deviations as one level', (n) => {
    const at = Math.floor(0.45 * n);
    const right = SEEDS.filter((seed) => {
      const [first, ...others] = found(raised(seed, n, 6, at));
      return (
        others.length === 0 && first?.kind === 'level' && Math.abs(first.start - at) <= 1 && first.end === n
      );
    });
    expect(right.length).toBeGreaterThanOrEqual(34);
  });

  it('has an episode with its extent, and a single sample far beyond all others', () => {
    const episodes = SEEDS.filter((seed) => {
      const [first] = found(raised(seed, 90, 6, 40, 50));
      return first !== undefined && Math.abs(first.start - 40) <= 1 && Math.abs(first.end - 50) <= 1;
    });
    expect(episodes.length).toBeGreaterThanOrEqual(34);
    const spikes = SEEDS.filter((seed) => found(raised(seed, 40, 10, 25, 26))[0]?.start === 25);
    expect(spikes.length).toBeGreaterThanOrEqual(34);
  });

  it('has no shift where values walk, swing slowly or grow', () => {
    for (const seed of SEEDS) {
      const random = new Random(seed, 'others');
      let walk = 0;
      const walks = Float64Array.from({ length: 200 }, () => {
        walk += random.normal();
        return walk;
      });
      const swings = walks.map((_, i) => 3 * Math.sin((2 * Math.PI * i) / 150 + seed) + random.normal());
      const grows = walks.map((_, i) => i / 20 + random.normal());
      for (const values of [walks, swings, grows]) expect(onlyShift(values, 0.1)).toBeNull();
    }
  });

  it('has a shift next to either end where it is, without a spike beside it', () => {
    for (const at of [219, 221, 223]) {
      expect(found(raised(1, 240, 20, at))).toEqual([{ kind: 'level', start: at, end: 240 }]);
      expect(found(raised(1, 240, -20, 0, 240 - at))).toEqual([{ kind: 'level', start: 0, end: 240 - at }]);
    }
  });
});

describe('a daily series with a week', () => {
  const WEEK = [1.1, 1, 1, 1.05, 1.3, 0.8, 0.6];
  const OFFICE = [1, 1.02, 1.04, 1.01, 0.93, 0.3, 0.25];
  /** From a Monday on. */
  const daily = (seed: number, week: readonly number[], n: number): Float64Array => {
    const random = new Random(seed, 'daily');
    return Float64Array.from({ length: n }, (_, i) => 1000 * week[i % 7]! * (1 + 0.05 * random.normal()));
  };
  const calendar = [7];

  it.each([90, 180])('of %i days has what a weekday of another would hide', (n) => {
    for (const seed of [1, 2, 3]) {
      expect(found(daily(seed, WEEK, n), { calendar })).toEqual([]);
      const sunday = Math.floor(n / 14) * 7 + 6;
      const busy = daily(seed, WEEK, n);
      busy[sunday] = busy[sunday + 1]!;
      expect(found(busy, { calendar })).toMatchObject([{ start: sunday, end: sunday + 1 }]);
      // A Friday without anything looks like the beginning of the weekend.
      const closed = daily(seed, OFFICE, n);
      closed[sunday - 2] = 0;
      expect(found(closed, { calendar })[0]).toMatchObject({ start: sunday - 2, end: sunday - 1 });
    }
  });

  it('has a week at a third less, and a level that stays', () => {
    for (const seed of [1, 2, 3]) {
      const [n, at] = [180, 98];
      const week = daily(seed, WEEK, n).map((value, i) => (i >= at && i < at + 7 ? 0.65 * value : value));
      const [first] = found(week, { calendar });
      expect([first!.start, Math.abs(first!.end - at - 7) <= 1]).toEqual([at, true]);
      const level = daily(seed, WEEK, n).map((value, i) => (i >= at ? 1.3 * value : value));
      expect(found(level, { calendar })[0]).toMatchObject({ kind: 'level', end: n });
    }
  });
});
