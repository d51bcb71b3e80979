/** Metrics as tables for a terminal. */
import type { Estimate, Gold } from '../src/types.ts';
import type { MetricName, MetricSet, Metrics } from './metrics.ts';
import type { Summary, SummaryMetrics } from './summary.ts';

type Column = readonly [metric: MetricName, label: string];
type Row = readonly [label: string, set: MetricSet];

const COLUMNS: Readonly<Record<Gold['kind'], readonly Column[]>> = {
  anomaly: [
    ['format', 'format'],
    ['class_accuracy', 'class'],
    ['point_f1', 'point F1'],
    ['affiliation_f1', 'affil. F1'],
    ['reward', 'reward'],
  ],
  classification: [
    ['format', 'format'],
    ['class_accuracy', 'accuracy'],
    ['balanced_accuracy', 'balanced acc.'],
    ['macro_f1', 'macro F1'],
    ['reward', 'reward'],
  ],
  variates: [
    ['format', 'format'],
    ['variate_precision', 'precision'],
    ['variate_recall', 'recall'],
    ['variate_f1', 'F1'],
    ['variate_exact', 'exact set'],
    ['reward', 'reward'],
  ],
};

/** Of the classes of a classification, which have a precision instead of an average over classes. */
const CLASS_COLUMNS: readonly Column[] = [
  ['format', 'format'],
  ['class_recall', 'recall'],
  ['class_precision', 'precision'],
  ['class_f1', 'F1'],
  ['reward', 'reward'],
];

const CELL = 23;
const NOTE = 'means over series with bootstrap 95 % intervals; an unparsable answer counts as 0\n';

function cell(estimate: Estimate | undefined): string {
  if (estimate === undefined) return '–'.padEnd(CELL);
  const { mean, ci95 } = estimate;
  return `${mean.toFixed(3)} [${ci95[0].toFixed(3)}, ${ci95[1].toFixed(3)}]`.padEnd(CELL);
}

function block(rows: readonly Row[], columns: readonly Column[], width: number): string {
  const shown = columns.filter(([metric]) => rows.some(([, set]) => set[metric] !== undefined));
  const head = `${''.padEnd(width)}${shown.map(([, label]) => label.padEnd(CELL)).join('')}n\n`;
  const lines = rows.map(
    ([name, set]) =>
      `${name.padEnd(width)}${shown.map(([metric]) => cell(set[metric])).join('')}${set.reward.n}\n`,
  );
  return `${head}${lines.join('')}`;
}

/**
 * The metrics of a policy with its classes and tasks, and of classical detectors on the same series (by name), with
 * intervals; ends with a line end.
 */
export function metricsTable(metrics: Metrics, baselines: Readonly<Record<string, MetricSet>>): string {
  const { kind, overall, anomalous, byClass, byTask } = metrics;
  const tasks = Object.keys(byTask).length > 1 ? Object.entries(byTask) : [];
  const indented = (entries: readonly Row[]): Row[] => entries.map(([name, set]) => [`  ${name}`, set]);
  const classes = indented(Object.entries(byClass));
  const apart = kind === 'classification';
  const rows: Row[] = [
    ['all series', overall],
    ...(anomalous === null ? [] : [['anomalous alone', anomalous] as const]),
    ...(apart ? [] : classes),
    ...indented(tasks),
    ...Object.entries(baselines).map(([name, set]): Row => [`classical: ${name}`, set]),
  ];
  const width = Math.max(...[...rows, ...classes].map(([name]) => name.length)) + 2;
  const main = block(rows, COLUMNS[kind], width);
  return `${main}${apart ? `\n${block(classes, CLASS_COLUMNS, width)}` : ''}${NOTE}`;
}

const RESULTS = [
  ['format', 'format'],
  ['class', 'class_accuracy'],
  ['balanced', 'balanced_accuracy'],
  ['macro F1', 'macro_f1'],
  ['point F1', 'point_f1'],
  ['anomalous', 'point_f1_anomalous'],
  ['affil. F1', 'affiliation_f1'],
  ['F1', 'variate_f1'],
  ['exact set', 'variate_exact'],
  ['greedy', 'reward_greedy'],
  ['sampled', 'reward_sampled'],
] as const satisfies readonly (readonly [string, keyof SummaryMetrics])[];

const LABEL = 21;
const WIDTH = 10;

/** The results of a run as lines of a table: its policies and the best classical detector, by the metrics of its kind. */
export function summaryTable(summary: Summary): string[] {
  const all: [string, SummaryMetrics | null | undefined][] = [
    ['before training', summary.sft?.metrics_before],
    ['after SFT', summary.sft?.metrics ?? summary.rl?.metrics_before],
    ['after reinforcement', summary.rl?.metrics_after],
    [summary.classical?.detector ?? '', summary.classical?.metrics],
  ];
  const rows = all.flatMap(([name, metrics]) =>
    metrics === null || metrics === undefined ? [] : [[name, metrics] as const],
  );
  const shown = RESULTS.filter(([, key]) => rows.some(([, metrics]) => metrics[key] !== undefined));
  const head = `${''.padEnd(LABEL)}${shown.map(([name]) => name.padStart(WIDTH)).join('')}`;
  const lines = rows.map(
    ([name, metrics]) =>
      `${name.padEnd(LABEL)}${shown.map(([, key]) => (metrics[key]?.mean.toFixed(3) ?? '–').padStart(WIDTH)).join('')}`,
  );
  return [head, ...lines];
}
