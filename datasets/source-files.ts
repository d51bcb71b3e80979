/** What the files were that a data set was made from. */
import { createHash } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { basename, dirname, relative } from 'node:path';
import { DataError, reasonOf } from '../src/errors.ts';
import { openRegular } from '../src/files.ts';
import type { ExampleOrigin } from './example-set.ts';

/** Files that a manifest names one by one; more are summed up. */
const NAMED_FILES = 200;

async function digestOf(
  file: string,
  signal: AbortSignal | undefined,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  const options = { highWaterMark: 1 << 20, ...(signal === undefined ? {} : { signal }) };
  let bytes = 0;
  try {
    const { handle: fd } = openRegular(file);
    for await (const chunk of createReadStream(file, { ...options, fd })) {
      hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
  } catch (cause) {
    signal?.throwIfAborted();
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file, cause });
  }
  return { bytes, sha256: hash.digest('hex') };
}

type SourceFile = ExampleOrigin['source']['files'][number];

/**
 * Each file with its SHA-256, or, of very many, that of the list of theirs.
 *
 * @param directory folder or file that paths are relative to
 */
export async function sourceFiles(
  files: readonly string[],
  directory: string,
  signal: AbortSignal | undefined,
): Promise<SourceFile[]> {
  const root = statSync(directory).isDirectory() ? directory : dirname(directory);
  const list: SourceFile[] = [];
  for (const file of files) {
    const path = relative(root, file).replaceAll('\\', '/') || basename(file);
    list.push({ path, ...(await digestOf(file, signal)) });
  }
  if (list.length <= NAMED_FILES) return list;
  const lines = list.map(({ path, sha256 }) => `${sha256}  ${path}\n`).sort();
  return [
    {
      path: `${list.length} files; SHA-256 of the sorted lines of sha256sum`,
      bytes: list.reduce((sum, { bytes }) => sum + bytes, 0),
      sha256: createHash('sha256').update(lines.join('')).digest('hex'),
    },
  ];
}
