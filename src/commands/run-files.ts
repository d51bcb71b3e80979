/** The files of a run as its stages write them; `eval/run-directory.ts` reads them and lists the layout. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { changedKeys, loadRecipe, parseRecipe } from '../config.ts';
import type { Engine } from '../engine/engine.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { CheckpointError, ConfigError } from '../errors.ts';
import { writeDirectoryAtomic, writeFileAtomic } from '../files.ts';
import { cores, cpuModel, memory } from '../machine.ts';
import { packageVersion } from '../package.ts';
import { trainBpe } from '../policy/bpe.ts';
import { Policy } from '../policy/policy.ts';
import type { Recipe } from '../recipe.ts';
import { type PolicyCard, writeCard } from '../train/card.ts';
import { readState } from '../train/checkpoint.ts';
import { openSeries, type SeriesAddress, trainingTask } from './anomaly-task.ts';
import { findPolicy } from './find-policy.ts';

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

/** Traces that the nano tokenizer is made from. */
const TOKENIZER_CORPUS = 300;

export class RunFiles {
  readonly path: string;
  readonly name: string;
  readonly recipe: Recipe;

  private constructor(path: string, name: string, recipe: Recipe) {
    this.path = path;
    this.name = name;
    this.recipe = recipe;
  }

  /**
   * Opens the run of `path`, or begins one. A run keeps the recipe that it began with: another one, or other
   * settings, are refused by naming the keys.
   * @throws ConfigError
   */
  static open(
    path: string,
    options: {
      /** Recipe by name or path; null: the run's own, which must exist. */
      readonly recipe: string | null;
      readonly set: readonly string[];
      readonly command: string;
    },
  ): RunFiles {
    const file = join(path, 'recipe.json');
    if (!existsSync(file)) {
      if (options.recipe === null) {
        throw new ConfigError(
          `${path}: no run there (no recipe.json); begin one with --recipe, or with timeseer sft`,
        );
      }
      const recipe = loadRecipe(options.recipe, options.set);
      const name = options.recipe.replace(/^.*[/\\]/, '').replace(/\.ya?ml$/, '');
      writeFileAtomic(file, `${JSON.stringify({ name, recipe, command: options.command }, null, 2)}\n`);
      return new RunFiles(path, name, recipe);
    }
    const stored: unknown = JSON.parse(readFileSync(file, 'utf8'));
    const { name, recipe } = stored as { name: string; recipe: unknown };
    const own = parseRecipe(JSON.stringify(recipe), file);
    if (options.recipe === null && options.set.length > 0) {
      throw new ConfigError(
        `${path}: a run keeps the recipe that it began with, so --set needs --recipe and a new --out`,
      );
    }
    if (options.recipe !== null) {
      const changed = changedKeys(own, loadRecipe(options.recipe, options.set));
      if (changed.length > 0) {
        throw new ConfigError(
          `${path}: this run began with other values of ${changed.join(', ')}; choose a new --out, ` +
            'or leave the settings out to go on with its own',
        );
      }
    }
    return new RunFiles(path, name, own);
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

  get trainingSeries(): SeriesAddress {
    const { data, seed } = this.recipe;
    return { name: data.name, split: 'train', seed, length: data.length };
  }

  get heldOutSeries(): SeriesAddress {
    const { data, seed } = this.recipe;
    return { name: data.name, split: 'test', seed, length: data.length, count: this.recipe.eval.series };
  }

  stageRecord(stage: TrainingStage): StageRecord | null {
    const file = this.file(stage, 'stage.json');
    return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as StageRecord) : null;
  }

  writeStageRecord(stage: TrainingStage, record: StageRecord): void {
    writeFileAtomic(this.file(stage, 'stage.json'), `${JSON.stringify(record, null, 2)}\n`);
  }

  /** Whether a stage has come to its end. */
  finished(stage: TrainingStage): boolean {
    return typeof this.stageRecord(stage)?.finished === 'string' && existsSync(this.policy(stage));
  }

  /**
   * Step from which a stage goes on: 0 for a new one.
   * @throws CheckpointError when there is a checkpoint but the user asked neither to resume nor to start over.
   */
  startOf(stage: TrainingStage, how: { readonly resume: boolean; readonly force: boolean }): number {
    const state = readState(this.checkpoint(stage));
    if (how.force) {
      rmSync(this.file(stage), { recursive: true, force: true });
      return 0;
    }
    if (state === null) return 0;
    if (how.resume) return state.step;
    throw new CheckpointError(
      `${this.file(stage)} holds a checkpoint of step ${state.step}: add --resume to go on from it, or --force to start over`,
    );
  }

  /** Makes the policy that training starts from, unless it is there: random nano weights, or a copy of a checkpoint. */
  prepareInitial(): void {
    if (existsSync(this.initial)) return;
    const { policy, figure, data, seed } = this.recipe;
    if (policy.init !== 'nano') {
      const from = findPolicy(policy.init);
      writeDirectoryAtomic(this.initial, (temporary) => {
        mkdirSync(temporary, { recursive: true });
        cpSync(from, temporary, { recursive: true });
      });
      return;
    }
    const source = openSeries(this.trainingSeries);
    const card: PolicyCard = {
      version: 1,
      style: 'nano',
      figure,
      length: data.length,
      classes: [...source.classes],
      stage: 'initial',
    };
    const task = trainingTask(card, this.trainingSeries);
    const engine = openTorch({ threads: 1 });
    const texts: string[] = [];
    for (let i = 0; i < TOKENIZER_CORPUS; i++) {
      const series = task.series(i);
      texts.push(task.instruction(series), task.trace(series));
    }
    const created = Policy.create(engine, { tokenizer: trainBpe(texts), seed });
    writeDirectoryAtomic(this.initial, (temporary) => {
      created.write(temporary);
      writeCard(temporary, card);
    });
    created.dispose();
  }

  /** Records machine and versions beside the run, with what was known before kept. */
  writeEnvironment(device: string, more: Readonly<Record<string, number | string | null>> = {}): void {
    const file = this.file('environment.json');
    const before = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as object) : {};
    const engine = openTorch({ device, threads: 1 });
    const { version, blas, deviceName } = engine.info;
    const environment = {
      ...before,
      timeseer: packageVersion(),
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      libtorch: version,
      blas: blas.replace(/\S*\//g, ''),
      device,
      device_name: deviceName,
      cpu: cpuModel(),
      cores: cores(),
      memory_gib: Math.round(memory().total / 2 ** 30),
      matmul_gflops_one_thread: Math.round(calibrate(engine)),
      ...more,
    };
    writeFileAtomic(file, `${JSON.stringify(environment, null, 2)}\n`);
  }
}

/** GFLOP/s of a 512³ product on one thread: what seconds on this machine are worth, in the same run. */
function calibrate(engine: Engine): number {
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
