/**
 * A model hub that speaks the Hugging Face protocol, or a mirror of one. Revisions and file lists come through
 * `@huggingface/hub`, whose requests all pass through here: they carry the token to the endpoint alone, are repeated
 * after a passing failure, and fail with what to do about it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { HUB_URL, listFiles, modelInfo } from '@huggingface/hub';
import { ConfigError, EndpointError } from '../errors.ts';
import { packageVersion } from '../paths.ts';
import { broken, Passing, refusal } from './failure.ts';

/** A server that asks for a longer pause than this is given up, seconds. */
const LONGEST_PAUSE = 300;

/** Most bytes of one answer about a repository, after it is unpacked; one of a thousand files has some 300 kB. */
const MOST_BYTES = 32 << 20;
/** Most answers that a list of files is made of, and most files in it. */
const MOST_PAGES = 1_000;
const MOST_FILES = 100_000;
const LONGEST_PATH = 1_024;

export interface HubOptions {
  /** Address of the hub: http or https, perhaps with a path. */
  readonly endpoint?: string;
  /** Access token for private and gated repositories. */
  readonly token?: string | undefined;
  /** Failures in a row, nothing received between them, until a request is given up; ≥ 1. */
  readonly attempts?: number;
  /** Pause after the first failure; doubles with each one that follows, ms. */
  readonly pause?: number;
  /** Silence after which a connection counts as broken, ms. */
  readonly silence?: number;
  /** Told of each failure that is tried again. */
  readonly onRetry?: (message: string) => void;
}

/** A file of a repository. */
export interface RemoteFile {
  /** Relative to the repository, `/` between its parts; as the server says, so not yet fit for the disk. */
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** Of the content: `sha256:…` for what lies in LFS, `git:…` (sha1 of the git blob) for the rest. */
  readonly hash: string;
}

/** The files of a repository at one commit. */
export interface RepoListing {
  readonly repo: string;
  readonly commit: string;
  readonly files: readonly RemoteFile[];
}

/** A request and what keeps it alive. */
export interface Answer {
  readonly response: Response;
  /** Says that bytes came: the connection is not silent. */
  readonly alive: () => void;
  /** Ends the watch over the connection. */
  readonly close: () => void;
}

/** `owner/name` of a repository, from that or from its address on a hub. @throws ConfigError */
export function parseRepo(text: string): string {
  const repo = text.replace(/^https?:\/\/[^/]+\//, '').replace(/\/+$/, '');
  const part = '[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?';
  if (!new RegExp(`^${part}/${part}$`).test(repo) || repo.includes('..')) {
    throw new ConfigError(
      `${shown(text)}: not the name of a model repository; expected OWNER/NAME, each of at most 96 characters, such as Qwen/Qwen2.5-VL-3B-Instruct`,
    );
  }
  return repo;
}

/** What was given, cut off where it is long. */
const shown = (text: string): string => (text.length > 120 ? `${text.slice(0, 117)}...` : text);

function parseEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // Not repeated: it may hold a password.
  if (text.includes('@')) {
    throw new ConfigError(
      `endpoint: holds a user name or password; expected an address such as ${HUB_URL}, and the access token in HF_TOKEN`,
    );
  }
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '') {
    throw new ConfigError(
      `endpoint ${shown(text.replace(/\?.*/s, '?…'))}: expected an address such as ${HUB_URL}`,
    );
  }
  return url.href.replace(/\/+$/, '');
}

function parseToken(text: string | undefined): string | undefined {
  const token = text?.trim();
  if (token === undefined || token === '') return undefined;
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new ConfigError('the access token holds spaces or characters outside of ASCII; copy it again');
  }
  return token;
}

export class Hub {
  readonly endpoint: string;
  readonly #token: string | undefined;
  readonly #attempts: number;
  readonly #pause: number;
  readonly #silence: number;
  readonly #onRetry: (message: string) => void;
  /** Whether the endpoint has answered at all. */
  #reached = false;

  /** @throws ConfigError for an endpoint or a token that cannot be one */
  constructor(options: HubOptions = {}) {
    this.endpoint = parseEndpoint(options.endpoint ?? HUB_URL);
    this.#token = parseToken(options.token);
    this.#attempts = options.attempts ?? 6;
    this.#pause = options.pause ?? 1000;
    this.#silence = options.silence ?? 60_000;
    this.#onRetry = options.onRetry ?? (() => undefined);
  }

  /**
   * The files of `repo` at `revision` (branch, tag or commit), all of one commit.
   * @throws EndpointError when there is no such repository or revision, or none that may be read
   */
  async list(repo: string, revision: string, signal: AbortSignal): Promise<RepoListing> {
    const fetch = this.#library(`${repo} at ${revision}`, signal);
    const wrong = (what: string): EndpointError =>
      new EndpointError(
        `${this.endpoint}: ${what}; is it a Hugging Face hub or a mirror of one (--endpoint)?`,
      );
    try {
      const { sha } = await modelInfo({
        name: repo,
        revision,
        additionalFields: ['sha'],
        hubUrl: this.endpoint,
        fetch,
      });
      if (typeof sha !== 'string' || !/^[0-9a-f]{40,64}$/.test(sha))
        throw wrong(`names no commit of ${repo}`);
      const files: RemoteFile[] = [];
      for await (const entry of listFiles({
        repo: { type: 'model', name: repo },
        revision: sha,
        recursive: true,
        hubUrl: this.endpoint,
        fetch,
      })) {
        if (entry.type === 'directory') continue;
        const hash = entry.lfs === undefined ? `git:${entry.oid}` : `sha256:${entry.lfs.oid}`;
        const size = entry.lfs?.size ?? entry.size;
        const known = /^(git:[0-9a-f]{40}|sha256:[0-9a-f]{64})$/.test(hash);
        if (
          entry.type !== 'file' ||
          typeof entry.path !== 'string' ||
          entry.path.length > LONGEST_PATH ||
          !Number.isSafeInteger(size) ||
          size < 0 ||
          !known
        ) {
          throw wrong(
            `lists a file of ${repo} without path, size or hash: ${JSON.stringify(entry).slice(0, 200)}`,
          );
        }
        files.push({ path: entry.path, size, hash });
        if (files.length > MOST_FILES) throw wrong(`lists more than ${MOST_FILES} files of ${repo}`);
      }
      return { repo, commit: sha, files };
    } catch (error) {
      // What the library cannot read: not JSON, or not what it expects in it.
      if (error instanceof SyntaxError || (error instanceof TypeError && !signal.aborted)) {
        throw wrong(`what it says of ${repo} cannot be read (${error.message})`);
      }
      throw error;
    }
  }

  /**
   * Asks once for the bytes of a file from `offset` on; the answer's status is 200 (all of it), 206, or 416.
   * @throws Passing, or EndpointError when asking again cannot help
   */
  async open(listing: RepoListing, path: string, offset: number, signal: AbortSignal): Promise<Answer> {
    const name = path.split('/').map(encodeURIComponent).join('/');
    const url = `${this.endpoint}/${listing.repo}/resolve/${listing.commit}/${name}`;
    const range: Record<string, string> = offset > 0 ? { range: `bytes=${offset}-` } : {};
    return this.#ask(url, { ...range, 'accept-encoding': 'identity' }, `${listing.repo}: ${path}`, signal);
  }

  /**
   * Runs `attempt` until it succeeds, fails for good, or has failed too often in a row; it calls `moved` whenever it got
   * further. @throws EndpointError; the signal's reason
   */
  async retry<T>(signal: AbortSignal, attempt: (moved: () => void) => Promise<T>): Promise<T> {
    let failures = 0;
    for (;;) {
      try {
        return await attempt(() => {
          failures = 0;
        });
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Passing)) throw error;
        const wait = error.wait ?? (this.#pause / 1000) * 2 ** failures;
        if (++failures >= this.#attempts || wait > LONGEST_PAUSE) throw error.error;
        this.#onRetry(`${error.error.message}; again in ${Math.ceil(wait)} s`);
        await sleep(wait * 1000, undefined, { signal }).catch(() => signal.throwIfAborted());
      }
    }
  }

  /**
   * The library's `fetch`: answers are read to their end here, where a broken connection can be tried again, and no further
   * than a list of files can be long. A page that names itself as the next one would be asked for without end.
   */
  #library(what: string, signal: AbortSignal): typeof fetch {
    const asked = new Set<string>();
    return (input, init) => {
      const url = input instanceof Request ? input.url : String(input);
      if (asked.has(url) || asked.size > MOST_PAGES) {
        throw new EndpointError(
          `${what}: the list of files of ${this.endpoint} has no end; choose another --endpoint`,
        );
      }
      asked.add(url);
      return this.retry(signal, async () => {
        const headers = Object.fromEntries(new Headers(init?.headers));
        const answer = await this.#ask(url, headers, what, signal);
        try {
          return new Response(await this.#text(answer, what), { headers: answer.response.headers });
        } finally {
          answer.close();
        }
      });
    };
  }

  /** @throws EndpointError for more than MOST_BYTES; as `broken` */
  async #text({ response, alive }: Answer, what: string): Promise<string> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    try {
      for await (const chunk of response.body ?? []) {
        alive();
        size += chunk.byteLength;
        if (size > MOST_BYTES) break;
        chunks.push(chunk);
      }
    } catch (error) {
      throw this.broken(what, error);
    }
    if (size <= MOST_BYTES) return Buffer.concat(chunks).toString('utf8');
    throw new EndpointError(
      `${what}: ${this.endpoint} answers with more than ${MOST_BYTES} bytes; choose another --endpoint`,
    );
  }

  async #ask(
    address: string,
    headers: Readonly<Record<string, string>>,
    what: string,
    signal: AbortSignal,
  ): Promise<Answer> {
    // Mirrors pass on pages that continue at the hub itself.
    const url = address.startsWith(`${HUB_URL}/`) ? this.endpoint + address.slice(HUB_URL.length) : address;
    const ours = new URL(url).origin === new URL(this.endpoint).origin;
    const silent = new AbortController();
    const timer = setTimeout(() => silent.abort(new Error('the connection fell silent')), this.#silence);
    const close = (): void => clearTimeout(timer);
    try {
      const response = await fetch(url, {
        headers: {
          ...headers,
          'user-agent': `timeseer/${packageVersion()}`,
          ...(ours && this.#token !== undefined ? { authorization: `Bearer ${this.#token}` } : {}),
        },
        signal: AbortSignal.any([signal, silent.signal]),
      });
      this.#reached = true;
      if (!response.ok && response.status !== 416) {
        await response.body?.cancel();
        throw refusal(this.endpoint, what, response, this.#token !== undefined);
      }
      return { response, alive: () => void timer.refresh(), close };
    } catch (error) {
      close();
      signal.throwIfAborted();
      throw error instanceof Passing || error instanceof EndpointError ? error : this.broken(what, error);
    }
  }

  /** As `broken` of failure.ts, for this hub. */
  broken(what: string, error: unknown): Passing | EndpointError {
    return broken(this.endpoint, what, error, this.#reached);
  }
}
