/** Which columns of a CSV file of points are channels. */
import { readSample, readText, TIME_NAME } from './csv.ts';
import { CsvRecords, detectDelimiter } from './csv-records.ts';

/** Numbers, also with a decimal comma. */
const NUMBERS = /^[+-]?[\d.,]+(?:e[+-]?\d+)?$/i;
const MISSING = /^(?:[+-]?nan|na|n\/a|null|none|#n\/a|\?)?$/i;

/**
 * Columns of a csv file of points whose first value that is not missing is a number, and which are no time; undefined without a
 * header, or with a single one left. A first column without a name is the row numbers of a program that wrote the file.
 *
 * @throws DataError for a file that cannot be read
 */
export function numericColumns(path: string): string[] | undefined {
  const text = readText(path);
  const records = new CsvRecords(text, detectDelimiter(text, path), path);
  const [names = [], ...body] = readSample(records);
  const headed = names.every((name, i) => (name === '' ? i === 0 : !Number.isFinite(Number(name))));
  if (!headed) return undefined;
  const columns = names.filter((name, i) => {
    const first = body.map((row) => row[i] ?? '').find((cell) => !MISSING.test(cell));
    return name !== '' && !TIME_NAME.test(name) && (first === undefined || NUMBERS.test(first));
  });
  return columns.length > 1 ? columns : undefined;
}
