/**
 * Reinforcement learning from the task reward: TimerPO (AnomSeer), GRPO and related estimators, selected by name. Every rank runs this
 * program on its share of the prompts. One step:
 *
 *   1. sample prompts                           6. advantages; skip zero-variance groups
 *   2. G rollouts per prompt                    7. reference and old log-probabilities
 *   3. rewards; resample equal-reward groups    8. policy loss + KL − entropy, backward
 *   4. hidden states of the expert traces       9. reduce over ranks, clip, update
 *   5. similarity by optimal transport         10. guards, log, checkpoint
 *
 * Departures from the papers and their releases:
 * - Stages: AnomSeer trains without a supervised stage; here one comes first.
 * - Prompts: encoded once per group, not once per response; the result is the same.
 * - Transport anchor: the whole trace with its answer and class tags, because the short trace style states both only in these
 *   tags. `rl.timerpo.anchor: reasoning` compares the reasoning alone.
 * - Variants of ours, all off in the paper's form (`similarity.ts`, `claim-credit.ts`): `similarity: contrastive`, s = s_own − mean s_others
 *   over the traces of the next prompts; `credit: token`, A_t = A + α (mean e − e_t) with e_t the transported cost of a token over its mass;
 *   `equalGroups: standardised`, (s − mean) / (std + 1e-4) in groups of equal rewards; `similarity: truth` with `credit: claim`, each claim
 *   by its own verdict; `corrections`, − w (1 − step / steps) Σ log π over the corrected tokens of false claims and left-out statements;
 *   `counterfactuals`, − w (1 − step / steps) Σ log π over the answer behind a reasoning whose marks were moved, one for each prompt.
 * - topP < 1: ratio, KL and entropy use the full distribution after temperature and vocabulary mask, not the nucleus (as in verl and
 *   TRL). The nucleus changes with the weights, and a token that leaves it would have a ratio of 0. Token weights are then too high by a
 *   factor of up to 1/topP, and the mean of k3 is biased. A run logs a warning at its start.
 * - Skipped groups do not count in KL, entropy or token means.
 * - Loss mean: over all tokens of an update (`rl.aggregation`); the releases average the means of micro-batches, which gives short
 *   responses more weight. `dr_grpo` uses the same mean unless `rl.aggregation` is `constant` (Liu et al.: divisor = responses × maximum
 *   length). Both weight all tokens of an update equally; only `constant` lets the gradient grow with the response lengths.
 * - `sequence_mean` averages over the responses of groups that are not skipped; `constant` counts all responses.
 * - GSPO and KPO: the gradient of the ratio flows through the token's own log-probability (`loss.ts`), as in verl. TRL differentiates
 *   the mean over the response; the summed gradient is equal if all tokens of a response share one advantage.
 * - `rl.topEntropy`: tokens are selected once per step, under the policy before its updates and over all ranks; TRL selects in every
 *   micro-batch. The entropy bonus has the denominator of the loss; TRL divides it by the number of selected tokens.
 * - `rl.resample`: groups of equal rewards are replaced prompt by prompt, for a fixed number of rounds; DAPO samples whole batches until
 *   enough groups differ. Logged rewards, reward parts, lengths and the share of equal-reward groups are those before
 *   replacement.
 * - `rl.klIn: reward`: the divergence is summed over a response and subtracted from its reward before the advantages, as in TRL's RLOO.
 * - k3 is limited to 10 per token, as in the releases; its log-ratio is first clamped to ±20, as in later versions of verl.
 * - Self-distillation (`distillation.ts`): an additional (or the only) loss term, the divergence from a teacher whose prompt holds the
 *   expert trace. No group is skipped then.
 * - Optimiser: warm-up and cosine (releases: constant), β (.9, .95) and weight decay 0 (releases: (.9, .999) and .01); several epochs per
 *   step are possible.
 * - Responses without a reward (no part applies) are left out of the group mean and get advantage 0. Their tokens still count in the
 *   divisor of the loss, in KL and in entropy. A group without any rewarded response is skipped.
 * - Rollouts on an inference server (`rl.server`): advantages of tokens are weighted by truncated importance sampling (`remote-rollout.ts`).
 * - Episodes (`inspect`): steps 1 to 3 play episodes of several turns; every step is a sample, prompt with history → response, and a step of
 *   equal history in several episodes shares its prompt. The reward of an episode is that of its answer less the cost of its failed steps.
 *   Estimators of responses give their advantage to every step; gigpo, hgpo and graphgpo give each step its own (`step-advantage.ts`).
 * - Answers are parsed as in the releases; the format reward is stricter (`src/tasks/response.ts`).
 *
 * The quickstart's sizes (16 prompts × 8 responses, learning rate 2e-4) suit a policy of a million parameters.
 */
import type { Tensor } from '../engine/engine.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { concatenate, meanOrNull, sum } from '../ground/numbers.ts';
import { Random } from '../ground/random.ts';
import type { Counterfactual, Example } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Sampled } from '../policy/generate.ts';
import {
  type AdvantageOptions,
  advantagesOf,
  type GroupAdvantage,
  isZeroVariance,
  readsTraces,
} from './advantage.ts';
import {
  choicesOf,
  claimAdvantages,
  corrected,
  mostLessons,
  pickLessons,
  tokenCredit,
} from './claim-credit.ts';
import { type DistillationOptions, divergenceTo, type Teacher } from './distillation.ts';
import { alarmsOf, checkAlarms, type GuardedStep, type GuardOptions } from './guards.ts';
import { BEGINNING, checkSkipped, type Learner, type StageHooks, type StageStart } from './learner.ts';
import {
  AGGREGATIONS,
  type Aggregation,
  entropyThreshold,
  joinedLoss,
  klSum,
  logProbOfAny,
  type PolicyLossOptions,
  policyLoss,
  RATIOS,
  type RatioLevel,
  type RatioOptions,
  type TokenLoss,
} from './loss.ts';
import { type Completion, completionsOf, hasEqualRewards, type RlMetrics, StepMeter } from './metrics.ts';
import {
  groupLogProbs,
  groupMicroBatches,
  type Lesson,
  owners,
  PASSES,
  type ResponseStates,
  responseStates,
  type Scorer,
  splitGroup,
  type TrainingGroup,
  tokenValues,
} from './micro-batch.ts';
import { cosineSchedule, type LearningRateOptions } from './optimizer.ts';
import { checkServed, importanceWeights, nullIfStopped, type RemoteSampler } from './remote-rollout.ts';
import {
  episodeRecords,
  type RolloutGroup,
  type RolloutOptions,
  type SampledGroup,
  startRollout,
  stepsOf,
} from './rollout.ts';
import {
  anchorsOf,
  CONTRASTS,
  type SimilarityOptions,
  type SimilarityResult,
  similarityTo,
  tokenCostAdvantages,
  truthOf,
} from './similarity.ts';
import { PromptEncoder, type StatedClaims, type Task } from './task.ts';

export interface RlOptions
  extends LearningRateOptions,
    PolicyLossOptions,
    RatioOptions,
    Pick<AdvantageOptions, 'advantage' | 'normalise'>,
    Pick<RolloutOptions, 'group' | 'temperature' | 'topP' | 'maxTokens' | 'rows' | 'schedule'> {
  /** Steps in the stage, each with fresh rollouts. */
  readonly steps: number;
  /** Options of the step-level estimators; `roles` 2: statistics of each agent apart. */
  readonly stepwise?: AdvantageOptions['stepwise'] & {
    readonly roles?: 1 | 2;
    readonly reward?: 'answer' | 'change';
  };
  /** Prompts per step, over all workers. */
  readonly prompts: number;
  readonly timerpo: AdvantageOptions['timerpo'] &
    SimilarityOptions & {
      /** Steps between measurements of the gold response's similarity to the trace; 0: never. */
      readonly gatesEvery: number;
      /** Weight w of corrections of false claims and left-out statements; 0: none. */
      readonly corrections: number;
      /** Weight of answers to a moved reasoning; 0: none. */
      readonly counterfactuals: number;
    };
  readonly distillation: DistillationOptions;
  /** Maximum rounds of replacing groups of equal rewards (DAPO's dynamic sampling). */
  readonly resample: number;
  /** Mini-batches per epoch, one update each; a divisor of `prompts`. */
  readonly miniBatches: number;
  /** Epochs over the rollouts of a step. */
  readonly epochs: number;
  /** Name in `RATIOS`: level of the probability ratio. */
  readonly ratio: RatioLevel;
  /** Name in `AGGREGATIONS`: how the loss is averaged over an update. */
  readonly aggregation: Aggregation;
  /** Term that carries the KL penalty. */
  readonly klIn: 'loss' | 'reward';
  /** Share of tokens, by highest entropy, that receive a policy gradient. */
  readonly topEntropy: number;
  readonly guards: GuardOptions;
  /** Steps between checkpoints. */
  readonly checkpointEvery: number;
  /** Tokens per micro-batch, padding included. Default: `MICRO_BATCH_TOKENS`. */
  readonly tokens?: number;
}

/** Returns true where the initial policy is the reference of the KL term, or the teacher. */
export const needsReference = ({ kl, distillation }: Pick<RlOptions, 'kl' | 'distillation'>): boolean =>
  kl > 0 || (distillation.weight > 0 && distillation.teacher === 'initial');

export interface RlHooks extends StageHooks<RlMetrics> {
  /** Called on every rank with the responses to its first prompt. */
  readonly onCompletions: (completions: readonly Completion[]) => void;
  /** Inference server that samples the rollouts; absent: this process does. */
  readonly remote?: RemoteSampler | undefined;
}

/** Returns warnings about combinations of options, one sentence each. */
export function cautions(
  options: Pick<RlOptions, 'topP' | 'ratio' | 'aggregation' | 'kl' | 'klEstimator' | 'distillation'>,
): string[] {
  const { topP, ratio, aggregation, kl, klEstimator, distillation } = options;
  const out: string[] = [];
  if (topP !== 1) {
    out.push(
      `rl.topP is ${topP}: responses are sampled from the nucleus, but ratio, KL and entropy are of the full distribution, ` +
        'so the gradient is biased; set rl.topP=1 for an exact gradient',
    );
  }
  if (ratio === 'sequence' && aggregation !== 'sequence_mean') {
    out.push('rl.ratio is sequence: GSPO averages over responses; set rl.aggregation=sequence_mean to do so');
  }
  if (kl > 0 && klEstimator === 'k1') {
    out.push(
      'rl.klEstimator is k1: its gradient is 0 in expectation, so it does not keep the policy near the reference; k2 and k3 do',
    );
  }
  if (distillation.weight > 0) {
    out.push(
      'rl.distillation: the teacher reads the expert trace in its prompt; a policy that was never trained to use one, such as a ' +
        'small policy, is a harmful teacher: watch reward and format in the first steps',
    );
  }
  return out;
}

/**
 * Index of the example that replaces prompt `place` in a resampling round. These indices follow those of all regular steps and depend
 * only on step, round and place, so a resumed run draws the same examples.
 */
export function replacement(
  { steps, prompts, resample }: Pick<RlOptions, 'steps' | 'prompts' | 'resample'>,
  step: number,
  round: number,
  place: number,
): number {
  return steps * prompts + (step * resample + round - 1) * prompts + place;
}

/** Responses drawn for a counterfactual; about half of them can be moved. */
const COUNTERFACTUAL_DRAWS = 8;

/** Estimators that read the rewards of single steps. */
const READ_STEPS: readonly unknown[] = ['gigpo', 'hgpo'];

/**
 * Trains from `start`; returns the number of completed steps. `history`: metrics of earlier steps.
 * `reference`: policy at the start of the stage, for the KL penalty and the initial teacher; null if unused. Collective.
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
  const usesTraces = readsTraces(options);
  const gradesClaims = usesTraces && options.timerpo.similarity === 'truth';
  const mostTaught = gradesClaims ? mostLessons(options.timerpo) : 0;
  if (gradesClaims && task.claims === undefined) {
    throw new ConfigError(
      `rl.timerpo.similarity: truth needs claims in the reasoning, and ${task.name} has none; set rl.timerpo.similarity=ot`,
    );
  }
  if (gradesClaims && options.timerpo.counterfactuals > 0 && task.counterfactual === undefined) {
    throw new ConfigError(
      `rl.timerpo.counterfactuals: answers of ${task.name} mark no places that could be moved; set it to 0`,
    );
  }
  // In float32, sampler and trainer compute the same log-probabilities. In bfloat16 they round differently, so the on-policy ratio would
  // not be 1: the trainer recomputes the old log-probabilities. So it does for an inference server, whatever that computes with.
  const { remote } = hooks;
  const recomputesOld = policy.flat.dtype === 'bfloat16' || remote !== undefined;
  const klReference = options.kl > 0 ? reference : null;
  const { distillation } = options;
  const current = distillation.teacher === 'current' ? policy : reference;
  const teacher = distillation.weight > 0 ? current : null;
  if (distillation.weight > 0 && teacher === null) {
    throw new TimeseerError(
      'rl: rl.distillation.teacher=initial needs a reference policy, and none was given',
    );
  }
  const updates = options.epochs * options.miniBatches;
  const stated = new WeakMap<Sampled, StatedClaims>();
  // With klIn 'reward' the divergence is part of the reward, not of the loss.
  const lossReference = options.klIn === 'loss' ? klReference : null;
  const failureCost = task.episodes?.penalty ?? 0;
  const { roles, reward: ofStep, ...stepwiseOptions } = options.stepwise ?? {};
  const agents =
    task.episodes === undefined
      ? null
      : { success: task.episodes.success, ...(roles === 2 ? { role: task.episodes.role } : {}) };
  const { nonFinite } = options.guards;
  const pastSteps = [...history];
  let { skippedInARow } = start;

  for (let step = start.step; step < options.steps; step++) {
    if (workers.stopRequested() || hooks.validation?.ends(step) === true) return end(step);
    const learningRate = cosineSchedule(step, options.steps, options);
    const meter = new StepMeter(step + 1, learningRate, Object.keys(task.weights), task.hosted);
    // 1. prompts [P]
    const [from, to] = workers.shard(options.prompts);
    const indices = Array.from({ length: to - from }, (_, i) => step * options.prompts + from + i);
    const examples = indices.map((index) => task.example(index));
    const prompts = await encoder.encodeExamples(task, examples);
    meter.lap('data');
    if (step === start.step && engine.info.device !== 'cpu')
      rehearse(prompts, await teacherPromptsOf(examples));
    // 2. and 3. rollouts [P][G] and their scores
    await remote?.update(step);
    const scoreTurns = ofStep === 'change' && READ_STEPS.includes(options.advantage);
    const rolloutOptions = { ...options, seed, remote, scoreTurns, hidden: usesTraces && !gradesClaims };
    const sampling = await startRollout(policy, examples, prompts, indices, task, rolloutOptions).catch(
      nullIfStopped,
    );
    if (interrupted(sampling)) return end(step);
    meter.lap('rollout');
    // A slow (hosted) reward is computed during the transport, unless resampling needs the scores first.
    const overlaps = task.hosted === true && options.resample === 0;
    const early = overlaps ? compare(sampling.groups, step, meter) : null;
    const groups = await sampling.scored();
    meter.lap('rollout');
    meter.responses(groups);
    meter.marks(groups, task.marked);
    meter.episodes(groups, sampling.prefill);
    if (task.reasoned !== undefined) meter.reasoning(groups, task.reasoned);
    for (let round = 1; round <= options.resample; round++) {
      const places = groups.flatMap((group, i) => (hasEqualRewards(group) ? [i] : []));
      if (places.length === 0) break;
      const newIndices = places.map((i) => replacement(options, step, round, from + i));
      const newExamples = newIndices.map((index) => task.example(index));
      const newPrompts = await encoder.encodeExamples(task, newExamples);
      const newGroups = await startRollout(policy, newExamples, newPrompts, newIndices, task, rolloutOptions)
        .then(({ scored }) => scored())
        .catch(nullIfStopped);
      if (newGroups === null) break; // the stage ends behind this step
      meter.resampled(places.length);
      places.forEach((i, k) => {
        groups[i] = newGroups[k]!;
        indices[i] = newIndices[k]!;
      });
      meter.lap('rollout');
    }
    // 4. and 5. similarity to the expert traces [P·G]
    const compared = overlaps ? early : compare(groups, step, meter);
    if (compared !== null) meter.similarity(groups, compared);
    meter.lap('transport');
    const teacherPrompts = await teacherPromptsOf(groups.map(({ example }) => example));
    meter.lap('data');
    // 6. advantages [P][G]; groups of advantage 0 without lessons are skipped
    const penalties =
      options.klIn === 'reward' && klReference !== null ? klPenalties(groups, klReference, meter) : null;
    const records = groups.map(({ example, responses, scores, standing, episodes }, p) => {
      const totals = scores.map((score) => score?.total ?? null);
      const played =
        episodes === undefined ? null : episodeRecords(episodes, totals, agents!, step + 1, standing);
      const rewards = totals.map((total, g) => {
        const divergence = penalties === null ? 0 : penalties[p]![g]!;
        const failures = episodes === undefined ? 0 : episodes[g]!.failures;
        const bonus = meanOrNull((played?.[g]?.steps ?? []).map((one) => one.bonus ?? 0)) ?? 0;
        return total === null ? null : total - divergence - failureCost * failures + bonus;
      });
      return {
        rewards,
        parts: scores.map((score) => score?.parts ?? {}),
        lengths: responses.map(({ ids }) => ids.length),
        similarity: scores.map((_, g) => compared?.similarity[p * options.group + g] ?? 0),
        task: example.task,
        ...(played === null ? {} : { episodes: played }),
      };
    });
    const stepwise = { ...stepwiseOptions, invalidPenalty: failureCost };
    const advantages = advantagesOf(records, { ...options, stepwise, weights: task.weights }, workers);
    meter.advantages(advantages);
    records.forEach(({ episodes }, p) => {
      const stepsFrom = task.episodes?.stepsFrom?.(groups[p]!.example) ?? null;
      if (episodes !== undefined && stepsFrom !== null) meter.distances(episodes, stepsFrom);
    });
    const lessons = lessonsOf(groups, step, indices, meter); // [P][·]
    const kept = groups.flatMap((group, p) => {
      const advantage = perToken(group, advantages[p]!, compared?.tokenCosts?.slice(p * options.group));
      const hasNoGradient = isZeroVariance(advantages[p]!) && advantage.every((value) => value === 0);
      const { steps } = advantages[p]!;
      const taught = lessons[p]!;
      // Of an episode every step is a sample; without several turns the group is one piece.
      const samples = hasNoGradient && teacher === null ? [] : stepsOf(group);
      const pieces: Pick<TrainingGroup, 'prompt' | 'responses' | 'advantage' | 'lessons'>[] = samples.map(
        ({ prompt, responses, at }) => ({
          ...{ prompt, responses },
          advantage: at.map(([g, t]) => (steps === undefined ? advantage[g]! : steps[g]![t]!)),
          lessons: prompt === group.prompt ? taught : [],
        }),
      );
      if (taught.length > 0 && pieces.every((piece) => piece.prompt !== group.prompt))
        pieces.push({ prompt: group.prompt, responses: [], advantage: [], lessons: taught });
      const teacherPrompt = teacherPrompts[p] ?? null;
      return pieces.flatMap((piece) =>
        splitGroup({ index: from + p, teacherPrompt, ...piece }, options.tokens),
      );
    });
    // 7. reference and old log-probabilities, [T] per response
    const referenceLogProbs = lossReference === null ? null : groupLogProbs(lossReference, kept, options);
    const oldLogProbs = recomputesOld && updates > 1 ? groupLogProbs(policy, kept, options) : null;
    const entropies = options.topEntropy < 1 ? groupLogProbs(policy, kept, options, 'entropy') : null;
    const training = kept.map(
      (group, i): TrainingGroup => ({
        ...group,
        referenceLogProbs: referenceLogProbs?.[i] ?? null,
        oldLogProbs: oldLogProbs?.[i] ?? null,
        entropies: entropies?.[i] ?? null,
      }),
    );
    const minEntropy =
      entropies === null
        ? -Infinity
        : entropyThreshold(workers.gather(concatenate(entropies)), options.topEntropy);
    meter.lap('reference');
    // 8. and 9. loss, gradient, update
    for (let epoch = 0; epoch < options.epochs; epoch++) {
      for (let mini = 0; mini < options.miniBatches; mini++) {
        const ofMini = ({ index }: { readonly index: number }): boolean =>
          index % options.miniBatches === mini;
        const miniBatch = training.filter(ofMini);
        const trained = miniBatch.flatMap((group) => group.responses);
        const length = sum(trained.map(({ ids }) => ids.length));
        const taught = sum(miniBatch.map((group) => group.lessons.length));
        const sums = workers.allReduce([length, trained.length, taught]);
        const [tokens, responses, amended] = sums as [number, number, number];
        if (tokens + amended === 0) continue; // every group of every rank has zero variance
        const microBatches = groupMicroBatches(miniBatch, options.tokens);
        learner.accumulate(
          microBatches.map((microBatch) => () => accumulate(microBatch, meter, minEntropy)),
          PASSES,
        );
        const turns = task.episodes?.turns ?? 1;
        const most = (options.prompts / options.miniBatches) * options.group * turns * options.maxTokens;
        const denominator =
          tokens === 0 ? most : AGGREGATIONS[options.aggregation].denominator({ tokens, responses, most });
        const report = learner.update(denominator, learningRate);
        meter.update(report, denominator / workers.size);
        skippedInARow = report.skipped ? skippedInARow + 1 : 0;
      }
    }
    meter.lap('update');
    // 10. guards, log and checkpoint
    const metrics = meter.reduce(workers);
    pastSteps.push(metrics);
    const alarms = alarmsOf(pastSteps, options.guards);
    if (workers.rank === 0) hooks.onStep({ ...metrics, guards: alarms.map(({ name }) => name) });
    const [firstGroup] = groups;
    hooks.onCompletions(
      firstGroup === undefined
        ? []
        : completionsOf(step + 1, indices[0]!, firstGroup, advantages[0]!, compared?.similarity),
    );
    if (nonFinite.reaction === 'stop') checkSkipped('rl', skippedInARow, nonFinite.limit, step + 1);
    checkAlarms(alarms, options.guards, metrics);
    // Before the checkpoint, so that a resumed run has every evaluation up to its step.
    hooks.validation?.take(step + 1);
    if ((step + 1) % options.checkpointEvery === 0 && step + 1 < options.steps) save(step + 1);
  }
  return end(options.steps);

  /** Finds the claims of a response, once. */
  function claimsOf(response: Sampled, example: Example): StatedClaims {
    return getOrMake(stated, response, () => task.claims!(response.text, example));
  }

  /**
   * Adds the advantages of single tokens to the response's: those of claims at the tokens that state each, or those of transported
   * costs: [G], a number where all tokens have the same.
   */
  function perToken(
    { example, responses }: RolloutGroup,
    { advantage, main }: GroupAdvantage,
    costs: readonly Float64Array[] | undefined,
  ): (number | Float32Array)[] {
    const { credit, alpha, projection } = options.timerpo;
    if (costs !== undefined) {
      return advantage.map((value, g) => tokenCostAdvantages(costs[g]!, alpha).map((own) => own + value));
    }
    if (!gradesClaims || credit === 'response') return [...advantage];
    const claims = responses.map((response) => claimsOf(response, example).claims);
    const ofEachClaim = claimAdvantages(claims, projection ? main : null);
    return responses.map(({ ids }, g) => {
      const perToken = tokenCredit(policy.tokenizer, ids, claims[g]!, ofEachClaim[g]!, alpha);
      return perToken?.map((value) => value + advantage[g]!) ?? advantage[g]!;
    });
  }

  /**
   * Makes the lessons of a step: corrections of false claims and left-out statements, and for each prompt a counterfactual. Of some responses of
   * this rank, to any prompt, the one with most open ends is moved, because single marks are soon read without error. Lessons spread probability
   * over what they teach; their weights fall to 0, and the last steps sharpen it.
   */
  function lessonsOf(
    groups: readonly RolloutGroup[],
    step: number,
    indices: readonly number[],
    meter: StepMeter,
  ): Lesson[][] {
    const { timerpo, steps } = options;
    if (mostTaught === 0) return groups.map(() => []);
    const sampled = groups.flatMap(({ responses }) => responses);
    const drafts = groups.map(({ example, responses }, p) => {
      const corrections = responses.flatMap((response) => {
        if (timerpo.corrections === 0) return [];
        const { claims, amendments = [] } = claimsOf(response, example);
        return corrected(response.text, [...amendments, ...claims]) ?? [];
      });
      const random = new Random(seed, 'counterfactuals', step, indices[p]!);
      const move = timerpo.counterfactuals === 0 ? undefined : task.counterfactual;
      let moved: Counterfactual | null = null;
      for (let draw = 0; draw < COUNTERFACTUAL_DRAWS && move !== undefined; draw++) {
        const drawn = move(sampled[random.integer(0, sampled.length - 1)]!.text, example, random);
        if (drawn !== null && drawn.open.length >= (moved?.open.length ?? 0)) moved = drawn;
      }
      const counterfactual = moved === null ? null : { ...moved, ranges: [moved.answer] };
      return { corrections, counterfactual };
    });
    meter.lessons(drafts);
    const left = 1 - step / steps;
    const weights = {
      corrections: timerpo.corrections * left,
      counterfactuals: timerpo.counterfactuals * left,
    };
    return drafts.map((ofGroup) => pickLessons(policy.tokenizer, ofGroup, weights));
  }

  /** Makes the loss −Σ w log π of lessons: their tokens have indices from 0 on. */
  function lessonLoss(lessons: readonly Lesson[]): TokenLoss {
    const weights = concatenate(lessons.map((lesson) => lesson.weights)); // [K]
    const choices = choicesOf(lessons); // [K][C]
    return (logProb, _, first, last, vocabulary) => {
      const ofTokens = engine.tensor(weights.subarray(first, last), [last - first]); // [k]
      const right =
        choices === null ? logProb : logProbOfAny(engine, vocabulary(), choices.slice(first, last)); // [k]
      return engine.mul(engine.sum(engine.mul(right, ofTokens)), -1); // []
    };
  }

  /** Computes the similarity of responses to the expert traces; null for estimators that do not read traces. */
  function compare(groups: readonly SampledGroup[], step: number, meter: StepMeter): SimilarityResult | null {
    if (!usesTraces || groups.length === 0) return null;
    if (gradesClaims) {
      const { credit } = options.timerpo;
      return credit === 'claim' ? null : truthOf(groups, claimsOf);
    }
    const { gatesEvery } = options.timerpo;
    const gated = gatesEvery > 0 && step % gatesEvery === 0;
    const { prompts } = options;
    const [from] = workers.shard(prompts);
    // Prompts of the whole step, so that the contrast does not depend on the number of ranks.
    const othersOf = (p: number): Example[] =>
      Array.from(
        { length: options.timerpo.similarity === 'contrastive' ? Math.min(CONTRASTS, prompts - 1) : 0 },
        (_, k) => task.example(step * prompts + ((from + p + k + 1) % prompts)),
      );
    const anchors = anchorsOf(policy, task, groups, options.timerpo, gated, othersOf);
    meter.lap('data');
    const result = similarityTo(policy, groups, anchors, task.reasoning, options.timerpo, options.tokens);
    meter.lap('transport');
    return result;
  }

  /** Encodes prompts with the expert trace, for the teacher of self-distillation; empty without a teacher. */
  async function teacherPromptsOf(examples: readonly Example[]): Promise<EncodedPrompt[]> {
    const out: EncodedPrompt[] = [];
    for (const example of teacher === null ? [] : examples) {
      const instruction = task.teacherInstruction(example, task.trace(example));
      out.push(encoder.encode(await task.picture(example), instruction));
    }
    return out;
  }

  /** Computes β · Σ_t KL_t of each response, subtracted from its reward (`rl.klIn: reward`): [P][G]. */
  function klPenalties(groups: readonly RolloutGroup[], scorer: Scorer, meter: StepMeter): number[][] {
    const pieces = groups.flatMap(({ prompt, responses }, index) =>
      splitGroup(
        { index, prompt, teacherPrompt: null, responses, advantage: responses.map(() => 0), lessons: [] },
        options.tokens,
      ),
    );
    const references = groupLogProbs(scorer, pieces, options);
    const current = recomputesOld
      ? groupLogProbs(policy, pieces, options)
      : pieces.map(({ responses }) => concatenate(responses.map(({ logProbs }) => logProbs)));
    const out: number[][] = groups.map(() => []);
    pieces.forEach(({ index, responses }, i) => {
      let at = 0;
      for (const { ids } of responses) {
        const end = at + ids.length;
        const logProbs = current[i]!.subarray(at, end); // [T]
        const referenceLogProbs = references[i]!.subarray(at, end); // [T]
        out[index]!.push(options.kl * klSum(options.klEstimator, logProbs, referenceLogProbs));
        meter.divergence(klSum('k3', logProbs, referenceLogProbs), ids.length);
        at = end;
      }
    });
    return out;
  }

  /**
   * Accumulates the gradient of a micro-batch: of the policy loss of its responses and the loss of its lessons. Tokens with an entropy below
   * `minEntropy` get no policy gradient.
   */
  function accumulate(microBatch: readonly TrainingGroup[], meter: StepMeter, minEntropy: number): void {
    const responses = microBatch.flatMap((group) => group.responses);
    const lessons = microBatch.flatMap((group) => group.lessons);
    const sampled = concatenate(responses.map(({ logProbs }) => logProbs)); // [K]
    // Null: use the detached log-probabilities of the training forward pass (on policy, ratio 1).
    const recomputed =
      recomputesOld && updates > 1 ? concatenate(microBatch.map((group) => group.oldLogProbs!)) : null; // [K]
    const old = recomputesOld ? recomputed : sampled; // [K]
    const refLogProbs =
      lossReference === null ? null : concatenate(microBatch.map((group) => group.referenceLogProbs!)); // [K]
    const lengths = responses.map(({ ids }) => ids.length); // [B]
    const weight = AGGREGATIONS[options.aggregation].weights?.(lengths) ?? null; // [K]
    const active =
      minEntropy === -Infinity
        ? null
        : concatenate(microBatch.map(({ entropies }) => entropies!)).map((value) =>
            value >= minEntropy ? 1 : 0,
          ); // [K]
    engine.scope(() => {
      const teacherView = teacher === null ? null : teacherStates(teacher, microBatch);
      const tape = learner.tape();
      const { states, targets } = responseStates(
        policy,
        microBatch.map(({ prompt }) => prompt),
        [...responses, ...lessons].map(({ ids }) => ids),
        tape,
        meter.padding,
        [
          ...owners(microBatch.map((group) => group.responses)),
          ...owners(microBatch.map((group) => group.lessons)),
        ],
      ); // [K + L, D]
      const perResponse = microBatch.flatMap((group) => group.advantage); // [B]
      const advantage = concatenate(
        perResponse.map((value, b) =>
          typeof value === 'number' ? new Float32Array(lengths[b]!).fill(value) : value,
        ),
      ); // [K]
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]); // [V]
      const count = sampled.length;
      const own = { states: engine.narrow(states, 0, 0, count), targets: targets.subarray(0, count) };
      const logRatio = old === null ? null : levelLogRatio(old, own, lengths); // [K]
      const { temperature } = options;
      const lossOf: TokenLoss = (logProb, entropy, first, last, vocabulary) => {
        const chunk = (values: Float32Array | null) =>
          values === null ? null : engine.tensor(values.subarray(first, last), [last - first]);
        const own = engine.floats(logProb); // [k]
        const drawn = sampled.subarray(first, last);
        meter.samplerGap(own, drawn);
        const advantages = advantage.slice(first, last);
        if (remote !== undefined) {
          const before = old?.subarray(first, last) ?? own;
          const atOne = (): Float32Array =>
            tokenValues(
              policy,
              {
                states: engine.narrow(states, 0, first, last - first),
                targets: targets.subarray(first, last),
              },
              1,
            );
          checkServed(before, drawn, { temperature, atOne });
          const weights = importanceWeights(before, drawn, remote.cap);
          meter.importance(weights);
          weights.forEach((weight, k) => {
            advantages[k]! *= weight;
          });
        }
        const result = policyLoss(
          engine,
          {
            logProb,
            entropy: entropy!,
            oldLogProb: chunk(old) ?? engine.detach(logProb),
            referenceLogProb: chunk(refLogProbs) ?? engine.detach(logProb),
            advantage: engine.tensor(advantages, [last - first]),
            logRatio: chunk(logRatio),
            weight: chunk(weight),
            active: chunk(active),
          },
          { ...options, kl: refLogProbs === null ? 0 : options.kl },
        );
        if (refLogProbs !== null) meter.divergence(result.kl, last - first);
        if (teacherView === null) {
          meter.loss(engine.item(result.loss), result, last - first);
          return result.loss;
        }
        const student = { logProb, vocabulary };
        const range = [first, last] as const;
        const { cost, value } = divergenceTo(
          engine,
          teacherView,
          student,
          range,
          { temperature, mask },
          distillation,
        ); // [k]
        const weights = chunk(weight); // [k]
        const weighted = (values: Tensor): Tensor => {
          const sum = engine.sum(weights === null ? values : engine.mul(values, weights)); // []
          return engine.mul(sum, distillation.weight); // []
        };
        meter.distillation(engine.item(engine.sum(value)));
        meter.loss(engine.item(result.loss) + engine.item(weighted(value)), result, last - first);
        return engine.add(result.loss, weighted(cost));
      };
      const both = joinedLoss(engine, count, lossOf, lessonLoss(lessons));
      learner.backward(states, targets, { temperature, mask, entropy: true }, both, tape);
    });
  }

  /** Computes log-ratios [K] at the level of `rl.ratio`; null at token level, which the loss computes itself. */
  function levelLogRatio(
    old: Float32Array,
    predictions: Pick<ResponseStates, 'states' | 'targets'>,
    lengths: readonly number[],
  ): Float32Array | null {
    const { logRatio: levelOf } = RATIOS[options.ratio];
    if (levelOf === null) return null;
    const logProbs = tokenValues(policy, predictions, options.temperature); // [K]
    return levelOf(
      logProbs.map((value, k) => value - old[k]!),
      lengths,
      options,
    );
  }

  /** Computes the teacher's hidden states [K, D] of a micro-batch, given prompts with the expert trace; without gradient. */
  function teacherStates(scorer: Scorer, microBatch: readonly TrainingGroup[]): Teacher {
    const prompts = microBatch.map(({ teacherPrompt }) => teacherPrompt!);
    const ids = microBatch.flatMap((group) => group.responses.map((response) => response.ids));
    const of = owners(microBatch.map((group) => group.responses));
    return engine.scope(() => {
      const { states, targets } = engine.noGrad(() =>
        responseStates(scorer, prompts, ids, undefined, undefined, of),
      ); // [K, D]
      return { states, targets, head: scorer.weights.head };
    });
  }

  /** Runs the largest possible micro-batch and drops its gradient, so that an out-of-memory happens before any training. */
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
          ...{ index, prompt, teacherPrompt: teacherPrompts[index] ?? null },
          ...{ referenceLogProbs: zeros, oldLogProbs: zeros, entropies: zeros },
          responses: Array.from({ length: options.group }, () => longest),
          advantage: new Array<number>(options.group).fill(1),
          lessons: Array.from({ length: mostTaught }, () => ({
            ids,
            weights: zeros.subarray(0, ids.length),
            choices: new Map(),
          })),
        },
        options.tokens,
      ),
    );
    const [largest] = groupMicroBatches(groups, options.tokens);
    const run = (): void => accumulate(largest!, new StepMeter(0, 0), -Infinity);
    learner.accumulate(largest === undefined ? [] : [run], PASSES);
    learner.discard();
  }

  function save(step: number): void {
    learner.save(() => hooks.save({ step, skippedInARow }));
  }

  function end(step: number): number {
    save(step);
    return step;
  }

  /** Returns true where any rank was to stop while it waited for a server. Collective with one. */
  function interrupted<T>(sampling: T | null): sampling is null {
    return remote !== undefined && workers.allReduce([sampling === null ? 1 : 0])[0]! > 0;
  }
}
