/** Puts figures, prompts and expert traces beside the examples of a data set while it is prepared. */

import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { syncDirectory, writeFileAtomic } from '../src/files.ts';
import { workerUrl } from '../src/paths.ts';
import { BlindTally, taskKind } from '../src/tasks/kinds.ts';
import { WorkerPool } from '../src/worker-pool.ts';
import type { ExampleManifest } from './example-manifest.ts';
import { CLASSES_FILE, type MaterialFacts, type SplitMaterials, splitsOf } from './example-manifest.ts';
import {
  type Composed,
  type Lack,
  type Learned,
  MaterialComposer,
  type MaterialParts,
  type Spent,
  wordsVersion,
} from './material-composer.ts';
import type { MaterialRequest, MaterialWork } from './material-worker.ts';
import { MaterialWriter } from './materials.ts';
import type { Split } from './split.ts';

export interface MaterialOptions extends MaterialParts {
  readonly signal: AbortSignal;
  /** Threads beside this one; 0: none. Default: one per core where there is enough to do, few for very long series. */
  readonly workers?: number | undefined;
  /** Called now and then: with training examples that classes were learned from, then with examples that are done. */
  readonly onProgress?: (phase: 'classes' | 'materials', done: number, total: number) => void;
}

export interface AddedMaterials {
  readonly manifest: ExampleManifest;
  /** Milliseconds that went into each part, of all threads together. */
  readonly spent: Readonly<Spent>;
  readonly workers: number;
}

/** A Worker loads the programs and compiles the figure anew: below these a single thread is done before. */
const FEW_EXAMPLES = 60;
const FEW_BYTES = 4e6;
/** What all Workers may hold together, and what one holds: that much, and some forty times the line of an example. */
const MOST_BYTES = 8e8;
const WORKER_BYTES = 1e8;
const LINES_HELD = 40;

function workersFor(manifest: ExampleManifest, { figures, traces }: MaterialParts): number {
  if (!figures && !traces) return 0;
  const splits = splitsOf(manifest).map((split) => manifest.splits[split]!);
  const total = splits.reduce((sum, { count }) => sum + count, 0);
  const bytes = splits.reduce((sum, part) => sum + part.bytes, 0);
  if (total < FEW_EXAMPLES && bytes < FEW_BYTES) return 0;
  const line = Math.max(...splits.map((part) => part.bytes / part.count));
  const most = Math.max(1, Math.floor(MOST_BYTES / (WORKER_BYTES + LINES_HELD * line)));
  return Math.min(availableParallelism(), most, total);
}

const WHAT = {
  figure: ['has no figure', 'have no figure'],
  blind: ['has no trace', 'have no traces'],
  teacher: ['has no trace with the right answer', 'have no traces with the right answer'],
} as const;

/** What is missing, counted, with the first case of each kind. */
class Lacks {
  readonly #first = new Map<Lack['part'], Lack>();
  readonly #counts = new Map<Lack['part'], number>();

  add(lacks: readonly Lack[]): void {
    for (const lack of lacks) {
      if (!this.#first.has(lack.part)) this.#first.set(lack.part, lack);
      this.#counts.set(lack.part, (this.#counts.get(lack.part) ?? 0) + 1);
    }
  }

  get notes(): string[] {
    return [...this.#first.values()].map(({ part, id, reason }) => {
      const count = this.#counts.get(part)!;
      return count === 1
        ? `1 example ${WHAT[part][0]}: ${id}: ${reason}`
        : `${count} examples ${WHAT[part][1]}; the first: ${id}: ${reason}`;
    });
  }
}

/** Results, per Worker, that may wait for a slower one before them. */
const AHEAD = 8;

export interface MaterialJob {
  readonly split: Split;
  readonly index: number;
}

/** Composes in Workers, or, with none of them, in this thread. Results do not depend on how many there are. */
export class MaterialPool {
  readonly #signal: AbortSignal;
  readonly #workers: number;
  readonly #own: MaterialComposer | null;
  readonly #pool: WorkerPool<MaterialRequest, Composed | Learned>;
  readonly #onAbort = (): void => this.#pool.fail(this.#signal.reason);

  /** The signal ends all work at once. @throws DataError as `ExampleSet`, without Workers */
  constructor(work: MaterialWork, workers: number, signal: AbortSignal) {
    this.#signal = signal;
    this.#workers = workers;
    this.#own = workers === 0 ? new MaterialComposer(work.directory, work.parts) : null;
    this.#pool = new WorkerPool({
      size: workers,
      program: workerUrl('./material-worker.ts', import.meta.url),
      workerData: work,
      failure: (problem, request) => {
        const at = typeof request === 'object' ? ` at ${request.split} ${request.index + 1}` : '';
        return `a Worker failed${at} (${problem}); nothing was written`;
      },
    });
    signal.addEventListener('abort', this.#onAbort);
  }

  /** As `MaterialComposer.learn`. @throws also the signal's reason; TimeseerError where a Worker fails */
  async learn(onProgress: (read: number) => void): Promise<Learned> {
    this.#signal.throwIfAborted();
    if (this.#own !== null) return this.#own.learn(onProgress);
    return (await this.#pool.ask('classes', onProgress)) as Learned;
  }

  /**
   * As `MaterialComposer.compose` for every job, in their order. Takes jobs only as results are consumed, a few ahead.
   * @throws also the signal's reason; TimeseerError where a Worker fails
   */
  async *compose(jobs: Iterable<MaterialJob>): AsyncGenerator<Composed, void> {
    const own = this.#own;
    const signal = this.#signal;
    function* unlessAborted(): Generator<MaterialJob> {
      for (const job of jobs) {
        signal.throwIfAborted();
        yield job;
      }
    }
    if (own === null) {
      const replies = this.#pool.askAll(unlessAborted(), this.#workers * AHEAD);
      for await (const reply of replies) yield reply as Composed;
      return;
    }
    for (const { split, index } of unlessAborted()) {
      yield await own.compose(split, index);
      await setImmediate();
    }
  }

  /** Ends all Workers, whatever they do. */
  close(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#pool.fail(new Error('closed'));
    return this.#pool.close();
  }
}

type Classes = MaterialFacts['classes'];

/** Learns classes where they are needed. @returns what the manifest says of them, and why there are none */
async function learn(
  directory: string,
  manifest: ExampleManifest,
  pool: MaterialPool,
  options: MaterialOptions,
): Promise<{ classes: Classes; note: string | null }> {
  if (!options.traces || !taskKind(manifest.kind).learnsClasses) return { classes: null, note: null };
  const total = manifest.splits.train?.count ?? 1;
  options.onProgress?.('classes', 0, total);
  const learned = await pool.learn((read) => options.onProgress?.('classes', read, total));
  options.onProgress?.('classes', total, total);
  if (learned.profile === null) return { classes: null, note: `no expert traces: ${learned.reason}` };
  const { profile, heldOut } = learned;
  writeFileAtomic(join(directory, CLASSES_FILE), profile);
  const sha256 = createHash('sha256').update(profile).digest('hex');
  return {
    classes: { file: CLASSES_FILE, bytes: Buffer.byteLength(profile), sha256, heldOut },
    note: null,
  };
}

/**
 * Writes figures, prompts and traces into a directory of examples that nobody else sees yet.
 *
 * @param manifest the one that stands in the directory
 * @returns the manifest with what was added
 * @throws the signal's reason; WriteError; DataError for files that changed; TimeseerError where a Worker fails
 */
export async function addMaterials(
  directory: string,
  manifest: ExampleManifest,
  options: MaterialOptions,
): Promise<AddedMaterials> {
  const { figures, traces, signal, onProgress } = options;
  const workers = options.workers ?? workersFor(manifest, options);
  const splits = splitsOf(manifest);
  const total = splits.reduce((sum, split) => sum + manifest.splits[split]!.count, 0);
  const pool = new MaterialPool({ directory, parts: { figures, traces } }, workers, signal);
  const spent: Spent = { reading: 0, drawing: 0, encoding: 0, tracing: 0 };
  const lacks = new Lacks();
  const parts: [Split, SplitMaterials][] = [];
  let writer: MaterialWriter | undefined;
  try {
    const { classes, note } = await learn(directory, manifest, pool, options);
    const traced = traces && note === null;
    const jobs = function* (): Generator<MaterialJob> {
      for (const split of splits) {
        for (let index = 0; index < manifest.splits[split]!.count; index++) yield { split, index };
      }
    };
    onProgress?.('materials', 0, total);
    const results = pool.compose(jobs());
    let done = 0;
    for (const split of splits) {
      writer = new MaterialWriter(directory, split, figures);
      const tally = new BlindTally();
      for (let left = manifest.splits[split]!.count; left > 0; left--) {
        const { value: composed } = await results.next();
        if (composed === undefined) throw new RangeError('fewer results than examples');
        writer.add(composed.material, composed.png);
        tally.add(composed.agreement, composed.gold);
        lacks.add(composed.lacks);
        for (const key of ['reading', 'drawing', 'encoding', 'tracing'] as const)
          spent[key] += composed.spent[key];
        onProgress?.('materials', ++done, total);
      }
      // The rule has seen the training examples of its classes: how it does on them says nothing.
      const learnedFrom = taskKind(manifest.kind).learnsClasses && split === 'train';
      parts.push([
        split,
        { ...(await writer.finish()), score: traced && !learnedFrom ? tally.score() : null },
      ]);
    }
    if (figures) for (const [split] of parts) syncDirectory(join(directory, 'figures', split));
    const materials: MaterialFacts = {
      prompt: wordsVersion(manifest),
      traces: traced ? TRACE_VERSION : null,
      classes,
      splits: Object.fromEntries(parts),
      notes: [...(note === null ? [] : [note]), ...lacks.notes],
    };
    return { manifest: { ...manifest, materials }, spent, workers };
  } finally {
    writer?.close();
    await pool.close();
  }
}
