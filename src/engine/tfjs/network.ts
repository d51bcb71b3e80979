/** Layers, losses, sampling and updates of the tfjs engine, in float32: products by TensorFlow.js, the rest by kernels. */

import { drawToken } from '../../ground/draw.ts';
import {
  checkAdamW,
  checkLogProbs,
  checkRmsNorm,
  checkRotary,
  checkSample,
  checkSinkhorn,
  checkSwiglu,
} from '../checks.ts';
import type {
  AdamWOptions,
  AdamWState,
  LogProbOptions,
  SampleOptions,
  SinkhornInput,
  SinkhornResult,
  Tensor,
} from '../engine.ts';
import { type Heap, isDense, sizeOf, type View } from './heap.ts';
import type { Operations } from './operations.ts';
import { turned } from './shape.ts';
import type { TfjsTensor } from './tape.ts';

/** Number of rows of a tensor's last axis. */
const rowsOf = ({ shape }: View): number => sizeOf(shape.slice(0, -1));

/** a [N, K] · b for a prepared b [K, M], a dense: [N, M] of the shape given. */
function times(heap: Heap, a: View, b: View, shape: readonly number[]): View {
  const out = heap.make(shape);
  if (sizeOf(b.shape) === 0) return heap.zeros(shape);
  if (sizeOf(shape) > 0) heap.packed(b).times(heap.address(out), heap.address(a), rowsOf(a));
  return out;
}

/** aᵀ · b of rows a [N, M] and b [N, K], both dense: [M, K]. */
function outer(heap: Heap, a: View, b: View): View {
  const [rows, m, k] = [rowsOf(a), a.shape.at(-1)!, b.shape.at(-1)!];
  const out = heap.make([m, k]);
  const flat: View = { ...a, shape: [rows, m], strides: [m, 1] };
  const across = heap.dense(turned(flat)); // [M, N]
  heap.multiply(heap.address(out), heap.address(across), heap.address(b), m, rows, k);
  return out;
}

/** Sum over all rows: [..., D] → [D]. */
function columnSums(heap: Heap, x: View): View {
  const width = x.shape.at(-1)!;
  const out = heap.make([width]);
  heap.kernels.sumAxis(heap.address(out), heap.address(x), 1, rowsOf(x), width);
  return out;
}

export function linear(ops: Operations, x: Tensor, weight: Tensor, bias?: Tensor): TfjsTensor {
  const inputs = ops.floats('linear', [x, weight, bias]) as [TfjsTensor, TfjsTensor, TfjsTensor | null];
  return ops.run('linear', [x, weight, bias ?? null], () => {
    const { heap } = ops;
    const [{ view: given }, { view: w }] = inputs;
    const width = given.shape.at(-1);
    const [outputs, inner] = w.shape as [number, number];
    if (w.shape.length !== 2 || inner !== width) throw new Error('want x [..., I] and weight [O, I]');
    if (bias !== undefined && bias.shape.join() !== `${outputs}`) throw new Error(`want a bias [${outputs}]`);
    const rows = heap.dense(given);
    const out = times(heap, rows, turned(w), given.shape.with(-1, outputs)); // [..., O]
    if (inputs[2] !== null) {
      const added = heap.dense(inputs[2].view);
      heap.kernels.addBias(heap.address(out), heap.address(added), rowsOf(out), outputs);
    }
    return ops.emit('linear', inputs, [out], [rows, w], ([g], [wantsX, wantsWeight, wantsBias]) => {
      const up = heap.dense(g!);
      return [
        wantsX ? times(heap, up, w, given.shape) : null,
        wantsWeight ? outer(heap, up, rows) : null,
        wantsBias ? columnSums(heap, up) : null,
      ];
    })[0]!;
  });
}

export function rmsNorm(ops: Operations, x: Tensor, weight: Tensor, epsilon: number): TfjsTensor {
  const inputs = ops.floats('rmsNorm', [x, weight]) as [TfjsTensor, TfjsTensor];
  return ops.run('rmsNorm', [x, weight, epsilon], () => {
    checkRmsNorm(x, weight);
    const { heap } = ops;
    const [source, factors] = [heap.dense(inputs[0].view), heap.dense(inputs[1].view)];
    const [rows, width] = [rowsOf(source), source.shape.at(-1)!];
    const out = heap.make(source.shape);
    const inverse = heap.make([rows]); // 1 / √(mean(x²) + ε)
    const address = (view: View): number => heap.address(view);
    heap.kernels.rmsNorm(...[out, inverse, source, factors].map(address), rows, width, epsilon);
    return ops.emit('rmsNorm', inputs, [out], [source, factors, inverse], ([g]) => {
      const up = heap.dense(g!);
      const dx = heap.make(source.shape);
      const dWeight = heap.zeros([width]);
      heap.kernels.rmsNormBack(...[dx, dWeight, up, source, factors, inverse].map(address), rows, width);
      return [dx, dWeight];
    })[0]!;
  });
}

/** Elements between the tokens of x [B, T, H, D], where they stand evenly apart and are dense in themselves; else null. */
function tokenStride({ shape, strides }: View): number | null {
  const [, length, heads, width] = shape as [number, number, number, number];
  const even = shape[0] === 1 || strides[0] === length * strides[1]!;
  const inside = (width === 1 || strides[3] === 1) && (heads === 1 || strides[2] === width);
  return even && inside && (length > 1 || shape[0] === 1) ? strides[1]! : null;
}

export function rotary(ops: Operations, x: Tensor, cos: Tensor, sin: Tensor): TfjsTensor {
  const [input, c, s] = ops.floats('rotary', [x, cos, sin]) as [TfjsTensor, TfjsTensor, TfjsTensor];
  return ops.run('rotary', [x, cos, sin], () => {
    checkRotary(x, cos, sin);
    const { heap } = ops;
    const [batch, length, heads, width] = x.shape as [number, number, number, number];
    const [cosines, sines] = [heap.dense(c.view), heap.dense(s.view)];
    const angles = rowsOf(cosines);
    const turn = (from: View, stride: number, back: 0 | 1): View => {
      const out = heap.make([batch, length, heads, width]);
      const [a, b, d] = [from, cosines, sines].map((view) => heap.address(view)) as [number, number, number];
      heap.kernels.rotary(heap.address(out), a, stride, b, d, batch * length, angles, heads, width, back);
      return out;
    };
    const stride = tokenStride(input.view);
    const source = stride === null ? heap.dense(input.view) : input.view;
    const out = turn(source, stride ?? heads * width, 0);
    return ops.emit('rotary', [input], [out], [cosines, sines], ([g]) => [
      turn(heap.dense(g!), heads * width, 1),
    ])[0]!;
  });
}

export function swiglu(ops: Operations, gateUp: Tensor): TfjsTensor {
  const [x] = ops.floats('swiglu', [gateUp]) as [TfjsTensor];
  return ops.run('swiglu', [gateUp], () => {
    checkSwiglu(gateUp);
    const { heap } = ops;
    const source = heap.dense(x.view);
    const [rows, width] = [rowsOf(source), source.shape.at(-1)! / 2];
    const out = heap.make(source.shape.with(-1, width));
    heap.kernels.swiglu(heap.address(out), heap.address(source), rows, width);
    return ops.emit('swiglu', [x], [out], [source], ([g]) => {
      const up = heap.dense(g!);
      const dx = heap.make(source.shape);
      heap.kernels.swigluBack(heap.address(dx), heap.address(up), heap.address(source), rows, width);
      return [dx];
    })[0]!;
  });
}

export function gelu(ops: Operations, tensor: Tensor): TfjsTensor {
  const [x] = ops.floats('gelu', [tensor]) as [TfjsTensor];
  return ops.run('gelu', [tensor], () => {
    const { heap } = ops;
    const source = heap.dense(x.view);
    const out = heap.make(source.shape);
    heap.kernels.gelu(heap.address(out), heap.address(source), sizeOf(source.shape));
    return ops.emit('gelu', [x], [out], [source], ([g]) => {
      const up = heap.dense(g!);
      const dx = heap.make(source.shape);
      heap.kernels.geluBack(heap.address(dx), heap.address(up), heap.address(source), sizeOf(source.shape));
      return [dx];
    })[0]!;
  });
}

/** Token ids below `vocabulary` as a dense view. */
function tokensOf(heap: Heap, ids: View, vocabulary: number): View {
  const dense = heap.dense(ids);
  if (ids.dtype !== 'int64') throw new Error('targets must be int64');
  for (const id of heap.raw(dense)) {
    if (id < 0 || id >= vocabulary)
      throw new Error(`target ${id} is out of bounds for a vocabulary of ${vocabulary}`);
  }
  return dense;
}

export function logProbs(
  ops: Operations,
  hidden: Tensor,
  head: Tensor,
  targets: Tensor,
  options: LogProbOptions,
): { logProb: Tensor; entropy: Tensor | null } {
  const [h, w, mask] = ops.floats('logProbs', [hidden, head, options.mask]) as [
    TfjsTensor,
    TfjsTensor,
    TfjsTensor | null,
  ];
  const ids = ops.of(targets, 'logProbs');
  checkLogProbs(hidden, head, targets, options);
  return ops.run('token_log_prob', [hidden, head, targets], () => {
    const { heap } = ops;
    const { temperature = 1, entropy: wanted = false } = options;
    const [rows, vocabulary] = [hidden.shape[0]!, head.shape[0]!];
    const tokens = tokensOf(heap, ids.view, vocabulary);
    const states = heap.dense(h.view);
    const scores = times(heap, states, turned(w.view), [rows, vocabulary]);
    const vocabularyMask = mask === null ? null : heap.dense(mask.view);
    const [level, logProb, entropy] = [0, 1, 2].map(() => heap.make([rows])) as [View, View, View];
    const at = (view: View | null): number => (view === null ? 0 : heap.address(view));
    heap.kernels.tokenLogProbs(
      ...[at(scores), rows, vocabulary, at(tokens), at(vocabularyMask), temperature],
      ...[at(level), at(logProb), wanted ? at(entropy) : 0],
    );
    const outputs = wanted ? [logProb, entropy] : [logProb];
    const saved = [scores, tokens, level, entropy, states, w.view];
    const found = ops.emit(
      'logProbs',
      [h, w],
      outputs,
      saved,
      ([g, gEntropy = null], [wantsHidden, wantsHead]) => {
        const [given, givenEntropy] = [g, gEntropy].map((one) => (one == null ? null : heap.dense(one))) as [
          View | null,
          View | null,
        ];
        // The scores are this history's own, which is used once.
        heap.kernels.tokenLogProbsBack(
          ...[at(scores), rows, vocabulary, at(tokens), temperature, at(level)],
          ...[at(given), at(givenEntropy), at(entropy)],
        );
        return [
          wantsHidden ? times(heap, scores, w.view, states.shape) : null,
          wantsHead ? outer(heap, scores, states) : null,
        ];
      },
    );
    return { logProb: found[0]!, entropy: found[1] ?? null };
  });
}

export function sample(
  ops: Operations,
  logits: Tensor,
  options: SampleOptions,
): { ids: Tensor; logProbs: Tensor } {
  const { temperature, topP, topK, uniforms } = options;
  const [x, mask] = ops.floats('sample', [logits, options.mask]) as [TfjsTensor, TfjsTensor | null];
  const draws = ops.of(uniforms, 'sample');
  checkSample(logits, options);
  return ops.run('sample', [logits], () => {
    const { heap } = ops;
    const [rows, vocabulary] = logits.shape as [number, number];
    const scores = heap.copy(x.view);
    const hidden = mask === null ? 0 : heap.address(heap.dense(mask.view));
    const uniform = heap.dense(heap.cast(draws.view, 'float32'));
    const ids = heap.make([rows], 'int64');
    const logProbs = heap.make([rows]);
    if (temperature > 0 && topP === 1 && (topK === undefined || topK >= vocabulary)) {
      const [z, u, tokens, out] = [scores, uniform, ids, logProbs].map((view) => heap.address(view)) as [
        number,
        number,
        number,
        number,
      ];
      heap.kernels.drawTokens(z, rows, vocabulary, hidden, temperature, u, tokens, out);
    } else {
      const added = mask === null ? null : heap.raw(heap.dense(mask.view));
      const [z, u, tokens, out] = [scores, uniform, ids, logProbs].map((view) => heap.raw(view)) as [
        Float32Array,
        Float32Array,
        Int32Array,
        Float32Array,
      ];
      for (let r = 0; r < rows; r++) {
        const row = Float64Array.from(z.subarray(r * vocabulary, (r + 1) * vocabulary));
        if (added !== null) for (let v = 0; v < vocabulary; v++) row[v]! += added[v]!;
        const { id, logProb } = drawToken(row, u[r]!, options);
        tokens[r] = id;
        out[r] = logProb;
      }
    }
    return { ids: ops.adopt(ids), logProbs: ops.adopt(logProbs) };
  });
}

export function adamW(ops: Operations, state: AdamWState, options: AdamWOptions): void {
  const { parameters, gradients, firstMoment, secondMoment, decay } = state;
  const { learningRate, beta1, beta2, epsilon, step, scale = 1 } = options;
  const factors = typeof decay === 'number' ? undefined : decay;
  const all = ops.floats('adamW', [parameters, gradients, firstMoment, secondMoment, factors]);
  checkAdamW(state, options);
  ops.run('adamW', [parameters, gradients], () => {
    const { heap } = ops;
    const [p, g, m, v, each] = all.map((tensor) => tensor?.view ?? null) as [
      View,
      View,
      View,
      View,
      View | null,
    ];
    if (![p, m, v].every(isDense)) throw new Error('parameters and moments must be dense');
    heap.kernels.adamW(
      ...[p, heap.dense(g), m, v].map((view) => heap.address(view)),
      ...(each === null ? [0, decay as number] : [heap.address(heap.dense(each)), 0]),
      ...[sizeOf(p.shape), scale, learningRate, 1 - beta1, 1 - beta2, beta2, epsilon],
      ...[learningRate / (1 - beta1 ** step), Math.sqrt(1 - beta2 ** step)],
    );
    for (const view of [p, m, v]) heap.wrote(view);
  });
}

export function sinkhorn(ops: Operations, input: SinkhornInput): SinkhornResult {
  const { epsilon, iterations } = input;
  const given = ops.all('sinkhorn', [input.cost, input.rows, input.columns]) as [
    TfjsTensor,
    TfjsTensor,
    TfjsTensor,
  ];
  checkSinkhorn(input);
  return ops.run('sinkhorn', [input.cost], () => {
    const { heap } = ops;
    const [count, length, width] = input.cost.shape as [number, number, number]; // B, T, S
    const [cost, rows, columns] = given.map(({ view }) => heap.numbers(view).slice()) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    const distance = new Float64Array(count);
    const [rowSums, u] = [new Float64Array(count * length), new Float64Array(count * length)];
    const v = new Float64Array(count * width);
    const kernel = new Float64Array(length * width);
    for (let b = 0; b < count; b++) {
      const at = b * length * width;
      for (let i = 0; i < kernel.length; i++) kernel[i] = Math.exp(-cost[at + i]! / epsilon);
      const own = { u: u.subarray(b * length, (b + 1) * length), v: v.subarray(b * width, (b + 1) * width) };
      const into = new Float64Array(width);
      own.v.forEach((_, s) => {
        own.v[s] = columns[b * width + s]! > 0 ? 1 : 0;
      });
      for (let round = 0; round < iterations; round++) {
        into.fill(0);
        for (let t = 0; t < length; t++) {
          let sum = 0;
          for (let s = 0; s < width; s++) sum += kernel[t * width + s]! * own.v[s]!;
          const mass = rows[b * length + t]!;
          const scaling = mass > 0 ? mass / sum : 0;
          own.u[t] = scaling;
          if (scaling !== 0) for (let s = 0; s < width; s++) into[s]! += kernel[t * width + s]! * scaling;
        }
        for (let s = 0; s < width; s++) {
          const mass = columns[b * width + s]!;
          own.v[s] = mass > 0 ? mass / into[s]! : 0;
        }
      }
      for (let t = 0; t < length; t++) {
        for (let s = 0; s < width; s++) {
          const plan = own.u[t]! * kernel[t * width + s]! * own.v[s]!;
          rowSums[b * length + t]! += plan;
          distance[b]! += plan * cost[at + t * width + s]!;
        }
      }
    }
    const tensor = (values: Float64Array, shape: readonly number[]): Tensor =>
      ops.adopt(heap.from(values, shape, 'float64'));
    return {
      distance: tensor(distance, [count]),
      rowSums: tensor(rowSums, [count, length]),
      u: tensor(u, [count, length]),
      v: tensor(v, [count, width]),
    };
  });
}
