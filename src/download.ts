/**
 * One file over HTTP to the disk: by byte ranges into `NAME.part`, going on where an earlier attempt or process stopped
 * as long as the server still has the same content, and under its own name only once it is whole and on the disk.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EndpointError } from './errors.ts';
import { explain, syncDirectory } from './files.ts';

export interface DownloadOptions {
  readonly signal: AbortSignal;
  /** Hexadecimal SHA-256 that the content must have; null: not known. */
  readonly sha256?: string | null;
  /** Says that another attempt follows, and after how many ms. */
  readonly onRetry?: (problem: EndpointError, pause: number) => void;
  /** Bytes that are there and, where the server says it, how many there will be. */
  readonly onProgress?: (bytes: number, total: number | null) => void;
  /** Waits before further attempts in ms, begun anew whenever an attempt got further than all before it. */
  readonly pauses?: readonly number[];
  /** Most bytes that the content may have; default: any number. */
  readonly maximum?: number;
  /** Longest silence of the server, in ms. */
  readonly patience?: number;
}

export interface Downloaded {
  readonly bytes: number;
  readonly sha256: string;
}

const PAUSES = [500, 2_000, 8_000];
const PATIENCE = 60_000;

/** A failure after which another attempt may help. */
class Passing extends Error {
  readonly error: EndpointError;
  constructor(error: EndpointError) {
    super(error.message);
    this.error = error;
  }
}

/** What a part is a part of. */
interface Note {
  readonly url: string;
  /** What the server calls this content: a strong ETag, else the date of its last change. */
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

function causeOf(error: unknown): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  if (at instanceof AggregateError && at.errors[0] instanceof Error) at = at.errors[0];
  const code = at instanceof Error && 'code' in at && typeof at.code === 'string' ? at.code : '';
  return at instanceof Error && at.message !== '' ? at.message : code || String(at);
}

const PROXIES = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'];
const BY_HAND = 'download it elsewhere and name its folder with --from';

/** What helps where a server is out of reach. Node asks a proxy that the environment names only when told to. */
function elsewhere(): string {
  const proxy = PROXIES.find((name) => process.env[name]);
  return proxy === undefined || process.env['NODE_USE_ENV_PROXY'] === '1'
    ? `check the network, or ${BY_HAND}`
    : `check the network, set NODE_USE_ENV_PROXY=1 for Node to use ${proxy} (22.21, 24.5 or later), or ${BY_HAND}`;
}

/** A request whose answer has begun, or what went wrong. */
async function ask(url: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { headers: { 'accept-encoding': 'identity', ...headers }, signal });
  } catch (cause) {
    throw new Passing(
      new EndpointError(`${url} cannot be reached (${causeOf(cause)}); ${elsewhere()}`, { cause }),
    );
  }
  if (response.ok || response.status === 416) return response;
  await response.body?.cancel();
  const error = new EndpointError(`${url}: the server answers with status ${response.status}; ${BY_HAND}`);
  throw response.status === 408 || response.status === 429 || response.status >= 500
    ? new Passing(error)
    : error;
}

/** Where the bytes of an answer begin, and how many the whole content has. */
function extent(response: Response): { start: number; total: number | null } {
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
  if (response.status === 206 && range !== null) {
    return { start: Number(range[1]), total: range[2] === '*' ? null : Number(range[2]) };
  }
  const length = response.headers.get('content-length');
  return { start: 0, total: length === null ? null : Number(length) };
}

/** One attempt: what is missing, appended to the part; `came` is told its size. @throws Passing; EndpointError */
async function attempt(
  url: string,
  part: string,
  options: DownloadOptions,
  came: (size: number) => void,
): Promise<void> {
  const { signal, onProgress, patience = PATIENCE, maximum = Number.POSITIVE_INFINITY } = options;
  const tooMuch = (): EndpointError =>
    new EndpointError(`${url}: sends more than the ${maximum} bytes that such a file may have; ${BY_HAND}`);
  const notePath = `${part}.json`;
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error('no answer')), patience);
  const both = AbortSignal.any([signal, silence.signal]);
  const handle = await open(part, 'a').catch((error: unknown) => {
    throw explain(part, error);
  });
  try {
    let { size } = await handle.stat();
    const note = readNote(notePath);
    const resumes = size > 0 && note !== null && note.url === url;
    if (!resumes && size > 0) await handle.truncate(0);
    if (!resumes) size = 0;
    const headers = resumes ? { range: `bytes=${size}-`, 'if-range': note.validator } : {};
    const response = await ask(url, headers, both);
    if (response.status === 416) {
      await response.body?.cancel();
      const whole = /^bytes \*\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1];
      if (Number(whole) === size) return;
      await handle.truncate(0);
      throw new Passing(
        new EndpointError(`${url}: the server has another file now; run the same command again`),
      );
    }
    const { start, total } = extent(response);
    if (start !== size) {
      await handle.truncate(0);
      size = 0;
      if (start !== 0)
        throw new Passing(new EndpointError(`${url}: the server sent other bytes than asked for`));
    }
    if (total !== null && total > maximum) {
      await response.body?.cancel();
      throw tooMuch();
    }
    const validator = validatorOf(response.headers);
    if (validator === null) rmSync(notePath, { force: true });
    else writeFileSync(notePath, JSON.stringify({ url, validator } satisfies Note));
    onProgress?.(size, total);
    try {
      for await (const chunk of response.body ?? []) {
        timer.refresh();
        if (size + chunk.byteLength > maximum) throw tooMuch();
        for (let done = 0; done < chunk.byteLength; ) {
          done += (await handle.write(chunk, done, chunk.byteLength - done)).bytesWritten;
        }
        size += chunk.byteLength;
        came(size);
        onProgress?.(size, total);
      }
    } catch (cause) {
      if (cause instanceof EndpointError) {
        await handle.truncate(0);
        throw cause;
      }
      if (['ENOSPC', 'EDQUOT', 'EIO'].includes((cause as NodeJS.ErrnoException).code ?? '')) {
        throw explain(part, cause);
      }
      const why = silence.signal.aborted
        ? `nothing came for ${Math.round(patience / 1000)} s`
        : causeOf(cause);
      throw new Passing(
        new EndpointError(`${url}: the connection broke (${why}); run the same command again to go on`),
      );
    }
    if (total !== null && size !== total) {
      throw new Passing(
        new EndpointError(`${url}: ended at byte ${size} of ${total}; run the same command again to go on`),
      );
    }
    await handle.sync();
  } finally {
    clearTimeout(timer);
    await handle.close();
  }
}

async function digest(path: string, signal: AbortSignal): Promise<Downloaded> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(path, { signal, highWaterMark: 1 << 20 })) {
    hash.update(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  return { bytes, sha256: hash.digest('hex') };
}

/**
 * Brings what is at `url` to `target`; a file that is there already is only hashed.
 *
 * @throws EndpointError when the server cannot be reached, refuses, stays away or sends other content than `sha256` (which
 * is thrown away); WriteError when the disk refuses; the signal's reason. What came stays for the next time.
 */
export async function download(url: string, target: string, options: DownloadOptions): Promise<Downloaded> {
  const { signal, sha256 = null, pauses = PAUSES } = options;
  const part = `${target}.part`;
  const fresh = !existsSync(target);
  try {
    if (fresh) await mkdir(dirname(target), { recursive: true });
  } catch (error) {
    throw explain(target, error);
  }
  let furthest = 0;
  for (let failures = 0; fresh; ) {
    try {
      // A server that always breaks at the same byte, and cannot go on from there, is given up.
      await attempt(url, part, options, (size) => {
        if (size > furthest) failures = 0;
        furthest = Math.max(furthest, size);
      });
      break;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof Passing)) throw error;
      const pause = pauses[failures++];
      if (pause === undefined) throw error.error;
      options.onRetry?.(error.error, pause);
      await sleep(pause, undefined, { signal });
    }
  }
  const found = await digest(fresh ? part : target, signal);
  if (sha256 !== null && found.sha256 !== sha256) {
    rmSync(fresh ? part : target, { force: true });
    rmSync(`${part}.json`, { force: true });
    throw new EndpointError(
      `${url}: what came has the SHA-256 ${found.sha256}, not ${sha256}, and was thrown away; run the same command again; if its owners have changed it, ${BY_HAND}`,
    );
  }
  if (!fresh) return found;
  try {
    await rename(part, target);
    rmSync(`${part}.json`, { force: true });
    syncDirectory(dirname(target));
  } catch (error) {
    throw explain(target, error);
  }
  return found;
}
