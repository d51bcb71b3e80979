/**
 * Advantage estimators: pure functions from the records of one prompt group to one number per response, which holds
 * for every token of it. Chosen by name in a recipe.
 */

/** One group of G responses to the same prompt. */
export interface GroupRecord {
  /** Task rewards [G]. */
  readonly rewards: readonly number[];
  /** Transport similarity to the expert trace [G], in [0, 1]; needed by `timerpo`. */
  readonly similarity: readonly number[];
}

export interface GroupAdvantage {
  /** What the loss uses: [G]. */
  readonly advantage: readonly number[];
  /** Task part: reward minus group mean (scaled for `grpo`): [G]. */
  readonly main: readonly number[];
  /** Time-series part after projection and scaling, before α; zeros for estimators without one: [G]. */
  readonly orthogonal: readonly number[];
}

export const ADVANTAGES = ['timerpo', 'grpo', 'dr_grpo'] as const;
export type AdvantageName = (typeof ADVANTAGES)[number];

const PROJECTION_EPSILON = 1e-8;
const STD_EPSILON = 1e-6;

function centred(values: readonly number[]): number[] {
  // Equal values centre to exactly zero: their rounded mean must not turn into an advantage.
  if (values.every((value) => value === values[0])) return values.map(() => 0);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

/** How the two parts of TimerPO are put together. */
export interface TimerpoOptions {
  /** Weight of the orthogonal part, α ≥ 0. */
  readonly alpha: number;
  /** Whether what of the time-series part lies along the main part is taken out of it; the paper's ablation leaves it in. */
  readonly projection: boolean;
}

/**
 * TimerPO (AnomSeer) on top of any main part [G] that is centred over its group: A = A_main + α·A_orth with A_ts = s − mean(s) and
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

/** GRPO (Shao et al. 2024): (r − mean) / (std + 1e-6), sample standard deviation; 0 for a group of equal rewards. */
export function grpo(group: GroupRecord): GroupAdvantage {
  const differences = centred(group.rewards);
  const std = Math.sqrt(dot(differences, differences) / Math.max(1, differences.length - 1));
  const main = differences.map((value) => value / (std + STD_EPSILON));
  return { main, orthogonal: main.map(() => 0), advantage: main };
}

/** Dr. GRPO (Liu et al. 2025): r − mean, not divided by the standard deviation. The loss is a token mean, not divided by their constant (`rl.ts`). */
export function drGrpo(group: GroupRecord): GroupAdvantage {
  const main = centred(group.rewards);
  return { main, orthogonal: main.map(() => 0), advantage: main };
}

export function advantageOf(
  name: AdvantageName,
  group: GroupRecord,
  options: TimerpoOptions,
): GroupAdvantage {
  if (name === 'timerpo') return timerpo(centred(group.rewards), group.similarity, options);
  return name === 'grpo' ? grpo(group) : drGrpo(group);
}

/** A group without an advantage over another: advantages are centred, so each is exactly zero and nothing is learnt from it. */
export function isZeroVariance(group: GroupAdvantage): boolean {
  return group.advantage.every((value) => value === 0);
}
