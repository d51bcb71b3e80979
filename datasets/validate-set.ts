/** Validates a prepared data set: its examples, and the prompts, answers, expert traces and figures beside them. */
import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { readProfile } from '../src/expcot/class-profile.ts';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { DataError, reasonOf, TimeseerError } from '../src/ground/errors.ts';
import { fileInside, readBytes, readUtf8 } from '../src/ground/files.ts';
import { show } from '../src/ground/json-record.ts';
import type { Example, Picture } from '../src/ground/types.ts';
import { decodeImage, imageSize, MOST_BYTES } from '../src/plot/image-file.ts';
import { RenderPool } from '../src/plot/pool.ts';
import { render } from '../src/plot/raster.ts';
import { drawingOf, figureProblem } from '../src/tasks/drawing.ts';
import {
  EXACT_WORDS,
  goldParts,
  goldResponse,
  labelOf,
  parseResponse,
  scoreAnswer,
  taskKind,
} from '../src/tasks/kinds.ts';
import { wordsFor, wordsVersion } from './compose-materials.ts';
import { lengthOf } from './example.ts';
import {
  CLASSES_FILE,
  EXAMPLES_MANIFEST,
  type ExampleManifest,
  figureFile,
  materialFile,
  splitFile,
} from './example-manifest.ts';
import { type CheckedLine, ExampleSet } from './example-set.ts';
import { type Material, Materials } from './materials.ts';
import type { Split } from './split.ts';

interface MaterialProblem {
  readonly split: Split;
  /** 1-based line of the split's prompts; null for the file as a whole, or for all figures. */
  readonly line: number | null;
  readonly id: string | null;
  readonly problem: string;
  /** File in the data set, where it is not that of the split's prompts. */
  readonly file?: string;
}

/** Tolerance for rewards, which are sums of decimal weights. */
const EXACT = 1e-12;

/** Checks the materials of one data set beside its examples, split by split, row by row. */
class MaterialCheck {
  readonly #set: ExampleSet;
  readonly #materials: Materials;
  readonly #sameWords: boolean;
  readonly #report: (problem: MaterialProblem) => void;
  #rows: Iterator<CheckedLine<Material>> | undefined;
  #hash = createHash('sha256');
  /** True while every figure could be read, so that their common hash is meaningful. */
  #allRead = true;

  /** Opens the check of a data set; null where it has no materials. @throws DataError as `Materials.of` */
  static of(set: ExampleSet, report: (problem: MaterialProblem) => void): MaterialCheck | null {
    const materials = Materials.of(set);
    return materials === null ? null : new MaterialCheck(set, materials, report);
  }

  private constructor(set: ExampleSet, materials: Materials, report: (problem: MaterialProblem) => void) {
    this.#set = set;
    this.#materials = materials;
    this.#report = report;
    this.#sameWords = materials.facts.prompt === wordsVersion(set.manifest);
  }

  /** Version mismatches and missing parts. */
  get remarks(): string[] {
    const { prompt, traces, notes } = this.#materials.facts;
    const current = wordsVersion(this.#set.manifest);
    return [
      ...(this.#sameWords
        ? []
        : [`prompts are of version ${prompt}, this program writes ${current}: prepare again`]),
      ...(traces === null || traces === TRACE_VERSION
        ? []
        : [`traces are of version ${traces}, this program writes ${TRACE_VERSION}: prepare again`]),
      ...notes,
    ];
  }

  /** Compares the learned classes with the manifest and with the training split. */
  checkClasses(): void {
    const { classes } = this.#materials.facts;
    if (classes === null) return;
    const file = join(this.#set.directory, CLASSES_FILE);
    const fail = (problem: string): void => {
      this.#report({ split: 'train', line: null, id: null, problem, file: CLASSES_FILE });
    };
    try {
      const text = readText(file);
      if (createHash('sha256').update(text).digest('hex') !== classes.sha256) {
        fail('SHA-256 is not the one in the manifest: prepare the data set again');
        return;
      }
      const { classes: learned, rule } = readProfile(text, CLASSES_FILE);
      const counts = this.#set.manifest.splits.train?.classes ?? {};
      for (const { name, count } of learned) {
        const present = counts[name] ?? 0;
        if (present !== count) {
          fail(
            `class ${show(name)}: learned from ${count} examples, the training split has ${present} of it`,
          );
        }
      }
      for (const name of Object.keys(counts)) {
        if (!learned.some((learnedClass) => learnedClass.name === name))
          fail(`class ${show(name)}: is not among those learned`);
      }
      if (rule.heldOutAccuracy !== classes.heldOut) {
        fail(`heldOutAccuracy: got ${rule.heldOutAccuracy}, the manifest says ${classes.heldOut}`);
      }
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      fail(error.message);
    }
  }

  open(split: Split): void {
    this.#hash = createHash('sha256');
    this.#allRead = true;
    this.#rows = this.#materials.check(split)[Symbol.iterator]();
  }

  #next(split: Split): CheckedLine<Material> | null {
    try {
      const result = this.#rows?.next();
      return result === undefined || result.done === true ? null : result.value;
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      this.#report({ split, line: null, id: null, problem: error.message });
      this.#rows = undefined;
      return null;
    }
  }

  /**
   * Checks the next row beside its example, null where that cannot be read.
   * @returns the bytes of the figure, to be compared; null where there is none to compare
   */
  row(split: Split, example: Example | null): Buffer | null {
    const checked = this.#next(split);
    if (checked === null) return null;
    const { line, value: material, problem } = checked;
    if (material === null) {
      this.#report({ split, line, id: null, problem: problem?.message ?? 'cannot be read' });
      this.#unnamed(split, line);
      return null;
    }
    if (example !== null) {
      for (const wrong of this.#wordProblems(example, material)) {
        this.#report({ split, line, id: example.id, problem: wrong });
      }
    }
    return this.#figure(split, line, material);
  }

  #wordProblems(example: Example, { prompt, gold, teacher, blind }: Material): string[] {
    const { facts } = this.#materials;
    const problems: string[] = [];
    if (this.#sameWords && prompt !== wordsFor(example, this.#set.manifest)) {
      problems.push(`prompt: other words than those of version ${facts.prompt}`);
    }
    if (gold !== goldParts(example.gold))
      problems.push(`gold: got ${gold}, the example says ${goldParts(example.gold)}`);
    if (teacher !== null) {
      const { total, problem } = graded(teacher, example);
      if (Math.abs(total - 1) > EXACT) problems.push(`teacher: earns ${total} of 1${because(problem)}`);
    }
    if (blind !== null) {
      const { problem } = graded(blind, example);
      if (problem !== null) problems.push(`blind: not well formed${because(problem)}`);
    }
    return problems;
  }

  #figure(split: Split, line: number, { id, image }: Material): Buffer | null {
    if (image === null) return null;
    try {
      const png = readBytes(fileInside(this.#set.directory, image), MOST_BYTES);
      this.#hash.update(png);
      return png;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#allRead = false;
      this.#report({ split, line, id, problem: `image: cannot be read (${reasonOf(error)})` });
      return null;
    }
  }

  /** Adds the figure of an unreadable line to the hash, from its usual place; nothing is known to be wrong with it. */
  #unnamed(split: Split, line: number): void {
    try {
      const file = fileInside(this.#set.directory, figureFile(split, line - 1));
      this.#hash.update(readBytes(file, MOST_BYTES));
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#allRead = false;
    }
  }

  /** Compares a stored figure with a new drawing of its example. */
  async compare(split: Split, line: number, id: string, png: Buffer, picture: Picture): Promise<void> {
    const fail = (problem: string): void => this.#report({ split, line, id, problem: `image: ${problem}` });
    try {
      const { width, height } = imageSize(png);
      if (width !== picture.width || height !== picture.height) {
        fail(`${width} × ${height} pixels, it is drawn with ${picture.width} × ${picture.height}`);
      } else if (Buffer.compare((await decodeImage(png)).data, picture.data) !== 0)
        fail('other pixels than the example is drawn with');
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      fail(error.message);
    }
  }

  /** Ends a split: no rows may be left, and the hash of the figures must match. */
  close(split: Split): void {
    if (this.#rows !== undefined) this.#next(split); // only now the file as a whole is compared
    const figures = this.#materials.facts.splits[split]?.figures ?? null;
    // An unreadable figure was reported already.
    if (figures === null || this.#rows === undefined || !this.#allRead) return;
    if (this.#hash.digest('hex') !== figures.sha256) {
      const problem = `${figures.folder}: SHA-256 of the figures is not the one in the manifest; --all compares each`;
      this.#report({ split, line: null, id: null, problem });
    }
  }
}

/** Returns true for errors that reading a file throws. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof DataError || (error as NodeJS.ErrnoException).code !== undefined;

const because = (problem: string | null): string => (problem === null ? '' : ` (${problem})`);

function graded(text: string, example: Example): { readonly total: number; readonly problem: string | null } {
  const { gold, channels } = example;
  const length = lengthOf(example);
  const answer = parseResponse(text, { kind: gold.kind, length, channels: channels.length, ...EXACT_WORDS });
  return { total: scoreAnswer(answer, gold, length).total, problem: answer.problem };
}

function readText(file: string): string {
  try {
    return readUtf8(file);
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
    const problem = missing ? 'is not there, but the manifest names it' : reasonOf(cause);
    throw new DataError(`${problem}: prepare the data set again`, { file, cause });
  }
}

/**
 * Runs the gold answer through the reader and the reward of its kind, as a response is. Of an anomaly whose kind is not
 * named, the class is not graded.
 * @returns what is wrong, or null
 */
export function gradeProblem(example: Example): string | null {
  const { total, problem } = graded(goldResponse(example.gold, 'The right answer.'), example);
  return Math.abs(total - 1) <= EXACT ? null : `the right answer earns ${total} of 1${because(problem)}`;
}

/** Checks the figure that a prepared data set names. @throws DataError with the manifest */
export function checkSetFigure(
  directory: string,
  { figure: { preset } }: Pick<ExampleManifest, 'figure'>,
): void {
  const problem = figureProblem(preset);
  if (problem === null) return;
  throw new DataError(`figure.preset: ${problem}`, { file: join(directory, EXAMPLES_MANIFEST) });
}

interface BrokenRow {
  readonly split: Split;
  /** File relative to the data set. */
  readonly file: string;
  /** 1-based line; null for the file as a whole. */
  readonly line: number | null;
  readonly id: string | null;
  readonly problem: string;
}

export interface Verdict {
  readonly directory: string;
  readonly task: string;
  readonly rows: number;
  readonly drawn: number;
  readonly graded: number;
  /** Number of figures compared pixel by pixel with new drawings. */
  readonly compared: number;
  readonly broken: readonly BrokenRow[];
  /** Skipped checks, with reasons. */
  readonly remarks: readonly string[];
}

/** Default number of figures compared pixel by pixel. */
export const COMPARED = 50;
/** A Worker compiles the figure anew, which pays from about this many pictures on. */
const PICTURES_PER_WORKER = 50;
/** Rows between two yields to the event loop. */
const BREATH = 64;

interface ValidateOptions {
  readonly render: boolean;
  /** Compares every figure pixel by pixel. Default: about `COMPARED` of them, evenly spread. */
  readonly all?: boolean;
  readonly onProgress?: (rows: number, broken: number) => void;
}

class Neighbours {
  readonly #ids = new Set<string>();
  readonly #homes = new Map<string, Split>();
  readonly #set: ExampleSet;

  constructor(set: ExampleSet) {
    this.#set = set;
  }

  problem(split: Split, { id, gold, recording }: Example): string | null {
    const { classes, split: promise } = this.#set.manifest;
    if (this.#ids.has(id)) return `id '${id}' occurs twice`;
    this.#ids.add(id);
    if (taskKind(gold.kind).classes === 'data' && !classes.includes(labelOf(gold))) {
      return `class '${labelOf(gold)}' is none of ${classes.join(', ')}`;
    }
    if (recording === null || promise.recordingsApart !== true) return null;
    const home = this.#homes.get(recording) ?? split;
    this.#homes.set(recording, home);
    return home === split ? null : `recording '${recording}' is in ${home} too, which the manifest rules out`;
  }
}

/**
 * Checks a prepared data set: every line is read, its example drawn by its figure and its right answer run through the
 * reward; ids, classes and recordings are compared. Where figures, prompts and traces stand beside the examples, these are
 * checked as well.
 * @throws DataError when the manifest or a file as a whole is wrong
 */
export async function validateSet(directory: string, options: ValidateOptions): Promise<Verdict> {
  const set = new ExampleSet(directory);
  checkSetFigure(directory, set.manifest);
  const { figure, task } = set.manifest;
  const broken: BrokenRow[] = [];
  const neighbours = new Neighbours(set);
  const beside = MaterialCheck.of(set, (problem) => {
    broken.push({ file: materialFile(problem.split), ...problem });
  });
  const total = set.splits.reduce((sum, split) => sum + set.count(split), 0);
  const stride = options.all === true ? 1 : Math.max(1, Math.floor(total / COMPARED));
  const workers = Math.min(availableParallelism(), Math.floor(total / PICTURES_PER_WORKER));
  const pool = options.render && workers > 0 ? new RenderPool(workers) : null;
  const most = pool?.capacity ?? 1;
  const waiting = new Set<Promise<void>>();
  let rows = 0;
  let drawn = 0;
  let graded = 0;
  let compared = 0;
  const draw = async (split: Split, line: number, example: Example, png: Buffer | null): Promise<void> => {
    const { id } = example;
    try {
      const { figure: chosen, values, times } = drawingOf(example, figure);
      const picture = await (pool === null
        ? render(chosen, values, times)
        : pool.render(chosen, values, times));
      drawn++;
      if (png === null) return;
      await beside?.compare(split, line, id, png, picture);
      compared++;
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      broken.push({ split, file: splitFile(split), line, id, problem: `cannot be drawn: ${error.message}` });
    }
  };
  try {
    beside?.checkClasses();
    for (const split of set.splits) {
      const file = splitFile(split);
      beside?.open(split);
      try {
        for (const { line, value: example, problem } of set.check(split)) {
          rows++;
          const wrong =
            example === null ? null : (neighbours.problem(split, example) ?? gradeProblem(example));
          // The materials of a wrong example cannot be compared with it.
          const png = beside?.row(split, wrong === null ? example : null) ?? null;
          if (example === null) broken.push({ split, file, line, id: null, problem: problem!.message });
          else {
            if (wrong !== null) broken.push({ split, file, line, id: example.id, problem: wrong });
            graded++;
            if (options.render) {
              const chosen = (rows - 1) % stride === 0 ? png : null;
              const done = draw(split, line, example, chosen).finally(() => waiting.delete(done));
              waiting.add(done);
              if (waiting.size >= most) await Promise.race(waiting);
            }
          }
          options.onProgress?.(rows, broken.length);
          if (rows % BREATH === 0) await setImmediate();
        }
        beside?.close(split);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        broken.push({ split, file, line: null, id: null, problem: error.message });
      }
    }
    await Promise.all(waiting);
  } finally {
    await Promise.allSettled(waiting);
    await pool?.close();
  }
  const place = ({ split, file, line }: BrokenRow): [number, string, number] => {
    return [set.splits.indexOf(split), file, line ?? 0];
  };
  broken.sort((a, b) => {
    const [[split, file, line], [otherSplit, otherFile, otherLine]] = [place(a), place(b)];
    return split - otherSplit || (file < otherFile ? -1 : file > otherFile ? 1 : line - otherLine);
  });
  const nothing = 'no prompts, figures and traces stand beside the examples: prepare again to have them';
  const remarks = [
    ...(beside === null ? [nothing] : beside.remarks),
    ...(options.render ? [] : ['nothing was drawn (--no-render)']),
  ];
  return { directory, task, rows, drawn, graded, compared, broken, remarks };
}
