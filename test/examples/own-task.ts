/** Teaches a small policy a task of your own; `timeseer data prepare own-task.ts` makes a data set of it. */
import { defineTask, sft } from 'timeseer';

export const steps = defineTask({
  name: 'steps',
  kind: 'anomaly',
  description: 'Readings of a valve, one a second.',
  *examples({ seed }) {
    for (let i = 0; i < 20; i++) {
      const at = 20 + ((seed + 7 * i) % 60);
      const values = Array.from({ length: 100 }, (_, t) => (t < at ? 0 : 1) + 0.1 * Math.sin(t));
      yield { values, intervals: [[at, 100]], class: 'trend' };
    }
  },
});

const trained = await sft({
  examples: steps,
  ...{ samples: 8, batch: 4, warmup: 1 },
  onStep: ({ step, loss }) => console.log(`step ${step}: loss ${loss.toFixed(2)}`),
});
console.log(`trained for ${trained.steps} steps`);
