/** Which columns of a recording's table hold values, and those values. */
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { chosenColumn, listed, NUMBER, show } from './csv.ts';
import type { CsvRecords } from './csv-records.ts';
import { kindOf, type NumberFormat, readNumber } from './number-format.ts';
import { isNumeric, isTruth, plural, type Table, type TableColumn, TableRows } from './recording-table.ts';
import { countsTime, type Note } from './time-column.ts';

/** Columns of values that are read at once unless they are named. */
const MOST_COLUMNS = 64;
/** Words among numbers are missing values up to this share. */
const FEW = 0.01;
/** Units that multiply: with and without them are numbers of another size. */
const MAGNITUDE = /^(?:[kmgtb]|mn|bn|mio|mrd|[kmgt]i?b)$/i;

/** Columns of values, from 0. */
export function valueColumns(
  table: Table,
  wanted: readonly (string | number)[] | undefined,
  keys: readonly number[],
): number[] {
  const { columns, file, timeColumns: taken, times } = table;
  if (wanted !== undefined) {
    if (wanted.length === 0) throw new ConfigError('columns: at least one is needed');
    return [...new Set(wanted.map((one) => chosenColumn(columns, one, file, '--column')))];
  }
  const numeric = columns.flatMap((column, i) =>
    !taken.includes(i) && !keys.includes(i) && isNumeric(column) ? [i] : [],
  );
  const left = numeric.filter((i) => !(times !== null || numeric.length > 1) || !countsTime(columns[i]!, i));
  const chosen = left.length > 0 ? left : numeric;
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

/** The values of columns in order of the file, and notes on how they are written. */
export function readValues(table: Table, chosen: readonly number[], notes: Note[]): Float64Array[] {
  const { columns, file, layout, text, lines } = table;
  const commaFile = columns.some(({ survey }) => survey.hasDecimalComma);
  const readers = chosen.map((i) => {
    const { survey } = columns[i]!;
    return {
      index: i,
      column: columns[i]!,
      format: survey.format(commaFile, layout.delimiter === ','),
      truth: isTruth(columns[i]!),
      scaled: MAGNITUDE.test(survey.format(commaFile, layout.delimiter === ',').unit),
      tolerant: survey.words < FEW * survey.filled,
      values: new Float64Array(lines.length),
    };
  });
  const first = { comma: '', thousands: '', word: '', infinite: '' };
  let [words, infinite, row] = [0, 0, 0];
  const other = (cell: string, reader: (typeof readers)[number], records: CsvRecords): number => {
    const { format, column } = reader;
    const value = readNumber(cell, format);
    if (!Number.isNaN(value)) {
      if (Number.isFinite(value)) {
        const said = (): string => `${show(cell)} in line ${records.line} is ${value}`;
        if (format.decimal === ',' && cell.includes(',')) first.comma ||= said();
        else if (/[,.'’ \u00a0\u2009\u202f]\d{3}/.test(cell) && Number.parseFloat(cell) !== value)
          first.thousands ||= said();
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
      `${show(cell)} in column ${show(column.name)} is not a number${adviceFor(cell, column, format)}`,
      records.place(reader.index),
    );
  };
  new TableRows(text, file, layout).each((records) => {
    if (row === lines.length) return; // blank lines at the end
    for (const reader of readers) {
      const cell = records.field(reader.index);
      const value =
        cell === ''
          ? Number.NaN
          : reader.format.decimal === '.' && NUMBER.test(cell)
            ? Number(cell)
            : other(cell, reader, records);
      if (reader.scaled && value !== 0 && NUMBER.test(cell))
        throw new DataError(
          `${show(cell)} in column ${show(reader.column.name)} has no ${show(reader.format.unit)}, which most others have; write all of them in one unit`,
          records.place(reader.index),
        );
      reader.values[row] =
        Number.isFinite(value) || Number.isNaN(value) ? value : other(cell, reader, records);
    }
    row++;
  });
  if (first.comma !== '')
    notes.push({ code: 'decimal-comma', text: `Numbers are read with a decimal comma: ${first.comma}.` });
  if (first.thousands !== '')
    notes.push({ code: 'thousands', text: `Separators of thousands were taken out: ${first.thousands}.` });
  for (const { column, format, truth } of readers) {
    if (format.unit !== '' && !truth)
      notes.push({
        code: 'unit',
        text: `${show(format.unit)} was taken off the numbers of column ${show(column.name)}.`,
      });
    if (truth)
      notes.push({
        code: 'boolean',
        text: `Column ${show(column.name)} is read as 1 for true and 0 for false.`,
      });
  }
  if (words > 0)
    notes.push({
      code: 'words',
      text: `${plural(words, 'cell')} of words among the numbers ${words === 1 ? 'is' : 'are'} taken as missing, the first ${first.word}.`,
    });
  if (infinite > 0)
    notes.push({
      code: 'infinite',
      text: `${plural(infinite, 'value')} that ${infinite === 1 ? 'is' : 'are'} infinite or too large ${infinite === 1 ? 'is' : 'are'} taken as missing, the first ${first.infinite}.`,
    });
  return readers.map(({ values }) => values);
}

function adviceFor(cell: string, { survey, cells }: TableColumn, format: NumberFormat): string {
  if (kindOf(cell) === 'word' && survey.numbers > 0)
    return `; ${plural(survey.words, 'cell')} of ${survey.filled} are words, too many to be taken as missing; remove them, or leave the column out with --column`;
  if (survey.numbers === 0) return '';
  const like = cells.find((one) => one !== cell && !Number.isNaN(readNumber(one, format)));
  return `${like === undefined ? '' : `; others are written like ${show(like)}`}; correct the cell or remove the row`;
}
