/** Policies beside each other on several tasks: the tables of a leaderboard, as Markdown and CSV. */

import { fixed, interval, upperFirst } from '../src/ground/numbers.ts';
import type { Estimate, Gold } from '../src/ground/types.ts';
import type { MetricSet } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Metrics } from './metrics.ts';
import type { ResponseUsage } from './usage.ts';

/** One policy on one task at one temperature. */
export interface LeaderboardRow {
  readonly task: string;
  readonly kind: Gold['kind'];
  readonly policy: string;
  /** Null where there is none: of a baseline. */
  readonly temperature: number | null;
  /** Over the series that were answered; null where none was. */
  readonly metrics: MetricSet | null;
  readonly usage: ResponseUsage;
  /** Wall clock of the answers, learning and loading included. */
  readonly seconds: number;
}

/** Mean of a policy over all tasks that are judged by the same metric; there only where it has answered all of them. */
export interface MacroMean {
  readonly metric: string;
  readonly label: string;
  readonly tasks: number;
  readonly mean: number | null;
}

/** A policy on all tasks. */
export interface Contender {
  readonly name: string;
  /** By task. */
  readonly rows: ReadonlyMap<string, LeaderboardRow>;
  readonly means: readonly MacroMean[];
}

export interface Leaderboard {
  /** In the order given. */
  readonly tasks: readonly { readonly name: string; readonly kind: Gold['kind']; readonly title: string }[];
  /** The best mean first; without one, in the order given. */
  readonly contenders: readonly Contender[];
  /** How all of them were asked, in sentences. */
  readonly asked: readonly string[];
}

/** The metric that a kind of answer is ranked by; of the others the first of its main ones. */
const HEADLINE: Partial<Record<Gold['kind'], string>> = { anomaly: 'affiliation_f1' };
export const headlineOf = (kind: Gold['kind']): string =>
  HEADLINE[kind] ?? taskKind(kind).evaluation.main[0]!;

/** Rewards beside the task's own are metrics of this name and their own. */
const REWARD = 'reward.';

/** The metrics of a row: those over all series, and the rewards that were asked for. */
export const rowMetrics = ({ overall, rewards }: Pick<Metrics, 'overall' | 'rewards'>): MetricSet => ({
  ...overall,
  ...Object.fromEntries(Object.entries(rewards).map(([name, found]) => [REWARD + name, found])),
});

const labelOf = (kind: Gold['kind'], metric: string): string =>
  metric.startsWith(REWARD)
    ? `Reward ${metric.slice(REWARD.length)}`
    : taskKind(kind).evaluation.metrics[metric]!.label;

/** What a row is called: its temperature only where the policy has several rows of a task. */
function nameOf(row: LeaderboardRow, rows: readonly LeaderboardRow[]): string {
  const same = rows.filter(({ task, policy }) => task === row.task && policy === row.policy);
  return same.length > 1 ? `${row.policy} at ${row.temperature}` : row.policy;
}

/** @param rows in the order of policies as they were given */
export function leaderboardOf(
  tasks: Leaderboard['tasks'],
  rows: readonly LeaderboardRow[],
  asked: readonly string[] = [],
): Leaderboard {
  const metrics = [...new Set(tasks.map(({ kind }) => headlineOf(kind)))].filter(
    (metric) => tasks.filter(({ kind }) => headlineOf(kind) === metric).length > 1,
  );
  const names = [...new Set(rows.map((row) => nameOf(row, rows)))];
  const contenders = names.map((name): Contender => {
    const own = new Map(rows.flatMap((row) => (nameOf(row, rows) === name ? [[row.task, row]] : [])));
    const means = metrics.map((metric): MacroMean => {
      const judged = tasks.filter(({ kind }) => headlineOf(kind) === metric);
      const values = judged.flatMap((task) => own.get(task.name)?.metrics?.[metric]?.mean ?? []);
      const mean =
        values.length < judged.length ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
      return { metric, label: labelOf(judged[0]!.kind, metric), tasks: judged.length, mean };
    });
    return { name, rows: own, means };
  });
  const first = tasks[0];
  const rank = ({ means, rows: own }: Contender): number =>
    means[0]?.mean ??
    (means.length > 0 || first === undefined
      ? -1
      : (own.get(first.name)?.metrics?.[headlineOf(first.kind)]?.mean ?? -1));
  return { tasks, contenders: contenders.toSorted((a, b) => rank(b) - rank(a)), asked };
}

/** Wall clock for one response; null where there is none. */
export function secondsEach({ seconds, usage }: LeaderboardRow): number | null {
  const answered = usage.asked - usage.missing;
  return answered === 0 ? null : seconds / answered;
}

/** Metrics of a task's table: the main ones of its kind and the rewards, those that some row has. */
export function metricsShown(kind: Gold['kind'], rows: readonly LeaderboardRow[]): string[] {
  const asked = rows.flatMap(({ metrics }) =>
    Object.keys(metrics ?? {}).filter((one) => one.startsWith(REWARD)),
  );
  return [...taskKind(kind).evaluation.main, 'reward', ...new Set(asked)].filter((metric) =>
    rows.some(({ metrics }) => metrics?.[metric] !== undefined),
  );
}

/** Rows of a task, the best first. */
export function rowsOf(
  { tasks, contenders }: Leaderboard,
  task: string,
): [name: string, row: LeaderboardRow][] {
  const metric = headlineOf(tasks.find(({ name }) => name === task)!.kind);
  const value = ([, { metrics }]: [string, LeaderboardRow]): number => metrics?.[metric]?.mean ?? -1;
  return contenders
    .flatMap(({ name, rows }): [string, LeaderboardRow][] => {
      const row = rows.get(task);
      return row === undefined ? [] : [[name, row]];
    })
    .sort((a, b) => value(b) - value(a));
}

/** What a reader must know of the numbers. */
export const NOTES: readonly string[] = [
  'Means over series with bootstrap 95 % intervals. An answer that cannot be read counts as 0; a response that never came (missing) has no part in the means: n is the number of series that were answered.',
  'Answered: share of the responses that came whose answer could be read. Tokens: mean of a response. Seconds: wall clock divided by responses, loading and learning included.',
];

const successText = (share: number | undefined): string =>
  share === undefined ? '–' : `${(100 * share).toFixed(1)} %`;
const secondsText = (value: number): string => value.toFixed(value < 0.1 ? 4 : 2);
const shown = (estimate: Estimate | undefined): string =>
  estimate === undefined ? '–' : `${fixed(estimate.mean)} ${interval(estimate)}`;
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** Lines of a Markdown table; the first column is text. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), `|${head.map((_, i) => (i === 0 ? ' --- ' : ' ---: ')).join('|')}|`, ...rows.map(line)];
}

/** Columns of a task's table after the policy: heading and content. */
export function columnsOf(
  kind: Gold['kind'],
  rows: readonly LeaderboardRow[],
): {
  readonly head: string;
  text(row: LeaderboardRow): string;
  estimate?(row: LeaderboardRow): Estimate | undefined;
}[] {
  const has = (of: (row: LeaderboardRow) => unknown): boolean => rows.some((row) => of(row) !== null);
  const number = (value: number | null, format: (value: number) => string): string =>
    value === null ? '–' : format(value);
  return [
    { head: 'n', text: ({ metrics }) => String(metrics?.reward.n ?? 0) },
    ...(rows.some(({ usage }) => usage.missing > 0)
      ? [{ head: 'Missing', text: ({ usage }: LeaderboardRow) => String(usage.missing) }]
      : []),
    {
      head: 'Answered',
      text: ({ metrics }) => successText(metrics?.['success_rate']?.mean),
    },
    ...metricsShown(kind, rows).map((metric) => ({
      head: labelOf(kind, metric),
      text: ({ metrics }: LeaderboardRow) => shown(metrics?.[metric]),
      estimate: ({ metrics }: LeaderboardRow) => metrics?.[metric],
    })),
    ...(has(({ usage }) => usage.tokens)
      ? [
          {
            head: 'Tokens',
            text: ({ usage }: LeaderboardRow) =>
              number(usage.tokens?.completion ?? null, (n) => n.toFixed(0)),
          },
        ]
      : []),
    { head: 'Seconds', text: (row) => number(secondsEach(row), secondsText) },
    ...(has(({ usage }) => usage.cost)
      ? [{ head: 'Cost', text: ({ usage }: LeaderboardRow) => number(usage.cost, (n) => n.toFixed(4)) }]
      : []),
  ];
}

/** The heading of a task's column in the overview. */
export const overviewHead = ({ name, kind }: Leaderboard['tasks'][number]): string =>
  `${name}: ${labelOf(kind, headlineOf(kind))}`;
export const meanHead = ({ label, tasks }: MacroMean): string => `Mean ${label} of ${tasks} tasks`;

/** All of it as Markdown. */
export function leaderboardMarkdown(board: Leaderboard): string {
  const { tasks, contenders } = board;
  const means = contenders[0]?.means ?? [];
  const overview = contenders.map(({ name, rows, means: own }) => [
    name,
    ...own.map(({ mean }) => (mean === null ? '–' : fixed(mean))),
    ...tasks.map((task) => shown(rows.get(task.name)?.metrics?.[headlineOf(task.kind)])),
  ]);
  const parts = tasks.map(({ name, kind, title }) => {
    const rows = rowsOf(board, name);
    const columns = columnsOf(
      kind,
      rows.map(([, row]) => row),
    );
    const lines = table(
      ['Policy', ...columns.map(({ head }) => head)],
      rows.map(([policy, row]) => [policy, ...columns.map(({ text }) => text(row))]),
    );
    return ['', `## ${name}`, '', `${upperFirst(title)}.`, '', ...lines];
  });
  return `${[
    '# Leaderboard',
    '',
    ...board.asked.flatMap((sentence) => [sentence, '']),
    ...table(['Policy', ...means.map(meanHead), ...tasks.map(overviewHead)], overview),
    ...parts.flat(),
    '',
    ...NOTES.flatMap((note) => [note, '']),
  ]
    .join('\n')
    .trimEnd()}\n`;
}

/** A field of a CSV file; one that a spreadsheet would take for a formula is kept from it. */
function field(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One line for each policy, task and temperature, with all numbers in full. */
export function leaderboardCsv(board: Leaderboard): string {
  const rows = board.tasks.flatMap(({ name }) => rowsOf(board, name).map(([, row]) => row));
  const metrics = [...new Set(rows.flatMap(({ metrics: own }) => Object.keys(own ?? {})))];
  const head = [
    ...['task', 'kind', 'policy', 'temperature', 'n', 'missing'],
    ...metrics.flatMap((name) => [name, `${name}_low`, `${name}_high`]),
    ...['prompt_tokens', 'completion_tokens', 'seconds_per_response', 'cost'],
  ];
  const lines = rows.map((row) => [
    ...[row.task, row.kind, row.policy, row.temperature, row.metrics?.reward.n ?? 0, row.usage.missing],
    ...metrics.flatMap((name) => {
      const found = row.metrics?.[name];
      return found === undefined ? [null, null, null] : [found.mean, ...found.ci95];
    }),
    ...[
      row.usage.tokens?.prompt ?? null,
      row.usage.tokens?.completion ?? null,
      secondsEach(row),
      row.usage.cost,
    ],
  ]);
  return [head, ...lines].map((cells) => `${cells.map(field).join(',')}\n`).join('');
}

/** The overview for a terminal. Ends with a line end. */
export function leaderboardTable(board: Leaderboard): string {
  const { tasks, contenders } = board;
  const means = contenders[0]?.means ?? [];
  const head = ['', ...means.map(meanHead), ...tasks.map(overviewHead), 'answered', 's/response'];
  const body = contenders.map(({ name, rows, means: own }) => {
    const all = [...rows.values()];
    const answered = all.flatMap(({ metrics }) => metrics?.['success_rate']?.mean ?? []);
    const responses = all.reduce((sum, { usage }) => sum + usage.asked - usage.missing, 0);
    const seconds = all.reduce((sum, row) => sum + row.seconds, 0);
    return [
      name,
      ...own.map(({ mean }) => (mean === null ? '–' : fixed(mean))),
      ...tasks.map((task) => shown(rows.get(task.name)?.metrics?.[headlineOf(task.kind)])),
      successText(
        answered.length === 0 ? undefined : answered.reduce((sum, value) => sum + value, 0) / answered.length,
      ),
      responses === 0 ? '–' : secondsText(seconds / responses),
    ];
  });
  const widths = head.map((_, c) => Math.max(...[head, ...body].map((row) => row[c]!.length)));
  return [head, ...body]
    .map(
      (row) =>
        `${row
          .map((text, c) => text.padEnd(widths[c]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
