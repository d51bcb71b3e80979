/** Files for the tests of the readers: a directory that goes away, and what reading a text gives. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { RawRecord } from '../../datasets/readers/record.ts';

export interface ReaderFiles {
  /** Writes a file and returns its path. */
  readonly write: (name: string, content: string | Uint8Array) => string;
}

/** A directory of the running test file; removed after its tests. */
export function readerFiles(): ReaderFiles {
  const directory = mkdtempSync(join(tmpdir(), 'timeseer-readers-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return {
    write: (name, content) => {
      const path = join(directory, name);
      writeFileSync(path, content);
      return path;
    },
  };
}

/** Channels as plain lists, and the label: what most tests compare. */
export function plain(records: Iterable<RawRecord>): { label: string | null; channels: number[][] }[] {
  return [...records].map(({ label, channels }) => ({ label, channels: channels.map((c) => [...c]) }));
}

/** What reading throws. */
export function failure(read: () => Iterable<RawRecord>): Error {
  try {
    for (const record of read()) void record;
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error, nothing was thrown');
}
