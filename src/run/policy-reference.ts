/** What a trained policy makes of its training data, for later: who asks it about other data can tell how far they are from these. */
import { openExamples, validationExamples } from '../../datasets/source.ts';
import type { Example } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { generate } from '../policy/generate.ts';
import type { Policy } from '../policy/policy.ts';
import { pictureFeatures } from '../policy/vision.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { MOST_DIMENSIONS, makeReference, type PolicyReference } from '../tasks/reference.ts';
import { PromptEncoder, type Task } from '../train/task.ts';
import type { TrainingJob } from './stage.ts';
import { exampleTask, trainingTask } from './task.ts';

/** Examples whose pictures are kept in mind, and those on which they are judged: of a run that trains on fewer, no more than these. */
const TRAINING = 256;
const VALIDATION = 200;
/** Examples encoded together. */
const BATCH = 64;

async function encode(
  encoder: PromptEncoder,
  task: Pick<Task, 'picture' | 'instruction'>,
  examples: readonly Example[],
): Promise<EncodedPrompt[]> {
  const prompts: EncodedPrompt[] = [];
  for (const one of examples) prompts.push(encoder.encode(await task.picture(one), task.instruction(one)));
  return prompts;
}

/**
 * The reference of the policy that a stage leaves: features of up to 256 pictures of its training examples, and distances and log-probabilities
 * of up to 200 validation examples. It depends on the policy and the recipe alone, so that a stage that is resumed leaves the same bytes.
 *
 * Null where nobody would ask for it or it cannot be made: of policies that mark no intervals or read numbers, of large ones (in the full style), whose
 * answers take too long, and where the data have no validation split.
 */
export async function makePolicyReference(
  policy: Policy,
  card: PolicyCard,
  { recipe, examples, stage }: Pick<TrainingJob, 'recipe' | 'examples' | 'stage'>,
): Promise<PolicyReference | null> {
  const { sft, rl } = recipe;
  const trained = Math.max(2, sft.samples, rl.steps * rl.prompts);
  const address = validationExamples(recipe.data, recipe.seed, Math.min(VALIDATION, trained));
  const wanted =
    taskKind(card.kind).localises &&
    card.numbers === null &&
    card.style === 'nano' &&
    policy.dims.width <= MOST_DIMENSIONS;
  if (address === null || !wanted) return null;
  const encoder = new PromptEncoder(policy);
  const taught = trainingTask(card, examples, stage);
  const training: Float32Array[] = [];
  const pictures = Math.min(TRAINING, trained);
  for (let first = 0; first < pictures; first += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, pictures - first) }, (_, i) =>
      taught.example(first + i),
    );
    training.push(...pictureFeatures(policy, await encode(encoder, taught, batch)));
  }
  const source = openExamples(address);
  const task = exampleTask(card, { facts: source.facts });
  const validation: Float32Array[] = [];
  const logProbabilities: number[] = [];
  for (let first = 0; first < source.count; first += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, source.count - first) }, (_, i) =>
      source.at(first + i),
    );
    const prompts = await encode(encoder, task, batch);
    validation.push(...pictureFeatures(policy, prompts));
    const answers = await generate(policy, prompts, {
      ...{ temperature: 0, maxTokens: recipe.eval.maxTokens, seed: recipe.seed },
    });
    for (const { logProbs } of answers) {
      logProbabilities.push(logProbs.reduce((sum, value) => sum + value, 0) / logProbs.length);
    }
  }
  return makeReference(training, validation, logProbabilities);
}
