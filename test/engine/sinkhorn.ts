/** Sinkhorn's scalings against plain loops. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';

interface Problem {
  readonly cost: Float64Array; // [T, S]
  readonly rows: Float64Array; // [T]
  readonly columns: Float64Array; // [S]
}

/** Masses that sum to one, of which the last `empty` places have none. */
function masses(random: Random, count: number, empty: number): Float64Array {
  const out = Float64Array.from({ length: count }, (_, i) =>
    i < count - empty ? 0.05 + random.uniform() : 0,
  );
  const sum = out.reduce((a, b) => a + b, 0);
  return out.map((mass) => mass / sum);
}

function problem(random: Random, length: number, width: number, empty: number): Problem {
  return {
    cost: Float64Array.from({ length: length * width }, () => 2 * random.uniform()),
    rows: masses(random, length, Math.min(empty, length - 1)),
    columns: masses(random, width, Math.min(empty, width - 1)),
  };
}

/** u = rows / (K·v), v = columns / (Kᵀ·u), as it is written; padding takes no part. */
function plain({ cost, rows, columns }: Problem, epsilon: number, iterations: number) {
  const [length, width] = [rows.length, columns.length];
  const k = (t: number, s: number): number => Math.exp(-cost[t * width + s]! / epsilon);
  let u = new Float64Array(length);
  let v = columns.map((mass) => (mass > 0 ? 1 : 0));
  for (let i = 0; i < iterations; i++) {
    u = rows.map((mass, t) => mass / v.reduce((sum, value, s) => sum + k(t, s) * value, 0));
    v = columns.map((mass, s) => mass / u.reduce((sum, value, t) => sum + k(t, s) * value, 0));
  }
  const rowSums = u.map((value, t) => v.reduce((sum, other, s) => sum + value * k(t, s) * other, 0));
  const distance = u.reduce(
    (sum, value, t) =>
      sum + v.reduce((own, other, s) => own + value * k(t, s) * other * cost[t * width + s]!, 0),
    0,
  );
  return { distance, rowSums, u, v };
}

export function sinkhornContract(get: () => Engine): void {
  describe('sinkhorn', () => {
    it('solves each problem of a batch as plain loops do, whatever the sizes and the padding', () => {
      const sizes = { count: fc.integer({ min: 1, max: 4 }), length: fc.integer({ min: 1, max: 21 }) };
      const shape = fc.record({
        ...{ ...sizes, width: fc.integer({ min: 1, max: 19 }), empty: fc.integer({ min: 0, max: 3 }) },
        ...{ iterations: fc.integer({ min: 1, max: 9 }), epsilon: fc.constantFrom(0.08, 0.5) },
        seed: fc.integer({ min: 0, max: 1000 }),
      });
      fc.assert(
        fc.property(shape, ({ count, length, width, empty, iterations, epsilon, seed }) => {
          const engine = get();
          const random = new Random(seed, 'sinkhorn');
          const all = Array.from({ length: count }, () => problem(random, length, width, empty));
          const joined = (key: keyof Problem): Float64Array =>
            Float64Array.from(all.flatMap((one) => [...one[key]]));
          engine.scope(() => {
            const found = engine.sinkhorn({
              cost: engine.tensor(joined('cost'), [count, length, width]),
              rows: engine.tensor(joined('rows'), [count, length]),
              columns: engine.tensor(joined('columns'), [count, width]),
              ...{ epsilon, iterations },
            });
            const expected = all.map((one) => plain(one, epsilon, iterations));
            for (const key of ['distance', 'rowSums', 'u', 'v'] as const) {
              const values = engine.doubles(found[key]);
              const wanted = expected.flatMap((one) => (key === 'distance' ? [one.distance] : [...one[key]]));
              expect(values.length).toBe(wanted.length);
              wanted.forEach((value, i) => {
                expect(Math.abs(values[i]! - value)).toBeLessThanOrEqual(1e-9 * Math.abs(value));
              });
            }
          });
        }),
        { numRuns: 60 },
      );
    });
  });
}
