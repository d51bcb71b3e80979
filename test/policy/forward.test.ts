import { afterAll, describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { type Batch, collate, type EncodedPrompt, joined, responseSequence } from '../../src/policy/batch.ts';
import { type ForwardInput, forward } from '../../src/policy/forward.ts';
import { publishedName } from '../../src/policy/layout.ts';
import { Policy } from '../../src/policy/policy.ts';
import { encodeImages } from '../../src/policy/vision.ts';
import { distance, engine, GOLDEN, type GoldenCase, golden, picture } from './golden.ts';

const policy = Policy.load(engine, GOLDEN);
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

function encode(row: GoldenCase): EncodedPrompt {
  return policy.encodePrompt(
    row.text,
    row.sizes.map(([w, h]) => picture(w, h)),
  );
}

/** Mean negative log-likelihood of the tokens 1 … T−1 of one row. */
function loss(row: GoldenCase): Tensor {
  const encoded = encode(row);
  const count = encoded.ids.length - 1;
  const { hidden } = forward(policy, collate([encoded], 0));
  const targets = engine.tensor(encoded.ids.slice(1), [count]);
  const { logProb } = engine.logProbs(engine.narrow(hidden, 0, 0, count), policy.weights.head, targets);
  return engine.div(engine.sum(logProb), -count);
}

/** Gradient of the flat weights. */
function gradient(output: Tensor): Float32Array {
  const parts = engine.grad(output, policy.parameters).map((part) => engine.reshape(part, [-1]));
  return engine.floats(engine.concat(parts, 0)); // [P]
}

describe('forward, against transformers', () => {
  it.each(golden.cases)('gives the same ids and positions: $name', (row) => {
    const encoded = encode(row);
    expect([...encoded.ids]).toEqual(row.ids);
    expect([...encoded.positions]).toEqual(row.positions.flat());
  });

  it.each(golden.cases)('gives the same visual tokens, hidden states and logits: $name', (row) => {
    engine.scope(() => {
      const encoded = encode(row);
      if (row.sizes.length > 0) {
        const features = encodeImages(engine, policy.weights, policy.dims.vision, encoded.images);
        expect(distance(engine.floats(features), row.features)).toBeLessThan(1e-4);
      }
      const { hidden } = forward(policy, collate([encoded], 0));
      expect(distance(engine.floats(hidden), row.hidden)).toBeLessThan(1e-4);
      const last = engine.narrow(hidden, 0, encoded.ids.length - 1, 1);
      expect(distance(engine.floats(policy.logits(last)), row.lastLogits)).toBeLessThan(1e-4);
    });
  });

  it.each(golden.cases.filter(({ sizes }) => sizes.length > 0))(
    'gives the same loss and gradient of every tensor: $name',
    (row) => {
      engine.scope(() => {
        const value = loss(row);
        expect(engine.item(value)).toBeCloseTo(row.loss, 5);
        const flat = gradient(value);
        const parts = new Map(
          policy.layout.parameters.flatMap(({ parts: all }) => all.map((part) => [part.name, part])),
        );
        expect(Object.keys(row.gradients)).toHaveLength(parts.size);
        for (const [name, want] of Object.entries(row.gradients)) {
          const { offset, shape } = parts.get(publishedName(name))!;
          const size = shape.reduce((a, b) => a * b, 1);
          const values = flat.subarray(offset, offset + size);
          const stride = Math.max(1, Math.floor(size / 5));
          const got = [...values.filter((_, i) => i % stride === 0).slice(0, 6), Math.hypot(...values)];
          const norm = want.at(-1)!;
          expect(
            distance(
              got.map((v) => v / norm),
              want.map((v) => v / norm),
            ),
            name,
          ).toBeLessThan(1e-4);
        }
      });
    },
  );
});

describe('forward', () => {
  it('has the gradient that finite differences give, for a direction in each kind of parameter', () => {
    const row = golden.cases[2]!;
    const flat = engine.scope(() => gradient(loss(row)));
    const before = engine.floats(policy.flat);
    for (const { name, offset, size } of policy.layout.parameters) {
      // Along the gradient itself the slope is its norm: the largest signal there is.
      const direction = flat.slice(offset, offset + size);
      const norm = Math.hypot(...direction);
      const step = 0.01 / Math.max(norm, 0.5);
      const at = (sign: number): number =>
        engine.scope(() => {
          const moved = before
            .slice(offset, offset + size)
            .map((v, i) => v + (sign * step * direction[i]!) / norm);
          engine.write(policy.flat, 0, offset, engine.tensor(moved, [size]));
          return engine.item(engine.noGrad(() => loss(row)));
        });
      const slope = (at(1) - at(-1)) / (2 * step);
      engine.scope(() =>
        engine.write(policy.flat, 0, offset, engine.tensor(before.slice(offset, offset + size), [size])),
      );
      // A float32 loss near 7 is exact to about 5e-7, and the step moves it by at most 0.01.
      expect(Math.abs(slope - norm), name).toBeLessThan(0.01 * norm + 1e-4);
    }
    expect(engine.floats(policy.flat)).toEqual(before);
  });

  it('gives each row of a padded batch what it gets alone', () => {
    engine.scope(() => {
      const prompts = golden.cases.map(encode);
      const batch = collate(prompts, policy.dims.special.pad);
      const together = engine.floats(forward(policy, batch).hidden);
      const { width } = policy.dims;
      for (const [b, row] of golden.cases.entries()) {
        const from = b * batch.length * width;
        expect(distance(together.subarray(from, from + row.hidden.length), row.hidden)).toBeLessThan(1e-4);
      }
    });
  });

  it('returns only the wanted rows, equal to those of the full pass', () => {
    engine.scope(() => {
      const batch = collate(golden.cases.map(encode), 0);
      const all = engine.floats(forward(policy, batch).hidden);
      const rows = Int32Array.of(3, batch.length + 7, batch.length + batch.lengths[1]! - 1, 5);
      const some = engine.floats(forward(policy, { ...batch, rows }).hidden);
      const { width } = policy.dims;
      const want = Float32Array.from(
        { length: 4 * width },
        (_, i) => all[rows[Math.floor(i / width)]! * width + (i % width)]!,
      );
      expect(distance(some, want)).toBeLessThan(1e-6);
    });
  });

  it('gives with a shared prompt the hidden states and gradients of each full sequence', () => {
    const prompts = [encode(golden.cases[2]!), encode(golden.cases[1]!)]; // of unequal length, with images
    const group = 3;
    const responses = Array.from({ length: prompts.length * group }, (_, r) =>
      Int32Array.from({ length: 3 + ((r * 2) % 5) }, (__, t) => 60 + ((r * 31 + t * 17) % 200)),
    );
    const { width } = policy.dims;
    const weight = (r: number, t: number, d: number): number => Math.sin(1 + r * 7 + t * 3 + d);
    /** Σ weight · hidden over the response tokens, and those hidden states. */
    const run = (
      hidden: Tensor,
      batch: Batch,
      offsets: number[],
    ): { states: number[]; gradient: Float32Array } => {
      const values = engine.floats(hidden);
      const weights = new Float32Array(values.length);
      const states: number[] = [];
      for (const [r, response] of responses.entries()) {
        for (let t = 0; t < response.length; t++) {
          for (let d = 0; d < width; d++) {
            const at = (r * batch.length + offsets[r]! + t) * width + d;
            states.push(values[at]!);
            weights[at] = weight(r, t, d);
          }
        }
      }
      const total = engine.sum(engine.mul(hidden, engine.tensor(weights, [values.length / width, width])));
      return { states, gradient: gradient(total) };
    };
    engine.scope(() => {
      const whole = collate(
        responses.map((response, r) => joined(prompts[Math.floor(r / group)]!, response)),
        0,
      );
      const full = run(
        forward(policy, whole).hidden,
        whole,
        responses.map((_, r) => prompts[Math.floor(r / group)]!.ids.length),
      );
      const { cache } = forward(policy, collate(prompts, 0));
      const own = collate(
        responses.map((response, r) => responseSequence(prompts[Math.floor(r / group)]!, response)),
        0,
      );
      const shared = run(
        forward(policy, { ...own, prefix: cache }).hidden,
        own,
        responses.map(() => 0),
      );
      expect(distance(shared.states, full.states)).toBeLessThan(1e-5);
      const norm = Math.hypot(...full.gradient);
      const error = Math.hypot(...shared.gradient.map((v, i) => v - full.gradient[i]!));
      expect(error / norm).toBeLessThan(1e-5);
    });
  });

  it('counts positions on through padding', () => {
    const prompt = encode(golden.cases[1]!);
    const batch = collate([joined(prompt, Int32Array.of(60, 61, 62)), joined(prompt, Int32Array.of(60))], 0);
    const row = (axis: number, b: number): number[] => [
      ...batch.positions.subarray((axis * 2 + b) * batch.length, (axis * 2 + b + 1) * batch.length),
    ];
    for (const axis of [0, 1, 2]) expect(row(axis, 1)).toEqual(row(axis, 0));
    expect(row(0, 0).at(-1)).toBe(prompt.next + 2);
    expect([...batch.lengths]).toEqual([prompt.ids.length + 3, prompt.ids.length + 1]);
  });

  it('refuses inputs whose parts disagree', () => {
    const batch = collate([encode(golden.cases[1]!)], 0);
    const bad: [Partial<ForwardInput>, RegExp][] = [
      [{ length: batch.length - 1 }, /needs as many tokens/],
      [{ positions: batch.positions.slice(1) }, /three times the positions/],
      [
        { images: [...batch.images, ...batch.images] },
        /12 visual tokens, but the tokens have 6 image places/,
      ],
    ];
    for (const [change, message] of bad) {
      expect(() => forward(policy, { ...batch, ...change })).toThrow(EngineError);
      expect(() => forward(policy, { ...batch, ...change })).toThrow(message);
    }
    expect(() => collate([], 0)).toThrow(/at least one sequence/);
    expect(() => collate([responseSequence(encode(golden.cases[0]!), new Int32Array(0))], 0)).toThrow(
      /at least one token/,
    );
  });
});
