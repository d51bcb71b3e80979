import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { choiceNames } from '../../src/ground/choice.ts';
import {
  ADVANTAGES,
  type AdvantageOptions,
  advantagesOf,
  drGrpo,
  type GroupAdvantage,
  type GroupRecord,
  gdpoSum,
  grpo,
  isZeroVariance,
  REWARD_ADVANTAGES,
  type RewardAdvantage,
  rloo,
  SPREAD_FLOOR,
  timerpo,
  withEqualSpread,
} from '../../src/train/advantage.ts';

/** Estimators of responses; those of steps are tested in step-advantage.test.ts. */
const NAMES = choiceNames(ADVANTAGES).filter((name) => ADVANTAGES[name].reads !== 'steps');

const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, v, i) => sum + v * b[i]!, 0);
const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
const PAPER = { alpha: 0.3, projection: true };
const OPTIONS: AdvantageOptions = {
  advantage: 'timerpo',
  timerpo: { ...PAPER, base: 'dr_grpo', scale: 'plain' },
  weights: { place: 0.7, class: 0.3 },
  normalise: 'batch',
};
const ALONE = {
  rank: 0,
  gather: (values: readonly number[]) => Float64Array.from(values),
  allReduce: (values: readonly number[]) => values,
};

const of = (name: AdvantageOptions['advantage'], ...groups: GroupRecord[]): GroupAdvantage[] =>
  advantagesOf(groups, { ...OPTIONS, advantage: name }, ALONE);

/** A group whose rewards are all of one part. */
const record = (rewards: readonly number[], more: Partial<GroupRecord> = {}): GroupRecord => ({
  rewards,
  parts: rewards.map((reward) => ({ place: reward })),
  lengths: rewards.map(() => 1),
  similarity: rewards.map(() => 0),
  task: 'a',
  ...more,
});

const unit = fc.double({ min: 0, max: 1, noNaN: true });
const group: fc.Arbitrary<GroupRecord> = fc.integer({ min: 2, max: 9 }).chain((size) => {
  const many = <T>(one: fc.Arbitrary<T>) => fc.array(one, { minLength: size, maxLength: size });
  return fc.record({
    rewards: many(unit),
    parts: many(fc.record({ place: unit, class: unit }, { requiredKeys: ['place'] })),
    lengths: many(fc.integer({ min: 1, max: 90 })),
    similarity: many(unit),
    task: fc.constantFrom('a', 'b'),
  });
});

test('the time-series part of TimerPO never moves along the task part, whatever that is', () => {
  fc.assert(
    fc.property(
      fc.array(group, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(...REWARD_ADVANTAGES),
      (groups, base) => {
        const options = { ...OPTIONS, timerpo: { ...OPTIONS.timerpo, base } };
        advantagesOf(groups, options, ALONE).forEach(({ main, orthogonal }) => {
          // ε = 1e-8 in the projection leaves ⟨A_ts, A_main⟩ · ε / (‖A_main‖² + ε) behind.
          const norm = dot(main, main);
          const left = Math.sqrt(norm * main.length) * (1e-8 / (norm + 1e-8));
          expect(Math.abs(dot(main, orthogonal))).toBeLessThanOrEqual(left + 1e-9 * (1 + norm));
        });
      },
    ),
  );
});

/** Parts that differ in their last digits alone. */
const nearlyEqual = record([0, 0, 0], {
  parts: [0.9999999997, 0.9999999994, 0.9999999989].map((place) => ({ place })),
});

test('every estimator but REINFORCE++ sums to zero over a group, that one over the tokens of the batch', () => {
  // GDPO divides twice, by at least 1e-6 and 1e-4: it takes the rounding of a mean, about 1e-16 per response, times up to 1e10.
  const limit = (name: string): number => (name === 'gdpo' ? 1e-4 : 1e-6);
  fc.assert(
    fc.property(fc.array(group, { minLength: 1, maxLength: 4 }), (groups) => {
      for (const name of NAMES) {
        const all = of(name, ...groups);
        const sums =
          name === 'reinforce_pp'
            ? [total(all.map(({ advantage }, p) => dot(advantage, groups[p]!.lengths)))]
            : all.map(({ advantage }) => total(advantage));
        for (const sum of sums) expect(Math.abs(sum)).toBeLessThan(limit(name));
      }
    }),
    { examples: [[[nearlyEqual]]] },
  );
});

test('a group of equal rewards still teaches through its traces under TimerPO, and has zero variance under others', () => {
  const equal = record([0.1, 0.1, 0.1], { similarity: [0.2, 0.5, 0.8] });
  const [only] = of('timerpo', equal);
  expect(only!.main).toEqual([0, 0, 0]);
  expect(only!.advantage[0]).toBeCloseTo(-0.09, 12);
  expect(only!.advantage[2]).toBeCloseTo(0.09, 12);
  expect(isZeroVariance(only!)).toBe(false);
  const other = record([0, 0.5, 1]);
  for (const name of ['grpo', 'dr_grpo', 'rloo', 'gdpo'] as const) {
    expect(of(name, equal, other).map(isZeroVariance)).toEqual([true, false]);
  }
  // Responses of unequal lengths shift the mean over tokens: then REINFORCE++ moves equal groups too.
  expect(of('reinforce_pp', equal, other).map(isZeroVariance)).toEqual([true, false]);
  expect(of('reinforce_pp', equal, { ...other, lengths: [1, 2, 9] }).map(isZeroVariance)).toEqual([
    false,
    false,
  ]);
});

test('equal rewards and equal similarities have zero variance, whatever their binary rounding', () => {
  const [only] = of('timerpo', record([0.1, 0.1, 0.1], { similarity: [0.7, 0.7, 0.7] }));
  expect(isZeroVariance(only!)).toBe(true);
  for (const name of NAMES) {
    expect(of(name, record([0.1, 0.1, 0.1]), record([0.7, 0.7])).every(isZeroVariance)).toBe(true);
  }
});

test('GRPO divides by the sample standard deviation, Dr. GRPO does not, RLOO compares with the others alone', () => {
  const rewards = [0, 0, 1, 3];
  expect(drGrpo({ rewards })).toEqual([-1, -1, 0, 2]);
  expect(grpo({ rewards })[3]).toBeCloseTo(2 / (Math.sqrt(6 / 3) + 1e-6), 12);
  expect(rloo({ rewards })[3]).toBeCloseTo(3 - 1 / 3, 12);
  expect(rloo({ rewards })[0]).toBeCloseTo(0 - 4 / 3, 12);
});

test('GDPO leaves out parts that a response does not have, instead of counting them as 0', () => {
  const weights = { place: 0.7, class: 0.3 };
  const parts = [{ place: 0, class: 1 }, { place: 1 }, { place: 0.5, class: 0 }];
  const got = gdpoSum({ parts }, weights);
  // Place: mean .5, std .5. Class: of the first and third alone, mean .5, std √.5.
  expect(got[0]).toBeCloseTo(-0.7 + 0.3 * Math.SQRT1_2, 5);
  expect(got[1]).toBeCloseTo(0.7, 5);
  expect(got[2]).toBeCloseTo(-0.3 * Math.SQRT1_2, 5);
  const unnamed = parts.map(({ place }) => ({ place }));
  expect(gdpoSum({ parts: unnamed }, weights)).toEqual(gdpoSum({ parts: unnamed }, { place: 0.7 }));
  expect(gdpoSum({ parts: [{}, {}] }, weights)).toEqual([0, 0]);
});

test.each(['reinforce_pp', 'gdpo'] as const)(
  '%s of the prompts of one task does not depend on those of others',
  (name) => {
    const a = [record([0, 1, 0.2]), record([0.5, 0.25], { lengths: [3, 8] })];
    const b = record([100, 700, 3], { task: 'b', parts: [{ class: 1 }, { class: 0 }, { class: 0 }] });
    const task = (groups: readonly GroupRecord[]) =>
      ADVANTAGES[name].estimate(groups, { ...OPTIONS, normalise: 'task' }, ALONE.gather);
    const [first, , last] = task([a[0]!, b, a[1]!]);
    expect([first, last]).toEqual(task(a));
    const [mixed] = ADVANTAGES[name].estimate([a[0]!, b, a[1]!], OPTIONS, ALONE.gather);
    expect(mixed).not.toEqual(first);
  },
);

test('what is normalised over the batch is the same however the prompts are divided over ranks', () => {
  fc.assert(
    fc.property(fc.array(group, { minLength: 1, maxLength: 5 }), fc.nat(5), (groups, cut) => {
      for (const name of ['reinforce_pp', 'gdpo'] as const) {
        const shares = [groups.slice(0, cut), groups.slice(cut)];
        const sent: number[][] = [];
        for (const share of shares) {
          ADVANTAGES[name].estimate(share, OPTIONS, (values) => {
            sent.push([...values]);
            return Float64Array.from(values);
          });
        }
        const apart = shares.flatMap((share) =>
          ADVANTAGES[name].estimate(share, OPTIONS, () => Float64Array.from(sent.flat())),
        );
        expect(apart).toEqual(ADVANTAGES[name].estimate(groups, OPTIONS, ALONE.gather));
      }
    }),
  );
});

interface Golden {
  readonly size: number;
  readonly lengths: number[];
  readonly weights: number[];
  readonly rewards: number[];
  readonly parts: number[][];
  readonly absent: (number | null)[][];
  readonly advantages: Readonly<Record<'verl' | 'trl', Readonly<Record<string, number[]>>>>;
}

// Made by the functions of verl and TRL (test/golden/make_policy.py; versions inside the file).
const golden = JSON.parse(
  readFileSync(new URL('../golden/policy/advantages.json', import.meta.url), 'utf8'),
) as Golden;

describe.each(['verl', 'trl'] as const)('%s', (by) => {
  test.each(Object.entries(golden.advantages[by]))('has the same advantages: %s', (name, want) => {
    const { size, lengths, rewards } = golden;
    const table = name === 'gdpo_absent' ? golden.absent : golden.parts;
    const parts = table.map((row) =>
      Object.fromEntries(row.flatMap((value, k) => (value === null ? [] : [[`part${k}`, value]]))),
    );
    const share = <T>(values: readonly T[], p: number): T[] => values.slice(p * size, (p + 1) * size);
    const groups = Array.from({ length: rewards.length / size }, (_, p) =>
      record(share(rewards, p), { lengths: share(lengths, p), parts: share(parts, p) }),
    );
    const weights = Object.fromEntries(golden.weights.map((weight, k) => [`part${k}`, weight]));
    const own = name.replace('_absent', '') as RewardAdvantage;
    const got = ADVANTAGES[own].estimate(groups, { weights, normalise: 'batch' }, ALONE.gather).flat();
    got.forEach((value, i) => {
      expect(value).toBeCloseTo(want[i]!, 4);
    });
  });
});

test('TimerPO takes any centred main part, and without the projection adds the centred similarity itself', () => {
  const main = [2, -1, -1];
  const similarity = [0.9, 0.1, 0.2];
  const plain = timerpo(main, similarity, { alpha: 0.5, projection: false });
  [0.5, -0.3, -0.2].forEach((value, i) => {
    expect(plain.orthogonal[i]).toBeCloseTo(value, 12);
    expect(plain.advantage[i]).toBeCloseTo(main[i]! + 0.5 * value, 12);
  });
  // ⟨A_ts, A_main⟩ / ‖A_main‖² = 1.5 / 6
  const projected = timerpo(main, similarity, { alpha: 0.5, projection: true });
  [0, -0.05, 0.05].forEach((value, i) => {
    expect(projected.orthogonal[i]).toBeCloseTo(value, 8);
  });
});

describe('orthogonal parts scaled to the spread of the main ones', () => {
  const alone = (values: readonly number[]): readonly number[] => values;
  const rms = (groups: readonly GroupAdvantage[], key: 'main' | 'orthogonal'): number => {
    const all = groups.flatMap((one) => one[key]);
    return Math.sqrt(dot(all, all) / all.length);
  };
  const groups = [
    timerpo([0.3, -0.1, -0.2], [0.31, 0.3, 0.28], PAPER),
    timerpo([0, 0, 0], [0.29, 0.33, 0.31], PAPER),
    timerpo([0.5, -0.5, 0], [0.3, 0.3, 0.3], PAPER),
  ];

  test('have it over the step, in the proportions between groups that they had', () => {
    const scaled = withEqualSpread(groups, 0.3, alone);
    expect(rms(scaled, 'orthogonal')).toBeCloseTo(rms(scaled, 'main'), 12);
    const factor = scaled[1]!.orthogonal[0]! / groups[1]!.orthogonal[0]!;
    expect(factor).toBeGreaterThan(5);
    scaled.forEach(({ main, orthogonal, advantage }, p) => {
      expect(main).toEqual(groups[p]!.main);
      orthogonal.forEach((value, i) => {
        expect(value).toBeCloseTo(factor * groups[p]!.orthogonal[i]!, 12);
        expect(advantage[i]).toBeCloseTo(main[i]! + 0.3 * value, 12);
      });
    });
  });

  test('are the same in two shares whose sums are added as in one', () => {
    const [left, right] = [groups.slice(0, 1), groups.slice(1)];
    const sums: number[][] = [];
    const tell = (values: readonly number[]): readonly number[] => {
      sums.push([...values]);
      return values;
    };
    withEqualSpread(left, 0.3, tell);
    withEqualSpread(right, 0.3, tell);
    const both = sums[0]!.map((value, i) => value + sums[1]![i]!);
    const apart = [left, right].flatMap((share) => withEqualSpread(share, 0.3, () => both));
    withEqualSpread(groups, 0.3, alone).forEach((one, p) => {
      one.advantage.forEach((value, i) => {
        expect(apart[p]!.advantage[i]).toBeCloseTo(value, 12);
      });
    });
  });

  test('stay as they are where no group has a main part', () => {
    const equal = [groups[1]!, timerpo([0, 0], [0.2, 0.4], PAPER)];
    expect(withEqualSpread(equal, 0.3, alone)).toEqual(equal);
  });

  test('are not blown up where they are rounding alone', () => {
    const tiny = [timerpo([1, -1], [0.3, 0.3 + 1e-7], PAPER), timerpo([0, 0], [0.3, 0.3 + 1e-7], PAPER)];
    const scaled = withEqualSpread(tiny, 0.3, alone);
    expect(Math.abs(scaled[1]!.orthogonal[0]!)).toBeCloseTo((0.5e-7 * Math.SQRT1_2) / SPREAD_FLOOR, 6);
  });
});

test.each(NAMES.filter((name) => name !== 'none'))(
  'of %s, responses without a reward have none, and the others are as if they were alone',
  (name) => {
    const whole = record([0.1, 0.9, 0.4], { similarity: [0.2, 0.9, 0.6], lengths: [3, 1, 2] });
    const other = record([0.3, 0.8], { similarity: [0.5, 0.1], lengths: [2, 2] });
    const spread = <T>(values: readonly T[], missing: T): T[] => [
      values[0]!,
      missing,
      values[1]!,
      missing,
      values[2]!,
    ];
    const sparse = {
      rewards: spread<number | null>(whole.rewards, null),
      parts: spread<Readonly<Record<string, number>>>(whole.parts, {}),
      lengths: spread(whole.lengths, 9),
      similarity: spread(whole.similarity, 1),
      task: 'a',
    };
    const alone = of(name, whole, other);
    const among = advantagesOf([sparse, other], { ...OPTIONS, advantage: name }, ALONE);
    expect(among[0]!.advantage).toEqual(spread(alone[0]!.advantage, 0));
    expect(among[0]!.orthogonal).toEqual(spread(alone[0]!.orthogonal, 0));
    expect(among[1]).toEqual(alone[1]);
    const silent = { ...sparse, rewards: sparse.rewards.map(() => null) };
    expect(isZeroVariance(advantagesOf([silent], { ...OPTIONS, advantage: name }, ALONE)[0]!)).toBe(true);
  },
);
