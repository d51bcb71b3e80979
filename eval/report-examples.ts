/** Held-out examples of a report, chosen by a fixed rule: plot, true and predicted answer, the response beside the expert trace. */

import { isPlain } from '../src/answer/baselines.ts';
import type { ClassProfile } from '../src/expcot/class-profile.ts';
import { DataError } from '../src/ground/errors.ts';
import { fixed } from '../src/ground/numbers.ts';
import type {
  EvalRecord,
  Example,
  Gold,
  Interval,
  ParsedAnswer,
  Picture,
  ReasoningCheck,
} from '../src/ground/types.ts';
import { type Html, html, plotFigure, problemNote, seenFigure, verbatim } from '../src/html/html.ts';
import { figure, isBare } from '../src/plot/figure.ts';
import { pngUri } from '../src/plot/png.ts';
import { render, renderColumns } from '../src/plot/raster.ts';
import { figureSvg } from '../src/plot/svg.ts';
import { blindTrace, labelOf, taskKind } from '../src/tasks/kinds.ts';
import type { ReportExample } from './report.ts';

const PER_CLASS = 2;
const WORST = 2;
/** Up to FEW_CLASSES classes have PER_CLASS examples each; more have one each, and only the first MOST_CLASSES. */
const FEW_CLASSES = 8;
const MOST_CLASSES = 16;
const MOST_CHANNELS = 6;
/** Lower pictures are bare strips. */
const WHOLE_FROM = 64;

/** Draws what a policy sees of an example; null where it reads numbers instead. */
export type DrawExample = (example: Example) => Picture | null | Promise<Picture | null>;

const perClass = (classes: number): number => (classes <= FEW_CLASSES ? PER_CLASS : 1);

export function exampleRule(kind: Gold['kind'], classes: number): string {
  const each = perClass(classes);
  const { each: group, of } = taskKind(kind).evaluation.examples;
  const first = each === 1 ? 'the first held-out series' : `the first ${each} held-out series`;
  const some = classes > MOST_CLASSES ? ` (of ${MOST_CLASSES} classes of ${classes})` : '';
  return `Chosen by rule: ${of}${first} ${group}${some}, in the order of the data set, then the ${WORST} answers with the lowest reward among the rest (ties: the earlier one).`;
}

interface Chosen {
  readonly record: EvalRecord;
  readonly why: string;
}

/**
 * Applies `exampleRule` to one answer per series, in the order of the held-out set.
 * @param classes gold labels that occur, in the order of the report (`labelOf`)
 */
export function chooseExamples(records: readonly EvalRecord[], classes: readonly string[]): Chosen[] {
  const ordinals = ['first', 'second'];
  const chosen = classes.slice(0, MOST_CLASSES).flatMap((label) =>
    records
      .filter((record) => labelOf(record.gold) === label)
      .slice(0, perClass(classes.length))
      .map((record, i): Chosen => {
        const of = taskKind(record.gold.kind).evaluation.examples.one(label);
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

/**
 * Writes the expert trace without the answer: from the values alone, as the policy sees their picture alone, and the class profile of
 * the training split.
 */
function blindReading(example: Example, profile: ClassProfile | null): string {
  const { gold } = example;
  const { learnsClasses, readsWords, evaluation } = taskKind(gold.kind);
  if (readsWords) return 'No expert trace: the analyses do not read questions.';
  if (learnsClasses && profile === null) {
    return 'No expert trace: classes are learned from a training split, and there is none.';
  }
  try {
    const { think, answer } = blindTrace(example, gold.kind, profile);
    return `${think.replaceAll('\n', '\n\n')} Answer: ${evaluation.concluded(answer)}.`;
  } catch (error) {
    if (error instanceof DataError) return `No expert trace: ${error.message}.`;
    throw error;
  }
}

interface ExampleOptions {
  /** Policy and sampling behind the answers: `After TimerPO, greedy`. */
  readonly by: string;
  readonly draw: DrawExample;
  readonly classes: readonly string[];
  /** Profile learned from the training split; null where there is none. */
  readonly profile: ClassProfile | null;
}

/** True intervals of a series of `length` samples; null for kinds whose answers have none. */
export function goldIntervals(gold: Gold, length: number): readonly Interval[] | null {
  const { localises, marks } = taskKind(gold.kind);
  return localises ? (marks(gold, length)?.intervals ?? []) : null;
}

/** Draws a series with its true and predicted intervals: one figure for each of the first `most` channels. */
export async function seriesFigures(
  { channels, names, gold }: Example,
  answer: ParsedAnswer,
  { most, height, title }: { readonly most: number; readonly height: number; readonly title?: string },
): Promise<string[]> {
  const marked = goldIntervals(gold, channels[0]!.length);
  const bands = marked === null ? {} : { gold: marked, predicted: answer.intervals ?? [] };
  const figures: string[] = [];
  for (const [c, values] of channels.slice(0, most).entries()) {
    const name = [title, channels.length > 1 ? names[c] : undefined].filter((part) => part !== undefined);
    const titled = name.length === 0 ? {} : { title: name.join(': ') };
    figures.push(await figureSvg(values, { ...bands, ...titled, width: 960, height }));
  }
  return figures;
}

/** Picture that a policy saw, as pages carry it; nothing where it read numbers. */
export function seenPicture(picture: Picture | null): Pick<ReportExample, 'seen' | 'seenWhole'> {
  if (picture === null) return {};
  const seen = pngUri(picture);
  return picture.height < WHOLE_FROM ? { seen } : { seen, seenWhole: true };
}

/** Figures and picture of an example. Where no intervals can be shown, the picture that the policy saw is enough. */
async function pictures(
  example: Example,
  answer: ParsedAnswer,
  draw: DrawExample,
): Promise<Pick<ReportExample, 'figure' | 'seen' | 'seenWhole'>> {
  const seen = seenPicture(await draw(example));
  const look = { most: MOST_CHANNELS, height: example.channels.length > 1 ? 130 : 190 };
  const drawn =
    taskKind(example.gold.kind).localises || !seen.seenWhole
      ? await seriesFigures(example, answer, look)
      : [];
  return { figure: drawn.length === 1 ? drawn[0]! : drawn, ...seen };
}

/**
 * Builds the examples of a report with their figures.
 * @throws DataError for values that cannot be drawn; what `draw` throws
 */
export async function buildExamples(
  records: readonly EvalRecord[],
  series: readonly Example[],
  { by, draw, classes, profile }: ExampleOptions,
): Promise<ReportExample[]> {
  const answers = new Map(records.map((record) => [record.seriesId, record]));
  const byId = new Map(series.map((example) => [example.id, example]));
  const examples: ReportExample[] = [];
  const ordered = series.map(({ id }) => answers.get(id)!);
  for (const { record, why } of chooseExamples(ordered, classes)) {
    const example = byId.get(record.seriesId)!;
    const learned = taskKind(record.gold.kind).learnsClasses
      ? ' and the class profile of the training split'
      : '';
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
      ...(record.reasoning === undefined ? {} : { reasoning: record.reasoning }),
      expcot: blindReading(example, profile),
      expcotLabel: `ExpCoT of the same series, blind: written without the answer, from its values${learned}`,
    });
  }
  return examples;
}

/** Markup for whether the main part of an answer is right. */
export function mark({ gold, answer }: Pick<ReportExample, 'gold' | 'answer'>): Html {
  const right = taskKind(gold.kind).evaluation.right(answer, gold);
  const verdict = right === null ? 'unreadable' : right ? 'right' : 'wrong';
  return html`<span class="${right === true ? 'met' : 'missed'}">${verdict}</span>`;
}

/** Lists the numbers of true and false claims of a reasoning, and the false ones with the reason. */
function claimsNote(reasoning: ReasoningCheck | undefined): Html | null {
  if (reasoning === undefined || reasoning.claims === 0) return null;
  const { true: right, false: wrong, unchecked, wrong: listed } = reasoning;
  return html`<p class="note">Numbers in the reasoning: ${right} true, ${wrong} false, ${unchecked} not checkable.</p>${
    listed.length === 0
      ? null
      : html`<ul class="note">${listed.map(({ text, why }) => html`<li>\u201c<bdi>${text}</bdi>\u201d: ${why}</li>`)}</ul>`
  }`;
}

/** Card of an example. @param index of the card on its page */
export function exampleCard(example: ReportExample, index: number): Html {
  const { answer, score } = example;
  const { comparison } = taskKind(example.gold.kind).evaluation;
  const { shown, spoken } = comparison(example.gold, answer, example.channels, mark(example));
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
${problemNote(answer.problem)}${claimsNote(example.reasoning)}
<div class="pair"><div><h4>${example.by}, verbatim</h4>${verbatim(example.response)}</div>
<div><h4>${example.expcotLabel ?? 'ExpCoT of the same series'}</h4>${verbatim(example.expcot, 'prose')}</div></div>
</article>
`;
}
