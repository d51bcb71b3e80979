import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Policy } from '../../src/policy/policy.ts';
import { PaddingMeter, piecesOf } from '../../src/train/pieces.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import type { RlMetrics } from '../../src/train/rl-metrics.ts';
import { TIMERPO_TRANSPORT } from '../../src/train/transport.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';
import { mixedScore, moments, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ threads: 1 });

describe('pieces', () => {
  const items = fc.array(fc.tuple(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 200 })), {
    maxLength: 25,
  });
  const cost = (piece: readonly (readonly number[])[]): number =>
    piece.length *
    (Math.max(...piece.map(([prompt]) => prompt!)) + Math.max(...piece.map(([, response]) => response!)));

  test('hold every item once, within the budget where one item is', () => {
    fc.assert(
      fc.property(items, fc.integer({ min: 1, max: 3000 }), (list, budget) => {
        const got = piecesOf(list, (item) => item, budget);
        expect(new Set(got.flat())).toEqual(new Set(list));
        expect(got.flat()).toHaveLength(list.length);
        for (const piece of got) if (piece.length > 1) expect(cost(piece)).toBeLessThanOrEqual(budget);
      }),
    );
  });

  test('keep their order when one is enough, and begin with the longest when it is not', () => {
    const list = [3, 9, 4, 8].map((length) => [length]);
    expect(piecesOf(list, (item) => item, 36)).toEqual([list]);
    expect(piecesOf(list, (item) => item, 35)).toEqual([[[9], [8], [4]], [[3]]]);
    expect(piecesOf(list, (item) => item, 1)).toEqual([[[9]], [[8]], [[4]], [[3]]]);
    expect(piecesOf([], (item: number[]) => item, 10)).toEqual([]);
  });

  test('of unlike lengths pad less than pieces in the order of arrival', () => {
    const list = Array.from({ length: 40 }, (_, i) => [10 + ((i * 37) % 90)]);
    const padded = (pieces: readonly (readonly (readonly number[])[])[]): number =>
      pieces.reduce((sum, piece) => sum + piece.length * Math.max(...piece.map(([n]) => n!)), 0);
    const arrival = Array.from({ length: 8 }, (_, i) => list.slice(5 * i, 5 * i + 5));
    const used = list.reduce((sum, [n]) => sum + n!, 0);
    expect(padded(piecesOf(list, (item) => item, 500)) - used).toBeLessThan(0.3 * (padded(arrival) - used));
  });
});

test('padding is what no token fills', () => {
  const meter = new PaddingMeter();
  meter.add({ batch: 3, length: 5, lengths: Int32Array.of(5, 2, 1) });
  meter.add({ batch: 1, length: 4 });
  expect([meter.tokens, meter.places]).toEqual([12, 19]);
});

describe('a step in pieces', () => {
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

  const RL: RlOptions = {
    steps: 1,
    prompts: 4,
    group: 5,
    temperature: 0.8,
    topP: 1,
    maxTokens: 20,
    advantage: 'timerpo',
    alpha: 0.3,
    transport: TIMERPO_TRANSPORT,
    learningRate: 1e-3,
    warmup: 0,
    minLearningRate: 1,
    miniBatches: 1,
    epochs: 1,
    clipRatio: 0.2,
    kl: 0.05,
    entropy: 0.02,
    checkpointEvery: 1000,
  };

  test.each([
    { name: 'some prompts each', tokens: 300 },
    { name: 'groups divided unevenly, 2, 2 and 1', tokens: 75 },
    { name: 'one response each', tokens: 1 },
  ])('has the reinforcement gradient of the whole: $name', async ({ tokens }) => {
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
    const [whole, parts] = [await run({}), await run({ tokens })];
    expect(relativeDistance(parts.gradient, whole.gradient)).toBeLessThan(1e-5);
    for (const key of ['loss', 'kl', 'entropy', 'samplerGap', 'gradNorm'] as const) {
      expect(parts.line[key]).toBeCloseTo(whole.line[key]!, 5);
    }
  });
});
