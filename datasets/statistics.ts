/**
 * Statistics of a prepared data set: counts, lengths, missing points and value quantiles by split and class; how often the blind expert
 * is right.
 */
import { getOrMake } from '../src/ground/maps.ts';
import { percent, quantile } from '../src/ground/numbers.ts';
import { Random } from '../src/ground/random.ts';
import type { Example } from '../src/ground/types.ts';
import { coverage } from '../src/series/intervals.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import { lengthOf } from './example.ts';
import type { ExampleManifest } from './example-manifest.ts';
import type { ExampleSet } from './example-set.ts';
import type { Split } from './split.ts';

export const QUANTILES = [0, 0.05, 0.5, 0.95, 1] as const;
/** Maximum number of values for quantiles, sampled at random; extremes are always exact. */
const SAMPLE = 200_000;

export interface ClassStats {
  readonly split: Split;
  readonly class: string;
  readonly count: number;
  /** Points per example: shortest, mean, longest. */
  readonly length: readonly [shortest: number, mean: number, longest: number];
  readonly missing: number;
  /** Values at `QUANTILES`, of all channels together. */
  readonly quantiles: readonly number[];
  /** Share of points inside anomalies; null for other tasks. */
  readonly anomalous: number | null;
}

/** Running statistics of one class in one split, in constant memory. */
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
      return share === 1 ? this.#high : quantile(sorted, share);
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

export function setStats(set: ExampleSet): ClassStats[] {
  const list: ClassStats[] = [];
  for (const split of set.splits) {
    const classes = new Map<string, Gatherer>();
    for (const example of set.read(split)) {
      const name = labelOf(example.gold);
      getOrMake(classes, name, () => new Gatherer(`${split}/${name}`)).add(example);
    }
    const order = Object.keys(set.manifest.splits[split]!.classes);
    const sorted = [...classes].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
    list.push(...sorted.map(([name, gatherer]) => gatherer.stats(split, name)));
  }
  return list;
}

/** Reference accuracy: always naming the most frequent class. */
const always = (chance: number | null): string =>
  chance === 1 ? 'all of one class' : `most frequent ${percent(chance ?? 0, 1, ' ')}`;

/** Accuracy of the blind expert by split; null where it was not scored. */
export function blindScores({ materials }: ExampleManifest): Record<string, unknown> | null {
  const scored = Object.entries(materials?.splits ?? {}).filter(([, { score }]) => score !== null);
  return scored.length === 0 ? null : Object.fromEntries(scored.map(([split, { score }]) => [split, score]));
}

/**
 * Number of normal series of a split where no anomaly has a kind: only those have a class that can be right. Undefined elsewhere.
 * @param chance accuracy of the most frequent class
 */
export function normalAlone(
  { kind, splits }: Pick<ExampleManifest, 'kind' | 'splits'>,
  split: Split,
  chance: number | null,
): number | undefined {
  return taskKind(kind).localises && chance === 1 ? splits[split]?.classes['normal'] : undefined;
}

/** One line on how often the blind expert is right; none where there are no traces. */
export function blindLines(manifest: ExampleManifest): string[] {
  const { materials } = manifest;
  if (materials === undefined) return [];
  const parts = Object.entries(materials.splits).flatMap(([split, { score }]) => {
    if (score === null) return [];
    const { count, accuracy, chance, f1 } = score;
    const normal = normalAlone(manifest, split as Split, chance);
    const named =
      normal === undefined
        ? `class ${percent(accuracy ?? 0, 1, ' ')} (${always(chance)})`
        : `leaves ${percent(accuracy ?? 0, 1, ' ')} of the ${normal} normal ones alone`;
    const words = [...(accuracy === null ? [] : [named]), ...(f1 === null ? [] : [`F1 ${f1.toFixed(3)}`])];
    return [`${split} ${words.join(', ')} of ${count}`];
  });
  const heldOut = materials.classes?.heldOut ?? null;
  if (heldOut !== null) parts.unshift(`train, in folds, class ${percent(heldOut, 1, ' ')}`);
  return parts.length === 0 ? [] : [`blind expert: ${parts.join('; ')}`];
}
