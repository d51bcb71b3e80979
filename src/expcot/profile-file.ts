/** A profile of classes as a JSON file: restored exactly, or refused with its place. */
import { z } from 'zod';
import { DataError } from '../errors.ts';
import { featureNames } from './features.ts';
import type { ClassProfile } from './profile-of-classes.ts';

export const PROFILE_FORMAT = 'timeseer-classes';
/** Raised with every change of the catalogue of features, their scales, or the rule. */
export const PROFILE_VERSION = 1;

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
  const record: z.infer<typeof schema> = {
    format: PROFILE_FORMAT,
    version: PROFILE_VERSION,
    task,
    channels: [...channels],
    features: list.map(({ key, ratio, within, family }) => ({ key, ratio, within, family })),
    classes: classes.map(({ name, count, means, spreads }, c) => ({
      name,
      count,
      means: [...means],
      spreads: [...spreads],
      weights: [...rule.weights[c]!],
      bias: rule.bias[c]!,
    })),
    shrinkage: rule.shrinkage,
    heldOutAccuracy: rule.heldOutAccuracy,
    centre: [...centre],
    scale: [...scale],
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
