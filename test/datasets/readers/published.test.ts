/** Published files as they are, where a copy of them lies beside the project. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readNab, readNabWindows } from '../../../datasets/readers/anomaly-files.ts';
import { readEmgdb } from '../../../datasets/readers/emgdb.ts';
import type { RawRecord } from '../../../datasets/readers/record.ts';
import { readTs } from '../../../datasets/readers/ts.ts';
import { readUciHar } from '../../../datasets/readers/uci-har.ts';
import { readUcrTsv } from '../../../datasets/readers/ucr-tsv.ts';
import { readWfdbHeader } from '../../../datasets/readers/wfdb.ts';
import type { Interval } from '../../../src/ground/types.ts';

const DATA = resolve(import.meta.dirname, '../../../../shared/data');
const at = (...parts: string[]): string => join(DATA, ...parts);

const counts = (records: readonly RawRecord[]): Record<string, number> => {
  const out: Record<string, number> = {};
  for (const { label } of records) out[label!] = (out[label!] ?? 0) + 1;
  return out;
};

/** The numbers of a text by another way: split and Number. */
const plainSum = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + (Number.isNaN(Number(text)) ? 0 : Number(text)), 0);
const sum = (records: readonly RawRecord[]): number =>
  records.reduce(
    (all, { channels }) =>
      all + channels.reduce((s, c) => s + c.reduce((a, v) => a + (Number.isNaN(v) ? 0 : v), 0), 0),
    0,
  );

describe.skipIf(!existsSync(at('timerbed', 'ctu')))('CTU', () => {
  test.each(['TRAIN', 'TEST'])('%s: 250 series of 720 points, 125 of each class', (part) => {
    const path = at('timerbed', 'ctu', `Computers_${part}.ts`);
    const records = [...readTs(path)];
    expect(counts(records)).toEqual({ 1: 125, 2: 125 });
    expect(records.every(({ channels }) => channels.length === 1 && channels[0]!.length === 720)).toBe(true);
    expect(records.at(-1)!.id).toBe(`Computers_${part}/249`);
    const lines = readFileSync(path, 'utf8').trim().split('\n').slice(9);
    expect([...records[37]!.channels[0]!]).toEqual(lines[37]!.split(':')[0]!.split(',').map(Number));
  });
});

describe.skipIf(!existsSync(at('timerbed', 'tee')))('TEE', () => {
  test.each([
    ['TRAIN', 70, { 0: 8, 1: 8, 2: 8, 3: 12, 4: 5, 5: 19, 6: 10 }],
    ['TEST', 73, { 0: 10, 1: 9, 2: 6, 3: 7, 4: 10, 5: 19, 6: 12 }],
  ] as const)('%s: %i series of 319 points', (part, size, classes) => {
    const records = [...readUcrTsv(at('timerbed', 'tee', `Lightning7_${part}.tsv`))];
    expect(records.length).toBe(size);
    expect(counts(records)).toEqual(classes);
    expect(records.every(({ channels }) => channels[0]!.length === 319)).toBe(true);
  });
});

describe.skipIf(!existsSync(at('timerbed', 'emg')))('EMG', () => {
  test.each([
    ['healthy', 50860, [639, 41464]],
    ['myopathy', 110337, [64468, 93751]],
    ['neuropathy', 147858, [71194, 84054]],
  ] as const)('%s: as many points as the header says, corrupt lines reported', (kind, length, lines) => {
    const path = at('timerbed', 'emg', `emg_${kind}.txt`);
    const [record] = [...readEmgdb(path)];
    const header = readWfdbHeader(at('timerbed', 'emg', `emg_${kind}.hea`));
    expect(header.frames).toBe(length);
    expect(record!.channels[0]!.length).toBe(length);
    expect(record!.faults).toBe(lines.length);
    for (const line of lines) expect(record!.channels[0]![line - 1]).toBeNaN();
    const words = readFileSync(path, 'latin1')
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[1]!);
    expect(sum([record!])).toBeCloseTo(plainSum(words), 6);
  });
});

describe.skipIf(!existsSync(at('timerbed', 'har')))('HAR', () => {
  test.each([
    ['train', 2400],
    ['test', 950],
  ] as const)('%s: %i windows of 3 × 128', (part, size) => {
    const file = (axis: string): string => at('timerbed', 'har', `total_acc_${axis}_${part}.txt`);
    const records = [
      ...readUciHar({
        signals: ['x', 'y', 'z'].map((axis) => [axis, file(axis)] as const),
        labels: at('timerbed', 'har', `y_${part}.txt`),
      }),
    ];
    expect(records.length).toBe(size);
    expect(
      records.every(({ channels }) => channels.length === 3 && channels.every((c) => c.length === 128)),
    ).toBe(true);
    expect(Object.keys(counts(records)).sort()).toEqual(['1', '2', '3', '4', '5', '6']);
    const words = ['x', 'y', 'z'].flatMap((axis) => readFileSync(file(axis), 'utf8').trim().split(/\s+/));
    expect(words.length).toBe(size * 3 * 128);
    expect(sum(records)).toBeCloseTo(plainSum(words), 6);
  });
});

describe.skipIf(!existsSync(at('nab')))('NAB', () => {
  const windows = existsSync(at('nab')) ? readNabWindows(at('nab', 'combined_windows.json')) : new Map();
  const expected: Readonly<Record<string, readonly Interval[]>> = {
    art_daily_flatmiddle: [[2679, 3082]],
    art_daily_jumpsup: [[2787, 3190]],
    art_daily_small_noise: [],
    ec2_cpu_utilization_24ae8d: [
      [3447, 3648],
      [3677, 3878],
    ],
  };

  test.each(Object.entries(expected))('%s: windows as index intervals', (name, intervals) => {
    const [record] = [...readNab(at('nab', `${name}.csv`), windows)];
    expect(record!.channels[0]!.length).toBe(4032);
    expect(record!.anomalies).toEqual(intervals);
    const lines = readFileSync(at('nab', `${name}.csv`), 'utf8')
      .trim()
      .split('\n')
      .slice(1);
    for (const [start, end] of intervals) {
      const dates = [...windows.entries()].find(([key]) => key.endsWith(`/${name}.csv`))![1];
      const time = (i: number): number => Date.parse(`${lines[i]!.split(',')[0]!.replace(' ', 'T')}Z`) / 1000;
      const window = dates.find(([first]: readonly [number, number]) => first === time(start))!;
      expect(time(end - 1)).toBe(window[1]);
    }
  });

  test('all files of the directory are read', () => {
    const files = readdirSync(at('nab')).filter((name) => name.endsWith('.csv'));
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) expect([...readNab(at('nab', file), windows)].length).toBe(1);
  });
});
