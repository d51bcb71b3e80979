/** One TimerPO step that ours and a peer make alike: a policy, another one that the KL term refers to, and the responses that both sample. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ExampleAddress } from '../../datasets/source.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { Random } from '../../src/ground/random.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainingTask } from '../../src/run/policy-task.ts';
import { readCard, writeCard } from '../../src/tasks/card.ts';
import type { RlOptions } from '../../src/train/rl.ts';
import { TRACE_TOKENS } from '../../src/train/similarity.ts';
import { PromptEncoder, type Task } from '../../src/train/task.ts';
import { rollout } from '../helpers/rollout.ts';
import { resized, SIZES } from './large-policy.ts';
import { quickstart, writeExamples } from './workload.ts';

export interface StepSizes {
  readonly prompts: number;
  readonly group: number;
  readonly maxTokens: number;
}

export interface StepJob extends StepSizes {
  readonly device: string;
  readonly policy: string;
  readonly reference: string;
}

/**
 * The step by the quickstart's recipe, with the KL term, the entropy bonus and the transport of AnomSeer, and without what the paper does
 * not have: claims, corrections and gates. Of learning rate 0, so that every round does the same work on the same weights.
 */
export function stepOptions({ prompts, group, maxTokens }: StepSizes): RlOptions {
  const { rl, memory } = quickstart();
  const { tokens, rows } = memory;
  const papers = {
    similarity: 'ot',
    credit: 'response',
    corrections: 0,
    counterfactuals: 0,
    gatesEvery: 0,
  } as const;
  return {
    ...{ ...rl, tokens, rows, prompts, group, maxTokens, steps: 1, learningRate: 0 },
    ...{ advantage: 'timerpo', kl: 0.001, entropy: 0.001, timerpo: { ...rl.timerpo, ...papers } },
  };
}

export function stepTask(policy: string): Task {
  const { data, seed } = quickstart();
  const examples: ExampleAddress = {
    ...{ name: data.name, split: 'train', seed, length: data.length, offset: 3_000_000 },
  };
  return trainingTask(readCard(policy), examples, 'rl');
}

/** Standard deviation of what the reference's weights are away from the policy's: enough that the KL term counts. */
const APART = 0.003;

/** Writes a policy whose weights differ a little from another's. */
function writeReference(engine: Engine, from: string, into: string): void {
  const policy = Policy.load(engine, from, { tuning: 'none' });
  const random = new Random(3, 'reference');
  const noise = Float32Array.from({ length: 1 << 16 }, () => random.normal(0, APART));
  const [size] = policy.flat.shape as [number];
  engine.scope(() => {
    const tile = engine.tensor(noise, [noise.length]);
    for (let at = 0; at < size; at += noise.length) {
      engine.addInto(policy.flat, 0, at, engine.narrow(tile, 0, 0, Math.min(noise.length, size - at)));
    }
  });
  write(policy, from, into);
}

/** Writes a policy with the card of the directory `from`, and frees it. */
function write(policy: Policy, from: string, into: string): void {
  writeManifestedDirectory(into, (temporary) => {
    policy.write(temporary);
    writeCard(temporary, readCard(from));
  });
  policy.dispose();
}

/** A policy of another size with random weights, which is asked what the policy of `nano` is asked. */
export function writeResized(engine: Engine, nano: string, size: keyof typeof SIZES, into: string): void {
  const small = Policy.load(engine, nano, { tuning: 'none' });
  const policy = resized(small, SIZES[size], 11);
  small.dispose();
  write(policy, nano, into);
}

/** What a peer is told: files in `directory`, and what the command line names beside them. */
export async function writeStep(
  engine: Engine,
  directory: string,
  policy: string,
  device: string,
  sizes: StepSizes,
): Promise<{ readonly job: StepJob; readonly args: readonly string[]; readonly tokens: number }> {
  const reference = join(directory, 'reference');
  writeReference(engine, policy, reference);
  const options = stepOptions(sizes);
  const task = stepTask(policy);
  const own = Policy.load(engine, policy, { tuning: 'none' });
  const encoder = new PromptEncoder(own);
  const numbers = Array.from({ length: sizes.prompts }, (_, i) => i);
  const examples = numbers.map((index) => task.example(index));
  const prompts = [];
  for (const one of examples) prompts.push(encoder.encode(await task.picture(one), task.instruction(one)));
  const asked = { ...options, seed: quickstart().seed, hidden: true };
  const groups = await rollout(own, examples, prompts, numbers, task.score, asked);
  const file = join(directory, 'examples.safetensors');
  const pairs = groups.flatMap(({ prompt, responses }) =>
    responses.map(({ ids }) => ({ prompt, response: ids })),
  );
  writeExamples(file, own, pairs);
  const work = join(directory, 'step.json');
  const { clipRatio, kl, entropy, temperature, timerpo } = options;
  const { clip, betas } = quickstart().rl;
  const traces = examples.map((one) => [...own.tokenizer.encode(task.trace(one)).subarray(0, TRACE_TOKENS)]);
  const rewards = groups.map(({ scores }) => scores.map((score) => score!.total));
  const { end, pad } = own.dims.special;
  const loss = { clipRatio, kl, entropy, clip, temperature, betas };
  writeFileSync(work, JSON.stringify({ group: sizes.group, traces, rewards, end, pad, ...loss, ...timerpo }));
  own.dispose();
  const files = { policy, reference, examples: file, work };
  return {
    job: { device, policy, reference, ...sizes },
    args: Object.entries(files).flatMap(([key, value]) => [`--${key}`, value]),
    tokens: pairs.reduce((sum, { response }) => sum + response.length, 0),
  };
}
