/**
 * Downloads of single files: by byte ranges into `NAME.part`, resumed while the server has the same content,
 * and renamed once the hash is right and the bytes are on the disk.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EndpointError } from './errors.ts';
import { makeDirectory, notWritten, syncPath, WriteError } from './files.ts';

/** A server that asks for a longer pause than this is given up, seconds. */
const LONGEST_PAUSE = 300;
/** Silence after which a connection counts as broken, ms. */
const SILENCE = 60_000;

/** A failure that may pass: `error` is what remains when it does not. */
export class Passing extends Error {
  readonly error: EndpointError;
  /** Seconds that the server asks to wait. */
  readonly wait: number | undefined;
  constructor(error: EndpointError, wait?: number) {
    super(error.message, { cause: error });
    this.error = error;
    this.wait = wait;
  }
}

export interface Retries {
  /** Failures in a row, no progress between them, until a request is given up; ≥ 1. */
  readonly attempts?: number | undefined;
  /** Pause after the first failure; doubles with each one that follows, ms. */
  readonly pause?: number | undefined;
  /** Share by which a pause may be longer, at random, so that requests that failed together do not come back together; default 0. */
  readonly spread?: number | undefined;
  /** Told of each failure that is tried again. */
  readonly onRetry?: ((message: string) => void) | undefined;
}

/**
 * Repeats `attempt` until it succeeds, fails for good, or fails too often without progress (`moved`). @throws
 * EndpointError; the signal's reason
 */
export async function retry<T>(
  signal: AbortSignal,
  { attempts = 6, pause = 1000, spread = 0, onRetry }: Retries,
  attempt: (moved: () => void) => Promise<T>,
): Promise<T> {
  let failures = 0;
  for (;;) {
    try {
      return await attempt(() => {
        failures = 0;
      });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof Passing)) throw error;
      const wait = (error.wait ?? (pause / 1000) * 2 ** failures) * (1 + spread * Math.random());
      if (++failures >= attempts || wait > LONGEST_PAUSE) throw error.error;
      onRetry?.(`${error.error.problem}; again in ${Math.ceil(wait)} s`);
      await sleep(wait * 1000, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** A request whose answer has begun. */
export interface Answer {
  readonly response: Response;
  /** Says that bytes came: the connection is not silent. */
  readonly alive: () => void;
  /** Ends the watch over the connection. */
  readonly close: () => void;
}

/** Sends a request, and aborts it when nothing comes for `silence` ms. @throws what `fetch` throws */
export async function ask(
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
  silence = SILENCE,
): Promise<Answer> {
  const silent = new AbortController();
  const stop = (): void => silent.abort(new Error(`nothing came for ${Math.ceil(silence / 1000)} s`));
  const timer = setTimeout(stop, silence);
  const close = (): void => clearTimeout(timer);
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.any([signal, silent.signal]) });
    return { response, alive: () => void timer.refresh(), close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Codes of connections that never came about, as against those that broke. */
const UNREACHABLE = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EACCES',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
]);

const PROXIES = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'];

/** Innermost cause of a failed fetch: its code, or its message. */
function causeOf(error: unknown): { code: string; message: string } {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  if (at instanceof AggregateError && at.errors[0] instanceof Error) at = at.errors[0];
  const code = at instanceof Error && 'code' in at && typeof at.code === 'string' ? at.code : '';
  return { code, message: at instanceof Error && at.message !== '' ? at.message : code || String(at) };
}

/** Description of a server for error messages. */
export interface Server {
  readonly address: string;
  /** Advice when it does not return what it should. */
  readonly remedy: string;
  /** Advice when a connection broke. Default: run the same command again to resume. */
  readonly again?: string;
}

/** A connection that never came about. Node asks a proxy that the environment names only when told to. */
function unreachable(what: string, remedy: string, error: unknown): EndpointError {
  const proxy = PROXIES.find((name) => process.env[name]);
  const through =
    proxy === undefined || process.env['NODE_USE_ENV_PROXY'] === '1'
      ? ''
      : `, set NODE_USE_ENV_PROXY=1 for Node to use ${proxy} (22.21, 24.5 or later)`;
  return new EndpointError(`${what} cannot be reached (${causeOf(error).message})`, {
    advice: `check the network${through}, or ${remedy}`,
    cause: error,
  });
}

/**
 * Maps a failed connection to an error. A connection that broke may work the next time; one never made does
 * not, unless the server was `reached` before.
 */
export function broken(
  { address, remedy, again = 'run the same command again to resume' }: Server,
  what: string,
  error: unknown,
  reached: boolean,
): Passing | EndpointError {
  const { code, message } = causeOf(error);
  if (/CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code)) {
    return new EndpointError(`${address}: its certificate is not trusted (${message})`, {
      advice: `name your organisation's in NODE_EXTRA_CA_CERTS`,
      cause: error,
    });
  }
  if (reached || !UNREACHABLE.has(code)) {
    return new Passing(
      new EndpointError(`${what}: the connection to ${address} broke (${message})`, {
        advice: again,
        cause: error,
      }),
    );
  }
  return unreachable(address, remedy, error);
}

/** Returns true if the status means that the server is busy. */
export const isBusy = ({ status }: Pick<Response, 'status'>): boolean =>
  status === 408 || status === 429 || status >= 500;

/** Seconds of a Retry-After header: a number or a date. */
export function retryAfter(response: { readonly headers: Pick<Headers, 'get'> }): number | undefined {
  const text = response.headers.get('retry-after');
  if (text === null) return undefined;
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** Facts known about a file before it is downloaded. */
export interface Content {
  /** `sha256:…`, or `git:…` (SHA-1 of the git blob, which depends on the size); null where it is not known. */
  readonly hash: string | null;
  /** Bytes; null where it is not known. */
  readonly size: number | null;
}

function hashFor({ hash, size }: Content): Hash {
  return hash?.startsWith('git:') ? createHash('sha1').update(`blob ${size}\0`) : createHash('sha256');
}

const named = ({ hash }: Content, value: Hash): string =>
  `${hash === null ? 'sha256' : hash.slice(0, hash.indexOf(':'))}:${value.digest('hex')}`;

async function feed(hash: Hash, path: string, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for await (const chunk of createReadStream(path, { signal, highWaterMark: 1 << 20 })) {
    hash.update(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  return bytes;
}

/** Size and hash of the file at `path`, the hash of the kind that `content` has, SHA-256 where it has none. */
export async function digest(path: string, content: Content, signal: AbortSignal): Promise<Downloaded> {
  const hash = hashFor(content);
  return { bytes: await feed(hash, path, signal), hash: named(content, hash) };
}

async function writing<T>(path: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw error instanceof WriteError ? error : notWritten(path, error);
  }
}

/** Path of the partial file until it is complete. */
export const partOf = (target: string): string => `${target}.part`;

/** A part that grows, and the hash of what it holds. */
class Part {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #content: Content;
  #hash: Hash;
  #length = 0;

  private constructor(handle: FileHandle, path: string, content: Content) {
    this.#handle = handle;
    this.#path = path;
    this.#content = content;
    this.#hash = hashFor(content);
  }

  /** Opens the part at `path`; what it holds is kept where it `isKept`. */
  static async open(
    path: string,
    content: Content,
    isKept: (size: number) => boolean,
    signal: AbortSignal,
  ): Promise<Part> {
    const handle = await writing(path, async () => {
      makeDirectory(dirname(path));
      return open(path, 'a');
    });
    try {
      const part = new Part(handle, path, content);
      const { size } = await handle.stat();
      if (size > 0 && !isKept(size)) await part.drop();
      else if (size > 0) part.#length = await feed(part.#hash, path, signal);
      return part;
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

  async drop(): Promise<void> {
    await writing(this.#path, () => this.#handle.truncate(0));
    this.#hash = hashFor(this.#content);
    this.#length = 0;
  }

  /** The hash of all that it holds; nothing can be appended afterwards but to an emptied part. */
  digest(): string {
    return named(this.#content, this.#hash);
  }

  async sync(): Promise<void> {
    await writing(this.#path, () => this.#handle.sync());
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Source of a file. */
export interface Source extends Server {
  /** Name of the file in error messages. */
  readonly name: string;
  /**
   * Requests the bytes from `offset` on; status 200 (all bytes), 206 or 416. @throws Passing, or
   * EndpointError if a retry cannot help
   */
  readonly open: (offset: number, signal: AbortSignal) => Promise<Answer>;
  /** Maps a broken connection to an error. */
  readonly broken: (error: unknown) => Passing | EndpointError;
  /** Returns true if a part of this size, left by an earlier process, has the same content. */
  readonly isKept: (size: number) => boolean;
  /** Called with an answer before its bytes are written. */
  readonly onAnswer?: (response: Response) => void;
}

interface DownloadOptions extends Retries {
  readonly signal: AbortSignal;
  /** Bytes that are there and, where the server says it, how many there will be. */
  readonly onProgress?: ((bytes: number, total: number | null) => void) | undefined;
  /** Most bytes that content of unknown size may have; default: any number. */
  readonly maximum?: number;
}

interface Downloaded {
  readonly bytes: number;
  /** Hash, as in `Content`. */
  readonly hash: string;
}

/** Offset of a response's bytes (−1 when unusable), and the total size. */
function extent(response: Response): { start: number; total: number | null } {
  const range = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
  const length = response.headers.get('content-length');
  if (response.status === 200) return { start: 0, total: length === null ? null : Number(length) };
  const total = range === null || range[2] === '*' ? null : Number(range[2]);
  return { start: response.status === 206 ? Number(range?.[1] ?? -1) : -1, total };
}

/** Requests the missing bytes once. @throws Passing; EndpointError; WriteError */
async function attempt(
  source: Source,
  part: Part,
  { size }: Content,
  moved: () => void,
  { signal, onProgress, maximum = Number.POSITIVE_INFINITY }: DownloadOptions,
): Promise<void> {
  if (part.length === size) return;
  const { response, alive, close } = await source.open(part.length, signal);
  let cancel = async (): Promise<void> => response.body?.cancel();
  const tooMuch = async (): Promise<EndpointError> => {
    await part.drop();
    const limit =
      size === null ? `${maximum} bytes, the maximum for such a file` : `the announced ${size} bytes`;
    return new EndpointError(`${source.name}: ${source.address} sends more than ${limit}`, {
      advice: `run the same command again, and if it stays, ${source.remedy}`,
    });
  };
  try {
    const { start, total } = extent(response);
    if (response.status === 416 && total === part.length) return;
    if (start !== part.length) await part.drop();
    const replaced = start > 0 && size !== null && total !== null && total !== size;
    if (start !== part.length || replaced || response.body === null) {
      await part.drop();
      throw new Passing(
        new EndpointError(`${source.name}: ${source.address} did not send the requested bytes`),
      );
    }
    if (size === null && (total ?? 0) > maximum) throw await tooMuch();
    source.onAnswer?.(response);
    onProgress?.(part.length, size ?? total);
    const reader = response.body.getReader();
    cancel = () => reader.cancel();
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw source.broken(error);
      });
      if (done) break;
      alive();
      if (part.length + value.byteLength > (size ?? maximum)) throw await tooMuch();
      await part.append(value);
      moved();
      onProgress?.(part.length, size ?? total);
    }
    const whole = size ?? total;
    if (whole !== null && part.length !== whole) {
      throw source.broken(new Error(`ended at byte ${part.length} of ${whole}`));
    }
  } finally {
    close();
    await cancel().catch(() => undefined); // the failure itself is what is reported
  }
}

/**
 * Downloads the file of `source` to `target`, replacing it. The part stays, except for wrong content.
 * @throws EndpointError when the server cannot be reached, refuses, or sends other content; WriteError; the
 * signal's reason
 */
export async function download(
  source: Source,
  content: Content,
  target: string,
  options: DownloadOptions,
): Promise<Downloaded> {
  const { signal, onProgress } = options;
  const path = partOf(target);
  const part = await Part.open(path, content, source.isKept, signal);
  let result: Downloaded;
  try {
    // A part that outlived a power failure may have holes: wrong content on top of one gets a second chance.
    for (let chances = part.length > 0 ? 2 : 1; ; ) {
      let furthest = 0;
      await retry(signal, options, async (moved) => {
        const further = (): void => {
          // A server that always breaks at the same byte, and cannot go on from there, is given up.
          if (part.length > furthest) moved();
          furthest = Math.max(furthest, part.length);
        };
        await attempt(source, part, content, further, options);
      });
      result = { bytes: part.length, hash: part.digest() };
      if (content.hash === null || content.hash === result.hash) break;
      await part.drop();
      onProgress?.(0, content.size);
      if (--chances === 0) {
        throw new EndpointError(
          `${source.name}: the download from ${source.address} was discarded: its hash is ${result.hash}, expected ${content.hash}`,
          { advice: `run the same command again, and if it stays, ${source.remedy}` },
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
  await writing(target, async () => {
    await rename(path, target);
    syncPath(dirname(target));
  });
  return result;
}

/** Sidecar record of a partial file: its URL, and the server's tag for the content. */
interface Note {
  readonly url: string;
  /** A strong ETag, else the date of the last change. */
  readonly validator: string;
}

function readNote(path: string): Note | null {
  try {
    const note = JSON.parse(readFileSync(path, 'utf8')) as Partial<Note> | null;
    return typeof note?.url === 'string' && typeof note.validator === 'string' ? (note as Note) : null;
  } catch {
    return null; // without a note the part is of unknown content, and is fetched again
  }
}

function validatorOf(headers: Headers): string | null {
  const tag = headers.get('etag');
  return tag !== null && !tag.startsWith('W/') ? tag : headers.get('last-modified');
}

export interface UrlOptions extends DownloadOptions {
  /** Hexadecimal SHA-256 that the content must have; null: not known. */
  readonly sha256?: string | null;
  /** Silence after which a connection counts as broken, ms. */
  readonly silence?: number;
}

export interface UrlDownload {
  readonly bytes: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

/**
 * Downloads a URL like `download`. An existing file with the right hash is kept; the part of an earlier
 * process is resumed if the server has the same content.
 */
export async function downloadUrl(url: string, target: string, options: UrlOptions): Promise<UrlDownload> {
  const { signal, sha256 = null, silence } = options;
  const content: Content = { hash: sha256 === null ? null : `sha256:${sha256}`, size: null };
  const result = ({ bytes, hash }: Downloaded) => ({ bytes, sha256: hash.slice(hash.indexOf(':') + 1) });
  if (existsSync(target)) {
    const there = await digest(target, content, signal);
    if (content.hash === null || there.hash === content.hash) return result(there);
  }
  const noteFile = `${partOf(target)}.json`;
  const server: Server = {
    address: 'the server',
    remedy: 'download it elsewhere and name its folder with --from',
  };
  const downloaded = await download(
    {
      ...server,
      name: url,
      broken: (error) => broken(server, url, error, true),
      isKept: () => readNote(noteFile)?.url === url,
      async open(offset) {
        const note = offset === 0 ? null : readNote(noteFile);
        const range = note?.url === url ? { range: `bytes=${offset}-`, 'if-range': note.validator } : {};
        const headers = { 'accept-encoding': 'identity', ...range };
        const answer = await ask(url, headers, signal, silence).catch((error: unknown) => {
          throw new Passing(unreachable(`${url}: ${server.address}`, server.remedy, error));
        });
        const { response, close } = answer;
        if (response.ok || response.status === 416) return answer;
        close();
        await response.body?.cancel();
        const error = new EndpointError(`${url}: the server answers with status ${response.status}`, {
          advice: server.remedy,
        });
        throw isBusy(response) ? new Passing(error, retryAfter(response)) : error;
      },
      onAnswer({ headers }) {
        const validator = validatorOf(headers);
        if (validator === null) rmSync(noteFile, { force: true });
        else writeFileSync(noteFile, JSON.stringify({ url, validator } satisfies Note));
      },
    },
    content,
    target,
    options,
  );
  rmSync(noteFile, { force: true });
  return result(downloaded);
}
