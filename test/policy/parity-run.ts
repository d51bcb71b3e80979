/** What the fixtures of parity.ts are compared with: our forward pass, seen after every block and layer. */
import { afterAll } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { collate, type EncodedPrompt } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import type { Policy } from '../../src/policy/policy.ts';
import { encodeImages } from '../../src/policy/vision.ts';
import { picture } from './golden.ts';
import type { ParityPolicy } from './parity.ts';

/** Worst error per quantity, printed after the suite when TIMESEER_PARITY is set. */
const seen = new Map<string, { error: number; where: string }>();

export function note(quantity: string, where: string, error: number): void {
  const known = seen.get(quantity);
  if (known === undefined || !(error <= known.error)) seen.set(quantity, { error, where });
}

afterAll(() => {
  if (process.env['TIMESEER_PARITY'] === undefined) return;
  for (const [quantity, { error, where }] of seen) console.log(quantity, error.toExponential(2), where);
});

export function encode(policy: Policy, row: ParityPolicy): EncodedPrompt[] {
  return row.rows.map(({ text, sizes }) =>
    policy.encodePrompt(
      text,
      sizes.map(([w, h]) => picture(w, h)),
    ),
  );
}

/** Rows of a padded [B · T, …] that hold tokens; without the last token of each with `predicting`. */
export function places(lengths: ArrayLike<number>, length: number, predicting = false): Int32Array {
  return Int32Array.from(
    Array.from(lengths).flatMap((n, b) =>
      Array.from({ length: predicting ? n - 1 : n }, (_, t) => b * length + t),
    ),
  );
}

/** Log-probability of every token but the first of each row: [N − B]. */
export function logProbs(policy: Policy, prompts: readonly EncodedPrompt[]): Tensor {
  const batch = collate(prompts, policy.dims.special.pad);
  const rows = places(batch.lengths, batch.length, true);
  const targets = Int32Array.from(prompts.flatMap(({ ids }) => [...ids.slice(1)]));
  const { hidden } = forward(policy, { ...batch, rows });
  const { engine } = policy;
  return engine.logProbs(hidden, policy.weights.head, engine.tensor(targets, [targets.length])).logProb;
}

/** The first `count` layers of a policy. */
const truncated = ({ engine, weights, dims }: Policy, count: number) => ({
  engine,
  dims: { ...dims, layers: count },
  weights: { ...weights, layers: weights.layers.slice(0, count) },
});

/** States after the final norm of each token when only the first `count` layers are there, rows one after another. */
export function layerStates(policy: Policy, prompts: readonly EncodedPrompt[], count: number): Float32Array {
  const batch = collate(prompts, policy.dims.special.pad);
  const { engine } = policy;
  const { hidden } = forward(truncated(policy, count), batch);
  const rows = places(batch.lengths, batch.length);
  return engine.floats(engine.indexSelect(hidden, engine.tensor(rows, [rows.length]))); // [N · D]
}

/** Visual tokens when only the first `count` blocks are there. */
export function visualTokens(policy: Policy, prompts: readonly EncodedPrompt[], count: number): Float32Array {
  const { engine, weights, dims } = policy;
  const shorter = { ...weights, blocks: weights.blocks.slice(0, count) };
  return engine.floats(
    encodeImages(
      engine,
      shorter,
      dims.vision,
      prompts.flatMap(({ images }) => images),
    ),
  );
}

/** Logits of every token, padding left out. */
export function allLogits(policy: Policy, prompts: readonly EncodedPrompt[]): Float32Array {
  const batch = collate(prompts, policy.dims.special.pad);
  const rows = places(batch.lengths, batch.length);
  return policy.engine.floats(policy.logits(forward(policy, { ...batch, rows }).hidden)); // [N · V]
}
