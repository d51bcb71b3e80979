import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { CodeInspection } from '../../src/inspect/code.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { generate } from '../../src/policy/generate.ts';
import { KeptCaches } from '../../src/policy/kv-cache.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { recipeOf } from '../../src/recipe/config.ts';
import { nanoCard, trainingTask } from '../../src/run/policy-task.ts';
import { FOREIGN_CARD } from '../../src/tasks/card.ts';
import { ADVANTAGES, type AdvantageName } from '../../src/train/advantage.ts';
import { readState, restoreOptimizer, saveCheckpoint } from '../../src/train/checkpoint.ts';
import type { Learner } from '../../src/train/learner.ts';
import type { Completion, RlMetrics } from '../../src/train/metrics.ts';
import { responseLogProbs } from '../../src/train/micro-batch.ts';
import { type RlHooks, type RlOptions, rl } from '../../src/train/rl.ts';
import { episodeRecords, type RolloutGroup, stepsOf } from '../../src/train/rollout.ts';
import { PromptEncoder, type Task } from '../../src/train/task.ts';
import { DEVICE, REPEATS } from '../helpers/device.ts';
import { rollout } from '../helpers/rollout.ts';
import { ORIGIN, teach, tinyDims, tinyLearner } from '../helpers/tiny-policy.ts';

const LENGTH = 2000;
const SEED = 17;
const address = { name: 'wild', split: 'train', seed: 5, length: LENGTH } as const;
const recipe = recipeOf(
  {
    data: { name: 'wild', length: LENGTH, traces: null },
    inspect: { turns: 4, detours: 1, calls: 0.3 },
    rl: { advantage: 'grpo', steps: 4, prompts: 2, group: 4, maxTokens: 60, learningRate: 1e-3, warmup: 0 },
  },
  'test',
);
const card = nanoCard(recipe, openExamples(address).facts);
const scripted = trainingTask(card, address, 'sft');
const task = trainingTask(card, address, 'rl');
const engine = openTorch({ device: DEVICE, threads: 1 });

/** Responses in equal numbers: the scripted ones are too long for a policy of these sizes and this little training. */
const RESPONSES = [
  '<tool>zoom 1 0</tool>',
  '<tool>zoom 9 9</tool>',
  '<think>scan ....</think><answer>[[100, 200]]</answer><class>trend</class>',
];
const short: Task = {
  ...scripted,
  trace: ({ id }) => RESPONSES[Number(/\d+/.exec(id)![0]) % RESPONSES.length]!,
};

function tokenizer(): Record<string, unknown> {
  const examples = Array.from({ length: 60 }, (_, i) => scripted.example(i));
  const texts = examples.flatMap((example) => [scripted.instruction(example), scripted.trace(example)]);
  return trainBpe([...texts, ...RESPONSES]);
}
const start = Policy.create(engine, { tokenizer: tokenizer(), seed: 2, dims: tinyDims });
await teach(tinyLearner(start), { samples: 320, batch: 8, learningRate: 1e-2 }, short);
const copyOf = (policy: Policy): Policy =>
  new Policy(engine, policy.parts, engine.tensor(engine.floats(policy.flat), [policy.layout.size]));

const encoder = new PromptEncoder(start);
const examples = [0, 1, 2].map((i) => task.example(i));
const prompts: EncodedPrompt[] = [];
for (const example of examples) prompts.push(await encoder.encodeExample(task, example));
const OPTIONS = { group: 4, temperature: 1, topP: 1, maxTokens: 60, seed: SEED, hidden: false };
const play = (
  some: readonly number[],
  options: Partial<typeof OPTIONS & { rows: number; scoreTurns: boolean }> = {},
) =>
  rollout(
    start,
    some.map((i) => examples[i]!),
    some.map((i) => prompts[i]!),
    some.map((i) => 70 + i),
    task.score,
    { ...OPTIONS, ...options },
    task.episodes!,
  );
const groups = await play([0, 1, 2]);
const textsOf = ({ episodes }: RolloutGroup) =>
  episodes!.map(({ turns, answer }) => [...turns.map(({ response }) => response), answer]);

describe('examples of the supervised stage', () => {
  test('are steps of paths: the state with its picture as the prompt, and the response as the trace', async () => {
    const steps = Array.from({ length: 40 }, (_, i) => scripted.example(i));
    const turns = await Promise.all(steps.map((example) => scripted.turns!(example)));
    const first = turns.filter(({ instruction }) => instruction === 'Find the anomalies.');
    expect([first.length, turns.length - first.length].every((count) => count > 5)).toBe(true);
    for (const [i, { shots, picture, instruction }] of turns.entries()) {
      expect(shots).toEqual([]);
      expect(picture).not.toBeNull();
      expect(instruction).toBe(scripted.instruction(steps[i]!));
      expect(instruction).toMatch(/^Find the anomalies\.(?: 3\b.*)?$/);
    }
    expect(turns.some(({ instruction }) => instruction === 'Find the anomalies. 3')).toBe(true);
  });

  test('are the same whenever they are asked for', async () => {
    const fresh = trainingTask(card, address, 'sft');
    for (const index of [31, 4, 17]) {
      const [one, other] = [scripted.example(index), fresh.example(index)];
      expect(other.id).toBe(one.id);
      expect(fresh.trace(other)).toBe(scripted.trace(one));
      expect(await fresh.turns!(other)).toEqual(await scripted.turns!(one));
    }
  });
});

describe('episodes', () => {
  test('call tools and end in answers, of unequal numbers of turns', () => {
    const episodes = groups.flatMap((group) => group.episodes!);
    expect(episodes.some(({ turns }) => turns.length > 1)).toBe(true);
    expect(new Set(episodes.map(({ turns }) => turns.length)).size).toBeGreaterThan(1);
    for (const { responses, episodes: own } of groups) {
      expect(responses.map(({ text }) => text)).toEqual(own!.map(({ answer }) => answer));
    }
  });

  // Elsewhere products of other numbers of rows round otherwise, and a sample may flip.
  test.runIf(DEVICE === 'cpu')('do not depend on the batch that they are played in', async () => {
    expect(textsOf((await play([1]))[0]!)).toEqual(textsOf(groups[1]!));
    expect((await play([0, 1, 2], { rows: 3 })).map(textsOf)).toEqual(groups.map(textsOf));
  });

  test('have the log-probabilities at every step that the training forward finds behind the history', () => {
    for (const { prompt, responses } of groups.flatMap(stepsOf)) {
      const ids = responses.map((response) => response.ids);
      const trained = responseLogProbs(start, [prompt], ids, OPTIONS.temperature);
      const sampled = responses.flatMap(({ logProbs }) => [...logProbs]);
      trained.forEach((value, k) => {
        expect(Math.abs(value - sampled[k]!)).toBeLessThan(1e-4);
      });
    }
  });

  test('share the prompt of equal histories, and every step is one sample', () => {
    for (const group of groups) {
      const steps = stepsOf(group);
      const turns = group.episodes!.reduce((sum, episode) => sum + episode.turns.length, 0);
      expect(steps.reduce((sum, { responses }) => sum + responses.length, 0)).toBe(turns);
      expect(steps[0]!.responses).toHaveLength(4);
      expect(new Set(steps.map(({ prompt }) => prompt)).size).toBe(steps.length);
    }
  });

  test('a turn behind kept caches encodes only what is new, and goes on as if all were encoded', async () => {
    const picture = (await task.picture(examples[0]!))!;
    const response = start.encodeResponse('<think>scan ....</think><tool>zoom 1 0</tool>');
    const further = prompts.map((prompt) =>
      encoder.continued(prompt, response, { picture, instruction: '3 left' }),
    );
    const sampling = { temperature: 0, maxTokens: 20, seed: 1 };
    const kept = new KeptCaches(start);
    await generate(start, prompts, { ...sampling, maxTokens: 1, kept });
    const before = kept.tokens.encoded;
    const cached = await generate(start, further, { ...sampling, kept });
    const plain = await generate(start, further, sampling);
    kept.dispose();
    expect(cached.map(({ ids }) => ids)).toEqual(plain.map(({ ids }) => ids));
    for (const [i, { logProbs }] of cached.entries()) {
      const apart = logProbs.map((value, k) => Math.abs(value - plain[i]!.logProbs[k]!));
      expect(Math.max(...apart)).toBeLessThan(1e-4);
    }
    const lengths = (list: readonly EncodedPrompt[]) => list.reduce((sum, { ids }) => sum + ids.length, 0);
    expect(kept.tokens.reused).toBe(lengths(prompts));
    expect(kept.tokens.encoded - before).toBe(lengths(further) - lengths(prompts));
  });

  test('free all tensors that they kept', async () => {
    const live = engine.live();
    await play([0]);
    expect(engine.live()).toBe(live);
  });
});

describe('episodes whose history is a picture', () => {
  const episodes = { ...task.episodes!, history: 'optical' } as const;
  const rolled = () => rollout(start, [examples[0]!], [prompts[0]!], [70], task.score, OPTIONS, episodes);

  test('have prompts of one turn with that picture and the last one shown', async () => {
    const [group] = (await rolled()) as [RolloutGroup];
    const steps = stepsOf(group);
    expect(group.episodes!.some(({ turns }) => turns.length > 1)).toBe(true);
    expect(steps[0]!.responses).toHaveLength(4);
    for (const { prompt, responses } of steps) {
      expect(prompt.images).toHaveLength(2);
      const trained = responseLogProbs(
        start,
        [prompt],
        responses.map(({ ids }) => ids),
        1,
      );
      const sampled = responses.flatMap(({ logProbs }) => [...logProbs]);
      trained.forEach((value, k) => {
        expect(Math.abs(value - sampled[k]!)).toBeLessThan(1e-4);
      });
    }
    expect((await rolled()).map(textsOf)).toEqual([textsOf(group)]);
  });

  test('are rewarded for compression where they succeed, in every fifth step', async () => {
    const [group] = (await rolled()) as [RolloutGroup];
    const compressed = group.episodes!.map(({ turns, ...episode }) => ({
      ...episode,
      turns: turns.map((turn) => ({ ...turn, reply: { ...turn.reply, compression: 2 } })),
    }));
    const bonuses = (step: number) =>
      episodeRecords(compressed, [1, 0.5, null, 0.9], { success: 0.8 }, step).map(({ steps }) =>
        steps.map(({ bonus }) => bonus),
      );
    const each = (values: readonly number[]) =>
      compressed.map(({ turns }, g) => turns.map((_, t) => (t < turns.length - 1 ? values[g] : 0)));
    const full = 0.01 * Math.log(2);
    expect(bonuses(5)).toEqual(each([full, 0, 0, full]));
    expect(bonuses(6)).toEqual(each([0, 0, 0, 0]));
  });
});

describe('reinforcement of episodes', () => {
  const base: RlOptions = { ...recipe.rl, advantage: 'grpo', kl: 0.01 };
  const run = async (options: Partial<RlOptions>, given: Task = task) => {
    const learner = tinyLearner(copyOf(start));
    const lines: RlMetrics[] = [];
    const completions: Completion[] = [];
    const hooks: RlHooks = {
      onStep: (line) => void lines.push(line),
      onCompletions: (list) => void completions.push(...list),
      save: () => {},
    };
    await rl(learner, start, given, { ...base, ...options }, SEED, hooks);
    return { learner, lines, completions };
  };

  test.each(['grpo', 'gigpo', 'hgpo', 'graphgpo'] as const)('trains by %s', async (advantage) => {
    const { learner, lines } = await run({ advantage, steps: 2 });
    for (const { inspection, reward } of lines) {
      expect(inspection!.turns).toBeGreaterThan(1);
      expect(inspection!.failures).toBeGreaterThanOrEqual(0);
      expect(Number.isFinite(reward)).toBe(true);
    }
    expect(lines.some(({ gradNorm }) => gradNorm !== null && gradNorm > 0)).toBe(true);
    expect(engine.floats(learner.policy.flat)).not.toEqual(engine.floats(start.flat));
  });

  test('reward a step with the change of the standing answer, which sums to the reward of the episode', async () => {
    const [group] = await play([0], { scoreTurns: true });
    const { episodes, standing, scores } = group!;
    expect(standing!.map((list) => list.length + 1)).toEqual(episodes!.map(({ turns }) => turns.length));
    const totals = scores.map((score) => score!.total);
    const records = episodeRecords(episodes!, totals, task.episodes!, 1, standing);
    const rewards = records.map(({ steps }) => steps.map(({ reward }) => reward));
    expect(rewards.map((list) => list.reduce((sum, value) => sum + value, 0))).toEqual(
      totals.map((total) => expect.closeTo(total, 12)),
    );
    const given = [0.25, 0.75, 0.5];
    const four = episodes!.map(({ turns, ...rest }) => ({
      ...rest,
      turns: [...turns, ...turns, ...turns, ...turns].slice(0, 4),
    }));
    expect(
      episodeRecords(
        four,
        four.map(() => 0.25),
        task.episodes!,
        1,
        four.map(() => given),
      )[1]!.steps.map(({ reward }) => reward),
    ).toEqual([0.25, 0.5, -0.25, -0.25]);
    const [one, two] = [
      await run({ advantage: 'gigpo', steps: 1 }),
      await run({ advantage: 'gigpo', steps: 1, stepwise: { reward: 'change' } }),
    ];
    expect(one.lines[0]!.reward).toBe(two.lines[0]!.reward);
  });

  test('with two roles the turns of each are compared among themselves', async () => {
    const records = episodeRecords(groups[0]!.episodes!, [1, 0, 0.5, 0], task.episodes!, 1);
    for (const { steps } of records) {
      expect(steps[0]!.role).toBe('whole');
      for (const { state, role } of steps) expect(role).toBe(state.startsWith('0.') ? 'whole' : 'window');
    }
    const [one, two] = [
      await run({ advantage: 'hgpo', steps: 1, stepwise: { episode: true } }),
      await run({ advantage: 'hgpo', steps: 1, stepwise: { episode: true, roles: 2 } }),
    ];
    expect(engine.floats(two.learner.policy.flat)).not.toEqual(engine.floats(one.learner.policy.flat));
  });

  test('report the estimated distances to success beside the true ones, where an episode succeeds', async () => {
    const never = { ...task, episodes: { ...task.episodes!, success: 2 } };
    expect((await run({ steps: 1 }, never)).lines[0]!.inspection!.distance).toBeNull();
    const always: Task = { ...task, episodes: { ...task.episodes!, success: 0, stepsFrom: () => () => 9 } };
    const { distance } = (await run({ steps: 1 }, always)).lines[0]!.inspection!;
    expect(distance!.true).toBe(9);
    expect(distance!.estimated).toBeGreaterThanOrEqual(1);
    expect(distance!.estimated).toBeLessThan(5);
    expect(distance!.error).toBeCloseTo(9 - distance!.estimated, 12);
  });

  test.each([
    ['a picture as their history', { ...task.episodes!, history: 'optical' as const }],
    [
      'a sandbox for code',
      {
        ...task.episodes!,
        open: (example: Parameters<Task['score']>[1]) =>
          new CodeInspection(example, { turns: 3, figure: card.figure, question: 'Find the anomalies.' }),
      },
    ],
  ])('trains with %s', async (_, episodes) => {
    const { learner, lines } = await run({ advantage: 'gigpo', steps: 1 }, { ...task, episodes });
    expect(lines[0]!.inspection!.turns).toBeGreaterThan(1);
    expect(engine.floats(learner.policy.flat)).not.toEqual(engine.floats(start.flat));
  });

  test('learns to answer at once where only that is rewarded, by credit to steps', async () => {
    const brief = {
      ...task,
      score: (text: string) => ({ total: text === '' || /looked at \w+@/.test(text) ? 0 : 1, parts: {} }),
    };
    const options = {
      advantage: 'gigpo' as AdvantageName,
      steps: 8,
      prompts: 4,
      group: 6,
      learningRate: 5e-3,
      kl: 0,
    };
    const { lines } = await run(options, brief);
    expect(lines.at(-1)!.inspection!.turns).toBeLessThan(lines[0]!.inspection!.turns);
  });

  test('failed steps cost the penalty', async () => {
    const dear = { ...task, episodes: { ...task.episodes!, penalty: 10 } };
    const [plain, costly] = [await run({ steps: 1 }), await run({ steps: 1 }, dear)];
    expect(plain.lines[0]!.inspection!.failures).toBeGreaterThan(0);
    expect(costly.completions.map(({ response }) => response)).toEqual(
      plain.completions.map(({ response }) => response),
    );
    expect(costly.completions.map(({ advantage }) => advantage)).not.toEqual(
      plain.completions.map(({ advantage }) => advantage),
    );
  });

  test('killed in the middle of a step and resumed it is the unbroken run, bit for bit', async ({ skip }) => {
    skip(!REPEATS);
    const options = { ...base, advantage: 'gigpo' as AdvantageName, checkpointEvery: 2 };
    const whole = await run(options);
    const directory = mkdtempSync(join(tmpdir(), 'timeseer-episodes-'));
    afterAll(() => rmSync(directory, { recursive: true, force: true }));
    const checkpoint = join(directory, 'checkpoint');
    const lines: RlMetrics[] = [];
    const hooksOf = (learner: Learner): RlHooks => ({
      onStep: (line) => void lines.push(line),
      onCompletions: () => {},
      save: (at) => saveCheckpoint(checkpoint, learner, FOREIGN_CARD, { stage: 'rl', ...at, origin: ORIGIN }),
    });
    let scored = 0;
    // Ends in the third step, between the scores of its episodes.
    const ending = {
      ...task,
      score: (text: string, example: Parameters<Task['score']>[1]) => {
        if (++scored === 2 * 2 * 4 + 3) throw new RangeError('killed');
        return task.score(text, example);
      },
    };
    const first = tinyLearner(copyOf(start));
    await expect(rl(first, start, ending, options, SEED, hooksOf(first))).rejects.toThrow('killed');
    const state = readState(checkpoint)!;
    expect(state.step).toBe(2);
    const second = tinyLearner(Policy.load(engine, checkpoint));
    restoreOptimizer(checkpoint, second, state);
    await rl(second, start, task, options, SEED, hooksOf(second), state);
    const timeless = ({ ms: _, ...rest }: RlMetrics) => rest;
    expect(lines.map(timeless)).toEqual(whole.lines.map(timeless));
    expect(engine.floats(second.policy.flat)).toEqual(engine.floats(whole.learner.policy.flat));
  });
});

test('estimators of traces and of steps are refused where they have nothing to read', () => {
  const of = (tree: object) => () => recipeOf(tree, 'test');
  expect(of({ rl: { advantage: 'gigpo' } })).toThrow(/rl\.advantage.*without inspect/);
  expect(of({ inspect: { turns: 6 } })).toThrow(/rl\.advantage.*gigpo, hgpo, graphgpo/);
  expect(of({ inspect: { turns: 6 }, rl: { advantage: 'hgpo', kl: 0.1, klIn: 'reward' } })).toThrow(
    /rl\.klIn/,
  );
  expect(of({ inspect: { turns: 6, runtime: 'code' }, rl: { advantage: 'gigpo' } })).toThrow(/sft\.samples/);
  const optical = {
    inspect: { turns: 6, history: 'optical' },
    sft: { samples: 0 },
    rl: { advantage: 'gigpo' },
  };
  expect(() => nanoCard(of({ ...optical, data: recipe.data })(), openExamples(address).facts)).toThrow(
    'small policies neither write code nor read pictures of text',
  );
  expect(Object.values(ADVANTAGES).filter(({ reads }) => reads === 'steps')).toHaveLength(3);
});
