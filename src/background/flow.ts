/**
 * Flow matching (Lipman et al. 2023) over pieces of a window, and PrismFlow (arXiv 2605.28867) on top of it.
 *
 * A network v(t, x_t) learns the velocity x_1 − x_0 at x_t = (1 − t)·x_0 + t·x_1 between noise x_0 and a piece x_1; Euler steps along it turn
 * noise into a piece. A window is longer than a piece: each piece is conditioned on the one before and on its place in the seasons, and
 * the first one, of which training sees a share, on the place alone.
 *
 * PrismFlow adds K experts, which correct v where it averages over regimes. Of the encoding z = E(x_t) an expert makes dz_k = A_k·z with
 * A_k = S_k − S_kᵀ − R_kᵀ·R_k − δI, whose eigenvalues have real parts of at most −δ, and r_k = D([z; dz_k]). The expert whose end point
 * x̂_k = x_t + (1 − t)·(sg(v) + λ(t)·r_k) is nearest to x_1 learns:
 *
 *     score_k = ‖x̂_k − x_1‖² − β·ln p_k      p = softmax(W·[z; t])
 *     L = ‖v − (x_1 − x_0)‖² + mean(λ·score of the winner) + 0.1·KL(uniform ‖ mean p)
 *
 * Sampling adds γ·λ(t)·r_k of the likeliest expert to v.
 *
 * Source: the formulas, z of 16, K = 4, δ = 0.01, β = 0.1, Adam with 1e-3 and batches of 256 are the paper's. Its program is not published;
 * these are choices of this reconstruction:
 *
 * | choice          | here                                                                                                       |
 * | --------------- | ---------------------------------------------------------------------------------------------------------- |
 * | backbone        | perceptron: input layer, two residual blocks with RMSNorm and GELU, output layer                           |
 * | E, D            | one hidden layer each; E sees what the backbone sees; D, shared by the experts, ends at 0 when training begins |
 * | ‖·‖²            | mean over the samples of a piece, so that β does not depend on their number                                |
 * | λ(t)            | 1 − (1 − t)²: small where x_t is still noise, near 1 where a regime shows                                  |
 * | γ               | 1                                                                                                          |
 * | learning rate   | cosine to 5 %; no warm-up, no weight decay, no clipping                                                    |
 * | Euler steps     | 40                                                                                                         |
 * | longer windows  | pieces of 56 samples, each conditioned on the one before (paper: windows of 24)                            |
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { DataError } from '../ground/errors.ts';
import { Random, standardNormal } from '../ground/random.ts';
import { cosineSchedule, type Range, ShardedAdamW } from '../train/optimizer.ts';
import { WorkerGroup } from '../train/worker-group.ts';
import type { Arrays, Background, LearnOptions, Model, Windows } from './background.ts';

export interface FlowOptions {
  /** Updates; each sees 256 pieces. Default: 1500. */
  readonly steps?: number;
  /** Width of the backbone; default 192. */
  readonly width?: number;
  /** Samples of a piece, at most; default 56. */
  readonly piece?: number;
}

const BATCH = 256;
const BLOCKS = 2;
/** z, hidden layers of E and D, δ, β and the weight of the KL term. */
const CODE = 16;
const HIDDEN = 128;
const DELTA = 0.01;
const BETA = 0.1;
const BALANCE = 0.1;
const EULER = 40;
/** Share of training pieces without the piece before. */
const ALONE = 0.2;
const HARMONICS = 2;
/** Sines and cosines of t. */
const WAVES = 4;
const NORM = 1e-6;
const RATES = { learningRate: 1e-3, warmup: 0, minLearningRate: 0.05 };
/** Windows that are sampled at once. */
const TOGETHER = 128;

const lambda = (t: number): number => 1 - (1 - t) ** 2;

/** Sizes of the networks. */
export interface Shape {
  readonly piece: number;
  /** Entries of the condition: the piece before, whether there is one, place in the seasons. */
  readonly condition: number;
  readonly width: number;
  readonly experts: number;
}

/** Names, shapes and initial spread of the parameters; those of the experts follow the backbone's. */
function layout({
  piece,
  condition,
  width,
  experts,
}: Shape): { name: string; shape: number[]; spread: number }[] {
  const linear = (name: string, inputs: number, outputs: number, scale = 1) => [
    { name: `${name}.weight`, shape: [outputs, inputs], spread: scale / Math.sqrt(inputs) },
    { name: `${name}.bias`, shape: [outputs], spread: 0 },
  ];
  const seen = piece + condition + 2 * WAVES;
  const backbone = [
    ...linear('in', seen, width),
    ...Array.from({ length: BLOCKS }, (_, k) => [
      ...linear(`block${k}.up`, width, width),
      ...linear(`block${k}.down`, width, width, 0.5),
    ]).flat(),
    ...linear('out', width, piece),
  ];
  if (experts === 0) return backbone;
  return [
    ...backbone,
    ...linear('encode.up', seen, HIDDEN),
    ...linear('encode.down', HIDDEN, CODE),
    ...linear('decode.up', 2 * CODE, HIDDEN),
    ...linear('decode.down', HIDDEN, piece, 0),
    ...linear('choose', CODE + 1, experts),
    { name: 'skew', shape: [experts, CODE, CODE], spread: 1 / Math.sqrt(CODE) },
    { name: 'decay', shape: [experts, CODE, CODE], spread: 1 / Math.sqrt(CODE) },
  ];
}

type Weights = Readonly<Record<string, Tensor>>;

/** A_k of all experts [K, 16, 16]: −δI, a part without growth, and one that decays. */
export function dynamics(engine: Engine, skew: Tensor, decay: Tensor): Tensor {
  const experts = skew.shape[0]!;
  const transposed = (matrices: Tensor): Tensor => engine.permute(matrices, [0, 2, 1]);
  const identity = new Float32Array(experts * CODE * CODE);
  for (let i = 0; i < experts * CODE; i++) identity[i * CODE + (i % CODE)] = DELTA;
  return engine.sub(
    engine.sub(engine.sub(skew, transposed(skew)), engine.matmul(transposed(decay), decay)),
    engine.tensor(identity, [experts, CODE, CODE]),
  );
}

/** Noisy pieces [B, W] at their times, and conditions [B, C]. */
interface Batch {
  readonly at: Tensor;
  readonly condition: Tensor;
  readonly times: Float32Array;
}

export class Network {
  readonly #engine: Engine;
  readonly #shape: Shape;
  readonly #weights: Weights;

  constructor(engine: Engine, shape: Shape, weights: Weights) {
    this.#engine = engine;
    this.#shape = shape;
    this.#weights = weights;
  }

  #linear(name: string, x: Tensor): Tensor {
    return this.#engine.linear(x, this.#weights[`${name}.weight`]!, this.#weights[`${name}.bias`]!);
  }

  #seen({ at, condition, times }: Batch): Tensor {
    const waves = new Float32Array(times.length * 2 * WAVES);
    times.forEach((t, b) => {
      for (let k = 0; k < WAVES; k++) {
        waves[(2 * b + 0) * WAVES + k] = Math.sin(Math.PI * 2 ** (k - 1) * t);
        waves[(2 * b + 1) * WAVES + k] = Math.cos(Math.PI * 2 ** (k - 1) * t);
      }
    });
    return this.#engine.concat([at, condition, this.#engine.tensor(waves, [times.length, 2 * WAVES])], 1);
  }

  /** v [B, W] */
  velocity(batch: Batch): Tensor {
    const engine = this.#engine;
    const ones = engine.tensor(new Float32Array(this.#shape.width).fill(1), [this.#shape.width]);
    let hidden = this.#linear('in', this.#seen(batch)); // [B, D]
    for (let k = 0; k < BLOCKS; k++) {
      const normed = engine.rmsNorm(hidden, ones, NORM);
      hidden = engine.add(
        hidden,
        this.#linear(`block${k}.down`, engine.gelu(this.#linear(`block${k}.up`, normed))),
      );
    }
    return this.#linear('out', engine.gelu(hidden));
  }

  /** ln p [B, K] and corrections r [B, K, W] of the experts. */
  experts(batch: Batch): { logP: Tensor; corrections: Tensor } {
    const engine = this.#engine;
    const { experts } = this.#shape;
    const rows = batch.times.length;
    const code = this.#linear('encode.down', engine.gelu(this.#linear('encode.up', this.#seen(batch)))); // [B, Z]
    const timed = engine.concat([code, engine.tensor(batch.times, [rows, 1])], 1);
    const logP = engine.logSoftmax(this.#linear('choose', timed));
    const matrices = dynamics(engine, this.#weights['skew']!, this.#weights['decay']!);
    const moved = engine.linear(code, engine.reshape(matrices, [experts * CODE, CODE])); // [B, K·Z]
    const copies = engine.add(engine.zeros([rows, experts, CODE]), engine.reshape(code, [rows, 1, CODE]));
    const pairs = engine.concat([copies, engine.reshape(moved, [rows, experts, CODE])], 2);
    return { logP, corrections: this.#linear('decode.down', engine.gelu(this.#linear('decode.up', pairs))) };
  }
}

/** Condition of pieces that begin at `starts`: [B, C]. `before`: the pieces before, null for none. */
function conditions(
  before: readonly (Float64Array | null)[],
  starts: readonly number[],
  periods: readonly number[],
  piece: number,
): Float32Array {
  const size = conditionSize(piece, periods);
  const out = new Float32Array(starts.length * size);
  starts.forEach((start, b) => {
    const row = out.subarray(b * size, (b + 1) * size);
    const former = before[b]!;
    if (former !== null) row.set(former);
    row[piece] = former === null ? 0 : 1;
    let at = piece + 1;
    for (const period of periods) {
      for (let k = 1; k <= HARMONICS; k++) {
        row[at++] = Math.sin((2 * Math.PI * k * start) / period);
        row[at++] = Math.cos((2 * Math.PI * k * start) / period);
      }
    }
  });
  return out;
}

const conditionSize = (piece: number, periods: readonly number[]): number =>
  piece + 1 + 2 * HARMONICS * periods.length;

const normals = (random: Random, count: number): Float32Array =>
  Float32Array.from({ length: count }, () => standardNormal(random));

/** Factors [B, 1] or [B, 1, 1] of the rows of a batch. */
const perRow = (engine: Engine, times: Float32Array, factor: (t: number) => number, rank: 2 | 3): Tensor =>
  engine.tensor(times.map(factor), rank === 2 ? [times.length, 1] : [times.length, 1, 1]);

/** Index of the largest of each row of [B, K], as a mask with `value(b)` there. */
function largestOf(
  rows: Float32Array,
  experts: number,
  sign: 1 | -1,
  value: (b: number) => number,
): Float32Array {
  const mask = new Float32Array(rows.length);
  for (let b = 0; b * experts < rows.length; b++) {
    let best = b * experts;
    for (let i = best + 1; i < (b + 1) * experts; i++) if (sign * rows[i]! > sign * rows[best]!) best = i;
    mask[best] = value(b);
  }
  return mask;
}

/** Loss of a batch of pieces `ends` [B, W] and noise `begins` [B, W]; the winners by row, empty without experts. */
export function flowLoss(
  engine: Engine,
  network: Network,
  shape: Shape,
  {
    begins,
    ends,
    condition,
    times,
  }: { begins: Float32Array; ends: Float32Array; condition: Float32Array; times: Float32Array },
): { loss: Tensor; winners: Float32Array } {
  const { piece, experts } = shape;
  const rows = times.length;
  const at = begins.map((value, i) => {
    const t = times[Math.floor(i / piece)]!;
    return (1 - t) * value + t * ends[i]!;
  });
  const batch: Batch = {
    at: engine.tensor(at, [rows, piece]),
    condition: engine.tensor(condition, [rows, condition.length / rows]),
    times,
  };
  const target = engine.tensor(
    ends.map((value, i) => value - begins[i]!),
    [rows, piece],
  );
  const velocity = network.velocity(batch);
  const error = engine.sub(velocity, target);
  const plain = engine.mul(engine.sum(engine.mul(error, error)), 1 / (rows * piece));
  if (experts === 0) return { loss: plain, winners: new Float32Array(0) };
  const { logP, corrections } = network.experts(batch);
  // x̂ − x_1 = (1 − t)·(v + λ·r − (x_1 − x_0))
  const rest = engine.reshape(engine.detach(error), [rows, 1, piece]);
  const missed = engine.mul(
    engine.add(engine.mul(corrections, perRow(engine, times, lambda, 3)), rest),
    perRow(engine, times, (t) => 1 - t, 3),
  ); // [B, K, W]
  const distance = engine.mul(engine.sum(engine.mul(missed, missed), 2), 1 / piece);
  const scores = engine.sub(distance, engine.mul(logP, BETA)); // [B, K]
  const winners = largestOf(engine.floats(scores), experts, -1, (b) => lambda(times[b]!) / rows);
  const won = engine.sum(engine.mul(scores, engine.tensor(winners, [rows, experts])));
  // KL(uniform ‖ p̄) = −mean ln p̄ − ln K, with ln p̄ = logsumexp(ln p) − ln B; the constants have no gradient.
  const balance = engine.mul(engine.sum(engine.logSumExp(logP, 0)), -BALANCE / experts);
  return { loss: engine.add(engine.add(plain, won), balance), winners };
}

interface Parameters {
  readonly flat: Tensor;
  readonly leaves: readonly Tensor[];
  readonly ranges: readonly Range[];
  readonly weights: Weights;
}

/** Parameters in one buffer, each filled by its name, number of elements and initial spread. */
export function parametersOf(
  engine: Engine,
  shape: Shape,
  fill: (name: string, size: number, spread: number) => Float32Array,
): Parameters {
  const entries = layout(shape);
  const sizes = entries.map((entry) => entry.shape.reduce((a, b) => a * b, 1));
  const values = new Float32Array(sizes.reduce((a, b) => a + b, 0));
  let offset = 0;
  const ranges = entries.map(({ name, spread }, i): Range => {
    const range = { offset, size: sizes[i]!, decay: false };
    values.set(fill(name, range.size, spread), offset);
    offset += range.size;
    return range;
  });
  const flat = engine.tensor(values, [values.length]);
  const leaves = entries.map(({ shape }, i) =>
    engine.parameter(engine.reshape(engine.narrow(flat, 0, ranges[i]!.offset, ranges[i]!.size), shape)),
  );
  return {
    flat,
    leaves,
    ranges,
    weights: Object.fromEntries(entries.map(({ name }, i) => [name, leaves[i]!])),
  };
}

/** Initial parameters; those of the backbone are the same with and without experts. */
function initial(engine: Engine, shape: Shape, seed: number): Parameters {
  return parametersOf(engine, shape, (name, size, spread) => {
    const random = new Random(seed, `flow/${name}`);
    return normals(random, size).map((value) => value * spread);
  });
}

/** Draws the pieces of one update from the windows, standardised, with their conditions, noise and times. */
function drawBatch(
  random: Random,
  { windows, periods }: Windows,
  piece: number,
  mean: number,
  scale: number,
) {
  const ends = new Float32Array(BATCH * piece);
  const before: (Float64Array | null)[] = [];
  const starts: number[] = [];
  for (let b = 0; b < BATCH; b++) {
    const { start, values } = random.pick(windows);
    const alone = values.length < 2 * piece || random.uniform() < ALONE;
    const from = random.integer(alone ? 0 : piece, values.length - piece);
    const scaled = (offset: number) =>
      values.subarray(offset, offset + piece).map((value) => (value - mean) / scale);
    ends.set(scaled(from), b * piece);
    before.push(alone ? null : scaled(from - piece));
    starts.push(start + from);
  }
  const condition = conditions(before, starts, periods, piece);
  const times = Float32Array.from({ length: BATCH }, () => random.uniform());
  return { ends, begins: normals(random, ends.length), condition, times };
}

/** @param experts K; 0: plain flow matching */
export async function learnFlow(
  input: Windows,
  { seed, steps = 1500, width = 192, piece: most = 56, onStep }: LearnOptions,
  engine: Engine,
  experts: number,
): Promise<Model> {
  const { windows, periods } = input;
  const all = windows.flatMap(({ values }) => [...values]);
  const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
  const scale = Math.sqrt(all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / all.length);
  const piece = Math.min(most, windows[0]!.values.length);
  const shape: Shape = { piece, condition: conditionSize(piece, periods), width, experts };
  const { flat, leaves, ranges, weights } = initial(engine, shape, seed);
  const network = new Network(engine, shape, weights);
  const optimizer = new ShardedAdamW(engine, WorkerGroup.single(), flat, ranges, {
    ...{ betas: [0.9, 0.999], weightDecay: 0, clip: 0 },
  });
  try {
    for (let step = 0; step < steps; step++) {
      const batch = drawBatch(new Random(seed, 'flow/batch', step), input, piece, mean, scale);
      engine.scope(() => {
        const { loss } = flowLoss(engine, network, shape, batch);
        for (const [i, gradient] of engine.grad(loss, leaves).entries()) optimizer.accumulate(i, gradient);
      });
      const { skipped } = optimizer.step(1, cosineSchedule(step, steps, RATES));
      if (skipped)
        throw new DataError(`flow matching diverged in step ${step}; take the background bootstrap`);
      await onStep?.(step + 1, steps);
    }
    const arrays: Arrays = Object.fromEntries(
      layout(shape).map(({ name, shape }, i) => [name, { shape, values: engine.doubles(leaves[i]!) }]),
    );
    const starts = Float64Array.from(windows, ({ start }) => start);
    return {
      settings: { ...shape, mean, scale, gamma: 1 },
      arrays: { ...arrays, starts: { shape: [starts.length], values: starts } },
    };
  } finally {
    optimizer.dispose();
    engine.dispose(...leaves, flat);
  }
}

/** Windows [n][N], in pieces that follow each other. */
export function sampleFlow(background: Background, n: number, seed: number, engine: Engine): Float64Array[] {
  const { length, periods, arrays } = background;
  const { piece, condition, width, experts, mean, scale, gamma } = background.settings as Record<
    keyof Shape | 'mean' | 'scale' | 'gamma',
    number
  >;
  const shape: Shape = { piece, condition, width, experts };
  const random = Array.from({ length: n }, (_, i) => new Random(seed, 'flow/sample', i));
  const starts = random.map(
    (own) => arrays['starts']!.values[own.integer(0, arrays['starts']!.values.length - 1)]!,
  );
  const windows = random.map(() => new Float64Array(Math.ceil(length / piece) * piece));
  const { flat, leaves, weights } = parametersOf(engine, shape, (name) =>
    Float32Array.from(arrays[name]!.values),
  );
  const network = new Network(engine, shape, weights);
  try {
    for (let first = 0; first < n; first += TOGETHER) {
      const rows = Array.from({ length: Math.min(TOGETHER, n - first) }, (_, k) => first + k);
      for (let at = 0; at < length; at += piece) {
        const before = rows.map((i) => (at === 0 ? null : windows[i]!.subarray(at - piece, at)));
        const given = conditions(
          before,
          rows.map((i) => starts[i]! + at),
          periods,
          piece,
        );
        const noise = rows.flatMap((i) => [...normals(random[i]!, piece)]);
        const ends = engine.noGrad(() =>
          engine.scope(() =>
            engine.floats(flowEnds(engine, network, shape, gamma, Float32Array.from(noise), given)),
          ),
        );
        for (const [k, i] of rows.entries()) windows[i]!.set(ends.subarray(k * piece, (k + 1) * piece), at);
      }
    }
  } finally {
    engine.dispose(...leaves, flat);
  }
  return windows.map((values) => values.subarray(0, length).map((value) => value * scale + mean));
}

/** Ends [B, W] of the Euler steps from noise. */
function flowEnds(
  engine: Engine,
  network: Network,
  { piece, experts }: Shape,
  gamma: number,
  noise: Float32Array,
  given: Float32Array,
): Tensor {
  const rows = noise.length / piece;
  const condition = engine.tensor(given, [rows, given.length / rows]);
  let at = engine.tensor(noise, [rows, piece]);
  for (let step = 0; step < EULER; step++) {
    const t = step / EULER;
    at = engine.scope(() => {
      const batch = { at, condition, times: new Float32Array(rows).fill(t) };
      let velocity = network.velocity(batch);
      if (experts > 0 && gamma > 0) {
        const { logP, corrections } = network.experts(batch);
        const likeliest = largestOf(engine.floats(logP), experts, 1, () => gamma * lambda(t));
        const chosen = engine.mul(corrections, engine.tensor(likeliest, [rows, experts, 1]));
        velocity = engine.add(velocity, engine.sum(chosen, 1));
      }
      return engine.add(at, engine.mul(velocity, 1 / EULER));
    });
  }
  return at;
}
