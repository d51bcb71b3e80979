/**
 * One file from a hub to the disk: by byte ranges into `NAME.part`, going on where an earlier attempt or process
 * stopped, and under its own name only once its hash is right and its bytes are on the disk.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { EndpointError, TimeseerError } from '../errors.ts';
import { explain, syncDirectory } from '../files.ts';
import { Passing } from './failure.ts';
import type { Hub, RemoteFile, RepoListing } from './hub.ts';

export interface DownloadOptions {
  readonly signal: AbortSignal;
  /** Bytes gained; negative when some are thrown away. Those of a part that was there already do not count. */
  readonly onBytes: (bytes: number) => void;
}

/** Where the bytes of a file lie until they are all there. */
export const partOf = (target: string): string => `${target}.part`;

function hashFor(file: RemoteFile): Hash {
  if (file.hash.startsWith('sha256:')) return createHash('sha256');
  return createHash('sha1').update(`blob ${file.size}\0`); // the object that git names
}

const named = (file: RemoteFile, hash: Hash): string =>
  `${file.hash.slice(0, file.hash.indexOf(':'))}:${hash.digest('hex')}`;

async function feed(hash: Hash, path: string, signal: AbortSignal): Promise<void> {
  for await (const chunk of createReadStream(path, { signal, highWaterMark: 1 << 20 })) {
    hash.update(chunk as Buffer);
  }
}

/** Whether the file at `path`, which has the right size, holds the content of `file`. */
export async function matches(path: string, file: RemoteFile, signal: AbortSignal): Promise<boolean> {
  const hash = hashFor(file);
  await feed(hash, path, signal);
  return named(file, hash) === file.hash;
}

async function writing<T>(path: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw explain(path, error);
  }
}

/** A part that grows, and the hash of what it holds. */
class Part {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #file: RemoteFile;
  #hash: Hash;
  #length: number;

  private constructor(handle: FileHandle, path: string, file: RemoteFile, hash: Hash, length: number) {
    this.#handle = handle;
    this.#path = path;
    this.#file = file;
    this.#hash = hash;
    this.#length = length;
  }

  static async open(path: string, file: RemoteFile, signal: AbortSignal): Promise<Part> {
    const handle = await writing(path, async () => {
      await mkdir(dirname(path), { recursive: true });
      return open(path, 'a');
    });
    try {
      const { size } = await handle.stat();
      const hash = hashFor(file);
      const kept = size <= file.size ? size : 0;
      if (kept < size) await handle.truncate(0);
      else if (kept > 0) await feed(hash, path, signal);
      return new Part(handle, path, file, hash, kept);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  get length(): number {
    return this.#length;
  }

  async append(bytes: Uint8Array): Promise<void> {
    await writing(this.#path, async () => {
      for (let done = 0; done < bytes.byteLength; ) {
        done += (await this.#handle.write(bytes, done, bytes.byteLength - done)).bytesWritten;
      }
    });
    this.#hash.update(bytes);
    this.#length += bytes.byteLength;
  }

  /** Empties it; returns how many bytes went. */
  async drop(): Promise<number> {
    const dropped = this.#length;
    await writing(this.#path, () => this.#handle.truncate(0));
    this.#hash = hashFor(this.#file);
    this.#length = 0;
    return dropped;
  }

  /** The hash of all that it holds; nothing can be appended afterwards but to an emptied part. */
  digest(): string {
    return named(this.#file, this.#hash);
  }

  async sync(): Promise<void> {
    await writing(this.#path, () => this.#handle.sync());
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Where the bytes of an answer begin; undefined when they are of no use. */
function beginning(response: Response, file: RemoteFile): number | undefined {
  if (response.status === 200) return 0;
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
  return range !== null && (range[2] === '*' || Number(range[2]) === file.size)
    ? Number(range[1])
    : undefined;
}

/** One request for what is missing. @throws Passing when the connection broke; EndpointError */
async function fill(
  part: Part,
  hub: Hub,
  listing: RepoListing,
  file: RemoteFile,
  moved: () => void,
  { signal, onBytes }: DownloadOptions,
): Promise<void> {
  const what = `${listing.repo}: ${file.path}`;
  const { response, alive, close } = await hub.open(listing, file.path, part.length, signal);
  let cancel = async (): Promise<void> => response.body?.cancel();
  try {
    const start = beginning(response, file);
    if (start !== part.length) onBytes(-(await part.drop()));
    if (start !== part.length || response.body === null) {
      throw new Passing(new EndpointError(`${what}: ${hub.endpoint} sent other bytes than were asked for`));
    }
    const reader = response.body.getReader();
    cancel = () => reader.cancel();
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw hub.broken(what, error);
      });
      if (done) break;
      alive();
      if (part.length + value.byteLength > file.size) {
        onBytes(-(await part.drop()));
        throw new EndpointError(
          `${what}: ${hub.endpoint} sends more than the ${file.size} bytes it announced; run the same command again, ` +
            'and if it stays, choose another --endpoint',
        );
      }
      await part.append(value);
      onBytes(value.byteLength);
      moved();
    }
    if (part.length < file.size)
      throw hub.broken(what, new Error(`ended at byte ${part.length} of ${file.size}`));
  } finally {
    close();
    await cancel().catch(() => undefined); // the failure itself is what is reported
  }
}

/**
 * Brings `file` to `target`. The caller sees to it that a part which is there is of the same content.
 * @throws EndpointError when the hub refuses, stays away, or sends other content (the part is emptied then);
 * WriteError when the disk refuses; the signal's reason. The part stays but for wrong content.
 */
export async function download(
  hub: Hub,
  listing: RepoListing,
  file: RemoteFile,
  target: string,
  options: DownloadOptions,
): Promise<void> {
  const { signal, onBytes } = options;
  const path = partOf(target);
  const part = await Part.open(path, file, signal);
  try {
    // A part that outlived a power failure may have holes: wrong content on top of one gets a second chance.
    for (let chances = part.length > 0 ? 2 : 1; ; ) {
      await hub.retry(signal, async (moved) => {
        if (part.length < file.size) await fill(part, hub, listing, file, moved, options);
      });
      if (part.digest() === file.hash) break;
      onBytes(-(await part.drop()));
      if (--chances === 0) {
        throw new EndpointError(
          `${listing.repo}: ${file.path}: what ${hub.endpoint} sent has another hash than it announced, and was ` +
            'thrown away; run the same command again, and if it stays, choose another --endpoint',
        );
      }
    }
    await part.sync();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    await part.close();
  }
  try {
    await rename(path, target);
    syncDirectory(dirname(target));
  } catch (error) {
    throw error instanceof TimeseerError ? error : explain(target, error);
  }
}

/** Forgets what an earlier attempt left. */
export async function discardPart(target: string): Promise<void> {
  await rm(partOf(target), { force: true });
}
