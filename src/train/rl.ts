/**
 * Reinforcement learning from the task reward: TimerPO (AnomSeer), with GRPO and Dr. GRPO by name. Every rank runs
 * this program on its share of the prompts. One step:
 *
 *   1. sample prompts                          6. advantages; a group is skipped only if all of them are zero
 *   2. G responses to each, with hidden states 7. reference log-probabilities
 *   3. score                                   8. clipped token-mean loss + k3 KL − entropy, backward
 *   4. hidden states of the expert traces      9. reduce over ranks, clip, AdamW
 *   5. optimal transport, similarity          10. log, checkpoint
 *
 * Departures from the paper: it trains without a supervised stage, this follows one; prompts are encoded once per
 * group, not once per response (exact); the anchor of the transport is the whole trace with its answer and class,
 * because the short style states them there and not in its reasoning; KL and entropy are of the tempered, masked
 * distribution that is sampled; they, and the tokens that means are taken over, count only in groups that are not
 * skipped; warm-up, cosine and gradient clipping; AdamW's β are (.9, .95); several mini-batches and epochs per step are
 * possible. The quickstart's sizes (16 prompts × 8 responses, learning rate 2e-4) suit a policy of a million parameters.
 */
import { TimeseerError } from '../errors.ts';
import type { Policy } from '../policy/policy.ts';
import { type AdvantageName, advantageOf, type GroupAdvantage, isSilent } from './advantage.ts';
import { ground } from './grounding.ts';
import { headGradients } from './head.ts';
import type { Learner } from './learner.ts';
import { policyLoss } from './loss.ts';
import { cosineSchedule } from './optimizer.ts';
import { PromptEncoder } from './prompt.ts';
import { pieces, responseLogProbs, responseStates } from './response-states.ts';
import { type RlMetrics, StepMeter } from './rl-metrics.ts';
import { type RolloutGroup, rollout } from './rollout.ts';
import type { Task } from './task.ts';
import type { TransportOptions } from './transport.ts';

export interface RlOptions {
  readonly steps: number;
  readonly prompts: number;
  readonly group: number;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
  readonly advantage: AdvantageName;
  readonly alpha: number;
  readonly transport: TransportOptions;
  readonly learningRate: number;
  readonly warmup: number;
  readonly minLearningRate: number;
  readonly miniBatches: number;
  readonly epochs: number;
  readonly clipRatio: number;
  readonly kl: number;
  readonly entropy: number;
  readonly checkpointEvery: number;
}

/** A sampled response with its judgement, for the run's table of completions. */
export interface Completion {
  readonly step: number;
  readonly seriesId: string;
  readonly response: string;
  readonly reward: number;
  readonly parts: Readonly<Record<string, number>>;
  readonly similarity: number | null;
  readonly advantage: number;
}

export interface RlHooks {
  /** Called on rank 0 after every step. */
  readonly onStep: (metrics: RlMetrics) => void;
  /** Called on every rank with the responses of its first prompt. */
  readonly onCompletions: (completions: readonly Completion[]) => void;
  /** Called on rank 0 while the other ranks wait: writes a checkpoint of step `step`. */
  readonly save: (step: number) => void;
}

/** A group that teaches, with what the loss needs of it. */
interface Lesson {
  /** Number of its prompt in the step, over all ranks. */
  readonly index: number;
  readonly group: RolloutGroup;
  readonly advantage: readonly number[]; // [G]
}

const SKIP_LIMIT = 10;

/** Runs from step `start` and returns the number of steps that are done. Collective. */
export async function rl(
  learner: Learner,
  reference: Policy | null,
  task: Task,
  options: RlOptions,
  seed: number,
  hooks: RlHooks,
  start = 0,
): Promise<number> {
  const { policy, ranks } = learner;
  const encoder = new PromptEncoder(policy);
  const grounded = options.advantage === 'timerpo' && options.alpha > 0;
  let skippedInARow = 0;

  for (let step = start; step < options.steps; step++) {
    if (ranks.stopRequested()) {
      save(step);
      return step;
    }
    const learningRate = cosineSchedule(step, {
      peak: options.learningRate,
      warmup: options.warmup,
      total: options.steps,
      floor: options.minLearningRate,
    });
    const meter = new StepMeter(step + 1, learningRate);
    // 1. prompts
    const [from, to] = ranks.share(options.prompts);
    const examples = Array.from({ length: to - from }, (_, i) => step * options.prompts + from + i);
    const series = examples.map((index) => task.series(index));
    const prompts = [];
    for (const one of series) prompts.push(encoder.encode(await task.picture(one), task.instruction(one)));
    meter.lap('data');
    // 2. and 3. responses and their scores
    const groups = await rollout(policy, series, prompts, examples, task.score, {
      ...options,
      seed,
      hidden: grounded,
    });
    meter.lap('rollout');
    meter.responses(groups);
    // 4. and 5. transport to the expert traces
    let transported = null;
    if (grounded && groups.length > 0) {
      const traces = series.map((one) => policy.tokenizer.encode(task.trace(one)));
      meter.lap('data');
      transported = ground(policy, groups, traces, options.transport);
    }
    if (transported !== null) meter.transport(transported);
    meter.lap('transport');
    // 6. advantages
    const advantages = groups.map((group, p): GroupAdvantage => {
      const rewards = group.scores.map((score) => score.total);
      const similarity = rewards.map((_, g) => transported?.similarity[p * options.group + g] ?? 0);
      return advantageOf(options.advantage, { rewards, similarity }, options.alpha);
    });
    meter.advantages(advantages);
    const lessons = groups
      .map((group, p): Lesson => ({ index: from + p, group, advantage: advantages[p]!.advantage }))
      .filter((_, p) => !isSilent(advantages[p]!));
    // 7. reference
    const references = reference === null ? null : referenceLogProbs(reference, lessons, options.temperature);
    meter.lap('reference');
    // 8. and 9. updates
    for (let epoch = 0; epoch < options.epochs; epoch++) {
      for (let mini = 0; mini < options.miniBatches; mini++) {
        const chosen = lessons
          .map((lesson, i) => ({ ...lesson, ...lesson.group, reference: references?.[i] ?? null }))
          .filter(({ index }) => index % options.miniBatches === mini);
        let tokens = 0;
        for (const piece of pieces(chosen)) tokens += accumulate(piece, meter);
        const [total] = ranks.sum([tokens]) as [number];
        if (total === 0) continue; // every group of every rank is silent
        const report = learner.update(total, learningRate);
        meter.update(report);
        skippedInARow = report.skipped ? skippedInARow + 1 : 0;
      }
    }
    meter.lap('update');
    // 10. log and checkpoint
    const metrics = meter.reduce(ranks);
    if (ranks.rank === 0) hooks.onStep(metrics);
    hooks.onCompletions(completions(step + 1, groups[0], advantages[0], transported?.similarity));
    if (skippedInARow >= SKIP_LIMIT) {
      throw new TimeseerError(
        `rl: ${SKIP_LIMIT} updates in a row without a finite gradient, up to step ${step + 1}; nothing was learnt from them and ` +
          'checkpoints before them are good: begin a new run with a lower rl.learningRate',
      );
    }
    if ((step + 1) % options.checkpointEvery === 0 && step + 1 < options.steps) save(step + 1);
  }
  save(options.steps);
  return options.steps;

  /** Adds the gradient of the loss over some groups; returns their number of tokens. */
  function accumulate(
    chosen: readonly (Lesson & RolloutGroup & { readonly reference: Float32Array | null })[],
    meter: StepMeter,
  ): number {
    const { engine } = policy;
    const responses = chosen.flatMap((lesson) => lesson.responses);
    const old = concatenated(responses.map(({ logProbs }) => logProbs)); // [K]
    const base = reference === null ? null : concatenated(chosen.map((one) => one.reference!)); // [K]
    const perResponse = chosen.flatMap(({ advantage }) => advantage); // [B]
    engine.scope(() => {
      const { states, targets, owner } = responseStates(
        policy,
        chosen.map(({ prompt }) => prompt),
        responses.map(({ ids }) => ids),
      ); // [K, D]
      const advantage = Float32Array.from(owner, (b) => perResponse[b]!); // [K]
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]); // [V]
      const gradients = headGradients(
        engine,
        states,
        policy.weights.head,
        targets,
        { temperature: options.temperature, mask, entropy: true },
        (logProb, entropy, first, last) => {
          const part = (values: Float32Array) => engine.tensor(values.subarray(first, last), [last - first]);
          meter.samplerGap(engine.floats(logProb), old.subarray(first, last));
          const result = policyLoss(
            engine,
            {
              logProb,
              entropy: entropy!,
              oldLogProb: part(old),
              referenceLogProb: base === null ? engine.detach(logProb) : part(base),
              advantage: part(advantage),
            },
            { ...options, kl: base === null ? 0 : options.kl },
          );
          meter.loss(engine.item(result.loss), result, last - first);
          return result.loss;
        },
      );
      learner.backward(states, gradients);
    });
    return old.length;
  }

  function save(step: number): void {
    ranks.barrier();
    if (ranks.rank === 0) hooks.save(step);
    ranks.barrier();
  }
}

/** Reference log-probabilities of each lesson's tokens. */
function referenceLogProbs(
  reference: Policy,
  lessons: readonly Lesson[],
  temperature: number,
): Float32Array[] {
  const out: Float32Array[] = [];
  for (const piece of pieces(lessons.map(({ group }) => group))) {
    const all = responseLogProbs(
      reference,
      piece.map(({ prompt }) => prompt),
      piece.flatMap(({ responses }) => responses.map(({ ids }) => ids)),
      temperature,
    );
    let at = 0;
    for (const { responses } of piece) {
      const count = responses.reduce((sum, { ids }) => sum + ids.length, 0);
      out.push(all.slice(at, at + count));
      at += count;
    }
  }
  return out;
}

function concatenated(parts: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function completions(
  step: number,
  group: RolloutGroup | undefined,
  advantage: GroupAdvantage | undefined,
  similarity: Float64Array | undefined,
): Completion[] {
  if (group === undefined || advantage === undefined) return [];
  return group.responses.map((response, g) => ({
    step,
    seriesId: group.series.id,
    response: response.text,
    reward: group.scores[g]!.total,
    parts: group.scores[g]!.parts,
    similarity: similarity?.[g] ?? null,
    advantage: advantage.advantage[g]!,
  }));
}
