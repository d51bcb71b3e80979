/** The order in which a stage goes through a data set: again and again, shuffled anew for every pass. */
import { Random } from '../src/random.ts';

/**
 * Places in a data set of `count` examples by the number of the draw: each pass is a permutation of the whole, so that no example
 * is seen twice before all are seen once. A pure function of its arguments, whatever was asked for before.
 */
export class Passes {
  readonly #count: number;
  readonly #seed: number;
  readonly #name: string;
  #pass = -1;
  #order: Int32Array = new Int32Array(0);

  /** `name` keys the shuffles: stages of one run go through the data in different orders. */
  constructor(count: number, seed: number, name: string) {
    this.#count = count;
    this.#seed = seed;
    this.#name = name;
  }

  /** Place, in [0, count), of draw number `index` ≥ 0. */
  place(index: number): number {
    const pass = Math.floor(index / this.#count);
    if (pass !== this.#pass) {
      this.#order = new Random(this.#seed, `passes of ${this.#name}`, pass).permutation(this.#count);
      this.#pass = pass;
    }
    return this.#order[index % this.#count]!;
  }
}
