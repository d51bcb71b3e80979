/** The series that a run is judged on, and those on which choices may be made, as its recipe names them. */
import { generators, open } from '../datasets/registry.ts';
import type { Recipe } from '../src/recipe.ts';
import type { LabeledSeries } from '../src/types.ts';

/** Series of the validation split that a choice rests on. */
export const VALIDATION_SERIES = 400;

/** Whether a data set is made on the fly, with splits that share no series; otherwise it is a directory. */
export function isGenerator(name: string): boolean {
  return generators().some((generator) => generator.name === name);
}

/**
 * The held-out series, in the order in which they are evaluated: the first `eval.series` of the generator's test split
 * under the recipe's seed; of a data set directory, its first `eval.series`, or all where it has fewer.
 * @throws ConfigError, DataError as `open`
 */
export function heldOutSeries({ data, eval: evaluation, seed }: Recipe): LabeledSeries[] {
  const count = evaluation.series;
  if (isGenerator(data.name)) {
    return [...open(data.name, { split: 'test', seed, length: data.length, count })];
  }
  const whole = open(data.name);
  return [...(count >= whole.count ? whole : open(data.name, { count }))];
}

/** Series of the generator's validation split, which shares none with test or training; none for a directory. */
export function validationSeries({ data, seed }: Recipe, count = VALIDATION_SERIES): LabeledSeries[] {
  if (!isGenerator(data.name)) return [];
  return [...open(data.name, { split: 'validation', seed, length: data.length, count })];
}
