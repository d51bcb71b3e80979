/** The training examples that classical classifiers learn from, as a recipe names them. */
import { isExampleSet } from '../datasets/example-manifest.ts';
import { ExampleSet } from '../datasets/example-set.ts';
import { trainingExamples } from '../datasets/partition.ts';
import { openExamples } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { Example } from '../src/types.ts';

/**
 * Examples of the training split of a classification; null for a data set without one, and for other kinds, where nothing
 * classical learns from them.
 * @throws DataError for a prepared data set that is not whole
 */
export function trainingOf({ data, seed }: Pick<Recipe, 'data' | 'seed'>): Iterable<Example> | null {
  // Only prepared data sets hold classes.
  if (!isExampleSet(data.name)) return null;
  const set = new ExampleSet(data.name);
  if (set.manifest.kind !== 'classification' || set.count('train') === 0) return null;
  return openExamples(trainingExamples(data, seed));
}
