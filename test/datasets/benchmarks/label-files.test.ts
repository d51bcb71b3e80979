/** Folders whose point labels are in files of their own: the forms of SMD, TranAD, PSM, SMAP and MSL. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { custom } from '../../../datasets/benchmarks/custom.ts';
import { labelFiles } from '../../../datasets/benchmarks/label-files.ts';
import { selectExamples } from '../../../datasets/prepare.ts';
import type { Split } from '../../../datasets/split.ts';
import type { Example, Interval } from '../../../src/ground/types.ts';
import { dict, npy } from '../../helpers/numpy-files.ts';
import { temporary } from '../../helpers/temporary.ts';

type Files = Readonly<Record<string, string | Buffer>>;

const root = temporary('labels');
let made = 0;

async function read(
  files: Files,
  window: number | null = null,
  more: { shares?: Readonly<Record<Split, number>> } = {},
): Promise<{ all: (readonly [Split, Example])[]; notes: readonly string[] }> {
  const directory = join(root, `c${made++}`);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), content);
  }
  const selection = await selectExamples(custom, { directory, window, ...more });
  return { all: [...selection.examples()], notes: selection.origin.notes ?? [] };
}

const POINTS = 23;
/** Anomalous points, at both ends and inside, no two runs of one length. */
const MARKED = new Set([0, 4, 5, 6, 13, 14, 21, 22]);
const TRUTH: readonly Interval[] = [
  [0, 1],
  [4, 7],
  [13, 15],
  [21, 23],
];
/** Value of a point, different for every point, channel and file. */
const value = (t: number, c: number, seed = 0): number => 100 * seed + 10 * c + t * t * 0.125;
const rows = <T>(row: (t: number) => T, count = POINTS): T[] =>
  Array.from({ length: count }, (_, t) => row(t));
const table = (seed = 0, count = POINTS): string =>
  rows((t) => [0, 1, 2].map((c) => value(t, c, seed)).join(','), count).join('\n');
const mark = (t: number): 0 | 1 => (MARKED.has(t) ? 1 : 0);
const marks = (count = POINTS): string => `${rows(mark, count).join('\n')}\n`;
const doubles = (shape: string, values: readonly number[], fortran = 'False'): Buffer =>
  npy(dict("'<f8'", shape, fortran), Buffer.from(Float64Array.from(values).buffer));
const array = (seed = 0): Buffer =>
  doubles(`${POINTS}, 2`, rows((t) => [value(t, 0, seed), value(t, 1, seed)]).flat());
const bools = (shape: string, values: readonly number[]): Buffer =>
  npy(dict("'|b1'", shape), Buffer.from(values));
const channels = (count: number, seed = 0): Float64Array[] =>
  Array.from({ length: count }, (_, c) => Float64Array.from(rows((t) => value(t, c, seed))));

describe('series and labels in files of their own', () => {
  it('SMD: the files of test/ and test_label/ of one name, without those of train/', async () => {
    const { all, notes } = await read({
      'train/machine-1-1.txt': table(5),
      'train/machine-3-11.txt': table(6),
      'test/machine-1-1.txt': table(1),
      'test/machine-3-11.txt': table(2),
      'test_label/machine-1-1.txt': marks(),
      'test_label/machine-3-11.txt': rows((t) => (t === 9 ? '1.0' : '0.0')).join('\r\n'),
      'interpretation_label/machine-1-1.txt': '4-6:1,2\n',
    });
    expect(all.map(([split, { id, gold }]) => [split, id, gold])).toEqual([
      ['test', 'custom/test/machine-1-1.txt', { kind: 'anomaly', class: null, intervals: TRUTH }],
      ['test', 'custom/test/machine-3-11.txt', { kind: 'anomaly', class: null, intervals: [[9, 10]] }],
    ]);
    expect(all.map(([, { channels }]) => channels)).toEqual([channels(3, 1), channels(3, 2)]);
    expect(notes).toEqual([
      'series labelled by files of their own: test/machine-1-1.txt, test/machine-3-11.txt',
      'left out (training series, assumed normal but not labelled): train/machine-1-1.txt, train/machine-3-11.txt',
      'left out (no labels of points, or labels without their series): interpretation_label/machine-1-1.txt',
    ]);
  });

  it('windows, and columns of task.yaml, are those of other labelled points', async () => {
    const apart = await read(
      { 'test/m.txt': table(1), 'test_label/m.txt': marks(), 'task.yaml': 'columns: [column 3]' },
      16,
    );
    const lines = table(1).split('\n');
    const joined = await read(
      {
        'm.csv': `a,b,c,Label\n${rows((t) => `${lines[t]},${mark(t)}`).join('\n')}\n`,
        'task.yaml': 'columns: [c]',
      },
      16,
      { shares: { train: 0, validation: 0, test: 1 } },
    );
    const seen = ({ all }: typeof apart) =>
      all.map(([split, { gold, channels, names, times }]) => ({ split, gold, channels, names, times }));
    expect(apart.all.map(([, { id }]) => id)).toEqual(['custom/test/m.txt/0', 'custom/test/m.txt/1']);
    expect(seen(apart)).toEqual(seen(joined));
    expect(apart.all[0]![1].channels[0]![1]).toBe(value(1, 2, 1));
  });

  it.each<[string, string, string, Buffer, Buffer, number]>([
    ['booleans', 'MSL_test.npy', 'MSL_test_label.npy', array(), bools(`${POINTS},`, rows(mark)), 2],
    [
      'integers, of a single channel',
      'X_test.npy',
      'X_test_label.npy',
      doubles(`${POINTS},`, [...channels(1)[0]!]),
      npy(dict("'<i8'", `${POINTS},`), Buffer.from(BigInt64Array.from(rows((t) => BigInt(mark(t)))).buffer)),
      1,
    ],
    [
      'floats, of an array in Fortran order',
      'test.npy',
      'test_label.npy',
      doubles(
        `${POINTS}, 2`,
        channels(2).flatMap((channel) => [...channel]),
        'True',
      ),
      doubles(`${POINTS}, 1`, rows(mark)),
      2,
    ],
    ['a plain name', 'test.npy', 'labels.npy', array(), doubles(`${POINTS},`, rows(mark)), 2],
    ['a folder', 'test.npy', 'labels/test.npy', array(), doubles(`${POINTS},`, rows(mark)), 2],
  ])('arrays with labels of %s', async (_, series, labels, values, marked, count) => {
    const { all, notes } = await read({ [series]: values, [labels]: marked, 'MSL_train.npy': array(7) });
    expect(all).toHaveLength(1);
    const [split, example] = all[0]!;
    expect(split).toBe('test');
    expect(example.channels).toEqual(channels(count));
    expect(example.gold).toEqual({ kind: 'anomaly', class: null, intervals: TRUTH });
    expect(notes).toContain('left out (training series, assumed normal but not labelled): MSL_train.npy');
  });

  it('TranAD: labels of each channel mark the points where any is anomalous', async () => {
    const each = rows((t) => [mark(t) && t < 10 ? 1 : 0, mark(t) && t > 5 ? 1 : 0]).flat();
    const { all, notes } = await read({
      'machine-1-1_test.npy': array(),
      'machine-1-1_labels.npy': doubles(`${POINTS}, 2`, each),
    });
    expect(all.map(([, { gold }]) => gold)).toEqual([{ kind: 'anomaly', class: null, intervals: TRUTH }]);
    expect(notes).toContain(
      'machine-1-1_labels.npy: labels of 2 channels; a point is anomalous where any of them is',
    );
  });

  it('PSM: the columns of minutes are no channels', async () => {
    const psm = (seed: number): string =>
      `timestamp_(min),feature_0,feature_1\n${rows((t) => `${t}.0,${value(t, 0, seed)},${t === 3 ? '' : value(t, 1, seed)}`).join('\n')}`;
    const { all } = await read({
      'train.csv': psm(4),
      'test.csv': psm(1),
      'test_label.csv': `timestamp_(min),label\n${rows((t) => `${t},${mark(t)}`).join('\n')}\n`,
    });
    const [[split, { names, channels: values, gold }]] = all as [readonly [Split, Example]];
    expect([split, names]).toEqual(['test', ['feature_0', 'feature_1']]);
    const [first, second] = channels(2, 1) as [Float64Array, Float64Array];
    second[3] = Number.NaN;
    expect(values).toEqual([first, second]);
    expect(gold).toMatchObject({ intervals: TRUTH });
  });

  it('a column of labels is found by its name, whatever the names of others', async () => {
    const { all } = await read({
      'test.csv': `b,a\n${rows((t) => `${t % 2},${value(t, 0)}`).join('\n')}`,
      'test_label.csv': `label,time,source 1\n${rows((t) => `${mark(t)},${t},0`).join('\n')}`,
    });
    expect(all.map(([, { gold }]) => gold)).toMatchObject([{ intervals: TRUTH }]);
  });

  const telemanom = (...lines: string[]): string =>
    `chan_id,spacecraft,anomaly_sequences,class,num_values\n${lines.join('\n')}\n`;

  it('SMAP and MSL: both ends of a sequence are anomalous, and two lines of a channel are one', async () => {
    const { all, notes } = await read({
      'data/train/P-2.npy': array(3),
      'data/test/P-2.npy': array(1),
      'data/test/D-1.npy': array(2),
      'data/test/T-10.npy': array(4),
      'y_hat/P-2.npy': array(5),
      'labeled_anomalies.csv': telemanom(
        `P-2,SMAP,"[[13, 14], [4, 5]]","[point, point]",${POINTS}`,
        `E-1,SMAP,"[[1, 2]]",[point],${POINTS}`,
        `D-1,SMAP,[],[],${POINTS}`,
        `P-2,SMAP,"[[0, 0], [5, 6], [21, 22]]",[contextual],${POINTS}`,
      ),
    });
    expect(all.map(([split, { id, gold }]) => [split, id, gold])).toEqual([
      ['test', 'custom/data/test/D-1.npy', { kind: 'anomaly', class: 'normal', intervals: [] }],
      ['test', 'custom/data/test/P-2.npy', { kind: 'anomaly', class: null, intervals: TRUTH }],
    ]);
    expect(notes).toContain(
      'left out (no labels of points, or labels without their series): y_hat/P-2.npy, data/test/T-10.npy',
    );
  });

  it.each([
    [`"[[4, ${POINTS}]]"`, POINTS, /labeled_anomalies\.csv:2:10: sequences "\[\[4, 23\]\]" of "23" points/],
    ['"[[6, 4]]"', POINTS, /sequences "\[\[6, 4\]\]" of/],
    ['"[4, 6]"', POINTS, /expected \[\[first, last\], …\] from 0/],
    ['"[[4, 6]]"', POINTS + 2, /labeled_anomalies\.csv: 25 labels, but .*test\/P-1\.npy has 23 points/],
  ])('SMAP: sequences %s of %i points are refused', async (sequences, count, message) => {
    const list = telemanom(`P-1,SMAP,${sequences},[point],${count}`);
    await expect(read({ 'test/P-1.npy': array(), 'labeled_anomalies.csv': list })).rejects.toThrow(message);
  });

  it('paths from the current folder pair as others do', () => {
    const pairs = [
      ['labels.npy', 'test.npy'],
      ['labels/m.npy', 'm.npy'],
      ['test_label/m.txt', 'test/m.txt'],
      ['a/b_labels.npy', 'a/b_test.npy'],
    ];
    for (const pair of pairs) expect(labelFiles(pair)).toEqual([pair]);
  });

  it('labelled training series keep their split, and names without a split are drawn', async () => {
    const both = await read({
      'X_train.npy': array(1),
      'X_train_label.npy': bools(`${POINTS},`, rows(mark)),
      'X_test.npy': array(2),
      'X_test_label.npy': bools(`${POINTS},`, rows(mark)),
    });
    expect(both.all.map(([split, { id }]) => `${split} ${id}`)).toEqual([
      'test custom/X_test.npy',
      'train custom/X_train.npy',
    ]);
    const files = Object.fromEntries(
      ['a', 'b', 'c'].flatMap((name, i) => [
        [`${name}.npy`, array(i)],
        [`${name}_label.npy`, bools(`${POINTS},`, rows(mark))],
      ]),
    );
    const drawn = await read(files, null, { shares: { train: 1, validation: 1, test: 1 } });
    expect(new Set(drawn.all.map(([split]) => split)).size).toBe(3);
  });
});

describe('labels that do not fit are refused', () => {
  const smd = (labels: string | Buffer): Files => ({ 'test/m.txt': table(), 'test_label/m.txt': labels });
  it.each<[string, Files, RegExp]>([
    ['fewer labels', smd(marks(22)), /test_label\/m\.txt: 22 labels, but .*test\/m\.txt has 23 points/],
    ['more labels', smd(marks(25)), /test_label\/m\.txt: 25 labels, but .*test\/m\.txt has 23 points/],
    ['an empty file', smd(''), /test_label\/m\.txt: empty/],
    [
      'a missing label',
      smd(marks().replace('1', 'nan')),
      /test_label\/m\.txt: "column 1", point 1 of 23: NaN; a label is 0 or 1/,
    ],
    ['a label 2', smd('0\n1\n2\n'), /test_label\/m\.txt: "column 1", point 3 of 3: 2; a label is 0 or 1/],
    ['words', smd('0\nyes\n1\n'), /test_label\/m\.txt:2:1: "yes" in column "column 1" is not a number/],
    ['two columns', smd(marks().replaceAll('\n', ',0\n').trimEnd()), /call the column of labels "label"/],
    [
      'an array of labels with NaN',
      {
        'a_test.npy': array(),
        'a_test_label.npy': doubles(
          `${POINTS},`,
          rows((t) => (t === 2 ? Number.NaN : 0)),
        ),
      },
      /a_test_label\.npy: "channel 1", point 3 of 23: NaN/,
    ],
    [
      'an array of windows',
      {
        'a_test.npy': doubles(
          '2, 3, 4',
          Array.from({ length: 24 }, (_, i) => i),
        ),
        'a_test_label.npy': bools('2,', [0, 1]),
      },
      /a_test\.npy: 2 series; expected one, with a row for each point/,
    ],
    [
      'an empty array',
      { 'a_test.npy': array(), 'a_test_label.npy': bools('0,', []) },
      /a_test_label\.npy: an empty array/,
    ],
    [
      'two files of labels',
      {
        'a_test.npy': array(),
        'a_test_label.npy': bools(`${POINTS},`, rows(mark)),
        'a_labels.npy': bools(`${POINTS},`, rows(mark)),
      },
      /a_test\.npy: labelled by a_labels\.npy and a_test_label\.npy; keep one/,
    ],
  ])('%s', async (_, files, message) => {
    await expect(read(files)).rejects.toThrow(message);
  });

  it('a further file of labels is left out with a note', async () => {
    const { all, notes } = await read({
      ...smd(marks()),
      'test_label/other.txt': marks(),
      'test/third.txt': table(),
    });
    expect(all).toHaveLength(1);
    expect(notes).toContain(
      'left out (no labels of points, or labels without their series): test/third.txt, test_label/other.txt',
    );
  });

  it.each<[string, Files, RegExp]>([
    [
      'interpretations',
      { 'test/m.txt': table(), 'interpretation_label/m.txt': '4-6:1\n' },
      /\(interpretation_label\/m\.txt\)/,
    ],
    ['another form', { 'test/m.mat': '', 'test_label/m.mat': '' }, /\(test_label\/m\.mat\)/],
    ['another folder', { 'a/m.npy': array(), 'b/m_label.npy': array() }, /\(b\/m_label\.npy\)/],
    [
      'a list without series',
      {
        'train/P-1.npy': array(),
        'labeled_anomalies.csv': 'chan_id,spacecraft,anomaly_sequences,class,num_values\n',
      },
      /\(labeled_anomalies\.csv\)/,
    ],
  ])('labels without their series: %s', async (_, files, named) => {
    await expect(read(files)).rejects.toThrow(named);
    await expect(read(files)).rejects.toThrow(
      /without their series; call them test\/a\.txt and test_label\/a\.txt/,
    );
  });

  it('a list of anomalies of another form is refused', async () => {
    const files = { 'test/P-1.npy': array(), 'labeled_anomalies.csv': 'chan_id,class\nP-1,point\n' };
    await expect(read(files)).rejects.toThrow(
      /labeled_anomalies\.csv:1: expected the header chan_id,spacecraft,/,
    );
  });
});
