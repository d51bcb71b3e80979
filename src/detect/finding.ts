/** What the detector says about one series: a score for every sample, what was expected, and ranked findings. */

/**
 * How a stretch departs:
 * `spike` and `dip`: a few samples far above or below what is expected; `level`: values shifted for longer; `trend`: a drift away;
 * `variance`: the noise around the expected values is larger or smaller; `flat`: the values stand still; `cutoff`: they are capped;
 * `shape`: a pattern that no other stretch has; `frequency`: the pattern runs faster or slower.
 */
export const KINDS = [
  'spike',
  'dip',
  'level',
  'trend',
  'variance',
  'flat',
  'cutoff',
  'shape',
  'frequency',
] as const;
export type Kind = (typeof KINDS)[number];

/** From the least to the most severe, and from which severity on. */
export const LEVELS = { low: 1, medium: 2, high: 4, critical: 8 } as const;
export type Level = keyof typeof LEVELS;

/** A stretch that departs from what the rest of the series lets one expect. Values are those of the series, in its units. */
export interface Finding {
  /** Half-open, in samples. */
  readonly start: number;
  readonly end: number;
  readonly kind: Kind;
  readonly direction: 'above' | 'below' | null;
  /** −log₁₀ of how many stretches as unusual a series of this length has by chance; larger is rarer, ≥ 0. */
  readonly severity: number;
  readonly level: Level;
  /** The sample with the largest departure, inside [start, end). */
  readonly peak: number;
  /** The values as they stand in the series. */
  readonly observed: {
    readonly least: number;
    readonly mean: number;
    readonly largest: number;
    readonly peak: number;
  };
  /** What was expected at the peak, and the band that holds 99 % of the other samples there. */
  readonly expected: { readonly value: number; readonly low: number; readonly high: number };
  /**
   * At the same phase of the season in earlier cycles of `period` samples: from which samples on, latest first; least and largest of the
   * values there (spike, dip) or of the means over as long a stretch (other kinds). Null without a season, or where too few cycles are
   * comparable.
   */
  readonly before: {
    readonly period: number;
    readonly starts: readonly number[];
    readonly least: number;
    readonly largest: number;
  } | null;
  /**
   * Of a level that stepped to another one: the first of the samples right before the step, as many as came after it or as there are, and
   * their mean. Null for all others: what was expected may have followed a step.
   */
  readonly stepped: { readonly since: number; readonly mean: number } | null;
  /** What happened, from what to what, as it follows the name of what is measured: "fell to 0 where 310 was expected". */
  readonly statement: string;
  /** What speaks for the finding and what against, one clause each. */
  readonly evidence: { readonly for: readonly string[]; readonly against: readonly string[] };
  /** Other stretches like this one, [start, end) in samples. */
  readonly similar: readonly (readonly [start: number, end: number])[];
  /** Whether it lasts until the end of the series. */
  readonly ongoing: boolean;
  /** Of a level that went elsewhere and has stayed there for longer than an episode: its extent ends where another finding begins. */
  readonly lasting: boolean;
}

export interface Detection {
  /** Severity of the most unusual stretch that a sample belongs to, ≥ 0 [N]. */
  readonly score: Float64Array;
  /** The expected value of every sample, and the band that holds 99 % of the samples [N]. */
  readonly expected: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** By falling severity. */
  readonly findings: readonly Finding[];
  /** What the series looks like apart from the findings, a sentence each: season, level, noise. */
  readonly structure: readonly string[];
  /** Seasons in samples, shortest first; empty without one. */
  readonly seasons: readonly number[];
}
