/**
 * Flow matching (Lipman et al. 2023) over pieces of a window, and PrismFlow (arXiv 2605.28867) on top of it.
 *
 * A network v(t, x_t) learns the velocity x_1 − x_0 at x_t = (1 − t)·x_0 + t·x_1 between noise x_0 and a piece x_1; Euler steps along it turn
 * noise into a piece. A window is longer than a piece: each piece is conditioned on the one before and on its place in the seasons, and
 * the first one, of which training sees a share, on the place alone.
 *
 * PrismFlow adds K experts, which correct v where it averages over regimes. An expert maps the encoding z = E(x_t) to dz_k = A_k·z with
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
import { moments } from '../series/stats.ts';
import { cosineSchedule, type Range, ShardedOptimizer } from '../train/optimizer.ts';
import { WorkerGroup } from '../train/worker-group.ts';
import type { Background, LearnOptions, Model, Windows } from './background.ts';

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
const ADAM = { betas: [0.9, 0.999], weightDecay: 0, clip: 0 } as const;
const RATES = { learningRate: 1e-3, warmup: 0, minLearningRate: 0.05 };

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

/** Pieces of an update, standardised [B, W], with noise [B, W], conditions [B, C] and times [B]. */
export interface Batch {
  readonly begins: Float32Array;
  readonly ends: Float32Array;
  readonly condition: Float32Array;
  readonly times: Float32Array;
}

/** The networks with their parameters in one buffer. Call `dispose`. */
export class Network {
  readonly flat: Tensor;
  readonly ranges: Range[] = [];
  readonly leaves: readonly Tensor[];
  readonly weights: Readonly<Record<string, Tensor>>;
  readonly #engine: Engine;
  readonly #shape: Shape;

  /** @param fill gives the values of a parameter by its name, number of elements and initial spread */
  constructor(
    engine: Engine,
    shape: Shape,
    fill: (name: string, size: number, spread: number) => ArrayLike<number>,
  ) {
    this.#engine = engine;
    this.#shape = shape;
    const entries = layout(shape);
    const values = entries.flatMap(({ name, shape, spread }) => {
      const { offset, size } = this.ranges.at(-1) ?? { offset: 0, size: 0 };
      this.ranges.push({ offset: offset + size, size: shape.reduce((a, b) => a * b, 1), decay: false });
      return Array.from(fill(name, this.ranges.at(-1)!.size, spread));
    });
    this.flat = engine.tensor(Float32Array.from(values), [values.length]);
    this.leaves = this.ranges.map(({ offset, size }, i) =>
      engine.parameter(engine.reshape(engine.narrow(this.flat, 0, offset, size), entries[i]!.shape)),
    );
    this.weights = Object.fromEntries(entries.map(({ name }, i) => [name, this.leaves[i]!]));
  }

  dispose(): void {
    this.#engine.dispose(...this.leaves, this.flat);
  }

  #linear(name: string, x: Tensor): Tensor {
    return this.#engine.linear(x, this.weights[`${name}.weight`]!, this.weights[`${name}.bias`]!);
  }

  /** Two layers with a GELU between them. */
  #layers(name: string, x: Tensor): Tensor {
    return this.#linear(`${name}.down`, this.#engine.gelu(this.#linear(`${name}.up`, x)));
  }

  /** Input of the networks: noisy pieces, conditions and waves of the times. */
  #seen(at: Tensor, condition: Tensor, times: Float32Array): Tensor {
    const waves = Float32Array.from({ length: times.length * 2 * WAVES }, (_, i) => {
      const [k, t] = [i % (2 * WAVES), times[Math.floor(i / (2 * WAVES))]!];
      const angle = Math.PI * 2 ** ((k >> 1) - 1) * t;
      return k % 2 === 0 ? Math.sin(angle) : Math.cos(angle);
    });
    return this.#engine.concat([at, condition, this.#engine.tensor(waves, [times.length, 2 * WAVES])], 1);
  }

  /** v [B, W] */
  #velocity(seen: Tensor): Tensor {
    const engine = this.#engine;
    const { width } = this.#shape;
    const ones = engine.tensor(new Float32Array(width).fill(1), [width]);
    let hidden = this.#linear('in', seen); // [B, D]
    for (let k = 0; k < BLOCKS; k++) {
      hidden = engine.add(hidden, this.#layers(`block${k}`, engine.rmsNorm(hidden, ones, NORM)));
    }
    return this.#linear('out', engine.gelu(hidden));
  }

  /** ln p [B, K] and corrections r [B, K, W] of the experts. */
  #experts(seen: Tensor, times: Float32Array): { logP: Tensor; corrections: Tensor } {
    const engine = this.#engine;
    const [rows, { experts }] = [times.length, this.#shape];
    const code = this.#layers('encode', seen); // [B, Z]
    const timed = engine.concat([code, engine.tensor(times, [rows, 1])], 1);
    const matrices = dynamics(engine, this.weights['skew']!, this.weights['decay']!);
    const moved = engine.linear(code, engine.reshape(matrices, [experts * CODE, CODE])); // [B, K·Z]
    const copies = engine.add(engine.zeros([rows, experts, CODE]), engine.reshape(code, [rows, 1, CODE]));
    const pairs = engine.concat([copies, engine.reshape(moved, [rows, experts, CODE])], 2);
    return {
      logP: engine.logSoftmax(this.#linear('choose', timed)),
      corrections: this.#layers('decode', pairs),
    };
  }

  /** Loss of a batch, and the weight of each winner [B, K], 0 for the others; empty without experts. */
  loss({ begins, ends, condition, times }: Batch): { loss: Tensor; winners: Float32Array } {
    const engine = this.#engine;
    const { piece, experts } = this.#shape;
    const rows = times.length;
    const mixed = begins.map((value, i) => {
      const t = times[Math.floor(i / piece)]!;
      return (1 - t) * value + t * ends[i]!;
    });
    const difference = ends.map((value, i) => value - begins[i]!);
    const given = engine.tensor(condition, [rows, condition.length / rows]);
    const seen = this.#seen(engine.tensor(mixed, [rows, piece]), given, times);
    const error = engine.sub(this.#velocity(seen), engine.tensor(difference, [rows, piece]));
    const plain = engine.mul(engine.sum(engine.mul(error, error)), 1 / (rows * piece));
    if (experts === 0) return { loss: plain, winners: new Float32Array(0) };
    const { logP, corrections } = this.#experts(seen, times);
    const perRow = (factor: (t: number) => number): Tensor => engine.tensor(times.map(factor), [rows, 1, 1]);
    // x̂ − x_1 = (1 − t)·(v + λ·r − (x_1 − x_0))
    const rest = engine.reshape(engine.detach(error), [rows, 1, piece]);
    const corrected = engine.add(engine.mul(corrections, perRow(lambda)), rest);
    const missed = engine.mul(
      corrected,
      perRow((t) => 1 - t),
    ); // [B, K, W]
    const distance = engine.mul(engine.sum(engine.mul(missed, missed), 2), 1 / piece);
    const scores = engine.sub(distance, engine.mul(logP, BETA)); // [B, K]
    const winners = largestOf(
      engine.floats(engine.mul(scores, -1)),
      experts,
      (b) => lambda(times[b]!) / rows,
    );
    const won = engine.sum(engine.mul(scores, engine.tensor(winners, [rows, experts])));
    // KL(uniform ‖ p̄) = −mean ln p̄ − ln K, with ln p̄ = logsumexp(ln p) − ln B; the constants have no gradient.
    const balance = engine.mul(engine.sum(engine.logSumExp(logP, 0)), -BALANCE / experts);
    return { loss: engine.add(engine.add(plain, won), balance), winners };
  }

  /** Ends [B, W] of the Euler steps from noise [B, W]. */
  ends(noise: Float32Array, condition: Float32Array, gamma: number): Float32Array {
    const engine = this.#engine;
    const { piece, experts } = this.#shape;
    const rows = noise.length / piece;
    const run = (): Float32Array => {
      const given = engine.tensor(condition, [rows, condition.length / rows]);
      let at = engine.tensor(noise, [rows, piece]);
      for (let step = 0; step < EULER; step++) {
        const t = step / EULER;
        const times = new Float32Array(rows).fill(t);
        at = engine.scope(() => {
          const seen = this.#seen(at, given, times);
          let velocity = this.#velocity(seen);
          if (experts > 0 && gamma > 0) {
            const { logP, corrections } = this.#experts(seen, times);
            const likeliest = largestOf(engine.floats(logP), experts, () => gamma * lambda(t));
            const chosen = engine.mul(corrections, engine.tensor(likeliest, [rows, experts, 1]));
            velocity = engine.add(velocity, engine.sum(chosen, 1));
          }
          return engine.add(at, engine.mul(velocity, 1 / EULER));
        });
      }
      return engine.floats(at);
    };
    return engine.noGrad(() => engine.scope(run));
  }
}

/** Mask of the largest of each row of [B, K], with `value(b)` there. */
function largestOf(rows: Float32Array, experts: number, value: (b: number) => number): Float32Array {
  const mask = new Float32Array(rows.length);
  for (let b = 0; b * experts < rows.length; b++) {
    const row = rows.subarray(b * experts, (b + 1) * experts);
    mask[b * experts + row.indexOf(Math.max(...row))] = value(b);
  }
  return mask;
}

const conditionSize = (piece: number, periods: readonly number[]): number =>
  piece + 1 + 2 * HARMONICS * periods.length;

/** Condition [C] of a piece that begins at sample `start`. @param before the piece before, null for none */
function conditionOf(
  before: Float64Array | null,
  start: number,
  periods: readonly number[],
  piece: number,
): number[] {
  const phases = periods.flatMap((period) =>
    Array.from({ length: HARMONICS }, (_, k) => (2 * Math.PI * (k + 1) * start) / period),
  );
  return [
    ...(before ?? new Float64Array(piece)),
    before === null ? 0 : 1,
    ...phases.flatMap((angle) => [Math.sin(angle), Math.cos(angle)]),
  ];
}

const normals = (random: Random, count: number): Float32Array =>
  Float32Array.from({ length: count }, () => standardNormal(random));

/** Draws the pieces of one update from standardised windows. */
function drawBatch(random: Random, { windows, periods }: Windows, piece: number): Batch {
  const ends = new Float32Array(BATCH * piece);
  const condition: number[] = [];
  for (let b = 0; b < BATCH; b++) {
    const { start, values } = random.pick(windows);
    const alone = values.length < 2 * piece || random.uniform() < ALONE;
    const from = random.integer(alone ? 0 : piece, values.length - piece);
    ends.set(values.subarray(from, from + piece), b * piece);
    const before = alone ? null : values.subarray(from - piece, from);
    condition.push(...conditionOf(before, start + from, periods, piece));
  }
  const times = Float32Array.from({ length: BATCH }, () => random.uniform());
  return { ends, begins: normals(random, ends.length), condition: Float32Array.from(condition), times };
}

/** @param experts K; 0: plain flow matching */
export async function learnFlow(
  { windows, periods }: Windows,
  { seed, steps = 1500, width = 192, piece: most = 56, onStep }: LearnOptions,
  engine: Engine,
  experts: number,
): Promise<Model> {
  const { mean, std: scale } = moments(Float64Array.from(windows.flatMap(({ values }) => [...values])));
  const scaled = windows.map(({ start, values }) => ({
    start,
    values: values.map((value) => (value - mean) / scale),
  }));
  const piece = Math.min(most, windows[0]!.values.length);
  const shape: Shape = { piece, condition: conditionSize(piece, periods), width, experts };
  // The backbone begins the same with and without experts.
  const network = new Network(engine, shape, (name, size, spread) =>
    normals(new Random(seed, `flow/${name}`), size).map((value) => value * spread),
  );
  const { flat, ranges, leaves } = network;
  const optimizer = new ShardedOptimizer(engine, WorkerGroup.single(), flat, ranges, ADAM);
  try {
    for (let step = 0; step < steps; step++) {
      const batch = drawBatch(new Random(seed, 'flow/batch', step), { windows: scaled, periods }, piece);
      engine.scope(() => {
        const gradients = engine.grad(network.loss(batch).loss, leaves);
        for (const [i, gradient] of gradients.entries()) optimizer.gradients.add(i, gradient);
      });
      const { skipped } = optimizer.step(1, cosineSchedule(step, steps, RATES));
      if (skipped)
        throw new DataError(`flow matching diverged in step ${step}; take the background bootstrap`);
      await onStep?.(step + 1, steps);
    }
    const arrays = layout(shape).map(
      ({ name, shape }, i) => [name, { shape, values: engine.doubles(leaves[i]!) }] as const,
    );
    const starts = { shape: [windows.length], values: Float64Array.from(windows, ({ start }) => start) };
    return {
      settings: { ...shape, mean, scale, gamma: 1 },
      arrays: { ...Object.fromEntries(arrays), starts },
    };
  } finally {
    optimizer.dispose();
    network.dispose();
  }
}

/** Windows [n][N], in pieces that follow each other. */
export function sampleFlow(background: Background, n: number, seed: number, engine: Engine): Float64Array[] {
  const { length, periods, arrays, settings } = background;
  const { piece, mean, scale, gamma, ...rest } = settings as unknown as Shape &
    Record<'mean' | 'scale' | 'gamma', number>;
  const random = Array.from({ length: n }, (_, i) => new Random(seed, 'flow/sample', i));
  const starts = random.map((own) => own.pick([...arrays['starts']!.values]));
  const windows = random.map(() => new Float64Array(Math.ceil(length / piece) * piece));
  const network = new Network(engine, { piece, ...rest }, (name) => arrays[name]!.values);
  try {
    for (let at = 0; at < length; at += piece) {
      const condition = windows.flatMap((values, i) =>
        conditionOf(at === 0 ? null : values.subarray(at - piece, at), starts[i]! + at, periods, piece),
      );
      const noise = random.flatMap((own) => [...normals(own, piece)]);
      const ends = network.ends(Float32Array.from(noise), Float32Array.from(condition), gamma);
      for (const [i, values] of windows.entries()) values.set(ends.subarray(i * piece, (i + 1) * piece), at);
    }
  } finally {
    network.dispose();
  }
  return windows.map((values) => values.subarray(0, length).map((value) => value * scale + mean));
}
