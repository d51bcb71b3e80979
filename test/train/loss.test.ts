import { afterAll, describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/ground/random.ts';
import {
  chunkTokens,
  headGradients,
  joinedLoss,
  logProbOfAny,
  supervisedLoss,
  type TokenLoss,
} from '../../src/train/loss.ts';
import { DEVICE } from '../helpers/device.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });

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

test('the probability of any of some ids is their sum, and its gradient leaves their ratio alone', () => {
  engine.scope(() => {
    const logits = Float32Array.of(0.3, -1.2, 2, 0.7, -0.4, 1.1, 0.2, -2);
    const choices = [[2, 0, 3], [1]];
    const scores = engine.parameter(engine.tensor(logits, [2, 4]));
    const any = logProbOfAny(engine, engine.logSoftmax(scores), choices);
    const got = engine.floats(any);
    const gradient = engine.floats(engine.grad(engine.sum(any), [scores])[0]!);
    choices.forEach((ids, t) => {
      const raised = [...logits.slice(4 * t, 4 * t + 4)].map(Math.exp);
      const all = raised.reduce((a, b) => a + b, 0);
      const right = ids.reduce((sum, id) => sum + raised[id]!, 0);
      expect(got[t]).toBeCloseTo(Math.log(right / all), 5);
      raised.forEach((value, v) => {
        const share = ids.includes(v) ? value / right : 0;
        expect(gradient[4 * t + v]).toBeCloseTo(share - value / all, 5);
      });
    });
  });
});

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

  test.each([0, 1, 3, TOKENS])('of a loss that changes after %i tokens are those of both parts', (count) => {
    const scaled =
      (factor: number, seen: number[]): TokenLoss =>
      (logProb, entropy, start, end, vocabulary) => {
        for (let k = start; k < end; k++) seen.push(k);
        expect(vocabulary().shape).toEqual([end - start, VOCABULARY]);
        return engine.mul(engine.sum(engine.add(logProb, entropy!)), factor);
      };
    for (const size of [2, TOKENS + 1]) {
      engine.scope(() => {
        const seen: [number[], number[]] = [[], []];
        const both = joinedLoss(engine, count, scaled(2, seen[0]), scaled(-3, seen[1]));
        const got = headGradients(engine, hidden, head, targets, options, both, null, size);
        const alone = headGradients(engine, hidden, head, targets, options, scaled(1, []), null);
        const want = engine.floats(alone).map((value, i) => value * (Math.floor(i / WIDTH) < count ? 2 : -3));
        expect(relativeDistance(engine.floats(got), want)).toBeLessThan(1e-5);
        expect(seen[0]).toEqual(Array.from({ length: count }, (_, k) => k));
        expect(seen[1]).toEqual(Array.from({ length: TOKENS - count }, (_, k) => k));
      });
    }
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
    expect(chunkTokens(engine, 1 << 10)).toBe(DEVICE === 'cpu' ? 1 << 14 : 1 << 17);
    expect(chunkTokens(engine, 1 << 28)).toBe(1);
  });
});
