/** Renders on several cores: each Worker compiles its own figures. Pixels do not depend on the Worker. */
import { availableParallelism } from 'node:os';
import { ConfigError } from '../ground/errors.ts';
import { type WorkerProgram, workerUrl } from '../ground/paths.ts';
import type { Picture } from '../ground/types.ts';
import { WorkerPool } from '../ground/worker-pool.ts';
import type { FigureValues } from './data.ts';
import type { Figure } from './figure.ts';

export interface RenderJob {
  readonly figure: Figure;
  readonly values: FigureValues;
  readonly times?: Float64Array | undefined;
}

export class RenderPool {
  readonly #pool: WorkerPool<RenderJob, Picture>;

  /**
   * Workers start when there is work for them; at most `workers`, by default one per core. `program` is what they run: something
   * that answers a RenderJob with a Picture.
   */
  constructor(
    workers: number = availableParallelism(),
    program: WorkerProgram = workerUrl('./render-worker.ts', import.meta.url),
  ) {
    if (!Number.isInteger(workers) || workers < 1 || workers > 256) {
      throw new ConfigError(`render pool: expected 1 … 256 workers, got ${workers}`);
    }
    const failure = (problem: string): string =>
      `a render Worker failed (${problem}); its pictures were not drawn`;
    this.#pool = new WorkerPool({ size: workers, program, failure });
  }

  /** Maximum pictures that `renderAll` renders at a time. */
  get capacity(): number {
    return this.#pool.capacity;
  }

  /** Runs `render` of raster.ts in a Worker; the values are copied. Rejects with the same typed errors, and as `WorkerPool.ask`. */
  render(figure: Figure, values: FigureValues, times?: Float64Array): Promise<Picture> {
    return this.#pool.ask({ figure, values, times });
  }

  async *renderAll(jobs: Iterable<RenderJob> | AsyncIterable<RenderJob>): AsyncGenerator<Picture, void> {
    yield* this.#pool.askAll(jobs);
  }

  /** Draws pending requests, then ends all Workers. Later calls of `render` reject. */
  close(): Promise<void> {
    return this.#pool.close();
  }
}
