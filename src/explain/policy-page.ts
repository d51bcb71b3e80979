/** What a policy says, as a section of the page of a report: after the findings, and set apart from them. */

import { grouped } from '../ground/numbers.ts';
import { type Html, html } from '../html/html.ts';
import { bullets, problemNote, recordTable, scrolling, seenFigure, verbatim } from '../html/parts.ts';
import { intervalText } from '../series/intervals.ts';
import { claimWords, confidenceWords, shownAnswers, signalNumber, windowKey } from './policy-words.ts';
import { whenWords } from './report.ts';
import type { AnomalyReport, Doubt, PolicyAnswer, PolicySignal } from './schema.ts';

/** Pictures by column and by `windowKey`, PNG data URIs. */
export type SeenPictures = ReadonlyMap<string, ReadonlyMap<string, string>>;

type Policy = NonNullable<AnomalyReport['policy']>;
type Column = Policy['columns'][number];

/** Intervals that the page lists. */
const MOST_INTERVALS = 50;

export const POLICY_STYLE = `
.policy{border-top:1px solid var(--rule);padding-top:1.2rem}
.policy .secondary{color:var(--soft);max-width:none}
.policy details{margin:.4rem 0 1rem}.policy summary{cursor:pointer}
.policy article{border-top:1px solid var(--rule);padding:.8rem 0 0}
.policy img{max-width:100%}`.replaceAll('\n', '');

const DOUBT_WORDS: Readonly<Record<Doubt, string>> = {
  unreadable: 'cannot be read',
  unlike: 'unlike what it was taught',
  unsure: 'unsure of its answer',
  samples: 'answered otherwise when asked again',
  shifts: 'contradicted by the windows that overlap it',
  repeated: 'the same text as many others',
};

function intervalsTable({ intervals }: Column): Html | null {
  if (intervals.length === 0) return null;
  const rest = intervals.length - MOST_INTERVALS;
  const sure = intervals.some(({ confidence }) => confidence !== undefined);
  return html`${scrolling(
    'Intervals of the policy',
    html`<table class="record spans"><thead><tr><th scope="col">When</th><th scope="col">Samples</th><th scope="col">What</th>${sure ? html`<th scope="col">Confidence</th>` : null}<th scope="col">The detector</th></tr></thead>
<tbody>${intervals
      .slice(0, MOST_INTERVALS)
      .map(
        (one) =>
          html`<tr><th scope="row">${whenWords(one)}</th><td>${one.start} to ${one.end - 1}</td><td>${claimWords(one)}</td>${sure ? html`<td>${confidenceWords(one.confidence ?? null)}</td>` : null}<td>${one.finding ? 'has a finding there' : 'finds nothing there'}</td></tr>\n`,
      )}</tbody></table>`,
  )}${sure ? html`<p>A confidence is the share of such intervals that are right, measured on series that the policy was not taught.</p>` : null}${rest > 0 ? html`<p>${grouped(rest)} more are in the JSON file.</p>` : null}`;
}

/** Signals whose limit is the least that is trusted; of the others it is the most. */
const AT_LEAST: readonly Doubt[] = ['unsure', 'samples', 'shifts'];

function limitWords({ name, limit }: PolicySignal): string {
  if (limit === null) return 'not known';
  return `at ${AT_LEAST.includes(name) ? 'least' : 'most'} ${signalNumber(limit)}`;
}

function signalsTable(signals: readonly PolicySignal[]): Html {
  return scrolling(
    'How far the answers can be trusted',
    html`<table class="record spans"><thead><tr><th scope="col">Measure</th><th scope="col">Value</th><th scope="col">Limit</th><th scope="col">Windows beyond it</th></tr></thead>
<tbody>${signals.map(
      (signal) =>
        html`<tr><th scope="row">${signal.text}</th><td>${signalNumber(signal.value)}</td><td>${limitWords(signal)}</td><td>${signal.windows === 0 || signal.limit === null ? '\u2013' : `${grouped(signal.doubtful)} of ${grouped(signal.windows)}`}</td></tr>\n`,
    )}</tbody></table>`,
  );
}

function answerBlock(one: PolicyAnswer, seen: string | undefined): Html {
  const name = `samples ${one.start} to ${one.end - 1}`;
  return html`<article><h4>Window of ${name}</h4>
<p>${one.doubts.length === 0 ? 'Counted' : `Left out: ${one.doubts.map((doubt) => DOUBT_WORDS[doubt]).join('; ')}`}. Class <bdi>${one.class ?? 'unreadable'}</bdi>; marks ${intervalText(one.intervals)}.</p>
${seen === undefined ? null : seenFigure(seen, `The window of ${name} as the policy sees it`)}${problemNote(one.problem)}${verbatim(one.response)}</article>\n`;
}

function columnBlock(said: Column, seen: ReadonlyMap<string, string> | undefined, several: boolean): Html {
  const shown = shownAnswers(said.answers);
  const rest = said.answers.length - shown.length;
  return html`${several ? html`<h3>${said.column}</h3>` : null}<p><strong>${said.statement}</strong></p>
${intervalsTable(said)}${
  said.signals.length === 0
    ? null
    : html`<details><summary>How far its answers can be trusted</summary>${signalsTable(said.signals)}</details>
<details><summary>Its answers, word for word</summary>${shown.map((one) => answerBlock(one, seen?.get(windowKey(one))))}${
        rest === 0 ? null : html`<p>${grouped(rest)} more answers are in the JSON file.</p>`
      }</details>`
}`;
}

/** The section; null where no policy was asked. @throws DataError for a picture that is no PNG data URI */
export function policyBlock(policy: AnomalyReport['policy'], seen: SeenPictures): Html | null {
  if (policy === undefined) return null;
  const several = policy.columns.length > 1;
  return html`<section class="policy" aria-labelledby="policy"><h2 id="policy">What the policy says</h2>
<p class="secondary">A policy looked at pictures of the same columns. Its answers change nothing above: neither findings, nor ranks, nor levels.</p>
${policy.columns.map((said) => columnBlock(said, seen.get(said.column), several))}
<details><summary>About the policy <bdi>${policy.name}</bdi></summary>${bullets(policy.notes)}${recordTable('Policy', policy.record)}</details></section>
`;
}
