/** Paths of the package (from sources or dist), of its Worker programs and of the cache. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ConfigError } from './errors.ts';

/** Directory of timeseer's package.json. */
export function packageRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json')) && dirname(directory) !== directory) {
    directory = dirname(directory);
  }
  return directory;
}

/**
 * Directory of the policies that ship with timeseer, one subdirectory each, with weights and the graphs that the build makes of them; it may
 * be missing. Equal for built code.
 */
export function policiesDirectory(): string {
  return join(packageRoot(), 'dist/policies');
}

/** Version in package.json. */
export function packageVersion(): string {
  const content: unknown = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'));
  const version =
    typeof content === 'object' && content !== null && 'version' in content ? content.version : null;
  return typeof version === 'string' ? version : 'unknown';
}

/** Digest of the code that runs here: all built files, or all sources. */
export function codeDigest(): string {
  const roots = import.meta.url.endsWith('.ts') ? ['src', 'eval', 'datasets', 'rewards'] : ['dist'];
  const hash = createHash('sha256');
  const files = roots
    .flatMap((root) => readdirSync(join(packageRoot(), root), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.[jt]s$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
  for (const file of files.sort()) hash.update(file.slice(packageRoot().length)).update(readFileSync(file));
  return hash.digest('hex').slice(0, 12);
}

function home(): string {
  try {
    return homedir();
  } catch (cause) {
    throw new ConfigError(
      'this user has no home directory; name a directory for the cache in TIMESEER_CACHE',
      {
        cause,
      },
    );
  }
}

/**
 * Directory for rebuildable files: `$TIMESEER_CACHE`, else `$XDG_CACHE_HOME/timeseer`, else
 * `~/.cache/timeseer`.
 * @throws ConfigError for a user without a home directory
 */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  const chosen = env['TIMESEER_CACHE'];
  if (chosen !== undefined && chosen !== '') return resolve(chosen);
  const shared = env['XDG_CACHE_HOME'];
  return join(shared !== undefined && shared !== '' ? resolve(shared) : join(home(), '.cache'), 'timeseer');
}

/** Arguments of `new Worker(url, { execArgv })`. */
export interface WorkerProgram {
  readonly url: URL;
  readonly execArgv: string[];
}

/**
 * Resolves the Worker program `name` relative to `base`, the caller's `import.meta.url`: from built code the
 * `.js` file, from a `.ts` file (tsx, Vitest) the `.ts` source through tsx.
 */
export function workerUrl(name: string, base: string | URL): WorkerProgram {
  const stem = name.replace(/\.[cm]?[tj]s$/, '');
  if (!new URL(base).pathname.endsWith('.ts')) return { url: new URL(`${stem}.js`, base), execArgv: [] };
  // Node 20 does not apply `--import` loaders to a Worker's own entry, so a data: module registers tsx first.
  // tsx is resolved from here, not from the working directory, where it may not be installed; `require` names
  // the CommonJS twin, whose registration looks for its hooks in the wrong directory.
  const twin = createRequire(import.meta.url).resolve('tsx/esm/api');
  const loader = pathToFileURL(twin.replace(/\.cjs$/, '.mjs')).href;
  const program = new URL(`${stem}.ts`, base).href;
  const source = `import { register } from ${JSON.stringify(loader)}; register(); await import(${JSON.stringify(program)});`;
  return { url: new URL(`data:text/javascript,${encodeURIComponent(source)}`), execArgv: [] };
}

/** Returns true for a directory that is there. */
export const isDirectory = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/**
 * Returns true if `path` matches a pattern: `*` any text, `?` one character. Only the last star is retried,
 * so the time is at most the product of both lengths.
 */
export function fits(path: string, pattern: string): boolean {
  const [text, wanted] = [[...path], [...pattern]];
  let [at, next] = [0, 0];
  let star = -1; // the last one in the pattern, and where its text ends
  let end = 0;
  while (at < text.length) {
    if (wanted[next] === '*') {
      star = next++;
      end = at;
    } else if (wanted[next] === '?' || wanted[next] === text[at]) {
      next++;
      at++;
    } else if (star >= 0) {
      next = star + 1;
      at = ++end;
    } else return false;
  }
  while (wanted[next] === '*') next++;
  return next === wanted.length;
}
