/** The result of a report in words and in four numbers, from the numbers alone. */

import { type Html, html } from '../src/html/html.ts';
import { change, compact, fixed, grouped, interval, signed } from '../src/html/numbers.ts';
import type { Estimate, Gold } from '../src/types.ts';
import { MAIN_METRICS } from './metric-names.ts';
import type { MetricName, MetricSet, Metrics } from './metrics.ts';
import type { ReportInput, ReportStage } from './report-input.ts';
import { METRIC_LABELS } from './report-tables.ts';

export function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

export function methodOf({ run }: ReportInput): string {
  return run.method ?? 'TimerPO';
}

/** The size of the policy in brackets; nothing when it is not known. */
export function sizeOf({ run }: ReportInput): string {
  return run.policy.parameters === null ? '' : ` (${compact(run.policy.parameters)} parameters)`;
}

function withInterval(estimate: Estimate): string {
  return `${fixed(estimate.mean)} ${interval(estimate)}`;
}

function percent(estimate: Estimate): string {
  return `${(100 * estimate.mean).toFixed(1)}\u202f%`;
}

function trainedBy(input: ReportInput): string {
  const { run } = input;
  const sft = run.samples > 0 ? `${grouped(run.samples)} expert traces` : '';
  const rl = run.steps > 0 ? `${grouped(run.steps)} steps of ${methodOf(input)}` : '';
  if (sft === '' && rl === '') return 'Without training';
  return `After ${sft}${sft !== '' && rl !== '' ? ' and ' : ''}${rl}`;
}

/** What a policy reaches, after "the policy". */
function reached({ kind, overall, anomalous }: Metrics): string {
  const n = `${grouped(overall.reward.n)} held-out series`;
  const { class_accuracy, point_f1, affiliation_f1, balanced_accuracy, macro_f1, variate_f1, variate_exact } =
    overall;
  const parts: string[] = [];
  if (kind === 'variates') {
    if (variate_exact !== undefined)
      parts.push(`names exactly the anomalous variates of ${percent(variate_exact)} of ${n}`);
    if (variate_f1 !== undefined) parts.push(`the F1 of the variates named is ${withInterval(variate_f1)}`);
    return parts.join('; ');
  }
  const whole = class_accuracy !== undefined && class_accuracy.n === overall.reward.n;
  if (kind === 'classification') {
    if (class_accuracy !== undefined) {
      parts.push(
        `names the class of ${percent(class_accuracy)} ${interval(class_accuracy, (value) => (100 * value).toFixed(1))} of ${n} correctly`,
      );
    }
    if (balanced_accuracy !== undefined && macro_f1 !== undefined) {
      parts.push(
        `balanced accuracy is ${withInterval(balanced_accuracy)}, macro F1 ${withInterval(macro_f1)}`,
      );
    }
    return parts.join('; ');
  }
  const alone =
    anomalous?.point_f1 === undefined
      ? ''
      : `, ${fixed(anomalous.point_f1.mean)} on the anomalous ones alone`;
  if (point_f1 !== undefined) {
    parts.push(
      whole
        ? `names the class of ${percent(class_accuracy)} of ${n} correctly and marks their anomalous points with F1 ${withInterval(point_f1)}${alone}`
        : `marks the anomalous points of ${n} with F1 ${withInterval(point_f1)}${alone}`,
    );
  }
  if (affiliation_f1 !== undefined) parts.push(`affiliation F1 is ${withInterval(affiliation_f1)}`);
  return parts.join('; ');
}

const FORMAT: Readonly<Partial<Record<MetricName, (estimate: Estimate) => string>>> = {
  class_accuracy: percent,
  variate_exact: percent,
};

/** The metrics that a kind is summed up by, those over all series: some of the data may not name their classes. */
function summedUp(kind: Gold['kind'], set: MetricSet): (readonly [name: MetricName, estimate: Estimate])[] {
  const names: readonly MetricName[] = MAIN_METRICS[kind];
  return names.flatMap((name) => {
    const estimate = set[name];
    return estimate === undefined || estimate.n !== set.reward.n ? [] : [[name, estimate] as const];
  });
}

function detectorReaches(kind: Gold['kind'], set: MetricSet): string {
  const numbers = summedUp(kind, set).map(([name, estimate]) => {
    const text = (FORMAT[name] ?? ((one: Estimate) => fixed(one.mean)))(estimate);
    return kind === 'anomaly' ? text : `${lowerFirst(METRIC_LABELS[name])} ${text}`;
  });
  const last = numbers.pop() ?? 'nothing';
  return numbers.length === 0 ? last : `${numbers.join(', ')} and ${last}`;
}

/** The result in words. */
export function headline(input: ReportInput, last: ReportStage): Html {
  const { kind } = last.metrics;
  const detector = input.stages.find((stage) => stage.kind === 'detector');
  const called = kind === 'classification' ? 'classifier' : 'detector';
  const compared =
    detector === undefined
      ? null
      : html` The best classical ${called} reaches ${detectorReaches(kind, detector.metrics.overall)} on the same series.`;
  return html`<p class="lead">${trainedBy(input)}, ${input.run.policy.name}${sizeOf(input)} ${reached(last.metrics)}.${compared}${input.gains.map(
    (gain) => html` Change of the ${lowerFirst(gain.label)} on the same series: ${change(gain.estimate)}.`,
  )}</p>`;
}

function tile(label: string, estimate: Estimate, format: (value: number) => string = fixed): Html {
  return html`<div><dt>${label}</dt><dd><span class="big">${format(estimate.mean)}</span><span class="small">${`95\u202f% interval ${interval(estimate, format)}`}</span></dd></div>`;
}

/** The most telling numbers. */
export function tiles(input: ReportInput, last: ReportStage): Html {
  const { kind, overall } = last.metrics;
  const gain = input.gains[0];
  return html`<dl class="tiles">${summedUp(kind, overall).map(([name, estimate]) => tile(METRIC_LABELS[name], estimate))}${
    gain === undefined
      ? tile('Reward', overall.reward)
      : tile(`${gain.label}, change`, gain.estimate, (value) => signed(value))
  }</dl>`;
}
