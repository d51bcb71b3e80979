/** What is measured on: a nano policy of the quickstart's recipe after a short supervised stage, and its examples. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openExamples } from '../../datasets/source.ts';
import { Random } from '../../src/ground/random.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import type { Policy } from '../../src/policy/policy.ts';
import { writeSafetensors } from '../../src/policy/safetensors.ts';
import { loadRecipe } from '../../src/recipe/config.ts';
import type { Recipe } from '../../src/recipe/recipe.ts';
import { exampleTask } from '../../src/run/policy-task.ts';
import { Run } from '../../src/run/run.ts';
import { runTrainingStage } from '../../src/run/stage.ts';
import { readCard } from '../../src/tasks/card.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { float32Tensor } from '../helpers/safetensors.ts';

/** Enough that most responses are well formed and end by themselves. */
const SAMPLES = 4000;

export function quickstart(set: readonly string[] = []): Recipe {
  return loadRecipe('quickstart', set);
}

/** Runs `work` with a policy directory: the one given, or one trained now that is removed afterwards. */
export async function withPolicy<T>(
  given: string | undefined,
  device: string,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  if (given !== undefined) return work(given);
  const path = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
  try {
    const run = Run.open(join(path, 'run'), {
      recipe: 'quickstart',
      set: [`sft.samples=${SAMPLES}`],
    });
    await runTrainingStage(run, 'sft', { device, resume: false, force: false, silent: true });
    return await work(run.policy('sft'));
  } finally {
    rmSync(path, { recursive: true, force: true });
  }
}

/** A directory for files that a peer reads; removed afterwards. */
export async function withScratch<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const path = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
  try {
    return await work(path);
  } finally {
    rmSync(path, { recursive: true, force: true });
  }
}

/** An encoded example: the prompt, and its expert trace with the end token. */
export interface Example {
  readonly prompt: EncodedPrompt;
  readonly response: Int32Array;
}

/** Training examples `first` … `first + count − 1` of the quickstart's data, as the supervised stage makes them. */
export async function examples(
  policy: Policy,
  directory: string,
  first: number,
  count: number,
): Promise<Example[]> {
  const { data, seed } = quickstart();
  const source = openExamples({ name: data.name, split: 'train', seed, length: data.length });
  const task = exampleTask(readCard(directory), { facts: source.facts });
  const encoder = new PromptEncoder(policy);
  const out: Example[] = [];
  for (let i = first; i < first + count; i++) {
    const series = source.at(i);
    out.push({
      prompt: encoder.encode(await task.picture(series), task.instruction(series)),
      response: policy.encodeResponse(task.trace(series)),
    });
  }
  return out;
}

/** Draws in [0, 1) as `generate` makes them, so that a peer can sample the same tokens: [N · steps]. */
export function draws(seed: number, prompts: number, samples: number, steps: number): Float32Array {
  const out = new Float32Array(prompts * samples * steps);
  for (let n = 0; n < prompts * samples; n++) {
    const random = new Random(seed, 'sample', Math.floor(n / samples), n % samples);
    for (let t = 0; t < steps; t++) out[n * steps + t] = Math.min(random.uniform(), 1 - 2 ** -24);
  }
  return out;
}

/**
 * Writes examples for a peer, whole sequences padded on the right: `tokens` [N, T], `positions` [3, N, T], `prompt`
 * and `total` lengths [N], `patches` [N, L, 3 · p²], `forbidden` [V] and `draws` [N · samples, steps] when given.
 */
export function writeExamples(
  file: string,
  policy: Policy,
  list: readonly Example[],
  uniforms?: { readonly values: Float32Array; readonly steps: number },
): void {
  const total = list.map(({ prompt, response }) => prompt.ids.length + response.length);
  const length = Math.max(...total);
  const tokens = new Float32Array(list.length * length).fill(policy.dims.special.pad);
  const positions = new Float32Array(3 * list.length * length);
  list.forEach(({ prompt, response }, n) => {
    tokens.set(prompt.ids, n * length);
    tokens.set(response, n * length + prompt.ids.length);
    const own = prompt.ids.length;
    for (let axis = 0; axis < 3; axis++) {
      const at = (axis * list.length + n) * length;
      positions.set(prompt.positions.subarray(axis * own, (axis + 1) * own), at);
      for (let t = own; t < length; t++) positions[at + t] = prompt.next + t - own;
    }
  });
  const [first] = list[0]!.prompt.images;
  const patches = first!.rows * first!.columns;
  const size = first!.patches.length;
  const pixels = new Float32Array(list.length * size);
  list.forEach(({ prompt }, n) => {
    pixels.set(prompt.images[0]!.patches, n * size);
  });
  const vector = (name: string, values: Float32Array) => float32Tensor(name, [values.length], values);
  writeSafetensors(file, [
    float32Tensor('tokens', [list.length, length], tokens),
    float32Tensor('positions', [3, list.length, length], positions),
    vector(
      'prompt',
      Float32Array.from(list, ({ prompt }) => prompt.ids.length),
    ),
    vector('total', Float32Array.from(total)),
    float32Tensor('patches', [list.length, patches, size / patches], pixels),
    vector('grid', Float32Array.of(1, first!.rows, first!.columns)),
    vector('forbidden', policy.forbidden),
    ...(uniforms === undefined
      ? []
      : [float32Tensor('draws', [uniforms.values.length / uniforms.steps, uniforms.steps], uniforms.values)]),
  ]);
}
