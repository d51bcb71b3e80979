/** Checks what stands beside the examples of a data set: prompts, answers, expert traces and figures. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { lengthOf } from '../../../datasets/example.ts';
import type { ExampleSet } from '../../../datasets/example-set.ts';
import { goldParts } from '../../../datasets/gold-answer.ts';
import { show } from '../../../datasets/json-record.ts';
import { CLASSES_FILE, figureFile } from '../../../datasets/material-facts.ts';
import { type CheckedMaterial, type Material, Materials } from '../../../datasets/materials.ts';
import type { Split } from '../../../datasets/split.ts';
import { EXACT_WORDS, parseResponse, scoreAnswer } from '../../../rewards/response.ts';
import { DataError, reasonOf } from '../../errors.ts';
import { readProfile } from '../../expcot/profile-file.ts';
import { TRACE_VERSION } from '../../expcot/trace-version.ts';
import { fileInside, readBytes, readUtf8 } from '../../input-file.ts';
import { decodePng, MOST_BYTES } from '../../plot/png.ts';
import type { Example, Picture } from '../../types.ts';
import { wordsFor, wordsVersion } from './describe.ts';

/** What is wrong, and on which line of which file. */
export interface MaterialProblem {
  readonly split: Split;
  /** Line of the split's prompts, from 1; null where the file itself, or all figures together, are meant. */
  readonly line: number | null;
  readonly id: string | null;
  readonly problem: string;
  /** Another file of the data set than the split's prompts. */
  readonly file?: string;
}

/** Rewards are sums of binary fractions of decimal weights. */
const EXACT = 1e-12;

/** Checks the materials of one data set beside its examples, split by split, row by row. */
export class MaterialCheck {
  readonly #set: ExampleSet;
  readonly #materials: Materials;
  readonly #sameWords: boolean;
  readonly #report: (problem: MaterialProblem) => void;
  #rows: Iterator<CheckedMaterial> | undefined;
  #hash = createHash('sha256');
  /** Whether all figures so far were read, so that their hash says something. */
  #allRead = true;

  /** The check of a data set, or null where it has no materials. @throws DataError as `Materials.of` */
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

  /** What is of another version than this program writes, and what the data set lacks. */
  get remarks(): string[] {
    const { prompt, traces, notes } = this.#materials.facts;
    const own = wordsVersion(this.#set.manifest);
    return [
      ...(this.#sameWords
        ? []
        : [`prompts are of version ${prompt}, this program writes ${own}: prepare again`]),
      ...(traces === null || traces === TRACE_VERSION
        ? []
        : [`traces are of version ${traces}, this program writes ${TRACE_VERSION}: prepare again`]),
      ...notes,
    ];
  }

  /** Compares the learned classes with what the manifest says of them, and of the training split that they were learned from. */
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
        const own = counts[name] ?? 0;
        if (own !== count) {
          fail(`class ${show(name)}: learned from ${count} examples, the training split has ${own} of it`);
        }
      }
      for (const name of Object.keys(counts)) {
        if (!learned.some((one) => one.name === name))
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

  /** Begins a split. */
  open(split: Split): void {
    this.#hash = createHash('sha256');
    this.#allRead = true;
    this.#rows = this.#materials.check(split)[Symbol.iterator]();
  }

  #next(split: Split): CheckedMaterial | null {
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
    const { line, material, problem } = checked;
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
    const found: string[] = [];
    if (this.#sameWords && prompt !== wordsFor(example, this.#set.manifest)) {
      found.push(`prompt: other words than those of version ${facts.prompt}`);
    }
    if (gold !== goldParts(example.gold))
      found.push(`gold: got ${gold}, the example says ${goldParts(example.gold)}`);
    if (teacher !== null) {
      const { total, problem } = graded(teacher, example);
      if (Math.abs(total - 1) > EXACT) found.push(`teacher: earns ${total} of 1${because(problem)}`);
    }
    if (blind !== null) {
      const { problem } = graded(blind, example);
      if (problem !== null) found.push(`blind: not well formed${because(problem)}`);
    }
    return found;
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

  /** The figure of a line that cannot be read is where it would be, if there is one: nothing is known to be wrong with it. */
  #unnamed(split: Split, line: number): void {
    try {
      const file = fileInside(this.#set.directory, figureFile(split, line - 1));
      this.#hash.update(readBytes(file, MOST_BYTES));
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#allRead = false;
    }
  }

  /** Compares a figure with what its example is drawn as now. */
  compare(split: Split, line: number, id: string, png: Buffer, picture: Picture): void {
    const fail = (problem: string): void => this.#report({ split, line, id, problem: `image: ${problem}` });
    try {
      // What is larger than the picture is not unpacked.
      const { width, height, data } = decodePng(png, 'PNG', picture.width * picture.height);
      if (width !== picture.width || height !== picture.height) {
        fail(`${width} × ${height} pixels, it is drawn with ${picture.width} × ${picture.height}`);
      } else if (Buffer.compare(data, picture.data) !== 0)
        fail('other pixels than the example is drawn with');
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      fail(error.message);
    }
  }

  /** Ends a split: nothing may be left, and all figures together are as the manifest says. */
  close(split: Split): void {
    if (this.#rows !== undefined) this.#next(split); // only now the file as a whole is compared
    const figures = this.#materials.facts.splits[split]?.figures ?? null;
    // Of a figure that cannot be read that alone is said.
    if (figures === null || this.#rows === undefined || !this.#allRead) return;
    if (this.#hash.digest('hex') !== figures.sha256) {
      const problem = `${figures.folder}: SHA-256 of the figures is not the one in the manifest; --all compares each`;
      this.#report({ split, line: null, id: null, problem });
    }
  }
}

/** Whether this is what reading a file throws. */
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
