import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { responseSeed } from '../../src/answer/each.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type AdapterOptions, createAdapter, loadAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { changedRecipe } from '../../src/recipe/config.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import { openRolloutServer } from '../../src/run/rollout-server.ts';
import { Learner, type StageStart } from '../../src/train/learner.ts';
import type { Completion, RlMetrics } from '../../src/train/metrics.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import { requestStop, WorkerGroup, workerGroupMemory } from '../../src/train/worker-group.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';
import { InferenceServer } from '../helpers/inference-server.ts';
import { temporary } from '../helpers/temporary.ts';
import { mixedScore, OPTIMIZER, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';
import { RL as TINY } from '../helpers/tiny-rl.ts';

const SEED = 17;
const engine = openTorch({ threads: 1 });
const directory = temporary('rollout-server');

const LORA: AdapterOptions = { rank: 4, alpha: 8, targets: ['q_proj', 'v_proj', 'down_proj'] };
const RL: RlOptions = { ...TINY, steps: 3, prompts: 3, group: 4, temperature: 0.9, maxTokens: 12, kl: 0 };
const base = tinyPolicy(engine, 3, { tuning: 'none' });
const task = tinyTask({ score: mixedScore([]) });

const withAdapter = (adapter: 'new' | string): Policy =>
  new Policy(engine, base.parts, engine.tensor(engine.floats(base.flat), [base.layout.size]), {
    adapter: (dims) =>
      adapter === 'new' ? createAdapter(engine, dims, LORA, 5) : loadAdapter(engine, dims, adapter),
  });

const examples = new Map(Array.from({ length: 40 }, (_, index) => [responseSeed(SEED, index, 0), index]));
let server: InferenceServer;
const said: string[] = [];
/** Requests the end of the run that goes on. */
let stop = (): void => {};
beforeEach(async () => {
  server = new InferenceServer(withAdapter, { seed: SEED, examples });
  await server.start();
});
afterEach(() => server.stop());

/** Reinforces a new adapter; with a server where `set` names options of one. */
async function reinforce(
  options: Partial<RlOptions>,
  set?: Partial<RlOptions & { attempts: number; cap: number }>,
) {
  const memory = workerGroupMemory(1);
  const workers = new WorkerGroup(memory, 0, 1);
  const learner = new Learner(withAdapter('new'), workers, { ...OPTIMIZER, clip: 1e9 });
  stop = () => requestStop(memory);
  const lines: RlMetrics[] = [];
  const completions: Completion[] = [];
  const saved: number[] = [];
  const remote =
    set === undefined
      ? null
      : openRolloutServer({
          ...{ policy: learner.policy, workers, task, seed: SEED, directory },
          say: (text) => void said.push(text),
          server: {
            ...{ address: server.url, key: null, directory: null, concurrency: 8, timeout: 20 },
            ...{ attempts: set.attempts ?? 2, cap: set.cap ?? 2 },
          },
        });
  const hooks = {
    onStep: (line: RlMetrics) => void lines.push(line),
    onCompletions: (list: readonly Completion[]) => void completions.push(...list),
    save: ({ step }: StageStart) => void saved.push(step),
    remote: remote ?? undefined,
  };
  await rl(learner, null, task, { ...RL, ...options }, SEED, hooks);
  await remote?.close();
  return { lines, completions, saved, adapter: engine.floats(learner.policy.adapter!.flat) };
}

describe('rollouts on an inference server', () => {
  test.each([
    ['grpo', {}],
    ['timerpo, whose transport reads hidden states', { advantage: 'timerpo' as const }],
    ['two updates of each step, with resampling', { epochs: 2, resample: 1 }],
  ])('train the policy that sampling in this process trains: %s', async (_, options) => {
    const asked = { advantage: 'grpo' as const, ...options };
    const own = await reinforce(asked);
    const served = await reinforce(asked, {});
    expect(served.completions.map(({ response }) => response)).toEqual(
      own.completions.map(({ response }) => response),
    );
    expect(relativeDistance(served.adapter, own.adapter)).toBeLessThan(1e-5);
    for (const [i, line] of served.lines.entries()) {
      expect(line.reward).toBeCloseTo(own.lines[i]!.reward, 12);
      expect(line.similarity ?? 0).toBeCloseTo(own.lines[i]!.similarity ?? 0, 5);
      expect(line.samplerGap).toBeLessThan(1e-5);
      expect(line.importance).toBeCloseTo(1, 5);
      expect(own.lines[i]!.importance).toBeNull();
    }
    // One adapter for each step, and none is left.
    expect(new Set(server.loaded).size).toBe(RL.steps);
    expect(server.adapters.size).toBe(0);
    expect(readdirSync(join(directory, 'adapters'))).toEqual([]);
  });

  test('weight tokens by how much likelier they are to the trainer, up to the cap', async () => {
    // The server says that it found every other token .2 less likely than it did, and the last ones e² times less.
    server.change = ({ choices }) => {
      for (const { logprobs } of choices) {
        for (const [t, token] of logprobs.content.entries()) token.logprob -= t === 0 ? 2 : 0.2 * (t % 2);
      }
    };
    const { lines } = await reinforce({ advantage: 'grpo', steps: 1 }, { cap: 1.5 });
    const [line] = lines;
    const { tokens } = line!;
    expect(line!.samplerGap).toBeGreaterThan(0.1);
    const shares = { first: 1 / tokens, odd: 0.5 };
    const about = 1 + shares.first * 0.5 + shares.odd * (Math.exp(0.2) - 1);
    expect(Math.abs(line!.importance! - about)).toBeLessThan(0.05);
  });

  test('go on after the server lost the adapter, and after answers of a busy server', async () => {
    const own = await reinforce({ advantage: 'grpo', steps: 2 });
    let answers = 0;
    server.change = () => {
      if (++answers === 2) setImmediate(() => server.forget());
    };
    server.next.push({ status: 503, body: { error: { message: 'overloaded' } } });
    const served = await reinforce({ advantage: 'grpo', steps: 2 }, { attempts: 4 });
    expect(answers).toBeGreaterThanOrEqual(6);
    expect(said.join()).toMatch(/status 503: overloaded; again in \d s; the step waits for the server$/);
    expect(relativeDistance(served.adapter, own.adapter)).toBeLessThan(1e-5);
  }, 20_000);
});

test('a stop ends the wait for a server that hangs, and saves the steps before', async () => {
  server.delay = () => {
    if (server.answered < RL.prompts) return 0;
    setTimeout(stop, 50);
    return 60_000;
  };
  const { lines, saved } = await reinforce({ advantage: 'grpo' }, {});
  expect(lines.map(({ step }) => step)).toEqual([1]);
  expect(saved).toEqual([1]);
}, 20_000);

test('tokens that are masked in training are not learnt from, and end nothing', async () => {
  const { image } = base.dims.special;
  server.change = ({ choices }) => {
    choices[0].token_ids[1] = image;
  };
  const { lines, adapter } = await reinforce(
    { advantage: 'grpo', steps: 2, kl: 0.01, prompts: 1, group: 2, maxTokens: 5 },
    {},
  );
  expect(lines.map(({ skipped }) => skipped)).toEqual([0, 0]);
  expect(adapter.every(Number.isFinite)).toBe(true);
});

describe('a server that cannot be used ends the stage with what to do', () => {
  const grpo = { advantage: 'grpo' as const };

  test('one that is not there', async () => {
    const { url } = server;
    await server.stop();
    await expect(reinforce(grpo, {})).rejects.toThrow(
      new RegExp(`${url.replaceAll('/', '\\/')}.*start the server or correct its address`, 's'),
    );
    await server.start(Number(new URL(url).port));
  });

  test('one that loads no adapters while it runs', async () => {
    server.runtime = false;
    await expect(reinforce(grpo, {})).rejects.toThrow(/VLLM_ALLOW_RUNTIME_LORA_UPDATING=True/);
  });

  test('one that does not see the directory', async () => {
    server.next.push({ status: 404, body: { error: { message: 'No adapter found at /elsewhere' } } });
    await expect(reinforce(grpo, {})).rejects.toThrow(/same path \(rl\.server\.directory\).*rank 4/s);
  });

  test('one without token ids', async () => {
    server.change = ({ choices }) => {
      for (const choice of choices) delete choice.token_ids;
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/choices\.0\.token_ids.*vLLM from 0\.10\.2/s);
  });

  test('one without log-probabilities', async () => {
    server.change = ({ choices }) => {
      for (const choice of choices) choice.logprobs = null;
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/sends no tokens with log-probabilities/);
  });

  test('one that answers with fewer responses', async () => {
    server.change = (answer) => void answer.choices.pop();
    await expect(reinforce(grpo, {})).rejects.toThrow(/3 responses instead of 4/);
  });

  test('one that answers with the base policy', async () => {
    server.change = (answer) => {
      answer.model = 'base';
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/answers with 'base' where 'timeseer-/);
  });

  test('one that encodes the prompt otherwise', async () => {
    server.change = (answer) => void answer.prompt_token_ids.splice(1, 0, 7);
    await expect(reinforce(grpo, {})).rejects.toThrow(/encodes the prompt otherwise/);
  });

  test('one that counts other tokens in the prompt, where it does not send them', async () => {
    server.change = (answer) => {
      delete answer.prompt_token_ids;
      answer.usage.prompt_tokens++;
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/encodes the prompt otherwise.*tokens instead of/s);
  });

  test('one that goes on beyond the limit', async () => {
    server.change = ({ choices }) => {
      choices[0].token_ids = Array(13).fill(5);
      choices[0].logprobs.content = Array(13).fill({ logprob: -1 });
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/sends 13 tokens where at most 12 were asked/);
  });

  test('one with another policy', async () => {
    server.change = ({ choices }) => {
      for (const { logprobs } of choices) for (const token of logprobs.content) token.logprob -= 3;
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/serves another policy.*by 3\.00 per token/s);
  });

  test('one whose log-probabilities leave out the temperature', async () => {
    server.raw = true;
    await expect(reinforce({ ...grpo, temperature: 0.5 }, {})).rejects.toThrow(
      /at temperature 1.*--logprobs-mode processed_logprobs/s,
    );
  });

  test('one with a larger vocabulary', async () => {
    server.change = ({ choices }) => {
      choices[0].token_ids[0] = 99_999;
    };
    await expect(reinforce(grpo, {})).rejects.toThrow(/beyond the vocabulary/);
  });
});

describe('a recipe with rl.server.address', () => {
  const address = 'rl.server.address=http://localhost:8000/v1';
  test.each([
    [[], /rl\.server\.address.*policy\.tune: all/s],
    [['policy.tune=adapter', 'policy.adapter.targets=[q_proj, visual.qkv]'], /vision tower/],
    [['policy.tune=adapter', 'inspect.turns=3', 'rl.advantage=gigpo'], /null with inspect/],
  ])('is refused with what a server cannot do: %j', (set, message) => {
    expect(() => changedRecipe(defaultRecipe(), [address, ...set])).toThrow(message);
  });
});
