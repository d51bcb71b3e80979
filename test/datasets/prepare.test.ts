import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BENCHMARKS, benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { prepare, type SelectOptions, selectExamples } from '../../datasets/prepare.ts';
import type { Split } from '../../datasets/split.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES, type Example } from '../../src/ground/types.ts';
import { dict, npy, zipOf } from '../helpers/numpy-files.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('prepare');
let made = 0;
const freshPath = (): string => join(root, `p${made++}`);

/** A folder with files of given text. */
function folder(files: Readonly<Record<string, string>>): string {
  const path = freshPath();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

async function chosen(task: string, options: SelectOptions): Promise<(readonly [Split, Example])[]> {
  return [...(await selectExamples(benchmarkNamed(task), options)).examples()];
}
const statementOf = async (task: string, options: SelectOptions): Promise<string> =>
  (await selectExamples(benchmarkNamed(task), options)).origin.split.statement;
const classes = (list: readonly (readonly [Split, Example])[], split: Split): string[] =>
  list.flatMap(([own, { gold }]) => (own === split && 'class' in gold ? [gold.class ?? 'unnamed'] : []));

const row = (label: number, i: number): string =>
  [label, ...Array.from({ length: 6 }, (_, t) => Math.sin(i + t).toFixed(4))].join('\t');
const lightning = (): string =>
  folder({
    'deep/Lightning7_TRAIN.tsv': Array.from({ length: 21 }, (_, i) => row(i % 7, i)).join('\n'),
    'deep/Lightning7_TEST.tsv': Array.from({ length: 14 }, (_, i) => row(6 - (i % 7), 50 + i)).join('\n'),
  });

describe('an archive with a split of its own', () => {
  it('is written as published, with its classes spelled as the reward compares them', async () => {
    const directory = lightning();
    const out = freshPath();
    const manifest = await prepare(benchmarkNamed('TEE'), out, { directory });
    expect(manifest.splits.train).toMatchObject({ count: 21, length: 6 });
    expect(manifest.splits.validation).toBeUndefined();
    expect(manifest.classes[2]).toBe('Subsequent Return Stroke');
    expect(manifest.split.statement).toMatch(/Split of the archive .* Here: train 21, test 14\./);
    expect(manifest.source.files.map(({ path }) => path)).toEqual([
      'deep/Lightning7_TRAIN.tsv',
      'deep/Lightning7_TEST.tsv',
    ]);
    const set = new ExampleSet(out);
    const first = set.at('test', 0);
    expect(first).toMatchObject({ id: 'tee/test/0', gold: { class: 'Off-record' }, names: ['value'] });
    expect(first.channels[0]![1]).toBe(Number(Math.sin(51).toFixed(4)));
  });

  it('gives a part of training to validation, in proportion, and never of test', async () => {
    const list = await chosen('tee', { directory: lightning(), validation: 1 / 3, seed: 4 });
    expect(classes(list, 'validation').sort()).toEqual([...new Set(classes(list, 'validation'))].sort());
    expect(classes(list, 'validation').length).toBe(7);
    expect(list.filter(([split]) => split === 'test').every(([, { id }]) => id.startsWith('tee/test/'))).toBe(
      true,
    );
  });

  it('gives few shots and stratified subsets, the same for the same seed', async () => {
    const directory = lightning();
    const options = { directory, shots: 2, counts: { test: 7 }, seed: 9 };
    const list = await chosen('tee', options);
    expect(classes(list, 'train').length).toBe(14);
    expect(new Set(classes(list, 'test')).size).toBe(7);
    expect(await chosen('tee', options)).toEqual(list);
    expect(await chosen('tee', { ...options, seed: 10 })).not.toEqual(list);
    expect(await statementOf('tee', options)).toMatch(
      /Of train, 14 of 21 are kept \(2 of each class, seed 9\)/,
    );
  });

  it('refuses another split, unknown labels, and missing files', async () => {
    const directory = lightning();
    await expect(chosen('tee', { directory, shares: { train: 1, validation: 1, test: 1 } })).rejects.toThrow(
      ConfigError,
    );
    const odd = folder({ 'Lightning7_TRAIN.tsv': row(9, 1), 'Lightning7_TEST.tsv': row(1, 1) });
    await expect(chosen('tee', { directory: odd })).rejects.toThrow(/unknown label "9".*0 \(CG Positive\)/);
    await expect(chosen('tee', { directory: folder({ 'a.txt': '' }) })).rejects.toThrow(
      /holds no Lightning7_TRAIN/,
    );
    await expect(chosen('tee', { directory: null })).rejects.toThrow(/--from/);
    await expect(chosen('tee', { directory: join(root, 'nowhere') })).rejects.toThrow(DataError);
    await expect(chosen('tee', { directory, splits: ['validation'] })).rejects.toThrow(/nothing is left/);
  });
});

describe('recordings cut into windows', () => {
  /** A muscle's recording of `count` windows of 100 points, and 30 points more. */
  const recording = (count: number, level: number): string =>
    Array.from(
      { length: count * 100 + 30 },
      (_, t) => `${(t + 1) / 4000} ${(level + t / 1e4).toFixed(5)}`,
    ).join('\n');
  const muscles = (): string =>
    folder({
      'emg_healthy.txt': recording(5, 1),
      'emg_myopathy.txt': recording(9, 2),
      'emg_neuropathy.txt': recording(6, 3),
    });

  it('EMG: windows start at multiples of their length, and the statement says that recordings are shared', async () => {
    const directory = muscles();
    const out = freshPath();
    const manifest = await prepare(benchmarkNamed('emg'), out, { directory, window: 100, seed: 2 });
    expect(manifest.split.recordingsApart).toBe(false);
    expect(manifest.split.statement).toMatch(
      /Our own split, seed 2, by single examples.*train 12, validation 4, test 4/,
    );
    expect(manifest.split.statement).toMatch(/one recording are in all splits/);
    const set = new ExampleSet(out);
    const all = set.splits.flatMap((split) => [...set.read(split)]);
    expect(all.length).toBe(20);
    expect(new Set(all.map(({ id }) => id)).size).toBe(20);
    const third = all.find(({ id }) => id === 'emg/emg_myopathy/2')!;
    expect(third.channels[0]![0]).toBe(2.02);
    expect(third.gold).toEqual({ kind: 'classification', class: 'Myopathy' });
    expect(manifest.splits.train!.classes).toEqual({ Healthy: 3, Myopathy: 5, Neuropathy: 4 });
  });

  it('ECG: all windows of a recording are in one split', async () => {
    const files: Record<string, string | Buffer> = {};
    const reference: string[] = [];
    for (let i = 0; i < 20; i++) {
      const name = `A${String(i).padStart(5, '0')}`;
      const points = 300 + 100 * (i % 3);
      const head = Buffer.alloc(20);
      for (const [k, value] of [30, 1, points, 0, 4].entries()) head.writeInt32LE(value, 4 * k);
      const body = Buffer.alloc(points * 2);
      for (let t = 0; t < points; t++) body.writeInt16LE(i * 100 + t, 2 * t);
      files[`training2017/${name}.mat`] = Buffer.concat([head, Buffer.from('val\0'), body]);
      reference.push(`${name},${'NAO~'[i % 4]}`);
    }
    files['REFERENCE-v3.csv'] = `${reference.join('\n')}\n`;
    const directory = folder(files as Record<string, string>);
    const list = await chosen('ecg', {
      directory,
      window: 100,
      shares: { train: 3, validation: 1, test: 1 },
    });
    const home = new Map<string, Split>();
    for (const [split, { recording: name }] of list) {
      expect(home.get(name!) ?? split).toBe(split);
      home.set(name!, split);
    }
    expect([...home.values()].filter((split) => split === 'test').length).toBe(4);
    const [, example] = list.find(([, { id }]) => id === 'ecg/A00007/1')!;
    expect(example.channels[0]![3]).toBe(0.803); // units of 1/1000 mV
    expect(example.gold).toEqual({ kind: 'classification', class: 'noise' });
    const wrong = folder({ 'REFERENCE.csv': 'A00001,N\nA00001\n' });
    await expect(chosen('ecg', { directory: wrong })).rejects.toThrow(/REFERENCE.csv:2/);
  });

  it('HAR: volunteers stay apart where they are named; without names there is no validation to take', async () => {
    const lines = (n: number): string => Array.from({ length: n }, (_, i) => `${i} 1 ${i % 5}`).join('\n');
    const files: Record<string, string> = {};
    for (const [split, n] of [
      ['train', 12],
      ['test', 6],
    ] as const) {
      for (const axis of 'xyz') files[`${split}/total_acc_${axis}_${split}.txt`] = lines(n);
      files[`${split}/y_${split}.txt`] = Array.from({ length: n }, (_, i) => (i % 6) + 1).join('\n');
    }
    const unnamed = folder(files);
    expect(await statementOf('har', { directory: unnamed })).toMatch(/was not checked/);
    await expect(chosen('har', { directory: unnamed, validation: 0.5 })).rejects.toThrow(/overlap by half/);
    const subjects = (from: number, n: number): string =>
      Array.from({ length: n }, (_, i) => from + Math.floor(i / 3)).join('\n');
    const named = { ...files, 'subject_train.txt': subjects(1, 12), 'subject_test.txt': subjects(9, 6) };
    const list = await chosen('har', { directory: folder(named), validation: 0.25 });
    const home = new Map(list.map(([split, { recording: name }]) => [name, split]));
    for (const [split, { recording: name }] of list) expect(home.get(name)).toBe(split);
    expect(new Set(home.values())).toEqual(new Set(['train', 'validation', 'test']));
    expect(list[0]![1].names).toEqual(['x', 'y', 'z']);
    const leak = { ...named, 'subject_test.txt': subjects(4, 6) };
    await expect(prepare(benchmarkNamed('har'), freshPath(), { directory: folder(leak) })).rejects.toThrow(
      /'volunteer 4' is in train and test/,
    );
  });
});

describe('labelled series for evaluation', () => {
  const series = (n: number, from: number, to: number): string =>
    Array.from({ length: n }, (_, t) => `${Math.sin(t / 3).toFixed(3)},${t >= from && t < to ? 1 : 0}`).join(
      '\n',
    );

  it('are cut into even windows that lose no point, and stay in one split', async () => {
    const directory = folder({ 'a/one.out': series(250, 95, 130), 'two.out': series(64, 0, 0) });
    const list = await chosen('tsb-uad', { directory, window: 100 });
    expect(list.map(([split, { id, channels }]) => [split, id, channels[0]!.length])).toEqual([
      ['test', 'tsb-uad/two.out/0', 64],
      ['test', 'tsb-uad/a/one.out/0', 83],
      ['test', 'tsb-uad/a/one.out/1', 83],
      ['test', 'tsb-uad/a/one.out/2', 84],
    ]);
    expect(list.map(([, { gold }]) => gold)).toMatchObject([
      { class: 'normal', intervals: [] },
      { class: 'normal', intervals: [] },
      { class: null, intervals: [[12, 47]] },
      { class: 'normal', intervals: [] },
    ]);
    expect((await chosen('tsb-uad', { directory, window: null })).map(([, { id }]) => id)).toEqual([
      'tsb-uad/two.out',
      'tsb-uad/a/one.out',
    ]);
    const drawn = await chosen('tsb-uad', {
      directory,
      shares: { train: 1, validation: 0, test: 1 },
      window: 50,
    });
    const home = new Map(drawn.map(([split, { recording: name }]) => [name, split]));
    for (const [split, { recording: name }] of drawn) expect(home.get(name)).toBe(split);
    expect(new Set(home.values())).toEqual(new Set(['train', 'test']));
  });

  it('NAB: needs its windows; TSB-AD and TAB: several channels', async () => {
    await expect(chosen('nab', { directory: folder({ 'a.csv': 'timestamp,value\n' }) })).rejects.toThrow(
      /holds no combined_windows.json/,
    );
    const nab = folder({
      'labels/combined_windows.json': '{"real/a.csv": [["2014-04-01 00:05:00", "2014-04-01 00:05:00"]]}',
      'data/real/a.csv':
        'timestamp,value\n2014-04-01 00:00:00,1\n2014-04-01 00:05:00,2\n2014-04-01 00:10:00,3\n',
      'results/thing.csv': 'a,b\n1,2\n',
    });
    const { origin, examples } = await selectExamples(benchmarkNamed('nab'), { directory: nab });
    expect([...examples()]).toMatchObject([['test', { gold: { class: null, intervals: [[1, 2]] } }]]);
    expect(origin.classes).toEqual(ANOMALY_CLASSES); // the kind is not named, so any may be answered
    expect(origin.notes).toEqual(['1 csv files that combined_windows.json does not name are left out']);
    const name = '001_NAB_id_1_Facility_tr_2_1st_4.csv';
    const directory = folder({
      [name]: 'a,b,Label\n1,2,0\n3,,0\n5,6,0\n7,8,0\n9,1,1\n2,3,0\n',
      'notes.csv': 'x',
    });
    const [[, example]] = (await chosen('tsb-ad', { directory })) as [readonly [Split, Example]];
    expect(example.names).toEqual(['a', 'b']);
    expect(example.channels[1]![1]).toBeNaN();
    expect(example.gold).toEqual({ kind: 'anomaly', class: null, intervals: [[4, 5]] });
    const long = 'date,data,cols\n1,5,u\n2,6,u\n3,7,u\n1,0,label\n2,1,label\n3,0,label\n';
    const [[, stacked]] = (await chosen('tab', { directory: folder({ 'x.csv': long }) })) as [
      readonly [Split, Example],
    ];
    expect(stacked.gold).toMatchObject({ intervals: [[1, 2]] });
    expect(stacked.times).toEqual(Float64Array.of(1, 2, 3));
  });
});

describe('generated tasks', () => {
  const generated = BENCHMARKS.filter(({ needs }) => needs === 'nothing').map(({ name }) => name);

  it.each(generated)(
    '%s: as many as asked for, the same again, no id twice, classes as announced',
    async (name) => {
      const options = { directory: null, counts: { train: 24, validation: 3, test: 9 } };
      const out = freshPath();
      const manifest = await prepare(benchmarkNamed(name), out, options);
      expect(Object.values(manifest.splits).map(({ count }) => count)).toEqual([24, 3, 9]);
      const known = new Set(manifest.classes);
      const set = new ExampleSet(out);
      const ids = new Set<string>();
      for (const split of set.splits)
        for (const example of set.read(split)) {
          ids.add(example.id);
          if (example.gold.kind === 'anomaly') expect(known).toContain(example.gold.class);
        }
      expect(ids.size).toBe(36);
      expect(await prepare(benchmarkNamed(name), freshPath(), options)).toEqual(manifest);
    },
  );

  it('take another seed, length and choice of splits, and few shots', async () => {
    const base = { directory: null, counts: { train: 40, test: 5 }, splits: ['train', 'test'] as Split[] };
    const list = await chosen('vta', { ...base, seed: 1, length: 80 });
    expect(list.map(([split]) => split).lastIndexOf('train')).toBe(39);
    expect(list.length).toBe(45);
    expect(list[0]![1].channels[0]!.length).toBe(80);
    expect(await chosen('vta', { ...base, seed: 2, length: 80 })).not.toEqual(list);
    expect((await chosen('vta', { ...base, shots: 3 })).length).toBe(20);
    await expect(chosen('vta', { ...base, directory: root })).rejects.toThrow(/leave --from out/);
    await expect(chosen('vta', { ...base, window: 9 })).rejects.toThrow(/--length/);
    await expect(chosen('vta', { ...base, validation: 0.1 })).rejects.toThrow(ConfigError);
    await expect(chosen('vta', { ...base, counts: { train: 0 } })).rejects.toThrow(/--count/);
  });
});

describe('custom files', () => {
  it('one file per series and labels.csv: classes, recordings and splits of the user', async () => {
    const directory = folder({
      'labels.csv': 'file,class,recording,split\na.csv,left,r1,train\nsub/b.csv,right,r2,test\n',
      'a.csv': 'time,x,y\n0,1,2\n1,3,4\n2,5,6\n',
      'sub/b.csv': 'time,x,y\n0,7,8\n1,9,1\n2,2,3\n',
    });
    const list = await chosen('custom', { directory });
    expect(list).toMatchObject([
      ['train', { id: 'custom/a.csv', names: ['x', 'y'], gold: { class: 'left' }, recording: 'r1' }],
      ['test', { id: 'custom/sub/b.csv', gold: { class: 'right' }, recording: 'r2' }],
    ]);
    expect(list[0]![1].channels[1]).toEqual(Float64Array.of(2, 4, 6));
    expect(list[0]![1].times).toEqual(Float64Array.of(0, 1, 2));
  });

  it('intervals make it anomaly detection, with kinds where they are named', async () => {
    const points = Array.from({ length: 60 }, (_, t) => t % 7).join('\n');
    const directory = folder({
      'labels.csv': 'file;class;intervals\na.csv;trend;10-20 40-45\nb.csv;;3-9\nc.csv;;\n',
      'a.csv': `v\n${points}`,
      'b.csv': `v\n${points}`,
      'c.csv': `v\n${points}`,
    });
    const shares = { train: 0, validation: 0, test: 1 };
    const list = await chosen('custom', { directory, shares, window: 30 });
    expect(list.map(([, { id, gold }]) => [id, gold])).toMatchObject([
      ['custom/a.csv/0', { class: 'trend', intervals: [[10, 20]] }],
      ['custom/a.csv/1', { class: 'trend', intervals: [[10, 15]] }],
      ['custom/b.csv/0', { class: null, intervals: [[3, 9]] }],
      ['custom/b.csv/1', { class: 'normal' }],
      ['custom/c.csv/0', { class: 'normal' }],
      ['custom/c.csv/1', { class: 'normal' }],
    ]);
  });

  it('a table with a class and one series a row; files with labels; splits by file name', async () => {
    const table = join(folder({ 't.csv': 'id,t0,t1,t2,class\np,1,2,,a\nq,,5,6,b\n' }), 't.csv');
    const shares = { train: 1, validation: 0, test: 1 };
    const list = await chosen('custom', { directory: table, shares });
    expect(list.map(([, { id }]) => id)).toEqual(['custom/p', 'custom/q']);
    expect([...list[0]![1].channels[0]!]).toEqual([1, 2]);
    expect([...list[1]![1].channels[0]!]).toEqual([Number.NaN, 5, 6]);
    const files = folder({ 'x_TRAIN.ts': '@data\n1,2,3:a\n4,5,6:b\n', 'x_TEST.ts': '@data\n7,8,9:a\n' });
    expect((await chosen('custom', { directory: files })).map(([split, { id }]) => `${split} ${id}`)).toEqual(
      ['test custom/x_TEST.ts/0', 'train custom/x_TRAIN.ts/0', 'train custom/x_TRAIN.ts/1'],
    );
  });

  it('arrays of NumPy: several series with labels, and single ones beside labels.csv', async () => {
    const doubles = (...values: number[]): Buffer => Buffer.from(Float64Array.from(values).buffer);
    const directory = folder({ 'labels.csv': 'file,class\none.npy,down\n' });
    const entries = [
      ['X.npy', npy(dict("'<f8'", '2, 1, 3'), doubles(1, 2, 3, 4, 5, 6))],
      ['y.npy', npy(dict("'<f8'", '2,'), doubles(0, 1))],
    ] as const;
    writeFileSync(join(directory, 'all.npz'), zipOf(entries));
    writeFileSync(join(directory, 'one.npy'), npy(dict("'<f8'", '4,'), doubles(9, 8, 7, 6)));
    const shares = { train: 0, validation: 0, test: 1 };
    const all = await chosen('custom', { directory: join(directory, 'all.npz'), shares });
    expect(all.map(([, { gold, channels }]) => [gold, [...channels[0]!]])).toMatchObject([
      [{ class: '0' }, [1, 2, 3]],
      [{ class: '1' }, [4, 5, 6]],
    ]);
    const [[, one]] = (await chosen('custom', { directory, shares })) as [readonly [Split, Example]];
    expect(one).toMatchObject({ id: 'custom/one.npy', gold: { class: 'down' } });
    expect([...one.channels[0]!]).toEqual([9, 8, 7, 6]);
  });

  it.each<[string, Record<string, string>, RegExp]>([
    [
      'a path that leaves the folder',
      { 'labels.csv': 'file,class\n../x.csv,a\n' },
      /labels.csv:2:1: got "..\/x.csv"/,
    ],
    ['an absolute path', { 'labels.csv': 'file,class\n/etc/hosts,a\n' }, /expected a file of this folder/],
    ['a file twice', { 'labels.csv': 'file,class\na.csv,a\n./a.csv,b\n' }, /labels.csv:3:1: .* listed twice/],
    ['a class that is missing', { 'labels.csv': 'file,class\na.csv,\n' }, /labels.csv:2:7: no class/],
    ['intervals that are none', { 'labels.csv': 'file,intervals\na.csv,9-3\n' }, /labels.csv:2:7: got "9-3"/],
    [
      'an anomaly of unknown kind',
      { 'labels.csv': 'file,class,intervals\na.csv,odd,1-2\n' },
      /labels.csv:2:7: got "odd"/,
    ],
    [
      'splits of some rows only',
      {
        'a.csv': 'v\n1\n2\n',
        'b.csv': 'v\n1\n2\n',
        'labels.csv': 'file,class,split\na.csv,a,test\nb.csv,a,\n',
      },
      /1 of 2 rows/,
    ],
    [
      'an unknown split',
      { 'labels.csv': 'file,class,split\na.csv,a,later\n' },
      /labels.csv:2:9: got "later"/,
    ],
    [
      'an interval beyond the end',
      { 'labels.csv': 'file,intervals\na.csv,1-9\n', 'a.csv': 'v\n1\n2\n3\n' },
      /3 points, but its interval ends at 9/,
    ],
    ['a file that is not there', { 'labels.csv': 'file,class\na.csv,a\n' }, /labels.csv:2:1: names a.csv/],
    ['other columns', { 'labels.csv': 'name,kind\na.csv,a\n' }, /expected file and class/],
    ['nothing', { 'README.md': 'x' }, /holds no labels.csv/],
    [
      'files without labels',
      { 'a.npy.txt': '', 'b_x.ts': '@classLabel false\n@data\n1,2,3\n' },
      /carries no labels/,
    ],
  ])('refused: %s', async (_, files, reason) => {
    await expect(chosen('custom', { directory: folder(files) })).rejects.toThrow(reason);
  });
});

const SHARED = join(import.meta.dirname, '../../../shared/data');
const published: readonly [task: string, path: string, sizes: readonly number[]][] = [
  ['ctu', 'timerbed/ctu', [250, 250]],
  ['tee', 'timerbed/tee', [70, 73]],
  ['emg', 'timerbed/emg', [122, 41, 41]],
  ['har', 'timerbed/har', [2400, 950]],
  ['nab', 'nab', [35]],
];
describe.each(published)('%s from published files', (task, path, sizes) => {
  const directory = join(SHARED, path);
  it.skipIf(!existsSync(directory))(`is prepared whole (skipped where ${path} is absent)`, async () => {
    const out = freshPath();
    const manifest = await prepare(benchmarkNamed(task), out, { directory });
    expect(Object.values(manifest.splits).map(({ count }) => count)).toEqual(sizes);
    const set = new ExampleSet(out);
    for (const split of set.splits) expect([...set.read(split)].length).toBe(set.count(split));
    expect(readFileSync(join(out, 'manifest.json'), 'utf8')).not.toContain(directory);
  });
});

describe('the registry', () => {
  it('knows every task by its name, and guesses misspelt ones', () => {
    const names = BENCHMARKS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const name of 'rcw tee ecg emg ctu har anomllm vta tsb-uad tsb-ad tab nab custom'.split(' '))
      expect(benchmarkNamed(name.toUpperCase()).name).toBe(name);
    expect(() => benchmarkNamed('anomlm')).toThrow(/Did you mean anomllm\?/);
  });
});
