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

/** Tokens that one forward pass of a training step holds, prompts and padding included. */
const TOKENS_AT_ONCE = 1 << 15;

/**
 * Consecutive groups that go through one forward pass together: as many as a token budget allows, at least one.
 * Losses are sums over tokens, so the pieces add up to the whole.
 */
export function pieces<
  T extends { readonly prompt: EncodedPrompt; readonly responses: readonly { readonly ids: Int32Array }[] },
>(groups: readonly T[], budget: number = TOKENS_AT_ONCE): T[][] {
  const out: T[][] = [];
  let prompt = 0;
  let response = 0;
  let rows = 0;
  for (const group of groups) {
    const longest = group.responses.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const last = out.at(-1);
    const [p, r, n] = [Math.max(prompt, group.prompt.ids.length), Math.max(response, longest), rows + 1];
    if (last !== undefined && n * (p + r * group.responses.length) <= budget) {
      last.push(group);
      [prompt, response, rows] = [p, r, n];
    } else {
      out.push([group]);
      [prompt, response, rows] = [group.prompt.ids.length, longest, 1];
    }
  }
  return out;
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
