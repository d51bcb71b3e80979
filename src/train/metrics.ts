/** Metrics of a step: gathered on every rank, reduced once, and appended to a log of JSON lines. */
import { existsSync } from 'node:fs';
import { DataError, TimeseerError } from '../ground/errors.ts';
import { appendText, writeFileAtomic } from '../ground/files.ts';
import { readJsonValues } from '../ground/json-files.ts';
import { mean } from '../ground/numbers.ts';
import { say } from '../ground/terminal.ts';
import type { Score } from '../ground/types.ts';
import { ANSWERED } from '../inspect/environment.ts';
import { type GroupAdvantage, gatherLines, isZeroVariance } from './advantage.ts';
import type { GuardName } from './guards.ts';
import type { PolicyLoss } from './loss.ts';
import { PaddingMeter } from './micro-batch.ts';
import type { StepReport } from './optimizer.ts';
import type { RolloutGroup } from './rollout.ts';
import type { SimilarityResult } from './similarity.ts';
import { type Episode, estimatedDistances } from './step-advantage.ts';
import type { MarkedShare, Task } from './task.ts';
import type { WorkerGroup } from './worker-group.ts';

// Definitions of all logged quantities: `glossary.ts`, `timeseer runs --glossary`. Notes here say when a value is null.

/** Metrics line of a supervised step, over all ranks. */
export interface SftMetrics {
  readonly step: number;
  readonly samples: number;
  readonly loss: number;
  readonly learningRate: number;
  readonly gradNorm: number;
  readonly tokens: number;
  readonly padding: number;
  readonly skipped: number;
  readonly ms: { readonly data: number; readonly gradient: number; readonly update: number };
}

/** Measures of the information that the similarity to the expert traces carries beyond the rewards. */
export interface GroundingMetrics {
  readonly ratio: number | null;
  readonly correlation: number | null;
  /** Null without transport, like the next one. */
  readonly tokens: number | null;
  readonly partners: number | null;
  /**
   * Null in steps that do not measure it, like the next two. An anchor encoded behind the prompt is nearly the same text as the gold
   * response, which is then the nearest by construction.
   */
  readonly goldSimilarity: number | null;
  readonly goldFirst: number | null;
  readonly goldNearer: number | null;
}

/** Metrics line of a reinforcement step, over all ranks. */
export interface RlMetrics {
  readonly step: number;
  readonly reward: number;
  readonly unrewarded: number;
  readonly rewardStd: number;
  readonly parts: Readonly<Record<string, number>>;
  /** Null where no trace is read, like `grounding`. */
  readonly similarity: number | null;
  /** Null without transport. */
  readonly transportError: number | null;
  readonly advantage: number;
  readonly orthogonal: number;
  /** Null without a teacher. */
  readonly distillation: number | null;
  readonly grounding: GroundingMetrics | null;
  readonly equalRewards: number;
  readonly allZero: number;
  readonly allFull: number;
  readonly resampled: number;
  readonly zeroVariance: number;
  readonly loss: number;
  /** Null where it was not computed: `rl.kl: 0`, or every group of the step skipped. */
  readonly kl: number | null;
  readonly entropy: number;
  readonly clipped: number;
  readonly samplerGap: number;
  /** Null where this process samples. */
  readonly importance: number | null;
  readonly tokens: number;
  readonly unfinished: number;
  readonly padding: number;
  /** Null when nothing was updated. */
  readonly gradNorm: number | null;
  readonly learningRate: number;
  readonly skipped: number;
  /** Null if no answer could be parsed, or the answer kind marks nothing. */
  readonly marked: MarkedShare | null;
  /** Null if no reasoning was checked; each null without one that could be compared. */
  readonly reasoning: { readonly claimF1: number | null; readonly agreement: number | null } | null;
  /** Null where nothing is taught: `rl.timerpo.corrections` and `rl.timerpo.counterfactuals` are 0. */
  readonly lessons: { readonly corrections: number; readonly counterfactuals: number } | null;
  /** Null for tasks of one turn. */
  readonly inspection: InspectionMetrics | null;
  readonly guards: readonly GuardName[];
  readonly ms: Readonly<Record<Phase, number>>;
}

/** Means over episodes of several turns. */
export interface InspectionMetrics {
  readonly turns: number;
  readonly failures: number;
  readonly answered: number;
  readonly reused: number;
  /** Steps to success by state, in groups with a success: GraphGPO's estimates and the true ones; null where those are not known. */
  readonly distance: { readonly estimated: number; readonly true: number; readonly error: number } | null;
}

/** Sampled response with its scores, for the run's table of completions. */
export interface Completion {
  readonly step: number;
  /** Number of the training example. */
  readonly example: number;
  readonly seriesId: string;
  readonly response: string;
  /** Null: no part of the reward applies to it. */
  readonly reward: number | null;
  readonly parts: Readonly<Record<string, number>>;
  readonly similarity: number | null;
  /** Advantage used by the loss, with its task and time-series parts. */
  readonly advantage: number;
  readonly main: number;
  readonly orthogonal: number;
  /** Notes of the user's rewards, and the turns of an episode, if any. */
  readonly notes?: string;
}

/** Returns the completions of a group for training example `index`, with their transport similarity if measured. */
export function completionsOf(
  step: number,
  index: number,
  { example, responses, scores, episodes }: RolloutGroup,
  { advantage, main, orthogonal }: GroupAdvantage,
  similarity: Float64Array | undefined,
): Completion[] {
  return responses.map(({ text }, g) => ({
    step,
    example: index,
    seriesId: example.id,
    response: text,
    reward: scores[g]?.total ?? null,
    parts: scores[g]?.parts ?? {},
    similarity: similarity?.[g] ?? null,
    advantage: advantage[g]!,
    main: main[g]!,
    orthogonal: orthogonal[g]!,
    ...(scores[g]?.notes === undefined ? {} : { notes: scores[g].notes }),
    ...(episodes === undefined ? {} : { notes: transcriptOf(episodes[g]!, scores[g]?.notes) }),
  }));
}

/** Writes the turns of an episode, one line each, behind the notes of its score; a failed step with its reason. */
const transcriptOf = ({ turns }: NonNullable<RolloutGroup['episodes']>[number], notes = ''): string =>
  [
    ...(notes === '' ? [] : [notes]),
    ...turns.map(
      ({ instruction, response, problem }, i) =>
        `Turn ${i + 1}: ${instruction} → ${response}${problem === null ? '' : ` (failed: ${problem})`}`,
    ),
  ].join('\n');

/** Returns the rewards of the responses that have one. */
const rewardsOf = (scores: readonly (Score | null)[]): number[] =>
  scores.flatMap((score) => (score === null ? [] : [score.total]));

/** Returns true for a group whose rewards are all equal: it has no policy gradient from rewards. */
export function hasEqualRewards({ scores }: RolloutGroup): boolean {
  const rewards = rewardsOf(scores);
  return rewards.every((reward) => reward === rewards[0]);
}

const PHASES = ['data', 'rollout', 'transport', 'reference', 'update'] as const;
type Phase = (typeof PHASES)[number];

const SUMS = [
  'responses',
  'rewarded',
  'reward',
  'rewardSquared',
  'similarity',
  'advantageSquared',
  'orthogonalSquared',
  'compared',
  'mainSquared',
  'groundedSquared',
  'covariance',
  'rewardVariance',
  'similarityVariance',
  'transported',
  'massTokens',
  'partners',
  'goldGroups',
  'goldSimilarity',
  'goldFirst',
  'goldNearer',
  'groups',
  'equal',
  'allZero',
  'allFull',
  'resampled',
  'zeroVariance',
  'loss',
  'denominator',
  'kl',
  'klTokens',
  'entropy',
  'clipped',
  'lossTokens',
  'divergence',
  'distilled',
  'gap',
  'gapTokens',
  'weight',
  'weightTokens',
  'tokens',
  'unfinished',
  'graded',
  'claimF1',
  'concluded',
  'agreed',
  'taughtGroups',
  'corrected',
  'moved',
  'readable',
  'predicted',
  'gold',
  'episodes',
  'turns',
  'failures',
  'answered',
  'states',
  'estimatedDistance',
  'trueDistance',
  'distanceError',
  'encoded',
  'reused',
  'filled',
  'places',
] as const;

type Sums = Record<(typeof SUMS)[number], number>;

/** Sample standard deviation of n values from their sum and the sum of their squares; 0 for n < 2. */
function standardDeviation(sum: number, squares: number, n: number): number {
  return n < 2 ? 0 : Math.sqrt(Math.max(0, squares - (sum * sum) / n) / (n - 1));
}

/** Tolerance of equal similarities: rounding between sampled and encoded states of the same tokens. */
const SAME = 1e-6;

/** Quotient; null where there is nothing to divide by. */
const over = (total: number, count: number): number | null => (count === 0 ? null : total / count);

function groundingOf(sum: Sums): GroundingMetrics | null {
  if (sum.compared === 0) return null;
  const varying = Math.sqrt(sum.similarityVariance * sum.rewardVariance);
  return {
    ratio: sum.mainSquared === 0 ? null : Math.sqrt(sum.groundedSquared / sum.mainSquared),
    correlation: over(sum.covariance, varying),
    tokens: over(sum.massTokens, sum.transported),
    partners: over(sum.partners, sum.transported),
    goldSimilarity: over(sum.goldSimilarity, sum.goldGroups),
    goldFirst: over(sum.goldFirst, sum.goldGroups),
    goldNearer: over(sum.goldNearer, sum.goldGroups),
  };
}

export class StepMeter {
  readonly #step: number;
  readonly #learningRate: number;
  readonly #sums: Sums;
  /** Sum and number of responses of each reward part; an example need not have all. */
  readonly #parts: Map<string, [sum: number, count: number]>;
  readonly #ms: Record<Phase, number> = { data: 0, rollout: 0, transport: 0, reference: 0, update: 0 };
  #transportError: number | null = null;
  #last = performance.now();
  #gradNorm: number | null = null;
  #skipped = 0;
  #firstPass = true;
  /** Padding of the updates' forward passes. */
  readonly padding = new PaddingMeter();
  readonly #open: boolean;

  /** `parts`: names of the reward parts, the same on every rank; `open`: rewards may have further parts. */
  constructor(step: number, learningRate: number, parts: readonly string[] = [], open = false) {
    this.#open = open;
    this.#step = step;
    this.#learningRate = learningRate;
    this.#sums = Object.fromEntries(SUMS.map((key) => [key, 0])) as Sums;
    this.#parts = new Map([...parts].sort().map((name) => [name, [0, 0]]));
  }

  /** Adds the time since the last call to a phase. */
  lap(phase: Phase): void {
    const now = performance.now();
    this.#ms[phase] += now - this.#last;
    this.#last = now;
  }

  responses(groups: readonly RolloutGroup[]): void {
    const sums = this.#sums;
    for (const group of groups) {
      sums.groups++;
      if (hasEqualRewards(group)) {
        const [first] = rewardsOf(group.scores);
        sums.equal++;
        if (first === 0) sums.allZero++;
        if (first === 1) sums.allFull++;
      }
      for (const { ids, finished } of group.responses) {
        sums.responses++;
        sums.tokens += ids.length;
        if (!finished) sums.unfinished++;
      }
      for (const score of group.scores) {
        if (score === null) continue;
        const { total, parts } = score;
        sums.rewarded++;
        sums.reward += total;
        sums.rewardSquared += total * total;
        for (const [name, value] of Object.entries(parts)) {
          let part = this.#parts.get(name);
          if (part === undefined) {
            if (!this.#open) throw new TimeseerError(`reward part '${name}' is not a part of its task`);
            part = [0, 0];
            this.#parts.set(name, part);
          }
          part[0] += value;
          part[1]++;
        }
      }
    }
  }

  /** Adds the share of the series that the responses mark. */
  marks(groups: readonly RolloutGroup[], marked: Task['marked']): void {
    for (const { example, responses } of groups) {
      for (const { text } of responses) {
        const share = marked(text, example);
        if (share === null) continue;
        this.#sums.readable++;
        this.#sums.predicted += share.predicted;
        this.#sums.gold += share.gold;
      }
    }
  }

  /** Adds the turns and failed steps of episodes, and the prompt tokens that were encoded and read from caches. */
  episodes(groups: readonly RolloutGroup[], { encoded, reused } = { encoded: 0, reused: 0 }): void {
    this.#sums.encoded += encoded;
    this.#sums.reused += reused;
    for (const { turns, failures, answer } of groups.flatMap(({ episodes = [] }) => episodes)) {
      this.#sums.episodes++;
      this.#sums.turns += turns.length;
      this.#sums.failures += failures;
      this.#sums.answered += answer === '' ? 0 : 1;
    }
  }

  /** Compares the distances to success that GraphGPO estimates from a group with the true ones. */
  distances(episodes: readonly Episode[], stepsFrom: (state: string) => number): void {
    if (!episodes.some(({ success }) => success)) return;
    for (const [state, estimated] of estimatedDistances(episodes)) {
      if (state === ANSWERED) continue;
      const steps = stepsFrom(state);
      this.#sums.states++;
      this.#sums.estimatedDistance += estimated;
      this.#sums.trueDistance += steps;
      this.#sums.distanceError += Math.abs(estimated - steps);
    }
  }

  /** Adds claim F1 and agreement of the reasonings. */
  reasoning(groups: readonly RolloutGroup[], reasoned: NonNullable<Task['reasoned']>): void {
    const sums = this.#sums;
    for (const { example, responses } of groups) {
      for (const { text } of responses) {
        const { f1, agreement } = reasoned(text, example) ?? { agreement: null };
        sums.graded += f1 === undefined ? 0 : 1;
        sums.claimF1 += f1 ?? 0;
        sums.concluded += agreement === null ? 0 : 1;
        sums.agreed += agreement === true ? 1 : 0;
      }
    }
  }

  /** Adds the responses of each group that could be corrected, and whether one of them was moved. */
  lessons(
    groups: readonly { readonly corrections: readonly unknown[]; readonly counterfactual: unknown }[],
  ): void {
    for (const { corrections, counterfactual } of groups) {
      this.#sums.taughtGroups++;
      this.#sums.corrected += corrections.length;
      this.#sums.moved += counterfactual === null ? 0 : 1;
    }
  }

  /** Adds the similarities of all responses, group after group. */
  similarity(groups: readonly RolloutGroup[], { similarity, gold, transport }: SimilarityResult): void {
    const sums = this.#sums;
    let start = 0;
    groups.forEach((group, p) => {
      const { scores } = group;
      const values = similarity.subarray(start, start + scores.length);
      start += scores.length;
      const center = mean(values);
      const reward = mean(rewardsOf(scores));
      const alike = hasEqualRewards(group);
      values.forEach((value, g) => {
        sums.compared++;
        sums.similarity += value;
        const score = scores[g];
        if (alike || score == null) return;
        sums.covariance += (value - center) * (score.total - reward);
        sums.similarityVariance += (value - center) ** 2;
        sums.rewardVariance += (score.total - reward) ** 2;
      });
      if (gold === null) return;
      const [ahead, behind] = [gold[p]! - SAME, gold[p]! + SAME];
      sums.goldGroups++;
      sums.goldSimilarity += gold[p]!;
      if (values.every((value) => value <= behind)) sums.goldFirst++;
      sums.goldNearer += mean(values.map((value) => (value < ahead ? 1 : value > behind ? 0 : 0.5)));
    });
    if (transport === null) return;
    const { rowError, tokens, partners } = transport;
    sums.transported += rowError.length;
    tokens.forEach((value, b) => {
      sums.massTokens += value;
      sums.partners += partners[b]!;
    });
    this.#transportError = rowError.reduce((worst, value) => Math.max(worst, value), 0);
  }

  advantages(groups: readonly GroupAdvantage[]): void {
    for (const group of groups) {
      if (isZeroVariance(group)) this.#sums.zeroVariance++;
      for (const value of group.advantage) this.#sums.advantageSquared += value * value;
      for (const value of group.orthogonal) this.#sums.orthogonalSquared += value * value;
      group.main.forEach((value, i) => {
        this.#sums.mainSquared += value * value;
        this.#sums.groundedSquared += (group.advantage[i]! - value) ** 2;
      });
    }
  }

  /** Adds the importance weights of a response's tokens. */
  importance(weights: Float32Array): void {
    this.#sums.weight += weights.reduce((total, weight) => total + weight, 0);
    this.#sums.weightTokens += weights.length;
  }

  samplerGap(trainer: Float32Array, sampler: Float32Array): void {
    if (!this.#firstPass) return;
    trainer.forEach((value, k) => {
      this.#sums.gap += Math.abs(value - sampler[k]!);
    });
    this.#sums.gapTokens += trainer.length;
  }

  loss(value: number, result: Omit<PolicyLoss, 'loss'>, tokens: number): void {
    this.#sums.loss += value;
    this.#sums.entropy += result.entropy;
    this.#sums.clipped += result.clipped;
    this.#sums.lossTokens += tokens;
  }

  /** Adds a sum of k3 over tokens. */
  divergence(kl: number, tokens: number): void {
    this.#sums.kl += kl;
    this.#sums.klTokens += tokens;
  }

  /** Adds groups that are replaced by those of further prompts. */
  resampled(groups: number): void {
    this.#sums.resampled += groups;
  }

  /** Adds the summed divergence of a chunk of tokens from the teacher; `loss` counts the tokens. */
  distillation(value: number): void {
    this.#sums.divergence += value;
    this.#sums.distilled++;
  }

  /** Adds an update; `denominator`: this rank's share of the divisor of its loss. */
  update(report: StepReport, denominator: number): void {
    this.#sums.denominator += denominator;
    this.#firstPass = false;
    this.#gradNorm = report.gradNorm;
    if (report.skipped) this.#skipped++;
  }

  /** Sums over ranks; a part is a mean over the responses that have it. Collective. */
  reduce(workers: WorkerGroup): Omit<RlMetrics, 'guards'> {
    const partNames = [...this.#parts.keys()];
    const lines = this.#open ? gatherLines(JSON.stringify(partNames), workers) : [];
    const names = this.#open
      ? [...new Set(lines.flatMap((line) => JSON.parse(line) as string[]))].sort()
      : partNames;
    this.#sums.filled = this.padding.tokens;
    this.#sums.places = this.padding.places;
    const sent = [
      ...SUMS.map((key) => this.#sums[key]),
      ...PHASES.map((phase) => this.#ms[phase] / workers.size),
    ];
    const all = workers.allReduce(sent);
    const parts = names.flatMap((name) => this.#parts.get(name) ?? [0, 0]);
    const ofRanks = workers.gather(parts);
    const ofParts = parts.map((_, i) => {
      let total = 0;
      for (let at = i; at < ofRanks.length; at += parts.length) total += ofRanks[at]!;
      return total;
    });
    const sum = Object.fromEntries(SUMS.map((key, i) => [key, all[i]!])) as Sums;
    const errors = workers.allGather([this.#transportError ?? -1]).map(([value]) => value!);
    const error = Math.max(...errors);
    const perToken = (value: number): number => value / Math.max(1, sum.lossTokens);
    return {
      step: this.#step,
      reward: sum.reward / sum.rewarded,
      unrewarded: sum.responses - sum.rewarded,
      rewardStd: standardDeviation(sum.reward, sum.rewardSquared, sum.rewarded),
      parts: Object.fromEntries(
        names.flatMap((name, i): [string, number][] => {
          const [value, count] = ofParts.slice(2 * i) as [number, number];
          return count === 0 ? [] : [[name, value / count]];
        }),
      ),
      similarity: over(sum.similarity, sum.compared),
      transportError: error < 0 ? null : error,
      advantage: Math.sqrt(sum.advantageSquared / sum.responses),
      orthogonal: Math.sqrt(sum.orthogonalSquared / sum.responses),
      distillation: sum.distilled === 0 ? null : perToken(sum.divergence),
      grounding: groundingOf(sum),
      equalRewards: sum.equal / sum.groups,
      allZero: sum.allZero / sum.groups,
      allFull: sum.allFull / sum.groups,
      resampled: sum.resampled,
      zeroVariance: sum.zeroVariance / sum.groups,
      loss: sum.loss / Math.max(1, sum.denominator),
      kl: over(sum.kl, sum.klTokens),
      entropy: perToken(sum.entropy),
      clipped: perToken(sum.clipped),
      samplerGap: sum.gap / Math.max(1, sum.gapTokens),
      importance: over(sum.weight, sum.weightTokens),
      tokens: sum.tokens / sum.responses,
      unfinished: sum.unfinished / sum.responses,
      padding: 1 - sum.filled / Math.max(1, sum.places),
      gradNorm: this.#gradNorm,
      learningRate: this.#learningRate,
      skipped: this.#skipped,
      marked:
        sum.readable === 0
          ? null
          : { predicted: sum.predicted / sum.readable, gold: sum.gold / sum.readable },
      reasoning:
        sum.graded + sum.concluded === 0
          ? null
          : { claimF1: over(sum.claimF1, sum.graded), agreement: over(sum.agreed, sum.concluded) },
      lessons:
        sum.taughtGroups === 0
          ? null
          : { corrections: sum.corrected / sum.responses, counterfactuals: sum.moved / sum.taughtGroups },
      inspection:
        sum.episodes === 0
          ? null
          : {
              turns: sum.turns / sum.episodes,
              failures: sum.failures / sum.episodes,
              answered: sum.answered / sum.episodes,
              reused: sum.reused / Math.max(1, sum.encoded + sum.reused),
              distance:
                sum.states === 0
                  ? null
                  : {
                      estimated: sum.estimatedDistance / sum.states,
                      true: sum.trueDistance / sum.states,
                      error: sum.distanceError / sum.states,
                    },
            },
      ms: Object.fromEntries(PHASES.map((phase, i) => [phase, all[SUMS.length + i]!])) as Record<
        Phase,
        number
      >,
    };
  }
}

/** Line of a log, with the number of its step from 1. */
export interface LogLine {
  readonly step: number;
}

const ADVICE = 'the log is damaged: start the stage over with --force';

function isLogLine(value: unknown): value is LogLine {
  return typeof value === 'object' && value !== null && 'step' in value && Number.isInteger(value.step);
}

/**
 * Reads whole lines and drops an incomplete last line of a killed process.
 * @throws DataError naming file and line when another line is not JSON or has no step
 */
export function readLog(file: string, onTornEnd = (): void => {}): LogLine[] {
  if (!existsSync(file)) return [];
  return Array.from(readJsonValues(file, { advice: ADVICE, onTornEnd }), ({ value, line }) => {
    if (isLogLine(value)) return value;
    throw new DataError(`a line without a step; ${ADVICE}`, { file, line });
  });
}

/** Checks that every step up to a checkpoint has a line. @throws DataError naming the steps that are missing */
export function checkSteps(file: string, lines: readonly LogLine[], last: number): void {
  const steps = new Set(lines.map(({ step }) => step));
  const missing = Array.from({ length: last }, (_, i) => i + 1).filter((step) => !steps.has(step));
  if (missing.length === 0) return;
  const [first, end] = [missing[0]!, missing.at(-1)!];
  throw new DataError(
    `the ${missing.length === 1 ? `line of step ${first} is` : `lines of ${missing.length} steps from ${first} to ${end} are`} missing, ` +
      `but the checkpoint is of step ${last}: restore the whole file, or start the stage over with --force`,
    { file },
  );
}

export class RunLog {
  readonly file: string;
  /** Lines kept when the log was opened. */
  readonly kept: readonly LogLine[];

  /** Opens a log that keeps lines up to step `keep` (those of a checkpoint that a run resumes from). */
  constructor(file: string, keep = 0) {
    this.file = file;
    const onTornEnd = (): void => say(`${file}: the last line was cut off; it is dropped`);
    this.kept = keep > 0 ? readLog(file, onTornEnd).filter((line) => line.step <= keep) : [];
    writeFileAtomic(file, this.kept.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }

  /** @throws WriteError when the disk is full. */
  append(line: LogLine): void {
    appendText(this.file, `${JSON.stringify(line)}\n`);
  }
}
