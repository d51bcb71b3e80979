/**
 * The short style of classification, for policies of a million parameters: how restless each piece of the picture is, then where a few
 * features stand among the classes, in words.
 *
 *   <think>activity; scan ...o##oo....#o......; turns low, depth very low, burst very high</think><class>Laptop</class>
 *
 * The scan walks along the picture, one symbol per cell (a picture 560 pixels wide is 20 visual tokens); several channels are
 * scanned one after the other, as the rows of a picture with one y axis. The symbols say how much of the range of all channels a cell's line covers:
 *
 *   .  less than a sixteenth      o  more      #  three eighths and more
 *
 * Everything but the class is computed from values and profile, so that a policy can learn to read it off the picture. Which
 * features are told is fixed for a task: the names are the same for every class, the grades differ. To tell those that speak most
 * for the class instead would give it away by their names (on CTU's test split naive Bayes over the phrases of traces that conclude
 * the gold class then finds it in 100 %, with fixed names in 77 %, the rule over all features in 75 %): a policy would have to know
 * the class before its first phrase.
 *
 * Phrases are parted by '; ' and ', ' such that the small tokenizer makes one token of each phrase and of each symbol.
 */
import { DataError } from '../ground/errors.ts';
import { type ClassProfile, classIndex, toScale } from './class-profile.ts';
import { CITABLE_RATIO, type ClassEvidence } from './class-trace.ts';
import { CHANNEL_KINDS, MAGNITUDE, ORDINALS, PAIR_KIND, pairsOf, SHARE_KINDS } from './features.ts';

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
    let low = values[start]!;
    let high = low;
    for (let i = Math.max(0, start - 1); i < end; i++) {
      low = Math.min(low, values[i]!);
      high = Math.max(high, values[i]!);
    }
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
      const [one, other] = [classes[a]!.means[f]!, classes[b]!.means[f]!];
      return one === null || other === null ? 0 : ((one - other) / within) ** 2;
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
    .flatMap((own) => (own.means[f] === null ? [] : [own.means[f]!]))
    .sort((a, b) => a - b);
  const apart = means.filter((mean, c) => c === 0 || mean - means[c - 1]! >= LEAST_GAP * within);
  const gaps = apart.slice(1).map((mean, c) => ({ at: (mean + apart[c]!) / 2, width: mean - apart[c]! }));
  const halves = gaps
    .sort((a, b) => b.width - a.width)
    .slice(0, MOST_BOUNDS)
    .map(({ at }) => at);
  const room = MOST_BOUNDS - halves.length;
  const own = room >= apart.length ? apart : [];
  return [...halves, ...own].sort((a, b) => a - b);
}

/** Phrases of features: name and grade. */
function gradesOf({ profile, values }: ClassEvidence, list: readonly number[]): string[] {
  return list.map((f) => {
    const feature = profile.features[f]!;
    const place = toScale(feature, values[f]!);
    const bounds = boundsOf(profile, f);
    const grade = bounds.filter((bound) => place >= bound).length;
    const word = Number.isNaN(place) ? UNDEFINED : GRADES[bounds.length]![grade]!;
    return `${shortName(feature.key)} ${word}`;
  });
}

function scanOf({ channels }: ClassEvidence, cells: number): string {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const { summary } of channels) {
    low = Math.min(low, summary.min);
    high = Math.max(high, summary.max);
  }
  const rows = channels.map(({ name, bridged }) => {
    const what = channels.length === 1 ? 'activity' : name;
    return `${what}; scan ${activity(bridged.values, high - low, cells)}`;
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
  const grades = gradesOf(evidence, tellingFeatures(profile, features));
  const told = grades.length === 0 ? 'nothing telling' : grades.join(', ');
  const think = channels.length <= MOST_SCANNED ? `${scanOf(evidence, cells)}; ${told}` : told;
  if (/[<>\n\r]/.test(think)) {
    throw new DataError(
      'a channel name holds <, > or a line end, which would break the tags of a trace; rename it',
    );
  }
  return `<think>${think}</think><class>${gold}</class>`;
}
