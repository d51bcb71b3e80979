/**
 * wild, series as they are met: people's demand, machines, traffic, gauges, counts, devices that switch, signals, seasons, prices and plain noise
 * (`family.ts`), in any unit, with the anomalies of ten kinds, and with things that look like anomalies and are usual: holidays, regimes
 * that come again, rare but regular jobs, sizes that change slowly, outliers where outliers are usual.
 *
 * Every series is made twice, with its anomalies and without. An interval is the first to the last sample in which the two differ. A change that
 * cannot be seen (`visibility.ts`) is in both, and has no interval. 35 to 50 % of the series are normal, the ones among them whose changes
 * are all too small to be seen included.
 *
 * The class of the answer is AnomSeer's: a spike or dip is a global point where it leaves the range of the unmodified series, else contextual. Of several
 * anomalies it is that of the most visible one. The kinds themselves are in the facts.
 */
import { Random } from '../../../src/ground/random.ts';
import {
  type AnomalyClass,
  CLASS_OF_KIND,
  DEPARTURE_KINDS,
  type DepartureFacts,
  type DepartureKind,
  type Example,
  type Interval,
  type SeriesFacts,
} from '../../../src/ground/types.ts';
import { anomalyExample } from '../../example.ts';
import { checkAddress, type Split } from '../../split.ts';
import { ANOMALIES, type AnomalyKind, changedHull, type Sizes, sizesOf } from './anomalies.ts';
import { COMPONENTS, chance, type Draft, logBetween, sumOf } from './draft.ts';
import { type FamilyName, makeDraft } from './family.ts';
import { drawGaps, type Sensor } from './sensor.ts';
import { Usual, usualRange, VISIBLE } from './visibility.ts';

export const WILD_LONG_LENGTH = 5000;
export const WILD_LENGTH = 1000;
export const WILD_MINIMUM_LENGTH = 100;

/** Settings of the generator; recorded in the manifest of a data set. */
export const WILD_PARAMETERS = {
  /** Probabilities of none, one … four changes; some are too small to be labelled. */
  change_weights: [0.33, 0.37, 0.16, 0.09, 0.05],
  /** Longest change, as a share of the series. */
  longest: 0.2,
  /** Minimum distance of two changes, as a share of the series. */
  gap: 0.01,
  /** Maximum draws until a change is visible, and the chance of keeping invisible ones. */
  tries: 4,
  left_unseen: 0.3,
  missing_share: 0.1,
  visible_from: VISIBLE,
} as const;
const P = WILD_PARAMETERS;
/** Weights of the kinds; higher for kinds that fit few series or are often too small. */
const KIND_WEIGHTS: Readonly<Record<DepartureKind, number>> = {
  spike: 1.2,
  dip: 1.2,
  'level shift': 0.9,
  'trend change': 1,
  'variance change': 1.8,
  'flat line': 0.7,
  cutoff: 1,
  'missing cycle': 1.2,
  'changed shape': 1.2,
  'frequency change': 1.4,
};
const WEIGHTS = DEPARTURE_KINDS.map((kind) => KIND_WEIGHTS[kind]);
/** Minimum distance of two changes in samples. */
const LEAST_GAP = 3;
/** Attempts per wanted change. */
const PLACES = 12;

/** Spans of anomalies: in proportion to the series, or of any size from those of `WILD_LENGTH` points up. */
export type Spans = 'relative' | 'any';

export interface WildSeries {
  readonly example: Example;
  readonly family: FamilyName;
  /** Readings without the anomalies [N]; they differ from the example's only in its intervals. */
  readonly unmodified: Float64Array;
  /** Invisible changes, present in both. */
  readonly unseen: readonly {
    readonly kind: DepartureKind;
    readonly interval: Interval;
    readonly visibility: number;
  }[];
}

interface Placed {
  readonly kind: DepartureKind;
  readonly start: number;
  readonly end: number;
  /** Samples per changed cycle; 0 for none. */
  readonly period: number;
}

/** Cycles that anomalies may change: those that occur at least five times. */
const cyclesOf = ({ periods, n }: Draft): number[] =>
  [...periods].filter((period) => period >= 4 && period <= P.longest * n);

/** Draws up to `wanted` changes that fit the series without overlap, in ascending order. */
function placeChanges(random: Random, { draft, sizes, cycles, spans }: Base, wanted: number): Placed[] {
  const { n, components } = draft;
  const gap = Math.max(LEAST_GAP, Math.round(P.gap * n));
  const placed: Placed[] = [];
  for (let tries = 0; placed.length < wanted && tries < PLACES * wanted; tries++) {
    const kind = DEPARTURE_KINDS[random.weighted(WEIGHTS)]!;
    const { length, usualWith }: AnomalyKind = ANOMALIES[kind];
    if (usualWith.some((name) => components.has(name))) continue;
    const scale = spans === 'any' && n > WILD_LENGTH ? Math.round(logBetween(random, WILD_LENGTH, n)) : n;
    const most = Math.floor(P.longest * scale);
    const period = cycles.length === 0 ? 0 : random.pick(cycles);
    const span = length({ ...draft, random, n: scale }, sizes, most, period);
    if (span === null || span > most) continue;
    const first = Math.max(1, Math.round(0.02 * n));
    const start = chance(random, 0.06) ? n - span : random.integer(first, n - span - 1);
    const end = start + span;
    if (placed.some((other) => start < other.end + gap && end + gap > other.start)) continue;
    placed.push({ kind, start, end, period });
  }
  return placed.sort((a, b) => a.start - b.start);
}

function extentOf(values: Float64Array, start: number, end: number): readonly [number, number, number] {
  let [least, most, sum, count] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
  for (let t = start; t < end; t++) {
    const value = values[t]!;
    if (Number.isNaN(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
    sum += value;
    count++;
  }
  return [least, sum / count, most];
}

interface Seen {
  readonly interval: Interval;
  readonly class: AnomalyClass;
  readonly facts: DepartureFacts;
}

function classOf(
  kind: DepartureKind,
  [least, , largest]: readonly [number, number, number],
  [low, high]: readonly [number, number],
): AnomalyClass {
  if (kind !== 'spike' && kind !== 'dip') return CLASS_OF_KIND[kind];
  return least < low || largest > high ? 'global point' : 'contextual point';
}

/** A finished series before its anomalies are added. */
interface Base {
  readonly spans: Spans;
  readonly draft: Draft;
  readonly sensor: Sensor;
  readonly sizes: Sizes;
  readonly cycles: readonly number[];
  readonly latent: Float64Array;
  /** Readings before points are removed. */
  readonly clean: Float64Array;
  readonly range: readonly [low: number, high: number];
  readonly gaps: readonly Interval[];
}

function withGaps(readings: Float64Array, gaps: readonly Interval[]): Float64Array {
  for (const [start, end] of gaps) readings.fill(Number.NaN, start, end);
  return readings;
}

/** Readings with all changes made. */
function changedReadings(random: Random, base: Base, placed: readonly Placed[]): Float64Array {
  const { draft, sensor, sizes } = base;
  const latent = base.latent.slice();
  const changeOf = ({ start, end, period }: Placed) => ({ ...sizes, random, draft, start, end, period });
  for (const change of placed) ANOMALIES[change.kind].parts?.(changeOf(change), latent);
  const readings = sensor.read(latent);
  for (const change of placed) ANOMALIES[change.kind].readings?.(changeOf(change), readings, sensor.given);
  return readings;
}

interface Outcome {
  readonly values: Float64Array;
  readonly unmodified: Float64Array;
  readonly seen: readonly Seen[];
  readonly unseen: WildSeries['unseen'];
}

/** Applies changes and judges which of them are visible. */
function outcomeOf(random: Random, base: Base, usual: Usual, placed: readonly Placed[]): Outcome {
  const { clean, gaps } = base;
  const values = withGaps(changedReadings(random, base, placed), gaps);
  const unmodified = withGaps(clean.slice(), gaps);
  const seen: Seen[] = [];
  const unseen: WildSeries['unseen'][number][] = [];
  for (const { kind, start, end } of placed) {
    const interval = changedHull(unmodified, values, start, end);
    if (interval === null) continue;
    const [from, to] = interval;
    const { severity, visibility, visible } = usual.judge(values, from, to, ANOMALIES[kind].judgedBy);
    if (visible) {
      const observed = extentOf(values, from, to);
      const facts = { kind, severity, visibility, observed, unmodified: extentOf(unmodified, from, to) };
      seen.push({ class: classOf(kind, observed, usual.extremes), interval, facts });
    } else {
      unmodified.set(values.subarray(from, to), from);
      unseen.push({ kind, interval, visibility });
    }
  }
  return { values, unmodified, seen, unseen };
}

/** Draws changes until one is visible, or now and then keeps invisible ones. */
function change(random: Random, base: Base): Outcome {
  const { clean, range, draft, sensor, gaps } = base;
  const wanted = random.weighted(P.change_weights);
  let usual: Usual | undefined;
  for (let tries = 0; wanted > 0 && tries < P.tries; tries++) {
    const placed = placeChanges(random, base, wanted);
    if (placed.length === 0) continue;
    usual ??= new Usual(clean, range, draft, sensor);
    const outcome = outcomeOf(random, base, usual, placed);
    if (outcome.seen.length > 0 || chance(random, P.left_unseen)) return outcome;
  }
  const values = withGaps(clean.slice(), gaps);
  return { values, unmodified: values.slice(), seen: [], unseen: [] };
}

/** A series without anomalies: its parts, the device that reads them, and its missing points. */
interface Unmodified {
  readonly draft: Draft;
  readonly sensor: Sensor;
  readonly gaps: readonly Interval[];
}

/** Puts anomalies into a series. @param random of the anomalies alone */
export function withAnomalies(
  random: Random,
  id: string,
  { draft, sensor, gaps }: Unmodified,
  spans: Spans = 'relative',
): Omit<WildSeries, 'family'> {
  const latent = sumOf(draft);
  const clean = sensor.read(latent);
  const range = usualRange(clean);
  const base = {
    ...{ draft, sensor, latent, clean, range, gaps, spans },
    ...{ sizes: sizesOf(draft, latent), cycles: cyclesOf(draft) },
  };
  const { values, unmodified, seen, unseen } = change(random, base);
  const facts: SeriesFacts = {
    components: COMPONENTS.filter((name) => draft.components.has(name)),
    periods: [...draft.periods].sort((a, b) => a - b),
    step: draft.clock.step,
    range,
    departures: seen.map((departure) => departure.facts),
  };
  const label = seen.reduce(
    (most, departure) =>
      departure.facts.visibility > most.visibility
        ? { visibility: departure.facts.visibility, class: departure.class }
        : most,
    { visibility: 0, class: 'normal' as AnomalyClass },
  ).class;
  const intervals = seen.map((departure) => departure.interval);
  const task = spans === 'any' ? 'wild-long' : 'wild';
  const example = anomalyExample(id, task, values, label, intervals);
  return { example: { ...example, facts }, unmodified, unseen };
}

/**
 * One series with what is known of it, a pure function of its arguments.
 * @param index integer in [0, 2³²)
 * @param length number of points, N ≥ 100
 * @returns one channel [N], finite but for missing points (NaN); intervals half-open, sorted, disjoint, with a gap between two, ending at
 * samples that differ from the unmodified series
 * @throws ConfigError for a seed, index or length out of range
 */
export function wildSeries(
  seed: number,
  split: Split,
  index: number,
  length: number = WILD_LENGTH,
  spans: Spans = 'relative',
): WildSeries {
  checkAddress(seed, index, length, WILD_MINIMUM_LENGTH);
  const stream = `wild/${split}`;
  const { family, draft, sensor } = makeDraft(new Random(seed, stream, index), length);
  const gaps = chance(draft.random, P.missing_share) ? drawGaps(draft) : [];
  // A stream of their own: the series is the same with these anomalies and with others.
  const anomalies = new Random(seed, `${stream}/anomalies`, index);
  const unmodified = { draft, sensor, gaps };
  const id = `${spans === 'any' ? 'wild-long' : 'wild'}/${split}/${index}`;
  return { ...withAnomalies(anomalies, id, unmodified, spans), family };
}

export const wild = (seed: number, split: Split, index: number, length?: number): Example =>
  wildSeries(seed, split, index, length).example;

/** One long series whose anomalies have any size: most are too short for a picture of the whole. */
export const wildLong = (
  seed: number,
  split: Split,
  index: number,
  length: number = WILD_LONG_LENGTH,
): Example => wildSeries(seed, split, index, length, 'any').example;
