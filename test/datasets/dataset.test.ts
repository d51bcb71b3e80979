import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { Dataset, type Origin, seriesLine, writeDataset } from '../../datasets/dataset.ts';
import { anomllm } from '../../datasets/generators/anomllm.ts';
import { nano5 } from '../../datasets/generators/nano5.ts';
import { parseSeries } from '../../datasets/validate.ts';
import { DataError } from '../../src/errors.ts';
import { WriteError } from '../../src/files.ts';
import { checkIntervals } from '../../src/tasks/anomaly.ts';
import { ANOMALY_CLASSES, type Interval, type LabeledSeries } from '../../src/types.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-dataset-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let made = 0;
const freshPath = (): string => join(root, `set${made++}`);

const ORIGIN: Origin = {
  name: 'sample',
  generator: null,
  parameters: { noise: 0.1 },
  split: 'test',
  seed: 7,
  offset: 0,
};

const nano = (count: number): LabeledSeries[] =>
  Array.from({ length: count }, (_, i) => nano5(7, 'test', i, 250));

async function written(series: Iterable<LabeledSeries>): Promise<string> {
  const path = freshPath();
  await writeDataset(path, ORIGIN, series);
  return path;
}

/** Changes the data file, and signs it again unless told not to, so that only the lines can give it away. */
async function tampered(change: (lines: string[]) => string[], sign = true): Promise<string> {
  const path = await written(nano(4));
  const file = join(path, 'series.jsonl');
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const text = `${change(lines).join('\n')}\n`;
  writeFileSync(file, text);
  if (sign) {
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    manifest.data.bytes = Buffer.byteLength(text);
    manifest.data.sha256 = createHash('sha256').update(text).digest('hex');
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
  }
  return path;
}

function failure(act: () => unknown): DataError {
  try {
    act();
  } catch (error) {
    if (error instanceof DataError) return error;
    throw error;
  }
  throw new Error('expected a DataError, nothing was thrown');
}

const labelled: fc.Arbitrary<LabeledSeries> = fc
  .tuple(
    fc.string({ minLength: 1 }),
    fc.string({ minLength: 1 }),
    fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 2, maxLength: 60 }),
    fc.uniqueArray(fc.nat({ max: 60 }), { maxLength: 8 }),
    fc.constantFrom(...ANOMALY_CLASSES.filter((c) => c !== 'normal')),
  )
  .map(([id, task, numbers, cuts, label]) => {
    const values = Float64Array.from(numbers, (x) => x + 0); // −0 is stored as 0
    const edges = cuts.filter((c) => c <= values.length).sort((a, b) => a - b);
    const intervals: Interval[] = [];
    for (let i = 0; i + 1 < edges.length; i += 2) intervals.push([edges[i]!, edges[i + 1]!]);
    return { id, task, values, intervals, class: intervals.length === 0 ? 'normal' : label };
  });

describe('a data set on disk', () => {
  it('reads back exactly what was written, in order and by number', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(labelled, { minLength: 1, maxLength: 8 }), async (series) => {
        const dataset = new Dataset(await written(series));
        expect([...dataset]).toEqual(series);
        for (let i = series.length - 1; i >= 0; i--) expect(dataset.at(i)).toEqual(series[i]);
      }),
      { numRuns: 40 },
    );
  });

  it('spans chunks: lines longer and shorter than a read', async () => {
    const series = [
      anomllm('range', 1, 'test', 0, 90_000),
      anomllm('range', 1, 'test', 1, 10),
      anomllm('range', 1, 'test', 2, 30_000),
      anomllm('range', 1, 'test', 3, 10),
    ];
    const dataset = new Dataset(await written(series));
    expect([...dataset]).toEqual(series);
    expect(dataset.at(2)).toEqual(series[2]);
    expect(dataset.manifest.length).toBeNull();
  });

  it('has a manifest with origin, histogram, size and digest', async () => {
    const series = nano(10);
    const path = await written(series);
    const text = readFileSync(join(path, 'series.jsonl'));
    expect(JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'))).toEqual({
      format: 'timeseer-series',
      version: 1,
      ...ORIGIN,
      count: 10,
      length: 250,
      classes: { 'contextual point': 2, 'global point': 2, seasonal: 2, trend: 2, normal: 2 },
      data: {
        file: 'series.jsonl',
        bytes: text.length,
        sha256: createHash('sha256').update(text).digest('hex'),
      },
    });
  });

  it('reads a window, and as often as asked', async () => {
    const series = nano(9);
    const dataset = new Dataset(await written(series));
    expect([...dataset.read(4, 3)]).toEqual(series.slice(4, 7));
    expect([...dataset.read(6)]).toEqual(series.slice(6));
    expect([...dataset]).toEqual([...dataset]);
  });

  it('is replaced whole', async () => {
    const path = await written(nano(5));
    await writeDataset(path, ORIGIN, nano(2));
    expect([...new Dataset(path)]).toEqual(nano(2));
  });

  it('refuses a number outside', async () => {
    const dataset = new Dataset(await written(nano(2)));
    expect(() => dataset.at(2)).toThrow(RangeError);
    expect(() => dataset.at(-1)).toThrow(RangeError);
  });
});

describe('writing leaves nothing behind', () => {
  it('when the source fails half-way', async () => {
    const path = freshPath();
    function* failing(): Generator<LabeledSeries> {
      for (let i = 0; i < 100; i++) yield anomllm('range', 1, 'test', i);
      throw new Error('source is gone');
    }
    await expect(writeDataset(path, ORIGIN, failing())).rejects.toThrow('source is gone');
    expect(readdirSync(root).filter((name) => name.includes(path.slice(root.length + 1)))).toEqual([]);
  });

  it('when it is stopped, even after progress was made', async () => {
    const path = freshPath();
    const stop = new AbortController();
    let series = 0;
    function* endless(): Generator<LabeledSeries> {
      for (; ; series++) yield anomllm('range', 1, 'test', series);
    }
    const writing = writeDataset(path, ORIGIN, endless(), {
      signal: stop.signal,
      onProgress: (count) => {
        if (count > 150) stop.abort(new Error('enough'));
      },
    });
    await expect(writing).rejects.toThrow('enough');
    expect(series).toBeGreaterThan(150);
    expect(readdirSync(root).filter((name) => name.includes(path.slice(root.length + 1)))).toEqual([]);
  });

  it('when a series is wrong, naming the line it would have been', async () => {
    const path = freshPath();
    const good = nano(2);
    const bad: LabeledSeries = { ...nano5(7, 'test', 2, 250), values: Float64Array.of(1, Number.NaN, 2) };
    await expect(writeDataset(path, ORIGIN, [...good, bad])).rejects.toThrow(
      `${join(path, 'series.jsonl')}:3: values[1]: NaN is not a finite number`,
    );
    expect(existsSync(path)).toBe(false);
  });

  it('when there is no series', async () => {
    const path = freshPath();
    await expect(writeDataset(path, ORIGIN, [])).rejects.toThrow(DataError);
    expect(existsSync(path)).toBe(false);
  });

  it('when the place cannot be written', async () => {
    const blocker = freshPath();
    writeFileSync(blocker, 'a file');
    await expect(writeDataset(join(blocker, 'set'), ORIGIN, nano(1))).rejects.toThrow(WriteError);
    expect(readFileSync(blocker, 'utf8')).toBe('a file');
  });
});

describe('a damaged data set gives one error that says where', () => {
  const LINE = '{"id":"a","task":"t","class":"trend","intervals":[[1,2]],"values":[0,1,2]}';

  it.each<[string, (line: string) => string, RegExp]>([
    ['malformed JSON', (l) => l.replace('"values":[', '"values":[,'), /:2:\d+: not JSON: /],
    ['a line cut in the middle', (l) => l.slice(0, 100), /:2:\d+: not JSON: /],
    ['NaN in the text', (l) => l.replace('"values":[', '"values":[NaN,'), /:2:\d+: not JSON: /],
    ['an empty line', () => '', /:2:1: not JSON: /],
    ['a list', () => '[1,2]', /:2: got \[1,2\], expected an object/],
    [
      'an unknown class',
      (l) => l.replace(/"class":"[^"]+"/, '"class":"wobble"'),
      /:2: class: unknown "wobble"; known: /,
    ],
    ['a missing field', () => LINE.replace('"task":"t",', ''), /:2: task: missing/],
    ['an unknown field', () => LINE.replace('{', '{"labels":1,'), /:2: "labels": unknown field/],
    ['a number as id', () => LINE.replace('"a"', '5'), /:2: id: got 5, expected text/],
    ['an empty id', () => LINE.replace('"a"', '""'), /:2: id: empty/],
    ['values that are no list', () => LINE.replace('[0,1,2]', '"x"'), /:2: values: got "x", expected a list/],
    [
      'null among the values',
      () => LINE.replace('[0,1,2]', '[0,null,2]'),
      /:2: values\[1\]: null is not a finite/,
    ],
    [
      'text among the values',
      () => LINE.replace('[0,1,2]', '[0,1,"2"]'),
      /:2: values\[2\]: "2" is not a finite/,
    ],
    [
      'an overflow among the values',
      () => LINE.replace('[0,1,2]', '[0,1e999,2]'),
      /:2: values\[1\]: Infinity is not/,
    ],
    ['one value', () => LINE.replace('[0,1,2]', '[0]'), /:2: values: 1 points; a series needs at least 2/],
    [
      'an interval beyond the end',
      () => LINE.replace('[1,2]', '[1,4]'),
      /:2: intervals\[0\]: \[1,4\] leaves the series/,
    ],
    [
      'a negative start',
      () => LINE.replace('[1,2]', '[-1,2]'),
      /:2: intervals\[0\]: \[-1,2\] leaves the series/,
    ],
    ['an empty interval', () => LINE.replace('[1,2]', '[2,2]'), /:2: intervals\[0\]: \[2,2\] is empty/],
    [
      'a fractional bound',
      () => LINE.replace('[1,2]', '[1,1.5]'),
      /:2: intervals\[0\]: got \[1,1.5\], expected/,
    ],
    [
      'text as a bound',
      () => LINE.replace('[1,2]', '["1",2]'),
      /:2: intervals\[0\]: got \["1",2\], expected/,
    ],
    ['three bounds', () => LINE.replace('[1,2]', '[1,2,3]'), /:2: intervals\[0\]: got \[1,2,3\], expected/],
    [
      'overlapping intervals',
      () => LINE.replace('[1,2]', '[0,2],[1,3]'),
      /:2: intervals\[1\]: \[1,3\] overlaps/,
    ],
    [
      'unsorted intervals',
      () => LINE.replace('[1,2]', '[2,3],[0,1]'),
      /:2: intervals\[1\]: \[0,1\] overlaps or precedes/,
    ],
    ['normal with intervals', () => LINE.replace('trend', 'normal'), /:2: class: 'normal' with 1 intervals/],
    [
      'an anomaly without intervals',
      () => LINE.replace('[[1,2]]', '[]'),
      /:2: class: 'trend' with 0 intervals/,
    ],
    ['another length than the manifest', () => LINE, /:2: values: 3 points, the manifest says 250/],
  ])('%s', async (_, change, message) => {
    const path = await tampered((lines) => lines.map((line, i) => (i === 1 ? change(line) : line)));
    const error = failure(() => [...new Dataset(path)]);
    expect(error.message).toMatch(message);
    expect(error.file).toBe(join(path, 'series.jsonl'));
    expect(error.line).toBe(2);
    expect(failure(() => new Dataset(path).at(1)).message).toBe(error.message);
  });

  it('a line too few or too many', async () => {
    const fewer = await tampered((lines) => lines.slice(0, 3));
    expect(() => [...new Dataset(fewer)]).toThrow('series.jsonl: 3 series, the manifest says 4');
    expect(() => new Dataset(fewer).at(0)).toThrow('3 series, the manifest says 4');
    const more = await tampered((lines) => [...lines, lines[0]!]);
    expect(() => [...new Dataset(more)]).toThrow('series.jsonl: 5 series, the manifest says 4');
  });

  it('a truncated or grown file, on opening', async () => {
    const short = await tampered((lines) => [...lines.slice(0, 3), lines[3]!.slice(0, 50)], false);
    expect(() => new Dataset(short)).toThrow(/series.jsonl: truncated: \d+ bytes, the manifest says \d+/);
    const long = await tampered((lines) => [...lines, lines[0]!], false);
    expect(() => new Dataset(long)).toThrow(/series.jsonl: too long/);
  });

  it('a last line without its end', async () => {
    const path = await written(nano(3));
    const file = join(path, 'series.jsonl');
    writeFileSync(file, `${readFileSync(file, 'utf8').trimEnd()} `);
    expect(failure(() => [...new Dataset(path)]).message).toMatch(/:3: the last line has no end/);
  });

  it('a changed digit, by its digest', async () => {
    const path = await tampered(
      (lines) => lines.map((l) => l.replace(/\d\]\}$/, (m) => (m[0] === '5' ? '6]}' : '5]}'))),
      false,
    );
    expect(() => [...new Dataset(path)]).toThrow('SHA-256 is not the one in the manifest');
  });

  it.each<[string, (manifest: Record<string, unknown>) => unknown, RegExp]>([
    ['another version', (m) => ({ ...m, version: 2 }), /manifest.json: version: got 2, this program reads 1/],
    [
      'another format',
      (m) => ({ ...m, format: 'x' }),
      /manifest.json: format: not a timeseer-series manifest/,
    ],
    ['no object', () => [], /manifest.json: format: not a/],
    ['a wrong count', (m) => ({ ...m, count: -1 }), /manifest.json: count: /],
    ['an unknown key', (m) => ({ ...m, colour: 1 }), /manifest.json: .*colour/],
    ['an unknown split', (m) => ({ ...m, split: 'dev' }), /manifest.json: split: /],
    [
      'a histogram that does not add up',
      (m) => ({ ...m, classes: { trend: 3 } }),
      /classes: add up to 3, count says 4/,
    ],
    [
      'a short digest',
      (m) => ({ ...m, data: { file: 'series.jsonl', bytes: 1, sha256: 'ab' } }),
      /data.sha256: /,
    ],
    [
      'a path as data file',
      (m) => ({ ...m, data: { ...(m['data'] as object), file: '../x' } }),
      /data.file: /,
    ],
  ])('a manifest with %s', async (_, change, message) => {
    const path = await written(nano(4));
    const file = join(path, 'manifest.json');
    writeFileSync(file, JSON.stringify(change(JSON.parse(readFileSync(file, 'utf8')))));
    expect(failure(() => new Dataset(path)).message).toMatch(message);
  });

  it('a manifest that is missing or no JSON, and missing series', async () => {
    expect(failure(() => new Dataset(root)).message).toMatch(
      /manifest.json: cannot be read .*a data set directory holds/,
    );
    const path = await written(nano(1));
    rmSync(join(path, 'series.jsonl'));
    expect(failure(() => new Dataset(path)).message).toMatch(/series.jsonl: cannot be read/);
    writeFileSync(join(path, 'manifest.json'), '{"format":');
    expect(failure(() => new Dataset(path)).message).toMatch(/manifest.json: not JSON/);
  });
});

describe('parseSeries', () => {
  it('is the inverse of seriesLine', () => {
    fc.assert(
      fc.property(labelled, (series) => {
        expect(parseSeries(seriesLine(series))).toEqual(series);
      }),
    );
  });

  it.each([
    ['{"id":1,,}', 9],
    ['{"values":[NaN]}', 12],
    ['{"values":[1,2', 15],
    ['{"values":[01]}', 13],
    ['{"values":[1.]}', 14],
    ['{"id":"a', 9],
    ['{"id":"a"} x', 12],
    ['', 1],
    ['{"id":tru', 10],
    ['{"id":trux', 10],
    ['[-', 3],
  ])('names the column of the first wrong character of %j', (text, column) => {
    const error = failure(() => parseSeries(text, { file: 'f', line: 3 }));
    expect(error.column).toBe(column);
    expect(error.message).toContain(`f:3:${column}: not JSON`);
  });
});

describe('checkIntervals', () => {
  it('accepts intervals that touch and that reach both ends', () => {
    checkIntervals(
      [
        [0, 3],
        [3, 5],
        [8, 10],
      ],
      10,
    );
    expect(() => checkIntervals([[9, 11]], 10)).toThrow(DataError);
  });
});
