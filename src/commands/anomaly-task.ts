/** The anomaly-detection task of a recipe: data set, figure, expert traces and reward, composed. */
import { openSeries, type SeriesAddress } from '../../datasets/partition.ts';
import type { EvalTask } from '../../eval/run.ts';
import { parseAnswer } from '../../rewards/answer.ts';
import { anomalyReward } from '../../rewards/combine.ts';
import { analyse } from '../expcot/evidence.ts';
import { nanoTeacher } from '../expcot/nano.ts';
import { teacher } from '../expcot/trace.ts';
import { renderColumns } from '../plot/column.ts';
import { type Figure, figure, isBare } from '../plot/figure.ts';
import { render } from '../plot/raster.ts';
import type { PolicyCard } from '../train/card.ts';
import { instruction } from '../train/instruction.ts';
import type { Task } from '../train/task.ts';
import type { Picture } from '../types.ts';

/** Pixels of a visual token's edge: 2 × 2 patches of 14. */
const VISUAL_TOKEN = 28;

/** What of a task does not depend on where the series come from. */
export type AnomalyTask = Omit<Task, 'series'> & EvalTask;

/** The picture of a series: by columns where the figure allows it, by vega otherwise. */
export function pictureOf(shape: Figure, values: Float64Array): Picture | Promise<Picture> {
  return isBare(shape) ? renderColumns(shape, values) : render(shape, values);
}

export function anomalyTask(card: PolicyCard): AnomalyTask {
  const shape = figure(card.figure);
  const cells = Math.max(1, Math.round(shape.width / VISUAL_TOKEN)); // one scan symbol per visual token of a row
  return {
    name: 'anomaly',
    picture: (series) => pictureOf(shape, series.values),
    instruction: (series) => instruction(card.style, series.values.length, card.classes),
    trace: (series) => {
      const evidence = analyse(series.values);
      return card.style === 'nano'
        ? nanoTeacher(evidence, series, { cells })
        : teacher(evidence, series.intervals, series.class).text;
    },
    parse: (response, series) => parseAnswer(response, series.values.length),
    score: (response, series) =>
      anomalyReward(parseAnswer(response, series.values.length), series, series.values.length),
  };
}

/** The task over training series; a data set on disk is gone through again when it ends. */
export function trainingTask(card: PolicyCard, address: SeriesAddress): Task {
  const source = openSeries(address);
  return { ...anomalyTask(card), series: (index) => source.at(index % source.count) };
}
