/** `timeseer.json` beside a policy's weights: how it was taught to look and to answer. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { ANOMALY_CLASSES } from '../types.ts';

export const CARD_FILE = 'timeseer.json';

const cardSchema = z
  .strictObject({
    version: z.literal(1),
    /** `nano`: short traces for small policies; `full`: the three-part expert trace. */
    style: z.enum(['nano', 'full']),
    /** Figure preset. */
    figure: z.string().min(1),
    /** Points per series in training; other lengths are resampled to it. Null: any length is drawn as it is. */
    length: z.number().int().min(2).nullable(),
    classes: z.array(z.enum(ANOMALY_CLASSES)).min(1),
    /** Last stage that the policy went through. */
    stage: z.enum(['initial', 'sft', 'rl']),
  })
  .readonly();

export type PolicyCard = z.infer<typeof cardSchema>;

/** A checkpoint from elsewhere has no card: it is asked in the full style. */
export const FOREIGN_CARD: PolicyCard = {
  version: 1,
  style: 'full',
  figure: 'anomllm',
  length: null,
  classes: [...ANOMALY_CLASSES],
  stage: 'initial',
};

export function writeCard(directory: string, card: PolicyCard): void {
  writeFileAtomic(join(directory, CARD_FILE), `${JSON.stringify(card, null, 2)}\n`);
}

/** @throws CheckpointError when the card is there but not readable. */
export function readCard(directory: string): PolicyCard {
  const file = join(directory, CARD_FILE);
  if (!existsSync(file)) return FOREIGN_CARD;
  try {
    return cardSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (cause) {
    throw new CheckpointError(
      `${file}: not a policy card of this version; remove it to use the policy as a foreign checkpoint, or train again`,
      { cause },
    );
  }
}
