/**
 * TensorBoard event files, written without TensorFlow: scalars of a stage's metrics lines under the tags of the glossary.
 *
 * A file is a sequence of TFRecords (length, masked CRC-32C of it, data, masked CRC-32C of that), each an `Event` message of
 * tensorboard/compat/proto/event.proto. The first holds the file's version, the second the start of the session, which
 * makes TensorBoard discard earlier values of these steps. metrics.jsonl is authoritative: a stage that begins or resumes
 * rewrites the events from the lines that it keeps, under a new file name, so that no step appears twice.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import protobuf from 'protobufjs/minimal.js';
import { appendText, writeFileAtomic } from '../ground/files.ts';
import { leavesOf } from '../ground/json-record.ts';
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

/** Frames data as a TFRecord. */
function record(data: Buffer): Buffer {
  const framed = Buffer.alloc(12 + data.length + 4);
  framed.writeBigUInt64LE(BigInt(data.length), 0);
  framed.writeUInt32LE(masked(crc32c(framed.subarray(0, 8))), 8);
  data.copy(framed, 12);
  framed.writeUInt32LE(masked(crc32c(data)), 12 + data.length);
  return framed;
}

// Protocol buffers: a field is its number and wire type, then its value; numeric fields that are 0 are left out.
const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
const key = (field: number, wire: number): number => (field << 3) | wire;

/** Encodes an `Event` as a record: wall time in seconds since 1970, step, and the content that `write` adds. */
function event(time: number, step: number, write: (writer: protobuf.Writer) => unknown): Buffer {
  const writer = protobuf.Writer.create();
  if (time !== 0) writer.uint32(key(1, FIXED64)).double(time);
  if (step !== 0) writer.uint32(key(2, VARINT)).int64(step);
  write(writer);
  return record(Buffer.from(writer.finish()));
}

/** Encodes the two events that a file begins with: `Event.file_version` and `SessionLog.START` at step 0. */
export function fileHead(time: number): Buffer {
  const version = event(time, 0, (writer) => writer.uint32(key(3, BYTES)).string('brain.Event:2'));
  const start = event(time, 0, (writer) =>
    writer.uint32(key(7, BYTES)).fork().uint32(key(1, VARINT)).int32(1).ldelim(),
  );
  return Buffer.concat([version, start]);
}

/** Encodes an event with scalars (`Summary.Value.simple_value`, float32) of one step. */
export function scalarEvent(
  time: number,
  step: number,
  scalars: readonly (readonly [string, number])[],
): Buffer {
  return event(time, step, (writer) => {
    writer.uint32(key(5, BYTES)).fork();
    for (const [tag, value] of scalars) {
      writer.uint32(key(1, BYTES)).fork();
      writer.uint32(key(1, BYTES)).string(tag).uint32(key(2, FIXED32)).float(value).ldelim();
    }
    writer.ldelim();
  });
}

/** Metrics line with the time it was written. */
interface TimedLine extends LogLine {
  /** Seconds since 1970; absent in lines of earlier versions. */
  readonly time?: number;
}

/** Lists the numbers of a line by key, with dots between levels (`parts.format`); for a list, its length. */
export const numbersOf = (line: object): [key: string, value: number][] =>
  leavesOf(line).flatMap(([name, value]): [string, number][] => {
    const number = Array.isArray(value) ? value.length : value;
    return typeof number === 'number' ? [[name, number]] : [];
  });

/** Encodes the event of a line; empty if none of its numbers has a curve. */
export function lineEvent(log: LogName, line: TimedLine): Buffer {
  const { time = 0, step, ...rest } = line;
  const scalars = numbersOf(rest).flatMap(([name, value]): [string, number][] => {
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
  /** Lines kept when the log was opened. */
  readonly kept: readonly TimedLine[];

  /**
   * Opens the log of a stage in its directory and keeps the lines up to step `keep`, the step of its checkpoint.
   * @throws DataError if a line before the checkpoint is missing, before anything is written; WriteError
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
    for (const file of readdirSync(directory)) {
      if (file !== name) rmSync(join(directory, file), { force: true });
    }
  }

  /** @throws WriteError when the disk is full. */
  append(metrics: LogLine): void {
    const line: TimedLine = { ...metrics, time: Date.now() / 1000 };
    this.#log.append(line);
    appendText(this.#events, lineEvent(this.#stage, line));
  }

  /** Adds a line of validation.jsonl. @throws WriteError when the disk is full. */
  validated(line: LogLine): void {
    appendText(this.#events, lineEvent('validation', { ...line, time: Date.now() / 1000 }));
  }
}
