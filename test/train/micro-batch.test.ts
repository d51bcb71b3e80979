import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/ground/random.ts';
import { type EncodedPrompt, joined, promptBatch } from '../../src/policy/batch.ts';
import { Tape } from '../../src/policy/gradient-checkpointing.ts';
import { Policy } from '../../src/policy/policy.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import {
  groupMicroBatches,
  microBatches,
  owners,
  PaddingMeter,
  responseBatch,
  responseLogProbs,
  responseStates,
  sequenceBatch,
} from '../../src/train/micro-batch.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { DEVICE } from '../helpers/device.ts';
import { flatGradient, fullLogProbs, predictingStates, relativeDistance } from '../helpers/full-sequence.ts';
import { mixedScore, moments, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';
import { RL as TINY } from '../helpers/tiny-rl.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const policy = tinyPolicy(engine, 5, { tied: false });
const { pad, end } = policy.dims.special;
const task = tinyTask();
const encoder = new PromptEncoder(policy);
const encoded = await Promise.all(
  [0, 1, 2].map(async (i): Promise<EncodedPrompt> => {
    const series = task.example(i);
    return encoder.encode(await task.picture(series), task.instruction(series));
  }),
);
const prompts = encoded.slice(1);
const ids = (...tokens: number[]): Int32Array => Int32Array.from([...tokens, end]);
const random = new Random(2, 'responses');
const response = (length: number): Int32Array => Int32Array.from({ length }, () => random.integer(1, 250));

describe('micro-batches', () => {
  const items = fc.array(fc.tuple(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 200 })), {
    maxLength: 25,
  });
  const cost = (batch: readonly (readonly number[])[]): number =>
    batch.length *
    (Math.max(...batch.map(([prompt]) => prompt!)) + Math.max(...batch.map(([, response]) => response!)));

  test('hold every item once, within the budget where one item is', () => {
    fc.assert(
      fc.property(items, fc.integer({ min: 1, max: 3000 }), (list, budget) => {
        const got = microBatches(list, (item) => item, budget);
        expect(new Set(got.flat())).toEqual(new Set(list));
        expect(got.flat()).toHaveLength(list.length);
        for (const one of got) if (one.length > 1) expect(cost(one)).toBeLessThanOrEqual(budget);
      }),
    );
  });

  test('keep their order when one is enough, and begin with the longest when it is not', () => {
    const list = [3, 9, 4, 8].map((length) => [length]);
    expect(microBatches(list, (item) => item, 36)).toEqual([list]);
    expect(microBatches(list, (item) => item, 35)).toEqual([[[9], [8], [4]], [[3]]]);
    expect(microBatches(list, (item) => item, 1)).toEqual([[[9]], [[8]], [[4]], [[3]]]);
    expect(microBatches([], (item: number[]) => item, 10)).toEqual([]);
  });

  test('of unlike lengths pad less than micro-batches in the order of arrival', () => {
    const list = Array.from({ length: 40 }, (_, i) => [10 + ((i * 37) % 90)]);
    const padded = (batches: readonly (readonly (readonly number[])[])[]): number =>
      batches.reduce((sum, batch) => sum + batch.length * Math.max(...batch.map(([n]) => n!)), 0);
    const arrival = Array.from({ length: 8 }, (_, i) => list.slice(5 * i, 5 * i + 5));
    const used = list.reduce((sum, [n]) => sum + n!, 0);
    expect(padded(microBatches(list, (item) => item, 500)) - used).toBeLessThan(
      0.3 * (padded(arrival) - used),
    );
  });
});

test('padding is what no token fills', () => {
  const meter = new PaddingMeter();
  meter.add({ batch: 3, length: 5, lengths: Int32Array.of(5, 2, 1) });
  meter.add({ batch: 1, length: 4, lengths: Int32Array.of(4) });
  expect([meter.tokens, meter.places]).toEqual([12, 19]);
});

describe('micro-batches of groups', () => {
  const groups = [5, 30, 2, 2, 9, 1].map((length, i) => ({
    prompt: encoded[i % 3]!,
    responses: [{ ids: response(length) }, { ids: response(1) }],
  }));
  const size = (batch: typeof groups): number => {
    const prompt = Math.max(...batch.map((group) => group.prompt.ids.length));
    const longest = Math.max(...batch.flatMap(({ responses }) => responses.map(({ ids }) => ids.length)));
    return batch.length * (prompt + 2 * longest);
  };

  test.each([1, 60, 150, 300, 1e6])(
    'hold every group once, the longest first, within %i tokens where they can',
    (budget) => {
      const got = groupMicroBatches(groups, budget);
      expect(new Set(got.flat())).toEqual(new Set(groups));
      expect(got.flat()).toHaveLength(groups.length);
      for (const one of got) if (one.length > 1) expect(size(one)).toBeLessThanOrEqual(budget);
      // No micro-batch could have taken the first group of the next, and none of its groups is longer.
      got.slice(1).forEach((batch, i) => {
        expect(size([...got[i]!, batch[0]!])).toBeGreaterThan(budget);
        expect(Math.min(...got[i]!.map((one) => size([one])))).toBeGreaterThanOrEqual(
          Math.max(...batch.map((one) => size([one]))),
        );
      });
    },
  );

  test('in one keep their order', () => {
    expect(groupMicroBatches(groups, 1e6)).toEqual([groups]);
  });

  test('give each group rows for the most responses and lessons, all as long as the longest', () => {
    const text = (length: number) => ({
      ids: response(length),
      weights: new Float32Array(0),
      choices: new Map(),
    });
    const lengths = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(lengths, lengths), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 2000 }),
        (list, budget) => {
          const all = list.map(([responses, lessons], i) => ({
            prompt: encoded[i % 3]!,
            responses: responses.map(text),
            lessons: lessons.map(text),
          }));
          const got = groupMicroBatches(all, budget);
          expect(new Set(got.flat())).toEqual(new Set(all));
          for (const one of got.filter(({ length }) => length > 1)) {
            const texts = one.map(({ responses, lessons }) =>
              [...responses, ...lessons].map(({ ids }) => ids),
            );
            const prompts = one.map(({ prompt }) => prompt);
            const { input } = responseBatch(prompts, texts.flat(), pad, owners(texts));
            const asked = promptBatch(prompts, pad);
            expect(input.batch * input.length + asked.batch * asked.length).toBeLessThanOrEqual(budget);
          }
        },
      ),
    );
  });

  test('range from one group each to all together', () => {
    expect(groupMicroBatches(groups, 1)).toHaveLength(groups.length);
    expect(groupMicroBatches(groups)).toHaveLength(1);
    expect(groupMicroBatches([])).toEqual([]);
  });
});

test('the prompts of these tests have unequal lengths', () => {
  expect(prompts[0]!.ids.length).not.toBe(prompts[1]!.ids.length);
});

test('the state before each response token predicts it, in rows of unequal length', () => {
  const responses = [ids(40, 41, 42, 43), ids()];
  const { input, targets } = sequenceBatch(prompts, responses, pad);
  expect([...targets]).toEqual([40, 41, 42, 43, end, end]);
  expect([...input.rows!]).toHaveLength(targets.length);
  input.rows!.forEach((row, k) => {
    const b = Math.floor(row / input.length);
    const t = row % input.length;
    expect(b).toBe(k < 5 ? 0 : 1);
    expect(joined(prompts[b]!, responses[b]!).ids[t + 1]).toBe(targets[k]);
  });
});

test('the last response token, which predicts nothing, is not fed', () => {
  const { input } = sequenceBatch([prompts[0]!], [ids(40, 41)], pad);
  expect(input.length).toBe(prompts[0]!.ids.length + 2);
  expect([...input.tokens.slice(-2)]).toEqual([40, 41]);
});

test('of a prompt batch the state after each last token is wanted', () => {
  const input = promptBatch(prompts, pad);
  expect([...input.rows!].map((row) => input.tokens[row])).toEqual(prompts.map((one) => one.ids.at(-1)));
  expect([...input.rows!].map((row) => Math.floor(row / input.length))).toEqual([0, 1]);
});

test('every token of grouped responses is predicted by the prompt or by the token before it', () => {
  const responses = [ids(40), ids(50, 51, 52), ids(), ids(60), ids(70, 71), ids(80)];
  const { input, select, targets } = responseBatch(prompts, responses, pad);
  expect([...targets]).toEqual(responses.flatMap((one) => [...one]));
  const owner = responses.flatMap((one, b) => [...one].map(() => b));
  expect(input.batch).toBe(6);
  expect(input.length).toBe(3);
  let t = 0;
  select.forEach((place, k) => {
    const b = owner[k]!;
    t = k > 0 && owner[k - 1] === b ? t + 1 : 0;
    if (t === 0) expect(place).toBe(b < 3 ? 0 : 1);
    else {
      const row = place - prompts.length;
      expect(Math.floor(row / input.length)).toBe(b);
      expect(input.tokens[row]).toBe(responses[b]![t - 1]);
    }
  });
});

test('responses that begin alike are fed once, and prompts may have unlike numbers of them', () => {
  const responses = [ids(50, 51, 52), ids(40, 41, 42), ids(40, 41, 43), ids(40, 41, 42)];
  const { input, select, targets } = responseBatch(prompts, responses, pad, [1, 0, 0, 0]);
  expect([input.batch, input.length]).toEqual([2, 4]);
  expect([...input.tokens]).toEqual([40, 41, 42, 43, 50, 51, 52, pad]);
  expect([...input.lengths]).toEqual([4, 3]);
  expect([...input.parents!]).toEqual([-1, 0, 1, 1, -1, 0, 1, -1]);
  expect([...targets]).toEqual(responses.flatMap((one) => [...one]));
  expect([...select]).toEqual([1, 6, 7, 8, 0, 2, 3, 4, 0, 2, 3, 5, 0, 2, 3, 4]);
  const apart = responseBatch(prompts, responses, pad, [1, 0, 0, 0], false).input;
  expect([apart.batch, apart.parents]).toEqual([6, undefined]);
  const beside = responseBatch(prompts, [response(1026), ...responses.slice(1)], pad, [1, 0, 0, 0]).input;
  expect([beside.batch, beside.length]).toEqual([2, 1025]);
  const many = Array.from({ length: 8 }, () => response(500));
  const unlike = responseBatch(prompts, [...responses, ...many], pad, [
    0,
    0,
    0,
    0,
    ...many.map(() => 1),
  ]).input;
  expect(unlike.batch * unlike.length).toBeLessThanOrEqual(2 * 8 * 499);
});

test('responses share a row in micro-batches of many prompts too', () => {
  const many = Array.from({ length: 40 }, (_, i) => encoded[i % 3]!);
  const shapeOf = (shared: number): number[] => {
    const beginning = new Array<number>(shared).fill(40);
    const texts = many.flatMap(() =>
      Array.from({ length: 8 }, (_, g) =>
        ids(...beginning, 50 + g, ...new Array<number>(49 - shared).fill(60)),
      ),
    );
    const { input } = responseBatch(many, texts, pad);
    return [input.batch, input.length];
  };
  expect(shapeOf(15)).toEqual([40, 15 + 8 * 35]);
  // The mask of long rows costs more than a few tokens less.
  expect(shapeOf(5)).toEqual([320, 50]);
});

test('response positions go on from the prompt of their own group', () => {
  const { input } = responseBatch(prompts, [ids(40), ids(41, 42), ids(50), ids(51)], pad);
  const { length, positions } = input;
  [0, 0, 1, 1].forEach((p, b) => {
    expect(positions[b * length]).toBe(prompts[p]!.next);
    expect(positions[b * length + 1]).toBe(prompts[p]!.next + 1);
  });
});

test('responses of the end token alone are predicted by their prompts, and fed all the same', () => {
  const { input, select, targets } = responseBatch(prompts, [ids(), ids(), ids(), ids()], pad);
  expect([...input.tokens]).toEqual([pad, pad]);
  expect([...select]).toEqual([0, 0, 1, 1]);
  expect([...targets]).toEqual([end, end, end, end]);
});

const CASES = [
  {
    name: 'two groups of three, lengths 1 to 6',
    prompts: [encoded[0]!, encoded[1]!],
    lengths: [1, 5, 3, 2, 6, 1],
  },
  { name: 'one response per prompt', prompts: [encoded[2]!, encoded[1]!, encoded[0]!], lengths: [4, 1, 2] },
  { name: 'one token each', prompts: [encoded[0]!, encoded[1]!], lengths: [1, 1, 1, 1] },
  { name: 'one group', prompts: [encoded[1]!], lengths: [3, 7] },
].map((one) => ({
  ...one,
  responses: one.lengths.map(response),
  of: one.lengths.map((_, b) => Math.floor((b * one.prompts.length) / one.lengths.length)),
}));
CASES.push({
  name: 'branches of two prompts, none of a third',
  prompts: [encoded[0]!, encoded[2]!, encoded[1]!],
  lengths: [],
  responses: [ids(5, 6, 7), ids(9), ids(5, 6, 8, 9), ids(5, 6, 7), ids(5, 6), ids(9, 5, 6, 7), ids(5, 3)],
  of: [2, 0, 2, 2, 2, 0, 0],
});

/** Σ wₖ · log πₖ with unlike weights, so that an exchanged token changes value and gradient. */
function weighted(logProb: Tensor, first: number): Tensor {
  const count = logProb.shape[0]!;
  const weights = Float32Array.from({ length: count }, (_, k) => Math.sin(1 + 0.9 * (first + k)));
  return engine.sum(engine.mul(logProb, engine.tensor(weights, [count])));
}

describe('with shared prompts', () => {
  let born = 0;
  beforeAll(() => {
    born = engine.live();
  });
  afterAll(() => expect(engine.live()).toBe(born));

  describe.each(CASES)('$name', ({ prompts, responses, of }) => {
    const promptOf = (b: number): EncodedPrompt => prompts[of[b]!]!;
    const statesOf = (tape?: Tape) => responseStates(policy, prompts, responses, tape, undefined, of);

    test('shared prompts give the states of full sequences', () => {
      engine.scope(() => {
        const { states, targets } = statesOf();
        const want = responses.map((ids, b) => predictingStates(policy, promptOf(b), ids));
        expect(relativeDistance(engine.floats(states), engine.floats(engine.concat(want, 0)))).toBeLessThan(
          1e-5,
        );
        expect([...targets]).toEqual(responses.flatMap((ids) => [...ids]));
      });
    });

    test('the gradient through shared prompts is that of full sequences', () => {
      engine.scope(() => {
        const { states, targets } = statesOf();
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

    test('the gradient is the same when layers are computed again', () => {
      engine.scope(() => {
        const leaves = policy.parameters;
        const { states } = statesOf();
        const given = engine.tensor(
          Float32Array.from({ length: states.shape[0]! * states.shape[1]! }, (_, i) => Math.sin(i)),
          states.shape,
        );
        const want = engine.grad(states, leaves, given);
        const tape = new Tape(engine, leaves);
        const got = leaves.map(({ shape }) => engine.zeros(shape));
        tape.backward([[statesOf(tape).states, given]], (leaf, part) =>
          engine.addInto(got[leaves.indexOf(leaf)]!, 0, 0, part),
        );
        const flatOf = (parts: readonly Tensor[]): Float32Array =>
          engine.floats(
            engine.concat(
              parts.map((part) => engine.reshape(part, [-1])),
              0,
            ),
          );
        expect(relativeDistance(flatOf(got), flatOf(want))).toBeLessThan(1e-5);
      });
    });

    test('log-probabilities without gradient are those of full sequences, tempered and masked', () => {
      for (const temperature of [1, 0.6]) {
        const got = responseLogProbs(policy, prompts, responses, temperature, 'logProb', of);
        engine.scope(() => {
          const want = responses.map((ids, b) => fullLogProbs(policy, promptOf(b), ids, temperature).logProb);
          expect(relativeDistance(got, engine.floats(engine.concat(want, 0)))).toBeLessThan(1e-5);
        });
      }
    });
  });
});

describe('a step in micro-batches', () => {
  test.each([
    { name: 'two and one', tokens: 100 },
    { name: 'one example each', tokens: 1 },
  ])('has the supervised gradient of the whole: $name', async ({ tokens }) => {
    const [whole, parts] = [tinyLearner(tinyPolicy(engine), 1e9), tinyLearner(tinyPolicy(engine), 1e9)];
    const options = { samples: 3 };
    const [want] = await teach(whole, options);
    const [got] = await teach(parts, { ...options, tokens });
    expect(got!.loss).toBeCloseTo(want!.loss, 6);
    expect(got!.tokens).toBe(want!.tokens);
    expect(got!.padding).toBeLessThan(want!.padding);
    expect(relativeDistance(moments(parts).first, moments(whole).first)).toBeLessThan(2e-6);
  });

  const RL: RlOptions = { ...TINY, prompts: 4, group: 5 };

  test.each([
    { name: 'some prompts each', tokens: 300 },
    { name: 'groups divided unevenly, 2, 2 and 1', tokens: 75 },
    { name: 'one response each', tokens: 1 },
    {
      name: 'of means over responses, at sequence level, of some tokens',
      tokens: 75,
      options: { aggregation: 'sequence_mean', ratio: 'sequence', topEntropy: 0.4, epochs: 2 } as const,
    },
  ])('has the reinforcement gradient of the whole: $name', async ({ tokens, options = {} }) => {
    const start = tinyPolicy(engine, 6);
    await teach(tinyLearner(start), { samples: 45, learningRate: 5e-3 });
    const run = async (more: Partial<RlOptions>) => {
      const flat = engine.tensor(engine.floats(start.flat), [start.layout.size]);
      const learner = tinyLearner(new Policy(engine, start.parts, flat), 1e9);
      const lines: RlMetrics[] = [];
      const hooks = {
        onStep: (line: RlMetrics) => void lines.push(line),
        onCompletions: () => {},
        save: () => {},
      };
      const scored = tinyTask({ score: mixedScore([]) });
      await rl(learner, tinyPolicy(engine, 6), scored, { ...RL, ...more }, 4, hooks);
      return { gradient: moments(learner).first, line: lines[0]! };
    };
    const [whole, parts] = [await run(options), await run({ ...options, tokens })];
    expect(relativeDistance(parts.gradient, whole.gradient)).toBeLessThan(1e-5);
    for (const key of ['loss', 'kl', 'entropy', 'samplerGap', 'gradNorm'] as const) {
      expect(parts.line[key]).toBeCloseTo(whole.line[key]!, 5);
    }
  });
});
