/**
 * Directory of a run, read strictly: a file that the run has not reached is absent (null), every other one must be whole.
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
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import { readJson, readJsonLines } from '../src/ground/json-files.ts';
import type { EvalRecord } from '../src/ground/types.ts';
import { layoutOf } from '../src/policy/layout.ts';
import { type Dims, parseDims } from '../src/policy/model-config.ts';
import { type Recipe, recipeSchema } from '../src/recipe/recipe.ts';
import { type BaselineFiles, type Baselines, readBaselines } from './baselines.ts';
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
  /** Progress of the run at that time: completed steps of its last stage. */
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

/** Cost of a stage; seconds, numbers of samples and steps, completeness, and the time of its end. */
const stageShape = z
  .object({
    seconds: z.number().nonnegative(),
    samples: z.int().nonnegative().nullish(),
    steps: z.int().nonnegative().nullish(),
    /** Time of the end (ISO 8601), or true where the stage came to its end. */
    finished: z.union([z.boolean(), z.iso.datetime({ offset: true })]).nullish(),
  })
  .transform(({ seconds, samples, steps, finished }) => ({
    ...{ seconds, samples: samples ?? 0, steps: steps ?? 0 },
    /** False when the stage was stopped before its end. */
    complete: finished !== false,
    /** Time of the end, ISO 8601; null when that is not recorded. */
    finished: typeof finished === 'string' ? finished : null,
  }));

const environmentShape = z.record(z.string(), z.json());

/** A number of the log; one that was not finite stands in JSON as null. */
const measured = z.number().nullable();

const sftShape = z.object({
  step: z.int().positive(),
  /** Examples seen so far. */
  samples: z.int().positive(),
  /** Mean −log π per response token. */
  loss: measured,
  /** Milliseconds of the step by phase. */
  ms: z.record(z.string(), z.number()),
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
  /** Absent from logs before it was measured. */
  reasoning: z.object({ claimF1: measured, agreement: measured }).nullable().default(null),
  /** Milliseconds of the step by phase. */
  ms: z.record(z.string(), z.number()),
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

/** Reads the lines of a log; none where the stage was not run. A torn last line of a killed process is dropped. */
function readLines<Shape extends z.ZodType>(file: string, shape: Shape): z.infer<Shape>[] {
  if (!existsSync(file)) return [];
  return readJsonLines(file, shape, { advice: 'remove it to report without curves', onTornEnd() {} });
}

/** Answers of one policy to the held-out series. */
export interface Answers {
  readonly greedy: readonly EvalRecord[];
  /** Answers at the sampling temperature; null when nothing was sampled. */
  readonly sampled: readonly EvalRecord[] | null;
}

const RUN_ADVICE = 'name the directory of a run, as `npx timeseer quickstart` writes it';

const DAMAGED_ADVICE = 'the file is damaged: restore it from a copy, or begin the run again in another --out';

/** Finds the run directory of a policy; undefined where it is not of a run, or is a name. */
export function runOf(policy: string): string | undefined {
  if (!existsSync(policy)) return undefined;
  const above = dirname(resolve(policy));
  return [policy, above, dirname(above)].find((path) => existsSync(join(path, 'recipe.json')));
}

export class RunDirectory {
  readonly path: string;
  readonly name: string;
  readonly recipe: Recipe;
  readonly command: string;
  /** Changes since the run began, in order; `recipe` has the last values. */
  readonly changes: readonly RecipeChange[];

  /** @throws DataError when recipe.json is missing, not JSON, no recipe, or of another version of timeseer. */
  constructor(path: string) {
    this.path = path;
    const file = join(path, 'recipe.json');
    const advice = existsSync(file) ? DAMAGED_ADVICE : RUN_ADVICE;
    const { version = 1 } = readJson(file, z.looseObject({ version: z.int().optional() }), advice);
    if (version !== RUN_VERSION) {
      throw new DataError(
        `a run of version ${version}, this timeseer reads version ${RUN_VERSION}; use the timeseer that wrote it, or begin a new run`,
        { file },
      );
    }
    const { name, recipe, command, changes = [] } = readJson(file, headerShape, advice);
    this.name = name;
    this.recipe = recipe;
    this.command = command;
    this.changes = changes;
  }

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
  cost(stage: 'sft' | 'rl'): z.infer<typeof stageShape> | null {
    const file = this.file(stage, 'stage.json');
    return existsSync(file) ? readJson(file, stageShape, `run the ${stage} stage again`) : null;
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

  answersFile(policy: PolicyName, mode: 'greedy' | 'sampled'): string {
    return this.file('eval', `${policy}.${mode}.jsonl`);
  }

  /** Reads the answers of a policy; null when it was not evaluated. @throws DataError when damaged */
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

  /** Reads the classical baselines; null when none was run. @throws DataError when damaged */
  baselines(): Baselines | null {
    const files = this.baselineFiles;
    return existsSync(files.choice) ? readBaselines(files) : null;
  }

  policy(policy: PolicyName): string {
    return policy === 'initial' ? this.file('initial') : this.file(policy, 'policy');
  }

  /** Directory of the last policy that holds a file of this name; undefined when all have been removed. */
  lastPolicyWith(name: string): string | undefined {
    const directories = POLICIES.map((policy) => this.policy(policy));
    return directories.findLast((directory) => existsSync(join(directory, name)));
  }

  /** Sizes of the run's policy, from any of its checkpoints; null when all have been removed. */
  policySize(): { readonly dims: Dims; readonly parameters: number } | null {
    const directory = this.lastPolicyWith('config.json');
    if (directory === undefined) return null;
    const file = join(directory, 'config.json');
    const dims = parseDims(readJson(file, z.unknown(), 'the checkpoint is damaged'), file);
    return { dims, parameters: layoutOf(dims).size };
  }

  /** Time of the last answers, ISO 8601; null when that is not recorded. */
  #evaluated(): string | null {
    const checked = z.iso.datetime({ offset: true }).safeParse(this.environment['evaluation_finished']);
    return checked.success ? checked.data : null;
  }

  /** Time when the run ended, ISO 8601: the newest on record, else that of the newest file of answers, or of the recipe. */
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
