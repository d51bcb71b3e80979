/** Interactive training curves: data prepared here, drawn in the browser by an inlined plotly.js. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Html, html, jsonBlock } from '../src/html/html.ts';
import type { Curve, CurvePanel } from './report-input.ts';

/** Points per curve that a page carries; longer ones are averaged in buckets. */
const MAX_POINTS = 1000;

/** A curve as it travels in the page: raw points, and the moving mean where one is wanted. */
interface Trace {
  readonly name: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
  readonly smooth: readonly (number | null)[] | null;
}

function meanOf(values: readonly (number | null)[], from: number, to: number): number | null {
  let sum = 0;
  let count = 0;
  for (let i = from; i < to; i++) {
    const value = values[i];
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    sum += value;
    count++;
  }
  return count === 0 ? null : sum / count;
}

/** Centred moving mean over `width` entries, shorter at the ends; missing entries are left out. */
export function movingMean(values: readonly (number | null)[], width: number): (number | null)[] {
  const half = Math.floor(width / 2);
  return values.map((_, i) => meanOf(values, Math.max(0, i - half), Math.min(values.length, i + half + 1)));
}

const short = (value: number | null): number | null =>
  value === null || !Number.isFinite(value) ? null : Number(value.toPrecision(5));

function buckets<T>(values: readonly (number | null)[], pick: (from: number, to: number) => T): T[] {
  const count = Math.min(values.length, MAX_POINTS);
  return Array.from({ length: count }, (_, b) =>
    pick(Math.floor((b * values.length) / count), Math.floor(((b + 1) * values.length) / count)),
  );
}

function trace(curve: Curve, width: number): Trace {
  const smoothed = width > 1 ? movingMean(curve.y, width) : null;
  return {
    name: curve.name,
    x: buckets(curve.y, (from, to) => short(meanOf(curve.x, from, to)) ?? from),
    y: buckets(curve.y, (from, to) => short(meanOf(curve.y, from, to))),
    smooth: smoothed === null ? null : buckets(smoothed, (from, to) => short(meanOf(smoothed, from, to))),
  };
}

function digits(value: number): string {
  const small = value !== 0 && Math.abs(value) < 5e-4;
  return (small ? value.toExponential(1) : String(Number(value.toPrecision(3)))).replaceAll('-', '\u2212');
}

/** "0.52 → 0.83": what the curve says, for readers who cannot see it. */
function ends(line: Trace): Html | null {
  const values = (line.smooth ?? line.y).filter((value) => value !== null);
  const first = values[0];
  const last = values.at(-1);
  if (first === undefined || last === undefined) return html`<p class="ends">${line.name}: no value</p>`;
  const how = line.smooth === null ? '' : ' (moving mean)';
  return html`<p class="ends">${line.name}: ${digits(first)} \u2192 ${digits(last)}${how}</p>`;
}

/** Containers and data of the panels. Drawn by `curveScripts`. */
export function curvesBlock(panels: readonly CurvePanel[]): Html {
  const drawn = panels.map((panel) => ({
    xLabel: panel.xLabel,
    log: panel.log ?? false,
    traces: panel.curves.map((curve) => trace(curve, panel.smooth ?? 1)),
  }));
  return html`<div class="curves">${panels.map(
    (panel, i) => html`<figure>
<figcaption><h3>${panel.title}</h3>${panel.definition}</figcaption>
<div class="curve" id="curve-${i}" role="img" aria-label="Curve: ${panel.title}. ${panel.definition}"></div>
${drawn[i]!.traces.map(ends)}</figure>
`,
  )}</div>
<noscript><p class="failure">The curves need JavaScript; it is inside this file and loads nothing.</p></noscript>
${jsonBlock('curve-data', drawn)}`;
}

/** Runs in the browser. Colours come from the style sheet, so that both schemes and paper are right. */
const DRAW = `(() => {
'use strict';
const root = document.documentElement;
const panels = JSON.parse(document.getElementById('curve-data').textContent);
// 1, 2 and 5 of every decade, written out: plotly's own labels drop the power of ten.
const decades = (traces) => {
  const values = traces.flatMap((trace) => trace.y).filter((value) => value > 0);
  const ticks = [];
  for (let e = Math.floor(Math.log10(Math.min(...values))); e <= Math.log10(Math.max(...values)); e++)
    for (const digit of [1, 2, 5]) ticks.push(Number(digit + 'e' + e));
  return values.length === 0 ? {} : {tickvals: ticks, ticktext: ticks.map(String)};
};
const draw = () => {
  const css = getComputedStyle(root);
  const color = (name) => css.getPropertyValue('--' + name).trim();
  const axis = {gridcolor: color('grid'), linecolor: color('rule'), zerolinecolor: color('rule'), automargin: true,
    tickfont: {size: 11}, fixedrange: false};
  return panels.map((panel, i) => {
    const data = panel.traces.flatMap((trace, t) => {
      const line = {color: color('c' + (t % 5 + 1)), width: 1.8};
      const base = {x: trace.x, type: 'scatter', mode: 'lines', name: trace.name, connectgaps: false};
      const raw = {...base, y: trace.y, line: {...line, width: trace.smooth ? 1 : 1.8}, opacity: trace.smooth ? .3 : 1,
        showlegend: !trace.smooth, hoverinfo: trace.smooth ? 'skip' : undefined};
      if (trace.x.length === 1) raw.mode = 'markers';
      return trace.smooth ? [raw, {...base, y: trace.smooth, line}] : [raw];
    });
    const layout = {
      autosize: true, height: 230, margin: {l: 44, r: 10, t: 8, b: 36}, paper_bgcolor: 'rgba(0,0,0,0)',
      plot_bgcolor: 'rgba(0,0,0,0)', font: {family: css.fontFamily, size: 12, color: color('soft')},
      xaxis: {...axis, title: {text: panel.xLabel, standoff: 6, font: {size: 11}}},
      yaxis: {...axis, ...(panel.log ? {type: 'log', ...decades(panel.traces)} : {nticks: 5, exponentformat: 'e', rangemode: panel.traces.some((trace) => trace.y.some((value) => value < 0)) ? 'normal' : 'nonnegative'})},
      hovermode: 'x unified', hoverlabel: {bgcolor: color('card'), bordercolor: color('rule'), font: {color: color('ink')}},
      showlegend: panel.traces.length > 1, legend: {orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: {size: 11}},
    };
    return Plotly.react('curve-' + i, data, layout, {displaylogo: false, displayModeBar: false, responsive: true});
  });
};
const show = () => Promise.all(draw()).then(() => { root.dataset.curves = 'drawn'; });
show().catch((error) => {
  for (const box of document.querySelectorAll('.curve')) {
    box.className = 'failure';
    box.textContent = 'The curve could not be drawn: ' + error.message;
  }
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
addEventListener('beforeprint', () => { root.dataset.scheme = 'light'; draw(); });
addEventListener('afterprint', () => { delete root.dataset.scheme; draw(); });
})();`;

let plotly: string | undefined;

/** Program texts to inline, in order: plotly.js, then the drawing. */
export function curveScripts(): string[] {
  plotly ??= readFileSync(
    createRequire(import.meta.url).resolve('plotly.js-basic-dist-min/plotly-basic.min.js'),
    'utf8',
  );
  return [plotly, DRAW];
}
