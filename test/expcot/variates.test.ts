import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VTA_WAVES } from '../../datasets/generators/vta.ts';
import {
  analyseVariates,
  blindVariates,
  FAR,
  LEAST_STEP,
  teacherVariates,
  type VariatesEvidence,
  type VariatesTrace,
} from '../../src/expcot/variates.ts';
import { DataError } from '../../src/ground/errors.ts';
import { vtaMultivariate } from '../helpers/series.ts';

/** Waves of unequal speeds, sizes, levels and phases; those of `odd` are sawtooths. */
function group(count: number, odd: readonly number[], length = 240): Float64Array[] {
  return Array.from({ length: count }, (_, id) => {
    const period = 20 + 1.7 * id;
    return Float64Array.from({ length }, (_, i) => {
      const cycle = (i / period + 0.13 * id) % 1;
      const wave = odd.includes(id) ? 2 * cycle - 1 : Math.sin(2 * Math.PI * cycle);
      return id - 3 + (1 + 0.3 * id) * (wave + 0.05 * Math.sin(37.3 * i * (id + 1)));
    });
  });
}

function quoted(text: string): string[] {
  return text.match(/(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g) ?? [];
}

function checkTrace(evidence: VariatesEvidence, trace: VariatesTrace): void {
  expect(trace.think).toMatch(/^Observation: .+\nReasoning & Validation: .+\nConclusion: .+\.$/);
  expect(trace.think).not.toMatch(/[<>]/);
  expect(trace.text.endsWith(`<answer>[${trace.variates.join(', ')}]</answer>`)).toBe(true);
  const known = new Set<string>();
  const add = (value: unknown): void => {
    if (typeof value === 'number')
      known.add(String(Number.isInteger(value) ? value : Number(value.toPrecision(3))));
    else if (value !== null && typeof value === 'object') for (const part of Object.values(value)) add(part);
  };
  add([evidence, evidence.variates.length, LEAST_STEP, FAR]);
  for (const number of quoted(trace.think)) expect(known, number).toContain(number);
}

describe('analyseVariates', () => {
  it('finds the waves of another shape, whatever level, size, speed and phase', () => {
    expect(analyseVariates(group(9, [2, 7])).reading.variates).toEqual([2, 7]);
    expect(analyseVariates(group(4, [0])).reading.variates).toEqual([0]);
    expect(analyseVariates(group(9, [])).reading).toEqual({ variates: [], step: null });
  });

  it('moves with the variates when they change places', () => {
    const channels = group(7, [5]);
    const evidence = analyseVariates(channels);
    const turned = analyseVariates([...channels.slice(3), ...channels.slice(0, 3)]);
    expect(turned.reading.variates).toEqual([2]);
    evidence.variates.forEach(({ distance }, id) => {
      expect(turned.variates[(id + 4) % 7]!.distance).toBeCloseTo(distance, 12);
    });
  });

  it('does not mind shifts and scales of a variate', () => {
    const channels = group(6, [1]);
    const moved = channels.map((channel, id) => channel.map((value) => 10 ** (id - 3) * value + 50 * id));
    analyseVariates(channels).variates.forEach(({ distance, period }, id) => {
      const other = analyseVariates(moved).variates[id]!;
      expect(other.distance).toBeCloseTo(distance, 8);
      expect(other.period).toBeCloseTo(period, 8);
    });
  });

  it('names most of the replaced waves of the synthetic task, missing points or not', () => {
    for (const missing of [0, 0.2]) {
      let f1 = 0;
      let count = 0;
      for (const wave of VTA_WAVES) {
        for (let index = 0; index < 12; index++) {
          const series = vtaMultivariate(wave, 3407, 'validation', index, { variates: 9, missing });
          const found = analyseVariates(series.channels).reading.variates;
          const shared = found.filter((id) => series.variates.includes(id)).length;
          f1 += (2 * shared) / (found.length + series.variates.length);
          count++;
        }
      }
      expect(f1 / count).toBeGreaterThan(0.85);
    }
  });

  it('counts missing points, and takes still variates', () => {
    const channels = group(5, [4]);
    channels[1]!.fill(Number.NaN, 30, 34);
    channels[2]![7] = Number.NaN;
    channels[3]!.fill(8);
    const evidence = analyseVariates(channels);
    expect(evidence).toMatchObject({ missing: 5, longest: 4 });
    expect(evidence.variates[3]!.distance).toBeGreaterThan(0.2);
    const still = analyseVariates([0, 1, 2].map((level) => new Float64Array(16).fill(level)));
    expect(still.variates.map(({ distance }) => distance)).toEqual([0, 0, 0]);
  });

  it('refuses what cannot be compared', () => {
    expect(() => analyseVariates(group(2, []))).toThrow(/2 variates of 240 points/);
    expect(() => analyseVariates(group(4, [], 15))).toThrow(DataError);
    expect(() => analyseVariates([...group(3, []), new Float64Array(16)])).toThrow(
      /equally long, got 240 and 16/,
    );
    expect(() => analyseVariates([])).toThrow(DataError);
  });
});

describe('traces of variates', () => {
  const evidence = analyseVariates(group(9, [2, 7]));

  it('read as this', () => {
    expect(blindVariates(evidence).text).toMatchInlineSnapshot(`
      "<think>Observation: There are 9 variates of 240 points. Their waves have a period of about 26.8 samples.
      Reasoning & Validation: Each variate is compared with the middle of the group, whatever its level, size, phase and speed: the shape of its mean cycle, the amplitudes of its harmonics, its autocorrelation over two periods. The three distances add up to 0.0475 for the middle one. Told in particular: variate 7 1.1 (shape 0.56, spectrum 0.237, autocorrelation 0.308; rank 1); variate 2 1.09 (shape 0.562, spectrum 0.23, autocorrelation 0.294; rank 2); variate 5 0.0713 (shape 0.0416, spectrum 0.0265, autocorrelation 0.0032; rank 3). Sorted, the distances fall from 1.09 to 0.0713 at their largest relative step, at least 1.5 times: variates 2 and 7 above it.
      Conclusion: anomalous: variates 2 and 7.</think><answer>[2, 7]</answer>"
    `);
    expect(teacherVariates(evidence, [2, 5]).text).toMatchInlineSnapshot(`
      "<think>Observation: There are 9 variates of 240 points. Their waves have a period of about 26.8 samples.
      Reasoning & Validation: Each variate is compared with the middle of the group, whatever its level, size, phase and speed: the shape of its mean cycle, the amplitudes of its harmonics, its autocorrelation over two periods. The three distances add up to 0.0475 for the middle one. Told in particular: variate 7 1.1 (shape 0.56, spectrum 0.237, autocorrelation 0.308; rank 1); variate 2 1.09 (shape 0.562, spectrum 0.23, autocorrelation 0.294; rank 2); variate 5 0.0713 (shape 0.0416, spectrum 0.0265, autocorrelation 0.0032; rank 3). Sorted, the distances fall from 1.09 to 0.0713 at their largest relative step, at least 1.5 times: variates 2 and 7 above it. The distances alone do not set variate 5 apart, yet it belongs to the anomalous ones. Variate 7 is unusual, but not anomalous.
      Conclusion: anomalous: variates 2 and 5.</think><answer>[2, 5]</answer>"
    `);
  });

  it('conclude the gold in the teacher, and the rule in the blind, with numbers of the evidence', () => {
    for (const wave of VTA_WAVES) {
      for (let index = 0; index < 6; index++) {
        const series = vtaMultivariate(wave, 3407, 'train', index, {
          variates: [4, 16][index % 2]!,
          missing: 0.05,
        });
        const own = analyseVariates(series.channels);
        const [blind, teacher] = [blindVariates(own), teacherVariates(own, series.variates)];
        checkTrace(own, blind);
        checkTrace(own, teacher);
        expect(blind.variates).toEqual(own.reading.variates);
        expect(teacher.variates).toEqual(series.variates);
        const agrees = String(own.reading.variates) === String(series.variates);
        expect(teacher.think.includes('This agrees')).toBe(agrees);
      }
    }
  });

  it('hold for any values', () => {
    const channel = fc.array(fc.double({ min: -1e3, max: 1e3, noNaN: true }), {
      minLength: 20,
      maxLength: 20,
    });
    fc.assert(
      fc.property(fc.array(channel, { minLength: 3, maxLength: 5 }), fc.subarray([0, 1, 2]), (list, gold) => {
        const own = analyseVariates(list.map((values) => Float64Array.from(values)));
        checkTrace(own, blindVariates(own));
        checkTrace(own, teacherVariates(own, gold));
      }),
      { numRuns: 40 },
    );
  });

  it('refuse a variate that is not there', () => {
    expect(() => teacherVariates(evidence, [2, 9])).toThrow(/variate 9: the series has 9, counted from 0/);
  });
});
