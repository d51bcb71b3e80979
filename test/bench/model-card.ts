/** Model card of a policy that ships with timeseer, in the form of the Hugging Face hub: figures are read from files, none is written by hand. */

import { change, fixed, grouped, interval } from '../../src/ground/numbers.ts';
import type { Estimate } from '../../src/ground/types.ts';
import type { PolicyCard } from '../../src/tasks/card.ts';
import type { MetricSet } from '../../src/tasks/evaluation.ts';

/** One stage of training, the first one first. */
export interface TrainedStage {
  readonly stage: string;
  readonly seed: number;
  readonly data: string;
  /** Number of series trained on, or of reinforcement steps. */
  readonly work: string;
  readonly seconds: number;
}

/** Part of the output of `test/bench/policy.ts --json` that the card shows. */
export interface Measured {
  readonly half: string;
  readonly groups: readonly {
    readonly group: string;
    /** Number of series by where they are from; not in older files. */
    readonly sources?: Readonly<Record<string, number>>;
    readonly series: number;
    readonly clean: number;
    readonly anomalies: number;
    readonly recall: number;
    /** Confidences of the ranking of policy and detector; not in older files. */
    readonly confidence?: {
      readonly intervals: number;
      readonly right: number;
      readonly auc: number;
      readonly error: number;
    };
    readonly rows: readonly {
      readonly contender: string;
      readonly f1: number;
      readonly f1AtOwn: number;
      /** Null where JSON has no number: the recall is never reached. */
      readonly falsePerThousand: number | null;
      /** The policy less this contender, paired over series; null for the policy, absent where it was not kept. */
      readonly less?: { readonly f1: Estimate; readonly falsePerThousand: Estimate | null } | null;
    }[];
  }[];
}

export interface ModelCardFacts {
  readonly name: string;
  readonly card: PolicyCard;
  readonly parameters: number;
  /** Size of all files. */
  readonly bytes: number;
  /** Held-out intervals to which the confidences are fitted, and how many of them are right. */
  readonly fitted: { readonly data: string; readonly intervals: number; readonly right: number } | null;
  readonly stages: readonly TrainedStage[];
  /** One per length of the series. */
  readonly evaluations: readonly {
    readonly command: string;
    readonly series: number;
    readonly length: number;
    readonly overall: MetricSet;
    /** Contenders by name. */
    readonly others: Readonly<Record<string, MetricSet>>;
  }[];
  readonly measured: Measured | null;
  /** Sentences on the training that its records do not hold, such as the machine. */
  readonly note: string | null;
}

const METRICS = [
  ['affiliation_f1', 'affiliation F1'],
  ['point_f1', 'point F1'],
  ['class_accuracy', 'class accuracy'],
  ['claim_f1', 'claim F1'],
  ['reasoning_agreement', 'agreement'],
  ['format', 'well formed'],
] as const;

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

function evaluated(
  { name }: ModelCardFacts,
  { command, series, length, overall, others: contenders }: ModelCardFacts['evaluations'][number],
): string {
  const shown = METRICS.filter(([metric]) => overall[metric] !== undefined);
  const cells = (metrics: MetricSet): string[] =>
    shown.map(([metric]) => {
      const found = metrics[metric];
      return found === undefined ? '–' : `${fixed(found.mean)} ${interval(found)}`;
    });
  const others = Object.entries(contenders).map(([contender, metrics]) => [contender, ...cells(metrics)]);
  return `On ${grouped(series)} test series of the generator, of ${grouped(length)} points; means with bootstrap 95 % intervals:

${table(['', ...shown.map(([, label]) => label)], [[name, ...cells(overall)], ...others])}

    ${command}`;
}

const GROUPS: Readonly<Record<string, string>> = {
  nab: 'Recordings of NAB',
  injected: 'Recordings with made anomalies',
  shapes: 'Made series of many shapes',
  wild: 'Series of the generator, ten times as long',
};

/** Readings before the figures that a card shows, by the policy's name. */
const READINGS: Readonly<Record<string, string>> = {
  small: `The half for reporting was read several times with weights that shipped before (test/bench/NOTES.md); these weights were chosen on
validation series, and the figures below are their first reading.`,
};

/** "21 of NAB, 14 of household and 7 of EMG". */
function listed(sources: Readonly<Record<string, number>>): string {
  const parts = Object.entries(sources).map(([source, count]) => `${count} of ${source}`);
  return parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;
}

/** Sentences on the contenders that have the better figure. */
function ahead(rows: Measured['groups'][number]['rows']): string {
  const [policy, ...others] = rows;
  const better = others
    .filter(({ f1 }) => f1 > policy!.f1)
    .map(({ contender, f1 }) => `${contender} (${fixed(f1)})`);
  return better.length === 0
    ? 'Nothing here has a higher F1.'
    : `Higher F1 than the policy: ${better.join(', ')}.`;
}

function measuredGroups(name: string, { half, groups }: Measured): string {
  return groups
    .map(({ group, sources, series, clean, anomalies, recall, rows, confidence }) => {
      const number = (value: number | null): string => (value === null ? 'never' : fixed(value));
      const kept = rows.some(({ less }) => less != null);
      const from = sources === undefined ? '' : ` (${listed(sources)})`;
      return `**${GROUPS[group] ?? group}**: ${series} series${from} with ${anomalies} anomalies, ${clean} series without any (the half for ${half === 'choose' ? 'choosing' : 'reporting'}). Affiliation F1 with as
many alarms as there are anomalies, and with as many as the policy reports; false alarms per 1000 points at the policy's recall, ${fixed(recall)}${confidence === undefined ? '' : `; confidences of the ranking: area under\nthe curve ${fixed(confidence.auc)}, expected calibration error ${fixed(confidence.error)} (${grouped(confidence.intervals)} places, ${grouped(confidence.right)} right)`}${kept ? '; the policy less\nthe contender, paired over series, with 95 % intervals where they were kept' : ''}. ${ahead(rows)}

${table(
  ['', 'F1', 'F1 at its number', 'false alarms', ...(kept ? ['policy less it: F1', 'false alarms'] : [])],
  rows.map(({ contender, f1, f1AtOwn, falsePerThousand, less }) => [
    ...[contender.replaceAll('|', '\\|'), fixed(f1), fixed(f1AtOwn), number(falsePerThousand)],
    ...(kept ? [less?.f1, less?.falsePerThousand].map((pair) => (pair == null ? '–' : change(pair))) : []),
  ]),
)}

    npx tsx test/bench/policy.ts --policy ${name} --only ${group} --half ${half}`;
    })
    .join('\n\n');
}

/** Sentences on what the policy does, and on its name. */
function introduction({ name, card: { inspect } }: ModelCardFacts): string {
  const own = `\`${name}\` names this policy wherever a policy is asked or begun with: \`--policy ${name}\`, \`openPolicy('${name}')\`, \`policy.init: ${name}\`. The
recipe of its kind, \`--recipe ${name}\`, starts from`;
  const facts = `six facts of the series (pattern, cycle, trend, spread, middle,
roughness), the intervals that depart from it, what departs there and by how much, and a class.`;
  if (inspect === undefined)
    return `It sees the plot of a series and writes ${facts} \`npx timeseer explain FILE\` asks it unless told otherwise, beside the classical detector.

${own} random weights of the same sizes (\`policy.init: ${name}-random\`).`;
  return `It looks closer at long series: it sees the plot of the whole and writes ${facts} Then it may ask for the window that
stands out most, answers about that, and so on, in at most ${inspect.turns} responses. \`npx timeseer explain FILE --inspect\` asks it, and the page shows where it looked.

${own} the weights of \`small\`.`;
}

/** The text of README.md beside the policy. */
export function modelCard(facts: ModelCardFacts): string {
  const { name, card, parameters, bytes, fitted, stages, evaluations, measured, note } = facts;
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

A Qwen2.5-VL of ${millions} million parameters. ${introduction(facts)}

Weights as safetensors, matrices as float16, ${(bytes / 1e6).toFixed(1)} MB; the build makes ONNX graphs of them, in the layout of transformers.js. ${
    card.inspect === undefined
      ? `One series of
${card.length ?? 'any number of'} points at a time, as the figure \`${card.figure}\`; \`timeseer explain\` cuts longer recordings into windows of several scales.`
      : `Series
of any length, each plot as the figure \`${card.figure}\`.`
  }

## Training

From ${card.inspect === undefined ? 'random weights' : 'the weights of `small`'}, on generated series alone: no recording of anybody is in it.

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

    npx timeseer sft --recipe ${name} --out runs/${name}${stages.some(({ stage }) => stage === 'rl') ? `\n    npx timeseer train --out runs/${name}` : ''}${fitted === null ? '' : `\n    npx timeseer calibrate --policy runs/${name}`}${fitted?.data.includes(';') ? ' --data recordings/*.csv # npx tsx test/bench/policy.ts --recordings recordings' : ''}

${
  stages.length > 2
    ? `The commands train a policy by the same recipe; they do not reproduce the shipped weights, which came out of the ${stages.length} stages of
the table, each started from the one before, with settings chosen in between. Expect figures of this order, not these.`
    : `The shipped weights are those of the commands above, one run of one recipe. Another machine or library rounds differently: expect figures of this
order.`
}${note === null ? '' : ` ${note}`}
${fitted === null ? '' : `\n**Confidences** are the share of such places that are right, by what policy and detector tell of them. Fitted to ${fitted.data};\nof the policy's own ${grouped(fitted.intervals)} intervals in generated series ${grouped(fitted.right)} are right. Anomalies were put into the recordings; what those hold besides counts as wrong.\n`}
## Figures

${evaluations.map((evaluation) => evaluated(facts, evaluation)).join('\n\n')}
${measured === null ? '' : `\n${READINGS[name] === undefined ? '' : `${READINGS[name]}\n\n`}${measuredGroups(name, measured)}\n`}
## Limits

${card.limitations.map((text) => `- ${text}`).join('\n')}
- It sees one column at a time, and nothing that shows only in several columns together.
- Sizes are in standard deviations of the noise, on a ladder of 1, 2, 5; ${card.inspect === undefined ? 'short marks are moved' : '`explain` moves short marks, not those of the figures above,'} to the nearby sample that departs most.
${card.inspect === undefined ? `- It is not asked about a series of fewer than a fifth of ${card.length ?? 'its'} points.\n` : ''}- Its answers are parsed strictly, and change no finding of the detector.

## Licence

Apache-2.0, as timeseer itself.
`;
}
