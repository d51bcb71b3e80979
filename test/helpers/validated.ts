/** A run of both stages of a tiny recipe that is evaluated every other step of reinforcement. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { edit, timeseer, writeTinyPolicy, writeTinyRecipe } from './tiny-run.ts';

export const shared = mkdtempSync(join(tmpdir(), 'timeseer-validation-'));
export const policy = join(shared, 'policy');
export const recipe = join(shared, 'tiny.yaml');
export const whole = join(shared, 'whole');
export const EVALUATED = [
  'rl.evalEvery=2',
  'rl.evalSeries=6',
  'rl.keep.last=2',
  'sft.samples=40',
  'sft.evalEvery=7',
  'sft.evalSeries=3',
];
export const set = (...keys: string[]): string[] => keys.flatMap((key) => ['--set', key]);

export interface Line {
  readonly step: number;
  readonly examples: number;
  readonly metrics: Record<string, number>;
}
export const lines = (directory: string, stage = 'rl'): Line[] =>
  readFileSync(join(directory, stage, 'validation.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

beforeAll(async () => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  const begun = await timeseer('sft', '--recipe', recipe, ...set(...EVALUATED), '--out', whole, '--quiet');
  expect(begun).toMatchObject({ code: 0, err: '' });
  expect(await timeseer('train', '--out', whole, '--quiet')).toMatchObject({ code: 0, err: '' });
});
afterAll(() => rmSync(shared, { recursive: true, force: true }));

/** Copies the run before its reinforcement, with other settings of it. */
export function supervised(out: string, settings: object): void {
  cpSync(whole, out, { recursive: true, verbatimSymlinks: true });
  rmSync(join(out, 'rl'), { recursive: true });
  edit(join(out, 'recipe.json'), (text) => {
    const header = JSON.parse(text);
    return JSON.stringify({
      ...header,
      recipe: { ...header.recipe, rl: { ...header.recipe.rl, ...settings } },
    });
  });
}
