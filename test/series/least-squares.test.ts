import { describe, expect, it } from 'vitest';
import { Random } from '../../src/random.ts';
import { leastSquares } from '../../src/series/least-squares.ts';
import { worst } from './golden.ts';

const random = new Random(5, 'least-squares');
const column = (n: number): Float64Array => Float64Array.from({ length: n }, () => random.normal());
const combine = (parts: readonly (readonly [number, Float64Array])[]): Float64Array =>
  parts[0]![1].map((_, i) => parts.reduce((sum, [weight, own]) => sum + weight * own[i]!, 0));

/** Σ (y − X·b)², straight from the definition. */
const left = (columns: readonly Float64Array[], b: Float64Array, y: Float64Array): number =>
  y.reduce(
    (sum, value, i) => sum + (value - columns.reduce((fit, own, c) => fit + b[c]! * own[i]!, 0)) ** 2,
    0,
  );

describe('least squares', () => {
  const [a, b, c, noise] = [column(60), column(60), column(60), column(60)] as [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const y = combine([
    [2, a],
    [-0.5, b],
    [3, c],
    [0.1, noise],
  ]);

  it('leaves residuals that are at right angles to every column, for every nested fit', () => {
    for (let p = 0; p <= 3; p++) {
      const columns = [a, b, c].slice(0, p);
      const { coefficients, residualSquares, rank } = leastSquares(columns, y);
      expect(rank).toBe(p);
      const rest = y.map(
        (value, i) => value - columns.reduce((sum, own, k) => sum + coefficients[k]! * own[i]!, 0),
      );
      for (const own of columns)
        expect(Math.abs(own.reduce((sum, x, i) => sum + x * rest[i]!, 0))).toBeLessThan(1e-11);
      const nested = leastSquares([a, b, c], y).residualSquares[p]!;
      expect(nested / residualSquares[p]!).toBeCloseTo(1, 11);
      expect(residualSquares[p]! / left(columns, coefficients, y)).toBeCloseTo(1, 11);
    }
  });

  it('finds the same by reflections, to which nearly dependent columns and exact fits lead', () => {
    const plain = leastSquares([a, b, c], y);
    for (const small of [1e-3, 1e-6]) {
      // The column stands for c: c = (near − a) / small.
      const near = combine([
        [1, a],
        [small, c],
      ]);
      const { coefficients, residualSquares, variances } = leastSquares([a, b, near], y);
      const [one, two, three] = coefficients as unknown as [number, number, number];
      const got = [one + three, two, three * small];
      const tolerance = 1e-15 / small ** 1.2;
      expect(worst(got, [...plain.coefficients])).toBeLessThan(tolerance);
      expect(Math.abs(Math.sqrt(variances[2]!) * small - Math.sqrt(plain.variances[2]!))).toBeLessThan(
        tolerance,
      );
      expect(Math.abs(residualSquares[3]! - plain.residualSquares[3]!)).toBeLessThan(1e-8);
    }
    const exact = leastSquares(
      [a, b],
      combine([
        [4, a],
        [1, b],
      ]),
    );
    expect(worst(exact.coefficients, [4, 1])).toBeLessThan(1e-13);
    expect(exact.residualSquares[2]).toBeLessThan(1e-24);
  });

  it('leaves out a column that depends on those before it', () => {
    const sum = combine([
      [1, a],
      [1, b],
    ]);
    const { coefficients, variances, rank } = leastSquares([a, b, sum, c], y);
    expect(rank).toBe(3);
    expect(coefficients[2]).toBe(0);
    expect(variances[2]).toBeNaN();
    const plain = leastSquares([a, b, c], y);
    const others = [coefficients[0]!, coefficients[1]!, coefficients[3]!];
    expect(worst(others, [...plain.coefficients])).toBeLessThan(1e-12);
  });
});
