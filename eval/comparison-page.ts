/** Runs side by side as a page: the keys that differ, metrics with paired intervals, learning curves over each other. */

import type { Estimate } from '../src/ground/types.ts';
import { type Html, html, page } from '../src/html/html.ts';
import { change, estimateCell } from '../src/html/numbers.ts';
import { bullets, FOOTER, scrolling } from '../src/html/parts.ts';
import { STYLE } from '../src/html/style.ts';
import type { ComparedRun, Comparison } from './comparison.ts';
import type { CurvePanel } from './report.ts';
import { curveScripts, curvesBlock } from './report-curves.ts';

type Line = ComparedRun['rl'][number];

/** One panel with a curve for each run that has values. */
function panel(
  runs: readonly ComparedRun[],
  about: Omit<CurvePanel, 'curves' | 'xLabel'>,
  value: (line: Line) => number | null | undefined,
): CurvePanel {
  const most = Math.max(0, ...runs.map(({ rl }) => rl.length));
  const curves = runs.map(({ path, rl }) => ({
    name: path,
    x: rl.map(({ step }) => step),
    y: rl.map((line) => value(line) ?? null),
  }));
  return {
    ...about,
    xLabel: 'step of reinforcement',
    curves: curves.filter(({ y }) => y.some((one) => one !== null)),
    smooth: 2 * Math.floor(most / 20) + 1,
  };
}

function panelsOf(runs: readonly ComparedRun[]): CurvePanel[] {
  const parts = [...new Set(runs.flatMap(({ rl }) => rl.flatMap((line) => Object.keys(line.parts))))];
  const steps = Math.max(0, ...runs.map(({ sft }) => sft.length));
  const panels: CurvePanel[] = [
    {
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
    },
    panel(
      runs,
      { title: 'Reward', definition: 'Mean over the sampled responses of a step; up is better.' },
      (line) => line.reward,
    ),
    ...parts.map((part) =>
      panel(
        runs,
        {
          title: `Reward: ${part}`,
          definition: 'Mean of this part of the reward over the responses that have it.',
        },
        (line) => line.parts[part],
      ),
    ),
    panel(
      runs,
      {
        title: 'KL to the reference',
        definition: 'k3 estimate, nats per token, each at most 10; small is close.',
      },
      (line) => line.kl,
    ),
    panel(
      runs,
      { title: 'Entropy', definition: 'Of the next-token distribution, nats per token.' },
      (line) => line.entropy,
    ),
    panel(
      runs,
      { title: 'Groups of equal reward', definition: 'Share of prompt groups whose rewards are all equal.' },
      (line) => line.equalRewards,
    ),
  ];
  return panels.filter(({ curves }) => curves.length > 0);
}

const cell = (value: Estimate | null): Html =>
  value === null ? html`<td class="none">\u2013</td>` : html`<td>${estimateCell(value)}</td>`;

/** Better and worse are told apart where the interval leaves out 0. */
function differenceCell(value: Estimate | null, metric: string): Html {
  if (value === null) return html`<td class="none">\u2013</td>`;
  const [better, worse] = metric === 'unparsable' ? ['missed', 'met'] : ['met', 'missed'];
  const look = value.ci95[0] > 0 ? better : value.ci95[1] < 0 ? worse : 'none';
  return html`<td class="${look}">${change(value)}</td>`;
}

/** The whole page. */
export function comparisonPage({ runs, keys, metrics, notes }: Comparison): string {
  const [first, ...others] = runs.map(({ path }) => path);
  const heads = (paths: readonly (string | undefined)[]): Html[] =>
    paths.map((path) => html`<th scope="col"><bdi>${path ?? ''}</bdi></th>`);
  const panels = panelsOf(runs);
  const body = html`<header class="top">
<h1>${runs.length} runs compared</h1>
<p class="byline">Differences are from <bdi>${first ?? ''}</bdi>.</p>
</header>
<main>
<section><h2>Keys that differ</h2>
${
  keys.length === 0
    ? html`<p>None: the recipes are the same.</p>`
    : scrolling(
        'Keys that differ',
        html`<table><thead><tr><th scope="col">Key</th>${heads([first, ...others])}</tr></thead><tbody>${keys.map(
          ({ key, values }) =>
            html`<tr><th scope="row">${key}</th>${values.map((value) => html`<td>${typeof value === 'string' ? value : JSON.stringify(value)}</td>`)}</tr>\n`,
        )}</tbody></table>`,
      )
}
</section>
<section><h2>Metrics</h2>
<p>Of the last evaluated policy of each run, means over its series with bootstrap 95\u202f% intervals; greedy answers unless it says sampled. Differences are paired by series. They say nothing of another seed of training.</p>
${
  metrics.length === 0
    ? html`<p>No policy was evaluated.</p>`
    : scrolling(
        'Metrics',
        html`<table><thead><tr><th scope="col">Metric</th>${heads([first, ...others])}${others.map((path) => html`<th scope="col"><bdi>${path}</bdi>, difference</th>`)}</tr></thead><tbody>${metrics.map(
          ({ metric, label, values, differences }) =>
            html`<tr><th scope="row">${label}</th>${values.map(cell)}${differences.slice(1).map((value) => differenceCell(value, metric))}</tr>\n`,
        )}</tbody></table>`,
      )
}
${bullets([...notes])}
</section>
<section><h2>Learning curves</h2>
${panels.length === 0 ? html`<p>No run has metrics.</p>` : curvesBlock(panels)}
</section>
</main>
${FOOTER}`;
  return page({
    title: 'Runs compared',
    style: STYLE,
    body,
    scripts: panels.length === 0 ? [] : curveScripts(),
  });
}
