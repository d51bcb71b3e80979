/**
 * The AnomLLM generator (Zhou and Yu 2024, "Can LLMs understand time series anomalies?"), the training and evaluation
 * data of AnomSeer: eight task types, univariate, 1000 points and 400 series per split in the publication.
 *
 * Normal and anomalous stretches alternate from the start. Both durations are exponential, raised to a minimum and
 * truncated to integers; the last interval is cut at the end of the series, so it may be shorter than the minimum.
 * Durations count samples whatever the length: short series hold few anomalies (trend needs more than 800 points).
 *
 * The distribution is the reference's; the numbers are not: it draws every series from one sequential generator, here
 * each is a pure function of (seed, task, split, index).
 */
import { extent } from '../../src/ground/numbers.ts';
import { addNoise, balanced, Random, standardNormal } from '../../src/ground/random.ts';
import type { AnomalyClass, Example, Interval } from '../../src/ground/types.ts';
import { anomalyExample } from '../example.ts';
import { checkAddress, type Split } from '../split.ts';

export const ANOMLLM_TASKS = [
  'point',
  'range',
  'freq',
  'trend',
  'flat-trend',
  'noisy-point',
  'noisy-freq',
  'noisy-trend',
] as const;
export type AnomLLMTask = (typeof ANOMLLM_TASKS)[number];

export const ANOMLLM_LENGTH = 1000;

/** A stretch of samples: exponential with `mean`, at least `minimum`. */
interface Duration {
  readonly mean: number;
  readonly minimum: number;
}

type Fill = (random: Random, values: Float64Array, intervals: readonly Interval[]) => void;

interface Recipe {
  /** Gold class of a series that holds an anomaly; without one it is 'normal'. */
  readonly class: AnomalyClass;
  readonly normal: Duration;
  readonly anomalous: Duration;
  readonly maximumIntervals: number;
  /** Standard deviation of the noise added last. */
  readonly noise: number;
  readonly fill: Fill;
}

const TAU = 2 * Math.PI;

/** Sine of 0.03 cycles per sample; anomalous points are replaced by N(0, 0.5). */
const fillPoint: Fill = (random, values, intervals) => {
  for (let t = 0; t < values.length; t++) values[t] = Math.sin(TAU * 0.03 * t);
  for (const [start, end] of intervals) {
    for (let t = start; t < end; t++) values[t] = 0.5 * standardNormal(random);
  }
};

/** N(0, std); anomalous points are shifted by U(low, high) each, with one sign per interval. */
export const fillShifted =
  (std: number, low: number, high: number): Fill =>
  (random, values, intervals) => {
    addNoise(random, values, std, 0, values.length);
    for (const [start, end] of intervals) {
      const sign = random.uniform() < 0.5 ? -1 : 1;
      for (let t = start; t < end; t++) values[t] = values[t]! + sign * random.between(low, high);
    }
  };

/** Sine with accumulated phase at 0.03 cycles per sample, 3 or ⅓ times that in an anomaly. */
const fillFrequency: Fill = (random, values, intervals) => {
  let phase = 0;
  let t = 0;
  const run = (end: number, frequency: number): void => {
    for (; t < end; t++) {
      phase += TAU * frequency;
      values[t] = Math.sin(phase);
    }
  };
  for (const [start, end] of intervals) {
    run(start, 0.03);
    run(end, random.uniform() < 0.5 ? 0.03 * 3 : 0.03 / 3);
  }
  run(values.length, 0.03);
};

/** Sine of 0.02 cycles per sample on a line that rises 3 per length, U(low, high) in an anomaly; scaled to [−1, 1]. */
function fillTrend(low: number, high: number): Fill {
  return (random, values, intervals) => {
    const length = values.length;
    let level = 0;
    let t = 0;
    const run = (end: number, rise: number): void => {
      for (; t < end; t++) {
        values[t] = Math.sin(TAU * 0.02 * t) + level;
        level += rise / length;
      }
    };
    for (const [start, end] of intervals) {
      run(start, 3);
      run(end, random.between(low, high));
    }
    run(length, 3);
    const [minimum, maximum] = extent(values);
    const scale = 2 / (maximum - minimum);
    for (let i = 0; i < length; i++) values[i] = (values[i]! - minimum) * scale - 1;
  };
}

const POINT: Recipe = {
  class: 'contextual point',
  normal: { mean: 800, minimum: 200 },
  anomalous: { mean: 30, minimum: 5 },
  maximumIntervals: 8,
  noise: 0,
  fill: fillPoint,
};
const RANGE: Recipe = {
  class: 'global point',
  normal: { mean: 800, minimum: 10 },
  anomalous: { mean: 20, minimum: 5 },
  maximumIntervals: 8,
  noise: 0,
  fill: fillShifted(0.1, 0.5, 0.8),
};
const FREQUENCY: Recipe = {
  class: 'seasonal',
  normal: { mean: 450, minimum: 20 },
  anomalous: { mean: 15, minimum: 7 },
  maximumIntervals: Number.POSITIVE_INFINITY,
  noise: 0,
  fill: fillFrequency,
};
const TREND: Recipe = {
  class: 'trend',
  normal: { mean: 1700, minimum: 800 },
  anomalous: { mean: 100, minimum: 50 },
  maximumIntervals: 8,
  noise: 0,
  fill: fillTrend(6, 20),
};
const NOISE = 0.08;

const RECIPES: Readonly<Record<AnomLLMTask, Recipe>> = {
  point: POINT,
  range: RANGE,
  freq: FREQUENCY,
  trend: TREND,
  'flat-trend': { ...TREND, fill: fillTrend(4.5, 6) },
  'noisy-point': { ...POINT, noise: NOISE },
  'noisy-freq': { ...FREQUENCY, noise: NOISE },
  'noisy-trend': { ...TREND, noise: NOISE },
};

/** Settings of a task, for the manifest of a data set. */
export function anomllmParameters(task: AnomLLMTask): Readonly<Record<string, unknown>> {
  const { normal, anomalous, maximumIntervals, noise } = RECIPES[task];
  return {
    normal_duration: normal,
    anomalous_duration: anomalous,
    maximum_intervals: Number.isFinite(maximumIntervals) ? maximumIntervals : null,
    noise,
  };
}

export function anomllmClass(task: AnomLLMTask): AnomalyClass {
  return RECIPES[task].class;
}

const duration = (random: Random, { mean, minimum }: Duration): number =>
  Math.trunc(Math.max(random.exponential(mean), minimum));

function drawIntervals(random: Random, recipe: Recipe, length: number): Interval[] {
  const intervals: Interval[] = [];
  let location = 0;
  while (intervals.length < recipe.maximumIntervals) {
    const start = location + duration(random, recipe.normal);
    if (start >= length) break;
    location = Math.min(length, start + duration(random, recipe.anomalous));
    intervals.push([start, location]);
  }
  return intervals;
}

/**
 * One series, a pure function of its arguments.
 * @param seed 42 in the published evaluation split, 3407 in the training split
 * @param index integer in [0, 2³²)
 * @param length number of points, N ≥ 2
 * @returns one channel [N]; intervals half-open, sorted, disjoint, inside [0, N); class 'normal' when there is none
 * @throws ConfigError for a seed, index or length out of range
 */
export function anomllm(
  task: AnomLLMTask,
  seed: number,
  split: Split,
  index: number,
  length: number = ANOMLLM_LENGTH,
): Example {
  checkAddress(seed, index, length, 2);
  const recipe = RECIPES[task];
  const name = `anomllm/${task}`;
  const random = new Random(seed, `${name}/${split}`, index);
  const intervals = drawIntervals(random, recipe, length);
  const values = new Float64Array(length); // [N]
  recipe.fill(random, values, intervals);
  if (recipe.noise > 0) addNoise(random, values, recipe.noise, 0, length);
  const label = intervals.length === 0 ? 'normal' : recipe.class;
  return anomalyExample(`${name}/${split}/${index}`, name, values, label, intervals);
}

/**
 * All eight tasks mixed: each block of eight consecutive indices holds every task once, in random order, so that no
 * stride over the indices meets one task only. Series i of block b is series b of its task.
 * @returns as `anomllm`
 * @throws ConfigError as `anomllm`
 */
export function anomllmMixed(
  seed: number,
  split: Split,
  index: number,
  length: number = ANOMLLM_LENGTH,
): Example {
  checkAddress(seed, index, length, 2);
  const task = balanced(ANOMLLM_TASKS, seed, `anomllm/${split}/tasks`, index);
  return anomllm(task, seed, split, Math.floor(index / ANOMLLM_TASKS.length), length);
}
