import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import {
  type AnswerToken,
  accountsOf,
  CONFIDENCE_FILE,
  type ConfidenceModel,
  cellsOf,
  confidenceOf,
  fitConfidence,
  isRight,
  placesOf,
  REPORTED_FROM,
  type Regression,
  rankPlaces,
  readConfidence,
  reportedAccounts,
  type Support,
  type WindowEvidence,
  weighAccounts,
  writeConfidence,
} from '../../src/explain/confidence.ts';
import { CheckpointError } from '../../src/ground/errors.ts';
import { damageOf, writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';

const token = (text: string, p = 0.9): AnswerToken => ({ text, logProb: Math.log(p) });

describe('cells of a scan', () => {
  const before = [token('<think>'), token('cycle', 0.4), token('; scan ')];
  const behind = [
    token('; spike '),
    token('2'),
    token(' sd</think><answer>[]</answer><class>normal</class>'),
  ];

  test('marks have their probability, and cells without one what is left', () => {
    const marks = [token('.', 0.95), token('(', 0.6), token(')', 0.7), token('o', 0.5)];
    const cells = cellsOf([...before, ...marks, ...behind])!;
    expect(cells).toHaveLength(4);
    for (const [i, p] of [0.05, 0.6, 0.7, 0.5].entries()) expect(cells[i]).toBeCloseTo(p, 12);
  });

  test('a symbol may share its token with the words behind it, and an unknown one tells nothing', () => {
    const cells = cellsOf([...before, token('7', 0.8), token('o; spike ', 0.3), token('4</think>')])!;
    expect(cells[0]).toBeNaN();
    expect(cells[1]).toBeCloseTo(0.3, 12);
  });

  test('are not known where one token holds two of them, or there is no scan', () => {
    expect(cellsOf([...before, token('..'), token('('), ...behind])).toBeNull();
    expect(cellsOf([token('<think>9 variates</think>'), ...behind])).toBeNull();
    expect(cellsOf([])).toBeNull();
  });
});

/** A window of `n` cells of 10 samples in which the given ones have a probability, and the others 2 %. */
function window(
  start: number,
  cells: Readonly<Record<number, number>>,
  change: Partial<WindowEvidence> = {},
): WindowEvidence {
  const end = change.end ?? start + 100;
  return {
    ...{ start, end, scale: 0, intervals: [] },
    cells: Array.from({ length: 10 }, (_, i) => cells[i] ?? 0.02),
    ...change,
  };
}

const MODEL: Pick<ConfidenceModel, 'constant' | 'weights' | 'evidence'> = {
  constant: 0,
  evidence: { constant: -1, weights: { policy: 0.5, severity: 0.4, findings: -0.6, marks: -0.3 } },
  weights: { own: 1, neighbours: 0.5, scales: 0.5, size: 0, windows: 0, rarity: 0 },
};
/** A series in which nothing is rare. */
const PLAIN = Float64Array.from({ length: 8000 }, (_, i) => Math.sin(i * i));

describe('accounts of places', () => {
  test('are what answers mark, and cells in which they might have', () => {
    const one = window(50, { 3: 0.6, 4: 0.8, 7: 0.3 }, { intervals: [[82, 95]] });
    const accounts = accountsOf([one], PLAIN);
    expect(accounts.map(({ interval }) => interval)).toEqual([
      [82, 95],
      [120, 130],
    ]);
    expect(accounts[0]!.support).toMatchObject({ neighbours: 0, scales: 0, windows: 0 });
    expect(accounts[0]!.support!.own).toBeCloseTo(Math.log(0.7 / 0.3), 9);
    expect(accounts[0]!.support!.size).toBeCloseTo(Math.log2(1.3), 9);
  });

  test('are supported by windows beside them and scales above them that see it, and lowered by those that do not', () => {
    const marked = window(0, { 7: 0.7 }, { intervals: [[71, 79]] });
    const supportBy = (...others: WindowEvidence[]): Support =>
      accountsOf([marked, ...others], PLAIN)[0]!.support!;
    const agrees = supportBy(window(50, { 2: 0.9 }));
    const denies = supportBy(window(50, {}));
    expect(agrees.neighbours).toBeCloseTo(Math.log(9) - agrees.own, 9);
    expect(denies.neighbours).toBeLessThan(-4);
    const coarse = { end: 400, scale: 1 };
    expect(supportBy(window(0, { 1: 0.95 }, coarse)).scales).toBeGreaterThan(0);
    expect(supportBy(window(0, { 2: 0.95 }, coarse)).scales).toBeLessThan(-4);
    // A window that shows less than half of it has no say.
    expect(supportBy(window(76, {}))).toMatchObject({ neighbours: 0 });
  });

  test('are told how rare a short departure is in the whole series, and nothing of that for a long one', () => {
    const values = Float64Array.from({ length: 1000 }, (_, i) => Math.sin(i * i));
    values[415] = 40;
    const rarityOf = (interval: readonly [number, number]): number =>
      accountsOf([window(400, {}, { intervals: [interval] })], values)[0]!.support!.rarity;
    expect(rarityOf([415, 416])).toBeGreaterThan(3);
    expect(rarityOf([412, 415])).toBe(rarityOf([415, 416]));
    expect(rarityOf([440, 442])).toBe(0);
    expect(rarityOf([411, 418])).toBe(0);
    expect(rarityOf([415, 416])).toBeLessThanOrEqual(6);
    // Their difference is more than a float64 holds.
    values.set([1.5e308, -1.5e308], 415);
    expect(rarityOf([415, 417])).toBe(6);
  });

  test('have no support where tokens tell nothing', () => {
    const [one] = accountsOf([window(0, {}, { cells: null, intervals: [[5, 9]] })], PLAIN);
    expect(one).toEqual({ interval: [5, 9], support: null });
    expect(accountsOf([window(0, { 4: 0.9 }, { intervals: null })], PLAIN)).toEqual([]);
  });
});

test('no account lies in a gap, and none begins or ends in one', () => {
  const values = PLAIN.slice();
  values.fill(Number.NaN, 15, 48);
  const marks = window(
    0,
    { 0: 0.9, 2: 0.8, 6: 0.7 },
    {
      intervals: [
        [5, 18],
        [20, 30],
        [46, 70],
      ],
    },
  );
  expect(accountsOf([marks], values).map(({ interval }) => interval)).toEqual([
    [5, 15],
    [48, 70],
  ]);
});

describe('merging by confidence', () => {
  test('the most confident account of a place gives its extent', () => {
    const fine = window(0, { 2: 0.55, 3: 0.6, 4: 0.6 }, { intervals: [[20, 50]] });
    const coarse = window(0, { 1: 0.97 }, { end: 400, scale: 1, intervals: [[41, 79]] });
    const kept = (...windows: WindowEvidence[]) =>
      weighAccounts(accountsOf(windows, PLAIN), MODEL).map(({ interval }) => interval);
    expect(kept(fine, coarse)).toEqual([[41, 79]]);
    const unsure = { ...coarse, cells: coarse.cells!.map((_, i) => (i === 1 ? 0.3 : 0.02)) };
    expect(kept(fine, unsure)).toEqual([[20, 50]]);
  });

  test('reports from a confidence on, in the order of the series, and what an answer marks without one', () => {
    const windows = [
      window(0, { 1: 0.8, 6: 0.2 }, { intervals: [[12, 18]] }),
      window(100, {}, { cells: null, intervals: [[140, 150]] }),
      window(200, { 9: 0.99 }),
    ];
    const reported = reportedAccounts(weighAccounts(accountsOf(windows, PLAIN), MODEL));
    expect(reported.map(({ interval }) => interval)).toEqual([
      [12, 18],
      [140, 150],
      [290, 300],
    ]);
    expect(reported[0]!.confidence).toBeGreaterThan(REPORTED_FROM);
    expect(reported[1]!.confidence).toBeNull();
  });

  test('leaves disjoint intervals, most confident first, of any windows', () => {
    const cell = fc.double({ min: 0, max: 1, noNaN: true });
    const some = fc.tuple(
      fc.integer({ min: 0, max: 900 }),
      fc.integer({ min: 0, max: 2 }),
      fc.array(cell, { minLength: 10, maxLength: 10 }),
    );
    fc.assert(
      fc.property(fc.array(some, { minLength: 1, maxLength: 12 }), (drawn) => {
        const windows = drawn.map(
          ([start, scale, cells]): WindowEvidence => ({
            ...{ start, scale, cells, end: start + 100 * 4 ** scale },
            intervals: [[start + 3, start + 30 * 4 ** scale]],
          }),
        );
        const kept = weighAccounts(accountsOf(windows, PLAIN), MODEL);
        const sure = kept.map(({ confidence }) => confidence!);
        expect(sure).toEqual([...sure].sort((a, b) => b - a));
        const ordered = kept.map(({ interval }) => interval).sort((a, b) => a[0] - b[0]);
        for (const [i, [start]] of ordered.slice(1).entries()) {
          expect(start).toBeGreaterThanOrEqual(ordered[i]![1]);
        }
      }),
      { numRuns: 60 },
    );
  });
});

describe('places of policy and detector', () => {
  const found = (start: number, end: number, severity: number, lasting = false) => ({
    ...{ start, end, severity, lasting },
  });
  const mark = (interval: Interval, confidence: number | null) => ({ interval, support: null, confidence });
  const MARKS = [mark([20, 30], 0.8), mark([100, 140], 0.3), mark([300, 310], null), mark([500, 505], 0.5)];

  test('are findings with the marks that share half of the shorter one, and the other marks', () => {
    const places = placesOf(MARKS, [found(24, 60, 3), found(130, 200, 7)]);
    expect(places.map(({ interval, finding, marks }) => ({ interval, finding, marks }))).toEqual([
      { interval: [24, 60], finding: 0, marks: [[20, 30]] },
      { interval: [130, 200], finding: 1, marks: [] },
      { interval: [100, 140], finding: null, marks: [[100, 140]] },
      { interval: [500, 505], finding: null, marks: [[500, 505]] },
    ]);
    const [both, detector, , policy] = places.map(({ evidence }) => evidence);
    expect(both).toEqual({ policy: Math.log(0.8 / (1 - 0.8)), severity: 2, findings: 1, marks: 0 });
    // Nothing is marked there: three other places are.
    expect(detector).toEqual({ policy: Math.log(0.02 / 0.98), severity: 3, findings: 1, marks: 2 });
    expect(policy).toMatchObject({ policy: 0, severity: 0, marks: 1 });
    expect(policy!.findings).toBeCloseTo(Math.log2(3), 12);
  });

  test('a level that stays is told of by a mark at its beginning alone', () => {
    const level = found(400, 900, 5, true);
    expect(placesOf([mark([398, 430], 0.7)], [level])).toHaveLength(1);
    expect(placesOf([mark([600, 630], 0.7)], [level])).toHaveLength(2);
    expect(placesOf([mark([600, 630], 0.7)], [{ ...level, lasting: false }])).toHaveLength(1);
  });

  test('a severe finding has a high confidence, whatever a policy is silent about or marks elsewhere', () => {
    const marks = Array.from({ length: 12 }, (_, k) => mark([1000 + 50 * k, 1010 + 50 * k], 0.1));
    const confidence = (severity: number): number =>
      rankPlaces(placesOf(marks, [found(12, 22, severity)]), MODEL).find(({ finding }) => finding === 0)!
        .confidence;
    expect(confidence(35)).toBeGreaterThan(0.5);
    fc.assert(
      fc.property(
        fc.tuple(fc.double({ min: 1, max: 90, noNaN: true }), fc.double({ min: 0, max: 9, noNaN: true })),
        ([severity, more]) => {
          expect(confidence(severity + more)).toBeGreaterThanOrEqual(confidence(severity));
        },
      ),
    );
  });

  test('a mark has at least its own confidence where recordings alone were fitted, and a finding alone what it had', () => {
    const places = placesOf([mark([10, 20], 0.9)], [found(400, 410, 5)]);
    const confidences = (recordingsAlone: boolean): number[] =>
      rankPlaces(places, { ...MODEL, recordingsAlone })
        .sort((a, b) => a.interval[0] - b.interval[0])
        .map(({ confidence }) => confidence);
    const [[marked, alone], [own, same]] = [confidences(false), confidences(true)];
    expect(marked).toBeLessThan(0.85);
    expect(own).toBeCloseTo(0.9, 9);
    expect(same).toBe(alone);
  });

  test('both together rank before either alone', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.05, max: 0.95, noNaN: true }),
        fc.double({ min: 1, max: 20, noNaN: true }),
        (p, severity) => {
          const marks = [mark([10, 20], p), mark([200, 210], p)];
          const [first] = rankPlaces(
            placesOf(marks, [found(12, 22, severity), found(400, 410, severity)]),
            MODEL,
          );
          expect(first!.interval).toEqual([12, 22]);
        },
      ),
    );
  });
});

describe('being right', () => {
  test('is to have a fifth in common with an anomaly, each five samples wider', () => {
    expect(isRight([100, 128], [[112, 113]])).toBe(true);
    expect(isRight([100, 170], [[112, 113]])).toBe(false);
    expect(isRight([417, 418], [[412, 413]])).toBe(true);
    expect(isRight([430, 431], [[412, 413]])).toBe(false);
    expect(isRight([0, 100], [[40, 75]])).toBe(true);
    expect(isRight([0, 100], [])).toBe(false);
  });
});

describe('fitting confidences', () => {
  const random = new Random(3, 'confidence');
  const draw = (): Support => ({
    own: random.normal(0, 2),
    neighbours: random.normal(0, 1),
    scales: random.normal(0, 1),
    size: random.uniform() * 3,
    windows: random.integer(0, 5),
    rarity: random.uniform() * 6,
  });
  const truth: Regression<keyof Support> = {
    constant: 0.4,
    weights: { own: 1.2, neighbours: 0.5, scales: 0, size: 0.3, windows: -0.6, rarity: 0.8 },
  };
  const examples = Array.from({ length: 4000 }, () => {
    const inputs = draw();
    return { inputs, right: random.uniform() < confidenceOf(truth, inputs) };
  });

  test('finds what the shares were made of', () => {
    const { constant, weights } = fitConfidence(examples);
    expect(Math.abs(constant - truth.constant)).toBeLessThan(0.25);
    for (const [name, value] of Object.entries(truth.weights)) {
      expect(Math.abs(weights[name as keyof Support] - value)).toBeLessThan(0.12);
    }
  });

  test('ends where examples can be told apart without a mistake, and where an input is always the same', () => {
    const apart = examples
      .slice(0, 50)
      .map(({ inputs }) => ({ inputs: { ...inputs, size: 0 }, right: inputs.own > 0 }));
    const { constant, weights } = fitConfidence(apart);
    for (const value of [constant, ...Object.values(weights)]) expect(Number.isFinite(value)).toBe(true);
    expect(weights.size).toBeCloseTo(0, 9);
    expect(weights.own).toBeGreaterThan(0);
  });
});

describe('timeseer.confidence.json', () => {
  const root = mkdtempSync(join(tmpdir(), 'timeseer-confidence-'));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const model: ConfidenceModel = {
    version: 2,
    ...MODEL,
    fitted: { data: 'wild', series: 4, intervals: 30, right: 9 },
  };

  test('is read as it was written, and stands in the manifest', () => {
    const directory = join(root, 'saved');
    writeManifestedDirectory(directory, (at) => writeFileSync(join(at, 'other.json'), '{}'));
    expect(readConfidence(directory)).toBeNull();
    writeConfidence(directory, model);
    expect(readConfidence(directory)).toEqual(model);
    expect(damageOf(directory)).toBeNull();
    writeFileSync(join(directory, CONFIDENCE_FILE), JSON.stringify({ ...model, constant: 9 }));
    expect(() => readConfidence(directory)).toThrow(/differs from what was saved there/);
  });

  test.each([
    ['another version', { ...model, version: 1 }, /version/],
    ['an unknown weight', { ...model, weights: { ...model.weights, place: 1 } }, /weights/],
    ['a missing weight', { ...model, weights: { own: 1 } }, /weights\.neighbours/],
    ['a constant that is no number', { ...model, constant: 'high' }, /constant/],
  ])('%s is refused with what to do', (_, record, message) => {
    const directory = mkdtempSync(join(root, 'bad-'));
    writeFileSync(join(directory, CONFIDENCE_FILE), JSON.stringify(record));
    expect(() => readConfidence(directory)).toThrow(CheckpointError);
    expect(() => readConfidence(directory)).toThrow(message);
    expect(() => readConfidence(directory)).toThrow(/timeseer calibrate --policy/);
    expect(readFileSync(join(directory, CONFIDENCE_FILE), 'utf8')).toBe(JSON.stringify(record));
  });
});
