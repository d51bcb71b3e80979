/** The plot of a report page: the samples that travel in the page, its marks, and the program that draws it with plotly.js. */

import { wallTime } from '../../datasets/readers/clock.ts';
import { extent } from '../ground/numbers.ts';
import { plotly } from '../html/html.ts';
import type { ReportColumn, ReportSource } from './report.ts';

/** Bytes of samples in a page, before base64. */
const BUDGET = 1_050_000;
/** Bytes of a sample: value, expected value and band (float32), and score (uint16). */
const BYTES = 18;
/** Samples around a finding that are kept in full; of more, the extremes. */
const AROUND = 2000;
/** Fewest parts of the series whose extremes are kept. */
const FEWEST_PARTS = 300;

/** A stretch [start, end) in samples. */
type Stretch = readonly [start: number, end: number];

/** Returns a stretch with its surroundings: three times its length, at least 50 samples, on each side. */
export function context(start: number, end: number, samples: number): Stretch {
  const around = Math.max(3 * (end - start), 50);
  return [Math.max(0, start - around), Math.min(samples, end + around)];
}

/** Marks the least and the largest value, the largest score and a missing value of each of `parts` parts of a stretch. */
function markExtremes(
  { values, detection }: ReportColumn,
  [start, end]: Stretch,
  parts: number,
  marks: Uint8Array,
): void {
  const size = (end - start) / Math.max(1, parts);
  for (let part = 0; part < parts; part++) {
    const [from, to] = [Math.floor(start + part * size), Math.floor(start + (part + 1) * size)];
    let [least, largest, score, gap] = [-1, -1, from, -1];
    for (let i = from; i < to; i++) {
      const value = values[i]!;
      if (Number.isNaN(value)) gap = i;
      else {
        if (least < 0 || value < values[least]!) least = i;
        if (largest < 0 || value > values[largest]!) largest = i;
      }
      if (detection.score[i]! > detection.score[score]!) score = i;
    }
    for (const i of [least, largest, gap]) if (i >= 0) marks[i] = 1;
    if (from < to) marks[score] = 1;
  }
}

/**
 * Indices of the samples to keep, ascending, about `most` of them: all if they fit; else the extremes of equal parts of the series, and
 * around each stretch of `important` (most important first) all samples or the extremes of many parts.
 */
export function keptSamples(column: ReportColumn, important: readonly Stretch[], most: number): Uint32Array {
  const n = column.values.length;
  if (n <= most) return Uint32Array.from({ length: n }, (_, i) => i);
  const marks = new Uint8Array(n);
  marks[0] = marks[n - 1] = 1;
  const count = (): number => marks.reduce((sum, mark) => sum + mark, 0);
  const share = Math.min(AROUND, Math.floor((most * 0.7) / Math.max(1, important.length)));
  for (const [start, end] of important) {
    const [from, to] = context(start, end, n);
    if (to - from <= share) marks.fill(1, from, to);
    else {
      markExtremes(column, [from, to], Math.floor(share / 3), marks);
      marks[start] = marks[end - 1] = 1;
    }
  }
  markExtremes(column, [0, n], Math.max(FEWEST_PARTS, Math.floor((most - count()) / 3)), marks);
  const kept = new Uint32Array(count());
  for (let i = 0, k = 0; i < n; i++) if (marks[i] === 1) kept[k++] = i;
  return kept;
}

/** Returns the longest unit of which a length of time has at least two. */
export function axisUnit(ms: number): readonly [name: string, ms: number] {
  const units = [
    ['days', 86_400_000],
    ['hours', 3_600_000],
    ['minutes', 60_000],
  ] as const;
  return units.find(([, size]) => ms >= 2 * size) ?? ['seconds', 1000];
}

/**
 * Places of the samples on the x axis: the clock of the recording's zone in ms; a number of units for times without a date; sample numbers
 * without time.
 */
export function axisPlaces({ time, zone, origin, columns }: ReportSource): Float64Array {
  const n = columns[0]?.values.length ?? 0;
  if (time === null || n === 0) return Float64Array.from({ length: n }, (_, i) => i);
  if (origin !== 'calendar') {
    const [, unit] = axisUnit(time[n - 1]! - time[0]!);
    return time.map((ms) => ms / unit);
  }
  return time.map((ms) => wallTime(ms, zone));
}

/** Returns the samples after which nothing was recorded for more than three usual steps. */
export function breaksOf({ time, step }: Pick<ReportSource, 'time' | 'step'>): number[] {
  if (time === null || time.length < 3) return [];
  const steps = time.subarray(1).map((ms, i) => ms - time[i]!);
  const usual = step ?? [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)]!;
  const breaks: number[] = [];
  for (let i = 0; i < steps.length; i++) if (steps[i]! > 3 * usual) breaks.push(i);
  return breaks;
}

function base64(array: ArrayBufferView): string {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
}

/** Numbers as base64 of float32, value = base + scale × number, so that large offsets and magnitudes keep their digits. */
interface EncodedNumbers {
  readonly base: number;
  readonly scale: number;
  readonly data: string;
}

/** Encodes numbers; those of 1e−30 to 1e30 that vary by more than a thousandth are stored unscaled. NaN stays NaN. */
export function encodeNumbers(values: Float64Array): EncodedNumbers {
  const [least, largest] = extent(values.filter(Number.isFinite));
  const magnitude = Math.max(Math.abs(least), Math.abs(largest));
  const spread = largest / 2 - least / 2;
  const offset = spread > 0 && spread < magnitude / 1000;
  const base = offset ? least / 2 + largest / 2 : 0;
  const size = offset ? spread : magnitude;
  const scale = size > 1e30 || (size < 1e-30 && size > 0) ? size : 1;
  return { base, scale, data: base64(Float32Array.from(values, (value) => (value - base) / scale)) };
}

/** Column in the page. */
interface PageColumn {
  readonly name: string;
  /** Indices of the kept samples (uint32), null where all are kept; and their places where they are not evenly spaced (float64). */
  readonly index: string | null;
  readonly place: string | null;
  readonly kept: number;
  readonly value: EncodedNumbers;
  readonly expected: EncodedNumbers;
  readonly low: EncodedNumbers;
  readonly high: EncodedNumbers;
  /** Hundredths (uint16). */
  readonly score: string;
}

/** Distance of neighbouring places; null if it varies. */
export function evenStep(places: Float64Array): number | null {
  const step = places.length < 2 ? 1 : (places.at(-1)! - places[0]!) / (places.length - 1);
  for (let i = 0; i < places.length; i++) {
    if (Math.abs(places[i]! - (places[0]! + i * step)) > 1e-3 * step) return null;
  }
  return step;
}

/** Encodes a column within its share of the page's size, with most detail around `findings` (most severe first). */
export function pageColumn(
  column: ReportColumn,
  findings: readonly { readonly start: number; readonly end: number }[],
  { places, even, columns }: { places: Float64Array; even: boolean; columns: number },
): PageColumn {
  const { values, detection } = column;
  const most = Math.floor(
    BUDGET / columns / (BYTES + (even ? 0 : 8) + (values.length > 50_000 / columns ? 4 : 0)),
  );
  const important = findings.slice(0, 100).map(({ start, end }) => [start, end] as const);
  const kept = keptSamples(column, important, most);
  const all = kept.length === values.length;
  const pick = (from: Float64Array): Float64Array => (all ? from : Float64Array.from(kept, (i) => from[i]!));
  return {
    name: column.name,
    index: all ? null : base64(kept),
    place: even ? null : base64(pick(places)),
    kept: kept.length,
    value: encodeNumbers(pick(values)),
    expected: encodeNumbers(pick(detection.expected)),
    low: encodeNumbers(pick(detection.low)),
    high: encodeNumbers(pick(detection.high)),
    score: base64(
      Uint16Array.from(pick(detection.score), (score) => Math.min(65_535, Math.round(100 * score))),
    ),
  };
}

/** Mark of a finding in the plot; places are those of the x axis. */
export interface PlotMark {
  readonly rank: number;
  /** Index among the drawn columns; −1 if it is not drawn. */
  readonly column: number;
  readonly level: string;
  readonly from: number;
  readonly to: number;
  readonly peak: number;
  readonly value: number | null;
  /** Similar stretches. */
  readonly similar: readonly (readonly [from: number, to: number])[];
}

/** View of a list entry in the plot: a finding, or the findings of an incident. */
export interface PlotTarget {
  readonly marks: readonly number[];
  /** First and last place of the view. */
  readonly view: readonly [from: number, to: number];
  /** Index of an interval that the policy marks. */
  readonly marked?: number;
  /** Title in the bar under the plot. */
  readonly title: string;
  /** Fragment of the address that selects it. */
  readonly id: string;
}

export interface PlotData {
  readonly samples: number;
  readonly timed: boolean;
  readonly axisTitle: string;
  /** Place of the first sample and distance of neighbours; null where the columns carry places. */
  readonly even: { readonly first: number; readonly step: number } | null;
  /** A week on the axis; null where less than a week and a day is recorded, or there are no dates. */
  readonly week: number | null;
  /** Places of the first and the last sample. */
  readonly whole: readonly [from: number, to: number];
  /** Samples after which there is a gap in time. */
  readonly breaks: readonly number[];
  readonly columns: readonly PageColumn[];
  readonly marks: readonly PlotMark[];
  /** Intervals that a policy marks. */
  readonly marked: readonly Pick<PlotMark, 'column' | 'from' | 'to'>[];
  readonly targets: readonly PlotTarget[];
  /** Names of the levels, and the score from which each begins. */
  readonly levels: readonly (readonly [name: string, from: number])[];
}

/** Signs of the levels, so that colour alone carries no meaning: character in lists, plotly symbol in the plot. */
export const LEVEL_SIGNS: Readonly<Record<string, readonly [sign: string, symbol: string]>> = {
  low: ['\u25cf', 'circle'],
  medium: ['\u25a0', 'square'],
  high: ['\u25b2', 'triangle-up'],
  critical: ['\u25c6', 'diamond'],
};

/** Program for the browser. Colours come from the style sheet, which serves both schemes and paper. */
const DRAW = `(() => {
'use strict';
const root = document.documentElement;
root.classList.add('js');
const data = JSON.parse(document.getElementById('report-data').textContent);
const box = document.getElementById('plot');
const signs = ${JSON.stringify(Object.fromEntries(Object.entries(LEVEL_SIGNS).map(([name, [, symbol]]) => [name, symbol])))};
const plain = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const digits = (value, spread) => !Number.isFinite(value) ? '\\u2013'
  : String(Number(spread > 0 && Math.abs(value) < 1e15 ? value.toFixed(Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(spread))))) : value.toPrecision(6))).replaceAll('-', '\\u2212');
const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
const numbers = ({base, scale, data}) => Float64Array.from(new Float32Array(bytes(data)), (value) => base + scale * value);
const columns = data.columns.map((column) => {
  const index = column.index === null ? Uint32Array.from({length: data.samples}, (_, i) => i) : new Uint32Array(bytes(column.index));
  const place = data.even === null ? new Float64Array(bytes(column.place)) : Float64Array.from(index, (i) => data.even.first + i * data.even.step);
  return {name: column.name, index, place, value: numbers(column.value), expected: numbers(column.expected),
    low: numbers(column.low), high: numbers(column.high), score: Float64Array.from(new Uint16Array(bytes(column.score)), (n) => n / 100)};
});
const pad = (data.whole[1] - data.whole[0]) * .01 || 1;
const whole = [data.whole[0] - pad, data.whole[1] + pad];
let view = whole;
let selected = -1;
let earlier = false;

/** First place of sorted numbers that is at least the wanted one. */
const search = (sorted, wanted) => {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] < wanted) low = middle + 1; else high = middle; }
  return low;
};
const broken = (a, b) => { const at = search(data.breaks, a); return at < data.breaks.length && data.breaks[at] < b; };

/** Samples in view: all, or the extremes of as many parts as fit. */
const reduce = (column, ago = 0) => {
  const from = Math.max(0, search(column.place, view[0] - ago) - 1);
  const to = Math.min(column.index.length, search(column.place, view[1] - ago) + 1);
  const most = Math.floor(7500 / columns.length);
  const {index, place, value, low, high, expected, score} = column;
  const line = {x: [], y: [], k: []}, usual = {x: [], y: []}, rarity = {x: [], y: []}, polygons = {x: [], y: []};
  let edge = {x: [], low: [], high: []};
  const closeBand = () => {
    if (edge.x.length > 0) {
      if (polygons.x.length > 0) { polygons.x.push(null); polygons.y.push(null); }
      for (let i = 0; i < edge.x.length; i++) { polygons.x.push(edge.x[i]); polygons.y.push(edge.high[i]); }
      for (let i = edge.x.length - 1; i >= 0; i--) { polygons.x.push(edge.x[i]); polygons.y.push(edge.low[i]); }
    }
    edge = {x: [], low: [], high: []};
  };
  const exact = (to - from) * 5 <= most;
  const parts = exact ? to - from : Math.max(50, Math.min(Math.floor(most / 5), Math.floor(box.clientWidth)));
  const size = (index[to - 1] + 1 - index[from]) / parts;
  let last = -1;
  for (let k = from; k < to;) {
    const first = k;
    const until = exact ? 0 : index[from] + (Math.floor((index[k] - index[from]) / size) + 1) * size;
    let least = -1, most = -1, gap = -1, bottom = Infinity, top = -Infinity, worst = 0;
    // a part ends at a gap
    for (; k < to && (k === first || (index[k] < until && !broken(index[k - 1], index[k]))); k++) {
      if (Number.isNaN(value[k])) gap = k;
      else {
        if (least < 0 || value[k] < value[least]) least = k;
        if (most < 0 || value[k] > value[most]) most = k;
      }
      if (low[k] < bottom) bottom = low[k];
      if (high[k] > top) top = high[k];
      if (score[k] > worst) worst = score[k];
    }
    const cut = last >= 0 && broken(index[last], index[first]);
    last = k - 1;
    if (cut) {
      for (const one of [line, usual, rarity]) { one.x.push(place[first]); one.y.push(null); }
      line.k.push(-1);
      closeBand();
    }
    const kept = [...new Set([least, most, gap])].filter((i) => i >= 0).sort((a, b) => a - b);
    for (const i of kept) { line.x.push(place[i]); line.y.push(Number.isNaN(value[i]) ? null : value[i]); line.k.push(i); }
    const middle = (first + k - 1) >> 1;
    if (bottom <= top) { edge.x.push(place[middle]); edge.low.push(bottom); edge.high.push(top); } else closeBand();
    if (exact) { usual.x.push(place[first]); usual.y.push(Number.isNaN(expected[first]) ? null : expected[first]); }
    rarity.x.push(place[middle]);
    rarity.y.push(worst);
  }
  closeBand();
  return {line, usual, rarity, polygons};
};

/** Scores from 0 to hundreds in one track: the levels lie about evenly. */
const squeeze = (score) => Math.log2(1 + score);

const draw = () => {
  const css = getComputedStyle(root);
  const color = (name) => css.getPropertyValue('--' + name).trim();
  const ink = color('ink'), soft = color('soft');
  const n = columns.length;
  const narrow = box.clientWidth < 560;
  const tall = n === 1 ? (narrow ? 230 : 320) : n === 2 ? 200 : n === 3 ? 165 : 125;
  const gap = 30, track = 62, margin = {l: narrow ? 48 : 62, r: 14, t: 26, b: 46};
  const inner = n * tall + n * gap + track;
  const axis = {gridcolor: color('grid'), linecolor: color('rule'), zerolinecolor: color('rule'), tickfont: {size: 11}};
  const layout = {
    autosize: true, height: inner + margin.t + margin.b, margin, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: soft}, showlegend: false, dragmode: 'zoom', separators: '.\\u202f', modebar: {bgcolor: 'rgba(0,0,0,0)', color: soft, activecolor: color('accent')},
    hovermode: 'x unified', hoversubplots: 'axis', hoverlabel: {bgcolor: color('card'), bordercolor: color('rule'), font: {color: ink, size: 12}},
    xaxis: {...axis, type: data.timed ? 'date' : 'linear', range: [...view], autorange: false, anchor: 'y' + (n + 1), title: {text: plain(data.axisTitle), standoff: 6, font: {size: 11}},
      hoverformat: data.timed ? '%a %Y-%m-%d %H:%M:%S' : '.8~g', nticks: narrow ? 4 : 9, showspikes: false},
    shapes: [], annotations: [],
  };
  const traces = [];
  const selectedMarks = new Set(selected < 0 ? [] : data.targets[selected].marks);
  columns.forEach((column, c) => {
    const top = 1 - c * (tall + gap) / inner;
    const y = c === 0 ? 'y' : 'y' + (c + 1);
    const ref = y + ' domain';
    layout['yaxis' + (c === 0 ? '' : c + 1)] = {...axis, domain: [Math.max(0, top - tall / inner), top], fixedrange: true, nticks: n > 2 ? 4 : 6,
      exponentformat: 'SI', zeroline: false, anchor: 'x', automargin: false};
    layout.annotations.push({text: (n > 1 ? '<span style="color:' + color('c' + (c % 5 + 1)) + '">\\u25ac</span> ' : '') + '<b>' + plain(column.name.length > 60 ? column.name.slice(0, 59) + '\\u2026' : column.name) + '</b>', xref: 'paper', x: 0, yref: 'paper', y: top,
      xanchor: 'left', yanchor: 'bottom', showarrow: false, font: {size: 12, color: ink}});
    const {line, usual, rarity, polygons} = reduce(column);
    const base = {type: 'scatter', xaxis: 'x', yaxis: y, hoverinfo: 'skip', connectgaps: false};
    traces.push({...base, ...polygons, mode: 'none', fill: 'toself', fillcolor: color('band'), hoveron: 'points'});
    if (usual.x.length > 0) traces.push({...base, ...usual, mode: 'lines', line: {color: soft, width: 1, dash: '4px,3px'}});
    if (earlier) {
      const before = reduce(column, data.week).line;
      traces.push({...base, x: before.x.map((x) => x + data.week), y: before.y, mode: 'lines', line: {color: soft, width: 1, dash: 'dot'}});
    }
    traces.push({...base, x: line.x, y: line.y, mode: line.x.length === 1 ? 'markers' : 'lines', line: {color: color('series'), width: 1.5}, hoverinfo: undefined,
      text: line.k.map((k) => {
        if (k < 0) return '';
        const words = (value) => digits(value, column.high[k] - column.low[k]);
        return plain(column.name) + ' <b>' + words(column.value[k]) + '</b><br>expected ' + words(column.expected[k]) + ' (' + words(column.low[k]) + ' to '
          + words(column.high[k]) + ')<br>score ' + digits(column.score[k], 1);
      }),
      hovertemplate: '%{text}<extra></extra>'});
    traces.push({...base, x: rarity.x, y: rarity.y.map((score) => score === null ? null : squeeze(score)), yaxis: 'y' + (n + 1), mode: 'lines',
      line: {color: n === 1 ? color('series') : color('c' + (c % 5 + 1)), width: 1.2}, ...(n === 1 ? {fill: 'tozeroy', fillcolor: color('band')} : {})});
    // the least severe first, so that the most severe lie on top
    const marks = data.marks.map((mark, m) => ({...mark, m})).filter((mark) => mark.column === c && mark.to >= view[0] && mark.from <= view[1]).reverse();
    const half = (data.even ? data.even.step : 0) / 2;
    for (const mark of marks) {
      const chosen = selectedMarks.has(mark.m);
      layout.shapes.push({type: 'rect', xref: 'x', yref: ref, x0: mark.from - half, x1: mark.to + half, y0: 0, y1: 1, layer: 'below',
        fillcolor: color(mark.level), opacity: chosen ? .24 : .13, line: {color: color(mark.level), width: 1}});
      if (chosen) for (const [from, to] of mark.similar) layout.shapes.push({type: 'rect', xref: 'x', yref: ref, x0: from - half, x1: to + half, y0: 0, y1: 1,
        layer: 'below', fillcolor: 'rgba(0,0,0,0)', line: {color: soft, width: 1, dash: 'dot'}});
    }
    data.marked.forEach((mark, m) => {
      if (mark.column !== c || mark.to < view[0] || mark.from > view[1]) return;
      const bar = {type: 'rect', xref: 'x', yref: ref, x0: mark.from - half, x1: mark.to + half, y1: 1, line: {color: color('policy'), width: 1}};
      layout.shapes.push({...bar, y0: .955, layer: 'above', fillcolor: color('policy')});
      if (selected >= 0 && data.targets[selected].marked === m) layout.shapes.push({...bar, y0: 0, layer: 'below', fillcolor: color('policy'), opacity: .2});
    });
    const width = (view[1] - view[0]) / Math.max(1, box.clientWidth);
    const taken = [];
    const labelled = new Set();
    for (const mark of [...marks].reverse()) {
      if (taken.some((place) => Math.abs(place - mark.peak) < 18 * width)) continue;
      taken.push(mark.peak);
      labelled.add(mark.m);
    }
    const peaks = marks.filter((mark) => mark.value !== null);
    traces.push({...base, x: peaks.map((mark) => mark.peak), y: peaks.map((mark) => mark.value), mode: 'markers+text', cliponaxis: false, customdata: peaks.map((mark) => mark.m),
      text: peaks.map((mark) => labelled.has(mark.m) ? '<b>' + mark.rank + '</b>' : ''), textposition: 'top center', textfont: {size: 12, color: ink},
      marker: {opacity: 1, size: peaks.map((mark) => selectedMarks.has(mark.m) ? 13 : 10), symbol: peaks.map((mark) => signs[mark.level]),
        color: peaks.map((mark) => color(mark.level)), line: {color: color('card'), width: 1.5}}});
  });
  const top = Math.max(1, ...traces.filter((trace) => trace.yaxis === 'y' + (n + 1)).flatMap((trace) => trace.y));
  layout['yaxis' + (n + 1)] = {...axis, domain: [0, track / inner], fixedrange: true, range: [0, Math.max(squeeze(9), top) * 1.06], anchor: 'x', zeroline: false,
    tickvals: data.levels.map(([, from]) => squeeze(from)), ticktext: data.levels.map(([name], k) => k === 0 || k === data.levels.length - 1 ? name : ''), tickfont: {size: narrow ? 8 : 10}};
  layout.annotations.push({text: '<b>Score</b>', xref: 'paper', x: 0, yref: 'paper', y: track / inner, xanchor: 'left', yanchor: 'bottom',
    showarrow: false, font: {size: 12, color: ink}});
  return Plotly.react(box, traces, layout, {staticPlot: false, displaylogo: false, responsive: true, doubleClick: false, scrollZoom: false,
    displayModeBar: narrow ? false : 'hover', modeBarButtons: [['toImage', 'zoom2d', 'pan2d']],
    toImageButtonOptions: {filename: 'anomalies'}});
};

const buttons = [...document.querySelectorAll('.pick')];
const shown = document.getElementById('shown');
const whole_button = document.getElementById('all');
const more = data.targets.length;
/** The entry of the list at which the arrow keys are. */
const rove = (button) => { for (const one of buttons) one.tabIndex = one === button ? 0 : -1; };
const say = () => {
  const zoomed = view[0] !== whole[0] || view[1] !== whole[1];
  for (const button of buttons) {
    const on = Number(button.dataset.target) === selected;
    button.setAttribute('aria-pressed', String(on));
    button.closest('li').classList.toggle('selected', on);
  }
  if (whole_button) whole_button.disabled = !zoomed;
  if (shown) shown.textContent = selected >= 0 ? data.targets[selected].title : zoomed ? 'Part of the recording' : 'The whole recording';
  if (location.protocol !== 'about:') // a frame without an address
    history.replaceState(null, '', selected >= 0 ? '#' + data.targets[selected].id : location.pathname + location.search);
  root.dataset.view = zoomed ? selected >= 0 ? 'finding' : 'part' : 'whole';
};
const showAll = () => { view = whole; selected = -1; say(); return draw(); };
const show = (target, reveal) => {
  selected = target;
  view = [...data.targets[target].view];
  const button = buttons.find((one) => Number(one.dataset.target) === target);
  if (button) {
    rove(button);
    if (reveal) button.scrollIntoView({block: 'nearest'});
  }
  say();
  const top = box.getBoundingClientRect().top;
  if (!reveal && (top < -40 || top > innerHeight * .6)) box.scrollIntoView({block: 'start'});
  return draw().then(() => {
    // Its row may lie below the fold: of the plot that scrolls beside the list, or of the page.
    const mark = data.targets[target].marks.map((m) => data.marks[m].column).find((column) => column >= 0);
    if (mark === undefined) return;
    const height = box.clientHeight / columns.length;
    const side = box.closest('.plotside');
    if (side.scrollHeight > side.clientHeight + 1) side.scrollTop = box.offsetTop - side.offsetTop + mark * height - 40;
    else if (!reveal && box.getBoundingClientRect().top + (mark + 1) * height > innerHeight) scrollBy(0, box.getBoundingClientRect().top + mark * height - 40);
  });
};
const step = (by) => { if (more > 0) show(selected < 0 ? (by > 0 ? 0 : more - 1) : (selected + by + more) % more, true); };
for (const button of buttons) button.addEventListener('click', () => {
  const target = Number(button.dataset.target);
  if (target === selected && root.dataset.view === 'finding') showAll(); else show(target, false);
});
for (const list of document.querySelectorAll('.findings')) list.addEventListener('keydown', (event) => {
  const at = buttons.indexOf(document.activeElement);
  if (at < 0) return;
  const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = buttons[Math.max(0, Math.min(buttons.length - 1, to))];
  rove(next);
  next.focus();
});
addEventListener('keydown', (event) => { if (event.key === 'Escape' && root.dataset.view !== 'whole') showAll(); });
const copy = document.getElementById('copy');
if (copy) copy.addEventListener('click', async () => {
  const text = copy.dataset.text + (location.protocol.startsWith('http') ? '\\n' + location.href : '');
  try { await navigator.clipboard.writeText(text); }
  catch {
    const area = document.body.appendChild(document.createElement('textarea'));
    area.value = text;
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  copy.textContent = 'Copied';
  setTimeout(() => { copy.textContent = 'Copy for chat'; }, 2000);
});
const week = document.getElementById('week');
if (week) week.addEventListener('click', () => {
  earlier = !earlier;
  week.setAttribute('aria-pressed', String(earlier));
  draw();
});
for (const [id, act] of [['all', showAll], ['previous', () => step(-1)], ['next', () => step(1)]]) {
  const button = document.getElementById(id);
  if (button) button.addEventListener('click', act);
}
/** Place of a value of the axis; plotly gives dates as text without a zone. */
const placeOf = (value) => typeof value === 'number' ? value : data.timed ? Date.parse(value.replace(' ', 'T') + (value.length > 10 ? 'Z' : '')) : Number(value);
const failed = (error) => {
  box.className = 'failure';
  box.textContent = 'The plot could not be drawn: ' + error.message;
};
const linked = data.targets.findIndex(({id}) => '#' + id === decodeURIComponent(location.hash));
if (buttons.length > 0) rove(buttons[0]);
if (linked < 0) say();
(linked < 0 ? draw() : show(linked, true)).then(() => {
  box.on('plotly_relayout', (change) => {
    const range = change['xaxis.range'] ?? [change['xaxis.range[0]'], change['xaxis.range[1]']];
    if (change['xaxis.autorange']) showAll();
    else if (range[0] !== undefined) {
      view = range.map(placeOf);
      selected = -1;
      say();
      draw();
    } else if (change.autosize) draw();
  });
  box.on('plotly_doubleclick', () => { showAll(); });
  box.on('plotly_click', ({points}) => {
    const place = placeOf(points[0].x);
    const near = (view[1] - view[0]) / Math.max(1, box.clientWidth) * 8;
    const hit = data.targets.findIndex(({marks}) => marks.length === 1 && marks.some((m) => data.marks[m].from - near <= place && place <= data.marks[m].to + near));
    if (hit >= 0) show(hit, true);
  });
  root.dataset.report = 'drawn';
}).catch(failed);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
addEventListener('beforeprint', () => { root.dataset.scheme = 'light'; draw(); Plotly.relayout(box, {width: 680}); });
addEventListener('afterprint', () => { delete root.dataset.scheme; draw(); });
})();`;

/** Scripts to inline, in order: plotly.js, then the drawing. */
export const plotScripts = (): string[] => [plotly(), DRAW];
