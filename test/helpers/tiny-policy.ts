/** A policy of about twenty thousand parameters and a task of three pictures, so that a training step takes milliseconds. */
import type { Engine } from '../../src/engine/engine.ts';
import { hash32 } from '../../src/ground/random.ts';
import type { Example, Picture, Score } from '../../src/ground/types.ts';
import type { Dims, SpecialIds } from '../../src/policy/model-config.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import type { StageOrigin } from '../../src/train/checkpoint.ts';
import { Learner } from '../../src/train/learner.ts';
import type { SftMetrics } from '../../src/train/metrics.ts';
import { type SftOptions, sft } from '../../src/train/sft.ts';
import type { StatedClaims, Task } from '../../src/train/task.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';

/** What a checkpoint of no run says of where it began. */
export const ORIGIN: StageOrigin = { recipe: {}, data: null, policy: {} };

export function tinyDims(vocabulary: number, special: SpecialIds): Dims {
  return {
    vocabulary,
    width: 32,
    layers: 2,
    heads: 2,
    kvHeads: 1,
    headDim: 16,
    inner: 40,
    theta: 1000,
    sections: [1, 1, 6],
    epsilon: 1e-6,
    maxPositions: 4096,
    tied: true,
    vision: {
      depth: 1,
      width: 16,
      heads: 2,
      inner: 24,
      patch: 14,
      temporal: 2,
      merge: 2,
      window: 112,
      fullAttention: [0],
      theta: 10000,
      tokensPerSecond: 4,
    },
    special,
  };
}

const KINDS = ['left', 'middle', 'right'] as const;
/** Expert traces of the three kinds, of unequal length. */
export const TRACES: readonly string[] = [
  '<think>dark on the left</think><answer>[[0, 2]]</answer><class>trend</class>',
  '<think>dark in the middle</think><answer>[[2, 4], [5, 6]]</answer><class>seasonal</class>',
  '<think>right</think><answer>[]</answer><class>normal</class>',
];
/** Of unequal length too: the middle one is asked more. */
const INSTRUCTIONS = ['Where is it dark?', 'Where is it dark? Say it in one word.', 'Where?'];

export interface TinyOptions {
  /** True when absent. */
  readonly tied?: boolean;
  readonly dtype?: 'float32' | 'bfloat16';
  readonly tuning?: 'all' | 'decoder' | 'none';
}

export function tinyPolicy(engine: Engine, seed = 3, { tied = true, ...options }: TinyOptions = {}): Policy {
  return Policy.create(engine, {
    ...options,
    tokenizer: trainBpe([...TRACES, ...INSTRUCTIONS, ...TRACES], { vocabulary: 330 }),
    seed,
    dims: (vocabulary, special) => ({ ...tinyDims(vocabulary, special), tied }),
  });
}

/** White but for one dark third; 84 × 28 pixels: three visual tokens. */
function picture(kind: number): Picture {
  const [width, height] = [84, 28];
  const data = new Uint8Array(width * height * 3).fill(255);
  for (let y = 0; y < height; y++) {
    for (let x = kind * 28; x < (kind + 1) * 28; x++)
      data.fill(20 + y, 3 * (y * width + x), 3 * (y * width + x) + 3);
  }
  return { width, height, data };
}

const kindOf = ({ channels }: Example): number => channels[0]![0]!;

/** Example `index` is of kind index mod 3. The reward is 1 for the class of the kind, less for other text. */
export function tinyTask(overrides: Partial<Task> = {}): Task {
  return {
    name: 'tiny',
    weights: { exact: 1, whim: 1, class: 1, format: 1, localisation: 1, never: 1 },
    example: (index) => ({
      id: `tiny/train/${index}`,
      task: 'tiny',
      channels: [Float64Array.of(index % KINDS.length, index)],
      names: ['value'],
      times: null,
      gold: { kind: 'anomaly', class: 'normal', intervals: [] },
      recording: null,
    }),
    picture: (example) => picture(kindOf(example)),
    instruction: (example) => INSTRUCTIONS[kindOf(example)]!,
    trace: (example) => TRACES[kindOf(example)]!,
    teacherInstruction: (example, trace) => `${INSTRUCTIONS[kindOf(example)]!} ${trace}`,
    genericTrace: '<think>dark; white</think>',
    reasoning: (text) => {
      const end = text.indexOf('</think>');
      return text.startsWith('<think>') && end > 7 ? [7, end] : null;
    },
    score: (response, example) => ({
      total: response === TRACES[kindOf(example)] ? 1 : 0.2 * chance(response),
      parts: { exact: response === TRACES[kindOf(example)] ? 1 : 0 },
    }),
    marked: () => null,
    ...overrides,
  };
}

/** A number in [0, 1) that depends on the whole text. */
export function chance(text: string): number {
  return hash32(text) / 2 ** 32;
}

/** A reward that depends on the whole response for some kinds, and is the same for every response of the others. */
export function mixedScore(equal: readonly number[]): (response: string, example: Example) => Score {
  return (response, example) => {
    const total = equal.includes(kindOf(example)) ? 0.4 : chance(response);
    return { total, parts: { whim: total } };
  };
}

export const SFT: SftOptions = {
  samples: 300,
  batch: 3,
  learningRate: 1e-2,
  warmup: 5,
  minLearningRate: 0.05,
  checkpointEvery: 1000,
};

export const OPTIMIZER = { betas: [0.9, 0.95], weightDecay: 0, clip: 1 } as const;

export function tinyLearner(policy: Policy, clip: number = OPTIMIZER.clip, recompute = false): Learner {
  return new Learner(policy, WorkerGroup.single(), { ...OPTIMIZER, clip }, recompute);
}

/** What the optimiser keeps, on the host: [T] each. */
export function moments({ optimizer, policy }: Learner): {
  readonly step: number;
  readonly first: Float32Array;
  readonly second: Float32Array;
} {
  const { first_moment: first, second_moment: second } = optimizer.buffers;
  return {
    step: optimizer.steps,
    first: policy.engine.floats(first!),
    second: policy.engine.floats(second!),
  };
}

/** Some supervised steps; the metrics of each. */
export async function teach(
  learner: Learner,
  options: Partial<SftOptions> = {},
  task: Task = tinyTask(),
): Promise<SftMetrics[]> {
  const lines: SftMetrics[] = [];
  const hooks = { onStep: (line: SftMetrics) => void lines.push(line), save: () => {} };
  await sft(learner, task, { ...SFT, ...options }, hooks);
  return lines;
}

/** The claim is where it is dark, wherever the response says so. */
export const darkClaims = (response: string, { channels }: Example): StatedClaims => {
  const stated = [...response.matchAll(/left|middle|right/g)].slice(0, 1);
  const truth = ['left', 'middle', 'right'][channels[0]![0]!]!;
  const found = stated.map((match) => ({
    fact: 'where',
    span: [match.index, match.index + match[0].length] as const,
    holds: match[0] === truth,
    correction: truth,
  }));
  return { claims: found, f1: found.some(({ holds }) => holds) ? 1 : 0 };
};
