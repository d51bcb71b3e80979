/** Held-out examples: plot, true and predicted answer, the policy's words beside the expert trace. */
import type { Interval } from '../src/types.ts';
import { type Html, html, inlineSvg, pngSource } from './html.ts';
import type { ReportExample } from './report-input.ts';
import { fixed } from './report-numbers.ts';

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

function exampleCard(example: ReportExample, index: number): Html {
  const { answer, score } = example;
  const right = answer.class === example.goldClass;
  const truth = intervalText(example.goldIntervals);
  const found = intervalText(answer.intervals);
  const description = `Plot of ${example.seriesId}, ${example.length} points. True intervals: ${truth}. Predicted intervals: ${found}.`;
  const verdict = answer.class === null ? 'unreadable' : right ? 'right' : 'wrong';
  const problem = answer.problem;
  return html`<article class="example">
<h3><bdi>${example.seriesId}</bdi>${example.chosen === undefined ? null : html`<span class="chosen"> ${example.chosen}</span>`}</h3>
<p class="verdict">Gold class <strong>${example.goldClass}</strong>; the policy says <strong><bdi>${answer.class ?? 'nothing readable'}</bdi></strong>: <span class="${right ? 'met' : 'missed'}">${verdict}</span>. True intervals ${truth}; predicted ${found}.</p>
${plotFigure(example.figure, `example-${index}`, description)}
${
  example.seen === undefined
    ? null
    : html`<figure class="seen"><img src="${pngSource(example.seen)}" alt="The picture of ${example.seriesId} as the policy sees it" loading="lazy"><figcaption>What the policy sees.</figcaption></figure>`
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
