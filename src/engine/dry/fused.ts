/** The operators of fused.cc and attention.cc, and libtorch's tiled attention, without elements. On the CPU one pass each, else chains. */
import type { DType } from '../engine.ts';
import { add, mul, sum, unary } from './arithmetic.ts';
import { cast, cat, contiguous } from './copies.ts';
import type { Kernels } from './kernels.ts';
import { type DryTensor, dense } from './tensor.ts';
import { split, transpose, unsqueeze } from './views.ts';

/** Whether fused.cc takes it in one pass. */
function fusible({ cpu }: Kernels, { dtype }: DryTensor): boolean {
  return cpu && (dtype === 'float32' || dtype === 'float64' || dtype === 'bfloat16');
}

/** What fused.cc computes in. */
const computed = ({ dtype }: DryTensor): DType => (dtype === 'bfloat16' ? 'float32' : dtype);

/** Runs `body`, then releases what it `hold`s. */
function using<T>(body: (hold: (tensor: DryTensor) => DryTensor) => T): T {
  const held: DryTensor[] = [];
  const result = body((tensor) => {
    held.push(tensor);
    return tensor;
  });
  for (const tensor of held) tensor.release();
  return result;
}

/** Keeps x and 1 / rms of each row; the chain keeps x in float32, and its product with 1 / rms. */
export function rmsNorm(kernels: Kernels, input: DryTensor, weight: DryTensor): DryTensor {
  const atOnce = fusible(kernels, input) || (!kernels.cpu && kernels.modern);
  if (atOnce && weight.dtype === input.dtype) {
    return using((hold) => {
      const x = hold(contiguous(kernels, input));
      const y = kernels.empty(x.shape, x.dtype);
      const inverse = hold(kernels.empty([x.size / x.shape.at(-1)!], computed(x)));
      return kernels.record([input, weight], y, [x, weight, inverse], (gradient) =>
        using((keep) => {
          keep(contiguous(kernels, gradient));
          const forX = kernels.empty(x.shape, x.dtype);
          const sums = keep(kernels.empty(weight.shape, computed(x)));
          return [forX, cast(kernels, sums, weight.dtype)];
        }),
      );
    });
  }
  const exact = input.dtype === 'float64' ? 'float64' : 'float32';
  return using((hold) => {
    const wide = hold(cast(kernels, input, exact));
    const square = mul(kernels, wide, wide);
    const mean = sum(kernels, square, [-1], true);
    square.release();
    const inverse = hold(unary(kernels, mean, 'output'));
    mean.release();
    const scaled = mul(kernels, wide, inverse);
    const factor = hold(cast(kernels, weight, exact));
    const out = mul(kernels, scaled, factor);
    scaled.release();
    const rounded = cast(kernels, out, input.dtype);
    out.release();
    return rounded;
  });
}

/** Keeps gate and up alone; the chain keeps silu(gate) beside them. */
export function swiglu(kernels: Kernels, input: DryTensor): DryTensor {
  const width = input.shape.at(-1)! / 2;
  const halved = [...input.shape.slice(0, -1), width];
  if (fusible(kernels, input)) {
    return using((hold) => {
      const gateUp = hold(contiguous(kernels, input));
      const out = kernels.empty(halved, input.dtype);
      return kernels.record([input], out, [gateUp], (gradient) =>
        using((keep) => {
          keep(contiguous(kernels, gradient));
          return [kernels.empty(gateUp.shape, gateUp.dtype)];
        }),
      );
    });
  }
  return using((hold) => {
    const [gate, up] = split(kernels, input, [width, width], input.shape.length - 1).map(hold) as [
      DryTensor,
      DryTensor,
    ];
    return mul(kernels, hold(unary(kernels, gate, 'input')), up);
  });
}

/** Keeps the tables alone, in the type that is computed in. */
export function rotary(kernels: Kernels, x: DryTensor, cos: DryTensor, sin: DryTensor): DryTensor {
  if (fusible(kernels, x)) {
    return using((hold) => {
      const tables = [cos, sin].map((table) => hold(cast(kernels, table, computed(x))));
      hold(contiguous(kernels, x));
      return kernels.record([x], kernels.empty(x.shape, x.dtype), tables, (gradient) =>
        using((keep) => {
          keep(contiguous(kernels, gradient));
          return [kernels.empty(x.shape, x.dtype)];
        }),
      );
    });
  }
  const half = x.shape[3]! / 2;
  return using((hold) => {
    const halves = split(kernels, x, [half, half], 3).map(hold) as [DryTensor, DryTensor];
    const negated = unary(kernels, halves[1], 'nothing');
    const turned = hold(cat(kernels, [negated, halves[0]], 3));
    negated.release();
    const along = hold(mul(kernels, x, hold(unsqueeze(kernels, cos, 2))));
    const across = hold(mul(kernels, turned, hold(unsqueeze(kernels, sin, 2))));
    return cast(kernels, hold(add(kernels, along, across)), x.dtype);
  });
}

/** As x [B, H, n, d], laid out as [B, n, H, d]. */
function positionMajor(kernels: Kernels, x: DryTensor): DryTensor {
  const [b, h, n, d] = x.shape as [number, number, number, number];
  const [sb, sn, sh, sd] = dense([b, n, h, d]) as [number, number, number, number];
  return kernels.empty(x.shape, x.dtype, [sb, sh, sn, sd]);
}

/** attention.cc keeps query, keys, values, masks, its result and one number a row; the scores are never whole. */
export function attention(
  kernels: Kernels,
  inputs: readonly [DryTensor, DryTensor, DryTensor],
  prefix: readonly DryTensor[],
  masks: readonly DryTensor[],
): DryTensor {
  const [query] = inputs;
  const all = [...inputs, ...prefix];
  return using((hold) => {
    const out = positionMajor(kernels, query);
    const rows = hold(kernels.empty(query.shape.slice(0, 3), query.dtype));
    return kernels.record(all, out, [...all, ...masks, out, rows], (_, wanted) =>
      all
        .map((input) => positionMajor(kernels, input)) // computed together
        .map((gradient, i) => {
          if (wanted[i]) return gradient;
          gradient.release();
          return null;
        }),
    );
  });
}

/** One step of decoding holds its rotated queries beside the result. */
export function attentionStep(kernels: Kernels, qkv: DryTensor, keys: DryTensor): DryTensor {
  const [batch, kept, , width] = keys.shape as [number, number, number, number];
  const shape = [batch, qkv.shape[1]! - 2 * kept * width];
  return using((hold) => {
    hold(kernels.empty(shape, qkv.dtype));
    return kernels.empty(shape, qkv.dtype);
  });
}

/** Keeps the logits, what else it was given, and one number a row. */
export function tokenLogProb(
  kernels: Kernels,
  logits: DryTensor,
  targets: DryTensor,
  mask: DryTensor | null,
): DryTensor {
  const [rows] = logits.shape as [number, number];
  return using((hold) => {
    const scores = hold(contiguous(kernels, logits));
    const sums = hold(kernels.empty([rows], logits.dtype));
    const out = kernels.empty([rows], logits.dtype);
    return kernels.record([logits], out, [scores, targets, mask, sums], (gradient) =>
      using((keep) => {
        keep(contiguous(kernels, gradient));
        return [kernels.empty(scores.shape, scores.dtype)];
      }),
    );
  });
}

/** Tiled attention keeps query, key, value, its result and one number a row; the scores are never whole. */
export function tiledAttention(
  kernels: Kernels,
  query: DryTensor,
  key: DryTensor,
  value: DryTensor,
  mask: DryTensor | null,
): DryTensor {
  const [batch, heads, length] = query.shape as [number, number, number, number];
  return using((hold) => {
    const out = positionMajor(kernels, query);
    const rows = hold(kernels.empty([batch, length, heads], 'float32'));
    const saved = [query, key, value, out, rows, mask];
    return kernels.record([query, key, value], out, saved, (gradient, wanted) =>
      using((keep) => {
        keep(contiguous(kernels, keep(transpose(kernels, gradient, 1, 2))));
        keep(kernels.empty([batch, length, heads], 'float32')); // Σ gradient · result of each row
        const all = [query, key, value].map((x) => positionMajor(kernels, x)); // computed together
        return all.map((gradient, i) => {
          if (wanted[i]) return gradient;
          gradient.release();
          return null;
        });
      }),
    );
  });
}
