/**
 * Interpretable features of a series of one or several channels: the numbers by which a trace tells classes apart. Computed
 * from values alone, the same list for every series with as many channels.
 */
import { DataError } from '../ground/errors.ts';
import { bridge } from '../series/missing.ts';
import { spectrum } from '../series/spectrum.ts';
import { laggedProduct, moments, quantileInPlace, type Summary, summarise } from '../series/stats.ts';
import { mannKendall, theilSen } from '../series/trend.ts';

/** Entry of the catalogue: what a feature measures, in words that fit into "The … is 0.41", and the scale for comparing its values. */
interface FeatureKind {
  /** Unique in the catalogue, stable over versions of a profile. */
  readonly key: string;
  /** Noun phrase, singular, without article; `of x` follows where the series has several channels. */
  readonly name: string;
  /** Null: values are compared as they are. Otherwise as ln(floor + value), for values ≥ 0 that span magnitudes. */
  readonly floor: number | null;
}

/** Equal stretches of a series whose level and spread are features of their own. */
const STRETCHES = 8;
/** Edges of the frequency bands, in cycles per sample: octaves down from the highest frequency, and the rest. */
const BAND_EDGES = [0, 1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2] as const;

const kind = (key: string, name: string, floor: number | null = null): FeatureKind => ({ key, name, floor });

export const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'last'];

const bandName = (band: number): string => {
  const edge = (b: number): string => String(1 / BAND_EDGES[b]!);
  return band === 0
    ? `share of power at periods above ${edge(1)} samples`
    : `share of power at periods of ${edge(band + 1)} to ${edge(band)} samples`;
};

/** Features of one channel, in the order in which they are computed. "Standard deviations" are those of the channel. */
export const CHANNEL_KINDS: readonly FeatureKind[] = [
  kind('level', 'mean'),
  kind('spread', 'standard deviation', 1e-6),
  kind('range', 'distance between the 10 % and 90 % quantiles', 1e-6),
  kind('skew', 'skewness'),
  kind('tails', 'kurtosis', 0.1),
  kind('top', 'height of the maximum above the median in standard deviations', 0.1),
  kind('bottom', 'depth of the minimum below the median in standard deviations', 0.1),
  kind('floor', 'share of samples within a twentieth of the range above the minimum', 0.01),
  kind('ceiling', 'share of samples within a twentieth of the range below the maximum', 0.01),
  kind('duty', 'share of samples above the middle of the range', 0.01),
  kind('plateaus', 'share of samples equal to the one before', 0.01),
  kind('zeros', 'share of samples that are exactly zero', 0.01),
  kind(
    'quiet',
    'longest stretch that moves by less than a twentieth of the range, as a share of the series',
    0.01,
  ),
  kind('tau', 'Mann–Kendall tau of the trend'),
  kind('rise', 'rise of the Theil–Sen line over the series in standard deviations'),
  kind('roughness', 'standard deviation of the differences between neighbours in standard deviations', 0.001),
  kind('jump', 'largest difference between neighbours in standard deviations', 0.01),
  kind('jumps', 'number of jumps by more than one standard deviation per 100 samples', 0.1),
  kind('asymmetry', 'skewness of the differences between neighbours'),
  kind('crossings', 'number of crossings of the mean per 100 samples', 0.1),
  kind('turns', 'number of turning points per 100 samples', 1),
  kind('period', 'dominant period in samples', 1),
  kind('line', 'share of power in the strongest spectral line', 0.001),
  kind('repeat', 'autocorrelation at the dominant period'),
  kind('memory', 'lag at which the autocorrelation falls below 0.37', 1),
  kind('neighbours', 'autocorrelation of neighbouring samples'),
  kind('centroid', 'mean frequency of the power in cycles per 100 samples', 0.01),
  kind('flatness', 'spectral entropy relative to that of white noise'),
  ...BAND_EDGES.slice(1).map((_, band) => kind(`band${band}`, bandName(band), 1e-4)),
  kind('pulses', 'number of pulses above one standard deviation per 1000 samples', 1),
  kind('pulseHeight', 'mean height of the pulses above one standard deviation', 0.1),
  kind('pulseWidth', 'mean width of the pulses above one standard deviation in samples', 1),
  kind('pulseRhythm', 'variation of the spacing between pulses relative to its mean', 0.01),
  kind('burst', 'variation of the energy between sixteenths of the series relative to its mean', 0.01),
  kind('peakAt', 'position of the largest deflection from the median as a share of the series'),
  kind('attack', 'number of samples from half height up to the largest deflection', 1),
  kind('decay', 'number of samples from the largest deflection down to half height', 1),
  kind('centre', 'position of the centre of energy as a share of the series'),
  kind('duration', 'spread of the energy in time as a share of the series', 0.001),
  ...ORDINALS.map((which, s) => kind(`level${s}`, `mean of the ${which} eighth in standard deviations`)),
  ...ORDINALS.map((which, s) =>
    kind(`spread${s}`, `standard deviation of the ${which} eighth relative to the whole`, 0.01),
  ),
  kind('missing', 'share of missing samples', 0.01),
];

/** Features of one channel among several, of whatever units. */
export const SHARE_KINDS: readonly FeatureKind[] = [
  kind('tilt', 'mean relative to the Euclidean length of all means'),
  kind('activity', 'share of the summed variance', 0.001),
];

/** Features of axes: channels of one unit that make a vector in space. */
const AXIS_KINDS: readonly FeatureKind[] = [
  kind('tilt', 'part of the mean vector along the axis'),
  kind('activity', 'share of the movement', 0.001),
];

/** Name of the derived channel: Euclidean length of the vector of 2 … 4 channels. */
export const MAGNITUDE = 'magnitude';
/** Name of the magnitude where the channels are no axes. */
const MAGNITUDE_OF_ANY = 'root of the summed squares of all channels';

/** True where channels are axes of one vector by their names: `x y z`, `acc_x acc_y`, `gyroX gyroY gyroZ`; one prefix, different letters. */
export function areAxes(names: readonly string[]): boolean {
  const parts = names.map((name) => /^(?:(.*[^a-z])?([xyz])|(.*[a-z0-9])?([XYZ]))$/.exec(name));
  const prefixes = new Set(parts.map((part) => part?.[1] ?? part?.[3] ?? ''));
  const letters = new Set(parts.map((part) => (part?.[2] ?? part?.[4])?.toLowerCase()));
  return names.length > 1 && !parts.includes(null) && prefixes.size === 1 && letters.size === names.length;
}
/** Feature of two channels. */
export const PAIR_KIND: FeatureKind = kind('correlation', 'correlation');

/** Blocks whose means stand for a long series in the Theil–Sen line, whose cost is quadratic. */
const LINE_BLOCKS = 120;
/** Lags up to which the autocorrelation is followed down. */
const LONGEST_MEMORY = 500;

/** Features of one channel [N] of finite values, in the order of CHANNEL_KINDS; `missing` is the share that was bridged. */
function channelFeatures(values: Float64Array, missing: number): number[] {
  const summary = summarise(values);
  const { mean, std, median } = summary;
  // Equal values have no shape: what is measured in standard deviations is 0.
  const unit = std === 0 ? 1 : std;
  const standard = values.map((value) => (value - mean) / unit);
  return [
    ...distribution(values, summary, unit),
    ...trend(standard),
    ...steps(standard),
    ...frequencies(standard),
    ...pulses(standard),
    ...energy(standard, (median - mean) / unit),
    ...stretches(standard),
    missing,
  ];
}

function distribution(values: Float64Array, summary: Summary, unit: number): number[] {
  const { mean, std, min, max, median, skew, excessKurtosis } = summary;
  const n = values.length;
  const scratch = values.slice();
  const range = quantileInPlace(scratch, n, 0.9) - quantileInPlace(scratch, n, 0.1);
  const near = (max - min) / 20;
  const share = (is: (value: number, i: number) => boolean): number => {
    let count = 0;
    for (let i = 0; i < n; i++) if (is(values[i]!, i)) count++;
    return count / n;
  };
  const flat = min === max;
  return [
    mean,
    std,
    range,
    flat ? 0 : skew,
    flat ? 0 : excessKurtosis + 3,
    (max - median) / unit,
    (median - min) / unit,
    share((value) => value <= min + near),
    share((value) => value >= max - near),
    share((value) => value > (min + max) / 2),
    share((value, i) => i > 0 && value === values[i - 1]),
    share((value) => value === 0),
    longestQuiet(values, near) / n,
  ];
}

/** Samples of the longest stretch whose values span less than `width`, grown greedily from left to right. */
function longestQuiet(values: Float64Array, width: number): number {
  let longest = 0;
  let start = 0;
  let low = values[0]!;
  let high = low;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    low = Math.min(low, value);
    high = Math.max(high, value);
    if (high - low > width) {
      start = i;
      low = value;
      high = value;
    }
    longest = Math.max(longest, i + 1 - start);
  }
  return longest;
}

function trend(standard: Float64Array): number[] {
  const n = standard.length;
  const blocks = Math.min(n, LINE_BLOCKS);
  const means = Float64Array.from({ length: blocks }, (_, b) => {
    return moments(standard, Math.floor((b * n) / blocks), Math.floor(((b + 1) * n) / blocks)).mean;
  });
  return [mannKendall(standard)?.tau ?? 0, (theilSen(means)?.slope ?? 0) * (blocks - 1)];
}

function steps(standard: Float64Array): number[] {
  const n = standard.length;
  let largest = 0;
  let squares = 0;
  let cubes = 0;
  let jumps = 0;
  let crossings = 0;
  let turns = 0;
  let before = 0;
  for (let i = 1; i < n; i++) {
    const step = standard[i]! - standard[i - 1]!;
    largest = Math.max(largest, Math.abs(step));
    squares += step * step;
    cubes += step * step * step;
    if (Math.abs(step) > 1) jumps++;
    if (standard[i]! >= 0 !== standard[i - 1]! >= 0) crossings++;
    if (step !== 0) {
      if (step * before < 0) turns++;
      before = step;
    }
  }
  const count = Math.max(1, n - 1);
  const rough = Math.sqrt(squares / count);
  const per = 100 / n;
  return [
    rough,
    largest,
    jumps * per,
    squares === 0 ? 0 : cubes / count / rough ** 3,
    crossings * per,
    turns * per,
  ];
}

function frequencies(standard: Float64Array): number[] {
  const n = standard.length;
  const bands = BAND_EDGES.length - 1;
  const { re, im } = spectrum(standard);
  const last = re.length - 1;
  const power = re.map((value, k) => value * value + im[k]! * im[k]!);
  power[0] = 0;
  let total = 0;
  let weighted = 0;
  let peak = 1;
  const inBand = new Float64Array(bands);
  for (let k = 1; k <= last; k++) {
    const binPower = power[k]!;
    total += binPower;
    weighted += binPower * k;
    if (binPower > power[peak]!) peak = k;
    const frequency = k / n;
    let band = bands - 1;
    while (band > 0 && frequency < BAND_EDGES[band]!) band--;
    inBand[band]! += binPower;
  }
  const none = [n, 0, 0, 0, 0, 0, 0, ...inBand];
  // A constant series transforms to rounding errors.
  if (last < 1 || total <= 1e-20 * n * n) return none;
  let entropy = 0;
  for (let k = 1; k <= last; k++) {
    const p = power[k]! / total;
    if (p > 0) entropy -= p * Math.log(p);
  }
  let line = 0;
  for (let k = Math.max(1, peak - 1); k <= Math.min(last, peak + 1); k++) line += power[k]!;
  const period = n / peak;
  const correlation = (lag: number): number => laggedProduct(standard, lag) / n;
  let memory = 1;
  const furthest = Math.min(n - 1, n >> 2, LONGEST_MEMORY);
  while (memory < furthest && correlation(memory) > Math.exp(-1)) memory++;
  return [
    period,
    line / total,
    correlation(Math.round(period)),
    memory,
    correlation(1),
    (100 * weighted) / total / n,
    last > 1 ? entropy / Math.log(last) : 0,
    ...inBand.map((band) => band / total),
  ];
}

/** Excursions above one standard deviation; they end where the mean is reached, so that ripples do not count twice. */
function pulses(standard: Float64Array): number[] {
  const n = standard.length;
  const places: number[] = [];
  let heights = 0;
  let widths = 0;
  let at = -1;
  for (let i = 0; i < n; i++) {
    const value = standard[i]!;
    if (value > 1) {
      widths++;
      if (at < 0 || value > standard[at]!) at = i;
    }
    if (at >= 0 && (value <= 0 || i === n - 1)) {
      places.push(at);
      heights += standard[at]!;
      at = -1;
    }
  }
  const count = places.length;
  const gaps = Float64Array.from(places.slice(1), (place, i) => place - places[i]!);
  const spacing = gaps.length < 2 ? null : moments(gaps);
  return [
    (1000 * count) / n,
    count === 0 ? Number.NaN : heights / count,
    count === 0 ? Number.NaN : widths / count,
    spacing === null ? Number.NaN : spacing.std / spacing.mean,
  ];
}

/** Location of the energy: sixteenths, the largest deflection from `centre` and its flanks, first and second moment. */
function energy(standard: Float64Array, centre: number): number[] {
  const n = standard.length;
  const parts = Math.min(16, n);
  const sums = new Float64Array(parts);
  let at = 0;
  let total = 0;
  let first = 0;
  for (let i = 0; i < n; i++) {
    const square = standard[i]! ** 2;
    sums[Math.floor((i * parts) / n)]! += square;
    total += square;
    first += square * i;
    if (Math.abs(standard[i]! - centre) > Math.abs(standard[at]! - centre)) at = i;
  }
  const { mean, std } = moments(sums);
  const half = Math.abs(standard[at]! - centre) / 2;
  const sign = Math.sign(standard[at]! - centre);
  let left = at;
  while (left > 0 && (standard[left]! - centre) * sign > half) left--;
  let right = at;
  while (right < n - 1 && (standard[right]! - centre) * sign > half) right++;
  if (total === 0) return [0, 0.5, 0, 0, 0.5, 0];
  const middle = first / total;
  let second = 0;
  for (let i = 0; i < n; i++) second += standard[i]! ** 2 * (i - middle) ** 2;
  return [
    mean === 0 ? 0 : std / mean,
    at / n,
    at - left,
    right - at,
    middle / n,
    Math.sqrt(second / total) / n,
  ];
}

/** 0 for what rounding leaves of it, in standard deviations. */
function unlessRounding(value: number): number {
  return Math.abs(value) < 1e-9 ? 0 : value;
}

function stretches(standard: Float64Array): number[] {
  const n = standard.length;
  const parts = Array.from({ length: STRETCHES }, (_, s) => {
    const start = Math.min(n - 1, Math.floor((s * n) / STRETCHES));
    return moments(standard, start, Math.max(start + 1, Math.floor(((s + 1) * n) / STRETCHES)));
  });
  return [...parts.map(({ mean }) => mean), ...parts.map(({ std }) => std)].map(unlessRounding);
}

/** Feature of the list: a kind, and the channels it is taken of. */
export interface FeatureName {
  /** `kind` for one channel, `channel.kind` for several, `a~b.correlation` for a pair. */
  readonly key: string;
  /** Noun phrase for what it measures, with its channel: fits into "The … is 0.41". */
  readonly says: string;
  readonly floor: number | null;
}

/** More channels than these are described by means and spreads over all of them. */
export const MOST_CHANNELS = 6;
/** The features of series whose channels have these names, in order. Throws a DataError for no or repeated names. */
export function featureNames(names: readonly string[]): FeatureName[] {
  if (names.length === 0 || new Set(names).size !== names.length) {
    throw new DataError(`channel names: got ${names.join(', ') || 'none'}, expected different names`);
  }
  const of = ({ key, name, floor }: FeatureKind, channel: string, said = channel): FeatureName => ({
    key: `${channel}.${key}`,
    says: `${name} of ${said}`,
    floor,
  });
  if (names.length === 1) return CHANNEL_KINDS.map(({ key, name, floor }) => ({ key, says: name, floor }));
  if (names.length > MOST_CHANNELS) {
    return CHANNEL_KINDS.flatMap((kind): FeatureName[] => [
      { key: `all.${kind.key}`, says: `${kind.name}, averaged over the channels,`, floor: kind.floor },
      { key: `spread.${kind.key}`, says: `spread over the channels of the ${kind.name}`, floor: 1e-6 },
    ]);
  }
  const axes = areAxes(names);
  const kinds = [...CHANNEL_KINDS, ...(axes ? AXIS_KINDS : SHARE_KINDS)];
  const single = names.flatMap((name) => kinds.map((kind) => of(kind, name)));
  const said = `the ${axes ? MAGNITUDE : MAGNITUDE_OF_ANY}`;
  const whole = hasMagnitude(names.length)
    ? CHANNEL_KINDS.map((kind) => of(kind, `the ${MAGNITUDE}`, said))
    : [];
  const pairs = pairsOf(names.length).map(([a, b]) => ({
    key: `${names[a]}~${names[b]}.${PAIR_KIND.key}`,
    says: `${PAIR_KIND.name} between ${names[a]} and ${names[b]}`,
    floor: PAIR_KIND.floor,
  }));
  return [...single, ...whole, ...pairs];
}

/**
 * Features [F] of the channels [C][N], in the order of `featureNames`; NaN where one is undefined (the rhythm of a single pulse).
 * Missing points (NaN) are bridged by straight lines first. Throws a DataError for no samples, unequal lengths, infinities, or
 * a channel without any value.
 */
export function features(channels: readonly Float64Array[]): Float64Array {
  const filled = channels.map((channel) => {
    if (channel.length !== channels[0]!.length) {
      throw new DataError(
        `channels of one series must be equally long, got ${channels[0]!.length} and ${channel.length}`,
      );
    }
    return bridge(channel);
  });
  if (filled.length === 0) throw new DataError('a series without channels has no features');
  const perChannel = filled.map(({ values, missing }) => channelFeatures(values, missing / values.length));
  if (perChannel.length === 1) return Float64Array.from(perChannel[0]!);
  if (perChannel.length > MOST_CHANNELS) return overChannels(perChannel);
  const values = filled.map((channel) => channel.values);
  const parts = values.map((channel) => moments(channel));
  const length = Math.hypot(...parts.map(({ mean }) => mean));
  const power = parts.reduce((sum, { std }) => sum + std * std, 0);
  const out = perChannel.flatMap((list, c) => [
    ...list,
    length === 0 ? 0 : parts[c]!.mean / length,
    power === 0 ? 0 : parts[c]!.std ** 2 / power,
  ]);
  if (hasMagnitude(values.length)) {
    const missing =
      filled.reduce((sum, channel) => sum + channel.missing, 0) / (values.length * values[0]!.length);
    const whole = values[0]!.map((_, i) => Math.hypot(...values.map((channel) => channel[i]!)));
    out.push(...channelFeatures(whole, missing));
  }
  for (const [a, b] of pairsOf(values.length)) {
    const [p, q] = [parts[a]!, parts[b]!];
    let cross = 0;
    for (let i = 0; i < values[a]!.length; i++)
      cross += (values[a]![i]! - p.mean) * (values[b]![i]! - q.mean);
    const scale = p.std * q.std * values[a]!.length;
    out.push(scale === 0 ? 0 : cross / scale);
  }
  return Float64Array.from(out);
}

const hasMagnitude = (channels: number): boolean => channels >= 2 && channels <= 4;

/** Lists all pairs a < b of 0 … count − 1. */
export function pairsOf(count: number): [number, number][] {
  const pairs: [number, number][] = [];
  for (let a = 0; a < count; a++) for (let b = a + 1; b < count; b++) pairs.push([a, b]);
  return pairs;
}

function overChannels(perChannel: readonly (readonly number[])[]): Float64Array {
  return Float64Array.from(
    CHANNEL_KINDS.flatMap((_, f) => {
      const known = Float64Array.from(
        perChannel.flatMap((list) => (Number.isNaN(list[f]!) ? [] : [list[f]!])),
      );
      if (known.length === 0) return [Number.NaN, Number.NaN];
      const { mean, std } = moments(known);
      return [mean, std];
    }),
  );
}
