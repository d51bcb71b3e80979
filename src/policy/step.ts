/**
 * The steps of generation: prefill, which encodes prompts, and decoding steps, which feed what was sampled last and sample
 * again. A decoding step knows which column it writes, or, with a static cache, the device alone does.
 */
import type { Recording, Tensor } from '../engine/engine.ts';
import { behindStem, collate, type EncodedPrompt, promptBatch } from './batch.ts';
import { type DecoderInput, decode } from './decoder.ts';
import { forward, paddingMask } from './forward.ts';
import type { BatchState, KeptCaches, LayerCache, Prefix } from './kv-cache.ts';
import type { Weights } from './layout.ts';
import type { Policy } from './policy.ts';
import { type RopeTables, ropeRowsAt } from './rope.ts';
import type { Drawn, Sampler } from './sampler.ts';

// ---- prefill ---------------------------------------------------------------------------------------

/**
 * Tokens of one pass, padding included; with merged patches of 2 × 2 its images have at most four times as many patches.
 * Of a policy of 3 billion parameters a pass of 8192 takes about 7 GB, one of 32768 more than the weights of 16 bits.
 */
const PREFILL_TOKENS = 8192;

/** Keys and values of consecutive prompts. They are freed after they were handed over. */
export interface PrefillChunk {
  /** Index of the first prompt. */
  readonly first: number;
  readonly lengths: Int32Array; // [n]
  readonly layers: readonly LayerCache[]; // [n, Hkv, T, d], T the longest, to which the others are padded on the right
}

/** Runs of consecutive prompts whose padded batches stay within `budget` tokens; a longer prompt goes alone. */
export function prefillChunks(
  lengths: readonly number[],
  budget: number,
): { first: number; count: number }[] {
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

/** Consecutive prompts that continue the same prompt, at least one token each; a prompt without a stem is alone. */
function sharedStems(prompts: readonly EncodedPrompt[], kept: KeptCaches | null): EncodedPrompt[][] {
  const out: EncodedPrompt[][] = [];
  for (const prompt of prompts) {
    const last = out.at(-1) ?? [];
    const alike = prompt.stem !== undefined && last[0]?.stem === prompt.stem;
    if (alike && kept?.of(prompt.stem) === undefined) last.push(prompt);
    else out.push([prompt]);
  }
  return out;
}

/** Encodes prompts that continue one prompt, whose pictures and cache they share. Run inside a scope. */
function encodeBehindStem(policy: Policy, prompts: readonly EncodedPrompt[]) {
  const { engine, dims } = policy;
  const stem = prompts[0]!.stem!;
  const { cache } = forward(policy, collate([stem], dims.special.pad));
  const repeated = engine.tensor(new Int32Array(prompts.length), [prompts.length]);
  const layers = cache.layers.map(({ key, value }) => ({
    key: engine.indexSelect(key, repeated),
    value: engine.indexSelect(value, repeated),
  }));
  return encodeBehind(policy, prompts, layers, cache);
}

/** Encodes prompts, each behind the kept cache of its stem. Run inside a scope. */
function encodeBehindKept(policy: Policy, prompts: readonly EncodedPrompt[], kept: KeptCaches) {
  const { engine, dims, dtype } = policy;
  const lengths = Int32Array.from(prompts, ({ stem }) => stem!.ids.length);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  const layers = Array.from({ length: dims.layers }, (_, layer) => {
    const gathered = (part: 'key' | 'value'): Tensor => {
      const into = engine.zeros([prompts.length, dims.kvHeads, longest, dims.headDim], dtype);
      for (const [b, { stem }] of prompts.entries()) {
        engine.write(engine.narrow(into, 0, b, 1), 2, 0, kept.of(stem)![layer]![part]);
      }
      return into;
    };
    return { key: gathered('key'), value: gathered('value') };
  });
  return encodeBehind(policy, prompts, layers, { layers, mask: paddingMask(engine, lengths, longest) });
}

/** Encodes the rest of prompts behind their stems: `layers` [n, Hkv, S, d], padded on the right; `prefix`: the same, perhaps shared. */
function encodeBehind(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  stems: readonly LayerCache[],
  prefix: Prefix,
) {
  const { engine, dims, dtype } = policy;
  const batch = promptBatch(prompts.map(behindStem), dims.special.pad);
  const { hidden, cache: own } = forward(policy, { ...batch, prefix });
  const lengths = Int32Array.from(prompts, ({ ids }) => ids.length);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  const joined = (stem: Tensor, rest: Tensor): Tensor => {
    const into = engine.zeros([prompts.length, dims.kvHeads, longest, dims.headDim], dtype); // [n, Hkv, S + T, d]
    for (const [b, prompt] of prompts.entries()) {
      const row = engine.narrow(into, 0, b, 1);
      const before = prompt.stem!.ids.length;
      engine.write(row, 2, 0, engine.narrow(engine.narrow(stem, 0, b, 1), 2, 0, before));
      engine.write(row, 2, before, engine.narrow(engine.narrow(rest, 0, b, 1), 2, 0, batch.lengths[b]!));
    }
    return into;
  };
  const layers = own.layers.map(({ key, value }, i) => ({
    key: joined(stems[i]!.key, key),
    value: joined(stems[i]!.value, value),
  }));
  return { hidden, layers, lengths };
}

function encodeTogether(policy: Policy, prompts: readonly EncodedPrompt[]) {
  const batch = promptBatch(prompts, policy.dims.special.pad);
  const { hidden, cache } = forward(policy, batch);
  return { hidden, layers: cache.layers, lengths: batch.lengths };
}

interface PrefillOptions {
  /** Tokens of one pass, padding included. Default: `PREFILL_TOKENS`. */
  readonly budget?: number;
  /** Caches of stems. Default: none. */
  readonly kept?: KeptCaches | null;
}

/** Runs of equal consecutive elements: each with its length. */
function runsOf<T>(items: readonly T[]): {
  readonly items: readonly T[];
  readonly lengths: readonly number[];
} {
  const starts = items.flatMap((item, i) => (i > 0 && item === items[i - 1] ? [] : [i]));
  return {
    items: starts.map((at) => items[at]!),
    lengths: starts.map((at, r) => (starts[r + 1] ?? items.length) - at),
  };
}

/**
 * Encodes prompts, hands over their caches chunk by chunk, and returns the logits of the tokens that follow: [n, V]. Consecutive
 * places of one prompt are encoded once.
 */
export function prefill(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  take: (chunk: PrefillChunk) => void,
  { budget = PREFILL_TOKENS, kept = null }: PrefillOptions = {},
): Tensor {
  const { engine } = policy;
  const { items: distinct, lengths: copies } = runsOf(prompts);
  return engine.scope(() => {
    let start = 0; // among distinct prompts
    let first = 0; // among their places
    const logits: Tensor[] = [];
    const encode = (part: readonly EncodedPrompt[], encoder: typeof encodeTogether): void => {
      const repeat = part.flatMap((_, i) => new Array<number>(copies[start + i]!).fill(i));
      start += part.length;
      logits.push(
        engine.scope(() => {
          const { hidden, layers, lengths } = encoder(policy, part);
          const index =
            repeat.length > part.length && engine.tensor(Int32Array.from(repeat), [repeat.length]);
          const placed = (tensor: Tensor): Tensor => (index ? engine.indexSelect(tensor, index) : tensor);
          take({
            first,
            lengths: Int32Array.from(repeat, (i) => lengths[i]!),
            layers: layers.map(({ key, value }) => ({ key: placed(key), value: placed(value) })),
          });
          return placed(policy.logits(hidden)); // [n, V]
        }),
      );
      first += repeat.length;
    };
    const chunked = (part: readonly EncodedPrompt[], encoder: typeof encodeTogether): void => {
      const lengths = part.map(({ ids }) => ids.length);
      for (const { first, count } of prefillChunks(lengths, budget))
        encode(part.slice(first, first + count), encoder);
    };
    const behindKept: typeof encodeTogether = (_, part) => encodeBehindKept(policy, part, kept!);
    let alone: EncodedPrompt[] = [];
    let continuing: EncodedPrompt[] = [];
    const flush = (): void => {
      chunked(alone, encodeTogether);
      chunked(continuing, behindKept);
      [alone, continuing] = [[], []];
    };
    for (const shared of sharedStems(distinct, kept)) {
      const [prompt] = shared as [EncodedPrompt];
      const cached = kept?.of(prompt.stem) !== undefined;
      if (shared.length > 1 || (cached ? alone : continuing).length > 0) flush();
      kept?.count(prompt, cached);
      if (shared.length > 1) encode(shared, encodeBehindStem);
      else (cached ? continuing : alone).push(prompt);
    }
    flush();
    return logits.length === 1 ? logits[0]! : engine.concat(logits, 0);
  });
}

// ---- decoding --------------------------------------------------------------------------------------

/** Tensors that decoding steps work on: B slots, C columns. */
export interface StepInput {
  /** The policy's, perhaps arranged for steps. */
  readonly weights: Weights;
  readonly state: BatchState;
  readonly sampler: Sampler;
  /** True if hidden states of the fed tokens are requested. */
  readonly hidden: boolean;
  readonly rope: RopeTables;
  /** Columns of the cache that are filled. */
  readonly used: number;
  /** Row of the rotary tables for a token of a slot, minus its column: [B]. */
  readonly shift: Int32Array;
}

/** Results of K steps for B slots, on the host. */
export interface StepResults {
  readonly steps: number;
  readonly ids: Int32Array; // [K · B]; empty when only states were wanted
  readonly logProbs: Float32Array; // [K · B]
  /** States of the tokens that were fed, when asked for: [K · B · D]. */
  readonly hidden: Float32Array | null;
}

/**
 * Takes `steps` steps with uniforms [steps, B], each of which attends to one column more than the one before. Unless
 * `drawing`, one step is taken, for the states alone. Returns the tokens sampled last [B]; what is made on the way is left
 * to the caller's scope.
 */
export function runSteps(
  policy: Policy,
  input: StepInput,
  uniforms: Tensor,
  steps: number,
  drawing: boolean,
): { tokens: Tensor; results: StepResults } {
  const { engine } = policy;
  const { state, sampler, hidden: wanted } = input;
  const batch = input.shift.length;
  const drawn: Drawn[] = [];
  const states: Tensor[] = [];
  let last = state.tokens;
  for (let k = 0; k < steps; k++) {
    const step = engine.scope(() => {
      const hidden = feed(policy, input, last, input.used + k); // [B, D]
      if (!drawing) return { hidden };
      const draw = engine.reshape(engine.narrow(uniforms, 0, k, 1), [batch]);
      const logits = engine.linear(hidden, input.weights.head); // [B, V]
      const next = sampler.draw(logits, draw, state.seen);
      return wanted ? { hidden, next } : { next };
    });
    if (step.hidden !== undefined) states.push(step.hidden);
    if (step.next === undefined) break;
    drawn.push(step.next);
    last = step.next.ids;
  }
  const joined = (tensors: readonly Tensor[]): Tensor =>
    tensors.length === 1 ? tensors[0]! : engine.concat(tensors, 0);
  const results: StepResults = {
    steps: drawing ? steps : 1,
    ids: drawing ? engine.ints(joined(drawn.map(({ ids }) => ids))) : new Int32Array(0),
    logProbs: drawing ? engine.floats(joined(drawn.map(({ logProbs }) => logProbs))) : new Float32Array(0),
    hidden: wanted ? engine.floats(joined(states)) : null,
  };
  return { tokens: last, results };
}

/** Feeds one token per slot, at the column behind `used`: [B] → hidden [B, D]. */
function feed(policy: Policy, input: StepInput, tokens: Tensor, used: number): Tensor {
  const { engine } = policy;
  const { weights, rope, shift } = input;
  const { layers, mask } = input.state;
  const places = ropeRowsAt(rope, shift, used);
  const index = places.every((place) => place === places[0]) ? null : engine.tensor(places, [places.length]);
  return decodeTokens(policy, weights, input, tokens, {
    rows: (table) =>
      index === null ? engine.narrow(table, 0, places[0]!, 1) : engine.indexSelect(table, index),
    kvCache: { layers, used },
    useCache: false,
    mask: mask === null ? undefined : engine.narrow(mask, 3, 0, used + 1),
  });
}

/** Decodes one token per slot: [B] → hidden [B, D]. `rows`: rows of a rotary table for the slots, [1 or B, d]. */
function decodeTokens(
  { engine, dims }: Policy,
  weights: Weights,
  { state, rope, shift }: StepInput,
  tokens: Tensor,
  {
    rows,
    ...step
  }: Pick<DecoderInput, 'kvCache' | 'useCache' | 'mask'> & { rows: (table: Tensor) => Tensor },
): Tensor {
  const turn = (table: Tensor): Tensor => engine.reshape(rows(table), [-1, 1, dims.headDim]);
  return decode(engine, weights, dims, {
    x: engine.indexSelect(weights.embed, tokens), // [B, D]
    ...{ batch: shift.length, length: 1, cos: turn(rope.cos), sin: turn(rope.sin) },
    prefix: state.prefix ?? undefined,
    ...step,
  }).hidden;
}

/** Floats of the widest vectors of a processor: columns are padded to whole ones. */
const LANES = 16;

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
  return engine.noGrad(() => {
    const layers = weights.layers.map((layer) => ({
      ...layer,
      qkv: arranged(layer.qkv),
      o: arranged(layer.o),
      gateUp: arranged(layer.gateUp),
      down: arranged(layer.down),
    }));
    return { weights: { ...weights, layers, head: arranged(weights.head) }, tensors };
  });
}

/**
 * Decoding with a static cache, masked over all of its columns: where a step writes, what it hides and which uniforms it takes are
 * looked up by counters on the device, so that a device can record the step once (a CUDA graph) and replay it. Where it
 * cannot, the same step is issued call by call.
 */
export class StaticSteps {
  readonly #policy: Policy;
  readonly #input: StepInput;
  readonly #counters: {
    readonly column: Tensor; // [1] next column of the cache
    readonly places: Tensor; // [B] rows of the rotary tables
    readonly step: Tensor; // [1] step of the run
    readonly one: Tensor; // [1]
    readonly ones: Tensor; // [B]
  };
  readonly #buffers: {
    /** Additive, all that is not filled or not the row's own hidden: [B, 1, 1, C]. */
    readonly visible: Tensor;
    readonly shown: Tensor; // [B, 1, 1, 1] zeros: what a new column is shown with
    readonly uniforms: Tensor; // [K, B]
    readonly ids: Tensor; // [K, B]
    readonly logProbs: Tensor; // [K, B]
  };
  readonly #hidden: Tensor | null; // [K, B, D]
  /** Undefined before `record`, null where the device cannot. */
  #recording: Recording | null | undefined;

  /** @param most steps of one run, K. */
  constructor(policy: Policy, input: StepInput, most: number) {
    const { engine, dims, dtype } = policy;
    const { used } = input;
    const { layers, mask } = input.state;
    const batch = input.shift.length;
    const columns = layers[0]!.key.shape[2]!;
    this.#policy = policy;
    this.#input = input;
    const built = engine.scope(() => {
      const visible = engine.zeros([batch, 1, 1, columns], dtype);
      if (mask !== null) engine.write(visible, 3, 0, mask);
      const rest = new Float32Array(batch * (columns - used)).fill(Number.NEGATIVE_INFINITY);
      engine.write(visible, 3, used, engine.tensor(rest, [batch, 1, 1, columns - used]));
      return {
        counters: {
          column: engine.tensor(Int32Array.of(used), [1]),
          places: engine.tensor(ropeRowsAt(input.rope, input.shift, used), [batch]),
          step: engine.zeros([1], 'int64'),
          one: engine.tensor(Int32Array.of(1), [1]),
          ones: engine.tensor(new Int32Array(batch).fill(1), [batch]),
        },
        buffers: {
          visible,
          shown: engine.zeros([batch, 1, 1, 1], dtype),
          uniforms: engine.zeros([most, batch]),
          ids: engine.zeros([most, batch], 'int64'),
          logProbs: engine.zeros([most, batch]),
        },
        hidden: input.hidden ? engine.zeros([most, batch, dims.width], dtype) : null,
      };
    });
    this.#counters = built.counters;
    this.#buffers = built.buffers;
    this.#hidden = built.hidden;
  }

  /** All that it reads and writes outlives it; nothing is copied to or from the host. */
  #body(): void {
    const { engine, dims, weights } = this.#policy;
    const { state, sampler, shift } = this.#input;
    const { column, places, step, one, ones } = this.#counters;
    const { visible, shown, uniforms, ids, logProbs } = this.#buffers;
    const { tokens, layers } = state;
    const batch = shift.length;
    engine.scope(() => {
      engine.indexCopyInto(visible, 3, column, shown);
      const hidden = decodeTokens(this.#policy, weights, this.#input, tokens, {
        rows: (table) => engine.indexSelect(table, places),
        kvCache: { layers, used: 0, at: column },
        useCache: false,
        mask: visible,
      });
      const now = engine.reshape(engine.indexSelect(uniforms, step), [batch]);
      const drawn = sampler.draw(this.#policy.logits(hidden), now, state.seen);
      engine.indexCopyInto(ids, 0, step, engine.reshape(drawn.ids, [1, batch]));
      engine.indexCopyInto(logProbs, 0, step, engine.reshape(drawn.logProbs, [1, batch]));
      if (this.#hidden !== null) {
        engine.indexCopyInto(this.#hidden, 0, step, engine.reshape(hidden, [1, batch, dims.width]));
      }
      engine.write(tokens, 0, 0, drawn.ids);
      engine.addInto(column, 0, 0, one);
      engine.addInto(places, 0, 0, ones);
      engine.addInto(step, 0, 0, one);
    });
  }

  /** True if the device records the step; read once, before the first `run`. */
  record(): boolean {
    const { engine } = this.#policy;
    if (this.#recording === undefined) {
      const saved = this.#changing().map((tensor) => engine.scope(() => engine.add(tensor, 0)));
      this.#recording = engine.record(() => this.#body());
      // Recording took one step, which is taken back: that way every run starts alike.
      for (const [i, tensor] of this.#changing().entries()) engine.write(tensor, 0, 0, saved[i]!);
      engine.dispose(...saved);
    }
    return this.#recording !== null;
  }

  /** State that a step changes and later steps read, except the cache, whose columns are rewritten. */
  #changing(): Tensor[] {
    const { tokens, seen } = this.#input.state;
    const { column, places } = this.#counters;
    return [tokens, column, places, this.#buffers.visible, ...(seen === null ? [] : [seen.flags])];
  }

  /** Takes `steps` steps with uniforms [steps, B], and copies what they gave to the host. */
  run(uniforms: Tensor, steps: number): StepResults {
    const { engine } = this.#policy;
    const { ids, logProbs } = this.#buffers;
    engine.write(this.#buffers.uniforms, 0, 0, uniforms);
    engine.write(this.#counters.step, 0, 0, engine.zeros([1], 'int64'));
    for (let k = 0; k < steps; k++) {
      if (this.#recording) this.#recording.replay();
      else this.#body();
    }
    const taken = (buffer: Tensor): Tensor => engine.narrow(buffer, 0, 0, steps);
    return {
      steps,
      ids: engine.ints(taken(ids)),
      logProbs: engine.floats(taken(logProbs)),
      hidden: this.#hidden === null ? null : engine.floats(taken(this.#hidden)),
    };
  }

  dispose(): void {
    this.#recording?.dispose();
    const all = [...Object.values(this.#counters), ...Object.values(this.#buffers)];
    this.#policy.engine.dispose(...all, ...(this.#hidden === null ? [] : [this.#hidden]));
  }
}
