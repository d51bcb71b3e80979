/** The policy that a stage works on: its engine's threads, its weights or adapter, shared among the stage's ranks. */
import { join } from 'node:path';
import type { Engine } from '../engine/engine.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { cores } from '../machine.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { type Adapter, createAdapter } from '../policy/lora.ts';
import { type Dims, parseDims } from '../policy/model-config.ts';
import { loadAdapter } from '../policy/peft.ts';
import type { Policy } from '../policy/policy.ts';
import type { Recipe } from '../recipe.ts';
import type { WorkerGroup } from '../train/worker-group.ts';
import { loadShared } from '../train/worker-group.ts';

/** Parameters from which on one operation is enough work for several cores. */
const LARGE = 20e6;

function dimsOf(directory: string): Dims {
  const file = join(directory, 'config.json');
  return parseDims(readJson(file), file);
}

/** The engine of one of `workers` ranks: one thread, or a share of the cores when the policy of `directory` is large. */
export function stageEngine(device: string, directory: string, workers: number): Engine {
  const large = layoutOf(dimsOf(directory)).size >= LARGE;
  return openTorch({ device, threads: large ? Math.max(1, Math.floor(cores() / workers)) : 1 });
}

/**
 * The policy of a training stage. `base` is the policy that the stage began with, `from` the same or a checkpoint of the
 * stage, which holds an adapter alone where that is what is trained. Collective.
 */
export function trainedPolicy(
  engine: Engine,
  workers: WorkerGroup,
  { policy: recipe, seed }: Recipe,
  base: string,
  from: string,
): Policy {
  const { dtype, tune } = recipe;
  // A checkpoint has been compared with its manifest before the stage began.
  const checked = from !== base;
  if (tune !== 'adapter') return loadShared(engine, workers, from, { dtype, tuning: tune, checked });
  const dims = dimsOf(base);
  const make = (): Adapter =>
    from === base ? createAdapter(engine, dims, recipe.adapter, seed) : loadAdapter(engine, dims, from);
  const adapter = workers.share(engine, make, (ticket) => ({
    options: recipe.adapter,
    flat: engine.attach(ticket),
  }));
  return loadShared(engine, workers, base, { dtype, tuning: tune, adapter });
}
