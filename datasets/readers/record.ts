/** Raw records, the output of every reader: one series as stored in a file, before any task gives it a meaning. */
import { parse } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import { mergeIntervals, runs } from '../../src/series/intervals.ts';
import { MINUTE, parseStamp, SECOND } from './clock.ts';
import type { Scanner } from './scanner.ts';

/** Decimal numbers; each digit matches in one way only, so that long cells take linear time. */
export const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/** A series of one or several channels, with the labels in its file. */
export interface RawRecord {
  /** The file's name without its extension, followed by `/index` where the format holds several records. */
  readonly id: string;
  /** [C][N_c]: C ≥ 1; lengths may differ. Finite, or NaN where the value is missing; never infinite. */
  readonly channels: readonly Float64Array[];
  /** [C]; the file's names, else `channel 1`, `channel 2`, … */
  readonly channelNames: readonly string[];
  /** Class or target, spelled as in the file; null where the record has none. */
  readonly label: string | null;
  /** [N] instants of the points: seconds since 1970 (UTC) where the file has dates, else its own numbers. */
  readonly times: Float64Array | null;
  /** Point labels [N] (1 is anomalous), or half-open windows; null where the format has none. */
  readonly anomalies: Uint8Array | readonly Interval[] | null;
  /** Person or recording that the record was cut from, where the file states one: records of one group belong to
   * one side of a split. */
  readonly group: string | null;
  /** Part of the data (train, test, …) by the word in the file; null where it has none. */
  readonly split: string | null;
  /** Number of places that could not be read and were left out. */
  readonly faults: number;
  readonly path: string;
}

export function stem(path: string): string {
  return parse(path).name;
}

/** Maximum channels of a series: each takes its own memory, and a file with more is another kind of table. */
export const MOST_CHANNELS = 10_000;

export function checkChannelCount(count: number, at: { file: string; line?: number; column?: number }): void {
  if (count <= MOST_CHANNELS) return;
  throw new DataError(`${count} channels, more than the ${MOST_CHANNELS} that a series may have`, at);
}

/** A record of `channels`; what is not given is absent from the file. @throws DataError for too many channels */
export function rawRecord(
  path: string,
  id: string,
  channels: readonly Float64Array[],
  more: Partial<Omit<RawRecord, 'path' | 'id' | 'channels'>> = {},
): RawRecord {
  checkChannelCount(channels.length, { file: path });
  return {
    ...{ id, channels, path },
    channelNames: channels.map((_, i) => `channel ${i + 1}`),
    ...{ label: null, times: null, anomalies: null, group: null, split: null, faults: 0 },
    ...more,
  };
}

/** Points up to the last that some channel has: archives, and arrays of one length, pad short series with NaN. */
export function knownLength(channels: readonly Float64Array[]): number {
  let length = channels.reduce((longest, channel) => Math.max(longest, channel.length), 0);
  while (length > 0 && channels.every((channel) => !Number.isFinite(channel[length - 1]))) length--;
  return length;
}

/** Anomalous intervals of a record, sorted and disjoint; null without labels. */
export function anomalousIntervals({ anomalies }: Pick<RawRecord, 'anomalies'>): Interval[] | null {
  if (anomalies === null) return null;
  return anomalies instanceof Uint8Array
    ? runs(anomalies.length, (i) => anomalies[i] !== 0)
    : mergeIntervals(anomalies);
}

/** Times of a record where they can be an axis: null where some fall. */
export const risingTimes = ({ times }: Pick<RawRecord, 'times'>): Float64Array | null =>
  times?.every((time, i) => i === 0 || time >= times[i - 1]!) === true ? times : null;

export class Column {
  #values: Float64Array;
  #length = 0;

  constructor(capacity = 64) {
    this.#values = new Float64Array(capacity);
  }

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const wider = new Float64Array(2 * this.#length);
      wider.set(this.#values);
      this.#values = wider;
    }
    this.#values[this.#length++] = value;
  }

  at(index: number): number | undefined {
    return index < this.#length ? this.#values[index] : undefined;
  }

  /** Copy of the pushed values [N]; empties the column but keeps its capacity. */
  take(): Float64Array {
    const values = this.#values.slice(0, this.#length);
    this.#length = 0;
    return values;
  }
}

/** Beginning of a date with the year first. */
const DATE = /^\d{4}[-/.]\d{1,2}[-/.]\d/;

/**
 * Seconds since 1970 of `2014-04-01`, `2014/4/1 7:05`, `2014-04-01T07:05:30.25Z`, `2014-04-01 07:05:30+02:00`; read
 * as UTC where no zone is written. NaN for anything else, and for dates that no calendar has.
 */
export function seconds(text: string): number {
  const stamp = DATE.test(text) ? parseStamp(text) : null;
  if (stamp === null) return Number.NaN;
  const shift = Number.isNaN(stamp.offset) ? 0 : stamp.offset * MINUTE;
  return (stamp.wall - shift) / SECOND;
}

/** The current field as an instant: a date as seconds since 1970, else its number. @throws DataError where it is `missing` */
export function instant(scanner: Scanner, missing: string): number {
  const date = seconds(scanner.unquoted());
  const value = Number.isNaN(date) ? scanner.number() : date;
  if (Number.isNaN(value)) throw scanner.fail(missing);
  return value;
}

/** Returns true for an infinity; NaN is a missing value. */
export const isInfinite = (value: number): boolean => Math.abs(value) === Number.POSITIVE_INFINITY;

/** The current field as a point label. @throws DataError unless it is 0 or 1, in any spelling of these numbers */
export function pointLabel(scanner: Scanner): number {
  const value = scanner.number();
  if (value === 0 || value === 1) return value;
  throw scanner.fail('a label that is neither 0 nor 1');
}

/** A column of numbers as point labels [N]. @throws DataError unless all are 0 or 1 */
export function pointLabels(values: Float64Array, column: string, path: string): Uint8Array {
  const wrong = values.findIndex((value) => value !== 0 && value !== 1);
  if (wrong < 0) return Uint8Array.from(values);
  throw new DataError(
    `${JSON.stringify(column)}, point ${wrong + 1} of ${values.length}: ${values[wrong]}; a label is 0 or 1`,
    { file: path },
  );
}
