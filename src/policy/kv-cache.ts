/**
 * Keys and values of prompts and responses in decoding. Caches change shape layer by layer, so that at most
 * one layer is held twice.
 */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from './batch.ts';
import type { Policy } from './policy.ts';
import { type Seen, seenBy, seenOf } from './sampler.ts';
import type { PrefillChunk } from './step.ts';

/** Rotated keys and values of one layer. */
export interface LayerCache {
  readonly key: Tensor; // [B, Hkv, S, d]
  readonly value: Tensor; // [B, Hkv, S, d]
}

/** A prompt that groups of rows share: P prompts, B = P · G rows, G consecutive rows to each. */
export interface Prefix {
  readonly layers: readonly LayerCache[]; // [P, Hkv, S₀, d]
  /** Additive, hides the padding of shorter prompts: [P, 1, 1, S₀]. */
  readonly mask?: Tensor | undefined;
}

/** Preallocated keys and values that a decoding step extends in place. */
export interface KvCache {
  readonly layers: readonly LayerCache[]; // [B, Hkv, S, d], S the capacity
  /** Columns filled so far; this call's are written behind them. */
  readonly used: number;
  /** Column [1] of a decoding step's token, where the device alone knows it; replaces `used`. The mask hides later columns. */
  readonly at?: Tensor;
}

/** Device state of a batch being decoded: B slots, C columns. */
export interface BatchState {
  readonly prefix: Prefix | null; // P prompts, when groups share them
  readonly layers: readonly LayerCache[]; // [B, Hkv, C, d]; with one row to a prompt they start with the prompt
  /** Additive over the columns, where some row must not see some of them: [B, 1, 1, C]. */
  readonly mask: Tensor | null;
  /** Sampled and not fed yet: [B]. */
  readonly tokens: Tensor;
  readonly seen: Seen | null;
}

/** A part of a state, made from the state as it then is. */
export type Change = (state: BatchState) => Partial<BatchState>;

export function stateTensors({ prefix, layers, mask, tokens, seen }: BatchState): Tensor[] {
  const caches = [...(prefix?.layers ?? []), ...layers].flatMap(({ key, value }) => [key, value]);
  const optional = [prefix?.mask, mask, ...Object.values<Tensor>({ ...seen })];
  return [...caches, tokens, ...optional.filter((tensor) => tensor !== undefined && tensor !== null)];
}

interface BatchShape {
  /** Prompts that groups share, or null when each row has its own. */
  readonly prompts: number | null;
  /** Tokens of a shared prompt. */
  readonly promptLength: number;
  readonly rows: number;
  readonly columns: number;
  /** True if the tokens that each row has seen are recorded. */
  readonly seen: boolean;
}

export function allocate(policy: Policy, shape: BatchShape): BatchState {
  const { engine, dims, dtype } = policy;
  const { prompts, promptLength, rows, columns, seen } = shape;
  const empty = (batch: number, length: number): LayerCache[] =>
    Array.from({ length: dims.layers }, () => ({
      key: engine.zeros([batch, dims.kvHeads, length, dims.headDim], dtype),
      value: engine.zeros([batch, dims.kvHeads, length, dims.headDim], dtype),
    }));
  return engine.scope(() => ({
    prefix: prompts === null ? null : { layers: empty(prompts, promptLength) },
    layers: empty(rows, columns),
    mask: null,
    tokens: engine.tensor(new Int32Array(rows), [rows]),
    seen: seen ? seenOf(policy, rows) : null,
  }));
}

/** `layers` with the caches of one of them changed. */
function changed(layers: readonly LayerCache[], index: number, by: (cache: Tensor) => Tensor): LayerCache[] {
  return layers.map((layer, i) => (i === index ? { key: by(layer.key), value: by(layer.value) } : layer));
}

/** The slots that stay in a batch. */
export interface Kept {
  /** Old slot of each new one. */
  readonly slots: readonly number[];
  /** Old index of each prompt that stays. */
  readonly prompts: readonly number[];
  /** New slots that are fillers, which nobody reads. */
  readonly fillers: ReadonlySet<number>;
}

/** Keeps some slots and prompts. */
export function* keepSlots(policy: Policy, state: BatchState, kept: Kept): Generator<Change> {
  const { engine } = policy;
  const index = (wanted: readonly number[]): Tensor =>
    engine.tensor(Int32Array.from(wanted), [wanted.length]);
  const slots = (tensor: Tensor): Tensor => engine.indexSelect(tensor, index(kept.slots));
  const prompts = (tensor: Tensor): Tensor => engine.indexSelect(tensor, index(kept.prompts));
  for (const i of state.layers.keys()) yield ({ layers }) => ({ layers: changed(layers, i, slots) });
  for (const i of state.prefix?.layers.keys() ?? []) {
    yield ({ prefix }) => ({ prefix: prefix && { ...prefix, layers: changed(prefix.layers, i, prompts) } });
  }
  yield ({ prefix, mask, tokens, seen }) => ({
    prefix: prefix && { ...prefix, mask: prefix.mask && prompts(prefix.mask) },
    mask: mask && slots(mask),
    tokens: slots(tokens),
    seen: seen && seenBy(policy, seen, index(kept.slots)),
  });
}

/** Drops the first columns and gives the held ones that follow a capacity of `columns`. */
export function* moveColumns(
  { engine }: Policy,
  state: BatchState,
  to: { readonly drop: number; readonly held: number; readonly columns: number },
): Generator<Change> {
  const move = (tensor: Tensor, axis: number): Tensor => {
    const shape = tensor.shape.map((size, i) => (i === axis ? to.columns : size));
    const into = engine.zeros(shape, tensor.dtype);
    engine.write(into, axis, 0, engine.narrow(tensor, axis, to.drop, to.held));
    return into;
  };
  for (const i of state.layers.keys()) {
    yield ({ layers }) => ({ layers: changed(layers, i, (cache) => move(cache, 2)) });
  }
  yield ({ mask }) => ({ mask: mask && move(mask, 3) });
}

/** Positions of prompts that join the batch. */
interface PrefillTarget {
  /** The prompts' places in the batch: [n]. */
  readonly into: readonly number[];
  /** True if the batch begins with them: they are then written side by side and padded at the end. */
  readonly fresh: boolean;
  /** Columns of the cache that are filled. */
  readonly used: number;
}

/** Writes the keys and values of some of the joining prompts. */
export function writePrefill(
  { engine }: Policy,
  { prefix, layers: rowLayers }: BatchState,
  { first, lengths, layers }: PrefillChunk,
  { into, fresh, used }: PrefillTarget,
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
      const target = (prefix?.layers ?? rowLayers)[i]!;
      put(target.key, key);
      put(target.value, value);
    });
  }
}

/** Sets rows `rows` [n] of an additive mask [B, 1, 1, S]: row i does not see the columns from … to of `hidden(i)`. */
export function maskColumns(
  { engine, dtype }: Policy,
  mask: Tensor,
  rows: readonly number[],
  hidden: (i: number) => readonly [from: number, to: number],
): void {
  const columns = mask.shape[3]!;
  const values = new Float32Array(rows.length * columns);
  for (let i = 0; i < rows.length; i++) {
    const [from, to] = hidden(i);
    values.fill(Number.NEGATIVE_INFINITY, i * columns + from, i * columns + to);
  }
  engine.scope(() => {
    const source = engine.cast(engine.tensor(values, [rows.length, 1, 1, columns]), dtype);
    engine.indexCopyInto(mask, 0, engine.tensor(Int32Array.from(rows), [rows.length]), source);
  });
}

/**
 * Keys and values of the prompts of one turn, for those of the next, which continue them (`EncodedPrompt.stem`). The
 * owner frees those that nothing continues any more (`retain`).
 */
export class KeptCaches {
  readonly #policy: Policy;
  readonly #caches = new Map<EncodedPrompt, readonly LayerCache[]>();
  /** Tokens that were encoded, and tokens whose cache was read instead. */
  readonly tokens = { encoded: 0, reused: 0 };

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  /** Returns the cache of a prompt [1, Hkv, S, d] by layer; undefined for one that was not kept. */
  of(prompt: EncodedPrompt | undefined): readonly LayerCache[] | undefined {
    return prompt === undefined ? undefined : this.#caches.get(prompt);
  }

  /** Counts the tokens of a prompt; `cached`: all but those behind its stem are read. */
  count({ ids, stem }: EncodedPrompt, cached: boolean): void {
    const reused = cached ? stem!.ids.length : 0;
    this.tokens.reused += reused;
    this.tokens.encoded += ids.length - reused;
  }

  /** Makes room for the caches of prompts that are encoded next. Call outside of an engine scope. */
  reserve(prompts: readonly EncodedPrompt[]): void {
    const { engine, dims, dtype } = this.#policy;
    for (const prompt of new Set(prompts)) {
      if (this.#caches.has(prompt)) continue;
      const shape = [1, dims.kvHeads, prompt.ids.length, dims.headDim];
      this.#caches.set(
        prompt,
        Array.from({ length: dims.layers }, () => ({
          key: engine.zeros(shape, dtype),
          value: engine.zeros(shape, dtype),
        })),
      );
    }
  }

  /** Stores the caches of some of the prompts. */
  write(prompts: readonly EncodedPrompt[], { first, lengths, layers }: PrefillChunk): void {
    const { engine } = this.#policy;
    engine.scope(() => {
      for (const [i, n] of lengths.entries()) {
        for (const [layer, target] of this.#caches.get(prompts[first + i]!)!.entries()) {
          for (const part of ['key', 'value'] as const) {
            const row = engine.narrow(layers[layer]![part], 0, i, 1);
            engine.write(target[part], 2, 0, engine.narrow(row, 2, 0, n));
          }
        }
      }
    });
  }

  /** Frees the caches of all prompts but these. */
  retain(prompts: ReadonlySet<EncodedPrompt | null>): void {
    for (const [prompt, layers] of this.#caches) {
      if (prompts.has(prompt)) continue;
      this.#policy.engine.dispose(...layers.flatMap(({ key, value }) => [key, value]));
      this.#caches.delete(prompt);
    }
  }

  dispose(): void {
    this.retain(new Set());
  }
}
