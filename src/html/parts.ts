/** Shared parts of pages: figures, scrolling tables, records, untrusted text. */
import { fixed, interval } from '../ground/numbers.ts';
import type { Estimate, Json } from '../ground/types.ts';
import { type Html, html, inlineSvg, pngSource } from './html.ts';

/** Characters of a text that a page shows. */
const MAX_SHOWN = 20_000;

/** Last line of every page. */
export const FOOTER = html`<footer>Written by timeseer. This file is complete in itself: it loads nothing from any network.</footer>`;

/** Text of unknown origin, verbatim up to a length that keeps the page small. */
export function verbatim(text: string, look: 'code' | 'prose' = 'code'): Html {
  const shown = text.slice(0, MAX_SHOWN);
  const rest = text.length - shown.length;
  return html`<pre class="${look}" tabindex="0">${shown}${rest > 0 ? `\n\u2026 and ${rest} more characters` : null}</pre>`;
}

/** A framed SVG with its description for screen readers. @throws DataError when it is not passive */
export function plotFigure(svg: string, prefix: string, description: string): Html {
  return html`<div class="plot" role="group" aria-label="Plot" tabindex="0">${inlineSvg(svg, prefix, description)}</div>`;
}

/** The picture that a policy saw; `whole`: with axes or panels, shown in its own size. @throws DataError for no PNG data URI */
export function seenFigure(uri: string, alt: string, whole = false): Html {
  return html`<figure class="${whole ? 'seen whole' : 'seen'}"><img src="${pngSource(uri)}" alt="${alt}" loading="lazy"><figcaption>What the policy sees.</figcaption></figure>`;
}

/** Explains why a response is not well formed; empty when it is. */
export function problemNote(problem: string | null): Html | null {
  return problem === null ? null : html`<p class="failure">Not well formed: <bdi>${problem}</bdi></p>`;
}

/** A table that scrolls by itself where the screen is narrower than it; `caption` stays in place above it. */
export function scrolling(label: string, table: Html, caption: string | null = null): Html {
  return html`${caption === null ? null : html`<p class="caption">${caption}</p>`}<div class="scroll" role="region" aria-label="${label}" tabindex="0">${table}</div>`;
}

/** A bulleted list of sentences. */
export function bullets(texts: readonly string[]): Html {
  return html`<ul class="list">${texts.map((text) => html`<li>${text}</li>`)}</ul>`;
}

function flatten(value: Json, path: string): [string, string][] {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, inner]) =>
      flatten(inner, path === '' ? key : `${path}.${key}`),
    );
  }
  const text = Array.isArray(value)
    ? value.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(', ')
    : String(value ?? 'unknown');
  return [[path, text]];
}

/** A nested record as key and value rows. */
export function recordTable(label: string, record: Readonly<Record<string, Json>>): Html {
  return scrolling(
    label,
    html`<table class="record"><tbody>${flatten(record, '').map(
      ([key, text]) => html`<tr><th scope="row">${key}</th><td>${text}</td></tr>\n`,
    )}</tbody></table>`,
  );
}

/** Table cell: mean above its interval. */
export function estimateCell(estimate: Estimate): Html {
  return html`<span class="mean">${fixed(estimate.mean)}</span><span class="ci">${interval(estimate)}</span>`;
}

/**
 * Draws an estimate in [0, most]: a whisker for its interval, a dot for its mean, a tick for the required value.
 * Decorative: the numbers stand beside it.
 */
export function whisker(estimate: Estimate, floor: number | null, most = 1): Html {
  const x = (value: number): string => (100 * Math.min(1, Math.max(0, value / most))).toFixed(1);
  return html`<svg class="whisker" viewBox="-2 0 104 10" preserveAspectRatio="none" aria-hidden="true" focusable="false"><line class="axis" x1="0" x2="100" y1="5" y2="5"/>${
    floor === null ? null : html`<line class="floor" x1="${x(floor)}" x2="${x(floor)}" y1="0" y2="10"/>`
  }<line class="range" x1="${x(estimate.ci95[0])}" x2="${x(estimate.ci95[1])}" y1="5" y2="5"/><line class="dot" x1="${x(estimate.mean)}" x2="${x(estimate.mean)}" y1="1.5" y2="8.5"/></svg>`;
}
