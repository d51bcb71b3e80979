/** Small files of every format, against what aeon, scipy, numpy, pandas, pyarrow and wfdb read from them. */
import { copyFileSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readNab, readNabWindows } from '../../../datasets/readers/anomaly-files.ts';
import { readEmgdb } from '../../../datasets/readers/emgdb.ts';
import { formatOf, readRecords } from '../../../datasets/readers/formats.ts';
import { readNpz } from '../../../datasets/readers/numpy.ts';
import type { RawRecord } from '../../../datasets/readers/record.ts';
import { readUciHar } from '../../../datasets/readers/uci-har.ts';
import { readerFiles } from '../../helpers/reader-files.ts';
import { temporary } from '../../helpers/temporary.ts';

const files = readerFiles();
const DIRECTORY = resolve(import.meta.dirname, '../../golden/readers');
const directory = temporary('golden');

/** Where a file is; `.ts` files are kept as `.ts.txt`, away from compilers, and get their name back here. */
function at(name: string): string {
  if (!name.endsWith('.ts')) return join(DIRECTORY, name);
  copyFileSync(join(DIRECTORY, `${name}.txt`), join(directory, name));
  return join(directory, name);
}

interface Digest {
  readonly length: number;
  readonly sum: number;
  readonly weighted: number;
  readonly missing: number;
  readonly first: number | null;
  readonly last: number | null;
}
interface Expected {
  readonly by: string;
  readonly records: readonly { readonly label: string | null; readonly channels: readonly Digest[] }[];
  readonly anomalies?: readonly number[];
  readonly times?: readonly number[];
  readonly names?: readonly string[];
  readonly faults?: readonly (readonly [line: number, column: number])[];
}
const EXPECTED = JSON.parse(readFileSync(at('expected.json'), 'utf8')) as Record<string, Expected>;

function digest(values: Float64Array): Digest {
  let sum = 0;
  let weighted = 0;
  let missing = 0;
  values.forEach((value, i) => {
    if (Number.isNaN(value)) missing++;
    else {
      sum += value;
      weighted += value * (i + 1);
    }
  });
  const edge = (value: number): number | null => (Number.isNaN(value) ? null : value);
  return {
    length: values.length,
    sum,
    weighted,
    missing,
    first: edge(values[0]!),
    last: edge(values.at(-1)!),
  };
}

const READ: Readonly<Record<string, () => Iterable<RawRecord>>> = {
  'nab_tiny.csv': () => readNab(at('nab_tiny.csv'), readNabWindows(at('nab_windows.json'))),
  'emg_tiny.txt': () => readEmgdb(at('emg_tiny.txt')),
  // Written with time along its first axis.
  'zip64.npz': () => [transposed([...readNpz(at('zip64.npz'))])],
  'har_x.txt': () =>
    readUciHar({
      signals: [
        ['x', at('har_x.txt')],
        ['z', at('har_z.txt')],
      ],
      labels: at('har_y.txt'),
      subjects: at('har_subject.txt'),
    }),
};

/** One record whose channels are the points of several, one after the other. */
function transposed(records: readonly RawRecord[]): RawRecord {
  const rows = records.map(({ channels }) => channels[0]!);
  const channels = Array.from(rows[0]!, (_, c) => Float64Array.from(rows, (row) => row[c]!));
  return { ...records[0]!, channels };
}

/** Indices of the anomalous points, from point labels or windows. */
function anomalous(record: RawRecord): number[] | null {
  const { anomalies, channels } = record;
  if (anomalies === null) return null;
  const points = Array.from(channels[0]!, (_, i) => i);
  if (anomalies instanceof Uint8Array) return points.filter((i) => anomalies[i] === 1);
  return points.filter((i) => anomalies.some(([start, end]) => i >= start && i < end));
}

describe('files of every format are read as independent programs read them', () => {
  test('no file is left out', () => {
    expect(Object.keys(EXPECTED).length).toBeGreaterThan(60);
  });

  test.each(Object.entries(EXPECTED))('%s', (name, expected) => {
    const records = [...(READ[name]?.() ?? readRecords(at(name)))];
    expect(records.map(({ label }) => label)).toEqual(expected.records.map(({ label }) => label));
    records.forEach((record, r) => {
      const digests = record.channels.map(digest);
      expect(digests.length).toBe(expected.records[r]!.channels.length);
      digests.forEach((found, c) => {
        const wanted = expected.records[r]!.channels[c]!;
        const scale = 1e-12 * Math.max(1, Math.abs(wanted.weighted));
        expect(Math.abs(found.sum - wanted.sum)).toBeLessThanOrEqual(scale);
        expect(Math.abs(found.weighted - wanted.weighted)).toBeLessThanOrEqual(scale);
        expect({ ...found, sum: 0, weighted: 0 }).toEqual({ ...wanted, sum: 0, weighted: 0 });
      });
      expect(new Set(records.map(({ id }) => id)).size).toBe(records.length);
    });
    const first = records[0]!;
    if (expected.anomalies !== undefined) expect(anomalous(first)).toEqual(expected.anomalies);
    if (expected.times !== undefined) {
      expect([...first.times!.subarray(0, expected.times.length)]).toEqual(expected.times);
      expect(first.times!.length).toBe(first.channels[0]!.length);
    }
    if (expected.names !== undefined) expect(first.channelNames).toEqual(expected.names);
    expect(first.faults).toBe(expected.faults?.length ?? 0);
  });
});

describe('the format of a file', () => {
  test.each([
    ['two.ts', 'ts'],
    ['flat.arff', 'arff'],
    ['ucr.tsv', 'ucr-tsv'],
    ['pump.csv', 'csv'],
    ['001_UCR_Anomaly_tiny_20_25_25.out', 'tsb-uad'],
    ['005_Tiny_Set_id_3_WebService_tr_7_1st_7.csv', 'tsb-ad'],
    ['wide_tsb_ad.csv', 'points'],
    ['tab.csv', 'tab'],
    ['nab_tiny.csv', 'nab'],
    ['le_f8.npy', 'npy'],
    ['stored.npz', 'npz'],
    ['lists_v1.parquet', 'parquet'],
    ['big.mat', 'matlab'],
    ['rec212.hea', 'wfdb'],
  ])('%s is %s', (name, format) => {
    expect(formatOf(at(name))).toBe(format);
  });

  test('an unknown extension is refused with the known ones', () => {
    expect(() => formatOf('/x/series.xlsx')).toThrow(/known are .*\.parquet/);
    expect(formatOf('/x/Coffee_TRAIN.txt')).toBe('ucr-tsv');
    expect(formatOf('/x/Coffee_TEST')).toBe('ucr-tsv');
    for (const name of ['X_train.txt', 'unit_test']) {
      expect(() => formatOf(`/x/${name}`)).toThrow('no format has this extension');
    }
  });

  const fractions = ['0.5', '-1.25', '0.75', '1.5'];
  test.each<[string, string, (t: number) => string, readonly string[]]>([
    ['an anomaly that is measured', 'day,anomaly', (t) => `2020-01-0${t + 1},${fractions[t]}`, ['anomaly']],
    ['a sensor named attack', 'day,attack', (t) => `2020-01-0${t + 1},${t % 2}`, ['attack']],
    ['labels of words', 'day,v,label', (t) => `2020-01-0${t + 1},${fractions[t]},walk`, ['v']],
    ['semicolons of NAB', 'timestamp;value', (t) => `2020-01-0${t + 1};${fractions[t]}`, ['value']],
    ['semicolons of TAB', 'date;data;cols', (t) => `2020-01-0${t + 1};${fractions[t]};a`, ['data']],
  ])('%s: one series of points without labels', (_, header, row, names) => {
    const path = files.write('plain.csv', [header, ...[0, 1, 2, 3].map(row)].join('\n'));
    expect(formatOf(path)).toBe('csv');
    const [record] = [...readRecords(path)];
    expect([record!.channelNames, record!.anomalies]).toEqual([names, null]);
  });

  test.each([
    ['series', (t: number) => `${fractions[t]},${t % 2}`, ['series']],
    ['series', (t: number) => `${[3, 1, 1, 2][t]},${t % 2}`, ['series']],
    ['timeouts,v', (t: number) => `${t % 3},${fractions[t]},${t % 2}`, ['timeouts', 'v']],
    ['timestamp_(min),v', (t: number) => `${t % 3},${fractions[t]},${t % 2}`, ['v']],
  ])('labels beside %s mark points', (header, row, names) => {
    const path = files.write('marked.csv', [`${header},Label`, ...[0, 1, 2, 3].map(row)].join('\n'));
    expect(formatOf(path)).toBe('points');
    const [record, ...more] = [...readRecords(path)];
    expect([record!.channelNames, [...(record!.anomalies as Uint8Array)]]).toEqual([names, [0, 1, 0, 1]]);
    expect(more).toEqual([]);
  });
});

test('the files together stay below 300 kB', () => {
  const sizes = readdirSync(DIRECTORY).map((name) => statSync(join(DIRECTORY, name)).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300_000);
});
