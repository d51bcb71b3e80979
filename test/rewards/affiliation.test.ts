import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { affiliation } from '../../rewards/affiliation.ts';
import { localisation } from '../../rewards/anomseer.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import { clipAndMerge, pointF1 } from '../../src/series/intervals.ts';

type Encoded = number | 'NaN' | 'Infinity';

interface Golden {
  readonly cases: readonly {
    readonly name: string;
    readonly events_pred: readonly Interval[];
    readonly events_gt: readonly Interval[];
    readonly Trange: Interval;
    readonly zones: readonly Interval[];
    readonly precision: Encoded;
    readonly recall: number;
    readonly f1_nan_as_0: number;
    readonly individual_precision_probabilities: readonly Encoded[];
    readonly individual_recall_probabilities: readonly number[];
  }[];
  readonly invalid_inputs: readonly {
    readonly name: string;
    readonly events_pred: readonly Interval[];
    readonly events_gt: readonly Interval[];
    readonly Trange: Interval;
  }[];
}

// Made by the reference implementation, ahstat/affiliation-metrics-py (commit in the file), run unmodified.
const golden = JSON.parse(
  readFileSync(new URL('../golden/rewards/affiliation.json', import.meta.url), 'utf8'),
) as Golden;

function expectSame(actual: number, expected: Encoded): void {
  if (expected === 'NaN') expect(actual).toBeNaN();
  else expect(actual).toBeCloseTo(Number(expected), 12);
}

describe('affiliation metrics agree with the reference implementation', () => {
  test('30 cases are compared', () => expect(golden.cases).toHaveLength(30));

  test.each(golden.cases.map((c) => [c.name, c] as const))('%s', (_, c) => {
    const result = affiliation(c.events_pred, c.events_gt, c.Trange);
    expectSame(result.precision, c.precision);
    expectSame(result.recall, c.recall);
    expectSame(result.f1, c.f1_nan_as_0);
    expect(result.events.map((event) => event.zone)).toEqual(c.zones);
    result.events.forEach((event, i) => {
      expectSame(event.precision, c.individual_precision_probabilities[i]!);
      expectSame(event.recall, c.individual_recall_probabilities[i]!);
    });
  });

  test.each(golden.invalid_inputs.map((c) => [c.name, c] as const))('refuses %s', (_, c) => {
    expect(() => affiliation(c.events_pred, c.events_gt, c.Trange)).toThrow(DataError);
  });

  test('the error names the list, the event and the cure', () => {
    expect(() => affiliation([[8, 12]], [[1, 2]], [0, 10])).toThrow(
      'predicted event 0 [8, 12] leaves the range [0, 10]: clip it first',
    );
  });
});

/** Mean of a function over [lo, hi] by the midpoint rule on `steps` points. */
function midpointMean(lo: number, hi: number, steps: number, f: (x: number) => number): number {
  let sum = 0;
  for (let i = 0; i < steps; i++) sum += f(lo + ((i + 0.5) / steps) * (hi - lo));
  return sum / steps;
}

function distance(x: number, events: readonly Interval[]): number {
  return Math.min(...events.map(([a, b]) => Math.max(0, a - x, x - b)));
}

const events = (n: number, min: number) =>
  fc
    .array(fc.tuple(fc.integer({ min: 0, max: n - 1 }), fc.integer({ min: 1, max: 9 })), {
      minLength: min,
      maxLength: 5,
    })
    .map((list) =>
      clipAndMerge(
        list.map(([start, size]) => [start, start + size] as const),
        n,
      ),
    );

describe('affiliation metrics, by their definition', () => {
  test('precision and recall of each event equal the numerical integral of the survival functions', () => {
    fc.assert(
      fc.property(events(37, 1), events(37, 1), (predicted, gold) => {
        const result = affiliation(predicted, gold, [0, 37]);
        result.events.forEach(({ zone: [e0, e1], precision, recall }, j) => {
          const [a, b] = gold[j]!;
          const inside = predicted
            .map(([s, e]) => [Math.max(s, e0), Math.min(e, e1)] as const)
            .filter(([s, e]) => s < e);
          if (inside.length === 0) {
            expect(precision).toBeNaN();
            expect(recall).toBe(0);
            return;
          }
          let mass = 0;
          let covered = 0;
          for (const [s, e] of inside) {
            covered += e - s;
            mass +=
              (e - s) *
              midpointMean(s, e, 2000, (x) => {
                const d = distance(x, [[a, b]]);
                return d === 0 ? 1 : 1 - (b - a + Math.min(d, a - e0) + Math.min(d, e1 - b)) / (e1 - e0);
              });
          }
          expect(precision).toBeCloseTo(mass / covered, 2);
          const expected = midpointMean(a, b, 2000, (y) => {
            const d = distance(y, inside);
            return d === 0 ? 1 : 1 - (Math.min(d, y - e0) + Math.min(d, e1 - y)) / (e1 - e0);
          });
          expect(recall).toBeCloseTo(expected, 3);
        });
      }),
      { numRuns: 60, seed: 7 },
    );
  });

  test('mirroring time leaves precision and recall unchanged', () => {
    const mirror = (list: readonly Interval[], n: number): Interval[] =>
      list.map(([s, e]) => [n - e, n - s] as const).reverse();
    fc.assert(
      fc.property(events(90, 1), events(90, 1), (predicted, gold) => {
        const forward = affiliation(predicted, gold, [0, 90]);
        const backward = affiliation(mirror(predicted, 90), mirror(gold, 90), [0, 90]);
        expect(backward.precision).toBeCloseTo(forward.precision, 10);
        expect(backward.recall).toBeCloseTo(forward.recall, 10);
      }),
    );
  });
});

describe('affiliation refuses arguments of another shape, which gave NaN before', () => {
  const pair = [[1, 2]];
  test.each<[string, unknown[], RegExp]>([
    ['a length as the range', [pair, pair, 1000], /range: got 1000, expected \[start, end\]/],
    ['no range', [pair, pair], /range: got undefined/],
    ['a range that ends before it starts', [pair, pair, [10, 0]], /range: got \[10,0\]/],
    ['one interval instead of a list', [[1, 2], pair, [0, 10]], /predicted\[0\]: got 1, expected a list/],
    ['an object', [{ start: 1 }, pair, [0, 10]], /predicted: got \{"start":1\}/],
    ['a bound that is NaN', [pair, [[1, Number.NaN]], [0, 10]], /gold\[0\]: got \[1,null\]/],
    ['bounds that are texts', [pair, [['1', '2']], [0, 10]], /gold\[0\]: got \["1","2"\]/],
  ])('%s', (_, given, message) => {
    const call = (): unknown => (affiliation as (...all: unknown[]) => unknown)(...given);
    expect(call).toThrow(ConfigError);
    expect(call).toThrow(message);
  });
});

describe('the other interval metrics check their arguments too', () => {
  test.each<[string, (...all: never[]) => unknown, unknown[], RegExp]>([
    ['point F1 of a text', pointF1, ['x', []], /pointF1: predicted: got "x", expected a list/],
    ['point F1 of numbers', pointF1, [[], [1, 2]], /pointF1: gold\[0\]: got 1, expected a list/],
    ['a localisation of a text', localisation, ['x', [], 9], /localisation: predicted: got "x"/],
    ['a localisation of texts', localisation, [[[1, '2']], [], 9], /predicted\[0\]: got \[1,"2"\]/],
    ['a gold bound that is NaN', localisation, [[], [[Number.NaN, 3]], 9], /gold\[0\]: got \[null,3\]/],
    ['a localisation without gold', localisation, [[], 5, 9], /localisation: gold: got 5/],
    ['a localisation without length', localisation, [[], [], Number.NaN], /localisation: length: got/],
  ])('%s', (_, metric, given, message) => {
    const call = (): unknown => (metric as (...all: unknown[]) => unknown)(...given);
    expect(call).toThrow(ConfigError);
    expect(call).toThrow(message);
  });

  test('point F1 refuses a reversed interval, and does not depend on order or overlaps', () => {
    expect(() => pointF1([[10, 0]], [[5, 15]])).toThrow(DataError);
    expect(() => pointF1([[10, 0]], [[5, 15]])).toThrow(/predicted\[0\]: got \[10, 0\]/);
    const gold: Interval[] = [
      [0, 10],
      [20, 30],
    ];
    expect(pointF1([gold[1]!, gold[0]!], gold)).toBe(1);
    expect(pointF1([...gold, [2, 8]], gold)).toBe(1);
  });
});
