import { afterAll, describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { collate, type EncodedPrompt, responseSequence } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { runSegment, Tape, taped } from '../../src/policy/gradient-checkpointing.ts';
import { layoutOf } from '../../src/policy/layout.ts';
import { parseDims } from '../../src/policy/model-config.ts';
import { Policy, type Tuning } from '../../src/policy/policy.ts';
import { randomWeights } from '../../src/policy/weights.ts';
import { engine, GOLDEN, golden, picture } from './golden.ts';

const born = engine.live();
const published = Policy.load(engine, GOLDEN);
const opened: Policy[] = [published];
afterAll(() => {
  for (const policy of opened) policy.dispose();
  expect(engine.live()).toBe(born);
});

/** The golden sizes with other weights and depth. */
function variant(options: { tied?: boolean; layers?: number; tuning?: Tuning } = {}): Policy {
  const { config } = published.parts;
  const text = { ...Object(config['text_config']), num_hidden_layers: options.layers ?? 2 };
  const changed = { ...config, text_config: text, tie_word_embeddings: options.tied ?? false };
  const flat = randomWeights(engine, layoutOf(parseDims(changed)), 8);
  const tuning = options.tuning ?? 'all';
  const policy = new Policy(engine, { ...published.parts, config: changed }, flat, { tuning });
  opened.push(policy);
  return policy;
}

const prompts: EncodedPrompt[] = golden.cases.map(({ text, sizes }) =>
  published.encodePrompt(
    text,
    sizes.map(([w, h]) => picture(w, h)),
  ),
);
const plain = prompts.find(({ images }) => images.length === 0)!;

/** A forward pass whose result has gradients everywhere that matters. */
type Pass = (policy: Policy, tape: Tape | undefined) => Tensor;

/** Asymmetric numbers for Σ result · weight. */
function weightsFor(result: Tensor): Tensor {
  const size = result.shape.reduce((a, b) => a * b, 1);
  return engine.tensor(
    Float32Array.from({ length: size }, (_, i) => Math.sin(1 + i * 0.7)),
    result.shape,
  );
}

interface Gradients {
  readonly values: Float32Array;
  readonly each: Map<string, Float32Array>;
}

const named = (policy: Policy, gradients: readonly Tensor[]): Map<string, Float32Array> =>
  new Map(policy.trainable.parameters.map(({ name }, i) => [name, engine.floats(gradients[i]!)]));

function direct(policy: Policy, pass: Pass): Gradients {
  return engine.scope(() => {
    const result = pass(policy, undefined);
    const found = engine.grad([result], policy.trainable.leaves, [weightsFor(result)]);
    return { values: engine.floats(result), each: named(policy, found) };
  });
}

function recomputed(policy: Policy, pass: Pass): Gradients & { segments: number } {
  return engine.scope(() => {
    const { leaves } = policy.trainable;
    const tape = new Tape(engine, leaves);
    const result = pass(policy, tape);
    const segments = tape.recorded.length;
    const sums = leaves.map(({ shape }) => engine.zeros(shape));
    tape.backward([[result, weightsFor(result)]], (leaf, gradient) => {
      const index = leaves.indexOf(leaf);
      expect(gradient.shape).toEqual(leaf.shape);
      engine.addInto(sums[index]!, 0, 0, gradient);
    });
    expect(tape.recorded).toHaveLength(0);
    return { values: engine.floats(result), each: named(policy, sums), segments };
  });
}

/** Largest difference between two gradients of one parameter, relative to its norm. */
function same(policy: Policy, pass: Pass): number {
  const [want, got] = [direct(policy, pass), recomputed(policy, pass)];
  expect(got.values).toEqual(want.values);
  for (const [name, values] of want.each) {
    const norm = Math.hypot(...values);
    const difference = Math.hypot(...values.map((v, i) => v - got.each.get(name)![i]!));
    expect(difference, name).toBeLessThanOrEqual(1e-6 * norm);
  }
  return got.segments;
}

/** The states of a batch, and log-probabilities of a token each, so that the head has a gradient. */
const scored = (policy: Policy, tape: Tape | undefined, states: Tensor): Tensor =>
  runSegment(tape, {
    inputs: [states],
    parameters: [policy.weights.head],
    body: ([hidden]) => {
      const count = hidden!.shape[0]!;
      const targets = engine.tensor(
        Int32Array.from({ length: count }, (_, k) => 3 + k),
        [count],
      );
      return [engine.logProbs(hidden!, policy.weights.head, targets).logProb];
    },
  })[0]!;

const withTape = (tape: Tape | undefined): { tape?: Tape } => (tape === undefined ? {} : { tape });

/** Prompts once, then three responses to each behind its keys and values; some states of both. */
const grouped: Pass = (policy, tape) =>
  taped(engine, tape, () => {
    const two = [prompts.at(-1)!, plain];
    const responses = [0, 0, 0, 1, 1, 1].map((p, r) =>
      responseSequence(
        two[p]!,
        Int32Array.from({ length: 2 + ((r * 3) % 7) }, (_, t) => 60 + ((r * 31 + t * 17) % 200)),
      ),
    );
    const before = forward(policy, { ...collate(two, 0), ...withTape(tape) });
    const after = forward(policy, {
      ...collate(responses, 0),
      prefix: before.cache,
      useCache: false,
      ...withTape(tape),
    });
    const select = engine.tensor(Int32Array.of(5, 0, before.hidden.shape[0]! + 3, 2, 5), [5]);
    const [states] = runSegment(tape, {
      inputs: [before.hidden, after.hidden],
      constants: select,
      body: ([a, b]) => [engine.indexSelect(engine.concat([a!, b!], 0), select)],
    });
    return scored(policy, tape, states!);
  });

describe('a tape', () => {
  it('gives the gradients of one sequence', () => {
    same(published, (policy, tape) => forward(policy, { ...collate([plain], 0), ...withTape(tape) }).hidden);
  });

  it.each([
    ['all states', undefined],
    ['some of the states', Int32Array.of(4, 0, 9)],
  ])('gives the gradients of a padded batch with several images: %s', (_, rows) => {
    const batch = collate(prompts, 0);
    expect(batch.lengths.reduce((a, b) => a + b, 0)).toBeLessThan(0.95 * batch.batch * batch.length);
    same(
      published,
      (policy, tape) =>
        forward(policy, { ...batch, ...(rows === undefined ? {} : { rows }), ...withTape(tape) }).hidden,
    );
  });

  it('gives the gradients of groups behind shared prompts, untied and tied', () => {
    const segments = same(published, grouped);
    // Two passes of two layers, embedding, norm; spreading a padded batch each; vision; joining; the head.
    expect(segments).toBe(2 * (1 + 2 + 1 + 1) + (1 + 3 + 1) + 1 + 1);
    same(variant({ tied: true, layers: 3 }), grouped);
  });

  it('gives the gradients of some states behind shared prompts, without padding in between', () => {
    const pass: Pass = (policy, tape) =>
      taped(engine, tape, () => {
        const before = forward(policy, { ...collate([plain, prompts.at(-1)!], 0), ...withTape(tape) });
        const responses = collate(
          [0, 0, 1, 1].map((p, r) =>
            responseSequence(
              [plain, prompts.at(-1)!][p]!,
              Int32Array.from({ length: 2 + 2 * r }, (_, t) => 50 + 3 * r + 7 * t),
            ),
          ),
          0,
        );
        const rows = Int32Array.of(1, 8, 0, 30, 9);
        return forward(policy, { ...responses, prefix: before.cache, rows, ...withTape(tape) }).hidden;
      });
    same(published, pass);
  });

  it('leaves out a frozen vision tower', () => {
    const policy = variant({ tuning: 'decoder' });
    const segments = same(policy, grouped);
    expect(segments).toBe(2 * (1 + 2 + 1 + 1) + 1 + 1);
  });

  it('records nothing when nothing is trained', () => {
    const policy = variant({ tuning: 'none' });
    engine.scope(() => {
      const tape = new Tape(engine, policy.trainable.leaves);
      const result = grouped(policy, tape);
      expect(tape.recorded).toHaveLength(0);
      expect(() => tape.backward([[result, weightsFor(result)]], () => {})).toThrow(
        /did not make, or that depends on no leaf/,
      );
    });
  });

  it('adds up several gradients, also of one result', () => {
    const pass: Pass = (policy, tape) =>
      forward(policy, { ...collate([plain], 0), ...withTape(tape) }).hidden;
    const twice = engine.scope(() => {
      const tape = new Tape(engine, published.trainable.leaves);
      const result = pass(published, tape);
      const sums = published.trainable.leaves.map(({ shape }) => engine.zeros(shape));
      const half = engine.mul(weightsFor(result), 0.5);
      tape.backward(
        [
          [result, half],
          [result, half],
        ],
        (leaf, gradient) => engine.addInto(sums[published.trainable.leaves.indexOf(leaf)]!, 0, 0, gradient),
      );
      expect(engine.floats(half)).toHaveLength(result.shape[0]! * result.shape[1]!); // the seeds are still ours
      return named(published, sums);
    });
    const once = direct(published, pass).each;
    for (const [name, values] of once) {
      const difference = Math.hypot(...values.map((v, i) => v - twice.get(name)![i]!));
      expect(difference, name).toBeLessThanOrEqual(1e-6 * Math.hypot(...values));
    }
  });

  it('frees everything, also when the sink fails', () => {
    const before = engine.live();
    recomputed(published, grouped);
    expect(engine.live()).toBe(before);
    const fail = (): void => {
      engine.scope(() => {
        const tape = new Tape(engine, published.trainable.leaves);
        const result = grouped(published, tape);
        tape.backward([[result, weightsFor(result)]], () => {
          throw new Error('sink');
        });
      });
    };
    expect(fail).toThrow('sink');
    expect(engine.live()).toBe(before);
  });

  it('frees what it kept as it goes back', () => {
    engine.scope(() => {
      const tape = new Tape(engine, published.trainable.leaves);
      const result = grouped(published, tape);
      const counts: number[] = [];
      const [seed, held] = [weightsFor(result), engine.live()];
      tape.backward([[result, seed]], () => counts.push(engine.live()));
      expect(counts.at(-1)!).toBeLessThan(counts[0]! - 10);
      expect(engine.live()).toBeLessThan(held - 10);
    });
  });

  it('says what a scope of the caller has freed', () => {
    engine.scope(() => {
      const tape = new Tape(engine, published.trainable.leaves);
      const batch = collate([plain], 0);
      const result = engine.scope(() => forward(published, { ...batch, tape }).hidden);
      expect(() => tape.backward([[result, weightsFor(result)]], () => {})).toThrow(/already freed/);
    });
  });

  it('keeps about one layer of activations at a time', () => {
    const policy = variant({ layers: 16 });
    const batch = collate(
      Array.from({ length: 6 }, () => plain),
      0,
    );
    const peak = (work: () => void): number => {
      engine.trackMemory();
      const start = engine.memory()!;
      engine.scope(work);
      return engine.memory()!.peak - start.now;
    };
    const whole = peak(() => {
      const { hidden } = forward(policy, batch);
      engine.grad([hidden], policy.trainable.leaves.slice(0, 1), [weightsFor(hidden)]);
    });
    const taken = peak(() => {
      const tape = new Tape(engine, policy.trainable.leaves);
      const { hidden } = forward(policy, { ...batch, useCache: false, tape });
      tape.backward([[hidden, weightsFor(hidden)]], () => {});
    });
    expect(whole / taken).toBeGreaterThan(4);
  });
});

describe('forward with a prefix', () => {
  it('refuses a prefix made without a cache', () => {
    engine.scope(() => {
      const batch = collate([plain], 0);
      const { cache } = forward(published, { ...batch, useCache: false });
      expect(cache.layers).toHaveLength(0);
      expect(() => forward(published, { ...batch, prefix: cache })).toThrow(EngineError);
      expect(() => forward(published, { ...batch, prefix: cache })).toThrow(/prefix of 0 layers/);
    });
  });
});
