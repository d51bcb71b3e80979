/**
 * The class of a series: evidence (its features beside those of the training examples of every class, and what the rule makes of
 * them), told as an expert chain of thought. Computed from values and a profile of classes; the series' own label has no way in.
 */
import { DataError } from '../ground/errors.ts';
import { type Bridged, bridge } from '../series/missing.ts';
import { type Summary, summarise } from '../series/stats.ts';
import { type ClassProfile, classIndex, fromScale, standardRow, toScale } from './class-profile.ts';
import { classProbabilities } from './discriminant.ts';
import { areAxes, features, MOST_CHANNELS, PAIR_KIND, pairsOf } from './features.ts';
import { phrasesOf, roundedNumber, type Slot, type TraceView } from './phrase.ts';
import { tellGaps } from './trace.ts';

/** Variance ratio from which a feature may be cited: far above what chance gives (about 1). */
export const CITABLE_RATIO = 5;
/** Least distance of the two classes in a cited feature, in standard deviations within the classes. */
const LEAST_DISTANCE = 0.5;
/** Least advantage of one class over the other in a cited feature, in units of a normal log-likelihood. */
const LEAST_GAIN = 0.25;
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
      const known = bridged.missing === 0 ? channel : channel.filter((value) => !Number.isNaN(value));
      return { name: profile.channels[c]!, summary: summarise(known), bridged };
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
        const [mean, rival] = [a.means[f]!, b.means[f]!];
        if (feature.ratio < CITABLE_RATIO || feature.within === 0) return [];
        if (mean === null || rival === null || Number.isNaN(value)) return [];
        const place = toScale(feature, value);
        if (Math.abs(mean - rival) < LEAST_DISTANCE * feature.within) return [];
        const reach = MOST_OUTSIDE * feature.within;
        const bounded = Math.max(
          Math.min(mean, rival) - reach,
          Math.min(Math.max(mean, rival) + reach, place),
        );
        const gain = ((bounded - rival) ** 2 - (bounded - mean) ** 2) / (2 * feature.within ** 2);
        const { key, says, family } = feature;
        const [typical, rivals] = [fromScale(feature, mean), fromScale(feature, rival)];
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

// The trace: every number is a number of the evidence, rounded; a feature is said to speak for a class only where its value is
// nearer to that class than to the rival. Traces hold no '<' or '>' that could break the tags.

/** A trace of a classification and what it concludes. */
export interface ClassTrace {
  /** The whole response: `<think>…</think><class>…</class>`. */
  readonly text: string;
  /** Text inside the think tags. */
  readonly think: string;
  readonly class: string;
  /** The class it was weighed against. */
  readonly rival: string;
  /** Features cited for the class, strongest first. */
  readonly cited: readonly Comparison[];
  /** Features that are named because they speak for the rival. */
  readonly dissent: readonly Comparison[];
}

/** Features that one trace cites for its class, and against it. */
export const MOST_CITED = 4;
export const MOST_DISSENT = 2;
/** Channels that are described one by one. */
const MOST_DESCRIBED = 4;

/** Significant digits: two values that read the same must not be said to differ by more than that. */
const DIGITS = { digits: 3 };
const say = (value: number): string => roundedNumber(value, DIGITS.digits);

/** Returns a feature of the channel that is described by its key; null where the list has none, or it is undefined. */
function featureOf({ features, name }: Pick<TraceView, 'features' | 'name'>, key: string): number | null {
  const value = features.find((feature) => feature.key === key || feature.key === `${name}.${key}`)?.value;
  return value === undefined || Number.isNaN(value) ? null : value;
}

/** Typical value of a feature in a class; null where either is not known. */
function typicalOf(profile: ClassProfile | undefined, key: string, name: Slot | undefined): number | null {
  const f = profile?.features.findIndex((feature) => feature.key === key) ?? -1;
  const mean = profile?.classes.find((learned) => learned.name === name)?.means[f] ?? null;
  return mean === null ? null : fromScale(profile!.features[f]!, mean);
}

const describes = phrasesOf(({ features, name, names }) => ({ features, name, names }));

/** Statements about the features of a series, and about classes. */
export const CLASS_PHRASES = {
  ...describes(
    null,
    {
      'strongest line': [
        'of period {n}, has {n} of the power',
        (view) => [featureOf(view, 'period'), featureOf(view, 'line')],
      ],
      'trend of ranks': ['Mann–Kendall tau is {n}', (view) => [featureOf(view, 'tau')]],
      crossings: [
        'it crosses its mean {n} times per {int} samples',
        (view) => [featureOf(view, 'crossings'), 100],
      ],
      axes: [
        'Part of the mean vector and share of the movement by axis: {pairs}',
        ({ features, names }) => {
          const of = (name: string, key: string): number | null => featureOf({ features, name }, key);
          return [names.map((name) => [name, of(name, 'tilt'), of(name, 'activity')] as const)];
        },
      ],
      correlations: [
        'Correlation between the channels: {pairs}',
        (view) => [
          pairsOf(view.names.length).map(([a, b]) => {
            const [first, second] = [view.names[a], view.names[b]];
            return [
              `${first} and ${second}`,
              featureOf(view, `${first}~${second}.${PAIR_KIND.key}`),
            ] as const;
          }),
        ],
      ],
    },
    DIGITS,
  ),
  ...phrasesOf(({ classes, features }) => ({ classes, features }))(
    null,
    {
      'class counts': [
        'closest classes are {name} ({int}) and {name} ({int})',
        ({ classes }, [one, , other]) => {
          const countOf = (named: Slot | undefined): number | null =>
            classes?.profile.classes.find(({ name }) => name === named)?.count ?? null;
          return [null, countOf(one), null, countOf(other)];
        },
      ],
      feature: [
        'the {label} is {n}, where {name} has {n} and {name} {n}',
        ({ classes, features }, [label, , name, , rival]) => {
          const feature = features.find(({ says }) => says === label);
          if (feature === undefined) return [null, null, null, null, null, null];
          const [typical, rivals] = [name, rival].map((named) =>
            typicalOf(classes?.profile, feature.key, named),
          );
          return [null, feature.value, null, typical!, null, rivals!];
        },
      ],
      'class rule': [
        'the linear rule over all {int} features gives {int} % to {name} and {int} % to',
        ({ classes, features }, [, , named]) => {
          const candidates = classes?.candidates ?? [];
          const own = candidates.find((candidate) => candidate.class === named)?.percent ?? null;
          const others = candidates.filter((candidate) => candidate.class !== named);
          return [features.length, own, null, own === null ? null : others.map(({ percent }) => percent)];
        },
      ],
    },
    DIGITS,
  ),
};
const SAYS = CLASS_PHRASES;

function observe(evidence: ClassEvidence): string {
  const { length, channels, profile } = evidence;
  const several = channels.length > 1;
  const sentences = [
    several
      ? `The series has ${channels.length} channels of ${length} samples.`
      : `The series has ${length} samples.`,
  ];
  for (const { name, summary, bridged } of channels.slice(0, MOST_DESCRIBED)) {
    const { min, max, mean, std } = summary;
    const what = several ? name : 'It';
    const moves =
      profile.channels.length > MOST_CHANNELS ? '' : shape(evidence, several ? `${name}.` : '', std);
    // A mean that is rounding beside the spread is none.
    const level = Math.abs(mean) < 1e-6 * std ? 0 : mean;
    sentences.push(
      `${what} lies between ${say(min)} and ${say(max)}, mean ${say(level)}, standard deviation ${say(std)}${moves}.`,
    );
    if (bridged.missing > 0) {
      sentences.push(
        `${tellGaps(bridged, several ? ` of ${name}` : '')}; for the analyses straight lines bridge them.`,
      );
    }
  }
  if (channels.length > MOST_DESCRIBED)
    sentences.push(`${channels.length - MOST_DESCRIBED} more channels follow.`);
  if (several && channels.length <= MOST_DESCRIBED) sentences.push(relations(evidence));
  return sentences.join(' ');
}

function shape(evidence: ClassEvidence, prefix: string, std: number): string {
  if (std === 0) return '';
  const of = (key: string): number => evidence.feature(`${prefix}${key}`);
  const line = `; its strongest spectral line, ${SAYS['strongest line'].print(of('period'), of('line'))}`;
  if (prefix !== '') return line;
  return `${line}; ${SAYS['trend of ranks'].print(of('tau'))}; ${SAYS.crossings.print(of('crossings'), 100)}`;
}

/** States how axes share the vector that they make; of other channels, which move together. */
function relations(evidence: ClassEvidence): string {
  const names = evidence.channels.map(({ name }) => name);
  const of = (key: string): number => evidence.feature(key);
  if (areAxes(names)) {
    return `${SAYS.axes.print(names.map((name) => [name, of(`${name}.tilt`), of(`${name}.activity`)]))}.`;
  }
  const pairs = pairsOf(names.length).map(([a, b]) => {
    return [`${names[a]} and ${names[b]}`, of(`${names[a]}~${names[b]}.${PAIR_KIND.key}`)] as const;
  });
  return `${SAYS.correlations.print(pairs)}.`;
}

/** States one feature beside its typical values in two classes. */
const cite = ({ says, value, one, other }: Comparison, name: string, rival: string): string =>
  SAYS.feature.print(says, value, name, one, rival, other);

function weigh(
  evidence: ClassEvidence,
  name: string,
  rival: string,
): Pick<ClassTrace, 'cited' | 'dissent'> & { text: string } {
  const comparisons = evidence.compare(name, rival);
  const cited = strongest(comparisons, 1, MOST_CITED);
  const dissent = strongest(comparisons, -1, MOST_DISSENT);
  const [count, rivals] = [name, rival].map(
    (label) => evidence.profile.classes[classIndex(evidence.profile, label)]!.count,
  );
  const sentences = [
    `The ${SAYS['class counts'].print(name, count!, rival, rivals!)}, training examples in brackets; values are typical ones.`,
  ];
  if (cited.length === 0) sentences.push(`No feature by itself speaks for ${name}.`);
  else {
    sentences.push(`For ${name}: ${cited.map((feature) => cite(feature, name, rival)).join('; ')}.`);
  }
  if (dissent.length > 0) {
    sentences.push(
      `Against it, nearer to ${rival}: ${dissent.map((feature) => cite(feature, name, rival)).join('; ')}.`,
    );
  }
  return { text: sentences.join(' '), cited, dissent };
}

function compose(
  evidence: ClassEvidence,
  name: string,
  rival: string,
  verdict: string,
  conclusion: string,
): ClassTrace {
  const { text, cited, dissent } = weigh(evidence, name, rival);
  const think = `Observation: ${observe(evidence)}\nReasoning & Validation: ${text} ${verdict}\nConclusion: ${conclusion}`;
  if (/[<>]/.test(think)) {
    const odd = evidence.profile.channels.filter((channel) => /[<>]/.test(channel));
    throw new DataError(
      `channel ${odd.map((channel) => JSON.stringify(channel)).join(', ')}: < or > would break the tags of a trace; rename it in the data, and learn the classes again`,
    );
  }
  return { text: `<think>${think}</think><class>${name}</class>`, think, class: name, rival, cited, dissent };
}

function probabilities(evidence: ClassEvidence, name: string, rival: string): string {
  const [percent, rivals] = [name, rival].map(
    (label) => evidence.candidates.find((candidate) => candidate.class === label)!.percent,
  );
  return `${SAYS['class rule'].print(evidence.values.length, percent!, name, rivals!)} ${rival}`;
}

/** The trace of the evidence alone: concludes the class that the rule finds most probable. */
export function blindClass(evidence: ClassEvidence): ClassTrace {
  const [best, next] = evidence.candidates as [
    (typeof evidence.candidates)[0],
    (typeof evidence.candidates)[0],
  ];
  const verdict = `Taken together, ${probabilities(evidence, best.class, next.class)}.`;
  return compose(evidence, best.class, next.class, verdict, `the class is ${best.class}.`);
}

/**
 * The trace that teaches (training split only): concludes the gold class, cites the features that support it against the most probable
 * other class, names those that do not, and says where the rule disagrees.
 * @throws ConfigError for a class that the profile does not know
 */
export function teacherClass(evidence: ClassEvidence, gold: string): ClassTrace {
  classIndex(evidence.profile, gold);
  const rival = evidence.candidates.find((candidate) => candidate.class !== gold)!.class;
  const agrees = evidence.candidates[0]!.class === gold;
  const verdict = agrees
    ? `Taken together, ${probabilities(evidence, gold, rival)}, in agreement.`
    : `Taken together, ${probabilities(evidence, gold, rival)}: the evidence is closer to ${rival}, but this one is an unusual example of ${gold}.`;
  return compose(evidence, gold, rival, verdict, `the class is ${gold}.`);
}
