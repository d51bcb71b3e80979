/**
 * Gradient checkpointing by layers (Chen et al. 2016, "Training deep nets with sublinear memory cost", one segment a layer).
 * Each segment runs without recording and only what it reads is kept; `backward` runs the segments again, last to first,
 * this time with gradient, one at a time. Memory is then the inputs of all segments and the activations of one.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../ground/errors.ts';

/** A part of a forward pass that is run again in the backward pass. */
interface Segment {
  /** Inputs of the body: results of earlier segments, or constants. */
  readonly inputs: readonly Tensor[];
  /** Weights that the body reads; those among the tape's leaves get gradients. */
  readonly parameters?: readonly Tensor[];
  /** Whatever else it reads (masks, indices, tables), so that it lives until `backward`: searched like a scope's result. */
  readonly constants?: unknown;
  /** Runs twice on a tape: it must give the same both times, and read no tensor but those above. */
  readonly body: (inputs: readonly Tensor[]) => readonly Tensor[];
  /** Indices of results that are views of something larger. A tape keeps copies of them. */
  readonly views?: readonly number[];
}

/**
 * Takes the gradient of a leaf: perhaps several times for one leaf, to be added up, `last` true where no more can follow. The gradient is freed
 * afterwards.
 */
type GradientSink = (leaf: Tensor, gradient: Tensor, last: boolean) => void;

/** Brings the weights of a segment into memory before it runs, forward and backward, where they are not there throughout. */
export interface Residency {
  enter(parameters: readonly Tensor[]): void;
}

interface Recorded {
  readonly segment: Segment;
  readonly outputs: readonly Tensor[];
  /** The leaves among the parameters. */
  readonly leaves: readonly Tensor[];
  /** Inputs through which gradients reach earlier segments. */
  readonly tracked: readonly boolean[];
}

/**
 * Recorded tensors live in the scope in which the tape was made; `taped` opens scopes in between. `backward`
 * empties it.
 */
export class Tape {
  readonly #engine: Engine;
  readonly #leaves: ReadonlySet<Tensor>;
  readonly #residency: Residency | null;
  /** Results that depend on a leaf. */
  readonly #dependent = new Set<Tensor>();
  /** Segments run so far, in order. Scopes look here for tensors that must outlive them. */
  readonly recorded: Recorded[] = [];

  /** `leaves`: the tensors whose gradients are wanted, `policy.trainable.leaves`. */
  constructor(engine: Engine, leaves: readonly Tensor[], residency: Residency | null = null) {
    this.#engine = engine;
    this.#leaves = new Set(leaves);
    this.#residency = residency;
  }

  /** Runs a segment without recording; keeps it when a leaf or a result of a kept one goes into it. */
  run(segment: Segment): readonly Tensor[] {
    const engine = this.#engine;
    this.#residency?.enter(segment.parameters ?? []);
    const outputs = engine.noGrad(() =>
      engine.scope(() => {
        const results = [...segment.body(segment.inputs)];
        for (const index of segment.views ?? []) {
          const view = results[index]!;
          const copy = engine.zeros(view.shape, view.dtype);
          engine.write(copy, 0, 0, view);
          results[index] = copy;
        }
        return results;
      }),
    );
    const read = new Set(segment.parameters ?? []); // a weight that stands there twice has one gradient
    const leaves = [...read].filter((parameter) => this.#leaves.has(parameter));
    const tracked = segment.inputs.map((input) => this.#dependent.has(input));
    if (leaves.length > 0 || tracked.includes(true)) {
      this.recorded.push({ segment, outputs, leaves, tracked });
      for (const output of outputs) this.#dependent.add(output);
    }
    return outputs;
  }

  /**
   * Hands the gradient of `Σ result · gradient` with respect to every leaf to `sink`, from the last segment to the first.
   * Call it with gradients enabled. Frees what segments passed to each other as it goes (a cache that a later segment
   * read can then no longer be used), not the results that none of them read.
   * @throws EngineError when a result is not this tape's.
   */
  backward(seeds: readonly (readonly [result: Tensor, gradient: Tensor])[], sink: GradientSink): void {
    const engine = this.#engine;
    engine.scope(() => {
      const gradients = new Map<Tensor, Tensor>();
      const accumulate = (tensor: Tensor, gradient: Tensor): void => {
        const before = gradients.get(tensor);
        gradients.set(tensor, before === undefined ? gradient : engine.add(before, gradient));
        if (before !== undefined) engine.dispose(before, gradient);
      };
      for (const [result, gradient] of seeds) {
        if (!this.#dependent.has(result)) {
          throw new EngineError(
            'backward: a gradient was given for a tensor that this tape did not make, or that depends on no leaf',
          );
        }
        accumulate(result, engine.detach(gradient)); // a handle of our own: it is freed below
      }
      // What was made on the tape is freed with the first of its readers, which is the last to be replayed.
      const readers = new Map<Tensor, number>();
      for (const { segment, leaves } of this.recorded) {
        for (const input of new Set([...segment.inputs, ...leaves]))
          readers.set(input, (readers.get(input) ?? 0) + 1);
      }
      for (let last = this.recorded.pop(); last !== undefined; last = this.recorded.pop()) {
        const { segment, outputs, leaves } = last;
        const reached = outputs.filter((output) => gradients.has(output));
        if (reached.length > 0) {
          const upstream = engine.scope(() =>
            this.#replay(last, gradients, (leaf, gradient) => sink(leaf, gradient, readers.get(leaf) === 1)),
          );
          const spent = reached.map((output) => gradients.get(output)!);
          for (const output of reached) gradients.delete(output);
          engine.dispose(...spent);
          for (const [input, gradient] of upstream) accumulate(input, gradient);
        }
        for (const input of new Set([...segment.inputs, ...leaves])) {
          const left = readers.get(input)! - 1;
          readers.set(input, left);
          if (left === 0 && this.#dependent.has(input)) engine.dispose(input);
        }
      }
      this.#dependent.clear();
    });
  }

  /** Runs one segment again, with gradient; the gradients of its inputs. */
  #replay(
    { segment, outputs, leaves, tracked }: Recorded,
    gradients: ReadonlyMap<Tensor, Tensor>,
    sink: (leaf: Tensor, gradient: Tensor) => void,
  ): [Tensor, Tensor][] {
    const engine = this.#engine;
    this.#residency?.enter(segment.parameters ?? []);
    const inputs = segment.inputs.map((input, i) => (tracked[i]! ? engine.parameter(input) : input));
    const sources = segment.inputs.filter((_, i) => tracked[i]);
    const computed = engine.scope(() => {
      const results = segment.body(inputs);
      const reached = outputs.flatMap((output, i) => {
        const gradient = gradients.get(output);
        return gradient === undefined ? [] : [[results[i]!, gradient] as const];
      });
      return engine.grad(
        reached.map(([result]) => result),
        [...inputs.filter((_, i) => tracked[i]), ...leaves],
        reached.map(([, gradient]) => gradient),
      );
    });
    for (const [i, leaf] of leaves.entries()) {
      const gradient = computed[sources.length + i]!;
      sink(leaf, gradient);
      engine.dispose(gradient);
    }
    return sources.map((source, i) => [source, computed[i]!]);
  }
}

/** Runs a segment, on the tape if there is one. */
export function runSegment(tape: Tape | undefined, segment: Segment): readonly Tensor[] {
  return tape === undefined ? segment.body(segment.inputs) : tape.run(segment);
}

/** Runs `engine.scope`, keeping the tensors that the tape holds alive as well. */
export function taped<T>(engine: Engine, tape: Tape | undefined, body: () => T): T {
  return tape === undefined ? engine.scope(body) : engine.scope(() => ({ result: body(), tape })).result;
}
