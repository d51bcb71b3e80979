/** Checks of `timeseer doctor`: each reports its finding and, where something is wrong, the remedy. */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, statfsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { askedEngine, type ComputingEngine, computingEngine } from '../answer/local.ts';
import { NATIVE_PACKAGES, TFJS_VERSION } from '../engine/tfjs/backend.ts';
import { prepareTfjs } from '../engine/tfjs/tfjs.ts';
import { addonPath, type Compiler, findCompiler } from '../engine/torch/build.ts';
import { findExecutable, findLibtorch, type Libtorch } from '../engine/torch/find.ts';
import {
  CORE_TYPE,
  chosenKernel,
  flopsPerCycle,
  instructionsOf,
  narrower,
  type Probe,
  type Processor,
  probe,
  processor,
} from '../engine/torch/kernel.ts';
import { instructions, thisHost } from '../engine/torch/setup.ts';
import { EngineError } from '../ground/errors.ts';
import { cores, cpuModel, memory } from '../ground/machine.ts';
import { cacheRoot } from '../ground/paths.ts';
import { INSTALL_RUNTIME } from '../onnx/policy.ts';

/** Result of a check. `missing` fails the command; `warning` works, but less well. */
export interface Check {
  readonly name: string;
  readonly status: 'ok' | 'warning' | 'missing';
  readonly found: string;
  /** Command or action that mends it. */
  readonly fix?: string;
}

/** Minimum share of the processor's peak; less means that something is wrong. */
const LEAST_SHARE = 0.5;

const GIGABYTE = 1024 ** 3;
/** Bytes that run directory, build cache and temporary files need at least, and comfortably. */
const DISK_REQUIRED = 0.2 * GIGABYTE;
const DISK_ADVISED = 2 * GIGABYTE;
/** Upper bound of the quickstart's peak. */
const MEMORY_ADVISED = 2 * GIGABYTE;

function gigabytes(bytes: number): string {
  return `${(bytes / GIGABYTE).toFixed(1)} GB`;
}

/** Calls `probe`; an error becomes a missing check with its message. */
function attempt(name: string, fix: string, probe: () => Check): Check {
  try {
    return probe();
  } catch (error) {
    return missing(name, (error as Error).message, fix);
  }
}

const ok = (name: string, found: string): Check => ({ name, status: 'ok', found });
const warning = (name: string, found: string, fix: string): Check => ({
  ...{ name, status: 'warning', found, fix },
});
const missing = (name: string, found: string, fix?: string): Check => ({
  ...{ name, status: 'missing', found },
  ...(fix === undefined ? {} : { fix }),
});

function nodeCheck(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const found = `${process.version} on ${process.platform}-${process.arch}`;
  return major > 20 || (major === 20 && minor >= 19)
    ? ok('node', found)
    : missing('node', found, 'install Node 20.19 or later: https://nodejs.org');
}

/** The matrix library among the files mapped by a process that loaded the engine. */
export function blasOf(maps: string): { name: string; slow: boolean } {
  const files = [
    ...new Set(maps.match(/\/\S*(?:openblas|mkl_rt|mkl_core|blis|libblas|Accelerate|vecLib)\S*/g) ?? []),
  ];
  const file = files.find((name) => /openblas|mkl|blis|Accelerate|vecLib/.test(name)) ?? files[0];
  if (file === undefined) return { name: 'inside libtorch', slow: false };
  const threading = /openblas[^/]*(openmp|pthread|serial)/.exec(file)?.[1];
  return {
    name: threading === undefined ? file : `${file} (${threading})`,
    slow: !/openblas|mkl|blis|Acc|vecLib/.test(file),
  };
}

/** Name of the library: its file, or libtorch's statement for one inside it. */
function nameOf({ maps, config }: Probe): string {
  const { name } = blasOf(maps);
  const mkl = /Math Kernel Library Version (\d[\d.]*)/.exec(config)?.[1];
  return name === 'inside libtorch' && mkl !== undefined ? `MKL ${mkl} inside libtorch` : name;
}

/**
 * Judges the matrix library. @param wished OPENBLAS_CORETYPE, '' if unset @param install command that installs a fast library
 */
export function blasCheck(cpu: Processor, measured: Probe, wished: string, install: string): Check {
  const { kernel, gflops, gigahertz } = measured;
  const { slow } = blasOf(measured.maps);
  const perCycle = flopsPerCycle(cpu);
  const promised = perCycle === null || gigahertz === 0 ? null : perCycle * gigahertz;
  const promise =
    promised === null
      ? ''
      : ` of at most ${promised.toFixed(0)} (${cpu.instructions}: ${perCycle} operations a cycle × ${gigahertz.toFixed(1)} GHz)`;
  const kernels = kernel === '' ? '' : `, kernels for ${kernel}`;
  const speed = `${nameOf(measured)}${kernels}: ${gflops.toFixed(0)} GFLOP/s on one core${promise}`;
  const slower = (why: string, fix: string): Check => warning('blas', `${speed}${why}`, fix);
  const unset = `unset ${CORE_TYPE}`;
  if (slow) return slower(': a slow library', install);
  if (wished !== '' && kernel !== '' && kernel.toLowerCase() !== wished.toLowerCase()) {
    return slower(`; ${CORE_TYPE}=${wished} names none of its kernels`, unset);
  }
  if (promised === null || gflops >= LEAST_SHARE * promised) return ok('blas', speed);
  const used = instructionsOf(kernel);
  const narrow = used !== null && cpu.instructions !== null && narrower(used, cpu.instructions);
  if (narrow && wished !== '')
    return slower(`; ${CORE_TYPE}=${wished} is set, its kernels use ${used}`, unset);
  if (narrow)
    return slower(`; these kernels use ${used}, and it has no faster ones`, 'install a newer OpenBLAS');
  const again = 'run it again while nothing else computes';
  return used === null && cpu.arch === 'x64'
    ? slower(
        '',
        `${again}; if it stays so, OpenBLAS may be faster: ${install}, then LIBTORCH=/usr npx timeseer setup`,
      )
    : slower('', `${again}; some processors have one unit for ${cpu.instructions} and reach half`);
}

function engineChecks(libtorch: Libtorch | null): Check[] {
  const setup = 'npx timeseer setup';
  if (libtorch === null) return [];
  const { value: addon, problem } = search(() => addonPath());
  if (addon === null) return [missing('engine', problem!, setup)];
  const wished = process.env[CORE_TYPE] ?? '';
  const loaded = probe(addon, wished === '' ? chosenKernel(addon) : wished);
  if (loaded === null) {
    const found = `${addon} does not load`;
    return wished === ''
      ? [missing('engine', found, setup)]
      : [missing('engine', `${found} with ${CORE_TYPE}=${wished}`, `unset ${CORE_TYPE}`)];
  }
  const install = instructions(thisHost(), { libtorch: true, compiler: false }).at(-1)!;
  return [ok('engine', addon), blasCheck(processor(), loaded, wished, install)];
}

/** Result of a search, or why it could not be made (LIBTORCH, CXX or TIMESEER_PYTHON set to something unusable). */
interface Search<T> {
  readonly value: T | null;
  readonly problem: string | null;
}

function search<T>(find: () => T | null): Search<T> {
  try {
    return { value: find(), problem: null };
  } catch (error) {
    return { value: null, problem: (error as Error).message };
  }
}

function compilerCheck({ value, problem }: Search<Compiler>): Check {
  if (value !== null) {
    return ok('compiler', `${value.version} (${value.command.join(' ')})`);
  }
  const fix = instructions(thisHost(), { libtorch: false, compiler: true }).join(' && ');
  return problem === null ? missing('compiler', 'no C++ compiler', fix) : missing('compiler', problem);
}

function libtorchCheck({ value, problem }: Search<Libtorch>): Check {
  if (value !== null) {
    return ok('libtorch', `${value.version} (${value.origin}, ${value.root})`);
  }
  const host = thisHost();
  const fix = host.root
    ? 'npx timeseer setup'
    : instructions(host, { libtorch: true, compiler: false }).join(' && ');
  return problem === null
    ? missing('libtorch', 'none (looked at LIBTORCH, Python, the system)', fix)
    : missing('libtorch', problem);
}

function gpuCheck(libtorch: Libtorch | null): Check {
  const smi = findExecutable('nvidia-smi');
  const run =
    smi === null
      ? null
      : spawnSync(smi, ['--query-gpu=name,memory.total', '--format=csv,noheader'], {
          encoding: 'utf8',
          timeout: 10_000,
        });
  const names =
    run?.status === 0
      ? run.stdout
          .trim()
          .split('\n')
          .filter((line) => line !== '')
      : [];
  if (names.length === 0) return ok('gpu', 'none (not needed)');
  const found = names.join('; ');
  return libtorch === null || libtorch.cuda
    ? ok('gpu', found)
    : warning(
        'gpu',
        `${found}: not used, libtorch ${libtorch.version} has no CUDA`,
        'pip install torch, then TIMESEER_PYTHON=<its python> npx timeseer setup',
      );
}

function fontCheck(): Check {
  return attempt('font', 'npm ci', () => {
    const file = createRequire(import.meta.url).resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf');
    accessSync(file, constants.R_OK);
    return ok('font', file);
  });
}

function threadsCheck(): Check {
  const setting = (name: string): string => `${name}=${process.env[name] ?? '(unset)'}`;
  const found = `${cores()} cores, ${setting('OMP_NUM_THREADS')}, ${setting('OMP_WAIT_POLICY')}`;
  const wished = Number(process.env['OMP_NUM_THREADS'] ?? cores());
  return wished > cores()
    ? warning('threads', `${found}: more threads than cores`, `export OMP_NUM_THREADS=${cores()}`)
    : ok('threads', found);
}

function memoryCheck(): Check {
  const { total, available, containerLimit } = memory();
  const found = `${gigabytes(available)} available of ${gigabytes(total)}${containerLimit === null ? '' : " (the container's limit)"}`;
  return available < MEMORY_ADVISED
    ? warning('memory', found, `free some: the quickstart needs ${gigabytes(MEMORY_ADVISED)}`)
    : ok('memory', found);
}

function diskCheck(name: string, directory: string): Check {
  return attempt(name, `make ${directory} writable, or choose another`, () => {
    mkdirSync(directory, { recursive: true });
    accessSync(directory, constants.W_OK);
    const { bavail, bsize } = statfsSync(directory);
    const free = bavail * bsize;
    const found = `${gigabytes(free)} free at ${directory}`;
    if (free >= DISK_ADVISED) return ok(name, found);
    return (free < DISK_REQUIRED ? missing : warning)(name, found, 'free some disk space');
  });
}

/** Runtime of exported policies, among them the built-in one where there is no libtorch; an optional dependency. `from`: the module that loads it. */
export function onnxruntimeCheck(from: string = import.meta.url): Check {
  const name = 'onnxruntime';
  try {
    const file = createRequire(from).resolve('onnxruntime-node/package.json');
    const folder = join(dirname(file), 'bin', 'napi-v6', process.platform, process.arch);
    accessSync(join(folder, 'onnxruntime_binding.node'), constants.R_OK);
    return ok(name, folder);
  } catch (error) {
    const found = `not usable (${(error as Error).message.split('\n')[0]}): no exported policy runs, the built-in one included`;
    return warning(name, found, INSTALL_RUNTIME);
  }
}

/** Opens TensorFlow.js, over which the tfjs engine computes: native where a user installed it, else WebAssembly. */
export async function tfjsCheck(open: typeof prepareTfjs = prepareTfjs): Promise<Check> {
  const name = 'tfjs';
  try {
    const { name: found, version } = await open();
    const native = NATIVE_PACKAGES.some((package_) => package_ === found);
    const [gpu, cpu] = NATIVE_PACKAGES.map((package_) => `npm install ${package_}@${TFJS_VERSION}`);
    return ok(
      name,
      `${found} ${version}${native ? '' : `; optional, native TensorFlow: ${cpu}, or for a GPU ${gpu}`}`,
    );
  } catch (error) {
    const { message, problem = message, fix } = error as Error & Partial<EngineError>;
    return missing(name, problem, fix);
  }
}

/** A headless browser, with which the tests look at the report; never required. */
function browserCheck(): Check {
  const names = [process.env['CHROMIUM'] ?? '', 'chromium', 'chromium-browser', 'google-chrome'];
  const found = names
    .filter((name) => name !== '')
    .map((name) => findExecutable(name))
    .find((path) => path !== null);
  return ok('browser', found ?? 'none (optional: only a test of the report uses it)');
}

/** Engine that a training on the processor would use; torch where LIBTORCH names something else, which is an error then. */
function usedEngine(): ComputingEngine {
  try {
    return computingEngine();
  } catch (error) {
    if (error instanceof EngineError) return 'torch';
    throw error;
  }
}

/** Checks of an engine; its last one is about the whole. */
const CHECKS: Readonly<Record<ComputingEngine, readonly string[]>> = {
  torch: ['compiler', 'libtorch', 'engine'],
  tfjs: ['tfjs'],
};

export interface Examination {
  /** Engine that trains, and true where it was asked for by --engine or TIMESEER_ENGINE. */
  readonly engine: ComputingEngine;
  readonly asked: boolean;
  readonly checks: readonly Check[];
}

/** Checks everything that timeseer needs, without changing anything. What an engine misses is a warning where the one that is used works. */
export async function examine(): Promise<Examination> {
  const engine = usedEngine();
  const checks = await allChecks();
  const works = checks.some(({ name, status }) => name === CHECKS[engine].at(-1) && status === 'ok');
  const parts = Object.values(CHECKS).flat();
  const needless = ({ name, status }: Check): boolean =>
    works && status === 'missing' && parts.includes(name);
  return {
    ...{ engine, asked: askedEngine() !== null },
    checks: checks.map((check) => (needless(check) ? { ...check, status: 'warning' } : check)),
  };
}

async function allChecks(): Promise<Check[]> {
  const libtorch = search(() => findLibtorch());
  return [
    nodeCheck(),
    compilerCheck(search(() => findCompiler())),
    libtorchCheck(libtorch),
    ...engineChecks(libtorch.value),
    ok('cpu', cpuModel()),
    gpuCheck(libtorch.value),
    threadsCheck(),
    memoryCheck(),
    diskCheck('disk', process.cwd()),
    diskCheck('cache', cacheRoot()),
    fontCheck(),
    onnxruntimeCheck(),
    await tfjsCheck(),
    browserCheck(),
  ];
}
