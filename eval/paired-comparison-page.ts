/** Two sets of answers as a page: metrics with tests, types, and the series on which they differ, with pictures where the data are known. */
import type { ExampleSource } from '../datasets/source.ts';
import type { Estimate, EvalRecord, Example } from '../src/ground/types.ts';
import { type Html, html, page } from '../src/html/html.ts';
import { change, fixed, grouped } from '../src/html/numbers.ts';
import { bullets, FOOTER, plotFigure, scrolling } from '../src/html/parts.ts';
import { STYLE } from '../src/html/style.ts';
import { figureSvg } from '../src/plot/svg.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Flip, PairedComparison } from './paired-comparison.ts';

/** Flips with a picture, and those in the list at all. */
const PICTURES = 24;
const LISTED = 200;
/** Channels that are drawn. */
const MOST_CHANNELS = 3;

export const pText = (p: number): string => (p < 0.001 ? '< .001' : fixed(p));

function differenceCell(value: Estimate): Html {
  const look = value.ci95[0] > 0 ? 'met' : value.ci95[1] < 0 ? 'missed' : 'none';
  return html`<td class="${look}">${change(value)}</td>`;
}

async function figuresOf(example: Example, record: EvalRecord, name: string): Promise<string[]> {
  const { localises, marks } = taskKind(record.gold.kind);
  const bands = localises
    ? { gold: marks(record.gold, record.length)?.intervals ?? [], predicted: record.answer.intervals ?? [] }
    : {};
  const figures: string[] = [];
  for (const [c, values] of example.channels.slice(0, MOST_CHANNELS).entries()) {
    const title = example.channels.length > 1 ? `${name}: ${example.names[c]}` : name;
    figures.push(await figureSvg(values, { ...bands, title, width: 960, height: 150 }));
  }
  return figures;
}

/** The series of a flip with both answers; where no intervals can be shown, the series alone, once. */
async function pictures(flip: Flip, example: Example, index: number): Promise<Html[]> {
  const { localises } = taskKind(flip.answers[0].gold.kind);
  const sides = localises ? (['A', 'B'] as const) : (['The series'] as const);
  const shown: Html[] = [];
  for (const [s, name] of sides.entries()) {
    for (const [f, svg] of (await figuresOf(example, flip.answers[s]!, name)).entries()) {
      shown.push(
        plotFigure(svg, `flip-${index}-${s}-${f}`, `${name}: ${flip.id}, ${flip.answers[s]!.length} points.`),
      );
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

function metricsTable({ metrics }: PairedComparison): Html {
  return html`<table><thead><tr><th scope="col">Metric</th><th scope="col">A</th><th scope="col">B</th><th scope="col">B − A</th><th scope="col">p</th><th scope="col">Test</th><th scope="col">Won</th><th scope="col">Lost</th><th scope="col">Same</th></tr></thead><tbody>${metrics.map(
    ({ label, a, b, difference, p, test, won, lost, same }) =>
      html`<tr><th scope="row">${label}</th><td>${fixed(a)}</td><td>${fixed(b)}</td>${differenceCell(difference)}<td>${pText(p)}</td><td>${test}</td><td>${grouped(won)}</td><td>${grouped(lost)}</td><td>${grouped(same)}</td></tr>\n`,
  )}</tbody></table>`;
}

function typesTable({ byType }: PairedComparison): Html {
  return html`<table><thead><tr><th scope="col">Type</th><th scope="col">A</th><th scope="col">B</th><th scope="col">B − A</th><th scope="col">Series</th></tr></thead><tbody>${Object.entries(
    byType,
  ).map(
    ([label, { a, b, difference }]) =>
      html`<tr><th scope="row"><bdi>${label}</bdi></th><td>${fixed(a)}</td><td>${fixed(b)}</td>${differenceCell(difference)}<td>${grouped(difference.n)}</td></tr>\n`,
  )}</tbody></table>`;
}

/**
 * The whole page.
 * @param source the examples that were answered, for pictures; null: they are not known
 */
export async function pairedComparisonPage(
  found: PairedComparison,
  source: ExampleSource | null,
): Promise<string> {
  const { names, series, onlyA, onlyB, metric, flips, kind } = found;
  const listed = flips.slice(0, LISTED);
  const wanted = new Set(listed.slice(0, PICTURES).map(({ id }) => id));
  const examples = new Map<string, Example>();
  if (source !== null && wanted.size > 0) {
    for (const example of source) {
      if (wanted.has(example.id)) examples.set(example.id, example);
      if (examples.size === wanted.size) break;
    }
  }
  const cards: Html[] = [];
  for (const [i, flip] of listed.entries()) cards.push(await card(flip, i, examples.get(flip.id)));
  const { metrics, details } = taskKind(kind).evaluation;
  const { label } = (metrics[metric] ?? details[metric])!;
  const body = html`<header class="top">
<h1>Two sets of answers compared</h1>
<p class="byline">A: <bdi>${names[0]}</bdi>. B: <bdi>${names[1]}</bdi>. ${grouped(series)} series that both answer.</p>
</header>
<main>
<section><h2>Metrics</h2>
<p>Means over the series, B − A paired by series with its bootstrap 95\u202f% interval. p is two-sided: McNemar’s exact test where every value is 0 or 1, else a paired permutation test; each is of one comparison and not corrected for several.</p>
${scrolling('Metrics', metricsTable(found))}
${onlyA + onlyB === 0 ? null : bullets([`${onlyA} series that only A answers and ${onlyB} that only B does are left out.`])}
</section>
<section><h2>${label} by type</h2>
${scrolling('By type', typesTable(found))}
</section>
<section><h2>Series that differ</h2>
<p>${grouped(flips.length)} series have another ${label}${flips.length > LISTED ? `; the ${LISTED} with the largest difference follow` : ''}${examples.size === 0 && flips.length > 0 ? '. The data set is not on record: name it for pictures (--data)' : flips.length > PICTURES ? `, the first ${PICTURES} with pictures` : ''}.</p>
${cards}
</section>
</main>
${FOOTER}`;
  return page({ title: 'Answers compared', style: STYLE, body, scripts: [] });
}
