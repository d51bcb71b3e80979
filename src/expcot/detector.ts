/** The blind expert as a classical detector of one channel, for the baseline of evaluation. */
import type { Detection } from '../series/detectors.ts';
import type { AnomalyClass } from '../types.ts';
import { blindAnomaly } from './anomaly.ts';

/** Name under which reports list it beside the detectors of `series`. */
export const EXPCOT_BLIND = 'expcot-blind';

/**
 * Intervals and class that the blind trace of [N] concludes; the score is 1 inside the intervals and 0 elsewhere. Throws a
 * DataError for an empty series, an infinity, or no value at all.
 */
export function expcotBlind(values: Float64Array): Detection & { readonly class: AnomalyClass } {
  const { intervals, class: label } = blindAnomaly([values], ['value']);
  const score = new Float64Array(values.length); // [N]
  for (const [start, end] of intervals) score.fill(1, start, end);
  return { intervals, score, class: label };
}
