/** Grades of reasonings: precision, recall and F1 of claims, and what does not raise them. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkReasoning, gradeEnds, ReasoningGrader } from '../../src/claims/reasoning.ts';

const N = 600;
/** A sine of 40 samples around 2 with a slow rise: asymmetric in value and time. */
const values = Float64Array.from({ length: N }, (_, i) => 2 + Math.sin((2 * Math.PI * i) / 40) + i / 900);
const example = {
  channels: [values],
  names: ['value'],
  gold: { kind: 'anomaly', class: 'normal', intervals: [] },
} as const;
const mean = values.reduce((sum, value) => sum + value, 0) / N;
const TRACE = `<think>The mean is ${mean.toFixed(2)}. The maximum is ${Math.max(...values).toFixed(2)}. The period is 40.</think><answer>[]</answer><class>normal</class>`;
const grader = new ReasoningGrader(example, { trace: TRACE });
const [MEAN, MAXIMUM, PERIOD] = [
  `The mean is ${mean.toFixed(2)}.`,
  `The maximum is ${Math.max(...values).toFixed(2)}.`,
  'The period is 40.',
];
const f1 = (think: string): number => grader.grade(think).f1!;

test('a wrong number of which several are true is corrected, and one of which none is has no correction', () => {
  const think =
    'What the range test finds every 999 samples is the pattern. The tail of the values themselves reaches 99 from the mean.';
  const [recurrence, tail] = grader.grade(think).claims;
  expect([recurrence!.verdict.verdict, recurrence!.correction]).toEqual(['false', null]);
  expect(tail!.verdict.verdict).toBe('false');
  expect(tail!.correction).toMatch(/^the tail of the values themselves reaches \d\.\d+ from the mean$/i);
});

describe('a reasoning', () => {
  test.each([
    ['all three facts', `${MEAN} ${MAXIMUM} ${PERIOD}`, 3, 0, 1],
    ['two of three', `${MEAN} ${PERIOD}`, 2, 0, 4 / 5],
    ['one, and one wrong', `${MEAN} The period is 66.`, 1, 1, 2 / 5],
    ['nothing', 'It looks like waves.', 0, 0, 0],
    ['only a wrong one', 'The period is 66.', 0, 1, 0],
  ])('of %s', (_, think, recalled, wrong, score) => {
    expect(grader.grade(think)).toMatchObject({ facts: 3, recalled, false: wrong });
    expect(f1(think)).toBeCloseTo(score, 12);
  });

  test.each([
    ['repeats a fact', `${PERIOD} ${PERIOD} ${PERIOD}`, PERIOD],
    [
      'states trivial facts',
      `${PERIOD} The series has ${N} samples. The minimum is ${Math.min(...values).toFixed(2)}.`,
      PERIOD,
    ],
    ['hedges', `About ${mean.toFixed(1)} is the mean, roughly. The mean is about 2.3.`, 'nothing'],
    ['bounds', 'The mean is above -1000. The maximum is below 1000.', 'nothing'],
    ['gives a range', 'The period is between 2 and 500.', 'nothing'],
    ['denies', 'The period is not 66. The mean is not 77.', 'nothing'],
  ])('that %s earns no more than without', (_, think, plain) => {
    expect(f1(think)).toBeLessThanOrEqual(f1(plain));
  });

  test.each([
    ['hedged', 'The mean is about 77. The maximum is roughly 99.'],
    ['a bound', 'The mean is above 77. The maximum is below -99.'],
    ['denied, and true', `The mean is not ${mean.toFixed(2)}.`],
  ])('loses by what is false, also %s', (_, lies) => {
    const all = `${MEAN} ${MAXIMUM} ${PERIOD}`;
    expect(f1(`${all} ${lies}`)).toBeLessThan(f1(all));
    expect(f1(`${lies} ${lies} ${all}`)).toBe(f1(`${all} ${lies}`));
  });

  test.each(['0e9', '0e0', '1e9', '0×10^12'])(
    'states no fact by %s, which is near everything only in its unit',
    (number) => {
      const think = `The mean is ${number}. The maximum is ${number}. The period is ${number}.`;
      expect(grader.grade(think)).toMatchObject({ recalled: 0, f1: 0 });
    },
  );

  test('counts each claim once in the share that is true', () => {
    const think = `The period is 66. ${`The series has ${N} samples. `.repeat(50)}`;
    const answer = { think, intervals: [], class: 'normal', wellFormed: true, problem: null };
    expect(checkReasoning(answer, example)).toMatchObject({ true: 1, false: 1, truth: 0.5 });
  });

  test('that tries many numbers for one fact loses by each wrong one', () => {
    const shotgun = Array.from({ length: 20 }, (_, i) => `The period is ${30 + i}.`).join(' ');
    expect(grader.grade(shotgun).recalled).toBe(1);
    expect(f1(shotgun)).toBeLessThan(0.2);
  });

  test('never exceeds 1 nor falls below 0, in whatever order and however often facts are stated', () => {
    const sentence = fc.constantFrom(
      MEAN!,
      MAXIMUM!,
      PERIOD!,
      'The period is 66.',
      'The mean is 9.',
      '<think>',
    );
    fc.assert(
      fc.property(fc.array(sentence, { maxLength: 12 }), (said) => {
        const grade = grader.grade(said.join(' '));
        expect(grade.f1).toBeGreaterThanOrEqual(0);
        expect(grade.f1).toBeLessThanOrEqual(1);
        const once = grader.grade([...new Set(said)].join(' '));
        expect(grade.f1).toBe(once.f1);
      }),
      { numRuns: 60 },
    );
  });

  test('of 100 000 characters is graded in time in proportion to it', () => {
    const long = `${PERIOD} The period is 66. `.repeat(3500);
    expect(f1(long)).toBeLessThanOrEqual(0.5);
  });
});

describe('facts', () => {
  test('are claims of the trace that the series confirms: none without a trace', () => {
    expect(new ReasoningGrader(example).grade(MEAN!)).toMatchObject({ facts: 0, f1: null });
    const doubtful = '<think>The mean is 99. The period is 40. Sales rose by 3 euros.</think>';
    expect(new ReasoningGrader(example, { trace: doubtful }).grade(PERIOD!)).toMatchObject({
      facts: 1,
      f1: 1,
    });
  });

  test('of another series are false here', () => {
    const other = values.map((value) => 10 + 3 * value);
    const grade = new ReasoningGrader({ ...example, channels: [other] }, { trace: TRACE }).grade(
      `${MEAN} ${PERIOD}`,
    );
    expect(grade).toMatchObject({ facts: 1, recalled: 1, false: 1 });
  });
});

test('a cycle is a period although every second one is more alike', () => {
  const bumps = Float64Array.from({ length: 1200 }, (_, i) => {
    const [cycle, at] = [Math.floor(i / 50), i % 50];
    return (cycle % 2 === 0 ? 1 : 0.4) * Math.exp(-((at - 20) ** 2));
  });
  const series = { channels: [bumps], names: ['value'], gold: example.gold };
  const verdicts = [50, 100, 70].map(
    (period) => new ReasoningGrader(series).grade(`The period is ${period}.`).claims[0]!.verdict.verdict,
  );
  expect(verdicts).toEqual(['true', 'true', 'false']);
});

test.each([
  ['in another language', 'Die Periode beträgt 40 und der Mittelwert 2,3. 周期は40です。'],
  ['of 100 000 characters without a claim', 'waves '.repeat(17_000)],
  ['of one word', 'sine'.repeat(25_000)],
])('a reasoning %s states nothing, and is graded 0', (_, think) => {
  expect(grader.grade(think)).toMatchObject({ recalled: 0, false: 0, f1: 0 });
});

test('a reasoning of 100 000 characters that repeats one true and one false claim is graded as it is with each once', () => {
  const once = `${PERIOD} The mean is 77.`;
  expect(grader.grade(`${once} `.repeat(2800)).f1).toBe(grader.grade(once).f1);
});

describe('the ends of an answer beside its scan', () => {
  /** 20 cells of 50 samples; an asymmetric scan. */
  const graded = (answer: string, symbols = '0.(#)..3.o5.6.7.8.9.') => {
    const response = `<think>scan ${symbols}</think><answer>${answer}</answer>`;
    const range = [response.indexOf('</think>'), response.indexOf('</answer>')] as const;
    return gradeEnds(response, range, symbols, 1000).map(({ part, span, holds }) => [
      ...[part, response.slice(...span), holds],
    ]);
  };

  test('agree where their cell has a symbol for such an end', () => {
    expect(graded('[[110, 240], [460, 480]]')).toEqual([
      ['start', '110', true],
      ['end', '240', true],
      ['start', '460', true],
      ['end', '480', true],
      ['count', ']', true],
    ]);
    expect(graded('[[90, 200], [500, 1001]]')).toEqual([
      ['start', '90', false],
      ['end', '200', false],
      ['start', '500', false],
      ['end', '1001', false],
      ['count', ']', true],
    ]);
  });

  test('lie on the inner side of a boundary of two cells', () => {
    expect(graded('[[100, 250], [450, 500]]').map(([, , holds]) => holds)).toEqual([
      true,
      true,
      true,
      true,
      true,
    ]);
    expect(graded('[[150, 260]]').map(([, , holds]) => holds)).toEqual([false, false, false]);
  });

  test('count as many as the scan opens, which a cell with several does not say', () => {
    expect(graded('[]')).toEqual([['count', ']', false]]);
    expect(graded('[]', '0.1.2.3.4.5.6.7.8.9.')).toEqual([['count', ']', true]]);
    expect(graded('[[110, 130]]', '0.x.2.3.4.5.6.7.8.9.')).toEqual([
      ['start', '110', true],
      ['end', '130', true],
    ]);
  });
});

test('a false statement of a short trace is corrected in its own words, and nothing else is', () => {
  const wave = Float64Array.from({ length: 1000 }, (_, i) => Math.sin((2 * Math.PI * i) / 52));
  const series = { channels: [wave], names: ['value'], gold: example.gold };
  const { claims } = new ReasoningGrader(series).grade(
    '; sine wave; cycle 30; spread 40; noisy line; period 31',
  );
  expect(claims.map(({ verdict: { verdict }, correction }) => [verdict, correction])).toEqual([
    ['true', null],
    ['false', '; cycle 50'],
    ['true', null],
    ['false', '; smooth line'],
    ['false', null],
  ]);
});

describe('of two departures in the same style', () => {
  const departure = (severity: number, isUp: boolean) => ({
    kind: 'level shift' as const,
    ...{ severity, visibility: 5 },
    observed: isUp ? ([8, 9, 10] as const) : ([-10, -9, -8] as const),
    unmodified: [-1, 0, 1] as const,
  });
  const shifted = (...departures: ReturnType<typeof departure>[]) => {
    const sizes = departures.map(({ severity, observed: [, level] }) => {
      return `level shift ${level > 0 ? 'up' : 'down'} ${Math.floor(severity)} sd`;
    });
    const facts = { components: [], periods: [], step: 1, range: [-1, 1] as const, departures };
    return new ReasoningGrader({ ...example, facts }, { trace: `<think>${sizes.join('; ')}</think>` });
  };

  test('a near copy of one recalls no other', () => {
    const two = shifted(departure(2.9, true), departure(50, true));
    expect(two.grade('level shift up 2 sd; level shift up 50 sd')).toMatchObject({ recalled: 2, f1: 1 });
    expect(two.grade('level shift up 2 sd; level shift up 3 sd')).toMatchObject({ recalled: 1, false: 0 });
  });

  test('a size that is true of both recalls the one that is left', () => {
    const two = shifted(departure(2.9, true), departure(3.5, true));
    for (const [first, second] of ['33', '23', '32'])
      expect(two.grade(`level shift up ${first} sd; level shift up ${second} sd`)).toMatchObject({
        ...{ facts: 2, recalled: 2, false: 0, f1: 1 },
      });
    expect(two.grade('level shift up 3 sd; level shift up 3 sd; level shift up 3 sd').recalled).toBe(2);
  });

  test('the size of one is false with the direction of the other', () => {
    const two = shifted(departure(50, true), departure(5, false));
    const verdicts = ['up 50', 'down 5', 'up 5', 'down 50'].map(
      (stated) => two.grade(`level shift ${stated} sd`).claims[0]!.verdict.verdict,
    );
    expect(verdicts).toEqual(['true', 'true', 'false', 'false']);
  });
});

test.each([
  ['the mean', [0, 1, 2, 3, 4, 5].map((k) => `The mean is ${(mean + k * 5e-4).toFixed(4)}.`)],
  ['bounds', [0, 1, 2, 3].map((k) => `The values stay between ${(0.9 - k / 100).toFixed(2)} and 4.`)],
])('near copies of %s count once in the share that is true', (_, copies) => {
  const answer = { think: '', intervals: [], class: 'normal', wellFormed: true, problem: null };
  const think = `The period is 66. ${copies.join(' ')}`;
  expect(checkReasoning({ ...answer, think }, example)).toMatchObject({ true: 1, false: 1 });
});
