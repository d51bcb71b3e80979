/**
 * Batched sampling. Prompts are encoded once and shared by their samples; caches grow by many columns at
 * once; complete rows leave the batch and waiting prompts take their places. Each row has its own random
 * stream, so its tokens do not depend on other rows. Tokens stay on the device and are copied to the host
 * every few steps.
 */
import { setImmediate } from 'node:timers/promises';
import { ConfigError, EngineError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import type { EncodedPrompt } from './batch.ts';
import { DecodingBatch, freePrompts, GROWTH, type Group, type Stepping } from './decoding-batch.ts';
import type { KeptCaches } from './kv-cache.ts';
import type { Policy, Prompting } from './policy.ts';
import { ropeTablesFor } from './rope.ts';
import { Sampler, type SamplingOptions } from './sampler.ts';
import { arrangeForSteps, type StepResults } from './step.ts';

export interface GenerateOptions extends SamplingOptions {
  /** Number of responses per prompt, G. Default: 1. */
  readonly samples?: number;
  /** Index of the first sample of each prompt, which keys its random streams. Default: 0. */
  readonly firstSamples?: readonly number[];
  /** Indices of samples to skip, by prompt, because their responses exist already. They are not decoded. */
  readonly skip?: readonly ReadonlySet<number>[];
  /** Maximum response length in tokens, stop token included. */
  readonly maxTokens: number;
  /** Additional stop tokens, besides the end token. */
  readonly stops?: readonly number[];
  readonly seed: number;
  /** Name of the random streams; different names give independent draws. Default: 'sample'. */
  readonly stream?: string;
  /** Key of each prompt's random streams. Default: the index of the prompt. */
  readonly examples?: readonly number[];
  /** Keeps the hidden state of every response token; this takes one more step, for the last token. */
  readonly hidden?: boolean;
  /** Maximum number of rows decoded at a time. Default: 256. */
  readonly maxRows?: number;
  /** Keeps the caches of the prompts, and reads those of their stems: a turn then encodes only what is new. Torch policies alone. */
  readonly kept?: KeptCaches;
  /** Called with the new tokens of a response, its stop token included, as they become known. */
  readonly onTokens?: (row: { readonly prompt: number; readonly sample: number }, ids: Int32Array) => void;
  /** Called with each response once it is complete, in any order; the returned promise resolves to all, in order. */
  readonly onResponse?: (response: Sampled) => void;
  /** Checked every few steps; aborting rejects with the signal's reason and frees everything. */
  readonly signal?: AbortSignal;
}

/** Sampled response. */
export interface Sampled {
  /** Index of the prompt. */
  readonly prompt: number;
  /** Index of the sample within the prompt's group. */
  readonly sample: number;
  /** Sampled tokens, the stop token included when there is one: [T]. */
  readonly ids: Int32Array;
  /** Log-probs after temperature and masking; at temperature 0 (greedy), those of temperature 1: [T]. */
  readonly logProbs: Float32Array;
  readonly text: string;
  /** False when it was cut off at `maxTokens`. */
  readonly finished: boolean;
  /** Hidden states after the final norm, with each token as the input: [T · D]; empty unless `hidden` is set. */
  readonly hidden: Float32Array;
}

/** Batching options; the sampled tokens do not depend on them. */
export interface GenerateSchedule extends Stepping {
  /** True for continuous batching: waiting prompts take the slots of complete rows. False: they wait for the whole batch. */
  readonly refill: boolean;
  /**
   * For memory planning on an engine that has shapes but no values: skips steps that cannot raise the peak
   * memory, and does not store hidden states. Default: false.
   */
  readonly abridged?: boolean;
}

/** Conditions that end a response. */
export interface StoppingCriteria {
  readonly stops: ReadonlySet<number>;
  readonly maxTokens: number;
  /** True if a row is complete only once the hidden state of its last token is stored. */
  readonly hidden: boolean;
}

/** Response in progress: its tokens, and the random stream that they are drawn from. */
export class Row {
  readonly prompt: number;
  readonly sample: number;
  readonly random: Random;
  readonly limits: StoppingCriteria;
  readonly ids: number[] = [];
  readonly logProbs: number[] = [];
  /** True once the last token has been sampled. */
  ended = false;
  /** Number of tokens with a stored (or skipped) hidden state. */
  #states = 0;
  #hidden = new Float32Array(0);

  constructor(prompt: number, sample: number, random: Random, limits: StoppingCriteria) {
    this.prompt = prompt;
    this.sample = sample;
    this.random = random;
    this.limits = limits;
  }

  get complete(): boolean {
    return this.ended && (!this.limits.hidden || this.#states === this.ids.length);
  }

  /** Returns a uniform draw in [0, 1); capped at 1 − 2⁻²⁴, because float32 rounds larger values up to 1. */
  draw(): number {
    return Math.min(this.random.uniform(), 1 - 2 ** -24);
  }

  /** Ends the row before its last token. */
  stop(): void {
    this.ended = true;
  }

  /** Appends a token. */
  take(id: number, logProb: number): void {
    if (Number.isNaN(logProb)) {
      throw new EngineError(
        'generate: the logits hold NaN: the weights have diverged, go back to an earlier checkpoint',
      );
    }
    const { stops, maxTokens } = this.limits;
    this.ids.push(id);
    this.logProbs.push(logProb);
    this.ended = stops.has(id) || this.ids.length === maxTokens;
  }

  /** Number of steps left, unless a stop token ends the row earlier. */
  get left(): number {
    return this.ended ? 0 : this.limits.maxTokens - this.ids.length;
  }

  /** Skips `steps` steps, fewer than are left: repeats the last token and counts hidden states without storing them. */
  pass(steps: number): void {
    const last = this.ids.at(-1)!;
    for (let step = 0; step < steps; step++) this.take(last, 0);
    if (this.limits.hidden) this.#states += steps;
  }

  /** Appends the hidden state [D] of the last token. */
  addHidden(state: Float32Array): void {
    const width = state.length;
    const at = this.#states++ * width;
    if (at + width > this.#hidden.length) {
      const larger = new Float32Array(Math.max(32 * width, 2 * this.#hidden.length));
      larger.set(this.#hidden);
      this.#hidden = larger;
    }
    this.#hidden.set(state, at);
  }

  /** The states appended so far: [T · D]. */
  hidden(width: number): Float32Array {
    return this.#hidden.slice(0, this.#states * width);
  }
}

const YIELD_EVERY = 4;
const COMPACT_EVERY = 8;
const NO_STATES = new Float32Array(0);

/** Number of parameters above which a CPU step takes about the same time for any number of rows. */
const LARGE_PARAMETERS = 1e7;

/**
 * Returns the default schedule of a device. Measured on two cores:
 * - 0.75 M parameters: copying tokens to the host every eighth step takes 5 % less time than every step;
 *   refilling takes 10 % more than whole batches, because joining rows widen the attention of all rows;
 * - 88 M parameters, 8 or 16 rows, one sample: refilling takes 17 to 27 % less.
 */
export function defaultSchedule(device: string, parameters: number): GenerateSchedule {
  if (device.startsWith('cuda')) return { stepsPerLook: 16, staticCache: 'recorded', refill: true };
  const large = parameters >= LARGE_PARAMETERS;
  return { stepsPerLook: large ? 1 : 8, staticCache: 'never', refill: large };
}

/** Appends the results of steps to the rows in their slots; drops what was sampled after a row's last token. */
function distribute(
  { steps, ids, logProbs, hidden }: StepResults,
  rows: readonly (Row | null)[],
  width: number,
): void {
  for (let k = 0; k < steps; k++) {
    for (const [b, row] of rows.entries()) {
      if (row === null || row.complete) continue;
      const at = k * rows.length + b;
      if (hidden !== null) row.addHidden(hidden.subarray(at * width, (at + 1) * width));
      if (!row.ended) row.take(ids[at]!, logProbs[at]!);
    }
  }
}

/** Reads the stop conditions from the options. @throws ConfigError when an option is out of its range. */
function limitsOf(
  policy: Prompting,
  { maxTokens, stops = [], hidden = false }: GenerateOptions,
): StoppingCriteria {
  const { vocabulary, special } = policy.dims;
  if (!(Number.isInteger(maxTokens) && maxTokens > 0)) {
    throw new ConfigError(`generate: maxTokens must be a positive integer, got ${maxTokens}`);
  }
  for (const id of stops) {
    if (!(Number.isInteger(id) && id >= 0 && id < vocabulary)) {
      throw new ConfigError(
        `generate: stop token: expected an id from 0 to ${vocabulary - 1} (the vocabulary), got ${id}`,
      );
    }
  }
  return { stops: new Set([special.end, ...stops]), maxTokens, hidden };
}

/** Converts a row to the result that the caller gets. */
export function sampled(policy: Prompting, row: Row): Sampled {
  const { ids, logProbs, prompt, sample, limits } = row;
  const finished = limits.stops.has(ids.at(-1)!);
  return {
    prompt,
    sample,
    ids: Int32Array.from(ids),
    logProbs: Float32Array.from(logProbs),
    text: policy.tokenizer.decode(finished ? ids.slice(0, -1) : ids),
    finished,
    hidden: row.hidden(policy.dims.width),
  };
}

/**
 * Samples responses, ordered by prompt, then by sample. They depend on the seed and `examples`, not on the
 * batch. Of the special tokens, only stop tokens can be sampled.
 * @param overrides differences from the default schedule of the device
 * @throws ConfigError when an option is out of its range; EngineError when the logits hold NaN
 */
export const generate = (
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  options: GenerateOptions,
  overrides: Partial<GenerateSchedule> = {},
): Promise<Sampled[]> =>
  generateWith(policy, prompts, options, (groups, decoding) =>
    decodeGroups(policy, groups, decoding, overrides),
  );

/** Samples responses as `generate` does, with `decode` as the decoding loop. */
export async function generateWith(
  policy: Prompting,
  prompts: readonly EncodedPrompt[],
  options: GenerateOptions,
  decode: (groups: readonly Group[], options: DecodeOptions) => Promise<void>,
): Promise<Sampled[]> {
  const {
    seed,
    stream = 'sample',
    examples,
    samples = 1,
    firstSamples,
    skip,
    onTokens,
    onResponse,
  } = options;
  const limits = limitsOf(policy, options);
  const groups: Group[] = prompts.map((prompt, p) => ({
    prompt,
    rows: Array.from({ length: samples }, (_, s) => {
      const sample = (firstSamples?.[p] ?? 0) + s;
      const row = new Row(p, sample, new Random(seed, stream, examples?.[p] ?? p, sample), limits);
      if (skip?.[p]?.has(sample)) row.stop();
      return row;
    }),
  }));
  const report = (row: Row, ids: Int32Array): void => {
    onTokens?.(row, ids);
    if (row.complete) onResponse?.(sampled(policy, row));
  };
  const hasListeners = onTokens !== undefined || onResponse !== undefined;
  await decode(groups, { ...options, ...(hasListeners ? { onTokens: report } : {}) });
  return groups.flatMap(({ rows }, p) =>
    rows.filter(({ sample }) => !skip?.[p]?.has(sample)).map((row) => sampled(policy, row)),
  );
}

/** Options of a whole batch; each row has its own limits and random stream. */
export interface DecodeOptions extends SamplingOptions, Pick<GenerateOptions, 'maxRows' | 'signal' | 'kept'> {
  /** Callback for each token, as in `GenerateOptions`; it may stop the row. */
  readonly onTokens?: (row: Row, ids: Int32Array) => void;
}

/**
 * Samples all rows until each has ended or was stopped. Groups must have equal numbers of rows and the same
 * stop tokens.
 * @throws ConfigError when an option is out of its range; EngineError when the logits hold NaN
 */
export async function decodeGroups(
  policy: Policy,
  groups: readonly Group[],
  options: DecodeOptions,
  overrides: Partial<GenerateSchedule> = {},
): Promise<void> {
  const { engine, dims } = policy;
  const { maxRows = 256, signal, onTokens } = options;
  const schedule = { ...defaultSchedule(engine.info.device, policy.layout.size), ...overrides };
  signal?.throwIfAborted();
  const [first] = groups;
  if (first === undefined) return;
  const prompts = groups.map(({ prompt }) => prompt);
  const samples = first.rows.length;
  const allLimits = groups.flatMap(({ rows }) => rows.map((row) => row.limits));
  const limits = {
    ...allLimits[0]!,
    maxTokens: allLimits.reduce((most, limit) => Math.max(most, limit.maxTokens), 0),
  };
  const waiting = [...groups];
  const sampler = new Sampler(policy, options, limits.stops);
  const rope = ropeTablesFor(policy, prompts, limits.maxTokens, 2 * GROWTH);
  const small =
    engine.info.device === 'cpu' && policy.layout.size < LARGE_PARAMETERS && policy.dtype === 'float32';
  const { weights, tensors } = small ? arrangeForSteps(policy) : { weights: policy.weights, tensors: [] };
  /** Appends step results to the rows, calls `onTokens`, and frees the slots of complete rows. */
  const applyResults = (batch: DecodingBatch, rows: readonly (Row | null)[], results: StepResults): void => {
    const before = rows.map((row) => row?.ids.length ?? 0);
    const kept = schedule.abridged && results.hidden !== null ? { ...results, hidden: NO_STATES } : results;
    distribute(kept, rows, dims.width);
    for (const [b, row] of onTokens === undefined ? [] : rows.entries()) {
      const newIds = row?.ids.slice(before[b]) ?? [];
      if (newIds.length > 0) onTokens!(row!, Int32Array.from(newIds));
    }
    batch.retire();
  };
  /** Moves waiting prompts into free slots. */
  const admit = (batch: DecodingBatch, into: readonly number[]): void => {
    if (into.length === 0) return;
    const { rows, results } = engine.noGrad(() => batch.fill(into, waiting.splice(0, into.length)));
    applyResults(batch, rows, results);
  };
  const open = (): DecodingBatch => {
    const count = Math.min(Math.max(1, Math.floor(maxRows / samples)), waiting.length);
    const mayJoin = schedule.refill ? waiting : waiting.slice(0, count);
    const longest = mayJoin.reduce((most, { prompt }) => Math.max(most, prompt.ids.length), 0);
    return new DecodingBatch(policy, count, count * samples, {
      sampler,
      limits,
      longest,
      rope,
      stepping: schedule,
      weights,
      kept: options.kept ?? null,
    });
  };
  let decoding: DecodingBatch | null = null;
  try {
    let unchanged = 0; // steps since rows left or joined
    for (let steps = 0; decoding !== null || waiting.length > 0; ) {
      if (decoding === null) {
        decoding = open();
        admit(
          decoding,
          Array.from({ length: decoding.prompts }, (_, p) => p),
        );
        unchanged = COMPACT_EVERY;
      }
      const current: DecodingBatch = decoding;
      if (unchanged >= COMPACT_EVERY && !current.empty) {
        unchanged = 0;
        if (schedule.refill && waiting.length > 0) {
          admit(current, freePrompts(current.slots, current.prompts).slice(0, waiting.length));
        } else engine.noGrad(() => current.compact());
      }
      if (current.empty) {
        current.dispose();
        decoding = null;
        continue;
      }
      const results = engine.noGrad(() => current.run(schedule.stepsPerLook));
      applyResults(current, [...current.slots], results);
      if (schedule.abridged) current.pass();
      unchanged += results.steps;
      steps += results.steps;
      if (steps >= YIELD_EVERY) {
        steps = 0;
        await setImmediate();
        signal?.throwIfAborted();
      }
    }
  } finally {
    decoding?.dispose();
    engine.dispose(rope.cos, rope.sin, ...tensors);
    sampler.dispose();
  }
}
