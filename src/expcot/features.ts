/**
 * Interpretable features of a series of one or several channels: the numbers by which a trace tells classes apart. Computed
 * from values alone, the same list for every series with as many channels.
 */
import { DataError } from '../ground/errors.ts';
import { bridge } from '../series/missing.ts';
import { moments } from '../series/stats.ts';
import {
  AXIS_KINDS,
  areAxes,
  CHANNEL_KINDS,
  channelFeatures,
  type FeatureKind,
  MAGNITUDE,
  MAGNITUDE_OF_ANY,
  PAIR_KIND,
  SHARE_KINDS,
} from './channel-features.ts';

/** One feature of the list: a kind, and the channels it is taken of. */
export interface FeatureName {
  /** `kind` for one channel, `channel.kind` for several, `a~b.correlation` for a pair. */
  readonly key: string;
  /** What it measures, with its channel: fits into "The … is 0.41". */
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
  const own = filled.map(({ values, missing }) => channelFeatures(values, missing / values.length));
  if (own.length === 1) return Float64Array.from(own[0]!);
  if (own.length > MOST_CHANNELS) return overChannels(own);
  const values = filled.map((one) => one.values);
  const parts = values.map((channel) => moments(channel));
  const length = Math.hypot(...parts.map(({ mean }) => mean));
  const power = parts.reduce((sum, { std }) => sum + std * std, 0);
  const out = own.flatMap((list, c) => [
    ...list,
    length === 0 ? 0 : parts[c]!.mean / length,
    power === 0 ? 0 : parts[c]!.std ** 2 / power,
  ]);
  if (hasMagnitude(values.length)) {
    const missing = filled.reduce((sum, one) => sum + one.missing, 0) / (values.length * values[0]!.length);
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

/** All pairs a < b of 0 … count − 1. */
export function pairsOf(count: number): [number, number][] {
  const pairs: [number, number][] = [];
  for (let a = 0; a < count; a++) for (let b = a + 1; b < count; b++) pairs.push([a, b]);
  return pairs;
}

function overChannels(own: readonly (readonly number[])[]): Float64Array {
  return Float64Array.from(
    CHANNEL_KINDS.flatMap((_, f) => {
      const known = Float64Array.from(own.flatMap((list) => (Number.isNaN(list[f]!) ? [] : [list[f]!])));
      if (known.length === 0) return [Number.NaN, Number.NaN];
      const { mean, std } = moments(known);
      return [mean, std];
    }),
  );
}
