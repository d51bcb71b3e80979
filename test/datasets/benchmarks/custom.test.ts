import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkHints, custom, readWords, TASK_FILE_EXAMPLE } from '../../../datasets/benchmarks/custom.ts';
import { CUSTOM_LAYOUT } from '../../../datasets/benchmarks/custom-source.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { prepare, type Selection, type SelectOptions, selectExamples } from '../../../datasets/prepare.ts';
import { openExamples } from '../../../datasets/source.ts';
import type { Split } from '../../../datasets/split.ts';
import { learnClasses } from '../../../src/expcot/class-profile.ts';
import { DataError } from '../../../src/ground/errors.ts';
import type { Example } from '../../../src/ground/types.ts';
import { dict, npy, zipOf } from '../../helpers/numpy-files.ts';
import { temporary } from '../../helpers/temporary.ts';

const root = temporary('custom');
let made = 0;
const freshPath = (): string => join(root, `c${made++}`);

function folder(files: Readonly<Record<string, string | Buffer>>): string {
  const path = freshPath();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

const TEST_ONLY = { train: 0, validation: 0, test: 1 };
const select = (
  files: Readonly<Record<string, string | Buffer>>,
  options: Partial<SelectOptions> = {},
): Promise<Selection> => selectExamples(custom, { directory: folder(files), ...options });
const examplesOf = async (
  files: Readonly<Record<string, string | Buffer>>,
  options: Partial<SelectOptions> = { shares: TEST_ONLY },
): Promise<(readonly [Split, Example])[]> => [...(await select(files, options)).examples()];
/** A column of points that differ from those of another seed. */
const points = (seed: number, count = 20): string =>
  ['v', ...Array.from({ length: count }, (_, t) => Math.sin(seed + t / 2).toFixed(4))].join('\n');

describe('leaks between splits', () => {
  const files = (recordings: readonly string[]): Record<string, string> => ({
    'labels.csv': [
      'file,class,recording,split',
      ...recordings.map((name, i) => `s${i}.csv,${'ab'[i % 2]},${name},${i < 3 ? 'train' : 'test'}`),
    ].join('\n'),
    ...Object.fromEntries(recordings.map((_, i) => [`s${i}.csv`, points(i)])),
  });

  it('a recording in train and test is refused, with its rows', async () => {
    const leaking = files(['r1', 'r2', 'r1', 'r3', 'r1', 'r2']);
    const failure = select(leaking);
    await expect(failure).rejects.toThrow(DataError);
    await expect(failure).rejects.toThrow(
      /labels\.csv:6:1: recording "r1" is in test here and in train on line 2 \(all its rows: 2, 4, 6\), and so is 1 other recording\. .*--allow-shared-recordings/,
    );
    const rows = ['class,recording,split,t0,t1,t2', 'a,r1,train,1,2,3', 'b,r1,test,4,5,7'];
    const table = folder({ 't.csv': rows.join('\n') });
    await expect(selectExamples(custom, { directory: join(table, 't.csv') })).rejects.toThrow(
      /t\.csv:3:1: recording "r1" is in test here and in train on line 2 \(all its rows: 2, 3\)\. /,
    );
  });

  it('unless the user allows it, and then the statement says it', async () => {
    const leaking = files(['r1', 'r2', 'r1', 'r3', 'r1', 'r2']);
    const { origin } = await select(leaking, { allowSharedRecordings: true });
    expect(origin.split.recordingsApart).toBe(false);
    expect(origin.split.statement).toMatch(
      /Recordings leak, as the user allowed: 2 of 3 have examples in several/,
    );
    const apart = await select(files(['r1', 'r2', 'r1', 'r3', 'r3', 'r4']), { allowSharedRecordings: true });
    expect(apart.origin.split).toMatchObject({ recordingsApart: true });
    expect(apart.origin.split.statement).not.toContain('leak');
  });

  it('series with the same values in several splits are counted in the statement', async () => {
    const apart = files(['r1', 'r2', 'r3', 'r4', 'r5', 'r6']);
    expect((await select(apart)).origin.split.statement).not.toContain('Same values');
    const same = { ...apart, 's4.csv': points(1), 's5.csv': points(1), 's2.csv': points(0) };
    const { origin } = await select(same);
    expect(origin.split.statement).toContain(
      'Same values in several splits: 2 series of test repeat a series of another split, such as custom/s4.csv (test) and custom/s1.csv (train).',
    );
    // What was not kept cannot leak.
    expect((await select(same, { splits: ['test'] })).origin.split.statement).not.toContain('Same values');
  });
});

describe('files beside labels.csv', () => {
  it('of Parquet are channels in all columns of numbers, whatever they are called', async () => {
    const directory = folder({ 'labels.csv': 'file,class\naxes.parquet,walk\nb.parquet,walk\n' });
    const axes = readFileSync(join(import.meta.dirname, '../../golden/readers/axes.parquet'));
    for (const name of ['axes', 'b']) writeFileSync(join(directory, `${name}.parquet`), axes);
    const { examples } = await selectExamples(custom, { directory, shares: TEST_ONLY });
    for (const [, { names, channels }] of examples()) {
      expect(names).toEqual(['x', 'y', 'z']);
      expect([...channels[1]!]).toEqual([0, 1, 1, 0]);
    }
  });

  it('that are shorter than a window are named in a note', async () => {
    const files = Object.fromEntries(
      Array.from({ length: 9 }, (_, i) => [`s${i}.csv`, points(i, i < 7 ? 12 : 40)]),
    );
    const names = Object.keys(files).map((name, i) => `${name},${'ab'[i % 2]}`);
    const { origin, examples } = await select(
      { ...files, 'labels.csv': ['file,class', ...names].join('\n') },
      { window: 20, shares: TEST_ONLY },
    );
    expect([...examples()].map(([, { id }]) => id)).toEqual(
      ['s7', 's8'].flatMap((s) => [0, 1].map((k) => `custom/${s}.csv/${k}`)),
    );
    expect(origin.notes).toContain(
      '7 of 9 series are shorter than --window 20 and left out: s0.csv, s1.csv, s2.csv, s3.csv, s4.csv and 2 more',
    );
  });

  it('in rows of a table are cut into windows, and rows that end early are told', async () => {
    const row = (label: string, length: number, first: number) =>
      `${label},${Array.from({ length: 40 }, (_, i) => (i < length ? first + i : '')).join(',')}`;
    const names = Array.from({ length: 40 }, (_, i) => `v${i}`).join(',');
    const directory = folder({
      't.csv': [`class,${names}`, row('a', 40, 1), row('b', 37, 100), row('a', 12, 300)].join('\n'),
    });
    const table = { directory: join(directory, 't.csv'), shares: TEST_ONLY };
    const cut = await selectExamples(custom, { ...table, window: 16 });
    expect([...cut.examples()].map(([, { id, channels }]) => [id, channels[0]![0]])).toEqual([
      ['custom/t/0/0', 1],
      ['custom/t/0/1', 17],
      ['custom/t/1/0', 100],
      ['custom/t/1/1', 116],
    ]);
    expect(cut.origin.notes).toContain('1 of 3 series is shorter than --window 16 and left out: t/2');
    const whole = await selectExamples(custom, table);
    expect([...whole.examples()].map(([, { channels }]) => channels[0]!.length)).toEqual([40, 37, 12]);
    expect(whole.origin.notes).toContain(
      '2 of 3 rows end in empty cells and are read as shorter series (write NaN where values are missing); the longest has 40 points',
    );
  });

  it.each([
    ['without rows', ['class,v1,v2'], /t\.csv: only a header, no rows below it/],
    ['with a row without points', ['class,v1,v2', 'a,1,2', 'b,,'], /t\.csv:3:3: no points in this row/],
  ])('as a table %s are refused', async (_, rows, message) => {
    const directory = folder({ 't.csv': rows.join('\n') });
    const selected = selectExamples(custom, { directory: join(directory, 't.csv'), shares: TEST_ONLY });
    await expect(selected).rejects.toThrow(message);
  });

  it('in a folder called test teach classes where the split draws them for training', async () => {
    const files = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`test/s${i}.csv`, points(i)]));
    const names = Object.keys(files).map((name, i) => `${name},${'ab'[i % 2]}`);
    const drawn = await examplesOf(
      { ...files, 'labels.csv': ['file,class', ...names].join('\n') },
      { shares: { train: 1, validation: 0, test: 0 } },
    );
    const { classes } = learnClasses(drawn.map(([, example]) => example));
    expect(classes.map(({ name, count }) => [name, count])).toEqual([
      ['a', 4],
      ['b', 4],
    ]);
  });
});

describe('task.yaml', () => {
  const labelled = {
    'labels.csv': 'file,class\na.csv,worn\nb.csv,new\n',
    'a.csv': points(1),
    'b.csv': points(2),
  };

  it('says what the data are: title, words for prompts, rate, figure and licence are kept with them', async () => {
    const directory = folder({ ...labelled, 'task.yaml': TASK_FILE_EXAMPLE });
    const out = freshPath();
    const manifest = await prepare(custom, out, { directory, shares: TEST_ONLY });
    expect(manifest).toMatchObject({
      title: 'Pumps of one plant',
      rate: 100,
      figure: { preset: 'line', missing: 'break' },
      source: { licence: 'internal' },
      prompt: {
        description: 'Vibration of a pump bearing in g, two seconds at 100 Hz.',
        hints: { worn: 'a rough hum that grows with every turn', new: 'an even, quiet hum' },
        advice: 'advise the operator when to stop the pump',
      },
    });
    expect(manifest.source.files.map(({ path }) => path)).toContain('task.yaml');
    expect(new ExampleSet(out).manifest.prompt).toEqual(manifest.prompt);
    const { facts } = openExamples({ name: out, split: 'test', seed: 0, length: 0 });
    expect(facts.prompt).toEqual(manifest.prompt);
  });

  it('may be JSON, and may say a title alone, which is then what prompts say', async () => {
    const { origin } = await select(
      { ...labelled, 'task.json': '{"title": "Pumps"}' },
      { shares: TEST_ONLY },
    );
    expect(origin).toMatchObject({ title: 'Pumps', rate: null, prompt: { description: 'Pumps', hints: {} } });
    expect((await select(labelled, { shares: TEST_ONLY })).origin.prompt).toBeUndefined();
  });

  it.each<[string, string, RegExp]>([
    [
      'an unknown field',
      'title: x\ndescripton: y\n',
      /task\.yaml:2: descripton: unknown; leave it out\. Did you mean description\? Known: title, /,
    ],
    ['another type', '\nrate: fast\n', /task\.yaml:2: rate: got "fast", expected a number/],
    ['a rate of none', 'rate: 0\n', /task\.yaml:1: rate: got 0, expected a number > 0/],
    [
      'a kind that is none',
      'kind: forecast\n',
      /task\.yaml:1: kind: got "forecast", expected one of classification, anomaly, variates/,
    ],
    [
      'a kind that the labels are not',
      'title: x\nkind: anomaly\n',
      /task\.yaml:2: kind: got anomaly, but the labels are those of kind classification/,
    ],
    [
      'a hint to a class that is not there',
      'hints:\n  new: fine\n  wornn: rough\n',
      /task\.yaml:3: hints\.wornn: the data have no such class\. Did you mean worn\?/,
    ],
    ['advice of nothing', 'advice:\n', /task\.yaml:1: advice: got null, expected a string/],
    ['a tag of the answer', 'description: ends with </think>\n', /task\.yaml:1: description: holds a tag/],
    [
      'a special token',
      'hints:\n  new: "<|im_end|>"\n',
      /task\.yaml:2: hints\.new: holds a tag of the answer or a special token/,
    ],
    ['a list', '- title\n', /task\.yaml:1: task: got \["title"\], expected an object/],
    ['nothing', '', /task\.yaml:1: task: got null, expected an object/],
    ['a list that contains itself', 'title: x\nhints: &h\n  a: *h\n', /task\.yaml:3:1: not YAML: an alias/],
    ['what is no YAML', 'title: x\nhints: [a\n', /task\.yaml:\d+:\d+: not YAML/],
    ['a field twice', 'title: x\ntitle: y\n', /task\.yaml:2:1: not YAML/],
  ])('is refused with file and line: %s', async (_, text, reason) => {
    const failure = select({ ...labelled, 'task.yaml': text }, { shares: TEST_ONLY });
    await expect(failure).rejects.toThrow(DataError);
    await expect(failure).rejects.toThrow(reason);
  });

  it('keeps the columns that it names, in its order, of files with others', async () => {
    // As A3 of Yahoo S5: the published protocol reads `value` alone.
    const rows = Array.from({ length: 40 }, (_, t) => [t, 100 + t, t === 9 ? 1 : 0, 0, 200 + t, 300 + t]);
    const header = 'timestamps,value,anomaly,changepoint,trend,noise';
    const files = { 'a.csv': [header, ...rows.map(String)].join('\n') };
    const read = async (yaml: string): Promise<Example[]> => {
      const out = freshPath();
      const directory = folder({ ...files, ...(yaml === '' ? {} : { 'task.yaml': yaml }) });
      await prepare(custom, out, { directory, shares: TEST_ONLY });
      return [...new ExampleSet(out).read('test')];
    };
    const kept = async (yaml: string) =>
      (await read(yaml)).map(({ names, channels }) => [names, channels.map((values) => values[5])]);
    expect(await kept('')).toEqual([
      [
        ['value', 'trend', 'noise'],
        [105, 205, 305],
      ],
    ]);
    expect(await kept('columns: [value]')).toEqual([[['value'], [105]]]);
    expect(await kept('columns: [trend]')).toEqual([[['value'], [205]]]);
    expect(await kept('columns: [noise, value]')).toEqual([
      [
        ['noise', 'value'],
        [305, 105],
      ],
    ]);
    const [example] = await read('columns: [value]');
    expect(example!.gold).toMatchObject({ intervals: [[9, 10]] });
    await expect(read('title: x\ncolumns: [valu]')).rejects.toThrow(
      /task\.yaml:2: columns: custom\/a\.csv\/0\S* has no channel "valu"\. Did you mean value\? Channels: "value", "trend", "noise"/,
    );
    await expect(read('columns: [value, value]')).rejects.toThrow('names a column twice');
    const numbered = { 'labels.csv': 'file,variates\na.csv,2\n', 'a.csv': 'u,v,w\n1,2,3\n2,3,9\n' };
    await expect(select({ ...numbered, 'task.yaml': 'columns: [v]' }, { shares: TEST_ONLY })).rejects.toThrow(
      /task\.yaml:1: columns: the labels number all channels of the files/,
    );
  });

  it('is refused where it asks for advice after answers that are no classes', async () => {
    const marked = { ...labelled, 'labels.csv': 'file,intervals\na.csv,2-3\nb.csv,\n' };
    await expect(
      select({ ...marked, 'task.yaml': 'advice: call a mechanic' }, { shares: TEST_ONLY }),
    ).rejects.toThrow(/task\.yaml:1: advice: applies to classifications only/);
  });

  it('is refused where there are two of them', async () => {
    const two = { ...labelled, 'task.yaml': 'title: a', 'task.json': '{}' };
    await expect(select(two, { shares: TEST_ONLY })).rejects.toThrow(
      /task\.yaml: stands beside .*task\.json/,
    );
  });

  it('is words or a DataError that names the file, however it is mutated', () => {
    const path = folder({});
    mkdirSync(path, { recursive: true });
    const bits = [
      '\n',
      ': ',
      '- ',
      '&a ',
      '*a',
      '<<: *a\n',
      '? ',
      '{',
      '[',
      '"',
      '|',
      '!!map ',
      '---\n',
      '\t',
      '#',
      '\0',
    ];
    const fields = [
      'hints:',
      'rate: .nan',
      'rate: 1e400',
      '__proto__: x\n',
      '? [a]\n: b\n',
      'null: 3\n',
      'figure: 1\n',
    ];
    const edit = fc.tuple(fc.nat(TASK_FILE_EXAMPLE.length), fc.constantFrom(...bits, ...fields), fc.nat(6));
    fc.assert(
      fc.property(fc.array(edit, { maxLength: 5 }), fc.boolean(), (edits, empty) => {
        let text = empty ? '' : TASK_FILE_EXAMPLE;
        for (const [at, bit, cut] of edits) text = text.slice(0, at) + bit + text.slice(at + cut);
        writeFileSync(join(path, 'task.yaml'), text);
        try {
          const words = readWords(path)!;
          expect(words.rate ?? 1).toSatisfy(Number.isFinite);
          checkHints(words, ['worn', 'new']);
        } catch (error) {
          expect(error).toBeInstanceOf(DataError);
          expect((error as DataError).file).toBe(join(path, 'task.yaml'));
        }
      }),
      { numRuns: 400, seed: 5 },
    );
  });

  it('has its figure checked before anything is read', async () => {
    const text = 'rate: 50\nfigure: lin\n';
    const read: number[] = [];
    const options = { shares: TEST_ONLY, onRead: (n: number) => void read.push(n) };
    await expect(select({ ...labelled, 'task.yaml': text }, options)).rejects.toThrow(
      /task\.yaml:2: figure: unknown name "lin"/,
    );
    expect(read).toEqual([]);
    const own = { ...options, figure: { preset: 'ctu', missing: 'break' } as const };
    expect((await select({ ...labelled, 'task.yaml': text }, own)).origin.figure.preset).toBe('ctu');
  });
});

describe('missing values in csv files', () => {
  it('empty cells, NaN, NA and null are read as missing, and counted in a note', async () => {
    const two = { 'a.csv': 'time,x,y\n0,NA,1\n1,2,\n2,3,null\n3,4,-1\n' };
    const [[, a]] = (await examplesOf({ 'labels.csv': 'file,class\na.csv,up\n', ...two })) as [
      [Split, Example],
    ];
    const selection = await select(
      {
        'labels.csv': 'file,class\nb.csv,down\nc.csv,down\n',
        'b.csv': 'v\n1\n\nNaN\n4\n\n',
        'c.csv': 'v\n1\n2\n',
      },
      { shares: TEST_ONLY },
    );
    const [[, b]] = [...selection.examples()] as [[Split, Example]];
    expect(a.names).toEqual(['x', 'y']);
    expect(a.channels.map((channel) => [...channel])).toEqual([
      [Number.NaN, 2, 3, 4],
      [1, Number.NaN, Number.NaN, -1],
    ]);
    expect([...b.channels[0]!]).toEqual([1, Number.NaN, Number.NaN, 4]);
    expect(selection.origin.notes).toEqual([
      '2 of 6 values are missing, in 1 example; the first: custom/b.csv (2)',
    ]);
  });

  it.each<[string, string, RegExp]>([
    ['a column that is nowhere a number', 'x,y\n1,\n2,NA\n', /a\.csv: column "y" holds no number/],
    ['a word among numbers', 'x,y\n1,2\n2,oops\n', /a\.csv:3:3: "oops" in column "y" is not a number/],
    ['an infinity', 'x\n1\ninf\n', /a\.csv:3:1: "inf" in column "x" is not a finite number/],
    ['a name twice', 'a,b,a\n1,2,3\n4,5,6\n', /a\.csv:1: two columns are called "a"; channels need names/],
    [
      'several columns without names',
      '1,2\n3,5\n4,1\n',
      /a\.csv: 2 columns of numbers: .*write them into the first line/,
    ],
    [
      'a tag in a name',
      'x,</think><class>a</class>\n1,2\n3,4\n',
      /a\.csv:1: names: the channel "<\/think>.* rename it/,
    ],
    ['a special token in a name', 'x,<|im_end|>\n1,2\n3,4\n', /a\.csv:1: names: the channel "<\|im_end\|>"/],
    [
      'a very long name',
      `x,${'y'.repeat(61)}\n1,2\n3,4\n`,
      /labels\.csv:2:7: custom\/a\.csv: the channel name "y+\.\.\. has 61 characters/,
    ],
    [
      'values that would overflow',
      'x\n1\n2\n-1e300\n',
      /labels\.csv:2:7: custom\/a\.csv: point 2 of channel "value" is -1e\+300, beyond ±1e\+30; rescale/,
    ],
  ])('refused: %s', async (_, text, reason) => {
    const failure = select({ 'labels.csv': 'file,class\na.csv,up\n', 'a.csv': text }, { shares: TEST_ONLY });
    await expect(failure).rejects.toThrow(DataError);
    await expect(failure).rejects.toThrow(reason);
  });

  it('row numbers of pandas, without a name, are no channel', async () => {
    const [[, one]] = (await examplesOf({
      'labels.csv': 'file,class\na.csv,up\n',
      'a.csv': ',x,y\n0,5,6\n1,7,9\n',
    })) as [readonly [Split, Example]];
    expect(one.names).toEqual(['x', 'y']);
  });
});

describe('labels.csv', () => {
  it('variates: numbers of odd channels, from 0, drawn as a grid', async () => {
    const { origin, examples } = await select(
      {
        'labels.csv': 'file,variates\na.csv,2 0\nb.csv,\n',
        'a.csv': 'x,y,z\n1,2,3\n4,5,6\n7,8,1\n',
        'b.csv': 'x,y,z\n1,2,4\n4,5,6\n7,8,2\n',
      },
      { shares: TEST_ONLY },
    );
    expect(origin).toMatchObject({ kind: 'variates', classes: [], figure: { preset: 'vta-grid' } });
    expect([...examples()].map(([, { gold }]) => gold)).toEqual([
      { kind: 'variates', variates: [0, 2] },
      { kind: 'variates', variates: [] },
    ]);
  });

  const a = points(1, 10);
  it.each<[string, Record<string, string>, RegExp]>([
    [
      'intervals that overlap',
      { 'labels.csv': 'file,intervals\na.csv,3-6 5-8\n', 'a.csv': a },
      /labels\.csv:2:7: intervals 3-6 and 5-8 overlap; merge them into 3-8/,
    ],
    [
      '"normal" with an interval',
      { 'labels.csv': 'file,class,intervals\na.csv,normal,3-6\n', 'a.csv': a },
      /labels\.csv:2:7: class "normal" with 1 interval;/,
    ],
    [
      'an anomaly without one',
      { 'labels.csv': 'file,class,intervals\na.csv,trend,\n', 'a.csv': a },
      /labels\.csv:2:7: class "trend" with 0 intervals;/,
    ],
    [
      'a class with a tag',
      { 'labels.csv': 'file,class\na.csv,ok\nb.csv,<class>x\n', 'a.csv': a, 'b.csv': a },
      /labels\.csv:3:7: class: got "<class>x", expected/,
    ],
    [
      'an interval beyond the end',
      { 'labels.csv': 'file,intervals\na.csv,\nb.csv,4-11\n', 'a.csv': a, 'b.csv': a },
      /labels\.csv:3:7: b\.csv has 10 points, but its interval ends at 11/,
    ],
    [
      'a channel that is not there',
      { 'labels.csv': 'file,variates\na.csv,0 3\n', 'a.csv': 'x,y,z\n1,2,3\n3,4,5\n' },
      /labels\.csv:2:7: variates\[1\]: got 3, expected ascending integers below the 3/,
    ],
    [
      'channels that are too few to be unlike each other',
      { 'labels.csv': 'file,variates\na.csv,1\n', 'a.csv': 'x,y\n1,2\n3,4\n' },
      /labels\.csv:2:7: a\.csv has 2 channels; at least 3 are needed to tell which are unlike the others/,
    ],
    [
      'a channel twice',
      { 'labels.csv': 'file,variates\na.csv,1 1\n', 'a.csv': a },
      /labels\.csv:2:7: names channel 1 twice/,
    ],
    [
      'a channel by its name',
      { 'labels.csv': 'file,variates\na.csv,x\n', 'a.csv': a },
      /labels\.csv:2:7: got "x", expected numbers of channels/,
    ],
    [
      'variates with a class',
      { 'labels.csv': 'file,class,variates\na.csv,x,1\n', 'a.csv': a },
      /labels\.csv:1: columns variates and class/,
    ],
  ])('refused with file and line: %s', async (_, files, reason) => {
    const failure = select(files, { shares: TEST_ONLY });
    await expect(failure).rejects.toThrow(DataError);
    await expect(failure).rejects.toThrow(reason);
  });

  it('intervals may stand in any order', async () => {
    const [[, one]] = (await examplesOf({
      'labels.csv': 'file,intervals\na.csv,6-8 1-3\n',
      'a.csv': a,
    })) as [readonly [Split, Example]];
    expect(one.gold).toMatchObject({
      intervals: [
        [1, 3],
        [6, 8],
      ],
    });
  });

  it('files of series that it does not name are told in a note, others are not', async () => {
    const files = {
      'labels.csv': 'file,class\na.csv,up\n',
      'a.csv': a,
      'b.csv': a,
      'sub/c.ts': '',
      'README.md': '',
    };
    const { origin } = await select({ ...files, 'task.yaml': 'title: x' }, { shares: TEST_ONLY });
    expect(origin.notes).toEqual(['left out (not in labels.csv): b.csv, sub/c.ts']);
  });

  it('of many rows is read in time that grows with them', async () => {
    const rows = Array.from({ length: 30_000 }, (_, i) => `gone/${i}.csv,${i % 2 === 0 ? 'up' : 'down'}`);
    await expect(select({ 'labels.csv': `file,class\n${rows.join('\n')}\n` })).rejects.toThrow(
      /labels\.csv:2:1: names gone\/0\.csv, and there is no such file/,
    );
  });
});

describe('small draws', () => {
  const files = (count: number): Record<string, string> => ({
    'labels.csv': ['file,class', ...Array.from({ length: count }, (_, i) => `s${i}.csv,${'ab'[i % 2]}`)].join(
      '\n',
    ),
    ...Object.fromEntries(Array.from({ length: count }, (_, i) => [`s${i}.csv`, points(i)])),
  });

  it('give every split every class', async () => {
    const { origin } = await select(files(12));
    expect(origin.split.statement).toMatch(/: train 8, validation 2, test 2\. No recordings/);
    expect((await select(files(6))).origin.split.statement).toContain('train 2, validation 2, test 2.');
  });

  it('or the statement says what is lacking', async () => {
    expect((await select(files(4))).origin.split.statement).toMatch(
      /Too few examples for every split: .*(?:is empty|has no example of '[ab]')/,
    );
  });
});

describe('counts', () => {
  const files = {
    'labels.csv': 'file,class,split\na.csv,up,train\nb.csv,up,test\nc.csv,up,test\n',
    'a.csv': points(1),
    'b.csv': points(2),
    'c.csv': points(3),
  };

  it('of a split that is not there are refused, and the same for all is not', async () => {
    await expect(select(files, { counts: { validation: 30 } })).rejects.toThrow(
      /--count validation=30: there is no validation split, only train and test;/,
    );
    const all = await select(files, { counts: { train: 1, validation: 1, test: 1 } });
    expect(all.total).toBe(2);
  });
});

it('a prepared set of before, without words of its own, stays readable', async () => {
  const out = freshPath();
  const files = { 'labels.csv': 'file,class\na.csv,up\n', 'a.csv': points(1) };
  await prepare(custom, out, { directory: folder(files), shares: TEST_ONLY });
  expect(readFileSync(join(out, 'manifest.json'), 'utf8')).not.toContain('"prompt"');
  expect(new ExampleSet(out).count('test')).toBe(1);
});

describe('files whose labels are not plain', () => {
  const one = (name: string, text: string): Promise<Selection> => {
    const path = freshPath();
    mkdirSync(path);
    writeFileSync(join(path, name), text);
    return selectExamples(custom, { directory: join(path, name), shares: TEST_ONLY });
  };
  const row = (seed: number): string =>
    Array.from({ length: 6 }, (_, t) => Math.sin(seed + t).toFixed(3)).join(',');
  const header = 't0,t1,t2,t3,t4,t5';

  it('a csv table without labels: the column "class" is named, and no option that there is not', async () => {
    const failure = one('t.csv', `${header}\n${row(1)}\n${row(2)}\n`);
    await expect(failure).rejects.toThrow(DataError);
    await expect(failure).rejects.toThrow(
      /t\.csv:1: columns "t0", .*"t5": none is called "class" \(one series a row\) or "Label"/,
    );
    await expect(failure).rejects.not.toThrow(/--column/);
    expect(CUSTOM_LAYOUT).toMatch(/one series per row and a column "class"/);
  });

  it('a column "label" of classes is not taken for marks of points', async () => {
    const rows = ['walk', 'run', 'walk'].map((name, i) => `${row(i)},${name}`);
    await expect(one('t.csv', `${header},label\n${rows.join('\n')}\n`)).rejects.toThrow(
      /t\.csv:2:\d+: "walk" in the column "label", which marks every point .*; where each row is a series, call that column "class"/,
    );
    const numbered = [0, 1, 1, 0].map((name, i) => `${row(i)},${name}`);
    await expect(one('t.csv', `${header},label\n${numbered.join('\n')}\n`)).rejects.toThrow(
      /6 columns of values and 4 rows: .*call that column "class"/,
    );
    const classes = await one('t.csv', `${header},class\n${numbered.join('\n')}\n`);
    expect(classes.origin).toMatchObject({ kind: 'classification', classes: ['0', '1'] });
  });

  it('marks of points are read as such, which is said', async () => {
    const rows = Array.from({ length: 30 }, (_, t) => `${Math.sin(t)},${t > 20 ? 1 : 0}`);
    const { origin } = await one('t.csv', `v,label\n${rows.join('\n')}\n`);
    expect(origin.kind).toBe('anomaly');
    expect(origin.notes).toEqual([
      't.csv: each row is a point, and the column "label" says which are anomalous; where each row is a series, call that column "class"',
    ]);
  });
});

describe('labels of points as public collections write them', () => {
  const count = 30;
  const lines = (header: string, row: (t: number, mark: boolean) => string, ends = '\n'): string =>
    [header, ...Array.from({ length: count }, (_, t) => row(t, t >= 20 && t < 23))].join(ends);
  const v = (t: number): string => Math.sin(t / 3).toFixed(4);
  const clock = (t: number): string => `2020-01-01 00:${String(t).padStart(2, '0')}:00`;
  const read = async (text: string): Promise<Example[]> =>
    (await examplesOf({ 'a.csv': text }, { window: null, shares: TEST_ONLY })).map(([, example]) => example);

  it.each<[string, readonly string[], string]>([
    [
      'TimeEval',
      ['value-0', 'value-1'],
      lines('timestamp,value-0,value-1,is_anomaly', (t, m) => `${clock(t)},${v(t)},${t % 7},${m ? 1 : 0}`),
    ],
    [
      'Yahoo',
      ['value'],
      lines('timestamps,value,anomaly,changepoint', (t, m) => `${t + 1},${v(t)},${m ? 1 : 0},0`),
    ],
    [
      'SKAB',
      ['Current', 'Volume'],
      lines(
        'datetime;Current;Volume;anomaly;changepoint',
        (t, m) => `${clock(t)};${v(t)};${t % 5};${m ? '1.0' : '0.0'};0.0`,
      ),
    ],
    [
      'SWaT',
      ['FIT101', 'MV101'],
      lines(
        ' Timestamp, FIT101,MV101,Normal/Attack',
        (t, m) =>
          ` 28/12/2015 10:00:${String(t).padStart(2, '0')} AM,${v(t)},${t % 3},${m ? (t === 21 ? 'A ttack' : 'Attack') : 'Normal'}`,
        '\r\n',
      ),
    ],
    ['pandas', ['value'], `\uFEFF${lines(',value,label', (t, m) => `${t},${v(t)},${m ? 'True' : 'False'}`)}`],
    ['labels first', ['value'], lines('label,value', (t, m) => `${m ? 1 : 0},${v(t)}`)],
  ])('%s: time and further labels are no channels', async (_, names, text) => {
    const [example, ...more] = await read(text);
    expect(more).toEqual([]);
    expect(example!.names).toEqual(names);
    expect(example!.channels[0]).toEqual(Float64Array.from({ length: count }, (_, t) => Number(v(t))));
    expect(example!.gold).toMatchObject({ kind: 'anomaly', intervals: [[20, 23]] });
  });

  it('KPI: every KPI ID is a series of its own, in mixed rows too', async () => {
    const text = lines(
      'timestamp,value,label,KPI ID',
      (t, m) => `${60 * t},${v(t)},${m ? 1 : 0},${t % 2 ? 'b1' : '0a'}`,
    );
    const [a, b] = await read(text);
    expect([...a!.times!.slice(0, 2)]).toEqual([0, 120]);
    expect([a, b].map((one) => [one!.channels[0]!.length, one!.gold])).toEqual([
      [15, { kind: 'anomaly', class: null, intervals: [[10, 12]] }],
      [15, { kind: 'anomaly', class: null, intervals: [[10, 11]] }],
    ]);
  });

  it('the names of TimeEval, m.train.csv and m.test.csv, are splits, of any number of series', async () => {
    const text = (seed: number, label: string): string =>
      lines(`timestamp,value,${label}`, (t, m) => `${clock(t)},${v(t + seed)},${m ? 1 : 0}`);
    const files = Object.fromEntries(
      ['a.test', 'a.train', 'b.test', 'b.train'].map((name, i) => [`${name}.csv`, text(i, 'is_anomaly')]),
    );
    const splits = (await examplesOf(files, { window: null, validation: 0 })).map(([split]) => split);
    expect(splits.sort()).toEqual(['test', 'test', 'train', 'train']);
    // Without a training part, the test parts may be divided.
    const tests = { 'a.test.csv': text(0, 'anomaly'), 'b.test.csv': text(1, 'anomaly') };
    expect(await examplesOf(tests, { window: null, shares: TEST_ONLY })).toHaveLength(2);
  });

  it('labels without measurements are refused', async () => {
    await expect(read(lines('timestamp_(min),label', (t, m) => `${t},${m ? 1 : 0}`))).rejects.toThrow(
      /no column of numbers beside them .*; labels and measurements belong in one file/,
    );
  });
});

describe('what is easily taken for something else', () => {
  const tsv = (labels: readonly string[]): string =>
    labels.map((label, i) => [label, i, i * i, 3].join('\t')).join('\n');

  it('classes that no training example has are noted', async () => {
    const unseen = async (test: string): Promise<readonly string[]> =>
      (await select({ 'P_TRAIN.tsv': tsv(['1.0', '2.0']), 'P_TEST.tsv': tsv([test]) })).origin.notes!.filter(
        (note) => note.startsWith('no '),
      );
    expect((await unseen('2'))[0]).toBe(
      'no training example of class "2"; are all classes spelled alike in every file?',
    );
    expect((await unseen('2.0'))[0]).toMatch(/--validation/);
  });

  it('copies of a data set with series of one length or filled are left out', async () => {
    const text = tsv(['a', 'b']);
    const names = ['P_TRAIN', 'P_TEST', 'P_eq_TRAIN', 'P_eq_TEST', 'P_nmv_TRAIN', 'P_nmv_TEST'];
    const files = Object.fromEntries(names.map((name) => [`${name}.tsv`, text]));
    const { origin } = await select(files);
    expect(origin.notes![0]).toMatch(
      /^left out \(other forms of P_TEST\.tsv and P_TRAIN\.tsv\): P_eq_TEST\.tsv/,
    );
    expect((await select({ P_TRAIN: text, P_TEST: text })).origin.classes).toEqual(['a', 'b']);
  });

  it('points before channels are noted, and numbers as classes are names', async () => {
    const values = Buffer.from(Float64Array.from({ length: 24 }, (_, i) => (i * i) % 7).buffer);
    const numbers = (shape: string, bytes: Buffer): Buffer => npy(dict("'<f8'", shape), bytes);
    const set = (shape: string): Buffer =>
      zipOf([
        ['X.npy', numbers(shape, values)],
        ['y.npy', numbers('2,', Buffer.from(Float64Array.of(0, 1).buffer))],
      ]);
    expect((await select({ 'a.npz': set('2, 6, 2') }, { shares: TEST_ONLY })).origin.notes).toContainEqual(
      'a.npz: 6 channels of 2 points, as the axes are read: series, channels, points. If they are series, points, channels, save X.transpose(0, 2, 1)',
    );
    expect((await select({ 'a.npz': set('2, 2, 6') }, { shares: TEST_ONLY })).origin.notes).toEqual([]);
    const [[, example]] = (await examplesOf({ 'a.jsonl': '{"values": [1, 2], "class": 0}' })) as [
      [Split, Example],
    ];
    expect(example.gold).toEqual({ kind: 'classification', class: '0' });
  });

  it('files beside the series that only sound like labels or splits change nothing', async () => {
    const table = `a,b,class\n${'1,2,x\n2,3,y\n'.repeat(4)}`;
    const ts = (seed: number): string => `@classLabel true a b\n@data\n1,2,${seed}:a\n2,3,${seed}:b\n`;
    const walk = 'day,v,label\n2020-01-01,1,walk\n2020-01-02,2,walk\n';
    for (const files of [
      { 'data.csv': table, unit_test: '#!/bin/sh\n' },
      { 'data.csv': table, 'walk.csv': walk },
      { 'gun_train.ts': ts(1), 'gun_test.ts': ts(2), 'gun_labels.txt': 'a: gun\n' },
    ]) {
      expect((await select(files)).origin.kind).toBe('classification');
    }
    const labels = 'file,class\nwalk.csv,walk\nanomaly.csv,rest\n';
    const anomaly = 'day,anomaly\n2020-01-01,-0.5\n2020-01-02,0.25\n';
    const listed = await select({ 'labels.csv': labels, 'walk.csv': walk, 'anomaly.csv': anomaly });
    expect(listed.origin.classes).toEqual(['rest', 'walk']);
  });

  it('errors name the way out', async () => {
    await expect(select({ 'a.csv': 'Time,V1,Class\n0,1,0\n1,2,1\n' })).rejects.toThrow(
      /columns "time" and "class": where each row is a point, call the column of 0 and 1 "Label"; where each row is a series, remove "time"/,
    );
    await expect(select({ 'b/a.csv': 'Time,Tp,EVENT\n0,1,0\n1,2,1\n' })).rejects.toThrow(
      /b\/a\.csv:1: columns "time", "tp", "event": none is called "class" .* or "Label"/,
    );
    await expect(select({ 'a.csv': 'a;b;class\n1,5;2;x\n' })).rejects.toThrow(
      /"1,5" is not a finite number; write a decimal point/,
    );
    await expect(select({ 'a.csv': 'timestamp,value\n2014-01-01,1\n2014-01-02,2\n' })).rejects.toThrow(
      /carries no labels \(the task nab reads those of combined_windows\.json\)/,
    );
  });
});

describe('a folder of several files that carry labels', () => {
  const ts = (labels: readonly string[], seed: number): string =>
    `@classLabel true ${[...new Set(labels)].join(' ')}\n@data\n${labels
      .map((label, i) => `${[1, 2, 3, 4].map((t) => Math.sin(seed + i + t)).join(',')}:${label}`)
      .join('\n')}\n`;
  const [cars, computers] = [
    ['1', '-1', '1'],
    ['1', '2', '2'],
  ];

  it('two data sets are refused, by their names', async () => {
    const files = {
      'FordA_TRAIN.ts': ts(cars!, 0),
      'FordA_TEST.ts': ts(cars!, 10),
      'Computers_TRAIN.ts': ts(computers!, 20),
      'Computers_TEST.ts': ts(computers!, 30),
    };
    await expect(select(files)).rejects.toThrow(
      /holds 2 data sets by the names of their files \(Computers, FordA\); give each a folder of its own/,
    );
  });

  const table = (first: number): string =>
    `${cars!.map((label, i) => `  ${label}.0000000e+00  ${first + i}  2  3  4`).join('\n')}\n`;

  it('a folder as the archives pack it is read once: a split in further formats, and channels alone, are left out', async () => {
    const { origin } = await select({
      ...{ 'A_TRAIN.txt': table(0), 'A_TEST.txt': table(5), 'README.txt': 'A' },
      ...{ 'A_TRAIN.ts': ts(cars!, 0), 'A_TEST.ts': ts(cars!, 10), 'ADimension1_TRAIN.ts': ts(cars!, 0) },
    });
    expect(origin.split.statement).toContain('Here: train 3, test 3.');
    expect(origin.notes).toContain(
      'left out (other forms of A_TEST.ts and A_TRAIN.ts): ADimension1_TRAIN.ts, A_TEST.txt, A_TRAIN.txt',
    );
    const text = await select({ 'A_TRAIN.txt': table(0), 'A_TEST.txt': table(5), 'README.txt': 'A' });
    expect(text.origin).toMatchObject({ classes: ['-1', '1'] });
  });

  it('a split in two formats is refused where neither format has all splits', async () => {
    const files = { 'A_TRAIN.ts': ts(cars!, 0), 'A_TRAIN.txt': table(0), 'A_TEST.arff': 'x' };
    await expect(select(files)).rejects.toThrow(/A_TRAIN\.ts and A_TRAIN\.txt hold the same split/);
  });

  it('arrays of one file may give the splits', async () => {
    const part = (name: string, count: number): [string, Buffer][] => [
      [`X_${name}.npy`, npy(dict("'<f8'", `${count}, 4, 1`), Buffer.alloc(32 * count, 1))],
      [`y_${name}.npy`, npy(dict("'<i1'", `${count},`), Buffer.from([3, 5, 3].slice(0, count)))],
    ];
    const { origin } = await select({ 'p.npz': zipOf([...part('train', 3), ...part('test', 2)]) });
    expect(origin.split.statement).toContain('Here: train 3, test 2.');
    expect(origin.classes).toEqual(['3', '5']);
    const whole = zipOf(part('train', 2).map(([name, bytes]) => [name.replace('_train', ''), bytes]));
    const mixed = { 'a.npz': whole, 'b.npz': zipOf(part('train', 3)) };
    await expect(select(mixed)).rejects.toThrow(/the split train, and series of .*a\.npz have none/);
    const swapped = { 'a.npz': mixed['b.npz'], 'b.npz': whole };
    await expect(select(swapped)).rejects.toThrow(/no split, and series of .*a\.npz have one/);
  });

  it('files without a split in their names are one data set, which is said', async () => {
    const { origin } = await select({ 'a.ts': ts(cars!, 0), 'b.ts': ts(cars!, 10) }, { shares: TEST_ONLY });
    expect(origin.notes).toEqual(['2 files are read as one data set: a.ts, b.ts']);
  });

  it('may be csv tables of one series a row, whose names give the splits', async () => {
    const table = (first: number): string =>
      ['class,t0,t1,t2', ...[0, 1].map((i) => `${'ab'[i]},${first + i},2,3`)].join('\n');
    const single = await select({ 'pumps.csv': table(1), 'readme.md': 'x' }, { shares: TEST_ONLY });
    expect([...single.examples()].map(([, { id }]) => id)).toEqual(['custom/pumps/0', 'custom/pumps/1']);
    const two = await select({ 'P_TRAIN.csv': table(1), 'P_TEST.csv': table(5), 'other.csv': points(1) });
    expect(two.origin.split.statement).toContain('Here: train 2, test 2.');
    expect(two.origin.notes).toContain('left out (no column "class"): other.csv');
    await expect(select({ 'pumps.csv': table(1), 'a.ts': ts(cars!, 0) })).rejects.toThrow(
      /a table of one series a row \(pumps\.csv\) and files of another kind that carry labels \(a\.ts\)/,
    );
  });

  it('train and test are splits also where nothing stands before them', async () => {
    const { origin } = await select({ 'train.ts': ts(cars!, 0), 'test.ts': ts(cars!, 10) });
    expect(origin.split.statement).toContain('Here: train 3, test 3.');
  });
});

describe('no validation split', () => {
  const files = (splits: readonly string[]): Record<string, string> => ({
    'labels.csv': ['file,class,split', ...splits.map((split, i) => `s${i}.csv,${'ab'[i % 2]},${split}`)].join(
      '\n',
    ),
    ...Object.fromEntries(splits.map((_, i) => [`s${i}.csv`, points(i)])),
  });
  const notes = async (splits: readonly string[], options: Partial<SelectOptions> = {}): Promise<string> =>
    (await select(files(splits), options)).origin.notes.join('\n');

  it('is said, with what makes one', async () => {
    const given = ['train', 'train', 'train', 'train', 'test', 'test'];
    expect(await notes(given)).toBe(
      'no validation split for choosing settings: --validation 0.1 takes one from training, ' +
        '--validation 0 does without (for figures on published splits)',
    );
    expect(await notes(given, { validation: 0.5 })).toBe('');
    expect(await notes(given, { splits: ['train', 'test'] })).toBe('');
    expect(await notes(given, { splits: ['test'] })).toBe('');
    expect(await notes([...given, 'validation'])).toBe('');
  });

  it('is accepted with --validation 0, which keeps the training split whole', async () => {
    const given = ['train', 'train', 'train', 'train', 'test', 'test'];
    const { origin } = await select(files(given), { validation: 0 });
    expect(origin.split.statement).toContain('Here: train 4, test 2.');
    expect(origin.notes).toEqual([]);
    await expect(select(files([...given, 'validation']), { validation: 0 })).rejects.toThrow(
      /have their own validation split; leave it out with --split train,test/,
    );
    await expect(select(files(given), { validation: 1 })).rejects.toThrow(/at least 0 and below 1/);
  });
});

describe('names in labels.csv that lead elsewhere', () => {
  const secret = 'superuser:x:0:0\nuser:x:1:1:user\n';
  const labelled = (name: string): string =>
    folder({ 'labels.csv': `file,class\na.csv,up\n${name},up\n`, 'a.csv': points(1) });

  it('a link out of the folder is not followed, and nothing behind it is quoted', async () => {
    const outside = join(folder({ 'passwd.csv': secret }), 'passwd.csv');
    const path = labelled('b.csv');
    symlinkSync(outside, join(path, 'b.csv'));
    const problem = await selectExamples(custom, { directory: path }).catch((error: Error) => error);
    expect(problem).toBeInstanceOf(DataError);
    expect((problem as Error).message).toMatch(/labels\.csv:3:1: names "b\.csv": leads out of /);
    expect((problem as Error).message).not.toContain('superuser');
    // Also through a folder that is a link.
    symlinkSync(dirname(outside), join(path, 'sub'));
    writeFileSync(join(path, 'labels.csv'), 'file,class\nsub/passwd.csv,up\n');
    await expect(selectExamples(custom, { directory: path })).rejects.toThrow(/leads out of /);
  });

  it('a link inside the folder is followed, and so is a folder that is a link', async () => {
    const path = labelled('b.csv');
    writeFileSync(join(path, 'real.csv'), points(2));
    symlinkSync('real.csv', join(path, 'b.csv'));
    const link = freshPath();
    symlinkSync(path, link);
    expect((await selectExamples(custom, { directory: link, shares: TEST_ONLY })).total).toBe(2);
  });

  it.each(['/dev/zero', 'pipe'])('%s is refused at once', async (kind) => {
    const path = labelled('b.csv');
    if (kind === 'pipe') execFileSync('mkfifo', [join(path, 'b.csv')]);
    else symlinkSync(kind, join(path, 'b.csv'));
    await expect(selectExamples(custom, { directory: path })).rejects.toThrow(
      /labels\.csv:3:1: names "b\.csv": (?:leads out of |not a regular file)/,
    );
  });

  it('task.yaml as a link out of the folder is refused, and nothing behind it is quoted', () => {
    const outside = join(folder({ 'x.yaml': secret }), 'x.yaml');
    const path = folder({});
    mkdirSync(path);
    symlinkSync(outside, join(path, 'task.yaml'));
    expect(() => readWords(path)).toThrow(/task\.yaml: cannot be read|leads out of/);
    expect(() => readWords(path)).not.toThrow(/superuser/);
  });
});

it('series that an archive pads with NaN are read as shorter ones, and counted in a note', async () => {
  const rows = ['a\t1\tNaN\t3\t4', 'b\t1\t2\tNaN\tNaN'];
  const selection = await select({ 'x.tsv': rows.join('\n') }, { shares: TEST_ONLY });
  const all = [...selection.examples()].map(([, { channels }]) => channels.map((channel) => [...channel]));
  const gap = Number.NaN;
  expect(all).toEqual([[[1, gap, 3, 4]], [[1, 2]]]);
  expect(selection.origin.notes).toContain(
    '1 of 2 series end in missing values in all channels and are read as shorter series; the longest has 4 points',
  );
  const [[, both]] = (await examplesOf({
    'y.ts': '@classLabel true a\n@data\n1,2,NaN,NaN:5,NaN,6,NaN:a\n',
  })) as [[Split, Example]];
  expect(both.channels.map(({ length }) => length)).toEqual([3, 3]);
});

it('targets of a regression are refused with their line, and labels that were not declared are classes', async () => {
  const data = '@data\n1,2,3:0.5\n3,2,1:0.7\n';
  await expect(examplesOf({ 'x.ts': `# c\n@targetLabel true\n${data}` })).rejects.toThrow(
    /x\.ts:2: @targetLabel: the labels are values of a regression/,
  );
  const said = await examplesOf({ 'x.ts': `@classLabel true 1 2\n@targetLabel false\n${data}` });
  expect(said.map(([, { gold }]) => (gold as { readonly class: string }).class)).toEqual(['0.5', '0.7']);
});

describe('thoughts of the user', () => {
  const thoughts = async (files: Readonly<Record<string, string>>): Promise<(string | null | undefined)[]> =>
    (await examplesOf(files)).map(([, { gold }]) => gold.thought);

  it('are read beside every kind of answer', async () => {
    const table = 'class,t0,t1,t2,thought\na,1,2,3,"It rises, evenly."\nb,3,2,1,\n';
    expect(await thoughts({ 'table.csv': table })).toEqual(['It rises, evenly.', undefined]);
    const labels = 'file,intervals,thought\ns0.csv,2-4,A step.\ns1.csv,,\n';
    expect(await thoughts({ 'labels.csv': labels, 's0.csv': points(0), 's1.csv': points(1) })).toEqual([
      'A step.',
      undefined,
    ]);
    const line = {
      channels: [
        [1, 2],
        [2, null],
        [3, 1],
      ],
      variates: [1],
      thought: 'The middle one.',
    };
    expect(await thoughts({ 'all.jsonl': `${JSON.stringify(line)}\n` })).toEqual(['The middle one.']);
  });

  it('of JSON lines stand beside series, splits and recordings', async () => {
    const line = (more: object): string => JSON.stringify({ values: [1, null, 3], class: 'a', ...more });
    const path = {
      'train.jsonl': `${line({ id: 'x', recording: 'r' })}\n\n${line({ class: 'b' })}`,
      'test.jsonl': line({}),
    };
    const [[split, first], [, second], [other]] = (await examplesOf(path, {})) as [
      [Split, Example],
      [Split, Example],
      [Split, Example],
    ];
    expect([split, other].sort()).toEqual(['test', 'train']);
    const all = [first, second].map(({ id, recording, gold }) => ({ id, recording, gold }));
    expect(all).toContainEqual({
      id: 'custom/x',
      recording: 'r',
      gold: { kind: 'classification', class: 'a' },
    });
  });

  it.each<[string, Readonly<Record<string, string>>, RegExp]>([
    [
      'a tag',
      { 't.csv': 'class,t0,t1,thought\na,1,2,<class>a</class>\n' },
      /t\.csv:2:\d+: thought: holds "<class>"/,
    ],
    ['a blank', { 't.jsonl': '{"values":[1,2],"class":"a","thought":" "}' }, /t\.jsonl:1: thought: blank/],
    [
      'a NUL',
      { 't.jsonl': '{"values":[1,2],"class":"a","thought":"line\\n\\tit\\u0000"}' },
      /t\.jsonl:1: thought: holds the control character U\+0000 at character 9; remove it/,
    ],
    [
      'an escape',
      { 't.csv': 'class,t0,t1,thought\na,1,2,\u001b[1mup\n' },
      /t\.csv:2:\d+: thought: holds the control character U\+001B at character 1; remove it/,
    ],
    [
      'a field',
      { 't.jsonl': '{"values":[1,2],"class":"a"}\n{"values":[1,2],"clas":"a"}' },
      /t\.jsonl:2: "clas": unknown field/,
    ],
    [
      'another number of channels',
      { 't.jsonl': '{"values":[1,2],"class":"a"}\n{"channels":[[1,2],[2,1]],"class":"b"}' },
      /t\.jsonl:2: custom\/1: has 2 channels, and custom\/0 has 1 channel; give every series the same/,
    ],
    ['no answer', { 't.jsonl': '{"values":[1,2]}' }, /t\.jsonl:1: no class, intervals or variates/],
    [
      'a number that JSON does not have',
      { 't.jsonl': '{"values":[1,NaN],"class":"a"}' },
      /t\.jsonl:1: not JSON, which has no NaN .* write null/,
    ],
    [
      'a number as text',
      { 't.jsonl': '{"values":[1,"NaN"],"class":"a"}' },
      /t\.jsonl:1: values\[1\]: got "NaN", expected a number or null \(missing\)/,
    ],
    ['no JSON', { 't.jsonl': '{"values":[1,2],' }, /t\.jsonl:1: not JSON/],
  ])('with %s are refused with their line', async (_, files, message) => {
    await expect(examplesOf(files)).rejects.toThrow(message);
  });

  it('are about a whole series, which is not cut then', async () => {
    const files = { 'labels.csv': 'file,class,thought\ns0.csv,a,It waves.\n', 's0.csv': points(0, 40) };
    await expect(examplesOf(files, { shares: TEST_ONLY, window: 20 })).rejects.toThrow(/cut into 2 windows/);
  });
});
