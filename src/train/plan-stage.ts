/**
 * What a training stage takes, found by running its first steps on an engine that allocates nothing: the code that trains
 * is the code that plans. Of the data the stage sees what it would begin with; responses are as long as they may be.
 */
import { DryEngine } from '../engine/dry/dry.ts';
import type { Ledger } from '../engine/dry/ledger.ts';
import type { LogProbOptions, Tensor } from '../engine/engine.ts';
import { createAdapter } from '../policy/adapter.ts';
import type { PolicyParts } from '../policy/parts.ts';
import { Policy } from '../policy/policy.ts';
import type { Tape } from '../policy/tape.ts';
import type { WeightDType } from '../policy/weights.ts';
import type { Recipe } from '../recipe.ts';
import type { Example } from '../types.ts';
import type { TokenLoss } from './head.ts';
import { Learner } from './learner.ts';
import type { OptimizerOptions, StepReport } from './optimizer.ts';
import { PromptEncoder } from './prompt.ts';
import { Ranks, teamMemory } from './ranks.ts';
import type { Scorer } from './response-states.ts';
import { rl } from './rl.ts';
import { sft } from './sft.ts';
import type { Task } from './task.ts';

export type TrainingStage = 'sft' | 'rl';

/** Examples of the data that a plan looks at. */
export const EXAMPLES = 64;

/** What is trained, and where. */
export interface Subject {
  readonly parts: PolicyParts;
  readonly dtype: WeightDType;
  readonly device: 'cpu' | 'cuda';
  /** Of libtorch. */
  readonly version: string;
}

export interface StageInput {
  readonly subject: Subject;
  readonly stage: TrainingStage;
  readonly recipe: Recipe;
  readonly task: Task;
  readonly recompute: boolean;
}

/** Parts of a step, in their order. */
export type Phase =
  | 'load'
  | 'rollout'
  | 'transport'
  | 'reference'
  | 'forward'
  | 'logits'
  | 'backward'
  | 'optimizer step';

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

/** The rank with the largest share of a team that is not there. */
class OneOfMany extends Ranks {
  constructor(size: number) {
    super(teamMemory(size), 0, size);
  }

  override barrier(): void {}

  override gather(values: readonly number[]): Float64Array[] {
    return Array.from({ length: this.size }, () => Float64Array.from(values));
  }

  override share(n: number): readonly [start: number, end: number] {
    return [0, Math.ceil(n / this.size)];
  }
}

/** A learner that says which part of a step begins. */
class WatchedLearner extends Learner {
  readonly #ledger: Ledger;
  readonly #held: () => number;
  activations = 0;

  constructor(
    policy: Policy,
    ranks: Ranks,
    options: OptimizerOptions,
    recompute: boolean,
    ledger: Ledger,
    held: () => number,
  ) {
    super(policy, ranks, options, recompute);
    this.#ledger = ledger;
    this.#held = held;
  }

  override tape(): Tape | undefined {
    this.#ledger.phase('forward' satisfies Phase);
    return super.tape();
  }

  override backward(
    states: Tensor,
    targets: Int32Array,
    options: LogProbOptions,
    loss: TokenLoss,
    tape?: Tape,
  ): void {
    this.activations = Math.max(this.activations, this.#ledger.now - this.#held());
    this.#ledger.phase('logits' satisfies Phase); // until the gradient goes on from the states
    super.backward(states, targets, options, loss, tape);
  }

  override forget(): void {
    super.forget();
    this.#ledger.phase('rollout' satisfies Phase);
  }

  override update(tokens: number, learningRate: number): StepReport {
    this.#ledger.phase('optimizer step' satisfies Phase);
    return super.update(tokens, learningRate);
  }
}

/** Says when the reference is read. */
function watched(scorer: Scorer, ledger: Ledger): Scorer {
  return {
    engine: scorer.engine,
    dims: scorer.dims,
    forbidden: scorer.forbidden,
    get weights() {
      ledger.phase('reference' satisfies Phase);
      return scorer.weights;
    },
  };
}

const size = ({ shape, dtype }: Tensor): number => shape[0]! * (dtype === 'bfloat16' ? 2 : 4);

/** A policy whose weights are not there. */
export function emptyPolicy(
  engine: DryEngine,
  { parts, dtype }: Pick<Subject, 'parts' | 'dtype'>,
  options: ConstructorParameters<typeof Policy>[3] = {},
): Policy {
  return new Policy(engine, parts, (layout) => engine.zeros([layout.size], dtype), options);
}

/** Runs the first steps of a stage without elements. */
export async function measureStage(input: StageInput): Promise<StageMeasure> {
  const { subject, stage, recipe, task, recompute } = input;
  const engine = new DryEngine({ device: subject.device, version: subject.version });
  const { ledger } = engine;
  ledger.phase('load' satisfies Phase);
  const { tune } = recipe.policy;
  const policy = emptyPolicy(
    engine,
    subject,
    tune === 'adapter'
      ? { adapter: (dims) => createAdapter(engine, dims, recipe.policy.adapter, recipe.seed) }
      : { tuning: tune },
  );
  const usable = policy.forbidden.findIndex((penalty, id) => penalty === 0 && id !== policy.dims.special.end);
  engine.integer = Math.max(0, usable); // whatever is sampled, it ends nothing
  const separate = stage === 'rl' && recipe.rl.kl > 0 && policy.adapter === null;
  const reference = separate ? emptyPolicy(engine, subject, { tuning: 'none' }) : null;
  const own = recipe[stage];
  const wanted = stage === 'sft' ? recipe.sft.batch : recipe.rl.prompts;
  const workers = Math.max(1, Math.min(own.workers, wanted));
  ledger.phase(BEGIN); // buffers of the optimiser stay: every phase after this has them
  let held = 0;
  const options = { betas: own.betas, epsilon: 1e-8, weightDecay: own.weightDecay, clip: own.clip };
  const learner = new WatchedLearner(policy, new OneOfMany(workers), options, recompute, ledger, () => held);
  held = ledger.now;
  engine.onBackward = () => ledger.phase('backward' satisfies Phase);
  if (stage === 'sft') await runSft(learner, task, recipe, ledger);
  else {
    const scorer: Scorer = reference ?? { ...policy.withoutAdapter, forbidden: policy.forbidden };
    await runRl(learner, recipe.rl.kl > 0 ? watched(scorer, ledger) : null, task, recipe, ledger, workers);
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

async function runSft(
  learner: Learner,
  task: Task,
  { sft: own, memory }: Recipe,
  ledger: Ledger,
): Promise<void> {
  ledger.phase('forward' satisfies Phase);
  const steps = Math.max(1, Math.ceil(EXAMPLES / own.batch));
  const options = { ...own, samples: Math.min(own.samples, steps * own.batch), tokens: memory.tokens };
  await sft(learner, task, options, { onStep: () => {}, save: () => {} });
}

async function runRl(
  learner: Learner,
  reference: Scorer | null,
  task: Task,
  { rl: own, memory, seed }: Recipe,
  ledger: Ledger,
  workers: number,
): Promise<void> {
  ledger.phase('rollout' satisfies Phase);
  let turn = 0;
  const scored: Task = {
    ...task,
    score: () => {
      ledger.phase('transport' satisfies Phase); // all responses are there
      turn = (turn + 3) % 7; // no two of a group alike: none is left out of the update
      return { total: turn / 7, parts: {} };
    },
  };
  // A plan of more prompts than fill the rows that are generated at once would say the same.
  const enough = workers * Math.max(EXAMPLES, Math.ceil(memory.rows / own.group));
  const options = {
    ...own,
    steps: 1,
    prompts: Math.min(own.prompts, enough),
    miniBatches: own.prompts > enough ? 1 : own.miniBatches,
    tokens: memory.tokens,
    rows: memory.rows,
  };
  await rl(learner, reference, scored, options, seed, {
    onStep: () => {},
    onCompletions: () => {},
    save: () => {},
  });
}

/** The longest of the first examples, in tokens and patches. */
export interface Lengths {
  readonly prompt: number;
  readonly patches: number;
  readonly trace: number;
}

/** Lengths of the first examples of a task. */
export async function lengthsOf(subject: Subject, task: Task, examples = EXAMPLES): Promise<Lengths> {
  const engine = new DryEngine({ device: subject.device, version: subject.version });
  const policy = emptyPolicy(engine, subject, { tuning: 'none' });
  const encoder = new PromptEncoder(policy);
  let most: Lengths = { prompt: 0, patches: 0, trace: 0 };
  for (let i = 0; i < examples; i++) {
    const example = task.example(i);
    const prompt = encoder.encode(await task.picture(example), task.instruction(example));
    const patches = prompt.images.reduce((sum, { rows, columns }) => sum + rows * columns, 0);
    most = {
      prompt: Math.max(most.prompt, prompt.ids.length),
      patches: Math.max(most.patches, patches),
      trace: Math.max(most.trace, policy.encodeResponse(task.trace(example)).length),
    };
  }
  return most;
}

/** A task that is asked everything once. */
export function remembered(task: Task): Task {
  const examples = new Map<number, Example>();
  const once = <T>(ask: (of: Example) => T): ((of: Example) => T) => {
    const known = new Map<string, T>();
    return (of) => {
      if (!known.has(of.id)) known.set(of.id, ask(of));
      return known.get(of.id)!;
    };
  };
  return {
    ...task,
    example: (index) => {
      if (!examples.has(index)) examples.set(index, task.example(index));
      return examples.get(index)!;
    },
    picture: once((of) => task.picture(of)),
    trace: once((of) => task.trace(of)),
  };
}
