import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readProfile } from '../../src/expcot/class-profile.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { parseClassification } from '../../src/tasks/classification.ts';
import { machines } from '../helpers/classes.ts';
import { inside } from '../helpers/command-line.ts';
import { vtaMultivariate } from '../helpers/series.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('expcot');
const file = (name: string): string => join(directory, name);
afterEach(() => {
  process.exitCode = undefined;
});

/** Labelled series in the format of the classification archive. */
function tsFile(split: 'train' | 'test', count: number): string {
  const rows = machines(split, count).map(({ channels, gold }) => {
    return `${[...channels[0]!].join(',')}:${gold.kind === 'classification' ? gold.class : ''}`;
  });
  return `@problemName Machines\n@classLabel true fan pump idle\n@data\n${rows.join('\n')}\n`;
}

beforeAll(() => {
  const wave = Array.from({ length: 600 }, (_, i) => Math.sin(i / 8) + (i >= 300 && i < 303 ? 9 : 0));
  writeFileSync(
    file('spike.csv'),
    `time,value,other\n${wave.map((v, i) => `${i},${v},${Math.cos(i / 8)}`).join('\n')}\n`,
  );
  writeFileSync(
    file('gap.out'),
    wave.map((v, i) => `${i === 50 || i === 51 ? 'NaN' : v},${i >= 300 && i < 303 ? 1 : 0}`).join('\n'),
  );
  const { channels } = vtaMultivariate('square', 3407, 'test', 1, { variates: 4 });
  writeFileSync(
    file('grid.ts'),
    `@classLabel false\n@data\n${channels.map((channel) => [...channel].join(',')).join(':')}\n`,
  );
  writeFileSync(
    file('grid.csv'),
    `a,b,c,d\n${Array.from(channels[0]!, (_, t) => channels.map((channel) => channel[t]).join(',')).join('\n')}\n`,
  );
  writeFileSync(file('huge.csv'), `value\n${[1, 1e300, 2, 1].join('\n')}\n`);
  writeFileSync(file('train.ts'), tsFile('train', 30));
  writeFileSync(file('test.ts'), tsFile('test', 6));
});

async function json(...args: string[]) {
  const { out, err, code } = await inside('expcot', ...args, '--json');
  expect(err).toBe('');
  expect(code).toBe(0);
  return JSON.parse(out);
}

describe('timeseer expcot', () => {
  it('prints evidence and trace of a CSV column', async () => {
    const { out, code } = await inside('expcot', file('spike.csv'), '--column', 'value');
    expect(code).toBe(0);
    expect(out).toMatch(/^spike: 600 points, blind trace\n\nEvidence\n/);
    expect(out).toMatch(/\n {2}range\.maxAbsZ +\d/);
    expect(out).toMatch(/\n {2}range\.intervals +\[300,303\]\n/);
    expect(out).toMatch(
      /\n\nTrace\n<think>Observation: [\s\S]+<\/think><answer>\[\[300, 303\]\]<\/answer><class>global point<\/class>\n$/,
    );
  });

  it('gives the same as JSON, and tells several columns as channels', async () => {
    const one = await json(file('spike.csv'), '--column', 'value');
    expect(one).toMatchObject({ series: 'spike', mode: 'blind', kind: 'anomaly' });
    expect(one.evidence[0]).toMatchObject({ channel: 'value', length: 600 });
    expect(one.trace.answer).toEqual({ kind: 'anomaly', class: 'global point', intervals: [[300, 303]] });
    const two = await json(file('spike.csv'), '--column', 'other', '--column', 'value');
    expect(two.trace.think).toContain('Of 2 channels the anomaly shows best in value');
    expect(two.evidence).toHaveLength(2);
  });

  it('argues for intervals of the file or of the command line', async () => {
    const own = await json(file('gap.out'), '--mode', 'teacher');
    expect(own.trace.answer).toMatchObject({ intervals: [[300, 303]] });
    expect(own.trace.think).toContain('2 samples are missing (1 gap)');
    expect(parseAnswer(own.trace.text, 600).wellFormed).toBe(true);
    const stated = await json(
      file('gap.out'),
      '--mode',
      'teacher',
      '--intervals',
      '[[100, 120]]',
      '--class',
      'seasonal',
    );
    expect(stated.trace.text).toMatch(/<answer>\[\[100, 120\]\]<\/answer><class>seasonal<\/class>$/);
  });

  it('reads empty cells of a CSV file as missing points, with a column named or not', async () => {
    const cells = Array.from({ length: 300 }, (_, i) =>
      i === 40 || i === 41 || i === 200 ? '' : Math.sin(i / 8),
    );
    writeFileSync(file('holes.csv'), `time,level\n${cells.map((cell, i) => `${i},${cell}`).join('\n')}\n`);
    for (const more of [[], ['--column', 'level']]) {
      const { trace } = await json(file('holes.csv'), ...more);
      expect(trace.think).toContain('3 samples are missing (2 gaps, the longest of 2)');
      expect(trace.answer).toMatchObject({ intervals: [] });
    }
  });

  it('learns classes from labelled series, keeps them, and tells the class of another', async () => {
    const learned = await json(
      file('test.ts'),
      '--record',
      '1',
      '--classes',
      file('train.ts'),
      '--save-classes',
      file('classes.json'),
    );
    expect(learned.kind).toBe('classification');
    expect(learned.trace.answer).toEqual({ kind: 'classification', class: 'pump' });
    expect(parseClassification(learned.trace.text).wellFormed).toBe(true);
    const profile = readProfile(readFileSync(file('classes.json'), 'utf8'), 'classes.json');
    expect(profile.classes.map(({ count }) => count)).toEqual([10, 10, 10]);
    const again = await json(file('test.ts'), '--record', '1', '--classes', file('classes.json'));
    expect(again.trace).toEqual(learned.trace);
    const { out } = await inside(
      'expcot',
      file('test.ts'),
      '--classes',
      file('classes.json'),
      '--mode',
      'teacher',
    );
    expect(out).toMatch(/Evidence\n +\d+ % {2}fan \(10 training examples\)/);
    expect(out).toMatch(/<class>fan<\/class>\n$/);
  });

  it('scores a set whose anomalies have no kind by the normal series that it leaves alone', async () => {
    const folder = file('plain');
    mkdirSync(folder);
    const wave = (spike: boolean): string =>
      [
        'value',
        ...Array.from({ length: 400 }, (_, i) => Math.sin(i / 7) + (spike && i === 200 ? 9 : 0)),
      ].join('\n');
    for (let i = 0; i < 6; i++) writeFileSync(join(folder, `${i}.csv`), wave(i % 2 === 1));
    const rows = Array.from({ length: 6 }, (_, i) => `${i}.csv,${i % 2 === 1 ? '200-201' : ''},test`);
    writeFileSync(join(folder, 'labels.csv'), ['file,intervals,split', ...rows].join('\n'));
    const set = file('plain-set');
    const made = await inside('data', 'prepare', 'custom', '--from', folder, '--out', set, '--no-figures');
    expect([made.code, made.err]).toEqual([0, expect.not.stringContaining('error')]);
    const { out } = await inside('expcot', set, '--score');
    expect(out).toBe(`${set} test: 6 series; leaves 100.0 % of the 3 normal ones alone; mean F1 1.000\n`);
  });

  it('names the channels that are unlike the others', async () => {
    const found = await json(file('grid.ts'), '--kind', 'variates');
    expect(found.evidence.variates).toHaveLength(4);
    const { variates } = vtaMultivariate('square', 3407, 'test', 1, { variates: 4 });
    expect(found.trace.text).toContain(`</think><answer>[${variates.join(', ')}]</answer>`);
  });

  it('compares all columns of numbers of a CSV file where none is chosen', async () => {
    const found = await json(file('grid.csv'), '--kind', 'variates');
    const other = await json(file('grid.ts'), '--kind', 'variates');
    expect(found.trace.answer).toEqual(other.trace.answer);
    expect(found.evidence.variates).toHaveLength(4);
  });

  it.each([
    [['spike.csv'], /2 columns of numbers/],
    [['none.csv'], /none\.csv: cannot be read \(no such file or directory\)\n$/],
    [['.'], /not a prepared data set/],
    [['test.ts', '--record', '6'], /--record 6: the file holds 6 series/],
    [['test.ts', '--record', '-1'], /--record: expected a whole number/],
    [['test.ts', '--column', 'a'], /--column belongs to CSV files/],
    [['test.ts', '--score'], /--score: .*test\.ts is a file\. Prepare a data set/],
    [['test.ts', '--split', 'test'], /--split: .*test\.ts is a file, which has no splits/],
    [['test.ts', '--class', 'fan'], /--class is for --mode teacher/],
    [['test.ts', '--classes', 'train.ts', '--kind', 'variates'], /--kind does not go with --classes/],
    [['test.ts', '--save-classes', 'x.json'], /no classes were learned\. Give --classes/],
    [
      ['test.ts', '--mode', 'teacher'],
      /--mode teacher: test\/0 has no gold answer\. Give it with --intervals/,
    ],
    [['grid.ts', '--kind', 'variates', '--mode', 'teacher'], /prepared data set/],
    [['grid.ts', '--classes', 'train.ts'], /4 channels, the profile of train has 1/],
    [['gap.out', '--mode', 'teacher', '--intervals', '[[5, 5]]'], /--intervals: interval \[5, 5\] is empty/],
    [
      ['gap.out', '--mode', 'teacher', '--class', 'normal', '--intervals', '[[65, 75]]'],
      /--class normal: contradicts the intervals \[\[65,75\]\]/,
    ],
    [
      ['gap.out', '--mode', 'teacher', '--class', 'trend', '--intervals', '[]'],
      /--class trend: needs intervals; add --intervals/,
    ],
    [
      ['gap.out', '--mode', 'teacher', '--intervals', '[[65, 7500]]'],
      /--intervals: \[65, 7500\] ends beyond the series of 600 points/,
    ],
    [
      ['gap.out', '--mode', 'teacher', '--intervals', '[[70, 90], [65, 75]]'],
      /--intervals: \[65, 75\] and \[70, 90\] overlap/,
    ],
    [['huge.csv'], /huge\.csv: .*point 1 of channel value is 1e\+300, beyond ±1e\+30; rescale the series/],
    [['test.ts', '--classes', 'train.ts', '--save-classes', 'gap.out'], /exists and holds no classes/],
    [['gap.out', '--mode', 'teacher', '--class', 'odd'], /--class odd: expected one of contextual point/],
    [['test.ts', '--classes', 'gap.out'], /has no class; classes are learned from labelled series/],
  ])('refuses %j', async (args, message) => {
    const paths = args.map((word, i) => (i === 0 || /\.(?:ts|out|json|csv)$/.test(word) ? file(word) : word));
    const { code, err, out } = await inside('expcot', ...paths);
    expect(err).toMatch(message);
    expect(out).toBe('');
    expect(code).toBeGreaterThan(0);
  });
});
