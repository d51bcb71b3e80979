/**
 * Checks claims against a series: a verdict, the number that the series has, and why. True numbers come from the values alone (`src/series`,
 * and `src/expcot` for statements of traces); places of anomalies come from the annotation, where there is one.
 *
 * Tolerances. A printed number stands for half a unit of its last digit on either side, at most 5 % of the range of the values (of a slope:
 * of the range over N; of a size: half of it). Beyond that, |actual| × 1 % (values, moments, standard scores), 5 % (slopes), 10 %
 * (amplitudes, noise), 25 % (multiples); numbers that are hedged ("about") 10 %, of levels also 1 % of the range of the values, as one reads
 * them off a plot. Indices: one sample; hedged 2 % of the length. Periods: half a bin of the spectrum, N/p ± ½ cycles (hedged: or 10 %);
 * neither multiples nor fractions of the period pass. Counts are exact; hedged 10 % or one.
 * Stretches of anomalies: intersection over union of at least ½ with an annotated one.
 */

import { cycleOf } from '../expcot/anomaly.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import { ClassEvidence } from '../expcot/class-trace.ts';
import type { CycleTest } from '../expcot/cycle.ts';
import { analyse, type Evidence } from '../expcot/evidence.ts';
import { featureNames, features } from '../expcot/features.ts';
import { activityScan, isRuled, levelScan, roundIntervals, ruled, scan } from '../expcot/nano.ts';
import { numbersOf, type Slot, type TraceView } from '../expcot/phrase.ts';
import { analyseVariates, type VariatesEvidence } from '../expcot/variates.ts';
import { DataError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import type { Interval, SeriesFacts } from '../ground/types.ts';
import { runs } from '../series/intervals.ts';
import { type Bridged, bridge } from '../series/missing.ts';
import {
  autocorrelation,
  dominantIndex,
  refineFrequency,
  type Spectrum,
  seriesOfSpectrum,
  spectrum,
} from '../series/spectrum.ts';
import { fitLine, GAUSSIAN_MAD, noiseSigma, type Summary, summarise } from '../series/stats.ts';
import type { Claim, Statement } from './read.ts';
import type { PrintedNumber } from './sentence.ts';

export interface Verdict {
  /** `unchecked`: nothing in the series says whether it is true. */
  readonly verdict: 'true' | 'false' | 'unchecked';
  /** Number of the series; null where there is none. */
  readonly actual: number | readonly number[] | null;
  readonly why: string;
}

/** A series with what else is known of it. */
export interface Subject {
  /** All of one length; NaN marks a missing point. */
  readonly channels: readonly Float64Array[]; // [C][N]
  readonly names: readonly string[]; // [C]
  /** Annotated anomalies, half-open; null or absent: not annotated. */
  readonly intervals?: readonly Interval[] | null;
  /** Ids of the annotated channels, ascending; null or absent: not annotated. */
  readonly variates?: readonly number[] | null;
  /** Profile of the classes; null or absent: nothing was learned. */
  readonly profile?: ClassProfile | null;
  /** Facts of the generator, against which stated kinds and sizes of departures are checked. */
  readonly facts?: SeriesFacts;
  /** Points of the channels' plots, where short facts speak of them: [C][columns]. */
  readonly plotted?: readonly Float64Array[];
}

const PART = 0.01;
/** Largest rounding of a stated number, as a part of the range of the values: 0 does not stand for all that is small. */
const MOST_ROUNDING = 0.05;
/** Factor of a size that stands for the range of the values where it is rounded: by half of itself at most. */
const HALF = 0.5 / MOST_ROUNDING;
const HEDGED = 0.1;
/** Tolerance of a hedged level, as a part of the range of the values. */
const PLOT = 0.01;
/** Share of the values that a usual range holds. */
const USUAL = 0.8;
/** Width, in ranges of the values, from which bounds that hold them say nothing. */
const WIDE = 1.2;
/** Tolerance of a hedged index, as a part of the length. */
const PLACE = 0.02;
/** Samples on either side of an index that are around it. */
const AROUND = 10;
/** Standard deviations from which a point is a spike, at least: white noise stays below √(2 ln N) of them. */
const FAR = 4.5;
const PARTS = { slope: 0.05, amplitude: 0.1, noise: 0.1, times: 0.25 } as const;
/** Overlap from which two stretches are the same. */
export const SAME_STRETCH = 0.5;
/** Autocorrelation from which a lag is a repetition, and part of the highest from which the first such lag is it. */
const REPEATS = 0.3;
const FIRST_OF = 0.9;
/** Part of the correlation at the repetition below which that at a line's own period makes the line a harmonic. */
const HARMONIC_BELOW = 0.6;
/** Cycles below which waves are slow. */
const SLOW = 4;
/** Part of the power in the strongest line (with its neighbours) below which nothing stands out. */
const LINE_POWER = 0.1;
/** Longest series whose repetition is looked for in full. */
const MOST_LAGS = 4000;

interface Periods {
  /** The periods that a claim may mean, the best first; empty where nothing stands out. */
  readonly accepted: readonly number[];
  /** A longer one that is weaker; null where there is none. */
  readonly longer: number | null;
}

/** Numbers of one channel, computed when they are first read. */
class Channel {
  readonly values: Float64Array;
  /** Null where every point is missing. */
  readonly bridged: Bridged | null;
  readonly #plotted: Float64Array;
  readonly #known = new Map<string, unknown>();

  constructor(values: Float64Array, plotted = values) {
    this.values = values;
    this.#plotted = plotted;
    try {
      this.bridged = bridge(values);
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      this.bridged = null;
    }
  }

  once<T>(key: string, compute: () => T): T {
    return getOrMake(this.#known, key, compute) as T;
  }

  /** The points of a stretch that are not missing. */
  known(within: Interval | null): Float64Array {
    return this.once(`known ${within}`, () =>
      (within === null ? this.values : this.values.subarray(...within)).filter(
        (value) => !Number.isNaN(value),
      ),
    );
  }

  /** Statistics of the points that are not missing; null where all are. */
  summary(within: Interval | null): Summary | null {
    const known = this.known(within);
    return known.length === 0 ? null : this.once(`summary ${within}`, () => summarise(known));
  }

  /** The stretch without gaps. */
  whole(within: Interval | null): Float64Array {
    const { values } = this.bridged!;
    return within === null ? values : values.slice(...within);
  }

  periods(within: Interval | null): Periods {
    return this.once(`periods ${within}`, () => periodsOf(this.whole(within)));
  }

  /** Autocorrelation at a lag, with N and with N − lag products in the mean. */
  correlations(lag: number): readonly number[] {
    const centred = this.once('centred', () => {
      const values = this.whole(null);
      const { mean } = summarise(values);
      return values.map((value) => value - mean);
    });
    const product = (at: number): number =>
      this.once(`product ${at}`, () => {
        let sum = 0;
        for (let t = at; t < centred.length; t++) sum += centred[t]! * centred[t - at]!;
        return sum;
      });
    const plain = product(lag) / product(0);
    return [plain, (plain * centred.length) / (centred.length - lag)];
  }

  get evidence(): Evidence {
    return this.once('evidence', () => {
      const { values, ...gaps } = this.#plotted === this.values ? this.bridged! : bridge(this.#plotted);
      return analyse(values, { gaps });
    });
  }

  /** The cycle test, which only full traces state. */
  get cycle(): CycleTest | null {
    return this.once('cycle', () => cycleOf(this.evidence, this.bridged!.values));
  }
}

/** Part of the power from bin `from` up that bin k and its neighbours hold. */
function linePower({ re, im }: Spectrum, k: number, from: number): number {
  let [line, all] = [0, 0];
  for (let j = from; j < re.length; j++) {
    const power = re[j]! ** 2 + im[j]! ** 2;
    all += power;
    if (Math.abs(j - k) <= 1) line += power;
  }
  return all === 0 ? 0 : line / all;
}

/** Finds the strongest line of at least SLOW cycles below the strongest of all, as the week beside the day; null where none stands out. */
function longerLine(transformed: Spectrum): number | null {
  if (transformed.re.length <= SLOW + 1) return null;
  const strongest = dominantIndex(transformed, SLOW);
  const power = (k: number): number => transformed.re[k]! ** 2 + transformed.im[k]! ** 2;
  let line = SLOW;
  for (let k = SLOW; k < strongest - 1; k++) if (power(k) > power(line)) line = k;
  return line < strongest - 1 && linePower(transformed, line, 1) >= LINE_POWER
    ? refineFrequency(transformed, line)
    : null;
}

/**
 * Periods of [N]: that of the strongest spectral line of at least two cycles; of the strongest of at least four, slower waves taken away; and
 * the first lag at which the rest then repeats. A line at a multiple of the frequency of that repetition is its harmonic, and left out.
 */
function periodsOf(values: Float64Array): Periods {
  const n = values.length;
  if (n < 8) return { accepted: [], longer: null };
  const { slope, intercept, residualStd } = fitLine(values);
  if (!(residualStd > 1e-9 * (1 + Math.abs(intercept)))) return { accepted: [], longer: null };
  const transformed = spectrum(values.map((value, i) => value - intercept - slope * i));
  const lines = [2, SLOW].flatMap((from) => {
    if (transformed.re.length <= from + 1) return [];
    const k = dominantIndex(transformed, from);
    return linePower(transformed, k, from === SLOW ? from : 1) < LINE_POWER
      ? []
      : [n / refineFrequency(transformed, k)];
  });
  const rest = seriesOfSpectrum({
    n,
    re: transformed.re.map((value, k) => (k < SLOW ? 0 : value)),
    im: transformed.im.map((value, k) => (k < SLOW ? 0 : value)),
  });
  const { lag, part, correlations } = firstRepetition(rest);
  const second = longerLine(transformed);
  const repeats = second !== null && (correlations[Math.round(n / second)] ?? 0) >= REPEATS;
  const kept = lines.filter((period) => {
    const ratio = lag === null ? 1 : lag / period;
    const harmonic = ratio > 1.5 && Math.abs(ratio - Math.round(ratio)) < 0.1;
    return !harmonic || correlations[Math.round(period)]! >= HARMONIC_BELOW * correlations[lag!]!;
  });
  // Of a sine the line is finer than a whole lag; a later lag of it is no period of its own.
  const isOwnPeriod =
    lag !== null && kept.every((period) => Math.abs(lag / period - Math.round(lag / period)) * period > 1);
  const isHarmonic = lines.some((period) => !kept.includes(period) && Math.abs(period - part!) <= 1);
  const parts = part === null || isHarmonic ? [] : [part];
  return {
    accepted: [...new Set([...kept, ...(isOwnPeriod ? [lag] : []), ...parts])],
    longer: repeats ? n / second : null,
  };
}

interface Repetition {
  /** First local maximum of the autocorrelation that is nearly as high as the highest; null where none is clear. */
  readonly lag: number | null;
  /** First clear one that it is a multiple of: every second cycle may be the more alike. Null where there is none. */
  readonly part: number | null;
  readonly correlations: Float64Array;
}

function firstRepetition(level: Float64Array): Repetition {
  const lags = Math.min(MOST_LAGS, Math.floor(level.length / 2));
  if (lags < 4) return { lag: null, part: null, correlations: new Float64Array(0) };
  const r = autocorrelation(level, { lags, adjusted: true });
  const peaks: number[] = [];
  for (let k = 2; k < lags; k++) if (r[k]! > r[k - 1]! && r[k]! >= r[k + 1]!) peaks.push(k);
  const highest = peaks.reduce((most, k) => Math.max(most, r[k]!), Number.NEGATIVE_INFINITY);
  const lag = highest >= REPEATS ? (peaks.find((k) => r[k]! >= FIRST_OF * highest) ?? null) : null;
  const divides = (k: number): boolean => lag! > 1.5 * k && Math.abs(lag! / k - Math.round(lag! / k)) < 0.1;
  const clear = Math.max(REPEATS, HARMONIC_BELOW * highest);
  const part = lag === null ? null : (peaks.find((k) => r[k]! >= clear && divides(k)) ?? null);
  return { lag, part, correlations: r };
}

const unchecked = (why: string): Verdict => ({ verdict: 'unchecked', actual: null, why });
const judged = (holds: boolean, actual: Verdict['actual'], why: string): Verdict => ({
  verdict: holds ? 'true' : 'false',
  actual,
  why,
});

const round = (value: number): string => String(Number(value.toPrecision(4)));

/** Checks claims against one series, whose evidence is computed once. */
export class ClaimChecker {
  readonly subject: Subject;
  readonly length: number;
  readonly #channels: Channel[];
  #features: TraceView['features'] | undefined;
  #classes: ClassEvidence | null | undefined;
  #variates: VariatesEvidence | null | undefined;

  constructor(subject: Subject) {
    this.subject = subject;
    this.length = subject.channels[0]?.length ?? 0;
    this.#channels = subject.channels.map((values, c) => new Channel(values, subject.plotted?.[c]));
  }

  check(stated: Claim): Verdict {
    const claim = this.#placed(stated);
    const { numbers, statement } = claim;
    if (claim.scan !== undefined) return this.#scan(claim);
    if (numbers.some(({ value }) => !Number.isFinite(value))) return unchecked('not a finite number');
    if (claim.quantity === 'channels') return this.#count(claim, this.subject.channels.length, 'channels');
    if (claim.quantity === 'length') return this.#count(claim, this.length, 'points');
    const outside = [...(claim.within ?? []), ...(claim.at === null ? [] : [claim.at.value])];
    const furthest = this.length - (claim.within === null ? 1 : 0);
    const beyond = outside.find((index) => index < 0 || index > furthest);
    if (beyond !== undefined && claim.quantity !== 'autocorrelation') {
      return this.#beyond(beyond);
    }
    if (claim.quantity === 'anomaly' || claim.quantity === 'anomalies') return this.#anomaly(claim);
    if (claim.quantity === 'place') {
      return unchecked('a place, of which nothing is said');
    }
    if (claim.channel === null) {
      // What is said of the whole of a task about variates needs no channel.
      return statement === undefined
        ? unchecked('it is not said of which channel')
        : this.#statement(claim, statement, 0);
    }
    const channel = this.#channels[claim.channel];
    if (channel?.bridged == null) return unchecked('the channel has no values');
    if (statement !== undefined) return this.#statement(claim, statement, claim.channel);
    if (claim.within !== null && claim.within[0] >= claim.within[1]) {
      return judged(false, null, `the stretch ${claim.within.join(' to ')} is empty`);
    }
    const verdict = this.#number(claim, channel);
    if (claim.percent !== true || verdict.verdict !== 'false') return verdict;
    const values = claim.numbers.map((number) => ({
      ...number,
      value: 100 * number.value,
      rounding: 100 * number.rounding,
    }));
    const inPercent = this.#number({ ...claim, numbers: values }, channel);
    return inPercent.verdict === 'true' ? inPercent : verdict;
  }

  /** Turns the stretch of a claim into indices of this series. */
  #placed(claim: Claim): Claim {
    const { within, share } = claim;
    const { length } = this;
    if (share !== undefined) {
      return { ...claim, within: [Math.round(share[0] * length), Math.round(share[1] * length)] };
    }
    if (within === null || (within[0] >= 0 && within[1] < Infinity)) return claim;
    return {
      ...claim,
      within: [within[0] < 0 ? length + within[0] : within[0], Math.min(within[1], length)],
    };
  }

  #beyond(index: number): Verdict {
    return judged(false, this.length, `index ${index} is outside of the series of ${this.length} points`);
  }

  #count(claim: Claim, actual: number, what: string): Verdict {
    const [stated] = claim.numbers;
    const slack = claim.hedged ? Math.max(1, HEDGED * actual) : 0;
    const high = (claim.range ? claim.numbers[1] : stated)!.value;
    const holds =
      claim.relation === 'above'
        ? actual >= stated!.value
        : claim.relation === 'below'
          ? actual <= stated!.value
          : actual >= stated!.value - slack && actual <= high + slack;
    return judged(holds !== claim.negated, actual, `${round(actual)} ${what}`);
  }

  /** Compares the stated number with each of several that it may mean. */
  #compareAny(claim: Claim, actual: readonly number[], what: string, range: number, part = PART): Verdict {
    const verdicts = actual.map((number) => this.#compare(claim, number, what, range, part));
    return verdicts.find(({ verdict }) => verdict === 'true') ?? verdicts.at(-1)!;
  }

  /**
   * Compares the stated number with one of the series.
   * @param part relative tolerance beside the printed precision
   * @param range size that bounds its rounding, usually the range of the values
   * @param slack what a hedged number may be off in units of the series
   */
  #compare(claim: Claim, actual: number, what: string, range: number, part = PART, slack = 0): Verdict {
    if (Number.isNaN(actual)) return unchecked(`${what} is undefined`);
    const [first, second] = claim.numbers as [PrintedNumber, PrintedNumber?];
    const relative =
      Math.max(part, claim.hedged ? HEDGED : 0) * Math.abs(actual) + (claim.hedged ? slack : 0);
    const why = `${what} is ${round(actual)}`;
    if (claim.relation !== 'is') {
      // "Above 5" is a bound, which needs no rounding.
      const tiny = PART * Math.abs(actual);
      const holds = claim.relation === 'above' ? actual > first.value - tiny : actual < first.value + tiny;
      return judged(holds, actual, why);
    }
    const last = claim.range ? second! : first;
    const [low, high] = first.value <= last.value ? [first, last] : [last, first];
    // The sum of a rounded number and its unit has errors of its own.
    const slackOf = ({ rounding }: PrintedNumber): number =>
      (Math.min(rounding, MOST_ROUNDING * range) + relative) * (1 + 1e-9) + 1e-12;
    const holds = actual >= low.value - slackOf(low) && actual <= high.value + slackOf(high);
    return judged(holds !== claim.negated, actual, why);
  }

  #number(claim: Claim, channel: Channel): Verdict {
    const { quantity, within, numbers } = claim;
    const summary = channel.summary(within);
    const all = channel.summary(null)!;
    if (summary === null) return unchecked('all points there are missing');
    const range = all.max - all.min;
    const level = (actual: number, what = quantity): Verdict =>
      this.#compare(claim, actual, what, range, PART, PLOT * range);
    /** Compares sizes, of which 0 is another than any other. */
    const size = (actual: readonly number[], part = PART, what = quantity): Verdict =>
      this.#compareAny(claim, actual, what, Math.min(range, HALF * Math.min(...actual)), part);
    const stated = numbers[0]!;
    switch (quantity) {
      case 'minimum':
      case 'maximum': {
        const actual = quantity === 'minimum' ? summary.min : summary.max;
        const verdict = level(actual);
        if (claim.at === null || verdict.verdict !== 'true') return verdict;
        return this.#where(claim, channel, claim.at, actual, quantity);
      }
      case 'index of maximum':
      case 'index of minimum': {
        const most = quantity === 'index of maximum';
        return this.#where(claim, channel, stated, most ? all.max : all.min, most ? 'maximum' : 'minimum');
      }
      case 'value': {
        const at = claim.at!.value;
        const actual = channel.values[at]!;
        if (Number.isNaN(actual)) return unchecked(`the value at ${at} is missing`);
        const verdict = level(actual, `the value at ${at}`);
        if (verdict.verdict !== 'true' || claim.falls === undefined) return verdict;
        // A dip lies below the values around it, or below most values.
        const around = channel.known([Math.max(0, at - AROUND), Math.min(this.length, at + AROUND + 1)]);
        const usual = [all.median, summarise(around).median];
        const turns = usual.every((other) => (claim.falls ? actual > other : actual < other));
        return turns
          ? judged(false, actual, `the value at ${at} is ${claim.falls ? 'above' : 'below'} those around it`)
          : verdict;
      }
      case 'first value':
      case 'last value': {
        const actual = channel.values.at(quantity === 'first value' ? 0 : -1)!;
        return Number.isNaN(actual) ? unchecked(`the ${quantity} is missing`) : level(actual);
      }
      case 'missing at': {
        const index = stated.value;
        const actual = channel.values[index];
        if (actual === undefined) return this.#beyond(index);
        if (Number.isNaN(actual)) return judged(true, null, 'it is missing');
        return judged(false, actual, `the value at ${index} is ${round(actual)}`);
      }
      case 'mean':
        return level(summary.mean);
      case 'median':
        return level(summary.median);
      case 'standard deviation':
        return size([summary.sampleStd, summary.std]);
      case 'variance':
        return size([summary.sampleStd ** 2, summary.std ** 2], 2 * PART);
      case 'peak to peak':
        return size([summary.max - summary.min]);
      case 'amplitude': {
        // Half the height, or that of the sine of this spread: one outlier makes them differ.
        const ofSine = Math.SQRT2 * fitLine(channel.whole(within)).residualStd;
        return size([(summary.max - summary.min) / 2, ofSine], PARTS.amplitude);
      }
      case 'noise': {
        const values = channel.whole(within);
        if (values.length < 8) return unchecked('too few points for the noise');
        return size([noiseSigma(values)], PARTS.noise, 'the noise');
      }
      case 'range':
      case 'swing':
      case 'kept range':
      case 'usual range':
        return this.#range(claim, summary, channel);
      case 'autocorrelation': {
        const lag = claim.at!.value;
        if (lag >= this.length) return judged(false, this.length, `lag ${lag} is longer than the series`);
        return this.#compareAny(claim, channel.correlations(lag), quantity, 2);
      }
      case 'period':
      case 'frequency':
      case 'cycles':
        return this.#period(claim, channel);
      case 'slope':
      case 'rise':
      case 'from to':
        return this.#slope(claim, channel);
      case 'missing':
        return this.#count(claim, channel.bridged!.missing, 'missing points');
      case 'gaps':
        return this.#count(claim, channel.bridged!.gaps, 'gaps');
      case 'longest gap':
        return this.#count(claim, channel.bridged!.longest, 'points in the longest gap');
      case 'spikes': {
        const [from, to] = within ?? [0, this.length];
        if (stated.value === 0 && this.subject.intervals?.length === 0) {
          return judged(!claim.negated, 0, 'nothing is anomalous');
        }
        const sigmas = Math.max(FAR, Math.sqrt(2 * Math.log(this.length)) + 1);
        const sign = claim.falls === undefined ? 0 : claim.falls ? -1 : 1;
        const runsBeyond = (middle: number, sigma: number): number => {
          const isFar = (i: number): boolean => {
            const departure = channel.values[i]! - middle;
            return (sign === 0 ? Math.abs(departure) : sign * departure) > sigmas * sigma;
          };
          return runs(this.length, (i) => i >= from && i < to && isFar(i)).length;
        };
        const what = `runs of points beyond ${round(sigmas)} standard deviations`;
        const verdict = this.#count(claim, runsBeyond(summary.mean, summary.std), what);
        if (verdict.verdict === 'true' || summary.mad === 0) return verdict;
        return this.#count(claim, runsBeyond(summary.median, GAUSSIAN_MAD * summary.mad), `robust ${what}`);
      }
      case 'share within':
        return this.#share(claim, channel);
      case 'largest z': {
        if (all.std === 0) return unchecked('the series is constant');
        const far = Math.max(summary.max - all.mean, all.mean - summary.min) / all.std;
        return this.#compare(claim, far, 'the largest z-score', Infinity);
      }
      case 'z':
        return this.#standard(claim, channel, all);
      case 'times amplitude':
        return this.#times(claim, channel);
      default:
        return unchecked(`nothing is known of ${quantity}`);
    }
  }

  /** Checks that a value as extreme lies at an index, within a sample. */
  #where(claim: Claim, channel: Channel, stated: PrintedNumber, extreme: number, what: string): Verdict {
    const actual = channel.values.indexOf(extreme);
    const slack = claim.hedged ? Math.max(1, PLACE * this.length) : 1;
    let holds = false;
    for (let i = 0; i < this.length && !holds; i++) {
      holds = channel.values[i] === extreme && Math.abs(i - stated.value) <= slack;
    }
    return judged(holds !== claim.negated, actual, `the ${what} ${round(extreme)} is at ${actual}`);
  }

  #range(claim: Claim, { min, max }: Summary, channel: Channel): Verdict {
    const [a, b] = claim.numbers as [PrintedNumber, PrintedNumber];
    const [low, high] = a.value <= b.value ? [a, b] : [b, a];
    const part = claim.quantity === 'swing' ? HEDGED : claim.hedged ? PLOT : 0;
    const all = channel.summary(null)!;
    const slack = (bound: PrintedNumber, actual: number): number =>
      (Math.min(bound.rounding, MOST_ROUNDING * (all.max - all.min)) +
        PART * Math.abs(actual) +
        part * (max - min)) *
        (1 + 1e-9) +
      1e-12;
    if (this.#mayBeIndices([low, high], all.min, all.max)) return unchecked('these may be indices');
    const isWide = max > min && high.value - low.value > WIDE * (max - min);
    const tooWide = unchecked('bounds this wide say nothing');
    if (claim.quantity === 'usual range') {
      const known = channel.known(claim.within);
      const [from, to] = [low.value - slack(low, min), high.value + slack(high, max)];
      const share = known.filter((value) => value >= from && value <= to).length / known.length;
      const why = `${round(100 * share)} % of the values lie there`;
      if (share >= USUAL && isWide) return tooWide;
      return judged(share >= USUAL !== claim.negated, [min, max], why);
    }
    const inside = min >= low.value - slack(low, min) && max <= high.value + slack(high, max);
    const reached =
      Math.abs(min - low.value) <= slack(low, min) && Math.abs(max - high.value) <= slack(high, max);
    if (claim.quantity === 'kept range' && inside && isWide) return tooWide;
    const holds = claim.quantity === 'kept range' ? inside : reached;
    return judged(
      holds !== claim.negated,
      [min, max],
      `the values lie between ${round(min)} and ${round(max)}`,
    );
  }

  #share(claim: Claim, channel: Channel): Verdict {
    const [share, a, b] = claim.numbers as [PrintedNumber, PrintedNumber, PrintedNumber];
    const known = channel.known(claim.within);
    const [low, high] = [Math.min(a.value, b.value), Math.max(a.value, b.value)];
    const actual = (100 * known.filter((value) => value >= low && value <= high).length) / known.length;
    const slack = share.rounding + (claim.hedged ? 5 : 1);
    const holds = Math.abs(actual - share.value) <= slack;
    return judged(holds !== claim.negated, actual, `${round(actual)} % of the points`);
  }

  #period(claim: Claim, channel: Channel): Verdict {
    const { facts, channels } = this.subject;
    const { accepted: main, longer } = channel.periods(claim.within);
    const others = [
      ...(longer === null ? [] : [longer]),
      ...(claim.within === null && channels.length === 1 ? (facts?.periods ?? []) : []),
    ];
    const accepted = claim.isMain === true ? main : [...main, ...others];
    const n = channel.whole(claim.within).length;
    const numbers = claim.numbers.slice(0, claim.range ? 2 : 1);
    if (numbers.some(({ value }) => value <= 0))
      return judged(claim.negated, accepted[0] ?? null, 'not positive');
    if (accepted.length === 0) {
      return judged(claim.negated, null, 'no period stands out: neither a spectral line nor a repetition');
    }
    // As cycles in the stretch, lowest and highest.
    const bounds = numbers.flatMap(({ value, rounding }) => {
      const ends = [Math.max(value - rounding, value / 2), value + rounding];
      return ends.map((end) =>
        claim.quantity === 'period' ? n / end : claim.quantity === 'frequency' ? n * end : end,
      );
    });
    const [low, high] = [Math.min(...bounds), Math.max(...bounds)];
    const period = accepted.find((candidate) => {
      const cycles = n / candidate;
      const slack = Math.max(0.5, claim.hedged ? HEDGED * cycles : 0);
      if (claim.relation === 'above') return claim.quantity === 'period' ? cycles <= high : cycles >= low;
      if (claim.relation === 'below') return claim.quantity === 'period' ? cycles >= low : cycles <= high;
      return cycles >= low - slack && cycles <= high + slack;
    });
    const actual = period ?? accepted[0]!;
    const number =
      claim.quantity === 'period' ? actual : claim.quantity === 'frequency' ? 1 / actual : n / actual;
    return judged(
      (period !== undefined) !== claim.negated,
      number,
      `the period is ${round(actual)} samples, ${round(n / actual)} cycles`,
    );
  }

  #slope(claim: Claim, channel: Channel): Verdict {
    const values = channel.whole(claim.within);
    const line = fitLine(values);
    const rise = line.slope * (values.length - 1);
    const { min, max } = channel.summary(claim.within)!;
    const range = max - min;
    const [stated, second] = claim.numbers as [PrintedNumber, PrintedNumber?];
    const falls = claim.falls === true;
    /** A fall by 3 is a rise by −3. */
    const signed = (actual: number): number => (falls && stated.value > 0 ? -actual : actual);
    if (
      claim.falls === false &&
      stated.value < 0 &&
      claim.quantity !== 'from to' &&
      claim.relation === 'is'
    ) {
      return judged(claim.negated, rise, 'a rise is not negative');
    }
    if (claim.quantity === 'slope') {
      return this.#compare(claim, signed(line.slope), 'the slope', range / values.length, PARTS.slope);
    }
    if (claim.quantity === 'rise') {
      const rises = [rise, values.at(-1)! - values[0]!].map(signed);
      return this.#compareAny(claim, rises, 'the rise', range, PARTS.slope);
    }
    if (claim.at !== null) return this.#step(claim, channel, stated, second!, claim.at);
    const ends = [line.intercept, line.intercept + rise] as const;
    if (this.#mayBeIndices([stated, second!], min, max)) return unchecked('these may be indices');
    const near = (end: PrintedNumber, actual: number): boolean =>
      Math.abs(end.value - actual) <=
      (end.rounding + PART * Math.abs(actual) + (claim.hedged ? HEDGED : 0.05) * (max - min)) * (1 + 1e-9);
    const exact = near(stated, values[0]!) && near(second!, values.at(-1)!);
    const fitted = near(stated, ends[0]) && near(second!, ends[1]);
    const extremes =
      near(stated, falls ? max : min) &&
      near(second!, falls ? min : max) &&
      Math.sign(rise) === (falls ? -1 : 1) &&
      line.r2 >= 0.5;
    const way = Math.sign(second!.value - stated.value) === (falls ? -1 : 1) || claim.falls === undefined;
    return judged(
      ((exact || fitted || extremes) && way) !== claim.negated,
      [values[0]!, values.at(-1)!],
      `it goes from ${round(values[0]!)} to ${round(values.at(-1)!)}, its line from ${round(ends[0])} to ${round(ends[1])}`,
    );
  }

  /** Returns true for numbers far from all values between `min` and `max` that the series has as indices. */
  #mayBeIndices(numbers: readonly PrintedNumber[], min: number, max: number): boolean {
    const range = max - min;
    return numbers.every(
      ({ value }) => isWhole(value) && value <= this.length && (value < min - range || value > max + range),
    );
  }

  /** Checks that the level changes from one number to another at an index, within a few samples of it. */
  #step(
    claim: Claim,
    channel: Channel,
    before: PrintedNumber,
    behind: PrintedNumber,
    at: PrintedNumber,
  ): Verdict {
    const all = channel.summary(null)!;
    const range = all.max - all.min;
    const near = ({ value, rounding }: PrintedNumber, level: number): boolean =>
      Math.abs(value - level) <=
      Math.min(rounding, MOST_ROUNDING * range) +
        PART * Math.abs(level) +
        (claim.hedged ? HEDGED : 0.05) * range;
    const median = (from: number, to: number): number => {
      const known = channel.known([Math.max(0, from), Math.max(0, Math.min(this.length, to))]);
      return known.length === 0 ? Number.NaN : summarise(known).median;
    };
    const furthest = Math.max(1, Math.round(PLACE * this.length));
    const levels = [0, 1, furthest, 2 * furthest].map(
      (gap) =>
        [
          median(at.value - gap - AROUND, at.value - gap),
          median(at.value + gap, at.value + gap + AROUND),
        ] as const,
    );
    const [left, right] = levels[1]!;
    // A spike goes there and back.
    const isSpike = [-1, 0, 1].some((k) => near(behind, channel.values[at.value + k] ?? Number.NaN));
    const holds =
      levels.some(([level, next]) => near(before, level) && near(behind, next)) ||
      (isSpike && near(before, left));
    const rises = behind.value > before.value;
    const way = claim.falls === undefined || rises !== claim.falls;
    return judged(
      (holds && way) !== claim.negated,
      [left, right],
      `around ${at.value} it goes from ${round(left)} to ${round(right)}`,
    );
  }

  #standard(claim: Claim, channel: Channel, all: Summary): Verdict {
    if (all.std === 0) return unchecked('the series is constant');
    const place = claim.at?.value ?? null;
    const value = place !== null ? channel.values[place]! : null;
    if (value !== null && Number.isNaN(value)) return unchecked(`the value at ${place} is missing`);
    if (value === null && claim.within === null) return unchecked('it is not said where');
    const part = claim.within === null ? null : channel.summary(claim.within);
    const far = part === null ? 0 : part.max - all.mean > all.mean - part.min ? part.max : part.min;
    const actual = ((value ?? far) - all.mean) / all.std;
    // "3 σ below the mean" and "a z-score of −3" are the same; the size alone is often told.
    const signed =
      claim.numbers[0]!.value < 0
        ? actual
        : claim.falls === true
          ? -actual
          : claim.quantity === 'z' && claim.falls === undefined
            ? Math.abs(actual)
            : actual;
    return this.#compare(claim, signed, 'the z-score', Infinity);
  }

  #times(claim: Claim, channel: Channel): Verdict {
    const { within } = claim;
    if (within === null) return unchecked('it is not said where');
    const rest = channel.values.filter(
      (value, i) => !Number.isNaN(value) && (i < within[0] || i >= within[1]),
    );
    const part = channel.known(within);
    if (rest.length < 2 || part.length < 2) return unchecked('nothing to compare with');
    const [inside, usual] = [summarise(part), summarise(rest)];
    if (usual.std === 0) return unchecked('the rest is constant');
    const ratios = [(inside.max - inside.min) / (usual.max - usual.min), inside.std / usual.std];
    return this.#compareAny(claim, ratios, 'the ratio', Math.max(...ratios), PARTS.times);
  }

  #anomaly(claim: Claim): Verdict {
    const { intervals } = this.subject;
    if (claim.numbers.length === 2 && claim.within !== null && claim.within[0] >= claim.within[1]) {
      return judged(false, null, `the stretch ${claim.within.join(' to ')} is empty`);
    }
    if (intervals === null || intervals === undefined)
      return unchecked('where anomalies are is not annotated');
    if (claim.quantity === 'anomalies') return this.#count(claim, intervals.length, 'annotated anomalies');
    const [start, end] = claim.within!;
    const nearest =
      intervals.toSorted((a, b) => distance(a, start, end) - distance(b, start, end))[0] ?? null;
    const slack = claim.hedged ? Math.max(1, PLACE * this.length) : 1;
    const holds =
      claim.numbers.length === 1
        ? intervals.some(([from, to]) => start >= from - slack && start <= to - 1 + slack)
        : intervals.some((interval) => unionOverlap(interval, [start, end]) >= SAME_STRETCH);
    // "No anomaly there" is false where one is touched.
    const touched = intervals.some(([from, to]) => from < end && to > start);
    const why =
      nearest === null
        ? 'nothing is anomalous'
        : `the nearest annotated anomaly is ${nearest[0]} to ${nearest[1]}`;
    return judged(claim.negated ? !touched : holds, nearest, why);
  }

  #scan({ scan: stated = '' }: Claim): Verdict {
    const truth = this.scanTruth(stated);
    return truth === null
      ? unchecked('where anomalies are is not annotated')
      : judged(stated === truth, null, `the scan is ${truth}`);
  }

  /**
   * Returns the scan that the annotation asks for, of intervals or of variates, in as many symbols as `stated`, or the activity of a series of
   * one channel whose classes are known; null without any of these.
   */
  scanTruth(stated: string): string | null {
    const { intervals, variates, channels } = this.subject;
    if (variates != null) return channels.map((_, id) => (variates.includes(id) ? 'x' : '.')).join('');
    if (intervals == null) {
      const { classes } = this.#view(0);
      return classes === null || channels.length > 1 ? null : activityScan(classes, 0, stated.length);
    }
    const rounded = roundIntervals(intervals, this.length);
    const symbols = scan(rounded, this.length, stated.length);
    if (!/\d/.test(stated)) return symbols;
    return isRuled(stated) ? ruled(symbols) : levelScan(channels[0]!, rounded, stated.length);
  }

  /**
   * Writes a statement of a trace as it would be true, in the words that are stated; null for other claims, and where the series has
   * nothing to state.
   * @param stated text of the claim
   */
  correction({ statement, channel }: Claim, stated: string): string | null {
    const index = channel ?? 0;
    if (statement === undefined || this.#channels[index]?.bridged == null) return null;
    const { phrase, contents } = statement;
    const truths = phrase.truth(this.#view(index), contents);
    if (truths === null) return null;
    const whole = phrase.print(...contents);
    if (!whole.endsWith(stated)) return null;
    const contentsThere = truths.map((truth, k): Slot => {
      // A number may have several true values, of which tests that found nothing give none.
      const isNumber = phrase.slots[k]!.kind === 'int' || phrase.slots[k]!.kind === 'n';
      const first = isNumber && Array.isArray(truth) ? (truth.find(Number.isFinite) ?? Number.NaN) : truth;
      return (first as Slot | undefined) ?? contents[k]!;
    });
    if (contentsThere.some(Number.isNaN)) return null;
    return phrase.print(...contentsThere).slice(whole.length - stated.length);
  }

  /** Compares the slots of a template with what would be true. */
  #statement(claim: Claim, { phrase, contents, numbers }: Statement, index: number): Verdict {
    if (this.#channels[index]?.bridged == null) return unchecked('the channel has no values');
    const { quantity } = claim;
    const truths = phrase.truth(this.#view(index), contents);
    if (truths === null) return judged(false, null, `the series has no such ${quantity}`);
    const near = (stated: PrintedNumber, truth: number, slack: number): boolean =>
      Math.abs(stated.value - truth) <= (stated.rounding + slack * Math.abs(truth)) * (1 + 1e-9) + 1e-9;
    const actual: number[] = [];
    let wrong: string | null = null;
    let [known, unknown] = [false, false];
    for (const [k, slot] of phrase.slots.entries()) {
      const truth = truths[k]!;
      const content = contents[k]!;
      if (typeof content === 'string') {
        if (truth === null) continue;
        known = true;
        const same = String(truth).trim().toLowerCase() === content.toLowerCase();
        if (!same) wrong ??= `the ${quantity} is ${String(truth).trim()}`;
        continue;
      }
      const slack = slot.kind === 'int' ? 0 : 0.5 * 10 ** (1 - phrase.digits);
      const expected = numbersOf(slot, truth);
      if (expected.length !== numbers[k]!.length) wrong ??= `the ${quantity} has other numbers`;
      for (const [i, accepted] of expected.entries()) {
        const choice = typeof accepted === 'number' ? [accepted] : accepted;
        actual.push(choice?.[0] ?? Number.NaN);
        if (choice === null) {
          unknown = true;
          continue;
        }
        known = true;
        const stated = numbers[k]![i];
        if (stated === undefined || choice.some((number) => near(stated, number, slack))) continue;
        wrong ??= `the ${quantity} gives ${round(choice[0] ?? Number.NaN)}, not ${stated.value}`;
      }
    }
    if (wrong !== null) return judged(false, actual, wrong);
    // A number that nobody knows is not true because another one is.
    if (!known || unknown) return unchecked('it is not known');
    return judged(true, actual, `the ${quantity} gives the same`);
  }

  #view(index: number): TraceView {
    const { channels, names, intervals, profile, facts } = this.subject;
    const channel = this.#channels[index]!;
    const checker = this;
    return {
      names,
      name: names[index]!,
      length: this.length,
      gold: intervals ?? null,
      facts: facts ?? null,
      get evidence() {
        return channel.evidence;
      },
      get cycle() {
        return channel.cycle;
      },
      get variates() {
        checker.#variates ??= tried(() => analyseVariates(channels));
        return checker.#variates;
      },
      get classes() {
        checker.#classes ??= profile == null ? null : tried(() => new ClassEvidence(profile, channels));
        return checker.#classes;
      },
      get features() {
        checker.#features ??=
          tried(() => {
            const values = features(channels);
            return featureNames(names).map(({ key, says }, f) => ({ key, says, value: values[f]! }));
          }) ?? [];
        return checker.#features;
      },
    };
  }
}

const isWhole = (value: number): boolean => Number.isInteger(value) && value >= 0;

/** Computes evidence; null for a series that is too short or empty for it. */
function tried<T>(compute: () => T): T | null {
  try {
    return compute();
  } catch (error) {
    if (error instanceof DataError) return null;
    throw error;
  }
}

function distance([from, to]: Interval, start: number, end: number): number {
  return Math.abs(from - start) + Math.abs(to - end);
}

/** Intersection over union of two stretches. */
export function unionOverlap(a: Interval, b: Interval): number {
  const shared = Math.max(0, Math.min(a[1], b[1]) - Math.max(a[0], b[0]));
  const union = a[1] - a[0] + (b[1] - b[0]) - shared;
  return union === 0 ? 0 : shared / union;
}
