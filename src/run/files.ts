/** The files of a run as its stages write them; `eval/run-directory.ts` reads them and lists the layout. */

import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  type DataFacts,
  type ExampleAddress,
  hasSplits,
  heldOutExamples,
  openExamples,
  reinforcementExamples,
  trainingExamples,
} from '../../datasets/source.ts';
import type { Split } from '../../datasets/split.ts';
import { RUN_VERSION, RunDirectory } from '../../eval/run-directory.ts';
import { changedKeys, loadRecipe } from '../config.ts';
import { CheckpointError, ConfigError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { hashesIn } from '../manifest.ts';
import type { Recipe } from '../recipe.ts';
import type { PolicyCard } from '../tasks/card.ts';
import {
  checkpointDamage,
  readState,
  recoverCheckpoint,
  type StageOrigin,
  type TrainingState,
} from '../train/checkpoint.ts';
import { nanoCard, trainingCard } from './card.ts';
import { checkData } from './check-data.ts';
import { changedParts, checkSameData, type DataRecord, dataRecord, dataRecordSchema } from './data-record.ts';
import { findPolicy } from './find-policy.ts';
import { checkKept, checkPlace } from './policy-copy.ts';
import { promptReader } from './prompt-room.ts';

export type TrainingStage = 'sft' | 'rl';

/** What a stage says of itself when it ends or is stopped. */
export interface StageRecord {
  /** Wall-clock time, all its parts when it was resumed. */
  readonly seconds: number;
  readonly samples: number;
  readonly steps: number;
  /** When it ended, ISO 8601; false when it was stopped before its end. */
  readonly finished: string | false;
}

/** What a run writes into its directory; the recipe, which makes it a run, goes last when it is removed. */
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

export class RunFiles {
  readonly path: string;
  readonly name: string;
  readonly recipe: Recipe;
  readonly #directory: RunDirectory;

  private constructor(path: string) {
    this.#directory = new RunDirectory(path);
    this.path = path;
    this.name = this.#directory.name;
    this.recipe = this.#directory.recipe;
  }

  /** Whether a run was begun in `path`. */
  static begun(path: string): boolean {
    return existsSync(join(path, 'recipe.json'));
  }

  /** Removes what a run wrote into `path`, and nothing else. */
  static remove(path: string): void {
    for (const part of PARTS) rmSync(join(path, part), { recursive: true, force: true });
  }

  /**
   * Opens the run of `path`, or begins one. A run keeps the recipe that it began with: another one, or other
   * settings, are refused by naming the keys, and other data by naming the files. Nothing is written or removed before all examples
   * are known to be usable.
   * @throws ConfigError; DataError when the recipe of the run is damaged, and as `checkSameData` and `checkData`
   */
  static open(
    path: string,
    options: {
      /** Recipe by name or path; null: the run's own, which must exist. */
      readonly recipe: string | null;
      readonly set: readonly string[];
      readonly command: string;
      /** The run must be there already. */
      readonly resume?: boolean;
      /** Begin again: what the former run wrote is removed once the new one is known to be able to begin. */
      readonly replace?: boolean;
      /** Splits of a prepared data set that the work goes through; training's when absent. */
      readonly splits?: readonly Split[];
    },
  ): RunFiles {
    const { splits = ['train'], replace = false } = options;
    if (replace || !RunFiles.begun(path)) {
      if (options.resume === true) {
        throw new ConfigError(
          `${path}: no run there to go on with (no recipe.json); leave --resume out to begin one`,
        );
      }
      if (options.recipe === null) {
        throw new ConfigError(
          `${path}: no run there (no recipe.json); begin one with --recipe, or with timeseer sft`,
        );
      }
      const recipe = loadRecipe(options.recipe, options.set);
      const name = options.recipe.replace(/^.*[/\\]/, '').replace(/\.ya?ml$/, '');
      const left = ['initial', 'sft', 'rl'].filter((part) => existsSync(join(path, part)));
      if (left.length > 0 && !replace) {
        throw new ConfigError(
          `${path}: holds ${left.join(', ')} of a run without its recipe.json; remove them or choose another --out`,
        );
      }
      const { init } = recipe.policy;
      const from = init === 'nano' ? null : findPolicy(init);
      checkParts(recipe, from);
      if (from !== null) checkPlace(path, from);
      if (from !== null && replace) checkKept(path, from);
      checkExamples(recipe, from, splits);
      if (replace) RunFiles.remove(path);
      const header = {
        version: RUN_VERSION,
        ...{ name, recipe, command: options.command, data: dataRecord(recipe.data.name) },
      };
      writeFileAtomic(join(path, 'recipe.json'), `${JSON.stringify(header, null, 2)}\n`);
      return new RunFiles(path);
    }
    const run = new RunFiles(path);
    if (options.recipe === null && options.set.length > 0) {
      throw new ConfigError(
        `${path}: a run keeps the recipe that it began with, so --set needs --recipe and a new --out`,
      );
    }
    if (options.recipe !== null) {
      const changed = changedKeys(run.recipe, loadRecipe(options.recipe, options.set));
      if (changed.length > 0) {
        throw new ConfigError(
          `${path}: this run began with other values of ${changed.join(', ')}; choose a new --out, ` +
            'or leave the settings out to go on with its own',
        );
      }
    }
    const { recipe } = run;
    checkSameData(path, recipe.data.name);
    const { init } = recipe.policy;
    checkExamples(
      recipe,
      existsSync(run.initial) ? run.initial : init === 'nano' ? null : findPolicy(init),
      splits,
    );
    return run;
  }

  file(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  get initial(): string {
    return this.file('initial');
  }

  checkpoint(stage: TrainingStage): string {
    return this.file(stage, 'checkpoint');
  }

  policy(stage: TrainingStage): string {
    return this.file(stage, 'policy');
  }

  /** A stage's adapter, where that is what it trains: its policy has it merged. */
  adapter(stage: TrainingStage): string {
    return this.file(stage, 'adapter');
  }

  get trainingExamples(): ExampleAddress {
    return trainingExamples(this.recipe.data, this.recipe.seed);
  }

  get reinforcementExamples(): ExampleAddress {
    return reinforcementExamples(this.recipe.data, this.recipe.seed);
  }

  get heldOutExamples(): ExampleAddress {
    return heldOutExamples(this.recipe.data, this.recipe.seed, this.recipe.eval.series);
  }

  /** @throws DataError when the record is damaged */
  stageRecord(stage: TrainingStage): StageRecord | null {
    const cost = this.#directory.cost(stage);
    if (cost === null) return null;
    const { seconds, samples, steps, finished } = cost;
    return { seconds, samples, steps, finished: finished ?? false };
  }

  writeStageRecord(stage: TrainingStage, record: StageRecord): void {
    writeFileAtomic(this.file(stage, 'stage.json'), `${JSON.stringify(record, null, 2)}\n`);
  }

  /** Whether a stage has come to its end. */
  finished(stage: TrainingStage): boolean {
    return typeof this.stageRecord(stage)?.finished === 'string' && existsSync(this.policy(stage));
  }

  /**
   * Where a stage goes on; null for a new one. Starting over drops the stage and what was built on it.
   * @throws CheckpointError when the checkpoint is damaged or is none of this stage, or there is one but the user asked neither to
   *   resume nor to start over.
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
    for (const directory of [this.checkpoint(stage), this.policy(stage)]) recoverCheckpoint(directory);
    const checkpoint = this.checkpoint(stage);
    const state = readState(checkpoint);
    if (state === null) return null;
    if (!how.resume) {
      throw new CheckpointError(
        `${this.file(stage)} holds a checkpoint of step ${state.step}: add --resume to go on from it, or --force to start over`,
      );
    }
    const damage = checkpointDamage(checkpoint);
    if (damage !== null) {
      throw new CheckpointError(`${damage}; the checkpoint is damaged: start the stage over with --force`);
    }
    const wrong =
      state.stage !== stage
        ? `is of the stage ${state.stage}, not ${stage}`
        : state.step > total
          ? `is of step ${state.step}, the recipe has ${total}`
          : null;
    if (wrong !== null) {
      throw new CheckpointError(
        `${checkpoint}: ${wrong}; put the checkpoint of this run back, or start the stage over with --force`,
      );
    }
    return state;
  }

  /** What a stage of this run begins with; `base` is the policy. Errors as `dataRecord` and `hashesIn`. */
  originOf(stage: TrainingStage, base: string): StageOrigin {
    // What the other stage and the evaluation are told does not change this one.
    const { eval: _, sft, rl, ...shared } = this.recipe;
    const recipe = { ...shared, ...(stage === 'sft' ? { sft } : { rl }) };
    const data = dataRecord(this.recipe.data.name);
    return {
      ...(JSON.parse(JSON.stringify({ recipe, data })) as Omit<StageOrigin, 'policy'>),
      policy: hashesIn(base),
    };
  }

  /** @throws CheckpointError when a checkpoint began with another recipe, other data or another policy, by name */
  checkOrigin(stage: TrainingStage, base: string, before: StageOrigin, now: StageOrigin): void {
    const place = this.checkpoint(stage);
    const keys = changedKeys(before.recipe as unknown as Recipe, now.recipe as unknown as Recipe);
    const data = dataRecordSchema.safeParse(before.data);
    const parts = data.success ? changedParts(data.data, now.data as DataRecord) : ['its record'];
    const files = [...new Set([...Object.keys(before.policy), ...Object.keys(now.policy)])].filter(
      (name) => before.policy[name] !== now.policy[name],
    );
    const problem =
      keys.length > 0
        ? `was trained with other values of ${keys.join(', ')} than ${this.file('recipe.json')} has`
        : parts.length > 0
          ? `was trained on other data than ${this.recipe.data.name} is now (${parts.join(', ')})`
          : files.length > 0
            ? `began with another policy than ${base} is now (${files.join(', ')})`
            : null;
    if (problem === null) return;
    throw new CheckpointError(
      `${place}: ${problem}; put back what it began with, or start the stage over with --force`,
    );
  }

  /** Removes a stage, the stage after it, and the answers of their policies. */
  #drop(stage: TrainingStage): void {
    const stages: readonly TrainingStage[] = stage === 'sft' ? ['rl', 'sft'] : ['rl'];
    const answers = this.file('eval');
    for (const one of stages) {
      for (const name of existsSync(answers) ? readdirSync(answers) : []) {
        if (name.startsWith(`${one}.`)) rmSync(join(answers, name), { force: true });
      }
      rmSync(this.file(one), { recursive: true, force: true });
    }
  }

  /** What is recorded of machine and versions. @throws DataError when it is damaged */
  get environment(): RunDirectory['environment'] {
    return this.#directory.environment;
  }
}

/** How the policy in `from` (null: a new nano policy) is asked about the data of a recipe. */
function asked(
  recipe: Recipe,
  from: string | null,
): { readonly facts: DataFacts; readonly card: PolicyCard } {
  const { facts } = openExamples(trainingExamples(recipe.data, recipe.seed));
  return { facts, card: from === null ? nanoCard(recipe, facts) : trainingCard(from, recipe, facts) };
}

/** Goes through the examples of some splits. @throws ConfigError for a test split that is not there; DataError as `checkData` */
function checkExamples(recipe: Recipe, from: string | null, splits: readonly Split[]): void {
  const { data, seed, eval: evaluation } = recipe;
  if (splits.includes('test')) openExamples(heldOutExamples(data, seed, evaluation.series));
  const { facts, card } = asked(recipe, from);
  checkData({ name: data.name, facts, splits, card, reader: () => promptReader(from, recipe, card) });
}

/** Fails before anything is written when a recipe names a policy, data set or figure that is not there. */
function checkParts(recipe: Recipe, from: string | null): void {
  const { data, eval: evaluation } = recipe;
  asked(recipe, from);
  if (!hasSplits(data.name) && evaluation.series > data.heldOut) {
    throw new ConfigError(
      `eval.series: got ${evaluation.series}, but ${data.name} has no splits and data.heldOut keeps ${data.heldOut} of its series`,
    );
  }
}
