import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { distanceProfile, matrixProfile, topDiscords, topMotifs } from '../../src/series/matrix-profile.ts';
import { windowDistance } from './brute-force.ts';
import { series, seriesOf, worst } from './golden.ts';

describe('motifs and discords', () => {
  it.each(series.shapes.map((row) => [row.series, row] as const))('agree with stumpy on %s', (name, row) => {
    const values = seriesOf(name);
    const profile = matrixProfile(values, { window: row.m });
    expect(worst(profile.distances, row.profile)).toBeLessThan(1e-8);
    const discords = topDiscords(profile, 3);
    expect(discords.map(({ start }) => start)).toEqual(row.discords.map(([start]) => start));
    expect(
      worst(
        discords.map(({ distance }) => distance),
        row.discords.map(([, distance]) => distance!),
      ),
    ).toBeLessThan(1e-8);
    const motifs = topMotifs(values, profile, 2);
    expect(motifs.map(({ pair }) => [...pair])).toEqual(row.motifs.map(({ pair }) => pair));
    expect(motifs.map(({ members }) => [...members])).toEqual(row.motifs.map(({ members }) => members));
  });

  it('finds a planted shape and every copy of it, and the stretch that has none', () => {
    const shape = (k: number): number => 4 * Math.sin((k * k) / 25);
    const values = Float64Array.from({ length: 600 }, (_, i) => {
      const start = [60, 222, 405].find((at) => i >= at && i < at + 30);
      return start === undefined ? ((i * i * 7919) % 1013) / 1013 : shape(i - start) + ((i * 31) % 7) / 100;
    });
    const profile = matrixProfile(values, { window: 30 });
    const [motif] = topMotifs(values, profile, 1, { radius: 3 });
    expect(motif!.members).toEqual([60, 222, 405]);
    const ordinary = Float64Array.from(
      { length: 600 },
      (_, i) => Math.sin(i / 4) + (i >= 300 && i < 310 ? 2 : 0),
    );
    const [discord] = topDiscords(matrixProfile(ordinary, { window: 30 }), 1);
    expect(Math.abs(discord!.start - 285)).toBeLessThan(25);
  });

  it('never overlap one another, and end when nothing is free', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 8, maxLength: 50 }),
        fc.integer({ min: 3, max: 6 }),
        (list, m) => {
          const values = Float64Array.from(list);
          const profile = matrixProfile(values, { window: m });
          const discords = topDiscords(profile, 20);
          const starts = discords.map(({ start }) => start).sort((a, b) => a - b);
          for (const [k, start] of starts.slice(1).entries())
            expect(start - starts[k]!).toBeGreaterThanOrEqual(m);
          for (const [k, { distance }] of discords.slice(1).entries()) {
            expect(distance).toBeLessThanOrEqual(discords[k]!.distance);
          }
          const motifs = topMotifs(values, profile, 20);
          for (const [a, one] of motifs.entries()) {
            for (const other of motifs.slice(a + 1)) {
              for (const i of one.members) {
                for (const j of other.members) expect(Math.abs(i - j)).toBeGreaterThanOrEqual(m);
              }
            }
          }
        },
      ),
    );
  });

  it('rest on the distance of one window to all', () => {
    const values = Float64Array.from({ length: 80 }, (_, i) => (i > 30 && i < 45 ? 2 : ((i * 37) % 11) / 3));
    for (const start of [3, 33]) {
      const like = distanceProfile(values, 9, start);
      for (const [j, distance] of like.entries()) {
        expect(distance).toBeCloseTo(windowDistance(values, 9, start, j), 9);
      }
    }
  });

  it('refuse counts, radii and series that do not fit', () => {
    const values = Float64Array.from({ length: 30 }, (_, i) => (i * i) % 7);
    const profile = matrixProfile(values, { window: 5 });
    expect(() => topDiscords(profile, 0)).toThrow(ConfigError);
    expect(() => topMotifs(values, profile, 1, { radius: 0.5 })).toThrow(ConfigError);
    expect(() => topMotifs(values.subarray(1), profile, 1)).toThrow(/do not belong/);
  });
});
