import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runningMedians } from '../../src/series/running-median.ts';

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
