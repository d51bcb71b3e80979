import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anomalyExample } from '../../datasets/example.ts';
import { checkCoverage, readRecords, writeRecords } from '../../eval/records.ts';
import { DataError } from '../../src/ground/errors.ts';
import { WriteError } from '../../src/ground/files.ts';
import type { EvalRecord, Gold } from '../../src/ground/types.ts';
import { parseResponse, scoreAnswer } from '../../src/tasks/kinds.ts';
import {
  classResponse,
  evalRecord,
  recordOf,
  variatesResponse,
  writeResponse,
} from '../helpers/eval-records.ts';

const trend = { intervals: [[100, 150]], class: 'trend' } as const;
const normal = { intervals: [], class: 'normal' } as const;
const good = evalRecord(
  'nano5/test/0',
  trend,
  writeResponse([[100, 150]], 'trend', 'a "quoted" \u2028 line\n'),
);
const broken = evalRecord('nano5/test/1', normal, '<think>half');

let directory = '';
let file = '';
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'records-'));
  file = join(directory, 'records.jsonl');
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('records on disk', () => {
  test('come back as they were written, one line each', () => {
    writeRecords(file, [good, broken]);
    expect(readRecords(file)).toEqual([good, broken]);
    expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toHaveLength(2);
  });

  test('have the score of their answer, whatever the file says', () => {
    writeRecords(file, [good, { ...broken, score: { total: 5, parts: { format: 1 } } }]);
    expect(readRecords(file)).toEqual([good, broken]);
  });

  test('keep which sample it is, what it cost, and why there is no response', () => {
    const usage = { prompt: 210, completion: 17 };
    const sampled = { ...good, sample: 1, temperature: 0.7, usage, seconds: 0.25, cost: 0.0003 };
    const failed = { ...evalRecord('nano5/test/2', normal, ''), sample: 0, failure: 'status 500' };
    writeRecords(file, [sampled, failed]);
    expect(readRecords(file)).toEqual([sampled, failed]);
    writeRecords(file, [{ ...good, failure: 'status 500' }]);
    expect(() => readRecords(file)).toThrow(/"failure": must stand beside an empty response alone/);
  });

  test('keep any text that a policy may write', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        const record = evalRecord('a', trend, writeResponse([[3, 9]], 'trend', text));
        writeRecords(file, [record]);
        expect(readRecords(file)).toEqual([record]);
      }),
      { numRuns: 40 },
    );
  });

  const line = JSON.parse(JSON.stringify(good)) as Record<string, unknown>;
  const answer = line['answer'] as object;
  const gold = line['gold'] as object;
  test.each([
    ['a truncated line', '{"seriesId": "x", "ta', 'not a JSON line'],
    ['a missing part', JSON.stringify({ ...line, answer: undefined }), '"answer"'],
    ['an unknown key', JSON.stringify({ ...line, note: 1 }), 'note'],
    ['an unknown class', JSON.stringify({ ...line, gold: { ...gold, class: 'odd' } }), '"gold": class'],
    [
      'a gold interval beyond the series',
      JSON.stringify({ ...line, gold: { ...gold, intervals: [[990, 1001]] } }),
      '"gold": intervals[0]',
    ],
    [
      'overlapping predictions',
      JSON.stringify({
        ...line,
        answer: {
          ...answer,
          intervals: [
            [0, 9],
            [5, 20],
          ],
        },
      }),
      '"answer.intervals"',
    ],
    [
      'a well-formed answer with a problem',
      JSON.stringify({ ...line, answer: { ...answer, problem: 'odd' } }),
      '"answer.problem"',
    ],
    [
      'a reward part above 1',
      JSON.stringify({ ...line, score: { total: 1, parts: { format: 1.5 } } }),
      '"score.parts.format"',
    ],
  ])('%s is refused by file, line and key', (_, text, reason) => {
    writeFileSync(file, `${JSON.stringify(good)}\n${text}\n`);
    expect(() => readRecords(file)).toThrow(DataError);
    expect(() => readRecords(file)).toThrow(`${file}:2:`);
    expect(() => readRecords(file)).toThrow(reason);
  });

  test('no file and no record are errors', () => {
    expect(() => readRecords(join(directory, 'none.jsonl'))).toThrow(/none\.jsonl: no such file; evaluate/);
    writeFileSync(file, '\n');
    expect(() => readRecords(file)).toThrow('holds no record');
  });

  test('a failed write leaves what was there', () => {
    writeRecords(file, [good]);
    expect(() => writeRecords(join(file, 'below-a-file.jsonl'), [broken])).toThrow(WriteError);
    expect(readRecords(file)).toEqual([good]);
  });
});

describe('records of other kinds on disk', () => {
  const classified = recordOf(
    'ctu/test/0',
    { kind: 'classification', class: 'Laptop' },
    classResponse('Desktop'),
  );
  const variates = recordOf('vta/test/0', { kind: 'variates', variates: [2, 7] }, variatesResponse([7, 3]));
  const unnamed = evalRecord('nab/test/0', { intervals: [[3, 9]], class: null }, writeResponse([], 'normal'));
  const advised = parseResponse('<think>t</think><class>Laptop</class><extension>unplug it</extension>', {
    kind: 'classification',
    length: 10,
    channels: 1,
    extension: true,
    classes: [],
  });

  test('come back as they were written', () => {
    const unreadable = recordOf('vta/test/1', { kind: 'variates', variates: [] }, 'none of them');
    const extended = { ...classified, answer: advised, score: scoreAnswer(advised, classified.gold, 10) };
    for (const record of [classified, variates, unnamed, unreadable, extended]) {
      writeRecords(file, [record]);
      expect(readRecords(file)).toEqual([record]);
    }
  });

  const odd: [string, unknown, string][] = [
    ['a kind that does not exist', { ...classified, gold: { kind: 'forecast', class: 'x' } }, '"gold": gold'],
    [
      'a gold class of two lines',
      { ...classified, gold: { ...classified.gold, class: 'a\nb' } },
      '"gold": class',
    ],
    [
      'a gold answer of two kinds',
      { ...classified, gold: { ...classified.gold, variates: [1] } },
      'variates',
    ],
    [
      'gold variates that do not ascend',
      { ...variates, gold: { kind: 'variates', variates: [7, 2] } },
      '"gold": variates[1]',
    ],
    [
      'intervals that were not asked for',
      { ...classified, answer: { ...classified.answer, intervals: [] } },
      '"answer.intervals"',
    ],
    [
      'variates that were not asked for',
      { ...unnamed, answer: { ...unnamed.answer, variates: [] } },
      '"answer.variates"',
    ],
    [
      'no variates where they were',
      { ...variates, answer: { ...variates.answer, variates: undefined } },
      '"answer.variates"',
    ],
    [
      'a class that was not asked for',
      { ...variates, answer: { ...variates.answer, class: 'trend' } },
      '"answer.class"',
    ],
    [
      'an extension that was not asked for',
      { ...unnamed, answer: { ...unnamed.answer, extension: 'x' } },
      '"answer.extension"',
    ],
    [
      'repeated variates',
      { ...variates, answer: { ...variates.answer, variates: [3, 3] } },
      '"answer.variates"',
    ],
  ];
  test.each(odd)('%s: refused by key', (_, record, key) => {
    writeFileSync(file, `${JSON.stringify(record)}\n`);
    expect(() => readRecords(file)).toThrow(DataError);
    expect(() => readRecords(file)).toThrow(`${file}:1: `);
    expect(() => readRecords(file)).toThrow(key);
  });

  test('are compared with the examples by all that their gold answer says', () => {
    const example = { id: 'x', channels: [new Float64Array(1000)] };
    const check = (record: EvalRecord, gold: Gold) => () =>
      checkCoverage('x.jsonl', [{ ...record, seriesId: 'x' }], [{ ...example, gold }], 1);
    for (const record of [classified, variates, unnamed]) {
      expect(check(record, structuredClone(record.gold))).not.toThrow();
    }
    const wrong: [EvalRecord, Gold][] = [
      [classified, { kind: 'classification', class: 'Desktop' }],
      [variates, { kind: 'variates', variates: [2] }],
      [variates, { kind: 'variates', variates: [27] }],
      [unnamed, { kind: 'anomaly', class: 'trend', intervals: [[3, 9]] }],
      [classified, { kind: 'anomaly', class: 'normal', intervals: [] }],
    ];
    for (const [record, gold] of wrong) expect(check(record, gold)).toThrow('the annotation of x');
  });
});

describe('coverage of the held-out series', () => {
  const values = new Float64Array(1000);
  const series = [
    anomalyExample('nano5/test/0', 'nano5', values, trend.class, trend.intervals),
    anomalyExample('nano5/test/1', 'nano5', values, normal.class, normal.intervals),
  ];
  const check = (records: (typeof good)[], perSeries?: number) => () =>
    checkCoverage('x.jsonl', records, series, perSeries);

  test('holds for each series once, or each equally often', () => {
    expect(check([good, broken], 1)).not.toThrow();
    expect(check([good, broken, broken, good])).not.toThrow();
  });

  test.each([
    ['a series is missing', [good], 1, 'nano5/test/1 has 0 answers, expected 1'],
    ['a series is answered twice', [good, broken, good], 1, 'nano5/test/0 has 2 answers, expected 1'],
    ['samples are uneven', [good, good, broken], undefined, 'nano5/test/1 has 1 answers, expected 2'],
    ['nothing is answered', [], undefined, 'nano5/test/0 has 0 answers'],
    [
      'a series is foreign',
      [good, { ...broken, seriesId: 'nano5/train/1' }],
      1,
      'nano5/train/1, which is no held-out series',
    ],
    [
      'the annotation differs',
      [{ ...good, gold: { ...good.gold, intervals: [[100, 151]] } as Gold }, broken],
      1,
      'the annotation of nano5/test/0',
    ],
  ])('fails when %s', (_, records, perSeries, reason) => {
    expect(check(records, perSeries)).toThrow(DataError);
    expect(check(records, perSeries)).toThrow(`x.jsonl: `);
    expect(check(records, perSeries)).toThrow(reason);
  });
});
