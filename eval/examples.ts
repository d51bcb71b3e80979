/** Held-out examples of a report, chosen by a rule that cannot flatter. */

import { analyse } from '../src/expcot/evidence.ts';
import { blind, formatIntervals } from '../src/expcot/trace.ts';
import { renderColumns } from '../src/plot/column.ts';
import { type Figure, figure, isBare } from '../src/plot/figure.ts';
import { encodePng } from '../src/plot/png.ts';
import { render } from '../src/plot/raster.ts';
import { figureSvg } from '../src/plot/svg.ts';
import { ANOMALY_CLASSES, type EvalRecord, type LabeledSeries } from '../src/types.ts';
import type { ReportExample } from './report-input.ts';

export const PER_CLASS = 2;
export const WORST = 2;

export const EXAMPLE_RULE = `Not chosen by hand: the first ${PER_CLASS} held-out series of each class, in the order of the data set, then the ${WORST} answers with the lowest reward among the rest (the earlier one of equals).`;

export interface Chosen {
  readonly record: EvalRecord;
  /** Its place in the rule, for the reader. */
  readonly why: string;
}

/** Applies `EXAMPLE_RULE` to one answer per series, in the order of the held-out set. */
export function chooseExamples(records: readonly EvalRecord[]): Chosen[] {
  const ordinals = ['first', 'second'];
  const perClass = ANOMALY_CLASSES.flatMap((label) =>
    records
      .filter((record) => record.goldClass === label)
      .slice(0, PER_CLASS)
      .map((record, i): Chosen => ({ record, why: `${ordinals[i]} of its class` })),
  );
  const taken = new Set(perClass.map(({ record }) => record));
  const worst = records
    .filter((record) => !taken.has(record))
    // Sorting is stable: of equals the earlier one comes first.
    .sort((a, b) => a.score.total - b.score.total)
    .slice(0, WORST)
    .map((record): Chosen => ({ record, why: 'among the lowest rewards' }));
  return [...perClass, ...worst];
}

/** What a policy sees of a series, as a data URI. */
async function seenBy(shape: Figure, values: Float64Array): Promise<string> {
  const picture = isBare(shape) ? renderColumns(shape, values) : await render(shape, values);
  return `data:image/png;base64,${encodePng(picture).toString('base64')}`;
}

/** The blind reading in full. It sees the values alone, as the policy sees their picture alone. */
export function blindReading(values: Float64Array): string {
  const trace = blind(analyse(values));
  return `${trace.think.replaceAll('\n', '\n\n')} Answer: ${formatIntervals(trace.intervals)}, ${trace.class}.`;
}

export interface ExampleOptions {
  /** Who answered: `After TimerPO, greedy`. */
  readonly by: string;
  /** Figure preset that the policy saw. */
  readonly figure: string;
}

/**
 * The examples of a report with their figures.
 * @throws ConfigError for an unknown figure; DataError for values that are not finite.
 */
export async function buildExamples(
  records: readonly EvalRecord[],
  series: readonly LabeledSeries[],
  options: ExampleOptions,
): Promise<ReportExample[]> {
  const shape = figure(options.figure);
  const byId = new Map(series.map((one) => [one.id, one]));
  const examples: ReportExample[] = [];
  for (const { record, why } of chooseExamples(records)) {
    const { values } = byId.get(record.seriesId)!;
    examples.push({
      seriesId: record.seriesId,
      length: record.length,
      goldIntervals: record.goldIntervals,
      goldClass: record.goldClass,
      figure: await figureSvg(values, {
        gold: record.goldIntervals,
        predicted: record.answer.intervals ?? [],
        width: 960,
        height: 190,
      }),
      seen: await seenBy(shape, values),
      by: options.by,
      chosen: why,
      response: record.response,
      answer: record.answer,
      score: record.score,
      expcot: blindReading(values),
      expcotLabel: 'ExpCoT of the same series, blind: written from its values alone',
    });
  }
  return examples;
}
