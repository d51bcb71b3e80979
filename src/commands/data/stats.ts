/** `timeseer data stats DIR`: what a data set holds, by split and class. */
import type { CommandModule } from 'yargs';
import { classOf, lengthOf } from '../../../datasets/example.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import type { Split } from '../../../datasets/split.ts';
import { formatValue } from '../../progress.ts';
import { Random } from '../../random.ts';
import { print, printJson } from '../../terminal.ts';
import type { Example } from '../../types.ts';
import { columns } from './list.ts';
import { blindLines, blindScores } from './summary.ts';

export interface StatsArguments {
  readonly directory: string;
  readonly json: boolean;
}

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
    if (example.gold.kind !== 'anomaly') return;
    this.#anomaly = true;
    for (const [start, end] of example.gold.intervals) this.#inside += end - start;
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
function setStats(set: ExampleSet): ClassStats[] {
  const list: ClassStats[] = [];
  for (const split of set.splits) {
    const classes = new Map<string, Gatherer>();
    for (const example of set.read(split)) {
      const name = classOf(example.gold);
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

const percent = (share: number): string => `${formatValue(100 * share)} %`;

function table(list: readonly ClassStats[]): string {
  const anomalous = list.some((one) => one.anomalous !== null);
  const names = ['least', '5 %', 'median', '95 %', 'most'];
  const head = [
    'split',
    'class',
    'count',
    'points',
    'missing',
    ...(anomalous ? ['anomalous'] : []),
    ...names,
  ];
  const rows = list.map(({ split, class: name, count, length, missing, quantiles, anomalous: inside }) => {
    const [shortest, mean, longest] = length;
    const points =
      shortest === longest ? String(shortest) : `${shortest}–${longest}, mean ${formatValue(mean)}`;
    return [
      ...[split, name, String(count), points, percent(missing)],
      ...(anomalous ? [percent(inside ?? 0)] : []),
      ...quantiles.map(formatValue),
    ];
  });
  return columns([head, ...rows]);
}

/** Runs the command. @throws as `setStats` */
export async function runStats({ directory, json }: StatsArguments): Promise<void> {
  const set = new ExampleSet(directory);
  const list = setStats(set);
  const { task, split, materials } = set.manifest;
  const blind = blindScores(set.manifest);
  const lines = blindLines(set.manifest);
  const none = `blind expert: not scored; ${materials?.notes[0] ?? 'timeseer data prepare scores it with its traces'}`;
  if (json) {
    printJson({ directory, task, split: split.statement, quantiles: QUANTILES, stats: list, blind });
  } else {
    print([table(list), ...(lines.length === 0 ? [none] : lines), `split: ${split.statement}`].join('\n'));
  }
}

export const statsCommand: CommandModule<object, StatsArguments> = {
  command: 'stats <directory>',
  describe: 'Counts, lengths, missing points and value quantiles by split and class',
  builder: (yargs) =>
    yargs
      .positional('directory', {
        type: 'string',
        demandOption: true,
        describe: 'What timeseer data prepare wrote',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the numbers as JSON' }),
  handler: runStats,
};
