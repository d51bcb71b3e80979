/**
 * Answers of a policy about one column: it is asked about overlapping windows (`windows.ts`, `reader.ts`), doubtful answers are left out
 * (`trust.ts`), and the others are merged: by majority, or by confidence for a policy that sees several scales (`confidence.ts`). Work is
 * bounded: at most MOST_WINDOWS windows.
 */

import { setImmediate } from 'node:timers/promises';
import type { Detection } from '../detect/finding.ts';
import { extent } from '../ground/numbers.ts';
import type { Interval, Picture } from '../ground/types.ts';
import { pngUri } from '../plot/png.ts';
import { sharpened } from '../series/deviation.ts';
import { mapBack, overlap } from '../series/intervals.ts';
import { bridge, knownPart } from '../series/missing.ts';
import { parseAnswer } from '../tasks/anomaly.ts';
import {
  accountsOf,
  placesOf,
  type RankedPlace,
  rankPlaces,
  reportedAccounts,
  weighAccounts,
} from './confidence.ts';
import { claimOf, policyStatement, shownAnswers, turnKey, windowKey } from './policy-words.ts';
import type { Reader } from './reader.ts';
import type { PolicyAnswer, PolicyClaim, PolicyColumn } from './schema.ts';
import { type AskedWindow, judge, MOST_DOUBTFUL, pairwiseAgreement } from './trust.ts';
import {
  cutScales,
  cutWindows,
  LONGEST_UNTRAINED,
  MOST_WINDOWS,
  mergeWindows,
  shownOf,
  windowSize,
} from './windows.ts';

/** Least confidence of a place in the ranking. */
const LEAST_RANKED = 0.1;
/** Largest factor by which a series is stretched to the trained length. */
const MOST_STRETCHED = 5;
/** Most windows that are asked again, evenly spread; number of samples and temperature. */
const MOST_SAMPLED = 64;
const DRAW = { samples: 4, temperature: 0.7 } as const;

export interface AskOptions {
  /** Samples per window. Default: `windowSize`. */
  readonly window?: number | undefined;
  /** Overlap of neighbouring windows, in [0, 0.9]. Default: 0.5. */
  readonly overlap?: number | undefined;
  /** Maximum number of windows. Default: MOST_WINDOWS. */
  readonly limit?: number;
  /** First sample of interest: windows begin there. Default: 0. */
  readonly from?: number | undefined;
  /** Expected values of a season [N]: windows are asked about without it as well. */
  readonly usual?: Float64Array | null;
  /** Called with the number of windows answered, and of all. */
  readonly onProgress?: (done: number, total: number) => void;
}

/** Divides values of extreme magnitude by a power of ten, so that their squares stay finite. */
export function tame(values: Float64Array): Float64Array {
  let largest = 0;
  for (const value of values) if (!Number.isNaN(value)) largest = Math.max(largest, Math.abs(value));
  if (largest === 0 || (largest <= 1e100 && largest >= 1e-100)) return values;
  const exponent = Math.floor(Math.log10(largest));
  // In two steps: 10^−exponent itself may be beyond float64.
  const half = Math.trunc(exponent / 2);
  const [a, b] = [10 ** -half, 10 ** -(exponent - half)];
  return values.map((value) => value * a * b);
}

/**
 * Returns the class of most merged samples, over the answers that count; `normal` only if no answer names another class. Null if nothing
 * is marked.
 */
export function classOf(
  answers: readonly Pick<PolicyAnswer, 'intervals' | 'class'>[],
  merged: readonly Interval[],
): string | null {
  const weights = new Map<string, number>();
  for (const answer of answers) {
    if (answer.intervals === null || answer.class === null) continue;
    const samples = overlap(answer.intervals, merged);
    if (samples > 0) weights.set(answer.class, (weights.get(answer.class) ?? 0) + samples);
  }
  const ranked = [...weights].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return ranked.find((name) => name !== 'normal') ?? ranked[0] ?? null;
}

/** Window of a plan, and its scale: 0 is the finest. */
interface PlannedWindow {
  readonly window: Interval;
  readonly scale: number;
}

/** Series [N] without its season. */
const deseasonalise = (values: Float64Array, usual: Float64Array): Float64Array =>
  values.map((value, i) => value - usual[i]!);

/** Plans the windows of a series of `length` samples, scale by scale. */
function planFor(
  length: number,
  season: number | null,
  reader: Reader,
  { window, overlap = 0.5, limit = MOST_WINDOWS, from = 0 }: AskOptions,
): PlannedWindow[] {
  const single = (): number =>
    reader.length === null ? LONGEST_UNTRAINED : windowSize(reader.length, season);
  const size = window ?? (reader.scales ? reader.length! : single());
  const cut = { size, overlap, limit };
  const scales = reader.scales ? cutScales(length - from, cut) : [cutWindows(length - from, cut)];
  return scales.flatMap((windows, scale) =>
    windows.map(([start, end]) => ({ window: [from + start, from + end], scale })),
  );
}

/** Asks about every window of a series [N] of finite values, of all scales. @throws ConfigError as `askColumn` */
export async function askAll(
  values: Float64Array,
  season: number | null,
  reader: Reader,
  options: AskOptions = {},
): Promise<AskedWindow[]> {
  const { usual = null, limit = MOST_WINDOWS } = options;
  const views = usual === null ? [values] : [values, deseasonalise(values, usual)];
  const cut = planFor(values.length, season, reader, { ...options, limit: Math.ceil(limit / views.length) });
  // Windows without the season are scales of their own.
  const scales = 1 + Math.max(...cut.map(({ scale }) => scale));
  const plan = views.flatMap((series, view) =>
    cut.map(({ window, scale }) => ({ series, window, scale: scale + view * scales, view })),
  );
  const stride = Math.max(1, Math.ceil(plan.length / MOST_SAMPLED));
  const asked: AskedWindow[] = [];
  for (let first = 0; first < plan.length; first += reader.batch) {
    const batch = plan.slice(first, first + reader.batch);
    const shown = batch.map(({ series, window }) => shownOf(series, reader, window));
    const readings = await reader.answer(shown);
    // A reader of several scales needs no samples: token probabilities give its confidence.
    const again = reader.scales ? [] : batch.map((_, i) => i).filter((i) => (first + i) % stride === 0);
    const drawn =
      again.length === 0
        ? []
        : await reader.sample(
            again.map((i) => shown[i]!),
            DRAW,
          );
    for (const [i, { window, scale, view }] of batch.entries()) {
      const { length } = shown[i]!;
      const { text: response, logProbability, distance, input, cells } = readings[i]!;
      const { intervals, class: label, problem } = parseAnswer(response, length);
      const texts = drawn[again.indexOf(i)];
      asked.push({
        ...{ start: window[0], end: window[1], class: label, response, problem },
        intervals:
          intervals === null
            ? null
            : mapBack(reader.scales ? sharpened(intervals, shown[i]!) : intervals, length, window),
        ...{ logProbability, distance, input, cells, scale },
        ...(view === 0 ? {} : { deseasonalised: true as const }),
        sampleAgreement:
          texts === undefined
            ? null
            : pairwiseAgreement(texts.map((text) => parseAnswer(text, length).intervals)),
      });
    }
    options.onProgress?.(asked.length, plan.length);
    await setImmediate();
  }
  return asked;
}

/** Returns the expected values [N] where a season follows the calendar: its hour, day or week in samples; null otherwise. */
export const seasonOf = (
  { seasons, expected }: Detection,
  calendar: readonly number[],
): Float64Array | null => (calendar.some((period) => seasons.includes(period)) ? expected : null);

/** Returns true for a column without two different values. */
export function isConstant(values: Float64Array): boolean {
  const [low, high] = extent(values);
  return low >= high;
}

/** Returns the part of an interval that is no gap: the line that bridges a gap is drawn, but nothing was observed there. */
const known = (interval: Interval, values: Float64Array): Interval[] => {
  const part = knownPart(interval, values);
  return part === null ? [] : [part];
};

/** Answers about a column that a policy is not asked about. */
function notAsked(column: string, status: 'not asked' | 'too short'): ColumnAnswers {
  const nothing = {
    ...{ status, doubtful: 0, limit: MOST_DOUBTFUL, class: null },
    ...{ signals: [], answers: [], intervals: [], confidences: null, ranking: [], ofFindings: null },
  };
  return { column, ...nothing, statement: policyStatement(nothing), window: null, seen: new Map() };
}

/** Answers about a column; intervals are half-open, in samples. */
export interface ColumnAnswers extends PolicyColumn {
  readonly intervals: readonly Interval[];
  /** Claim about each interval; absent where the answers about windows have it. */
  readonly claims?: readonly PolicyClaim[];
  /** Confidence of each interval in [0, 1], null if unknown; null for a policy that was not calibrated. */
  readonly confidences: readonly (number | null)[] | null;
  /** Places that policy or detector tells of, most confident first; empty for a policy that was not calibrated. */
  readonly ranking: readonly RankedPlace[];
  /** Confidence of each finding of the detector, as `confidences`. */
  readonly ofFindings: readonly (number | null)[] | null;
  /** Pictures of the windows that the page shows, PNG data URIs by `windowKey`. */
  readonly seen: ReadonlyMap<string, string>;
}

async function picturesOf(
  values: Float64Array,
  usual: Float64Array | null,
  reader: Reader,
  answers: readonly PolicyAnswer[],
): Promise<Map<string, string>> {
  const seen = new Map<string, string>();
  for (const answer of shownAnswers(answers)) {
    const series = answer.deseasonalised ? deseasonalise(values, usual!) : values;
    const picture = await reader.picture(shownOf(series, reader, [answer.start, answer.end]));
    seen.set(windowKey(answer), pngUri(picture));
  }
  return seen;
}

/**
 * Asks a policy about a column [N] of finite values, NaN where missing; gaps are bridged by straight lines. A column without two different
 * values is not asked about.
 *
 * @throws ConfigError for a window or overlap out of range
 */
export async function askColumn(
  column: { readonly name: string; readonly values: Float64Array; readonly detection: Detection },
  reader: Reader,
  options: AskOptions = {},
): Promise<ColumnAnswers> {
  const { name, values: given, detection } = column;
  const limit = MOST_DOUBTFUL;
  if (isConstant(given)) return notAsked(name, 'not asked');
  if (reader.length !== null && given.length * MOST_STRETCHED < reader.length)
    return notAsked(name, 'too short');
  const tamed = tame(given);
  const { values } = bridge(tamed);
  const isSeasonal = reader.scales && reader.confidence?.deseasonalised === true && tamed === given;
  const usual = isSeasonal ? (options.usual ?? null) : null;
  const asked = await askAll(values, detection.seasons[0] ?? null, reader, { ...options, usual });
  const { answers, signals, doubtful, abstains } = judge(asked, reader.reference, reader.scales);
  const counted = abstains ? [] : answers.filter(({ doubts }) => doubts.length === 0);
  const { from = 0 } = options;
  const accounts = (): ReturnType<typeof accountsOf> =>
    accountsOf(asked, given).filter(({ interval: [, end] }) => end > from);
  const weighed = reader.scales && !abstains ? weighAccounts(accounts(), reader.confidence) : null;
  const intervals =
    weighed === null
      ? mergeWindows(values.length, counted).flatMap((interval) => known(interval, given))
      : reportedAccounts(weighed).map(({ interval }) => interval);
  const indices = [...detection.findings.keys()].filter((k) => detection.findings[k]!.end > from);
  const later = indices.map((k) => detection.findings[k]!);
  const ranking =
    weighed === null || reader.confidence === null
      ? null
      : rankPlaces(placesOf(weighed, later), reader.confidence).map((place) => ({
          ...place,
          finding: place.finding === null ? null : indices[place.finding]!,
        }));
  const sureOf = (wanted: (place: RankedPlace) => boolean): number | null =>
    ranking!.find(wanted)?.confidence ?? null;
  const judged = {
    status: abstains ? ('abstains' as const) : ('answers' as const),
    ...{ doubtful, limit, signals, answers, class: classOf(counted, intervals) },
  };
  return {
    ...{ column: name, ...judged, intervals },
    confidences:
      ranking &&
      intervals.map((interval) => sureOf(({ marks }) => marks.some(([start]) => start === interval[0]))),
    ofFindings: ranking && detection.findings.map((_, k) => sureOf(({ finding }) => finding === k)),
    ranking: ranking?.filter(({ confidence }) => confidence >= LEAST_RANKED) ?? [],
    statement: policyStatement({ ...judged, intervals }),
    window: asked[0]!.end - asked[0]!.start,
    seen: await picturesOf(values, usual, reader, answers),
  };
}

/** Turn of a policy that looks closer: its window in samples, picture, and response. */
interface ShownTurn {
  readonly window: Interval;
  readonly picture: Picture | null;
  readonly response: string;
  /** Reason why the step failed; null for a step that did not. */
  readonly problem: string | null;
  /** Answer about the whole series after this turn, in samples; empty without one. */
  readonly standing: string;
}

/**
 * Lets a policy look closer at a column [N], as `askColumn` asks about its windows: its turns as answers, each with the intervals of the
 * whole series as they stand after it.
 *
 * @param play plays the episode of a series [N] without gaps; `answer` counts its samples
 */
export async function inspectColumn(
  { name, values: given }: { readonly name: string; readonly values: Float64Array },
  play: (values: Float64Array) => Promise<{ readonly turns: readonly ShownTurn[]; readonly answer: string }>,
): Promise<ColumnAnswers> {
  if (isConstant(given)) return notAsked(name, 'not asked');
  const { values } = bridge(tame(given));
  const { turns, answer } = await play(values);
  const seen = new Map<string, string>();
  const answers = turns.map(
    ({ window: [start, end], picture, response, problem, standing }, i): PolicyAnswer => {
      const last = i === turns.length - 1;
      const parsed = parseAnswer(standing, values.length);
      if (picture !== null) seen.set(turnKey(i), pngUri(picture));
      return {
        ...{ start, end, response },
        intervals: parsed.intervals?.map(([from, to]): [number, number] => [from, to]) ?? (last ? null : []),
        class: parsed.class,
        problem: problem ?? (last ? parsed.problem : null),
        ...{ logProbability: null, distance: null, sampleAgreement: null, shiftAgreement: null, doubts: [] },
      };
    },
  );
  const final = answers.at(-1)!;
  // The departures of all turns are in the joined answer; the last response names those of its window alone.
  const joined = [{ ...final, response: answer }];
  const marked = (final.intervals ?? []).flatMap((whole) =>
    known(whole, given).map((interval) => ({ interval, claim: claimOf(whole, joined) })),
  );
  const intervals = marked.map(({ interval }) => interval);
  const judged = {
    status: final.intervals === null ? ('abstains' as const) : ('answers' as const),
    ...{ doubtful: 0, limit: MOST_DOUBTFUL, signals: [], answers },
    class: intervals.length > 0 ? final.class : null,
  };
  return {
    ...{ column: name, ...judged, intervals, claims: marked.map(({ claim }) => claim), window: null, seen },
    ...{ confidences: null, ranking: [], ofFindings: null },
    statement: policyStatement({ ...judged, intervals }),
  };
}
