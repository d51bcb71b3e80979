import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import {
  defineReward,
  type RewardDefinition,
  RewardHost,
  rewardOf,
  type ScoringRequest,
  scoresBy,
} from '../../rewards/define.ts';
import { namedReward, REWARDS } from '../../rewards/registry.ts';
import { combine, combinedWeights } from '../../rewards/reward.ts';
import { ConfigError, RewardError, RewardTimeoutError } from '../../src/ground/errors.ts';
import { ModuleHost } from '../../src/ground/module-host.ts';
import type { Example } from '../../src/ground/types.ts';
import { loadModule } from '../../src/ground/user-code.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { KIND_NAMES, taskKind } from '../../src/tasks/kinds.ts';

const directory = mkdtempSync(join(tmpdir(), 'timeseer-reward-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const write = (name: string, text: string): string => {
  const file = join(directory, name);
  writeFileSync(file, text);
  return file;
};

const example: Example = {
  ...{
    id: 'set/train/7',
    task: 'set',
    channels: [Float64Array.of(3, 1, 4, 1, 5)],
    names: ['x'],
    times: null,
  },
  ...{ gold: { kind: 'anomaly', class: 'trend', intervals: [[1, 3]] }, recording: null },
};
const asked = (text: string): ScoringRequest => ({ text, answer: parseAnswer(text, 5), example });
const request = (text: string) => ({ ...asked(text), gold: example.gold });
const FILE = '/home/ann/mine.ts';
/** Scores, or the first error among them. */
const scored = async (reward: RewardDefinition, requests = [request('abc')]) => {
  const outcomes = await scoresBy(reward, requests, { file: FILE });
  return outcomes.map((outcome) => {
    if (outcome instanceof RewardError) throw outcome;
    return outcome;
  });
};
const outcomeOf = (outcome: unknown) =>
  scored(defineReward({ name: 'mine', score: () => outcome as number, timeLimit: 5 }));

const score = (): number => 1;

describe('a definition', () => {
  test.each([
    ['no name', { score }, /name: got undefined/],
    ['a name of two words', { name: 'two words', score }, /name: got "two words"/],
    ['a name with a dot', { name: 'a.b', score }, /name: got "a\.b"/],
    ['no function', { name: 'mine' }, /one function, either score or scoreBatch/],
    ['two functions', { name: 'mine', score, scoreBatch: score }, /one function, either score or scoreBatch/],
    ['a limit of no time', { name: 'mine', score, timeLimit: 0 }, /timeLimit: got 0/],
    ['nothing', null, /name: got undefined/],
    [
      'an unknown key',
      { name: 'mine', score, timelimit: 5 },
      /defineReward mine: timelimit: unknown key\. Did you mean timeLimit\?/,
    ],
  ])('with %s is refused', (_, definition, message) => {
    expect(() => defineReward(definition as RewardDefinition)).toThrow(message);
    expect(() => rewardOf(definition, FILE)).toThrow(/^\/home\/ann\/mine\.ts: exports no reward: /);
  });

  test('may be a function alone, by its name', () => {
    function brief() {
      return 0.5;
    }
    expect(rewardOf(brief, FILE)).toMatchObject({ name: 'brief', score: brief });
    expect(rewardOf(() => 1, FILE).name).toBe('reward');
  });
});

describe('scores of a reward of the user', () => {
  test('are numbers, numbers with parts and notes, or null where it does not apply', async () => {
    expect(await outcomeOf(-2.5)).toEqual([{ total: -2.5, parts: {} }]);
    expect(await outcomeOf(null)).toEqual([null]);
    expect(await outcomeOf({ total: null, parts: { a: 1 } })).toEqual([null]);
    expect(await outcomeOf(Promise.resolve({ total: 0.5, parts: { a: 1, b: null }, notes: 'so' }))).toEqual([
      { total: 0.5, parts: { a: 1 }, notes: 'so' },
    ]);
  });

  test.each([
    ['NaN', Number.NaN, 'returned NaN'],
    ['an infinite number', -Infinity, 'returned -Infinity'],
    ['a string', '0.5', 'returned "0.5"'],
    ['two numbers', [0.5, 0.5], 'returned [0.5,0.5]'],
    ['nothing', undefined, 'returned nothing'],
    ['a truth', true, 'returned true'],
    ['a total that is text', { total: '1' }, 'returned a total of "1"'],
    ['parts without a total', { parts: { a: 1 } }, 'returned {"parts":{"a":1}}'],
    ['a part that is NaN', { total: 1, parts: { a: Number.NaN } }, 'returned NaN as its part a'],
    ['a part with a dot', { total: 1, parts: { 'a.b': 1 } }, 'returned a part called "a.b"'],
    ['notes that are no text', { total: 1, notes: 7 }, 'returned notes of 7'],
  ])('that are %s are refused, naming function, file and response', async (_, outcome, message) => {
    const error = await outcomeOf(outcome).catch((cause: unknown) => cause as Error);
    expect(error).toBeInstanceOf(RewardError);
    expect((error as Error).message).toContain(
      `${FILE}: reward mine on a response to set/train/7 ("abc") ${message}`,
    );
  });

  test('are missing with an error where the function throws, now or later', async () => {
    const failing = (score: () => Promise<number> | number) => scored({ name: 'mine', score });
    const boom = () => {
      throw new TypeError('boom\nsecond line');
    };
    await expect(failing(boom)).rejects.toThrow(/reward mine on .* threw TypeError: boom$/);
    await expect(failing(async () => boom())).rejects.toThrow(/threw TypeError: boom$/);
    await expect(failing(() => Promise.reject('text'))).rejects.toThrow(/threw "text"$/);
  });

  test('may heed the time limit, and are an error where they do not', async () => {
    const heeds = defineReward({
      name: 'heeds',
      timeLimit: 0.02,
      score: ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(null))),
    });
    expect(await scored(heeds)).toEqual([null]);
    const hangs = defineReward({ name: 'hangs', timeLimit: 0.02, score: () => new Promise(() => {}) });
    await expect(scored(hangs)).rejects.toThrow(/reward hangs on .* returned nothing within 0\.02 s/);
  });

  test('are an error for the responses alone that went wrong', async () => {
    const odd = defineReward({
      name: 'odd',
      score: ({ text }) => (text === 'b' ? Number.NaN : text.length),
    });
    const outcomes = await scoresBy(odd, ['a', 'b', 'cc'].map(request), { file: FILE });
    expect(outcomes).toEqual([{ total: 1, parts: {} }, expect.any(RewardError), { total: 2, parts: {} }]);
  });

  test('are not asked for any more after a call that took too long', async () => {
    let calls = 0;
    const hangs = defineReward({
      name: 'hangs',
      timeLimit: 0.02,
      score: () => {
        calls++;
        return new Promise(() => {});
      },
    });
    const outcomes = await scoresBy(
      hangs,
      Array.from({ length: 200 }, () => request('a')),
      { file: FILE },
    );
    expect(outcomes.every((outcome) => outcome instanceof RewardTimeoutError)).toBe(true);
    expect(calls).toBe(64);
  });

  test('of one response are asked for side by side and come in order', async () => {
    let [under, most] = [0, 0];
    const score = async ({ text }: { text: string }) => {
      most = Math.max(most, ++under);
      await sleep(text.length % 3);
      under--;
      return text.length;
    };
    const requests = Array.from({ length: 150 }, (_, i) => request('x'.repeat(i)));
    const scores = await scored({ name: 'mine', score }, requests);
    expect(scores.map((value) => value?.total)).toEqual(requests.map((_, i) => i));
    expect(most).toBe(64);
  });

  test('of a batch are one for each response', async () => {
    const batch = (scoreBatch: (all: readonly { text: string }[]) => unknown) =>
      scored({ name: 'mine', scoreBatch: scoreBatch as never }, [request('a'), request('bcd')]);
    expect(await batch((all) => all.map(({ text }) => text.length))).toMatchObject([
      { total: 1 },
      { total: 3 },
    ]);
    await expect(batch(() => [1])).rejects.toThrow(/reward mine returned 1 values for 2 responses/);
    await expect(batch(() => 1)).rejects.toThrow(/reward mine returned 1 for 2 responses/);
    await expect(batch(() => [1, Number.NaN])).rejects.toThrow(/to set\/train\/7 \("bcd"\) returned NaN/);
  });
});

describe('the thread of rewards', () => {
  test('runs TypeScript that imports timeseer and its neighbours, from a folder without node_modules', async () => {
    write('limit.ts', 'export const limit: number = 10;\n');
    const file = write(
      'brief.ts',
      `import { defineReward } from 'timeseer';
import { limit } from './limit.js';
export default defineReward({
  name: 'brief',
  score: ({ text, gold }) => ({ total: text.length / limit, parts: { wide: gold.kind === 'anomaly' ? gold.intervals[0]![1] : 0 } }),
});
export const strict = defineReward({ name: 'strict', score: ({ answer }): number => (answer.wellFormed ? 1 : 0) });
`,
    );
    const host = await RewardHost.open([
      { file, name: 'default' },
      { file, name: 'strict' },
    ]);
    expect(host.rewards.map(({ name }) => name)).toEqual(['brief', 'strict']);
    const right = '<think>t</think><answer>[[1, 3]]</answer><class>trend</class>';
    expect(await Promise.all(['abc', right].map((text) => host.score(asked(text))))).toEqual([
      [
        { total: 0.3, parts: { wide: 3 } },
        { total: 0, parts: {} },
      ],
      [
        { total: right.length / 10, parts: { wide: 3 } },
        { total: 1, parts: {} },
      ],
    ]);
    await host.close();
    await expect(host.score(asked('a'))).rejects.toThrow(/closed/);
  });

  test('runs JavaScript, by Node or with timeseer imported', async () => {
    const plain = write('plain.mjs', 'export default function half() { return 0.5; }\n');
    const ours = write(
      'ours.mjs',
      "import { defineReward } from 'timeseer';\nexport default defineReward({ name: 'ours', score: async () => null });\n",
    );
    const host = await RewardHost.open([plain, ours].map((file) => ({ file, name: 'default' })));
    expect(await host.score(asked('a'))).toEqual([{ total: 0.5, parts: {} }, null]);
    await host.close();
    const bad = write('bad.mjs', 'const a = 1;\nexport default function ( {\n');
    await expect(RewardHost.open([{ file: bad, name: 'default' }])).rejects.toThrow(
      /bad\.mjs:3:\d+: Unexpected/,
    );
  });

  test.each([
    ['is not there', 'gone.ts', null, 'default', /gone\.ts: cannot be read as a module \(no such file/],
    ['is no module', 'notes.txt', 'x', 'default', /notes\.txt: not a module by its ending; .*\.ts/],
    [
      'has a syntax error',
      'bad.ts',
      'const a: number = 1;\nexport default {\n  x: (,\n};\n',
      'default',
      /bad\.ts:3:\d+: Unexpected token; correct/,
    ],
    [
      'throws when loaded',
      'throws.ts',
      'const a = 1;\nthrow new RangeError("no " + a);\n',
      'default',
      /throws\.ts:2:\d+: threw RangeError when it was loaded: no 1/,
    ],
    [
      'throws on its first line, whose columns count from its beginning',
      'first.ts',
      'throw new RangeError("at once");\n',
      'default',
      /first\.ts:1(?::\d\d?)?: threw RangeError when it was loaded: at once/,
    ],
    [
      'imports what is not there',
      'lost.ts',
      "import x from 'no-such-package-here';\nexport default x;\n",
      'default',
      /lost\.ts: Cannot find .*no-such-package-here/,
    ],
    [
      'has no default export',
      'named.ts',
      'export const brief = () => 1;\n',
      'default',
      /no default export; .*named\.ts#brief/,
    ],
    [
      'does not export the name',
      'other.ts',
      'export const brief = () => 1;\n',
      'breif',
      /exports no breif; it exports brief\. Did you mean brief\?/,
    ],
    ['exports something else', 'seven.ts', 'export default 7;\n', 'default', /seven\.ts: exports no reward/],
  ])('refuses a module that %s', async (_, name, text, wanted, message) => {
    const file = text === null ? join(directory, name) : write(name, text);
    const opened = loadModule({ file, name: wanted }, 'a reward').then((found) => rewardOf(found, file));
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.toBeInstanceOf(ConfigError);
  });

  test('reports what a function does wrong, with the line that threw, and goes on', async () => {
    const file = write(
      'moody.ts',
      `interface Asked { text: string }
export default function moody({ text }: Asked) {
  if (text === 'bad') throw new Error('not this');
  return text === 'odd' ? Number.NaN : 1;
}
`,
    );
    const host = await RewardHost.open([{ file, name: 'default' }]);
    await expect(host.score(asked('bad'))).rejects.toThrow(
      /moody\.ts: reward moody on a response to set\/train\/7 \("bad"\) threw Error: not this \(.*moody\.ts:3:\d+\)/,
    );
    await expect(host.score(asked('odd'))).rejects.toThrow(/returned NaN: return one finite number/);
    expect(await host.score(asked('good'))).toEqual([{ total: 1, parts: {} }]);
    await host.close();
  });

  test('that a function blocks, ends or stalls fails what it was asked, and starts anew', async () => {
    const host = await RewardHost.open([
      {
        file: write(
          'harmful.mjs',
          `export default { name: 'harmful', timeLimit: 0.1, score: ({ text }) => {
  if (text === 'block') for (;;);
  if (text === 'exit') process.exit(0);
  if (text === 'throw') setTimeout(() => { throw new Error('later'); });
  return text === 'fine' ? 1 : new Promise(() => {});
} };
`,
        ),
        name: 'default',
      },
    ]);
    const message = (text: string) => host.score(asked(text)).then(String, (error: Error) => error.message);
    expect(await message('block')).toMatch(
      /harmful\.mjs: a call blocked its thread for more than 0\.1 s, .*; last called: .*reward \w+ on a response to /,
    );
    expect(await message('exit')).toMatch(/harmful\.mjs: ended its thread with process\.exit\(0\)/);
    expect(await message('throw')).toMatch(
      /harmful\.mjs: threw Error: later \(.*harmful\.mjs:4:\d+\) outside of a call/,
    );
    expect(await host.score(asked('fine'))).toEqual([{ total: 1, parts: {} }]);
    await host.close();
  });

  test('reports an exception between two calls by the next call, or on closing, once', async () => {
    const file = write(
      'later.mjs',
      `export default { name: 'later', score: () => { setTimeout(() => { throw new Error('later'); }, 10); return 1; } };\n`,
    );
    const expected = /later\.mjs: threw Error: later \(.*later\.mjs:1:\d+\) outside of a call/;
    for (const last of ['call', 'close'] as const) {
      const host = await RewardHost.open([{ file, name: 'default' }]);
      expect(await host.score(asked('a'))).toEqual([{ total: 1, parts: {} }]);
      await sleep(300);
      if (last === 'call') await expect(host.score(asked('b'))).rejects.toThrow(expected);
      else await expect(host.close()).rejects.toThrow(expected);
      await host.close();
    }
  });

  test('says at once that a promise never settles, long before the time limit', async () => {
    const file = write('never.mjs', 'export default function never() { return new Promise(() => {}); }\n');
    const host = await RewardHost.open([{ file, name: 'default' }]);
    const before = performance.now();
    await expect(host.score(asked('a'))).rejects.toThrow(
      /reward never on .* waits for something that never comes/,
    );
    expect(performance.now() - before).toBeLessThan(20_000);
    await host.close();
  });

  test('gives a module a limited time to load, and refuses one that exits meanwhile', async () => {
    const open = (name: string, text: string) =>
      ModuleHost.open({
        modules: [{ file: write(name, text), name: 'default' }],
        adapter: new URL('../../rewards/define.ts', import.meta.url).href,
        ...{ timeLimit: () => 1, failure: (text: string) => new RewardError(text), loading: 1 },
      });
    await expect(open('loads.mjs', 'for (;;);')).rejects.toThrow(/loads\.mjs: does not load within 1 s/);
    await expect(open('exits.mjs', 'process.exit(0);')).rejects.toThrow(/exits\.mjs: .*process\.exit\(0\)/);
    await expect(open('waits.mjs', 'await new Promise(() => {});')).rejects.toThrow(/never comes/);
  });
});

describe('several rewards', () => {
  const ours = { name: 'anomseer', weight: 1, weights: { place: 0.75, format: 0.25 } };
  const mine = { name: 'mine', weight: 0.2, weights: null };

  test('are the mean of those that apply, by weight, with the parts of all', () => {
    const first = { total: 0.8, parts: { place: 1, format: 0.2 } };
    const second = { total: 0.5, parts: { tone: 7 }, notes: 'dry' };
    expect(combine([ours, mine], [first, second])).toEqual({
      total: (0.8 + 0.2 * 0.5) / 1.2,
      parts: { place: 1, format: 0.2, mine: 0.5, 'mine.tone': 7 },
      notes: 'mine: dry',
    });
    expect(combine([ours, mine], [first, null])).toEqual(first);
    expect(combine([ours, mine], [null, null])).toBeNull();
    expect(combine([ours, { ...mine, weight: 0 }], [null, second])).toBeNull();
  });

  test('one of weight 1 is itself, and all together stay among their totals', () => {
    const unit = fc.double({ min: 0, max: 1, noNaN: true });
    const weight = fc.integer({ min: 0, max: 1000 }).map((thousandths) => thousandths / 1000);
    fc.assert(
      fc.property(fc.array(fc.tuple(weight, fc.option(unit)), { minLength: 1, maxLength: 5 }), (all) => {
        const rewards = all.map(([weight], i) => ({ name: `r${i}`, weight, weights: null }));
        const scores = all.map(([, total]) => (total === null ? null : { total, parts: {} }));
        const totals = all.flatMap(([weight, total]) => (total === null || weight === 0 ? [] : [total]));
        const combined = combine(rewards, scores);
        if (totals.length === 0) expect(combined).toBeNull();
        else {
          expect(combined!.total).toBeGreaterThanOrEqual(Math.min(...totals) - 1e-9);
          expect(combined!.total).toBeLessThanOrEqual(Math.max(...totals) + 1e-9);
        }
        expect(combine([{ ...rewards[0]!, weight: 1 }], [scores[0]!])?.total).toBe(scores[0]?.total);
      }),
    );
  });

  test('have parts of different names, each with its weight', () => {
    expect(combinedWeights([ours, mine])).toEqual({ place: 0.75, format: 0.25, mine: 0.2 });
    expect(() => combinedWeights([ours, { name: 'format', weight: 1, weights: null }])).toThrow(
      /two rewards have a part called format/,
    );
  });

  test('stand in one table, with that of each answer kind', () => {
    const kinds = KIND_NAMES.map((kind) => taskKind(kind).reward);
    const rows = Object.values(REWARDS as Readonly<Record<string, { readonly whole?: unknown }>>);
    expect(new Set(rows.flatMap(({ whole }) => whole ?? []))).toEqual(new Set(kinds));
    for (const { name } of kinds) expect(REWARDS).toHaveProperty(name);
  });

  test('go by name: that of the task, or a part of it, which does not apply to every answer', () => {
    const own = taskKind('variates').reward;
    expect(namedReward('task', own)).toBe(own);
    expect(namedReward('variates', own)).toBe(own);
    const gold = { kind: 'variates', variates: [2] } as const;
    const answer = { ...asked('x').answer, variates: [2] };
    expect(namedReward('localisation', own).score(answer, gold, 9)).toBeNull();
    expect(namedReward('accuracy', own).score(answer, gold, 9)).toBeNull();
    expect(namedReward('truth', own).score(answer, gold, 9)).toBeNull();
    expect(namedReward('format', own).score(answer, gold, 9)).toEqual({ total: 0, parts: { format: 0 } });
    expect(() => namedReward('anomseer', own)).toThrow(
      /no reward called anomseer for this data; known are task, variates/,
    );
    expect(() => namedReward('brief', own)).toThrow(/, and files such as \.\/brief\.ts\.$/);
    expect(() => namedReward('./brief.csv', own)).toThrow(/, and files such as \.\/my-reward\.ts\.$/);
    const seer = taskKind('anomaly').reward;
    const right = asked('<think>t</think><answer>[[1, 3]]</answer><class>seasonal</class>');
    const parts = ['localisation', 'accuracy', 'format'].map(
      (name) => namedReward(name, seer).score(right.answer, example.gold, 5)!.total,
    );
    expect(parts).toEqual([1, 0, 1]);
  });
});
