/** One series of the user's files, and what is cut of it. */
import { DataError } from '../../src/errors.ts';
import { show } from '../../src/json-record.ts';
import type { Example, Gold } from '../../src/types.ts';
import { numericColumns } from '../csv-columns.ts';
import { checkChannelNames } from '../example.ts';
import { readCsv } from '../readers/csv.ts';
import { formatOf, readRecords } from '../readers/formats.ts';
import { readParquet } from '../readers/parquet.ts';
import type { RawRecord } from '../readers/record.ts';
import { LABELS } from './custom-table.ts';
import { wholeWindows } from './window.ts';

/** The one series of a file, labelled elsewhere: all columns of numbers but the time are channels; gaps of a csv file are missing values. */
export function oneRecord(path: string): RawRecord {
  const format = formatOf(path);
  const csv = format === 'csv';
  const columns = csv ? numericColumns(path) : undefined;
  const twice = columns?.find((name, i) => columns.indexOf(name) !== i);
  if (twice !== undefined) {
    throw new DataError(`two columns are called ${show(twice)}; channels need names that differ`, {
      file: path,
      line: 1,
    });
  }
  if (columns !== undefined) checkChannelNames(columns, { file: path, line: 1 });
  const advice = 'channels need names: write them in the first line';
  const read = (): Iterable<RawRecord> => {
    if (csv) return readCsv(path, { columns, missing: true, advice });
    return format === 'parquet' ? readParquet(path, { label: null }) : readRecords(path);
  };
  const records = [...read()];
  if (records.length !== 1) {
    throw new DataError(`${records.length} series; ${LABELS} names files of one series`, { file: path });
  }
  const [record] = records as [RawRecord];
  if (record.channels.length > 1) checkChannelNames(record.channelNames, { file: path });
  return record;
}

interface WholeOptions {
  readonly id: string;
  readonly gold: Gold;
  readonly recording: string | null;
  readonly window: number | null;
  readonly short: ShortSeries;
}

/** Series that are shorter than a window, of which nothing is cut. */
export class ShortSeries {
  readonly #ids: string[] = [];
  #records = 0;

  add(id: string, windows: number): void {
    this.#records++;
    if (windows === 0) this.#ids.push(id);
  }

  note(window: number | null): string[] {
    const [count, shown] = [this.#ids.length, this.#ids.slice(0, 5)];
    if (count === 0) return [];
    const more = count > shown.length ? ` and ${count - shown.length} more` : '';
    return [
      `${count} of ${this.#records} series ${count === 1 ? 'is' : 'are'} shorter than --window ${window} and left out: ${shown.join(', ')}${more}`,
    ];
  }
}

/** A record as one example, or as windows of exactly `window` points, with one answer. */
export function* whole(
  record: Pick<RawRecord, 'channels' | 'channelNames' | 'times'>,
  options: WholeOptions,
): Generator<Example> {
  const { id, window, short } = options;
  const { channels, channelNames, times } = record;
  const length = channels[0]!.length;
  const uncut = window === null;
  const spans = uncut ? [[0, length] as const] : wholeWindows(length, window);
  short.add(id.slice('custom/'.length), spans.length);
  for (const [index, [start, end]] of spans.entries()) {
    yield {
      id: uncut ? id : `${id}/${index}`,
      task: 'custom',
      channels: uncut ? channels : channels.map((channel) => channel.slice(start, end)),
      names: channels.length === 1 ? ['value'] : channelNames,
      times: times === null || uncut ? times : times.slice(start, end),
      gold: options.gold,
      recording: options.recording ?? (uncut ? null : id),
    };
  }
}
