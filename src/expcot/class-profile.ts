/**
 * Profile of the classes of a task: per class the mean and spread of every feature, how well each feature discriminates, and
 * a linear rule over all of them. Learned from the training split alone: examples whose ids name another split are refused. Kept as a
 * JSON file, which is restored exactly, or refused with its place.
 */

import { z } from 'zod';
import { ConfigError, DataError } from '../ground/errors.ts';
import type { Example } from '../ground/types.ts';
import { classMeans, type FittedDiscriminant, fitDiscriminant } from './discriminant.ts';
import { type FeatureName, featureNames, features } from './features.ts';

/** Standardised features are cut here, so that one wild value cannot decide. */
const MOST_STANDARD = 4;
/** The task of the user's own files. */
const OWN_FILES = 'custom';
/** Within-class correlation from which two features say the same. */
const SAME_FROM = 0.8;

export interface ClassStatistics {
  readonly name: string;
  /** Training examples. */
  readonly count: number;
  /** Mean on the comparison scale [F]; null where the feature is undefined in every example. */
  readonly means: readonly (number | null)[];
  /** Population standard deviation on the comparison scale [F]. */
  readonly spreads: readonly (number | null)[];
}

interface ProfileFeature extends FeatureName {
  /** Variance between the classes over variance within them, each over its degrees of freedom (one-way ANOVA); 0 where undefined. */
  readonly ratio: number;
  /** Pooled standard deviation within the classes on the comparison scale; 0 where the feature says nothing. */
  readonly within: number;
  /** Index of the most discriminating feature that says the same; its own where it is the one. */
  readonly family: number;
}

export interface ClassProfile {
  readonly task: string;
  /** Names of the channels: [C]. */
  readonly channels: readonly string[];
  readonly features: readonly ProfileFeature[]; // [F]
  readonly classes: readonly ClassStatistics[]; // [K], sorted by name
  readonly rule: FittedDiscriminant;
  /** Mean and standard deviation of each feature over all training examples, on the comparison scale: [F]. */
  readonly centre: readonly number[];
  readonly scale: readonly number[];
}

/** The value of a feature on the scale on which it is compared. */
export function toScale({ floor }: FeatureName, value: number): number {
  return floor === null ? value : Math.log(floor + Math.max(0, value));
}

/** The value that stands at a place of the comparison scale. */
export function fromScale({ floor }: FeatureName, place: number): number {
  return floor === null ? place : Math.exp(place) - floor;
}

/** Features of [C][N] as the rule takes them: standardised, cut at ±4, 0 where undefined: [F]. */
export function standardRow(
  profile: Pick<ClassProfile, 'features' | 'centre' | 'scale'>,
  values: Float64Array,
): Float64Array {
  return values.map((value, f) => {
    const scale = profile.scale[f]!;
    const place = toScale(profile.features[f]!, value);
    if (scale === 0 || Number.isNaN(place)) return 0;
    return Math.max(-MOST_STANDARD, Math.min(MOST_STANDARD, (place - profile.centre[f]!) / scale));
  });
}

interface Row {
  readonly id: string;
  readonly class: string;
  readonly recording: string | null;
  readonly values: Float64Array; // [F]
}

/** Checks an example and takes what is needed of it; `first` says what it must be like. */
function rowOf(example: Example, first: Example): Row {
  const { id, gold, channels, names, task, recording } = example;
  // Ids of the user's own files are their paths, which may well hold these words.
  const named = task === OWN_FILES ? undefined : id.split('/').at(-2);
  if (named === 'validation' || named === 'test') {
    throw new DataError(
      `${id}: its id names the ${named} split; classes are learned from the training split alone`,
    );
  }
  if (gold.kind !== 'classification') throw new DataError(`${id}: has no class to learn, but ${gold.kind}`);
  if (task !== first.task)
    throw new DataError(`${id}: of task ${task}, the first example is of ${first.task}`);
  if (names.join('\n') !== first.names.join('\n')) {
    throw new DataError(
      `${id}: channels ${names.join(', ')}, the first example has ${first.names.join(', ')}`,
    );
  }
  if (!/^[^<>\n\r]+$/.test(gold.class)) {
    throw new DataError(
      `${id}: class ${JSON.stringify(gold.class)} is empty or holds <, > or a line end, which would break the tags of an answer: rename it in the data`,
    );
  }
  return { id, class: gold.class, recording, values: features(channels) };
}

/**
 * Learns from training examples, at least one each of two classes, all of one task with the same channels; of each only its
 * features are kept. The result does not depend on their order. Throws a DataError for an example whose id names another split, of another task,
 * kind or channels, an id that comes twice, or fewer than two classes.
 */
export function learnClasses(examples: Iterable<Example>): ClassProfile {
  let first: Example | undefined;
  const rows: Row[] = [];
  for (const example of examples) {
    first ??= { ...example, channels: [] };
    rows.push(rowOf(example, first));
  }
  if (first === undefined) {
    throw new DataError('no examples to learn classes from: give training series of two classes or more');
  }
  rows.sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  rows.forEach(({ id }, i) => {
    if (id === rows[i - 1]?.id) throw new DataError(`${id}: this id comes twice`);
  });
  const names = [...new Set(rows.map((row) => row.class))].sort();
  if (names.length < 2) {
    throw new DataError(
      `one class only (${names[0]}) in ${rows.length} training series, nothing to tell apart: give series of another class too; if they have other classes, name the column or file that holds them`,
    );
  }
  return profileOf(first, rows, names);
}

function profileOf(first: Example, rows: readonly Row[], names: readonly string[]): ClassProfile {
  const list = featureNames(first.names);
  const labels = rows.map((row) => names.indexOf(row.class));
  const counts = names.map((_, c) => labels.filter((label) => label === c).length);
  const columns = list.map((feature, f) =>
    describe(
      rows.map((row) => toScale(feature, row.values[f]!)),
      labels,
      names.length,
    ),
  );
  const centre = columns.map((column) => column.mean);
  const scale = columns.map((column) => column.std);
  const plain = list.map((feature, f): ProfileFeature => {
    return { ...feature, ratio: columns[f]!.ratio, within: columns[f]!.within, family: f };
  });
  const standard = rows.map((row) => standardRow({ features: plain, centre, scale }, row.values));
  const means = classMeans(standard, labels, names.length);
  const families = familiesOf(standard, labels, means, plain);
  return {
    task: first.task,
    channels: [...first.names],
    features: plain.map((feature, f) => ({ ...feature, family: families[f]! })),
    classes: names.map((name, c) => ({
      name,
      count: counts[c]!,
      means: columns.map((column) => column.means[c]!),
      spreads: columns.map((column) => column.spreads[c]!),
    })),
    rule: fitDiscriminant(
      standard,
      labels,
      names.length,
      rows.map(({ recording }) => recording),
    ),
    centre,
    scale,
  };
}

interface ColumnStatistics {
  readonly mean: number;
  /** 0 where the feature is undefined or the same in all examples. */
  readonly std: number;
  readonly ratio: number;
  readonly within: number;
  readonly means: readonly (number | null)[];
  readonly spreads: readonly (number | null)[];
}

/** Statistics of one feature over the examples, undefined ones (NaN) left out. */
function describe(column: readonly number[], labels: readonly number[], classes: number): ColumnStatistics {
  const of = (c: number | null): { count: number; mean: number; squares: number } => {
    const known = column.filter((value, r) => !Number.isNaN(value) && (c === null || labels[r] === c));
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return { count: known.length, mean, squares: known.reduce((sum, value) => sum + (value - mean) ** 2, 0) };
  };
  const whole = of(null);
  const parts = Array.from({ length: classes }, (_, c) => of(c));
  const present = parts.filter(({ count }) => count > 0);
  const std = whole.count === 0 ? 0 : Math.sqrt(whole.squares / whole.count);
  const within = present.reduce((sum, { squares }) => sum + squares, 0);
  const between = Math.max(0, whole.squares - within);
  const freedom = whole.count - present.length;
  // What equal values leave is rounding.
  const constant = whole.count === 0 || std <= 1e-9 * Math.abs(whole.mean) || std === 0;
  // A feature that is constant within every class separates them; its spread is taken for a hundredth of that between them.
  const pooled = freedom < 1 ? std : Math.max(Math.sqrt(within / freedom), 0.01 * std);
  return {
    mean: whole.count === 0 ? 0 : whole.mean,
    std: constant ? 0 : std,
    ratio: constant || present.length < 2 || freedom < 1 ? 0 : between / (present.length - 1) / pooled ** 2,
    within: constant ? 0 : pooled,
    means: parts.map(({ count, mean }) => (count === 0 ? null : mean)),
    spreads: parts.map(({ count, squares }) => (count === 0 ? null : Math.sqrt(squares / count))),
  };
}

/** Returns for each feature the most discriminating one that correlates with it within the classes. */
function familiesOf(
  rows: readonly Float64Array[],
  labels: readonly number[],
  means: readonly Float64Array[],
  list: readonly ProfileFeature[],
): number[] {
  const rest = list.map((_, f) => {
    const column = Float64Array.from(rows, (row, r) => row[f]! - means[labels[r]!]![f]!);
    const length = Math.sqrt(column.reduce((sum, value) => sum + value * value, 0));
    return length === 0 ? column : column.map((value) => value / length);
  });
  const families = new Array<number>(list.length).fill(-1);
  const order = list.map((_, f) => f).sort((a, b) => list[b]!.ratio - list[a]!.ratio || a - b);
  for (const leader of order) {
    if (families[leader]! >= 0) continue;
    families[leader] = leader;
    for (const other of order) {
      if (families[other]! >= 0) continue;
      let product = 0;
      for (let r = 0; r < rows.length; r++) product += rest[leader]![r]! * rest[other]![r]!;
      if (Math.abs(product) > SAME_FROM) families[other] = leader;
    }
  }
  return families;
}

/** Index of a class. @throws ConfigError for one that the profile does not know */
export function classIndex({ classes }: ClassProfile, name: string): number {
  const index = classes.findIndex((known) => known.name === name);
  if (index < 0) {
    throw new ConfigError(
      `class ${name}: not in the profile, which knows ${classes.map((known) => known.name).join(', ')}: spell it as one of them, or learn the profile again from training series that have this class`,
    );
  }
  return index;
}

const PROFILE_FORMAT = 'timeseer-classes';
/** Raised with every change of the catalogue of features, their scales, or the rule. */
const PROFILE_VERSION = 1;

const number = z.number();
const schema = z.strictObject({
  format: z.literal(PROFILE_FORMAT),
  version: z.literal(PROFILE_VERSION),
  task: z.string(),
  channels: z.array(z.string()).min(1),
  features: z.array(
    z.strictObject({
      key: z.string(),
      ratio: number.nonnegative(),
      within: number.nonnegative(),
      family: number.int().nonnegative(),
    }),
  ),
  classes: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[^<>\n\r]+$/),
        count: number.int().positive(),
        means: z.array(number.nullable()),
        spreads: z.array(number.nullable()),
        weights: z.array(number),
        bias: number,
      }),
    )
    .min(2),
  shrinkage: number.min(0).max(1),
  heldOutAccuracy: number.min(0).max(1).nullable(),
  centre: z.array(number),
  scale: z.array(number.nonnegative()),
});

/** The profile as JSON text, exactly restored by `readProfile`. */
export function profileToJson(profile: ClassProfile): string {
  const { task, channels, features: list, classes, rule, centre, scale } = profile;
  const { shrinkage, heldOutAccuracy, weights, bias } = rule;
  const record = {
    ...{ format: PROFILE_FORMAT, version: PROFILE_VERSION, task, channels },
    features: list.map(({ key, ratio, within, family }) => ({ key, ratio, within, family })),
    classes: classes.map((statistics, c) => ({ ...statistics, weights: [...weights[c]!], bias: bias[c]! })),
    ...{ shrinkage, heldOutAccuracy, centre, scale },
  };
  return `${JSON.stringify(record)}\n`;
}

/** Reads what `profileToJson` wrote. Throws a DataError, with `file`, for text that is not such a profile of this version. */
export function readProfile(text: string, file: string): ClassProfile {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (cause) {
    throw new DataError(`not JSON: ${(cause as Error).message}`, { file, cause });
  }
  const result = schema.safeParse(content);
  if (!result.success) {
    const issue = result.error.issues[0];
    throw new DataError(
      `${issue?.path.join('.') || 'profile'}: ${issue?.message}; expected a profile of classes, format ${PROFILE_FORMAT}, version ${PROFILE_VERSION}`,
      { file },
    );
  }
  const { task, channels, features: kept, classes, shrinkage, heldOutAccuracy, centre, scale } = result.data;
  const list = featureNames(channels);
  const fits = (length: number): boolean => length === list.length;
  if (
    list.some(({ key }, f) => key !== kept[f]?.key) ||
    kept.some(({ family }) => family >= list.length) ||
    ![kept, centre, scale].every(({ length }) => fits(length)) ||
    !classes.every(({ means, spreads, weights }) =>
      [means, spreads, weights].every(({ length }) => fits(length)),
    )
  ) {
    throw new DataError(
      'features: not the list of this program for these channels; learn the classes again',
      { file },
    );
  }
  return {
    task,
    channels,
    features: list.map((feature, f) => ({ ...feature, ...kept[f]! })),
    classes: classes.map(({ name, count, means, spreads }) => ({ name, count, means, spreads })),
    rule: {
      shrinkage,
      heldOutAccuracy,
      weights: classes.map(({ weights }) => Float64Array.from(weights)),
      bias: Float64Array.from(classes, ({ bias }) => bias),
    },
    centre,
    scale,
  };
}
