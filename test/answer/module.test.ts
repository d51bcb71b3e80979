import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { type ExampleAddress, openExamples } from '../../datasets/source.ts';
import {
  answererOf,
  type DetectorDefinition,
  defineDetector,
  definePolicy,
  detectedAnswer,
  hostPolicy,
  type PolicyDefinition,
  type PolicyRequest,
  userAnswerer,
} from '../../src/answer/define.ts';
import { type CellResult, evaluateCell } from '../../src/run/eval-cell.ts';
import { foreignCard } from '../../src/run/policy-task.ts';

const address: ExampleAddress = { name: 'nano5', split: 'test', seed: 42, length: 200, count: 4 };
const source = openExamples(address);
const ANSWER = '<think>flat</think><answer>[[20, 40]]</answer><class>trend</class>';

async function evaluated(
  definition: PolicyDefinition | DetectorDefinition,
  ready = async () => {},
): Promise<CellResult> {
  const policy = userAnswerer({ given: 'mine.ts', definition, identity: { module: 'abc' }, ready });
  return evaluateCell({
    ...{
      policy,
      card: foreignCard(source.facts, null),
      address,
      source,
      temperatures: [0],
      samples: 1,
      out: null,
    },
    form: {
      ...{ numbers: { digits: 3, points: 20 }, shots: { count: 1, seed: 42 }, reasoning: false },
      ...{ reading: 'lenient', maxTokens: 64, seed: 42 },
    },
    ...{ beginning: { resume: false, force: false }, label: 'test', silent: true },
  });
}
const records = ({ modes }: CellResult) => modes[0]!.records;
const policy = (answer: PolicyDefinition['answer'], more = {}) =>
  definePolicy({ name: 'mine', answer, ...more });

describe('a policy of the user', () => {
  test('is given the question without its answer, and what it gives back is kept', async () => {
    const seen: PolicyRequest[] = [];
    const result = await evaluated(
      policy(async (request) => {
        seen.push(request);
        await sleep(1);
        return { text: ANSWER, usage: { prompt: 9, completion: 4 }, cost: 0.5 };
      }),
    );
    expect(result.modes[0]!.usage).toMatchObject({
      asked: 4,
      missing: 0,
      cost: 2,
      tokens: { prompt: 9, completion: 4 },
    });
    expect(records(result)[2]).toMatchObject({
      seriesId: 'nano5/test/2',
      response: ANSWER,
      sample: 0,
      temperature: 0,
    });
    const [{ series, instruction, shots, picture, seed }] = seen as [PolicyRequest];
    expect(Object.keys(series).sort()).toEqual(['channels', 'id', 'names', 'task', 'times']);
    expect(series.channels[0]).toEqual(source.at(0).channels[0]);
    expect(instruction).toContain('The numbers below');
    expect(shots.map(({ response }) => response.startsWith('<answer>'))).toEqual([true]);
    expect({
      picture,
      seeds: new Set(seen.map((one) => one.seed)).size,
      integer: Number.isInteger(seed),
    }).toEqual({
      ...{ picture: null, seeds: 4, integer: true },
    });
  });

  test.each<[string, PolicyDefinition, RegExp]>([
    [
      'throws',
      policy(() => {
        throw new TypeError('no luck');
      }),
      /^answer of mine: threw TypeError: no luck$/,
    ],
    [
      'hangs',
      policy(() => new Promise(() => {}), { timeLimit: 0.02, concurrency: 4 }),
      /^answer of mine: gave nothing within 0\.02 s$/,
    ],
    ['gives a number', policy(() => 7 as never), /^answer of mine: returned 7; return a text/],
    ['gives nothing', policy(() => undefined as never), /^answer of mine: returned undefined; return a text/],
    ['has no response', policy(() => null), /^answer of mine: gave no response$/],
    [
      'counts wrongly',
      policy(() => ({ text: 'a', usage: { prompt: 1.5, completion: 2 } })),
      /returned usage .*whole numbers/,
    ],
    ['costs NaN', policy(() => ({ text: 'a', cost: Number.NaN })), /returned cost/],
  ])('that %s leaves its responses missing, with the reason', async (_, definition, reason) => {
    const result = await evaluated(definition);
    expect(result.modes[0]).toMatchObject({ metrics: null, usage: { asked: 4, missing: 4 } });
    for (const { failure, response } of records(result)) {
      expect(failure).toMatch(reason);
      expect(response).toBe('');
    }
  });
});

describe('a detector of the user', () => {
  test('answers from values, in any order; null is an answer that cannot be read', async () => {
    const result = await evaluated(
      defineDetector({
        name: 'odd',
        detect: ({ id, channels }, { kind }) => {
          expect([kind, channels[0]!.length]).toEqual(['anomaly', 200]);
          channels[0]!.fill(0); // a copy
          return id.endsWith('1')
            ? null
            : {
                intervals: [
                  [50, 60],
                  [20, 40],
                ],
                class: 'trend',
              };
        },
      }),
    );
    expect(source.at(0).channels[0]!.some((value) => value !== 0)).toBe(true);
    expect(records(result).map(({ answer }) => answer.intervals)).toEqual([
      [
        [20, 40],
        [50, 60],
      ],
      null,
      [
        [20, 40],
        [50, 60],
      ],
      [
        [20, 40],
        [50, 60],
      ],
    ]);
    expect(result.modes[0]!.usage).toMatchObject({ asked: 4, missing: 0 });
    expect(result.modes[0]!.metrics!.overall.unparsable.mean).toBe(0.25);
  });

  test('that gives back what is no answer leaves it missing', async () => {
    const result = await evaluated(
      defineDetector({ name: 'far', detect: () => ({ intervals: [[5, 999]] }) }),
    );
    expect(result.modes[0]!.usage.missing).toBe(4);
    expect(records(result)[0]!.failure).toMatch(
      /^detect of far: intervals\[0\]: \[5,999\] leaves the series/,
    );
  });

  test('that gives back nothing at all leaves it missing, and says what to give', async () => {
    const detect = () => undefined as unknown as null;
    const result = await evaluated(defineDetector({ name: 'mute', detect }));
    expect(records(result)[0]!.failure).toBe(
      'detect of mute: returned undefined; return { intervals, class, variates }, or null',
    );
  });

  test('has answers of every kind', () => {
    const shape = { length: 100, channels: 3 };
    expect(detectedAnswer({ intervals: [] }, 'anomaly', shape)).toEqual({
      kind: 'anomaly',
      intervals: [],
      class: 'normal',
    });
    expect(detectedAnswer({ class: 'Laptop' }, 'classification', shape)).toEqual({
      kind: 'classification',
      class: 'Laptop',
    });
    expect(detectedAnswer({ variates: [0, 2] }, 'variates', shape)).toEqual({
      kind: 'variates',
      variates: [0, 2],
    });
    expect(() => detectedAnswer({ variates: [3] }, 'variates', shape)).toThrow();
    expect(() => detectedAnswer({}, 'anomaly', shape)).toThrow(/intervals/);
  });
});

test.each([
  [
    { name: '', answer: (): string => 'a' },
    /m\.ts: exports no policy and no detector: definePolicy: name: got ""/,
  ],
  [{ name: 'a' }, /definePolicy a: expected a function answer/],
  [undefined, /definePolicy: name/],
  [{ name: 'a', detect: () => null, concurrency: 0 }, /defineDetector a: concurrency: got 0/],
  [{ name: 'a', answer: (): string => 'a', timeLimit: -1 }, /timeLimit: got -1/],
])('%j is no definition', (value, message) => {
  expect(() => answererOf(value, 'm.ts')).toThrow(message);
});

describe('a module of the user', () => {
  const directory = mkdtempSync(join(tmpdir(), 'timeseer-policy-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const module = (name: string, text: string) => {
    const file = join(directory, name);
    writeFileSync(file, text);
    return { file, name: 'default' };
  };

  test('that blocks its thread leaves that response missing, naming the function, and answers the others', async () => {
    const hosted = await hostPolicy(
      module(
        'blocks.mjs',
        `export default { name: 'stuck', timeLimit: 0.3, detect: ({ id }) => {
          if (id.endsWith('1')) for (;;);
          if (id.endsWith('2')) process.exit(3);
          if (id.endsWith('3')) throw new TypeError('no luck');
          return { intervals: [[20, 40]] };
        } };`,
      ),
    );
    try {
      const said = records(await evaluated(hosted.definition, hosted.ready));
      expect(said.map(({ seriesId, answer, failure }) => [seriesId, answer.intervals, failure])).toEqual([
        ['nano5/test/0', [[20, 40]], undefined],
        ['nano5/test/1', null, 'detect of stuck: gave nothing within 0.3 s'],
        ['nano5/test/2', null, expect.stringMatching(/^detect of stuck: .*process\.exit\(3\)/)],
        ['nano5/test/3', null, 'detect of stuck: threw TypeError: no luck'],
      ]);
    } finally {
      await hosted.close();
    }
  });

  test('that exports no policy is refused', async () => {
    const address = module('seven.mjs', 'export default 7;');
    await expect(hostPolicy(address)).rejects.toThrow(/seven\.mjs: exports no policy and no detector/);
  });
});
