/**
 * Training in the thread that calls, for programs: examples, rewards, advantage estimators and callbacks are values. The loops are those of runs
 * (`train/sft.ts`, `train/rl.ts`); what a run adds is left out: Workers, checkpoints to resume from, evaluation while it trains, adapters.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TaskDefinition, taskExamples } from '../../datasets/define.ts';
import { type ExampleSource, exampleValues, openExamples } from '../../datasets/source.ts';
import {
  type RewardDefinition,
  type RewardOutcome,
  type RewardRequest,
  rewardOf,
  scoresBy,
} from '../../rewards/define.ts';
import { type NamedReward, namedReward } from '../../rewards/registry.ts';
import { combine, combinedWeights } from '../../rewards/reward.ts';
import { openEngine, prepareEngine } from '../answer/local.ts';
import { findPolicy } from '../answer/reference.ts';
import { learnClasses } from '../expcot/class-profile.ts';
import { ConfigError } from '../ground/errors.ts';
import { writeManifestedDirectory } from '../ground/manifest.ts';
import type { Example, Score } from '../ground/types.ts';
import { isModuleSpecifier } from '../ground/user-module.ts';
import { builtInDims, isBuiltIn } from '../policy/model-config.ts';
import { Policy } from '../policy/policy.ts';
import { recipeOf } from '../recipe/config.ts';
import type { Recipe, RlRecipe, SftRecipe } from '../recipe/recipe.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { type AdvantageDefinition, defineAdvantage } from '../train/advantage.ts';
import { writeTrained } from '../train/checkpoint.ts';
import { Learner } from '../train/learner.ts';
import type { Completion, RlMetrics, SftMetrics } from '../train/metrics.ts';
import { needsReference, rl } from '../train/rl.ts';
import { sft } from '../train/sft.ts';
import type { Task } from '../train/task.ts';
import { MetricsLog } from '../train/tensorboard.ts';
import { requestStop, WorkerGroup, workerGroupMemory } from '../train/worker-group.ts';
import {
  nanoCard,
  sourceTask,
  stageExamples,
  type TrainingTask,
  trainingCard,
  trainingTask,
} from './policy-task.ts';
import { taskTokenizer } from './run-policy.ts';

/** Keys of a recipe's stage that need a run. */
const OF_RUNS = [
  ...['workers', 'checkpointEvery', 'evalEvery', 'evalSeries', 'keep', 'patience', 'output', 'levels'],
] as const;
type OfRuns = (typeof OF_RUNS)[number];

interface StageOptions {
  /** Start: `nano` or `small` (random weights), or the directory of a policy or a run. Default: `nano`. */
  readonly policy?: string;
  /** A generator (`nano5`), a data set directory, examples of one task, or a task made with `defineTask`. */
  readonly examples: string | readonly Example[] | TaskDefinition;
  /** Figure preset, as `figure` of a recipe. Default: `nano`. */
  readonly figure?: string;
  /** Seed of weights, order and sampling. Default: 42. */
  readonly seed?: number;
  /** `cpu` (default), `cuda` or `cuda:N`. */
  readonly device?: string;
  /** Threads of one operation on a CPU. Default: 1. */
  readonly threads?: number;
  /** Directory that receives `sft/` or `rl/` with `policy` and `metrics.jsonl`. Default: a temporary one, removed when the process ends. */
  readonly out?: string;
  /** Stops after the step in flight; the policy of that step is kept. */
  readonly signal?: AbortSignal;
}

/** Options of `sft`: keys of `sft` in a recipe, and those of the stage. */
export type SftRequest = StageOptions &
  Partial<Omit<SftRecipe, OfRuns>> & {
    /** Called after every step with its metrics. */
    readonly onStep?: (metrics: SftMetrics) => void;
  };

/** A function that scores one response. */
export type RewardFunction = (request: RewardRequest) => RewardOutcome | Promise<RewardOutcome>;
/** A reward as a function, as `defineReward` made it, or by name (`task`, `format`, …). */
export type RewardValue = RewardFunction | RewardDefinition | string;
/** A reward with its weight. */
export interface WeightedReward {
  readonly use: RewardValue;
  readonly weight: number;
}

/** Options of `rl`: keys of `rl` in a recipe, and those of the stage. */
export type RlRequest = StageOptions &
  Partial<Omit<RlRecipe, OfRuns | 'advantage' | 'reward'>> & {
    /** One reward, or several; their weighted mean is maximised. Default: `task`, the reward of the answer kind. */
    readonly reward?: RewardValue | readonly (RewardValue | WeightedReward)[];
    /** Advantage estimator by name, or one made with `defineAdvantage`. Default: `timerpo`. */
    readonly advantage?: Exclude<RlRecipe['advantage'], object> | AdvantageDefinition;
    /** Called after every step with its metrics. */
    readonly onStep?: (metrics: RlMetrics) => void;
    /** Called after every step with the responses to its first prompt. */
    readonly onCompletions?: (completions: readonly Completion[]) => void;
  };

/** A trained policy. */
export interface TrainedPolicy {
  /** Directory of the policy, for `openPolicy`, `rl`, `evaluate` and the command line. */
  readonly policy: string;
  /** Number of steps that are done: fewer than asked for where the signal stopped it. */
  readonly steps: number;
}

const STAGE_KEYS = ['policy', 'examples', 'figure', 'seed', 'device', 'threads', 'out', 'signal', 'onStep'];

/** The recipe of a request, whose stage keys stand beside its own. @throws ConfigError for an unknown key or a wrong value */
function requestRecipe(stage: 'sft' | 'rl', given: StageOptions, others: readonly string[]): Recipe {
  const keys = Object.entries(given).filter(
    ([key, value]) => value !== undefined && !STAGE_KEYS.includes(key) && !others.includes(key),
  );
  const misplaced = keys.find(([key]) => (OF_RUNS as readonly string[]).includes(key));
  if (misplaced !== undefined) {
    throw new ConfigError(`${stage}(): ${misplaced[0]}: belongs to runs; train with runRecipe() to use it`);
  }
  const { policy = 'nano', examples, figure, seed, signal } = given;
  if (typeof examples !== 'string' && (typeof examples !== 'object' || examples === null)) {
    throw new ConfigError(
      `${stage}(): examples: expected a name, a list of examples or a task made with defineTask`,
    );
  }
  for (const name of ['onStep', 'onCompletions'] as const) {
    const callback = (given as { readonly [key in typeof name]?: unknown })[name];
    if (callback !== undefined && typeof callback !== 'function') {
      throw new ConfigError(`${stage}(): ${name}: expected a function`);
    }
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new ConfigError(`${stage}(): signal: expected an AbortSignal`);
  }
  return recipeOf(
    {
      ...(seed === undefined ? {} : { seed }),
      ...(figure === undefined ? {} : { figure }),
      ...(typeof examples === 'string' ? { data: { name: examples } } : {}),
      policy: { init: policy },
      [stage]: { ...Object.fromEntries(keys), workers: 1 },
      // A small policy may not be taught classes by reinforcement alone.
      ...(stage === 'rl' ? { sft: { samples: 0 } } : { rl: { steps: 0 } }),
    },
    `${stage}()`,
  );
}

/** Everything that a stage trains with. */
interface Workplace {
  readonly policy: Policy;
  readonly card: PolicyCard;
  readonly task: TrainingTask;
  /** Directory of the policy that the stage begins with; null for random weights. */
  readonly from: string | null;
}

async function openWorkplace(
  stage: 'sft' | 'rl',
  { examples, device = 'cpu', threads = 1 }: StageOptions,
  recipe: Recipe,
): Promise<Workplace> {
  const { seed, policy: start } = recipe;
  const named = typeof examples === 'string';
  const address = stageExamples(stage, recipe);
  const source: ExampleSource = named
    ? openExamples(address)
    : 'examples' in examples
      ? await taskExamples(examples, seed)
      : exampleValues(examples);
  const from = isBuiltIn(start.init) ? null : findPolicy(start.init);
  const { facts } = source;
  const card = from === null ? nanoCard(recipe, facts) : trainingCard(from, recipe, facts);
  const profile = taskKind(facts.kind).learnsClasses && !named ? learnClasses(source) : null;
  const grading = {
    reading: recipe.answers,
    reward: recipe.rl.reward,
    ...(stage === 'sft' ? { augment: recipe.sft.augment } : {}),
  };
  const task = named
    ? trainingTask(card, address, stage, grading)
    : sourceTask(card, source, { name: facts.task, seed, stage, profile: () => profile, ...grading });
  await prepareEngine(device);
  const engine = openEngine(device, threads);
  const policy =
    from === null
      ? Policy.create(engine, { tokenizer: taskTokenizer(task), seed, dims: builtInDims(start.init) })
      : Policy.load(engine, from, { dtype: start.dtype, tuning: 'all' });
  return { policy, card: { ...card, stage }, task, from };
}

/** Directories that are removed when the process ends, by one listener however many there are. */
const temporaries: string[] = [];

function temporaryDirectory(): string {
  if (temporaries.length === 0) {
    process.once('exit', () => {
      for (const directory of temporaries) rmSync(directory, { recursive: true, force: true });
    });
  }
  const temporary = mkdtempSync(join(tmpdir(), 'timeseer-'));
  temporaries.push(temporary);
  return temporary;
}

/** Directory of a stage that does not exist yet. @throws ConfigError where it is there */
function stageDirectory(stage: 'sft' | 'rl', out: string | undefined): string {
  if (out === undefined) return join(temporaryDirectory(), stage);
  const directory = join(out, stage);
  if (!existsSync(directory)) return directory;
  throw new ConfigError(
    `${stage}(): out: ${directory} exists already; remove it or choose another directory`,
  );
}

/** The task with a turn of the event loop before every picture, so that timers and signals get through. */
const yielding = <T extends Task>(task: T): T => ({
  ...task,
  picture: async (example: Example) => {
    await new Promise(setImmediate);
    return task.picture(example);
  },
});

async function trainIn(
  stage: 'sft' | 'rl',
  given: StageOptions,
  recipe: Recipe,
  loop: (workplace: Workplace, learner: Learner, log: MetricsLog) => Promise<number>,
): Promise<TrainedPolicy> {
  const directory = stageDirectory(stage, given.out);
  const workplace = await openWorkplace(stage, given, recipe);
  const { policy, card } = workplace;
  const memory = workerGroupMemory(1);
  const stop = (): void => requestStop(memory);
  given.signal?.addEventListener('abort', stop);
  if (given.signal?.aborted === true) stop();
  const learner = new Learner(policy, new WorkerGroup(memory, 0, 1), recipe[stage]);
  try {
    const steps = await loop(workplace, learner, new MetricsLog(stage, directory, 0));
    const output = join(directory, 'policy');
    writeManifestedDirectory(output, (temporary) => writeTrained(temporary, policy, card));
    return { policy: output, steps };
  } finally {
    given.signal?.removeEventListener('abort', stop);
    learner.optimizer.dispose();
    policy.dispose();
  }
}

const nothing = (): void => {};

/** Supervised fine-tuning on expert traces. @throws ConfigError, DataError, CheckpointError, EngineError; and what a callback throws */
export async function trainSupervised(given: SftRequest): Promise<TrainedPolicy> {
  const recipe = requestRecipe('sft', given, []);
  const { onStep = nothing } = given;
  return trainIn('sft', given, recipe, ({ task }, learner, log) =>
    sft(
      learner,
      yielding(task),
      { ...recipe.sft, tokens: recipe.memory.tokens },
      {
        save: nothing,
        onStep: (metrics) => {
          log.append(metrics);
          onStep(metrics);
        },
      },
    ),
  );
}

/** The task with its reward replaced by those of a request. @throws ConfigError for a reward that is none */
function rewardedBy(
  given: RlRequest['reward'],
  task: TrainingTask,
  recipe: Recipe,
  kind: PolicyCard['kind'],
): Task {
  if (given === undefined) return task;
  const list = Array.isArray(given)
    ? (given as readonly (RewardValue | WeightedReward)[])
    : [given as RewardValue];
  const kindReward = taskKind(kind).reward;
  const members = list.map((entry) => {
    const weighted = typeof entry === 'object' && 'use' in entry ? entry : { use: entry, weight: 1 };
    const { use, weight } = weighted;
    if (typeof weight !== 'number' || !(weight >= 0))
      throw new ConfigError(`rl(): reward: weight: got ${String(weight)}, expected a number from 0`);
    if (typeof use === 'string' && isModuleSpecifier(use)) {
      throw new ConfigError(`rl(): reward: ${use}: give the function itself, or train with runRecipe()`);
    }
    // A function written in place has the name of its key.
    const reward =
      typeof use === 'string'
        ? namedReward(use, kindReward)
        : rewardOf(
            typeof use === 'function' && use.name === 'use' ? { name: 'reward', score: use } : use,
            'rl()',
          );
    return { reward, weight };
  });
  const combined = members.map(({ reward, weight }) => ({
    ...{ name: reward.name, weight },
    weights: 'weights' in reward ? reward.weights : null,
  }));
  if (!members.some(({ weight }) => weight > 0))
    throw new ConfigError('rl(): reward: at least one weight above 0');
  const scoreBy = async (
    reward: NamedReward | RewardDefinition,
    text: string,
    example: Example,
  ): Promise<Score | null> => {
    const answer = task.parse(text, example);
    const { gold, channels } = example;
    if ('weights' in reward) {
      const context = { ...recipe.rl.reward, reasoning: () => task.grader(example) };
      return reward.score(answer, gold, channels[0]!.length, context);
    }
    const [score] = await scoresBy(reward, [{ text, answer, example, gold }], { file: 'rl()' });
    if (score instanceof Error) throw score;
    return score ?? null;
  };
  return {
    ...task,
    weights: combinedWeights(combined),
    hosted: true,
    score: async (text, example) =>
      combine(combined, await Promise.all(members.map(({ reward }) => scoreBy(reward, text, example)))),
  };
}

/** Reinforcement learning. @throws as `trainSupervised`; RewardError and AdvantageError from functions of the user */
export async function trainByReinforcement(given: RlRequest): Promise<TrainedPolicy> {
  const { advantage, reward, onStep = nothing, onCompletions = nothing } = given;
  const named = typeof advantage === 'string' || advantage === undefined;
  const keys = ['reward', 'onCompletions', ...(named ? [] : ['advantage'])];
  const recipe = requestRecipe('rl', given, keys);
  const estimator = named
    ? (recipe.rl.advantage as Exclude<typeof recipe.rl.advantage, object>)
    : defineAdvantage(advantage);
  return trainIn('rl', given, recipe, async ({ policy, card, task, from }, learner, log) => {
    const wanted = needsReference(recipe.rl);
    if (wanted && from === null) {
      throw new ConfigError(
        'rl(): a reference policy (kl, distillation) needs a policy that is trained already; give policy a directory',
      );
    }
    const reference = wanted
      ? Policy.load(policy.engine, from!, { dtype: policy.dtype, tuning: 'none' })
      : null;
    try {
      return await rl(
        learner,
        reference,
        rewardedBy(reward, yielding(task), recipe, card.kind),
        { ...recipe.rl, advantage: estimator, tokens: recipe.memory.tokens, rows: recipe.memory.rows },
        recipe.seed,
        {
          save: nothing,
          onStep: (metrics) => {
            log.append(metrics);
            onStep(metrics);
          },
          onCompletions,
        },
      );
    } finally {
      reference?.dispose();
    }
  });
}
