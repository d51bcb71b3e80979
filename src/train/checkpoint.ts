/**
 * A training checkpoint: the policy's Hugging Face directory, the optimiser's moments, and where the run stands.
 * Random numbers have no state (they are counted), so step number and weights are all it takes to continue bit for
 * bit. It appears whole or not at all, and one of them survives a process that is killed while it replaces the other.
 */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../errors.ts';
import { writeDirectoryAtomic, writeFileAtomic } from '../files.ts';
import { openSafetensors, writeSafetensors } from '../policy/safetensors.ts';
import { type PolicyCard, writeCard } from './card.ts';
import type { Learner } from './learner.ts';

const STATE_FILE = 'training.json';
const OPTIMIZER_FILE = 'optimizer.safetensors';

/** What a checkpoint holds beside the policy. */
export const TRAINING_FILES: readonly string[] = [STATE_FILE, OPTIMIZER_FILE];

const stateSchema = z
  .strictObject({
    version: z.literal(1),
    stage: z.enum(['sft', 'rl']),
    /** Steps done. */
    step: z.number().int().min(0),
    /** Updates that the optimiser made; skipped ones are not counted. */
    updates: z.number().int().min(0),
  })
  .readonly();

export type TrainingState = z.infer<typeof stateSchema>;

export function saveCheckpoint(
  directory: string,
  learner: Learner,
  card: PolicyCard,
  state: Omit<TrainingState, 'version' | 'updates'>,
): void {
  const { step, first, second } = learner.optimizer.state();
  writeDirectoryAtomic(directory, (temporary) => {
    learner.policy.write(temporary);
    writeCard(temporary, card);
    writeSafetensors(join(temporary, OPTIMIZER_FILE), [
      { name: 'first_moment', shape: [first.length], values: () => first },
      { name: 'second_moment', shape: [second.length], values: () => second },
    ]);
    const full: TrainingState = { version: 1, ...state, updates: step };
    writeFileAtomic(join(temporary, STATE_FILE), `${JSON.stringify(full, null, 2)}\n`);
  });
}

/** Where a checkpoint stands; null when there is none. @throws CheckpointError when it is damaged. */
export function readState(directory: string): TrainingState | null {
  if (!existsSync(directory)) return null;
  const file = join(directory, STATE_FILE);
  if (!existsSync(file)) {
    throw new CheckpointError(
      `${file}: no such file; the checkpoint is damaged, start the stage over with --force`,
    );
  }
  try {
    return stateSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (cause) {
    throw new CheckpointError(`${file}: not a training state; start the stage over with --force`, { cause });
  }
}

/** Step of a directory that a killed process left; −1 when it was not complete. The state is written last. */
function stepOf(directory: string): number {
  try {
    return readState(directory)?.step ?? -1;
  } catch {
    return -1;
  }
}

/**
 * Tidies up after processes that were killed while they saved: when one of them had moved the older checkpoint away and
 * not yet the newer one into its place, the newest complete one is put there; what else they left is removed. Call it
 * only while nothing trains there.
 */
export function recoverCheckpoint(directory: string): void {
  const parent = dirname(directory);
  if (!existsSync(parent)) return;
  const left = readdirSync(parent)
    .filter((name) => name.startsWith(`.${basename(directory)}.`) && name.endsWith('.tmp'))
    .map((name) => join(parent, name));
  if (!existsSync(directory)) {
    const [newest] = left
      .map((path) => ({ path, step: stepOf(path) }))
      .filter(({ step }) => step >= 0)
      .sort((a, b) => b.step - a.step);
    if (newest !== undefined) renameSync(newest.path, directory);
  }
  for (const path of left) rmSync(path, { recursive: true, force: true });
}

/** Gives the optimiser the moments of a checkpoint. Collective: every rank calls it. */
export function restoreOptimizer(directory: string, learner: Learner, state: TrainingState): void {
  const file = join(directory, OPTIMIZER_FILE);
  const tensors = openSafetensors(file);
  const read = (name: string): Float32Array => {
    const tensor = tensors.get(name);
    if (tensor === undefined)
      throw new CheckpointError(`${file}: tensor ${name} is missing; start the stage over with --force`);
    const values = tensor.read();
    if (values.length !== learner.policy.layout.size) {
      throw new CheckpointError(
        `${file}: ${name} has ${values.length} values, the policy ${learner.policy.layout.size} parameters; start the stage over with --force`,
      );
    }
    return values;
  };
  learner.optimizer.restore({
    step: state.updates,
    first: read('first_moment'),
    second: read('second_moment'),
  });
}
