/** Downloads of a task: into the cache, whole or not at all. */
import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Address, TaskSpec } from '../../datasets/tasks/task.ts';
import { unpack } from '../../datasets/unpack.ts';
import { download } from '../download.ts';
import { writeDirectoryAtomicAsync } from '../files.ts';
import { Progress } from '../progress.ts';

export interface FetchOptions {
  readonly signal: AbortSignal;
  readonly silent: boolean;
}

/** A file's name from its address. */
function nameOf({ url }: Address): string {
  const name = decodeURIComponent(basename(new URL(url).pathname));
  return name.replaceAll(/[^\w.+-]+/g, '_') || 'download';
}

/** Megabytes, or kilobytes of what is small, over a total that the server may not tell. */
class Meter {
  readonly #label: string;
  readonly #silent: boolean;
  #bar: Progress | undefined;

  constructor(label: string, silent: boolean) {
    this.#label = label;
    this.#silent = silent;
  }

  show(bytes: number, total: number | null): void {
    if (total === null) return;
    const [unit, size] = total >= 1e7 ? (['MB', 1e6] as const) : (['kB', 1e3] as const);
    this.#bar ??= new Progress({
      label: this.#label,
      total: Math.ceil(total / size),
      done: Math.floor(bytes / size),
      unit,
      silent: this.#silent,
    });
    this.#bar.update(Math.ceil(bytes / size));
  }

  stop(): void {
    this.#bar?.stop();
  }
}

/**
 * Downloads all addresses of a task, unpacks archives, and puts the files into `folder` once all are there. What came
 * before an interruption is kept, and the next call goes on.
 *
 * @throws as `download` and `unpack`
 */
export async function fetchTask(spec: TaskSpec, folder: string, options: FetchOptions): Promise<void> {
  const { signal, silent } = options;
  const waiting = `${folder}.downloads`;
  const came: Record<string, unknown>[] = [];
  for (const address of spec.source.addresses) {
    const name = nameOf(address);
    const meter = new Meter(name, silent);
    try {
      const found = await download(address.url, join(waiting, name), {
        signal,
        sha256: address.sha256,
        onProgress: (bytes, total) => meter.show(bytes, total),
      });
      came.push({ url: address.url, ...found });
    } finally {
      meter.stop();
    }
  }
  await writeDirectoryAtomicAsync(folder, async (temporary) => {
    for (const address of spec.source.addresses) {
      const file = join(waiting, nameOf(address));
      if (address.unpack) await unpack(file, temporary, { signal });
      else copyFileSync(file, join(temporary, nameOf(address)));
    }
    writeFileSync(join(temporary, '.source.json'), `${JSON.stringify(came, null, 2)}\n`);
  });
  rmSync(waiting, { recursive: true, force: true });
}
