/** UCI HAR: one file of whitespace-separated windows per inertial signal, one of activities, one of volunteers. */
import { DataError } from '../../src/errors.ts';
import { Column } from './column.ts';
import { fileFacts, type RawRecord, rawRecord, stem } from './record.ts';
import { END, LINE, Scanner, WORDS } from './scanner.ts';

export interface UciHarFiles {
  /** Files of the channels, in their order: `[name, path]`, such as `['total_acc_x', '…/total_acc_x_test.txt']`. */
  readonly signals: readonly (readonly [name: string, path: string])[];
  /** One activity per line (`y_test.txt`). */
  readonly labels?: string | undefined;
  /** One volunteer per line (`subject_test.txt`); becomes the records' `group`. */
  readonly subjects?: string | undefined;
}

/** Rate of all signals, in Hz. */
const RATE = 50;

/** The values of the next line that is not blank, into `row`; false at the end. */
function readRow(scanner: Scanner, row: Column): boolean {
  let code = scanner.peek();
  while (code === LINE) {
    scanner.skip();
    code = scanner.peek();
  }
  if (code === END) return false;
  for (let stop = 0; stop !== LINE && stop !== END; ) {
    stop = scanner.next(WORDS);
    if (!scanner.empty) row.push(scanner.number());
  }
  return true;
}

/** The one word of the next line that is not blank; null at the end. */
function readWord(scanner: Scanner): string | null {
  let code = scanner.peek();
  while (code === LINE) {
    scanner.skip();
    code = scanner.peek();
  }
  if (code === END) return null;
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
 * Labels are spelled as in the file (1 to 6); `rate` is 50 Hz.
 *
 * Tolerated: a byte-order mark; blank lines; any blanks; `NaN` and `?` (missing, NaN).
 *
 * @throws DataError with line and column for text, infinities, a line of another length than the first; with the
 * file for files of unequal numbers of lines, and for no windows
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
    const side = [labels, subjects].map((path) => (path === undefined ? null : scan(path)));
    const [label, subject] = [side[0]!, side[1]!];
    const facts = fileFacts(signals[0]![1], 'uci-har', { rate: RATE });
    const name = stem(facts.path);
    const channelNames = signals.map(([channel]) => channel);
    const row = new Column();
    let width = 0;
    for (let index = 0; ; index++) {
      const rows = channels.map((scanner) => (readRow(scanner, row) ? row.take() : null));
      const words = [label, subject].map((scanner) => (scanner === null ? null : readWord(scanner)));
      const ended = [...rows, ...words].map((part) => part === null);
      const present = [...channels.map(() => true), label !== null, subject !== null];
      const done = ended.filter((end, i) => present[i] && end).length;
      if (done > 0) {
        if (done < open.length) {
          const scanner = [...channels, label, subject].find((_, i) => present[i] && ended[i])!;
          throw new DataError(`ends after ${index} lines, the other files do not`, { file: scanner.path });
        }
        if (index === 0) throw new DataError('no windows', { file: facts.path });
        return;
      }
      if (index === 0) width = rows[0]!.length;
      rows.forEach((values, c) => {
        if (values!.length === width) return;
        throw channels[c]!.fail(`${values!.length} values, the first line has ${width}`);
      });
      yield rawRecord(
        facts,
        `${name}/${index}`,
        rows.map((values) => values!),
        { channelNames, label: words[0] ?? null, group: words[1] ?? null },
      );
    }
  } finally {
    for (const scanner of open) scanner.close();
  }
}
