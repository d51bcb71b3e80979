/**
 * Supervised fine-tuning on expert traces (TimeMaster, stage 1; nano recipe). Every rank runs this program on its
 * share of each batch. One step:
 *
 *   1. take the next examples of the task        4. forward, −Σ log π(trace | picture, instruction)
 *   2. draw their pictures, write their traces   5. backward
 *   3. collate prompt and response               6. reduce over ranks, clip, AdamW
 *
 * Every example is seen once: series are made fresh, not reused. The stage ends after a number of samples.
 */
import { TimeseerError } from '../errors.ts';
import { forward } from '../policy/forward.ts';
import { sequenceBatch } from './batch.ts';
import { headGradients } from './head.ts';
import type { Learner } from './learner.ts';
import { supervisedLoss } from './loss.ts';
import { cosineSchedule } from './optimizer.ts';
import { PromptEncoder } from './prompt.ts';
import type { Task } from './task.ts';

export interface SftOptions {
  readonly samples: number;
  readonly batch: number;
  readonly learningRate: number;
  readonly warmup: number;
  readonly minLearningRate: number;
  readonly checkpointEvery: number;
}

/** One line of the stage's metrics, over all ranks. */
export interface SftMetrics {
  readonly step: number;
  /** Examples seen so far. */
  readonly samples: number;
  /** Mean −log π per response token. */
  readonly loss: number;
  readonly learningRate: number;
  /** Global gradient norm before clipping. */
  readonly gradNorm: number;
  /** Response tokens of this batch. */
  readonly tokens: number;
  /** Updates left out because loss or gradient was not finite, so far. */
  readonly skipped: number;
  /** Milliseconds of this step on rank 0: data and pictures, forward and backward, reduction and update. */
  readonly ms: { readonly data: number; readonly gradient: number; readonly update: number };
}

export interface SftHooks {
  /** Called on rank 0 after every step. */
  readonly onStep: (metrics: SftMetrics) => void;
  /** Called on rank 0 while the other ranks wait: writes a checkpoint of step `step`. */
  readonly save: (step: number) => void;
}

/** Consecutive steps without a finite gradient after which the run stops. */
const SKIP_LIMIT = 20;

export function sftSteps(options: SftOptions): number {
  return Math.ceil(options.samples / options.batch);
}

/** Runs from step `start` (0, or that of a checkpoint) and returns the number of steps that are done. Collective. */
export async function sft(
  learner: Learner,
  task: Task,
  options: SftOptions,
  hooks: SftHooks,
  start = 0,
): Promise<number> {
  const { policy, ranks } = learner;
  const { engine } = policy;
  const encoder = new PromptEncoder(policy);
  const total = sftSteps(options);
  let skippedInARow = 0;

  for (let step = start; step < total; step++) {
    if (ranks.stopRequested()) {
      save(step);
      return step;
    }
    const began = performance.now();
    const first = step * options.batch;
    const [from, to] = ranks.share(Math.min(options.batch, options.samples - first));
    // 1. and 2. examples, pictures, traces
    const prompts = [];
    const responses: Int32Array[] = [];
    for (let i = first + from; i < first + to; i++) {
      const series = task.series(i);
      prompts.push(encoder.encode(await task.picture(series), task.instruction(series)));
      responses.push(policy.encodeResponse(task.trace(series)));
    }
    const drawn = performance.now();
    // 3. to 5. collate, forward, backward
    let loss = 0;
    let tokens = 0;
    if (prompts.length > 0) {
      const { input, targets } = sequenceBatch(prompts, responses, policy.dims.special.pad);
      tokens = targets.length;
      engine.scope(() => {
        const { hidden } = forward(policy, input); // [K, D]
        const gradients = headGradients(engine, hidden, policy.weights.head, targets, {}, (logProb) => {
          const sum = supervisedLoss(engine, logProb); // []
          loss += engine.item(sum);
          return sum;
        });
        learner.backward(hidden, gradients);
      });
    }
    const differentiated = performance.now();
    // 6. reduce, clip, update
    const [lossSum, tokenSum] = ranks.sum([loss, tokens]) as [number, number];
    const learningRate = cosineSchedule(step, {
      peak: options.learningRate,
      warmup: options.warmup,
      total,
      floor: options.minLearningRate,
    });
    const report = learner.update(tokenSum, learningRate);
    skippedInARow = report.skipped ? skippedInARow + 1 : 0;
    if (ranks.rank === 0) {
      hooks.onStep({
        step: step + 1,
        samples: Math.min(options.samples, first + options.batch),
        loss: lossSum / tokenSum,
        learningRate,
        gradNorm: report.gradNorm,
        tokens: tokenSum,
        skipped: step + 1 - learner.optimizer.steps,
        ms: {
          data: drawn - began,
          gradient: differentiated - drawn,
          update: performance.now() - differentiated,
        },
      });
    }
    if (skippedInARow >= SKIP_LIMIT) {
      throw new TimeseerError(
        `sft: ${SKIP_LIMIT} steps in a row without a finite gradient, up to step ${step + 1}; nothing was learnt from them and ` +
          'checkpoints before them are good: begin a new run with a lower sft.learningRate',
      );
    }
    if ((step + 1) % options.checkpointEvery === 0 && step + 1 < total) save(step + 1);
  }
  save(total);
  return total;

  function save(step: number): void {
    ranks.barrier();
    if (ranks.rank === 0) hooks.save(step);
    ranks.barrier();
  }
}
