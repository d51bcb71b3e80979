/**
 * Evidence for the class of a series: its features beside those of the training examples of every class, and what the rule makes of
 * them. Computed from values and a profile of classes; the series' own label has no way in.
 */
import { DataError } from '../errors.ts';
import { type Summary, summarise } from '../series/stats.ts';
import { classProbabilities } from './discriminant.ts';
import { features } from './features.ts';
import { type Bridged, bridge } from './gaps.ts';
import { type ClassProfile, classIndex, fromScale, standardRow, toScale } from './profile-of-classes.ts';

/** Variance ratio from which a feature may be cited: far above what chance gives (about 1). */
export const CITABLE_RATIO = 5;
/** Least distance of the two classes in a cited feature, in standard deviations within the classes. */
export const LEAST_DISTANCE = 0.5;
/** Least advantage of one class over the other in a cited feature, in units of a normal log-likelihood. */
export const LEAST_GAIN = 0.25;
/** A value outside of the two classes counts as if it were this far outside, in standard deviations. */
const MOST_OUTSIDE = 1;

/** A feature of the series between two classes. */
export interface Comparison {
  readonly key: string;
  readonly says: string;
  readonly value: number;
  /** Typical value of the one class and of the other: the mean of the training examples on the comparison scale. */
  readonly one: number;
  readonly other: number;
  /**
   * Log-likelihood of the one class less that of the other, were both normal with the same spread: positive where the value is
   * nearer to the one. Values outside of the two are drawn in, so that a strange value is not a strong argument.
   */
  readonly gain: number;
  /** Index of the feature that says the same best. */
  readonly family: number;
}

export interface Candidate {
  readonly class: string;
  /** Training examples that it was learned from. */
  readonly count: number;
  readonly probability: number;
  /** The probability in whole percent. */
  readonly percent: number;
}

export class ClassEvidence {
  readonly profile: ClassProfile;
  readonly length: number;
  readonly channels: readonly {
    readonly name: string;
    readonly summary: Summary;
    readonly bridged: Bridged;
  }[];
  /** All features, by the profile's list: [F]; NaN where undefined. */
  readonly values: Float64Array;
  /** Most probable first; ties in the profile's order. */
  readonly candidates: readonly Candidate[]; // [K]

  constructor(profile: ClassProfile, channels: readonly Float64Array[]) {
    if (channels.length !== profile.channels.length) {
      throw new DataError(
        `the series has ${channels.length} channels, the profile of ${profile.task} has ${profile.channels.length}: ${profile.channels.join(', ')}`,
      );
    }
    this.profile = profile;
    this.values = features(channels);
    this.length = channels[0]!.length;
    this.channels = channels.map((channel, c) => {
      const bridged = bridge(channel);
      return { name: profile.channels[c]!, summary: summarise(bridged.values), bridged };
    });
    const probabilities = classProbabilities(profile.rule, standardRow(profile, this.values));
    this.candidates = profile.classes
      .map(({ name, count }, c) => {
        const probability = probabilities[c]!;
        return { class: name, count, probability, percent: Math.round(100 * probability) };
      })
      .sort((a, b) => b.probability - a.probability);
  }

  /** A feature's value by its key; NaN where it is undefined. Throws a RangeError for one that is not in the list. */
  feature(key: string): number {
    const index = this.profile.features.findIndex((feature) => feature.key === key);
    if (index < 0) throw new RangeError(`no feature ${key}`);
    return this.values[index]!;
  }

  /** Discriminating features by falling gain of `one` over `other`. @throws ConfigError for an unknown class */
  compare(one: string, other: string): Comparison[] {
    const { profile } = this;
    const [a, b] = [profile.classes[classIndex(profile, one)]!, profile.classes[classIndex(profile, other)]!];
    return profile.features
      .flatMap((feature, f): Comparison[] => {
        const value = this.values[f]!;
        const [own, rival] = [a.means[f]!, b.means[f]!];
        if (feature.ratio < CITABLE_RATIO || feature.within === 0) return [];
        if (own === null || rival === null || Number.isNaN(value)) return [];
        const place = toScale(feature, value);
        if (Math.abs(own - rival) < LEAST_DISTANCE * feature.within) return [];
        const reach = MOST_OUTSIDE * feature.within;
        const bounded = Math.max(Math.min(own, rival) - reach, Math.min(Math.max(own, rival) + reach, place));
        const gain = ((bounded - rival) ** 2 - (bounded - own) ** 2) / (2 * feature.within ** 2);
        const { key, says, family } = feature;
        const [typical, rivals] = [fromScale(feature, own), fromScale(feature, rival)];
        return [{ key, says, value, one: typical, other: rivals, gain, family }];
      })
      .sort((x, y) => y.gain - x.gain);
  }

  /** Everything, for records and reports. */
  toJSON(): Record<string, unknown> {
    const { profile, length, channels, values, candidates } = this;
    return {
      task: profile.task,
      length,
      channels: channels.map(({ name, summary, bridged: { missing, gaps, longest } }) => {
        return { name, summary, missing: { points: missing, gaps, longest } };
      }),
      features: profile.features.map(({ key, says, ratio }, f) => ({ key, says, ratio, value: values[f]! })),
      heldOutAccuracy: profile.rule.heldOutAccuracy,
      candidates,
    };
  }
}

/**
 * The `most` strongest comparisons with a gain of at least LEAST_GAIN, one of each family; `sign` −1 takes those for the other
 * class. Sorted by falling strength.
 */
export function strongest(comparisons: readonly Comparison[], sign: 1 | -1, most: number): Comparison[] {
  const families = new Set<number>();
  return [...comparisons]
    .sort((a, b) => sign * (b.gain - a.gain))
    .filter(({ gain, family }) => {
      if (sign * gain < LEAST_GAIN || families.has(family)) return false;
      families.add(family);
      return true;
    })
    .slice(0, most);
}
