/** The definition that fast paths are held to: every response behind its own copy of the prompt, one forward pass each. */
import type { Tensor } from '../../src/engine/engine.ts';
import { collate, type EncodedPrompt, joined } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import type { Policy } from '../../src/policy/policy.ts';

/** States at every position of prompt and response, with gradient: [T₀ + T, D]. Run inside a scope. */
export function fullStates(policy: Policy, prompt: EncodedPrompt, response: Int32Array): Tensor {
  return forward(policy, collate([joined(prompt, response)], policy.dims.special.pad)).hidden;
}

/** States that predict the tokens of the response: [T, D]. */
export function predictingStates(policy: Policy, prompt: EncodedPrompt, response: Int32Array): Tensor {
  const states = fullStates(policy, prompt, response);
  return policy.engine.narrow(states, 0, prompt.ids.length - 1, response.length);
}

/** Tempered, masked log-probabilities and entropies of the response's tokens, with gradient: [T]. */
export function fullLogProbs(
  policy: Policy,
  prompt: EncodedPrompt,
  response: Int32Array,
  temperature: number,
): { logProb: Tensor; entropy: Tensor } {
  const { engine } = policy;
  const states = predictingStates(policy, prompt, response);
  const targets = engine.tensor(response, [response.length]);
  const mask = engine.tensor(policy.forbidden, [policy.dims.vocabulary]);
  const { logProb, entropy } = engine.logProbs(states, policy.weights.head, targets, {
    temperature,
    mask,
    entropy: true,
  });
  return { logProb, entropy: entropy! };
}

/** Gradient of a scalar with respect to the flat weights: [P]. */
export function flatGradient(policy: Policy, scalar: Tensor): Float32Array {
  const { engine } = policy;
  const parts = engine.grad(scalar, policy.parameters).map((part) => engine.reshape(part, [-1]));
  return engine.floats(engine.concat(parts, 0));
}

/** ‖a − b‖ / ‖b‖. */
export function relativeDistance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) throw new Error(`lengths ${a.length} and ${b.length} differ`);
  let difference = 0;
  let norm = 0;
  for (let i = 0; i < b.length; i++) {
    difference += (a[i]! - b[i]!) ** 2;
    norm += b[i]! ** 2;
  }
  return Math.sqrt(difference / norm);
}

/** Whether two arrays hold the same bits; NaN equals itself, and large arrays take no time. */
export function identical(a: Float32Array, b: Float32Array): boolean {
  const bytes = (array: Float32Array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
  return bytes(a).equals(bytes(b));
}
