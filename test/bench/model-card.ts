/** The model card of a policy that comes with timeseer, in the form of the Hugging Face hub: figures are read, none is written by hand. */
import { fixed, grouped, interval } from '../../src/ground/numbers.ts';
import type { PolicyCard } from '../../src/tasks/card.ts';
import type { MetricSet } from '../../src/tasks/evaluation.ts';

/** One stage of training, the first one first. */
export interface TrainedStage {
  readonly stage: string;
  readonly seed: number;
  readonly data: string;
  /** Series gone through, or steps of reinforcement. */
  readonly work: string;
  readonly seconds: number;
}

/** What test/bench/policy.ts writes with --json, as far as it is told here. */
export interface Measured {
  readonly half: string;
  readonly groups: readonly {
    readonly group: string;
    readonly series: number;
    readonly clean: number;
    readonly anomalies: number;
    readonly recall: number;
    readonly rows: readonly {
      readonly contender: string;
      readonly f1: number;
      readonly f1AtOwn: number;
      /** Null where JSON has no number: the recall is never reached. */
      readonly falsePerThousand: number | null;
    }[];
  }[];
}

export interface ModelCardFacts {
  readonly name: string;
  readonly dtype: string;
  readonly card: PolicyCard;
  readonly parameters: number;
  /** Of all files. */
  readonly bytes: number;
  readonly stages: readonly TrainedStage[];
  readonly evaluation: {
    readonly command: string;
    readonly series: number;
    readonly overall: MetricSet;
    readonly classical: Readonly<Record<string, MetricSet>>;
  };
  readonly measured: Measured | null;
}

const METRICS = [
  ['affiliation_f1', 'affiliation F1'],
  ['point_f1', 'point F1'],
  ['class_accuracy', 'class accuracy'],
  ['format', 'well formed'],
] as const;

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

function evaluated(
  name: string,
  { command, series, overall, classical }: ModelCardFacts['evaluation'],
): string {
  const shown = METRICS.filter(([metric]) => overall[metric] !== undefined);
  const cells = (metrics: MetricSet): string[] =>
    shown.map(([metric]) => {
      const found = metrics[metric];
      return found === undefined ? '–' : `${fixed(found.mean)} ${interval(found)}`;
    });
  const others = Object.entries(classical).map(([detector, metrics]) => [detector, ...cells(metrics)]);
  return `On ${grouped(series)} test series of the generator, of the length that it was taught; means with bootstrap 95 % intervals:

${table(['', ...shown.map(([, label]) => label)], [[name, ...cells(overall)], ...others])}

    ${command}`;
}

const GROUPS: Readonly<Record<string, string>> = {
  nab: 'Recordings of NAB',
  injected: 'Recordings of NAB with made anomalies',
  shapes: 'Made series of many shapes',
  wild: 'Series of the generator, ten times as long',
};

function measuredGroups(name: string, { half, groups }: Measured): string {
  return groups
    .map(({ group, series, clean, anomalies, recall, rows }) => {
      const number = (value: number | null): string => (value === null ? 'never' : fixed(value));
      return `**${GROUPS[group] ?? group}**: ${series} with ${anomalies} anomalies, ${clean} without any (the half for ${half === 'choose' ? 'choosing' : 'reporting'}). Affiliation F1 with as
many alarms as there are anomalies, and as many as the policy reports; false alarms per 1000 points at the policy's recall, ${fixed(recall)}:

${table(
  ['', 'F1', 'F1 at its number', 'false alarms'],
  rows.map((one) => [
    one.contender.replaceAll('|', '\\|'),
    fixed(one.f1),
    fixed(one.f1AtOwn),
    number(one.falsePerThousand),
  ]),
)}

    npx tsx test/bench/policy.ts --policy ${name} --only ${group} --half ${half}`;
    })
    .join('\n\n');
}

/** The text of README.md beside the policy. */
export function modelCard(facts: ModelCardFacts): string {
  const { name, dtype, card, parameters, bytes, stages, evaluation, measured } = facts;
  const millions = (parameters / 1e6).toFixed(1);
  return `---
license: apache-2.0
library_name: transformers.js
pipeline_tag: image-text-to-text
tags:
  - time-series
  - anomaly-detection
  - onnx
  - qwen2_5_vl
---

# timeseer ${name}

A Qwen2.5-VL of ${millions} million parameters that looks at the plot of a series and writes what the series is, where it departs from that, what
departs and by how much, and a class. \`npx timeseer explain FILE\` asks it unless told otherwise, beside the classical detector.

ONNX in the layout of transformers.js, matrices as ${dtype}, ${(bytes / 1e6).toFixed(1)} MB; one series of ${card.length ?? 'any number of'} points at a time, as the figure
\`${card.figure}\`. \`timeseer explain\` cuts longer recordings into windows of several scales.

## Training

From random weights, on series of a generator alone: no recording of anybody is in it.

${table(
  ['stage', 'data', 'seed', 'amount', 'seconds'],
  stages.map(({ stage, data, seed, work, seconds }) => [
    stage,
    data,
    String(seed),
    work,
    grouped(Math.round(seconds)),
  ]),
)}

    npx timeseer sft --recipe ${name} --out runs/${name}
    npx timeseer train --out runs/${name}
    npx timeseer calibrate --policy runs/${name}

## Figures

${evaluated(name, evaluation)}
${measured === null ? '' : `\n${measuredGroups(name, measured)}\n`}
## Limits

${card.limitations.map((text) => `- ${text}`).join('\n')}
- One column at a time: what several columns tell together it does not see.
- Sizes are in standard deviations of what cannot be foretold, to one digit; short marks are moved to the sample that departs most beside them.
- A series of fewer than a fifth of ${card.length ?? 'its'} points is not asked about.
- Answers are text of a small model: they are parsed strictly, and change no finding of the detector.

## Licence

Apache-2.0, as timeseer itself.
`;
}
