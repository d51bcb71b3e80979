import { dirname, isAbsolute, join } from 'node:path';
import { z } from 'zod';
import { ConfigError, closest } from '../ground/errors.ts';
import { issueText } from '../ground/json-record.ts';
import { readYaml } from '../ground/yaml.ts';
import { isPath, loadRecipe, type PlacedOverride, readNamed } from './config.ts';
import type { Recipe } from './recipe.ts';

/** The arm that every setting with a start has by itself: the policy that the others begin with. */
export const START = 'start';

const count = (smallest: number, most: number) => z.number().int().min(smallest).max(most);
const title = z.string().min(1);
/** Name of a setting or arm; also a directory name. */
const name = z
  .string()
  .regex(/^[A-Za-z][\w.-]*$/, 'expected a letter, then letters, digits, ".", "_" or "-"');
/** Keys of a recipe with dots between levels, and their values. */
const set = z.record(z.string().min(1), z.json()).readonly().default({});

const evaluation = z
  .strictObject({
    /** Evaluated split; use 'validation' to choose between arms. */
    split: z.enum(['test', 'validation']).default('test'),
    /** Series, the same ones for every arm and seed. */
    series: count(1, 1e7).default(400),
    /** Sampling temperatures; 0 is greedy. KL and entropy are measured at the highest one. */
    temperatures: z
      .array(z.number().min(0).max(10))
      .min(1)
      .refine((list) => new Set(list).size === list.length, 'expected different temperatures')
      .readonly()
      .default([0, 0.5, 0.7, 1]),
    /** Sampled answers per series and temperature. */
    samples: count(1, 1024).default(4),
    /** True: also continue from changed reasonings (`eval --intervene`), and report how many answers follow. */
    intervene: z.boolean().default(false),
    /** Seed for generated series, random samples of a larger split, and sampled answers. */
    seed: count(0, Number.MAX_SAFE_INTEGER).default(42),
  })
  .readonly();

const setting = z
  .strictObject({
    title: title.optional(),
    /** Name of a recipe, or a path relative to the study file. */
    recipe: z.string().min(1),
    set,
    /**
     * Changes to the setting's recipe, without reinforcement, that train the initial policy of all arms, once per seed. Default: every arm
     * begins with the policy of its recipe.
     */
    start: z.strictObject({ set }).readonly().optional(),
    /** Setting whose policies are evaluated here, on the data of this one; nothing is trained. */
    policies: name.optional(),
    /** Overrides of the study's `evaluation`. */
    evaluation: z.record(z.string(), z.json()).readonly().default({}),
  })
  .readonly();

const armInSetting = z.union([
  z.literal('skip'),
  z.strictObject({ set, start: z.literal('none').optional() }).readonly(),
]);

const arm = z
  .strictObject({
    title: title.optional(),
    set,
    /** 'none' begins with the policy of the recipe instead of the setting's start. */
    start: z.literal('none').optional(),
    /** Changes in single settings; 'skip' omits the arm there. */
    settings: z.record(name, armInSetting).readonly().default({}),
  })
  .readonly();

const studySchema = z
  .strictObject({
    title: title.optional(),
    seeds: z
      .array(count(0, Number.MAX_SAFE_INTEGER))
      .min(1)
      .refine((list) => new Set(list).size === list.length, 'expected different seeds')
      .readonly(),
    /** Reference arm of all differences. */
    base: name,
    /** Column that the verdict is about and that the picture shows beside the reward, such as claim_f1. Default: the greedy reward. */
    primary: z.string().min(1).nullable().default(null),
    /** Columns in which an arm counts as equal to the base: most by which its mean may be lower, as in { reward: 0.01 }. */
    margins: z.record(z.string().min(1), z.number().nonnegative()).readonly().default({}),
    /** Resamples behind every interval. */
    bootstrap: count(100, 1e6).default(2000),
    /** Changes to every run, before those of settings and arms. */
    set,
    evaluation: evaluation.prefault({}),
    settings: z.record(name, setting).readonly(),
    arms: z.record(name, arm).readonly(),
  })
  .readonly();

export type StudyFile = z.infer<typeof studySchema>;
export type StudyEvaluation = z.infer<typeof evaluation>;

/** One run of the grid. */
export interface Cell {
  readonly setting: string;
  /** START, or one of the study's arms. */
  readonly arm: string;
  readonly seed: number;
  /** `SETTING/ARM/seed-N`: its directory in that of the study. */
  readonly path: string;
  /** Path of the cell that trains its policy: its own, unless its setting takes those of another. */
  readonly run: string;
  /** Recipe by name or path, and what is changed of it, as --set has it. */
  readonly recipe: string;
  readonly set: readonly string[];
  /** The start of its setting and seed, also where it does not begin with it; null: the setting has none. */
  readonly start: string | null;
  /** True where it begins with the start of its setting. */
  readonly continues: boolean;
  readonly evaluation: StudyEvaluation;
  /** Evaluation data: that of its setting, also where it was trained on other data. */
  readonly data: Recipe['data'];
}

export interface Study {
  /** Name of its file. */
  readonly name: string;
  /** Name or path that it was read by. */
  readonly given: string;
  /** The file as it is. */
  readonly text: string;
  readonly file: StudyFile;
  /**
   * Seeds outermost, so that after each of them all arms have equally many; the start of a setting before its arms.
   * `directory` is that of the study.
   */
  cells(directory: string): Cell[];
}

/** Overrides of a block of the file, each with its place there. */
type Block = (path: readonly string[], values: Readonly<Record<string, unknown>>) => PlacedOverride[];

const texts = (overrides: readonly PlacedOverride[]): string[] => overrides.map(({ text }) => text);

/** The name of an arm as people read it. */
export function armTitle(file: StudyFile, arm: string): string {
  return arm === START ? 'Start' : (file.arms[arm]?.title ?? arm);
}

/**
 * Reads a study by name or path; every recipe that it makes is checked.
 * @throws ConfigError that names file, line and key, what was got and what was expected
 */
export function loadStudy(nameOrPath: string): Study {
  const { file: path, text } = readNamed('study', nameOrPath);
  const at = (line: number | undefined): string => (line === undefined ? path : `${path}:${line}`);
  const yaml = readYaml(text, (complaint, line) => new ConfigError(`${at(line)}: not YAML: ${complaint}`));
  const fail = (key: readonly PropertyKey[], complaint: string): ConfigError =>
    new ConfigError(`${at(yaml.line(key))}: ${complaint}`);
  const read = studySchema.safeParse(yaml.content);
  if (!read.success) {
    const [issue] = read.error.issues;
    // For an invalid name, report the fault of the name.
    const inner = issue!.code === 'invalid_key' ? issue!.issues[0]! : issue!;
    const name = issue!.path.at(-1);
    throw inner === issue
      ? fail(issue.path, issueText(issue, yaml.content, 'the study'))
      : fail(issue!.path, `${issue!.path.map(String).join('.')}: got ${String(name)}, ${inner.message}`);
  }
  const file = read.data;
  const { arms, base, seeds, settings } = file;
  const unknown = (key: readonly string[], what: string, given: string, known: readonly string[]) => {
    const near = closest(given, known);
    return fail(
      key,
      `${key.join('.')}: no ${what} called ${given}${near === undefined ? '' : `; did you mean ${near}?`} ` +
        `(${what}s: ${known.join(', ')})`,
    );
  };
  if (Object.keys(settings).length === 0)
    throw fail(['settings'], 'settings: got none, expected at least one');
  if (Object.hasOwn(arms, START)) {
    throw fail(['arms', START], `arms.${START}: every setting with a start has this arm; give another name`);
  }
  if (!Object.hasOwn(arms, base)) throw unknown(['base'], 'arm', base, Object.keys(arms));
  const without = Object.keys(settings).find((setting) => arms[base]!.settings[setting] === 'skip');
  if (without !== undefined) {
    throw fail(
      ['arms', base, 'settings', without],
      `arms.${base}: is the base and cannot be skipped in ${without}`,
    );
  }
  for (const [armName, { settings: changes }] of Object.entries(arms)) {
    const strange = Object.keys(changes).find((given) => !Object.hasOwn(settings, given));
    if (strange !== undefined) {
      throw unknown(['arms', armName, 'settings', strange], 'setting', strange, Object.keys(settings));
    }
  }

  const block: Block = (where, values) =>
    Object.entries(values).map(([key, value]) => {
      if (key === 'seed')
        throw fail([...where, key], `${where.join('.')}: seed is what 'seeds' says; leave it out`);
      return {
        text: `${key}=${JSON.stringify(value)}`,
        place: `${at(yaml.line([...where, key]))}: ${where.join('.')}`,
      };
    });
  const recipeOf = (setting: string): string => {
    const { recipe } = settings[setting]!;
    return isPath(recipe) && !isAbsolute(recipe) ? join(dirname(path), recipe) : recipe;
  };
  const evaluations = new Map(
    Object.entries(settings).map(([setting, { evaluation: overrides }]) => {
      const parsed = evaluation.safeParse({ ...file.evaluation, ...overrides });
      if (parsed.success) return [setting, parsed.data];
      const [issue] = parsed.error.issues;
      const where = ['settings', setting, 'evaluation'];
      throw fail([...where, ...issue!.path], `${where.join('.')}.${issueText(issue!, overrides, 'it')}`);
    }),
  );
  const ofSetting = (setting: string): PlacedOverride[] => [
    ...block(['set'], file.set),
    ...block(['settings', setting, 'set'], settings[setting]!.set),
  ];
  /** Returns the changes of a cell, without seed and start; null where the cell does not exist. */
  const changesOf = (setting: string, armName: string): PlacedOverride[] | null => {
    const { start } = settings[setting]!;
    const shared = ofSetting(setting);
    if (armName === START) {
      const unreinforced = { text: 'rl.steps=0', place: path };
      return start === undefined
        ? null
        : [...shared, unreinforced, ...block(['settings', setting, 'start', 'set'], start.set)];
    }
    const here = arms[armName]!.settings[setting];
    if (here === 'skip') return null;
    const where = ['arms', armName];
    return [
      ...shared,
      ...(continues(setting, armName) ? [{ text: 'sft.samples=0', place: path }] : []),
      ...block([...where, 'set'], arms[armName]!.set),
      ...block([...where, 'settings', setting, 'set'], here?.set ?? {}),
    ];
  };
  const continues = (setting: string, armName: string): boolean => {
    const here = arms[armName]?.settings[setting];
    const none = arms[armName]?.start === 'none' || (typeof here === 'object' && here.start === 'none');
    return armName !== START && settings[setting]!.start !== undefined && !none;
  };
  for (const [setting, { policies, start, set }] of Object.entries(settings)) {
    if (policies === undefined) continue;
    const where = ['settings', setting, 'policies'];
    const [own, trained] = [Object.keys(settings).indexOf(setting), Object.keys(settings).indexOf(policies)];
    if (trained < 0) throw unknown(where, 'setting', policies, Object.keys(settings));
    if (trained >= own || settings[policies]!.policies !== undefined)
      throw fail(
        where,
        `${where.join('.')}: got ${policies}, expected an earlier setting that trains policies of its own`,
      );
    const other = Object.keys(set).find((key) => !/^data\b/.test(key));
    if (other !== undefined)
      throw fail(
        ['settings', setting, 'set', other],
        `settings.${setting}.set: ${other} changes nothing, since its policies are those of ${policies}; set data.* alone`,
      );
    const arm = Object.keys(arms).find((given) => typeof arms[given]!.settings[setting] === 'object');
    if (arm !== undefined)
      throw fail(
        ['arms', arm, 'settings', setting],
        `arms.${arm}.settings.${setting}: changes nothing, since its policies are those of ${policies}; change ${policies}, or skip the arm here`,
      );
    if (start !== undefined)
      throw fail(
        ['settings', setting, 'start'],
        `settings.${setting}.start: its policies are those of ${policies}; leave it out`,
      );
  }
  /** The setting that trains the policies of a setting. */
  const trainerOf = (setting: string): string => settings[setting]!.policies ?? setting;
  const grid = Object.keys(settings).flatMap((setting) =>
    [START, ...Object.keys(arms)].flatMap((armName) => {
      const changes = changesOf(trainerOf(setting), armName);
      const isSkipped = arms[armName]?.settings[setting] === 'skip';
      return changes === null || isSkipped ? [] : [{ setting, arm: armName, changes }];
    }),
  );
  const data = new Map(
    Object.keys(settings).map((setting) => [
      setting,
      checked(recipeOf(setting), ofSetting(setting), fail, setting).data,
    ]),
  );
  for (const { setting, arm: armName, changes } of grid) {
    const trainer = trainerOf(setting);
    const recipe = checked(recipeOf(trainer), changes, fail, trainer);
    if (recipe.sft.samples > 0 || recipe.rl.steps > 0 || armName === START || continues(trainer, armName))
      continue;
    throw fail(
      ['arms', armName],
      `arms.${armName}: trains nothing in ${setting}: sft.samples and rl.steps are 0`,
    );
  }

  return {
    name: path.replace(/^.*[/\\]/, '').replace(/\.ya?ml$/, ''),
    given: nameOrPath,
    text,
    file,
    cells: (directory) =>
      seeds.flatMap((seed) =>
        grid.map(({ setting, arm: armName, changes }): Cell => {
          const trainer = trainerOf(setting);
          const pathOf = (of: string): string => `${trainer}/${of}/seed-${seed}`;
          const goesOn = continues(trainer, armName);
          const start = settings[trainer]!.start === undefined ? null : pathOf(START);
          // Before what the arm itself says.
          const from = goesOn ? [`policy.init=${JSON.stringify(join(directory, start!))}`] : [];
          return {
            ...{ setting, arm: armName, seed, start, recipe: recipeOf(trainer) },
            ...{ path: `${setting}/${armName}/seed-${seed}`, run: pathOf(armName) },
            set: [`seed=${seed}`, ...from, ...texts(changes)],
            continues: goesOn,
            evaluation: evaluations.get(setting)!,
            data: data.get(setting)!,
          };
        }),
      ),
  };
}

/** @throws ConfigError with the place in the study file */
function checked(
  recipe: string,
  changes: readonly PlacedOverride[],
  fail: (key: readonly string[], complaint: string) => ConfigError,
  setting: string,
): Recipe {
  try {
    return loadRecipe(recipe, changes);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    if (changes.some(({ place }) => error.message.startsWith(place))) throw error;
    throw fail(['settings', setting, 'recipe'], `settings.${setting}.recipe: ${error.message}`);
  }
}
