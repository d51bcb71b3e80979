import { existsSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { type ClassProfile, learnClasses, readProfile } from '../src/expcot/class-profile.ts';
import { ConfigError, DataError, reasonOf } from '../src/ground/errors.ts';
import { readUtf8 } from '../src/ground/files.ts';
import type { Example, Gold } from '../src/ground/types.ts';
import type { Drawable, FigureChoice } from '../src/tasks/drawing.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { BENCHMARKS } from './benchmarks/registry.ts';
import { VALUE_CHANNEL } from './example.ts';
import { isExampleSet } from './example-manifest.ts';
import { ExampleSet } from './example-set.ts';
import { LARGEST_VALUE } from './prepare.ts';
import { numericColumns, readCsv } from './readers/csv.ts';
import { formatOf, readRecords } from './readers/formats.ts';
import { anomalousIntervals, type RawRecord, risingTimes, stem } from './readers/record.ts';
import { openExamples } from './source.ts';
import { SPLITS, type Split } from './split.ts';

/** Series to draw, as named on the command line. */
interface SourceOptions {
  readonly source: string;
  /** Index of the first series, and the maximum number of them. */
  readonly offset: number;
  readonly limit: number;
  readonly split: Split | undefined;
  readonly seed: number | undefined;
  readonly length: number | undefined;
  /** Channels by name; of a CSV file also by number from 1. */
  readonly column: readonly string[] | undefined;
}

export interface RenderSource {
  /** Maximum number of series; a file may hold fewer. */
  readonly count: number;
  readonly series: Iterable<Drawable>;
  readonly figure: FigureChoice;
  /** Samples per second; null where unknown. */
  readonly rate: number | null;
  /** Kind of the right answers; null where a file decides it, series by series. */
  readonly kind: Gold['kind'] | null;
}

const PLAIN: FigureChoice = { preset: 'line', missing: 'break' };

function refuse(options: SourceOptions, keys: readonly (keyof SourceOptions)[], why: string): void {
  const key = keys.find((option) => options[option] !== undefined);
  if (key !== undefined) throw new ConfigError(`--${key} belongs to ${why}; leave it out`);
}

/** `limit` items from number `offset` on. */
function* range<T>(items: Iterable<T>, offset: number, limit: number): Generator<T> {
  let index = 0;
  for (const item of items) {
    if (index >= offset) yield item;
    if (++index >= offset + limit) return;
  }
}

/** Selects channels in the order in which they are named. @throws ConfigError for one that is not there */
function choose(series: Drawable, column: readonly string[] | undefined): Drawable {
  if (column === undefined) return series;
  const places = column.map((name) => {
    const place = series.names.indexOf(name);
    if (place >= 0) return place;
    throw new ConfigError(`--column ${name}: ${series.id} has the channels ${series.names.join(', ')}`);
  });
  const { gold } = series;
  return {
    ...series,
    channels: places.map((place) => series.channels[place]!),
    names: places.map((place) => series.names[place]!),
    // Variates are numbered among all channels.
    gold: gold !== null && taskKind(gold.kind).countsChannels ? null : gold,
  };
}

/** Series of a record, with its label or its anomalies as the answer. @throws DataError for channels of unequal lengths */
function seriesOf(record: RawRecord): Drawable {
  const { id, channels, channelNames, label, path } = record;
  const length = channels[0]!.length;
  const odd = channels.find((channel) => channel.length !== length);
  if (odd !== undefined) {
    throw new DataError(
      `series ${id}: channels of ${length} and ${odd.length} points; they must be of equal length`,
      { file: path },
    );
  }
  const intervals = anomalousIntervals(record);
  const gold: Gold | null =
    label !== null
      ? { kind: 'classification', class: label }
      : intervals === null
        ? null
        : { kind: 'anomaly', class: intervals.length === 0 ? 'normal' : null, intervals };
  return { id, channels, names: channelNames, times: risingTimes(record), gold };
}

/** Series of a record to draw; the picture of a single channel does not name it. */
function drawableOf(record: RawRecord): Drawable {
  const series = seriesOf(record);
  return series.channels.length === 1 ? { ...series, names: [VALUE_CHANNEL] } : series;
}

function* recordsOf(path: string, column: readonly string[] | undefined): Generator<Drawable> {
  const format = formatOf(path);
  // Columns of a CSV file are chosen while it is read: by name or number, and others may be no channels at all.
  const byColumn = format === 'csv' || ((format === 'nab' || format === 'points') && column !== undefined);
  if (byColumn) {
    const columns = column ?? numericColumns(path);
    for (const record of readCsv(path, { columns, labelled: format === 'points' })) yield drawableOf(record);
    return;
  }
  for (const record of readRecords(path)) yield choose(drawableOf(record), column);
}

/** @throws DataError for a file with fewer series than `offset`, and for any that cannot be read */
function openFile(options: SourceOptions): RenderSource {
  const { source, offset, limit, column } = options;
  refuse(options, ['split'], `data sets, and ${source} is a file`);
  refuse(options, ['seed', 'length'], `generators, and ${source} is a file`);
  // The file is read once before, so that its errors come before anything is written.
  let count = 0;
  for (const _ of range(recordsOf(source, column), 0, offset + limit)) count++;
  if (count <= offset) {
    const has = count === 1 ? '1 series, number 0' : `${count} series, counted from 0`;
    throw new DataError(`holds ${has}; there is no number ${offset}`, { file: source });
  }
  return {
    count: count - offset,
    series: range(recordsOf(source, column), offset, limit),
    figure: PLAIN,
    rate: null,
    kind: null,
  };
}

const countsOf = (set: ExampleSet): string =>
  set.splits.map((split) => `${split} ${set.count(split)}`).join(', ');

function renderedSet(options: SourceOptions): RenderSource {
  const { source, offset, limit, column } = options;
  refuse(options, ['seed', 'length'], `generators, and ${source} is prepared already`);
  const set = new ExampleSet(source);
  const split = options.split ?? set.splits[0]!;
  if (offset >= set.count(split)) {
    throw new ConfigError(
      `--split ${split}: ${source} has no example ${offset} of it, counted from 0; examples by split: ${countsOf(set)}`,
    );
  }
  const count = Math.min(limit, set.count(split) - offset);
  const { figure, rate, kind } = set.manifest;
  function* series(): Generator<Drawable> {
    for (const example of set.read(split, offset, count)) yield choose(example, column);
  }
  return { count, series: series(), figure, rate, kind };
}

function openGenerated(options: SourceOptions): RenderSource {
  const { source, offset, limit, split = 'train', length } = options;
  refuse(options, ['column'], 'files and prepared data sets');
  const name = source.toLowerCase();
  const task = BENCHMARKS.find((benchmark) => benchmark.name === name);
  if (task?.generator !== undefined) {
    const counts = Object.fromEntries(SPLITS.map((each) => [each, each === split ? limit : 0]));
    const { load } = task.open({ directory: null, counts, offset, seed: options.seed, length });
    function* series(): Generator<Drawable> {
      for (const { example } of load()) yield example;
    }
    return { count: limit, series: series(), figure: task.figure, rate: task.rate, kind: task.kind };
  }
  if (task !== undefined) {
    throw new ConfigError(
      `${source}: is made from files; write it with timeseer data prepare ${task.name} --out DIR, and render DIR`,
    );
  }
  if (/\.\w+$/.test(basename(source)) && !existsSync(source)) {
    throw new DataError('no such file', { file: source });
  }
  // Says what is wrong with a name or a directory.
  openExamples({ name: source, split, seed: 0, length: 0 });
  throw new ConfigError(`${source}: is neither a generator nor a data set`);
}

/**
 * Opens what is to be drawn.
 * @throws ConfigError for an unknown name, an option that the source has no use for, a split, series or channel that is not
 * there; DataError for a file or directory that is wrong
 */
export function openRenderSource(options: SourceOptions): RenderSource {
  const { source } = options;
  if (existsSync(source) && statSync(source).isFile()) return openFile(options);
  return isExampleSet(source) ? renderedSet(options) : openGenerated(options);
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
  }
}

/** Opens the prepared data set at a path; null for a file. @throws DataError for a directory that is not one */
export function openSet(path: string): ExampleSet | null {
  if (!isDirectory(path)) return null;
  if (!isExampleSet(path)) {
    throw new DataError('a directory, but not a prepared data set; timeseer data prepare writes one', {
      file: path,
    });
  }
  return new ExampleSet(path);
}

function* records(path: string, columns: readonly string[] | undefined): Generator<RawRecord> {
  if (columns === undefined) yield* readRecords(path);
  else {
    const format = formatOf(path);
    if (format !== 'csv' && format !== 'nab' && format !== 'points') {
      throw new ConfigError(
        `--column belongs to CSV files with a column per channel; ${path} is read as ${format}`,
      );
    }
    yield* readCsv(path, { columns, labelled: format === 'points' });
  }
}

/** Series of a record to analyse. @throws DataError also for values beyond ±LARGEST_VALUE */
function analysed(record: RawRecord): Drawable {
  const series = seriesOf(record);
  for (const [c, channel] of series.channels.entries()) {
    const beyond = channel.findIndex((value) => Math.abs(value) > LARGEST_VALUE);
    if (beyond >= 0) {
      throw new DataError(
        `series ${series.id}: point ${beyond} of channel ${series.names[c]} is ${channel[beyond]}, beyond ±${LARGEST_VALUE}; rescale the series`,
        { file: record.path },
      );
    }
  }
  return series;
}

/** Series number `index` (0-based) of a file. @throws DataError for fewer series, and as the file's reader */
export function readFromFile(path: string, index: number, columns: readonly string[] | undefined): Drawable {
  let count = 0;
  for (const record of records(path, columns)) if (count++ === index) return analysed(record);
  throw new DataError(`--record ${index}: the file holds ${count} series, counted from 0`, { file: path });
}

/** Example number `index` of a split. @throws DataError for a split or example that is not there */
export function readFromSet(set: ExampleSet, split: Split, index: number): Drawable {
  if (index >= set.count(split)) {
    throw new DataError(
      `--split ${split} --record ${index}: not there; examples by split: ${countsOf(set)}`,
      { file: set.directory },
    );
  }
  return set.at(split, index);
}

/** Requested split, or the last one that has examples. */
export function splitOf(set: ExampleSet, split: Split | undefined): Split {
  return split ?? SPLITS.filter((candidate) => set.count(candidate) > 0).at(-1)!;
}

/** Labelled series of a file as training examples. */
function* labelled(path: string): Generator<Example> {
  const task = stem(path);
  let index = 0;
  for (const record of readRecords(path)) {
    const { id, channels, names, gold } = analysed(record);
    if (gold === null || !taskKind(gold.kind).learnsClasses) {
      throw new DataError(`series ${id} has no class; classes are learned from labelled series`, {
        file: path,
      });
    }
    yield { id: `${task}/train/${index++}`, task, channels, names, times: null, gold, recording: null };
  }
}

/**
 * Classes from a profile (.json), the training split of a prepared data set, or a file of labelled training series.
 * @throws DataError for what is not one of these, and as `learnClasses`
 */
export function openClasses(path: string): ClassProfile {
  const set = openSet(path);
  if (set !== null) return learnClasses(set.read('train'));
  return /\.json$/i.test(path) ? readProfile(readUtf8(path), path) : learnClasses(labelled(path));
}
