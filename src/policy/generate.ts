/**
 * Batched sampling. Prompts are encoded once and shared by their samples; keys and values are written into
 * preallocated caches; finished rows leave the batch from time to time. Each row draws from its own random stream,
 * so what it says does not depend on the rows beside it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Tensor } from '../engine/engine.ts';
import { EngineError } from '../errors.ts';
import { Random } from '../random.ts';
import { collate, type EncodedPrompt } from './batch.ts';
import { decode, type LayerCache, type Prefix } from './decoder.ts';
import { forward } from './forward.ts';
import type { Policy } from './policy.ts';
import { rotaryTables } from './positions.ts';

export interface GenerateOptions {
  /** Responses per prompt, G; 1 when absent. */
  readonly samples?: number;
  /** 0 is greedy; 1 when absent. */
  readonly temperature?: number;
  /** In (0, 1]; 1 when absent. */
  readonly topP?: number;
  /** Longest response, its end token included. */
  readonly maxTokens: number;
  readonly seed: number;
  /** Name of the random streams: uses with different names draw independently. 'sample' when absent. */
  readonly stream?: string;
  /** Key of each prompt's random streams; its index when absent. */
  readonly examples?: readonly number[];
  /** Keep the hidden state of every response token; the end token is then fed once more. */
  readonly hidden?: boolean;
  /** Most rows decoded together; 256 when absent. */
  readonly maxRows?: number;
  /** Checked every few steps; aborting rejects with the signal's reason and frees everything. */
  readonly signal?: AbortSignal;
  /** Told of every sampled token, the end token too, a row's in order; perhaps several at a time. */
  readonly onToken?: (sampled: {
    readonly prompt: number;
    readonly sample: number;
    readonly id: number;
  }) => void;
}

/** One sampled response. */
export interface Sampled {
  /** Index of its prompt, and of the sample within the prompt's group. */
  readonly prompt: number;
  readonly sample: number;
  /** Sampled tokens, the end token included when there is one: [T]. */
  readonly ids: Int32Array;
  /** Log-probabilities under the tempered, masked distribution (temperature 0 reports those of 1): [T]. */
  readonly logProbs: Float32Array;
  readonly text: string;
  /** False when it was cut off at `maxTokens`. */
  readonly finished: boolean;
  /** States after the final norm at the tokens' own positions: [T · D]; empty unless asked for. */
  readonly hidden: Float32Array;
}

const YIELD_EVERY = 4;
const COMPACT_EVERY = 8;
/** Compact only when at least this share of the rows goes. */
const COMPACT_SHARE = 0.2;

interface Row {
  readonly prompt: number;
  readonly sample: number;
  readonly random: Random;
  readonly ids: number[];
  readonly logProbs: number[];
  readonly hidden: Float32Array;
  ended: boolean;
}

/** The batch being decoded. Slot b holds a row, or null once that row is complete. */
interface State {
  slots: (Row | null)[];
  prompts: number;
  prefix: Prefix | null; // P prompts, when groups share them
  own: LayerCache[]; // [B, Hkv, S, d]; starts with the prompt when groups have one row
  padding: Tensor | null; // [B, 1, 1, S] over the own cache, when it starts with prompts of unequal length
  used: number;
  cos: Tensor; // [B or 1, steps, d]
  sin: Tensor;
}

function tensorsOf(state: State): Tensor[] {
  const shared = state.prefix === null ? [] : state.prefix.layers.flatMap(({ key, value }) => [key, value]);
  const own = state.own.flatMap(({ key, value }) => [key, value]);
  const masks = [state.prefix?.mask, state.padding].filter((mask) => mask !== undefined && mask !== null);
  return [...shared, ...own, ...masks, state.cos, state.sin];
}

/** Encodes the prompts, lays out the caches and returns the logits of the first tokens, one row per slot. */
function start(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  rows: readonly Row[],
  steps: number,
): { state: State; logits: Tensor } {
  const { engine, dims } = policy;
  const group = rows.length / prompts.length;
  return engine.scope(() => {
    const batch = collate(prompts, dims.special.pad);
    const last = batch.lengths.map((length, b) => b * batch.length + length - 1);
    const encoded = forward(policy, { ...batch, rows: last });
    const capacity = group === 1 ? batch.length + steps : steps;
    const empty = (): Tensor => engine.zeros([rows.length, dims.kvHeads, capacity, dims.headDim]);
    const own = encoded.cache.layers.map(() => ({ key: empty(), value: empty() }));
    let prefix: Prefix | null = null;
    let padding: Tensor | null = null;
    if (group === 1) {
      for (const [i, { key, value }] of encoded.cache.layers.entries()) {
        engine.write(own[i]!.key, 2, 0, key);
        engine.write(own[i]!.value, 2, 0, value);
      }
      if (encoded.cache.mask !== undefined) {
        padding = engine.zeros([rows.length, 1, 1, capacity]);
        engine.write(padding, 3, 0, encoded.cache.mask);
      }
    } else {
      // Contiguous copies: every step reads them.
      const copy = (x: Tensor): Tensor => {
        const into = engine.zeros(x.shape);
        engine.write(into, 0, 0, x);
        return into;
      };
      prefix = {
        ...encoded.cache,
        layers: encoded.cache.layers.map(({ key, value }) => ({ key: copy(key), value: copy(value) })),
      };
    }
    const nexts = prompts.flatMap(({ next }) => Array.from({ length: group }, () => next));
    const kept = nexts.every((next) => next === nexts[0]) ? nexts.slice(0, 1) : nexts;
    const positions = Int32Array.from({ length: 3 * kept.length * steps }, (_, i) => {
      const place = i % (kept.length * steps);
      return kept[Math.floor(place / steps)]! + (place % steps);
    });
    const { cos, sin } = rotaryTables(dims, positions);
    const shape = [kept.length, steps, dims.headDim];
    const state: State = {
      slots: [...rows],
      prompts: prompts.length,
      prefix,
      own,
      padding,
      used: group === 1 ? batch.length : 0,
      cos: engine.tensor(cos, shape),
      sin: engine.tensor(sin, shape),
    };
    const repeat = Int32Array.from(rows, (_, b) => Math.floor(b / group));
    const logits = engine.rows(policy.logits(encoded.hidden), engine.tensor(repeat, [rows.length])); // [B, V]
    return { state, logits };
  });
}

/** Slots to keep so that finished rows go and groups stay of equal size; null when too little would be won. */
function keptSlots(state: State): { slots: number[]; prompts: number[]; dead: Set<number> } | null {
  const group = state.slots.length / state.prompts;
  const alive: number[][] = [];
  for (let p = 0; p < state.prompts; p++) {
    const own: number[] = [];
    for (let g = 0; g < group; g++) if (state.slots[p * group + g] !== null) own.push(p * group + g);
    alive.push(own);
  }
  const width = alive.reduce((most, own) => Math.max(most, own.length), 0);
  const prompts = alive.flatMap((own, p) => (own.length > 0 ? [p] : []));
  if (width * prompts.length > state.slots.length * (1 - COMPACT_SHARE)) return null;
  const slots: number[] = [];
  const dead = new Set<number>();
  for (const p of prompts) {
    const own = alive[p]!;
    for (let g = 0; g < width; g++) {
      if (g >= own.length) dead.add(slots.length); // a filler that nobody reads
      slots.push(own[Math.min(g, own.length - 1)]!);
    }
  }
  return { slots, prompts, dead };
}

function compact(policy: Policy, state: State): State {
  const kept = keptSlots(state);
  if (kept === null) return state;
  const { engine } = policy;
  const next = engine.scope(() => {
    const slots = engine.tensor(Int32Array.from(kept.slots), [kept.slots.length]);
    const prompts = engine.tensor(Int32Array.from(kept.prompts), [kept.prompts.length]);
    const pick = (layers: readonly LayerCache[], index: Tensor): LayerCache[] =>
      layers.map(({ key, value }) => ({ key: engine.rows(key, index), value: engine.rows(value, index) }));
    // What is not per row is copied all the same, so that the old state can be freed as a whole.
    const tables = state.cos.shape[0] === 1 ? engine.tensor(Int32Array.of(0), [1]) : slots;
    const mask = state.prefix?.mask;
    return {
      slots: kept.slots.map((slot, i) => (kept.dead.has(i) ? null : state.slots[slot]!)),
      prompts: kept.prompts.length,
      prefix:
        state.prefix === null
          ? null
          : {
              layers: pick(state.prefix.layers, prompts),
              ...(mask === undefined ? {} : { mask: engine.rows(mask, prompts) }),
            },
      own: pick(state.own, slots),
      padding: state.padding === null ? null : engine.rows(state.padding, slots),
      used: state.used,
      cos: engine.rows(state.cos, tables),
      sin: engine.rows(state.sin, tables),
    };
  });
  engine.dispose(...tensorsOf(state));
  return next;
}

/** Feeds one token per slot: [B] → hidden [B, D]. */
function step(policy: Policy, state: State, tokens: Int32Array, index: number): Tensor {
  const { engine, dims, weights } = policy;
  const batch = tokens.length;
  const done = decode(engine, weights, dims, {
    x: engine.rows(weights.embed, engine.tensor(tokens, [batch])), // [B, D]
    batch,
    length: 1,
    cos: engine.narrow(state.cos, 1, index, 1),
    sin: engine.narrow(state.sin, 1, index, 1),
    own: { layers: state.own, used: state.used },
    ...(state.prefix === null ? {} : { prefix: state.prefix }),
    ...(state.padding === null ? {} : { mask: engine.narrow(state.padding, 3, 0, state.used + 1) }),
  });
  state.used++;
  return done.hidden;
}

/** Decodes one chunk of prompts; its rows are filled in place. */
async function decodeChunk(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  rows: readonly Row[],
  options: GenerateOptions,
): Promise<void> {
  const { engine, dims } = policy;
  const temperature = options.temperature ?? 1;
  const { end } = dims.special;
  const { maxTokens } = options;
  const draw = (state: State, logits: Tensor): void => {
    // A float32 just below 1 may round up to 1, which is no draw.
    const uniforms = Float32Array.from(state.slots, (row) =>
      row === null || row.ended || temperature === 0 ? 0 : Math.min(row.random.uniform(), 1 - 2 ** -24),
    );
    const mask = engine.tensor(policy.forbidden, [dims.vocabulary]);
    const sampled = engine.sample(logits, {
      temperature,
      topP: options.topP ?? 1,
      mask,
      uniforms: engine.tensor(uniforms, [uniforms.length]),
    });
    const drawn = { ids: engine.ints(sampled.ids), logProbs: engine.floats(sampled.logProbs) };
    if (drawn.logProbs.some(Number.isNaN)) {
      throw new EngineError(
        'generate: the logits hold NaN: the weights have diverged, go back to an earlier checkpoint',
      );
    }
    for (const [b, row] of state.slots.entries()) {
      if (row === null || row.ended) continue;
      row.ids.push(drawn.ids[b]!);
      options.onToken?.({ prompt: row.prompt, sample: row.sample, id: drawn.ids[b]! });
      row.logProbs.push(drawn.logProbs[b]!);
      row.ended = drawn.ids[b] === end || row.ids.length === maxTokens;
    }
  };
  const retire = (state: State): void => {
    // With states wanted, an ended row is fed once more before it goes.
    if (options.hidden === true) return;
    for (const [b, row] of state.slots.entries()) if (row?.ended) state.slots[b] = null;
  };
  let state: State | null = null;
  try {
    state = engine.noGrad(() =>
      engine.scope(() => {
        const begun = start(policy, prompts, rows, maxTokens);
        draw(begun.state, begun.logits);
        return begun.state;
      }),
    );
    retire(state);
    for (let index = 0; state.slots.some((row) => row !== null); index++) {
      const now: State = index % COMPACT_EVERY === 0 ? engine.noGrad(() => compact(policy, state!)) : state;
      state = now;
      engine.noGrad(() =>
        engine.scope(() => {
          const tokens = Int32Array.from(now.slots, (row) => row?.ids.at(-1) ?? dims.special.pad);
          const hidden = step(policy, now, tokens, index); // [B, D]
          if (options.hidden === true) {
            const values = engine.floats(hidden);
            for (const [b, row] of now.slots.entries()) {
              row?.hidden.set(values.subarray(b * dims.width, (b + 1) * dims.width), index * dims.width);
              if (row?.ended) now.slots[b] = null;
            }
          }
          if (now.slots.some((row) => row !== null)) draw(now, policy.logits(hidden));
        }),
      );
      retire(now);
      if (index % YIELD_EVERY === YIELD_EVERY - 1) {
        await setImmediate();
        options.signal?.throwIfAborted();
      }
    }
  } finally {
    if (state !== null) engine.dispose(...tensorsOf(state));
  }
}

/**
 * Samples responses: prompts × samples, in that order. Equal seeds and examples give equal responses, whatever
 * the batch. Only the end token and ordinary tokens can be sampled.
 */
export async function generate(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  options: GenerateOptions,
): Promise<Sampled[]> {
  const { dims, tokenizer } = policy;
  const samples = options.samples ?? 1;
  const perChunk = Math.max(1, Math.floor((options.maxRows ?? 256) / samples));
  const out: Sampled[] = [];
  for (let first = 0; first < prompts.length; first += perChunk) {
    options.signal?.throwIfAborted();
    const chunk = prompts.slice(first, first + perChunk);
    const rows: Row[] = chunk.flatMap((_, p) =>
      Array.from({ length: samples }, (__, sample) => ({
        prompt: first + p,
        sample,
        random: new Random(
          options.seed,
          options.stream ?? 'sample',
          options.examples?.[first + p] ?? first + p,
          sample,
        ),
        ids: [],
        logProbs: [],
        hidden: new Float32Array(options.hidden === true ? options.maxTokens * dims.width : 0),
        ended: false,
      })),
    );
    await decodeChunk(policy, chunk, rows, options);
    for (const row of rows) {
      const finished = row.ids.at(-1) === dims.special.end;
      out.push({
        prompt: row.prompt,
        sample: row.sample,
        ids: Int32Array.from(row.ids),
        logProbs: Float32Array.from(row.logProbs),
        text: tokenizer.decode(finished ? row.ids.slice(0, -1) : row.ids),
        finished,
        hidden: row.hidden.slice(0, options.hidden === true ? row.ids.length * dims.width : 0),
      });
    }
  }
  return out;
}
