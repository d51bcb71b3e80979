/**
 * Typed evidence of the expert chain of thought (AnomSeer, ExpCoT): what classical analyses say about a series, every
 * number that a trace may quote. Evidence is computed from values alone; labels and task names have no way in.
 *
 * Each part is computed when it is first read, so an analysis that nobody asks for costs nothing.
 *
 * Departures from AnomSeer's release:
 * - A series is smoothed because it is noisy (`AnalyseOptions`), not because its task is called so: the name leaks the label.
 * - Of a smoothed series the discord of the matrix profile keeps half the smoothing window, 15 samples, off both ends; the
 *   release takes it anywhere. The filter fits its first and last 15 values to one parabola each, and such a stretch is like no
 *   other: on the noisy AnomLLM tasks (200 test series each, seed 42) that moves the discord of 144 of 600 series, onto an
 *   anomaly in 19 and off one in 1, and 105 bent ends are no longer flagged. Where the release's discord lies just inside the
 *   margin it moves by a sample or two (13 or 14 → 15). Mean and standard deviation of the profile are the release's.
 */
import { DataError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';
import {
  type FrequencyTest,
  frequencyTest,
  type OutlierTest,
  outlierTest,
  type ProfileTest,
  profileTest,
  type RangeTest,
  rangeTest,
  smoothedSlope,
  type TrendTest,
  trendTest,
} from '../series/analyses.ts';
import type { Bridged } from '../series/missing.ts';
import { savgol } from '../series/savgol.ts';
import { dominantPeriod } from '../series/spectrum.ts';
import { type Summary, summarise } from '../series/stats.ts';
import {
  type Chance,
  chanceOf,
  holdLess,
  type Recurrence,
  recurrence,
  type TailTest,
  tailTest,
} from './false-alarms.ts';
import {
  type Base,
  type Departure,
  departureOf,
  describeBase,
  type LocalEvidence,
  localEvidence,
  type Noise,
} from './shape.ts';

/** The analysis families, in the order in which a tie between them is decided. */
export const FAMILIES = ['range', 'trend', 'frequency', 'profile'] as const;
export type Family = (typeof FAMILIES)[number];

export const DENOISE_WINDOW = 31;
export const DENOISE_ORDER = 2;
const DENOISE = { window: DENOISE_WINDOW, order: DENOISE_ORDER } as const;
/** Samples at each end that smoothing bends. */
const BENT = (DENOISE_WINDOW - 1) / 2;

/**
 * A series counts as noisy when white noise makes up more than this part of its spread around a line. Measured on
 * the synthetic tasks: clean ones stay below 0.003 (the rest of a sine's third differences), the noise levels of
 * nano5 (std 0.03–0.08 on unit sines) and of the noisy AnomLLM tasks lie between 0.02 and 0.36.
 */
const NOISY_FROM = 0.01;
export interface AnalyseOptions {
  /**
   * Smoothing of the series for the four tests (Savitzky–Golay 31, 2). `auto` (default) smooths a noisy series
   * unless it is noise through and through, or has a period below 31 samples or cycles of pulses and edges that smoothing would flatten,
   * or is shorter than 31 samples.
   */
  readonly denoise?: boolean | 'auto';
  /** Missing points that were bridged before, for the trace to report. */
  readonly gaps?: Gaps;
  /** Statistics of the points that are not missing, where some are; those of all values where absent. */
  readonly summary?: Summary;
}

/** Missing points of a series. */
export type Gaps = Pick<Bridged, 'missing' | 'gaps' | 'longest'>;

export class Evidence {
  /** Number of samples, N. */
  readonly length: number;
  /** Missing points that straight lines bridge; null where there were none. */
  readonly gaps: Gaps | null;
  readonly #values: Float64Array;
  readonly #denoise: boolean | 'auto';
  readonly #summary: Summary | undefined;
  readonly #kept = new Map<string, unknown>();

  constructor(values: Float64Array, options: AnalyseOptions = {}) {
    if (values.length === 0) throw new DataError('the series is empty: give at least one value');
    for (let i = 0; i < values.length; i++) {
      if (!Number.isFinite(values[i])) {
        throw new DataError(
          `value ${i} of the series is ${values[i]}: fill or drop values that are not finite before the analysis`,
        );
      }
    }
    this.length = values.length;
    const { missing, gaps, longest } = options.gaps ?? { missing: 0, gaps: 0, longest: 0 };
    this.gaps = missing === 0 ? null : { missing, gaps, longest };
    this.#values = values;
    this.#denoise = options.denoise ?? 'auto';
    this.#summary = options.summary;
  }

  #once<T>(key: string, compute: () => T): T {
    if (!this.#kept.has(key)) this.#kept.set(key, compute());
    return this.#kept.get(key) as T;
  }

  /** Statistics of the series as given, missing points left out. */
  get summary(): Summary {
    return this.#summary ?? this.#once('summary', () => summarise(this.#values));
  }

  get noise(): Noise {
    return this.#shape.noise;
  }

  get base(): Base {
    return this.#shape.base;
  }

  get #shape(): { noise: Noise; base: Base } {
    return this.#once('shape', () => describeBase(this.#values));
  }

  /** True where the tests below saw the smoothed series. */
  get denoised(): boolean {
    return this.#once('denoised', () => {
      if (this.length < DENOISE_WINDOW) return false;
      if (this.#denoise !== 'auto') return this.#denoise;
      const { noise, base } = this.#shape;
      if (noise.share <= NOISY_FROM || base.kind === 'noise' || base.kind === 'flat') return false;
      return base.kind !== 'cycle' && (base.period === null || base.period >= DENOISE_WINDOW);
    });
  }

  /** The values that the tests saw: as given, or smoothed. Not to be written to. */
  get analysed(): Float64Array {
    return this.#once('analysed', () => (this.denoised ? savgol(this.#values, DENOISE) : this.#values));
  }

  /** Period of the strongest spectral line of the whole analysed series, trend included; NaN for one value. */
  get fullPeriod(): number {
    return this.#once('fullPeriod', () => dominantPeriod(this.analysed, this.range.mean));
  }

  get range(): RangeTest {
    return this.#once('range', () => rangeTest(this.analysed));
  }

  /** The range test with clipped moments, for the blind reading. */
  get outliers(): OutlierTest {
    return this.#once('outliers', () => outlierTest(this.analysed));
  }

  /** Outliers of the range tests beside the tail of the series' own distribution. */
  get tails(): { readonly range: TailTest; readonly outliers: TailTest } {
    return this.#once('tails', () => ({
      range: tailTest(this.analysed, this.range, this.range.intervals),
      outliers: tailTest(this.analysed, this.outliers, this.outliers.intervals),
    }));
  }

  /** Stretches of each test that recur through the series, and those that do not. */
  get recurrence(): { readonly [K in 'range' | 'outliers' | 'trend']: Recurrence } {
    return this.#once('recurrence', () => {
      const { analysed, range, outliers, trend } = this;
      const around = ({ mean, intervals }: RangeTest | OutlierTest): Recurrence =>
        recurrence(
          analysed.map((value) => value - mean),
          intervals,
        );
      const none = { lag: null, rest: [] };
      return {
        range: around(range),
        outliers: around(outliers),
        trend:
          trend === null || trend.intervals.length === 0
            ? none
            : recurrence(
                smoothedSlope(analysed).map((slope) => slope - trend.mean),
                trend.intervals,
              ),
      };
    });
  }

  /** Level and roughness of the given values inside an interval and around it. */
  local(interval: Interval): LocalEvidence {
    const period = this.base.period;
    return this.#once(`local ${interval[0]} ${interval[1]}`, () =>
      localEvidence(
        this.#values,
        interval,
        period === null ? interval[1] - interval[0] : Math.round(period),
        this.base.spread,
      ),
    );
  }

  /** Describes how the given values inside an interval depart from those around it. */
  departure(interval: Interval): Departure {
    const { min, max } = this.summary;
    return departureOf(this.#values, this.local(interval), this.base, Math.max(max - min, Number.MIN_VALUE));
  }

  get trend(): TrendTest | null {
    return this.#once('trend', () => trendTest(this.analysed));
  }

  get frequency(): FrequencyTest | null {
    return this.#once('frequency', () => frequencyTest(this.analysed));
  }

  /**
   * True where the frequency test applies: its windows hold a wave or more, in less of one the
   * noise decides; and the series is not made of cycles whose many frequencies are equally strong.
   */
  get frequencyApplies(): boolean {
    const { base, frequency } = this;
    return frequency !== null && base.kind !== 'cycle' && !holdLess(base, frequency.window, 1);
  }

  get profile(): ProfileTest | null {
    return this.#once('profile', () => profileTest(this.analysed, this.denoised ? BENT : 0));
  }

  /** Distance that chance gives the discord; null without one, and for waves of which a window holds half a period and more. */
  get chance(): Chance | null {
    return this.#once('chance', () => {
      const { profile, denoised } = this;
      if (profile === null || profile.intervals.length === 0) return null;
      const local = this.local([profile.discord, profile.discord + profile.window]);
      return chanceOf(this.analysed, profile, this.#shape, local, denoised ? DENOISE : null);
    });
  }

  /** Stretches unlike the rest; where chance has a part the discord's window alone, as more windows stand out by it. */
  get unlike(): readonly Interval[] {
    return (this.chance === null ? this.profile?.regions : this.profile?.intervals) ?? [];
  }

  /** Intervals of one family; empty when the test found nothing or could not run. */
  intervals(family: Family): readonly Interval[] {
    return this[family]?.intervals ?? [];
  }

  /** Everything, computed: for records and reports. */
  toJSON(): Record<string, unknown> {
    const { length, summary, noise, base, denoised, fullPeriod, range, outliers, trend, frequency, profile } =
      this;
    const { chance, tails, recurrence } = this;
    return {
      length,
      ...(this.gaps === null ? {} : { gaps: this.gaps }),
      summary,
      noise,
      base,
      smoothing: denoised ? DENOISE : null,
      fullPeriod,
      range,
      outliers,
      trend,
      frequency,
      profile,
      ...(chance === null ? {} : { chance }),
      tails,
      recurrence,
    };
  }
}

/** Evidence about a series [N]. Throws a DataError for an empty series or a value that is not finite. */
export function analyse(values: Float64Array, options: AnalyseOptions = {}): Evidence {
  return new Evidence(values, options);
}
