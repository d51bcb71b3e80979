/** Motifs (shapes that recur) and discords (shapes that do not) of a matrix profile. */

import { ConfigError } from '../ground/errors.ts';
import { requireOption, requireWhole } from './checks.ts';
import type { MatrixProfile } from './matrix-profile.ts';
import { largestMagnitude, moments, ROUNDING } from './stats.ts';

export interface Discord {
  /** Start of the window. */
  readonly start: number;
  /** Distance to its nearest neighbour, which is nowhere else as large. */
  readonly distance: number;
}

/**
 * The `count` windows that are least like any other, no two of which overlap, by falling distance; ties go to the lower index. Fewer
 * where no window is left. Windows that were compared with nothing are none. (Keogh, Lin & Fu 2005; Yeh et al. 2016.)
 */
export function topDiscords({ distances, window }: MatrixProfile, count: number): Discord[] {
  requireWhole('discords count', count, 1);
  const free = new Uint8Array(distances.length).fill(1);
  const found: Discord[] = [];
  while (found.length < count) {
    let start = -1;
    for (let i = 0; i < distances.length; i++) {
      const distance = distances[i]!;
      if (free[i] === 0 || distance === Number.POSITIVE_INFINITY) continue;
      if (start < 0 || distance > distances[start]!) start = i;
    }
    if (start < 0) break;
    found.push({ start, distance: distances[start]! });
    occupy(free, start, window);
  }
  return found;
}

export interface Motif {
  /** Starts of the two windows that are most alike, ascending. */
  readonly pair: readonly [number, number];
  readonly distance: number;
  /** Starts of all windows of the motif, the pair included, ascending. */
  readonly members: readonly number[];
}

export interface MotifOptions {
  /** A window within this many times the pair's distance of its first-found window belongs to the motif, ≥ 1; default 2. */
  readonly radius?: number;
}

/**
 * The `count` closest pairs of windows of the series [N] that the profile was made of, each with the other windows like it; windows of
 * one motif overlap none of another. Members are taken by rising distance, each outside the exclusion zone of those before it.
 * Fewer motifs where no free pair is left. O(count · N · m).
 */
export function topMotifs(
  values: Float64Array,
  profile: MatrixProfile,
  count: number,
  options: MotifOptions = {},
): Motif[] {
  requireWhole('motifs count', count, 1);
  const { radius = 2 } = options;
  requireOption(radius >= 1, 'motifs radius', radius, 'a number ≥ 1');
  const { distances, neighbours, window, exclusion } = profile;
  if (values.length - window + 1 !== distances.length) {
    throw new ConfigError(
      `motifs: ${values.length} samples do not belong to a profile of ${distances.length} windows`,
    );
  }
  const free = new Uint8Array(distances.length).fill(1);
  const windows = momentsOfWindows(values, window);
  const found: Motif[] = [];
  while (found.length < count) {
    let start = -1;
    for (let i = 0; i < distances.length; i++) {
      if (free[i] === 0 || neighbours[i]! < 0 || free[neighbours[i]!] === 0) continue;
      if (start < 0 || distances[i]! < distances[start]!) start = i;
    }
    if (start < 0) break;
    const other = neighbours[start]!;
    const distance = distances[start]!;
    const members = [start, other];
    const like = windowDistances(values, windows, start, radius * distance);
    const near: number[] = [];
    for (let i = 0; i < like.length; i++) if (free[i] === 1 && like[i]! <= radius * distance) near.push(i);
    near.sort((a, b) => like[a]! - like[b]! || a - b);
    for (const i of near) if (members.every((member) => Math.abs(member - i) > exclusion)) members.push(i);
    members.sort((a, b) => a - b);
    found.push({ pair: [Math.min(start, other), Math.max(start, other)], distance, members });
    for (const member of members) occupy(free, member, window);
  }
  return found;
}

/** z-normalised distances of all windows of m samples to the one at `start`, by the rules of `matrixProfile`: [N] → [N − m + 1]. O(N·m). */
export function distanceProfile(values: Float64Array, m: number, start: number): Float64Array {
  return windowDistances(values, momentsOfWindows(values, m), start, Number.POSITIVE_INFINITY);
}

interface Windows {
  readonly window: number;
  readonly means: Float64Array; // [N − m + 1]
  /** Standard deviations; 0 marks a constant window. */
  readonly stds: Float64Array; // [N − m + 1]
}

function momentsOfWindows(values: Float64Array, window: number): Windows {
  const flat = ROUNDING * largestMagnitude(values);
  const count = Math.max(0, values.length - window + 1);
  const means = new Float64Array(count);
  const stds = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const { mean, std } = moments(values, i, i + window);
    means[i] = mean;
    stds[i] = std <= flat ? 0 : std;
  }
  return { window, means, stds };
}

/** Samples between two looks at whether a sum is beyond the limit. */
const LOOK = 8;

/** Computes `distanceProfile`, abandoning distances beyond `limit`, which may come out as Infinity. */
function windowDistances(
  values: Float64Array,
  { window: m, means, stds }: Windows,
  start: number,
  limit: number,
): Float64Array {
  const query = new Float64Array(m);
  const queryVaries = stds[start]! > 0;
  if (queryVaries) for (let k = 0; k < m; k++) query[k] = (values[start + k]! - means[start]!) / stds[start]!;
  // Rounding must not carry a sum over the limit.
  const most = limit * limit * (1 + 1e-9);
  return means.map((mean, i) => {
    const std = stds[i]!;
    if (std === 0 || !queryVaries) return std > 0 === queryVaries ? 0 : Math.sqrt(m);
    let squares = 0;
    for (let k = 0; k < m; ) {
      for (const end = Math.min(m, k + LOOK); k < end; k++) {
        const step = (values[i + k]! - mean) / std - query[k]!;
        squares += step * step;
      }
      if (squares > most) return Number.POSITIVE_INFINITY;
    }
    return Math.sqrt(squares);
  });
}

/** Marks the starts of all windows that overlap the one at `start`. */
function occupy(free: Uint8Array, start: number, window: number): void {
  free.fill(0, Math.max(0, start - window + 1), start + window);
}
