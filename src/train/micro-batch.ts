/**
 * Micro-batches, which go through the policy one at a time, so that tokens and not the batch bound the
 * memory. Losses are sums over tokens, so gradients of micro-batches add up. Also their training forward
 * pass: whole sequences, or each prompt once with all its responses behind its keys and values.
 */
import type { Tensor } from '../engine/engine.ts';
import { sum } from '../ground/numbers.ts';
import { collate, type EncodedPrompt, joined, promptBatch } from '../policy/batch.ts';
import { type ForwardInput, forward, type Network } from '../policy/forward.ts';
import type { Sampled } from '../policy/generate.ts';
import { runSegment, type Tape, taped } from '../policy/gradient-checkpointing.ts';
import { branchedRows } from './branches.ts';
import { chunkTokens } from './loss.ts';

/** Tokens of one micro-batch, padding included, where a recipe does not say. */
export const MICRO_BATCH_TOKENS = 1 << 15;

const longest = (a: readonly number[], b: readonly number[]): readonly number[] =>
  b.map((length, i) => Math.max(length, a[i] ?? 0));

/**
 * Divides items into micro-batches of at most `budget` tokens, or of one item. `extents`: lengths of an
 * item's parts; each part is padded to the longest of its micro-batch, so n items take n · Σ longest, or n times what
 * `placesOf` gives for the longest parts. A single micro-batch keeps the order; otherwise items of similar length stand
 * together, longest first, so that an out-of-memory happens at once.
 */
export function microBatches<T>(
  items: readonly T[],
  extents: (item: T) => readonly number[],
  budget: number = MICRO_BATCH_TOKENS,
  placesOf: (parts: readonly number[]) => number = sum,
): T[][] {
  const sized = items.map((item) => ({ item, parts: extents(item) }));
  const whole = sized.reduce<readonly number[]>((most, { parts }) => longest(most, parts), []);
  if (items.length > 0 && items.length * placesOf(whole) <= budget) return [[...items]];
  const out: T[][] = [];
  let most: readonly number[] = [];
  for (const { item, parts } of sized.sort((a, b) => placesOf(b.parts) - placesOf(a.parts))) {
    const last = out.at(-1);
    const grown = longest(most, parts);
    if (last !== undefined && (last.length + 1) * placesOf(grown) <= budget) {
      last.push(item);
      most = grown;
    } else {
      out.push([item]);
      most = parts;
    }
  }
  return out;
}

/** A prompt and its responses. */
interface Group {
  readonly prompt: EncodedPrompt;
  readonly responses: readonly { readonly ids: Int32Array }[];
  readonly lessons?: readonly { readonly ids: Int32Array }[];
}

const countOf = ({ responses, lessons = [] }: Group): number => responses.length + lessons.length;
const longestOf = ({ responses, lessons = [] }: Group): number =>
  [...responses, ...lessons].reduce((most, { ids }) => Math.max(most, ids.length), 0);

/** Divides groups into micro-batches, in which each has as many rows as the largest, all as long as the longest. */
export function groupMicroBatches<T extends Group>(groups: readonly T[], budget?: number): T[][] {
  return microBatches(
    groups,
    (group) => [group.prompt.ids.length, countOf(group), longestOf(group)],
    budget,
    ([prompt, count, longest]) => prompt! + count! * longest!,
  );
}

/** Returns the place of the list that holds each element, list after list: [Σ length]. */
export const owners = (lists: readonly (readonly unknown[])[]): number[] =>
  lists.flatMap((list, p) => list.map(() => p));

/** Text that is taught behind a prompt, up to the last token that it teaches. */
export interface Lesson {
  readonly ids: Int32Array; // [T]
  /** Weight of each token: 0 where its text is not taught. */
  readonly weights: Float32Array; // [T]
  /** Ids that are as right as the token's own, by its index: any of them is taught. */
  readonly choices: ReadonlyMap<number, readonly number[]>;
}

/** Responses to one prompt, with what the loss needs of them. */
export interface TrainingGroup {
  /** Number of its prompt in the step, over all ranks. */
  readonly index: number;
  readonly prompt: EncodedPrompt;
  /** The prompt of the teacher of self-distillation; null without one. */
  readonly teacherPrompt: EncodedPrompt | null;
  readonly responses: readonly Sampled[]; // [G], or fewer, also none: of a group too long for one forward pass, or with lessons alone
  /** Advantage of each response [G]: a number for all of its tokens, or one per token [T]. */
  readonly advantage: readonly (number | Float32Array)[];
  /** Texts that are taught behind the prompt. */
  readonly lessons: readonly Lesson[];
  /** Log-probabilities of the reference, and of the policy before the step's updates; null where they are not needed. */
  readonly referenceLogProbs: Float32Array | null;
  readonly oldLogProbs: Float32Array | null;
  /** Entropies under the policy before the step's updates; absent where they are not needed. */
  readonly entropies?: Float32Array | null;
}

/** Divides a group whose responses and lessons exceed the token budget into several of the same prompt; losses are sums over both. */
export function splitGroup<T extends Pick<TrainingGroup, 'prompt' | 'responses' | 'advantage' | 'lessons'>>(
  group: T,
  budget: number = MICRO_BATCH_TOKENS,
): T[] {
  const { prompt, responses, advantage, lessons } = group;
  const fit = Math.max(1, Math.floor((budget - prompt.ids.length) / Math.max(1, longestOf(group))));
  const parts = Math.ceil(countOf(group) / fit);
  if (parts <= 1) return [group];
  const size = Math.ceil(countOf(group) / parts);
  return Array.from({ length: Math.ceil(countOf(group) / size) }, (_, part) => {
    const [from, to] = [part * size, (part + 1) * size];
    const behind = (at: number): number => Math.max(0, at - responses.length);
    return {
      ...group,
      responses: responses.slice(from, to),
      advantage: advantage.slice(from, to),
      lessons: lessons.slice(behind(from), behind(to)),
    };
  });
}

/** Places of a batch and the tokens that stand in them: what is left is padding. */
export class PaddingMeter {
  places = 0;
  tokens = 0;

  add({ batch, length, lengths }: Pick<ForwardInput, 'batch' | 'length' | 'lengths'>): void {
    this.places += batch * length;
    this.tokens += sum(lengths);
  }
}

/** A forward input and what each of its hidden states predicts. */
interface PredictionBatch {
  readonly input: ForwardInput;
  /** Token predicted by hidden state k: [K]. */
  readonly targets: Int32Array;
}

const flat = (responses: readonly Int32Array[]): Int32Array =>
  Int32Array.from(responses.flatMap((ids) => [...ids]));

/** The last response token predicts nothing, so it is not fed. */
const withoutLast = (ids: Int32Array): Int32Array => ids.subarray(0, ids.length - 1);

/** Whole sequences, prompt then response: the hidden states that predict a response token are wanted. */
export function sequenceBatch(
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  pad: number,
): PredictionBatch {
  const batch = collate(
    prompts.map((prompt, b) => joined(prompt, withoutLast(responses[b]!))),
    pad,
  );
  const rows = prompts.flatMap((prompt, b) =>
    Array.from(responses[b]!, (_, t) => b * batch.length + prompt.ids.length - 1 + t),
  );
  return { input: { ...batch, rows: Int32Array.from(rows) }, targets: flat(responses) };
}

/** Responses of P prompts that are already encoded, without their last tokens, in R rows of each prompt: [P·R, T]. */
interface ResponseBatch {
  readonly input: ForwardInput;
  /**
   * Index of the state that predicts each target, over last states of prompts [P], then states of the rows
   * [P·R·T]: [K].
   */
  readonly select: Int32Array;
  readonly targets: Int32Array; // [K], one response after the other
}

/** Prompts of B responses, equally many consecutive ones of each of P prompts: [B]. */
const evenly = (prompts: number, responses: number): number[] =>
  Array.from({ length: responses }, (_, b) => Math.floor((b * prompts) / responses));

type Branched = ReturnType<typeof branchedRows>;

/** Returns the rows that each prompt has: R. */
const mostRows = (all: readonly Branched[]): number =>
  all.reduce((most, { rows }) => Math.max(most, rows.length), 1);

/**
 * Numbers in the mask of rows with branches up to which it costs little, and at most: 16 and 128 MiB in float32. A larger one must save a quarter
 * of the places. Measured: 40 prompts with 8 responses of 66 tokens, of which 5 are shared, take a fifth longer in rows with branches.
 */
const [SMALL_MASK, MOST_MASK] = [1 << 22, 1 << 25];

/** Returns true if rows with branches take at most the places of rows without, and their mask is small or worth it. */
function areSmaller(branched: readonly Branched[], apart: readonly Branched[]): boolean {
  const length = (all: readonly Branched[]): number =>
    all.reduce((most, { rows }) => rows.reduce((longest, row) => Math.max(longest, row.length), most), 0);
  const places = (all: readonly Branched[]): number => all.length * mostRows(all) * length(all);
  const mask = places(branched) * length(branched);
  return places(branched) <= (mask <= SMALL_MASK ? 1 : 0.75) * places(apart) && mask <= MOST_MASK;
}

/**
 * @param of prompt of each response [B]; default: equally many of each, one prompt after the other
 * @param branching true if responses that begin alike may share a row, `branchedRows`
 */
export function responseBatch(
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  pad: number,
  of: readonly number[] = evenly(prompts.length, responses.length),
  branching = true,
): ResponseBatch {
  const texts = responses.map(withoutLast);
  const ofPrompts = prompts.map((_, p) => texts.filter((_, b) => of[b] === p));
  const apart = ofPrompts.map((own) => branchedRows(own, false));
  const together = branching ? ofPrompts.map((own) => branchedRows(own, true)) : apart;
  const branched = areSmaller(together, apart) ? together : apart;
  const count = mostRows(branched); // R
  // A row without a token still has one, so that rows and prompts stay in step and every micro-batch has as many passes.
  const filler = { ids: Int32Array.of(pad), images: [] };
  const sequences = prompts.flatMap((prompt, p) =>
    Array.from({ length: count }, (_, r) => {
      const row = branched[p]!.rows[r];
      return row === undefined || row.length === 0
        ? { ...filler, positions: new Int32Array(3).fill(prompt.next) }
        : row.sequence(prompt);
    }),
  );
  const input = collate(sequences, pad);
  const next = prompts.map(() => 0);
  const select = responses.flatMap((response, b) => {
    const p = of[b]!;
    const { row, places } = branched[p]!.placed[next[p]!++]!;
    const first = prompts.length + (p * count + row) * input.length;
    return Array.from(response, (_, t) => (t === 0 ? p : first + places[t - 1]!));
  });
  return { input, select: Int32Array.from(select), targets: flat(responses) };
}

export interface ResponseStates {
  /** State that predicts target k, with gradient where it is enabled: [K, D]. */
  readonly states: Tensor;
  readonly targets: Int32Array; // [K], one response after the other
}

/** Passes of a micro-batch through the decoder: prompts, and responses behind their caches. */
export const PASSES = 2;

/**
 * Computes the states of P prompts and B responses. Run inside an engine scope. On a CPU responses may share rows; on a GPU, where
 * masks for single rows are not measured, each has its own.
 * @param of prompt of each response, as in `responseBatch`
 */
export function responseStates(
  policy: Network,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  tape?: Tape,
  padding?: PaddingMeter,
  of?: readonly number[],
): ResponseStates {
  const { engine, branching = engine.info.device === 'cpu' } = policy;
  const { pad } = policy.dims.special;
  const traced = (input: ForwardInput): ForwardInput => (tape === undefined ? input : { ...input, tape });
  return taped(engine, tape, () => {
    const asked = promptBatch(prompts, pad);
    const { input, select, targets } = responseBatch(prompts, responses, pad, of, branching);
    padding?.add(asked);
    padding?.add(input);
    const before = forward(policy, traced({ ...asked, useCache: true })); // [P, D]
    const after = forward(policy, traced({ ...input, prefix: before.cache, useCache: false })); // [P·R·T, D]
    const index = engine.tensor(select, [select.length]);
    const [states] = runSegment(tape, {
      inputs: [before.hidden, after.hidden],
      constants: index,
      body: (parts) => [engine.indexSelect(engine.concat(parts, 0), index)],
    });
    return { states: states!, targets }; // [K, D]
  });
}

/** Policy as log-probabilities need it. */
export interface Scorer extends Network {
  /** Additive vocabulary mask [V]. */
  readonly forbidden: Float32Array;
}

/** Log-probabilities of targets [K], or the entropies of the distributions they are of, from their states [K, D], without gradient: [K]. */
export function tokenValues(
  policy: Scorer,
  { states, targets }: Pick<ResponseStates, 'states' | 'targets'>,
  temperature: number,
  wanted: 'logProb' | 'entropy' = 'logProb',
): Float32Array {
  const { engine } = policy;
  return engine.noGrad(() =>
    engine.scope(() => {
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]);
      const { head } = policy.weights;
      const out = new Float32Array(targets.length);
      const chunk = chunkTokens(engine, head.shape[0]!);
      for (let start = 0; start < targets.length; start += chunk) {
        const ids = targets.subarray(start, start + chunk);
        engine.scope(() => {
          const part = engine.narrow(states, 0, start, ids.length); // [k, D]
          const target = engine.tensor(ids, [ids.length]);
          const asked = { temperature, mask, entropy: wanted === 'entropy' };
          out.set(engine.floats(engine.logProbs(part, head, target, asked)[wanted]!), start);
        });
      }
      return out;
    }),
  );
}

/** Log-probabilities (or entropies) of every response token, by a forward pass: [K]. */
export function responseLogProbs(
  policy: Scorer,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  temperature: number,
  wanted?: 'logProb' | 'entropy',
  of?: readonly number[],
): Float32Array {
  const { engine } = policy;
  return engine.noGrad(() =>
    engine.scope(() => {
      const states = responseStates(policy, prompts, responses, undefined, undefined, of);
      return tokenValues(policy, states, temperature, wanted);
    }),
  );
}

/** Log-probabilities (or entropies) of each group's tokens under a policy, without gradient. */
export function groupLogProbs(
  policy: Scorer,
  groups: readonly Group[],
  options: { readonly temperature: number; readonly tokens?: number },
  wanted?: 'logProb' | 'entropy',
): Float32Array[] {
  const values = new Map<Group, Float32Array>();
  const answered = groups.flatMap((group) =>
    group.responses.length > 0 ? [{ ...group, lessons: [], group }] : [],
  );
  for (const microBatch of groupMicroBatches(answered, options.tokens)) {
    const prompts = microBatch.map(({ prompt }) => prompt);
    const responses = microBatch.flatMap((group) => group.responses.map(({ ids }) => ids));
    const of = owners(microBatch.map(({ responses }) => responses));
    const all = responseLogProbs(policy, prompts, responses, options.temperature, wanted, of);
    let at = 0;
    for (const { group } of microBatch) {
      const count = sum(group.responses.map(({ ids }) => ids.length));
      values.set(group, all.slice(at, at + count));
      at += count;
    }
  }
  return groups.map((group) => values.get(group) ?? new Float32Array(0));
}
