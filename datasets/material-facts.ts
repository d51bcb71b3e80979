/** What `manifest.json` says of the figures, prompts and expert traces beside the examples. */
import { z } from 'zod';
import { SPLITS, type Split } from './split.ts';

/** Prompts and traces of a split. */
export const materialFile = (split: Split): string => `${split}.prompts.jsonl`;
/** What the classes of a classification look like, learned from the training split alone. */
export const CLASSES_FILE = 'classes.json';

/** Folder of a split's figures, relative to the data set. */
export const figureFolder = (split: Split): string => `figures/${split}`;
/** Figure of example number `index` (0-based), relative to the data set; with '/' on every system. */
export const figureFile = (split: Split, index: number): string =>
  `${figureFolder(split)}/${String(index).padStart(6, '0')}.png`;

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);
const file = { bytes: count, sha256: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hexadecimal digits') };

const split = z.strictObject({
  prompts: z.strictObject({ file: z.enum(SPLITS.map(materialFile)), ...file }),
  /** How many there are; bytes and SHA-256 of all of them one after another. Null where none were drawn. */
  figures: z.strictObject({ folder: z.enum(SPLITS.map(figureFolder)), count, ...file }).nullable(),
  /** Examples with a trace that concludes the right answer: none of the test split. */
  teacher: count,
  /** Examples with a trace from values alone. */
  blind: count,
  /**
   * How often the blind expert is right; null without traces, and for a split that it has learned the classes from.
   * An example that it cannot read counts as wrong.
   */
  score: z
    .strictObject({
      count: count.min(1),
      /** Share of right classes; null where there is no class. */
      accuracy: share.nullable(),
      /** Accuracy of always naming the most frequent class. */
      chance: share.nullable(),
      /** Mean F1 of the points in the intervals, or of the variates; null where there are none. */
      f1: share.nullable(),
    })
    .nullable(),
});

export const materialFacts = z.strictObject({
  /** Version of the words of the prompts. */
  prompt: z.string().min(1),
  /** Version of the words of the traces; null where there are none. */
  traces: count.nullable(),
  /** What classes were learned from, and how well they are told apart in folds of the training split. */
  classes: z.strictObject({ file: z.literal(CLASSES_FILE), ...file, heldOut: share.nullable() }).nullable(),
  splits: z.partialRecord(z.enum(SPLITS), split),
  /** What could not be drawn or traced, and why. */
  notes: z.array(z.string()),
});

export type MaterialFacts = z.infer<typeof materialFacts>;
/** What is said of one split. */
export type SplitMaterials = z.infer<typeof split>;
