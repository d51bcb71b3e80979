/**
 * Losses over tokens, and how they are differentiated. A loss is a sum over tokens: the caller divides the gradient by the denominator of
 * the whole update. A sum can be differentiated in chunks of tokens, so that the logits `[tokens, vocab]` are never held whole: the
 * gradient with respect to the hidden states is computed chunk by chunk, and the backbone's backward pass starts from there. Exact.
 *
 * Four tables hold the parts of the policy loss by name: `RATIOS` (level of the probability ratio), `LOSSES` (clipping), `AGGREGATIONS`
 * (mean over an update) and `KL_ESTIMATORS` (divergence from the reference policy). A new choice is a record in its table.
 */
import type { Engine, LogProbOptions, Tensor } from '../engine/engine.ts';
import type { Choice } from '../ground/choice.ts';
import { quantile } from '../ground/numbers.ts';

/** Computes the supervised loss −Σ log π(target) from log-probabilities [N]: []. */
export function supervisedLoss(engine: Engine, logProb: Tensor): Tensor {
  return engine.mul(engine.sum(logProb), -1); // []
}

/** Maximum logits held at once: 64 MiB in float32; log-probabilities and their gradients take a few times that. */
const CHUNK_LOGITS = 1 << 24;
/** Maximum logits held at once on a GPU, where smaller products are bound by reading the head's weights: eight times as many. */
const CUDA_CHUNK_LOGITS = 1 << 27;

/** Returns the number of tokens whose logits are held at once. */
export function chunkTokens(engine: Engine, vocabulary: number): number {
  const logits = engine.info.device === 'cpu' ? CHUNK_LOGITS : CUDA_CHUNK_LOGITS;
  return Math.max(1, Math.floor(logits / vocabulary));
}

/** Computes log π over the vocabulary, after mask and temperature: hidden [N, D], head [V, D] → [N, V], at least float32. */
export function vocabularyLogProbs(
  engine: Engine,
  hidden: Tensor,
  head: Tensor,
  { temperature = 1, mask }: LogProbOptions,
): Tensor {
  const product = engine.linear(hidden, head); // [N, V]
  const logits = product.dtype === 'bfloat16' ? engine.cast(product, 'float32') : product;
  const allowed = mask === undefined ? logits : engine.add(logits, mask);
  return engine.logSoftmax(engine.div(allowed, temperature));
}

/**
 * Computes the log of the probability that the next token is any of some ids: from log π over the vocabulary [k, V] and the ids of each token
 * [k][C], each once: [k].
 */
export function logProbOfAny(
  engine: Engine,
  vocabulary: Tensor,
  choices: readonly (readonly number[])[],
): Tensor {
  const [tokens, size] = vocabulary.shape as [number, number];
  const most = Math.max(...choices.map((ids) => ids.length)); // C
  const index = new Int32Array(tokens * most);
  const absent = new Float32Array(tokens * most);
  choices.forEach((ids, t) => {
    for (let c = 0; c < most; c++) {
      index[t * most + c] = t * size + (ids[c] ?? ids[0]!);
      if (c >= ids.length) absent[t * most + c] = LOWEST;
    }
  });
  const flat = engine.reshape(vocabulary, [tokens * size, 1]);
  const chosen = engine.indexSelect(flat, engine.tensor(index, [tokens * most])); // [k·C, 1]
  const known = engine.add(engine.reshape(chosen, [tokens, most]), engine.tensor(absent, [tokens, most]));
  return engine.logSumExp(known, 1);
}

/**
 * Computes the loss [] of tokens start … end from log-probabilities [k] and entropies [k]. `vocabulary`: log
 * π over the vocabulary [k, V], with gradient, at the chunk's tokens or a range of them.
 */
export type TokenLoss = (
  logProb: Tensor,
  entropy: Tensor | null,
  start: number,
  end: number,
  vocabulary: (from?: number, to?: number) => Tensor,
) => Tensor;

/** Joins two losses: one of the first `count` tokens, and one of the others, for which token `count` has index 0. */
export function joinedLoss(engine: Engine, count: number, first: TokenLoss, others: TokenLoss): TokenLoss {
  return (logProb, entropy, start, end, vocabulary) => {
    const middle = Math.min(end, Math.max(start, count));
    const part = (loss: TokenLoss, from: number, to: number, origin: number): Tensor => {
      const ofPart = (values: Tensor): Tensor => engine.narrow(values, 0, from - start, to - from);
      const entropies = entropy === null ? null : ofPart(entropy);
      return loss(ofPart(logProb), entropies, from - origin, to - origin, () => vocabulary(from, to));
    };
    if (middle === end) return first(logProb, entropy, start, end, vocabulary);
    const ofOthers = part(others, middle, end, count);
    return middle === start ? ofOthers : engine.add(part(first, start, middle, 0), ofOthers);
  };
}

/**
 * Computes the gradient of Σ loss over all K tokens with respect to the hidden states [K, D]. `headGradient` receives the gradient of the head
 * [V, D] in parts that add up to it, one per chunk; null where the head is not trained, which saves the computation.
 */
export function headGradients(
  engine: Engine,
  hidden: Tensor,
  head: Tensor,
  targets: Int32Array,
  options: LogProbOptions,
  loss: TokenLoss,
  headGradient: ((part: Tensor) => void) | null,
  chunk: number = chunkTokens(engine, head.shape[0]!),
): Tensor {
  return engine.scope(() => {
    const [tokens] = hidden.shape as [number, number];
    const weight = headGradient === null ? engine.detach(head) : engine.parameter(head); // [V, D]
    const states = engine.detach(hidden); // [K, D]
    const parts: Tensor[] = [];
    for (let start = 0; start < tokens; start += chunk) {
      const end = Math.min(tokens, start + chunk);
      const part = engine.scope(() => {
        const leaf = engine.parameter(engine.narrow(states, 0, start, end - start)); // [k, D]
        const ids = engine.tensor(targets.subarray(start, end), [end - start]);
        const { logProb, entropy } = engine.logProbs(leaf, weight, ids, options);
        const inputs = headGradient === null ? [leaf] : [leaf, weight];
        const vocabulary = (from = start, to = end): Tensor => {
          const wanted = to - from === end - start ? leaf : engine.narrow(leaf, 0, from - start, to - from);
          return vocabularyLogProbs(engine, wanted, weight, options);
        };
        const [forStates, forHead] = engine.grad(loss(logProb, entropy, start, end, vocabulary), inputs);
        if (forHead !== undefined) headGradient?.(forHead);
        return forStates!;
      });
      parts.push(part);
    }
    return parts.length === 1 ? parts[0]! : engine.concat(parts, 0);
  });
}

// ---- policy loss ---------------------------------------------------------------------------------------------------

/** Clamp of |log(π_ref/π)| in k3, which keeps its exponential finite; as in verl. */
const LOG_RATIO_LIMIT = 20;
/** Maximum k3 of one token, reached at π_ref/π of 13.6 or 2e-5; as in verl's `low_var_kl`. */
const K3_LIMIT = 10;
/** Clamp of log-ratios at levels other than the token's, as in verl's GSPO; no gradient beyond it. */
const LEVEL_LIMIT = 10;
/** Lower bound that float32 values do not reach in practice. */
const LOWEST = -1e38;

/**
 * Computes the length-normalised log-ratio of each response at each of its tokens (GSPO, Zheng et al. 2025, arXiv 2507.18071):
 * log s = mean_t log(π/π_old). `logRatio` [K], `lengths` [B] of the responses, K = Σ lengths.
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
 * Filters log-ratios causally along the tokens of each response (KPO, He et al. 2026, arXiv 2602.10609): the log-ratio y_t of a token is a
 * noisy measurement of a latent random walk,
 *   P⁻ = P_{t−1} + Q,  K = P⁻ / (P⁻ + V),  z_t = z_{t−1} + K·(y_t − z_{t−1}),  P_t = (1 − K)·P⁻,
 * with V = 1, since only Q/V matters: the gain depends on t alone. Every response begins at z = 0 with P = V (sampler and policy equal
 * before the first token). Q/V → 0: mean of the log-ratios so far and one zero; Q/V → ∞: the token's own log-ratio.
 *
 * Known from the paper: its abstract (latent state, online causal filter), and from work on it Q = 1e-6 and V = 1. Unknown: its initial
 * state, and if its filter is differentiated. Here the state has no gradient, like the ratio of GSPO.
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

/** Counts of an update, over all its micro-batches and ranks. */
interface UpdateCounts {
  /** Tokens of the groups in the update; skipped groups do not count. */
  readonly tokens: number;
  /** Responses of those groups. */
  readonly responses: number;
  /** All responses, skipped or not, × maximum response length. */
  readonly most: number;
}

/** Returns the weight 1/T of each token in the mean of its response: [K]. */
function perResponse(lengths: readonly number[]): Float32Array {
  const weights = new Float32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const length of lengths) {
    weights.fill(1 / length, at, at + length);
    at += length;
  }
  return weights;
}

/** Mean of the loss over an update: Σ weights · loss / denominator. */
type AggregationRecord = Choice & {
  /** Computes the weight of each token [K] from the response lengths; null: all 1. */
  readonly weights: ((lengths: readonly number[]) => Float32Array) | null;
  readonly denominator: (counts: UpdateCounts) => number;
};

export const AGGREGATIONS = {
  token_mean: {
    label: 'mean over tokens',
    summary: 'mean over all tokens of an update, Σ_i Σ_t / Σ_i T_i',
    paper: 'DAPO, Yu et al. 2025, arXiv 2503.14476',
    weights: null,
    denominator: ({ tokens }) => tokens,
  },
  sequence_mean: {
    label: 'mean over responses',
    summary: 'mean over responses of their token means',
    paper: 'GRPO, Shao et al. 2024, arXiv 2402.03300; GSPO, Zheng et al. 2025, arXiv 2507.18071',
    weights: perResponse,
    denominator: ({ responses }) => responses,
  },
  constant: {
    label: 'constant',
    summary: 'sum over tokens / (responses · rl.maxTokens), independent of the sampled lengths',
    paper: 'Dr. GRPO, Liu et al. 2025, arXiv 2503.20783',
    weights: null,
    denominator: ({ most }) => most,
  },
} as const satisfies Readonly<Record<string, AggregationRecord>>;
export type Aggregation = keyof typeof AGGREGATIONS;

/** Level of the probability ratio. */
type RatioRecord = Choice & {
  /** Computes the log-ratio at each token [K] from token log-ratios and response lengths; null at token level. */
  readonly logRatio:
    | ((logRatio: Float32Array, lengths: readonly number[], options: RatioOptions) => Float32Array)
    | null;
};

export interface RatioOptions {
  /** Q/V of `kalman`. */
  readonly kalmanNoise: number;
}

export const RATIOS = {
  token: { label: 'token', summary: 'ratio of each token', logRatio: null },
  sequence: {
    label: 'GSPO',
    summary: 'length-normalised ratio of the response',
    paper: 'Zheng et al. 2025, arXiv 2507.18071',
    logRatio: sequenceLogRatio,
  },
  kalman: {
    label: 'KPO',
    summary: 'ratio filtered along the tokens of the response',
    paper: 'He et al. 2026, arXiv 2602.10609',
    logRatio: (logRatio, lengths, { kalmanNoise }) => kalmanLogRatio(logRatio, lengths, kalmanNoise),
  },
} as const satisfies Readonly<Record<string, RatioRecord>>;
export type RatioLevel = keyof typeof RATIOS;

/**
 * Returns the minimum entropy of the `share` of tokens with the highest entropies: the (1 − share) quantile, interpolated linearly as by
 * torch.quantile; −Infinity without entropies. Wang et al. 2025 ("Beyond the 80/20 rule", arXiv 2506.01939).
 */
export function entropyThreshold(entropies: Float64Array, share: number): number {
  return entropies.length === 0 ? -Infinity : quantile(entropies.toSorted(), 1 - share);
}

/** Estimator of KL(π ‖ π_ref) from log-ratios log(π_ref/π). */
type KlRecord = Choice & {
  /** Computes the estimate from the log-ratio of one token. */
  readonly estimate: (logRatio: number) => number;
  /** Computes the estimates at tokens [N], with gradient. */
  readonly terms: (engine: Engine, logRatio: Tensor) => Tensor;
};

/** Estimators of the divergence: k1 and, up to its limits, k3 are unbiased over π; k2 is nearly so. */
export const KL_ESTIMATORS = {
  k1: {
    label: 'k1',
    summary: 'log-ratio; as a loss its gradient is 0 in expectation',
    paper: 'Schulman 2020',
    estimate: (logRatio) => -logRatio,
    terms: (engine, logRatio) => engine.mul(logRatio, -1),
  },
  k2: {
    label: 'k2',
    summary: 'half the squared log-ratio; gradient of KL(π ‖ π_ref)',
    paper: 'Schulman 2020',
    estimate: (logRatio) => 0.5 * logRatio * logRatio,
    terms: (engine, logRatio) => engine.mul(engine.mul(logRatio, logRatio), 0.5),
  },
  k3: {
    label: 'k3',
    summary: 'ratio - 1 - log-ratio, low variance, at most 10 per token; gradient of KL(π_ref ‖ π)',
    paper: 'Schulman 2020; limits as in verl',
    estimate: (logRatio) => {
      const bounded = Math.max(-LOG_RATIO_LIMIT, Math.min(LOG_RATIO_LIMIT, logRatio));
      return Math.min(K3_LIMIT, Math.exp(bounded) - bounded - 1);
    },
    terms: (engine, logRatio) => {
      const bounded = engine.clamp(logRatio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT); // [N]
      const k3 = engine.sub(engine.sub(engine.exp(bounded), bounded), 1); // [N], before its limit
      return engine.clamp(k3, -K3_LIMIT, K3_LIMIT); // [N]
    },
  },
} as const satisfies Readonly<Record<string, KlRecord>>;
export type KlEstimator = keyof typeof KL_ESTIMATORS;

/**
 * Sums the estimate over the tokens of a response [T]; subtracted from the reward as in verl and TRL's RLOO
 * (k1).
 */
export function klSum(
  estimator: KlEstimator,
  logProbs: Float32Array,
  referenceLogProbs: Float32Array,
): number {
  const { estimate } = KL_ESTIMATORS[estimator];
  return logProbs.reduce((sum, value, t) => sum + estimate(referenceLogProbs[t]! - value), 0);
}

/** Computes the estimates at tokens [N], with gradient. */
const klTerms = (engine: Engine, estimator: KlEstimator, logProb: Tensor, referenceLogProb: Tensor): Tensor =>
  KL_ESTIMATORS[estimator].terms(engine, engine.sub(referenceLogProb, logProb));

interface PolicyLossInput {
  readonly logProb: Tensor; // [N], with gradient
  readonly entropy: Tensor; // [N], with gradient
  readonly oldLogProb: Tensor; // [N]
  readonly referenceLogProb: Tensor; // [N]
  readonly advantage: Tensor; // [N], the response's advantage at each of its tokens
  /** Log-ratio at another level than the token's (`RATIOS`), without gradient. Default: that of the token. */
  readonly logRatio?: Tensor | null; // [N]
  /** Weight of each token in the sum (`AGGREGATIONS`). Default: 1. */
  readonly weight?: Tensor | null; // [N]
  /** 1 at tokens with policy gradient and entropy bonus, 0 at others. Default: 1. */
  readonly active?: Tensor | null; // [N]
}

export interface PolicyLossOptions {
  /** Name in `LOSSES`. */
  readonly loss: LossName;
  /** Lower clip range: the ratio is at least 1 − clipRatio. */
  readonly clipRatio: number;
  /** Upper clip range: the ratio is at most 1 + clipRatioHigh (DAPO's clip-higher). Null: clipRatio. */
  readonly clipRatioHigh: number | null;
  /** Dual clip: lower bound of a token's objective at a negative advantage A, as a multiple of A; null: none. */
  readonly clipRatioDual: number | null;
  /** Weight β of the divergence from the reference policy; 0: none. */
  readonly kl: number;
  readonly klEstimator: KlEstimator;
  /** Weight η of the entropy bonus. */
  readonly entropy: number;
}

/** Sums over tokens; `kl`, `entropy` and `clipped` are unweighted numbers for the log. */
export interface PolicyLoss {
  readonly loss: Tensor; // []
  /** k3, for every `klEstimator`. */
  readonly kl: number;
  readonly entropy: number;
  /** Number of clipped tokens; with `ppo` they have no policy gradient. */
  readonly clipped: number;
}

/** Clipped surrogate of one chunk of tokens. */
interface Surrogate {
  readonly logProb: Tensor; // [N], with gradient
  readonly advantage: Tensor; // [N]
  /** Ratio × advantage. */
  readonly plain: Tensor; // [N]
  /** Clipped ratio × advantage. */
  readonly clipped: Tensor; // [N]
}

/** Policy loss: the objective that is maximised. */
type LossRecord = Choice & {
  /** True where `rl.clipRatioDual` applies. */
  readonly dualClip: boolean;
  /** Computes `gain` [N], which is differentiated, and `bounded` [N]: a token is clipped where it differs from ratio × advantage. */
  readonly objective: (
    engine: Engine,
    surrogate: Surrogate,
    options: Pick<PolicyLossOptions, 'clipRatioDual'>,
  ) => { readonly gain: Tensor; readonly bounded: Tensor };
};

export const LOSSES = {
  ppo: {
    label: 'PPO',
    summary: 'minimum of ratio times advantage and clipped ratio times advantage',
    paper: 'Schulman et al. 2017, arXiv 1707.06347; dual clip: Ye et al. 2020, arXiv 1912.09729',
    dualClip: true,
    objective: (engine, { advantage, plain, clipped }, { clipRatioDual }) => {
      const lower = engine.minimum(plain, clipped); // [N]
      const gain = clipRatioDual === null ? lower : dualClipped(engine, lower, advantage, clipRatioDual);
      return { gain, bounded: gain };
    },
  },
  cispo: {
    label: 'CISPO',
    summary: 'clipped ratio, detached, times advantage times log-probability',
    paper: 'MiniMax-M1, arXiv 2506.13585',
    dualClip: false,
    objective: (engine, { logProb, clipped }) => ({
      gain: engine.mul(engine.detach(clipped), logProb),
      bounded: clipped,
    }),
  },
} as const satisfies Readonly<Record<string, LossRecord>>;
type LossName = keyof typeof LOSSES;

/**
 * Computes the policy loss Σ_t w_t·(−m_t·J_t + β·KL_t − η·m_t·H_t) with weights w, mask m and surrogate J:
 *
 *  `ppo`    J = min(ρ·A, clip(ρ, 1 − c, 1 + c_high)·A) (Schulman et al. 2017; clip-higher: DAPO, Yu et al. 2025, eq. 8); with a dual
 *           clip max(J, c_dual·A) where A < 0 (Ye et al. 2020, arXiv 1912.09729)
 *  `cispo`  J = sg(clip(ρ, 1 − c, 1 + c_high))·A·log π (MiniMax-M1, arXiv 2506.13585; as in verl; the paper has no lower bound)
 *
 * ρ = π/π_old at token level. At another level log ρ_t = sg(level_t) + log π_t − sg(log π_t): the value of the level, with a gradient
 * through the token's log π alone (GSPO-token; for equal advantages within a response its sum is the gradient of GSPO).
 * The mask gives the loss of Wang et al. 2025, and TRL's, which also masks the entropy bonus.
 * Edge cases: on policy ρ = 1 and the gradient of J is A, at every level and for both losses. A token at the limit of k3 has no KL
 * gradient, so a few such tokens cannot dominate the update. Non-finite values propagate to the caller.
 */
export function policyLoss(engine: Engine, input: PolicyLossInput, options: PolicyLossOptions): PolicyLoss {
  const { logProb, advantage, logRatio = null, weight = null, active = null } = input;
  const high = options.clipRatioHigh ?? options.clipRatio;
  return engine.scope(() => {
    const weighted = (terms: Tensor, by: Tensor | null): Tensor =>
      by === null ? terms : engine.mul(terms, by);
    const logRatioOfLevel =
      logRatio === null
        ? engine.sub(logProb, input.oldLogProb)
        : engine.clamp(
            engine.add(logRatio, engine.sub(logProb, engine.detach(logProb))),
            -LOG_RATIO_LIMIT,
            LEVEL_LIMIT,
          ); // [N]
    const ratio = engine.exp(logRatioOfLevel); // [N]
    const clippedRatio = engine.clamp(ratio, 1 - options.clipRatio, 1 + high); // [N]
    const plain = engine.mul(ratio, advantage); // [N]
    const clipped = engine.mul(clippedRatio, advantage); // [N]
    const { gain, bounded } = LOSSES[options.loss].objective(
      engine,
      { logProb, advantage, plain, clipped },
      options,
    ); // [N]
    const objective = engine.sum(weighted(weighted(gain, active), weight)); // []
    const k3Terms = klTerms(engine, 'k3', logProb, input.referenceLogProb); // [N]
    const klEach =
      options.klEstimator === 'k3'
        ? k3Terms
        : klTerms(engine, options.klEstimator, logProb, input.referenceLogProb);
    const divergence = engine.sum(weighted(klEach, weight)); // []
    const bonus = engine.sum(weighted(weighted(input.entropy, active), weight)); // []
    // Parts of weight 0 are not differentiated.
    const divergent =
      options.kl === 0
        ? engine.mul(objective, -1)
        : engine.sub(engine.mul(divergence, options.kl), objective); // []
    const loss =
      options.entropy === 0 ? divergent : engine.sub(divergent, engine.mul(bonus, options.entropy)); // []
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

/** Computes max(J, c·A) where A < 0; elsewhere J ≥ 0, and max(J, 0) leaves it unchanged: [N]. */
function dualClipped(engine: Engine, gain: Tensor, advantage: Tensor, dual: number): Tensor {
  const bound = engine.mul(engine.clamp(advantage, LOWEST, 0), dual); // [N]
  return engine.mul(engine.minimum(engine.mul(gain, -1), engine.mul(bound, -1)), -1); // [N]
}
