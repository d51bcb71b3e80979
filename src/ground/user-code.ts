/**
 * Runs users' modules: `.js` and `.mjs` by Node, `.ts` and `.mts` by Node if it strips types, else by jiti.
 * In them `timeseer` resolves to the running package; Node before 22.15 has no hook for that, and modules
 * that import it go through jiti.
 */
import { readFileSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { pathToFileURL } from 'node:url';
import { ConfigError, reasonOf, suggestion, TimeseerError } from './errors.ts';
import { show } from './json-record.ts';
import { addressText, type ModuleAddress, moduleTexts } from './user-module.ts';

/** Files behind `timeseer` and its other entry in a user's module. */
const ENTRIES: Readonly<Record<string, string>> = {
  timeseer: entryUrl('../index'),
  'timeseer/series': entryUrl('../series/index'),
};

function entryUrl(stem: string): string {
  const ending = new URL(import.meta.url).pathname.endsWith('.ts') ? '.ts' : '.js';
  return new URL(stem + ending, import.meta.url).href;
}

/** In-thread hooks of newer versions of Node, which the types of the oldest supported one lack. */
interface SyncHooks {
  readonly registerHooks?: (hooks: {
    resolve: (specifier: string, context: unknown, next: (s: string, c: unknown) => unknown) => unknown;
  }) => void;
}

let provided = false;

/**
 * Makes the package resolvable for native imports of this thread; false if Node lacks synchronous hooks. (The
 * older `module.register` starts a thread, which keeps a Worker alive.)
 */
function provideEntries(): boolean {
  const { registerHooks } = nodeModule as SyncHooks;
  if (registerHooks === undefined) return false;
  if (provided) return true;
  provided = true;
  registerHooks({
    resolve: (specifier, context, next) => {
      const url = Object.hasOwn(ENTRIES, specifier) ? ENTRIES[specifier] : undefined;
      return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
    },
  });
  return true;
}

/**
 * Returns true if Node can run a module with its imports: types are stripped if needed, and `timeseer`
 * resolves.
 */
function isNative(file: string): boolean {
  const texts = moduleTexts(file);
  const typed = [...texts.keys()].some((file) => /\.m?ts$/u.test(file));
  const ours = [...texts.values()].some((text) => /["']timeseer(?:\/series)?["']/u.test(text));
  return (!typed || stripsTypes()) && (!ours || provideEntries());
}

const stripsTypes = (): boolean =>
  Boolean((process.features as unknown as Readonly<Record<string, unknown>>)['typescript']);

async function jitiOf() {
  const { createJiti } = await import('jiti');
  const names = Object.keys(ENTRIES);
  const modules = await Promise.all(names.map((name) => import(/* @vite-ignore */ ENTRIES[name]!)));
  const virtualModules = Object.fromEntries(names.map((name, i) => [name, modules[i]]));
  return createJiti(import.meta.url, { virtualModules, fsCache: false, interopDefault: false });
}

/** Returns true if a line of a file has this column. Code that jiti runs has its wrapper in front of the first line. */
function hasColumn(file: string, line: number, column: number): boolean {
  try {
    return column <= (readFileSync(file, 'utf8').split('\n')[line - 1]?.length ?? 0) + 1;
  } catch {
    return true; // removed since
  }
}

/** Returns `:LINE:COLUMN` of an error in the module, if its stack holds it; `:LINE` where the line has no such column. */
function placeIn(file: string, stack: string | undefined): string {
  const plain = stack?.replaceAll(pathToFileURL(file).href, file) ?? '';
  const at = plain.indexOf(`${file}:`);
  const [place, line, column] = /^:(\d+)(?::(\d+))?/u.exec(plain.slice(Math.max(0, at) + file.length)) ?? [];
  if (at < 0 || place === undefined) return '';
  return column === undefined || hasColumn(file, Number(line), Number(column)) ? place : `:${line}`;
}

/** Returns the syntax error of a file with its place; Node's loader does not report the line. */
async function syntaxProblem(file: string): Promise<string | null> {
  const jiti = await jitiOf();
  const source = readFileSync(file, 'utf8');
  const marked = jiti.transform({ source, filename: file, ts: /\.m?ts$/u.test(file), async: true });
  const problem = /__JITI_ERROR__ = (\{.*\})/u.exec(marked)?.[1];
  if (problem === undefined) return null;
  const { line, column, message } = JSON.parse(problem) as Record<'line' | 'column' | 'message', unknown>;
  return `${file}:${line}:${column}: ${String(message).trim()}`;
}

const ADVICE = 'correct the module';

async function failure(file: string, cause: unknown): Promise<ConfigError> {
  if (cause instanceof TimeseerError) return new ConfigError(`${file}: ${cause.message}`, { cause });
  const { name = 'Error', message = String(cause), stack, code } = (cause ?? {}) as NodeJS.ErrnoException;
  const parsed = /ParseError: ([^\n]+?)\s*\n\s*(\S+?:\d+:\d+)/u.exec(message);
  if (parsed !== null) return new ConfigError(`${parsed[2]}: ${parsed[1]}; ${ADVICE}`, { cause });
  if (name === 'SyntaxError') {
    const problem = await syntaxProblem(file).catch(() => null);
    return new ConfigError(`${problem ?? `${file}${placeIn(file, stack)}: ${message}`}; ${ADVICE}`, {
      cause,
    });
  }
  if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') {
    return new ConfigError(
      `${file}: ${message.split('\n')[0]}; correct the import, or install what it names`,
      {
        cause,
      },
    );
  }
  const what = message.split('\n')[0];
  return new ConfigError(
    `${file}${placeIn(file, stack)}: threw ${name} when it was loaded: ${what}; ${ADVICE}`,
    {
      cause,
    },
  );
}

/** Errors that jiti avoids: `./other.js` for other.ts, imports without an extension, enums. */
const BEYOND_NODE: ReadonlySet<string> = new Set([
  'ERR_MODULE_NOT_FOUND',
  'ERR_UNSUPPORTED_DIR_IMPORT',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
]);

/** All exports of a module. @throws ConfigError naming file and line of what is wrong with it */
async function exportsOf(file: string): Promise<Readonly<Record<string, unknown>>> {
  const native = isNative(file);
  try {
    if (native) {
      try {
        return (await import(/* @vite-ignore */ pathToFileURL(file).href)) as Record<string, unknown>;
      } catch (error) {
        // Nothing has run yet.
        if (!BEYOND_NODE.has((error as NodeJS.ErrnoException)?.code ?? '')) throw error;
      }
    }
    return await (await jitiOf()).import<Record<string, unknown>>(file);
  } catch (cause) {
    throw await failure(file, cause);
  }
}

/**
 * Loads the export that an address names; the module's code runs in this thread.
 * @param wanted expected export, for the message: `a reward made with defineReward`
 * @throws ConfigError for a missing module, a syntax error, an exception, or a missing export
 */
export async function loadModule({ file, name }: ModuleAddress, wanted: string): Promise<unknown> {
  const all = await exportsOf(file);
  if (Object.hasOwn(all, name)) return all[name];
  const names = Object.keys(all).filter((key) => key !== 'default' && key !== '__esModule');
  const known = names.length === 0 ? 'it exports nothing' : `it exports ${names.join(', ')}`;
  throw new ConfigError(
    name === 'default'
      ? `${file}: no default export; write export default for ${wanted}${names.length === 0 ? '' : `, or name one of its exports, ${addressText({ file, name: names[0]! })}`}`
      : `${file}: exports no ${name}; ${known}.${suggestion(name, names)}`,
  );
}

/** Reads a module's export by the function that defines it. @throws ConfigError naming the file */
export function readExport<T>(file: string, noun: string, define: () => T): T {
  try {
    return define();
  } catch (cause) {
    throw new ConfigError(`${file}: exports no ${noun}: ${(cause as Error).message}`, { cause });
  }
}

/** Name of a user's definition, one word. */
export const NAME = /^[A-Za-z][\w-]{0,63}$/u;

/** Checks the name of a user's definition. @throws ConfigError */
export function checkName(definer: string, name: unknown): asserts name is string {
  if (typeof name === 'string' && NAME.test(name)) return;
  throw new ConfigError(
    `${definer}: name: got ${show(name)}, expected a word of letters, digits, _ and - that begins with a letter`,
  );
}

/** Returns the message of a thrown value in one line, with its place in the module. */
export function thrownText(file: string, thrown: unknown): string {
  if (!(thrown instanceof Error)) return `threw ${JSON.stringify(thrown) ?? String(thrown)}`;
  const place = placeIn(file, thrown.stack);
  return `threw ${thrown.name}: ${reasonOf(thrown).split('\n')[0]}${place === '' ? '' : ` (${file}${place})`}`;
}
