/**
 * Files of the collections of labelled anomalies: UCR (values, the anomaly in the file's name), TSB-UAD (values and label, without a
 * header), TSB-AD (columns of values and a last column `Label`), TAB (`[date,]data,cols`, a row per point and channel, the channels
 * stacked by `cols`) and NAB (`timestamp,value`, and one JSON file with the labelled windows of all series).
 */

import { basename, dirname } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { isObject, syntaxColumn } from '../../src/ground/json-record.ts';
import type { Interval } from '../../src/ground/types.ts';
import { clipAndMerge } from '../../src/series/intervals.ts';
import { readText } from './csv.ts';
import {
  Column,
  checkChannelCount,
  instant,
  pointLabel,
  pointLabels,
  type RawRecord,
  rawRecord,
  seconds,
  stem,
} from './record.ts';
import { COMMAS, END, LINE, type Scanner, scanning, WORDS } from './scanner.ts';

const COMMA = 44;
/** Names of the anomaly archive of UCR: `ID_UCR_Anomaly_NAME_TRAIN_BEGIN_END`. */
const UCR_NAME = /^\d+_UCR_Anomaly_.+_(\d+)_(\d+)_(\d+)(?:\.(?:txt|out|csv))*$/i;

/** Returns true for a `.txt` file of the anomaly archive of UCR, by its name. */
export const isUcrAnomaly = (path: string): boolean => /\.txt$/i.test(path) && UCR_NAME.test(basename(path));

/**
 * Reads the one series of a `.txt` file of the anomaly archive of UCR: values separated by blanks or line ends. Its name
 * states the anomaly as BEGIN_END, counted from 1, both included.
 * @throws DataError with line and column for what is no number; for a file shorter than its name states
 */
export function readUcrAnomaly(path: string): Generator<RawRecord> {
  return scanning(path, function* (scanner) {
    const values = new Column();
    for (let stop = 0; stop !== END; ) {
      stop = scanner.next(WORDS);
      if (!scanner.empty) values.push(scanner.number());
    }
    const [, , begin, end] = (UCR_NAME.exec(basename(path)) ?? []).map(Number);
    if (!(begin! >= 1 && begin! <= end! && end! <= values.length)) {
      throw new DataError(
        `the name states an anomaly from point ${begin} to ${end}, the file has ${values.length} points`,
        { file: path },
      );
    }
    yield rawRecord(path, stem(path), [values.take()], {
      channelNames: ['value'],
      anomalies: [[begin! - 1, end!]],
    });
  });
}

/**
 * Reads the one series of a `.out` file; its id is the file's name.
 *
 * Tolerated: a byte-order mark; blank lines at the end; missing values (NaN).
 * @throws DataError with line and column for content of another form; for an empty file, or one shorter than its training part
 */
export function readTsbUad(path: string): Generator<RawRecord> {
  return scanning(path, uadSeries);
}

function* uadSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const name = stem(path);
  const values = new Column();
  const labels = new Column();
  for (;;) {
    const stop = scanner.next(COMMAS);
    if (stop !== COMMA) {
      if (stop === END && scanner.empty) break;
      if (!scanner.empty) throw scanner.fail('one field; expected value,label');
      const { place } = scanner;
      while (scanner.peek() === LINE) scanner.skip();
      if (scanner.peek() !== END) throw new DataError('blank line inside the data', place);
      break;
    }
    values.push(scanner.number());
    const end = scanner.next(COMMAS);
    if (end === COMMA) throw scanner.fail('more than two fields; expected value,label');
    labels.push(pointLabel(scanner));
    if (end === END) break;
  }
  if (values.length === 0) throw new DataError('empty; expected lines of value,label', { file: path });
  checkTrain(Number(UCR_NAME.exec(name)?.[1] ?? 0), values.length, path);
  yield rawRecord(path, name, [values.take()], {
    channelNames: ['value'],
    anomalies: Uint8Array.from(labels.take()),
  });
}

/** @throws DataError for a file that is shorter than the training length in its name: it was cut off */
function checkTrain(train: number, length: number, path: string): void {
  if (train <= length) return;
  throw new DataError(`the name states ${train} points of training, the file has ${length}`, { file: path });
}

const TSB_AD_NAME = /^\d+_.+?_id_\d+_.+_tr_(\d+)_1st_\d+$/;

/** Training length in the name of a TSB-AD file, with or without directory and `.csv`; null for another name. */
export function tsbAdTrain(path: string): number | null {
  const match = TSB_AD_NAME.exec(path.replace(/^.*[\\/]/, '').replace(/\.csv$/i, ''));
  return match === null ? null : Number(match[1]);
}

/** Maximum columns of a header: the points of a long series in one row. */
const MOST_COLUMNS = 1_000_000;

/** Reads the fields of the first line that is not blank. @throws DataError for too many */
export function readHeaderRow(scanner: Scanner): string[] {
  scanner.atLine();
  const names: string[] = [];
  for (let stop = COMMA; stop === COMMA; ) {
    stop = scanner.next(COMMAS);
    names.push(scanner.unquoted());
    if (names.length > MOST_COLUMNS) throw scanner.fail(`a header of more than ${MOST_COLUMNS} columns`);
  }
  return names;
}

/**
 * Reads the one series of a TSB-AD file; its id is the file's name.
 *
 * Tolerated: a byte-order mark; another name; blank lines at the end; missing values (NaN).
 * @throws DataError with line and column for content of another form; for no points, or fewer than its training part
 */
export function readTsbAd(path: string): Generator<RawRecord> {
  return scanning(path, adSeries);
}

function* adSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const names = readHeaderRow(scanner);
  if (names.length < 2 || !/^labels?$/i.test(names.at(-1)!)) {
    throw scanner.fail('expected a header whose last column is Label, such as Data,Label');
  }
  const width = names.length - 1;
  checkChannelCount(width, scanner.place);
  const columns = Array.from({ length: width }, () => new Column());
  const labels = new Column();
  for (;;) {
    const code = scanner.peek();
    if (code === END) break;
    if (code === LINE) {
      scanner.skip();
      if (scanner.peek() !== LINE && scanner.peek() !== END) {
        scanner.next(COMMAS);
        throw scanner.fail('a blank line before this one; remove or fill it');
      }
      continue;
    }
    for (let c = 0; c < width; c++) {
      if (scanner.next(COMMAS) !== COMMA) {
        throw scanner.fail(`${c + 1} fields, the header has ${names.length}`);
      }
      columns[c]!.push(scanner.number());
    }
    if (scanner.next(COMMAS) === COMMA)
      throw scanner.fail(`more fields than the ${names.length} of the header`);
    labels.push(pointLabel(scanner));
  }
  const length = labels.length;
  if (length === 0) throw new DataError('only a header, no data below it', { file: path });
  checkTrain(tsbAdTrain(path) ?? 0, length, path);
  yield rawRecord(
    path,
    stem(path),
    columns.map((column) => column.take()),
    { channelNames: names.slice(0, width), anomalies: Uint8Array.from(labels.take()) },
  );
}

/** Rows of one name in `cols`. */
interface Stack {
  readonly name: string;
  readonly bytes: Buffer;
  readonly values: Column;
  readonly times: Column;
}

/**
 * Reads the one series of a TAB file; its id is the file's name. The channels are the names of `cols` in the order
 * in which they first appear; `label` holds the point labels (0 or 1). Times are those of the first channel.
 *
 * Tolerated: a byte-order mark; columns in any order, and columns of other names, which are left out; rows of the
 * channels in any order; blank lines; missing values (NaN); a file without `label`.
 * @throws DataError with line and column for content of another form; for channels of different lengths or dates
 */
export function readTab(path: string): Generator<RawRecord> {
  return scanning(path, tabSeries);
}

function* tabSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const names = readHeaderRow(scanner).map((name) => name.toLowerCase());
  const dataAt = names.indexOf('data');
  const colsAt = names.indexOf('cols');
  const dateAt = names.indexOf('date');
  if (dataAt < 0 || colsAt < 0)
    throw scanner.fail('expected a header with data and cols, such as date,data,cols');
  const stacks = new Map<string, Stack>();
  let current: Stack | null = null;
  while (scanner.atLine()) {
    let value = Number.NaN;
    let time = Number.NaN;
    for (let field = 0; field < names.length; field++) {
      const stop = scanner.next(COMMAS);
      if (field === dataAt) value = scanner.number();
      else if (field === dateAt) time = instant(scanner, 'a missing date');
      else if (field === colsAt) {
        const { bytes, from, to } = scanner;
        if (current === null || current.bytes.compare(bytes, from, to) !== 0) {
          const name = scanner.unquoted();
          if (name === '') throw scanner.fail('an empty name in cols');
          current = stacks.get(name) ?? {
            name,
            bytes: Buffer.from(bytes.subarray(from, to)),
            values: new Column(),
            times: new Column(),
          };
          stacks.set(name, current);
          checkChannelCount(stacks.size - 1, scanner.place);
        }
      }
      if ((stop === COMMA) !== field < names.length - 1) {
        throw scanner.fail(
          stop === COMMA
            ? `more fields than the ${names.length} of the header`
            : `${field + 1} fields, the header has ${names.length}`,
        );
      }
    }
    current!.values.push(value);
    if (dateAt >= 0) current!.times.push(time);
  }
  const all = [...stacks.values()];
  const label = all.find(({ name }) => name.toLowerCase() === 'label');
  const stacked = all.filter((stack) => stack !== label);
  if (stacked.length === 0) throw new DataError('no points of a channel', { file: path });
  const { name, values } = stacked[0]!;
  const length = values.length;
  for (const stack of all) {
    if (stack.values.length !== length) {
      throw new DataError(`"${stack.name}" has ${stack.values.length} points, "${name}" has ${length}`, {
        file: path,
      });
    }
    for (let i = 0; dateAt >= 0 && i < length; i++) {
      if (stack.times.at(i) === stacked[0]!.times.at(i)) continue;
      throw new DataError(`point ${i + 1} of "${stack.name}" has another date than that of "${name}"`, {
        file: path,
      });
    }
  }
  yield rawRecord(
    path,
    stem(path),
    stacked.map((stack) => stack.values.take()),
    {
      channelNames: stacked.map((stack) => stack.name),
      times: dateAt < 0 ? null : stacked[0]!.times.take(),
      anomalies: label === undefined ? null : pointLabels(label.values.take(), label.name, path),
    },
  );
}
/** Maximum bytes of a file of windows; the published one has 11 kB. */
const MAXIMUM_WINDOWS = 1 << 20;

/** Windows of every series by its name in the file (`directory/name.csv`): first and last instant, both included. */
type NabWindows = ReadonlyMap<string, readonly (readonly [first: number, last: number])[]>;

function readJson(path: string): unknown {
  const text = readText(path, MAXIMUM_WINDOWS);
  try {
    return JSON.parse(text);
  } catch (cause) {
    const before = text.slice(0, syntaxColumn(text) - 1).split('\n');
    const column = before.at(-1)!.length + 1;
    throw new DataError('not JSON', { file: path, line: before.length, column, cause });
  }
}

/**
 * Reads a file of windows such as `combined_windows.json`: an object of `name: [[first, last], …]`, dates as text.
 * @throws DataError with line and column for other text than JSON; naming the series for another structure or window
 */
export function readNabWindows(path: string): NabWindows {
  const content = readJson(path);
  if (!isObject(content))
    throw new DataError('expected an object of name: [[first, last], …]', { file: path });
  const windows = new Map<string, [number, number][]>();
  for (const [name, list] of Object.entries(content)) {
    const fail = (message: string): DataError =>
      new DataError(`${JSON.stringify(name)}: ${message}`, { file: path });
    if (!Array.isArray(list)) throw fail('expected a list of windows');
    windows.set(
      name,
      list.map((window: unknown): [number, number] => {
        if (!Array.isArray(window) || window.length !== 2) throw fail('expected windows of two dates');
        const [first, last] = window.map((date: unknown) =>
          typeof date === 'string' ? seconds(date) : Number.NaN,
        );
        if (!Number.isFinite(first) || !Number.isFinite(last)) {
          throw fail(`not a window of two dates: ${JSON.stringify(window).slice(0, 80)}`);
        }
        if (first! > last!) throw fail(`a window that ends before it begins: ${JSON.stringify(window)}`);
        return [first!, last!];
      }),
    );
  }
  return windows;
}

/** Windows of a csv file: by `directory/name`, else by its name where only one entry has it. */
function windowsOf(path: string, windows: NabWindows): readonly (readonly [number, number])[] {
  const name = basename(path);
  const exact = windows.get(`${basename(dirname(path))}/${name}`) ?? windows.get(name);
  if (exact !== undefined) return exact;
  const same = [...windows.keys()].filter((key) => key.endsWith(`/${name}`));
  if (same.length === 1) return windows.get(same[0]!)!;
  throw new DataError(
    same.length === 0
      ? 'the file of windows has no entry of this name'
      : `the file of windows has ${same.length} entries of this name: ${same.join(', ')}`,
    { file: path },
  );
}

/** Half-open indices of the points whose instants lie in the window, both ends included. */
function interval(times: Float64Array, [first, last]: readonly [number, number], path: string): Interval {
  let start = -1;
  let end = -1;
  times.forEach((time, i) => {
    if (time < first || time > last) return;
    if (start < 0) start = i;
    end = i + 1;
  });
  if (start >= 0) return [start, end];
  const date = new Date(first * 1000).toISOString();
  throw new DataError(`no point lies in the window that begins at ${date}`, { file: path });
}

/**
 * Reads the one series of a NAB csv file; its id is the file's name. `anomalies` are its windows, which NAB counts
 * with both end points, as half-open index intervals; null without `windows`.
 *
 * Tolerated: a byte-order mark; blank lines; missing values (NaN); dates that do not rise.
 * @throws DataError with line and column for content of another form; for no points, and windows that are missing or hold none
 */
export function readNab(path: string, windows: NabWindows | null = null): Generator<RawRecord> {
  return scanning(path, (scanner) => nabSeries(scanner, windows));
}

function* nabSeries(scanner: Scanner, windows: NabWindows | null): Generator<RawRecord> {
  const { path } = scanner;
  const header = readHeaderRow(scanner);
  if (header.length !== 2 || !/^timestamp$/i.test(header[0]!)) {
    throw scanner.fail('expected the header timestamp,value');
  }
  const times = new Column();
  const values = new Column();
  while (scanner.atLine()) {
    if (scanner.next(COMMAS) !== COMMA) throw scanner.fail('one field; expected timestamp,value');
    const time = seconds(scanner.unquoted());
    if (Number.isNaN(time)) throw scanner.fail('not a date such as 2014-04-01 00:05:00');
    times.push(time);
    if (scanner.next(COMMAS) === COMMA) throw scanner.fail('more than two fields; expected timestamp,value');
    values.push(scanner.number());
  }
  if (values.length === 0) throw new DataError('only a header, no data below it', { file: path });
  const instants = times.take();
  const anomalies =
    windows === null
      ? null
      : clipAndMerge(
          windowsOf(path, windows).map((window) => interval(instants, window, path)),
          instants.length,
        );
  yield rawRecord(path, stem(path), [values.take()], {
    channelNames: [header[1]!],
    times: instants,
    anomalies,
  });
}
