/** What a policy is asked about an example, and what the expert says of it: the words beside the pictures of `data show`. */
import { lengthOf } from '../../../datasets/example.ts';
import type { ExampleOrigin } from '../../../datasets/example-set.ts';
import type { Split } from '../../../datasets/split.ts';
import { expertTrace } from '../../expcot/expert.ts';
import { type ClassProfile, learnClasses } from '../../expcot/profile-of-classes.ts';
import { axesText } from '../../plot/axes-text.ts';
import { promptText, promptVersion } from '../../prompt-text.ts';
import type { TaskPrompt } from '../../task-prompts.ts';
import { promptFor } from '../../train/instruction.ts';
import { ANOMALY_CLASSES, type Example } from '../../types.ts';
import { drawingOf } from '../task/figure.ts';
import type { Describe } from './page.ts';

const promptOf = ({ task, title, kind }: ExampleOrigin): TaskPrompt => promptFor(task, kind, title);

/** What a policy that is not nano is asked about an example. @throws ConfigError as `promptText` */
export function wordsFor(example: Example, origin: ExampleOrigin): string {
  const length = lengthOf(example);
  const { figure, times } = drawingOf(example, origin.figure);
  return promptText(promptOf(origin), {
    length,
    axes: axesText(figure, length, times),
    channels: example.names,
    classes: origin.classes.length > 0 ? origin.classes : ANOMALY_CLASSES,
  });
}

/** Version of these words for all examples of a data set. */
export const wordsVersion = (origin: ExampleOrigin): string => promptVersion(promptOf(origin));

function* trainingOf(examples: Iterable<readonly [split: Split, example: Example]>): Generator<Example> {
  for (const [split, example] of examples) if (split === 'train') yield example;
}

/**
 * Prompt and expert trace with the gold answer. What the classes look like is learned from the training split alone, once, when
 * the first classification is described; without a training split there is no trace.
 */
export function describer(examples: () => Iterable<readonly [split: Split, example: Example]>): Describe {
  let profile: ClassProfile | null | undefined;
  const learned = (): ClassProfile | null => {
    if (profile === undefined) {
      const [first] = trainingOf(examples());
      profile = first === undefined ? null : learnClasses(trainingOf(examples()));
    }
    return profile;
  };
  return async (example, origin) => {
    const { kind } = example.gold;
    const classes = kind === 'classification' ? learned() : null;
    const known = kind !== 'classification' || classes !== null;
    return {
      prompt: `${wordsFor(example, origin)}\n\n(prompt ${wordsVersion(origin)})`,
      trace: known ? expertTrace(example, 'teacher', classes).text : null,
    };
  };
}
