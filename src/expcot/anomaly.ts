/**
 * Traces of anomalies in series as they come: with missing points, and with several channels. The tests need a single whole series: missing
 * points are bridged, and of several channels the one in which the anomaly shows best is described. The cycle test decides where no other
 * test sees an anomaly, or where it covers the right intervals best.
 */
import { DataError } from '../ground/errors.ts';
import type { AnomalyClass, Interval } from '../ground/types.ts';
import type { ScoredIntervals } from '../series/detectors.ts';
import { pointF1Of } from '../series/intervals.ts';
import { bridge } from '../series/missing.ts';
import { summarise } from '../series/stats.ts';
import { type CycleTest, cycleTest, FLAG_FROM } from './cycle.ts';
import { analyse, type Evidence } from './evidence.ts';
import { listIntervals, phrasesOf } from './phrase.ts';
import { cite, discordRatio, route } from './route.ts';
import { blind, composeTrace, formatResponse, sayAgreement, type Trace, teacher } from './trace.ts';

/** Evidence about one channel. */
interface ChannelEvidence {
  readonly evidence: Evidence;
  /** Null where the base is no wave, or too few cycles of one. */
  readonly cycle: CycleTest | null;
}

/** The cycle test of a whole series [N], where its base is a wave; null otherwise. */
export function cycleOf(evidence: Evidence, values: Float64Array): CycleTest | null {
  const { kind, period } = evidence.base;
  return period === null ? null : cycleTest(values, period, kind === 'cycle');
}

/** Statements about the cycle test. */
export const CYCLE_PHRASES = phrasesOf(({ cycle }) => cycle)(
  'cycle test',
  {
    opening: [
      'the typical cycle of {n} samples lies between {n} and {n}; the largest departure from it is {n} at {n}, limit {n} ({n} standard deviations of {n}',
      ({ period, low, high, peak, peakIndex, threshold, sigma }) => {
        return [period, low, high, peak, peakIndex, threshold, FLAG_FROM, sigma];
      },
    ],
    recurs: ['what recurs every {n} samples is a longer pattern', ({ recurs }) => [recurs]],
    flagged: ['flagged: {list}', ({ intervals }) => [intervals]],
    steps: ['steps there are {n} times the usual ones', ({ speed }) => [speed]],
    roughness: ['roughness is {n} of that of white noise', ({ whiteness }) => [whiteness]],
    share: ['a share of {n} lies outside of the range of the cycle', ({ outside }) => [outside]],
    level: ['the level changes for good by up to {n}', ({ levelChange }) => [levelChange]],
  },
  { opening: 'Cycle test:' },
);
const SAYS = CYCLE_PHRASES;

/** States what decides the class. */
function reason(cycle: CycleTest): string {
  if (cycle.class === 'trend') return SAYS.level.of(cycle);
  if (cycle.class === 'seasonal') return `${SAYS.steps.of(cycle)}: the wave runs faster`;
  if (cycle.class === 'shapelet') return `${SAYS.steps.of(cycle)}: the wave has another shape`;
  return cycle.whiteness > 0
    ? `${SAYS.steps.of(cycle)}, and ${SAYS.roughness.of(cycle)}: the wave gives way to noise`
    : `of these points ${SAYS.share.of(cycle)}`;
}

function report(cycle: CycleTest): string {
  const opening = `Cycle test: ${SAYS.opening.of(cycle)}, or more for a high cycle)`;
  const longer = cycle.recurs === null ? '' : `; ${SAYS.recurs.of(cycle)}`;
  return cycle.intervals.length === 0
    ? `${opening}${longer}; nothing is flagged.`
    : `${opening}${longer}; ${SAYS.flagged.of(cycle)}; ${reason(cycle)}.`;
}

/** The cycle test where it decides: where no other test does, and on cycles that are no waves, which the others take apart. */
function decidingCycle({ evidence, cycle }: ChannelEvidence): CycleTest | null {
  if (cycle === null || cycle.intervals.length === 0) return null;
  return evidence.base.kind === 'cycle' || route(evidence).family === null ? cycle : null;
}

/** The blind trace; the cycle test may decide it. */
function blindOf(channel: ChannelEvidence): Trace {
  const { evidence } = channel;
  const cycle = decidingCycle(channel);
  if (cycle === null) return blind(evidence);
  const { intervals, class: label } = cycle;
  const parts = {
    found: 'The cycle test finds a departure from this pattern.',
    validation: `${report(cycle)} The cycle test decides.`,
  };
  return composeTrace(evidence, parts, intervals, label);
}

function coverageByCycle(cycle: CycleTest | null, intervals: readonly Interval[]): number {
  return cycle === null || intervals.length === 0 ? 0 : pointF1Of(cycle.intervals, intervals);
}

/** Point F1, in [0, 1], of the test that covers the intervals best, the cycle test included. */
function coverageBy({ evidence, cycle }: ChannelEvidence, intervals: readonly Interval[]): number {
  return Math.max(coverageByCycle(cycle, intervals), cite(evidence, intervals).agreement);
}

/** Writes the teacher trace; cites the cycle test where it covers the gold intervals (sorted, disjoint) best. */
function teacherOf(
  { evidence, cycle }: ChannelEvidence,
  intervals: readonly Interval[],
  label: AnomalyClass,
): Trace {
  const byCycle = coverageByCycle(cycle, intervals);
  if (cycle === null || byCycle <= cite(evidence, intervals).agreement)
    return teacher(evidence, intervals, label);
  const doubt =
    cycle.class === label
      ? ''
      : ` By itself it would take the class for ${cycle.class}, which the annotation corrects.`;
  const where = listIntervals(intervals);
  const parts = {
    found: `It departs from this pattern at ${where}, like an anomaly of class ${label}.`,
    validation: `${report(cycle)} The cycle test best supports an anomaly of class ${label} at ${where}, with a ${sayAgreement(byCycle)}.${doubt}`,
  };
  return composeTrace(evidence, parts, intervals, label);
}

/** A trace, and the channel that it is about. */
interface AnomalyTrace extends Trace, ChannelEvidence {
  /** Index of the channel. */
  readonly channel: number;
}

/** Evidence about a series [N] in which NaN marks missing points. Throws a DataError for no samples, an infinity, no known point. */
export function analyseWithGaps(values: Float64Array): ChannelEvidence {
  const { values: whole, ...gaps } = bridge(values);
  // Values of straight lines across gaps do not count for the summary.
  const known =
    gaps.missing === 0 ? {} : { summary: summarise(values.filter((value) => !Number.isNaN(value))) };
  const evidence = analyse(whole, { gaps, ...known });
  return { evidence, cycle: cycleOf(evidence, whole) };
}

/** Ratio of the deciding test to its threshold: 1 at the threshold; 0 for a normal reading. */
function strength(channel: ChannelEvidence): number {
  const cycle = decidingCycle(channel);
  if (cycle !== null) return cycle.peak / cycle.threshold;
  const { evidence } = channel;
  const { family } = route(evidence);
  if (family === null) return 0;
  if (family === 'range') return evidence.outliers.maxAbsZ / evidence.outliers.extreme;
  if (family === 'trend') {
    const { peak, threshold } = evidence.trend!;
    return threshold === 0 ? 1 : peak / threshold;
  }
  if (family === 'frequency') {
    const { extreme, mean, threshold } = evidence.frequency!;
    return threshold === 0 ? 1 : Math.abs(extreme - mean) / threshold;
  }
  // A discord counts from four times the mean distance on.
  return discordRatio(evidence.profile!) / 4;
}

/**
 * Evidence about every channel of [C][N].
 * @throws DataError for no channels, names that break the tags, no samples, infinities, or a channel without any value
 */
export function analyseChannels(
  channels: readonly Float64Array[],
  names: readonly string[],
): ChannelEvidence[] {
  if (channels.length === 0 || channels.length !== names.length) {
    throw new DataError(
      `${channels.length} channels with ${names.length} names; expected as many, and at least one`,
    );
  }
  const odd = names.find((name) => /[<>\n\r]/.test(name));
  if (odd !== undefined) {
    throw new DataError(
      `channel ${JSON.stringify(odd)}: <, > or a line end would break the tags of a trace; rename it in the data (of a CSV file, in its header)`,
    );
  }
  return channels.map(analyseWithGaps);
}

/** Evidence of channels and their names, for records and reports. */
export const channelRecords = (analysed: readonly ChannelEvidence[], names: readonly string[]): object[] =>
  analysed.map(({ evidence, cycle }, c) => ({ channel: names[c], ...evidence.toJSON(), cycle }));

function choose(
  analysed: readonly ChannelEvidence[],
  merit: (channel: ChannelEvidence) => number,
): ChannelEvidence & { readonly channel: number } {
  if (analysed.length === 1) return { ...analysed[0]!, channel: 0 };
  const merits = analysed.map(merit);
  const channel = merits.indexOf(merits.reduce((a, b) => Math.max(a, b)));
  return { ...analysed[channel]!, channel };
}

/** A kind for intervals whose data set names none. */
function kindOf(channel: ChannelEvidence, intervals: readonly Interval[]): AnomalyClass {
  if (intervals.length === 0) return 'normal';
  const { class: read } = blindOf(channel);
  return read === 'normal' ? 'contextual point' : read;
}

/** States which of several channels a trace is about. */
function about(
  trace: Trace,
  chosen: ChannelEvidence & { readonly channel: number },
  names: readonly string[],
): AnomalyTrace {
  if (names.length === 1) return { ...trace, ...chosen };
  const where =
    trace.intervals.length === 0
      ? `Of ${names.length} channels none departs further than ${names[chosen.channel]}, which is described.`
      : `Of ${names.length} channels the anomaly shows best in ${names[chosen.channel]}, which is described.`;
  const think = trace.think.replace('Observation: ', () => `Observation: ${where} `);
  return { ...trace, think, text: formatResponse(think, trace.intervals, trace.class), ...chosen };
}

/** The blind trace of channels [C] and their names: of several the one is read whose deciding test is farthest beyond its threshold. */
export function blindAnomaly(analysed: readonly ChannelEvidence[], names: readonly string[]): AnomalyTrace {
  const chosen = choose(analysed, strength);
  return about(blindOf(chosen), chosen, names);
}

/**
 * Writes the teacher trace of channels [C] and their names (training split only): of several the one is described whose evidence covers the
 * gold intervals (sorted, disjoint) best; of a normal series the one that departs most. Where the data do not name the kind (null), the
 * blind reading's is taken, or `contextual point` where that finds nothing.
 */
export function teacherAnomaly(
  analysed: readonly ChannelEvidence[],
  names: readonly string[],
  intervals: readonly Interval[],
  label: AnomalyClass | null,
): AnomalyTrace {
  const merit = (channel: ChannelEvidence): number =>
    intervals.length === 0 ? strength(channel) : coverageBy(channel, intervals);
  const chosen = choose(analysed, merit);
  return about(teacherOf(chosen, intervals, label ?? kindOf(chosen, intervals)), chosen, names);
}

/** Name of the blind expert beside the detectors of `series`, in the baselines of an evaluation. */
export const EXPCOT_BLIND = 'expcot-blind';

/**
 * Intervals and class that the blind trace of [N] concludes; the score is 1 inside the intervals and 0 elsewhere. Throws a
 * DataError for an empty series, an infinity, or no value at all.
 */
export function expcotBlind(values: Float64Array): ScoredIntervals & { readonly class: AnomalyClass } {
  const { intervals, class: label } = blindAnomaly([analyseWithGaps(values)], ['value']);
  const score = new Float64Array(values.length); // [N]
  for (const [start, end] of intervals) score.fill(1, start, end);
  return { intervals, score, class: label };
}
