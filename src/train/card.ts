/** `timeseer.json` beside a policy's weights: how it was taught to look and to answer. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { checkFiles } from '../manifest.ts';
import { ANOMALY_CLASSES } from '../types.ts';

export const CARD_FILE = 'timeseer.json';

const KNOWN: ReadonlySet<string> = new Set(ANOMALY_CLASSES);

/** How a series is written as numbers. */
const numbersSchema = z.strictObject({
  /** Significant digits. */
  digits: z.number().int().min(1).max(17),
  /** Most values per channel; longer series are reduced to the means of as many blocks. */
  points: z.number().int().min(2),
});
export type NumbersFormat = z.infer<typeof numbersSchema>;

const cardSchema = z
  .strictObject({
    version: z.literal(1),
    /** `nano`: short traces for small policies; `full`: the three-part expert trace. */
    style: z.enum(['nano', 'full']),
    /** Figure preset. */
    figure: z.string().min(1),
    /** Points per series in training; other lengths are resampled to it. Null: any length is drawn as it is. */
    length: z.number().int().min(2).nullable(),
    /** What it answers. */
    kind: z.enum(['classification', 'anomaly', 'variates']).default('anomaly'),
    /** Name of the task that it was trained on; null: none in particular. */
    task: z.string().min(1).nullable().default(null),
    /** Classes of its answers in the order of its prompts; none of variates. */
    classes: z.array(z.string().min(1)),
    /** Channels of the series that it was taught; null: any number. */
    channels: z.number().int().positive().nullable().default(null),
    /** How it reads series as numbers; null: it is shown pictures. */
    numbers: numbersSchema.nullable().default(null),
    /** Last stage that the policy went through. */
    stage: z.enum(['initial', 'sft', 'rl']),
  })
  .readonly()
  .refine(({ kind, classes }) => kind === 'variates' || classes.length > 0, { path: ['classes'] })
  .refine(({ kind, classes }) => kind !== 'anomaly' || classes.every((name) => KNOWN.has(name)), {
    path: ['classes'],
  });

export type PolicyCard = z.infer<typeof cardSchema>;

/** A checkpoint from elsewhere has no card: it is asked in the full style. */
export const FOREIGN_CARD: PolicyCard = {
  version: 1,
  style: 'full',
  figure: 'anomllm',
  length: null,
  kind: 'anomaly',
  task: null,
  channels: null,
  numbers: null,
  classes: [...ANOMALY_CLASSES],
  stage: 'initial',
};

/** Whether a policy was taught here: a checkpoint from elsewhere has no card. */
export function hasCard(directory: string): boolean {
  return existsSync(join(directory, CARD_FILE));
}

export function writeCard(directory: string, card: PolicyCard): void {
  writeFileAtomic(join(directory, CARD_FILE), `${JSON.stringify(card, null, 2)}\n`);
}

/** @throws CheckpointError when the card is there but not readable, or is not what was saved with the policy. */
export function readCard(directory: string): PolicyCard {
  const file = join(directory, CARD_FILE);
  checkFiles(directory, (name) => name === CARD_FILE);
  if (!hasCard(directory)) return FOREIGN_CARD;
  try {
    return cardSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (cause) {
    throw new CheckpointError(
      `${file}: not a policy card of this version; remove it to use the policy as a foreign checkpoint, or train again`,
      { cause },
    );
  }
}
