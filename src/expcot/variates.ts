/**
 * Evidence for which variates of a series are unlike the others: how far each one lies from the middle of the group in the shape of
 * its cycle, in its spectrum and in its autocorrelation. Level, size, phase and speed of a wave do not count. Computed from values alone,
 * and written as an expert chain of thought.
 */
import { DataError } from '../ground/errors.ts';
import { plural, upperFirst } from '../ground/numbers.ts';
import { type Bridged, bridge } from '../series/missing.ts';
import { dominantIndex, refineFrequency, spectrum } from '../series/spectrum.ts';
import { laggedProduct, median, moments } from '../series/stats.ts';
import { phrasesOf } from './phrase.ts';

/** Fewest points and variates of which there is something to compare. */
const FEWEST_POINTS = 16;
const FEWEST_VARIATES = 3;
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
const LEAST_DISTANT = 0.14;
export const FAR = 0.2;

interface VariateEvidence {
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
interface VariateReading {
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
  const cycle = sums.map((sum, bin) => (weights[bin]! < 1e-9 ? Number.NaN : sum / weights[bin]!));
  return bridge(Float64Array.from([...cycle, ...cycle, ...cycle])).values.slice(PHASES, 2 * PHASES);
}

/** Autocorrelation at LAGS equal steps over two periods, linear between whole lags, 0 beyond the series. */
function correlationsOf(standard: Float64Array, period: number): Float64Array {
  const n = standard.length;
  const at = (lag: number): number => (lag >= n ? 0 : laggedProduct(standard, lag) / (n - lag));
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
    const step = below === 0 ? Number.MAX_VALUE : distance[order[k]!]! / below;
    if (step > factor) {
      factor = step;
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
      `${plural(channels.length, 'variate')} of ${length} points; comparing needs at least ${FEWEST_VARIATES} variates of ${FEWEST_POINTS} points`,
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
  const correlations = distances(described.map((variate) => variate.correlations));
  const total = shape.map((distance, id) => distance + spectra[id]! + correlations[id]!);
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
    missing: bridged.reduce((sum, { missing }) => sum + missing, 0),
    longest: Math.max(...bridged.map(({ longest }) => longest)),
    reading: read(total),
  };
}

// The trace: every number is one of the evidence, rounded; a variate is reported as different only where the rule finds it so.

export interface VariatesTrace {
  /** The whole response: `<think>…</think><answer>[ids]</answer>`. */
  readonly text: string;
  readonly think: string;
  readonly variates: readonly number[]; // ascending
}

/** Maximum number of variates whose distances are listed. */
const MOST_LISTED = 6;

/** Statements about variates. */
export const VARIATE_PHRASES = phrasesOf(({ variates }) => variates)(
  'variates',
  {
    period: ['Their waves have a period of about {n} samples', ({ period }) => [period]],
    gaps: [
      '{int} points are missing in all, at most {int} in a row',
      ({ missing, longest }) => [missing, longest],
    ],
    middle: ['add up to {n} for the middle one', ({ distance }) => [distance]],
    variate: [
      'variate {int} {n} (shape {n}, spectrum {n}, autocorrelation {n}; rank {int}',
      ({ variates }, [id]) => {
        const { [id as number]: variate } = variates;
        if (variate === undefined) return null;
        const { distance, shape, spectrum: amplitudes, autocorrelation, rank } = variate;
        return [variate.id, distance, shape, amplitudes, autocorrelation, rank];
      },
    ],
    step: [
      'the distances fall from {n} to {n} at their largest relative step, at least {n} times',
      ({ reading: { step } }) => [step?.above ?? null, step?.below ?? null, LEAST_STEP],
    ],
    noStep: ['No step of {n} times separates', () => [LEAST_STEP]],
    far: ['{is|are} farther than {n}', () => [null, FAR]],
  },
  { digits: 3 },
);
const SAYS = VARIATE_PHRASES;

function names(ids: readonly number[]): string {
  if (ids.length === 0) return 'no variate';
  const last = String(ids.at(-1));
  return ids.length === 1 ? `variate ${last}` : `variates ${ids.slice(0, -1).join(', ')} and ${last}`;
}

function observe(variates: VariatesEvidence): string {
  const gaps =
    variates.missing === 0 ? '' : ` ${SAYS.gaps.of(variates)}; for the analyses straight lines bridge them.`;
  return `There are ${variates.variates.length} variates of ${variates.length} points. ${SAYS.period.of(variates)}.${gaps}`;
}

const tell = ({
  id,
  distance,
  shape,
  spectrum: amplitudes,
  autocorrelation,
  rank,
}: VariateEvidence): string =>
  `${SAYS.variate.print(id, distance, shape, amplitudes, autocorrelation, rank)})`;

function compose(
  evidence: VariatesEvidence,
  listed: readonly VariateEvidence[],
  verdict: string,
  ids: readonly number[],
): VariatesTrace {
  const shown = listed.slice(0, MOST_LISTED).map(tell);
  const rest = listed.length > MOST_LISTED ? `; and others, ${listed.length} in all` : '';
  const reasoning = `Each variate is compared with the middle of the group, whatever its level, size, phase and speed: the shape of its mean cycle, the amplitudes of its harmonics, its autocorrelation over two periods. The three distances ${SAYS.middle.of(evidence)}. Told in particular: ${shown.join('; ')}${rest}. ${verdict}`;
  const conclusion = ids.length === 0 ? 'no variate is anomalous.' : `anomalous: ${names(ids)}.`;
  const think = `Observation: ${observe(evidence)}\nReasoning & Validation: ${reasoning}\nConclusion: ${conclusion}`;
  return { text: `<think>${think}</think><answer>[${ids.join(', ')}]</answer>`, think, variates: ids };
}

/** States the result of the rule. */
function verdictOf(evidence: VariatesEvidence): string {
  const { step, variates } = evidence.reading;
  if (step !== null) return `Sorted, ${SAYS.step.of(evidence)}: ${names(variates)} above it.`;
  return variates.length === 0
    ? `${SAYS.noStep.of(evidence)} some of them from the rest.`
    : `${SAYS.noStep.of(evidence)} them, but ${names(variates)} ${SAYS.far.print(variates.length === 1 ? 'is' : 'are', FAR)}.`;
}

const byRank = (evidence: VariatesEvidence): VariateEvidence[] =>
  [...evidence.variates].sort((a, b) => a.rank - b.rank);

/** The trace of the evidence alone: the variates that the rule finds apart, beside the next ones. */
export function blindVariates(evidence: VariatesEvidence): VariatesTrace {
  const { variates } = evidence.reading;
  return compose(evidence, byRank(evidence).slice(0, variates.length + 1), verdictOf(evidence), variates);
}

/**
 * Writes the teacher trace (training split only): concludes the gold variates (ascending), lists their distances, and reports which of them
 * the evidence does not set apart, and what it sets apart besides. Throws a DataError for a variate that is not there.
 */
export function teacherVariates(evidence: VariatesEvidence, gold: readonly number[]): VariatesTrace {
  const unknown = gold.find((id) => evidence.variates[id] === undefined);
  if (unknown !== undefined) {
    throw new DataError(`variate ${unknown}: the series has ${evidence.variates.length}, counted from 0`);
  }
  const outliers = evidence.reading.variates;
  const missed = gold.filter((id) => !outliers.includes(id));
  const extra = outliers.filter((id) => !gold.includes(id));
  const listed = byRank(evidence).filter(
    ({ id, rank }) => gold.includes(id) || extra.includes(id) || rank === 1,
  );
  const sentences = [verdictOf(evidence)];
  if (missed.length > 0) {
    sentences.push(
      `The distances alone do not set ${names(missed)} apart, yet ${missed.length === 1 ? 'it belongs' : 'they belong'} to the anomalous ones.`,
    );
  }
  if (extra.length > 0) {
    sentences.push(
      `${upperFirst(names(extra))} ${extra.length === 1 ? 'is' : 'are'} unusual, but not anomalous.`,
    );
  }
  if (missed.length === 0 && extra.length === 0) sentences.push('This agrees with what the curves show.');
  return compose(evidence, listed, sentences.join(' '), gold);
}
