/** Leaderboard: policies on several tasks, as Markdown, CSV, a terminal table and a page. */

import { fixed, grouped, mean, meanOrNull, percent, plural, sum, upperFirst } from '../src/ground/numbers.ts';
import { columns } from '../src/ground/terminal.ts';
import type { Estimate, Gold } from '../src/ground/types.ts';
import { bullets, estimateCell, FOOTER, type Html, html, page, whisker } from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import { type MetricSet, withInterval } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Metrics } from './metrics.ts';
import { type Cell, markdownTable, NOTHING, pageTable, type Table, tableTexts } from './table.ts';
import type { ResponseUsage } from './usage.ts';

/** One policy on one task at one temperature. */
export interface LeaderboardRow {
  readonly task: string;
  readonly kind: Gold['kind'];
  readonly policy: string;
  /** Sampling temperature; null for a baseline. */
  readonly temperature: number | null;
  /** Over the answered series; null where there are none. */
  readonly metrics: MetricSet | null;
  readonly usage: ResponseUsage;
  /** Wall clock of the answers, with loading and training of baselines. */
  readonly seconds: number;
}

/** Mean of a policy over all tasks with the same metric; null unless it answered all of them. */
interface MacroMean {
  readonly metric: string;
  readonly label: string;
  readonly tasks: number;
  readonly mean: number | null;
}

interface Contender {
  readonly name: string;
  /** Rows by task. */
  readonly rows: ReadonlyMap<string, LeaderboardRow>;
  readonly means: readonly MacroMean[];
}

export interface Leaderboard {
  /** Tasks in the order given. */
  readonly tasks: readonly { readonly name: string; readonly kind: Gold['kind']; readonly title: string }[];
  /** The best mean first; without one, in the order given. */
  readonly contenders: readonly Contender[];
  /** Sentences on the prompt and sampling. */
  readonly asked: readonly string[];
}

/** Metric that ranks a kind of answer; default: the first of its main ones. */
const HEADLINE: Partial<Record<Gold['kind'], string>> = { anomaly: 'affiliation_f1' };
export const headlineOf = (kind: Gold['kind']): string =>
  HEADLINE[kind] ?? taskKind(kind).evaluation.main[0]!;

/** Rewards beside the task's own are metrics of this name and their own. */
export const REWARD = 'reward.';

/** Metrics of a row: those over all series, and the rewards that were asked for. */
export const rowMetrics = ({ overall, rewards }: Pick<Metrics, 'overall' | 'rewards'>): MetricSet => ({
  ...overall,
  ...Object.fromEntries(Object.entries(rewards).map(([name, estimate]) => [REWARD + name, estimate])),
});

const labelOf = (kind: Gold['kind'], metric: string): string =>
  metric.startsWith(REWARD)
    ? `Reward ${metric.slice(REWARD.length)}`
    : taskKind(kind).evaluation.metrics[metric]!.label;

/** Name of a row, with its temperature where the policy has several rows of a task. */
function nameOf(row: LeaderboardRow, rows: readonly LeaderboardRow[]): string {
  const same = rows.filter(({ task, policy }) => task === row.task && policy === row.policy);
  return same.length > 1 ? `${row.policy} at ${row.temperature}` : row.policy;
}

const headlineMean = (
  { name, kind }: Leaderboard['tasks'][number],
  rows: Contender['rows'],
): Estimate | undefined => rows.get(name)?.metrics?.[headlineOf(kind)];

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
    const byTask = new Map(rows.flatMap((row) => (nameOf(row, rows) === name ? [[row.task, row]] : [])));
    const means = metrics.map((metric): MacroMean => {
      const ranked = tasks.filter(({ kind }) => headlineOf(kind) === metric);
      const values = ranked.flatMap((task) => headlineMean(task, byTask)?.mean ?? []);
      const macro = values.length < ranked.length ? null : mean(values);
      return { metric, label: labelOf(ranked[0]!.kind, metric), tasks: ranked.length, mean: macro };
    });
    return { name, rows: byTask, means };
  });
  const [first] = tasks;
  const rank = ({ means, rows: byTask }: Contender): number =>
    means[0]?.mean ??
    (means.length > 0 || first === undefined ? -1 : (headlineMean(first, byTask)?.mean ?? -1));
  return { tasks, contenders: contenders.toSorted((a, b) => rank(b) - rank(a)), asked };
}

/** Wall clock for one response; null where there is none. */
function secondsEach(rows: readonly LeaderboardRow[]): number | null {
  const responses = sum(rows.map(({ usage }) => usage.asked - usage.missing));
  return responses === 0 ? null : sum(rows.map(({ seconds }) => seconds)) / responses;
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

/** Notes on the numbers. */
export const NOTES: readonly string[] = [
  'Means over series with bootstrap 95 % intervals. A part of an answer that cannot be read counts as 0. A missing response is left out of the means: n is the number of answered series.',
  'Answered: share of the responses with a readable answer. Tokens: mean per response. Seconds: wall clock per response, with loading and training of baselines.',
];

/** A column after the policy: a text, a mean with its interval, or nothing. */
interface Column<Row> {
  readonly head: string;
  readonly value: (row: Row) => Cell | Estimate | undefined;
}

/** Table of rows with the highest means marked. */
function tableOf<Row>(
  columns: readonly Column<Row>[],
  rows: readonly (readonly [name: string, row: Row])[],
): Table {
  const values = rows.map(([, row]) => columns.map(({ value }) => value(row)));
  const meanAt = (r: number, c: number): number => {
    const value = values[r]![c];
    return typeof value === 'object' && 'mean' in value ? value.mean : Number.NEGATIVE_INFINITY;
  };
  const best = columns.map((_, c) => Math.max(...rows.map((__, r) => meanAt(r, c))));
  const cellOf = (value: Cell | Estimate | undefined, c: number): Cell => {
    if (value === undefined) return NOTHING;
    if (typeof value !== 'object' || !('mean' in value)) return value;
    const shown = html`${estimateCell(value)}${whisker(value, null)}`;
    return { text: withInterval(value), shown, look: value.mean === best[c] ? 'best' : '' };
  };
  return {
    head: ['Policy', ...columns.map(({ head }) => head)],
    rows: rows.map(([name], r) => [
      { text: name, shown: html`<bdi>${name}</bdi>` },
      ...values[r]!.map(cellOf),
    ]),
  };
}

const successText = (share: number | null): string | undefined =>
  share === null ? undefined : percent(share, 1, ' ');
const secondsText = (value: number | null): string | undefined => value?.toFixed(value < 0.1 ? 4 : 2);

/** Columns of a task's table; those that no row has are left out. */
function columnsOf(kind: Gold['kind'], rows: readonly LeaderboardRow[]): Column<LeaderboardRow>[] {
  const rewards = rows.flatMap(({ metrics }) =>
    Object.keys(metrics ?? {}).filter((metric) => metric.startsWith(REWARD)),
  );
  const metricsShown = [...taskKind(kind).evaluation.main, 'reward', ...new Set(rewards)].filter((metric) =>
    rows.some(({ metrics }) => metrics?.[metric] !== undefined),
  );
  const all: (Column<LeaderboardRow> & { readonly shown?: boolean })[] = [
    { head: 'n', value: ({ metrics }) => String(metrics?.reward.n ?? 0) },
    {
      head: 'Missing',
      value: ({ usage }) => String(usage.missing),
      shown: rows.some(({ usage }) => usage.missing > 0),
    },
    { head: 'Answered', value: ({ metrics }) => successText(metrics?.['success_rate']?.mean ?? null) },
    ...metricsShown.map((metric) => ({
      head: labelOf(kind, metric),
      value: ({ metrics }: LeaderboardRow) => metrics?.[metric],
    })),
    {
      head: 'Tokens',
      value: ({ usage }) => usage.tokens?.completion.toFixed(0),
      shown: rows.some(({ usage }) => usage.tokens !== null),
    },
    { head: 'Seconds', value: (row) => secondsText(secondsEach([row])) },
    {
      head: 'Cost',
      value: ({ usage }) => usage.cost?.toFixed(4),
      shown: rows.some(({ usage }) => usage.cost !== null),
    },
  ];
  return all.filter(({ shown = true }) => shown);
}

function taskTable(board: Leaderboard, { name, kind }: Leaderboard['tasks'][number]): Table {
  const rows = rowsOf(board, name);
  return tableOf(
    columnsOf(
      kind,
      rows.map(([, row]) => row),
    ),
    rows,
  );
}

/** Table of all tasks; `more`: further columns. */
function overview({ tasks, contenders }: Leaderboard, more: readonly Column<Contender>[] = []): Table {
  const means = (contenders[0]?.means ?? []).map(
    ({ label, tasks: count }, m): Column<Contender> => ({
      head: `Mean ${label} of ${count} tasks`,
      value({ means: all }) {
        const macro = all[m]!.mean;
        if (macro === null) return undefined;
        return { text: fixed(macro), shown: html`<span class="mean">${fixed(macro)}</span>` };
      },
    }),
  );
  const headlines = tasks.map(
    (task): Column<Contender> => ({
      head: `${task.name}: ${labelOf(task.kind, headlineOf(task.kind))}`,
      value: ({ rows }) => headlineMean(task, rows),
    }),
  );
  return tableOf(
    [...means, ...headlines, ...more],
    contenders.map((contender) => [contender.name, contender]),
  );
}

/** Writes the leaderboard in Markdown. */
export function leaderboardMarkdown(board: Leaderboard): string {
  const parts = board.tasks.flatMap((task) => [
    `## ${task.name}`,
    `${upperFirst(task.title)}.`,
    markdownTable(taskTable(board, task)),
  ]);
  return `${['# Leaderboard', ...board.asked, markdownTable(overview(board)), ...parts, ...NOTES].join('\n\n')}\n`;
}

/** Field of a CSV file, quoted so that no spreadsheet takes it for a formula. */
function field(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Writes one line for each policy, task and temperature, with all numbers in full. */
export function leaderboardCsv(board: Leaderboard): string {
  const rows = board.tasks.flatMap(({ name }) => rowsOf(board, name).map(([, row]) => row));
  const metrics = [...new Set(rows.flatMap((row) => Object.keys(row.metrics ?? {})))];
  const head = [
    ...['task', 'kind', 'policy', 'temperature', 'n', 'missing'],
    ...metrics.flatMap((name) => [name, `${name}_low`, `${name}_high`]),
    ...['prompt_tokens', 'completion_tokens', 'seconds_per_response', 'cost'],
  ];
  const lines = rows.map((row) => [
    ...[row.task, row.kind, row.policy, row.temperature, row.metrics?.reward.n ?? 0, row.usage.missing],
    ...metrics.flatMap((name) => {
      const estimate = row.metrics?.[name];
      return estimate === undefined ? [null, null, null] : [estimate.mean, ...estimate.ci95];
    }),
    ...[
      row.usage.tokens?.prompt ?? null,
      row.usage.tokens?.completion ?? null,
      secondsEach([row]),
      row.usage.cost,
    ],
  ]);
  return [head, ...lines].map((cells) => `${cells.map(field).join(',')}\n`).join('');
}

/** Writes the overview for a terminal. Ends with a line end. */
export function leaderboardTable(board: Leaderboard): string {
  const table = overview(board, [
    {
      head: 'answered',
      value: ({ rows }) =>
        successText(
          meanOrNull([...rows.values()].flatMap(({ metrics }) => metrics?.['success_rate']?.mean ?? [])),
        ),
    },
    { head: 's/response', value: ({ rows }) => secondsText(secondsEach([...rows.values()])) },
  ]);
  const [[, ...head], ...rows] = tableTexts(table) as [string[], ...string[][]];
  return `${columns([['', ...head], ...rows])}\n`;
}

// ---- the page -------------------------------------------------------------------------------------------------------

const BOARD_STYLE = `
.board{width:auto;min-width:100%}.board thead th{white-space:normal;min-width:3.2rem}
.board tbody th{font-weight:500;min-width:9.5rem;max-width:22rem;overflow-wrap:anywhere}.board th,.board td{padding-left:.45rem;padding-right:.45rem}.board th:first-child{padding-left:0}
.board .best .mean{text-decoration:underline;text-decoration-thickness:2px;text-underline-offset:3px}`;

/** Writes the leaderboard as a self-contained page. */
export function leaderboardPage(board: Leaderboard): string {
  const { tasks, contenders } = board;
  const usages = contenders.flatMap(({ rows }) => [...rows.values()].map(({ usage }) => usage));
  const responses = sum(usages.map(({ asked, missing }) => asked - missing));
  const table = (label: string, content: Table): Html => pageTable({ label, look: 'board', ...content });
  const body = html`<header class="top"><h1>Leaderboard</h1>
<p class="lead">${contenders.length} policies and baselines on ${plural(tasks.length, 'task')}, ${grouped(responses)} responses. The highest mean of each column is underlined.</p>${board.asked.map((sentence) => html`<p class="byline">${sentence}</p>`)}</header>
<main><section><h2>Overview</h2>${table('Overview', overview(board))}</section>
${tasks.map(
  (task) =>
    html`<section><h2><bdi>${task.name}</bdi></h2><p>${upperFirst(task.title)}.</p>${table(`Results on ${task.name}`, taskTable(board, task))}</section>\n`,
)}<section><h2>How to read these numbers</h2>${bullets(NOTES)}</section></main>
${FOOTER}`;
  return page({ title: 'Leaderboard', style: STYLE + BOARD_STYLE, body });
}
