/** Ownership: the scope or call that frees each tensor. */
import { describe, expect, it } from 'vitest';
import type { Engine, Tensor } from '../../src/engine/engine.ts';

export function ownershipContract(get: () => Engine): void {
  describe('ownership', () => {
    it('a scope frees all but what is reachable in its result', () => {
      const engine = get();
      const before = engine.live();
      const cyclic: { self?: unknown } = {};
      cyclic.self = cyclic;
      const kept = engine.scope(() => {
        const make = (): Tensor => engine.exp(engine.zeros([2]));
        make();
        return {
          list: [make(), [make()]],
          map: new Map([['a', { deep: make() }]]),
          set: new Set([make()]),
          cyclic,
        };
      });
      expect(engine.live() - before).toBe(4);
      const all = [
        kept.list[0] as Tensor,
        (kept.list[1] as Tensor[])[0]!,
        kept.map.get('a')!.deep,
        ...kept.set,
      ];
      for (const tensor of all) expect([...engine.floats(tensor)]).toEqual([1, 1]);
      engine.dispose(...all);
    });
    it('what an inner scope returns belongs to the outer one', () => {
      const engine = get();
      engine.scope(() => {
        const inner = engine.scope(() => engine.scope(() => engine.exp(engine.zeros([3]))));
        expect(engine.live()).toBe(1);
        expect([...engine.floats(inner)]).toEqual([1, 1, 1]);
      });
      expect(engine.live()).toBe(0);
    });
    it('an exception frees everything of its scope and passes through', () => {
      const engine = get();
      const outside = engine.zeros([1]);
      expect(() =>
        engine.scope(() => {
          engine.zeros([4]);
          engine.scope(() => engine.zeros([5]));
          throw new RangeError('stop');
        }),
      ).toThrow(new RangeError('stop'));
      expect(engine.live()).toBe(1);
      engine.dispose(outside);
    });
    it('a tensor disposed early is not freed again', () => {
      const engine = get();
      engine.scope(() => {
        const early = engine.zeros([1]);
        engine.dispose(early);
        engine.zeros([2]); // takes the slot of the freed one
        return early;
      });
      expect(engine.live()).toBe(0);
    });
    it('a view keeps the storage that its source let go', () => {
      const engine = get();
      engine.scope(() => {
        const source = engine.tensor(new Float32Array([1, 2, 3, 4]), [4]);
        const view = engine.narrow(source, 0, 2, 2);
        engine.dispose(source);
        engine.tensor(new Float32Array([9, 9, 9, 9]), [4]);
        expect([...engine.floats(view)]).toEqual([3, 4]);
      });
    });
  });
}
