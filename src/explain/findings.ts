/** The classical side of an explanation: what each analysis found, and what the blind expert chain of thought says. */
import { analyseChannels, blindAnomaly } from '../expcot/anomaly.ts';
import { type CycleTest, FEWEST_WHOLE_CYCLES, FLAG_FROM, SHORTEST_PERIOD } from '../expcot/cycle.ts';
import type { Evidence } from '../expcot/evidence.ts';
import type { Chance } from '../expcot/false-alarms.ts';
import { discordRatio, leastRatioOfWave, route } from '../expcot/route.ts';
import { FEWEST_CYCLES } from '../expcot/shape.ts';
import type { ExplainedEvidence, Explanation } from './page.ts';

const TOO_SHORT = 'the series is too short for it';
const SMALLEST = { trend: 21, frequency: 101, profile: 100 } as const;

/** Says of what a test flags that it comes again and again. */
function recurring(evidence: Evidence, test: 'range' | 'outliers' | 'trend'): string {
  const { lag, rest } = evidence.recurrence[test];
  if (lag === null) return '';
  return `; ${rest.length === 0 ? 'all' : 'some'} of it recurs every ${lag} samples: the pattern of the series`;
}

const stretches = (count: number): string => (count === 1 ? 'one stretch' : `${count} stretches`);

function missing(name: string, needed: number): ExplainedEvidence {
  return { name, finding: TOO_SHORT, intervals: [], numbers: { 'samples needed': needed } };
}

/** What the series looks like, anomalies aside. */
function base(evidence: Evidence): ExplainedEvidence {
  const { kind, period, repetition, lineShare, prominence, slowShare, rise, trending } = evidence.base;
  const kinds = {
    flat: 'a straight line',
    sine: 'repeats with one dominant period',
    cycle: 'repeats in cycles of one shape',
    slow: `a slow curve: most of its power lies in fewer than ${FEWEST_CYCLES} cycles`,
    noise: 'noise without a period',
    irregular: 'an irregular curve without a clear period',
  } as const;
  return {
    name: 'Overall shape',
    finding: `${kinds[kind]}${trending ? `, on a line that ${rise > 0 ? 'rises' : 'falls'}` : ''}`,
    intervals: [],
    numbers: {
      ...(period === null ? {} : { period }),
      'share of the strongest line': lineShare,
      'times the background': prominence,
      ...(repetition === null ? {} : { 'correlation with the next cycle': repetition }),
      ...(kind === 'slow' ? { 'share of fewer cycles': slowShare } : {}),
      'share of noise': evidence.noise.share,
      rise,
    },
  };
}

function range(evidence: Evidence): ExplainedEvidence {
  const { mean, std, sigmas, lower, upper, maxAbsZ, intervals } = evidence.range;
  const finding =
    intervals.length === 0
      ? `nothing beyond ${sigmas} standard deviations`
      : `${stretches(intervals.length)} beyond ${sigmas} standard deviations${recurring(evidence, 'range')}`;
  return {
    name: 'Range test',
    finding,
    intervals,
    numbers: { mean, std, lower, upper, 'largest |z|': maxAbsZ },
  };
}

/** The range test that long stretches of outliers cannot blind. */
function outliers(evidence: Evidence): ExplainedEvidence {
  const { mean, std, lower, upper, maxAbsZ, extreme, intervals } = evidence.outliers;
  const finding =
    intervals.length === 0
      ? `nothing extreme (|z| above ${extreme}) once outliers are left out of mean and deviation`
      : `${stretches(intervals.length)} with |z| above ${extreme}, outliers left out of mean and deviation${recurring(evidence, 'outliers')}`;
  return {
    name: 'Range test, clipped',
    finding,
    intervals,
    numbers: { mean, std, lower, upper, 'largest |z|': maxAbsZ },
  };
}

function trend(evidence: Evidence): ExplainedEvidence {
  const test = evidence.trend;
  if (test === null) return missing('Trend test', SMALLEST.trend);
  const { window, mean, threshold, peak, peakIndex, intervals } = test;
  const finding =
    intervals.length === 0
      ? 'the smoothed slope stays inside its band'
      : `the smoothed slope leaves its band in ${stretches(intervals.length)}${recurring(evidence, 'trend')}`;
  const numbers = { 'mean slope': mean, limit: threshold, 'largest departure': peak, at: peakIndex, window };
  return { name: 'Trend test', finding, intervals, numbers };
}

function frequency(evidence: Evidence): ExplainedEvidence {
  const test = evidence.frequency;
  if (test === null) return missing('Frequency test', SMALLEST.frequency);
  const { window, mean, std, threshold, stable, extreme, extremeIndex, intervals } = test;
  const finding = !evidence.frequencyApplies
    ? evidence.base.kind === 'cycle'
      ? 'cycles of this shape have many frequencies: the strongest says nothing'
      : `windows of ${window} hold less than a period: what is strongest in them says nothing`
    : stable
      ? 'the dominant period is stable'
      : intervals.length === 0
        ? 'the dominant period varies, but no window departs from the others'
        : `the dominant period departs in ${stretches(intervals.length)}`;
  return {
    name: 'Frequency test',
    finding,
    intervals: evidence.frequencyApplies ? intervals : [],
    numbers: {
      'mean period': mean,
      std,
      limit: threshold,
      'extreme period': extreme,
      at: extremeIndex,
      window,
    },
  };
}

/** Why the window of a slow wave that is least like any other is no anomaly. */
const EXPLAINED: Readonly<Record<NonNullable<Chance['explains']>, string>> = {
  noise: 'the most unlike window differs by no more than noise makes windows of its spread differ',
  sampling: 'the most unlike window differs by no more than where the samples fall on the wave',
  arc: 'so slow a curve hardly repeats: each smooth arc is unlike the others',
};

function profile(evidence: Evidence): ExplainedEvidence {
  const test = evidence.profile;
  if (test === null) return missing('Matrix profile', SMALLEST.profile);
  const { window, discord, distance, mean, z, threshold, share } = test;
  const regions = evidence.unlike;
  const part = test.exact ? '' : ` (${(100 * share).toPrecision(2)} % of the pairs of windows were compared)`;
  const ratio = discordRatio(test);
  const decides = route(evidence).family === 'profile';
  const explained = evidence.chance?.explains;
  // A bend may decide below the ratio that waves need.
  const chance = !decides && (explained || ratio < leastRatioOfWave(evidence.length));
  const finding =
    regions.length === 0
      ? `no window is unlike all others${part}`
      : !chance
        ? `${stretches(regions.length)} unlike the rest${part}`
        : explained
          ? `${EXPLAINED[explained]}${part}`
          : `the most unlike window is ${ratio.toPrecision(2)} times as far from its neighbour as windows are on average, which chance reaches too${part}`;
  return {
    name: 'Matrix profile',
    finding,
    intervals: chance ? [] : regions,
    numbers: { discord, distance, 'mean distance': mean, z, 'z needed': threshold, window },
  };
}

/** Every point against the same phase of the other cycles; only waves of enough cycles have it. */
function cycleFinding(test: CycleTest | null, samples: number): ExplainedEvidence {
  const name = 'Cycle test';
  if (test === null) {
    const finding = `the series does not repeat, or has fewer than ${FEWEST_WHOLE_CYCLES} cycles of ${SHORTEST_PERIOD} samples or more`;
    return { name, finding, intervals: [], numbers: { samples } };
  }
  const { period, low, high, sigma, threshold, peak, peakIndex, intervals, recurs } = test;
  const finding =
    intervals.length === 0
      ? recurs === null
        ? 'every cycle is like the others'
        : `what is unlike the other cycles recurs every ${recurs} samples: a longer pattern`
      : `${stretches(intervals.length)} unlike the same phase of the other cycles`;
  const numbers = { period, low, high, std: sigma, 'limit in std': FLAG_FROM, limit: threshold };
  return { name, finding, intervals, numbers: { ...numbers, 'largest departure': peak, at: peakIndex } };
}

/**
 * Analyses a series [N], N ≥ 1, without any knowledge of labels, task or policy; each analysis is bounded (see src/series),
 * whatever N. `period` is that of the whole series in samples, null when it does not repeat.
 *
 * @throws DataError for an empty series or an infinite value
 */
export function classicalFindings(values: Float64Array): {
  readonly classical: Explanation['classical'];
  readonly period: number | null;
} {
  const analysed = analyseChannels([values], ['value']);
  const { evidence, cycle } = analysed[0]!;
  const found = [base, range, outliers, trend, frequency, profile].map((test) => test(evidence));
  found.push(cycleFinding(cycle, values.length));
  const { class: label, intervals, think } = blindAnomaly(analysed, ['value']);
  return {
    classical: { class: label, intervals, evidence: found, trace: think },
    period: evidence.base.period,
  };
}
