/** The addon as JavaScript sees it, and the environment that libtorch must find before it is loaded. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { EngineError } from '../../errors.ts';
import type { DType, HostArray } from '../engine.ts';
import { addonPath } from './addon.ts';
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

export interface Native {
  /** Operator id, −1 if this libtorch does not have it. */
  op(name: string, overload: string): number;
  /** Whether an operator has an argument of this name. */
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
  describe(): { version: string; config: string; parallel: string; cudaDevices: number };
  /** OpenBLAS's name for the kernels it chose and the file of the matrix library; '' where they are not known. */
  blasKernel(): { kernel: string; file: string };
  /** uint8 [bytes], a part of the file. */
  readFile(file: string, offset: number, bytes: number): number;
  trackMemory(device: string): void;
  memory(device: string): readonly [now: number, peak: number] | null;
  /** Of a CUDA device; '' and 0 where this build cannot ask. */
  describeDevice(device: string): { name: string; memoryTotal: number };
  synchronize(device: string): void;
  canRecord(device: string): boolean;
  /** Calls the body twice, the second time to record it; id of the recording. */
  record(device: string, body: () => void): number;
  replay(recording: number): void;
  freeRecording(recording: number): void;
}

let loaded: Native | undefined;

/**
 * Loads the addon once per thread. OpenMP and OpenBLAS read their settings when their library is loaded, so they are set before:
 * with waiting threads that spin, two Workers on two cores take twice as long. A Worker that is the first to load it has to share
 * the environment of the process, or what it sets reaches no library.
 */
export function loadNative(): Native {
  if (loaded !== undefined) return loaded;
  process.env['OMP_WAIT_POLICY'] ??= 'passive';
  process.env['OMP_NUM_THREADS'] ??= String(availableParallelism());
  const path = addonPath();
  const wished = process.env[CORE_TYPE] ?? '';
  if (wished === '') {
    const kernel = chosenKernel(path);
    if (kernel !== null) process.env[CORE_TYPE] = kernel;
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
 * Files of the matrix library mapped into this process that `device` uses, with the kernels it chose; where it is linked into
 * libtorch, its name from libtorch's own configuration, and 'unknown' where the system does not tell.
 */
export function loadedBlas(native: Native, device: string): string {
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
