/** Results of a study as a page and as Markdown. */

import { fixed, grouped, interval, lowerFirst, plural, signed } from '../src/ground/numbers.ts';
import { bullets, FOOTER, type Html, html, page } from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
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
import { type Cell, escaped, markdownTable, NOTHING, pageTable, type Table } from './table.ts';

/** Without the zero that all numbers below 1 begin with: ".724", "−.021", "1.250". */
const tight = (value: number): string => fixed(value).replace(/^(\u2212?)0\./, '$1.');
/** `tight` with a sign: "+.015". */
const tightSigned = (value: number): string => signed(value).replace(/^([+\u2212]?)0\./, '$1.');

/** `*`: the interval excludes 0; `**`: also after Holm's correction; dagger: one seed. */
const mark = ({ significant, holm, seeds }: StudyDifference): string =>
  seeds === 1 ? '\u2020' : holm ? '**' : significant ? '*' : '';

function trainedWith({ training: { samples, steps } }: ArmResult): string {
  const parts = [
    ...(samples > 0 ? [`${grouped(samples)} ${samples === 1 ? 'sample' : 'samples'}`] : []),
    ...(steps > 0 ? [`${grouped(steps)} ${steps === 1 ? 'step' : 'steps'}`] : []),
  ];
  return parts.length === 0 ? '\u2013' : parts.join(', ');
}

/** Data and sampling behind the numbers of a setting. */
function about({ split, series, samples, arms }: SettingResult): string {
  const most = Math.max(...arms.map(({ seeds }) => seeds.length));
  const seeds = most === 1 ? 'one seed' : `up to ${most} seeds`;
  return `${grouped(series)} series of the ${split} split, shared by all arms and seeds; ${plural(samples, 'sampled answer')} per series and temperature; ${seeds}.`;
}

/** Notes on how to read the numbers. */
function notes(results: StudyResults): string[] {
  const { settings, baseTitle, bootstrap } = results;
  const single = settings.some(({ arms }) => arms.some(({ seeds }) => seeds.length === 1));
  return [
    `Intervals are 95\u202f% percentile intervals from ${grouped(bootstrap)} crossed bootstrap resamples: each draws all seeds but one (Rao & Wu), and the same series for each of them. All arms share the draws, so differences are paired by seed and series.`,
    ...(single
      ? [
          'The interval of an arm with one seed covers the series alone, not the spread between training seeds. A difference of one seed (\u2020) is never marked as significant.',
        ]
      : []),
    'With five seeds the intervals are too short where most of the spread is between seeds: in simulations they cover the true value in 88\u202f% of the cases instead of 95.',
    `* the interval of the difference excludes 0, not corrected for the number of comparisons; ** still significant after Holm\u2019s correction over the arms of the setting, column by column. Differences are arm \u2212 ${baseTitle}, or arm \u2212 start.`,
    'KL and entropy are measured on sampled answers to the same series, without the cap of the training log.',
    'Seconds are training time on this machine, without the shared start; they depend on its load.',
  ];
}

// ---- tables ---------------------------------------------------------------------------------------------------------

const headsOf = (keys: readonly ResultKey[]): Cell[] =>
  keys.map(({ label, definition }) => ({
    text: label,
    shown: html`<span title="${definition}">${label}</span>`,
  }));

function valuesTable({ keys, arms }: SettingResult): Table {
  const rows = arms.map((arm): Cell[] => [
    arm.title,
    ...keys.map(({ key }): Cell => {
      const value = arm.values[key];
      if (value === undefined) return NOTHING;
      const [mean, ends] = [tight(value.mean), interval(value, tight)];
      const shown = html`<span class="mean">${mean}</span><span class="ci">${ends}</span>`;
      return { text: `${mean} ${ends}`, shown };
    }),
    ...[trainedWith(arm), arm.seconds.training.toFixed(0), String(arm.seeds.length)],
  ]);
  return { head: ['Arm', ...headsOf(keys), 'Training', 'Seconds', 'Seeds'], rows };
}

/** Draws a difference between −most and most, 0 in the middle. Decorative: the numbers stand beside it. */
function line({ mean, ci95, significant }: StudyDifference, most: number): Html {
  const x = (value: number): string => (50 + (50 * Math.max(-most, Math.min(most, value))) / most).toFixed(1);
  return html`<svg class="whisker${significant ? ' sure' : ''}" viewBox="-2 0 104 10" preserveAspectRatio="none" aria-hidden="true" focusable="false"><line class="axis" x1="0" x2="100" y1="5" y2="5"/><line class="floor" x1="50" x2="50" y1="0" y2="10"/><line class="range" x1="${x(ci95[0])}" x2="${x(ci95[1])}" y1="5" y2="5"/><line class="dot" x1="${x(mean)}" x2="${x(mean)}" y1="1.5" y2="8.5"/></svg>`;
}

const changeText = (difference: StudyDifference): string =>
  `${tightSigned(difference.mean)}${mark(difference)}`;

function differenceCell(difference: StudyDifference | undefined, up: boolean | null, most: number): Cell {
  if (difference === undefined) return NOTHING;
  const { mean, significant } = difference;
  const look = significant && up !== null ? (mean > 0 === up ? ' met' : ' missed') : '';
  const [text, ends] = [changeText(difference), interval(difference, tightSigned)];
  const shown = html`<span class="mean${look}">${text}</span><span class="ci">${ends}</span>${line(difference, most)}`;
  return { text: `${text} ${ends}`, shown };
}

/** Table of the differences of all arms that have one; null where none has. */
function differencesTable({ keys, arms }: SettingResult, which: 'toBase' | 'toStart'): Table | null {
  const compared = arms.flatMap(({ title, [which]: differences }) =>
    differences === null ? [] : [{ title, differences }],
  );
  if (compared.length === 0) return null;
  const columns = keys.map(({ key, up }) => {
    const column = compared.map(({ differences }) => differences[key]);
    const most = Math.max(1e-9, ...column.flatMap((difference) => (difference?.ci95 ?? []).map(Math.abs)));
    return column.map((difference) => differenceCell(difference, up, most));
  });
  return {
    head: ['Arm', ...headsOf(keys)],
    rows: compared.map(({ title }, r) => [title, ...columns.map((column) => column[r]!)]),
  };
}

/** Gates that any arm has. */
const gatesOf = ({ arms }: SettingResult): typeof GATES =>
  GATES.filter(({ name }) => arms.some(({ gates }) => gates?.[name] !== undefined));

/** Table of the gates; null where no arm has any. */
function gatesTable(setting: SettingResult): Table | null {
  const shown = gatesOf(setting);
  if (shown.length === 0) return null;
  const rows = setting.arms.flatMap(({ title, gates }) => {
    if (gates === null) return [];
    const cells = shown.map(({ name }): Cell => {
      const value = gates[name];
      return value === undefined ? NOTHING : Math.abs(value) < 10 ? tight(value) : value.toFixed(1);
    });
    return [[title, ...cells]];
  });
  const heads = shown.map(({ title, definition }) => ({
    text: title,
    shown: html`${title}<span class="note">${definition}</span>`,
  }));
  return { head: ['Arm', ...heads], rows };
}

const GATES_NOTE =
  'Mean over the reinforcement steps: did rewards differ within groups, and did the traces add information to the rewards?';

// ---- Markdown -------------------------------------------------------------------------------------------------------

/** Writes the tables of a study in Markdown. */
export function studyMarkdown(results: StudyResults): string {
  const { title, command, finished, cells, failed, settings, baseTitle } = results;
  const titled = (name: string, table: Table | null): string[] =>
    table === null ? [] : [`**${name}**`, markdownTable(table)];
  const blocks = [
    `# ${title}`,
    `\`${command}\`: ${finished} of ${cells} cells are finished.`,
    ...failed.map(({ cell, reason }) => `Failed: ${cell}: ${escaped(reason)}`),
    ...settings.flatMap((setting) => {
      const gates = gatesOf(setting).map((gate) => `${gate.title}: ${lowerFirst(gate.definition)}`);
      return [
        `## ${setting.title}`,
        escaped(verdict(setting, results)),
        about(setting),
        markdownTable(valuesTable(setting)),
        ...titled(`Difference from ${escaped(baseTitle)}`, differencesTable(setting, 'toBase')),
        ...titled('Difference from the start', differencesTable(setting, 'toStart')),
        ...titled('Gates', gatesTable(setting)),
        ...(gates.length === 0 ? [] : [`${GATES_NOTE} ${gates.join(' ')}`]),
      ];
    }),
    '## How to read these numbers',
    notes(results)
      .map((text) => `- ${escaped(text)}`)
      .join('\n'),
  ];
  return `${blocks.join('\n\n')}\n`;
}

// ---- the page -------------------------------------------------------------------------------------------------------

function curves({ setting, curves: logged }: SettingResult): Html | null {
  const panels = CURVES.flatMap(({ name, title, definition }) => {
    const curve = logged.find((candidate) => candidate.name === name);
    if (curve === undefined) return [];
    const drawn = curve.arms.map(({ title: arm, step, mean, low, high }) => ({
      ...{ name: arm, x: step, y: mean },
      band: { low, high },
    }));
    return [{ title, definition, xLabel: 'step', curves: drawn }];
  });
  if (panels.length === 0) return null;
  const names = [...new Set(panels.flatMap((panel) => panel.curves.map(({ name }) => name)))];
  return html`<h3>Learning curves</h3><p>Reinforcement on training series: mean over the seeds, smoothed over an eighth of the steps. Bands span the lowest to the highest seed. Click a name to hide or show its curves.</p>${curvesBlock(panels, `${setting}-curve`, names)}`;
}

/** Columns in which an arm is lower than the base by more than the study allows, in words; empty where it is in none. */
function lowerThan({ toBase }: ArmResult, { margins }: StudyResults, keys: readonly ResultKey[]): string {
  const lower = Object.entries(margins).flatMap(([key, margin]) => {
    const difference = toBase?.[key];
    if (difference === undefined || difference.mean >= -margin) return [];
    return [`${lowerFirst(keys.find((each) => each.key === key)!.label)} ${changeText(difference)}`];
  });
  return lower.length === 0 ? '' : ` (at lower ${lower.join(', ')})`;
}

/** Names the arms whose primary outcome differs from that of the base, and what they are lower in. */
function verdict({ keys, arms }: SettingResult, results: StudyResults): string {
  const { baseTitle, primary } = results;
  const { key, label } = keys.find((each) => each.key === primary) ?? keys[0]!;
  const compared = arms.flatMap((arm) => {
    const difference = arm.toBase?.[key];
    if (difference === undefined) return [];
    return [{ title: arm.title, difference, lower: lowerThan(arm, results, keys) }];
  });
  if (compared.length === 0) return `Nothing can be compared with ${baseTitle} yet.`;
  const sure = compared
    .filter(({ difference }) => difference.significant)
    .sort((a, b) => b.difference.mean - a.difference.mean);
  const list = (sign: 1 | -1): string =>
    sure
      .filter(({ difference }) => Math.sign(difference.mean) === sign)
      .map(({ title, difference, lower }) => `${title} ${changeText(difference)}${lower}`)
      .join(', ');
  const [better, worse, rest] = [list(1), list(-1), compared.length - sure.length];
  const parts = [
    ...(better === '' ? [] : [`above ${baseTitle}: ${better}`]),
    ...(worse === '' ? [] : [`below: ${worse}`]),
    ...(rest === 0 ? [] : [`not significantly different: ${rest} of ${compared.length} arms`]),
  ];
  return `${label}, ${parts.join('; ')}.`;
}

function settingBody(setting: SettingResult, results: StudyResults): Html {
  const { title } = setting;
  const { baseTitle } = results;
  const table = (name: string, content: Table): Html =>
    pageTable({ label: `${name}: ${title}`, look: 'study', ...content });
  const [toBase, toStart] = [`Difference from ${baseTitle}`, 'Difference from the start'];
  const [base, start, gates] = [
    differencesTable(setting, 'toBase'),
    differencesTable(setting, 'toStart'),
    gatesTable(setting),
  ];
  return html`<p>${verdict(setting, results)}</p><p class="byline">${about(setting)}</p>${table('Results', valuesTable(setting))}${
    base === null ? null : html`<h3>${toBase}</h3>${table(toBase, base)}`
  }${
    start === null ? null : html`<details><summary>${toStart}</summary>${table(toStart, start)}</details>`
  }${gates === null ? null : html`<h3>Gates</h3><p>${GATES_NOTE}</p>${table('Gates', gates)}`}${curves(setting)}`;
}

/** Writes the page of a study. @param text the study file */
export function studyPage(results: StudyResults, text: string): string {
  const { title, command, name, finished, cells, failed, settings } = results;
  const missing = cells - finished - failed.length;
  const sections = [
    ...settings.map((setting) => ({
      id: setting.setting,
      title: setting.title,
      body: settingBody(setting, results),
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
<nav aria-label="Sections"><ul>${sections.map(({ id, title: name }) => html`<li><a href="#${id}">${name}</a></li>`)}</ul></nav>
${failed.map(({ cell, reason }) => html`<p class="failure">${cell} failed: <bdi>${reason}</bdi></p>`)}
</header>
<main>
${sections.map(({ id, title: name, body: content }) => html`<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${name}</h2>${content}</section>\n`)}</main>
${FOOTER}`;
  const drawn = settings.some(({ curves: logged }) => logged.length > 0);
  return page({ title, style: STYLE, body, scripts: drawn ? curveScripts() : [] });
}
