import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type RenderArguments, runRender } from '../../src/commands/render.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { decodePng } from '../helpers/png.ts';
import { nano5 } from '../helpers/series.ts';

let directory: string;
let out: string;
let printed: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-render-'));
  out = join(directory, 'pictures');
  printed = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

const nothing: Pick<
  RenderArguments,
  'split' | 'seed' | 'length' | 'column' | 'index' | 'offset' | 'workers'
> = {
  split: undefined,
  seed: undefined,
  length: undefined,
  column: undefined,
  index: undefined,
  offset: undefined,
  workers: undefined,
};
const run = (source: string, changes: Partial<RenderArguments> = {}) =>
  runRender({
    ...nothing,
    ...{ source, out, figure: 'nano', limit: 3, truth: false, json: true },
    ...changes,
  });
const read = (file: string) => decodePng(readFileSync(join(out, file)));

describe('timeseer render', () => {
  it('draws the first series of a generator, one file each, named after them', async () => {
    await run('nano5', { split: 'test', offset: 4 });
    expect(readdirSync(out).sort()).toEqual(['nano5-test-4.png', 'nano5-test-5.png', 'nano5-test-6.png']);
    const series = nano5(42, 'test', 5);
    expect(read('nano5-test-5.png')).toEqual(renderColumns(figure('nano'), series.values));
    const summary = JSON.parse(printed);
    expect(summary).toMatchObject({ out, figure: 'nano', width: 560, height: 28, pictures: 3 });
    expect(summary.files).toEqual([4, 5, 6].map((i) => join(out, `nano5-test-${i}.png`)));
  });

  it('draws the same with one thread and with several', async () => {
    const single = join(directory, 'single');
    await run('anomllm/freq', { figure: 'anomllm', workers: 2, limit: 5 });
    await run('anomllm/freq', { figure: 'anomllm', workers: 1, limit: 5, out: single });
    const files = readdirSync(out).sort();
    expect(files).toHaveLength(5);
    for (const file of files) {
      expect(readFileSync(join(out, file)).equals(readFileSync(join(single, file))), file).toBe(true);
    }
  });

  it('shades true intervals only when asked to', async () => {
    const green = (file: string) => {
      const { data } = read(file);
      return data.some((red, i) => i % 3 === 0 && data[i + 1]! > red + 60);
    };
    const series = Array.from({ length: 12 }, (_, index) => nano5(42, 'test', index));
    const anomalous = series.findIndex(({ intervals }) => intervals.length > 0);
    await run('nano5', { split: 'test', offset: anomalous, limit: 1 });
    expect(green(`nano5-test-${anomalous}.png`)).toBe(false);
    await run('nano5', { split: 'test', offset: anomalous, limit: 1, truth: true });
    expect(green(`nano5-test-${anomalous}.png`)).toBe(true);
  });

  it('draws a CSV file', async () => {
    const file = join(directory, 'pump 7.csv');
    writeFileSync(file, 'time,pressure,flow\n1,4,9\n2,5,8\n3,-7,1\n');
    await run(file, { column: ['pressure'], json: false });
    expect(read('pump-7.png')).toEqual(renderColumns(figure('nano'), Float64Array.of(4, 5, -7)));
    expect(printed).toMatch(/1 picture of 560 × 28 px \(nano\)/);
  });

  it('refuses wrong arguments before it writes anything', async () => {
    const file = join(directory, 'a.csv');
    writeFileSync(file, '1\n2\n');
    await expect(run('nano55')).rejects.toThrow(/Did you mean nano5/);
    await expect(run('nano5', { limit: 0 })).rejects.toThrow(/--limit/);
    await expect(run('nano5', { offset: -1 })).rejects.toThrow(/--offset/);
    await expect(run('nano5', { workers: 0.5 })).rejects.toThrow(/--workers/);
    await expect(run('nano5', { column: ['x'] })).rejects.toThrow(/--column/);
    await expect(run(file, { seed: 3 })).rejects.toThrow(/--seed/);
    await expect(run('nano5', { out: file })).rejects.toThrow(ConfigError);
    expect(existsSync(out)).toBe(false);
  });
});
