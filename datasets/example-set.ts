/** A prepared data set on disk: a manifest, and one file of examples per split. Both directions stream. */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DataError } from '../src/ground/errors.ts';
import { fileInside, openFile, writeDirectoryAtomicAsync, writeJson } from '../src/ground/files.ts';
import { getOrMake } from '../src/ground/maps.ts';
import type { Example } from '../src/ground/types.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
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
import { SPLITS, type Split } from './split.ts';

const CHUNK = 1 << 20;
const NEWLINE = 10;

interface LineFileFacts {
  readonly count: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** Writes a file line by line and collects its manifest entry. */
export class LineWriter {
  readonly #handle: number;
  readonly #hash = createHash('sha256');
  #pending: string[] = [];
  #size = 0;
  #bytes = 0;
  #count = 0;
  #closed = false;

  constructor(path: string) {
    this.#handle = openSync(path, 'wx');
  }

  get count(): number {
    return this.#count;
  }

  /** Adds a line, given without its newline. @returns true where about a megabyte was written to disk */
  add(line: string): boolean {
    this.#pending.push(line, '\n');
    this.#size += line.length;
    this.#count++;
    if (this.#size < CHUNK) return false;
    this.#flush();
    return true;
  }

  #flush(): void {
    const bytes = Buffer.from(this.#pending.join(''), 'utf8');
    for (let offset = 0; offset < bytes.length; )
      offset += writeSync(this.#handle, bytes, offset, bytes.length - offset);
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    this.#pending = [];
    this.#size = 0;
  }

  /** Writes the rest and syncs it to disk. */
  finish(): LineFileFacts {
    this.#flush();
    fsyncSync(this.#handle);
    this.close();
    return { count: this.#count, bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  /** Closes the file without finishing it. */
  close(): void {
    if (!this.#closed) closeSync(this.#handle);
    this.#closed = true;
  }
}

/** A line and its number, counted from 1. */
export interface Line {
  readonly text: string;
  readonly number: number;
}

/** A file of lines, checked against its manifest entry. */
export class LineFile {
  readonly path: string;
  readonly facts: LineFileFacts;
  /** Plural noun for the lines, for messages. */
  readonly #unit: string;
  #ends: Float64Array | undefined;

  /** @throws DataError when the file cannot be read or has another size than the manifest says */
  constructor(path: string, facts: LineFileFacts, unit: string) {
    this.path = path;
    this.facts = facts;
    this.#unit = unit;
    closeSync(this.#open());
    if (facts.count > facts.bytes) {
      throw new DataError(
        `${facts.count} ${unit} in ${facts.bytes} bytes, according to the manifest; generate it again`,
        { file: path },
      );
    }
  }

  /**
   * `count` lines from number `offset` on (0-based). A full pass also compares the SHA-256.
   * @throws DataError for a truncated file, more or fewer lines than the manifest's count, and another SHA-256
   */
  *read(offset = 0, count: number = this.facts.count - offset): Generator<Line> {
    const whole = offset === 0 && count === this.facts.count;
    const hash = createHash('sha256');
    let number = 0;
    for (const line of this.#lines(whole ? hash : undefined)) {
      number++;
      if (number <= offset) continue;
      if (number > offset + count) {
        if (whole) continue; // only counted
        return;
      }
      yield { text: line.toString('utf8'), number };
    }
    if (!whole) return;
    this.#checkCount(number);
    if (hash.digest('hex') !== this.facts.sha256) {
      throw new DataError(
        'SHA-256 is not the one in the manifest: the file was changed after it was written; generate it again',
        { file: this.path },
      );
    }
  }

  /**
   * Line number `index` (0-based). The first call scans the file once for line ends.
   * @throws RangeError outside [0, count); DataError as `read`
   */
  at(index: number): Line {
    if (!Number.isInteger(index) || index < 0 || index >= this.facts.count) {
      throw new RangeError(`${this.#unit} ${index} of a data set of ${this.facts.count}`);
    }
    this.#ends ??= this.#findEnds();
    const start = this.#ends[index]!;
    const bytes = Buffer.alloc(this.#ends[index + 1]! - start - 1);
    const handle = this.#open();
    try {
      for (let read = 0; read < bytes.length; ) {
        const got = readSync(handle, bytes, read, bytes.length - read, start + read);
        if (got === 0)
          throw new DataError('ends before this line does', { file: this.path, line: index + 1 });
        read += got;
      }
    } finally {
      closeSync(handle);
    }
    return { text: bytes.toString('utf8'), number: index + 1 };
  }

  #checkCount(number: number): void {
    if (number === this.facts.count) return;
    throw new DataError(`${number} ${this.#unit}, the manifest says ${this.facts.count}`, {
      file: this.path,
    });
  }

  #findEnds(): Float64Array {
    const { count } = this.facts;
    const ends = new Float64Array(count + 1);
    let position = 0;
    let number = 0;
    for (const line of this.#lines(undefined)) {
      position += line.length + 1;
      number++;
      if (number <= count) ends[number] = position;
    }
    this.#checkCount(number);
    return ends;
  }

  /** Lines without their newline; each is valid until the next one is requested. */
  *#lines(hash: Hash | undefined): Generator<Buffer> {
    const handle = this.#open();
    try {
      let rest: Buffer[] = [];
      let line = 0;
      for (;;) {
        const chunk = Buffer.allocUnsafe(CHUNK);
        const got = readSync(handle, chunk, 0, CHUNK, null);
        if (got === 0) break;
        const bytes = chunk.subarray(0, got);
        hash?.update(bytes);
        let start = 0;
        for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
          const last = bytes.subarray(start, end);
          start = end + 1;
          line++;
          yield rest.length === 0 ? last : Buffer.concat([...rest, last]);
          rest = [];
        }
        if (start < got) rest.push(bytes.subarray(start));
      }
      if (rest.length > 0) {
        throw new DataError('the last line has no end: the file was cut; generate or copy it again', {
          file: this.path,
          line: line + 1,
        });
      }
    } finally {
      closeSync(handle);
    }
  }

  /** Opens the file and compares its size with the manifest's. */
  #open(): number {
    const { handle, size } = openFile(fileInside(dirname(this.path), basename(this.path)));
    const { bytes } = this.facts;
    if (size === bytes) return handle;
    closeSync(handle);
    throw new DataError(
      `${size < bytes ? 'truncated' : 'too long'}: ${size} bytes, the manifest says ${bytes}; generate or copy it again`,
      { file: this.path },
    );
  }
}

/** Facts that the examples themselves do not hold. */
export type ExampleOrigin = Omit<ExampleManifest, 'format' | 'version' | 'splits' | 'materials'>;

export interface WriteExamplesOptions {
  /** Reports the number of examples written, now and then and at the end. */
  readonly onProgress?: (written: number) => void;
  /** Aborts the writing; nothing is left behind, and the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * Adds to the whole directory, at a temporary place, before it appears under its name; what it resolves with becomes the
   * manifest.
   */
  readonly complete?: (temporary: string, manifest: ExampleManifest) => Promise<ExampleManifest>;
}

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

/** @throws DataError for a recording in two splits */
function checkApart(parts: ReadonlyMap<Split, Part>, file: string): void {
  const home = new Map<string, Split>();
  for (const [split, { recordings }] of parts) {
    for (const recording of recordings) {
      const earlier = home.get(recording);
      if (earlier !== undefined) {
        throw new DataError(
          `recording '${recording}' is in ${earlier} and ${split}, which must not share recordings`,
          { file },
        );
      }
      home.set(recording, split);
    }
  }
}

/**
 * Writes a data set directory, whole or not at all; one that exists is replaced once the new one is complete. Lets
 * the event loop run after about every megabyte, so that signals and progress bars work.
 * @returns the manifest as written
 * @throws DataError for an example that does not fit the set, and for no examples; WriteError when the disk refuses
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
        const part = getOrMake(parts, split, () => new Part(temporary, split));
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
    const file = join(temporary, EXAMPLES_MANIFEST);
    writeJson(file, holder.manifest);
    if (options.complete === undefined) return;
    holder.manifest = await options.complete(temporary, holder.manifest);
    options.signal?.throwIfAborted();
    writeJson(file, holder.manifest);
  });
  return holder.manifest!;
}

/** ID at the beginning of a line, as `exampleLine` writes it. */
const LEADING_ID = /^\{"id":("(?:[^"\\]|\\.)*"),/;

/** A line's value, or its problem. */
export interface CheckedLine<T> {
  readonly line: number;
  readonly value: T | null;
  readonly problem: DataError | null;
}

/** Parses all lines of a file, wrong ones included. @throws DataError for the file itself */
export function* checkLines<T>(file: LineFile, parse: (line: Line) => T): Generator<CheckedLine<T>> {
  for (const line of file.read()) {
    let value: T | null = null;
    let problem: DataError | null = null;
    try {
      value = parse(line);
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      problem = error;
    }
    yield { line: line.number, value, problem };
  }
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

  get splits(): Split[] {
    return splitsOf(this.manifest);
  }

  /** Number of examples of a split; 0 for an absent one. */
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
   * @throws DataError for a split that is not there, with file and line for a line that `parseExample` refuses or that the
   * manifest does not describe, and as `LineFile.read`
   */
  *read(split: Split, offset = 0, count: number = this.count(split) - offset): Generator<Example> {
    for (const line of this.#file(split).read(offset, count)) yield this.#parse(split, line);
  }

  /** All lines of a split, each with its example or its problem. @throws DataError for the file itself */
  *check(split: Split): Generator<CheckedLine<Example>> {
    yield* checkLines(this.#file(split), (line) => this.#parse(split, line));
  }

  /** Example number `index` of a split (0-based). @throws RangeError outside; DataError as `read` */
  at(split: Split, index: number): Example {
    return this.#parse(split, this.#file(split).at(index));
  }

  #id(split: Split, line: Line): string {
    const [, id] = LEADING_ID.exec(line.text) ?? [];
    return id === undefined ? this.#parse(split, line).id : (JSON.parse(id) as string);
  }

  /** ID of example number `index` of a split, without parsing its values. @throws as `at` */
  idAt(split: Split, index: number): string {
    return this.#id(split, this.#file(split).at(index));
  }

  /** IDs of a split, without parsing values; null where a line cannot be read. @throws DataError for the file itself */
  *ids(split: Split): Generator<string | null> {
    for (const { value } of checkLines(this.#file(split), (line) => this.#id(split, line))) yield value;
  }
}
