/**
 * Anomaly baselines that score every sample; samples whose score exceeds a threshold are anomalous. The threshold is the one with the
 * highest mean reward on validation examples, or the published default where there are none; held-out labels have no part in it.
 *
 * Scores with a unit of their own (standard deviations, scaled MADs, multiples of the local mean saliency) are compared with it as they
 * are. The others are standardised over their series first, so a threshold counts standard deviations above the mean score; 3 by default,
 * as in TSB-UAD (Paparrizos et al. 2022). Windows are as long as the strongest period, 64 samples without one; the score of a window
 * is that of the sample in its middle.
 */
import { DEFAULT_SEVERITY, detect } from '../detect/detect.ts';
import { LEVELS } from '../detect/finding.ts';
import type { AnomalyClass, AnomalyGold } from '../ground/types.ts';
import { runs } from '../series/intervals.ts';
import {
  deviationScore,
  onSamples,
  spectralScore,
  stlScore,
  subPca,
  windowDiscords,
  windowIsolation,
} from '../series/point-scores.ts';
import { hampelScore } from '../series/robust.ts';
import { dominantPeriod } from '../series/spectrum.ts';
import { moments } from '../series/stats.ts';

export interface PointScore {
  /** Scores one channel [N] of finite values: ≥ 0, finite, higher is more anomalous. */
  readonly scores: (values: Float64Array) => Float64Array;
  /** True where scores are standardised over the series before they are compared with the threshold. */
  readonly standardised: boolean;
  /** Threshold without validation examples. */
  readonly threshold: number;
  readonly source: string;
  /** Class of its answers, as AnomSeer assigns analyses to classes. */
  readonly finds: AnomalyClass;
  /** True where runs try it beside their policies, though it takes longer than the quick baselines. */
  readonly inRuns?: true;
}

/** Samples of the strongest period, null where there is none of 4 samples to a quarter of the series. */
function season(values: Float64Array): number | null {
  if (values.length < 16) return null;
  const period = dominantPeriod(values, moments(values).mean);
  return Number.isFinite(period) && period >= 4 && period <= values.length / 4 ? period : null;
}

/** Samples of a window. */
const windowOf = (values: Float64Array): number =>
  Math.min(Math.max(4, values.length >> 3), Math.max(8, Math.round(season(values) ?? 64)));

const overWindows =
  (score: (values: Float64Array, window: number) => Float64Array) =>
  (values: Float64Array): Float64Array => {
    const window = windowOf(values);
    if (values.length < 2 * window) return new Float64Array(values.length);
    return onSamples(score(values, window), window, values.length, 'centre');
  };

const STANDARD = { standardised: true, threshold: 3, source: 'TSB-UAD: mean + 3 σ of the scores' } as const;

export const POINT_SCORES: Readonly<Record<string, PointScore>> = {
  'three-sigma': {
    scores: deviationScore,
    ...{ standardised: false, threshold: 3, source: 'three standard deviations', finds: 'global point' },
  },
  hampel: {
    scores: (values) => hampelScore(values),
    ...{
      standardised: false,
      threshold: 3,
      source: 'three scaled MADs (Pearson 2002)',
      finds: 'contextual point',
    },
  },
  'spectral-residual': {
    scores: (values) => spectralScore(values, 3),
    ...{ standardised: false, threshold: 3, source: 'Ren et al. 2019', finds: 'contextual point' },
  },
  'matrix-profile': {
    scores: overWindows(windowDiscords),
    ...STANDARD,
    finds: 'contextual point',
  },
  'isolation-forest': {
    scores: overWindows(windowIsolation),
    ...STANDARD,
    finds: 'shapelet',
  },
  'seasonal-residual': {
    scores: (values) => stlScore(values, season(values), true),
    ...STANDARD,
    finds: 'seasonal',
  },
  'sub-pca': {
    scores: overWindows((values, window) => subPca(values, { window })),
    ...STANDARD,
    finds: 'shapelet',
  },
  'timeseer-detect': {
    scores: (values) =>
      values.length < 2 ? new Float64Array(values.length) : detect(values, { severity: LEVELS.low }).score,
    ...{
      standardised: false,
      threshold: DEFAULT_SEVERITY,
      source: 'its default severity',
      finds: 'contextual point',
      inRuns: true,
    },
  },
};

/** Thresholds to choose from, beside the default. */
export const THRESHOLDS: readonly number[] = [1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 15, 20];

/** Scores on the scale of the threshold. */
export function comparable({ scores, standardised }: PointScore, values: Float64Array): Float64Array {
  const raw = scores(values);
  if (!standardised) return raw;
  const { mean, std } = moments(raw);
  return raw.map((score) => (std > 0 ? (score - mean) / std : 0));
}

/** The answer of comparable scores at a threshold. */
export function answerAbove({ finds }: PointScore, scores: Float64Array, threshold: number): AnomalyGold {
  const intervals = runs(scores.length, (i) => scores[i]! > threshold);
  return { kind: 'anomaly', intervals, class: intervals.length === 0 ? 'normal' : finds };
}
