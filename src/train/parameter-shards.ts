/**
 * Parameters of the decoder's layers in shares while gradients are computed (ZeRO 3: Rajbhandari et al. 2020; layer by layer as PyTorch's
 * FSDP, Zhao et al. 2023). From `release` to `restore` each rank keeps its slices, and a layer is gathered before it runs, forward and
 * backward, while the one before it is at work. Embedding, head, norms and vision tower stay whole, as do all weights at other times: rollouts,
 * evaluation and checkpoints read all of them.
 *
 * Gathering is collective, so every rank runs the same layers in the same order: that of `release`, kept by ranks with fewer micro-batches too.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../ground/errors.ts';
import type { Residency } from '../policy/gradient-checkpointing.ts';
import type { Policy } from '../policy/policy.ts';
import { type GradientExchange, slicesOf } from './gradient-exchange.ts';
import type { OwnShares, ShardedOptimizer } from './optimizer.ts';
import type { WorkerGroup } from './worker-group.ts';

/** Elements start … end of the flat buffer. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Layer of the decoder that a parameter belongs to; null for one of none. */
const layerNamed = (name: string): number | null => {
  const number = /^layers\.(\d+)\./.exec(name)?.[1];
  return number === undefined ? null : Number(number);
};

/** A layer in one of the two buffers. */
interface Gathered {
  readonly layer: number;
  readonly buffer: Tensor;
  readonly arrived: readonly (() => void)[];
}

/** State between `release` and `restore`: stands for the flat buffer. */
interface Released extends OwnShares {
  /** Parameters of no layer, each flat. */
  readonly whole: ReadonlyMap<number, Tensor>;
  /** For two layers, each as long as the longest. */
  readonly buffers: readonly [Tensor, Tensor];
  /** Layers in the order in which they run. */
  readonly schedule: readonly number[];
  /** Place in it. */
  at: number;
  held: Gathered | null;
  coming: Gathered | null;
}

export class ParameterShards implements Residency {
  readonly #engine: Engine;
  readonly #policy: Policy;
  readonly #workers: WorkerGroup;
  readonly #gradients: GradientExchange;
  /** Float32 copy of the own slices, [H]; null of float32 weights. */
  readonly #master: Tensor | null;
  /** Spans of the layers in the buffer. */
  readonly #layers: readonly Span[];
  readonly #layerOf: ReadonlyMap<Tensor, number>;
  readonly #rebind: (tensor: Tensor, source: Tensor | null) => void;
  #released: Released | null = null;

  /** `optimizer` divides the policy's parameters among ranks that share no memory. @throws EngineError for an engine that cannot */
  constructor(policy: Policy, workers: WorkerGroup, { gradients, buffers }: ShardedOptimizer) {
    const { engine, layout, parameters } = policy;
    if (engine.rebind === undefined)
      throw new EngineError(`ZeRO 3: not with engine ${engine.info.name}; use --engine torch`);
    this.#rebind = engine.rebind.bind(engine);
    this.#engine = engine;
    this.#policy = policy;
    this.#workers = workers;
    this.#gradients = gradients;
    this.#master = buffers.master ?? null;
    const layerOf = new Map<Tensor, number>();
    const layers: Span[] = [];
    layout.parameters.forEach(({ name, offset, size }, i) => {
      const layer = layerNamed(name);
      if (layer === null) return;
      layerOf.set(parameters[i]!, layer);
      layers[layer] = { start: layers[layer]?.start ?? offset, end: offset + size };
    });
    this.#layerOf = layerOf;
    this.#layers = layers;
  }

  /** Elements of the layers, which are in shares during an update. */
  get elements(): number {
    return this.#layers.reduce((sum, { start, end }) => sum + end - start, 0);
  }

  /** For the optimiser; null where all weights are there. */
  get released(): OwnShares | null {
    return this.#released;
  }

  /** Keeps the own share alone, for so many micro-batches of so many passes through the decoder, forward and then backward. */
  release(rounds: number, passes: number): void {
    const { flat, trainable, layout, parameters } = this.#policy;
    const engine = this.#engine;
    engine.unscoped(() => {
      const piece = ({ start, end }: Span): Tensor => engine.narrow(flat, 0, start, end - start); // [n]
      const own = this.#master === null ? engine.zeros([this.#gradients.held]) : null; // [H]
      for (const slice of own === null ? [] : this.#gradients.slices) {
        if (slice.end > slice.start) engine.scope(() => engine.write(own!, 0, slice.at, piece(slice)));
      }
      const whole = new Map<number, Tensor>();
      layout.parameters.forEach(({ offset: start, size, shape }, i) => {
        if (this.#layerOf.has(parameters[i]!)) {
          this.#rebind(parameters[i]!, null);
          return;
        }
        const copy = engine.zeros([size], flat.dtype); // [n]
        engine.scope(() => {
          engine.write(copy, 0, 0, piece({ start, end: start + size }));
          this.#rebind(parameters[i]!, engine.reshape(copy, shape));
        });
        whole.set(i, copy);
      });
      const longest = Math.max(...this.#layers.map(({ start, end }) => end - start));
      const buffer = (): Tensor => engine.zeros([longest], flat.dtype); // [longest layer]
      this.#rebind(trainable.flat, null);
      this.#rebind(flat, null);
      const forward = Array.from({ length: passes }, () => [...this.#layers.keys()]).flat();
      const round = [...forward, ...forward.toReversed()];
      const schedule = Array.from({ length: rounds }, () => round).flat();
      const buffers = [buffer(), buffer()] as const;
      this.#released = { own, whole, buffers, schedule, at: 0, held: null, coming: null };
    });
  }

  /** Brings a layer into memory, named by its parameters, and begins with the next. Collective. @throws EngineError for one out of turn */
  enter(parameters: readonly Tensor[]): void {
    const [first] = parameters;
    const layer = first === undefined ? undefined : this.#layerOf.get(first);
    if (layer !== undefined && this.#released !== null) this.#enter(this.#released, layer);
  }

  #enter(released: Released, layer: number): void {
    const expected = released.schedule[released.at++];
    if (layer !== expected) {
      throw new EngineError(
        `ZeRO 3: layer ${layer} runs where the ranks gather ${expected === undefined ? 'none' : `layer ${expected}`}; use memory.zero=2`,
      );
    }
    if (released.held?.layer !== layer) {
      const { arrived, buffer } = released.coming ?? this.#gather(released, layer);
      for (const wait of arrived) wait();
      this.#bind(layer, buffer);
      released.held = { layer, buffer, arrived: [] };
      released.coming = null;
    }
    const next = released.schedule[released.at];
    if (next !== undefined && next !== layer) released.coming = this.#gather(released, next);
  }

  /** Lets the parameters of a layer refer to a buffer that holds it. */
  #bind(layer: number, buffer: Tensor): void {
    const engine = this.#engine;
    const { layout, parameters } = this.#policy;
    const { start } = this.#layers[layer]!;
    layout.parameters.forEach(({ offset, size, shape }, i) => {
      if (this.#layerOf.get(parameters[i]!) !== layer) return;
      engine.scope(() =>
        this.#rebind(parameters[i]!, engine.reshape(engine.narrow(buffer, 0, offset - start, size), shape)),
      );
    });
  }

  /** Begins to gather a layer in the buffer that is free. */
  #gather(released: Released, layer: number): Gathered {
    const buffer = released.buffers.find((of) => of !== released.held?.buffer)!;
    return { layer, buffer, arrived: this.#collect(released, this.#layers[layer]!, buffer) };
  }

  /** Begins to collect the slices of all ranks within a span, `into` a tensor that begins with it. */
  #collect({ own }: Released, span: Span, into: Tensor): (() => void)[] {
    const engine = this.#engine;
    const { rank, size } = this.#workers;
    const { buckets } = this.#gradients;
    const slices = this.#master ?? own!; // [H]
    const ends: (() => void)[] = [];
    engine.scope(() => {
      for (let owner = 0; owner < size; owner++) {
        for (const slice of slicesOf(buckets, owner, size, false)) {
          const start = Math.max(span.start, slice.start);
          const length = Math.min(span.end, slice.end) - start;
          if (length <= 0) continue;
          const piece = engine.narrow(into, 0, start - span.start, length); // [length]
          if (owner === rank)
            engine.write(piece, 0, 0, engine.narrow(slices, 0, slice.at + start - slice.start, length)); // rounds
          ends.push(this.#workers.broadcastTensor(piece, owner));
        }
      }
    });
    return ends;
  }

  /** Takes part in a micro-batch of other ranks, in their order: a pass ends the gradients of norm and head first, then those of each layer. Collective. */
  accompany(passes: number): void {
    const released = this.#released!;
    const gradients = this.#gradients;
    const { length } = this.#layers;
    const named = this.#policy.trainable.parameters.map(({ name }) => name);
    const pick = (wanted: (name: string) => boolean): number[] =>
      named.flatMap((name, i) => (wanted(name) ? [i] : []));
    const behind = pick((name) => /^(norm|head)\b/.test(name));
    const ofLayers = this.#layers.map((_, layer) => pick((name) => layerNamed(name) === layer));
    for (let pass = 0; pass < passes; pass++)
      for (let layer = 0; layer < length; layer++) this.#enter(released, layer);
    for (let pass = 0; pass < passes; pass++) {
      if (pass > 0) gradients.endPass();
      gradients.pass(behind);
      for (let layer = length - 1; layer >= 0; layer--) {
        this.#enter(released, layer);
        gradients.pass(ofLayers[layer]!);
      }
    }
    gradients.endRound();
  }

  /** Gives every rank all weights again, as the optimiser left them. Collective. */
  restore(): void {
    if (this.#released === null) return;
    const released = this.#released;
    const { own, whole, buffers, coming } = released;
    const { flat, trainable, layout, parameters } = this.#policy;
    const engine = this.#engine;
    for (const wait of coming?.arrived ?? []) wait();
    this.#released = null;
    const [trained] = trainable.flat.shape as [number];
    // Only what is frozen is read below: the rest goes before the buffer of all is there.
    const isFrozen = (i: number): boolean => layout.parameters[i]!.offset >= trained;
    parameters.forEach((parameter, i) => {
      if (!isFrozen(i)) this.#rebind(parameter, null);
    });
    engine.dispose(...buffers, ...Array.from(whole).flatMap(([i, copy]) => (isFrozen(i) ? [] : [copy])));
    engine.scope(() => {
      const all = engine.zeros(flat.shape, flat.dtype); // [P]
      layout.parameters.forEach(({ offset, size, shape }, i) => {
        const view = engine.narrow(all, 0, offset, size); // [n]
        if (isFrozen(i)) engine.write(view, 0, 0, whole.get(i)!);
        this.#rebind(parameters[i]!, engine.reshape(view, shape));
      });
      for (const wait of this.#collect(released, { start: 0, end: trained }, all)) wait();
      this.#rebind(trainable.flat, engine.narrow(all, 0, 0, trained));
      this.#rebind(flat, all);
    });
    const frozen = Array.from(whole).flatMap(([i, copy]) => (isFrozen(i) ? [copy] : []));
    engine.dispose(...frozen, ...(own === null ? [] : [own]));
  }
}
