/** Answers of servers on disk, by the content of the request: a file each, which is missing or whole. */
import { createHash } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeDirectory, notWritten, OWNER } from '../ground/files.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The name of a request: a hash of its parts, hexadecimal. */
export const requestKey = (parts: readonly unknown[]): string => sha256(JSON.stringify(parts));

/** `ab/abcd….json`: a directory does not hold all of 100 000 answers. */
const fileOf = (directory: string, key: string): string => join(directory, key.slice(0, 2), `${key}.json`);

/** Returns the value cached under `key`; undefined where there is none, or the file is damaged. */
export async function readCached(directory: string, key: string): Promise<unknown> {
  try {
    const text = await readFile(fileOf(directory, key), 'utf8');
    const end = text.indexOf('\n');
    const body = text.slice(end + 1);
    return text.slice(0, end) === sha256(`${key}${body}`) ? JSON.parse(body) : undefined;
  } catch {
    return undefined; // unreadable is as good as missing: the server is asked again
  }
}

let written = 0;

/**
 * Keeps `value`. It is not synced to the disk: a file that a power failure cut short has another hash, and counts as missing.
 * @throws WriteError
 */
export async function writeCached(directory: string, key: string, value: unknown): Promise<void> {
  const path = fileOf(directory, key);
  const temporary = `${path}.${OWNER}.${written++}.tmp`;
  const body = JSON.stringify(value);
  try {
    makeDirectory(dirname(path));
    await writeFile(temporary, `${sha256(`${key}${body}`)}\n${body}`);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined); // the failure itself is what is reported
    throw notWritten(path, error);
  }
}
