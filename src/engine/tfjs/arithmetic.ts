/**
 * Arithmetic of the tfjs engine, with broadcasting as in NumPy: float32 by kernels, float64 and integers by plain loops. Gradients are
 * composed of the same functions of views.
 */
import type { DType, Tensor } from '../engine.ts';
import { type Heap, sizeOf, type View } from './heap.ts';
import type { Operations } from './operations.ts';
import { axisOf, expanded, turned, wider } from './shape.ts';
import { reshaped, type TfjsTensor } from './tape.ts';

const BINARY = ['add', 'sub', 'mul', 'div'] as const;
export type Binary = (typeof BINARY)[number];

const PLAIN: Readonly<Record<Binary, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
};

const isFloat = (dtype: DType): boolean => dtype === 'float32' || dtype === 'float64';

/** Throws for the types of 16 bits, which are stored only. */
function checkComputed(dtype: DType): void {
  if (dtype !== 'bfloat16' && dtype !== 'float16') return;
  throw new Error(`the tfjs engine computes in float32, not ${dtype}; cast it first`);
}

export function broadcast(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const [x, y] = [a[axis - rank + a.length] ?? 1, b[axis - rank + b.length] ?? 1];
    if (x !== y && x !== 1 && y !== 1) throw new Error(`size ${x} does not broadcast with size ${y}`);
    return x === 1 ? y : x;
  });
}

/** f of each element; arguments and result of one shape. */
function mapped(heap: Heap, dtype: DType, x: View, f: (value: number) => number): View {
  const source = heap.dense(x);
  if (!isFloat(dtype)) return heap.from(Float64Array.from(heap.numbers(source), f), x.shape, dtype);
  const out = heap.make(x.shape, dtype);
  const [from, to] = [heap.numbers(source), heap.raw(out)];
  for (let i = 0; i < to.length; i++) to[i] = f(from[i]!);
  return out;
}

/** f of pairs of elements, broadcast. */
function paired(heap: Heap, dtype: DType, a: View, b: View, f: (x: number, y: number) => number): View {
  const shape = broadcast(a.shape, b.shape);
  const [left, right] = [a, b].map((view) => heap.dense(expanded(view, shape))) as [View, View];
  const out = isFloat(dtype) ? heap.make(shape, dtype) : null;
  const [x, y] = [heap.numbers(left), heap.numbers(right)];
  const to = out === null ? new Float64Array(sizeOf(shape)) : heap.raw(out);
  for (let i = 0; i < to.length; i++) to[i] = f(x[i]!, y[i]!);
  return out ?? heap.from(to, shape, dtype);
}

/** a op b of views, or of a view and a number. */
export function combine(heap: Heap, op: Binary, a: View, b: View | number): View {
  checkComputed(a.dtype);
  if (typeof b === 'number') {
    const whole = !isFloat(a.dtype) && op !== 'div' && Number.isInteger(b);
    const dtype = isFloat(a.dtype) ? a.dtype : whole ? 'int64' : 'float32';
    if (a.dtype !== 'float32') return mapped(heap, dtype, a, (x) => PLAIN[op](x, b));
    const [scale, shift] = { add: [1, b], sub: [1, -b], mul: [b, 0], div: [1 / b, 0] }[op] as [
      number,
      number,
    ];
    const source = heap.dense(a);
    const out = heap.make(a.shape);
    heap.kernels.affine(heap.address(out), heap.address(source), scale, shift, sizeOf(a.shape));
    return out;
  }
  checkComputed(b.dtype);
  const wide = wider(a.dtype, b.dtype);
  const dtype = isFloat(wide) ? wide : op === 'div' ? 'float32' : 'int64';
  if (a.dtype !== 'float32' || b.dtype !== 'float32') return paired(heap, dtype, a, b, PLAIN[op]);
  const shape = broadcast(a.shape, b.shape);
  const [left, right] = [a, b].map((view) => heap.dense(expanded(view, shape))) as [View, View];
  const out = heap.make(shape);
  const addresses = [out, left, right].map((view) => heap.address(view));
  heap.kernels.binary(BINARY.indexOf(op), ...addresses, sizeOf(shape));
  return out;
}

/** Sums over the axes along which `shape` was broadcast, and returns to its dtype. */
export function sumTo(heap: Heap, view: View, shape: readonly number[], dtype: DType = view.dtype): View {
  let sum = view;
  while (sum.shape.length > shape.length) sum = summed(heap, sum, 0);
  for (const [axis, size] of shape.entries()) {
    if (size === sum.shape[axis]) continue;
    sum = reshaped(heap, summed(heap, sum, axis), sum.shape.with(axis, 1));
  }
  return heap.cast(sum, dtype);
}

export function binary(ops: Operations, op: Binary, a: Tensor, b: Tensor | number): TfjsTensor {
  const name = `${op}.${typeof b === 'number' ? 'Scalar' : 'Tensor'}`;
  const x = ops.of(a, name);
  const { heap } = ops;
  if (typeof b === 'number') {
    return ops.run(name, [a, b], () => {
      const out = combine(heap, op, x.view, b);
      const back = op === 'mul' || op === 'div' ? op : null;
      return ops.emit(op, [x], [out], [], ([g]) => [back === null ? g! : combine(heap, back, g!, b)])[0]!;
    });
  }
  // The error of a right operand names the left one too, as the operator's own would.
  const y = ops.of(b, name);
  return ops.run(name, [a, b], () => {
    const [left, right] = [x.view, y.view];
    const out = combine(heap, op, left, right);
    const saved = op === 'mul' || op === 'div' ? [left, right] : [];
    return ops.emit(op, [x, y], [out], saved, ([g], [wantsX, wantsY]) => {
      const forX = (): View => (op === 'mul' || op === 'div' ? combine(heap, op, g!, right) : g!);
      const forY = (): View => {
        if (op === 'add') return g!;
        if (op === 'sub') return combine(heap, 'mul', g!, -1);
        if (op === 'mul') return combine(heap, 'mul', g!, left);
        const ratio = combine(heap, 'div', combine(heap, 'div', left, right), right);
        return combine(heap, 'mul', combine(heap, 'mul', g!, ratio), -1);
      };
      return [
        wantsX ? sumTo(heap, forX(), left.shape, left.dtype) : null,
        wantsY ? sumTo(heap, forY(), right.shape, right.dtype) : null,
      ];
    })[0]!;
  });
}

export function minimum(ops: Operations, a: Tensor, b: Tensor): TfjsTensor {
  const [x, y] = [ops.of(a, 'minimum'), ops.of(b, 'minimum')];
  return ops.run('minimum', [a, b], () => {
    const { heap } = ops;
    const [left, right] = [x.view, y.view];
    const dtype = wider(left.dtype, right.dtype);
    checkComputed(dtype);
    const out = paired(heap, dtype, left, right, Math.min);
    return ops.emit('minimum', [x, y], [out], [left, right], ([g]) => {
      const share = (own: View, other: View): View => {
        const part = paired(heap, dtype, own, other, (p, q) => (p < q ? 1 : p === q ? 0.5 : 0));
        return sumTo(heap, combine(heap, 'mul', g!, part), own.shape, own.dtype);
      };
      return [share(left, right), share(right, left)];
    })[0]!;
  });
}

/** An operation on each element of a float tensor, with its derivative by argument and value. */
function unary(
  ops: Operations,
  name: string,
  values: readonly unknown[],
  f: (x: View) => View,
  slope: (x: number, y: number) => number,
): TfjsTensor {
  const x = ops.of(values[0] as Tensor, name);
  return ops.run(name, values, () => {
    const { heap } = ops;
    checkComputed(x.view.dtype);
    const source = x.view;
    const out = f(source);
    return ops.emit(name, [x], [out], [source, out], ([g]) => [
      combine(heap, 'mul', g!, paired(heap, out.dtype, source, out, slope)),
    ])[0]!;
  });
}

export function clamp(ops: Operations, a: Tensor, lo: number, hi: number): TfjsTensor {
  return unary(
    ops,
    'clamp',
    [a, lo, hi],
    (x) => mapped(ops.heap, x.dtype, x, (v) => Math.max(lo, Math.min(hi, v))),
    (x) => (x >= lo && x <= hi ? 1 : 0),
  );
}

export function exp(ops: Operations, a: Tensor): TfjsTensor {
  const { heap } = ops;
  const computed = (x: View): View => {
    if (x.dtype !== 'float32') return mapped(heap, isFloat(x.dtype) ? x.dtype : 'float32', x, Math.exp);
    const source = heap.dense(x);
    const out = heap.make(x.shape);
    heap.kernels.exponential(heap.address(out), heap.address(source), sizeOf(x.shape));
    return out;
  };
  return unary(ops, 'exp', [a], computed, (_, y) => y);
}

/** A view as [outer, n, inner] round an axis. */
function round(view: View, axis: number): { outer: number; n: number; inner: number } {
  const { shape } = view;
  return { outer: sizeOf(shape.slice(0, axis)), n: shape[axis]!, inner: sizeOf(shape.slice(axis + 1)) };
}

function summed(heap: Heap, view: View, axis: number): View {
  const { outer, n, inner } = round(view, axis);
  const shape = view.shape.toSpliced(axis, 1);
  const source = heap.dense(view);
  if (view.dtype === 'float32') {
    const out = heap.make(shape);
    heap.kernels.sumAxis(heap.address(out), heap.address(source), outer, n, inner);
    return out;
  }
  const sums = new Float64Array(outer * inner);
  const from = heap.numbers(source);
  for (let o = 0; o < outer; o++) {
    for (let k = 0; k < n; k++) {
      for (let i = 0; i < inner; i++) sums[o * inner + i]! += from[(o * n + k) * inner + i]!;
    }
  }
  return heap.from(sums, shape, view.dtype === 'float64' ? 'float64' : 'int64');
}

export function sum(ops: Operations, a: Tensor, axis?: number): TfjsTensor {
  const name = axis === undefined ? 'sum' : 'sum.dim_IntList';
  const x = ops.of(a, name);
  return ops.run(name, axis === undefined ? [a] : [a, [axis]], () => {
    const { heap } = ops;
    const { view } = x;
    checkComputed(view.dtype);
    const all = axis === undefined;
    const flat = all ? reshaped(heap, view, [sizeOf(view.shape)]) : view;
    const along = all ? 0 : axisOf(view, axis);
    return ops.emit('sum', [x], [summed(heap, flat, along)], [], ([g]) => [
      expanded(all ? g! : reshaped(heap, g!, view.shape.with(along, 1)), view.shape),
    ])[0]!;
  });
}

export function norm(ops: Operations, a: Tensor): TfjsTensor {
  const x = ops.of(a, 'linalg_vector_norm');
  return ops.run('linalg_vector_norm', [a], () => {
    const { heap } = ops;
    const { view } = x;
    if (!isFloat(view.dtype)) throw new Error(`no norm of ${view.dtype}`);
    const source = heap.dense(view);
    const columns = view.shape.at(-1) ?? 1;
    const out = heap.make(view.shape.slice(0, -1), view.dtype);
    const rows = sizeOf(out.shape);
    if (view.dtype === 'float32')
      heap.kernels.normRows(heap.address(out), heap.address(source), rows, columns);
    else {
      const [from, to] = [heap.raw(source), heap.raw(out)];
      for (let r = 0; r < rows; r++) {
        let squares = 0;
        for (let i = 0; i < columns; i++) squares += from[r * columns + i]! ** 2;
        to[r] = Math.sqrt(squares);
      }
    }
    const single = [...out.shape, 1];
    return ops.emit('norm', [x], [out], [source, out], ([g]) => {
      const factor = paired(heap, view.dtype, g!, out, (p, q) => (q === 0 ? 0 : p / q));
      return [combine(heap, 'mul', source, reshaped(heap, factor, single))];
    })[0]!;
  });
}

/** log Σ exp over an axis: [outer, n, inner] → [outer, inner], with the sums' largest terms taken out. */
function logSums(from: ArrayLike<number>, outer: number, n: number, inner: number): Float64Array {
  const out = new Float64Array(outer * inner);
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < inner; i++) {
      const first = o * n * inner + i;
      let most = Number.NEGATIVE_INFINITY;
      for (let k = 0; k < n; k++) most = Math.max(most, from[first + k * inner]!);
      const level = most === Number.NEGATIVE_INFINITY ? 0 : most;
      let total = 0;
      for (let k = 0; k < n; k++) total += Math.exp(from[first + k * inner]! - level);
      out[o * inner + i] = level + Math.log(total);
    }
  }
  return out;
}

export function logSumExp(ops: Operations, a: Tensor, axis: number): TfjsTensor {
  const x = ops.of(a, 'logsumexp');
  return ops.run('logsumexp', [a, [axis]], () => {
    const { heap } = ops;
    const { view } = x;
    checkComputed(view.dtype);
    const along = axisOf(view, axis);
    const { outer, n, inner } = round(view, along);
    const sums = logSums(heap.numbers(view), outer, n, inner);
    const out = heap.from(sums, view.shape.toSpliced(along, 1), view.dtype);
    return ops.emit('logSumExp', [x], [out], [view, out], ([g]) => {
      const single = (of: View): View => reshaped(heap, of, view.shape.with(along, 1));
      const shares = paired(heap, view.dtype, view, single(out), (p, q) => Math.exp(p - q));
      return [combine(heap, 'mul', shares, single(g!))];
    })[0]!;
  });
}

export function logSoftmax(ops: Operations, a: Tensor): TfjsTensor {
  const x = ops.of(a, 'log_softmax.int');
  return ops.run('log_softmax.int', [a, -1], () => {
    const { heap } = ops;
    const { view } = x;
    checkComputed(view.dtype);
    const last = axisOf(view, -1);
    const { outer, n } = round(view, last);
    const single = view.shape.with(last, 1);
    const sums = heap.from(logSums(heap.numbers(view), outer, n, 1), single, view.dtype);
    const out = combine(heap, 'sub', view, sums);
    return ops.emit('logSoftmax', [x], [out], [out], ([g]) => {
      const total = reshaped(heap, summed(heap, g!, last), single);
      return [combine(heap, 'sub', g!, combine(heap, 'mul', mapped(heap, out.dtype, out, Math.exp), total))];
    })[0]!;
  });
}

/** Product of the last two axes, broadcast over those before. */
function product(heap: Heap, a: View, b: View): View {
  const [m, k] = a.shape.slice(-2) as [number, number];
  const n = b.shape.at(-1)!;
  // One matrix on the right: the rows of all batches stand together.
  if (b.shape.length === 2 && a.shape.length > 2) {
    const rows = reshaped(heap, a, [sizeOf(a.shape.slice(0, -1)), k]);
    return reshaped(heap, product(heap, rows, b), [...a.shape.slice(0, -1), n]);
  }
  const batch = broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const left = heap.dense(expanded(a, [...batch, m, k]));
  const right = heap.dense(expanded(b, [...batch, k, n]));
  const out = heap.make([...batch, m, n], a.dtype);
  const count = sizeOf(batch);
  if (a.dtype === 'float32') {
    const [to, x, y] = [out, left, right].map((view) => heap.address(view)) as [number, number, number];
    for (let i = 0; i < count; i++) {
      heap.multiply(to + 4 * i * m * n, x + 4 * i * m * k, y + 4 * i * k * n, m, k, n);
    }
    return out;
  }
  const [x, y, to] = [heap.raw(left), heap.raw(right), heap.raw(out)];
  to.fill(0);
  for (let row = 0; row < count * m; row++) {
    const first = Math.floor(row / m) * k * n;
    for (let j = 0; j < k; j++) {
      const factor = x[row * k + j]!;
      for (let c = 0; c < n; c++) to[row * n + c]! += factor * y[first + j * n + c]!;
    }
  }
  return out;
}

export function matmul(ops: Operations, a: Tensor, b: Tensor): TfjsTensor {
  const x = ops.of(a, 'matmul');
  const y = ops.of(b, 'matmul');
  return ops.run('matmul', [a, b], () => {
    const { heap } = ops;
    const [left, right] = [x.view, y.view];
    if (left.shape.length < 2 || right.shape.length < 2 || left.shape.at(-1) !== right.shape.at(-2)) {
      throw new Error('want [..., M, K] and [..., K, N]');
    }
    if (left.dtype !== right.dtype || !isFloat(left.dtype))
      throw new Error('want two of float32, or of float64');
    return ops.emit(
      'matmul',
      [x, y],
      [product(heap, left, right)],
      [left, right],
      ([g], [wantsX, wantsY]) => [
        wantsX ? sumTo(heap, product(heap, g!, turned(right)), left.shape) : null,
        wantsY ? sumTo(heap, product(heap, turned(left), g!), right.shape) : null,
      ],
    )[0]!;
  });
}

/** Returns true if no element is NaN or infinite. */
export function allFinite(ops: Operations, tensor: Tensor): boolean {
  const { view } = ops.of(tensor, 'allFinite');
  return ops.run('allFinite', [tensor], () => {
    const { heap } = ops;
    if (view.dtype !== 'float32') return heap.numbers(view).every((value: number) => Number.isFinite(value));
    return heap.kernels.finite(heap.address(heap.dense(view)), sizeOf(view.shape)) === 1;
  });
}
