/** What a reader must know before believing the numbers of a run. */
import { type DataFacts, isGenerator } from '../datasets/source.ts';
import type { Gold } from '../src/types.ts';
import type { Baselines } from './baselines.ts';
import type { RunDirectory } from './run-directory.ts';

/** What is known of the data of a run. */
export interface CaveatData {
  readonly facts: DataFacts;
  /** Held-out examples. */
  readonly count: number;
  /** Of these, those whose kind of anomaly the data do not name. */
  readonly unnamed: number;
}

function aboutData(run: RunDirectory, { facts, count, unnamed }: CaveatData): string[] {
  const { name } = run.recipe.data;
  const split = isGenerator(name)
    ? 'The series are synthetic and clean, and training and held-out series come from the same generator: the numbers say what the policy learned of it, not how it would read recordings.'
    : facts.statement === null
      ? 'Training and held-out series are parts of one data set on disk: its last series were kept back. If neighbouring series resemble each other, the numbers flatter the policy.'
      : `Split of the data: ${facts.statement}`;
  return [
    split,
    ...(unnamed > 0
      ? [
          `The data do not name the kind of anomaly of ${unnamed} of the ${count} held-out series: on these the class has no part in reward and class accuracy.`,
        ]
      : []),
  ];
}

/** Of policies that were made here, not started from a checkpoint. */
function aboutNano(kind: Gold['kind'], numbers: boolean): string[] {
  const input = numbers ? 'the numbers' : 'the picture';
  return [
    'The policy is very small and started from random weights. It shows that the method runs and teaches; its numbers are not comparable with published ones of billions of parameters on other data.',
    ...(kind === 'anomaly'
      ? [
          `The scan in the reasoning is privileged supervision: the traces it imitates are written with the true intervals of training series at hand. On held-out series the policy has ${input} and the task prompt, nothing else.`,
          'Intervals are answered in rounded steps, so that point F1 stays below 1 even where nothing was overlooked.',
        ]
      : [
          `The traces that it imitates are written with the true answers of training series at hand. On held-out series the policy has ${input} and the task prompt, nothing else.`,
        ]),
  ];
}

const METRICS: Readonly<Record<Gold['kind'], readonly string[]>> = {
  anomaly: [
    'A normal series without predicted intervals counts as point F1 1: read the rows of the anomalous series beside the overall ones.',
    'The reward is what reinforcement maximises; F1 and class accuracy are parts of it. An independent measure of the reasoning text is not among these numbers.',
  ],
  classification: [
    'Where classes are not equally frequent, accuracy flatters whoever names the frequent ones: read balanced accuracy, macro F1 and the classifier `majority` beside it.',
    'Resamples that lack a rare class average over the others: where a class has few held-out series, the intervals of balanced accuracy and macro F1 are wide.',
    'The reward is what reinforcement maximises, and class accuracy is nine tenths of it. An independent measure of the reasoning text is not among these numbers.',
  ],
  variates: [
    'The reward is what reinforcement maximises, and F1 of the variates is nine tenths of it. An independent measure of the reasoning text is not among these numbers.',
  ],
};

const THRESHOLDS =
  'Thresholds of the classical detectors are fixed. Those of expcot-blind were set with these synthetic generators in view, which favours it here; detectors that cannot name what they find say the class that they are made for.';

function aboutDetectors(run: RunDirectory, { kind }: DataFacts, baselines: Baselines): string[] {
  const { best, validationSeries, learned } = baselines;
  const what = kind === 'classification' ? 'classifier' : 'detector';
  const several = Object.keys(baselines.records).length > 1;
  const choice = !several
    ? `There is one classical ${what} for such series, ${best}.`
    : validationSeries === 0
      ? `The data set has no validation split to choose a classical ${what} on; ${best} was taken without looking.`
      : `The best classical ${what} is the one with the highest mean reward on ${validationSeries} validation series; held-out series had no part in that choice.`;
  if (kind === 'classification') {
    const from =
      learned === undefined || learned.used === learned.examples
        ? 'all examples of the training split'
        : `${learned.used} of the ${learned.examples} examples of the training split, drawn at random`;
    return [choice, `Classical classifiers learned from ${from}; none was tuned.`];
  }
  if (kind === 'variates') return [choice, 'Its thresholds are fixed.'];
  if (isGenerator(run.recipe.data.name)) return [choice, THRESHOLDS];
  return [
    choice,
    `Thresholds of the classical detectors are fixed; those of expcot-blind were set with synthetic generators in view, which may favour it on generated series${several ? '. Detectors that cannot name what they find say the class that they are made for' : ''}.`,
  ];
}

/** True sentences about this run, the weightiest first. */
export function caveatsOf(run: RunDirectory, baselines: Baselines | null, data: CaveatData): string[] {
  const { recipe } = run;
  const { kind } = data.facts;
  const numbers = recipe.input === 'numbers';
  const early = (['sft', 'rl'] as const).filter((stage) => run.cost(stage)?.complete === false);
  return [
    ...early.map(
      (stage) =>
        `The ${stage === 'sft' ? 'supervised' : 'reinforcement'} stage was stopped before its end; its numbers are of the policy that it left.`,
    ),
    ...aboutData(run, data),
    ...(recipe.policy.init === 'nano' ? aboutNano(kind, numbers) : []),
    ...(numbers ? ['The policy was given the values as text and saw no picture.'] : []),
    ...METRICS[kind],
    ...(baselines === null ? [] : aboutDetectors(run, data.facts, baselines)),
    'Intervals are percentile bootstrap over series: they cover which series were drawn, not the seed of training. This is one run.',
  ];
}
