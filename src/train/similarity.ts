/**
 * How near the responses of a step are to the expert traces: the time-series part of TimerPO, from hidden states after the final norm. What
 * is compared with what is chosen by name:
 *
 *   similarity  ot: exp(−W/τ) of the optimal transport between the tokens of both (AnomSeer); clip: cosine of their mean states, clamped
 *               to [0, 1] (AnomSeer's CLIP-style variant)
 *   anchor      trace: whole texts, the answer included; reasoning: on both sides the tokens between the think tags alone. A text in
 *               which no reasoning is found, because a tag is missing or nothing stands between them, takes part as a whole.
 *   context     none: the trace is encoded by itself, from position 0, as in the release; prompt: as a response to the prompt
 *   trace       expert: the trace of the series; generic: a text of the same style that is the same for every series
 */
import type { Engine } from '../engine/engine.ts';
import { collate, type EncodedPrompt, responseSequence } from '../policy/batch.ts';
import { forward } from '../policy/forward.ts';
import type { Policy } from '../policy/policy.ts';
import { TextStreamer, type Tokenizer } from '../policy/tokenizer.ts';
import { microBatches, promptBatch } from './micro-batch.ts';
import type { SampledGroup } from './rollout.ts';
import type { Task } from './task.ts';
import { type HiddenStates, type TransportOptions, transport } from './transport.ts';

export interface SimilarityOptions extends TransportOptions {
  readonly similarity: 'ot' | 'clip';
  readonly anchor: 'trace' | 'reasoning';
  readonly context: 'none' | 'prompt';
  readonly trace: 'expert' | 'generic';
}

/** Tokens of a text, and which of them are compared: `from` up to `to`, at least one. */
export interface Passage {
  readonly ids: Int32Array;
  readonly from: number;
  readonly to: number;
}

/** Half-open range of characters. */
type Range = readonly [start: number, end: number];

/**
 * The tokens that hold characters of a range, wholly or in part: byte-level tokens may join the end of a tag with what follows. Null where
 * there is none.
 */
export function tokensOf(tokenizer: Tokenizer, ids: Int32Array, [start, end]: Range): Range | null {
  const streamer = new TextStreamer(tokenizer);
  let from = -1;
  let to = -1;
  let at = 0;
  ids.forEach((id, k) => {
    const next = at + streamer.push(id).length;
    if (next > start && at < end) {
      if (from < 0) from = k;
      to = k + 1;
    }
    at = next;
  });
  return from < 0 ? null : [from, to];
}

/** What is compared of a text that is given with its tokens, of which `most` take part at most. */
function passageOf(
  tokenizer: Tokenizer,
  reasoning: Task['reasoning'],
  { ids, text }: { readonly ids: Int32Array; readonly text: string },
  { anchor }: Pick<SimilarityOptions, 'anchor'>,
  most = ids.length,
): Passage {
  const range = anchor === 'reasoning' ? reasoning(text) : null;
  const [from, to] = (range && tokensOf(tokenizer, ids, range)) ?? [0, ids.length];
  const kept = ids.subarray(0, Math.max(most, from + 1));
  return { ids: kept, from, to: Math.min(to, kept.length) };
}

/** What the responses to one prompt are compared with. */
export interface Anchor {
  readonly passage: Passage;
  /** The expert trace with the gold answer as a response, where its own similarity is wanted. */
  readonly gold: Passage | null;
}

/** Most tokens of a trace that take part (AnomSeer). */
export const TRACE_TOKENS = 512;

/** The anchor of each group; `gold`: with the gold response. */
export function anchorsOf(
  policy: Pick<Policy, 'tokenizer' | 'encodeResponse'>,
  task: Pick<Task, 'trace' | 'genericTrace' | 'reasoning'>,
  groups: readonly Pick<SampledGroup, 'example'>[],
  options: SimilarityOptions,
  gold: boolean,
): Anchor[] {
  const { tokenizer } = policy;
  return groups.map(({ example }) => {
    const expert = gold || options.trace === 'expert' ? task.trace(example) : '';
    const text = options.trace === 'expert' ? expert : task.genericTrace;
    const own = { ids: tokenizer.encode(text), text };
    const response = { ids: gold ? policy.encodeResponse(expert) : own.ids, text: expert };
    return {
      passage: passageOf(tokenizer, task.reasoning, own, options, TRACE_TOKENS),
      gold: gold ? passageOf(tokenizer, task.reasoning, response, options) : null,
    };
  });
}

/** Cosine of the mean states of each of B = P·G responses and of its prompt's anchor, clamped to [0, 1]: [B], in float64. */
export function pooledCosine(
  engine: Engine,
  responses: HiddenStates, // [B, T, D]
  anchors: HiddenStates, // [P, S, D]
): Float64Array {
  const pooled = ({ states, lengths }: HiddenStates) => {
    const [rows, length] = states.shape as [number, number, number];
    const weight = new Float64Array(rows * length);
    lengths.forEach((n, b) => {
      weight.fill(1 / n, b * length, b * length + n);
    });
    const mean = engine.matmul(engine.tensor(weight, [rows, 1, length]), engine.cast(states, 'float64')); // [B, 1, D]
    return engine.div(mean, engine.add(engine.reshape(engine.norm(mean), [rows, 1, 1]), NORM_EPSILON));
  };
  return engine.noGrad(() =>
    engine.scope(() => {
      const [rows, , width] = responses.states.shape as [number, number, number];
      const [prompts] = anchors.states.shape as [number, number, number];
      const from = engine.reshape(pooled(responses), [prompts, rows / prompts, width]); // [P, G, D]
      const to = engine.reshape(pooled(anchors), [prompts, width, 1]);
      return engine.doubles(engine.clamp(engine.matmul(from, to), 0, 1)); // [P, G, 1]
    }),
  );
}

/** Added to the norm of a mean state before dividing. */
const NORM_EPSILON = 1e-12;

/** States of a padded batch [B, T, D] at the places that take part. Run inside a scope. */
function at(engine: Engine, states: HiddenStates['states'], passages: readonly Passage[]): HiddenStates {
  const [rows, length, width] = states.shape as [number, number, number];
  const lengths = Int32Array.from(passages, ({ from, to }) => to - from);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  if (longest === length && passages.every(({ from }) => from === 0)) return { states, lengths };
  // Padding is the first place of its row: no mass is there.
  const index = Int32Array.from({ length: rows * longest }, (_, i) => {
    const b = Math.floor(i / longest);
    const t = i % longest;
    return b * length + passages[b]!.from + (t < lengths[b]! ? t : 0);
  });
  const flat = engine.reshape(states, [rows * length, width]);
  const taken = engine.indexSelect(flat, engine.tensor(index, [index.length]));
  return { states: engine.reshape(taken, [rows, longest, width]), lengths };
}

/** Nothing in front: a text alone stands from position 0. */
const NOTHING = { ids: new Int32Array(0), positions: new Int32Array(0), images: [], next: 0 };

/** Hidden states of texts, each alone or behind a prompt: [P, S, D]. Run inside a scope, without gradient. */
function textStates(
  policy: Policy,
  passages: readonly Passage[],
  prompts: readonly EncodedPrompt[] | null,
): HiddenStates {
  const { engine, dims } = policy;
  const { pad } = dims.special;
  const texts = collate(
    passages.map(({ ids }, p) => responseSequence(prompts?.[p] ?? NOTHING, ids)),
    pad,
  );
  const prefix = prompts === null ? undefined : forward(policy, promptBatch(prompts, pad)).cache;
  const { hidden } = forward(policy, { ...texts, prefix, useCache: false }); // [P·S, D]
  return at(engine, engine.reshape(hidden, [texts.batch, texts.length, dims.width]), passages);
}

/** Hidden states that the rollouts kept: [B, T, D]. */
function rolloutStates({ engine, dims }: Policy, comparisons: readonly Comparison[]): HiddenStates {
  const rows = comparisons.flatMap(({ group, passages }) =>
    group.responses.map(({ hidden }, g) => ({ hidden, ...passages[g]! })),
  );
  const lengths = Int32Array.from(rows, ({ from, to }) => to - from);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  const data = new Float32Array(rows.length * longest * dims.width);
  rows.forEach(({ hidden, from, to }, b) => {
    data.set(hidden.subarray(from * dims.width, to * dims.width), b * longest * dims.width);
  });
  return { states: engine.tensor(data, [rows.length, longest, dims.width]), lengths };
}

/** Entries of the cost matrices that are held at once, in float64. */
export const COST_ENTRIES = 1 << 23;

/** A group and what its responses are compared with. */
interface Comparison {
  /** Of the step. */
  readonly index: number;
  readonly group: SampledGroup;
  readonly anchor: Anchor;
  /** What takes part of each response: [G]. */
  readonly passages: readonly Passage[];
}

/** Consecutive groups whose cost matrices are held together; groups are independent. */
function spans(comparisons: readonly Comparison[]): Comparison[][] {
  const out: Comparison[][] = [];
  let used = Number.POSITIVE_INFINITY;
  for (const one of comparisons) {
    const { from, to } = one.anchor.passage;
    const longest = one.passages.reduce((most, passage) => Math.max(most, passage.to - passage.from), 0);
    const entries = one.passages.length * longest * (to - from);
    if (used + entries > COST_ENTRIES) {
      out.push([one]);
      used = entries;
    } else {
      out.at(-1)!.push(one);
      used += entries;
    }
  }
  return out;
}

/** Tokens of a prompt and of the longest text that is encoded behind it: what goes through the policy at once is divided by them. */
export function behindPrompt(prompt: EncodedPrompt, texts: readonly Int32Array[]): readonly number[] {
  return [prompt.ids.length, texts.reduce((most, ids) => Math.max(most, ids.length), 0)];
}

/** Of all responses of a step, group after group. */
export interface SimilarityResult {
  /** [P·G], in [0, 1]. */
  readonly similarity: Float64Array;
  /** Similarity of each group's gold response: [P]; null where it was not asked for. */
  readonly gold: Float64Array | null;
  /** What the transport says of itself, [P·G] each; null without one. */
  readonly transport: Pick<ReturnType<typeof transport>, 'rowError' | 'tokens' | 'partners'> | null;
}

/**
 * Similarity of all responses of a step, at least one group, to the anchors of their groups. `tokens`: most that go through the policy at
 * once where texts are encoded behind prompts; `MICRO_BATCH_TOKENS` when absent.
 */
export function similarityTo(
  policy: Policy,
  groups: readonly SampledGroup[],
  anchors: readonly Anchor[],
  reasoning: Task['reasoning'],
  options: SimilarityOptions,
  tokens?: number,
): SimilarityResult {
  const { engine, tokenizer } = policy;
  const comparisons = groups.map(
    (group, index): Comparison => ({
      ...{ index, group, anchor: anchors[index]! },
      passages: group.responses.map((response) => passageOf(tokenizer, reasoning, response, options)),
    }),
  );
  const inContext = options.context === 'prompt';
  const behind = inContext || anchors.some(({ gold }) => gold !== null);
  const batches = behind
    ? microBatches(
        comparisons,
        ({ group, anchor: { passage, gold } }) =>
          behindPrompt(group.prompt, [passage.ids, ...(gold === null ? [] : [gold.ids])]),
        tokens,
      )
    : [comparisons];
  const size = groups[0]!.responses.length; // G
  const empty = (count: number): Float64Array => new Float64Array(count);
  const result = {
    similarity: empty(groups.length * size),
    gold: anchors[0]!.gold === null ? null : empty(groups.length),
    transport:
      options.similarity === 'ot'
        ? {
            rowError: empty(groups.length * size),
            tokens: empty(groups.length * size),
            partners: empty(groups.length * size),
          }
        : null,
  };
  for (const together of batches.flatMap(spans)) {
    engine.noGrad(() =>
      engine.scope(() => {
        const prompts = together.map(({ group }) => group.prompt);
        const to = textStates(
          policy,
          together.map(({ anchor }) => anchor.passage),
          inContext ? prompts : null,
        );
        const responses = rolloutStates(policy, together);
        const put = (into: Float64Array, values: Float64Array): void =>
          together.forEach(({ index }, i) => {
            into.set(values.subarray(i * size, (i + 1) * size), index * size);
          });
        if (result.transport === null) put(result.similarity, pooledCosine(engine, responses, to));
        else {
          const own = transport(engine, responses, to, options);
          put(result.similarity, own.similarity);
          for (const key of ['rowError', 'tokens', 'partners'] as const) put(result.transport[key], own[key]);
        }
        if (result.gold === null) return;
        const golds = textStates(
          policy,
          together.map(({ anchor }) => anchor.gold!),
          prompts,
        );
        const near =
          options.similarity === 'ot'
            ? transport(engine, golds, to, options).similarity
            : pooledCosine(engine, golds, to);
        together.forEach(({ index }, i) => {
          result.gold![index] = near[i]!;
        });
      }),
    );
  }
  return result;
}
