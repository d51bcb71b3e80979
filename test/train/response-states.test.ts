import { afterAll, describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { Random } from '../../src/random.ts';
import { PromptEncoder } from '../../src/train/prompt.ts';
import { pieces, responseLogProbs, responseStates } from '../../src/train/response-states.ts';
import { flatGradient, fullLogProbs, predictingStates, relativeDistance } from '../helpers/full-sequence.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ threads: 1 });
const policy = tinyPolicy(engine, 5, { tied: false });
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const task = tinyTask();
const encoder = new PromptEncoder(policy);
const encoded = await Promise.all(
  [0, 1, 2].map(async (i): Promise<EncodedPrompt> => {
    const series = task.example(i);
    return encoder.encode(await task.picture(series), task.instruction(series));
  }),
);
const random = new Random(2, 'responses');
const response = (length: number): Int32Array => Int32Array.from({ length }, () => random.integer(1, 250));

const CASES = [
  {
    name: 'two groups of three, lengths 1 to 6',
    prompts: [encoded[0]!, encoded[1]!],
    lengths: [1, 5, 3, 2, 6, 1],
  },
  { name: 'one response per prompt', prompts: [encoded[2]!, encoded[1]!, encoded[0]!], lengths: [4, 1, 2] },
  { name: 'one token each', prompts: [encoded[0]!, encoded[1]!], lengths: [1, 1, 1, 1] },
  { name: 'one group', prompts: [encoded[1]!], lengths: [3, 7] },
].map((one) => ({ ...one, responses: one.lengths.map(response) }));

/** Σ wₖ · log πₖ with unlike weights, so that an exchanged token changes value and gradient. */
function weighted(logProb: Tensor, first: number): Tensor {
  const count = logProb.shape[0]!;
  const weights = Float32Array.from({ length: count }, (_, k) => Math.sin(1 + 0.9 * (first + k)));
  return engine.sum(engine.mul(logProb, engine.tensor(weights, [count])));
}

describe.each(CASES)('$name', ({ prompts, responses }) => {
  const group = responses.length / prompts.length;
  const promptOf = (b: number): EncodedPrompt => prompts[Math.floor(b / group)]!;

  test('shared prompts give the states of full sequences', () => {
    engine.scope(() => {
      const { states, targets, owner } = responseStates(policy, prompts, responses);
      const want = responses.map((ids, b) => predictingStates(policy, promptOf(b), ids));
      expect(relativeDistance(engine.floats(states), engine.floats(engine.concat(want, 0)))).toBeLessThan(
        1e-5,
      );
      expect([...targets]).toEqual(responses.flatMap((ids) => [...ids]));
      expect([...owner]).toEqual(responses.flatMap((ids, b) => [...ids].map(() => b)));
    });
  });

  test('the gradient through shared prompts is that of full sequences', () => {
    engine.scope(() => {
      const { states, targets } = responseStates(policy, prompts, responses);
      const { logProb } = engine.logProbs(
        states,
        policy.weights.head,
        engine.tensor(targets, [targets.length]),
        {
          temperature: 0.7,
          mask: engine.tensor(policy.forbidden, [policy.dims.vocabulary]),
        },
      );
      let first = 0;
      let total: Tensor | undefined;
      responses.forEach((ids, b) => {
        const part = weighted(fullLogProbs(policy, promptOf(b), ids, 0.7).logProb, first);
        total = total === undefined ? part : engine.add(total, part);
        first += ids.length;
      });
      const got = weighted(logProb, 0);
      expect(engine.item(got)).toBeCloseTo(engine.item(total!), 3);
      expect(relativeDistance(flatGradient(policy, got), flatGradient(policy, total!))).toBeLessThan(1e-5);
    });
  });

  test('log-probabilities without gradient are those of full sequences, tempered and masked', () => {
    for (const temperature of [1, 0.6]) {
      const got = responseLogProbs(policy, prompts, responses, temperature);
      engine.scope(() => {
        const want = responses.map((ids, b) => fullLogProbs(policy, promptOf(b), ids, temperature).logProb);
        expect(relativeDistance(got, engine.floats(engine.concat(want, 0)))).toBeLessThan(1e-5);
      });
    }
  });
});

describe('pieces of a step', () => {
  const groups = [5, 30, 2, 2, 9, 1].map((length, i) => ({
    prompt: encoded[i % 3]!,
    responses: [{ ids: response(length) }, { ids: response(1) }],
  }));
  const size = (piece: typeof groups): number => {
    const prompt = Math.max(...piece.map((group) => group.prompt.ids.length));
    const longest = Math.max(...piece.flatMap(({ responses }) => responses.map(({ ids }) => ids.length)));
    return piece.length * (prompt + 2 * longest);
  };

  test.each([1, 60, 150, 300, 1e6])(
    'hold every group once, the longest first, within %i tokens where they can',
    (budget) => {
      const got = pieces(groups, budget);
      expect(new Set(got.flat())).toEqual(new Set(groups));
      expect(got.flat()).toHaveLength(groups.length);
      for (const piece of got) if (piece.length > 1) expect(size(piece)).toBeLessThanOrEqual(budget);
      // No piece could have taken the first group of the next, and none of its groups is longer.
      got.slice(1).forEach((piece, i) => {
        expect(size([...got[i]!, piece[0]!])).toBeGreaterThan(budget);
        expect(Math.min(...got[i]!.map((one) => size([one])))).toBeGreaterThanOrEqual(
          Math.max(...piece.map((one) => size([one]))),
        );
      });
    },
  );

  test('in one keep their order', () => {
    expect(pieces(groups, 1e6)).toEqual([groups]);
  });

  test('never mix groups of unlike size', () => {
    const [first, ...rest] = groups;
    const smaller = { ...first!, responses: first!.responses.slice(0, 1) };
    expect(pieces([smaller, ...rest], 1e6)).toEqual([rest, [smaller]]);
  });

  test('range from one group each to all together', () => {
    expect(pieces(groups, 1)).toHaveLength(groups.length);
    expect(pieces(groups)).toHaveLength(1);
    expect(pieces([])).toEqual([]);
  });
});
