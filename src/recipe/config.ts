/**
 * Recipes: what an experiment is, in YAML, checked strictly. Every key has a default, so a recipe holds only what
 * differs; an unknown key or a wrong value is a ConfigError that names key, file and line, and what was expected.
 */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError, closest, reasonOf } from '../ground/errors.ts';
import { readUtf8 } from '../ground/files.ts';
import { expected, isObject, leavesOf, shown, valueAt } from '../ground/json-record.ts';
import { addressText, isModuleSpecifier, moduleAddress, moduleHash } from '../ground/user-module.ts';
import { MOST_YAML_BYTES, readYaml } from '../ground/yaml.ts';
import { defaultRecipe, type Recipe, recipeSchema } from './recipe.ts';

export type { EvalRecipe, MemoryRecipe, PolicyRecipe, Recipe, RlRecipe, SftRecipe } from './recipe.ts';
export { defaultRecipe };

type Path = readonly (string | number)[];
type Tree = { [key: string]: unknown };

/** Kind of YAML file that comes with the package, with its folder. */
const FILES = {
  recipe: { folder: folderOf('recipes'), plural: 'recipes' },
  study: { folder: folderOf('recipes/studies'), plural: 'studies' },
} as const;

function folderOf(name: string): string {
  return join(dirname(fileURLToPath(import.meta.url)), '..', name);
}

/** Lists the recipes or studies in the package. */
export function namesOf(kind: keyof typeof FILES): string[] {
  return readdirSync(FILES[kind].folder)
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => name.slice(0, -'.yaml'.length))
    .sort();
}

export const isPath = (nameOrPath: string): boolean => /[/\\]|\.ya?ml$/.test(nameOrPath);

/** Finds and reads a recipe or study by name or path. @throws ConfigError */
export function readNamed(
  kind: keyof typeof FILES,
  nameOrPath: string,
): { readonly file: string; readonly text: string } {
  const { folder, plural } = FILES[kind];
  const names = namesOf(kind);
  const path = isPath(nameOrPath);
  if (path && !existsSync(nameOrPath)) {
    throw new ConfigError(`${nameOrPath}: no such ${kind} file; ${plural} by name: ${names.join(', ')}`);
  }
  if (!path && !names.includes(nameOrPath)) {
    const near = closest(nameOrPath, names);
    throw new ConfigError(
      `no ${kind} called ${nameOrPath}${near === undefined ? '' : `; did you mean ${near}?`} ` +
        `(${plural}: ${names.join(', ')}; a path to a .yaml file works too)`,
    );
  }
  const file = path ? nameOrPath : join(folder, `${nameOrPath}.yaml`);
  try {
    return { file, text: readUtf8(file, MOST_YAML_BYTES) };
  } catch (cause) {
    throw new ConfigError(`${file}: cannot be read as a ${kind} (${reasonOf(cause)})`, { cause });
  }
}

/** Keys of earlier versions, with their replacement. */
const REMOVED: Readonly<Record<string, string>> = {
  'rl.alpha': 'it is rl.timerpo.alpha now',
  'rl.transport': 'its keys are in rl.timerpo now',
};

function unknownKey(key: string, parent: Path): string {
  const full = [...parent, key].join('.');
  if (Object.hasOwn(REMOVED, full)) return `unknown key ${full}; ${REMOVED[full]}`;
  const defaults = defaultRecipe();
  const siblings = valueAt(defaults, parent);
  const near = closest(key, isObject(siblings) ? Object.keys(siblings) : []);
  const elsewhere = leavesOf(defaults).find(([name]) => name.split('.').at(-1) === key)?.[0];
  const meant = near === undefined ? elsewhere : [...parent, near].join('.');
  if (meant !== undefined) return `unknown key ${full}; did you mean ${meant}?`;
  return `unknown key ${full}; known here: ${isObject(siblings) ? Object.keys(siblings).join(', ') : 'none'}`;
}

function check(tree: unknown, place: (path: Path) => string): Recipe {
  const result = recipeSchema.safeParse(tree);
  if (result.success) return result.data;
  const messages = result.error.issues.flatMap((issue) => {
    const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key));
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => `${place([...path, key])}: ${unknownKey(key, path)}`);
    }
    const key = path.length === 0 ? 'the recipe' : path.join('.');
    const given = isObject(tree) ? valueAt(tree, path) : tree;
    const got = given === undefined ? `${shown(valueAt(defaultRecipe(), path))} (the default)` : shown(given);
    return [`${place(path)}: ${key}: got ${got}, expected ${expected(issue)}`];
  });
  throw new ConfigError(messages.join('\n'), { cause: result.error });
}

/** Returns the recipe for a tree of settings given in code. @throws ConfigError naming `place` and the key */
export const recipeOf = (tree: object, place: string): Recipe => check(tree, () => place);

/** Shortens a setting for messages. */
const brief = (text: string): string => (text.length > 100 ? `${text.slice(0, 97)}...` : text);

/** Setting that does not come from --set, and its origin for messages. */
export interface PlacedOverride {
  readonly text: string;
  readonly place: string;
}

/** Writes the key `reward` as `--reward` gives it. */
export const rewardOverride = (reward: readonly string[]): PlacedOverride => ({
  text: `reward=${JSON.stringify(reward)}`,
  place: '--reward',
});

/** Sets one `key.path=value` in the tree; values are YAML ('1e-4', '[0.9, 0.99]', 'grpo'). @param from origin, for messages */
function override(tree: Tree, text: string, from: string): Path {
  const split = text.indexOf('=');
  if (split < 1) {
    throw new ConfigError(`${from}: got no "=", expected key=value, as in sft.samples=1000`);
  }
  const path = text.slice(0, split).trim().split('.');
  let known: unknown = defaultRecipe();
  let target = tree;
  for (const [depth, key] of path.entries()) {
    if (isObject(known) && Object.keys(known).length === 0) {
      const [parent, rest] = [path.slice(0, depth).join('.'), path.slice(depth).join('.')];
      throw new ConfigError(
        `${from}: ${parent} is set as a whole: '${parent}={${rest}: ${text.slice(split + 1).trim()}}'`,
      );
    }
    if (!isObject(known) || !Object.hasOwn(known, key)) {
      throw new ConfigError(`${from}: ${unknownKey(key, path.slice(0, depth))}`);
    }
    known = known[key];
    if (depth === path.length - 1) {
      const fail = (complaint: string): ConfigError =>
        new ConfigError(`${from}: the value is not YAML: ${complaint}`);
      target[key] = readYaml(text.slice(split + 1), fail).content;
    } else {
      const present = Object.hasOwn(target, key) ? target[key] : undefined;
      const child = isObject(present) ? present : {};
      target[key] = child;
      target = child;
    }
  }
  return path;
}

/** Reads the settings of a recipe by name or path. @throws ConfigError */
function readSettings(nameOrPath: string): { content: Tree; place: (path: Path) => string } {
  const { file, text } = readNamed('recipe', nameOrPath);
  const lineOf = (line: number | undefined): string => (line === undefined ? file : `${file}:${line}`);
  const yaml = readYaml(
    text,
    (complaint, line) => new ConfigError(`${lineOf(line)}: not YAML: ${complaint}`),
  );
  const content = yaml.content ?? {};
  if (!isObject(content)) throw new ConfigError(`${file}: got ${shown(content)}, expected keys and values`);
  const place = (path: Path): string => lineOf(yaml.line(path));
  check(content, place);
  placeModules(content, dirname(file));
  return { content, place };
}

/** Names the place of a setting that comes from a run. */
const inRun = (): string => 'the recipe of the run';

/** Copies a recipe into settings. */
const settingsOf = (recipe: Recipe): Tree => structuredClone(recipe) as unknown as Tree;

/**
 * Reads a recipe by name ('quickstart') or path, or takes that of a run for a new one, then applies overrides such as 'sft.samples=1000' in
 * order. Throws ConfigError that names key, file and line (or the override), what was got and what was expected.
 */
export function loadRecipe(
  from: string | Recipe,
  overrides: readonly (string | PlacedOverride)[] = [],
): Recipe {
  const { content, place } =
    typeof from === 'string' ? readSettings(from) : { content: settingsOf(from), place: inRun };
  // Requirements hold for the data that the file names.
  const given = overrides.map(placed);
  if (given.some(({ text }) => /^\s*data\s*[.=]/.test(text))) delete content['requirements'];
  // The same is true of the number of series with a trace.
  if (given.some(({ text }) => /^\s*data\.name\s*=/.test(text)) && isObject(content['data'])) {
    delete content['data']['traces'];
  }
  return withOverrides(content, given, place);
}

/** Makes the paths of rewards and of an advantage estimator absolute that are relative to a directory. */
function placeModules(tree: Tree, directory: string): void {
  const absolute = (value: unknown): unknown =>
    isObject(value)
      ? { ...value, use: absolute(value['use']) }
      : typeof value === 'string' && isModuleSpecifier(value)
        ? addressText(moduleAddress(value, directory))
        : value;
  const { reward, rl, inspect } = tree;
  if (isObject(inspect) && Array.isArray(inspect['tools'])) inspect['tools'] = inspect['tools'].map(absolute);
  if (reward !== undefined && reward !== null) {
    tree['reward'] = Array.isArray(reward) ? reward.map(absolute) : absolute(reward);
  }
  if (isObject(rl) && rl['advantage'] !== undefined) rl['advantage'] = absolute(rl['advantage']);
}

/** A recipe with the hashes of its modules. @throws ConfigError for one that is not there */
function withHashes(recipe: Recipe, place: (path: Path) => string): Recipe {
  const hashOf = (use: string, path: Path): string | null => {
    if (!isModuleSpecifier(use)) return null;
    try {
      return moduleHash(moduleAddress(use, '.').file);
    } catch (cause) {
      const key = path.filter((part) => typeof part === 'string').join('.');
      throw new ConfigError(`${place(path)}: ${key}: ${(cause as Error).message}`, { cause });
    }
  };
  const { advantage } = recipe.rl;
  return {
    ...recipe,
    reward:
      recipe.reward?.map((entry, i) => ({ ...entry, sha256: hashOf(entry.use, ['reward', i]) })) ?? null,
    rl:
      typeof advantage === 'string'
        ? recipe.rl
        : {
            ...recipe.rl,
            advantage: { ...advantage, sha256: hashOf(advantage.use, ['rl', 'advantage']) },
          },
  };
}

const placed = (setting: string | PlacedOverride): PlacedOverride =>
  typeof setting === 'string' ? { text: setting, place: `--set ${brief(setting)}` } : setting;

/** Puts the overrides into a tree of settings, in order. @param place of a key that none of them sets */
function withOverrides(
  tree: Tree,
  overrides: readonly PlacedOverride[],
  place: (path: Path) => string,
): Recipe {
  const sources = new Map<string, string>();
  for (const { text, place } of overrides) sources.set(override(tree, text, place).join('.'), place);
  placeModules(tree, process.cwd());
  const sourceOf = (path: Path): string => {
    for (let length = path.length; length > 0; length--) {
      const source = sources.get(path.slice(0, length).join('.'));
      if (source !== undefined) return source;
    }
    return place(path);
  };
  return withHashes(check(tree, sourceOf), sourceOf);
}

/** A recipe with overrides such as 'rl.learningRate=1e-4'. @throws ConfigError naming the override */
export function changedRecipe(recipe: Recipe, overrides: readonly (string | PlacedOverride)[]): Recipe {
  return withOverrides(settingsOf(recipe), overrides.map(placed), inRun);
}

/** Returns the value of a dotted key; undefined for an unknown one. */
export function settingOf(recipe: Recipe, key: string): unknown {
  return valueAt(recipe as unknown as Tree, key.split('.'));
}

/** @throws ConfigError unless it is a key of recipes, or a block of keys */
export function checkKey(option: string, key: string): void {
  const path = key.split('.');
  if (valueAt(defaultRecipe() as unknown as Tree, path) !== undefined) return;
  const known = path.findIndex(
    (_, depth) => valueAt(defaultRecipe() as unknown as Tree, path.slice(0, depth + 1)) === undefined,
  );
  throw new ConfigError(`${option} ${brief(key)}: ${unknownKey(path[known]!, path.slice(0, known))}`);
}

/** Lists the dotted keys in which two recipes differ; a resumed run refuses them. */
export function changedKeys(a: Recipe, b: Recipe): string[] {
  const second = new Map(leavesOf(b));
  return leavesOf(a)
    .filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(second.get(key)))
    .map(([key]) => key);
}
