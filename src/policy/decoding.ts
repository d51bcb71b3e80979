/**
 * The batch being decoded: its rows, their prompts' keys and values, and their own in a cache that all of them extend at
 * the same column. A row that joins later hides the columns before it; the position of a row's token is its column plus
 * a shift of the row's own. Columns that no row reads any longer are dropped when the cache grows.
 */
import type { Tensor } from '../engine/engine.ts';
import type { Angles } from './angles.ts';
import type { EncodedPrompt } from './batch.ts';
import { allocate, type BatchMemory, leaving, moving, tensorsOf } from './batch-memory.ts';
import type { Block } from './block.ts';
import { decode } from './decoder.ts';
import { FixedStep } from './fixed-step.ts';
import type { Policy } from './policy.ts';
import { type Piece, prefill } from './prefill.ts';
import { keptSlots, type Limits, type Row } from './row.ts';
import type { Drawn, Sampler } from './sampler.ts';
import { seenInPrompts, writeSeen } from './seen.ts';

/** Columns by which the cache of the rows grows. */
export const GROWTH = 256;
const HIDE = Number.NEGATIVE_INFINITY;

/** How the steps are issued. */
export interface Stepping {
  /** Steps between two looks at what was sampled. */
  readonly block: number;
  /**
   * Steps of one shape over the whole cache, which a device can record: where it does, always, or never. Otherwise steps
   * reach over what is filled of the cache.
   */
  readonly fixed: 'recorded' | 'always' | 'never';
}

/** A prompt that joins, and a row for each of its slots. */
export interface Group {
  readonly prompt: EncodedPrompt;
  readonly rows: readonly Row[]; // [G]
}

export interface DecodingOptions {
  readonly sampler: Sampler;
  readonly limits: Limits;
  /** Tokens of the longest prompt that may join. */
  readonly longest: number;
  readonly angles: Angles;
  readonly stepping: Stepping;
}

export class Decoding {
  slots: (Row | null)[];
  prompts: number;
  readonly #policy: Policy;
  readonly #options: DecodingOptions;
  #memory: BatchMemory;
  #used: number;
  /** First column that a slot may read. */
  #start: Int32Array; // [B]
  /** Row of the rotary tables for a token of a slot, minus its column. */
  #shift: Int32Array; // [B]
  #fixed: FixedStep | null = null;
  #recordable: boolean;

  /** A batch of these prompts, none of which has a token yet: `fill` all of them next. */
  constructor(policy: Policy, groups: number, rows: number, options: DecodingOptions) {
    this.#policy = policy;
    this.#options = options;
    this.#recordable = options.stepping.fixed !== 'never';
    this.prompts = groups;
    this.slots = new Array<Row | null>(rows).fill(null);
    const alone = rows === groups;
    this.#used = alone ? options.longest : 0;
    this.#start = new Int32Array(rows);
    this.#shift = new Int32Array(rows);
    const shape = { prompts: alone ? null : groups, before: options.longest, rows };
    const columns = this.#columns(Math.min(options.limits.maxTokens, GROWTH));
    this.#memory = allocate(policy, { ...shape, columns, seen: options.sampler.penalty !== 1 });
  }

  /** A capacity with room for `more` columns behind the used ones. */
  #columns(more: number): number {
    const wanted = this.#used + more;
    const unit = this.#options.stepping.fixed === 'never' ? 1 : GROWTH / 2;
    return Math.ceil(wanted / unit) * unit;
  }

  get #capacity(): number {
    return this.#memory.own[0]!.key.shape[2]!;
  }

  /** Replaces part of the memory by what `build` makes of it, and frees what was replaced. */
  #replace(build: (memory: BatchMemory) => Partial<BatchMemory>): void {
    const { engine } = this.#policy;
    const before = this.#memory;
    this.#memory = { ...before, ...engine.scope(() => build(before)) };
    const kept = new Set(tensorsOf(this.#memory));
    engine.dispose(...tensorsOf(before).filter((tensor) => !kept.has(tensor)));
    this.#forgetSteps();
  }

  #forgetSteps(): void {
    this.#fixed?.dispose();
    this.#fixed = null;
  }

  // ---- rows that join --------------------------------------------------------------------------------

  /**
   * Encodes prompts into the places `into` [n], all of whose slots are free, and draws the first token of each of their
   * rows. Returns these rows [n · G] and the block of that one step.
   */
  fill(into: readonly number[], groups: readonly Group[]): { rows: readonly Row[]; block: Block } {
    const { engine } = this.#policy;
    const size = this.slots.length / this.prompts; // G
    const slots = into.flatMap((p) => Array.from({ length: size }, (_, g) => p * size + g));
    const rows = groups.flatMap((group) => group.rows);
    // At first the prompts are written side by side and padded behind; later each ends where the responses go on.
    const fresh = this.slots.every((row) => row === null) && into.length === this.prompts;
    for (const [i, slot] of slots.entries()) {
      const { prompt } = groups[Math.floor(i / size)]!;
      const before = fresh ? this.#used : prompt.ids.length;
      this.slots[slot] = rows[i]!;
      this.#start[slot] = this.#used - (this.#memory.prefix === null ? before : 0);
      this.#shift[slot] = prompt.next - this.#options.angles.base - this.#used;
    }
    this.#hide(into, slots, groups, fresh);
    this.#forgetSteps();
    const block = engine.scope(() => {
      const prompts = groups.map(({ prompt }) => prompt);
      const logits = prefill(this.#policy, prompts, (piece) => this.#join(piece, into, fresh)); // [n, V]
      const repeat = Int32Array.from(slots, (_, i) => Math.floor(i / size));
      const each = engine.tensor(repeat, [slots.length]);
      const seen = this.#memory.seen === null ? null : seenInPrompts(this.#policy, prompts, each);
      const uniforms = engine.reshape(this.#uniforms(rows, 1), [slots.length]);
      const drawn = this.#options.sampler.draw(engine.rows(logits, each), uniforms, seen);
      const places = engine.tensor(Int32Array.from(slots), [slots.length]);
      engine.writeAt(this.#memory.tokens, 0, places, drawn.ids);
      if (seen !== null) writeSeen(this.#policy, this.#memory.seen!, places, seen);
      return { steps: 1, ids: engine.ints(drawn.ids), logProbs: engine.floats(drawn.logProbs), hidden: null };
    });
    return { rows, block };
  }

  /** Writes the keys and values of a piece of the joining prompts. */
  #join({ first, lengths, layers }: Piece, into: readonly number[], fresh: boolean): void {
    const { engine } = this.#policy;
    const { prefix, own } = this.#memory;
    const put = (target: Tensor, source: Tensor): void => {
      if (fresh) {
        engine.write(engine.narrow(target, 0, first, lengths.length), 2, 0, source);
        return;
      }
      for (const [i, n] of lengths.entries()) {
        const row = engine.narrow(target, 0, into[first + i]!, 1); // [1, Hkv, S, d]
        const column = prefix === null ? this.#used - n : 0;
        engine.write(row, 2, column, engine.narrow(engine.narrow(source, 0, i, 1), 2, 0, n));
      }
    };
    for (const [i, { key, value }] of layers.entries()) {
      engine.scope(() => {
        const target = (prefix?.layers ?? own)[i]!;
        put(target.key, key);
        put(target.value, value);
      });
    }
  }

  /** Hides from joining rows the padding of their prompt and what earlier rows wrote. */
  #hide(into: readonly number[], slots: readonly number[], groups: readonly Group[], fresh: boolean): void {
    const { engine, dtype } = this.#policy;
    const { longest } = this.#options;
    const lengths = groups.map(({ prompt }) => prompt.ids.length);
    const padded = lengths.some((length) => length < longest);
    const alone = this.#memory.prefix === null;
    /** Additive rows [n, 1, 1, S] that hide the columns from `from(i)` to `to`. */
    const rows = (
      count: number,
      columns: number,
      hidden: (i: number) => readonly [number, number],
    ): Tensor => {
      const values = new Float32Array(count * columns);
      for (let i = 0; i < count; i++) {
        const [from, to] = hidden(i);
        values.fill(HIDE, i * columns + from, i * columns + to);
      }
      return engine.cast(engine.tensor(values, [count, 1, 1, columns]), dtype);
    };
    const put = (mask: Tensor, places: readonly number[], source: Tensor): void =>
      engine.writeAt(mask, 0, engine.tensor(Int32Array.from(places), [places.length]), source);
    if (!alone && (padded || this.#memory.prefix?.mask !== undefined)) {
      if (this.#memory.prefix?.mask === undefined) {
        this.#replace(({ prefix }) => ({
          prefix: { ...prefix!, mask: engine.zeros([this.prompts, 1, 1, longest], dtype) },
        }));
      }
      const source = (): Tensor => rows(lengths.length, longest, (i) => [lengths[i]!, longest]);
      engine.scope(() => put(this.#memory.prefix!.mask!, into, source()));
    }
    if (fresh ? alone && padded : this.#used > 0) {
      const columns = this.#capacity;
      if (this.#memory.mask === null) {
        this.#replace(() => ({ mask: engine.zeros([this.slots.length, 1, 1, columns], dtype) }));
      }
      const source = (): Tensor =>
        rows(slots.length, columns, (i) =>
          fresh ? [lengths[i]!, this.#used] : [0, this.#start[slots[i]!]!],
        );
      engine.scope(() => put(this.#memory.mask!, slots, source()));
    }
  }

  // ---- rows that leave -------------------------------------------------------------------------------

  /** Whether no row is left. */
  get empty(): boolean {
    return this.slots.every((row) => row === null);
  }

  /** Frees the slots of complete rows. */
  retire(): void {
    for (const [b, row] of this.slots.entries()) if (row?.complete) this.slots[b] = null;
  }

  /** Makes the batch smaller, where enough rows have left. */
  compact(): void {
    const kept = keptSlots(this.slots, this.prompts);
    if (kept === null) return;
    for (const change of leaving(this.#policy, this.#memory, kept)) this.#replace(change);
    this.slots = kept.slots.map((slot, i) => (kept.fillers.has(i) ? null : this.slots[slot]!));
    this.prompts = kept.prompts.length;
    this.#start = Int32Array.from(kept.slots, (slot) => this.#start[slot]!);
    this.#shift = Int32Array.from(kept.slots, (slot) => this.#shift[slot]!);
  }

  /** Makes room for `steps` more columns, and drops those that no row reads any longer. */
  #reserve(steps: number): void {
    if (this.#used + steps <= this.#capacity) return;
    const lead = this.#memory.prefix === null ? this.#options.longest : 0; // prompts may join that end here
    let drop = Math.max(0, this.#used - lead);
    for (const [b, row] of this.slots.entries()) if (row !== null) drop = Math.min(drop, this.#start[b]!);
    const held = this.#used - drop;
    this.#used = held;
    const columns = this.#columns(GROWTH);
    for (const change of moving(this.#policy, this.#memory, { drop, held, columns })) this.#replace(change);
    for (let b = 0; b < this.slots.length; b++) {
      this.#start[b] = Math.max(0, this.#start[b]! - drop);
      this.#shift[b]! += drop;
    }
  }

  // ---- steps -----------------------------------------------------------------------------------------

  /** Draws for the next steps of these rows: [steps, B]. Greedy steps read none. */
  #uniforms(rows: readonly (Row | null)[], steps: number): Tensor {
    const values = new Float32Array(steps * rows.length);
    if (this.#options.sampler.temperature > 0) {
      for (const [b, row] of rows.entries()) {
        if (row === null || row.ended) continue;
        for (let k = 0; k < steps; k++) values[k * rows.length + b] = row.draw();
      }
    }
    return this.#policy.engine.tensor(values, [steps, rows.length]);
  }

  /** Feeds what was sampled last and samples again, `steps` times. */
  run(steps: number): Block {
    this.#reserve(steps);
    return this.#runFixed(steps) ?? this.#runNarrow(steps);
  }

  #runNarrow(steps: number): Block {
    const { engine } = this.#policy;
    const { sampler } = this.#options;
    const batch = this.slots.length;
    const { tokens, block } = engine.scope(() => {
      const uniforms = this.#uniforms(this.slots, steps);
      const drawn: Drawn[] = [];
      const states: Tensor[] = [];
      let last = this.#memory.tokens;
      // Rows that have ended are fed once more when their states are wanted; nothing is drawn for those alone.
      const drawing = this.slots.some((row) => row !== null && !row.ended);
      for (let k = 0; k < steps; k++) {
        const step = engine.scope(() => {
          const hidden = this.#feed(last); // [B, D]
          if (!drawing) return { hidden };
          const one = engine.reshape(engine.narrow(uniforms, 0, k, 1), [batch]);
          const next = sampler.draw(this.#policy.logits(hidden), one, this.#memory.seen);
          return this.#options.limits.hidden ? { hidden, next } : { next };
        });
        this.#used++;
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
        logProbs: drawing
          ? engine.floats(joined(drawn.map(({ logProbs }) => logProbs)))
          : new Float32Array(0),
        hidden: this.#options.limits.hidden ? engine.floats(joined(states)) : null,
      };
      return { tokens: last, block };
    });
    if (tokens !== this.#memory.tokens) this.#replace(() => ({ tokens }));
    return block;
  }

  /** Feeds one token per slot: [B] → hidden [B, D]. */
  #feed(tokens: Tensor): Tensor {
    const { engine, dims, weights } = this.#policy;
    const { prefix, own, mask } = this.#memory;
    const used = this.#used;
    const done = decode(engine, weights, dims, {
      x: engine.rows(weights.embed, tokens), // [B, D]
      batch: this.slots.length,
      length: 1,
      ...this.#turn(),
      own: { layers: own, used },
      ...(prefix === null ? {} : { prefix }),
      ...(mask === null ? {} : { mask: engine.narrow(mask, 3, 0, used + 1) }),
    });
    return done.hidden;
  }

  /** Rows of the rotary tables for the next column. Slots without a row may be past all responses. */
  #places(): Int32Array {
    return this.#shift.map((shift) => Math.min(shift + this.#used, this.#options.angles.count));
  }

  /** Rotary tables of the tokens that stand at the next column: [1 or B, 1, d]. */
  #turn(): { cos: Tensor; sin: Tensor } {
    const { engine, dims } = this.#policy;
    const { cos, sin } = this.#options.angles;
    const places = this.#places();
    const index = places.every((place) => place === places[0])
      ? null
      : engine.tensor(places, [places.length]);
    const at = (table: Tensor): Tensor => {
      const rows = index === null ? engine.narrow(table, 0, places[0]!, 1) : engine.rows(table, index);
      return engine.reshape(rows, [-1, 1, dims.headDim]);
    };
    return { cos: at(cos), sin: at(sin) };
  }

  /** Null where steps of one shape are not wanted, or not recorded. */
  #runFixed(steps: number): Block | null {
    const { engine } = this.#policy;
    const { fixed, block } = this.#options.stepping;
    if (!this.#recordable) return null;
    this.#fixed ??= new FixedStep(this.#policy, {
      ...this.#memory,
      sampler: this.#options.sampler,
      hidden: this.#options.limits.hidden,
      angles: this.#options.angles,
      used: this.#used,
      places: this.#places(),
      block,
    });
    if (fixed === 'recorded' && !this.#fixed.record()) {
      this.#recordable = false;
      this.#forgetSteps();
      return null;
    }
    const step = this.#fixed;
    const done = engine.scope(() => step.run(this.#uniforms(this.slots, steps), steps));
    this.#used += steps;
    return done;
  }

  dispose(): void {
    this.#forgetSteps();
    this.#policy.engine.dispose(...tensorsOf(this.#memory));
  }
}
