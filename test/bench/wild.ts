/**
 * The series of `wild` beside recordings, in numbers and pictures:
 * npx tsx test/bench/wild.ts [--json] [--data DIR] [--count N] [--out PAGE.html]
 *
 * Recordings are cut into parts of 1000 points, the length of the generated series. What is not at hand is said to be skipped.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { WILD_LENGTH, type WildSeries, wildSeries } from '../../datasets/generators/wild/wild.ts';
import { readRecords } from '../../datasets/readers/formats.ts';
import { compact } from '../../src/ground/numbers.ts';
import { DEPARTURE_KINDS, type Interval } from '../../src/ground/types.ts';
import { html, page } from '../../src/html/html.ts';
import { clipAndMerge } from '../../src/series/intervals.ts';
import { bridge } from '../../src/series/missing.ts';
import { autocorrelation, periodogram } from '../../src/series/spectrum.ts';
import { moments } from '../../src/series/stats.ts';
import { nabCases } from './anomaly-recordings.ts';
import { table } from './measure.ts';

interface Part {
  readonly name: string;
  readonly values: Float64Array;
  readonly truth: readonly Interval[];
}

/** What is compared: a number for each series. */
export const STATISTICS: Readonly<Record<string, (values: Float64Array) => number>> = {
  'autocorrelation at lag 1': (values) => autocorrelation(values, { lags: 1 })[1]!,
  'log₁₀ kurtosis of differences': (values) => Math.log10(kurtosis(differences(values))),
  'equal to the sample before': (values) => share(differences(values), (step) => step === 0),
  'share of zeros': (values) => share(values, (value) => value === 0),
  'log₁₀ distinct values': (values) => Math.log10(new Set(values).size),
  'spectral entropy': spectralEntropy,
  'strength of the season': seasonStrength,
  'share of jumps': jumps,
  skew: (values) => {
    const { mean, std } = moments(values);
    return std === 0 ? 0 : average(values, (value) => ((value - mean) / std) ** 3);
  },
  'log₁₀ range over median step': (values) => {
    const steps = differences(values).map(Math.abs).sort();
    const sorted = values.slice().sort();
    const step = steps[Math.floor(steps.length / 2)]!;
    const range = sorted.at(-1)! - sorted[0]!;
    return Math.log10(range / Math.max(step, range / 1e4));
  },
};

const differences = (values: Float64Array): Float64Array =>
  Float64Array.from({ length: values.length - 1 }, (_, i) => values[i + 1]! - values[i]!);
const average = (values: Float64Array, of: (value: number) => number): number =>
  values.reduce((sum, value) => sum + of(value), 0) / values.length;
const share = (values: Float64Array, which: (value: number) => boolean): number =>
  average(values, (value) => (which(value) ? 1 : 0));

function kurtosis(values: Float64Array): number {
  const { mean, std } = moments(values);
  return std === 0 ? 1 : average(values, (value) => ((value - mean) / std) ** 4);
}

/** Entropy of the power spectrum over that of white noise: 0 for a sine, 1 for noise. */
function spectralEntropy(values: Float64Array): number {
  const power = periodogram(values).power.slice(1);
  const sum = power.reduce((all, one) => all + one, 0);
  if (!(sum > 0)) return 0;
  const entropy = power.reduce((all, one) => (one > 0 ? all - (one / sum) * Math.log(one / sum) : all), 0);
  return entropy / Math.log(power.length);
}

/** The largest autocorrelation behind the first lag where it is below a fifth (or turns): 1 where cycles repeat exactly. */
function seasonStrength(values: Float64Array): number {
  const own = autocorrelation(values, { lags: Math.floor(values.length / 2), adjusted: true });
  let lag = 1;
  while (lag < own.length && own[lag]! > 0.2) lag++;
  return Math.max(0, ...own.subarray(lag));
}

/** Share of steps of more than eight times the median absolute step that is not 0. */
function jumps(values: Float64Array): number {
  const steps = differences(values).map(Math.abs);
  const moving = steps.filter((step) => step > 0).sort();
  const usual = moving[Math.floor(moving.length / 2)] ?? 0;
  return share(steps, (step) => step > 8 * usual);
}

function cut(name: string, values: Float64Array, truth: readonly Interval[]): Part[] {
  return Array.from({ length: Math.floor(values.length / WILD_LENGTH) }, (_, k) => {
    const start = k * WILD_LENGTH;
    const end = start + WILD_LENGTH;
    const inside = truth.flatMap(([a, b]): Interval[] =>
      a < end && b > start ? [[Math.max(a, start) - start, Math.min(b, end) - start]] : [],
    );
    return {
      name: `${name} ${start}`,
      values: values.slice(start, end),
      truth: clipAndMerge(inside, WILD_LENGTH),
    };
  });
}

/** Days of households' computers, every eighth, 720 points each. */
function households(directory: string): Part[] {
  const file = join(directory, 'timerbed', 'ctu', 'Computers_TRAIN.ts');
  if (!existsSync(file)) return [];
  return [...readRecords(file)].flatMap(({ channels }, k) =>
    k % 8 === 0 ? [{ name: `household ${k}`, values: channels[0]!, truth: [] }] : [],
  );
}

const QUANTILES = [0.1, 0.5, 0.9] as const;

function quantiles(parts: readonly Part[], of: (values: Float64Array) => number): number[] {
  const sorted = parts
    .map(({ values }) => of(bridge(values).values))
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  return QUANTILES.map((q) => sorted[Math.round(q * (sorted.length - 1))] ?? Number.NaN);
}

const WIDTH = 260;
const HEIGHT = 78;

/** A line with its anomalies shaded, and its name. */
function drawing({ name, values, truth }: Part) {
  const known = values.filter((value) => !Number.isNaN(value));
  const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const x = (t: number): string => ((t * WIDTH) / values.length).toFixed(1);
  const y = (value: number): string =>
    (HEIGHT - 3 - ((value - low) / (high - low || 1)) * (HEIGHT - 6)).toFixed(1);
  let path = '';
  for (let t = 0; t < values.length; t++) {
    if (Number.isNaN(values[t])) continue;
    path += `${path === '' || Number.isNaN(values[t - 1]) ? 'M' : 'L'}${x(t)},${y(values[t]!)}`;
  }
  const shades = truth.map(
    ([a, b]) =>
      html`<rect x="${x(a - 0.5)}" y="0" width="${Math.max(1.5, ((b - a) * WIDTH) / values.length).toFixed(1)}" height="${HEIGHT}" fill="#e4572e" opacity="0.28"/>`,
  );
  return html`<figure><svg width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${name}">${shades}<path d="${path}" fill="none" stroke="#2a6f97" stroke-width="0.8"/></svg><figcaption>${name} · ${compact(low)} … ${compact(high)}</figcaption></figure>`;
}

const STYLE = `body{font:14px system-ui,sans-serif;margin:1.5rem;background:#fff;color:#222}
.grid{display:grid;grid-template-columns:repeat(auto-fill,${WIDTH + 8}px);gap:6px}figure{margin:0;border:1px solid #ddd;padding:2px}
figcaption{font-size:9.5px;color:#555;overflow:hidden;white-space:nowrap;text-overflow:ellipsis}
table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}`;

/** What is said of a generated series below its picture. */
function caption({ family, example, unseen }: WildSeries, index: number): string {
  const { departures } = example.facts!;
  const said = departures.map(({ kind, severity }) => `${kind} ${severity.toFixed(1)}`).join(', ');
  return `${index} ${family}: ${said === '' ? 'normal' : said}${unseen.length === 0 ? '' : ` (+${unseen.length} unseen)`}`;
}

function main(): void {
  const { values: options } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      data: { type: 'string', default: '../shared/data' },
      count: { type: 'string', default: '600' },
      out: { type: 'string' },
      seed: { type: 'string', default: '1' },
    },
  });
  const count = Number(options.count);
  const series = Array.from({ length: count }, (_, i) => wildSeries(Number(options.seed), 'train', i));
  const began = process.cpuUsage();
  for (let i = 0; i < count; i++) wildSeries(2, 'train', i);
  const perSecond = (count * 1e6) / process.cpuUsage(began).user;
  const wild = series.map((one, i): Part => {
    const { gold, channels } = one.example;
    return {
      name: caption(one, i),
      values: channels[0]!,
      truth: gold.kind === 'anomaly' ? gold.intervals : [],
    };
  });
  const nab = nabCases(options.data).flatMap(({ base, values, truth }) => cut(base, values, truth));
  const groups: Readonly<Record<string, readonly Part[]>> = {
    wild,
    NAB: nab,
    households: households(options.data),
  };
  const present = Object.entries(groups).filter(([name, parts]) => {
    if (parts.length === 0) console.error(`SKIPPED ${name}: no data below ${options.data}`);
    return parts.length > 0;
  });
  const measured = Object.entries(STATISTICS).map(([name, of]) => ({
    name,
    by: Object.fromEntries(present.map(([group, parts]) => [group, quantiles(parts, of)])),
  }));
  const lengths = (parts: readonly Part[]): number[] => {
    const all = parts
      .flatMap(({ values, truth }) => truth.map(([a, b]) => (b - a) / values.length))
      .sort((a, b) => a - b);
    return QUANTILES.map((q) => all[Math.round(q * (all.length - 1))] ?? Number.NaN);
  };
  measured.push({
    name: 'length of anomalies',
    by: Object.fromEntries(present.map(([group, parts]) => [group, lengths(parts)])),
  });
  const normal = series.filter(({ example }) => example.facts!.departures.length === 0).length / count;
  const kinds = DEPARTURE_KINDS.map((kind) => {
    const seen = series.flatMap(({ example }) =>
      example.facts!.departures.filter((one) => one.kind === kind),
    );
    const unseen = series.flatMap((one) => one.unseen.filter((other) => other.kind === kind)).length;
    const severities = seen.map(({ severity }) => severity).sort((a, b) => a - b);
    const at = QUANTILES.map((q) => severities[Math.round(q * (severities.length - 1))] ?? Number.NaN);
    return { kind, seen: seen.length, unseen, severity: at };
  });
  if (options.json) console.log(JSON.stringify({ perSecond, normal, measured, kinds }, null, 2));
  const head = ['10 %, median, 90 %', ...present.map(([group, parts]) => `${group} (${parts.length})`)];
  const cell = (list: readonly number[]): string =>
    list.map((value) => value.toFixed(value < 0.1 && value > 0 ? 3 : 2)).join('  ');
  const rows = measured.map(({ name, by }) => [name, ...present.map(([group]) => cell(by[group]!))]);
  const kindHead = ['anomalies', 'labelled', 'too small', 'severity'];
  const kindRows = kinds.map(({ kind, seen, unseen, severity }) => [
    kind,
    String(seen),
    String(unseen),
    cell(severity),
  ]);
  if (!options.json) {
    console.log(table(head, rows));
    console.log(`\n${table(kindHead, kindRows)}`);
    console.log(
      `\nnormal: ${(100 * normal).toFixed(1)} %; ${perSecond.toFixed(0)} series of ${WILD_LENGTH} points a second of one core`,
    );
  }
  if (options.out === undefined) return;
  const inTable = (first: readonly string[], all: readonly (readonly string[])[]) =>
    html`<table><tr>${first.map((name) => html`<th>${name}</th>`)}</tr>${all.map((row) => html`<tr>${row.map((text) => html`<td>${text}</td>`)}</tr>`)}</table>`;
  const shown = present.map(
    ([group, parts]) => html`<h2>${group}</h2><div class="grid">${parts.slice(0, 120).map(drawing)}</div>`,
  );
  const body = html`<h1>wild beside recordings</h1>${inTable(head, rows)}<p></p>${inTable(kindHead, kindRows)}${shown}`;
  writeFileSync(options.out, page({ title: 'wild beside recordings', style: STYLE, body }));
}

main();
