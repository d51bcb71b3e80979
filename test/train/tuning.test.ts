import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type AdapterOptions, createAdapter, loadAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { FOREIGN_CARD } from '../../src/tasks/card.ts';
import { readState, restoreOptimizer, saveCheckpoint } from '../../src/train/checkpoint.ts';
import type { Learner } from '../../src/train/learner.ts';
import type { RlMetrics, SftMetrics } from '../../src/train/metrics.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import { sft } from '../../src/train/sft.ts';
import { DEVICE, REPEATS } from '../helpers/device.ts';
import { identical, relativeDistance } from '../helpers/full-sequence.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  mixedScore,
  moments,
  ORIGIN,
  SFT,
  teach,
  tinyLearner,
  tinyPolicy,
  tinyTask,
} from '../helpers/tiny-policy.ts';
import { RL as TINY } from '../helpers/tiny-rl.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const directory = temporary('tuning');

const task = tinyTask();
const LORA: AdapterOptions = { rank: 4, alpha: 8, targets: ['q_proj', 'v_proj', 'down_proj', 'visual.qkv'] };
const RL: RlOptions = { ...TINY, steps: 2, prompts: 3, group: 3, temperature: 0.9, maxTokens: 16 };

/** The same policy with an adapter, which alone is trained. */
function adapted(base: Policy): Policy {
  const flat = engine.cast(engine.tensor(engine.floats(base.flat), [base.layout.size]), base.dtype);
  return new Policy(engine, base.parts, flat, { adapter: (dims) => createAdapter(engine, dims, LORA, 5) });
}

const timeless = ({ ms: _, ...rest }: SftMetrics | RlMetrics) => rest;
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

async function reinforce(learner: Learner, options: Partial<RlOptions> = {}): Promise<RlMetrics[]> {
  const lines: RlMetrics[] = [];
  const hooks = {
    onStep: (line: RlMetrics) => void lines.push(line),
    onCompletions: () => {},
    save: () => {},
  };
  const { policy } = learner;
  const reference =
    policy.adapter === null
      ? tinyPolicy(engine, 3, { tuning: 'none' })
      : { ...policy.withoutAdapter, forbidden: policy.forbidden };
  const scored = tinyTask({ score: mixedScore([0]) });
  await rl(learner, reference, scored, { ...RL, ...options }, 17, hooks);
  return lines;
}

describe('a policy in bfloat16', () => {
  test('learns its traces nearly as one in float32 does', async () => {
    const options = { samples: 150, learningRate: 5e-3 };
    const [rounded, exact] = [
      await teach(tinyLearner(tinyPolicy(engine, 3, { dtype: 'bfloat16' })), options),
      await teach(tinyLearner(tinyPolicy(engine, 3)), options),
    ];
    expect(rounded[0]!.loss / exact[0]!.loss).toBeCloseTo(1, 2);
    const last = (lines: readonly SftMetrics[]): number => mean(lines.slice(-5).map(({ loss }) => loss));
    expect(last(exact)).toBeLessThan(1);
    expect(last(rounded)).toBeLessThan(1.15 * last(exact));
    expect(rounded.at(-1)!.skipped).toBe(0);
  });

  test('stopped and resumed is the uninterrupted one, bit for bit, master copy included', async ({
    skip,
  }) => {
    skip(!REPEATS);
    const whole = tinyLearner(tinyPolicy(engine, 3, { dtype: 'bfloat16' }));
    const want = await teach(whole, { samples: 24 });
    const checkpoint = join(directory, 'rounded');
    const first = tinyLearner(tinyPolicy(engine, 3, { dtype: 'bfloat16' }));
    const hooks = {
      onStep: () => {},
      save: (at: { readonly step: number; readonly skippedInARow: number }) => {
        if (at.step === 5)
          saveCheckpoint(checkpoint, first, FOREIGN_CARD, { stage: 'sft', ...at, origin: ORIGIN });
      },
    };
    await sft(first, task, { ...SFT, samples: 24, checkpointEvery: 5 }, hooks);
    const state = readState(checkpoint)!;
    const second = tinyLearner(Policy.load(engine, checkpoint, { dtype: 'bfloat16' }));
    restoreOptimizer(checkpoint, second, state);
    const lines: SftMetrics[] = [];
    const onStep = (line: SftMetrics) => void lines.push(line);
    await sft(second, task, { ...SFT, samples: 24 }, { onStep, save: () => {} }, state);
    expect(lines.map(timeless)).toEqual(want.slice(5).map(timeless));
    const master = (learner: Learner) => engine.floats(learner.optimizer.buffers['master']!);
    expect(identical(master(second), master(whole))).toBe(true);
    expect(identical(engine.floats(second.policy.flat), engine.floats(whole.policy.flat))).toBe(true);
  });

  test.each(['float32', 'bfloat16'] as const)(
    'trained with %s does not go on with the other dtype, and says so',
    (dtype) => {
      const checkpoint = join(directory, `with-${dtype}`);
      const learner = tinyLearner(tinyPolicy(engine, 3, { dtype }));
      saveCheckpoint(checkpoint, learner, FOREIGN_CARD, {
        stage: 'sft',
        step: 2,
        skippedInARow: 0,
        origin: ORIGIN,
      });
      const other = dtype === 'float32' ? 'bfloat16' : 'float32';
      const second = tinyLearner(Policy.load(engine, checkpoint, { dtype: other }));
      expect(() => restoreOptimizer(checkpoint, second, readState(checkpoint)!)).toThrow(
        `trained with ${dtype} weights, here they are ${other}`,
      );
    },
  );

  test('takes the trainer for the old policy: on policy no ratio leaves 1, however the sampler rounds', async () => {
    const narrow = { clipRatio: 1e-6, kl: 0 }; // any other ratio would be clipped
    const [line] = await reinforce(tinyLearner(tinyPolicy(engine, 3, { dtype: 'bfloat16' })), narrow);
    expect(line!.samplerGap).toBeLessThan(0.05);
    expect(line!.clipped).toBe(0);
    const later = await reinforce(tinyLearner(tinyPolicy(engine, 3, { dtype: 'bfloat16' })), {
      ...narrow,
      epochs: 2,
    });
    expect(later[0]!.clipped).toBeGreaterThan(0); // the second epoch is off policy, against the policy before the first
  });
});

describe('tuning', () => {
  test('of the decoder leaves every bit of the vision tower, and steps as full training without it would', async () => {
    const policy = tinyPolicy(engine, 3, { tuning: 'decoder' });
    const trained = policy.trainable.flat.shape[0]!;
    const before = engine.floats(policy.flat);
    const learner = tinyLearner(policy, 1e9);
    const full = tinyLearner(tinyPolicy(engine, 3), 1e9);
    await teach(learner, { samples: 3 });
    await teach(full, { samples: 3 });
    const after = engine.floats(policy.flat);
    expect(trained).toBeLessThan(before.length);
    expect(identical(after.subarray(trained), before.subarray(trained))).toBe(true);
    expect(identical(after.subarray(0, trained), before.subarray(0, trained))).toBe(false);
    expect(moments(learner).first).toHaveLength(trained);
    expect(relativeDistance(moments(learner).first, moments(full).first.subarray(0, trained))).toBeLessThan(
      1e-5,
    );
  });

  test('of an adapter leaves every bit of the base and learns', async () => {
    const policy = adapted(tinyPolicy(engine));
    const base = engine.floats(policy.flat);
    const learner = tinyLearner(policy);
    expect(policy.trainable.flat).toBe(policy.adapter!.flat);
    const lines = await teach(learner, { samples: 240, learningRate: 3e-2 });
    expect(identical(engine.floats(policy.flat), base)).toBe(true);
    expect(lines.at(-1)!.loss).toBeLessThan(0.7 * lines[0]!.loss);
    expect(Object.values(learner.optimizer.buffers).map(({ shape }) => shape)).toEqual([
      policy.adapter!.flat.shape,
      policy.adapter!.flat.shape,
    ]);
  });

  test('of an adapter checkpoints the adapter alone, and resumes bit for bit', async () => {
    const checkpoint = join(directory, 'adapter');
    const base = tinyPolicy(engine, 3, { dtype: 'bfloat16' });
    const whole = tinyLearner(adapted(base));
    const options = { samples: 24, learningRate: 1e-2, checkpointEvery: 3 };
    const want = await teach(whole, options);
    const first = tinyLearner(adapted(base));
    const save = (at: { readonly step: number; readonly skippedInARow: number }): void => {
      if (at.step === 3)
        saveCheckpoint(checkpoint, first, FOREIGN_CARD, { stage: 'sft', ...at, origin: ORIGIN });
    };
    await sft(first, task, { ...SFT, ...options }, { onStep: () => {}, save });
    const flat = engine.cast(engine.tensor(engine.floats(base.flat), [base.layout.size]), 'bfloat16');
    const policy = new Policy(engine, base.parts, flat, {
      adapter: (dims) => loadAdapter(engine, dims, checkpoint),
    });
    const second = tinyLearner(policy);
    const state = readState(checkpoint)!;
    restoreOptimizer(checkpoint, second, state);
    const lines: SftMetrics[] = [];
    const onStep = (line: SftMetrics) => void lines.push(line);
    await sft(second, task, { ...SFT, ...options }, { onStep, save: () => {} }, state);
    expect(lines.map(timeless)).toEqual(want.slice(3).map(timeless));
    expect(identical(engine.floats(policy.adapter!.flat), engine.floats(whole.policy.adapter!.flat))).toBe(
      true,
    );
  });

  test('of an adapter reinforces against the base itself: no divergence before the first update, some after it', async () => {
    const policy = adapted(tinyPolicy(engine));
    const base = engine.floats(policy.flat);
    const lines = await reinforce(tinyLearner(policy), { learningRate: 2e-2, steps: 3 });
    expect(lines[0]!.kl).toBeCloseTo(0, 6);
    expect(lines[2]!.kl).toBeGreaterThan(1e-5);
    expect(identical(engine.floats(policy.flat), base)).toBe(true);
  });
});

describe('computing layers again', () => {
  test.each([
    { name: 'everything', make: () => tinyPolicy(engine) },
    { name: 'an untied head', make: () => tinyPolicy(engine, 3, { tied: false }) },
    { name: 'the decoder', make: () => tinyPolicy(engine, 3, { tuning: 'decoder' }) },
    { name: 'an adapter', make: () => adapted(tinyPolicy(engine)) },
  ])('gives the supervised gradients of $name', async ({ make }) => {
    const [kept, again] = [tinyLearner(make(), 1e9), tinyLearner(make(), 1e9, true)];
    const [a, b] = [await teach(kept, { samples: 3 }), await teach(again, { samples: 3 })];
    expect(b[0]!.loss).toBe(a[0]!.loss);
    expect(relativeDistance(moments(again).first, moments(kept).first)).toBeLessThan(1e-6);
  });

  test.each([
    { name: 'everything', make: () => tinyPolicy(engine) },
    { name: 'an adapter', make: () => adapted(tinyPolicy(engine)) },
  ])('gives the reinforcement gradients of $name, prompts shared', async ({ make }) => {
    const [kept, again] = [tinyLearner(make(), 1e9), tinyLearner(make(), 1e9, true)];
    const [a, b] = [await reinforce(kept, { steps: 1 }), await reinforce(again, { steps: 1 })];
    expect(b[0]!.loss).toBeCloseTo(a[0]!.loss, 9);
    expect(relativeDistance(moments(again).first, moments(kept).first)).toBeLessThan(1e-5);
  });

  test('leaves no tensor behind', async () => {
    const learner = tinyLearner(tinyPolicy(engine), 1, true);
    await teach(learner, { samples: 3 });
    const live = engine.live();
    await teach(learner, { samples: 30 });
    expect(engine.live()).toBe(live);
  });
});
