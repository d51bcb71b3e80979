/**
 * Cells of 60 kB in text files: no reader takes longer than its input is long, whatever the cell is made of. A pattern
 * that can match one text in several ways takes half a minute for one of these. TIMESEER_FUZZ=3000 tries ten places of each.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readWords, TASK_FILE_EXAMPLE } from '../../../datasets/benchmarks/custom.ts';
import { isTable, readLabels, readTable } from '../../../datasets/benchmarks/custom-table.ts';
import { ecg } from '../../../datasets/benchmarks/ecg.ts';
import { parseSums } from '../../../datasets/fetch.ts';
import { readNab, readNabWindows } from '../../../datasets/readers/anomaly-files.ts';
import { numericColumns, readCsv } from '../../../datasets/readers/csv.ts';
import { readEmgdb } from '../../../datasets/readers/emgdb.ts';
import { readRecords } from '../../../datasets/readers/formats.ts';
import { readRecordings } from '../../../datasets/readers/recording.ts';
import { readUciHar } from '../../../datasets/readers/uci-har.ts';
import { readWfdbHeader } from '../../../datasets/readers/wfdb.ts';
import { readProfile } from '../../../src/expcot/class-profile.ts';
import { TimeseerError } from '../../../src/ground/errors.ts';
import { loadRecipe } from '../../../src/recipe/config.ts';
import { parseResponse } from '../../../src/tasks/kinds.ts';

import { dict, npy } from '../../helpers/numpy-files.ts';
import { temporary } from '../../helpers/temporary.ts';

const GOLDEN = resolve(import.meta.dirname, '../../golden/readers');
const LENGTH = 60_000;
/** What follows takes milliseconds; with one pattern whose time grows with the square of the length, half a minute. */
const LONGEST_MS = 6_000;
/** Where a long cell comes to, in the texts that say it; else, places of the text. */
const HERE = '\u2020';
const PLACES = Math.ceil(Number(process.env['TIMESEER_FUZZ'] ?? 300) / 300);

const directory = temporary('long');
const at = (name: string): string => join(directory, name);
const golden = (name: string): string => readFileSync(join(GOLDEN, name), 'utf8');

/** What cells are made of. */
const PIECES = [
  '1',
  '.1',
  '1,',
  '1-',
  '1:',
  ' ',
  '\t',
  '"',
  "'",
  "\\'",
  '\\"',
  '\\',
  '-',
  '1e',
  '(',
  ')',
  '[',
];
const MORE = [
  '[]',
  '{',
  '<|',
  '<class>',
  '_id_1',
  '_',
  '@',
  '#',
  '%',
  '/',
  ':',
  ';',
  'a ',
  'é',
  ' (',
  '"a":"',
];
const CELLS = [...PIECES, ...MORE].flatMap((piece) => {
  const body = piece.repeat(LENGTH / piece.length);
  return piece === "\\'" ? [`${body}x`, `'${body}`] : [`${body}x`];
});

interface Case {
  readonly what: string;
  /** The file, below the directory. */
  readonly name: string;
  readonly text: string;
  readonly read: (path: string, text: string) => unknown;
}

const all = (records: Iterable<unknown>): void => {
  for (const record of records) void record;
};
const byFormat = (path: string): void => all(readRecords(path));
const HAR = ['har_x.txt', 'har_y.txt', 'har_subject.txt'] as const;
const har = (): void =>
  all(readUciHar({ signals: [['x', at(HAR[0])]], labels: at(HAR[1]), subjects: at(HAR[2]) }));

const CASES: readonly Case[] = [
  ...['two.ts', 'unequal.ts'].map((name) => ({
    what: name,
    name,
    text: golden(`${name}.txt`),
    read: byFormat,
  })),
  ...['flat.arff', 'relational.arff', 'wide_tsb_ad.csv', 'tab.csv', 'nab_tiny.csv'].map((name) => ({
    what: name,
    name,
    text: golden(name),
    read: byFormat,
  })),
  ...[
    `time,host,v\n2024-03-01 10:00,a,1.5\n2024-03-01 10:05,${HERE},2\n2024-03-01 10:10,a,3\n`,
    `time;v\n2024-03-01 10:00;1,5\n${HERE};2,5\n2024-03-01 10:10;3\n`,
    `time;v\n01/03/2024 10:00;1,5\n01/03/2024 10:05;${HERE}\n01/03/2024 10:10;3 ms\n`,
    `${HERE}\ntime v\n1700000000 1\n1700000060 2\n`,
  ].map((text, i) => ({
    what: `recording ${i + 1}`,
    name: 'recording.csv',
    text,
    read: (path: string) => all(readRecordings(path)),
  })),
  { what: 'UCR tsv', name: 'ucr.tsv', text: golden('ucr.tsv'), read: byFormat },
  {
    what: 'TSB-UAD',
    name: '001_tiny.out',
    text: golden('001_UCR_Anomaly_tiny_20_25_25.out'),
    read: byFormat,
  },
  {
    what: 'numbers of a csv',
    name: 'n.csv',
    text: `v\n1\n${HERE}\n3\n`,
    read: (path) => all(readCsv(path)),
  },
  {
    what: 'numbers of a table',
    name: 'numbers.csv',
    text: `class,t0,t1\na,1,${HERE}\n`,
    read: (path) => all(readTable(path)),
  },
  {
    what: 'rate of a WFDB header',
    name: 'rate.hea',
    text: `rec 1 ${HERE} 20\nrec.dat 16 200\n`,
    read: (path) => readWfdbHeader(path),
  },
  {
    what: 'gain of a WFDB header',
    name: 'gain.hea',
    text: `rec 1 360 20\nrec.dat 16 ${HERE}\n`,
    read: (path) => readWfdbHeader(path),
  },
  {
    what: 'classes of an arff header',
    name: 'classes.arff',
    text: `@relation x\n@attribute a numeric\n@attribute c {${HERE}}\n@data\n1,a\n`,
    read: byFormat,
  },
  { what: 'csv', name: 'pump.csv', text: golden('pump.csv'), read: (path) => all(readCsv(path)) },
  {
    what: 'csv of channels',
    name: 'wide.csv',
    text: 'time,a,b\n1,2,3\n2,3,"4"\n3,4,5\n',
    read: (path) => numericColumns(path),
  },
  {
    what: 'NAB windows',
    name: 'windows.json',
    text: golden('nab_windows.json'),
    read: (path) => all(readNab(join(GOLDEN, 'nab_tiny.csv'), readNabWindows(path))),
  },
  { what: 'emgdb', name: 'emg_tiny.txt', text: golden('emg_tiny.txt'), read: (path) => all(readEmgdb(path)) },
  { what: 'WFDB header', name: 'rec.hea', text: golden('rec16.hea'), read: (path) => readWfdbHeader(path) },
  ...HAR.map((name) => ({ what: name, name, text: golden(name), read: har })),
  {
    what: 'labels.csv',
    name: 'own/labels.csv',
    text: 'file,class,intervals,recording,split\na.csv,spike,1-3 5-9,r,train\na.csv,normal,,r,test\n',
    read: (path) => readLabels(path, dirname(path)),
  },
  {
    what: 'table',
    name: 'table.csv',
    text: 'id,class,t0,t1\na,b,1,2\nc,d,3,4\n',
    read: (path) => isTable(path) && all(readTable(path)),
  },
  {
    what: 'task.yaml',
    name: 'words/task.yaml',
    text: TASK_FILE_EXAMPLE,
    read: (path) => readWords(dirname(path)),
  },
  {
    what: 'ECG reference',
    name: 'ecg/REFERENCE-v3.csv',
    text: 'A00001,N\nA00002,~\n',
    read: (path) => ecg.open({ directory: dirname(path) }),
  },
  {
    what: 'recipe',
    name: 'recipe.yaml',
    text: 'sft:\n  samples: 32\nrl:\n  seed: 1\n',
    read: (path) => loadRecipe(path),
  },
  {
    what: 'profile of classes',
    name: 'p.json',
    text: '{"format":"x","version":1}',
    read: (path, text) => readProfile(text, path),
  },
  { what: 'sums', name: 'sums', text: `${'a'.repeat(64)} *a.txt\n`, read: (_, text) => parseSums(text) },
  {
    what: 'response',
    name: 'response',
    text: '<think>a</think><answer>[[1, 2], [3, 4]]</answer><class>trend</class>',
    read: (_, text) => parseResponse(text, { kind: 'anomaly', length: 100 } as never),
  },
];

/** Between two fields, where a cell stands. */
function placesIn(text: string): number[] {
  const marked = [...text.matchAll(new RegExp(HERE, 'g'))].map(({ index }) => index);
  if (marked.length > 0) return marked;
  return Array.from({ length: PLACES }, (_, k) => {
    const from = Math.floor((text.length * (k + 0.5)) / PLACES);
    const found = /[\s,:;='"(){}[\]]/.exec(text.slice(from));
    return found === null ? text.length : from + found.index + 1;
  });
}

test.each(CASES)(
  '$what: long cells are read or refused, in time',
  ({ name, text, read }) => {
    mkdirSync(dirname(at(name)), { recursive: true });
    for (const file of HAR) copyFileSync(join(GOLDEN, file), at(file));
    for (const middle of placesIn(text)) {
      for (const cell of CELLS) {
        const content =
          text.slice(0, middle) + cell + text.slice(text[middle] === HERE ? middle + 1 : middle);
        writeFileSync(at(name), content);
        const before = process.cpuUsage();
        try {
          read(at(name), content);
        } catch (error) {
          if (!(error instanceof TimeseerError)) throw error;
        }
        // Of the processor: the machine may have other work.
        const { user, system } = process.cpuUsage(before);
        const ms = (user + system) / 1000;
        expect(ms, `${JSON.stringify(cell.slice(0, 12))}… at character ${middle}`).toBeLessThan(LONGEST_MS);
      }
    }
  },
  600_000,
);

describe('more channels than a series may have', () => {
  const MANY = 20_000;
  const repeat = (text: string, between: string): string =>
    Array.from({ length: MANY }, () => text).join(between);
  const names = Array.from({ length: MANY }, (_, i) => `c${i}`).join(',');
  const matlab = Buffer.alloc(20 + 2 + 2 * MANY);
  [50, MANY, 2, 0, 2].forEach((value, i) => void matlab.writeInt32LE(value, 4 * i));
  matlab.write('x\0', 20);

  test.each<readonly [string, string | Buffer]>([
    ['values.ts', `@data\n${repeat('1,2', ':')}:a\n`],
    ['pairs.ts', `@timeStamps true\n@data\n${repeat('(0,1)', ':')}:a\n`],
    [
      'relational.arff',
      `@attribute m relational\n@attribute a numeric\n@end m\n@attribute c {x}\n@data\n'${repeat('1,2', '\\n')}',x\n`,
    ],
    ['tsb.csv', `${names},Label\n${repeat('1', ',')},0\n`],
    ['tab.csv', `data,cols\n${names.replaceAll(/c(\d+),?/g, '1,c$1\n')}`],
    ['wide.csv', `${names}\n${repeat('1', ',')}\n`],
    ['wide.npy', npy(dict("'|i1'", `1, ${MANY}, 2`), Buffer.alloc(2 * MANY))],
    ['wide.mat', matlab],
  ])('%s is refused', (name, content) => {
    writeFileSync(at(name), content);
    expect(() => byFormat(at(name))).toThrow(/(?:channels|columns), more than (?:the )?10000/);
  });

  test('up to there a csv file is gone through once for all of them', () => {
    const width = 5_000;
    const row = Array.from({ length: width }, (_, i) => i % 7).join(',');
    const head = Array.from({ length: width }, (_, i) => `c${i}`);
    writeFileSync(at('fit.csv'), `${head.join(',')}\n${`${row}\n`.repeat(50)}`);
    const before = process.cpuUsage();
    const [record] = readCsv(at('fit.csv'), { columns: numericColumns(at('fit.csv')) });
    const { user, system } = process.cpuUsage(before);
    expect(record!.channels.map((channel) => channel.length)).toEqual(Array(width).fill(50));
    expect((user + system) / 1000).toBeLessThan(LONGEST_MS);
  });
});
