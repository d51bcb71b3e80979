import { describe, expect, it } from 'vitest';
import { classicalFindings } from '../../src/explain/findings.ts';
import { Random } from '../../src/random.ts';

/** A sine of `cycles` in 1000 samples, with noise. */
function sine(cycles: number, noise: number): Float64Array {
  const random = new Random(5, 'classical evidence');
  return Float64Array.from(
    { length: 1000 },
    (_, i) => Math.sin((2 * Math.PI * cycles * i) / 1000 + 1) + noise * random.normal(),
  );
}

function findings(values: Float64Array) {
  const { classical, period } = classicalFindings(values);
  const about = (name: string) => classical.evidence.find((one) => one.name === name)!;
  return { classical, period, about };
}

describe('the classical side of an explanation', () => {
  it('says of a slow wave that nothing in it repeats, and flags nothing that follows from that', () => {
    const { classical, period, about } = findings(sine(1.5, 0.1));
    expect(period).toBeNull();
    expect(about('Overall shape')).toMatchObject({
      finding: 'a slow curve: most of its power lies in fewer than 4 cycles',
      numbers: { 'share of fewer cycles': expect.closeTo(0.9, 1) },
    });
    expect(about('Frequency test')).toMatchObject({
      finding: 'windows of 100 hold less than a period: what is strongest in them says nothing',
      intervals: [],
    });
    expect(about('Matrix profile')).toMatchObject({
      finding: 'the most unlike window differs by no more than noise makes windows of its spread differ',
      intervals: [],
    });
    expect(classical).toMatchObject({ class: 'normal', intervals: [] });
  });

  it('says of clean slow waves what makes their arcs unlike each other', () => {
    const repeating = findings(sine(5.3, 0));
    expect(repeating.period).toBeCloseTo(1000 / 5.3, 0);
    expect(repeating.about('Matrix profile').finding).toContain('where the samples fall on the wave');
    const single = findings(sine(1, 0));
    expect(single.about('Matrix profile').finding).toContain('each smooth arc is unlike the others');
  });

  it('says of beats that they repeat, and which of them does not', () => {
    const random = new Random(7, 'beats');
    const beats = Float64Array.from({ length: 1000 }, (_, i) => {
      const height = Math.floor(i / 120) === 4 ? 0 : 2;
      return height * Math.exp(-(((i % 120) - 30) ** 2) / 8) + 0.02 * random.normal();
    });
    const { classical, period, about } = findings(beats);
    expect(period).toBeCloseTo(120, 0);
    expect(about('Overall shape')).toMatchObject({
      finding: 'repeats in cycles of one shape',
      numbers: { 'correlation with the next cycle': expect.closeTo(1, 0) },
    });
    expect(about('Frequency test').intervals).toEqual([]);
    expect(about('Cycle test').intervals.length).toBe(1);
    expect(classical.intervals.length).toBe(1);
    expect(classical.intervals[0]![0]).toBeGreaterThan(480);
    expect(classical.intervals[0]![1]).toBeLessThan(600);
  });

  it('shows the stretch of a discord that counts', () => {
    const values = sine(20, 0.01).map((value, i) => (i >= 480 && i < 530 ? 0.3 * value : value));
    const { classical, about } = findings(values);
    expect(about('Matrix profile').finding).toMatch(/unlike the rest/);
    expect(about('Matrix profile').intervals.some(([start, end]) => start < 530 && end > 480)).toBe(true);
    expect(classical.intervals.some(([start, end]) => start < 530 && end > 480)).toBe(true);
  });
});
