/**
 * Composes the figure, prompt and expert traces of each example of a prepared data set, in this thread or on a pool of Workers.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { type ClassProfile, learnClasses, profileToJson, readProfile } from '../src/expcot/class-profile.ts';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { DataError, TimeseerError } from '../src/ground/errors.ts';
import { fileInside, readUtf8, syncPath, writeFileAtomic } from '../src/ground/files.ts';
import { getOrMake } from '../src/ground/maps.ts';
import { workerUrl } from '../src/ground/paths.ts';
import { ANOMALY_CLASSES, type Example, type Gold } from '../src/ground/types.ts';
import { WorkerPool } from '../src/ground/worker-pool.ts';
import { axesText } from '../src/plot/figure.ts';
import { encodePng } from '../src/plot/png.ts';
import { render } from '../src/plot/raster.ts';
import { drawingOf } from '../src/tasks/drawing.ts';
import type { Agreement, TaskPrompt } from '../src/tasks/kind.ts';
import {
  agreement,
  BlindTally,
  expertOn,
  goldParts,
  ownQuestion,
  statedTrace,
  taskKind,
} from '../src/tasks/kinds.ts';
import { promptText, promptVersion } from '../src/tasks/prompt.ts';
import { promptFor } from './benchmarks/registry.ts';
import { lengthOf } from './example.ts';
import {
  CLASSES_FILE,
  type ExampleManifest,
  type MaterialFacts,
  type SplitMaterials,
  splitsOf,
} from './example-manifest.ts';
import { type ExampleOrigin, ExampleSet } from './example-set.ts';
import type { MaterialRequest, MaterialWork } from './material-worker.ts';
import { type Material, MaterialWriter } from './materials.ts';
import type { Split } from './split.ts';

const promptOf = ({ task, title, kind, prompt }: ExampleOrigin): TaskPrompt =>
  promptFor(task, kind, title, prompt);

/** Returns the prompt of an example for policies other than nano. @throws ConfigError as `promptText` */
export function wordsFor(example: Example, origin: ExampleOrigin): string {
  const length = lengthOf(example);
  const { figure, times } = drawingOf(example, origin.figure);
  return promptText(promptOf(origin), {
    length,
    axes: axesText(figure, length, times),
    channels: example.names,
    classes: origin.classes.length > 0 ? origin.classes : ANOMALY_CLASSES,
    ...ownQuestion(example.gold),
  });
}

export const wordsVersion = (origin: ExampleOrigin): string => promptVersion(promptOf(origin));

/** Parts to compose; prompts always are. */
export interface MaterialParts {
  readonly figures: boolean;
  readonly traces: boolean;
}

interface Lack {
  readonly part: 'figure' | 'blind' | 'teacher';
  readonly id: string;
  readonly reason: string;
}

export interface Composed {
  readonly material: Omit<Material, 'image'>;
  readonly png: Uint8Array | null;
  readonly gold: Gold;
  readonly agreement: Agreement | null;
  readonly lacks: readonly Lack[];
}

/** Learned class profiles, as a file's text; or the reason why there are none. */
export type Learned =
  | { readonly profile: string; readonly heldOut: number | null; readonly reason: null }
  | { readonly profile: null; readonly reason: string };

const REPORT = 64;

/** Learns the classes of training examples, or says why they cannot be learned. @throws DataError for a file that is wrong */
export function learnProfile(
  training: Iterable<Example>,
):
  | { readonly profile: ClassProfile; readonly reason: null }
  | { readonly profile: null; readonly reason: string } {
  let some = false;
  const examples = function* (): Generator<Example> {
    for (const example of training) {
      some = true;
      yield example;
    }
  };
  try {
    return { profile: learnClasses(examples()), reason: null };
  } catch (error) {
    if (!(error instanceof DataError) || error.file !== undefined) throw error;
    const reason = some
      ? `classes cannot be learned: ${error.message}`
      : 'there is no training split to learn classes from';
    return { profile: null, reason };
  }
}

/** Composes materials of one data set, one example at a time; each thread has its own. */
export class MaterialComposer {
  readonly #set: ExampleSet;
  readonly #parts: MaterialParts;
  #profile: ClassProfile | null | undefined;

  constructor(directory: string, parts: MaterialParts) {
    this.#set = new ExampleSet(directory);
    this.#parts = parts;
  }

  /** Learns the classes from the training split alone. @throws DataError for a file that changed */
  learn(onProgress?: (read: number) => void): Learned {
    const set = this.#set;
    let read = 0;
    const examples = function* (): Generator<Example> {
      if (set.count('train') === 0) return;
      for (const example of set.read('train')) {
        yield example;
        if (++read % REPORT === 0) onProgress?.(read);
      }
    };
    const { profile, reason } = learnProfile(examples());
    if (profile === null) return { profile, reason };
    return { profile: profileToJson(profile), heldOut: profile.rule.heldOutAccuracy, reason };
  }

  /** Profile stored beside the examples; null where there is none or none is needed. */
  #classes(): ClassProfile | null {
    if (this.#profile === undefined) {
      const file = join(this.#set.directory, CLASSES_FILE);
      const there = taskKind(this.#set.manifest.kind).learnsClasses && existsSync(file);
      this.#profile = there
        ? readProfile(readUtf8(fileInside(this.#set.directory, CLASSES_FILE)), file)
        : null;
    }
    return this.#profile;
  }

  /**
   * Materials of example number `index` of a split (0-based). What cannot be drawn or traced is left out and named in `lacks`.
   * @throws DataError for a line that cannot be read
   */
  async compose(split: Split, index: number): Promise<Composed> {
    const set = this.#set;
    const lacks: Lack[] = [];
    const example = set.at(split, index);
    const { id, gold } = example;
    const lack = (part: Lack['part'], error: unknown): void => {
      if (!(error instanceof TimeseerError)) throw error;
      lacks.push({ part, id, reason: error.message });
    };
    let png: Uint8Array | null = null;
    if (this.#parts.figures) {
      try {
        const { figure, values, times } = drawingOf(example, set.manifest.figure);
        png = new Uint8Array(encodePng(await render(figure, values, times)));
      } catch (error) {
        lack('figure', error);
      }
    }
    const traces = this.#trace(split, example, lack);
    return {
      material: {
        id,
        prompt: wordsFor(example, set.manifest),
        gold: goldParts(gold),
        ...{ teacher: traces.teacher, blind: traces.blind },
      },
      ...{ png, gold, lacks, agreement: traces.agreement },
    };
  }

  #trace(
    split: Split,
    example: Example,
    lack: (part: Lack['part'], error: unknown) => void,
  ): Pick<Composed, 'agreement'> & Pick<Material, 'teacher' | 'blind'> {
    const { gold } = example;
    // Traces with the right answers of a test split must not exist anywhere.
    const stated = this.#parts.traces && split !== 'test' ? (statedTrace(gold)?.text ?? null) : null;
    const none = { teacher: stated, blind: null, agreement: null };
    if (!this.#parts.traces || taskKind(gold.kind).readsWords) return none;
    const profile = this.#classes();
    // Without a profile no classification has traces: this is noted once, not as a lack of each.
    if (taskKind(gold.kind).learnsClasses && profile === null) return none;
    try {
      const expert = expertOn(example, gold.kind, profile);
      const { text, answer } = expert.blind();
      let teacher = stated;
      try {
        if (split !== 'test') teacher ??= expert.teacher(gold).text;
      } catch (error) {
        lack('teacher', error);
      }
      return { teacher, blind: text, agreement: agreement(answer, gold) };
    } catch (error) {
      lack('blind', error);
      return none;
    }
  }
}

/** Materials that were composed before, by the number of the example in the data set. */
export interface MadeMaterials {
  has(number: number): boolean;
  /** Returns the materials of an example; numbers ascend. @throws DataError for a file that is not as it was written */
  take(number: number): Composed;
}

export interface MaterialOptions extends MaterialParts {
  readonly signal: AbortSignal;
  readonly made?: MadeMaterials | null;
  /** Number of Workers; 0: this thread alone. Default: one per core, fewer for small data sets and very long series. */
  readonly workers?: number | undefined;
  /** Reports training examples read for the classes, then examples composed. */
  readonly onProgress?: (phase: 'classes' | 'materials', done: number, total: number) => void;
}

/** A Worker loads the programs and compiles the figure anew; smaller data sets finish sooner on one thread. */
const FEW_EXAMPLES = 60;
const FEW_BYTES = 4e6;
/** Bytes: memory of all Workers together, base memory of one, and how many times the line of an example it needs beside. */
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

/** Notes on what examples lack: of each part the first that lacks it, and their number. */
const lackNotes = (lacks: ReadonlyMap<Lack['part'], Lack & { readonly count: number }>): string[] =>
  Array.from(lacks.values(), ({ part, id, reason, count }) =>
    count === 1
      ? `1 example ${WHAT[part][0]}: ${id}: ${reason}`
      : `${count} examples ${WHAT[part][1]}; the first: ${id}: ${reason}`,
  );

/** Results per Worker that may wait for a slower one before them. */
const AHEAD = 8;

interface MaterialJob {
  readonly split: Split;
  readonly index: number;
  /** Place among all examples of the data set. */
  readonly number: number;
}

function* jobsOf(manifest: ExampleManifest): Generator<MaterialJob> {
  let number = 0;
  for (const split of splitsOf(manifest)) {
    for (let index = 0; index < manifest.splits[split]!.count; index++)
      yield { split, index, number: number++ };
  }
}

/** Composes in Workers, or in this thread where there are none. Results do not depend on the number of Workers. */
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

  /** Runs `MaterialComposer.learn` in a Worker. @throws also the signal's reason; TimeseerError where a Worker fails */
  async learn(onProgress: (read: number) => void): Promise<Learned> {
    this.#signal.throwIfAborted();
    if (this.#own !== null) return this.#own.learn(onProgress);
    return (await this.#pool.ask('classes', { onProgress })) as Learned;
  }

  /**
   * Runs `MaterialComposer.compose` for every job, in order. Takes jobs only as results are consumed, a few ahead.
   * @throws also the signal's reason; TimeseerError where a Worker fails
   */
  async *compose(jobs: Iterable<Pick<MaterialJob, 'split' | 'index'>>): AsyncGenerator<Composed, void> {
    const composer = this.#own;
    const signal = this.#signal;
    function* unlessAborted(): Generator<Pick<MaterialJob, 'split' | 'index'>> {
      for (const job of jobs) {
        signal.throwIfAborted();
        yield job;
      }
    }
    if (composer === null) {
      const replies = this.#pool.askAll(unlessAborted(), this.#workers * AHEAD);
      for await (const reply of replies) yield reply as Composed;
      return;
    }
    for (const { split, index } of unlessAborted()) {
      yield await composer.compose(split, index);
      await setImmediate();
    }
  }

  close(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#pool.fail(new Error('closed'));
    return this.#pool.close();
  }
}

type Classes = MaterialFacts['classes'];

/** Learns classes where they are needed. @returns their manifest entry, or a note why there are none */
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
 * Composes materials of the wanted examples of a directory, in order, and learns the classes that they need.
 * @throws as `addMaterials`
 */
export async function* composeSome(
  directory: string,
  manifest: ExampleManifest,
  isWanted: (number: number) => boolean,
  options: MaterialOptions,
): AsyncGenerator<{ readonly number: number; readonly composed: Composed }, void> {
  const { figures, traces, signal, onProgress } = options;
  const workers = options.workers ?? workersFor(manifest, options);
  const pool = new MaterialPool({ directory, parts: { figures, traces } }, workers, signal);
  try {
    await learn(directory, manifest, pool, options);
    const jobs = [...jobsOf(manifest)].filter(({ number }) => isWanted(number));
    onProgress?.('materials', 0, jobs.length);
    let done = 0;
    for await (const composed of pool.compose(jobs)) {
      yield { number: jobs[done]!.number, composed };
      done++;
      onProgress?.('materials', done, jobs.length);
    }
  } finally {
    await pool.close();
  }
}

/**
 * Writes figures, prompts and traces into a directory of examples that nobody else sees yet.
 * @param manifest the one that stands in the directory
 * @returns the manifest with what was added
 * @throws the signal's reason; WriteError; DataError for files that changed; TimeseerError where a Worker fails
 */
export async function addMaterials(
  directory: string,
  manifest: ExampleManifest,
  options: MaterialOptions,
): Promise<ExampleManifest> {
  const { figures, traces, signal, onProgress, made = null } = options;
  const workers = options.workers ?? workersFor(manifest, options);
  const splits = splitsOf(manifest);
  const total = splits.reduce((sum, split) => sum + manifest.splits[split]!.count, 0);
  const pool = new MaterialPool({ directory, parts: { figures, traces } }, workers, signal);
  const lacks = new Map<Lack['part'], Lack & { count: number }>();
  const parts: [Split, SplitMaterials][] = [];
  let writer: MaterialWriter | undefined;
  try {
    const { classes, note } = await learn(directory, manifest, pool, options);
    const traced = traces && note === null;
    const jobs = function* (): Generator<MaterialJob> {
      for (const job of jobsOf(manifest)) if (made?.has(job.number) !== true) yield job;
    };
    onProgress?.('materials', 0, total);
    const results = pool.compose(jobs());
    const next = async (number: number): Promise<Composed | undefined> =>
      made?.has(number) === true ? made.take(number) : ((await results.next()).value ?? undefined);
    let done = 0;
    for (const split of splits) {
      writer = new MaterialWriter(directory, split, figures);
      const tally = new BlindTally();
      for (let left = manifest.splits[split]!.count; left > 0; left--) {
        const composed = await next(done);
        if (composed === undefined) throw new RangeError('fewer results than examples');
        writer.add(composed.material, composed.png);
        tally.add(composed.agreement, composed.gold);
        for (const lack of composed.lacks) getOrMake(lacks, lack.part, () => ({ ...lack, count: 0 })).count++;
        done++;
        onProgress?.('materials', done, total);
        if (made === null || done % REPORT !== 0) continue;
        await setImmediate(); // made materials come without a turn of the event loop
        signal.throwIfAborted();
      }
      // The rule has seen the training examples of its classes: how it does on them says nothing.
      const { learnsClasses, readsWords } = taskKind(manifest.kind);
      const learnedFrom = readsWords || (learnsClasses && split === 'train');
      parts.push([
        split,
        { ...(await writer.finish()), score: traced && !learnedFrom ? tally.score() : null },
      ]);
    }
    if (figures) for (const [split] of parts) syncPath(join(directory, 'figures', split));
    const materials: MaterialFacts = {
      prompt: wordsVersion(manifest),
      traces: traced ? TRACE_VERSION : null,
      classes,
      splits: Object.fromEntries(parts),
      notes: [...(note === null ? [] : [note]), ...lackNotes(lacks)],
    };
    return { ...manifest, materials };
  } finally {
    writer?.close();
    await pool.close();
  }
}
