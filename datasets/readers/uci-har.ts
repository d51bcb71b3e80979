/** UCI HAR: one file of whitespace-separated windows per inertial signal, one of activities, one of volunteers. */
import { DataError } from '../../src/ground/errors.ts';
import { Column, type RawRecord, rawRecord, stem } from './record.ts';
import { END, LINE, Scanner, WORDS } from './scanner.ts';

interface UciHarFiles {
  /** Channel files in order: `[name, path]`, such as `['total_acc_x', '…/total_acc_x_test.txt']`. */
  readonly signals: readonly (readonly [name: string, path: string])[];
  /** One activity per line (`y_test.txt`). */
  readonly labels?: string | undefined;
  /** One volunteer per line (`subject_test.txt`); becomes the records' `group`. */
  readonly subjects?: string | undefined;
}

function readRow(scanner: Scanner, row: Column): Float64Array {
  for (let stop = 0; stop !== LINE && stop !== END; ) {
    stop = scanner.next(WORDS);
    if (!scanner.empty) row.push(scanner.number());
  }
  return row.take();
}

function readWord(scanner: Scanner): string {
  let stop = scanner.next(WORDS);
  const word = scanner.text();
  while (stop !== LINE && stop !== END) {
    stop = scanner.next(WORDS);
    if (!scanner.empty) throw scanner.fail('expected one word per line');
  }
  return word;
}

/**
 * Reads windows line by line from all files at once; ids are `name/index` from 0 after the first signal's file.
 * Labels are spelled as in the file (1 to 6).
 *
 * Tolerated: a byte-order mark; blank lines; any blanks; `NaN` and `?` (missing, NaN).
 * @throws DataError with line and column for content of another form; for files of unequal length, and no windows
 */
export function* readUciHar(files: UciHarFiles): Generator<RawRecord> {
  const { signals, labels, subjects } = files;
  if (signals.length === 0) throw new DataError('no signal files');
  const open: Scanner[] = [];
  try {
    const scan = (path: string): Scanner => {
      const scanner = new Scanner(path);
      open.push(scanner);
      return scanner;
    };
    const channels = signals.map(([, path]) => scan(path));
    const label = labels === undefined ? null : scan(labels);
    const subject = subjects === undefined ? null : scan(subjects);
    const path = signals[0]![1];
    const name = stem(path);
    const channelNames = signals.map(([channel]) => channel);
    const row = new Column();
    let width = 0;
    for (let index = 0; ; index++) {
      const ended = open.filter((scanner) => !scanner.atLine());
      if (ended.length === open.length && index > 0) return;
      if (ended.length === open.length) throw new DataError('no windows', { file: path });
      if (ended.length > 0) {
        throw new DataError(`ends after ${index} lines, the other files do not`, { file: ended[0]!.path });
      }
      const rows = channels.map((scanner) => {
        const values = readRow(scanner, row);
        if (width === 0) width = values.length;
        if (values.length === width) return values;
        throw scanner.fail(`${values.length} values, the first line has ${width}`);
      });
      yield rawRecord(path, `${name}/${index}`, rows, {
        channelNames,
        label: label === null ? null : readWord(label),
        group: subject === null ? null : readWord(subject),
      });
    }
  } finally {
    for (const scanner of open) scanner.close();
  }
}
