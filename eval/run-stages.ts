/** The stages of a run as columns of its results, and what changed between them. */
import type { EvalRecord, Example } from '../src/types.ts';
import type { Baselines } from './baselines.ts';
import type { BootstrapOptions } from './bootstrap.ts';
import { type MetricOptions, metricOf, metricsOf, pairedGain } from './metrics.ts';
import { checkCoverage, reread } from './records.ts';
import type { ReportGain, ReportStage } from './report-input.ts';
import { GREEDY_GAIN_ABOVE, SAMPLED_GAIN_ABOVE } from './requirements.ts';
import { type Answers, POLICIES, type PolicyName, type RunDirectory } from './run-directory.ts';

/** A paired change with its key in summaries. */
export type Gain = ReportGain & { readonly key: 'reward_sampled' | 'reward_greedy' };
export type AnswersByPolicy = Readonly<Partial<Record<PolicyName, Answers>>>;

/** Head of a policy's column. */
export function policyLabel(policy: PolicyName, method: string): string {
  return { initial: 'Before training', sft: 'After SFT', rl: `After ${method}` }[policy];
}

/**
 * Answers of every policy that was evaluated, as the run reads responses; `classes`: of a classification.
 * @throws DataError when some do not cover the held-out series
 */
export function readAnswers(
  run: RunDirectory,
  series: readonly Example[],
  classes: readonly string[],
): AnswersByPolicy {
  const channels = new Map(series.map((one) => [one.id, one.channels.length]));
  const read = (records: readonly EvalRecord[]): EvalRecord[] =>
    reread(records, ({ seriesId, gold, length }) => ({
      ...{ kind: gold.kind, length, classes, reading: run.recipe.answers },
      channels: channels.get(seriesId)!,
    }));
  const found: Partial<Record<PolicyName, Answers>> = {};
  for (const policy of POLICIES) {
    const answers = run.answers(policy);
    if (answers === null) continue;
    checkCoverage(run.answersFile(policy, 'greedy'), answers.greedy, series, 1);
    if (answers.sampled !== null) {
      checkCoverage(run.answersFile(policy, 'sampled'), answers.sampled, series);
    }
    found[policy] = {
      greedy: read(answers.greedy),
      sampled: answers.sampled === null ? null : read(answers.sampled),
    };
  }
  return found;
}

/** Columns of the results, in order: policies as they came about, then the best classical detector. */
export function stagesOf(
  answers: AnswersByPolicy,
  baselines: Baselines | null,
  method: string,
  options: MetricOptions,
): ReportStage[] {
  const policies = POLICIES.flatMap((policy): ReportStage[] => {
    const found = answers[policy];
    if (found === undefined) return [];
    return [
      {
        key: policy,
        label: policyLabel(policy, method),
        kind: 'policy',
        metrics: metricsOf(found.greedy, options),
        rewardSampled: found.sampled === null ? null : metricOf(found.sampled, 'reward', options),
      },
    ];
  });
  if (baselines === null) return policies;
  const metrics = metricsOf(baselines.records[baselines.best]!, options);
  return [
    ...policies,
    {
      key: 'classical',
      // A hyphen that does not break keeps the name in one piece in the head of a column.
      label: `Classical: ${baselines.best.replaceAll('-', '\u2011')}`,
      kind: 'detector',
      metrics,
      rewardSampled: null,
    },
  ];
}

/**
 * Paired changes between the policy that reinforcement started from and the one it made; `held`: they are required to
 * reach something; `temperature`: of the sampled answers.
 */
export function gainsOf(
  answers: AnswersByPolicy,
  held: boolean,
  temperature: number,
  options: BootstrapOptions,
): Gain[] {
  const before = answers.sft ?? answers.initial;
  const after = answers.rl;
  if (before === undefined || after === undefined) return [];
  const sampled: Gain[] =
    before.sampled === null || after.sampled === null
      ? []
      : [
          {
            key: 'reward_sampled',
            label: `Reward sampled at temperature ${temperature}`,
            estimate: pairedGain(before.sampled, after.sampled, 'reward', options),
            lowerAbove: held ? SAMPLED_GAIN_ABOVE : null,
          },
        ];
  return [
    ...sampled,
    {
      key: 'reward_greedy',
      label: 'Greedy reward',
      estimate: pairedGain(before.greedy, after.greedy, 'reward', options),
      lowerAbove: held ? GREEDY_GAIN_ABOVE : null,
    },
  ];
}
