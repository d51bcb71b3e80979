/**
 * ATen's operators without elements: the results that they allocate, what they keep for their gradient, and what the
 * gradient allocates. Keeping follows libtorch's derivative formulas: a product keeps both factors (each where the other
 * one's gradient is wanted), a softmax its result, a sum nothing; views keep their base alive.
 */
import { type DType, ELEMENT_BYTES } from '../engine.ts';
import type { Ledger } from './ledger.ts';
import {
  broadcast,
  count,
  DryTensor,
  dense,
  type Edge,
  likeStrides,
  promoted,
  type Shape,
  type Step,
  viewStrides,
} from './tensor.ts';

type Given = DryTensor | null;
/** Gradients of the inputs from that of the only result. */
type Backward = (gradient: DryTensor, wanted: readonly boolean[]) => Given[];

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

  // ---- allocation ------------------------------------------------------------------------------------

  empty(shape: Shape, dtype: DType, strides: Shape = dense(shape)): DryTensor {
    const storage = this.ledger.take(count(shape) * ELEMENT_BYTES[dtype], this.kind);
    return new DryTensor(this.ledger, storage, shape, strides, dtype);
  }

  /** Records a step from `inputs` to `outputs` when a gradient is wanted of one of them. */
  #record(
    inputs: readonly Given[],
    outputs: readonly DryTensor[],
    saved: readonly Given[],
    backward: Step['backward'],
  ): void {
    if (!this.tracks(...inputs)) return;
    const edges = inputs.map((input) => this.#edgeOf(input));
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

  #edgeOf(input: Given): Edge | null {
    if (input === null || input.edge === null) return null;
    return { ...input.edge, shape: input.shape, dtype: input.dtype };
  }

  /** Whether a gradient is wanted of one of them. */
  tracks(...tensors: readonly Given[]): boolean {
    return this.recording && tensors.some((tensor) => tensor !== null && tensor.edge !== null);
  }

  record(
    inputs: readonly Given[],
    output: DryTensor,
    saved: readonly Given[],
    backward: Backward,
  ): DryTensor {
    this.#record(inputs, [output], saved, ([gradient], wanted) => backward(gradient!, wanted));
    return output;
  }

  /** A leaf over the storage of a tensor. */
  leaf(tensor: DryTensor): DryTensor {
    const leaf = tensor.view();
    const step: Step = { sequence: this.#sequence++, edges: [], saved: [], backward: () => [], refs: 1 };
    leaf.edge = { step, result: 0, shape: leaf.shape, dtype: leaf.dtype };
    return leaf;
  }

  // ---- views -----------------------------------------------------------------------------------------

  #view(tensor: DryTensor, shape: Shape, strides: Shape, backward: Backward): DryTensor {
    const view = tensor.view(shape, strides);
    view.derived = true;
    return this.record([tensor], view, [], backward);
  }

  reshape(tensor: DryTensor, wanted: Shape): DryTensor {
    const known = wanted.reduce((product, size) => (size === -1 ? product : product * size), 1);
    const shape = wanted.map((size) => (size === -1 ? tensor.size / known : size));
    if (count(shape) !== tensor.size) {
      throw new Error(`shape [${shape.join()}] is invalid for input of size ${tensor.size}`);
    }
    const back: Backward = (gradient) => [this.reshape(gradient, tensor.shape)];
    const strides = viewStrides(tensor, shape);
    if (strides !== null) return this.#view(tensor, shape, strides, back);
    return this.record([tensor], this.empty(shape, tensor.dtype), [], back);
  }

  permute(tensor: DryTensor, order: readonly number[]): DryTensor {
    const back = order.map((_, axis) => order.indexOf(axis));
    return this.#view(
      tensor,
      order.map((axis) => tensor.shape[axis]!),
      order.map((axis) => tensor.strides[axis]!),
      (gradient) => [this.permute(gradient, back)],
    );
  }

  transpose(tensor: DryTensor, a: number, b: number): DryTensor {
    const order = tensor.shape.map((_, axis) => (axis === a ? b : axis === b ? a : axis));
    return this.permute(tensor, order);
  }

  /** The gradient of a cut is zeros of the whole with the cut's gradient in its place. */
  narrow(tensor: DryTensor, axis: number, length: number): DryTensor {
    const at = axis < 0 ? axis + tensor.shape.length : axis;
    const shape = tensor.shape.map((size, i) => (i === at ? length : size));
    if (length > tensor.shape[at]! || length < 0) {
      throw new Error(`length ${length} exceeds dimension size ${tensor.shape[at]}`);
    }
    return this.#view(tensor, shape, tensor.strides, () => [this.empty(tensor.shape, tensor.dtype)]);
  }

  split(tensor: DryTensor, sizes: readonly number[], axis: number): DryTensor[] {
    const parts = sizes.map((size) =>
      tensor.view(
        tensor.shape.map((whole, i) => (i === axis ? size : whole)),
        tensor.strides,
      ),
    );
    this.#record([tensor], parts, [], (given) => {
      const whole = given.map((gradient, i) => gradient ?? this.empty(parts[i]!.shape, tensor.dtype));
      const joined = this.empty(tensor.shape, tensor.dtype);
      whole.forEach((part, i) => {
        if (given[i] === null) part.release();
      });
      return [joined];
    });
    return parts;
  }

  expand(tensor: DryTensor, shape: Shape): DryTensor {
    const lead = shape.length - tensor.shape.length;
    const strides = shape.map((size, i) =>
      i < lead || (tensor.shape[i - lead] === 1 && size !== 1) ? 0 : tensor.strides[i - lead]!,
    );
    return this.#view(tensor, shape, strides, (gradient) => [this.summed(gradient, tensor.shape)]);
  }

  unsqueeze(tensor: DryTensor, axis: number): DryTensor {
    const shape = [...tensor.shape.slice(0, axis), 1, ...tensor.shape.slice(axis)];
    const step = axis < tensor.shape.length ? tensor.shape[axis]! * tensor.strides[axis]! : 1;
    const strides = [...tensor.strides.slice(0, axis), step, ...tensor.strides.slice(axis)];
    return this.#view(tensor, shape, strides, (gradient) => [this.reshape(gradient, tensor.shape)]);
  }

  squeeze(tensor: DryTensor, axis: number): DryTensor {
    const without = (values: Shape): number[] => values.filter((_, i) => i !== axis);
    return this.#view(tensor, without(tensor.shape), without(tensor.strides), (gradient) => [
      this.unsqueeze(gradient, axis),
    ]);
  }

  // ---- copies ----------------------------------------------------------------------------------------

  contiguous(tensor: DryTensor): DryTensor {
    const back: Backward = (gradient) => [gradient.view()];
    if (tensor.contiguous) return this.#view(tensor, tensor.shape, tensor.strides, back);
    return this.record([tensor], this.empty(tensor.shape, tensor.dtype), [], back);
  }

  clone(tensor: DryTensor): DryTensor {
    const strides = likeStrides(tensor.shape, tensor);
    return this.record([tensor], this.empty(tensor.shape, tensor.dtype, strides), [], (gradient) => [
      gradient.view(),
    ]);
  }

  cast(tensor: DryTensor, dtype: DType): DryTensor {
    if (tensor.dtype === dtype) {
      return this.#view(tensor, tensor.shape, tensor.strides, (gradient) => [gradient.view()]);
    }
    const out = this.empty(tensor.shape, dtype, likeStrides(tensor.shape, tensor));
    return this.record([tensor], out, [], (gradient) => [this.cast(gradient, tensor.dtype)]);
  }

  /** Sums a gradient over the axes that were broadcast. */
  summed(tensor: DryTensor, shape: Shape): DryTensor {
    if (tensor.shape.join() === shape.join()) return tensor.view();
    return this.empty(shape, tensor.dtype);
  }

  cat(tensors: readonly DryTensor[], axis: number): DryTensor {
    const at = axis < 0 ? axis + tensors[0]!.shape.length : axis;
    const shape = [...tensors[0]!.shape];
    shape[at] = tensors.reduce((sum, tensor) => sum + tensor.shape[at]!, 0);
    return this.record(tensors, this.empty(shape, tensors[0]!.dtype), [], (gradient, wanted) =>
      tensors.map((tensor, i) => {
        if (!wanted[i]) return null;
        const part = gradient.view(tensor.shape, gradient.strides);
        part.derived = true;
        return part;
      }),
    );
  }

  /** The gradient is as large as the whole, whatever was taken from it. */
  rows(tensor: DryTensor, index: DryTensor): DryTensor {
    const out = this.empty([index.size, ...tensor.shape.slice(1)], tensor.dtype);
    return this.record([tensor], out, [index], () => {
      const whole = this.empty(tensor.shape, tensor.dtype);
      // Rows of 16 bits are added up in float32.
      if (this.cpu && this.modern && tensor.dtype === 'bfloat16') this.map(tensor, 'float32').release();
      return [whole];
    });
  }

  placeRows(tensor: DryTensor, index: DryTensor, source: DryTensor): DryTensor {
    return this.record([tensor, source], this.empty(tensor.shape, tensor.dtype), [index], (_, wanted) => [
      wanted[0] ? this.empty(tensor.shape, tensor.dtype) : null,
      wanted[1] ? this.empty(source.shape, source.dtype) : null,
    ]);
  }

  gather(tensor: DryTensor, index: DryTensor): DryTensor {
    return this.record([tensor], this.empty(index.shape, tensor.dtype), [index], () => [
      this.empty(tensor.shape, tensor.dtype),
    ]);
  }

  // ---- arithmetic ------------------------------------------------------------------------------------

  /** The result of an elementwise operation on two tensors, whatever is kept of them. */
  #pair(a: DryTensor, b: DryTensor): DryTensor {
    const dtype = promoted(a, b);
    const shape = broadcast(a.shape, b.shape);
    const copies = this.cpu ? [a, b].filter((t) => t.dtype !== dtype && t.shape.length > 0) : [];
    const held = copies.map((t) => this.empty(t.shape, dtype));
    const model = a.size >= b.size ? a : b;
    const out = this.empty(shape, dtype, likeStrides(shape, model));
    for (const copy of held) copy.release();
    return out;
  }

  /** a + b, a − b: nothing is kept, and the gradient passes on as it is, or negated. */
  add(a: DryTensor, b: DryTensor, negated = false): DryTensor {
    return this.record([a, b], this.#pair(a, b), [], (gradient, wanted) => [
      wanted[0] ? gradient.view() : null,
      wanted[1] ? (negated ? this.map(gradient) : gradient.view()) : null,
    ]);
  }

  mul(a: DryTensor, b: DryTensor): DryTensor {
    const saved = [this.tracks(b) ? a.view() : null, this.tracks(a) ? b.view() : null];
    const [left, right] = saved as [Given, Given];
    const out = this.record([a, b], this.#pair(a, b), saved, (gradient, wanted) => [
      wanted[0] ? this.#pair(gradient, right!) : null,
      wanted[1] ? this.#pair(gradient, left!) : null,
    ]);
    for (const one of saved) one?.release();
    return out;
  }

  /** As `mul`; the gradient of the divisor goes through one more tensor. */
  div(a: DryTensor, b: DryTensor): DryTensor {
    return this.record([a, b], this.#pair(a, b), [this.tracks(b) ? a : null, b], (gradient, wanted) => {
      const first = wanted[0] ? this.#pair(gradient, b) : null;
      if (!wanted[1]) return [first, null];
      const square = this.#pair(gradient, a);
      const second = this.#pair(square, b);
      square.release();
      return [first, second];
    });
  }

  minimum(a: DryTensor, b: DryTensor): DryTensor {
    return this.record([a, b], this.#pair(a, b), [a, b], (gradient, wanted) =>
      wanted.map((one) => (one ? this.map(gradient) : null)),
    );
  }

  /** A new tensor of the same shape, of which nothing is recorded. */
  map(tensor: DryTensor, dtype: DType = tensor.dtype): DryTensor {
    return this.empty(tensor.shape, dtype, likeStrides(tensor.shape, tensor));
  }

  /** Elementwise; `keeps`: its argument, its result or nothing. */
  unary(tensor: DryTensor, keeps: 'input' | 'output' | 'nothing', backward?: Backward): DryTensor {
    const out = this.map(tensor);
    const saved = keeps === 'input' ? [tensor] : keeps === 'output' ? [out] : [];
    return this.record([tensor], out, saved, backward ?? ((gradient) => [this.map(gradient)]));
  }

  /** Sums over `axes`, of all when absent; the gradient is the sum's, expanded. */
  sum(tensor: DryTensor, axes?: readonly number[], keep = false): DryTensor {
    const rank = tensor.shape.length;
    const over = new Set(
      (axes ?? tensor.shape.map((_, i) => i)).map((axis) => (axis < 0 ? axis + rank : axis)),
    );
    const kept = tensor.shape.map((size, i) => (over.has(i) ? 1 : size));
    const shape = keep ? kept : tensor.shape.filter((_, i) => !over.has(i));
    return this.record([tensor], this.empty(shape, tensor.dtype), [], (gradient) => {
      const open = this.reshape(gradient, kept);
      const wide = this.expand(open, tensor.shape);
      open.release();
      return [wide];
    });
  }

  /** New, but held as a view of itself. */
  #derived(like: DryTensor): DryTensor {
    const out = this.empty(like.shape, like.dtype);
    out.derived = true;
    return out;
  }

  // ---- products --------------------------------------------------------------------------------------

  /** A processor arranges matrices of 16 bits anew for its products. */
  #arranged(weight: DryTensor): void {
    if (this.cpu && weight.dtype === 'bfloat16') this.map(weight).release();
  }

  /** x [..., I] · weightᵀ [O, I] + bias. The weight's gradient is that of its transpose, transposed. */
  linear(x: DryTensor, weight: DryTensor, bias: Given): DryTensor {
    const out = this.empty([...x.shape.slice(0, -1), weight.shape[0]!], x.dtype);
    this.#arranged(weight);
    const saved = [this.tracks(weight) ? x : null, this.tracks(x) ? weight : null];
    return this.record([x, weight, bias], out, saved, (_, wanted) => {
      const gradients = [
        wanted[0] ? this.empty(x.shape, x.dtype) : null,
        wanted[1] ? this.#derived(weight) : null,
        wanted[2] ? this.empty(bias!.shape, bias!.dtype) : null,
      ];
      this.#arranged(weight);
      return gradients;
    });
  }

  /** Products of matrices, batch by batch: [N, R, K] · [N, K, C]; with `scale` its gradients are scaled by one more pass. */
  products(a: DryTensor, b: DryTensor, scale = 1): DryTensor {
    const [n, rows] = a.shape as [number, number];
    const out = this.empty([n, rows, b.shape[2]!], a.dtype);
    const saved = [this.tracks(b) ? a : null, this.tracks(a) ? b : null];
    const back = (like: DryTensor): DryTensor => {
      const plain = this.empty(like.shape, like.dtype);
      if (scale === 1) return plain;
      const scaled = this.map(plain);
      plain.release();
      return scaled;
    };
    return this.record([a, b], out, saved, (_, wanted) => [
      wanted[0] ? back(a) : null,
      wanted[1] ? back(b) : null,
    ]);
  }

  /** As ATen's: batches of matrices are flattened, by copying where their strides ask for it. */
  matmul(a: DryTensor, b: DryTensor): DryTensor {
    if (a.shape.length <= 2 && b.shape.length <= 2) {
      if (a.shape.length !== 2 || b.shape.length !== 2) throw new Error('matmul of vectors');
      const out = this.empty([a.shape[0]!, b.shape[1]!], a.dtype);
      const saved = [this.tracks(b) ? a : null, this.tracks(a) ? b : null];
      return this.record([a, b], out, saved, (_, wanted) =>
        [a, b].map((one, i) => (wanted[i] ? this.empty(one.shape, one.dtype) : null)),
      );
    }
    const batch = broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2));
    const flat = (x: DryTensor): DryTensor => {
      const inner = x.shape.slice(-2);
      const wide = this.expand(x, [...batch, ...inner]);
      const out = this.reshape(wide, [count(batch), ...inner]);
      wide.release();
      return out;
    };
    const [left, right] = [flat(a), flat(b)];
    const out = this.products(left, right);
    left.release();
    right.release();
    const shaped = this.reshape(out, [...batch, a.shape.at(-2)!, b.shape.at(-1)!]);
    out.release();
    return shaped;
  }
}
