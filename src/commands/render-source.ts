/** Where `render` finds series: generators, generated tasks, data set directories, and files of any format. */

import { existsSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { BENCHMARKS } from '../../datasets/benchmarks/registry.ts';
import { runsOf } from '../../datasets/benchmarks/source-files.ts';
import { VALUE_CHANNEL } from '../../datasets/example.ts';
import { isExampleSet } from '../../datasets/example-manifest.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { numericColumns, readCsv } from '../../datasets/readers/csv.ts';
import { formatOf, readRecords } from '../../datasets/readers/formats.ts';
import type { RawRecord } from '../../datasets/readers/record.ts';
import { openExamples } from '../../datasets/source.ts';
import { SPLITS, type Split } from '../../datasets/split.ts';
import { ConfigError, DataError } from '../errors.ts';
import type { Drawable, FigureChoice } from '../tasks/drawing.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Gold } from '../types.ts';

/** What is to be drawn, as the command line says it. */
export interface SourceOptions {
  readonly source: string;
  /** Index of the first series, and most of them. */
  readonly offset: number;
  readonly limit: number;
  readonly split: Split | undefined;
  readonly seed: number | undefined;
  readonly length: number | undefined;
  /** Channels by name; of a CSV file also by number from 1. */
  readonly column: readonly string[] | undefined;
}

export interface RenderSource {
  /** Most series that will come; fewer where a file turns out to hold fewer. */
  readonly count: number;
  readonly series: Iterable<Drawable>;
  /** What it is drawn as unless asked otherwise. */
  readonly figure: FigureChoice;
  /** Samples per second where they are known. */
  readonly rate: number | null;
  /** Kind of the right answers; null where a file decides it, series by series. */
  readonly kind: Gold['kind'] | null;
}

const PLAIN: FigureChoice = { preset: 'line', missing: 'break' };

function refuse(options: SourceOptions, keys: readonly (keyof SourceOptions)[], why: string): void {
  const key = keys.find((one) => options[one] !== undefined);
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

/** Chosen channels in the order in which they are named. @throws ConfigError for one that is not there */
function choose(one: Drawable, column: readonly string[] | undefined): Drawable {
  if (column === undefined) return one;
  const places = column.map((name) => {
    const place = one.names.indexOf(name);
    if (place >= 0) return place;
    throw new ConfigError(`--column ${name}: ${one.id} has the channels ${one.names.join(', ')}`);
  });
  const { gold } = one;
  return {
    ...one,
    channels: places.map((place) => one.channels[place]!),
    names: places.map((place) => one.names[place]!),
    // Variates are told by their number among all.
    gold: gold !== null && taskKind(gold.kind).countsChannels ? null : gold,
  };
}

/** A record of a file; times that fall cannot be an axis. */
function drawableOf(record: RawRecord): Drawable {
  const { id, channels, channelNames, times, label, anomalies, file } = record;
  const length = channels[0]!.length;
  const odd = channels.find((channel) => channel.length !== length);
  if (odd !== undefined) {
    throw new DataError(
      `series ${id}: channels of ${length} and ${odd.length} points; a picture needs them equally long`,
      { file: file.path },
    );
  }
  const rising = times?.every((time, i) => i === 0 || time >= times[i - 1]!) === true;
  const intervals =
    anomalies === null ? null : anomalies instanceof Uint8Array ? runsOf(anomalies) : anomalies;
  const gold: Gold | null =
    intervals !== null
      ? { kind: 'anomaly', class: intervals.length === 0 ? 'normal' : null, intervals }
      : label !== null
        ? { kind: 'classification', class: label }
        : null;
  const names = channels.length === 1 ? [VALUE_CHANNEL] : channelNames;
  return { id, channels, names, times: rising ? times : null, gold };
}

function* recordsOf(path: string, column: readonly string[] | undefined): Generator<Drawable> {
  const format = formatOf(path);
  // Columns of a CSV file are chosen while it is read: by name or number, and others may be no channels at all.
  const byColumn = format === 'csv' || (format === 'nab' && column !== undefined);
  if (byColumn) {
    const columns = column ?? numericColumns(path);
    for (const record of readCsv(path, { columns, missing: true })) yield drawableOf(record);
    return;
  }
  for (const record of readRecords(path)) yield choose(drawableOf(record), column);
}

/** @throws DataError for a file with fewer series than `offset`, and for any that cannot be read */
function openFile(options: SourceOptions): RenderSource {
  const { source, offset, limit, column } = options;
  refuse(options, ['split'], `data sets, and ${source} is a file`);
  refuse(options, ['seed', 'length'], `generators, and ${source} is a file`);
  // Read through first: what is wrong with a file is said before anything is written.
  let found = 0;
  for (const _ of range(recordsOf(source, column), 0, offset + limit)) found++;
  if (found <= offset) {
    const has = found === 1 ? '1 series, number 0' : `${found} series, counted from 0`;
    throw new DataError(`holds ${has}; there is no number ${offset}`, { file: source });
  }
  return {
    count: found - offset,
    series: range(recordsOf(source, column), offset, limit),
    figure: PLAIN,
    rate: null,
    kind: null,
  };
}

function openSet(options: SourceOptions): RenderSource {
  const { source, offset, limit, column } = options;
  refuse(options, ['seed', 'length'], `generators, and ${source} is prepared already`);
  const set = new ExampleSet(source);
  const split = options.split ?? set.splits[0]!;
  const has = set.splits.map((one) => `${one} ${set.count(one)}`).join(', ');
  if (offset >= set.count(split)) {
    throw new ConfigError(
      `--split ${split}: ${source} has no example ${offset} of it, counted from 0; examples by split: ${has}`,
    );
  }
  const count = Math.min(limit, set.count(split) - offset);
  const { figure, rate, kind } = set.manifest;
  function* series(): Generator<Drawable> {
    for (const example of set.read(split, offset, count)) yield choose(example, column);
  }
  return { count, series: series(), figure, rate, kind };
}

/** Series of a generated benchmark. */
function openGenerated(options: SourceOptions): RenderSource {
  const { source, offset, limit, split = 'train', length } = options;
  refuse(options, ['column'], 'files and prepared data sets');
  const name = source.toLowerCase();
  const task = BENCHMARKS.find((one) => one.name === name);
  if (task?.generator != null) {
    const counts = Object.fromEntries(SPLITS.map((one) => [one, one === split ? limit : 0]));
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
 *
 * @throws ConfigError for an unknown name, an option that the source has no use for, a split, series or channel that is not
 * there; DataError for a file or directory that is wrong
 */
export function openRenderSource(options: SourceOptions): RenderSource {
  const { source } = options;
  if (existsSync(source) && statSync(source).isFile()) return openFile(options);
  return isExampleSet(source) ? openSet(options) : openGenerated(options);
}
