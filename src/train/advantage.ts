/**
 * Advantage estimators: pure functions from the records of a step's prompt groups to one number per response, which holds
 * for every token of it. Chosen by name in a recipe.
 */
import { hash32 } from '../ground/random.ts';

/** One group of G responses to the same prompt. */
export interface GroupRecord {
  /** Task rewards [G]. */
  readonly rewards: readonly number[];
  /** Parts of each reward by name, those that it has; needed by `gdpo`: [G]. */
  readonly parts: readonly Readonly<Record<string, number>>[];
  /** Tokens of each response; needed by `reinforce_pp`: [G]. */
  readonly lengths: readonly number[];
  /** Similarity to the expert trace [G], in [0, 1]; needed by `timerpo`. */
  readonly similarity: readonly number[];
  /** Name of the task that the prompt is of. */
  readonly task: string;
}

export interface GroupAdvantage {
  /** What the loss uses: [G]. */
  readonly advantage: readonly number[];
  /** Task part, from the rewards alone: [G]. */
  readonly main: readonly number[];
  /** Time-series part after projection and scaling, before α; zeros for estimators without one: [G]. */
  readonly orthogonal: readonly number[];
}

/** Estimators from rewards alone. */
export const REWARD_ADVANTAGES = ['grpo', 'dr_grpo', 'rloo', 'reinforce_pp', 'gdpo'] as const;
export type RewardAdvantage = (typeof REWARD_ADVANTAGES)[number];

export const ADVANTAGES = ['timerpo', ...REWARD_ADVANTAGES, 'none'] as const;
export type AdvantageName = (typeof ADVANTAGES)[number];

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
  /** Weights of the reward's parts; needed by `gdpo`. */
  readonly weights: Readonly<Record<string, number>>;
  /** What `reinforce_pp` and `gdpo` normalise over: the whole batch, or the prompts of each task on their own. */
  readonly normalise: 'batch' | 'task';
}

/**
 * The task parts of a step's groups, by estimator:
 *
 *  `grpo`, `dr_grpo`, `rloo`   see there: of each group alone
 *  `reinforce_pp`   REINFORCE++ (Hu et al. 2025, arXiv 2501.03262) with the group mean as baseline, the paper's variant for several
 *                   responses per prompt ("REINFORCE++-baseline"): r − mean of the group, then normalised over the tokens of the batch, as
 *                   in verl and OpenRLHF. Longer responses weigh more in the batch's mean, which is therefore not 0: a group of equal
 *                   rewards gets a small advantage and is not skipped.
 *  `gdpo`           GDPO (Liu et al. 2026, arXiv 2601.05242): `gdpoSum`, then normalised over the responses of the batch, as in the paper and
 *                   in TRL; verl does it over tokens. The mean over the batch is 0, since every part is centred in its group, and not
 *                   subtracted: a group of equal parts stays at exactly 0.
 *
 * Collective for the last two.
 */
export function rewardAdvantages(
  name: RewardAdvantage,
  groups: readonly GroupRecord[],
  { weights, normalise }: RewardAdvantageOptions,
  gather: Gather,
): number[][] {
  const keys = groups.map(({ task }) => (normalise === 'task' ? task : ''));
  switch (name) {
    case 'grpo':
      return groups.map(grpo);
    case 'dr_grpo':
      return groups.map(drGrpo);
    case 'rloo':
      return groups.map(rloo);
    case 'reinforce_pp': {
      const lengths = groups.map((group) => group.lengths);
      return normalisedOverBatch(groups.map(drGrpo), lengths, keys, gather, true);
    }
    case 'gdpo': {
      const sums = groups.map((group) => gdpoSum(group, weights));
      const each = sums.map((own) => own.map(() => 1));
      return normalisedOverBatch(sums, each, keys, gather, false);
    }
  }
}

/** How the two parts of TimerPO are put together. */
export interface TimerpoOptions {
  /** Weight of the orthogonal part, α ≥ 0. */
  readonly alpha: number;
  /** Whether what of the time-series part lies along the main part is taken out of it; the paper's ablation leaves it in. */
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

export interface AdvantageOptions extends RewardAdvantageOptions {
  readonly advantage: AdvantageName;
  readonly timerpo: TimerpoOptions & {
    /** Estimator of the main part. */
    readonly base: RewardAdvantage;
    readonly scale: 'plain' | 'spread';
  };
}

/** What estimators over a whole batch need of the ranks. */
export interface Ranks {
  gather(values: readonly number[]): Float64Array;
  allReduce(values: readonly number[]): readonly number[];
}

/** A group in which some responses may have no reward. */
export type SampledGroup = Omit<GroupRecord, 'rewards'> & { readonly rewards: readonly (number | null)[] };

/**
 * The advantages of a step's groups, of this rank. Responses without a reward (null) are left out of every mean and deviation, and their
 * advantage is 0: whatever the similarity to a trace is, nothing says whether they are good. Collective.
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
  const { advantage: name, timerpo: own } = options;
  if (name === 'none') {
    // Rewards are logged, and what is learnt comes from other terms of the loss.
    return groups.map(({ rewards }) => {
      const zeros = rewards.map(() => 0);
      return { main: zeros, orthogonal: zeros, advantage: zeros };
    });
  }
  const mains = rewardAdvantages(name === 'timerpo' ? own.base : name, groups, options, (values) =>
    ranks.gather(values),
  );
  if (name !== 'timerpo') {
    return mains.map((main) => ({ main, orthogonal: main.map(() => 0), advantage: main }));
  }
  const plain = mains.map((main, p) => timerpo(main, groups[p]!.similarity, own));
  return own.scale === 'spread' && own.alpha > 0
    ? withEqualSpread(plain, own.alpha, (values) => ranks.allReduce(values))
    : plain;
}

/** A group whose advantages are all exactly zero: nothing is learnt from it. */
export function isZeroVariance(group: GroupAdvantage): boolean {
  return group.advantage.every((value) => value === 0);
}
