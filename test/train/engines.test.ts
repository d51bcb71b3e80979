/** Training on the tfjs engine against the torch engine, and policies that move between them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { openTfjs } from '../../src/engine/tfjs/tfjs.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Policy } from '../../src/policy/policy.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { rl } from '../../src/train/rl.ts';
import { DEVICE } from '../helpers/device.ts';
import { temporary } from '../helpers/temporary.ts';
import { moments, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';
import { RL, SEED } from '../helpers/tiny-rl.ts';

const engines: readonly Engine[] = [openTorch({ device: DEVICE, threads: 1 }), await openTfjs()];
const directory = temporary('engines');

/** Largest |a − b| of two arrays. */
const apart = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);

/** Results of the torch engine and of the tfjs engine. */
async function both<T>(work: (engine: Engine) => Promise<T>): Promise<readonly [T, T]> {
  return [await work(engines[0]!), await work(engines[1]!)];
}

describe('from the same state, the engines', () => {
  test('take the same supervised step: loss, gradient norm, parameters and moments', async () => {
    const [torch, tfjs] = await both(async (engine) => {
      const learner = tinyLearner(tinyPolicy(engine));
      const lines = await teach(learner, { samples: 6, learningRate: 1e-3, warmup: 0 });
      const found = { lines, ...moments(learner), flat: engine.floats(learner.policy.flat) };
      learner.policy.dispose();
      return found;
    });
    expect(tfjs.lines).toHaveLength(2);
    tfjs.lines.forEach(({ loss, gradNorm, tokens }, i) => {
      const line = torch.lines[i]!;
      expect(tokens).toBe(line.tokens);
      expect(Math.abs(loss / line.loss - 1)).toBeLessThan(1e-5);
      expect(Math.abs(gradNorm / line.gradNorm - 1)).toBeLessThan(1e-4);
    });
    expect(apart(tfjs.first, torch.first)).toBeLessThan(1e-5);
    expect(apart(tfjs.second, torch.second)).toBeLessThan(1e-6);
    // Adam divides by the gradient's own size, so that a rounding of a tiny gradient moves a parameter by up to the rate.
    const moved = Array.from(tfjs.flat, (value, i) => Math.abs(value - torch.flat[i]!)).sort((a, b) => a - b);
    expect(moved[Math.floor(0.99 * moved.length)]).toBeLessThan(1e-5);
    expect(moved.at(-1)).toBeLessThan(2.5e-3);
  });

  test('sample the same responses and take the same TimerPO step', async () => {
    const [torch, tfjs] = await both(async (engine) => {
      const [policy, reference] = [tinyPolicy(engine), tinyPolicy(engine, 4)];
      const lines: RlMetrics[] = [];
      const texts: string[] = [];
      await rl(tinyLearner(policy), reference, tinyTask(), RL, SEED, {
        onStep: (line) => void lines.push(line),
        onCompletions: (all) => void texts.push(...all.map(({ response }) => response)),
        save: () => {},
      });
      for (const each of [policy, reference]) each.dispose();
      return { line: lines[0]!, texts };
    });
    expect(tfjs.texts).toEqual(torch.texts);
    const near = (key: 'kl' | 'entropy' | 'gradNorm'): void =>
      expect(Math.abs(tfjs.line[key]! / torch.line[key]! - 1), key).toBeLessThan(1e-4);
    for (const key of ['kl', 'entropy', 'gradNorm'] as const) near(key);
    expect(tfjs.line.reward).toEqual(torch.line.reward);
  });
});

test('a policy that one engine wrote is the same to the other, and written by it the same file', async () => {
  const [from, to] = engines as [Engine, Engine];
  const files = ['torch', 'tfjs'].map((name) => join(directory, name)) as [string, string];
  const written = tinyPolicy(from);
  written.write(files[0]);
  const read = Policy.load(to, files[0]);
  expect(to.floats(read.flat)).toEqual(from.floats(written.flat));
  read.write(files[1]);
  const weights = files.map((file) => readFileSync(join(file, 'model.safetensors')));
  expect(weights[0]!.equals(weights[1]!)).toBe(true);
  written.dispose();
  read.dispose();
});
