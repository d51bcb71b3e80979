/**
 * What a batch being decoded holds on the device, and how it changes its shape: layer by layer, so that no more than one
 * layer's caches are held twice.
 */
import type { Tensor } from '../engine/engine.ts';
import type { LayerCache, Prefix } from './decoder.ts';
import type { Policy } from './policy.ts';
import type { Kept } from './row.ts';
import { type Seen, seenBy, seenOf, tensorsOfSeen } from './seen.ts';

export interface BatchMemory {
  readonly prefix: Prefix | null; // P prompts, when groups share them
  readonly own: readonly LayerCache[]; // [B, Hkv, C, d]; with one row to a prompt they start with the prompt
  /** Additive over the columns, where some row must not see some of them: [B, 1, 1, C]. */
  readonly mask: Tensor | null;
  /** Sampled and not fed yet: [B]. */
  readonly tokens: Tensor;
  readonly seen: Seen | null;
}

/** A part of a memory, made from the memory as it then is. */
export type Change = (memory: BatchMemory) => Partial<BatchMemory>;

const tensorsIn = (layers: readonly LayerCache[]): Tensor[] =>
  layers.flatMap(({ key, value }) => [key, value]);

export function tensorsOf({ prefix, own, mask, tokens, seen }: BatchMemory): Tensor[] {
  const masks = [prefix?.mask, mask].filter((tensor) => tensor !== undefined && tensor !== null);
  return [...tensorsIn(prefix?.layers ?? []), ...tensorsIn(own), ...masks, tokens, ...tensorsOfSeen(seen)];
}

export interface BatchShape {
  /** Prompts that groups share, or null when each row has its own. */
  readonly prompts: number | null;
  /** Tokens of a shared prompt. */
  readonly before: number;
  readonly rows: number;
  readonly columns: number;
  /** Whether it is kept which tokens a row has seen. */
  readonly seen: boolean;
}

export function allocate(policy: Policy, { prompts, before, rows, columns, seen }: BatchShape): BatchMemory {
  const { engine, dims, dtype } = policy;
  const empty = (batch: number, length: number): LayerCache[] =>
    Array.from({ length: dims.layers }, () => ({
      key: engine.zeros([batch, dims.kvHeads, length, dims.headDim], dtype),
      value: engine.zeros([batch, dims.kvHeads, length, dims.headDim], dtype),
    }));
  return engine.scope(() => ({
    prefix: prompts === null ? null : { layers: empty(prompts, before) },
    own: empty(rows, columns),
    mask: null,
    tokens: engine.tensor(new Int32Array(rows), [rows]),
    seen: seen ? seenOf(policy, rows) : null,
  }));
}

/** `layers` with the caches of one of them changed. */
function changed(layers: readonly LayerCache[], index: number, by: (cache: Tensor) => Tensor): LayerCache[] {
  return layers.map((held, i) => (i === index ? { key: by(held.key), value: by(held.value) } : held));
}

/** Keeps some slots and prompts. */
export function* leaving(policy: Policy, memory: BatchMemory, kept: Kept): Generator<Change> {
  const { engine } = policy;
  const pick =
    (wanted: readonly number[]) =>
    (tensor: Tensor): Tensor =>
      engine.indexSelect(tensor, engine.tensor(Int32Array.from(wanted), [wanted.length]));
  const [slots, prompts] = [pick(kept.slots), pick(kept.prompts)];
  for (const i of memory.own.keys()) yield ({ own }) => ({ own: changed(own, i, slots) });
  for (const i of memory.prefix?.layers.keys() ?? []) {
    yield ({ prefix }) => ({ prefix: prefix && { ...prefix, layers: changed(prefix.layers, i, prompts) } });
  }
  yield ({ prefix, mask, tokens, seen }) => ({
    prefix: prefix && { ...prefix, ...(prefix.mask === undefined ? {} : { mask: prompts(prefix.mask) }) },
    mask: mask && slots(mask),
    tokens: slots(tokens),
    seen: seen && seenBy(policy, seen, engine.tensor(Int32Array.from(kept.slots), [kept.slots.length])),
  });
}

/** Drops the first columns and gives the held ones that follow a capacity of `columns`. */
export function* moving(
  { engine }: Policy,
  memory: BatchMemory,
  to: { readonly drop: number; readonly held: number; readonly columns: number },
): Generator<Change> {
  const move = (tensor: Tensor, axis: number): Tensor => {
    const shape = tensor.shape.map((size, i) => (i === axis ? to.columns : size));
    const into = engine.zeros(shape, tensor.dtype);
    engine.write(into, axis, 0, engine.narrow(tensor, axis, to.drop, to.held));
    return into;
  };
  for (const i of memory.own.keys()) {
    yield ({ own }) => ({ own: changed(own, i, (cache) => move(cache, 2)) });
  }
  yield ({ mask }) => ({ mask: mask && move(mask, 3) });
}
