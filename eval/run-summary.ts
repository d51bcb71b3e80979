/** The summary of a run, from what its report shows. */
import type { Baselines } from './baselines.ts';
import type { Metrics } from './metrics.ts';
import type { ReportInput, ReportStage } from './report-input.ts';
import { requirementsOf } from './requirements.ts';
import type { RunDirectory } from './run-directory.ts';
import { recorded } from './run-facts.ts';
import type { Gain } from './run-stages.ts';
import { type Summary, summaryOf } from './summary.ts';

/** `transfer`: metrics of the last policy on further tasks. */
export function summarise(
  run: RunDirectory,
  stages: readonly ReportStage[],
  gains: readonly Gain[],
  floors: ReportInput['floors'],
  transfer: Metrics | null,
  baselines: Baselines | null,
): Summary {
  const metricsBy = (key: string) => {
    const stage = stages.find((one) => one.key === key);
    return stage === undefined ? null : summaryOf(stage.metrics, stage.rewardSampled);
  };
  const [initial, afterSft, afterRl] = [metricsBy('initial'), metricsBy('sft'), metricsBy('rl')];
  const classical = stages.find((one) => one.key === 'classical');
  const [sft, rl, environment] = [run.cost('sft'), run.cost('rl'), run.environment];
  const gain = Object.fromEntries(gains.map(({ key, estimate }) => [key, estimate]));
  const { reward_greedy, reward_sampled } = gain;
  return {
    install_s: recorded(environment, 'install_s'),
    sft:
      sft === null || afterSft === null
        ? null
        : {
            seconds: sft.seconds,
            samples: sft.samples,
            metrics: afterSft,
            ...(initial === null ? {} : { metrics_before: initial }),
          },
    rl:
      rl === null || afterRl === null
        ? null
        : {
            seconds: rl.seconds,
            steps: rl.steps,
            metrics_before: afterSft ?? initial,
            metrics_after: afterRl,
            ...(reward_greedy === undefined
              ? {}
              : { gain: { reward_greedy, ...(reward_sampled === undefined ? {} : { reward_sampled }) } }),
          },
    classical:
      classical === undefined || baselines === null
        ? null
        : {
            detector: baselines.best,
            metrics: summaryOf(classical.metrics, classical.metrics.overall.reward),
          },
    ...(transfer === null ? {} : { transfer: summaryOf(transfer, null) }),
    sampled: { temperature: run.recipe.eval.temperature, samples: run.recipe.eval.samples },
    requirements: requirementsOf(stages, floors, gains),
    environment,
  };
}
