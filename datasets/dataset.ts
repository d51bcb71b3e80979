/**
 * A data set on disk: a directory with `manifest.json` and `series.jsonl`, one series a line:
 *
 *     {"id":"nano5/test/0","task":"nano5","class":"trend","intervals":[[140,220]],"values":[0.1,-0.25,…]}
 *
 * Values are written with the fewest digits that give the same float64 back, so reading returns exactly what was
 * written, except that −0 becomes 0. Both directions stream: memory holds one line.
 */
import { createHash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DataError } from '../src/errors.ts';
import { writeDirectoryAtomicAsync, writeFileAtomic } from '../src/files.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type LabeledSeries } from '../src/types.ts';
import { FORMAT, MANIFEST_FILE, type Manifest, readManifest, SERIES_FILE, VERSION } from './manifest.ts';
import { checkSeries, parseSeries } from './validate.ts';

const CHUNK = 1 << 20;
const NEWLINE = 10;

/** What the writer cannot see in the series themselves. */
export type Origin = Pick<Manifest, 'name' | 'generator' | 'parameters' | 'split' | 'seed' | 'offset'>;

export interface WriteOptions {
  /** Called now and then with the number of series written so far, and at the end. */
  readonly onProgress?: (written: number) => void;
  /** Stops the writing; nothing is left behind, and the returned promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** One line of `series.jsonl`, without the newline. */
export function seriesLine(series: LabeledSeries): string {
  const { id, task, class: label, intervals } = series;
  const head = JSON.stringify({ id, task, class: label, intervals }).slice(0, -1);
  return `${head},"values":[${series.values.join(',')}]}`;
}

function writeAll(handle: number, text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  for (let offset = 0; offset < bytes.length; ) offset += writeSync(handle, bytes, offset);
  return bytes;
}

const breath = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Writes a data set directory, whole or not at all; one that exists is replaced once the new one is complete.
 * Lets the event loop run after about every megabyte, so that signals and progress bars work.
 *
 * @returns the manifest as written
 * @throws DataError for a series that `checkSeries` refuses, or when there is none; WriteError when the disk refuses
 */
export async function writeDataset(
  directory: string,
  origin: Origin,
  series: Iterable<LabeledSeries>,
  options: WriteOptions = {},
): Promise<Manifest> {
  const hash = createHash('sha256');
  const histogram = new Map<AnomalyClass, number>();
  let count = 0;
  let bytes = 0;
  let length: number | null = null;
  const holder: { manifest?: Manifest } = {};

  await writeDirectoryAtomicAsync(directory, async (temporary) => {
    const handle = openSync(join(temporary, SERIES_FILE), 'wx');
    try {
      let pending: string[] = [];
      let size = 0;
      const flush = (): void => {
        const written = writeAll(handle, pending.join(''));
        hash.update(written);
        bytes += written.length;
        pending = [];
        size = 0;
        options.onProgress?.(count);
      };
      for (const one of series) {
        checkSeries(one, { file: join(directory, SERIES_FILE), line: count + 1 });
        length = count === 0 || length === one.values.length ? one.values.length : null;
        histogram.set(one.class, (histogram.get(one.class) ?? 0) + 1);
        count++;
        const line = `${seriesLine(one)}\n`;
        pending.push(line);
        size += line.length;
        if (size >= CHUNK) {
          flush();
          await breath();
          options.signal?.throwIfAborted();
        }
      }
      options.signal?.throwIfAborted();
      if (count === 0)
        throw new DataError('no series to write; a data set needs at least one', { file: directory });
      flush();
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    holder.manifest = {
      format: FORMAT,
      version: VERSION,
      ...origin,
      count,
      length,
      classes: Object.fromEntries(
        ANOMALY_CLASSES.filter((c) => histogram.has(c)).map((c) => [c, histogram.get(c)!]),
      ),
      data: { file: SERIES_FILE, bytes, sha256: hash.digest('hex') },
    };
    writeFileAtomic(join(temporary, MANIFEST_FILE), `${JSON.stringify(holder.manifest, null, 2)}\n`);
  });
  return holder.manifest as Manifest;
}

/** A data set directory, opened for reading. */
export class Dataset {
  readonly directory: string;
  readonly manifest: Manifest;
  readonly #file: string;
  /** Byte offset of each line, and the end [count + 1]; made by the first random access. */
  #lines: Float64Array | undefined;

  /** @throws DataError when the manifest is wrong or the data file's size is not the manifest's */
  constructor(directory: string) {
    this.directory = directory;
    this.manifest = readManifest(directory);
    this.#file = join(directory, SERIES_FILE);
    this.#withFile(() => undefined);
  }

  /** Number of series. */
  get count(): number {
    return this.manifest.count;
  }

  /** All series in order; a full pass also compares the data file's SHA-256 with the manifest's. */
  [Symbol.iterator](): Generator<LabeledSeries> {
    return this.read();
  }

  /**
   * `count` series from number `offset` on (0-based).
   *
   * @throws DataError with file and line for a line that `parseSeries` refuses, a length that is not the manifest's, a
   * truncated file, more or fewer lines than the manifest's count, and, after a full pass, another SHA-256
   */
  *read(offset = 0, count: number = this.count - offset): Generator<LabeledSeries> {
    const whole = offset === 0 && count === this.count;
    const hash = createHash('sha256');
    let number = 0;
    for (const line of this.#readLines(whole ? hash : undefined)) {
      number++;
      if (number <= offset) continue;
      if (number > offset + count) {
        if (whole) continue; // only counted
        return;
      }
      yield this.#parse(line, number);
    }
    if (whole && number !== this.count) {
      throw new DataError(`${number} series, the manifest says ${this.count}`, { file: this.#file });
    }
    if (whole && hash.digest('hex') !== this.manifest.data.sha256) {
      throw new DataError(
        'SHA-256 is not the one in the manifest: the file was changed after it was written; generate it again',
        { file: this.#file },
      );
    }
  }

  /**
   * Series number `index` (0-based). The first call scans the file once for line ends.
   *
   * @throws RangeError outside [0, count); DataError as `read`
   */
  at(index: number): LabeledSeries {
    if (!Number.isInteger(index) || index < 0 || index >= this.count) {
      throw new RangeError(`series ${index} of a data set of ${this.count}`);
    }
    this.#lines ??= this.#findLines();
    const start = this.#lines[index]!;
    const bytes = Buffer.alloc(this.#lines[index + 1]! - start - 1);
    this.#withFile((handle) => {
      for (let read = 0; read < bytes.length; ) {
        const got = readSync(handle, bytes, read, bytes.length - read, start + read);
        if (got === 0)
          throw new DataError('ends before this line does', { file: this.#file, line: index + 1 });
        read += got;
      }
    });
    return this.#parse(bytes, index + 1);
  }

  #parse(line: Buffer, number: number): LabeledSeries {
    const at = { file: this.#file, line: number };
    const series = parseSeries(line.toString('utf8'), at);
    const { length } = this.manifest;
    if (length !== null && series.values.length !== length) {
      throw new DataError(`values: ${series.values.length} points, the manifest says ${length}`, at);
    }
    return series;
  }

  #findLines(): Float64Array {
    const ends = new Float64Array(this.count + 1);
    let position = 0;
    let number = 0;
    for (const line of this.#readLines(undefined)) {
      position += line.length + 1;
      number++;
      if (number <= this.count) ends[number] = position;
    }
    if (number !== this.count) {
      throw new DataError(`${number} series, the manifest says ${this.count}`, { file: this.#file });
    }
    return ends;
  }

  /** Lines without their newline, valid until the next one is asked for. */
  *#readLines(hash: ReturnType<typeof createHash> | undefined): Generator<Buffer> {
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
          file: this.#file,
          line: line + 1,
        });
      }
    } finally {
      closeSync(handle);
    }
  }

  #withFile(use: (handle: number) => void): void {
    const handle = this.#open();
    try {
      use(handle);
    } finally {
      closeSync(handle);
    }
  }

  /** Opens the data file and compares its size with the manifest's. */
  #open(): number {
    let handle: number;
    try {
      handle = openSync(this.#file, 'r');
    } catch (cause) {
      throw new DataError(`cannot be read (${(cause as Error).message})`, { file: this.#file, cause });
    }
    const { bytes } = this.manifest.data;
    const { size } = fstatSync(handle);
    if (size === bytes) return handle;
    closeSync(handle);
    throw new DataError(
      `${size < bytes ? 'truncated' : 'too long'}: ${size} bytes, the manifest says ${bytes}; generate or copy it again`,
      { file: this.#file },
    );
  }
}
