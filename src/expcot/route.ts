/**
 * The blind reading of a series: which analysis to believe, and what it means, from the evidence alone. Labels and task
 * names have no way in: the only argument is the evidence, and evidence is computed from values.
 *
 * The order is AnomSeer's, with its thresholds: noisy series are smoothed first; extreme values go to the range test;
 * otherwise the trend test, the matrix profile and the frequency test are asked in turn. AnomSeer then takes the class
 * from the task's name; here it follows from what the stretch itself is like. Departures from the reference:
 *
 *  - noise and flat lines go to the range test alone, the others call chance patterns of noise anomalous; there it
 *    takes clipped moments, so that a long stretch of extremes cannot widen σ until nothing is extreme;
 *  - a discord must also differ by a thousandth of the largest possible distance, or the rounding errors of a perfectly
 *    repeating series would count;
 *  - all regions that are unlike the rest are reported, not the strongest window alone, unless the anomaly is a trend.
 */
import { DISCORD_Z, PROFILE_WINDOW } from '../series/analyses.ts';
import { EXTREME_Z } from '../series/outliers.ts';
import type { AnomalyClass, Interval } from '../types.ts';
import type { Evidence, Family } from './evidence.ts';
import type { LocalEvidence } from './local.ts';

/** Least distance of a discord: 0.1 % of 2√m, the largest there is. */
export const LEAST_DISTANCE = 0.001 * 2 * Math.sqrt(PROFILE_WINDOW);
/**
 * Whiteness from which a stretch is noise rather than shape. Measured on discords: contextual points 0.45–1.3 in nano5, down
 * to 0.14 where few samples of the window are noise; seasonal anomalies below 0.2.
 */
export const WHITE_FROM = 0.3;
/** Level change, in standard deviations around the line, from which a departure is a trend (others reach 0.7). */
export const LEVEL_FROM = 1;

export interface Reading {
  /** The family that decides; null when none finds anything. */
  readonly family: Family | null;
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
  /** What the class was read from, where it follows from a stretch of the series. */
  readonly local: LocalEvidence | null;
}

const NORMAL: Reading = { family: null, intervals: [], class: 'normal', local: null };

export function route(evidence: Evidence): Reading {
  const { kind } = evidence.base;
  if (kind === 'noise' || kind === 'flat') {
    const { intervals } = evidence.outliers;
    return intervals.length === 0
      ? NORMAL
      : { family: 'range', intervals, class: 'global point', local: null };
  }
  if (evidence.range.maxAbsZ > EXTREME_Z) {
    const { intervals } = evidence.range;
    return { family: 'range', intervals, class: 'global point', local: null };
  }
  const trend = evidence.intervals('trend');
  if (trend.length > 0) return { family: 'trend', intervals: trend, class: 'trend', local: null };
  const { profile } = evidence;
  if (profile === null) return NORMAL;
  // The window least like any other, whether or not it stands out enough to be a discord.
  const local = evidence.local([profile.discord, profile.discord + profile.window]);
  const frequency = evidence.intervals('frequency');
  const wave = local.whiteness > WHITE_FROM ? 'contextual point' : 'seasonal';
  if (profile.z > DISCORD_Z && profile.distance >= LEAST_DISTANCE) {
    // On a line, what neither is noise nor shifts the period can only be the line itself bending.
    const bend = local.levelChangeInStd > LEVEL_FROM || (evidence.base.trending && frequency.length === 0);
    return bend
      ? { family: 'profile', intervals: profile.intervals, class: 'trend', local }
      : { family: 'profile', intervals: profile.regions, class: wave, local };
  }
  return frequency.length > 0 ? { family: 'frequency', intervals: frequency, class: wave, local } : NORMAL;
}
