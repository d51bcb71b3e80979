/**
 * The short style of anomalies and of variates, for policies of a million parameters: what the picture shows, in a few fixed phrases.
 *
 *   <think>scan 0.(#)..3.()5.6.…; swings faster; swings slower; sine wave; cycle 60; spread 30; rough line</think><answer>[[140, …
 *
 * The scan comes first: behind statements that identify a training series it would be remembered and not read from the picture. Spread,
 * steps and shifts are percentages of the range of the series, which is the height of the picture. A cycle is told in coordinate steps
 * (tens, for N = 1000), as far as the picture shows it; one shorter than 2½ steps in samples, as `period 12`.
 *
 * The scan walks along the picture, one symbol per cell: a picture 560 pixels wide is 20 visual tokens, each over N/20
 * samples. It is privileged supervision: the symbols come from the stated intervals, not from a test.
 *
 *   .  no interval touches the cell
 *   (  one starts in the cell and goes on      )  one that came in ends in the cell
 *   #  one comes in and goes on                o  one starts and ends in the cell
 *   x  two or more touch the cell
 *   3  no interval touches the first cell of the fourth tenth: a ruler, by which a place in the scan is found in the coordinates
 *
 * A start on the boundary of two cells belongs to the right one, an end to the left one: brackets always pair up. Scan
 * and answer use the same coordinates, rounded to steps of N/100 (tens, for N = 1000), so the scan entails the
 * answer up to the step within a cell. Of variates the scan walks through the ids, with the same symbols for nothing and something:
 *
 *   <think>9 variates; scan ..x....x.</think><answer>[2, 7]</answer>
 */
import { DataError } from '../ground/errors.ts';
import { extent } from '../ground/numbers.ts';
import {
  type AnomalyClass,
  DEPARTURE_KINDS,
  type DepartureFacts,
  type Interval,
  type SeriesFacts,
} from '../ground/types.ts';
import { mergeIntervals } from '../series/intervals.ts';
import { type ClassProfile, classIndex, toScale } from './class-profile.ts';
import { CITABLE_RATIO, type ClassEvidence } from './class-trace.ts';
import type { Evidence } from './evidence.ts';
import { CHANNEL_KINDS, MAGNITUDE, ORDINALS, PAIR_KIND, pairsOf, SHARE_KINDS } from './features.ts';
import { type Entry, type Phrase, phrasesOf, type Slot, type TraceView } from './phrase.ts';
import type { Departure } from './shape.ts';
import { formatResponse } from './trace.ts';
import type { VariatesEvidence } from './variates.ts';

/** Gold annotation of a training series. */
export interface Gold {
  readonly intervals: readonly Interval[]; // sorted, disjoint
  readonly class: AnomalyClass;
}

export interface NanoOptions {
  /** Cells of the scan: visual tokens of the picture; default 20. */
  readonly cells?: number;
  /** Coordinate steps along the series: one per sample at most; default 100. */
  readonly steps?: number;
  /** Show the level of cells without anomaly (`levelScan`), for generators that give facts. Default: false. */
  readonly levels?: boolean;
}

const BASES = {
  flat: ['flat line', 'straight line'],
  sine: ['sine wave', 'sine with trend'],
  noise: ['noise', 'noise with trend'],
  cycle: ['irregular curve', 'curve with trend'],
  slow: ['irregular curve', 'curve with trend'],
  irregular: ['irregular curve', 'curve with trend'],
} as const;

/** Share of a number in percent, to the nearest multiple of `step`, at least `least`. */
const percent = (share: number, step: number, least = step): number =>
  Math.max(least, step * Math.round((100 * share) / step));
/** Multiples of `step` that a share may be stated as: the nearest, and the next where it is nearly as near. */
const percents = (share: number, step: number, least = step): number[] => {
  const nearest = percent(share, step, least);
  return [nearest, nearest - step, nearest + step].filter(
    (stated) => stated === nearest || (stated >= least && Math.abs(stated - 100 * share) <= 0.75 * step),
  );
};
const rangeOf = ({ summary: { min, max } }: Evidence): number => Math.max(max - min, Number.MIN_VALUE);
const shapeOf = ({ base: { kind, trending } }: Evidence): string => BASES[kind][trending ? 1 : 0];
const SPREAD_STEP = 5;
const TENTH = 10;

const SHAPES = [...new Set<string>(Object.values(BASES).flat())].sort((a, b) => b.length - a.length);

/** Roughness by the share of the noise in the range, from the upper bounds on: words that a picture tells apart. */
const ROUGHNESS = [
  { below: 0.025, word: 'smooth' },
  { below: 0.08, word: 'rough' },
  { below: Infinity, word: 'noisy' },
];
/** Share of a bound by which a noise may miss it and have either word. */
const NEAR_BOUND = 0.1;

function roughnessOf(evidence: Evidence, slack = 0): string {
  const share = evidence.noise.sigma / rangeOf(evidence);
  return ROUGHNESS.find(({ below }) => share < below * (1 + slack))!.word;
}

/** Coordinate steps of a cycle that is told in them, at least; a shorter one is told in samples. */
const LEAST_STEPS = 2.5;
/** Distance in steps up to which a cycle may be told as a multiple of them. */
const NEAR_STEP = 0.6;

/** A period in samples as the nearest multiple of the coordinate step, and as those nearly as near. */
function cyclesOf(period: number, length: number): number[] {
  const steps = (period * STEPS) / length;
  const nearest = Math.round(steps);
  return [nearest, nearest - 1, nearest + 1]
    .filter((multiple) => multiple === nearest || Math.abs(multiple - steps) <= NEAR_STEP)
    .map((multiple) => Math.round((multiple * length) / STEPS));
}

/** Coarse numbers for a size: `rungs` ascend, and those within `factor` of it are true of it, as is the nearest. */
interface Ladder {
  readonly rungs: readonly number[];
  readonly factor: number;
  /** Significant digits to which a rounded size is true too. */
  readonly digits: number;
}

const nearestRung = (size: number, { rungs }: Ladder): number =>
  rungs.toSorted((a, b) => Math.abs(Math.log(a / size)) - Math.abs(Math.log(b / size)))[0]!;

function trueSizes(size: number, ladder: Ladder): number[] {
  const near = ladder.rungs.filter((rung) => Math.abs(Math.log(rung / size)) <= Math.log(ladder.factor));
  return [nearestRung(size, ladder), ...near, Number(size.toPrecision(ladder.digits))];
}

/** Samples by which traces from a generator's facts state cycles: steps of a fifth that hold 12, 24, 48 and 96. */
const CYCLES: Ladder = {
  rungs: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].flatMap((octave) =>
    [4.25, 5, 6, 7].map((first) => Math.round(first * 2 ** octave)),
  ),
  factor: 1.15,
  digits: 2,
};

/** Rewrites facts of a plot for the series itself, of `scale` times as many points: its cycle is stated in samples. */
export const factsInSamples = (facts: string, scale: number): string =>
  facts.replace(/(?<=\bcycle )\d+/, (stated) => `${Math.round(Number(stated) * scale)}`);

/** Returns the cycles of a generated series that a picture of N columns can show, in columns, ascending: four or more of them, twice or more. */
const shownCycles = ({ periods }: SeriesFacts, samples: number, columns: number): number[] =>
  periods
    .map((period) => (period * columns) / samples)
    .filter((period) => period >= 4 && 2 * period <= columns);

/** Words for a generated series by the first of these parts that it has; those that look alike have one word. */
const PATTERNS: readonly (readonly [component: string, word: string])[] = [
  ['calendar', 'cycle'],
  ['pulses', 'pulses'],
  ['season', 'cycle'],
  ['wave', 'wave'],
  ['jobs', 'regular jobs'],
  ['on-off', 'switching levels'],
  ['regimes', 'switching levels'],
  ['walk', 'random walk'],
  ['bursts', 'bursts'],
];
const NO_PATTERN = 'noise';
const PATTERN_WORDS = [...new Set([...PATTERNS.map(([, word]) => word), NO_PATTERN])];
const patternOf = ({ components }: SeriesFacts): string =>
  PATTERNS.find(([component]) => components.includes(component))?.[1] ?? NO_PATTERN;

/** Rise of the fitted line over the series, as a share of the range, from which it is a trend. */
const TREND_FROM = 0.1;
/** Returns the direction of the trend; `slack` widens the shares that are none. */
function trendOf(evidence: Evidence, slack = 0): 'up' | 'down' | 'none' {
  const rise = evidence.base.rise / rangeOf(evidence);
  if (Math.abs(rise) < TREND_FROM * (1 + slack)) return 'none';
  return rise > 0 ? 'up' : 'down';
}
/** Share of a trend's bound by which a rise may miss it and have either word. */
const NEAR_TREND = 0.2;

/** Share of the range below which half of the values lie. */
const middleOf = (evidence: Evidence): number =>
  (evidence.summary.median - evidence.summary.min) / rangeOf(evidence);

/** Statements of short traces about a whole series; spread and middle in percent of its range. */
export const NANO_FACTS = phrasesOf((view) => view)(null, {
  pattern: [
    `pattern {${PATTERN_WORDS.join('|')}}`,
    ({ facts }) => [facts === null ? null : patternOf(facts)],
  ],
  shape: [`; {${SHAPES.join('|')}}`, ({ evidence }) => [shapeOf(evidence)]],
  cycle: [
    '; cycle {int}',
    ({ facts, length, evidence: { base, length: columns } }) => {
      const inSamples = (cycles: readonly number[]): number[] =>
        cycles.map((cycle) => Math.round((cycle * length) / columns));
      if (facts === null) return base.period === null ? null : [inSamples(cyclesOf(base.period, columns))];
      const cycles = shownCycles(facts, length, columns);
      return cycles.length === 0 ? null : [inSamples(cycles.flatMap((cycle) => trueSizes(cycle, CYCLES)))];
    },
  ],
  trend: [
    '; trend {up|down|none}',
    ({ evidence }, [stated]) => [
      [-NEAR_TREND, NEAR_TREND]
        .map((slack) => trendOf(evidence, slack))
        .find((direction) => direction === stated) ?? trendOf(evidence),
    ],
  ],
  spread: ['; spread {int}', ({ evidence }) => [percents(evidence.base.spread / rangeOf(evidence), TENTH)]],
  middle: ['; middle {int}', ({ evidence }) => [percents(middleOf(evidence), TENTH, 0)]],
  roughness: [
    `; {${ROUGHNESS.map(({ word }) => word).join('|')}} line`,
    ({ evidence }, [stated]) => [
      [-NEAR_BOUND, NEAR_BOUND]
        .map((slack) => roughnessOf(evidence, slack))
        .find((word) => word === stated) ?? roughnessOf(evidence),
    ],
  ],
});

/** Returns the departures of one kind among annotated intervals, in the stated direction if any has it. */
function departuresOf(
  { evidence, gold }: Pick<TraceView, 'evidence' | 'gold'>,
  kind: Departure['kind'],
  direction: Slot | undefined,
): Departure[] | null {
  const alike = (gold ?? [])
    .map((interval) => evidence.departure(interval))
    .filter((one) => one.kind === kind);
  const same = alike.filter((departure) => departure.direction === direction);
  return alike.length === 0 ? null : same.length > 0 ? same : alike;
}

const sizesOf = (departures: readonly Departure[], step: number): number[] =>
  departures.flatMap(({ size }) => percents(size!, step));
const DEPARTURE_STEP = 10;

const directedPhrase = (kind: 'step' | 'shift'): Entry<TraceView> => [
  `; ${kind} {up|down} {int}`,
  (view, [direction]) => {
    const alike = departuresOf(view, kind, direction);
    return alike && [alike[0]!.direction, sizesOf(alike, DEPARTURE_STEP)];
  },
];

/** Statements of short traces about annotated intervals: what departs, and by how much of the range. */
export const NANO_DEPARTURES = phrasesOf((view) => view)(null, {
  step: directedPhrase('step'),
  shift: directedPhrase('shift'),
  swings: [
    '; swings {faster|slower}',
    (view, [direction]) => {
      const swings = departuresOf(view, 'swings', direction);
      return swings && [swings[0]!.direction];
    },
  ],
  inside: [
    '; inside {int}',
    (view) => {
      const spreads = departuresOf(view, 'inside', null);
      return spreads && [sizesOf(spreads, SPREAD_STEP)];
    },
  ],
});

function statedDeparture({ kind, direction, size }: Departure): string {
  if (kind === 'swings') return NANO_DEPARTURES.swings.print(direction);
  if (kind === 'inside') return NANO_DEPARTURES[kind].print(percent(size!, SPREAD_STEP));
  return NANO_DEPARTURES[kind].print(direction, percent(size!, DEPARTURE_STEP));
}

/** Default number of coordinate steps along a series. */
const STEPS = 100;

/**
 * Intervals with coordinates rounded to steps of N/`wanted`, of one sample at least: never empty (one that would be takes the step around its
 * middle), sorted, disjoint; those that meet after rounding become one. [0, N) stays inside the series.
 */
export function roundIntervals(intervals: readonly Interval[], length: number, wanted = STEPS): Interval[] {
  const steps = Math.min(wanted, length);
  const coordinate = (step: number) => Math.round((step * length) / steps);
  return mergeIntervals(
    intervals.map(([start, end]): Interval => {
      let first = Math.round((start * steps) / length);
      let last = Math.round((end * steps) / length);
      if (first >= last) {
        first = Math.min(steps - 1, Math.floor(((start + end) * steps) / (2 * length)));
        last = first + 1;
      }
      return [coordinate(first), coordinate(last)];
    }),
  );
}

/** Tenths of a series that a ruler marks. Five marks are learned sooner, and answers agree with the scan less (.70 against .81). */
const MARKS = 10;

/** A scan with its ruler: the first cell of each tenth holds its number unless an interval touches it. */
export const ruled = (symbols: string): string =>
  [...symbols].map((symbol, k) => (symbol === '.' ? rulerAt(k, symbols.length) : symbol)).join('');

function rulerAt(cell: number, cells: number): string {
  const mark = Math.floor((cell * MARKS) / cells);
  return cell === Math.ceil((mark * cells) / MARKS) ? String(mark) : '.';
}

/** True where the digits of a scan ascend strictly, at least one, as those of a ruler; levels do not. */
export function isRuled(symbols: string): boolean {
  const digits = [...symbols].filter((symbol) => /\d/.test(symbol));
  return digits.length > 0 && digits.every((digit, k) => k === 0 || digit > digits[k - 1]!);
}

/** A scan in the text of a response, with or without ruler or levels. */
export const SCAN = /\bscan ([.()#ox\d]{1,4096})/;

/** Draws the scan of intervals (sorted, disjoint) over `cells` equal cells of [0, length): one symbol per cell. */
export function scan(intervals: readonly Interval[], length: number, cells: number): string {
  let symbols = '';
  for (let cell = 0; cell < cells; cell++) {
    const left = (cell * length) / cells;
    const right = ((cell + 1) * length) / cells;
    const touching = intervals.filter(([start, end]) => start < right && end > left);
    const only = touching[0];
    if (only === undefined) symbols += '.';
    else if (touching.length > 1) symbols += 'x';
    else if (only[0] < left) symbols += only[1] > right ? '#' : ')';
    else symbols += only[1] > right ? '(' : 'o';
  }
  return symbols;
}

/** Returns the cells that a scan marks, as intervals of [0, length): a bracket pair is one, `x` one of them. */
export const scannedCells = (symbols: string, length: number): Interval[] =>
  [...symbols.matchAll(/o|x|\(#*\)?|#+\)?|\)/g)].map(({ 0: run, index }): Interval => {
    const width = length / symbols.length;
    return [Math.round(index * width), Math.round((index + run.length) * width)];
  });

/**
 * The scan with a digit for each cell that nothing touches: where the mean of its samples lies between the least (0) and the largest (9) of
 * the series; `.` where all of them are missing. A policy that is asked for it first has to look at every cell, of normal series too, and
 * learns to read along the picture long before it could from the few cells with an anomaly.
 */
export function levelScan(values: Float64Array, intervals: readonly Interval[], cells: number): string {
  const { length } = values;
  const [least, largest] = extent(values);
  const range = largest - least;
  return [...scan(intervals, length, cells)]
    .map((symbol, cell) => {
      if (symbol !== '.') return symbol;
      let [sum, count] = [0, 0];
      for (let i = Math.floor((cell * length) / cells); i < Math.floor(((cell + 1) * length) / cells); i++) {
        if (Number.isNaN(values[i]!)) continue;
        sum += values[i]! - least;
        count++;
      }
      if (count === 0) return '.';
      return range > 0 ? String(Math.min(9, Math.floor((10 * (sum / count)) / range))) : '0';
    })
    .join('');
}

function periodText(period: number | null, length: number): string {
  if (period === null) return '';
  return (period * STEPS) / length < LEAST_STEPS
    ? `; period ${roundPeriod(period, length)}`
    : NANO_FACTS.cycle.print(cyclesOf(period, length)[0]!);
}

/** Rounds to even samples, fewer words to learn, where the spectrum does not separate neighbours (a sample is a bin from √N on); whole ones below. */
const roundPeriod = (period: number, length: number): number =>
  period * period < length ? Math.max(2, Math.round(period)) : 2 * Math.round(period / 2);

/** Departures that a trace describes; of more, the first ones. */
const MOST_DESCRIBED = 4;

/**
 * The short target of a training series: base, period, spread and noise from the evidence, scan and answer from the gold annotation, and
 * how each annotated interval departs from the series around it. At most 80 tokens for up to three intervals when every tag, phrase,
 * symbol, digit and separator is one token; each more costs 12.
 */
export function nanoTeacher(evidence: Evidence, gold: Gold, options: NanoOptions = {}): string {
  const { cells = 20, steps } = options;
  const { length, base } = evidence;
  const rounded = roundIntervals(gold.intervals, length, steps);
  const departures = gold.intervals
    .slice(0, MOST_DESCRIBED)
    .map((interval) => statedDeparture(evidence.departure(interval)));
  const facts = [
    NANO_FACTS.shape.print(shapeOf(evidence)),
    periodText(base.period, length),
    NANO_FACTS.spread.print(percent(base.spread / rangeOf(evidence), TENTH)),
    NANO_FACTS.roughness.print(roughnessOf(evidence)),
  ];
  const think = [`scan ${ruled(scan(rounded, length, cells))}`, ...departures, ...facts].join('');
  return formatResponse(think, rounded, gold.class);
}

/** Sizes of departures in standard deviations, as traces state them. */
const SIZES: Ladder = { rungs: [1, 2, 5, 10, 20, 50, 100, 200, 500], factor: 1.75, digits: 1 };

/** The direction of a change that can have two; with the space before it. */
function directionOf({ kind, observed, unmodified }: DepartureFacts): string {
  if (kind === 'variance change') {
    return observed[2] - observed[0] > unmodified[2] - unmodified[0] ? ' up' : ' down';
  }
  if (kind !== 'level shift' && kind !== 'trend change') return '';
  return observed[1] > unmodified[1] ? ' up' : ' down';
}

/** Statements of short traces about a series whose generator gives facts. */
export const NANO_PHRASES = phrasesOf((view) => view)('departure', {
  departure: [
    `{${DEPARTURE_KINDS.join('|')}}{ up| down|} {int} sd`,
    ({ facts }, [kind, direction]) => {
      if (facts === null) return [null, null, null];
      const alike = facts.departures.filter((departure) => departure.kind === kind);
      const [first] = alike;
      if (first === undefined) return null;
      const same = alike.filter((departure) => directionOf(departure).trim() === direction);
      const sizes = (same.length > 0 ? same : alike).flatMap(({ severity }) => trueSizes(severity, SIZES));
      return [kind!, directionOf(same[0] ?? first), sizes];
    },
  ],
});

/**
 * Writes the short target of a series whose generator gives facts: its pattern and shortest cycle, trend, spread, middle and roughness as the
 * picture shows them, the scan, and each departure with its kind, direction and size in standard deviations of what cannot be foretold.
 *
 *   <think>pattern cycle; cycle 24; trend up; spread 20; middle 40; rough line; scan ..(#)...o....; level shift up 5 sd; spike 20 sd</think>…
 *
 * @param evidence analyses of the series, missing points bridged, or of its plot
 * @param values the series with its missing points
 */
export function nanoFactsTeacher(
  facts: SeriesFacts,
  evidence: Evidence,
  values: Float64Array,
  gold: Gold,
  options: NanoOptions = {},
): string {
  const { cells = 20, steps, levels = false } = options;
  const { length } = values;
  const rounded = roundIntervals(gold.intervals, length, steps);
  const marks = levels ? levelScan(values, rounded, cells) : scan(rounded, length, cells);
  const columns = evidence.length;
  const [cycle] = shownCycles(facts, length, columns);
  const stated = [
    NANO_FACTS.pattern.print(patternOf(facts)),
    cycle === undefined
      ? ''
      : NANO_FACTS.cycle.print(Math.round((nearestRung(cycle, CYCLES) * length) / columns)),
    NANO_FACTS.trend.print(trendOf(evidence)),
    NANO_FACTS.spread.print(percent(evidence.base.spread / rangeOf(evidence), TENTH)),
    NANO_FACTS.middle.print(percent(middleOf(evidence), TENTH, 0)),
    NANO_FACTS.roughness.print(roughnessOf(evidence)),
    `; scan ${marks}`,
  ];
  const departures = facts.departures.map((departure) => {
    const size = nearestRung(departure.severity, SIZES);
    return `; ${NANO_PHRASES.departure.print(departure.kind, directionOf(departure), size)}`;
  });
  return formatResponse([...stated, ...departures].join(''), rounded, gold.class);
}

/**
 * The short target of a training series about variates: scan and answer from the annotation (`gold`, ids from 0), in ascending order.
 * C + 10 tokens and two or three for each id, when every tag, phrase, symbol, digit and separator is one token.
 * @throws DataError for an id that is not there, or comes twice
 */
export function nanoVariatesTeacher({ variates }: VariatesEvidence, gold: readonly number[]): string {
  const count = variates.length;
  const ids = [...gold].sort((a, b) => a - b);
  ids.forEach((id, i) => {
    if (variates[id] === undefined) {
      throw new DataError(`variate ${id}: the series has ${count}, counted from 0`);
    }
    if (id === ids[i + 1]) throw new DataError(`variate ${id} is named twice`);
  });
  const symbols = variates.map(({ id }) => (ids.includes(id) ? 'x' : '.')).join('');
  return `<think>${count} variates; scan ${symbols}</think><answer>[${ids.join(', ')}]</answer>`;
}

export interface NanoClassOptions {
  /** Cells of a channel's scan, visual tokens of a row; default 20 for one channel, 10 for several. */
  readonly cells?: number;
  /** Features told; default 3. */
  readonly features?: number;
}

/** Series of more channels are not scanned. */
const MOST_SCANNED = 3;
/** Symbols by the share of the whole range that a cell covers, from the upper bound on. */
const QUIET_BELOW = 1 / 16;
const RESTLESS_FROM = 3 / 8;
const ACTIVITY_SYMBOLS = ['.', 'o', '#'] as const;

/** Words of 1 … 5 grades, from the lowest. */
const GRADES: readonly (readonly string[])[] = [
  ['typical'],
  ['low', 'high'],
  ['low', 'typical', 'high'],
  ['very low', 'low', 'high', 'very high'],
  ['very low', 'low', 'typical', 'high', 'very high'],
];
const MOST_BOUNDS = GRADES.length - 1;
/** Distance of two classes, in standard deviations within classes, from which a bound parts them. */
const LEAST_GAP = 0.25;
/** Grade of a feature that the series does not have, such as the rhythm of a single pulse. */
const UNDEFINED = 'none';

/** Frequency bands, from the longest periods to the shortest. */
const BANDS = ['drift', 'slowest', 'slow', 'middle', 'quick', 'fast', 'fastest'];

const WORDS: Readonly<Record<string, string>> = {
  tau: 'trend',
  bottom: 'depth',
  floor: 'time at floor',
  ceiling: 'time at ceiling',
  duty: 'time up',
  quiet: 'stillness',
  line: 'tone',
  repeat: 'rhythm',
  neighbours: 'smoothness',
  centroid: 'frequency',
  flatness: 'noisiness',
  pulseHeight: 'pulse height',
  pulseWidth: 'pulse width',
  pulseRhythm: 'pulse unevenness',
  peakAt: 'peak place',
};

function wordOf(key: string): string {
  const [, stem, digit] = /^(level|spread|band)(\d)$/.exec(key) ?? [];
  if (stem === 'band') return `${BANDS[Number(digit)]} power`;
  if (stem !== undefined) return `${ORDINALS[Number(digit)]} ${stem}`;
  return WORDS[key] ?? key;
}

/** Short names by the key of a kind; lower case, letters and spaces alone. */
const SHORT: ReadonlyMap<string, string> = new Map(
  [...CHANNEL_KINDS, ...SHARE_KINDS, PAIR_KIND].map(({ key }) => [key, wordOf(key)]),
);

/**
 * Short name of a feature by its key as `featureNames` makes it: `roughness`; `x tilt`, `magnitude level`, `x y correlation`
 * among several channels; `all roughness`, `unlike roughness` for mean and spread over many. Throws a RangeError for another key.
 */
export function shortName(key: string): string {
  const dot = key.lastIndexOf('.');
  const word = SHORT.get(key.slice(dot + 1));
  if (word === undefined) throw new RangeError(`no feature ${key}`);
  if (dot < 0) return word;
  const of = key.slice(0, dot);
  if (of === `the ${MAGNITUDE}`) return `${MAGNITUDE} ${word}`;
  if (of === 'spread') return `unlike ${word}`;
  return `${of.replace('~', ' ')} ${word}`;
}

/**
 * Activity of values [N], finite: one symbol per cell by the range of its samples, and of the one before, relative to `range`.
 * All are quiet where that is 0.
 */
export function activity(values: Float64Array, range: number, cells: number): string {
  const length = values.length;
  let symbols = '';
  for (let cell = 0; cell < cells; cell++) {
    const start = Math.min(length - 1, Math.floor((cell * length) / cells));
    const end = Math.max(start + 1, Math.floor(((cell + 1) * length) / cells));
    const [low, high] = extent(values.subarray(Math.max(0, start - 1), end));
    const share = range > 0 ? (high - low) / range : 0;
    symbols += ACTIVITY_SYMBOLS[share < QUIET_BELOW ? 0 : share < RESTLESS_FROM ? 1 : 2];
  }
  return symbols;
}

/** True for features that a picture without ticks shows, its y axis fitted to the series: nothing in units, no length of vectors. */
function isVisible(key: string): boolean {
  return !/(?:^|\.)(?:level|spread|range)$/.test(key) && !key.startsWith(`the ${MAGNITUDE}.`);
}

/**
 * Indices of up to `most` features that tell the classes of a profile apart together, one of each family. Each in turn is the one
 * that lowers the sum of exp(−D²/8) over the pairs of classes most, D² being the squared distance of the pair's means over
 * the features so far, in standard deviations within the classes (the Bhattacharyya bound on the error, features taken as independent).
 * Features that a picture does not show are left out.
 */
export function tellingFeatures(profile: ClassProfile, most: number): number[] {
  const { classes, features } = profile;
  const pairs = pairsOf(classes.length);
  const candidates = features.flatMap(({ key, ratio, within }, f) => {
    if (ratio < CITABLE_RATIO || within === 0 || !isVisible(key)) return [];
    const squares = pairs.map(([a, b]) => {
      const [mean, other] = [classes[a]!.means[f]!, classes[b]!.means[f]!];
      return mean === null || other === null ? 0 : ((mean - other) / within) ** 2;
    });
    return [{ f, squares }];
  });
  const sums = new Float64Array(pairs.length);
  const chosen: number[] = [];
  const families = new Set<number>();
  while (chosen.length < most) {
    let best: (typeof candidates)[number] | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const candidate of candidates) {
      if (families.has(features[candidate.f]!.family)) continue;
      let left = 0;
      for (let p = 0; p < sums.length; p++) left += Math.exp(-(sums[p]! + candidate.squares[p]!) / 8);
      if (left < least) [best, least] = [candidate, left];
    }
    if (best === undefined) break;
    chosen.push(best.f);
    families.add(features[best.f]!.family);
    best.squares.forEach((square, p) => {
      sums[p]! += square;
    });
  }
  return chosen;
}

/**
 * Bounds of a feature's grades on the comparison scale, ascending, at most four: half-way between neighbouring classes, the widest of those
 * gaps where there are more; where there are fewer, also at the classes themselves.
 */
function boundsOf({ classes, features }: ClassProfile, f: number): number[] {
  const { within } = features[f]!;
  const means = classes
    .flatMap((known) => (known.means[f] === null ? [] : [known.means[f]!]))
    .sort((a, b) => a - b);
  const distinct = means.filter((mean, c) => c === 0 || mean - means[c - 1]! >= LEAST_GAP * within);
  const gaps = distinct
    .slice(1)
    .map((mean, c) => ({ at: (mean + distinct[c]!) / 2, width: mean - distinct[c]! }));
  const halves = gaps
    .sort((a, b) => b.width - a.width)
    .slice(0, MOST_BOUNDS)
    .map(({ at }) => at);
  const room = MOST_BOUNDS - halves.length;
  const centres = room >= distinct.length ? distinct : [];
  return [...halves, ...centres].sort((a, b) => a - b);
}

/** Distance from a bound, in standard deviations within classes, up to which a feature may have either grade. */
const NEAR_GRADE = 0.1;

/** Returns the grades that are true of a feature: its own, and those beyond a bound that is near. */
function gradesOf({ profile, values }: ClassEvidence, f: number): string[] {
  const feature = profile.features[f]!;
  const place = toScale(feature, values[f]!);
  if (Number.isNaN(place)) return [UNDEFINED];
  const bounds = boundsOf(profile, f);
  const slack = NEAR_GRADE * feature.within;
  return [place, place - slack, place + slack].map(
    (value) => GRADES[bounds.length]![bounds.filter((bound) => value >= bound).length]!,
  );
}

/** Words that name features, without a channel; `last spread` before `spread`. */
const FEATURE_WORDS = [...new Set(SHORT.values())].sort((a, b) => b.length - a.length);
const GRADE_WORDS = ['very low', 'low', 'typical', 'very high', 'high', UNDEFINED].join('|');

/** Statements of short traces about classifications: a feature and its grade among the classes, such as `turns very high`. */
export const NANO_GRADES: Readonly<Record<string, Phrase>> = Object.fromEntries(
  FEATURE_WORDS.map((word): [string, Phrase] => {
    const { grade } = phrasesOf(({ classes, names, name }) => ({ classes, names, name }))(
      `grade of ${word}`,
      {
        grade: [
          `{${MAGNITUDE} |all |unlike |}${word} {${GRADE_WORDS}}`,
          ({ classes, names, name }, [scope, stated]) => {
            if (classes === null) return [null, null];
            const of = scope !== '' ? scope : names.length === 1 ? null : name;
            const full = of === null ? word : `${of} ${word}`;
            const f = classes.profile.features.findIndex(({ key }) => shortName(key) === full);
            if (f < 0) return [null, null];
            const grades = gradesOf(classes, f);
            return [null, grades.includes(String(stated)) ? stated! : grades[0]!];
          },
        ],
      },
      { opening: word },
    );
    return [word, grade];
  }),
);

/** Draws the activity of one channel, relative to the range of all. */
export function activityScan({ channels }: ClassEvidence, channel: number, cells: number): string {
  const [low, high] = extent(channels.flatMap(({ summary }) => [summary.min, summary.max]));
  return activity(channels[channel]!.bridged.values, high - low, cells);
}

function scanOf(evidence: ClassEvidence, cells: number): string {
  const { channels } = evidence;
  const rows = channels.map(({ name }, c) => {
    const what = channels.length === 1 ? 'activity' : name;
    return `${what}; scan ${activityScan(evidence, c, cells)}`;
  });
  return rows.join('; ');
}

/**
 * The short target of a training example: scan and features from the evidence, the class from the annotation.
 * @throws ConfigError for a class that the profile does not know; DataError for a channel name that would break the tags
 */
export function nanoClassTeacher(
  evidence: ClassEvidence,
  gold: string,
  options: NanoClassOptions = {},
): string {
  const { profile, channels } = evidence;
  classIndex(profile, gold);
  const { cells = channels.length === 1 ? 20 : 10, features = 3 } = options;
  const grades = tellingFeatures(profile, features).map(
    (f) => `${shortName(profile.features[f]!.key)} ${gradesOf(evidence, f)[0]}`,
  );
  const phrases = grades.length === 0 ? 'nothing telling' : grades.join(', ');
  const think = channels.length <= MOST_SCANNED ? `${scanOf(evidence, cells)}; ${phrases}` : phrases;
  if (/[<>\n\r]/.test(think)) {
    throw new DataError(
      'a channel name holds <, > or a line end, which would break the tags of a trace; rename it',
    );
  }
  return `<think>${think}</think><class>${gold}</class>`;
}
