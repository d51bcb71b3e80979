/**
 * Memory of a training stage, measured by running its first steps on libtorch's meta device, which allocates
 * nothing: the code that trains is the code that plans. The stage sees only examples that can make a peak;
 * responses have maximum length.
 */
import type { LogProbOptions, Tensor } from '../engine/engine.ts';
import { type Ledger, MetaEngine } from '../engine/torch/meta.ts';
import { getOrMake } from '../ground/maps.ts';
import { sum } from '../ground/numbers.ts';
import type { Example, Picture } from '../ground/types.ts';
import type { Inspection, InspectionState } from '../inspect/environment.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Tape } from '../policy/gradient-checkpointing.ts';
import type { WeightDType } from '../policy/layout.ts';
import { type Adapter, type AdapterOptions, adapterLayout } from '../policy/lora.ts';
import type { Dims } from '../policy/model-config.ts';
import { Policy, type PolicyOptions, type PolicyParts, Prompting } from '../policy/policy.ts';
import { type AdvantageDefinition, type AdvantageName, readsTraces } from './advantage.ts';
import { mostLessons } from './claim-credit.ts';
import { Learner } from './learner.ts';
import type { TokenLoss } from './loss.ts';
import { groupMicroBatches, microBatches, type Scorer, splitGroup } from './micro-batch.ts';
import type { OptimizerOptions, StepReport } from './optimizer.ts';
import { needsReference, type RlOptions, rl } from './rl.ts';
import { type SftOptions, sft } from './sft.ts';
import { behindPrompt, COST_ENTRIES, TRACE_TOKENS } from './similarity.ts';
import { PromptEncoder, type Task } from './task.ts';
import { WorkerGroup, workerGroupMemory } from './worker-group.ts';

export type TrainingStage = 'sft' | 'rl';

/** Parts of a step, in their order. */
export type Phase =
  | 'load'
  | 'rollout'
  | 'transport'
  | 'reference'
  | 'forward'
  | 'logits'
  | 'backward'
  | 'optimizer step'
  | 'weights'
  | 'checkpoint';

/** Policy to train, and its device. */
export interface PlannedPolicy {
  readonly parts: PolicyParts;
  /** Directory that the parts come from, for messages. */
  readonly from?: string;
  readonly dtype: WeightDType;
  readonly device: 'cpu' | 'cuda';
  /** Largest memory of a Worker where each has its own, with a copy of all that Workers share (tfjs), bytes. */
  readonly heap?: number;
}

/** Options of a training that its memory depends on; a recipe has them. */
export interface PlannedTraining {
  readonly seed: number;
  readonly policy: {
    readonly tune: 'all' | 'decoder' | 'adapter';
    readonly adapter: AdapterOptions;
  };
  readonly memory: {
    readonly tokens: number;
    readonly rows: number;
    readonly recompute: 'auto' | 'always' | 'never';
    readonly zero: 1 | 2 | 3;
  };
  readonly sft: Omit<SftOptions, 'tokens'> & OptimizerOptions & { readonly workers: number };
  readonly rl: Omit<RlOptions, 'advantage' | 'tokens' | 'rows' | 'schedule'> &
    OptimizerOptions & {
      readonly workers: number;
      /** Estimator by name; the address of a user's module is not loaded for a plan. */
      readonly advantage: AdvantageName | object;
    };
}

/** Stands for a user's estimator: it is taken to read traces, which needs the most memory. */
const ANY_ADVANTAGE: AdvantageDefinition = {
  name: 'user',
  similarity: true,
  advantages: (groups) => groups.map(({ rewards }) => rewards),
};

interface StageInput {
  readonly subject: PlannedPolicy;
  readonly stage: TrainingStage;
  readonly recipe: PlannedTraining;
  readonly task: Task;
  readonly recompute: boolean;
  /** Processes that share the stage, each with a copy of the weights; default: Workers of one process, as the recipe has them. */
  readonly processes?: number | undefined;
  /** Has read some of the task for another dry run with this tokenizer; a new one when absent. */
  readonly reader?: ExampleReader;
}

/** Bytes that stay from beginning to end. */
export interface Held {
  readonly weights: number;
  readonly reference: number;
  readonly adapter: number;
  readonly master: number;
  readonly moments: number;
  /** Weights prepared for products by tfjs: those that are trained forward and transposed, those of the reference forward. */
  readonly prepared: number;
  /** Per worker; everything else is shared by the workers. */
  readonly gradients: number;
}

/** Phases in which weights may be in shares. */
export const UPDATE: ReadonlySet<Phase> = new Set<Phase>(['forward', 'logits', 'backward', 'optimizer step']);

export interface StageMeasure {
  readonly stage: TrainingStage;
  readonly recompute: boolean;
  readonly workers: number;
  /** True: bytes are those of one worker, each of which has a memory of its own. */
  readonly perWorker: boolean;
  /** Where such workers are: processes, of which the first is planned, or Workers of tfjs. */
  readonly place: 'process' | 'Worker';
  readonly held: Held;
  /** Bytes of the weights that are in shares in the phases of an update: ZeRO 3. */
  readonly shared: number;
  /** Largest of each phase, bytes: what is held included, of all workers together unless `perWorker`. */
  readonly phases: ReadonlyMap<Phase, number>;
  /** Activations that a worker keeps for the backward pass of its longest micro-batch, bytes. */
  readonly activations: number;
  readonly peak: number;
  /** The phase of the peak. */
  readonly at: Phase;
}

// ---- examples that can make a peak of memory -----------------------------------------------------------------------

/** Examples of the data that a plan looks at, unless its rows, micro-batches or transport take more together. */
export const EXAMPLES = 64;

/** An example and what the policy reads of it. */
interface PlannedExample {
  readonly example: Example;
  readonly picture: Picture | null;
  readonly prompt: EncodedPrompt;
  readonly text: string;
  /** Tokens of `text`, end token included. */
  readonly trace: Int32Array;
}

/** Encodes each text once. Pictures count by size alone: prompts that differ only in pixels are copies of one, which a rollout encodes each. */
class RememberingPrompting extends Prompting {
  readonly prompts = new Map<string, EncodedPrompt>();
  readonly responses = new Map<string, Int32Array>();

  override encodePrompt(text: string, pictures: readonly Picture[]): EncodedPrompt {
    const key = [...pictures.map(({ width, height }) => `${width}x${height}`), text].join(' ');
    return { ...getOrMake(this.prompts, key, () => super.encodePrompt(text, pictures)) };
  }

  override encodeResponse(text: string): Int32Array {
    return getOrMake(this.responses, text, () => super.encodeResponse(text));
  }
}

/** Reads the first examples of a task as a policy would, each once, for all dry runs of it. */
export class ExampleReader {
  readonly prompting: RememberingPrompting;
  readonly #task: Task;
  readonly #encoder: PromptEncoder;
  readonly #examples: PlannedExample[] = [];

  /** `from`: the directory that the parts come from, for messages. */
  constructor({ parts, from }: { readonly parts: PolicyParts; readonly from?: string }, task: Task) {
    this.#task = task;
    this.prompting = new RememberingPrompting(parts, from);
    this.#encoder = new PromptEncoder(this.prompting);
  }

  async first(count: number): Promise<readonly PlannedExample[]> {
    const task = this.#task;
    while (this.#examples.length < count) {
      const example = task.example(this.#examples.length);
      const picture = await task.picture(example);
      const prompt =
        task.turns === undefined
          ? this.#encoder.encode(picture, task.instruction(example))
          : await this.#encoder.encodeExample(task, example);
      const text = task.trace(example);
      this.#examples.push({ example, picture, prompt, text, trace: this.prompting.encodeResponse(text) });
    }
    return this.#examples.slice(0, count);
  }

  /** The task with these examples alone. */
  taskOf(examples: readonly PlannedExample[]): Task {
    const byExample = new Map(examples.map((planned) => [planned.example, planned]));
    const { episodes } = this.#task;
    const longest = (example: Example) => longestEpisode(episodes!.open(example));
    return {
      ...this.#task,
      ...(episodes === undefined ? {} : { episodes: { ...episodes, open: longest } }),
      example: (index) => examples[index]!.example,
      picture: (example) => byExample.get(example)!.picture,
      instruction: (example) => this.#task.instruction(example),
      trace: (example) => byExample.get(example)!.text,
    };
  }
}

/** An inspection that takes every turn whatever the responses are, each but the last with the picture of the whole series. */
const longestEpisode = (inspection: Inspection): Inspection =>
  new Proxy(inspection, {
    get(target, name) {
      if (name === 'step') {
        return (state: InspectionState) =>
          target.step(state, state.turn + 1 < target.turns ? target.longestCall : '');
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

/** The longest of some examples, in tokens and patches. */
export interface Lengths {
  readonly prompt: number;
  readonly patches: number;
  readonly trace: number;
}

const patchesOf = ({ images }: EncodedPrompt): number =>
  sum(images.map(({ rows, columns }) => rows * columns));

const largest = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), 0);

export function lengthsOf(examples: readonly PlannedExample[]): Lengths {
  return {
    prompt: largest(examples.map(({ prompt }) => prompt.ids.length)),
    patches: largest(examples.map(({ prompt }) => patchesOf(prompt))),
    trace: largest(examples.map(({ trace }) => trace.length)),
  };
}

/** Those of some items that no other one exceeds or equals in every extent. */
export function undominated<T>(items: readonly T[], extentsOf: (item: T) => readonly number[]): T[] {
  const kept: { readonly item: T; readonly extents: readonly number[] }[] = [];
  const within = (a: readonly number[], b: readonly number[]): boolean => a.every((x, i) => x <= b[i]!);
  for (const item of items) {
    const extents = extentsOf(item);
    if (kept.some((rival) => within(extents, rival.extents))) continue;
    kept.splice(0, kept.length, ...kept.filter((rival) => !within(rival.extents, extents)), {
      item,
      extents,
    });
  }
  return kept.map(({ item }) => item);
}

/** Pieces of the first steps of supervised fine-tuning, as one of its workers takes them. */
function supervisedMicroBatches(
  examples: readonly PlannedExample[],
  { samples, batch }: Pick<SftOptions, 'samples' | 'batch'>,
  workers: number,
  tokens: number,
): PlannedExample[][] {
  const batches: PlannedExample[][] = [];
  const length = ({ prompt, trace }: PlannedExample): number => prompt.ids.length + trace.length - 1;
  const end = Math.min(samples, examples.length);
  for (let first = 0; first < end; first += batch) {
    const count = Math.ceil(Math.min(batch, samples - first) / workers);
    const share = examples.slice(first, first + count);
    batches.push(...microBatches(share, (example) => [length(example)], tokens));
  }
  return undominated(batches, (microBatch) => [
    microBatch.length,
    largest(microBatch.map(length)),
    sum(microBatch.map(length)),
    sum(microBatch.map(({ trace }) => trace.length)),
    sum(microBatch.map(({ prompt }) => patchesOf(prompt))),
  ]);
}

/** Prompts of a planned reinforcement step. */
interface PlannedGroups {
  /** The longest prompts first: as many as are sampled, or transported, at once, or make its micro-batches. */
  readonly examples: readonly PlannedExample[];
  /** Number of examples, from the first, that take part in the update. */
  readonly trained: number;
}

interface GroupSizes {
  readonly group: number;
  readonly maxTokens: number;
  /** Responses that are sampled side by side. */
  readonly rows: number;
  /** Tokens of a micro-batch. */
  readonly tokens: number;
  /** True if responses are compared with traces. */
  readonly grounded: boolean;
  /** True if traces are encoded behind their prompts. */
  readonly behind: boolean;
  /** True if a teacher sees the traces. */
  readonly distilled: boolean;
  /** Lessons of a group, at most. */
  readonly taught: number;
}

/** Prompts that are in the policy at the same time, at most: of those, more would say the same. */
function promptsAtOnce({
  group,
  maxTokens,
  rows,
  tokens,
}: Pick<GroupSizes, 'group' | 'maxTokens' | 'rows' | 'tokens'>): number {
  return Math.max(EXAMPLES, Math.floor(rows / group), Math.ceil(tokens / (group * maxTokens)));
}

export function plannedGroups(examples: readonly PlannedExample[], sizes: GroupSizes): PlannedGroups {
  const { group, maxTokens, rows, tokens, grounded, behind, distilled, taught } = sizes;
  const sorted = [...examples].sort(
    (a, b) =>
      b.prompt.ids.length - a.prompt.ids.length ||
      patchesOf(b.prompt) - patchesOf(a.prompt) ||
      b.trace.length - a.trace.length,
  );
  const ids = new Int32Array(maxTokens);
  const responses = Array.from({ length: group }, (_, sample) => ({
    ...{ prompt: 0, sample, ids, text: '', finished: false },
    ...{ logProbs: new Float32Array(0), hidden: new Float32Array(0) },
  }));
  const advantage = responses.map(() => 0);
  const lessons = Array.from({ length: taught }, () => ({
    ids,
    weights: new Float32Array(maxTokens),
    choices: new Map(),
  }));
  const parts = sorted.flatMap(({ prompt, trace }, place) =>
    splitGroup(
      {
        ...{ prompt, responses, advantage, lessons, place },
        told: distilled ? prompt.ids.length + trace.length : 0,
      },
      tokens,
    ),
  );
  const telling = undominated(groupMicroBatches(parts, tokens), (microBatch) => [
    microBatch.length,
    sum(microBatch.map((part) => part.responses.length + part.lessons.length)),
    largest(microBatch.map(({ prompt }) => prompt.ids.length)),
    sum(microBatch.map(({ prompt }) => prompt.ids.length)),
    sum(microBatch.map(({ prompt }) => patchesOf(prompt))),
    microBatch.length * largest(microBatch.map(({ told }) => told)),
    sum(microBatch.map(({ told }) => told)),
  ]);
  const trained = 1 + largest(telling.flat().map(({ place }) => place));
  const shortest = sorted.reduce((least, { trace }) => Math.min(least, trace.length), TRACE_TOKENS);
  const transported = grounded ? Math.floor(COST_ENTRIES / (group * maxTokens * shortest)) : 0;
  const encoded = behind
    ? undominated(
        microBatches([...sorted.entries()], ([, { prompt, trace }]) => behindPrompt(prompt, [trace]), tokens),
        (microBatch) => [
          microBatch.length,
          largest(microBatch.map(([, { prompt }]) => prompt.ids.length)),
          largest(microBatch.map(([, { trace }]) => trace.length)),
          sum(microBatch.map(([, { prompt }]) => patchesOf(prompt))),
        ],
      )
    : [];
  const contextual = 1 + largest(encoded.flat().map(([place]) => place));
  const count = Math.max(trained, Math.floor(rows / group), transported, contextual);
  return { examples: sorted.slice(0, count), trained };
}

// ---- what stands in for the parts of a training --------------------------------------------------------------------

/** A policy without elements, whose texts are encoded once for all. */
class EmptyPolicy extends Policy {
  /** False, because responses may have nothing in common. */
  readonly branching = false;
  readonly #prompting: RememberingPrompting;

  constructor(
    engine: MetaEngine,
    subject: PlannedPolicy,
    prompting: RememberingPrompting,
    options: PolicyOptions,
  ) {
    super(engine, subject.parts, (layout) => engine.zeros([layout.size], subject.dtype), options);
    this.#prompting = prompting;
  }

  override encodePrompt(text: string, pictures: readonly Picture[]): EncodedPrompt {
    return this.#prompting.encodePrompt(text, pictures);
  }

  override encodeResponse(text: string): Int32Array {
    return this.#prompting.encodeResponse(text);
  }
}

function emptyAdapter(engine: MetaEngine, dims: Dims, options: AdapterOptions): Adapter {
  return { options, flat: engine.zeros([adapterLayout(dims, options).size]) };
}

/** Rank 0 of a group that is not there. Its share is the largest by AdamW; by Muon others may hold a matrix more. */
export class OneOfMany extends WorkerGroup {
  override readonly sharesMemory: boolean;

  constructor(size: number, sharesMemory: boolean) {
    super(workerGroupMemory(size), 0, size);
    this.sharesMemory = sharesMemory;
  }

  override gatherTensor(): () => void {
    return () => {};
  }

  override broadcastTensor(): () => void {
    return () => {};
  }

  override barrier(): void {}

  override allGather(values: readonly number[]): Float64Array[] {
    return Array.from({ length: this.size }, () => Float64Array.from(values));
  }

  override shard(n: number): readonly [start: number, end: number] {
    return [0, Math.ceil(n / this.size)];
  }
}

/** A learner that says which part of a step begins. */
export class WatchedLearner extends Learner {
  readonly #ledger: Ledger;
  /** Bytes held throughout. */
  readonly held: number;
  /** Largest that was kept for a backward pass, bytes. */
  activations = 0;
  /** Bytes before the forward pass of the micro-batch. */
  #before = 0;

  constructor(
    policy: Policy,
    workers: WorkerGroup,
    options: OptimizerOptions,
    recompute: boolean,
    zero: 1 | 2 | 3,
    ledger: Ledger,
  ) {
    super(policy, workers, options, recompute, { zero });
    this.#ledger = ledger;
    this.held = ledger.now;
  }

  override tape(): Tape | undefined {
    this.#ledger.phase('forward' satisfies Phase);
    this.#before = this.#ledger.now;
    return super.tape();
  }

  override accumulate(microBatches: readonly (() => void)[], passes?: number): void {
    if (this.shared > 0) this.#ledger.phase('weights' satisfies Phase); // they are shared out
    super.accumulate(microBatches, passes);
  }

  protected override restore(): void {
    if (this.shared > 0) this.#ledger.phase('weights' satisfies Phase); // and collected
    super.restore();
  }

  override backward(
    states: Tensor,
    targets: Int32Array,
    options: LogProbOptions,
    loss: TokenLoss,
    tape?: Tape,
  ): void {
    this.activations = Math.max(this.activations, this.#ledger.now - this.#before);
    this.#ledger.phase('logits' satisfies Phase); // until the gradient goes on from the states
    super.backward(states, targets, options, loss, tape);
  }

  override discard(): void {
    super.discard();
    this.#ledger.phase('rollout' satisfies Phase);
  }

  override update(tokens: number, learningRate: number): StepReport {
    this.#ledger.phase('optimizer step' satisfies Phase);
    return super.update(tokens, learningRate);
  }

  override save(write: () => void): void {
    this.#ledger.phase('checkpoint' satisfies Phase);
    this.optimizer.sendState(); // nothing is written
    super.save(write);
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

// ---- the first steps of a stage ------------------------------------------------------------------------------------

interface DryRun {
  readonly learner: Learner;
  readonly reader: ExampleReader;
  readonly recipe: PlannedTraining;
  readonly ledger: Ledger;
  readonly workers: number;
}

const SILENT = { onStep: () => {}, onCompletions: () => {}, save: () => {} };

/** A step of each micro-batch that tells something: the buffers of the optimiser are there before the first. */
async function runSft({ learner, reader, recipe, ledger, workers }: DryRun): Promise<void> {
  ledger.phase('forward' satisfies Phase);
  const { sft: sftOptions, memory } = recipe;
  const steps = Math.max(1, Math.ceil(EXAMPLES / sftOptions.batch));
  const examples = await reader.first(Math.min(sftOptions.samples, steps * sftOptions.batch));
  for (const microBatch of supervisedMicroBatches(examples, sftOptions, workers, memory.tokens)) {
    const batch = microBatch.length * workers;
    const options = { ...sftOptions, samples: batch, batch, tokens: memory.tokens };
    await sft(learner, reader.taskOf(microBatch), options, SILENT);
  }
}

/** Responses without a claim. */
const UNTEACHABLE: Pick<Task, 'claims' | 'counterfactual'> = {
  claims: () => ({ claims: [], f1: null }),
  counterfactual: () => null,
};

/** Responses that can all be corrected at their ends, and moved as a whole. */
const TEACHABLE: Pick<Task, 'claims' | 'counterfactual'> = {
  claims: (text) => {
    const lacks = { fact: '', span: [text.length, text.length], holds: false, correction: '.' } as const;
    return { claims: [], amendments: [lacks], f1: null };
  },
  counterfactual: (text) => ({ text, answer: [0, text.length], open: [] }),
};

/** Runs one step; later ones are alike. */
async function runRl(
  { learner, reader, recipe, ledger, workers }: DryRun,
  reference: Scorer | null,
): Promise<void> {
  ledger.phase('rollout' satisfies Phase);
  const { rl: rlOptions, memory, seed } = recipe;
  const advantage = typeof rlOptions.advantage === 'string' ? rlOptions.advantage : ANY_ADVANTAGE;
  const grounded = readsTraces({ ...rlOptions, advantage });
  const { context, gatesEvery } = rlOptions.timerpo;
  const behind = grounded && (context === 'prompt' || gatesEvery > 0);
  const sizes = { ...rlOptions, ...memory, grounded, behind, distilled: rlOptions.distillation.weight > 0 };
  const share = Math.ceil(rlOptions.prompts / workers);
  const many = promptsAtOnce(sizes);
  // Mini-batches of few prompts are smaller than micro-batches: which prompts fall into which then counts.
  const divided = rlOptions.miniBatches > 1 && share <= many;
  const read = await reader.first(Math.min(share, many));
  const most = grounded && rlOptions.timerpo.similarity === 'truth' ? mostLessons(rlOptions.timerpo) : 0;
  // Without lessons a micro-batch has more groups.
  for (const taught of most === 0 ? [0] : [0, most]) await runStep(taught);

  async function runStep(taught: number): Promise<void> {
    const { examples, trained } = divided
      ? { examples: read, trained: read.length }
      : plannedGroups(read, { ...sizes, taught });
    const task = reader.taskOf(examples);
    const telling = new Set(examples.slice(0, trained).map(({ example }) => example));
    let turn = 0;
    const scored: Task = {
      ...task,
      weights: { turn: 1 },
      ...(most === 0 ? {} : taught === 0 ? UNTEACHABLE : TEACHABLE),
      score: (_, example) => {
        ledger.phase('transport' satisfies Phase); // all responses are there
        turn = (turn + 3) % 7; // no two of a group alike: such a group is not left out of the update
        const total = telling.has(example) ? turn / 7 : 0;
        return { total, parts: { turn: total } };
      },
    };
    const options = {
      ...rlOptions,
      advantage,
      steps: 1,
      prompts: examples.length * workers,
      miniBatches: divided ? rlOptions.miniBatches : 1,
      epochs: rlOptions.epochs * rlOptions.miniBatches > 1 ? 2 : 1,
      tokens: memory.tokens,
      rows: memory.rows,
      resample: 0, // a replacement needs no more than what it replaces
      schedule: { abridged: true },
    };
    await rl(learner, reference, scored, options, seed, SILENT);
  }
}

/** The ledger's first phase, which is none of a step's. */
const BEGIN = 'begin';

const size = ({ shape, dtype }: Tensor): number => shape[0]! * (dtype === 'bfloat16' ? 2 : 4);

/** Runs the first steps of a stage without elements. */
export async function dryRun(input: StageInput): Promise<StageMeasure> {
  const { subject, stage, recipe, task, recompute } = input;
  const engine = new MetaEngine(subject.device);
  const { ledger } = engine;
  ledger.phase('load' satisfies Phase);
  const { tune } = recipe.policy;
  const { reader = new ExampleReader(subject, task) } = input;
  const options =
    tune === 'adapter'
      ? { adapter: (dims: Dims) => emptyAdapter(engine, dims, recipe.policy.adapter) }
      : { tuning: tune };
  const policy = new EmptyPolicy(engine, subject, reader.prompting, options);
  // Sampled tokens end nothing, and the text of each is that token again, so that lessons are as long as responses.
  const usable = policy.forbidden.findIndex((penalty, id) => {
    if (penalty !== 0 || id === policy.dims.special.end) return false;
    const [again, ...more] = policy.tokenizer.encode(policy.tokenizer.decode([id, id]));
    return again === id && more.length === 1;
  });
  engine.integer = usable >= 0 ? usable : policy.forbidden.indexOf(0);
  const referred = needsReference(recipe.rl);
  const separate = stage === 'rl' && referred && policy.adapter === null;
  const reference = separate ? new EmptyPolicy(engine, subject, reader.prompting, { tuning: 'none' }) : null;
  const stageOptions = recipe[stage];
  const wanted = stage === 'sft' ? recipe.sft.batch : recipe.rl.prompts;
  const { processes } = input;
  const workers = Math.max(1, Math.min(processes ?? stageOptions.workers, wanted));
  ledger.phase(BEGIN); // buffers of the optimiser stay: every phase after this has them
  const learner = new WatchedLearner(
    policy,
    new OneOfMany(workers, processes === undefined),
    stageOptions,
    recompute,
    recipe.memory.zero,
    ledger,
  );
  engine.onBackward = () => ledger.phase('backward' satisfies Phase);
  const run: DryRun = { learner, reader, recipe, ledger, workers };
  if (stage === 'sft') await runSft(run);
  else {
    const scorer = reference ?? { ...policy.withoutAdapter, forbidden: policy.forbidden };
    await runRl(run, referred ? watched(scorer, ledger) : null);
  }

  const { master, ...moments } = learner.optimizer.buffers;
  const ofHeap = subject.heap !== undefined;
  const perWorker = ofHeap || processes !== undefined;
  const weights = size(policy.flat);
  const referenceWeights = reference === null ? 0 : size(reference.flat);
  const held: Held = {
    weights,
    reference: referenceWeights,
    adapter: policy.adapter === null ? 0 : size(policy.adapter.flat),
    master: master === undefined ? 0 : size(master),
    moments: sum(Object.values(moments).map(size)),
    prepared: ofHeap ? 2 * weights + referenceWeights : 0,
    gradients: learner.optimizer.gradients.bytes,
  };
  const shared = held.weights + held.reference + held.adapter + held.master + held.moments;
  const together = (bytes: number): number =>
    perWorker
      ? bytes + held.prepared + (ofHeap ? (workers - 1) * held.gradients : 0)
      : shared + workers * Math.max(0, bytes - shared);
  const inShares = learner.shared * (policy.dtype === 'bfloat16' ? 2 : 4);
  const phases = new Map<Phase, number>();
  for (const [name, mark] of ledger.peaks()) {
    const least = learner.held - (UPDATE.has(name as Phase) ? inShares : 0);
    if (name === BEGIN || (name !== 'load' && mark.bytes <= least)) continue;
    phases.set(name as Phase, name === 'load' ? mark.bytes : together(mark.bytes));
  }
  const [at, peak] = [...phases].reduce((most, phase) => (phase[1] > most[1] ? phase : most));
  const { activations } = learner;
  learner.optimizer.dispose();
  reference?.dispose();
  policy.dispose();
  const place = ofHeap ? 'Worker' : 'process';
  return {
    stage,
    recompute,
    workers,
    perWorker,
    place,
    held,
    shared: inShares,
    phases,
    activations,
    peak,
    at,
  };
}
