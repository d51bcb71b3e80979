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

/**
 * Σ_t −min(ρ·A, clip(ρ, 1 ± c)·A) + β·k3 − η·H with ρ = π/π_old and
 * k3 = π_ref/π − 1 − log(π_ref/π) ≥ 0 (Schulman 2020), token level (AnomSeer; mean taken by the caller).
 */
export function policyLoss(engine: Engine, input: PolicyLossInput, options: PolicyLossOptions): PolicyLoss {
  return engine.scope(() => {
    const ratio = engine.exp(engine.sub(input.logProb, input.oldLogProb)); // [N]
    const plain = engine.mul(ratio, input.advantage); // [N]
    const held = engine.clamp(ratio, 1 - options.clipRatio, 1 + options.clipRatio);
    const clipped = engine.mul(held, input.advantage); // [N]
    const objective = engine.sum(engine.minimum(plain, clipped)); // []
    const logRatio = engine.sub(input.referenceLogProb, input.logProb); // [N]
    const k3 = engine.sum(engine.sub(engine.sub(engine.exp(logRatio), logRatio), 1)); // []
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
