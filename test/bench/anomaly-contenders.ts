/** What is compared: the detector, classical scores with every setting that they are tried with, random places, and everything. */
import { DEFAULT_SEVERITY, detect } from '../../src/detect/detect.ts';
import { type Detection, LEVELS } from '../../src/detect/finding.ts';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import {
  deviationScore,
  onSamples,
  type Peak,
  type Placement,
  peaks,
  smoothed,
  spectralScore,
  stlScore,
  subPca,
  windowDiscords,
  windowIsolation,
} from '../../src/series/point-scores.ts';
import { dominantPeriod } from '../../src/series/spectrum.ts';
import { moments } from '../../src/series/stats.ts';
import type { Case } from './anomaly-shapes.ts';

/** How intervals are read off a score. */
export interface Reading {
  /** Samples over which the score is averaged. */
  readonly smooth: number;
  readonly share: number;
}

const READINGS: readonly Reading[] = [1, 7, 25].flatMap((smooth) =>
  [0.3, 0.6, 0.85].map((share) => ({ smooth, share })),
);
/** Samples below the level that do not end an interval. */
const GAP = 5;

/** The most pronounced stretches of a score, by falling height. */
export function read(
  score: Float64Array,
  { smooth, share }: Reading,
  count: number,
  taken: readonly Interval[] = [],
): Peak[] {
  return peaks(smoothed(score, smooth), { count, share, gap: Math.max(GAP, smooth >> 1), taken });
}

export interface Setting {
  readonly name: string;
  readonly score: (one: Prepared) => Float64Array;
}

/** A case with what the detector says about it. */
export interface Prepared extends Case {
  readonly detection: Detection;
  /** Samples of a cycle for the peers: the season that the detector found, or the strongest period; null where there is none. */
  readonly season: number | null;
  /** Milliseconds that the detector took. */
  readonly took: number;
}

export function prepare(one: Case): Prepared {
  const began = performance.now();
  // The weaker ones fill up an equal number of alarms; findings are those from the default severity on.
  const detection = detect(one.values, { calendar: one.calendar, severity: LEVELS.low });
  const took = performance.now() - began;
  const strongest = dominantPeriod(one.values, moments(one.values).mean);
  const usable = Number.isFinite(strongest) && strongest >= 4 && strongest <= one.values.length / 4;
  return { ...one, detection, took, season: detection.seasons[0] ?? (usable ? strongest : null) };
}

/** What the detector reports by default, most severe first. */
export const reported = ({ detection }: Prepared): readonly Interval[] =>
  detection.findings
    .filter(({ severity }) => severity >= DEFAULT_SEVERITY)
    .map(({ start, end }) => [start, end] as const);

/** Samples of a window that is `factor` seasons long; 64 stand for a season where there is none. */
function windowOf({ season, values }: Prepared, factor: number): number {
  const most = Math.max(4, values.length >> 3);
  return Math.min(most, Math.max(8, Math.round(factor * (season ?? 64))));
}

const FACTORS = [0.25, 0.5, 1] as const;
const PLACEMENTS: readonly Placement[] = ['spread', 'centre'];

/** Settings of a method that scores windows; those that differ in the placement alone score them once. */
const windowed = (score: (values: Float64Array, window: number) => Float64Array): Setting[] =>
  FACTORS.flatMap((factor) => {
    let last: { readonly one: Prepared; readonly scores: Float64Array } | null = null;
    const scoresOf = (one: Prepared): Float64Array => {
      if (last?.one !== one) last = { one, scores: score(one.values, windowOf(one, factor)) };
      return last.scores;
    };
    return PLACEMENTS.map((placement) => ({
      name: `${factor} of a season, ${placement}`,
      score: (one: Prepared) => onSamples(scoresOf(one), windowOf(one, factor), one.values.length, placement),
    }));
  });

/** The peers by name, each with all settings that it may be chosen from. */
export const PEERS: Readonly<Record<string, readonly Setting[]>> = {
  'largest |z|': [{ name: 'plain', score: ({ values }) => deviationScore(values) }],
  'STL residual': [false, true].map((robust) => ({
    name: robust ? 'robust' : 'plain',
    score: ({ values, season }) => stlScore(values, season, robust),
  })),
  'isolation forest': windowed(windowIsolation),
  discords: windowed(windowDiscords),
  'spectral residual': [3, 9, 25].map((average) => ({
    name: `${average} frequencies`,
    score: ({ values }) => spectralScore(values, average),
  })),
  'sub-PCA': [0.6, 0.9].flatMap((explained) =>
    windowed((values, window) => subPca(values, { window, explained })).map((one) => ({
      ...one,
      name: `${one.name}, ${explained} explained`,
    })),
  ),
};

/** The detector's own score, read as those of the peers are. */
export const OWN_SCORE: readonly Setting[] = [{ name: 'plain', score: ({ detection }) => detection.score }];

export { READINGS };

/** `count` alarms of the detector: its findings, most severe first, and then what stands out of its score beside them. */
export function ownAlarms(one: Prepared, count: number): Interval[] {
  const found = one.detection.findings.map(({ start, end }): Interval => [start, end]).slice(0, count);
  if (found.length === count) return found;
  const rest = read(one.detection.score, { smooth: 1, share: 0.6 }, count - found.length, found);
  return [...found, ...rest.map(({ interval }) => interval)];
}

/** As many intervals as the detector's alarms and as long, at random places. */
export function randomAlarms(one: Prepared, count: number): Interval[] {
  const random = new Random(0, `random/${one.name}`);
  const n = one.values.length;
  return ownAlarms(one, count).map(([start, end]): Interval => {
    const at = random.integer(0, n - (end - start));
    return [at, at + end - start];
  });
}

export const everything = (one: Prepared): Interval[] => [[0, one.values.length]];
