/** The meta device beside the CPU: the same calls take the same memory, at every point. */
import { describe, expect, test } from 'vitest';
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { MetaEngine } from '../../src/engine/torch/meta.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';

const torch = openTorch({ threads: 1 });
const meta = new MetaEngine('cpu');

const values = (engine: Engine, dtype: 'float32' | 'bfloat16', ...shape: number[]): Tensor => {
  const size = shape.reduce((a, b) => a * b, 1);
  return engine.cast(engine.tensor(new Float32Array(size).fill(0.5), shape), dtype);
};

type DT = 'float32' | 'bfloat16';
/** Makes leaves, and something of them. */
type Scene = (engine: Engine, dtype: DT) => { readonly leaves: Tensor[]; readonly result: Tensor };

const unary =
  (apply: (engine: Engine, x: Tensor) => Tensor, ...shape: number[]): Scene =>
  (engine, dtype) => {
    const x = engine.parameter(values(engine, dtype, ...shape));
    return { leaves: [x], result: apply(engine, x) };
  };

/** Sizes of some ten thousand bytes, so that what the system rounds up does not count. */
const scenes: Readonly<Record<string, Scene>> = {
  'linear with a bias': (engine, dtype) => {
    const [x, w, b] = [
      values(engine, dtype, 70, 96),
      values(engine, dtype, 128, 96),
      values(engine, dtype, 128),
    ].map((t) => engine.parameter(t)) as [Tensor, Tensor, Tensor];
    return { leaves: [x, w, b], result: engine.linear(x, w, b) };
  },
  'linear of what is constant': (engine, dtype) => {
    const w = engine.parameter(values(engine, dtype, 128, 96));
    return { leaves: [w], result: engine.linear(values(engine, dtype, 70, 96), w) };
  },
  rmsNorm: (engine, dtype) => {
    const x = engine.parameter(values(engine, dtype, 90, 64));
    const w = engine.parameter(values(engine, dtype, 64));
    return { leaves: [x, w], result: engine.rmsNorm(x, w, 1e-6) };
  },
  swiglu: unary((engine, x) => engine.swiglu(x), 50, 128),
  gelu: unary((engine, x) => engine.exp(engine.gelu(x)), 50, 128),
  'rotary of a part': unary(
    (engine, x) => {
      const [part, rest] = engine.split(x, [5, 3], 2) as [Tensor, Tensor];
      const table = values(engine, 'float32', 1, 20, 16);
      return engine.concat([engine.rotary(part, table, table), rest], 2);
    },
    3,
    20,
    8,
    16,
  ),
  'reshape of a permuted tensor': unary(
    (engine, x) => engine.reshape(engine.permute(x, [1, 0, 2]), [-1]),
    20,
    30,
    16,
  ),
  'rows of a table': unary(
    (engine, x) => engine.indexSelect(x, engine.tensor(Int32Array.of(3, 3, 5), [3])),
    300,
    40,
  ),
  'a cut': unary((engine, x) => engine.narrow(x, 0, 10, 30), 100, 60),
  'a residual stream': unary(
    (engine, x) => {
      const stream = engine.exp(x);
      return engine.exp(engine.add(stream, engine.swiglu(engine.concat([stream, stream], 1))));
    },
    80,
    80,
  ),
  'a broadcast factor': (engine, dtype) => {
    const x = engine.parameter(values(engine, dtype, 80, 80));
    const y = engine.parameter(values(engine, dtype, 80));
    return { leaves: [x, y], result: engine.mul(x, y) };
  },
  'two dtypes': (engine, dtype) => {
    const x = engine.parameter(values(engine, dtype, 80, 80));
    return { leaves: [x], result: engine.mul(x, values(engine, 'float32', 80, 80)) };
  },
  concatenation: (engine, dtype) => {
    const parts = [40, 60].map((rows) => engine.parameter(values(engine, dtype, rows, 64)));
    return { leaves: parts, result: engine.exp(engine.concat(parts, 0)) };
  },
  'log-probabilities and entropy': (engine, dtype) => {
    const hidden = engine.parameter(values(engine, dtype, 40, 32));
    const head = engine.parameter(values(engine, dtype, 500, 32));
    const targets = engine.tensor(new Int32Array(40).fill(7), [40]);
    const mask = values(engine, 'float32', 500);
    const { logProb, entropy } = engine.logProbs(hidden, head, targets, {
      temperature: 0.8,
      mask,
      entropy: true,
    });
    return { leaves: [hidden, head], result: engine.add(logProb, entropy!) };
  },
  'attention with grouped heads, a mask and a prefix': (engine, dtype) => {
    const leaf = (...shape: number[]): Tensor => engine.parameter(values(engine, dtype, ...shape));
    const [query, key, value] = [leaf(6, 4, 12, 16), leaf(6, 2, 12, 16), leaf(6, 2, 12, 16)] as const;
    const prefix = { key: leaf(2, 2, 20, 16), value: leaf(2, 2, 20, 16) };
    const mask = values(engine, 'float32', 1, 1, 12, 12);
    return {
      leaves: [query, key, value, prefix.key, prefix.value],
      result: engine.attention({ query, key, value, mask, prefix }),
    };
  },
  'attention over many keys': (engine, dtype) => {
    // Enough of them that the kernel's own tiles do not count.
    const [query, key, value] = [900, 900, 900].map((length) =>
      engine.parameter(values(engine, dtype, 1, 8, length, 64)),
    ) as [Tensor, Tensor, Tensor];
    return { leaves: [query, key, value], result: engine.attention({ query, key, value }) };
  },
};

/** Memory that a scene holds after its forward pass and after its backward pass, and its peak, above what was there before. */
function taken(engine: Engine, scene: Scene, dtype: DT): readonly [number, number, number] {
  engine.trackMemory();
  const before = engine.memory()!.now;
  return engine.scope(() => {
    const { leaves, result } = scene(engine, dtype);
    const forward = engine.memory()!.now - before;
    engine.grad(engine.sum(result), leaves);
    const { now, peak } = engine.memory()!;
    return [forward, now - before, peak - before];
  });
}

/**
 * Of what is held next to nothing may be missing; of a peak what products of 16 bits and tiles use while they run:
 * on processors with matrix tiles (AMX) about 50 KB for a product of these sizes, and no more for one of megabytes.
 */
const SLACK = { float32: [0.01, 0.01, 0.2], bfloat16: [0.01, 0.01, 0.3] };

describe.each(['float32', 'bfloat16'] as const)('in %s takes what libtorch takes', (dtype) => {
  test.each(Object.entries(scenes))('%s', (_, scene) => {
    const [want, got] = [taken(torch, scene, dtype), taken(meta, scene, dtype)];
    got.forEach((bytes, i) => {
      expect(Math.abs(bytes / want[i]! - 1)).toBeLessThan(SLACK[dtype][i]!);
    });
    expect(meta.memory()!.now).toBe(0);
    expect(meta.live()).toBe(0);
  });
});

test('what is freed is no longer counted, whichever of its views goes last', () => {
  const engine = new MetaEngine('cpu');
  const whole = engine.zeros([10, 10]);
  const part = engine.narrow(whole, 0, 0, 1);
  engine.dispose(whole);
  expect(engine.ledger.now).toBe(400);
  engine.dispose(part);
  expect(engine.ledger.now).toBe(0);
  expect(engine.memory()!.peak).toBe(400);
});

test('what a peak is made of adds up to it, in each phase', () => {
  const engine = new MetaEngine('cpu');
  engine.ledger.phase('first');
  const x = engine.zeros([10, 10]);
  engine.dispose(engine.exp(x));
  engine.dispose(engine.mul(x, 2));
  engine.ledger.phase('second');
  const y = engine.concat([x, x], 0);
  engine.dispose(x);
  engine.zeros([3]);
  expect(engine.ledger.peaks().get('first')).toEqual({ bytes: 800, kinds: { zeros: 400, exp: 400 } });
  expect(engine.ledger.peaks().get('second')).toEqual({ bytes: 1200, kinds: { cat: 800, zeros: 400 } });
  engine.dispose(y);
});

test('a GPU gives memory in blocks of 512 bytes', () => {
  const engine = new MetaEngine('cuda');
  engine.zeros([129]);
  expect(engine.ledger.now).toBe(1024);
});

test('shapes that do not fit are refused as they are by libtorch', () => {
  const engine = new MetaEngine('cpu');
  const [a, b] = [engine.zeros([3, 4]), engine.zeros([5])];
  expect(() => engine.add(a, b)).toThrow(/must match/);
  expect(() => engine.reshape(a, [5, 2])).toThrow(/invalid/);
  expect(() => engine.narrow(a, 0, 0, 4)).toThrow(/exceeds/);
  engine.dispose(b);
  expect(() => engine.add(a, b)).toThrow(/freed/);
});
