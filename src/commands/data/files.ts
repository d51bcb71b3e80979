/** Where the files of a task come from: a folder that the user names, or the cache that downloads fill. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Benchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { cacheRoot } from '../../cache-root.ts';
import { withInterrupt } from '../../interrupt.ts';
import { fetchTask } from './fetch.ts';

/** The folder of a task's downloads. */
export function cachedFolder(spec: Benchmark): string {
  return join(cacheRoot(), 'datasets', spec.name);
}

/**
 * The folder to read a task from: `from`, else the cache, which is filled where it is empty; null where no files are needed.
 *
 * @throws as `fetchTask`; Interrupted
 */
export async function taskFolder(
  spec: Benchmark,
  from: string | undefined,
  silent: boolean,
): Promise<string | null> {
  if (from !== undefined) return from;
  if (spec.needs !== 'download') return null;
  const folder = cachedFolder(spec);
  if (!existsSync(folder)) {
    const note = 'stopping: what has come is kept; press Ctrl-C again to quit at once';
    await withInterrupt((signal) => fetchTask(spec, folder, { signal, silent }), note);
  }
  return folder;
}
