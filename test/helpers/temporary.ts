/** Directories of tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** Makes a directory that is removed after the tests of the file, or of the group, that calls it. */
export function temporary(name: string): string {
  const directory = mkdtempSync(join(tmpdir(), `timeseer-${name}-`));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
