/** The address of a synthetic series: seed, split, index and length. One address, one series, on any machine. */
import { ConfigError } from '../src/errors.ts';

/** Splits draw from random streams of different names, so that they never overlap, whatever the seeds. */
export const SPLITS = ['train', 'validation', 'test'] as const;
export type Split = (typeof SPLITS)[number];

/** Seeds of the published AnomLLM splits: 3407 for training, 42 for evaluation. */
export const DEFAULT_SEED: Readonly<Record<Split, number>> = { train: 3407, validation: 3407, test: 42 };

/** Indices are 32-bit words of the random counter. */
export const MAXIMUM_INDEX = 0xffffffff;

/** Points of a generated series: what its analyses and pictures are made for, with room. */
export const MAXIMUM_LENGTH = 10_000_000;

/**
 * Checks the address of a series.
 *
 * @param seed integer in [0, 2⁵³)
 * @param index integer in [0, 2³²)
 * @param length number of points, an integer from `minimum` to `MAXIMUM_LENGTH`
 * @throws ConfigError naming the part that is wrong, what it is, and what it may be
 */
export function checkAddress(seed: number, index: number, length: number, minimum: number): void {
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new ConfigError(`seed: got ${seed}, expected an integer from 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
  if (!Number.isInteger(index) || index < 0 || index > MAXIMUM_INDEX) {
    throw new ConfigError(`index: got ${index}, expected an integer from 0 to ${MAXIMUM_INDEX}`);
  }
  if (!Number.isSafeInteger(length) || length < minimum || length > MAXIMUM_LENGTH) {
    throw new ConfigError(
      `length: got ${length}, expected an integer of at least ${minimum} and at most ${MAXIMUM_LENGTH}`,
    );
  }
}
