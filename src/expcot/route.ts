/**
 * Choice of the analysis to rest on: the blind reading from the evidence alone (`route`), and the one that covers given intervals best
 * (`cite`), for traces that teach. Labels and task names have no way into the blind reading: its only argument is the evidence,
 * and evidence is computed from values.
 *
 * The order is AnomSeer's, with its thresholds: noisy series are smoothed first; extreme values go to the range test;
 * otherwise the trend test, the matrix profile and the frequency test are asked in turn. AnomSeer then takes the class
 * from the task's name; here it follows from what the stretch itself is like. Departures from the reference:
 *
 *  - noise and flat lines go to the range test alone, the others call chance patterns of noise anomalous; there it
 *    takes clipped moments, so that a long stretch of extremes cannot widen σ until nothing is extreme;
 *  - a discord must also differ by a thousandth of the largest possible distance, or the rounding errors of a perfectly
 *    repeating series would count;
 *  - and it must be several times as far from its neighbour as windows are on average, or the largest of many chance
 *    distances would count, and in long series, of whose pairs only a part is compared, the unluckiest window;
 *  - on slow curves it must be more than noise, sampling and the lack of repetition explain (`chanceOf`), and the frequency test, whose
 *    windows hold less than a wave, is not asked;
 *  - a spike too short for a slope goes to the range test although its flanks leave the band of the trend test;
 *  - outliers count only beyond what the tail of the series' own distribution reaches, or in dense stretches (`tailTest`), and what
 *    recurs at equal distances through the whole series is its pattern (`recurrence`): real recordings have heavy tails and jobs that
 *    run every night;
 *  - slopes within half a smoothing window of the ends do not count: they are extrapolated;
 *  - all regions that are unlike the rest are reported, those close to each other as one, not the strongest window alone, unless
 *    the anomaly is a trend.
 */

import type { AnomalyClass, Interval } from '../ground/types.ts';
import { DISCORD_Z, EXTREME_Z, PROFILE_WINDOW, TREND_WINDOW } from '../series/analyses.ts';
import { coverage, mergeIntervals, pointF1Of } from '../series/intervals.ts';
import { type Evidence, FAMILIES, type Family } from './evidence.ts';
import { type LocalEvidence, WHITE_FROM } from './shape.ts';

/** Least distance of a discord: 0.1 % of 2√m, the largest there is. */
export const LEAST_DISTANCE = 0.001 * 2 * Math.sqrt(PROFILE_WINDOW);
/**
 * Least distance of a discord, in mean distances of the profile: of a wave unlike the others (of 1000 samples; one more
 * for every tenfold length, as the largest of more chance distances is larger), and of any departure from a line or period.
 * Measured: anomalies of 1000 samples from 5.3, bends and shifts of the period from 4.0 (one at 2.8), any in 100 000
 * samples and more from 50; sines with 5 % noise up to 4.8 in 1000 and 5.7 in 100 000 samples, clean ones up to 3.1,
 * however few of the pairs were compared.
 */
const LEAST_RATIO_OF_WAVE = 5;
const LEAST_RATIO = 4;

/** Distance of the discord in mean distances of the profile; 0 in a profile of zeros. */
export function discordRatio({ distance, mean }: { distance: number; mean: number }): number {
  return mean === 0 ? 0 : distance / mean;
}

/** Least ratio at which a wave of a series of `length` samples is unlike the others. */
function leastRatioOfWave(length: number): number {
  return LEAST_RATIO_OF_WAVE + Math.max(0, Math.log10(length / 1000));
}
/** Level change, in standard deviations around the line, from which a departure is a trend (others reach 0.7). */
const LEVEL_FROM = 1;

/** Verdict of the families of tests on a series. */
export interface Verdict {
  /** The family that decides; null when none finds anything. */
  readonly family: Family | null;
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
  /** Basis of the class, where it follows from a stretch of the series. */
  readonly local: LocalEvidence | null;
  /** Tests that were asked and flag more than counts: the rest recurs, is the tail of the series, or lies at its ends. */
  readonly aside: readonly Aside[];
}

/** Tests of which a part may be set aside. */
export type Aside = 'range' | 'outliers' | 'trend';

/** Roughness of a burst in standard deviations of the noise around it; in windows of 50 that of noise alone reaches 1.7 among 1000. */
const BURST_FROM = 3;

/**
 * Regions no further apart are one. Measured on synthetic training series of 1000 samples with every class of anomaly: mean point F1
 * 0.79, against 0.76 for a gap of 0 and 0.78 for 25.
 */
const REGION_GAP = 35;

/**
 * True where all steep slopes are the flanks of a spike: of extreme values too few for a slope of their own, reached in one
 * step of more than a standard deviation.
 */
function isSpike({ range: { intervals, std }, analysed }: Evidence, steep: readonly Interval[]): boolean {
  const sudden = (i: number): boolean => i > 0 && Math.abs((analysed[i] ?? 0) - analysed[i - 1]!) > std;
  return (
    intervals.length > 0 &&
    intervals.every(([start, end]) => end - start < TREND_WINDOW / 2 && sudden(start)) &&
    steep.every(([start, end]) =>
      intervals.some(([from, to]) => start >= from - TREND_WINDOW && end <= to + TREND_WINDOW),
    )
  );
}

/** True where a stretch reaches further than half a smoothing window from the ends; nearer to them the slope is an extrapolation. */
export function isInside([start, end]: Interval, length: number): boolean {
  const half = (TREND_WINDOW - 1) / 2;
  return end > half && start < length - half;
}

/** Outliers of a range test that neither the tail of the series nor its pattern explains. */
function genuine(evidence: Evidence, test: 'range' | 'outliers'): readonly Interval[] {
  const { rest } = evidence.recurrence[test];
  const outliers = evidence.tails[test].beyond.filter((interval) => rest.includes(interval));
  // What most of the series does is no outlier, wherever the moments of the rest may lie.
  return coverage(outliers) > evidence.length / 2 ? [] : outliers;
}

/** True for the stretch of a slow curve that is far rougher than the noise of the series. */
function isBurst({ chance, noise }: Evidence, local: LocalEvidence): boolean {
  return chance !== null && local.roughness > BURST_FROM * noise.sigma;
}

/** A reading before what was set aside on the way is added. */
type Found = Omit<Verdict, 'aside'>;

const NORMAL: Found = { family: null, intervals: [], class: 'normal', local: null };

export function route(evidence: Evidence): Verdict {
  const aside: Aside[] = [];
  /** Notes where less is left of what a test flags. */
  const left = (test: Aside, intervals: readonly Interval[]): readonly Interval[] => {
    if (intervals.length < (evidence[test]?.intervals.length ?? 0)) aside.push(test);
    return intervals;
  };
  return { ...read(evidence, left), aside };
}

function read(
  evidence: Evidence,
  left: (test: Aside, intervals: readonly Interval[]) => readonly Interval[],
): Found {
  const { kind } = evidence.base;
  if (kind === 'noise' || kind === 'flat') {
    const intervals = left('outliers', genuine(evidence, 'outliers'));
    return intervals.length === 0
      ? NORMAL
      : { family: 'range', intervals, class: 'global point', local: null };
  }
  if (evidence.range.maxAbsZ > EXTREME_Z || isSpike(evidence, evidence.intervals('trend'))) {
    const intervals = left('range', genuine(evidence, 'range'));
    if (intervals.length > 0) return { family: 'range', intervals, class: 'global point', local: null };
  }
  const { rest } = evidence.recurrence.trend;
  const trend = left(
    'trend',
    rest.filter((interval) => isInside(interval, evidence.length)),
  );
  if (trend.length > 0) return { family: 'trend', intervals: trend, class: 'trend', local: null };
  const { profile } = evidence;
  if (profile === null) return NORMAL;
  const ratio = discordRatio(profile);
  if (ratio < LEAST_RATIO) return NORMAL;
  // The window least like any other, whether or not it stands out enough to be a discord.
  const local = evidence.local([profile.discord, profile.discord + profile.window]);
  const frequency = evidence.frequencyApplies ? evidence.intervals('frequency') : [];
  const wave = local.whiteness > WHITE_FROM ? 'contextual point' : 'seasonal';
  if (profile.z > DISCORD_Z && profile.distance >= LEAST_DISTANCE && !evidence.chance?.explains) {
    // On a line, what neither is noise nor shifts the period can only be the line itself bending.
    const bend =
      (local.levelChangeInStd > LEVEL_FROM || (evidence.base.trending && frequency.length === 0)) &&
      // The level of a slow curve changes by itself.
      !(evidence.chance !== null && local.whiteness > WHITE_FROM);
    if (bend) return { family: 'profile', intervals: profile.intervals, class: 'trend', local };
    if (ratio >= leastRatioOfWave(evidence.length) || isBurst(evidence, local)) {
      return {
        family: 'profile',
        intervals: mergeIntervals(evidence.unlike, REGION_GAP),
        class: wave,
        local,
      };
    }
  }
  return frequency.length > 0 ? { family: 'frequency', intervals: frequency, class: wave, local } : NORMAL;
}

export interface Citation {
  /** Family whose intervals agree best, the first of FAMILIES on ties; null when none shares a sample, or for no anomaly. */
  readonly family: Family | null;
  /** Point F1 of that family's intervals against the given ones, in [0, 1]; 0 without a family. */
  readonly agreement: number;
  /** True where the range test agrees better with clipped moments than with plain ones, and is cited with those. */
  readonly clipped: boolean;
  /** Families that flag something which shares no sample with the given intervals. */
  readonly dissent: readonly Family[];
}

/** Point F1 of a family's intervals; of the range test with plain or with clipped moments, whichever is better. */
function agreementOf(
  evidence: Evidence,
  family: Family,
  intervals: readonly Interval[],
): Pick<Citation, 'agreement' | 'clipped'> {
  const plain = pointF1Of(evidence.intervals(family), intervals);
  if (family !== 'range') return { agreement: plain, clipped: false };
  const clipped = pointF1Of(evidence.outliers.intervals, intervals);
  return { agreement: Math.max(plain, clipped), clipped: clipped > plain };
}

/**
 * Compares the evidence with intervals (sorted, disjoint). Agreement is the point F1, 2·|A∩B| / (|A| + |B|) over samples.
 * The range test is taken with plain or with clipped moments, whichever agrees better. With no intervals no family is cited,
 * and every family that flags something dissents (the range test: with plain moments). Computes all four analyses.
 */
export function cite(evidence: Evidence, intervals: readonly Interval[]): Citation {
  let best: Omit<Citation, 'dissent'> = { family: null, agreement: 0, clipped: false };
  const dissent: Family[] = [];
  for (const family of FAMILIES) {
    const flags = evidence.intervals(family).length > 0;
    const candidate =
      intervals.length === 0 ? { agreement: 0, clipped: false } : agreementOf(evidence, family, intervals);
    if (candidate.agreement === 0 && flags) dissent.push(family);
    if (candidate.agreement > best.agreement) best = { family, ...candidate };
  }
  return { ...best, dissent };
}
