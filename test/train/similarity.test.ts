import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { collate, responseSequence } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import type { RolloutGroup } from '../../src/train/rollout.ts';
import {
  anchorsOf,
  pooledCosine,
  type SimilarityOptions,
  type SimilarityResult,
  similarityTo,
  tokensOf,
} from '../../src/train/similarity.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { type HiddenStates, TIMERPO_TRANSPORT, transport } from '../../src/train/transport.ts';
import { DEVICE } from '../helpers/device.ts';
import { fullStates } from '../helpers/full-sequence.ts';
import { rollout } from '../helpers/rollout.ts';
import { TRACES, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const policy = tinyPolicy(engine);
await teach(tinyLearner(policy), { samples: 60, learningRate: 5e-3 });
const task = tinyTask();
const PAPER: SimilarityOptions = defaultRecipe().rl.timerpo;

/** Rows of states of different lengths; padding is garbage on purpose. */
function padded(rows: readonly number[][][]): HiddenStates {
  const length = Math.max(...rows.map((row) => row.length)) + 2;
  const width = rows[0]![0]!.length;
  const data = new Float64Array(rows.length * length * width).fill(7.5);
  rows.forEach((row, b) => {
    row.forEach((state, t) => {
      data.set(state, (b * length + t) * width);
    });
  });
  return {
    states: engine.tensor(data, [rows.length, length, width]),
    lengths: Int32Array.from(rows, (row) => row.length),
  };
}

function rowsOf(states: Tensor): number[][] {
  const [count, width] = states.shape as [number, number];
  const values = engine.floats(states);
  return Array.from({ length: count }, (_, t) => [...values.subarray(t * width, (t + 1) * width)]);
}

function cosineOfMeans(a: readonly number[][], b: readonly number[][]): number {
  const mean = (rows: readonly number[][]): number[] =>
    rows[0]!.map((_, d) => rows.reduce((sum, row) => sum + row[d]!, 0) / rows.length);
  const [x, y] = [mean(a), mean(b)];
  const dot = x.reduce((sum, value, d) => sum + value * y[d]!, 0);
  return Math.min(1, Math.max(0, dot / (Math.hypot(...x) * Math.hypot(...y))));
}

test('the cosine of mean states is taken over valid tokens, and is zero where they point apart', () => {
  const responses = [
    [
      [1, 0],
      [0, 3],
      [1, 1],
    ],
    [[2, 1]],
    [
      [-1, -1],
      [-3, 0],
    ],
    [
      [0, 1],
      [0, 2],
    ],
  ]; // prettier-ignore
  const traces = [
    [
      [1, 2],
      [3, 0],
    ],
    [
      [1, 1],
      [1, 0],
      [2, 5],
    ],
  ]; // prettier-ignore
  const found = engine.scope(() => pooledCosine(engine, padded(responses), padded(traces)));
  responses.forEach((response, b) => {
    expect(found[b]).toBeCloseTo(cosineOfMeans(response, traces[Math.floor(b / 2)]!), 9);
  });
  expect(found[2]).toBe(0);
});

describe('the tokens of a range of characters', () => {
  test('hold it, and nothing but what a token joins with it', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...TRACES, '<think>dünn, 長い; dark</think><answer>[]</answer>'),
        fc.nat(60),
        fc.integer({ min: 1, max: 40 }),
        (text, first, size) => {
          const [start, end] = [Math.min(first, text.length - 1), Math.min(text.length, first + size)];
          if (start >= end) return;
          const { tokenizer } = policy;
          const ids = policy.encodeResponse(text);
          const [from, to] = tokensOf(tokenizer, ids, [start, end])!;
          const before = tokenizer.decode(ids.subarray(0, from)).replaceAll('�', '');
          const within = tokenizer.decode(ids.subarray(0, to)).replaceAll('�', '');
          expect(before.length).toBeLessThanOrEqual(start);
          expect(within.length).toBeGreaterThanOrEqual(end);
          // One token less on either side would miss some of it.
          expect(tokenizer.decode(ids.subarray(0, to - 1)).replaceAll('�', '').length).toBeLessThan(end);
          expect(tokenizer.decode(ids.subarray(0, from + 1)).replaceAll('�', '').length).toBeGreaterThan(
            start,
          );
        },
      ),
    );
  });

  test('are none where the text ends before', () => {
    expect(tokensOf(policy.tokenizer, policy.tokenizer.encode('dark'), [10, 12])).toBeNull();
  });
});

/** What two prompts of unequal length are answered with; one response has no reasoning. */
async function sampled(): Promise<RolloutGroup[]> {
  const encoder = new PromptEncoder(policy);
  const examples = [1, 2].map((index) => task.example(index));
  const prompts = [];
  for (const one of examples) prompts.push(encoder.encode(await task.picture(one), task.instruction(one)));
  const options = { group: 3, temperature: 1, topP: 1, maxTokens: 24, seed: 5, hidden: true };
  return rollout(policy, examples, prompts, [1, 2], task.score, options);
}
const groups = await sampled();

function found(options: Partial<SimilarityOptions>, gold = false, tokens?: number): SimilarityResult {
  const own = { ...PAPER, ...options };
  return similarityTo(
    policy,
    groups,
    anchorsOf(policy, task, groups, own, gold),
    task.reasoning,
    own,
    tokens,
  );
}

/** The same, one response after the other, from states of whole sequences. */
function expected(
  options: Partial<SimilarityOptions>,
  of: (group: RolloutGroup) => readonly Int32Array[],
): number[] {
  const own = { ...PAPER, ...options };
  const part = (rows: number[][], ids: Int32Array): number[][] => {
    const range = own.anchor === 'reasoning' ? task.reasoning(policy.tokenizer.decode(ids)) : null;
    const [from, to] = (range && tokensOf(policy.tokenizer, ids, range)) ?? [0, ids.length];
    return rows.slice(from, to);
  };
  return engine.scope(() =>
    groups.flatMap((group) => {
      const { prompt, example } = group;
      const behind = (ids: Int32Array): number[][] =>
        rowsOf(engine.narrow(fullStates(policy, prompt, ids), 0, prompt.ids.length, ids.length));
      const ids = policy.tokenizer.encode(own.trace === 'generic' ? task.genericTrace : task.trace(example));
      const start = { ids: new Int32Array(0), positions: new Int32Array(0), images: [], next: 0 };
      const alone = (): number[][] =>
        rowsOf(forward(policy, collate([responseSequence(start, ids)], 0)).hidden);
      const anchor = part(own.context === 'prompt' ? behind(ids) : alone(), ids);
      return of(group).map((response) => {
        const states = part(behind(response), response);
        return own.similarity === 'clip'
          ? cosineOfMeans(states, anchor)
          : transport(engine, padded([states]), padded([anchor]), own).similarity[0]!;
      });
    }),
  );
}

const VARIANTS: readonly Partial<SimilarityOptions>[] = [
  {},
  { context: 'prompt' },
  { anchor: 'reasoning' },
  { anchor: 'reasoning', context: 'prompt', marginals: 'uniform' },
  { similarity: 'clip' },
  { similarity: 'clip', anchor: 'reasoning', context: 'prompt' },
  { trace: 'generic' },
];

test.each(VARIANTS)(
  'similarity with %j is that of each response alone, and of the gold response',
  (options) => {
    const { similarity, gold } = found(options, true);
    expected(options, ({ responses }) => responses.map(({ ids }) => ids)).forEach((value, b) => {
      expect(similarity[b]).toBeCloseTo(value, 4);
    });
    expected(options, ({ example }) => [policy.encodeResponse(task.trace(example))]).forEach((value, p) => {
      expect(gold![p]).toBeCloseTo(value, 4);
    });
  },
);

test('every variant is another similarity, and none needs to know the gold one', () => {
  const all = VARIANTS.map((options) => found(options));
  expect(new Set(all.map(({ similarity }) => similarity[0]!.toFixed(6))).size).toBe(VARIANTS.length);
  expect(all.every(({ gold }) => gold === null)).toBe(true);
  expect(all.map(({ transport: own }) => own === null)).toEqual(
    VARIANTS.map(({ similarity }) => similarity === 'clip'),
  );
});

test('prompts that do not fit the token budget together go one after the other, to the same end', () => {
  const [whole, parted] = [found({ context: 'prompt' }, true), found({ context: 'prompt' }, true, 1)];
  for (const key of ['similarity', 'gold'] as const) {
    whole[key]!.forEach((value, i) => {
      expect(parted[key]![i]).toBeCloseTo(value, 5);
    });
  }
});

test('a trace is cut at 512 tokens, and its reasoning with it', () => {
  const long = tinyTask({ trace: () => `<think>${'dark in the middle '.repeat(300)}</think>` });
  const [anchor] = anchorsOf(policy, long, groups, { ...PAPER, anchor: 'reasoning' }, false);
  expect(anchor!.passage.ids.length).toBe(512);
  expect(anchor!.passage).toMatchObject({ from: 1, to: 512 });
});

test('a contrast is the similarity of the reasonings less the mean of that to the traces of other series', () => {
  const own = { ...PAPER, similarity: 'contrastive' } as const;
  // Different and differently many words than the own traces; asymmetric between the groups.
  const others = [
    [task.example(7), task.example(3)],
    [task.example(5), task.example(9)],
  ];
  const anchors = anchorsOf(policy, task, groups, own, false, (p) => others[p]!);
  const { similarity } = similarityTo(policy, groups, anchors, task.reasoning, own);
  const ofReasonings = found({ anchor: 'reasoning' }).similarity;
  /** The similarity to the traces of the others alone, by swapping the examples of the groups. */
  const to = (k: number): Float64Array => {
    const swapped = groups.map((group, p) => ({ ...group, example: others[p]![k]! }));
    const options = { ...PAPER, anchor: 'reasoning' } as const;
    const swappedAnchors = anchorsOf(policy, task, swapped, options, false);
    return similarityTo(policy, groups, swappedAnchors, task.reasoning, options).similarity;
  };
  const [first, second] = [to(0), to(1)];
  similarity.forEach((value, b) => {
    expect(value).toBeCloseTo(ofReasonings[b]! - (first[b]! + second[b]!) / 2, 5);
  });
});

test('costs of tokens are of the compared tokens alone, and absent without credit token', () => {
  const { tokenCosts, similarity } = found({ credit: 'token', anchor: 'reasoning' });
  expect(found({ anchor: 'reasoning' }).tokenCosts).toBeNull();
  expect(found({ similarity: 'clip' }).tokenCosts).toBeNull();
  expect(found({ anchor: 'reasoning' }).similarity).toEqual(similarity);
  const responses = groups.flatMap((group) => group.responses);
  responses.forEach(({ ids, text }, b) => {
    const costs = tokenCosts![b]!;
    expect(costs).toHaveLength(ids.length);
    const range = task.reasoning(text);
    const [from, to] = (range && tokensOf(policy.tokenizer, ids, range)) ?? [0, ids.length];
    costs.forEach((cost, t) => {
      expect(Number.isNaN(cost)).toBe(t < from || t >= to);
    });
  });
});

test('nothing stays alive after a comparison', () => {
  const before = engine.live();
  found({ context: 'prompt', anchor: 'reasoning' }, true);
  found({ similarity: 'clip' });
  expect(engine.live()).toBe(before);
});

describe('effective numbers of tokens of a transport', () => {
  /** The plan itself, by the definition in plain numbers. */
  function planOf(r: readonly number[], c: readonly number[], cost: readonly number[][], epsilon: number) {
    const kernel = cost.map((row) => row.map((value) => Math.exp(-value / epsilon)));
    let u = r.map(() => 1);
    let v = c.map(() => 1);
    for (let i = 0; i < 50; i++) {
      u = r.map((mass, t) => mass / kernel[t]!.reduce((sum, k, s) => sum + k * v[s]!, 0));
      v = c.map((mass, s) => mass / kernel.reduce((sum, row, t) => sum + row[s]! * u[t]!, 0));
    }
    return kernel.map((row, t) => row.map((k, s) => u[t]! * k * v[s]!));
  }
  const entropy = (masses: readonly number[]): number =>
    masses.reduce((sum, mass) => sum - (mass > 0 ? mass * Math.log(mass) : 0), 0);
  const response = [
    [1, 0.2],
    [0.3, 1],
    [0.5, 0.5],
  ]; // prettier-ignore
  const trace = [
    [1, 0],
    [0, 1],
    [1, 1],
    [0.2, 0.9],
  ]; // prettier-ignore

  test.each([
    ['norm', 0.08],
    ['uniform', 0.08],
    ['uniform', 0.0039],
  ] as const)('are those of the plan, marginals %s, ε %d', (marginals, epsilon) => {
    const options = { ...TIMERPO_TRANSPORT, marginals, epsilon };
    const { tokens, partners } = engine.scope(() =>
      transport(engine, padded([response, trace]), padded([trace, trace]), options),
    );
    const mass = (rows: readonly number[][]): number[] => {
      const parts = rows.map((row) => (marginals === 'uniform' ? 1 : Math.exp(Math.hypot(...row))));
      const total = parts.reduce((a, b) => a + b, 0);
      return parts.map((part) => part / total);
    };
    [response, trace].forEach((rows, b) => {
      const cost = rows.map((x) =>
        trace.map((y) => 1 - (x[0]! * y[0]! + x[1]! * y[1]!) / (Math.hypot(...x) * Math.hypot(...y))),
      );
      const plan = planOf(mass(rows), mass(trace), cost, epsilon);
      const sums = plan.map((row) => row.reduce((a, b) => a + b, 0));
      expect(tokens[b]).toBeCloseTo(Math.exp(entropy(mass(rows))), 9);
      expect(partners[b]).toBeCloseTo(Math.exp(entropy(plan.flat()) - entropy(sums)), 4);
    });
  });

  test('a large ε spreads every token over the whole trace, a small one over its like', () => {
    const at = (epsilon: number): number =>
      engine.scope(
        () =>
          transport(engine, padded([trace]), padded([trace]), {
            ...TIMERPO_TRANSPORT,
            marginals: 'uniform',
            epsilon,
          }).partners[0]!,
      );
    expect(at(1e3)).toBeCloseTo(trace.length, 4);
    expect(at(1e-3)).toBeLessThan(1.2);
  });
});
