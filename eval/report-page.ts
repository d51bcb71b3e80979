/** The report of a run: one self-contained page that needs no network, from plain records. */

import { DataError } from '../src/ground/errors.ts';
import {
  change,
  compact,
  duration,
  fixed,
  grouped,
  interval,
  lowerFirst,
  percent,
  signed,
  sum,
} from '../src/ground/numbers.ts';
import type { Estimate, Gold, Json } from '../src/ground/types.ts';
import { bullets, FOOTER, type Html, html, page, recordTable } from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import type { MetricSet } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { ReportInput, ReportStage } from './report.ts';
import { curveScripts, curvesBlock } from './report-curves.ts';
import { exampleCard } from './report-examples.ts';
import {
  confusionTable,
  gainsSentence,
  gainsTable,
  perTypeTables,
  resultsTable,
  transferTable,
} from './report-tables.ts';
import { type Requirement, requirementsOf } from './results.ts';

function verdict(all: readonly Requirement[], unchecked: string | undefined): Html | null {
  if (all.length === 0) return null;
  if (unchecked !== undefined) {
    return html`<p>Not checked: ${unchecked}: ${all.map(({ text }) => text).join('; ')}.</p>`;
  }
  const missed = all.filter(({ met }) => met === false);
  if (missed.length === 0) {
    return html`<p><span class="met">All ${all.length} requirements are met.</span> They are shown beside the numbers below.</p>`;
  }
  return html`<p><span class="missed">${missed.length} of ${all.length} requirements missed:</span> ${missed.map(({ text }) => text).join('; ')}.</p>`;
}

function runFacts(input: ReportInput): Html {
  const { run } = input;
  const total = sum(Object.values(run.seconds));
  const stages = Object.entries(run.seconds).map(([name, seconds]) => `${name} ${duration(seconds)}`);
  const seeds = Object.entries(run.seeds).map(([name, seed]) => `${name} ${seed}`);
  return html`<dl class="facts">
<dt>Command</dt><dd><code>${run.command}</code></dd>
<dt>Recipe</dt><dd>${run.recipe}</dd>
<dt>Policy</dt><dd>${run.policy.name}${sizeOf(input)}. ${run.policy.description}</dd>
<dt>Training data</dt><dd>${run.trainingData}</dd>
<dt>Held-out data</dt><dd>${run.heldOutData}</dd>
<dt>Training</dt><dd>${grouped(run.samples)} supervised samples, ${grouped(run.steps)} ${methodOf(input)} steps</dd>
<dt>Seeds</dt><dd>${seeds.join(', ')}</dd>
<dt>Time</dt><dd>${duration(total)} = ${stages.join(' + ')}${run.seconds['evaluation'] === undefined ? '; the time of the evaluation is not recorded' : ''}; without writing this report</dd>
</dl>`;
}

const BANDS =
  'Shaded bands mark intervals: true ones have a strip along the top edge, predicted ones a strip along the bottom edge and dashed sides. A strip is at least 4 px wide. ';

interface Section {
  readonly id: string;
  readonly title: string;
  readonly body: Html;
}

function sections(input: ReportInput, last: ReportStage, required: readonly Requirement[]): Section[] {
  const { stages, run } = input;
  const { kind } = last.metrics;
  const all: (Section | null)[] = [
    { id: 'run', title: 'What was run', body: runFacts(input) },
    { id: 'results', title: 'Results', body: resultsTable(stages, required, input.run.temperature) },
    input.gains.length === 0
      ? null
      : {
          id: 'gains',
          title: `What ${methodOf(input)} changed`,
          body: html`<p>${gainsSentence(input.gains)} Both policies answer the same held-out series, and differences are taken series by series.</p>${gainsTable(input.gains, required)}`,
        },
    { id: 'types', title: taskKind(kind).evaluation.groups.title, body: perTypeTables(stages) },
    last.metrics.confusion === null
      ? null
      : {
          id: 'confusion',
          title: 'Confusion of classes',
          body: html`${confusionTable(`${last.label}, greedy`, last.metrics.confusion)}<details><summary>Other stages</summary>${stages
            .filter((stage) => stage !== last)
            .map(({ label, metrics }) =>
              metrics.confusion === null ? null : confusionTable(label, metrics.confusion),
            )}</details>`,
        },
    (input.transfer ?? []).length === 0
      ? null
      : {
          id: 'transfer',
          title: 'Further results',
          body: html`${(input.transfer ?? []).map(transferTable)}`,
        },
    input.curves.length === 0
      ? null
      : { id: 'curves', title: 'Training curves', body: curvesBlock(input.curves) },
    input.examples.length === 0
      ? null
      : {
          id: 'examples',
          title: 'Held-out examples',
          body: html`<p>${taskKind(kind).localises ? BANDS : ''}The ExpCoT is the expert trace written from classical analyses.</p>${input.exampleRule === undefined ? null : html`<p>${input.exampleRule}</p>`}${input.examples.map(exampleCard)}`,
        },
    input.caveats.length === 0
      ? null
      : {
          id: 'caveats',
          title: 'How to read these numbers',
          body: bullets(input.caveats),
        },
    {
      id: 'environment',
      title: 'Environment',
      body: recordTable('Environment', labelled(input.environment)),
    },
    {
      id: 'reproduce',
      title: 'Reproduce',
      body: html`<pre tabindex="0">${input.reproduce.join('\n')}</pre><details><summary>Resolved recipe</summary><pre tabindex="0">${run.recipeText}</pre></details>`,
    },
  ];
  return all.filter((section) => section !== null);
}

/**
 * Writes the page: HTML with everything inlined, readable in light and dark, on paper and on a telephone.
 * @throws DataError when there is no policy stage, a floor names an unknown stage, or a figure is not a passive SVG.
 */
export function runReportPage(input: ReportInput): string {
  const last = input.stages.filter((stage) => stage.kind === 'policy').at(-1);
  if (last === undefined) {
    throw new DataError('report: no stage of a policy; evaluate the policy before reporting');
  }
  const required = requirementsOf(input);
  const parts = sections(input, last, required);
  const body = html`<header class="top">
<h1>${input.title}</h1>
<p class="byline">${input.run.name}, finished <time datetime="${input.run.finished}">${input.run.finished.replace('T', ' ').replace(/\.\d+/, '')}</time></p>
<nav aria-label="Sections"><ul>${parts.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
${headline(input, last)}
${tiles(input, last)}
${verdict(required, input.unchecked)}
</header>
<main>
${parts.map(({ id, title, body: content }) => html`<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>${content}</section>\n`)}</main>
${FOOTER}`;
  return page({
    title: input.title,
    style: STYLE,
    body,
    scripts: input.curves.length === 0 ? [] : curveScripts(),
  });
}

function methodOf({ run }: ReportInput): string {
  return run.method ?? 'TimerPO';
}

/** The size of the policy in brackets; nothing when it is not known. */
function sizeOf({ run }: ReportInput): string {
  return run.policy.parameters === null ? '' : ` (${compact(run.policy.parameters)} parameters)`;
}

function trainedBy(input: ReportInput): string {
  const { run } = input;
  const few = run.traces === undefined ? '' : ` of ${grouped(run.traces)} series`;
  const sft = run.samples > 0 ? `${grouped(run.samples)} supervised samples${few}` : '';
  const rl = run.steps > 0 ? `${grouped(run.steps)} steps of ${methodOf(input)}` : '';
  if (sft === '' && rl === '') return 'Without training';
  return `After ${sft}${sft !== '' && rl !== '' ? ' and ' : ''}${rl}`;
}

/** Main metrics of a kind that are over all series: the data may not name some classes. */
function summedUp(kind: Gold['kind'], set: MetricSet): (readonly [name: string, estimate: Estimate])[] {
  return taskKind(kind).evaluation.main.flatMap((name) => {
    const estimate = set[name];
    return estimate === undefined || estimate.n !== set.reward.n ? [] : [[name, estimate] as const];
  });
}

/** Main result in sentences. */
function headline(input: ReportInput, last: ReportStage): Html {
  const { detector, headline: reached, metrics } = taskKind(last.metrics.kind).evaluation;
  const classical = input.stages.find((stage) => stage.kind === 'detector')?.metrics;
  const numbers = (classical === undefined ? [] : summedUp(classical.kind, classical.overall)).map(
    ([name, { mean }]) => {
      const { label, percent: isPercent } = metrics[name]!;
      return `${lowerFirst(label)} ${isPercent ? percent(mean) : fixed(mean)}`;
    },
  );
  const compared =
    numbers.length === 0
      ? null
      : ` The best classical ${detector} reaches ${numbers.join(', ')} on the same series.`;
  const changes = input.gains
    .filter(({ key }) => key.startsWith('reward_'))
    .map(({ label, estimate }) => ` Reinforcement changed the ${lowerFirst(label)} by ${change(estimate)}.`);
  return html`<p class="lead">${trainedBy(input)}, ${input.run.policy.name}${sizeOf(input)} ${reached(last.metrics).join('; ')}.${compared}${changes}${reasoningOf(input, last)}</p>`;
}

/** Metrics of the reasoning in the headline, as its sentence names them. */
const REASONING = { claim_f1: 'claim F1', reasoning_agreement: 'agreement with the answer' };

/** Says how true the reasoning is and how reinforcement changed that; warns where it got worse while the reward rose. */
function reasoningOf({ gains }: ReportInput, { metrics: { overall } }: ReportStage): string[] {
  const gainOf = (name: string): Estimate | undefined => gains.find(({ key }) => key === name)?.estimate;
  const numbers = Object.entries(REASONING).flatMap(([name, label]) => {
    const gain = gainOf(name);
    const changed = gain === undefined ? '' : ` (reinforcement changed it by ${change(gain)})`;
    return overall[name] === undefined ? [] : [`${label} ${fixed(overall[name].mean)}${changed}`];
  });
  if (numbers.length === 0) return [];
  const isWorse = Object.keys(REASONING).some((name) => (gainOf(name)?.ci95[1] ?? 0) < 0);
  const rose = (gainOf('reward_greedy')?.ci95[0] ?? 0) > 0;
  return [
    ` Its reasoning has ${numbers.join(' and ')}.`,
    ...(isWorse && rose ? [' Warning: the reasoning got worse while the reward rose.'] : []),
  ];
}

function tile(label: string, estimate: Estimate, format: (value: number) => string = fixed): Html {
  return html`<div><dt>${label}</dt><dd><span class="big">${format(estimate.mean)}</span><span class="small">${`95\u202f% interval ${interval(estimate, format)}`}</span></dd></div>`;
}

/** The most telling numbers. */
function tiles(input: ReportInput, last: ReportStage): Html {
  const { kind, overall } = last.metrics;
  const gain = input.gains[0];
  return html`<dl class="tiles">${summedUp(kind, overall).map(([name, estimate]) => tile(taskKind(kind).evaluation.metrics[name]!.label, estimate))}${
    gain === undefined
      ? tile('Reward', overall.reward)
      : tile(`${gain.label}, change`, gain.estimate, (value) => signed(value))
  }</dl>`;
}

interface Label {
  readonly text: string;
  readonly value?: (number: number) => string;
}

const thin = (unit: string) => (value: number) => `${value}\u202f${unit}`;

const LABELS: Readonly<Record<string, Label>> = {
  timeseer: { text: 'timeseer' },
  node: { text: 'Node.js' },
  platform: { text: 'Platform' },
  engine: { text: 'Engine' },
  libtorch: { text: 'libtorch' },
  blas: { text: 'BLAS' },
  device: { text: 'Device' },
  device_name: { text: 'Device model' },
  cpu: { text: 'Processor' },
  cores: { text: 'Cores' },
  memory_gib: { text: 'Memory', value: thin('GiB') },
  matmul_gflops_one_thread: { text: '512\u00b3 matrix product, one thread', value: thin('GFLOP/s') },
  workers: { text: 'Workers' },
  rl_workers: { text: 'Workers of reinforcement' },
  install_s: { text: 'Set-up', value: duration },
  evaluation_s: { text: 'Evaluation', value: duration },
  evaluation_finished: { text: 'Evaluation finished' },
  peak_memory_mib: { text: 'Peak memory', value: thin('MiB') },
};

/** The record as it is shown: known keys labelled, the device not named twice; unknown keys stay as they are. */
export function labelled(environment: Readonly<Record<string, Json>>): Record<string, Json> {
  const shown = Object.entries(environment).filter(
    ([key, value]) => key !== 'device_name' || value !== environment['cpu'],
  );
  return Object.fromEntries(
    shown.map(([key, value]) => {
      const label = Object.hasOwn(LABELS, key) ? LABELS[key] : undefined;
      const text = typeof value === 'number' ? label?.value?.(value) : undefined;
      return [label?.text ?? key, text ?? value];
    }),
  );
}
