/** Amendments: what a reasoning in the short style leaves out, or states of the wrong place. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ReasoningGrader } from '../../src/claims/reasoning.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { nanoFactsTeacher, nanoTeacher } from '../../src/expcot/nano.ts';
import type { Interval } from '../../src/ground/types.ts';

/** A wave with a level of its own in each interval. */
function shifted(intervals: readonly Interval[], offsets: readonly number[], period = 52): Float64Array {
  return Float64Array.from({ length: 1000 }, (_, i) => {
    const within = intervals.findIndex(([start, end]) => i >= start && i < end);
    return Math.sin((2 * Math.PI * i) / period) + (offsets[within] ?? 0);
  });
}

/** Grader of such a series, and the items of its trace. */
function graded(intervals: readonly Interval[], offsets: readonly number[], period?: number) {
  const values = shifted(intervals, offsets, period);
  const gold = { kind: 'anomaly', class: 'contextual point', intervals } as const;
  const trace = nanoTeacher(analyse(values), gold);
  const grader = new ReasoningGrader({ channels: [values], names: ['value'], gold }, { trace });
  return { grader, items: itemsOf(trace) };
}

const itemsOf = (trace: string): string[] =>
  trace.slice('<think>'.length, trace.indexOf('</think>')).split('; ');

/** Applies the amendments of a reasoning. */
function amended(grader: ReasoningGrader, items: readonly string[]): string[] {
  const text = items.join('; ');
  return grader
    .grade(text)
    .amendments.toSorted((a, b) => a.span[0] - b.span[0])
    .reduceRight((out, { span, text: item }) => out.slice(0, span[0]) + item + out.slice(span[1]), text)
    .split('; ');
}

const { grader, items } = graded(
  [
    [120, 200],
    [500, 560],
    [800, 880],
  ],
  [1.2, -2.1, 1.9],
);
const [SCAN, FIRST, SECOND, THIRD, ...OTHERS] = items as [string, string, string, string, ...string[]];

test('the trace of the tests has three departures that differ, and four other facts', () => {
  expect([SCAN, FIRST, SECOND, THIRD]).toEqual([
    'scan 0.()2.3.4.()6.7.()9.',
    'shift up 20',
    'shift down 40',
    'shift up 30',
  ]);
  expect(OTHERS).toEqual(['sine wave', 'cycle 50', 'spread 20', 'smooth line']);
});

describe('a reasoning with the scan of its trace', () => {
  test('becomes the trace, whichever statements it leaves out', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }), (kept) => {
        const stated = items.filter((_, k) => k === 0 || kept[k - 1]);
        expect(amended(grader, stated)).toEqual(items);
      }),
      { numRuns: 200 },
    );
    expect(grader.grade(items.join('; ')).amendments).toEqual([]);
  });

  test.each([
    ['copied from the first mark', [FIRST, SECOND, FIRST]],
    ['copied from the last mark', [THIRD, SECOND, THIRD]],
    ['of a kind that the series lacks', [FIRST, 'swings faster', THIRD]],
    ['of a wrong size', [FIRST, SECOND, 'shift up 90']],
    ['false, and the next is what it should be', ['shift up 90', FIRST, THIRD]],
  ])('becomes the trace where a departure is %s', (_, departures) => {
    expect(amended(grader, [SCAN, ...departures, ...OTHERS])).toEqual(items);
  });

  test('keeps what is true within its tolerance, though the trace words it otherwise', () => {
    let otherwise = 0;
    for (let offset = 1; offset < 2.4; offset += 0.1) {
      const near = graded([[120, 200]], [offset]);
      const [scan, shift, ...others] = near.items as [string, string, ...string[]];
      for (const by of [-10, 10]) {
        const said = shift.replace(/\d+/, (size) => String(Number(size) + by));
        const isTrue = near.grader.grade([scan, said, ...others].join('; ')).false === 0;
        if (isTrue) otherwise++;
        expect(amended(near.grader, [scan, said, ...others])[1]).toBe(isTrue ? said : shift);
      }
    }
    expect(otherwise).toBeGreaterThan(0);
  });

  test('keeps what is true in other numbers at the mark of the same kind', () => {
    const said = ['shift down 30', 'shift down 50'].find(
      (text) => grader.grade([SCAN, text, ...OTHERS].join('; ')).false === 0,
    )!;
    expect(amended(grader, [SCAN, said, ...OTHERS])).toEqual([SCAN, FIRST, said, THIRD, ...OTHERS]);
  });

  test('keeps false statements of other facts, which have corrections of their own', () => {
    const stated = items.map((item) => item.replace('cycle 50', 'cycle 20'));
    expect(grader.grade(stated.join('; ')).false).toBe(1);
    expect(amended(grader, stated)).toEqual(stated);
  });

  test('keeps more departures than it marks', () => {
    const stated = [SCAN, FIRST, SECOND, FIRST, THIRD, ...OTHERS];
    expect(amended(grader, stated)).toEqual(stated);
  });
});

describe('a reasoning with another scan', () => {
  test.each([
    ['only the last departure', 'scan 0.1.2.3.4.5.6.7(#).9.', [], [THIRD]],
    ['the last departure for a false one', 'scan 0.1.2.3.4.5.6.7(#).9.', ['shift down 90'], [THIRD]],
    ['a statement kept that is true of another mark', 'scan 0.1.2.3.4.5.6.7(#).9.', [FIRST], [FIRST]],
    ['no departure of a mark where nothing departs', 'scan 0.1.2.(#).4.5.6.7.8.9.', [], []],
    ['the departures of the other marks', 'scan 0.()2.(#).5.6.7.()9.', [], [FIRST, THIRD]],
    ['one departure for two marks of one interval', 'scan 0.oo2.3.4.5.6.7.8.9.', [], [FIRST]],
    ['no departure behind a scan without marks', 'scan 0.1.2.3.4.5.6.7.8.9.', [], []],
    ['no departure where a cell holds several', 'scan 0.x.2.o.4.5.6.7.8.9.', [], []],
    ['no departure where a mark does not end', 'scan 0.((#)3.4.5.6.7.8.9.', [], []],
  ])('has %s', (_, scan, stated, departures) => {
    expect(amended(grader, [scan, ...stated, ...OTHERS])).toEqual([scan, ...departures, ...OTHERS]);
  });

  test('has the departure that a mark overlaps most, and none where two overlap it alike', () => {
    const close = graded(
      [
        [120, 152],
        [170, 190],
        [800, 880],
      ],
      [1.2, -2.1, 1.9],
    );
    const [, first, second] = close.items as [string, string, string];
    const rest = close.items.slice(4);
    const withMark = (scan: string) => amended(close.grader, [scan, ...rest]);
    expect(withMark('scan 0.1o2.3.4.5.6.7.8.9.')[1]).toBe(second);
    expect(withMark('scan 0.o.2.3.4.5.6.7.8.9.')[1]).toBe(first);
    const meeting = graded(
      [
        [100, 148],
        [152, 200],
        [800, 880],
      ],
      [1.2, -2.1, 1.9],
    );
    expect(meeting.items[0]).toBe('scan 0.()2.3.4.5.6.7.()9.');
    const [scan, , , last, ...others] = meeting.items as [string, string, string, string, ...string[]];
    expect(amended(meeting.grader, [scan, ...others])).toEqual([scan, last, ...others]);
  });
});

describe('nothing is amended', () => {
  test('in a reasoning without a scan, or with statements that are no list', () => {
    expect(amended(grader, OTHERS.slice(1))).toEqual(OTHERS.slice(1));
    const prose = 'scan 0.()2.3.4.()6.7.()9. shows three; sine wave I think; and nothing else';
    expect(amended(grader, [prose])).toEqual(prose.split('; '));
    expect(grader.grade('').amendments).toEqual([]);
  });

  test('without a trace, or with one that has no scan', () => {
    const values = shifted([[120, 200]], [1.2]);
    const gold = { kind: 'anomaly', class: 'contextual point', intervals: [[120, 200]] } as const;
    const series = { channels: [values], names: ['value'], gold } as const;
    const listed = '<think>Mean is 0.10; maximum is 2.20; cycle 50; spread 30</think><answer>[]</answer>';
    for (const trace of [null, listed]) {
      expect(new ReasoningGrader(series, { trace }).grade(SCAN).amendments).toEqual([]);
    }
  });

  test('by a statement of the trace that is false of the series', () => {
    const values = shifted([[120, 200]], [1.2]);
    const gold = { kind: 'anomaly', class: 'contextual point', intervals: [[120, 200]] } as const;
    const trace = '<think>scan 0.(#).3.4.; shift down 90; cycle 20; smooth line</think><answer>[]</answer>';
    const wrong = new ReasoningGrader({ channels: [values], names: ['value'], gold }, { trace });
    expect(amended(wrong, ['scan 0.(#).3.4.'])).toEqual(['scan 0.(#).3.4.', 'smooth line']);
  });

  test('where the cycle is stated in samples instead of steps', () => {
    const stated = items.map((item) => item.replace('cycle 50', 'period 52'));
    expect(amended(grader, stated)).toEqual(stated);
  });
});

test('a trace with the facts of a generator, which come before its scan, is compared too', () => {
  const line = Float64Array.from({ length: 200 }, (_, i) => i);
  const intervals = [
    [35, 57],
    [82, 83],
  ] as const;
  const gold = { kind: 'anomaly', class: 'global point', intervals } as const;
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
  const trace = nanoFactsTeacher(facts, analyse(line), line, gold, { cells: 10, steps: 200 });
  const told = itemsOf(trace);
  expect(told.slice(-2)).toEqual(['level shift down 5 sd', 'spike 50 sd']);
  const series = { channels: [line], names: ['value'], gold, facts };
  const made = new ReasoningGrader(series, { trace });
  const scanAt = told.findIndex((item) => item.startsWith('scan'));
  for (let kept = 0; kept < 2 ** told.length; kept++) {
    // The pattern opens the list, and so has no separator.
    const stated = told.filter((_, k) => k === 0 || k === scanAt || (kept >> k) % 2 === 1);
    expect(amended(made, stated)).toEqual(told);
  }
  expect(amended(made, [...told.slice(0, -2), told.at(-1)!, told.at(-1)!])).toEqual(told);
  // Without the pattern "cycle 24" opens the list, where no statement is read.
  expect(amended(made, told.slice(1))).toEqual(told.slice(1));
});
