/** How well the evidence of each analysis family covers given intervals, and which family to cite for them. */
import { pointF1 } from '../series/intervals.ts';
import type { Interval } from '../types.ts';
import { type Evidence, FAMILIES, type Family } from './evidence.ts';

export interface Citation {
  /** Family whose intervals agree best, the first of FAMILIES on ties; null when none shares a sample, or for no anomaly. */
  readonly family: Family | null;
  /** Point F1 of that family's intervals against the given ones, in [0, 1]; 0 without a family. */
  readonly agreement: number;
  /** Families that flag something which shares no sample with the given intervals. */
  readonly dissent: readonly Family[];
}

/**
 * Compares the evidence with intervals (sorted, disjoint). Agreement is the point F1, 2·|A∩B| / (|A| + |B|) over samples.
 * With no intervals no family is cited, and every family that flags something dissents. Computes all four analyses.
 */
export function cite(evidence: Evidence, intervals: readonly Interval[]): Citation {
  let family: Family | null = null;
  let agreement = 0;
  const dissent: Family[] = [];
  for (const candidate of FAMILIES) {
    const flagged = evidence.intervals(candidate);
    if (flagged.length === 0) continue;
    const f1 = intervals.length === 0 ? 0 : pointF1(flagged, intervals);
    if (f1 === 0) dissent.push(candidate);
    if (f1 > agreement) {
      family = candidate;
      agreement = f1;
    }
  }
  return { family, agreement, dissent };
}
