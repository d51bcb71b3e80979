/** The C++ compiler that builds the addon, and what it is told. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { EngineError } from '../../errors.ts';
import { findExecutable, type Libtorch, type Stamp, stamp } from './find.ts';

/** A C++ compiler and what identifies it. */
export interface Compiler {
  /** Command and its leading arguments, as CXX may give them: ['ccache', 'g++']. */
  readonly command: readonly [string, ...string[]];
  /** First line of `--version`. */
  readonly version: string;
  readonly stamps: readonly Stamp[];
}

/**
 * The C++ compiler: CXX, else c++, g++ or clang++ from PATH; null when there is none.
 * Throws EngineError if CXX names a program that does not exist.
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

/** What identifies the headers of packages, wherever they are installed: their names and versions. */
export function headerVersions(): string[] {
  return HEADER_PACKAGES.map(([name]) => {
    const { version } = JSON.parse(readFileSync(resolved(name), 'utf8')) as { version: string };
    return `${name}@${version}`;
  });
}

/** Built on the machine that runs it, so all its instructions are used, and the processor is part of the cache key. */
export const NATIVE = process.platform === 'linux' && process.arch === 'x64';

/**
 * GCC's loops in parallel call the OpenMP runtime by symbols that the one libtorch brings along provides: it is not linked,
 * so that no second one is loaded beside it. Other compilers call other symbols, and only vectorise.
 */
function openMp(compiler: Compiler): string {
  const gnu = process.platform === 'linux' && /\b(g\+\+|gcc|c\+\+|Free Software)/i.test(compiler.version);
  return gnu && !/clang/i.test(compiler.version) ? '-fopenmp' : '-fopenmp-simd';
}

/** The flags that are the same in every copy of the package. */
export function ownFlags(libtorch: Libtorch, compiler: Compiler): string[] {
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
    ...[...libtorch.includeDirs, ...libtorch.cudaIncludes].flatMap((dir) => ['-isystem', dir]),
  ];
}

export function compileFlags(libtorch: Libtorch, compiler: Compiler): string[] {
  return [...ownFlags(libtorch, compiler), ...headers().map((dir) => `-I${dir}`)];
}

export function linkFlags(libtorch: Libtorch): string[] {
  return [
    ...(process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared']),
    ...libtorch.libDirs.flatMap((dir) => [`-L${dir}`, `-Wl,-rpath,${dir}`]),
    // CUDA registers itself when its library loads: nothing of it is referenced, yet it must be kept.
    ...(process.platform === 'darwin' ? [] : ['-Wl,--no-as-needed']),
    ...libtorch.libs.map((name) => `-l${name}`),
  ];
}
