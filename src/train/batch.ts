/** Which hidden states of a padded batch predict which response tokens. */
import { collate, type EncodedPrompt, joined, responseSequence, type Sequence } from '../policy/batch.ts';
import type { ForwardInput } from '../policy/forward.ts';

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
