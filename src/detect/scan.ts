/** Scan of a track of departures for improbable stretches: means over windows of many lengths, each compared with its own tail. */
import { mean } from '../ground/numbers.ts';
import { cumulative, GAUSSIAN_MAD } from '../series/stats.ts';
import { INSIDE } from './finding.ts';
import { centreOf, fitTail, reachOf, surprise, type Tail, tempered } from './tail.ts';

export interface Stretch {
  /** Half-open, in samples. */
  readonly start: number;
  readonly end: number;
  readonly sign: 1 | -1;
  /** −log₁₀ of the expected number of such stretches by chance. */
  readonly severity: number;
  /** Sample with the largest departure. */
  readonly peak: number;
}

type TrackName =
  | 'level'
  | 'local'
  | 'season'
  | 'analogue'
  | 'step'
  | 'movement'
  | 'size'
  | 'still'
  | 'limit'
  | 'rhythm';

export interface Track {
  readonly name: TrackName;
  /** Departures [N]. */
  readonly values: Float64Array;
  readonly floor: number;
  readonly windows: readonly number[];
  /** True if small values are no departure. */
  readonly onlyAbove?: boolean;
}

/** Tracks of logarithms. */
export const LOGARITHMIC: ReadonlySet<TrackName> = new Set<TrackName>(['movement', 'size']);

/** Stretch found in a track, before those of several tracks are joined. */
export interface Candidate extends Stretch {
  readonly track: TrackName;
  /** True for a step whose level has stayed for longer than an episode; the stretch is its beginning. */
  readonly lasting?: true;
  /** True for a lasting step that takes as long as the stretch. */
  readonly slow?: true;
  /** True for a lasting departure that still grows. */
  readonly drifts?: true;
  /** True for fluctuations that grow to the end, or are livelier for a long time. */
  readonly grows?: true;
  /** Rhythm that breaks here: its events, their usual distance in samples, and what is wrong with them. */
  readonly rhythm?: {
    readonly of: 'peak' | 'drop';
    readonly every: number;
    readonly what: 'missing' | 'additional' | 'faster';
  };
}

interface ScanOptions {
  /** Smallest departure in the units of the track, > 0. */
  readonly floor: number;
  /** Window lengths, ascending. */
  readonly windows: readonly number[];
  /** Minimum severity. */
  readonly least: number;
  /** True if the values are logarithms. */
  readonly logarithmic?: boolean;
  /** True if peers of any length make a stretch usual: edges at any time leave departures of any length. */
  readonly edges?: boolean;
  /** True if the expectation is one constant, as good at the ends as elsewhere. */
  readonly constant?: boolean;
  /** Number of tracks scanned, for the correction of multiple comparisons. */
  readonly looks: number;
}

/** Returns window lengths from `shortest` up, each 1.5 times the one before, to the longest that has enough windows for a tail. */
export function windowLengths(n: number, shortest = 1, share = 1 / 12): number[] {
  const lengths: number[] = [];
  for (let w = shortest; w <= Math.max(shortest, n * share); w = Math.max(w + 1, Math.round(w * 1.5)))
    lengths.push(w);
  return lengths;
}

// V8 compiles a function whole, with all that it calls, while one of its loops runs; loops over samples have small functions of their own.

/** Finds the exact extent of a stretch: the part of a neighbourhood whose departures less `cut` have the largest sum. */
function extentOf(
  track: Float64Array,
  centre: number,
  sign: number,
  from: number,
  to: number,
  cut: number,
): { start: number; end: number } {
  let best = Number.NEGATIVE_INFINITY;
  let start = from;
  let extent = { start: from, end: to };
  let sum = 0;
  for (let i = from; i < to; i++) {
    if (sum <= 0) {
      sum = 0;
      start = i;
    }
    sum += sign * (track[i]! - centre) - cut;
    if (sum > best) {
      best = sum;
      extent = { start, end: i + 1 };
    }
  }
  return extent;
}

/** Severity from which a stretch is taken out of the longer windows. */
const SETTLED = 3;
/** Share of its height down to which a single peak reaches. */
const PART = 0.3;
/** Share of the band beyond which samples depart on their own. */
const CORE = 0.5;
/** Stretches at least this share as high and as long are peers. */
const ALIKE = 0.7;
/** Number of peers that halves the severity: frequent departures are usual, however large. */
const PEERS = 7.5;

/** Start of the window of `w` samples with the largest sum, of those that start every `stride` in [from, to]; NaN for none. */
function largestWindow(sums: Float64Array, w: number, from: number, to: number, stride: number): number {
  let [best, most] = [Number.NaN, Number.NEGATIVE_INFINITY];
  for (let i = from; i <= to; i += stride) {
    const sum = sums[i + w]! - sums[i]!;
    if (sum > most) {
      most = sum;
      best = i;
    }
  }
  return best;
}

/** Means of the windows of `w` samples, every `stride`, from the sums before each sample [N + 1]. */
function meansOf(sums: Float64Array, w: number, stride: number): Float64Array {
  const means = new Float64Array(Math.floor((sums.length - 1 - w) / stride) + 1);
  for (let k = 0, i = 0; k < means.length; k++, i += stride) means[k] = (sums[i + w]! - sums[i]!) / w;
  return means;
}

/** Sample of [start, end) that departs furthest in a direction; `peak` unless one departs further. */
function furthestIn(
  track: Float64Array,
  centre: number,
  sign: number,
  start: number,
  end: number,
  peak: number,
): number {
  let furthest = peak;
  for (let i = start; i < end; i++)
    if (sign * (track[i]! - centre) > sign * (track[furthest]! - centre)) furthest = i;
  return furthest;
}

/** Number of samples of [start, end) that are taken. */
function takenIn(taken: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let i = start; i < end; i++) count += taken[i]!;
  return count;
}

/** Window length from which means get crowds of their own: slow departures are hidden in noisy single samples. */
const SLOW = 8;
/** Window lengths for crowds of departures, as shares of the series. */
const CROWDS = [1 / 40, 1 / 24, 1 / 16, 1 / 12, 1 / 8] as const;
const MOST_CROWDS = 3;
/** Factor by which departures in a crowd exceed those in any other window of its length. */
const CROWDED = 5;
/** Factor for a crowd at an end of the series, in a track whose expectation is a constant. */
const CROWDED_AT_END = 15;
const FEWEST_CROWDED = 8;
/** Least share of the mean of a calm stretch that it keeps without its first and last samples. */
const CALM = 0.8;

/**
 * Finds stretches whose departures are on average at least five times as large as anywhere else in a track [N]: a long anomaly must not
 * count as usual. At most three, by time; heavy tails and random walks hardly ever have one.
 */
function crowds(
  track: Float64Array,
  { constant = false, logarithmic = false }: Partial<ScanOptions> = {},
): [start: number, end: number][] {
  const n = track.length;
  const centre = centreOf(track);
  const sums = cumulative(track.map((value) => Math.abs(value - centre)));
  const below = (start: number, end: number): number => centre - mean(track.subarray(start, end));
  // Its last samples may be smaller than others for the end alone: the rest of a calm stretch is calm without them.
  const isCalm = (start: number, end: number): boolean => {
    const [from, to] = [Math.max(0, start), Math.min(n, end)];
    return below(from + SLOW, to - SLOW) > Math.max(0, CALM * below(from, to));
  };
  let chosen: [number, number][] = [];
  let strongest = CROWDED;
  for (const share of CROWDS) {
    const w = Math.floor(share * n);
    if (w < FEWEST_CROWDED) continue;
    const taken: [number, number][] = [];
    const sizes: number[] = [];
    const stride = strideOf(w, n);
    while (taken.length <= MOST_CROWDS) {
      let best = -1;
      let most = 0;
      // Windows between the taken ones, at least a window length away from each.
      const sorted = taken.toSorted(([a], [b]) => a - b);
      for (let k = 0; k <= sorted.length; k++) {
        const from = k === 0 ? 0 : Math.ceil((sorted[k - 1]![1] + w) / stride) * stride;
        const to = k === sorted.length ? n - w : sorted[k]![0] - 2 * w;
        const at = largestWindow(sums, w, from, to, stride);
        const sum = sums[at + w]! - sums[at]!;
        if (sum > most) [most, best] = [sum, at];
      }
      if (best < 0) break;
      sizes.push(most);
      taken.push([best, best + w]);
    }
    for (let j = 1; j < sizes.length && j <= MOST_CROWDS; j++) {
      const ratio = sizes[j - 1]! / Math.max(sizes[j]!, 1e-300);
      if (ratio < strongest) continue;
      strongest = ratio;
      chosen = taken.slice(0, j);
    }
  }
  return (
    chosen
      .map(([start, end]): [number, number] => [start - ((end - start) >> 1), end + ((end - start) >> 1)])
      // At the ends the expectation rests on one side alone, which makes departures larger, but none of them calm.
      .filter(
        ([start, end]) =>
          (constant && strongest >= CROWDED_AT_END) ||
          (start > 0 && end < n) ||
          (logarithmic && isCalm(start, end)),
      )
      .sort((a, b) => a[0] - b[0])
  );
}

/** Longest series whose windows are all scanned. */
const EVERY = 20_000;

/** Stride of windows of `w` of `n` samples; the exact extent of a stretch comes from the samples. */
const strideOf = (w: number, n: number): number => (n <= EVERY ? 1 : Math.max(1, w >> 4));

/** Keeps the values of windows of `w` samples, every `stride`, that touch none of the stretches. */
function outsideOf(
  values: Float64Array,
  stretches: readonly (readonly [number, number])[],
  w: number,
  stride = 1,
): Float64Array {
  if (stretches.length === 0) return values;
  const kept = values.filter((_, i) =>
    stretches.every(([start, end]) => i * stride + w <= start || i * stride >= end),
  );
  return 2 * kept.length < values.length ? values : kept;
}

/** Tails of tracks, each of one floor, and the crowds left out: several steps ask for them. */
const usual = new WeakMap<Float64Array, { readonly tail: Tail; readonly crowded: [number, number][] }>();

/** Fits the tails of a track [N] without its crowds. */
function usualOf(track: Float64Array, floor: number): { tail: Tail; crowded: [number, number][] } {
  let known = usual.get(track);
  if (known === undefined) {
    const crowded = crowds(track);
    known = { tail: fitTail(outsideOf(track, crowded, 1), floor), crowded };
    usual.set(track, known);
  }
  return known;
}

export const usualTail = (track: Float64Array, floor: number): Tail => usualOf(track, floor).tail;

/** Number of other edges that makes a departure at an edge usual. */
const EDGES = 4;
/** Distance from which edges are different ones, as a share of the series. */
const APART = 0.1;

/** Square of the number of swings over the degrees of freedom that they give a tail: of sixty and more the tail is known. */
const SWINGS = 10;
/** Longest stretch that is judged as a single sample is, of which there are many. */
const SHORT = 3;
/** Least jump at an end of a stretch that begins or ends suddenly, in largest jumps elsewhere. */
const SUDDEN = 3;
/** Least severity of what extends a stretch far, as a share of its own. */
const WEAK = 0.4;

/**
 * Returns the severities of a track whose tail rests on few departures: those of Student's distribution in place of a normal one. A smooth
 * course swings to one side for many samples, which are one departure; small swings count for little. A stretch that begins or ends with a
 * far larger jump than all others is no part of such a course. `taken`: samples of what was found.
 */
function bySwings(track: Float64Array, centre: number, taken: Uint8Array) {
  let [all, squares, side, mass, largest] = [0, 0, 0, 0, 0];
  const jump = (i: number): number => (i > 0 && i < track.length ? Math.abs(track[i]! - track[i - 1]!) : 0);
  const end = (): void => {
    all += mass;
    squares += mass ** 2;
    mass = 0;
  };
  for (let i = 0; i < track.length; i++) {
    const departure = taken[i] === 1 ? 0 : track[i]! - centre;
    if (taken[i] === 0 && taken[i - 1] !== 1) largest = Math.max(largest, jump(i));
    if (Math.sign(departure) !== side) end();
    side = Math.sign(departure);
    mass += Math.abs(departure);
  }
  end();
  const freedom = squares === 0 ? Number.POSITIVE_INFINITY : (all ** 2 / squares) ** 2 / SWINGS;
  return {
    severity: (severity: number): number =>
      freedom === Number.POSITIVE_INFINITY
        ? severity
        : ((freedom / 2) * Math.log1p((2 * Math.LN10 * severity) / freedom)) / Math.LN10,
    isSudden: ({ start, end }: Stretch): boolean => Math.max(jump(start), jump(end)) > SUDDEN * largest,
  };
}

/** Joins stretches of one direction in a crowd that fill most of what lies between the first and the last of them. */
function piecedTogether(
  stretches: readonly Stretch[],
  crowded: readonly (readonly [number, number])[],
): Stretch[] {
  let out = [...stretches];
  for (const [from, to] of crowded) {
    for (const sign of [1, -1] as const) {
      const pieces = out.filter((one) => one.sign === sign && one.start >= from && one.end <= to);
      const start = Math.min(...pieces.map((one) => one.start));
      const end = Math.max(...pieces.map((one) => one.end));
      const filled = pieces.reduce((sum, one) => sum + one.end - one.start, 0);
      if (pieces.length < 2 || 2 * filled < end - start) continue;
      const strongest = pieces.reduce((a, b) => (b.severity > a.severity ? b : a));
      out = [...out.filter((one) => !pieces.includes(one)), { ...strongest, start, end }];
    }
  }
  return out;
}

/**
 * Returns the improbable stretches of a track [N], disjoint, most severe first. `isAlone`: of logarithms, a crowd is left out of what is usual;
 * another stretch like it elsewhere makes it usual after all.
 */
export function scan(track: Float64Array, options: ScanOptions, isAlone = true): Stretch[] {
  const { floor, windows, least, looks, logarithmic, edges, constant } = options;
  const n = track.length;
  const special = logarithmic === true ? [] : constant === true ? crowds(track, options) : null;
  const { crowded, tail: single } =
    special === null
      ? usualOf(track, floor)
      : { crowded: special, tail: fitTail(outsideOf(track, special, 1), floor) };
  // In longer windows a sample counts no more than the band: a spike is no level shift.
  const rest = track.map((value) =>
    Math.min(single.centre + single.bandAbove, Math.max(single.centre - single.bandBelow, value)),
  );
  const sigma = deviation(outsideOf(rest, crowded, 1));
  const found: Stretch[] = [];
  const taken = new Uint8Array(n);
  /** Crowds of means of logarithms: there short windows find one long stretch in pieces. */
  const whole: (readonly [number, number])[] = [];
  let sums = cumulative(rest);
  let changed = false;
  for (const w of windows) {
    if (w > n) break;
    if (changed) sums = cumulative(rest);
    changed = false;
    const stride = strideOf(w, n);
    const means = w === 1 ? track : meansOf(sums, w, stride);
    const all = w < SLOW ? [] : crowds(means, options);
    // Several stretches of other noise are usual, as weekends are.
    const slow = logarithmic === true && !(isAlone && all.length === 1) ? [] : all;
    const excluded = [...crowded, ...slow.map(([start, end]) => [start * stride, end * stride + w] as const)];
    if (logarithmic === true) whole.push(...excluded);
    const tail =
      w === 1 ? single : fitTail(outsideOf(means, excluded, w, stride), floor, w, { tail: single, sigma });
    const chance = Math.log10((n / w) * looks);
    const places = peaks(means, tail, (least + chance) * Math.LN10)
      .map((k) => {
        const mean = means[k]! - tail.centre;
        return { start: k * stride, mean, severity: tempered(surprise(tail, mean) / Math.LN10 - chance) };
      })
      .sort((a, b) => b.severity - a.severity);
    for (const { start, mean, severity } of places) {
      if (2 * takenIn(taken, start, start + w) >= w) continue;
      const within = whole.filter(([a, b]) => a <= start && start + w <= b).map(([a, b]) => b - a);
      // A weak piece of a crowd waits for a window that holds more of it.
      if (severity < SETTLED && within.some((length) => 4 * w < length)) continue;
      const sign = mean > 0 ? 1 : -1;
      const band = sign > 0 ? single.bandAbove : single.bandBelow;
      const departure = (i: number): number => sign * (track[i]! - single.centre);
      let peak = furthestIn(track, single.centre, sign, start, start + w, start);
      // Samples that depart on their own bound a strong stretch exactly; a weak one is all that lies beyond half its mean.
      const cut =
        w === 1
          ? Math.max(band, PART * departure(peak))
          : Math.abs(mean) > CORE * band
            ? Math.max(0.5 * Math.abs(mean), CORE * band)
            : 0.5 * Math.abs(mean);
      const reach = Math.max(4, w, ...within);
      let [from, to] = [start, start + w];
      // Samples that depart on their own make one stretch, however long.
      if (w === 1) {
        while (from > 0 && departure(from - 1) > cut) from--;
        while (to < n && departure(to) > cut) to++;
      }
      const part = extentOf(
        track,
        single.centre,
        sign,
        Math.max(0, from - reach),
        Math.min(n, to + reach),
        cut,
      );
      const free = takenIn(taken, part.start, part.end) === 0;
      taken.fill(1, part.start, part.end);
      if (severity >= SETTLED) rest.fill(single.centre, part.start, part.end);
      changed ||= severity >= SETTLED;
      // A weak stretch around a spike is another one.
      const touching = free
        ? undefined
        : found.find(
            (one) =>
              one.start <= part.end &&
              part.start <= one.end &&
              one.sign === sign &&
              (severity >= WEAK * one.severity || part.end - part.start < INSIDE * (one.end - one.start)),
          );
      if (touching !== undefined) {
        Object.assign(touching, {
          start: Math.min(touching.start, part.start),
          end: Math.max(touching.end, part.end),
          severity: Math.max(touching.severity, severity),
        });
        continue;
      }
      if (peak < part.start || peak >= part.end) peak = part.start;
      peak = furthestIn(track, single.centre, sign, part.start, part.end, peak);
      found.push({ ...part, sign, severity, peak });
    }
  }
  const inside = (one: Stretch): boolean => whole.some(([a, b]) => one.start < b && one.end > a);
  const others = found.filter((one) => one.severity >= SETTLED && !inside(one));
  if (others.some(({ sign }) => found.some((one) => one.sign === sign && inside(one))))
    return scan(track, options, false);
  const stretches = piecedTogether(found, whole);
  const known = bySwings(track, single.centre, taken);
  return stretches
    .map((stretch) => {
      const { peak, sign, start, end } = stretch;
      const height = Math.abs(track[peak]! - single.centre);
      const peers = stretches.filter(
        (peer) =>
          peer !== stretch &&
          (edges === true ? Math.abs(peer.peak - peak) > APART * n : peer.sign === sign) &&
          Math.abs(track[peer.peak]! - single.centre) > ALIKE * height &&
          (edges === true || peer.end - peer.start >= ALIKE * (end - start)),
      ).length;
      const usual = edges === true ? (peers / EDGES) ** 3 : (peers / PEERS) ** 1.25;
      const smooth = logarithmic !== true && end - start > SHORT && !known.isSudden(stretch);
      const severity = smooth ? known.severity(stretch.severity) : stretch.severity;
      return { ...stretch, severity: severity / (1 + usual) };
    })
    .filter(({ severity }) => severity >= least)
    .sort((a, b) => b.severity - a.severity);
}

/** Samples between two events, as a share of the series, and at least. */
const [EVENTS_APART, LEAST_APART] = [1 / 200, 3];
/** Factors by which an event must exceed the next largest one and the band, or the band alone; and most events nearly as large as it. */
const OVER_NEXT = 3;
const [OVER_BAND, FAR_OVER_BAND] = [4, 20];
const [NEARLY, MOST_NEARLY] = [0.6, 2];
/**
 * Longest series whose extremes are too few for that, and the factors by which an event of theirs must exceed the next largest departure and the
 * standard deviation (1.48 median departures). Of 4000 made series of 18 to 90 samples one in 500 has such an event where noise is white,
 * autoregressive or a walk, one in 200 where it is Laplacian or lognormal (.4), one in 20 with a Student distribution of 3.
 */
const [FEW, OVER_NEXT_OF_FEW, OVER_DEVIATION] = [120, 2.6, 8];
/** Highest severity of an event by its size alone. */
export const MOST_BY_SIZE = 4;

/** Returns the sample of a short series [N] that departs far more than all others, up or down; none where no single one does. */
function outstandingOfFew(track: Float64Array, floor: number): Stretch[] {
  const centre = centreOf(track);
  const sizes = track.map((value) => Math.abs(value - centre));
  const order = [...sizes.keys()].sort((a, b) => sizes[b]! - sizes[a]!);
  const [peak, next] = order as [number, number];
  const deviation = GAUSSIAN_MAD * sizes[order[order.length >> 1]!]!;
  const ratio = Math.min(
    sizes[peak]! / (OVER_NEXT_OF_FEW * sizes[next]!),
    sizes[peak]! / (OVER_DEVIATION * Math.max(floor, deviation)),
  );
  if (!(ratio >= 1)) return [];
  const severity = Math.min(MOST_BY_SIZE, 2 + Math.log2(ratio));
  return [{ start: peak, end: peak + 1, sign: track[peak]! > centre ? 1 : -1, peak, severity }];
}

/**
 * Returns the largest event up and down in [N] departures from a constant that nobody would overlook: far larger than the next one, or tens
 * of times as large as 99 % of the samples. In heavy tails such an event is not rare by its tail alone, as it shapes that tail.
 */
export function outstanding(track: Float64Array, floor: number): Stretch[] {
  const n = track.length;
  const few = n <= FEW ? outstandingOfFew(track, floor) : [];
  if (few.length > 0) return few;
  const tail = usualTail(track, floor);
  const apart = Math.max(LEAST_APART, Math.round(EVENTS_APART * n));
  return ([1, -1] as const).flatMap((sign): Stretch[] => {
    const height = (i: number): number => sign * (track[i]! - tail.centre);
    const band = sign > 0 ? tail.bandAbove : tail.bandBelow;
    let peak = 0;
    for (let i = 1; i < n; i++) if (height(i) > height(peak)) peak = i;
    const top = height(peak);
    if (top < OVER_BAND * band) return [];
    const cut = Math.max(band, PART * top);
    let [start, end] = [peak, peak + 1];
    while (start > 0 && height(start - 1) > cut) start--;
    while (end < n && height(end) > cut) end++;
    let [next, nearly, last] = [band, 0, -apart];
    for (let i = 0; i < n; i++) {
      if (i >= start - apart && i < end + apart) continue;
      next = Math.max(next, height(i));
      if (height(i) < NEARLY * top) continue;
      if (i - last >= apart) nearly++;
      last = i;
    }
    const far = nearly > MOST_NEARLY ? 0 : top / (FAR_OVER_BAND * band);
    const ratio = Math.max(top / (OVER_NEXT * next), far);
    return ratio < 1
      ? []
      : [{ start, end, sign, peak, severity: Math.min(MOST_BY_SIZE, 2 + Math.log2(ratio)) }];
  });
}

/** Returns the peaks of runs of values that are rarer than `wanted` (−ln of their share). */
function peaks(values: Float64Array, tail: Tail, wanted: number): number[] {
  const up = reachOf(tail, 1, wanted);
  const down = reachOf(tail, -1, wanted);
  const out: number[] = [];
  for (let i = 0; i < values.length; i++) {
    const sign = values[i]! - tail.centre >= up ? 1 : tail.centre - values[i]! >= down ? -1 : 0;
    if (sign === 0) continue;
    const far = sign > 0 ? up : down;
    let top = i;
    let j = i;
    for (; j < values.length && sign * (values[j]! - tail.centre) >= far; j++) {
      if (sign * values[j]! > sign * values[top]!) top = j;
    }
    out.push(top);
    i = j - 1;
  }
  return out;
}

/** Standard deviation. */
export function deviation(values: Float64Array): number {
  const n = values.length;
  let mean = 0;
  for (let i = 0; i < n; i++) mean += values[i]! / n;
  let sum = 0;
  for (let i = 0; i < n; i++) sum += (values[i]! - mean) ** 2;
  return Math.sqrt(sum / n);
}
