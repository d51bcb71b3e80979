/**
 * HTML page of a report for an engineer on call: headline, plot of all columns, ranked findings (each can be shown in the plot) and the
 * answers of a policy. A single file that loads nothing. Page and JSON are written together, both or neither.
 */

import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, parse } from 'node:path';
import { DAY } from '../../datasets/readers/clock.ts';
import { pageTable } from '../../eval/table.ts';
import { KIND_WORDS, LEVELS } from '../detect/finding.ts';
import { ConfigError } from '../ground/errors.ts';
import { tidyUp, WriteError, writeFilesAtomic } from '../ground/files.ts';
import { grouped, upperFirst } from '../ground/numbers.ts';
import {
  bullets,
  FOOTER,
  type Html,
  html,
  jsonBlock,
  page,
  problemNote,
  recordTable,
  seenFigure,
  verbatim,
} from '../html/html.ts';
import { STYLE } from '../html/style.ts';
import { intervalText } from '../series/intervals.ts';
import { bandWidth, numberWords, observedWords, toJson } from './formats.ts';
import {
  claimWords,
  confidenceWords,
  policyWords,
  shownAnswers,
  signalNumber,
  turnKey,
  windowKey,
} from './policy-words.ts';
import {
  agreementWords,
  durationWords,
  markedAlone,
  noteTexts,
  REPORT_SCHEMA,
  type ReportSource,
  spanWords,
  stateWords,
  whenWords,
} from './report.ts';
import {
  axisPlaces,
  axisUnit,
  breaksOf,
  context,
  evenStep,
  LEVEL_SIGNS,
  type PlotData,
  type PlotMark,
  type PlotTarget,
  pageColumn,
  plotScripts,
} from './report-plot.ts';
import type {
  AnomalyReport,
  Doubt,
  PolicyAnswer,
  PolicySignal,
  ReportFinding,
  ReportIncident,
} from './schema.ts';

/** Maximum number of findings on the page; the JSON file has all of them. */
const MOST_FINDINGS = 100;
/** Maximum number of columns drawn: those with the most severe findings. */
const MOST_COLUMNS = 12;
/** Number of notes shown unfolded. */
const OPEN_NOTES = 4;
/** Maximum number of listed intervals that only the policy marks. */
const MOST_ALONE = 50;
/** Maximum number of similar stretches listed per finding. */
const MOST_SIMILAR = 8;

const COLOURS = {
  light:
    '--critical:#a80f3c;--high:#c4470e;--medium:#846500;--low:#56616d;--series:#1f4f8f;--policy:#7a3fa8;--band:rgba(70,120,180,.20);',
  dark: '--critical:#ff7a98;--high:#f7a063;--medium:#dcc45a;--low:#a9b3be;--series:#8fc0f5;--policy:#c9a2ee;--band:rgba(125,175,235,.22);',
};

const PAGE_STYLE = `
:root{${COLOURS.light}}
@media (prefers-color-scheme:dark){:root:not([data-scheme=light]){${COLOURS.dark}}}
main.report,header.top,footer{max-width:1560px}
header.top{padding-top:1.4rem}
header.top h1{font-size:1.15rem;margin:0;color:var(--soft);font-weight:600;overflow-wrap:anywhere}
.headline{font-size:1.3rem;line-height:1.4;font-weight:600;max-width:none;margin:.2rem 0 .1rem}
.since{max-width:none;margin:0 0 .5rem;font-size:1.05rem}.headline span,.since span,.stamp{white-space:nowrap}
.byline{margin-bottom:.5rem;max-width:none;font-size:.9rem}
.notes{font-size:.875rem;color:var(--soft);margin:0 0 .7rem}.notes .list{max-width:none;margin:0;columns:2 28rem}.notes details{margin:.2rem 0 0}
main.report>*{margin:0 0 1.4rem}
.board{display:grid;grid-template-columns:minmax(0,1fr);gap:1.4rem}
.plotside{min-width:0}
#plot{min-height:260px}
.bar{display:flex;flex-wrap:wrap;align-items:center;gap:.4rem .6rem;margin:.2rem 0 .4rem;font-size:.875rem}
.bar button{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--rule);padding:.3rem .7rem;cursor:pointer}
.bar button[aria-pressed=true]{outline:2px solid var(--accent);outline-offset:-1px}
.copy button{font:inherit;color:var(--accent);background:none;border:0;padding:0;cursor:pointer;text-decoration:underline}
html:not(.js) .copy{display:none}
.bar button:disabled{color:var(--soft);opacity:.6;cursor:default}
.bar #shown{flex:1 1 12rem;min-width:0;font-weight:600}
.key{display:flex;flex-wrap:wrap;gap:.15rem 1rem;font-size:.8rem;color:var(--soft);margin:0 0 .3rem;padding:0;list-style:none}
.swatch{display:inline-block;width:1.5em;height:.7em;margin-right:.35em;vertical-align:baseline}
.swatch.line{height:0;border-top:2px solid var(--series);vertical-align:middle}
.swatch.usual{height:0;border-top:1px dashed var(--soft);vertical-align:middle}
.swatch.band{background:var(--band)}
.swatch.marked{background:var(--policy);height:.3em;vertical-align:middle}
.alone h3{margin:1.1rem 0 .5rem}.alone .level{color:var(--policy)}
.hint{font-size:.8rem;color:var(--soft);max-width:none;margin:0 0 .5rem}
ol.findings,ol.members{list-style:none;margin:0;padding:0}
.findings>li{border:1px solid var(--rule);background:var(--card);margin:0 0 .7rem;padding:0}
.findings li.selected{outline:2px solid var(--accent);outline-offset:-1px}
.pick{display:block;width:100%;text-align:left;font:inherit;color:inherit;background:none;border:0;padding:.65rem .9rem .4rem;cursor:pointer}
.pick:hover .when{text-decoration:underline}
.pick .rank{color:var(--soft);margin-right:.5em}
.pick .when{font-weight:600}
.pick .what{display:block;font-size:.875rem;color:var(--soft);overflow-wrap:anywhere}
.level{font-weight:700;white-space:nowrap;margin-right:.6em}
${Object.keys(LEVELS)
  .map((name) => `.level.${name}{color:var(--${name})}`)
  .join('')}
.ongoing{font-weight:700;color:var(--ink)}
.detail{padding:0 .9rem .65rem;font-size:.925rem}
.detail p{margin:0 0 .35rem}
.detail .facts{margin:0;gap:.1rem .9rem;font-size:.875rem}
.detail .more{margin-top:.35rem}
.js .detail .more{display:none}.js li.selected>.detail .more{display:grid}
.members{padding:0 .6rem .2rem!important}.members>li{border-top:1px solid var(--rule)}.members .pick{padding-left:.3rem}.members .detail{padding-left:.3rem}
.findings h3{margin:0}
.unusual h2{margin:0 0 .5rem}
.usual-shape{border-top:1px solid var(--rule);padding-top:1.2rem}
.usual-shape td.structure,.usual-shape th:last-child{text-align:left;min-width:18rem}
@media screen and (min-width:1100px){
.board{grid-template-columns:minmax(0,1fr) 25.5rem}
.plotside{position:sticky;top:0;align-self:start;max-height:100vh;overflow:auto;padding-top:.4rem}
}
@media (max-width:640px){.headline{font-size:1.1rem}.detail .facts{grid-template-columns:max-content 1fr;gap:.1rem .7rem}.detail .facts dd{margin:0}.bar button{padding:.5rem .8rem}}
@media print{
.bar,.hint,.copy{display:none}.swatch{print-color-adjust:exact}.js .detail .more{display:grid}.findings>li{break-inside:avoid}.findings li.selected{outline:none}
.board{display:block}.notes details>*{display:block}.pick{padding-bottom:.1rem}
}`.replaceAll('\n', '');

const levelBadge = (level: string): Html =>
  html`<span class="level ${level}"><span aria-hidden="true">${LEVEL_SIGNS[level]![0]}</span> ${level}</span>`;

const direction = ({ observed, expected, direction: side }: ReportFinding): string =>
  observed.peak === null || expected.value === null || side === null ? '' : `, ${side} expected`;

function facts(finding: ReportFinding): Html {
  const words = (value: number | null): string => numberWords(value, bandWidth(finding));
  const single = finding.end - finding.start === 1;
  return html`<dl class="facts"><dt>Observed</dt><dd><strong>${observedWords(finding)}</strong>${
    single || finding.observed.least === finding.observed.largest
      ? null
      : html`; ${words(finding.observed.peak)} at the peak${finding.peak.at === null ? null : html` (<span class="stamp">${finding.peak.at.shown}</span>)`}`
  }</dd><dt>Expected at peak</dt><dd>${words(finding.expected.value)}; usual range ${words(finding.expected.low)} to ${words(finding.expected.high)}</dd></dl>`;
}

/** Evidence for and against a finding, similar stretches, and its place in the file. */
function more(finding: ReportFinding): Html {
  const clauses = (title: string, texts: readonly string[]): Html | null =>
    texts.length === 0
      ? null
      : html`<dt>${title}</dt><dd>${texts.map((text) => html`<div>${text}</div>`)}</dd>`;
  const named = finding.similar.slice(0, MOST_SIMILAR).map((other) => whenWords(other));
  const rest = finding.similar.length - named.length;
  const place = [
    finding.end - finding.start === 1
      ? `sample ${finding.start}`
      : `samples ${finding.start} to ${finding.end - 1}`,
    ...(finding.rows === null
      ? []
      : [
          finding.rows.first === finding.rows.last
            ? `line ${finding.rows.first} of the file`
            : `lines ${finding.rows.first} to ${finding.rows.last} of the file`,
        ]),
  ];
  return html`<dl class="facts more">${clauses('Evidence for', finding.evidence.for)}${clauses('Evidence against', finding.evidence.against)}${
    finding.markedByPolicy === null
      ? null
      : html`<dt>Policy</dt><dd>${finding.markedByPolicy ? 'marks it too' : 'does not mark it'}</dd>`
  }<dt>Similar</dt><dd>${
    named.length === 0
      ? 'none in this recording'
      : html`${named.map((text) => html`<div>${text}</div>`)}${rest > 0 ? html`<div>and ${rest} more</div>` : null}`
  }</dd><dt>Location</dt><dd>${place.join(', ')}; severity ${numberWords(Number(finding.severity.toPrecision(3)))}</dd></dl>`;
}

function stateHtml(finding: ReportFinding | ReportIncident, report: AnomalyReport): Html | null {
  if (report.window !== null) return null;
  const text = stateWords(finding, report.to);
  return finding.ongoing ? html` \u00b7 <span class="ongoing">${text}</span>` : html` \u00b7 ${text}`;
}

function findingItem(finding: ReportFinding, target: number, report: AnomalyReport): Html {
  return html`<li><button type="button" class="pick" data-target="${target}" aria-pressed="false"><span class="rank">${finding.rank}</span>${levelBadge(finding.level)}<span class="when">${whenWords(finding)}</span><span class="what">${finding.column} \u00b7 ${KIND_WORDS[finding.kind]}${direction(finding)} \u00b7 ${finding.duration.replaceAll(' ', '\u00a0')}${stateHtml(finding, report)}${
    finding.markedByPolicy === null ? null : ` \u00b7 ${policyWords(finding)!}`
  }${finding.reported ? ' \u00b7 reported before' : null}</span></button>
<div class="detail"><p>${finding.statement}</p>${facts(finding)}${more(finding)}</div></li>
`;
}

function incidentItem(
  incident: ReportIncident,
  members: readonly Html[],
  target: number,
  report: AnomalyReport,
): Html {
  return html`<li><button type="button" class="pick" data-target="${target}" aria-pressed="false">${levelBadge(incident.level)}<span class="when">${whenWords(incident)}</span><span class="what">${incident.columns.length} columns together \u00b7 ${incident.duration.replaceAll(' ', '\u00a0')}${stateHtml(incident, report)}</span></button>
<div class="detail"><p>${incident.statement}</p></div><ol class="members">${members}</ol></li>
`;
}

/** Returns list items in order of rank, with an incident at the rank of its most severe finding, and their targets in the plot. */
function entries(
  report: AnomalyReport,
  findings: readonly ReportFinding[],
  place: (sample: number) => number,
): { items: Html[]; targets: PlotTarget[] } {
  const targets: PlotTarget[] = [];
  const target = (
    { id, start, end }: ReportFinding | ReportIncident,
    marks: readonly number[],
    title: string,
  ): number => {
    const [from, to] = context(start, end, report.samples);
    targets.push({ id, marks, view: [place(from), place(to - 1)], title });
    return targets.length - 1;
  };
  const single = (finding: ReportFinding): Html => {
    const title = `${finding.rank} of ${report.findings.length}: ${finding.level} ${KIND_WORDS[finding.kind]} in ${finding.column}, ${whenWords(finding)}`;
    return findingItem(finding, target(finding, [findings.indexOf(finding)], title), report);
  };
  const items: Html[] = [];
  const done = new Set<string>();
  for (const finding of findings) {
    if (finding.incident === null) items.push(single(finding));
    else if (!done.has(finding.incident)) {
      done.add(finding.incident);
      const incident = report.incidents.find(({ id }) => id === finding.incident)!;
      const members = findings.filter((other) => other.incident === incident.id);
      const title = `${incident.columns.length} columns together, ${whenWords(incident)}`;
      const shown = target(
        incident,
        members.map((other) => findings.indexOf(other)),
        title,
      );
      items.push(incidentItem(incident, members.map(single), shown, report));
    }
  }
  return { items, targets };
}

const moreInJson = (count: number): Html | null =>
  count > 0 ? html`<p>${grouped(count)} more are in the JSON file.</p>` : null;

/** Renders the intervals that only the policy marks and adds their plot targets; also returns all marked intervals. */
function aloneBlock(
  report: AnomalyReport,
  targets: PlotTarget[],
  place: (sample: number) => number,
): { readonly block: Html | null; readonly marked: { column: string; start: number; end: number }[] } {
  const alone = markedAlone(report);
  const marked = (report.policy?.columns ?? []).flatMap(({ column, intervals }) =>
    intervals.filter(({ finding }) => finding).map(({ start, end }) => ({ column, start, end })),
  );
  if (alone.length === 0) return { block: null, marked };
  const items = alone.slice(0, MOST_ALONE).map(({ column, interval }, i) => {
    const { start, end } = interval;
    const [from, to] = context(start, end, report.samples);
    const words = claimWords(interval);
    targets.push({
      ...{ marks: [], marked: marked.length, view: [place(from), place(to - 1)] },
      id: `policy-${i + 1}`,
      title: `Policy alone, ${i + 1} of ${alone.length}: ${words} in ${column}, ${whenWords(interval)}`,
    });
    marked.push({ column, start, end });
    return html`<li><button type="button" class="pick" data-target="${targets.length - 1}" aria-pressed="false"><span class="level">policy</span><span class="when">${whenWords(interval)}</span><span class="what">${column} \u00b7 ${words}${
      interval.confidence == null ? null : ` \u00b7 confidence ${confidenceWords(interval.confidence)}`
    }</span></button></li>
`;
  });
  const hidden = alone.length - items.length;
  const block = html`<div class="alone"><h3 id="alone">Marked by the policy alone</h3><ol class="findings" aria-labelledby="alone">${items}</ol>${moreInJson(hidden)}</div>`;
  return { block, marked };
}

/** Title of the x axis. */
function axisTitle({ zone, origin, from, to }: AnomalyReport): string {
  if (from === null || to === null) return 'sample';
  const unit = axisUnit(to.ms - from.ms)[0];
  if (origin === 'midnight') return `${unit} since the first midnight`;
  if (origin === 'start') return `${unit} since the start`;
  return zone === null ? 'time, as written in the file' : `time, ${zone}`;
}

/** Renders the headline: number of findings, then the worst one. Time stamps do not wrap. */
function headline(report: AnomalyReport): Html {
  const unbroken = (text: string): (Html | string)[] =>
    text
      .split(/(\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?)/)
      .map((part, i) => (i % 2 === 1 ? html`<span>${part}</span>` : part));
  if (report.findings.length === 0) return html`<p class="headline">${unbroken(report.headline)}</p>`;
  const [, first, rest] = /^([^.:]*[.:]) (.*)$/s.exec(report.headline)!;
  return html`<p class="headline">${first!.replace(':', '.')}</p><p class="since">${unbroken(upperFirst(rest!))}</p>`;
}

function columnsTable(report: AnomalyReport): Html {
  const words = ({ least, largest }: AnomalyReport['columns'][number], value: number | null): string =>
    numberWords(value, least === null || largest === null ? null : largest - least);
  return pageTable({
    label: 'Columns',
    head: ['Column', 'Findings', 'Missing', 'Minimum', 'Mean', 'Maximum', 'Usual behaviour'],
    rows: report.columns.map((column) => [
      ...[column.name, String(column.findings), grouped(column.missing)],
      ...[column.least, column.mean, column.largest].map((value) => words(column, value)),
      { text: column.structure, look: 'structure' },
    ]),
  });
}

function notesBlock(report: AnomalyReport): Html | null {
  const { faults, assumptions: texts } = noteTexts(report);
  const [open, rest] = [texts.slice(0, OPEN_NOTES), texts.slice(OPEN_NOTES)];
  return html`${
    faults.length === 0
      ? null
      : html`<div class="notes" role="note" aria-label="Data quality"><strong>Data quality</strong>${bullets(faults)}</div>`
  }${
    open.length === 0
      ? null
      : html`<div class="notes" role="note" aria-label="Assumptions about the file">${bullets(open)}${
          rest.length === 0
            ? null
            : html`<details><summary>${rest.length} more about the file</summary>${bullets(rest)}</details>`
        }</div>`
  }`;
}

/** The columns that are drawn: those of the worst incident or finding first; those without findings last, in the order of the file. */
function drawnColumns(report: AnomalyReport, { columns }: ReportSource): ReportSource['columns'] {
  const order = [...new Set(report.findings.map(({ id, incident }) => incident ?? id))];
  const place = (name: string): number => {
    const worst = report.findings.find(({ column }) => column === name);
    return worst === undefined
      ? Number.MAX_VALUE
      : order.indexOf(worst.incident ?? worst.id) * report.findings.length + worst.rank;
  };
  return columns.toSorted((a, b) => place(a.name) - place(b.name)).slice(0, MOST_COLUMNS);
}

const WEEK = 7 * DAY;

/** Returns true if a week before a part of the recording can be shown. */
const isLong = ({ time, origin }: ReportSource): boolean =>
  time !== null && origin === 'calendar' && time.length > 0 && time.at(-1)! - time[0]! >= WEEK + DAY;

/** Returns the note about downsampling under the plot; null if the page holds all values. */
function reductionWords(columns: PlotData['columns'], samples: number): string | null {
  const kept = columns.reduce((sum, column) => sum + column.kept, 0);
  if (kept === samples * columns.length) return null;
  const all = samples * columns.length;
  return `This page holds ${grouped(kept)} of ${grouped(all)} values: the minimum and maximum of about every ${Math.max(2, Math.round((3 * all) / kept))} samples, and more around the findings.`;
}

/**
 * Renders the page of a verified report; the report may hold only selected findings.
 *
 * @param seen pictures that the policy saw
 * @throws DataError for a picture that is no PNG data URI
 */
export function reportPage(
  report: AnomalyReport,
  source: ReportSource,
  seen: SeenPictures = new Map(),
): string {
  const places = axisPlaces(source);
  const place = (sample: number): number => places[sample]!;
  const step = evenStep(places);
  const findings = report.findings.slice(0, MOST_FINDINGS);
  const drawn = drawnColumns(report, source);
  const { items, targets } = entries(report, findings, place);
  const { block: alone, marked } = aloneBlock(report, targets, place);
  const drawnAt = (column: string): number => drawn.findIndex(({ name }) => name === column);
  const marks = findings.map(
    (finding): PlotMark => ({
      rank: finding.rank,
      column: drawnAt(finding.column),
      level: finding.level,
      from: place(finding.start),
      to: place(finding.end - 1),
      peak: place(finding.peak.index),
      value: finding.observed.peak,
      similar: finding.similar.map(({ start, end }) => [place(start), place(end - 1)] as const),
    }),
  );
  const data: PlotData = {
    samples: report.samples,
    timed: source.time !== null && source.origin === 'calendar',
    axisTitle: axisTitle(report),
    even: step === null ? null : { first: places[0] ?? 0, step },
    week: isLong(source) ? WEEK : null,
    whole: [places[0] ?? 0, places.at(-1) ?? 1],
    breaks: breaksOf(source),
    columns: drawn.map((column) => {
      const inColumn = report.findings.filter((finding) => finding.column === column.name);
      return pageColumn(column, inColumn, { places, even: step !== null, columns: drawn.length });
    }),
    marks,
    marked: marked.map(({ column, start, end }) => ({
      ...{ column: drawnAt(column), from: place(start), to: place(end - 1) },
    })),
    targets,
    levels: Object.entries(LEVELS),
  };
  const reduced = reductionWords(data.columns, report.samples);
  const whole =
    report.from === null || report.to === null ? null : spanWords(report.from.shown, report.to.shown);
  const byline = [
    `${grouped(report.samples)} samples${source.columns.length > 1 ? ` of ${source.columns.length} columns` : ''}`,
    ...(whole === null ? [] : [whole]),
    ...(report.stepSeconds === null ? [] : [`one every ${durationWords(report.stepSeconds)}`]),
  ];
  const hidden = report.findings.length - findings.length;
  const undrawn = source.columns.length - drawn.length;
  const signs = Object.keys(LEVELS)
    .reverse()
    .map((name) => html`<li>${levelBadge(name)}</li>`);
  const body = html`<header class="top"><h1><bdi>${report.file}</bdi></h1>
${headline(report)}${
  report.policy === undefined
    ? null
    : html`<p class="since">Detector and policy: ${agreementWords(report.policy.agreement)}</p>`
}
<p class="byline">${byline.join(' \u00b7 ')}<span class="copy"> \u00b7 <button type="button" id="copy" data-text="${`${report.file}: ${report.headline}`}">Copy for chat</button></span></p>
${notesBlock(report)}</header>
<main class="report"><div class="board">
<div class="plotside"><ul class="key"><li><span class="swatch line"></span>observed</li><li><span class="swatch usual"></span>expected (when zoomed in)</li><li><span class="swatch band"></span>usual range (99 % of the samples outside findings)</li>${marked.length === 0 ? null : html`<li><span class="swatch marked"></span>marked by the policy</li>`}${signs}</ul>
<div id="plot" role="group" aria-label="Plot of ${drawn.map(({ name }) => name).join(', ')} with the findings and their score. The list next to it has the same findings as text."></div>
<noscript><p class="failure">The plot needs JavaScript. The script is part of this file; nothing is loaded.</p></noscript>
<div class="bar" role="group" aria-label="What the plot shows">${
    targets.length === 0
      ? null
      : html`<button type="button" id="previous">\u2039 Previous</button><button type="button" id="next">Next \u203a</button>`
  }<span id="shown" role="status" aria-live="polite"></span>${data.week === null ? null : html`<button type="button" id="week" aria-pressed="false">Week before</button>`}<button type="button" id="all">Show all</button></div>
<p class="hint">Drag across the plot to zoom in. Click a finding to show it; in the list, \u2191 \u2193 move and Enter shows it. Esc shows everything.${undrawn === 0 ? null : ` Not drawn: ${undrawn} columns with less severe findings.`}${reduced === null ? null : ` ${reduced}`}</p></div>
<section class="unusual" aria-labelledby="unusual" style="border:0;padding:0"><h2 id="unusual">Findings</h2>${
    items.length === 0
      ? html`<p>Nothing unusual was found.</p>`
      : html`<ol class="findings" id="findings">${items}</ol>`
  }${hidden === 0 ? null : html`<p>${grouped(hidden)} less severe findings are in the JSON file.</p>`}${alone}</section></div>
<section class="usual-shape" aria-labelledby="columns"><h2 id="columns">Columns</h2>${columnsTable(report)}</section>
${policyBlock(report.policy, seen)}</main>${FOOTER}${jsonBlock('report-data', data)}`;
  return page({
    title: `${report.file}: ${report.findings.length === 0 ? 'nothing unusual' : report.headline.split(/[.:]/)[0]!}`,
    style: `${STYLE}${PAGE_STYLE}${report.policy === undefined ? '' : POLICY_STYLE}`,
    body,
    scripts: plotScripts(),
  });
}

/** Pictures by column and by `windowKey`, PNG data URIs. */
type SeenPictures = ReadonlyMap<string, ReadonlyMap<string, string>>;

type Policy = NonNullable<AnomalyReport['policy']>;
type Column = Policy['columns'][number];

/** Maximum number of intervals listed per column. */
const MOST_INTERVALS = 50;

const POLICY_STYLE = `
.policy{border-top:1px solid var(--rule);padding-top:1.2rem}
.policy .secondary{color:var(--soft);max-width:none}
.policy details{margin:.4rem 0 1rem}.policy summary{cursor:pointer}.policy summary h2{display:inline}
.policy article{border-top:1px solid var(--rule);padding:.8rem 0 0}
.policy img{max-width:100%}`.replaceAll('\n', '');

const DOUBT_WORDS: Readonly<Record<Doubt, string>> = {
  unreadable: 'cannot be read',
  unlike: 'unlike the training data',
  unsure: 'low confidence in the answer',
  samples: 'a different answer when asked again',
  shifts: 'contradicted by overlapping windows',
  repeated: 'same text as for many other windows',
};

function intervalsTable({ intervals }: Column): Html | null {
  if (intervals.length === 0) return null;
  const rest = intervals.length - MOST_INTERVALS;
  const hasConfidence = intervals.some(({ confidence }) => confidence !== undefined);
  const table = pageTable({
    label: 'Intervals of the policy',
    look: 'record spans',
    head: ['When', 'Samples', 'What', ...(hasConfidence ? ['Confidence'] : []), 'Detector'],
    rows: intervals
      .slice(0, MOST_INTERVALS)
      .map((interval) => [
        ...[whenWords(interval), `${interval.start} to ${interval.end - 1}`, claimWords(interval)],
        ...(hasConfidence ? [confidenceWords(interval.confidence ?? null)] : []),
        interval.finding ? 'finding there' : 'no finding there',
      ]),
  });
  return html`${table}${hasConfidence ? html`<p>Confidence: share of similar intervals that were correct on held-out series and on recordings with made anomalies.</p>` : null}${moreInJson(rest)}`;
}

/** Signals whose limit is a minimum; it is a maximum for the others. */
const AT_LEAST: readonly Doubt[] = ['unsure', 'samples', 'shifts'];

function limitWords({ name, limit }: PolicySignal): string {
  if (limit === null) return 'none';
  return `at ${AT_LEAST.includes(name) ? 'least' : 'most'} ${signalNumber(limit)}`;
}

const signalsTable = (signals: readonly PolicySignal[]): Html =>
  pageTable({
    label: 'Reliability of the answers',
    look: 'record spans',
    head: ['Measure', 'Value', 'Limit', 'Windows beyond the limit'],
    rows: signals.map((signal) => [
      ...[signal.text, signalNumber(signal.value), limitWords(signal)],
      signal.windows === 0 || signal.limit === null
        ? '\u2013'
        : `${grouped(signal.doubtful)} of ${grouped(signal.windows)}`,
    ]),
  });

function answerBlock(answer: PolicyAnswer, seen: string | undefined): Html {
  const season = answer.deseasonalised ? ', without their season' : '';
  const name = `samples ${answer.start} to ${answer.end - 1}${season}`;
  return html`<article><h4>Window of ${name}</h4>
<p>${answer.doubts.length === 0 ? 'Used' : `Not used: ${answer.doubts.map((doubt) => DOUBT_WORDS[doubt]).join('; ')}`}. Class <bdi>${answer.class ?? 'unreadable'}</bdi>; marks ${intervalText(answer.intervals)}.</p>
${seen === undefined ? null : seenFigure(seen, `The window of ${name} as the policy sees it`)}${problemNote(answer.problem)}${verbatim(answer.response)}</article>\n`;
}

/** Turns of a policy that looked closer, in their order; null for one that did not. */
function pathBlock({ answers }: Column, seen: ReadonlyMap<string, string> | undefined): Html | null {
  if (answers.length === 0) return null;
  const turns = answers.map(({ start, end, response, problem, intervals }, i) => {
    const picture = seen?.get(turnKey(i));
    const name = `Turn ${i + 1}: samples ${grouped(start)} to ${grouped(end - 1)}`;
    return html`<article><h4>${name}</h4>
${picture === undefined ? null : seenFigure(picture, `Turn ${i + 1} as the policy sees it`)}${problemNote(problem)}${verbatim(response)}<p>Marked so far: ${intervalText(intervals)}.</p></article>\n`;
  });
  return html`<details open><summary>Where it looked, turn by turn</summary>${turns}</details>`;
}

function columnBlock(column: Column, seen: ReadonlyMap<string, string> | undefined, several: boolean): Html {
  const shown = shownAnswers(column.answers);
  const rest = column.answers.length - shown.length;
  return html`${several ? html`<h3>${column.column}</h3>` : null}<p><strong>${column.statement}</strong></p>
${intervalsTable(column)}${
  column.signals.length === 0
    ? pathBlock(column, seen)
    : html`<details><summary>Reliability of its answers</summary>${signalsTable(column.signals)}</details>
<details><summary>Its responses, verbatim</summary>${shown.map((answer) => answerBlock(answer, seen?.get(windowKey(answer))))}${
        rest === 0 ? null : html`<p>${grouped(rest)} more answers are in the JSON file.</p>`
      }</details>`
}`;
}

/** Who tells of an interval of the ranking. */
const BY_WORDS = { both: 'detector and policy', detector: 'detector', policy: 'policy' } as const;

/** Table of what detector and policy tell, most confident first. */
function rankingTable({ ranking, columns }: Policy): Html | null {
  if (ranking.length === 0) return null;
  const several = columns.length > 1;
  const rest = ranking.length - MOST_INTERVALS;
  const table = pageTable({
    label: 'Intervals of detector and policy by confidence',
    look: 'record spans',
    head: ['When', ...(several ? ['Column'] : []), 'Confidence', 'Told by'],
    rows: ranking
      .slice(0, MOST_INTERVALS)
      .map((one) => [
        whenWords(one),
        ...(several ? [one.column] : []),
        ...[confidenceWords(one.confidence), BY_WORDS[one.by]],
      ]),
  });
  return html`<h3 id="ranking">By confidence</h3>${table}${moreInJson(rest)}`;
}

/** Renders the section of the policy; null if none was asked. @throws DataError for a picture that is no PNG data URI */
function policyBlock(policy: AnomalyReport['policy'], seen: SeenPictures): Html | null {
  if (policy === undefined) return null;
  const several = policy.columns.length > 1;
  return html`<section class="policy"><details><summary><h2>What the policy says</h2></summary>
<p class="secondary">The policy looked at plots of the same columns. Its answers do not change the findings, ranks and levels above.</p>
${rankingTable(policy)}
${policy.columns.map((column) => columnBlock(column, seen.get(column.column), several))}
<details><summary>About the policy <bdi>${policy.name}</bdi></summary>${bullets(policy.notes)}${recordTable('Policy', policy.record)}</details></details></section>
`;
}

/** Default output path: the file name and the selected columns, so that results of one file do not replace each other. */
export function defaultTarget(file: string, asked: readonly string[]): string {
  const safe = asked.map((name) => name.replace(/[^\p{L}\p{N}_-]+/gu, '_').slice(0, 40));
  return `${[parse(file).name, ...safe].join('.').slice(0, 80)}.explain`;
}

/** Returns true for a file that holds a report. */
export function isOurs(path: string): boolean {
  try {
    const text = readFileSync(path, 'utf8');
    if (path.endsWith('.html')) return text.includes('Written by timeseer.');
    return Object(JSON.parse(text)).schema === REPORT_SCHEMA;
  } catch {
    return false;
  }
}

/** Maximum bytes of a file name: file systems allow 255, and temporary files add about 50. */
const LONGEST_NAME = 200;

/** Returns the nearest existing path above a path. */
function nearestExisting(path: string): string {
  const parent = dirname(path);
  return existsSync(parent) || parent === path ? parent : nearestExisting(parent);
}

/**
 * Checks an output path before any work is done: it must be writable, and hold nothing but an earlier report.
 * @throws WriteError; ConfigError
 */
export function checkTarget(out: string): void {
  if (out.endsWith('/')) throw new ConfigError(`--out ${out}: name the files in it, such as ${out}report`);
  if (Buffer.byteLength(basename(out)) > LONGEST_NAME) {
    throw new WriteError(
      `--out: the name ${basename(out).slice(0, 40)}\u2026 is longer than ${LONGEST_NAME} bytes; choose a shorter one with --out`,
    );
  }
  const above = nearestExisting(out);
  if (existsSync(above) && !statSync(above).isDirectory()) {
    throw new WriteError(
      `--out ${out}: ${above} is a file, not a directory; choose another place with --out`,
    );
  }
  tidyUp(dirname(out), (name) => name === `${basename(out)}.html` || name === `${basename(out)}.json`);
  for (const path of [`${out}.html`, `${out}.json`]) {
    if (!existsSync(path)) continue;
    if (!statSync(path).isFile())
      throw new ConfigError(`--out ${out}: ${path} is a directory; choose another --out`);
    if (!isOurs(path)) {
      throw new ConfigError(
        `--out ${out}: ${path} exists and was not written by this command; it is kept. Choose another --out`,
      );
    }
  }
}

/** Writes `<out>.html` and `<out>.json`: both, or after a failure neither. Errors as `reportPage`; WriteError. */
export function writeReport(
  out: string,
  report: AnomalyReport,
  source: ReportSource,
  seen?: SeenPictures,
): { readonly html: string; readonly json: string } {
  const text = reportPage(report, source, seen);
  const files = { html: `${out}.html`, json: `${out}.json` };
  tidyUp(dirname(out), (name) => [files.html, files.json].some((file) => basename(file) === name));
  writeFilesAtomic([
    [files.html, text],
    [files.json, toJson(report)],
  ]);
  return files;
}
