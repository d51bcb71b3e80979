/** Which tokens each row of a batch has seen: kept only under a repetition penalty. */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from './batch.ts';
import type { Policy } from './policy.ts';

export interface Seen {
  /** 1 where a row has seen a token, else 0. */
  readonly flags: Tensor; // [B · V]
  readonly offsets: Tensor; // [B] int64: b · V
  readonly ones: Tensor; // [B]
}

export const tensorsOfSeen = (seen: Seen | null): Tensor[] =>
  seen === null ? [] : [seen.flags, seen.offsets, seen.ones];

/** What rows have seen: nothing yet, or `flags`. */
export function seenOf({ engine, dims }: Policy, rows: number, flags?: Tensor): Seen {
  const offsets = Int32Array.from({ length: rows }, (_, b) => b * dims.vocabulary);
  return {
    flags: flags ?? engine.zeros([rows * dims.vocabulary]),
    offsets: engine.tensor(offsets, [rows]),
    ones: engine.tensor(new Float32Array(rows).fill(1), [rows]),
  };
}

/** The tokens of prompts [n], for rows that `each` [m] assigns to them. */
export function seenInPrompts(policy: Policy, prompts: readonly EncodedPrompt[], each: Tensor): Seen {
  const { engine, dims } = policy;
  const flags = new Float32Array(prompts.length * dims.vocabulary);
  for (const [i, { ids }] of prompts.entries()) for (const id of ids) flags[i * dims.vocabulary + id] = 1;
  const rows = engine.indexSelect(engine.tensor(flags, [prompts.length, dims.vocabulary]), each); // [m, V]
  return seenOf(policy, each.shape[0]!, engine.reshape(rows, [-1]));
}

/** What the rows `slots` [m] have seen. */
export function seenBy(policy: Policy, { flags }: Seen, slots: Tensor): Seen {
  const { engine, dims } = policy;
  const rows = engine.indexSelect(engine.reshape(flags, [-1, dims.vocabulary]), slots); // [m, V]
  return seenOf(policy, slots.shape[0]!, engine.reshape(rows, [-1]));
}

/** In place: the rows `slots` [m] of `all` have seen what the rows of `part` have. */
export function writeSeen({ engine, dims }: Policy, all: Seen, slots: Tensor, part: Seen): void {
  const shape = [-1, dims.vocabulary];
  engine.indexCopyInto(engine.reshape(all.flags, shape), 0, slots, engine.reshape(part.flags, shape));
}
