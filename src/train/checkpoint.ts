/**
 * A training checkpoint: the policy's Hugging Face directory, the optimiser's moments, and where the run stands.
 * Random numbers have no state (they are counted), so step number and weights are all it takes to continue bit for
 * bit. It appears whole or not at all.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../errors.ts';
import { writeDirectoryAtomic, writeFileAtomic } from '../files.ts';
import { openSafetensors, writeSafetensors } from '../policy/safetensors.ts';
import { type PolicyCard, writeCard } from './card.ts';
import type { Learner } from './learner.ts';

const STATE_FILE = 'training.json';
const OPTIMIZER_FILE = 'optimizer.safetensors';

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
  const file = join(directory, STATE_FILE);
  if (!existsSync(file)) return null;
  try {
    return stateSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (cause) {
    throw new CheckpointError(
      `${file}: not a training state; remove the directory and start the stage again`,
      {
        cause,
      },
    );
  }
}

/** Gives the optimiser the moments of a checkpoint. Collective: every rank calls it. */
export function restoreOptimizer(directory: string, learner: Learner, state: TrainingState): void {
  const file = join(directory, OPTIMIZER_FILE);
  const tensors = openSafetensors(file);
  const read = (name: string): Float32Array => {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw new CheckpointError(`${file}: tensor ${name} is missing`);
    const values = tensor.read();
    if (values.length !== learner.policy.layout.size) {
      throw new CheckpointError(
        `${file}: ${name} has ${values.length} values, the policy ${learner.policy.layout.size} parameters`,
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
