/** The procedure of the benchmark of anomaly detection: measures by hand, truth where the change is, as many alarms for each. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { detect } from '../src/detect/detect.ts';
import { figure, say, statementOf } from '../src/detect/sentence.ts';
import { Random } from '../src/ground/random.ts';
import { atEqualRecall } from './bench/anomalies.ts';
import { ownAlarms, PEERS, prepare, randomAlarms, read, reported } from './bench/anomaly-contenders.ts';
import { asCsv, factsOf } from './bench/anomaly-facts.ts';
import { alarmMeasures, averagePrecision, intersectionOverUnion } from './bench/anomaly-measures.ts';
import { injectedCases, nabCases, samplesOf } from './bench/anomaly-recordings.ts';
import { ANOMALIES, CLEAN, cleanCases, compose, shapeCases, WAVES } from './bench/anomaly-shapes.ts';

describe('measures', () => {
  it('take the average precision of tied scores together', () => {
    // Ranks: 5 (true), 4 and 4 (one true), 2, then 1 and 1 (one true): 1/3·1 + 1/3·2/3 + 1/3·3/6.
    const score = Float64Array.of(1, 5, 4, 4, 2, 1, 0);
    expect(
      averagePrecision(score, [
        [1, 3],
        [5, 6],
      ]),
    ).toBeCloseTo(1 / 3 + 2 / 9 + 1 / 6, 12);
    expect(averagePrecision(new Float64Array(8), [[2, 4]])).toBe(0.25);
    expect(averagePrecision(score, [])).toBeNaN();
  });

  it('know hits, overlaps and false alarms', () => {
    expect(intersectionOverUnion([10, 20], [15, 30])).toBe(0.25);
    const found = alarmMeasures(
      [
        [80, 90],
        [12, 22],
        [40, 45],
      ],
      [
        [10, 20],
        [60, 64],
      ],
      100,
    );
    expect(found.hit).toBe(0.5);
    expect(found.iou).toBeCloseTo(8 / 12 / 2, 12);
    expect(found.falseAlarms).toBe(2);
    const everything = alarmMeasures(
      [[0, 100]],
      [
        [10, 20],
        [60, 64],
      ],
      100,
    );
    expect(everything).toMatchObject({ hit: 1, recall: 1, falseAlarms: 0 });
    expect(alarmMeasures([], [[10, 20]], 100)).toMatchObject({
      f1: 0,
      precision: 0,
      recall: 0,
      hit: 0,
      iou: 0,
    });
  });

  it('count the false alarms above the height at which a contender has enough hits', () => {
    const one = {
      ...shapeCases(5)[0]!,
      values: new Float64Array(500),
      truth: [[10, 20] as const, [50, 60] as const],
    };
    const alarms = {
      peer: [
        { interval: [11, 12] as const, height: 9 },
        { interval: [100, 110] as const, height: 8 },
        { interval: [15, 18] as const, height: 7 },
        { interval: [200, 210] as const, height: 6 },
        { interval: [55, 58] as const, height: 5 },
        { interval: [300, 310] as const, height: 4 },
      ],
    };
    const results = [{ one: prepare(one), alarms }];
    expect(atEqualRecall(results, 'peer', 2)).toEqual({ threshold: 4, falsePerThousand: 4 });
    expect(atEqualRecall(results, 'peer', 1)).toEqual({ threshold: 8, falsePerThousand: 0 });
    expect(atEqualRecall(results, 'peer', 3).falsePerThousand).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('generated series', () => {
  const cases = shapeCases(3);

  it('have every kind of anomaly in both halves, and no waveform in both', () => {
    for (const half of ['choose', 'report'] as const) {
      const kinds = new Set(cases.filter((one) => one.half === half).map(({ kind }) => kind));
      expect([...kinds].sort()).toEqual([...Object.keys(ANOMALIES), 'several'].sort());
    }
    expect(new Set(cases.map(({ values }) => values.length)).size).toBeGreaterThan(50);
  });

  it('differ from the clean series exactly where the truth says', () => {
    for (const [base, { make, length }] of Object.entries(WAVES)) {
      for (const kind of Object.keys(ANOMALIES)) {
        const random = new Random(7, `${base}/${kind}`);
        const wave = make(random, length);
        if (ANOMALIES[kind]!.fits?.(wave) === false) continue;
        const { values, clean, truth } = compose(random, wave, length, [kind]);
        const [[start, end]] = truth as [[number, number]];
        const differs = Array.from(values, (value, i) => (value === clean[i] ? -1 : i)).filter((i) => i >= 0);
        expect([differs[0], differs.at(-1)! + 1], `${base}/${kind}`).toEqual([start, end]);
        expect(values.every(Number.isFinite)).toBe(true);
      }
    }
  });

  it('are the same for the same seed and others for another', () => {
    expect(shapeCases(3)[20]).toEqual(cases[20]);
    expect(shapeCases(4)[20]!.values).not.toEqual(cases[20]!.values);
  });

  it('are finite and without truth where they are clean, of many kinds in both halves', () => {
    const clean = cleanCases([1]);
    expect(clean.length).toBe(Object.keys(CLEAN).length);
    expect(clean.every(({ values, truth }) => values.every(Number.isFinite) && truth.length === 0)).toBe(
      true,
    );
    for (const half of ['choose', 'report'] as const)
      expect(clean.filter((one) => one.half === half).length).toBeGreaterThan(12);
  });
});

describe('contenders', () => {
  const one = prepare(shapeCases(3).find(({ name }) => name === 'shapes/load/several')!);

  it('all give as many alarms as are asked for', () => {
    for (const count of [1, 3, 6]) {
      expect(ownAlarms(one, count)).toHaveLength(count);
      expect(randomAlarms(one, count)).toHaveLength(count);
      for (const settings of Object.values(PEERS)) {
        expect(read(settings.at(-1)!.score(one), { smooth: 7, share: 0.6 }, count)).toHaveLength(count);
      }
    }
  });

  it('are ours first by what is reported', () => {
    const own = reported(one);
    expect(own.length).toBeGreaterThan(0);
    expect(ownAlarms(one, own.length)).toEqual(own);
  });
});

describe('printed numbers', () => {
  it('are checked against the text of the file', () => {
    const one = prepare(shapeCases(3).find(({ name }) => name === 'shapes/load/several')!);
    const facts = factsOf('load.csv', asCsv(one.values), one.detection)!;
    expect(facts.wrong).toEqual([]);
    expect(facts.told).toBeGreaterThanOrEqual(10);
    expect(facts.true).toBe(facts.told);
    const [first, ...rest] = one.detection.findings;
    const value = figure(123456, 1, { quantity: 'value', start: first!.start, end: first!.start + 1 });
    const says = { fact: say`went to ${value}`, context: [] };
    const wrong = { ...one.detection, findings: [{ ...first!, says }, ...rest] };
    expect(() => factsOf('load.csv', asCsv(one.values), wrong)).toThrow(/"123456" \(value\)/);
  });

  it('of a step are checked against the samples before it', () => {
    const draw = new Random(4, 'step');
    const values = Float64Array.from({ length: 900 }, (_, i) => (i < 640 ? 50 : 42) + draw.normal());
    const detection = detect(values);
    const step = detection.findings[0]!;
    expect(step.stepped).not.toBeNull();
    expect(statementOf(step.says)).toMatch(
      /^fell to 4[12].* on average .*\((50|49\.\d+|50\.\d+) in the 2\d\d samples before; /,
    );
    const facts = factsOf('step.csv', asCsv(values), detection)!;
    expect(facts.wrong).toEqual([]);
    const off = { ...step, stepped: { ...step.stepped!, mean: step.stepped!.mean + 1 } };
    expect(() => factsOf('step.csv', asCsv(values), { ...detection, findings: [off] })).toThrow(
      /mean before the step/,
    );
  });
});

describe('recordings', () => {
  it('have their labelled windows as samples, and anomalies put where nothing is labelled', () => {
    const directory = mkdtempSync(join(tmpdir(), 'anomaly-bench-'));
    try {
      mkdirSync(join(directory, 'nab', 'kind'), { recursive: true });
      const values = Float64Array.from(
        { length: 1500 },
        (_, i) => 5 + Math.sin(i / 9) + 0.1 * Math.sin(i * i),
      );
      writeFileSync(join(directory, 'nab', 'kind', 'one.csv'), asCsv(values));
      // The file begins on 2025-03-03 and has a sample every five minutes.
      const labels = { 'kind/one.csv': [['2025-03-03 02:00:00.000000', '2025-03-03 03:00:00.000000']] };
      writeFileSync(join(directory, 'nab', 'combined_windows.json'), JSON.stringify(labels));
      const [one] = nabCases(directory);
      expect(one!.truth).toEqual([[24, 37]]);
      expect(one!.calendar).toEqual([12, 288, 2016]);
      const injected = injectedCases(directory, nabCases(directory), 1);
      expect(injected.length).toBeGreaterThan(5);
      for (const { values: after, truth } of injected) {
        expect(after.length).toBe(1500 - 37);
        expect(truth.length).toBeGreaterThan(0);
      }
      expect(nabCases(join(directory, 'none'))).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it('have no samples in a window between two of them', () => {
    expect(samplesOf(Float64Array.of(0, 10, 20, 30), 11, 19)).toBeNull();
    expect(samplesOf(Float64Array.of(0, 10, 20, 30), 10, 30)).toEqual([1, 4]);
  });
});
