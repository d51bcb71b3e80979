/**
 * Supervised fine-tuning on expert traces (TimeMaster, stage 1; nano recipe). Every rank runs this program on its
 * share of each batch. One step:
 *
 *   1. take the next examples of the task        4. forward, −Σ log π(trace | picture, instruction)
 *   2. draw their pictures, write their traces   5. backward
 *   3. collate prompts and responses             6. reduce over ranks, clip, update
 *
 * Generated examples are fresh and seen once; a data set is traversed in epochs. The stage ends after `samples` examples.
 */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { forward } from '../policy/forward.ts';
import { BEGINNING, checkSkipped, type Learner, type StageHooks, type StageStart } from './learner.ts';
import { supervisedLoss } from './loss.ts';
import type { SftMetrics } from './metrics.ts';
import { microBatches, PaddingMeter, sequenceBatch } from './micro-batch.ts';
import { cosineSchedule, type LearningRateOptions } from './optimizer.ts';
import { PromptEncoder, type Task } from './task.ts';

export interface SftOptions extends LearningRateOptions {
  /** Training examples, each seen once. */
  readonly samples: number;
  /** Examples per update, over all workers. */
  readonly batch: number;
  /** Steps between checkpoints. */
  readonly checkpointEvery: number;
  /** Tokens per micro-batch, padding included. Default: `MICRO_BATCH_TOKENS`. */
  readonly tokens?: number;
}

/** Number of consecutive updates without a finite gradient that stops the run. */
const SKIP_LIMIT = 20;

/** Returns the number of updates of a supervised stage. */
export const sftSteps = ({ samples, batch }: Pick<SftOptions, 'samples' | 'batch'>): number =>
  Math.ceil(samples / batch);

/** Returns the number of steps of a stage of a recipe; 0 where it has no such stage. */
export const stageSteps = (
  {
    sft,
    rl,
  }: { readonly sft: Pick<SftOptions, 'samples' | 'batch'>; readonly rl: { readonly steps: number } },
  stage: 'sft' | 'rl',
): number => (stage === 'sft' ? sftSteps(sft) : rl.steps);

/** Trains from `start` (the beginning or a checkpoint) and returns the number of completed steps. Collective. */
export async function sft(
  learner: Learner,
  task: Task,
  options: SftOptions,
  hooks: StageHooks<SftMetrics>,
  start: StageStart = BEGINNING,
): Promise<number> {
  const { policy, workers } = learner;
  const { engine } = policy;
  const encoder = new PromptEncoder(policy);
  const total = sftSteps(options);
  let { skippedInARow } = start;

  for (let step = start.step; step < total; step++) {
    if (workers.stopRequested() || hooks.validation?.ends(step) === true) {
      save(step);
      return step;
    }
    const began = performance.now();
    const first = step * options.batch;
    const [from, to] = workers.shard(Math.min(options.batch, options.samples - first));
    // 1. and 2. examples, pictures, traces
    const batch: Demonstration[] = [];
    for (let i = first + from; i < first + to; i++) {
      const example = task.example(i);
      const prompt = await encoder.encodeExample(task, example);
      batch.push({ prompt, response: policy.encodeResponse(task.trace(example)) });
    }
    const drawn = performance.now();
    // 3. to 5. collate, forward, backward
    if (step === start.step && engine.info.device !== 'cpu') rehearse(batch);
    const padding = new PaddingMeter();
    let loss = 0;
    let tokens = 0;
    const parts = microBatches(batch, extentsOf, options.tokens);
    learner.accumulate(
      parts.map((microBatch) => () => {
        const sums = accumulate(microBatch, padding);
        loss += sums.loss;
        tokens += sums.tokens;
      }),
    );
    const differentiated = performance.now();
    // 6. reduce, clip, update
    const sums = workers.allReduce([loss, tokens, padding.tokens, padding.places]);
    const [lossSum, tokenSum, filled, positions] = sums as [number, number, number, number];
    const learningRate = cosineSchedule(step, total, options);
    const report = learner.update(tokenSum, learningRate);
    skippedInARow = report.skipped ? skippedInARow + 1 : 0;
    if (workers.rank === 0) {
      hooks.onStep({
        step: step + 1,
        samples: Math.min(options.samples, first + options.batch),
        loss: lossSum / tokenSum,
        learningRate,
        gradNorm: report.gradNorm,
        tokens: tokenSum,
        padding: 1 - filled / positions,
        skipped: step + 1 - learner.optimizer.steps,
        ms: {
          data: drawn - began,
          gradient: differentiated - drawn,
          update: performance.now() - differentiated,
        },
      });
    }
    checkSkipped('sft', skippedInARow, SKIP_LIMIT, step + 1);
    // Before the checkpoint, so that a resumed run has every evaluation up to its step.
    hooks.validation?.take(step + 1);
    if ((step + 1) % options.checkpointEvery === 0 && step + 1 < total) save(step + 1);
  }
  save(total);
  return total;

  /** Adds the gradient of the loss over a micro-batch; returns the summed loss and its number of tokens K. */
  function accumulate(
    microBatch: readonly Demonstration[],
    padding?: PaddingMeter,
  ): { readonly loss: number; readonly tokens: number } {
    const prompts = microBatch.map(({ prompt }) => prompt);
    const responses = microBatch.map(({ response }) => response);
    const { input, targets } = sequenceBatch(prompts, responses, policy.dims.special.pad);
    padding?.add(input);
    let loss = 0;
    engine.scope(() => {
      const tape = learner.tape();
      const { hidden } = forward(policy, {
        ...input,
        useCache: false,
        ...(tape === undefined ? {} : { tape }),
      }); // [K, D]
      const sumOf = (logProb: Tensor): Tensor => {
        const sum = supervisedLoss(engine, logProb); // [k] → []
        loss += engine.item(sum);
        return sum;
      };
      learner.backward(hidden, targets, {}, sumOf, tape);
    });
    return { loss, tokens: targets.length };
  }

  /** Runs the largest micro-batch and drops its gradient, so that an out-of-memory happens before any training. */
  function rehearse(batch: readonly Demonstration[]): void {
    const [longest] = [...batch].sort((a, b) => lengthOf(b) - lengthOf(a));
    const copies = longest === undefined ? [] : Array.from(batch, () => longest);
    const [largest] = microBatches(copies, extentsOf, options.tokens);
    learner.accumulate(largest === undefined ? [] : [() => void accumulate(largest)]);
    learner.discard();
  }

  function save(step: number): void {
    learner.save(() => hooks.save({ step, skippedInARow }));
  }
}

/** Prompt with the expert trace as its response. */
interface Demonstration {
  readonly prompt: EncodedPrompt;
  readonly response: Int32Array;
}

const lengthOf = ({ prompt, response }: Demonstration): number => prompt.ids.length + response.length - 1;
const extentsOf = (demonstration: Demonstration): readonly number[] => [lengthOf(demonstration)];
