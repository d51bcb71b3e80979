import { afterAll, describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { CheckpointError, ConfigError } from '../../src/ground/errors.ts';
import { collate, type EncodedPrompt, responseSequence } from '../../src/policy/batch.ts';
import { forward, type Network } from '../../src/policy/forward.ts';
import { generate } from '../../src/policy/generate.ts';
import { runSegment, Tape, taped } from '../../src/policy/gradient-checkpointing.ts';
import {
  type Adapter,
  type AdapterOptions,
  adapterLayout,
  createAdapter,
  mergeAdapter,
} from '../../src/policy/lora.ts';
import { ADAPTER_TARGETS } from '../../src/policy/lora-targets.ts';
import type { Dims } from '../../src/policy/model-config.ts';
import { type LoadOptions, Policy } from '../../src/policy/policy.ts';
import { distance, engine, GOLDEN, golden, picture } from './golden.ts';

const born = engine.live();
const base = Policy.load(engine, GOLDEN);
const opened: Policy[] = [base];
afterAll(() => {
  for (const policy of opened) policy.dispose();
  expect(engine.live()).toBe(born);
});

const EVERY: AdapterOptions = { rank: 3, alpha: 5, targets: ADAPTER_TARGETS };
/** Of each fused product only a part, not always the first. */
const SOME: AdapterOptions = {
  rank: 2,
  alpha: 2,
  rslora: true,
  targets: ['v_proj', 'q_proj', 'up_proj', 'visual.up_proj', 'visual.merger.2'],
};

/** An adapter whose B is no longer zero. */
function trained(dims: Dims, options: AdapterOptions): Adapter {
  const adapter = createAdapter(engine, dims, options, 4);
  engine.scope(() => {
    for (const { name, offset, size } of adapterLayout(dims, options).parameters) {
      if (!name.endsWith('.up')) continue;
      const values = Float32Array.from({ length: size }, (_, i) => 0.2 * Math.sin(offset + 0.7 * i));
      engine.write(adapter.flat, 0, offset, engine.tensor(values, [size]));
    }
  });
  return adapter;
}

function adapted(options: AdapterOptions, more: LoadOptions = {}, make = trained): Policy {
  const policy = Policy.load(engine, GOLDEN, { ...more, adapter: (dims) => make(dims, options) });
  opened.push(policy);
  return policy;
}

const prompts: EncodedPrompt[] = golden.cases.map(({ text, sizes }) =>
  base.encodePrompt(
    text,
    sizes.map(([w, h]) => picture(w, h)),
  ),
);

const states = (network: Network): Float32Array =>
  engine.scope(() =>
    engine.noGrad(() => engine.floats(engine.cast(forward(network, collate(prompts, 0)).hidden, 'float32'))),
  );

/** A sum over states of prompts and of responses behind them. */
function total(policy: Policy, tape?: Tape): Tensor {
  return taped(engine, tape, () => {
    const { pad } = policy.dims.special;
    const shared = tape === undefined ? {} : { tape };
    const before = forward(policy, { ...collate(prompts.slice(0, 2), pad), ...shared });
    const responses = [0, 0, 1, 1].map((p, r) =>
      responseSequence(
        prompts[p]!,
        Int32Array.from({ length: 3 + r }, (_, t) => 50 + r + 7 * t),
      ),
    );
    const after = forward(policy, {
      ...collate(responses, pad),
      prefix: before.cache,
      useCache: false,
      ...shared,
    });
    const [sum] = runSegment(tape, {
      inputs: [before.hidden, after.hidden],
      body: ([a, b]) => {
        const all = engine.concat([a!, b!], 0);
        const size = all.shape[0]! * all.shape[1]!;
        const weights = Float32Array.from(
          { length: size },
          (_, i) => Math.sin(1 + 0.3 * i) / Math.sqrt(size),
        );
        return [engine.sum(engine.mul(all, engine.tensor(weights, all.shape)))];
      },
    });
    return sum!;
  });
}

const gradients = (policy: Policy): Float32Array[] =>
  engine.scope(() =>
    engine.grad(total(policy), policy.trainable.leaves).map((gradient) => engine.floats(gradient)),
  );

describe('a new adapter', () => {
  it('starts uniform in ±1/√inputs beside zeros, each matrix by seed and name alone', () => {
    const [every, some, other] = [
      createAdapter(engine, base.dims, EVERY, 4),
      createAdapter(engine, base.dims, { ...SOME, rank: 3 }, 4),
      createAdapter(engine, base.dims, EVERY, 5),
    ];
    const parts = (adapter: Adapter): Map<string, number[]> => {
      const flat = engine.floats(adapter.flat);
      const layout = adapterLayout(base.dims, adapter.options);
      return new Map(
        layout.parameters.flatMap((parameter) =>
          parameter.parts.map(({ name, offset, shape }) => [
            name,
            [...flat.subarray(offset, offset + shape[0]! * shape[1]!)],
          ]),
        ),
      );
    };
    const [all, few, others] = [parts(every), parts(some), parts(other)];
    const { layers, vision } = base.dims;
    expect(all.size).toBe(2 * (7 * layers + 5 * vision.depth + 2));
    for (const [name, values] of few) expect(values, name).toEqual(all.get(name));
    const bound = 1 / Math.sqrt(base.dims.inner); // 44, of the down projection alone
    for (const [name, values] of all) {
      if (name.includes('lora_B')) expect(values.every((v) => v === 0)).toBe(true);
      else expect(values).not.toEqual(others.get(name));
    }
    const down = [...all]
      .filter(([name]) => /^model.*down_proj\.lora_A/.test(name))
      .flatMap(([, values]) => values);
    expect(Math.max(...down.map(Math.abs))).toBeLessThanOrEqual(bound);
    expect(Math.max(...down)).toBeGreaterThan(0.9 * bound);
    expect(Math.min(...down)).toBeLessThan(-0.9 * bound);
    const square = down.reduce((sum, v) => sum + v * v, 0) / down.length;
    expect(Math.sqrt(3 * square) / bound).toBeCloseTo(1, 1);
    engine.dispose(every.flat, some.flat, other.flat);
  });

  it.each([
    ['every projection', EVERY],
    ['some', SOME],
  ])('leaves every state bit for bit as it was: %s', (_, options) => {
    const policy = adapted(options, {}, (dims) => createAdapter(engine, dims, options, 4));
    expect(states(policy)).toEqual(states(base));
  });

  it('refuses options that make no sense', () => {
    const refused: [Partial<AdapterOptions>, RegExp][] = [
      [{ rank: 0 }, /rank must be a positive integer, got 0/],
      [{ rank: 1.5 }, /got 1\.5/],
      [{ alpha: 0 }, /alpha must be a positive number/],
      [{ alpha: Number.NaN }, /got NaN/],
      [{ targets: [] }, /got none/],
      [{ targets: ['q_proj', 'q_proj'] }, /different ones/],
      [{ targets: ['lm_head' as 'q_proj'] }, /got lm_head/],
    ];
    for (const [change, message] of refused) {
      expect(() => createAdapter(engine, base.dims, { ...EVERY, ...change }, 1)).toThrow(ConfigError);
      expect(() => createAdapter(engine, base.dims, { ...EVERY, ...change }, 1)).toThrow(message);
    }
  });
});

describe.each([
  ['every projection', EVERY],
  ['some projections', SOME],
])('an adapter on %s', (_, options) => {
  it('computes what the merged policy does, and merging leaves it so', async () => {
    const policy = adapted(options);
    const before = states(policy);
    expect(distance(before, states(base))).toBeGreaterThan(0.05);
    expect(states(policy.withoutAdapter)).toEqual(states(base));
    const settings = { temperature: 0, maxTokens: 24, seed: 1, samples: 2 };
    const written = await generate(policy, prompts, settings);
    const sides = new Policy(engine, policy.parts, engine.detach(policy.flat), { tuning: 'none' });
    opened.push(sides);
    expect(distance(before, states(sides))).toBeGreaterThan(0.05);
    mergeAdapter(policy);
    expect(distance(states(sides), before)).toBeLessThan(1e-5);
    expect(distance(states(policy), before)).toBeLessThan(1e-5);
    const merged = await generate(sides, prompts, settings);
    expect(merged.map(({ ids }) => [...ids])).toEqual(written.map(({ ids }) => [...ids]));
    expect((await generate(base, prompts, settings)).map(({ ids }) => [...ids])).not.toEqual(
      merged.map(({ ids }) => [...ids]),
    );
  });

  it('has the gradient of the merged weights, through A and B', () => {
    const policy = adapted(options);
    const found = gradients(policy);
    const { alpha, rank, rslora } = options;
    const layout = adapterLayout(policy.dims, options);
    const start = engine.floats(policy.adapter!.flat);
    const merged = Policy.load(engine, GOLDEN);
    opened.push(merged);
    const flat = adapted(options, { tuning: 'none' });
    mergeAdapter(flat);
    engine.scope(() => engine.write(merged.flat, 0, 0, flat.flat));
    const whole = engine.scope(() =>
      engine.grad(total(merged), merged.parameters).map((gradient) => engine.floats(gradient)),
    );
    const places = new Map(
      merged.layout.parameters.flatMap((parameter, i) =>
        parameter.parts.map((part) => [
          part.name,
          { values: whole[i]!, from: part.offset - parameter.offset, shape: part.shape },
        ]),
      ),
    );
    for (const [i, parameter] of layout.parameters.entries()) {
      for (const part of parameter.parts) {
        const [, projection, side] = /^(.+)\.lora_([AB])\.weight$/.exec(part.name)!;
        const { values, from, shape } = places.get(`${projection}.weight`)!;
        const [outputs, inputs] = shape as [number, number];
        const twin = layout.parameters
          .flatMap(({ parts }) => parts)
          .find(({ name }) => name === `${projection}.lora_${side === 'A' ? 'B' : 'A'}.weight`)!;
        const want = new Float64Array(part.shape[0]! * part.shape[1]!);
        for (let o = 0; o < outputs; o++) {
          for (let k = 0; k < inputs; k++) {
            const slope = (values[from + o * inputs + k]! * alpha) / (rslora ? Math.sqrt(rank) : rank);
            for (let r = 0; r < rank; r++) {
              if (side === 'A') want[r * inputs + k]! += slope * start[twin.offset + o * rank + r]!;
              else want[o * rank + r]! += slope * start[twin.offset + r * inputs + k]!;
            }
          }
        }
        const at = part.offset - parameter.offset;
        const got = found[i]!.subarray(at, at + want.length);
        const norm = Math.hypot(...want);
        expect(norm).toBeGreaterThan(0);
        expect(Math.hypot(...want.map((v, j) => v - got[j]!)), part.name).toBeLessThan(2e-5 * norm);
      }
    }
  });

  it('has the same gradient with a tape, which asks nothing of the base', () => {
    const policy = adapted(options);
    const want = gradients(policy);
    engine.scope(() => {
      const { leaves } = policy.trainable;
      const tape = new Tape(engine, leaves);
      const result = total(policy, tape);
      const sums = leaves.map(({ shape }) => engine.zeros(shape));
      tape.backward([[result, engine.tensor(Float32Array.of(1), [])]], (leaf, gradient) => {
        engine.addInto(sums[leaves.indexOf(leaf)]!, 0, 0, gradient);
      });
      for (const [i, { name }] of policy.trainable.parameters.entries()) {
        expect(distance(engine.floats(sums[i]!), want[i]!), name).toBeLessThan(1e-6);
      }
    });
  });
});

describe('a policy with an adapter', () => {
  it('has the gradient that finite differences give', () => {
    const policy = adapted(EVERY);
    const found = gradients(policy);
    const { flat, parameters } = policy.trainable;
    const before = engine.floats(flat);
    for (const [i, { name, offset, size }] of parameters.entries()) {
      const norm = Math.hypot(...found[i]!);
      const step = 0.01 / Math.max(norm, 0.5);
      const at = (sign: number): number =>
        engine.scope(() => {
          const moved = found[i]!.map((slope, j) => before[offset + j]! + (sign * step * slope) / norm);
          engine.write(flat, 0, offset, engine.tensor(moved, [size]));
          return engine.item(engine.noGrad(() => total(policy)));
        });
      const slope = (at(1) - at(-1)) / (2 * step);
      engine.scope(() =>
        engine.write(flat, 0, offset, engine.tensor(before.slice(offset, offset + size), [size])),
      );
      expect(Math.abs(slope - norm), name).toBeLessThan(0.01 * norm + 2e-4);
    }
  });

  it('trains the adapter alone', () => {
    const policy = adapted(SOME);
    expect(policy.tuning).toBe('adapter');
    expect(policy.trainable.flat).toBe(policy.adapter!.flat);
    const [weights, reference] = [engine.floats(policy.flat), states(policy.withoutAdapter)];
    const before = states(policy);
    engine.scope(() => {
      const parts = engine
        .grad(total(policy), policy.trainable.leaves)
        .map((gradient) => engine.reshape(gradient, [-1]));
      const { flat } = policy.trainable;
      engine.adamW(
        {
          parameters: flat,
          gradients: engine.concat(parts, 0),
          firstMoment: engine.zeros(flat.shape),
          secondMoment: engine.zeros(flat.shape),
          decay: 0,
        },
        { learningRate: 0.01, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, step: 1 },
      );
      // Nothing of the base is recorded.
      expect(() => engine.grad(total(policy), [policy.weights.embed])).toThrow(/does not require grad/);
    });
    expect(engine.floats(policy.flat)).toEqual(weights);
    expect(states(policy.withoutAdapter)).toEqual(reference);
    expect(distance(states(policy), before)).toBeGreaterThan(1e-3);
  });

  it('holds it in float32 beside weights of bfloat16', () => {
    const policy = adapted(EVERY, { dtype: 'bfloat16' });
    const exact = new Policy(engine, base.parts, engine.cast(policy.flat, 'float32'), {
      adapter: (dims) => trained(dims, EVERY),
    });
    opened.push(exact);
    expect(policy.flat.dtype).toBe('bfloat16');
    const [got, want] = [states(policy), states(exact)];
    const difference = Math.hypot(...got.map((v, i) => v - want[i]!)) / Math.hypot(...want);
    expect(difference).toBeGreaterThan(1e-4);
    expect(difference).toBeLessThan(0.03);
    engine.scope(() => {
      const { hidden } = forward(policy, collate(prompts, 0));
      expect(hidden.dtype).toBe('bfloat16');
      const [gradient] = engine.grad([engine.sum(hidden)], policy.trainable.leaves);
      expect(gradient!.dtype).toBe('float32');
    });
    mergeAdapter(policy);
    const merged = states(policy);
    expect(Math.hypot(...merged.map((v, i) => v - want[i]!)) / Math.hypot(...want)).toBeLessThan(0.03);
  });

  it('refuses a tuning that does not fit, and an adapter of other sizes', () => {
    const before = engine.live();
    expect(() => Policy.load(engine, GOLDEN, { tuning: 'adapter' })).toThrow(ConfigError);
    expect(() => Policy.load(engine, GOLDEN, { tuning: 'adapter' })).toThrow(/needs an adapter/);
    const adapter = createAdapter(engine, base.dims, SOME, 1);
    expect(() => Policy.load(engine, GOLDEN, { tuning: 'decoder', adapter })).toThrow(/merge the adapter/);
    expect(() => mergeAdapter(base)).toThrow(CheckpointError);
    const other = { options: { ...SOME, rank: 4 }, flat: adapter.flat };
    expect(() => engine.scope(() => new Policy(engine, base.parts, base.flat, { adapter: other }))).toThrow(
      /adapter weights are float32/,
    );
    engine.dispose(adapter.flat);
    expect(engine.live()).toBe(before);
  });
});
