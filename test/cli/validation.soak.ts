import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bits, timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const shared = mkdtempSync(join(tmpdir(), 'timeseer-validation-'));
const policy = join(shared, 'policy');
const recipe = join(shared, 'tiny.yaml');
/** A run of both stages that is evaluated every other step of reinforcement. */
const whole = join(shared, 'whole');
const EVALUATED = [
  'rl.evalEvery=2',
  'rl.evalSeries=6',
  'rl.keep.last=2',
  'sft.samples=40',
  'sft.evalEvery=7',
  'sft.evalSeries=3',
];
const set = (...keys: string[]): string[] => keys.flatMap((key) => ['--set', key]);
let out = '';

interface Line {
  readonly step: number;
  readonly examples: number;
  readonly metrics: Record<string, number>;
}
const lines = (directory: string, stage = 'rl'): Line[] =>
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
beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'one-')), 'run');
});

describe('evaluation while a stage trains', { timeout: 120_000 }, () => {
  test('of an adapter keeps the adapter, and leaves it merged', async () => {
    const settings = [
      'policy.tune=adapter',
      'rl.output=best',
      'rl.steps=2',
      'rl.evalEvery=1',
      'rl.evalSeries=3',
    ];
    const begun = await timeseer(
      'train',
      '--policy',
      whole,
      '--recipe',
      recipe,
      ...set(...settings),
      '--out',
      out,
      '--quiet',
    );
    expect(begun).toMatchObject({ code: 0, err: '' });
    expect(lines(out).map(({ step }) => step)).toEqual([1, 2]);
    const weights = (name: string) => bits(join(out, name, 'adapter_model.safetensors'));
    expect(weights('rl/adapter').equals(weights('rl/best'))).toBe(true);
  });
});
