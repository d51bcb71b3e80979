/** Optimal transport between the hidden states of a response and those of the expert trace (AnomSeer, TimerPO). */
import type { Engine, Tensor } from '../engine/engine.ts';
import { ConfigError } from '../ground/errors.ts';

export interface TransportOptions {
  /** Entropic regularisation ε > 0. */
  readonly epsilon: number;
  /** Fixed number of Sinkhorn iterations; each scales rows, then columns. */
  readonly iterations: number;
  /** Similarity is exp(−W / τ). */
  readonly tau: number;
  /** Mass of a token: softmax of the norms of the states (AnomSeer), or uniform. */
  readonly marginals: 'norm' | 'uniform';
  /** Also computes the transported cost of each response token. Default: false. */
  readonly tokenCosts?: boolean;
}

export const TIMERPO_TRANSPORT: TransportOptions = {
  epsilon: 0.08,
  iterations: 50,
  tau: 0.5,
  marginals: 'norm',
};

/** Padded rows of hidden states: states [B, T, D], valid lengths [B]. */
export interface HiddenStates {
  readonly states: Tensor;
  readonly lengths: Int32Array;
}

interface TransportResult {
  /** W = ⟨plan, cost⟩ per response: [B], ≥ 0. */
  readonly distance: Float64Array;
  /** exp(−W / τ) clamped to [0, 1]: [B]. */
  readonly similarity: Float64Array;
  /** Convergence report, largest |row sum of the plan − marginal| per response: [B]. */
  readonly rowError: Float64Array;
  /** Effective number of tokens that carry mass, exp of the entropy of the row marginal, per response: [B], in [1, T]. */
  readonly tokens: Float64Array;
  /**
   * Effective number of trace tokens that a response token's mass goes to, exp(H(plan) − H(row sums)), per response: [B], in [1, S]. Where
   * it equals that of the column marginal, the plan is the product of its marginals and matches nothing: ε is too large for these costs.
   */
  readonly partners: Float64Array;
  /**
   * Transported cost of each response token over its mass, e_t = Σ_s plan_ts C_ts / Σ_s plan_ts, in [0, 2], 0 at padding: [B·T]; null
   * unless requested. Σ_t e_t Σ_s plan_ts = W.
   */
  readonly tokenCosts: Float64Array | null;
}

const FLOOR = 1e-12;
/** Added to norms before dividing, as the independent program behind the golden numbers does. */
const NORM_EPSILON = 1e-6;
/** Above this max-cost/ε the Gibbs kernel of float64 comes near underflow and the log domain is used. */
const SCALING_LIMIT = 500;

/**
 * softmax(‖h_t‖) over valid positions, floored at 1e-12 (so that logs stay finite) and renormalised; 0 at
 * padding: [B, T] float64.
 */
export function marginals(norms: Float64Array, lengths: Int32Array, width: number): Float64Array {
  const out = new Float64Array(norms.length);
  for (let b = 0; b < lengths.length; b++) {
    const start = b * width;
    const valid = lengths[b]!;
    let max = -Infinity;
    for (let t = 0; t < valid; t++) max = Math.max(max, norms[start + t]!);
    let sum = 0;
    for (let t = 0; t < valid; t++) sum += Math.exp(norms[start + t]! - max);
    let floored = 0;
    for (let t = 0; t < valid; t++) {
      const mass = Math.max(Math.exp(norms[start + t]! - max) / sum, FLOOR);
      out[start + t] = mass;
      floored += mass;
    }
    for (let t = 0; t < valid; t++) out[start + t]! /= floored;
  }
  return out;
}

/** Returns equal mass for every valid position, 0 at padding: [B, T] float64. */
function uniformMarginals(lengths: Int32Array, width: number): Float64Array {
  const out = new Float64Array(lengths.length * width);
  lengths.forEach((length, b) => {
    out.fill(1 / length, b * width, b * width + length);
  });
  return out;
}

/** Divides states by their norms, in float64 [B, T, D], and computes the mass of each token [B·T] on the host. */
function normalised(
  engine: Engine,
  { states, lengths }: HiddenStates,
  kind: TransportOptions['marginals'],
): { unit: Tensor; marginal: Float64Array } {
  const [rows, width] = states.shape as [number, number, number];
  const wide = engine.cast(states, 'float64'); // [B, T, D]
  const norms = engine.norm(wide); // [B, T]
  const unit = engine.div(wide, engine.add(engine.reshape(norms, [rows, width, 1]), NORM_EPSILON)); // [B, T, D]
  const marginal =
    kind === 'norm' ? marginals(engine.doubles(norms), lengths, width) : uniformMarginals(lengths, width);
  return { unit, marginal };
}

/** Entropy −Σ p log p of part of an array, in nats; zeros count nothing. */
function entropyOf(masses: Float64Array, start: number, end: number): number {
  let sum = 0;
  for (let i = start; i < end; i++) if (masses[i]! > 0) sum -= masses[i]! * Math.log(masses[i]!);
  return sum;
}

/** Σ mass · potential over part of two arrays; potentials without mass are ignored. */
function potentialOf(masses: Float64Array, potentials: Float64Array, start: number, end: number): number {
  let sum = 0;
  for (let i = start; i < end; i++) if (masses[i]! > 0) sum += masses[i]! * potentials[i]!;
  return sum;
}

/**
 * Transports B = P·G responses to the traces of their P prompts; G consecutive responses share a trace. Sinkhorn in float64, a fixed number
 * of `iterations` that scale rows first (AnomSeer), batched over all responses. For 2/ε ≤ 500 (C ≤ 2) it uses the scaling form
 * (`Engine.sinkhorn`), which has the same iterates as the log domain at a fraction of the time; otherwise the log domain.
 * @throws ConfigError for ε ≤ 0, no iteration, τ ≤ 0, or an empty response or trace.
 */
export function transport(
  engine: Engine,
  responses: HiddenStates,
  traces: HiddenStates,
  options: TransportOptions = TIMERPO_TRANSPORT,
): TransportResult {
  const { epsilon, iterations, tau } = options;
  if (!(epsilon > 0) || !(tau > 0) || !(Number.isInteger(iterations) && iterations > 0)) {
    throw new ConfigError(
      `transport: epsilon and tau must be > 0 and iterations a positive integer, got ${epsilon}, ${tau}, ${iterations}`,
    );
  }
  for (const [name, lengths] of [
    ['response', responses.lengths],
    ['trace', traces.lengths],
  ] as const) {
    const empty = lengths.indexOf(0);
    if (empty >= 0)
      throw new ConfigError(`transport: ${name} ${empty} has no token; nothing can be transported`);
  }
  return engine.noGrad(() =>
    engine.scope(() => {
      const [rows, length, width] = responses.states.shape as [number, number, number]; // B, T, D
      const [prompts, traceLength] = traces.states.shape as [number, number, number]; // P, S
      const group = rows / prompts; // G
      const from = normalised(engine, responses, options.marginals);
      const to = normalised(engine, traces, options.marginals);
      const grouped = engine.reshape(from.unit, [prompts, group * length, width]); // [P, G·T, D]
      const cosine = engine.matmul(grouped, engine.permute(to.unit, [0, 2, 1])); // [P, G·T, S]
      const distanceMatrix = engine.clamp(engine.add(engine.mul(cosine, -1), 1), 0, 2); // [P, G·T, S]
      const cost = engine.reshape(distanceMatrix, [rows, length, traceLength]); // [B, T, S]

      const spread = new Float64Array(rows * traceLength); // [B·S]
      for (let b = 0; b < rows; b++) {
        const p = Math.floor(b / group);
        spread.set(to.marginal.subarray(p * traceLength, (p + 1) * traceLength), b * traceLength);
      }
      const { tokenCosts: costed = false } = options;
      const problem = { cost, rowMass: from.marginal, columnMass: spread, epsilon, iterations, costed };
      const solve = 2 / epsilon <= SCALING_LIMIT ? byScaling : inLogDomain;
      const { distance, rowSums, logU, logV, rowCosts } = solve(engine, problem);
      const tokens = new Float64Array(rows);
      const partners = new Float64Array(rows);
      const rowError = new Float64Array(rows);
      for (let b = 0; b < rows; b++) {
        const [first, last] = [b * length, (b + 1) * length];
        for (let t = first; t < last; t++) {
          rowError[b] = Math.max(rowError[b]!, Math.abs(rowSums[t]! - from.marginal[t]!));
        }
        tokens[b] = Math.exp(entropyOf(from.marginal, first, last));
        // log plan = log u − C/ε + log v, and columns were scaled last, so their sums are the marginal: H(plan) without the plan.
        const entropy =
          distance[b]! / epsilon -
          potentialOf(rowSums, logU, first, last) -
          potentialOf(spread, logV, b * traceLength, (b + 1) * traceLength);
        partners[b] = Math.exp(entropy - entropyOf(rowSums, first, last));
      }
      const similarity = distance.map((w) => Math.min(1, Math.max(0, Math.exp(-w / tau))));
      const tokenCosts = rowCosts?.map((value, t) => (rowSums[t]! > 0 ? value / rowSums[t]! : 0)) ?? null;
      return { distance, similarity, rowError, tokens, partners, tokenCosts };
    }),
  );
}

interface Problem extends Pick<TransportOptions, 'epsilon' | 'iterations'> {
  readonly cost: Tensor; // [B, T, S]
  readonly rowMass: Float64Array; // [B·T]
  readonly columnMass: Float64Array; // [B·S]
  /** True: the cost of each row is computed too. */
  readonly costed: boolean;
}

/** Summary of a transport plan, with the logarithms of its scalings (undefined at padding). */
interface Scaled {
  readonly distance: Float64Array; // [B]
  readonly rowSums: Float64Array; // [B·T]
  readonly logU: Float64Array; // [B·T]
  readonly logV: Float64Array; // [B·S]
  /** Σ_s plan_ts C_ts, if requested: [B·T]. */
  readonly rowCosts: Float64Array | null;
}

/** Plans diag(u)·exp(−C/ε)·diag(v); padding has zero mass and stays zero. */
function byScaling(engine: Engine, problem: Problem): Scaled {
  const { cost, rowMass, columnMass, epsilon, iterations, costed } = problem;
  const [count, length, width] = cost.shape as [number, number, number];
  const rows = engine.tensor(rowMass, [count, length]);
  const columns = engine.tensor(columnMass, [count, width]);
  const { distance, rowSums, u, v } = engine.sinkhorn({ cost, rows, columns, epsilon, iterations });
  const rowCosts = (): Float64Array => {
    const priced = engine.mul(engine.exp(engine.mul(cost, -1 / epsilon)), cost); // [B, T, S]
    const received = engine.sum(engine.mul(priced, engine.reshape(v, [count, 1, width])), 2); // [B, T]
    return engine.doubles(engine.mul(received, engine.reshape(u, [count, length])));
  };
  return {
    rowCosts: costed ? rowCosts() : null,
    distance: engine.doubles(distance),
    rowSums: engine.doubles(rowSums),
    logU: engine.doubles(u).map(Math.log),
    logV: engine.doubles(v).map(Math.log),
  };
}

/** Computes the same iterates in the log domain, f = log u and g = log v; padding is −Infinity. */
function inLogDomain(engine: Engine, problem: Problem): Scaled {
  const { cost, rowMass, columnMass, epsilon, iterations, costed } = problem;
  const [rows, length, traceLength] = cost.shape as [number, number, number];
  const logKernel = engine.mul(cost, -1 / epsilon); // [B, T, S]
  const logR = engine.tensor(rowMass.map(Math.log), [rows, length, 1]);
  const logC = engine.tensor(columnMass.map(Math.log), [rows, 1, traceLength]);
  let f = logR;
  const start = columnMass.map((mass) => (mass > 0 ? 0 : -Infinity));
  let g: Tensor = engine.tensor(start, [rows, 1, traceLength]);
  for (let i = 0; i < iterations; i++) {
    [f, g] = engine.scope(() => {
      const rowLog = engine.logSumExp(engine.add(logKernel, g), 2); // [B, T]
      const nextF = engine.sub(logR, engine.reshape(rowLog, [rows, length, 1]));
      const columnLog = engine.logSumExp(engine.add(logKernel, nextF), 1); // [B, S]
      return [nextF, engine.sub(logC, engine.reshape(columnLog, [rows, 1, traceLength]))] as const;
    }) as [Tensor, Tensor];
  }
  const plan = engine.exp(engine.add(engine.add(logKernel, f), g)); // [B, T, S]
  const rowCost = engine.sum(engine.mul(plan, cost), 2); // [B, T]
  return {
    rowCosts: costed ? engine.doubles(rowCost) : null,
    distance: engine.doubles(engine.sum(rowCost, 1)),
    rowSums: engine.doubles(engine.sum(plan, 2)),
    logU: engine.doubles(f),
    logV: engine.doubles(g),
  };
}
