import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VTA_VARIATES, VTA_WAVES } from '../../datasets/generators/vta.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import {
  isRuled,
  levelScan,
  nanoFactsTeacher,
  nanoTeacher,
  nanoVariatesTeacher,
  roundIntervals,
  ruled,
  scan,
} from '../../src/expcot/nano.ts';
import { analyseVariates } from '../../src/expcot/variates.ts';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import {
  ANOMALY_CLASSES,
  type DepartureKind,
  type Interval,
  type SeriesFacts,
} from '../../src/ground/types.ts';
import { BPE_CONFIG, trainBpe } from '../../src/policy/tokenizer.ts';
import { mergeIntervals } from '../../src/series/intervals.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { parseVariates } from '../../src/tasks/variates.ts';
import { nano5, vtaMultivariate } from '../helpers/series.ts';

const PHRASES = [
  ...['flat line', 'straight line', 'sine wave', 'sine with trend', 'noise', 'noise with trend'],
  ...[
    'irregular curve',
    'curve with trend',
    '; period ',
    '; cycle ',
    '; spread ',
    '; smooth line',
    '; rough line',
    '; noisy line',
    '; ',
    'scan ',
  ],
  ...[...'.#()ox', '; step ', '; shift ', 'up ', 'down ', '; swings ', 'faster', 'slower', '; inside '],
];

/** Longest pieces first: what a tokenizer with one token per tag, phrase, symbol and digit makes of a text. */
function tokens(text: string): number {
  const pieces = [
    ...['<think>', '</think>', '<answer>', '</answer>', '<class>', '</class>'],
    ...['[[', ']]', '[]', '], [', ', '],
    ...ANOMALY_CLASSES,
    ...PHRASES,
    ...'0123456789',
  ].sort((a, b) => b.length - a.length);
  let count = 0;
  for (let at = 0; at < text.length; count++) {
    const piece = pieces.find((candidate) => text.startsWith(candidate, at));
    if (piece === undefined) throw new Error(`no token for ${JSON.stringify(text.slice(at))}`);
    at += piece.length;
  }
  return count;
}

const intervalLists = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 995 }), fc.integer({ min: 1, max: 200 })), { maxLength: 5 })
  .map((pairs) =>
    mergeIntervals(pairs.map(([start, length]): Interval => [start, Math.min(1000, start + length)])),
  );

describe('scan', () => {
  it.each([
    [[[140, 220]], '..(#)...............'],
    [[[140, 199]], '..()................'],
    [[[150, 200]], '...o................'],
    [[[100, 250]], '..(#)...............'],
    [[[160, 190]], '...o................'],
    [
      [
        [120, 160],
        [180, 320],
      ],
      '..(x##).............',
    ],
    [[[0, 1000]], '(##################)'],
    [[], '....................'],
  ] as [Interval[], string][])('of %j is %s', (intervals, expected) => {
    expect(scan(intervals, 1000, 20)).toBe(expected);
  });

  it('pairs its brackets and touches exactly the cells of the intervals', () => {
    fc.assert(
      fc.property(intervalLists, fc.constantFrom(20, 16, 7), (intervals, cells) => {
        const drawn = scan(intervals, 1000, cells);
        expect(drawn.length).toBe(cells);
        for (let cell = 0; cell < cells; cell++) {
          const left = (cell * 1000) / cells;
          const right = ((cell + 1) * 1000) / cells;
          const touching = intervals.filter(([start, end]) => start < right && end > left);
          const symbol = drawn[cell]!;
          expect('.#()ox').toContain(symbol);
          expect(symbol === '.').toBe(touching.length === 0);
          expect(symbol === 'x').toBe(touching.length > 1);
        }
        if (!drawn.includes('x')) {
          expect(drawn).toMatch(/^(?:\.|o|\(#*\))*$/);
          expect(drawn.match(/[(o]/g)?.length ?? 0).toBe(intervals.length);
        }
      }),
    );
  });
});

describe('rounded intervals', () => {
  it('are whole steps, never empty, disjoint, inside the series, and near the given ones', () => {
    fc.assert(
      fc.property(intervalLists, fc.constantFrom(1000, 995, 2500), (given, length) => {
        const intervals = given.filter(([, end]) => end <= length);
        const rounded = roundIntervals(intervals, length);
        let last = -1;
        for (const [start, end] of rounded) {
          expect(start).toBeGreaterThan(last);
          expect(end).toBeGreaterThan(start);
          if (length === 1000) expect([start % 10, end % 10]).toEqual([0, 0]);
          last = end;
        }
        expect(last).toBeLessThanOrEqual(length);
        for (const [start, end] of intervals) {
          const home = rounded.find(([a, b]) => a < end + length / 100 && b > start - length / 100);
          expect(home).toBeDefined();
        }
      }),
    );
  });

  it('keep single samples of short series apart', () => {
    expect(
      roundIntervals(
        [
          [3, 4],
          [5, 6],
          [49, 50],
        ],
        50,
      ),
    ).toEqual([
      [3, 4],
      [5, 6],
      [49, 50],
    ]);
    expect(roundIntervals([[998, 1000]], 1000)).toEqual([[990, 1000]]);
    expect(roundIntervals([[0, 2]], 1000)).toEqual([[0, 10]]);
    expect(roundIntervals([[0, 1]], 1)).toEqual([[0, 1]]);
  });
});

describe('nano style', () => {
  const series = Array.from({ length: 40 }, (_, index) => nano5(3407, 'train', index));

  it('tells gold and evidence in fixed phrases, at most 80 tokens, as a well-formed response', () => {
    for (const one of series) {
      const text = nanoTeacher(analyse(one.values), one);
      expect(tokens(text)).toBeLessThanOrEqual(80);
      const answer = parseAnswer(text, one.values.length);
      expect(answer.wellFormed).toBe(true);
      expect(answer.class).toBe(one.class);
      expect(answer.intervals).toEqual(roundIntervals(one.intervals, one.values.length));
      expect(text).toMatch(
        /^<think>scan [.()#ox\d]{20}(?:; [a-z]+ [a-z0-9 ]+){0,3}; [a-z ]+(?:; [a-z]+ [1-9]\d*){1,2}; [a-z]+ line<\/think><answer>[^<]*<\/answer><class>[a-z ]+<\/class>$/,
      );
    }
  });

  it('scans the rounded intervals of its own answer', () => {
    for (const one of series) {
      const text = nanoTeacher(analyse(one.values), one);
      const drawn = /scan ([.()#ox\d]+)/.exec(text)?.[1];
      expect(drawn).toBe(ruled(scan(roundIntervals(one.intervals, 1000), 1000, 20)));
      expect(isRuled(drawn!)).toBe(true);
    }
  });

  it('rules a scan: the first cell of each tenth shows its number unless an interval touches it', () => {
    expect(ruled('....................')).toBe('0.1.2.3.4.5.6.7.8.9.');
    expect(ruled('.(##)..o............')).toBe('0(##).3o4.5.6.7.8.9.');
    expect(ruled('.......')).toBe('0124578');
    expect(['(####)', '9.2.', '5544', '....'].map(isRuled)).toEqual([false, false, false, false]);
  });

  it('describes how each interval departs, and nothing of a normal series', () => {
    for (const one of series) {
      const text = nanoTeacher(analyse(one.values), one);
      const described = text.match(/; (?:step|shift|swings|inside) [a-z0-9 ]+/g) ?? [];
      expect(described).toHaveLength(one.intervals.length);
    }
  });

  const wave = (i: number): number => Math.sin((2 * Math.PI * i) / 40);
  const random = new Random(5, 'departures');
  it.each<readonly [string, (i: number) => number]>([
    ['step up 50', (i) => wave(i) + (i < 300 ? 0 : i < 360 ? (i - 300) / 30 : 2)],
    ['step down 50', (i) => wave(i) - (i < 300 ? 0 : i < 360 ? (i - 300) / 30 : 2)],
    ['swings faster', (i) => (i < 300 || i >= 360 ? wave(i) : wave(3 * i))],
    ['shift up 60', (i) => (i < 300 || i >= 360 ? 0 : 1.5) + random.normal() / 6],
    ['inside 15', (i) => (i < 300 || i >= 360 ? wave(i) : 0.3 * random.normal())],
  ])('says %s of an interval that does so', (said, value) => {
    const values = Float64Array.from({ length: 600 }, (_, i) => value(i));
    expect(nanoTeacher(analyse(values), { intervals: [[300, 360]], class: 'trend' })).toContain(`; ${said};`);
  });

  it.each([
    [17.4, 'period 17'],
    [25, 'cycle 30'],
    [31.2, 'cycle 30'],
    [61.3, 'cycle 60'],
  ])(
    'tells a period of %f of 1000 samples as %s: in coordinate steps, a short one in samples',
    (period, told) => {
      const values = Float64Array.from({ length: 1000 }, (_, i) => Math.sin((2 * Math.PI * i) / period));
      const text = nanoTeacher(analyse(values), { intervals: [], class: 'normal' });
      expect(text).toContain(`; ${told};`);
    },
  );

  it('keeps odd lengths and cells in order', () => {
    const values = Float64Array.from({ length: 333 }, (_, i) => Math.sin(i / 4));
    const gold = { intervals: [[100, 140]] as Interval[], class: 'seasonal' as const };
    const text = nanoTeacher(analyse(values), gold, { cells: 7 });
    expect(text).toBe(
      '<think>scan 01o4578; inside 35; sine wave; cycle 27; spread 40; smooth line</think><answer>[[100, 140]]</answer><class>seasonal</class>',
    );
  });
});

const drawn = VTA_WAVES.flatMap((wave) =>
  VTA_VARIATES.flatMap((variates) =>
    [0, 1].map((i) => vtaMultivariate(wave, 3407, 'train', i, { variates })),
  ),
);
const analysed = drawn.map((one) => ({ ...one, evidence: analyseVariates(one.channels) }));
const nine = analysed.find(({ channels }) => channels.length === 9)!.evidence;

describe('nano variates style', () => {
  it('walks through the variates, one symbol each, then names them', () => {
    expect(nanoVariatesTeacher(nine, [7, 2])).toBe(
      '<think>9 variates; scan ..x....x.</think><answer>[2, 7]</answer>',
    );
    expect(nanoVariatesTeacher(nine, [])).toBe(
      '<think>9 variates; scan .........</think><answer>[]</answer>',
    );
  });

  it('is well formed, and its scan marks exactly the ids of its answer', () => {
    fc.assert(
      fc.property(fc.constantFrom(...analysed), fc.infiniteStream(fc.boolean()), ({ evidence }, odd) => {
        const count = evidence.variates.length;
        const gold = Array.from({ length: count }, (_, id) => id).filter(() => odd.next().value);
        const text = nanoVariatesTeacher(evidence, gold);
        expect(parseVariates(text, count)).toMatchObject({ wellFormed: true, variates: gold });
        const scan = /^<think>(\d+) variates; scan ([.x]+)<\/think>/.exec(text)!;
        expect(Number(scan[1])).toBe(count);
        expect([...scan[2]!].flatMap((symbol, id) => (symbol === 'x' ? [id] : []))).toEqual(gold);
      }),
    );
  });

  it('refuses ids that are not there or come twice', () => {
    expect(() => nanoVariatesTeacher(nine, [9])).toThrow(/variate 9: the series has 9/);
    expect(() => nanoVariatesTeacher(nine, [-1])).toThrow(DataError);
    expect(() => nanoVariatesTeacher(nine, [3, 1, 3])).toThrow(/variate 3 is named twice/);
  });

  it('takes one token for each symbol, tag and phrase', () => {
    const texts = analysed.map(({ evidence, variates }) => nanoVariatesTeacher(evidence, variates));
    const tokenizer = new Tokenizer(trainBpe(texts, { vocabulary: 320 }), BPE_CONFIG);
    const encode = (text: string) =>
      tokenizer.encode(text).tokens.map((token: string) => token.replaceAll('Ġ', ' '));
    const known = [' variates; scan ', '.', 'x', '[', ']', ', ', ...'0123456789'];
    for (const [i, text] of texts.entries()) {
      const tokens = encode(text);
      expect(tokens.join('')).toBe(text);
      for (const token of tokens.filter((t: string) => !t.startsWith('<'))) expect(known).toContain(token);
      const { channels, variates } = analysed[i]!;
      const digits = [channels.length, ...variates].join('').length;
      expect(tokens).toHaveLength(4 + 1 + 2 + channels.length + digits + Math.max(0, variates.length - 1));
    }
  });
});

describe('the short target of a series whose generator says what it knows', () => {
  const departure = (kind: DepartureKind, severity: number, mean: number, unmodified: number) => ({
    ...{ kind, severity, visibility: 20 },
    observed: [mean - 2, mean, mean + 2] as const,
    unmodified: [unmodified - 1, unmodified, unmodified + 1] as const,
  });
  const facts: SeriesFacts = {
    components: ['season', 'drift', 'white noise'],
    periods: [2.5, 23.7, 168],
    step: 60,
    range: [0, 10],
    departures: [
      departure('level shift', 3.6, 2, 5),
      departure('spike', 44, 30, 5),
      departure('variance change', 2, 5, 5),
    ],
  };
  const intervals: Interval[] = [
    [35, 57],
    [82, 83],
    [90, 120],
  ];
  const values = Float64Array.from({ length: 200 }, (_, i) => i);

  it('tells what it is, its cycle, the scan and every departure, with exact coordinates', () => {
    const text = nanoFactsTeacher(
      facts,
      analyse(values),
      values,
      { intervals, class: 'global point' },
      { cells: 10, steps: 200 },
    );
    expect(text).toBe(
      '<think>pattern cycle; cycle 24; trend up; spread 10; middle 50; smooth line; scan .().x)....; level shift down 5 sd; spike 50 sd; variance change up 2 sd</think>' +
        '<answer>[[35, 57], [82, 83], [90, 120]]</answer><class>global point</class>',
    );
    expect(parseAnswer(text, 200)).toMatchObject({ wellFormed: true, intervals, class: 'global point' });
  });

  it('says of a normal series what it is', () => {
    const plain = { ...facts, components: ['walk'], periods: [], departures: [] };
    const uneven = values.map((value, i) => (i === 7 ? -1800 : 5 - value / 40));
    expect(
      nanoFactsTeacher(plain, analyse(uneven), uneven, { intervals: [], class: 'normal' }, { cells: 4 }),
    ).toBe(
      '<think>pattern random walk; trend none; spread 10; middle 100; smooth line; scan ....</think><answer>[]</answer><class>normal</class>',
    );
  });

  it('tells the level of cells that nothing touches where it is asked to', () => {
    const gaps = values.map((value, i) => (i >= 180 ? Number.NaN : value));
    expect(levelScan(gaps, intervals, 10)).toBe('0()3x)789.');
    expect(levelScan(values.fill(3), [[0, 20]], 4)).toBe('o000');
  });
});
