/**
 * Evidence for which variates of a series are unlike the others: how far each one lies from the middle of the group in the shape of
 * its cycle, in its spectrum and in its autocorrelation. Level, size, phase and speed of a wave do not count. Computed from values alone.
 */
import { DataError } from '../errors.ts';
import { dominantIndex, refineFrequency, spectrum } from '../series/spectrum.ts';
import { median, moments } from '../series/stats.ts';
import { type Bridged, bridge } from './gaps.ts';

/** Fewest points and variates of which there is something to compare. */
export const FEWEST_POINTS = 16;
export const FEWEST_VARIATES = 3;
/** Phases of a cycle whose means are its shape. */
const PHASES = 24;
/** Multiples of the dominant frequency whose amplitudes are the spectrum; the rest counts as one more. */
const HARMONICS = 6;
/** Lags over two periods. */
const LAGS = 32;

/**
 * Rule of the blind reading, from 800 training series of `vtaMultivariate` (mean F1 0.96): what lies above the largest relative step in
 * the upper half of the distances is unlike the group, if the step is at least this large and begins at this distance; without such a
 * step, what is farther than `FAR`, if it is less than half.
 */
export const LEAST_STEP = 1.5;
export const LEAST_DISTANT = 0.14;
export const FAR = 0.2;

export interface VariateEvidence {
  readonly id: number;
  /** Dominant period of at least two cycles, in samples. */
  readonly period: number;
  /** Root mean square difference from the middle of the group: of the mean cycle in standard deviations, of the amplitudes, and of the autocorrelation. */
  readonly shape: number;
  readonly spectrum: number;
  readonly autocorrelation: number;
  /** Sum of the three. */
  readonly distance: number;
  /** Place by falling distance, from 1. */
  readonly rank: number;
}

/** The rule's result: which variates stand apart, and the step in the distances that separates them. */
export interface VariateReading {
  readonly variates: readonly number[]; // ascending
  /** The distances on both sides of the largest step, and their quotient; null where the rule found no such step. */
  readonly step: { readonly above: number; readonly below: number; readonly factor: number } | null;
}

export interface VariatesEvidence {
  readonly length: number;
  readonly variates: readonly VariateEvidence[]; // [C]
  /** Middle of the distances, and of the periods. */
  readonly distance: number;
  readonly period: number;
  /** Missing points of all variates together, and the longest gap of one. */
  readonly missing: number;
  readonly longest: number;
  readonly reading: VariateReading;
}

interface Description {
  readonly period: number;
  readonly cycle: Float64Array; // [PHASES]
  readonly amplitudes: Float64Array; // [HARMONICS + 1]
  readonly correlations: Float64Array; // [LAGS]
}

function describe(values: Float64Array): Description {
  const n = values.length;
  const { mean, std } = moments(values);
  // Equal values leave rounding errors.
  const unit = std <= 1e-12 * Math.abs(mean) || std === 0 ? Number.POSITIVE_INFINITY : std;
  const standard = values.map((value) => (value - mean) / unit);
  const transformed = spectrum(standard);
  const peak = dominantIndex(transformed, 2);
  const period = n / refineFrequency(transformed, peak);
  const wave = (h: number): { re: number; im: number } => {
    let re = 0;
    let im = 0;
    const turn = (2 * Math.PI * h) / period;
    for (let i = 0; i < n; i++) {
      re += standard[i]! * Math.cos(turn * i);
      im -= standard[i]! * Math.sin(turn * i);
    }
    return { re, im };
  };
  const amplitudes = new Float64Array(HARMONICS + 1);
  let rest = 1;
  for (let h = 1; h <= HARMONICS; h++) {
    // A wave beyond the highest frequency would be read as another one.
    const { re, im } = h * 2 > period ? { re: 0, im: 0 } : wave(h);
    const power = Math.min(1, (2 * (re * re + im * im)) / n / n);
    amplitudes[h - 1] = Math.sqrt(power);
    rest -= power;
  }
  amplitudes[HARMONICS] = Math.sqrt(Math.max(0, rest));
  const { re, im } = wave(1);
  return {
    period,
    cycle: meanCycle(standard, period, Math.atan2(im, re) / (2 * Math.PI)),
    amplitudes,
    correlations: correlationsOf(standard, period),
  };
}

/**
 * Means of the phases of a cycle that begins where the dominant wave does. A sample counts for the two phases beside it; phases that
 * no sample reaches (short periods of whole samples) lie on straight lines between the others.
 */
function meanCycle(standard: Float64Array, period: number, phase: number): Float64Array {
  const sums = new Float64Array(PHASES);
  const weights = new Float64Array(PHASES);
  standard.forEach((value, i) => {
    const place = ((((i / period + phase) % 1) + 1) % 1) * PHASES;
    const left = Math.floor(place);
    const part = place - left;
    sums[left % PHASES]! += value * (1 - part);
    weights[left % PHASES]! += 1 - part;
    sums[(left + 1) % PHASES]! += value * part;
    weights[(left + 1) % PHASES]! += part;
  });
  // A cycle has no ends: gaps are bridged with the cycle before and after.
  const one = sums.map((sum, bin) => (weights[bin]! < 1e-9 ? Number.NaN : sum / weights[bin]!));
  return bridge(Float64Array.from([...one, ...one, ...one])).values.slice(PHASES, 2 * PHASES);
}

/** Autocorrelation at LAGS equal steps over two periods, linear between whole lags, 0 beyond the series. */
function correlationsOf(standard: Float64Array, period: number): Float64Array {
  const n = standard.length;
  const at = (lag: number): number => {
    if (lag >= n) return 0;
    let sum = 0;
    for (let i = lag; i < n; i++) sum += standard[i]! * standard[i - lag]!;
    return sum / (n - lag);
  };
  return Float64Array.from({ length: LAGS }, (_, l) => {
    const lag = (2 * period * (l + 1)) / LAGS;
    const whole = Math.floor(lag);
    return at(whole) * (1 - (lag - whole)) + at(whole + 1) * (lag - whole);
  });
}

/** Root mean square distances of vectors [C][D] to their median vector. */
function distances(vectors: readonly Float64Array[]): number[] {
  const middle = vectors[0]!.map((_, i) => median(Float64Array.from(vectors, (vector) => vector[i]!)));
  return vectors.map((vector) => {
    return Math.sqrt(vector.reduce((sum, value, i) => sum + (value - middle[i]!) ** 2, 0) / vector.length);
  });
}

function read(distance: readonly number[]): VariateReading {
  const order = distance.map((_, id) => id).sort((a, b) => distance[b]! - distance[a]! || a - b);
  const half = Math.floor(order.length / 2);
  let count = 0;
  let factor = 0;
  for (let k = 0; k < half && distance[order[k]!]! >= LEAST_DISTANT; k++) {
    const below = distance[order[k + 1]!]!;
    const own = below === 0 ? Number.MAX_VALUE : distance[order[k]!]! / below;
    if (own > factor) {
      factor = own;
      count = k + 1;
    }
  }
  const ascending = (ids: readonly number[]): number[] => [...ids].sort((a, b) => a - b);
  if (factor >= LEAST_STEP) {
    const [above, below] = [distance[order[count - 1]!]!, distance[order[count]!]!];
    return { variates: ascending(order.slice(0, count)), step: { above, below, factor } };
  }
  const far = order.filter((id) => distance[id]! > FAR);
  return { variates: 2 * far.length < order.length ? ascending(far) : [], step: null };
}

/**
 * Evidence about channels [C][N], C ≥ 3, N ≥ 16; missing points (NaN) are bridged by straight lines. O(C·N·(LAGS + log N)).
 * @throws DataError for fewer channels or points, unequal lengths, infinities, or a channel without any value
 */
export function analyseVariates(channels: readonly Float64Array[]): VariatesEvidence {
  const length = channels[0]?.length ?? 0;
  if (channels.length < FEWEST_VARIATES || length < FEWEST_POINTS) {
    throw new DataError(
      `${channels.length} variates of ${length} points: comparing them needs at least ${FEWEST_VARIATES} of ${FEWEST_POINTS}`,
    );
  }
  const bridged = channels.map((channel): Bridged => {
    if (channel.length !== length) {
      throw new DataError(`channels of one series must be equally long, got ${length} and ${channel.length}`);
    }
    return bridge(channel);
  });
  const described = bridged.map(({ values }) => describe(values));
  const shape = distances(described.map(({ cycle }) => cycle));
  const spectra = distances(described.map(({ amplitudes }) => amplitudes));
  const correlations = distances(described.map((own) => own.correlations));
  const total = shape.map((own, id) => own + spectra[id]! + correlations[id]!);
  const variates = described.map(({ period }, id): VariateEvidence => {
    return {
      id,
      period,
      shape: shape[id]!,
      spectrum: spectra[id]!,
      autocorrelation: correlations[id]!,
      distance: total[id]!,
      rank: 1 + total.filter((other, o) => other > total[id]! || (other === total[id] && o < id)).length,
    };
  });
  return {
    length,
    variates,
    distance: median(Float64Array.from(total)),
    period: median(Float64Array.from(described, ({ period }) => period)),
    missing: bridged.reduce((sum, own) => sum + own.missing, 0),
    longest: Math.max(...bridged.map((own) => own.longest)),
    reading: read(total),
  };
}
