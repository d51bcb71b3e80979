/**
 * SIMD kernels on a memory of their own: WebAssembly, loaded without files and without waiting, in Node and in browsers.
 * Their numbers are those of the plain code, which runs where WebAssembly or its SIMD is missing.
 */
import { BYTES } from './bytes.ts';

/** Functions of simd.ts. Arrays are passed by address, their `byteOffset`. */
interface Exports {
  readonly distances: (
    features: number,
    blocks: number,
    pieces: number,
    own: number,
    out: number,
    least: number,
  ) => void;
  readonly fourRows: (
    incoming: number,
    outgoing: number,
    inverse: number,
    best: number,
    neighbours: number,
    covariances: number,
    lag: number,
    begin: number,
    end: number,
  ) => void;
  readonly stretches: (values: number, nearest: number, window: number, count: number) => void;
  readonly medians: (
    values: number,
    level: number,
    cycles: number,
    phases: number,
    between: number,
    first: number,
    stride: number,
    places: number,
    out: number,
  ) => void;
}

interface Memory {
  readonly buffer: ArrayBuffer;
}

/** The part of the standard that is used; the types of Node leave it out. */
declare const WebAssembly:
  | undefined
  | {
      validate(bytes: Uint8Array): boolean;
      Module: new (bytes: Uint8Array) => object;
      Memory: new (pages: { initial: number }) => Memory;
      Instance: new (module: object, imports: { env: { memory: Memory } }) => { exports: unknown };
    };

const PAGE = 65_536;
/** Arrays begin at multiples of this many bytes. */
const ALIGNED = 16;

let compiled: object | null | undefined;

function compile(): object | null {
  if (typeof WebAssembly === 'undefined') return null;
  const bytes = Uint8Array.from(atob(BYTES), (letter) => letter.charCodeAt(0));
  return WebAssembly.validate(bytes) ? new WebAssembly.Module(bytes) : null;
}

/** Largest memory that is kept for the next user, in bytes. */
const LARGEST_KEPT = 1 << 25;
let spare: Simd | null = null;

/** Kernels and the arrays that they work on. */
export class Simd {
  readonly run: Exports;
  readonly #buffer: ArrayBuffer;
  #next = ALIGNED;

  private constructor(run: Exports, buffer: ArrayBuffer) {
    this.run = run;
    this.#buffer = buffer;
  }

  /** Opens kernels with room for `arrays` arrays of `bytes` in total; null where the engine has no SIMD or not that much memory. */
  static open(bytes: number, arrays: number): Simd | null {
    if (compiled === undefined) compiled = compile();
    if (compiled === null || typeof WebAssembly === 'undefined') return null;
    const needed = bytes + ALIGNED * (arrays + 1);
    if (spare !== null && spare.#buffer.byteLength >= needed) {
      const kept = spare;
      spare = null;
      kept.#next = ALIGNED;
      return kept;
    }
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil(needed / PAGE) });
      const { exports } = new WebAssembly.Instance(compiled, { env: { memory } });
      return new Simd(exports as Exports, memory.buffer);
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Gives the memory back for later use: its arrays are no longer the caller's. */
  close(): void {
    const { byteLength } = this.#buffer;
    if (byteLength <= LARGEST_KEPT && (spare === null || byteLength >= spare.#buffer.byteLength))
      spare = this;
  }

  /** Arrays are not cleared. */
  floats(length: number): Float64Array {
    return new Float64Array(this.#buffer, this.#take(8 * length), length);
  }

  ints(length: number): Int32Array {
    return new Int32Array(this.#buffer, this.#take(4 * length), length);
  }

  #take(bytes: number): number {
    const from = this.#next;
    this.#next += Math.ceil(bytes / ALIGNED) * ALIGNED;
    return from;
  }
}
