/** Shape checks of the contract's operations, and how errors write tensors, for every engine. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { EngineError } from '../ground/errors.ts';
import { OwnedTensor } from './arena.ts';
import {
  type AdamWOptions,
  type AdamWState,
  type AttentionInput,
  type AttentionPrefix,
  type AttentionStepInput,
  type DType,
  ELEMENT_BYTES,
  type LogProbOptions,
  type SampleOptions,
  type SinkhornInput,
  type Tensor,
} from './engine.ts';

/** A shape as errors write it: '[2,3]'. */
export const shapeText = (tensor: Tensor): string => `[${tensor.shape.join(',')}]`;

export function sameShape(a: Tensor, b: Tensor): boolean {
  const shape = b.shape;
  return a.shape.length === shape.length && a.shape.every((size, axis) => size === shape[axis]);
}

/** An argument as errors write it: 'float32[2,3]'. */
function describe(value: unknown): string {
  if (value instanceof OwnedTensor) return value.freed ? 'freed' : `${value.dtype}[${value.shape.join(',')}]`;
  if (Array.isArray(value)) return `[${value.map(describe).join(', ')}]`;
  if (typeof value === 'object' && value !== null) return value.constructor?.name ?? 'object';
  return typeof value === 'symbol' || typeof value === 'function' ? typeof value : String(value);
}

/** Error of an operation: its name, what it was given, the device, and what is wrong. */
export function operationError(
  name: string,
  values: readonly unknown[],
  device: string,
  cause: unknown,
): EngineError {
  const shapes = values.map(describe).join(', ');
  return new EngineError(`${name}(${shapes}) on ${device}: ${(cause as Error).message.trim()}`, { cause });
}

/** Error for a part of a file that cannot be read as a tensor. */
export function fileProblem(
  file: string,
  offset: number,
  shape: readonly number[],
  dtype: DType,
  problem: string,
  cause?: unknown,
): EngineError {
  const what = `${dtype} [${shape.join(',')}] from byte ${offset}`;
  return new EngineError(`${file}: cannot be read as ${what}: ${problem}`, { cause });
}

/** Bytes of a part of a file. Throws for a shape, dtype or place that there is not. */
export function partSize(file: string, offset: number, shape: readonly number[], dtype: DType): number {
  const bytes = shape.reduce((product, size) => product * size, ELEMENT_BYTES[dtype] ?? Number.NaN);
  if (Number.isSafeInteger(bytes) && shape.every((size) => size >= 0) && offset >= 0) return bytes;
  throw fileProblem(file, offset, shape, dtype, 'no such shape, dtype or place');
}

/** Reads a part of a regular file. @throws EngineError naming it */
export function partOfFile(file: string, offset: number, shape: readonly number[], dtype: DType): Uint8Array {
  const bytes = partSize(file, offset, shape, dtype);
  const failed = (problem: string, cause?: unknown): EngineError =>
    fileProblem(file, offset, shape, dtype, problem, cause);
  if (!Number.isInteger(offset)) throw failed('the place must be an integer');
  let handle: number;
  try {
    handle = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)); // a pipe would wait for its writer
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw failed(code === 'ENOENT' ? 'No such file or directory' : message, cause);
  }
  try {
    const facts = fstatSync(handle);
    if (!facts.isFile()) throw failed('not a regular file');
    if (offset + bytes > facts.size) {
      throw failed(`the file holds ${facts.size} bytes, ${bytes} from ${offset} on are wanted`);
    }
    const content = new Uint8Array(bytes);
    for (let read = 0; read < bytes; ) {
      const more = readSync(handle, content, read, bytes - read, offset + read);
      if (more === 0) throw failed('the file ends sooner than its size says');
      read += more;
    }
    return content;
  } finally {
    closeSync(handle);
  }
}

/** Throws unless `tensor` is a live one of the arena; `kind` is the class of its engine, `engine` its name. */
export function checkOwned(
  tensor: Tensor,
  kind: new (...values: never[]) => OwnedTensor,
  owner: object,
  engine: string,
): void {
  if (!(tensor instanceof kind)) throw new Error(`this is no tensor of the ${engine} engine`);
  if (tensor.owner !== owner) throw new Error('the tensor belongs to another engine');
  if (tensor.freed) throw new Error('the tensor was already freed by dispose or a scope');
}

/** Error for tensors of shapes that do not fit together. */
function misfit(where: string, tensors: Readonly<Record<string, Tensor>>, wanted: string): EngineError {
  const shapes = Object.entries(tensors).map(([name, tensor]) => `${name} ${shapeText(tensor)}`);
  const listed = `${shapes.slice(0, -1).join(', ')} and ${shapes.at(-1)}`;
  return new EngineError(`${where}: ${listed} do not fit: want ${wanted}`);
}

export function checkRange(where: string, target: Tensor, source: Tensor): void {
  if (sameShape(target, source)) return;
  throw new EngineError(`${where}: target ${shapeText(target)} and source ${shapeText(source)} differ`);
}

export function checkRmsNorm(x: Tensor, weight: Tensor): void {
  const width = x.shape.at(-1)!;
  if (weight.shape.length !== 1 || weight.shape[0] !== width) {
    throw new EngineError(`rmsNorm: x ${shapeText(x)} needs a weight [${width}], got ${shapeText(weight)}`);
  }
}

export function checkAddNorm(x: Tensor, y: Tensor, weight: Tensor): void {
  if (x.shape.join() !== y.shape.join()) {
    throw new EngineError(`addNorm: x ${shapeText(x)} and y ${shapeText(y)} must have one shape`);
  }
  checkRmsNorm(x, weight);
}

export function checkRotary(x: Tensor, cos: Tensor, sin: Tensor): void {
  const [batch, length, , width] = x.shape as [number, number, number, number]; // [B, T, H, D]
  const fits = (angle: Tensor): boolean =>
    angle.shape.length === 3 &&
    (angle.shape[0] === 1 || angle.shape[0] === batch) &&
    angle.shape[1] === length &&
    angle.shape[2] === width;
  if (x.shape.length !== 4 || width % 2 !== 0 || !fits(cos) || !fits(sin)) {
    throw misfit('rotary', { x, cos, sin }, '[B, T, H, D] with an even D, and [B or 1, T, D] twice');
  }
}

export function checkSwiglu(gateUp: Tensor): void {
  if (!Number.isInteger((gateUp.shape.at(-1) ?? 1) / 2)) {
    throw new EngineError(`swiglu: the last axis of ${shapeText(gateUp)} must hold gate and up halves`);
  }
}

function checkMask(where: string, mask: Tensor | undefined, vocabulary: number): void {
  if (mask !== undefined && mask.shape.join() !== `${vocabulary}`) {
    throw new EngineError(`${where}: the vocabulary mask must be [${vocabulary}], got ${shapeText(mask)}`);
  }
}

export function checkLogProbs(
  hidden: Tensor,
  head: Tensor,
  targets: Tensor,
  { temperature = 1, mask }: LogProbOptions,
): void {
  const [rows, width] = hidden.shape;
  if (hidden.shape.length !== 2 || head.shape[1] !== width || targets.shape.join() !== `${rows}`) {
    throw misfit('logProbs', { hidden, head, targets }, '[N, D], [V, D] and [N]');
  }
  checkMask('logProbs', mask, head.shape[0]!);
  if (!(temperature > 0)) throw new EngineError(`logProbs: temperature must be > 0, got ${temperature}`);
}

export function checkSample(
  logits: Tensor,
  { temperature, topP, topK, mask, uniforms }: SampleOptions,
): void {
  const [rows, vocabulary] = logits.shape as [number, number];
  if (logits.shape.length !== 2 || vocabulary === 0 || uniforms.shape.join() !== `${rows}`) {
    throw misfit('sample', { logits, uniforms }, '[B, V] and [B]');
  }
  checkMask('sample', mask, vocabulary);
  if (!(temperature >= 0) || !(topP > 0 && topP <= 1)) {
    throw new EngineError(`sample: temperature ≥ 0 and 0 < topP ≤ 1 wanted, got ${temperature} and ${topP}`);
  }
  if (topK !== undefined && !(Number.isInteger(topK) && topK > 0)) {
    throw new EngineError(`sample: topK must be a positive integer, got ${topK}`);
  }
}

export function checkSinkhorn({ cost, rows, columns, epsilon, iterations }: SinkhornInput): void {
  const [count, length, width] = cost.shape as [number, number, number]; // B, T, S
  const fits = rows.shape.join() === `${count},${length}` && columns.shape.join() === `${count},${width}`;
  if (cost.shape.length !== 3 || !fits || [cost, rows, columns].some(({ dtype }) => dtype !== 'float64')) {
    throw misfit('sinkhorn', { cost, rows, columns }, '[B, T, S], [B, T] and [B, S], all of float64');
  }
  if (!(epsilon > 0) || !(Number.isInteger(iterations) && iterations > 0)) {
    throw new EngineError(`sinkhorn: ε > 0 and iterations ≥ 1 wanted, got ${epsilon} and ${iterations}`);
  }
}

export function checkAdamW(
  { parameters, gradients, firstMoment, secondMoment, decay }: AdamWState,
  { step }: AdamWOptions,
): void {
  const decays = typeof decay === 'number' ? [] : [decay];
  const all = [parameters, gradients, firstMoment, secondMoment, ...decays];
  if (!all.every((tensor) => sameShape(tensor, parameters))) {
    throw new EngineError(`adamW: all tensors must have one shape, got ${all.map(shapeText).join(', ')}`);
  }
  if (!(step >= 1)) throw new EngineError(`adamW: step counts from 1, got ${step}`);
}

function checkAttentionMask(mask: Tensor | undefined, full: readonly number[]): void {
  const fits =
    mask === undefined ||
    (mask.shape.length === 4 && mask.shape.every((size, axis) => size === 1 || size === full[axis]));
  if (!fits) {
    throw new EngineError(`attention: mask ${shapeText(mask)} must be broadcast to [${full.join(',')}]`);
  }
}

/** Throws unless the prefix fits the keys; its length S₀. */
function checkPrefix(key: Tensor, prefix: AttentionPrefix): number {
  const [batch, heads, , width] = key.shape as [number, number, number, number];
  const [prompts, , prefixKeys] = prefix.key.shape as [number, number, number, number]; // [P, Hkv, S₀, D]
  if (
    prefix.key.shape.length !== 4 ||
    batch % prompts !== 0 ||
    prefix.key.shape[1] !== heads ||
    prefix.key.shape[3] !== width ||
    !sameShape(prefix.key, prefix.value)
  ) {
    const tensors = { key, 'prefix key': prefix.key, 'prefix value': prefix.value };
    throw misfit('attention', tensors, 'twice [P, Hkv, S₀, D] with B a multiple of P');
  }
  checkAttentionMask(prefix.mask, [prompts, 1, 1, prefixKeys]);
  return prefixKeys;
}

/** Throws unless the tensors fit together; the number of prefix keys, 0 without a prefix. */
export function checkAttention({ query, key, value, mask, prefix }: AttentionInput): number {
  const [batch, queryHeads, length, width] = query.shape as [number, number, number, number]; // [B, Hq, T, D]
  const [keyBatch, heads, keys] = key.shape as [number, number, number, number]; // [B, Hkv, S, D]
  if (
    query.shape.length !== 4 ||
    key.shape.length !== 4 ||
    keyBatch !== batch ||
    key.shape[3] !== width ||
    queryHeads % heads !== 0 ||
    !sameShape(key, value)
  ) {
    const wanted = '[B, Hq, T, D] and twice [B, Hkv, S, D] with Hq a multiple of Hkv';
    throw misfit('attention', { query, key, value }, wanted);
  }
  checkAttentionMask(mask, [batch, 1, length, keys]);
  return prefix === undefined ? 0 : checkPrefix(key, prefix);
}

/** Throws unless the tensors fit together; the number of prefix keys, 0 without a prefix. */
export function checkAttentionStep(input: AttentionStepInput, device: string): number {
  const { qkv, cos, sin, cache, used, at, mask, prefix } = input;
  const [batch, heads, columns, width] = cache.key.shape as [number, number, number, number]; // [B, Hkv, C, D]
  const queryHeads = (qkv.shape[1] ?? 0) / width - 2 * heads;
  if (
    cache.key.shape.length !== 4 ||
    !sameShape(cache.key, cache.value) ||
    qkv.shape.length !== 2 ||
    qkv.shape[0] !== batch ||
    !Number.isInteger(queryHeads / heads) ||
    queryHeads < 1 ||
    !(Number.isInteger(used) && used >= 0 && used < columns)
  ) {
    throw new EngineError(
      `attentionStep: qkv ${shapeText(qkv)}, cache ${shapeText(cache.key)} and ${used} used columns do not fit: ` +
        'want [B, (Hq + 2·Hkv)·D] and [B, Hkv, C, D] with Hq a multiple of Hkv and used < C',
    );
  }
  for (const angle of [cos, sin]) {
    const [rows, tokens, size] = angle.shape;
    if (angle.shape.length !== 3 || (rows !== 1 && rows !== batch) || tokens !== 1 || size !== width) {
      const wanted = new Error('want cos and sin [1 or B, 1, D]');
      throw operationError('attentionStep', [qkv, cos, sin, cache.key], device, wanted);
    }
  }
  if (at !== undefined) {
    if (at.dtype !== 'int64' || at.shape.length !== 1 || at.shape[0] !== 1) {
      throw new EngineError(`attentionStep: the column is ${at.dtype} ${shapeText(at)}; want int64 [1]`);
    }
    if (used !== 0 || mask?.shape[3] !== columns) {
      const masked = mask === undefined ? 'no mask' : `a mask ${shapeText(mask)}`;
      throw new EngineError(
        `attentionStep: a column of the device with ${used} used columns and ${masked}; want 0 and one over all ${columns}`,
      );
    }
  }
  checkAttentionMask(mask, [batch, 1, 1, at === undefined ? used + 1 : columns]);
  return prefix === undefined ? 0 : checkPrefix(cache.key, prefix);
}
