/**
 * Evidence written as an expert chain of thought (AnomSeer, ExpCoT): Observation, Reasoning & Validation, Conclusion, then the
 * answer. Every number in a trace is a number of the evidence (or of the gold annotation, in the teacher's), rounded; a
 * threshold is reported as passed only where the evidence passes it. Traces hold no '<' or '>' that could break the tags.
 */
import type { AnomalyClass, Interval } from '../ground/types.ts';
import { pointF1Of } from '../series/intervals.ts';
import {
  DENOISE_ORDER,
  DENOISE_WINDOW,
  type Evidence,
  FAMILIES,
  type Family,
  type Gaps,
} from './evidence.ts';
import type { Chance } from './false-alarms.ts';
import { formatNumber, listIntervals, phrasesOf } from './phrase.ts';
import { type Aside, type Citation, cite, isInside, LEAST_DISTANCE, route, type Verdict } from './route.ts';
import { FEWEST_CYCLES } from './shape.ts';

/** Version of the traces, raised with every change of their words, numbers or citations. */
export const TRACE_VERSION = 5;

/** A trace and what it concludes. */
export interface Trace {
  /** The whole response: `<think>…</think><answer>[[start, end], …]</answer><class>…</class>`. */
  readonly text: string;
  /** Text inside the think tags. */
  readonly think: string;
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
  /** The family that the conclusion rests on; null when none does. */
  readonly cited: Family | null;
}

const NAMES: Readonly<Record<Family, string>> = {
  range: 'range test',
  trend: 'trend test',
  frequency: 'frequency test',
  profile: 'matrix profile',
};

const say = formatNumber;

/** `[[start, end], …]` as the answer tag holds it. */
export function formatIntervals(intervals: readonly Interval[]): string {
  return `[${intervals.map(([start, end]) => `[${start}, ${end}]`).join(', ')}]`;
}

/** The three tagged parts of a response. */
export function formatResponse(think: string, intervals: readonly Interval[], label: AnomalyClass): string {
  return `<think>${think}</think><answer>${formatIntervals(intervals)}</answer><class>${label}</class>`;
}

const ofEvidence = phrasesOf(({ evidence }) => evidence);

/** Statements about one channel as a whole. */
const SERIES = ofEvidence(null, {
  smoothing: [
    'Noise of about {n} rides on it and is smoothed away first (Savitzky–Golay {n}, {n}',
    ({ noise }) => [noise.sigma, DENOISE_WINDOW, DENOISE_ORDER],
  ],
  repetition: ['with a correlation of {n}', ({ base }) => [base.repetition ?? 0]],
  slowness: ['lies in fewer than {n} cycles', () => [FEWEST_CYCLES]],
});
/** Statements about the tests. */
const RANGE = phrasesOf(({ evidence }) => evidence.range)(
  'range test',
  {
    span: ['{n} standard deviations span {n} to {n}', (test) => [test.sigmas, test.lower, test.upper]],
    largest: ['the largest z-score is {n}', (test) => [test.maxAbsZ]],
    outside: ['outside: {list}', (test) => [test.intervals]],
  },
  { opening: 'Range test:' },
);
const TREND = phrasesOf(({ evidence }) => evidence.trend)(
  'trend test',
  {
    slope: [
      'departs by up to {n} from its mean {n}, limit {n}',
      (test) => [test.peak, test.mean, test.threshold],
    ],
    beyond: ['beyond it: {list}', (test) => [test.intervals]],
  },
  { opening: 'Trend test:' },
);
const FREQUENCY = phrasesOf(({ evidence }) => evidence.frequency)(
  'frequency test',
  {
    windows: [
      'the period in windows of {n} averages {n} with standard deviation {n}',
      (test) => [test.window, test.mean, test.std],
    ],
    stable: ['below {n}: stable', (test) => (test.stable ? [test.stableBelow] : null)],
    none: [
      'no window departs by more than {n}',
      (test) => (test.intervals.length === 0 ? [test.threshold] : null),
    ],
    cover: [
      'depart by more than {n}, to {n}, cover {list}',
      (test) => [test.threshold, test.extreme, test.intervals],
    ],
  },
  { opening: 'Frequency test:' },
);
const PROFILE = phrasesOf(({ evidence }) => evidence.profile)(
  'matrix profile',
  {
    window: [
      'the window of {n} least like any other{ among the pairs compared|} starts at {n}, distance {n} against {n} on average, z-score {n}',
      ({ window, exact, discord, distance, mean, z }) => {
        return [window, exact ? '' : ' among the pairs compared', discord, distance, mean, z];
      },
    ],
    exceeds: [
      '{above|not above} {n}',
      ({ z, threshold }) => [z > threshold ? 'above' : 'not above', threshold],
    ],
    discord: ['a discord at {list}', (test) => [test.intervals]],
  },
  { opening: 'Matrix profile:' },
);
const OUTLIERS = phrasesOf(({ evidence }) => evidence.outliers)('outliers', {
  clipped: [
    'Without what lies outside, the mean is {n} and the standard deviation {n}; the largest z-score is then {n}, {above|not above} {n}',
    ({ mean, std, maxAbsZ, extreme }) => {
      return [mean, std, maxAbsZ, maxAbsZ > extreme ? 'above' : 'not above', extreme];
    },
  ],
  stretches: ['Outliers are then at {list}', (test) => [test.intervals]],
  extreme: ['The largest z-score is above {n}', (test) => [test.extreme]],
});
/** Statements about what is made of the tests. */
const READING = ofEvidence(null, {
  stretch: [
    'Around {list} the level changes by {n} ({n} standard deviations), and roughness is {n} of that of white noise',
    (evidence, [stated]) => {
      const [interval, second] = stated as readonly Interval[];
      if (interval === undefined || second !== undefined) return null;
      if (interval[0] >= interval[1] || interval[1] > evidence.length) return null;
      const { levelChange, levelChangeInStd, whiteness } = evidence.local(interval);
      return [[interval], levelChange, levelChangeInStd, whiteness];
    },
  ],
  recurrence: [
    'What the {range test|trend test} finds every {n} samples is the pattern',
    ({ recurrence: { range, outliers, trend } }, [test]) =>
      test === NAMES.trend
        ? [test, trend.lag]
        : [NAMES.range, [range.lag ?? Number.NaN, outliers.lag ?? Number.NaN]],
  ],
  tail: [
    'The tail of the values themselves reaches {n} from the mean',
    ({ tails: { range, outliers } }) => [[range.limit, outliers.limit]],
  ],
});
const AGREEMENT = phrasesOf((view) => view)('agreement', {
  f1: [
    'point F1 of {n}',
    ({ evidence, cycle, gold }) => {
      if (gold === null) return [null];
      const byCycle = cycle === null || gold.length === 0 ? 0 : pointF1Of(cycle.intervals, gold);
      return [Math.max(byCycle, cite(evidence, gold).agreement)];
    },
  ],
});
const CHANCE = ofEvidence('chance', {
  noise: ['Noise alone puts {n} on average', ({ chance }) => [chance?.noise ?? null]],
  sampling: ['A shift by one sample alone is {n}', ({ chance }) => [chance?.sampling ?? null]],
  arc: ['A window of {n} holds an arc of a slow wave', ({ profile }) => [profile?.window ?? null]],
  distance: [
    'The discord is at distance {n} from its neighbour, where {n} is the mean',
    ({ profile }) => profile && [profile.distance, profile.mean],
  ],
});
export const TRACE_PHRASES = [
  ...[SERIES, RANGE, TREND, FREQUENCY, PROFILE, OUTLIERS],
  ...[AGREEMENT, READING, CHANCE],
];

/** States the point F1 of a test against the annotation. */
export const sayAgreement = (f1: number): string => AGREEMENT.f1.print(f1);

function describeBase(evidence: Evidence): string {
  const { base, denoised } = evidence;
  const kinds = {
    flat: base.trending ? 'It is a straight line' : 'It is flat',
    sine: `It repeats like a sine wave with a period of ${say(base.period ?? 0)} samples`,
    cycle: `It repeats every ${say(base.period ?? 0)} samples, ${SERIES.repetition.of(evidence)}`,
    slow: `It is a slow curve: most of its power ${SERIES.slowness.of(evidence)}`,
    noise: 'It is noise without a period',
    irregular: 'It is an irregular curve without a clear period',
  } as const;
  const parts: string[] = [kinds[base.kind]];
  if (base.trending)
    parts.push(`on a line that ${base.rise > 0 ? 'rises' : 'falls'} by ${say(Math.abs(base.rise))} in all`);
  const sentences = [`${parts.join(' ')}.`];
  if (denoised) {
    sentences.push(`${SERIES.smoothing.of(evidence)}).`);
  }
  return sentences.join(' ');
}

/** `1 sample is missing (1 gap)`, `12 samples are missing (3 gaps, the longest of 9)`; `of` follows `missing`. */
export function tellGaps({ missing, gaps, longest }: Gaps, of = ''): string {
  const samples = missing === 1 ? '1 sample is' : `${missing} samples are`;
  const runs = gaps === 1 ? '1 gap' : `${gaps} gaps, the longest of ${longest}`;
  return `${samples} missing${of} (${runs})`;
}

function observe(evidence: Evidence): string {
  const { length, summary, gaps } = evidence;
  const bridged =
    gaps === null ? '' : `${tellGaps(gaps)}; for the analyses alone straight lines bridge them. `;
  return `${bridged}The series has ${length} samples between ${say(summary.min)} and ${say(summary.max)}, mean ${say(summary.mean)}, standard deviation ${say(summary.std)}. ${describeBase(evidence)}`;
}

/** Sentence about a test: its numbers, its threshold, and the flagged intervals. */
function report(evidence: Evidence, family: Family): string {
  if (family === 'range') {
    const outcome =
      evidence.range.intervals.length === 0 ? 'nothing is outside' : RANGE.outside.of(evidence.range);
    return `Range test: ${RANGE.span.of(evidence.range)}, ${RANGE.largest.of(evidence.range)}; ${outcome}.`;
  }
  if (family === 'trend') {
    const test = evidence.trend;
    if (test === null) return 'Trend test: the series is too short.';
    const outcome = test.intervals.length === 0 ? 'not beyond it' : TREND.beyond.of(test);
    return `Trend test: the smoothed slope ${TREND.slope.of(test)}; ${outcome}.`;
  }
  if (family === 'frequency') {
    const test = evidence.frequency;
    if (test === null) return 'Frequency test: the series is too short.';
    const opening = `Frequency test: ${FREQUENCY.windows.of(test)}`;
    if (test.stable) return `${opening}, ${FREQUENCY.stable.of(test)}.`;
    return test.intervals.length === 0
      ? `${opening}: not stable, but ${FREQUENCY.none.of(test)}.`
      : `${opening}: not stable; windows that ${FREQUENCY.cover.of(test)}.`;
  }
  const test = evidence.profile;
  if (test === null) return 'Matrix profile: the series is too short.';
  const outcome = test.intervals.length === 0 ? 'no discord' : PROFILE.discord.of(test);
  return `Matrix profile: ${PROFILE.window.of(test)}, ${PROFILE.exceeds.of(test)}: ${outcome}.`;
}

/** Composes the response: an observation that ends with `found`, all tests with `validation`, and the conclusion. */
export function composeTrace(
  evidence: Evidence,
  parts: { readonly found: string; readonly validation: string },
  intervals: readonly Interval[],
  label: AnomalyClass,
  cited: Family | null = null,
): Trace {
  const tests = FAMILIES.map((family) => report(evidence, family)).join(' ');
  const conclusion =
    intervals.length === 0
      ? 'no anomaly; the class is normal.'
      : `anomalies of class ${label} at ${listIntervals(intervals)}.`;
  const think = `Observation: ${observe(evidence)} ${parts.found}\nReasoning & Validation: ${tests} ${parts.validation}\nConclusion: ${conclusion}`;
  return { text: formatResponse(think, intervals, label), think, intervals, class: label, cited };
}

function names(families: readonly Family[]): string {
  return families.map((family) => `the ${NAMES[family]}`).join(' and ');
}

/** Reports the range test against the moments of what is not an outlier. */
const reportOutliers = (evidence: Evidence): string => `${OUTLIERS.clipped.of(evidence.outliers)}.`;

/** Compares the gold annotation with the tests, in the teacher's words. */
function validate(
  evidence: Evidence,
  { family, agreement, clipped, dissent }: Citation,
  intervals: readonly Interval[],
  label: AnomalyClass,
): string {
  const elsewhere = dissent.length === 0 ? '' : `; what ${names(dissent)} flagged is not part of it`;
  if (intervals.length === 0) {
    return dissent.length === 0
      ? 'No test flags anything, in agreement with a normal series.'
      : `Against the evidence of ${names(dissent)}, nothing here is a genuine anomaly.`;
  }
  if (family === null) {
    return `No test covers ${listIntervals(intervals)}, where the shape itself shows an anomaly of class ${label}; the evidence disagrees${elsewhere}.`;
  }
  const again = clipped ? `${reportOutliers(evidence)} ${OUTLIERS.stretches.of(evidence.outliers)}. ` : '';
  return `${again}The ${NAMES[family]} best supports an anomaly of class ${label} at ${listIntervals(intervals)}, with a ${sayAgreement(agreement)}${elsewhere}.`;
}

/**
 * Writes the teacher trace (training split only): states the gold intervals (sorted, disjoint) and class in all three parts,
 * cites the family whose evidence covers them best, and reports where the evidence disagrees.
 */
export function teacher(evidence: Evidence, intervals: readonly Interval[], label: AnomalyClass): Trace {
  const citation = cite(evidence, intervals);
  const found =
    intervals.length === 0
      ? 'Nothing departs from this pattern: it looks normal.'
      : `It departs from this pattern at ${listIntervals(intervals)}, like an anomaly of class ${label}.`;
  const validation = validate(evidence, citation, intervals, label);
  return composeTrace(evidence, { found, validation }, intervals, label, citation.family);
}

/** Explains why some flagged stretches do not count. */
function setAside(evidence: Evidence, aside: readonly Aside[]): string {
  return aside
    .flatMap((test) => {
      const { lag, rest } = evidence.recurrence[test];
      const name = NAMES[test === 'outliers' ? 'range' : test];
      const parts = lag === null ? [] : [`${READING.recurrence.print(name, lag)} of the series. `];
      if (test === 'trend') {
        return rest.every((interval) => isInside(interval, evidence.length))
          ? parts
          : [...parts, 'Slopes at the very ends of the series are extrapolated and do not count. '];
      }
      const { limit, beyond } = evidence.tails[test];
      return beyond.length === evidence[test].intervals.length
        ? parts
        : [...parts, `${READING.tail.print(limit)}; single outliers within it do not count. `];
    })
    .join('');
}

/** Explains why the discord of a curve whose windows hold no wave is none. */
function unremarkable(evidence: Evidence, { explains }: Chance): string {
  const { base } = evidence;
  const holds =
    base.period === null || base.kind === 'cycle' ? '' : `${CHANCE.arc.of(evidence)}, not the wave. `;
  if (explains === 'noise') {
    return `${holds}${CHANCE.noise.of(evidence)} between windows of this spread, and a few times that by chance.`;
  }
  if (explains === 'sampling') return `${holds}${CHANCE.sampling.of(evidence)}.`;
  return 'So slow a curve hardly repeats, and each smooth arc is unlike the others.';
}

/** Explains the class of the blind reading. */
function decide(evidence: Evidence, { family, intervals, class: label, local }: Verdict): string {
  if (family === null) {
    const { base } = evidence;
    if (base.kind === 'noise' || base.kind === 'flat') {
      return `Without a shape only outliers count. ${reportOutliers(evidence)} No test decides.`;
    }
    const { profile } = evidence;
    if (profile === null || profile.intervals.length === 0) return 'No test decides.';
    if (evidence.chance?.explains) return `${unremarkable(evidence, evidence.chance)} No test decides.`;
    return profile.distance < LEAST_DISTANCE
      ? 'The discord differs by rounding errors alone. No test decides.'
      : `${CHANCE.distance.of(evidence)}, which chance reaches too. No test decides.`;
  }
  const where = listIntervals(intervals);
  if (family === 'range') {
    const shaped = evidence.base.kind !== 'noise' && evidence.base.kind !== 'flat';
    const reason = shaped
      ? evidence.range.maxAbsZ > evidence.outliers.extreme
        ? `${OUTLIERS.extreme.of(evidence.outliers)}.`
        : 'A spike leaves the band in one step; the steep slopes beside it are its own.'
      : reportOutliers(evidence);
    return `${reason} The range test decides: ${where}.`;
  }
  if (local === null) return `The ${NAMES[family]} decides: ${where}.`;
  const { interval, levelChange, levelChangeInStd, whiteness } = local;
  const stretch = READING.stretch.print([interval], levelChange, levelChangeInStd, whiteness);
  const meaning = {
    trend: 'the line bends there',
    'contextual point': 'the wave gives way to noise there',
    seasonal: 'the wave itself changes there',
  } as Partial<Record<AnomalyClass, string>>;
  return `The ${NAMES[family]} decides: ${where}. ${stretch}: ${meaning[label] ?? label}.`;
}

/** The trace of the evidence alone: intervals and class are the blind reading's. */
export function blind(evidence: Evidence): Trace {
  const reading = route(evidence);
  const { family, intervals, class: label } = reading;
  const found =
    family === null
      ? 'No test finds a departure from this pattern.'
      : `The ${NAMES[family]} finds a departure from this pattern.`;
  const validation = `${setAside(evidence, reading.aside)}${decide(evidence, reading)}`;
  return composeTrace(evidence, { found, validation }, intervals, label, family);
}
