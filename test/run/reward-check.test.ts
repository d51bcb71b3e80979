import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { checkReward } from '../../src/run/reward-check.ts';
import { timeseer } from '../helpers/tiny-run.ts';

const directory = mkdtempSync(join(tmpdir(), 'timeseer-reward-check-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
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
    expect(violations).toEqual([]);
    const of = new Map(cases.map((one) => [one.name, one]));
    expect(of.get('gold')).toMatchObject({ least: gold, most: gold });
    for (const [garbage, [least, most]] of Object.entries(expected)) {
      expect(of.get(garbage)!.least, garbage).toBeGreaterThanOrEqual(least!);
      expect(of.get(garbage)!.most, garbage).toBeLessThanOrEqual(most!);
    }
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
    expect(violations.map(({ kind, case: name }) => `${kind}: ${name}`)).toEqual([
      'gold: prose',
      'random: code',
      'gold: code',
      'error: json',
      'gold: long',
    ]);
    expect(violations[0]).toMatchObject({
      example: 'nano5/train/0',
      message: 'earns 7, the gold answer 0.5',
    });
    expect(violations[3]!.message).toMatch(/wild\.ts: reward wild on .* returned NaN/);
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
