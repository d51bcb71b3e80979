/**
 * A data set on disk: a directory with `manifest.json` and `series.jsonl`, one series a line:
 *
 *     {"id":"nano5/test/0","task":"nano5","class":"trend","intervals":[[140,220]],"values":[0.1,-0.25,…]}
 *
 * Values are written with the fewest digits that give the same float64 back, so reading returns exactly what was
 * written, except that −0 becomes 0. Both directions stream: memory holds one line.
 */
import { join } from 'node:path';
import { DataError } from '../src/errors.ts';
import { writeDirectoryAtomicAsync, writeFileAtomic } from '../src/files.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type LabeledSeries } from '../src/types.ts';
import { type Line, LineFile, type LineFileFacts, LineWriter } from './line-file.ts';
import { FORMAT, MANIFEST_FILE, type Manifest, readManifest, SERIES_FILE, VERSION } from './manifest.ts';
import { checkSeries, parseSeries } from './validate.ts';

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
  const histogram = new Map<AnomalyClass, number>();
  let length: number | null = null;
  const holder: { manifest?: Manifest } = {};

  await writeDirectoryAtomicAsync(directory, async (temporary) => {
    const writer = new LineWriter(join(temporary, SERIES_FILE));
    let facts: LineFileFacts;
    try {
      for (const one of series) {
        checkSeries(one, { file: join(directory, SERIES_FILE), line: writer.count + 1 });
        length = writer.count === 0 || length === one.values.length ? one.values.length : null;
        histogram.set(one.class, (histogram.get(one.class) ?? 0) + 1);
        if (!writer.add(seriesLine(one))) continue;
        options.onProgress?.(writer.count);
        await breath();
        options.signal?.throwIfAborted();
      }
      options.signal?.throwIfAborted();
      if (writer.count === 0)
        throw new DataError('no series to write; a data set needs at least one', { file: directory });
      facts = writer.finish();
      options.onProgress?.(facts.count);
    } finally {
      writer.close();
    }
    holder.manifest = {
      format: FORMAT,
      version: VERSION,
      ...origin,
      count: facts.count,
      length,
      classes: Object.fromEntries(
        ANOMALY_CLASSES.filter((c) => histogram.has(c)).map((c) => [c, histogram.get(c)!]),
      ),
      data: { file: SERIES_FILE, bytes: facts.bytes, sha256: facts.sha256 },
    };
    writeFileAtomic(join(temporary, MANIFEST_FILE), `${JSON.stringify(holder.manifest, null, 2)}\n`);
  });
  return holder.manifest as Manifest;
}

/** A data set directory, opened for reading. */
export class Dataset {
  readonly directory: string;
  readonly manifest: Manifest;
  readonly #file: LineFile;

  /** @throws DataError when the manifest is wrong or the data file's size is not the manifest's */
  constructor(directory: string) {
    this.directory = directory;
    this.manifest = readManifest(directory);
    const { count, data } = this.manifest;
    this.#file = new LineFile(join(directory, SERIES_FILE), { count, ...data }, 'series');
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
    for (const line of this.#file.read(offset, count)) yield this.#parse(line);
  }

  /**
   * Series number `index` (0-based). The first call scans the file once for line ends.
   *
   * @throws RangeError outside [0, count); DataError as `read`
   */
  at(index: number): LabeledSeries {
    return this.#parse(this.#file.at(index));
  }

  #parse({ text, number }: Line): LabeledSeries {
    const at = { file: this.#file.path, line: number };
    const series = parseSeries(text, at);
    const { length } = this.manifest;
    if (length !== null && series.values.length !== length) {
      throw new DataError(`values: ${series.values.length} points, the manifest says ${length}`, at);
    }
    return series;
  }
}
