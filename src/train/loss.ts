/** Losses over tokens, as sums: the caller divides the gradient by the token count of the whole batch. */
import type { Engine, Tensor } from '../engine/engine.ts';

/** Supervised fine-tuning: −Σ log π(target). */
export function supervisedLoss(engine: Engine, logProb: Tensor): Tensor {
  return engine.mul(engine.sum(logProb), -1); // []
}

export interface PolicyLossInput {
  readonly logProb: Tensor; // [N], with gradient
  readonly entropy: Tensor; // [N], with gradient
  readonly oldLogProb: Tensor; // [N]
  readonly referenceLogProb: Tensor; // [N]
  readonly advantage: Tensor; // [N], the response's advantage at each of its tokens
}

export interface PolicyLossOptions {
  /** PPO clip range: ratios are held inside 1 ± clipRatio. */
  readonly clipRatio: number;
  /** Weight of the k3 KL estimate to the reference. */
  readonly kl: number;
  /** Weight of the entropy bonus. */
  readonly entropy: number;
}

/** Sums over tokens; `kl`, `entropy` and `clipped` are plain numbers for the log. */
export interface PolicyLoss {
  readonly loss: Tensor; // []
  readonly kl: number;
  readonly entropy: number;
  /** Tokens whose clipped term was the smaller one. */
  readonly clipped: number;
}

/** |log(π_ref/π)| beyond which a token's divergence stays what it is there: its exponential stays finite, as in verl. */
const LOG_RATIO_LIMIT = 20;
/** Largest divergence that one token counts with, reached at π_ref/π of 13.6 or 2e-5; as in verl's `low_var_kl`. */
const K3_LIMIT = 10;

/**
 * Σ_t −min(ρ·A, clip(ρ, 1 ± c)·A) + β·k3 − η·H with ρ = π/π_old and
 * k3 = min(10, x − 1 − log x) ≥ 0, x = π_ref/π (Schulman 2020), token level (AnomSeer; mean taken by the caller).
 * A token at the limit of k3 has no gradient of it: the reference no longer pulls it back, and cannot drown the rest.
 */
export function policyLoss(engine: Engine, input: PolicyLossInput, options: PolicyLossOptions): PolicyLoss {
  return engine.scope(() => {
    const ratio = engine.exp(engine.sub(input.logProb, input.oldLogProb)); // [N]
    const plain = engine.mul(ratio, input.advantage); // [N]
    const held = engine.clamp(ratio, 1 - options.clipRatio, 1 + options.clipRatio);
    const clipped = engine.mul(held, input.advantage); // [N]
    const objective = engine.sum(engine.minimum(plain, clipped)); // []
    const apart = engine.sub(input.referenceLogProb, input.logProb); // [N]
    const logRatio = engine.clamp(apart, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT); // [N]
    const each = engine.sub(engine.sub(engine.exp(logRatio), logRatio), 1); // [N], k3 before its limit
    const k3 = engine.sum(engine.clamp(each, -K3_LIMIT, K3_LIMIT)); // []
    const entropy = engine.sum(input.entropy); // []
    const loss = engine.sub(
      engine.sub(engine.mul(k3, options.kl), objective),
      engine.mul(entropy, options.entropy),
    );
    const unclippedTerms = engine.floats(plain);
    const clippedTerms = engine.floats(clipped);
    return {
      loss,
      kl: engine.item(k3),
      entropy: engine.item(entropy),
      clipped: unclippedTerms.reduce((count, value, i) => count + (clippedTerms[i]! < value ? 1 : 0), 0),
    };
  });
}
