/** A made-up run on disk: series of the real generator, answers of a pretended policy, metrics drawn at random. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openHeldOut } from '../../eval/harness.ts';
import { writeRecords } from '../../eval/records.ts';
import { RUN_VERSION } from '../../eval/run-directory.ts';
import { Random } from '../../src/ground/random.ts';
import type { EvalRecord, Example, Interval } from '../../src/ground/types.ts';
import { type Recipe, recipeSchema } from '../../src/recipe/recipe.ts';
import { evalRecord, writeResponse } from './eval-records.ts';

const CLASSES = ['contextual point', 'global point', 'seasonal', 'trend', 'normal'] as const;

/** Answers to tens, right with probability `skill`, off or ill-formed otherwise. */
export function pretend(series: readonly Example[], skill: number, seed: number): EvalRecord[] {
  return series.map((one, i) => {
    const { gold } = one;
    if (gold.kind !== 'anomaly') throw new Error(`${one.id}: no series with anomalies`);
    const random = new Random(seed, 'pretend', i);
    const length = one.channels[0]!.length;
    if (random.uniform() < 0.06 * (1 - skill)) {
      return evalRecord(one.id, gold, '<think>sine wave; period 6</think><answer>[[140, 2', length);
    }
    const intervals: Interval[] = [];
    for (const [start, end] of gold.intervals) {
      if (random.uniform() > skill + 0.06) continue;
      const shift = Math.round(random.normal(0, 1 - skill));
      const from = Math.max(0, Math.round(start / 10) + shift) * 10;
      intervals.push([from, Math.min(length, Math.max(from + 10, Math.round(end / 10) * 10))]);
    }
    const label = random.uniform() < skill + 0.05 ? (gold.class ?? 'trend') : random.pick(CLASSES);
    const scan = Array.from({ length: 20 }, (_, k) => {
      const hit = intervals.some(([a, b]) => a < (k + 1) * 50 && b > k * 50);
      return hit ? '#' : '.';
    }).join('');
    const think = `sine wave; period ${random.integer(30, 70)}; scan ${scan}`;
    return evalRecord(one.id, gold, writeResponse(intervals, label, think), length);
  });
}

function sftLines(steps: number): object[] {
  const random = new Random(1, 'sft-lines');
  return Array.from({ length: steps }, (_, i) => ({
    step: i + 1,
    samples: 8 * (i + 1),
    loss: 0.2 + 3.7 * Math.exp(-i / (0.11 * steps)) + Math.abs(random.normal(0, 0.03)),
    learningRate: 1e-3,
    gradNorm: 0.8,
    tokens: 344,
    skipped: 0,
    ms: { data: 3 + random.uniform(), gradient: 22 + 6 * random.uniform(), update: 4 },
  }));
}

function rlLines(steps: number): object[] {
  const random = new Random(2, 'rl-lines');
  const toward = (from: number, to: number, i: number, noise: number) =>
    to + (from - to) * Math.exp((-2 * i) / steps) + random.normal(0, noise);
  return Array.from({ length: steps }, (_, i) => ({
    step: i + 1,
    reward: toward(0.82, 0.85, i, 0.01),
    parts: {
      localisation: toward(0.77, 0.8, i, 0.012),
      class: toward(0.95, 0.965, i, 0.01),
      format: toward(0.985, 0.992, i, 0.004),
    },
    similarity: toward(0.71, 0.75, i, 0.006),
    transportError: 1e-7,
    advantage: 0.11,
    orthogonal: 0.02,
    equalRewards: Math.max(0, toward(0.1, 0.14, i, 0.04)),
    zeroVariance: 0,
    loss: -0.001,
    kl: Math.max(0, toward(0, 0.004, i, 0.0003)),
    entropy: toward(0.31, 0.27, i, 0.006),
    clipped: 0,
    samplerGap: 2e-7 + 1e-8 * random.uniform(),
    reasoning: {
      claimF1: toward(0.8, 0.87, i, 0.01),
      agreement: i % 7 === 0 ? null : toward(0.6, 0.85, i, 0.02),
    },
    tokens: 43,
    unfinished: 0.001,
    gradNorm: 0.4,
    learningRate: 3e-5,
    skipped: 0,
    ms: {
      data: 20 + random.uniform(),
      rollout: 280 + 30 * random.uniform(),
      transport: 40 + 5 * random.uniform(),
      reference: 70 + 9 * random.uniform(),
      update: 390 + 40 * random.uniform(),
    },
  }));
}

export interface PretendedRun {
  readonly recipe: Recipe;
  readonly series: readonly Example[];
  /** By name of the answers: `sft.greedy`, `rl.sampled` … */
  readonly records: Readonly<Record<string, readonly EvalRecord[]>>;
}

export interface PretendedRunOptions {
  /** Held-out series. */
  readonly series: number;
  readonly sftSteps?: number;
  readonly rlSteps?: number;
  readonly seed?: number;
  /** A saved policy's config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Fills `directory` as a whole run; answers improve from stage to stage. */
export function writeRun(directory: string, options: PretendedRunOptions): PretendedRun {
  const { sftSteps = 60, rlSteps = 20, seed = 7 } = options;
  const recipe = recipeSchema.parse({
    seed,
    data: { heldOut: options.series },
    sft: { samples: 8 * sftSteps },
    rl: { steps: rlSteps },
    requirements: {
      sft: { format: 0.98, class_accuracy: 0.95, point_f1: 0.75, affiliation_f1: 0.93 },
      gain: { reward_sampled: 0, reward_greedy: -0.02 },
    },
    eval: {
      series: options.series,
      temperature: 0.7,
      bootstrap: 200,
      samples: 2,
      transfer: 0,
      validation: 16,
    },
  });
  const series = openHeldOut(recipe).series;
  const twice = (skill: number, from: number): EvalRecord[] => {
    const [a, b] = [pretend(series, skill, from), pretend(series, skill, from + 1)];
    return a.flatMap((record, i) => [record, b[i]!]);
  };
  const records = {
    'initial.greedy': pretend(series, 0, 10),
    'initial.sampled': twice(0, 11),
    'sft.greedy': pretend(series, 0.86, 20),
    'sft.sampled': twice(0.78, 21),
    'rl.greedy': pretend(series, 0.9, 30),
    'rl.sampled': twice(0.88, 31),
  };
  const write = (path: string, value: unknown): void =>
    writeFileSync(join(directory, path), `${JSON.stringify(value)}\n`);
  const lines = (path: string, values: readonly object[]): void =>
    writeFileSync(join(directory, path), values.map((value) => `${JSON.stringify(value)}\n`).join(''));
  for (const folder of ['sft/policy', 'rl/policy', 'initial', 'eval']) {
    mkdirSync(join(directory, folder), { recursive: true });
  }
  write('recipe.json', { version: RUN_VERSION, name: 'quickstart', recipe, command: 'npm run quickstart' });
  write('environment.json', {
    timeseer: '0.1.0',
    node: 'v20.19.0',
    cpu: 'a processor',
    cores: 2,
    engine: 'torch 1.13.1',
    blas: 'OpenBLAS (openmp)',
    calibration_gflops: 92,
    peak_rss_mb: 1210,
    install_s: 101.2,
    evaluation_s: 31.5,
  });
  lines('sft/metrics.jsonl', sftLines(sftSteps));
  lines('rl/metrics.jsonl', rlLines(rlSteps));
  write('sft/stage.json', { seconds: 118.25, samples: 8 * sftSteps, steps: sftSteps, finished: true });
  write('rl/stage.json', { seconds: 55.5, samples: 0, steps: rlSteps, finished: true });
  for (const [name, list] of Object.entries(records)) {
    writeRecords(join(directory, 'eval', `${name}.jsonl`), list);
  }
  if (options.config !== undefined) write('rl/policy/config.json', options.config);
  return { recipe, series, records };
}
