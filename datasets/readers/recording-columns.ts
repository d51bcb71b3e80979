/** Value and key columns in the table of a recording. */
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { show } from '../../src/ground/json-record.ts';
import { getOrMake } from '../../src/ground/maps.ts';
import { plural } from '../../src/ground/numbers.ts';
import { chosenColumn, labelsPoints, listed } from './csv.ts';
import type { CsvRecords } from './csv-records.ts';
import { kindOf, type NumberFormat, readNumber } from './number-format.ts';
import type { Note } from './quality.ts';
import { NUMBER } from './record.ts';
import {
  isNumeric,
  isTruth,
  MINIMUM_SAMPLES,
  type Table,
  type TableColumn,
  TableRows,
} from './recording-table.ts';
import { mergeRows, type Rows, runsOf, type Sampled, sampleEvenly, sortRows } from './sampling.ts';
import { countsTime } from './time-column.ts';
import { datePartColumns } from './time-parts.ts';

/** Maximum number of value columns unless they are named, of one series or of several side by side. */
export const MOST_COLUMNS = 1000;
/** Share of words among numbers up to which they count as missing values. */
const FEW = 0.01;
/** Dates of countries whose points group thousands. */
const POINTED_DATE = /^\d{1,2}\.\d{1,2}\.\d{2,4}\b/;
/** Units that multiply; numbers with and without them differ in magnitude. */
const MAGNITUDE = /^(?:[kmgtb]|mn|bn|mio|mrd|[kmgt]i?b)$/i;

/** Indices of the columns that mark each point as anomalous or not, by their names or as in the `.out` files of TSB-UAD. */
function labelColumns({ columns, file, layout }: Table): number[] {
  const unnamed = layout.header === null && columns.length === 2 && /\.out$/i.test(file) ? 1 : -1;
  return [...columns.keys()].filter((i) => {
    const column = columns[i]!;
    if (!labelsPoints(column.name) && i !== unnamed) return false;
    const { binary, missing, filled } = column.survey;
    return isTruth(column) || (binary > 0 && binary + missing === filled);
  });
}

/** Indices of the value columns. */
export function valueColumns(
  table: Table,
  wanted: readonly (string | number)[] | undefined,
  keys: readonly number[],
  notes: Note[],
): number[] {
  const { columns, file, timeColumns: taken, times } = table;
  if (wanted !== undefined) {
    if (wanted.length === 0) throw new ConfigError('columns: at least one is needed');
    return [...new Set(wanted.map((column) => chosenColumn(columns, column, file, '--column')))];
  }
  const numeric = columns.flatMap((column, i) =>
    !taken.includes(i) && !keys.includes(i) && isNumeric(column) ? [i] : [],
  );
  // Fields beside labels are values, whatever their name.
  const mayCount = (times !== null || numeric.length > 1) && !table.rewritten?.labels.length;
  const parts = datePartColumns(columns);
  const labels = table.rewritten?.labels.length ? [] : labelColumns(table);
  const left = numeric.filter((i) => !mayCount || !(countsTime(columns[i]!, i) || parts.includes(i)));
  const judged = left.filter((i) => !labels.includes(i));
  const chosen = [judged, left].find((some) => some.length > 0) ?? numeric;
  const marks = labels.filter((i) => numeric.includes(i) && !chosen.includes(i));
  if (marks.length > 0) {
    notes.push({
      kind: 'labels',
      text: `Labels of points are not judged: ${listed(marks.map((i) => columns[i]!))}. --column judges the columns that it names.`,
    });
  }
  const leftOut = parts.filter((i) => numeric.includes(i) && !chosen.includes(i));
  if (leftOut.length > 0) {
    const names = listed(leftOut.map((i) => columns[i]!));
    const untimed = times === null || times.ordinal;
    notes.push({
      kind: 'date-parts',
      text: `Parts of dates are not judged: ${names}${untimed ? '; they give no time together, so the samples are numbered' : ''}. --column judges the columns that it names.`,
    });
  }
  if (chosen.length === 0 && table.rewritten?.form === 'JSON lines')
    throw new DataError(
      `JSON lines without numbers beside the time, with the keys ${listed(columns)}; events have to be counted first, for example those of each minute`,
      { file },
    );
  if (chosen.length === 0) {
    const marked = columns.findIndex(
      ({ survey }, i) => !taken.includes(i) && survey.filled === survey.missing + survey.infinite,
    );
    if (marked >= 0)
      throw new DataError(`column ${show(columns[marked]!.name)} holds no number; remove it, or fill it`, {
        file,
      });
    if (columns.length - taken.length === 1) return [columns.findIndex((_, i) => !taken.includes(i))]; // its first cell says what is wrong
    const seen = columns
      .slice(0, 10)
      .map(({ name, cells }) => `${show(name)} begins with ${show(cells[0] ?? '')}`)
      .join(', ');
    throw new DataError(`no column of numbers beside the time: ${seen}`, { file });
  }
  if (chosen.length > MOST_COLUMNS) {
    throw new DataError(
      `${chosen.length} columns of numbers, more than the ${MOST_COLUMNS} that are read at once: ${listed(chosen.map((i) => columns[i]!))}; name some with --column`,
      { file },
    );
  }
  return chosen;
}

/** Visits the rows of a table again, apart from blank lines at its end. */
function eachRow(
  { text, file, layout, lines }: Table,
  visit: (records: CsvRecords, row: number) => void,
): void {
  let row = 0;
  new TableRows(text, file, layout).each((records) => {
    if (row < lines.length) visit(records, row++);
  });
}

/** Reads columns in file order, with notes on their number formats. */
export function readValues(table: Table, chosen: readonly number[], notes: Note[]): Float64Array[] {
  const { columns, layout, lines } = table;
  const commaFile = columns.some(({ survey }) => survey.hasDecimalComma);
  const german = layout.delimiter === ';' || layout.sample[0]!.some((cell) => POINTED_DATE.test(cell));
  const readers = chosen.map((i) => {
    const { survey } = columns[i]!;
    const shown = survey.format(commaFile, layout.delimiter === ',');
    const format = table.decimal === null ? shown : { ...shown, decimal: table.decimal, grouped: true };
    return {
      index: i,
      column: columns[i]!,
      format,
      ambiguous: table.decimal === null && format.decimal === '.' && survey.mayGroup(german),
      /** First number that may be a thousand, and its line. */
      example: ['', 0] as readonly [string, number],
      truth: isTruth(columns[i]!),
      scaled: MAGNITUDE.test(format.unit),
      tolerant: survey.words < FEW * survey.filled,
      values: new Float64Array(lines.length),
    };
  });
  const first = { comma: '', thousands: '', word: '', infinite: '' };
  let [words, infinite] = [0, 0];
  const special = (cell: string, reader: (typeof readers)[number], records: CsvRecords): number => {
    const { format, column } = reader;
    const value = readNumber(cell, format);
    if (!Number.isNaN(value)) {
      if (Number.isFinite(value)) {
        const conversion = (): string => `${show(cell)} in line ${records.line} is ${value}`;
        if (format.decimal === ',' && cell.includes(',')) first.comma ||= conversion();
        else if (/[,.'’ \u00a0\u2009\u202f]\d{3}/.test(cell) && Number.parseFloat(cell) !== value)
          first.thousands ||= conversion();
        return value;
      }
    }
    const kind = kindOf(cell);
    if (kind === 'missing') return Number.NaN;
    if (kind === 'infinite' || !Number.isNaN(value)) {
      if (infinite++ === 0) first.infinite = `${show(cell)} in line ${records.line}`;
      return Number.NaN;
    }
    if (kind === 'truth' && reader.truth) return cell.toLowerCase() === 'true' ? 1 : 0;
    if (kind === 'word' && reader.tolerant) {
      if (words++ === 0) first.word = `${show(cell)} in line ${records.line}, column ${show(column.name)}`;
      return Number.NaN;
    }
    throw new DataError(
      `${show(cell)} in column ${show(column.name)} is not a number${table.decimal === null ? '' : ` with --decimal ${table.decimal}`}${adviceFor(cell, column, format)}`,
      records.place(reader.index),
    );
  };
  eachRow(table, (records, row) => {
    for (const reader of readers) {
      const cell = records.field(reader.index);
      const value =
        cell === ''
          ? Number.NaN
          : reader.format.decimal === '.' && NUMBER.test(cell)
            ? Number(cell)
            : special(cell, reader, records);
      if (reader.scaled && value !== 0 && NUMBER.test(cell))
        throw new DataError(
          `${show(cell)} in column ${show(reader.column.name)} has no ${show(reader.format.unit)}, which most others have; write all of them in one unit`,
          records.place(reader.index),
        );
      if (reader.ambiguous && reader.example[1] === 0 && cell.includes('.'))
        reader.example = [cell, records.line];
      reader.values[row] =
        Number.isFinite(value) || Number.isNaN(value) ? value : special(cell, reader, records);
    }
  });
  if (first.comma !== '')
    notes.push({ kind: 'decimal-comma', text: `Numbers are read with a decimal comma: ${first.comma}.` });
  if (first.thousands !== '')
    notes.push({ kind: 'thousands', text: `Thousands separators were removed: ${first.thousands}.` });
  for (const { column, format, truth, ambiguous, example } of readers) {
    const [cell, line] = example;
    if (ambiguous)
      notes.push({
        ...{ kind: 'ambiguous-number', column: column.name, count: column.survey.points.either },
        ...{ lines: [line, line], option: '--decimal ,' },
        text: `Numbers of column ${show(column.name)} such as ${show(cell)} in line ${line} are read with a decimal point, which may group thousands; --decimal , reads ${show(cell)} as ${cell.replace('.', '')}, --decimal . keeps it.`,
      });
    if (format.unit !== '' && !truth)
      notes.push({
        kind: 'unit',
        text: `The unit ${show(format.unit)} was removed from the numbers of column ${show(column.name)}.`,
      });
    if (truth)
      notes.push({
        kind: 'boolean',
        text: `Column ${show(column.name)} is read as 1 for true and 0 for false.`,
      });
  }
  if (words > 0)
    notes.push({
      ...{ kind: 'words', count: words },
      text: `${plural(words, 'cell')} with words among the numbers ${words === 1 ? 'counts' : 'count'} as missing, the first ${first.word}.`,
    });
  if (infinite > 0)
    notes.push({
      ...{ kind: 'infinite', count: infinite },
      text: `${plural(infinite, 'value')} that ${infinite === 1 ? 'is' : 'are'} infinite or too large ${infinite === 1 ? 'counts' : 'count'} as missing, the first ${first.infinite}.`,
    });
  return readers.map(({ values }) => values);
}

function adviceFor(cell: string, { survey, cells }: TableColumn, format: NumberFormat): string {
  if (kindOf(cell) === 'word' && survey.numbers > 0)
    return `; ${plural(survey.words, 'cell')} of ${survey.filled} are words, too many to count as missing; remove them, or leave the column out with --column`;
  if (survey.numbers === 0) return '';
  const like = cells.find((candidate) => candidate !== cell && !Number.isNaN(readNumber(candidate, format)));
  return `${like === undefined ? '' : `; others are written like ${show(like)}`}; correct the cell or remove the row`;
}

/** Maximum distinct values of a key column. */
const MOST_KEYS = 1000;
/** Share of times with several rows above which rows belong to several series. */
const MIXED = 0.1;

/** Key of each row, as a number in order of appearance. */
interface Keys {
  readonly columns: readonly number[];
  readonly names: readonly string[];
  readonly ids: Int32Array;
}

/** Reads the key of each row for each set of columns; null for a set with more than `most` keys. */
export function readKeys(table: Table, sets: readonly (readonly number[])[], most: number): (Keys | null)[] {
  const readings = sets.map(() => ({
    seen: new Map<string, number>(),
    ids: new Int32Array(table.lines.length),
    full: false,
  }));
  eachRow(table, (records, row) => {
    for (const [k, reading] of readings.entries()) {
      if (reading.full) continue;
      const set = sets[k]!;
      let name = records.field(set[0]!);
      for (let i = 1; i < set.length; i++) name += ` / ${records.field(set[i]!)}`;
      reading.ids[row] = getOrMake(reading.seen, name, () => reading.seen.size);
      reading.full = reading.seen.size > most;
    }
  });
  return readings.map(({ seen, ids, full }, k) =>
    full ? null : { columns: sets[k]!, names: [...seen.keys()], ids },
  );
}

/**
 * Finds the columns that separate series whose rows are mixed. Where many times have several rows, these are columns that differ among
 * the rows of one time; where the times are uneven, columns whose series are even. Null where the rows are one series or no column
 * separates them.
 */
export function findKey(table: Table, all: Rows, values: readonly number[]): Keys | null {
  const open = table.columns.flatMap((column, i) => {
    if (table.timeColumns.includes(i) || values.includes(i) || column.survey.filled === 0) return [];
    const { plain, filled, points } = column.survey;
    const whole = plain === filled && points.decimal + points.either === 0;
    return whole || !isNumeric(column) ? [i] : [];
  });
  if (open.length === 0) return null;
  const { rows, order } = sortRows(all);
  const ends = runsOf(rows.time);
  let several = 0;
  for (let run = 0; run < ends.length; run++)
    if (ends[run]! - (run === 0 ? 0 : ends[run - 1]!) > 1) several++;
  const shared = several >= MIXED * ends.length;
  const isText = (set: readonly number[]): boolean => set.every((i) => !isNumeric(table.columns[i]!));
  const candidates = shared ? open : open.filter((i) => isText([i]));
  if (candidates.length === 0) return null;
  const whole = sampleEvenlyOrNull(rows);
  if (!shared && (several > 0 || ends.length < 8 || (whole !== null && !isSparse(whole)))) return null;
  const pairs = candidates.flatMap((a, k) => candidates.slice(k + 1).map((b) => [a, b]));
  const sets = [...candidates.map((i) => [i]), ...pairs.filter(isText).slice(0, 20)].slice(0, 60);
  const most = Math.min(MOST_KEYS, Math.floor(table.lines.length / 2));
  // Numbers may be values, and then only repeated rows show that they are no key.
  const distinct = distinctRows(table, open, all, order, ends);
  const fitting = readKeys(table, sets, most).filter((keys): keys is Keys => {
    if (keys === null || keys.names.length < 2) return false;
    if (shared && isText(keys.columns)) return splitsRuns(keys.ids, distinct.order, distinct.ends);
    return shared ? splitsRuns(keys.ids, order, ends) : splitsEvenly(keys, all, whole !== null);
  });
  // Words before numbers, one column before two, few keys before many.
  const rank = (keys: Keys): number =>
    (isText(keys.columns) ? 0 : 1e6) + 1e4 * keys.columns.length + keys.names.length;
  return fitting.sort((a, b) => rank(a) - rank(b))[0] ?? null;
}

/** Leaves out rows that repeat an earlier one of their time in all columns; `ends` are those of runs of one time. */
function distinctRows(
  table: Table,
  open: readonly number[],
  { values }: Rows,
  order: Uint32Array,
  ends: Uint32Array,
): { order: Uint32Array; ends: Uint32Array } {
  if (ends.length === order.length) return { order, ends };
  const { ids } = readKeys(table, [open], Number.POSITIVE_INFINITY)[0]!;
  const kept = new Uint32Array(order.length);
  let count = 0;
  const keptEnds = ends.map((end, run) => {
    const first = new Map<number, number>();
    for (const row of order.subarray(run === 0 ? 0 : ends[run - 1]!, end)) {
      const earlier = first.get(ids[row]!);
      if (earlier === undefined) first.set(ids[row]!, row);
      else if (values.every((column) => Object.is(column[row], column[earlier]))) continue;
      kept[count++] = row;
    }
    return count;
  });
  return { order: kept.subarray(0, count), ends: keptEnds };
}

/** Returns true if rows of equal time have different keys, in nearly all times with several rows. */
function splitsRuns(ids: Int32Array, order: Uint32Array, ends: Uint32Array): boolean {
  let [several, split] = [0, 0];
  for (let run = 0; run < ends.length; run++) {
    const start = run === 0 ? 0 : ends[run - 1]!;
    if (ends[run]! - start < 2) continue;
    several++;
    const seen = new Set<number>();
    for (let i = start; i < ends[run]!; i++) seen.add(ids[order[i]!]!);
    if (seen.size === ends[run]! - start) split++;
  }
  return several >= MIXED * ends.length && split >= 0.99 * several;
}

/** Returns true if more samples are missing than there are, as between two series that alternate. */
const isSparse = ({ gaps, rows: { lines } }: Sampled): boolean =>
  2 * gaps.reduce((sum, { missing }) => sum + missing, 0) > lines.length;

/** Returns true if the samples of each key have even steps, and few gaps if the series `isDense`. */
function splitsEvenly({ names, ids }: Keys, all: Rows, isDense: boolean): boolean {
  const times = names.map((): number[] => []);
  for (let i = 0; i < ids.length; i++) times[ids[i]!]!.push(all.time[i]!);
  return times.every((some) => {
    const time = Float64Array.from(some).sort();
    const own = sampleEvenlyOrNull({ time, values: [], lines: new Int32Array(time.length) });
    return time.length >= 4 && own !== null && !(isDense && isSparse(own));
  });
}

/** Sampling of rows whose times are even without interpolation; null for others. */
function sampleEvenlyOrNull({ time, lines }: Rows): Sampled | null {
  const { rows } = mergeRows({ time, values: [], lines });
  if (rows.time.length < MINIMUM_SAMPLES) return null;
  const sampled = sampleEvenly(rows, null);
  return sampled.resampled ? null : sampled;
}
