/** Page of a run's completions: responses by step, with the policy's picture, gold answer, rewards and advantages. */

import type { ReportExample } from '../../eval/report.ts';
import { goldIntervals, mark } from '../../eval/report-examples.ts';
import { fixed, grouped, mean, partsOf, signed } from '../ground/numbers.ts';
import type { Interval, ParsedAnswer } from '../ground/types.ts';
import { FOOTER, type Html, html, page, problemNote, seenFigure, verbatim } from '../html/html.ts';
import { STYLE } from '../html/style.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Completion } from '../train/metrics.ts';

/** The responses to one prompt. */
export interface CompletionGroup {
  readonly seriesId: string;
  /** Example, or the reason why it cannot be shown. */
  readonly example: ShownExample | string;
  readonly completions: readonly (Completion & { readonly answer: ParsedAnswer | null })[];
}

/** Picture and gold answer of a prompt. */
export interface ShownExample extends Pick<ReportExample, 'length' | 'gold' | 'seen' | 'seenWhole'> {
  readonly names: readonly string[];
}

/** Mean reward of a step of the run. */
export interface StepReward {
  readonly step: number;
  readonly reward: number | null;
}

export interface CompletionsPageParts {
  readonly run: string;
  /** Name of the reinforcement method. */
  readonly method: string;
  /** Mean rewards of all steps so far. */
  readonly rewards: readonly StepReward[];
  /** Steps shown, newest first. */
  readonly steps: readonly { readonly step: number; readonly body: Html }[];
}

/** Draws gold intervals above predicted ones, over the samples of the series. */
function track(length: number, gold: readonly Interval[], predicted: readonly Interval[]): Html {
  const bars = (intervals: readonly Interval[], kind: 'gold' | 'said', y: number): Html[] =>
    intervals.map(([start, end]) => {
      // A single point of a long series must not vanish.
      const width = Math.max(end - start, length / 250);
      const x = Math.min(start, length - width);
      return html`<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="5"><title>${`${kind === 'gold' ? 'true' : 'predicted'} ${start} to ${end}`}</title></rect>`;
    });
  return html`<svg class="track" viewBox="0 0 ${length} 12" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="base" x="0" y="0" width="${length}" height="12"/>${bars(gold, 'gold', 0.5)}${bars(predicted, 'said', 6.5)}</svg>`;
}

/** Keys of the filter of the page. */
function outcome({ answer, advantage }: CompletionGroup['completions'][number]): string {
  const form = answer === null || answer.wellFormed ? '' : ' malformed';
  return `${advantage > 0 ? 'above' : advantage < 0 ? 'below' : 'level'}${form}`;
}

function card(
  completion: CompletionGroup['completions'][number],
  example: ShownExample | null,
  index: number,
): Html {
  const { reward, advantage, main, orthogonal, similarity, parts, answer, response } = completion;
  const look = advantage > 0 ? 'met' : advantage < 0 ? 'missed' : 'none';
  const numbers: [string, string][] = [
    ...Object.entries(parts).map(([name, value]): [string, string] => [name, fixed(value)]),
    ['main', signed(main)],
    ...(similarity === null
      ? []
      : ([
          ['orthogonal', signed(orthogonal)],
          ['similarity', fixed(similarity)],
        ] as [string, string][])),
  ];
  const gold = example === null ? null : goldIntervals(example.gold, example.length);
  return html`<li class="completion" data-order="${index}" data-reward="${reward ?? ''}" data-advantage="${advantage}" data-outcome="${outcome(completion)}">
<p class="score"><span><b>${reward === null ? 'no' : fixed(reward)}</b> reward</span> <span class="${look}">${signed(advantage)}</span> <span class="count">advantage</span></p>
<span class="bar"><span style="width:${(100 * Math.min(1, Math.max(0, reward ?? 0))).toFixed(1)}%"></span></span>
${example === null || gold === null ? null : track(example.length, gold, answer?.intervals ?? [])}
${
  example === null || answer === null
    ? null
    : html`<p class="verdict">${taskKind(example.gold.kind).evaluation.comparison(example.gold, answer, example.names.length > 1 ? example.names : undefined, mark({ gold: example.gold, answer })).shown}</p>`
}
${problemNote(answer?.problem ?? null)}
<dl class="parts">${numbers.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${notesBlock(completion.notes)}${verbatim(response)}</li>
`;
}

/** Notes in a line, or, of an episode, its turns in one each. */
function notesBlock(notes: string | undefined): Html | null {
  if (notes === undefined) return null;
  return notes.includes('\n') ? verbatim(notes) : html`<p class="verdict">${notes}</p>\n`;
}

function groupBlock(group: CompletionGroup): Html {
  const { seriesId, completions } = group;
  const example = typeof group.example === 'string' ? null : group.example;
  const rewards = completions.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const equal = rewards.every((reward) => reward === rewards[0]);
  const spread = equal
    ? 'all rewards are equal'
    : `rewards ${fixed(Math.min(...rewards))} to ${fixed(Math.max(...rewards))}`;
  const rewarded =
    rewards.length === 0
      ? 'none with a reward'
      : `${rewards.length < completions.length ? `${rewards.length} with a reward, ` : ''}mean reward ${fixed(mean(rewards))}, ${spread}`;
  const gold = example === null ? null : goldIntervals(example.gold, example.length);
  return html`<article class="example group">
<h3><bdi>${seriesId}</bdi> <span class="chosen">${completions.length} responses, ${rewarded}</span></h3>
${typeof group.example === 'string' ? html`<p class="failure">The example cannot be shown: ${group.example}.</p>` : null}
${example?.seen === undefined ? null : seenFigure(example.seen, `The picture of ${seriesId} as the policy sees it`, example.seenWhole)}
${example === null || gold === null || example.seenWhole ? null : html`<div class="under">${track(example.length, gold, [])}</div>`}
<ol class="responses">
${completions.map((completion, index) => card(completion, example, index))}</ol>
</article>
`;
}

/** Body of a step. */
export const stepBody = (groups: readonly CompletionGroup[]): Html => html`${groups.map(groupBlock)}`;

/** Maximum number of points of the reward curve; longer ones are averaged in buckets. */
const CURVE_POINTS = 300;
const CURVE_HEIGHT = 60;

/** Draws the mean reward by step, from 0 to 1, with a tick for every step shown. */
function rewardCurve(rewards: readonly StepReward[], shown: readonly number[]): Html | null {
  const known = rewards.filter((point): point is { step: number; reward: number } => point.reward !== null);
  const last = rewards.at(-1)?.step ?? 0;
  if (known.length < 2) return null;
  const x = (step: number): string => (((step - 1) / Math.max(1, last - 1)) * 1000).toFixed(1);
  const points = partsOf(known, CURVE_POINTS).map((part) => {
    const y = CURVE_HEIGHT * (1 - Math.min(1, Math.max(0, mean(part.map(({ reward }) => reward)))));
    return `${x(part[Math.floor(part.length / 2)]!.step)},${y.toFixed(1)}`;
  });
  const [from, to] = [known[0]!.reward, known.at(-1)!.reward];
  return html`<figure class="rewards"><figcaption>Mean reward of the responses of each step, 0 to 1: ${fixed(from)} at first, ${fixed(to)} in step ${last}. Ticks: steps shown.</figcaption>
<svg id="rewards" data-last="${last}" viewBox="-4 -4 1008 ${CURVE_HEIGHT + 16}" preserveAspectRatio="none" role="img" aria-label="Mean reward by step"><line class="axis" x1="0" x2="1000" y1="${CURVE_HEIGHT}" y2="${CURVE_HEIGHT}"/><line class="axis" x1="0" x2="1000" y1="0" y2="0"/><polyline points="${points.join(' ')}"/>${shown.map(
    (step) =>
      html`<line class="tick" x1="${x(step)}" x2="${x(step)}" y1="${CURVE_HEIGHT + 3}" y2="${CURVE_HEIGHT + 10}"/>`,
  )}<line id="here" class="here" x1="0" x2="0" y1="-4" y2="${CURVE_HEIGHT + 12}" visibility="hidden"/></svg></figure>`;
}

const OWN_STYLE = `
.controls{display:flex;flex-wrap:wrap;gap:.5rem 1.2rem;align-items:center;position:sticky;top:0;z-index:2;background:var(--paper);border-bottom:1px solid var(--rule);padding:.6rem 0}
.controls[hidden]{display:none}
.controls label{display:flex;gap:.4rem;align-items:center;color:var(--soft);font-size:.9rem}
.controls select,.controls button{font:inherit;font-size:.9rem;color:var(--ink);background:var(--card);border:1px solid var(--rule);border-radius:3px;padding:.25rem .5rem}
.controls button:disabled{opacity:.4}
section.step{border-top:0;padding-top:1.2rem;scroll-margin-top:5rem}section.step h2 .count{font-weight:400;font-size:.95rem}
.group .seen{margin-bottom:.1rem}.group .seen:not(.whole) img{max-width:none}.group .seen figcaption{display:none}
.track{display:block;width:100%;height:14px;margin:.25rem 0 .4rem}
.track .base{fill:var(--code)}.track .gold{fill:#2ca02c}.track .said{fill:#d62728}
.responses{list-style:none;margin:.9rem 0 0;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,240px),1fr));gap:.6rem}.responses[hidden]{display:none}
.completion{border:1px solid var(--rule);padding:.6rem .7rem .7rem;min-width:0}
.completion .score{margin:0;max-width:none;font-size:.85rem}
.completion .bar{display:block;height:3px;background:var(--code);margin:.15rem 0 .4rem}
.completion .bar span{display:block;height:3px;background:var(--accent)}
.completion .verdict{font-size:.85rem;margin:.1rem 0 .4rem}
.completion .failure{font-size:.85rem;margin:.1rem 0 .4rem}
.completion .parts{font-size:.8rem;margin:.1rem 0 .5rem;gap:.1rem .9rem}
.completion pre{margin:0;max-height:14rem;font-size:.8rem}
.rewards{margin:1rem 0 1.2rem}.rewards figcaption{font-size:.85rem;color:var(--soft);margin-bottom:.3rem}
.rewards svg{display:block;width:100%;height:76px;cursor:pointer}
.rewards polyline{fill:none;stroke:var(--accent);stroke-width:1.6;vector-effect:non-scaling-stroke}
.rewards line{vector-effect:non-scaling-stroke}.rewards .axis{stroke:var(--grid)}.rewards .tick{stroke:var(--soft);stroke-width:1}
.rewards .here{stroke:var(--c2);stroke-width:2}
.key i{display:inline-block;width:1.1em;height:.5em;margin:0 .35em 0 .9em;vertical-align:.1em}.key .gold{background:#2ca02c}.key .said{background:#d62728}
.empty{color:var(--soft)}
@media print{.controls{display:none}}
`.replaceAll('\n', '');

/** Runs in the browser: shows one step at a time; without it the page shows all of them. */
const SCRIPT = `(() => {
'use strict';
const $ = (id) => document.getElementById(id);
const sections = [...document.querySelectorAll('section.step')];
const steps = sections.map((section) => Number(section.dataset.step));
if (steps.length === 0) return;
const [form, select, older, newer, filter, order, here, curve] =
  ['controls', 'step', 'older', 'newer', 'filter', 'order', 'here', 'rewards'].map($);
form.hidden = false;
const arrange = (section) => {
  for (const list of section.querySelectorAll('.responses')) {
    const key = order.value;
    const cards = [...list.children];
    cards.sort((a, b) => key === 'order' ? a.dataset.order - b.dataset.order : b.dataset[key] - a.dataset[key]);
    for (const card of cards) {
      card.hidden = filter.value !== '' && !card.dataset.outcome.split(' ').includes(filter.value);
      list.append(card);
    }
    list.hidden = cards.every((card) => card.hidden);
  }
  const none = [...section.querySelectorAll('.responses')].every((list) => list.hidden);
  section.querySelector('.empty').hidden = !none;
};
const show = (step) => {
  const at = Math.max(0, steps.indexOf(step));
  sections.forEach((section, i) => { section.hidden = i !== at; });
  select.value = String(steps[at]);
  newer.disabled = at === 0;
  older.disabled = at === steps.length - 1;
  arrange(sections[at]);
  if (here) {
    const x = 1000 * (steps[at] - 1) / Math.max(1, curve.dataset.last - 1);
    here.setAttribute('x1', x); here.setAttribute('x2', x); here.setAttribute('visibility', 'visible');
  }
};
const wanted = () => Number(/^#step-(\\d+)$/.exec(location.hash)?.[1] ?? steps[0]);
const go = (step) => { history.replaceState(null, '', '#step-' + step); show(step); };
const move = (by) => go(steps[Math.min(steps.length - 1, Math.max(0, steps.indexOf(Number(select.value)) + by))]);
select.addEventListener('change', () => go(Number(select.value)));
older.addEventListener('click', () => move(1));
newer.addEventListener('click', () => move(-1));
for (const control of [filter, order]) control.addEventListener('change', () => show(Number(select.value)));
addEventListener('hashchange', () => show(wanted()));
curve?.addEventListener('click', (event) => {
  const box = curve.getBoundingClientRect();
  const at = 1 + (curve.dataset.last - 1) * ((event.clientX - box.left) / box.width);
  go(steps.reduce((best, step) => Math.abs(step - at) < Math.abs(best - at) ? step : best));
});
addEventListener('keydown', (event) => {
  if (event.target !== document.body || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === 'ArrowLeft') move(1);
  if (event.key === 'ArrowRight') move(-1);
});
show(wanted());
})();`;

/** Returns the whole page. */
export function completionsPage({ run, method, rewards, steps }: CompletionsPageParts): string {
  const meanOf = new Map(rewards.map(({ step, reward }) => [step, reward]));
  const last = rewards.at(-1)?.step ?? 0;
  const rewardText = (step: number): string => {
    const reward = meanOf.get(step) ?? null;
    return reward === null ? '' : `mean reward of all responses of the step ${fixed(reward)}`;
  };
  const body = html`<header class="top">
<h1>Completions of ${run}</h1>
<p class="byline">${method}, ${grouped(last)} ${last === 1 ? 'step' : 'steps'} so far; ${steps.length === last ? 'all are shown.' : `${steps.length} are shown: the last ones, and a sample of those before.`}</p>
<p>Responses to the first prompt of each worker at every step, as the policy wrote them. A response is reinforced in proportion to its advantage over the others of its group. The main part of the advantage comes from the reward; the orthogonal part, if any, from the similarity to the expert trace.</p>
${
  steps.some((step) => step.body.markup.includes('class="track"'))
    ? html`<p class="key">Strips, over the samples of the series:<i class="gold"></i>true intervals<i class="said"></i>predicted intervals</p>`
    : null
}
${rewardCurve(
  rewards,
  steps.map(({ step }) => step),
)}
</header>
<main>
<form id="controls" class="controls" hidden>
<label>Step <select id="step">${steps.map(({ step }) => html`<option value="${step}">${step}</option>`)}</select></label>
<span><button type="button" id="older" title="older (left arrow)">\u2039 older</button> <button type="button" id="newer" title="newer (right arrow)">newer \u203a</button></span>
<label>Show <select id="filter"><option value="">all responses</option><option value="above">advantage above 0</option><option value="below">advantage below 0</option><option value="level">advantage 0</option><option value="malformed">not well formed</option></select></label>
<label>in the order of <select id="order"><option value="order">sampling</option><option value="reward">reward</option><option value="advantage">advantage</option></select></label>
</form>
${steps.map(
  ({ step, body: inner }) => html`<section class="step" id="step-${step}" data-step="${step}">
<h2>Step ${step} <span class="chosen count">${rewardText(step)}</span></h2>
${inner}<p class="empty" hidden>No response of this step is of that kind.</p>
</section>
`,
)}
${steps.length === 0 ? html`<p>No completion has been written yet.</p>` : null}
</main>
${FOOTER}`;
  return page({ title: `Completions of ${run}`, style: STYLE + OWN_STYLE, body, scripts: [SCRIPT] });
}
