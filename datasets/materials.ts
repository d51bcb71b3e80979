/**
 * Figures, prompts and expert traces of a prepared data set, one line for each example in the order of the examples:
 *
 *     {"id":"ctu/train/0","image":"figures/train/000000.png","prompt":"The plot shows …","gold":"<class>Laptop</class>",
 *      "teacher":"<think>…</think><class>Laptop</class>","blind":"<think>…</think><class>Desktop</class>"}
 *
 * `image` is relative to the data set. `teacher` concludes the right answer; the test split has none. `blind` uses the
 * values alone. All three are null where there is none.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type ClassProfile, learnClasses, readProfile } from '../src/expcot/class-profile.ts';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { DataError } from '../src/ground/errors.ts';
import { fileInside, readBytes } from '../src/ground/files.ts';
import { type Place, parseRecord, show, stringField } from '../src/ground/json-record.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import {
  CLASSES_FILE,
  figureFile,
  figureFolder,
  type MaterialFacts,
  materialFile,
  type SplitMaterials,
} from './example-manifest.ts';
import {
  type CheckedLine,
  checkLines,
  type ExampleSet,
  type Line,
  LineFile,
  LineWriter,
} from './example-set.ts';
import type { Split } from './split.ts';

export interface Material {
  readonly id: string;
  /** Path of the policy's picture (PNG), relative to the data set; null where it was not drawn. */
  readonly image: string | null;
  /** Prompt text, beside the picture. */
  readonly prompt: string;
  /** Parts of the right answer, in response format. */
  readonly gold: string;
  /** Full response with the right answer; null in the test split, and where there is no trace. */
  readonly teacher: string | null;
  /** Full response from values alone; null where there is no trace. */
  readonly blind: string | null;
}

/** Figures that are synced to disk at the same time. */
const SYNCED_AT_ONCE = 16;

const FIELDS = ['id', 'image', 'prompt', 'gold', 'teacher', 'blind'] as const;

/** Writes the materials of one split, in the order of its examples. */
export class MaterialWriter {
  readonly #directory: string;
  readonly #split: Split;
  readonly #lines: LineWriter;
  readonly #hash = createHash('sha256');
  readonly #drawn: boolean;
  readonly #figures: string[] = [];
  #bytes = 0;
  #teacher = 0;
  #blind = 0;

  constructor(directory: string, split: Split, figures: boolean) {
    this.#directory = directory;
    this.#split = split;
    this.#drawn = figures;
    this.#lines = new LineWriter(join(directory, materialFile(split)));
    if (figures) mkdirSync(join(directory, figureFolder(split)), { recursive: true });
  }

  /** Adds the materials of the next example, and its figure as a PNG file. @throws RangeError for a test split's teacher */
  add(material: Omit<Material, 'image'>, png: Uint8Array | null): void {
    const { id, prompt, gold, teacher, blind } = material;
    if (this.#split === 'test' && teacher !== null)
      throw new RangeError(`${id}: a test split has no teacher`);
    const image = png === null ? null : figureFile(this.#split, this.#lines.count);
    if (png !== null && image !== null) {
      writeFileSync(join(this.#directory, image), png, { flag: 'wx' });
      this.#hash.update(png);
      this.#figures.push(image);
      this.#bytes += png.byteLength;
    }
    if (teacher !== null) this.#teacher++;
    if (blind !== null) this.#blind++;
    this.#lines.add(JSON.stringify({ id, image, prompt, gold, teacher, blind } satisfies Material));
  }

  /** Writes the rest and syncs it to disk. */
  async finish(): Promise<Omit<SplitMaterials, 'score'>> {
    const waiting = this.#figures.values();
    const sync = async (): Promise<void> => {
      for (const image of waiting) {
        const handle = await open(join(this.#directory, image), 'r+');
        try {
          await handle.sync();
        } finally {
          await handle.close();
        }
      }
    };
    // Several at a time share the disk's turns: eight times as fast as one after the other.
    await Promise.all(Array.from({ length: SYNCED_AT_ONCE }, sync));
    const { bytes, sha256 } = this.#lines.finish();
    const figures = {
      folder: figureFolder(this.#split),
      count: this.#figures.length,
      bytes: this.#bytes,
      sha256: this.#hash.digest('hex'),
    };
    return {
      prompts: { file: materialFile(this.#split), bytes, sha256 },
      figures: this.#drawn ? figures : null,
      teacher: this.#teacher,
      blind: this.#blind,
    };
  }

  /** Closes the file without finishing it. */
  close(): void {
    this.#lines.close();
  }
}

/** The materials of a prepared data set, opened for reading. */
export class Materials {
  readonly facts: MaterialFacts;
  readonly #set: ExampleSet;
  readonly #files = new Map<Split, LineFile>();

  /** Opens the materials of a data set; null where it has none. @throws DataError when a file is missing or of another size */
  static of(set: ExampleSet): Materials | null {
    const { materials } = set.manifest;
    return materials === undefined ? null : new Materials(set, materials);
  }

  private constructor(set: ExampleSet, facts: MaterialFacts) {
    this.#set = set;
    this.facts = facts;
    for (const split of set.splits) {
      const part = facts.splits[split];
      if (part === undefined) continue;
      const { file, bytes, sha256 } = part.prompts;
      const count = set.count(split);
      this.#files.set(split, new LineFile(join(set.directory, file), { count, bytes, sha256 }, 'materials'));
    }
  }

  file(split: Split): string {
    return this.#file(split).path;
  }

  #file(split: Split): LineFile {
    const file = this.#files.get(split);
    if (file !== undefined) return file;
    throw new DataError(`has no ${split} split; it has ${this.#set.splits.join(', ')}`, {
      file: this.#set.directory,
    });
  }

  /** @param id the example's; null where its line cannot be read, so that nothing can be compared */
  #parse(split: Split, { text, number }: Line, id: string | null): Material {
    const at = { file: this.#file(split).path, line: number };
    const material = parseMaterial(text, at);
    if (id !== null && material.id !== id) {
      throw new DataError(`id: got ${show(material.id)}, the example on this line is ${show(id)}`, at);
    }
    const { image, teacher } = material;
    if (image !== null && image !== figureFile(split, number - 1)) {
      throw new DataError(`image: got ${show(image)}, expected ${figureFile(split, number - 1)}`, at);
    }
    if (split === 'test' && teacher !== null) {
      throw new DataError('teacher: the test split must not have traces with the right answer', at);
    }
    return material;
  }

  /** Materials of example number `index` of a split (0-based). @throws RangeError outside; DataError as `read` */
  at(split: Split, index: number): Material {
    return this.#parse(split, this.#file(split).at(index), this.#set.idAt(split, index));
  }

  /**
   * All of a split, in the order of the examples; a full pass also compares the SHA-256.
   * @throws DataError with file and line for a line that is not as described above, or whose id is not the example's; for a
   * split that is not there, and as `LineFile.read`
   */
  *read(split: Split): Generator<Material> {
    for (const { value, problem } of this.check(split)) {
      if (value === null) throw problem;
      yield value;
    }
  }

  /** All lines of a split, each with its materials or their problem. @throws DataError for the file itself */
  *check(split: Split): Generator<CheckedLine<Material>> {
    const ids = this.#set.ids(split);
    yield* checkLines(this.#file(split), (line) => this.#parse(split, line, ids.next().value ?? null));
  }
}

function parseMaterial(text: string, at: Place): Material {
  const record = parseRecord(text, FIELDS, at);
  const optional = (name: 'image' | 'teacher' | 'blind'): string | null =>
    record[name] === null ? null : stringField(record, name, at);
  const material: Material = {
    id: stringField(record, 'id', at),
    image: optional('image'),
    prompt: stringField(record, 'prompt', at),
    gold: stringField(record, 'gold', at),
    teacher: optional('teacher'),
    blind: optional('blind'),
  };
  for (const name of ['prompt', 'gold', 'teacher', 'blind'] as const) {
    if (material[name] === '') throw new DataError(`${name}: is empty`, at);
  }
  return material;
}

const ADVICE = 'prepare the data set again, or remove the file to have the classes learned anew';

/**
 * Class profile stored beside the examples; null where there is none.
 * @throws DataError for a file that is damaged or not the one of the manifest, or of other classes or channels than the training split
 */
export function storedClasses(set: ExampleSet): ClassProfile | null {
  const { kind, materials, splits } = set.manifest;
  const facts = materials?.classes ?? null;
  const file = join(set.directory, CLASSES_FILE);
  if (!taskKind(kind).learnsClasses || facts === null || !existsSync(file)) return null;
  const bytes = readBytes(fileInside(set.directory, CLASSES_FILE));
  if (createHash('sha256').update(bytes).digest('hex') !== facts.sha256) {
    throw new DataError(
      `SHA-256 is not the one in the manifest (${bytes.length} bytes, the manifest says ${facts.bytes}): the file was changed or cut ` +
        `after it was written; ${ADVICE}`,
      { file },
    );
  }
  const profile = readProfile(bytes.toString('utf8'), file);
  const known = profile.classes.map(({ name }) => name);
  const strange = Object.keys(splits.train?.classes ?? {}).find((name) => !known.includes(name));
  if (strange !== undefined) {
    throw new DataError(
      `knows ${known.join(', ')}, not the class ${strange} of the training split; ${ADVICE}`,
      { file },
    );
  }
  const channels = set.count('train') === 0 ? profile.channels : set.at('train', 0).names;
  if (channels.join('\n') !== profile.channels.join('\n')) {
    throw new DataError(
      `learned from the channels ${profile.channels.join(', ')}, but the training split has ${channels.join(', ')}; ${ADVICE}`,
      { file },
    );
  }
  return profile;
}

function load(set: ExampleSet): ClassProfile | null {
  if (!taskKind(set.manifest.kind).learnsClasses) return null;
  return storedClasses(set) ?? (set.count('train') === 0 ? null : learnClasses(set.read('train')));
}

/**
 * Class profile, loaded on first use: from the file beside the examples, or else learned from the training split; null without one,
 * and where there are no classes. @throws DataError as `storedClasses`, or for classes that cannot be learned
 */
export function classesOf(set: ExampleSet | null): () => ClassProfile | null {
  let known: { readonly profile: ClassProfile | null } | { readonly failure: unknown } | undefined;
  return () => {
    if (known === undefined) {
      try {
        known = { profile: set === null ? null : load(set) };
      } catch (failure) {
        known = { failure };
      }
    }
    if ('failure' in known) throw known.failure;
    return known.profile;
  };
}

/** Stored traces that training can use: those of this program's trace version. */
function usableTraces(set: ExampleSet | null): Materials | null {
  const materials = set === null ? null : Materials.of(set);
  return materials?.facts.traces === TRACE_VERSION ? materials : null;
}

/** Reads the stored traces of the training split once, as a check. @throws DataError for damaged or changed files */
export function checkTraces(set: ExampleSet): void {
  for (const _ of usableTraces(set)?.read('train') ?? []);
}

/** Stored teacher trace of a training example by its place in the split; null where there is none of this version. */
export function storedTraces(set: ExampleSet | null): (index: number) => string | null {
  const materials = usableTraces(set);
  return materials === null ? () => null : (index) => materials.at('train', index).teacher;
}
