/**
 * Milliseconds per series of every classical analysis (1000 samples) and of expert traces, against statsmodels, SciPy and others in
 * turns, and of the detector: npm run bench -- analysis. Alone: npx tsx test/bench/analysis.ts [--only detect] [--rounds N] [--plain],
 * `--plain` without SIMD kernels; commands are run from the built program (`--program FILE`). Python with those is `python3`, or what TIMESEER_PYTHON names; without it the comparison is
 * skipped, and said so.
 *
 * Every figure is the median of rounds over 20 series, after warm-up. Processor time beside the wall clock tells how much of it was waiting
 * for a busy machine, and a fixed kernel between the rounds how fast the machine was at the time.
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ANOMLLM_TASKS } from '../../datasets/generators/anomllm.ts';
import { detect } from '../../src/detect/detect.ts';
import { learnClasses } from '../../src/expcot/class-profile.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { nanoTeacher } from '../../src/expcot/nano.ts';
import { Random } from '../../src/ground/random.ts';
import type { Example } from '../../src/ground/types.ts';
import { frequencyTest, profileTest, rangeTest, trendTest } from '../../src/series/analyses.ts';
import { cusumShifts, cusumTest, pelt } from '../../src/series/change-points.ts';
import { decompose, stl } from '../../src/series/decompose.ts';
import { isolationOfWindows } from '../../src/series/isolation-forest.ts';
import { matrixProfile, topDiscords, topMotifs } from '../../src/series/matrix-profile.ts';
import { spectralResidual } from '../../src/series/point-scores.ts';
import { hampel, outlierIndices, summariseRobustly } from '../../src/series/robust.ts';
import { savgol } from '../../src/series/savgol.ts';
import {
  autocorrelation,
  bartlettBands,
  periodogram,
  slidingPeriods,
  spectrogram,
  welch,
} from '../../src/series/spectrum.ts';
import { stationarityTest, unitRootTest } from '../../src/series/stationarity.ts';
import { summarise } from '../../src/series/stats.ts';
import { mannKendall, theilSen } from '../../src/series/trend.ts';
import { blindTrace, teacherTrace } from '../../src/tasks/kinds.ts';
import { anomllm, nano5 } from '../helpers/series.ts';
import { median, table } from './measure.ts';
import { openPeer, type Peer } from './peer.ts';

/** The project's own limit for all analyses of one series. */
const TARGET = 20;
const SERIES = 20;
/** Samples per season of the decompositions. */
const PERIOD = 25;
/** Nanoseconds per step of the kernel on a quiet core of the machine that NOTES.md names. */
const QUIET = 0.82;

interface Spent {
  /** Milliseconds per series. */
  readonly wall: number;
  readonly cpu: number;
}

interface Row {
  readonly name: string;
  readonly ours: Spent;
  readonly fastest: number;
  readonly peer: Spent | null;
  /** Peer over ours in the same round, wall clock, median over the rounds. */
  readonly ratio: number | null;
}

const kernelInput = Float64Array.from({ length: 1024 }, (_, i) => Math.sin(i));
/** Nanoseconds per multiplication and addition of a loop like those of the analyses: four sums over an array that fits the nearest cache. */
function kernel(): number {
  const x = kernelInput;
  const began = performance.now();
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const rounds = 500;
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i + 3 < x.length; i += 4) {
      a += x[i]! * x[i]!;
      b += x[i + 1]! * x[i]!;
      c += x[i + 2]! * x[i]!;
      d += x[i + 3]! * x[i]!;
    }
  }
  // The sums are looked at, or the compiler might leave them out.
  if (Number.isNaN(a + b + c + d)) throw new RangeError('the kernel lost its numbers');
  return ((performance.now() - began) * 1e6) / (rounds * x.length);
}

const speeds: number[] = [];

function once(work: (index: number) => unknown, count: number): Spent {
  const cpu = process.cpuUsage();
  const began = performance.now();
  for (let i = 0; i < count; i++) work(i);
  const wall = performance.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  return { wall: wall / count, cpu: (user + system) / 1000 / count };
}

const middle = (all: readonly Spent[]): Spent => ({
  wall: median(all.map(({ wall }) => wall)),
  cpu: median(all.map(({ cpu }) => cpu)),
});

async function measure(
  name: string,
  rounds: number,
  count: number,
  work: (index: number) => unknown,
  ask: ((name: string) => Promise<Spent | null>) | null = null,
): Promise<Row> {
  // The compiler takes its time: at least half a second, and a few hundred calls.
  for (let spent = 0, calls = 0; spent < 500 && calls < 400; calls += count)
    spent += count * once(work, count).wall;
  const known = ask === null ? null : await ask(name);
  const mine: Spent[] = [];
  const theirs: Spent[] = [];
  for (let round = 0; round < rounds; round++) {
    speeds.push(kernel());
    mine.push(once(work, count));
    if (ask !== null && known !== null) theirs.push((await ask(name))!);
  }
  return {
    name,
    ours: middle(mine),
    fastest: Math.min(...mine.map(({ wall }) => wall)),
    peer: theirs.length === 0 ? null : middle(theirs),
    ratio: theirs.length === 0 ? null : median(theirs.map(({ wall }, round) => wall / mine[round]!.wall)),
  };
}

const series = Array.from({ length: SERIES }, (_, index) => nano5(3407, 'train', index));
const values = (index: number): Float64Array => series[index]!.values;
const profiles = series.map((one) => matrixProfile(one.values, { window: 50 }));

/** The classical analyses, each with its defaults. */
const CLASSICAL: Readonly<Record<string, (x: Float64Array, index: number) => unknown>> = {
  'summary and robust statistics': (x) => [summarise(x), summariseRobustly(x), outlierIndices(x)],
  'unit root (ADF)': (x) => unitRootTest(x),
  'stationarity (KPSS)': (x) => stationarityTest(x),
  'Mann–Kendall': (x) => mannKendall(x),
  'Theil–Sen': (x) => theilSen(x),
  'autocorrelation, bands': (x) => bartlettBands(autocorrelation(x, { lags: 100 }), x.length),
  'classical decomposition': (x) => decompose(x, PERIOD),
  STL: (x) => stl(x, { period: PERIOD }),
  'STL, robust': (x) => stl(x, { period: PERIOD, robust: true }),
  'change points (PELT)': (x) => pelt(x),
  CUSUM: (x) => [cusumTest(x), cusumShifts(x)],
  'periodogram, Welch': (x) => [periodogram(x), welch(x)],
  spectrogram: (x) => spectrogram(x, { segment: 128, overlap: 64 }),
  'sliding dominant period': (x) => slidingPeriods(x, 100),
  'spectral residual': (x) => spectralResidual(x),
  'matrix profile': (x) => matrixProfile(x, { window: 50 }),
  'motifs and discords': (x, i) => [topMotifs(x, profiles[i]!, 3), topDiscords(profiles[i]!, 3)],
  'Savitzky–Golay': (x) => savgol(x, { window: 21, order: 2 }),
  Hampel: (x) => hampel(x),
};
const FOREST = 'isolation forest, windows of 8';

const anomalies: readonly Example[] = ANOMLLM_TASKS.flatMap((task) =>
  Array.from({ length: 5 }, (_, index): Example => {
    const { id, values: own, intervals, class: kind } = anomllm(task, 3407, 'train', index);
    const gold = { kind: 'anomaly', class: kind, intervals } as const;
    return { id, task, channels: [own], names: ['value'], times: null, gold, recording: null };
  }),
);

/** Waves of three shapes under noise: [C][N] each. */
function classes(length: number, channels: number): Example[] {
  return Array.from({ length: 45 }, (_, index): Example => {
    const random = new Random(7, 'analysis-bench', index);
    const shape = index % 3;
    const own = Array.from({ length: channels }, (_, c) =>
      Float64Array.from({ length }, (_, t) => {
        return Math.sin(t * (0.05 + 0.03 * shape) * (c + 1)) ** (2 * shape + 1) + random.normal(0, 0.2);
      }),
    );
    const names = own.map((_, c) => `x${c}`);
    const gold = { kind: 'classification', class: `shape ${shape}` } as const;
    return { id: String(index), task: 'waves', channels: own, names, times: null, gold, recording: null };
  });
}

async function traces(rounds: number): Promise<Row[]> {
  const rows = [
    await measure('range test', rounds, SERIES, (i) => rangeTest(values(i))),
    await measure('trend test', rounds, SERIES, (i) => trendTest(values(i))),
    await measure('frequency test', rounds, SERIES, (i) => frequencyTest(values(i))),
    await measure('matrix profile test', rounds, SERIES, (i) => profileTest(values(i))),
    await measure('base and noise', rounds, SERIES, (i) => analyse(values(i)).base),
    await measure('nano target', rounds, SERIES, (i) => nanoTeacher(analyse(values(i)), series[i]!)),
  ];
  for (const [name, examples] of [
    ['AnomLLM, 1000 samples', anomalies],
    ['3 classes, 3 × 128 samples', classes(128, 3)],
    ['3 classes, 1500 samples', classes(1500, 1)],
  ] as const) {
    const kind = examples[0]!.gold.kind;
    const profile = kind === 'classification' ? learnClasses(examples) : null;
    const count = examples.length;
    rows.push(
      await measure(`teacher trace: ${name}`, rounds, count, (i) => teacherTrace(examples[i]!, profile)),
      await measure(`blind trace: ${name}`, rounds, count, (i) => blindTrace(examples[i]!, kind, profile)),
    );
  }
  return rows;
}

/** Kinds of series that the detector is timed on. */
const KINDS: Readonly<Record<string, (random: Random, n: number) => (i: number) => number>> = {
  'sine and noise': (random) => (i) => 20 + 5 * Math.sin(i / 45.8) + 0.3 * random.normal(),
  'heavy tails': (random) => () => random.normal() / Math.max(0.02, Math.abs(random.normal())),
  'random walk': (random) => {
    let level = 0;
    return () => {
      level += random.normal();
      return level;
    };
  },
  'day and week': (random) => (i) =>
    3 * Math.sin(i / 3.82) + 8 * Math.sin(i / 26.7) - (i % 168 > 120 ? 6 : 0) + random.normal(),
  'level shifts': (random, n) => (i) =>
    Math.sin(i / 16) + (i > 0.4 * n ? 4 : 0) - (i > 0.7 * n ? 6 : 0) + 0.3 * random.normal(),
  counts: (random) => (i) => Math.round(Math.max(0, 3 + 2 * Math.sin(i / 23) + 1.7 * random.normal())),
};
const SIZES = [2000, 100_000] as const;

function seriesOfKind(kind: string, n: number): Float64Array {
  const at = KINDS[kind]!(new Random(n, `analysis-bench/${kind}`), n);
  return Float64Array.from({ length: n }, (_, i) => at(i));
}

/** The detector in this process; limits are 40 ms for 2000 samples and, for the whole command, 2 s for 100 000. */
async function detections(rounds: number): Promise<Row[]> {
  const rows: Row[] = [];
  // Each kind takes other paths, which are compiled by use and not by time.
  for (let k = 0; k < 10; k++) for (const kind of Object.keys(KINDS)) detect(seriesOfKind(kind, SIZES[0]));
  for (const n of SIZES) {
    for (const kind of Object.keys(KINDS)) {
      const given = seriesOfKind(kind, n);
      rows.push(await measure(`detect, ${n}: ${kind}`, rounds, 1, () => detect(given)));
    }
  }
  return rows;
}

/** Processor time of whole commands on 100 000 rows, in seconds: the median of rounds. */
function commands(rounds: number, program: string, directory: string): string {
  const spent = (args: readonly string[]): number => {
    const quoted = [process.execPath, program, ...args].map((word) => `'${word}'`).join(' ');
    // 1 tells findings; more is an error.
    const timed = `TIMEFORMAT='%U %S'; { time ${quoted} > /dev/null 2>&1; } 2>&1; [ $? -le 1 ]`;
    const out = execFileSync('bash', ['-c', timed], { encoding: 'utf8' });
    const [user, system] = out.trim().split('\n').at(-1)!.split(' ').map(Number);
    return user! + system!;
  };
  const rows = Object.keys(KINDS).map((kind, k) => {
    const file = join(directory, `${k}.csv`);
    const began = Date.UTC(2024, 0, 1);
    const lines = [...seriesOfKind(kind, 100_000)].map(
      (value, i) => `${new Date(began + 300_000 * i).toISOString()},${value.toFixed(3)}`,
    );
    writeFileSync(file, `time,value\n${lines.join('\n')}\n`);
    const of = (args: readonly string[]): string =>
      median(Array.from({ length: rounds }, () => spent(args))).toFixed(2);
    // Nearly all of an explanation is the policy's decoding, whatever the series.
    const explained = k > 0 ? '' : of(['explain', file, '--policy', 'small', '--out', join(directory, 'x')]);
    return [kind, of(['detect', file]), explained];
  });
  return table(['seconds of processor time, 100 000 rows', 'detect', 'explain'], rows);
}

function print(rows: readonly Row[]): void {
  const ms = (value: number | undefined): string => (value === undefined ? '–' : value.toFixed(3));
  console.log(
    table(
      ['ms per series', 'median', 'fastest', 'processor', 'peer', 'peer/ours'],
      rows.map(({ name, ours, fastest, peer, ratio }) => [
        name,
        ms(ours.wall),
        ms(fastest),
        ms(ours.cpu),
        ms(peer?.wall),
        ratio === null ? '–' : `${ratio.toFixed(ratio < 10 ? 1 : 0)}×`,
      ]),
    ),
  );
}

async function main(): Promise<void> {
  const { values: given } = parseArgs({
    options: {
      rounds: { type: 'string', default: '9' },
      'no-peer': { type: 'boolean', default: false },
      only: { type: 'string' },
      plain: { type: 'boolean', default: false },
      program: { type: 'string', default: join(import.meta.dirname, '../../dist/src/cli.js') },
    },
  });
  const rounds = Number(given.rounds);
  if (given.plain) Reflect.deleteProperty(globalThis, 'WebAssembly');
  for (let i = 0; i < 500; i++) kernel();
  const directory = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
  if (given.only === 'detect') {
    print(await detections(rounds));
    console.log(`\n${commands(Math.min(3, rounds), given.program, directory)}`);
    rmSync(directory, { recursive: true });
    return;
  }
  const peer: Peer<Spent | null> | string = given['no-peer']
    ? 'not asked for'
    : await openPeer<Spent | null>('Python', 'analysis', 1, []);
  try {
    const file = join(directory, 'series.f64');
    const all = Float64Array.from(series.flatMap((one) => [...one.values]));
    writeFileSync(file, new Uint8Array(all.buffer));
    const length = values(0).length;
    const ask =
      typeof peer === 'string'
        ? null
        : async (analysis: string) => (await peer.ask(JSON.stringify({ file, length, analysis })))[0]!;
    console.log(typeof peer === 'string' ? `peers SKIPPED: ${peer}` : `peers: ${peer.versions}, one thread`);

    print(await traces(rounds));
    console.log();
    print(await detections(Math.min(3, rounds)));
    console.log();
    const rows: Row[] = [];
    for (const [name, analysis] of Object.entries(CLASSICAL)) {
      rows.push(await measure(name, rounds, SERIES, (i) => analysis(values(i), i), ask));
    }
    const sum = (of: (row: Row) => number): number => rows.reduce((total, row) => total + of(row), 0);
    const total = {
      name: 'all of these',
      ours: { wall: sum(({ ours }) => ours.wall), cpu: sum(({ ours }) => ours.cpu) },
      fastest: sum(({ fastest }) => fastest),
      peer: null,
      ratio: null,
    };
    const forest = await measure(FOREST, rounds, SERIES, (i) => isolationOfWindows(values(i), 8), ask);
    print([...rows, total, forest]);

    const speed = median(speeds);
    const slower = speed / QUIET;
    const { wall, cpu } = total.ours;
    console.log(
      `\nall analyses of ${length} samples: ${wall.toFixed(1)} ms, target ${TARGET}: ${wall < TARGET ? 'met' : 'MISSED'}`,
    );
    // A busy machine lets a program wait, and may slow down what runs: processor time tells the one, the kernel the other.
    console.log(
      `${cpu.toFixed(1)} ms of it is processor time, the rest waiting (load ${loadavg()[0]!.toFixed(1)}); the kernel takes ${speed.toFixed(2)} ns per step, ` +
        `${slower.toFixed(2)}× as on a quiet core (${QUIET}), where the sum would be about ${(cpu / slower).toFixed(1)} ms`,
    );
  } finally {
    if (typeof peer !== 'string') await peer.close();
    rmSync(directory, { recursive: true });
  }
}

await main();
