import { describe, expect, it } from 'vitest';
import { analyseChannels, blindAnomaly } from '../../src/expcot/anomaly.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { repetition } from '../../src/expcot/shape.ts';
import { Random } from '../../src/ground/random.ts';

type Shape = (i: number, period: number) => number;

/** A narrow beat and a low, wide one in every cycle. */
const beat: Shape = (i, period) =>
  2 * Math.exp(-(((i % period) - 30) ** 2) / 8) + 0.3 * Math.exp(-(((i % period) - 60) ** 2) / 80);

function series(shape: Shape, period: number, noise: number, seed: number, n = 1000): Float64Array {
  const random = new Random(seed, 'cycles');
  return Float64Array.from({ length: n }, (_, i) => shape(i, period) + noise * random.normal());
}

/** The correlation of all pairs a lag apart, as it is defined. */
function direct(level: Float64Array, lag: number): number {
  let [product, left, right] = [0, 0, 0];
  for (let i = 0; i + lag < level.length; i++) {
    product += level[i]! * level[i + lag]!;
    left += level[i]! ** 2;
    right += level[i + lag]! ** 2;
  }
  return product / Math.sqrt(left * right);
}

const level = (values: Float64Array): Float64Array => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
};

describe('repetition', () => {
  it.each([37, 70.3, 120, 199])('finds cycles of %d samples to a tenth of a sample', (period) => {
    const found = repetition(level(series(beat, period, 0.02, 1)));
    expect(found).not.toBeNull();
    expect(Math.abs(found!.period - period)).toBeLessThan(0.1);
  });

  it('gives the correlation that the sum over all pairs gives', () => {
    const values = level(series((i, p) => (i % p < 9 ? 1 : 0) + i / 4000, 61, 0.1, 2, 613));
    const found = repetition(values)!;
    expect(Math.round(found.period)).toBe(61);
    expect(found.correlation).toBeCloseTo(direct(values, 61), 10);
  });

  it('finds none in walks, noise, single pulses and three cycles', () => {
    for (let seed = 0; seed < 20; seed++) {
      const random = new Random(seed, 'walk');
      let at = 0;
      const walk = Float64Array.from({ length: 1000 }, () => {
        at += random.normal();
        return at;
      });
      expect(repetition(level(walk))).toBeNull();
      expect(repetition(level(series(() => 0, 1, 1, seed, 60)))).toBeNull();
    }
    expect(repetition(level(series(beat, 5000, 0.02, 3)))).toBeNull();
    expect(repetition(level(series(beat, 333, 0.02, 3)))).toBeNull();
    expect(repetition(new Float64Array(39))).toBeNull();
    expect(repetition(new Float64Array(500))).toBeNull();
  });

  it('is not disturbed by the size of the values', () => {
    for (const size of [1e-30, 1e30]) {
      const values = level(series(beat, 70.3, 0.02, 1)).map((value) => size * value);
      expect(Math.abs(repetition(values)!.period - 70.3)).toBeLessThan(0.1);
    }
  });
});

describe('the expert on cycles that are no waves', () => {
  const read = (shape: Shape, period: number, noise: number, seed: number) => {
    const analysed = analyseChannels([series(shape, period, noise, seed)], ['value']);
    return { base: analysed[0]!.evidence.base, trace: blindAnomaly(analysed, ['value']) };
  };

  it.each([
    [70.3, 0.01],
    [70.3, 0.05],
    [120, 0.01],
    [120, 0.05],
  ])('leaves %d samples of beats with noise %d alone, and says the period', (period, noise) => {
    for (let seed = 0; seed < 8; seed++) {
      const { base, trace } = read(beat, period, noise, seed);
      expect(base.kind).toBe('cycle');
      expect(Math.abs(base.period! - period)).toBeLessThan(0.2);
      expect(trace.intervals).toEqual([]);
      expect(trace.think).toMatch(
        /It repeats every \d+(\.\d+)? samples, with a correlation of (0\.9\d*|1)\./,
      );
    }
  });

  const damages: [string, Shape, number, number][] = [
    ['that is missing', (i, p) => (Math.floor(i / p) === 4 ? 0 : beat(i, p)), 480, 600],
    [
      'that is too wide',
      (i, p) => (Math.floor(i / p) === 5 ? 2 * Math.exp(-(((i % p) - 30) ** 2) / 100) : beat(i, p)),
      600,
      720,
    ],
    ['beside a spike', (i, p) => beat(i, p) + (i === 333 ? 4 : 0), 330, 336],
    ['in a burst', (i, p) => beat(i, p) + (i > 500 && i < 540 ? Math.sin(2 * i) / 2 : 0), 500, 540],
  ];
  it.each(damages)('marks the one beat %s, and no other', (_, shape, from, to) => {
    for (let seed = 0; seed < 8; seed++) {
      const { trace } = read(shape, 120, 0.02, seed);
      expect(trace.intervals.length).toBeGreaterThan(0);
      for (const [start, end] of trace.intervals) {
        expect(start).toBeGreaterThanOrEqual(from);
        expect(end).toBeLessThanOrEqual(to);
      }
    }
  });
});

describe('a period', () => {
  it('is no harmonic of slower edges, and no chance peak of a walk', () => {
    for (let seed = 0; seed < 20; seed++) {
      const edges = series((i) => (Math.floor(i / 166) % 2 === 0 ? 1 : -1), 1, 0.05, seed);
      expect(analyse(edges).base).toMatchObject({ kind: 'slow', period: null });
    }
    let claimed = 0;
    for (let seed = 0; seed < 50; seed++) {
      const random = new Random(seed, 'walks');
      let at = 0;
      const walk = Float64Array.from({ length: 1000 }, () => {
        at += random.normal();
        return at;
      });
      claimed += analyse(walk).base.period === null ? 0 : 1;
    }
    expect(claimed).toBeLessThanOrEqual(2);
  });

  it('is found in noise, far and near, and its line stands out the more the less noise there is', () => {
    const wave = (cycles: number, noise: number) =>
      analyse(series((i) => Math.sin((2 * Math.PI * cycles * i) / 1000 + 1), 1, noise, 4)).base;
    for (const cycles of [5.3, 20.5, 77]) {
      const [clean, noisy] = [wave(cycles, 0.02), wave(cycles, 0.3)];
      expect(clean.kind).toBe('sine');
      expect(noisy.kind).toBe('sine');
      expect(Math.abs(noisy.period! * cycles - 1000)).toBeLessThan(10);
      expect(clean.prominence).toBeGreaterThan(10 * noisy.prominence);
      expect(noisy.prominence).toBeGreaterThan(50);
    }
  });
});
