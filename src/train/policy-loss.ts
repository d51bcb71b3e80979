/**
 * The loss of policy optimisation over tokens, as a sum: the caller divides its gradient by the denominator of the whole update.
 * Everything of it is chosen by name: level of the probability ratio, clipping, aggregation, divergence from the reference.
 */
import type { Engine, Tensor } from '../engine/engine.ts';

export type RatioLevel = 'token' | 'sequence' | 'kalman';

export type Aggregation = 'token_mean' | 'sequence_mean' | 'constant';

export const KL_ESTIMATORS = ['k1', 'k2', 'k3'] as const;
export type KlEstimator = (typeof KL_ESTIMATORS)[number];

/** |log(π_ref/π)| beyond which the k3 of a token stays what it is there: its exponential stays finite, as in verl. */
const LOG_RATIO_LIMIT = 20;
/** Largest k3 that one token counts with, reached at π_ref/π of 13.6 or 2e-5; as in verl's `low_var_kl`. */
const K3_LIMIT = 10;
/** Largest log-ratio of a level other than the token's, as in verl's GSPO; beyond it there is no gradient. */
const LEVEL_LIMIT = 10;
/** No bound, as far as float32 goes. */
const LOWEST = -1e38;

/**
 * Length-normalised log-ratio of each response at each of its tokens (GSPO, Zheng et al. 2025, arXiv 2507.18071):
 * log s = mean_t log(π/π_old). `lengths` [B] of the responses in `logRatio` [K], K = Σ lengths.
 */
export function sequenceLogRatio(logRatio: Float32Array, lengths: readonly number[]): Float32Array {
  const out = new Float32Array(logRatio.length);
  let at = 0;
  for (const length of lengths) {
    let sum = 0;
    for (let t = at; t < at + length; t++) sum += logRatio[t]!;
    out.fill(sum / Math.max(1, length), at, at + length);
    at += length;
  }
  return out;
}

/**
 * Log-ratios filtered causally along the tokens of each response (KPO, He et al. 2026, arXiv 2602.10609): the log-ratio y_t of a
 * token is a noisy measurement of a latent state that is a random walk,
 *   P⁻ = P_{t−1} + Q,  K = P⁻ / (P⁻ + V),  z_t = z_{t−1} + K·(y_t − z_{t−1}),  P_t = (1 − K)·P⁻,
 * for V = 1, since with fixed noises only Q/V matters: the gain depends on t alone. Every response begins at z = 0 with P = V:
 * sampler and policy are taken to be equal before the first token. Q/V → 0: the mean of the log-ratios so far and one zero; Q/V → ∞:
 * the token's own log-ratio.
 *
 * Known of the paper here are its abstract (latent state, online causal filter) and, from work on it, Q = 1e-6 and V = 1; its
 * initial state, and whether its filter is differentiated, are not. Here the state has no gradient, as the ratio of GSPO.
 * @param noise Q/V ≥ 0
 */
export function kalmanLogRatio(
  logRatio: Float32Array,
  lengths: readonly number[],
  noise: number,
): Float32Array {
  const out = new Float32Array(logRatio.length);
  let at = 0;
  for (const length of lengths) {
    let state = 0;
    let variance = 1;
    for (let t = at; t < at + length; t++) {
      const predicted = variance + noise;
      const gain = predicted / (predicted + 1);
      state += gain * (logRatio[t]! - state);
      variance = (1 - gain) * predicted;
      out[t] = state;
    }
    at += length;
  }
  return out;
}

/**
 * Weight of each token [K] in the sum of an update, which is divided by `lossDenominator`; null: all 1.
 * `token_mean`: Σ_i Σ_t / Σ_i T_i (DAPO, Yu et al. 2025, eq. 8); `sequence_mean`: mean over responses of their token means (GRPO, Shao
 * et al. 2024, eq. 3; GSPO); `constant`: Σ_i Σ_t / (responses · longest response), which does not depend on what was sampled (Dr.
 * GRPO, Liu et al. 2025, listing 1).
 */
export function tokenWeights(aggregation: Aggregation, lengths: readonly number[]): Float32Array | null {
  if (aggregation !== 'sequence_mean') return null;
  const weights = new Float32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const length of lengths) {
    weights.fill(1 / length, at, at + length);
    at += length;
  }
  return weights;
}

/**
 * What the sum over the tokens of an update is divided by, of all its micro-batches and ranks. Tokens and responses are those that take
 * part, groups without an advantage left out; `most` = responses of the update, left out or not, × longest response.
 */
export function lossDenominator(
  aggregation: Aggregation,
  { tokens, responses, most }: { readonly tokens: number; readonly responses: number; readonly most: number },
): number {
  return { token_mean: tokens, sequence_mean: responses, constant: most }[aggregation];
}

/**
 * Entropy from which a token belongs to the `share` of tokens with the highest entropies: their (1 − share) quantile, interpolated
 * linearly as by torch.quantile. −Infinity for no entropies. Wang et al. 2025 ("Beyond the 80/20 rule", arXiv 2506.01939).
 */
export function entropyThreshold(entropies: Float64Array, share: number): number {
  if (entropies.length === 0) return -Infinity;
  const sorted = entropies.toSorted();
  const place = (1 - share) * (sorted.length - 1);
  const below = Math.floor(place);
  const [low, high] = [sorted[below]!, sorted[Math.min(below + 1, sorted.length - 1)]!];
  return low + (place - below) * (high - low);
}

/**
 * Estimate of KL(π ‖ π_ref) from one token (Schulman 2020), x = π_ref/π: k1 = −log x, k2 = (log x)² / 2, and k3 = min(10, x − 1 − log x)
 * with |log x| ≤ 20, as verl's `kl_penalty`. The expectation over π of k1 and of k3 (but for its limits) is the divergence, that of k2
 * nearly.
 */
export function klEstimate(estimator: KlEstimator, logProb: number, referenceLogProb: number): number {
  const apart = referenceLogProb - logProb;
  if (estimator === 'k1') return -apart;
  if (estimator === 'k2') return 0.5 * apart * apart;
  const held = Math.max(-LOG_RATIO_LIMIT, Math.min(LOG_RATIO_LIMIT, apart));
  return Math.min(K3_LIMIT, Math.exp(held) - held - 1);
}

/**
 * Σ_t of the estimate over the tokens of a response [T]: in the reward, times β, it is what verl's `apply_kl_penalty` and TRL's RLOO (k1)
 * take from it.
 */
export function klSum(
  estimator: KlEstimator,
  logProbs: Float32Array,
  referenceLogProbs: Float32Array,
): number {
  return logProbs.reduce((sum, value, t) => sum + klEstimate(estimator, value, referenceLogProbs[t]!), 0);
}

/** The same of tokens [N], with gradient: of k1 it is 0 in expectation over π, of k2 that of KL(π ‖ π_ref), of k3 that of KL(π_ref ‖ π). */
function klTerms(engine: Engine, estimator: KlEstimator, logProb: Tensor, referenceLogProb: Tensor): Tensor {
  const apart = engine.sub(referenceLogProb, logProb); // [N]
  if (estimator === 'k1') return engine.mul(apart, -1);
  if (estimator === 'k2') return engine.mul(engine.mul(apart, apart), 0.5);
  const logRatio = engine.clamp(apart, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT); // [N]
  const each = engine.sub(engine.sub(engine.exp(logRatio), logRatio), 1); // [N], k3 before its limit
  return engine.clamp(each, -K3_LIMIT, K3_LIMIT); // [N]
}

export interface PolicyLossInput {
  readonly logProb: Tensor; // [N], with gradient
  readonly entropy: Tensor; // [N], with gradient
  readonly oldLogProb: Tensor; // [N]
  readonly referenceLogProb: Tensor; // [N]
  readonly advantage: Tensor; // [N], the response's advantage at each of its tokens
  /** Log-ratio of another level than the token's, without gradient; absent: that of the token. */
  readonly logRatio?: Tensor | null; // [N]
  /** Weight of each token in the sum (`tokenWeights`); absent: 1. */
  readonly weight?: Tensor | null; // [N]
  /** 1 at tokens that have a policy gradient and an entropy bonus, 0 at others; absent: all have. */
  readonly active?: Tensor | null; // [N]
}

export interface PolicyLossOptions {
  /** `ppo`: clipped ratio × advantage; `cispo`: clipped ratio, detached, × advantage × log π. */
  readonly loss: 'ppo' | 'cispo';
  /** The ratio is clipped to 1 − clipRatio … */
  readonly clipRatio: number;
  /** … 1 + clipRatioHigh (DAPO's clip-higher); null: 1 + clipRatio. */
  readonly clipRatioHigh: number | null;
  /** Dual clip: with a negative advantage A, a token counts with no less than this × A; null: no such bound. */
  readonly clipRatioDual: number | null;
  /** Weight β of the divergence from the reference; 0: none. */
  readonly kl: number;
  readonly klEstimator: KlEstimator;
  /** Weight η of the entropy bonus. */
  readonly entropy: number;
}

/** Sums over tokens; `kl`, `entropy` and `clipped` are plain numbers for the log, not weighted. */
export interface PolicyLoss {
  readonly loss: Tensor; // []
  /** k3, whichever estimate the loss has. */
  readonly kl: number;
  readonly entropy: number;
  /** Tokens whose ratio was held back: by `ppo` they have no policy gradient. */
  readonly clipped: number;
}

/**
 * Σ_t w_t·(−m_t·J_t + β·KL_t − η·m_t·H_t), with weights w and mask m, and
 *
 *  `ppo`    J = min(ρ·A, clip(ρ, 1 − c, 1 + c_high)·A) (Schulman et al. 2017; clip-higher: DAPO, Yu et al. 2025, eq. 8); with a dual
 *           clip max(J, c_dual·A) where A < 0 (Ye et al. 2020, arXiv 1912.09729)
 *  `cispo`  J = sg(clip(ρ, 1 − c, 1 + c_high))·A·log π (MiniMax-M1, arXiv 2506.13585; as in verl; the paper has no lower bound)
 *
 * ρ = π/π_old at token level. At another level log ρ_t = sg(level_t) + log π_t − sg(log π_t): its value is that of the level, its
 * gradient reaches log π of the token alone (GSPO-token; for equal advantages of a response its sum is the gradient of GSPO).
 * With the mask that is the loss of Wang et al. 2025, and TRL's, which also masks the entropy bonus.
 * Edge cases: on policy ρ = 1 and the gradient of J is A at every level and by either loss. A token at the limit of k3 has no gradient of
 * it: the reference no longer pulls it back, and cannot drown the rest. What is not finite is not hidden.
 */
export function policyLoss(engine: Engine, input: PolicyLossInput, options: PolicyLossOptions): PolicyLoss {
  const { logProb, advantage, logRatio = null, weight = null, active = null } = input;
  const high = options.clipRatioHigh ?? options.clipRatio;
  return engine.scope(() => {
    const weighted = (terms: Tensor, by: Tensor | null): Tensor =>
      by === null ? terms : engine.mul(terms, by);
    const apart =
      logRatio === null
        ? engine.sub(logProb, input.oldLogProb)
        : engine.clamp(
            engine.add(logRatio, engine.sub(logProb, engine.detach(logProb))),
            -LOG_RATIO_LIMIT,
            LEVEL_LIMIT,
          ); // [N]
    const ratio = engine.exp(apart); // [N]
    const held = engine.clamp(ratio, 1 - options.clipRatio, 1 + high); // [N]
    const plain = engine.mul(ratio, advantage); // [N]
    const clipped = engine.mul(held, advantage); // [N]
    let gain: Tensor; // [N]
    let bounded: Tensor; // [N]
    if (options.loss === 'cispo') {
      bounded = clipped;
      gain = engine.mul(engine.detach(clipped), logProb);
    } else {
      const lower = engine.minimum(plain, clipped); // [N]
      bounded =
        options.clipRatioDual === null ? lower : dualClipped(engine, lower, advantage, options.clipRatioDual);
      gain = bounded;
    }
    const objective = engine.sum(weighted(weighted(gain, active), weight)); // []
    const k3Terms = klTerms(engine, 'k3', logProb, input.referenceLogProb); // [N]
    const klEach =
      options.klEstimator === 'k3'
        ? k3Terms
        : klTerms(engine, options.klEstimator, logProb, input.referenceLogProb);
    const divergence = engine.sum(weighted(klEach, weight)); // []
    const bonus = engine.sum(weighted(weighted(input.entropy, active), weight)); // []
    const loss = engine.sub(
      engine.sub(engine.mul(divergence, options.kl), objective),
      engine.mul(bonus, options.entropy),
    ); // []
    const before = engine.floats(plain);
    const after = engine.floats(bounded);
    return {
      loss,
      kl: klEach === k3Terms && weight === null ? engine.item(divergence) : engine.item(engine.sum(k3Terms)),
      entropy:
        active === null && weight === null ? engine.item(bonus) : engine.item(engine.sum(input.entropy)),
      clipped: before.reduce(
        (count, value, i) => count + (after[i]! < value || after[i]! > value ? 1 : 0),
        0,
      ),
    };
  });
}

/** max(J, c·A) where A < 0; J ≥ 0 elsewhere, so that max(J, 0) leaves it as it is: [N]. */
function dualClipped(engine: Engine, gain: Tensor, advantage: Tensor, dual: number): Tensor {
  const bound = engine.mul(engine.clamp(advantage, LOWEST, 0), dual); // [N]
  return engine.mul(engine.minimum(engine.mul(gain, -1), engine.mul(bound, -1)), -1); // [N]
}
