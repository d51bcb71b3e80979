/** Stages that train a part of a policy, by the command line on two workers. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { loadAdapter, mergeAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { openSafetensors } from '../../src/policy/safetensors.ts';
import { identical, relativeDistance } from '../helpers/full-sequence.ts';
import { readTensor } from '../helpers/safetensors.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  bits,
  Child,
  lineCount,
  timeless,
  timeseer,
  until,
  writeTinyPolicy,
  writeTinyRecipe,
} from '../helpers/tiny-run.ts';

const engine = openTorch({ threads: 1 });
const shared = temporary('tuned');
const policy = join(shared, 'policy');
const recipe = join(shared, 'tiny.yaml');
const LORA = [
  'policy.tune=adapter',
  'policy.adapter.rank=3',
  'policy.adapter.rslora=true',
  'policy.adapter.targets=[q_proj, o_proj, up_proj, visual.qkv, visual.merger.2]',
];
const settings = (...list: string[]): string[] => list.flatMap((one) => ['--set', one]);
const begin = (out: string, ...list: string[]) =>
  timeseer('sft', '--recipe', recipe, ...settings('sft.samples=40', ...list), '--out', out, '--quiet');
const weights = (directory: string): Float32Array => engine.floats(Policy.load(engine, directory).flat);

beforeAll(() => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
});

describe('with an adapter', () => {
  const run = join(shared, 'adapter');
  const adapter = join(run, 'sft/adapter');

  beforeAll(async () => {
    expect(await begin(run, ...LORA)).toMatchObject({ code: 0, err: '' });
    expect(await timeseer('train', '--out', run, '--quiet')).toMatchObject({ code: 0, err: '' });
  }, 60_000);

  test('the stage leaves it in PEFT files, and a policy that is the base with it merged', () => {
    const config = JSON.parse(readFileSync(join(adapter, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({ r: 3, lora_alpha: 32, use_rslora: true, base_model_name_or_path: policy });
    const base = Policy.load(engine, join(run, 'initial'));
    const merged = new Policy(engine, base.parts, base.flat, {
      adapter: (dims) => loadAdapter(engine, dims, adapter),
    });
    mergeAdapter(merged);
    const saved = weights(join(run, 'sft/policy'));
    expect(identical(engine.floats(merged.flat), saved)).toBe(true);
    expect(relativeDistance(saved, weights(join(run, 'initial')))).toBeGreaterThan(1e-3);
  });

  test('it merges to the policy of the stage, card included', async () => {
    const out = join(shared, 'merged');
    const from = ['--policy', join(run, 'initial'), '--adapter', adapter];
    expect(await timeseer('merge', ...from, '--out', out, '--dtype', 'float32')).toMatchObject({ code: 0 });
    for (const name of ['timeseer.json', 'model.safetensors'])
      expect(readFileSync(join(out, name)).equals(readFileSync(join(run, 'sft/policy', name)))).toBe(true);
  });

  test('a checkpoint holds the adapter and its optimiser, not the base', () => {
    const checkpoint = join(run, 'sft/checkpoint');
    expect(existsSync(join(checkpoint, 'model.safetensors'))).toBe(false);
    const kept = [...openSafetensors(join(checkpoint, 'optimizer.safetensors')).keys()];
    expect(kept).toContain('layers.1.qkv.down.first_moment');
    expect(kept).toContain('vision.0.visual.qkv.up.first_moment');
    expect(kept.every((name) => /^(layers\.\d|vision\.\d|merger)\.[\w.]+\.(up|down)\./.test(name))).toBe(
      true,
    );
    expect(bits(join(checkpoint, 'adapter_model.safetensors'))).toEqual(
      bits(join(adapter, 'adapter_model.safetensors')),
    );
  });

  test('reinforcement begins with the merged policy, which its divergence refers to', () => {
    const [first] = timeless(join(run, 'rl/metrics.jsonl')) as { kl: number }[];
    expect(first!.kl).toBeLessThan(1e-3);
    const config = JSON.parse(readFileSync(join(run, 'rl/adapter/adapter_config.json'), 'utf8'));
    expect(config.base_model_name_or_path).toBe(join(run, 'sft/policy'));
    expect(identical(weights(join(run, 'rl/policy')), weights(join(run, 'sft/policy')))).toBe(false);
  });

  test('its policies answer', async () => {
    const { code, err } = await timeseer(
      'eval',
      '--policy',
      run,
      '--count',
      '4',
      '--out',
      join(shared, 'eval'),
      '--quiet',
    );
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });

  test('a stage that was stopped goes on as if it had not been', { timeout: 120_000 }, async () => {
    const out = join(shared, 'stopped');
    const child = new Child([
      'sft',
      '--recipe',
      recipe,
      ...settings('sft.samples=40', ...LORA),
      '--out',
      out,
    ]);
    await until(() => lineCount(join(out, 'sft/metrics.jsonl')) >= 3);
    child.process.kill('SIGINT');
    expect((await child.ended).code).toBe(130);
    expect(lineCount(join(out, 'sft/metrics.jsonl'))).toBeLessThan(10);
    expect((await timeseer('sft', '--out', out, '--resume', '--quiet')).code).toBe(0);
    expect(timeless(join(out, 'sft/metrics.jsonl'))).toEqual(timeless(join(run, 'sft/metrics.jsonl')));
    expect(bits(join(out, 'sft/policy/model.safetensors'))).toEqual(
      bits(join(run, 'sft/policy/model.safetensors')),
    );
  });
});

test('two workers take the steps of one: 16-bit weights, a frozen vision tower, small micro-batches, gradient checkpointing', async () => {
  const common = [
    'policy.dtype=bfloat16',
    'policy.tune=decoder',
    'memory.tokens=250',
    'memory.recompute=always',
  ];
  const [one, two] = [join(shared, 'one'), join(shared, 'two')];
  expect(await begin(one, ...common, 'sft.workers=1')).toMatchObject({ code: 0, err: '' });
  expect(await begin(two, ...common, 'sft.workers=2')).toMatchObject({ code: 0, err: '' });
  const lines = (out: string) =>
    timeless(join(out, 'sft/metrics.jsonl')) as { loss: number; tokens: number; gradNorm: number }[];
  lines(two).forEach(({ loss, tokens, gradNorm }, i) => {
    const alone = lines(one)[i]!;
    expect(tokens).toBe(alone.tokens);
    expect(Math.abs(loss / alone.loss - 1)).toBeLessThan(0.02);
    if (i < 3) expect(Math.abs(gradNorm / alone.gradNorm - 1)).toBeLessThan(0.02);
  });
  expect(lines(two).at(-1)!.loss).toBeLessThan(0.9 * lines(two)[0]!.loss);
  const stored = [...openSafetensors(join(two, 'sft/policy/model.safetensors')).values()];
  expect(new Set(stored.map(({ dtype }) => dtype))).toEqual(new Set(['BF16']));
  const [before, after] = [join(policy, 'model.safetensors'), join(two, 'sft/policy/model.safetensors')].map(
    openSafetensors,
  );
  for (const [name, tensor] of after!) {
    const rounded = engine.scope(() => {
      const values = readTensor(before!.get(name)!);
      return engine.floats(engine.cast(engine.tensor(values, [values.length]), 'bfloat16'));
    });
    expect(identical(readTensor(tensor), rounded)).toBe(name.startsWith('visual.'));
  }
});
