/** Traces that rest on the cycle test: where no other test sees an anomaly, or where it covers the right intervals best. */
import { pointF1 } from '../series/intervals.ts';
import type { AnomalyClass, Interval } from '../types.ts';
import { cite } from './citation.ts';
import { type CycleTest, cycleTest, FLAG_FROM } from './cycle.ts';
import type { Evidence } from './evidence.ts';
import { route } from './route.ts';
import { blind, composeTrace, listIntervals, formatNumber as say, type Trace, teacher } from './trace.ts';

/** The cycle test of a whole series [N], where its base is a wave; null otherwise. */
export function cycleOf(evidence: Evidence, values: Float64Array): CycleTest | null {
  const { kind, period } = evidence.base;
  return period === null ? null : cycleTest(values, period, kind === 'cycle');
}

/** What decides the class, in numbers. */
function reason({ class: kind, outside, speed, whiteness, levelChange }: CycleTest): string {
  if (kind === 'trend') return `the level changes for good by up to ${say(levelChange)}`;
  if (kind === 'seasonal') return `steps there are ${say(speed)} times the usual ones: the wave runs faster`;
  if (kind === 'shapelet')
    return `steps there are ${say(speed)} times the usual ones: the wave has another shape`;
  if (whiteness > 0)
    return `steps there are ${say(speed)} times the usual ones, and roughness is ${say(whiteness)} of that of white noise: the wave gives way to noise`;
  return `of these points a share of ${say(outside)} lies outside of the range of the cycle`;
}

function report(cycle: CycleTest): string {
  const { period, low, high, sigma, threshold, peak, peakIndex, intervals, recurs } = cycle;
  const limit = `limit ${say(threshold)} (${FLAG_FROM} standard deviations of ${say(sigma)}, or more for a high cycle)`;
  const opening = `Cycle test: the typical cycle of ${say(period)} samples lies between ${say(low)} and ${say(high)}; the largest departure from it is ${say(peak)} at ${peakIndex}, ${limit}`;
  const longer = recurs === null ? '' : `; what recurs every ${recurs} samples is a longer pattern`;
  return intervals.length === 0
    ? `${opening}${longer}; nothing is flagged.`
    : `${opening}${longer}; flagged: ${listIntervals(intervals)}; ${reason(cycle)}.`;
}

/** Whether the cycle test decides: where no other test does, and on cycles that are no waves, which the others take apart. */
export function cycleDecides(evidence: Evidence, cycle: CycleTest | null): cycle is CycleTest {
  if (cycle === null || cycle.intervals.length === 0) return false;
  return evidence.base.kind === 'cycle' || route(evidence).family === null;
}

/** The blind trace; the cycle test may decide it. */
export function blindWithCycle(evidence: Evidence, cycle: CycleTest | null): Trace {
  if (!cycleDecides(evidence, cycle)) return blind(evidence);
  const { intervals, class: label } = cycle;
  const told = {
    found: 'The cycle test finds a departure from this pattern.',
    validation: `${report(cycle)} The cycle test decides.`,
    conclusion: `anomalies of class ${label} at ${listIntervals(intervals)}.`,
  };
  return composeTrace(evidence, told, intervals, label);
}

/** How well the best test covers intervals, the cycle test included: point F1 in [0, 1]. */
export function coverageBy(
  evidence: Evidence,
  cycle: CycleTest | null,
  intervals: readonly Interval[],
): number {
  const own = cycle === null || intervals.length === 0 ? 0 : pointF1(cycle.intervals, intervals);
  return Math.max(own, cite(evidence, intervals).agreement);
}

/** The trace that teaches; cites the cycle test where it covers the gold intervals (sorted, disjoint) best. */
export function teacherWithCycle(
  evidence: Evidence,
  cycle: CycleTest | null,
  intervals: readonly Interval[],
  label: AnomalyClass,
): Trace {
  const own = cycle === null || intervals.length === 0 ? 0 : pointF1(cycle.intervals, intervals);
  if (cycle === null || own <= cite(evidence, intervals).agreement)
    return teacher(evidence, intervals, label);
  const doubt =
    cycle.class === label
      ? ''
      : ` By itself it would take the class for ${cycle.class}, which the annotation corrects.`;
  const where = listIntervals(intervals);
  const told = {
    found: `It departs from this pattern at ${where}, like an anomaly of class ${label}.`,
    validation: `${report(cycle)} The cycle test best supports an anomaly of class ${label} at ${where}, with a point F1 of ${say(own)}.${doubt}`,
    conclusion: `anomalies of class ${label} at ${where}.`,
  };
  return composeTrace(evidence, told, intervals, label);
}
