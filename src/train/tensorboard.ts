/**
 * TensorBoard event files, written without TensorFlow: scalars of a stage's metrics lines under the tags of the glossary.
 *
 * The file is a sequence of TFRecords (length, masked CRC-32C of it, data, masked CRC-32C of that), each an `Event` message of
 * tensorboard/compat/proto/event.proto; the first has the file's version, the second the start of the session, at which TensorBoard
 * forgets what it showed of these steps before. It is made of metrics.jsonl, which is the truth: a stage that begins or resumes
 * writes it anew from the lines that it keeps, under a new name, so that no step stands in it twice whatever happened before.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { appendText, writeFileAtomic } from '../ground/files.ts';
import { type LogName, tensorBoardTag } from './glossary.ts';
import { checkSteps, type LogLine, RunLog, readLog } from './metrics.ts';

/** CRC-32C (Castagnoli), reflected, by byte. */
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc;
});

export function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = CRC_TABLE[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** TFRecord's masking: a CRC over data that holds CRCs is weak. */
const masked = (crc: number): number => (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;

/** One TFRecord. */
function record(data: Buffer): Buffer {
  const framed = Buffer.alloc(12 + data.length + 4);
  framed.writeBigUInt64LE(BigInt(data.length), 0);
  framed.writeUInt32LE(masked(crc32c(framed.subarray(0, 8))), 8);
  data.copy(framed, 12);
  framed.writeUInt32LE(masked(crc32c(data)), 12 + data.length);
  return framed;
}

// Protocol buffers: a field is its number and wire type, then its value; numeric fields that are 0 are left out.

function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
const key = (field: number, wire: number): Buffer => varint((field << 3) | wire);

function bytesField(field: number, content: Buffer): Buffer {
  return Buffer.concat([key(field, BYTES), varint(content.length), content]);
}

function doubleField(field: number, value: number): Buffer {
  const content = Buffer.alloc(8);
  content.writeDoubleLE(value);
  return Buffer.concat([key(field, FIXED64), content]);
}

function floatField(field: number, value: number): Buffer {
  const content = Buffer.alloc(4);
  content.writeFloatLE(value);
  return Buffer.concat([key(field, FIXED32), content]);
}

const integerField = (field: number, value: number): Buffer =>
  value === 0 ? Buffer.alloc(0) : Buffer.concat([key(field, VARINT), varint(value)]);

/** An `Event` in its record: wall time in seconds since 1970, step, and one of its contents. */
function event(time: number, step: number, content: Buffer): Buffer {
  const when = time === 0 ? Buffer.alloc(0) : doubleField(1, time);
  return record(Buffer.concat([when, integerField(2, step), content]));
}

/** The two events that a file begins with: `Event.file_version` and `SessionLog.START` at step 0. */
export function fileHead(time: number): Buffer {
  const start = bytesField(7, integerField(1, 1));
  return Buffer.concat([event(time, 0, bytesField(3, Buffer.from('brain.Event:2'))), event(time, 0, start)]);
}

/** An event with scalars (`Summary.Value.simple_value`, float32) of one step. */
export function scalarEvent(
  time: number,
  step: number,
  scalars: readonly (readonly [string, number])[],
): Buffer {
  const values = scalars.map(([tag, value]) =>
    bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), floatField(2, value)])),
  );
  return event(time, step, bytesField(5, Buffer.concat(values)));
}

/** A metrics line with when it was written. */
export interface TimedLine extends LogLine {
  /** Seconds since 1970; absent of lines of earlier versions. */
  readonly time?: number;
}

/** The numbers of a line by key, with dots between levels: `parts.format`; of a list, how long it is. */
export function* numbersOf(line: object, prefix = ''): Generator<readonly [key: string, value: number]> {
  for (const [name, value] of Object.entries(line) as [string, unknown][]) {
    if (typeof value === 'number') yield [`${prefix}${name}`, value];
    else if (Array.isArray(value)) yield [`${prefix}${name}`, value.length];
    else if (typeof value === 'object' && value !== null) yield* numbersOf(value, `${prefix}${name}.`);
  }
}

/** The event of a line; empty where none of its numbers has a curve. */
export function lineEvent(log: LogName, line: TimedLine): Buffer {
  const { time = 0, step, ...rest } = line;
  const scalars = [...numbersOf(rest)].flatMap(([name, value]): [string, number][] => {
    const tag = tensorBoardTag(log, name);
    return tag === null ? [] : [[tag, value]];
  });
  return scalars.length === 0 ? Buffer.alloc(0) : scalarEvent(time, step, scalars);
}

/** metrics.jsonl of a stage, and its numbers and those of validation.jsonl as a TensorBoard event file in `tensorboard/`. */
export class MetricsLog {
  readonly #stage: 'sft' | 'rl';
  readonly #log: RunLog;
  readonly #events: string;
  /** The lines that were there when it was opened. */
  readonly kept: readonly TimedLine[];

  /**
   * Opens the log of a stage in its directory; as `RunLog`, keeps the lines up to step `keep`, that of its checkpoint.
   * @throws DataError where a line before the checkpoint is missing; nothing is written then. WriteError
   */
  constructor(stage: 'sft' | 'rl', path: string, keep: number) {
    this.#stage = stage;
    const file = join(path, 'metrics.jsonl');
    checkSteps(file, keep > 0 ? readLog(file) : [], keep);
    this.#log = new RunLog(file, keep);
    this.kept = this.#log.kept;
    const now = Date.now() / 1000;
    const directory = join(path, 'tensorboard');
    // Readers of a folder take its files in the order of their names; the time is what TensorFlow writes there.
    const name = `events.out.tfevents.${Math.floor(now)}.timeseer`;
    this.#events = join(directory, name);
    const times = new Map(this.kept.map(({ step, time }) => [step, time]));
    const validated = readLog(join(path, 'validation.jsonl')).filter(({ step }) => step <= keep);
    writeFileAtomic(this.#events, [
      fileHead(this.kept[0]?.time ?? now),
      ...this.kept.map((line) => lineEvent(stage, line)),
      ...validated.map((line) => lineEvent('validation', { ...line, time: times.get(line.step) ?? now })),
    ]);
    for (const other of readdirSync(directory))
      if (other !== name) rmSync(join(directory, other), { force: true });
  }

  /** @throws WriteError when the disk is full. */
  append(metrics: LogLine): void {
    const line: TimedLine = { ...metrics, time: Date.now() / 1000 };
    this.#log.append(line);
    appendText(this.#events, lineEvent(this.#stage, line));
  }

  /** Draws a line that was added to validation.jsonl. @throws WriteError when the disk is full. */
  validated(line: LogLine): void {
    appendText(this.#events, lineEvent('validation', { ...line, time: Date.now() / 1000 }));
  }
}
