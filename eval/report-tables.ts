/** The tables of a report: results by stage, by type, confusion, gains, environment. */

import { fixed, grouped, interval, lowerFirst, signed } from '../src/ground/numbers.ts';
import type { Estimate, Gold } from '../src/ground/types.ts';
import { estimateCell, type Html, html, scrolling, whisker } from '../src/html/html.ts';
import { isSignificant } from '../src/measures/bootstrap.ts';
import { type Metric, type MetricSet, REASONING_METRICS } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { type Confusion, UNREADABLE } from './metrics.ts';
import type { ReportGain, ReportStage, ReportTransfer } from './report.ts';
import type { Requirement } from './results.ts';

interface Row {
  readonly label: string;
  readonly note: string;
  readonly metric: string | null;
  readonly value: (stage: ReportStage) => Estimate | undefined;
}

const TEXTUAL: ReadonlySet<string> = new Set(['format', 'unparsable', 'success_rate']);

function metricOf(kind: Gold['kind'], metric: string): Metric {
  const { metrics, details } = taskKind(kind).evaluation;
  return (metrics[metric] ?? details[metric])!;
}

const rowOf = (kind: Gold['kind'], metric: string): Row => ({
  label: metricOf(kind, metric).label,
  note: metricOf(kind, metric).definition,
  metric,
  // A detector writes no text: its format would be 1 by construction.
  value: (stage) =>
    stage.kind === 'detector' && TEXTUAL.has(metric) ? undefined : stage.metrics.overall[metric],
});

const anomalousOnly = (kind: Gold['kind'], metric: string): Row => ({
  label: `${metricOf(kind, metric).label}, anomalous series`,
  note: 'The same over the series that have an anomaly: a policy that always says \u201cnormal\u201d gets 0 here.',
  metric: null,
  value: (stage) => stage.metrics.anomalous?.[metric],
});

const UNNAMED_REWARD = 'Where the data do not name the class: (0.7 · mean of six + 0.1 · format) / 0.8.';

function resultRows(kind: Gold['kind'], named: boolean, temperature: number | undefined): Row[] {
  const { rows } = taskKind(kind).evaluation;
  const reward = { ...rowOf(kind, 'reward'), label: 'Reward, greedy' };
  return [
    rowOf(kind, 'format'),
    ...rows.map(({ metric, anomalous }) => (anomalous ? anomalousOnly(kind, metric) : rowOf(kind, metric))),
    ...Object.keys(REASONING_METRICS).map((metric) => rowOf(kind, metric)),
    named ? reward : { ...reward, note: `${reward.note} ${UNNAMED_REWARD}` },
    {
      label: `Reward, sampled${temperature === undefined ? '' : ` at temperature ${temperature}`}`,
      note: 'Mean reward of sampled responses; a lower temperature may suit a policy better: timeseer eval compares several.',
      metric: null,
      value: (stage) => stage.rewardSampled ?? undefined,
    },
    rowOf(kind, 'unparsable'),
  ];
}

function verdict({ met }: Requirement): Html {
  return html`<span class="${met ? 'met' : 'missed'}">${met ? 'met' : 'missed'}</span>`;
}

function resultCell(row: Row, stage: ReportStage, required: readonly Requirement[], most: number): Html {
  const estimate = row.value(stage);
  if (estimate === undefined) return html`<td class="none">\u2013</td>`;
  const floor = required.find(({ name }) => name === `${stage.key}.${row.metric}`);
  const wanted =
    floor === undefined
      ? null
      : html`<span class="required">\u2265\u202f${floor.limit} ${verdict(floor)}</span>`;
  return html`<td>${estimateCell(estimate)}${whisker(estimate, floor?.atLeast ?? null, most)}${wanted}</td>`;
}

/** Where the bars of a row end: rewards with judged advice reach 1.5. */
const mostOf = (row: Row, stages: readonly ReportStage[]): number =>
  stages.some((stage) => (row.value(stage)?.ci95[1] ?? 0) > 1) ? 1.5 : 1;

/** Says over how many series a mean is, where that is not all. */
function fewer(row: Row, stages: readonly ReportStage[], all: number): string | null {
  const [n] = stages.flatMap((stage) => row.value(stage)?.n ?? []);
  const told = row.metric !== 'class_accuracy' || n === undefined || n === all;
  return told ? null : ` Over the ${grouped(n)} series whose class the data name.`;
}

/** Stages as columns, metrics as rows; `temperature`: of the sampled responses, where it is known. */
export function resultsTable(
  stages: readonly ReportStage[],
  required: readonly Requirement[],
  temperature?: number,
): Html {
  const { kind, overall } = stages[0]!.metrics;
  const { n } = overall.reward;
  const named =
    !('class_accuracy' in taskKind(kind).evaluation.metrics) || overall['class_accuracy']?.n === n;
  const rows = resultRows(kind, named, temperature).filter((row) =>
    stages.some((stage) => row.value(stage) !== undefined),
  );
  return scrolling(
    'Results by stage',
    html`<table class="results">
<thead><tr><th scope="col">Metric</th>${stages.map((stage) => html`<th scope="col">${stage.label}</th>`)}</tr></thead>
<tbody>${rows.map(
      (row) =>
        html`<tr><th scope="row">${row.label}<span class="note">${row.note}${fewer(row, stages, n)}</span></th>${stages.map((stage) => resultCell(row, stage, required, mostOf(row, stages)))}</tr>\n`,
    )}</tbody></table>`,
    `Means over ${grouped(n)} held-out series with bootstrap 95\u202f% intervals. Bars run from 0 to 1, those of a reward that passes 1 to 1.5; the tick is the required value.`,
  );
}

/** Background of a value in [0, 1]; the text keeps its contrast in both colour schemes. */
function shade(share: number): string {
  return `--share:${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
}

function shadedCell(estimate: Estimate | undefined): Html {
  return estimate === undefined
    ? html`<td class="none">\u2013</td>`
    : html`<td class="shaded" style="${shade(estimate.mean)}">${estimateCell(estimate)}</td>`;
}

function typeTable(
  metric: string,
  label: string,
  keys: readonly string[],
  head: string,
  columns: readonly { readonly label: string; readonly sets: Readonly<Record<string, MetricSet>> }[],
): Html {
  return scrolling(
    `${label} by ${head}`,
    html`<table class="types">
<caption>${label}</caption>
<thead><tr><th scope="col">${head}</th><th scope="col">Series</th>${columns.map((column) => html`<th scope="col">${column.label}</th>`)}</tr></thead>
<tbody>${keys.map((key) => {
      const n = columns.flatMap((column) => column.sets[key]?.reward.n ?? [])[0] ?? 0;
      const cells = columns.map((column) => shadedCell(column.sets[key]?.[metric]));
      return html`<tr><th scope="row">${key}</th><td class="count">${grouped(n)}</td>${cells}</tr>\n`;
    })}</tbody></table>`,
  );
}

/** One table per metric: gold classes (of variates, how many are anomalous) as rows, stages as columns. */
export function perTypeTables(stages: readonly ReportStage[]): Html {
  const { kind } = stages[0]!.metrics;
  const columns = stages.map((stage) => ({ label: stage.label, sets: stage.metrics.byClass }));
  const keys = [...new Set(columns.flatMap((column) => Object.keys(column.sets)))];
  const { groups, groupMetrics } = taskKind(kind).evaluation;
  const measured = Object.entries(groupMetrics).filter(([metric]) =>
    columns.some(({ sets }) => Object.values(sets).some((set) => set[metric] !== undefined)),
  );
  return html`${measured.map(([metric, { label }]) => typeTable(metric, label, keys, groups.head, columns))}`;
}

/** Tasks or answerers as rows, metrics as columns. */
export function transferTable(transfer: ReportTransfer): Html {
  const { byTask } = transfer.metrics;
  const { main, metrics: known } = taskKind(transfer.metrics.kind).evaluation;
  const metrics = transfer.columns ?? ['format', ...main, 'reward'];
  const { normalShare: shares } = transfer;
  return html`<h3>${transfer.title}</h3><p>${transfer.note}</p>${scrolling(
    transfer.title,
    html`<table class="types">
<thead><tr><th scope="col">${transfer.head ?? 'Task'}</th><th scope="col">Series</th>${shares === undefined ? null : html`<th scope="col">Normal series</th>`}${metrics.map((name) => html`<th scope="col">${known[name]!.label}</th>`)}</tr></thead>
<tbody>${Object.entries(byTask).map(
      ([task, set]) =>
        html`<tr><th scope="row">${task}</th><td class="count">${grouped(set.reward.n)}</td>${shares === undefined ? null : html`<td class="count">${shares[task] === undefined ? '\u2013' : fixed(shares[task])}</td>`}${metrics.map(
          (name) =>
            shadedCell(TEXTUAL.has(name) && transfer.detectors?.includes(task) ? undefined : set[name]),
        )}</tr>\n`,
    )}</tbody></table>`,
  )}`;
}

/** Counts, shaded by the share of their row. */
export function confusionTable(label: string, confusion: Confusion): Html {
  return scrolling(
    `Confusion, ${label}`,
    html`<table class="confusion">
<caption>${label}</caption>
<thead><tr><th scope="col">Gold \u2193 &ensp;said \u2192</th>${confusion.columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${confusion.rows.map((name, r) => {
      const counts = confusion.counts[r]!;
      const total = counts.reduce((sum, count) => sum + count, 0);
      // Anomalies whose kind the data do not name are neither right nor wrong, but what cannot be read is wrong.
      const graded = confusion.columns.includes(name);
      return html`<tr><th scope="row">${name}</th>${counts.map((count, c) => {
        const right = confusion.columns[c] === name;
        const tone = right ? 'right' : graded || confusion.columns[c] === UNREADABLE ? 'wrong' : 'ungraded';
        return html`<td class="shaded ${tone}" style="${shade(total === 0 ? 0 : count / total)}">${count === 0 ? html`<span class="zero">0</span>` : grouped(count)}</td>`;
      })}</tr>\n`;
    })}</tbody></table>`,
  );
}

const IN_ORDER = (a: ReportGain, b: ReportGain): number =>
  Math.abs(b.estimate.mean) - Math.abs(a.estimate.mean);

/** Significant changes in a sentence: gains, then losses, each the largest first. */
export function gainsSentence(gains: readonly ReportGain[]): string {
  const sure = gains.filter(({ estimate }) => isSignificant(estimate)).sort(IN_ORDER);
  const list = (some: readonly ReportGain[]): string =>
    some.map(({ label, estimate }) => `${lowerFirst(label)} ${signed(estimate.mean)}`).join('; ');
  const [up, down] = [
    sure.filter(({ estimate }) => estimate.mean > 0),
    sure.filter(({ estimate }) => estimate.mean < 0),
  ];
  const parts = [
    ...(up.length === 0 ? [] : [`Significant gains: ${list(up)}.`]),
    ...(down.length === 0 ? [] : [`Significant losses: ${list(down)}.`]),
    `${gains.length - sure.length} of ${gains.length} metrics did not change significantly.`,
  ];
  return parts.join(' ');
}

/** Paired changes of all measured metrics, the largest first, with the requirements on them. */
export function gainsTable(gains: readonly ReportGain[], required: readonly Requirement[]): Html {
  const rows = gains.toSorted(IN_ORDER).map(({ key, label, estimate }) => {
    const bound = required.find(({ name }) => name === `rl.gain.${key}`);
    const kept = required.find(({ name }) => name === `rl.not_lower.${key}`);
    const wanted = [
      ...(bound === undefined ? [] : [html`lower end above ${bound.limit}: ${verdict(bound)}`]),
      ...(kept === undefined ? [] : [html`mean not lower: ${verdict(kept)}`]),
    ];
    const gain = estimate.mean > 0;
    const mark = isSignificant(estimate)
      ? html`<td><span class="${gain ? 'met' : 'missed'}">${gain ? 'gain' : 'loss'}</span></td>`
      : html`<td>not significant</td>`;
    return html`<tr><th scope="row">${label}</th><td>${signed(estimate.mean)}</td><td>${interval(estimate, signed)}</td>${mark}<td class="count">${grouped(estimate.n)}</td><td>${wanted.length === 0 ? '\u2013' : wanted.map((requirement, i) => html`${i === 0 ? '' : html`<br>`}${requirement}`)}</td></tr>\n`;
  });
  return scrolling(
    'Paired changes',
    html`<table class="gains">
<thead><tr><th scope="col">Metric</th><th scope="col">Mean change</th><th scope="col">Interval</th><th scope="col">Significance</th><th scope="col">Series</th><th scope="col">Required</th></tr></thead>
<tbody>${rows}</tbody></table>`,
    'All measured metrics, the largest change first: differences on the same series with paired bootstrap 95\u202f% intervals. A change is significant when its interval excludes 0.',
  );
}
