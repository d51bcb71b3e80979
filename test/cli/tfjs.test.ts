/** Training over TensorFlow.js: where there is neither libtorch nor a compiler in processes of its own, else in this one. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TRAINS_ON_TFJS, withoutTorch } from '../helpers/bare.ts';
import { temporary } from '../helpers/temporary.ts';
import { Child, timeless, timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const root = temporary('tfjs');

const BARE = withoutTorch(root);

test('a data type other than float32 is refused before anything is written', async () => {
  const [recipe, out] = [join(root, 'nano.yaml'), join(root, 'none')];
  writeTinyRecipe(recipe, 'nano');
  const refused = ['sft', '--recipe', recipe, '--out', out, '--set', 'policy.dtype=bfloat16'];
  const { code, err } = await new Child(refused, undefined, BARE).ended;
  expect(err).toMatch(/policy\.dtype: got bfloat16, but the tfjs engine computes in float32; give/);
  expect(code).toBe(2);
  expect(existsSync(out)).toBe(false);
});

test('a stage trains over TensorFlow.js, and says so', async () => {
  const [policy, recipe, out] = ['policy', 'tiny.yaml', 'run'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  const taught = ['sft', '--recipe', recipe, '--out', out, '--quiet', '--set', 'sft.samples=8'];
  expect(await new Child(taught, undefined, BARE).ended).toMatchObject({ code: 0, err: TRAINS_ON_TFJS });
  expect(timeless(join(out, 'sft/metrics.jsonl'))).toHaveLength(2);
  const environment = JSON.parse(readFileSync(join(out, 'environment.json'), 'utf8'));
  expect(environment).toMatchObject({ engine: 'tfjs', tfjs: '4.22.0' });
});

test('answers name the engine that auto took instead of torch, once, and not one that was asked for', async () => {
  const policy = join(root, 'asked-policy');
  writeTinyPolicy(policy);
  const lines = async (args: string[], environment?: NodeJS.ProcessEnv) => {
    const asked = [...args, '--policy', policy];
    // Where torch is set up, a process of its own shows no more than this one.
    const run =
      environment === undefined ? timeseer(...asked) : new Child(asked, undefined, environment).ended;
    const { code, err } = await run;
    expect(code, err).toBe(0);
    return err.split('\n').filter((line) => line.startsWith('engine:'));
  };
  const ask = ['ask', '--prompt', 'why', '--max-tokens', '2'];
  const evaluate = [
    'eval',
    '--count',
    '2',
    '--no-classical',
    '--max-tokens',
    '4',
    '--quiet',
    '--workers',
    '1',
    '--out',
  ];
  const onnx = [
    'engine: onnx, as torch is not set up; `npx timeseer setup` installs libtorch, which answers many questions faster',
  ];
  expect(await lines(ask, BARE)).toEqual(onnx);
  expect(await lines([...evaluate, join(root, 'eval-auto')], BARE)).toEqual(onnx);
  for (const environment of [BARE, undefined]) {
    expect(await lines([...ask, '--engine', 'tfjs'], environment)).toEqual([]);
  }
  expect(await lines([...evaluate, join(root, 'eval-tfjs'), '--engine', 'tfjs'])).toEqual([]);
  expect(await lines(ask, { ...BARE, TIMESEER_ENGINE: 'tfjs' })).toEqual([]);
  expect(await lines([...ask, '--engine', 'auto'], { ...BARE, TIMESEER_ENGINE: 'tfjs' })).toEqual(onnx);
  expect(await lines(ask)).toEqual([]);
});

test('a stage that resumes on another engine says so in one line, once for each change', async () => {
  const [policy, recipe, out] = ['moved-policy', 'moved.yaml', 'moved'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  const sft = async (samples: number, ...more: string[]) => {
    const args = ['sft', '--out', out, '--quiet', '--set', `sft.samples=${samples}`, ...more];
    const { code, err } = await timeseer(...args);
    expect(code, err).toBe(0);
    return err.split('\n').filter((line) => line !== '' && !line.startsWith('changed:'));
  };
  const resume = ['--resume', '--allow-change', 'sft.samples'];
  expect(await sft(16, '--recipe', recipe, '--engine', 'torch')).toEqual([]);
  expect(await sft(24, ...resume, '--engine', 'tfjs')).toEqual([
    expect.stringMatching(
      /^sft: resumes on the tfjs engine after 4 steps on torch: .*not bit for bit; .*--engine torch$/,
    ),
  ]);
  expect(await sft(32, ...resume, '--engine', 'tfjs')).toEqual([]);
  // No engine gives equal bits any more.
  expect(await sft(40, ...resume, '--engine', 'torch')).toEqual([
    expect.stringMatching(
      /^sft: resumes on the torch engine after 8 steps on torch, then tfjs: .*not bit for bit$/,
    ),
  ]);
  const read = (name: string) => JSON.parse(readFileSync(join(out, name), 'utf8'));
  expect(read('sft/checkpoint/training.json')).toMatchObject({
    ...{ engines: ['torch', 'tfjs', 'torch'], step: 10 },
  });
  const environment = read('environment.json');
  expect(environment).toMatchObject({ engine: 'torch', libtorch: expect.any(String) });
  expect(environment).not.toHaveProperty('tfjs');
});
