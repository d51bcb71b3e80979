/** Comparison of generated windows with real ones: are they alike, and are they more than copies. */
import { mean } from '../ground/numbers.ts';
import { fitMiniRocket, MiniRocketTransform } from '../series/mini-rocket.ts';
import { fitRidge, ridgeClass } from '../series/ridge.ts';
import { autocorrelation, periodogram } from '../series/spectrum.ts';
import { moments } from '../series/stats.ts';

type Series = readonly Float64Array[];

/** A statistic of real windows and of generated ones; of a distance: to held-out windows, of the training windows and of generated ones. */
interface Pair {
  readonly real: number;
  readonly generated: number;
}

export interface Likeness {
  /** Mean of the values, and mean over windows of their standard deviation. */
  readonly mean: Pair;
  readonly spread: Pair;
  /** Largest difference between the mean autocorrelations up to a quarter of the window, in [0, 2]. */
  readonly autocorrelation: Pair;
  /** Root mean square of the differences between the mean spectra in bands, in dB. */
  readonly spectral: Pair;
  /** |accuracy − 0.5| of a classifier (MiniRocket, ridge) of real and generated: 0, not told apart; 0.5, always. */
  readonly discriminative: Pair;
  /** Mean distance to the nearest training window, per sample and in standard deviations of the real values; near 0: copies. */
  readonly nearest: Pair;
}

const BANDS = 20;
/** Features of the classifier: few, because windows are few. */
const FEATURES = 840;

/** Mean share of the power in bands whose edges are even in the logarithm of the frequency, in dB. */
function bandPowers(windows: Series): Float64Array {
  const bands = new Float64Array(BANDS);
  for (const values of windows) {
    const { power } = periodogram(values);
    const total = power.reduce((sum, value) => sum + value, 0) || 1;
    for (let k = 1; k < power.length; k++) {
      const band = Math.floor((BANDS * Math.log(k)) / Math.log(power.length));
      bands[band] = bands[band]! + power[k]! / total / windows.length;
    }
  }
  return bands.map((share) => 10 * Math.log10(share + 1e-6));
}

function spectralDistance(a: Series, b: Series): number {
  const [left, right] = [bandPowers(a), bandPowers(b)];
  return Math.sqrt(mean(left.map((value, k) => (value - right[k]!) ** 2)));
}

function correlations(windows: Series): Float64Array {
  const lags = Math.floor(windows[0]!.length / 4);
  const sums = new Float64Array(lags + 1);
  for (const values of windows) {
    if (moments(values).std === 0) continue;
    autocorrelation(values, { lags }).forEach((value, lag) => {
      sums[lag] = sums[lag]! + value / windows.length;
    });
  }
  return sums;
}

/** Distance of a window to the nearest of others, root mean square per sample. */
export function nearestDistance(window: Float64Array, others: Series): number {
  let least = Number.POSITIVE_INFINITY;
  for (const other of others) {
    let sum = 0;
    for (let t = 0; t < window.length && sum < least; t++) sum += (window[t]! - other[t]!) ** 2;
    least = Math.min(least, sum);
  }
  return Math.sqrt(least / window.length);
}

/** Error of telling real from other windows; the classifier learns from the first half of both and is judged by the second. */
async function discriminative(real: Series, others: Series): Promise<number> {
  const rows = [real, others].flatMap((windows, label) =>
    windows.map((values, i) => ({
      channels: { values, length: values.length },
      label: String(label),
      judged: 2 * i >= windows.length,
    })),
  );
  const learned = rows.filter(({ judged }) => !judged);
  const model = fitMiniRocket(
    learned.map(({ channels }) => channels),
    { features: FEATURES, seed: 0 },
  );
  const transform = new MiniRocketTransform(model);
  const ridge = await fitRidge(
    learned.map(({ channels }) => transform.features(channels)),
    learned.map(({ label }) => label),
  );
  const judged = rows.filter((row) => row.judged);
  const right = judged.filter(
    ({ channels, label }) => ridgeClass(ridge, transform.features(channels)) === label,
  );
  return Math.abs(right.length / judged.length - 0.5);
}

/** Evenly spaced windows, at most `count`. */
const spaced = (windows: Series, count: number): Series =>
  windows.length <= count
    ? windows
    : Array.from({ length: count }, (_, i) => windows[Math.floor((i * windows.length) / count)]!);

/**
 * Compares generated windows with real ones that nothing was learned from.
 * @param real held-out windows @param training windows that the background learned from; both in the order of the recording
 */
export async function likeness(real: Series, generated: Series, training: Series): Promise<Likeness> {
  const count = Math.min(real.length, generated.length, training.length);
  const [ours, theirs, known] = [real, generated, training].map((windows) => spaced(windows, count)) as [
    Series,
    Series,
    Series,
  ];
  const valuesOf = (windows: Series) => moments(Float64Array.from(windows.flatMap((window) => [...window])));
  const { mean: centre, std } = valuesOf(real);
  const spreadOf = (windows: Series) => mean(windows.map((window) => moments(window).std));
  const near = (windows: Series) =>
    mean(windows.map((window) => nearestDistance(window, training))) / (std || 1);
  const correlated = correlations(ours);
  const apart = (windows: Series) =>
    correlations(windows).reduce((most, value, lag) => Math.max(most, Math.abs(value - correlated[lag]!)), 0);
  return {
    mean: { real: centre, generated: valuesOf(theirs).mean },
    spread: { real: spreadOf(ours), generated: spreadOf(theirs) },
    autocorrelation: { real: apart(known), generated: apart(theirs) },
    spectral: { real: spectralDistance(ours, known), generated: spectralDistance(ours, theirs) },
    discriminative: {
      real: await discriminative(ours, known),
      generated: await discriminative(ours, theirs),
    },
    nearest: { real: near(ours), generated: near(theirs) },
  };
}
