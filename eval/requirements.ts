/** What a run must reach, and whether it does. */
import { isGenerator } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { ReportFloor, ReportGain, ReportStage } from './report-input.ts';
import type { Summary } from './summary.ts';

export type Requirement = NonNullable<Summary['requirements']>[number];

/** After the supervised stage, means over the held-out series of nano5. */
export const SFT_FLOORS: readonly ReportFloor[] = [
  { stage: 'sft', metric: 'format', atLeast: 0.98 },
  { stage: 'sft', metric: 'class_accuracy', atLeast: 0.95 },
  { stage: 'sft', metric: 'point_f1', atLeast: 0.75 },
  { stage: 'sft', metric: 'affiliation_f1', atLeast: 0.93 },
];

/** Reinforcement must raise the sampled reward, and may cost at most this much of the greedy one. */
export const SAMPLED_GAIN_ABOVE = 0;
export const GREEDY_GAIN_ABOVE = -0.02;

/** Fewer series than this say too little about a mean to hold a run to it. */
export const FEWEST_SERIES = 100;

/** Requirements are set for nano5 as it is; runs on other data, or on a handful of series, have none. */
export function isHeldTo({ data, eval: evaluation }: Recipe): boolean {
  return data.name === 'nano5' && data.length === 1000 && evaluation.series >= FEWEST_SERIES;
}

/** Whether the last policy of a run answers the AnomLLM tasks too: one that learned from generated anomalies. */
export function hasTransfer({ data, eval: evaluation }: Recipe): boolean {
  return isGenerator(data.name) && evaluation.transfer > 0;
}

/** Each requirement with its measured value, in the order of the report. */
export function requirementsOf(
  stages: readonly ReportStage[],
  floors: readonly ReportFloor[],
  gains: readonly (ReportGain & { readonly key: string })[],
): Requirement[] {
  return [
    ...floors.flatMap(({ stage, metric, atLeast }): Requirement[] => {
      const measured = stages.find(({ key }) => key === stage)?.metrics.overall[metric]?.mean;
      return measured === undefined
        ? []
        : [{ name: `${stage}.${metric}`, at_least: atLeast, measured, met: measured >= atLeast }];
    }),
    ...gains.flatMap(({ key, estimate, lowerAbove }): Requirement[] => {
      const measured = estimate.ci95[0];
      return lowerAbove === null
        ? []
        : [{ name: `rl.gain.${key}`, at_least: lowerAbove, measured, met: measured > lowerAbove }];
    }),
  ];
}
