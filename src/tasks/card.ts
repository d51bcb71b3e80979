/** `timeseer.json` beside a policy's weights: how it was taught to look and to answer. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ConfigError, faultOf } from '../ground/errors.ts';
import { writeJson } from '../ground/files.ts';
import { readSaved } from '../ground/manifest.ts';
import { ANOMALY_CLASSES } from '../ground/types.ts';
import { choosesClass, KIND_NAMES, mayChoose } from './kinds.ts';

export const CARD_FILE = 'timeseer.json';

/** Bounds of what a card may ask for: a series of so many points is resampled, drawn or written for every window. */
const MOST = { points: 1_000_000, channels: 10_000, classes: 10_000, name: 10_000 } as const;

/** Format of a series written as numbers. */
const numbersSchema = z.strictObject({
  /** Significant digits. */
  digits: z.number().int().min(1).max(17),
  /** Most values per channel; longer series are reduced to the means of as many blocks. */
  points: z.number().int().min(2).max(MOST.points),
});
export type NumbersFormat = z.infer<typeof numbersSchema>;

/** Inspection of series over several turns, as `inspect` of a recipe. */
const inspectSchema = z
  .strictObject({
    /** Most responses of an episode. */
    turns: z.number().int().min(1).max(32),
    /** Tools by name, or modules of users. */
    tools: z.array(z.string().min(1).max(MOST.name)).max(100).readonly(),
    /** Points of the series in training; null: `length`. */
    lengths: z.array(z.number().int().min(2).max(MOST.points)).min(1).max(100).readonly().nullable(),
    /** Shares of scripted paths with a detour, and of windows with a further call. */
    detours: z.number().min(0).max(1),
    calls: z.number().min(0).max(1),
    /** Cost of a failed step, and reward from which an episode is a success. */
    penalty: z.number().min(0).max(1e6),
    success: z.number().min(0).max(1),
    /** Tools, or blocks of JavaScript in a sandbox; absent: tools. */
    runtime: z.exactOptional(z.enum(['tools', 'code'])),
    /** Earlier turns as turns of the chat, or as one picture; absent: turns. */
    history: z.exactOptional(z.enum(['turns', 'optical'])),
    /** Levels of windows that are all shown without being called for; absent: 0. */
    tour: z.exactOptional(z.int().min(0).max(6)),
  })
  .readonly();
export type InspectCard = z.infer<typeof inspectSchema>;

const cardSchema = z
  .strictObject({
    version: z.literal(1),
    /** `nano`: short traces for small policies; `full`: the three-part expert trace. */
    style: z.enum(['nano', 'full']),
    /** Figure preset. */
    figure: z.string().min(1).max(MOST.name),
    /** Points per series in training; other lengths are resampled to it. Null: any length is drawn as it is. */
    length: z.number().int().min(2).max(MOST.points).nullable(),
    /** Answer kind. */
    kind: z.enum(KIND_NAMES).default('anomaly'),
    /** Name of the task that it was trained on; null: none in particular. */
    task: z.string().min(1).max(MOST.name).nullable().default(null),
    /** Classes of its answers in the order of its prompts; none of variates. */
    classes: z.array(z.string().min(1).max(MOST.name)).max(MOST.classes),
    /** Channels of the series that it was taught; null: any number. */
    channels: z.number().int().positive().max(MOST.channels).nullable().default(null),
    /** Number format of its prompts; null: pictures. */
    numbers: numbersSchema.nullable().default(null),
    /** It writes advice after the answer (`extension` of the recipe); absent: it does not. */
    extension: z.exactOptional(z.boolean()),
    /** False: it answers without reasoning (`sft.traces: none`); absent: it reasons first. */
    reasoning: z.exactOptional(z.literal(false)),
    /** It looks closer over several turns before it answers; absent: it answers at once. */
    inspect: z.exactOptional(inspectSchema),
    /** Caveats about its training data, one sentence each. */
    limitations: z.array(z.string().min(1).max(MOST.name)).max(100).readonly().default([]),
    /** Last stage that the policy went through. */
    stage: z.enum(['initial', 'sft', 'rl']),
  })
  .readonly()
  .refine(({ kind, classes }) => !choosesClass(kind) || classes.length > 0, { path: ['classes'] })
  .refine(({ kind, classes }) => classes.every((name) => mayChoose(kind, name)), { path: ['classes'] });

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
  limitations: [],
  stage: 'initial',
};

/** Returns true for a policy trained by timeseer; other checkpoints have no card. */
export function hasCard(directory: string): boolean {
  return existsSync(join(directory, CARD_FILE));
}

/** Directory with the card of a policy and its adapter: the adapter's, where it has one, is newer than the base's. */
export const cardDirectory = (base: string, adapter: string | undefined): string =>
  adapter !== undefined && hasCard(adapter) ? adapter : base;

export function writeCard(directory: string, card: PolicyCard): void {
  writeJson(join(directory, CARD_FILE), card);
}

/** The card of a policy that is to be taught. @throws ConfigError when the data ask for more than a card may hold */
export function checkedCard(card: PolicyCard): PolicyCard {
  const { error } = cardSchema.safeParse(card);
  if (error === undefined) return card;
  throw new ConfigError(`no policy can be trained on these data: ${faultOf(error)}; prepare smaller ones`);
}

/** @throws CheckpointError when the card is there but not readable, or is not what was saved with the policy. */
export function readCard(directory: string): PolicyCard {
  const remedy = 'remove it to use the policy as a foreign checkpoint, or train again';
  const saved = { what: 'policy card', remedy };
  return readSaved(directory, CARD_FILE, saved, (content) => cardSchema.parse(content)) ?? FOREIGN_CARD;
}
