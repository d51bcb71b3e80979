/**
 * A checkpoint from a hub as a directory: which files, several at a time, each verified, and a record beside them of
 * what has been verified, so that a second pull fetches only what changed.
 */
import { existsSync, rmSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { CheckpointError, ConfigError } from '../errors.ts';
import { WriteError, writeFileAtomic } from '../files.ts';
import { CONFIG_FILE, INDEX_FILE, lacking } from './completeness.ts';
import { discardPart, download, matches, partOf } from './download.ts';
import type { Hub, RemoteFile, RepoListing } from './hub.ts';
import { fileAt, PULL_RECORD, type PullRecord, readRecord, untouched } from './record.ts';
import { type Choice, checkPath, choose } from './repo-files.ts';

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
  /** Of all of them together. */
  readonly bytes: number;
  /** Those that this pull had to fetch. */
  readonly fetched: readonly string[];
  /** Files of an earlier pull that the repository no longer has. */
  readonly removed: readonly string[];
  /** What keeps the directory from being a policy, where the choice of files does; else null. */
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
    return matches(this.#at(file), file, this.#options.signal);
  }

  /** What has to be fetched: all but the files that are there with the right content. */
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
          `${this.#at(file)}: is there with other content than ${this.#listing.repo} has; ${fix}`,
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
      if (!same && part !== undefined) await discardPart(this.#at(file));
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
        `${this.#options.out}: ${need} are still to be fetched and only ${free} are free there; free some space, or ` +
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
        await download(hub, this.#listing, file, this.#at(file), {
          signal: either,
          onBytes: (bytes) => this.#tell(bytes),
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
 * Fetches the files of `repo` that a policy needs into `out`. Config and index come first, so that a repository of
 * another architecture is refused before its weights are fetched. What an interrupted pull left is used.
 * @throws ConfigError when nothing is chosen or other files are in the way; EndpointError as Hub and `download`;
 * CheckpointError when the repository is not a complete Qwen2.5-VL; WriteError; the signal's reason
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
  const first = missing.filter(({ path }) => path === CONFIG_FILE || path === INDEX_FILE);
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
