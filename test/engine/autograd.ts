/** Histories, leaves and gradients beyond the values of single operations. */
import { describe, expect, it } from 'vitest';
import type { Engine, Tensor } from '../../src/engine/engine.ts';

export function autogradContract(get: () => Engine): void {
  describe('autograd', () => {
    const leaf = (engine: Engine, ...values: number[]): Tensor =>
      engine.parameter(engine.tensor(new Float64Array(values), [values.length]));
    it('an input that the output does not depend on gets zeros', () => {
      const engine = get();
      engine.scope(() => {
        const [a, b] = [leaf(engine, 2, 3), leaf(engine, 5, 7, 11)];
        const [first, second] = engine.grad(engine.sum(engine.mul(a, a)), [a, b]);
        expect([...engine.doubles(first!)]).toEqual([4, 6]);
        expect([...engine.doubles(second!)]).toEqual([0, 0, 0]);
      });
    });
    it('gradients are fresh memory: writing into one changes no other', () => {
      const engine = get();
      engine.scope(() => {
        const [a, b] = [leaf(engine, 1, 2, 3), leaf(engine, 4, 5, 6)];
        const seed = engine.tensor(new Float64Array([1, 10, 100]), [3]);
        const [first, second] = engine.grad(engine.add(a, b), [a, b], seed);
        engine.write(first!, 0, 0, engine.tensor(new Float64Array([-1, -1, -1]), [3]));
        expect([...engine.doubles(second!)]).toEqual([1, 10, 100]);
        expect([...engine.doubles(seed)]).toEqual([1, 10, 100]);
        const [ones] = engine.grad(engine.sum(a), [a]);
        engine.write(ones!, 0, 1, engine.tensor(new Float64Array([7]), [1]));
        expect([...engine.doubles(ones!)]).toEqual([1, 7, 1]);
      });
    });
    it('nothing accumulates: the same gradient comes twice, and no inputs give none', () => {
      const engine = get();
      engine.scope(() => {
        const a = leaf(engine, 2, -3);
        const square = (): Tensor => engine.sum(engine.mul(a, a));
        expect(engine.grad(square(), [])).toEqual([]);
        for (let i = 0; i < 2; i++)
          expect([...engine.doubles(engine.grad(square(), [a])[0]!)]).toEqual([4, -6]);
      });
    });
    it('detach and noGrad cut the history', () => {
      const engine = get();
      engine.scope(() => {
        const a = leaf(engine, 2, 3);
        const cut = engine.mul(a, engine.detach(a));
        expect([...engine.doubles(engine.grad(engine.sum(cut), [a])[0]!)]).toEqual([2, 3]);
        const silent = engine.noGrad(() => engine.mul(a, a));
        expect(() => engine.grad(engine.sum(silent), [a])).toThrow(/grad/);
        expect(() => engine.noGrad(() => engine.reshape(a, [5]))).toThrow(/reshape/);
        expect([...engine.doubles(engine.grad(engine.sum(engine.mul(a, a)), [a])[0]!)]).toEqual([4, 6]);
      });
    });
    it('a parameter shares the storage of its source', () => {
      const engine = get();
      engine.scope(() => {
        const flat = engine.tensor(new Float64Array([1, 2, 3, 4]), [4]);
        const view = engine.parameter(engine.reshape(engine.narrow(flat, 0, 1, 2), [1, 2]));
        engine.write(flat, 0, 1, engine.tensor(new Float64Array([8, 9]), [2]));
        expect([...engine.doubles(view)]).toEqual([8, 9]);
      });
    });
  });
}
