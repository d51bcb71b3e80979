import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { metricsOf } from '../../eval/metrics.ts';
import { type PredictionFiles, readPredictions } from '../../eval/predictions.ts';
import { writeRecords } from '../../eval/records.ts';
import { exampleScore, scored } from '../../eval/scoring.ts';
import { DataError } from '../../src/ground/errors.ts';
import { inside } from '../helpers/command-line.ts';
import { evalRecord, writeResponse } from '../helpers/eval-records.ts';

let folder = '';
let files = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'predictions-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A file of JSON lines; text is a line as it is. */
function file(lines: readonly (object | string)[]): string {
  const path = join(folder, `${files++}.jsonl`);
  writeFileSync(
    path,
    lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''),
  );
  return path;
}

const GOLD = [
  { id: 'a', length: 1000, intervals: [[100, 150]], class: 'trend' },
  {
    id: 'b',
    length: 500,
    intervals: [
      [20, 30],
      [300, 340],
    ],
    class: 'global point',
  },
  { id: 'c', length: 720, intervals: [], class: 'normal' },
];

function read(
  gold: readonly (object | string)[],
  pred: readonly (object | string)[],
  more: Partial<PredictionFiles> = {},
) {
  return readPredictions({ gold: file(gold), pred: file(pred), ...more });
}

/** The message of what reading throws, without the folder. */
function complaint(
  gold: readonly (object | string)[],
  pred: readonly (object | string)[],
  more: Partial<PredictionFiles> = {},
): string {
  try {
    read(gold, pred, more);
  } catch (error) {
    expect(error).toBeInstanceOf(DataError);
    return (error as Error).message.replaceAll(`${folder}/`, '');
  }
  throw new Error('nothing was thrown');
}

const PERFECT = GOLD.map(({ id, intervals, class: label }) => ({ id, intervals, class: label }));

describe('predictions', () => {
  test('that are the gold answers are worth 1 in every metric', () => {
    const { overall } = scored(read(GOLD, PERFECT));
    for (const [name, { mean }] of Object.entries(overall)) {
      expect([name, mean]).toEqual([name, name === 'unparsable' ? 0 : expect.closeTo(1, 12)]);
    }
  });

  test('as text and as fields are worth the same', () => {
    const text = PERFECT.map(({ id, intervals, class: label }) => ({
      id,
      text: writeResponse(intervals as never, label),
    }));
    const fields = scored(read(GOLD, PERFECT));
    expect(scored(read(GOLD, text)).overall).toEqual(fields.overall);
  });

  test('may begin with a byte-order mark, as the gold answers may', () => {
    const marked = (lines: readonly object[]) => [`\ufeff${JSON.stringify(lines[0])}`, ...lines.slice(1)];
    expect(scored(read(marked(GOLD), marked(PERFECT))).overall.reward.mean).toBe(1);
  });

  test('may come in any order', () => {
    const lines = [
      { id: 'a', intervals: [[90, 140]], class: 'trend' },
      { id: 'b', intervals: [[25, 33]], class: 'trend' },
      { id: 'c', intervals: [[5, 9]], class: 'normal' },
    ];
    const first = scored(read(GOLD, lines)).overall;
    fc.assert(
      fc.property(fc.shuffledSubarray(lines, { minLength: 3 }), (order) => {
        expect(scored(read(GOLD, order)).overall).toEqual(first);
      }),
      { numRuns: 5 },
    );
  });

  test('that are missing count as unreadable, and are named', () => {
    const { n, answered, missing, missingIds, overall } = scored(read(GOLD, PERFECT.slice(0, 1)));
    expect({ n, answered, missing, missingIds }).toEqual({
      n: 3,
      answered: 1,
      missing: 2,
      missingIds: ['b', 'c'],
    });
    expect(overall.point_f1?.mean).toBeCloseTo(1 / 3, 12);
    expect(overall.success_rate?.mean).toBeCloseTo(1 / 3, 12);
  });

  test('whose class can be read count for it, though their intervals cannot', () => {
    const text = '<think></think><answer>nowhere</answer><class>trend</class>';
    const { overall } = scored(read(GOLD.slice(0, 1), [{ id: 'a', text }]));
    expect([overall.unparsable.mean, overall.class_accuracy?.mean, overall.point_f1?.mean]).toEqual([
      1, 1, 0,
    ]);
  });

  test('of a task that names no class need none', () => {
    const gold = [
      { id: 'a', length: 100, intervals: [[10, 20]] },
      { id: 'b', length: 100, intervals: [] },
    ];
    const { overall, byClass } = scored(
      read(gold, [
        { id: 'a', intervals: [[10, 20]] },
        { id: 'b', intervals: [] },
      ]),
    );
    expect(overall).not.toHaveProperty('class_accuracy');
    expect(overall.success_rate?.mean).toBe(1);
    expect(overall.reward.mean).toBe(1);
    expect(Object.keys(byClass)).toEqual(['normal', 'unnamed anomaly']);
  });

  test('of classes and of variates are scored by their own metrics', () => {
    const classes = scored(
      read(
        [
          { id: 'a', class: 'walk' },
          { id: 'b', class: 'run' },
          { id: 'c', class: 'walk' },
        ],
        [
          { id: 'a', class: ' WALK' },
          { id: 'b', text: '<think>fast</think><class>run</class>' },
          { id: 'c', class: 'swim' },
        ],
      ),
    );
    expect(classes.overall.class_accuracy?.mean).toBeCloseTo(2 / 3, 12);
    expect(classes.otherLabels).toBe(1);
    expect(classes.confusion?.columns).toEqual(['run', 'walk', 'other label']);
    const variates = scored(
      read([{ id: 'v', length: 50, channels: 9, variates: [2, 7] }], [{ id: 'v', variates: [7] }]),
    );
    expect(variates.overall.variate_f1?.mean).toBeCloseTo(2 / 3, 12);
  });

  test('may name classes of the user’s own', () => {
    const gold = [{ id: 'a', length: 100, intervals: [[10, 20]], class: 'dropout' }];
    expect(complaint(gold, PERFECT)).toContain('class: "dropout" is none of contextual point, global point');
    const { overall, confusion } = scored(
      read(gold, [{ id: 'a', intervals: [[10, 20]], class: 'Dropout' }], { classes: ['dropout', 'drift'] }),
    );
    expect(overall.class_accuracy?.mean).toBe(1);
    expect(confusion).toEqual({ rows: ['dropout'], columns: ['dropout'], counts: [[1]] });
  });

  test('that overlap, are reversed or leave the series are mended leniently and refused strictly', () => {
    const lines = [
      {
        id: 'a',
        intervals: [
          [140, 150],
          [100, 145],
          [110, 120],
        ],
        class: 'trend',
      },
      {
        id: 'b',
        intervals: [
          [340, 300],
          [20, 30.5],
          [499, 9e9],
        ],
        class: 'global point',
      },
      { id: 'c', intervals: [[30, 20]], class: 'normal' },
    ];
    const [a, b, c] = read(GOLD, lines).records.map(({ answer }) => answer);
    expect(a).toMatchObject({ intervals: [[100, 150]], wellFormed: true });
    expect(b).toMatchObject({
      intervals: [
        [20, 30],
        [499, 500],
      ],
      wellFormed: false,
    });
    expect(c).toMatchObject({
      intervals: null,
      problem: 'interval [30, 20] is empty: the start must be below the end',
    });
    const strict = read(GOLD, lines, { answers: 'strict' }).records.map(({ answer }) => answer.intervals);
    expect(strict).toEqual([[[100, 150]], null, null]);
  });

  test('with an interval of a billion points take no longer', () => {
    const gold = [
      { id: 'a', length: 2_000_000_000, intervals: [[500_000_000, 1_500_000_000]], class: 'trend' },
    ];
    const pred = [{ id: 'a', intervals: [[400_000_000, 1_500_000_000]], class: 'trend' }];
    expect(scored(read(gold, pred)).overall.point_f1?.mean).toBeCloseTo(2 / 2.1, 9);
  });

  test('of ten megabytes are answers that cannot be read', () => {
    const text = `<think>${'x'.repeat(10_000_000)}</think><answer>[[100, 150]]</answer><class>trend</class>`;
    const [record] = read(GOLD, [{ id: 'a', text }]).records;
    expect(record!.answer).toMatchObject({ intervals: null, problem: 'longer than 200000 characters' });
  });

  test('come several to an id, told apart by sample', () => {
    const pred = [
      { id: 'a', sample: 1, intervals: [[700, 710]], class: 'seasonal' },
      { id: 'a', sample: 0, intervals: [[100, 150]], class: 'trend' },
      { id: 'a', sample: 2, intervals: [[100, 151]], class: 'trend' },
    ];
    const { samples, overall } = scored(read(GOLD.slice(0, 1), pred));
    expect(overall.class_accuracy?.mean).toBeCloseTo(2 / 3, 12);
    expect(samples?.passAtK['2']?.mean).toBe(1);
    expect(samples?.consensus.point_f1?.mean).toBe(1);
  });

  test('with scores have areas and volumes, with scores alone nothing else', () => {
    const gold = [
      { id: 'a', length: 6, intervals: [[1, 3]] },
      { id: 'b', length: 3, intervals: [] },
    ];
    const scores = [
      { id: 'a', scores: [0, 2, 3, 1, 0, 0] },
      { id: 'b', scores: [1, 2, 3] },
    ];
    const alone = scored(read(gold, scores));
    expect(Object.keys(alone.overall)).toEqual(['auc_pr', 'auc_roc', 'vus_pr', 'vus_roc']);
    expect(alone.overall['auc_pr']).toMatchObject({ mean: 1, n: 1 });
    const both = scored(
      read(
        gold,
        scores.map((one) => ({ ...one, intervals: [] })),
      ),
    );
    expect(both.overall['auc_roc']?.n).toBe(1);
    expect(both.overall.point_f1?.mean).toBe(0.5);
  });

  test('with probabilities are calibrated or not', () => {
    const gold = [
      { id: 'a', class: 'x' },
      { id: 'b', class: 'y' },
    ];
    const pred = [
      { id: 'a', probabilities: { x: 0.8, y: 0.2 } },
      { id: 'b', probabilities: { x: 0.6, y: 0.4 } },
    ];
    const { calibration, overall } = scored(read(gold, pred));
    expect(overall.class_accuracy?.mean).toBe(0.5);
    expect(calibration?.brier.mean).toBeCloseTo((0.08 + 0.72) / 2, 12);
    expect(calibration?.log_loss.mean).toBeCloseTo((-Math.log(0.8) - Math.log(0.4)) / 2, 12);
    expect(calibration?.ece.mean).toBeCloseTo((0.2 + 0.6) / 2, 12);
  });
});

describe('what is wrong with the files is told with file and line', () => {
  const one = [{ id: 'a', length: 100, intervals: [[5, 9]] }];
  const gold = [
    ['an id twice', [...one, '', ...one], '0.jsonl:3: id: "a" again, first in line 1'],
    [
      'an interval outside',
      [{ id: 'a', length: 100, intervals: [[90, 101]] }],
      ':1: intervals[0]: [90,101] leaves the series, which covers [0, 100)',
    ],
    [
      'intervals that overlap',
      [
        {
          id: 'a',
          length: 100,
          intervals: [
            [5, 9],
            [8, 12],
          ],
        },
      ],
      ':1: intervals[1]: [8,12] overlaps or precedes [5,9]',
    ],
    [
      'a reversed interval',
      [{ id: 'a', length: 100, intervals: [[9, 5]] }],
      ':1: intervals[0]: [9,5] is empty',
    ],
    ['no length', [{ id: 'a', intervals: [[5, 9]] }], ':1: length: missing'],
    [
      'a length of zero',
      [{ id: 'a', length: 0, intervals: [] }],
      ':1: length: got 0, expected an integer ≥ 1',
    ],
    ['no answer', [{ id: 'a', length: 5 }], ':1: no gold answer: expected intervals, a class, variates'],
    [
      'normal with intervals',
      [{ id: 'a', length: 100, intervals: [[5, 9]], class: 'normal' }],
      ':1: class: "normal" with 1 intervals',
    ],
    [
      'two kinds',
      [...one, { id: 'b', class: 'walk' }],
      ':2: an answer of kind classification beside one of kind anomaly in line 1',
    ],
    [
      'misspelt intervals beside a class',
      [{ id: 'a', length: 100, interval: [[5, 9]], class: 'trend' }],
      ':1: "interval": unknown field. Did you mean "intervals"?',
    ],
    ['nothing', [], 'holds no gold answer'],
  ] as const;
  test.each(gold)('gold answers: %s', (_, lines, message) => {
    expect(complaint(lines, [{ id: 'a', intervals: [] }]).replace(/^\d+/, '0')).toContain(message);
  });

  test('a field of others may be named a little like a part of the answer', () => {
    const line = { id: 'a', length: 100, intervals: [[5, 9]], variable: 'temp', close: 3, classes: ['a'] };
    const plain = { id: 'a', length: 100, intervals: [[5, 9]] };
    expect(read([line], [{ ...line, interval: 60 }]).records).toEqual(read([plain], [plain]).records);
  });

  const deep = `{"id": "a", "intervals": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const pred = [
    [
      'no JSON',
      [{ id: 'a', intervals: [] }, '{"id": "a", intervals}'],
      ':2:13: not a JSON line; write one JSON object per line',
    ],
    [
      'a comma after the object',
      ['{"id": "a", "intervals": []},'],
      ':1:29: not a JSON line; remove the last comma; write one JSON object per line',
    ],
    [
      'a comma after the last field',
      ['{"id": "a", "intervals": [], }'],
      ':1:30: not a JSON line; remove the last comma; write one JSON object per line',
    ],
    ['a list', ['[1, 2]'], ':1: got [1,2], expected an object with "id"'],
    ['no id', [{ intervals: [] }], ':1: id: got undefined, expected text'],
    ['an unknown id', [{ id: 'z', intervals: [] }], ':1: id: "z" is not in'],
    [
      'an id twice',
      [
        { id: 'a', intervals: [] },
        { id: 'a', intervals: [] },
      ],
      ':2: id: "a" again, first in line 1; number several answers with "sample"',
    ],
    [
      'a sample twice',
      [
        { id: 'a', sample: 3, intervals: [] },
        { id: 'a', sample: 3, intervals: [] },
      ],
      ':2: id: "a" with sample 3 again, first in line 1',
    ],
    [
      'a misspelt part beside another',
      [{ id: 'a', interval: [[5, 9]], class: 'trend' }],
      ':1: "interval": unknown field. Did you mean "intervals"?',
    ],
    [
      'a misspelt part alone',
      [{ id: 'a', txt: '<answer>[]</answer>' }],
      ':1: "txt": unknown field. Did you mean "text"?',
    ],
    [
      'no answer',
      [{ id: 'a', value: 3 }],
      ':1: no answer: expected text, intervals, class, variates, probabilities or scores',
    ],
    [
      'intervals that are no pairs',
      [{ id: 'a', intervals: [[1, 2, 3]] }],
      ':1: intervals[0]: got [1,2,3], expected [start, end], two numbers',
    ],
    [
      'intervals of text',
      [{ id: 'a', intervals: '[[1, 2]]' }],
      ':1: intervals: got "[[1, 2]]", expected a list',
    ],
    [
      'deep nesting',
      [deep],
      ':1: intervals[0]: got a value that is nested too deep to be shown, expected [start, end]',
    ],
    ['text that is none', [{ id: 'a', text: 7 }], ':1: text: got 7, expected text'],
    ['a class that is none', [{ id: 'a', intervals: [], class: 7 }], ':1: class: got 7, expected text'],
    [
      'too few scores',
      [{ id: 'a', scores: [1, 2] }],
      ':1: scores: got 2 of them, expected one for each of the 100 points',
    ],
    [
      'a score that is none',
      [{ id: 'a', scores: Array.from({ length: 100 }, (_, i) => (i === 7 ? 'x' : i)) }],
      ':1: scores[7]: got "x", expected a finite number',
    ],
    [
      'probabilities of intervals',
      [{ id: 'a', probabilities: { x: 1 } }],
      ':1: probabilities: only those of the classes of a classification',
    ],
    ['nothing', [], 'holds no prediction'],
  ] as const;
  test.each(pred)('predictions: %s', (_, lines, message) => {
    expect(complaint(one, lines)).toContain(message);
  });

  test('probabilities that do not sum to 1', () => {
    const message = complaint([{ id: 'a', class: 'x' }], [{ id: 'a', probabilities: { x: 0.5, y: 0.4 } }]);
    expect(message).toMatch(/:1: probabilities: they sum to 0\.9, expected 1$/);
  });

  test('a gold class outside of the list', () => {
    const message = complaint([{ id: 'a', class: 'swim' }], [], { classes: ['walk', 'run'] });
    expect(message).toContain(':1: class: "swim" is none of walk, run; name your own with --classes');
  });

  test('a compressed file', () => {
    const path = join(folder, 'gold.jsonl.gz');
    writeFileSync(path, gzipSync(JSON.stringify(one[0])));
    expect(() => readPredictions({ gold: path, pred: file([]) })).toThrow(
      /gold\.jsonl\.gz: a compressed file; unpack it first \(gunzip\)$/,
    );
  });

  test('a file that is not there', () => {
    expect(() => scored(readPredictions({ gold: join(folder, 'none.jsonl'), pred: file([]) }))).toThrow(
      /none\.jsonl: no such file; write one/,
    );
  });
});

test('records of an evaluation are gold answers and predictions, with the same metrics', () => {
  const spike = { intervals: [[100, 150]] as const, class: 'global point' as const };
  const records = [
    evalRecord('nano5/test/0', spike, writeResponse([[100, 160]], 'trend')),
    evalRecord('nano5/test/1', spike, 'nothing to read'),
  ];
  const path = join(folder, 'records.jsonl');
  writeRecords(path, records);
  const { overall, byTask } = scored(readPredictions({ gold: path, pred: path }));
  const own = metricsOf(records);
  expect(overall).toEqual(own.overall);
  expect(Object.keys(byTask)).toEqual(['nano5']);
});

describe('timeseer score', () => {
  test('prints a line for each example, then one object', async () => {
    const [gold, pred] = [file(GOLD), file(PERFECT.slice(0, 2))];
    const { code, out } = await inside('score', '--gold', gold, '--pred', pred, '--json', '--per-example');
    expect(code).toBe(0);
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatchObject({
      id: 'a',
      total: 1,
      parts: { localisation: 1, class: 1, format: 1 },
      problem: null,
    });
    expect(lines[2]).toMatchObject({ id: 'c', total: 0, problem: 'there is no prediction' });
    expect(lines[3]).toMatchObject({ n: 3, missing: 1, overall: { point_f1: { n: 3 } } });
  });

  test('prints a table that leads with few metrics and says what is missing', async () => {
    const { out } = await inside('score', '--gold', file(GOLD), '--pred', file(PERFECT.slice(0, 2)));
    expect(out).toMatch(/^ +format +readable +class +point F1 +affil\. F1 +reward +n\nall series +0\.667/);
    expect(out).toContain('; a part of an answer that cannot be read counts as 0\n');
    expect(out).toMatch(/\nVUS F1 +0\.667 \[.*\] {2}n 3\nAdjusted F1 \(inflated\) +0\.667/);
    expect(out).toContain(
      '3 gold answers, 2 with a prediction\n1 without a prediction count as unparsable: c',
    );
  });

  test('refuses classes that are none', async () => {
    const { code, err } = await inside(
      'score',
      '--gold',
      file(GOLD),
      '--pred',
      file(PERFECT),
      '--classes',
      'a,,b',
    );
    expect(code).toBe(2);
    expect(err).toContain('--classes: expected different names separated by commas');
  });
});

test('an example without a fault says so', () => {
  const [record] = read(GOLD, PERFECT).records;
  expect(exampleScore(record!)).toMatchObject({ id: 'a', total: 1, problem: null });
});
