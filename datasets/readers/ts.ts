/**
 * `.ts` files of the time-series classification archive (aeon, sktime): `@` header, then one series per line,
 * values between commas, `:` between channels and before the label; with `@timeStamps true` the values are
 * `(time,value)` pairs.
 */
import { DataError } from '../../src/ground/errors.ts';
import { Column, checkChannelCount, instant, type RawRecord, rawRecord, stem } from './record.ts';
import { COMMAS, END, LINE, LINES, type Scanner, scanning, stopsAt } from './scanner.ts';

function sameTimes(a: Float64Array, b: Float64Array): boolean {
  return a.length === b.length && a.every((time, i) => time === b[i]);
}

/**
 * Joins channels over the union of their times.
 * @param channels [C][N_c] values
 * @param times [C][N_c] instants of each channel, rising or not
 * @param at where the series stands, for messages
 * @returns channels [C][N] with NaN where a channel was not observed, and the times [N]; N is the number of
 * different times, which rise — or, when all channels share their times, those times as they are
 * @throws DataError when a channel has two values at one time and the channels do not share their times
 */
function unionOfTimes(
  channels: readonly Float64Array[],
  times: readonly Float64Array[],
  at: { file: string; line: number; column: number },
): { channels: Float64Array[]; times: Float64Array } {
  const first = times[0]!;
  if (times.every((instants) => sameTimes(instants, first))) return { channels: [...channels], times: first };
  const union = Float64Array.from(new Set(times.flatMap((instants) => [...instants]))).sort();
  const index = new Map(Array.from(union, (time, i) => [time, i] as const));
  const joined = channels.map((channel, c) => {
    const out = new Float64Array(union.length).fill(Number.NaN);
    const seen = new Uint8Array(union.length);
    times[c]!.forEach((time, i) => {
      const place = index.get(time)!;
      if (seen[place] === 1) throw new DataError(`channel ${c + 1} has two values at time ${time}`, at);
      seen[place] = 1;
      out[place] = channel[i]!;
    });
    return out;
  });
  return { channels: joined, times: union };
}

const VALUES = stopsAt(',:');
const PAIRS = stopsAt(',)');
const COLON = 58;
const COMMA = 44;
const CLOSE = 41;
const OPEN = 40;
const AT = 64;
const COMMENTS = new Set([35, 37]); // # and %

interface Header {
  /** Value of `@classLabel` or `@targetLabel`; null without either. */
  readonly labelled: boolean | null;
  /** Line of `@targetLabel true`; null without it. */
  readonly targetLine: number | null;
}

/** Reads up to the first data line. A header line may say anything, and none is needed. */
function readHeader(scanner: Scanner): Header {
  let labelled: boolean | null = null;
  let targetLine: number | null = null;
  while (scanner.atLine(COMMENTS) && scanner.peek() === AT) {
    scanner.next(LINES);
    const [, key = '', value = ''] = /^@\s*([^\s]*)\s*(.*)$/s.exec(scanner.text()) ?? [];
    const name = key.toLowerCase();
    if (name === 'data') break;
    if (name !== 'classlabel' && name !== 'targetlabel') continue;
    const stated = !/^false(?:[\s,]|$)/i.test(value.trim());
    labelled = labelled === true || stated;
    if (name === 'targetlabel' && stated) targetLine = scanner.line;
  }
  return { labelled, targetLine };
}

/** Returns the line of `@targetLabel true`, with which labels are values of a regression and no classes; null without it. */
export function targetLineOf(path: string): number | null {
  const [header] = scanning(path, function* (scanner) {
    yield readHeader(scanner);
  });
  return header!.targetLine;
}

interface Row {
  readonly channels: Float64Array[];
  readonly times: Float64Array[] | null;
  /** Last part, when it may be a label: a single field. */
  readonly tail: { readonly text: string; readonly column: number } | null;
}

const tailOf = (scanner: Scanner): Row['tail'] => ({ text: scanner.text(), column: scanner.column });

/** One line of plain values. Each part is read as text only where a single field of it stands alone. */
function readValues(scanner: Scanner, values: Column, labelled: boolean | null): Row {
  const channels: Float64Array[] = [];
  for (;;) {
    const stop = scanner.next(VALUES);
    const last = stop === LINE || stop === END;
    if (last && values.length === 0 && channels.length > 0 && labelled !== false) {
      return { channels, times: null, tail: tailOf(scanner) };
    }
    if (values.length > 0 || stop === COMMA || !scanner.empty) values.push(scanner.number());
    if (stop === COMMA) continue;
    channels.push(values.take());
    checkChannelCount(channels.length, scanner.place);
    if (last) return { channels, times: null, tail: null };
  }
}

/** One line of `(time,value)` pairs. */
function readPairs(scanner: Scanner, values: Column, instants: Column, labelled: boolean | null): Row {
  const channels: Float64Array[] = [];
  const times: Float64Array[] = [];
  for (;;) {
    checkChannelCount(channels.length, scanner.place);
    if (scanner.peek() === OPEN) {
      scanner.skip();
      if (scanner.next(COMMAS) !== COMMA) throw scanner.fail('expected (time,value)');
      instants.push(instant(scanner, 'a missing time; every pair needs one'));
      if (scanner.next(PAIRS) !== CLOSE) {
        throw scanner.fail('expected one value and ) after the time; several values per time are not read');
      }
      values.push(scanner.number());
      const stop = scanner.next(VALUES);
      if (!scanner.empty) throw scanner.fail('expected , or : after )');
      if (stop === COMMA) continue;
      channels.push(values.take());
      times.push(instants.take());
      if (stop !== COLON) return { channels, times, tail: null };
    } else {
      const stop = scanner.next(VALUES);
      if (values.length > 0) throw scanner.fail('expected (time,value)');
      if (stop === COLON && scanner.empty) {
        channels.push(new Float64Array(0)); // a channel without a single observation
        times.push(new Float64Array(0));
      } else if ((stop === LINE || stop === END) && labelled !== false && channels.length > 0) {
        return { channels, times, tail: tailOf(scanner) };
      } else throw scanner.fail('expected (time,value)');
    }
  }
}

/**
 * Returns true if the last part of each line is a label. `@classLabel` decides; without it, a single last field after a longer part is
 * a label.
 */
function hasLabel(row: Row, labelled: boolean | null): boolean {
  if (row.tail === null) return false;
  if (labelled !== null) return labelled;
  return row.channels.some((channel) => channel.length > 1);
}

/**
 * Reads the series of a `.ts` file in the order of its lines; ids are `name/index` from 0.
 *
 * Tolerated, as it occurs in published files: a byte-order mark; header lines that are missing, in any case, or at
 * odds with the data (dimensions, lengths, the number of classes, labels that were not declared); no `@data`; lines
 * of unequal lengths; `?`, `NaN` and empty fields, which are missing values (NaN). The number of channels and
 * whether there are labels come from the first line, and all lines must agree with it. Without `@classLabel` and
 * `@targetLabel`, a last part of a single field after longer ones is the label. Channels observed at different
 * times are joined over the union of their times, NaN where a channel was not observed.
 * @throws DataError with line and column for content of another form; for a file without series
 */
export function readTs(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { labelled } = readHeader(scanner);
  const { path } = scanner;
  const name = stem(path);
  const values = new Column();
  const instants = new Column();
  let width = 0;
  let withLabel = false;
  let index = 0;
  while (scanner.atLine(COMMENTS)) {
    const code = scanner.peek();
    if (code === AT) {
      scanner.next(LINES);
      throw scanner.fail('a header line among the data');
    }
    const row =
      code === OPEN ? readPairs(scanner, values, instants, labelled) : readValues(scanner, values, labelled);
    const { channels, tail } = row;
    const at = { file: path, line: scanner.line, column: 1 };
    if (index === 0) withLabel = hasLabel(row, labelled);
    if (withLabel && tail === null) throw new DataError('no label at the end of this line', at);
    if (withLabel && tail!.text === '')
      throw new DataError('an empty label', { ...at, column: tail!.column });
    if (!withLabel && tail !== null) {
      if (row.times !== null) throw scanner.fail('expected (time,value)');
      channels.push(Float64Array.of(scanner.number())); // a channel of one value, as the first line showed
    }
    if (index === 0) width = channels.length;
    if (channels.length !== width) {
      throw new DataError(`${channels.length} channels, the first line has ${width}`, at);
    }
    if (channels.every((channel) => channel.length === 0)) throw new DataError('a series without values', at);
    const label = withLabel ? tail!.text : null;
    const id = `${name}/${index++}`;
    if (row.times === null) yield rawRecord(path, id, channels, { label });
    else {
      const joined = unionOfTimes(channels, row.times, at);
      yield rawRecord(path, id, joined.channels, { label, times: joined.times });
    }
  }
  if (index === 0) throw new DataError('no series; expected lines of values after @data', { file: path });
}
