/** Histories, leaves and gradients beyond the values of single operations. */
import { describe, expect, it } from 'vitest';
import type { Engine, Recording, Tensor } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import type { Nd } from '../helpers/reference.ts';
import * as ref from '../helpers/reference.ts';
import type { Traits } from './contract.ts';

export function autogradContract(get: () => Engine, { exact }: Traits): void {
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
        expect([...engine.doubles(engine.grad(engine.sum(silent), [a])[0]!)]).toEqual([0, 0]);
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
    it('several outputs give the gradients of the sum of each times its seed', () => {
      const engine = get();
      engine.scope(() => {
        const [a, b, c] = [leaf(engine, 2, 3), leaf(engine, -1, 4), leaf(engine, 5)];
        const shared = engine.mul(a, b); // [2]
        const outputs = [engine.mul(shared, a), engine.sum(shared), engine.mul(engine.detach(b), 3)];
        const seed = (...values: number[]): Tensor =>
          engine.tensor(new Float64Array(values), values.length === 1 ? [] : [values.length]);
        const gradients = engine.grad(outputs, [a, b, c], [seed(1, 10), seed(100), seed(7, 7)]);
        // d/da = seed·2ab + 100·b, d/db = seed·a² + 100·a
        expect(gradients.map((gradient) => [...engine.doubles(gradient)])).toEqual([
          [-4 - 100, 240 + 400],
          [4 + 200, 90 + 300],
          [0],
        ]);
      });
    });
    it('several scalars without seeds count once each, one that has no history not at all', () => {
      const engine = get();
      engine.scope(() => {
        const a = leaf(engine, 2, -3);
        const constant = engine.sum(engine.zeros([3], 'float64'));
        const outputs = [engine.sum(a), constant, engine.sum(engine.mul(a, a))];
        expect([...engine.doubles(engine.grad(outputs, [a])[0]!)]).toEqual([5, -5]);
      });
    });
    it('outputs without any history give zeros for every input', () => {
      const engine = get();
      engine.scope(() => {
        const [a, b] = [leaf(engine, 2, 3), engine.parameter(engine.zeros([2, 1], 'bfloat16'))];
        const outputs = [engine.zeros([2]), engine.noGrad(() => engine.mul(a, 2))];
        for (const gradients of [engine.grad(outputs, [a, b], outputs), engine.grad([], [a, b])]) {
          expect(gradients.map(({ dtype, shape }) => [dtype, shape])).toEqual([
            ['float64', [2]],
            ['bfloat16', [2, 1]],
          ]);
          for (const gradient of gradients) expect([...engine.doubles(gradient)]).toEqual([0, 0]);
        }
      });
    });
    it('an output that is a leaf itself passes its seed on', () => {
      const engine = get();
      engine.scope(() => {
        const [a, b] = [leaf(engine, 2, 3), leaf(engine, 4)];
        const seeds = [new Float64Array([5, 6]), new Float64Array([7])].map((x) =>
          engine.tensor(x, [x.length]),
        );
        const [first, second] = engine.grad([a, b], [a, b], seeds);
        engine.write(first!, 0, 0, second!);
        expect([first!, second!, ...seeds].map((x) => [...engine.doubles(x)])).toEqual([
          [7, 6],
          [7],
          [5, 6],
          [7],
        ]);
      });
    });
    it('attention over long sequences has the value of the reference and the gradients of its parts', () => {
      const engine = get();
      const random = new Random(3, 'long');
      const [batch, heads, repeat, length, keys, width] = [2, 2, 2, 260, 270, 3];
      const query = ref.normal(random, [batch, heads * repeat, length, width]);
      const [key, value] = [0, 1].map(() => ref.normal(random, [batch, heads, keys, width])) as [Nd, Nd];
      const mask = ref.nd([1, 1, length, keys], (_, [, , t, s]) => (s! > t! + 10 ? -Infinity : 0));
      const up = (x: Nd): Tensor => engine.cast(engine.tensor(x.data, x.shape), exact);
      engine.scope(() => {
        const leaves = [query, key, value].map((x) => engine.parameter(up(x))) as [Tensor, Tensor, Tensor];
        const [q, k, v] = leaves;
        const out = engine.attention({ query: q, key: k, value: v, mask: up(mask) });
        const expected = ref.attention({ query, key, value, mask }).data;
        const worst = (a: Float64Array, b: Float64Array): number =>
          a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i]!)), 0);
        expect(worst(engine.doubles(out), expected)).toBeLessThan(exact === 'float64' ? 1e-12 : 1e-5);

        const rows = [batch, heads, repeat * length, width];
        const scores = engine.matmul(engine.reshape(q, rows), engine.permute(k, [0, 1, 3, 2])); // [B, Hkv, R·T, S]
        const masked = engine.add(
          engine.mul(engine.reshape(scores, [batch, heads, repeat, length, keys]), 1 / Math.sqrt(width)),
          engine.reshape(up(mask), [1, 1, 1, length, keys]),
        );
        const weights = engine.exp(engine.logSoftmax(masked));
        const parts = engine.matmul(engine.reshape(weights, [batch, heads, repeat * length, keys]), v);
        const seed = up(ref.normal(random, out.shape));
        const actual = engine.grad(out, leaves, seed);
        const wanted = engine.grad(parts, leaves, engine.reshape(seed, rows));
        for (const [i, gradient] of actual.entries())
          expect(worst(engine.doubles(gradient), engine.doubles(wanted[i]!))).toBeLessThan(
            exact === 'float64' ? 1e-11 : 1e-4,
          );
      });
    });
  });
}

/** Recorded work, and what surrounds it: waiting for the device, and what the device is. */
export function recordingContract(get: () => Engine): void {
  describe('recording', () => {
    it('where the device cannot record, the body is not called', () => {
      const engine = get();
      if (engine.info.device.startsWith('cuda')) return;
      let calls = 0;
      expect(engine.record(() => calls++)).toBeNull();
      expect(calls).toBe(0);
    });
    it('where it can, the body takes effect once, and once more with each replay, on what is there then', () => {
      const engine = get();
      if (!engine.info.device.startsWith('cuda')) return;
      engine.scope(() => {
        const values = (...list: number[]): Tensor => engine.tensor(new Float32Array(list), [list.length]);
        const [state, weight, log] = [values(1, 2), values(3, 4), engine.zeros([4, 2])];
        const place = engine.tensor(new Int32Array([0]), [1]);
        const recording = engine.record(() => {
          const next = engine.mul(state, weight); // [2]
          engine.write(state, 0, 0, next);
          engine.indexCopyInto(log, 0, place, engine.reshape(next, [1, 2]));
          engine.addInto(weight, 0, 1, engine.narrow(next, 0, 0, 1));
        }) as Recording;
        expect([...engine.floats(state)]).toEqual([3, 8]);
        expect([...engine.floats(weight)]).toEqual([3, 7]);
        engine.write(place, 0, 0, engine.tensor(new Int32Array([2]), [1]));
        recording.replay();
        engine.synchronize();
        expect([...engine.floats(log)]).toEqual([3, 8, 0, 0, 9, 56, 0, 0]);
        recording.replay();
        expect([...engine.floats(weight)]).toEqual([3, 43]);
        recording.dispose();
        recording.dispose();
        expect(() => recording.replay()).toThrow(EngineError);
      });
    });
    it('a body that fails, or copies to the host, leaves the engine as it was', () => {
      const engine = get();
      if (!engine.info.device.startsWith('cuda')) return;
      engine.scope(() => {
        const [x, y] = [engine.zeros([3]), engine.zeros([3])];
        const live = engine.live();
        expect(() => engine.record(() => engine.write(y, 0, 0, engine.zeros([4])))).toThrow(
          /^narrow\(float32\[3\], 0, 0, 4\)/,
        );
        let calls = 0;
        const fails = (): void => {
          engine.write(y, 0, 0, engine.add(x, 1));
          if (++calls === 2) throw new RangeError('second');
        };
        expect(() => engine.record(fails)).toThrow(new RangeError('second'));
        expect(() => engine.record(() => void engine.item(engine.sum(x)))).toThrow(EngineError);
        expect(engine.live()).toBe(live);
        const recording = engine.record(() => engine.write(y, 0, 0, engine.add(y, 1))) as Recording;
        recording.replay();
        expect([...engine.floats(y)]).toEqual([3, 3, 3]);
        recording.dispose();
      });
    });
  });
  it('info tells the device and its memory', () => {
    const { device, deviceName, memoryTotal } = get().info;
    expect(deviceName.length).toBeGreaterThan(0);
    expect(Number.isSafeInteger(memoryTotal)).toBe(true);
    if (device === 'cpu') expect(memoryTotal).toBeGreaterThan(2 ** 28);
  });
}
