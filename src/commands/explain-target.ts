/** Where `timeseer explain` writes its page and its JSON. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, parse } from 'node:path';
import { ConfigError } from '../errors.ts';
import { WriteError } from '../files.ts';

/** Named after the file, and the column where one is asked for: columns of one file do not replace each other. */
export function defaultTarget(file: string, column: string | undefined): string {
  const safe = column?.replace(/[^\p{L}\p{N}_-]+/gu, '_').slice(0, 40);
  return `${parse(file).name}${safe === undefined ? '' : `.${safe}`}.explain`;
}

/** Whether a file is one that this command wrote. */
function isOurs(path: string): boolean {
  try {
    const text = readFileSync(path, 'utf8');
    if (path.endsWith('.html')) return text.includes('Written by timeseer.');
    const content: unknown = JSON.parse(text);
    return typeof content === 'object' && content !== null && 'classical' in content && 'windows' in content;
  } catch {
    return false;
  }
}

/** Bytes of a name: file systems allow 255, of which temporary names beside the result need some 50. */
const LONGEST_NAME = 200;

/** The nearest directory above a path that is there already, or the file that stands in its place. */
function standing(path: string): string {
  const parent = dirname(path);
  return existsSync(parent) || parent === path ? parent : standing(parent);
}

/**
 * Refuses a place where nothing can be written, and to replace what this command did not write, before any work is done.
 * @throws WriteError; ConfigError
 */
export function checkTarget(out: string): void {
  if (Buffer.byteLength(basename(out)) > LONGEST_NAME) {
    throw new WriteError(
      `--out: the name ${basename(out).slice(0, 40)}\u2026 is longer than ${LONGEST_NAME} bytes; choose a shorter one with --out`,
    );
  }
  const above = standing(out);
  if (existsSync(above) && !statSync(above).isDirectory()) {
    throw new WriteError(
      `--out ${out}: ${above} is a file, not a directory; choose another place with --out`,
    );
  }
  for (const path of [`${out}.html`, `${out}.json`]) {
    if (!existsSync(path)) continue;
    if (!statSync(path).isFile())
      throw new ConfigError(`--out ${out}: ${path} is a directory; choose another`);
    if (!isOurs(path)) {
      throw new ConfigError(
        `--out ${out}: ${path} is there and was not written by this command, so it is kept; choose another --out`,
      );
    }
  }
}
