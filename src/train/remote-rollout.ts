/**
 * Rollouts on an inference server. Server and trainer round differently, so a token was drawn from a slightly other distribution μ: the
 * trainer computes the old log-probabilities itself, as with bfloat16 weights, and weights advantages by min(π_old / μ, cap) (truncated importance sampling; Yao et al. 2025, "Your efficient RL framework secretly
 * brings you off-policy RL training", as in TRL and verl).
 */
import { TimeseerError } from '../ground/errors.ts';
import { meanOrNull } from '../ground/numbers.ts';
import type { Example } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Sampled } from '../policy/generate.ts';
import type { Policy } from '../policy/policy.ts';
import { groupMicroBatches, owners, responseStates } from './micro-batch.ts';

/** Prompt that a server is asked to answer. */
export interface RemotePrompt {
  readonly example: Example;
  /** Index of the example, which keys the seed. */
  readonly index: number;
  /** Prompt as this process encodes it; the server must encode it alike. */
  readonly prompt: EncodedPrompt;
}

export interface RemoteOptions {
  readonly group: number;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
}

/** Response as the server sampled it: [T]. */
export interface RemoteResponse {
  readonly ids: Int32Array;
  /** Log-probabilities under the server's distribution. */
  readonly logProbs: Float32Array;
  /** False when it was cut off. */
  readonly finished: boolean;
}

export interface RemoteSampler {
  /** Largest weight of a token. */
  readonly cap: number;
  /** Hands the policy over as it is before step `step`. Collective. */
  readonly update: (step: number) => Promise<void>;
  /** Samples G responses to each prompt: [P][G]. @throws RolloutStopped once the stage is to stop; errors of the server */
  readonly sample: (
    asked: readonly RemotePrompt[],
    options: RemoteOptions,
  ) => Promise<readonly (readonly RemoteResponse[])[]>;
}

/** Error of a wait for a server that ended because the stage is to stop. */
export class RolloutStopped extends Error {}

/** Turns that error into null. */
export function nullIfStopped(error: unknown): null {
  if (error instanceof RolloutStopped) return null;
  throw error;
}

/**
 * Samples G responses to each prompt on a server. With `hidden` their hidden states are computed here.
 * @throws TimeseerError for tokens of another vocabulary; what `sample` throws
 */
export async function sampleRemotely(
  policy: Policy,
  remote: RemoteSampler,
  asked: readonly RemotePrompt[],
  options: RemoteOptions & { readonly hidden: boolean; readonly tokens?: number },
): Promise<Sampled[]> {
  const answered = await remote.sample(asked, options);
  const { tokenizer, dims } = policy;
  const { end } = dims.special;
  if (answered.flat().some(({ ids }) => ids.some((id) => id >= dims.vocabulary)))
    throw new TimeseerError('rl.server: sends tokens beyond the vocabulary: it serves another model');
  const hidden = options.hidden ? hiddenStates(policy, asked, answered, options.tokens) : null;
  return answered.flatMap((responses, prompt) =>
    responses.map(
      ({ ids, finished, logProbs }, sample): Sampled => ({
        ...{ prompt, sample, ids, finished, logProbs },
        text: tokenizer.decode([...(finished && ids.at(-1) === end ? ids.subarray(0, -1) : ids)]),
        hidden: hidden === null ? new Float32Array(0) : hidden[prompt]![sample]!,
      }),
    ),
  );
}

/** Computes hidden states with each response token as the input: [P][G][T · D]. */
function hiddenStates(
  policy: Policy,
  asked: readonly RemotePrompt[],
  answered: readonly (readonly RemoteResponse[])[],
  tokens?: number,
): Float32Array[][] {
  const { engine, dims } = policy;
  const groups = asked.map(({ prompt }, p) => ({
    ...{ prompt, p },
    // One token more: only tokens before the last are inputs.
    responses: answered[p]!.map(({ ids }) => ({ ids: Int32Array.of(...ids, dims.special.end) })),
  }));
  const out: Float32Array[][] = asked.map(() => []);
  for (const microBatch of groupMicroBatches(groups, tokens)) {
    const prompts = microBatch.map(({ prompt }) => prompt);
    const ids = microBatch.flatMap(({ responses }) => responses.map((response) => response.ids));
    const of = owners(microBatch.map(({ responses }) => responses));
    const states = engine.noGrad(() =>
      engine.scope(() =>
        engine.floats(responseStates(policy, prompts, ids, undefined, undefined, of).states),
      ),
    ); // [Σ (T + 1) · D]: that at place k predicts token k
    let at = 0;
    for (const { p, responses } of microBatch) {
      for (const { ids: longer } of responses) {
        out[p]!.push(states.slice((at + 1) * dims.width, (at + longer.length) * dims.width));
        at += longer.length;
      }
    }
  }
  return out;
}

/** Weights min(π_old / μ, cap) of tokens from their log-probabilities under the policy before the updates and under the server: [K]. */
export const importanceWeights = (old: Float32Array, served: Float32Array, cap: number): Float32Array =>
  old.map((value, k) => Math.min(cap, Math.exp(value - served[k]!)));

/** Mean |log π − log μ| beyond which the server holds another policy; rounding to 16 bits gives .01 to .05. */
const OTHER_POLICY = 0.5;
/** Smallest such mean in which a temperature shows. */
const SHOWS = 0.02;
/** Log-probabilities of tokens that are masked in training lie far below. */
const MASKED = -1e6;

/** Mean |log π − log μ| of the tokens that are not masked; 0 for none. */
function gapOf(own: Float32Array, served: Float32Array): number {
  const gaps = [...own].flatMap((value, k) => (value < MASKED ? [] : Math.abs(value - served[k]!)));
  return meanOrNull(gaps) ?? 0;
}

/**
 * Checks the server's log-probabilities against those of the policy that it was given; `atOne` computes the latter at temperature 1.
 * @throws TimeseerError for those of another policy, or of another temperature
 */
export function checkServed(
  own: Float32Array,
  served: Float32Array,
  { temperature, atOne }: { readonly temperature: number; readonly atOne: () => Float32Array },
): void {
  const gap = gapOf(own, served);
  if (temperature !== 1 && gap > SHOWS && gapOf(atOne(), served) < gap / 2) {
    throw new TimeseerError(
      `rl.server: sends log-probabilities at temperature 1, and rl.temperature is ${temperature}; ` +
        'start vLLM with --logprobs-mode processed_logprobs, or set rl.temperature=1',
    );
  }
  if (!(gap <= OTHER_POLICY)) {
    throw new TimeseerError(
      `rl.server: serves another policy: its log-probabilities differ from those of the policy in training by ${gap.toFixed(2)} ` +
        `per token, at most ${OTHER_POLICY} is expected; serve the checkpoint that this stage starts from`,
    );
  }
}
