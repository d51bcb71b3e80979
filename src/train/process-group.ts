/** Ranks that are processes, of one machine or several: they meet through libtorch's c10d and share no memory. */
import { hash } from 'node:crypto';
import { hostname } from 'node:os';
import type { Engine, Tensor } from '../engine/engine.ts';
import { ProcessGroup } from '../engine/torch/distributed.ts';
import { devicesLike, openTorch, type TorchEngine } from '../engine/torch/torch.ts';
import { type Meeting, WorkerGroup } from './worker-group.ts';

/** Device of a rank: `cuda` is the GPU of its local rank, which ranks share where there are fewer GPUs than ranks. */
export function deviceOfRank(device: string, { localRank }: Meeting): string {
  const fixed = device === 'cpu' || device.includes(':');
  return fixed ? device : `${device}:${localRank % Math.max(1, devicesLike(device))}`;
}

/** Number that tells a GPU from those of other ranks; the same for two where a cluster numbers the GPU of each rank 0. */
function identityOf(device: string): number {
  const index = Number(device.split(':')[1] ?? 0);
  const visible = (process.env['CUDA_VISIBLE_DEVICES'] ?? '').split(',')[index]?.trim() || `${index}`;
  return hash('sha256', `${hostname()}/${visible}`, 'buffer').readUInt32BE();
}

export class ProcessRanks extends WorkerGroup {
  override readonly sharesMemory = false;
  readonly #engine: TorchEngine;
  readonly #group: ProcessGroup;

  /** Joins the others. `memory`: between this rank and its process; `device`: that of the tensors. Collective. */
  constructor(memory: SharedArrayBuffer, meeting: Meeting, rank: number, size: number, device: string) {
    super(memory, rank, size);
    this.#engine = openTorch();
    this.#group = ProcessGroup.open({ ...meeting, rank, size });
    if (!device.startsWith('cuda')) return;
    // NCCL takes a GPU for each rank; where ranks share one, Gloo moves all tensors.
    const gpus = this.allGather([identityOf(device)]).map(([gpu]) => gpu!);
    if (new Set(gpus).size === size) this.#group.useNccl();
  }

  /** Waits until every rank is here. c10d's own barrier names the missing ones and takes longer; the processes notice these themselves. */
  override barrier(): void {
    this.allGather([0]);
  }

  override allGather(values: readonly number[]): Float64Array[] {
    const engine = this.#engine;
    return engine.scope(() => {
      const own = engine.tensor(Float64Array.from(values), [values.length]);
      const parts = Array.from({ length: this.size }, () => engine.zeros([values.length], 'float64'));
      this.#group.allGather(own, parts).wait();
      return parts.map((part) => new Float64Array(engine.bytes(part).slice().buffer)); // [R][K]
    });
  }

  /** Has every rank make its own. Collective. */
  override share<T extends { readonly flat: Tensor }>(_engine: Engine, make: () => T): T {
    const made = make();
    this.barrier();
    return made;
  }

  /** Rank 0 works once the messages of all ranks have reached its process; the others do `meanwhile`, and wait. Collective. */
  override onRankZero(work: () => void, meanwhile: () => void = () => {}): void {
    const [posted] = this.allReduce([this.posted]);
    if (this.rank === 0) {
      this.awaitDelivered(posted);
      work();
    } else meanwhile();
    this.barrier();
  }

  override gatherTensor(part: Tensor, parts: readonly Tensor[], root: number): () => void {
    const work = this.#group.gather(part, root, parts);
    return () => work.wait();
  }

  override broadcastTensor(tensor: Tensor, root: number): () => void {
    const work = this.#group.broadcast(tensor, root);
    return () => work.wait();
  }

  override close(): void {
    this.#group.close();
  }
}
