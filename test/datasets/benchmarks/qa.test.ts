import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { benchmarkNamed } from '../../../datasets/benchmarks/registry.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { prepare } from '../../../datasets/prepare.ts';
import { openExamples } from '../../../datasets/source.ts';
import { classicalAnswers } from '../../../eval/baselines.ts';
import { ConfigError, DataError } from '../../../src/ground/errors.ts';
import type { QuestionGold } from '../../../src/ground/types.ts';
import { temporary } from '../../helpers/temporary.ts';

const root = temporary('qa');
const qa = benchmarkNamed('qa');

function file(name: string, content: string | Uint8Array): string {
  const path = join(root, name);
  writeFileSync(path, content);
  return path;
}
const json = (name: string, value: unknown): string => file(name, JSON.stringify(value));
const load = (directory: string) => [...qa.open({ directory }).load()];
const goldOf = (directory: string): QuestionGold[] =>
  load(directory).map(({ example }) => example.gold as QuestionGold);

const ROW = { question: 'Up?', options: ['yes', 'no'], answer: 'no', series: [3, 1, null, 2.5] };

describe('questions of a file', () => {
  test('have options by letters, and a series with its gaps', () => {
    const [{ example, split }] = load(json('one.json', [ROW])) as [ReturnType<typeof load>[number]];
    expect(example).toMatchObject({ id: 'qa/0', names: ['value'], times: null });
    expect(example.channels).toEqual([Float64Array.of(3, 1, Number.NaN, 2.5)]);
    expect(example.gold).toMatchObject({
      question: 'Up?',
      options: ['yes', 'no'],
      answer: 'B',
      category: null,
    });
    expect(split).toBeNull();
  });

  test.each<[string, Partial<Record<string, unknown>>, string[], string]>([
    ['a letter', { answer: 'a' }, ['yes', 'no'], 'A'],
    ['a letter with the text', { answer: '(B) no' }, ['yes', 'no'], 'B'],
    ['a text in another case', { answer: ' YES' }, ['yes', 'no'], 'A'],
    ['marked options', { options: ['A) yes', 'B) no'], answer: 'B) no' }, ['yes', 'no'], 'B'],
    ['an object of options', { options: { A: 'yes', B: 'no' } }, ['yes', 'no'], 'B'],
    ['options in one text', { options: 'yes | no' }, ['yes', 'no'], 'B'],
    ['options that are numbers', { options: [0, 1], answer: 1 }, ['0', '1'], 'B'],
    ['truth values', { options: [true, false], answer: false }, ['true', 'false'], 'B'],
  ])('are answered by %s', (name, change, options, answer) => {
    expect(goldOf(json(`${name}.json`, [{ ...ROW, ...change }]))).toMatchObject([{ options, answer }]);
  });

  test('are about several series by numbered columns, lists or names; shorter ones end in gaps', () => {
    const rows = [
      { ...ROW, series: undefined, ts2: [5, 6], ts1: [1, 2, 3] },
      {
        ...ROW,
        series: [
          [1, 2],
          [3, 4],
        ],
        names: ['in', 'out'],
      },
      { ...ROW, series: { low: [1, 2], high: [3, 4] } },
    ];
    const path = file('several.jsonl', rows.map((row) => JSON.stringify(row)).join('\n'));
    const open = qa.open({ directory: path });
    const all = [...open.load()].map(({ example }) => example);
    expect(all.map(({ names }) => names)).toEqual([
      ['ts1', 'ts2'],
      ['in', 'out'],
      ['low', 'high'],
    ]);
    expect(all[0]!.channels[1]).toEqual(Float64Array.of(5, 6, Number.NaN));
    expect(open.notes?.().join()).toMatch(/^1 series are shorter/);
  });

  test('may stand in a table, with lists as JSON and free answers', () => {
    const path = file(
      'table.csv',
      'id,question,answer,series,thought,split\nfirst,"What, roughly, is the mean?",2,"[1, 2, 3]",Add them.,train\nsecond,Shape?,a line,"[1,2]",,dev\n',
    );
    const rows = load(path);
    expect(rows.map(({ split, example }) => [split, example.id])).toEqual([
      ['train', 'qa/first'],
      ['validation', 'qa/second'],
    ]);
    expect(rows.map(({ example }) => example.gold)).toMatchObject([
      { options: [], answer: '2', thought: 'Add them.' },
      { answer: 'a line', thought: null },
    ]);
  });

  test('of TimeSeriesExam are told by its columns, and are all for evaluation', () => {
    const row = {
      ...ROW,
      series: undefined,
      tid: 91,
      question_type: 'binary',
      category: 'Similarity Analysis',
      relevant_concepts: ['x'],
    };
    const path = json('exam.json', [
      { ...row, id: 1, ts: null, ts1: [1, 2], ts2: [2, 1] },
      { ...row, id: 2, ts: [4, 5, 6], ts1: null, ts2: null },
    ]);
    const open = qa.open({ directory: path });
    const all = [...open.load()];
    expect(
      all.map(({ split, example }) => [
        split,
        example.id,
        example.names,
        (example.gold as QuestionGold).category,
      ]),
    ).toEqual([
      ['test', 'qa/1', ['ts1', 'ts2'], 'Similarity Analysis'],
      ['test', 'qa/2', ['value'], 'Similarity Analysis'],
    ]);
    expect(open.plan.statement).toMatch(/no training split/);
    expect(open.notes?.()).toContain('read as TimeSeriesExam');
  });

  test('of VeriTime have nested series or text, and no mark of the series in the question', () => {
    const rows = [
      { question: 'A metric of length 3: <ts><ts/>. Rises?', label: 'yes', timeseries2: [[1, 2, 3]] },
      { question: 'Which?', label: 'a', task: 'CTU', timeseries2: '1.5, 2.5, nan' },
      {
        question: 'Both?',
        label: 'b',
        timeseries2: [
          [1, 2],
          [3, 4],
        ],
      },
    ].map((row, id) => ({ id, ...row }));
    const path = file('veritime.jsonl', rows.map((row) => JSON.stringify(row)).join('\n'));
    const [nested, text, two] = load(path).map(({ example }) => example);
    expect(nested!.channels).toEqual([Float64Array.of(1, 2, 3)]);
    expect(nested!.gold).toMatchObject({ question: 'A metric of length 3. Rises?', answer: 'yes' });
    expect(text!.channels).toEqual([Float64Array.of(1.5, 2.5, Number.NaN)]);
    expect(text!.gold).toMatchObject({ category: 'CTU' });
    expect(two!.names).toEqual(['timeseries2 1', 'timeseries2 2']);
  });

  test.each(['.json', '.jsonl', '.csv'])('may be gzip files: %s.gz', (ending) => {
    const cells = ['Up?', '"[""yes"", ""no""]"', 'no', '"[3, 1, null, 2.5]"'].join(',');
    const text =
      ending === '.csv'
        ? `question,options,answer,series\n${cells}\n`
        : JSON.stringify(ending === '.json' ? [ROW] : ROW);
    const [{ example }] = load(file(`packed${ending}.gz`, gzipSync(text))) as [
      ReturnType<typeof load>[number],
    ];
    expect(example.channels).toEqual([Float64Array.of(3, 1, Number.NaN, 2.5)]);
  });

  test('of RATs40K ask for the kind of anomaly, with the thought as its reasoning', () => {
    const row = (action: string) => ({
      Observation: [1, 2, 9],
      Thought: 'It jumps.',
      Action: action,
      Label: 1,
    });
    const path = file(
      'rats.jsonl',
      ['Trend', 'Point', 'Trend'].map((one) => JSON.stringify(row(one))).join('\n'),
    );
    expect(goldOf(path)).toMatchObject([
      {
        question: expect.stringMatching(/kind of anomaly/),
        options: ['Point', 'Trend'],
        answer: 'B',
        thought: 'It jumps.',
      },
      { answer: 'A' },
      { answer: 'B' },
    ]);
  });

  test('become a data set that is read, drawn, asked and guessed', async () => {
    const rows = Array.from({ length: 20 }, (_, i) => ({
      ...ROW,
      answer: i % 4 === 0 ? 'yes' : 'no',
      series: [i, 1, 2, i],
    }));
    const out = join(root, 'set');
    await prepare(qa, out, { directory: json('many.json', rows) });
    const set = new ExampleSet(out);
    expect(set.manifest).toMatchObject({ kind: 'question', classes: [], task: 'qa' });
    const source = openExamples({ name: out, split: 'test', seed: 1, length: 2 });
    expect(source.facts.kind).toBe('question');
    const answers = await classicalAnswers([...source], {
      training: set.read('train'),
      validation: [],
      seed: 0,
    });
    expect(Object.keys(answers)).toEqual(['first-option', 'majority']);
    expect(answers['majority']!.map(({ answer }) => answer.class)).toEqual(
      source.set === null ? [] : ['B', 'B'],
    );
  });
});

describe('a file that is wrong', () => {
  test.each<[string, unknown, RegExp]>([
    ['no list', { a: 1 }, /holds no list of questions/],
    ['no question in it', [], /holds no questions/],
    ['an item that is none', [ROW, 3], /item 1: got 3, expected an object/],
    ['no question', [{ ...ROW, question: '' }], /item 0: question: missing/],
    ['no answer', [ROW, { ...ROW, answer: null }], /item 1: answer: missing/],
    [
      'a thought with a NUL',
      [{ ...ROW, thought: 'Add\0' }],
      /item 0: thought: holds the control character U\+0000 at character 4; remove it/,
    ],
    [
      'an answer that no option is',
      [{ ...ROW, answer: 'maybe' }],
      /item 0: answer: "maybe" is none of the options .*\(A to B\)/,
    ],
    [
      '27 options',
      [{ ...ROW, options: Array.from({ length: 27 }, (_, i) => i) }],
      /27 options; expected at most 26/,
    ],
    ['an empty option', [{ ...ROW, options: ['no', ' '] }], /options\[1\]: blank/],
    [
      'an option that is a list',
      [{ ...ROW, options: [['a'], 'no'] }],
      /options\[0\]: got \["a"\], expected text/,
    ],
    ['no series', [{ ...ROW, series: undefined }], /no series: expected a column series, ts/],
    ['a picture in its place', [{ ...ROW, series: undefined, image: 'a.png' }], /no series beside the image/],
    ['a series with words', [{ ...ROW, series: [1, 'x'] }], /series\[1\]: got "x", expected a number/],
    ['one point', [{ ...ROW, series: [1] }], /series: 1 points/],
    [
      'a path for a series',
      [{ ...ROW, series: 'a.npy' }],
      /series: got "a\.npy", expected a list of numbers/,
    ],
    ['names of other series', [{ ...ROW, names: ['a', 'b'] }], /expected the names of 1 series/],
    ['an unknown split', [{ ...ROW, split: 'exam' }], /split: got "exam"/],
    ['a tag in a question', [{ ...ROW, question: '</think>' }], /holds "<\/think>"/],
    ['a long question', [{ ...ROW, question: 'q'.repeat(1e7) }], /question: 10000000 characters/],
  ])('%s', (name, value, message) => {
    const path = json(`${name}.json`, value);
    expect(() => load(path)).toThrow(DataError);
    expect(() => load(path)).toThrow(message);
  });

  test('a damaged gzip file, by its name', () => {
    const bytes = gzipSync(JSON.stringify([ROW]));
    const path = file('cut.json.gz', bytes.subarray(0, bytes.length - 12));
    expect(() => load(path)).toThrow(DataError);
    expect(() => load(path)).toThrow(/cut\.json\.gz: a damaged gzip file/);
  });

  test('the same id twice', async () => {
    const path = json('twice.json', [
      { ...ROW, id: 7 },
      { ...ROW, id: 7 },
    ]);
    await expect(prepare(qa, join(root, 'never'), { directory: path })).rejects.toThrow(
      /'qa\/7' occurs twice/,
    );
  });

  test('lines that are no JSON, nested too deep, or of another width, by file and line', () => {
    expect(() => load(file('broken.jsonl', `${JSON.stringify(ROW)}\n{"question": }\n`))).toThrow(
      /broken\.jsonl:2:\d+/,
    );
    expect(() => load(file('deep.jsonl', '['.repeat(1e6)))).toThrow(DataError);
    expect(() => load(file('width.csv', 'question,answer,series\na,b\n'))).toThrow(/width\.csv:2.*2 cells/);
  });

  test('no file, another ending, none named, and a window', () => {
    expect(() => qa.open({ directory: join(root, 'nowhere') })).toThrow(/no such file/);
    expect(() => qa.open({ directory: file('a.txt', 'x') })).toThrow(/no file of questions/);
    expect(() => qa.open({ directory: null })).toThrow(ConfigError);
    expect(() => qa.open({ directory: root, window: 5 })).toThrow(/--window/);
  });
});
