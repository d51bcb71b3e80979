/**
 * Advantage estimators: pure functions that map the prompt groups of a step to one advantage per response, shared by its tokens.
 * `ADVANTAGES` lists them by name; to add one, add a record to that table. `defineAdvantage` declares a user's estimator.
 */
import { type Choice, choiceNames } from '../ground/choice.ts';
import { AdvantageError, ConfigError, TimeseerError } from '../ground/errors.ts';
import { checkKeys } from '../ground/json-record.ts';
import type { ModuleAdapter } from '../ground/module-host.ts';
import { mean } from '../ground/numbers.ts';
import { hash32 } from '../ground/random.ts';
import { checkName, readExport, thrownText } from '../ground/user-code.ts';
import type { ModuleAddress } from '../ground/user-module.ts';
import {
  type Episode,
  estimateSteps,
  STEP_ADVANTAGES,
  type StepAdvantageName,
  type StepAdvantageOptions,
} from './step-advantage.ts';

/** Group of G responses to the same prompt. */
export interface GroupRecord {
  /** Task rewards [G]. */
  readonly rewards: readonly number[];
  /** Applicable reward parts by name: [G]. */
  readonly parts: readonly Readonly<Record<string, number>>[];
  /** Number of tokens of each response: [G]. */
  readonly lengths: readonly number[];
  /** Similarity to the expert trace [G], in [0, 1]; zeros for estimators that do not read traces. */
  readonly similarity: readonly number[];
  /** Name of the task that the prompt belongs to. */
  readonly task: string;
  /** Episodes with their steps [G], for tasks of several turns. */
  readonly episodes?: readonly Episode[];
}

export interface GroupAdvantage {
  /** Advantages used by the loss: [G]. */
  readonly advantage: readonly number[];
  /** Task part, from the rewards alone: [G]. */
  readonly main: readonly number[];
  /** Orthogonal (grounding) part after projection and scaling, before α; zeros for estimators without one: [G]. */
  readonly orthogonal: readonly number[];
  /** Advantage of each step of an episode, from estimators that give credit to steps: [G][T]. `advantage` is their mean. */
  readonly steps?: readonly (readonly number[])[];
}

const PROJECTION_EPSILON = 1e-8;
const STD_EPSILON = 1e-6;
/** Added to the variance of a batch, as in verl's `masked_whiten`. */
const VARIANCE_EPSILON = 1e-8;

function centred(values: readonly number[]): number[] {
  // Equal values must give exactly 0; a rounded mean would leave a tiny advantage.
  if (values.every((value) => value === values[0])) return values.map(() => 0);
  const centre = mean(values);
  return values.map((value) => value - centre);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

/** (x − mean) / (std + 1e-6) with the sample standard deviation; 0 for equal values, and for a single one. */
function standardised(values: readonly number[], epsilon = STD_EPSILON): number[] {
  const differences = centred(values);
  const std = Math.sqrt(dot(differences, differences) / Math.max(1, differences.length - 1));
  return differences.map((value) => value / (std + epsilon));
}

/**
 * GRPO: (r − mean) / (std + 1e-6), sample standard deviation as in verl (TRL adds 1e-4); 0 for equal rewards.
 */
export const grpo = ({ rewards }: Pick<GroupRecord, 'rewards'>): number[] => standardised(rewards);

/** Dr. GRPO: r − mean. For the paper's constant loss denominator set `rl.aggregation: constant`. */
export const drGrpo = ({ rewards }: Pick<GroupRecord, 'rewards'>): number[] => centred(rewards);

/**
 * RLOO: r minus the mean of the others' rewards, (r − mean)·G / (G − 1), as in TRL and verl; 0 for a single
 * response.
 */
export function rloo({ rewards }: Pick<GroupRecord, 'rewards'>): number[] {
  const size = rewards.length;
  return centred(rewards).map((value) => (size === 1 ? 0 : (value * size) / (size - 1)));
}

/**
 * Computes GDPO's weighted sum, without batch normalisation: Σ_k w_k · (r_k − mean_k) / (std_k + 1e-6), with mean and standard deviation of each part k
 * over the responses of the group that have it. A missing part is left out of sums and means, as TRL treats a reward of None.
 */
export function gdpoSum(
  { parts }: Pick<GroupRecord, 'parts'>,
  weights: Readonly<Record<string, number>>,
): number[] {
  const out = parts.map(() => 0);
  for (const [name, weight] of Object.entries(weights)) {
    const present = parts.flatMap((response, i) => (response[name] === undefined ? [] : [i]));
    standardised(present.map((i) => parts[i]![name]!)).forEach((value, k) => {
      out[present[k]!]! += weight * value;
    });
  }
  return out;
}

/** Concatenates the numbers of all ranks in rank order, on every rank. */
export type Gather = (values: readonly number[]) => Float64Array;

/**
 * Normalises advantages over a batch that spans all ranks: (x − mean) / √(variance + 1e-8). `weights` are the weights of the responses in
 * mean and sample variance: token counts, or 1. If `shift` is false, the mean is not subtracted. Groups with the same key in `keys` form
 * a batch: one key for all, or one per task, so that the rewards of one task do not scale the advantages of another (Dr. MAS, arXiv
 * 2602.08847, does this per agent).
 *
 * The result is bit-identical for any number of ranks, because every rank computes on all values in the same order. A batch of a single
 * token or response gives 0. Collective.
 */
function normalisedOverBatch(
  values: readonly (readonly number[])[],
  weights: readonly (readonly number[])[],
  keys: readonly string[],
  gather: Gather,
  shift: boolean,
): number[][] {
  const codes = keys.map(hash32);
  const all = gather(
    values.flatMap((group, p) => group.flatMap((value, i) => [codes[p]!, value, weights[p]![i]!])),
  );
  const statistics = new Map<number, { mean: number; factor: number }>();
  for (const code of new Set(codes)) {
    const rows: (readonly [value: number, weight: number])[] = [];
    for (let i = 0; i < all.length; i += 3) if (all[i] === code) rows.push([all[i + 1]!, all[i + 2]!]);
    const count = rows.reduce((sum, [, weight]) => sum + weight, 0);
    const mean = shift ? rows.reduce((sum, [value, weight]) => sum + weight * value, 0) / count : 0;
    const square = rows.reduce((sum, [value, weight]) => sum + weight * (value - mean) ** 2, 0);
    const factor = count > 1 ? 1 / Math.sqrt(square / (count - 1) + VARIANCE_EPSILON) : 0;
    statistics.set(code, { mean, factor });
  }
  return values.map((group, p) => {
    const { mean, factor } = statistics.get(codes[p]!)!;
    return group.map((value) => (value - mean) * factor);
  });
}

interface RewardAdvantageOptions {
  /** Weights of the reward's parts. */
  readonly weights: Readonly<Record<string, number>>;
  /** Normalisation batch of `reinforce_pp` and `gdpo`: all prompts of the step, or the prompts of each task. */
  readonly normalise: 'batch' | 'task';
}

const batchKeys = (groups: readonly GroupRecord[], { normalise }: RewardAdvantageOptions): string[] =>
  groups.map(({ task }) => (normalise === 'task' ? task : ''));

/**
 * REINFORCE++ with the group mean as baseline, the paper's variant for several responses per prompt: r − mean of the group, then normalised over
 * the tokens of the batch, as in verl and OpenRLHF. Longer responses weigh more in the batch's mean, which is therefore not 0: a group of
 * equal rewards gets a small advantage and is not skipped. Collective.
 */
function reinforcePlusPlus(
  groups: readonly GroupRecord[],
  options: RewardAdvantageOptions,
  gather: Gather,
): number[][] {
  const lengths = groups.map((group) => group.lengths);
  return normalisedOverBatch(groups.map(drGrpo), lengths, batchKeys(groups, options), gather, true);
}

/**
 * `gdpoSum`, then normalised over the responses of the batch, as in the paper and in TRL; verl normalises over tokens. The mean over the batch is
 * 0, since every part is centred in its group, and is not subtracted: a group of equal parts stays at exactly 0. Collective.
 */
function gdpo(groups: readonly GroupRecord[], options: RewardAdvantageOptions, gather: Gather): number[][] {
  const sums = groups.map((group) => gdpoSum(group, options.weights));
  const ones = sums.map((sum) => sum.map(() => 1));
  return normalisedOverBatch(sums, ones, batchKeys(groups, options), gather, false);
}

/** Combination of TimerPO's main and orthogonal part. */
interface TimerpoOptions {
  /** Weight of the orthogonal part, α ≥ 0. */
  readonly alpha: number;
  /** False keeps the component along the main part (the paper's ablation). */
  readonly projection: boolean;
  /** Orthogonal part in a group of equal rewards: s − mean(s) as in the paper (default), or that over the standard deviation of s. */
  readonly equalGroups?: 'plain' | 'standardised';
}

/**
 * TimerPO (AnomSeer) on top of any main part [G]: A = A_main + α·A_orth with A_ts = s − mean(s) and
 * A_orth = A_ts − ⟨A_ts, A_main⟩ / (‖A_main‖² + 1e-8) · A_main, inner products over the group; without the projection
 * A_orth = A_ts. The paper's main part is r − mean(r). In a group of equal rewards it is zero and A_orth = A_ts, so the group still has a
 * gradient; `equalGroups: standardised` (ours) divides it there by the sample standard deviation + 1e-4. `similarity` [G] in [−1, 1].
 */
export function timerpo(
  main: readonly number[],
  similarity: readonly number[],
  { alpha, projection, equalGroups }: TimerpoOptions,
): GroupAdvantage {
  const isEqual = main.every((value) => value === main[0]);
  const centredSimilarity =
    isEqual && equalGroups === 'standardised' ? standardised(similarity, SPREAD_FLOOR) : centred(similarity); // [G]
  const coefficient = projection ? dot(centredSimilarity, main) / (dot(main, main) + PROJECTION_EPSILON) : 0;
  const orthogonal = centredSimilarity.map((value, i) => value - coefficient * main[i]!); // [G]
  return { main, orthogonal, advantage: main.map((value, i) => value + alpha * orthogonal[i]!) };
}

/** Lower bound on the spread of orthogonal parts that are scaled; smaller values are rounding noise of hidden states. */
export const SPREAD_FLOOR = 1e-4;

/**
 * Scales all orthogonal parts by one factor so that their root mean square over the step (all ranks) equals that of the main parts. α is
 * then the ratio of grounding to task advantage, whatever the scale of the similarity. A common factor keeps the proportions between
 * groups: groups with equal rewards keep a gradient, and a group of near-equal responses is not amplified.
 *
 * Edge cases: if the main part is 0 in every group of the step (equal rewards), orthogonal parts stay unchanged; a root mean square of the
 * orthogonal parts below 1e-4 counts as 1e-4.
 *
 * `sum` adds numbers over ranks. Collective.
 */
export function withEqualSpread(
  groups: readonly GroupAdvantage[],
  alpha: number,
  sum: (values: readonly number[]) => ArrayLike<number>,
): GroupAdvantage[] {
  const squares = (key: 'main' | 'orthogonal'): number =>
    groups.reduce((all, group) => all + dot(group[key], group[key]), 0);
  const responses = groups.reduce((count, { main }) => count + main.length, 0);
  const [main, orthogonal, count] = Array.from(sum([squares('main'), squares('orthogonal'), responses]));
  if (main === 0) return [...groups];
  const factor = Math.sqrt(main! / count!) / Math.max(Math.sqrt(orthogonal! / count!), SPREAD_FLOOR);
  return groups.map((group) => {
    const scaled = group.orthogonal.map((value) => factor * value);
    const advantage = group.main.map((value, i) => value + alpha * scaled[i]!);
    return { main: group.main, orthogonal: scaled, advantage };
  });
}

/** Collective operations for estimators over a whole batch. */
export interface Ranks {
  readonly rank: number;
  gather(values: readonly number[]): Float64Array;
  allReduce(values: readonly number[]): readonly number[];
}

/** Advantage estimator, discriminated by its inputs (`reads`). `estimate` is collective. */
export type AdvantageEstimator = Choice &
  (
    | {
        /** Inputs: rewards alone, or each reward part. */
        readonly reads: 'rewards' | 'parts';
        /** [P][G] */
        readonly estimate: (
          groups: readonly GroupRecord[],
          options: RewardAdvantageOptions,
          gather: Gather,
        ) => number[][];
      }
    | {
        /** Inputs: rewards and the similarity to expert traces. */
        readonly reads: 'traces';
        readonly estimate: (
          groups: readonly GroupRecord[],
          options: AdvantageOptions,
          ranks: Ranks,
        ) => GroupAdvantage[];
      }
    | {
        /** Inputs: the steps of episodes. Estimates without other ranks: a group is never split. */
        readonly reads: 'steps';
      }
    | { readonly reads: 'nothing' }
  );

/** Record of a step-level estimator. */
function stepEstimator(name: Exclude<StepAdvantageName, 'grpo'>) {
  const { label, summary, paper } = STEP_ADVANTAGES[name];
  return { label, summary: `${summary} (with inspect)`, paper, reads: 'steps' } as const;
}

export const ADVANTAGES = {
  timerpo: {
    label: 'TimerPO',
    summary: 'rl.timerpo.base plus an orthogonal part from the similarity to the expert trace',
    paper: 'AnomSeer',
    reads: 'traces',
    estimate: timerpoAdvantages,
  },
  grpo: {
    label: 'GRPO',
    summary: 'reward minus the group mean, over the standard deviation of the group',
    paper: 'Shao et al. 2024, arXiv 2402.03300',
    reads: 'rewards',
    estimate: (groups) => groups.map(grpo),
  },
  dr_grpo: {
    label: 'Dr. GRPO',
    summary: 'reward minus the group mean',
    paper: 'Liu et al. 2025, arXiv 2503.20783',
    reads: 'rewards',
    estimate: (groups) => groups.map(drGrpo),
  },
  rloo: {
    label: 'RLOO',
    summary: "reward minus the mean of the group's other rewards",
    paper: 'Ahmadian et al. 2024, arXiv 2402.14740',
    reads: 'rewards',
    estimate: (groups) => groups.map(rloo),
  },
  reinforce_pp: {
    label: 'REINFORCE++',
    summary: 'reward minus the group mean, normalised over the tokens of the batch',
    paper: 'Hu et al. 2025, arXiv 2501.03262',
    reads: 'rewards',
    estimate: reinforcePlusPlus,
  },
  gdpo: {
    label: 'GDPO',
    summary: 'each reward part standardised in its group, their weighted sum normalised over the batch',
    paper: 'Liu et al. 2026, arXiv 2601.05242',
    reads: 'parts',
    estimate: gdpo,
  },
  gigpo: stepEstimator('gigpo'),
  hgpo: stepEstimator('hgpo'),
  graphgpo: stepEstimator('graphgpo'),
  none: {
    label: 'self-distillation',
    summary: 'no reward is maximised; rl.distillation is the only loss',
    reads: 'nothing',
  },
} as const satisfies Readonly<Record<string, AdvantageEstimator>>;

export type AdvantageName = keyof typeof ADVANTAGES;
/** Name of an estimator that can be TimerPO's main part. */
export type RewardAdvantage = {
  [Name in AdvantageName]: (typeof ADVANTAGES)[Name]['reads'] extends 'rewards' | 'parts' ? Name : never;
}[AdvantageName];

const estimatorOf = (name: AdvantageName): AdvantageEstimator => ADVANTAGES[name];

/** Names of the estimators without traces. */
export const REWARD_ADVANTAGES = choiceNames(ADVANTAGES).filter((name): name is RewardAdvantage =>
  /^(?:rewards|parts)$/.test(estimatorOf(name).reads),
) as [RewardAdvantage, ...RewardAdvantage[]];

export interface AdvantageOptions extends RewardAdvantageOptions {
  /** Name in `ADVANTAGES`, or a user's estimator. */
  readonly advantage: AdvantageName | AdvantageDefinition;
  readonly timerpo: TimerpoOptions & {
    /** Estimator of the main part. */
    readonly base: RewardAdvantage;
    readonly scale: 'plain' | 'spread';
  };
  /** Options of the step-level estimators; null: their own. */
  readonly stepwise?: { readonly [Key in keyof StepAdvantageOptions]?: StepAdvantageOptions[Key] | null };
}

/** Returns true if the estimator needs the similarity of responses to expert traces. */
export const readsTraces = ({
  advantage,
  timerpo: { alpha },
}: {
  readonly advantage: AdvantageOptions['advantage'];
  readonly timerpo: Pick<TimerpoOptions, 'alpha'>;
}): boolean =>
  typeof advantage === 'string'
    ? estimatorOf(advantage).reads === 'traces' && alpha > 0
    : advantage.similarity === true;

/** Computes TimerPO: main part from `base`, and orthogonal part. Collective. */
function timerpoAdvantages(
  groups: readonly GroupRecord[],
  options: AdvantageOptions,
  ranks: Ranks,
): GroupAdvantage[] {
  const { base, scale, alpha } = options.timerpo;
  const mains = ADVANTAGES[base].estimate(groups, options, (values) => ranks.gather(values));
  const plain = mains.map((main, p) => timerpo(main, groups[p]!.similarity, options.timerpo));
  return scale === 'spread' && alpha > 0
    ? withEqualSpread(plain, alpha, (values) => ranks.allReduce(values))
    : plain;
}

/** Group in which some responses may have no reward (null). */
export type PartlyRewardedGroup = Omit<GroupRecord, 'rewards'> & {
  readonly rewards: readonly (number | null)[];
};

/**
 * Computes the advantages of this rank's groups. Responses without a reward (null) are left out of means and deviations and get advantage
 * 0: similarity to a trace alone does not make a response good. Collective.
 * @throws AdvantageError for a user's estimator that does not return one finite number per response
 */
export function advantagesOf(
  groups: readonly PartlyRewardedGroup[],
  options: AdvantageOptions,
  ranks: Ranks,
): GroupAdvantage[] {
  const rewardedIndices = groups.map(({ rewards }) =>
    rewards.flatMap((reward, i) => (reward === null ? [] : [i])),
  );
  const rewarded = groups.map((group, p): GroupRecord => {
    const pick = <T>(values: readonly T[]): T[] => rewardedIndices[p]!.map((i) => values[i]!);
    return {
      task: group.task,
      rewards: pick(group.rewards) as number[],
      parts: pick(group.parts),
      lengths: pick(group.lengths),
      similarity: pick(group.similarity),
      ...(group.episodes === undefined ? {} : { episodes: pick(group.episodes) }),
    };
  });
  return rewardedAdvantages(rewarded, options, ranks).map((group, p) => {
    const scatter = (values: readonly number[]): number[] => {
      const out = groups[p]!.rewards.map(() => 0);
      rewardedIndices[p]!.forEach((i, k) => {
        out[i] = values[k]!;
      });
      return out;
    };
    const { steps } = group;
    return {
      advantage: scatter(group.advantage),
      main: scatter(group.main),
      orthogonal: scatter(group.orthogonal),
      ...(steps === undefined
        ? {}
        : {
            steps: groups[p]!.episodes!.map((episode, i) => {
              const k = rewardedIndices[p]!.indexOf(i);
              return k < 0 ? episode.steps.map(() => 0) : steps[k]!;
            }),
          }),
    };
  });
}

function rewardedAdvantages(
  groups: readonly GroupRecord[],
  options: AdvantageOptions,
  ranks: Ranks,
): GroupAdvantage[] {
  const { advantage } = options;
  const withoutTraces = (mains: readonly (readonly number[])[]): GroupAdvantage[] =>
    mains.map((main) => ({ main, orthogonal: main.map(() => 0), advantage: main }));
  if (typeof advantage !== 'string') return withoutTraces(userAdvantages(advantage, groups, ranks));
  const estimator = estimatorOf(advantage);
  // Rewards are only logged; the gradient comes from other terms of the loss.
  if (estimator.reads === 'steps') return stepAdvantages(advantage as StepAdvantageName, groups, options);
  if (estimator.reads === 'nothing') return withoutTraces(groups.map(({ rewards }) => rewards.map(() => 0)));
  return estimator.reads === 'traces'
    ? estimator.estimate(groups, options, ranks)
    : withoutTraces(estimator.estimate(groups, options, (values) => ranks.gather(values)));
}

/** Computes one advantage per step. @throws ConfigError for groups of single responses */
function stepAdvantages(
  name: StepAdvantageName,
  groups: readonly GroupRecord[],
  { stepwise = {} }: AdvantageOptions,
): GroupAdvantage[] {
  const episodes = groups.map((group) => {
    if (group.episodes !== undefined) return group.episodes;
    throw new ConfigError(
      `rl.advantage: ${name} gives credit to the steps of episodes; set inspect, or take grpo`,
    );
  });
  const given = Object.fromEntries(Object.entries(stepwise).filter(([, value]) => value !== null));
  return estimateSteps(name, episodes, given).map((steps) => {
    const advantage = steps.map(mean);
    return { advantage, main: advantage, orthogonal: advantage.map(() => 0), steps };
  });
}

/** Returns true for a zero-variance group: every advantage is exactly zero, so it has no gradient. */
export function isZeroVariance({ advantage, steps }: GroupAdvantage): boolean {
  return (steps?.flat() ?? advantage).every((value) => value === 0);
}

// ---- estimators of users -------------------------------------------------------------------------------------------

export interface AdvantageDefinition {
  /** Name in logs and reports: letters, digits, `_` and `-`. */
  readonly name: string;
  /** True adds the similarity of each response to the expert trace (configured in `rl.timerpo`), at the cost of a forward pass. Default: false. */
  readonly similarity?: boolean;
  /**
   * Computes the advantages of all groups of a step, in order: [P][G] finite numbers. Responses without a reward are left out, so groups may
   * differ in size. Every rank calls it with the groups of all ranks and uses its share: it must be pure and synchronous. A call of a
   * module runs in a thread of its own, and is ended after 60 seconds.
   */
  readonly advantages: (groups: readonly GroupRecord[]) => readonly (readonly number[])[];
  /** File of the module, for messages. */
  readonly file?: string;
}

const KEYS = ['name', 'similarity', 'advantages', 'file'];

/**
 * Declares an advantage estimator, for `rl.advantage: ./FILE` of a recipe and for `rl()` of the library:
 *
 *     import { defineAdvantage } from 'timeseer';
 *
 *     export default defineAdvantage({
 *       name: 'best',
 *       advantages: (groups) =>
 *         groups.map(({ rewards }) => rewards.map((reward) => (reward === Math.max(...rewards) ? 1 : 0))),
 *     });
 *
 * @throws ConfigError for a definition with a wrong or unknown key
 */
export function defineAdvantage(definition: AdvantageDefinition): AdvantageDefinition {
  const { name, advantages, similarity } = (definition ?? {}) as Partial<AdvantageDefinition>;
  checkName('defineAdvantage', name);
  checkKeys(`defineAdvantage ${name}`, definition, KEYS);
  if (typeof advantages !== 'function') {
    throw new ConfigError(`defineAdvantage ${name}: advantages: expected a function from groups to numbers`);
  }
  if (similarity !== undefined && typeof similarity !== 'boolean') {
    throw new ConfigError(`defineAdvantage ${name}: similarity: expected true or false`);
  }
  return definition;
}

/** Returns the estimator that a module exports. @throws ConfigError naming the file */
export function advantageOf(value: unknown, file: string): AdvantageDefinition {
  const define = (): AdvantageDefinition => defineAdvantage(value as AdvantageDefinition);
  return { ...readExport(file, 'advantage estimator', define), file };
}

type AdvantageInfo = Omit<AdvantageDefinition, 'advantages'>;

export const adapter: ModuleAdapter<AdvantageInfo, readonly GroupRecord[], number[][]> = {
  wanted: 'an advantage estimator made with defineAdvantage',
  open([module]) {
    const { advantages, ...info } = advantageOf(module!.value, module!.file);
    return { info, answer: (groups) => ({ reply: called({ ...info, advantages }, groups) }) };
  },
};

/** Seconds that a call of a module may take. */
const TIME_LIMIT = 60;

/**
 * Opens the estimator of a module, which runs in a thread of its own. Each training Worker has one, and a run one before anything is
 * written, for the errors.
 * @throws ConfigError for a module that cannot be loaded, or exports no estimator; so do calls that do not return
 */
export async function openAdvantage(
  module: ModuleAddress,
  seconds = TIME_LIMIT,
): Promise<AdvantageDefinition & { readonly close: () => Promise<void> }> {
  const { ModuleHost } = await import('../ground/module-host.ts');
  const host = await ModuleHost.open<AdvantageInfo, readonly GroupRecord[], number[][]>({
    modules: [module],
    adapter: import.meta.url,
    timeLimit: () => seconds,
    failure: (message) => new ConfigError(message),
  });
  return { ...host.info, advantages: (groups) => host.callSync(groups), close: () => host.close() };
}

const ADVICE = 'return one array per group with one finite number per response';

function checked(value: unknown, groups: readonly GroupRecord[], where: string): number[][] {
  const refuse = (problem: string): never => {
    throw new AdvantageError(`${where} returned ${problem}; ${ADVICE}`);
  };
  if (!Array.isArray(value)) return refuse(value instanceof Promise ? 'a promise' : `a ${typeof value}`);
  if (value.length !== groups.length) return refuse(`${value.length} arrays for ${groups.length} groups`);
  return value.map((group: unknown, p) => {
    const { rewards } = groups[p]!;
    const numbers = Array.isArray(group) || group instanceof Float64Array ? Array.from<unknown>(group) : null;
    if (numbers === null) return refuse(`a ${typeof group} for group ${p}`);
    if (numbers.length !== rewards.length) {
      return refuse(`${numbers.length} numbers for the ${rewards.length} responses of group ${p}`);
    }
    const bad = numbers.findIndex((value) => typeof value !== 'number' || !Number.isFinite(value));
    if (bad >= 0) return refuse(`${String(numbers[bad])} for response ${bad} of group ${p}`);
    return numbers as number[];
  });
}

/** Calls an estimator and checks what it returns. @throws AdvantageError */
function called({ name, file, advantages }: AdvantageDefinition, groups: readonly GroupRecord[]): number[][] {
  const where = `${file === undefined ? '' : `${file}: `}advantage ${name}`;
  let returned: unknown;
  try {
    returned = advantages(groups);
  } catch (cause) {
    // An error of a module's thread is in words already.
    if (cause instanceof TimeseerError) throw cause;
    throw new AdvantageError(`${where} ${thrownText(file ?? '', cause)}`, { cause });
  }
  return checked(returned, groups, where);
}

/** Gathers one line of text from each rank, in rank order. Collective. */
export function gatherLines(line: string, ranks: Pick<Ranks, 'gather'>): string[] {
  const codes = ranks.gather(Array.from(`${line}\n`, (letter) => letter.charCodeAt(0)));
  const text = Array.from(codes, (code) => String.fromCharCode(code)).join('');
  return text.split('\n').slice(0, -1);
}

/**
 * Computes advantages by a user's estimator, which receives the groups of all ranks: [P][G]. Collective.
 * @throws AdvantageError if the function throws or returns anything but one finite number per response
 */
function userAdvantages(
  definition: AdvantageDefinition,
  groups: readonly GroupRecord[],
  ranks: Ranks,
): number[][] {
  const all = gatherLines(JSON.stringify(groups), ranks).map((line) => JSON.parse(line) as GroupRecord[]);
  const rewarded = all.flat().filter(({ rewards }) => rewards.length > 0);
  const advantages = called(definition, rewarded);
  const rewardedCount = (records: readonly GroupRecord[]): number =>
    records.filter(({ rewards }) => rewards.length > 0).length;
  let next = rewardedCount(all.slice(0, ranks.rank).flat());
  return groups.map(({ rewards }) => (rewards.length === 0 ? [] : advantages[next++]!));
}
