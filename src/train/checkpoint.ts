/**
 * Training checkpoint: the policy's Hugging Face directory (or the adapter's PEFT files, if only that is
 * trained), the optimiser state, and the position in the run. Random numbers are counter-based and have no
 * state, so resuming is bit for bit. A checkpoint appears whole or not at all; one survives a process killed
 * during a replacement. Its manifest has the SHA-256 of every file, which is compared before a run resumes.
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../ground/errors.ts';
import { makeDirectory, readUtf8, syncPath, writeJson } from '../ground/files.ts';
import { damageOf, MANIFEST_FILE, writeManifestedDirectory } from '../ground/manifest.ts';
import { writeAdapter } from '../policy/lora.ts';
import type { Policy } from '../policy/policy.ts';
import { openSafetensors, writeSafetensors } from '../policy/safetensors.ts';
import { loadTensor } from '../policy/weights.ts';
import { type PolicyCard, writeCard } from '../tasks/card.ts';
import type { Learner } from './learner.ts';

const STATE_FILE = 'training.json';
const OPTIMIZER_FILE = 'optimizer.safetensors';

const VERSION = 3;

/** Inputs of a stage; a checkpoint is only resumed with the same. */
const originSchema = z.strictObject({
  /** Keys of the recipe that the stage depends on. */
  recipe: z.record(z.string(), z.json()),
  /** Record of the data set. */
  data: z.json(),
  /** SHA-256 of the files of the initial policy, which is also the reference policy. */
  policy: z.record(z.string(), z.string()),
});
export type StageOrigin = z.infer<typeof originSchema>;

const stateSchema = z
  .strictObject({
    version: z.literal(VERSION),
    stage: z.enum(['sft', 'rl']),
    /** Steps done. */
    step: z.number().int().min(0),
    /** Updates that the optimiser made; skipped ones are not counted. */
    updates: z.number().int().min(0),
    /** Updates left out just before, because loss or gradient was not finite. */
    skippedInARow: z.number().int().min(0),
    /** Engines that computed the steps, one for each change; older checkpoints lack them. */
    engines: z.array(z.string()).min(1).optional(),
    origin: originSchema,
  })
  .readonly();

export type TrainingState = z.infer<typeof stateSchema>;

/** The optimiser's state by parameter, as its file names it: `layers.0.o.first_moment`. */
function optimizerEntries({ policy, optimizer }: Learner) {
  return Object.keys(optimizer.buffers).flatMap((buffer) =>
    policy.trainable.parameters.map((range) => ({ name: `${range.name}.${buffer}`, buffer, range })),
  );
}

/** Writes a policy with its card: the adapter where it has one, else all weights. `base`: checkpoint that the adapter names. */
export function writeTrained(directory: string, policy: Policy, card: PolicyCard, base?: string): void {
  if (policy.adapter === null) policy.write(directory);
  else writeAdapter(policy, directory, base);
  writeCard(directory, card);
}

/** Older checkpoints beside the last one, the newest first: `checkpoints/step-20`. */
export const olderCheckpoints = (directory: string) => stepsIn(`${directory}s`);

/** Lists the paths `step-N` in a folder, the newest first; none where the folder is missing. */
export function stepsIn(folder: string): { readonly step: number; readonly path: string }[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .flatMap((name) => {
      const step = /^step-(\d+)$/.exec(name)?.[1];
      return step === undefined ? [] : [{ step: Number(step), path: join(folder, name) }];
    })
    .sort((a, b) => b.step - a.step);
}

/**
 * Path that the checkpoint in `directory` moves to when one of step `next` replaces it; undefined: not kept.
 */
function retirementOf(directory: string, next: number, keep: number): string | undefined {
  if (keep === 1 || !existsSync(directory)) return undefined;
  const step = readState(directory)?.step;
  if (step === undefined || step >= next) return undefined;
  const path = join(`${directory}s`, `step-${step}`);
  makeDirectory(dirname(path));
  rmSync(path, { recursive: true, force: true });
  return path;
}

/** Writes a checkpoint in the place of the last one, and keeps `keep` of them in all. @throws WriteError, and the last one stays */
export function saveCheckpoint(
  directory: string,
  learner: Learner,
  card: PolicyCard,
  state: Omit<TrainingState, 'version' | 'updates'>,
  keep = 1,
): void {
  const fill = (temporary: string): void => {
    // What is not trained is where the stage began with it.
    writeTrained(temporary, learner.policy, card);
    writeSafetensors(
      join(temporary, OPTIMIZER_FILE),
      optimizerEntries(learner).map(({ name, buffer, range }) => ({
        ...{ name, shape: [range.size], dtype: 'F32' as const },
        bytes: () => learner.optimizer.stateBytes(buffer, range),
      })),
    );
    const full: TrainingState = { version: VERSION, ...state, updates: learner.optimizer.steps };
    writeJson(join(temporary, STATE_FILE), full);
  };
  writeManifestedDirectory(directory, fill, retirementOf(directory, state.step, keep));
  for (const { path } of olderCheckpoints(directory).slice(keep - 1)) {
    rmSync(path, { recursive: true, force: true });
  }
}

/** Reads the state of a checkpoint; null if there is none. @throws CheckpointError when it is damaged */
export function readState(directory: string): TrainingState | null {
  if (!existsSync(directory)) return null;
  const file = join(directory, STATE_FILE);
  if (!existsSync(file)) {
    throw new CheckpointError(
      `${file}: no such file; the checkpoint is damaged, start the stage over with --force`,
    );
  }
  try {
    const content: unknown = JSON.parse(readUtf8(file));
    const written = z.looseObject({ version: z.number() }).safeParse(content).data?.version;
    if (written !== undefined && written !== VERSION) {
      throw new CheckpointError(
        `${file}: a checkpoint of version ${written}, this timeseer resumes version ${VERSION}; ` +
          'start the stage over with --force, or resume with the timeseer that wrote it',
      );
    }
    return stateSchema.parse(content);
  } catch (cause) {
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(`${file}: not a training state; start the stage over with --force`, { cause });
  }
}

/** Describes the first file that differs from what was saved; null if none does. */
export function checkpointDamage(directory: string): string | null {
  const manifest = join(directory, MANIFEST_FILE);
  return existsSync(manifest) ? damageOf(directory) : `${manifest}: no such file`;
}

/** Step of a directory that a killed process left; −1 when it is not whole. */
function stepOf(directory: string): number {
  try {
    return checkpointDamage(directory) === null ? (readState(directory)?.step ?? -1) : -1;
  } catch {
    return -1;
  }
}

/**
 * Recovers from processes killed while saving: if the checkpoint was moved away and its successor not yet put
 * in place, the newest complete one is restored; other remains are deleted. Only while nothing trains there.
 */
export function recoverCheckpoint(directory: string): void {
  const parent = dirname(directory);
  if (!existsSync(parent)) return;
  const left = readdirSync(parent)
    .filter((name) => name.startsWith(`.${basename(directory)}.`) && name.endsWith('.tmp'))
    .map((name) => join(parent, name));
  if (!existsSync(directory)) {
    const [newest] = [...left, ...olderCheckpoints(directory).map(({ path }) => path)]
      .map((path) => ({ path, step: stepOf(path) }))
      .filter(({ step }) => step >= 0)
      .sort((a, b) => b.step - a.step);
    if (newest !== undefined) renameSync(newest.path, directory);
  }
  for (const path of left) rmSync(path, { recursive: true, force: true });
}

/**
 * Replaces a damaged checkpoint by the newest intact older one and sets it aside as `checkpoint.damaged`;
 * null, and no change, if there is none. Only while nothing trains there.
 */
export function fallBack(
  directory: string,
): { readonly state: TrainingState; readonly aside: string } | null {
  const good = olderCheckpoints(directory).find(({ path }) => stepOf(path) >= 0);
  if (good === undefined) return null;
  const aside = `${directory}.damaged`;
  rmSync(aside, { recursive: true, force: true });
  renameSync(directory, aside);
  renameSync(good.path, directory);
  syncPath(dirname(directory));
  return { state: readState(directory)!, aside };
}

/** Gives the optimiser its state of a checkpoint. Collective: every rank calls it. @throws CheckpointError */
export function restoreOptimizer(directory: string, learner: Learner, state: TrainingState): void {
  const { policy, optimizer, workers } = learner;
  if (workers.rank === 0 || !workers.sharesMemory) {
    const file = join(directory, OPTIMIZER_FILE);
    const tensors = openSafetensors(file);
    const entries = optimizerEntries(learner);
    const fail = (what: string, how = ''): never => {
      throw new CheckpointError(`${file}: ${what}; ${how}start the stage over with --force`);
    };
    // Weights of 16 bits alone have a master copy.
    const stored = [...tensors.keys()].some((name) => name.endsWith('.master')) ? 'bfloat16' : 'float32';
    if (stored !== ('master' in optimizer.buffers ? 'bfloat16' : 'float32')) {
      fail(
        `the stage was trained with ${stored} weights, here they are ${policy.dtype} (policy.dtype auto depends on the device)`,
        'resume with the same --device, or ',
      );
    }
    for (const {
      name,
      range: { size },
    } of entries) {
      const shape = tensors.get(name)?.shape ?? fail(`tensor ${name} is missing`);
      if (shape.join() !== `${size}`) {
        fail(`tensor ${name} has the shape [${shape.join(', ')}], the policy [${size}]`);
      }
    }
    if (tensors.size > entries.length) {
      fail(`${tensors.size} tensors, the optimiser keeps ${entries.length}`);
    }
    for (const { name, buffer, range } of entries) {
      for (const { at, start, length } of optimizer.piecesOf(range)) {
        const values = optimizer.buffers[buffer]!;
        loadTensor(policy.engine, tensors.get(name)!, values, at, start - range.offset, length);
      }
    }
  }
  optimizer.restore(state.updates);
}
