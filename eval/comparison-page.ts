/** Comparisons as pages: two sets of answers with the series on which they differ, and runs with their learning curves. */
import type { ExampleSource } from '../datasets/source.ts';
import { change, fixed, grouped, pText } from '../src/ground/numbers.ts';
import type { Estimate, EvalRecord, Example } from '../src/ground/types.ts';
import {
  bullets,
  estimateCell,
  FOOTER,
  type Html,
  html,
  page,
  plotFigure,
  scrolling,
} from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import { figureSvg } from '../src/plot/svg.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import {
  type ComparedRun,
  type Flip,
  type PairedComparison,
  type RunComparison,
  seriesText,
} from './comparison.ts';
import type { CurvePanel } from './report.ts';
import { curveScripts, curvesBlock } from './report-curves.ts';

/** Flips listed, and those of them with a picture. */
const LISTED = 200;
const PICTURES = 24;
/** Channels drawn of a series. */
const MOST_CHANNELS = 3;
const NOTHING = html`<td class="none">\u2013</td>`;

/** Cell of a difference, coloured where its interval excludes 0. */
function differenceCell(value: Estimate | null, metric: string): Html {
  if (value === null) return NOTHING;
  const [higher, lower] = metric === 'unparsable' ? ['missed', 'met'] : ['met', 'missed'];
  const look = value.ci95[0] > 0 ? higher : value.ci95[1] < 0 ? lower : 'none';
  return html`<td class="${look}">${change(value)}</td>`;
}

/** A table that scrolls in narrow windows; the first cell of each row is its head. */
function table(caption: string, heads: readonly (string | Html)[], rows: readonly (readonly Html[])[]): Html {
  return scrolling(
    caption,
    html`<table><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead><tbody>${rows.map(
      (cells) => html`<tr>${cells}</tr>\n`,
    )}</tbody></table>`,
  );
}

const rowHead = (text: string | Html): Html => html`<th scope="row">${text}</th>`;
const cell = (text: string): Html => html`<td>${text}</td>`;

// ---- two sets of answers -------------------------------------------------------------------------------------------

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

/** Figures of a flipped series: with the intervals of each answer, or once where answers have none. */
async function pictures(flip: Flip, example: Example, index: number): Promise<Html[]> {
  const { localises } = taskKind(flip.answers[0].gold.kind);
  const sides = localises ? (['A', 'B'] as const) : (['The series'] as const);
  const shown: Html[] = [];
  for (const [s, name] of sides.entries()) {
    for (const [f, svg] of (await figuresOf(example, flip.answers[s]!, name)).entries()) {
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

/** Examples by id, of those that pictures need. */
function examplesOf(source: ExampleSource | null, ids: ReadonlySet<string>): Map<string, Example> {
  const examples = new Map<string, Example>();
  for (const example of ids.size > 0 ? (source ?? []) : []) {
    if (ids.has(example.id)) examples.set(example.id, example);
    if (examples.size === ids.size) break;
  }
  return examples;
}

/** Page of two sets of answers. @param source the examples, for pictures; null when unknown */
export async function answersPage(
  comparison: PairedComparison,
  source: ExampleSource | null,
): Promise<string> {
  const { names, onlyA, onlyB, metric, metrics, byType, flips, kind } = comparison;
  const listed = flips.slice(0, LISTED);
  const examples = examplesOf(source, new Set(listed.slice(0, PICTURES).map(({ id }) => id)));
  const cards: Html[] = [];
  for (const [i, flip] of listed.entries()) cards.push(await card(flip, i, examples.get(flip.id)));
  const { evaluation } = taskKind(kind);
  const { label } = (evaluation.metrics[metric] ?? evaluation.details[metric])!;
  const more = flips.length > LISTED ? `; the ${LISTED} with the largest difference follow` : '';
  const drawn =
    examples.size === 0 && flips.length > 0
      ? '. The data set is not recorded: name it with --data for pictures'
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
${table(
  'Metrics',
  ['Metric', 'A', 'B', 'B − A', 'p', 'Test', 'Won', 'Lost', 'Same'],
  metrics.map((row) => [
    ...[
      rowHead(row.label),
      cell(fixed(row.a)),
      cell(fixed(row.b)),
      differenceCell(row.difference, row.metric),
    ],
    ...[pText(row.p), row.test, grouped(row.won), grouped(row.lost), grouped(row.same)].map(cell),
  ]),
)}
${onlyA + onlyB === 0 ? null : bullets([`Left out: ${onlyA} series in A only and ${onlyB} in B only.`])}
</section>
<section><h2>${label} by type</h2>
${table(
  'By type',
  ['Type', 'A', 'B', 'B − A', 'Series'],
  Object.entries(byType).map(([type, { a, b, difference }]) => [
    ...[rowHead(html`<bdi>${type}</bdi>`), cell(fixed(a)), cell(fixed(b))],
    ...[differenceCell(difference, metric), cell(grouped(difference.n))],
  ]),
)}
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

const REINFORCEMENT_CURVES: readonly {
  readonly title: string;
  readonly definition: string;
  readonly value: (line: Line) => number | null | undefined;
}[] = [
  {
    title: 'KL to the reference',
    definition: 'k3 estimate, nats per token, each at most 10; small is close.',
    value: (line) => line.kl,
  },
  {
    title: 'Entropy',
    definition: 'Entropy of the next-token distribution, nats per token.',
    value: (line) => line.entropy,
  },
  {
    title: 'Groups of equal reward',
    definition: 'Share of prompt groups whose rewards are all equal.',
    value: (line) => line.equalRewards,
  },
];

function panelsOf(runs: readonly ComparedRun[]): CurvePanel[] {
  const parts = [...new Set(runs.flatMap(({ rl }) => rl.flatMap((line) => Object.keys(line.parts))))];
  const most = Math.max(0, ...runs.map(({ rl }) => rl.length));
  const panels = [
    {
      title: 'Reward',
      definition: 'Mean over the sampled responses of a step; up is better.',
      value: (line: Line) => line.reward,
    },
    ...parts.map((part) => ({
      title: `Reward: ${part}`,
      definition: 'Mean of this part of the reward over the responses that have it.',
      value: (line: Line) => line.parts[part],
    })),
    ...REINFORCEMENT_CURVES,
  ].map(({ title, definition, value }): CurvePanel => {
    const curves = runs.map(({ path, rl }) => ({
      name: path,
      x: rl.map(({ step }) => step),
      y: rl.map((line) => value(line) ?? null),
    }));
    return {
      ...{ title, definition, xLabel: 'step of reinforcement', smooth: 2 * Math.floor(most / 20) + 1 },
      curves: curves.filter(({ y }) => y.some((point) => point !== null)),
    };
  });
  const steps = Math.max(0, ...runs.map(({ sft }) => sft.length));
  const supervised: CurvePanel = {
    title: 'Supervised loss',
    definition: 'Mean negative log-likelihood of the expert trace, in nats per token; down is better.',
    xLabel: 'examples seen',
    curves: runs
      .filter(({ sft }) => sft.length > 0)
      .map(({ path, sft }) => ({
        name: path,
        x: sft.map(({ samples }) => samples),
        y: sft.map(({ loss }) => loss),
      })),
    smooth: 2 * Math.floor(steps / 80) + 1,
    log: true,
  };
  return [supervised, ...panels].filter(({ curves }) => curves.length > 0);
}

/** Page of runs: the keys that differ, metrics with paired intervals, learning curves in shared panels. */
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
    : table(
        'Keys that differ',
        ['Key', first!, ...others],
        keys.map(({ key, values }) => [
          rowHead(key),
          ...values.map((value) => cell(typeof value === 'string' ? value : JSON.stringify(value))),
        ]),
      )
}
</section>
<section><h2>Metrics</h2>
<p>Last evaluated policy of each run: means over its series with bootstrap 95\u202f% intervals, of greedy answers unless a row says sampled. Differences are paired by series; they do not cover the spread between training seeds.</p>
${
  metrics.length === 0
    ? html`<p>No policy was evaluated.</p>`
    : table(
        'Metrics',
        ['Metric', first!, ...others, ...others.map((path) => html`${path}, difference`)],
        metrics.map(({ metric, label, values, differences }) => [
          rowHead(label),
          ...values.map((value) => (value === null ? NOTHING : html`<td>${estimateCell(value)}</td>`)),
          ...differences.slice(1).map((value) => differenceCell(value, metric)),
        ]),
      )
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
