/**
 * Pulls a checkpoint from a hub into a directory: several files at a time, each verified, with a record of
 * verified files, so that a second pull fetches only changes.
 */
import { existsSync, rmSync, type Stats, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { digest, download, partOf } from '../ground/download.ts';
import { CheckpointError, ConfigError, EndpointError } from '../ground/errors.ts';
import { readUtf8, WriteError, writeFileAtomic } from '../ground/files.ts';
import { fits } from '../ground/paths.ts';
import { firstNames } from '../ground/terminal.ts';
import { readJson } from '../policy/json-file.ts';
import { parseDims } from '../policy/model-config.ts';
import { INDEX, readIndex, WEIGHTS } from '../policy/safetensors.ts';
import type { Hub, RemoteFile, RepoListing } from './hub.ts';

/** Files fetched at once. */
const PARALLEL = 4;

export interface PullOptions extends Choice {
  readonly hub: Hub;
  /** `owner/name`. */
  readonly repo: string;
  /** Branch, tag or commit. */
  readonly revision: string;
  /** Directory to fill. */
  readonly out: string;
  /** Replace files that are there with other content and were not pulled. */
  readonly force?: boolean;
  readonly signal: AbortSignal;
  /** Told of each file that is there unverified, before its hash is computed. */
  readonly onCheck?: (file: RemoteFile) => void;
  /** Bytes and files that are there, of all that belong to the pull; first when that is known, then as they grow. */
  readonly onProgress?: (state: PullProgress) => void;
}

export interface PullProgress {
  readonly bytes: number;
  readonly totalBytes: number;
  readonly files: number;
  readonly totalFiles: number;
}

export interface Pulled {
  readonly repo: string;
  readonly commit: string;
  readonly directory: string;
  /** Every file that belongs to the pull, in the order of the repository. */
  readonly files: readonly string[];
  /** Total bytes of all files. */
  readonly bytes: number;
  /** Those that this pull had to fetch. */
  readonly fetched: readonly string[];
  /** Files of an earlier pull that the repository no longer has. */
  readonly removed: readonly string[];
  /** Reason why the selected files do not make a loadable policy, or null. */
  readonly incomplete: string | null;
}

/** A pull under way: the directory, its record, and how far it is. */
class Pull {
  readonly #options: PullOptions;
  readonly #listing: RepoListing;
  readonly #files: readonly RemoteFile[];
  readonly #before: PullRecord | undefined;
  readonly #record: PullRecord;
  readonly #total: number;
  #bytes = 0;
  #done = 0;

  constructor(options: PullOptions, listing: RepoListing, files: readonly RemoteFile[]) {
    this.#options = options;
    this.#listing = listing;
    this.#files = files;
    this.#before = readRecord(options.out);
    const { files: known = {}, parts = {} } = this.#before ?? {};
    this.#record = {
      repo: listing.repo,
      commit: listing.commit,
      files: { ...known },
      parts: { ...parts },
    };
    this.#total = files.reduce((sum, { size }) => sum + size, 0);
  }

  #at(file: RemoteFile | string): string {
    return join(this.#options.out, typeof file === 'string' ? file : file.path);
  }

  #save(): void {
    writeFileAtomic(this.#at(PULL_RECORD), `${JSON.stringify(this.#record, null, 1)}\n`);
  }

  #tell(bytes = 0): void {
    this.#bytes += bytes;
    this.#options.onProgress?.({
      bytes: this.#bytes,
      totalBytes: this.#total,
      files: this.#done,
      totalFiles: this.#files.length,
    });
  }

  #verified(file: RemoteFile): void {
    const { size, mtimeMs } = statSync(this.#at(file));
    this.#record.files[file.path] = { hash: file.hash, size, mtime: mtimeMs };
    delete this.#record.parts[file.path];
    this.#save();
    this.#done++;
  }

  async #check(file: RemoteFile): Promise<boolean> {
    this.#options.onCheck?.(file);
    return (await digest(this.#at(file), file, this.#options.signal)).hash === file.hash;
  }

  /** Files to fetch: those that are missing or have other content. */
  async missing(): Promise<RemoteFile[]> {
    const missing: RemoteFile[] = [];
    for (const file of this.#files) {
      const stats = fileAt(this.#at(file));
      const known = this.#record.files[file.path];
      const ours = untouched(stats, known);
      const right =
        stats?.isFile() === true &&
        stats.size === file.size &&
        (ours ? known?.hash === file.hash : await this.#check(file));
      if (right) {
        if (ours) this.#done++;
        else this.#verified(file);
        this.#bytes += file.size;
      } else if (stats !== undefined && !ours && (!stats.isFile() || this.#options.force !== true)) {
        const fix = stats.isFile()
          ? 'choose another --out, or add --force to replace it'
          : 'choose another --out';
        throw new ConfigError(
          `${this.#at(file)}: exists with other content than in ${this.#listing.repo}; ${fix}`,
        );
      } else {
        missing.push(file);
      }
    }
    return missing;
  }

  /** Drops the parts of other content, and checks that the rest fits on the disk. */
  async prepare(missing: readonly RemoteFile[]): Promise<void> {
    let needed = 0;
    for (const file of missing) {
      const part = fileAt(partOf(this.#at(file)));
      const same =
        this.#before?.parts[file.path] === file.hash && part !== undefined && part.size <= file.size;
      if (!same && part !== undefined) rmSync(partOf(this.#at(file)));
      const kept = same ? part.size : 0;
      this.#record.parts[file.path] = file.hash;
      this.#bytes += kept;
      needed += file.size - kept;
    }
    let place = resolve(this.#options.out);
    while (!existsSync(place)) place = dirname(place);
    const { bavail, bsize } = statfsSync(place);
    if (needed > bavail * bsize) {
      const [need, free] = [needed, bavail * bsize].map((bytes) => `${(bytes / 1e9).toFixed(1)} GB`);
      throw new WriteError(
        `${this.#options.out}: ${need} remain to be downloaded and only ${free} are free; free some space, or ` +
          'choose another disk with --out',
      );
    }
    if (missing.length > 0) this.#save();
    this.#tell();
  }

  /** Fetches several at once; the first failure stops the others, whose parts stay. */
  async fetch(files: readonly RemoteFile[]): Promise<void> {
    const { hub, signal } = this.#options;
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const waiting = [...files];
    const work = async (): Promise<void> => {
      for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
        let there = fileAt(partOf(this.#at(file)))?.size ?? 0;
        await download(hub.source(this.#listing, file), file, this.#at(file), {
          ...hub.retries,
          signal: either,
          onProgress: (bytes) => {
            this.#tell(bytes - there);
            there = bytes;
          },
        });
        this.#verified(file);
        this.#tell();
      }
    };
    let failure: { readonly error: unknown } | undefined;
    await Promise.all(
      Array.from({ length: Math.min(PARALLEL, files.length) }, () =>
        work().catch((error: unknown) => {
          failure ??= { error };
          waiting.length = 0;
          stop.abort(new Error('another file failed'));
        }),
      ),
    );
    signal.throwIfAborted();
    if (failure !== undefined) throw failure.error;
  }

  /** Removes what an earlier pull brought and the repository no longer has, unless it was changed since. */
  clear(): string[] {
    const there = new Set(this.#listing.files.map(({ path }) => path));
    const gone: string[] = [];
    for (const [path, known] of Object.entries(this.#record.files)) {
      if (there.has(path)) continue;
      checkPath(path, this.#at(PULL_RECORD));
      if (untouched(fileAt(this.#at(path)), known)) {
        rmSync(this.#at(path));
        gone.push(path);
      }
      delete this.#record.files[path];
    }
    if (gone.length > 0 || this.#before?.commit !== this.#record.commit) this.#save();
    return gone;
  }
}

/**
 * Fetches the files of `repo` that a policy needs into `out`, config and index first, so that another
 * architecture is refused before its weights are fetched. Resumes an interrupted pull.
 * @throws ConfigError when nothing is chosen or other files are in the way; EndpointError as Hub and
 * `download`; CheckpointError when the repository is not a complete Qwen2.5-VL; WriteError; the signal's
 * reason
 */
export async function pull(options: PullOptions): Promise<Pulled> {
  const { hub, repo, revision, out, signal } = options;
  const listing = await hub.list(repo, revision, signal);
  const files = choose(listing, hub.endpoint, options);
  const paths = new Set(files.map(({ path }) => path));
  const chosen = (options.include ?? []).length > 0 || (options.exclude ?? []).length > 0;

  const work = new Pull(options, listing, files);
  const missing = await work.missing();
  await work.prepare(missing);
  const first = missing.filter(({ path }) => path === CONFIG_FILE || path === INDEX);
  await work.fetch(first);
  const complain = (lack: string | null): void => {
    if (lack !== null && !chosen) {
      throw new CheckpointError(
        `${repo} at ${revision} is not a complete policy: ${lack}; choose another repository`,
      );
    }
  };
  complain(lacking(out, (name) => paths.has(name) || existsSync(join(out, name))));
  await work.fetch(missing.filter((file) => !first.includes(file)));
  const removed = work.clear();
  const incomplete = lacking(out, (name) => existsSync(join(out, name)));
  complain(incomplete);
  return {
    repo,
    commit: listing.commit,
    directory: out,
    files: files.map(({ path }) => path),
    bytes: files.reduce((sum, { size }) => sum + size, 0),
    fetched: missing.map(({ path }) => path),
    removed,
    incomplete,
  };
}

/** Patterns in which `*` stands for any text, `/` included, and `?` for one character. */
interface Choice {
  /** Patterns of files to fetch. Default: the files that a policy needs. */
  readonly include?: readonly string[];
  /** Patterns of files to leave out. */
  readonly exclude?: readonly string[];
}

/** Root files of a policy: configs, tokenizer, templates, weights with their index, licence, description. */
export function neededByPolicy(path: string): boolean {
  if (path.includes('/') || path.endsWith('.bin.index.json')) return false;
  return /^[^.].*\.(json|safetensors|jinja|txt|model)$|^(LICEN[CS]E|NOTICE|README)/i.test(path);
}

/**
 * Refuses names that could lead out of the directory, or to files of the pull itself. @throws EndpointError
 */
export function checkPath(path: string, by: string): void {
  const parts = path.split('/');
  const bad =
    parts.some((part) => part === '' || part === '.' || part === '..') ||
    /[\\:\p{Cc}]/u.test(path) ||
    path === PULL_RECORD ||
    path.endsWith('.part');
  if (bad) {
    throw new EndpointError(
      `${by} lists a file called ${JSON.stringify(path)}, which could be written outside of the directory; nothing was ` +
        'fetched: do not trust this repository, or leave the file out with --exclude',
    );
  }
}

/**
 * Selects the files of `listing` to fetch, in order. `by`: hub, for messages. @throws ConfigError for no
 * file; EndpointError as `checkPath`
 */
function choose(listing: RepoListing, by: string, { include = [], exclude = [] }: Choice): RemoteFile[] {
  const files = listing.files.filter(
    ({ path }) =>
      (include.length > 0 ? include.some((pattern) => fits(path, pattern)) : neededByPolicy(path)) &&
      !exclude.some((pattern) => fits(path, pattern)),
  );
  for (const { path } of files) checkPath(path, `${by}: ${listing.repo}`);
  if (files.length === 0) {
    const some = listing.files.slice(0, 8).map(({ path }) => path);
    throw new ConfigError(
      `${listing.repo}: none of its ${listing.files.length} files is chosen by --include and --exclude` +
        `${some.length === 0 ? '' : `; it has ${some.join(', ')}${listing.files.length > 8 ? ' …' : ''}`}`,
    );
  }
  return files;
}

/** State of a pull, kept beside its files: verified content, and the file that each part belongs to. */
const PULL_RECORD = '.timeseer-pull.json';

/** File as it was when its hash was checked; `mtime`: last change, ms. */
const verifiedSchema = z.object({ hash: z.string(), size: z.number(), mtime: z.number() });
type Verified = z.infer<typeof verifiedSchema>;

const recordSchema = z.object({
  repo: z.string(),
  commit: z.string(),
  /** Verified files by path. */
  files: z.record(z.string(), verifiedSchema),
  /** Hash of the content that the partial file of each path belongs to. */
  parts: z.record(z.string(), z.string()),
});
type PullRecord = z.infer<typeof recordSchema>;

/** Reads the record of an earlier pull; undefined where it is absent or damaged: all files are then hashed again. */
function readRecord(out: string): PullRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(readUtf8(join(out, PULL_RECORD))));
  } catch {
    return undefined;
  }
}

/** Returns the stat of `path`; undefined where nothing is there, or a parent is a file. */
function fileAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** Returns true if a file has not changed since it was verified. */
const untouched = (stats: Stats | undefined, known: Verified | undefined): boolean =>
  stats !== undefined && known !== undefined && stats.size === known.size && stats.mtimeMs === known.mtime;

const CONFIG_FILE = 'config.json';

/**
 * Explains why `directory` cannot be loaded as a policy; null if it can. `has`: true if a file is there, or
 * will be.
 * @throws CheckpointError when config.json is of another architecture
 */
function lacking(directory: string, has: (name: string) => boolean): string | null {
  if (!existsSync(join(directory, CONFIG_FILE))) return `no ${CONFIG_FILE}`;
  parseDims(readJson(join(directory, CONFIG_FILE)), join(directory, CONFIG_FILE));
  const index = join(directory, INDEX);
  const shards = existsSync(index) ? [...new Set(readIndex(index).values())] : [WEIGHTS];
  const absent = shards.filter((name) => !has(name));
  if (absent.length > 0) {
    return `no ${firstNames(absent, 3)}`;
  }
  return has('tokenizer.json') ? null : 'no tokenizer.json';
}
