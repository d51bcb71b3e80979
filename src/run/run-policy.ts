/** Policies of runs: the one that training starts from (made or copied), one merged with an adapter, and one exported for other runtimes. */
import { constants, cpSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { basename, isAbsolute, join, relative, resolve } from 'node:path';
import { computingEngine, openEngine, prepareEngine } from '../answer/local.ts';
import { findPolicy } from '../answer/reference.ts';
import type { Engine } from '../engine/engine.ts';
import { MetaEngine } from '../engine/torch/meta.ts';
import { CONFIDENCE_FILE } from '../explain/confidence.ts';
import { ConfigError } from '../ground/errors.ts';
import { checkNewDirectory, readUtf8 } from '../ground/files.ts';
import { MANIFEST_FILE, TRAINING_FILES, writeManifestedDirectory } from '../ground/manifest.ts';
import { packageVersion } from '../ground/paths.ts';
import { say } from '../ground/terminal.ts';
import { type Exported, exportOnnx } from '../onnx/export.ts';
import type { WeightType } from '../onnx/weights.ts';
import { type Json, readJson } from '../policy/json-file.ts';
import { type Adapter, loadAdapter, mergeAdapter } from '../policy/lora.ts';
import { builtInDims, isBuiltIn, statedDType } from '../policy/model-config.ts';
import { Policy } from '../policy/policy.ts';
import { trainBpe } from '../policy/tokenizer.ts';
import type { Recipe } from '../recipe/recipe.ts';
import { CARD_FILE, cardDirectory, hasCard, type PolicyCard, readCard, writeCard } from '../tasks/card.ts';
import { REFERENCE_FILE } from '../tasks/reference.ts';
import { writeTrained } from '../train/checkpoint.ts';
import { addTokens } from './added-tokens.ts';
import { nanoCard, stageExamples, type TrainingTask, trainingFacts, trainingTask } from './policy-task.ts';
import type { Run } from './run.ts';

function isInside(path: string, directory: string): boolean {
  const inside = relative(resolve(directory), resolve(path));
  return !inside.startsWith('..') && !isAbsolute(inside);
}

/** @throws ConfigError when the run's directory is inside the policy's, which could not be copied there */
export function checkPlace(out: string, from: string): void {
  if (!isInside(out, from)) return;
  throw new ConfigError(`--out ${out}: lies in ${from}, the policy that the run begins with; choose another`);
}

/** @throws ConfigError when the policy is part of the run that is removed before it is copied */
export function checkKept(out: string, from: string): void {
  if (!isInside(from, out)) return;
  throw new ConfigError(
    `policy.init: ${from} is part of the run in ${out}, which would be removed; choose another --out`,
  );
}

/**
 * Returns true for files that are copied with a policy: not its training state and manifest (the copy gets its own), not weights in other
 * formats, nothing hidden (a clone's `.git` holds everything again), no directories.
 */
function isOfPolicy(path: string): boolean {
  const name = basename(path);
  const excluded = name.startsWith('.') || /\.(bin|pt|pth|gguf|h5|msgpack|onnx)$/.test(name);
  return !excluded && ![...TRAINING_FILES, MANIFEST_FILE].includes(name) && statSync(path).isFile();
}

/**
 * Copies a policy, whole or not at all, after checking that its files belong together: the copy of a damaged checkpoint would outlive its
 * repair. Values of foreign weights are not checked. `change` gets the directory of the copy before it is in its place.
 * @throws CheckpointError naming the file of the original that is missing or damaged; WriteError
 */
export function copyPolicy(from: string, to: string, change?: (copy: string) => void): void {
  // The meta device holds no values; tfjs has none.
  const checker = (): Engine => (computingEngine() === 'tfjs' ? openEngine() : new MetaEngine('cpu'));
  Policy.load(checker(), from, { tuning: 'none' }).dispose();
  writeManifestedDirectory(to, (temporary) => {
    mkdirSync(temporary, { recursive: true });
    // Shares the blocks of large files where the file system can; files that are links (a hub cache) become files.
    cpSync(from, temporary, {
      recursive: true,
      dereference: true,
      filter: (source) => source === from || isOfPolicy(source),
      mode: constants.COPYFILE_FICLONE,
    });
    change?.(temporary);
  });
}

/** Number of traces that the nano tokenizer is trained on. */
const TOKENIZER_CORPUS = 300;

/** Trains the nano tokenizer of a recipe. @throws DataError for training examples without a trace */
export const nanoTokenizer = (recipe: Recipe, card: PolicyCard): Record<string, unknown> =>
  taskTokenizer(trainingTask(card, stageExamples('sft', recipe)));

/** Trains a small tokenizer on the instructions and traces of a task. @throws DataError for examples without a trace */
export function taskTokenizer(task: TrainingTask): Record<string, unknown> {
  const texts: string[] = [];
  for (let i = 0; i < TOKENIZER_CORPUS; i++) {
    const example = task.example(i);
    texts.push(task.instruction(example), task.trace(example));
  }
  return trainBpe(texts);
}

/** Writes the run's initial policy, unless it exists: random weights, or a copy of a checkpoint. */
export function prepareInitial(run: Run): void {
  if (existsSync(run.initial)) return;
  const { policy, seed, sft } = run.recipe;
  if (!isBuiltIn(policy.init)) {
    const from = findPolicy(policy.init);
    // A stage that trains the embedding teaches the names; a large policy knows words.
    const learns = sft.samples > 0 && policy.tune !== 'adapter' && readCard(from).style === 'nano';
    copyPolicy(from, run.initial, (copy) => {
      if (learns) addTokens(copy, trainingFacts(run.recipe).classes);
    });
    return;
  }
  const card = nanoCard(run.recipe, trainingFacts(run.recipe));
  const engine = openEngine();
  const created = Policy.create(engine, {
    tokenizer: nanoTokenizer(run.recipe, card),
    seed,
    dims: builtInDims(policy.init),
  });
  writeManifestedDirectory(run.initial, (temporary) => writeTrained(temporary, created, card));
  created.dispose();
}

export interface MergeRequest {
  /** Directory of a checkpoint, or of a run. */
  readonly policy: string;
  /** Directory of a low-rank adapter of it. */
  readonly adapter: string;
  readonly out: string;
  /** Data type of the merged weights; `auto`: as in the checkpoint. */
  readonly dtype: 'auto' | 'float32' | 'bfloat16';
}

/**
 * Writes a checkpoint with a low-rank adapter added to its weights.
 * @throws ConfigError for a wrong target; CheckpointError when base and adapter do not belong together
 */
export async function mergePolicy({ policy: path, adapter, out, dtype }: MergeRequest): Promise<{
  readonly base: string;
  readonly dtype: Policy['dtype'];
  readonly options: Adapter['options'];
}> {
  const base = findPolicy(path);
  if ([base, adapter].some((source) => resolve(source) === resolve(out)))
    throw new ConfigError(`--out ${out}: is also the input; choose another directory`);
  checkNewDirectory(out);
  await prepareEngine();
  const engine = openEngine('cpu', 0);
  const stated = statedDType(readJson(join(base, 'config.json')) as Json);
  const policy = Policy.load(engine, base, {
    // For a loaded policy `auto` depends on the processor; a file keeps its own type.
    dtype: dtype !== 'auto' ? dtype : /16$/.test(String(stated)) ? 'bfloat16' : 'float32',
    adapter: (dims) => loadAdapter(engine, dims, adapter),
  });
  const { options } = policy.adapter!;
  mergeAdapter(policy);
  const card = cardDirectory(base, adapter);
  writeManifestedDirectory(out, (temporary) => {
    policy.write(temporary);
    if (hasCard(card)) writeCard(temporary, readCard(card));
  });
  const written = policy.dtype;
  policy.dispose();
  return { base, dtype: written, options };
}

export interface ExportRequest {
  /** Directory of a policy, or of a run. */
  readonly policy: string;
  readonly out: string;
  /** Storage types of the matrices. */
  readonly dtype: readonly WeightType[];
  readonly quiet: boolean;
}

/** Writes a policy as ONNX with its card, reference and confidence. @returns the source directory and the files written @throws as `findPolicy` and `exportOnnx` */
export function exportPolicy({
  policy,
  out,
  dtype,
  quiet,
}: ExportRequest): Exported & { readonly from: string } {
  const from = findPolicy(policy);
  const beside = [CARD_FILE, REFERENCE_FILE, CONFIDENCE_FILE].filter((name) => existsSync(join(from, name)));
  const written = exportOnnx(from, out, {
    types: [...new Set(dtype)],
    version: packageVersion(),
    files: Object.fromEntries(beside.map((name) => [name, readUtf8(join(from, name))])),
    ...(quiet ? {} : { onFile: (name) => say(`writing ${name}`) }),
  });
  return { from, ...written };
}
