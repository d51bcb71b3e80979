/** Stretches of a track of departures that are too far, for too long, to be chance: means over windows of many lengths, each against its own tail. */
import { cumulative } from './season.ts';
import { centreOf, fitTail, reachOf, surprise, type Tail, tempered } from './tail.ts';

export interface Stretch {
  /** Half-open, in samples. */
  readonly start: number;
  readonly end: number;
  readonly sign: 1 | -1;
  /** −log₁₀ of the number of such stretches that chance puts into the series. */
  readonly severity: number;
  /** The sample that departs most. */
  readonly peak: number;
}

type TrackName = 'level' | 'local' | 'season' | 'analogue' | 'step' | 'movement' | 'size' | 'still' | 'limit';

export interface Track {
  readonly name: TrackName;
  /** Departures [N]. */
  readonly values: Float64Array;
  readonly floor: number;
  readonly windows: readonly number[];
  /** Small values are no departure. */
  readonly onlyAbove?: boolean;
}

/** Tracks of logarithms. */
export const LOGARITHMIC: ReadonlySet<TrackName> = new Set<TrackName>(['movement', 'size']);

/** What a track finds, before stretches of several are joined. */
export interface Candidate extends Stretch {
  readonly track: TrackName;
  /** Of a step: the level has stayed where it went, for longer than an episode; the stretch is the beginning of that. */
  readonly lasting?: true;
  /** With `lasting`: it drifts on. */
  readonly drifts?: true;
}

interface ScanOptions {
  /** Departures below this are none, in the units of the track, > 0. */
  readonly floor: number;
  /** Window lengths, ascending. */
  readonly windows: readonly number[];
  /** Least severity. */
  readonly least: number;
  /** The values are logarithms. */
  readonly logarithmic?: boolean;
  /** What has peers of any length is usual: where edges come at any time, so do departures from what was expected of them. */
  readonly edges?: boolean;
  /** Tracks × window lengths that are looked at in all: places where chance may strike. */
  readonly looks: number;
}

/** Window lengths from `shortest`, each half as long again, to the longest of which a tail can be read. */
export function windowLengths(n: number, shortest = 1, share = 1 / 12): number[] {
  const lengths: number[] = [];
  for (let w = shortest; w <= Math.max(shortest, n * share); w = Math.max(w + 1, Math.round(w * 1.5)))
    lengths.push(w);
  return lengths;
}

/** The part of a neighbourhood whose departures, less half of what is usual inside, add up to most: its exact extent. */
function extent(
  track: Float64Array,
  centre: number,
  sign: number,
  from: number,
  to: number,
  cut: number,
): { start: number; end: number } {
  let best = Number.NEGATIVE_INFINITY;
  let start = from;
  let found = { start: from, end: to };
  let sum = 0;
  for (let i = from; i < to; i++) {
    if (sum <= 0) {
      sum = 0;
      start = i;
    }
    sum += sign * (track[i]! - centre) - cut;
    if (sum > best) {
      best = sum;
      found = { start, end: i + 1 };
    }
  }
  return found;
}

/** What is as severe in short windows is no evidence for longer ones. */
const SETTLED = 3;
/** The part of its height down to which a single peak reaches. */
const PART = 0.3;
/** The part of the band beyond which samples depart on their own. */
const CORE = 0.5;
/** Stretches at least this part as high and as long are peers of one another. */
const ALIKE = 0.7;
/** Peers that halve the severity: what happens often is usual, however far from the rest it lies. */
const PEERS = 7.5;

/** Parts of a series in which departures may crowd: window lengths. */
const CROWDS = [1 / 40, 1 / 24, 1 / 16, 1 / 12, 1 / 8] as const;
const MOST_CROWDS = 3;
/** Departures in a crowd are so many times as large as in any other window of its length. */
const CROWDED = 5;
const FEWEST_CROWDED = 8;

/**
 * Stretches in which the departures of a track [N] are on average at least five times as large as anywhere else: what one long anomaly leaves is
 * no measure of what is usual. At most three, by time; in heavy tails and in walks hardly ever one.
 */
function crowds(track: Float64Array): [start: number, end: number][] {
  const n = track.length;
  const centre = centreOf(track);
  const sums = new Float64Array(n + 1);
  for (let i = 0; i < n; i++) sums[i + 1] = sums[i]! + Math.abs(track[i]! - centre);
  let found: [number, number][] = [];
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
      // The windows between those that are taken, which are apart from them by their own length.
      const sorted = taken.toSorted(([a], [b]) => a - b);
      for (let k = 0; k <= sorted.length; k++) {
        const from = k === 0 ? 0 : Math.ceil((sorted[k - 1]![1] + w) / stride) * stride;
        const to = k === sorted.length ? n - w : sorted[k]![0] - 2 * w;
        for (let i = from; i <= to; i += stride) {
          const sum = sums[i + w]! - sums[i]!;
          if (sum > most) {
            most = sum;
            best = i;
          }
        }
      }
      if (best < 0) break;
      sizes.push(most);
      taken.push([best, best + w]);
    }
    for (let j = 1; j < sizes.length && j <= MOST_CROWDS; j++) {
      const ratio = sizes[j - 1]! / Math.max(sizes[j]!, 1e-300);
      if (ratio < strongest) continue;
      strongest = ratio;
      found = taken.slice(0, j);
    }
  }
  return (
    found
      .map(([start, end]): [number, number] => [start - ((end - start) >> 1), end + ((end - start) >> 1)])
      // At the ends expectations are of one side alone, and departures larger for it.
      .filter(([start, end]) => start > 0 && end < n)
      .sort((a, b) => a[0] - b[0])
  );
}

/** Means of so many samples have crowds of their own: what is slow is hidden in single samples that vary. */
const SLOW = 8;
/** Longest series of which every window is looked at. */
const EVERY = 20_000;

/** Windows of `w` of `n` samples are looked at so far apart: the extent of what is found is read from the samples. */
const strideOf = (w: number, n: number): number => (n <= EVERY ? 1 : Math.max(1, w >> 4));

/** The values of windows of `w` samples, every `stride`, that touch none of the stretches. */
function apartFrom(
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

/** The tails of a track [N], its crowds left out. */
export function usualTail(track: Float64Array, floor: number): Tail {
  return fitTail(apartFrom(track, crowds(track), 1), floor);
}

/** The same for what may be an edge that came at another time. */
const EDGES = 4;
/** They are others where they lie this part of the series apart. */
const APART = 0.1;

/** Stretches of a track [N] by falling severity, none of which overlap. */
export function scan(
  track: Float64Array,
  { floor, windows, least, looks, logarithmic, edges }: ScanOptions,
): Stretch[] {
  const n = track.length;
  const crowded = logarithmic === true ? [] : crowds(track);
  const single = fitTail(apartFrom(track, crowded, 1), floor);
  // Beyond the first window a single sample counts no more than the band: a spike is no shift of level.
  const rest = track.map((value) =>
    Math.min(single.centre + single.bandAbove, Math.max(single.centre - single.bandBelow, value)),
  );
  const sigma = deviation(apartFrom(rest, crowded, 1));
  const found: Stretch[] = [];
  const taken = new Uint8Array(n);
  let sums = cumulative(rest);
  let changed = false;
  for (const w of windows) {
    if (w > n) break;
    if (changed) sums = cumulative(rest);
    changed = false;
    const stride = strideOf(w, n);
    const means = w === 1 ? track : new Float64Array(Math.floor((n - w) / stride) + 1);
    if (w > 1)
      for (let k = 0, i = 0; k < means.length; k++, i += stride) means[k] = (sums[i + w]! - sums[i]!) / w;
    const apart = [
      ...crowded,
      ...(w < SLOW || logarithmic === true
        ? []
        : crowds(means).map(([start, end]) => [start * stride, end * stride + w] as const)),
    ];
    const tail =
      w === 1 ? single : fitTail(apartFrom(means, apart, w, stride), floor, w, { tail: single, sigma });
    const chance = Math.log10((n / w) * looks);
    const places = peaks(means, tail, (least + chance) * Math.LN10)
      .map((k) => {
        const mean = means[k]! - tail.centre;
        return { start: k * stride, mean, severity: tempered(surprise(tail, mean) / Math.LN10 - chance) };
      })
      .sort((one, other) => other.severity - one.severity);
    for (const { start, mean, severity } of places) {
      let covered = 0;
      for (let i = start; i < start + w; i++) covered += taken[i]!;
      if (2 * covered >= w) continue;
      const sign = mean > 0 ? 1 : -1;
      const band = sign > 0 ? single.bandAbove : single.bandBelow;
      const departure = (i: number): number => sign * (track[i]! - single.centre);
      let peak = start;
      for (let i = start; i < start + w; i++) if (departure(i) > departure(peak)) peak = i;
      // Samples that depart on their own tell exactly where a strong stretch ends; a weak one is all that lies beyond half its mean.
      const cut =
        w === 1
          ? Math.max(band, PART * departure(peak))
          : Math.abs(mean) > CORE * band
            ? Math.max(0.5 * Math.abs(mean), CORE * band)
            : 0.5 * Math.abs(mean);
      const reach = Math.max(4, w);
      let [from, to] = [start, start + w];
      // A stretch of samples that depart on their own, however long, is theirs.
      if (w === 1) {
        while (from > 0 && departure(from - 1) > cut) from--;
        while (to < n && departure(to) > cut) to++;
      }
      const part = extent(
        track,
        single.centre,
        sign,
        Math.max(0, from - reach),
        Math.min(n, to + reach),
        cut,
      );
      let free = true;
      for (let i = part.start; i < part.end; i++) {
        free &&= taken[i] === 0;
        taken[i] = 1;
        if (severity >= SETTLED) rest[i] = single.centre;
      }
      changed ||= severity >= SETTLED;
      const own = free
        ? undefined
        : found.find((one) => one.start <= part.end && part.start <= one.end && one.sign === sign);
      if (own !== undefined) {
        Object.assign(own, {
          start: Math.min(own.start, part.start),
          end: Math.max(own.end, part.end),
          severity: Math.max(own.severity, severity),
        });
        continue;
      }
      if (peak < part.start || peak >= part.end) peak = part.start;
      for (let i = part.start; i < part.end; i++) if (departure(i) > departure(peak)) peak = i;
      found.push({ ...part, sign, severity, peak });
    }
  }
  return found
    .map((one) => {
      const height = Math.abs(track[one.peak]! - single.centre);
      const peers = found.filter(
        (other) =>
          other !== one &&
          (edges === true ? Math.abs(other.peak - one.peak) > APART * n : other.sign === one.sign) &&
          Math.abs(track[other.peak]! - single.centre) > ALIKE * height &&
          (edges === true || other.end - other.start >= ALIKE * (one.end - one.start)),
      ).length;
      return {
        ...one,
        severity: one.severity / (1 + (edges === true ? (peers / EDGES) ** 3 : (peers / PEERS) ** 1.25)),
      };
    })
    .filter(({ severity }) => severity >= least)
    .sort((one, other) => other.severity - one.severity);
}

/** Where runs of values that are rarer than `wanted` (−ln of their share) have their peaks. */
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
  let mean = 0;
  for (const value of values) mean += value / values.length;
  let sum = 0;
  for (const value of values) sum += (value - mean) ** 2;
  return Math.sqrt(sum / values.length);
}
