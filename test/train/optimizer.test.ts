import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import type { Matrix, Range } from '../../src/train/gradient-exchange.ts';
import { matricesOf, orthogonalised } from '../../src/train/muon.ts';
import { CHUNK, chunksOf, cosineSchedule, ShardedOptimizer } from '../../src/train/optimizer.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { DEVICE } from '../helpers/device.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const OPTIONS = { betas: [0.9, 0.95], weightDecay: 0.1, clip: 0 } as const;

function rangesOf(sizes: readonly number[], decays: (i: number) => boolean = (i) => i % 2 === 0): Range[] {
  let offset = 0;
  return sizes.map((size, i) => {
    const range = { offset, size, decay: decays(i) };
    offset += size;
    return range;
  });
}

/** AdamW in plain numbers (Loshchilov & Hutter 2019). */
function expected(
  start: readonly number[],
  gradients: readonly (readonly number[])[],
  ranges: readonly Range[],
  rate: number,
): number[] {
  const decay = ranges.flatMap(({ size, decay: on }) =>
    new Array<number>(size).fill(on ? OPTIONS.weightDecay : 0),
  );
  const [b1, b2] = OPTIONS.betas;
  return start.map((value, i) => {
    let [w, m, v] = [value, 0, 0];
    gradients.forEach((gradient, t) => {
      m = b1 * m + (1 - b1) * gradient[i]!;
      v = b2 * v + (1 - b2) * gradient[i]! ** 2;
      w -= rate * decay[i]! * w;
      w -= (rate * (m / (1 - b1 ** (t + 1)))) / (Math.sqrt(v / (1 - b2 ** (t + 1))) + 1e-8);
    });
    return w;
  });
}

const noise = (count: number, key: string): number[] => {
  const random = new Random(8, key);
  return Array.from({ length: count }, () => random.normal());
};

/** Runs updates with given gradients; frees everything but the result. */
function run(
  dtype: 'float32' | 'bfloat16',
  ranges: readonly Range[],
  start: readonly number[],
  gradients: readonly (readonly number[])[],
  rate: number,
): { readonly weights: Float32Array; readonly master: Float32Array | null } {
  return engine.scope(() => {
    const flat = engine.cast(engine.tensor(Float32Array.from(start), [start.length]), dtype);
    const optimizer = new ShardedOptimizer(engine, WorkerGroup.single(), flat, ranges, OPTIONS);
    for (const gradient of gradients) {
      ranges.forEach(({ offset, size }, i) => {
        optimizer.gradients.add(
          i,
          engine.tensor(Float32Array.from(gradient.slice(offset, offset + size)), [size]),
        );
      });
      optimizer.step(1, rate);
    }
    const { master } = optimizer.buffers;
    return { weights: engine.floats(flat), master: master === undefined ? null : engine.floats(master) };
  });
}

describe('AdamW over a flat buffer', () => {
  const ranges = rangesOf([3, 4, 2]);
  const start = noise(9, 'start');
  const gradients = [0, 1, 2].map((t) => noise(9, `gradient ${t}`));

  test('is its definition, decay where a range says so', () => {
    const { weights, master } = run('float32', ranges, start, gradients, 0.03);
    expected(start, gradients, ranges, 0.03).forEach((want, i) => {
      expect(weights[i]).toBeCloseTo(want, 5);
    });
    expect(master).toBeNull();
  });

  test('sums what arrives for a parameter within a step, of any float dtype, and takes the rest for zero', () => {
    engine.scope(() => {
      const flat = engine.zeros([9]);
      const optimizer = new ShardedOptimizer(engine, WorkerGroup.single(), flat, ranges, {
        ...OPTIONS,
        weightDecay: 0,
      });
      const step = (): number => optimizer.step(1, 1e-9).gradNorm;
      const add = (index: number, values: number[], dtype: 'float32' | 'bfloat16' = 'float32'): void =>
        optimizer.gradients.add(
          index,
          engine.cast(engine.tensor(Float32Array.from(values), [2, values.length / 2]), dtype),
        );
      add(1, [3, 0, 0, 0]);
      add(1, [0, 4, 0, 0], 'bfloat16');
      expect(step()).toBeCloseTo(5, 6);
      add(2, [0, 7]); // of parameter 1 nothing is left
      expect(step()).toBeCloseTo(7, 6);
      expect(step()).toBe(0);
      add(1, [1, 1, 1, 1]);
      optimizer.gradients.drop();
      expect(step()).toBe(0);
    });
  });

  test('refuses ranges that leave gaps', () => {
    engine.scope(() => {
      const flat = engine.zeros([9]);
      const make = (list: readonly Range[]) => () =>
        new ShardedOptimizer(engine, WorkerGroup.single(), flat, list, OPTIONS);
      expect(make(ranges.slice(1))).toThrow(EngineError);
      expect(make(ranges.slice(0, 2))).toThrow(/do not cover 9 parameters/);
    });
  });
});

describe('weights in bfloat16', () => {
  const ranges = rangesOf([5], () => false);

  test('are the rounding of a float32 master copy, which is updated as float32 weights are', () => {
    const start = noise(5, 'rounded').map((value) => Math.fround(value));
    const gradients = [0, 1, 2, 3].map((t) => noise(5, `given ${t}`));
    const rounded = engine.scope(() => [
      ...engine.floats(engine.cast(engine.tensor(Float32Array.from(start), [5]), 'bfloat16')),
    ]);
    const { weights, master } = run('bfloat16', ranges, start, gradients, 0.01);
    const alone = run('float32', ranges, rounded, gradients, 0.01).weights;
    expect([...master!]).toEqual([...alone]);
    const nearest = engine.scope(() => engine.floats(engine.cast(engine.tensor(alone, [5]), 'bfloat16')));
    expect([...weights]).toEqual([...nearest]);
  });

  test('move under updates below half a unit in their last place, once these add up to one', () => {
    // Near 1 a unit is 2⁻⁷; Adam's first steps on a constant gradient are the learning rate, 1/40 of a unit.
    const rate = 2 ** -7 / 40;
    const one = new Array<number>(5).fill(1);
    const push = new Array<number>(5).fill(-1);
    const weight = (steps: number): number =>
      run('bfloat16', ranges, one, new Array(steps).fill(push), rate).weights[0]!;
    expect(weight(10)).toBe(1);
    expect(weight(30)).toBe(1 + 2 ** -7);
    expect(weight(80)).toBe(1 + 2 ** -6);
  });
});

describe('in chunks', () => {
  const ranges = rangesOf([7, 90, 3, 5, 41]);
  const size = 146;
  const start = noise(size, 'many');

  /** The engine, and the most elements of a tensor that it computed since the last question, views left out. */
  function watched(): { readonly seen: Engine; readonly largest: () => number } {
    let largest = 0;
    const views = new Set(['narrow', 'reshape', 'attach', 'scope', 'noGrad']);
    const get = (target: Engine, name: string): unknown => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        const result: unknown = value.apply(target, args);
        if (!views.has(name) && typeof result === 'object' && result !== null && 'shape' in result) {
          largest = Math.max(
            largest,
            (result as Tensor).shape.reduce((a, b) => a * b, 1),
          );
        }
        return result;
      };
    };
    const answer = (): number => {
      const before = largest;
      largest = 0;
      return before;
    };
    return {
      seen: new Proxy<Engine>(engine, { get: (target, name) => get(target, String(name)) }),
      largest: answer,
    };
  }

  test.each(['float32', 'bfloat16'] as const)(
    'a step of %s weights makes nothing larger than a chunk, and is that of the whole to the bit',
    (dtype) => {
      engine.scope(() => {
        const states = [16, CHUNK].map((chunk) => {
          const { seen, largest } = watched();
          const flat = engine.cast(engine.tensor(Float32Array.from(start), [size]), dtype);
          const options = { ...OPTIONS, weightDecay: 0 };
          const optimizer = new ShardedOptimizer(seen, WorkerGroup.single(), flat, ranges, options, {
            chunk,
          });
          expect(largest()).toBe(size); // the buffers themselves
          for (const turn of [0, 1]) {
            ranges.slice(turn).forEach(({ size: n }, i) => {
              const gradient = engine.tensor(Float32Array.from(noise(n, `gradient ${turn} ${i}`)), [n]);
              optimizer.gradients.add(i + turn, gradient);
            });
            optimizer.step(3, 0.01);
          }
          expect(largest()).toBeLessThanOrEqual(chunk);
          return [flat, ...Object.values(optimizer.buffers)].map((tensor) => [...engine.floats(tensor)]);
        });
        expect(states[0]).toEqual(states[1]);
      });
    },
  );
});

describe('chunks', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 });

  test('cover a share once, in order, none larger than allowed, and large ranges are alone', () => {
    fc.assert(
      fc.property(sizes, fc.nat(), fc.nat(), (list, a, b) => {
        const ranges = rangesOf(list);
        const size = list.reduce((sum, n) => sum + n, 0);
        const [start, end] = [a % (size + 1), b % (size + 1)].sort((x, y) => x - y) as [number, number];
        const chunks = chunksOf(ranges, start, end, 25, 16);
        let at = start;
        for (const chunk of chunks) {
          expect(chunk.start).toBe(at);
          expect(chunk.end).toBeGreaterThan(at);
          expect(chunk.end - chunk.start).toBeLessThanOrEqual(25);
          if (chunk.ranges.some((range) => range.size >= 16)) expect(chunk.ranges).toHaveLength(1);
          const inside = ranges.filter(
            ({ offset, size: n }) => offset < chunk.end && offset + n > chunk.start,
          );
          expect(chunk.ranges).toEqual(inside);
          at = chunk.end;
        }
        expect(at).toBe(end);
      }),
    );
  });

  test('a policy of small parameters is one', () => {
    expect(chunksOf(rangesOf([128, 5000, 70_000]), 0, 75_128)).toHaveLength(1);
  });

  test('the sum of their squares is the global norm, and clipping scales all of them alike', () => {
    engine.scope(() => {
      const large = (1 << 20) + 3;
      const ranges = rangesOf([2, large, 4, large], () => false);
      const size = ranges.at(-1)!.offset + large;
      expect(chunksOf(ranges, 0, size)).toHaveLength(4);
      const flat = engine.zeros([size]);
      const optimizer = new ShardedOptimizer(engine, WorkerGroup.single(), flat, ranges, {
        ...OPTIONS,
        clip: 1,
      });
      const one = (n: number, value: number): Tensor => engine.tensor(new Float32Array(n).fill(value), [n]);
      optimizer.gradients.add(0, one(2, 30));
      optimizer.gradients.add(2, one(4, 40));
      optimizer.gradients.add(3, one(large, 0.01));
      const want = Math.sqrt(2 * 900 + 4 * 1600 + large * 1e-4);
      const { gradNorm } = optimizer.step(1, 0.1);
      expect(gradNorm / want).toBeCloseTo(1, 5);
      const first = engine.floats(optimizer.buffers['first_moment']!);
      for (const [at, value] of [
        [0, 30],
        [2, 0],
        [large + 2, 40],
        [size - 1, 0.01],
      ] as const) {
        expect(first[at]).toBeCloseTo((0.1 * value) / want, 6);
      }
    });
  });
});

test('the schedule warms up, peaks, and ends at its floor', () => {
  const options = { learningRate: 2, warmup: 4, minLearningRate: 0.1 };
  expect(cosineSchedule(0, 24, options)).toBeCloseTo(0.5);
  expect(cosineSchedule(3, 24, options)).toBeCloseTo(2);
  expect(cosineSchedule(14, 24, options)).toBeCloseTo(2 * 0.55);
  expect(cosineSchedule(24, 24, options)).toBeCloseTo(0.2);
  expect(cosineSchedule(99, 24, options)).toBeCloseTo(0.2);
});

describe('Muon', () => {
  interface Golden {
    readonly options: { readonly learningRate: number; readonly weightDecay: number };
    readonly start: readonly (readonly number[][])[];
    readonly gradients: readonly (readonly (readonly number[][])[])[];
    readonly exact: readonly (readonly (readonly number[][])[])[];
  }
  const golden = JSON.parse(
    readFileSync(new URL('../golden/engine/muon.json', import.meta.url), 'utf8'),
  ) as Golden;

  /** Ranges with a vector, all golden matrices but the last as one parameter, a vector, and the last. */
  function ranges(): Range[] {
    let offset = 2;
    const matrices = golden.start.map((rows): Matrix => {
      const matrix = { offset, rows: rows.length, columns: rows[0]!.length };
      offset += matrix.rows * matrix.columns;
      if (rows === golden.start.at(-2)) offset += 3;
      return matrix;
    });
    const last = matrices.at(-1)!;
    const range = (at: number, end: number, held?: Matrix[]): Range => {
      return { offset: at, size: end - at, decay: held !== undefined, ...(held && { matrices: held }) };
    };
    return [
      range(0, 2),
      range(2, last.offset - 3, matrices.slice(0, -1)),
      range(last.offset - 3, last.offset),
      range(last.offset, offset, [last]),
    ];
  }

  const flatOf = (matrices: readonly (readonly number[][])[], vectors: readonly number[]): number[] => [
    ...vectors.slice(0, 2),
    ...matrices.slice(0, -1).flat(2),
    ...vectors.slice(2),
    ...matrices.at(-1)!.flat(),
  ];

  test.each([
    ['float32', 2e-6],
    ['bfloat16', 2e-3],
  ] as const)('of %s weights is that of PyTorch for matrices, and AdamW for the rest', (dtype, tolerance) => {
    engine.scope(() => {
      const list = ranges();
      const vectors = noise(5, 'vectors');
      const start = flatOf(golden.start, vectors);
      const flat = engine.cast(engine.tensor(Float32Array.from(start), [start.length]), dtype);
      const rounded = engine.floats(flat);
      const { learningRate, weightDecay } = golden.options;
      const options = { betas: [0.9, 0.95], weightDecay, clip: 0 } as const;
      const optimizer = new ShardedOptimizer(engine, WorkerGroup.single(), flat, list, options);
      const ofVectors = golden.gradients.map((_, t) => noise(5, `gradient ${t}`));
      golden.gradients.forEach((matrices, t) => {
        const gradient = flatOf(matrices, ofVectors[t]!);
        list.forEach(({ offset, size }, i) => {
          const part = Float32Array.from(gradient.slice(offset, offset + size), (value) => 4 * value);
          optimizer.gradients.add(i, engine.tensor(part, [size]));
        });
        optimizer.step(4, learningRate);
        const want = flatOf(golden.exact[t]!, vectors);
        const weights = engine.floats(optimizer.buffers['master'] ?? flat);
        const off = list
          .flatMap(({ matrices: held = [] }) => held)
          .flatMap(({ offset, rows, columns }) =>
            Array.from({ length: rows * columns }, (_, k) => {
              // A start that bfloat16 rounds differs throughout.
              const from =
                (rounded[offset + k]! - start[offset + k]!) * (1 - learningRate * weightDecay) ** (t + 1);
              return Math.abs(weights[offset + k]! - want[offset + k]! - from);
            }),
          );
        expect(Math.max(...off)).toBeLessThan(tolerance);
      });
      const rest = list.filter(({ decay }) => !decay);
      const plain = expected(
        [0, 1, ...[2, 3, 4]].map((i) => rounded[i < 2 ? i : rest[1]!.offset + i - 2]!),
        ofVectors,
        [{ offset: 0, size: 5, decay: false }],
        learningRate,
      );
      const weights = engine.floats(optimizer.buffers['master'] ?? flat);
      plain.forEach((value, i) => {
        expect(weights[i < 2 ? i : rest[1]!.offset + i - 2]).toBeCloseTo(value, 5);
      });
    });
  });

  test('gives every direction of a matrix nearly the same length, whatever its scale, and 0 for 0', () => {
    engine.scope(() => {
      const shapes = [
        [3, 8],
        [9, 4],
      ] as const;
      for (const [rows, columns] of shapes) {
        for (const scale of [1e-4, 1, 1e12]) {
          const values = noise(rows * columns, 'matrix').map((value) => value * scale);
          const from = engine.tensor(Float32Array.from(values), [1, rows, columns]);
          const flat = engine.reshape(orthogonalised(engine, from), [rows, columns]);
          const turned = engine.permute(flat, [1, 0]);
          const gram = engine.floats(
            rows < columns ? engine.matmul(flat, turned) : engine.matmul(turned, flat),
          );
          const width = Math.min(rows, columns);
          gram.forEach((value, i) => {
            const isDiagonal = i % (width + 1) === 0;
            expect(Math.abs(value - (isDiagonal ? 0.9 : 0))).toBeLessThan(0.45);
          });
        }
      }
      const zero = engine.floats(orthogonalised(engine, engine.zeros([2, 3, 2])));
      expect([...zero]).toEqual(new Array<number>(12).fill(0));
    });
  });

  test('names the projections of the layers one by one, and neither embedding, head nor vectors', () => {
    const part = (name: string, offset: number, shape: number[]) => ({ name, offset, shape });
    const qkv = [
      part('x.self_attn.q_proj.weight', 10, [4, 3]),
      part('x.self_attn.k_proj.weight', 22, [2, 3]),
    ];
    expect(matricesOf({ name: 'layers.0.qkv', parts: qkv })).toEqual([
      { offset: 10, rows: 4, columns: 3 },
      { offset: 22, rows: 2, columns: 3 },
    ]);
    const vision = [part('visual.blocks.0.attn.qkv.weight', 5, [6, 2])];
    expect(matricesOf({ name: 'vision.0.qkv', parts: vision })).toEqual([
      { offset: 5, rows: 2, columns: 2 },
      { offset: 9, rows: 2, columns: 2 },
      { offset: 13, rows: 2, columns: 2 },
    ]);
    for (const name of ['embed', 'head'])
      expect(matricesOf({ name, parts: [part('w', 0, [7, 3])] })).toBeUndefined();
    expect(matricesOf({ name: 'norm', parts: [part('w', 0, [7])] })).toBeUndefined();
    expect(matricesOf({ name: 'vision.patch', parts: [part('w', 0, [4, 3, 2, 2, 2])] })).toBeUndefined();
  });
});
