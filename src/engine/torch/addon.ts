/**
 * The built addon, kept in a cache outside node_modules, one directory per combination of sources, libtorch, compiler and
 * Node:
 *
 *     <cache>/torch-<version>-<key>/timeseer_torch.node     the addon, beside the log of its build
 *     <cache>/found-<key>.json                              libtorch and compiler as they were found last
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { EngineError } from '../../errors.ts';
import { WriteError, writeFileAtomic } from '../../files.ts';
import { cacheRoot, packageRoot } from '../../paths.ts';
import { type Compiler, findCompiler, headerVersions, linkFlags, NATIVE, ownFlags } from './compiler.ts';
import { type FindOptions, findLibtorch, findPython, type Libtorch, unchanged } from './find.ts';
import { processor, processorIdentity } from './processor.ts';

export const ADDON = 'timeseer_torch.node';
const RECORD_FORMAT = 2;

export interface AddonOptions extends FindOptions {
  /** The .cc files; the default are those of the package. */
  readonly sources?: readonly string[];
}

/** The package's .cc files: in src/engine/torch, whether this module runs from src or from dist. */
export function addonSources(): string[] {
  const directory = join(packageRoot(), 'src/engine/torch');
  const names = existsSync(directory) ? readdirSync(directory).filter((name) => name.endsWith('.cc')) : [];
  if (names.length === 0) {
    throw new EngineError(`${directory}: the engine's sources (*.cc) are missing; reinstall timeseer`);
  }
  return names.sort().map((name) => join(directory, name));
}

function digest(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** Where the addon of this combination lives in the cache, built or not: the same for every copy of the package. */
export function targetPath(libtorch: Libtorch, compiler: Compiler, options: AddonOptions): string {
  const node = `${process.platform}-${process.arch}-${process.versions.modules}`;
  const sources = options.sources ?? addonSources();
  const own = [...new Set(sources.map((file) => dirname(file)))].flatMap((directory) =>
    readdirSync(directory)
      .filter((name) => name.endsWith('.h'))
      .sort()
      .map((name) => join(directory, name)),
  );
  const key = digest([
    ...[...sources, ...own].flatMap((file) => [basename(file), readFileSync(file)]),
    JSON.stringify([libtorch, ownFlags(libtorch, compiler), headerVersions(), linkFlags(libtorch)]),
    JSON.stringify([compiler.command, compiler.version, node, NATIVE ? processorIdentity(processor()) : '']),
  ]);
  return join(cacheRoot(options.env), `torch-${libtorch.version}-${key}`, ADDON);
}

/** What an addon is built from. */
export interface Found {
  readonly libtorch: Libtorch;
  readonly compiler: Compiler;
}

function recordPath(env: NodeJS.ProcessEnv): string {
  const key = digest([
    env['LIBTORCH'] ?? '',
    env['CXX'] ?? '',
    env['CUDA_HOME'] ?? '',
    findPython(env) ?? '',
  ]);
  return join(cacheRoot(env), `found-${key}.json`);
}

/** What was found last time under the same environment, if its files are still the same. */
function recall(env: NodeJS.ProcessEnv): Found | null {
  try {
    const record = JSON.parse(readFileSync(recordPath(env), 'utf8')) as Found & { format: number };
    if (record.format !== RECORD_FORMAT || !unchanged(record.libtorch.stamps)) return null;
    // A machine may run what it cannot compile: a compiler that is gone does not matter, a new one does.
    const gone = !existsSync(record.compiler.command[0]);
    return gone || unchanged(record.compiler.stamps) ? record : null;
  } catch {
    return null;
  }
}

/** Saves a second next time. A cache that another user filled may be read-only, and serves all the same. */
export function remember(found: Found, env: NodeJS.ProcessEnv): void {
  try {
    writeFileAtomic(recordPath(env), `${JSON.stringify({ format: RECORD_FORMAT, ...found }, null, 2)}\n`);
  } catch (error) {
    if (!(error instanceof WriteError)) throw error;
  }
}

/**
 * Path of the built addon for the libtorch of this machine. Fast: no compiler and no Python is started when
 * the environment is the one of the last setup. Throws EngineError when it has not been built.
 */
export function addonPath(options: AddonOptions = {}): string {
  const env = options.env ?? process.env;
  const recalled = recall(env);
  const libtorch = recalled?.libtorch ?? findLibtorch(options);
  const compiler = recalled?.compiler ?? findCompiler(env);
  if (libtorch === null) {
    throw new EngineError('no libtorch on this machine; run `npm run setup` (or `npx timeseer setup`)');
  }
  const path = compiler === null ? null : targetPath(libtorch, compiler, options);
  if (path === null || !existsSync(path)) {
    throw new EngineError(
      `the engine is not built for libtorch ${libtorch.version} (${libtorch.root}); ` +
        'run `npm run setup` (or `npx timeseer setup`)',
    );
  }
  if (recalled === null && compiler !== null) remember({ libtorch, compiler }, env);
  return path;
}
