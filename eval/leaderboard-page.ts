/** The leaderboard as a page. */

import { fixed, grouped, upperFirst } from '../src/ground/numbers.ts';
import type { Estimate } from '../src/ground/types.ts';
import { type Html, html, page } from '../src/html/html.ts';
import { bullets, estimateCell, FOOTER, scrolling, whisker } from '../src/html/parts.ts';
import { STYLE } from '../src/html/style.ts';
import {
  columnsOf,
  headlineOf,
  type Leaderboard,
  meanHead,
  NOTES,
  overviewHead,
  rowsOf,
} from './leaderboard.ts';

const OWN_STYLE = `
.board{width:auto;min-width:100%}.board thead th{white-space:normal;min-width:3.2rem}
.board tbody th{font-weight:500;min-width:9.5rem;max-width:22rem;overflow-wrap:anywhere}.board th,.board td{padding-left:.45rem;padding-right:.45rem}.board th:first-child{padding-left:0}
.board .best .mean{text-decoration:underline;text-decoration-thickness:2px;text-underline-offset:3px}`;

const NOTHING = html`<span class="none">–</span>`;

function estimated(estimate: Estimate | undefined, best: boolean): Html {
  if (estimate === undefined) return html`<td>${NOTHING}</td>`;
  return html`<td class="${best ? 'best' : ''}">${estimateCell(estimate)}${whisker(estimate, null)}</td>`;
}

/** The highest of some means; NaN for none, which equals nothing. */
const highest = (values: readonly (number | undefined)[]): number =>
  Math.max(...values.filter((value) => value !== undefined), Number.NEGATIVE_INFINITY);

function overview({ tasks, contenders }: Leaderboard): Html {
  const means = contenders[0]?.means ?? [];
  const value = (c: number, t: number): Estimate | undefined => {
    const task = tasks[t]!;
    return contenders[c]!.rows.get(task.name)?.metrics?.[headlineOf(task.kind)];
  };
  const best = tasks.map((_, t) => highest(contenders.map((__, c) => value(c, t)?.mean)));
  return scrolling(
    'Overview',
    html`<table class="board"><thead><tr><th scope="col">Policy</th>${[
      ...means.map(meanHead),
      ...tasks.map(overviewHead),
    ].map((head) => html`<th scope="col">${head}</th>`)}</tr></thead><tbody>${contenders.map(
      ({ name, means: own }, c) =>
        html`<tr><th scope="row"><bdi>${name}</bdi></th>${own.map(
          ({ mean }) =>
            html`<td>${mean === null ? NOTHING : html`<span class="mean">${fixed(mean)}</span>`}</td>`,
        )}${tasks.map((_, t) => estimated(value(c, t), value(c, t)?.mean === best[t]))}</tr>\n`,
    )}</tbody></table>`,
  );
}

function taskTable(board: Leaderboard, { name, kind }: Leaderboard['tasks'][number]): Html {
  const rows = rowsOf(board, name);
  const columns = columnsOf(
    kind,
    rows.map(([, row]) => row),
  );
  const best = columns.map(({ estimate }) => highest(rows.map(([, row]) => estimate?.(row)?.mean)));
  return scrolling(
    `Results on ${name}`,
    html`<table class="board"><thead><tr><th scope="col">Policy</th>${columns.map(
      ({ head }) => html`<th scope="col">${head}</th>`,
    )}</tr></thead><tbody>${rows.map(
      ([policy, row]) =>
        html`<tr><th scope="row"><bdi>${policy}</bdi></th>${columns.map(({ text, estimate }, k) =>
          estimate === undefined
            ? html`<td>${text(row)}</td>`
            : estimated(estimate(row), estimate(row)?.mean === best[k]),
        )}</tr>\n`,
    )}</tbody></table>`,
  );
}

/** A page that is complete in itself. */
export function leaderboardPage(board: Leaderboard): string {
  const { tasks, contenders } = board;
  const responses = contenders
    .flatMap(({ rows }) => [...rows.values()])
    .reduce((sum, { usage }) => sum + usage.asked - usage.missing, 0);
  const body = html`<header class="top"><h1>Leaderboard</h1>
<p class="lead">${contenders.length} policies and baselines on ${tasks.length} ${tasks.length === 1 ? 'task' : 'tasks'}, ${grouped(responses)} responses. The highest value of a column is underlined.</p>${board.asked.map((sentence) => html`<p class="byline">${sentence}</p>`)}</header>
<main><section><h2>Overview</h2>${overview(board)}</section>
${tasks.map(
  (task) =>
    html`<section><h2><bdi>${task.name}</bdi></h2><p>${upperFirst(task.title)}.</p>${taskTable(board, task)}</section>\n`,
)}<section><h2>What the numbers are</h2>${bullets(NOTES)}</section></main>
${FOOTER}`;
  return page({ title: 'Leaderboard', style: STYLE + OWN_STYLE, body });
}
