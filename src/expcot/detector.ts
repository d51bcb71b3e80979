/** The blind ExpCoT reading as a classical detector, for the baseline of evaluation. */
import type { Detection } from '../series/detectors.ts';
import type { AnomalyClass } from '../types.ts';
import { analyse } from './evidence.ts';
import { route } from './route.ts';

/** Name under which reports list it beside the detectors of `series`. */
export const EXPCOT_BLIND = 'expcot-blind';

/**
 * Intervals and class that the evidence alone supports; the score is 1 inside the intervals and 0 elsewhere. Throws a
 * DataError for an empty series or a value that is not finite.
 */
export function expcotBlind(values: Float64Array): Detection & { readonly class: AnomalyClass } {
  const reading = route(analyse(values));
  const score = new Float64Array(values.length); // [N]
  for (const [start, end] of reading.intervals) score.fill(1, start, end);
  return { intervals: reading.intervals, score, class: reading.class };
}
