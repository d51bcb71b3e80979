/**
 * The claims of the expert chain of thought that no other text makes: what its tests found, by which numbers. A policy that was taught by
 * such traces writes the same sentences, so they are read and checked in its texts too. True is what the same test says of the series.
 */
import { fromScale } from '../src/expcot/class-profile.ts';
import type { ClassEvidence } from '../src/expcot/class-trace.ts';
import type { CycleTest } from '../src/expcot/cycle.ts';
import { FLAG_FROM } from '../src/expcot/cycle.ts';
import { DENOISE_ORDER, DENOISE_WINDOW, type Evidence } from '../src/expcot/evidence.ts';
import { cite } from '../src/expcot/route.ts';
import { FEWEST_CYCLES } from '../src/expcot/shape.ts';
import { LONGEST_LIST } from '../src/expcot/trace.ts';
import { FAR, LEAST_STEP, type VariatesEvidence } from '../src/expcot/variates.ts';
import type { Interval } from '../src/ground/types.ts';
import { pointF1 } from '../src/series/intervals.ts';

/** What is known of the channel that a claim is about, computed when it is first asked for. */
export interface ExpertView {
  readonly evidence: Evidence;
  readonly cycle: CycleTest | null;
  /** The annotation; null where there is none. */
  readonly gold: readonly Interval[] | null;
  /** Null where the series has too few channels or points to compare. */
  readonly variates: VariatesEvidence | null;
  /** Null where nothing was learned of the classes. */
  readonly classes: ClassEvidence | null;
  readonly names: readonly string[];
  readonly name: string;
  /** Features of all channels: what they measure in words, and value; of single channels by key. */
  readonly features: readonly { readonly key: string; readonly says: string; readonly value: number }[];
}

/** The true number; several where each would do; null where it is not known. */
type Truth = number | readonly number[] | null;

interface ExpertPattern {
  readonly quantity: string;
  /** What the sentence must hold; null: anything. */
  readonly test: string | null;
  readonly pattern: RegExp;
  /** Of the numbers in the order of the text. @param phrase the sentence up to the end of the claim */
  truth(view: ExpertView, stated: readonly number[], phrase: string): readonly Truth[];
  /** Digits that the traces print. */
  readonly digits: number;
}

const LIST = '(?:N to N , ){0,3}N to N(?: and N to N| and others , N in all)?';

/** The numbers of a list of intervals as a trace prints it. */
function listed(intervals: readonly Interval[]): number[] {
  const shown = intervals.slice(0, LONGEST_LIST).flat();
  return intervals.length > LONGEST_LIST ? [...shown, intervals.length] : shown;
}

const expert = (
  quantity: string,
  test: string | null,
  source: string,
  truth: ExpertPattern['truth'],
  digits = 4,
): ExpertPattern => ({ quantity, test, pattern: new RegExp(` ${source}(?= )`, 'gu'), truth, digits });

const featureOf = (view: ExpertView, key: string): Truth =>
  view.features.find((one) => one.key === key || one.key === `${view.name}.${key}`)?.value ?? null;

/** Value and typical values of the feature that `phrase` names: "the … is 0.41, where fan has 0.3 and pump 0.5". */
function featureTruth(view: ExpertView, phrase: string): Truth[] {
  const found = /^(.*) is [^ ]+, where (.*) has [^ ]+ and (.*) [^ ]+$/s.exec(phrase);
  if (found === null) return [null, null, null];
  const [, before, one, other] = found;
  const named = view.features
    .filter(({ says }) => before!.endsWith(`the ${says}`))
    .sort((a, b) => b.says.length - a.says.length)[0];
  if (named === undefined) return [null, null, null];
  const profile = view.classes?.profile;
  const f = profile?.features.findIndex(({ key }) => key === named.key) ?? -1;
  const typical = (name: string): Truth => {
    const mean = profile?.classes.find((each) => each.name === name)?.means[f] ?? null;
    return mean === null ? null : fromScale(profile!.features[f]!, mean);
  };
  return [named.value, typical(one!), typical(other!)];
}

export const EXPERT_PATTERNS: readonly ExpertPattern[] = [
  // The series as a whole.
  expert(
    'smoothing',
    null,
    'noise of about N rides on it and is smoothed away first \\( savitzky – golay N , N',
    ({ evidence }) => [evidence.noise.sigma, DENOISE_WINDOW, DENOISE_ORDER],
  ),
  expert('repetition', null, 'with a correlation of N', ({ evidence }) => [evidence.base.repetition]),
  expert('slow curve', null, 'lies in fewer than N cycles', () => [FEWEST_CYCLES]),
  // The tests.
  expert('range test', ' range test :', 'N standard deviations span N to N', ({ evidence: { range } }) => [
    range.sigmas,
    range.lower,
    range.upper,
  ]),
  expert('range test', ' range test :', 'the largest z-score is N', ({ evidence }) => [
    evidence.range.maxAbsZ,
  ]),
  expert('range test', ' range test :', `outside : ${LIST}`, ({ evidence }) =>
    listed(evidence.range.intervals),
  ),
  expert(
    'trend test',
    ' trend test :',
    'departs by up to N from its mean N , limit N',
    ({ evidence: { trend } }) => (trend === null ? [] : [trend.peak, trend.mean, trend.threshold]),
  ),
  expert('trend test', ' trend test :', `beyond it : ${LIST}`, ({ evidence }) =>
    listed(evidence.trend?.intervals ?? []),
  ),
  expert(
    'frequency test',
    ' frequency test :',
    'the period in windows of N averages N with standard deviation N',
    ({ evidence: { frequency } }) =>
      frequency === null ? [] : [frequency.window, frequency.mean, frequency.std],
  ),
  expert('frequency test', ' frequency test :', 'below N : stable', ({ evidence: { frequency } }) => [
    frequency?.stable === true ? frequency.stableBelow : Number.NaN,
  ]),
  expert(
    'frequency test',
    ' frequency test :',
    'no window departs by more than N',
    ({ evidence: { frequency } }) => [
      frequency === null || frequency.intervals.length > 0 ? Number.NaN : frequency.threshold,
    ],
  ),
  expert(
    'frequency test',
    ' frequency test :',
    `depart by more than N , to N , cover ${LIST}`,
    ({ evidence: { frequency } }) =>
      frequency === null ? [] : [frequency.threshold, frequency.extreme, ...listed(frequency.intervals)],
  ),
  expert(
    'matrix profile',
    ' matrix profile :',
    'the window of N least like any other(?: among the pairs compared)? starts at N , distance N against N on average , z-score N',
    ({ evidence: { profile } }) =>
      profile === null ? [] : [profile.window, profile.discord, profile.distance, profile.mean, profile.z],
  ),
  expert(
    'matrix profile',
    ' matrix profile :',
    '(?:not )?above N',
    ({ evidence: { profile } }, _, phrase) => {
      const above = !/ not above [^ ]+$/.test(phrase);
      return [profile !== null && profile.z > profile.threshold === above ? profile.threshold : Number.NaN];
    },
  ),
  expert('matrix profile', ' matrix profile :', `a discord at ${LIST}`, ({ evidence }) =>
    listed(evidence.profile?.intervals ?? []),
  ),
  expert(
    'outliers',
    null,
    'without what lies outside , the mean is N and the standard deviation N ; the largest z-score is then N , (?:not )?above N',
    ({ evidence: { outliers } }, _, phrase) => [
      outliers.mean,
      outliers.std,
      outliers.maxAbsZ,
      outliers.maxAbsZ > outliers.extreme === !/ not above [^ ]+$/.test(phrase)
        ? outliers.extreme
        : Number.NaN,
    ],
  ),
  expert('outliers', null, `outliers are then at ${LIST}`, ({ evidence }) =>
    listed(evidence.outliers.intervals),
  ),
  expert('outliers', null, '^ the largest z-score is above N', ({ evidence }) => [evidence.outliers.extreme]),
  expert(
    'cycle test',
    ' cycle test :',
    'the typical cycle of N samples lies between N and N ; the largest departure from it is N at N , limit N \\( N standard deviations of N',
    ({ cycle }) =>
      cycle === null
        ? []
        : [
            cycle.period,
            cycle.low,
            cycle.high,
            cycle.peak,
            cycle.peakIndex,
            cycle.threshold,
            FLAG_FROM,
            cycle.sigma,
          ],
  ),
  expert('cycle test', ' cycle test :', 'what recurs every N samples is a longer pattern', ({ cycle }) => [
    cycle?.recurs ?? null,
  ]),
  expert('cycle test', ' cycle test :', `flagged : ${LIST}`, ({ cycle }) => listed(cycle?.intervals ?? [])),
  expert('cycle test', ' cycle test :', 'steps there are N times the usual ones', ({ cycle }) => [
    cycle?.speed ?? null,
  ]),
  expert('cycle test', ' cycle test :', 'roughness is N of that of white noise', ({ cycle }) => [
    cycle?.whiteness ?? null,
  ]),
  expert(
    'cycle test',
    ' cycle test :',
    'a share of N lies outside of the range of the cycle',
    ({ cycle }) => [cycle?.outside ?? null],
  ),
  expert('cycle test', ' cycle test :', 'the level changes for good by up to N', ({ cycle }) => [
    cycle?.levelChange ?? null,
  ]),
  // What is made of them.
  expert('agreement', null, 'point f1 of N', ({ evidence, cycle, gold }) => {
    if (gold === null) return [null];
    const own = cycle === null || gold.length === 0 ? 0 : pointF1(cycle.intervals, gold);
    return [Math.max(own, cite(evidence, gold).agreement)];
  }),
  expert(
    'stretch',
    null,
    'around N to N(?: and N to N)? the level changes by N \\( N standard deviations \\) , and roughness is N of that of white noise',
    ({ evidence }, stated) => {
      if (
        stated.length !== 5 ||
        !(stated[0]! >= 0 && stated[0]! < stated[1]! && stated[1]! <= evidence.length)
      )
        return [];
      const local = evidence.local([stated[0]!, stated[1]!]);
      return [stated[0]!, stated[1]!, local.levelChange, local.levelChangeInStd, local.whiteness];
    },
  ),
  expert(
    'recurrence',
    null,
    'what the range test finds every N samples is the pattern',
    ({ evidence: { recurrence } }) => [
      [recurrence.range.lag ?? Number.NaN, recurrence.outliers.lag ?? Number.NaN],
    ],
  ),
  expert(
    'recurrence',
    null,
    'what the trend test finds every N samples is the pattern',
    ({ evidence: { recurrence } }) => [recurrence.trend.lag],
  ),
  expert(
    'tail',
    null,
    'the tail of the values themselves reaches N from the mean',
    ({ evidence: { tails } }) => [[tails.range.limit, tails.outliers.limit]],
  ),
  expert('chance', null, 'noise alone puts N on average', ({ evidence }) => [evidence.chance?.noise ?? null]),
  expert('chance', null, 'a shift by one sample alone is N', ({ evidence }) => [
    evidence.chance?.sampling ?? null,
  ]),
  expert('chance', null, 'a window of N holds an arc of a slow wave', ({ evidence }) => [
    evidence.profile?.window ?? null,
  ]),
  expert(
    'chance',
    null,
    'the discord is at distance N from its neighbour , where N is the mean',
    ({ evidence: { profile } }) => (profile === null ? [] : [profile.distance, profile.mean]),
  ),
  // Classes.
  expert(
    'strongest line',
    null,
    'of period N , has N of the power',
    (view) => [featureOf(view, 'period'), featureOf(view, 'line')],
    3,
  ),
  expert('trend of ranks', null, 'mann – kendall tau is N', (view) => [featureOf(view, 'tau')], 3),
  expert(
    'crossings',
    null,
    'it crosses its mean N times per N samples',
    (view) => [featureOf(view, 'crossings'), 100],
    3,
  ),
  expert(
    'axes',
    null,
    'part of the mean vector and share of the movement by axis : [^;]{1,400}',
    (view) =>
      view.names.flatMap((name) => ['tilt', 'activity'].map((key) => featureOf({ ...view, name }, key))),
    3,
  ),
  expert(
    'correlations',
    null,
    'correlation between the channels : [^;]{1,400}',
    ({ names, features }) =>
      names.flatMap((a, i) =>
        names
          .slice(i + 1)
          .map((b) => features.find(({ key }) => key.startsWith(`${a}~${b}.`))?.value ?? null),
      ),
    3,
  ),
  expert(
    'class counts',
    null,
    'closest classes are [^;N]{1,80} \\( N \\) and [^;N]{1,80} \\( N \\)',
    ({ classes }) => {
      const counts = classes?.profile.classes.map(({ count }) => count) ?? null;
      return [counts, counts];
    },
  ),
  expert(
    'feature',
    null,
    'is N , where [^;N]{1,80} has N and [^;N]{1,80} N',
    (view, _, phrase) => featureTruth(view, phrase),
    3,
  ),
  expert(
    'class rule',
    null,
    'the linear rule over all N features gives N % to [^;N]{1,80} and N % to',
    (view) => {
      const percents = view.classes?.candidates.map(({ percent }) => percent) ?? null;
      return [view.features.length, percents, percents];
    },
  ),
  // Variates.
  expert(
    'variates',
    null,
    'their waves have a period of about N samples',
    ({ variates }) => [variates?.period ?? null],
    3,
  ),
  expert('variates', null, 'N points are missing in all , at most N in a row', ({ variates }) => [
    variates?.missing ?? null,
    variates?.longest ?? null,
  ]),
  expert(
    'variates',
    null,
    'add up to N for the middle one',
    ({ variates }) => [variates?.distance ?? null],
    3,
  ),
  expert(
    'variates',
    null,
    'variate N N \\( shape N , spectrum N , autocorrelation N ; rank N',
    ({ variates }, [id]) => {
      const own = variates?.variates[id!];
      return own === undefined
        ? []
        : [id!, own.distance, own.shape, own.spectrum, own.autocorrelation, own.rank];
    },
    3,
  ),
  expert(
    'variates',
    null,
    'the distances fall from N to N at their largest relative step , at least N times',
    ({ variates }) => [
      variates?.reading.step?.above ?? null,
      variates?.reading.step?.below ?? null,
      LEAST_STEP,
    ],
    3,
  ),
  expert('variates', null, 'no step of N times separates', () => [LEAST_STEP]),
  expert('variates', null, '(?:is|are) farther than N', () => [FAR]),
];
