import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { analyse } from '../../src/expcot/evidence.ts';
import { nanoFactsTeacher } from '../../src/expcot/nano.ts';
import { claimedDepartures, claimOf, claimWords } from '../../src/explain/policy-words.ts';
import type { PolicyAnswer } from '../../src/explain/schema.ts';
import { DEPARTURE_KINDS, type SeriesFacts } from '../../src/ground/types.ts';

const answer = (
  intervals: readonly (readonly [number, number])[],
  think: string,
  change: Partial<PolicyAnswer> = {},
): PolicyAnswer => ({
  ...{ start: 0, end: 560, class: 'trend', problem: null, doubts: [], logProbability: -0.1, distance: null },
  ...{ sampleAgreement: null, shiftAgreement: null },
  intervals: intervals.map(([start, end]) => [start, end]),
  response: `<think>${think}</think><answer>${JSON.stringify(intervals)}</answer><class>trend</class>`,
  ...change,
});

const NOTHING = { kind: null, direction: null, size: null };

describe('the departures that a reasoning names', () => {
  test('are read as the traces of training write them, in the order of the answer', () => {
    const between = (low: number, high: number) => [low, (low + high) / 2, high] as const;
    const facts: SeriesFacts = {
      ...{ components: ['season', 'trend'], periods: [24], step: 60, range: [0, 1] },
      departures: DEPARTURE_KINDS.map((kind, i) => ({
        ...{ kind, severity: 3.6 * (i + 1), visibility: 1 },
        ...{ observed: between(i % 2, i % 2 === 0 ? 1 : 3), unmodified: between(0.2, 1.4) },
      })),
    };
    const intervals = DEPARTURE_KINDS.map((_, i) => [50 * i, 50 * i + 20] as const);
    const values = new Float64Array(560);
    const trace = nanoFactsTeacher(facts, analyse(values), values, { intervals, class: 'trend' });
    const read = claimedDepartures(trace);
    expect(read.map(({ kind }) => kind)).toEqual(DEPARTURE_KINDS);
    expect(read.every(({ size }) => size! > 0)).toBe(true);
    expect(read[2]).toMatchObject({ kind: 'level shift', direction: 'down', size: 10 });
    expect(read[3]).toMatchObject({ kind: 'trend change', direction: 'up', size: 20 });
  });

  test.each([
    ['no reasoning', '<answer>[[1, 2]]</answer>', []],
    ['no scan', '<think>noise; spike 4 sd</think>', []],
    ['another kind', '<think>noise; scan ..; surge 4 sd</think>', [NOTHING]],
    ['no number', '<think>noise; scan ..; spike many sd</think>', [NOTHING]],
    ['a size of nothing', '<think>noise; scan ..; spike 0 sd</think>', [NOTHING]],
    ['more behind it', '<think>noise; scan ..; spike 4 sd<b></think>', []],
    ['another test', '<think>noise; scan ..; discord</think>', [NOTHING]],
  ])('are nothing with %s', (_, response, expected) => {
    expect(claimedDepartures(response)).toEqual(expected);
  });

  test('never fail, and are of known kinds', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        for (const { kind, size } of claimedDepartures(`<think>${before}; scan ..; ${after}</think>`)) {
          expect(kind === null ? size === null : size! > 0).toBe(true);
        }
      }),
    );
  });
});

describe('what is claimed of a stretch', () => {
  const answers = [
    answer([[100, 140]], 'noise; scan ..; dip 3 sd'),
    answer([[90, 200]], 'noise; scan ..; level shift up 4 sd', { class: 'shapelet' }),
    answer(
      [
        [300, 310],
        [400, 480],
      ],
      'noise; scan ..; spike 20 sd; flat line 2 sd',
    ),
    answer([[300, 310]], 'noise; scan ..; dip 5 sd', { doubts: ['unsure'] }),
    answer([[500, 510]], 'noise; scan ..; dip 5 sd; spike 2 sd'),
    answer([], 'noise; scan ..', { intervals: null }),
  ];

  test('is from the answer that marks nearly the same, and there of the same stretch', () => {
    expect(claimOf([100, 150], answers)).toEqual({ class: 'trend', kind: 'dip', direction: null, size: 3 });
    expect(claimOf([95, 195], answers)).toMatchObject({
      class: 'shapelet',
      kind: 'level shift',
      direction: 'up',
    });
    expect(claimOf([410, 480], answers)).toMatchObject({ kind: 'flat line', size: 2 });
    expect(claimOf([300, 310], answers)).toMatchObject({ kind: 'spike', size: 20 });
  });

  test('is the class alone where departures and intervals are not of one number, and nothing where nobody marks it', () => {
    expect(claimOf([500, 510], answers)).toEqual({ class: 'trend', ...NOTHING });
    expect(claimOf([520, 530], answers)).toEqual({ class: null, ...NOTHING });
  });

  test('is told in words', () => {
    const words = (stretch: readonly [number, number]): string => claimWords(claimOf(stretch, answers));
    expect(words([90, 200])).toBe('level shift up, about 4 standard deviations');
    expect(words([500, 510])).toBe('trend');
    expect(words([520, 530])).toBe('unusual');
  });
});
