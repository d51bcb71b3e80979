/** Before its first step a stage on an accelerator runs the largest micro-batch that it can meet, and learns nothing from it. */
import { describe, expect, test } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import type { RlMetrics, SftMetrics } from '../../src/train/metrics.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import { DEVICE, REPEATS } from '../helpers/device.ts';
import { identical } from '../helpers/full-sequence.ts';
import { mixedScore, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });

/** The engine under another device's name, and the sizes of the hidden states whose gradients were asked for. */
function accelerator(): { readonly engine: Engine; readonly lengths: number[] } {
  const lengths: number[] = [];
  const get = (target: Engine, name: string): unknown => {
    if (name === 'info') return { ...target.info, device: 'cuda:0' };
    const value: unknown = Reflect.get(target, name);
    if (typeof value !== 'function') return value;
    return (...args: unknown[]): unknown => {
      if (name === 'logProbs') lengths.push((args[2] as { shape: readonly number[] }).shape[0]!);
      return value.apply(target, args);
    };
  };
  return { engine: new Proxy<Engine>(engine, { get: (target, name) => get(target, String(name)) }), lengths };
}

const timeless = ({ ms: _, ...rest }: SftMetrics) => rest;

describe('a rehearsal', () => {
  test('of a supervised stage takes the longest example as often as a micro-batch holds', async ({
    skip,
  }) => {
    skip(!REPEATS);
    const device = accelerator();
    const [plain, rehearsed] = [tinyLearner(tinyPolicy(engine)), tinyLearner(tinyPolicy(device.engine))];
    const options = { samples: 9, tokens: 160 };
    const [want, got] = [await teach(plain, options), await teach(rehearsed, options)];
    expect(got.map(timeless)).toEqual(want.map(timeless));
    expect(identical(engine.floats(rehearsed.policy.flat), engine.floats(plain.policy.flat))).toBe(true);
    const [first, ...rest] = device.lengths;
    expect(first).toBeGreaterThanOrEqual(Math.max(...rest));
    const single = accelerator();
    await teach(tinyLearner(tinyPolicy(single.engine)), { ...options, tokens: 1 });
    expect(single.lengths).toHaveLength(10); // one example each, and once the longest of the first step
  });

  test('of a reinforcement stage takes responses of full length', async () => {
    const options: RlOptions = {
      ...defaultRecipe().rl,
      steps: 2,
      prompts: 3,
      group: 3,
      temperature: 0.9,
      topP: 1,
      maxTokens: 14,
      advantage: 'grpo',
      distillation: defaultRecipe().rl.distillation,
      timerpo: { ...defaultRecipe().rl.timerpo, alpha: 0 },
      learningRate: 1e-3,
      warmup: 0,
      minLearningRate: 1,
      miniBatches: 1,
      epochs: 1,
      clipRatio: 0.2,
      kl: 0,
      entropy: 0.02,
      guards: defaultRecipe().rl.guards,
      checkpointEvery: 1000,
    };
    const device = accelerator();
    const run = async (on: Engine) => {
      const learner = tinyLearner(tinyPolicy(on));
      const lines: RlMetrics[] = [];
      const hooks = {
        onStep: (line: RlMetrics) => void lines.push(line),
        onCompletions: () => {},
        save: () => {},
      };
      await rl(learner, null, tinyTask({ score: mixedScore([]) }), options, 3, hooks);
      return lines;
    };
    const [want, got] = [await run(engine), await run(device.engine)];
    // Sampling takes another path on an accelerator, which rounds otherwise; a gradient left over would be of its own size.
    got.forEach(({ loss, gradNorm, tokens }, i) => {
      expect(loss).toBeCloseTo(want[i]!.loss, 5);
      expect(gradNorm! / want[i]!.gradNorm!).toBeCloseTo(1, 5);
      expect(tokens).toBe(want[i]!.tokens);
    });
    expect(device.lengths[0]).toBe(3 * 3 * 14);
  });
});
