import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { figure } from '../../src/plot/figure.ts';
import { checkMelScale, frameSpan, hertzOf, type MelScale, melDecibels, melOf } from '../../src/plot/mel.ts';

const golden: {
  readonly scale: MelScale;
  readonly power: readonly number[][];
  readonly decibels: readonly number[][];
} = JSON.parse(readFileSync(new URL('../golden/plot/mel.json', import.meta.url), 'utf8'));
const { scale } = golden;
const rows = (table: readonly (readonly number[])[]) => table.map((row) => Float64Array.from(row));
/** Powers that are `value` at every frequency and frame. */
const flat = (value: number, frames = 3) => rows(Array(65).fill(Array(frames).fill(value)));

describe('mel decibels', () => {
  it('are those of an independent program', () => {
    const ours = melDecibels(scale, rows(golden.power));
    expect(ours.length).toBe(scale.bands);
    for (const [band, theirs] of golden.decibels.entries()) {
      for (const [t, value] of theirs.entries()) expect(ours[band]![t]).toBeCloseTo(value, 9);
    }
    expect(Math.max(...golden.decibels.flat())).toBe(0);
    expect(Math.min(...golden.decibels.flat())).toBe(-scale.range);
  });

  it('of equal powers are equal in all bands, and 0', () => {
    for (const band of melDecibels(scale, flat(7))) for (const value of band) expect(value).toBeCloseTo(0, 9);
  });

  it('find a tone in the band that is nearest to it', () => {
    for (const bin of [5, 11, 22, 30]) {
      const power = flat(1e-3);
      power[bin]!.fill(1);
      const cells = melDecibels(scale, power);
      const best = cells.findIndex((band) => band[0] === 0);
      const width = (melOf(scale.high) - melOf(scale.low)) / (scale.bands + 1);
      const middle = melOf(scale.low) + (best + 1) * width;
      expect(Math.abs(melOf((bin * 2000) / 128) - middle)).toBeLessThan(width);
    }
  });

  it('do not depend on the scale of the powers', () => {
    const powers = fc.double({ min: 1e-250, max: 1e250, noNaN: true });
    fc.assert(
      fc.property(powers, (factor) => {
        const ours = melDecibels(
          scale,
          rows(golden.power).map((row) => row.map((value) => value * factor)),
        );
        for (const [band, theirs] of golden.decibels.entries()) {
          for (const [t, value] of theirs.entries()) expect(ours[band]![t]).toBeCloseTo(value, 6);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('keep frames without data apart, and silence at the bottom', () => {
    const power = flat(1);
    for (const row of power) row[1] = Number.NaN;
    for (const band of melDecibels(scale, power)) {
      expect(band[0]).toBeCloseTo(0, 9);
      expect(band[1]).toBeNaN();
    }
    expect(melDecibels(scale, flat(0)).flatMap((band) => [...band])).toEqual(Array(36).fill(-scale.range));
  });

  it('are refused for what is no spectrogram', () => {
    expect(() => melDecibels(scale, flat(1).slice(1))).toThrow(/65 arrays of powers.*got 64/);
    expect(() => melDecibels(scale, flat(1, 0))).toThrow(DataError);
    expect(() => melDecibels(scale, [...flat(1).slice(1), Float64Array.of(1)])).toThrow(/3 and 1/);
    expect(() => melDecibels(scale, flat(-1))).toThrow(/power -1/);
    expect(() => melDecibels(scale, flat(Infinity))).toThrow(/power Infinity/);
  });
});

describe('mel scale', () => {
  it('gives a thousand mel to 1000 Hz, and comes back', () => {
    expect(melOf(1000)).toBeCloseTo(1000, 1);
    for (const hertz of [0, 60, 505, 8000]) expect(hertzOf(melOf(hertz))).toBeCloseTo(hertz, 9);
  });

  it.each([
    [{ rate: 0 }, /rate/],
    [{ window: 127 }, /window/],
    [{ hop: 0.5 }, /hop/],
    [{ bands: 0 }, /bands/],
    [{ low: 505 }, /low/],
    [{ high: 1001 }, /high.*1000 Hz/],
    [{ range: 0 }, /range/],
    [{ bands: 60 }, /narrower than the 15\.625 Hz/],
  ] as const)('refuses %j', (change, message) => {
    const wrong = { ...scale, ...change };
    expect(() => checkMelScale(wrong)).toThrow(message);
    expect(() => checkMelScale(wrong)).toThrow(ConfigError);
    expect(() => figure('rcw-spectrogram', { spectrogram: wrong })).toThrow(message);
  });

  it('puts each frame at its middle, and its cell half a hop around', () => {
    const { spectrogram } = figure('rcw-spectrogram');
    // 118 frames of 256 samples, 32 apart, at 2 kHz: the middles run from 0.064 to 1.936 s.
    const [from, to] = frameSpan(spectrogram!, 118);
    expect(from).toBeCloseTo(0.064 - 0.008, 12);
    expect(to).toBeCloseTo(1.936 + 0.008, 12);
  });
});
