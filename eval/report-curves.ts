/** Interactive training curves: data prepared here, drawn in the browser by an inlined plotly.js. */
import { meanOrNull, partsOf, sum } from '../src/ground/numbers.ts';
import { type Html, html, jsonBlock, plotly } from '../src/html/html.ts';
import { loggedName } from '../src/train/glossary.ts';
import type { Curve, CurvePanel } from './report.ts';
import type { RlLine, SftLine, ValidationLine } from './run-directory.ts';

type Value = number | null;

/** Curve of a number of logged lines; a line without it leaves a gap. */
export const curveOf = <Line>(
  name: string,
  lines: readonly Line[],
  x: (line: Line) => number,
  y: (line: Line) => Value | undefined,
): Curve => ({ name, x: lines.map(x), y: lines.map((line) => y(line) ?? null) });

const isDrawn = ({ y }: Curve): boolean => y.some((value) => value !== null);

/** Odd width of a moving mean that leaves about 40 independent values. */
export function smoothing(steps: number): number {
  return 2 * Math.floor(steps / 80) + 1;
}

/** Examples per second of each step, over all workers, from rank 0's clock. */
function throughput(lines: readonly SftLine[]): Value[] {
  return lines.map(({ samples, ms }, i) => {
    const total = sum(Object.values(ms));
    const seen = samples - (lines[i - 1]?.samples ?? 0);
    return total > 0 && seen > 0 ? (1000 * seen) / total : null;
  });
}

/** Losses of supervised stages in one panel, a curve for each that has one. */
export function supervisedPanel(
  stages: readonly { readonly name: string; readonly lines: readonly SftLine[] }[],
): CurvePanel {
  const curves = stages.map(({ name, lines }) =>
    curveOf(
      name,
      lines,
      ({ samples }) => samples,
      ({ loss }) => loss,
    ),
  );
  return {
    title: 'Supervised loss',
    definition: 'Mean negative log-likelihood of the expert trace, in nats per token; down is better.',
    xLabel: 'examples seen',
    curves: curves.filter(isDrawn),
    smooth: smoothing(Math.max(...stages.map(({ lines }) => lines.length))),
    log: true,
  };
}

/** Loss and throughput of the supervised stage; no panel without lines. */
export function sftPanels(lines: readonly SftLine[]): CurvePanel[] {
  if (lines.length === 0) return [];
  const x = lines.map((line) => line.samples);
  return [
    supervisedPanel([{ name: 'loss', lines }]),
    {
      title: 'Supervised throughput',
      definition: 'Examples per second: series, picture, trace and update together; higher is faster.',
      xLabel: 'examples seen',
      curves: [{ name: 'examples/s', x, y: throughput(lines) }],
      smooth: smoothing(lines.length),
    },
  ];
}

/** Panel of a number that reinforcement logs, without the curves that have no value. */
export function rlPanel(
  title: string,
  name: string,
  { curves, ...look }: Pick<CurvePanel, 'xLabel' | 'curves' | 'smooth'>,
): CurvePanel {
  return { title, definition: loggedName('rl', name)!.definition, ...look, curves: curves.filter(isDrawn) };
}

/** Panels of the reinforcement stage called `method`; no panel without lines, no curve without values. */
export function rlPanels(lines: readonly RlLine[], method: string): CurvePanel[] {
  if (lines.length === 0) return [];
  const curve = (name: string, value: (line: RlLine) => Value | undefined): Curve =>
    curveOf(name, lines, ({ step }) => step, value);
  const parts = [...new Set(lines.flatMap((line) => Object.keys(line.parts)))];
  const phases = [...new Set(lines.flatMap((line) => Object.keys(line.ms)))];
  const panel = (title: string, name: string, curves: readonly Curve[], smooth = 1): CurvePanel =>
    rlPanel(title, name, { xLabel: `${method} step`, curves, smooth });
  const wide = smoothing(4 * lines.length);
  const total = curve('total', (line) => line.reward);
  return [
    panel(
      'Reward of rollouts',
      'reward',
      [total, ...parts.map((part) => curve(part, (line) => line.parts[part]))],
      wide,
    ),
    panel(
      'Similarity to the expert traces',
      'similarity',
      [curve('similarity', (line) => line.similarity)],
      wide,
    ),
    panel(
      'Reasoning of rollouts',
      'reasoning',
      [
        curve('claim F1', (line) => line.reasoning?.claimF1),
        curve('agreement', (line) => line.reasoning?.agreement),
      ],
      wide,
    ),
    panel('KL to the reference', 'kl', [curve('KL', (line) => line.kl)]),
    panel('Entropy', 'entropy', [curve('entropy', (line) => line.entropy)]),
    panel('Clipped tokens', 'clipped', [curve('clipped', (line) => line.clipped)]),
    panel('Zero-variance groups', 'equalRewards', [
      curve('equal rewards', (line) => line.equalRewards),
      curve('skipped', (line) => line.zeroVariance),
    ]),
    panel('Gap between sampler and trainer', 'samplerGap', [
      curve('|\u0394 log \u03c0|', (line) => line.samplerGap),
    ]),
    {
      ...panel(
        'Time of a step',
        'ms',
        phases.map((phase) =>
          curve(phase, (line) => (line.ms[phase] === undefined ? null : line.ms[phase] / 1000)),
        ),
      ),
      definition: 'Seconds by phase, mean over the workers.',
    },
  ].filter(({ curves }) => curves.length > 0);
}

/** Metrics of evaluations during training that are drawn, in the order of the legend. */
const VALIDATED = [
  ['reward', 'reward'],
  ['format', 'format'],
  ['class_accuracy', 'class'],
  ['answer_accuracy', 'answer'],
  ['point_f1', 'point F1'],
  ['affiliation_f1', 'affiliation F1'],
] as const;

/** Scores on validation series while the stage called `method` trained; no panel where it was not evaluated, no curve without values. */
export function validationPanels(lines: readonly ValidationLine[], method: string): CurvePanel[] {
  const curves = VALIDATED.map(([key, name]) =>
    curveOf(
      name,
      lines,
      ({ step }) => step,
      ({ metrics }) => metrics[key],
    ),
  ).filter(isDrawn);
  if (curves.length === 0) return [];
  return [
    {
      title: `Validation during ${method}`,
      definition: `Greedy answers to the same ${lines[0]!.examples} validation series; up is better. Where the recipe keeps the best policy, it is chosen here, never on held-out series.`,
      xLabel: `${method} step`,
      curves,
    },
  ];
}

/** Points per curve that a page carries; longer ones are averaged in buckets. */
const MAX_POINTS = 1000;

/** A curve as it travels in the page: raw points, and the moving mean where one is wanted. */
interface Trace {
  readonly name: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
  readonly smooth: readonly (number | null)[] | null;
  /** Its colour and dashes, counted over all curves of the block. */
  readonly look: number;
  readonly low: readonly (number | null)[] | null;
  readonly high: readonly (number | null)[] | null;
}

function meanOf(values: readonly (number | null)[]): number | null {
  const present = values.filter((value) => value !== null && Number.isFinite(value));
  return meanOrNull(present as number[]);
}

/** Centred moving mean over `width` entries, shorter at the ends; missing entries are left out. */
export function movingMean(values: readonly (number | null)[], width: number): (number | null)[] {
  const half = Math.floor(width / 2);
  return values.map((_, i) => meanOf(values.slice(Math.max(0, i - half), i + half + 1)));
}

const short = (value: number | null): number | null =>
  value === null || !Number.isFinite(value) ? null : Number(value.toPrecision(5));

/** Means of a curve's parts, as many as a page carries. */
const carried = (values: readonly (number | null)[]): (number | null)[] =>
  partsOf(values, MAX_POINTS).map((part) => short(meanOf(part)));

function trace({ name, x, y, band }: Curve, width: number, look: number): Trace {
  return {
    ...{ name, look, low: band ? carried(band.low) : null, high: band ? carried(band.high) : null },
    x: carried(x) as number[],
    y: carried(y),
    smooth: width > 1 ? carried(movingMean(y, width)) : null,
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

/**
 * Containers and data of the panels. Drawn by `curveScripts`.
 *
 * @param prefix of the ids: another one for each block of a page
 * @param names where all panels have curves of these names: one legend above them, whose entries are switched on and off together
 */
export function curvesBlock(
  panels: readonly CurvePanel[],
  prefix = 'curve',
  names: readonly string[] | null = null,
): Html {
  const drawn = panels.map((panel) => ({
    xLabel: panel.xLabel,
    log: panel.log ?? false,
    traces: panel.curves.map((curve, c) =>
      trace(curve, panel.smooth ?? 1, names === null ? c : names.indexOf(curve.name)),
    ),
  }));
  const valuesOf = (traces: readonly Trace[]): Html =>
    names === null
      ? html`${traces.map(ends)}`
      : html`<details><summary>First and last values</summary>${traces.map(ends)}</details>`;
  const legend =
    names === null
      ? null
      : html`<div class="legend" role="group" aria-label="Curves shown" data-curves="${prefix}">${names.map(
          (name, n) =>
            html`<button type="button" aria-pressed="true" data-look="${n}"><svg viewBox="0 0 26 8" aria-hidden="true"><line x1="1" x2="25" y1="4" y2="4" style="stroke:var(--c${(n % LOOKS) + 1})" stroke-dasharray="${DASHES[Math.floor(n / LOOKS) % DASHES.length]!}"/></svg>${name}</button>`,
        )}</div>`;
  return html`${legend}<div class="curves">${panels.map(
    (panel, i) => html`<figure>
<figcaption><h3>${panel.title}</h3>${panel.definition}</figcaption>
<div class="curve" id="${prefix}-${i}" role="img" aria-label="Curve: ${panel.title}. ${panel.definition}"></div>
${valuesOf(drawn[i]!.traces)}</figure>
`,
  )}</div>
<noscript><p class="failure">The curves need JavaScript; it is inside this file and loads nothing.</p></noscript>
${jsonBlock(`${prefix}-data`, { prefix, shared: names !== null, panels: drawn })}`;
}

/** Colours of the style sheet; further curves have them again, with other dashes. */
const LOOKS = 5;
const DASHES = ['none', '6 3', '2 2'];

/** Runs in the browser. Colours come from the style sheet, so that both schemes and paper are right. */
const DRAW = `(() => {
'use strict';
const root = document.documentElement;
const blocks = [...document.querySelectorAll('script[id$="curve-data"]')].map((data) => ({...JSON.parse(data.textContent), hidden: new Set()}));
const dashes = ['solid', '6px,3px', '2px,2px'];
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
  return blocks.flatMap(({prefix, shared, panels, hidden}) => panels.map((panel, i) => {
    const shown = panel.traces.filter((trace) => !hidden.has(trace.look));
    const data = shown.flatMap((trace) => {
      const line = {color: color('c' + (trace.look % 5 + 1)), dash: dashes[Math.floor(trace.look / 5) % 3], width: 1.8};
      const base = {x: trace.x, type: 'scatter', mode: 'lines', name: trace.name, connectgaps: false};
      const raw = {...base, y: trace.y, line: {...line, width: trace.smooth ? 1 : 1.8}, opacity: trace.smooth ? .3 : 1,
        showlegend: !trace.smooth, hoverinfo: trace.smooth ? 'skip' : undefined};
      if (trace.x.length === 1) raw.mode = 'markers';
      const edge = {...base, line: {width: 0}, hoverinfo: 'skip', showlegend: false};
      const band = trace.low ? [{...edge, y: trace.high}, {...edge, y: trace.low, fill: 'tonexty', fillcolor: line.color + '1c'}] : [];
      return trace.smooth ? [...band, raw, {...base, y: trace.smooth, line}] : [...band, raw];
    });
    const layout = {
      autosize: true, height: 230, margin: {l: 44, r: 10, t: 8, b: 36}, paper_bgcolor: 'rgba(0,0,0,0)',
      plot_bgcolor: 'rgba(0,0,0,0)', font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: color('soft')},
      xaxis: {...axis, title: {text: panel.xLabel, standoff: 6, font: {size: 11}}},
      yaxis: {...axis, ...(panel.log ? {type: 'log', ...decades(panel.traces)} : {nticks: 5, exponentformat: 'e', rangemode: panel.traces.some((trace) => trace.y.some((value) => value < 0)) ? 'normal' : 'nonnegative'})},
      hovermode: 'x unified', hoverlabel: {bgcolor: color('card'), bordercolor: color('rule'), font: {color: color('ink')}},
      showlegend: !shared && panel.traces.length > 1, legend: {orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: {size: 11}},
    };
    return Plotly.react(prefix + '-' + i, data, layout, {displaylogo: false, displayModeBar: false, responsive: true});
  }));
};
for (const legend of document.querySelectorAll('.legend')) {
  const {hidden} = blocks.find(({prefix}) => prefix === legend.dataset.curves);
  legend.addEventListener('click', ({target}) => {
    const button = target.closest('button');
    if (button === null) return;
    const look = Number(button.dataset.look);
    if (!hidden.delete(look)) hidden.add(look);
    button.setAttribute('aria-pressed', String(!hidden.has(look)));
    draw();
  });
}
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

/** Program texts to inline, in order: plotly.js, then the drawing. */
export const curveScripts = (): string[] => [plotly(), DRAW];
