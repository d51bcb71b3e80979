/** Text and JSON files of a checkpoint. */
import { existsSync } from 'node:fs';
import { CheckpointError, DataError, reasonOf } from '../errors.ts';
import { readBytes } from '../files.ts';

/** A text file of a checkpoint. @throws CheckpointError when it cannot be read, or is no text: it could not be carried over unchanged */
export function readText(file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readBytes(file));
  } catch (cause) {
    const why = cause instanceof DataError ? reasonOf(cause) : 'cannot be read as UTF-8 text; copy it again';
    throw new CheckpointError(`${file}: ${why}`, { cause });
  }
}

/** Parses a JSON file of a checkpoint. @throws CheckpointError when it is missing or not JSON. */
export function readJson(file: string): unknown {
  if (!existsSync(file)) throw new CheckpointError(`${file}: no such file; a checkpoint directory holds it`);
  const text = readText(file);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CheckpointError(`${file}: not JSON; the file is truncated or damaged, copy it again`, {
      cause,
    });
  }
}

/** Typed look-up in the objects of a checkpoint's config.json; every complaint names file and key. */
export type Json = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Reads keys of config.json from the first of several objects that has them; every complaint names the key. */
export class Keys {
  readonly #file: string;
  readonly #path: string;
  readonly #sources: readonly Json[];

  constructor(file: string, path: string, sources: readonly Json[]) {
    this.#file = file;
    this.#path = path;
    this.#sources = sources;
  }

  get(key: string): unknown {
    for (const source of this.#sources) {
      if (source[key] !== undefined && source[key] !== null) return source[key];
    }
    return undefined;
  }

  /** Whether the key is there, be it null. */
  has(key: string): boolean {
    return this.#sources.some((source) => source[key] !== undefined);
  }

  fail(key: string, expected: string): never {
    const got = this.get(key);
    const shown = got === undefined ? 'it is missing' : `got ${JSON.stringify(got)}`;
    throw new CheckpointError(
      `${this.#file}: '${this.#path}${key}' must be ${expected}, ${shown}; use the config.json of a Qwen2.5-VL checkpoint`,
    );
  }

  number(key: string, fallback: number): number {
    const value = this.get(key) ?? fallback;
    if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0)
      this.fail(key, 'a positive number');
    return value;
  }

  integer(key: string, fallback: number): number {
    const value = this.number(key, fallback);
    if (!Number.isInteger(value)) this.fail(key, 'a positive integer');
    return value;
  }

  /** A whole number of at least 0. */
  count(key: string, fallback: number): number {
    const value = this.get(key) ?? fallback;
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
      this.fail(key, 'a whole number of at least 0');
    return value;
  }

  /** A token id inside the vocabulary; of a list, the first. */
  id(key: string, vocabulary: number, fallback: number): number {
    const found = this.get(key) ?? fallback;
    const value: unknown = Array.isArray(found) ? found[0] : found;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value >= vocabulary) {
      this.fail(key, `a token id below vocab_size = ${vocabulary}`);
    }
    return value;
  }

  integers(key: string, fallback: readonly number[], length?: number): number[] {
    const value = this.get(key) ?? fallback;
    const ok =
      Array.isArray(value) &&
      (length === undefined || value.length === length) &&
      value.every((item) => Number.isInteger(item) && Number(item) >= 0);
    if (!ok) this.fail(key, `a list of ${length ?? ''} non-negative integers`.replace('  ', ' '));
    return (value as number[]).slice();
  }

  demand(ok: boolean, key: string, expected: string): void {
    if (!ok) this.fail(key, expected);
  }
}
