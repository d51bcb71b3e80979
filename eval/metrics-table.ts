/** Metrics as tables for a terminal. */
import { fixed, sum } from '../src/ground/numbers.ts';
import { columns as aligned } from '../src/ground/terminal.ts';
import type { Estimate } from '../src/ground/types.ts';
import { type MetricSet, withInterval } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { type Metrics, SET_METRICS } from './metrics.ts';

type Column = readonly [metric: string, label: string];
type Row = readonly [label: string, set: MetricSet | Pooled];

const WITHOUT_INTERVAL: ReadonlySet<string> = new Set(['success_rate']);
const NOTE =
  'means over series with bootstrap 95 % intervals; a part of an answer that cannot be read counts as 0\n';

/** First and last columns of tables. */
const FORMAT: Column = ['format', 'format'];
const READABLE: Column = ['success_rate', 'readable'];
const REWARD: Column = ['reward', 'reward'];

/** Tasks with fewer series than this share a row. */
const FEW = 5;

/** A mean alone, where its interval is not known. */
type Mean = Pick<Estimate, 'mean' | 'n'>;

function cell(metric: string, estimate: Estimate | Mean | undefined): string {
  if (estimate === undefined) return '–';
  return 'ci95' in estimate && !WITHOUT_INTERVAL.has(metric) ? withInterval(estimate) : fixed(estimate.mean);
}

/** Means of several groups together. */
type Pooled = Readonly<Partial<Record<string, Mean>>> & { readonly reward: Mean };

/** Means over the series of all sets, at least one. Statistics of whole sets are left out: they do not add up. */
function pooled(sets: readonly MetricSet[]): Pooled {
  const names = [...new Set(sets.flatMap((set) => Object.keys(set) as string[]))];
  const pool = (name: string): Mean => {
    const estimates = sets.flatMap((set) => set[name] ?? []);
    const n = sum(estimates.map((estimate) => estimate.n));
    return { mean: sum(estimates.map((estimate) => estimate.mean * (estimate.n / n))), n };
  };
  const means = names.filter((name) => !SET_METRICS.has(name)).map((name) => [name, pool(name)] as const);
  return { ...Object.fromEntries(means), reward: pool('reward') };
}

/** Rows of tasks in their order; two or more small tasks become one row at the end. */
function taskRows(byTask: Metrics['byTask']): Row[] {
  const tasks = Object.entries(byTask);
  if (tasks.length < 2) return [];
  const small = tasks.filter(([, set]) => set.reward.n < FEW);
  if (small.length < 2) return tasks;
  const others: Row = [`others (${small.length} of fewer than ${FEW})`, pooled(small.map(([, set]) => set))];
  return [...tasks.filter(([, set]) => set.reward.n >= FEW), others];
}

function block(rows: readonly Row[], columns: readonly Column[]): string {
  const shown = columns.filter(([metric]) => rows.some(([, set]) => set[metric] !== undefined));
  const lines = rows.map(([name, set]) => [
    ...[name, ...shown.map(([metric]) => cell(metric, set[metric])), String(set.reward.n)],
  ]);
  return `${aligned([['', ...shown.map(([, label]) => label), 'n'], ...lines])}\n`;
}

const REASONING: readonly Column[] = [
  ['claim_precision', 'claims true'],
  ['claim_recall', 'facts stated'],
  ['claim_f1', 'claim F1'],
  ['reasoning_agreement', 'concludes the answer'],
];

/** Writes how true reasonings are, and whether they conclude what is answered, each with its number of series; empty without any. */
function reasoningTable(overall: MetricSet): string {
  const shown = REASONING.filter(([metric]) => overall[metric] !== undefined);
  if (shown.length === 0) return '';
  const cells = shown.map(([metric]) => `${cell(metric, overall[metric])} (n = ${overall[metric]!.n})`);
  return `\n${aligned([
    ['reasoning', ...shown.map(([, label]) => label)],
    ['  all series', ...cells],
  ])}\n`;
}

/**
 * Writes the metrics of a policy with its classes and tasks, and those of classical detectors on the same series by name. Ends with a
 * line end.
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
  const classTable = classColumns === null ? '' : `\n${block(classes, [FORMAT, ...classColumns, REWARD])}`;
  return `${block(rows, [FORMAT, READABLE, ...columns, REWARD])}${classTable}${reasoningTable(overall)}${NOTE}`;
}

/** Writes the rewards that were asked for beside the task's own, a line each; empty without one. */
export function rewardsTable({ rewards }: Pick<Metrics, 'rewards'>): string {
  const rows = Object.entries(rewards).map(([name, reward]) => [
    ...[`reward ${name}`, cell(name, reward), `n = ${reward.n}`],
  ]);
  return rows.length === 0 ? '' : `${aligned(rows)}\n`;
}

/** Writes metrics of one policy on the same series at several temperatures, 0 being greedy. Ends with a line end. */
export function temperatureTable(
  sets: readonly (readonly [temperature: number, metrics: Metrics])[],
): string {
  const rows = sets.map(
    ([temperature, { overall }]): Row => [
      temperature === 0 ? 'greedy' : `temperature ${temperature}`,
      overall,
    ],
  );
  const { columns } = taskKind(sets[0]![1].kind).evaluation;
  return `${block(rows, [FORMAT, READABLE, ...columns, REWARD])}${NOTE}`;
}
