/** Leaderboard: policies on several tasks, as Markdown, CSV, a terminal table and a page. */

import {
  fixed,
  grouped,
  interval,
  meanOrNull,
  mean as numberMean,
  percent,
  upperFirst,
} from '../src/ground/numbers.ts';
import type { Estimate, Gold } from '../src/ground/types.ts';
import {
  bullets,
  estimateCell,
  FOOTER,
  type Html,
  html,
  page,
  scrolling,
  whisker,
} from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import type { MetricSet } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Metrics } from './metrics.ts';
import type { ResponseUsage } from './usage.ts';

/** One policy on one task at one temperature. */
export interface LeaderboardRow {
  readonly task: string;
  readonly kind: Gold['kind'];
  readonly policy: string;
  /** Null for a baseline. */
  readonly temperature: number | null;
  /** Over the answered series; null where there are none. */
  readonly metrics: MetricSet | null;
  readonly usage: ResponseUsage;
  /** Wall clock of the answers, with loading and training of baselines. */
  readonly seconds: number;
}

/** Mean of a policy over all tasks with the same metric; null unless it answered all of them. */
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
  /** Sentences on the prompt and sampling. */
  readonly asked: readonly string[];
}

/** Metric that ranks a kind of answer; default: the first of its main ones. */
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

/** Name of a row, with its temperature where the policy has several rows of a task. */
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
      const mean = values.length < judged.length ? null : numberMean(values);
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

/** Notes on the numbers. */
export const NOTES: readonly string[] = [
  'Means over series with bootstrap 95 % intervals. An unreadable answer counts as 0. A missing response is left out of the means: n is the number of answered series.',
  'Answered: share of the responses with a readable answer. Tokens: mean per response. Seconds: wall clock per response, with loading and training of baselines.',
];

const successText = (share: number | undefined): string =>
  share === undefined ? '–' : percent(share, 1, ' ');
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
      successText(meanOrNull(answered) ?? undefined),
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

// ---- the page -------------------------------------------------------------------------------------------------------

const OWN_STYLE = `
.board{width:auto;min-width:100%}.board thead th{white-space:normal;min-width:3.2rem}
.board tbody th{font-weight:500;min-width:9.5rem;max-width:22rem;overflow-wrap:anywhere}.board th,.board td{padding-left:.45rem;padding-right:.45rem}.board th:first-child{padding-left:0}
.board .best .mean{text-decoration:underline;text-decoration-thickness:2px;text-underline-offset:3px}`;

const NOTHING = html`<span class="none">–</span>`;

function estimated(estimate: Estimate | undefined, best: boolean): Html {
  if (estimate === undefined) return html`<td>${NOTHING}</td>`;
  return html`<td class="${best ? 'best' : ''}">${estimateCell(estimate)}${whisker(estimate, null)}</td>`;
}

/** The highest of some means; NaN for none, which equals nothing. */
const highest = (values: readonly (number | undefined)[]): number =>
  Math.max(...values.filter((value) => value !== undefined), Number.NEGATIVE_INFINITY);

function overview({ tasks, contenders }: Leaderboard): Html {
  const means = contenders[0]?.means ?? [];
  const value = (c: number, t: number): Estimate | undefined => {
    const task = tasks[t]!;
    return contenders[c]!.rows.get(task.name)?.metrics?.[headlineOf(task.kind)];
  };
  const best = tasks.map((_, t) => highest(contenders.map((__, c) => value(c, t)?.mean)));
  return scrolling(
    'Overview',
    html`<table class="board"><thead><tr><th scope="col">Policy</th>${[
      ...means.map(meanHead),
      ...tasks.map(overviewHead),
    ].map((head) => html`<th scope="col">${head}</th>`)}</tr></thead><tbody>${contenders.map(
      ({ name, means: own }, c) =>
        html`<tr><th scope="row"><bdi>${name}</bdi></th>${own.map(
          ({ mean }) =>
            html`<td>${mean === null ? NOTHING : html`<span class="mean">${fixed(mean)}</span>`}</td>`,
        )}${tasks.map((_, t) => estimated(value(c, t), value(c, t)?.mean === best[t]))}</tr>\n`,
    )}</tbody></table>`,
  );
}

function taskTable(board: Leaderboard, { name, kind }: Leaderboard['tasks'][number]): Html {
  const rows = rowsOf(board, name);
  const columns = columnsOf(
    kind,
    rows.map(([, row]) => row),
  );
  const best = columns.map(({ estimate }) => highest(rows.map(([, row]) => estimate?.(row)?.mean)));
  return scrolling(
    `Results on ${name}`,
    html`<table class="board"><thead><tr><th scope="col">Policy</th>${columns.map(
      ({ head }) => html`<th scope="col">${head}</th>`,
    )}</tr></thead><tbody>${rows.map(
      ([policy, row]) =>
        html`<tr><th scope="row"><bdi>${policy}</bdi></th>${columns.map(({ text, estimate }, k) =>
          estimate === undefined
            ? html`<td>${text(row)}</td>`
            : estimated(estimate(row), estimate(row)?.mean === best[k]),
        )}</tr>\n`,
    )}</tbody></table>`,
  );
}

/** A page that is complete in itself. */
export function leaderboardPage(board: Leaderboard): string {
  const { tasks, contenders } = board;
  const responses = contenders
    .flatMap(({ rows }) => [...rows.values()])
    .reduce((sum, { usage }) => sum + usage.asked - usage.missing, 0);
  const body = html`<header class="top"><h1>Leaderboard</h1>
<p class="lead">${contenders.length} policies and baselines on ${tasks.length} ${tasks.length === 1 ? 'task' : 'tasks'}, ${grouped(responses)} responses. The highest value of a column is underlined.</p>${board.asked.map((sentence) => html`<p class="byline">${sentence}</p>`)}</header>
<main><section><h2>Overview</h2>${overview(board)}</section>
${tasks.map(
  (task) =>
    html`<section><h2><bdi>${task.name}</bdi></h2><p>${upperFirst(task.title)}.</p>${taskTable(board, task)}</section>\n`,
)}<section><h2>How to read these numbers</h2>${bullets(NOTES)}</section></main>
${FOOTER}`;
  return page({ title: 'Leaderboard', style: STYLE + OWN_STYLE, body });
}
