/** NAB: `timestamp,value` csv files, and one JSON file of labelled windows for all of them. */
import { closeSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DataError, reasonOf } from '../../src/ground/errors.ts';
import { openFile } from '../../src/ground/files.ts';
import { syntaxColumn } from '../../src/ground/json-record.ts';
import type { Interval } from '../../src/ground/types.ts';
import { Column, fileFacts, type RawRecord, rawRecord, seconds, stem } from './record.ts';
import { COMMAS, type Scanner, scanning } from './scanner.ts';
import { readHeaderRow } from './tsb.ts';

const COMMA = 44;
/** Largest file of windows, in bytes; the published one has 11 kB. */
const MAXIMUM_WINDOWS = 1 << 20;

/** Windows of every series by its name in the file (`directory/name.csv`): first and last instant, both inside. */
export type NabWindows = ReadonlyMap<string, readonly (readonly [first: number, last: number])[]>;

function readJson(path: string): unknown {
  const { handle, size } = openFile(path);
  let text: string;
  try {
    if (size > MAXIMUM_WINDOWS) throw new Error(`${size} bytes are too many for a file of windows`);
    text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(handle));
  } catch (cause) {
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
  } finally {
    closeSync(handle);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    const before = text.slice(0, syntaxColumn(text) - 1).split('\n');
    throw new DataError('not JSON', {
      ...{ file: path, line: before.length, column: before.at(-1)!.length + 1, cause },
    });
  }
}

/**
 * Reads a file of windows such as `combined_windows.json`: an object of `name: [[first, last], …]`, dates as text.
 *
 * @throws DataError with line and column where it is not JSON; with the file and the series for another structure,
 * something that is no date, and a window that ends before it begins
 */
export function readNabWindows(path: string): NabWindows {
  const content = readJson(path);
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new DataError('expected an object of name: [[first, last], …]', { file: path });
  }
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

/** The windows of a csv file: by `directory/name`, else by its name where only one entry has it. */
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

/** Indices from the first to behind the last point whose instant lies in the window, both ends included. */
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

/** Sorted, and joined where they touch. */
function merged(intervals: Interval[]): Interval[] {
  const out: Interval[] = [];
  for (const [start, end] of intervals.sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last !== undefined && start <= last[1]) out[out.length - 1] = [last[0], Math.max(last[1], end)];
    else out.push([start, end]);
  }
  return out;
}

/**
 * Reads the one series of a NAB csv file; its id is the file's name. `anomalies` are its windows, which NAB counts
 * with both end points, as half-open index intervals; null without `windows`. NAB states no training prefix (its
 * scorer ignores the first 15 %), so `train` is null.
 *
 * Tolerated: a byte-order mark; blank lines; missing values (NaN); dates that do not rise.
 *
 * @throws DataError with line and column for another header, a line that is not two fields, text, infinities, a
 * field that is no date; with the file for one without points, without an entry among the windows, or with a window
 * in which no point lies
 */
export function readNab(path: string, windows: NabWindows | null = null): Generator<RawRecord> {
  return scanning(path, (scanner) => readSeries(scanner, windows));
}

function* readSeries(scanner: Scanner, windows: NabWindows | null): Generator<RawRecord> {
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
      : merged(windowsOf(path, windows).map((window) => interval(instants, window, path)));
  yield rawRecord(fileFacts(path, 'nab'), stem(path), [values.take()], {
    channelNames: [header[1]!],
    times: instants,
    anomalies,
  });
}
