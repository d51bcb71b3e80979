/** What tensors would hold, in bytes: now, at most, and at most in each phase of a computation. */

/** Memory behind one or several tensors. */
export interface Storage {
  readonly bytes: number;
  /** What made it: the name of an operator, or `gradient` inside a backward pass. */
  readonly kind: number;
  /** Tensors and saved values over it. */
  refs: number;
}

/** The largest that a phase held. */
export interface PhasePeak {
  readonly bytes: number;
  /** What made the storage held then, in bytes. */
  readonly kinds: Readonly<Record<string, number>>;
}

interface Mark {
  bytes: number;
  kinds: number[];
}

export class Ledger {
  readonly #granule: number;
  readonly #names: string[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #held: number[] = [];
  readonly #phases = new Map<string, Mark>();
  #mark: Mark;
  /** Whether the mark is of now: what made it is written down when something is freed. */
  #rising = false;
  #now = 0;
  #peak = 0;

  /** `granule`: the allocator gives multiples of so many bytes. */
  constructor(granule = 1) {
    this.#granule = granule;
    this.#mark = { bytes: 0, kinds: [] };
    this.#phases.set('begin', this.#mark);
  }

  get now(): number {
    return this.#now;
  }

  get peak(): number {
    return this.#peak;
  }

  /** Counts the peak anew. */
  again(): void {
    this.#peak = this.#now;
  }

  /** Number of a kind. */
  kind(name: string): number {
    let number = this.#numbers.get(name);
    if (number === undefined) {
      number = this.#names.push(name) - 1;
      this.#numbers.set(name, number);
      this.#held.push(0);
    }
    return number;
  }

  take(bytes: number, kind: number): Storage {
    const size = Math.ceil(bytes / this.#granule) * this.#granule;
    this.#now += size;
    this.#held[kind]! += size;
    if (this.#now > this.#mark.bytes) {
      this.#mark.bytes = this.#now;
      this.#rising = true;
    }
    if (this.#now > this.#peak) this.#peak = this.#now;
    return { bytes: size, kind, refs: 1 };
  }

  /** One holder less; the last one frees it. */
  drop(storage: Storage): void {
    if (--storage.refs > 0) return;
    this.#settle();
    this.#now -= storage.bytes;
    this.#held[storage.kind]! -= storage.bytes;
  }

  #settle(): void {
    if (this.#rising) this.#mark.kinds = this.#held.slice();
    this.#rising = false;
  }

  /** Begins a phase, or goes on with it. */
  phase(name: string): void {
    this.#settle();
    let mark = this.#phases.get(name);
    if (mark === undefined) {
      mark = { bytes: 0, kinds: [] };
      this.#phases.set(name, mark);
    }
    this.#mark = mark;
    if (this.#now > mark.bytes) {
      mark.bytes = this.#now;
      this.#rising = true;
    }
  }

  /** The phases so far, in the order of their beginning. */
  peaks(): ReadonlyMap<string, PhasePeak> {
    this.#settle();
    const out = new Map<string, PhasePeak>();
    for (const [name, { bytes, kinds }] of this.#phases) {
      const entries = kinds.flatMap((held, kind) => (held > 0 ? [[this.#names[kind]!, held] as const] : []));
      out.set(name, { bytes, kinds: Object.fromEntries(entries.sort((a, b) => b[1] - a[1])) });
    }
    return out;
  }
}
