/** The user's tables: `labels.csv` beside files of series, and tables of one series a row. */
import { closeSync, existsSync } from 'node:fs';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { DataError, reasonOf } from '../../src/ground/errors.ts';
import { fileInside, openFile } from '../../src/ground/files.ts';
import { show } from '../../src/ground/json-record.ts';
import { plural } from '../../src/ground/numbers.ts';
import { firstNames } from '../../src/ground/terminal.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type Interval } from '../../src/ground/types.ts';
import { isAnomalyClass } from '../../src/tasks/anomaly.ts';
import { checkClass } from '../../src/tasks/classification.ts';
import { checkThought } from '../../src/tasks/kinds.ts';
import { readText } from '../readers/csv.ts';
import { CsvRecords, detectDelimiter } from '../readers/csv-records.ts';
import { NUMBER } from '../readers/record.ts';
import { END, LINE, Scanner, stopsAt } from '../readers/scanner.ts';
import { SPLITS, type Split } from '../split.ts';

export const LABELS = 'labels.csv';

/** Facts that a row may state beside its label; null where it has none. */
interface RowFacts {
  readonly recording: string | null;
  readonly split: Split | null;
  /** Expert reasoning towards the answer. */
  readonly thought: string | null;
}

/** One line of `labels.csv`. */
export interface LabelRow extends RowFacts {
  readonly path: string;
  /** Null for an anomaly of unknown kind. */
  readonly class: string | null;
  /** Null without such a column. */
  readonly intervals: readonly Interval[] | null;
  /** Numbers of the anomalous channels, ascending from 0; null without such a column. */
  readonly variates: readonly number[] | null;
  readonly place: Place;
  readonly answer: Place;
}

/** One series of a table with a row per series. */
export interface TableRow extends RowFacts {
  readonly id: string | null;
  readonly class: string;
  readonly values: Float64Array;
  /** Number of empty cells at the end of the row, which are no points. */
  readonly empty: number;
  readonly place: Place;
}

type Place = ReturnType<CsvRecords['place']>;

/** The current row of a sheet, by its columns. */
interface SheetRow {
  readonly cell: (column: number) => string;
  readonly place: (column: number) => Place;
}

interface Sheet {
  readonly header: readonly string[];
  readonly rows: () => Generator<SheetRow>;
}

/** Opens a table. @throws DataError for one that is empty or cannot be read */
export function openSheet(path: string): Sheet {
  const text = readText(path);
  const delimiter = detectDelimiter(text, path);
  const top = new CsvRecords(text, delimiter, path);
  while (top.next()) if (!top.blank) break;
  if (top.width === 0) throw new DataError('empty; expected a header', { file: path });
  const header = Array.from({ length: top.width }, (_, i) => top.field(i).toLowerCase());
  return {
    header,
    *rows() {
      const records = new CsvRecords(text, delimiter, path);
      let first = true;
      while (records.next()) {
        if (records.blank) continue;
        if (first) {
          first = false;
          continue;
        }
        if (records.width !== header.length) {
          const last = Math.min(records.width, header.length) - 1;
          throw new DataError(
            `${records.width} fields, the header has ${header.length}`,
            records.place(last),
          );
        }
        yield { cell: (column) => records.field(column), place: (column) => records.place(column) };
      }
    },
  };
}

const SPLIT_NAMES: Readonly<Record<string, Split>> = {
  ...Object.fromEntries(SPLITS.map((split) => [split, split])),
  training: 'train',
  val: 'validation',
  valid: 'validation',
};

/** A split by one of its usual names; undefined for another word. */
export function splitNamed(name: string): Split | undefined {
  const key = name.toLowerCase();
  return Object.hasOwn(SPLIT_NAMES, key) ? SPLIT_NAMES[key] : undefined;
}

function readSplit(cell: string, place: Place): Split | null {
  if (cell === '') return null;
  const split = splitNamed(cell);
  if (split !== undefined) return split;
  throw new DataError(`got ${show(cell)}, expected ${SPLITS.join(', ')} or nothing`, place);
}

function readThought(cell: string, place: Place): string | null {
  if (cell === '') return null;
  checkThought(cell, place);
  return cell;
}

/** Reads the optional columns of the current row. @throws DataError */
function factsOf({ header }: Pick<Sheet, 'header'>, { cell, place }: SheetRow): RowFacts {
  const read = <T>(name: string, parse: (cell: string, place: Place) => T): T | null => {
    const column = header.indexOf(name);
    return column < 0 ? null : parse(cell(column), place(column));
  };
  return {
    recording: read('recording', (text) => text || null),
    split: read('split', readSplit),
    thought: read('thought', readThought),
  };
}

function readIntervals(cell: string, place: Place): Interval[] {
  const list = cell
    .split(/[\s;]+/)
    .filter((word) => word !== '')
    .map((word): Interval => {
      const match = /^(\d{1,12})-(\d{1,12})$/.exec(word);
      if (match !== null && Number(match[1]) < Number(match[2])) return [Number(match[1]), Number(match[2])];
      throw new DataError(
        `got ${show(word)}, expected start-end with start below end (half-open), such as 120-180`,
        place,
      );
    })
    .sort(([a], [b]) => a - b);
  for (const [k, [start, end]] of list.entries()) {
    const before = list[k - 1];
    if (before === undefined || start >= before[1]) continue;
    throw new DataError(
      `intervals ${before.join('-')} and ${start}-${end} overlap; merge them into ${before[0]}-${Math.max(before[1], end)}`,
      place,
    );
  }
  return list;
}

function readVariates(cell: string, place: Place): number[] {
  const words = cell.split(/[\s;]+/).filter((word) => word !== '');
  const numbers = words.map((word) => {
    if (/^\d{1,4}$/.test(word)) return Number(word);
    throw new DataError(
      `got ${show(word)}, expected numbers of channels, counted from 0, such as 2 7`,
      place,
    );
  });
  const twice = numbers.find((number, i) => numbers.indexOf(number) !== i);
  if (twice !== undefined) throw new DataError(`names channel ${twice} twice`, place);
  return numbers.sort((a, b) => a - b);
}

function anomalyClass(name: string, intervals: readonly Interval[], place: Place): AnomalyClass | null {
  if (name === '') return intervals.length === 0 ? 'normal' : null;
  if (isAnomalyClass(name)) {
    if ((name === 'normal') === (intervals.length === 0)) return name;
    throw new DataError(
      `class ${show(name)} with ${plural(intervals.length, 'interval')}; "normal" needs none, every other class at least one`,
      place,
    );
  }
  throw new DataError(
    `got ${show(name)}, expected one of ${ANOMALY_CLASSES.join(', ')}, or nothing where the kind is not known`,
    place,
  );
}

/** Path of a file below the folder, whether or not it exists. @throws DataError for a path or link that leaves it, and for no regular file */
function below(folder: string, name: string, place: Place): string {
  const path = resolve(folder, name);
  const way = relative(resolve(folder), path);
  const outside = way === '' || way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way);
  if (name === '' || outside) {
    throw new DataError(`got ${show(name)}, expected a file of this folder`, place);
  }
  if (!existsSync(path)) return path;
  try {
    fileInside(folder, way);
    closeSync(openFile(path).handle);
  } catch (cause) {
    throw new DataError(`names ${show(name)}: ${reasonOf(cause)}`, { ...place, cause });
  }
  return path;
}

/**
 * Reads `labels.csv`: columns `file` and `class`; `intervals` (`120-180 300-310`, half-open indices) makes it anomaly
 * detection, `variates` (`2 7`, numbers of channels from 0) the search for odd channels, which have no class; `recording`, `split` and
 * `thought` (reasoning towards the answer) are optional. Other columns are left out.
 * @throws DataError with line and column, also for a file that is not there
 */
export function readLabels(path: string, folder: string): LabelRow[] {
  const sheet = openSheet(path);
  const { header } = sheet;
  const at = (name: string): number => header.indexOf(name);
  const [file, name, intervals, variates] = [at('file'), at('class'), at('intervals'), at('variates')];
  const wrong = (message: string): DataError => new DataError(message, { file: path, line: 1 });
  if (file < 0 || (name < 0 && intervals < 0 && variates < 0)) {
    throw wrong(
      `columns ${header.slice(0, 10).join(', ')}; expected file and class, perhaps intervals, recording, split and thought`,
    );
  }
  if (variates >= 0 && (name >= 0 || intervals >= 0)) {
    throw wrong('columns variates and class or intervals exclude each other; leave out one of them');
  }
  const list: LabelRow[] = [];
  const seen = new Set<string>();
  let gone: DataError | undefined;
  for (const row of sheet.rows()) {
    const { cell, place } = row;
    const seriesFile = below(folder, cell(file), place(file));
    if (seen.has(seriesFile)) throw new DataError(`${cell(file)} is listed twice`, place(file));
    seen.add(seriesFile);
    if (!existsSync(seriesFile)) {
      gone ??= new DataError(`names ${cell(file)}, and there is no such file in ${folder}`, place(file));
    }
    const label = name < 0 ? '' : cell(name);
    const anomalies = intervals < 0 ? null : readIntervals(cell(intervals), place(intervals));
    const odd = variates < 0 ? null : readVariates(cell(variates), place(variates));
    const answer = place([variates, intervals, name].find((column) => column >= 0)!);
    if (anomalies === null && odd === null) {
      if (label === '') throw new DataError('no class', answer);
      checkClass(label, answer);
    }
    list.push({
      path: seriesFile,
      class:
        anomalies === null ? label || null : anomalyClass(label, anomalies, name < 0 ? answer : place(name)),
      intervals: anomalies,
      variates: odd,
      place: place(file),
      answer,
      ...factsOf(sheet, row),
    });
  }
  if (list.length === 0) throw new DataError('only a header, no files below it', { file: path });
  if (gone !== undefined) throw gone;
  return list;
}

/** Checks that each recording is in one split. @throws DataError naming the rows of a recording that is in several splits */
export function checkRecordings(rows: readonly Pick<TableRow, 'recording' | 'split' | 'place'>[]): void {
  const first = new Map<string, (typeof rows)[number]>();
  const lost = new Set<string>();
  let clash: (typeof rows)[number] | undefined;
  for (const row of rows) {
    if (row.recording === null || row.split === null) continue;
    const earlier = first.get(row.recording);
    if (earlier === undefined) first.set(row.recording, row);
    else if (earlier.split !== row.split) {
      clash ??= row;
      lost.add(row.recording);
    }
  }
  if (clash === undefined) return;
  const { recording, split, place } = clash;
  const lines = rows.filter((row) => row.recording === recording).map((row) => row.place.line);
  const listed = firstNames(lines.map(String), 10);
  const others =
    lost.size === 1
      ? ''
      : `, and so ${lost.size === 2 ? 'is 1 other recording' : `are ${lost.size - 1} other recordings`}`;
  throw new DataError(
    `recording ${show(recording)} is in ${split} here and in ${first.get(recording!)!.split} on line ${first.get(recording!)!.place.line} (all its rows: ${listed})${others}. ` +
      'Examples of one recording belong in one split: correct the column split, or allow it with --allow-shared-recordings',
    place,
  );
}

const MISSING = /^(?:nan|na|n\/a|null|none|\?)?$/i;
const NAMED = new Set(['id', 'class', 'recording', 'split', 'thought']);

const DELIMITERS = stopsAt(',;\t|');

/** True for a csv file of one series a row: its header has a column `class`. Only the header is read. */
export function isTable(path: string): boolean {
  if (!/\.csv$/i.test(path)) return false;
  const scanner = new Scanner(path);
  try {
    scanner.atLine();
    for (let stop: number; ; ) {
      stop = scanner.next(DELIMITERS);
      if (scanner.unquoted().toLowerCase() === 'class') return true;
      if (stop === LINE || stop === END) return false;
    }
  } finally {
    scanner.close();
  }
}

/**
 * Reads a table of one series a row: column `class`, perhaps `id`, `recording`, `split` and `thought`; all others are the points, in
 * order. Empty cells are missing points, and none at all at the end of a row.
 * @throws DataError with line and column
 */
export function* readTable(path: string): Generator<TableRow> {
  const sheet = openSheet(path);
  const { header } = sheet;
  const at = (name: string): number => header.indexOf(name);
  const points = header.flatMap((name, i) => (NAMED.has(name) ? [] : [i]));
  const clock = header.findIndex((name) => /^(?:time|timestamps?|date|date[ _]?time)$/.test(name));
  if (clock >= 0) {
    throw new DataError(
      `columns ${show(header[clock])} and "class": where each row is a point, call the column of 0 and 1 "Label"; where each row is a series, remove ${show(header[clock])}`,
      { file: path, line: 1 },
    );
  }
  if (points.length < 2) throw new DataError('fewer than two columns of points', { file: path, line: 1 });
  let any = false;
  for (const row of sheet.rows()) {
    const { cell, place } = row;
    any = true;
    let length = points.length;
    while (length > 0 && cell(points[length - 1]!) === '') length--;
    if (length === 0) throw new DataError('no points in this row; fill or remove it', place(points[0]!));
    const values = Float64Array.from({ length }, (_, t) => {
      const column = points[t]!;
      const text = cell(column);
      const number = NUMBER.test(text) ? Number(text) : Number.NaN;
      if (Number.isFinite(number) || MISSING.test(text)) return number;
      const hint = /\d,\d/.test(text) ? '; write a decimal point' : '';
      throw new DataError(`${show(text)} is not a finite number${hint}`, place(column));
    });
    const label = cell(at('class'));
    if (label === '') throw new DataError('no class', place(at('class')));
    checkClass(label, place(at('class')));
    yield {
      empty: points.length - length,
      place: place(at('class')),
      id: at('id') < 0 ? null : cell(at('id')) || null,
      class: label,
      values,
      ...factsOf(sheet, row),
    };
  }
  if (!any) throw new DataError('only a header, no rows below it', { file: path });
}
