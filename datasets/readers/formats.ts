/** Reader of a file by its name: extension first, then the properties that separate formats of one extension. */
import { ConfigError } from '../../src/ground/errors.ts';
import {
  isUcrAnomaly,
  readHeaderRow,
  readNab,
  readTab,
  readTsbAd,
  readTsbUad,
  readUcrAnomaly,
  tsbAdTrain,
} from './anomaly-files.ts';
import { readArff } from './arff.ts';
import { labelColumn, marksPoints, readCsv, readPoints } from './csv.ts';
import { readMatlab } from './matlab.ts';
import { readNpy, readNpz } from './numpy.ts';
import { readParquet } from './parquet.ts';
import type { RawRecord } from './record.ts';
import { Scanner } from './scanner.ts';
import { readTs } from './ts.ts';
import { readUcrTsv } from './ucr-tsv.ts';
import { readWfdb } from './wfdb.ts';

/** Readers of the formats that one path is enough to read. */
const READERS = {
  ts: readTs,
  arff: readArff,
  'ucr-tsv': readUcrTsv,
  csv: (path) => readCsv(path),
  points: readPoints,
  'ucr-anomaly': readUcrAnomaly,
  'tsb-uad': readTsbUad,
  'tsb-ad': readTsbAd,
  tab: readTab,
  nab: readNab,
  npy: readNpy,
  npz: readNpz,
  parquet: readParquet,
  matlab: readMatlab,
  wfdb: readWfdb,
} as const satisfies Readonly<Record<string, (path: string) => Generator<RawRecord>>>;
type FileFormat = keyof typeof READERS;

const EXTENSIONS: Readonly<Record<string, FileFormat>> = {
  ts: 'ts',
  arff: 'arff',
  tsv: 'ucr-tsv',
  out: 'tsb-uad',
  npy: 'npy',
  npz: 'npz',
  parquet: 'parquet',
  mat: 'matlab',
  hea: 'wfdb',
};

/**
 * Extension in lower case. A split of the UCR archive in plain text, `GunPoint_TRAIN.txt` or as in 2015 `GunPoint_TRAIN`, counts as .tsv.
 * `X_train.txt` does not: its labels are in a file of their own.
 */
function extensionOf(path: string): string {
  const [, set] =
    /([^./\\]+)[_-](?:train|test|val|valid|validation)\.txt$/i.exec(path) ??
    /([^./\\]+)_(?:TRAIN|TEST)$/.exec(path) ??
    [];
  if (set !== undefined && !/^[xy]$/i.test(set)) return 'tsv';
  return /\.([^./\\]+)$/.exec(path)?.[1]?.toLowerCase() ?? '';
}

/** Returns true if a file is named like a file of series; it is not opened. */
export function isSeriesFile(path: string): boolean {
  const extension = extensionOf(path);
  return extension === 'csv' || isUcrAnomaly(path) || Object.hasOwn(EXTENSIONS, extension);
}

/** Format of a csv file, by its header or a TSB-AD name. */
function csvFormat(path: string): FileFormat {
  if (tsbAdTrain(path) !== null) return 'tsb-ad';
  const scanner = new Scanner(path);
  try {
    const row = readHeaderRow(scanner).map((name) => name.toLowerCase());
    if (row.includes('data') && row.includes('cols')) return 'tab';
    if (row.join() === 'timestamp,value') return 'nab';
    const names = row.length > 1 ? row : row[0]!.split(/[;\t|]/);
    const mayMark = names.length > 1 && labelColumn(names) >= 0 && !names.includes('class');
    return mayMark && marksPoints(path) ? 'points' : 'csv';
  } finally {
    scanner.close();
  }
}

/**
 * Returns the format of a file. `.txt` files of the anomaly archive of UCR are known by their names. A csv file is TSB-AD by a name of
 * its grammar, TAB by `data` and `cols`, NAB by `timestamp,value`, labelled points by a column such as `Label` or `is_anomaly` whose first
 * cells mark points (`marksPoints`), else one series of points.
 * @throws ConfigError for an extension that no format has; DataError for a csv file that cannot be read
 */
export function formatOf(path: string): FileFormat {
  if (isUcrAnomaly(path)) return 'ucr-anomaly';
  const extension = extensionOf(path);
  if (extension === 'csv') return csvFormat(path);
  const format = Object.hasOwn(EXTENSIONS, extension) ? EXTENSIONS[extension] : undefined;
  if (format !== undefined) return format;
  const known = ['csv', ...Object.keys(EXTENSIONS)].map((name) => `.${name}`).join(', ');
  throw new ConfigError(`${path}: no format has this extension; known are ${known}`);
}

/**
 * Reads the records of a file in its format, without options; what is missing is NaN in all of them.
 * @throws as `formatOf` and the format's reader
 */
export function* readRecords(path: string): Generator<RawRecord> {
  yield* READERS[formatOf(path)](path);
}
