/** What a pull remembers beside its files: which content has been verified, and what each part is a part of. */
import { type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { readUtf8 } from '../files.ts';

export const PULL_RECORD = '.timeseer-pull.json';

/** A file as it was when its hash was checked. */
export interface Verified {
  readonly hash: string;
  readonly size: number;
  /** Last change, ms. */
  readonly mtime: number;
}

export interface PullRecord {
  repo: string;
  commit: string;
  /** By path. */
  files: Record<string, Verified>;
  /** Content that the part of each path is of. */
  parts: Record<string, string>;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The record of an earlier pull; whatever of it cannot be read is forgotten, and the files are hashed again. */
export function readRecord(out: string): PullRecord | undefined {
  try {
    const raw: unknown = JSON.parse(readUtf8(join(out, PULL_RECORD)));
    if (!isRecord(raw) || typeof raw['repo'] !== 'string' || typeof raw['commit'] !== 'string')
      return undefined;
    const files: Record<string, Verified> = {};
    for (const [path, one] of Object.entries(isRecord(raw['files']) ? raw['files'] : {})) {
      if (!isRecord(one)) continue;
      const { hash, size, mtime } = one;
      if (typeof hash === 'string' && typeof size === 'number' && typeof mtime === 'number') {
        files[path] = { hash, size, mtime };
      }
    }
    const parts = Object.entries(isRecord(raw['parts']) ? raw['parts'] : {}).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string',
    );
    return { repo: raw['repo'], commit: raw['commit'], files, parts: Object.fromEntries(parts) };
  } catch {
    return undefined;
  }
}

/** What is at `path`; undefined where nothing is, or where a file stands in for one of its directories. */
export function fileAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** Whether a file is as it was when it was verified. */
export const untouched = (stats: Stats | undefined, known: Verified | undefined): boolean =>
  stats !== undefined && known !== undefined && stats.size === known.size && stats.mtimeMs === known.mtime;
