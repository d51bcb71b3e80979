/** Downloads of a task: into the cache, whole or not at all. */
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { downloadUrl, type Retries, type UrlDownload } from '../src/ground/download.ts';
import { ConfigError, EndpointError } from '../src/ground/errors.ts';
import { jsonText, writeDirectoryAtomicAsync, writeJson } from '../src/ground/files.ts';
import { withInterrupt } from '../src/ground/interrupt.ts';
import { readJson } from '../src/ground/json-files.ts';
import { cacheRoot } from '../src/ground/paths.ts';
import { Progress } from '../src/ground/progress.ts';
import { say } from '../src/ground/terminal.ts';
import type { Address, Benchmark } from './benchmarks/benchmark.ts';
import { unpack } from './readers/zip.ts';

interface FetchOptions {
  readonly signal: AbortSignal;
  readonly silent: boolean;
  /** Number of attempts, and pause between them in ms. */
  readonly retries?: Pick<Retries, 'attempts' | 'pause'>;
}

/** Maximum bytes of a file; the largest published archive has a few gigabytes. */
const MOST = 50e9;
/** Maximum bytes of a list of SHA-256. */
const MOST_LIST = 16e6;

/**
 * Download address of a file: `$TIMESEER_MIRROR/HOST/PATH` where a mirror is set, else its own address.
 * @throws ConfigError for a mirror that is no address
 */
function mirrored(url: string): string {
  const text = process.env['TIMESEER_MIRROR'] ?? '';
  if (text === '') return url;
  const mirror = URL.canParse(text) ? new URL(text) : undefined;
  if (mirror === undefined || !/^https?:$/.test(mirror.protocol) || mirror.search !== '' || mirror.username) {
    throw new ConfigError(
      'TIMESEER_MIRROR: expected an address without user and query, such as https://mirror.example/data',
    );
  }
  const { host, pathname } = new URL(url);
  const base = mirror.href.replace(/\/$/, '');
  return `${base}/${host}${pathname}`;
}

function nameOf({ url }: Address): string {
  const name = decodeURIComponent(basename(new URL(url).pathname));
  return name.replaceAll(/[^\w.+-]+/g, '_') || 'download';
}

const record = z.record(z.string(), z.string().regex(/^[0-9a-f]{64}$/));

/** SHA-256 of earlier downloads by address. @throws DataError for a file that holds something else */
function readRecord(file: string): Record<string, string> {
  if (!existsSync(file)) return {};
  return readJson(file, record, 'remove this record of downloads, and run the same command again');
}

/** Parses lines of sha256sum into hashes by path; other lines are ignored. */
export function parseSums(text: string): Map<string, string> {
  const sums = new Map<string, string>();
  for (const row of text.split(/\r?\n/)) {
    const match = /^([0-9a-f]{64}) +\*?(?:\.\/)?(.+)$/i.exec(row);
    if (match !== null) sums.set(match[2]!, match[1]!.toLowerCase());
  }
  return sums;
}

/** Source of the hash that a download was compared with. */
type Witness = 'known' | 'published' | 'recorded' | 'nothing';

class Fetch {
  readonly #waiting: string;
  readonly #recordFile: string;
  readonly #record: Record<string, string>;
  readonly #options: FetchOptions;
  readonly #lists = new Map<string, Map<string, string> | null>();

  constructor(folder: string, options: FetchOptions) {
    this.#waiting = `${folder}.downloads`;
    this.#recordFile = `${folder}.sha256.json`;
    this.#record = readRecord(this.#recordFile);
    this.#options = options;
  }

  #say(text: string): void {
    if (!this.#options.silent) say(text);
  }

  async #bring(url: string, target: string, sha256: string | null, maximum = MOST): Promise<UrlDownload> {
    const { signal, silent, retries } = this.#options;
    let bar: Progress | undefined;
    // In MB, or in kB for small files; none where the server states no size.
    const show = (bytes: number, total: number | null): void => {
      if (total === null) return;
      const [unit, size] = total >= 1e7 ? (['MB', 1e6] as const) : (['kB', 1e3] as const);
      const [done, all] = [Math.floor(bytes / size), Math.ceil(total / size)];
      bar ??= new Progress({ label: basename(target), total: all, done, unit, silent });
      bar.update(Math.ceil(bytes / size));
    };
    try {
      return await downloadUrl(mirrored(url), target, {
        signal,
        sha256,
        maximum,
        ...retries,
        onRetry: (message) => this.#say(message),
        onProgress: show,
      });
    } finally {
      bar?.stop();
    }
  }

  /** Returns the hash that the owners list; null where the list cannot be downloaded, which is reported. */
  async #published({ url, sums }: Address): Promise<string | null> {
    if (sums === undefined) return null;
    let list = this.#lists.get(sums);
    if (list === undefined) {
      const file = join(this.#waiting, '.sums');
      try {
        rmSync(file, { force: true });
        await this.#bring(sums, file, null, MOST_LIST);
        list = parseSums(readFileSync(file, 'utf8'));
      } catch (error) {
        if (!(error instanceof EndpointError)) throw error;
        this.#say(`not compared with the list of its owners: ${error.problem}`);
        list = null;
      }
      rmSync(file, { force: true });
      this.#lists.set(sums, list);
    }
    const path = decodeURIComponent(url.slice(sums.lastIndexOf('/') + 1));
    const listed = list?.get(path) ?? null;
    if (list !== null && listed === null) this.#say(`${sums} does not list ${path}`);
    return listed;
  }

  /**
   * A file with the SHA-256 that is known, else the one that its owners list, else that of the first download.
   * @throws as `download`; EndpointError naming both where they differ
   */
  async file(address: Address, name: string): Promise<UrlDownload & { readonly comparedWith: Witness }> {
    const { url, sha256 } = address;
    const target = join(this.#waiting, name);
    const download = await this.#bring(url, target, sha256);
    if (sha256 !== null) return { ...download, comparedWith: 'known' };
    const published = await this.#published(address);
    const recorded = this.#record[url] ?? null;
    const expected = published ?? recorded;
    if (expected === null) {
      this.#say(
        `${name}: SHA-256 ${download.sha256}; its owners publish none, so it is recorded in ${this.#recordFile} and compared with later downloads`,
      );
      return { ...download, comparedWith: 'nothing' };
    }
    if (expected === download.sha256)
      return { ...download, comparedWith: published === null ? 'recorded' : 'published' };
    rmSync(target, { force: true });
    const came = `${url}: the download has the SHA-256 ${download.sha256} and was deleted`;
    throw new EndpointError(
      published === null
        ? `${came}; at an earlier download it was ${expected}: if its owners have changed it, remove ${this.#recordFile} and run the same command again`
        : `${came}; its owners list ${expected} in ${address.sums}: run the same command again`,
    );
  }

  /** Records hashes that no owner publishes, once all files are in place. */
  remember(came: readonly (UrlDownload & { readonly url: string; readonly comparedWith: Witness })[]): void {
    const first = came.filter(({ comparedWith }) => comparedWith === 'nothing');
    if (first.length === 0) return;
    const all = { ...this.#record, ...Object.fromEntries(first.map(({ url, sha256 }) => [url, sha256])) };
    writeJson(this.#recordFile, all);
  }
}

/**
 * Downloads all addresses of a task, unpacks archives, and puts the files into `folder` once all are there. What came
 * before an interruption is kept, and the next call goes on. Each file is compared with the SHA-256 that is known, that its
 * owners publish beside it, or that an earlier download had; the first download of a file without any is reported and recorded.
 * @throws as `download` and `unpack`; EndpointError naming both where a SHA-256 differs
 */
export async function fetchTask(spec: Benchmark, folder: string, options: FetchOptions): Promise<void> {
  const waiting = `${folder}.downloads`;
  const fetching = new Fetch(folder, options);
  const came: (UrlDownload & { url: string; comparedWith: Witness })[] = [];
  for (const address of spec.source.addresses) {
    came.push({ url: address.url, ...(await fetching.file(address, nameOf(address))) });
  }
  await writeDirectoryAtomicAsync(folder, async (temporary) => {
    for (const address of spec.source.addresses) {
      const file = join(waiting, nameOf(address));
      if (address.unpack) await unpack(file, temporary, { signal: options.signal });
      else copyFileSync(file, join(temporary, nameOf(address)));
    }
    writeFileSync(join(temporary, '.source.json'), jsonText(came));
  });
  fetching.remember(came);
  rmSync(waiting, { recursive: true, force: true });
}

export function cachedFolder(spec: Benchmark): string {
  return join(cacheRoot(), 'datasets', spec.name);
}

/**
 * The folder to read a task from: `from`, else the cache, which is filled where it is empty; null where no files are needed.
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
