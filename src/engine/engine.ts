/**
 * The engine contract: the neural-network-level operations that a policy needs, and nothing more. Every engine
 * implements each of them the fastest way it has; one suite (`test/engine/contract.ts`) runs over all of them.
 *
 * Ownership. A Tensor is a handle to native memory that the JavaScript garbage collector never sees. Whoever
 * calls an operation owns its result until the enclosing `scope` ends or `dispose` is called. `scope(fn)`
 * frees every tensor created inside it except those reachable in fn's return value (arrays, plain objects and
 * Maps are searched); it is synchronous, and a returned Promise is an error. Using a freed tensor, a tensor
 * of another engine, or a wrong dtype or shape throws an EngineError; nothing crashes the process.
 *
 * Autograd. Operations on tensors that descend from a `parameter` are recorded, unless inside `noGrad`.
 * `grad` returns fresh gradient tensors; nothing accumulates in hidden state.
 *
 * Shapes follow row-major order. B batch, T positions, S keys, H heads, D features of a head, V vocabulary.
 */

export type DType = 'float32' | 'float64' | 'bfloat16' | 'float16' | 'int64' | 'uint8' | 'bool';

/** Bytes of an element. */
export const ELEMENT_BYTES: Readonly<Record<DType, number>> = {
  float32: 4,
  float64: 8,
  bfloat16: 2,
  float16: 2,
  int64: 8,
  uint8: 1,
  bool: 1,
};

/** Typed arrays that enter an engine: Int32Array becomes int64 indices, Uint8Array a bool mask. */
export type HostArray = Float32Array | Float64Array | Int32Array | Uint8Array;

/** Opaque handle; only the engine that made it can use it. */
export interface Tensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
}

/** Keys and values of a prompt that a whole group of rows shares. */
export interface AttentionPrefix {
  readonly key: Tensor; // [P, Hkv, S₀, D], B = P·G rows attend, G consecutive rows to each
  readonly value: Tensor; // [P, Hkv, S₀, D]
  /** Additive, −Infinity hides: broadcast to [P, 1, 1, S₀]. */
  readonly mask?: Tensor | undefined;
}

export interface AttentionInput {
  readonly query: Tensor; // [B, Hq, T, D], Hq a multiple of Hkv (grouped queries)
  readonly key: Tensor; // [B, Hkv, S, D]
  readonly value: Tensor; // [B, Hkv, S, D]
  /** Additive, −Infinity hides: broadcast to [B, 1, T, S]; a constant. A causal mask is passed like any other. */
  readonly mask?: Tensor | undefined;
  /** Attended to by every query position, before the own keys. */
  readonly prefix?: AttentionPrefix | undefined;
}

/** Attention input of a decoding step: a single token per row. */
export interface AttentionStepInput {
  /** Projected and not rotated yet: [B, (Hq + 2·Hkv)·D], queries, then keys, then values. */
  readonly qkv: Tensor;
  readonly cos: Tensor; // [B or 1, 1, D]
  readonly sin: Tensor; // [B or 1, 1, D]
  /** [B, Hkv, C, D], extended in place. */
  readonly cache: { readonly key: Tensor; readonly value: Tensor };
  /** Columns filled so far; this token's is the next. */
  readonly used: number;
  /** Column to write as int64 [1], where the device alone knows it; `used` is then 0. */
  readonly at?: Tensor | undefined;
  /** Additive, −Infinity hides: broadcast to [B, 1, 1, used + 1]; with `at` [B or 1, 1, 1, C], which hides later columns. */
  readonly mask?: Tensor | undefined;
  readonly prefix?: AttentionPrefix | undefined;
}

/** B problems of entropic optimal transport, in float64. A place without mass is padding. */
export interface SinkhornInput {
  readonly cost: Tensor; // [B, T, S]
  readonly rows: Tensor; // masses [B, T]
  readonly columns: Tensor; // masses [B, S]
  /** Entropic regularisation. The largest cost / ε must stay below 700, where exp(−cost / ε) leaves the normal numbers. */
  readonly epsilon: number;
  /** Each scales rows, then columns. */
  readonly iterations: number;
}

export interface SinkhornResult {
  /** ⟨plan, cost⟩ [B] */
  readonly distance: Tensor;
  /** Row sums of the transport plan [B, T]; its column sums are the masses. */
  readonly rowSums: Tensor;
  readonly u: Tensor; // [B, T]
  readonly v: Tensor; // [B, S]
}

export interface LogProbOptions {
  /** Divides the logits; > 0. */
  readonly temperature?: number;
  /** Additive vocabulary mask [V]; a large negative number (finite: −1e9) forbids a token. */
  readonly mask?: Tensor;
  /** True to compute the entropy as well, which costs one more pass over the logits. */
  readonly entropy?: boolean;
}

export interface SampleOptions {
  /** 0 is greedy. */
  readonly temperature: number;
  /** Nucleus: the smallest set of tokens whose probability reaches topP; 1 keeps all. Log-probabilities stay those of all. */
  readonly topP: number;
  /** Only the k most probable tokens; all when absent. Applied before topP. */
  readonly topK?: number | undefined;
  readonly mask?: Tensor; // [V] additive, finite
  /** Draws in [0, 1) from the caller: [B]. Not read at temperature 0. */
  readonly uniforms: Tensor;
}

/** Bytes of tensor storage of this process on the engine's device. */
export interface MemoryUse {
  readonly now: number;
  /** Largest since `trackMemory` was called. */
  readonly peak: number;
}

/** Work recorded once, to be repeated without being issued call by call. */
export interface Recording {
  /** Repeats it over the same memory, after all that was issued before. */
  replay(): void;
  /** Gives its memory back; no replay after that. */
  dispose(): void;
}

/** All of one float dtype: float32, or float64 in tests. */
export interface AdamWState {
  readonly parameters: Tensor; // [P] flat, updated in place
  readonly gradients: Tensor; // [P]
  readonly firstMoment: Tensor; // [P]
  readonly secondMoment: Tensor; // [P]
  /** Weight decay: one factor, or one per element [P] (0 for biases and norms). */
  readonly decay: Tensor | number;
}

export interface AdamWOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** 1-based number of this update, for bias correction. */
  readonly step: number;
  /** Factor on the gradients, as clipping asks for; 1 when absent. */
  readonly scale?: number;
}

export interface EngineInfo {
  readonly name: string; // 'torch'
  readonly version: string; // '1.13.0'
  readonly device: string; // 'cpu', 'cuda:0'
  readonly threads: number;
  /** The matrix library actually loaded, where the engine can tell. */
  readonly blas: string;
  readonly deviceName: string;
  /** Bytes of memory of the device: of the machine for the CPU. 0 where the engine cannot tell. */
  readonly memoryTotal: number;
}

export interface Engine {
  readonly info: EngineInfo;

  // ---- ownership and transfer ------------------------------------------------------------------------
  /** Copies host data to the device. Throws if the length does not equal the product of the shape. */
  tensor(data: HostArray, shape: readonly number[]): Tensor;
  zeros(shape: readonly number[], dtype?: DType): Tensor;
  /**
   * Reads a part of a file, from byte `offset` on, as a tensor of host memory, which `write` copies to any
   * dtype and device.
   * @throws EngineError naming the file when it cannot be read or is too short
   */
  fromFile(file: string, offset: number, shape: readonly number[], dtype: DType): Tensor;
  /** Copies to the host, any float dtype widened or narrowed to float32. */
  floats(tensor: Tensor): Float32Array;
  doubles(tensor: Tensor): Float64Array;
  /** The elements as they are stored, little-endian, row-major. */
  bytes(tensor: Tensor): Uint8Array;
  /** Copies an int64 or bool tensor to the host; values must fit int32. */
  ints(tensor: Tensor): Int32Array;
  /** The single value of a one-element tensor. */
  item(tensor: Tensor): number;
  scope<T>(body: () => T): T;
  /** Runs `body` outside every scope: what it makes lives until it is disposed of. */
  unscoped<T>(body: () => T): T;
  dispose(...tensors: readonly Tensor[]): void;
  /** Number of live handles of this engine instance. */
  live(): number;
  cast(tensor: Tensor, dtype: DType): Tensor;
  /** Returns true if no element is NaN or infinite. */
  allFinite(tensor: Tensor): boolean;
  /**
   * Starts counting storage, or resets the peak. On the CPU it counts what is allocated after the first call;
   * mapped files do not count.
   */
  trackMemory(): void;
  /** Null before `trackMemory`, and where the engine cannot tell. */
  memory(): MemoryUse | null;
  /** Waits until the device has done everything it was given, as a clock must. On the CPU it always has. */
  synchronize(): void;
  /** Publishes storage to other Workers of this process; returns a ticket for `attach`. */
  share(tensor: Tensor): number;
  /** A tensor over storage that another Worker shared: same memory, no autograd history. */
  attach(ticket: number): Tensor;
  /** Withdraws a ticket; tensors already attached keep the storage alive. */
  unshare(ticket: number): void;
  /**
   * Lets a tensor, a leaf too, refer to the storage of `source`, of its shape and dtype, or with null to none: until it is given another, what
   * reads it throws. A storage is freed with the last tensor over it. Absent where an engine cannot.
   */
  rebind?(tensor: Tensor, source: Tensor | null): void;

  // ---- autograd --------------------------------------------------------------------------------------
  /** A leaf over the same storage whose gradient `grad` can return. */
  parameter(tensor: Tensor): Tensor;
  detach(tensor: Tensor): Tensor;
  noGrad<T>(body: () => T): T;
  /**
   * Gradients of `Σ output · outputGrad` (ones for scalars) with respect to `inputs`, in order; zeros for an
   * input that no output depends on.
   */
  grad(
    output: Tensor | readonly Tensor[],
    inputs: readonly Tensor[],
    outputGrad?: Tensor | readonly Tensor[],
  ): Tensor[];

  // ---- shape -----------------------------------------------------------------------------------------
  /** Same elements, new shape; −1 infers one dimension. */
  reshape(tensor: Tensor, shape: readonly number[]): Tensor;
  permute(tensor: Tensor, order: readonly number[]): Tensor;
  concat(tensors: readonly Tensor[], axis: number): Tensor;
  /** A view of `length` entries from `start` along `axis`. */
  narrow(tensor: Tensor, axis: number, start: number, length: number): Tensor;
  /** Consecutive views along `axis`; one backward pass for all of them, where `narrow` pays one each. */
  split(tensor: Tensor, sizes: readonly number[], axis: number): Tensor[];
  /** Rows of [R, …] by int64 index [K] → [K, …]; differentiable (embedding look-up, gathers, group repeat). */
  indexSelect(tensor: Tensor, index: Tensor): Tensor;
  /** Copy of `tensor` [R, …] with rows `index` [K] replaced by `source` [K, …]; differentiable in both. */
  indexCopy(tensor: Tensor, index: Tensor, source: Tensor): Tensor;
  /** Writes `source` into `tensor` at `start` along `axis`, in place, without autograd. */
  write(tensor: Tensor, axis: number, start: number, source: Tensor): void;
  /** Writes like `write`, at the positions `index` [K] along `axis`, which may live on the device. */
  indexCopyInto(tensor: Tensor, axis: number, index: Tensor, source: Tensor): void;
  /** Adds `source`, of any float dtype, to `tensor` at `start` along `axis`, in place, without autograd. */
  addInto(tensor: Tensor, axis: number, start: number, source: Tensor): void;

  // ---- arithmetic (broadcasting as in NumPy) ---------------------------------------------------------
  add(a: Tensor, b: Tensor | number): Tensor;
  sub(a: Tensor, b: Tensor | number): Tensor;
  mul(a: Tensor, b: Tensor | number): Tensor;
  div(a: Tensor, b: Tensor | number): Tensor;
  minimum(a: Tensor, b: Tensor): Tensor;
  clamp(a: Tensor, lo: number, hi: number): Tensor;
  exp(a: Tensor): Tensor;
  /** Sum over one axis, or over everything to a scalar []. */
  sum(a: Tensor, axis?: number): Tensor;
  /** Euclidean norm over the last axis: [..., D] → [...]. */
  norm(a: Tensor): Tensor;
  matmul(a: Tensor, b: Tensor): Tensor;
  logSoftmax(a: Tensor): Tensor; // over the last axis
  logSumExp(a: Tensor, axis: number): Tensor;

  // ---- neural network --------------------------------------------------------------------------------
  /** x [..., I] · weightᵀ [O, I] (+ bias [O]) → [..., O] */
  linear(x: Tensor, weight: Tensor, bias?: Tensor): Tensor;
  /** x / √(mean(x²) + ε) · weight over the last axis; statistics in float32. */
  rmsNorm(x: Tensor, weight: Tensor, epsilon: number): Tensor;
  /** Sum of x and y, of one shape, and its rmsNorm: a residual stream with what is added to it. */
  addNorm(x: Tensor, y: Tensor, weight: Tensor, epsilon: number): { sum: Tensor; normed: Tensor };
  /** Rotates halves: x·cos + rotateHalf(x)·sin; x [B, T, H, D], cos and sin [B or 1, T, D]. */
  rotary(x: Tensor, cos: Tensor, sin: Tensor): Tensor;
  /** softmax(q·kᵀ/√D + mask)·v → [B, Hq, T, D] */
  attention(input: AttentionInput): Tensor;
  /**
   * Decoding step, no autograd: rotates queries and keys, writes column `used` (or `at`) of the cache, attends to
   * prefix and all columns up to it → [B, Hq·D].
   */
  attentionStep(input: AttentionStepInput): Tensor;
  /** silu(gate) · up from one tensor [..., 2·F] that holds gate then up → [..., F] */
  swiglu(gateUp: Tensor): Tensor;
  /** Exact (erf) GELU. */
  gelu(x: Tensor): Tensor;
  /**
   * Log-probability [N] of each target under softmax((hidden · headᵀ + mask) / temperature), and its entropy,
   * in float32: hidden [N, D], head [V, D], targets int64 [N].
   */
  logProbs(
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    options?: LogProbOptions,
  ): { logProb: Tensor; entropy: Tensor | null };
  /**
   * Draws tokens from logits [B, V]: ids int64 [B] and log-probabilities float32 [B] under the tempered,
   * masked distribution, without renormalisation by top-k and top-p (temperature 0: those of temperature 1).
   * They stay on the device. NaN logits give NaN log-probabilities, which the caller must look for.
   */
  sample(logits: Tensor, options: SampleOptions): { ids: Tensor; logProbs: Tensor };
  /**
   * Runs `body` once and records it, where the device can (CUDA graphs); null where it cannot, and then nothing was run.
   * `body` is called twice, inside `noGrad` and a scope: once it runs, once it is only recorded. What it reads and writes
   * must outlive the recording; its shapes are fixed; it must not copy to or from the host. What it throws is thrown, and a
   * body that cannot be recorded is an EngineError; either way it may have run, and the engine stays usable.
   */
  record(body: () => void): Recording | null;
  /**
   * Sinkhorn (Cuturi 2013) as scalings of K = exp(−cost / ε), no autograd: u = rows / (K·v), v = columns /
   * (Kᵀ·u), from v = 1. Plan: diag(u)·K·diag(v).
   */
  sinkhorn(input: SinkhornInput): SinkhornResult;
  /** Updates in place by AdamW (Loshchilov & Hutter 2019, as torch.optim.AdamW). */
  adamW(state: AdamWState, options: AdamWOptions): void;
}
