/** CSV files of one series, as people have them: one row per point. */
import { ConfigError } from '../../src/errors.ts';
import { readColumnsCsv, readSeriesCsv } from '../csv.ts';
import { pointLabels } from './anomaly-label.ts';
import { seconds } from './clock.ts';
import { fileFacts, type RawRecord, rawRecord, stem } from './record.ts';

export interface CsvReadOptions {
  /** Columns of the channels: headers, or numbers from 1. Without it, the only numeric column that is not time. */
  readonly columns?: readonly (string | number)[] | undefined;
  /** Column of point labels, 0 or 1. */
  readonly label?: string | number | undefined;
  /** As `CsvOptions`. */
  readonly missing?: boolean | undefined;
  readonly advice?: string | undefined;
}

/** The time column as numbers: dates as seconds since 1970, else numbers; null when some row is neither. */
function instants(time: readonly string[] | null): Float64Array | null {
  if (time === null) return null;
  const values = Float64Array.from(time, (cell) => {
    const date = seconds(cell);
    return Number.isNaN(date) && cell !== '' ? Number(cell) : date;
  });
  return values.every((value) => Number.isFinite(value)) ? values : null;
}

/**
 * Reads the one series of a CSV file with `readSeriesCsv`, which says what is tolerated; its id is the file's name.
 * Unlike the other readers it refuses missing values unless they are allowed.
 *
 * @throws DataError as `readSeriesCsv`, and for a label other than 0 and 1; ConfigError for a column that is not
 * there, and for no columns at all
 */
export function* readCsv(path: string, options: CsvReadOptions = {}): Generator<RawRecord> {
  const { columns = [undefined], label, missing, advice } = options;
  if (columns.length === 0) throw new ConfigError('columns: at least one is needed');
  const channels = readColumnsCsv(path, columns, { missing, advice });
  const marks = label === undefined ? null : readSeriesCsv(path, { column: label });
  yield rawRecord(
    fileFacts(path, 'csv'),
    stem(path),
    channels.map(({ values }) => values),
    {
      channelNames: channels.map(({ column }) => column),
      times: instants(channels[0]!.time),
      anomalies: marks === null ? null : pointLabels(marks.values, marks.column, path),
    },
  );
}
