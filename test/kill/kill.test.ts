import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { readState } from '../../src/train/checkpoint.ts';
import { temporary } from '../helpers/temporary.ts';
import { Child, listing, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const shared = temporary('kill');
const [recipe, policy] = ['tiny.yaml', 'policy'].map((name) => join(shared, name)) as [string, string];
let out = '';

beforeAll(() => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy, 2);
});
beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'run-')), 'run');
});

test('a run directory belongs to one of two commands that begin it at once: recipe and policy are of the same', async () => {
  const both = [31, 32].map(
    (seed) =>
      new Child([
        ...['sft', '--recipe', recipe, '--quiet', '--out', out],
        '--set',
        `seed=${seed}`,
        '--set',
        'policy.init=nano',
        '--set',
        'sft.samples=8',
      ]),
  );
  const ended = await Promise.all(both.map((child) => child.ended));
  const winner = ended.findIndex(({ code }) => code === 0);
  expect(ended.map(({ code }) => code).sort()).toEqual([0, 2]);
  expect(ended[1 - winner]!.err).toMatch(
    /is working on this directory|was started with other values of seed/,
  );
  expect(JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8')).recipe.seed).toBe(31 + winner);
  expect(readState(join(out, 'sft/checkpoint'))!.origin.recipe['seed']).toBe(31 + winner);
  expect(listing(out).filter((name) => name.includes('.lock') || name.endsWith('.tmp'))).toEqual([]);
});
