/** The first steps of a stage as a plan runs them: the stage's own program, on the lessons that can make a peak. */
import type { Ledger } from '../engine/dry/ledger.ts';
import type { Recipe } from '../recipe.ts';
import type { Learner } from './learner.ts';
import type { Scorer } from './micro-batch.ts';
import {
  EXAMPLES,
  type LessonReader,
  plannedGroups,
  promptsAtOnce,
  supervisedPieces,
} from './plan-lessons.ts';
import type { Phase } from './plan-watch.ts';
import { rl } from './rl.ts';
import { sft } from './sft.ts';
import type { Task } from './task.ts';

export interface PlanRun {
  readonly learner: Learner;
  readonly reader: LessonReader;
  readonly recipe: Recipe;
  readonly ledger: Ledger;
  readonly workers: number;
}

const SILENT = { onStep: () => {}, onCompletions: () => {}, save: () => {} };

/** A step of each piece that tells something: the buffers of the optimiser are there before the first. */
export async function planSft({ learner, reader, recipe, ledger, workers }: PlanRun): Promise<void> {
  ledger.phase('forward' satisfies Phase);
  const { sft: own, memory } = recipe;
  const steps = Math.max(1, Math.ceil(EXAMPLES / own.batch));
  const lessons = await reader.first(Math.min(own.samples, steps * own.batch));
  for (const piece of supervisedPieces(lessons, own, workers, memory.tokens)) {
    const batch = piece.length * workers;
    const options = { ...own, samples: batch, batch, tokens: memory.tokens };
    await sft(learner, reader.taskOf(piece), options, SILENT);
  }
}

/** One step; its later ones are alike. */
export async function planRl(
  { learner, reader, recipe, ledger, workers }: PlanRun,
  reference: Scorer | null,
): Promise<void> {
  ledger.phase('rollout' satisfies Phase);
  const { rl: own, memory, seed } = recipe;
  const grounded = own.advantage === 'timerpo' && own.alpha > 0;
  const sizes = { ...own, ...memory, grounded };
  const share = Math.ceil(own.prompts / workers);
  const many = promptsAtOnce(sizes);
  // Mini-batches of few prompts are smaller than pieces: which prompts fall into which then counts.
  const divided = own.miniBatches > 1 && share <= many;
  const read = await reader.first(Math.min(share, many));
  const { lessons, taught } = divided ? { lessons: read, taught: read.length } : plannedGroups(read, sizes);
  const task = reader.taskOf(lessons);
  const telling = new Set(lessons.slice(0, taught).map(({ example }) => example));
  let turn = 0;
  const scored: Task = {
    ...task,
    score: (_, example) => {
      ledger.phase('transport' satisfies Phase); // all responses are there
      turn = (turn + 3) % 7; // no two of a group alike: such a group is not left out of the update
      return { total: telling.has(example) ? turn / 7 : 0, parts: {} };
    },
  };
  const options = {
    ...own,
    steps: 1,
    prompts: lessons.length * workers,
    miniBatches: divided ? own.miniBatches : 1,
    epochs: own.epochs * own.miniBatches > 1 ? 2 : 1,
    tokens: memory.tokens,
    rows: memory.rows,
    schedule: { abridged: true },
  };
  await rl(learner, reference, scored, options, seed, SILENT);
}
