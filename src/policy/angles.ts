/** Where responses can stand: their rotary tables. */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from './batch.ts';
import type { Policy } from './policy.ts';
import { rotaryTables } from './positions.ts';

/** Rotary tables of all positions that responses can stand at, by position minus `base`. */
export interface Angles {
  readonly base: number;
  /** Positions of responses; the tables are longer. */
  readonly count: number;
  readonly cos: Tensor; // [N, d]
  readonly sin: Tensor;
}

/**
 * Tables for responses of `maxTokens` tokens to these prompts. Behind them stand `beyond` more, for complete rows that
 * run on until the batch changes.
 */
export function anglesOf(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  maxTokens: number,
  beyond: number,
): Angles {
  const nexts = prompts.map(({ next }) => next);
  const base = nexts.reduce((a, b) => Math.min(a, b));
  const count = nexts.reduce((a, b) => Math.max(a, b)) - base + maxTokens;
  const rows = count + beyond;
  const positions = Int32Array.from({ length: 3 * rows }, (_, i) => base + (i % rows));
  const { cos, sin } = rotaryTables(policy.dims, positions);
  const shape = [rows, policy.dims.headDim];
  return { base, count, cos: policy.engine.tensor(cos, shape), sin: policy.engine.tensor(sin, shape) };
}

/**
 * Rows of the tables for the tokens of slots that stand at a column, each shifted by its own: [B]. Slots without a row may
 * be past all responses.
 */
export function placesAt({ count }: Angles, shift: Int32Array, column: number): Int32Array {
  return shift.map((own) => Math.min(own + column, count));
}
