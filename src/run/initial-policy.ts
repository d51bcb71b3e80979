/** The policy that the training of a run starts from. */
import { existsSync } from 'node:fs';
import { openExamples, trainingExamples } from '../../datasets/source.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { writeManifestedDirectory } from '../manifest.ts';
import { trainBpe } from '../policy/bpe.ts';
import { Policy } from '../policy/policy.ts';
import type { Recipe } from '../recipe.ts';
import { type PolicyCard, writeCard } from '../tasks/card.ts';
import { nanoCard } from './card.ts';
import type { RunFiles } from './files.ts';
import { findPolicy } from './find-policy.ts';
import { copyPolicy } from './policy-copy.ts';
import { trainingTask } from './task.ts';

/** Traces that the nano tokenizer is made from. */
const TOKENIZER_CORPUS = 300;

/** The nano tokenizer of a recipe. @throws DataError for training examples that have no trace */
export function nanoTokenizer(recipe: Recipe, card: PolicyCard): Record<string, unknown> {
  const task = trainingTask(card, trainingExamples(recipe.data, recipe.seed));
  const texts: string[] = [];
  for (let i = 0; i < TOKENIZER_CORPUS; i++) {
    const example = task.example(i);
    texts.push(task.instruction(example), task.trace(example));
  }
  return trainBpe(texts);
}

/** Makes the run's initial policy, unless it is there: random nano weights, or a copy of a checkpoint. */
export function prepareInitial(run: RunFiles): void {
  if (existsSync(run.initial)) return;
  const { policy, seed } = run.recipe;
  if (policy.init !== 'nano') {
    copyPolicy(findPolicy(policy.init), run.initial);
    return;
  }
  const card = nanoCard(run.recipe, openExamples(run.trainingExamples).facts);
  const engine = openTorch({ threads: 1 });
  const created = Policy.create(engine, { tokenizer: nanoTokenizer(run.recipe, card), seed });
  writeManifestedDirectory(run.initial, (temporary) => {
    created.write(temporary);
    writeCard(temporary, card);
  });
  created.dispose();
}
