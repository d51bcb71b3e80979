/** The kernels of simd.ts on a memory: arguments are byte addresses, counts and element strides. */
import { BYTES } from './bytes.ts';

type Kernel = (...values: readonly number[]) => number;

const NAMES = [
  ...['copy4', 'gatherRows', 'scatterRows', 'binary', 'affine', 'exponential', 'addBias', 'finite'],
  ...['sumAxis', 'normRows', 'rmsNorm', 'rmsNormBack', 'rotary', 'swiglu', 'swigluBack', 'gelu', 'geluBack'],
  ...['softmax', 'softmaxBack', 'attend', 'tokenLogProbs', 'tokenLogProbsBack', 'drawTokens', 'adamW'],
] as const;

export type Kernels = Readonly<Record<(typeof NAMES)[number], Kernel>>;

export interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

/** The part of the standard that is used; the types of Node leave it out. */
interface Standard {
  Module: new (bytes: Uint8Array) => object;
  Memory: new (pages: { initial: number; maximum: number }) => Memory;
  Instance: new (module: object, imports: { env: object }) => { exports: unknown };
}

/** WebAssembly, undefined where JavaScript has none. */
export const wasm = (globalThis as { WebAssembly?: Standard }).WebAssembly;

let compiled: object | undefined;

export function openKernels(memory: Memory): Kernels {
  compiled ??= new wasm!.Module(Buffer.from(BYTES, 'base64'));
  return new wasm!.Instance(compiled, { env: { memory, log: Math.log } }).exports as Kernels;
}
