/**
 * Records of an evaluation in progress: a line is appended for every response as it comes, and at the end the file is rewritten in the
 * order of the examples. A process may be killed at any instant: its records are read again, except for a torn last line.
 */
import { closeSync, existsSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { DataError } from '../src/ground/errors.ts';
import { makeDirectory, notWritten, writeFileAtomic } from '../src/ground/files.ts';
import { checked, readJsonValues } from '../src/ground/json-files.ts';
import type { EvalRecord } from '../src/ground/types.ts';
import { evalRecordShape } from './records.ts';

/** Milliseconds between two syncs to the disk. */
const SYNC_MS = 2_000;

const ADVICE = 'start the evaluation over with --force';

interface Kept {
  /** Line in the file, without its line feed. */
  readonly line: string;
  readonly record: EvalRecord;
}

export class RecordLog {
  /** Null: records are kept in memory alone. */
  readonly file: string | null;
  /** Responses of an example. */
  readonly samples: number;
  /** Records by number · samples + sample. */
  readonly #kept = new Map<number, Kept>();
  /** Further files, whose records this one holds when it is finished. */
  readonly #added: string[] = [];
  #handle: number | null = null;
  #synced = 0;

  /**
   * @param numberOf place of an example by its id
   * @throws DataError where lines that are there are damaged, or answer something else
   */
  constructor(file: string | null, samples: number, numberOf: (id: string) => number | undefined) {
    this.file = file;
    this.samples = samples;
    if (file !== null && existsSync(file)) this.#read(file, numberOf);
  }

  /** Adds the records of another file, which is removed when this one has them. @throws DataError as for its own */
  add(file: string, numberOf: (id: string) => number | undefined): void {
    this.#read(file, numberOf);
    this.#added.push(file);
  }

  #read(file: string, numberOf: (id: string) => number | undefined): void {
    for (const { value, text, line } of readJsonValues(file, { advice: ADVICE, onTornEnd() {} })) {
      const record = checked(value, evalRecordShape, file, ADVICE, line);
      const number = numberOf(record.seriesId);
      const { sample = 0 } = record;
      if (number === undefined || sample >= this.samples) {
        const problem = `answers sample ${sample} of ${record.seriesId}, which was not asked for`;
        throw new DataError(`${problem}; ${ADVICE}`, { file, line });
      }
      // A response that failed and was requested again has several lines; the last one counts.
      this.#kept.set(number * this.samples + sample, { line: text, record });
    }
  }

  /** Returns true where a response is there, which need not be requested again. */
  has(number: number, sample: number): boolean {
    const kept = this.#kept.get(number * this.samples + sample);
    return kept !== undefined && kept.record.failure === undefined;
  }

  /** Returns the records that are there, in the order of the examples, with the place of each. */
  kept(): { readonly number: number; readonly record: EvalRecord }[] {
    return this.#sorted().map(([place, { record }]) => ({
      number: Math.floor(place / this.samples),
      record,
    }));
  }

  /** Replaces what has not failed; the file follows when it is finished. @returns how many records that changed */
  revise(revised: (record: EvalRecord, number: number) => EvalRecord): number {
    let changed = 0;
    for (const [place, { line, record }] of this.#kept) {
      if (record.failure !== undefined) continue;
      const now = revised(record, Math.floor(place / this.samples));
      const text = JSON.stringify(now);
      if (isDeepStrictEqual(JSON.parse(text), JSON.parse(line))) continue;
      this.#kept.set(place, { line: text, record: now });
      changed++;
    }
    return changed;
  }

  /** Appends a record. @throws WriteError */
  append(number: number, record: EvalRecord): void {
    const line = JSON.stringify(record);
    if (this.file !== null) this.#write(this.file, line);
    this.#kept.set(number * this.samples + (record.sample ?? 0), { line, record });
  }

  #write(file: string, line: string): void {
    try {
      if (this.#handle === null) {
        makeDirectory(dirname(file));
        // Drops a torn line at the end, which the next one would continue.
        if (existsSync(file)) this.#rewrite(file);
        this.#handle = openSync(file, 'a');
        this.#synced = performance.now();
      }
      const bytes = Buffer.from(`${line}\n`);
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#handle, bytes, at, bytes.length - at);
      if (performance.now() - this.#synced < SYNC_MS) return;
      fsyncSync(this.#handle);
      this.#synced = performance.now();
    } catch (error) {
      throw typeof (error as NodeJS.ErrnoException).code === 'string' ? notWritten(file, error) : error;
    }
  }

  #sorted(): [place: number, kept: Kept][] {
    return [...this.#kept].sort(([a], [b]) => a - b);
  }

  #rewrite(file: string): void {
    writeFileAtomic(
      file,
      this.#sorted().map(([, { line }]) => `${line}\n`),
    );
  }

  /** Waits until all that was appended is on the disk, and lets go of the file. */
  close(): void {
    if (this.#handle === null) return;
    try {
      fsyncSync(this.#handle);
    } finally {
      closeSync(this.#handle);
      this.#handle = null;
    }
  }

  /** Rewrites the file in the order of the examples and samples; returns its records in that order. */
  finish(): EvalRecord[] {
    this.close();
    if (this.file !== null && this.#kept.size > 0) this.#rewrite(this.file);
    for (const file of this.#added.splice(0)) rmSync(file, { force: true });
    return this.#sorted().map(([, { record }]) => record);
  }
}
