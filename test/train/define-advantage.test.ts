import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { AdvantageError, ConfigError } from '../../src/ground/errors.ts';
import {
  ADVANTAGES,
  type AdvantageDefinition,
  type AdvantageOptions,
  advantageOf,
  advantagesOf,
  defineAdvantage,
  type GroupRecord,
  openAdvantage,
  type PartlyRewardedGroup,
  type Ranks,
  readsTraces,
} from '../../src/train/advantage.ts';

const OPTIONS: Omit<AdvantageOptions, 'advantage'> = {
  timerpo: { alpha: 0.3, projection: true, base: 'dr_grpo', scale: 'plain' },
  weights: {},
  normalise: 'batch',
};

const group = (...rewards: (number | null)[]): PartlyRewardedGroup => ({
  rewards,
  parts: rewards.map(() => ({ place: 1 })),
  lengths: rewards.map((_, i) => i + 1),
  similarity: rewards.map(() => 0.5),
  task: 'a',
});

const alone: Ranks = {
  rank: 0,
  gather: (values) => Float64Array.from(values),
  allReduce: (values) => values,
};

/** Advantages on each of several ranks, as their threads would compute them side by side. */
function onRanks(
  advantage: AdvantageDefinition,
  shares: readonly (readonly PartlyRewardedGroup[])[],
): number[][][] {
  const sent = shares.map((): number[] => []);
  const run = (rank: number, gather: Ranks['gather']) =>
    advantagesOf(shares[rank]!, { ...OPTIONS, advantage }, { ...alone, rank, gather });
  shares.forEach((_, rank) => {
    const probe = (values: readonly number[]): Float64Array => {
      sent[rank] = [...values];
      throw new Error('sent');
    };
    expect(() => run(rank, probe)).toThrow('sent');
  });
  const all = Float64Array.from(sent.flat());
  return shares.map((_, rank) => run(rank, () => all).map(({ advantage: values }) => [...values]));
}

const best = defineAdvantage({
  name: 'best',
  advantages: (groups) =>
    groups.map(({ rewards }) => rewards.map((reward) => (reward === Math.max(...rewards) ? 1 : -1))),
});

test('an estimator receives plain records of the rewarded responses, and its numbers are the advantages', () => {
  let seen: readonly GroupRecord[] = [];
  const spy = defineAdvantage({
    name: 'spy',
    advantages: (groups) => {
      seen = groups;
      return best.advantages(groups);
    },
  });
  const [first, second] = advantagesOf(
    [group(1, null, 0), group(null)],
    { ...OPTIONS, advantage: spy },
    alone,
  );
  expect(seen).toEqual([
    {
      rewards: [1, 0],
      parts: [{ place: 1 }, { place: 1 }],
      lengths: [1, 3],
      similarity: [0.5, 0.5],
      task: 'a',
    },
  ]);
  expect(first).toEqual({ advantage: [1, 0, -1], main: [1, 0, -1], orthogonal: [0, 0, 0] });
  expect(second!.advantage).toEqual([0]);
});

test('every rank sees the groups of all ranks and takes its own share', () => {
  const ofAll = defineAdvantage({
    name: 'of-all',
    advantages: (groups) => {
      const all = groups.flatMap(({ rewards }) => rewards);
      const mean = all.reduce((sum, reward) => sum + reward, 0) / all.length;
      return groups.map(({ rewards }) => rewards.map((reward) => reward - mean));
    },
  });
  expect(onRanks(ofAll, [[group(1, 2), group(null, null)], [group(3, 6)]])).toEqual([
    [
      [-2, -1],
      [0, 0],
    ],
    [[0, 3]],
  ]);
});

test.each([
  ['a number of groups', () => [[1, 2]], 'returned 1 arrays for 2 groups'],
  ['a number of responses', () => [[1], [1, 2]], 'returned 1 numbers for the 2 responses of group 0'],
  [
    'NaN',
    () => [
      [0, 0],
      [0, Number.NaN],
    ],
    'returned NaN for response 1 of group 1',
  ],
  [
    'infinity',
    () => [
      [0, Infinity],
      [0, 0],
    ],
    'returned Infinity for response 1 of group 0',
  ],
  ['a promise', async () => [[0, 0]], 'returned a promise'],
  ['nothing', () => undefined, 'returned a undefined'],
  [
    'an exception',
    () => {
      throw new TypeError('oops');
    },
    'threw TypeError: oops',
  ],
])('an estimator that returns %s is named in an AdvantageError', (_, advantages, problem) => {
  const advantage = defineAdvantage({ name: 'mine', advantages: advantages as never });
  const run = () => advantagesOf([group(1, 0), group(0, 1)], { ...OPTIONS, advantage }, alone);
  expect(run).toThrow(AdvantageError);
  expect(run).toThrow(`advantage mine ${problem}`);
});

describe('defineAdvantage', () => {
  test.each([
    [undefined, 'name: got undefined'],
    [{ name: '1st', advantages: () => [] }, 'name: got "1st"'],
    [{ name: 'mine' }, 'mine: advantages: expected a function'],
    [
      { name: 'mine', advantages: () => [], similarty: true },
      'mine: similarty: unknown key. Did you mean similarity?',
    ],
    [{ name: 'mine', advantages: () => [], similarity: 1 }, 'mine: similarity: expected true or false'],
  ])('refuses %j', (definition, problem) => {
    expect(() => defineAdvantage(definition as never)).toThrow(ConfigError);
    expect(() => defineAdvantage(definition as never)).toThrow(problem);
    expect(() => advantageOf(definition, 'mine.ts')).toThrow('mine.ts: exports no advantage estimator');
  });

  test('traces are read where the definition asks for similarities', () => {
    const { timerpo } = OPTIONS;
    expect(readsTraces({ advantage: best, timerpo })).toBe(false);
    expect(readsTraces({ advantage: { ...best, similarity: true }, timerpo })).toBe(true);
    expect(readsTraces({ advantage: 'timerpo', timerpo })).toBe(true);
    expect(readsTraces({ advantage: 'timerpo', timerpo: { alpha: 0 } })).toBe(false);
    expect(
      Object.keys(ADVANTAGES).filter((name) => readsTraces({ advantage: name as never, timerpo })),
    ).toEqual(['timerpo']);
  });
});

describe('the estimator of a module', () => {
  const folder = mkdtempSync(join(tmpdir(), 'advantage-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const opened = (name: string, body: string) => {
    const file = join(folder, `${name}.mjs`);
    writeFileSync(
      file,
      `export default { name: '${name}', similarity: true, advantages: (groups) => ${body} };`,
    );
    return openAdvantage({ file, name: 'default' }, 1);
  };
  const call = (advantage: AdvantageDefinition) =>
    advantagesOf([group(1, null, 0)], { ...OPTIONS, advantage }, alone).map((one) => [...one.advantage]);

  test('computes in a thread of its own', async () => {
    const mine = await opened('halves', 'groups.map(({ rewards }) => rewards.map((reward) => reward / 2))');
    expect(mine.similarity).toBe(true);
    expect([call(mine), call(mine)]).toEqual([[[0.5, 0, 0]], [[0.5, 0, 0]]]);
    await mine.close();
  });

  test('is named with its place where it throws', async () => {
    const mine = await opened('broken', 'groups.none.length');
    expect(() => call(mine)).toThrow(AdvantageError);
    expect(() => call(mine)).toThrow(/broken\.mjs: advantage broken threw TypeError: .*broken\.mjs:1:\d+/);
    await mine.close();
  });

  test('is ended and named where it never returns', async () => {
    const mine = await opened('endless', '{ for (;;); }');
    expect(() => call(mine)).toThrow(
      expect.objectContaining({
        name: 'ConfigError',
        message: expect.stringMatching(/endless\.mjs: a call did not return, .* more than 1 s/),
      }),
    );
    await mine.close();
  });

  test('is named at once where it ends its thread', async () => {
    const mine = await opened('gone', 'process.exit(3)');
    expect(() => call(mine)).toThrow(/gone\.mjs: ended its thread with process\.exit\(3\)/);
    await mine.close();
  });
});
