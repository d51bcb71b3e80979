/** The memory plan of a recipe's stages: its policy, task and device, composed. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { openExamples, reinforcementExamples, trainingExamples } from '../../datasets/source.ts';
import { DryEngine } from '../engine/dry/dry.ts';
import { findLibtorch } from '../engine/torch/find.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { ConfigError } from '../errors.ts';
import { memory as machineMemory } from '../machine.ts';
import { trainBpe } from '../policy/bpe.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { parseDims, statedDType, usualDType } from '../policy/model-config.ts';
import { Policy } from '../policy/policy.ts';
import { openCheckpoint } from '../policy/safetensors.ts';
import type { Recipe } from '../recipe.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { planStage, type StagePlan } from '../train/plan.ts';
import type { Subject } from '../train/plan-policy.ts';
import type { TrainingStage } from '../train/plan-stage.ts';
import type { Task } from '../train/task.ts';
import { nanoCard, trainingCard, trainingTask } from './task.ts';

/** Version whose operators are assumed where none is installed. */
const USUAL_VERSION = '2.6.0';
/** Traces that the nano tokenizer of a plan is made from: fewer than a run's, which changes a few tokens a trace. */
const CORPUS = 64;

/** '80GB', '24 GiB', '512MB' or plain bytes. @throws ConfigError */
export function parseBytes(text: string): number {
  const [, number, prefix = '', binary] = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i)?)?b?\s*$/i.exec(text) ?? [];
  const power = ['', 'k', 'm', 'g', 't'].indexOf(prefix.toLowerCase());
  const bytes = Number(number) * (binary === undefined ? 1000 : 1024) ** power;
  if (Number.isFinite(bytes) && bytes > 0) return bytes;
  throw new ConfigError(`--memory ${text}: expected an amount of memory, as in 80GB or 24GiB`);
}

/** Memory of a device, bytes; null where it cannot be asked. */
export function deviceMemory(device: string): number | null {
  if (device === 'cpu') return machineMemory().total;
  try {
    return openTorch({ device, threads: 1 }).info.memoryTotal || null;
  } catch {
    return null; // a plan for another machine
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

/** The policy of a directory as a plan sees it: everything but its weights, which need not be there. */
function directorySubject(directory: string, recipe: Recipe, device: string, version: string): Subject {
  const kind = kindOf(device);
  const file = join(directory, 'config.json');
  const layout = layoutOf(parseDims(readJson(file), file));
  const engine = new DryEngine({ device: kind, version });
  const ticket = engine.share(engine.zeros([layout.size], 'bfloat16'));
  const { parts } = Policy.attach(engine, directory, ticket, { tuning: 'none' });
  const { dtype } = recipe.policy;
  const chosen = dtype === 'auto' ? usualDType(device, storedDType(directory)) : dtype;
  return { parts, dtype: chosen, device: kind, version };
}

function nanoSubject(recipe: Recipe, card: PolicyCard, device: string, version: string): Subject {
  const kind = kindOf(device);
  const task = trainingTask(card, trainingExamples(recipe.data, recipe.seed));
  const texts = Array.from({ length: CORPUS }, (_, i) => task.example(i)).flatMap((example) => [
    task.instruction(example),
    task.trace(example),
  ]);
  const engine = new DryEngine({ device: kind, version });
  const { parts } = Policy.create(engine, { tokenizer: trainBpe(texts), seed: recipe.seed });
  const dtype = recipe.policy.dtype === 'auto' ? 'float32' : recipe.policy.dtype;
  return { parts, dtype, device: kind, version };
}

/** The libtorch that would train, without loading it. */
function versionOf(): string {
  return findLibtorch()?.version ?? USUAL_VERSION;
}

/** Subject and card of the recipe's own nano policy (null) or of a directory. */
export function planned(
  directory: string | null,
  recipe: Recipe,
  device: string,
): { readonly subject: Subject; readonly card: PolicyCard } {
  const version = versionOf();
  const { facts } = openExamples(trainingExamples(recipe.data, recipe.seed));
  if (directory !== null) {
    const subject = directorySubject(directory, recipe, device, version);
    return { subject, card: trainingCard(directory, recipe, facts) };
  }
  const card = nanoCard(recipe, facts);
  return { subject: nanoSubject(recipe, card, device, version), card };
}

/** The plan of one stage of a recipe. */
export async function planOf(
  stage: TrainingStage,
  directory: string | null,
  recipe: Recipe,
  device: string,
  memory: number | null,
): Promise<StagePlan> {
  const { subject, card } = planned(directory, recipe, device);
  const address =
    stage === 'sft'
      ? trainingExamples(recipe.data, recipe.seed)
      : reinforcementExamples(recipe.data, recipe.seed);
  const task: Task = trainingTask(card, address, stage);
  return planStage({ subject, stage, recipe, task, memory });
}
