/** Decoding steps over what is filled of the cache: each attends to one column more than the one before. */
import type { Tensor } from '../engine/engine.ts';
import { type Angles, placesAt } from './angles.ts';
import type { BatchMemory } from './batch-memory.ts';
import type { Block } from './block.ts';
import { decode } from './decoder.ts';
import type { Policy } from './policy.ts';
import type { Drawn, Sampler } from './sampler.ts';
import type { Weights } from './weights.ts';

export interface NarrowInput {
  /** The policy's, arranged for steps. */
  readonly weights: Weights;
  readonly memory: BatchMemory;
  readonly sampler: Sampler;
  readonly hidden: boolean;
  /** Whether any row draws: otherwise one step is taken, for the states alone. */
  readonly drawing: boolean;
  readonly angles: Angles;
  /** Columns of the cache that are filled. */
  readonly used: number;
  /** Row of the rotary tables for a token of a slot, minus its column: [B]. */
  readonly shift: Int32Array;
}

/**
 * Feeds what was sampled last and samples again, `steps` times, with uniforms [steps, B]. Returns the tokens sampled last
 * [B], and what the steps gave, on the host. What it makes on the way is left to the caller's scope.
 */
export function runNarrow(
  policy: Policy,
  input: NarrowInput,
  uniforms: Tensor,
  steps: number,
): { tokens: Tensor; block: Block } {
  const { engine } = policy;
  const { memory, sampler, hidden: wanted, drawing } = input;
  const batch = input.shift.length;
  const drawn: Drawn[] = [];
  const states: Tensor[] = [];
  let last = memory.tokens;
  for (let k = 0; k < steps; k++) {
    const step = engine.scope(() => {
      const hidden = feed(policy, input, last, input.used + k); // [B, D]
      if (!drawing) return { hidden };
      const one = engine.reshape(engine.narrow(uniforms, 0, k, 1), [batch]);
      const logits = engine.linear(hidden, input.weights.head); // [B, V]
      const next = sampler.draw(logits, one, memory.seen);
      return wanted ? { hidden, next } : { next };
    });
    if (step.hidden !== undefined) states.push(step.hidden);
    if (step.next === undefined) break;
    drawn.push(step.next);
    last = step.next.ids;
  }
  const joined = (tensors: readonly Tensor[]): Tensor =>
    tensors.length === 1 ? tensors[0]! : engine.concat(tensors, 0);
  const block: Block = {
    steps: drawing ? steps : 1,
    ids: drawing ? engine.ints(joined(drawn.map(({ ids }) => ids))) : new Int32Array(0),
    logProbs: drawing ? engine.floats(joined(drawn.map(({ logProbs }) => logProbs))) : new Float32Array(0),
    hidden: wanted ? engine.floats(joined(states)) : null,
  };
  return { tokens: last, block };
}

/**
 * The weights of the decoder, those that a step multiplies column by column in memory: a processor then reads them as they
 * are, where a matrix library copies them at every step (a quarter of its time at the sizes of a nano policy). What is
 * returned is the caller's to free, by `tensors`.
 */
export function arrangeForSteps({ engine, weights }: Policy): { weights: Weights; tensors: Tensor[] } {
  const tensors: Tensor[] = [];
  const arranged = (weight: Tensor): Tensor => {
    const [outer, inner] = weight.shape as [number, number]; // [O, I]
    const room = engine.zeros([inner, Math.ceil(outer / LANES) * LANES], weight.dtype);
    const turned = engine.scope(() => {
      engine.write(room, 1, 0, engine.permute(weight, [1, 0]));
      return engine.permute(engine.narrow(room, 1, 0, outer), [1, 0]); // [O, I]
    });
    tensors.push(room, turned);
    return turned;
  };
  const layers = engine.noGrad(() =>
    weights.layers.map((layer) => ({
      ...layer,
      qkv: arranged(layer.qkv),
      o: arranged(layer.o),
      gateUp: arranged(layer.gateUp),
      down: arranged(layer.down),
    })),
  );
  return { weights: { ...weights, layers, head: engine.noGrad(() => arranged(weights.head)) }, tensors };
}

/** Floats of the widest vectors of a processor: columns are padded to whole ones. */
const LANES = 16;

/** Feeds one token per slot, at the column behind `used`: [B] → hidden [B, D]. */
function feed(policy: Policy, input: NarrowInput, tokens: Tensor, used: number): Tensor {
  const { engine, dims } = policy;
  const { weights } = input;
  const { prefix, own, mask } = input.memory;
  const done = decode(engine, weights, dims, {
    x: engine.indexSelect(weights.embed, tokens), // [B, D]
    batch: input.shift.length,
    length: 1,
    ...turn(policy, input, used),
    own: { layers: own, used },
    cache: false,
    ...(prefix === null ? {} : { prefix }),
    ...(mask === null ? {} : { mask: engine.narrow(mask, 3, 0, used + 1) }),
  });
  return done.hidden;
}

/** Rotary tables of the tokens that stand at a column: [1 or B, 1, d]. */
function turn(
  { engine, dims }: Policy,
  { angles, shift }: NarrowInput,
  column: number,
): { cos: Tensor; sin: Tensor } {
  const places = placesAt(angles, shift, column);
  const index = places.every((place) => place === places[0]) ? null : engine.tensor(places, [places.length]);
  const at = (table: Tensor): Tensor => {
    const rows = index === null ? engine.narrow(table, 0, places[0]!, 1) : engine.indexSelect(table, index);
    return engine.reshape(rows, [-1, 1, dims.headDim]);
  };
  return { cos: at(angles.cos), sin: at(angles.sin) };
}
