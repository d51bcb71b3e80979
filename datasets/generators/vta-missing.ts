/** Missing points of the irregular VisualTimeAnomaly series. */
import { ConfigError } from '../../src/errors.ts';
import type { Random } from '../../src/random.ts';

/** Shares of missing points in the publication. */
export const VTA_MISSING = [0.05, 0.1, 0.15, 0.2, 0.25] as const;

/** @throws ConfigError for a share outside [0, 0.5], of which too little would be left to see */
export function checkMissing(missing: number): void {
  if (!(missing >= 0 && missing <= 0.5)) {
    throw new ConfigError(`missing: got ${missing}, expected a share of points from 0 to 0.5`);
  }
}

/** ⌊share · length⌋ different positions; those of a smaller share are the first of a larger one's. */
export function missingPositions(random: Random, share: number, length: number): Int32Array {
  // 0.15 · 200 is a little above 30, 0.29 · 100 a little below 29: whole counts must not depend on that.
  return random.permutation(length).subarray(0, Math.floor(share * length + 1e-9));
}
