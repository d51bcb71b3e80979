/** What the reader makes of columns, and of files that are damaged; golden.test.ts has what is read. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readPoints } from '../../../datasets/readers/csv.ts';
import { readParquet, readParquetRows } from '../../../datasets/readers/parquet.ts';
import {
  PageReader,
  readDeltas,
  readPlain,
  readRuns,
  readSplit,
} from '../../../datasets/readers/parquet-pages.ts';
import { DataError } from '../../../src/ground/errors.ts';
import { failure, plain, readerFiles } from '../../helpers/reader-files.ts';

const files = readerFiles();
const GOLDEN = resolve(import.meta.dirname, '../../golden/readers');
const golden = (name: string): string => join(GOLDEN, name);
const page = (...bytes: number[]): PageReader => new PageReader(Buffer.from(bytes));

describe('columns', () => {
  test('channels and label by name; dates are times, text is left out', () => {
    const path = golden('points_snappy_v1.parquet');
    const [record] = [...readParquet(path)];
    expect(record!.channelNames).toEqual(['flow', 'count', 'level']);
    expect([...record!.channels[2]!.subarray(0, 3)]).toEqual([-500, -499, -492]);
  });

  test('y is a label, but an axis beside x or z; false asks for no label at all', () => {
    const [axes] = [...readParquet(golden('axes.parquet'))];
    expect(axes!.channelNames).toEqual(['x', 'y', 'z']);
    expect(axes!.channels.map((channel) => [...channel])).toEqual([
      [0.5, 0.25, -1, 2],
      [0, 1, 1, 0],
      [9.5, 9.75, 9, 8.5],
    ]);
    expect(axes!.anomalies).toBeNull();
    const [level] = [...readParquet(golden('level_y.parquet'))];
    expect(level!.channelNames).toEqual(['level']);
    expect([...(level!.anomalies as Uint8Array)]).toEqual([0, 1, 1, 0]);
    const [both] = [...readParquet(golden('level_y.parquet'), false)];
    expect([both!.channelNames, both!.anomalies]).toEqual([['level', 'y'], null]);
  });

  test('labels of points are no channel, not even where none are asked for', () => {
    const text = readFileSync(golden('level_y.parquet'), 'latin1').replaceAll('level', 'label');
    const path = files.write('labels.parquet', Buffer.from(text, 'latin1'));
    expect([...readParquet(path, false)].map(({ channelNames }) => channelNames)).toEqual([['y']]);
    expect(failure(() => readParquet(path)).message).toMatch(/"label", point .*; a label is 0 or 1/);
    // A table of temperature anomalies measures nothing else, so they are the channel.
    const alone = files.write('alone.parquet', Buffer.from(text.replaceAll('\x01y', '\x01t'), 'latin1'));
    expect([...readParquet(alone, false)].map(({ channelNames }) => channelNames)).toEqual([['label']]);
  });

  test('a name that repeats tells the series of labelled points apart, as in a csv file', () => {
    const renamed = (name: string): string => {
      const text = readFileSync(golden('points_none_v1.parquet'), 'latin1').replaceAll('site', name);
      return files.write(`${name}.parquet`, Buffer.from(text, 'latin1'));
    };
    const [whole, ...others] = readParquet(renamed('spot'));
    expect(others).toEqual([]);
    const rows = [...readParquetRows(renamed('name'))];
    const lines = rows.map((row) => Object.values(row).join(','));
    const csv = [...readPoints(files.write('name.csv', [Object.keys(rows[0]!), ...lines].join('\n')))];
    const series = [...readParquet(renamed('name'))];
    expect(series.map(({ id }) => id)).toEqual(csv.map(({ id }) => id));
    expect(series.map(({ id }) => id)).toEqual(['name/north', 'name/south']);
    for (const [i, one] of series.entries()) {
      const at = rows.flatMap(({ name }, row) => (`name/${name}` === one.id ? [row] : []));
      const part = (all: ArrayLike<number>): number[] => at.map((row) => all[row]!);
      expect(one.channelNames).toEqual(['flow', 'count', 'level']);
      expect(one.channels.map((values) => [...values])).toEqual(whole!.channels.map(part));
      expect([...one.times!]).toEqual(part(whole!.times!));
      expect([...(one.anomalies as Uint8Array)]).toEqual(part(whole!.anomalies as Uint8Array));
      expect(csv[i]!.channels).toEqual(one.channels);
      expect(csv[i]!.anomalies).toEqual(one.anomalies);
    }
    // Labelled in a file of their own, they stay the one series that is named there.
    expect([...readParquet(renamed('name'), false)].map(({ id }) => id)).toEqual(['name']);
  });

  test('lists: nulls are missing', () => {
    const [, , third] = plain(readParquet(golden('lists_v2.parquet')));
    expect(third!.channels[0]![1]).toBeNaN();
    expect(third!.label).toBe('a');
  });
});

describe('damaged files', () => {
  const whole = readFileSync(golden('points_none_v1.parquet'));
  const size = whole.length;

  test.each<[string, (bytes: Buffer) => unknown, number, string]>([
    ['cut off', () => 0, size - 10, 'no PAR1 at its end'],
    ['encrypted', (bytes) => bytes.write('PARE', size - 4), size, 'an encrypted Parquet file'],
    [
      'a footer too long',
      (bytes) => bytes.writeUInt32LE(1e9, size - 8),
      size,
      'its end does not locate the list of columns',
    ],
    ['a footer that is none', (bytes) => bytes.fill(0xff, size - 300, size - 8), size, 'damaged'],
    ['pages that are none', (bytes) => bytes.fill(0xff, 4, 400), size, 'damaged'],
    ['tiny', () => 0, 5, 'not a Parquet file'],
  ])('%s', (_, change, end, message) => {
    const bytes = Buffer.from(whole);
    change(bytes);
    const path = files.write('p.parquet', bytes.subarray(0, end));
    const error = failure(() => readParquet(path));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain(message);
  });
});

describe('a footer', () => {
  const whole = readFileSync(join(GOLDEN, 'points_none_v1.parquet'));
  const start = whole.length - 8 - whole.readUInt32LE(whole.length - 8);
  const read = (bytes: Buffer): Error | null => {
    try {
      for (const record of readParquet(files.write('footer.parquet', bytes))) void record;
      return null;
    } catch (error) {
      return error as Error;
    }
  };

  test('that does not say which column a chunk is of is damaged', () => {
    // The offset 0 of the chunk (0x26 0x00, field 2), before what is said of it, under the number of that (field 3).
    const at = whole.indexOf('\x19\x18\x04flow', start, 'latin1') - 10;
    expect(whole.subarray(at, at + 3).toString('hex')).toBe('26001c');
    const bytes = Buffer.from(whole);
    bytes[at] = 0x36;
    expect(read(bytes)).toBeInstanceOf(DataError);
    expect(read(bytes)?.message).toMatch(/column "flow": missing in a row group/);
  });

  test('with any field under another number gives values or a DataError', () => {
    for (let at = start; at < whole.length - 8; at++) {
      const bytes = Buffer.from(whole);
      bytes[at]! ^= 0xe0;
      const error = read(bytes);
      if (error !== null) expect(error, `byte ${at}: ${error.stack}`).toBeInstanceOf(DataError);
    }
  });
});

describe('values in pages', () => {
  test('runs and bit-packed groups', () => {
    // run of four 5s, then one group of eight 3-bit numbers 0 … 7 (example of the format's specification)
    const reader = page(8, 5, 3, 0b10001000, 0b11000110, 0b11111010);
    expect([...readRuns(reader, 3, 12)]).toEqual([5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7]);
  });

  test('a run that claims more than is asked for fills only that', () => {
    expect([...readRuns(page(0xfe, 0xff, 0xff, 0xff, 0x07, 1), 1, 3)]).toEqual([1, 1, 1]);
  });

  test.each<[string, () => unknown, string]>([
    ['runs that end too early', () => readRuns(page(4, 1), 1, 3), 'expected at byte 2'],
    ['packed numbers that end too early', () => readRuns(page(3, 1), 8, 8), 'cut off'],
    ['runs of nothing', () => readRuns(page(0, 0, 0, 0), 0, 1), 'expected at byte 4'],
    ['numbers of 40 bits', () => readRuns(page(3, 1), 40, 8), 'numbers of 40 bits'],
    ['a count without end', () => readRuns(page(...Array<number>(12).fill(255)), 1, 8), 'more than 64 bits'],
    ['no miniblocks', () => readDeltas(page(128, 1, 0, 3, 2), 3, 'INT32'), '3 differences in 0 miniblocks'],
    [
      '2 billion miniblocks',
      () => readDeltas(page(128, 1, 255, 255, 255, 255, 7, 3, 2), 3, 'INT32'),
      'miniblocks',
    ],
    ['texts longer than the page', () => readPlain(page(200, 0, 0, 0, 65), 'TEXT', 1), '200 bytes expected'],
    ['more texts than fit', () => readPlain(page(0, 0, 0, 0), 'TEXT', 1e6), '1000000 texts do not fit'],
    ['more numbers than fit', () => readPlain(page(1, 2, 3), 'DOUBLE', 1e9), '8000000000 bytes expected'],
    ['more split numbers than fit', () => readSplit(page(1, 2, 3), 'FLOAT', 1e8), '400000000 bytes expected'],
  ])('%s are refused before memory is taken', (_, read, message) => {
    expect(read).toThrow(message);
  });

  test('differences: 7, 5, 3, 1, 2, 3, 4, 5 of the specification', () => {
    // block of 128 in 4 miniblocks, 8 values, first 7; least difference −2, widths 2 0 0 0, relative 0 0 0 3 3 3 3
    const reader = page(128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b11000000, 0b00111111, 0, 0, 0, 0, 0, 0);
    expect([...readDeltas(reader, 8, 'INT32')]).toEqual([7, 5, 3, 1, 2, 3, 4, 5]);
    // first −1, difference 1, no bits: wraps at 2³²
    const unsigned = (): PageReader => page(8, 1, 2, 1, 2, 0);
    expect([...readDeltas(unsigned(), 2, 'UINT32')]).toEqual([2 ** 32 - 1, 0]);
    expect([...readDeltas(unsigned(), 2, 'INT64')]).toEqual([-1, 0]);
  });
});
