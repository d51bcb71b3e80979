/** Training where there is neither libtorch nor a compiler, in processes of their own. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Child, timeless, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-tfjs-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** An empty cache, in which no addon is, and a path without a compiler, apt or Python. */
const BARE = { TIMESEER_CACHE: join(root, 'cache'), PATH: join(root, 'bin'), TIMESEER_ENGINE: '' };

test('a data type other than float32 is refused before anything is written', async () => {
  const [recipe, out] = [join(root, 'nano.yaml'), join(root, 'none')];
  writeTinyRecipe(recipe, 'nano');
  const refused = ['sft', '--recipe', recipe, '--out', out, '--set', 'policy.dtype=bfloat16'];
  const { code, err } = await new Child(refused, undefined, BARE).ended;
  expect(err).toMatch(/policy\.dtype: got bfloat16, but the tfjs engine computes in float32; give/);
  expect(code).toBe(2);
  expect(existsSync(out)).toBe(false);
});

test('both stages train with two Workers over TensorFlow.js, and say so', async () => {
  const [policy, recipe, out] = ['policy', 'tiny.yaml', 'run'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy, 2);
  const shorter = ['sft.samples=32', 'rl.steps=2', 'eval.validation=4'].flatMap((key) => ['--set', key]);
  const run = async (...args: string[]) =>
    new Child([...args, '--out', out, '--quiet'], undefined, BARE).ended;
  const taught = await run('sft', '--recipe', recipe, ...shorter);
  expect(taught.err).toBe(
    'engine: tfjs, by @tensorflow/tfjs-backend-wasm, as torch is not set up; `npx timeseer setup` installs libtorch, which is faster\n',
  );
  expect(taught.code).toBe(0);
  const losses = timeless(join(out, 'sft/metrics.jsonl')) as { loss: number }[];
  expect(losses).toHaveLength(8);
  expect(losses.at(-1)!.loss).toBeLessThan(0.9 * losses[0]!.loss);
  expect(await run('train')).toMatchObject({ code: 0 });
  expect(timeless(join(out, 'rl/metrics.jsonl'))).toHaveLength(2);
  const environment = JSON.parse(readFileSync(join(out, 'environment.json'), 'utf8')) as Record<
    string,
    unknown
  >;
  expect(environment).toMatchObject({ engine: 'tfjs', tfjs: '4.22.0', rl_workers: 2 });
});

test('answers name the engine that auto took instead of torch, once, and not one that was asked for', async () => {
  const policy = join(root, 'asked-policy');
  writeTinyPolicy(policy);
  const lines = async (args: string[], environment = {}) => {
    const { code, err } = await new Child([...args, '--policy', policy], undefined, environment).ended;
    expect(code, err).toBe(0);
    return err.split('\n').filter((line) => line.startsWith('engine:'));
  };
  const ask = ['ask', '--prompt', 'why', '--max-tokens', '2'];
  const evaluate = ['eval', '--count', '2', '--no-classical', '--max-tokens', '4', '--quiet', '--out'];
  const onnx = [
    'engine: onnx, as torch is not set up; `npx timeseer setup` installs libtorch, which answers many questions faster',
  ];
  expect(await lines(ask, BARE)).toEqual(onnx);
  expect(await lines([...evaluate, join(root, 'eval-auto')], BARE)).toEqual(onnx);
  for (const environment of [BARE, {}]) {
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
    const { code, err } = await new Child(args).ended;
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
