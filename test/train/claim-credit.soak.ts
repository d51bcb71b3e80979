import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import { rl } from '../../src/train/rl.ts';
import type { Task } from '../../src/train/task.ts';
import { darkClaims, teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

describe('reinforcement by truth', () => {
  const engine = openTorch();
  // Equal rewards in every group: the task alone has no gradient.
  const task = tinyTask({ claims: darkClaims, score: () => ({ total: 0.5, parts: { class: 0.5 } }) });

  test.each(['response', 'claim', 'both'] as const)(
    'with credit to %s makes claims true where rewards are equal',
    async (credit) => {
      const policy = tinyPolicy(engine);
      const learner = tinyLearner(policy);
      await teach(learner, { samples: 60, learningRate: 5e-3 });
      const { rl: usual } = defaultRecipe();
      const sizes = { steps: 30, prompts: 3, group: 16, maxTokens: 30 };
      const rate = { learningRate: 3e-3, warmup: 0, minLearningRate: 1 };
      const timerpo = { ...usual.timerpo, similarity: 'truth', credit, alpha: 1 } as const;
      const options = { ...usual, ...sizes, ...rate, advantage: 'timerpo', timerpo } as const;
      const steps: boolean[][] = [[]];
      const watched: Task = {
        ...task,
        claims: (response, example) => {
          const stated = darkClaims(response, example);
          steps.at(-1)!.push(...stated.claims.map(({ holds }) => holds));
          return stated;
        },
      };
      const onStep = (): void => void steps.push([]);
      await rl(learner, null, watched, options, 4, { onStep, save: () => {}, onCompletions: () => {} });
      const truth = (part: readonly boolean[][]): number => mean(part.flat().map(Number));
      const mean = (values: readonly number[]): number =>
        values.reduce((sum, value) => sum + value, 0) / values.length;
      expect(truth(steps.slice(-8))).toBeGreaterThan(truth(steps.slice(0, 3)) + 0.15);
    },
  );
});
