import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/random.ts';
import {
  chunkTokens,
  headGradients,
  type PolicyLossOptions,
  policyLoss,
  supervisedLoss,
} from '../../src/train/loss.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';

const engine = openTorch({ threads: 1 });

/** Tokens of a step: [N] each. */
interface Tokens {
  readonly logProb: number[];
  readonly entropy: number[];
  readonly oldLogProb: number[];
  readonly referenceLogProb: number[];
  readonly advantage: number[];
}

const OPTIONS: PolicyLossOptions = { clipRatio: 0.2, kl: 0.05, entropy: 0.03 };

/** The definition, token by token. */
function plain(tokens: Tokens, { clipRatio, kl, entropy }: PolicyLossOptions) {
  const out = { loss: 0, kl: 0, entropy: 0, clipped: 0 };
  tokens.logProb.forEach((logProb, i) => {
    const advantage = tokens.advantage[i]!;
    const ratio = Math.exp(logProb - tokens.oldLogProb[i]!);
    const held = Math.min(1 + clipRatio, Math.max(1 - clipRatio, ratio));
    const toReference = tokens.referenceLogProb[i]! - logProb;
    const k3 = Math.min(10, Math.exp(toReference) - 1 - toReference);
    if (held * advantage < ratio * advantage) out.clipped++;
    out.kl += k3;
    out.entropy += tokens.entropy[i]!;
    out.loss += -Math.min(ratio * advantage, held * advantage) + kl * k3 - entropy * tokens.entropy[i]!;
  });
  return out;
}

function run(tokens: Tokens, options: PolicyLossOptions) {
  return engine.scope(() => {
    const column = (values: number[]) => engine.tensor(Float32Array.from(values), [values.length]);
    const logProb = engine.parameter(column(tokens.logProb));
    const entropy = engine.parameter(column(tokens.entropy));
    const result = policyLoss(
      engine,
      {
        logProb,
        entropy,
        oldLogProb: column(tokens.oldLogProb),
        referenceLogProb: column(tokens.referenceLogProb),
        advantage: column(tokens.advantage),
      },
      options,
    );
    const [forLogProb, forEntropy] = engine.grad(result.loss, [logProb, entropy]);
    return {
      loss: engine.item(result.loss),
      kl: result.kl,
      entropy: result.entropy,
      clipped: result.clipped,
      forLogProb: [...engine.floats(forLogProb!)],
      forEntropy: [...engine.floats(forEntropy!)],
    };
  });
}

function draw(seed: number, count: number): Tokens {
  const random = new Random(seed, 'loss');
  const many = (make: () => number): number[] => Array.from({ length: count }, make);
  const logProb = many(() => -3 * random.uniform());
  const near = (spread: number): number[] => logProb.map((value) => value + random.normal(0, spread));
  return {
    logProb,
    entropy: many(() => 2 * random.uniform()),
    oldLogProb: near(0.3),
    referenceLogProb: near(0.5),
    advantage: many(() => random.normal()),
  };
}

/** One token with the given ratio and advantage, at its own reference. */
const token = (ratio: number, advantage: number): Tokens => ({
  logProb: [-1],
  entropy: [0.5],
  oldLogProb: [-1 - Math.log(ratio)],
  referenceLogProb: [-1],
  advantage: [advantage],
});

describe('policy loss', () => {
  test('is the sum that its definition gives, with its parts', () => {
    fc.assert(
      fc.property(fc.nat(1e6), fc.integer({ min: 1, max: 9 }), (seed, count) => {
        const tokens = draw(seed, count);
        const got = run(tokens, OPTIONS);
        const want = plain(tokens, OPTIONS);
        expect(got.loss).toBeCloseTo(want.loss, 4);
        expect(got.kl).toBeCloseTo(want.kl, 4);
        expect(got.entropy).toBeCloseTo(want.entropy, 4);
        expect(got.clipped).toBe(want.clipped);
      }),
      { numRuns: 60 },
    );
  });

  test('has the gradient that finite differences of the definition give', () => {
    const tokens = draw(11, 12);
    const got = run(tokens, OPTIONS);
    const step = 1e-5;
    for (const [key, gradient] of [
      ['logProb', got.forLogProb],
      ['entropy', got.forEntropy],
    ] as const) {
      gradient.forEach((value, i) => {
        const at = (sign: number): number => {
          const moved = tokens[key].map((old, j) => (i === j ? old + sign * step : old));
          return plain({ ...tokens, [key]: moved }, OPTIONS).loss;
        };
        expect(value).toBeCloseTo((at(1) - at(-1)) / (2 * step), 4);
      });
    }
  });

  test.each([
    { ratio: 1.5, advantage: 2, clipped: 1, gradient: 0 },
    { ratio: 0.5, advantage: 2, clipped: 0, gradient: -1 },
    { ratio: 0.5, advantage: -2, clipped: 1, gradient: 0 },
    { ratio: 1.5, advantage: -2, clipped: 0, gradient: 3 },
    { ratio: 1.1, advantage: 2, clipped: 0, gradient: -2.2 },
  ])(
    'a ratio of $ratio with advantage $advantage is held back $clipped times',
    ({ ratio, advantage, clipped, gradient }) => {
      const got = run(token(ratio, advantage), { clipRatio: 0.2, kl: 0, entropy: 0 });
      expect(got.clipped).toBe(clipped);
      expect(got.forLogProb[0]).toBeCloseTo(gradient, 5);
    },
  );

  test('on policy the gradient is −advantage per token', () => {
    const tokens = { ...draw(3, 6) };
    const got = run({ ...tokens, oldLogProb: tokens.logProb }, { clipRatio: 0.2, kl: 0, entropy: 0 });
    got.forLogProb.forEach((value, i) => {
      expect(value).toBeCloseTo(-tokens.advantage[i]!, 6);
    });
    expect(got.clipped).toBe(0);
  });

  test('the divergence is never negative and zero at the reference', () => {
    const tokens = draw(8, 40);
    expect(run(tokens, OPTIONS).kl).toBeGreaterThan(0);
    const same = run({ ...tokens, referenceLogProb: tokens.logProb }, OPTIONS);
    expect(same.kl).toBe(0);
  });

  test.each([
    // log π_ref − log π of a token; what it counts, and the gradient of it: 1 − π_ref/π, or none at the limit.
    { apart: 2, kl: Math.exp(2) - 3, gradient: 1 - Math.exp(2) },
    { apart: 2.6, kl: Math.exp(2.6) - 3.6, gradient: 1 - Math.exp(2.6) },
    { apart: 2.62, kl: 10, gradient: 0 },
    { apart: 19, kl: 10, gradient: 0 },
    { apart: 500, kl: 10, gradient: 0 },
    { apart: -3, kl: Math.exp(-3) + 2, gradient: 1 - Math.exp(-3) },
    { apart: -10.9, kl: Math.exp(-10.9) + 9.9, gradient: 1 - Math.exp(-10.9) },
    { apart: -12, kl: 10, gradient: 0 },
    { apart: -500, kl: 10, gradient: 0 },
  ])('a token $apart nats from the reference counts $kl, with its gradient', ({ apart, kl, gradient }) => {
    const tokens = { ...token(1, 0), referenceLogProb: [-1 + apart] };
    const got = run(tokens, { clipRatio: 0.2, kl: 1, entropy: 0 });
    expect(got.kl).toBeCloseTo(kl, 4);
    expect(got.loss).toBeCloseTo(kl, 4);
    expect(got.forLogProb[0]).toBeCloseTo(gradient, 4);
  });

  test('a reference that is not finite is not hidden by the limit of the divergence', () => {
    const tokens = { ...token(1, 1), referenceLogProb: [Number.NaN] };
    expect(Number.isFinite(run(tokens, OPTIONS).loss)).toBe(false);
  });

  test('a token that is not finite makes the loss not finite, so that the step can be skipped', () => {
    expect(Number.isFinite(run(token(1, Number.NaN), OPTIONS).loss)).toBe(false);
  });
});

test('the supervised loss is minus the sum, its gradient −1 at every token', () => {
  engine.scope(() => {
    const logProb = engine.parameter(engine.tensor(Float32Array.of(-0.5, -2, -1.25), [3]));
    const loss = supervisedLoss(engine, logProb);
    expect(engine.item(loss)).toBeCloseTo(3.75, 6);
    expect([...engine.floats(engine.grad(loss, [logProb])[0]!)]).toEqual([-1, -1, -1]);
  });
});

const [TOKENS, WIDTH, VOCABULARY] = [7, 5, 11];
const random = new Random(4, 'head');
const noise = (...shape: number[]): Tensor =>
  engine.tensor(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random.normal()),
    shape,
  );
const hidden = noise(TOKENS, WIDTH);
const head = noise(VOCABULARY, WIDTH);
const mask = engine.tensor(
  Float32Array.from({ length: VOCABULARY }, (_, v) => (v === 3 ? -1e9 : 0)),
  [VOCABULARY],
);
const targets = Int32Array.of(0, 10, 4, 4, 9, 1, 7);
const options = { temperature: 0.8, mask, entropy: true };
const weights = Float32Array.from({ length: TOKENS }, (_, k) => Math.cos(2.3 * k) + 0.2);

/** A loss that is not linear in the log-probability and treats no two tokens alike. */
function loss(logProb: Tensor, entropy: Tensor | null, start: number, end: number): Tensor {
  const weight = engine.tensor(weights.subarray(start, end), [end - start]);
  const bent = engine.mul(engine.exp(engine.mul(logProb, 0.3)), weight);
  return engine.sub(engine.sum(bent), engine.mul(engine.sum(engine.mul(entropy!, weight)), 0.5));
}

/** Autograd of the whole loss in one graph. */
const whole = engine.scope(() => {
  const states = engine.parameter(hidden);
  const matrix = engine.parameter(head);
  const { logProb, entropy } = engine.logProbs(states, matrix, engine.tensor(targets, [TOKENS]), options);
  const [forHidden, forHead] = engine.grad(loss(logProb, entropy, 0, TOKENS), [states, matrix]);
  return { hidden: engine.floats(forHidden!), head: engine.floats(forHead!) };
});
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

describe('head gradients', () => {
  test.each([
    { name: 'in one chunk', size: TOKENS },
    { name: 'in chunks that do not divide the tokens', size: 3 },
    { name: 'token by token', size: 1 },
  ])('are those of autograd over the whole loss: $name', ({ size }) => {
    engine.scope(() => {
      const spans: [number, number][] = [];
      const forHead = new Float32Array(VOCABULARY * WIDTH);
      const traced = (logProb: Tensor, entropy: Tensor | null, start: number, end: number): Tensor => {
        spans.push([start, end]);
        return loss(logProb, entropy, start, end);
      };
      const add = (part: Tensor): void => {
        engine.floats(part).forEach((value, i) => {
          forHead[i]! += value;
        });
      };
      const got = headGradients(engine, hidden, head, targets, options, traced, add, size);
      expect(got.shape).toEqual([TOKENS, WIDTH]);
      expect(relativeDistance(engine.floats(got), whole.hidden)).toBeLessThan(1e-5);
      expect(relativeDistance(forHead, whole.head)).toBeLessThan(1e-5);
      expect(spans).toHaveLength(Math.ceil(TOKENS / size));
      expect(spans[0]).toEqual([0, size]);
      expect(spans.at(-1)![1]).toBe(TOKENS);
    });
  });

  test('start from states that carry a history of their own, without reaching into it', () => {
    engine.scope(() => {
      const leaf = engine.parameter(hidden);
      const states = engine.mul(leaf, 2);
      const got = headGradients(engine, states, head, targets, options, loss, null, 2);
      const [chained] = engine.grad(states, [leaf], got);
      expect(relativeDistance(engine.floats(chained!), engine.floats(engine.mul(got, 2)))).toBeLessThan(1e-6);
    });
  });

  test('of a head that is not trained are not computed, and those of the states are the same', () => {
    engine.scope(() => {
      const got = headGradients(engine, hidden, engine.parameter(head), targets, options, loss, null, 3);
      expect(relativeDistance(engine.floats(got), whole.hidden)).toBeLessThan(1e-5);
    });
  });

  test('hold no more tokens than fit: at least one, however large the vocabulary', () => {
    expect(chunkTokens(engine, 1 << 10)).toBe(1 << 14);
    expect(chunkTokens(engine, 1 << 28)).toBe(1);
  });
});
