import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { choiceNames } from '../../src/ground/choice.ts';
import { Random } from '../../src/ground/random.ts';
import {
  AGGREGATIONS,
  type Aggregation,
  entropyThreshold,
  KL_ESTIMATORS,
  type KlEstimator,
  kalmanLogRatio,
  type PolicyLossOptions,
  policyLoss,
  type RatioLevel,
  sequenceLogRatio,
} from '../../src/train/loss.ts';
import { DEVICE } from '../helpers/device.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });

/** Tokens of a step: [N] each. */
interface Tokens {
  readonly logProb: number[];
  readonly entropy: number[];
  readonly oldLogProb: number[];
  readonly referenceLogProb: number[];
  readonly advantage: number[];
  readonly logRatio?: number[];
  readonly weight?: number[];
  readonly active?: number[];
}

const OPTIONS: PolicyLossOptions = {
  loss: 'ppo',
  clipRatio: 0.2,
  clipRatioHigh: null,
  clipRatioDual: null,
  kl: 0.05,
  klEstimator: 'k3',
  entropy: 0.03,
};

/** The definition, token by token; what has no gradient is taken from `at`. */
function plain(tokens: Tokens, options: PolicyLossOptions, at: Tokens = tokens) {
  const { clipRatio, clipRatioHigh, clipRatioDual, kl, klEstimator, entropy } = options;
  const out = { loss: 0, kl: 0, entropy: 0, clipped: 0 };
  const held = (ratio: number): number =>
    Math.min(1 + (clipRatioHigh ?? clipRatio), Math.max(1 - clipRatio, ratio));
  tokens.logProb.forEach((logProb, i) => {
    const advantage = tokens.advantage[i]!;
    const level = tokens.logRatio?.[i];
    const moved = logProb - at.logProb[i]!;
    const ratio = Math.exp(level === undefined ? logProb - tokens.oldLogProb[i]! : level + moved);
    let gain = Math.min(ratio * advantage, held(ratio) * advantage);
    if (clipRatioDual !== null && advantage < 0) gain = Math.max(gain, clipRatioDual * advantage);
    if (options.loss === 'cispo') {
      const fixed = held(Math.exp(level ?? at.logProb[i]! - tokens.oldLogProb[i]!));
      gain = fixed * advantage * logProb;
      if (fixed !== Math.exp(level ?? at.logProb[i]! - tokens.oldLogProb[i]!)) out.clipped++;
    } else if (gain !== ratio * advantage) out.clipped++;
    const toReference = tokens.referenceLogProb[i]! - logProb;
    const k3 = Math.min(10, Math.exp(toReference) - 1 - toReference);
    const estimate = { k1: -toReference, k2: 0.5 * toReference ** 2, k3 }[klEstimator];
    out.kl += k3;
    out.entropy += tokens.entropy[i]!;
    const active = tokens.active?.[i] ?? 1;
    out.loss += (tokens.weight?.[i] ?? 1) * (kl * estimate - active * (gain + entropy * tokens.entropy[i]!));
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
        ...(tokens.logRatio === undefined ? {} : { logRatio: column(tokens.logRatio) }),
        ...(tokens.weight === undefined ? {} : { weight: column(tokens.weight) }),
        ...(tokens.active === undefined ? {} : { active: column(tokens.active) }),
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

  const drawn = draw(11, 12);
  const apart = drawn.logProb.map((value, i) => value - drawn.oldLogProb[i]!);
  const variants: readonly { name: string; options: Partial<PolicyLossOptions>; tokens?: Partial<Tokens> }[] =
    [
      { name: 'as the default has it', options: {} },
      { name: 'clipped higher', options: { clipRatioHigh: 0.5 } },
      { name: 'clipped on both sides of negative advantages', options: { clipRatioDual: 1.25 } },
      { name: 'CISPO', options: { loss: 'cispo', clipRatioHigh: 0.3 } },
      { name: 'with k1', options: { klEstimator: 'k1' } },
      { name: 'with k2', options: { klEstimator: 'k2' } },
      {
        name: 'at sequence level, as a mean over responses',
        options: { clipRatio: 0.05 },
        tokens: {
          logRatio: [...sequenceLogRatio(Float32Array.from(apart), [5, 7])],
          weight: [...AGGREGATIONS.sequence_mean.weights([5, 7])],
        },
      },
      {
        name: 'filtered along the tokens',
        options: { clipRatio: 0.1, clipRatioDual: 1.05 },
        tokens: { logRatio: [...kalmanLogRatio(Float32Array.from(apart), [5, 7], 0.5)] },
      },
      {
        name: 'CISPO at sequence level',
        options: { loss: 'cispo', clipRatio: 0.05 },
        tokens: { logRatio: [...sequenceLogRatio(Float32Array.from(apart), [5, 7])] },
      },
      {
        name: 'of some tokens alone, weighted',
        options: {},
        tokens: {
          active: [1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1],
          weight: drawn.entropy.map((value) => 1 + value),
        },
      },
    ];

  test.each(variants)(
    'has the gradient that finite differences of the definition give: $name',
    ({ options, tokens }) => {
      const own = { ...OPTIONS, ...options };
      const given: Tokens = { ...drawn, ...tokens };
      const got = run(given, own);
      const want = plain(given, own);
      expect(got.loss).toBeCloseTo(want.loss, 4);
      expect(got.kl).toBeCloseTo(want.kl, 4);
      expect(got.entropy).toBeCloseTo(want.entropy, 4);
      expect(got.clipped).toBe(want.clipped);
      const step = 1e-5;
      for (const [key, gradient] of [
        ['logProb', got.forLogProb],
        ['entropy', got.forEntropy],
      ] as const) {
        gradient.forEach((value, i) => {
          const at = (sign: number): number => {
            const moved = given[key].map((old, j) => (i === j ? old + sign * step : old));
            return plain({ ...given, [key]: moved }, own, given).loss;
          };
          expect(value).toBeCloseTo((at(1) - at(-1)) / (2 * step), 4);
        });
      }
    },
  );

  test.each([
    { ratio: 1.5, advantage: 2, clipped: 1, gradient: 0 },
    { ratio: 0.5, advantage: 2, clipped: 0, gradient: -1 },
    { ratio: 0.5, advantage: -2, clipped: 1, gradient: 0 },
    { ratio: 1.5, advantage: -2, clipped: 0, gradient: 3 },
    { ratio: 1.1, advantage: 2, clipped: 0, gradient: -2.2 },
  ])(
    'a ratio of $ratio with advantage $advantage is held back $clipped times',
    ({ ratio, advantage, clipped, gradient }) => {
      const got = run(token(ratio, advantage), { ...OPTIONS, kl: 0, entropy: 0 });
      expect(got.clipped).toBe(clipped);
      expect(got.forLogProb[0]).toBeCloseTo(gradient, 5);
    },
  );

  test('on policy the gradient is −advantage per token', () => {
    const tokens = { ...draw(3, 6) };
    const got = run({ ...tokens, oldLogProb: tokens.logProb }, { ...OPTIONS, kl: 0, entropy: 0 });
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
    const got = run(tokens, { ...OPTIONS, kl: 1, entropy: 0 });
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

test('the sequence level is the mean log-ratio of each response at each of its tokens', () => {
  const got = sequenceLogRatio(Float32Array.of(0.5, -1.5, 1, 3, 0, 2), [3, 1, 2]);
  expect([...got]).toEqual([0, 0, 0, 3, 1, 1]);
});

describe('log-ratios filtered along the tokens', () => {
  const noisy = fc.array(fc.float({ min: -4, max: 4, noNaN: true }), { minLength: 1, maxLength: 30 });

  test('are the update of a Kalman filter of a random walk', () => {
    // By hand, Q/V = 0.5: gains 1.5/2.5 = .6, then (.4·1.5 + .5)/(…+1) = 1.1/2.1.
    const [first, second] = kalmanLogRatio(Float32Array.of(1, 3), [2], 0.5);
    expect(first).toBeCloseTo(0.6, 6);
    expect(second).toBeCloseTo(0.6 + (1.1 / 2.1) * 2.4, 6);
  });

  test('do not depend on later tokens, nor on other responses', () => {
    fc.assert(
      fc.property(noisy, noisy, fc.double({ min: 0, max: 10, noNaN: true }), (one, other, noise) => {
        const own = kalmanLogRatio(Float32Array.from(one), [one.length], noise);
        const both = kalmanLogRatio(Float32Array.from([...one, ...other]), [one.length, other.length], noise);
        expect([...both.subarray(0, one.length)]).toEqual([...own]);
        const longer = kalmanLogRatio(
          Float32Array.from([...one, ...other]),
          [one.length + other.length],
          noise,
        );
        expect([...longer.subarray(0, one.length)]).toEqual([...own]);
      }),
    );
  });

  test('are between the mean so far, one zero counted, and the log-ratio itself', () => {
    const values = Float32Array.of(2, -1, 0.5, 4);
    const still = kalmanLogRatio(values, [4], 0);
    let sum = 0;
    values.forEach((value, t) => {
      sum += value;
      expect(still[t]).toBeCloseTo(sum / (t + 2), 5);
    });
    kalmanLogRatio(values, [4], 1e6).forEach((value, t) => {
      expect(value).toBeCloseTo(values[t]!, 4);
    });
    expect([...kalmanLogRatio(new Float32Array(3), [3], 1e-6)]).toEqual([0, 0, 0]);
  });
});

test('the denominators are those of the whole update, and weights of a response sum to 1 in a mean over responses', () => {
  const update = { tokens: 30, responses: 4, most: 80 };
  expect(AGGREGATIONS.token_mean.denominator(update)).toBe(30);
  expect(AGGREGATIONS.sequence_mean.denominator(update)).toBe(4);
  expect(AGGREGATIONS.constant.denominator(update)).toBe(80);
  expect(AGGREGATIONS.token_mean.weights).toBeNull();
  expect(AGGREGATIONS.constant.weights).toBeNull();
  expect([...AGGREGATIONS.sequence_mean.weights([2, 4])]).toEqual([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]);
});

test('the tokens of highest entropy are those above a quantile', () => {
  const entropies = Float64Array.of(0.5, 3, 1, 2, 4);
  expect(entropyThreshold(entropies, 0.5)).toBe(2);
  expect(entropyThreshold(entropies, 0.2)).toBeCloseTo(3.2, 5);
  expect(entropyThreshold(entropies, 1)).toBe(0.5);
  expect(entropyThreshold(new Float64Array(0), 0.2)).toBe(-Infinity);
});

interface Golden {
  readonly lengths: number[];
  readonly most: number;
  readonly advantage: number[];
  readonly logProb: number[];
  readonly oldLogProb: number[];
  readonly referenceLogProb: number[];
  readonly entropy: number[];
  readonly cases: readonly {
    readonly by: string;
    readonly options: Partial<PolicyLossOptions> & {
      readonly aggregation?: Aggregation;
      readonly ratio?: RatioLevel;
      readonly topEntropy?: number;
    };
    readonly loss: number;
    readonly gradient: number[];
  }[];
  readonly divergence: { readonly apart: number[] } & Record<
    KlEstimator,
    { readonly value: number[]; readonly gradient: number[] }
  >;
}

// Made by the functions of verl and TRL (test/golden/make_policy.py; versions inside the file).
const golden = JSON.parse(
  readFileSync(new URL('../golden/policy/losses.json', import.meta.url), 'utf8'),
) as Golden;

describe('verl and TRL', () => {
  const { lengths } = golden;
  const spread = (values: readonly number[]): number[] =>
    lengths.flatMap((length, b) => new Array<number>(length).fill(values[b]!));

  test.each(golden.cases)('have the same loss and gradient: $by, $options', ({ options, loss, gradient }) => {
    const { aggregation = 'token_mean', ratio = 'token', topEntropy = 1, ...rest } = options;
    const { logProb, oldLogProb, referenceLogProb, entropy } = golden;
    const apart = Float32Array.from(logProb, (value, i) => value - oldLogProb[i]!);
    const weight = AGGREGATIONS[aggregation].weights?.(lengths) ?? null;
    const least = entropyThreshold(Float64Array.from(entropy), topEntropy);
    const tokens: Tokens = {
      ...{ logProb, oldLogProb, referenceLogProb, entropy, advantage: spread(golden.advantage) },
      ...(ratio === 'sequence' ? { logRatio: [...sequenceLogRatio(apart, lengths)] } : {}),
      ...(weight === null ? {} : { weight: [...weight] }),
      active: entropy.map((value) => (value >= Math.fround(least) ? 1 : 0)),
    };
    const got = run(tokens, { ...OPTIONS, kl: 0, entropy: 0, ...rest });
    const counts = { tokens: logProb.length, responses: lengths.length, most: lengths.length * golden.most };
    const denominator = AGGREGATIONS[aggregation].denominator(counts);
    expect(got.loss / denominator).toBeCloseTo(loss, 5);
    got.forLogProb.forEach((value, i) => {
      expect(value / denominator).toBeCloseTo(gradient[i]!, 5);
    });
  });

  test.each(choiceNames(KL_ESTIMATORS))('have the same %s, with its gradient', (estimator) => {
    const { apart } = golden.divergence;
    const { value, gradient } = golden.divergence[estimator];
    apart.forEach((distance, i) => {
      expect(KL_ESTIMATORS[estimator].estimate(distance)).toBeCloseTo(value[i]!, 4);
      const at = { ...token(1, 0), logProb: [0], oldLogProb: [0], referenceLogProb: [distance] };
      const got = run(at, { ...OPTIONS, kl: 1, klEstimator: estimator, entropy: 0 });
      expect(got.loss).toBeCloseTo(value[i]!, 4);
      expect(got.forLogProb[0]).toBeCloseTo(gradient[i]!, 4);
    });
  });
});
