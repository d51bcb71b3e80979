/** Raw records, the output of every reader: one series as stored in a file, before any task gives it a meaning. */
import { parse } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
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

const DATE =
  /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?)?(?:\s*(Z|UTC|[+-]\d{2}:?\d{2}))?$/i;

/**
 * Seconds since 1970 of `2014-04-01`, `2014/4/1 7:05`, `2014-04-01T07:05:30.25Z`, `2014-04-01 07:05:30+02:00`; read
 * as UTC where no zone is written. NaN for anything else, and for dates that no calendar has.
 */
export function seconds(text: string): number {
  const match = DATE.exec(text);
  if (match === null) return Number.NaN;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = match;
  const at = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const date = new Date(at);
  if (date.getUTCFullYear() !== Number(year) || date.getUTCMonth() !== Number(month) - 1) return Number.NaN;
  if (date.getUTCDate() !== Number(day)) return Number.NaN;
  if (Number(hour) > 24 || Number(minute) > 59 || Number(second) > 60) return Number.NaN;
  const offset = /^([+-])(\d{2}):?(\d{2})$/.exec(zone);
  const shift =
    offset === null ? 0 : (Number(offset[2]) * 3600 + Number(offset[3]) * 60) * (offset[1] === '-' ? -1 : 1);
  const whole = at / 1000 + Number(hour) * 3600 + Number(minute) * 60 + Number(second) - shift;
  return fraction === '' ? whole : whole + Number(`0.${fraction}`);
}

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
