/** What a reader must know before believing the numbers of a run. */

import { isGenerator } from '../datasets/partition.ts';
import type { Baselines } from './baselines.ts';
import type { RunDirectory } from './run-directory.ts';

/** True sentences about this run, the weightiest first. */
export function caveatsOf(run: RunDirectory, baselines: Baselines | null): string[] {
  const { recipe } = run;
  const nano = recipe.policy.init === 'nano';
  const early = (['sft', 'rl'] as const).filter((stage) => run.cost(stage)?.complete === false);
  return [
    ...early.map(
      (stage) =>
        `The ${stage === 'sft' ? 'supervised' : 'reinforcement'} stage was stopped before its end; its numbers are of the policy that it left.`,
    ),
    ...(isGenerator(recipe.data.name)
      ? [
          'The series are synthetic and clean, and training and held-out series come from the same generator: the numbers say what the policy learned of it, not how it would read recordings.',
        ]
      : [
          'Training and held-out series are parts of one data set on disk: its last series were kept back. If neighbouring series resemble each other, the numbers flatter the policy.',
        ]),
    ...(nano
      ? [
          'The policy is very small and started from random weights. It shows that the method runs and teaches; its numbers are not comparable with published ones of billions of parameters on other data.',
          'The scan in the reasoning is privileged supervision: the traces it imitates are written with the true intervals of training series at hand. On held-out series the policy has the picture and the task prompt, nothing else.',
          'Intervals are answered in rounded steps, so that point F1 stays below 1 even where nothing was overlooked.',
        ]
      : []),
    'A normal series without predicted intervals counts as point F1 1: read the rows of the anomalous series beside the overall ones.',
    'The reward is what reinforcement maximises; F1 and class accuracy are parts of it. An independent measure of the reasoning text is not among these numbers.',
    ...(baselines === null
      ? []
      : [
          baselines.validationSeries === 0
            ? `The data set has no validation split to choose a classical detector on; ${baselines.best} was taken without looking.`
            : `The best classical detector is the one with the highest mean reward on ${baselines.validationSeries} validation series; held-out series had no part in that choice.`,
          'Thresholds of the classical detectors are fixed. Those of expcot-blind were set with these synthetic generators in view, which favours it here; detectors that cannot name what they find say the class that they are made for.',
        ]),
    'Intervals are percentile bootstrap over series: they cover which series were drawn, not the seed of training. This is one run.',
  ];
}
