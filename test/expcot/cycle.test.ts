import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VTA_TYPES, vtaClass } from '../../datasets/generators/vta.ts';
import { analyseWithGaps, blindAnomaly, teacherAnomaly } from '../../src/expcot/anomaly.ts';
import { cycleTest } from '../../src/expcot/cycle.ts';
import { cite, route } from '../../src/expcot/route.ts';
import { blind, teacher } from '../../src/expcot/trace.ts';
import { Random } from '../../src/ground/random.ts';
import { pointF1 } from '../../src/series/intervals.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { vta } from '../helpers/series.ts';

/** A lopsided wave of 31.4 samples with a little noise, changed where asked. */
function wave(change: (value: number, i: number) => number = (value) => value, length = 500): Float64Array {
  const random = new Random(17, 'cycle', 0);
  return Float64Array.from({ length }, (_, i) => {
    const phase = (2 * Math.PI * i) / 31.4;
    return change(4 + 2 * Math.sin(phase) + 0.6 * Math.sin(2 * phase), i) + 0.1 * (random.uniform() - 0.5);
  });
}

describe('cycleTest', () => {
  it('finds nothing in a wave, and knows its range', () => {
    const test = cycleTest(wave(), 31.4)!;
    expect(test).toMatchObject({ intervals: [], class: 'normal' });
    expect(test.low).toBeLessThan(2.2);
    expect(test.high).toBeGreaterThan(5.8);
    expect(test.sigma).toBeLessThan(0.1);
    expect(test.peak).toBeLessThan(test.threshold);
  });

  it.each([
    [
      'global point',
      [
        [203, 204],
        [330, 331],
      ],
      (v: number, i: number) => (i === 203 || i === 330 ? 8 : v),
    ],
    [
      'contextual point',
      [
        [212, 213],
        [336, 337],
      ],
      (v: number, i: number) => (i === 212 || i === 336 ? 4.4 : v),
    ],
    [
      'seasonal',
      [[250, 264]],
      (v: number, i: number) => (i >= 250 && i < 264 ? 4 + 2 * Math.sin(0.7 * i) : v),
    ],
    [
      'contextual point',
      [[250, 270]],
      (v: number, i: number) => (i >= 250 && i < 270 ? 4 + 2.5 * Math.sin(i * i * 1.7) : v),
    ],
    ['shapelet', [[252, 266]], (v: number, i: number) => (i >= 252 && i < 266 ? 4 : v)],
    ['trend', [[300, 312]], (v: number, i: number) => v + Math.max(0, Math.min(4.8, 0.4 * (i - 300)))],
  ] as const)('names a %s by what it is like, where it is', (kind, intervals, change) => {
    const test = cycleTest(wave(change), 31.4)!;
    expect(test.class).toBe(kind);
    expect(pointF1(test.intervals, intervals)).toBeGreaterThan(0.6);
    expect(test.intervals).toHaveLength(intervals.length);
  });

  it('does not mind shifts and scales', () => {
    const values = wave((value, i) => (i === 203 ? 8 : value));
    const test = cycleTest(values, 31.4)!;
    const moved = cycleTest(
      values.map((value) => 50 - 3 * value),
      31.4,
    )!;
    expect(moved).toMatchObject({ intervals: test.intervals, class: test.class, peakIndex: 203 });
    expect(moved.peak).toBeCloseTo(3 * test.peak, 9);
  });

  it('is not taken of too few cycles, of too short ones, and of equal values', () => {
    expect(cycleTest(wave(undefined, 150), 31.4)).toBeNull();
    expect(cycleTest(wave(), 7)).toBeNull();
    expect(cycleTest(new Float64Array(300).fill(3), 20)).toBeNull();
  });

  it('gives sorted, disjoint intervals inside the series for any values', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -100, max: 100, noNaN: true }), { minLength: 60, maxLength: 120 }),
        (list) => {
          const test = cycleTest(Float64Array.from(list), 9.7);
          if (test === null) return;
          let last = 0;
          for (const [start, end] of test.intervals) {
            expect(start).toBeGreaterThanOrEqual(last);
            expect(end).toBeGreaterThan(start);
            last = end;
          }
          expect(last).toBeLessThanOrEqual(list.length);
          expect(test.class === 'normal').toBe(test.intervals.length === 0);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('sees most anomalies of the synthetic task that last less than a cycle', () => {
    for (const type of VTA_TYPES) {
      let right = 0;
      for (let index = 0; index < 10; index++) {
        const { values } = vta(type, 3407, 'validation', index);
        if (cycleTest(values, 25)!.class === vtaClass(type)) right++;
      }
      expect(right, type).toBeGreaterThanOrEqual(8);
    }
  });

  it('stays quick on long series and long cycles', () => {
    const long = Float64Array.from(
      { length: 30_000 },
      (_, i) => Math.sin((2 * Math.PI * i) / 4000) + (i === 9000 ? 3 : 0),
    );
    expect(cycleTest(long, 4000)).toMatchObject({ intervals: [[9000, 9001]], class: 'global point' });
  });
});

describe('traces that rest on the cycle test', () => {
  const values = wave((value, i) => (i >= 252 && i < 266 ? 4 : value));
  const { evidence, cycle } = analyseWithGaps(values);

  it('read as this', () => {
    expect(blindAnomaly([{ evidence, cycle }], ['v']).text).toMatchInlineSnapshot(`
      "<think>Observation: The series has 500 samples between 1.695 and 6.304, mean 3.963, standard deviation 1.453. It repeats like a sine wave with a period of 31.41 samples. Noise of about 0.02978 rides on it and is smoothed away first (Savitzky–Golay 31, 2). The cycle test finds a departure from this pattern.
      Reasoning & Validation: Range test: 3 standard deviations span 0.6606 to 7.265, the largest z-score is 2.967; nothing is outside. Trend test: the smoothed slope departs by up to 0.3946 from its mean -0.01011, limit 0.5984; not beyond it. Frequency test: the period in windows of 100 averages 33.33 with standard deviation 0, below 1: stable. Matrix profile: the window of 50 least like any other starts at 251, distance 3.806 against 0.5226 on average, z-score 3.147, not above 3.5: no discord. Cycle test: the typical cycle of 31.41 samples lies between 1.732 and 6.254; the largest departure from it is 2.17 at 257, limit 0.3392 (5 standard deviations of 0.03963, or more for a high cycle); flagged: 252 to 266; steps there are 0.1118 times the usual ones: the wave has another shape. The cycle test decides.
      Conclusion: anomalies of class shapelet at 252 to 266.</think><answer>[[252, 266]]</answer><class>shapelet</class>"
    `);
    expect(
      teacherAnomaly([{ evidence, cycle }], ['v'], [[252, 266]], 'seasonal')
        .think.split('\n')
        .at(1),
    ).toMatchInlineSnapshot(
      `"Reasoning & Validation: Range test: 3 standard deviations span 0.6606 to 7.265, the largest z-score is 2.967; nothing is outside. Trend test: the smoothed slope departs by up to 0.3946 from its mean -0.01011, limit 0.5984; not beyond it. Frequency test: the period in windows of 100 averages 33.33 with standard deviation 0, below 1: stable. Matrix profile: the window of 50 least like any other starts at 251, distance 3.806 against 0.5226 on average, z-score 3.147, not above 3.5: no discord. Cycle test: the typical cycle of 31.41 samples lies between 1.732 and 6.254; the largest departure from it is 2.17 at 257, limit 0.3392 (5 standard deviations of 0.03963, or more for a high cycle); flagged: 252 to 266; steps there are 0.1118 times the usual ones: the wave has another shape. The cycle test best supports an anomaly of class seasonal at 252 to 266, with a point F1 of 1. By itself it would take the class for shapelet, which the annotation corrects."`,
    );
  });

  it('answer in the form of the reward, without < and >, with numbers of the evidence', () => {
    const numbers = (value: unknown): number[] =>
      typeof value === 'number'
        ? [value]
        : value !== null && typeof value === 'object'
          ? Object.values(value).flatMap(numbers)
          : [];
    for (const type of VTA_TYPES) {
      for (let index = 0; index < 4; index++) {
        const series = vta(type, 3407, 'train', index);
        const analysed = analyseWithGaps(series.values);
        for (const trace of [
          blindAnomaly([analysed], ['v']),
          teacherAnomaly([analysed], ['v'], series.intervals, series.class),
        ]) {
          expect(trace.think).not.toMatch(/[<>]/);
          expect(parseAnswer(trace.text, 400)).toMatchObject({
            wellFormed: true,
            intervals: trace.intervals,
          });
          const own = numbers([
            JSON.parse(JSON.stringify(trace.evidence)),
            route(trace.evidence),
            trace.cycle,
            trace.intervals,
            trace.intervals.length,
            5,
          ]);
          const lists = [
            trace.evidence.range,
            trace.evidence.outliers,
            trace.evidence.trend,
            trace.evidence.frequency,
            trace.cycle,
          ].map((test) => test?.intervals.length ?? 0);
          const agreements = [
            cite(trace.evidence, series.intervals).agreement,
            pointF1(trace.cycle?.intervals ?? [], series.intervals),
          ];
          const known = new Set(
            [...own, ...lists, ...agreements]
              .flatMap((value) => [value, Math.abs(value)])
              .map((value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(4)))),
          );
          for (const number of trace.think.match(/(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g) ?? []) {
            expect(known, `${series.id}: ${number}`).toContain(number);
          }
        }
      }
    }
  });

  it('are as without it where another test decides or covers better, or none applies', () => {
    expect(blindAnomaly([{ evidence, cycle: null }], ['v'])).toMatchObject(blind(evidence));
    expect(teacherAnomaly([{ evidence, cycle: null }], ['v'], [[252, 266]], 'shapelet')).toMatchObject(
      teacher(evidence, [[252, 266]], 'shapelet'),
    );
    expect(teacherAnomaly([{ evidence, cycle }], ['v'], [], 'normal')).toMatchObject(
      teacher(evidence, [], 'normal'),
    );
    const spiked = analyseWithGaps(wave((value, i) => (i === 90 ? 60 : value)));
    expect(blindAnomaly([spiked], ['v'])).toMatchObject(blind(spiked.evidence));
  });
});
