/** A task of a data set, composed: figure, prompt, expert traces and reward. */

import { promptFor } from '../../datasets/benchmarks/registry.ts';
import { lengthOf } from '../../datasets/example.ts';
import { classesOf, storedTraces } from '../../datasets/materials.ts';
import {
  type DataFacts,
  EpochOrder,
  type ExampleAddress,
  isGenerator,
  openExamples,
} from '../../datasets/source.ts';
import type { EvalTask } from '../../eval/harness.ts';
import { DataError, TimeseerError } from '../errors.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import { PictureCache } from '../plot/cache.ts';
import { axesText, type Figure, figure, isBare } from '../plot/figure.ts';
import { render, renderColumns } from '../plot/raster.ts';
import type { NumbersFormat, PolicyCard } from '../tasks/card.ts';
import { drawingOf } from '../tasks/drawing.ts';
import { nanoTrace, parseResponse, scoreAnswer, taskKind, teacherTrace } from '../tasks/kinds.ts';
import { numericText } from '../tasks/numeric-text.ts';
import { instruction } from '../tasks/prompt.ts';
import type { Reading } from '../tasks/response.ts';
import type { Task } from '../train/task.ts';
import type { Example, Picture } from '../types.ts';

/** Pixels of a visual token's edge: 2 × 2 patches of 14. */
const VISUAL_TOKEN = 28;

/** What of a task does not depend on which examples there are. */
export type ExampleTask = Omit<Task, 'example'> & EvalTask;

/** What a task is composed of, beside the card. */
export interface TaskParts {
  readonly facts: DataFacts;
  /** What was learned of the classes from the training split; traces of classifications need it. */
  readonly profile?: () => ClassProfile | null;
  /** How answers are read; default lenient. */
  readonly reading?: Reading;
  /** Keeps pictures: worth it where examples come again. */
  readonly cache?: PictureCache;
}

/** The picture of a univariate series: by columns where the figure allows it, by vega otherwise. */
export function pictureOf(shape: Figure, values: Float64Array): Picture | Promise<Picture> {
  return isBare(shape) ? renderColumns(shape, values) : render(shape, values);
}

/** What draws examples as a preset has it. @throws ConfigError for an unknown preset */
function painter(preset: string, { facts, cache }: TaskParts): Task['picture'] {
  const plain = figure(preset);
  const missing = facts.figure?.missing ?? plain.missing;
  if (!isBare(plain)) {
    return (example) => {
      const { figure: shape, values, times } = drawingOf(example, { preset, missing });
      return cache === undefined ? render(shape, values, times) : cache.render(shape, values, times);
    };
  }
  const shapes = new Map<string, Figure>();
  return ({ channels, names }) => {
    if (channels.length === 1 && plain.channels.length === 1) return renderColumns(plain, channels[0]!);
    const key = names.join('\n');
    const shape = shapes.get(key) ?? figure(preset, { channels: names });
    shapes.set(key, shape);
    return isBare(shape) ? renderColumns(shape, channels) : render(shape, channels);
  };
}

/** Names are told where there are several channels. */
function written({ channels, names }: Example, { digits, points }: NumbersFormat) {
  return numericText(channels, { digits, points, ...(channels.length > 1 ? { names } : {}) });
}

/** The task of a card over examples of a data set. */
export function exampleTask(card: PolicyCard, parts: TaskParts): ExampleTask {
  const { facts, profile = () => null, reading = 'lenient' } = parts;
  const { style, numbers } = card;
  const missing = facts.figure?.missing ?? figure(card.figure).missing;
  const prompt = promptFor(card.task, card.kind, facts.title, facts.prompt);
  const cells = Math.max(1, Math.round(figure(card.figure).width / VISUAL_TOKEN)); // one scan symbol per visual token of a row
  const axesOf = (example: Example): { readonly axes?: string } => {
    if (style === 'nano') return {};
    const { figure: shape, times } = drawingOf(example, { preset: card.figure, missing });
    return { axes: axesText(shape, lengthOf(example), times) };
  };
  const parse: EvalTask['parse'] = (response, example) =>
    parseResponse(response, {
      kind: example.gold.kind,
      length: lengthOf(example),
      channels: example.channels.length,
      classes: facts.classes,
      reading,
    });
  return {
    name: facts.task,
    parts: taskKind(facts.kind).reward.parts,
    picture: numbers === null ? painter(card.figure, parts) : () => null,
    instruction: (example) =>
      instruction(style, prompt, {
        length: lengthOf(example),
        channels: example.names,
        classes: card.classes,
        ...(numbers === null ? axesOf(example) : { numbers: written(example, numbers) }),
      }),
    trace: (example) =>
      style === 'nano' ? nanoTrace(example, profile(), { cells }) : teacherTrace(example, profile()).text,
    parse,
    score: (response, example) => scoreAnswer(parse(response, example), example.gold, lengthOf(example)),
  };
}

/** A failure with the example that it concerns, unless it says itself where it is. */
function failureOf(error: unknown, { id }: Example, file: string): unknown {
  const placed = error instanceof DataError && error.file !== undefined;
  if (!(error instanceof TimeseerError) || placed || error.message.includes(id)) return error;
  return new DataError(`${id}: ${error.message}`, { file, cause: error });
}

/**
 * The task over training examples. Of a generator they are fresh; a data set on disk is gone through again and again, in an order of
 * its own for every epoch and stage.
 */
export function trainingTask(
  card: PolicyCard,
  address: ExampleAddress,
  stage: 'sft' | 'rl' = 'sft',
  reading: Reading = 'lenient',
): Task {
  const source = openExamples(address);
  const { facts, set } = source;
  if (isGenerator(address.name)) {
    return { ...exampleTask(card, { facts, reading }), example: (index) => source.at(index) };
  }
  const task = exampleTask(card, { facts, profile: classesOf(set), reading, cache: new PictureCache() });
  const order = new EpochOrder(source.count, address.seed, stage);
  const places = new Map<string, number>();
  const traces = new Map<string, string>();
  const stored = card.style === 'full' ? storedTraces(set) : () => null;
  return {
    ...task,
    picture: async (example) => {
      try {
        return await task.picture(example);
      } catch (error) {
        throw failureOf(error, example, address.name);
      }
    },
    example: (index) => {
      const place = order.place(index);
      const example = source.at(place);
      places.set(example.id, place);
      return example;
    },
    trace: (example) => {
      try {
        const text = traces.get(example.id) ?? stored(places.get(example.id)!) ?? task.trace(example);
        traces.set(example.id, text);
        return text;
      } catch (error) {
        throw failureOf(error, example, address.name);
      }
    },
  };
}
