/**
 * The glossary: every name under which a run writes a number, with its meaning and its name in TRL and TensorBoard. Those of training
 * stand in `src/train/glossary.ts`, those of answers with their kind (`src/tasks`); here are those of `summary.json`.
 */
import { KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import {
  COMPLETION_NAMES,
  type LoggedName,
  RL_NAMES,
  SFT_NAMES,
  VALIDATION_NAMES,
} from '../src/train/glossary.ts';
import type { RunSummary, SummaryMetrics } from './summary.ts';

/** Definitions of the metrics of all kinds of answers; where two kinds have one of the same name, both. */
function answerMetrics(): Record<string, LoggedName> {
  const found = new Map<string, Set<string>>();
  for (const kind of KIND_NAMES) {
    const { metrics, details, groupMetrics } = taskKind(kind).evaluation;
    for (const [name, { definition }] of Object.entries({ ...groupMetrics, ...metrics, ...details })) {
      const told = name === 'reward' ? `${definition.replace(/\.$/, '')} (${kind}).` : definition;
      found.set(name, (found.get(name) ?? new Set()).add(told));
    }
  }
  return Object.fromEntries([...found].map(([name, told]) => [name, { definition: [...told].join(' ') }]));
}

/** What `summary.json` has beside the metrics of answers. */
const OWN_METRICS: Readonly<Partial<Record<keyof SummaryMetrics, LoggedName>>> = {
  reward_greedy: { definition: 'Mean reward of greedy answers.' },
  reward_sampled: { definition: 'Mean over series of the mean reward of their sampled answers.' },
  point_f1_anomalous: { definition: 'point_f1 over the series with an anomaly alone.' },
  affiliation_f1_anomalous: { definition: 'affiliation_f1 over the series with an anomaly alone.' },
  per_class: { definition: 'The same metrics by gold class.' },
  per_task: { definition: 'The same metrics by task.' },
};

const SUMMARY_NAMES: Readonly<Record<keyof RunSummary, LoggedName>> = {
  install_s: { definition: 'Seconds of set-up; null where it was no part of the run.' },
  sft: {
    definition:
      'Seconds, samples and metrics of the supervised stage: metrics_before training, metrics after it.',
  },
  rl: {
    definition:
      'Seconds, steps and metrics of reinforcement; gain: paired change over the same series, after − before.',
  },
  classical: { definition: 'The best classical detector on the same series.' },
  transfer: { definition: 'Greedy answers of the last policy to tasks that it was not trained for.' },
  sampled: { definition: 'Temperature of every reward_sampled, and answers per series.' },
  requirements: { definition: 'What the run is required to reach, and whether it does.' },
  environment: { definition: 'Machine, versions, calibration.' },
};

export interface GlossarySection {
  readonly title: string;
  readonly names: Readonly<Record<string, LoggedName>>;
}

/** All names, by the file in which they stand. */
export function glossary(): GlossarySection[] {
  return [
    { title: 'sft/metrics.jsonl, one line an update', names: SFT_NAMES },
    { title: 'rl/metrics.jsonl, one line a step', names: RL_NAMES },
    {
      title: 'sft/validation.jsonl and rl/validation.jsonl, one line an evaluation',
      names: VALIDATION_NAMES,
    },
    { title: 'rl/completions.jsonl, one line a response', names: COMPLETION_NAMES },
    {
      title:
        'Metrics of answers, means over series with bootstrap 95 % intervals (summary.json, report, eval)',
      names: { ...answerMetrics(), ...OWN_METRICS },
    },
    { title: 'summary.json', names: SUMMARY_NAMES },
  ];
}
