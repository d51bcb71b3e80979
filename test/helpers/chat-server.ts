/** A chat endpoint on this machine that answers as it is told to. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ChatCall {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the client sent
  readonly body: any;
}

/** How one request is answered. */
export type Reply = (response: ServerResponse, call: ChatCall) => void;

/** A chat completion as servers send it. */
export const completion = (content: string | null, more: object = {}) => ({
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 70, completion_tokens: 3, total_tokens: 73 },
  ...more,
});

export const json =
  (value: unknown, status = 200, headers: Record<string, string> = {}): Reply =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
  };

export const says = (text: string): Reply => json(completion(text));

export const body =
  (text: string, status = 200): Reply =>
  (response) => {
    response.writeHead(status).end(text);
  };

export class ChatServer {
  url = '';
  readonly calls: ChatCall[] = [];
  /** Answers to the next requests, in turn; after them `usual`. */
  readonly next: Reply[] = [];
  usual: Reply = says('yes');
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const call = {
        path: request.url ?? '',
        headers: request.headers,
        body: JSON.parse(Buffer.concat(chunks).toString()),
      };
      this.calls.push(call);
      (this.next.shift() ?? this.usual)(response, call);
    });
  });

  async start(): Promise<void> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}
