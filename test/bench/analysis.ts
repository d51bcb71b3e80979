/**
 * Milliseconds per analysis of one noisy series of 1000 samples, after warm-up, and of all of them together:
 * npx tsx test/bench/analysis.ts
 */
import { loadavg } from 'node:os';
import { nano5 } from '../../datasets/anomaly/nano5.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { nanoTeacher } from '../../src/expcot/nano.ts';
import { blind, teacher } from '../../src/expcot/trace.ts';
import { frequencyTest, profileTest, rangeTest, trendTest } from '../../src/series/analyses.ts';
import { autocorrelation, bartlettBands } from '../../src/series/autocorrelation.ts';
import { cusumShifts, cusumTest } from '../../src/series/cusum.ts';
import { decompose } from '../../src/series/decompose.ts';
import { hampel } from '../../src/series/hampel.ts';
import { isolationOfWindows } from '../../src/series/isolation-forest.ts';
import { matrixProfile } from '../../src/series/matrix-profile.ts';
import { topDiscords, topMotifs } from '../../src/series/motifs.ts';
import { pelt } from '../../src/series/pelt.ts';
import { periodogram, spectrogram, welch } from '../../src/series/power.ts';
import { outlierIndices, summariseRobustly } from '../../src/series/robust.ts';
import { savgol } from '../../src/series/savgol.ts';
import { spectralResidual } from '../../src/series/spectral-residual.ts';
import { slidingPeriods } from '../../src/series/spectrum.ts';
import { stationarityTest, unitRootTest } from '../../src/series/stationarity.ts';
import { summarise } from '../../src/series/stats.ts';
import { stl } from '../../src/series/stl.ts';
import { mannKendall, theilSen } from '../../src/series/trend.ts';

const series = Array.from({ length: 50 }, (_, index) => nano5(3407, 'train', index));
let sink = 0;

function measure(name: string, work: (index: number) => unknown): number {
  for (let i = 0; i < 100; i++) if (work(i % series.length) === undefined) sink++;
  const rounds: number[] = [];
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    for (let i = 0; i < 50; i++) if (work(i % series.length) === undefined) sink++;
    rounds.push((performance.now() - start) / 50);
  }
  rounds.sort((a, b) => a - b);
  const middle = rounds[2]!;
  console.log(`${name.padEnd(36)} ${middle.toFixed(3)} ms (fastest round ${rounds[0]!.toFixed(3)})`);
  return middle;
}

const values = (index: number) => series[index]!.values;
const four = [
  measure('range test', (i) => rangeTest(values(i))),
  measure('trend test', (i) => trendTest(values(i))),
  measure('frequency test', (i) => frequencyTest(values(i))),
  measure('matrix profile test', (i) => profileTest(values(i))),
];
console.log(`${'the four tests'.padEnd(36)} ${four.reduce((sum, ms) => sum + ms, 0).toFixed(3)} ms`);
measure('base and noise', (i) => analyse(values(i)).base);
measure('nano target, family not cited', (i) => nanoTeacher(analyse(values(i)), series[i]!, { cite: false }));
measure('nano target, family cited', (i) => nanoTeacher(analyse(values(i)), series[i]!));
measure('teacher trace', (i) => teacher(analyse(values(i)), series[i]!.intervals, series[i]!.class));
measure('blind trace', (i) => blind(analyse(values(i))));

/** The classical analyses, each with its defaults; the period is that of the base wave. */
const PERIOD = 25;
const classical = {
  'summary and robust statistics': (x: Float64Array) => [
    summarise(x),
    summariseRobustly(x),
    outlierIndices(x),
  ],
  'unit root (ADF)': (x: Float64Array) => unitRootTest(x),
  'stationarity (KPSS)': (x: Float64Array) => stationarityTest(x),
  'Mann–Kendall': (x: Float64Array) => mannKendall(x),
  'Theil–Sen': (x: Float64Array) => theilSen(x),
  'autocorrelation, bands': (x: Float64Array) => bartlettBands(autocorrelation(x, { lags: 100 }), x.length),
  'classical decomposition': (x: Float64Array) => decompose(x, PERIOD),
  STL: (x: Float64Array) => stl(x, { period: PERIOD }),
  'STL, robust': (x: Float64Array) => stl(x, { period: PERIOD, robust: true }),
  'change points (PELT)': (x: Float64Array) => pelt(x),
  CUSUM: (x: Float64Array) => [cusumTest(x), cusumShifts(x)],
  'periodogram, Welch': (x: Float64Array) => [periodogram(x), welch(x)],
  spectrogram: (x: Float64Array) => spectrogram(x, { segment: 128, overlap: 64 }),
  'sliding dominant period': (x: Float64Array) => slidingPeriods(x, 100),
  'spectral residual': (x: Float64Array) => spectralResidual(x),
  'matrix profile': (x: Float64Array) => matrixProfile(x, { window: 50 }),
  'motifs and discords': (x: Float64Array, i: number) => [
    topMotifs(x, profiles[i]!, 3),
    topDiscords(profiles[i]!, 3),
  ],
  'Savitzky–Golay': (x: Float64Array) => savgol(x, { window: 21, order: 2 }),
  Hampel: (x: Float64Array) => hampel(x),
} as const;
const profiles = series.map((one) => matrixProfile(one.values, { window: 50 }));

console.log();
let total = 0;
for (const [name, analysis] of Object.entries(classical))
  total += measure(name, (i) => analysis(values(i), i));
console.log(`${'all of these'.padEnd(36)} ${total.toFixed(3)} ms (target: below 20)`);
measure('isolation forest, windows of 8', (i) => isolationOfWindows(values(i), 8));
console.log(`load of the machine ${loadavg()[0]!.toFixed(1)}; wall clock, so a busy machine reads high`);
if (sink > 0) console.log(`${sink} analyses did not apply`);
