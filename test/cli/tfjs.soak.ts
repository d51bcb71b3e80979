/** Both stages where there is neither libtorch nor a compiler, in a process of its own. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TRAINS_ON_TFJS, withoutTorch } from '../helpers/bare.ts';
import { temporary } from '../helpers/temporary.ts';
import { Child, timeless, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const root = temporary('tfjs');

test('both stages train with two Workers over TensorFlow.js, and say so', async () => {
  const [policy, recipe, out] = ['policy', 'tiny.yaml', 'run'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy, 2);
  const shorter = ['sft.samples=32', 'rl.steps=2', 'eval.validation=4'].flatMap((key) => ['--set', key]);
  const train = ['train', '--recipe', recipe, '--out', out, '--quiet', ...shorter];
  const { code, err } = await new Child(train, undefined, withoutTorch(root)).ended;
  expect([code, err]).toEqual([0, TRAINS_ON_TFJS]);
  const losses = timeless(join(out, 'sft/metrics.jsonl')) as { loss: number }[];
  expect(losses).toHaveLength(8);
  expect(losses.at(-1)!.loss).toBeLessThan(0.9 * losses[0]!.loss);
  expect(timeless(join(out, 'rl/metrics.jsonl'))).toHaveLength(2);
  const environment = JSON.parse(readFileSync(join(out, 'environment.json'), 'utf8')) as Record<
    string,
    unknown
  >;
  expect(environment).toMatchObject({ engine: 'tfjs', tfjs: '4.22.0', rl_workers: 2 });
});
