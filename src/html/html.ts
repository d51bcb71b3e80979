/**
 * HTML that is safe by construction: the `html` template escapes every value that is not itself `Html`. Model
 * output, file names and recipes are data and only ever enter as strings.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { DataError } from '../ground/errors.ts';
import { leavesOf } from '../ground/json-record.ts';
import { fixed, interval } from '../ground/numbers.ts';
import type { Estimate, Json } from '../ground/types.ts';

/** Markup that may be inserted as it is. */
export class Html {
  readonly markup: string;
  constructor(markup: string) {
    this.markup = markup;
  }
  toString(): string {
    return this.markup;
  }
}

type HtmlValue = Html | string | number | null | readonly HtmlValue[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * Text for an element or a quoted attribute. Control characters other than tab and line feed, and halves of
 * surrogate pairs, which HTML cannot hold, are shown as U+FFFD.
 */
export function escapeText(text: string): string {
  return text
    .replace(/\r\n?/g, '\n')
    .replace(/[^\t\n\u0020-\u007e\u00a0-\ud7ff\ue000-\u{10ffff}]/gu, '\ufffd')
    .replace(/[&<>"']/g, (character) => ESCAPES[character]!);
}

function render(value: HtmlValue): string {
  if (value === null) return '';
  if (value instanceof Html) return value.markup;
  if (typeof value === 'string') return escapeText(value);
  if (typeof value === 'number') return String(value);
  return value.map(render).join('');
}

/** Template tag: html\`<td>${value}</td>\`. Strings are escaped, lists joined, null is nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let markup = strings[0]!;
  for (let i = 0; i < values.length; i++) markup += render(values[i]!) + strings[i + 1]!;
  return new Html(markup);
}

/** JSON for a `<script type="application/json">` block: no `<` can end the block or open a comment in it. */
export function jsonBlock(id: string, value: unknown): Html {
  const json = JSON.stringify(value).replaceAll('<', '\\u003c');
  return new Html(`<script type="application/json" id="${escapeText(id)}">${json}</script>`);
}

const SVG_ELEMENTS = new Set(
  'svg g path line polyline polygon rect circle ellipse text tspan title desc defs clippath lineargradient stop'.split(
    ' ',
  ),
);

/**
 * Checks that an SVG string only draws (no script, style sheet, link, event handler or reference outside itself)
 * and makes its ids unique by `prefix`, so that several can stand in one page. `description` is for screen readers.
 * @throws DataError naming the first element or attribute that may not be there.
 */
export function inlineSvg(svg: string, prefix: string, description: string): Html {
  const refuse = (what: string) => new DataError(`figure ${prefix}: ${what} is not allowed in an inline SVG`);
  const text = svg.replace(/^\s*(?:<\?xml[^>]*\?>\s*)?(?:<!DOCTYPE[^>[]*>\s*)?/, '').trim();
  if (!/^<svg[\s>]/.test(text) || !text.endsWith('</svg>')) throw refuse('anything but one <svg> element');
  // Everything between tags is text; a tag ends at the first ">" outside quotes.
  const tag = /<(?:\/([A-Za-z]+)\s*|([A-Za-z]+)((?:\s+[\w:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*\/?)>/y;
  for (let at = text.indexOf('<'); at !== -1; at = text.indexOf('<', tag.lastIndex)) {
    tag.lastIndex = at;
    const match = tag.exec(text);
    if (match === null) throw refuse(`"${text.slice(at, at + 20)}"`);
    const name = (match[1] ?? match[2]!).toLowerCase();
    if (!SVG_ELEMENTS.has(name)) throw refuse(`<${name}>`);
    for (const [, attribute, quoted] of (match[3] ?? '').matchAll(/([\w:-]+)\s*=\s*("[^"]*"|'[^']*')/g)) {
      if (/^on|href$|^src$/i.test(attribute!)) throw refuse(`the attribute ${attribute}`);
      if (/url\(\s*['"]?[^#'"\s]|&|\\|@import|expression/i.test(attribute === 'style' ? quoted! : '')) {
        throw refuse('a style that loads something');
      }
      if (/url\(\s*(?!#)/i.test(quoted!)) throw refuse('a reference outside the figure');
    }
  }
  return new Html(
    text
      .replace(/(\sid\s*=\s*["'])/g, `$1${prefix}-`)
      .replace(/url\(#/g, `url(#${prefix}-`)
      .replace(/^<svg\b/, () => `<svg role="img" aria-label="${escapeText(description)}" focusable="false"`),
  );
}

/** A PNG data URI for `<img src>`. @throws DataError for anything else, above all an address. */
export function pngSource(uri: string): string {
  if (!/^data:image\/png;base64,[A-Za-z0-9+/]+={0,2}$/.test(uri)) {
    throw new DataError('a picture must be a data:image/png;base64 URI: pages are self-contained');
  }
  return uri;
}

interface PageParts {
  readonly title: string;
  /** Program that wrote the page, by which it knows its own. */
  readonly generator?: string;
  readonly style: string;
  readonly body: Html;
  /** Program texts of our own, in order. Only these run: the policy of the page names their digests. */
  readonly scripts?: readonly string[];
  /** Programs of frames and Workers within the page: text of each script, and further sources of the policy by directive. */
  readonly within?: {
    readonly scripts: readonly string[];
    readonly sources: Readonly<Record<string, string>>;
  };
}

/** Source of a content-security policy that admits one script text. */
const digestOf = (script: string): string =>
  `'sha256-${createHash('sha256').update(script).digest('base64')}'`;

/**
 * Returns a whole page. Its content-security policy forbids every network access and every script but the given ones, so
 * that even markup that slipped through would be inert.
 */
export function page(parts: PageParts): string {
  const scripts = parts.scripts ?? [];
  for (const script of scripts) {
    if (/<\/script|<!--/i.test(script)) throw new DataError('page: a script text would end its own element');
  }
  const { 'script-src': more, ...others } = parts.within?.sources ?? {};
  const sources = [...scripts, ...(parts.within?.scripts ?? [])].map(digestOf);
  if (more !== undefined) sources.push(more);
  const policy = [
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    'img-src data: blob:',
    `script-src ${sources.length === 0 ? "'none'" : sources.join(' ')}`,
    ...Object.entries(others).map(([directive, allowed]) => `${directive} ${allowed}`),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `${html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
${parts.generator === undefined ? null : html`<meta name="generator" content="${parts.generator}">\n`}<meta http-equiv="Content-Security-Policy" content="${new Html(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${parts.title}</title>
<style>${new Html(parts.style)}</style>
</head>
<body>
${parts.body}
${scripts.map((text) => new Html(`<script>${text}</script>\n`))}</body>
</html>
`}`;
}

/** Characters of a text that a page shows. */
const MAX_SHOWN = 20_000;

/** Last line of every page. */
export const FOOTER = html`<footer>Written by timeseer. This page is self-contained: it loads nothing from the network.</footer>`;

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

function valueText(value: unknown): string {
  if (!Array.isArray(value)) return String(value ?? 'unknown');
  return value.map((item) => (typeof item === 'string' ? item : JSON.stringify(item))).join(', ');
}

/** A nested record as key and value rows. */
export function recordTable(label: string, record: Readonly<Record<string, Json>>): Html {
  return scrolling(
    label,
    html`<table class="record"><tbody>${leavesOf(record).map(
      ([key, value]) => html`<tr><th scope="row">${key}</th><td>${valueText(value)}</td></tr>\n`,
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

let plotlyText: string | undefined;

/** Text of plotly.js, which a page inlines before its drawings. */
export const plotly = (): string =>
  (plotlyText ??= readFileSync(
    createRequire(import.meta.url).resolve('plotly.js-basic-dist-min/plotly-basic.min.js'),
    'utf8',
  ));
