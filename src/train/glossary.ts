/**
 * All logged quantities in one table: definition, name in TRL, tag in TensorBoard. Metrics lines, `timeseer
 * runs --glossary` and event files use it; `eval/glossary.ts` adds evaluation. A missing key of `metrics.ts`
 * does not compile.
 */
import type { Completion, GroundingMetrics, RlMetrics, SftMetrics } from './metrics.ts';
import type { ValidationLine } from './validation.ts';

export interface LoggedName {
  readonly definition: string;
  /** Name in the logs of TRL's trainers (1.16) where they have the same quantity; the tag is then theirs, `train/NAME`. */
  readonly trl?: string;
  /** Tag in TensorBoard of what TRL does not have; absent: no curve. In tags of records `*` is the key inside. */
  readonly tag?: string;
}

/** Written with every line. */
const COMMON = {
  step: {
    definition: 'Number of the update (supervised) or of the step of rollouts (reinforcement), from 1.',
  },
  time: { definition: 'When the line was written, in seconds since 1970.' },
  learningRate: { definition: 'Learning rate of the step.', trl: 'learning_rate' },
  gradNorm: {
    definition:
      'Global norm of the gradient before clipping, of the last update of the step; null without one.',
    trl: 'grad_norm',
  },
  padding: {
    definition: 'Share of the places in forward passes of updates that no token fills.',
    tag: 'train/padding',
  },
} as const satisfies Record<string, LoggedName>;

/** Lines of sft/metrics.jsonl. */
export const SFT_NAMES: Readonly<Record<keyof SftMetrics | 'time', LoggedName>> = {
  ...COMMON,
  samples: { definition: 'Examples seen so far.', tag: 'train/samples' },
  loss: { definition: 'Mean −log π per response token of the batch, in nats.', trl: 'loss' },
  tokens: { definition: 'Response tokens of the batch.', tag: 'train/batch_tokens' },
  skipped: {
    definition: 'Updates left out because loss or gradient was not finite, so far.',
    tag: 'train/skipped_updates',
  },
  ms: {
    definition: 'Milliseconds of the step on rank 0 by phase: data (and pictures), gradient, update.',
    tag: 'time_ms/*',
  },
};

/** Lines of rl/metrics.jsonl. */
export const RL_NAMES: Readonly<
  Record<keyof RlMetrics | 'time' | `grounding.${keyof GroundingMetrics}`, LoggedName>
> = {
  ...COMMON,
  reward: {
    definition: 'Mean task reward of the sampled responses that have one.',
    trl: 'reward',
  },
  unrewarded: { definition: 'Responses without a reward, since no part of it applies to them.' },
  rewardStd: {
    definition: 'Standard deviation (n − 1) of the rewards of all responses of the step.',
    trl: 'reward_std',
  },
  parts: {
    definition: 'Mean of a part of the reward over the responses that have it.',
    trl: 'rewards/*/mean',
  },
  similarity: {
    definition:
      'Mean similarity of responses to the expert traces, exp(−transport cost / τ) or a cosine; null where no trace is read.',
    tag: 'train/similarity',
  },
  transportError: {
    definition: 'Largest |row sum − marginal| of any transport plan: how far Sinkhorn is from convergence.',
    tag: 'train/transport_error',
  },
  advantage: { definition: 'Root mean square of the advantages.', tag: 'train/advantage_rms' },
  orthogonal: {
    definition:
      'Root mean square of the orthogonal, trace-grounded part of the advantages, before its weight.',
    tag: 'train/orthogonal_rms',
  },
  distillation: {
    definition:
      'Mean divergence per token, in nats, from the teacher that sees the expert trace: rl.distillation.divergence, or its estimate at the ' +
      'sampled tokens; null without a teacher.',
    tag: 'train/distillation',
  },
  grounding: {
    definition: 'Whether the similarity to the traces carries information; null where no trace is read.',
  },
  'grounding.ratio': {
    definition:
      'Root mean square of the orthogonal part, with its weight, over that of the main part; null where that is 0.',
    tag: 'grounding/ratio',
  },
  'grounding.correlation': {
    definition:
      'Correlation of similarity and reward within groups; null where no group has different rewards.',
    tag: 'grounding/correlation',
  },
  'grounding.tokens': {
    definition:
      'Mean effective number of response tokens that carry mass: exp of the entropy of their marginal.',
    tag: 'grounding/tokens',
  },
  'grounding.partners': {
    definition:
      "Mean effective number of trace tokens that a response token's mass goes to: exp(H(plan) − H(rows)).",
    tag: 'grounding/partners',
  },
  'grounding.goldSimilarity': {
    definition:
      'Mean similarity of the gold response to the trace, every rl.timerpo.gatesEvery steps; null in others, as the two below.',
    tag: 'grounding/gold_similarity',
  },
  'grounding.goldFirst': {
    definition:
      'Share of groups in which no sampled response is nearer to the trace than the gold one; chance: 1 / (G + 1).',
    tag: 'grounding/gold_first',
  },
  'grounding.goldNearer': {
    definition:
      'Mean share of sampled responses that are farther from the trace than the gold one, equal ones by half; chance: 1/2.',
    tag: 'grounding/gold_nearer',
  },
  equalRewards: {
    definition: 'Share of groups whose rewards are all equal.',
    trl: 'frac_reward_zero_std',
  },
  allZero: {
    definition: 'Share of groups in which every reward is 0: prompts that are too hard.',
    tag: 'train/frac_groups_all_zero',
  },
  allFull: {
    definition: 'Share of groups in which every reward is 1: prompts that are solved.',
    tag: 'train/frac_groups_all_full',
  },
  resampled: {
    definition: 'Groups of equal rewards that were replaced by ones of further prompts.',
    tag: 'train/resampled_groups',
  },
  zeroVariance: {
    definition: 'Share of groups that are skipped, because every advantage is 0.',
    tag: 'train/frac_groups_skipped',
  },
  loss: {
    definition: 'Mean loss of the updates, over what rl.aggregation divides by: their tokens by default.',
    trl: 'loss',
  },
  kl: {
    definition:
      'Mean k3 estimate of the KL divergence from the reference policy, per token, at most 10 each; biased with rl.topP < 1; null without a reference (rl.kl: 0).',
    trl: 'kl',
  },
  entropy: { definition: 'Mean entropy of the next-token distribution, in nats per token.', trl: 'entropy' },
  clipped: {
    definition:
      'Share of tokens whose ratio was held back by clipping: with rl.loss ppo they have no policy gradient.',
    trl: 'clip_ratio/region_mean',
  },
  samplerGap: {
    definition:
      'Mean |log π of the trainer − log π of the sampler| per token: 0 up to rounding, more with an inference server.',
    trl: 'sampling/sampling_logp_difference/mean',
  },
  importance: {
    definition:
      'Mean weight of the tokens that an inference server sampled, π / π of the server, at most rl.server.cap; null where this process samples.',
    trl: 'sampling/importance_sampling_ratio/mean',
  },
  tokens: { definition: 'Mean length of the responses, in tokens.', trl: 'completions/mean_length' },
  unfinished: {
    definition: 'Share of responses that were cut off at rl.maxTokens.',
    trl: 'completions/clipped_ratio',
  },
  skipped: {
    definition: 'Updates of the step left out because loss or gradient was not finite.',
    tag: 'train/skipped_updates',
  },
  marked: {
    definition:
      'Mean share of the series that readable answers mark (predicted), and that gold answers do (gold).',
    tag: 'train/marked_share/*',
  },
  reasoning: {
    definition: 'Mean F1 of claims (claimF1) and share of reasonings that conclude their answer (agreement).',
    tag: 'train/reasoning/*',
  },
  lessons: {
    definition:
      'Share of responses with a false claim or left-out statement whose true text is known (corrections), and of prompts with a counterfactual (counterfactuals); null where neither is taught.',
    tag: 'train/lessons/*',
  },
  inspection: {
    definition:
      'Means over episodes of several turns: responses (turns), failed steps (failures), the share that end with an answer (answered), and the share of the prompt tokens whose cache is kept from the turn before (reused); by state, in groups with a success, the steps to it that GraphGPO estimates, the true ones, and the mean absolute difference (distance).',
    tag: 'train/inspection/*',
  },
  guards: {
    definition: 'Names of the guards that tripped; as a curve, how many.',
    tag: 'train/guards_tripped',
  },
  ms: {
    definition:
      'Milliseconds of the step by phase, mean over the workers: data, rollout, transport, reference, update.',
    tag: 'time_ms/*',
  },
};

/** Lines of rl/completions.jsonl: the responses to the first prompt of every rank. */
export const COMPLETION_NAMES: Readonly<Record<keyof Completion, LoggedName>> = {
  step: { definition: 'Number of the step.' },
  example: { definition: 'Number of the training example.' },
  seriesId: { definition: 'Its series.' },
  response: { definition: 'Text of the response.' },
  reward: { definition: 'Its task reward.' },
  parts: { definition: 'Parts of the reward, each in [0, 1].' },
  similarity: { definition: 'Its transport similarity to the expert trace; null without transport.' },
  advantage: { definition: 'Its advantage in the group: what the loss uses.' },
  notes: { definition: 'What rewards of the user say of it; absent where they say nothing.' },
  main: { definition: 'Part of the advantage that comes from the reward.' },
  orthogonal: {
    definition: 'Transport-grounded part of the advantage, before its weight; 0 without transport.',
  },
};

/** Lines of sft/validation.jsonl and rl/validation.jsonl; the metrics are those of the kind of answer. */
export const VALIDATION_NAMES: Readonly<Record<keyof ValidationLine, LoggedName>> = {
  step: { definition: 'Number of the update or step after which the policy was evaluated.' },
  examples: { definition: 'Validation examples that it answered, greedily.' },
  metrics: { definition: 'Mean of a metric over them.', tag: 'eval/*' },
};

/** Files of a stage that are drawn as curves. */
export type LogName = 'sft' | 'rl' | 'validation';

/** Logged names by file. */
export const LOG_NAMES: Readonly<Record<LogName, Readonly<Record<string, LoggedName>>>> = {
  sft: SFT_NAMES,
  rl: RL_NAMES,
  validation: VALIDATION_NAMES,
};

/** The entry of a key with dots between levels; inside a record with open keys (`parts.format`) that of the record. */
export function loggedName(log: LogName, key: string): LoggedName | null {
  const names = LOG_NAMES[log];
  if (Object.hasOwn(names, key)) return names[key]!;
  const outer = key.split('.')[0]!;
  const open = Object.hasOwn(names, outer) ? names[outer]! : null;
  return open !== null && (open.trl ?? open.tag ?? '').includes('*') ? open : null;
}

/** Tag of an entry in TensorBoard, with `*` for an open key; null: no curve. */
export const tagOf = ({ trl, tag }: LoggedName): string | null =>
  trl === undefined ? (tag ?? null) : `train/${trl}`;

/** Tag under which TensorBoard shows a key; null: it has no curve. */
export function tensorBoardTag(log: LogName, key: string): string | null {
  const entry = loggedName(log, key);
  if (entry === null) return `train/${key.replaceAll('.', '/')}`;
  return tagOf(entry)?.replace('*', key.slice(key.indexOf('.') + 1)) ?? null;
}
