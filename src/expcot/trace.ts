/**
 * Evidence told as an expert chain of thought (AnomSeer, ExpCoT): Observation, Reasoning & Validation, Conclusion, then the
 * answer. Every number in a trace is a number of the evidence (or of the gold annotation, in the teacher's), rounded; a
 * threshold is said to be passed only where the evidence passes it. Traces hold no '<' or '>' that could break the tags.
 */
import type { AnomalyClass, Interval } from '../ground/types.ts';
import {
  DENOISE_ORDER,
  DENOISE_WINDOW,
  type Evidence,
  FAMILIES,
  type Family,
  type Gaps,
} from './evidence.ts';
import type { Chance } from './false-alarms.ts';
import { type Aside, type Citation, cite, isInside, LEAST_DISTANCE, type Reading, route } from './route.ts';
import { FEWEST_CYCLES } from './shape.ts';

/** Raised with every change of what a trace says of the same example: its words, its numbers, what it cites. */
export const TRACE_VERSION = 5;

/** A trace and what it concludes. */
export interface Trace {
  /** The whole response: `<think>…</think><answer>[[start, end], …]</answer><class>…</class>`. */
  readonly text: string;
  /** What stands inside the think tags. */
  readonly think: string;
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
  /** The family that the conclusion rests on; null when none does. */
  readonly cited: Family | null;
}

/** Intervals listed in a sentence; of more, the number is given. The answer always holds all. */
export const LONGEST_LIST = 4;

const NAMES: Readonly<Record<Family, string>> = {
  range: 'range test',
  trend: 'trend test',
  frequency: 'frequency test',
  profile: 'matrix profile',
};

/** Four significant digits, integers whole. */
export function formatNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

const say = formatNumber;

/** `[[start, end], …]` as the answer tag holds it. */
export function formatIntervals(intervals: readonly Interval[]): string {
  return `[${intervals.map(([start, end]) => `[${start}, ${end}]`).join(', ')}]`;
}

/** The three tagged parts of a response. */
export function formatResponse(think: string, intervals: readonly Interval[], label: AnomalyClass): string {
  return `<think>${think}</think><answer>${formatIntervals(intervals)}</answer><class>${label}</class>`;
}

/** `12 to 30 and 41 to 50`; of more than LONGEST_LIST intervals the first ones and how many there are. */
export function listIntervals(intervals: readonly Interval[]): string {
  const shown = intervals.slice(0, LONGEST_LIST).map(([start, end]) => `${start} to ${end}`);
  if (intervals.length > LONGEST_LIST) return `${shown.join(', ')} and others, ${intervals.length} in all`;
  const last = shown.pop() ?? 'nothing';
  return shown.length === 0 ? last : `${shown.join(', ')} and ${last}`;
}

function describeBase({ base, noise, denoised }: Evidence): string {
  const kinds = {
    flat: base.trending ? 'It is a straight line' : 'It is flat',
    sine: `It repeats like a sine wave with a period of ${say(base.period ?? 0)} samples`,
    cycle: `It repeats every ${say(base.period ?? 0)} samples, with a correlation of ${say(base.repetition ?? 0)}`,
    slow: `It is a slow curve: most of its power lies in fewer than ${FEWEST_CYCLES} cycles`,
    noise: 'It is noise without a period',
    irregular: 'It is an irregular curve without a clear period',
  } as const;
  const parts: string[] = [kinds[base.kind]];
  if (base.trending)
    parts.push(`on a line that ${base.rise > 0 ? 'rises' : 'falls'} by ${say(Math.abs(base.rise))} in all`);
  const sentences = [`${parts.join(' ')}.`];
  if (denoised) {
    sentences.push(
      `Noise of about ${say(noise.sigma)} rides on it and is smoothed away first (Savitzky–Golay ${DENOISE_WINDOW}, ${DENOISE_ORDER}).`,
    );
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

/** One sentence about a test: its numbers against its threshold, and what it flags. */
function report(evidence: Evidence, family: Family): string {
  if (family === 'range') {
    const { sigmas, lower, upper, maxAbsZ, intervals } = evidence.range;
    const outcome = intervals.length === 0 ? 'nothing is outside' : `outside: ${listIntervals(intervals)}`;
    return `Range test: ${sigmas} standard deviations span ${say(lower)} to ${say(upper)}, the largest z-score is ${say(maxAbsZ)}; ${outcome}.`;
  }
  if (family === 'trend') {
    const test = evidence.trend;
    if (test === null) return 'Trend test: the series is too short.';
    const outcome =
      test.intervals.length === 0 ? 'not beyond it' : `beyond it: ${listIntervals(test.intervals)}`;
    return `Trend test: the smoothed slope departs by up to ${say(test.peak)} from its mean ${say(test.mean)}, limit ${say(test.threshold)}; ${outcome}.`;
  }
  if (family === 'frequency') {
    const test = evidence.frequency;
    if (test === null) return 'Frequency test: the series is too short.';
    const opening = `Frequency test: the period in windows of ${test.window} averages ${say(test.mean)} with standard deviation ${say(test.std)}`;
    if (test.stable) return `${opening}, below ${test.stableBelow}: stable.`;
    return test.intervals.length === 0
      ? `${opening}: not stable, but no window departs by more than ${say(test.threshold)}.`
      : `${opening}: not stable; windows that depart by more than ${say(test.threshold)}, to ${say(test.extreme)}, cover ${listIntervals(test.intervals)}.`;
  }
  const test = evidence.profile;
  if (test === null) return 'Matrix profile: the series is too short.';
  const outcome =
    test.intervals.length === 0
      ? `not above ${test.threshold}: no discord`
      : `above ${test.threshold}: a discord at ${listIntervals(test.intervals)}`;
  const part = test.exact ? '' : ' among the pairs compared';
  return `Matrix profile: the window of ${test.window} least like any other${part} starts at ${test.discord}, distance ${say(test.distance)} against ${say(test.mean)} on average, z-score ${say(test.z)}, ${outcome}.`;
}

/** The response of three parts: an observation that ends with `found`, all tests and `validation`, `conclusion`. */
export function composeTrace(
  evidence: Evidence,
  told: { readonly found: string; readonly validation: string; readonly conclusion: string },
  intervals: readonly Interval[],
  label: AnomalyClass,
  cited: Family | null = null,
): Trace {
  const tests = FAMILIES.map((family) => report(evidence, family)).join(' ');
  const think = `Observation: ${observe(evidence)} ${told.found}\nReasoning & Validation: ${tests} ${told.validation}\nConclusion: ${told.conclusion}`;
  return { text: formatResponse(think, intervals, label), think, intervals, class: label, cited };
}

function names(families: readonly Family[]): string {
  return families.map((family) => `the ${NAMES[family]}`).join(' and ');
}

/** The range test against the moments of what is not an outlier. */
function reportOutliers({ outliers }: Evidence): string {
  const { mean, std, maxAbsZ, extreme } = outliers;
  const verdict = maxAbsZ > extreme ? `above ${extreme}` : `not above ${extreme}`;
  return `Without what lies outside, the mean is ${say(mean)} and the standard deviation ${say(std)}; the largest z-score is then ${say(maxAbsZ)}, ${verdict}.`;
}

/** How the teacher squares the gold annotation with the tests. */
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
  const again = clipped
    ? `${reportOutliers(evidence)} Outliers are then at ${listIntervals(evidence.outliers.intervals)}. `
    : '';
  return `${again}The ${NAMES[family]} best supports an anomaly of class ${label} at ${listIntervals(intervals)}, with a point F1 of ${say(agreement)}${elsewhere}.`;
}

/**
 * The trace that teaches (training split only): states the gold intervals (sorted, disjoint) and class in all three parts,
 * cites the family whose evidence covers them best, and says where the evidence disagrees.
 */
export function teacher(evidence: Evidence, intervals: readonly Interval[], label: AnomalyClass): Trace {
  const citation = cite(evidence, intervals);
  const found =
    intervals.length === 0
      ? 'Nothing departs from this pattern: it looks normal.'
      : `It departs from this pattern at ${listIntervals(intervals)}, like an anomaly of class ${label}.`;
  const conclusion =
    intervals.length === 0
      ? 'no anomaly; the class is normal.'
      : `anomalies of class ${label} at ${listIntervals(intervals)}.`;
  const validation = validate(evidence, citation, intervals, label);
  return composeTrace(evidence, { found, validation, conclusion }, intervals, label, citation.family);
}

/** Why some of what the tests flag does not count. */
function setAside(evidence: Evidence, aside: readonly Aside[]): string {
  return aside
    .flatMap((test) => {
      const { lag, rest } = evidence.recurrence[test];
      const name = NAMES[test === 'outliers' ? 'range' : test];
      const parts =
        lag === null
          ? []
          : [`What the ${name} finds every ${say(lag)} samples is the pattern of the series. `];
      if (test === 'trend') {
        return rest.every((interval) => isInside(interval, evidence.length))
          ? parts
          : [...parts, 'Slopes at the very ends of the series are extrapolated and do not count. '];
      }
      const { limit, beyond } = evidence.tails[test];
      return beyond.length === evidence[test].intervals.length
        ? parts
        : [
            ...parts,
            `The tail of the values themselves reaches ${say(limit)} from the mean; single outliers within it do not count. `,
          ];
    })
    .join('');
}

/** Why the discord of a curve whose windows hold no wave is none. */
function unremarkable({ profile, base }: Evidence, { noise, sampling, explains }: Chance): string {
  const holds =
    base.period === null || base.kind === 'cycle'
      ? ''
      : `A window of ${profile?.window} holds an arc of a slow wave, not the wave. `;
  if (explains === 'noise') {
    return `${holds}Noise alone puts ${say(noise)} on average between windows of this spread, and a few times that by chance.`;
  }
  if (explains === 'sampling') return `${holds}A shift by one sample alone is ${say(sampling)}.`;
  return 'So slow a curve hardly repeats, and each smooth arc is unlike the others.';
}

/** Why the blind reading takes the class it takes. */
function decide(evidence: Evidence, { family, intervals, class: label, local }: Reading): string {
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
      : `The discord is at distance ${say(profile.distance)} from its neighbour, where ${say(profile.mean)} is the mean, which chance reaches too. No test decides.`;
  }
  const where = listIntervals(intervals);
  if (family === 'range') {
    const shaped = evidence.base.kind !== 'noise' && evidence.base.kind !== 'flat';
    const extreme = evidence.range.maxAbsZ > evidence.outliers.extreme;
    const reason = shaped
      ? extreme
        ? `The largest z-score is above ${evidence.outliers.extreme}.`
        : 'A spike leaves the band in one step; the steep slopes beside it are its own.'
      : reportOutliers(evidence);
    return `${reason} The range test decides: ${where}.`;
  }
  if (local === null) return `The ${NAMES[family]} decides: ${where}.`;
  const stretch = `Around ${listIntervals([local.interval])} the level changes by ${say(local.levelChange)} (${say(local.levelChangeInStd)} standard deviations), and roughness is ${say(local.whiteness)} of that of white noise`;
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
  const conclusion =
    family === null
      ? 'no anomaly; the class is normal.'
      : `anomalies of class ${label} at ${listIntervals(intervals)}.`;
  const validation = `${setAside(evidence, reading.aside)}${decide(evidence, reading)}`;
  return composeTrace(evidence, { found, validation, conclusion }, intervals, label, family);
}
