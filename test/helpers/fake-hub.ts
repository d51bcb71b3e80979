/** A server on this machine that answers as the Hugging Face hub does, and one beside it that holds the large files. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What goes wrong with one request for a file. */
export type Fault =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  /** The connection breaks after so many bytes. */
  | { readonly cut: number }
  /** Nothing more comes after so many bytes. */
  | { readonly hang: number }
  /** One byte is another. */
  | { readonly corrupt: number }
  | 'no ranges'
  | 'too long';

export interface Asked {
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

export const REPO = 'owner/tiny-vl';
const PAGE = 3;

export function gitHash(content: Uint8Array): string {
  return createHash('sha1').update(`blob ${content.byteLength}\0`).update(content).digest('hex');
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export class FakeHub {
  endpoint = '';
  /** Files of each commit. */
  readonly commits = new Map<string, Map<string, Uint8Array>>();
  readonly branches = new Map<string, string>();
  /** What goes wrong next with each file, or with 'api'. */
  readonly faults = new Map<string, Fault[]>();
  /** Requests for files at the hub, and at the store to which it redirects. */
  readonly asked: Asked[] = [];
  readonly stored: Asked[] = [];
  apiRequests = 0;
  token: string | undefined;
  /** Replaces what the tree says of a file. */
  relist: (entry: Record<string, unknown>) => unknown = (entry) => entry;
  /** Answers requests about the repository instead of it. */
  api: ((url: URL, response: ServerResponse) => void) | undefined;
  /** What each file waits for before it is sent. */
  readonly gates = new Map<string, Promise<void>>();
  #store = '';
  readonly #servers: Server[] = [];

  async start(): Promise<void> {
    const hub = createServer((request, response) => this.#answer(request, response));
    const store = createServer((request, response) => this.#answerStore(request, response));
    this.endpoint = await listen(hub);
    this.#store = await listen(store);
    this.#servers.push(hub, store);
  }

  async stop(): Promise<void> {
    for (const server of this.#servers) {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    }
  }

  /** Files that were asked for since the last call, in order of their names. */
  take(): string[] {
    return this.asked
      .splice(0)
      .map(({ path }) => path)
      .sort();
  }

  commit(sha: string, files: Readonly<Record<string, string | Uint8Array>>, branch = 'main'): void {
    const bytes = Object.entries(files).map(([path, content]) => [path, Buffer.from(content)] as const);
    this.commits.set(sha, new Map(bytes));
    this.branches.set(branch, sha);
  }

  #json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url!, this.endpoint);
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      this.#json(response, 401, { error: 'Invalid username or password.' });
      return;
    }
    const path = decodeURIComponent(url.pathname);
    const api = `/api/models/${REPO}/`;
    if (path.startsWith('/api/models/')) {
      this.apiRequests++;
      const fault = this.faults.get('api')?.shift();
      if (this.api !== undefined) this.api(url, response);
      else if (typeof fault === 'object' && 'status' in fault)
        this.#json(response, fault.status, {}, fault.headers);
      else if (!path.startsWith(api)) {
        this.#json(response, 404, { error: 'Repository not found' }, { 'x-error-code': 'RepoNotFound' });
      } else this.#api(path.slice(api.length), url, response);
      return;
    }
    const [, sha, file] = new RegExp(`^/${REPO}/resolve/([^/]+)/(.*)$`, 's').exec(path) ?? [];
    const content = this.commits.get(sha ?? '')?.get(file ?? '');
    if (file === undefined || content === undefined) {
      this.#json(response, 404, {}, { 'x-error-code': 'EntryNotFound' });
      return;
    }
    this.asked.push({
      path: file,
      range: request.headers.range,
      authorization: request.headers.authorization,
    });
    const away = file.endsWith('.safetensors');
    if (away) response.writeHead(302, { location: `${this.#store}/${sha}/${file}?signature=x` }).end();
    else void this.#send(file, content, request, response);
  }

  #api(rest: string, url: URL, response: ServerResponse): void {
    const [kind, ...name] = rest.split('/');
    const revision = name.join('/');
    const sha = this.branches.get(revision) ?? revision;
    const files = this.commits.get(sha);
    if (files === undefined) {
      this.#json(response, 404, { error: 'Invalid rev id' }, { 'x-error-code': 'RevisionNotFound' });
    } else if (kind === 'revision') {
      this.#json(response, 200, { _id: '1', id: REPO, sha, lastModified: '2026-01-01T00:00:00.000Z' });
    } else {
      const entries = [...files].map(([path, content]) => {
        const lfs = {
          oid: createHash('sha256').update(content).digest('hex'),
          size: content.byteLength,
          pointerSize: 134,
        };
        const large = path.endsWith('.safetensors');
        const entry = { type: 'file', path, size: content.byteLength, oid: gitHash(content) };
        return this.relist(large ? { ...entry, oid: gitHash(Buffer.from(lfs.oid)), lfs } : entry);
      });
      entries.unshift({ type: 'directory', path: 'onnx', size: 0, oid: '0'.repeat(40) });
      const from = Number(url.searchParams.get('cursor') ?? 0);
      const next = `${this.endpoint}${url.pathname}?recursive=true&cursor=${from + PAGE}`;
      const more: Record<string, string> =
        from + PAGE < entries.length ? { link: `<${next}>; rel="next"` } : {};
      this.#json(response, 200, entries.slice(from, from + PAGE), more);
    }
  }

  #answerStore(request: IncomingMessage, response: ServerResponse): void {
    const [, sha, file] = /^\/([^/]+)\/(.*)$/.exec(new URL(request.url!, this.#store).pathname) ?? [];
    this.stored.push({
      path: file!,
      range: request.headers.range,
      authorization: request.headers.authorization,
    });
    void this.#send(file!, this.commits.get(sha!)!.get(file!)!, request, response);
  }

  async #send(
    path: string,
    whole: Uint8Array,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    await this.gates.get(path);
    const fault = this.faults.get(path)?.shift();
    if (typeof fault === 'object' && 'status' in fault) {
      response.writeHead(fault.status, fault.headers).end();
      return;
    }
    const range = fault === 'no ranges' ? null : /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const start = range === null ? 0 : Number(range[1]);
    const etag = `"${gitHash(whole)}"`;
    if (start >= whole.byteLength && start > 0) {
      response.writeHead(416, { 'content-range': `bytes */${whole.byteLength}` }).end();
      return;
    }
    let body = Buffer.from(whole.subarray(start));
    if (fault === 'too long') body = Buffer.concat([body, Buffer.from('more')]);
    if (typeof fault === 'object' && 'corrupt' in fault) body[fault.corrupt]! ^= 255;
    response.writeHead(range === null ? 200 : 206, {
      etag,
      'content-length': body.byteLength,
      ...(range === null
        ? {}
        : { 'content-range': `bytes ${start}-${whole.byteLength - 1}/${whole.byteLength}` }),
    });
    if (typeof fault === 'object' && ('cut' in fault || 'hang' in fault)) {
      const upTo = 'cut' in fault ? fault.cut : fault.hang;
      response.write(body.subarray(0, upTo), () => {
        // What was written must be on its way before the connection goes.
        if ('cut' in fault) setImmediate(() => response.destroy());
      });
    } else response.end(body);
  }
}
