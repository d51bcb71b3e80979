import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { workerUrl } from '../../src/ground/paths.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import type { RlOptions } from '../../src/train/rl.ts';
import { runWorkers } from '../../src/train/worker-group.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';
import type { RlJob, RlReport } from '../helpers/rl-program.ts';
import { mixedScore, tinyTask } from '../helpers/tiny-policy.ts';
import { RL, tinyRl } from '../helpers/tiny-rl.ts';

const engine = openTorch({ threads: 1 });

const { start, copyOf, run } = await tinyRl(engine);

test.each([
  {
    name: 'REINFORCE++ at sequence level, with resampling',
    own: { advantage: 'reinforce_pp', ratio: 'sequence', aggregation: 'sequence_mean', resample: 2 },
  },
  {
    name: 'GDPO per task, of some tokens, divided by the constant',
    own: { advantage: 'gdpo', normalise: 'task', aggregation: 'constant', topEntropy: 0.5 },
  },
  {
    name: 'TimerPO on REINFORCE++, filtered, with a divergence in the reward',
    own: {
      advantage: 'timerpo',
      timerpo: { ...RL.timerpo, base: 'reinforce_pp' },
      klIn: 'reward',
      ratio: 'kalman',
    },
  },
] as const)('one rank and two follow one trajectory: $name', async ({ own }) => {
  const options: RlOptions = { ...RL, prompts: 5, steps: 3, epochs: 2, learningRate: 2e-3, ...own };
  const program = workerUrl('../helpers/rl-program', import.meta.url);
  const on = (size: number) =>
    runWorkers<RlJob, number, RlReport>({ size, program, job: { options }, onNote: () => {} });
  const [[alone], pair] = [await on(1), await on(2)];
  expect(pair[0]!.parameters).toEqual(pair[1]!.parameters);
  expect(
    relativeDistance(Float32Array.from(pair[0]!.parameters), Float32Array.from(alone!.parameters)),
  ).toBeLessThan(1e-4);
  alone!.lines.forEach((line, i) => {
    const other = pair[0]!.lines[i]!;
    for (const key of [
      'reward',
      'loss',
      'kl',
      'advantage',
      'equalRewards',
      'resampled',
      'zeroVariance',
    ] as const) {
      expect(other[key]).toBeCloseTo(line[key]!, 3);
    }
  });
});

describe('the reinforcement stage', () => {
  test('a hundred steps leave no tensor behind and take no more memory', async () => {
    const task = tinyTask({ score: mixedScore([]) });
    const policy = copyOf(start);
    const options = { prompts: 1, group: 2, maxTokens: 4, learningRate: 1e-4 };
    let live = 0;
    let rss = 0;
    const onStep = ({ step }: RlMetrics): void => {
      if (step === 20) [live, rss] = [engine.live(), process.memoryUsage().rss];
      if (step !== 120) return;
      expect(engine.live()).toBe(live);
      expect((process.memoryUsage().rss - rss) / 2 ** 20).toBeLessThan(40);
    };
    const { lines } = await run({ ...options, steps: 120 }, task, { policy, onStep });
    expect(lines).toHaveLength(120);
  });
});
