/** What `timeseer explain` found in one series: a page for a person, and the same as JSON for programs. */

import { renameSync, rmSync } from 'node:fs';
import { WriteError, writeFileAtomic } from '../files.ts';
import { type Html, html, page } from '../html/html.ts';
import { fixed, grouped } from '../html/numbers.ts';
import {
  bullets,
  FOOTER,
  plotFigure,
  problemNote,
  recordTable,
  scrolling,
  seenFigure,
  verbatim,
} from '../html/parts.ts';
import { STYLE } from '../html/style.ts';
import { intervalText } from '../tasks/anomaly.ts';
import type { Json } from '../types.ts';

/** One anomaly, half-open in indices. */
export interface ExplainedInterval {
  readonly start: number;
  readonly end: number;
  /** Time stamps of the first and of the last sample inside, as the file writes them; null without a time column. */
  readonly from: string | null;
  readonly to: string | null;
  /** Whether the classical analyses mark part of it too. */
  readonly confirmed: boolean;
}

/** What the policy said about one window of the series. */
export interface ExplainedWindow {
  readonly start: number;
  readonly end: number;
  /** In indices of the whole series; null when the answer could not be read. */
  readonly intervals: readonly (readonly [start: number, end: number])[] | null;
  readonly class: string | null;
  /** Verbatim. */
  readonly response: string;
  /** Why the response is not well formed; null when it is. */
  readonly problem: string | null;
  /** The picture that the policy saw, a PNG data URI; only of windows that the page shows. */
  readonly seen?: string;
}

/** One classical analysis and its finding. */
export interface ExplainedEvidence {
  readonly name: string;
  readonly finding: string;
  readonly intervals: readonly (readonly [start: number, end: number])[];
  readonly numbers: Readonly<Record<string, number | string | null>>;
}

/** The JSON twin of the page; the page shows exactly this. */
export interface Explanation {
  readonly file: string;
  /** Name of the numeric column; null in a file without a header. */
  readonly column: string | null;
  readonly length: number;
  /** Policy directory; null when only the classical analyses answered. */
  readonly policy: string | null;
  readonly class: string;
  readonly intervals: readonly ExplainedInterval[];
  readonly windows: readonly ExplainedWindow[];
  readonly classical: {
    readonly class: string;
    readonly intervals: readonly (readonly [start: number, end: number])[];
    readonly evidence: readonly ExplainedEvidence[];
    /** The expert chain of thought written from this evidence alone. */
    readonly trace: string;
    /**
     * Samples marked by both the policy and these intervals, over those marked by either, in [0, 1]; absent where no
     * policy gave a readable answer.
     */
    readonly agreement?: number;
  };
  /** SVG of the series with the intervals; checked to be passive before it is inlined. */
  readonly figure: string;
  readonly caveats: readonly string[];
  readonly environment: Readonly<Record<string, Json>>;
}

/** On a narrow screen a table cut off at its edge looks complete. */
const HINT = html`<p class="caption sideways">The table scrolls sideways.</p>`;
const HINT_STYLE = '.sideways{display:none}@media screen and (max-width:640px){.sideways{display:block}}';

function intervalsTable({ intervals }: Explanation): Html {
  if (intervals.length === 0) return html`<p>No anomaly was found.</p>`;
  const timed = intervals.some((one) => one.from !== null);
  return html`${HINT}${scrolling(
    'Anomalies',
    html`<table class="record spans">
<thead><tr><th scope="col">First index</th><th scope="col">End index (exclusive)</th><th scope="col">Samples</th>${timed ? html`<th scope="col">From</th><th scope="col">To</th>` : null}<th scope="col">Classical analyses</th></tr></thead>
<tbody>${intervals.map(
      (one) =>
        html`<tr><th scope="row">${one.start}</th><td>${one.end}</td><td>${grouped(one.end - one.start)}</td>${timed ? html`<td>${one.from ?? '\u2013'}</td><td>${one.to ?? '\u2013'}</td>` : null}<td>${one.confirmed ? 'mark it too' : 'do not mark it'}</td></tr>\n`,
    )}</tbody></table>`,
  )}`;
}

function evidenceTable(evidence: readonly ExplainedEvidence[]): Html {
  return html`${HINT}${scrolling(
    'Classical evidence',
    html`<table class="record spans">
<thead><tr><th scope="col">Analysis</th><th scope="col">Finding</th><th scope="col">Intervals</th><th scope="col">Numbers</th></tr></thead>
<tbody>${evidence.map((one) => {
      const numbers = Object.entries(one.numbers).map(
        ([name, value]) =>
          `${name} ${typeof value === 'number' ? Number(value.toPrecision(4)) : (value ?? '\u2013')}`,
      );
      return html`<tr><th scope="row">${one.name}</th><td>${one.finding}</td><td>${intervalText(one.intervals)}</td><td>${numbers.join('; ')}</td></tr>\n`;
    })}</tbody></table>`,
  )}`;
}

/** Windows shown in full; a series of a million points has thousands. */
const MAX_WINDOWS = 40;

/** The windows that the page shows: all, or of many the first that found something or went wrong. */
export function shownWindows(windows: readonly ExplainedWindow[]): readonly ExplainedWindow[] {
  const telling = (one: ExplainedWindow): boolean =>
    one.problem !== null || one.intervals === null || one.intervals.length > 0;
  return windows.length <= MAX_WINDOWS ? windows : windows.filter(telling).slice(0, MAX_WINDOWS);
}

function windowsBlock({ windows }: Explanation): Html {
  const chosen = shownWindows(windows);
  const hidden = windows.length - chosen.length;
  return html`${chosen.map(
    (one) => html`<article class="example"><h3>Window [${one.start}, ${one.end})</h3>
<p class="verdict">Class <strong><bdi>${one.class ?? 'unreadable'}</bdi></strong>; intervals ${intervalText(one.intervals)}.</p>
${one.seen === undefined ? null : seenFigure(one.seen, `Window [${one.start}, ${one.end}) as the policy sees it`)}
${problemNote(one.problem)}${verbatim(one.response)}</article>\n`,
  )}${hidden === 0 ? null : html`<p>${grouped(hidden)} more windows are in the JSON file.</p>`}`;
}

function agreementText({ classical, intervals }: Explanation): string {
  if (classical.agreement === undefined) return '';
  return intervals.length + classical.intervals.length === 0
    ? '; they agree'
    : `; intersection over union ${fixed(classical.agreement, 2)}`;
}

/** Intersection over union of policy and classical analyses below which they are said to disagree. */
const DISAGREEMENT = 0.1;

/** Whether the policy gave a readable answer that the classical analyses hardly share. */
export function disagrees({ classical }: Explanation): boolean {
  return classical.agreement !== undefined && classical.agreement < DISAGREEMENT;
}

function lead(input: Explanation): Html {
  const count = input.intervals.length;
  const covered = input.intervals.reduce((sum, one) => sum + one.end - one.start, 0);
  const found =
    count === 0
      ? 'no anomaly'
      : `${count === 1 ? 'one anomaly' : `${grouped(count)} anomalies`} covering ${grouped(covered)} of ${grouped(input.length)} samples`;
  const by = input.policy === null ? 'The classical analyses find' : 'The policy finds';
  const other =
    input.policy === null
      ? null
      : disagrees(input)
        ? html` <strong>The classical analyses disagree: ${input.classical.intervals.length === 0 ? 'they find nothing' : `${intervalText(input.classical.intervals)} ${input.classical.class}`}</strong>${input.intervals.length > 0 ? agreementText(input) : ''}.`
        : html` The classical analyses alone say <strong>${input.classical.class}</strong>: ${intervalText(input.classical.intervals)}${agreementText(input)}.`;
  const unreadable = input.windows.length > 0 && input.windows.every((one) => one.intervals === null);
  if (unreadable) return html`<p class="lead">The policy gave no answer that could be read.${other}</p>`;
  return html`<p class="lead">${by} ${found}; class <strong><bdi>${input.class}</bdi></strong>.${other}</p>`;
}

/**
 * The page as text: self-contained HTML without any script.
 * @throws DataError when the figure is not a passive SVG, or a picture not a PNG data URI.
 */
export function explainPage(input: Explanation): string {
  const { classical, windows } = input;
  const description = `Plot of ${input.file}, ${input.length} points. Intervals: ${intervalText(input.intervals.map((one) => [one.start, one.end] as const))}.`;
  const unreadable = windows.filter((one) => one.intervals === null).length;
  const source = [
    input.column === null ? null : `column ${input.column}`,
    `${grouped(input.length)} samples`,
    input.policy === null
      ? 'no policy'
      : `policy ${input.policy}, ${windows.length === 1 ? 'one window' : `${grouped(windows.length)} overlapping windows`}`,
  ].filter((part) => part !== null);
  const body = html`<header class="top"><h1><bdi>${input.file}</bdi></h1>
<p class="byline"><bdi>${source.join(', ')}</bdi></p>
${lead(input)}
${unreadable === 0 ? null : html`<p class="failure">${unreadable} of ${windows.length} windows got an answer that could not be read; they count as \u201cnothing found\u201d.</p>`}
${plotFigure(input.figure, 'series', description)}
</header><main>
<section aria-labelledby="intervals"><h2 id="intervals">Anomalies</h2>${intervalsTable(input)}</section>
<section aria-labelledby="evidence"><h2 id="evidence">Classical evidence</h2>${evidenceTable(classical.evidence)}
<h3>Told as an expert chain of thought</h3>${verbatim(classical.trace, 'prose')}</section>
${windows.length === 0 ? null : html`<section aria-labelledby="reasoning"><h2 id="reasoning">The policy\u2019s reasoning, verbatim</h2>${windowsBlock(input)}</section>`}
${input.caveats.length === 0 ? null : html`<section aria-labelledby="caveats"><h2 id="caveats">How to read this</h2>${bullets(input.caveats)}</section>`}
<section aria-labelledby="environment"><h2 id="environment">Environment</h2>${recordTable('Environment', input.environment)}</section>
</main>${FOOTER}`;
  return page({ title: `${input.file}: ${input.class}`, style: `${STYLE}${HINT_STYLE}`, body });
}

/** Removes what a failed write left; the failure itself is what is reported, not that this failed too. */
function discard(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // the place is as unusable for removing as it was for writing
  }
}

/**
 * Writes `<path>.html` and `<path>.json`: both, or after a failure neither. Errors as `explainPage`; WriteError.
 */
export function writeExplanation(
  path: string,
  input: Explanation,
): { readonly html: string; readonly json: string } {
  const text = explainPage(input);
  const files = { html: `${path}.html`, json: `${path}.json` };
  // The JSON waits beside its place until the page stands; renaming it takes no room.
  const waiting = `${files.json}.${process.pid}.part`;
  try {
    writeFileAtomic(waiting, `${JSON.stringify(input, null, 2)}\n`);
    writeFileAtomic(files.html, text);
    renameSync(waiting, files.json);
  } catch (error) {
    discard(waiting);
    if (error instanceof WriteError || (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new WriteError(
      `${files.json}: not written (${(error as Error).message}); choose another place with --out`,
      { cause: error },
    );
  }
  return files;
}
