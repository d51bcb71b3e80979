/** Text and JSON files of a checkpoint, and typed look-up in them. */
import { existsSync } from 'node:fs';
import { CheckpointError, DataError, reasonOf } from '../ground/errors.ts';
import { readBytes } from '../ground/files.ts';
import { isObject } from '../ground/json-record.ts';

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
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new CheckpointError(`${file}: not JSON; the file is truncated or damaged, copy it again`, {
      cause,
    });
  }
}

export type Json = Readonly<Record<string, unknown>>;

/** A parsed file as an object. @throws CheckpointError when it is something else. */
export function asObject(value: unknown, file: string): Json {
  if (isObject(value)) return value;
  throw new CheckpointError(`${file}: must hold a JSON object; the file may be damaged, copy it again`);
}

/** Parses a JSON file of a checkpoint that holds an object. @throws CheckpointError as `readJson` and `asObject` do. */
export function readObject(file: string): Json {
  return asObject(readJson(file), file);
}

/**
 * Reads keys from the first of several objects that has them; null counts as absent, and absent keys take the
 * caller's value. Errors are CheckpointErrors that name file and key.
 */
export class Keys {
  readonly #file: string;
  readonly #sources: readonly Json[];
  readonly #path: string;

  /** @param path of the objects in the file, as a prefix of their keys. */
  constructor(file: string, sources: readonly Json[], path = '') {
    this.#file = file;
    this.#sources = sources;
    this.#path = path;
  }

  get(key: string): unknown {
    for (const source of this.#sources) {
      if (source[key] !== undefined && source[key] !== null) return source[key];
    }
    return undefined;
  }

  /** True if the key exists, even with the value null. */
  has(key: string): boolean {
    return this.#sources.some((source) => source[key] !== undefined);
  }

  fail(key: string, expected: string): never {
    const got = this.get(key);
    throw new CheckpointError(
      `${this.#file}: '${this.#path}${key}' must be ${expected}, ${got === undefined ? 'it is missing' : `got ${JSON.stringify(got)}`}; ` +
        'use the file of a Qwen2.5-VL checkpoint',
    );
  }

  demand(ok: boolean, key: string, expected: string): void {
    if (!ok) this.fail(key, expected);
  }

  read<T>(key: string, expected: string, ok: (value: unknown) => value is T, fallback: T): T {
    const value = this.get(key) ?? fallback;
    return ok(value) ? value : this.fail(key, expected);
  }

  number(key: string, fallback: number, expected = 'a positive number', ok = (x: number) => x > 0): number {
    const is = (value: unknown): value is number =>
      typeof value === 'number' && Number.isFinite(value) && ok(value);
    return this.read(key, expected, is, fallback);
  }

  integer(key: string, fallback: number): number {
    return this.number(key, fallback, 'a positive integer', (x) => Number.isSafeInteger(x) && x > 0);
  }

  /** A whole number of at least 0. */
  count(key: string, fallback: number): number {
    return this.number(key, fallback, 'a whole number of at least 0', isCount);
  }

  flag(key: string, fallback: boolean): boolean {
    return this.read(key, 'true or false', (value) => typeof value === 'boolean', fallback);
  }

  list(key: string, fallback: readonly number[], expected: string, ok: (item: number) => boolean): number[] {
    const is = (value: unknown): value is number[] =>
      Array.isArray(value) && value.every((item) => Number.isFinite(item) && ok(item));
    return this.read<readonly number[]>(key, expected, is, fallback).slice();
  }
}

export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
