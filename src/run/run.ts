/**
 * A run: a directory written by training stages, one at a time, each resumable. `eval/run-directory.ts` reads it. Call path of a stage:
 *
 *   cli.ts → commands/train.ts → run/stage.ts (opens the run, shows progress, writes metrics; train/worker-group.ts starts its Workers)
 *          → run/stage-worker.ts (one rank: policy, task, checkpoints) → train/rl.ts (the loop)
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import {
  type DataFacts,
  type ExampleAddress,
  hasSplits,
  heldOutExamples,
  openExamples,
  validationExamples,
} from '../../datasets/source.ts';
import type { Split } from '../../datasets/split.ts';
import { type RecipeChange, RUN_VERSION, RunDirectory } from '../../eval/run-directory.ts';
import { askedEngine, openEngine, prepareEngine } from '../answer/local.ts';
import { findPolicy } from '../answer/reference.ts';
import type { Engine } from '../engine/engine.ts';
import { setup } from '../engine/torch/setup.ts';
import { CheckpointError, ConfigError, EngineError } from '../ground/errors.ts';
import { namesInUse, tidyUp, writeJson } from '../ground/files.ts';
import { Interrupted } from '../ground/interrupt.ts';
import { readJson } from '../ground/json-files.ts';
import { inClaimed } from '../ground/lock.ts';
import { cores, cpuModel, memory } from '../ground/machine.ts';
import { hashesIn } from '../ground/manifest.ts';
import { packageVersion } from '../ground/paths.ts';
import { commandLine, firstNames, say, shellWord } from '../ground/terminal.ts';
import { moduleAddress } from '../ground/user-module.ts';
import { checkTools } from '../inspect/tools.ts';
import { isBuiltIn } from '../policy/model-config.ts';
import {
  changedKeys,
  changedRecipe,
  checkKey,
  loadRecipe,
  type PlacedOverride,
  settingOf,
} from '../recipe/config.ts';
import type { Recipe } from '../recipe/recipe.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { openAdvantage } from '../train/advantage.ts';
import {
  checkpointDamage,
  fallBack,
  readState,
  recoverCheckpoint,
  type StageOrigin,
  type TrainingState,
} from '../train/checkpoint.ts';
import type { TrainingStage } from '../train/dry-run.ts';
import { augmentationOf, nanoCard, stageExamples, trainingCard, trainingFacts } from './policy-task.ts';
import { promptReader } from './prompt-length.ts';
import { checkRewardNames, checkRewards } from './rewards.ts';
import {
  changedData,
  changedNames,
  changedParts,
  checkData,
  checkSameData,
  type DataRecord,
  dataRecord,
  dataRecordSchema,
} from './run-data.ts';
import { checkKept, checkPlace } from './run-policy.ts';
import { checkDType } from './stage-memory.ts';

/** Record of a stage, written when it ends or is stopped. */
export interface StageRecord {
  /** Wall-clock time over all sessions. */
  readonly seconds: number;
  readonly samples: number;
  readonly steps: number;
  /** End time, ISO 8601; false if the stage was stopped early. */
  readonly finished: string | false;
}

/** Files of a run in the order of removal; recipe.json, which marks the directory as a run, is last. */
const PARTS = [
  'report.html',
  'report.json',
  'summary.json',
  'eval',
  'rl',
  'sft',
  'initial',
  'environment.json',
  'recipe.json',
] as const;

/** Request of a command that works on a run. */
export interface RunRequest {
  /** Recipe by name or path. An existing run keeps its own. */
  readonly recipe: string | undefined;
  /** Recipe settings: `sft.samples=10000`. */
  readonly set: readonly (string | PlacedOverride)[];
  /** Keys that may differ from the resumed run. */
  readonly allowChange?: readonly string[];
  /** Directory of the run. */
  readonly out: string;
  readonly device: string;
  readonly resume: boolean;
  readonly force: boolean;
  /** True: do not show progress. */
  readonly quiet: boolean;
}

const ALLOW_CHANGE = '--allow-change';
/** Key of --allow-change for the files of the data set. */
const DATA_KEY = 'data';

/** Keys that the supervised stage does not depend on. */
const REINFORCEMENT_KEYS = ['rl', 'reward'];

/** Returns true if a key, or a block that contains it, may change. */
const isAllowed = (key: string, allowed: readonly string[]): boolean =>
  allowed.some((prefix) => key === prefix || key.startsWith(`${prefix}.`));

/** @throws ConfigError for an unknown key, or one that can never change in a run */
function checkAllowed(allowed: readonly string[]): void {
  for (const key of allowed) {
    checkKey(ALLOW_CHANGE, key);
    if (key !== 'policy' && !key.startsWith('policy.')) continue;
    throw new ConfigError(
      `${ALLOW_CHANGE} ${key}: a run cannot change its policy, because its checkpoints hold the weights; start a new run`,
    );
  }
}

/** Reads a recipe by name or path, or takes that of a run, with settings. @throws ConfigError */
const readRecipe = (from: string | RunDirectory, set: readonly (string | PlacedOverride)[]): Recipe =>
  loadRecipe(typeof from === 'string' ? from : from.recipe, set);

/** Returns keys whose values differ from those of the run. @throws ConfigError naming those that are not allowed to differ */
function checkChanges(path: string, before: Recipe, now: Recipe, allowed: readonly string[]): string[] {
  const changed = changedKeys(before, now);
  const refused = changed.filter((key) => !isAllowed(key, allowed));
  if (refused.length === 0) return changed;
  throw new ConfigError(
    `${path}: this run was started with other values of ${refused.join(', ')}; choose a new --out, ` +
      `leave these settings out, or resume with ${refused.map((key) => `${ALLOW_CHANGE} ${key}`).join(' ')}`,
  );
}

/** Lists the changes of some keys between two recipes. */
const changesOf = (
  keys: readonly string[],
  before: Recipe,
  now: Recipe,
  at: Pick<RecipeChange, 'stage' | 'step'>,
): RecipeChange[] =>
  keys.map((key) => ({
    key,
    from: settingOf(before, key) as RecipeChange['from'],
    to: settingOf(now, key) as RecipeChange['to'],
    ...at,
  }));

/** Formats a change as one line. */
function changeText({ key, from, to, stage, step }: RecipeChange): string {
  const values = key === DATA_KEY ? '' : ` from ${JSON.stringify(from)} to ${JSON.stringify(to)}`;
  return `changed: ${key}${values}, ${step === 0 ? 'before the first step' : `after step ${step} of ${stage}`}`;
}

/** Writes the changes and the new recipe into recipe.json of a run. */
function recordChanges(
  file: string,
  now: { readonly recipe: Recipe; readonly data: DataRecord },
  changes: readonly RecipeChange[],
): void {
  const header = readJson(file, z.looseObject({ changes: z.array(z.json()).optional() }), 'begin a new run');
  const all = [...(header.changes ?? []), ...changes];
  writeJson(file, { ...header, ...now, changes: all });
}

export class Run extends RunDirectory {
  /** Returns true where `path` holds a run. */
  static begun(path: string): boolean {
    return existsSync(join(path, 'recipe.json'));
  }

  /** Removes the files of a run, and nothing else. */
  static remove(path: string): void {
    for (const part of PARTS) rmSync(join(path, part), { recursive: true, force: true });
  }

  /**
   * Opens the run at `path`, or creates one. An existing run keeps its recipe and data: changed keys and data files are rejected, by name,
   * unless `allow` lists them. Those of reinforcement are free until it begins, and a run in which no stage has begun starts anew. All
   * examples are checked before anything is written or removed.
   * @throws ConfigError; DataError when the recipe of the run is damaged, and as `checkSameData` and `checkData`
   */
  static open(
    path: string,
    options: {
      /** Recipe by name or path, or another run that has it; null: the run's own, which must exist. */
      readonly recipe: string | RunDirectory | null;
      readonly set: readonly (string | PlacedOverride)[];
      /** Require an existing run. */
      readonly resume?: boolean;
      /** Keys that may differ from the run, which adopts the new values. */
      readonly allow?: readonly string[] | undefined;
      /** Start over: delete the existing run once the new one has been checked. */
      readonly replace?: boolean;
      /** Splits of a prepared data set that are used. Default: train. */
      readonly splits?: readonly Split[];
      /** True where a new run may stand beside other files. */
      readonly shared?: boolean;
      /** Refuses a recipe before anything is written. */
      readonly check?: (recipe: Recipe) => void;
    },
  ): Run {
    const { set, allow = [], splits = ['train'], shared = false } = options;
    const run = options.replace !== true && Run.begun(path) ? new Run(path) : null;
    if (run === null && options.resume === true) {
      throw new ConfigError(
        `${path}: no run there to resume (no recipe.json); leave --resume out to begin one`,
      );
    }
    const source = options.recipe ?? run;
    if (source === null) {
      throw new ConfigError(
        `${path}: no run there (no recipe.json); begin one with --recipe, or with timeseer sft`,
      );
    }
    checkAllowed(allow);
    const begun = run === null ? [] : run.#begun;
    const untrained = run !== null && begun.length === 0 && !existsSync(run.file('summary.json'));
    const recipe = source === run && !untrained ? changedRecipe(run.recipe, set) : readRecipe(source, set);
    options.check?.(recipe);
    checkDType(recipe);
    const { name } = recipe.data;
    const { init } = recipe.policy;
    const changed = run === null ? [] : changedKeys(run.recipe, recipe);
    const free = begun.includes('rl') ? [] : REINFORCEMENT_KEYS;
    const anew =
      untrained && (changed.some((key) => !isAllowed(key, free)) || changedData(path, name) !== null);
    if (run === null || anew) {
      const replace = anew || options.replace === true;
      const from = isBuiltIn(init) ? null : findPolicy(init);
      checkParts(recipe, from);
      if (from !== null) checkPlace(path, from);
      const left = namesInUse(path).filter((name) => !shared || ['initial', 'sft', 'rl'].includes(name));
      if (left.length > 0 && !replace) {
        throw new ConfigError(
          `${path}: holds ${firstNames(left, 3)}, but no run (no recipe.json); choose another --out`,
        );
      }
      if (from !== null && replace) checkKept(path, from);
      checkExamples(recipe, from, splits);
      if (replace) Run.remove(path);
      const header = {
        version: RUN_VERSION,
        name:
          typeof source === 'string' ? source.replace(/^.*[/\\]/, '').replace(/\.ya?ml$/, '') : source.name,
        ...{ recipe, command: commandLine(), data: dataRecord(name) },
      };
      writeJson(join(path, 'recipe.json'), header);
      if (anew)
        say(`${path}: nothing was trained yet; starts anew with other ${firstNames(changed, 8) || 'data'}`);
      return new Run(path);
    }
    const keys = checkChanges(path, run.recipe, recipe, [...allow, ...free]);
    for (const stage of ['sft', 'rl'] as const) {
      if (!keys.includes(`${stage}.optimizer`) || run.cost(stage) === null) continue;
      throw new ConfigError(
        `${path}: ${stage}.optimizer cannot change within the stage, because its checkpoints hold the moments of ${run.recipe[stage].optimizer}; ` +
          'choose a new --out',
      );
    }
    const otherData =
      isAllowed(DATA_KEY, allow) || keys.includes('data.name') ? changedData(path, name) : null;
    if (otherData === null) checkSameData(path, name);
    checkExamples(
      recipe,
      existsSync(run.initial) ? run.initial : isBuiltIn(init) ? null : findPolicy(init),
      splits,
    );
    if (keys.length === 0 && otherData === null) return run;
    const stage = run.cost('rl') === null ? 'sft' : 'rl';
    const at = { stage, step: run.cost(stage)?.steps ?? 0 } as const;
    const changes = [
      ...changesOf(keys, run.recipe, recipe, at),
      ...(otherData === null ? [] : [{ key: DATA_KEY, ...otherData, ...at }]),
    ];
    const recorded = changes.filter(({ key }) => !isAllowed(key, free));
    recordChanges(run.file('recipe.json'), { recipe, data: dataRecord(name) }, recorded);
    for (const change of changes) say(changeText(change));
    return new Run(path);
  }

  /**
   * Loads the modules of the recipe that `Run.open` would use (rewards, advantage estimator, tools), so that a faulty one is reported before
   * anything is written. @throws ConfigError
   */
  static async checkModules(
    path: string,
    {
      recipe: name,
      set,
      replace = false,
    }: Pick<Parameters<typeof Run.open>[1], 'recipe' | 'set' | 'replace'>,
  ): Promise<void> {
    const existing = name === null && Run.begun(path) && !replace;
    if (name === null && !existing) return; // refused by `open`
    const recipe = existing ? changedRecipe(new Run(path).recipe, set) : readRecipe(name!, set);
    const { advantage } = recipe.rl;
    if (typeof advantage !== 'string') await (await openAdvantage(moduleAddress(advantage.use, '.'))).close();
    if (recipe.inspect.turns > 0) await checkTools(recipe.inspect.tools, say);
    if (recipe.reward === null) return;
    await checkRewards(recipe, trainingFacts(recipe).kind);
  }

  /** The policy before training. */
  get initial(): string {
    return this.policy('initial');
  }

  checkpoint(stage: TrainingStage): string {
    return this.file(stage, 'checkpoint');
  }

  /** Adapter directory of a LoRA stage; the stage's policy has the adapter merged. */
  adapter(stage: TrainingStage): string {
    return this.file(stage, 'adapter');
  }

  get heldOutExamples(): ExampleAddress {
    return heldOutExamples(this.recipe.data, this.recipe.seed, this.recipe.eval.series);
  }

  /** @throws DataError when the record is damaged */
  stageRecord(stage: TrainingStage): StageRecord | null {
    const cost = this.cost(stage);
    if (cost === null) return null;
    const { seconds, samples, steps, finished } = cost;
    return { seconds, samples, steps, finished: finished ?? false };
  }

  writeStageRecord(stage: TrainingStage, record: StageRecord): void {
    writeJson(this.file(stage, 'stage.json'), record);
  }

  /** Stages with a step, or with what steps leave. */
  get #begun(): TrainingStage[] {
    return (['sft', 'rl'] as const).filter((stage) => {
      const metrics = statSync(this.file(stage, 'metrics.jsonl'), { throwIfNoEntry: false });
      return metrics?.size || ['checkpoint', 'policy'].some((name) => existsSync(this.file(stage, name)));
    });
  }

  /** Returns true if a stage has finished and its policy exists. */
  stageFinished(stage: TrainingStage): boolean {
    return typeof this.stageRecord(stage)?.finished === 'string' && existsSync(this.policy(stage));
  }

  /**
   * Returns the state from which a stage resumes; null for a new one. Starting over deletes the stage and all later results.
   * @throws CheckpointError if the checkpoint is damaged, belongs to another stage, or exists although neither `resume` nor `force` is set
   */
  stateOf(
    stage: TrainingStage,
    total: number,
    how: { readonly resume: boolean; readonly force: boolean },
  ): TrainingState | null {
    if (how.force) {
      this.#drop(stage);
      return null;
    }
    const checkpoint = this.checkpoint(stage);
    recoverCheckpoint(checkpoint);
    const state = how.resume ? undamagedState(checkpoint) : readState(checkpoint);
    if (state === null) return null;
    if (!how.resume) {
      throw new CheckpointError(
        `${this.file(stage)} holds a checkpoint of step ${state.step}: add --resume to resume from it, or --force to start over`,
      );
    }
    const problem =
      state.stage !== stage
        ? `belongs to stage ${state.stage}, not ${stage}`
        : state.step > total
          ? `is at step ${state.step}, but the recipe has ${total} steps`
          : null;
    if (problem !== null) {
      throw new CheckpointError(
        `${checkpoint}: ${problem}; restore this run's checkpoint, or start the stage over with --force`,
      );
    }
    return state;
  }

  /**
   * Returns the recipe, data and policy that a stage starts from. @param base its initial policy @param state its checkpoint
   * @throws CheckpointError if recipe, data or policy have changed since the checkpoint's stage started, naming the changes; as
   *   `dataRecord` and `hashesIn`
   */
  originOf(stage: TrainingStage, base: string, state: TrainingState | null): StageOrigin {
    // Settings of the other stage and of the evaluation do not affect this one.
    const { eval: _, sft, rl, ...shared } = this.recipe;
    const recipe = { ...shared, ...(stage === 'sft' ? { sft } : { rl }) };
    const data = dataRecord(this.recipe.data.name);
    const now: StageOrigin = {
      ...(JSON.parse(JSON.stringify({ recipe, data })) as Omit<StageOrigin, 'policy'>),
      policy: hashesIn(base),
    };
    if (state === null) return now;
    const before = state.origin;
    const allowed = this.changes.map(({ key }) => key);
    const free = stage === 'sft' ? REINFORCEMENT_KEYS : [];
    const keys = changedKeys(before.recipe as unknown as Recipe, now.recipe as unknown as Recipe).filter(
      (key) => !allowed.includes(key) && !free.includes(key),
    );
    const known = dataRecordSchema.safeParse(before.data);
    const parts = allowed.includes(DATA_KEY)
      ? []
      : known.success
        ? changedParts(known.data, data)
        : ['its record'];
    const files = changedNames(before.policy, now.policy);
    const problem =
      keys.length > 0
        ? `was trained with other values of ${keys.join(', ')} than ${this.file('recipe.json')} has`
        : parts.length > 0
          ? `was trained on data that has changed since: ${this.recipe.data.name} (${parts.join(', ')})`
          : files.length > 0
            ? `started from a policy that has changed since: ${base} (${files.join(', ')})`
            : null;
    if (problem === null) return now;
    throw new CheckpointError(
      `${this.checkpoint(stage)}: ${problem}; restore the original, or start the stage over with --force`,
    );
  }

  /** Removes policy and answers of a stage before it trains on. */
  dropOutput(stage: TrainingStage): void {
    const answers = this.file('eval');
    for (const name of existsSync(answers) ? readdirSync(answers) : []) {
      if (name.startsWith(`${stage}.`)) rmSync(join(answers, name), { force: true });
    }
    for (const output of [this.policy(stage), this.adapter(stage)]) {
      rmSync(output, { recursive: true, force: true });
    }
  }

  /** Removes a stage, the stage after it, and the answers of their policies. */
  #drop(stage: TrainingStage): void {
    const stages: readonly TrainingStage[] = stage === 'sft' ? ['rl', 'sft'] : ['rl'];
    for (const name of stages) {
      this.dropOutput(name);
      rmSync(this.file(name), { recursive: true, force: true });
    }
  }
}

/**
 * Returns the state of a checkpoint; falls back to the newest undamaged one.
 * @throws CheckpointError if all are damaged
 */
function undamagedState(checkpoint: string): TrainingState | null {
  let problem: CheckpointError;
  try {
    const state = readState(checkpoint);
    const damage = state === null ? null : checkpointDamage(checkpoint);
    if (damage === null) return state;
    problem = new CheckpointError(`${damage}; the checkpoint is damaged: start the stage over with --force`);
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    problem = error;
  }
  const former = fallBack(checkpoint);
  if (former === null) throw problem;
  const { state, aside } = former;
  say(
    `warning: ${problem.message.replace(/; [^;]*--force$/, '')}; resuming from the checkpoint of step ${state.step}; the damaged one was moved to ${aside}`,
  );
  return state;
}

/** Returns facts about a recipe's data, and the card for that data of the policy in `from` (null: a new nano policy). */
function factsAndCard(
  recipe: Recipe,
  from: string | null,
): { readonly facts: DataFacts; readonly card: PolicyCard } {
  const facts = trainingFacts(recipe);
  return { facts, card: from === null ? nanoCard(recipe, facts) : trainingCard(from, recipe, facts) };
}

/** Returns true if any stage evaluates during training. @throws ConfigError if it cannot */
function checkValidation({ data, seed, ...stages }: Recipe): boolean {
  const evaluated = (['sft', 'rl'] as const).filter((stage) => stages[stage].evalEvery > 0);
  for (const stage of evaluated) {
    const { evalSeries, keep } = stages[stage];
    const address = validationExamples(data, seed, evalSeries);
    if (address === null) {
      throw new ConfigError(
        `${stage}.evalEvery: ${data.name} has no validation split; prepare it again with one (--shares or --validation), or set ${stage}.evalEvery=0`,
      );
    }
    const known = Object.keys(taskKind(openExamples(address).facts.kind).evaluation.metrics);
    if (known.includes(keep.best)) continue;
    throw new ConfigError(
      `${stage}.keep.best: ${data.name} has no metric ${keep.best}; known: ${known.join(', ')}`,
    );
  }
  return evaluated.length > 0;
}

/** Checks the examples of some splits. @throws ConfigError for a missing test split; DataError as `checkData` */
function checkExamples(recipe: Recipe, from: string | null, splits: readonly Split[]): void {
  const { data, seed, eval: evaluation } = recipe;
  const evaluated = checkValidation(recipe);
  if (splits.includes('test')) openExamples(heldOutExamples(data, seed, evaluation.series));
  const { facts, card } = factsAndCard(recipe, from);
  checkRewardNames(recipe, facts.kind);
  if (recipe.sft.samples > 0) augmentationOf(recipe.sft.augment, facts, stageExamples('sft', recipe));
  const all = evaluated && !splits.includes('validation') ? [...splits, 'validation' as const] : splits;
  checkData({ name: data.name, facts, splits: all, card, reader: () => promptReader(from, recipe, card) });
}

/** Checks the policy, data set and figure that a recipe names. @throws ConfigError, CheckpointError, DataError */
function checkParts(recipe: Recipe, from: string | null): void {
  const { data, eval: evaluation } = recipe;
  factsAndCard(recipe, from);
  if (!hasSplits(data.name) && evaluation.series > data.heldOut) {
    throw new ConfigError(
      `eval.series: got ${evaluation.series}, but ${data.name} has no splits, and data.heldOut holds out only ${data.heldOut} series`,
    );
  }
}

/** Removes temporary files of a run; checkpoints are recovered by their stage. */
function tidyRun(path: string): void {
  for (const part of ['', 'sft', 'sft/validation', 'rl', 'rl/validation', 'eval']) {
    tidyUp(join(path, part), (name) => name !== 'checkpoint');
  }
}

/**
 * Opens a run and calls `work` while holding the lock of its directory, taken before the first write. Writes nothing if the device is not
 * available.
 * @param command command name in the hint how to resume; null: the caller prints the hint
 * @throws EngineError for the device; ConfigError if another process works on the run; WriteError if its directory was removed meanwhile;
 * Interrupted if stopped, after printing the resume command on stderr
 */
export async function runSession(
  command: string | null,
  given: { readonly out: string; readonly device: string },
  open: () => Run | Promise<Run>,
  work: (run: Run) => Promise<void>,
): Promise<Run> {
  await prepareEngine(given.device);
  openEngine(given.device);
  return inClaimed(given.out, async () => {
    tidyRun(given.out);
    const run = await open();
    await work(run);
    return run;
  }).catch((error: unknown) => {
    if (error instanceof Interrupted && command !== null) {
      const device = given.device === 'cpu' ? [] : ['--device', given.device];
      const asked = askedEngine();
      const engine = asked === null ? [] : ['--engine', asked];
      const resume = ['timeseer', command, '--out', given.out, ...device, ...engine, '--resume'];
      say(`resume with: ${resume.map(shellWord).join(' ')}`);
    }
    throw error;
  });
}

/**
 * Builds the torch engine, installing libtorch where that is possible; without it, the tfjs engine computes.
 * @throws EngineError as `setup`, where torch or a GPU was asked for
 */
export async function setupEngine(device: string, log: (line: string) => void): Promise<void> {
  if (askedEngine() === 'tfjs') return;
  try {
    await setup({ install: true, log });
  } catch (error) {
    if (askedEngine() === 'torch' || device !== 'cpu' || !(error instanceof EngineError)) throw error;
    log(error.message);
  }
}

/** Writes machine and versions to environment.json of the run, replacing earlier values. @throws DataError as `RunDirectory.environment` */
export function writeEnvironment(
  run: Run,
  device: string,
  more: Readonly<Record<string, number | string | null>> = {},
): void {
  const file = run.file('environment.json');
  const engine = openEngine(device);
  const { name, version, blas, deviceName } = engine.info;
  // The version of another engine that computed an earlier stage is not kept.
  const { libtorch: _, tfjs: __, ...kept } = run.environment;
  const environment = {
    ...kept,
    timeseer: packageVersion(),
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    engine: name,
    ...(name === 'torch' ? { libtorch: version } : { [name]: version }),
    blas: blas.replace(/\S*\//g, ''),
    device,
    device_name: deviceName,
    cpu: cpuModel(),
    cores: cores(),
    memory_gib: Math.round(memory().total / 2 ** 30),
    matmul_gflops_one_thread: Math.round(matmulGflops(engine)),
    ...more,
  };
  writeJson(file, environment);
}

/** Measures GFLOP/s of a 512³ matrix product on one thread, to compare times between machines. */
function matmulGflops(engine: Engine): number {
  const size = 512;
  const rounds = 10;
  return engine.scope(() => {
    const a = engine.tensor(new Float32Array(size * size).fill(0.5), [size, size]);
    engine.matmul(a, a);
    const began = performance.now();
    for (let i = 0; i < rounds; i++)
      engine.item(engine.narrow(engine.reshape(engine.matmul(a, a), [-1]), 0, 0, 1));
    return (rounds * 2 * size ** 3) / 1e6 / (performance.now() - began);
  });
}
