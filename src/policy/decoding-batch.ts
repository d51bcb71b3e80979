/**
 * Batch in decoding: rows, keys and values of their prompts, and their own in a cache that all extend at the
 * same column. A row that joins later hides earlier columns; the position of its token is the column plus a
 * shift per row. Columns that no row reads are dropped when the cache grows.
 */
import type { Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from './batch.ts';
import type { Row, StoppingCriteria } from './generate.ts';
import {
  allocate,
  type BatchState,
  type Kept,
  type KeptCaches,
  keepSlots,
  maskColumns,
  moveColumns,
  stateTensors,
  writePrefill,
} from './kv-cache.ts';
import type { Weights } from './layout.ts';
import type { Policy } from './policy.ts';
import type { RopeTables } from './rope.ts';
import { type Sampler, seenInPrompts, writeSeen } from './sampler.ts';
import { prefill, runSteps, StaticSteps, type StepInput, type StepResults } from './step.ts';

/** Columns by which the cache of the rows grows. */
export const GROWTH = 256;

/** Pace of the decoding steps. */
export interface Stepping {
  /** Steps between two looks at what was sampled. */
  readonly stepsPerLook: number;
  /**
   * Static cache: steps reach over all columns, so that a device can record them; otherwise over the filled
   * ones. `recorded`: where the device can.
   */
  readonly staticCache: 'recorded' | 'always' | 'never';
}

/** A prompt that joins, and a row for each of its slots. */
export interface Group {
  readonly prompt: EncodedPrompt;
  readonly rows: readonly Row[]; // [G]
}

interface DecodingOptions {
  readonly sampler: Sampler;
  readonly limits: StoppingCriteria;
  /** Tokens of the longest prompt that may join. */
  readonly longest: number;
  readonly rope: RopeTables;
  readonly stepping: Stepping;
  /** The policy's weights, arranged for steps. */
  readonly weights: Weights;
  /** Caches of prompts that later ones continue; null: none are kept. */
  readonly kept: KeptCaches | null;
}

export class DecodingBatch {
  slots: (Row | null)[];
  prompts: number;
  readonly #policy: Policy;
  readonly #options: DecodingOptions;
  #state: BatchState;
  #used: number;
  /** First column that a slot may read. */
  #start: Int32Array; // [B]
  /** Row of the rotary tables for a token of a slot, minus its column. */
  #shift: Int32Array; // [B]
  #static: StaticSteps | null = null;
  #recordable: boolean;

  /** A batch of these prompts, none of which has a token yet: `fill` all of them next. */
  constructor(policy: Policy, groups: number, rows: number, options: DecodingOptions) {
    this.#policy = policy;
    this.#options = options;
    this.#recordable = options.stepping.staticCache !== 'never';
    this.prompts = groups;
    this.slots = new Array<Row | null>(rows).fill(null);
    const alone = rows === groups;
    this.#used = alone ? options.longest : 0;
    this.#start = new Int32Array(rows);
    this.#shift = new Int32Array(rows);
    const shape = { prompts: alone ? null : groups, promptLength: options.longest, rows };
    const columns = this.#columns(Math.min(options.limits.maxTokens, GROWTH));
    this.#state = allocate(policy, { ...shape, columns, seen: options.sampler.penalty !== 1 });
  }

  /** A capacity with room for `more` columns behind the used ones. */
  #columns(more: number): number {
    const wanted = this.#used + more;
    const unit = this.#options.stepping.staticCache === 'never' ? 1 : GROWTH / 2;
    return Math.ceil(wanted / unit) * unit;
  }

  get #capacity(): number {
    return this.#state.layers[0]!.key.shape[2]!;
  }

  /** Replaces part of the memory by what `build` makes of it, and frees what was replaced. */
  #replace(build: (state: BatchState) => Partial<BatchState>): void {
    const { engine } = this.#policy;
    const before = this.#state;
    this.#state = { ...before, ...engine.scope(() => build(before)) };
    const kept = new Set(stateTensors(this.#state));
    engine.dispose(...stateTensors(before).filter((tensor) => !kept.has(tensor)));
    this.#disposeStatic();
  }

  #disposeStatic(): void {
    this.#static?.dispose();
    this.#static = null;
  }

  // ---- rows that join --------------------------------------------------------------------------------

  /**
   * Encodes prompts into the free places `into` [n] and draws the first token of each row; returns the rows
   * [n · G] and results.
   */
  fill(into: readonly number[], groups: readonly Group[]): { rows: readonly Row[]; results: StepResults } {
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
      this.#start[slot] = this.#used - (this.#state.prefix === null ? before : 0);
      this.#shift[slot] = prompt.next - this.#options.rope.base - this.#used;
    }
    this.#maskUnread(into, slots, groups, fresh);
    this.#disposeStatic();
    const prompts = groups.map(({ prompt }) => prompt);
    const { kept } = this.#options;
    kept?.reserve(prompts);
    const results = engine.scope(() => {
      const target = { into, fresh, used: this.#used };
      const logits = prefill(
        this.#policy,
        prompts,
        (chunk) => {
          writePrefill(this.#policy, this.#state, chunk, target);
          kept?.write(prompts, chunk);
        },
        { kept },
      ); // [n, V]
      const repeat = Int32Array.from(slots, (_, i) => Math.floor(i / size));
      const each = engine.tensor(repeat, [slots.length]);
      const seen = this.#state.seen === null ? null : seenInPrompts(this.#policy, prompts, each);
      const uniforms = engine.reshape(this.#uniforms(rows, 1), [slots.length]);
      const drawn = this.#options.sampler.draw(engine.indexSelect(logits, each), uniforms, seen);
      const index = engine.tensor(Int32Array.from(slots), [slots.length]);
      engine.indexCopyInto(this.#state.tokens, 0, index, drawn.ids);
      if (seen !== null) writeSeen(this.#policy, this.#state.seen!, index, seen);
      return { steps: 1, ids: engine.ints(drawn.ids), logProbs: engine.floats(drawn.logProbs), hidden: null };
    });
    return { rows, results };
  }

  /** Hides from joining rows the padding of their prompt and what earlier rows wrote. */
  #maskUnread(
    into: readonly number[],
    slots: readonly number[],
    groups: readonly Group[],
    fresh: boolean,
  ): void {
    const { engine, dtype } = this.#policy;
    const { longest } = this.#options;
    const lengths = groups.map(({ prompt }) => prompt.ids.length);
    const padded = lengths.some((length) => length < longest);
    const alone = this.#state.prefix === null;
    if (!alone && (padded || this.#state.prefix?.mask !== undefined)) {
      if (this.#state.prefix?.mask === undefined) {
        this.#replace(({ prefix }) => ({
          prefix: { ...prefix!, mask: engine.zeros([this.prompts, 1, 1, longest], dtype) },
        }));
      }
      maskColumns(this.#policy, this.#state.prefix!.mask!, into, (i) => [lengths[i]!, longest]);
    }
    if (fresh ? alone && padded : this.#used > 0) {
      if (this.#state.mask === null) {
        const columns = this.#capacity;
        this.#replace(() => ({ mask: engine.zeros([this.slots.length, 1, 1, columns], dtype) }));
      }
      maskColumns(this.#policy, this.#state.mask!, slots, (i) =>
        fresh ? [lengths[i]!, this.#used] : [0, this.#start[slots[i]!]!],
      );
    }
  }

  // ---- rows that leave -------------------------------------------------------------------------------

  /** True when no row is left. */
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
    for (const change of keepSlots(this.#policy, this.#state, kept)) this.#replace(change);
    this.slots = kept.slots.map((slot, i) => (kept.fillers.has(i) ? null : this.slots[slot]!));
    this.prompts = kept.prompts.length;
    this.#start = Int32Array.from(kept.slots, (slot) => this.#start[slot]!);
    this.#shift = Int32Array.from(kept.slots, (slot) => this.#shift[slot]!);
  }

  /** Makes room for `steps` more columns, and drops those that no row reads any longer. */
  #reserve(steps: number): void {
    if (this.#used + steps <= this.#capacity) return;
    const lead = this.#state.prefix === null ? this.#options.longest : 0; // prompts may join that end here
    let drop = Math.max(0, this.#used - lead);
    for (const [b, row] of this.slots.entries()) if (row !== null) drop = Math.min(drop, this.#start[b]!);
    const kept = this.#used - drop;
    this.#used = kept;
    const columns = this.#columns(GROWTH);
    for (const change of moveColumns(this.#policy, this.#state, { drop, held: kept, columns }))
      this.#replace(change);
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
  run(steps: number): StepResults {
    this.#reserve(steps);
    return this.#runStatic(steps) ?? this.#runDynamic(steps);
  }

  get #stepInput(): StepInput {
    const { weights, sampler, limits, rope } = this.#options;
    const { hidden } = limits;
    return { weights, state: this.#state, sampler, hidden, rope, used: this.#used, shift: this.#shift };
  }

  #runDynamic(steps: number): StepResults {
    // Rows that have ended are fed once more when their states are wanted; nothing is drawn for those alone.
    const drawing = this.slots.some((row) => row !== null && !row.ended);
    const { tokens, results } = this.#policy.engine.scope(() =>
      runSteps(this.#policy, this.#stepInput, this.#uniforms(this.slots, steps), steps, drawing),
    );
    this.#used += results.steps;
    if (tokens !== this.#state.tokens) this.#replace(() => ({ tokens }));
    return results;
  }

  /**
   * Skips steps, in multiples of `stepsPerLook`, that take no more memory than the next one taken: all but
   * the last that fits in the cache or that a row needs. The rows then hold nothing that was sampled.
   */
  pass(): void {
    const { stepsPerLook } = this.#options.stepping;
    let looks = Math.floor((this.#capacity - this.#used) / stepsPerLook);
    for (const row of this.slots) {
      if (row !== null) looks = Math.min(looks, Math.ceil(row.left / stepsPerLook));
    }
    if (looks < 2) return;
    const steps = (looks - 1) * stepsPerLook;
    for (const row of this.slots) row?.pass(steps);
    this.#used += steps;
  }

  /** Null where a static cache is not wanted, or its steps are not recorded. */
  #runStatic(steps: number): StepResults | null {
    const { engine } = this.#policy;
    const { staticCache, stepsPerLook } = this.#options.stepping;
    if (!this.#recordable) return null;
    this.#static ??= new StaticSteps(this.#policy, this.#stepInput, stepsPerLook);
    if (staticCache === 'recorded' && !this.#static.record()) {
      this.#recordable = false;
      this.#disposeStatic();
      return null;
    }
    const step = this.#static;
    const results = engine.scope(() => step.run(this.#uniforms(this.slots, steps), steps));
    this.#used += steps;
    return results;
  }

  dispose(): void {
    this.#disposeStatic();
    this.#policy.engine.dispose(...stateTensors(this.#state));
  }
}

/** The rows of a batch: slot b of prompt ⌊b / G⌋ holds a row, or null once that row is complete. */
type Slots = readonly (Row | null)[];

/** Copies leave a batch only when at least this share of its rows goes. */
const WORTH_LEAVING = 0.2;

/** Slots to keep so that complete rows go and groups stay of equal size; null when too little would be won. */
export function keptSlots(slots: Slots, prompts: number): Kept | null {
  const group = slots.length / prompts;
  const alive: number[][] = [];
  for (let p = 0; p < prompts; p++) {
    const left: number[] = [];
    for (let g = 0; g < group; g++) if (slots[p * group + g] !== null) left.push(p * group + g);
    alive.push(left);
  }
  const width = alive.reduce((most, left) => Math.max(most, left.length), 0);
  const staying = alive.flatMap((left, p) => (left.length > 0 ? [p] : []));
  if (width * staying.length > slots.length * (1 - WORTH_LEAVING)) return null;
  const kept: number[] = [];
  const fillers = new Set<number>();
  for (const p of staying) {
    const left = alive[p]!;
    for (let g = 0; g < width; g++) {
      if (g >= left.length) fillers.add(kept.length);
      kept.push(left[Math.min(g, left.length - 1)]!);
    }
  }
  return { slots: kept, prompts: staying, fillers };
}

/** Prompts all of whose rows are complete, when they are enough of the batch to be worth refilling. */
export function freePrompts(slots: Slots, prompts: number): number[] {
  const group = slots.length / prompts;
  const free: number[] = [];
  for (let p = 0; p < prompts; p++) {
    if (slots.slice(p * group, (p + 1) * group).every((row) => row === null)) free.push(p);
  }
  return free.length >= WORTH_LEAVING * prompts ? free : [];
}
