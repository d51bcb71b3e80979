/** Metrics as tables for a terminal. */

import type { Estimate } from '../src/ground/types.ts';
import type { MetricSet } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Metrics } from './metrics.ts';

type Column = readonly [metric: string, label: string];
type Row = readonly [label: string, set: MetricSet | Pooled];

const CELL = 23;
/** Of columns that tell a mean alone. */
const NARROW = 10;
const WITHOUT_INTERVAL: ReadonlySet<string> = new Set(['success_rate']);
const NOTE = 'means over series with bootstrap 95 % intervals; an unparsable answer counts as 0\n';

/** Groups of fewer series than these say little by themselves: several of them share a row. */
const FEW = 5;

/** A mean alone, where its interval is not known. */
type Mean = Pick<Estimate, 'mean' | 'n'>;

const widthOf = (metric: string): number => (WITHOUT_INTERVAL.has(metric) ? NARROW : CELL);

function cell(metric: string, estimate: Estimate | Mean | undefined): string {
  if (estimate === undefined) return '–'.padEnd(widthOf(metric));
  const { mean } = estimate;
  if (!('ci95' in estimate) || WITHOUT_INTERVAL.has(metric)) return mean.toFixed(3).padEnd(widthOf(metric));
  const { ci95 } = estimate;
  return `${mean.toFixed(3)} [${ci95[0].toFixed(3)}, ${ci95[1].toFixed(3)}]`.padEnd(CELL);
}

/** Means of several groups together. */
type Pooled = Readonly<Partial<Record<string, Mean>>> & { readonly reward: Mean };

/** No means over series, so that those of groups do not add up. */
const OF_SETS: readonly string[] = ['balanced_accuracy', 'macro_f1', 'weighted_f1'];

/** Means over the series of all sets, at least one; a metric that none of them has is left out. */
function pooled(sets: readonly MetricSet[]): Pooled {
  const names = [...new Set(sets.flatMap((set) => Object.keys(set) as string[]))];
  const mean = (name: string): Mean => {
    const found = sets.flatMap((set) => set[name] ?? []);
    const n = found.reduce((sum, one) => sum + one.n, 0);
    return { mean: found.reduce((sum, one) => sum + one.mean * (one.n / n), 0), n };
  };
  const means = names.filter((name) => !OF_SETS.includes(name)).map((name) => [name, mean(name)] as const);
  return { ...Object.fromEntries(means), reward: mean('reward') };
}

/** Rows of tasks in their order; two and more of few series become one at the end. */
function taskRows(byTask: Metrics['byTask']): Row[] {
  const tasks = Object.entries(byTask);
  if (tasks.length < 2) return [];
  const small = tasks.filter(([, set]) => set.reward.n < FEW);
  if (small.length < 2) return tasks;
  const others: Row = [`others (${small.length} of fewer than ${FEW})`, pooled(small.map(([, set]) => set))];
  return [...tasks.filter(([, set]) => set.reward.n >= FEW), others];
}

function block(rows: readonly Row[], columns: readonly Column[], width: number): string {
  const shown = columns.filter(([metric]) => rows.some(([, set]) => set[metric] !== undefined));
  const head = `${''.padEnd(width)}${shown.map(([metric, label]) => label.padEnd(widthOf(metric))).join('')}n\n`;
  const lines = rows.map(
    ([name, set]) =>
      `${name.padEnd(width)}${shown.map(([metric]) => cell(metric, set[metric])).join('')}${set.reward.n}\n`,
  );
  return `${head}${lines.join('')}`;
}

/**
 * The metrics of a policy with its classes and tasks, and of classical detectors on the same series (by name), with
 * intervals; tasks of few series are told together. Ends with a line end.
 */
export function metricsTable(metrics: Metrics, baselines: Readonly<Record<string, MetricSet>>): string {
  const { kind, overall, anomalous, byClass, byTask } = metrics;
  const indented = (entries: readonly Row[]): Row[] => entries.map(([name, set]) => [`  ${name}`, set]);
  const classes = indented(Object.entries(byClass));
  const { columns, classColumns } = taskKind(kind).evaluation;
  const rows: Row[] = [
    ['all series', overall],
    ...(anomalous === null ? [] : [['anomalous alone', anomalous] as const]),
    ...(classColumns === null ? classes : []),
    ...indented(taskRows(byTask)),
    ...Object.entries(baselines).map(([name, set]): Row => [`classical: ${name}`, set]),
  ];
  const width = Math.max(...[...rows, ...classes].map(([name]) => name.length)) + 2;
  const main = block(rows, columns, width);
  return `${main}${classColumns === null ? '' : `\n${block(classes, classColumns, width)}`}${NOTE}`;
}

/** Rewards that were asked for beside the task's own, a line each; empty without one. */
export function rewardsTable({ rewards }: Pick<Metrics, 'rewards'>): string {
  const names = Object.keys(rewards);
  const width = Math.max(0, ...names.map((name) => name.length)) + 'reward '.length + 2;
  return names
    .map((name) => `${`reward ${name}`.padEnd(width)}${cell(name, rewards[name])}n = ${rewards[name]!.n}\n`)
    .join('');
}

/** Metrics of one policy on the same series at several temperatures, 0 being greedy. Ends with a line end. */
export function temperatureTable(
  sets: readonly (readonly [temperature: number, metrics: Metrics])[],
): string {
  const rows = sets.map(([temperature, { overall }]): Row => {
    const name = temperature === 0 ? 'greedy' : `temperature ${temperature}`;
    return [name, overall];
  });
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  return `${block(rows, taskKind(sets[0]![1].kind).evaluation.columns, width)}${NOTE}`;
}
