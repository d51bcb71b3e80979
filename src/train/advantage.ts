/**
 * Advantage estimators: pure functions from the records of a step's prompt groups to one number per response, which holds
 * for every token of it. `ADVANTAGES` lists them by name; adding one takes a record in that table. `advantage.ts` runs those of users.
 */
import { type Choice, choiceNames } from '../ground/choice.ts';
import { AdvantageError, ConfigError } from '../ground/errors.ts';
import { checkKeys } from '../ground/json-record.ts';
import type { ModuleAdapter } from '../ground/module-host.ts';
import { hash32 } from '../ground/random.ts';
import { thrownText } from '../ground/user-code.ts';
import type { ModuleAddress } from '../ground/user-module.ts';

/** One group of G responses to the same prompt. */
export interface GroupRecord {
  /** Task rewards [G]. */
  readonly rewards: readonly number[];
  /** Parts of each reward by name, those that it has: [G]. */
  readonly parts: readonly Readonly<Record<string, number>>[];
  /** Number of tokens of each response: [G]. */
  readonly lengths: readonly number[];
  /** Similarity to the expert trace [G], in [0, 1]; zeros for estimators that do not read traces. */
  readonly similarity: readonly number[];
  /** Name of the task that the prompt belongs to. */
  readonly task: string;
}

export interface GroupAdvantage {
  /** Advantages used by the loss: [G]. */
  readonly advantage: readonly number[];
  /** Task part, from the rewards alone: [G]. */
  readonly main: readonly number[];
  /** Time-series part after projection and scaling, before α; zeros for estimators without one: [G]. */
  readonly orthogonal: readonly number[];
}

const PROJECTION_EPSILON = 1e-8;
const STD_EPSILON = 1e-6;
/** Added to the variance of a batch, as in verl's `masked_whiten`. */
const VARIANCE_EPSILON = 1e-8;

function centred(values: readonly number[]): number[] {
  // Equal values centre to exactly zero: their rounded mean must not turn into an advantage.
  if (values.every((value) => value === values[0])) return values.map(() => 0);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

/** (x − mean) / (std + 1e-6) with the sample standard deviation; 0 for equal values, and for a single one. */
function standardised(values: readonly number[]): number[] {
  const differences = centred(values);
  const std = Math.sqrt(dot(differences, differences) / Math.max(1, differences.length - 1));
  return differences.map((value) => value / (std + STD_EPSILON));
}

/**
 * GRPO (Shao et al. 2024, arXiv 2402.03300): (r − mean) / (std + 1e-6), sample standard deviation, as in verl (TRL adds 1e-4); 0 for a
 * group of equal rewards.
 */
export const grpo = ({ rewards }: Pick<GroupRecord, 'rewards'>): number[] => standardised(rewards);

/**
 * Dr. GRPO (Liu et al. 2025, arXiv 2503.20783): r − mean, not divided by the standard deviation. Their constant denominator of the loss
 * is `rl.aggregation: constant`.
 */
export const drGrpo = ({ rewards }: Pick<GroupRecord, 'rewards'>): number[] => centred(rewards);

/**
 * RLOO (Ahmadian et al. 2024, arXiv 2402.14740): r minus the mean of the others' rewards, which is (r − mean)·G / (G − 1), as in TRL and
 * verl. 0 for a group of equal rewards, and for a single response.
 */
export function rloo({ rewards }: Pick<GroupRecord, 'rewards'>): number[] {
  const size = rewards.length;
  return centred(rewards).map((value) => (size === 1 ? 0 : (value * size) / (size - 1)));
}

/**
 * The sum of GDPO before it is normalised over the batch: Σ_k w_k · (r_k − mean_k) / (std_k + 1e-6), mean and standard deviation of each
 * part k over those responses of the group that have it. A part that a response does not have is left out of its sum, and out of the
 * others' means, instead of counting as 0 (as TRL treats a reward of None).
 */
export function gdpoSum(
  { parts }: Pick<GroupRecord, 'parts'>,
  weights: Readonly<Record<string, number>>,
): number[] {
  const out = parts.map(() => 0);
  for (const [name, weight] of Object.entries(weights)) {
    const having = parts.flatMap((own, i) => (own[name] === undefined ? [] : [i]));
    standardised(having.map((i) => parts[i]![name]!)).forEach((value, k) => {
      out[having[k]!]! += weight * value;
    });
  }
  return out;
}

/** Numbers of all ranks, one rank's after another's, on every rank. */
export type Gather = (values: readonly number[]) => Float64Array;

/**
 * Values normalised over the batch of all ranks: (x − mean) / √(variance + 1e-8), mean and sample variance over tokens (each response
 * counts with its `weights`) or responses (weights of 1); without `shift` the mean is not subtracted. Batches are told apart by
 * `keys`: one for all, or one per task, so that the rewards of one do not scale the advantages of another (Dr. MAS, arXiv 2602.08847,
 * normalises per agent in this way; groups are of one prompt and so of one task in any case).
 *
 * The same on any number of ranks to the last bit, since every rank computes from all values in one order. 0 in a batch of a single
 * token or response. Collective.
 */
export function normalisedOverBatch(
  values: readonly (readonly number[])[],
  weights: readonly (readonly number[])[],
  keys: readonly string[],
  gather: Gather,
  shift: boolean,
): number[][] {
  const codes = keys.map(hash32);
  const all = gather(
    values.flatMap((own, p) => own.flatMap((value, i) => [codes[p]!, value, weights[p]![i]!])),
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
  return values.map((own, p) => {
    const { mean, factor } = statistics.get(codes[p]!)!;
    return own.map((value) => (value - mean) * factor);
  });
}

export interface RewardAdvantageOptions {
  /** Weights of the reward's parts. */
  readonly weights: Readonly<Record<string, number>>;
  /** Batch that `reinforce_pp` and `gdpo` normalise over: all prompts of the step, or the prompts of each task. */
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

/** Combination of the two parts of TimerPO. */
export interface TimerpoOptions {
  /** Weight of the orthogonal part, α ≥ 0. */
  readonly alpha: number;
  /** False leaves the component along the main part in the time-series part (the paper's ablation). */
  readonly projection: boolean;
}

/**
 * TimerPO (AnomSeer) on top of any main part [G]: A = A_main + α·A_orth with A_ts = s − mean(s) and
 * A_orth = A_ts − ⟨A_ts, A_main⟩ / (‖A_main‖² + 1e-8) · A_main, inner products over the group; without the projection
 * A_orth = A_ts. The paper's main part is r − mean(r). Where it is zero, all rewards being equal, A_orth = A_ts: such a group
 * still teaches. `similarity` [G] in [0, 1].
 */
export function timerpo(
  main: readonly number[],
  similarity: readonly number[],
  { alpha, projection }: TimerpoOptions,
): GroupAdvantage {
  const grounded = centred(similarity);
  const along = projection ? dot(grounded, main) / (dot(main, main) + PROJECTION_EPSILON) : 0;
  const orthogonal = grounded.map((value, i) => value - along * main[i]!);
  return { main, orthogonal, advantage: main.map((value, i) => value + alpha * orthogonal[i]!) };
}

/** Least root mean square of the orthogonal parts that is scaled to that of the main parts; less is rounding of the hidden states. */
export const SPREAD_FLOOR = 1e-4;

/**
 * The same groups with their orthogonal parts multiplied by one factor, such that over the whole step, all ranks, they have the
 * root mean square of the main parts: α then says what share of the advantage is grounded, whatever the similarity's units. One factor for
 * all keeps groups in proportion: those of equal rewards still teach, and one whose responses hardly differ is not blown up.
 *
 * Edge cases: no main part in the whole step (all rewards equal in every group) leaves the orthogonal parts as they are; a root mean square
 * below 1e-4 is taken for 1e-4.
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

/** Collective operations that estimators over a whole batch need. */
export interface Ranks {
  readonly rank: number;
  gather(values: readonly number[]): Float64Array;
  allReduce(values: readonly number[]): readonly number[];
}

/** An advantage estimator, by what it reads. Its `estimate` is collective. */
export type AdvantageEstimator = Choice &
  (
    | {
        /** Rewards alone, or also their parts one by one. */
        readonly reads: 'rewards' | 'parts';
        /** [P][G] */
        readonly estimate: (
          groups: readonly GroupRecord[],
          options: RewardAdvantageOptions,
          gather: Gather,
        ) => number[][];
      }
    | {
        /** Rewards, and the similarity to expert traces. */
        readonly reads: 'traces';
        readonly estimate: (
          groups: readonly GroupRecord[],
          options: AdvantageOptions,
          ranks: Ranks,
        ) => GroupAdvantage[];
      }
    | { readonly reads: 'nothing' }
  );

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
  none: {
    label: 'self-distillation',
    summary: 'no reward is maximised; rl.distillation alone',
    reads: 'nothing',
  },
} as const satisfies Readonly<Record<string, AdvantageEstimator>>;

export type AdvantageName = keyof typeof ADVANTAGES;
/** Estimators that TimerPO can be built on. */
export type RewardAdvantage = {
  [Name in AdvantageName]: (typeof ADVANTAGES)[Name]['reads'] extends 'rewards' | 'parts' ? Name : never;
}[AdvantageName];

const estimatorOf = (name: AdvantageName): AdvantageEstimator => ADVANTAGES[name];

/** Estimators from rewards alone. */
export const REWARD_ADVANTAGES = choiceNames(ADVANTAGES).filter((name): name is RewardAdvantage =>
  /^(?:rewards|parts)$/.test(estimatorOf(name).reads),
) as [RewardAdvantage, ...RewardAdvantage[]];

export interface AdvantageOptions extends RewardAdvantageOptions {
  /** Estimator by name, or one of a user. */
  readonly advantage: AdvantageName | AdvantageDefinition;
  readonly timerpo: TimerpoOptions & {
    /** Estimator of the main part. */
    readonly base: RewardAdvantage;
    readonly scale: 'plain' | 'spread';
  };
}

/** True where the similarity of responses to expert traces is computed. */
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

/** Main part of TimerPO from its base, and the orthogonal part. Collective. */
function timerpoAdvantages(
  groups: readonly GroupRecord[],
  options: AdvantageOptions,
  ranks: Ranks,
): GroupAdvantage[] {
  const { base, scale, alpha } = options.timerpo;
  const mains = rewardAdvantages(base, groups, options, (values) => ranks.gather(values));
  const plain = mains.map((main, p) => timerpo(main, groups[p]!.similarity, options.timerpo));
  return scale === 'spread' && alpha > 0
    ? withEqualSpread(plain, alpha, (values) => ranks.allReduce(values))
    : plain;
}

/** Task parts of a step's groups by an estimator from rewards alone: [P][G]. Collective. */
export function rewardAdvantages(
  name: RewardAdvantage,
  groups: readonly GroupRecord[],
  options: RewardAdvantageOptions,
  gather: Gather,
): number[][] {
  return ADVANTAGES[name].estimate(groups, options, gather);
}

/** A group in which some responses may have no reward. */
export type SampledGroup = Omit<GroupRecord, 'rewards'> & { readonly rewards: readonly (number | null)[] };

/**
 * The advantages of a step's groups, on this rank. Responses without a reward (null) are left out of every mean and deviation, and their
 * advantage is 0: the similarity to a trace alone does not say whether they are good. Collective.
 * @throws AdvantageError for a user's estimator that does not return one finite number per response
 */
export function advantagesOf(
  groups: readonly SampledGroup[],
  options: AdvantageOptions,
  ranks: Ranks,
): GroupAdvantage[] {
  const places = groups.map(({ rewards }) => rewards.flatMap((reward, i) => (reward === null ? [] : [i])));
  const rewarded = groups.map((group, p): GroupRecord => {
    const pick = <T>(values: readonly T[]): T[] => places[p]!.map((i) => values[i]!);
    return {
      task: group.task,
      rewards: pick(group.rewards) as number[],
      parts: pick(group.parts),
      lengths: pick(group.lengths),
      similarity: pick(group.similarity),
    };
  });
  return rewardedAdvantages(rewarded, options, ranks).map((group, p) => {
    const spread = (values: readonly number[]): number[] => {
      const out = groups[p]!.rewards.map(() => 0);
      places[p]!.forEach((i, k) => {
        out[i] = values[k]!;
      });
      return out;
    };
    return {
      advantage: spread(group.advantage),
      main: spread(group.main),
      orthogonal: spread(group.orthogonal),
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
  // Rewards are logged; learning comes from other terms of the loss.
  if (estimator.reads === 'nothing') return withoutTraces(groups.map(({ rewards }) => rewards.map(() => 0)));
  return estimator.reads === 'traces'
    ? estimator.estimate(groups, options, ranks)
    : withoutTraces(estimator.estimate(groups, options, (values) => ranks.gather(values)));
}

/** True for a group whose advantages are all exactly zero: nothing is learnt from it. */
export function isZeroVariance(group: GroupAdvantage): boolean {
  return group.advantage.every((value) => value === 0);
}

// ---- estimators of users -------------------------------------------------------------------------------------------

export interface AdvantageDefinition {
  /** Name in logs and reports: letters, digits, `_` and `-`. */
  readonly name: string;
  /** True: groups carry the similarity of each response to the expert trace (`rl.timerpo` says which); it costs a forward pass. Default: false. */
  readonly similarity?: boolean;
  /**
   * Advantages of all groups of a step: [P][G] finite numbers, in the order given. Groups have no responses without a reward, and may
   * differ in size. Every rank calls it with the groups of all ranks and uses its share, so it must be a pure, synchronous function.
   */
  readonly advantages: (groups: readonly GroupRecord[]) => readonly (readonly number[])[];
  /** File of the module, for messages. */
  readonly file?: string;
}

const NAME = /^[A-Za-z][\w-]{0,63}$/u;
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
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ConfigError(
      `defineAdvantage: name: got ${JSON.stringify(name)}, expected a word of letters, digits, _ and - that begins with a letter`,
    );
  }
  checkKeys(`defineAdvantage ${name}`, definition, KEYS);
  if (typeof advantages !== 'function') {
    throw new ConfigError(`defineAdvantage ${name}: advantages: expected a function from groups to numbers`);
  }
  if (similarity !== undefined && typeof similarity !== 'boolean') {
    throw new ConfigError(`defineAdvantage ${name}: similarity: expected true or false`);
  }
  return definition;
}

/** The estimator that a module exports. @throws ConfigError naming the file */
export function advantageOf(value: unknown, file: string): AdvantageDefinition {
  try {
    return { ...defineAdvantage(value as AdvantageDefinition), file };
  } catch (cause) {
    throw new ConfigError(`${file}: exports no advantage estimator: ${(cause as Error).message}`, { cause });
  }
}

export const adapter: ModuleAdapter<Pick<AdvantageDefinition, 'name'>, never, never> = {
  wanted: 'an advantage estimator made with defineAdvantage',
  open([module]) {
    const { name } = advantageOf(module!.value, module!.file);
    return {
      info: { name },
      answer: () => {
        throw new AdvantageError('estimators are called by the Workers that train');
      },
    };
  },
};

/**
 * Loads a module in a thread of its own, to know that it can be used before anything is written. Training loads it in each of its Workers, where its
 * function blocks the step.
 * @throws ConfigError for a module that cannot be loaded, or exports no estimator
 */
export async function checkAdvantage(module: ModuleAddress): Promise<void> {
  const { ModuleHost } = await import('../ground/module-host.ts');
  const host = await ModuleHost.open({
    modules: [module],
    adapter: import.meta.url,
    timeLimit: () => 60,
    failure: (message) => new ConfigError(message),
  });
  await host.close();
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
    const bad = numbers.findIndex((one) => typeof one !== 'number' || !Number.isFinite(one));
    if (bad >= 0) return refuse(`${String(numbers[bad])} for response ${bad} of group ${p}`);
    return numbers as number[];
  });
}

/** Lines of text of all ranks, in rank order. Collective. */
function gatherLines(line: string, ranks: Ranks): string[] {
  const codes = ranks.gather(Array.from(`${line}\n`, (letter) => letter.charCodeAt(0)));
  const text = Array.from(codes, (code) => String.fromCharCode(code)).join('');
  return text.split('\n').slice(0, -1);
}

/**
 * Advantages of this rank's groups by a user's estimator, which sees the groups of all ranks: [P][G]. Collective.
 * @throws AdvantageError where the function throws or returns anything but one finite number per response
 */
export function userAdvantages(
  definition: AdvantageDefinition,
  groups: readonly GroupRecord[],
  ranks: Ranks,
): number[][] {
  const all = gatherLines(JSON.stringify(groups), ranks).map((line) => JSON.parse(line) as GroupRecord[]);
  const rewarded = all.flat().filter(({ rewards }) => rewards.length > 0);
  const { name, file } = definition;
  const where = `${file === undefined ? '' : `${file}: `}advantage ${name}`;
  let returned: unknown;
  try {
    returned = definition.advantages(rewarded);
  } catch (cause) {
    throw new AdvantageError(`${where} ${thrownText(file ?? '', cause)}`, { cause });
  }
  const advantages = checked(returned, rewarded, where);
  const count = (some: readonly GroupRecord[]): number =>
    some.filter(({ rewards }) => rewards.length > 0).length;
  let next = count(all.slice(0, ranks.rank).flat());
  return groups.map(({ rewards }) => (rewards.length === 0 ? [] : advantages[next++]!));
}
