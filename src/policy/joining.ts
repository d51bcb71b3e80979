/** Prompts that join a batch being decoded: their keys and values, and what their rows must not see. */
import type { Tensor } from '../engine/engine.ts';
import type { BatchMemory } from './batch-memory.ts';
import type { Policy } from './policy.ts';
import type { Piece } from './prefill.ts';

const HIDE = Number.NEGATIVE_INFINITY;

/** Where joining prompts stand. */
export interface Places {
  /** The prompts' places in the batch: [n]. */
  readonly into: readonly number[];
  /** Whether the batch begins with them: they are then written side by side and padded behind. */
  readonly fresh: boolean;
  /** Columns of the cache that are filled. */
  readonly used: number;
}

/** Writes the keys and values of a piece of the joining prompts. */
export function writePiece(
  { engine }: Policy,
  { prefix, own }: BatchMemory,
  { first, lengths, layers }: Piece,
  { into, fresh, used }: Places,
): void {
  const put = (target: Tensor, source: Tensor): void => {
    if (fresh) {
      engine.write(engine.narrow(target, 0, first, lengths.length), 2, 0, source);
      return;
    }
    for (const [i, n] of lengths.entries()) {
      const row = engine.narrow(target, 0, into[first + i]!, 1); // [1, Hkv, S, d]
      const column = prefix === null ? used - n : 0;
      engine.write(row, 2, column, engine.narrow(engine.narrow(source, 0, i, 1), 2, 0, n));
    }
  };
  for (const [i, { key, value }] of layers.entries()) {
    engine.scope(() => {
      const target = (prefix?.layers ?? own)[i]!;
      put(target.key, key);
      put(target.value, value);
    });
  }
}

/** Sets the rows `places` [n] of an additive mask [B, 1, 1, S]: row i does not see the columns from … to of `hidden(i)`. */
export function hideColumns(
  { engine, dtype }: Policy,
  mask: Tensor,
  places: readonly number[],
  hidden: (i: number) => readonly [from: number, to: number],
): void {
  const columns = mask.shape[3]!;
  const values = new Float32Array(places.length * columns);
  for (let i = 0; i < places.length; i++) {
    const [from, to] = hidden(i);
    values.fill(HIDE, i * columns + from, i * columns + to);
  }
  engine.scope(() => {
    const rows = engine.cast(engine.tensor(values, [places.length, 1, 1, columns]), dtype);
    engine.indexCopyInto(mask, 0, engine.tensor(Int32Array.from(places), [places.length]), rows);
  });
}
