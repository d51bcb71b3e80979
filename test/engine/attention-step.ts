/** Steps of decoding against the loops of the reference, and products with weights that lie column by column. */
import { describe, expect, it } from 'vitest';
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import * as ref from '../helpers/reference.ts';
import { type Traits, upload, worst } from './contract.ts';

interface Shape {
  readonly prompts: number;
  readonly group: number;
  readonly heads: number;
  readonly repeat: number;
  readonly width: number;
  readonly before: number;
  readonly used: number;
  readonly masks: boolean;
  readonly angles: 'shared' | 'own';
}

/** Heads of whole vectors and others; fewer and more keys than a block of them; with and without prefix and masks. */
const SHAPES: readonly Shape[] = [
  {
    prompts: 2,
    group: 3,
    heads: 2,
    repeat: 2,
    width: 32,
    before: 5,
    used: 20,
    masks: false,
    angles: 'shared',
  },
  { prompts: 2, group: 3, heads: 2, repeat: 2, width: 16, before: 17, used: 40, masks: true, angles: 'own' },
  { prompts: 3, group: 1, heads: 1, repeat: 3, width: 48, before: 0, used: 33, masks: true, angles: 'own' },
  { prompts: 1, group: 4, heads: 2, repeat: 1, width: 128, before: 3, used: 0, masks: false, angles: 'own' },
  { prompts: 2, group: 2, heads: 3, repeat: 2, width: 6, before: 4, used: 7, masks: true, angles: 'shared' },
  // More keys than a block of a GPU takes, and heads that are no power of two.
  { prompts: 2, group: 3, heads: 2, repeat: 7, width: 64, before: 37, used: 500, masks: true, angles: 'own' },
  {
    prompts: 1,
    group: 1,
    heads: 2,
    repeat: 8,
    width: 128,
    before: 0,
    used: 300,
    masks: false,
    angles: 'shared',
  },
];

/** A step of a shape: operands, and by the loops of the reference its output and the cache behind it. */
function makeProblem(shape: Shape) {
  const { prompts, group, heads, repeat, width, before, used, masks, angles } = shape;
  const random = new Random(31, JSON.stringify(shape));
  const x = (...sizes: number[]): ref.Nd => ref.normal(random, sizes);
  const [batch, queryHeads, columns] = [prompts * group, heads * repeat, used + 3];
  const qkv = x(batch, (queryHeads + 2 * heads) * width);
  const half = x(angles === 'own' ? batch : 1, 1, width / 2);
  const table = (f: (v: number) => number): ref.Nd =>
    ref.nd([half.shape[0]!, 1, width], (_, [b, t, d]) => f(ref.at(half, [b!, t!, d! % (width / 2)])));
  const [cos, sin] = [table(Math.cos), table(Math.sin)];
  const held = [x(batch, heads, columns, width), x(batch, heads, columns, width)] as const;
  const shared = [x(prompts, heads, before, width), x(prompts, heads, before, width)] as const;
  /** Row b does not see its first b columns, prompt p not its first p. */
  const hide = (sizes: readonly number[]): ref.Nd =>
    ref.nd(sizes, (_, [b, , , s]) => (s! < Math.min(b!, sizes[3]! - 1) ? -Infinity : 0.125 * s!));
  const [mask, prefixMask] = [hide([batch, 1, 1, used + 1]), hide([prompts, 1, 1, before])];

  const rows = ref.nd([batch, 1, queryHeads + 2 * heads, width], (i) => qkv.data[i]!);
  const turned = ref.permute(ref.rotary(ref.narrow(rows, 2, 0, queryHeads + heads), cos, sin), [0, 2, 1, 3]);
  const newest = ref.permute(ref.narrow(rows, 2, queryHeads + heads, heads), [0, 2, 1, 3]);
  const grown = (cache: ref.Nd, entries: ref.Nd): ref.Nd =>
    ref.concat([ref.narrow(cache, 2, 0, used), entries], 2);
  const expected = ref.attention({
    query: ref.narrow(turned, 1, 0, queryHeads),
    key: grown(held[0], ref.narrow(turned, 1, queryHeads, heads)),
    value: grown(held[1], newest),
    ...(masks ? { mask } : {}),
    ...(before === 0
      ? {}
      : { prefix: { key: shared[0], value: shared[1], ...(masks ? { mask: prefixMask } : {}) } }),
  });
  const extended = (given: ref.Nd, entries: ref.Nd): ref.Nd =>
    ref.concat([grown(given, entries), ref.narrow(given, 2, used + 1, columns - used - 1)], 2);
  return {
    ...{ batch, columns, qkv, cos, sin, held, shared, mask, prefixMask, expected },
    keys: extended(held[0], ref.narrow(turned, 1, queryHeads, heads)),
    values: extended(held[1], newest),
  };
}

const problems = new Map<Shape, ReturnType<typeof makeProblem>>();
/** Makes the step of a shape once: loops take longer than any engine, and all are compared with the same. */
function problemOf(shape: Shape): ReturnType<typeof makeProblem> {
  const problem = problems.get(shape) ?? makeProblem(shape);
  problems.set(shape, problem);
  return problem;
}

export function attentionStepContract(get: () => Engine, { exact }: Traits): void {
  const dtypes = exact === 'float64' ? (['float64', 'float32'] as const) : (['float32'] as const);
  describe('one step of decoding', () => {
    const places = ['used', 'at'] as const;
    it.each(
      SHAPES.flatMap((shape) => dtypes.flatMap((dtype) => places.map((by) => [shape, dtype, by] as const))),
    )('%j in %s extends the cache and attends to all of it, the column given by `%s`', (shape, dtype, by) => {
      const engine = get();
      const { heads, repeat, width, before, used, masks } = shape;
      const { batch, columns, qkv, cos, sin, held, shared, mask, prefixMask, expected, keys, values } =
        problemOf(shape);

      engine.scope(() => {
        const up = (array: ref.Nd) => upload(engine, array, dtype);
        const cache = { key: up(held[0]), value: up(held[1]) };
        // Where the device alone knows the column, the mask spans all of them.
        const wide = ref.nd([batch, 1, 1, columns], (_, [b, , , s]) =>
          s! > used ? -Infinity : masks ? ref.at(mask, [b!, 0, 0, s!]) : 0,
        );
        const out = engine.attentionStep({
          qkv: up(qkv),
          cos: up(cos),
          sin: up(sin),
          cache,
          ...(by === 'used' ? { used } : { used: 0, at: engine.tensor(Int32Array.of(used), [1]) }),
          ...(by === 'at' ? { mask: up(wide) } : masks ? { mask: up(mask) } : {}),
          ...(before === 0
            ? {}
            : {
                prefix: {
                  key: up(shared[0]),
                  value: up(shared[1]),
                  ...(masks ? { mask: up(prefixMask) } : {}),
                },
              }),
        });
        expect(out.shape).toEqual([batch, heads * repeat * width]);
        const tolerance = dtype === 'float64' ? 1e-12 : 2e-5;
        expect(worst(engine.doubles(out), expected.data)).toBeLessThan(tolerance);
        expect(worst(engine.doubles(cache.key), keys.data)).toBeLessThan(tolerance);
        expect(worst(engine.doubles(cache.value), values.data)).toBeLessThan(tolerance);
      });
    });

    it('refuses caches that are full and projections of another width', () => {
      const engine = get();
      engine.scope(() => {
        const zeros = (...sizes: number[]) => engine.zeros(sizes);
        const input = {
          qkv: zeros(2, 32),
          cos: zeros(1, 1, 8),
          sin: zeros(1, 1, 8),
          cache: { key: zeros(2, 1, 4, 8), value: zeros(2, 1, 4, 8) },
          used: 3,
        };
        expect(engine.attentionStep(input).shape).toEqual([2, 16]);
        const message = /^attentionStep: qkv \[2,\d+\], cache \[2,1,4,8\] and \d used columns do not fit/;
        expect(() => engine.attentionStep({ ...input, used: 4 })).toThrow(message);
        expect(() => engine.attentionStep({ ...input, qkv: zeros(2, 16) })).toThrow(message);
        expect(() => engine.attentionStep({ ...input, qkv: zeros(2, 30) })).toThrow(message);
        const at = engine.tensor(Int32Array.of(1, 2), [2]);
        expect(() => engine.attentionStep({ ...input, at })).toThrow(
          'attentionStep: the column is int64 [2]; want int64 [1]',
        );
        const one = { ...input, used: 0, at: engine.tensor(Int32Array.of(1), [1]) };
        expect(() => engine.attentionStep(one)).toThrow(
          'attentionStep: a column of the device with 0 used columns and no mask; want 0 and one over all 4',
        );
        expect(engine.attentionStep({ ...one, mask: zeros(1, 1, 1, 4) }).shape).toEqual([2, 16]);
      });
    });

    it('takes projections and angles that are not contiguous, and names angles of another shape', () => {
      const engine = get();
      const random = new Random(32, 'strides');
      const x = (...sizes: number[]) => upload(engine, ref.normal(random, sizes), 'float32');
      engine.scope(() => {
        const [qkv, cos, sin, held] = [x(2, 32), x(2, 1, 8), x(2, 1, 8), x(2, 1, 4, 8)];
        const cache = () => ({ key: engine.add(held, 0), value: engine.add(held, 1) });
        const strided = (tensor: Tensor, order: readonly number[]): Tensor => {
          const turned = engine.permute(tensor, order);
          return engine.permute(engine.tensor(engine.floats(turned), turned.shape), order);
        };
        const dense = engine.floats(engine.attentionStep({ qkv, cos, sin, cache: cache(), used: 2 }));
        const step = engine.attentionStep({
          qkv: strided(qkv, [1, 0]),
          cos: strided(cos, [2, 1, 0]),
          sin: strided(sin, [2, 1, 0]),
          cache: cache(),
          used: 2,
        });
        expect(engine.floats(step)).toEqual(dense);
        expect(() => engine.attentionStep({ qkv, cos: x(2, 1, 6), sin, cache: cache(), used: 2 })).toThrow(
          /^attentionStep\(float32\[2,32\], float32\[2,1,6\], float32\[2,1,8\], float32\[2,1,4,8\]\) on \S+: want cos and sin \[1 or B, 1, D\]/,
        );
      });
    });
  });

  describe('passes with and without a gradient agree to the bit', () => {
    const random = new Random(33, 'both');
    const x = (...sizes: number[]): ref.Nd => ref.normal(random, sizes);

    it('of one query a row', () => {
      const engine = get();
      engine.scope(() => {
        const [query, key, value] = [x(3, 4, 1, 16), x(3, 2, 33, 16), x(3, 2, 33, 16)].map((array) =>
          upload(engine, array, 'float32'),
        ) as [Tensor, Tensor, Tensor];
        const plain = engine.noGrad(() => engine.attention({ query, key, value }));
        const recorded = engine.attention({ query: engine.parameter(query), key, value });
        expect(engine.floats(recorded)).toEqual(engine.floats(plain));
      });
    });

    it.each([40, 2048, 2100])('of %i rows of a small layer, which do not depend on each other', (rows) => {
      const engine = get();
      engine.scope(() => {
        const [input, weight, bias] = [x(rows, 64), x(192, 64), x(192)].map((array) =>
          upload(engine, array, 'float32'),
        ) as [Tensor, Tensor, Tensor];
        const plain = engine.noGrad(() => engine.linear(input, weight, bias));
        const recorded = engine.linear(input, engine.parameter(weight), bias);
        expect(engine.floats(recorded)).toEqual(engine.floats(plain));
        const some = engine.noGrad(() => engine.linear(engine.narrow(input, 0, 0, 36), weight, bias));
        // CUDA's matrix library sums in another order for another number of rows.
        const [among, alone] = [engine.floats(engine.narrow(plain, 0, 0, 36)), engine.floats(some)];
        if (engine.info.device === 'cpu') expect(among).toEqual(alone);
        else for (const [i, value] of among.entries()) expect(value).toBeCloseTo(alone[i]!, 4);
      });
    });
  });

  it('attention that sees nothing is not a number (not on the processor: or 0), whatever its neighbours see', () => {
    const engine = get();
    engine.scope(() => {
      const [query, key] = [engine.zeros([1, 1, 2, 4]), engine.zeros([1, 1, 3, 4])];
      for (const seen of [0, 1]) {
        const mask = Float32Array.from({ length: 6 }, (_, i) => (i >= 3 && seen === 1 ? 0 : -Infinity));
        const out = engine.attention({ query, key, value: key, mask: engine.tensor(mask, [1, 1, 2, 3]) });
        const zero = engine.info.device !== 'cpu';
        for (const value of [...engine.floats(out)].slice(0, 4)) {
          expect(Number.isNaN(value) || (zero && value === 0), String(value)).toBe(true);
        }
      }
    });
  });

  it('AdamW of float32 takes 1 − β in double', () => {
    const engine = get();
    engine.scope(() => {
      const state = {
        parameters: engine.tensor(Float32Array.of(1, 1), [2]),
        gradients: engine.tensor(Float32Array.of(2, 4e19), [2]),
        firstMoment: engine.zeros([2]),
        secondMoment: engine.zeros([2]),
        decay: 0,
      };
      const options = { learningRate: 0.1, beta1: 0.9, beta2: 0.9999, epsilon: 1e-8, step: 1 };
      engine.adamW(state, { ...options, scale: 0.5 });
      const [second, large] = engine.floats(state.secondMoment);
      expect(second! / 1e-4).toBeCloseTo(1, 6);
      expect(large).toBeGreaterThan(0);
      expect(large).toBeLessThan(Infinity);
      for (const value of engine.floats(state.parameters)) expect(value).toBeCloseTo(0.9, 6);
    });
  });

  describe('a weight that lies column by column', () => {
    it.each([
      [1, 5, 7],
      [9, 48, 37],
      [70, 128, 378],
      [16, 64, 96],
    ])('multiplies %i rows of %i as the weight row by row does: %i outputs', (rows, inner, outer) => {
      const engine = get();
      const random = new Random(32, `${rows} ${inner} ${outer}`);
      const [x, weight, bias] = [[rows, inner], [outer, inner], [outer]].map((shape) =>
        ref.normal(random, shape),
      ) as [ref.Nd, ref.Nd, ref.Nd];
      engine.scope(() => {
        const up = (array: ref.Nd) => upload(engine, array, 'float32');
        const room = engine.zeros([inner, Math.ceil(outer / 16) * 16]);
        engine.write(room, 1, 0, engine.permute(up(weight), [1, 0]));
        const turned = engine.permute(engine.narrow(room, 1, 0, outer), [1, 0]); // [O, I]
        const tight = engine.permute(
          engine.reshape(engine.permute(up(weight), [1, 0]), [inner, outer]),
          [1, 0],
        );
        const wanted = ref.linear(x, weight).data;
        const shiftedWanted = wanted.map((value, i) => value + bias.data[i % outer]!);
        for (const columns of [turned, tight]) {
          const [plain, shifted] = [engine.linear(up(x), columns), engine.linear(up(x), columns, up(bias))];
          expect(plain.shape).toEqual([rows, outer]);
          expect(worst(engine.doubles(plain), wanted)).toBeLessThan(1e-5);
          expect(worst(engine.doubles(shifted), shiftedWanted)).toBeLessThan(1e-5);
        }
      });
    });
  });
}
