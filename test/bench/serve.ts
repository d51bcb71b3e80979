/**
 * The service under load: npm run bench -- serve [--requests N] [--clients N] [--points N] [--json]
 *
 * Clients post a table of a thousand points one after another. Told are latencies, memory after the first hundred requests and after the last,
 * and what becomes of the requests under way at SIGTERM. Needs `npm run build`.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Random } from '../../src/ground/random.ts';
import { CLI } from '../helpers/program.ts';

const { values: args } = parseArgs({
  options: {
    ...{ requests: { type: 'string', default: '5000' }, clients: { type: 'string', default: '8' } },
    ...{ points: { type: 'string', default: '1000' }, json: { type: 'boolean', default: false } },
  },
  allowPositionals: true,
  strict: false,
});
const [requests, clients, points] = [args.requests, args.clients, args.points].map(Number) as [
  number,
  number,
  number,
];

const random = new Random(1, 'serve');
const rows = Array.from({ length: points }, (_, i) => {
  const at = new Date(Date.UTC(2025, 2, 1) + i * 300_000).toISOString().slice(0, 16);
  return `${at},${(50 + 10 * Math.sin((2 * Math.PI * i) / 288) + random.normal() + (i > 800 && i < 830 ? 25 : 0)).toFixed(2)}`;
});
const table = `time,load\n${rows.join('\n')}\n`;

const child = spawn(process.execPath, [CLI, 'serve', '--port', '0', '--json', '--timeout', '20'], {
  stdio: 'pipe',
});
const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
child.stderr.resume();
const url = await new Promise<string>((resolve) =>
  child.stdout.once('data', (text) => resolve((JSON.parse(String(text)) as { url: string }).url)),
);
const post = (): Promise<Response> =>
  fetch(`${url}/v1/explain`, { method: 'POST', body: table, headers: { 'Content-Type': 'text/csv' } });
/** Resident memory of the service in MiB (Linux). */
const megabytes = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1024;

const latencies: number[] = [];
let [sent, wrong, early] = [0, 0, 0];
const began = performance.now();
await Promise.all(
  Array.from({ length: clients }, async () => {
    while (sent++ < requests) {
      const start = performance.now();
      const response = await post();
      const { findings } = (await response.json()) as { findings?: unknown[] };
      latencies.push(performance.now() - start);
      if (response.status !== 200 || findings?.length !== 1) wrong++;
      if (latencies.length === 100) early = megabytes();
    }
  }),
);
const seconds = (performance.now() - began) / 1000;
const late = megabytes();

// A request is accepted once its body has arrived: these have been sent whole before the signal.
const last = Array.from({ length: clients }, () =>
  post().then(
    async (response) => {
      await response.text();
      return response.status;
    },
    () => 0,
  ),
);
await new Promise((resolve) => setTimeout(resolve, 60));
const asked = performance.now();
child.kill('SIGTERM');
const statuses = await Promise.all(last);
const code = await ended;
const ending = (performance.now() - asked) / 1000;

latencies.sort((a, b) => a - b);
const quantile = (q: number): number =>
  latencies[Math.min(latencies.length - 1, Math.floor(q * latencies.length))]!;
const result = {
  ...{
    requests,
    clients,
    points,
    wrong,
    seconds,
    median: quantile(0.5),
    p95: quantile(0.95),
    most: quantile(1),
  },
  ...{ early, late, answered: statuses.filter((status) => status === 200).length, statuses, ending, code },
};
console.log(
  args.json
    ? JSON.stringify(result)
    : `${requests} requests of ${points} points, ${clients} at a time: ${(requests / seconds).toFixed(1)}/s, median ${result.median.toFixed(0)} ms, p95 ${result.p95.toFixed(0)} ms, ` +
        `most ${result.most.toFixed(0)} ms; ${wrong} wrong; ${early.toFixed(0)} MiB after 100, ${late.toFixed(0)} after all\n` +
        `SIGTERM with ${clients} under way: ${result.answered} answered, ended after ${ending.toFixed(1)} s with ${code}`,
);
