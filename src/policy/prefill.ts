/** Prompts run through the policy in pieces, so that many or long ones do not need the memory of one pass. */
import type { Tensor } from '../engine/engine.ts';
import { collate, type EncodedPrompt } from './batch.ts';
import type { LayerCache } from './decoder.ts';
import { forward } from './forward.ts';
import type { Policy } from './policy.ts';

/**
 * Tokens of one pass, padding included; with merged patches of 2 × 2 its images have at most four times as many patches.
 * Of a policy of 3 billion parameters a pass of 8192 takes about 7 GB, one of 32768 more than the weights of 16 bits.
 */
export const PREFILL_TOKENS = 8192;

/** Keys and values of consecutive prompts. They are freed after they were handed over. */
export interface Piece {
  /** Index of the first prompt. */
  readonly first: number;
  readonly lengths: Int32Array; // [n]
  /** Of the longest, to which the others are padded on the right. */
  readonly length: number;
  readonly layers: readonly LayerCache[]; // [n, Hkv, T, d]
}

/** Runs of consecutive prompts whose padded batches stay within `budget` tokens; a longer prompt goes alone. */
export function pieces(lengths: readonly number[], budget: number): { first: number; count: number }[] {
  const out: { first: number; count: number }[] = [];
  let longest = 0;
  for (const [i, length] of lengths.entries()) {
    const last = out.at(-1);
    longest = Math.max(longest, length);
    if (last !== undefined && (last.count + 1) * longest <= budget) last.count++;
    else {
      out.push({ first: i, count: 1 });
      longest = length;
    }
  }
  return out;
}

/** Encodes prompts, hands over their caches piece by piece, and returns the logits of the tokens that follow: [n, V]. */
export function prefill(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  take: (piece: Piece) => void,
  budget = PREFILL_TOKENS,
): Tensor {
  const { engine, dims } = policy;
  const lengths = prompts.map(({ ids }) => ids.length);
  return engine.scope(() => {
    const logits = pieces(lengths, budget).map(({ first, count }) =>
      engine.scope(() => {
        const batch = collate(prompts.slice(first, first + count), dims.special.pad);
        const last = batch.lengths.map((length, b) => b * batch.length + length - 1);
        const encoded = forward(policy, { ...batch, rows: last });
        take({ first, lengths: batch.lengths, length: batch.length, layers: encoded.cache.layers });
        return policy.logits(encoded.hidden); // [n, V]
      }),
    );
    return logits.length === 1 ? logits[0]! : engine.concat(logits, 0);
  });
}
