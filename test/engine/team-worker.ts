/** One rank of the team, in a Worker: attaches the shared storage and trains in step with the others. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { contribute, leavesOf, type Storage, update } from './team.ts';

export interface TeamData {
  readonly rank: number;
  readonly ranks: number;
  readonly steps: number;
  readonly tickets: Readonly<Record<keyof Storage, number>>;
  /** [arrived, round] */
  readonly gate: Int32Array;
}

const { rank, ranks, steps, tickets, gate } = workerData as TeamData;

/** Returns once all ranks have come here. */
function barrier(): void {
  const round = Atomics.load(gate, 1);
  if (Atomics.add(gate, 0, 1) === ranks - 1) {
    Atomics.store(gate, 0, 0);
    Atomics.add(gate, 1, 1);
    Atomics.notify(gate, 1);
  } else while (Atomics.load(gate, 1) === round) Atomics.wait(gate, 1, round);
}

const engine = openTorch({ threads: 1 });
const storage = Object.fromEntries(
  Object.entries(tickets).map(([name, ticket]) => [name, engine.attach(ticket)]),
) as unknown as Storage;
const leaves = leavesOf(engine, storage.parameters);
const live = engine.live();
let loss = 0;
for (let step = 1; step <= steps; step++) {
  loss = contribute(engine, leaves, storage, rank, step);
  barrier();
  if (rank === 0) update(engine, storage, step);
  barrier();
}
parentPort!.postMessage({ loss, leaked: engine.live() - live });
