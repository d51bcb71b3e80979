import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import {
  type AnytimeOptions,
  anytimeMatrixProfile,
  type ProfileReport,
} from '../../src/series/anytime-profile.ts';
import { matrixProfile } from '../../src/series/matrix-profile.ts';
import { nearest } from './brute-force.ts';
import { analysis } from './golden.ts';

const random = new Random(77, 'anytime');
/** Long enough for two threads. */
const long = Float64Array.from(
  { length: 8200 },
  (_, i) => Math.sin(i / 8) + 0.3 * random.normal() + (i > 5000 && i < 5030 ? 2 * random.normal() : 0),
);
/** Whole numbers on a short cycle: nearly every window has many equal twins. */
const tied = Float64Array.from({ length: 8200 }, (_, i) => (i % 12) * (i % 3) + (i % 1700 === 0 ? 5 : 0));

describe('anytime matrix profile', () => {
  it.each(analysis.matrix_profile.cases.map((row) => [row.name, row] as const))(
    'agrees with the definition on %s',
    async (_, row) => {
      const profile = await anytimeMatrixProfile(Float64Array.from(row.x), { window: row.m });
      expect(profile.exact).toBe(true);
      expect([...profile.neighbours]).toEqual(row.index);
      for (const [i, expected] of row.profile.entries())
        expect(profile.distances[i]).toBeCloseTo(expected, 7);
    },
  );

  it('equals the profile of one thread, whatever the order and the number of threads', async () => {
    const plain = matrixProfile(long, { window: 40 });
    for (const options of [{ threads: 1 }, { threads: 2 }, { threads: 2, seed: 5 }]) {
      const profile = await anytimeMatrixProfile(long, { window: 40, ...options });
      expect(profile).toMatchObject({ exact: true, share: 1, exclusion: 10 });
      expect(profile.neighbours).toEqual(plain.neighbours);
      for (const [i, distance] of plain.distances.entries()) {
        expect(Math.abs(profile.distances[i]! - distance)).toBeLessThan(1e-9);
      }
    }
  });

  it('repeats its choice among equal twins in any order', async () => {
    const runs = await Promise.all(
      [{ threads: 1 }, { threads: 2 }, { threads: 2, seed: 9 }].map((options) =>
        anytimeMatrixProfile(tied, { window: 24, ...options }),
      ),
    );
    for (const run of runs) {
      expect(run.neighbours).toEqual(runs[0]!.neighbours);
      expect(run.distances).toEqual(runs[0]!.distances);
    }
    expect(Math.min(...runs[0]!.distances)).toBe(0);
  });

  it('agrees with brute force to 1e-6 on a long series with an offset of a million', async () => {
    const values = long.map((value) => 1e6 + value);
    const { distances } = await anytimeMatrixProfile(values, { window: 40 });
    for (const i of [0, 1234, 4095, 4990, 5010, 8160]) {
      expect(Math.abs(distances[i]! - nearest(values, 40, i, 10).value)).toBeLessThan(1e-6);
    }
  });

  it('reports a convergence that never turns back, to the numbers of the result', async () => {
    const reports: ProfileReport[] = [];
    const profile = await anytimeMatrixProfile(long, {
      window: 40,
      threads: 1,
      every: 0.1,
      onReport: (report) => reports.push(report),
    });
    expect(reports.length).toBeGreaterThan(2);
    for (const [k, report] of reports.slice(1).entries()) {
      expect(report.share).toBeGreaterThan(reports[k]!.share);
      expect(report.mean).toBeLessThanOrEqual(reports[k]!.mean);
      expect(report.distance).toBeLessThanOrEqual(reports[k]!.distance);
    }
    const last = reports.at(-1)!;
    expect(last).toMatchObject({ share: 1, found: 1 });
    expect(last.discord).toBe(profile.distances.indexOf(Math.max(...profile.distances)));
    expect(last.distance).toBeCloseTo(profile.distances[last.discord]!, 9);
  });

  it('gives an upper bound with the discord in place when a budget ends it, the same on every run', async () => {
    const exact = matrixProfile(long, { window: 40 });
    const options: AnytimeOptions = { window: 40, budget: 4e6 };
    const bound = await anytimeMatrixProfile(long, options);
    expect(bound.exact).toBe(false);
    expect(bound.share).toBeGreaterThan(0.05);
    expect(bound.share).toBeLessThan(4e6 / 3.3e7);
    expect(await anytimeMatrixProfile(long, { ...options, threads: 1 })).toEqual(bound);
    for (const [i, distance] of exact.distances.entries()) {
      expect(bound.distances[i]!).toBeGreaterThanOrEqual(distance - 1e-9);
    }
    const discord = bound.distances.indexOf(Math.max(...bound.distances));
    expect(Math.abs(discord - 4995)).toBeLessThan(45);
  });

  it('ends early on a signal and keeps what it has', async () => {
    const stop = new AbortController();
    // Long enough that no machine is through when the signal comes.
    const longer = Float64Array.from(
      { length: 80_000 },
      (_, i) => long[i % long.length]! + Math.sin(i / 977),
    );
    const profile = await anytimeMatrixProfile(longer, {
      window: 40,
      signal: stop.signal,
      every: 0.02,
      onReport: () => stop.abort(),
    });
    expect(profile.exact).toBe(false);
    expect(profile.share).toBeGreaterThan(0);
    expect(profile.share).toBeLessThan(1);
    expect(
      profile.distances.filter((distance) => distance < Number.POSITIVE_INFINITY).length,
    ).toBeGreaterThan(longer.length / 2);
    const none = await anytimeMatrixProfile(long, { window: 40, signal: AbortSignal.abort() });
    expect(none).toMatchObject({ exact: false, share: 0 });
    expect(none.distances.every((distance) => distance === Number.POSITIVE_INFINITY)).toBe(true);
  });

  it('leaves the event loop free while it works', async () => {
    let [turns, working] = [0, true];
    const turn = (): void => {
      turns++;
      if (working) setImmediate(turn);
    };
    setImmediate(turn);
    // Four times the samples: sixteen times the work, so that a fast machine gives way more than once.
    const whole = Float64Array.from([...long, ...long, ...long, ...long]);
    await anytimeMatrixProfile(whole, { window: 40, threads: 1 });
    working = false;
    expect(turns).toBeGreaterThan(4);
  });

  it('is empty or infinite where there is nothing to compare', async () => {
    expect((await anytimeMatrixProfile(new Float64Array(9), { window: 10 })).distances.length).toBe(0);
    const { distances, exact } = await anytimeMatrixProfile(Float64Array.of(1, 2, 3, 5), { window: 3 });
    expect([...distances, exact]).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, true]);
  });

  it('refuses gaps and options out of range', async () => {
    await expect(anytimeMatrixProfile(long, { window: 1 })).rejects.toThrow(ConfigError);
    await expect(anytimeMatrixProfile(long, { window: 40, threads: 0 })).rejects.toThrow(ConfigError);
    await expect(anytimeMatrixProfile(long, { window: 40, every: 0 })).rejects.toThrow(ConfigError);
    await expect(anytimeMatrixProfile(Float64Array.of(1, Number.NaN, 2), { window: 2 })).rejects.toThrow(
      DataError,
    );
  });
});
