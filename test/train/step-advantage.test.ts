import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { choiceNames } from '../../src/ground/choice.ts';
import {
  type Episode,
  type EpisodeStep,
  estimatedDistances,
  estimateSteps,
  STEP_ADVANTAGES,
  type StepAdvantageName,
  type StepAdvantageOptions,
  textSimilarity,
} from '../../src/train/step-advantage.ts';

const STEP_ADVANTAGE_NAMES = choiceNames(STEP_ADVANTAGES);

const golden = (name: string) =>
  JSON.parse(readFileSync(new URL(`../golden/${name}.json`, import.meta.url), 'utf8'));

const largestDifference = (got: readonly number[], expected: readonly number[]): number => {
  expect(got.length).toBe(expected.length);
  return got.reduce((most, value, i) => Math.max(most, Math.abs(value - expected[i]!)), 0);
};

describe('the releases, in float32', () => {
  interface ReleaseStep {
    readonly group: string;
    readonly trajectory: string;
    readonly state: string;
    readonly next: string;
    readonly reward: number;
    readonly valid: boolean;
  }
  type ReleaseCase = { name: string; gamma: number; invalid_action_penalty: number; steps: ReleaseStep[] } & {
    graph_distances: Record<string, Record<string, number>>;
  } & Record<string, number[]>;
  const { cases, similarity } = golden('step_advantage_releases') as {
    cases: ReleaseCase[];
    similarity: { a: string; b: string; ratio: number }[];
  };

  const distinct = (values: readonly string[]): string[] => [...new Set(values)];
  const groupsOf = (steps: readonly ReleaseStep[]): Episode[][] =>
    distinct(steps.map(({ group }) => group)).map((name) => {
      const members = steps.filter(({ group }) => group === name);
      return distinct(members.map(({ trajectory }) => trajectory)).map((episode) => {
        const own = members.filter(({ trajectory }) => trajectory === episode);
        return {
          success: own.at(-1)!.next === 'success',
          steps: own.map(({ valid, ...step }) => ({ ...step, isValid: valid })),
        };
      });
    });

  /** Options of an array of a case, by its name; undefined for arrays that are no advantages. */
  function settingsOf(name: string): [StepAdvantageName, StepAdvantageOptions] | undefined {
    const normaliser = name.includes('mean_std_norm') ? 'mean_std' : 'mean';
    const mode = /_mean(?:_std)?_norm/;
    if (!mode.test(name)) return undefined;
    if (name.startsWith('episode_per_trajectory')) return ['grpo', { normaliser }];
    if (name.startsWith('episode')) return ['gigpo', { normaliser, stepWeight: 0 }];
    if (name.startsWith('gigpo'))
      return ['gigpo', { normaliser, stepWeight: Number(/_w(.+)$/.exec(name)?.[1] ?? 1) }];
    const [, history, alpha, base] = /_K(\d)_alpha(\d)(_base)?$/.exec(name) ?? [];
    if (history !== undefined) {
      return [
        'hgpo',
        { normaliser, history: Number(history), alpha: Number(alpha), episode: base !== undefined },
      ];
    }
    const gamma = Number(/graph_g([\d.]+)/.exec(name)![1]);
    const isDelta = name.includes('_delta');
    return [
      'graphgpo',
      { normaliser, gamma, normalizeDistance: isDelta, episode: !name.endsWith('episode0') },
    ];
  }

  test.each(cases.map((release) => [release.name, release] as const))('%s', (_, release) => {
    let compared = 0;
    for (const [array, expected] of Object.entries(release)) {
      const settings = settingsOf(array);
      if (settings === undefined) continue;
      const [estimator, options] = settings;
      // The release takes one step's penalised score for the whole episode; estimateSteps subtracts all penalties.
      if (estimator === 'grpo' && release.invalid_action_penalty > 0) continue;
      // One episode alone: the release leaves its score as it is.
      if (estimator === 'grpo' && release.name === 'one trajectory alone') continue;
      const got = estimateSteps(estimator, groupsOf(release.steps), {
        gamma: release.gamma,
        invalidPenalty: release.invalid_action_penalty,
        ...options,
      });
      expect(largestDifference(got.flat(2), expected as number[]), array).toBeLessThan(2e-4);
      compared++;
    }
    expect(compared).toBeGreaterThan(40);
    const names = distinct(release.steps.map(({ group }) => group));
    groupsOf(release.steps).forEach((group, g) => {
      const { success: _success, ...expected } = release.graph_distances[names[g]!]!;
      expect(Object.fromEntries(estimatedDistances(group))).toEqual(expected);
    });
  });

  test('similarities of texts', () => {
    for (const { a, b, ratio } of similarity) expect(textSimilarity(a, b)).toBeCloseTo(ratio, 6);
  });
});

describe('an independent program, in float64', () => {
  type Row = [string, string, number, boolean, number, string?];
  const { cases, texts, ratios } = golden('step_advantage') as {
    cases: {
      estimator: StepAdvantageName;
      options: StepAdvantageOptions;
      groups: { steps: Row[]; success: boolean }[][];
      advantages: number[][][];
    }[];
    texts: string[];
    ratios: [number, number, number][];
  };
  const stepOf = ([state, next, reward, isValid, bonus, role]: Row): EpisodeStep => ({
    ...{ state, next, reward, isValid, bonus },
    ...(role === undefined ? {} : { role }),
  });

  test.each(STEP_ADVANTAGE_NAMES)(
    '%s, with roles, similar states and episodes of different lengths',
    (name) => {
      const own = cases.filter(({ estimator }) => estimator === name);
      expect(own.length).toBeGreaterThanOrEqual(8);
      for (const { groups, options, advantages } of own) {
        const episodes = groups.map((group) => group.map((e) => ({ ...e, steps: e.steps.map(stepOf) })));
        const got = estimateSteps(name, episodes, options);
        expect(got.map((group) => group.map(({ length }) => length))).toEqual(
          advantages.map((group) => group.map(({ length }) => length)),
        );
        expect(largestDifference(got.flat(2), advantages.flat(2))).toBeLessThan(1e-9);
      }
    },
  );

  test('similarities are those of difflib, long texts and letters outside the first plane included', () => {
    for (const [i, j, ratio] of ratios) expect(textSimilarity(texts[i]!, texts[j]!)).toBeCloseTo(ratio, 12);
  });
});

const step = fc.record(
  {
    state: fc.constantFrom('s0', 's1', 's2', 's3'),
    next: fc.constantFrom('s0', 's1', 's2', 's3', 'end'),
    reward: fc.double({ min: -1, max: 10, noNaN: true }),
    isValid: fc.boolean(),
    role: fc.constantFrom('looks', 'answers'),
  },
  { requiredKeys: ['state', 'next', 'reward', 'isValid'] },
);
const episode = fc.record({ steps: fc.array(step, { maxLength: 6 }), success: fc.boolean() });
const group = fc.array(episode, { maxLength: 6 });
const names = fc.constantFrom(...STEP_ADVANTAGE_NAMES);
const normaliser = fc.constantFrom('mean' as const, 'mean_std' as const);

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const failed = (...steps: EpisodeStep[]): Episode => ({ steps, success: false });
const won = (...steps: EpisodeStep[]): Episode => ({ steps, success: true });
const move = (state: string, next: string, reward = 0): EpisodeStep => ({
  state,
  next,
  reward,
  isValid: true,
});

describe('every estimator', () => {
  test('gives one finite number per step, whatever the lengths', () => {
    fc.assert(
      fc.property(names, normaliser, fc.array(group, { maxLength: 3 }), (name, normaliser, groups) => {
        const got = estimateSteps(name, groups, { normaliser });
        expect(got.map((g) => g.map(({ length }) => length))).toEqual(
          groups.map((g) => g.map(({ steps }) => steps.length)),
        );
        expect(got.flat(2).every(Number.isFinite)).toBe(true);
      }),
    );
  });

  test('does not let one group move another', () => {
    fc.assert(
      fc.property(names, group, group, (name, one, other) => {
        expect(estimateSteps(name, [one, other])[0]).toEqual(estimateSteps(name, [one])[0]);
      }),
    );
  });

  test('does not let one role move another, where each acts in episodes of its own', () => {
    // GraphGPO is left out: its graph is of all roles, so that the farthest state of one moves the unreachable ones of another.
    const names = fc.constantFrom('grpo' as const, 'gigpo' as const, 'hgpo' as const);
    fc.assert(
      fc.property(names, group, group, fc.nat(), (name, one, other, seed) => {
        const as = (episodes: Episode[], role: string): Episode[] =>
          episodes.map((e) => ({
            ...e,
            steps: e.steps.map((s) => ({
              ...s,
              role,
              state: `${role} ${s.state}`,
              next: `${role} ${s.next}`,
            })),
          }));
        const [mine, theirs] = [as(one, 'looks'), as(other, 'answers')];
        const cut = seed % (mine.length + 1);
        const mixed = [...mine.slice(0, cut), ...theirs, ...mine.slice(cut)];
        const got = estimateSteps(name, [mixed])[0]!;
        const own = [...got.slice(0, cut), ...got.slice(cut + theirs.length)];
        const alone = estimateSteps(name, [mine])[0]!;
        expect(largestDifference(own.flat(), alone.flat())).toBeLessThan(1e-9);
      }),
    );
  });

  test('does not depend on the order of the episodes', () => {
    fc.assert(
      fc.property(names, group, (name, episodes) => {
        const backwards = estimateSteps(name, [episodes.toReversed()])[0]!.toReversed();
        expect(largestDifference(backwards.flat(), estimateSteps(name, [episodes])[0]!.flat())).toBeLessThan(
          1e-6,
        );
      }),
    );
  });

  test('gives exactly 0 where all episodes are alike', () => {
    fc.assert(
      fc.property(
        names,
        normaliser,
        episode,
        fc.integer({ min: 2, max: 5 }),
        (name, normaliser, one, count) => {
          const steps = one.steps.map((s, i) => ({ ...s, isValid: true, reward: 0.1, state: `${i}` }));
          const got = estimateSteps(name, [Array.from({ length: count }, () => ({ ...one, steps }))], {
            normaliser,
          });
          expect(got.flat(2).every((value) => value === 0)).toBe(true);
        },
      ),
    );
  });

  test('gives a step alone in its group 0, not its reward', () => {
    for (const name of STEP_ADVANTAGE_NAMES) {
      expect(estimateSteps(name, [[won(move('s0', 'end', 10))]])).toEqual([[[0]]]);
    }
  });
});

test('the episode part sums to 0 over the steps of the group, and grpo over its episodes', () => {
  fc.assert(
    fc.property(group, (episodes) => {
      const plain = episodes.map((e) => ({ ...e, steps: e.steps.map(({ role: _, ...s }) => s) }));
      const options = { normaliser: 'mean', stepWeight: 0 } as const;
      expect(Math.abs(sum(estimateSteps('gigpo', [plain], options).flat(2)))).toBeLessThan(1e-9);
      const first = estimateSteps('grpo', [plain], options)[0]!.flatMap((steps) => steps.slice(0, 1));
      expect(Math.abs(sum(first))).toBeLessThan(1e-9);
    }),
  );
});

test('an invalid action costs its step, and with grpo its whole episode', () => {
  const episodes = [
    failed(move('s0', 's1'), { ...move('s1', 'end'), isValid: false }),
    failed(move('s0', 's1'), move('s1', 'end')),
  ];
  const options = { normaliser: 'mean', invalidPenalty: 0.4 } as const;
  expect(estimateSteps('gigpo', [episodes], { ...options, stepWeight: 0 })[0]!.flat()).toEqual(
    [0.1, -0.3, 0.1, 0.1].map((value) => expect.closeTo(value, 12)),
  );
  expect(estimateSteps('grpo', [episodes], options)[0]!.flat()).toEqual(
    [-0.2, -0.2, 0.2, 0.2].map((value) => expect.closeTo(value, 12)),
  );
});

test('HGPO leaves out a group in which a step is at the mean, also where that is off by rounding', () => {
  const episodes = [0.1, 0.2, 0.3].map((reward, e) =>
    failed(move(e < 2 ? 'x' : 'z', 'y'), move('y', 'end', reward)),
  );
  // Groups of the second step of the middle one: {0.1, 0.2, 0.3} by its state, {0.1, 0.2} by its last two.
  const got = estimateSteps('hgpo', [episodes], { normaliser: 'mean' })[0]!;
  expect(got[1]![1]).toBeCloseTo(0.05, 6);
});

describe('GraphGPO', () => {
  test('credits the good step of a failed episode', () => {
    const episodes = [
      won(move('start', 'near'), move('near', 'end', 10)),
      failed(move('start', 'near'), move('near', 'lost')),
      failed(move('start', 'lost'), move('lost', 'lost')),
    ];
    const [, good, bad] = estimateSteps('graphgpo', [episodes], { episode: false })[0]!;
    expect(good![0]).toBeGreaterThan(0);
    expect(bad![0]).toBeLessThan(0);
  });

  test('knows success from a state of that name', () => {
    const distances = estimatedDistances([
      won(move('a', 'b'), move('b', 'end')),
      failed(move('c', 'success')),
    ]);
    expect(Object.fromEntries(distances)).toEqual({ a: 2, b: 1, c: 3, success: 3 });
  });

  test('estimates distances no shorter than one step, and exact ones along a path that succeeded', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), group, (length, others) => {
        const path = won(...Array.from({ length }, (_, t) => move(`p${t}`, `p${t + 1}`)));
        const distances = estimatedDistances([path, ...others]);
        for (let t = 0; t < length; t++) expect(distances.get(`p${t}`)).toBe(length - t);
        for (const distance of distances.values()) expect(distance).toBeGreaterThanOrEqual(1);
      }),
    );
  });
});

test.each([
  [{ gamma: 0 }, 'gamma: expected a number in (0, 1], got 0'],
  [{ gamma: Number.NaN }, 'gamma: expected a number in (0, 1], got NaN'],
  [{ similarity: 1.2 }, 'similarity: expected a number in (0, 1], got 1.2'],
  [{ history: 1.5 }, 'history: expected a whole number of at least 0, got 1.5'],
  [{ alpha: -1 }, 'alpha: expected a number of at least 0, got -1'],
  [{ invalidPenalty: -0.1 }, 'invalidPenalty: expected a number of at least 0, got -0.1'],
])('refuses %j', (options, message) => {
  expect(() => estimateSteps('hgpo', [], options)).toThrow(message);
});

test('names the step whose reward is no number', () => {
  const bad = failed(move('s0', 's1'), move('s1', 'end', Number.NaN));
  expect(() => estimateSteps('gigpo', [[], [failed(move('s0', 's1')), bad]])).toThrow(
    'group 1, episode 1, step 1: reward: expected a finite number, got NaN',
  );
});
