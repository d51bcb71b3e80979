/** The order in which a stage goes through a data set: epoch after epoch, shuffled anew for each. */
import { Random } from '../src/random.ts';

/**
 * Places in a data set of `count` examples by the number of the draw: each epoch is a permutation of the whole, so that no
 * example is seen twice before all are seen once. A pure function of its arguments, whatever was asked for before.
 */
export class EpochOrder {
  readonly #count: number;
  readonly #seed: number;
  readonly #name: string;
  #epoch = -1;
  #order: Int32Array = new Int32Array(0);

  /** `name` keys the shuffles: stages of one run go through the data in different orders. */
  constructor(count: number, seed: number, name: string) {
    this.#count = count;
    this.#seed = seed;
    this.#name = name;
  }

  /** Place, in [0, count), of draw number `index` ≥ 0. */
  place(index: number): number {
    const epoch = Math.floor(index / this.#count);
    if (epoch !== this.#epoch) {
      // The key of the random stream keeps its name: the order of every data set hangs on it.
      this.#order = new Random(this.#seed, `passes of ${this.#name}`, epoch).permutation(this.#count);
      this.#epoch = epoch;
    }
    return this.#order[index % this.#count]!;
  }
}
