import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anomalyReward, localisation, localisationReward, PAPER } from '../../rewards/anomseer.ts';
import type { RewardOptions } from '../../rewards/reward.ts';
import { classificationReward } from '../../rewards/timemaster.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import { clipAndMerge, runs } from '../../src/series/intervals.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { parseClassification } from '../../src/tasks/classification.ts';

interface Golden {
  readonly cases: readonly {
    readonly name: string;
    readonly pred: readonly Interval[];
    readonly gt: readonly Interval[];
    readonly n: number;
    readonly metrics: Readonly<
      Record<'precision' | 'recall' | 'f1' | 'affi_precision' | 'affi_recall' | 'affi_f1', number>
    >;
    readonly localisation_mean6: number;
    readonly total_class1_fmt1: number;
    readonly total_class0_fmt1: number;
    readonly total_class0_fmt0: number;
  }[];
}

// Made by an independent Python program (versions inside the file).
const golden = JSON.parse(
  readFileSync(new URL('../golden/rewards/reward.json', import.meta.url), 'utf8'),
) as Golden;

const write = (list: readonly Interval[], label: string) =>
  `<think>t</think><answer>${JSON.stringify(list)}</answer><class>${label}</class>`;

describe('the reward of AnomSeer agrees with the reference', () => {
  test.each(golden.cases.map((c) => [c.name, c] as const))('%s', (_, c) => {
    const metrics = localisation(c.pred, c.gt, c.n);
    expect(metrics.precision).toBeCloseTo(c.metrics.precision, 3.9);
    expect(metrics.recall).toBeCloseTo(c.metrics.recall, 3.9);
    expect(metrics.f1).toBeCloseTo(c.metrics.f1, 3.9);
    expect(metrics.affiliationPrecision).toBeCloseTo(c.metrics.affi_precision, 3.9);
    expect(metrics.affiliationRecall).toBeCloseTo(c.metrics.affi_recall, 3.9);
    expect(metrics.affiliationF1).toBeCloseTo(c.metrics.affi_f1, 3.9);
    expect(localisationReward(metrics)).toBeCloseTo(c.localisation_mean6, 9);

    const gold = { intervals: c.gt, class: 'trend' };
    const answer = { think: 't', intervals: c.pred, class: 'trend', wellFormed: true, problem: null };
    const total = (label: string, wellFormed: boolean) =>
      anomalyReward({ ...answer, class: label, wellFormed }, gold, c.n).total;
    expect(total('trend', true)).toBeCloseTo(c.total_class1_fmt1, 9);
    expect(total('normal', true)).toBeCloseTo(c.total_class0_fmt1, 9);
    expect(total('normal', false)).toBeCloseTo(c.total_class0_fmt0, 9);
  });

  test.each(golden.cases.filter((c) => c.name !== 'entirely_past_end').map((c) => [c.name, c] as const))(
    '%s, written as a response',
    (_, c) => {
      const answer = parseAnswer(write(c.pred, 'trend'), c.n);
      const score = anomalyReward(answer, { intervals: c.gt, class: 'trend' }, c.n);
      expect(score.total).toBeCloseTo(c.total_class1_fmt1, 9);
    },
  );
});

describe('localisation', () => {
  test('an unreadable answer is 0 everywhere, on a normal series too', () => {
    expect(localisationReward(localisation(null, [], 100))).toBe(0);
    expect(localisationReward(localisation(null, [[3, 9]], 100))).toBe(0);
  });

  test('predicting only outside the series is not the same as predicting nothing', () => {
    expect(localisationReward(localisation([[150, 160]], [], 100))).toBe(0);
  });

  test.each([[[-1, 4]], [[90, 101]], [[7, 7]], [[9, 3]]] as Interval[][])(
    'a gold interval %j is a data error',
    (interval) => {
      expect(() => localisation([], [interval], 100)).toThrow(DataError);
    },
  );

  const N = 240;
  const intervals = (minLength: number) =>
    fc.array(
      fc
        .tuple(fc.integer({ min: 0, max: N - 1 }), fc.integer({ min: 1, max: 40 }))
        .map(([start, size]) => [start, Math.min(N, start + size)] as const),
      { minLength, maxLength: 6 },
    );

  test('every metric and the reward stay in [0, 1]', () => {
    fc.assert(
      fc.property(intervals(0), intervals(0), (predicted, gold) => {
        const metrics = localisation(predicted, gold, N);
        for (const value of [...Object.values(metrics), localisationReward(metrics)]) {
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
        }
      }),
    );
  });

  test('order, duplicates and cuts of the predicted intervals do not matter', () => {
    fc.assert(
      fc.property(intervals(1), intervals(1), (predicted, gold) => {
        const cut = predicted.flatMap(([start, end]): Interval[] => {
          const middle = Math.floor((start + end) / 2);
          return middle > start
            ? [
                [middle, end],
                [start, middle],
              ]
            : [[start, end]];
        });
        const expected = localisation(predicted, gold, N);
        expect(localisation([...predicted].reverse(), gold, N)).toEqual(expected);
        expect(localisation([...predicted, ...predicted], gold, N)).toEqual(expected);
        expect(localisation(cut, gold, N)).toEqual(expected);
      }),
    );
  });

  test('point metrics equal a count over indices', () => {
    fc.assert(
      fc.property(intervals(1), intervals(1), (predicted, gold) => {
        const mark = (list: readonly Interval[]) => {
          const hit = new Array<boolean>(N).fill(false);
          for (const [start, end] of list) hit.fill(true, start, end);
          return hit;
        };
        const p = mark(predicted);
        const g = mark(gold);
        const both = p.filter((hit, i) => hit && g[i]).length;
        const metrics = localisation(predicted, gold, N);
        expect(metrics.precision).toBeCloseTo(both / p.filter(Boolean).length, 12);
        expect(metrics.recall).toBeCloseTo(both / g.filter(Boolean).length, 12);
      }),
    );
  });

  test('the exact answer is worth 1 and any shift of it less', () => {
    fc.assert(
      fc.property(intervals(1), fc.integer({ min: 1, max: 30 }), (gold, shift) => {
        expect(localisationReward(localisation(gold, gold, N))).toBe(1);
        const truth = clipAndMerge(gold, N);
        const moved = truth.map(([start, end]) => [start + shift, end + shift] as const);
        fc.pre(JSON.stringify(clipAndMerge(moved, N)) !== JSON.stringify(truth));
        expect(localisationReward(localisation(moved, gold, N))).toBeLessThan(1);
      }),
    );
  });

  test('a single interval is worth less the further it is shifted away', () => {
    const rewards = [0, 5, 10, 20, 40, 80, 160, 320].map((shift) =>
      localisationReward(localisation([[100 + shift, 150 + shift]], [[100, 150]], 1000)),
    );
    for (let i = 1; i < rewards.length; i++) expect(rewards[i]!).toBeLessThan(rewards[i - 1]!);
  });
});

describe("the reward of reinforcement, where it is not the paper's", () => {
  const POINT_F1 = { localisation: 'point_f1', normal: 'exact' } as const;
  const GRADED = { localisation: 'mean_of_six', normal: 'graded' } as const;
  const of = (list: readonly Interval[] | null, truth: readonly Interval[], options: RewardOptions) =>
    anomalyReward(
      { think: 't', intervals: list, class: 'trend', wellFormed: true, problem: null },
      { intervals: truth, class: 'trend' },
      1000,
      options,
    );

  test('is the point F1 of the intervals alone', () => {
    expect(of([[120, 180]], [[100, 150]], POINT_F1).parts['localisation']).toBeCloseTo(6 / 11, 12);
    expect(of([[120, 180]], [[100, 150]], POINT_F1).total).toBeCloseTo(0.3 + 0.7 * (6 / 11), 12);
    // Twice as wide as it should be.
    expect(of([[100, 200]], [[100, 150]], POINT_F1).parts['localisation']).toBeCloseTo(2 / 3, 12);
    expect(of([[100, 200]], [[100, 150]], PAPER).parts['localisation']).toBeCloseTo(0.8485, 4);
    expect(of([], [], POINT_F1).total).toBe(1);
    expect(of([[3, 9]], [], POINT_F1).parts['localisation']).toBe(0);
    expect(of(null, [[3, 9]], POINT_F1).parts['localisation']).toBe(0);
  });

  test('is the mean of point F0.5 and affiliation F1, which a wide answer loses more of', () => {
    const F05 = { localisation: 'f05_affiliation', normal: 'exact' } as const;
    // Precision 1/2, recall 3/5: F0.5 = 1.25 · .3 / (.125 + .6) = .5172; affiliation F1 .9757.
    expect(of([[120, 180]], [[100, 150]], F05).parts['localisation']).toBeCloseTo(0.7465, 4);
    const [wide, narrow] = [[[100, 200]], [[100, 125]]] as const;
    const part = (list: readonly Interval[]) => of(list, [[100, 150]], F05).parts['localisation']!;
    expect(part(narrow)).toBeGreaterThan(part(wide) + 0.1);
    expect(part([[100, 150]])).toBe(1);
    expect(part([[400, 500]])).toBeLessThan(0.5);
    expect(of([[3, 9]], [], F05).parts['localisation']).toBe(0);
    expect(of([], [], F05).parts['localisation']).toBe(1);
  });

  test('falls with every interval on a normal series, and leaves anomalous ones as they are', () => {
    const intervals: Interval[] = [
      [10, 20],
      [40, 90],
      [200, 201],
    ];
    const graded = [0, 1, 2, 3].map((n) => of(intervals.slice(0, n), [], GRADED).parts['localisation']);
    expect(graded).toEqual([1, 1 / 2, 1 / 3, 1 / 4]);
    expect(of(null, [], GRADED).parts['localisation']).toBe(0);
    expect(of(intervals, [[12, 15]], GRADED)).toEqual(of(intervals, [[12, 15]], PAPER));
    expect(of([], [[12, 15]], GRADED).parts['localisation']).toBe(0);
  });

  test('leaves class and format as they are', () => {
    for (const options of [POINT_F1, GRADED]) {
      expect(of([], [[12, 15]], options)).toEqual({
        total: 0.1 + 0.2,
        parts: { localisation: 0, class: 1, format: 1 },
      });
    }
  });
});

describe('the combined reward', () => {
  const gold = { intervals: [[100, 150]], class: 'seasonal' } as const;

  test('is exactly 1 for the exact answer and 0 for an empty response', () => {
    expect(anomalyReward(parseAnswer(write([[100, 150]], 'seasonal'), 1000), gold, 1000).total).toBe(1);
    expect(anomalyReward(parseAnswer('', 1000), gold, 1000).total).toBe(0);
  });

  test('pays each part on its own', () => {
    const score = anomalyReward(parseAnswer(`Hm. ${write([[120, 180]], 'seasonal')}`, 1000), gold, 1000);
    expect(score.parts['localisation']).toBeCloseTo(0.7622, 10);
    expect(score.parts).toMatchObject({ class: 1, format: 0 });
    expect(score.total).toBeCloseTo(0.7 * 0.7622 + 0.2, 10);
    const wrongList = anomalyReward(parseAnswer(write([[7, 3]], 'seasonal'), 1000), gold, 1000);
    expect(wrongList).toEqual({ total: 0.2, parts: { localisation: 0, class: 1, format: 0 } });
  });

  test('of an anomaly of unknown kind leaves the class out, and is still worth 1', () => {
    const unnamed = { intervals: [[100, 150]], class: null } as const;
    const of = (response: string) => anomalyReward(parseAnswer(response, 1000), unnamed, 1000);
    expect(of(write([[100, 150]], 'seasonal'))).toEqual({ total: 1, parts: { localisation: 1, format: 1 } });
    expect(of(write([[100, 150]], 'no such class')).total).toBe(1);
    expect(of(write([[120, 180]], 'trend')).total).toBeCloseTo((0.7 * 0.7622 + 0.1) / 0.8, 10);
    expect(of(`Hm. ${write([[100, 150]], 'trend')}`).total).toBeCloseTo(7 / 8, 12);
    expect(of(write([[7, 3]], 'trend'))).toEqual({ total: 0, parts: { localisation: 0, format: 0 } });
    expect(of(write([], 'normal')).total).toBeCloseTo(1 / 8, 12);
    // The class is not graded, but the response must have one.
    expect(of('<think>t</think><answer>[[100, 150]]</answer>')).toEqual({
      total: 0.875,
      parts: { localisation: 1, format: 0 },
    });
  });

  test('of an anomaly of unknown kind is total where nothing is anomalous', () => {
    const none = { intervals: [], class: null } as const;
    expect(anomalyReward(parseAnswer(write([], 'trend'), 50), none, 50).total).toBe(1);
    expect(anomalyReward(parseAnswer(write([[3, 9]], 'trend'), 50), none, 50).total).toBeCloseTo(1 / 8, 12);
  });

  test('of an anomaly of known kind is the weighted sum to the last bit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(190), fc.integer({ min: 1, max: 10 })), { maxLength: 5 }),
        fc.constantFrom('seasonal', 'trend'),
        fc.boolean(),
        (list, label, wellFormed) => {
          const intervals = list.map(([start, size]): Interval => [start, start + size]);
          const answer = { ...parseAnswer(write(intervals, label), 200), wellFormed };
          const { total, parts } = anomalyReward(answer, gold, 200);
          const { localisation: l, class: c, format: f } = parts as Record<string, number>;
          expect([c, f]).toEqual([label === 'seasonal' ? 1 : 0, wellFormed ? 1 : 0]);
          expect(total).toBe(0.1 * f! + 0.2 * c! + 0.7 * l!);
        },
      ),
    );
  });

  test('of a classification adds the judged extension only to a right, well-formed answer', () => {
    const right = parseClassification('<think>t</think><class>Desktop</class><extension>e</extension>', {
      extension: true,
    });
    expect(classificationReward(right, 'Desktop', 0.8).total).toBeCloseTo(1.4, 12);
    expect(classificationReward(right, 'Laptop', 0.8)).toEqual({
      total: 0.1,
      parts: { accuracy: 0, format: 1, extension: 0 },
    });
    expect(classificationReward({ ...right, wellFormed: false }, 'Desktop', 0.8).total).toBe(0.9);
  });

  test('of a classification without a judge score leaves the part out', () => {
    const right = parseClassification('<think>t</think><class>Desktop</class>');
    expect(classificationReward(right, 'Desktop')).toEqual({ total: 1, parts: { accuracy: 1, format: 1 } });
  });

  test.each([-0.1, 1.1, Number.NaN])('refuses a judge score of %s', (judge) => {
    const right = parseClassification('<think>t</think><class>Desktop</class>');
    expect(() => classificationReward(right, 'Desktop', judge)).toThrow(DataError);
  });
});

test('binary labels become events as the reference makes them', () => {
  const vectors = JSON.parse(
    readFileSync(new URL('../golden/rewards/affiliation.json', import.meta.url), 'utf8'),
  ) as {
    readonly vector_to_events: readonly { readonly vector: readonly number[]; readonly events: Interval[] }[];
  };
  expect(vectors.vector_to_events.length).toBeGreaterThan(5);
  for (const { vector, events } of vectors.vector_to_events) {
    expect(runs(vector.length, (i) => vector[i]! > 0)).toEqual(events);
  }
});
