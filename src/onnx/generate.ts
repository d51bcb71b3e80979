/** Batched sampling by onnxruntime: the same rows, limits and random streams as src/policy/generate.ts, the draws in JavaScript. */
import { drawToken } from '../ground/draw.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Group } from '../policy/decoding-batch.ts';
import {
  type DecodeOptions,
  type GenerateOptions,
  generateWith,
  type Row,
  type Sampled,
} from '../policy/generate.ts';
import { samplingMask } from '../policy/sampler.ts';
import { OnnxPolicy } from './policy.ts';

/** Rows that are decoded together. */
const ROWS = 64;
/** Logits of a prefill, which come for every token: 256 MB. */
const MOST_LOGITS = 2 ** 26;
/** Complete rows leave the batch when they are at least this share of it. */
const WORTH_LEAVING = 0.1;

/** Logits of a row as they are drawn from, into `scores`: those of tokens that it has seen penalised, and what must not be said hidden. */
function writeScores(
  scores: Float64Array,
  logits: Float32Array,
  mask: Float32Array,
  penalty: number,
  seen: ReadonlySet<number> | null,
): void {
  scores.set(logits);
  for (const id of seen ?? []) scores[id] = scores[id]! > 0 ? scores[id]! / penalty : scores[id]! * penalty;
  for (let v = 0; v < scores.length; v++) scores[v]! += mask[v]!;
}

/** A row in the batch: its prompt's padding, the position of its next token, and the tokens seen under a penalty. */
interface Slot {
  readonly row: Row;
  readonly prompt: EncodedPrompt;
  readonly pad: number;
  readonly seen: Set<number> | null;
}

/** Decodes rows of consecutive prompts until all are complete. */
async function decodeChunk(
  policy: OnnxPolicy,
  groups: readonly Group[],
  options: DecodeOptions,
  mask: Float32Array,
): Promise<void> {
  const prompts = groups.map(({ prompt }) => prompt);
  const rowsOf = groups.map(({ rows }) => rows);
  const { repetitionPenalty = 1, temperature = 1, signal, onTokens } = options;
  const { vocabulary, special } = policy.dims;
  const length = OnnxPolicy.longest(prompts);
  const encoded = await policy.prefill(prompts);
  const owners = rowsOf.flatMap((rows, p) => rows.map(() => p));
  let slots: Slot[] = rowsOf.flatMap((rows, p) =>
    rows.map((row) => ({
      row,
      prompt: prompts[p]!,
      pad: length - prompts[p]!.ids.length,
      seen: repetitionPenalty === 1 ? null : new Set(prompts[p]!.ids),
    })),
  );
  const scores = new Float64Array(vocabulary);
  let cache = policy.pick(encoded.cache, owners);
  let logits: (slot: number) => Float32Array = (slot) =>
    encoded.logits.subarray(owners[slot]! * vocabulary, (owners[slot]! + 1) * vocabulary);
  for (;;) {
    for (const [b, { row, seen }] of slots.entries()) {
      if (row.ended) continue;
      writeScores(scores, logits(b), mask, repetitionPenalty, seen);
      const { id, logProb } = drawToken(scores, temperature === 0 ? 0 : row.draw(), options);
      seen?.add(id);
      row.take(id, logProb);
      onTokens?.(row, Int32Array.of(id));
    }
    signal?.throwIfAborted();
    const alive = slots.flatMap(({ row }, b) => (row.ended ? [] : [b]));
    if (alive.length === 0) return;
    if (slots.length - alive.length >= WORTH_LEAVING * slots.length) {
      cache = policy.pick(cache, alive);
      slots = alive.map((b) => slots[b]!);
    }
    const next = await policy.step(
      slots.map(({ row }) => (row.ended ? special.pad : row.ids.at(-1)!)),
      slots.map(({ row, prompt }) => prompt.next + row.ids.length - 1),
      slots.map(({ pad }) => pad),
      cache,
    );
    cache = next.cache;
    logits = (slot) => next.logits.subarray(slot * vocabulary, (slot + 1) * vocabulary);
  }
}

/**
 * Samples the rows of groups until all have ended, as `decodeGroups` does. @throws ConfigError for a wrong
 * option; EngineError for NaN logits
 */
export async function decodeGroupsOnnx(
  policy: OnnxPolicy,
  groups: readonly Group[],
  options: DecodeOptions,
): Promise<void> {
  const { maxRows = ROWS } = options;
  const waiting = groups
    .map(({ prompt, rows }) => ({ prompt, rows: rows.filter((row) => !row.ended) }))
    .filter(({ rows }) => rows.length > 0);
  const [first] = waiting;
  if (first === undefined) return;
  const mask = samplingMask(policy, options, first.rows[0]!.limits.stops);
  for (let from = 0; from < waiting.length; ) {
    let [count, together, longest] = [0, 0, 0];
    while (from + count < waiting.length) {
      const { prompt, rows } = waiting[from + count]!;
      longest = Math.max(longest, prompt.ids.length);
      together += rows.length;
      const large = (count + 1) * longest * policy.dims.vocabulary > MOST_LOGITS || together > maxRows;
      if (count > 0 && large) break;
      count++;
    }
    await decodeChunk(policy, waiting.slice(from, from + count), options, mask);
    from += count;
  }
}

/**
 * Samples responses as `generate` does, from the same random streams; equal up to rounding. @throws as
 * `decodeGroupsOnnx`
 */
export const generateOnnx = (
  policy: OnnxPolicy,
  prompts: readonly EncodedPrompt[],
  options: Omit<GenerateOptions, 'hidden'>,
): Promise<Sampled[]> =>
  generateWith(policy, prompts, options, (groups, decoding) => decodeGroupsOnnx(policy, groups, decoding));
