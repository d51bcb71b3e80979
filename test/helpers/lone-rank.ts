/** A rank of a group that shares no memory, whose ranks run one after the other. */
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { WorkerGroup, workerGroupMemory } from '../../src/train/worker-group.ts';

export interface Operation {
  readonly kind: 'broadcast' | 'gather';
  readonly root: number;
  readonly values: readonly number[];
}

/** One rank. It keeps what it sends, and receives what the others have sent where these have run before it. */
export class LoneRank extends WorkerGroup {
  override readonly sharesMemory = false;
  readonly log: Operation[] = [];
  /** Operations that were begun and not waited for. */
  open = 0;
  readonly #engine: Engine;
  readonly #others: readonly (readonly Operation[])[] | null;
  readonly #most: number;

  /** `others`: log of each rank; null: what arrives is of no interest. `most`: micro-batches of the rank with most. */
  constructor(
    engine: Engine,
    rank: number,
    size: number,
    others: readonly (readonly Operation[])[] | null,
    most: number,
  ) {
    super(workerGroupMemory(size), rank, size);
    this.#engine = engine;
    this.#others = others;
    this.#most = most;
  }

  override barrier(): void {}

  override share<T extends { readonly flat: Tensor }>(_engine: Engine, make: () => T): T {
    return make();
  }

  override allGather(values: readonly number[]): Float64Array[] {
    return [Float64Array.from(values), Float64Array.of(this.#most)];
  }

  #begin(kind: Operation['kind'], root: number, part: Tensor, end: (at: number) => void): () => void {
    const at = this.log.push({ kind, root, values: [...this.#engine.floats(part)] }) - 1;
    this.open++;
    return () => {
      this.open--;
      end(at);
    };
  }

  #receive(into: Tensor, rank: number, at: number): void {
    if (this.#others === null) return;
    const { values } = rank === this.rank ? this.log[at]! : this.#others[rank]![at]!;
    this.#engine.write(into, 0, 0, this.#engine.tensor(Float32Array.from(values), [values.length]));
  }

  override broadcastTensor(tensor: Tensor, root: number): () => void {
    const into = this.#engine.unscoped(() => this.#engine.detach(tensor));
    return this.#begin('broadcast', root, tensor, (at) => {
      this.#engine.scope(() => this.#receive(into, root, at));
      this.#engine.dispose(into);
    });
  }

  override gatherTensor(part: Tensor, parts: readonly Tensor[], root: number): () => void {
    return this.#begin('gather', root, part, (at) =>
      this.#engine.scope(() => {
        for (const [r, into] of parts.entries()) this.#receive(into, r, at);
      }),
    );
  }
}
