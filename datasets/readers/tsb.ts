/** Files of TSB-UAD (values and label, without a header) and TSB-AD (columns of values and a last column `Label`). */
import { DataError } from '../../src/ground/errors.ts';
import {
  Column,
  checkChannelCount,
  fileFacts,
  pointLabel,
  type RawRecord,
  rawRecord,
  stem,
} from './record.ts';
import { COMMAS, END, LINE, type Scanner, scanning } from './scanner.ts';

const COMMA = 44;
/** The anomaly archive of UCR states the training length, and where its one anomaly begins and ends, in the name. */
const UCR_NAME = /^(\d+)_UCR_Anomaly_(.+)_(\d+)_(\d+)_(\d+)(?:\.(?:txt|out|csv))*$/i;

/**
 * Reads the one series of a `.out` file; its id is the file's name.
 *
 * `train` is stated only by names of the UCR anomaly archive (`ID_UCR_Anomaly_NAME_TRAIN_BEGIN_END`), with the
 * anomaly's begin and end. Tolerated: a byte-order mark; blank lines at the end; missing values (NaN).
 *
 * @throws DataError with line and column for a line that is not two fields, text, infinities, a label other than 0
 * and 1, a blank line inside; for an empty file, and a training length that the series does not have
 */
export function readTsbUad(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const name = stem(path);
  const match = UCR_NAME.exec(name);
  const stated: Record<string, string> =
    match === null
      ? {}
      : { id: match[1]!, name: match[2]!, train: match[3]!, begin: match[4]!, end: match[5]! };
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
  const train = match === null ? null : Number(match[3]);
  if (train !== null && train > values.length) {
    throw new DataError(`the name states ${train} points of training, the file has ${values.length}`, {
      file: path,
    });
  }
  yield rawRecord(fileFacts(path, 'tsb-uad', { stated }), name, [values.take()], {
    channelNames: ['value'],
    anomalies: Uint8Array.from(labels.take()),
    train,
  });
}

const NAME = /^(\d+)_(.+?)_id_(\d+)_(.+)_tr_(\d+)_1st_(\d+)$/;

/** What the name of a TSB-AD file says. */
export interface TsbAdName {
  readonly id: number;
  readonly dataset: string;
  /** Number of the series in its data set. */
  readonly number: number;
  readonly domain: string;
  /** Length of the anomaly-free training prefix. */
  readonly train: number;
  /** Index of the first anomalous point. */
  readonly first: number;
}

/** Reads the grammar of a file name, with or without directory and `.csv`; null when it is another name. */
export function parseTsbAdName(path: string): TsbAdName | null {
  const match = NAME.exec(path.replace(/^.*[\\/]/, '').replace(/\.csv$/i, ''));
  if (match === null) return null;
  const [, id, dataset, number, domain, train, first] = match;
  return {
    id: Number(id),
    dataset: dataset!,
    number: Number(number),
    domain: domain!,
    train: Number(train),
    first: Number(first),
  };
}

/** Most columns of a header: the points of a long series in one row. */
const MOST_COLUMNS = 1_000_000;

/** The fields of the first line that is not blank. @throws DataError for too many */
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
 * Reads the one series of a TSB-AD file; its id is the file's name. `train` comes from the name, where it follows
 * the grammar; `stated` holds the name's parts.
 *
 * Tolerated: a byte-order mark; another name (`train` is then null); blank lines at the end; missing values (NaN).
 *
 * @throws DataError with line and column for a last column that is not `Label`, a line with another number of
 * fields, text, infinities, a label other than 0 and 1; for a file without points, and a training length that the
 * series does not have
 */
export function readTsbAd(path: string): Generator<RawRecord> {
  return scanning(path, readColumns);
}

function* readColumns(scanner: Scanner): Generator<RawRecord> {
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
  const parts = parseTsbAdName(path);
  if (parts !== null && parts.train > length) {
    throw new DataError(`the name states ${parts.train} points of training, the file has ${length}`, {
      file: path,
    });
  }
  const stated = Object.fromEntries(Object.entries(parts ?? {}).map(([key, value]) => [key, String(value)]));
  yield rawRecord(
    fileFacts(path, 'tsb-ad', { stated }),
    stem(path),
    columns.map((column) => column.take()),
    {
      channelNames: names.slice(0, width),
      anomalies: Uint8Array.from(labels.take()),
      train: parts?.train ?? null,
    },
  );
}
