/** `manifest.json`: what a data set directory holds, where it came from, and how to tell that it is whole. */
import { join } from 'node:path';
import { z } from 'zod';
import { DataError, reasonOf } from '../src/errors.ts';
import { fileInside, readUtf8 } from '../src/files.ts';
import { ANOMALY_CLASSES } from '../src/types.ts';
import { SPLITS } from './split.ts';

export const FORMAT = 'timeseer-series';
export const VERSION = 1;
export const MANIFEST_FILE = 'manifest.json';
export const SERIES_FILE = 'series.jsonl';

const count = z.number().int().nonnegative();

const schema = z.strictObject({
  format: z.literal(FORMAT),
  version: z.literal(VERSION),
  /** Name of the data set. */
  name: z.string().min(1),
  /** Name in the registry of the generator that made it; null for data that were read from elsewhere. */
  generator: z.string().nullable(),
  /** The generator's numbers, for the record. */
  parameters: z.record(z.string(), z.unknown()),
  split: z.enum(SPLITS).nullable(),
  seed: count.nullable(),
  /** Index of the first series in the generator's split. */
  offset: count,
  /** Number of series. */
  count: count.min(1),
  /** Points of every series; null when they differ. */
  length: count.min(2).nullable(),
  /** Series of each class; classes that do not occur are left out. */
  classes: z.partialRecord(z.enum(ANOMALY_CLASSES), count),
  data: z.strictObject({
    file: z.literal(SERIES_FILE),
    bytes: count,
    sha256: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hexadecimal digits'),
  }),
});

export type Manifest = z.infer<typeof schema>;

/**
 * Reads and checks the manifest of a data set directory.
 *
 * @throws DataError when it is missing, not JSON, of another format or version, or a field is wrong
 */
export function readManifest(directory: string): Manifest {
  const file = join(directory, MANIFEST_FILE);
  let content: unknown;
  try {
    content = JSON.parse(readUtf8(fileInside(directory, MANIFEST_FILE)));
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code !== undefined;
    throw new DataError(
      missing
        ? `cannot be read (${reasonOf(cause)}); a data set directory holds ${MANIFEST_FILE} and ${SERIES_FILE}`
        : `not JSON: ${(cause as Error).message}`,
      { file, cause },
    );
  }
  const header = z.looseObject({ format: z.unknown(), version: z.unknown() }).safeParse(content);
  if (!header.success || header.data.format !== FORMAT) {
    throw new DataError(`format: not a ${FORMAT} manifest`, { file });
  }
  if (header.data.version !== VERSION) {
    throw new DataError(
      `version: got ${JSON.stringify(header.data.version)}, this program reads ${VERSION}; generate the data set again`,
      { file },
    );
  }
  const result = schema.safeParse(content);
  if (!result.success) {
    const issue = result.error.issues[0];
    throw new DataError(`${issue?.path.join('.') || 'manifest'}: ${issue?.message}`, { file });
  }
  const total = Object.values(result.data.classes).reduce((sum, n) => sum + n, 0);
  if (total !== result.data.count) {
    throw new DataError(`classes: add up to ${total}, count says ${result.data.count}`, { file });
  }
  return result.data;
}
