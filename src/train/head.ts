/**
 * The vocabulary projection in chunks: `[tokens, vocab]` is never held whole. The loss is a sum over tokens, so its
 * gradient with respect to the hidden states is computed chunk by chunk, and the backbone's backward pass starts
 * from there. Exact.
 */
import type { Engine, LogProbOptions, Tensor } from '../engine/engine.ts';

/** Logits held at once: 64 MiB in float32. */
const CHUNK_LOGITS = 1 << 24;

export interface HeadGradients {
  readonly hidden: Tensor; // [K, D]
  readonly head: Tensor; // [V, D]
}

/** Loss of tokens start … end, a scalar, from their log-probabilities (and entropies, when asked for). */
export type TokenLoss = (logProb: Tensor, entropy: Tensor | null, start: number, end: number) => Tensor;

/** Gradients of Σ loss over all K tokens with respect to the hidden states [K, D] and the head [V, D]. */
export function headGradients(
  engine: Engine,
  hidden: Tensor,
  head: Tensor,
  targets: Int32Array,
  options: LogProbOptions,
  loss: TokenLoss,
  chunkLogits: number = CHUNK_LOGITS,
): HeadGradients {
  return engine.scope(() => {
    const [tokens] = hidden.shape as [number, number];
    const chunk = Math.max(1, Math.floor(chunkLogits / head.shape[0]!));
    const weight = engine.parameter(head); // [V, D]
    const states = engine.detach(hidden); // [K, D]
    const parts: Tensor[] = [];
    let headGrad: Tensor | undefined;
    for (let start = 0; start < tokens; start += chunk) {
      const end = Math.min(tokens, start + chunk);
      const [part, grad] = engine.scope(() => {
        const leaf = engine.parameter(engine.narrow(states, 0, start, end - start)); // [k, D]
        const ids = engine.tensor(targets.subarray(start, end), [end - start]);
        const { logProb, entropy } = engine.logProbs(leaf, weight, ids, options);
        return engine.grad(loss(logProb, entropy, start, end), [leaf, weight]);
      }) as [Tensor, Tensor];
      parts.push(part);
      if (headGrad === undefined) headGrad = grad;
      else {
        const sum = engine.add(headGrad, grad); // [V, D]
        engine.dispose(headGrad, grad);
        headGrad = sum;
      }
    }
    return { hidden: parts.length === 1 ? parts[0]! : engine.concat(parts, 0), head: headGrad! };
  });
}
