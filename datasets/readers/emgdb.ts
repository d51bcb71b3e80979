/** Text exports of PhysioNet's emgdb: `time value` per line, seconds and millivolts, no header. */
import { DataError } from '../../src/ground/errors.ts';
import { Column, isInfinite, type RawRecord, rawRecord, stem } from './record.ts';
import { decimal, END, LINE, type Scanner, scanning, WORDS } from './scanner.ts';

/** Corrupt lines, as a share and a number, above which a file is of another kind. */
const TOLERATED_SHARE = 0.01;
const TOLERATED_COUNT = 10;

/**
 * Reads the one recording of an emgdb text file; its id is the file's name.
 *
 * The published files have a few corrupt bytes. A line whose time can be read but whose value cannot keeps its place
 * on the time axis with a missing value (NaN); a line without a readable time is left out. Both are counted as faults of
 * the record. Times must rise, except that a line may repeat the time before
 * it (they are rounded to six digits). The sampling rate is not in this file; its `.hea` states it.
 * @throws DataError above 10 corrupt lines and 1 % of them, for infinities, falling times, and a file without points
 */
export function readEmgdb(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const times = new Column();
  const values = new Column();
  let faults = 0;
  let lines = 0;
  let last = Number.NEGATIVE_INFINITY;
  const checkFaults = (counted: number, place: { file: string }): void => {
    if (faults <= TOLERATED_COUNT || faults <= TOLERATED_SHARE * counted) return;
    throw new DataError(`${faults} corrupt lines of ${lines}; expected lines of time and value`, place);
  };
  const fault = (): void => {
    faults++;
    checkFaults(Math.max(lines, 5000), scanner.place);
  };
  while (scanner.atLine()) {
    lines++;
    let stop = scanner.next(WORDS);
    const time = decimal(scanner.latin1());
    if (!Number.isFinite(time) || stop === LINE || stop === END) {
      fault();
      if (stop !== LINE && stop !== END) scanner.skipLine();
      continue;
    }
    if (time < last) throw scanner.fail(`time ${time} after ${last}`);
    last = time;
    stop = scanner.next(WORDS);
    let value = decimal(scanner.latin1());
    if (isInfinite(value)) throw scanner.fail('not a finite number');
    if (Number.isNaN(value)) fault();
    while (stop !== LINE && stop !== END) {
      stop = scanner.next(WORDS);
      if (scanner.empty || Number.isNaN(value)) continue;
      fault();
      value = Number.NaN;
    }
    times.push(time);
    values.push(value);
  }
  checkFaults(lines, { file: path });
  if (values.length === 0) throw new DataError('no line of time and value', { file: path });
  yield rawRecord(path, stem(path), [values.take()], { channelNames: ['EMG'], times: times.take(), faults });
}
