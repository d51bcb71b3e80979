/**
 * Backends of TensorFlow.js: native TensorFlow where a user has installed it, else WebAssembly. Tensors live in one WebAssembly memory,
 * that of the wasm backend where it computes; a backend multiplies matrices that lie there.
 */
import { createRequire } from 'node:module';
import { EngineError, reasonOf } from '../../ground/errors.ts';
import { getOrMake } from '../../ground/maps.ts';
import { type Kernels, type Memory, openKernels, wasm as standard } from './kernels/kernels.ts';

/** A matrix b [K, N] that multiplies others. */
export interface Pack {
  /** Writes a [M, K] · b to `out` [M, N]; both are addresses of dense float32. */
  readonly times: (out: number, a: number, rows: number) => void;
  readonly free: () => void;
}

export interface Backend {
  /** Package that multiplies. */
  readonly name: string;
  readonly version: string;
  readonly memory: Memory;
  readonly kernels: Kernels;
  /** Returns an address, a multiple of 8, or 0 where memory is exhausted. */
  readonly allocate: (bytes: number) => number;
  readonly free: (pointer: number) => void;
  /** Prepares the dense matrix [K, N] at an address, which stays as it is until `free`. */
  readonly pack: (pointer: number, inner: number, columns: number) => Pack;
}

/** Packages in the order in which they are tried. The first two download a native library when they are installed. */
export const NATIVE_PACKAGES = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'] as const;
export const CORE = '@tensorflow/tfjs-core';
export const WASM = '@tensorflow/tfjs-backend-wasm';
/** Version of both packages; the internals below are this one's. */
export const TFJS_VERSION = '4.22.0';
const INSTALL_TFJS = `npm install ${CORE}@${TFJS_VERSION} ${WASM}@${TFJS_VERSION}`;

/** Bytes that a WebAssembly memory addresses, of which each thread has its own. */
const ADDRESSED = 2 ** 32;
/**
 * Bytes to which the memory of the wasm backend grows. Its allocator adds addresses without a check and would wrap round to tensors in
 * use: nothing is allocated that could reach the end.
 */
export const LARGEST_HEAP = ADDRESSED - 2 ** 29;
/** Bytes that the allocator may add to a request. */
const ROUNDING = 2 ** 18;
const PAGE = 2 ** 16;
export const OUT_OF_MEMORY =
  'not enough memory (WebAssembly holds 4 GB at most for each Worker): lower memory.tokens or memory.rows, or choose --engine torch';

/** Part of tfjs-core's interface that is used. */
interface Tfjs {
  readonly version_core?: string;
  readonly version_wasm?: string;
  readonly version?: Readonly<Record<string, string>>;
  setBackend(name: string): Promise<boolean>;
  backend(): unknown;
  tensor2d(values: Float32Array, shape: [number, number]): TfMatrix;
  matMul(a: TfMatrix, b: TfMatrix): TfMatrix;
}

interface TfMatrix {
  dataSync(): ArrayLike<number>;
  dispose(): void;
}

/** Emscripten module of the wasm backend. */
interface WasmModule {
  readonly asm: { readonly memory?: Memory };
  _malloc(bytes: number): number;
  _free(pointer: number): void;
  _register_tensor(id: number, size: number, pointer: number): void;
  _dispose_data(id: number): void;
  _BatchMatMul(
    a: number,
    aShape: number,
    aRank: number,
    b: number,
    bShape: number,
    bRank: number,
    transposeA: number,
    transposeB: number,
    out: number,
  ): void;
}

/** Ids of tensors that tfjs itself never reaches. */
const FIRST_ID = 2 ** 30;
/** Key of the next id on the Emscripten module. */
const IDS = Symbol.for('timeseer.tfjs.ids');

function wasmBackend(core: Tfjs): Backend {
  const { wasm } = core.backend() as { wasm: WasmModule };
  const memory = wasm.asm?.memory;
  if (memory === undefined || typeof wasm._BatchMatMul !== 'function') {
    throw new EngineError(`${WASM} ${core.version_core}: its memory is out of reach`, { fix: INSTALL_TFJS });
  }
  // Emscripten takes a failure to grow for the end of memory. Two copies of this module set the same limit.
  const { grow } = Object.getPrototypeOf(memory) as Memory;
  memory.grow = (pages) => {
    if (memory.buffer.byteLength + pages * PAGE > LARGEST_HEAP) throw new RangeError('the heap is full');
    return grow.call(memory, pages);
  };
  const fits = (bytes: number): boolean => memory.buffer.byteLength + bytes + ROUNDING <= ADDRESSED;
  // Two copies of this module share one backend of the process: an id in use would multiply by the other's matrix.
  const ids = wasm as WasmModule & { [IDS]?: number };
  const shapes = wasm._malloc(24) >>> 0; // twice [1, rows, columns], int32
  const register = (pointer: number, size: number): number => {
    const id = ids[IDS] ?? FIRST_ID;
    ids[IDS] = id + 1;
    wasm._register_tensor(id, size, pointer);
    return id;
  };
  return {
    name: WASM,
    version: core.version_core ?? TFJS_VERSION,
    memory,
    kernels: openKernels(memory),
    allocate: (bytes) => (fits(bytes) ? wasm._malloc(bytes) >>> 0 : 0),
    free: (pointer) => wasm._free(pointer),
    pack(pointer, inner, columns) {
      if (!fits(4 * inner * columns)) throw new Error(OUT_OF_MEMORY);
      // XNNPACK lays a second operand out anew for each id, once.
      const b = register(pointer, inner * columns);
      return {
        times(out, a, rows) {
          const left = register(a, rows * inner);
          const product = register(out, rows * columns);
          new Int32Array(memory.buffer, shapes, 6).set([1, rows, inner, 1, inner, columns]);
          wasm._BatchMatMul(left, shapes, 3, b, shapes + 12, 3, 0, 0, product);
          wasm._dispose_data(left);
          wasm._dispose_data(product);
        },
        free: () => wasm._dispose_data(b),
      };
    },
  };
}

/** Blocks of a memory by size, four sizes to each power of two. */
function allocator(memory: Memory): Pick<Backend, 'allocate' | 'free'> {
  const idle = new Map<number, number[]>();
  const sizes = new Map<number, number>();
  let end = 16; // address 0 is none
  return {
    allocate(bytes) {
      const step = 2 ** Math.max(4, Math.floor(Math.log2(bytes)) - 2);
      const size = Math.ceil(bytes / step) * step;
      const known = idle.get(size)?.pop();
      if (known !== undefined) return known;
      const pages = Math.ceil((end + size - memory.buffer.byteLength) / PAGE);
      try {
        if (pages > 0) memory.grow(pages);
      } catch {
        return 0;
      }
      const pointer = end;
      end += size;
      sizes.set(pointer, size);
      return pointer;
    },
    free(pointer) {
      getOrMake(idle, sizes.get(pointer)!, () => []).push(pointer);
    },
  };
}

/** A backend whose tensors are out of reach: operands are copied to it, and products back. */
export function copyingBackend(tf: Tfjs, name: string, version: string): Backend {
  const memory = new standard!.Memory({ initial: 16, maximum: PAGE });
  const floats = (pointer: number, length: number): Float32Array =>
    new Float32Array(memory.buffer, pointer, length);
  return {
    ...{ name, version, memory, kernels: openKernels(memory), ...allocator(memory) },
    pack(pointer, inner, columns) {
      const b = tf.tensor2d(floats(pointer, inner * columns).slice(), [inner, columns]);
      return {
        times(out, a, rows) {
          const left = tf.tensor2d(floats(a, rows * inner).slice(), [rows, inner]);
          const product = tf.matMul(left, b);
          floats(out, rows * columns).set(product.dataSync());
          left.dispose();
          product.dispose();
        },
        free: () => b.dispose(),
      };
    },
  };
}

/** Action that mends a package. */
const fixOf = (name: string): string =>
  NATIVE_PACKAGES.some((native) => native === name)
    ? `install it again (npm install ${name}@${TFJS_VERSION}) or remove it`
    : INSTALL_TFJS;

/** The version that a package's own file states; undefined where there is none. */
function statedVersion(name: string): string | undefined {
  try {
    return (createRequire(import.meta.url)(`${name}/package.json`) as { version?: string }).version;
  } catch {
    return undefined;
  }
}

/** A package by its name; null where it is not installed. */
async function load(name: string): Promise<Tfjs | null> {
  try {
    const module = (await import(name)) as { default?: Tfjs } & Partial<Tfjs>;
    return module.matMul === undefined && module.default !== undefined ? module.default : (module as Tfjs);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ERR_MODULE_NOT_FOUND' && message.includes(name)) return null;
    throw new EngineError(`${name} is installed and does not load: ${message.split('\n')[0]}`, {
      fix: fixOf(name),
      cause,
    });
  }
}

/** Returns a function that removes listeners which were added since: Emscripten's throw errors of this process again, with its source. */
function processListeners(): () => void {
  const events = ['uncaughtException', 'unhandledRejection'] as const;
  const before = events.map((event) => new Set<unknown>(process.listeners(event as 'uncaughtException')));
  return () => {
    events.forEach((event, i) => {
      for (const listener of process.listeners(event as 'uncaughtException')) {
        if (!before[i]!.has(listener)) process.off(event, listener);
      }
    });
  };
}

/** @throws EngineError for parts of TensorFlow.js of different versions */
function checkVersions(versions: Readonly<Record<string, string | undefined>>, fix: string): void {
  if (new Set(Object.values(versions)).size <= 1) return;
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version ?? 'unknown'}`);
  throw new EngineError(`versions of TensorFlow.js that do not fit together: ${list.join(', ')}`, { fix });
}

/** Multiplies two matrices. @throws EngineError for a backend that cannot, such as one without this kernel */
function checkProduct(backend: Backend, fix: string): Backend {
  const { name, version, memory } = backend;
  let problem: string;
  try {
    const at = backend.allocate(48);
    const values = (): Float32Array => new Float32Array(memory.buffer, at, 12);
    values().set([1, 2, 3, 4, 5, 6, 7, 8]);
    const pack = backend.pack(at + 16, 2, 2);
    pack.times(at + 32, at, 2);
    pack.free();
    const product = values().subarray(8).join();
    backend.free(at);
    if (product === '19,22,43,50') return backend;
    problem = `a product is ${product}, not 19,22,43,50`;
  } catch (error) {
    problem = reasonOf(error);
  }
  throw new EngineError(`${name} ${version} cannot multiply matrices: ${problem}`, { fix });
}

/** Starts a backend of tfjs, whose complaints are returned and not printed; null where it starts. */
async function startProblem(tf: Tfjs, name: string): Promise<string | null> {
  const { warn, error } = console;
  const lines: string[] = [];
  console.warn = console.error = (...parts: unknown[]) => void lines.push(parts.join(' '));
  try {
    return (await tf.setBackend(name)) ? null : (lines[0]?.split('\n')[0] ?? `no backend ${name}`);
  } catch (cause) {
    return reasonOf(cause);
  } finally {
    [console.warn, console.error] = [warn, error];
  }
}

async function openBackend(): Promise<Backend> {
  if (standard === undefined) {
    throw new EngineError('the tfjs engine needs WebAssembly, which this JavaScript does not have');
  }
  for (const name of NATIVE_PACKAGES) {
    const tf = await load(name);
    if (tf === null) continue;
    const fix = fixOf(name);
    const { tfjs: version = statedVersion(name) ?? 'unknown', 'tfjs-core': core = version } =
      tf.version ?? {};
    checkVersions({ [name]: tf.version?.['tfjs-node'] ?? version, tfjs: version, [CORE]: core }, fix);
    const problem = await startProblem(tf, 'tensorflow');
    if (problem !== null) throw new EngineError(`${name} ${version} does not start: ${problem}`, { fix });
    return checkProduct(copyingBackend(tf, name, version), fix);
  }
  const core = await load(CORE);
  const release = processListeners();
  const wasm = core === null ? null : await load(WASM);
  if (core === null || wasm === null) {
    throw new EngineError('the tfjs engine needs TensorFlow.js', { fix: INSTALL_TFJS });
  }
  checkVersions({ [CORE]: core.version_core, [WASM]: wasm.version_wasm }, INSTALL_TFJS);
  const problem = await startProblem(core, 'wasm');
  release();
  if (problem !== null) {
    const fix = /memory/i.test(problem) ? 'raise the limit of the process (ulimit -v)' : INSTALL_TFJS;
    throw new EngineError(`${WASM} does not start: ${problem}`, { fix });
  }
  return checkProduct(wasmBackend(core), INSTALL_TFJS);
}

let opened: Promise<Backend> | undefined;

/** The backend of this thread. @throws EngineError where there is none, or one that does not load */
export function backend(): Promise<Backend> {
  opened ??= openBackend();
  return opened;
}
