/**
 * The memory plan of a training: what each stage holds throughout, what its phases take on top of that, whether it fits,
 * and what to change where it does not. Nothing is allocated for it.
 */
import type { Recipe } from '../recipe.ts';
import { EXAMPLES, type Lengths, LessonReader, lengthsOf } from './plan-lessons.ts';
import type { Subject } from './plan-policy.ts';
import { measureStage, type StageInput, type StageMeasure, type TrainingStage } from './plan-stage.ts';
import { recomputes } from './recompute.ts';
import type { Task } from './task.ts';

/**
 * Share of the memory that a plan may fill. The rest is the device's own (the context of CUDA and the workspaces of its
 * libraries, which count as no tensor, take about 1 GB), and what an allocator cannot join.
 */
const USABLE = 0.92;

/** A change to the recipe, and the peak that the stage then has, bytes. */
export interface Remedy {
  readonly change: string;
  readonly peak: number;
}

export interface StagePlan extends StageMeasure {
  readonly lengths: Lengths;
  /** The same stage the other way: with layers computed again, or with all of them kept. */
  readonly otherwise: StageMeasure;
  /** Memory of the device, bytes; null where it is not known. */
  readonly memory: number | null;
  /** Whether it fits; null where the memory is not known. */
  readonly fits: boolean | null;
  /** What lowers the peak, most first; found only where the stage does not fit. */
  readonly remedies: readonly Remedy[];
}

export interface PlanInput {
  readonly subject: Subject;
  readonly stage: TrainingStage;
  readonly recipe: Recipe;
  readonly task: Task;
  readonly memory: number | null;
}

/** The stages that a recipe has. */
export function stagesOf({ sft, rl }: Recipe): TrainingStage[] {
  return [...(sft.samples > 0 ? (['sft'] as const) : []), ...(rl.steps > 0 ? (['rl'] as const) : [])];
}

/** Whether layers are computed again is `recomputes`' to say. */
export async function planStage(given: PlanInput): Promise<StagePlan> {
  const { subject, stage, recipe, task, memory } = given;
  const reader = new LessonReader(subject, task);
  const lengths = lengthsOf(await reader.first(EXAMPLES));
  const measure = (recompute: boolean, changed: Partial<StageInput> = {}): Promise<StageMeasure> =>
    measureStage({ subject, stage, recipe, task, recompute, reader, ...changed });
  const [kept, again] = [await measure(false), await measure(true)];
  const parameters = kept.held.weights / (subject.dtype === 'bfloat16' ? 2 : 4);
  const auto = { kept: kept.peak, memory, parameters };
  const chosen = recomputes(recipe.memory.recompute, auto) ? again : kept;
  const fits = memory === null ? null : chosen.peak <= USABLE * memory;
  const remedies = fits === false ? await remediesOf(chosen, given, again, measure) : [];
  return {
    ...chosen,
    lengths,
    otherwise: chosen === kept ? again : kept,
    memory,
    fits,
    remedies,
  };
}

async function remediesOf(
  chosen: StageMeasure,
  { subject, stage, recipe }: PlanInput,
  again: StageMeasure,
  measure: (recompute: boolean, changed?: Partial<StageInput>) => Promise<StageMeasure>,
): Promise<Remedy[]> {
  const { recompute } = chosen;
  const { policy, memory } = recipe;
  const found: Remedy[] = [];
  const attempt = async (change: string, changed: Partial<StageInput>): Promise<void> => {
    found.push({ change, peak: (await measure(recompute, changed)).peak });
  };
  const withPolicy = (changes: Partial<Recipe['policy']>): Partial<StageInput> => ({
    recipe: { ...recipe, policy: { ...policy, ...changes } },
  });
  if (!recompute) found.push({ change: 'memory.recompute=always', peak: again.peak });
  const fewer = Math.max(1, Math.floor(memory.tokens / 4));
  await attempt(`memory.tokens=${fewer}`, { recipe: { ...recipe, memory: { ...memory, tokens: fewer } } });
  const narrower = Math.max(1, Math.floor(memory.rows / 4));
  if (chosen.at === 'rollout' && narrower < memory.rows) {
    await attempt(`memory.rows=${narrower}`, {
      recipe: { ...recipe, memory: { ...memory, rows: narrower } },
    });
  }
  if (policy.tune !== 'adapter') await attempt('policy.tune=adapter', withPolicy({ tune: 'adapter' }));
  if (policy.tune === 'all') await attempt('policy.tune=decoder', withPolicy({ tune: 'decoder' }));
  if (subject.dtype === 'float32') {
    await attempt('policy.dtype=bfloat16', { subject: { ...subject, dtype: 'bfloat16' } });
  }
  if (stage === 'rl' && recipe.rl.kl > 0 && policy.tune !== 'adapter') {
    await attempt('rl.kl=0', { recipe: { ...recipe, rl: { ...recipe.rl, kl: 0 } } });
  }
  const workers = chosen.workers;
  if (workers > 1) {
    await attempt(`${stage}.workers=1`, { recipe: { ...recipe, [stage]: { ...recipe[stage], workers: 1 } } });
  }
  return found.filter(({ peak }) => peak < chosen.peak).sort((a, b) => a.peak - b.peak);
}
