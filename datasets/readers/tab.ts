/** Long csv files of TAB: `[date,]data,cols`, one row per point and channel, the channels stacked by `cols`. */
import { DataError } from '../../src/ground/errors.ts';
import {
  Column,
  checkChannelCount,
  fileFacts,
  pointLabels,
  type RawRecord,
  rawRecord,
  seconds,
  stem,
} from './record.ts';
import { COMMAS, type Scanner, scanning } from './scanner.ts';
import { readHeaderRow } from './tsb.ts';

const COMMA = 44;

/** One name of `cols` with its rows. */
interface Stack {
  readonly name: string;
  readonly bytes: Buffer;
  readonly values: Column;
  readonly times: Column;
}

/** An instant: a date as seconds since 1970, else the number that stands there. */
function instant(scanner: Scanner): number {
  const date = seconds(scanner.unquoted());
  const value = Number.isNaN(date) ? scanner.number() : date;
  if (Number.isNaN(value)) throw scanner.fail('a missing date');
  return value;
}

/**
 * Reads the one series of a TAB file; its id is the file's name. The channels are the names of `cols` in the order
 * in which they first appear; `label` holds the point labels (0 or 1). Times are those of the first channel.
 *
 * Tolerated: a byte-order mark; columns in any order, and columns of other names, which are left out; rows of the
 * channels in any order; blank lines; missing values (NaN); a file without `label`.
 *
 * @throws DataError with line and column for text, infinities, a missing date, a row with another number of fields;
 * with the file for a header without `data` and `cols`, channels or labels of unequal lengths, channels whose dates
 * differ, a label other than 0 and 1
 */
export function readTab(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const names = readHeaderRow(scanner).map((name) => name.toLowerCase());
  const dataAt = names.indexOf('data');
  const colsAt = names.indexOf('cols');
  const dateAt = names.indexOf('date');
  if (dataAt < 0 || colsAt < 0)
    throw scanner.fail('expected a header with data and cols, such as date,data,cols');
  const stacks = new Map<string, Stack>();
  let current: Stack | null = null;
  while (scanner.atLine()) {
    let value = Number.NaN;
    let time = Number.NaN;
    for (let field = 0; field < names.length; field++) {
      const stop = scanner.next(COMMAS);
      if (field === dataAt) value = scanner.number();
      else if (field === dateAt) time = instant(scanner);
      else if (field === colsAt) {
        const { bytes, from, to } = scanner;
        if (current === null || current.bytes.compare(bytes, from, to) !== 0) {
          const name = scanner.unquoted();
          if (name === '') throw scanner.fail('an empty name in cols');
          current = stacks.get(name) ?? {
            name,
            bytes: Buffer.from(bytes.subarray(from, to)),
            values: new Column(),
            times: new Column(),
          };
          stacks.set(name, current);
          checkChannelCount(stacks.size - 1, scanner.place);
        }
      }
      if ((stop === COMMA) !== field < names.length - 1) {
        throw scanner.fail(
          stop === COMMA
            ? `more fields than the ${names.length} of the header`
            : `${field + 1} fields, the header has ${names.length}`,
        );
      }
    }
    current!.values.push(value);
    if (dateAt >= 0) current!.times.push(time);
  }
  const found = [...stacks.values()];
  const label = found.find(({ name }) => name.toLowerCase() === 'label');
  const stacked = found.filter((stack) => stack !== label);
  if (stacked.length === 0) throw new DataError('no points of a channel', { file: path });
  const { name, values } = stacked[0]!;
  const length = values.length;
  for (const other of found) {
    if (other.values.length !== length) {
      throw new DataError(`"${other.name}" has ${other.values.length} points, "${name}" has ${length}`, {
        file: path,
      });
    }
    for (let i = 0; dateAt >= 0 && i < length; i++) {
      if (other.times.at(i) === stacked[0]!.times.at(i)) continue;
      throw new DataError(`point ${i + 1} of "${other.name}" has another date than that of "${name}"`, {
        file: path,
      });
    }
  }
  yield rawRecord(
    fileFacts(path, 'tab'),
    stem(path),
    stacked.map((stack) => stack.values.take()),
    {
      channelNames: stacked.map((stack) => stack.name),
      times: dateAt < 0 ? null : stacked[0]!.times.take(),
      anomalies: label === undefined ? null : pointLabels(label.values.take(), label.name, path),
    },
  );
}
