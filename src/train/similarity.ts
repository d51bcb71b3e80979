/**
 * Similarity of responses to expert traces, the grounding part of TimerPO, from hidden states after the final norm. Options of `rl.timerpo`:
 *
 *   similarity  ot: exp(−W/τ) of the optimal transport between the tokens of both (AnomSeer); clip: cosine of their mean states, clamped
 *               to [0, 1] (AnomSeer's CLIP-style variant); truth: F1 of the facts of the trace that the response states, 0 for a series
 *               without facts (ours): no hidden states are compared; contrastive (ours): ot to the trace of the series less the mean
 *               of ot to the traces of the next CONTRASTS prompts of the step, reasoning tokens alone, in [−1, 1]
 *   credit      response: the similarity of a response goes to all its tokens (AnomSeer); token (ours): beside it, each compared token
 *               gets α·(mean e − e_t), e_t its transported cost over its mass, mean over the compared tokens; claim: with similarity
 *               truth, the verdict on each claim goes to the tokens of that claim alone (`claim-credit.ts`); both: response and claim
 *   anchor      trace: whole texts, the answer included; reasoning: on both sides the tokens between the think tags alone. A text in
 *               which no reasoning is found, because a tag is missing or nothing stands between them, takes part as a whole.
 *   context     none: the trace is encoded by itself, from position 0, as in the release; prompt: as a response to the prompt
 *   trace       expert: the trace of the series; generic: a text of the same style that is the same for every series
 */
import type { Engine } from '../engine/engine.ts';
import { mean } from '../ground/numbers.ts';
import type { Example } from '../ground/types.ts';
import { collate, type EncodedPrompt, promptBatch, responseSequence } from '../policy/batch.ts';
import { forward } from '../policy/forward.ts';
import type { Sampled } from '../policy/generate.ts';
import type { Policy } from '../policy/policy.ts';
import { TextStreamer, type Tokenizer } from '../policy/tokenizer.ts';
import { microBatches } from './micro-batch.ts';
import type { SampledGroup } from './rollout.ts';
import type { StatedClaims, Task } from './task.ts';
import { type HiddenStates, type TransportOptions, transport } from './transport.ts';

export interface SimilarityOptions extends TransportOptions {
  readonly similarity: 'ot' | 'clip' | 'truth' | 'contrastive';
  readonly credit: 'response' | 'token' | 'claim' | 'both';
  readonly anchor: 'trace' | 'reasoning';
  readonly context: 'none' | 'prompt';
  readonly trace: 'expert' | 'generic';
}

/** Tokens of a text; those from `from` up to `to`, at least one, are compared. */
interface Passage {
  readonly ids: Int32Array;
  readonly from: number;
  readonly to: number;
}

/** Half-open range of characters. */
type Range = readonly [start: number, end: number];

/** Place in the text at which each token ends: [T]. */
export function tokenEnds(tokenizer: Tokenizer, ids: Int32Array): Int32Array {
  const streamer = new TextStreamer(tokenizer);
  let at = 0;
  return ids.map((id) => {
    at += streamer.push(id).length;
    return at;
  });
}

/**
 * Finds the tokens that overlap a range of characters (a token may join the end of a tag with the text behind
 * it); null without any.
 * @param ends of the tokens, as `tokenEnds` has them
 */
export function tokensWithin(ends: Int32Array, [start, end]: Range): Range | null {
  const from = ends.findIndex((at) => at > start);
  if (from < 0 || (from === 0 ? 0 : ends[from - 1]!) >= end) return null;
  const last = ends.findIndex((at) => at >= end);
  return [from, last < 0 ? ends.length : last + 1];
}

/** Finds the tokens of one text that overlap a range, as `tokensWithin` does. */
export const tokensOf = (tokenizer: Tokenizer, ids: Int32Array, range: Range): Range | null =>
  tokensWithin(tokenEnds(tokenizer, ids), range);

/** Selects the compared tokens of a text, among its first `most` tokens. */
function passageOf(
  tokenizer: Tokenizer,
  reasoning: Task['reasoning'],
  { ids, text }: { readonly ids: Int32Array; readonly text: string },
  { anchor, similarity }: Pick<SimilarityOptions, 'anchor' | 'similarity'>,
  most = ids.length,
): Passage {
  const range = anchor === 'reasoning' || similarity === 'contrastive' ? reasoning(text) : null;
  const [from, to] = (range && tokensOf(tokenizer, ids, range)) ?? [0, ids.length];
  const kept = ids.subarray(0, Math.max(most, from + 1));
  return { ids: kept, from, to: Math.min(to, kept.length) };
}

/** Trace that the responses to one prompt are compared with. */
interface Anchor {
  readonly passage: Passage;
  /** Expert trace with the gold answer as a response, in steps that measure its similarity; null in others. */
  readonly gold: Passage | null;
  /** Traces of other series that the responses are contrasted with. */
  readonly others: readonly Passage[];
}

/** Maximum compared tokens of a trace (AnomSeer). */
export const TRACE_TOKENS = 512;
/** Maximum number of other traces that a response is contrasted with. */
export const CONTRASTS = 4;

/**
 * Returns the anchor of each group: [P].
 * @param gold true adds the gold response
 * @param othersOf examples that group p is contrasted with
 */
export function anchorsOf(
  policy: Pick<Policy, 'tokenizer' | 'encodeResponse'>,
  task: Pick<Task, 'trace' | 'genericTrace' | 'reasoning'>,
  groups: readonly Pick<SampledGroup, 'example'>[],
  options: SimilarityOptions,
  gold: boolean,
  othersOf: (p: number) => readonly Example[] = () => [],
): Anchor[] {
  const { tokenizer } = policy;
  const passage = (text: string): Passage =>
    passageOf(tokenizer, task.reasoning, { ids: tokenizer.encode(text), text }, options, TRACE_TOKENS);
  return groups.map(({ example }, p) => {
    const expert = gold || options.trace === 'expert' ? task.trace(example) : '';
    const response = { ids: gold ? policy.encodeResponse(expert) : new Int32Array(0), text: expert };
    return {
      passage: passage(options.trace === 'expert' ? expert : task.genericTrace),
      gold: gold ? passageOf(tokenizer, task.reasoning, response, options) : null,
      others: othersOf(p).map((other) => passage(task.trace(other))),
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

/** Gathers the compared states of a padded batch [B, T, D]: [B, longest, D]. Run inside a scope. */
function gathered(
  engine: Engine,
  states: HiddenStates['states'],
  passages: readonly Passage[],
): HiddenStates {
  const [rows, length, width] = states.shape as [number, number, number];
  const lengths = Int32Array.from(passages, ({ from, to }) => to - from);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  if (longest === length && passages.every(({ from }) => from === 0)) return { states, lengths };
  // Padding repeats a state of its row; it has no mass.
  const index = Int32Array.from({ length: rows * longest }, (_, i) => {
    const b = Math.floor(i / longest);
    const t = i % longest;
    return b * length + passages[b]!.from + (t < lengths[b]! ? t : 0);
  });
  const flat = engine.reshape(states, [rows * length, width]);
  const taken = engine.indexSelect(flat, engine.tensor(index, [index.length]));
  return { states: engine.reshape(taken, [rows, longest, width]), lengths };
}

/** Empty prompt: a text alone begins at position 0. */
const NOTHING = { ids: new Int32Array(0), positions: new Int32Array(0), images: [], next: 0 };

/** Grades the claims of all responses against the expert traces: [P·G]. */
export function truthOf(
  groups: readonly SampledGroup[],
  claimsOf: (response: Sampled, example: Example) => Pick<StatedClaims, 'f1'>,
): SimilarityResult {
  const similarity = Float64Array.from(
    groups.flatMap(({ example, responses }) =>
      responses.map((response) => claimsOf(response, example).f1 ?? 0),
    ),
  );
  return { similarity, gold: null, transport: null, tokenCosts: null };
}

/** Computes the hidden states of texts, alone or behind prompts: [P, S, D]. Run inside a scope, without gradient. */
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
  return gathered(engine, engine.reshape(hidden, [texts.batch, texts.length, dims.width]), passages);
}

/** Collects the hidden states that the rollouts kept: [B, T, D]. */
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

/** Maximum entries of cost matrices held at once, in float64. */
export const COST_ENTRIES = 1 << 23;

/** Group with its anchor. */
interface Comparison {
  /** Index of the group in the step. */
  readonly index: number;
  readonly group: SampledGroup;
  readonly anchor: Anchor;
  /** Compared tokens of each response: [G]. */
  readonly passages: readonly Passage[];
}

/** Divides groups into consecutive spans whose cost matrices are held together; groups are independent. */
function spans(comparisons: readonly Comparison[]): Comparison[][] {
  const out: Comparison[][] = [];
  let used = Number.POSITIVE_INFINITY;
  for (const comparison of comparisons) {
    const { anchor, passages } = comparison;
    const longest = passages.reduce((most, { from, to }) => Math.max(most, to - from), 0);
    const entries = passages.length * longest * (anchor.passage.to - anchor.passage.from);
    if (used + entries > COST_ENTRIES) {
      out.push([comparison]);
      used = entries;
    } else {
      out.at(-1)!.push(comparison);
      used += entries;
    }
  }
  return out;
}

/** Returns the lengths of a prompt and of the longest text behind it, by which micro-batches are divided. */
export function behindPrompt(prompt: EncodedPrompt, texts: readonly Int32Array[]): readonly number[] {
  return [prompt.ids.length, texts.reduce((most, ids) => Math.max(most, ids.length), 0)];
}

/** Similarity of all responses of a step, group after group. */
export interface SimilarityResult {
  /** [P·G], in [0, 1]; in [−1, 1] if contrastive. */
  readonly similarity: Float64Array;
  /** Similarity of each group's gold response: [P]; null in steps that do not measure it. */
  readonly gold: Float64Array | null;
  /** Diagnostics of the transport, [P·G] each; null without one. */
  readonly transport: Pick<ReturnType<typeof transport>, 'rowError' | 'tokens' | 'partners'> | null;
  /** With credit token: cost of each token of a response, NaN for those that are not compared: [P·G][T]; null otherwise. */
  readonly tokenCosts: readonly Float64Array[] | null;
}

/**
 * Advantages of single tokens by their transported costs, α·(mean e − e_t): [T]. They sum to zero over the compared tokens, the others
 * get 0.
 */
export function tokenCostAdvantages(costs: Float64Array, alpha: number): Float32Array {
  const compared = costs.filter((cost) => !Number.isNaN(cost));
  const centre = mean([...compared]);
  return Float32Array.from(costs, (cost) => (Number.isNaN(cost) ? 0 : alpha * (centre - cost)));
}

/**
 * Computes the similarity of all responses of a step (at least one group) to their anchors. `tokens`: maximum
 * per micro-batch.
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
      options.similarity !== 'clip'
        ? {
            rowError: empty(groups.length * size),
            tokens: empty(groups.length * size),
            partners: empty(groups.length * size),
          }
        : null,
    tokenCosts:
      options.credit === 'token' && options.similarity !== 'clip'
        ? groups.flatMap(({ responses }) =>
            responses.map(({ ids }) => new Float64Array(ids.length).fill(Number.NaN)),
          )
        : null,
  };
  const moving = { ...options, tokenCosts: result.tokenCosts !== null };
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
          const moved = transport(engine, responses, to, moving);
          put(
            result.similarity,
            contrasted(moved.similarity, together, responses, inContext ? prompts : null),
          );
          const [, width] = responses.states.shape as [number, number, number]; // T
          for (const [i, { index, passages }] of together.entries()) {
            if (moved.tokenCosts === null) break;
            for (const [g, { from, to: end }] of passages.entries()) {
              const first = (i * size + g) * width;
              const costs = moved.tokenCosts.subarray(first, first + end - from);
              result.tokenCosts![index * size + g]!.set(costs, from);
            }
          }
          for (const key of ['rowError', 'tokens', 'partners'] as const)
            put(result.transport[key], moved[key]);
        }
        if (result.gold === null) return;
        const golds = textStates(
          policy,
          together.map(({ anchor }) => anchor.gold!),
          prompts,
        );
        const goldSimilarity = // [P]
          options.similarity !== 'clip'
            ? transport(engine, golds, to, options).similarity
            : pooledCosine(engine, golds, to);
        together.forEach(({ index }, i) => {
          result.gold![index] = goldSimilarity[i]!;
        });
      }),
    );
  }
  return result;

  /** Subtracts from similarities [P·G] the mean of those to the traces of other series. Run inside a scope. */
  function contrasted(
    own: Float64Array,
    together: readonly Comparison[],
    responses: HiddenStates,
    prompts: readonly EncodedPrompt[] | null,
  ): Float64Array {
    const count = together[0]!.anchor.others.length; // the same for all groups of a step
    const out = Float64Array.from(own);
    for (let k = 0; k < count; k++) {
      const other = textStates(
        policy,
        together.map(({ anchor }) => anchor.others[k]!),
        prompts,
      );
      transport(engine, responses, other, options).similarity.forEach((value, b) => {
        out[b]! -= value / count;
      });
    }
    return out;
  }
}
