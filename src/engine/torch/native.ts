/** The addon as JavaScript sees it, the environment that libtorch must find before it is loaded, and its devices. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { EngineError } from '../../ground/errors.ts';
import type { DType, EngineInfo, HostArray } from '../engine.ts';
import { addonPath } from './build.ts';
import { CORE_TYPE, chosenKernel, confirmKernel } from './kernel.ts';

/** Argument of an operator call: a tensor handle or a plain value, read by the operator's schema. */
export type NativeValue =
  | number
  | bigint
  | boolean
  | string
  | null
  | undefined
  | readonly (number | boolean | null)[];

export type StoreOperation = 'port' | 'set' | 'get' | 'add' | 'check' | 'wait' | 'delete';
export type Collective = 'allReduce' | 'reduce' | 'broadcast' | 'gather' | 'allGather';

/** The addon's part of distributed.ts. */
export interface NativeDistributed {
  /** Connects on a thread of its own; the first calls wait for it. */
  storeOpen(host: string, port: number, server: boolean, timeoutMs: number): number;
  storeCall(
    store: number,
    operation: StoreOperation,
    keys: readonly string[],
    value: Uint8Array | number | undefined,
    timeoutMs: number,
  ): Promise<Buffer | number | boolean | undefined>;
  /** Rejects what is pending. */
  storeClose(store: number): void;
  /** Blocks until all ranks are connected. */
  groupOpen(
    host: string,
    port: number,
    prefix: string,
    rank: number,
    size: number,
    timeoutMs: number,
  ): number;
  /** Moves tensors of a GPU by NCCL from now on; all ranks call it. False where this libtorch has none. */
  groupUseNccl(group: number): boolean;
  /** Id of the work; `into` where tensors are gathered. */
  groupStart(
    group: number,
    operation: Collective,
    tensor: number,
    root: number,
    into: readonly number[],
  ): number;
  /** Blocks until the work is done. When it fails, the group is closed. */
  groupWait(work: number): void;
  groupBarrier(group: number, timeoutMs: number): void;
  groupClose(group: number): void;
}

export interface Native {
  /** Operator id, −1 if this libtorch does not have it. */
  op(name: string, overload: string): number;
  /** Returns true if an operator has an argument of this name. */
  takes(operator: number, argument: string): boolean;
  call(operator: number, ...values: NativeValue[]): number | boolean | readonly number[] | undefined;
  fromHost(data: HostArray, dtype: DType, shape: readonly number[], device: string): number;
  toHost(handle: number, into: HostArray): void;
  shape(handle: number): number[];
  dtype(handle: number): DType;
  free(handles: number | readonly number[]): void;
  live(): number;
  grad(outputs: readonly number[], inputs: readonly number[], outputGrads: readonly number[]): number[];
  parameter(handle: number): number;
  gradMode(enabled: boolean): boolean;
  share(handle: number): number;
  attach(ticket: number): number;
  unshare(ticket: number): void;
  threads(count: number): number;
  describe(): { version: string; config: string; parallel: string; cudaDevices: number; testDevices: number };
  /** OpenBLAS's name for the kernels it chose and the file of the matrix library; '' where they are not known. */
  blasKernel(): { kernel: string; file: string };
  /** uint8 [bytes], a part of the file. */
  readFile(file: string, offset: number, bytes: number): number;
  trackMemory(device: string): void;
  memory(device: string): readonly [now: number, peak: number] | null;
  /** A ledger of what tensors without elements would hold; `host`: their operators work as on the CPU. */
  openLedger(host: boolean, granule: number): number;
  /** Books later allocations of this thread on the meta device under this kind. */
  useLedger(ledger: number, kind: number): void;
  /** Bytes now, at most, and at that time by kind; `again`: the peak is counted anew. */
  readLedger(ledger: number, again: boolean): readonly number[];
  /** Null if this libtorch has no c10d with Gloo. */
  readonly distributed: NativeDistributed | null;
  /** Name and memory of a CUDA device; '' and 0 where this build cannot ask. */
  describeDevice(device: string): { name: string; memoryTotal: number };
  synchronize(device: string): void;
  canRecord(device: string): boolean;
  /** Calls the body twice, the second time to record it; id of the recording. */
  record(device: string, body: () => void): number;
  replay(recording: number): void;
  freeRecording(recording: number): void;
  /** Ends the process without joining its threads. */
  endProcess(code: number): never;
}

let loaded: Native | undefined;

/**
 * Loads the addon once per thread. OpenMP and OpenBLAS read their settings when they are loaded, so these are
 * set before: with spinning threads, two Workers on two cores take twice as long. A Worker that loads it
 * first must share the process's environment.
 */
export function loadNative(): Native {
  if (loaded !== undefined) return loaded;
  process.env['OMP_WAIT_POLICY'] ??= 'passive';
  process.env['OMP_NUM_THREADS'] ??= String(availableParallelism());
  const path = addonPath();
  // In bfloat16, libtorch 1.13 fails with std::bad_alloc in two Workers that have seen some thousand shapes (6 of 6 runs). It caches
  // the operations of oneDNN for 1024 shapes in each thread; with 64 instead, 5 of 5 runs ended, as fast.
  if (/[\\/]torch-1\./.test(path)) process.env['LRU_CACHE_CAPACITY'] ??= '64';
  const wished = process.env[CORE_TYPE] ?? '';
  if (wished === '') {
    const kernel = chosenKernel(path);
    if (kernel !== null) process.env[CORE_TYPE] = kernel;
    // OpenBLAS takes an empty name for an unknown one, and other kernels than its own choice.
    else delete process.env[CORE_TYPE];
  }
  try {
    loaded = createRequire(import.meta.url)(path) as Native;
  } catch (cause) {
    throw new EngineError(
      `the torch addon does not load: ${(cause as Error).message}; run \`npm run setup\` to build it again`,
      { cause },
    );
  }
  if (wished === '') confirmKernel(path, loaded.blasKernel().file);
  return loaded;
}

/**
 * Names the loaded matrix library of `device` with its kernels: mapped files, else libtorch's own
 * configuration, else 'unknown'.
 */
function loadedBlas(native: Native, device: string): string {
  const wanted = device === 'cpu' ? /lib(?:openblas|mkl_rt|mkl_core|blas)[^/]*$/ : /libcublas[^/]*$/;
  try {
    const files = readFileSync('/proc/self/maps', 'utf8').match(/\/\S*$/gm) ?? [];
    const paths = new Set(files.filter((file) => wanted.test(file)));
    const { kernel } = device === 'cpu' ? native.blasKernel() : { kernel: '' };
    if (paths.size > 0) return `${[...paths].sort().join(', ')}${kernel === '' ? '' : ` (${kernel})`}`;
  } catch {
    // no such file on this system: what libtorch says of itself
  }
  const { config } = native.describe();
  const name = /\bBLAS_INFO=(\w+)/.exec(config)?.[1];
  const version = name === 'mkl' ? /Math Kernel Library Version (\d[\d.]*)/.exec(config)?.[1] : undefined;
  return name === undefined ? 'unknown' : `${[name, version].filter(Boolean).join(' ')} inside libtorch`;
}

/** Throws EngineError unless `device` is 'cpu', 'cuda' or 'cuda:N'; or 'test' or 'test:N', the device of the suites (test/engine/device). */
export function checkDeviceName(device: string): void {
  if (!/^(cpu|(cuda|test)(:\d+)?)$/.test(device)) {
    throw new EngineError(`unknown device '${device}': use 'cpu', 'cuda' or 'cuda:N'`);
  }
}

/** Number of devices of the kind of `device` that this libtorch sees: of GPUs for 'cuda' and 'cuda:1'. */
export function deviceCount(native: Native, device: string): number {
  const { cudaDevices, testDevices } = native.describe();
  return device.startsWith('test') ? testDevices : cudaDevices;
}

/** Throws EngineError when this libtorch does not see the device. */
export function checkDevice(native: Native, device: string): void {
  if (device === 'cpu') return;
  const count = deviceCount(native, device);
  if (Number(device.split(':')[1] ?? 0) < count) return;
  const { version } = native.describe();
  throw new EngineError(
    device.startsWith('test')
      ? `device '${device}' asked for, which is for the suites alone: \`npm run test:device\` loads ${count || 'two'} of its kind`
      : `device '${device}' asked for, but this libtorch (${version}) sees ${count || 'no'} CUDA devices; ` +
          'use --device cpu, or set LIBTORCH to a CUDA build and run `npm run setup`',
  );
}

/** Returns the `info` of an engine with `threads` intra-op threads on this device. */
export function describeEngine(native: Native, device: string, threads: number): EngineInfo {
  const { name, memoryTotal } =
    device === 'cpu'
      ? { name: cpus()[0]?.model.trim() ?? '', memoryTotal: totalmem() }
      : native.describeDevice(device);
  return {
    name: 'torch',
    version: native.describe().version,
    device,
    threads,
    blas: loadedBlas(native, device),
    deviceName: name === '' ? device : name,
    memoryTotal,
  };
}
