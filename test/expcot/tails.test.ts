import { describe, expect, it } from 'vitest';
import { standardNormal } from '../../datasets/gaussian.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { route } from '../../src/expcot/route.ts';
import { tailTest } from '../../src/expcot/tails.ts';
import { Random } from '../../src/random.ts';
import { outlierTest } from '../../src/series/analyses.ts';

const SERIES = 60;
/** Noise by its quantile function or its draw: [1000] a seed. */
const KINDS = {
  normal: (random: Random) => standardNormal(random),
  // Laplace by the difference of two exponentials; excess kurtosis 3.
  laplace: (random: Random) => Math.log(random.uniform() + 1e-12) - Math.log(random.uniform() + 1e-12),
  // Student's t with 3 degrees of freedom; its kurtosis is infinite.
  student: (random: Random) =>
    standardNormal(random) /
    Math.sqrt((standardNormal(random) ** 2 + standardNormal(random) ** 2 + standardNormal(random) ** 2) / 3),
};
const draw = (kind: keyof typeof KINDS, seed: number): Float64Array => {
  const random = new Random(seed, kind, 0);
  return Float64Array.from({ length: 1000 }, () => KINDS[kind](random));
};
const share = (kind: keyof typeof KINDS, change: (values: Float64Array) => void = () => {}) => {
  let flagged = 0;
  let counted = 0;
  for (let seed = 0; seed < SERIES; seed++) {
    const values = draw(kind, seed);
    change(values);
    if (outlierTest(values).intervals.length > 0) flagged++;
    if (route(analyse(values)).intervals.length > 0) counted++;
  }
  return { flagged: flagged / SERIES, counted: counted / SERIES };
};

describe('outliers beside the tail of the series itself', () => {
  it('are hardly ever called anomalous in heavy-tailed noise, where five standard deviations are passed all the time', () => {
    const [laplace, student] = [share('laplace'), share('student')];
    expect(laplace.flagged).toBeGreaterThan(0.6);
    expect(laplace.counted).toBeLessThan(0.15);
    expect(student.flagged).toBeGreaterThan(0.95);
    expect(student.counted).toBeLessThan(student.flagged / 2);
    expect(share('normal').counted).toBe(0);
  });

  it('count where they are far beyond it, be they several', () => {
    expect(share('normal', (values) => values.fill(7, 300, 301)).counted).toBeGreaterThan(0.95);
    expect(share('laplace', (values) => values.fill(-25, 300, 302)).counted).toBe(1);
    const strewn = (values: Float64Array) => {
      for (const i of [37, 288, 301, 555, 731]) values[i] = 9;
    };
    expect(share('normal', strewn).counted).toBe(1);
  });

  it('count where they stand together, however far the others reach', () => {
    const values = draw('laplace', 5);
    values.fill(6, 400, 440);
    const test = outlierTest(values);
    const { beyond, limit } = tailTest(values, test, test.intervals);
    expect(limit).toBeGreaterThan(6);
    expect(beyond).toHaveLength(1);
    expect(beyond[0]![0]).toBeGreaterThan(390);
    expect(beyond[0]![1]).toBeLessThan(450);
  });

  it('all count in a series too short to know its tail', () => {
    const values = draw('normal', 3).slice(0, 60);
    values[20] = 40;
    const test = outlierTest(values);
    expect(tailTest(values, test, test.intervals)).toEqual({ limit: 0, beyond: [[20, 21]] });
  });
});
