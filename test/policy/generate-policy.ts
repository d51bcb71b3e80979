/** The tiny checkpoint and its prompts as the tests of generation use them. */
import { collate, type EncodedPrompt, joined } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { Policy } from '../../src/policy/policy.ts';
import { engine, GOLDEN, golden, picture } from './golden.ts';

export const policy = Policy.load(engine, GOLDEN);

/** Of unequal lengths: without a picture, with one, with two. */
export const prompts: readonly EncodedPrompt[] = golden.cases.map(({ text, sizes }) =>
  policy.encodePrompt(
    text,
    sizes.map(([w, h]) => picture(w, h)),
  ),
);

/** Multiplies a token's row of the head, which raises or lowers its logits, for the time of `body`. */
export async function biased<T>(token: number, factor: number, body: () => Promise<T>): Promise<T> {
  const { offset } = policy.layout.parameters.find(({ name }) => name === 'head')!;
  const { width } = policy.dims;
  const start = offset + token * width;
  const before = engine.floats(policy.flat).slice(start, start + width);
  const set = (values: Float32Array): void =>
    engine.scope(() => engine.write(policy.flat, 0, start, engine.tensor(values, [width])));
  set(before.map((v) => v * factor));
  try {
    return await body();
  } finally {
    set(before);
  }
}

/** One forward pass over prompt and response: the states [T, D] and logits [T, V] that belong to its tokens. */
export function scored(
  network: Policy,
  prompt: EncodedPrompt,
  ids: Int32Array,
): { states: Float32Array; logits: Float32Array } {
  return network.engine.noGrad(() =>
    network.engine.scope(() => {
      const before = prompt.ids.length;
      const states = forward(network, collate([joined(prompt, ids)], 0)).hidden;
      const cut = (first: number) => network.engine.narrow(states, 0, first, ids.length);
      return {
        states: network.engine.floats(cut(before)),
        logits: network.engine.floats(network.logits(cut(before - 1))),
      };
    }),
  );
}

/** Log-probabilities of `ids` under logits [T, V] and the policy's mask, in float64. */
export function logProbsOf(logits: Float32Array, ids: Int32Array, temperature: number): Float64Array {
  const vocabulary = logits.length / ids.length;
  return Float64Array.from(ids, (id, t) => {
    const row = Array.from(
      { length: vocabulary },
      (_, v) => (logits[t * vocabulary + v]! + policy.forbidden[v]!) / temperature,
    );
    const most = Math.max(...row);
    return row[id]! - most - Math.log(row.reduce((sum, v) => sum + Math.exp(v - most), 0));
  });
}
