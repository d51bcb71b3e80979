/**
 * The native addon: compiled against a libtorch that was found, and kept in a cache outside node_modules, one directory per
 * combination of sources, libtorch, compiler and Node:
 *
 *     <cache>/torch-<version>-<key>/timeseer_torch.node     the addon, beside the log of its build
 *     <cache>/found-<key>.json                              libtorch and compiler as they were found last
 *
 * A directory of the cache appears whole or not at all, so a process that is killed, or two that build at once, do no harm.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { EngineError } from '../../ground/errors.ts';
import {
  tidyUp,
  WriteError,
  writeDirectoryAtomicAsync,
  writeFileAtomic,
  writeJson,
} from '../../ground/files.ts';
import { withLock } from '../../ground/lock.ts';
import { cacheRoot, packageRoot } from '../../ground/paths.ts';
import {
  type FindOptions,
  findExecutable,
  findLibtorch,
  findPython,
  type Libtorch,
  type Stamp,
  stamp,
  unchanged,
} from './find.ts';
import { processor, processorIdentity } from './kernel.ts';

const ADDON = 'timeseer_torch.node';
const RECORD_FORMAT = 4;

interface AddonOptions extends FindOptions {
  /** The .cc files; the default are those of the package. */
  readonly sources?: readonly string[];
}

/** The package's .cc files: in src/engine/torch, whether this module runs from src or from dist. */
function addonSources(): string[] {
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

/** Path of the addon for this combination in the cache, built or not; equal for every copy of the package. */
export function targetPath(libtorch: Libtorch, compiler: Compiler, options: AddonOptions): string {
  const node = `${process.platform}-${process.arch}-${process.versions.modules}`;
  const sources = options.sources ?? addonSources();
  const headers = [...new Set(sources.map((file) => dirname(file)))].flatMap((directory) =>
    readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.h'))
      .sort()
      .map((name) => join(directory, name)),
  );
  const key = digest([
    ...[...sources, ...headers].flatMap((file) => [basename(file), readFileSync(file)]),
    JSON.stringify([libtorch, ownFlags(libtorch, compiler), headerVersions(), linkFlags(libtorch)]),
    JSON.stringify([compiler.command, compiler.version, node, NATIVE ? processorIdentity(processor()) : '']),
  ]);
  return join(cacheRoot(options.env), `torch-${libtorch.version}-${key}`, ADDON);
}

/** Inputs of an addon build. */
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

/** Returns the last search result under the same environment, if its files have not changed. */
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
    writeJson(recordPath(env), { format: RECORD_FORMAT, ...found });
  } catch (error) {
    if (!(error instanceof WriteError)) throw error;
  }
}

/**
 * Path of the built addon for this machine's libtorch. Starts neither compiler nor Python if the environment
 * is that of the last setup. @throws EngineError if it is not built
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

/** A C++ compiler and what identifies it. */
export interface Compiler {
  /** Command and its leading arguments, as CXX may give them: ['ccache', 'g++']. */
  readonly command: readonly [string, ...string[]];
  /** First line of `--version`. */
  readonly version: string;
  readonly stamps: readonly Stamp[];
}

/**
 * Finds a C++ compiler: CXX, else c++, g++ or clang++ from PATH; null without any. @throws EngineError for an
 * unusable CXX
 */
export function findCompiler(env: NodeJS.ProcessEnv = process.env): Compiler | null {
  const wished = (env['CXX'] ?? '').split(/\s+/).filter((word) => word !== '');
  const candidates = wished.length > 0 ? [wished] : [['c++'], ['g++'], ['clang++']];
  for (const [name, ...rest] of candidates) {
    const program = findExecutable(name!, env);
    if (program === null) continue;
    const run = spawnSync(program, [...rest, '--version'], { encoding: 'utf8', env, timeout: 10_000 });
    if (run.status !== 0) continue;
    return {
      command: [program, ...rest],
      version: run.stdout.split('\n')[0]!.trim(),
      stamps: [program, ...rest.flatMap((word) => findExecutable(word, env) ?? [])].map(stamp),
    };
  }
  if (wished.length > 0) {
    throw new EngineError(
      `CXX=${env['CXX']}: this compiler does not run; correct it, or unset it to use c++`,
    );
  }
  return null;
}

/** The packages whose headers the addon is compiled with, and where in them they lie. */
const HEADER_PACKAGES = [
  ['node-addon-api', ''],
  ['node-api-headers', 'include'],
] as const;

const resolved = (name: string): string => createRequire(import.meta.url).resolve(`${name}/package.json`);

function headers(): string[] {
  return HEADER_PACKAGES.map(([name, directory]) => join(dirname(resolved(name)), directory));
}

/** Identity of package headers, wherever they are installed: names and versions. */
function headerVersions(): string[] {
  return HEADER_PACKAGES.map(([name]) => {
    const { version } = JSON.parse(readFileSync(resolved(name), 'utf8')) as { version: string };
    return `${name}@${version}`;
  });
}

/** Built on the machine that runs it, so all its instructions are used, and the processor is part of the cache key. */
const NATIVE = process.platform === 'linux' && process.arch === 'x64';

/**
 * GCC's parallel loops call symbols that libtorch's OpenMP runtime provides, so none is linked and no second
 * one is loaded. Other compilers call other symbols and only vectorise.
 */
function openMp(compiler: Compiler): string {
  const gnu = process.platform === 'linux' && /\b(g\+\+|gcc|c\+\+|Free Software)/i.test(compiler.version);
  return gnu && !/clang/i.test(compiler.version) ? '-fopenmp' : '-fopenmp-simd';
}

/** The flags that are the same in every copy of the package. */
function ownFlags(libtorch: Libtorch, compiler: Compiler): string[] {
  return [
    `-std=c++${libtorch.standard}`,
    '-O3',
    '-fno-math-errno', // a square root that may set errno is no vector operation
    '-fno-trapping-math',
    openMp(compiler),
    ...(NATIVE ? ['-march=native'] : []),
    '-fPIC',
    '-fvisibility=hidden',
    `-D_GLIBCXX_USE_CXX11_ABI=${libtorch.cxx11Abi ? 1 : 0}`,
    '-DNAPI_VERSION=8',
    '-DNODE_ADDON_API_CPP_EXCEPTIONS',
    ...(libtorch.cudaIncludes.length > 0 ? ['-DTIMESEER_CUDA=1'] : []),
    ...(libtorch.distributed ? ['-DTIMESEER_DISTRIBUTED=1'] : []),
    ...(libtorch.distributed && libtorch.ncclIncludes.length > 0 ? ['-DTIMESEER_NCCL=1'] : []),
    ...[...libtorch.includeDirs, ...libtorch.cudaIncludes, ...libtorch.ncclIncludes].flatMap((dir) => [
      '-isystem',
      dir,
    ]),
  ];
}

function compileFlags(libtorch: Libtorch, compiler: Compiler): string[] {
  return [
    ...ownFlags(libtorch, compiler),
    ...headers().map((dir) => `-I${dir}`),
    // Searched last: `gloo/` in it stands in for headers that c10d includes and most libtorches do not ship.
    '-idirafter',
    join(packageRoot(), 'src/engine/torch'),
  ];
}

function linkFlags(libtorch: Libtorch): string[] {
  return [
    ...(process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared']),
    ...libtorch.libDirs.flatMap((dir) => [`-L${dir}`, `-Wl,-rpath,${dir}`]),
    // CUDA registers itself when its library loads: nothing of it is referenced, yet it must be kept.
    ...(process.platform === 'darwin' ? [] : ['-Wl,--no-as-needed']),
    ...libtorch.libs.map((name) => `-l${name}`),
  ];
}

/** Builds kept in the cache; the least recently made are removed first. */
const KEPT_BUILDS = 16;

interface BuildOptions extends AddonOptions {
  readonly log?: (line: string) => void;
}

/** Runs one command with its output appended to `log`; resolves to whether it succeeded. */
function run(command: readonly [string, ...string[]], log: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const output = openSync(log, 'a');
  return new Promise<boolean>((done) => {
    const child = spawn(command[0], command.slice(1), { env, stdio: ['ignore', output, output] });
    child.on('error', () => done(false));
    child.on('close', (status) => done(status === 0));
  }).finally(() => closeSync(output));
}

/** The lines of a compiler log that say what is wrong. */
function complaint(log: string): string {
  const lines = readFileSync(log, 'utf8').split('\n');
  const errors = lines.filter((line) => /error|cannot find|undefined (symbol|reference)/i.test(line));
  return (errors.length > 0 ? errors : lines.filter((line) => line.trim() !== '')).slice(0, 3).join('\n  ');
}

async function compile(target: string, found: Found, options: BuildOptions): Promise<void> {
  const env = options.env ?? process.env;
  const { libtorch, compiler } = found;
  await writeDirectoryAtomicAsync(dirname(target), async (work) => {
    const log = join(work, 'build.log');
    const sources = options.sources ?? addonSources();
    const objects = sources.map((file) => join(work, `${basename(file, '.cc')}.o`));
    const flags = compileFlags(libtorch, compiler);
    const waiting = sources.map((file, i) => [file, objects[i]!, join(work, `${i}.log`)] as const);
    const results: boolean[] = [];
    const worker = async (): Promise<void> => {
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        const [file, object, output] = job;
        results.push(await run([...compiler.command, ...flags, '-c', file, '-o', object], output, env));
      }
    };
    await Promise.all(Array.from({ length: Math.min(availableParallelism(), sources.length) }, worker));
    writeFileAtomic(
      log,
      sources.map((_, i) => readFileSync(join(work, `${i}.log`))),
    );
    const addon = join(work, ADDON);
    const steps: readonly (readonly [what: string, action: () => Promise<boolean> | boolean])[] = [
      ['compile', () => results.every((ok) => ok)],
      ['link', () => run([...compiler.command, ...objects, ...linkFlags(libtorch), '-o', addon], log, env)],
      ['load', () => run([process.execPath, '-e', 'require(process.argv[1])', addon], log, env)],
    ];
    for (const [what, action] of steps) {
      if (await action()) continue;
      const kept = `${dirname(target)}.log`;
      writeFileAtomic(kept, readFileSync(log));
      throw new EngineError(
        `the engine does not ${what} against libtorch ${libtorch.version} (${libtorch.root}) ` +
          `with ${compiler.version}:\n  ${complaint(log)}\nThe whole output is in ${kept}`,
      );
    }
    for (const file of readdirSync(work)) {
      if (file !== ADDON && file !== 'build.log') rmSync(join(work, file));
    }
  });
}

/** Removes the oldest builds beyond a number, and what builds that were killed left behind. */
function prune(root: string, keep: string): void {
  const entries = readdirSync(root).flatMap((name) => {
    const made = statSync(join(root, name), { throwIfNoEntry: false })?.mtimeMs;
    return made === undefined ? [] : [{ name, path: join(root, name), made }];
  });
  const builds = entries
    .filter(({ name }) => name.startsWith('torch-') && !/\.(log|lock)\b/.test(name))
    .sort((a, b) => b.made - a.made)
    .slice(KEPT_BUILDS)
    .filter(({ path }) => path !== keep);
  for (const { path } of builds) rmSync(path, { recursive: true, force: true });
  tidyUp(root, (name) => name.startsWith('torch-'));
}

/**
 * Builds the addon unless it is cached; returns its path. Of several processes one compiles and the others
 * wait.
 * @throws EngineError with the first errors of the compiler and the name of the log
 */
export async function buildAddon(
  libtorch: Libtorch,
  compiler: Compiler,
  options: BuildOptions = {},
): Promise<string> {
  const env = options.env ?? process.env;
  const log = options.log ?? (() => {});
  const target = targetPath(libtorch, compiler, options);
  if (!existsSync(target)) {
    const waiting = (file: string): void => log(`waiting for another process that builds the same (${file})`);
    await withLock(`${dirname(target)}.lock`, waiting, async () => {
      if (existsSync(target)) return;
      const start = performance.now();
      log(
        `building the engine against libtorch ${libtorch.version} (${libtorch.root}) with ${compiler.version}`,
      );
      if (libtorch.cuda && libtorch.cudaIncludes.length === 0) {
        log(
          'no headers of the CUDA it was built with (set CUDA_HOME, or pip install nvidia-cuda-crt): the GPU is used, but its work is not recorded ' +
            'in graphs, and its name and memory are unknown',
        );
      }
      await compile(target, { libtorch, compiler }, options);
      log(`built in ${((performance.now() - start) / 1000).toFixed(1)} s: ${target}`);
    });
    prune(cacheRoot(env), dirname(target));
  }
  remember({ libtorch, compiler }, env);
  return target;
}
