/**
 * Memory plan of a recipe's stages, which decides on gradient checkpointing and on whether a stage starts at all.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { computingEngine, torchProblem } from '../answer/local.ts';
import { LARGEST_HEAP } from '../engine/tfjs/backend.ts';
import { MetaEngine } from '../engine/torch/meta.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { ConfigError, EngineError } from '../ground/errors.ts';
import { memory as machineMemory } from '../ground/machine.ts';
import { say } from '../ground/terminal.ts';
import { readPreprocessor } from '../policy/image-processor.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { builtInDims, configJson, parseDims, statedDType, usualDType } from '../policy/model-config.ts';
import { Policy, type PolicyParts, readParts } from '../policy/policy.ts';
import { openCheckpoint } from '../policy/safetensors.ts';
import { trainBpe } from '../policy/tokenizer.ts';
import type { Recipe } from '../recipe/recipe.ts';
import type { PolicyCard } from '../tasks/card.ts';
import type { PlannedPolicy, TrainingStage } from '../train/dry-run.ts';
import { bytesText, planLine, planStage, remedyLine, type StagePlan } from '../train/memory-plan.ts';
import { nanoCard, stageExamples, trainingCard, trainingFacts, trainingTask } from './policy-task.ts';

/** Number of examples that a plan's tokenizer is trained on: fewer than a run's, a difference of a few tokens per trace. */
const CORPUS = 64;
/** Vocabulary of the stand-in for a missing tokenizer: about bytes, so that lengths are overestimated. */
const STAND_IN = 300;

/** '80GB', '24 GiB', '512MB' or plain bytes. @throws ConfigError */
export function parseBytes(text: string, option = '--memory'): number {
  const [, number, prefix = '', binary] = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i)?)?b?\s*$/i.exec(text) ?? [];
  if (number !== undefined && /^[\d.\s]*$/.test(text))
    throw new ConfigError(`${option} ${text}: has no unit; write ${number}GB, or another unit`);
  const power = ['', 'k', 'm', 'g', 't'].indexOf(prefix.toLowerCase());
  const bytes = Number(number) * (binary === undefined ? 1000 : 1024) ** power;
  if (Number.isFinite(bytes) && bytes >= 1e6) return bytes;
  throw new ConfigError(`${option} ${text}: expected an amount of memory from 1MB, as in 80GB or 24GiB`);
}

/** Memory of a device, bytes; null where it is unknown. */
export function deviceMemory(device: string): number | null {
  if (device === 'cpu') return machineMemory().total;
  try {
    return openTorch({ device, threads: 1 }).info.memoryTotal || null;
  } catch {
    return null; // a plan for another machine
  }
}

/** @throws ConfigError for a data type in which the engine that trains cannot compute */
export function checkDType({ policy: { dtype } }: Recipe, device = 'cpu'): void {
  if (dtype === 'bfloat16' && computingEngine(device) === 'tfjs') {
    throw new ConfigError(
      'policy.dtype: got bfloat16, but the tfjs engine computes in float32; give float32 or auto, or choose --engine torch',
    );
  }
}

const kindOf = (device: string): 'cpu' | 'cuda' => (device === 'cpu' ? 'cpu' : 'cuda');

function storedDType(directory: string): unknown {
  const stated = statedDType(readJson(join(directory, 'config.json')) as Record<string, unknown>);
  if (stated !== undefined) return stated;
  const weights = ['model.safetensors', 'model.safetensors.index.json'];
  if (!weights.some((name) => existsSync(join(directory, name)))) return undefined;
  return [...openCheckpoint(directory).values()][0]?.dtype;
}

/** Returns true where a directory holds a tokenizer; without one a plan estimates text lengths. */
export const hasTokenizer = (directory: string): boolean =>
  ['tokenizer.json', 'vocab.json'].some((name) => existsSync(join(directory, name)));

/** Parts of a new small policy, with a tokenizer trained on the first examples. */
function newParts(recipe: Recipe, card: PolicyCard, device: string, vocabulary?: number): PolicyParts {
  const task = trainingTask(card, stageExamples('sft', recipe));
  const texts = Array.from({ length: CORPUS }, (_, i) => task.example(i)).flatMap((example) => [
    task.instruction(example),
    task.trace(example),
  ]);
  const policy = Policy.create(new MetaEngine(kindOf(device)), {
    tokenizer: trainBpe(texts, vocabulary === undefined ? {} : { vocabulary }),
    seed: recipe.seed,
    dims: builtInDims(recipe.policy.init),
  });
  const { parts } = policy;
  policy.dispose();
  return parts;
}

/** Combines the sizes of a directory's `config.json` with the tokenizer of `standIn`. */
function partsWithoutTokenizer(directory: string, standIn: PolicyParts): PolicyParts {
  const file = join(directory, 'config.json');
  const dims = parseDims(readJson(file), file);
  const { special } = parseDims(standIn.config);
  return {
    ...standIn,
    config: configJson({ ...dims, special }) as PolicyParts['config'],
    preprocessor: readPreprocessor(directory).json as PolicyParts['preprocessor'],
  };
}

/** Policy of the recipe (null) or of a directory, whose weights need not be there, and its card. */
function planned(
  directory: string | null,
  recipe: Recipe,
  device: string,
): { readonly subject: PlannedPolicy; readonly card: PolicyCard } {
  const facts = trainingFacts(recipe);
  const { dtype } = recipe.policy;
  const kind = kindOf(device);
  checkDType(recipe, device);
  const heap = computingEngine(device) === 'tfjs' ? { heap: LARGEST_HEAP } : {};
  if (directory === null) {
    const card = nanoCard(recipe, facts);
    const parts = newParts(recipe, card, device);
    return { subject: { parts, dtype: dtype === 'auto' ? 'float32' : dtype, device: kind, ...heap }, card };
  }
  const card = trainingCard(directory, recipe, facts);
  const parts = hasTokenizer(directory)
    ? readParts(directory)
    : partsWithoutTokenizer(directory, newParts(recipe, card, device, STAND_IN));
  const chosen = dtype === 'auto' ? usualDType(device, storedDType(directory)) : dtype;
  return { subject: { parts, from: directory, dtype: chosen, device: kind, ...heap }, card };
}

/** Plans one stage of a recipe. @throws EngineError without libtorch; ConfigError for a data type that the engine lacks */
export async function planTrainingStage(
  stage: TrainingStage,
  directory: string | null,
  recipe: Recipe,
  device: string,
  memory: number | null,
  processes?: number,
): Promise<StagePlan> {
  const problem = computingEngine(device) === 'tfjs' ? torchProblem() : null;
  if (problem !== null) {
    throw new EngineError(`a plan is measured on libtorch, also that of the tfjs engine: ${problem}`);
  }
  const { subject, card } = planned(directory, recipe, device);
  const task = trainingTask(card, stageExamples(stage, recipe), stage);
  return planStage({ subject, stage, recipe, task, memory, processes });
}

/** Largest policy that is not planned on a CPU, parameters: planning takes longer than a step, and it fits. */
const SMALL = 5e6;
/** Smallest policy whose plan is shown on a CPU, parameters. */
const LARGE = 100e6;

/** @throws ConfigError for a policy that a Worker of the tfjs engine cannot hold, whatever the examples are */
function checkHeap(
  stage: TrainingStage,
  { policy: { tune }, rl, ...stages }: Recipe,
  parameters: number,
): void {
  const { workers } = { rl, ...stages }[stage];
  // Weights; if all are trained, two moments, gradients of all Workers and the reference.
  const copies = tune === 'all' ? 3 + workers + (stage === 'rl' && rl.kl > 0 ? 1 : 0) : 1;
  const least = 4 * copies * parameters;
  if (least <= LARGEST_HEAP) return;
  throw new ConfigError(
    `${stage}: weights, moments and gradients take ${bytesText(least)} in each Worker, and WebAssembly holds ${bytesText(LARGEST_HEAP)}: ` +
      'take a smaller policy, --set policy.tune=adapter or --engine torch; --set memory.check=false tries all the same',
  );
}

/**
 * Decides on gradient checkpointing. @param directory initial policy of the stage @param memory bytes; null: unknown
 * @throws ConfigError when the plan says that the stage cannot fit, unless `memory.check` is false.
 */
export async function stageMemory(
  stage: TrainingStage,
  directory: string,
  recipe: Recipe,
  {
    device,
    silent,
    memory = deviceMemory(device),
  }: { readonly device: string; readonly silent: boolean; readonly memory?: number | null },
): Promise<boolean> {
  const { recompute, check } = recipe.memory;
  const file = join(directory, 'config.json');
  const parameters = layoutOf(parseDims(readJson(file), file)).size;
  // A plan is made by the torch engine.
  const planless = computingEngine(device) === 'tfjs' && torchProblem() !== null;
  if (planless && check) checkHeap(stage, recipe, parameters);
  if ((device === 'cpu' && (parameters <= SMALL || planless)) || (!check && recompute !== 'auto')) {
    return recompute === 'always';
  }
  const plan = await planTrainingStage(stage, directory, recipe, device, memory);
  if (!silent && (device !== 'cpu' || parameters > LARGE)) say(planLine(plan));
  if (check && plan.fits === false) {
    throw new ConfigError(
      `${planLine(plan)}; ${remedyLine(plan)}; ` +
        '--set memory.check=false tries all the same; `timeseer plan` shows the whole plan',
    );
  }
  return plan.recompute;
}
