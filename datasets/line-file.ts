/** Files of one record a line, written and read in a stream: memory holds one line. */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DataError } from '../src/errors.ts';
import { fileInside, openFile } from '../src/files.ts';

const CHUNK = 1 << 20;
const NEWLINE = 10;

/** What a manifest says of such a file. */
export interface LineFileFacts {
  readonly count: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** A file that grows line by line, and what a manifest will say of it. */
export class LineWriter {
  readonly #handle: number;
  readonly #hash = createHash('sha256');
  #pending: string[] = [];
  #size = 0;
  #bytes = 0;
  #count = 0;
  #closed = false;

  /** Makes a new file. @throws as `openSync` */
  constructor(path: string) {
    this.#handle = openSync(path, 'wx');
  }

  get count(): number {
    return this.#count;
  }

  /** Adds a line, given without its newline. @returns whether about a megabyte went to the disk now */
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

  /** Writes what is left, and waits for the disk. */
  finish(): LineFileFacts {
    this.#flush();
    fsyncSync(this.#handle);
    this.close();
    return { count: this.#count, bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  /** Lets go of the file without finishing it. */
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

/** A file of lines beside what its manifest says of it. */
export class LineFile {
  readonly path: string;
  readonly facts: LineFileFacts;
  /** What a line holds, for messages. */
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
        `${facts.count} ${unit} in ${facts.bytes} bytes, says the manifest; generate it again`,
        {
          file: path,
        },
      );
    }
  }

  /**
   * `count` lines from number `offset` on (0-based). A full pass also compares the SHA-256.
   *
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
   *
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

  /** Lines without their newline, valid until the next one is asked for. */
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
