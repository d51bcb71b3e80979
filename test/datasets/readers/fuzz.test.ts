/**
 * Damaged files: every reader yields values or throws a DataError, and nothing else happens.
 *
 * TIMESEER_FUZZ sets the number of mutants per format (default 300); TIMESEER_FUZZ_SEED another seed.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readWords, TASK_FILE_EXAMPLE } from '../../../datasets/benchmarks/custom.ts';
import { isTable, readLabels, readTable } from '../../../datasets/benchmarks/custom-table.ts';
import {
  readNab,
  readNabWindows,
  readTab,
  readTsbAd,
  readTsbUad,
} from '../../../datasets/readers/anomaly-files.ts';
import { readArff } from '../../../datasets/readers/arff.ts';
import { readCsv } from '../../../datasets/readers/csv.ts';
import { readEmgdb } from '../../../datasets/readers/emgdb.ts';
import { readMatlab } from '../../../datasets/readers/matlab.ts';
import { readNpy, readNpz } from '../../../datasets/readers/numpy.ts';
import { readParquet } from '../../../datasets/readers/parquet.ts';
import type { RawRecord } from '../../../datasets/readers/record.ts';
import { readTs } from '../../../datasets/readers/ts.ts';
import { readUciHar } from '../../../datasets/readers/uci-har.ts';
import { readUcrTsv } from '../../../datasets/readers/ucr-tsv.ts';
import { readWfdb } from '../../../datasets/readers/wfdb.ts';
import { unpack } from '../../../datasets/readers/zip.ts';
import { DataError, TimeseerError } from '../../../src/ground/errors.ts';
import { loadRecipe } from '../../../src/recipe/config.ts';
import { mutant } from '../../helpers/mutate.ts';
import { zipOf } from '../../helpers/numpy-files.ts';
import { temporary } from '../../helpers/temporary.ts';

const GOLDEN = resolve(import.meta.dirname, '../../golden/readers');
const COUNT = Number(process.env['TIMESEER_FUZZ'] ?? 300);
const SEED = Number(process.env['TIMESEER_FUZZ_SEED'] ?? 7);

const directory = temporary('fuzz');
const at = (name: string): string => join(directory, name);

interface Case {
  readonly format: string;
  /** Files that are damaged in turn. */
  readonly files: readonly string[];
  /** Files beside them that stay whole. */
  readonly beside?: readonly string[];
  readonly read: (path: string) => Iterable<RawRecord>;
}

const parquets = ['none_v1', 'none_v2', 'snappy_v1', 'gzip_v2', 'zstd_v1', 'brotli_v2', 'lz4_v1'];
const CASES: readonly Case[] = [
  { format: 'ts', files: ['two.ts', 'unequal.ts', 'pairs.ts'], read: readTs },
  { format: 'arff', files: ['flat.arff', 'relational.arff'], read: readArff },
  { format: 'UCR tsv', files: ['ucr.tsv'], read: readUcrTsv },
  { format: 'csv', files: ['pump.csv'], read: (path) => readCsv(path) },
  { format: 'TSB-UAD', files: ['001_UCR_Anomaly_tiny_20_25_25.out'], read: readTsbUad },
  {
    format: 'TSB-AD',
    files: ['005_Tiny_Set_id_3_WebService_tr_7_1st_7.csv', 'wide_tsb_ad.csv'],
    read: readTsbAd,
  },
  { format: 'TAB', files: ['tab.csv'], read: readTab },
  {
    format: 'NAB',
    files: ['nab_tiny.csv', 'nab_windows.json'],
    beside: ['nab_tiny.csv', 'nab_windows.json'],
    read: () => readNab(at('nab_tiny.csv'), readNabWindows(at('nab_windows.json'))),
  },
  {
    format: 'npy',
    files: ['le_f2.npy', 'be_f8.npy', 'le_i8.npy', 'le_b1.npy', 'be_u4.npy', 'unicode.npy', 'object.npy'],
    read: (path) => readNpy(path),
  },
  {
    format: 'npz',
    files: ['stored.npz', 'deflated.npz', 'zip64.npz'],
    read: (path) => readNpz(path),
  },
  {
    format: 'Parquet',
    files: [...parquets.map((kind) => `points_${kind}.parquet`), 'lists_v1.parquet', 'lists_v2.parquet'],
    read: (path) => readParquet(path),
  },
  { format: 'MATLAB', files: ['big.mat', 'int16.mat', 'float64.mat'], read: (path) => readMatlab(path) },
  { format: 'emgdb', files: ['emg_tiny.txt'], read: readEmgdb },
  {
    format: 'WFDB',
    files: ['16', '24', '80', '212', '310', '311'].flatMap((format) => [
      `rec${format}.hea`,
      `rec${format}.dat`,
    ]),
    beside: ['16', '24', '80', '212', '310', '311'].flatMap((format) => [
      `rec${format}.hea`,
      `rec${format}.dat`,
    ]),
    read: (path) => readWfdb(path.replace(/\.dat$/, '.hea')),
  },
  {
    format: 'UCI HAR',
    files: ['har_x.txt', 'har_y.txt', 'har_subject.txt'],
    beside: ['har_x.txt', 'har_z.txt', 'har_y.txt', 'har_subject.txt'],
    read: () =>
      readUciHar({
        signals: [
          ['x', at('har_x.txt')],
          ['z', at('har_z.txt')],
        ],
        labels: at('har_y.txt'),
        subjects: at('har_subject.txt'),
      }),
  },
];

const PAIRS = `@timeStamps true\n@classLabel true a b\n@data\n(0,1.5),(1,2),(2.5,?):(0,3),(2,4):a\n(2014-01-01 00:05:00,1):(2014-01-01,3),(2014-01-02,4):b\n`;

function content(name: string): Buffer {
  if (name === 'pairs.ts') return Buffer.from(PAIRS);
  return readFileSync(join(GOLDEN, name.endsWith('.ts') ? `${name}.txt` : name));
}

/** What a reader made of a file: the number of records, or the error that it may throw. */
function outcome(read: () => Iterable<RawRecord>): number | DataError {
  let records = 0;
  try {
    for (const { channels, times, channelNames } of read()) {
      records++;
      if (channels.length === 0 || channelNames.length !== channels.length) throw new Error('no channels');
      for (const channel of channels) {
        for (const value of channel) {
          if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY)
            throw new Error('infinite');
        }
      }
      if (times?.some((time) => !Number.isFinite(time))) throw new Error('a time that is not finite');
    }
  } catch (error) {
    if (error instanceof DataError) return error;
    throw error;
  }
  if (records === 0) throw new Error('neither a record nor an error');
  return records;
}

describe(`${COUNT} mutants per format`, () => {
  test.each(CASES)('$format: values or DataError', { timeout: 60_000 + COUNT * 60 }, (format) => {
    const tally = { read: 0, refused: 0, named: 0 };
    for (const name of format.beside ?? []) copyFileSync(join(GOLDEN, name), at(name));
    for (let i = 0; i < COUNT; i++) {
      const name = format.files[i % format.files.length]!;
      const path = at(name);
      rmSync(path, { force: true }); // some file systems write a truncated file through to the disk
      writeFileSync(path, mutant(content(name), SEED, format.format, i));
      let result: number | DataError;
      try {
        result = outcome(() => format.read(path));
      } catch (error) {
        throw new Error(`mutant ${i} of ${name} with seed ${SEED}: ${(error as Error).stack}`, {
          cause: error,
        });
      }
      if (format.beside?.includes(name)) copyFileSync(join(GOLDEN, name), path);
      if (typeof result === 'number') tally.read++;
      else {
        tally.refused++;
        if (result.file?.startsWith(directory)) tally.named++;
      }
    }
    expect(tally.read + tally.refused).toBe(COUNT);
    expect(tally.named).toBe(tally.refused);
    expect(Math.min(tally.read, tally.refused)).toBeGreaterThan(0);
  });

  test('the same seed makes the same mutants', () => {
    const bytes = content('two.ts');
    expect(mutant(bytes, 1, 'x', 5)).toEqual(mutant(bytes, 1, 'x', 5));
    const different = Array.from({ length: 50 }, (_, i) => mutant(bytes, 1, 'x', i).toString('latin1'));
    expect(new Set(different).size).toBeGreaterThan(40);
  });
});

const ARCHIVE = zipOf([
  ['a/b.csv', Buffer.from('1\n2\n')],
  ['c.zip', zipOf([['d.txt', Buffer.from('x'.repeat(200))]])],
]);
const LABELS = 'file,class,intervals,recording,split\na.csv,spike,1-3 5-9,r,train\nb.csv,normal,,s,test\n';
const TABLE = 'id,class,recording,split,t0,t1,t2\na,up,r,train,1,2,3\nb,down,s,test,4,,\n';
const RECIPE = 'data:\n  name: nano5\nsft:\n  samples: 64\nrl:\n  advantage: grpo\n  temperature: 0.9\n';

describe('mutants of what stands beside series', () => {
  interface Beside {
    readonly what: string;
    readonly name: string;
    readonly whole: string | Buffer;
    readonly read: (path: string) => unknown;
  }
  const own = join(directory, 'own');
  mkdirSync(own);
  for (const name of ['a.csv', 'b.csv']) writeFileSync(join(own, name), '1\n2\n');
  test.each<Beside>([
    { what: 'labels', name: 'own/labels.csv', whole: LABELS, read: (path) => readLabels(path, own) },
    { what: 'table', name: 'table.csv', whole: TABLE, read: (path) => isTable(path) && [...readTable(path)] },
    { what: 'words', name: 'own/task.yaml', whole: TASK_FILE_EXAMPLE, read: () => readWords(own) },
    { what: 'recipe', name: 'recipe.yaml', whole: RECIPE, read: (path) => loadRecipe(path) },
    {
      what: 'archive',
      name: 'a.zip',
      whole: ARCHIVE,
      async read(path) {
        const folder = join(directory, 'unpacked', 'here');
        rmSync(folder, { recursive: true, force: true });
        try {
          await unpack(path, folder);
        } finally {
          // Whatever an archive says, nothing comes to lie outside the folder.
          expect(readdirSync(join(directory, 'unpacked')).filter((entry) => entry !== 'here')).toEqual([]);
        }
      },
    },
  ])(
    '$what: values or a typed error',
    { timeout: 60_000 + COUNT * 60 },
    async ({ what, name, whole, read }) => {
      mkdirSync(join(directory, 'unpacked', 'here'), { recursive: true });
      let [good, refused] = [0, 0];
      for (let i = 0; i < COUNT; i++) {
        writeFileSync(at(name), mutant(Buffer.from(whole), SEED, what, i));
        try {
          await read(at(name));
          good++;
        } catch (error) {
          if (!(error instanceof TimeseerError)) {
            throw new Error(`mutant ${i} of ${name} with seed ${SEED}: ${(error as Error).stack}`, {
              cause: error,
            });
          }
          refused++;
        }
      }
      rmSync(at(name));
      expect(good + refused).toBe(COUNT);
      expect(refused).toBeGreaterThan(0);
    },
  );
});
