/** The training forward of a step: prompts once, then every response behind its prompt's keys and values. */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { type ForwardInput, forward, type Network } from '../policy/forward.ts';
import { run, type Tape, taped } from '../policy/tape.ts';
import { promptBatch, responseBatch } from './batch.ts';
import { chunkTokens } from './head.ts';
import { type PaddingMeter, piecesOf } from './pieces.ts';

export interface ResponseStates {
  /** State that predicts target k, with gradient where it is enabled: [K, D]. */
  readonly states: Tensor;
  readonly targets: Int32Array; // [K]
  /** Response that target k belongs to: [K]. */
  readonly owner: Int32Array;
}

/** What log-probabilities need of a policy. */
export interface Scorer extends Network {
  /** Additive vocabulary mask [V]. */
  readonly forbidden: Float32Array;
}

/**
 * P prompts and B = P·G responses, G consecutive ones to each. Run inside an engine scope; with a tape, one that has it.
 * `padding` is told what was padded.
 */
export function responseStates(
  policy: Network,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  tape?: Tape,
  padding?: PaddingMeter,
): ResponseStates {
  const { engine } = policy;
  const { pad } = policy.dims.special;
  const traced = (input: ForwardInput): ForwardInput => (tape === undefined ? input : { ...input, tape });
  return taped(engine, tape, () => {
    const asked = promptBatch(prompts, pad);
    const { input, select, targets, owner } = responseBatch(prompts, responses, pad);
    padding?.add(asked);
    if (input !== null) padding?.add(input);
    const before = forward(policy, traced({ ...asked, cache: input !== null })); // [P, D]
    const behind = input === null ? [] : [{ ...input, prefix: before.cache, cache: false }];
    const after = behind.map((rest) => forward(policy, traced(rest)).hidden); // [B·T, D]
    const index = engine.tensor(select, [select.length]);
    const [states] = run(tape, {
      inputs: [before.hidden, ...after],
      constants: index,
      body: (parts) => [engine.indexSelect(parts.length === 1 ? parts[0]! : engine.concat(parts, 0), index)],
    });
    return { states: states!, targets, owner }; // [K, D]
  });
}

/** A prompt and its responses. */
interface Group {
  readonly prompt: EncodedPrompt;
  readonly responses: readonly { readonly ids: Int32Array }[];
}

/** Groups in pieces that go through one forward pass together: those of a piece have equally many responses. */
export function pieces<T extends Group>(groups: readonly T[], budget?: number): T[][] {
  const extents = ({ prompt, responses }: T): number[] => {
    const longest = responses.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    return [prompt.ids.length, longest * responses.length];
  };
  const counts = [...new Set(groups.map(({ responses }) => responses.length))].sort((a, b) => b - a);
  return counts.flatMap((count) =>
    piecesOf(
      groups.filter(({ responses }) => responses.length === count),
      extents,
      budget,
    ),
  );
}

/** Log-probability of every response token, without gradient: [K]. */
export function responseLogProbs(
  policy: Scorer,
  prompts: readonly EncodedPrompt[],
  responses: readonly Int32Array[],
  temperature: number,
): Float32Array {
  const { engine } = policy;
  return engine.noGrad(() =>
    engine.scope(() => {
      const { states, targets } = responseStates(policy, prompts, responses);
      const mask = engine.tensor(policy.forbidden, [policy.forbidden.length]);
      const { head } = policy.weights;
      const out = new Float32Array(targets.length);
      const chunk = chunkTokens(engine, head.shape[0]!);
      for (let start = 0; start < targets.length; start += chunk) {
        const ids = targets.subarray(start, start + chunk);
        engine.scope(() => {
          const part = engine.narrow(states, 0, start, ids.length); // [k, D]
          const { logProb } = engine.logProbs(part, head, engine.tensor(ids, [ids.length]), {
            temperature,
            mask,
          });
          out.set(engine.floats(logProb), start);
        });
      }
      return out;
    }),
  );
}
