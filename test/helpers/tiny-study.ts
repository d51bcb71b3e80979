/** A study of seconds over a tiny policy: two arms × two seeds from one start. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyPolicy, writeTinyRecipe } from './tiny-run.ts';

/** Writes policy, recipe and study into `directory`; returns the path of the study. */
export function writeTinyStudy(directory: string): string {
  writeTinyPolicy(join(directory, 'policy'));
  writeTinyRecipe(join(directory, 'tiny.yaml'), join(directory, 'policy'));
  const study = join(directory, 'two-arms.yaml');
  writeFileSync(
    study,
    `title: Two arms
seeds: [1, 2]
base: more
evaluation: {series: 6, temperatures: [0, 1], samples: 2}
bootstrap: 100
settings:
  nano5:
    recipe: ./tiny.yaml
    set: {rl.steps: 2, sft.workers: 1, rl.workers: 1}
    start: {set: {sft.samples: 40}}
arms:
  more:
    set: {rl.steps: 0, sft.samples: 20}
  timerpo:
    title: TimerPO
`,
  );
  return study;
}
