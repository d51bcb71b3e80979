/**
 * Finds a libtorch to build against, without loading it: LIBTORCH, then the PyTorch of the first Python in
 * PATH, then system packages. All build settings are read from its files.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { EngineError } from '../../ground/errors.ts';

type LibtorchOrigin = 'LIBTORCH' | 'python' | 'system';

/** Identity of a file at the time it was read; a change means that whatever was derived from it is stale. */
export interface Stamp {
  readonly file: string;
  readonly size: number; // bytes
  readonly modified: number; // ms since the epoch
}

/** A libtorch found on this machine and what compiling against it takes. */
export interface Libtorch {
  readonly origin: LibtorchOrigin;
  /** Directory it was found under: `<root>/include` and a library directory below it. */
  readonly root: string;
  /** Version from its own version file: '1.13.0', '2.6.0+cu124'. */
  readonly version: string;
  readonly includeDirs: readonly string[];
  readonly libDirs: readonly string[];
  /** Names to link, without `lib`, in order: at least torch, torch_cpu, c10. */
  readonly libs: readonly string[];
  /** Value of _GLIBCXX_USE_CXX11_ABI that its libraries were compiled with; true where it means nothing. */
  readonly cxx11Abi: boolean;
  /** True if it was built with CUDA; a GPU may still be missing. */
  readonly cuda: boolean;
  /** True if it was built with c10d and Gloo. */
  readonly distributed: boolean;
  /** Directories of the headers of the CUDA it was built with; none where they are missing, or without CUDA. */
  readonly cudaIncludes: readonly string[];
  /** Directories of the headers of the NCCL that it was built with; none when a part is not there. */
  readonly ncclIncludes: readonly string[];
  /** C++ standard that its headers ask for: 17 or later. */
  readonly standard: number;
  readonly stamps: readonly Stamp[];
}

/** Environment of the search. Default: this process. */
export interface FindOptions {
  /** LIBTORCH, TIMESEER_PYTHON, CUDA_HOME, PATH and CXX are read. */
  readonly env?: NodeJS.ProcessEnv;
  /** Prefixes searched for a system libtorch; each holds `include` and `lib`. */
  readonly systemPrefixes?: readonly string[];
  /** Prefixes searched for CUDA last; each holds `include`. */
  readonly cudaPrefixes?: readonly string[];
}

const SYSTEM_PREFIXES = ['/usr', '/usr/local', '/opt/libtorch', '/opt/homebrew'];
const CUDA_PREFIXES = ['/usr/local/cuda', '/opt/cuda'];
const LIBRARY_SUFFIX = process.platform === 'darwin' ? '.dylib' : '.so';

/** First executable called `name` in PATH, or `name` itself when it is a path; null when there is none. */
export function findExecutable(name: string, env: NodeJS.ProcessEnv = process.env): string | null {
  const candidates = name.includes('/')
    ? [resolve(name)]
    : (env['PATH'] ?? '')
        .split(delimiter)
        .filter((directory) => directory !== '')
        .map((directory) => join(directory, name));
  for (const candidate of candidates) {
    try {
      accessSync(candidate, constants.X_OK);
      if (statSync(candidate).isFile()) return candidate;
    } catch {
      // not here: the next directory
    }
  }
  return null;
}

export function stamp(file: string): Stamp {
  const { size, mtimeMs } = statSync(file);
  return { file, size, modified: mtimeMs };
}

/** Returns true if no stamped file has changed. */
export function unchanged(stamps: readonly Stamp[]): boolean {
  return stamps.every(({ file, size, modified }) => {
    const now = statSync(file, { throwIfNoEntry: false });
    return now !== undefined && now.size === size && now.mtimeMs === modified;
  });
}

/** The Python whose torch is used: TIMESEER_PYTHON, else python3, else python, from PATH. */
export function findPython(env: NodeJS.ProcessEnv = process.env): string | null {
  const chosen = env['TIMESEER_PYTHON'];
  if (chosen !== undefined && chosen !== '') {
    const path = findExecutable(chosen, env);
    if (path === null) {
      throw new EngineError(
        `TIMESEER_PYTHON=${chosen}: no such program; give the path of a Python that has torch, or unset it`,
      );
    }
    return path;
  }
  return findExecutable('python3', env) ?? findExecutable('python', env);
}

/** Library directories below a prefix, the multiarch ones of Debian included. */
function libraryDirs(root: string): string[] {
  const dirs = ['lib', 'lib64'].map((name) => join(root, name)).filter((dir) => existsSync(dir));
  const multiarch = dirs.flatMap((dir) =>
    readdirSync(dir)
      .filter((name) => /^[a-z0-9_]+-linux-[a-z0-9]+$/.test(name))
      .map((name) => join(dir, name)),
  );
  return [...dirs, ...multiarch];
}

function hasLibrary(dir: string, name: string): boolean {
  return existsSync(join(dir, `lib${name}${LIBRARY_SUFFIX}`));
}

/** Version from `version.py`, `build-version` or the version header, the most telling first. */
function readVersion(root: string, include: string): { version: string; file: string } | null {
  const sources: readonly (readonly [file: string, pattern: RegExp])[] = [
    [join(root, 'version.py'), /^__version__\s*=\s*['"]([^'"]+)['"]/m],
    [join(include, 'torch/headeronly/version.h'), /#define TORCH_VERSION\s*\\?\s*"([^"]+)"/],
    [join(include, 'torch/version.h'), /#define TORCH_VERSION\s*\\?\s*"([^"]+)"/],
    [join(include, 'torch/csrc/api/include/torch/version.h'), /#define TORCH_VERSION\s*\\?\s*"([^"]+)"/],
    [join(root, 'build-version'), /^(\S+)/],
  ];
  for (const [file, pattern] of sources) {
    if (!existsSync(file)) continue;
    const version = pattern.exec(readFileSync(file, 'utf8'))?.[1];
    if (version !== undefined) return { version, file };
  }
  return null;
}

/** The standard below which ATen.h refuses to compile; 17 at least, because our own sources are C++17. */
function readStandard(include: string): number {
  const header = join(include, 'ATen/ATen.h');
  const floor = /__cplusplus\s*<\s*20(\d\d)\d\dL/.exec(readFileSync(header, 'utf8'))?.[1];
  return Math.max(17, floor === undefined ? 17 : Number(floor));
}

/** Old libstdc++ ABI if the exported error function takes the old `std::string` (mangled `Ss`). */
function readCxx11Abi(libDir: string): boolean {
  return !hasSymbol(libDir, 'c10', '14torchCheckFailEPKcS2_jRKSs');
}

/** Returns true if the text occurs in a library, as the names of its exported symbols do. */
function hasSymbol(libDir: string, library: string, text: string): boolean {
  return readFileSync(join(libDir, `lib${library}${LIBRARY_SUFFIX}`)).includes(text);
}

/** Major version of the CUDA runtime whose headers a directory holds; null when they are not there. */
function cudaMajor(directory: string): number | null {
  const file = join(directory, 'cuda_runtime_api.h');
  if (!existsSync(file) || !existsSync(join(directory, 'cuda.h'))) return null;
  const version = /#define\s+CUDART_VERSION\s+(\d+)/.exec(readFileSync(file, 'utf8'))?.[1];
  return version === undefined ? null : Math.floor(Number(version) / 1000);
}

/**
 * Finds headers of the CUDA version of a libtorch: in CUDA_HOME, beside the Python package (`nvidia/cu13`,
 * `nvidia/cuda_runtime`), in its environment (conda), beside nvcc, in the system. pip's lack a part, `crt`,
 * which Triton has.
 */
function findCuda(root: string, version: string, options: FindOptions): string[] {
  const env = options.env ?? process.env;
  const home = env['CUDA_HOME'];
  const nvidia = join(root, '../nvidia');
  const beside = existsSync(nvidia) ? readdirSync(nvidia).sort() : [];
  const around = resolve(root, '../../../..');
  const nvcc = findExecutable('nvcc', env);
  const directories = [
    ...(home === undefined || home === '' ? [] : [join(resolve(home), 'include')]),
    ...beside.map((name) => join(nvidia, name, 'include')),
    join(around, `targets/${process.arch === 'arm64' ? 'sbsa' : 'x86_64'}-linux/include`),
    join(around, 'include'),
    ...(nvcc === null ? [] : [resolve(nvcc, '../../include')]),
    ...(options.cudaPrefixes ?? CUDA_PREFIXES).map((prefix) => join(prefix, 'include')),
  ];
  const built = /\+cu(\d+)\d$/.exec(version)?.[1]; // '2.6.0+cu124' is of CUDA 12.4
  const headers = directories.find((directory) => {
    const major = cudaMajor(directory);
    return major !== null && (built === undefined || major === Number(built));
  });
  if (headers === undefined) return [];
  const parts = [headers, ...directories, join(root, '../triton/backends/nvidia/include')];
  const rest = parts.find((directory) => existsSync(join(directory, 'crt/host_defines.h')));
  return rest === undefined ? [] : [...new Set([headers, rest])];
}

/** Headers that c10d's NCCL includes, each of which may be in a directory of its own. */
const NCCL_HEADERS = ['nccl.h', 'nv/target', 'cusparse.h', 'cublas_v2.h', 'cusolverDn.h'];

/**
 * Finds the headers of the NCCL that a libtorch was built with (pip's beside it, or conda's: others may differ in the size of
 * their structures) and those of CUDA that it needs; none where one is missing.
 */
function findNccl(root: string, cudaIncludes: readonly string[]): string[] {
  const nvidia = join(root, '../nvidia');
  const beside = existsSync(nvidia) ? readdirSync(nvidia).sort() : [];
  const own = [
    ...beside.map((name) => join(nvidia, name, 'include')),
    join(resolve(root, '../../../..'), 'include'),
  ];
  const directories = [...cudaIncludes, ...own].flatMap((directory) => [directory, join(directory, 'cccl')]);
  const found = NCCL_HEADERS.map((header) =>
    (header === 'nccl.h' ? own : directories).find((directory) => existsSync(join(directory, header))),
  );
  return found.every((directory) => directory !== undefined) ? [...new Set(found)] : [];
}

function inspect(root: string, origin: LibtorchOrigin, options: FindOptions): Libtorch | null {
  const include = join(root, 'include');
  if (!existsSync(join(include, 'ATen/ATen.h'))) return null;
  const libDir = libraryDirs(root).find((dir) => hasLibrary(dir, 'torch') && hasLibrary(dir, 'c10'));
  const version = readVersion(root, include);
  if (libDir === undefined || version === null) return null;
  const cuda = hasLibrary(libDir, 'torch_cuda');
  const cudaIncludes = cuda ? findCuda(root, version.version, options) : [];
  const nccl = cudaIncludes.length > 0 ? findNccl(root, cudaIncludes) : [];
  return {
    origin,
    root,
    version: version.version,
    // The compiler's own directories come first by themselves; naming /usr/include again breaks #include_next.
    includeDirs: [...(root === '/usr' ? [] : [include]), join(include, 'torch/csrc/api/include')],
    libDirs: [libDir],
    libs: [...(cuda ? ['torch_cuda', 'c10_cuda'] : []), 'torch', 'torch_cpu', 'c10'],
    cxx11Abi: readCxx11Abi(libDir),
    cuda,
    distributed:
      hasLibrary(libDir, 'torch_cpu') && hasSymbol(libDir, 'torch_cpu', '_ZN4c10d16ProcessGroupGlooC'),
    cudaIncludes,
    ncclIncludes:
      nccl.length > 0 && hasSymbol(libDir, 'torch_cuda', '_ZN4c10d16ProcessGroupNCCLC') ? nccl : [],
    standard: readStandard(include),
    stamps: [
      version.file,
      join(libDir, `libtorch${LIBRARY_SUFFIX}`),
      join(libDir, `libc10${LIBRARY_SUFFIX}`),
      ...cudaIncludes.slice(0, 1).map((directory) => join(directory, 'cuda_runtime_api.h')),
    ].map(stamp),
  };
}

/** Directory of the `torch` package of a Python, without importing it; null when it has none. */
function pythonTorch(python: string, env: NodeJS.ProcessEnv): string | null {
  const program =
    "import importlib.util, os\ns = importlib.util.find_spec('torch')\n" +
    "print(os.path.dirname(s.origin) if s and s.origin else '')";
  // PYTHONPATH counts (some clusters keep torch there), the working directory does not.
  const run = spawnSync(python, ['-c', `import sys\nsys.path = [p for p in sys.path if p]\n${program}`], {
    encoding: 'utf8',
    env,
    timeout: 10_000,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const directory = run.stdout?.trim() ?? '';
  return run.status === 0 && directory !== '' ? directory : null;
}

/**
 * Finds the libtorch to use; null without any. @throws EngineError for an unusable LIBTORCH or
 * TIMESEER_PYTHON
 */
export function findLibtorch(options: FindOptions = {}): Libtorch | null {
  const env = options.env ?? process.env;
  const wished = env['LIBTORCH'];
  if (wished !== undefined && wished !== '') {
    const libtorch = inspect(resolve(wished), 'LIBTORCH', options);
    if (libtorch === null) {
      throw new EngineError(
        `LIBTORCH=${wished}: no libtorch there (looked for include/ATen/ATen.h and lib/libtorch${LIBRARY_SUFFIX}); ` +
          'give the directory of an unpacked libtorch or of the Python package torch, or unset it',
      );
    }
    return libtorch;
  }
  const python = findPython(env);
  const directory = python === null ? null : pythonTorch(python, env);
  const ofPython = directory === null ? null : inspect(directory, 'python', options);
  if (ofPython !== null) return ofPython;
  for (const prefix of options.systemPrefixes ?? SYSTEM_PREFIXES) {
    const libtorch = inspect(prefix, 'system', options);
    if (libtorch !== null) return libtorch;
  }
  return null;
}
