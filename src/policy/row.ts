/** A response being sampled, and which slots of a batch its rows leave free. */
import type { Random } from '../random.ts';

/** The rows of a batch: slot b of prompt ⌊b / G⌋ holds a row, or null once that row is complete. */
export type Slots = readonly (Row | null)[];

/** What ends a response. */
export interface Limits {
  readonly stops: ReadonlySet<number>;
  readonly maxTokens: number;
  /** Whether a row needs the state of its last token to be complete. */
  readonly hidden: boolean;
}

/** One response: its tokens so far and the random stream that they are drawn from. */
export class Row {
  readonly prompt: number;
  readonly sample: number;
  readonly random: Random;
  readonly limits: Limits;
  readonly ids: number[] = [];
  readonly logProbs: number[] = [];
  /** Its last token is sampled. */
  ended = false;
  /** Tokens whose states are kept. */
  #states = 0;
  #hidden = new Float32Array(0);

  constructor(prompt: number, sample: number, random: Random, limits: Limits) {
    this.prompt = prompt;
    this.sample = sample;
    this.random = random;
    this.limits = limits;
  }

  get complete(): boolean {
    return this.ended && (!this.limits.hidden || this.#states === this.ids.length);
  }

  /** The next draw in [0, 1). A float32 just below 1 may round up to 1, which is no draw. */
  draw(): number {
    return Math.min(this.random.uniform(), 1 - 2 ** -24);
  }

  /** Appends a token. */
  take(id: number, logProb: number): void {
    const { stops, maxTokens } = this.limits;
    this.ids.push(id);
    this.logProbs.push(logProb);
    this.ended = stops.has(id) || this.ids.length === maxTokens;
  }

  /** Steps until its last token is sampled, if no stop token comes before. */
  get left(): number {
    return this.ended ? 0 : this.limits.maxTokens - this.ids.length;
  }

  /** As if `steps` steps had sampled the last token again; fewer than are left. Of these no states are there. */
  pass(steps: number): void {
    const last = this.ids.at(-1)!;
    for (let step = 0; step < steps; step++) this.take(last, 0);
    if (this.limits.hidden) this.#states += steps;
  }

  /** Appends the hidden state [D] of the last token. */
  addHidden(state: Float32Array): void {
    const width = state.length;
    const at = this.#states++ * width;
    if (at + width > this.#hidden.length) {
      const larger = new Float32Array(Math.max(32 * width, 2 * this.#hidden.length));
      larger.set(this.#hidden);
      this.#hidden = larger;
    }
    this.#hidden.set(state, at);
  }

  /** The states appended so far: [T · D]. */
  hidden(width: number): Float32Array {
    return this.#hidden.slice(0, this.#states * width);
  }
}

/** Copies leave a batch only when at least this share of its rows goes. */
const WORTH_LEAVING = 0.2;

export interface Kept {
  /** Old slot of each new one. */
  readonly slots: readonly number[];
  /** Old index of each prompt that stays. */
  readonly prompts: readonly number[];
  /** New slots that are fillers, which nobody reads. */
  readonly fillers: ReadonlySet<number>;
}

/** Slots to keep so that complete rows go and groups stay of equal size; null when too little would be won. */
export function keptSlots(slots: Slots, prompts: number): Kept | null {
  const group = slots.length / prompts;
  const alive: number[][] = [];
  for (let p = 0; p < prompts; p++) {
    const own: number[] = [];
    for (let g = 0; g < group; g++) if (slots[p * group + g] !== null) own.push(p * group + g);
    alive.push(own);
  }
  const width = alive.reduce((most, own) => Math.max(most, own.length), 0);
  const staying = alive.flatMap((own, p) => (own.length > 0 ? [p] : []));
  if (width * staying.length > slots.length * (1 - WORTH_LEAVING)) return null;
  const kept: number[] = [];
  const fillers = new Set<number>();
  for (const p of staying) {
    const own = alive[p]!;
    for (let g = 0; g < width; g++) {
      if (g >= own.length) fillers.add(kept.length);
      kept.push(own[Math.min(g, own.length - 1)]!);
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
