import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { distill, RL } from '../helpers/distillation.ts';
import { teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ threads: 1 });

describe('a stage that distils', () => {
  // What the teacher is asked is the student's own question, so that the two policies can be compared by their answers.
  const plain = tinyTask({ teacherInstruction: (example) => tinyTask().instruction(example) });

  // One sampled token per position is a noisy estimate, which needs more responses and smaller steps.
  test.each([
    ['full', { steps: 40, group: 8 }],
    ['sampled', { steps: 80, group: 16, learningRate: 3e-3 }],
  ] as const)('from a better policy comes nearer to it and earns more, %s', async (estimator, options) => {
    const [student, master] = [tinyPolicy(engine), tinyPolicy(engine)];
    await teach(tinyLearner(student), { samples: 60, learningRate: 5e-3 });
    await teach(tinyLearner(master), { samples: 600, learningRate: 5e-3 });
    const distillation = { ...RL.distillation, estimator };
    const { lines } = await distill(student, master, plain, { ...options, distillation });
    const [first, last] = [lines.slice(0, 3), lines.slice(-3)];
    const mean = (of: readonly RlMetrics[], key: 'distillation' | 'reward'): number =>
      of.reduce((sum, line) => sum + line[key]!, 0) / of.length;
    expect(mean(last, 'distillation')).toBeLessThan(0.5 * mean(first, 'distillation'));
    expect(mean(last, 'reward')).toBeGreaterThan(mean(first, 'reward') + 0.1);
  });
});
