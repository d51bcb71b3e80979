/** How near each response's hidden states are to those of the expert trace of its series (TimerPO 1.–4.). */
import { collate, responseSequence } from '../policy/batch.ts';
import { forward } from '../policy/forward.ts';
import type { Policy } from '../policy/policy.ts';
import type { RolloutGroup } from './rollout.ts';
import { type HiddenStates, type TransportOptions, type TransportResult, transport } from './transport.ts';

/** Most tokens of a trace that take part (AnomSeer). */
export const TRACE_TOKENS = 512;

/** Hidden states of texts alone, without image or prompt, from position 0. Run inside a scope, without gradient. */
function traceStates(policy: Policy, traces: readonly Int32Array[]): HiddenStates {
  const { engine, dims } = policy;
  const start = { ids: new Int32Array(0), positions: new Int32Array(0), images: [], next: 0 };
  const batch = collate(
    traces.map((ids) => responseSequence(start, ids.subarray(0, TRACE_TOKENS))),
    dims.special.pad,
  );
  const { hidden } = forward(policy, batch); // [P·S, D]
  return {
    states: engine.reshape(hidden, [batch.batch, batch.length, dims.width]), // [P, S, D]
    lengths: batch.lengths,
  };
}

/** Hidden states that the rollouts kept: [B, T, D]. */
function rolloutStates(policy: Policy, groups: readonly RolloutGroup[]): HiddenStates {
  const { engine, dims } = policy;
  const responses = groups.flatMap((group) => group.responses);
  const lengths = Int32Array.from(responses, ({ ids }) => ids.length);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  const data = new Float32Array(responses.length * longest * dims.width);
  responses.forEach(({ hidden }, b) => {
    data.set(hidden, b * longest * dims.width);
  });
  return { states: engine.tensor(data, [responses.length, longest, dims.width]), lengths };
}

/** Transport of all responses of a step; `traces` are the token ids of each group's expert trace. */
export function ground(
  policy: Policy,
  groups: readonly RolloutGroup[],
  traces: readonly Int32Array[],
  options: TransportOptions,
): TransportResult {
  const { engine } = policy;
  return engine.noGrad(() =>
    engine.scope(() =>
      transport(engine, rolloutStates(policy, groups), traceStates(policy, traces), options),
    ),
  );
}
