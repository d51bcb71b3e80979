import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { openHeldOut } from '../../eval/harness.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { caveatsOf } from '../../eval/run-facts.ts';
import { temporary } from '../helpers/temporary.ts';
import { timeless, timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const shared = temporary('change');
const recipe = join(shared, 'tiny.yaml');
const data = join(shared, 'set');
const out = join(shared, 'run');
const RESUME = ['train', '--out', out, '--resume', '--quiet'];
const set = (...keys: string[]): string[] => keys.flatMap((key) => ['--set', key]);
const allow = (...keys: string[]): string[] => keys.flatMap((key) => ['--allow-change', key]);
const generate = (seed: number) =>
  timeseer(
    'data',
    'generate',
    'nano5',
    '--count',
    '40',
    '--length',
    '400',
    '--seed',
    `${seed}`,
    '--out',
    data,
    '--force',
  );
const recorded = () => JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8'));
const steps = () => timeless(join(out, 'rl/metrics.jsonl')) as { step: number; learningRate: number }[];

beforeAll(async () => {
  writeTinyPolicy(join(shared, 'policy'));
  writeTinyRecipe(recipe, join(shared, 'policy'));
  expect((await generate(1)).code).toBe(0);
  const small = set('sft.samples=0', 'rl.steps=2', 'rl.workers=1', `data.name=${data}`);
  const begun = await timeseer(
    'train',
    '--policy',
    join(shared, 'policy'),
    '--recipe',
    recipe,
    ...small,
    '--out',
    out,
    '--quiet',
  );
  expect(begun).toMatchObject({ code: 0, err: '' });
});

describe('--allow-change', { timeout: 120_000 }, () => {
  test('lets the keys that are named have other values, and no other key', async () => {
    const changes = set('rl.steps=4', 'rl.learningRate=1e-5', 'rl.minLearningRate=1');
    const refused = await timeseer(...RESUME, ...changes, ...allow('rl.steps'));
    expect(refused.code).toBe(2);
    expect(refused.err).toMatch(
      /other values of rl\.learningRate, rl\.minLearningRate;.*--allow-change rl\.learningRate --allow-change rl\.minLearningRate/,
    );
    expect(recorded().changes).toBeUndefined();
    const resumed = await timeseer(...RESUME, ...changes, ...allow('rl'));
    expect(resumed.err).toContain('changed: rl.steps from 2 to 4, after step 2 of rl\n');
    expect(resumed.code).toBe(0);
    expect(recorded().recipe.rl).toMatchObject({ steps: 4, learningRate: 1e-5 });
    expect(recorded().changes).toEqual([
      { key: 'rl.steps', from: 2, to: 4, stage: 'rl', step: 2 },
      { key: 'rl.learningRate', from: 2e-4, to: 1e-5, stage: 'rl', step: 2 },
      { key: 'rl.minLearningRate', from: 0.1, to: 1, stage: 'rl', step: 2 },
    ]);
    expect(steps().map(({ step, learningRate }) => [step, learningRate === 1e-5])).toEqual([
      [1, false],
      [2, false],
      [3, true],
      [4, true],
    ]);
    const run = new RunDirectory(out);
    const { facts, series } = openHeldOut(run.recipe);
    expect(caveatsOf(run, null, { facts, series, available: null })).toContain(
      'rl.learningRate was changed after step 2 of the reinforcement stage, from 0.0002 to 0.00001: earlier steps used the old value.',
    );
  });

  test('lets the data be others', async () => {
    await generate(2);
    const more = [...set('rl.steps=5'), ...allow('rl.steps')];
    const refused = await timeseer(...RESUME, ...more);
    expect(refused.err).toMatch(
      /not what the run .* began with; changed since then: test\.jsonl .*--allow-change data/,
    );
    const resumed = await timeseer(...RESUME, ...more, ...allow('data'));
    expect(resumed.err).toContain('changed: data, after step 4 of rl\n');
    expect(resumed.code).toBe(0);
    const [change] = recorded().changes.filter(({ key }: { key: string }) => key === 'data');
    expect(change.to).toEqual(recorded().data.files);
    expect(change.to).not.toEqual(change.from);
    expect(steps()).toHaveLength(5);
    // From then on they are the run's own.
    expect(await timeseer(...RESUME)).toMatchObject({ code: 0, err: '' });
  });

  test('is refused for a policy, the optimiser of a stage under way, an unknown key, and a run that is not resumed', async () => {
    const error = async (...args: string[]) => (await timeseer('train', '--out', out, ...args)).err;
    expect(await error('--resume', ...set('policy.tune=decoder'), ...allow('policy.tune'))).toMatch(
      /--allow-change policy\.tune: a run cannot change its policy/,
    );
    expect(await error('--resume', ...allow('rl.learningrate'))).toMatch(
      /--allow-change rl\.learningrate: unknown key rl\.learningrate; did you mean rl\.learningRate\?/,
    );
    expect(await error(...allow('rl'))).toMatch(/add --resume/);
    expect(await error('--resume', ...set('rl.optimizer=muon'), ...allow('rl.optimizer'))).toMatch(
      /rl\.optimizer cannot change within the stage, because its checkpoints hold the moments of adamw; choose a new --out/,
    );
  });
});
