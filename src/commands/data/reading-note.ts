/** Says on standard error that files are being read, once that takes longer than a second. */
import { performance } from 'node:perf_hooks';
import type { Benchmark, OpenBenchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { formatDuration, type ProgressStream } from '../../progress.ts';
import { forPeople, tell } from '../../terminal.ts';

export interface ReadingNoteOptions {
  /** What is read: 'har'. */
  readonly label: string;
  /** Writes nothing at all. */
  readonly silent?: boolean;
  readonly stream?: ProgressStream;
  /** Clock in ms. */
  readonly now?: () => number;
}

/** Time to the first note, and from one to the next, in ms. */
const FIRST = 1_000;
const NEXT = 5_000;

export class ReadingNote {
  readonly #label: string;
  readonly #silent: boolean;
  readonly #stream: ProgressStream;
  readonly #now: () => number;
  #start = Number.POSITIVE_INFINITY;
  /** Waiting for the disk there are no examples to tick. */
  #timer: NodeJS.Timeout | undefined;
  #due = Number.POSITIVE_INFINITY;

  constructor(options: ReadingNoteOptions) {
    this.#label = options.label;
    this.#silent = options.silent ?? false;
    this.#stream = options.stream ?? process.stderr;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Reading begins. */
  start(): void {
    this.stop();
    this.#start = this.#now();
    this.#due = this.#start + FIRST;
    this.#timer = setInterval(() => this.tick(), FIRST);
    this.#timer.unref();
  }

  /** To be called for every example: reading them does not let timers through. */
  tick(): void {
    const now = this.#now();
    if (now < this.#due) return;
    this.#due = now + NEXT;
    if (!this.#silent) {
      const took = formatDuration((now - this.#start) / 1000);
      tell(this.#stream, `${forPeople(`reading ${this.#label}: ${took} so far`)}\n`);
    }
  }

  /** No notes from now on. */
  stop(): void {
    clearInterval(this.#timer);
    this.#due = Number.POSITIVE_INFINITY;
  }

  /** The same items, each with a tick. */
  *over<T>(items: Iterable<T>): Generator<T> {
    for (const item of items) {
      this.tick();
      yield item;
    }
  }

  /** The same task, whose examples tick while they are loaded. */
  watch(spec: Benchmark): Benchmark {
    return {
      ...spec,
      open: (options): OpenBenchmark => {
        const task = spec.open(options);
        return { ...task, load: () => this.over(task.load()) };
      },
    };
  }
}
