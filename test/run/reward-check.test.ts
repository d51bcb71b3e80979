import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { REWARDS } from '../../rewards/registry.ts';
import { checkReward } from '../../src/run/reward-check.ts';
import { inside } from '../helpers/command-line.ts';
import { choiceTable } from '../helpers/documents.ts';
import { temporary } from '../helpers/temporary.ts';
import { timeseer } from '../helpers/tiny-run.ts';

const directory = temporary('reward-check');
const write = (name: string, text: string): string => {
  writeFileSync(join(directory, name), text);
  return join(directory, name);
};
const DATA = { name: 'nano5', split: 'train', seed: 4, length: 300, count: 5 } as const;
const check = (...rewards: string[]) =>
  checkReward(
    rewards.map((use) => ({ use, weight: 1, sha256: null })),
    DATA,
  );

describe('a check of rewards', () => {
  test('finds no fault with ours, which put the gold answer above every other', async () => {
    const { cases, violations, examples } = await check('task');
    expect(violations).toEqual([]);
    expect(examples).toBe(5);
    const [gold, ...others] = cases;
    expect(gold).toMatchObject({
      name: 'gold',
      kind: 'gold',
      responses: 5,
      missing: 0,
      mean: 1,
      least: 1,
      most: 1,
    });
    for (const { name, mean, most } of others) expect([name, mean! < 1 && most! < 1]).toEqual([name, true]);
    const found = others.map(({ name }) => name);
    expect(found).toEqual(expect.arrayContaining(['shifted', 'widened', 'halved', 'dropped', 'wrong class']));
    expect(found).toEqual(
      expect.arrayContaining(['empty', 'nested tags', 'deep nesting', 'unicode', 'code', 'long']),
    );
  });

  // What malformed responses earn, greatest and least over the examples.
  test.each([
    [
      'format',
      1,
      { prose: [0, 0], 'wrong tags': [0, 0], 'empty tags': [0, 0], 'nested tags': [0, 0], dropped: [1, 1] },
    ],
    ['accuracy', 1, { prose: [0, 0], 'wrong class': [0, 0], shifted: [1, 1], 'deep nesting': [0, 1] }],
    ['localisation', 1, { prose: [0, 0], 'empty tags': [0, 0], json: [0, 0], 'wrong class': [1, 1] }],
  ])('shows what the part %s is made of', async (name, gold, expected) => {
    const { cases, violations } = await check(name);
    expect(new Set(violations.map(({ kind }) => kind))).toEqual(new Set(['tie']));
    const of = new Map(cases.map((one) => [one.name, one]));
    expect(of.get('gold')).toMatchObject({ least: gold, most: gold });
    for (const [garbage, [least, most]] of Object.entries(expected)) {
      expect(of.get(garbage)!.least, garbage).toBeGreaterThanOrEqual(least!);
      expect(of.get(garbage)!.most, garbage).toBeLessThanOrEqual(most!);
    }
  });

  test.each([
    [
      'the format alone',
      'answer.wellFormed ? 1 : 0',
      ['shifted', 'widened', 'halved', 'dropped', 'everything', 'wrong class'],
    ],
    [
      'bare recall',
      'recall(answer.intervals ?? [], gold.intervals)',
      ['widened', 'everything', 'wrong class'],
    ],
  ])('reports the worse answers to which %s gives as much as to the gold answer', async (_, total, worse) => {
    const file = write(
      `tie-${worse.length}.mjs`,
      `const covers = (intervals, at) => intervals.some(([start, end]) => at >= start && at < end);
const recall = (intervals, gold) => {
  const points = gold.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i));
  return points.length === 0 ? null : points.filter((at) => covers(intervals, at)).length / points.length;
};
export default function ties({ answer, gold }) { return ${total}; }
`,
    );
    const { violations } = await check(file);
    const ties = violations.filter(({ kind }) => kind === 'tie');
    expect(ties.map(({ case: name }) => name)).toEqual(expect.arrayContaining(worse));
    expect(ties[0]).toMatchObject({ message: 'earns 1, as much as the gold answer' });
    expect(violations.every(({ kind }) => kind === 'tie')).toBe(true);
  });

  test('reports a reward that never applies', async () => {
    const { violations } = await check(write('null.mjs', 'export default () => null;'));
    expect(violations).toEqual([expect.objectContaining({ kind: 'never', examples: 5 })]);
  });

  test('counts the responses that a reward fails on, not those beside them', async () => {
    const file = write(
      'once.mjs',
      'export default ({ answer, example }) => (example.id.endsWith("/2") ? NaN : answer.wellFormed ? 1 : 0.5);',
    );
    const { cases, violations } = await check('task', file);
    expect(cases[0]).toMatchObject({ name: 'gold', responses: 5, failed: 1, missing: 0, mean: 1 });
    expect(violations[0]).toMatchObject({
      ...{ kind: 'error', case: 'gold', example: 'nano5/train/2', examples: 1 },
      message: expect.stringMatching(/returned NaN/),
    });
  });

  test('ends within the time of one call at a promise that never settles, and says what it was at', async () => {
    const file = write('never.mjs', 'export default () => new Promise(() => {});');
    const before = performance.now();
    const { code, out, err } = await timeseer('reward', 'check', file, '--count', '2', '--length', '300');
    expect(performance.now() - before).toBeLessThan(20_000);
    expect(code).toBe(1);
    expect(out).toMatch(/fails: gold, nano5\/train\/0 and 1 more: .*waits for something that never comes/);
    expect(out).toMatch(/20 more kinds of answers were not checked/);
    // Where the promise is seen never to settle at once, there is nothing to wait for.
    expect(err).toMatch(/^$|scoring answers: \d+ s so far/);
  });

  test('tells what fails, is random, or prefers another answer, and what does not apply', async () => {
    const file = write(
      'wild.ts',
      `let calls = 0;
export default function wild({ text }: { text: string }): number | null {
  if (text.startsWith('{')) return Number.NaN;
  if (text === '') return null;
  if (text.startsWith('I looked')) return 7;
  return text.includes('\`') ? ++calls : 0.5;
}
`,
    );
    const { cases, violations } = await check(file);
    const plain = violations.filter(({ kind }) => kind !== 'tie');
    expect(plain.map(({ kind, case: name }) => `${kind}: ${name}`)).toEqual([
      'gold: prose',
      'random: code',
      'gold: code',
      'error: json',
      'gold: long',
    ]);
    expect(plain[0]).toMatchObject({
      example: 'nano5/train/0',
      message: 'earns 7, the gold answer 0.5',
    });
    expect(plain[3]!.message).toMatch(/wild\.ts: reward wild on .* returned NaN/);
    expect(cases.find(({ name }) => name === 'empty')).toMatchObject({ missing: 5, mean: null });
    const both = await check('task', file);
    expect(both.cases[0]!.mean).toBeCloseTo(0.75, 12);
  });

  test('ends with 1 where there is a fault, in words or as JSON', async () => {
    const file = write(
      'blocks.mjs',
      "export default { name: 'blocks', timeLimit: 0.01, score: () => { for (;;); } };\n",
    );
    const asked = ['reward', 'check', file, '--count', '1', '--length', '300'];
    const { code, out } = await timeseer(...asked, '--json');
    expect(code).toBe(1);
    expect(JSON.parse(out).violations[0]).toMatchObject({
      kind: 'error',
      case: 'gold',
      message: expect.stringMatching(/blocked its thread/),
    });
    const fine = await timeseer('reward', 'check', 'task', '--count', '2', '--length', '300');
    expect(fine).toMatchObject({
      code: 0,
      out: expect.stringMatching(/gold +1\.000 +1\.000[\s\S]*no fault on 2 examples of nano5/),
    });
    expect((await timeseer('reward')).err).toMatch(/no action given: check/);
  });
});

describe('the README of rewards', () => {
  const readme = readFileSync(new URL('../../rewards/README.md', import.meta.url), 'utf8');
  const commands = [...readme.matchAll(/^timeseer (.+)$/gmu)].map(([, line]) => line!.split(' '));

  test('has the table of rewards', () => {
    const rows = (text: string): string[] => text.split('\n').map((line) => line.replace(/\s+/gu, ' '));
    const wanted = rows(choiceTable(REWARDS)).filter((row) => !row.startsWith('|---'));
    expect(rows(readme)).toEqual(expect.arrayContaining(wanted));
    expect(readme.split('\n').length).toBeLessThanOrEqual(126);
  });

  test('has checks that run as it says', async () => {
    const [, code] = /```ts\n([\s\S]+?)```/u.exec(readme)!;
    const file = write('brief.ts', code!);
    const checks = commands.filter(([command]) => command === 'reward');
    expect(checks).toHaveLength(2);
    for (const words of checks) {
      const line = words.map((word) => (word === './brief.ts' ? file : word));
      const { code: exit, out } = await timeseer(...line, '--length', '300');
      const alone = !line.includes('task');
      expect({ exit, out }).toMatchObject({
        exit: alone ? 1 : 0,
        out: expect.stringMatching(alone ? /above gold: empty/ : /no fault on 8 examples of nano5/),
      });
    }
  });

  test('names options that its commands have', async () => {
    for (const [command, ...words] of commands) {
      const { out } = await inside(command!, ...(command === 'reward' ? ['check'] : []), '--help');
      for (const option of words.filter((word) => word.startsWith('--'))) expect(out).toContain(option);
    }
  });
});
