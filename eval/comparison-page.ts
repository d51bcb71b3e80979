/** Comparisons as pages: two sets of answers with the series on which they differ, and runs with their learning curves. */
import type { ExampleSource } from '../datasets/source.ts';
import { change, fixed, grouped, pText } from '../src/ground/numbers.ts';
import type { Estimate, Example } from '../src/ground/types.ts';
import { bullets, estimateCell, FOOTER, type Html, html, page, plotFigure } from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import { metricNamed, taskKind } from '../src/tasks/kinds.ts';
import {
  type ComparedRun,
  type Flip,
  type PairedComparison,
  type RunComparison,
  seriesText,
} from './comparison.ts';
import type { CurvePanel } from './report.ts';
import { curveOf, curveScripts, curvesBlock, rlPanel, smoothing, supervisedPanel } from './report-curves.ts';
import { seriesFigures } from './report-examples.ts';
import { type Cell, NOTHING, pageTable } from './table.ts';

/** Flips listed, and those of them with a picture. */
const LISTED = 200;
const PICTURES = 24;
/** Maximum number of channels drawn of a series, and the height of each figure. */
const LOOK = { most: 3, height: 150 };

/** Cell of a difference, coloured where its interval excludes 0. */
function differenceCell(value: Estimate | null, metric: string): Cell {
  if (value === null) return NOTHING;
  const [higher, lower] = metric === 'unparsable' ? ['missed', 'met'] : ['met', 'missed'];
  return { text: change(value), look: value.ci95[0] > 0 ? higher! : value.ci95[1] < 0 ? lower! : 'none' };
}

// ---- two sets of answers -------------------------------------------------------------------------------------------

/** Figures of a flipped series: with the intervals of each answer, or once where answers have none. */
async function pictures(flip: Flip, example: Example, index: number): Promise<Html[]> {
  const { localises } = taskKind(flip.answers[0].gold.kind);
  const sides = localises ? (['A', 'B'] as const) : (['The series'] as const);
  const shown: Html[] = [];
  for (const [s, name] of sides.entries()) {
    const figures = await seriesFigures(example, flip.answers[s]!.answer, { ...LOOK, title: name });
    for (const [f, svg] of figures.entries()) {
      const description = `${name}: ${flip.id}, ${flip.answers[s]!.length} points.`;
      shown.push(plotFigure(svg, `flip-${index}-${s}-${f}`, description));
    }
  }
  return shown;
}

async function card(flip: Flip, index: number, example: Example | undefined): Promise<Html> {
  const [a, b] = flip.answers;
  const { says } = taskKind(a.gold.kind);
  const drawn = example === undefined || index >= PICTURES ? [] : await pictures(flip, example, index);
  const names = example?.names ?? [];
  return html`<article class="example">
<h3><bdi>${flip.id}</bdi><span class="chosen"> ${flip.label}</span></h3>
<p class="verdict"><span class="${flip.outcome === 'won' ? 'met' : 'missed'}">${flip.outcome}</span>: ${fixed(flip.a)} → ${fixed(flip.b)}. A says <bdi>${says(a.answer, names)}</bdi>; B says <bdi>${says(b.answer, names)}</bdi>.</p>
${drawn}
</article>
`;
}

function examplesOf(source: ExampleSource | null, ids: ReadonlySet<string>): Map<string, Example> {
  const examples = new Map<string, Example>();
  for (const example of ids.size > 0 ? (source ?? []) : []) {
    if (ids.has(example.id)) examples.set(example.id, example);
    if (examples.size === ids.size) break;
  }
  return examples;
}

/** Writes the page of two sets of answers. @param source the examples, for pictures; null when unknown */
export async function answersPage(
  comparison: PairedComparison,
  source: ExampleSource | null,
): Promise<string> {
  const { names, onlyA, onlyB, metric, metrics, byType, flips, kind } = comparison;
  const listed = flips.slice(0, LISTED);
  const examples = examplesOf(source, new Set(listed.slice(0, PICTURES).map(({ id }) => id)));
  const cards: Html[] = [];
  for (const [i, flip] of listed.entries()) cards.push(await card(flip, i, examples.get(flip.id)));
  const { label } = metricNamed(kind, metric);
  const more = flips.length > LISTED ? `; the ${LISTED} with the largest difference follow` : '';
  const drawn =
    examples.size === 0 && flips.length > 0
      ? '. The data set is not recorded; name it with --data to see pictures'
      : flips.length > PICTURES
        ? `, the first ${PICTURES} with pictures`
        : '';
  const body = html`<header class="top">
<h1>Two sets of answers compared</h1>
<p class="byline">A: <bdi>${names[0]}</bdi>. B: <bdi>${names[1]}</bdi>. ${seriesText(comparison)}.</p>
</header>
<main>
<section><h2>Metrics</h2>
<p>Means over the series, and B − A paired by series with its bootstrap 95\u202f% interval. p is two-sided: McNemar’s exact test where every value is 0 or 1, else a paired permutation test; not corrected for several comparisons.</p>
${pageTable({
  label: 'Metrics',
  head: ['Metric', 'A', 'B', 'B − A', 'p', 'Test', 'Won', 'Lost', 'Same'],
  rows: metrics.map((row) => [
    ...[row.label, fixed(row.a), fixed(row.b), differenceCell(row.difference, row.metric), pText(row.p)],
    ...[row.test, grouped(row.won), grouped(row.lost), grouped(row.same)],
  ]),
})}
${onlyA + onlyB === 0 ? null : bullets([`Left out: ${onlyA} series in A only and ${onlyB} in B only.`])}
</section>
<section><h2>${label} by type</h2>
${pageTable({
  label: 'By type',
  head: ['Type', 'A', 'B', 'B − A', 'Series'],
  rows: Object.entries(byType).map(([type, { a, b, difference }]) => [
    ...[html`<bdi>${type}</bdi>`, fixed(a), fixed(b)],
    ...[differenceCell(difference, metric), grouped(difference.n)],
  ]),
})}
</section>
<section><h2>Series that differ</h2>
<p>${label} differs on ${grouped(flips.length)} series${more}${drawn}.</p>
${cards}
</section>
</main>
${FOOTER}`;
  return page({ title: 'Answers compared', style: STYLE, body, scripts: [] });
}

// ---- runs ----------------------------------------------------------------------------------------------------------

type Line = ComparedRun['rl'][number];

function panelsOf(runs: readonly ComparedRun[]): CurvePanel[] {
  const parts = [...new Set(runs.flatMap(({ rl }) => rl.flatMap((line) => Object.keys(line.parts))))];
  const smooth = smoothing(4 * Math.max(...runs.map(({ rl }) => rl.length)));
  const panel = (title: string, name: string, value: (line: Line) => number | null | undefined): CurvePanel =>
    rlPanel(title, name, {
      ...{ xLabel: 'step of reinforcement', smooth },
      curves: runs.map(({ path, rl }) => curveOf(path, rl, ({ step }) => step, value)),
    });
  return [
    supervisedPanel(runs.map(({ path, sft }) => ({ name: path, lines: sft }))),
    panel('Reward', 'reward', (line) => line.reward),
    ...parts.map((part) => panel(`Reward: ${part}`, `parts.${part}`, (line) => line.parts[part])),
    panel('KL to the reference', 'kl', (line) => line.kl),
    panel('Entropy', 'entropy', (line) => line.entropy),
    panel('Groups of equal reward', 'equalRewards', (line) => line.equalRewards),
  ].filter(({ curves }) => curves.length > 0);
}

/** Writes the page of runs: the keys that differ, metrics with paired intervals, learning curves in shared panels. */
export function runsPage({ runs, keys, metrics, notes }: RunComparison): string {
  const [first, ...others] = runs.map(({ path }) => html`<bdi>${path}</bdi>`);
  const panels = panelsOf(runs);
  const body = html`<header class="top">
<h1>${runs.length} runs compared</h1>
<p class="byline">Differences are from ${first ?? null}.</p>
</header>
<main>
<section><h2>Keys that differ</h2>
${
  keys.length === 0
    ? html`<p>None: the recipes are the same.</p>`
    : pageTable({
        label: 'Keys that differ',
        head: ['Key', first!, ...others],
        rows: keys.map(({ key, values }) => [
          key,
          ...values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))),
        ]),
      })
}
</section>
<section><h2>Metrics</h2>
<p>Last evaluated policy of each run: means over its series with bootstrap 95\u202f% intervals, of greedy answers unless a row says sampled. Differences are paired by series; their intervals do not cover the spread between training seeds.</p>
${
  metrics.length === 0
    ? html`<p>No policy was evaluated.</p>`
    : pageTable({
        label: 'Metrics',
        head: ['Metric', first!, ...others, ...others.map((path) => html`${path}, difference`)],
        rows: metrics.map(({ metric, label, values, differences }) => [
          label,
          ...values.map((value) => (value === null ? NOTHING : estimateCell(value))),
          ...differences.slice(1).map((value) => differenceCell(value, metric)),
        ]),
      })
}
${bullets([...notes])}
</section>
<section><h2>Learning curves</h2>
${panels.length === 0 ? html`<p>No run has metrics.</p>` : curvesBlock(panels)}
</section>
</main>
${FOOTER}`;
  const scripts = panels.length === 0 ? [] : curveScripts();
  return page({ title: 'Runs compared', style: STYLE, body, scripts });
}
