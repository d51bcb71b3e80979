/** Results of the detector for one series: a score and an expected value for every sample, and ranked findings. */
import type { Sentence } from './sentence.ts';

/**
 * Kinds of departure:
 * `spike` and `dip`: a few samples far above or below the expected values; `level`: values shifted for longer; `trend`: a drift away;
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

/** Levels from the least to the most severe, with the severity from which each begins. */
export const LEVELS = { low: 1, medium: 2, high: 4, critical: 8 } as const;
export type Level = keyof typeof LEVELS;

/** Kinds as nouns. */
export const KIND_WORDS: Readonly<Record<Kind, string>> = {
  spike: 'spike',
  dip: 'dip',
  level: 'level shift',
  trend: 'trend',
  variance: 'change of variance',
  flat: 'flat line',
  cutoff: 'cutoff',
  shape: 'unusual shape',
  frequency: 'change of frequency',
};

/** A stretch of samples [start, end). */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * A stretch that departs from the values expected from the rest of the series: the one record of detector, report, follow and claims. A
 * report adds time, lines of the file and rank. Values are in the units of the series.
 *
 * N: number, or number | null in JSON, which has neither NaN nor infinity.
 */
export interface Finding<N extends number | null = number> extends Span {
  readonly kind: Kind;
  readonly direction: 'above' | 'below' | null;
  /** −log₁₀ of the number of stretches as unusual that a series of this length has by chance; larger is rarer, ≥ 0. */
  readonly severity: number;
  readonly level: Level;
  /** The sample with the largest departure, inside [start, end). */
  readonly peak: { readonly index: number };
  /** Values in the stretch. */
  readonly observed: Readonly<Record<'least' | 'mean' | 'largest' | 'peak', N>>;
  /** Expected value at the peak, and the band that holds 99 % of the other samples there. */
  readonly expected: Readonly<Record<'value' | 'low' | 'high', N>>;
  /**
   * Earlier cycles of `period` samples at the same phase of the season: their first samples, latest first; least and largest of the values
   * there (spike, dip) or of the means over as long a stretch (other kinds). Null without a season, or where fewer than two cycles are
   * comparable.
   */
  readonly before: {
    readonly period: number;
    readonly starts: readonly number[];
    readonly least: number;
    readonly largest: number;
  } | null;
  /**
   * Samples right before a step of the level, as many as came after it or as there are: the first of them, and their mean. Null for all
   * other findings: the expectation may have followed a step.
   */
  readonly stepped: { readonly since: number; readonly mean: number } | null;
  /** Statement of the event, to follow the name of the column ("fell to 0"), and clauses about the expected values. */
  readonly says: { readonly fact: Sentence; readonly context: readonly Sentence[] };
  /** Evidence for and against the finding, one clause each. */
  readonly evidence: { readonly for: readonly string[]; readonly against: readonly string[] };
  /** Other stretches like this one. */
  readonly similar: readonly Span[];
  /** True where it lasts until the end of the series. */
  readonly ongoing: boolean;
  /** True for a level that moved and has stayed for longer than an episode: its extent ends where another finding begins. */
  readonly lasting: boolean;
}

/** Length of a level in lengths of a departure inside it that is an event of its own, at least. */
export const INSIDE = 4;

/** Options that leave out findings: minimum severity, direction, and minimum departure in units or as a share of the range. */
export type Filter = 'severity' | 'direction' | 'change' | 'share';

export interface Detection {
  /** Severity of the most unusual stretch that a sample belongs to, ≥ 0 [N]. */
  readonly score: Float64Array;
  /** The expected value of every sample, and the band that holds 99 % of the samples [N]. */
  readonly expected: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** Most severe first. */
  readonly findings: readonly Finding[];
  /** Number of findings that each filter left out. */
  readonly leftOut: Readonly<Record<Filter, number>>;
  /** Season and band of the series apart from the findings. */
  readonly structure: Sentence;
  /** Seasons in samples, shortest first; empty without one. */
  readonly seasons: readonly number[];
}
