import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutScales, cutWindows, mergeWindows, resample, windowSize } from '../../src/explain/windows.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import { sharpened } from '../../src/series/deviation.ts';
import { mapBack } from '../../src/series/intervals.ts';

describe('cutScales', () => {
  const options = { size: 100, overlap: 0.5, limit: 2048 };

  test('each is four times coarser, up to the one that holds all of the series', () => {
    expect(cutScales(80, options)).toEqual([[[0, 80]]]);
    expect(cutScales(150, options)).toEqual([
      [
        [0, 100],
        [50, 150],
      ],
      [[0, 150]],
    ]);
    const scales = cutScales(5000, options);
    expect(scales.map((windows) => windows[0]![1] - windows[0]![0])).toEqual([100, 400, 1600, 5000]);
    expect(scales.map(({ length }) => length)).toEqual([99, 24, 6, 1]);
  });

  test('all together stay within the limit, whatever the length, and each covers the series', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3_000_000 }),
        fc.integer({ min: 64, max: 2048 }),
        (length, limit) => {
          const scales = cutScales(length, { ...options, limit });
          expect(scales.reduce((sum, { length: count }) => sum + count, 0)).toBeLessThanOrEqual(limit);
          for (const windows of scales) {
            expect(windows[0]![0]).toBe(0);
            expect(windows.at(-1)![1]).toBe(length);
          }
          expect(scales.at(-1)).toHaveLength(1);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('cutWindows', () => {
  test('halves overlap by default arithmetic: 2600 samples in windows of 1000', () => {
    expect(cutWindows(2600, { size: 1000, overlap: 0.5, limit: 100 })).toEqual([
      [0, 1000],
      [400, 1400],
      [800, 1800],
      [1200, 2200],
      [1600, 2600],
    ]);
    expect(cutWindows(2000, { size: 1000, overlap: 0.5, limit: 100 })).toEqual([
      [0, 1000],
      [500, 1500],
      [1000, 2000],
    ]);
    expect(cutWindows(2000, { size: 1000, overlap: 0, limit: 100 })).toEqual([
      [0, 1000],
      [1000, 2000],
    ]);
  });

  test('a series that is not longer than a window is one window, whatever its length', () => {
    for (const length of [2, 3, 999, 1000]) {
      expect(cutWindows(length, { size: 1000, overlap: 0.5, limit: 8 })).toEqual([[0, length]]);
    }
  });

  test('windows grow where the limit does not reach, so that work is bounded', () => {
    const windows = cutWindows(10_000_000, { size: 1000, overlap: 0.5, limit: 2048 });
    expect(windows.length).toBeLessThanOrEqual(2048);
    expect(windows.length).toBeGreaterThan(2000);
    expect(windows[0]![1]).toBeGreaterThan(9000);
  });

  test('windows cover every sample, are equally long, and share at least the overlap', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 50_000 }),
        fc.integer({ min: 2, max: 3000 }),
        fc.double({ min: 0, max: 0.9, noNaN: true }),
        fc.integer({ min: 2, max: 300 }),
        (length, size, overlap, limit) => {
          const windows = cutWindows(length, { size, overlap, limit });
          expect(windows.length).toBeLessThanOrEqual(limit);
          expect(windows[0]![0]).toBe(0);
          expect(windows.at(-1)![1]).toBe(length);
          const width = windows[0]![1];
          expect(width).toBeGreaterThanOrEqual(Math.min(size, length));
          const wrong = windows.find(([start, end], i) => {
            const next = windows[i + 1];
            if (end - start !== width) return true;
            // Starts are rounded to whole samples: at most one sample less than asked for.
            return next !== undefined && !(next[0] > start && end - next[0] >= overlap * width - 1.001);
          });
          expect(wrong).toBeUndefined();
        },
      ),
    );
  });

  test('options out of range are named', () => {
    const good = { size: 100, overlap: 0.5, limit: 10 };
    expect(() => cutWindows(500, { ...good, size: 1 })).toThrow(ConfigError);
    expect(() => cutWindows(500, { ...good, size: 2.5 })).toThrow(/window: .* got 2\.5/);
    for (const overlap of [-0.1, 0.95, Number.NaN]) {
      expect(() => cutWindows(500, { ...good, overlap })).toThrow(/overlap: .*0 to 0\.9/);
    }
    expect(() => cutWindows(500, { ...good, limit: 1 })).toThrow(/limit/);
  });
});

describe('resample', () => {
  test('a line stays a line, sampled at the middles of the new cells', () => {
    const line = Float64Array.from({ length: 40 }, (_, i) => 3 * i - 7);
    const longer = resample(line, 100);
    for (let k = 1; k < 99; k++) expect(longer[k]).toBeCloseTo(3 * ((k + 0.5) * 0.4 - 0.5) - 7, 10);
    expect([longer[0], longer[99]]).toEqual([-7, 110]); // held at the ends
    for (const length of [10, 16]) {
      const shorter = resample(line, length);
      const whole = shorter.reduce((sum, value) => sum + value, 0) / length;
      expect(whole).toBeCloseTo(line.reduce((sum, value) => sum + value, 0) / 40, 10);
    }
    expect(resample(line, 10)[3]).toBeCloseTo((29 + 32 + 35 + 38) / 4, 10);
  });

  test('every sample of a longer series counts: a spike between two points is not passed over', () => {
    for (let at = 0; at < 70; at++) {
      const spike = new Float64Array(70);
      spike[at] = 7;
      const points = resample(spike, 20);
      expect(points.reduce((sum, value) => sum + value, 0)).toBeCloseTo(2, 10);
    }
    expect([...resample(Float64Array.of(1, 2, 6), 2)]).toEqual([4 / 3, 14 / 3]);
  });

  test('the same length is the series itself, and values never leave its range', () => {
    const values = Float64Array.of(4, -2, 9, 0.5, 3);
    expect(resample(values, 5)).toBe(values);
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 2, maxLength: 60 }),
        fc.integer({ min: 2, max: 200 }),
        (list, length) => {
          const out = resample(Float64Array.from(list), length);
          expect(out.length).toBe(length);
          const [low, high] = [Math.min(...list), Math.max(...list)];
          // The smallest numbers have no digits left to be rounded to.
          const slack = Math.max(1e-9 * Math.max(Math.abs(low), Math.abs(high)), 1e-300);
          expect(out.every((value) => value >= low - slack && value <= high + slack)).toBe(true);
        },
      ),
    );
  });
});

describe('windowSize', () => {
  test('is the taught length where the period is one that was taught, or there is none', () => {
    for (const period of [null, 30, 48.5, 70]) expect(windowSize(1000, period)).toBe(1000);
  });

  test('otherwise holds 22 periods, whatever the sampling rate', () => {
    expect(windowSize(1000, 288)).toBe(6336);
    expect(windowSize(1000, 500)).toBe(2 * windowSize(1000, 250));
    expect(windowSize(1000, 12)).toBe(264);
    expect(windowSize(1000, 2)).toBe(100);
  });
});

describe('mapBack', () => {
  test('scales and shifts, to the nearest sample', () => {
    expect(mapBack([[140, 220]], 1000, [3000, 4000])).toEqual([[3140, 3220]]);
    expect(mapBack([[140, 220]], 1000, [500, 750])).toEqual([[535, 555]]);
    expect(mapBack([[140, 220]], 1000, [0, 4032])).toEqual([[564, 887]]);
  });

  test('what becomes shorter than a sample keeps one', () => {
    expect(mapBack([[500, 510]], 1000, [100, 120])).toEqual([[110, 111]]);
    expect(mapBack([[990, 1000]], 1000, [100, 120])).toEqual([[119, 120]]);
  });

  test('answers stay inside their window, sorted and disjoint, and whole windows stay whole', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 5000 }),
        fc.integer({ min: 1, max: 5000 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 999 }), fc.integer({ min: 1, max: 400 })), {
          maxLength: 6,
        }),
        (first, width, pairs) => {
          const window: Interval = [first, first + width];
          const given = pairs.map(([start, extent]): Interval => [start, Math.min(1000, start + extent)]);
          const found = mapBack(given, 1000, window);
          let end = -1;
          for (const one of found) {
            expect(one[0]).toBeGreaterThan(end);
            expect(one[1]).toBeGreaterThan(one[0]);
            end = one[1];
          }
          if (given.length > 0) {
            expect(found[0]![0]).toBeGreaterThanOrEqual(first);
            expect(end).toBeLessThanOrEqual(first + width);
          }
          expect(mapBack([[0, 1000]], 1000, window)).toEqual([window]);
        },
      ),
    );
  });
});

describe('mergeWindows', () => {
  const answer = ([start, end]: Interval, intervals: readonly Interval[] | null) => ({
    start,
    end,
    intervals,
  });

  test('one window is believed', () => {
    expect(
      mergeWindows(300, [
        answer(
          [0, 300],
          [
            [10, 20],
            [250, 300],
          ],
        ),
      ]),
    ).toEqual([
      [10, 20],
      [250, 300],
    ]);
  });

  test('an interval that two windows see in part is one', () => {
    expect(
      mergeWindows(1500, [answer([0, 1000], [[940, 1000]]), answer([500, 1500], [[940, 1060]])]),
    ).toEqual([[940, 1060]]);
  });

  test('windows that could not be read have no vote, and what only they cover stays empty', () => {
    const flagged = answer([500, 1500], [[700, 760]]);
    expect(mergeWindows(2000, [answer([0, 1000], null), flagged, answer([1000, 2000], null)])).toEqual([
      [700, 760],
    ]);
    expect(mergeWindows(2000, [answer([0, 1000], null), answer([1000, 2000], null)])).toEqual([]);
  });

  test('at least half of the windows over a sample must flag it', () => {
    const answers = [
      answer([0, 900], [[600, 700]]),
      answer([300, 1200], [[650, 700]]),
      answer([600, 1500], [[600, 640]]),
    ];
    // Two of three over 600–640 and 650–700, one of three between.
    expect(mergeWindows(1500, answers)).toEqual([
      [600, 640],
      [650, 700],
    ]);
    expect(mergeWindows(1500, [...answers, answer([600, 1500], [])])).toEqual([
      [600, 640],
      [650, 700],
    ]);
    expect(mergeWindows(1500, [...answers, answer([600, 1500], []), answer([600, 1500], [])])).toEqual([]);
  });

  test('what all windows over it flag is flagged, and what none flags is not', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 50, max: 2000 }),
        fc.integer({ min: 20, max: 900 }),
        fc.double({ min: 0, max: 0.9, noNaN: true }),
        fc.array(fc.tuple(fc.nat(2000), fc.integer({ min: 1, max: 300 })), { minLength: 1, maxLength: 5 }),
        (length, size, overlap, pairs) => {
          const truth = pairs
            .map(([start, extent]): Interval => [start % length, Math.min(length, (start % length) + extent)])
            .sort((a, b) => a[0] - b[0]);
          const answers = cutWindows(length, { size, overlap, limit: 5000 }).map((window) =>
            answer(
              window,
              truth.flatMap(([start, end]): Interval[] => {
                const [from, to] = [Math.max(start, window[0]), Math.min(end, window[1])];
                return from < to ? [[from, to]] : [];
              }),
            ),
          );
          // Overlapping parts of one answer must not vote twice.
          const flags = new Uint8Array(length);
          for (const [start, end] of truth) flags.fill(1, start, end);
          const merged = mergeWindows(
            length,
            answers.map((one) => ({ ...one, intervals: mapBack(one.intervals ?? [], length, [0, length]) })),
          );
          const got = new Uint8Array(length);
          for (const [start, end] of merged) got.fill(1, start, end);
          expect(Buffer.compare(got, flags)).toBe(0);
        },
      ),
    );
  });
});

describe('short marks read again from the values', () => {
  const values = Float64Array.from({ length: 200 }, (_, i) => Math.sin(i / 9) + 0.1 * Math.cos(i * i));
  values[101] = 6;
  values[102] = 5;
  values[60] = -7;

  test('lie at the largest departure beside them, and hold what departs with it', () => {
    expect(sharpened([[93, 95]], values)).toEqual([[101, 103]]);
    expect(sharpened([[66, 67]], values)).toEqual([[60, 61]]);
    expect(
      sharpened(
        [
          [62, 63],
          [98, 101],
        ],
        values,
      ),
    ).toEqual([
      [60, 61],
      [101, 103],
    ]);
  });

  test('become one where they are about the same', () => {
    expect(
      sharpened(
        [
          [97, 98],
          [105, 106],
        ],
        values,
      ),
    ).toEqual([[101, 103]]);
  });

  test('stay where nothing departs, and longer ones always', () => {
    expect(sharpened([[30, 34]], new Float64Array(50).fill(2))).toEqual([[30, 34]]);
    expect(sharpened([[95, 110]], values)).toEqual([[95, 110]]);
    expect(sharpened([], values)).toEqual([]);
  });
});
