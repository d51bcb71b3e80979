import { beforeAll, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { responseLogProbs } from '../../src/train/micro-batch.ts';
import type { RolloutGroup } from '../../src/train/rollout.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { DEVICE } from '../helpers/device.ts';
import { fullStates, relativeDistance } from '../helpers/full-sequence.ts';
import { rollout } from '../helpers/rollout.ts';
import { chance, mixedScore, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const policy = tinyPolicy(engine);
const task = tinyTask();
const encoder = new PromptEncoder(policy);
const examples = [0, 1, 2].map((i) => task.example(i));
const prompts = await Promise.all(
  examples.map(
    async (one): Promise<EncodedPrompt> => encoder.encode(await task.picture(one), task.instruction(one)),
  ),
);
const OPTIONS = { group: 5, temperature: 0.8, topP: 1, maxTokens: 24, seed: 9, hidden: true };
const score = mixedScore([]);
let groups: RolloutGroup[] = [];

beforeAll(async () => {
  // Taught a little: some responses end by themselves, others are cut off.
  await teach(tinyLearner(policy), { samples: 60, learningRate: 5e-3 });
  groups = await rollout(policy, examples, prompts, [10, 11, 12], score, OPTIONS);
});

describe('rollout', () => {
  test('gives every prompt its own responses, scored as text, some finished and some cut off', () => {
    expect(groups).toHaveLength(3);
    groups.forEach((group, p) => {
      expect(group.example).toBe(examples[p]);
      expect(group.prompt).toBe(prompts[p]);
      expect(group.responses).toHaveLength(5);
      group.responses.forEach(({ prompt, sample, text }, g) => {
        expect([prompt, sample]).toEqual([p, g]);
        expect(group.scores[g]!.total).toBe(chance(text));
      });
    });
    const all = groups.flatMap(({ responses }) => responses);
    expect(all.some(({ finished }) => finished)).toBe(true);
    expect(all.some(({ finished }) => !finished)).toBe(true);
    expect(new Set(all.map(({ text }) => text)).size).toBeGreaterThan(3);
  });

  test('keeps the log-probabilities that the training forward finds, at a temperature other than 1', () => {
    const responses = groups.flatMap((group) => group.responses);
    const trainer = responseLogProbs(
      policy,
      prompts,
      responses.map(({ ids }) => ids),
      OPTIONS.temperature,
    );
    const sampler = responses.flatMap(({ logProbs }) => [...logProbs]);
    expect(trainer).toHaveLength(sampler.length);
    trainer.forEach((value, k) => {
      expect(Math.abs(value - sampler[k]!)).toBeLessThan(1e-4);
    });
    // At another temperature they are others, so the test above can fail.
    const untempered = responseLogProbs(
      policy,
      prompts,
      responses.map(({ ids }) => ids),
      1,
    );
    expect(relativeDistance(untempered, sampler)).toBeGreaterThan(0.01);
  });

  test('keeps the states of a forward pass at the own position of every token, the last one included', () => {
    for (const { prompt, responses } of groups) {
      for (const { ids, hidden } of responses) {
        engine.scope(() => {
          const states = engine.narrow(fullStates(policy, prompt, ids), 0, prompt.ids.length, ids.length);
          expect(relativeDistance(hidden, engine.floats(states))).toBeLessThan(1e-5);
        });
      }
    }
  });

  test('an example is answered alike alone and among others', async () => {
    const [alone] = await rollout(policy, [examples[2]!], [prompts[2]!], [12], score, OPTIONS);
    expect(alone!.responses.map(({ ids }) => [...ids])).toEqual(
      groups[2]!.responses.map(({ ids }) => [...ids]),
    );
  });

  test('another example number or seed gives other responses', async () => {
    const texts = (list: readonly RolloutGroup[]) => list[0]!.responses.map(({ text }) => text);
    const [other] = await rollout(policy, [examples[2]!], [prompts[2]!], [13], score, OPTIONS);
    const [reseeded] = await rollout(policy, [examples[2]!], [prompts[2]!], [12], score, {
      ...OPTIONS,
      seed: 1,
    });
    expect(texts([other!])).not.toEqual(texts([groups[2]!]));
    expect(texts([reseeded!])).not.toEqual(texts([groups[2]!]));
  });

  test('keeps no states unless they are asked for', async () => {
    const [group] = await rollout(policy, [examples[0]!], [prompts[0]!], [10], score, {
      ...OPTIONS,
      hidden: false,
    });
    expect(group!.responses.every(({ hidden }) => hidden.length === 0)).toBe(true);
    expect(group!.responses.map(({ text }) => text)).toEqual(groups[0]!.responses.map(({ text }) => text));
  });

  test('no prompt, no response', async () => {
    expect(await rollout(policy, [], [], [], score, OPTIONS)).toEqual([]);
  });
});
