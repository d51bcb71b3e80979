/** The report of a run: one self-contained page that needs no network, from plain records. */
import { DataError, TimeseerError } from '../src/errors.ts';
import { writeFileAtomic } from '../src/files.ts';
import { type Html, html, page } from '../src/html/html.ts';
import { duration, fixed, grouped, signed } from '../src/html/numbers.ts';
import { STYLE } from '../src/html/style.ts';
import { readUtf8 } from '../src/input-file.ts';
import type { Gold } from '../src/types.ts';
import { labelled } from './environment.ts';
import { curveScripts, curvesBlock } from './report-curves.ts';
import { examplesBlock } from './report-examples.ts';
import { headline, lowerFirst, methodOf, sizeOf, tiles } from './report-headline.ts';
import type { ReportFloor, ReportInput, ReportStage } from './report-input.ts';
import {
  confusionTable,
  gainsTable,
  METRIC_LABELS,
  perTypeTables,
  recordTable,
  resultsTable,
  transferTable,
} from './report-tables.ts';

export type * from './report-input.ts';

interface Requirement {
  readonly text: string;
  readonly met: boolean;
}

function requirementOf(floor: ReportFloor, stages: readonly ReportStage[]): Requirement {
  const stage = stages.find((one) => one.key === floor.stage);
  if (stage === undefined) {
    throw new DataError(`report: a floor names the stage "${floor.stage}", which is not in the report`);
  }
  const estimate = stage.metrics.overall[floor.metric];
  if (estimate === undefined) {
    throw new DataError(
      `report: a floor is set for ${floor.metric}, which stage "${floor.stage}" does not have`,
    );
  }
  return {
    text: `${METRIC_LABELS[floor.metric]} ${lowerFirst(stage.label)} \u2265 ${fixed(floor.atLeast, 2)} (measured ${fixed(estimate.mean)})`,
    met: estimate.mean >= floor.atLeast,
  };
}

function requirements(input: ReportInput): Html | null {
  const all = [
    ...input.floors.map((floor) => requirementOf(floor, input.stages)),
    ...input.gains.flatMap(({ label, estimate, lowerAbove }) =>
      lowerAbove === null
        ? []
        : [
            {
              text: `${label}: lower end above ${fixed(lowerAbove, lowerAbove === 0 ? 0 : 2)} (measured ${signed(estimate.ci95[0], 4)})`,
              met: estimate.ci95[0] > lowerAbove,
            },
          ],
    ),
  ];
  if (all.length === 0) return null;
  const missed = all.filter((one) => !one.met);
  if (missed.length === 0) {
    return html`<p><span class="met">All ${all.length} requirements are met.</span> They stand beside the numbers below.</p>`;
  }
  return html`<p><span class="missed">${missed.length} of ${all.length} requirements missed:</span> ${missed.map((one) => one.text).join('; ')}.</p>`;
}

function runFacts(input: ReportInput): Html {
  const { run } = input;
  const total = Object.values(run.seconds).reduce((sum, seconds) => sum + seconds, 0);
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
<dt>Time</dt><dd>${duration(total)} = ${stages.join(' + ')}${run.seconds['evaluation'] === undefined ? '; how long the evaluation took is not recorded' : ''}; without writing this report</dd>
</dl>`;
}

/** Title of the results by group. */
const TYPES: Readonly<Record<Gold['kind'], string>> = {
  anomaly: 'By anomaly type',
  classification: 'By class',
  variates: 'By number of anomalous variates',
};

const BANDS =
  'Shaded bands: true intervals with a strip along the top edge, predicted ones with a strip along the bottom edge and dashed sides; a strip is at least 4 px wide. ';

interface Section {
  readonly id: string;
  readonly title: string;
  readonly body: Html;
}

function sections(input: ReportInput, last: ReportStage): Section[] {
  const { stages, run } = input;
  const { kind } = last.metrics;
  const all: (Section | null)[] = [
    { id: 'run', title: 'What was run', body: runFacts(input) },
    { id: 'results', title: 'Results', body: resultsTable(stages, input.floors, input.run.temperature) },
    input.gains.length === 0
      ? null
      : {
          id: 'gains',
          title: `What ${methodOf(input)} changed`,
          body: html`<p>The same held-out series are answered before and after; the difference is taken series by series, so that easy and hard series do not blur it.</p>${gainsTable(input.gains)}`,
        },
    { id: 'types', title: TYPES[kind], body: perTypeTables(stages) },
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
          body: html`<p>${kind === 'anomaly' ? BANDS : ''}The ExpCoT is the expert chain of thought written from classical analyses.</p>${input.exampleRule === undefined ? null : html`<p>${input.exampleRule}</p>`}${examplesBlock(input.examples)}`,
        },
    input.caveats.length === 0
      ? null
      : {
          id: 'caveats',
          title: 'How to read these numbers',
          body: html`<ul class="list">${input.caveats.map((text) => html`<li>${text}</li>`)}</ul>`,
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
 * The page as text: HTML with everything inlined, readable in light and dark, on paper and on a telephone.
 * @throws DataError when there is no policy stage, a floor names an unknown stage, or a figure is not a passive SVG.
 */
export function reportPage(input: ReportInput): string {
  const last = input.stages.filter((stage) => stage.kind === 'policy').at(-1);
  if (last === undefined) {
    throw new DataError('report: no stage of a policy; evaluate the policy before reporting');
  }
  const parts = sections(input, last);
  const body = html`<header class="top">
<h1>${input.title}</h1>
<p class="byline">${input.run.name}, finished <time datetime="${input.run.finished}">${input.run.finished.replace('T', ' ').replace(/\.\d+/, '')}</time></p>
<nav aria-label="Sections"><ul>${parts.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
${headline(input, last)}
${tiles(input, last)}
${requirements(input)}
</header>
<main>
${parts.map(({ id, title, body: content }) => html`<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>${content}</section>\n`)}</main>
<footer>Written by timeseer. This file is complete in itself: it loads nothing from any network.</footer>`;
  return page({
    title: input.title,
    style: STYLE,
    body,
    scripts: input.curves.length === 0 ? [] : curveScripts(),
  });
}

/** Writes the page, whole or not at all. Errors as `reportPage`; WriteError when the disk refuses. */
export function writeReport(path: string, input: ReportInput): void {
  writeFileAtomic(path, reportPage(input));
}

/** Keeps the records of a report, so that the page can be rebuilt. */
export function writeReportInput(path: string, input: ReportInput): void {
  writeFileAtomic(path, `${JSON.stringify(input)}\n`);
}

/** Reads the records of a report. @throws DataError when they are missing, not JSON, or lack a part. */
export function readReportInput(path: string): ReportInput {
  let value: unknown;
  try {
    value = JSON.parse(readUtf8(path));
  } catch (cause) {
    throw new DataError('no readable report records there; evaluate the run again', { file: path, cause });
  }
  const parts = [
    'title',
    'run',
    'stages',
    'floors',
    'gains',
    'curves',
    'examples',
    'environment',
    'reproduce',
    'caveats',
  ];
  const missing = parts.find((part) => value === null || typeof value !== 'object' || !(part in value));
  if (missing !== undefined) {
    throw new DataError(`report records without "${missing}"; evaluate the run again`, { file: path });
  }
  const input = value as ReportInput;
  try {
    // The page looks at every record, so writing it once is the complete check of their shape.
    reportPage(input);
  } catch (cause) {
    if (cause instanceof TimeseerError) throw cause;
    throw new DataError(
      `report records of another shape (${(cause as Error).message}); evaluate the run again`,
      {
        file: path,
        cause,
      },
    );
  }
  return input;
}
