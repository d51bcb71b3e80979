/** The program of one rank: opens the engine, takes its seat in the team, runs a stage, posts what happens. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../engine/torch/torch.ts';
import type { Recipe } from '../recipe.ts';
import { saveCheckpoint, readState, restoreOptimizer } from '../train/checkpoint.ts';
import { readCard } from '../train/card.ts';
import { Learner } from '../train/learner.ts';
import { Ranks } from '../train/ranks.ts';
import { type SftMetrics, sft } from '../train/sft.ts';
import { loadShared } from '../train/shared-policy.ts';
import type { TeamMessage, TeamSeat } from '../train/team.ts';
import { trainingTask } from './anomaly-task.ts';

export interface SftJob {
  readonly stage: 'sft';
  readonly recipe: Recipe;
  readonly device: string;
  /** Policy that the stage starts from, or the checkpoint that it continues. */
  readonly from: string;
  /** Where checkpoints go. */
  readonly checkpoint: string;
}

export type StageJob = SftJob;
export type StageNote = { readonly kind: 'sft'; readonly metrics: SftMetrics };
/** Steps that are done; fewer than asked for when the stage was stopped. */
export interface StageResult {
  readonly steps: number;
}

const { memory, rank, size, job } = workerData as TeamSeat<StageJob>;
const port = parentPort!;
const post = (message: TeamMessage<StageNote, StageResult>): void => port.postMessage(message);

async function runSft({ recipe, device, from, checkpoint }: SftJob): Promise<StageResult> {
  const ranks = new Ranks(memory, rank, size);
  const engine = openTorch({ device, threads: 1 });
  const policy = loadShared(engine, ranks, from);
  const card = { ...readCard(from), stage: 'sft' as const };
  const learner = new Learner(policy, ranks, {
    betas: recipe.sft.betas,
    epsilon: 1e-8,
    weightDecay: recipe.sft.weightDecay,
    clip: recipe.sft.clip,
  });
  const state = readState(from);
  if (state?.stage === 'sft') restoreOptimizer(from, learner, state);
  const steps = await sft(
    learner,
    trainingTask(card, recipe.data, recipe.seed),
    recipe.sft,
    {
      onStep: (metrics) => post({ kind: 'note', note: { kind: 'sft', metrics } }),
      save: (step) => saveCheckpoint(checkpoint, learner, card, { stage: 'sft', step }),
    },
    state?.stage === 'sft' ? state.step : 0,
  );
  return { steps };
}

try {
  const result = await runSft(job);
  post({ kind: 'result', result });
} catch (error) {
  const { name, message, stack } = error as Error;
  post({ kind: 'error', name, message, stack: stack ?? '' });
}
