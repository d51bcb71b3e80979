/** How well the evidence of each analysis family covers given intervals, and which family to cite for them. */
import { PROFILE_WINDOW } from '../series/analyses.ts';
import { coverage, pointF1 } from '../series/intervals.ts';
import type { Interval } from '../types.ts';
import { type Evidence, FAMILIES, type Family } from './evidence.ts';

export interface Citation {
  /** Family whose intervals agree best, the first of FAMILIES on ties; null when none shares a sample, or for no anomaly. */
  readonly family: Family | null;
  /** Point F1 of that family's intervals against the given ones, in [0, 1]; 0 without a family. */
  readonly agreement: number;
  /** Whether the range test agrees better with clipped moments than with plain ones, and is cited with those. */
  readonly clipped: boolean;
  /** Families that flag something which shares no sample with the given intervals. */
  readonly dissent: readonly Family[];
}

/**
 * Compares the evidence with intervals (sorted, disjoint). Agreement is the point F1, 2·|A∩B| / (|A| + |B|) over samples.
 * The range test is taken with plain or with clipped moments, whichever agrees better. With no intervals no family is cited,
 * and every family that flags something dissents (the range test: with plain moments). Computes all four analyses.
 */
export function cite(evidence: Evidence, intervals: readonly Interval[]): Citation {
  let family: Family | null = null;
  let agreement = 0;
  let clipped = false;
  const dissent: Family[] = [];
  for (const candidate of FAMILIES) {
    const flagged = evidence.intervals(candidate);
    const plain = intervals.length === 0 ? 0 : pointF1(flagged, intervals);
    const others = candidate === 'range' && intervals.length > 0 ? evidence.outliers.intervals : [];
    const f1 = Math.max(plain, others.length === 0 ? 0 : pointF1(others, intervals));
    if (f1 === 0 && flagged.length > 0) dissent.push(candidate);
    if (f1 > agreement) {
      family = candidate;
      agreement = f1;
      clipped = f1 > plain;
    }
  }
  return { family, agreement, clipped, dissent };
}

/**
 * The family of `cite`, without the analyses that cannot change it: the profile test flags one window of 50 samples
 * at most, so it is left out where even the best place for that window would agree less than what is found.
 */
export function citedFamily(evidence: Evidence, intervals: readonly Interval[]): Family | null {
  const wanted = coverage(intervals);
  if (wanted === 0) return null;
  const reach = Math.min(PROFILE_WINDOW, wanted);
  const bound = (2 * reach) / (PROFILE_WINDOW + wanted);
  let family: Family | null = null;
  let agreement = 0;
  for (const candidate of FAMILIES) {
    if (candidate === 'profile' && agreement >= bound) break;
    const f1 = agreementOf(evidence, candidate, intervals);
    if (f1 > agreement) {
      family = candidate;
      agreement = f1;
    }
  }
  return family;
}

/** Point F1 of a family's intervals; the range test with plain or with clipped moments, whichever is better. */
function agreementOf(evidence: Evidence, family: Family, intervals: readonly Interval[]): number {
  const plain = pointF1(evidence.intervals(family), intervals);
  return family === 'range' ? Math.max(plain, pointF1(evidence.outliers.intervals, intervals)) : plain;
}
