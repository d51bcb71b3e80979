/**
 * The supervised loss, and how a loss over tokens is differentiated. Losses are sums: the caller divides the gradient by the
 * denominator of the whole batch. Being sums, they are differentiated in chunks of tokens, so that the logits `[tokens, vocab]` are
 * never held whole: the gradient with respect to the hidden states is computed chunk by chunk, and the backbone's backward pass starts
 * from there. Exact. The loss of reinforcement is in `policy-loss.ts`.
 */
import type { Engine, LogProbOptions, Tensor } from '../engine/engine.ts';

/** Supervised fine-tuning: −Σ log π(target). */
export function supervisedLoss(engine: Engine, logProb: Tensor): Tensor {
  return engine.mul(engine.sum(logProb), -1); // []
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

/** log π over the vocabulary, after mask and temperature: hidden [N, D], head [V, D] → [N, V], at least float32. */
export function vocabularyLogProbs(
  engine: Engine,
  hidden: Tensor,
  head: Tensor,
  { temperature = 1, mask }: LogProbOptions,
): Tensor {
  const product = engine.linear(hidden, head);
  const logits = product.dtype === 'bfloat16' ? engine.cast(product, 'float32') : product;
  const allowed = mask === undefined ? logits : engine.add(logits, mask);
  return engine.logSoftmax(engine.div(allowed, temperature));
}

/**
 * Loss of tokens start … end, a scalar, from their log-probabilities (and entropies, when asked for). `vocabulary` gives log π over the whole
 * vocabulary [k, V], with gradient, to a loss that needs it.
 */
export type TokenLoss = (
  logProb: Tensor,
  entropy: Tensor | null,
  start: number,
  end: number,
  vocabulary: () => Tensor,
) => Tensor;

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
        const vocabulary = (): Tensor => vocabularyLogProbs(engine, leaf, weight, options);
        const [forStates, forHead] = engine.grad(loss(logProb, entropy, start, end, vocabulary), inputs);
        if (forHead !== undefined) headGradient?.(forHead);
        return forStates!;
      });
      parts.push(part);
    }
    return parts.length === 1 ? parts[0]! : engine.concat(parts, 0);
  });
}
