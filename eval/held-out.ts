/** The examples that a run is judged on, and those on which choices may be made, as its recipe names them. */
import { heldOutExamples, validationExamples } from '../datasets/partition.ts';
import { openExamples } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { Example } from '../src/types.ts';

/** Examples of the validation split that a choice rests on. */
export const VALIDATION_EXAMPLES = 400;

/**
 * The held-out examples, in the order in which they are evaluated.
 * @throws ConfigError, DataError as `openExamples`
 */
export function heldOutOf({ data, eval: evaluation, seed }: Recipe): Example[] {
  return [...openExamples(heldOutExamples(data, seed, evaluation.series))];
}

/** Examples of the validation split, which shares none with test or training; none for a directory without splits. */
export function validationOf({ data, seed }: Recipe, count = VALIDATION_EXAMPLES): Example[] {
  const address = validationExamples(data, seed, count);
  return address === null ? [] : [...openExamples(address)];
}
