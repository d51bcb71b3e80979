/** A prepared data set on disk: a manifest, and one file of examples per split. Both directions stream. */

import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DataError } from '../src/errors.ts';
import { writeDirectoryAtomicAsync, writeFileAtomic } from '../src/files.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import type { Example } from '../src/types.ts';
import { checkExample, exampleLine, lengthOf, parseExample } from './example.ts';
import {
  EXAMPLES_FORMAT,
  EXAMPLES_MANIFEST,
  EXAMPLES_VERSION,
  type ExampleManifest,
  readExampleManifest,
  type SplitFacts,
  splitFile,
  splitsOf,
} from './example-manifest.ts';
import { type Line, LineFile, LineWriter } from './line-file.ts';
import { SPLITS, type Split } from './split.ts';

/** What the writer cannot see in the examples themselves. */
export type ExampleOrigin = Omit<ExampleManifest, 'format' | 'version' | 'splits' | 'materials'>;

export interface WriteExamplesOptions {
  /** Called now and then with the number of examples written so far, and at the end. */
  readonly onProgress?: (written: number) => void;
  /** Stops the writing; nothing is left behind, and the returned promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * Adds to the whole directory, at a temporary place, before it appears under its name; what it resolves with becomes the
   * manifest.
   */
  readonly complete?: (temporary: string, manifest: ExampleManifest) => Promise<ExampleManifest>;
}

/** One split that grows. */
class Part {
  readonly #writer: LineWriter;
  readonly #split: Split;
  readonly #classes = new Map<string, number>();
  readonly recordings = new Set<string>();
  #length: number | null = null;

  constructor(directory: string, split: Split) {
    this.#split = split;
    this.#writer = new LineWriter(join(directory, splitFile(split)));
  }

  get count(): number {
    return this.#writer.count;
  }

  add(example: Example): boolean {
    const length = lengthOf(example);
    this.#length = this.count === 0 || this.#length === length ? length : null;
    const name = labelOf(example.gold);
    this.#classes.set(name, (this.#classes.get(name) ?? 0) + 1);
    if (example.recording !== null) this.recordings.add(example.recording);
    return this.#writer.add(exampleLine(example));
  }

  finish(classes: readonly string[]): SplitFacts {
    const { count, bytes, sha256 } = this.#writer.finish();
    const rank = (name: string): number =>
      (classes.indexOf(name) + classes.length + 1) % (classes.length + 1);
    const order = [...this.#classes].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1));
    return {
      file: splitFile(this.#split),
      count,
      bytes,
      sha256,
      length: this.#length,
      classes: Object.fromEntries(order),
      recordings: this.recordings.size === 0 ? null : this.recordings.size,
    };
  }

  close(): void {
    this.#writer.close();
  }
}

/** @throws DataError where the manifest would promise that recordings are apart, and they are not */
function checkApart(parts: ReadonlyMap<Split, Part>, file: string): void {
  const home = new Map<string, Split>();
  for (const [split, { recordings }] of parts) {
    for (const recording of recordings) {
      const other = home.get(recording);
      if (other !== undefined) {
        throw new DataError(
          `recording '${recording}' is in ${other} and ${split}, which must not share any`,
          {
            file,
          },
        );
      }
      home.set(recording, split);
    }
  }
}

/**
 * Writes a data set directory, whole or not at all; one that exists is replaced once the new one is complete. Lets
 * the event loop run after about every megabyte, so that signals and progress bars work.
 *
 * @returns the manifest as written
 * @throws DataError for an example that `checkExample` refuses, an id that occurs twice, a class that the origin does not
 * list, a recording in two splits where the origin says there is none, and for no examples at all; WriteError when the
 * disk refuses
 */
export async function writeExamples(
  directory: string,
  origin: () => ExampleOrigin,
  examples: Iterable<readonly [split: Split, example: Example]>,
  options: WriteExamplesOptions = {},
): Promise<ExampleManifest> {
  const holder: { manifest?: ExampleManifest } = {};
  await writeDirectoryAtomicAsync(directory, async (temporary) => {
    const parts = new Map<Split, Part>();
    const ids = new Set<string>();
    try {
      let written = 0;
      for (const [split, example] of examples) {
        const part = parts.get(split) ?? new Part(temporary, split);
        parts.set(split, part);
        const at = { file: join(directory, splitFile(split)), line: part.count + 1 };
        checkExample(example, at);
        if (ids.has(example.id)) throw new DataError(`id '${example.id}' occurs twice`, at);
        ids.add(example.id);
        written++;
        if (!part.add(example)) continue;
        options.onProgress?.(written);
        await setImmediate();
        options.signal?.throwIfAborted();
      }
      options.signal?.throwIfAborted();
      if (written === 0) throw new DataError('no examples to write', { file: directory });
      options.onProgress?.(written);
      const head = origin();
      if (head.split.recordingsApart === true) checkApart(parts, directory);
      const finished = SPLITS.flatMap((split): [Split, SplitFacts][] => {
        const part = parts.get(split);
        return part === undefined ? [] : [[split, part.finish(head.classes)]];
      });
      for (const [, { classes }] of finished) {
        const strange = Object.keys(classes).find((name) => !head.classes.includes(name));
        if (taskKind(head.kind).classes === 'data' && strange !== undefined) {
          throw new DataError(`class '${strange}' is none of ${head.classes.join(', ')}`, {
            file: directory,
          });
        }
      }
      holder.manifest = {
        format: EXAMPLES_FORMAT,
        version: EXAMPLES_VERSION,
        ...head,
        splits: Object.fromEntries(finished),
      };
    } finally {
      for (const part of parts.values()) part.close();
    }
    const write = (manifest: ExampleManifest): void => {
      writeFileAtomic(join(temporary, EXAMPLES_MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
    };
    write(holder.manifest);
    if (options.complete === undefined) return;
    holder.manifest = await options.complete(temporary, holder.manifest);
    options.signal?.throwIfAborted();
    write(holder.manifest);
  });
  return holder.manifest!;
}

/** The id that leads a line as `exampleLine` writes it. */
const LEADING_ID = /^\{"id":("(?:[^"\\]|\\.)*"),/;

/** An example or what is wrong with its line. */
export interface CheckedLine {
  readonly line: number;
  readonly example: Example | null;
  readonly problem: DataError | null;
}

/** A prepared data set, opened for reading. */
export class ExampleSet {
  readonly directory: string;
  readonly manifest: ExampleManifest;
  readonly #files = new Map<Split, LineFile>();

  /** @throws DataError when the manifest is wrong or a file has another size than it says */
  constructor(directory: string) {
    this.directory = directory;
    this.manifest = readExampleManifest(directory);
    for (const split of this.splits) {
      const facts = this.manifest.splits[split]!;
      this.#files.set(split, new LineFile(join(directory, facts.file), facts, 'examples'));
    }
  }

  /** Splits that it has, in their order. */
  get splits(): Split[] {
    return splitsOf(this.manifest);
  }

  /** Number of examples of a split; 0 of one that it does not have. */
  count(split: Split): number {
    return this.manifest.splits[split]?.count ?? 0;
  }

  #file(split: Split): LineFile {
    const file = this.#files.get(split);
    if (file !== undefined) return file;
    throw new DataError(`has no ${split} split; it has ${this.splits.join(', ')}`, { file: this.directory });
  }

  #parse(split: Split, { text, number }: Line): Example {
    const at = { file: this.#file(split).path, line: number };
    const example = parseExample(text, at);
    const { length } = this.manifest.splits[split]!;
    if (length !== null && lengthOf(example) !== length) {
      throw new DataError(`${lengthOf(example)} points, the manifest says ${length}`, at);
    }
    if (example.gold.kind !== this.manifest.kind) {
      throw new DataError(
        `gold.kind: got '${example.gold.kind}', the manifest says '${this.manifest.kind}'`,
        at,
      );
    }
    return example;
  }

  /**
   * `count` examples of a split from number `offset` on (0-based); a full pass also compares the SHA-256.
   *
   * @throws DataError for a split that is not there, with file and line for a line that `parseExample` refuses or that the
   * manifest does not describe, and as `LineFile.read`
   */
  *read(split: Split, offset = 0, count: number = this.count(split) - offset): Generator<Example> {
    for (const line of this.#file(split).read(offset, count)) yield this.#parse(split, line);
  }

  /** Every line of a split with its example, or with what is wrong with it. @throws DataError for the file itself */
  *check(split: Split): Generator<CheckedLine> {
    for (const line of this.#file(split).read()) {
      let example: Example | null = null;
      let problem: DataError | null = null;
      try {
        example = this.#parse(split, line);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        problem = error;
      }
      yield { line: line.number, example, problem };
    }
  }

  /** Example number `index` of a split (0-based). @throws RangeError outside; DataError as `read` */
  at(split: Split, index: number): Example {
    return this.#parse(split, this.#file(split).at(index));
  }

  #id(split: Split, line: Line): string {
    const [, id] = LEADING_ID.exec(line.text) ?? [];
    return id === undefined ? this.#parse(split, line).id : (JSON.parse(id) as string);
  }

  /** Id of example number `index` of a split, without reading its values. @throws as `at` */
  idAt(split: Split, index: number): string {
    return this.#id(split, this.#file(split).at(index));
  }

  /** Ids of a split, without reading values; null where a line cannot be read. @throws DataError for the file itself */
  *ids(split: Split): Generator<string | null> {
    for (const line of this.#file(split).read()) {
      try {
        yield this.#id(split, line);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        yield null;
      }
    }
  }
}
