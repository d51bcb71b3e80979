/**
 * Evaluation during a stage: schedule, choice of the best policy, early stopping. The policy is evaluated
 * every `evalEvery` steps and after the last one, concurrently with training. A result takes effect when the
 * next evaluation is due, and training waits there for it: a run does the same on fast and slow machines, and
 * when resumed.
 */
import { TimeseerError } from '../ground/errors.ts';
import type { WorkerGroup } from './worker-group.ts';

/** A line of validation.jsonl: means over the examples, greedily answered by the policy after so many steps. */
export interface ValidationLine {
  readonly step: number;
  readonly examples: number;
  readonly metrics: Readonly<Record<string, number>>;
}

interface ValidationOptions {
  /** Steps between evaluations; 0: none. */
  readonly evalEvery: number;
  /** Evaluations in a row without a better one after which training ends; 0: it does not. */
  readonly patience: number;
  /** Metric that the best policy is chosen by. */
  readonly best: string;
}

/** Metrics of which less is better. */
const LESS_IS_BETTER: ReadonlySet<string> = new Set(['unparsable']);

/** The best evaluation, the first of equals; null where there is none. */
export function bestOf(lines: readonly ValidationLine[], metric: string): ValidationLine | null {
  const sign = LESS_IS_BETTER.has(metric) ? -1 : 1;
  const value = ({ metrics }: ValidationLine): number => sign * (metrics[metric] ?? Number.NaN);
  return lines.reduce<ValidationLine | null>(
    (best, line) => (best === null || value(line) > value(best) ? line : best),
    null,
  );
}

/** Returns true if none of the last `patience` evaluations was better than an earlier one. */
export function isExhausted(
  lines: readonly ValidationLine[],
  { patience, best: metric }: ValidationOptions,
): boolean {
  const best = bestOf(lines, metric);
  return patience > 0 && best !== null && lines.length - 1 - lines.indexOf(best) >= patience;
}

/** Returns true if the policy after `step` of `total` steps is evaluated. */
export const isDue = (step: number, total: number, evalEvery: number): boolean =>
  step > 0 && evalEvery > 0 && (step % evalEvery === 0 || step === total);

/** State shared by training and evaluator: step of the last recorded evaluation, and a failure flag. */
export class EvaluatorState {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(memory = new SharedArrayBuffer(8)) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
  }

  get evaluated(): number {
    return Atomics.load(this.#words, 0);
  }

  set evaluated(step: number) {
    Atomics.store(this.#words, 0, step);
    Atomics.notify(this.#words, 0);
  }

  fail(): void {
    Atomics.store(this.#words, 1, 1);
    Atomics.notify(this.#words, 0);
  }

  /**
   * Waits until the evaluation of `step` is recorded; false if `stopped` came first. @throws TimeseerError if
   * the evaluator failed
   */
  wait(step: number, stopped: () => boolean): boolean {
    for (;;) {
      const { evaluated } = this;
      if (evaluated >= step) return true;
      if (Atomics.load(this.#words, 1) === 1) throw new TimeseerError('the evaluator failed');
      if (stopped()) return false;
      Atomics.wait(this.#words, 0, evaluated, 50);
    }
  }
}

interface ValidationPlan extends ValidationOptions {
  /** Steps of the stage. */
  readonly total: number;
  /** Evaluations recorded so far. */
  readonly lines: () => readonly ValidationLine[];
  /** Called on rank 0 while the others wait: writes the policy for the evaluator, unless it is there. */
  readonly take: (step: number) => void;
}

/** A stage's side of its evaluations. Every rank calls its methods at the same steps. */
export class Validation {
  readonly #workers: WorkerGroup;
  readonly #state: EvaluatorState;
  readonly #plan: ValidationPlan;
  #judged = -1;
  #exhausted = false;

  constructor(workers: WorkerGroup, state: EvaluatorState, plan: ValidationPlan) {
    this.#workers = workers;
    this.#state = state;
    this.#plan = plan;
  }

  /** True if early stopping ended training. */
  get exhausted(): boolean {
    return this.#exhausted;
  }

  /**
   * Returns true if training ends after `step`: early stopping, or a stop requested while it waits for the
   * previous evaluation. Collective.
   */
  ends(step: number): boolean {
    const { evalEvery } = this.#plan;
    const due = step - (step % evalEvery);
    const known = due - evalEvery;
    if (known <= 0 || due === this.#judged) return false;
    this.#judged = due;
    let verdict = 0;
    if (this.#workers.rank === 0) {
      if (!this.#state.wait(known, () => this.#workers.stopFlag())) verdict = 1;
      else if (
        isExhausted(
          this.#plan.lines().filter((line) => line.step <= known),
          this.#plan,
        )
      )
        verdict = 2;
    }
    [verdict] = this.#workers.broadcast([verdict]) as [number];
    this.#exhausted = verdict === 2;
    return verdict > 0;
  }

  /** Has the policy after `step` steps evaluated where that is due. Collective. */
  take(step: number): void {
    const { total, evalEvery, take } = this.#plan;
    if (!isDue(step, total, evalEvery)) return;
    this.#workers.onRankZero(() => {
      if (this.#state.evaluated < step) take(step);
    });
  }

  /** Waits for the evaluations up to the end of a stage that made `steps` steps; false when a stop came first. Collective. */
  finish(steps: number): boolean {
    const { total, evalEvery } = this.#plan;
    const last = steps === total ? total : steps - (steps % evalEvery);
    const done = this.#workers.rank > 0 || this.#state.wait(last, () => this.#workers.stopFlag());
    return this.#workers.broadcast([done ? 1 : 0])[0] === 1;
  }
}
