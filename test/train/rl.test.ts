import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RewardHost } from '../../rewards/define.ts';
import { combine } from '../../rewards/reward.ts';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { TimeseerError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { collate, type EncodedPrompt, responseSequence } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { Policy } from '../../src/policy/policy.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { FOREIGN_CARD } from '../../src/tasks/card.ts';
import { readState, restoreOptimizer, saveCheckpoint } from '../../src/train/checkpoint.ts';
import { Learner } from '../../src/train/learner.ts';
import type { Completion, RlMetrics } from '../../src/train/metrics.ts';
import { cautions, type RlHooks, type RlOptions, replacement, rl } from '../../src/train/rl.ts';
import type { Task } from '../../src/train/task.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { requestStop, WorkerGroup, workerGroupMemory } from '../../src/train/worker-group.ts';
import { DEVICE, REPEATS } from '../helpers/device.ts';
import {
  flatGradient,
  fullLogProbs,
  fullStates,
  identical,
  relativeDistance,
} from '../helpers/full-sequence.ts';
import { rollout } from '../helpers/rollout.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  chance,
  mixedScore,
  moments,
  OPTIMIZER,
  ORIGIN,
  TRACES,
  teach,
  tinyLearner,
  tinyPolicy,
  tinyTask,
} from '../helpers/tiny-policy.ts';
import { RL, SEED, type TinyRl, tinyRl } from '../helpers/tiny-rl.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const directory = temporary('rl');

const { start, reference, copyOf, run } = await tinyRl(engine);

/** The gradient that the only update of a run was given. */
function given({ learner }: TinyRl): Float32Array {
  return moments(learner).first.map((value) => value / (1 - OPTIMIZER.betas[0]));
}

/** Transport similarity of one response to a trace, from its definition in plain numbers. */
function similarityOf(response: number[][], trace: number[][]): number {
  const norm = (state: number[]): number => Math.hypot(...state);
  const mass = (states: number[][]): number[] => {
    const top = Math.max(...states.map(norm));
    const parts = states.map((state) => Math.exp(norm(state) - top));
    const total = parts.reduce((a, b) => a + b, 0);
    return parts.map((part) => part / total);
  };
  const [r, c] = [mass(response), mass(trace)];
  const cost = response.map((a) =>
    trace.map((b) =>
      Math.max(0, 1 - a.reduce((sum, value, i) => sum + value * b[i]!, 0) / (norm(a) * norm(b))),
    ),
  );
  const kernel = cost.map((row) => row.map((value) => Math.exp(-value / 0.08)));
  let u = r;
  let v = c.map(() => 1);
  for (let i = 0; i < 50; i++) {
    u = r.map((m, t) => m / kernel[t]!.reduce((sum, k, s) => sum + k * v[s]!, 0));
    v = c.map((m, s) => m / kernel.reduce((sum, row, t) => sum + row[s]! * u[t]!, 0));
  }
  let distance = 0;
  cost.forEach((row, t) => {
    row.forEach((value, s) => {
      distance += u[t]! * kernel[t]![s]! * v[s]! * value;
    });
  });
  return Math.exp(-distance / 0.5);
}

const rowsOf = (states: Tensor): number[][] => {
  const [count, width] = states.shape as [number, number];
  const values = engine.floats(states);
  return Array.from({ length: count }, (_, t) => [...values.subarray(t * width, (t + 1) * width)]);
};

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

interface Group {
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Int32Array[];
  readonly rewards: readonly number[];
  readonly similarity: readonly number[];
}

/** What the first step samples, with rewards and similarities. */
async function groupsOf(task: Task, options: Partial<RlOptions> = {}): Promise<Group[]> {
  const encoder = new PromptEncoder(start);
  const { prompts: count } = { ...RL, ...options };
  const series = Array.from({ length: count }, (_, i) => task.example(i));
  const prompts: EncodedPrompt[] = [];
  for (const one of series) prompts.push(encoder.encode(await task.picture(one), task.instruction(one)));
  const examples = series.map((_, i) => i);
  const sampled = await rollout(start, series, prompts, examples, task.score, {
    ...RL,
    ...options,
    seed: SEED,
    hidden: false,
  });
  return sampled.map(({ prompt, responses, scores }, p) => {
    const similarity = engine.scope(() => {
      const text = { ids: new Int32Array(0), positions: new Int32Array(0), images: [], next: 0 };
      const trace = responseSequence(text, start.tokenizer.encode(task.trace(series[p]!)));
      const to = rowsOf(forward(start, collate([trace], 0)).hidden);
      return responses.map(({ ids }) => {
        const states = fullStates(start, prompt, ids);
        return similarityOf(rowsOf(engine.narrow(states, 0, prompt.ids.length, ids.length)), to);
      });
    });
    return {
      prompt,
      responses: responses.map(({ ids }) => ids),
      rewards: scores.map((score) => score!.total),
      similarity,
    };
  });
}

/** A_main + α·A_orth of one group, from its definition. */
function timerpoOf({ rewards, similarity }: Group, alpha: number): number[] {
  const main = rewards.map((reward) => reward - mean(rewards));
  const grounded = similarity.map((value) => value - mean(similarity));
  const along = grounded.reduce((sum, value, i) => sum + value * main[i]!, 0);
  const square = main.reduce((sum, value) => sum + value * value, 0);
  return main.map((value, i) => value + alpha * (grounded[i]! - (along / (square + 1e-8)) * value));
}

/** Gradient of the token mean of −ρ·A + β·k3 − η·H over whole sequences, one forward pass per response. */
function gradientOf(
  groups: readonly Group[],
  advantages: readonly (readonly number[])[],
  options: { readonly kl: number; readonly entropy: number } = RL,
): { gradient: Float32Array; loss: number } {
  return engine.scope(() => {
    let total: Tensor = engine.zeros([]);
    let tokens = 0;
    groups.forEach(({ prompt, responses }, p) => {
      responses.forEach((ids, g) => {
        const { logProb, entropy } = fullLogProbs(start, prompt, ids, RL.temperature);
        const ratio = engine.exp(engine.sub(logProb, engine.detach(logProb)));
        const toReference = [
          ...engine.floats(
            engine.sub(fullLogProbs(reference, prompt, ids, RL.temperature).logProb, engine.detach(logProb)),
          ),
        ];
        const column = (of: (apart: number, k3: number) => number): Tensor =>
          engine.tensor(
            Float32Array.from(toReference, (apart) => of(apart, Math.exp(apart) - 1 - apart)),
            [toReference.length],
          ); // [T]
        // d k3 / d log π = 1 − exp(log π_ref − log π), none where it is held at 10; written out instead of left to autograd.
        const k3 = column((_, value) => Math.min(10, value));
        const slope = column((apart, value) => (value > 10 ? 0 : 1 - Math.exp(apart)));
        const divergence = engine.add(k3, engine.mul(slope, engine.sub(logProb, engine.detach(logProb))));
        const loss = engine.sub(
          engine.sub(engine.mul(divergence, options.kl), engine.mul(ratio, advantages[p]![g]!)),
          engine.mul(entropy, options.entropy),
        );
        total = engine.add(total, engine.sum(loss));
        tokens += ids.length;
      });
    });
    const average = engine.div(total, tokens);
    return { gradient: flatGradient(start, average), loss: engine.item(average) };
  });
}

describe('one step', () => {
  const task = tinyTask({ score: mixedScore([0]) }); // the first prompt rewards every response alike

  test('of TimerPO updates along its definition, and a group of equal rewards teaches through the transport', async () => {
    const groups = await groupsOf(task);
    expect(new Set(groups[0]!.rewards).size).toBe(1);
    expect(new Set(groups[1]!.rewards).size).toBeGreaterThan(1);
    const advantages = groups.map((group) => timerpoOf(group, RL.timerpo.alpha));
    expect(Math.max(...advantages[0]!.map(Math.abs))).toBeGreaterThan(1e-4);
    const want = gradientOf(groups, advantages);
    const done = await run({}, task);
    expect(relativeDistance(given(done), want.gradient)).toBeLessThan(1e-3);
    const [line] = done.lines;
    expect(line!.loss).toBeCloseTo(want.loss, 5);
    expect(line!.gradNorm! / Math.hypot(...want.gradient)).toBeCloseTo(1, 3);
    expect(line).toMatchObject({ equalRewards: 0.5, zeroVariance: 0, clipped: 0, skipped: 0 });
    expect(line!.reward).toBeCloseTo(mean(groups.flatMap(({ rewards }) => rewards)), 6);
    expect(line!.parts['whim']).toBeCloseTo(line!.reward, 10);
    expect(line!.similarity).toBeCloseTo(mean(groups.flatMap(({ similarity }) => similarity)), 5);
    expect(line!.advantage).toBeCloseTo(Math.sqrt(mean(advantages.flat().map((a) => a * a))), 5);
    expect(line!.samplerGap).toBeLessThan(1e-5);
    expect(line!.tokens).toBe(mean(groups.flatMap(({ responses }) => responses.map(({ length }) => length))));
    // Without the equal group the gradient is another: it did teach.
    const alone = gradientOf(groups.slice(1), advantages.slice(1));
    expect(relativeDistance(given(done), alone.gradient)).toBeGreaterThan(0.01);
  });

  test('measures what the similarity says that rewards do not, the gold response every few steps, to no effect', async ({
    skip,
  }) => {
    skip(!REPEATS);
    const groups = await groupsOf(task);
    const timerpo = { ...RL.timerpo, gatesEvery: 2 };
    const [gated, plain] = [
      await run({ steps: 3, timerpo }, task),
      await run({ steps: 3, timerpo: { ...timerpo, gatesEvery: 0 } }, task),
    ];
    expect(
      identical(engine.floats(gated.learner.policy.flat), engine.floats(plain.learner.policy.flat)),
    ).toBe(true);
    expect(gated.lines.map(({ grounding }) => grounding!.goldFirst !== null)).toEqual([true, false, true]);
    const [line] = gated.lines;
    const grounding = line!.grounding!;
    const parts = groups.map((group) => ({ all: timerpoOf(group, 1), main: timerpoOf(group, 0) }));
    const rms = (values: readonly number[]): number => Math.sqrt(mean(values.map((value) => value * value)));
    const main = rms(parts.flatMap((part) => part.main));
    const orthogonal = rms(parts.flatMap((part) => part.all.map((value, i) => value - part.main[i]!)));
    expect(grounding.ratio! / ((timerpo.alpha * orthogonal) / main)).toBeCloseTo(1, 2);
    // Only the second prompt's rewards differ.
    const { rewards, similarity } = groups[1]!;
    const apart = (values: readonly number[]): number[] => values.map((value) => value - mean(values));
    const product = mean(apart(rewards).map((value, i) => value * apart(similarity)[i]!));
    expect(grounding.correlation).toBeCloseTo(product / (rms(apart(rewards)) * rms(apart(similarity))), 3);
    expect(grounding.tokens).toBeGreaterThan(1);
    expect(grounding.tokens).toBeLessThanOrEqual(line!.tokens);
    expect(grounding.partners).toBeGreaterThan(1);
    const { goldSimilarity, goldFirst, goldNearer } = grounding;
    expect(goldSimilarity).toBeGreaterThan(0);
    expect([0, 0.5, 1]).toContain(goldFirst);
    expect(goldNearer! * 16).toBeCloseTo(Math.round(goldNearer! * 16), 9); // two groups of four, halves for equal ones
    if (goldFirst === 1) expect(goldNearer).toBeGreaterThanOrEqual(0.5);
    // The mean states of a text say less, and nothing of a transport.
    const clip = await run({ timerpo: { ...timerpo, similarity: 'clip' } }, task);
    expect(clip.lines[0]).toMatchObject({
      transportError: null,
      grounding: { tokens: null, partners: null },
    });
    expect(clip.lines[0]!.similarity).not.toBeCloseTo(line!.similarity!, 3);
  });

  test('scaled to the spread of the rewards, the orthogonal part is α of the main one', async () => {
    const done = await run({ timerpo: { ...RL.timerpo, alpha: 0.7, scale: 'spread' } }, task);
    expect(done.lines[0]!.grounding!.ratio).toBeCloseTo(0.7, 9);
  });

  test.each([
    {
      advantage: 'dr_grpo' as const,
      of: (rewards: readonly number[]) => rewards.map((reward) => reward - mean(rewards)),
    },
    {
      advantage: 'grpo' as const,
      of: (rewards: readonly number[]) => {
        const variance = rewards.reduce((sum, r) => sum + (r - mean(rewards)) ** 2, 0) / (rewards.length - 1);
        return rewards.map((reward) => (reward - mean(rewards)) / (Math.sqrt(variance) + 1e-6));
      },
    },
  ])(
    'of $advantage updates along its definition, and a zero-variance group takes no part',
    async ({ advantage, of }) => {
      const groups = (await groupsOf(task)).slice(1);
      const want = gradientOf(
        groups,
        groups.map(({ rewards }) => of(rewards)),
      );
      const done = await run({ advantage }, task);
      expect(relativeDistance(given(done), want.gradient)).toBeLessThan(1e-3);
      expect(done.lines[0]).toMatchObject({
        equalRewards: 0.5,
        zeroVariance: 0.5,
        similarity: null,
        transportError: null,
        grounding: null,
      });
      expect(done.lines[0]!.orthogonal).toBe(0);
    },
  );

  test('with α 0 TimerPO is Dr. GRPO', async ({ skip }) => {
    skip(!REPEATS);
    const [a, b] = [
      await run({ timerpo: { ...RL.timerpo, alpha: 0 } }, task),
      await run({ advantage: 'dr_grpo' }, task),
    ];
    expect(identical(given(a), given(b))).toBe(true);
  });

  test('without KL no reference takes part', async () => {
    const groups = await groupsOf(task);
    const advantages = groups.map((group) => timerpoOf(group, RL.timerpo.alpha));
    const want = gradientOf(groups, advantages, { kl: 0, entropy: RL.entropy });
    const done = await run({}, task, { reference: null });
    expect(relativeDistance(given(done), want.gradient)).toBeLessThan(1e-3);
    expect(done.lines[0]!.kl).toBeNull();
    expect((await run({}, task)).lines[0]!.kl).toBeGreaterThan(0.001);
  });

  test('with a nucleus samples from it, and updates along the loss of the full distribution', async () => {
    const topP = 0.5;
    const groups = await groupsOf(task, { topP });
    const whole = await groupsOf(task);
    expect(groups.map(({ responses }) => responses)).not.toEqual(whole.map(({ responses }) => responses));
    const want = gradientOf(
      groups,
      groups.map((group) => timerpoOf(group, RL.timerpo.alpha)),
    );
    const done = await run({ topP }, task);
    expect(relativeDistance(given(done), want.gradient)).toBeLessThan(1e-3);
    const [line] = done.lines;
    expect(line!.loss).toBeCloseTo(want.loss, 5);
    // On policy every ratio is 1: the sampler's log-probabilities are not renormalised either.
    expect(line!.samplerGap).toBeLessThan(1e-5);
    expect(line!.clipped).toBe(0);
  });

  test('is said to be biased with a nucleus, and only then', () => {
    expect(cautions(RL)).toEqual([]);
    expect(cautions({ ...RL, topP: 0.9 })).toEqual([
      expect.stringMatching(/^rl\.topP is 0\.9: .*biased; set rl\.topP=1 for an exact gradient$/),
    ]);
  });

  test('is said to be another than its paper means, or to hold nothing, where options do not fit', () => {
    expect(cautions({ ...RL, ratio: 'sequence', aggregation: 'sequence_mean' })).toEqual([]);
    expect(cautions({ ...RL, ratio: 'sequence' })).toEqual([
      expect.stringMatching(/GSPO averages over responses/),
    ]);
    expect(cautions({ ...RL, klEstimator: 'k1' })).toEqual([
      expect.stringMatching(/gradient is 0 in expectation/),
    ]);
    expect(cautions({ ...RL, klEstimator: 'k1', kl: 0 })).toEqual([]);
    expect(cautions({ ...RL, distillation: { ...RL.distillation, weight: 0.1 } })).toEqual([
      expect.stringMatching(/the teacher reads the expert trace in its prompt/),
    ]);
  });

  test('in which every group has zero variance updates nothing', async () => {
    const equal = tinyTask({ score: mixedScore([0, 1, 2]) });
    const policy = copyOf(start);
    const done = await run({ advantage: 'grpo' }, equal, { policy });
    expect(done.lines[0]).toMatchObject({
      zeroVariance: 1,
      equalRewards: 1,
      gradNorm: null,
      loss: 0,
      skipped: 0,
    });
    expect(done.learner.optimizer.steps).toBe(0);
    expect(identical(engine.floats(policy.flat), engine.floats(start.flat))).toBe(true);
  });

  test('shows the responses of its first prompt with their judgement', async () => {
    const { completions } = await run({}, task);
    const [first] = await groupsOf(task);
    expect(completions).toHaveLength(RL.group);
    completions.forEach((one, g) => {
      expect(one).toMatchObject({ step: 1, seriesId: 'tiny/train/0', reward: 0.4, parts: { whim: 0.4 } });
      expect(one.similarity).toBeCloseTo(first!.similarity[g]!, 5);
      expect(one.advantage).toBeCloseTo(timerpoOf(first!, RL.timerpo.alpha)[g]!, 5);
    });
  });
});

describe('the loss of a step', () => {
  const task = tinyTask({ score: mixedScore([0]) });
  const plain = { advantage: 'dr_grpo', kl: 0, entropy: 0 } as const;
  const scaled = (run: TinyRl, factor: number) => given(run).map((value) => value * factor);

  test('divided by the constant of Dr. GRPO is that of the token mean times tokens over responses × longest', async () => {
    const token = await run(plain, task);
    const constant = await run({ ...plain, aggregation: 'constant' }, task);
    // The group of equal rewards is left out of the tokens, but not out of the constant.
    const tokens = (await groupsOf(task))[1]!.responses.reduce((sum, ids) => sum + ids.length, 0);
    const factor = tokens / (RL.prompts * RL.group * RL.maxTokens);
    expect(relativeDistance(given(constant), scaled(token, factor))).toBeLessThan(1e-6);
    expect(constant.lines[0]!.loss).toBeCloseTo(token.lines[0]!.loss * factor, 6);
  });

  test('as a mean over responses weighs those of a group alike, whatever their lengths', async () => {
    const group = (await groupsOf(task))[1]!;
    const main = group.rewards.map((reward) => reward - mean(group.rewards));
    const weighted = main.map((value, g) => value / group.responses[g]!.length);
    const want = gradientOf([group], [weighted], { kl: 0, entropy: 0 });
    const tokens = group.responses.reduce((sum, ids) => sum + ids.length, 0);
    const got = await run({ ...plain, aggregation: 'sequence_mean' }, task);
    expect(new Set(group.responses.map(({ length }) => length)).size).toBeGreaterThan(1);
    expect(relativeDistance(scaled(got, RL.group / tokens), want.gradient)).toBeLessThan(1e-3);
  });

  test.each([
    { ratio: 'sequence' },
    { ratio: 'kalman' },
    { loss: 'cispo' },
    { clipRatioDual: 2, clipRatioHigh: 0.4 },
  ] as const)('with %j is the same on policy, and another when the policy has moved on', async (options) => {
    const own = { ...plain, learningRate: 5e-3, clipRatio: 0.02 };
    const [a, b] = [await run(own, task), await run({ ...own, ...options }, task)];
    expect(relativeDistance(given(b), given(a))).toBeLessThan(1e-5);
    const [c, d] = [
      await run({ ...own, epochs: 3 }, task),
      await run({ ...own, epochs: 3, ...options }, task),
    ];
    expect(c.lines[0]!.clipped).toBeGreaterThan(0);
    expect(relativeDistance(moments(d.learner).first, moments(c.learner).first)).toBeGreaterThan(1e-4);
  });

  test('of the tokens with the highest entropy alone has its gradient from them', async () => {
    const group = (await groupsOf(task))[1]!;
    const advantages = group.rewards.map((reward) => reward - mean(group.rewards));
    const share = 0.3;
    const each = engine.scope(() =>
      group.responses.map((ids) => [
        ...engine.floats(fullLogProbs(start, group.prompt, ids, RL.temperature).entropy),
      ]),
    );
    const all = each.flat().sort((a, b) => b - a);
    const least = all[all.length - Math.ceil((1 - share) * (all.length - 1)) - 1]!;
    const want = engine.scope(() => {
      let total: Tensor = engine.zeros([]);
      group.responses.forEach((ids, g) => {
        const { logProb } = fullLogProbs(start, group.prompt, ids, RL.temperature);
        const chosen = each[g]!.map((value) => (value > least - 1e-6 ? -advantages[g]! : 0));
        total = engine.add(
          total,
          engine.sum(engine.mul(logProb, engine.tensor(Float32Array.from(chosen), [ids.length]))),
        );
      });
      return flatGradient(start, engine.div(total, all.length));
    });
    const got = await run({ ...plain, topEntropy: share }, task);
    expect(relativeDistance(given(got), want)).toBeLessThan(1e-3);
    expect(got.lines[0]!.entropy).toBeCloseTo(mean(all), 4);
  });
});

describe('a divergence in the reward', () => {
  const task = tinyTask({ score: mixedScore([0]) });

  test('is taken from it before the advantages, and is not in the loss', async () => {
    const groups = await groupsOf(task);
    const apart = engine.scope(() =>
      groups.map(({ prompt, responses }) =>
        responses.map((ids) => {
          const of = (policy: Policy) =>
            engine.floats(fullLogProbs(policy, prompt, ids, RL.temperature).logProb);
          const base = of(reference);
          return [...of(start)].map((value, t) => value - base[t]!);
        }),
      ),
    );
    const lessened = groups.map((group, p) => ({
      ...group,
      rewards: group.rewards.map(
        (reward, g) => reward - RL.kl * apart[p]![g]!.reduce((sum, value) => sum + value, 0),
      ),
    }));
    const want = gradientOf(
      groups,
      lessened.map((group) => timerpoOf(group, RL.timerpo.alpha)),
      { kl: 0, entropy: RL.entropy },
    );
    const done = await run({ klIn: 'reward', klEstimator: 'k1' }, task);
    expect(relativeDistance(given(done), want.gradient)).toBeLessThan(1e-3);
    const [line] = done.lines;
    expect(line!.reward).toBeCloseTo(mean(groups.flatMap(({ rewards }) => rewards)), 6);
    // The log has k3 per token wherever it counts.
    expect(line!.kl).toBeCloseTo((await run({}, task)).lines[0]!.kl!, 6);
  });
});

describe('groups of equal rewards', () => {
  // Kinds 0 and 1 of three reward every response alike.
  const task = tinyTask({ score: mixedScore([0, 1]) });
  const options = { advantage: 'dr_grpo', prompts: 3, resample: 3 } as const;

  test('are replaced by those of further prompts, round after round', async () => {
    const plain = await run({ ...options, resample: 0 }, task);
    expect(plain.lines[0]).toMatchObject({ equalRewards: 2 / 3, zeroVariance: 2 / 3, resampled: 0 });
    const done = await run(options, task);
    // Places 0 and 1 get the prompts 3 and 4 in the first round, of kinds 0 and 1 again, and so on: none is found …
    expect(done.lines[0]).toMatchObject({ equalRewards: 2 / 3, zeroVariance: 2 / 3, resampled: 6 });
    expect(done.lines[0]!.reward).toBe(plain.lines[0]!.reward);
    // … but in two steps of 2 prompts there is one of kind 2 for place 1 in the first round, and for place 0 in the third.
    const found = await run({ ...options, prompts: 2, steps: 2 }, task);
    expect(found.lines[0]).toMatchObject({ equalRewards: 1, zeroVariance: 0, resampled: 4 });
    expect(found.completions[0]!.seriesId).toBe('tiny/train/8');
  });

  test('are replaced by the same ones in a run that resumes, which no other step asks', () => {
    const own = { steps: 4, prompts: 5, resample: 3 };
    const asked = new Set<number>();
    for (let step = 0; step < own.steps; step++) {
      for (let place = 0; place < own.prompts; place++) {
        asked.add(step * own.prompts + place);
        for (let round = 1; round <= own.resample; round++) asked.add(replacement(own, step, round, place));
      }
    }
    expect(asked.size).toBe(own.steps * own.prompts * (1 + own.resample));
    expect(Math.max(...asked)).toBe(asked.size - 1);
  });

  test('are counted apart where nothing was earned and where everything was', async () => {
    const scores = [0, 1, 0.4];
    const graded = tinyTask({
      score: (_, { channels }) => ({ total: scores[channels[0]![0]!]!, parts: {} }),
    });
    const [line] = (await run({ ...options, resample: 0, prompts: 3 }, graded)).lines;
    expect(line).toMatchObject({ equalRewards: 1, allZero: 1 / 3, allFull: 1 / 3 });
  });
});

describe('several updates of a step', () => {
  const task = tinyTask({ score: mixedScore([]) });
  const still = 1e-30; // a learning rate that leaves the weights where they are

  test('mini-batches divide the prompts, each group in one of them', async () => {
    const groups = await groupsOf(task, { prompts: 4 });
    const advantages = groups.map((group) => timerpoOf(group, RL.timerpo.alpha));
    const pick = (mini: number) =>
      gradientOf(
        groups.filter((_, p) => p % 2 === mini),
        advantages.filter((_, p) => p % 2 === mini),
      ).gradient;
    const [first, second] = [pick(0), pick(1)];
    const { learner, lines } = await run({ prompts: 4, miniBatches: 2, learningRate: still }, task);
    expect(learner.optimizer.steps).toBe(2);
    const [beta] = OPTIMIZER.betas;
    const want = first.map((value, i) => (1 - beta) * (beta * value + second[i]!));
    expect(relativeDistance(moments(learner).first, want)).toBeLessThan(1e-3);
    expect(lines[0]!.gradNorm! / Math.hypot(...second)).toBeCloseTo(1, 3);
  });

  test('a silent group leaves the others in their mini-batches', async () => {
    const partly = tinyTask({ score: mixedScore([0]) }); // of 4 prompts, numbers 0 and 3 are silent
    const groups = await groupsOf(partly, { prompts: 4 });
    const centred = ({ rewards }: Group) => rewards.map((reward) => reward - mean(rewards));
    const one = (p: number) => gradientOf([groups[p]!], [centred(groups[p]!)]).gradient;
    const [second, third] = [one(1), one(2)]; // numbers 1 and 2 belong to mini-batches 1 and 0
    const options = { prompts: 4, miniBatches: 2, learningRate: still, advantage: 'dr_grpo' } as const;
    const { learner } = await run(options, partly);
    const [beta] = OPTIMIZER.betas;
    const want = third.map((value, i) => (1 - beta) * (beta * value + second[i]!));
    expect(relativeDistance(moments(learner).first, want)).toBeLessThan(1e-3);
  });

  test('epochs go over the same rollouts again, where ratios leave 1 and are clipped', async () => {
    const options = { epochs: 3, learningRate: 5e-3, clipRatio: 0.05 };
    const { learner, lines } = await run(options, task);
    expect(learner.optimizer.steps).toBe(3);
    expect(lines[0]!.clipped).toBeGreaterThan(0);
    expect(lines[0]!.samplerGap).toBeLessThan(1e-5); // of the first pass alone
  });
});

describe('the reinforcement stage', () => {
  test('raises the reward of what it samples', async () => {
    // Whatever the picture shows, the third trace is wanted.
    const wanted = tinyTask({
      score: (response) => ({ total: response === TRACES[2] ? 1 : 0.1 * chance(response), parts: {} }),
    });
    // Traces at random teach the policy to give each a third of the time.
    const blind = tinyTask({
      trace: ({ channels }) => new Random(1, 'trace', channels[0]![1]).pick(TRACES),
    });
    const policy = tinyPolicy(engine);
    await teach(tinyLearner(policy), { samples: 240 }, blind);
    const options = { steps: 25, prompts: 3, group: 8, temperature: 1, maxTokens: 40, learningRate: 3e-3 };
    const { lines } = await run({ ...options, kl: 0.001, entropy: 0 }, wanted, {
      policy,
      reference: copyOf(policy),
      clip: 1,
    });
    const rewards = lines.map(({ reward }) => reward);
    // A third at first; 0.9 in the end, where this was measured.
    expect(rewards[0]).toBeLessThan(0.55);
    expect(mean(rewards.slice(-10))).toBeGreaterThan(0.75);
  });

  test('raises a reward that a user wrote in ten lines of TypeScript', async () => {
    const file = join(directory, 'third.ts');
    writeFileSync(
      file,
      `import { defineReward } from 'timeseer';

export default defineReward({
  name: 'third',
  score: ({ text }: { readonly text: string }) => {
    const wanted = '<think>right</think><answer>[]</answer><class>normal</class>';
    const shared = [...text].filter((letter, i) => letter === wanted[i]).length;
    return { total: shared / wanted.length, parts: { shared }, notes: shared > 40 ? 'near' : 'far' };
  },
});
`,
    );
    const host = await RewardHost.open([{ file, name: 'default' }]);
    const answer = parseAnswer('', 2);
    const wanted = tinyTask({
      hosted: true,
      weights: { third: 1 },
      score: (text, example) =>
        host
          .score({ text, answer, example })
          .then((scores) => combine([{ name: 'third', weight: 1, weights: null }], scores)),
    });
    const blind = tinyTask({
      trace: ({ channels }) => new Random(1, 'trace', channels[0]![1]).pick(TRACES),
    });
    const policy = tinyPolicy(engine);
    await teach(tinyLearner(policy), { samples: 240 }, blind);
    const options = {
      steps: 12,
      prompts: 3,
      group: 8,
      temperature: 1,
      maxTokens: 40,
      learningRate: 3e-3,
      kl: 0,
    };
    const { lines, completions } = await run(options, wanted, { policy, reference: null, clip: 1 });
    await host.close();
    expect(Object.keys(lines[0]!.parts)).toEqual(['third', 'third.shared']);
    expect(completions[0]!.notes).toMatch(/^third: (near|far)$/);
    const rewards = lines.map(({ reward }) => reward);
    expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 3)) + 0.15);
  });

  test('leaves responses without a reward out, and counts them', async () => {
    const some = tinyTask({
      score: (text) => (chance(text) < 0.5 ? null : { total: chance(text), parts: {} }),
    });
    const { lines } = await run({ ...RL, steps: 1 }, some);
    const all = RL.prompts * RL.group;
    expect(lines[0]!.unrewarded).toBeGreaterThan(0);
    expect(lines[0]!.unrewarded).toBeLessThan(all);
    expect(lines[0]!.reward).toBeGreaterThan(0.5);
    const none = await run({ ...RL, steps: 1, entropy: 0, kl: 0 }, tinyTask({ score: () => null }));
    expect(none.lines[0]).toMatchObject({ unrewarded: all, zeroVariance: 1, gradNorm: null });
  });

  test('stopped and resumed from its checkpoint it is the uninterrupted run, bit for bit', async ({
    skip,
  }) => {
    skip(!REPEATS);
    const options = { ...RL, steps: 5, checkpointEvery: 2, miniBatches: 2, resample: 1 };
    const task = tinyTask({ score: mixedScore([1]) });
    const timeless = ({ ms: _, ...rest }: RlMetrics) => rest;
    const whole = await run(options, task, { clip: OPTIMIZER.clip });
    expect(whole.saved).toEqual([2, 4, 5]);

    const memory = workerGroupMemory(1);
    const checkpoint = join(directory, 'checkpoint');
    const lines: RlMetrics[] = [];
    const completions: Completion[] = [];
    const hooksOf = (learner: Learner): RlHooks => ({
      onStep: (line) => {
        lines.push(line);
        if (line.step === 3) requestStop(memory);
      },
      onCompletions: (list) => void completions.push(...list),
      save: (at) => saveCheckpoint(checkpoint, learner, FOREIGN_CARD, { stage: 'rl', ...at, origin: ORIGIN }),
    });
    const first = new Learner(copyOf(start), new WorkerGroup(memory, 0, 1), OPTIMIZER);
    expect(await rl(first, reference, task, options, SEED, hooksOf(first))).toBe(3);
    const state = readState(checkpoint)!;
    expect(state).toMatchObject({ stage: 'rl', step: 3, updates: 6 });
    const second = tinyLearner(Policy.load(engine, checkpoint));
    restoreOptimizer(checkpoint, second, state);
    expect(await rl(second, reference, task, options, SEED, hooksOf(second), state)).toBe(5);

    expect(lines.map(timeless)).toEqual(whole.lines.map(timeless));
    expect(completions).toEqual(whole.completions);
    expect(identical(engine.floats(second.policy.flat), engine.floats(whole.learner.policy.flat))).toBe(true);
  });

  test('a reward that is not finite leaves out the update, is counted, and stops the run after ten on end', async () => {
    const broken = tinyTask({ score: () => ({ total: Number.NaN, parts: {} }) });
    const policy = copyOf(start);
    const lines: RlMetrics[] = [];
    const failed = run({ steps: 20, maxTokens: 6 }, broken, {
      policy,
      onStep: (line) => void lines.push(line),
    });
    await expect(failed).rejects.toThrow(TimeseerError);
    await expect(failed).rejects.toThrow(/10 updates in a row.*step 10.*lower rl\.learningRate/);
    expect(lines).toHaveLength(10);
    for (const line of lines) {
      expect(line.skipped).toBe(1);
      expect(Number.isFinite(line.gradNorm)).toBe(false);
    }
    expect(identical(engine.floats(policy.flat), engine.floats(start.flat))).toBe(true);
  });

  test('guards are named in the metrics of their step, and stop the run where the recipe says so', async () => {
    const task = tinyTask({ score: () => ({ total: 0.4, parts: {} }) });
    const own = { ...RL.guards, kl: { limit: 1, reaction: 'ignore' as const } };
    const small = { steps: 4, prompts: 1, group: 2, maxTokens: 4, guards: own };
    const { lines } = await run(small, task);
    expect(lines.map(({ guards }) => guards)).toEqual(Array(4).fill(['equalRewards']));
    const guards = { ...own, equalRewards: { limit: 3, reaction: 'stop' as const } };
    const seen: RlMetrics[] = [];
    const stopped = run({ ...small, guards }, task, { onStep: (line) => void seen.push(line) });
    await expect(stopped).rejects.toThrow(/guard equalRewards in step 3/);
    expect(seen.map((line) => line.guards)).toEqual([[], [], ['equalRewards']]);
    // Resumed after two such steps, it stops in the same step.
    const learner = tinyLearner(copyOf(start));
    const hooks = { onStep: () => {}, onCompletions: () => {}, save: () => {} };
    const from = { step: 2, skippedInARow: 0 };
    const again = rl(
      learner,
      reference,
      task,
      { ...RL, ...small, guards },
      SEED,
      hooks,
      from,
      seen.slice(0, 2),
    );
    await expect(again).rejects.toThrow(/guard equalRewards in step 3/);
  });

  test('what answers mark of the series is compared with what gold answers mark', async () => {
    const task = tinyTask({
      score: mixedScore([]),
      marked: (text) => (text.length % 3 === 0 ? null : { predicted: 0.5, gold: 0.125 }),
    });
    const { lines } = await run({ steps: 1, prompts: 1, maxTokens: 6 }, task);
    expect(lines[0]!.marked).toEqual({ predicted: 0.5, gold: 0.125 });
    const silent = await run({ steps: 1, prompts: 1, maxTokens: 4 }, tinyTask({ score: mixedScore([]) }));
    expect(silent.lines[0]!.marked).toBeNull();
  });

  test('one bad step in between is left out and training goes on', async () => {
    let call = 0;
    const task = tinyTask({
      score: (text) => ({ total: call++ < RL.prompts * RL.group ? Number.NaN : chance(text), parts: {} }),
    });
    const { learner, lines } = await run({ steps: 3, maxTokens: 6 }, task);
    expect(lines.map(({ skipped }) => skipped)).toEqual([1, 0, 0]);
    expect(learner.optimizer.steps).toBe(2);
  });
});
