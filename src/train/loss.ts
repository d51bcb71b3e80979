/**
 * Losses over tokens, as sums: the caller divides the gradient by the token count of the whole batch. Being sums, they are
 * differentiated in chunks of tokens, so that the logits `[tokens, vocab]` are never held whole: the gradient with respect to
 * the hidden states is computed chunk by chunk, and the backbone's backward pass starts from there. Exact.
 */
import type { Engine, LogProbOptions, Tensor } from '../engine/engine.ts';

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

/** Logits held at once: 64 MiB in float32; log-probabilities and their gradients take a few times that. */
const CHUNK_LOGITS = 1 << 24;
/** On a GPU a product this small would wait for the head's weights and gradient, not compute: eight times as many. */
const CUDA_CHUNK_LOGITS = 1 << 27;

/** Tokens whose logits are held at once. */
export function chunkTokens(engine: Engine, vocabulary: number): number {
  const logits = engine.info.device === 'cpu' ? CHUNK_LOGITS : CUDA_CHUNK_LOGITS;
  return Math.max(1, Math.floor(logits / vocabulary));
}

/** Loss of tokens start … end, a scalar, from their log-probabilities (and entropies, when asked for). */
export type TokenLoss = (logProb: Tensor, entropy: Tensor | null, start: number, end: number) => Tensor;

/**
 * Gradient of Σ loss over all K tokens with respect to the hidden states [K, D]. That of the head [V, D] goes chunk by
 * chunk to `headGradient`, whose parts add up to it; null where the head is not trained: then nothing is computed for it.
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
        const [forStates, forHead] = engine.grad(loss(logProb, entropy, start, end), inputs);
        if (forHead !== undefined) headGradient?.(forHead);
        return forStates!;
      });
      parts.push(part);
    }
    return parts.length === 1 ? parts[0]! : engine.concat(parts, 0);
  });
}
