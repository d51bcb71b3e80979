/**
 * The engine contract written out as plain loops over float64 arrays: slow, obvious, and sharing no code with any
 * engine. `Nd` is row-major.
 */
import type { Random } from '../../src/ground/random.ts';

export interface Nd {
  readonly shape: readonly number[];
  readonly data: Float64Array;
}

export const size = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1);

/** Array of a shape; `fill` gets the position in row-major order and the index along every axis. */
export function nd(shape: readonly number[], fill: (flat: number, index: readonly number[]) => number): Nd {
  const data = new Float64Array(size(shape));
  const index = shape.map(() => 0);
  for (let flat = 0; flat < data.length; flat++) {
    data[flat] = fill(flat, index);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis]!++;
      if (index[axis]! < shape[axis]!) break;
      index[axis] = 0;
    }
  }
  return { shape: [...shape], data };
}

export const normal = (random: Random, shape: readonly number[], std = 1): Nd =>
  nd(shape, () => random.normal(0, std));
export const of = (shape: readonly number[], data: ArrayLike<number>): Nd => nd(shape, (i) => data[i]!);

/** Element at an index; an axis of size 1 is read for any index (broadcasting), and leading axes may be missing. */
export function at(x: Nd, index: readonly number[]): number {
  let flat = 0;
  const skip = index.length - x.shape.length;
  for (let axis = 0; axis < x.shape.length; axis++) {
    const n = x.shape[axis]!;
    flat = flat * n + (n === 1 ? 0 : index[axis + skip]!);
  }
  return x.data[flat]!;
}

export function broadcastShape(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const left = a[i - (rank - a.length)] ?? 1;
    const right = b[i - (rank - b.length)] ?? 1;
    return left === 1 ? right : left;
  });
}

export const binary = (a: Nd, b: Nd, f: (x: number, y: number) => number): Nd =>
  nd(broadcastShape(a.shape, b.shape), (_, index) => f(at(a, index), at(b, index)));
export const map = (a: Nd, f: (x: number) => number): Nd => nd(a.shape, (i) => f(a.data[i]!));

const positive = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);
const replaced = (index: readonly number[], axis: number, value: number): number[] =>
  index.map((n, i) => (i === axis ? value : n));

// ---- shape -------------------------------------------------------------------------------------------

export const reshape = (a: Nd, shape: readonly number[]): Nd => of(shape, a.data);

export function permute(a: Nd, order: readonly number[]): Nd {
  return nd(
    order.map((axis) => a.shape[axis]!),
    (_, index) => {
      const source = a.shape.map(() => 0);
      order.forEach((axis, i) => {
        source[axis] = index[i]!;
      });
      return at(a, source);
    },
  );
}

export function concat(parts: readonly Nd[], axis_: number): Nd {
  const axis = positive(axis_, parts[0]!.shape.length);
  const total = parts.reduce((sum, part) => sum + part.shape[axis]!, 0);
  return nd(replaced(parts[0]!.shape, axis, total), (_, index) => {
    let offset = index[axis]!;
    for (const part of parts) {
      if (offset < part.shape[axis]!) return at(part, replaced(index, axis, offset));
      offset -= part.shape[axis]!;
    }
    throw new RangeError('outside every part');
  });
}

export function narrow(a: Nd, axis_: number, start: number, length: number): Nd {
  const axis = positive(axis_, a.shape.length);
  return nd(replaced(a.shape, axis, length), (_, index) =>
    at(a, replaced(index, axis, index[axis]! + start)),
  );
}

export const indexSelect = (a: Nd, index: readonly number[]): Nd =>
  nd([index.length, ...a.shape.slice(1)], (_, at_) => at(a, replaced(at_, 0, index[at_[0]!]!)));

export const indexCopy = (a: Nd, index: readonly number[], source: Nd): Nd =>
  nd(a.shape, (_, at_) => {
    const from = index.indexOf(at_[0]!);
    return from < 0 ? at(a, at_) : at(source, replaced(at_, 0, from));
  });

// ---- arithmetic --------------------------------------------------------------------------------------

/** Folds each line along `axis` to one number; the axis disappears. */
export function reduce(a: Nd, axis_: number, f: (line: readonly number[]) => number): Nd {
  const axis = positive(axis_, a.shape.length);
  return nd(a.shape.toSpliced(axis, 1), (_, index) =>
    f(Array.from({ length: a.shape[axis]! }, (__, i) => at(a, index.toSpliced(axis, 0, i)))),
  );
}

const add = (line: readonly number[]): number => line.reduce((sum, x) => sum + x, 0);
export const sum = (a: Nd, axis?: number): Nd =>
  axis === undefined ? of([], [add([...a.data])]) : reduce(a, axis, add);
export const norm = (a: Nd): Nd => reduce(a, -1, (line) => Math.sqrt(add(line.map((x) => x * x))));

const lse = (line: readonly number[]): number => {
  const top = Math.max(...line);
  return top + Math.log(add(line.map((x) => Math.exp(x - top))));
};
export const logSumExp = (a: Nd, axis: number): Nd => reduce(a, axis, lse);
export const logSoftmax = (a: Nd): Nd => {
  const norms = reduce(a, -1, lse);
  return nd(a.shape, (i, index) => a.data[i]! - at(norms, index.slice(0, -1)));
};

/** [..., n, k] · [..., k, m] with broadcast leading axes. */
export function matmul(a: Nd, b: Nd): Nd {
  const lead = broadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const inner = a.shape.at(-1)!;
  return nd([...lead, a.shape.at(-2)!, b.shape.at(-1)!], (_, index) => {
    const before = index.slice(0, -2);
    let total = 0;
    for (let k = 0; k < inner; k++)
      total += at(a, [...before, index.at(-2)!, k]) * at(b, [...before, k, index.at(-1)!]);
    return total;
  });
}

// ---- neural network ----------------------------------------------------------------------------------

export const linear = (x: Nd, weight: Nd, bias?: Nd): Nd =>
  nd([...x.shape.slice(0, -1), weight.shape[0]!], (_, index) => {
    const out = index.at(-1)!;
    let total = bias === undefined ? 0 : bias.data[out]!;
    for (let i = 0; i < weight.shape[1]!; i++)
      total += at(x, [...index.slice(0, -1), i]) * at(weight, [out, i]);
    return total;
  });

export function rmsNorm(x: Nd, weight: Nd, epsilon: number): Nd {
  const mean = reduce(x, -1, (line) => add(line.map((v) => v * v)) / line.length);
  return nd(
    x.shape,
    (i, index) =>
      (x.data[i]! / Math.sqrt(at(mean, index.slice(0, -1)) + epsilon)) * weight.data[index.at(-1)!]!,
  );
}

/** Pairs (d, d + D/2) turned by their angle: the real and imaginary part of a complex product. */
export const rotary = (x: Nd, cos: Nd, sin: Nd): Nd =>
  nd(x.shape, (flat, [b, t, h, d]) => {
    const half = x.shape[3]! / 2;
    const other = d! < half ? -at(x, [b!, t!, h!, d! + half]) : at(x, [b!, t!, h!, d! - half]);
    return x.data[flat]! * at(cos, [b!, t!, d!]) + other * at(sin, [b!, t!, d!]);
  });

export interface AttentionArrays {
  readonly query: Nd; // [B, Hq, T, D]
  readonly key: Nd; // [B, Hkv, S, D]
  readonly value: Nd; // [B, Hkv, S, D]
  readonly mask?: Nd; // broadcast to [B, 1, T, S]
  readonly prefix?: { readonly key: Nd; readonly value: Nd; readonly mask?: Nd }; // [P, Hkv, S₀, D]
}

/** One query at a time over the concatenated sequence: prefix keys, then own keys. */
export function attention({ query, key, value, mask, prefix }: AttentionArrays): Nd {
  const [batch, heads, length, width] = query.shape as [number, number, number, number];
  const repeat = heads / key.shape[1]!;
  const out = nd(query.shape, () => 0);
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let t = 0; t < length; t++) {
        const g = Math.floor(h / repeat);
        const entries: { score: number; value: number[] }[] = [];
        const visit = (keys: Nd, values: Nd, row: number, hide: (s: number) => number): void => {
          for (let s = 0; s < keys.shape[2]!; s++) {
            let dot = 0;
            for (let d = 0; d < width; d++) dot += at(query, [b, h, t, d]) * at(keys, [row, g, s, d]);
            entries.push({
              score: dot / Math.sqrt(width) + hide(s),
              value: Array.from({ length: width }, (_, d) => at(values, [row, g, s, d])),
            });
          }
        };
        if (prefix !== undefined) {
          const row = Math.floor(b / (batch / prefix.key.shape[0]!));
          const hidden = prefix.mask;
          visit(prefix.key, prefix.value, row, (s) =>
            hidden === undefined ? 0 : at(hidden, [row, 0, 0, s]),
          );
        }
        visit(key, value, b, (s) => (mask === undefined ? 0 : at(mask, [b, 0, t, s])));
        const top = Math.max(...entries.map((entry) => entry.score));
        const weights = entries.map((entry) => Math.exp(entry.score - top));
        const total = add(weights);
        for (let d = 0; d < width; d++)
          out.data[((b * heads + h) * length + t) * width + d] =
            add(entries.map((entry, i) => weights[i]! * entry.value[d]!)) / total;
      }
  return out;
}

export function swiglu(gateUp: Nd): Nd {
  const width = gateUp.shape.at(-1)! / 2;
  return nd([...gateUp.shape.slice(0, -1), width], (_, index) => {
    const gate = at(gateUp, index);
    return (gate / (1 + Math.exp(-gate))) * at(gateUp, [...index.slice(0, -1), index.at(-1)! + width]);
  });
}

/** erf by its Maclaurin series, summed until it stops changing: about 1e-13 for |x| ≤ 3. */
export function erf(x: number): number {
  let term = x;
  let total = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(total); n++) {
    term *= (-x * x) / n;
    total += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * total;
}
export const gelu = (x: Nd): Nd => map(x, (v) => 0.5 * v * (1 + erf(v / Math.SQRT2)));

export interface LogProbArrays {
  readonly temperature?: number;
  readonly mask?: Nd;
}

/** Log-probability of every token: [N, V]. */
export function distribution(logits: Nd, { temperature = 1, mask }: LogProbArrays): Nd {
  const masked = mask === undefined ? logits : binary(logits, mask, (x, y) => x + y);
  return logSoftmax(map(masked, (x) => x / temperature));
}
export const logProb = (hidden: Nd, head: Nd, targets: readonly number[], options: LogProbArrays): Nd => {
  const all = distribution(linear(hidden, head), options);
  return nd([targets.length], (i) => at(all, [i, targets[i]!]));
};
export const entropy = (hidden: Nd, head: Nd, options: LogProbArrays): Nd =>
  reduce(distribution(linear(hidden, head), options), -1, (line) =>
    add(line.map((x) => (Math.exp(x) === 0 ? 0 : -Math.exp(x) * x))),
  );

export interface AdamWArrays {
  readonly parameters: Float64Array;
  readonly first: Float64Array;
  readonly second: Float64Array;
}

/** Algorithm 2 of Loshchilov & Hutter (2019) with a decay factor per element, as torch.optim.AdamW applies it. */
export function adamW(
  { parameters, first, second }: AdamWArrays,
  gradients: ArrayLike<number>,
  decay: ArrayLike<number>,
  o: { learningRate: number; beta1: number; beta2: number; epsilon: number; step: number },
): void {
  for (let i = 0; i < parameters.length; i++) {
    const g = gradients[i]!;
    first[i] = o.beta1 * first[i]! + (1 - o.beta1) * g;
    second[i] = o.beta2 * second[i]! + (1 - o.beta2) * g * g;
    const m = first[i]! / (1 - o.beta1 ** o.step);
    const v = second[i]! / (1 - o.beta2 ** o.step);
    parameters[i] =
      parameters[i]! * (1 - o.learningRate * decay[i]!) - (o.learningRate * m) / (Math.sqrt(v) + o.epsilon);
  }
}

/** Gradient of Σ f(x) · cotangent with respect to every element of x, by central differences. */
export function centralDifferences(x: Nd, loss: (x: Nd) => number, step = 1e-5): Float64Array {
  return Float64Array.from(x.data, (value, i) => {
    const moved = (to: number): number => loss(nd(x.shape, (j) => (j === i ? to : x.data[j]!)));
    return (moved(value + step) - moved(value - step)) / (2 * step);
  });
}
