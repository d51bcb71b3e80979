/** Anomalies that are put into a recording. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordedExample } from '../../datasets/generators/wild/recorded.ts';
import { detect } from '../../src/detect/detect.ts';
import { Random } from '../../src/ground/random.ts';

/** A recording of 900 samples: a daily wave of 48 samples with noise, whole numbers, one gap. */
function recording(seed: number): Float64Array {
  const random = new Random(seed, 'recording');
  const values = Float64Array.from({ length: 900 }, (_, t) =>
    Math.max(0, Math.round(40 + 30 * Math.sin((2 * Math.PI * t) / 48) + random.normal(0, 4))),
  );
  values.fill(Number.NaN, 500, 512);
  return values;
}

/** Examples made of one recording, which is looked at once. */
function injecting(values: Float64Array) {
  const source = { ...detect(values), values };
  return (seed: number, index: number) => {
    const { channels, gold, facts } = recordedExample(seed, index, 'made', source);
    return { after: channels[0]!, truth: 'intervals' in gold ? gold.intervals : [], facts: facts! };
  };
}

describe('a recording with made anomalies', () => {
  test('differs from the recording in its intervals alone, and at both ends of each', () => {
    const values = recording(1);
    const injected = injecting(values);
    let anomalies = 0;
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 99 }), fc.integer({ min: 0, max: 99 }), (seed, index) => {
        const { after, truth } = injected(seed, index);
        for (let t = 0; t < values.length; t++) {
          const inside = truth.some(([start, end]) => t >= start && t < end);
          // A change too small to be seen is in both.
          if (!inside && truth.length === 0) continue;
          if (Number.isNaN(values[t]!)) expect(after[t]).toBeNaN();
          const edge = truth.some(([start, end]) => t === start || t === end - 1);
          if (edge) expect(Math.abs(after[t]! - values[t]!)).toBeGreaterThan(0.5);
        }
        anomalies += truth.length;
      }),
      { numRuns: 25 },
    );
    expect(anomalies).toBeGreaterThan(5);
  });

  test('is rounded as the recording, and not negative where that is not', () => {
    const injected = injecting(recording(2));
    for (let index = 0; index < 40; index++) {
      for (const value of injected(5, index).after) {
        if (Number.isNaN(value)) continue;
        expect(value).toBeGreaterThanOrEqual(0);
        expect(Math.abs(value - Math.round(value))).toBeLessThan(1e-9);
      }
    }
  });

  test('has anomalies of seasonal kinds where a season is known, and none of them where there is none', () => {
    const kindsOf = (values: Float64Array): Set<string> => {
      const injected = injecting(values);
      return new Set(
        Array.from({ length: 60 }, (_, i) => injected(9, i).facts.departures.map(({ kind }) => kind)).flat(),
      );
    };
    const seasonal = ['missing cycle', 'changed shape', 'frequency change'];
    const daily = kindsOf(recording(3));
    expect(seasonal.filter((kind) => daily.has(kind))).toEqual(seasonal);
    const random = new Random(4, 'noise');
    const noise = kindsOf(Float64Array.from({ length: 700 }, () => random.normal(5, 1)));
    expect(seasonal.filter((kind) => noise.has(kind))).toEqual([]);
    expect(noise.size).toBeGreaterThan(3);
  });

  test('is a function of seed, index and name', () => {
    const injected = injecting(recording(6));
    expect(injected(3, 7)).toEqual(injecting(recording(6))(3, 7));
    expect(injected(3, 7).after).not.toEqual(injected(3, 8).after);
  });
});
