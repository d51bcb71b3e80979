/** The user's tables: `labels.csv` beside files of series, and tables of one series a row. */
import { existsSync } from 'node:fs';
import { isAbsolute, relative, resolve } from 'node:path';
import { DataError } from '../../src/errors.ts';
import type { AnomalyClass, Interval } from '../../src/types.ts';
import { ANOMALY_CLASSES } from '../../src/types.ts';
import { readText } from '../csv.ts';
import { CsvRecords, detectDelimiter } from '../csv-records.ts';
import { SPLITS, type Split } from '../split.ts';
import { isAnomalyClass } from '../validate.ts';

/** One line of `labels.csv`. */
export interface LabelRow {
  readonly path: string;
  /** Null for an anomaly of unnamed kind. */
  readonly class: string | null;
  /** Null where the table has no column of them: the task is classification. */
  readonly intervals: readonly Interval[] | null;
  readonly recording: string | null;
  readonly split: Split | null;
}

/** One series of a table with a row for each. */
export interface TableRow {
  readonly id: string | null;
  readonly class: string;
  readonly values: Float64Array;
  readonly recording: string | null;
  readonly split: Split | null;
}

type Place = ReturnType<CsvRecords['place']>;

interface Sheet {
  readonly header: readonly string[];
  /** Walks through the rows; `cell` reads the current one. */
  readonly rows: () => Generator<{ cell: (column: number) => string; place: (column: number) => Place }>;
}

function openSheet(path: string): Sheet {
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
  throw new DataError(`got ${JSON.stringify(cell)}, expected ${SPLITS.join(', ')} or nothing`, place);
}

function readIntervals(cell: string, place: Place): Interval[] {
  return cell
    .split(/[\s;]+/)
    .filter((word) => word !== '')
    .map((word): Interval => {
      const match = /^(\d{1,12})-(\d{1,12})$/.exec(word);
      if (match !== null && Number(match[1]) < Number(match[2])) return [Number(match[1]), Number(match[2])];
      throw new DataError(
        `got ${JSON.stringify(word.slice(0, 40))}, expected start-end with start below end (half-open), such as 120-180`,
        place,
      );
    });
}

function anomalyClass(name: string, intervals: readonly Interval[], place: Place): AnomalyClass | null {
  if (name === '') return intervals.length === 0 ? 'normal' : null;
  if (isAnomalyClass(name)) return name;
  throw new DataError(
    `got ${JSON.stringify(name)}, expected one of ${ANOMALY_CLASSES.join(', ')}, or nothing where the kind is not known`,
    place,
  );
}

/** A file below the folder. @throws DataError for a path that leaves it */
function below(folder: string, name: string, place: Place): string {
  const path = resolve(folder, name);
  const way = relative(folder, path);
  if (name !== '' && way !== '' && !way.startsWith('..') && !isAbsolute(way)) {
    return path;
  }
  throw new DataError(`got ${JSON.stringify(name)}, expected a file of this folder`, place);
}

/**
 * Reads `labels.csv`: columns `file` and `class`; `intervals` (`120-180 300-310`, half-open indices) makes it anomaly
 * detection; `recording` and `split` are optional. Other columns are left out.
 *
 * @throws DataError with line and column, also for a file that is not there
 */
export function readLabels(path: string, folder: string): LabelRow[] {
  const { header, rows } = openSheet(path);
  const at = (name: string): number => header.indexOf(name);
  const [file, name, intervals] = [at('file'), at('class'), at('intervals')];
  if (file < 0 || (name < 0 && intervals < 0)) {
    throw new DataError(
      `columns ${header.slice(0, 10).join(', ')}; expected file and class, perhaps intervals, recording and split`,
      { file: path, line: 1 },
    );
  }
  const list: LabelRow[] = [];
  const seen = new Set<string>();
  let gone: DataError | undefined;
  for (const { cell, place } of rows()) {
    const own = below(folder, cell(file), place(file));
    if (seen.has(own)) throw new DataError(`${cell(file)} is listed twice`, place(file));
    seen.add(own);
    if (!existsSync(own)) {
      gone ??= new DataError(`names ${cell(file)}, and there is no such file in ${folder}`, place(file));
    }
    const label = name < 0 ? '' : cell(name);
    const found = intervals < 0 ? null : readIntervals(cell(intervals), place(intervals));
    if (found === null && label === '') throw new DataError('no class', place(name));
    list.push({
      path: own,
      class: found === null ? label : anomalyClass(label, found, place(Math.max(name, 0))),
      intervals: found,
      recording: at('recording') < 0 ? null : cell(at('recording')) || null,
      split: at('split') < 0 ? null : readSplit(cell(at('split')), place(at('split'))),
    });
  }
  if (list.length === 0) throw new DataError('only a header, no files below it', { file: path });
  if (gone !== undefined) throw gone;
  return list;
}

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const MISSING = /^(?:nan|na|n\/a|null|none|\?)?$/i;
const NAMED = new Set(['id', 'class', 'recording', 'split']);

/** Whether a csv file is a table of one series a row: its header has `class`. */
export function isTable(path: string): boolean {
  return /\.csv$/i.test(path) && openSheet(path).header.includes('class');
}

/**
 * Reads a table of one series a row: column `class`, perhaps `id`, `recording` and `split`; all others are the points, in
 * order. Empty cells are missing points, and none at all at the end of a row.
 *
 * @throws DataError with line and column
 */
export function* readTable(path: string): Generator<TableRow> {
  const { header, rows } = openSheet(path);
  const at = (name: string): number => header.indexOf(name);
  const points = header.flatMap((name, i) => (NAMED.has(name) ? [] : [i]));
  if (points.length < 2) throw new DataError('fewer than two columns of points', { file: path, line: 1 });
  for (const { cell, place } of rows()) {
    let length = points.length;
    while (length > 0 && cell(points[length - 1]!) === '') length--;
    const values = Float64Array.from({ length }, (_, t) => {
      const column = points[t]!;
      const text = cell(column);
      const number = NUMBER.test(text) ? Number(text) : Number.NaN;
      if (Number.isFinite(number) || MISSING.test(text)) return number;
      throw new DataError(`${JSON.stringify(text.slice(0, 40))} is not a finite number`, place(column));
    });
    const label = cell(at('class'));
    if (label === '') throw new DataError('no class', place(at('class')));
    yield {
      id: at('id') < 0 ? null : cell(at('id')) || null,
      class: label,
      values,
      recording: at('recording') < 0 ? null : cell(at('recording')) || null,
      split: at('split') < 0 ? null : readSplit(cell(at('split')), place(at('split'))),
    };
  }
}
