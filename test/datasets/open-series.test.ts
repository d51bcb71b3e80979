import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ExampleSet } from '../../datasets/example-set.ts';
import type { Picture } from '../../src/ground/types.ts';
import { figure } from '../../src/plot/figure.ts';
import { render } from '../../src/plot/raster.ts';
import { drawingOf } from '../../src/tasks/drawing.ts';
import { inside } from '../helpers/command-line.ts';
import { decodePng } from '../helpers/png.ts';
import { temporary } from '../helpers/temporary.ts';
import { writeWhales } from '../helpers/whales.ts';

const root = temporary('render-source');
let made = 0;
const freshPath = (name = ''): string => join(root, `r${made++}${name}`);
const read = (file: string): Picture => decodePng(readFileSync(file));

async function drawn(source: string, ...more: string[]): Promise<Picture> {
  const out = freshPath('.png');
  const { code, err } = await inside('render', source, '--out', out, ...more);
  expect(err).not.toMatch(/error/);
  expect(code).toBe(0);
  return read(out);
}

async function refused(source: string, ...more: string[]): Promise<string> {
  const out = freshPath();
  const { code, err } = await inside('render', source, '--out', out, ...more);
  expect(code).toBeGreaterThan(0);
  expect(existsSync(out)).toBe(false);
  return err;
}

async function prepared(task: string, ...more: string[]): Promise<string> {
  const out = freshPath();
  expect((await inside('data', 'prepare', task, '--out', out, ...more)).code).toBe(0);
  return out;
}

function file(name: string, text: string): string {
  const folder = freshPath();
  mkdirSync(folder);
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

/** Share of pixels that are clearly green. */
const green = ({ data }: Picture): number => {
  let count = 0;
  for (let i = 0; i < data.length; i += 3) if (data[i + 1]! > Math.max(data[i]!, data[i + 2]!) + 15) count++;
  return count / (data.length / 3);
};

describe('timeseer render of prepared data sets', () => {
  it('draws one example by its index as the data set says, missing points joined', async () => {
    const set = await prepared('vta/irregular', '--count', '3');
    const example = new ExampleSet(set).at('test', 2);
    expect(example.channels[0]!.some((value) => Number.isNaN(value))).toBe(true);
    const joined = figure('vta', { missing: 'join' });
    expect(await drawn(set, '--split', 'test', '--index', '2')).toEqual(
      await render(joined, example.channels[0]!),
    );
    expect(await refused(set, '--split', 'test', '--index', '3')).toMatch(
      /no example 3 of it.*train 3, validation 3, test 3/,
    );
  });

  it('draws grids of differently many variates into one directory, and marks the true ones', async () => {
    const set = await prepared('vta/multivariate', '--count', '2', '--split', 'test');
    const [plain, marked] = [freshPath(), freshPath()];
    await inside('render', set, '--out', plain);
    const { out } = await inside('render', set, '--truth', '--out', marked, '--json');
    expect(JSON.parse(out)).toMatchObject({ pictures: 2, width: 1000, height: 1000, figure: 'vta-grid' });
    for (const name of readdirSync(plain)) {
      expect(green(read(join(plain, name)))).toBe(0);
      expect(green(read(join(marked, name)))).toBeGreaterThan(0.01);
    }
  });

  it('draws whale calls in their figure, which have no intervals to shade', async () => {
    const set = await prepared('rcw', '--from', writeWhales(freshPath()));
    const example = new ExampleSet(set).at('test', 0);
    const { figure: shape, values } = drawingOf(example, { preset: 'rcw', missing: 'break' });
    expect(await drawn(set, '--split', 'test')).toEqual(await render(shape, values));
    expect((await drawn(set, '--split', 'test', '--figure', 'ctu')).height).toBe(figure('ctu').height);
    expect(await refused(set, '--truth')).toMatch(/have classes, not intervals/);
  });

  it('refuses what belongs to generators, and picks channels by name', async () => {
    const table = file('labels.csv', 'file,class\na.csv,x\nb.csv,y\n');
    for (const name of ['a.csv', 'b.csv']) {
      writeFileSync(join(table, '..', name), 'u,v\n1,5\n2,3\n4,-1\n3,0\n');
    }
    const set = await prepared('custom', '--from', join(table, '..'), '--shares', '1,0,1');
    const example = new ExampleSet(set).at('train', 0);
    expect(example.names).toEqual(['u', 'v']);
    expect(await drawn(set)).toEqual(
      await render(figure('line', { channels: ['u', 'v'], legend: 'above' }), example.channels),
    );
    expect(await drawn(set, '--column', 'v')).toEqual(
      await render(figure('line', { channels: ['v'] }), example.channels[1]!),
    );
    expect(await refused(set, '--column', 'w')).toMatch(/has the channels u, v/);
    expect(await refused(set, '--seed', '3')).toMatch(/--seed belongs to generators/);
    expect(await drawn(set, '--figure', 'nano-analysis')).toMatchObject({ width: 560, height: 56 });
  });
});

describe('timeseer render of files', () => {
  it('draws all columns of a table over its times, with a legend', async () => {
    const rows = ['2020-01-01', '2020-01-02', '2020-01-05'].map((day, i) => `${day},${i},${3 - i * i}`);
    const path = file('pump.csv', `\ufeffdate,pressure,flow\n${rows.join('\n')}\n`);
    const shape = figure('line', {
      channels: ['pressure', 'flow'],
      legend: 'above',
      time: true,
      xLabel: '',
    });
    const times = Float64Array.of(Date.UTC(2020, 0, 1), Date.UTC(2020, 0, 2), Date.UTC(2020, 0, 5));
    const values = [Float64Array.of(0, 1, 2), Float64Array.of(3, 2, -1)];
    expect(await drawn(path)).toEqual(await render(shape, values, times));
  });

  it('columns of a German table, and none of words or times', async () => {
    const path = file('werte.csv', 'time;druck;ort;fluss\n1;4;A;3\n2;5;B;-2\n3;1;C;0\n');
    const shape = figure('line', {
      channels: ['druck', 'fluss'],
      legend: 'above',
      step: null,
      xLabel: 'Time',
    });
    const values = [Float64Array.of(4, 5, 1), Float64Array.of(3, -2, 0)];
    expect(await drawn(path)).toEqual(await render(shape, values, Float64Array.of(1, 2, 3)));
  });

  it('draws the series of a .ts file one by one, missing points as gaps', async () => {
    const path = file('two.ts', '@classLabel true a b\n@data\n1,2,?,4,9:a\n5,3,1,7,2:b\n');
    const out = freshPath();
    const { out: text } = await inside('render', path, '--out', out, '--figure', 'ctu');
    expect(text).toMatch(/2 pictures of 580 × 230 px \(ctu\)/);
    expect(readdirSync(out)).toHaveLength(2);
    const gap = Float64Array.of(1, 2, Number.NaN, 4, 9);
    expect(await drawn(path, '--figure', 'ctu')).toEqual(await render(figure('ctu'), gap));
    expect(await refused(path, '--index', '2')).toMatch(/two\.ts: holds 2 series.*no number 2/);
  });

  it('marks the labelled points of a file', async () => {
    const text = Array.from({ length: 60 }, (_, t) => `${Math.sin(t / 5)},${t >= 20 && t < 30 ? 1 : 0}`);
    const path = file('x.out', `${text.join('\n')}\n`);
    expect(green(await drawn(path))).toBe(0);
    expect(green(await drawn(path, '--truth'))).toBeGreaterThan(0.05);
    const wide = file('x.csv', `v,Label,w\n${text.map((line, t) => `${line},${t % 7}`).join('\n')}\n`);
    expect(green(await drawn(wide, '--truth', '--column', 'v'))).toBeGreaterThan(0.05);
    // A count is no label, however it begins.
    const counts = Array.from({ length: 200 }, (_, t) => `${Math.sin(t / 5)},${t < 150 ? t % 2 : t}`);
    const counted = file('x.csv', `v,anomaly\n${counts.join('\n')}\n`);
    expect(green(await drawn(counted, '--truth', '--column', 'v'))).toBe(0);
  });

  it('a figure of several channels takes the channels that there are', async () => {
    const path = file('one.csv', 'value\n1\n2\n4\n');
    expect((await drawn(path, '--figure', 'har')).width).toBe(figure('har').width);
  });

  it.each<[string, string, string[], RegExp]>([
    ['a.csv', 'v\n1\nx\n', [], /a\.csv:3:1: .*not a number/],
    ['a.csv', 'v\n1\n2\n', ['--split', 'test'], /--split belongs to data sets, and .*a\.csv is a file/],
    ['a.csv', 'v\n1\n2\n', ['--column', 'w'], /w/],
    ['a.xyz', 'v\n1\n2\n', [], /no format has this extension/],
    ['a.ts', '@data\n1,2,3:4,5:b\n', [], /channels of 3 and 2 points/],
    ['a.npy', 'no', [], /a\.npy/],
    ['a.csv', '', [], /a\.csv: empty/],
  ])('refuses %s with %j %j before it writes', async (name, text, more, reason) => {
    expect(await refused(file(name, text), ...more)).toMatch(reason);
  });
});

describe('timeseer render of names', () => {
  it('draws generated tasks that are no univariate generator', async () => {
    const out = freshPath();
    await inside('render', 'vta/multivariate', '--out', out, '--limit', '2', '--offset', '3');
    expect(readdirSync(out)).toHaveLength(2);
    expect(new Set(readdirSync(out)).size).toBe(2);
  });

  it('generators have the figure of their task, in any case', async () => {
    expect(await drawn('NANO5')).toMatchObject({ width: 560, height: 28 });
    const own = await drawn('vta/trend', '--index', '2');
    expect(own).toEqual(await drawn('vta/trend', '--index', '2', '--figure', 'vta'));
  });

  it('says how to get a task that is made from files, and names files that are not there', async () => {
    expect(await refused('CTU')).toMatch(/timeseer data prepare ctu --out DIR/);
    expect(await refused(join(root, 'gone.csv'))).toMatch(/gone\.csv: no such file/);
  });

  it('one file is one picture', async () => {
    const two = await inside('render', 'nano5', '--limit', '2', '--out', freshPath('.png'));
    expect([two.code, two.err]).toEqual([2, expect.stringContaining('one file for 2 pictures')]);
    const both = await inside('render', 'nano5', '--index', '2', '--limit', '2', '--out', freshPath());
    expect([both.code, both.err]).toEqual([2, expect.stringContaining('--index is one series')]);
    expect(await drawn('nano5', '--index', '4', '--figure', 'nano')).toMatchObject({
      width: 560,
      height: 28,
    });
  });
});
