/** What a policy is asked about an example, and what the expert says of it: the words beside the pictures of `data show`. */
import { lengthOf } from '../../datasets/example.ts';
import type { ExampleOrigin } from '../../datasets/example-set.ts';
import type { Split } from '../../datasets/split.ts';
import { ConfigError } from '../errors.ts';
import { expertTrace } from '../expcot/expert.ts';
import { type ClassProfile, learnClasses } from '../expcot/profile-of-classes.ts';
import { promptText, promptVersion } from '../prompt-text.ts';
import { customPrompt, type TaskPrompt, taskPrompt } from '../task-prompts.ts';
import { ANOMALY_CLASSES, type Example } from '../types.ts';
import type { Describe } from './data-page.ts';

/** A task's own prompt; for data without one, the words that suit the kind of answer. */
function promptOf({ task, title, kind }: ExampleOrigin): TaskPrompt {
  try {
    return taskPrompt(task, kind);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return customPrompt({ kind, description: title });
  }
}

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
    const prompt = promptOf(origin);
    const text = promptText(prompt, {
      length: lengthOf(example),
      channels: example.names,
      classes: origin.classes.length > 0 ? origin.classes : ANOMALY_CLASSES,
    });
    const { kind } = example.gold;
    const classes = kind === 'classification' ? learned() : null;
    const known = kind !== 'classification' || classes !== null;
    return {
      prompt: `${text}\n\n(prompt ${promptVersion(prompt)})`,
      trace: known ? expertTrace(example, 'teacher', classes).text : null,
    };
  };
}
