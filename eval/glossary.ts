/**
 * Glossary: every name under which a run writes a number, with its meaning and its name in TRL and TensorBoard. Names of training are
 * in `src/train/glossary.ts`, those of answers with their kind (`src/tasks`); this file adds those of `summary.json`.
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
  const definitions = new Map<string, Set<string>>();
  for (const kind of KIND_NAMES) {
    const { metrics, details, groupMetrics } = taskKind(kind).evaluation;
    for (const [name, { definition }] of Object.entries({ ...groupMetrics, ...metrics, ...details })) {
      const text = name === 'reward' ? `${definition.replace(/\.$/, '')} (${kind}).` : definition;
      definitions.set(name, (definitions.get(name) ?? new Set()).add(text));
    }
  }
  return Object.fromEntries(
    [...definitions].map(([name, texts]) => [name, { definition: [...texts].join(' ') }]),
  );
}

/** Names of `summary.json` beside the metrics of answers. */
const OWN_METRICS: Readonly<Partial<Record<keyof SummaryMetrics, LoggedName>>> = {
  reward_greedy: { definition: 'Mean reward of greedy answers.' },
  reward_sampled: { definition: 'Mean over series of the mean reward of their sampled answers.' },
  point_f1_anomalous: { definition: 'point_f1 over the series with an anomaly alone.' },
  affiliation_f1_anomalous: { definition: 'affiliation_f1 over the series with an anomaly alone.' },
  per_class: { definition: 'Metrics by gold class.' },
  per_task: { definition: 'Metrics by task.' },
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
  requirements: {
    definition:
      'Requirements of the run, each with its measured value and whether it is met; both are null, and not_checked says why, with too few series.',
  },
  environment: { definition: 'Machine, versions, calibration.' },
};

interface GlossarySection {
  readonly title: string;
  readonly names: Readonly<Record<string, LoggedName>>;
}

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
