/** The neural-network operations of the contract, composed of the fewest operators: ATen's, and those of fused.cc and sinkhorn.cc. */
import { EngineError } from '../../ground/errors.ts';
import type {
  AdamWOptions,
  AdamWState,
  LogProbOptions,
  SampleOptions,
  SinkhornInput,
  SinkhornResult,
  Tensor,
} from '../engine.ts';
import { type Operators, sameShape, shapeText } from './operators.ts';

export function rmsNorm(ops: Operators, x: Tensor, weight: Tensor, epsilon: number): Tensor {
  ops.check('rmsNorm', [x, weight]);
  const width = x.shape.at(-1)!;
  if (weight.shape.length !== 1 || weight.shape[0] !== width) {
    throw new EngineError(
      `rmsNorm: x [${x.shape.join(',')}] needs a weight [${width}], got [${weight.shape.join(',')}]`,
    );
  }
  return ops.one('timeseer::rms_norm', x, weight, epsilon); // [..., D]
}

export function rotary(ops: Operators, x: Tensor, cos: Tensor, sin: Tensor): Tensor {
  ops.check('rotary', [x, cos, sin]);
  const [batch, length, , width] = x.shape as [number, number, number, number]; // [B, T, H, D]
  const fits = (angle: Tensor): boolean =>
    angle.shape.length === 3 &&
    (angle.shape[0] === 1 || angle.shape[0] === batch) &&
    angle.shape[1] === length &&
    angle.shape[2] === width;
  if (x.shape.length !== 4 || width % 2 !== 0 || !fits(cos) || !fits(sin)) {
    throw new EngineError(
      `rotary: x ${shapeText(x)}, cos ${shapeText(cos)} and sin ${shapeText(sin)} do not fit: ` +
        'want [B, T, H, D] with an even D, and [B or 1, T, D] twice',
    );
  }
  return ops.one('timeseer::rotary', x, cos, sin);
}

export function swiglu(ops: Operators, gateUp: Tensor): Tensor {
  ops.check('swiglu', [gateUp]);
  const width = (gateUp.shape.at(-1) ?? 1) / 2;
  if (!Number.isInteger(width)) {
    throw new EngineError(`swiglu: the last axis of ${shapeText(gateUp)} must hold gate and up halves`);
  }
  return ops.one('timeseer::swiglu', gateUp);
}

/** log softmax((logits + mask) / temperature), float32 or wider: [N, V]. */
function distribution(ops: Operators, logits: Tensor, temperature: number, mask: Tensor | undefined): Tensor {
  let scores: Tensor =
    logits.dtype === 'bfloat16' || logits.dtype === 'float16'
      ? ops.one('to.dtype', logits, 'float32')
      : logits;
  if (mask !== undefined) scores = ops.one('add.Tensor', scores, mask);
  if (temperature !== 1) scores = ops.one('div.Scalar', scores, temperature);
  return ops.one('log_softmax.int', scores, -1);
}

export function logProbs(
  ops: Operators,
  hidden: Tensor,
  head: Tensor,
  targets: Tensor,
  options: LogProbOptions,
): { logProb: Tensor; entropy: Tensor | null } {
  ops.check('logProbs', [hidden, head, targets], [options.mask]);
  const temperature = options.temperature ?? 1;
  const [rows, width] = hidden.shape;
  if (hidden.shape.length !== 2 || head.shape[1] !== width || targets.shape.join() !== `${rows}`) {
    throw new EngineError(
      `logProbs: hidden ${shapeText(hidden)}, head ${shapeText(head)} and targets ${shapeText(targets)} do not fit: ` +
        'want [N, D], [V, D] and [N]',
    );
  }
  checkMask('logProbs', options.mask, head.shape[0]!);
  if (!(temperature > 0)) throw new EngineError(`logProbs: temperature must be > 0, got ${temperature}`);
  const logits = ops.one('linear', hidden, head, null); // [N, V]
  if (options.entropy !== true && inOnePass(ops, [logits], [options.mask])) {
    const mask = options.mask ?? null;
    return {
      logProb: ops.one('timeseer::token_log_prob', logits, targets, mask, temperature),
      entropy: null,
    };
  }
  const all = distribution(ops, logits, temperature, options.mask); // [N, V]
  const picked = ops.one('gather', all, 1, ops.one('unsqueeze', targets, 1)); // [N, 1]
  const logProb = ops.one('squeeze.dim', picked, 1); // [N]
  if (options.entropy !== true) return { logProb, entropy: null };
  const terms = ops.one('mul.Tensor', ops.one('exp', all), all); // [N, V]; masked entries: 0 · −1e9 = −0
  return { logProb, entropy: ops.one('neg', ops.one('sum.dim_IntList', terms, [-1])) };
}

/** Returns true if single-pass operators accept these: on the CPU, one type of at least 32 bits, masks without a gradient. */
export function inOnePass(
  ops: Operators,
  tensors: readonly Tensor[],
  optional: readonly (Tensor | undefined)[],
): boolean {
  const { dtype } = tensors[0]!;
  if (ops.device !== 'cpu' || (dtype !== 'float32' && dtype !== 'float64')) return false;
  return [...tensors, ...optional].every((tensor) => tensor === undefined || tensor.dtype === dtype);
}

function checkMask(where: string, mask: Tensor | undefined, vocabulary: number): void {
  if (mask !== undefined && mask.shape.join() !== `${vocabulary}`) {
    throw new EngineError(`${where}: the vocabulary mask must be [${vocabulary}], got ${shapeText(mask)}`);
  }
}

export function sample(
  ops: Operators,
  logits: Tensor,
  options: SampleOptions,
): { ids: Tensor; logProbs: Tensor } {
  const { temperature, topP, topK, mask, uniforms } = options;
  ops.check('sample', [logits, uniforms], [mask]);
  const [rows, vocabulary] = logits.shape as [number, number];
  if (logits.shape.length !== 2 || vocabulary === 0 || uniforms.shape.join() !== `${rows}`) {
    throw new EngineError(
      `sample: logits ${shapeText(logits)} and uniforms ${shapeText(uniforms)} do not fit: want [B, V] and [B]`,
    );
  }
  checkMask('sample', mask, vocabulary);
  if (!(temperature >= 0) || !(topP > 0 && topP <= 1)) {
    throw new EngineError(`sample: temperature ≥ 0 and 0 < topP ≤ 1 wanted, got ${temperature} and ${topP}`);
  }
  if (topK !== undefined && !(Number.isInteger(topK) && topK > 0)) {
    throw new EngineError(`sample: topK must be a positive integer, got ${topK}`);
  }
  const plain = temperature > 0 && topP === 1 && (topK === undefined || topK >= vocabulary);
  if (plain && logits.dtype === 'float32' && inOnePass(ops, [logits, uniforms], [mask])) {
    const [ids, logProbs] = ops.many('timeseer::draw_tokens', logits, mask ?? null, temperature, uniforms);
    return { ids: ids!, logProbs: logProbs! };
  }
  const all = distribution(ops, logits, temperature === 0 ? 1 : temperature, mask); // [B, V]
  const ids =
    temperature === 0
      ? ops.one('argmax', all, 1, true) // [B, 1]
      : invert(ops, kept(ops, ops.one('exp', all), topP, topK), ops.one('unsqueeze', uniforms, 1));
  const logProbs = ops.one('gather', all, 1, ids); // [B, 1]
  return { ids: ops.one('squeeze.dim', ids, 1), logProbs: ops.one('squeeze.dim', logProbs, 1) };
}

/** Probabilities [B, V] with those outside of top-k, then of the nucleus, set to 0. Ties of the last kept token stay. */
function kept(ops: Operators, probabilities: Tensor, topP: number, topK: number | undefined): Tensor {
  let mass: Tensor = probabilities;
  if (topK !== undefined && topK < mass.shape[1]!) {
    const [largest] = ops.many('topk', mass, topK); // [B, K], descending
    const least = ops.one('narrow', largest!, 1, topK - 1, 1); // [B, 1]
    mass = ops.one('mul.Tensor', mass, ops.one('ge.Tensor', mass, least));
  }
  if (topP === 1) return mass;
  const total = ops.one('sum.dim_IntList', mass, [-1], true); // [B, 1]
  const [sorted, order] = ops.many('sort', mass, -1, true); // [B, V] each
  const before = ops.one('sub.Tensor', ops.one('cumsum', sorted!, -1, 'float64'), sorted!); // mass before each
  const within = ops.one('lt.Tensor', before, ops.one('mul.Scalar', total, topP));
  const inOrder = ops.one('mul.Tensor', sorted!, within);
  return ops.one('scatter.src', ops.one('zeros_like', mass), 1, order!, inOrder);
}

/**
 * Inverse cumulative distribution in float64: the first token whose cumulative mass exceeds draw · total. Draws
 * stop short of the total, so that a token of zero mass is never found, whatever the caller passes.
 */
function invert(ops: Operators, weights: Tensor, draws: Tensor): Tensor {
  const cumulative = ops.one('cumsum', weights, -1, 'float64'); // [B, V]
  const total = ops.one('narrow', cumulative, 1, cumulative.shape[1]! - 1, 1); // [B, 1]
  const below = ops.one('clamp', ops.one('to.dtype', draws, 'float64'), 0, 1 - 2 ** -32);
  const found = ops.one('searchsorted.Tensor', cumulative, ops.one('mul.Tensor', below, total), false, true);
  return ops.one('clamp', found, null, cumulative.shape[1]! - 1); // [B, 1]; NaN logits find V
}

export function sinkhorn(ops: Operators, input: SinkhornInput): SinkhornResult {
  const { cost, rows, columns, epsilon, iterations } = input;
  ops.check('sinkhorn', [cost, rows, columns]);
  const [count, length, width] = cost.shape as [number, number, number]; // B, T, S
  const fits = rows.shape.join() === `${count},${length}` && columns.shape.join() === `${count},${width}`;
  if (cost.shape.length !== 3 || !fits || [cost, rows, columns].some(({ dtype }) => dtype !== 'float64')) {
    throw new EngineError(
      `sinkhorn: cost ${shapeText(cost)}, rows ${shapeText(rows)} and columns ${shapeText(columns)} do not fit: ` +
        'want [B, T, S], [B, T] and [B, S], all of float64',
    );
  }
  if (!(epsilon > 0) || !(Number.isInteger(iterations) && iterations > 0)) {
    throw new EngineError(`sinkhorn: ε > 0 and iterations ≥ 1 wanted, got ${epsilon} and ${iterations}`);
  }
  if (ops.device === 'cpu') {
    const [distance, rowSums, u, v] = ops.many(
      'timeseer::sinkhorn',
      ...([cost, rows, columns, epsilon, iterations] as const),
    );
    return { distance: distance!, rowSums: rowSums!, u: u!, v: v! };
  }
  return sinkhornByProducts(ops, input);
}

/** Sinkhorn as batched products over the kernels of all problems: few calls, as a GPU prefers. */
function sinkhornByProducts(
  ops: Operators,
  { cost, rows, columns, epsilon, iterations }: SinkhornInput,
): SinkhornResult {
  const kernel = ops.one('exp', ops.one('mul.Scalar', cost, -1 / epsilon)); // [B, T, S]
  const turned = ops.one('transpose.int', kernel, 1, 2); // [B, S, T]
  const r = ops.one('unsqueeze', rows, 2); // [B, T, 1]
  const c = ops.one('unsqueeze', columns, 2); // [B, S, 1]
  let u = r;
  // A padded column must not take part in the first scaling of the rows.
  let v = ops.one('to.dtype', ops.one('gt.Scalar', c, 0), 'float64'); // [B, S, 1]
  for (let i = 0; i < iterations; i++) {
    u = ops.one('div.Tensor', r, ops.one('matmul', kernel, v));
    v = ops.one('div.Tensor', c, ops.one('matmul', turned, u));
  }
  const scaled = ops.one('mul.Tensor', kernel, u);
  const plan = ops.one('mul.Tensor', scaled, ops.one('transpose.int', v, 1, 2)); // [B, T, S]
  return {
    distance: ops.one('sum.dim_IntList', ops.one('mul.Tensor', plan, cost), [1, 2]), // [B]
    rowSums: ops.one('sum.dim_IntList', plan, [2]), // [B, T]
    u: ops.one('squeeze.dim', u, 2),
    v: ops.one('squeeze.dim', v, 2),
  };
}

export function adamW(ops: Operators, state: AdamWState, options: AdamWOptions): void {
  const { parameters, gradients, firstMoment, secondMoment, decay } = state;
  const { learningRate, beta1, beta2, epsilon, step, scale = 1 } = options;
  const all = [
    parameters,
    gradients,
    firstMoment,
    secondMoment,
    ...(typeof decay === 'number' ? [] : [decay]),
  ];
  ops.check('adamW', all);
  if (!all.every((tensor) => sameShape(tensor, parameters))) {
    throw new EngineError(`adamW: all tensors must have one shape, got ${all.map(shapeText).join(', ')}`);
  }
  if (!(step >= 1)) throw new EngineError(`adamW: step counts from 1, got ${step}`);
  const decays = typeof decay === 'number' ? null : decay;
  const factors = [
    typeof decay === 'number' ? decay : 0,
    scale,
    learningRate,
    beta1,
    beta2,
    epsilon,
  ] as const;
  if (
    ops.device === 'cpu' &&
    ops.flag('timeseer::adam_w', parameters, gradients, firstMoment, secondMoment, decays, ...factors, step)
  ) {
    return;
  }
  const scaled = scale === 1 ? gradients : ops.one('mul.Scalar', gradients, scale);
  if (typeof decay !== 'number') ops.inPlace('addcmul_', parameters, parameters, decay, -learningRate);
  else if (decay !== 0) ops.inPlace('mul_.Scalar', parameters, 1 - learningRate * decay);
  ops.inPlace('lerp_.Scalar', firstMoment, scaled, 1 - beta1);
  ops.inPlace('mul_.Scalar', secondMoment, beta2);
  ops.inPlace('addcmul_', secondMoment, scaled, scaled, 1 - beta2);
  const denominator = ops.one('sqrt', secondMoment); // [P]
  ops.inPlace('div_.Scalar', denominator, Math.sqrt(1 - beta2 ** step));
  ops.inPlace('add_.Scalar', denominator, epsilon);
  ops.inPlace('addcdiv_', parameters, firstMoment, denominator, -learningRate / (1 - beta1 ** step));
}
