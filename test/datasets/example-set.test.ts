import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkExample, exampleLine, parseExample } from '../../datasets/example.ts';
import { isExampleSet } from '../../datasets/example-manifest.ts';
import { type ExampleOrigin, ExampleSet, writeExamples } from '../../datasets/example-set.ts';
import { anomllm } from '../../datasets/generators/anomllm.ts';
import type { Split } from '../../datasets/split.ts';
import { DataError } from '../../src/ground/errors.ts';
import { WriteError } from '../../src/ground/files.ts';
import type { Example } from '../../src/ground/types.ts';
import { mutant } from '../helpers/mutate.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('examples');
let made = 0;
const freshPath = (): string => join(root, `set${made++}`);

const walking: Example = {
  id: 'har/train/7',
  task: 'har',
  channels: [Float64Array.of(0.1, Number.NaN, -0), Float64Array.of(1e-300, 2, 1 / 3)],
  names: ['x', 'y'],
  times: Float64Array.of(0, 0.02, 0.04),
  gold: { kind: 'classification', class: 'walking' },
  recording: 'volunteer 3',
};

const ORIGIN: ExampleOrigin = {
  task: 'har',
  title: 'Activities',
  kind: 'classification',
  source: { description: 'made here', licence: 'none', citation: null, addresses: [], files: [] },
  parameters: { window: 3 },
  split: { statement: 'by volunteer', recordingsApart: true },
  classes: ['walking', 'sitting'],
  rate: 50,
  figure: { preset: 'har', missing: 'break' },
  notes: [],
};

function failure(act: () => unknown): DataError {
  try {
    act();
  } catch (error) {
    if (error instanceof DataError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

const number = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constant(Number.NaN));
const examples: fc.Arbitrary<Example> = fc
  .record({
    length: fc.integer({ min: 2, max: 12 }),
    width: fc.integer({ min: 1, max: 4 }),
    values: fc.array(number, { minLength: 48, maxLength: 48 }),
    kind: fc.integer({ min: 0, max: 3 }),
    times: fc.boolean(),
    recording: fc.option(fc.string({ minLength: 1 })),
    id: fc.string({ minLength: 1 }),
  })
  .map(({ length, width, values, kind, times, recording, id }): Example => {
    const channels = Array.from({ length: width }, (_, c) =>
      Float64Array.from(values.slice(c * 12, c * 12 + length)),
    );
    channels[0]![length - 1] = 0.25; // at least one point is there
    return {
      id,
      task: 'any',
      channels,
      names: channels.map((_, c) => `ch ${c}`),
      times: times ? Float64Array.from({ length }, (_, t) => t * 0.1) : null,
      gold: [
        { kind: 'classification', class: 'CG Positive' } as const,
        { kind: 'anomaly', class: 'trend', intervals: [[0, length - 1]] } as const,
        { kind: 'anomaly', class: null, intervals: [[1, length]] } as const,
        { kind: 'variates', variates: channels.map((_, c) => c) } as const,
      ][kind]!,
      recording,
    };
  });

describe('an example', () => {
  it('comes back from its line as it was, missing points, signs of zero and all', () => {
    fc.assert(
      fc.property(examples, (example) => {
        expect(parseExample(exampleLine(example))).toEqual(example);
      }),
    );
    expect(exampleLine(walking)).toContain('"channels":[[0.1,null,-0],[1e-300,2,0.3333333333333333]]');
  });

  it.each<[string, Partial<Example>, RegExp]>([
    ['no channels', { channels: [], names: [] }, /channels: none/],
    [
      'channels of unequal lengths',
      { channels: [new Float64Array(3), new Float64Array(2)] },
      /channels\[1\]: 2 points/,
    ],
    ['a name twice', { names: ['x', 'x'] }, /a different name/],
    ['one point', { channels: [new Float64Array(1), new Float64Array(1)], times: null }, /at least 2/],
    [
      'an infinity',
      { channels: [Float64Array.of(1, 2, Infinity), new Float64Array(3)] },
      /channels\[0\]\[2\]/,
    ],
    [
      'nothing but missing points',
      { channels: [new Float64Array(3).fill(NaN), new Float64Array(3).fill(NaN)] },
      /missing/,
    ],
    ['times that fall', { times: Float64Array.of(0, 2, 1) }, /times\[2\]/],
    ['too few times', { times: Float64Array.of(0, 2) }, /times: 2 for 3/],
    ['a class of two lines', { gold: { kind: 'classification', class: 'a\nb' } }, /class: got/],
    ['a class with a tag', { gold: { kind: 'classification', class: 'a</class>' } }, /class: got/],
    ['an empty class', { gold: { kind: 'classification', class: ' ' } }, /class: got/],
    [
      'normal with an interval',
      { gold: { kind: 'anomaly', class: 'normal', intervals: [[0, 1]] } },
      /"normal" with 1 interval/,
    ],
    [
      'an unnamed anomaly without one',
      { gold: { kind: 'anomaly', class: null, intervals: [] } },
      /null with 0 intervals/,
    ],
    [
      'an interval outside',
      { gold: { kind: 'anomaly', class: 'trend', intervals: [[2, 4]] } },
      /leaves the series/,
    ],
    ['a variate that is not there', { gold: { kind: 'variates', variates: [0, 2] } }, /variates\[1\]/],
    ['variates out of order', { gold: { kind: 'variates', variates: [1, 0] } }, /variates\[1\]/],
    ['an empty recording', { recording: '' }, /recording/],
  ])('with %s is refused', (_, change, reason) => {
    expect(failure(() => checkExample({ ...walking, ...change })).message).toMatch(reason);
  });

  it.each([
    ['text', 'not JSON', /not JSON/],
    ['another object', '{"id":"a"}', /task: missing/],
    ['a number as text', exampleLine(walking).replace('1e-300', '"1"'), /channels\[1\]\[0\]: got "1"/],
    ['an unknown field', exampleLine(walking).replace('{"id"', '{"extra":1,"id"'), /"extra": unknown/],
    ['an unknown kind', exampleLine(walking).replace('"classification"', '"regression"'), /gold: got/],
    [
      'a gold field of another kind',
      exampleLine(walking).replace('"class":', '"label":'),
      /gold: class: missing/,
    ],
    ['channels that are no lists', exampleLine(walking).replace('[[0.1', '[3,[0.1'), /channels\[0\]: got 3/],
  ])('is not read from %s', (_, line, reason) => {
    const error = failure(() => parseExample(line, { file: 'f.jsonl', line: 3 }));
    expect(error.message).toMatch(reason);
    expect([error.file, error.line]).toEqual(['f.jsonl', 3]);
  });
});

describe('a line that is not JSON', () => {
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
    const error = failure(() => parseExample(text, { file: 'f', line: 3 }));
    expect(error.column).toBe(column);
    expect(error.message).toContain(`f:3:${column}: not JSON`);
  });
});

describe('intervals of an anomaly', () => {
  const line = (intervals: string): string =>
    `{"id":"a","task":"t","recording":null,"gold":{"kind":"anomaly","class":"trend","intervals":${intervals}},"names":["value"],"times":null,"channels":[[0,1,2]]}`;

  it('may touch, and reach both ends', () => {
    expect(parseExample(line('[[0,1],[1,3]]')).gold).toMatchObject({
      intervals: [
        [0, 1],
        [1, 3],
      ],
    });
  });

  it.each([
    ['[[1,4]]', /intervals\[0\]: \[1,4\] leaves the series/],
    ['[[-1,2]]', /intervals\[0\]: \[-1,2\] leaves the series/],
    ['[[2,2]]', /intervals\[0\]: \[2,2\] is empty/],
    ['[[1,1.5]]', /intervals\[0\]: got \[1,1.5\], expected/],
    ['[["1",2]]', /intervals\[0\]: got \["1",2\], expected/],
    ['[[1,2,3]]', /intervals\[0\]: got \[1,2,3\], expected/],
    ['[[0,2],[1,3]]', /intervals\[1\]: \[1,3\] overlaps/],
    ['[[2,3],[0,1]]', /intervals\[1\]: \[0,1\] overlaps or precedes/],
    ['[]', /class: "trend" with 0 intervals/],
  ])('are refused as %s', (intervals, message) => {
    expect(failure(() => parseExample(line(intervals))).message).toMatch(message);
  });
});

describe('a damaged line', () => {
  it('is an example or a DataError, whatever was done to it', () => {
    const lines = [
      exampleLine(walking),
      exampleLine({
        ...walking,
        gold: { kind: 'anomaly', class: 'trend', intervals: [[0, 2]] },
        times: null,
      }),
      exampleLine({ ...walking, gold: { kind: 'variates', variates: [1] }, recording: null }),
    ].map((line) => Buffer.from(line));
    let read = 0;
    for (let i = 0; i < 6000; i++) {
      const text = mutant(lines[i % 3]!, 11, 'example', i).toString('utf8');
      try {
        checkExample(parseExample(text));
        read++;
      } catch (error) {
        if (!(error instanceof DataError)) throw new Error(`${String(error)} for ${text}`, { cause: error });
      }
    }
    expect(read).toBeGreaterThan(100);
    expect(read).toBeLessThan(5000);
  });
});

const many = (split: Split, count: number, recording: string | null = null): [Split, Example][] =>
  Array.from({ length: count }, (_, i) => [
    split,
    {
      ...walking,
      id: `har/${split}/${i}`,
      channels: [Float64Array.of(i, Number.NaN, -i), Float64Array.of(0.5, i / 7, 2)],
      gold: { kind: 'classification', class: i % 3 === 0 ? 'sitting' : 'walking' },
      recording,
    },
  ]);

async function written(): Promise<string> {
  const path = freshPath();
  await writeExamples(path, () => ORIGIN, [...many('train', 7, 'a'), ...many('test', 4, 'b')]);
  return path;
}

/** Changes a split's file and signs it again, so that only the lines can give it away. */
function tamper(path: string, split: Split, change: (text: string) => string, sign = true): void {
  const file = join(path, `${split}.jsonl`);
  const text = change(readFileSync(file, 'utf8'));
  writeFileSync(file, text);
  if (!sign) return;
  const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
  manifest.splits[split].bytes = Buffer.byteLength(text);
  manifest.splits[split].sha256 = createHash('sha256').update(text).digest('hex');
  writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
}

describe('a prepared data set', () => {
  it('is read as it was written, by split, in order and by number', async () => {
    const path = await written();
    expect(isExampleSet(path)).toBe(true);
    const set = new ExampleSet(path);
    expect(set.splits).toEqual(['train', 'test']);
    expect([...set.read('train')]).toEqual(many('train', 7, 'a').map(([, example]) => example));
    expect([...set.read('test', 1, 2)].map(({ id }) => id)).toEqual(['har/test/1', 'har/test/2']);
    expect(set.at('train', 5)).toEqual(many('train', 7, 'a')[5]![1]);
    expect(set.manifest.splits.train).toMatchObject({
      count: 7,
      length: 3,
      classes: { walking: 4, sitting: 3 },
      recordings: 1,
    });
    expect(Object.keys(set.manifest.splits.train!.classes)).toEqual(['walking', 'sitting']);
    expect(() => [...set.read('validation')]).toThrow(/no validation split; it has train, test/);
  });

  it('spans chunks: lines longer and shorter than a read', async () => {
    const series = [90_000, 10, 30_000, 10].map((length, i) => anomllm('range', 1, 'test', i, length));
    const path = freshPath();
    const origin: ExampleOrigin = { ...ORIGIN, kind: 'anomaly', classes: ['global point', 'normal'] };
    await writeExamples(
      path,
      () => origin,
      series.map((one) => ['test', one] as const),
    );
    const set = new ExampleSet(path);
    expect([...set.read('test')]).toEqual(series);
    expect(set.at('test', 2)).toEqual(series[2]);
    expect(set.manifest.splits.test!.length).toBeNull();
    expect(() => set.at('test', 4)).toThrow(RangeError);
    expect(() => set.at('test', -1)).toThrow(RangeError);
  });

  it('is replaced whole, and not written where something else stands', async () => {
    const path = await written();
    await writeExamples(path, () => ORIGIN, many('train', 2, 'a'));
    expect(new ExampleSet(path).splits).toEqual(['train']);
    const blocker = freshPath();
    writeFileSync(blocker, 'a file');
    await expect(writeExamples(join(blocker, 'set'), () => ORIGIN, many('train', 1))).rejects.toThrow(
      WriteError,
    );
    expect(readFileSync(blocker, 'utf8')).toBe('a file');
  });

  it('of the former format says how to make it anew', () => {
    const path = freshPath();
    mkdirSync(path);
    const former = {
      format: 'timeseer-series',
      version: 1,
      generator: 'nano5',
      split: 'test',
      seed: 42,
      count: 9,
    };
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(former));
    expect(failure(() => new ExampleSet(path)).message).toMatch(
      /timeseer-series is not read any more; make the data set anew: timeseer data generate nano5 --split test --seed 42 --count 9 --out DIR/,
    );
  });

  it('says which line is broken, and goes on', async () => {
    const path = await written();
    tamper(path, 'train', (text) => text.replace('"har/train/3","task":"har"', '"har/train/3","task":""'));
    const lines = [...new ExampleSet(path).check('train')];
    expect(lines.length).toBe(7);
    expect(lines.filter(({ problem }) => problem !== null).map(({ line }) => line)).toEqual([4]);
    expect(failure(() => [...new ExampleSet(path).read('train')])).toMatchObject({ line: 4 });
  });

  it('is refused when it was changed, cut or lengthened', async () => {
    const changed = await written();
    tamper(changed, 'test', (text) => text.replace('0.5', '0.6'), false);
    expect(() => [...new ExampleSet(changed).read('test')]).toThrow(/SHA-256/);
    const cut = await written();
    tamper(cut, 'test', (text) => text.slice(0, -9), false);
    expect(() => new ExampleSet(cut)).toThrow(/truncated/);
    const endless = await written();
    tamper(endless, 'test', (text) => `${text.trimEnd()} `);
    expect(failure(() => [...new ExampleSet(endless).read('test')]).message).toMatch(
      /:4: the last line has no end/,
    );
    const longer = await written();
    tamper(longer, 'test', (text) => `${text + text.split('\n')[0]!}\n`);
    expect(() => [...new ExampleSet(longer).read('test')]).toThrow(/5 examples, the manifest says 4/);
  });

  it('is refused with a manifest that is not one', async () => {
    const path = await written();
    const file = join(path, 'manifest.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    const cases: readonly [unknown, RegExp][] = [
      [{ ...manifest, format: 'other' }, /format/],
      [{ ...manifest, version: 9 }, /version: got 9/],
      [{ ...manifest, splits: {} }, /splits: none/],
      [
        { ...manifest, classes: [...manifest.classes, manifest.classes[0]] },
        /classes: a class is listed twice/,
      ],
      [{ ...manifest, classes: ['sitting', '</think>'] }, /classes\.1: got "<\/think>", expected one line/],
      [{ ...manifest, classes: [' walking'] }, /classes\.0: got " walking", expected one line/],
      [{ ...manifest, split: { statement: '' } }, /split/],
      [{ ...manifest, splits: { train: { ...manifest.splits.train, file: '../x' } } }, /file/],
      [{ ...manifest, splits: { train: { ...manifest.splits.train, file: 'test.jsonl' } } }, /file/],
      [
        { ...manifest, splits: { train: { ...manifest.splits.train, classes: { walking: 1 } } } },
        /add up to 1/,
      ],
    ];
    for (const [content, reason] of cases) {
      writeFileSync(file, JSON.stringify(content));
      expect(failure(() => new ExampleSet(path)).message).toMatch(reason);
    }
    expect(isExampleSet(root)).toBe(false);
  });

  it('holds no id twice, no unknown class, and no recording in two splits where that is promised', async () => {
    const path = freshPath();
    const write = (list: [Split, Example][], origin = ORIGIN): Promise<unknown> =>
      writeExamples(path, () => origin, list);
    await expect(write([...many('train', 2), ...many('train', 1)])).rejects.toThrow(
      /'har\/train\/0' occurs twice/,
    );
    await expect(write(many('train', 2), { ...ORIGIN, classes: ['walking'] })).rejects.toThrow(
      /'sitting' is none of/,
    );
    const shared = [...many('train', 2, 'a'), ...many('test', 2, 'a')];
    await expect(write(shared)).rejects.toThrow(/recording 'a' is in train and test/);
    await expect(write([])).rejects.toThrow(/no examples/);
    expect(existsSync(path)).toBe(false);
    await write(shared, { ...ORIGIN, split: { statement: 'windows', recordingsApart: false } });
    expect(new ExampleSet(path).count('test')).toBe(2);
  });

  it('leaves nothing behind when it is stopped or an example is wrong', async () => {
    const path = freshPath();
    const stop = new AbortController();
    const long: Example = {
      ...walking,
      channels: [new Float64Array(60_000).fill(0.123456789), new Float64Array(60_000)],
      times: null,
    };
    const endless = function* (): Generator<[Split, Example]> {
      for (let i = 0; ; i++) yield ['train', { ...long, id: String(i) }];
    };
    const options = { signal: stop.signal, onProgress: () => stop.abort(new Error('enough')) };
    await expect(writeExamples(path, () => ORIGIN, endless(), options)).rejects.toThrow('enough');
    const wrong: [Split, Example] = ['test', { ...walking, names: ['x'] }];
    await expect(writeExamples(path, () => ORIGIN, [...many('test', 3), wrong])).rejects.toThrow(
      /jsonl:4: names/,
    );
    expect(readdirSync(root).filter((name) => name.includes('tmp'))).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });
});
