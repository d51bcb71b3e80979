/** What a training stage does about memory before it starts: whether to compute layers again, and whether to start at all. */
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { parseDims } from '../policy/model-config.ts';
import type { Recipe } from '../recipe.ts';
import { say } from '../terminal.ts';
import type { TrainingStage } from '../train/plan-stage.ts';
import { planLine, remedyLines } from '../train/plan-text.ts';
import { deviceMemory, planOf } from './plan.ts';

/** On a CPU, policies up to this size are not planned: that would take longer than a step, and they fit. */
const SMALL = 5e6;
/** From this size on the plan is shown on a CPU too. */
const LARGE = 100e6;

export interface StageMemoryOptions {
  readonly device: string;
  readonly silent: boolean;
  /** Bytes; the device's when absent, null where it is not known. */
  readonly memory?: number | null;
}

/**
 * Whether layers of the stage are computed again. `directory` holds the policy that it begins with.
 * @throws ConfigError when the plan says that the stage cannot fit, unless `memory.check` is false.
 */
export async function stageMemory(
  stage: TrainingStage,
  directory: string,
  recipe: Recipe,
  { device, silent, memory = deviceMemory(device) }: StageMemoryOptions,
): Promise<boolean> {
  const { recompute, check } = recipe.memory;
  const file = join(directory, 'config.json');
  const parameters = layoutOf(parseDims(readJson(file), file)).size;
  if ((device === 'cpu' && parameters <= SMALL) || (!check && recompute !== 'auto')) {
    return recompute === 'always';
  }
  const plan = await planOf(stage, directory, recipe, device, memory);
  if (!silent && (device !== 'cpu' || parameters > LARGE)) say(planLine(plan));
  if (check && plan.fits === false) {
    const remedies = remedyLines(plan);
    throw new ConfigError(
      `${planLine(plan)}; begin a run with ${remedies.length > 0 ? `one of ${remedies.join(', ')}` : 'a smaller policy'}, ` +
        'or with --set memory.check=false to try all the same; `timeseer plan` shows the whole plan',
    );
  }
  return plan.recompute;
}
