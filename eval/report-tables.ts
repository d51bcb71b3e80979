/** Tables of a report: results by stage, by type, confusion, gains, environment. */

import { fixed, grouped, interval, lowerFirst, signed, sum } from '../src/ground/numbers.ts';
import type { Estimate, Gold } from '../src/ground/types.ts';
import { estimateCell, type Html, html, whisker } from '../src/html/html.ts';
import { isSignificant } from '../src/measures/bootstrap.ts';
import { REASONING_METRICS } from '../src/tasks/evaluation.ts';
import { metricNamed, taskKind } from '../src/tasks/kinds.ts';
import { type Confusion, UNREADABLE } from './metrics.ts';
import type { ReportGain, ReportStage, ReportTransfer } from './report.ts';
import type { Requirement } from './results.ts';
import { type Cell, NOTHING, pageTable } from './table.ts';

interface Row {
  readonly label: string;
  readonly note: string;
  readonly metric: string | null;
  readonly value: (stage: ReportStage) => Estimate | undefined;
}

const TEXTUAL: ReadonlySet<string> = new Set(['format', 'unparsable', 'success_rate']);

const rowOf = (kind: Gold['kind'], metric: string): Row => ({
  label: metricNamed(kind, metric).label,
  note: metricNamed(kind, metric).definition,
  metric,
  // A detector writes no text: its format would be 1 by construction.
  value: (stage) =>
    stage.kind === 'detector' && TEXTUAL.has(metric) ? undefined : stage.metrics.overall[metric],
});

const anomalousOnly = (kind: Gold['kind'], metric: string): Row => ({
  label: `${metricNamed(kind, metric).label}, anomalous series`,
  note: 'Over the series with an anomaly alone: a policy that always answers \u201cnormal\u201d gets 0.',
  metric: null,
  value: (stage) => stage.metrics.anomalous?.[metric],
});

const UNNAMED_REWARD = 'Without a gold class: (0.7 · mean of six + 0.1 · format) / 0.8.';

function resultRows(kind: Gold['kind'], named: boolean, temperature: number | undefined): Row[] {
  const { rows } = taskKind(kind).evaluation;
  const reward = { ...rowOf(kind, 'reward'), label: 'Reward, greedy' };
  return [
    ...['format', 'success_rate'].map((metric) => rowOf(kind, metric)),
    ...rows.map(({ metric, anomalous }) => (anomalous ? anomalousOnly(kind, metric) : rowOf(kind, metric))),
    ...Object.keys(REASONING_METRICS).map((metric) => rowOf(kind, metric)),
    named ? reward : { ...reward, note: `${reward.note} ${UNNAMED_REWARD}` },
    {
      label: `Reward, sampled${temperature === undefined ? '' : ` at temperature ${temperature}`}`,
      note: 'Mean reward of sampled responses. Compare temperatures with timeseer eval --temperature.',
      metric: null,
      value: (stage) => stage.rewardSampled ?? undefined,
    },
    rowOf(kind, 'unparsable'),
  ];
}

function verdict({ met }: Requirement): Html {
  if (met === null) return html`not checked`;
  return html`<span class="${met ? 'met' : 'missed'}">${met ? 'met' : 'missed'}</span>`;
}

function resultCell(row: Row, stage: ReportStage, required: readonly Requirement[], most: number): Cell {
  const estimate = row.value(stage);
  if (estimate === undefined) return NOTHING;
  const floor = required.find(({ name }) => name === `${stage.key}.${row.metric}`);
  const wanted =
    floor === undefined
      ? null
      : html`<span class="required">\u2265\u202f${floor.limit} ${verdict(floor)}</span>`;
  return html`${estimateCell(estimate)}${whisker(estimate, floor?.atLeast ?? null, most)}${wanted}`;
}

/** Number of series behind a class accuracy, as a sentence, where it is not that of all. */
function seriesNote(row: Row, stages: readonly ReportStage[], all: number): string | null {
  const [n] = stages.flatMap((stage) => row.value(stage)?.n ?? []);
  if (row.metric !== 'class_accuracy' || n === undefined || n === all) return null;
  return ` Measured on the ${grouped(n)} series whose class the data name.`;
}

/** Stages as columns, metrics as rows. @param temperature of the sampled responses, where it is known */
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
  return pageTable({
    ...{ label: 'Results by stage', look: 'results' },
    caption: `Means over ${grouped(n)} held-out series with bootstrap 95\u202f% intervals. Bars run from 0 to 1 (to 1.5 for rewards above 1); a tick marks the required value.`,
    head: ['Metric', ...stages.map(({ label }) => label)],
    rows: rows.map((row) => {
      // Rewards with judged advice reach 1.5.
      const most = stages.some((stage) => (row.value(stage)?.ci95[1] ?? 0) > 1) ? 1.5 : 1;
      return [
        html`${row.label}<span class="note">${row.note}${seriesNote(row, stages, n)}</span>`,
        ...stages.map((stage) => resultCell(row, stage, required, most)),
      ];
    }),
  });
}

/** Background of a value in [0, 1]; the text keeps its contrast in both colour schemes. */
function shade(share: number): string {
  return `--share:${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
}

function shadedCell(estimate: Estimate | undefined): Cell {
  if (estimate === undefined) return NOTHING;
  return { text: '', look: 'shaded', style: shade(estimate.mean), shown: estimateCell(estimate) };
}

const countCell = (text: string): Cell => ({ text, look: 'count' });

/** One table per metric: gold classes (of variates, numbers of anomalous ones) as rows, stages as columns. */
export function perTypeTables(stages: readonly ReportStage[]): Html {
  const sets = stages.map(({ metrics }) => metrics.byClass);
  const keys = [...new Set(sets.flatMap((byClass) => Object.keys(byClass)))];
  const { groups, groupMetrics } = taskKind(stages[0]!.metrics.kind).evaluation;
  const tables = Object.entries(groupMetrics).flatMap(([metric, { label }]) => {
    if (!sets.some((byClass) => Object.values(byClass).some((set) => set[metric] !== undefined))) return [];
    return pageTable({
      ...{ label: `${label} by ${groups.head}`, look: 'types', title: label },
      head: [groups.head, 'Series', ...stages.map((stage) => stage.label)],
      rows: keys.map((key) => [
        key,
        countCell(grouped(sets.flatMap((byClass) => byClass[key]?.reward.n ?? [])[0] ?? 0)),
        ...sets.map((byClass) => shadedCell(byClass[key]?.[metric])),
      ]),
    });
  });
  return html`${tables}`;
}

/** Tasks or answerers as rows, metrics as columns. */
export function transferTable(transfer: ReportTransfer): Html {
  const { kind, byTask } = transfer.metrics;
  const { main, metrics: known } = taskKind(kind).evaluation;
  const metrics = transfer.columns ?? ['format', ...main, 'reward'];
  const { title, note, normalShare: shares, detectors = [] } = transfer;
  const table = pageTable({
    ...{ label: title, look: 'types' },
    head: [
      ...[transfer.head ?? 'Task', 'Series', ...(shares === undefined ? [] : ['Normal series'])],
      ...metrics.map((name) => known[name]!.label),
    ],
    rows: Object.entries(byTask).map(([task, set]) => [
      ...[task, countCell(grouped(set.reward.n))],
      ...(shares === undefined
        ? []
        : [countCell(shares[task] === undefined ? '\u2013' : fixed(shares[task]))]),
      ...metrics.map((name) =>
        shadedCell(TEXTUAL.has(name) && detectors.includes(task) ? undefined : set[name]),
      ),
    ]),
  });
  return html`<h3>${title}</h3><p>${note}</p>${table}`;
}

/** Counts, shaded by the share of their row. */
export function confusionTable(label: string, { rows, columns, counts }: Confusion): Html {
  return pageTable({
    ...{ label: `Confusion, ${label}`, look: 'confusion', title: label },
    head: [html`Gold \u2193 &ensp;predicted \u2192`, ...columns],
    rows: rows.map((name, r) => {
      const total = sum(counts[r]!);
      // Anomalies whose kind the data do not name are neither right nor wrong; unreadable answers are wrong.
      const graded = columns.includes(name);
      const cells = counts[r]!.map((count, c): Cell => {
        const tone =
          columns[c] === name ? 'right' : graded || columns[c] === UNREADABLE ? 'wrong' : 'ungraded';
        const shown = count === 0 ? html`<span class="zero">0</span>` : html`${grouped(count)}`;
        return { text: '', shown, look: `shaded ${tone}`, style: shade(total === 0 ? 0 : count / total) };
      });
      return [name, ...cells];
    }),
  });
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
    sure.length === gains.length
      ? 'All metrics changed significantly.'
      : `${gains.length - sure.length} of ${gains.length} metrics did not change significantly.`,
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
      ? html`<span class="${gain ? 'met' : 'missed'}">${gain ? 'gain' : 'loss'}</span>`
      : 'not significant';
    return [
      ...[label, signed(estimate.mean), interval(estimate, signed), mark, countCell(grouped(estimate.n))],
      wanted.length === 0
        ? '\u2013'
        : html`${wanted.map((text, i) => html`${i === 0 ? null : html`<br>`}${text}`)}`,
    ];
  });
  return pageTable({
    ...{ label: 'Paired changes', look: 'gains', rows },
    head: ['Metric', 'Mean change', 'Interval', 'Significance', 'Series', 'Required'],
    caption:
      'All measured metrics, the largest change first: differences on the same series with paired bootstrap 95\u202f% intervals. A change is significant when its interval excludes 0.',
  });
}
