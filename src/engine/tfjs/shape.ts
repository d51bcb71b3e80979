/** Views, copies and writes of the tfjs engine. */
import { checkRange } from '../checks.ts';
import type { DType, Tensor } from '../engine.ts';
import { type Heap, isDense, sizeOf, type View } from './heap.ts';
import type { Operations } from './operations.ts';
import { reshaped, type TfjsTensor } from './tape.ts';

/** A checked axis, counted from the front. */
export function axisOf(view: View, axis: number): number {
  const rank = view.shape.length;
  const found = axis < 0 ? axis + rank : axis;
  if (!(Number.isInteger(found) && found >= 0 && found < rank)) {
    throw new Error(`axis ${axis} of ${rank} axes`);
  }
  return found;
}

export function narrowed(view: View, axis: number, start: number, length: number): View {
  const place = axisOf(view, axis);
  const size = view.shape[place]!;
  const first = start < 0 ? start + size : start;
  if (
    !(
      Number.isInteger(first) &&
      Number.isInteger(length) &&
      first >= 0 &&
      length >= 0 &&
      first + length <= size
    )
  ) {
    throw new Error(`entries ${start} to ${start + length} of an axis of size ${size}`);
  }
  return {
    ...view,
    shape: view.shape.with(place, length),
    offset: view.offset + first * view.strides[place]!,
  };
}

export function permuted(view: View, order: readonly number[]): View {
  const axes = order.map((axis) => axisOf(view, axis));
  if (new Set(axes).size !== view.shape.length) {
    throw new Error(`the order must name each of ${view.shape.length} axes once`);
  }
  return {
    ...view,
    shape: axes.map((axis) => view.shape[axis]!),
    strides: axes.map((axis) => view.strides[axis]!),
  };
}

/** The view turned round in its last two axes. */
export function turned(view: View): View {
  const rank = view.shape.length;
  return permuted(view, [...Array.from({ length: rank - 2 }, (_, axis) => axis), rank - 1, rank - 2]);
}

/** A view repeated over new or single axes, by strides of 0. */
export function expanded(view: View, shape: readonly number[]): View {
  const missing = shape.length - view.shape.length;
  const strides = shape.map((size, axis) => {
    const own = view.shape[axis - missing];
    if (own === undefined || (own === 1 && size !== 1)) return 0;
    if (own !== size) throw new Error(`size ${own} does not broadcast to ${size}`);
    return view.strides[axis - missing]!;
  });
  return { ...view, shape, strides };
}

export function reshape(ops: Operations, tensor: Tensor, shape: readonly number[]): TfjsTensor {
  const x = ops.of(tensor, 'reshape');
  return ops.run('reshape', [tensor, shape], () => {
    const count = sizeOf(x.view.shape);
    const known = shape.reduce((product, size) => (size === -1 ? product : product * size), 1);
    if (!shape.every(Number.isInteger)) throw new Error('each size must be an integer');
    const inferred = shape.filter((size) => size === -1).length;
    if (shape.some((size) => size < -1) || inferred > 1)
      throw new Error('a negative size, or two that are to be inferred');
    const full = shape.map((size) => (size === -1 ? count / known : size));
    if (!full.every(Number.isInteger) || sizeOf(full) !== count) {
      throw new Error(`${count} elements do not have this shape`);
    }
    const own = x.view.shape;
    return ops.emit('reshape', [x], [reshaped(ops.heap, x.view, full)], [], ([g]) => [
      reshaped(ops.heap, g!, own),
    ])[0]!;
  });
}

export function permute(ops: Operations, tensor: Tensor, order: readonly number[]): TfjsTensor {
  const x = ops.of(tensor, 'permute');
  return ops.run('permute', [tensor, order], () => {
    const view = permuted(x.view, order);
    const back = order.map((_, axis) => order.findIndex((from) => axisOf(view, from) === axis));
    return ops.emit('permute', [x], [view], [], ([g]) => [permuted(g!, back)])[0]!;
  });
}

/** Zeros of a shape with a gradient in a part of it. */
function inserted(heap: Heap, shape: readonly number[], axis: number, start: number, g: View): View {
  const out = heap.zeros(shape, g.dtype);
  heap.move(narrowed(out, axis, start, g.shape[axis]!), g);
  return out;
}

export function narrow(
  ops: Operations,
  tensor: Tensor,
  axis: number,
  start: number,
  length: number,
): TfjsTensor {
  const x = ops.of(tensor, 'narrow');
  return ops.run('narrow', [tensor, axis, start, length], () => {
    const view = narrowed(x.view, axis, start, length);
    const place = axisOf(x.view, axis);
    const { shape } = x.view;
    const first = start < 0 ? start + shape[place]! : start;
    return ops.emit('narrow', [x], [view], [], ([g]) => [inserted(ops.heap, shape, place, first, g!)])[0]!;
  });
}

/** Beginnings of some parts of an axis, and the end of the last one. */
function boundsOf(sizes: readonly number[]): number[] {
  const bounds = [0];
  for (const size of sizes) bounds.push(bounds.at(-1)! + size);
  return bounds;
}

export function split(ops: Operations, tensor: Tensor, sizes: readonly number[], axis: number): TfjsTensor[] {
  const x = ops.of(tensor, 'split_with_sizes');
  return ops.run('split_with_sizes', [tensor, sizes, axis], () => {
    const { heap } = ops;
    const { shape, dtype } = x.view;
    const place = axisOf(x.view, axis);
    const starts = boundsOf(sizes);
    if (starts.at(-1) !== shape[place]) throw new Error(`the sizes must sum to ${shape[place]}`);
    const views = sizes.map((size, i) => narrowed(x.view, place, starts[i]!, size));
    return ops.emit('split', [x], views, [], (gradients) => {
      const out = gradients.includes(null) ? heap.zeros(shape, dtype) : heap.make(shape, dtype);
      gradients.forEach((g, i) => {
        if (g !== null) heap.move(narrowed(out, place, starts[i]!, sizes[i]!), g);
      });
      return [out];
    });
  });
}

const RANKS: readonly DType[] = ['bool', 'uint8', 'int64', 'float16', 'bfloat16', 'float32', 'float64'];

/** The wider of two dtypes. */
export function wider(a: DType, b: DType): DType {
  return RANKS[Math.max(RANKS.indexOf(a), RANKS.indexOf(b))]!;
}

export function concat(ops: Operations, tensors: readonly Tensor[], axis: number): TfjsTensor {
  const parts = tensors.map((tensor) => ops.of(tensor, 'cat'));
  return ops.run('cat', [tensors, axis], () => {
    const { heap } = ops;
    const first = parts[0]?.view;
    if (first === undefined) throw new Error('no tensors to join');
    const place = axisOf(first, axis);
    for (const { view } of parts) {
      const fits =
        view.shape.length === first.shape.length &&
        view.shape.every((n, i) => i === place || n === first.shape[i]);
      if (!fits) throw new Error('sizes may differ along the joined axis alone');
    }
    const dtype = parts.reduce((widest, { view }) => wider(widest, view.dtype), first.dtype);
    const sizes = parts.map(({ view }) => view.shape[place]!);
    const starts = boundsOf(sizes);
    const out = heap.make(first.shape.with(place, starts.at(-1)!), dtype);
    parts.forEach(({ view }, i) => {
      heap.move(narrowed(out, place, starts[i]!, sizes[i]!), heap.cast(view, dtype));
    });
    return ops.emit('concat', parts, [out], [], ([g]) =>
      parts.map(({ view }, i) => heap.cast(narrowed(g!, place, starts[i]!, sizes[i]!), view.dtype)),
    )[0]!;
  });
}

/** Checked rows of an axis of `size`: a dense int64 view [K]. */
function rowsOf(heap: Heap, index: View, size: number): View {
  if (index.dtype !== 'int64' || index.shape.length !== 1) throw new Error('the index must be int64 [K]');
  const dense = heap.dense(index);
  for (const row of heap.raw(dense)) {
    if (row < 0 || row >= size) throw new Error(`index ${row} is out of bounds for an axis of size ${size}`);
  }
  return dense;
}

/** Rows of a dense view [R, …] of any dtype, copied. */
function gathered(heap: Heap, x: View, index: View): View {
  const out = heap.make([index.shape[0]!, ...x.shape.slice(1)], x.dtype);
  const width = sizeOf(x.shape.slice(1));
  if (x.dtype === 'float32' || x.dtype === 'int64') {
    heap.kernels.gatherRows(heap.address(out), heap.address(x), heap.address(index), index.shape[0]!, width);
  } else {
    const [from, to, rows] = [heap.raw(x), heap.raw(out), heap.raw(index)];
    rows.forEach((row: number, i: number) => {
      to.set(from.subarray(row * width, (row + 1) * width), i * width);
    });
  }
  return out;
}

/** Sums rows of a gradient into the rows that `index` names. */
function scattered(heap: Heap, shape: readonly number[], g: View, index: View): View {
  const out = heap.zeros(shape, g.dtype);
  const dense = heap.dense(g);
  const width = sizeOf(shape.slice(1));
  if (g.dtype === 'float32') {
    heap.kernels.scatterRows(
      heap.address(out),
      heap.address(dense),
      heap.address(index),
      index.shape[0]!,
      width,
    );
  } else {
    const [from, to, rows] = [heap.raw(dense), heap.raw(out), heap.raw(index)];
    from.forEach((value: number, i: number) => {
      to[rows[Math.floor(i / width)]! * width + (i % width)]! += value;
    });
  }
  return out;
}

export function indexSelect(ops: Operations, tensor: Tensor, index: Tensor): TfjsTensor {
  const [x, at] = [ops.of(tensor, 'index_select'), ops.of(index, 'index_select')];
  return ops.run('index_select', [tensor, 0, index], () => {
    const { heap } = ops;
    const { shape } = x.view;
    const rows = rowsOf(heap, at.view, shape[0] ?? 0);
    const out = gathered(heap, heap.dense(x.view), rows);
    return ops.emit('indexSelect', [x], [out], [rows], ([g]) => [scattered(heap, shape, g!, rows)])[0]!;
  });
}

export function indexCopy(ops: Operations, tensor: Tensor, index: Tensor, source: Tensor): TfjsTensor {
  const [x, at, from] = [tensor, index, source].map((given) => ops.of(given, 'index_copy')) as [
    TfjsTensor,
    TfjsTensor,
    TfjsTensor,
  ];
  return ops.run('index_copy', [tensor, 0, index, source], () => {
    const { heap } = ops;
    const rows = rowsOf(heap, at.view, x.view.shape[0] ?? 0);
    const out = heap.copy(x.view);
    place(heap, out, 0, rows, from.view);
    return ops.emit('indexCopy', [x, null, from], [out], [rows], ([g], [wantsX, , wantsSource]) => {
      const rest = wantsX ? heap.copy(g!) : null;
      if (rest !== null) {
        place(heap, rest, 0, rows, expanded(heap.zeros([1], g!.dtype), from.view.shape));
      }
      return [rest, null, wantsSource ? gathered(heap, heap.dense(g!), rows) : null];
    })[0]!;
  });
}

/** Writes the entries of `source` along `axis` to the places `index` of `target`. */
function place(heap: Heap, target: View, axis: number, index: View, source: View): void {
  const wanted = target.shape.with(axis, index.shape[0]!);
  if (wanted.join() !== source.shape.join()) throw new Error(`the source must be [${wanted}]`);
  const same = heap.cast(source, target.dtype);
  Array.from(heap.raw(index)).forEach((to, i) => {
    heap.move(narrowed(target, axis, to, 1), narrowed(same, axis, i, 1));
  });
}

/** Replaces, or with `add` adds to, the range of `tensor` that `source` covers, in place. */
export function onRange(
  ops: Operations,
  where: 'write' | 'addInto',
  tensor: Tensor,
  axis: number,
  start: number,
  source: Tensor,
): void {
  const [to, from] = [ops.of(tensor, where), ops.of(source, where)];
  const length = source.shape.at(axis) ?? 1;
  const target = ops.run('narrow', [tensor, axis, start, length], () =>
    narrowed(to.view, axis, start, length),
  );
  ops.run(where, [tensor, axis, start, source], () => {
    const { heap } = ops;
    checkRange(where, { ...target }, source);
    const { dtype } = target;
    if (where === 'write') heap.move(target, heap.cast(from.view, dtype));
    else if (dtype !== 'float32' && dtype !== 'float64') throw new Error(`cannot add to ${dtype}`);
    else {
      const sum = isDense(target) ? target : heap.copy(target);
      const other = heap.dense(heap.cast(from.view, dtype));
      const count = sizeOf(target.shape);
      if (dtype === 'float32')
        heap.kernels.binary(0, heap.address(sum), heap.address(sum), heap.address(other), count);
      else {
        const [x, y] = [heap.raw(sum), heap.raw(other)];
        for (let i = 0; i < count; i++) x[i]! += y[i]!;
      }
      if (sum !== target) heap.move(target, sum);
    }
    heap.wrote(target);
  });
}

export function indexCopyInto(
  ops: Operations,
  tensor: Tensor,
  axis: number,
  index: Tensor,
  source: Tensor,
): void {
  const [to, at, from] = [tensor, index, source].map((given) => ops.of(given, 'indexCopyInto')) as [
    TfjsTensor,
    TfjsTensor,
    TfjsTensor,
  ];
  ops.run('index_copy_', [tensor, axis, index, source], () => {
    const along = axisOf(to.view, axis);
    place(ops.heap, to.view, along, rowsOf(ops.heap, at.view, to.view.shape[along]!), from.view);
    ops.heap.wrote(to.view);
  });
}
