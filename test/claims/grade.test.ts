/** Grades of reasonings: precision, recall and F1 of claims, and what does not raise them. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { gradeEnds, ReasoningGrader } from '../../src/claims/reasoning.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { nanoFactsTeacher, nanoTeacher } from '../../src/expcot/nano.ts';

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

describe('what a reasoning in the short style lacks', () => {
  const intervals = [
    [120, 200],
    [500, 560],
    [800, 880],
  ] as const;
  const offsets = [1.2, -2.1, 1.9];
  const bent = Float64Array.from({ length: 1000 }, (_, i) => {
    const within = intervals.findIndex(([start, end]) => i >= start && i < end);
    return Math.sin((2 * Math.PI * i) / 52) + (offsets[within] ?? 0);
  });
  const gold = { kind: 'anomaly', class: 'contextual point', intervals } as const;
  const series = { channels: [bent], names: ['value'], gold };
  const trace = nanoTeacher(analyse(bent), gold);
  const [SCANNED, ...ITEMS] = trace.slice('<think>'.length, trace.indexOf('</think>')).split('; ') as [
    string,
    ...string[],
  ];
  const [FIRST, SECOND, THIRD, ...OTHERS] = ITEMS as [string, string, string, ...string[]];
  const short = new ReasoningGrader(series, { trace });
  const amended = (of: ReasoningGrader, ...items: string[]): string[] => {
    const text = items.join('; ');
    return of
      .grade(text)
      .amendments.toSorted((a, b) => a.span[0] - b.span[0])
      .reduceRight((out, { span, text: item }) => out.slice(0, span[0]) + item + out.slice(span[1]), text)
      .split('; ');
  };

  test('begins as a trace whose three departures differ', () => {
    expect([FIRST, SECOND, THIRD]).toEqual(['shift up 20', 'shift down 40', 'shift up 30']);
    expect(OTHERS.map((item) => item.replace(/ ?\d+/, ''))).toEqual([
      'sine wave',
      'cycle',
      'spread',
      'smooth line',
    ]);
  });

  test('put where it belongs gives the trace, whichever statements are left out', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: OTHERS.length, maxLength: OTHERS.length }), (kept) => {
        const others = OTHERS.filter((_, k) => kept[k]);
        expect(amended(short, SCANNED, FIRST, SECOND, THIRD, ...others)).toEqual([SCANNED, ...ITEMS]);
      }),
    );
    expect(amended(short, SCANNED)).toEqual([SCANNED, ...ITEMS]);
    expect(amended(short, SCANNED, FIRST, ...OTHERS)).toEqual([SCANNED, ...ITEMS]);
    expect(short.grade([SCANNED, ...ITEMS].join('; ')).amendments).toEqual([]);
  });

  test.each([
    ['copied from another place', [FIRST, SECOND, FIRST]],
    ['copied to the front', [THIRD, SECOND, THIRD]],
    ['of a kind that the series lacks', [FIRST, 'swings faster', THIRD]],
    ['of a wrong size', [FIRST, SECOND, 'shift up 90']],
  ])('is the departure of its own mark, for one %s', (_, stated) => {
    expect(amended(short, SCANNED, ...stated, ...OTHERS)).toEqual([SCANNED, ...ITEMS]);
  });

  test('is of departures no more than the scan marks, and those that it marks', () => {
    const last = 'scan 0.1.2.3.4.5.6.7(#).9.';
    expect(amended(short, 'scan 0.1.2.3.4.5.6.7.8.9.', ...OTHERS)).toEqual([
      'scan 0.1.2.3.4.5.6.7.8.9.',
      ...OTHERS,
    ]);
    expect(amended(short, last, ...OTHERS).slice(1)).toEqual([THIRD, ...OTHERS]);
    expect(amended(short, last, FIRST, ...OTHERS).slice(1)).toEqual([FIRST, ...OTHERS]); // true of another place
    expect(amended(short, last, 'shift down 90', ...OTHERS).slice(1)).toEqual([THIRD, ...OTHERS]);
  });

  test.each([
    ['where the scan marks what is none', 'scan 0.1.2.(#).4.5.6.7.8.9.'],
    ['where a cell holds several', 'scan 0.(x).3.4.5.6.7.8.9.'],
    ['where brackets do not pair up', 'scan 0.((#)3.4.5.6.7.8.9.'],
  ])('is no departure %s', (_, scanned) => {
    expect(amended(short, scanned, ...OTHERS)).toEqual([scanned, ...OTHERS]);
  });

  test('is no other fact that is stated, though falsely, nor anything without a trace or in sentences', () => {
    const wrong = OTHERS.map((item) => item.replace(/^cycle \d+/, 'cycle 20'));
    expect(wrong).not.toEqual(OTHERS);
    expect(amended(short, SCANNED, FIRST, SECOND, THIRD, ...wrong).slice(4)).toEqual(wrong);
    expect(grader.grade(MEAN!).amendments).toEqual([]);
    expect(new ReasoningGrader(series).grade(SCANNED).amendments).toEqual([]);
  });

  test('is found in the style of series with facts too, whose statements begin without a separator', () => {
    const line = Float64Array.from({ length: 200 }, (_, i) => i);
    const marked = {
      kind: 'anomaly',
      class: 'global point',
      intervals: [
        [35, 57],
        [82, 83],
      ],
    } as const;
    const profile = [0, 0, 0] as const;
    const facts = {
      components: ['season'],
      periods: [24],
      step: 300,
      range: [0, 200],
      departures: [
        { kind: 'level shift', severity: 5, visibility: 20, observed: [0, -2, 0], unmodified: profile },
        { kind: 'spike', severity: 50, visibility: 20, observed: profile, unmodified: profile },
      ],
    } as const;
    const told = nanoFactsTeacher(facts, analyse(line), line, marked, { cells: 10, steps: 200 });
    const items = told.slice('<think>'.length, told.indexOf('</think>')).split('; ');
    const [shift, spike] = items.slice(-2) as [string, string];
    expect([shift, spike]).toEqual(['level shift down 5 sd', 'spike 50 sd']);
    const one = new ReasoningGrader(
      { channels: [line], names: ['value'], gold: marked, facts },
      { trace: told },
    );
    const rest = items.slice(0, -2);
    expect(amended(one, ...rest)).toEqual(items);
    expect(amended(one, ...rest, shift)).toEqual(items);
    expect(amended(one, ...rest, spike, spike)).toEqual(items);
    expect(amended(one, ...rest.filter((item) => !item.startsWith('trend')), shift, spike)).toEqual(items);
  });
});
