/** Few-shot prompts: solved training examples before the question. */
import { classesOf } from '../../datasets/materials.ts';
import { type ExampleAddress, hasSplits, isGenerator, openExamples } from '../../datasets/source.ts';
import type { ShotOptions, ShotsOf } from '../../eval/harness.ts';
import { ConfigError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { labelOf, taskKind } from '../tasks/kinds.ts';
import { exampleTask, type TaskParts } from './policy-task.ts';

/** Number of generated examples that shots are drawn from. */
const GENERATED = 512;

/**
 * Returns the training split, from which shots are drawn.
 * @throws ConfigError where it is the evaluated split, or does not exist
 */
export function shotSource({ name, split, seed, length }: ExampleAddress): ExampleAddress {
  if (split === 'train') {
    throw new ConfigError(
      '--shots: are drawn from the training split, which --split train evaluates; choose another split',
    );
  }
  if (isGenerator(name)) return { name, split: 'train', seed, length, offset: 0, count: GENERATED };
  if (!hasSplits(name)) {
    throw new ConfigError(`--shots: ${name} has no training split to draw them from; prepare one that has`);
  }
  return { name, split: 'train', seed, length };
}

/** Groups the places of examples by label, sorted by name. */
export function byLabel(labels: readonly string[]): readonly (readonly number[])[] {
  const groups = new Map<string, number[]>([...new Set(labels)].sort().map((name) => [name, []]));
  for (const [i, label] of labels.entries()) groups.get(label)!.push(i);
  return [...groups.values()];
}

/**
 * Draws the shots of one question from groups of equal label: up to `count` different places, the groups in turn from a random one, in
 * random order. A pure function of its arguments.
 */
export function drawShots(
  groups: readonly (readonly number[])[],
  count: number,
  seed: number,
  number: number,
): number[] {
  const random = new Random(seed, 'shots', number);
  const shuffled = <T>(list: readonly T[]): T[] => [...random.permutation(list.length)].map((i) => list[i]!);
  const drawn = shuffled(groups).map(shuffled);
  const longest = drawn.reduce((most, { length }) => Math.max(most, length), 0);
  const inTurn = Array.from({ length: longest }, (_, round) => drawn.flatMap((group) => group[round] ?? []));
  return shuffled(inTurn.flat().slice(0, count));
}

/**
 * Draws different shots for every question, with the seed, from the training split and balanced by class. Their responses have the form of
 * the answer: the expert trace with its answer, or the answer alone.
 * @throws ConfigError as `shotSource`; DataError for a training split that is not whole
 */
export function fewShot(
  evaluated: ExampleAddress,
  card: PolicyCard,
  parts: TaskParts,
  { count, seed }: ShotOptions,
): ShotsOf {
  const source = openExamples(shotSource(evaluated));
  const task = exampleTask(card, { ...parts, profile: classesOf(source.set) });
  const labels = Array.from(source, ({ gold }) => labelOf(gold));
  if (labels.length < count) {
    throw new ConfigError(`--shots: got ${count}, but the training split has ${labels.length} examples`);
  }
  const groups = byLabel(labels);
  const reasoning = card.reasoning ?? parts.reasoning ?? true;
  return (number) =>
    drawShots(groups, count, seed, number).map((place) => {
      const example = source.at(place);
      const response = reasoning
        ? task.trace(example)
        : taskKind(example.gold.kind).parts(example.gold, true);
      return { example, response };
    });
}
