/**
 * 1-NN classification by dynamic time warping against aeon on the same cores:
 * npm run bench -- dtw [--rounds N] [--queries N] [--data DIR] [--json]. Python with aeon is `python3`, or what TIMESEER_PYTHON names; without
 * it the comparison is skipped, and said so.
 *
 * Household computers of the UCR archive (250 × 250 series of 720 samples) from DIR/timerbed/ctu, default `../shared/data`, or noisy
 * waves of the same size where they are not at hand. Compilation is excluded on both sides: by small problems before the clock
 * starts. The nearest neighbours of both must be the same.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { Random } from '../../src/ground/random.ts';
import { type Channels, joinChannels } from '../../src/series/dtw.ts';
import { NearestPool } from '../../src/series/nearest.ts';
import { labelOf } from '../../src/tasks/kinds.ts';
import { openPeer, type Peer } from './peer.ts';

const SIZE = 250;
const LENGTH = 720;
/** Window that the archive publishes for Computers. */
const LEARNED = 0.12;

interface Labelled {
  readonly series: Channels;
  readonly label: string;
}

interface Answer {
  readonly wall: number;
  readonly cpu: number;
  readonly nearest: readonly number[];
}

/** Seconds of wall clock and of processor time over all threads; on a shared machine the latter are the ones to compare. */
type Spent = Pick<Answer, 'wall' | 'cpu'>;

interface Row {
  readonly window: 'full' | '12 %';
  readonly ours: Spent;
  readonly aeon: Spent | null;
  /** aeon over ours in the same round, median over rounds. */
  readonly wallRatio: number | null;
  readonly cpuRatio: number | null;
  /** Share of the queries for which both find the same. */
  readonly same: number | null;
  readonly error: number | null;
}

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

const middle = (all: readonly Spent[]): Spent => ({
  wall: median(all.map(({ wall }) => wall)),
  cpu: median(all.map(({ cpu }) => cpu)),
});

const ratio = (mine: readonly Spent[], theirs: readonly Spent[], key: keyof Spent): number | null =>
  theirs.length === 0 ? null : median(theirs.map((one, i) => one[key] / mine[i]![key]));

function households(directory: string): Record<'train' | 'test', Labelled[]> {
  const all = [...benchmarkNamed('ctu').open({ directory }).load()];
  const of = (split: string): Labelled[] =>
    all.flatMap((one) =>
      one.split === split
        ? [{ series: joinChannels(one.example.channels), label: labelOf(one.example.gold) }]
        : [],
    );
  return { train: of('train'), test: of('test') };
}

function waves(): Record<'train' | 'test', Labelled[]> {
  const make = (split: string): Labelled[] =>
    Array.from({ length: SIZE }, (_, i) => {
      const random = new Random(i, `dtw-bench/${split}`);
      const values = Float64Array.from(
        { length: LENGTH },
        (_, t) => Math.sin(t / (20 + (i % 2) * 15)) + random.normal(0, 0.5),
      );
      return { series: { values, length: LENGTH }, label: String(i % 2) };
    });
  return { train: make('train'), test: make('test') };
}

function write(directory: string, name: string, all: readonly Labelled[]): string {
  const file = join(directory, `${name}.f64`);
  writeFileSync(
    file,
    Buffer.concat(all.map(({ series: { values } }) => new Uint8Array(values.slice().buffer))),
  );
  return file;
}

async function ours(pool: NearestPool, queries: readonly Labelled[], window: number): Promise<Answer> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  const found = await Promise.all(queries.map(({ series }) => pool.nearest(series, window)));
  const wall = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { wall, cpu: (user + system) / 1e6, nearest: found.map(({ index }) => index) };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '1' },
      queries: { type: 'string', default: String(SIZE) },
      data: { type: 'string', default: join(import.meta.dirname, '../../../shared/data') },
    },
  });
  const threads = availableParallelism();
  const folder = join(values.data, 'timerbed', 'ctu');
  const real = existsSync(folder);
  const { train, test } = real ? households(folder) : waves();
  const queries = test.slice(0, Number(values.queries));
  const directory = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
  const peer = await openPeer<Answer>('aeon', 'aeon_dtw', 1, []);
  const pool = new NearestPool(
    train.map(({ series }) => series),
    threads,
  );
  const before = loadavg()[0]!;
  const rows: Row[] = [];
  try {
    // Both threads have started, and their loops are compiled.
    await ours(pool, queries.slice(0, 2 * threads), Math.ceil(0.02 * LENGTH));
    const files = { train: write(directory, 'train', train), test: write(directory, 'test', queries) };
    for (const [window, part] of [
      ['full', null],
      ['12 %', LEARNED],
    ] as const) {
      const samples = part === null ? LENGTH : Math.ceil(part * LENGTH);
      // aeon cuts its window off to whole samples.
      const share = part === null ? null : (samples + 0.5) / LENGTH;
      const mine: Answer[] = [];
      const theirs: Answer[] = [];
      for (let round = 0; round < Number(values.rounds); round++) {
        mine.push(await ours(pool, queries, samples));
        if (typeof peer !== 'string')
          theirs.push(await asked(peer, files, train.length, queries.length, threads, share));
      }
      const found = mine[0]!.nearest;
      const wrong = queries.filter(({ label }, i) => train[found[i]!]!.label !== label).length;
      rows.push({
        window,
        ours: middle(mine),
        aeon: theirs.length === 0 ? null : middle(theirs),
        wallRatio: ratio(mine, theirs, 'wall'),
        cpuRatio: ratio(mine, theirs, 'cpu'),
        same:
          theirs.length === 0
            ? null
            : found.filter((index, i) => index === theirs[0]!.nearest[i]).length / queries.length,
        error: real ? wrong / queries.length : null,
      });
    }
  } finally {
    await pool.close();
    if (typeof peer !== 'string') await peer.close();
    rmSync(directory, { recursive: true });
  }
  const load = [before, loadavg()[0]!].map((value) => value.toFixed(1)).join(' → ');
  const versions = typeof peer === 'string' ? `SKIPPED: ${peer}` : peer.versions;
  const data = real ? 'Computers of the UCR archive' : 'noisy waves';
  if (values.json) {
    console.log(JSON.stringify({ aeon: versions, data, threads, queries: queries.length, load, rows }));
    return;
  }
  console.log(
    `aeon: ${versions}; ${data}, ${queries.length} queries among ${train.length} series of ${LENGTH}; ${threads} threads; load of the machine ${load}`,
  );
  const seconds = (one: Spent | null): string =>
    one === null ? '–' : `${one.wall.toFixed(2)} s (${one.cpu.toFixed(2)} s of processor time)`;
  for (const { window, ours: own, aeon, wallRatio, cpuRatio, same, error } of rows) {
    const notes = [
      ...(error === null ? [] : [`error ${error.toFixed(3)}`]),
      ...(wallRatio === null || cpuRatio === null || same === null
        ? []
        : [
            `ratio ${wallRatio.toFixed(2)}×, of processor time ${cpuRatio.toFixed(2)}×`,
            `same neighbours ${(100 * same).toFixed(1)} %`,
          ]),
    ];
    console.log(
      `window ${window.padEnd(5)} ours ${seconds(own)}   aeon ${seconds(aeon)}   ${notes.join(', ')}`,
    );
  }
}

async function asked(
  peer: Peer<Answer>,
  files: { readonly train: string; readonly test: string },
  n: number,
  m: number,
  threads: number,
  window: number | null,
): Promise<Answer> {
  return (await peer.ask(JSON.stringify({ ...files, n, m, length: LENGTH, threads, window })))[0]!;
}

await main();
