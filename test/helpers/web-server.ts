/** An HTTP server on this machine that answers as it is told to, and keeps what it was asked. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Answering = (response: ServerResponse, call: Call) => void;

export const sends =
  (value: unknown, status = 200, headers: Record<string, string> = {}): Answering =>
  (response) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
  };

export class WebServer {
  url = '';
  readonly calls: Call[] = [];
  /** Answers to the next requests, in turn; after them `usual`. */
  readonly next: Answering[] = [];
  usual: Answering = sends({});
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const call = { method, path: url, headers, body: Buffer.concat(chunks).toString() };
      this.calls.push(call);
      (this.next.shift() ?? this.usual)(response, call);
    });
  });

  async start(): Promise<void> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}
