/** The training forward of a step: prompts once, then every response behind its prompt's keys and values. */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { forward } from '../policy/forward.ts';
import type { Policy } from '../policy/policy.ts';
import { promptBatch, responseBatch } from './batch.ts';

export interface ResponseStates {
  /** State that predicts target k, with gradient where it is enabled: [K, D]. */
  readonly states: Tensor;
  readonly targets: Int32Array; // [K]
  /** Response that target k belongs to: [K]. */
  readonly owner: Int32Array;
}

/** P prompts and B = P·G responses, G consecutive ones to each prompt. Run inside an engine scope. */
export function responseStates(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
): ResponseStates {
  const { engine } = policy;
  const { pad } = policy.dims.special;
  return engine.scope(() => {
    const before = forward(policy, promptBatch(prompts, pad)); // [P, D]
    const { input, select, targets, owner } = responseBatch(prompts, responses, pad);
    const all =
      input === null
        ? before.hidden
        : engine.concat([before.hidden, forward(policy, { ...input, prefix: before.cache }).hidden], 0);
    return { states: engine.rows(all, engine.tensor(select, [select.length])), targets, owner }; // [K, D]
  });
}

/** Log-probability of every response token, without gradient: [K]. */
export function responseLogProbs(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  temperature: number,
): Float32Array {
  const { engine } = policy;
  return engine.noGrad(() =>
    engine.scope(() => {
      const { states, targets } = responseStates(policy, prompts, responses);
      const ids = engine.tensor(targets, [targets.length]);
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]);
      return engine.floats(engine.logProbs(states, policy.weights.head, ids, { temperature, mask }).logProb);
    }),
  );
}
