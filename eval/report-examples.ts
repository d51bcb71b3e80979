/** Held-out examples: plot, true and predicted answer, the policy's words beside the expert trace. */

import { type Html, html, inlineSvg, pngSource } from '../src/html/html.ts';
import { fixed } from '../src/html/numbers.ts';
import type { Interval } from '../src/types.ts';
import type { ReportExample } from './report-input.ts';

/** Characters of a response that a page shows. */
const MAX_SHOWN = 20_000;

/** Text of unknown origin, verbatim up to a length that keeps the page small. */
export function verbatim(text: string, look: 'code' | 'prose' = 'code'): Html {
  const shown = text.slice(0, MAX_SHOWN);
  const rest = text.length - shown.length;
  return html`<pre class="${look}" tabindex="0">${shown}${rest > 0 ? `\n\u2026 and ${rest} more characters` : null}</pre>`;
}

export function intervalText(intervals: readonly Interval[] | null): string {
  if (intervals === null) return 'unreadable';
  if (intervals.length === 0) return 'none';
  const shown = intervals.slice(0, 20).map(([start, end]) => `[${start},\u00a0${end})`);
  return shown.join(' ') + (intervals.length > 20 ? ` and ${intervals.length - 20} more` : '');
}

/** A framed figure with its description for screen readers. */
export function plotFigure(svg: string, prefix: string, description: string): Html {
  return html`<div class="plot" role="group" aria-label="Plot" tabindex="0">${inlineSvg(svg, prefix, description)}</div>`;
}

/** Whether the main part of an answer is right; null where it could not be read. */
function verdictOf({ gold, answer }: ReportExample): 'right' | 'wrong' | 'unreadable' {
  const said = gold.kind === 'variates' ? (answer.variates ?? null) : answer.class;
  if (said === null) return 'unreadable';
  const right = gold.kind === 'variates' ? String(said) === String(gold.variates) : said === gold.class;
  return right ? 'right' : 'wrong';
}

/** Numbers of variates with their names, where they have any of their own. */
export function variateText(ids: readonly number[] | null, names: readonly string[] = []): string {
  if (ids === null) return 'unreadable';
  if (ids.length === 0) return 'none';
  return ids
    .map((id) => (names[id] === undefined || names[id] === String(id) ? id : `${id} (${names[id]})`))
    .join(', ');
}

const mark = (verdict: ReturnType<typeof verdictOf>): Html =>
  html`<span class="${verdict === 'right' ? 'met' : 'missed'}">${verdict}</span>`;

/** Gold and predicted answer side by side, and the same for a screen reader. */
function comparison(example: ReportExample): { readonly shown: Html; readonly spoken: string } {
  const { gold, answer } = example;
  const verdict = mark(verdictOf(example));
  if (gold.kind === 'variates') {
    const truth = variateText(gold.variates, example.channels);
    const found = variateText(answer.variates ?? null, example.channels);
    return {
      shown: html`Anomalous variates <strong>${truth}</strong>; the policy names <strong>${found}</strong>: ${verdict}.`,
      spoken: `Anomalous variates: ${truth}. Named: ${found}.`,
    };
  }
  const said = html`<strong><bdi>${answer.class ?? 'nothing readable'}</bdi></strong>`;
  if (gold.kind === 'classification') {
    return {
      shown: html`Gold class <strong><bdi>${gold.class}</bdi></strong>; the policy says ${said}: ${verdict}.`,
      spoken: `Gold class: ${gold.class}.`,
    };
  }
  const truth = intervalText(gold.intervals);
  const found = intervalText(answer.intervals);
  const named =
    gold.class === null
      ? html`The data do not name the class; the policy says ${said}.`
      : html`Gold class <strong>${gold.class}</strong>; the policy says ${said}: ${verdict}.`;
  return {
    shown: html`${named} True intervals ${truth}; predicted ${found}.`,
    spoken: `True intervals: ${truth}. Predicted intervals: ${found}.`,
  };
}

function exampleCard(example: ReportExample, index: number): Html {
  const { answer, score } = example;
  const { shown, spoken } = comparison(example);
  const description = `Plot of ${example.seriesId}, ${example.length} points. ${spoken}`;
  const problem = answer.problem;
  const figures = typeof example.figure === 'string' ? [example.figure] : example.figure;
  const prefix = (f: number): string => (f === 0 ? `example-${index}` : `example-${index}-${f}`);
  return html`<article class="example">
<h3><bdi>${example.seriesId}</bdi>${example.chosen === undefined ? null : html`<span class="chosen"> ${example.chosen}</span>`}</h3>
<p class="verdict">${shown}</p>
${figures.map((svg, f) => plotFigure(svg, prefix(f), description))}
${
  example.seen === undefined
    ? null
    : html`<figure class="${example.seenWhole === true ? 'seen whole' : 'seen'}"><img src="${pngSource(example.seen)}" alt="The picture of ${example.seriesId} as the policy sees it" loading="lazy"><figcaption>What the policy sees.</figcaption></figure>`
}
<dl class="parts"><div><dt>reward</dt><dd>${fixed(score.total)}</dd></div>${Object.entries(score.parts).map(
    ([name, value]) => html`<div><dt>${name}</dt><dd>${fixed(value)}</dd></div>`,
  )}</dl>
${problem === null ? null : html`<p class="failure">Not well formed: <bdi>${problem}</bdi></p>`}
<div class="pair"><div><h4>${example.by}, verbatim</h4>${verbatim(example.response)}</div>
<div><h4>${example.expcotLabel ?? 'ExpCoT of the same series'}</h4>${verbatim(example.expcot, 'prose')}</div></div>
</article>
`;
}

export function examplesBlock(examples: readonly ReportExample[]): Html {
  return html`${examples.map(exampleCard)}`;
}
