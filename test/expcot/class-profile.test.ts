import { describe, expect, it } from 'vitest';
import { classIndex, learnClasses, profileToJson, readProfile } from '../../src/expcot/class-profile.ts';
import { ClassEvidence, strongest } from '../../src/expcot/class-trace.ts';
import { classProbabilities, fitDiscriminant, SHRINKAGES } from '../../src/expcot/discriminant.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import type { Example } from '../../src/ground/types.ts';
import { machines } from '../helpers/classes.ts';

const train = machines('train', 36);

/** The class that the evidence finds most probable. */
const answer = (profile: ReturnType<typeof learnClasses>, example: Example): string =>
  new ClassEvidence(profile, example.channels).candidates[0]!.class;

describe('learnClasses', () => {
  const profile = learnClasses(train);

  it('counts the classes and orders their means as the data has them', () => {
    expect(profile.classes.map(({ name, count }) => [name, count])).toEqual([
      ['fan', 12],
      ['idle', 12],
      ['pump', 12],
    ]);
    const period = profile.features.findIndex(({ key }) => key === 'period');
    const [fan, idle, pump] = profile.classes.map(({ means }) => means[period]!);
    expect(Math.exp(fan!) - 1).toBeCloseTo(8, 0);
    expect(Math.exp(pump!) - 1).toBeCloseTo(40, -1);
    expect(idle).toBeDefined();
    expect(profile.features[period]!.ratio).toBeGreaterThan(20);
  });

  it('tells fresh examples apart', () => {
    const test = machines('test', 60);
    const right = test.filter(
      (example) => example.gold.kind === 'classification' && answer(profile, example) === example.gold.class,
    );
    expect(right.length).toBeGreaterThan(55);
    expect(profile.rule.heldOutAccuracy).toBeGreaterThan(0.9);
  });

  it('does not depend on the order of the examples', () => {
    const order = new Random(11, 'order', 0).permutation(train.length);
    expect(profileToJson(learnClasses([...order].map((i) => train[i]!)))).toBe(profileToJson(profile));
  });

  it('refuses examples of other splits, tasks and kinds, doubles, and a single class', () => {
    const [one] = train as [Example];
    const test = machines('test', 3);
    expect(() => learnClasses([...train, test[0]!])).toThrow(
      /machines\/test\/0: its id names the test split/,
    );
    expect(() => learnClasses([...train, { ...one, id: 'machines/validation/0' }])).toThrow(DataError);
    expect(() => learnClasses([...train, one])).toThrow(/comes twice/);
    expect(() => learnClasses([...train, { ...one, id: 'other/train/9', task: 'other' }])).toThrow(
      /of task other/,
    );
    expect(() => learnClasses([...train, { ...one, id: 'm/train/99', names: ['other'] }])).toThrow(
      /channels other/,
    );
    const variates = { kind: 'variates', variates: [0] } as const;
    expect(() => learnClasses([{ ...one, gold: variates }])).toThrow(/has no class to learn/);
    const odd = { kind: 'classification', class: 'a<b' } as const;
    expect(() => learnClasses([{ ...one, gold: odd }])).toThrow(/holds </);
    expect(() => learnClasses(train.slice(0, 1))).toThrow(/one class only \(fan\)/);
    expect(() => learnClasses([])).toThrow(/no examples/);
  });

  it('takes ids that name a recording instead of a split', () => {
    const renamed = train.map((example, i) => ({ ...example, id: `machines/hall-2/${i}` }));
    expect(learnClasses(renamed).classes).toEqual(profile.classes);
  });

  it('knows a class with a single example, and a feature that no example has', () => {
    const lonely = learnClasses([...train.filter((_, i) => i % 3 !== 2), train[2]!]);
    expect(lonely.classes.map(({ count }) => count)).toEqual([12, 1, 12]);
    const flat = learnClasses(
      train.slice(0, 6).map((example, i) => ({ ...example, channels: [new Float64Array(50).fill(i % 3)] })),
    );
    const rhythm = flat.features.findIndex(({ key }) => key === 'pulseRhythm');
    expect(flat.features[rhythm]).toMatchObject({ ratio: 0, within: 0 });
    expect(flat.classes[0]!.means[rhythm]).toBeNull();
    expect(answer(flat, { ...train[0]!, channels: [new Float64Array(50).fill(2)] })).toBe('idle');
  });

  it('names classes that it does not know', () => {
    expect(() => classIndex(profile, 'Pump')).toThrow(ConfigError);
    expect(classIndex(profile, 'pump')).toBe(2);
  });
});

describe('a profile as a file', () => {
  const profile = learnClasses(train);
  const text = profileToJson(profile);

  it('is restored exactly', () => {
    expect(readProfile(text, 'p.json')).toEqual(profile);
  });

  it('is refused, with its name, where it is not one of this version and of these features', () => {
    const changed = (change: (record: Record<string, unknown>) => void): string => {
      const record = JSON.parse(text);
      change(record);
      return JSON.stringify(record);
    };
    expect(() => readProfile('{', 'p.json')).toThrow(/^p.json: not JSON/);
    expect(() =>
      readProfile(
        changed((r) => (r['version'] = 99)),
        'p.json',
      ),
    ).toThrow(/^p.json: version: .*version 1/);
    expect(() =>
      readProfile(
        changed((r) => (r['channels'] = ['a', 'b'])),
        'p.json',
      ),
    ).toThrow(/learn the classes again/);
    expect(() =>
      readProfile(
        changed((r) => (r['extra'] = 1)),
        'p.json',
      ),
    ).toThrow(DataError);
  });
});

describe('ClassEvidence', () => {
  const profile = learnClasses(train);
  const [fan, pump] = machines('test', 2) as [Example, Example];

  it('compares two classes from both sides alike', () => {
    const evidence = new ClassEvidence(profile, fan.channels);
    const there = evidence.compare('fan', 'pump');
    const back = new Map(evidence.compare('pump', 'fan').map((one) => [one.key, one]));
    expect(there.length).toBeGreaterThan(5);
    for (const { key, gain, one, other, value } of there) {
      expect(back.get(key)).toMatchObject({ one: other, other: one, value });
      expect(back.get(key)!.gain).toBeCloseTo(-gain, 9);
    }
    expect(there.map(({ gain }) => gain)).toEqual(there.map(({ gain }) => gain).sort((a, b) => b - a));
  });

  it('gives probabilities that add up, and takes nothing but values', () => {
    const { candidates } = new ClassEvidence(profile, pump.channels);
    expect(candidates[0]!.class).toBe('pump');
    expect(candidates.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 12);
  });

  it('picks the strongest comparisons, one of each family', () => {
    const base = { says: '', value: 0, one: 0, other: 0 };
    const list = [
      { ...base, key: 'a', gain: 3, family: 0 },
      { ...base, key: 'b', gain: 2.5, family: 0 },
      { ...base, key: 'c', gain: 1, family: 2 },
      { ...base, key: 'd', gain: 0.1, family: 3 },
      { ...base, key: 'e', gain: -2, family: 4 },
      { ...base, key: 'f', gain: -4, family: 5 },
    ];
    expect(strongest(list, 1, 9).map(({ key }) => key)).toEqual(['a', 'c']);
    expect(strongest(list, -1, 1).map(({ key }) => key)).toEqual(['f']);
  });

  it('refuses a series with other channels', () => {
    expect(() => new ClassEvidence(profile, [...fan.channels, ...fan.channels])).toThrow(
      /2 channels, the profile of machines has 1/,
    );
  });
});

describe('fitDiscriminant', () => {
  it('weighs a direction by its spread: the exact rule of two clouds', () => {
    // Covariance diag(4, 1/4) around (±1, 0) and (∓1, 1): weights follow Σ⁻¹·mean at the least shrinkage.
    const random = new Random(2, 'clouds', 0);
    const normal = (): number =>
      Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());
    const rows = Array.from({ length: 4000 }, (_, i) =>
      Float64Array.of(2 * normal() + (i % 2 ? 1 : -1), normal() / 2 + (i % 2)),
    );
    const fitted = fitDiscriminant(
      rows,
      rows.map((_, i) => i % 2),
      2,
    );
    expect(SHRINKAGES).toContain(fitted.shrinkage);
    const [w0, w1] = fitted.weights as [Float64Array, Float64Array];
    const slope = (w1[0]! - w0[0]!) / (w1[1]! - w0[1]!);
    expect(slope).toBeGreaterThan(0.09);
    expect(slope).toBeLessThan(0.16);
    expect(classProbabilities(fitted, Float64Array.of(0, 0.5))[1]).toBeCloseTo(0.5, 1);
    expect(classProbabilities(fitted, Float64Array.of(0, 1))[1]).toBeGreaterThan(0.85);
    // Bayes: distance² = 4/4 + 1/(1/4) = 5, Φ(√5/2) = 0.868.
    expect(fitted.heldOutAccuracy).toBeCloseTo(0.868, 1);
  });

  it('counts a row whose class ties with others as one over their number', () => {
    const rows = Array.from({ length: 60 }, () => Float64Array.of(1, -2));
    const labelled = (classes: number) =>
      fitDiscriminant(
        rows,
        rows.map((_, i) => i % classes),
        classes,
      );
    expect(labelled(2).heldOutAccuracy).toBeCloseTo(1 / 2, 12);
    expect(labelled(3).heldOutAccuracy).toBeCloseTo(1 / 3, 12);
  });

  it('does not gain on labels without meaning by its choice of the shrinkage', () => {
    const random = new Random(23, 'labels', 0);
    let sum = 0;
    for (let round = 0; round < 60; round++) {
      const rows = Array.from({ length: 24 }, () => Float64Array.from({ length: 8 }, () => random.uniform()));
      sum += fitDiscriminant(
        rows,
        rows.map((_, i) => i % 2),
        2,
      ).heldOutAccuracy!;
    }
    expect(sum / 60).toBeLessThan(0.53);
  });

  it('keeps the rows of a recording together: knowing a recording is not knowing its class', () => {
    const random = new Random(31, 'recordings', 0);
    let [apart, mixed] = [0, 0];
    for (let round = 0; round < 12; round++) {
      // Each recording has a place of its own, and a class by chance; its rows lie close to that place.
      const rows: Float64Array[] = [];
      const [labels, recordings]: [number[], string[]] = [[], []];
      for (let recording = 0; recording < 20; recording++) {
        const place = Array.from({ length: 12 }, () => random.uniform());
        for (let i = 0; i < 8; i++) {
          rows.push(Float64Array.from(place, (at) => at + 0.01 * random.uniform()));
          labels.push(recording % 2);
          recordings.push(`r${recording}`);
        }
      }
      apart += fitDiscriminant(rows, labels, 2, recordings).heldOutAccuracy! / 12;
      mixed += fitDiscriminant(rows, labels, 2).heldOutAccuracy! / 12;
    }
    expect(mixed).toBeGreaterThan(0.75);
    expect(apart).toBeLessThan(0.6);
  });

  it('holds out the rows of classes that one recording holds each', () => {
    const rows = Array.from({ length: 30 }, (_, i) =>
      Float64Array.of((i % 3) * 4 + Math.sin(i), Math.cos(i)),
    );
    const labels = rows.map((_, i) => i % 3);
    const recordings = labels.map((label) => `r${label}`);
    expect(fitDiscriminant(rows, labels, 3, recordings)).toEqual(fitDiscriminant(rows, labels, 3));
  });

  it('knows no accuracy of classes of one row each, and one of two rows each', () => {
    const rows = [
      [0, 1],
      [4, 1],
      [0, 2],
      [4, 3],
    ].map((row) => Float64Array.from(row));
    expect(fitDiscriminant(rows.slice(0, 2), [0, 1], 2).heldOutAccuracy).toBeNull();
    expect(fitDiscriminant(rows, [0, 1, 0, 1], 2).heldOutAccuracy).toBe(1);
  });
});
