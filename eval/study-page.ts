/** The results of a study as a page and as Markdown. */

import { duration, fixed, grouped, lowerFirst, signed } from '../src/ground/numbers.ts';
import { bullets, FOOTER, type Html, html, page, scrolling } from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import type { MeanInterval } from '../src/measures/bootstrap.ts';
import { curveScripts, curvesBlock } from './report-curves.ts';
import {
  type ArmResult,
  CURVES,
  GATES,
  type ResultKey,
  type SettingResult,
  type StudyDifference,
  type StudyResults,
} from './study-results.ts';

/** ".724", "−.021", "1.250": without the zero that all numbers below 1 begin with. */
const tight = (value: number, format: (value: number) => string = fixed): string =>
  format(value).replace(/^([+\u2212]?)0\./, '$1.');

const ends = ({ ci95 }: MeanInterval, format?: (value: number) => string): string =>
  `[${ci95.map((value) => tight(value, format)).join(', ')}]`;

/** `*`: the interval excludes 0; `**`: also after Holm's correction; dagger: one seed. */
const mark = ({ significant, holm, seeds }: StudyDifference): string =>
  seeds === 1 ? '\u2020' : holm ? '**' : significant ? '*' : '';

const seedsOf = ({ seeds }: ArmResult): string => String(seeds.length);

function trainedWith({ training: { samples, steps } }: ArmResult): string {
  const parts = [
    ...(samples > 0 ? [`${grouped(samples)} samples`] : []),
    ...(steps > 0 ? [`${grouped(steps)} steps`] : []),
  ];
  return parts.length === 0 ? '\u2013' : parts.join(', ');
}

/** Data and sampling behind the numbers of a setting. */
function about({ split, series, samples, arms }: SettingResult): string {
  const most = Math.max(...arms.map(({ seeds }) => seeds.length));
  const seeds = most === 1 ? 'one seed' : `up to ${most} seeds`;
  return `${grouped(series)} series of the ${split} split, shared by all arms and seeds; ${samples} sampled ${
    samples === 1 ? 'answer' : 'answers'
  } per series and temperature; ${seeds}.`;
}

/** Notes on how to read the numbers. */
function notes(results: StudyResults): string[] {
  const { settings, baseTitle, bootstrap } = results;
  const single = settings.some(({ arms }) => arms.some(({ seeds }) => seeds.length === 1));
  return [
    `Intervals are 95\u202f% percentile intervals of ${grouped(bootstrap)} bootstrap resamples over seeds and series, crossed: each resample draws one seed fewer than there are (Rao & Wu) and, for all of them, the same series. All arms have the same draws, so that differences are paired by seed and series.`,
    ...(single
      ? [
          'The interval of an arm with one seed covers the series alone, not the spread between trainings. A difference of one seed (\u2020) is never marked as significant.',
        ]
      : []),
    'With five seeds the intervals may be too short where most of the spread is between seeds: in simulations they then cover the truth in 88\u202f% of the cases, not in 95.',
    `* the interval of the difference excludes 0, not corrected for the number of comparisons; ** significant also after Holm\u2019s correction over the arms of the setting, for that column alone. Differences are arm \u2212 ${baseTitle}, or arm \u2212 start.`,
    'KL and entropy are measured on answers to the same series, at the temperature named above the column, without the cap of the training log.',
    'Seconds are training time on this machine, without the shared start; they depend on its load.',
  ];
}

// Markdown.

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [row(head), row(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(row)].join('\n');
}

const escaped = (text: string): string => text.replaceAll('|', '\\|').replaceAll('*', '\\*');

function markdownDifferences(
  { keys, arms }: SettingResult,
  which: 'toBase' | 'toStart',
  title: string,
): string[] {
  const shown = arms.filter((one) => one[which] !== null);
  if (shown.length === 0) return [];
  const rows = shown.map((one) => [
    escaped(one.title),
    ...keys.map(({ key }) => {
      const found = one[which]![key];
      return found === undefined
        ? '\u2013'
        : `${tight(found.mean, signed)}${escaped(mark(found))} ${ends(found, signed)}`;
    }),
  ]);
  return [`\n**${title}**\n`, markdownTable(['', ...keys.map(({ label }) => escaped(label))], rows)];
}

function markdownGates(setting: SettingResult): string[] {
  const shown = gatesOf(setting);
  if (shown.length === 0) return [];
  const rows = setting.arms
    .filter(({ gates }) => gates !== null)
    .map((one) => [escaped(one.title), ...shown.map(({ name }) => gateCell(one, name))]);
  return [
    '\n**Gates**: means over the steps of the reinforcement\n',
    markdownTable(['', ...shown.map(({ label }) => label)], rows),
    `\n${shown.map(({ label, definition }) => `${label}: ${lowerFirst(definition)}`).join(' ')}`,
  ];
}

/** The tables of a study in Markdown. */
export function studyMarkdown(results: StudyResults): string {
  const { title, command, finished, cells, failed, settings, baseTitle } = results;
  const lines = [
    `# ${title}`,
    '',
    `\`${command}\`: ${finished} of ${cells} cells are finished.`,
    ...failed.map(({ cell, reason }) => `\nFailed: ${cell}: ${escaped(reason)}`),
  ];
  for (const setting of settings) {
    const { keys, arms } = setting;
    const rows = arms.map((one) => [
      escaped(one.title),
      ...keys.map(({ key }) => {
        const found = one.values[key];
        return found === undefined ? '\u2013' : `${tight(found.mean)} ${ends(found)}`;
      }),
      trainedWith(one),
      one.seconds.training.toFixed(0),
      seedsOf(one),
    ]);
    lines.push(
      `\n## ${setting.title}\n`,
      about(setting),
      '',
      markdownTable(['', ...keys.map(({ label }) => escaped(label)), 'Training', 'Seconds', 'Seeds'], rows),
      ...markdownDifferences(setting, 'toBase', `Difference to ${escaped(baseTitle)}`),
      ...markdownDifferences(setting, 'toStart', 'Difference to the start'),
      ...markdownGates(setting),
    );
  }
  lines.push('\n## How to read these numbers\n', ...notes(results).map((text) => `- ${escaped(text)}`));
  return `${lines.join('\n')}\n`;
}

// The page.

const heads = (keys: readonly ResultKey[]): Html[] =>
  keys.map(({ label, definition }) => html`<th scope="col" title="${definition}">${label}</th>`);

function valuesTable({ title, keys, arms }: SettingResult): Html {
  const rows = arms.map(
    (one) =>
      html`<tr><th scope="row">${one.title}<span class="note">${trainedWith(one)}, ${duration(one.seconds.training)}; ${seedsOf(one)} ${one.seeds.length === 1 ? 'seed' : 'seeds'}</span></th>${keys.map(
        ({ key }) => {
          const found = one.values[key];
          return found === undefined
            ? html`<td class="none">\u2013</td>`
            : html`<td><span class="mean">${tight(found.mean)}</span><span class="ci">${ends(found)}</span></td>`;
        },
      )}</tr>\n`,
  );
  return scrolling(
    `Results: ${title}`,
    html`<table class="study"><thead><tr><th scope="col">Arm</th>${heads(keys)}</tr></thead><tbody>${rows}</tbody></table>`,
  );
}

/** Where a difference lies between −most and most, 0 in the middle. Decorative: the numbers stand beside it. */
function line({ mean, ci95, significant }: StudyDifference, most: number): Html {
  const x = (value: number): string => (50 + (50 * Math.max(-most, Math.min(most, value))) / most).toFixed(1);
  return html`<svg class="whisker${significant ? ' sure' : ''}" viewBox="-2 0 104 10" preserveAspectRatio="none" aria-hidden="true" focusable="false"><line class="axis" x1="0" x2="100" y1="5" y2="5"/><line class="floor" x1="50" x2="50" y1="0" y2="10"/><line class="range" x1="${x(ci95[0])}" x2="${x(ci95[1])}" y1="5" y2="5"/><line class="dot" x1="${x(mean)}" x2="${x(mean)}" y1="1.5" y2="8.5"/></svg>`;
}

function differenceCell(found: StudyDifference | undefined, up: boolean | null, most: number): Html {
  if (found === undefined) return html`<td class="none">\u2013</td>`;
  const sign = found.mean > 0 === up ? 'met' : 'missed';
  const look = found.significant && up !== null ? `mean ${sign}` : 'mean';
  return html`<td><span class="${look}">${tight(found.mean, signed)}${mark(found)}</span><span class="ci">${ends(found, signed)}</span>${line(found, most)}</td>`;
}

function differencesTable(
  { title, keys, arms }: SettingResult,
  which: 'toBase' | 'toStart',
  what: string,
): Html | null {
  const shown = arms.filter((one) => one[which] !== null);
  if (shown.length === 0) return null;
  const most = keys.map(({ key }) =>
    Math.max(1e-9, ...shown.flatMap((one) => (one[which]![key]?.ci95 ?? []).map(Math.abs))),
  );
  const rows = shown.map(
    (one) =>
      html`<tr><th scope="row">${one.title}</th>${keys.map(({ key, up }, k) => differenceCell(one[which]![key], up, most[k]!))}</tr>\n`,
  );
  const table = scrolling(
    `${what}: ${title}`,
    html`<table class="study"><thead><tr><th scope="col">Arm</th>${heads(keys)}</tr></thead><tbody>${rows}</tbody></table>`,
  );
  return which === 'toBase'
    ? html`<h3>${what}</h3>${table}`
    : html`<details><summary>${what}</summary>${table}</details>`;
}

/** The gates that any arm has. */
function gatesOf({ arms }: SettingResult): typeof GATES {
  return GATES.filter(({ name }) => arms.some(({ gates }) => gates?.[name] !== undefined));
}

const gateCell = ({ gates }: ArmResult, name: string): string => {
  const value = gates?.[name];
  return value === undefined ? '\u2013' : Math.abs(value) < 10 ? tight(value) : value.toFixed(1);
};

function gatesTable(setting: SettingResult): Html | null {
  const shown = gatesOf(setting);
  if (shown.length === 0) return null;
  const rows = setting.arms
    .filter(({ gates }) => gates !== null)
    .map(
      (one) =>
        html`<tr><th scope="row">${one.title}</th>${shown.map(({ name }) => html`<td>${gateCell(one, name)}</td>`)}</tr>\n`,
    );
  return html`<h3>Gates</h3><p>Whether there was anything to learn from, and whether the traces said more than the rewards did: means over the steps of the reinforcement.</p>${scrolling(
    `Gates: ${setting.title}`,
    html`<table class="study"><thead><tr><th scope="col">Arm</th>${shown.map(
      ({ label, definition }) => html`<th scope="col">${label}<span class="note">${definition}</span></th>`,
    )}</tr></thead><tbody>${rows}</tbody></table>`,
  )}`;
}

function curves({ setting, curves: all }: SettingResult): Html | null {
  const panels = CURVES.flatMap(({ name, title, definition }) => {
    const found = all.find((one) => one.name === name);
    if (found === undefined) return [];
    const drawn = found.arms.map(({ title: arm, step, mean, low, high }) => ({
      ...{ name: arm, x: step, y: mean },
      band: { low, high },
    }));
    return [{ title, definition, xLabel: 'step', curves: drawn }];
  });
  if (panels.length === 0) return null;
  const names = [...new Set(panels.flatMap((panel) => panel.curves.map(({ name }) => name)))];
  return html`<h3>Learning curves</h3><p>Of the reinforcement, on training series: the mean over the seeds, smoothed over an eighth of the steps; the bands reach from the lowest to the highest seed. A name switches its curves off and on.</p>${curvesBlock(panels, `${setting}-curve`, names)}`;
}

/** The arms whose greedy reward differs from the base's, in words; the first temperature's where nothing is greedy. */
function verdict({ keys, arms }: SettingResult, baseTitle: string): string {
  const [key] = keys;
  const compared = arms.filter((one) => one.toBase?.[key!.key] !== undefined);
  if (compared.length === 0) return `Nothing can be compared with ${baseTitle} yet.`;
  const better = compared.filter(({ toBase }) => {
    const found = toBase![key!.key]!;
    return found.significant && found.mean > 0;
  });
  const worse = compared.filter(({ toBase }) => {
    const found = toBase![key!.key]!;
    return found.significant && found.mean < 0;
  });
  const list = (some: readonly ArmResult[]): string =>
    some
      .toSorted((a, b) => b.toBase![key!.key]!.mean - a.toBase![key!.key]!.mean)
      .map(
        (one) => `${one.title} ${tight(one.toBase![key!.key]!.mean, signed)}${mark(one.toBase![key!.key]!)}`,
      )
      .join(', ');
  const rest = compared.length - better.length - worse.length;
  const parts = [
    ...(better.length > 0 ? [`above ${baseTitle}: ${list(better)}`] : []),
    ...(worse.length > 0 ? [`below: ${list(worse)}`] : []),
    ...(rest > 0 ? [`${rest === compared.length ? 'no arm' : `${rest} not`} told apart from it`] : []),
  ];
  return `${key!.label}, ${parts.join('; ')}.`;
}

/** The page of a study; `text` is the study file. */
export function studyPage(results: StudyResults, text: string): string {
  const { title, command, name, finished, cells, failed, settings, baseTitle } = results;
  const missing = cells - finished - failed.length;
  const sections = [
    ...settings.map((one) => ({
      id: one.setting,
      title: one.title,
      body: html`<p>${verdict(one, baseTitle)}</p><p class="byline">${about(one)}</p>${valuesTable(one)}${differencesTable(one, 'toBase', `Difference to ${baseTitle}`)}${differencesTable(one, 'toStart', 'Difference to the start')}${gatesTable(one)}${curves(one)}`,
    })),
    { id: 'notes', title: 'How to read these numbers', body: bullets(notes(results)) },
    {
      id: 'study',
      title: 'Study',
      body: html`<pre tabindex="0">${command}</pre><details><summary>The study file</summary><pre tabindex="0">${text}</pre></details>`,
    },
  ];
  const body = html`<header class="top">
<h1>${title}</h1>
<p class="byline">Study ${name}: ${finished} of ${cells} runs are finished${missing > 0 ? `, ${missing} are still to come` : ''}.</p>
<nav aria-label="Sections"><ul>${sections.map((one) => html`<li><a href="#${one.id}">${one.title}</a></li>`)}</ul></nav>
${failed.map(({ cell, reason }) => html`<p class="failure">${cell} failed: <bdi>${reason}</bdi></p>`)}
</header>
<main>
${sections.map((one) => html`<section id="${one.id}" aria-labelledby="${one.id}-title"><h2 id="${one.id}-title">${one.title}</h2>${one.body}</section>\n`)}</main>
${FOOTER}`;
  const drawn = settings.some((one) => one.curves.length > 0);
  return page({ title, style: STYLE, body, scripts: drawn ? curveScripts() : [] });
}
