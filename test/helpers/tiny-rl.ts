/** Reinforcement of a tiny policy in this process, with what it logged and saved. */
import type { Engine } from '../../src/engine/engine.ts';
import { Policy } from '../../src/policy/policy.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import type { Learner } from '../../src/train/learner.ts';
import type { Completion, RlMetrics } from '../../src/train/metrics.ts';
import { type RlHooks, type RlOptions, rl } from '../../src/train/rl.ts';
import type { Task } from '../../src/train/task.ts';
import { teach, tinyLearner, tinyPolicy } from './tiny-policy.ts';

export const SEED = 21;
export const RL: RlOptions = {
  ...defaultRecipe().rl,
  steps: 1,
  prompts: 2,
  group: 4,
  temperature: 0.8,
  topP: 1,
  maxTokens: 20,
  advantage: 'timerpo',
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

export interface TinyRl {
  readonly learner: Learner;
  readonly lines: readonly RlMetrics[];
  readonly completions: readonly Completion[];
  readonly saved: readonly number[];
}

/** Teaches a policy a few supervised steps; its reference is the one before them. */
export async function tinyRl(engine: Engine) {
  const start = tinyPolicy(engine);
  await teach(tinyLearner(start), { samples: 60, learningRate: 5e-3 });
  const reference = tinyPolicy(engine);

  const copyOf = (policy: Policy): Policy =>
    new Policy(engine, policy.parts, engine.tensor(engine.floats(policy.flat), [policy.layout.size]));

  async function run(
    options: Partial<RlOptions>,
    task: Task,
    more: { policy?: Policy; reference?: Policy | null; clip?: number; onStep?: RlHooks['onStep'] } = {},
  ): Promise<TinyRl> {
    const learner = tinyLearner(more.policy ?? copyOf(start), more.clip ?? 1e9);
    const lines: RlMetrics[] = [];
    const completions: Completion[] = [];
    const saved: number[] = [];
    const hooks: RlHooks = {
      onStep: (line) => {
        lines.push(line);
        more.onStep?.(line);
      },
      onCompletions: (list) => void completions.push(...list),
      save: ({ step }) => void saved.push(step),
    };
    const base = more.reference === undefined ? reference : more.reference;
    await rl(learner, base, task, { ...RL, ...options }, SEED, hooks);
    return { learner, lines, completions, saved };
  }
  return { start, reference, copyOf, run };
}
