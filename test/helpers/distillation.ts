/** Distillation of a tiny policy in this process. */
import { Policy } from '../../src/policy/policy.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import type { Task } from '../../src/train/task.ts';
import { tinyLearner } from './tiny-policy.ts';

/** Distillation without any other loss. */
export const RL: RlOptions = {
  ...defaultRecipe().rl,
  ...{ steps: 1, prompts: 3, group: 4, maxTokens: 20, learningRate: 5e-3, warmup: 0, minLearningRate: 1 },
  ...{ kl: 0, entropy: 0, advantage: 'none', checkpointEvery: 1000 },
  distillation: { weight: 1, teacher: 'initial', divergence: 'reverse_kl', estimator: 'full' },
};
const SILENT = { onCompletions: () => {}, save: () => {} };

function copyOf(policy: Policy): Policy {
  return new Policy(
    policy.engine,
    policy.parts,
    policy.engine.tensor(policy.engine.floats(policy.flat), [policy.layout.size]),
  );
}

/** Distils a copy of the student, and returns what it logged. */
export async function distill(
  student: Policy,
  teacher: Policy | null,
  task: Task,
  options: Partial<RlOptions>,
): Promise<{ readonly lines: RlMetrics[]; readonly policy: Policy }> {
  const learner = tinyLearner(copyOf(student));
  const lines: RlMetrics[] = [];
  await rl(learner, teacher, task, { ...RL, ...options }, 4, {
    ...SILENT,
    onStep: (line) => void lines.push(line),
  });
  return { lines, policy: learner.policy };
}
