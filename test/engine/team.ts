/** A small regression trained by several ranks over shared flat storage: gradients by rank, summed in rank order. */
import type { AdamWState, Engine, Tensor } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';

export const [INPUT, HIDDEN, BATCH] = [5, 7, 6];
export const PARAMETERS = INPUT * HIDDEN + HIDDEN;
const OPTIONS = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8 };

export interface Storage extends AdamWState {
  /** One row of gradients per rank: [R, P]. */
  readonly perRank: Tensor;
}

/** Allocates the storage from which every rank starts. */
export function allocate(engine: Engine, ranks: number): Storage {
  const random = new Random(4, 'team');
  const start = Float32Array.from({ length: PARAMETERS }, () => random.normal(0, 0.5));
  const decay = Float32Array.from({ length: PARAMETERS }, (_, i) => (i < INPUT * HIDDEN ? 0.01 : 0));
  const zeros = (): Tensor => engine.zeros([PARAMETERS]);
  return {
    parameters: engine.tensor(start, [PARAMETERS]),
    gradients: zeros(),
    firstMoment: zeros(),
    secondMoment: zeros(),
    decay: engine.tensor(decay, [PARAMETERS]),
    perRank: engine.zeros([ranks, PARAMETERS]),
  };
}

export interface Leaves {
  readonly weight: Tensor; // [H, I]
  readonly out: Tensor; // [H]
}

/** Leaves over the shared storage: they see every update. */
export function leavesOf(engine: Engine, parameters: Tensor): Leaves {
  return engine.scope(() => ({
    weight: engine.parameter(
      engine.reshape(engine.narrow(parameters, 0, 0, INPUT * HIDDEN), [HIDDEN, INPUT]),
    ),
    out: engine.parameter(engine.narrow(parameters, 0, INPUT * HIDDEN, HIDDEN)),
  }));
}

/** Writes the gradient of this rank's own batch into its row; returns the loss. */
export function contribute(
  engine: Engine,
  { weight, out }: Leaves,
  storage: Storage,
  rank: number,
  step: number,
): number {
  return engine.scope(() => {
    const random = new Random(9, 'batch', step, rank);
    const data = Float32Array.from({ length: BATCH * INPUT }, () => random.normal());
    const wanted = Float32Array.from({ length: BATCH }, (_, i) => Math.sin(data[i * INPUT]!));
    const x = engine.tensor(data, [BATCH, INPUT]);
    const hidden = engine.gelu(engine.linear(x, weight)); // [B, H]
    const error = engine.sub(
      engine.matmul(hidden, engine.reshape(out, [HIDDEN, 1])), // [B, 1]
      engine.tensor(wanted, [BATCH, 1]),
    );
    const loss = engine.div(engine.sum(engine.mul(error, error)), BATCH);
    const gradients = engine.grad(loss, [weight, out]);
    const flat = engine.concat(
      gradients.map((gradient) => engine.reshape(gradient, [1, -1])),
      1,
    );
    engine.write(storage.perRank, 0, rank, flat);
    return engine.item(loss);
  });
}

/** Sums the ranks' gradients in rank order and updates the shared parameters. */
export function update(engine: Engine, storage: Storage, step: number): void {
  engine.scope(() => {
    engine.write(storage.gradients, 0, 0, engine.sum(storage.perRank, 0));
    engine.adamW(storage, { ...OPTIONS, step });
  });
}
