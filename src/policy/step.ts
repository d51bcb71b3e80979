/** Prompts run through the policy in pieces, so that many or long ones do not need the memory of one pass. */
import type { Recording, Tensor } from '../engine/engine.ts';
import { collate, type EncodedPrompt } from './batch.ts';
import { decode } from './decoder.ts';
import { forward } from './forward.ts';
import type { BatchMemory, LayerCache, Prefix } from './kv-cache.ts';
import type { Weights } from './layout.ts';
import type { Policy } from './policy.ts';
import { type RopeTables, ropeRowsAt } from './rope.ts';
import type { Drawn, Sampler, Seen } from './sampler.ts';

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

/** Decoding steps over what is filled of the cache: each attends to one column more than the one before. */
export interface NarrowInput {
  /** The policy's, arranged for steps. */
  readonly weights: Weights;
  readonly memory: BatchMemory;
  readonly sampler: Sampler;
  readonly hidden: boolean;
  /** Whether any row draws: otherwise one step is taken, for the states alone. */
  readonly drawing: boolean;
  readonly rope: RopeTables;
  /** Columns of the cache that are filled. */
  readonly used: number;
  /** Row of the rotary tables for a token of a slot, minus its column: [B]. */
  readonly shift: Int32Array;
}

/**
 * Feeds what was sampled last and samples again, `steps` times, with uniforms [steps, B]. Returns the tokens sampled last
 * [B], and what the steps gave, on the host. What it makes on the way is left to the caller's scope.
 */
export function runNarrow(
  policy: Policy,
  input: NarrowInput,
  uniforms: Tensor,
  steps: number,
): { tokens: Tensor; block: Block } {
  const { engine } = policy;
  const { memory, sampler, hidden: wanted, drawing } = input;
  const batch = input.shift.length;
  const drawn: Drawn[] = [];
  const states: Tensor[] = [];
  let last = memory.tokens;
  for (let k = 0; k < steps; k++) {
    const step = engine.scope(() => {
      const hidden = feed(policy, input, last, input.used + k); // [B, D]
      if (!drawing) return { hidden };
      const one = engine.reshape(engine.narrow(uniforms, 0, k, 1), [batch]);
      const logits = engine.linear(hidden, input.weights.head); // [B, V]
      const next = sampler.draw(logits, one, memory.seen);
      return wanted ? { hidden, next } : { next };
    });
    if (step.hidden !== undefined) states.push(step.hidden);
    if (step.next === undefined) break;
    drawn.push(step.next);
    last = step.next.ids;
  }
  const joined = (tensors: readonly Tensor[]): Tensor =>
    tensors.length === 1 ? tensors[0]! : engine.concat(tensors, 0);
  const block: Block = {
    steps: drawing ? steps : 1,
    ids: drawing ? engine.ints(joined(drawn.map(({ ids }) => ids))) : new Int32Array(0),
    logProbs: drawing ? engine.floats(joined(drawn.map(({ logProbs }) => logProbs))) : new Float32Array(0),
    hidden: wanted ? engine.floats(joined(states)) : null,
  };
  return { tokens: last, block };
}

/**
 * The weights of the decoder, those that a step multiplies column by column in memory: a processor then reads them as they
 * are, where a matrix library copies them at every step (a quarter of its time at the sizes of a nano policy). What is
 * returned is the caller's to free, by `tensors`.
 */
export function arrangeForSteps({ engine, weights }: Policy): { weights: Weights; tensors: Tensor[] } {
  const tensors: Tensor[] = [];
  const arranged = (weight: Tensor): Tensor => {
    const [outer, inner] = weight.shape as [number, number]; // [O, I]
    const room = engine.zeros([inner, Math.ceil(outer / LANES) * LANES], weight.dtype);
    const turned = engine.scope(() => {
      engine.write(room, 1, 0, engine.permute(weight, [1, 0]));
      return engine.permute(engine.narrow(room, 1, 0, outer), [1, 0]); // [O, I]
    });
    tensors.push(room, turned);
    return turned;
  };
  const layers = engine.noGrad(() =>
    weights.layers.map((layer) => ({
      ...layer,
      qkv: arranged(layer.qkv),
      o: arranged(layer.o),
      gateUp: arranged(layer.gateUp),
      down: arranged(layer.down),
    })),
  );
  return { weights: { ...weights, layers, head: engine.noGrad(() => arranged(weights.head)) }, tensors };
}

/** Floats of the widest vectors of a processor: columns are padded to whole ones. */
const LANES = 16;

/** Feeds one token per slot, at the column behind `used`: [B] → hidden [B, D]. */
function feed(policy: Policy, input: NarrowInput, tokens: Tensor, used: number): Tensor {
  const { engine, dims } = policy;
  const { weights } = input;
  const { prefix, own, mask } = input.memory;
  const done = decode(engine, weights, dims, {
    x: engine.indexSelect(weights.embed, tokens), // [B, D]
    batch: input.shift.length,
    length: 1,
    ...turn(policy, input, used),
    own: { layers: own, used },
    cache: false,
    ...(prefix === null ? {} : { prefix }),
    ...(mask === null ? {} : { mask: engine.narrow(mask, 3, 0, used + 1) }),
  });
  return done.hidden;
}

/** Rotary tables of the tokens that stand at a column: [1 or B, 1, d]. */
function turn(
  { engine, dims }: Policy,
  { rope, shift }: NarrowInput,
  column: number,
): { cos: Tensor; sin: Tensor } {
  const places = ropeRowsAt(rope, shift, column);
  const index = places.every((place) => place === places[0]) ? null : engine.tensor(places, [places.length]);
  const at = (table: Tensor): Tensor => {
    const rows = index === null ? engine.narrow(table, 0, places[0]!, 1) : engine.indexSelect(table, index);
    return engine.reshape(rows, [-1, 1, dims.headDim]);
  };
  return { cos: at(rope.cos), sin: at(rope.sin) };
}

/**
 * A decoding step of one shape: where it writes, what it hides and which uniforms it takes are looked up by counters on
 * the device, so that a device can record the step once and repeat it. Where it cannot, the same step is issued call by
 * call.
 */
export interface FixedInput {
  readonly prefix: Prefix | null;
  readonly own: readonly LayerCache[]; // [B, Hkv, C, d]
  readonly mask: Tensor | null; // [B, 1, 1, C]
  readonly tokens: Tensor; // [B], read and written
  readonly seen: Seen | null;
  readonly sampler: Sampler;
  readonly hidden: boolean;
  readonly rope: RopeTables;
  /** Columns of `own` that are filled. */
  readonly used: number;
  /** Rows of the rotary tables for the next tokens: [B]. */
  readonly places: Int32Array;
  /** Most steps of one run. */
  readonly block: number;
}

const HIDE = Number.NEGATIVE_INFINITY;

interface Counters {
  readonly column: Tensor; // [1] next column of the cache
  readonly places: Tensor; // [B] rows of the rotary tables
  readonly step: Tensor; // [1] step of the run
  readonly one: Tensor; // [1]
  readonly ones: Tensor; // [B]
}

interface Buffers {
  /** Additive, all that is not filled or not the row's own hidden: [B, 1, 1, C]. */
  readonly visible: Tensor;
  readonly shown: Tensor; // [B, 1, 1, 1] zeros: what a new column is shown with
  readonly uniforms: Tensor; // [K, B]
  readonly ids: Tensor; // [K, B]
  readonly logProbs: Tensor; // [K, B]
  readonly hidden: Tensor | null; // [K, B, D]
}

export class FixedStep {
  readonly #policy: Policy;
  readonly #input: FixedInput;
  readonly #counters: Counters;
  readonly #buffers: Buffers;
  /** Undefined before `record`, null where the device cannot. */
  #recording: Recording | null | undefined;

  constructor(policy: Policy, input: FixedInput) {
    const { engine, dims, dtype } = policy;
    const { tokens, own, mask, used, block } = input;
    const batch = tokens.shape[0]!;
    const columns = own[0]!.key.shape[2]!;
    this.#policy = policy;
    this.#input = input;
    const built = engine.scope(() => {
      const visible = engine.zeros([batch, 1, 1, columns], dtype);
      if (mask !== null) engine.write(visible, 3, 0, mask);
      const rest = new Float32Array(batch * (columns - used)).fill(HIDE);
      engine.write(visible, 3, used, engine.tensor(rest, [batch, 1, 1, columns - used]));
      return {
        counters: {
          column: engine.tensor(Int32Array.of(used), [1]),
          places: engine.tensor(input.places, [batch]),
          step: engine.zeros([1], 'int64'),
          one: engine.tensor(Int32Array.of(1), [1]),
          ones: engine.tensor(new Int32Array(batch).fill(1), [batch]),
        },
        buffers: {
          visible,
          shown: engine.zeros([batch, 1, 1, 1], dtype),
          uniforms: engine.zeros([block, batch]),
          ids: engine.zeros([block, batch], 'int64'),
          logProbs: engine.zeros([block, batch]),
          hidden: input.hidden ? engine.zeros([block, batch, dims.width], dtype) : null,
        },
      };
    });
    this.#counters = built.counters;
    this.#buffers = built.buffers;
  }

  /** All that it reads and writes outlives it; nothing is copied to or from the host. */
  #body(): void {
    const { engine, dims, weights } = this.#policy;
    const { tokens, own, prefix, seen, sampler, rope } = this.#input;
    const { column, places, step, one, ones } = this.#counters;
    const { visible, shown, uniforms, ids, logProbs, hidden } = this.#buffers;
    const batch = tokens.shape[0]!;
    engine.scope(() => {
      engine.indexCopyInto(visible, 3, column, shown);
      const turn = (table: Tensor): Tensor =>
        engine.reshape(engine.indexSelect(table, places), [batch, 1, dims.headDim]);
      const state = decode(engine, weights, dims, {
        x: engine.indexSelect(weights.embed, tokens), // [B, D]
        batch,
        length: 1,
        cos: turn(rope.cos),
        sin: turn(rope.sin),
        own: { layers: own, used: 0, at: column },
        mask: visible,
        ...(prefix === null ? {} : { prefix }),
      }).hidden; // [B, D]
      const now = engine.reshape(engine.indexSelect(uniforms, step), [batch]);
      const drawn = sampler.draw(this.#policy.logits(state), now, seen);
      engine.indexCopyInto(ids, 0, step, engine.reshape(drawn.ids, [1, batch]));
      engine.indexCopyInto(logProbs, 0, step, engine.reshape(drawn.logProbs, [1, batch]));
      if (hidden !== null)
        engine.indexCopyInto(hidden, 0, step, engine.reshape(state, [1, batch, dims.width]));
      engine.write(tokens, 0, 0, drawn.ids);
      engine.addInto(column, 0, 0, one);
      engine.addInto(places, 0, 0, ones);
      engine.addInto(step, 0, 0, one);
    });
  }

  /** Whether the device records the step; looked up once, before the first `run`. */
  record(): boolean {
    const { engine } = this.#policy;
    if (this.#recording === undefined) {
      const held = this.#state().map((tensor) => engine.scope(() => engine.add(tensor, 0)));
      this.#recording = engine.record(() => this.#body());
      // Recording took one step, which is taken back: that way every run starts alike.
      for (const [i, tensor] of this.#state().entries()) engine.write(tensor, 0, 0, held[i]!);
      engine.dispose(...held);
    }
    return this.#recording !== null;
  }

  /** What a step changes and later steps read, but for the cache, whose entries are then written again. */
  #state(): Tensor[] {
    const { column, places } = this.#counters;
    const { tokens, seen } = this.#input;
    return [tokens, column, places, this.#buffers.visible, ...(seen === null ? [] : [seen.flags])];
  }

  /** Takes `steps` steps with uniforms [steps, B], and copies what they gave to the host. */
  run(uniforms: Tensor, steps: number): Block {
    const { engine } = this.#policy;
    const buffers = this.#buffers;
    engine.write(buffers.uniforms, 0, 0, uniforms);
    engine.write(this.#counters.step, 0, 0, engine.zeros([1], 'int64'));
    for (let k = 0; k < steps; k++) {
      if (this.#recording) this.#recording.replay();
      else this.#body();
    }
    const taken = (buffer: Tensor): Tensor => engine.narrow(buffer, 0, 0, steps);
    return {
      steps,
      ids: engine.ints(taken(buffers.ids)),
      logProbs: engine.floats(taken(buffers.logProbs)),
      hidden: buffers.hidden === null ? null : engine.floats(taken(buffers.hidden)),
    };
  }

  dispose(): void {
    const { engine } = this.#policy;
    this.#recording?.dispose();
    const { hidden, ...rest } = this.#buffers;
    engine.dispose(
      ...Object.values(this.#counters),
      ...Object.values(rest),
      ...(hidden === null ? [] : [hidden]),
    );
  }
}

/** Several decoding steps between two looks at what was sampled. */
/** What a block of K steps gave, for B slots. */
export interface Block {
  readonly steps: number;
  readonly ids: Int32Array; // [K · B]; empty when only states were wanted
  readonly logProbs: Float32Array; // [K · B]
  /** States of the tokens that were fed, when asked for: [K · B · D]. */
  readonly hidden: Float32Array | null;
}
