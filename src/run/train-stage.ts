/** One training stage of a run: starts its workers, shows progress, writes metrics, and leaves a record. */
import { ConfigError } from '../errors.ts';
import { Interrupted } from '../interrupt.ts';
import { cores } from '../machine.ts';
import { Progress } from '../progress.ts';
import { say } from '../terminal.ts';
import type { StageOrigin, TrainingState } from '../train/checkpoint.ts';
import { type Completion, RunLog } from '../train/metrics.ts';
import { cautions } from '../train/rl.ts';
import { sftSteps } from '../train/sft.ts';
import type { RunFiles, TrainingStage } from './files.ts';
import { prepareInitial } from './initial-policy.ts';
import { type RlJob, runStage, type SftJob, type StageNote } from './stage.ts';
import { stageMemory } from './stage-memory.ts';

export interface StageOptions {
  readonly device: string;
  readonly resume: boolean;
  readonly force: boolean;
  readonly silent: boolean;
}

/**
 * What a stage begins with, from now on in a directory of its own. @throws CheckpointError when its checkpoint began with something
 * else
 */
function begun(run: RunFiles, stage: TrainingStage, base: string, state: TrainingState | null): StageOrigin {
  const origin = run.originOf(stage, base);
  if (state !== null) run.checkOrigin(stage, base, state.origin, origin);
  return origin;
}

/** Workers beyond the cores slow each other down; beyond the work they have none. */
function workerCount(wanted: number, work: number): number {
  return Math.max(1, Math.min(wanted, work));
}

/** Whether there is nothing left to do of a stage that is asked to go on. */
function isOver(run: RunFiles, stage: TrainingStage, start: number, total: number): boolean {
  return start === total && run.finished(stage);
}

/**
 * Supervised fine-tuning of the run's initial policy; a finished stage that is asked to go on is left as it is.
 * @throws Interrupted when stopped; it can be resumed.
 */
export async function runSftStage(run: RunFiles, options: StageOptions): Promise<void> {
  const { sft } = run.recipe;
  if (sft.samples === 0) {
    throw new ConfigError(`${run.path}: sft.samples is 0: this run has no supervised stage`);
  }
  const state = run.stateOf('sft', sftSteps(sft), options);
  const start = state?.step ?? 0;
  if (isOver(run, 'sft', start, sftSteps(sft))) return;
  prepareInitial(run);
  const job: SftJob = {
    stage: 'sft',
    origin: begun(run, 'sft', run.initial, state),
    recipe: run.recipe,
    recompute: await stageMemory('sft', run.initial, run.recipe, options),
    device: options.device,
    base: run.initial,
    from: start > 0 ? run.checkpoint('sft') : run.initial,
    examples: run.trainingExamples,
    checkpoint: run.checkpoint('sft'),
    output: run.policy('sft'),
    adapter: run.adapter('sft'),
  };
  const progress = new Progress({
    label: 'sft',
    total: sft.samples,
    done: Math.min(sft.samples, start * sft.batch),
    unit: 'samples',
    silent: options.silent,
  });
  const log = new RunLog(run.file('sft', 'metrics.jsonl'), start);
  await train(
    run,
    'sft',
    job,
    workerCount(sft.workers, sft.batch),
    sftSteps(sft),
    { total: sft.samples, perStep: sft.batch },
    progress,
    options,
    (note) => {
      if (note.kind !== 'sft') return;
      log.append(note.metrics);
      const { samples, loss, learningRate, skipped } = note.metrics;
      progress.update(samples, { loss, lr: learningRate, ...(skipped > 0 ? { skipped } : {}) });
    },
  );
}

/**
 * Reinforcement from the supervised policy, or the initial one where the supervised stage has no samples. Finished and
 * stopped stages as in `runSftStage`.
 */
export async function runRlStage(run: RunFiles, options: StageOptions): Promise<void> {
  const { rl, sft } = run.recipe;
  if (rl.steps === 0)
    throw new ConfigError(`${run.path}: rl.steps is 0: this run has no reinforcement stage`);
  const state = run.stateOf('rl', rl.steps, options);
  const start = state?.step ?? 0;
  if (isOver(run, 'rl', start, rl.steps)) return;
  if (sft.samples === 0) prepareInitial(run);
  const base = sft.samples === 0 ? run.initial : run.policy('sft');
  const job: RlJob = {
    stage: 'rl',
    origin: begun(run, 'rl', base, state),
    recipe: run.recipe,
    recompute: await stageMemory('rl', base, run.recipe, options),
    device: options.device,
    base,
    from: start > 0 ? run.checkpoint('rl') : base,
    examples: run.reinforcementExamples,
    checkpoint: run.checkpoint('rl'),
    output: run.policy('rl'),
    adapter: run.adapter('rl'),
  };
  const progress = new Progress({
    label: rl.advantage,
    total: rl.steps,
    done: start,
    unit: 'steps',
    silent: options.silent,
  });
  for (const caution of cautions(rl)) progress.note(`warning: ${caution}`);
  const log = new RunLog(run.file('rl', 'metrics.jsonl'), start);
  const completions = new RunLog(run.file('rl', 'completions.jsonl'), start);
  const workers = workerCount(rl.workers, rl.prompts);
  /** By rank, those of steps that not all ranks have sent yet: the log is in the order of steps, then of ranks. */
  const pending = Array.from({ length: workers }, (): (readonly Completion[])[] => []);
  await train(
    run,
    'rl',
    job,
    workers,
    rl.steps,
    { total: rl.steps * rl.prompts, perStep: rl.prompts },
    progress,
    options,
    (note, rank) => {
      if (note.kind === 'completions') {
        pending[rank]!.push(note.completions);
        while (pending.every((steps) => steps.length > 0)) {
          for (const one of pending.flatMap((steps) => steps.shift()!)) completions.append(one);
        }
      }
      if (note.kind !== 'rl') return;
      log.append(note.metrics);
      const { step, reward, parts, similarity, kl, zeroVariance } = note.metrics;
      progress.update(step, {
        reward,
        ...parts,
        ...(similarity === null ? {} : { similarity }),
        kl,
        ...(zeroVariance > 0 ? { zeroVariance } : {}),
      });
    },
  );
}

async function train(
  run: RunFiles,
  stage: TrainingStage,
  job: SftJob | RlJob,
  workers: number,
  total: number,
  samples: { readonly total: number; readonly perStep: number },
  progress: Progress,
  options: StageOptions,
  onNote: (note: StageNote, rank: number) => void,
): Promise<void> {
  if (workers > cores() && !options.silent) {
    progress.note(`${stage}: ${workers} workers on ${cores()} cores slow each other down`);
  }
  const before = options.resume ? (run.stageRecord(stage)?.seconds ?? 0) : 0;
  const began = performance.now();
  const record = (steps: number, finished: string | false): void =>
    run.writeStageRecord(stage, {
      seconds: before + (performance.now() - began) / 1000,
      samples: Math.min(samples.total, steps * samples.perStep),
      steps,
      finished,
    });
  const listen = (note: StageNote, rank: number): void => {
    if (note.kind === 'saved') record(note.step, false);
    else onNote(note, rank);
  };
  const { results, stopped } = await runStage(job, workers, listen).finally(() => progress.stop());
  const { steps } = results[0]!;
  const complete = steps === total;
  record(steps, complete ? new Date().toISOString() : false);
  if (complete && stopped === null) return;
  if (!complete) say(`${stage}: stopped after step ${steps} of ${total}`);
  // Asked for in the last step, it holds for what would come after the stage.
  throw stopped ?? new Interrupted();
}
