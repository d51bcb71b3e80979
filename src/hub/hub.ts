/**
 * Model hub with the Hugging Face protocol, or a mirror of one. All requests of `@huggingface/hub` pass
 * through here: the token goes to the endpoint alone, passing failures are retried, and errors say what to
 * do.
 */
import { HUB_URL, listFiles, modelInfo } from '@huggingface/hub';
import {
  type Answer,
  ask,
  broken,
  type Content,
  isBusy,
  Passing,
  type Retries,
  retry,
  retryAfter,
  type Server,
  type Source,
} from '../ground/download.ts';
import { ConfigError, EndpointError } from '../ground/errors.ts';
import { packageVersion } from '../ground/paths.ts';

/** Most bytes of one answer about a repository, after it is unpacked; one of a thousand files has some 300 kB. */
const MOST_ANSWER_BYTES = 32 << 20;
/** Most answers that a list of files is made of, and most files in it. */
const MOST_PAGES = 1_000;
const MOST_FILES = 100_000;
const LONGEST_PATH = 1_024;

const REMEDY =
  'name a mirror with --endpoint or HF_ENDPOINT, or download the files elsewhere and copy the directory here';

export interface HubOptions extends Retries {
  /** Address of the hub: http or https, perhaps with a path. */
  readonly endpoint?: string;
  /** Access token for private and gated repositories. */
  readonly token?: string | undefined;
  /** Silence after which a connection counts as broken, ms. */
  readonly silence?: number;
}

/** A file of a repository. */
export interface RemoteFile extends Content {
  /** Relative to the repository, `/` between its parts; as the server says, so not yet fit for the disk. */
  readonly path: string;
  readonly size: number;
  /** `sha256:…` for what lies in LFS, `git:…` for the rest. */
  readonly hash: string;
}

/** The files of a repository at one commit. */
export interface RepoListing {
  readonly repo: string;
  readonly commit: string;
  readonly files: readonly RemoteFile[];
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

/** Quotes the input, shortened where it is long. */
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
  readonly #silence: number | undefined;
  /** Retry policy of requests. */
  readonly retries: Retries;
  /** True once the endpoint has answered. */
  #reached = false;

  /** @throws ConfigError for an endpoint or a token that cannot be one */
  constructor(options: HubOptions = {}) {
    this.endpoint = parseEndpoint(options.endpoint ?? HUB_URL);
    this.#token = parseToken(options.token);
    this.#silence = options.silence;
    const { attempts, pause, onRetry } = options;
    this.retries = { attempts, pause, onRetry };
  }

  /**
   * Lists the files of `repo` at `revision` (branch, tag or commit), all of one commit.
   * @throws EndpointError if repository or revision is missing, or not readable
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
        throw wrong(`its answer about ${repo} cannot be read (${error.message})`);
      }
      throw error;
    }
  }

  /** A file of a repository. The caller sees to it that a part which is there is of the same content. */
  source(listing: RepoListing, file: RemoteFile): Source {
    const name = `${listing.repo}: ${file.path}`;
    const path = file.path.split('/').map(encodeURIComponent).join('/');
    const url = `${this.endpoint}/${listing.repo}/resolve/${listing.commit}/${path}`;
    return {
      ...this.#server,
      name,
      isKept: (size) => size <= file.size,
      open: (offset, signal) => {
        const range: Record<string, string> = offset > 0 ? { range: `bytes=${offset}-` } : {};
        return this.#ask(url, { ...range, 'accept-encoding': 'identity' }, name, signal);
      },
      broken: (error) => this.#broken(name, error),
    };
  }

  /**
   * Fetch for the library: reads answers to their end, with retries and a size limit, and refuses a page that
   * names itself as the next one.
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
      return retry(signal, this.retries, async () => {
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

  /** @throws EndpointError for more than MOST_ANSWER_BYTES; as `broken` */
  async #text({ response, alive }: Answer, what: string): Promise<string> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    try {
      for await (const chunk of response.body ?? []) {
        alive();
        size += chunk.byteLength;
        if (size > MOST_ANSWER_BYTES) break;
        chunks.push(chunk);
      }
    } catch (error) {
      throw this.#broken(what, error);
    }
    if (size <= MOST_ANSWER_BYTES) return Buffer.concat(chunks).toString('utf8');
    throw new EndpointError(
      `${what}: ${this.endpoint} answers with more than ${MOST_ANSWER_BYTES} bytes; choose another --endpoint`,
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
    try {
      const answer = await ask(
        url,
        {
          ...headers,
          'user-agent': `timeseer/${packageVersion()}`,
          ...(ours && this.#token !== undefined ? { authorization: `Bearer ${this.#token}` } : {}),
        },
        signal,
        this.#silence,
      );
      const { response, close } = answer;
      this.#reached = true;
      if (response.ok || response.status === 416) return answer;
      close();
      await response.body?.cancel();
      throw refusal(this.endpoint, what, response, this.#token !== undefined);
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof Passing || error instanceof EndpointError ? error : this.#broken(what, error);
    }
  }

  #broken(what: string, error: unknown): Passing | EndpointError {
    return broken(this.#server, what, error, this.#reached);
  }

  get #server(): Server {
    return { address: this.endpoint, remedy: REMEDY };
  }
}

/** Explains a response that is not the requested file. */
function refusal(
  endpoint: string,
  what: string,
  response: Response,
  withToken: boolean,
): Passing | EndpointError {
  const { status } = response;
  const reason = response.headers.get('x-error-code') ?? '';
  const by = `${endpoint} (status ${status})`;
  if (isBusy(response)) {
    const busy = status === 429 ? 'asks to slow down' : 'fails';
    return new Passing(
      new EndpointError(`${what}: ${by} ${busy}`, { advice: 'run the same command again later to resume' }),
      retryAfter(response),
    );
  }
  const token = withToken
    ? 'check that the token may read it'
    : 'pass a token of your account (HF_TOKEN or --token)';
  if (status === 403 || reason === 'GatedRepo') {
    return new EndpointError(
      `${what}: ${by} does not let you read it; accept its licence on its page there, and ${token}`,
    );
  }
  if (status === 401) {
    return new EndpointError(
      `${what}: ${by} finds no such repository, or it is private or gated; check the name; where it needs access, ` +
        `accept its licence on its page there, and ${token}`,
    );
  }
  if (status === 404) {
    const missing =
      reason === 'RevisionNotFound'
        ? 'has no such revision; check --revision'
        : reason === 'EntryNotFound'
          ? 'has no such file'
          : 'finds no such repository or revision; check the name and --revision';
    return new EndpointError(`${what}: ${by} ${missing}`);
  }
  return new EndpointError(`${what}: ${by} refuses`);
}
