/** The training examples that classical classifiers learn from, as a recipe names them. */
import { trainingExamples } from '../datasets/partition.ts';
import { openExamples } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { Example } from '../src/types.ts';

/**
 * Examples of the training split of a classification; null for other kinds, where nothing classical learns from them.
 * @throws ConfigError, DataError as `openExamples`
 */
export function trainingOf({ data, seed }: Recipe): Iterable<Example> | null {
  const source = openExamples(trainingExamples(data, seed));
  return source.facts.kind === 'classification' ? source : null;
}
