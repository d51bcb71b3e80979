/**
 * Requests to a chat endpoint that answers 200 ms after it has read them, 64 at once, against the ideal (requests × 200 ms / 64):
 * npx tsx test/bench/endpoint.ts [--json] [--rounds N]. The server is a process of its own on this machine.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { type ChatPart, openEndpoint, pngPart } from '../../src/endpoint/chat.ts';
import { benchOptions, median, table } from './measure.ts';

const DELAY = 200;
const CONCURRENCY = 64;
const REQUESTS = 1280;
const PICTURE_BYTES = 100_000;

/** The server: tells its port, and the number of its connections when asked. */
function serve(): void {
  let connections = 0;
  const answer = JSON.stringify({
    choices: [
      {
        message: { role: 'assistant', content: '<think>flat</think><class>Laptop</class>' },
        finish_reason: 'stop',
      },
    ],
    usage: { prompt_tokens: 400, completion_tokens: 12 },
  });
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      setTimeout(() => response.setHeader('content-type', 'application/json').end(answer), DELAY);
    });
  });
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
  process.on('message', () => {
    process.send!(connections);
    connections = 0;
  });
  process.on('disconnect', () => process.exit());
}

async function connectionsOf(server: ChildProcess): Promise<number> {
  server.send('connections');
  return ((await once(server, 'message')) as [number])[0];
}

interface EndpointRow {
  readonly name: string;
  /** Median over rounds. */
  readonly seconds: number;
  readonly requestsPerSecond: number;
  /** Ideal time / time taken, median over rounds; the first round opens the connections, and is not counted. */
  readonly share: number;
  /** Seconds of processor time of the client per 1000 requests. */
  readonly processor: number;
  /** Opened in all measured rounds. */
  readonly newConnections: number;
}

async function measure(
  name: string,
  url: string,
  server: ChildProcess,
  rounds: number,
  content: (i: number) => readonly ChatPart[],
): Promise<EndpointRow> {
  const endpoint = openEndpoint({ url, model: 'test', concurrency: CONCURRENCY });
  const seconds: number[] = [];
  let processor = 0;
  for (let round = -1; round < rounds; round++) {
    if (round === 0) await connectionsOf(server);
    const before = process.cpuUsage();
    const began = performance.now();
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < REQUESTS)
        await endpoint.chat({
          messages: [{ role: 'user', content: content(next++) }],
          temperature: 0,
          maxTokens: 256,
        });
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
    if (round < 0) continue;
    seconds.push((performance.now() - began) / 1000);
    const { user, system } = process.cpuUsage(before);
    processor += (user + system) / 1e6;
  }
  const ideal = (REQUESTS / CONCURRENCY) * (DELAY / 1000);
  return {
    name,
    seconds: median(seconds),
    requestsPerSecond: REQUESTS / median(seconds),
    share: median(seconds.map((each) => ideal / each)),
    processor: (processor / rounds / REQUESTS) * 1000,
    newConnections: await connectionsOf(server),
  };
}

async function main(): Promise<void> {
  const { json, rounds } = benchOptions(3);
  const server = fork(fileURLToPath(import.meta.url), ['serve'], { execArgv: process.execArgv });
  const [port] = (await once(server, 'message')) as [number];
  const url = `http://127.0.0.1:${port}/v1`;
  const picture = randomBytes(PICTURE_BYTES);
  const text = (i: number): ChatPart => ({ type: 'text', text: `Series ${i}: which class is it?` });
  try {
    const rows = [
      await measure('text', url, server, rounds, (i) => [text(i)]),
      await measure('text and a picture of 100 kB', url, server, rounds, (i) => [pngPart(picture), text(i)]),
    ];
    if (json)
      console.log(
        JSON.stringify({ requests: REQUESTS, concurrency: CONCURRENCY, delay: DELAY, rows }, null, 2),
      );
    else {
      const cells = rows.map((row) => [
        row.name,
        `${row.seconds.toFixed(2)} s`,
        row.requestsPerSecond.toFixed(0),
        `${(100 * row.share).toFixed(1)} %`,
        `${row.processor.toFixed(2)} s`,
        String(row.newConnections),
      ]);
      console.log(
        table(
          [
            `${REQUESTS} requests, ${CONCURRENCY} at once`,
            'time',
            'a second',
            'of ideal',
            'CPU / 1000',
            'new sockets',
          ],
          cells,
        ),
      );
    }
  } finally {
    server.disconnect();
  }
}

if (process.argv[2] === 'serve') serve();
else await main();
