/**
 * What ATen's operators are made of when there are no elements: results are allocated, and steps of a backward pass are
 * recorded with what they keep. The operators themselves stand in files by family, as functions that are given these
 * kernels; which values they keep follows libtorch's derivative formulas.
 */
import { type DType, ELEMENT_BYTES } from '../engine.ts';
import type { Ledger } from './ledger.ts';
import { count, DryTensor, dense, type Edge, likeStrides, type Shape, type Step } from './tensor.ts';

export type Given = DryTensor | null;
/** Gradients of the inputs from that of the only result. */
export type Backward = (gradient: DryTensor, wanted: readonly boolean[]) => Given[];

export class Kernels {
  readonly ledger: Ledger;
  /** A processor computes operations on two dtypes through a copy of the narrower one. */
  readonly cpu: boolean;
  /** libtorch 2. */
  readonly modern: boolean;
  /** Whether steps are recorded. */
  recording = true;
  /** What the storage that is taken now is booked as. */
  kind = 0;
  #sequence = 0;

  constructor(ledger: Ledger, cpu: boolean, modern: boolean) {
    this.ledger = ledger;
    this.cpu = cpu;
    this.modern = modern;
  }

  empty(shape: Shape, dtype: DType, strides: Shape = dense(shape)): DryTensor {
    const storage = this.ledger.take(count(shape) * ELEMENT_BYTES[dtype], this.kind);
    return new DryTensor(this.ledger, storage, shape, strides, dtype);
  }

  /** A new tensor of the same shape, laid out as an elementwise result is, of which nothing is recorded. */
  like(tensor: DryTensor, dtype: DType = tensor.dtype): DryTensor {
    return this.empty(tensor.shape, dtype, likeStrides(tensor.shape, tensor));
  }

  /** Whether a gradient is wanted of the tensor. */
  tracks(tensor: Given): boolean {
    return this.recording && tensor !== null && tensor.edge !== null;
  }

  /** Records a step from `inputs` to its only result when a gradient is wanted of one of them. */
  record(
    inputs: readonly Given[],
    output: DryTensor,
    saved: readonly Given[],
    backward: Backward,
  ): DryTensor {
    if (this.recording && inputs.some((input) => input !== null && input.edge !== null)) {
      this.recordAll(inputs, [output], saved, ([gradient], wanted) => backward(gradient!, wanted));
    }
    return output;
  }

  /** As `record`, of several results. */
  recordAll(
    inputs: readonly Given[],
    outputs: readonly DryTensor[],
    saved: readonly Given[],
    backward: Step['backward'],
  ): void {
    if (!inputs.some((input) => this.tracks(input))) return;
    const edges = inputs.map((input) => edgeOf(input));
    for (const edge of edges) if (edge !== null) edge.step.refs++;
    const step: Step = {
      sequence: this.#sequence++,
      edges,
      saved: saved.flatMap((tensor) => (tensor === null ? [] : [tensor.view()])),
      backward,
      refs: outputs.length,
    };
    outputs.forEach((output, result) => {
      output.edge = { step, result, shape: output.shape, dtype: output.dtype };
    });
  }

  /** A leaf over the storage of a tensor. */
  leaf(tensor: DryTensor): DryTensor {
    const leaf = tensor.view();
    const step: Step = { sequence: this.#sequence++, edges: [], saved: [], backward: () => [], refs: 1 };
    leaf.edge = { step, result: 0, shape: leaf.shape, dtype: leaf.dtype };
    return leaf;
  }
}

function edgeOf(input: Given): Edge | null {
  if (input === null || input.edge === null) return null;
  const { step, result } = input.edge;
  return { step, result, shape: input.shape, dtype: input.dtype };
}
