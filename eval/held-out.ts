/** The examples that a run is judged on, and those on which choices may be made, as its recipe names them. */
import { heldOutExamples, validationExamples } from '../datasets/partition.ts';
import { openExamples } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { Example } from '../src/types.ts';

/**
 * The held-out examples, in the order in which they are evaluated.
 * @throws ConfigError, DataError as `openExamples`
 */
export function heldOutOf({ data, eval: evaluation, seed }: Recipe): Example[] {
  return [...openExamples(heldOutExamples(data, seed, evaluation.series))];
}

/** Examples of the validation split, which shares none with test or training; none for a directory without splits. */
export function validationOf({ data, eval: { validation }, seed }: Recipe): Example[] {
  const address = validation === 0 ? null : validationExamples(data, seed, validation);
  return address === null ? [] : [...openExamples(address)];
}
