/**
 * Traces of anomalies in series as they come: with missing points, and with several channels. The tests need a single whole series: missing
 * points are bridged, and of several channels the one is told in which the anomaly shows best.
 */
import { DataError } from '../errors.ts';
import type { AnomalyClass, Interval } from '../types.ts';
import type { CycleTest } from './cycle.ts';
import { blindWithCycle, coverageBy, cycleDecides, cycleOf, teacherWithCycle } from './cycle-trace.ts';
import { analyse, type Evidence } from './evidence.ts';
import { bridge } from './gaps.ts';
import { discordRatio, type Reading, route } from './route.ts';
import { formatResponse, type Trace } from './trace.ts';

/** What is known of one channel. */
export interface ChannelEvidence {
  readonly evidence: Evidence;
  /** Null where the base is no wave, or too few cycles of one. */
  readonly cycle: CycleTest | null;
}

/** A trace, and the channel that it is about. */
export interface AnomalyTrace extends Trace, ChannelEvidence {
  /** Index of the channel. */
  readonly channel: number;
}

/** Evidence about a series [N] in which NaN marks missing points. Throws a DataError for no samples, an infinity, no known point. */
export function analyseWithGaps(values: Float64Array): ChannelEvidence {
  const { values: whole, ...gaps } = bridge(values);
  const evidence = analyse(whole, { gaps });
  return { evidence, cycle: cycleOf(evidence, whole) };
}

/** How far the test that decides is beyond its threshold: 1 at the threshold; 0 for a normal reading. */
function strength({ evidence, cycle }: ChannelEvidence): number {
  if (cycleDecides(evidence, cycle)) return cycle.peak / cycle.threshold;
  const { family }: Reading = route(evidence);
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

/** Evidence about every channel of [C][N]. @throws DataError as `blindAnomaly` */
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

function choose(
  analysed: readonly ChannelEvidence[],
  merit: (own: ChannelEvidence) => number,
): ChannelEvidence & { readonly channel: number } {
  if (analysed.length === 1) return { ...analysed[0]!, channel: 0 };
  const merits = analysed.map(merit);
  const channel = merits.indexOf(merits.reduce((a, b) => Math.max(a, b)));
  return { ...analysed[channel]!, channel };
}

/** A kind for intervals whose data set names none. */
function kindOf({ evidence, cycle }: ChannelEvidence, intervals: readonly Interval[]): AnomalyClass {
  if (intervals.length === 0) return 'normal';
  const { class: read } = blindWithCycle(evidence, cycle);
  return read === 'normal' ? 'contextual point' : read;
}

/** Says which channel a trace is about, where there are several. */
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

/** As `blindAnomaly`, on evidence of every channel that is there already. */
export function blindOf(analysed: readonly ChannelEvidence[], names: readonly string[]): AnomalyTrace {
  const chosen = choose(analysed, strength);
  return about(blindWithCycle(chosen.evidence, chosen.cycle), chosen, names);
}

/** As `teacherAnomaly`, on evidence of every channel that is there already. */
export function teacherOf(
  analysed: readonly ChannelEvidence[],
  names: readonly string[],
  intervals: readonly Interval[],
  label: AnomalyClass | null,
): AnomalyTrace {
  const merit = (own: ChannelEvidence): number =>
    intervals.length === 0 ? strength(own) : coverageBy(own.evidence, own.cycle, intervals);
  const chosen = choose(analysed, merit);
  const { evidence, cycle } = chosen;
  const name = label ?? kindOf(chosen, intervals);
  return about(teacherWithCycle(evidence, cycle, intervals, name), chosen, names);
}

/**
 * The blind trace of [C][N]: of several channels the one is read whose deciding test is farthest beyond its threshold.
 * @throws DataError for no channels, names that break the tags, no samples, infinities, or a channel without any value
 */
export function blindAnomaly(channels: readonly Float64Array[], names: readonly string[]): AnomalyTrace {
  return blindOf(analyseChannels(channels, names), names);
}

/**
 * The trace that teaches, of [C][N] (training split only): of several channels the one is told whose evidence covers the gold intervals
 * (sorted, disjoint) best; of a normal series the one that departs most. Where the data do not name the kind (null), the blind reading's
 * is taken, or `contextual point` where that finds nothing.
 * @throws DataError as `blindAnomaly`
 */
export function teacherAnomaly(
  channels: readonly Float64Array[],
  names: readonly string[],
  intervals: readonly Interval[],
  label: AnomalyClass | null,
): AnomalyTrace {
  return teacherOf(analyseChannels(channels, names), names, intervals, label);
}
