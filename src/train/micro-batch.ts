/**
 * A step in micro-batches that go through the policy one at a time, so that memory is bounded by tokens and not by the batch.
 * Losses are sums over tokens, so the gradients of the micro-batches add up to that of the whole. Then the training forward
 * of one micro-batch: whole sequences, or prompts once and every response behind its prompt's keys and values.
 */
import type { Tensor } from '../engine/engine.ts';
import { collate, type EncodedPrompt, joined, responseSequence, type Sequence } from '../policy/batch.ts';
import { type ForwardInput, forward, type Network } from '../policy/forward.ts';
import type { Sampled } from '../policy/generate.ts';
import { run, type Tape, taped } from '../policy/gradient-checkpointing.ts';
import { chunkTokens } from './loss.ts';

/** Tokens of one piece, padding included, where a recipe does not say. */
export const TOKENS_AT_ONCE = 1 << 15;

/**
 * Divides items into pieces of at most `budget` tokens, or of one item. `extents` gives the lengths of an item's parts;
 * within a piece each part is padded to its longest, so a piece of n items takes n · Σ longest. All in one piece stay in
 * their order; else items of like length come together, the longest first, so that memory that does not suffice shows at
 * once and little is padded.
 */
export function piecesOf<T>(
  items: readonly T[],
  extents: (item: T) => readonly number[],
  budget: number = TOKENS_AT_ONCE,
): T[][] {
  const sized = items.map((item) => ({ item, parts: extents(item) }));
  const whole = sized.reduce<readonly number[]>((most, { parts }) => longest(most, parts), []);
  if (items.length > 0 && items.length * total(whole) <= budget) return [[...items]];
  const out: T[][] = [];
  let most: readonly number[] = [];
  for (const { item, parts } of sized.sort((a, b) => total(b.parts) - total(a.parts))) {
    const last = out.at(-1);
    const grown = longest(most, parts);
    if (last !== undefined && (last.length + 1) * total(grown) <= budget) {
      last.push(item);
      most = grown;
    } else {
      out.push([item]);
      most = parts;
    }
  }
  return out;
}

const total = (parts: readonly number[]): number => parts.reduce((sum, length) => sum + length, 0);

const longest = (a: readonly number[], b: readonly number[]): readonly number[] =>
  b.map((length, i) => Math.max(length, a[i] ?? 0));

/** Places of a batch and the tokens that stand in them: what is left is padding. */
export class PaddingMeter {
  places = 0;
  tokens = 0;

  add({
    batch,
    length,
    lengths,
  }: {
    readonly batch: number;
    readonly length: number;
    readonly lengths?: Int32Array;
  }): void {
    this.places += batch * length;
    this.tokens += lengths === undefined ? batch * length : lengths.reduce((sum, n) => sum + n, 0);
  }
}

/** A forward input and what each of its hidden states predicts. */
export interface PredictionBatch {
  readonly input: ForwardInput;
  /** Token predicted by hidden state k: [K]. */
  readonly targets: Int32Array;
}

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
  const rows: number[] = [];
  const targets: number[] = [];
  prompts.forEach((prompt, b) => {
    responses[b]!.forEach((id, t) => {
      rows.push(b * batch.length + prompt.ids.length - 1 + t);
      targets.push(id);
    });
  });
  return { input: { ...batch, rows: Int32Array.from(rows) }, targets: Int32Array.from(targets) };
}

/** Prompts alone [P, T]: only the hidden state after the last token of each is wanted. */
export function promptBatch(prompts: readonly EncodedPrompt[], pad: number): ForwardInput {
  const batch = collate(prompts, pad);
  return { ...batch, rows: batch.lengths.map((length, p) => p * batch.length + length - 1) };
}

/** Responses [B, T] of P prompts that are already encoded, B/P consecutive ones to each, without their last token. */
export interface ResponseBatch {
  /** Null when every response is a single token: nothing to feed. */
  readonly input: ForwardInput | null;
  /**
   * Which state predicts each target, counted over the prompts' last hidden states [P] followed by the response
   * states [B·T]: [K].
   */
  readonly select: Int32Array;
  readonly targets: Int32Array; // [K]
  /** Response that each target belongs to: [K]. */
  readonly owner: Int32Array;
}

export function responseBatch(
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  pad: number,
): ResponseBatch {
  const group = responses.length / prompts.length;
  const longest = responses.reduce((most, response) => Math.max(most, response.length), 0) - 1;
  const select: number[] = [];
  const targets: number[] = [];
  const owner: number[] = [];
  const sequences: Sequence[] = responses.map((response, b) => {
    const p = Math.floor(b / group);
    response.forEach((id, t) => {
      select.push(t === 0 ? p : prompts.length + b * longest + t - 1);
      targets.push(id);
      owner.push(b);
    });
    // A response of the end token alone still fills its row, so that rows and groups stay in step.
    return responseSequence(prompts[p]!, response.length > 1 ? withoutLast(response) : response);
  });
  return {
    input: longest < 1 ? null : collate(sequences, pad),
    select: Int32Array.from(select),
    targets: Int32Array.from(targets),
    owner: Int32Array.from(owner),
  };
}

export interface ResponseStates {
  /** State that predicts target k, with gradient where it is enabled: [K, D]. */
  readonly states: Tensor;
  readonly targets: Int32Array; // [K]
  /** Response that target k belongs to: [K]. */
  readonly owner: Int32Array;
}

/** What log-probabilities need of a policy. */
export interface Scorer extends Network {
  /** Additive vocabulary mask [V]. */
  readonly forbidden: Float32Array;
}

/**
 * P prompts and B = P·G responses, G consecutive ones to each. Run inside an engine scope; with a tape, one that has it.
 * `padding` is told what was padded.
 */
export function responseStates(
  policy: Network,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  tape?: Tape,
  padding?: PaddingMeter,
): ResponseStates {
  const { engine } = policy;
  const { pad } = policy.dims.special;
  const traced = (input: ForwardInput): ForwardInput => (tape === undefined ? input : { ...input, tape });
  return taped(engine, tape, () => {
    const asked = promptBatch(prompts, pad);
    const { input, select, targets, owner } = responseBatch(prompts, responses, pad);
    padding?.add(asked);
    if (input !== null) padding?.add(input);
    const before = forward(policy, traced({ ...asked, cache: input !== null })); // [P, D]
    const behind = input === null ? [] : [{ ...input, prefix: before.cache, cache: false }];
    const after = behind.map((rest) => forward(policy, traced(rest)).hidden); // [B·T, D]
    const index = engine.tensor(select, [select.length]);
    const [states] = run(tape, {
      inputs: [before.hidden, ...after],
      constants: index,
      body: (parts) => [engine.indexSelect(parts.length === 1 ? parts[0]! : engine.concat(parts, 0), index)],
    });
    return { states: states!, targets, owner }; // [K, D]
  });
}

/** A prompt and its responses. */
interface Group {
  readonly prompt: EncodedPrompt;
  readonly responses: readonly { readonly ids: Int32Array }[];
}

/** Groups in pieces that go through one forward pass together: those of a piece have equally many responses. */
export function pieces<T extends Group>(groups: readonly T[], budget?: number): T[][] {
  const extents = ({ prompt, responses }: T): number[] => {
    const longest = responses.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    return [prompt.ids.length, longest * responses.length];
  };
  const counts = [...new Set(groups.map(({ responses }) => responses.length))].sort((a, b) => b - a);
  return counts.flatMap((count) =>
    piecesOf(
      groups.filter(({ responses }) => responses.length === count),
      extents,
      budget,
    ),
  );
}

/** Log-probability of every response token, without gradient: [K]. */
export function responseLogProbs(
  policy: Scorer,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  temperature: number,
): Float32Array {
  const { engine } = policy;
  return engine.noGrad(() =>
    engine.scope(() => {
      const { states, targets } = responseStates(policy, prompts, responses);
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]);
      const { head } = policy.weights;
      const out = new Float32Array(targets.length);
      const chunk = chunkTokens(engine, head.shape[0]!);
      for (let start = 0; start < targets.length; start += chunk) {
        const ids = targets.subarray(start, start + chunk);
        engine.scope(() => {
          const part = engine.narrow(states, 0, start, ids.length); // [k, D]
          const { logProb } = engine.logProbs(part, head, engine.tensor(ids, [ids.length]), {
            temperature,
            mask,
          });
          out.set(engine.floats(logProb), start);
        });
      }
      return out;
    }),
  );
}

/** Responses to one prompt that teach, with what the loss needs of them. */
export interface Lesson {
  /** Number of its prompt in the step, over all ranks. */
  readonly index: number;
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Sampled[]; // [G], or fewer of a group too long for one forward pass
  readonly advantage: readonly number[]; // [G]
  /** Log-probabilities of the reference, and of the policy before the step's updates; null where they are not needed. */
  readonly reference: Float32Array | null;
  readonly before: Float32Array | null;
}

/** A lesson whose responses exceed the token budget, as several of the same prompt; losses are sums over responses. */
export function divided<T extends Pick<Lesson, 'prompt' | 'responses' | 'advantage'>>(
  lesson: T,
  budget: number = TOKENS_AT_ONCE,
): T[] {
  const longest = lesson.responses.reduce((most, { ids }) => Math.max(most, ids.length), 1);
  const fit = Math.max(1, Math.floor((budget - lesson.prompt.ids.length) / longest));
  const parts = Math.ceil(lesson.responses.length / fit);
  if (parts === 1) return [lesson];
  const size = Math.ceil(lesson.responses.length / parts);
  return Array.from({ length: Math.ceil(lesson.responses.length / size) }, (_, part) => ({
    ...lesson,
    responses: lesson.responses.slice(part * size, (part + 1) * size),
    advantage: lesson.advantage.slice(part * size, (part + 1) * size),
  }));
}

/** Log-probabilities of each lesson's tokens under a policy, without gradient. */
export function logProbsOf(
  policy: Scorer,
  lessons: readonly Pick<Lesson, 'prompt' | 'responses'>[],
  options: { readonly temperature: number; readonly tokens?: number },
): Float32Array[] {
  const found = new Map<Pick<Lesson, 'prompt' | 'responses'>, Float32Array>();
  for (const piece of pieces(lessons, options.tokens)) {
    const all = responseLogProbs(
      policy,
      piece.map(({ prompt }) => prompt),
      piece.flatMap(({ responses }) => responses.map(({ ids }) => ids)),
      options.temperature,
    );
    let at = 0;
    for (const lesson of piece) {
      const count = lesson.responses.reduce((sum, { ids }) => sum + ids.length, 0);
      found.set(lesson, all.slice(at, at + count));
      at += count;
    }
  }
  return lessons.map((lesson) => found.get(lesson)!);
}

export function concatenated(parts: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
