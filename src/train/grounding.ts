/** How near each response's hidden states are to those of the expert trace of its series. */
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

/** Entries of the cost matrices that are held at once, in float64. */
export const COST_ENTRIES = 1 << 23;

/** Half-open ranges of groups whose cost matrices are held together; groups are independent. */
function spans(groups: readonly RolloutGroup[], traces: readonly Int32Array[]): [number, number][] {
  const out: [number, number][] = [];
  let used = Number.POSITIVE_INFINITY;
  groups.forEach(({ responses }, p) => {
    const longest = responses.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const entries = responses.length * longest * Math.min(TRACE_TOKENS, traces[p]!.length);
    if (used + entries > COST_ENTRIES) {
      out.push([p, p + 1]);
      used = entries;
    } else {
      out.at(-1)![1] = p + 1;
      used += entries;
    }
  });
  return out;
}

/** Transport of all responses of a step; `traces` are the token ids of each group's expert trace. */
export function ground(
  policy: Policy,
  groups: readonly RolloutGroup[],
  traces: readonly Int32Array[],
  options: TransportOptions,
): TransportResult {
  const { engine } = policy;
  const results: TransportResult[] = [];
  for (const [first, last] of spans(groups, traces)) {
    results.push(
      engine.noGrad(() =>
        engine.scope(() =>
          transport(
            engine,
            rolloutStates(policy, groups.slice(first, last)),
            traceStates(policy, traces.slice(first, last)),
            options,
          ),
        ),
      ),
    );
  }
  const joined = (key: keyof TransportResult): Float64Array =>
    Float64Array.from(results.flatMap((result) => [...result[key]]));
  return { distance: joined('distance'), similarity: joined('similarity'), rowError: joined('rowError') };
}
