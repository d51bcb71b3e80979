/**
 * Rendering against matplotlib (Agg, a new figure each, as the papers' code draws), in one run, in turns, per core
 * (processor time of one thread): npx tsx test/bench/render.ts [--json] [--rounds N]. Python with matplotlib is
 * `python3`, or what TIMESEER_PYTHON names; without it the comparison is skipped, and said so.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { type Figure, figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { renderVega } from '../../src/plot/vega-raster.ts';

/** The peer: draws `count` pictures of `n` samples to RGB and answers with seconds of processor time per picture. */
const PEER = `
import json, sys, time
import numpy as np
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
print(json.dumps({"version": matplotlib.__version__}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    n = job["n"]
    series = [np.sin(np.arange(n) * 0.1 + k) + 0.1 * np.sin(np.arange(n) ** 2.0 + k) for k in range(job["count"])]
    start = time.process_time()
    for values in series:
        if job["figure"] == "ctu":
            fig, ax = plt.subplots(figsize=(5.8, 2.3), dpi=100)
            ax.plot(values, linewidth=2)
            ax.set_title("Complete Signal", fontsize=9)
            ax.set_xlabel("Timestamp", fontsize=8)
            ax.set_ylabel("Value", fontsize=8)
            ax.tick_params(labelsize=7)
        elif job["figure"] == "nano":
            fig = plt.figure(figsize=(5.6, 0.28), dpi=100)
            ax = fig.add_axes((0, 0, 1, 1))
            ax.axis("off")
            ax.set_xlim(-0.5, n - 0.5)
            ax.plot(values, color="black", linewidth=1.08)
        else:
            fig, ax = plt.subplots(figsize=(10, 1.5), dpi=100)
            ax.plot(values, color="steelblue")
            ax.set_ylim(-1.2, 1.2)
        fig.canvas.draw()
        rgb = np.asarray(fig.canvas.buffer_rgba())[:, :, :3].copy()
        plt.close(fig)
    print(json.dumps({"seconds": (time.process_time() - start) / job["count"]}), flush=True)
`;

interface Peer {
  readonly version: string;
  draw(figure: string, n: number, count: number): Promise<number>;
  close(): void;
}

async function startPeer(): Promise<Peer | string> {
  const python = process.env['TIMESEER_PYTHON'] ?? 'python3';
  const child: ChildProcessWithoutNullStreams = spawn(python, ['-c', PEER]);
  let problem = '';
  child.stderr.on('data', (text) => {
    problem = `${problem}${String(text)}`.slice(-2000);
  });
  const gone = new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('exit', () => resolve(problem.trim().split('\n').at(-1) ?? ''));
  });
  const lines = createInterface(child.stdout);
  const answer = async (): Promise<Record<string, unknown>> => {
    const first = await Promise.race([once(lines, 'line'), gone]);
    if (typeof first === 'string') throw new Error(`${python}: ${first}`);
    return JSON.parse(String(first[0])) as Record<string, unknown>;
  };
  try {
    const { version } = await answer();
    return {
      version: String(version),
      async draw(name, n, count) {
        const reply = answer();
        child.stdin.write(`${JSON.stringify({ figure: name, n, count })}\n`);
        return Number((await reply)['seconds']);
      },
      close: () => child.stdin.end(),
    };
  } catch (error) {
    return (error as Error).message;
  }
}

const wave = (n: number, k: number) =>
  Float64Array.from({ length: n }, (_, i) => Math.sin(i * 0.1 + k) + 0.1 * Math.sin(i ** 2 + k));

/** Processor time per picture in seconds, all threads of this process included. */
async function ours(fig: Figure, n: number, count: number, columns: boolean): Promise<number> {
  const series = Array.from({ length: count }, (_, k) => wave(n, k));
  const start = process.cpuUsage();
  for (const values of series) {
    if (columns) renderColumns(fig, values);
    else await renderVega(fig, values);
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6 / count;
}

export interface RenderRow {
  readonly name: string;
  /** Milliseconds of processor time per picture, median over rounds. */
  readonly ours: number;
  /** Of matplotlib; null when skipped. */
  readonly matplotlib: number | null;
  /** matplotlib / ours of the same round, median over rounds. */
  readonly ratio: number | null;
}

export interface RenderReport {
  readonly matplotlib: string | null;
  /** Why the comparison was skipped; null when it was not. */
  readonly skipped: string | null;
  readonly rows: readonly RenderRow[];
}

const median = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

const CASES = [
  { name: 'ctu figure, 720 points', figure: 'ctu', n: 720, columns: false, count: 30 },
  { name: 'anomllm figure, 1000 points', figure: 'anomllm', n: 1000, columns: false, count: 30 },
  { name: 'nano figure through vega, 1000', figure: 'nano', n: 1000, columns: false, count: 30 },
  { name: 'nano figure, columns, 1000', figure: 'nano', n: 1000, columns: true, count: 600 },
] as const;

/** Runs the whole comparison; about half a minute at 7 rounds. */
export async function measureRendering(rounds = 7): Promise<RenderReport> {
  const peer = await startPeer();
  const rows: RenderRow[] = [];
  for (const each of CASES) {
    const fig = figure(each.figure);
    await ours(fig, each.n, each.count, each.columns);
    if (typeof peer !== 'string') await peer.draw(each.figure, each.n, 3);
    const mine: number[] = [];
    const theirs: number[] = [];
    for (let round = 0; round < rounds; round++) {
      mine.push(await ours(fig, each.n, each.count, each.columns));
      if (typeof peer !== 'string') theirs.push(await peer.draw(each.figure, each.n, 10));
    }
    const compared = theirs.length > 0;
    rows.push({
      name: each.name,
      ours: 1000 * median(mine),
      matplotlib: compared ? 1000 * median(theirs) : null,
      ratio: compared ? median(theirs.map((seconds, i) => seconds / mine[i]!)) : null,
    });
  }
  if (typeof peer !== 'string') peer.close();
  const skipped = typeof peer === 'string' ? peer : null;
  return { matplotlib: typeof peer === 'string' ? null : peer.version, skipped, rows };
}

function table({ matplotlib, skipped, rows }: RenderReport): string {
  const cell = (value: number | null, digits: number, unit: string) =>
    (value === null ? '–' : `${value.toFixed(digits)}${unit}`).padStart(14);
  const lines = rows.map(
    (row) =>
      `${row.name.padEnd(34)}${cell(row.ours, 2, ' ms')}${cell(row.matplotlib, 2, ' ms')}${cell(row.ratio, 1, '×')}`,
  );
  const peer = matplotlib === null ? 'matplotlib' : `mpl ${matplotlib}`;
  const head = `${'processor time per picture'.padEnd(34)}${'timeseer'.padStart(14)}${peer.padStart(14)}${'ratio'.padStart(14)}`;
  const note =
    skipped === null
      ? []
      : [`SKIPPED the comparison: ${skipped} (set TIMESEER_PYTHON to a Python with matplotlib)`];
  return [head, ...lines, ...note].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const at = process.argv.indexOf('--rounds');
  const report = await measureRendering(at < 0 ? 7 : Number(process.argv[at + 1]));
  console.log(process.argv.includes('--json') ? JSON.stringify(report, null, 2) : table(report));
}
