/** A stage of a run, on a group of Workers: what it is told, what it reports. */

import type { ExampleAddress } from '../../datasets/source.ts';
import { type Interrupted, withInterrupt } from '../interrupt.ts';
import { workerUrl } from '../paths.ts';
import type { Recipe } from '../recipe.ts';
import type { NumbersFormat } from '../tasks/card.ts';
import type { Reading } from '../tasks/response.ts';
import type { StageOrigin } from '../train/checkpoint.ts';
import type { Completion, RlMetrics, SftMetrics } from '../train/metrics.ts';
import { runWorkers } from '../train/worker-group.ts';
import type { EvalRecord } from '../types.ts';

interface Job {
  readonly device: string;
  /** Policy that the stage starts from, or the checkpoint that it continues. */
  readonly from: string;
  readonly examples: ExampleAddress;
}

interface TrainingJob extends Job {
  readonly recipe: Recipe;
  /** What a checkpoint says that its stage began with. */
  readonly origin: StageOrigin;
  /** Whether layers are computed again for their gradients. */
  readonly recompute: boolean;
  /** Policy that the stage began with: the start, what an adapter stands beside, and what the KL term refers to. */
  readonly base: string;
  /** Where checkpoints go, and the finished policy. */
  readonly checkpoint: string;
  readonly output: string;
  /** Where a trained adapter goes, in PEFT's files. */
  readonly adapter: string;
}

export interface SftJob extends TrainingJob {
  readonly stage: 'sft';
}

export interface RlJob extends TrainingJob {
  readonly stage: 'rl';
}

/** One way of answering. */
export interface EvalMode {
  /** 0: greedy. */
  readonly temperature: number;
  readonly samples: number;
}

export interface EvalJob extends Job {
  readonly stage: 'eval';
  readonly modes: readonly EvalMode[];
  readonly maxTokens: number;
  readonly seed: number;
  /** How answers are read. */
  readonly answers: Reading;
  /** Numbers instead of pictures, or pictures (null); as the policy was taught where absent. */
  readonly numbers?: NumbersFormat | null;
}

export type StageJob = SftJob | RlJob | EvalJob;

export type StageNote =
  | { readonly kind: 'sft'; readonly metrics: SftMetrics }
  | { readonly kind: 'rl'; readonly metrics: RlMetrics }
  | { readonly kind: 'completions'; readonly completions: readonly Completion[] }
  /** A checkpoint of this step is on disk. */
  | { readonly kind: 'saved'; readonly step: number }
  /** Examples that the rank has answered, over all modes. */
  | { readonly kind: 'eval'; readonly done: number };

export interface StageResult {
  /** Steps that are done; fewer than asked for when the stage was stopped. */
  readonly steps: number;
  /** Per mode, the records of this rank's examples in order, the samples of an example together. */
  readonly records: readonly (readonly EvalRecord[])[];
}

/**
 * Runs a stage on `workers` Workers; results in rank order, and why it was stopped, if it was. Ctrl-C lets them finish and save
 * their step: it is heeded here alone, where this thread only waits and so sees every signal. Before and after, Ctrl-C ends
 * the process.
 * @throws Interrupted
 */
export function runStage(
  job: StageJob,
  workers: number,
  onNote: (note: StageNote, rank: number) => void,
): Promise<{ readonly results: readonly StageResult[]; readonly stopped: Interrupted | null }> {
  return withInterrupt(async (signal) => {
    const results = await runWorkers<StageJob, StageNote, StageResult>({
      size: workers,
      program: workerUrl('./stage-worker', import.meta.url),
      job,
      onNote,
      signal,
    });
    return { results, stopped: signal.aborted ? (signal.reason as Interrupted) : null };
  });
}
