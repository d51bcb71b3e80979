/** The series that a run is judged on, and those on which choices may be made, as its recipe names them. */
import * as partition from '../datasets/partition.ts';
import type { Recipe } from '../src/recipe.ts';
import type { LabeledSeries } from '../src/types.ts';

/** Series of the validation split that a choice rests on. */
export const VALIDATION_SERIES = 400;

/**
 * The held-out series, in the order in which they are evaluated.
 * @throws ConfigError, DataError as `open`
 */
export function heldOutSeries({ data, eval: evaluation, seed }: Recipe): LabeledSeries[] {
  return [...partition.openSeries(partition.heldOutSeries(data, seed, evaluation.series))];
}

/** Series of the generator's validation split, which shares none with test or training; none for a directory. */
export function validationSeries({ data, seed }: Recipe, count = VALIDATION_SERIES): LabeledSeries[] {
  const address = partition.validationSeries(data, seed, count);
  return address === null ? [] : [...partition.openSeries(address)];
}
