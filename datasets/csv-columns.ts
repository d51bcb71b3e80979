/** Which columns of a CSV file of points are channels. */
import { readText, TIME_NAME } from './csv.ts';
import { CsvRecords, detectDelimiter } from './csv-records.ts';

/** Numbers, also with a decimal comma, and missing values. */
const NUMBERS = /^(?:[+-]?[\d.,]+(?:e[+-]?\d+)?|nan)?$/i;

/**
 * Columns of a csv file of points that begin with a number and are no time; undefined without a header, or with a single one
 * left.
 *
 * @throws DataError for a file that cannot be read
 */
export function numericColumns(path: string): string[] | undefined {
  const text = readText(path);
  const records = new CsvRecords(text, detectDelimiter(text, path), path);
  const rows: string[][] = [];
  while (rows.length < 2 && records.next()) {
    if (!records.blank) rows.push(Array.from({ length: records.width }, (_, i) => records.field(i)));
  }
  const [names = [], first = []] = rows;
  if (names.some((name) => name === '' || Number.isFinite(Number(name)))) return undefined;
  const columns = names.filter((name, i) => !TIME_NAME.test(name) && NUMBERS.test(first[i] ?? ''));
  return columns.length > 1 ? columns : undefined;
}
