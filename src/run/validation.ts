/**
 * Evaluator of a training stage: evaluates policies of some steps during training, one after the other on one thread,
 * and keeps the best. In the directory of the stage:
 *
 *   validation.jsonl     a line per evaluation
 *   validation/step-N/   policy after N steps (an adapter where that is what is trained): until it is evaluated, and of the best
 *   best                 link to the best one
 *
 * `train/validation.ts` decides which steps. A policy is written there before the checkpoint of its step, so that a resumed run evaluates
 * what was left.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { overallOf } from '../../eval/metrics.ts';
import { linkAtomic, syncPath } from '../ground/files.ts';
import type { EvalRecord } from '../ground/types.ts';
import { olderCheckpoints, stepsIn } from '../train/checkpoint.ts';
import type { TrainingStage } from '../train/dry-run.ts';
import { RunLog, readLog } from '../train/metrics.ts';
import { bestOf, EvaluatorState, type ValidationLine } from '../train/validation.ts';
import type { Run } from './run.ts';

/** Lines of the evaluations of a stage, in the order of steps. */
export const readValidation = (stageDirectory: string): ValidationLine[] =>
  readLog(join(stageDirectory, 'validation.jsonl')) as ValidationLine[];

/** Directory of the policy after `step` steps: until it is evaluated, and while it is the best. */
export const snapshotOf = (stageDirectory: string, step: number): string =>
  join(stageDirectory, 'validation', `step-${step}`);

/** Lists the steps whose policies are there, ascending. */
const snapshots = (stageDirectory: string): number[] =>
  stepsIn(join(stageDirectory, 'validation'))
    .map(({ step }) => step)
    .reverse();

export interface EvaluatorOptions {
  /** Metric that the best is chosen by. */
  readonly best: string;
  /** Classes that answers may name. */
  readonly classes: readonly string[];
  /** Greedy answers of the policy in a directory; null when the signal came first. */
  readonly answer: (directory: string, signal: AbortSignal) => Promise<readonly EvalRecord[] | null>;
  /** Called with each line that is added to validation.jsonl. */
  readonly onLine: (line: ValidationLine) => void;
  readonly say: (text: string) => void;
}

export class Evaluator {
  readonly state = new EvaluatorState();
  readonly #directory: string;
  readonly #checkpoint: string;
  readonly #options: EvaluatorOptions;
  readonly #log: RunLog;
  readonly #lines: ValidationLine[];
  readonly #ended = new AbortController();
  readonly #queued = new Set<number>();
  #queue: Promise<void> = Promise.resolve();
  #failure: unknown = null;
  /** Step of the last checkpoint. */
  #saved: number;

  /** Keeps the evaluations of steps up to `start` and removes later ones, which will come again. */
  constructor(run: Run, stage: TrainingStage, start: number, options: EvaluatorOptions) {
    this.#directory = run.file(stage);
    this.#checkpoint = run.checkpoint(stage);
    this.#options = options;
    this.#log = new RunLog(run.file(stage, 'validation.jsonl'), start);
    this.#lines = readValidation(this.#directory);
    this.#saved = start;
    this.state.evaluated = this.#lines.at(-1)?.step ?? 0;
    for (const step of snapshots(this.#directory).filter((step) => step > start)) this.#remove(step);
    this.#link();
    for (const step of snapshots(this.#directory)) this.add(step);
  }

  /** Evaluates the policy of a step when those before it are done. */
  add(step: number): void {
    if (step <= this.state.evaluated || this.#queued.has(step)) return;
    this.#queued.add(step);
    this.#queue = this.#queue.then(async () => {
      if (this.#ended.signal.aborted || this.#failure !== null) return;
      try {
        await this.#evaluate(step);
      } catch (error) {
        this.#failure = error;
        this.state.fail();
      }
    });
  }

  /** Notes that a checkpoint of this step is on disk. */
  saved(step: number): void {
    this.#saved = step;
    this.#prune();
  }

  /** Stops the evaluation under way; a resumed run repeats it. */
  stop(): void {
    this.#ended.abort();
  }

  /** Waits for all evaluations. @throws the error of one that failed */
  async idle(): Promise<void> {
    await this.#queue;
    if (this.#failure !== null) throw this.#failure;
  }

  async #evaluate(step: number): Promise<void> {
    const { answer, best, classes, onLine, say } = this.#options;
    const records = await answer(snapshotOf(this.#directory, step), this.#ended.signal);
    if (records === null) return;
    // Intervals are for reports.
    const overall = overallOf(records, { classes, resamples: 100, details: false });
    const metrics = Object.fromEntries(Object.entries(overall).map(([name, { mean }]) => [name, mean]));
    const line: ValidationLine = { step, examples: records.length, metrics };
    this.#log.append(line);
    // On disk before its policy is removed.
    syncPath(this.#log.file);
    onLine(line);
    this.#lines.push(line);
    this.#link();
    this.#prune();
    this.state.evaluated = step;
    const isBest = bestOf(this.#lines, best)?.step === step;
    say(`step ${step}: validation ${best} ${metrics[best]?.toFixed(3)}${isBest ? ', the best so far' : ''}`);
  }

  /** Points `best` to the best policy evaluated. */
  #link(): void {
    const best = bestOf(this.#lines, this.#options.best);
    const link = join(this.#directory, 'best');
    if (best === null) rmSync(link, { force: true });
    else linkAtomic(join('validation', `step-${best.step}`), link);
  }

  /** Removes evaluated policies that are not the best at any checkpoint. */
  #prune(): void {
    const { best } = this.#options;
    const ends = [
      Number.POSITIVE_INFINITY,
      this.#saved,
      ...olderCheckpoints(this.#checkpoint).map(({ step }) => step),
    ];
    const kept = ends.map((end) =>
      bestOf(
        this.#lines.filter(({ step }) => step <= end),
        best,
      ),
    );
    const recorded = new Set(this.#lines.map(({ step }) => step));
    for (const step of snapshots(this.#directory)) {
      if (recorded.has(step) && !kept.some((line) => line?.step === step)) this.#remove(step);
    }
  }

  #remove(step: number): void {
    rmSync(snapshotOf(this.#directory, step), { recursive: true, force: true });
  }
}
