/** WFDB header files (`.hea`): one line of the record, one line per signal. */
import { DataError } from '../../src/errors.ts';
import { END, LINE, LINES, type Scanner, scanning } from './scanner.ts';

/** One line of a header. */
export interface WfdbSignal {
  /** Name of the signal file, beside the header. */
  readonly file: string;
  readonly format: number;
  readonly samplesPerFrame: number;
  /** Bytes before the first sample. */
  readonly byteOffset: number;
  /** Units of the converter per physical unit; 200 where the header says 0 or nothing. */
  readonly gain: number;
  /** Value of the converter that means 0 physical units. */
  readonly baseline: number;
  readonly units: string;
  /** Sum of all samples, of which 16 bits are kept; null where the header has none. */
  readonly checksum: number | null;
  readonly description: string;
}

export interface WfdbHeader {
  readonly name: string;
  /** Frames per second, in Hz. */
  readonly rate: number;
  /** Frames of every signal; null where the header leaves it to the file's length. */
  readonly frames: number | null;
  readonly signals: readonly WfdbSignal[];
  /** Lines of comment, without `#`. */
  readonly comments: readonly string[];
}

const RECORD = /^([A-Za-z0-9_\-.]+)(\/\d+)?\s+(\d+)(?:\s+(\S+))?(?:\s+(\d+))?(?:\s|$)/;
const RATE = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?:\/[^\s()]*(?:\([^)]*\))?)?$/i;
const FORMAT = /^(\d+)(?:x(\d+))?(?::(\d+))?(?:\+(\d+))?$/;
const GAIN = /^([+-]?\d*(?:\.\d*)?(?:e[+-]?\d+)?)(?:\(([+-]?\d+)\))?(?:\/(\S*))?$/i;
const INTEGER = /^[+-]?\d+$/;

const DEFAULT_RATE = 250;
const DEFAULT_GAIN = 200;
const MOST_PER_FRAME = 10_000;

function signalLine(text: string, scanner: Scanner): WfdbSignal {
  const [file = '', formatText = '', gainText, , zeroText, , sumText] = text.split(/\s+/, 7);
  const format = FORMAT.exec(formatText);
  if (format === null) throw scanner.fail('expected FILE FORMAT [GAIN …] of a signal');
  if (file === '~' || /[\\/]|^\.\.?$/.test(file)) {
    throw scanner.fail(`signal file ${JSON.stringify(file)}; expected the name of a file beside the header`);
  }
  if (Number(format[3] ?? 0) !== 0)
    throw scanner.fail('signals that are skewed against each other are not read');
  const samplesPerFrame = Number(format[2] ?? 1);
  if (samplesPerFrame < 1 || samplesPerFrame > MOST_PER_FRAME) {
    throw scanner.fail(`${samplesPerFrame} samples per frame`);
  }
  const gain = GAIN.exec(gainText ?? '');
  const size = Number(gain?.[1] || 0);
  if (gain === null || !Number.isFinite(size)) throw scanner.fail(`gain ${JSON.stringify(gainText)}`);
  for (const [what, field] of [
    ['zero', zeroText],
    ['checksum', sumText],
  ] as const) {
    if (field !== undefined && !INTEGER.test(field)) throw scanner.fail(`${what} ${JSON.stringify(field)}`);
  }
  return {
    file,
    format: Number(format[1]),
    samplesPerFrame,
    byteOffset: Number(format[4] ?? 0),
    gain: size === 0 ? DEFAULT_GAIN : size,
    baseline: Number(gain[2] ?? zeroText ?? 0),
    units: gain[3] || 'mV',
    checksum: sumText === undefined ? null : Number(sumText),
    description: text.split(/\s+/).slice(8).join(' '),
  };
}

/**
 * Reads a header. Comments and blank lines may stand anywhere.
 *
 * @throws DataError with line and column for a line of another form, records of several segments, skewed signals, a
 * signal file outside the header's directory, and fewer signal lines than announced
 */
export function readWfdbHeader(path: string): WfdbHeader {
  for (const header of scanning(path, parse)) return header;
  throw new DataError('no record line', { file: path });
}

function* parse(scanner: Scanner): Generator<WfdbHeader> {
  const comments: string[] = [];
  const signals: WfdbSignal[] = [];
  let record: RegExpExecArray | null = null;
  let rate = DEFAULT_RATE;
  for (;;) {
    const code = scanner.peek();
    if (code === END) break;
    if (code === LINE) {
      scanner.skip();
      continue;
    }
    scanner.next(LINES);
    const text = scanner.text();
    if (text.startsWith('#')) comments.push(text.slice(1).trim());
    else if (record === null) {
      record = RECORD.exec(text);
      if (record === null) throw scanner.fail('expected NAME SIGNALS [RATE [FRAMES]]');
      if (record[2] !== undefined)
        throw scanner.fail('a record of several segments; read its segments one by one');
      const stated = record[4] === undefined ? DEFAULT_RATE : Number(RATE.exec(record[4])?.[1]);
      if (!(stated > 0 && Number.isFinite(stated))) throw scanner.fail(`rate ${JSON.stringify(record[4])}`);
      rate = stated;
    } else if (signals.length < Number(record[3])) signals.push(signalLine(text, scanner));
  }
  if (record === null) throw new DataError('no record line', { file: scanner.path });
  if (signals.length < Number(record[3])) {
    throw new DataError(`${record[3]} signals announced, ${signals.length} described`, {
      file: scanner.path,
    });
  }
  const frames = Number(record[5] ?? 0);
  yield { name: record[1]!, rate, frames: frames === 0 ? null : frames, signals, comments };
}
