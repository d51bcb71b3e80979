/**
 * A decoding step of one shape: where it writes, what it hides and which uniforms it takes are looked up by counters on
 * the device, so that a device can record the step once and repeat it. Where it cannot, the same step is issued call by
 * call.
 */
import type { Recording, Tensor } from '../engine/engine.ts';
import type { Angles } from './angles.ts';
import type { Block } from './block.ts';
import { decode, type LayerCache, type Prefix } from './decoder.ts';
import type { Policy } from './policy.ts';
import type { Sampler } from './sampler.ts';
import type { Seen } from './seen.ts';

export interface FixedInput {
  readonly prefix: Prefix | null;
  readonly own: readonly LayerCache[]; // [B, Hkv, C, d]
  readonly mask: Tensor | null; // [B, 1, 1, C]
  readonly tokens: Tensor; // [B], read and written
  readonly seen: Seen | null;
  readonly sampler: Sampler;
  readonly hidden: boolean;
  readonly angles: Angles;
  /** Columns of `own` that are filled. */
  readonly used: number;
  /** Rows of the rotary tables for the next tokens: [B]. */
  readonly places: Int32Array;
  /** Most steps of one run. */
  readonly block: number;
}

const HIDE = Number.NEGATIVE_INFINITY;

interface Counters {
  readonly column: Tensor; // [1] next column of the cache
  readonly places: Tensor; // [B] rows of the rotary tables
  readonly step: Tensor; // [1] step of the run
  readonly one: Tensor; // [1]
  readonly ones: Tensor; // [B]
}

interface Buffers {
  /** Additive, all that is not filled or not the row's own hidden: [B, 1, 1, C]. */
  readonly visible: Tensor;
  readonly shown: Tensor; // [B, 1, 1, 1] zeros: what a new column is shown with
  readonly uniforms: Tensor; // [K, B]
  readonly ids: Tensor; // [K, B]
  readonly logProbs: Tensor; // [K, B]
  readonly hidden: Tensor | null; // [K, B, D]
}

export class FixedStep {
  readonly #policy: Policy;
  readonly #input: FixedInput;
  readonly #counters: Counters;
  readonly #buffers: Buffers;
  /** Undefined before `record`, null where the device cannot. */
  #recording: Recording | null | undefined;

  constructor(policy: Policy, input: FixedInput) {
    const { engine, dims, dtype } = policy;
    const { tokens, own, mask, used, block } = input;
    const batch = tokens.shape[0]!;
    const columns = own[0]!.key.shape[2]!;
    this.#policy = policy;
    this.#input = input;
    const built = engine.scope(() => {
      const visible = engine.zeros([batch, 1, 1, columns], dtype);
      if (mask !== null) engine.write(visible, 3, 0, mask);
      const rest = new Float32Array(batch * (columns - used)).fill(HIDE);
      engine.write(visible, 3, used, engine.tensor(rest, [batch, 1, 1, columns - used]));
      return {
        counters: {
          column: engine.tensor(Int32Array.of(used), [1]),
          places: engine.tensor(input.places, [batch]),
          step: engine.zeros([1], 'int64'),
          one: engine.tensor(Int32Array.of(1), [1]),
          ones: engine.tensor(new Int32Array(batch).fill(1), [batch]),
        },
        buffers: {
          visible,
          shown: engine.zeros([batch, 1, 1, 1], dtype),
          uniforms: engine.zeros([block, batch]),
          ids: engine.zeros([block, batch], 'int64'),
          logProbs: engine.zeros([block, batch]),
          hidden: input.hidden ? engine.zeros([block, batch, dims.width], dtype) : null,
        },
      };
    });
    this.#counters = built.counters;
    this.#buffers = built.buffers;
  }

  /** All that it reads and writes outlives it; nothing is copied to or from the host. */
  #body(): void {
    const { engine, dims, weights } = this.#policy;
    const { tokens, own, prefix, seen, sampler, angles } = this.#input;
    const { column, places, step, one, ones } = this.#counters;
    const { visible, shown, uniforms, ids, logProbs, hidden } = this.#buffers;
    const batch = tokens.shape[0]!;
    engine.scope(() => {
      engine.indexCopyInto(visible, 3, column, shown);
      const turn = (table: Tensor): Tensor =>
        engine.reshape(engine.indexSelect(table, places), [batch, 1, dims.headDim]);
      const state = decode(engine, weights, dims, {
        x: engine.indexSelect(weights.embed, tokens), // [B, D]
        batch,
        length: 1,
        cos: turn(angles.cos),
        sin: turn(angles.sin),
        own: { layers: own, used: 0, at: column },
        mask: visible,
        ...(prefix === null ? {} : { prefix }),
      }).hidden; // [B, D]
      const now = engine.reshape(engine.indexSelect(uniforms, step), [batch]);
      const drawn = sampler.draw(this.#policy.logits(state), now, seen);
      engine.indexCopyInto(ids, 0, step, engine.reshape(drawn.ids, [1, batch]));
      engine.indexCopyInto(logProbs, 0, step, engine.reshape(drawn.logProbs, [1, batch]));
      if (hidden !== null)
        engine.indexCopyInto(hidden, 0, step, engine.reshape(state, [1, batch, dims.width]));
      engine.write(tokens, 0, 0, drawn.ids);
      engine.addInto(column, 0, 0, one);
      engine.addInto(places, 0, 0, ones);
      engine.addInto(step, 0, 0, one);
    });
  }

  /** Whether the device records the step; looked up once, before the first `run`. */
  record(): boolean {
    const { engine } = this.#policy;
    if (this.#recording === undefined) {
      const held = this.#state().map((tensor) => engine.scope(() => engine.add(tensor, 0)));
      this.#recording = engine.record(() => this.#body());
      // Recording took one step, which is taken back: that way every run starts alike.
      for (const [i, tensor] of this.#state().entries()) engine.write(tensor, 0, 0, held[i]!);
      engine.dispose(...held);
    }
    return this.#recording !== null;
  }

  /** What a step changes and later steps read, but for the cache, whose entries are then written again. */
  #state(): Tensor[] {
    const { column, places } = this.#counters;
    const { tokens, seen } = this.#input;
    return [tokens, column, places, this.#buffers.visible, ...(seen === null ? [] : [seen.flags])];
  }

  /** Takes `steps` steps with uniforms [steps, B], and copies what they gave to the host. */
  run(uniforms: Tensor, steps: number): Block {
    const { engine } = this.#policy;
    const buffers = this.#buffers;
    engine.write(buffers.uniforms, 0, 0, uniforms);
    engine.write(this.#counters.step, 0, 0, engine.zeros([1], 'int64'));
    for (let k = 0; k < steps; k++) {
      if (this.#recording) this.#recording.replay();
      else this.#body();
    }
    const taken = (buffer: Tensor): Tensor => engine.narrow(buffer, 0, 0, steps);
    return {
      steps,
      ids: engine.ints(taken(buffers.ids)),
      logProbs: engine.floats(taken(buffers.logProbs)),
      hidden: buffers.hidden === null ? null : engine.floats(taken(buffers.hidden)),
    };
  }

  dispose(): void {
    const { engine } = this.#policy;
    this.#recording?.dispose();
    const { hidden, ...rest } = this.#buffers;
    engine.dispose(
      ...Object.values(this.#counters),
      ...Object.values(rest),
      ...(hidden === null ? [] : [hidden]),
    );
  }
}
