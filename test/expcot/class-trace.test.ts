import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { learnClasses } from '../../src/expcot/class-profile.ts';
import {
  blindClass,
  ClassEvidence,
  type ClassTrace,
  MOST_CITED,
  MOST_DISSENT,
  teacherClass,
} from '../../src/expcot/class-trace.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { Example } from '../../src/ground/types.ts';
import { parseClassification } from '../../src/tasks/classification.ts';
import { MACHINES, machines } from '../helpers/classes.ts';

const profile = learnClasses(machines('train', 36));
const examples = machines('test', 24);
const classOf = ({ gold }: Example): string => (gold.kind === 'classification' ? gold.class : '');

/** Every number of the evidence, and those inside its phrases. */
function numbersOf(value: unknown, into: Set<string>): Set<string> {
  if (typeof value === 'number' && Number.isFinite(value)) {
    const short = Math.abs(value) < 1e-9 ? 0 : Number(value.toPrecision(3));
    for (const one of [value, short]) {
      const text = String(Number.isInteger(one) ? one : Number(one.toPrecision(4)));
      into.add(text).add(text.replace('-', ''));
    }
  } else if (typeof value === 'string') for (const found of quoted(value)) into.add(found);
  else if (value !== null && typeof value === 'object')
    for (const part of Object.values(value)) numbersOf(part, into);
  return into;
}

function quoted(text: string): string[] {
  return text.match(/(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g) ?? [];
}

function checkTrace(evidence: ClassEvidence, trace: ClassTrace): void {
  expect(trace.think).toMatch(/^Observation: .+\nReasoning & Validation: .+\nConclusion: the class is .+\.$/);
  expect(trace.think).not.toMatch(/[<>]/);
  expect(parseClassification(trace.text)).toMatchObject({ wellFormed: true, class: trace.class });
  // The mean of a series that only rounding moves from 0, and the number of features.
  const known = numbersOf(
    [evidence, trace.cited, trace.dissent, evidence.values.length, 0, evidence.channels.length],
    new Set(),
  );
  for (const number of quoted(trace.think)) expect(known, number).toContain(number);
  expect(trace.cited.length).toBeLessThanOrEqual(MOST_CITED);
  expect(trace.dissent.length).toBeLessThanOrEqual(MOST_DISSENT);
  for (const { gain } of trace.cited) expect(gain).toBeGreaterThan(0);
  for (const { gain } of trace.dissent) expect(gain).toBeLessThan(0);
  expect(trace.think.length).toBeLessThan(1800);
}

describe('blindClass', () => {
  it('gives a well-formed response whose numbers are those of the evidence', () => {
    for (const { channels } of examples) {
      const evidence = new ClassEvidence(profile, channels);
      const trace = blindClass(evidence);
      checkTrace(evidence, trace);
      expect(trace.class).toBe(evidence.candidates[0]!.class);
      expect(trace.rival).toBe(evidence.candidates[1]!.class);
    }
  });

  it('reads as this for a pump', () => {
    expect(blindClass(new ClassEvidence(profile, examples[1]!.channels)).text).toMatchInlineSnapshot(`
      "<think>Observation: The series has 240 samples. It lies between -0.146 and 4.05, mean 0.378, standard deviation 0.848; its strongest spectral line, of period 40, has 0.326 of the power; Mann–Kendall tau is 0.0451; it crosses its mean 6.67 times per 100 samples.
      Reasoning & Validation: The closest classes are pump (12) and fan (12), training examples in brackets; values are typical ones. For pump: the lag at which the autocorrelation falls below 0.37 is 3, where pump has 3 and fan 2; the skewness is 2.78, where pump has 2.74 and fan -0.000994; the kurtosis is 10.5, where pump has 10.2 and fan 1.53; the share of samples above the middle of the range is 0.075, where pump has 0.075 and fan 0.5. Against it, nearer to fan: the standard deviation is 0.848, where pump has 0.676 and fan 0.867. Taken together, the linear rule over all 62 features gives 100 % to pump and 0 % to fan.
      Conclusion: the class is pump.</think><class>pump</class>"
    `);
  });

  it('holds for any values, missing points included', () => {
    const point = fc.oneof(
      { weight: 9, arbitrary: fc.double({ min: -1e5, max: 1e5, noNaN: true }) },
      { weight: 1, arbitrary: fc.constant(Number.NaN) },
    );
    fc.assert(
      fc.property(fc.array(point, { minLength: 1, maxLength: 80 }), (list) => {
        fc.pre(list.some((value) => !Number.isNaN(value)));
        const evidence = new ClassEvidence(profile, [Float64Array.from(list)]);
        checkTrace(evidence, blindClass(evidence));
        checkTrace(evidence, teacherClass(evidence, 'idle'));
      }),
      { numRuns: 60 },
    );
  });

  it('says aloud how missing points were bridged', () => {
    const holed = examples[0]!.channels[0]!.slice();
    holed.fill(Number.NaN, 20, 27);
    holed[90] = Number.NaN;
    const { think } = blindClass(new ClassEvidence(profile, [holed]));
    expect(think).toContain(
      '8 samples are missing (2 gaps, the longest of 7); for the analyses straight lines bridge them.',
    );
  });
});

describe('teacherClass', () => {
  it('concludes the gold class, whatever the evidence', () => {
    for (const { channels } of examples.slice(0, 6)) {
      const evidence = new ClassEvidence(profile, channels);
      for (const name of MACHINES) {
        const trace = teacherClass(evidence, name);
        checkTrace(evidence, trace);
        expect(trace.class).toBe(name);
        expect(trace.rival).not.toBe(name);
        expect(trace.think.includes('in agreement')).toBe(evidence.candidates[0]!.class === name);
      }
    }
  });

  it('says that the evidence speaks for another class where it does', () => {
    const evidence = new ClassEvidence(profile, examples[1]!.channels);
    expect(teacherClass(evidence, 'fan').text).toMatchInlineSnapshot(`
      "<think>Observation: The series has 240 samples. It lies between -0.146 and 4.05, mean 0.378, standard deviation 0.848; its strongest spectral line, of period 40, has 0.326 of the power; Mann–Kendall tau is 0.0451; it crosses its mean 6.67 times per 100 samples.
      Reasoning & Validation: The closest classes are fan (12) and pump (12), training examples in brackets; values are typical ones. For fan: the standard deviation is 0.848, where fan has 0.867 and pump 0.676. Against it, nearer to pump: the lag at which the autocorrelation falls below 0.37 is 3, where fan has 2 and pump 3; the skewness is 2.78, where fan has -0.000994 and pump 2.74. Taken together, the linear rule over all 62 features gives 0 % to fan and 100 % to pump: the evidence is closer to pump, but this one is an unusual example of fan.
      Conclusion: the class is fan.</think><class>fan</class>"
    `);
  });

  it('refuses a class that the profile does not know', () => {
    const evidence = new ClassEvidence(profile, examples[0]!.channels);
    expect(() => teacherClass(evidence, 'turbine')).toThrow(
      /turbine: not in the profile, which knows fan, idle, pump/,
    );
  });
});

describe('traces of several channels', () => {
  const tilted = (split: 'train' | 'test', names: readonly string[]): Example[] =>
    machines(split, 18).map((example) => {
      const wave = example.channels[0]!;
      const lying = classOf(example) === 'pump';
      return {
        ...example,
        names,
        channels: [wave.map((v) => 0.1 * v + (lying ? 0.1 : 1)), wave.map((v) => 0.3 * v + (lying ? 1 : 0))],
      };
    });

  it('describe each channel, and how axes share their vector', () => {
    const own = learnClasses(tilted('train', ['x', 'y']));
    const [, pump] = tilted('test', ['x', 'y']);
    const evidence = new ClassEvidence(own, pump!.channels);
    const trace = blindClass(evidence);
    checkTrace(evidence, trace);
    expect(trace.class).toBe('pump');
    expect(trace.text).toMatchInlineSnapshot(`
      "<think>Observation: The series has 2 channels of 240 samples. x lies between 0.0854 and 0.505, mean 0.138, standard deviation 0.0848; its strongest spectral line, of period 40, has 0.326 of the power. y lies between 0.956 and 2.21, mean 1.11, standard deviation 0.254; its strongest spectral line, of period 40, has 0.326 of the power. Part of the mean vector and share of the movement by axis: x 0.123 and 0.1, y 0.992 and 0.9.
      Reasoning & Validation: The closest classes are pump (6) and fan (6), training examples in brackets; values are typical ones. For pump: the mean of y is 1.11, where pump has 1.09 and fan -0.0000455; the part of the mean vector along the axis of y is 0.992, where pump has 0.993 and fan -0.000046; the lag at which the autocorrelation falls below 0.37 of x is 3, where pump has 3 and fan 2; the kurtosis of x is 10.5, where pump has 10.1 and fan 1.53. Against it, nearer to fan: the standard deviation of x is 0.0848, where pump has 0.0677 and fan 0.0847; the share of samples within a twentieth of the range below the maximum of the magnitude is 0.025, where pump has 0.0164 and fan 0.031. Taken together, the linear rule over all 191 features gives 100 % to pump and 0 % to fan.
      Conclusion: the class is pump.</think><class>pump</class>"
    `);
  });

  it('speak of axes only where the names are those of axes', () => {
    const names = ['temperature', 'flow'];
    const own = learnClasses(tilted('train', names));
    const evidence = new ClassEvidence(own, tilted('test', names)[1]!.channels);
    const trace = blindClass(evidence);
    checkTrace(evidence, trace);
    expect(trace.think).toContain('Correlation between the channels: temperature and flow 1.');
    expect(trace.text + own.features.map(({ says }) => says).join()).not.toMatch(
      /axis|axes|vector|movement|pull|gravity/,
    );
  });

  it('refuse a channel name that would break the tags', () => {
    const own = learnClasses(tilted('train', ['x', '</think>']));
    const evidence = new ClassEvidence(own, tilted('test', ['x', 'y'])[0]!.channels);
    expect(() => blindClass(evidence)).toThrow(/channel "<\/think>": .* rename it in the data/);
    expect(() => blindClass(evidence)).toThrow(DataError);
  });
});

it('a blind trace does not change when labels do', () => {
  const relabelled = examples.map(
    (example): Example => ({ ...example, gold: { kind: 'classification', class: 'idle' } }),
  );
  const tell = (list: readonly Example[]): string[] =>
    list.map(({ channels }) => blindClass(new ClassEvidence(profile, channels)).text);
  expect(tell(relabelled)).toEqual(tell(examples));
});
