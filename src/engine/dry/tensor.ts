/** Tensors without elements: shape, strides, dtype, the storage that they would have, and the gradient's way back. */
import type { DType } from '../engine.ts';
import type { Ledger, Storage } from './ledger.ts';

export type Shape = readonly number[];

export function count(shape: Shape): number {
  let product = 1;
  for (let axis = 0; axis < shape.length; axis++) product *= shape[axis]!;
  return product;
}

/** Whether two shapes are the same. */
export function sameShape(a: Shape, b: Shape): boolean {
  if (a.length !== b.length) return false;
  for (let axis = 0; axis < a.length; axis++) if (a[axis] !== b[axis]) return false;
  return true;
}

/** Row-major strides. */
export function dense(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= Math.max(1, shape[axis]!);
  }
  return strides;
}

/** A step of a backward pass, with what it keeps. */
export interface Step {
  /** Grows with every step recorded: later ones go back first. */
  readonly sequence: number;
  /** Where the gradient of each input goes; null where none is wanted. */
  readonly edges: readonly (Edge | null)[];
  readonly saved: DryTensor[];
  /** Gradients of the inputs; `wanted` says of which. Owned by the caller. */
  readonly backward: (
    given: readonly (DryTensor | null)[],
    wanted: readonly boolean[],
  ) => (DryTensor | null)[];
  /** Tensors and later steps that lead here. */
  refs: number;
}

export interface Edge {
  readonly step: Step;
  /** Which result of the step. */
  readonly result: number;
  readonly shape: Shape;
  readonly dtype: DType;
}

/** One holder of a storage. Whoever made it releases it. */
export class DryTensor {
  readonly shape: Shape;
  readonly strides: Shape;
  readonly dtype: DType;
  readonly storage: Storage;
  readonly #ledger: Ledger;
  edge: Edge | null = null;
  /** The result of a view operator: it holds its base, so that nothing is done in its place. */
  derived = false;

  constructor(ledger: Ledger, storage: Storage, shape: Shape, strides: Shape, dtype: DType) {
    this.#ledger = ledger;
    this.storage = storage;
    this.shape = shape;
    this.strides = strides;
    this.dtype = dtype;
  }

  get size(): number {
    return count(this.shape);
  }

  get contiguous(): boolean {
    let step = 1;
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      const size = this.shape[axis]!;
      if (size === 0) return true;
      if (size !== 1 && this.strides[axis] !== step) return false;
      step *= size;
    }
    return true;
  }

  /** Every element once, without gaps, in whatever order. */
  get solid(): boolean {
    const axes = this.shape.map((_, axis) => axis).filter((axis) => this.shape[axis] !== 1);
    axes.sort((a, b) => this.strides[a]! - this.strides[b]!);
    let step = 1;
    for (const axis of axes) {
      if (this.strides[axis] !== step) return false;
      step *= this.shape[axis]!;
    }
    return true;
  }

  /** Another holder of the same storage, without the gradient's way back. */
  view(shape: Shape = this.shape, strides: Shape = this.strides): DryTensor {
    this.storage.refs++;
    const view = new DryTensor(this.#ledger, this.storage, shape, strides, this.dtype);
    view.derived = this.derived;
    return view;
  }

  release(): void {
    this.#ledger.drop(this.storage);
    if (this.edge !== null) forget(this.edge.step);
    this.edge = null;
  }
}

/** One holder of a step less; the last one frees what it keeps, and lets go of the steps before it. */
export function forget(step: Step): void {
  const queue = [step];
  for (let one = queue.pop(); one !== undefined; one = queue.pop()) {
    if (--one.refs > 0) continue;
    freeSaved(one);
    for (const edge of one.edges) if (edge !== null) queue.push(edge.step);
  }
}

export function freeSaved(step: Step): void {
  for (const tensor of step.saved.splice(0)) tensor.release();
}

/** Strides of `shape` over the elements of a tensor, as ATen's reshape finds them; null where it would copy. */
export function viewStrides(from: DryTensor, shape: Shape): number[] | null {
  if (from.size === 0) return dense(shape);
  const strides = new Array<number>(shape.length);
  let axis = shape.length - 1;
  let base = from.strides.at(-1) ?? 1;
  let held = 1;
  let placed = 1;
  for (let i = from.shape.length - 1; i >= 0; i--) {
    held *= from.shape[i]!;
    const breaks = i === 0 || (from.shape[i - 1] !== 1 && from.strides[i - 1] !== held * base);
    if (!breaks) continue;
    while (axis >= 0 && (placed < held || shape[axis] === 1)) {
      strides[axis] = placed * base;
      placed *= shape[axis]!;
      axis--;
    }
    if (placed !== held) return null;
    if (i > 0) {
      base = from.strides[i - 1]!;
      held = 1;
      placed = 1;
    }
  }
  if (axis !== -1 && from.shape.length > 0) return null;
  return from.shape.length === 0 ? dense(shape) : strides;
}

/** Dense strides in the order of another tensor's: what elementwise results have. */
export function likeStrides(shape: Shape, model: DryTensor): number[] {
  if (model.contiguous || model.shape.length !== shape.length) return dense(shape);
  const axes = shape.map((_, axis) => axis);
  axes.sort((a, b) => model.strides[b]! - model.strides[a]! || a - b);
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (const axis of axes.reverse()) {
    strides[axis] = step;
    step *= Math.max(1, shape[axis]!);
  }
  return strides;
}

export function broadcast(a: Shape, b: Shape): number[] {
  const rank = Math.max(a.length, b.length);
  const shape = new Array<number>(rank);
  for (let i = 0; i < rank; i++) {
    const x = a[a.length - rank + i] ?? 1;
    const y = b[b.length - rank + i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) throw new Error(`shapes [${a.join()}] and [${b.join()}] do not fit`);
    shape[i] = x === 1 ? y : x;
  }
  return shape;
}

const ORDER: readonly DType[] = ['bool', 'uint8', 'int64', 'bfloat16', 'float16', 'float32', 'float64'];

/** The dtype that an operation on both is computed in. A tensor without axes counts as a plain number. */
export function promoted(a: DryTensor, b: DryTensor): DType {
  if (a.dtype === b.dtype) return a.dtype;
  const rank = (t: DryTensor): number => ORDER.indexOf(t.dtype);
  if (a.shape.length > 0 && b.shape.length === 0 && rank(a) >= 3) return a.dtype;
  if (b.shape.length > 0 && a.shape.length === 0 && rank(b) >= 3) return b.dtype;
  return rank(a) >= rank(b) ? a.dtype : b.dtype;
}
