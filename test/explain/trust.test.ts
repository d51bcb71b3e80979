import { describe, expect, test } from 'vitest';
import { policyStatement } from '../../src/explain/policy-words.ts';
import {
  type AskedWindow,
  agreement,
  judge,
  MOST_DOUBTFUL,
  MOST_REPEATED,
  pairwiseAgreement,
  repetition,
  shiftAgreements,
} from '../../src/explain/trust.ts';
import type { Interval } from '../../src/ground/types.ts';
import { makeReference } from '../../src/tasks/reference.ts';

const window = (start: number, change: Partial<AskedWindow> = {}): AskedWindow => ({
  start,
  end: start + 100,
  intervals: [],
  class: 'normal',
  response: `answer ${start}`,
  problem: null,
  logProbability: -0.1,
  distance: 1,
  sampleAgreement: null,
  input: `picture ${start}`,
  cells: null,
  scale: 0,
  ...change,
});

/** Of states around 0 with distances about 1, and log-probabilities from −0.2 to −0.1. */
const reference = makeReference(
  Array.from({ length: 40 }, (_, i) => Float32Array.of(Math.sin(i), Math.cos(3 * i))),
  Array.from({ length: 100 }, (_, i) => Float32Array.of(Math.sin(2 * i), Math.cos(5 * i))),
  Array.from({ length: 100 }, (_, i) => -0.1 - 0.001 * i),
);

const doubtsOf = (windows: readonly AskedWindow[]): string[][] =>
  judge(windows, reference).answers.map(({ doubts }) => [...doubts]);

describe('agreement', () => {
  test('is intersection over union, and unknown where nobody marks anything', () => {
    expect(agreement([[10, 20]], [[15, 40]])).toBeCloseTo(5 / 30, 12);
    expect(agreement([[10, 20]], [])).toBe(0);
    expect(agreement([], [])).toBeNull();
  });

  test('of several answers is the mean over pairs: nothing agrees with nothing, what cannot be read with none', () => {
    expect(pairwiseAgreement([[], [], []])).toBe(1);
    expect(pairwiseAgreement([[[0, 10]], [[5, 15]], []])).toBeCloseTo((5 / 15 + 0 + 0) / 3, 12);
    expect(pairwiseAgreement([null, null])).toBe(0);
    expect(pairwiseAgreement([[[0, 10]]])).toBe(1);
  });

  test('of windows counts where they overlap alone', () => {
    const windows = [
      window(0, {
        intervals: [
          [10, 20],
          [60, 80],
        ],
      }),
      window(50, {
        intervals: [
          [70, 90],
          [120, 130],
        ],
      }),
      window(100, { intervals: [] }),
      window(150, { intervals: null }),
    ];
    const { each, all } = shiftAgreements(windows);
    // [60, 80) and [70, 90) in [50, 100); [120, 130) and nothing in [100, 150).
    expect(each).toEqual([10 / 30, 10 / 40, 0, null]);
    expect(all).toBeCloseTo(20 / 80, 12);
    expect(shiftAgreements([window(0), window(50)])).toEqual({ each: [null, null], all: null });
  });
});

describe('repetition', () => {
  const marking = (start: number, response: string, input = `picture ${start}`): AskedWindow =>
    window(start, { intervals: [[start, start + 10]], response, input });

  test('is the share of one text among pictures that differ', () => {
    const windows = [0, 1, 2, 3].map((k) => marking(100 * k, k < 3 ? 'same' : 'other'));
    expect(repetition(windows)).toMatchObject({ share: 3 / 4, repeated: [true, true, true, false] });
  });

  test('is none where the pictures are the same, where nothing is marked, and of a text that two have', () => {
    const alike = [0, 1, 2, 3].map((k) => marking(100 * k, 'same', 'one picture'));
    expect(repetition(alike)).toMatchObject({ share: null, repeated: [false, false, false, false] });
    const normal = [0, 1, 2, 3].map((k) => window(100 * k, { response: 'nothing' }));
    expect(repetition(normal)).toMatchObject({ share: null, marking: 0 });
    const two = [0, 1, 2, 3].map((k) => marking(100 * k, k < 2 ? 'same' : `other ${k}`));
    expect(repetition(two).repeated).not.toContain(true);
  });

  test('is none of a text that a small part of many windows have', () => {
    const rare = Array.from({ length: 40 }, (_, k) => marking(100 * k, k < 3 ? 'same' : `text ${k}`));
    expect(3 / 40).toBeLessThan(MOST_REPEATED);
    expect(repetition(rare).repeated).not.toContain(true);
  });
});

describe('judging', () => {
  test('doubts a window by each measure, and by none where all is well', () => {
    expect(
      doubtsOf([
        window(0),
        window(100, { intervals: null }),
        window(200, { distance: 1.01 * reference.distance.p99 }),
        window(300, { logProbability: -0.3 }),
        window(400, { sampleAgreement: 0.01 }),
        window(500, { sampleAgreement: 0.9, distance: reference.distance.p50 }),
      ]),
    ).toEqual([[], ['unreadable'], ['unlike'], ['unsure'], ['samples'], []]);
    const torn = Array.from({ length: 6 }, (_, k) =>
      window(50 * k, { intervals: [[50 * k + 5, 50 * k + 45]] }),
    );
    expect(doubtsOf(torn)).toEqual(Array(6).fill(['shifts']));
  });

  test('forgives one contradiction among windows that agree otherwise, and one of two windows', () => {
    const marks: Interval[] = [[60, 90]];
    const agreeing = [window(0, { intervals: marks }), window(50, { intervals: marks }), window(100)];
    const torn = window(150, { intervals: [[180, 190]] });
    expect(doubtsOf([...agreeing, torn]).flat()).toEqual([]);
    expect(doubtsOf([agreeing[2]!, torn]).flat()).toEqual([]);
    expect(judge([agreeing[2]!, torn], reference).answers.map((one) => one.shiftAgreement)).toEqual([0, 0]);
  });

  test('tells each number with its limit and how many windows are beyond it', () => {
    const { signals } = judge(
      [window(0), window(100, { distance: 50 }), window(200, { distance: 60 })],
      reference,
    );
    expect(signals.find(({ name }) => name === 'unlike')).toMatchObject({
      value: 50,
      limit: reference.distance.p99,
      windows: 3,
      doubtful: 2,
    });
    expect(signals.find(({ name }) => name === 'samples')).toMatchObject({
      value: null,
      windows: 0,
      doubtful: 0,
    });
  });

  test('knows no limit of distance and probability without a reference, and doubts nothing by them', () => {
    const { signals, doubtful } = judge([window(0, { distance: null, logProbability: -9 })], null);
    expect(doubtful).toBe(0);
    expect(signals.filter(({ limit }) => limit === null).map(({ name }) => name)).toEqual([
      'unlike',
      'unsure',
    ]);
    expect(signals.find(({ name }) => name === 'unsure')!.value).toBe(-9);
  });

  test('abstains where more than the stated share is doubtful, and says so with the numbers', () => {
    const windows = (bad: number): AskedWindow[] =>
      Array.from({ length: 10 }, (_, k) => window(100 * k, k < bad ? { distance: 70 + k } : {}));
    const at = Math.floor(10 * MOST_DOUBTFUL);
    expect(judge(windows(at), reference).abstains).toBe(false);
    const much = judge(windows(at + 1), reference);
    expect(much.abstains).toBe(true);
    const statement = policyStatement({
      ...much,
      status: 'abstains',
      limit: MOST_DOUBTFUL,
      class: null,
      intervals: [],
    });
    expect(statement).toMatch(
      /^Abstains: \d+ of 10 windows \(\d+ %, limit \d+ %\) cannot be trusted: \d+ look unlike/,
    );
    expect(statement).toContain(`${at + 1} of 10 windows`);
  });

  test('abstains where the few windows that mark something are doubtful, however many say that nothing is there', () => {
    const windows = Array.from({ length: 40 }, (_, k) =>
      window(100 * k, k % 8 === 0 ? { intervals: [[100 * k, 100 * k + 9]], sampleAgreement: 0.05 } : {}),
    );
    const trust = judge(windows, reference);
    expect(trust).toMatchObject({ doubtful: 5, abstains: true });
    const told = { ...trust, status: 'abstains' as const, limit: MOST_DOUBTFUL, class: null, intervals: [] };
    expect(policyStatement(told)).toMatch(
      /^Abstains: 5 of the 5 windows in which it marks something \(100 %, limit 30 %\)/,
    );
    expect(judge(windows.slice(0, 16), reference)).toMatchObject({ doubtful: 2, abstains: false });
  });
});
