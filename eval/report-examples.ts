/** Held-out examples of a report, chosen by a rule that cannot flatter: plot, true and predicted answer, the policy's words beside the expert trace. */

import { DataError } from '../src/errors.ts';
import type { ClassProfile } from '../src/expcot/class-profile.ts';
import { formatIntervals } from '../src/expcot/trace.ts';
import { type Html, html } from '../src/html/html.ts';
import { fixed } from '../src/html/numbers.ts';
import { plotFigure, problemNote, seenFigure, verbatim } from '../src/html/parts.ts';
import { figure, isBare } from '../src/plot/figure.ts';
import { encodePng } from '../src/plot/png.ts';
import { render, renderColumns } from '../src/plot/raster.ts';
import { figureSvg } from '../src/plot/svg.ts';
import { intervalText } from '../src/tasks/anomaly.ts';
import { blindTrace, labelOf } from '../src/tasks/kinds.ts';
import { variateText } from '../src/tasks/variates.ts';
import type { EvalRecord, Example, Gold, ParsedAnswer, Picture } from '../src/types.ts';
import { isPlain } from './baselines.ts';
import type { ReportExample } from './report.ts';

export const PER_CLASS = 2;
export const WORST = 2;
/** Classes of which PER_CLASS examples are shown; of more classes one each, of the first MOST_CLASSES. */
const FEW_CLASSES = 8;
const MOST_CLASSES = 16;
/** Channels that are drawn one above the other. */
const MOST_CHANNELS = 6;
/** Pictures that are lower are bare strips. */
const WHOLE_FROM = 64;

/** Draws what a policy sees of an example; null where it reads numbers instead. */
export type DrawExample = (example: Example) => Picture | null | Promise<Picture | null>;

const perClass = (classes: number): number => (classes <= FEW_CLASSES ? PER_CLASS : 1);

/** How `chooseExamples` chooses, in words. */
export function exampleRule(kind: Gold['kind'], classes: number): string {
  const each = perClass(classes);
  const group = kind === 'variates' ? 'with as many anomalous variates' : 'of each class';
  const of = kind === 'variates' ? 'for each number that occurs, ' : '';
  const first = each === 1 ? 'the first held-out series' : `the first ${each} held-out series`;
  const some = classes > MOST_CLASSES ? ` (of ${MOST_CLASSES} classes of ${classes})` : '';
  return `Not chosen by hand: ${of}${first} ${group}${some}, in the order of the data set, then the ${WORST} answers with the lowest reward among the rest (the earlier one of equals).`;
}

export interface Chosen {
  readonly record: EvalRecord;
  /** Its place in the rule, for the reader. */
  readonly why: string;
}

/**
 * Applies `exampleRule` to one answer per series, in the order of the held-out set. `classes`: the gold classes that occur, in
 * the order of the report (of variates, how many are anomalous: `labelOf`).
 */
export function chooseExamples(records: readonly EvalRecord[], classes: readonly string[]): Chosen[] {
  const ordinals = ['first', 'second'];
  const chosen = classes.slice(0, MOST_CLASSES).flatMap((label) =>
    records
      .filter((record) => labelOf(record.gold) === label)
      .slice(0, perClass(classes.length))
      .map((record, i): Chosen => {
        const of = record.gold.kind === 'variates' ? `with ${label}` : 'of its class';
        return { record, why: `${ordinals[i]} ${of}` };
      }),
  );
  const taken = new Set(chosen.map(({ record }) => record));
  const worst = records
    .filter((record) => !taken.has(record))
    // Sorting is stable: of equals the earlier one comes first.
    .sort((a, b) => a.score.total - b.score.total)
    .slice(0, WORST)
    .map((record): Chosen => ({ record, why: 'among the lowest rewards' }));
  return [...chosen, ...worst];
}

/** Draws whole univariate series as a preset has them, and nothing else. @throws ConfigError for an unknown preset */
export function plainDrawing(preset: string): DrawExample {
  const shape = figure(preset);
  return (example) => {
    if (!isPlain(example)) return null;
    const [values] = example.channels;
    return isBare(shape) ? renderColumns(shape, values!) : render(shape, values!);
  };
}

function answerText(answer: Gold): string {
  if (answer.kind === 'classification') return answer.class;
  if (answer.kind === 'variates') return answer.variates.length === 0 ? 'none' : answer.variates.join(', ');
  return `${formatIntervals(answer.intervals)}, ${answer.class}`;
}

/**
 * The blind reading in full. It sees the values alone, as the policy sees their picture alone; of classes it knows what `profile`
 * says of the training split.
 */
export function blindReading(example: Example, profile: ClassProfile | null): string {
  const { gold } = example;
  if (gold.kind === 'classification' && profile === null) {
    return 'No reading: without a training split nothing is known of the classes.';
  }
  try {
    const { think, answer } = blindTrace(example, gold.kind, profile);
    return `${think.replaceAll('\n', '\n\n')} Answer: ${answerText(answer)}.`;
  } catch (error) {
    if (error instanceof DataError) return `No reading: ${error.message}.`;
    throw error;
  }
}

export interface ExampleOptions {
  /** Who answered: `After TimerPO, greedy`. */
  readonly by: string;
  /** Draws what the policy saw. */
  readonly draw: DrawExample;
  /** Gold classes that occur, in the order of the report. */
  readonly classes: readonly string[];
  /** What was learned of the classes; null where nothing was, or there are none. */
  readonly profile: ClassProfile | null;
}

/** The series over its samples with true and predicted intervals, one figure per channel. */
async function figuresOf({ channels, names, gold }: Example, answer: ParsedAnswer): Promise<string[]> {
  const bands = gold.kind === 'anomaly' ? { gold: gold.intervals, predicted: answer.intervals ?? [] } : {};
  const several = channels.length > 1;
  const figures: string[] = [];
  for (const [c, values] of channels.slice(0, MOST_CHANNELS).entries()) {
    const title = several ? { title: names[c]! } : {};
    figures.push(await figureSvg(values, { ...bands, ...title, width: 960, height: several ? 130 : 190 }));
  }
  return figures;
}

/** Figures and picture of an example. Where no intervals can be shown, the picture that the policy saw is enough. */
async function pictures(
  example: Example,
  answer: ParsedAnswer,
  draw: DrawExample,
): Promise<Pick<ReportExample, 'figure' | 'seen' | 'seenWhole'>> {
  const picture = await draw(example);
  const whole = picture !== null && picture.height >= WHOLE_FROM;
  const seen =
    picture === null
      ? {}
      : {
          seen: `data:image/png;base64,${encodePng(picture).toString('base64')}`,
          ...(whole ? { seenWhole: true } : {}),
        };
  const drawn = example.gold.kind === 'anomaly' || !whole ? await figuresOf(example, answer) : [];
  return { figure: drawn.length === 1 ? drawn[0]! : drawn, ...seen };
}

/**
 * The examples of a report with their figures.
 * @throws DataError for values that cannot be drawn; what `draw` throws
 */
export async function buildExamples(
  records: readonly EvalRecord[],
  series: readonly Example[],
  { by, draw, classes, profile }: ExampleOptions,
): Promise<ReportExample[]> {
  const answers = new Map(records.map((one) => [one.seriesId, one]));
  const byId = new Map(series.map((one) => [one.id, one]));
  const examples: ReportExample[] = [];
  const ordered = series.map(({ id }) => answers.get(id)!);
  for (const { record, why } of chooseExamples(ordered, classes)) {
    const example = byId.get(record.seriesId)!;
    const learned =
      record.gold.kind === 'classification' ? ', and what was learned of the training split' : '';
    examples.push({
      seriesId: record.seriesId,
      length: record.length,
      gold: record.gold,
      ...(example.names.length > 1 ? { channels: example.names } : {}),
      ...(await pictures(example, record.answer, draw)),
      by,
      chosen: why,
      response: record.response,
      answer: record.answer,
      score: record.score,
      expcot: blindReading(example, profile),
      expcotLabel: `ExpCoT of the same series, blind: written from its values alone${learned}`,
    });
  }
  return examples;
}

/** Whether the main part of an answer is right; null where it could not be read. */
function verdictOf({ gold, answer }: ReportExample): 'right' | 'wrong' | 'unreadable' {
  const said = gold.kind === 'variates' ? (answer.variates ?? null) : answer.class;
  if (said === null) return 'unreadable';
  const right = gold.kind === 'variates' ? String(said) === String(gold.variates) : said === gold.class;
  return right ? 'right' : 'wrong';
}

const mark = (verdict: ReturnType<typeof verdictOf>): Html =>
  html`<span class="${verdict === 'right' ? 'met' : 'missed'}">${verdict}</span>`;

/** Gold and predicted answer side by side, and the same for a screen reader. */
function comparison(example: ReportExample): { readonly shown: Html; readonly spoken: string } {
  const { gold, answer } = example;
  const verdict = mark(verdictOf(example));
  if (gold.kind === 'variates') {
    const truth = variateText(gold.variates, example.channels);
    const found = variateText(answer.variates ?? null, example.channels);
    return {
      shown: html`Anomalous variates <strong>${truth}</strong>; the policy names <strong>${found}</strong>: ${verdict}.`,
      spoken: `Anomalous variates: ${truth}. Named: ${found}.`,
    };
  }
  const said = html`<strong><bdi>${answer.class ?? 'nothing readable'}</bdi></strong>`;
  if (gold.kind === 'classification') {
    return {
      shown: html`Gold class <strong><bdi>${gold.class}</bdi></strong>; the policy says ${said}: ${verdict}.`,
      spoken: `Gold class: ${gold.class}.`,
    };
  }
  const truth = intervalText(gold.intervals);
  const found = intervalText(answer.intervals);
  const named =
    gold.class === null
      ? html`The data do not name the class; the policy says ${said}.`
      : html`Gold class <strong>${gold.class}</strong>; the policy says ${said}: ${verdict}.`;
  return {
    shown: html`${named} True intervals ${truth}; predicted ${found}.`,
    spoken: `True intervals: ${truth}. Predicted intervals: ${found}.`,
  };
}

function exampleCard(example: ReportExample, index: number): Html {
  const { answer, score } = example;
  const { shown, spoken } = comparison(example);
  const description = `Plot of ${example.seriesId}, ${example.length} points. ${spoken}`;
  const figures = typeof example.figure === 'string' ? [example.figure] : example.figure;
  const prefix = (f: number): string => (f === 0 ? `example-${index}` : `example-${index}-${f}`);
  return html`<article class="example">
<h3><bdi>${example.seriesId}</bdi>${example.chosen === undefined ? null : html`<span class="chosen"> ${example.chosen}</span>`}</h3>
<p class="verdict">${shown}</p>
${figures.map((svg, f) => plotFigure(svg, prefix(f), description))}
${example.seen === undefined ? null : seenFigure(example.seen, `The picture of ${example.seriesId} as the policy sees it`, example.seenWhole)}
<dl class="parts"><div><dt>reward</dt><dd>${fixed(score.total)}</dd></div>${Object.entries(score.parts).map(
    ([name, value]) => html`<div><dt>${name}</dt><dd>${fixed(value)}</dd></div>`,
  )}</dl>
${problemNote(answer.problem)}
<div class="pair"><div><h4>${example.by}, verbatim</h4>${verbatim(example.response)}</div>
<div><h4>${example.expcotLabel ?? 'ExpCoT of the same series'}</h4>${verbatim(example.expcot, 'prose')}</div></div>
</article>
`;
}

export function examplesBlock(examples: readonly ReportExample[]): Html {
  return html`${examples.map(exampleCard)}`;
}
