/**
 * What a training stage takes, found by running its first steps on an engine that allocates nothing: the code that trains
 * is the code that plans. Of the data that it would begin with the stage sees what can make a peak; responses are as long
 * as they may be.
 */
import { DryEngine } from '../engine/dry/dry.ts';
import type { Tensor } from '../engine/engine.ts';
import type { Dims } from '../policy/model-config.ts';
import type { Recipe } from '../recipe.ts';
import { LessonReader } from './plan-lessons.ts';
import { EmptyPolicy, emptyAdapter, type Subject } from './plan-policy.ts';
import { type PlanRun, planRl, planSft } from './plan-run.ts';
import { OneOfMany, type Phase, WatchedLearner, watched } from './plan-watch.ts';
import type { Task } from './task.ts';

export type TrainingStage = 'sft' | 'rl';

export interface StageInput {
  readonly subject: Subject;
  readonly stage: TrainingStage;
  readonly recipe: Recipe;
  readonly task: Task;
  readonly recompute: boolean;
  /** Has read some of the task for another plan with this tokenizer; a new one when absent. */
  readonly reader?: LessonReader;
}

/** The ledger's first phase, which is none of a step's. */
const BEGIN = 'begin';

/** Bytes that stay from beginning to end. */
export interface Held {
  readonly weights: number;
  readonly reference: number;
  readonly adapter: number;
  readonly master: number;
  readonly moments: number;
  /** One for each worker; all else that is held is shared by them. */
  readonly gradients: number;
}

export interface StageMeasure {
  readonly stage: TrainingStage;
  readonly recompute: boolean;
  readonly workers: number;
  readonly held: Held;
  /** Largest of each phase, bytes: what is held included, of all workers together. */
  readonly phases: ReadonlyMap<Phase, number>;
  /** Of them: what made the storage, bytes, of one worker. */
  readonly kinds: ReadonlyMap<Phase, Readonly<Record<string, number>>>;
  /** Activations that a worker keeps for the backward pass of its longest piece, bytes. */
  readonly activations: number;
  readonly peak: number;
  /** The phase of the peak. */
  readonly at: Phase;
}

const size = ({ shape, dtype }: Tensor): number => shape[0]! * (dtype === 'bfloat16' ? 2 : 4);

/** Runs the first steps of a stage without elements. */
export async function measureStage(input: StageInput): Promise<StageMeasure> {
  const { subject, stage, recipe, task, recompute } = input;
  const engine = new DryEngine({ device: subject.device, version: subject.version });
  const { ledger } = engine;
  ledger.phase('load' satisfies Phase);
  const { tune } = recipe.policy;
  const { reader = new LessonReader(subject, task) } = input;
  const options =
    tune === 'adapter'
      ? { adapter: (dims: Dims) => emptyAdapter(engine, dims, recipe.policy.adapter) }
      : { tuning: tune };
  const policy = new EmptyPolicy(engine, subject, options, reader.encodings);
  const usable = policy.forbidden.findIndex((penalty, id) => penalty === 0 && id !== policy.dims.special.end);
  engine.integer = Math.max(0, usable); // whatever is sampled, it ends nothing
  const separate = stage === 'rl' && recipe.rl.kl > 0 && policy.adapter === null;
  const reference = separate ? new EmptyPolicy(engine, subject, { tuning: 'none' }, reader.encodings) : null;
  const own = recipe[stage];
  const wanted = stage === 'sft' ? recipe.sft.batch : recipe.rl.prompts;
  const workers = Math.max(1, Math.min(own.workers, wanted));
  ledger.phase(BEGIN); // buffers of the optimiser stay: every phase after this has them
  const learning = { betas: own.betas, epsilon: 1e-8, weightDecay: own.weightDecay, clip: own.clip };
  const learner = new WatchedLearner(policy, new OneOfMany(workers), learning, recompute, ledger);
  const { held } = learner;
  engine.onBackward = () => ledger.phase('backward' satisfies Phase);
  const run: PlanRun = { learner, reader, recipe, ledger, workers };
  if (stage === 'sft') await planSft(run);
  else {
    const scorer = reference ?? { ...policy.withoutAdapter, forbidden: policy.forbidden };
    await planRl(run, recipe.rl.kl > 0 ? watched(scorer, ledger) : null);
  }

  const { master, ...moments } = learner.optimizer.buffers;
  const parts: Held = {
    weights: size(policy.flat),
    reference: reference === null ? 0 : size(reference.flat),
    adapter: policy.adapter === null ? 0 : size(policy.adapter.flat),
    master: master === undefined ? 0 : size(master),
    moments: Object.values(moments).reduce((sum, buffer) => sum + size(buffer), 0),
    gradients: 4 * policy.trainable.flat.shape[0]!,
  };
  const shared = parts.weights + parts.reference + parts.adapter + parts.master + parts.moments;
  const together = (bytes: number): number => shared + workers * Math.max(0, bytes - shared);
  const phases = new Map<Phase, number>();
  const kinds = new Map<Phase, Readonly<Record<string, number>>>();
  for (const [name, mark] of ledger.peaks()) {
    if (name === BEGIN || (name !== 'load' && mark.bytes <= held)) continue;
    phases.set(name as Phase, name === 'load' ? mark.bytes : together(mark.bytes));
    kinds.set(name as Phase, mark.kinds);
  }
  const [at, peak] = [...phases].reduce((most, one) => (one[1] > most[1] ? one : most));
  return {
    stage,
    recompute,
    workers,
    held: parts,
    phases,
    kinds,
    activations: learner.activations,
    peak,
    at,
  };
}
