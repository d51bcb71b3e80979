import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { defaultRecipe, type Recipe } from '../../src/recipe/recipe.ts';
import { parseBytes, stageMemory } from '../../src/run/stage-memory.ts';
import { FOREIGN_CARD, writeCard } from '../../src/tasks/card.ts';
import { inside } from '../helpers/command-line.ts';
import { temporary } from '../helpers/temporary.ts';
import { writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';
import { QWEN_3B } from '../policy/published.ts';

const directory = temporary('plan');

/** The matrices of the published 3B in two layers and two blocks, with a small tokenizer and no weights. */
const large = join(directory, 'large');
beforeAll(() => {
  mkdirSync(large);
  const golden = resolve(import.meta.dirname, '../golden/text');
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(golden, name), join(large, name));
  const { added_tokens: added } = JSON.parse(readFileSync(join(large, 'tokenizer.json'), 'utf8'));
  const id = (token: string): number =>
    added.find((one: { content: string; id: number }) => one.content === token).id;
  const config = {
    ...QWEN_3B,
    num_hidden_layers: 2,
    vision_config: { ...QWEN_3B.vision_config, depth: 2, fullatt_block_indexes: [1] },
    image_token_id: id('<|image_pad|>'),
    video_token_id: id('<|video_pad|>'),
    vision_start_token_id: id('<|vision_start|>'),
    vision_end_token_id: id('<|vision_end|>'),
    eos_token_id: id('<|im_end|>'),
    bos_token_id: id('<|endoftext|>'),
  };
  writeFileSync(join(large, 'config.json'), JSON.stringify(config));
  writeCard(large, { ...FOREIGN_CARD, figure: 'nano', length: 200 }); // a small picture
});

/** A recipe over a tiny policy. */
const tiny = join(directory, 'tiny.yaml');
beforeAll(() => {
  writeTinyPolicy(join(directory, 'policy'));
  writeTinyRecipe(tiny, join(directory, 'policy'));
});
const SHORT = ['rl.prompts=2', 'rl.group=2', 'rl.maxTokens=8'].flatMap((value) => ['--set', value]);
const NO_SFT = ['--set', 'sft.samples=0'];

const adapters = [...NO_SFT, ...SHORT, '--set', 'policy.tune=adapter'];
const cuda = ['--device', 'cuda', '--memory', '80GB', '--json', ...adapters];

describe('plan', () => {
  test('is of the new policy that --policy names, not of that of the recipe', async () => {
    const planned = async (...more: string[]) =>
      JSON.parse((await inside('plan', '--recipe', tiny, ...NO_SFT, ...SHORT, '--json', ...more)).out);
    const named = await planned('--policy', 'small-random');
    expect(named).toEqual(await planned('--set', 'policy.init=small-random'));
    expect(named).not.toEqual(await planned('--policy', 'nano'));
  });

  test('prints what is held, what each phase adds, and whether it fits, for both stages', async () => {
    const { code, out, err } = await inside('plan', '--recipe', tiny, ...SHORT, '--memory', '8GB');
    expect(err).toBe('');
    expect(code).toBe(0);
    for (const stage of ['sft', 'rl']) {
      expect(out).toMatch(
        new RegExp(
          `^${stage}: memory [\\d.]+ MB of 7\\.36 GB usable in [a-z ]+, all activations kept, fits$`,
          'm',
        ),
      );
    }
    expect(out).toMatch(/^ {2}weights +[\d.]+ kB$/m);
    expect(out).toMatch(/^ {2}backward +[\d.]+ [kM]B/m);
    expect(out).toMatch(/^ {2}gradient checkpointing +[\d.]+ [kM]B +peak/m);
    expect(out).toMatch(/^usable: 7\.36 GB, 92 % of 8\.00 GB;/m);
  });

  test('prints JSON with bytes, and fails with what comes closest where nothing fits', async () => {
    const given = ['--recipe', tiny, ...SHORT, ...NO_SFT, '--memory', '1MB', '--json'];
    const { code, out } = await inside('plan', ...given);
    expect(code).toBe(1);
    const [plan, ...others] = JSON.parse(out);
    expect(others).toEqual([]);
    expect(plan).toMatchObject({ stage: 'rl', fits: false, memory: 1e6, usable: 0.92e6, recompute: true });
    expect(plan.phases[plan.at]).toBe(plan.peak);
    expect(plan.held.moments).toBe(2 * plan.held.weights);
    expect(plan.remedy.fits).toBe(false);
    expect(plan.remedy.peak).toBeLessThan(plan.peak);
    expect(plan.remedy.changes).toMatchObject({ 'policy.tune': 'adapter' });
  });

  test('plans a checkpoint of any size for another machine, without its weights', async () => {
    const { code, out, err } = await inside('plan', '--policy', large, ...cuda);
    expect(err).toBe('');
    expect(code).toBe(0);
    const [plan] = JSON.parse(out);
    // Two layers of 77.1 M, two blocks of 19.7 M, an embedding of 311 M, and the merger: 16 bits each.
    expect(plan.held.weights / 2e6).toBeGreaterThan(311 + 2 * 77 + 2 * 19);
    expect(plan.held.weights / 2e6).toBeLessThan(311 + 2 * 78 + 2 * 20 + 50);
    expect(plan.held.master).toBe(0);
    expect(plan.fits).toBe(true);
    expect(plan.lengths.patches).toBe(80);
  });

  test('needs no more than the config.json of a checkpoint, and says what it estimates without a tokenizer', async () => {
    const bare = join(directory, 'bare');
    mkdirSync(bare);
    copyFileSync(join(large, 'config.json'), join(bare, 'config.json'));
    writeCard(bare, { ...FOREIGN_CARD, figure: 'nano', length: 200 });
    const { code, out, err } = await inside('plan', '--policy', bare, ...cuda);
    expect(code).toBe(0);
    expect(err).toMatch(/bare has no tokenizer\.json: the lengths of prompts and traces are estimated/);
    const [plan] = JSON.parse(out);
    const [known] = JSON.parse((await inside('plan', '--policy', large, ...cuda)).out);
    expect(plan.held).toEqual(known.held);
    expect(plan.lengths.patches).toBe(known.lengths.patches);
    expect(plan.lengths.prompt).toBeGreaterThan(known.lengths.prompt / 3);
  });

  test('with processes is of the first, which keeps its share of the moments and, for a checkpoint, those of all', async () => {
    const given = ['--recipe', tiny, ...NO_SFT, ...SHORT, '--json', '--memory', '8GB'];
    const plan = async (...more: string[]) => JSON.parse((await inside('plan', ...given, ...more)).out)[0];
    const [one, two] = [await plan(), await plan('--processes', '2')];
    expect(two).toMatchObject({ perWorker: true, place: 'process', workers: 2, memory: 4e9 });
    expect(two.held).toEqual({ ...one.held, moments: one.held.moments / 2 });
    expect(two.phases.checkpoint).toBeGreaterThan(two.phases['optimizer step']);
    const { out } = await inside('plan', ...given.filter((word) => word !== '--json'), '--processes', '2');
    expect(out).toMatch(/^rl: memory [\d.]+ [kM]B of 3\.68 GB usable in each process in /m);
    expect(out).toMatch(/^usable: 3\.68 GB in each process, 92 % of 8\.00 GB \/ 2; /m);
  });

  test('with processes on GPUs is of one GPU, and ZeRO 2 and 3 hold no gradients outside updates', async () => {
    const given = ['--recipe', tiny, ...NO_SFT, ...SHORT, '--set', 'memory.recompute=always', '--json'];
    const of = async (...more: string[]) => JSON.parse((await inside('plan', ...given, ...more)).out)[0];
    const gpus = ['--device', 'cuda', '--memory', '8GB', '--processes', '2'];
    const [one, two, three] = [
      await of(...gpus),
      await of(...gpus, '--set', 'memory.zero=2'),
      await of(...gpus, '--set', 'memory.zero=3'),
    ];
    expect(one).toMatchObject({ perWorker: true, workers: 2, memory: 8e9 });
    expect(two.held).toEqual({ ...one.held, gradients: 0 });
    expect(three.held).toEqual(two.held);
    expect(two.peak).toBeLessThan(one.peak);
  });

  describe('with the tfjs engine', () => {
    afterEach(() => vi.unstubAllEnvs());
    const tfjs = [...NO_SFT, ...SHORT, '--engine', 'tfjs'];
    /** TIMESEER_ENGINE is what --engine sets, for this process too. */
    const plan = async (...args: string[]) => {
      vi.stubEnv('TIMESEER_ENGINE', '');
      return inside('plan', ...args);
    };

    test('is of one Worker, whose WebAssembly memory has at most 4 GB and a copy of what is shared', async () => {
      const given = ['--recipe', tiny, ...tfjs, '--set', 'rl.workers=2', '--json'];
      const [of] = JSON.parse((await plan(...given, '--memory', '64GB')).out);
      expect(of).toMatchObject({ fits: true, perWorker: true, workers: 2, memory: 2 ** 32 - 2 ** 29 });
      const given1 = given.map((arg) => (arg === 'rl.workers=2' ? 'rl.workers=1' : arg));
      const [one] = JSON.parse((await plan(...given1)).out);
      const [torch] = JSON.parse((await plan(...given1.map((arg) => (arg === 'tfjs' ? 'torch' : arg)))).out);
      expect(one.held).toEqual({ ...torch.held, prepared: 2 * one.held.weights + one.held.reference });
      expect(one.peak).toBe(torch.peak + one.held.prepared);
      expect(of.phases['optimizer step']).toBeGreaterThan(one.held.weights * 5);
      expect(JSON.parse((await plan(...given, '--memory', '6GB')).out)[0].memory).toBe(2e9);
    });

    test('says that a policy does not fit in float32, and what to change', async () => {
      const { code, out } = await plan('--policy', large, ...tfjs, '--memory', '64GB');
      expect(code).toBe(1);
      expect(out).toMatch(/^rl: memory [\d.]+ GB of 2\.44 GB usable in each Worker in .*, does not fit$/m);
      expect(out).toMatch(
        /^usable: 2\.44 GB in each Worker, 65 % of 3\.76 GB; .*\n3\.76 GB: the 4 GiB of .* 512 MiB$/m,
      );
      expect(out).toMatch(/^nothing in the recipe makes rl fit: .*take a smaller policy or --engine torch$/m);
      expect(out).not.toContain('bfloat16');
    });

    test.each([
      [['--device', 'cuda'], /--device cuda: is for the torch engine alone/],
      [['--processes', '2'], /--processes 2: processes train with the torch engine/],
      [
        ['--set', 'policy.dtype=bfloat16'],
        /policy\.dtype: got bfloat16, but the tfjs engine computes in float32/,
      ],
    ])('refuses %j', async (args, message) => {
      const { code, err } = await plan('--recipe', tiny, ...tfjs, ...args);
      expect(code).toBe(2);
      expect(err).toMatch(message);
    });

    test('needs libtorch; without it a stage refuses what weights and moments alone exceed', async () => {
      vi.stubEnv('TIMESEER_CACHE', join(directory, 'no-cache'));
      const { code, err } = await plan('--recipe', tiny, ...tfjs);
      expect(code).toBe(3);
      expect(err).toMatch(/a plan is measured on libtorch, also that of the tfjs engine: .*setup/);
      const recipe = defaultRecipe();
      const options = { device: 'cpu', silent: true };
      await expect(stageMemory('sft', large, recipe, options)).rejects.toThrow(
        /^sft: weights, moments and gradients take 1\d\.\d GB in each Worker, and WebAssembly holds 3\.76 GB: take a smaller policy/,
      );
      const memory = { ...recipe.memory, check: false };
      expect(await stageMemory('sft', large, { ...recipe, memory }, options)).toBe(false);
    });
  });

  test.each([
    [['--device', 'cuda:0,cuda:1'], /unknown device 'cuda:0,cuda:1'.* --device cuda --processes N/],
    [['--memory', 'much'], /--memory much: expected an amount of memory from 1MB, as in 80GB/],
    [['--memory', '24'], /--memory 24: has no unit; write 24GB/],
    [['--device', 'tpu'], /unknown device 'tpu'/],
    [['--set', 'sft.samples=0', '--set', 'rl.steps=0'], /nothing is trained/],
    [['--policy', 'nowhere/at/all'], /nowhere\/at\/all: no such directory/],
  ])('refuses %j', async (args, message) => {
    const { code, err } = await inside('plan', ...args);
    expect(code).not.toBe(0);
    expect(err).toMatch(message);
  });
});

test('amounts of memory are read with decimal and binary units', () => {
  expect(['80GB', '24 GiB', '1.5m', '2tb'].map((text) => parseBytes(text))).toEqual([
    80e9,
    24 * 2 ** 30,
    1.5e6,
    2e12,
  ]);
  for (const wrong of ['', '-1GB', '0', 'GB', '5 parsecs', '24', '24kB'])
    expect(() => parseBytes(wrong)).toThrow(ConfigError);
});

describe('a training stage', () => {
  const recipeOf = (memory: Partial<Recipe['memory']>): Recipe => {
    const base = defaultRecipe();
    return { ...base, memory: { ...base.memory, ...memory } };
  };

  test('of a small policy on a CPU starts without a plan, and recomputes when it is told to', async () => {
    const run = ['--recipe', tiny, '--set', 'sft.samples=16', '--out', join(directory, 'run'), '--quiet'];
    const { code, err } = await inside('sft', ...run);
    expect([code, err]).toEqual([0, '']);
    const initial = join(directory, 'run/initial');
    const options = { device: 'cpu', silent: true };
    expect(await stageMemory('sft', initial, recipeOf({}), options)).toBe(false);
    expect(await stageMemory('sft', initial, recipeOf({ recompute: 'always' }), options)).toBe(true);
  });

  test('says its plan and refuses what cannot fit, with what to change, unless it is told not to look', async () => {
    const recipe = recipeOf({ tokens: 2048 });
    const short = { ...recipe, rl: { ...recipe.rl, prompts: 2, group: 2, maxTokens: 8, workers: 1 } };
    const options = { device: 'cuda', silent: true, memory: 6e9 };
    await expect(stageMemory('rl', large, short, options)).rejects.toThrow(
      /^rl: memory [\d.]+ GB of 5\.52 GB usable in .+ does not fit; --set .*policy\.tune=adapter makes it fit: [\d.]+ GB of 5\.52 GB usable; --set memory\.check=false/,
    );
    const unchecked = { ...short, memory: { ...short.memory, check: false } };
    expect(await stageMemory('rl', large, unchecked, options)).toBe(true);
  });
});
