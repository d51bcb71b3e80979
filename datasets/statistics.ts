/** Statistics of a prepared data set by split and class: counts, lengths, missing points, value quantiles. */

import { Random } from '../src/random.ts';
import { coverage } from '../src/series/intervals.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import type { Example } from '../src/types.ts';
import { lengthOf } from './example.ts';
import type { ExampleSet } from './example-set.ts';
import type { Split } from './split.ts';

/** Shares of the values at or below a quantile. */
export const QUANTILES = [0, 0.05, 0.5, 0.95, 1] as const;
/** Values that quantiles are taken of: all, or a random sample of this size; extremes are always exact. */
const SAMPLE = 200_000;

export interface ClassStats {
  readonly split: Split;
  readonly class: string;
  readonly count: number;
  /** Points per example: shortest, mean, longest. */
  readonly length: readonly [shortest: number, mean: number, longest: number];
  /** Share of points that are missing. */
  readonly missing: number;
  /** Values at `QUANTILES`, of all channels together. */
  readonly quantiles: readonly number[];
  /** Share of points inside anomalies; null for other tasks. */
  readonly anomalous: number | null;
}

/** Numbers of one class in one split; memory does not grow with the data. */
class Gatherer {
  readonly #random: Random;
  readonly #sample: number[] = [];
  #count = 0;
  #points = 0;
  #shortest = Number.POSITIVE_INFINITY;
  #longest = 0;
  #values = 0;
  #missing = 0;
  #low = Number.POSITIVE_INFINITY;
  #high = Number.NEGATIVE_INFINITY;
  #inside = 0;
  #anomaly = false;

  constructor(name: string) {
    this.#random = new Random(0, `stats/${name}`);
  }

  add(example: Example): void {
    const length = lengthOf(example);
    this.#count++;
    this.#points += length;
    this.#shortest = Math.min(this.#shortest, length);
    this.#longest = Math.max(this.#longest, length);
    for (const channel of example.channels) for (const value of channel) this.#value(value);
    const kind = taskKind(example.gold.kind);
    if (!kind.localises) return;
    this.#anomaly = true;
    this.#inside += coverage(kind.marks(example.gold, length)?.intervals ?? []);
  }

  #value(value: number): void {
    if (Number.isNaN(value)) {
      this.#missing++;
      return;
    }
    if (value < this.#low) this.#low = value;
    if (value > this.#high) this.#high = value;
    // Reservoir sampling: every value has the same chance to be in the sample.
    if (this.#sample.length < SAMPLE) this.#sample.push(value);
    else {
      const place = Math.floor(this.#random.uniform() * (this.#values + 1));
      if (place < SAMPLE) this.#sample[place] = value;
    }
    this.#values++;
  }

  stats(split: Split, name: string): ClassStats {
    const sorted = Float64Array.from(this.#sample).sort();
    const at = (share: number): number => {
      if (share === 0) return this.#low;
      if (share === 1) return this.#high;
      const place = share * (sorted.length - 1);
      const low = sorted[Math.floor(place)]!;
      const high = sorted[Math.ceil(place)]!;
      return low + (high - low) * (place - Math.floor(place));
    };
    return {
      split,
      class: name,
      count: this.#count,
      length: [this.#shortest, this.#points / this.#count, this.#longest],
      missing: this.#missing / (this.#missing + this.#values),
      quantiles: QUANTILES.map(at),
      anomalous: this.#anomaly ? this.#inside / this.#points : null,
    };
  }
}

/** Statistics of every split and class, in the order of the manifest. @throws DataError as reading */
export function setStats(set: ExampleSet): ClassStats[] {
  const list: ClassStats[] = [];
  for (const split of set.splits) {
    const classes = new Map<string, Gatherer>();
    for (const example of set.read(split)) {
      const name = labelOf(example.gold);
      const gatherer = classes.get(name) ?? new Gatherer(`${split}/${name}`);
      classes.set(name, gatherer);
      gatherer.add(example);
    }
    const order = Object.keys(set.manifest.splits[split]!.classes);
    const sorted = [...classes].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
    list.push(...sorted.map(([name, gatherer]) => gatherer.stats(split, name)));
  }
  return list;
}
