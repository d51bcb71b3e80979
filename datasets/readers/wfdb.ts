/** WFDB records: a header (`.hea`) and the signal files that it names (`.dat`), in physical units. */
import { dirname } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { fileInside } from '../../src/ground/files.ts';
import { type ByteSource, reading } from './byte-source.ts';
import { type RawRecord, rawRecord } from './record.ts';
import { LINES, type Scanner, scanning } from './scanner.ts';

interface WfdbSignal {
  /** Name of the signal file, beside the header. */
  readonly file: string;
  readonly format: number;
  readonly samplesPerFrame: number;
  /** Bytes before the first sample. */
  readonly byteOffset: number;
  /** Converter units per physical unit; 200 where the header says 0 or nothing. */
  readonly gain: number;
  /** Converter value of 0 physical units. */
  readonly baseline: number;
  /** Lowest 16 bits of the sum of all samples; null where the header has none. */
  readonly checksum: number | null;
  readonly description: string;
}

interface WfdbHeader {
  readonly name: string;
  /** Frames per signal; null where the header leaves it to the file's length. */
  readonly frames: number | null;
  readonly signals: readonly WfdbSignal[];
}

const RECORD = /^([A-Za-z0-9_\-.]+)(\/\d+)?\s+(\d+)(?:\s+(\S+))?(?:\s+(\d+))?(?:\s|$)/;
const RATE = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?:\/[^\s()]*(?:\([^)]*\))?)?$/i;
const FORMAT = /^(\d+)(?:x(\d+))?(?::(\d+))?(?:\+(\d+))?$/;
const GAIN = /^([+-]?\d*(?:\.\d*)?(?:e[+-]?\d+)?)(?:\(([+-]?\d+)\))?(?:\/(\S*))?$/i;
const INTEGER = /^[+-]?\d+$/;

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
    checksum: sumText === undefined ? null : Number(sumText),
    description: text.split(/\s+/).slice(8).join(' '),
  };
}

/**
 * Reads a header. Comments and blank lines may stand anywhere.
 * @throws DataError with line and column for another form, several segments, skewed signals, and files elsewhere
 */
export function readWfdbHeader(path: string): WfdbHeader {
  const [header] = scanning(path, parse);
  return header!;
}

function* parse(scanner: Scanner): Generator<WfdbHeader> {
  const signals: WfdbSignal[] = [];
  let record: RegExpExecArray | null = null;
  while (scanner.atLine()) {
    scanner.next(LINES);
    const text = scanner.text();
    if (text.startsWith('#')) continue;
    if (record === null) {
      record = RECORD.exec(text);
      if (record === null) throw scanner.fail('expected NAME SIGNALS [RATE [FRAMES]]');
      if (record[2] !== undefined)
        throw scanner.fail('a record of several segments; read its segments one by one');
      const rate = Number(RATE.exec(record[4] ?? '1')?.[1]);
      if (!(rate > 0 && Number.isFinite(rate))) throw scanner.fail(`rate ${JSON.stringify(record[4])}`);
    } else if (signals.length < Number(record[3])) signals.push(signalLine(text, scanner));
  }
  if (record === null) throw new DataError('no record line', { file: scanner.path });
  if (signals.length < Number(record[3])) {
    throw new DataError(`${record[3]} signals announced, ${signals.length} described`, {
      file: scanner.path,
    });
  }
  const frames = Number(record[5] ?? 0);
  yield { name: record[1]!, frames: frames === 0 ? null : frames, signals };
}

interface Format {
  /** Samples per pack, and its bytes. */
  readonly samples: number;
  readonly bytes: number;
  /** Bytes of an incomplete last pack, by its number of samples. */
  readonly part: readonly number[];
  /** The value that marks a missing sample. */
  readonly missing: number;
  /** Unpacks the samples at `at` into `out` from `to`. */
  readonly unpack: (bytes: Buffer, at: number, out: Int32Array, to: number) => void;
}

const single = (bytes: number, missing: number, sample: (from: Buffer, at: number) => number): Format => ({
  samples: 1,
  bytes,
  part: [0],
  missing,
  unpack: (from, at, out, to) => {
    out[to] = sample(from, at);
  },
});

const signed = (value: number, bits: number): number => (value << (32 - bits)) >> (32 - bits);

/** Formats by their number in the WFDB manual (signal(5)). */
const FORMATS: ReadonlyMap<number, Format> = new Map([
  [16, single(2, -(2 ** 15), (from, at) => from.readInt16LE(at))],
  [24, single(3, -(2 ** 23), (from, at) => from.readIntLE(at, 3))],
  [32, single(4, -(2 ** 31), (from, at) => from.readInt32LE(at))],
  [61, single(2, -(2 ** 15), (from, at) => from.readInt16BE(at))],
  [80, single(1, -128, (from, at) => from[at]! - 128)],
  [160, single(2, -(2 ** 15), (from, at) => from.readUInt16LE(at) - 2 ** 15)],
  [
    212,
    {
      samples: 2,
      bytes: 3,
      part: [0, 2],
      missing: -2048,
      unpack: (from, at, out, to) => {
        out[to] = signed(from[at]! | (from[at + 1]! << 8), 12);
        out[to + 1] = signed(((from[at + 1]! << 4) & 0xf00) | from[at + 2]!, 12);
      },
    },
  ],
  [
    310,
    {
      samples: 3,
      bytes: 4,
      part: [0, 2, 4],
      missing: -512,
      unpack: (from, at, out, to) => {
        const low = from.readUInt16LE(at);
        const high = from.readUInt16LE(at + 2);
        out[to] = signed(low >> 1, 10);
        out[to + 1] = signed(high >> 1, 10);
        out[to + 2] = signed((low >> 11) | ((high >> 11) << 5), 10);
      },
    },
  ],
  [
    311,
    {
      samples: 3,
      bytes: 4,
      part: [0, 2, 3],
      missing: -512,
      unpack: (from, at, out, to) => {
        const word = from.readInt32LE(at);
        out[to] = signed(word, 10);
        out[to + 1] = signed(word >> 10, 10);
        out[to + 2] = signed(word >> 20, 10);
      },
    },
  ],
]);

/** Approximate number of samples unpacked at once. */
const CHUNK = 1 << 16;

/** Signals of one file, which are interleaved frame by frame. */
interface Group {
  readonly file: string;
  readonly signals: WfdbSignal[];
  readonly format: Format;
}

function groups(header: WfdbHeader, path: string): Group[] {
  const list: Group[] = [];
  for (const signal of header.signals) {
    const format = FORMATS.get(signal.format);
    if (format === undefined) {
      throw new DataError(`signal format ${signal.format}; read are ${[...FORMATS.keys()].join(', ')}`, {
        file: path,
      });
    }
    const last = list.at(-1);
    if (last?.file !== signal.file) list.push({ file: signal.file, signals: [signal], format });
    else if (last.format !== format) {
      throw new DataError(`"${signal.file}" holds signals of two formats`, { file: path });
    } else last.signals.push(signal);
  }
  return list;
}

function framesIn(bytes: number, format: Format, perFrame: number): number {
  const rest = bytes % format.bytes;
  const partial = format.part.reduce((most, need, samples) => (need <= rest ? samples : most), 0);
  return Math.floor((Math.floor(bytes / format.bytes) * format.samples + partial) / perFrame);
}

function* readGroup(
  source: ByteSource,
  { signals, format }: Group,
  stated: number | null,
): Generator<Float64Array[]> {
  const start = signals[0]!.byteOffset;
  const perFrame = signals.reduce((sum, signal) => sum + signal.samplesPerFrame, 0);
  const available = framesIn(Math.max(0, source.size - start), format, perFrame);
  const frames = stated ?? available;
  if (frames > available || frames === 0) {
    throw new DataError(`holds ${available} frames, the header says ${frames}`, { file: source.path });
  }
  const slots = signals.flatMap(({ samplesPerFrame }, s) => new Array<number>(samplesPerFrame).fill(s));
  const channels = signals.map(({ samplesPerFrame }) => new Float64Array(frames * samplesPerFrame));
  const filled = new Float64Array(signals.length);
  const sums = new Int32Array(signals.length);
  const total = frames * perFrame;
  const packs = Math.ceil(CHUNK / format.samples);
  const samples = new Int32Array(packs * format.samples);
  let slot = 0;
  for (let done = 0, at = start; done < total; done += samples.length, at += packs * format.bytes) {
    const count = Math.min(samples.length, total - done);
    const needed = Math.ceil(count / format.samples);
    const bytes = Buffer.alloc(needed * format.bytes); // the last pack may be cut off
    source.read(at, Math.min(bytes.length, source.size - at)).copy(bytes);
    for (let pack = 0; pack < needed; pack++) {
      format.unpack(bytes, pack * format.bytes, samples, pack * format.samples);
    }
    for (let i = 0; i < count; i++) {
      const s = slots[slot]!;
      const { baseline, gain } = signals[s]!;
      const sample = samples[i]!;
      sums[s] = sums[s]! + sample;
      channels[s]![filled[s]!] = sample === format.missing ? Number.NaN : (sample - baseline) / gain;
      filled[s] = filled[s]! + 1;
      if (++slot === perFrame) slot = 0;
    }
  }
  signals.forEach(({ checksum, description }, s) => {
    if (checksum === null || ((sums[s]! - checksum) & 0xffff) === 0) return;
    throw new DataError(
      `signal ${s + 1} (${description}): checksum ${signed(sums[s]!, 16)}, the header says ${checksum}; damaged`,
      { file: source.path },
    );
  });
  yield channels;
}

/**
 * Reads the one record of a header; its id is the record's name, and its channels are physical values,
 * (sample − baseline) / gain, of lengths frames × samples per frame. Samples that the format marks as missing are
 * NaN. Formats 16, 24, 32, 61, 80, 160, 212, 310 and 311; several signals and files.
 * @throws DataError as `readWfdbHeader`; for another format, missing samples, and a wrong checksum
 */
export function* readWfdb(path: string): Generator<RawRecord> {
  const header = readWfdbHeader(path);
  const { signals } = header;
  if (signals.length === 0) throw new DataError('a record without signals', { file: path });
  const channels: Float64Array[] = [];
  for (const group of groups(header, path)) {
    const file = fileInside(dirname(path), group.file);
    for (const read of reading(file, (source) => readGroup(source, group, header.frames))) {
      channels.push(...read);
    }
  }
  yield rawRecord(path, header.name, channels, {
    channelNames: signals.map(({ description }, i) => description || `channel ${i + 1}`),
  });
}
