/**
 * The directory of a run, read strictly. What a run has not reached is absent (null); what is there must be whole.
 *
 *   recipe.json       first: version, name, resolved recipe, command, the data it began with, changes since
 *   environment.json  before each stage: versions, machine, calibration
 *   initial/          the policy before training
 *   sft/ rl/          metrics.jsonl, rl/completions.jsonl, stage.json, checkpoint/ (while training), policy/ and adapter/ (at the end)
 *                     where they are evaluated while they train also validation.jsonl, validation/ and best, and checkpoints/ where
 *                     more than one is kept
 *                     and for readers alone tensorboard/ (the metrics as events) and rl/completions.html
 *   eval/             {initial,sft,rl}.{greedy,sampled}.jsonl, {sft,rl}.anomllm.greedy.jsonl, classical.{json,jsonl}
 *   report.html report.json summary.json   last
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import type { EvalRecord } from '../src/ground/types.ts';
import { layoutOf } from '../src/policy/layout.ts';
import { type Dims, parseDims } from '../src/policy/model-config.ts';
import { type Recipe, recipeSchema } from '../src/recipe/recipe.ts';
import { type BaselineFiles, type Baselines, readBaselines } from './baselines.ts';
import { readJson, readJsonLines } from './json-files.ts';
import { readRecords } from './records.ts';

/** Policies of a run, in the order in which they come about. */
export const POLICIES = ['initial', 'sft', 'rl'] as const;
export type PolicyName = (typeof POLICIES)[number];

/** Version of the files that a run writes; a checkpoint has its own beside it. */
export const RUN_VERSION = 3;

/** A key of the recipe, or the data set (`data`), that was changed when the run was resumed. */
const changeShape = z.object({
  key: z.string().min(1),
  from: z.json(),
  to: z.json(),
  /** How far the run had come: steps of its last stage that were done. */
  stage: z.enum(['sft', 'rl']),
  step: z.int().nonnegative(),
});
export type RecipeChange = z.infer<typeof changeShape>;

const headerShape = z.object({
  version: z.literal(RUN_VERSION),
  name: z.string().min(1),
  recipe: recipeSchema,
  command: z.string(),
  changes: z.array(changeShape).optional(),
});

const stageShape = z.object({
  seconds: z.number().nonnegative(),
  samples: z.int().nonnegative().nullish(),
  steps: z.int().nonnegative().nullish(),
  /** When it ended (ISO 8601), or whether it came to its end. */
  finished: z.union([z.boolean(), z.iso.datetime({ offset: true })]).nullish(),
});

const environmentShape = z.record(z.string(), z.json());

const finite = z.number();
/** A loss that was not finite stands in JSON as null. */
const measured = finite.nullable();

const sftShape = z.object({
  step: z.int().positive(),
  /** Examples seen so far. */
  samples: z.int().positive(),
  /** Mean −log π per response token. */
  loss: measured,
  /** Milliseconds of the step by phase. */
  ms: z.record(z.string(), finite),
});

const rlShape = z.object({
  step: z.int().positive(),
  reward: measured,
  parts: z.record(z.string(), measured),
  similarity: measured,
  kl: measured,
  entropy: measured,
  clipped: measured,
  equalRewards: measured,
  zeroVariance: measured,
  samplerGap: measured,
  /** Milliseconds of the step by phase. */
  ms: z.record(z.string(), finite),
});

/** A supervised step. */
export type SftLine = z.infer<typeof sftShape>;
/** A reinforcement step. */
export type RlLine = z.infer<typeof rlShape>;

const validationShape = z.looseObject({
  step: z.int(),
  examples: z.int(),
  metrics: z.record(z.string(), z.number().nullable()),
});

/** The policy after so many steps, evaluated greedily on validation series; null: the metric was undefined. */
export type ValidationLine = z.infer<typeof validationShape>;

/** Absent: the stage was not run. The line that a killed process left half-written is dropped. */
function readLines<Shape extends z.ZodType>(file: string, shape: Shape): z.infer<Shape>[] {
  if (!existsSync(file)) return [];
  return readJsonLines(file, shape, { advice: 'remove it to report without curves', tornEnd: true });
}

/** What a stage cost. */
export interface StageCost {
  readonly seconds: number;
  readonly samples: number;
  readonly steps: number;
  /** False when the stage was stopped before its end. */
  readonly complete: boolean;
  /** When it ended, ISO 8601; null when that is not recorded. */
  readonly finished: string | null;
}

/** Answers of one policy to the held-out series. */
export interface Answers {
  readonly greedy: readonly EvalRecord[];
  /** Null when nothing was sampled. */
  readonly sampled: readonly EvalRecord[] | null;
}

export interface PolicySize {
  readonly dims: Dims;
  readonly parameters: number;
}

const RUN_ADVICE = 'name the directory of a run, as `npx timeseer quickstart` writes it';

export class RunDirectory {
  readonly path: string;
  readonly name: string;
  readonly recipe: Recipe;
  readonly command: string;
  /** What was changed since it began, in order; `recipe` has the last values. */
  readonly changes: readonly RecipeChange[];

  /** @throws DataError when recipe.json is missing, not JSON, no recipe, or of another version of timeseer. */
  constructor(path: string) {
    this.path = path;
    const file = join(path, 'recipe.json');
    const { version = 1 } = readJson(file, z.looseObject({ version: z.int().optional() }), RUN_ADVICE);
    if (version !== RUN_VERSION) {
      throw new DataError(
        `a run of version ${version}, this timeseer reads version ${RUN_VERSION}; use the timeseer that wrote it, or begin a new run`,
        { file },
      );
    }
    const { name, recipe, command, changes = [] } = readJson(file, headerShape, RUN_ADVICE);
    this.name = name;
    this.recipe = recipe;
    this.command = command;
    this.changes = changes;
  }

  /** Path of a file of the run. */
  file(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  /** Empty when nothing was recorded. @throws DataError when damaged. */
  get environment(): z.infer<typeof environmentShape> {
    const file = this.file('environment.json');
    if (!existsSync(file)) return {};
    return readJson(file, environmentShape, 'remove it to report without it');
  }

  /** @throws DataError when damaged. */
  cost(stage: 'sft' | 'rl'): StageCost | null {
    const file = this.file(stage, 'stage.json');
    if (!existsSync(file)) return null;
    const found = readJson(file, stageShape, `run the ${stage} stage again`);
    return {
      seconds: found.seconds,
      samples: found.samples ?? 0,
      steps: found.steps ?? 0,
      complete: found.finished !== false,
      finished: typeof found.finished === 'string' ? found.finished : null,
    };
  }

  /** Empty when the stage was not run. @throws DataError when damaged. */
  sftLines(): SftLine[] {
    return readLines(this.file('sft', 'metrics.jsonl'), sftShape);
  }

  /** Empty when the stage was not run. @throws DataError when damaged. */
  rlLines(): RlLine[] {
    return readLines(this.file('rl', 'metrics.jsonl'), rlShape);
  }

  /** Empty when the stage was not evaluated while it trained. @throws DataError when damaged. */
  validationLines(stage: 'sft' | 'rl'): ValidationLine[] {
    return readLines(this.file(stage, 'validation.jsonl'), validationShape);
  }

  /** Path of a policy's answers. */
  answersFile(policy: PolicyName, mode: 'greedy' | 'sampled'): string {
    return this.file('eval', `${policy}.${mode}.jsonl`);
  }

  /** Null when the policy was not evaluated. @throws DataError when damaged. */
  answers(policy: PolicyName): Answers | null {
    const [greedy, sampled] = [this.answersFile(policy, 'greedy'), this.answersFile(policy, 'sampled')];
    if (!existsSync(greedy)) return null;
    return { greedy: readRecords(greedy), sampled: existsSync(sampled) ? readRecords(sampled) : null };
  }

  /** Greedy answers to the AnomLLM tasks by the last policy that gave any. @throws DataError when damaged. */
  transfer(): { readonly by: PolicyName; readonly records: readonly EvalRecord[] } | null {
    const by = POLICIES.toReversed().find((policy) => existsSync(this.#transferFile(policy)));
    return by === undefined ? null : { by, records: readRecords(this.#transferFile(by)) };
  }

  #transferFile(policy: PolicyName): string {
    return this.file('eval', `${policy}.anomllm.greedy.jsonl`);
  }

  get baselineFiles(): BaselineFiles {
    return {
      choice: this.file('eval', 'classical.json'),
      answers: this.file('eval', 'classical.jsonl'),
    };
  }

  /** Null when no detector was run. @throws DataError when damaged. */
  baselines(): Baselines | null {
    const files = this.baselineFiles;
    return existsSync(files.choice) ? readBaselines(files) : null;
  }

  /** Directory of a policy. */
  policyDirectory(policy: PolicyName): string {
    return policy === 'initial' ? this.file('initial') : this.file(policy, 'policy');
  }

  /** Sizes of the run's policy, from any of its checkpoints; null when all have been removed. */
  policySize(): PolicySize | null {
    const file = POLICIES.toReversed()
      .map((policy) => join(this.policyDirectory(policy), 'config.json'))
      .find(existsSync);
    if (file === undefined) return null;
    const dims = parseDims(readJson(file, z.unknown(), 'the checkpoint is damaged'), file);
    return { dims, parameters: layoutOf(dims).size };
  }

  /** When the last answers of the run were there, ISO 8601; null when that is not recorded. */
  #evaluated(): string | null {
    const checked = z.iso.datetime({ offset: true }).safeParse(this.environment['evaluation_finished']);
    return checked.success ? checked.data : null;
  }

  /**
   * When the run ended: the newest of what its stages and its evaluation recorded, else the age of the newest answers
   * or of the recipe. ISO 8601.
   */
  finished(): string {
    const recorded = [this.cost('sft')?.finished, this.cost('rl')?.finished, this.#evaluated()].flatMap(
      (time) => time ?? [],
    );
    if (recorded.length > 0) return new Date(Math.max(...recorded.map(Date.parse))).toISOString();
    const files = [
      this.file('recipe.json'),
      ...POLICIES.flatMap((policy) => [
        this.answersFile(policy, 'greedy'),
        this.answersFile(policy, 'sampled'),
      ]),
    ].filter(existsSync);
    return new Date(Math.max(...files.map((file) => statSync(file).mtimeMs))).toISOString();
  }
}
