/**
 * Reinforcement learning from the task reward: TimerPO (AnomSeer), GRPO and related estimators, selected by name. Every rank runs this program on its
 * share of the prompts. One step:
 *
 *   1. sample prompts                           6. advantages; a group is skipped only if all of them are zero
 *   2. G responses to each, with hidden states  7. reference log-probabilities
 *   3. score; replace equal groups if asked to  8. policy loss + KL − entropy, backward
 *   4. hidden states of the expert traces       9. reduce over ranks, clip, AdamW
 *   5. similarity by optimal transport         10. guards, log, checkpoint
 *
 * Departures from the papers and their releases:
 * - AnomSeer trains without a supervised stage, this follows one.
 * - Prompts are encoded once per group, not once per response (exact).
 * - The anchor of the transport is the whole trace with its answer and class, because the short style states them there and
 *   not in its reasoning; `rl.timerpo.anchor: reasoning` takes the reasoning alone.
 * - Ratio, KL and entropy are of the distribution after temperature and vocabulary mask. With topP < 1 that is more than what is
 *   sampled: the nucleus is not renormalised into them (nor is it in verl and TRL), as its edge moves with the weights and a token
 *   that leaves it would have a ratio of 0. What it costs: a token's weight is too high by a factor of up to 1/topP, and the
 *   mean of k3 is biased. A run warns of it when it begins.
 * - KL and entropy, and the tokens that means are taken over, count only in groups that are not skipped.
 * - Means are over all tokens of an update (`rl.aggregation`); the releases average the means of micro-batches, in which short
 *   responses weigh more. `dr_grpo` takes the same mean unless `rl.aggregation` is `constant`, responses × longest response, as Liu et
 *   al. have it: within an update tokens weigh alike either way, but with a mean the gradient does not grow with the responses' lengths.
 * - `sequence_mean` is over responses of groups that are not skipped; the constant counts all.
 * - GSPO's and KPO's ratios reach the gradient through the token's own log-probability (`policy-loss.ts`), as in verl; TRL differentiates
 *   the mean of a response, which is the same sum where the response has one advantage.
 * - With `rl.topEntropy` tokens are chosen once per step, by the policy before its updates and over all ranks; TRL chooses in every
 *   micro-batch. The entropy bonus is divided as the loss is; TRL divides it by the number of chosen tokens.
 * - `rl.resample` replaces groups of equal rewards prompt by prompt, for so many rounds; DAPO samples whole batches until enough groups
 *   differ. Reward and shares of equal groups are logged of the prompts that came first, as are the parts and lengths of responses.
 * - A divergence in the reward (`rl.klIn`) is summed over a response and taken from its reward before the advantages, as in TRL's RLOO.
 * - k3 is held at 10 per token, as in the releases; its log-ratio at 20 before it, as in later versions of verl.
 * - Beside an advantage, or in its place, the policy can learn from itself with the expert trace in its prompt (`distillation.ts`). Then no group is
 *   skipped.
 * - Warm-up and cosine (the releases: constant); AdamW's β are (.9, .95) and its weight decay 0 (theirs: (.9, .999) and .01);
 *   several epochs per step are possible.
 * - A response to which no part of the reward applies has none: it is left out of the means of its group, and its advantage is 0. Its tokens
 *   still count in the divisor of the loss, in KL and entropy. A group of such responses alone is skipped.
 * - Answers are read as the releases read them; the format is judged more strictly (`src/tasks/response.ts`).
 * The quickstart's sizes (16 prompts × 16 responses, learning rate 2e-4) suit a policy of a million parameters.
 */

import type { Tensor } from '../engine/engine.ts';
import { TimeseerError } from '../ground/errors.ts';
import type { Example } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Sampled } from '../policy/generate.ts';
import { type AdvantageOptions, advantagesOf, isZeroVariance, readsTraces } from './advantage.ts';
import { type DistillationOptions, divergenceTo, type Teacher } from './distillation.ts';
import { alarmsOf, checkAlarms, type GuardedStep, type GuardOptions } from './guards.ts';
import { BEGINNING, checkSkipped, type Learner, type StageStart } from './learner.ts';
import type { TokenLoss } from './loss.ts';
import { type Completion, completionsOf, type RlMetrics, rewardsOf, StepMeter } from './metrics.ts';
import {
  concatenate,
  groupLogProbs,
  groupMicroBatches,
  type ResponseStates,
  responseStates,
  type Scorer,
  splitGroup,
  type TrainingGroup,
  tokenValues,
} from './micro-batch.ts';
import { cosineSchedule, type LearningRateOptions } from './optimizer.ts';
import {
  AGGREGATIONS,
  type Aggregation,
  entropyThreshold,
  klSum,
  type PolicyLossOptions,
  policyLoss,
  RATIOS,
  type RatioLevel,
  type RatioOptions,
} from './policy-loss.ts';
import {
  type RolloutGroup,
  type RolloutOptions,
  rollout,
  type SampledGroup,
  startRollout,
} from './rollout.ts';
import { anchorsOf, type SimilarityOptions, type SimilarityResult, similarityTo } from './similarity.ts';
import { PromptEncoder, type Task } from './task.ts';
import type { Validation } from './validation.ts';

export interface RlOptions
  extends LearningRateOptions,
    PolicyLossOptions,
    RatioOptions,
    Pick<AdvantageOptions, 'advantage' | 'normalise'>,
    Pick<RolloutOptions, 'group' | 'temperature' | 'topP' | 'maxTokens' | 'rows' | 'schedule'> {
  /** Steps of the stage, each with fresh rollouts. */
  readonly steps: number;
  /** Prompts per step, over all workers. */
  readonly prompts: number;
  readonly timerpo: AdvantageOptions['timerpo'] &
    SimilarityOptions & {
      /** Steps between measurements of the gold response's similarity; 0: never. */
      readonly gatesEvery: number;
    };
  readonly distillation: DistillationOptions;
  /** Rounds in which groups of equal rewards are replaced. */
  readonly resample: number;
  /** Mini-batches of an epoch, one update each; divides `prompts`. */
  readonly miniBatches: number;
  /** Epochs over the rollouts of a step. */
  readonly epochs: number;
  /** Level of the probability ratio, in `RATIOS`. */
  readonly ratio: RatioLevel;
  /** Mean of the loss, in `AGGREGATIONS`. */
  readonly aggregation: Aggregation;
  /** Place of the KL penalty. */
  readonly klIn: 'loss' | 'reward';
  /** Share of the tokens, those of highest entropy, that have a policy gradient. */
  readonly topEntropy: number;
  readonly guards: GuardOptions;
  /** Steps between checkpoints. */
  readonly checkpointEvery: number;
  /** Tokens that go through the policy at once in an update, padding included; default: `MICRO_BATCH_TOKENS`. */
  readonly tokens?: number;
}

export interface RlHooks {
  /** Called on rank 0 after every step. */
  readonly onStep: (metrics: RlMetrics) => void;
  /** Called on every rank with the responses of its first prompt. */
  readonly onCompletions: (completions: readonly Completion[]) => void;
  /** Called on rank 0 while the other ranks wait: writes a checkpoint. */
  readonly save: (at: StageStart) => void;
  /** Evaluation while it trains. */
  readonly validation?: Validation | undefined;
}

/** Warnings about a combination of options, one sentence each. */
export function cautions(
  options: Pick<RlOptions, 'topP' | 'ratio' | 'aggregation' | 'kl' | 'klEstimator' | 'distillation'>,
): string[] {
  const { topP, ratio, aggregation, kl, klEstimator, distillation } = options;
  const out: string[] = [];
  if (topP !== 1) {
    out.push(
      `rl.topP is ${topP}: responses are sampled from the nucleus, but ratio, KL and entropy are of the full distribution, ` +
        'so the gradient is biased; 1 is exact',
    );
  }
  if (ratio === 'sequence' && aggregation !== 'sequence_mean') {
    out.push('rl.ratio is sequence: GSPO averages over responses; rl.aggregation: sequence_mean does');
  }
  if (kl > 0 && klEstimator === 'k1') {
    out.push(
      'rl.klEstimator is k1: its gradient is 0 in expectation, so that nothing holds the policy; k2 and k3 do',
    );
  }
  if (distillation.weight > 0) {
    out.push(
      'rl.distillation: the teacher reads the expert trace in its prompt; a policy that was never taught to, as a small one, teaches ' +
        'nonsense: watch the reward and the format of the first steps',
    );
  }
  return out;
}

/** True for a group whose rewards are all equal: nothing can be learnt from them. */
const hasEqualRewards = ({ scores }: RolloutGroup): boolean => {
  const rewards = rewardsOf(scores);
  return rewards.every((reward) => reward === rewards[0]);
};

/**
 * Number of the example that takes the place of prompt `place` of a step in a round of resampling: those of all steps come first, so that
 * replacements leave them as they are. A function of the step alone, so that a resumed run asks the same.
 */
export function replacement(
  { steps, prompts, resample }: Pick<RlOptions, 'steps' | 'prompts' | 'resample'>,
  step: number,
  round: number,
  place: number,
): number {
  return steps * prompts + (step * resample + round - 1) * prompts + place;
}

/**
 * Runs from `start`, before which the steps of `history` were, and returns the number of steps that are done. `reference` is the policy that the
 * stage began with: of the KL penalty, and the teacher where that is the initial one; null where neither is wanted. Collective.
 */
export async function rl(
  learner: Learner,
  reference: Scorer | null,
  task: Task,
  options: RlOptions,
  seed: number,
  hooks: RlHooks,
  start: StageStart = BEGINNING,
  history: readonly GuardedStep[] = [],
): Promise<number> {
  const { policy, workers } = learner;
  const { engine } = policy;
  const encoder = new PromptEncoder(policy);
  const grounded = readsTraces(options);
  // Sampler and trainer compute the same in float32. In bfloat16 they round differently, so that the ratio of an update on
  // policy would not be 1 with the sampler's log-probabilities: there the trainer's own are the old ones.
  const rounded = policy.flat.dtype === 'bfloat16';
  const penalised = options.kl > 0 ? reference : null;
  const { distillation } = options;
  const current = distillation.teacher === 'current' ? policy : reference;
  const teacher = distillation.weight > 0 ? current : null;
  if (distillation.weight > 0 && teacher === null) {
    throw new TimeseerError('rl: the initial teacher of rl.distillation is the reference, and there is none');
  }
  const updates = options.epochs * options.miniBatches;
  // What the loss holds the policy to; a divergence in the reward is taken from it beforehand.
  const holding = options.klIn === 'loss' ? penalised : null;
  const { nonFinite } = options.guards;
  const watched = [...history];
  let { skippedInARow } = start;

  for (let step = start.step; step < options.steps; step++) {
    if (workers.stopRequested() || hooks.validation?.ends(step) === true) {
      save(step);
      return step;
    }
    const learningRate = cosineSchedule(step, options.steps, options);
    const meter = new StepMeter(step + 1, learningRate, Object.keys(task.weights), task.hosted);
    // 1. prompts
    const [from, to] = workers.shard(options.prompts);
    const numbers = Array.from({ length: to - from }, (_, i) => step * options.prompts + from + i);
    const examples = numbers.map((index) => task.example(index));
    const prompts = await promptsOf(examples);
    meter.lap('data');
    if (step === start.step && engine.info.device !== 'cpu')
      rehearse(prompts, await teacherPromptsOf(examples));
    // 2. and 3. responses and their scores
    const asked = { ...options, seed, hidden: grounded };
    const first = await startRollout(policy, examples, prompts, numbers, task, asked);
    meter.lap('rollout');
    // A reward that takes its time does so while traces are compared, unless which groups remain depends on it.
    const waits = task.hosted === true && options.resample === 0;
    const similar = waits ? compare(first.groups, step, meter) : null;
    const groups = await first.scored();
    meter.lap('rollout');
    meter.responses(groups);
    meter.marks(groups, task.marked);
    for (let round = 1; round <= options.resample; round++) {
      const places = groups.flatMap((group, i) => (hasEqualRewards(group) ? [i] : []));
      if (places.length === 0) break;
      const further = places.map((i) => replacement(options, step, round, from + i));
      const others = further.map((index) => task.example(index));
      const found = await rollout(policy, others, await promptsOf(others), further, task.score, asked);
      meter.resampled(places.length);
      places.forEach((i, k) => {
        groups[i] = found[k]!;
        numbers[i] = further[k]!;
      });
      meter.lap('rollout');
    }
    // 4. and 5. similarity to the expert traces
    const compared = waits ? similar : compare(groups, step, meter);
    if (compared !== null) meter.similarity(groups, compared);
    meter.lap('transport');
    const teacherPrompts = await teacherPromptsOf(groups.map(({ example }) => example));
    meter.lap('data');
    // 6. advantages
    const penalties =
      options.klIn === 'reward' && penalised !== null ? klPenalties(groups, penalised, meter) : null;
    const records = groups.map(({ example, responses, scores }, p) => ({
      rewards: scores.map((score, g) =>
        score === null ? null : score.total - (penalties === null ? 0 : penalties[p]![g]!),
      ),
      parts: scores.map((score) => score?.parts ?? {}),
      lengths: responses.map(({ ids }) => ids.length),
      similarity: scores.map((_, g) => compared?.similarity[p * options.group + g] ?? 0),
      task: example.task,
    }));
    const advantages = advantagesOf(records, { ...options, weights: task.weights }, workers);
    meter.advantages(advantages);
    const kept = groups.flatMap(({ prompt, responses }, p) => {
      if (isZeroVariance(advantages[p]!) && teacher === null) return [];
      const { advantage } = advantages[p]!;
      const teacherPrompt = teacherPrompts[p] ?? null;
      return splitGroup({ index: from + p, prompt, teacherPrompt, responses, advantage }, options.tokens);
    });
    // 7. log-probabilities of the reference, and old ones
    const referenceLogProbs = holding === null ? null : groupLogProbs(holding, kept, options);
    const oldLogProbs = rounded && updates > 1 ? groupLogProbs(policy, kept, options) : null;
    const entropies = options.topEntropy < 1 ? groupLogProbs(policy, kept, options, 'entropy') : null;
    const training = kept.map(
      (group, i): TrainingGroup => ({
        ...group,
        referenceLogProbs: referenceLogProbs?.[i] ?? null,
        oldLogProbs: oldLogProbs?.[i] ?? null,
        entropies: entropies?.[i] ?? null,
      }),
    );
    const least =
      entropies === null
        ? -Infinity
        : entropyThreshold(workers.gather(concatenate(entropies)), options.topEntropy);
    meter.lap('reference');
    // 8. and 9. loss and updates
    for (let epoch = 0; epoch < options.epochs; epoch++) {
      for (let mini = 0; mini < options.miniBatches; mini++) {
        const chosen = training.filter(({ index }) => index % options.miniBatches === mini);
        const count = { tokens: 0, responses: 0 };
        for (const microBatch of groupMicroBatches(chosen, options.tokens)) {
          count.tokens += accumulate(microBatch, meter, least);
          for (const { responses } of microBatch) count.responses += responses.length;
        }
        const [tokens, responses] = workers.allReduce([count.tokens, count.responses]) as [number, number];
        if (tokens === 0) continue; // every group of every rank has zero variance
        const most = (options.prompts / options.miniBatches) * options.group * options.maxTokens;
        const denominator = AGGREGATIONS[options.aggregation].denominator({ tokens, responses, most });
        const report = learner.update(denominator, learningRate);
        meter.update(report, denominator / workers.size);
        skippedInARow = report.skipped ? skippedInARow + 1 : 0;
      }
    }
    meter.lap('update');
    // 10. guards, log and checkpoint
    const metrics = meter.reduce(workers);
    watched.push(metrics);
    const alarms = alarmsOf(watched, options.guards);
    if (workers.rank === 0) hooks.onStep({ ...metrics, guards: alarms.map(({ name }) => name) });
    const [shown] = groups;
    hooks.onCompletions(
      shown === undefined
        ? []
        : completionsOf(step + 1, numbers[0]!, shown, advantages[0]!, compared?.similarity),
    );
    if (nonFinite.reaction === 'stop') checkSkipped('rl', skippedInARow, nonFinite.limit, step + 1);
    checkAlarms(alarms, options.guards, step + 1);
    // Before the checkpoint: what resumes from one finds all that was to be evaluated up to there.
    hooks.validation?.take(step + 1);
    if ((step + 1) % options.checkpointEvery === 0 && step + 1 < options.steps) save(step + 1);
  }
  save(options.steps);
  return options.steps;

  async function promptsOf(examples: readonly Example[]): Promise<EncodedPrompt[]> {
    const out = [];
    for (const one of examples) out.push(encoder.encode(await task.picture(one), task.instruction(one)));
    return out;
  }

  /** Similarity of responses to the expert traces; null where none is read. */
  function compare(groups: readonly SampledGroup[], step: number, meter: StepMeter): SimilarityResult | null {
    if (!grounded || groups.length === 0) return null;
    const { gatesEvery } = options.timerpo;
    const gated = gatesEvery > 0 && step % gatesEvery === 0;
    const anchors = anchorsOf(policy, task, groups, options.timerpo, gated);
    meter.lap('data');
    const found = similarityTo(policy, groups, anchors, task.reasoning, options.timerpo, options.tokens);
    meter.lap('transport');
    return found;
  }

  /** The same with the expert trace, for the teacher of self-distillation; none without one. */
  async function teacherPromptsOf(examples: readonly Example[]): Promise<EncodedPrompt[]> {
    const out: EncodedPrompt[] = [];
    for (const one of teacher === null ? [] : examples) {
      out.push(encoder.encode(await task.picture(one), task.teacherInstruction(one, task.trace(one))));
    }
    return out;
  }

  /** β · Σ_t KL_t of each response, which its reward is lessened by (`rl.klIn: reward`): [P][G]. */
  function klPenalties(groups: readonly RolloutGroup[], scorer: Scorer, meter: StepMeter): number[][] {
    const pieces = groups.flatMap(({ prompt, responses }, index) =>
      splitGroup(
        { index, prompt, teacherPrompt: null, responses, advantage: responses.map(() => 0) },
        options.tokens,
      ),
    );
    const references = groupLogProbs(scorer, pieces, options);
    const own = rounded
      ? groupLogProbs(policy, pieces, options)
      : pieces.map(({ responses }) => concatenate(responses.map(({ logProbs }) => logProbs)));
    const out: number[][] = groups.map(() => []);
    pieces.forEach(({ index, responses }, i) => {
      let at = 0;
      for (const { ids } of responses) {
        const [log, base] = [own[i]!, references[i]!].map((all) => all.subarray(at, at + ids.length));
        out[index]!.push(options.kl * klSum(options.klEstimator, log!, base!));
        meter.divergence(klSum('k3', log!, base!), ids.length);
        at += ids.length;
      }
    });
    return out;
  }

  /**
   * Adds the gradient of the loss over a micro-batch; returns its number of tokens. Those of an entropy below `least` have no policy
   * gradient.
   */
  function accumulate(microBatch: readonly TrainingGroup[], meter: StepMeter, least: number): number {
    const responses = microBatch.flatMap((group) => group.responses);
    const sampled = concatenate(responses.map(({ logProbs }) => logProbs)); // [K]
    // Null: the log-probabilities of this very forward pass.
    const own = rounded && updates > 1 ? concatenate(microBatch.map((one) => one.oldLogProbs!)) : null; // [K]
    const old = rounded ? own : sampled; // [K]
    const base = holding === null ? null : concatenate(microBatch.map((one) => one.referenceLogProbs!)); // [K]
    const perResponse = microBatch.flatMap(({ advantage }) => advantage); // [B]
    const lengths = responses.map(({ ids }) => ids.length); // [B]
    const weight = AGGREGATIONS[options.aggregation].weights?.(lengths) ?? null; // [K]
    const active =
      least === -Infinity
        ? null
        : concatenate(microBatch.map(({ entropies }) => entropies!)).map((value) => (value >= least ? 1 : 0)); // [K]
    engine.scope(() => {
      const told = teacher === null ? null : tokensOfTeacher(teacher, microBatch);
      const tape = learner.tape();
      const { states, targets, owner } = responseStates(
        policy,
        microBatch.map(({ prompt }) => prompt),
        responses.map(({ ids }) => ids),
        tape,
        meter.padding,
      ); // [K, D]
      const advantage = Float32Array.from(owner, (b) => perResponse[b]!); // [K]
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]); // [V]
      const logRatio = old === null ? null : levelLogRatio(old, { states, targets }, lengths); // [K]
      const { temperature } = options;
      const lossOf: TokenLoss = (logProb, entropy, first, last, vocabulary) => {
        const given = (values: Float32Array | null) =>
          values === null ? null : engine.tensor(values.subarray(first, last), [last - first]);
        meter.samplerGap(engine.floats(logProb), sampled.subarray(first, last));
        const result = policyLoss(
          engine,
          {
            logProb,
            entropy: entropy!,
            oldLogProb: given(old) ?? engine.detach(logProb),
            referenceLogProb: given(base) ?? engine.detach(logProb),
            advantage: given(advantage)!,
            logRatio: given(logRatio),
            weight: given(weight),
            active: given(active),
          },
          { ...options, kl: base === null ? 0 : options.kl },
        );
        if (base !== null) meter.divergence(result.kl, last - first);
        if (told === null) {
          meter.loss(engine.item(result.loss), result, last - first);
          return result.loss;
        }
        const own = { logProb, vocabulary };
        const { cost, value } = divergenceTo(
          engine,
          told,
          own,
          [first, last],
          { temperature, mask },
          distillation,
        );
        const weights = given(weight);
        const weighted = (values: Tensor): Tensor =>
          engine.mul(
            engine.sum(weights === null ? values : engine.mul(values, weights)),
            distillation.weight,
          );
        meter.distillation(engine.item(engine.sum(value)));
        meter.loss(engine.item(result.loss) + engine.item(weighted(value)), result, last - first);
        return engine.add(result.loss, weighted(cost));
      };
      learner.backward(states, targets, { temperature, mask, entropy: true }, lossOf, tape);
    });
    return sampled.length;
  }

  /** Log-ratios [K] of the chosen level, of responses of these lengths; null at that of the token. */
  function levelLogRatio(
    old: Float32Array,
    given: Pick<ResponseStates, 'states' | 'targets'>,
    lengths: readonly number[],
  ): Float32Array | null {
    const { logRatio: levelOf } = RATIOS[options.ratio];
    if (levelOf === null) return null;
    const logRatio = tokenValues(policy, given, options.temperature).map((value, k) => value - old[k]!); // [K]
    return levelOf(logRatio, lengths, options);
  }

  /** What the teacher, which is shown the expert traces, has of the tokens of a micro-batch; without gradient. */
  function tokensOfTeacher(of: Scorer, microBatch: readonly TrainingGroup[]): Teacher {
    const prompts = microBatch.map(({ teacherPrompt }) => teacherPrompt!);
    const ids = microBatch.flatMap((group) => group.responses.map((response) => response.ids));
    return engine.scope(() => {
      const { states, targets } = engine.noGrad(() => responseStates(of, prompts, ids));
      return { states, targets, head: of.weights.head };
    });
  }

  /** The most that a micro-batch can need, before anything is learnt: memory that is too small shows here. */
  function rehearse(prompts: readonly EncodedPrompt[], teacherPrompts: readonly EncodedPrompt[]): void {
    const ids = new Int32Array(options.maxTokens).fill(policy.dims.special.end);
    const longest: Sampled = {
      ...{ prompt: 0, sample: 0, ids, text: '', finished: true },
      ...{ logProbs: new Float32Array(ids.length), hidden: new Float32Array(0) },
    };
    const zeros = new Float32Array(options.group * ids.length);
    const groups = prompts.flatMap((prompt, index) =>
      splitGroup(
        {
          ...{
            index,
            prompt,
            teacherPrompt: teacherPrompts[index] ?? null,
            referenceLogProbs: zeros,
            oldLogProbs: zeros,
            entropies: zeros,
          },
          responses: Array.from({ length: options.group }, () => longest),
          advantage: new Array<number>(options.group).fill(1),
        },
        options.tokens,
      ),
    );
    const [largest] = groupMicroBatches(groups, options.tokens);
    if (largest === undefined) return;
    accumulate(largest, new StepMeter(0, 0), -Infinity);
    learner.zeroGrad();
  }

  function save(step: number): void {
    workers.onRankZero(() => hooks.save({ step, skippedInARow }));
  }
}
