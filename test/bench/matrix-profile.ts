/**
 * Exact matrix profiles against stumpy on the same cores, in turns:
 * npm run bench -- matrix-profile [--rounds N] [--threads N] [--plain] [--json]; `--plain` goes without SIMD kernels, on one thread.
 * Python with stumpy is `python3`, or what TIMESEER_PYTHON names;
 * without it the comparison is skipped, and said so.
 *
 * The first call of a fresh process pays for compilation (stumpy's by numba, ours by the JavaScript engine, which is
 * also the start of a process's Worker); those after it do not. Both are measured inside the process, imports excluded.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Random } from '../../src/ground/random.ts';
import { anytimeMatrixProfile } from '../../src/series/anytime-profile.ts';
import { openPeer, type Peer } from './peer.ts';

const WINDOW = 50;
const SIZES = [10_000, 50_000] as const;

interface Spent {
  /** Seconds of wall clock and of processor time. */
  readonly wall: number;
  readonly cpu: number;
}

interface Row {
  readonly n: number;
  readonly threads: number;
  readonly compilation: 'excluded' | 'included';
  readonly ours: Spent;
  readonly stumpy: Spent | null;
  /** stumpy over ours in the same round, median over rounds. */
  readonly wallRatio: number | null;
  readonly cpuRatio: number | null;
  /** Largest difference of the two profiles. */
  readonly difference: number | null;
}

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

/** A random walk with a slow wave, as its own file of float64. */
function seriesFile(directory: string, n: number): string {
  const random = new Random(n, 'matrix-profile-bench');
  let level = 0;
  const values = Float64Array.from({ length: n }, (_, i) => {
    level += random.normal();
    return level + 5 * Math.sin(i / 40);
  });
  const file = join(directory, `${n}.f64`);
  writeFileSync(file, new Uint8Array(values.buffer));
  return file;
}

function floats(file: string): Float64Array {
  const bytes = readFileSync(file);
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

async function ours(
  values: Float64Array,
  threads: number,
): Promise<{ spent: Spent; distances: Float64Array }> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  const { distances } = await anytimeMatrixProfile(values, { window: WINDOW, threads });
  const wall = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { spent: { wall, cpu: (user + system) / 1e6 }, distances };
}

/** The same in a process of its own. */
function oursCold(file: string, threads: number, plain: boolean): Spent {
  const program = fileURLToPath(import.meta.url);
  const out = execFileSync(process.execPath, [
    '--import',
    'tsx',
    program,
    '--cold',
    file,
    '--threads',
    String(threads),
    ...(plain ? ['--plain'] : []),
  ]);
  return JSON.parse(out.toString()) as Spent;
}

const open = (): Promise<Peer<Spent> | string> => openPeer<Spent>('stumpy', 'stump', 1, []);

async function ask(peer: Peer<Spent>, file: string, threads: number): Promise<Spent> {
  return (await peer.ask(JSON.stringify({ file, m: WINDOW, threads })))[0]!;
}

function rowOf(
  n: number,
  threads: number,
  compilation: Row['compilation'],
  mine: readonly Spent[],
  theirs: readonly Spent[],
  difference: number | null,
): Row {
  const middle = (all: readonly Spent[]): Spent => ({
    wall: median(all.map(({ wall }) => wall)),
    cpu: median(all.map(({ cpu }) => cpu)),
  });
  const ratio = (key: keyof Spent): number | null =>
    theirs.length === 0 ? null : median(theirs.map((spent, round) => spent[key] / mine[round]![key]));
  const stumpy = theirs.length === 0 ? null : middle(theirs);
  return {
    n,
    threads,
    compilation,
    ours: middle(mine),
    stumpy,
    wallRatio: ratio('wall'),
    cpuRatio: ratio('cpu'),
    difference,
  };
}

async function measure(
  rounds: number,
  threads: number,
  plain: boolean,
): Promise<{ versions: string; rows: Row[] }> {
  const directory = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
  const rows: Row[] = [];
  let versions = '';
  try {
    for (const n of SIZES) {
      const file = seriesFile(directory, n);
      const values = floats(file);
      const cold = await open();
      versions = typeof cold === 'string' ? cold : cold.versions;
      const first = typeof cold === 'string' ? [] : [await ask(cold, file, threads)];
      rows.push(rowOf(n, threads, 'included', [oursCold(file, threads, plain)], first, null));
      await ours(values.subarray(0, 5000), threads);
      const mine: Spent[] = [];
      const theirs: Spent[] = [];
      let difference: number | null = null;
      for (let round = 0; round < rounds; round++) {
        const own = await ours(values, threads);
        mine.push(own.spent);
        if (typeof cold === 'string') continue;
        theirs.push(await ask(cold, file, threads));
        const other = floats(`${file}.profile`);
        difference = own.distances.reduce((worst, d, i) => Math.max(worst, Math.abs(d - other[i]!)), 0);
      }
      rows.push(rowOf(n, threads, 'excluded', mine, theirs, difference));
      if (typeof cold !== 'string') await cold.close();
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
  return { versions, rows };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '3' },
      threads: { type: 'string', default: String(availableParallelism()) },
      plain: { type: 'boolean', default: false },
      cold: { type: 'string' },
    },
  });
  if (values.plain) Reflect.deleteProperty(globalThis, 'WebAssembly');
  const threads = values.plain ? 1 : Number(values.threads);
  if (values.cold !== undefined) {
    console.log(JSON.stringify((await ours(floats(values.cold), threads)).spent));
    return;
  }
  const before = loadavg()[0]!;
  const { versions, rows } = await measure(Number(values.rounds), threads, values.plain);
  const load = [before, loadavg()[0]!].map((value) => value.toFixed(1)).join(' → ');
  if (values.json) {
    console.log(JSON.stringify({ stumpy: versions, threads, load, rows }));
    return;
  }
  console.log(`stumpy: ${versions}; ${threads} threads, window ${WINDOW}; load of the machine ${load}`);
  console.log(
    'samples  compilation     ours wall   cpu      stumpy wall   cpu      ratio wall   cpu     difference',
  );
  const seconds = (value: number | undefined): string =>
    (value === undefined ? '–' : `${value.toFixed(3)} s`).padStart(10);
  const times = (value: number | null): string => (value === null ? '–' : `${value.toFixed(2)}×`).padStart(9);
  for (const { n, compilation, ours, stumpy, wallRatio, cpuRatio, difference } of rows) {
    const own = `${seconds(ours.wall)}${seconds(ours.cpu)}`;
    const other = `${seconds(stumpy?.wall)}${seconds(stumpy?.cpu)}`;
    const gap = difference === null ? '' : difference.toExponential(1);
    console.log(
      `${String(n).padEnd(9)}${compilation.padEnd(12)}${own}${other}${times(wallRatio)}${times(cpuRatio)}   ${gap}`,
    );
  }
}

await main();
