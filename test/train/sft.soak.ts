import { expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { teach, tinyLearner, tinyPolicy } from '../helpers/tiny-policy.ts';

const engine = openTorch({ threads: 1 });

test('a thousand steps leave no tensor behind and take no more memory', async () => {
  const learner = tinyLearner(tinyPolicy(engine));
  await teach(learner, { samples: 100, batch: 1 });
  const live = engine.live();
  const rss = process.memoryUsage().rss;
  await teach(learner, { samples: 1000, batch: 1 });
  expect(engine.live()).toBe(live);
  expect((process.memoryUsage().rss - rss) / 2 ** 20).toBeLessThan(40);
});
