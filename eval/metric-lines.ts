/** The metrics that training stages append to their `metrics.jsonl`, as far as a report draws them. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { readJsonLines } from './json-lines.ts';

const finite = z.number();
/** A loss that was not finite stands in JSON as null. */
const measured = finite.nullable();

const sftShape = z.object({
  step: z.int().positive(),
  /** Examples seen so far. */
  samples: z.int().positive(),
  /** Mean −log π per response token. */
  loss: measured,
  /** Milliseconds of the step by phase. */
  ms: z.record(z.string(), finite),
});

const rlShape = z.object({
  step: z.int().positive(),
  reward: measured,
  parts: z.record(z.string(), measured),
  similarity: measured,
  kl: measured,
  entropy: measured,
  clipped: measured,
  equalRewards: measured,
  silent: measured,
  samplerGap: measured,
  /** Milliseconds of the step by phase. */
  ms: z.record(z.string(), finite),
});

/** A supervised step. */
export type SftLine = z.infer<typeof sftShape>;
/** A reinforcement step. */
export type RlLine = z.infer<typeof rlShape>;

/** Absent: the stage was not run. The line that a killed process left half-written is dropped. */
function readLines<Shape extends z.ZodType>(file: string, shape: Shape): z.infer<Shape>[] {
  if (!existsSync(file)) return [];
  return readJsonLines(file, shape, { advice: 'remove it to report without curves', tornEnd: true });
}

/** @throws DataError naming file and line when a line is damaged. */
export function readSftLines(file: string): SftLine[] {
  return readLines(file, sftShape);
}

/** @throws DataError naming file and line when a line is damaged. */
export function readRlLines(file: string): RlLine[] {
  return readLines(file, rlShape);
}
