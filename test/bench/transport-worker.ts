/** One rank of the transport of responses to traces whose states a file holds: its share of the traces, and the responses to them. */
import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type HiddenStates, TIMERPO_TRANSPORT, transport } from '../../src/train/transport.ts';
import { failureOf, type WorkerContext, WorkerGroup } from '../../src/train/worker-group.ts';
import type { BenchAnswer } from './team.ts';

export interface TransportJob {
  /** States of responses [P·G, T, D], then of traces [P, S, D], as float32. */
  readonly file: string;
  readonly prompts: number;
  readonly group: number;
  readonly rows: number;
  readonly columns: number;
  readonly width: number;
}

const { memory, rank, size, job } = workerData as WorkerContext<TransportJob>;
const port = parentPort!;
/** ⟨plan, cost⟩ of the own responses. */
const post = (message: BenchAnswer<readonly number[]>): void => port.postMessage(message);

function start(): () => number[] {
  const engine = openTorch({ device: 'cpu', threads: 1 });
  const { prompts, group, rows, columns, width } = job;
  const bytes = readFileSync(job.file);
  const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const [first, last] = new WorkerGroup(memory, rank, size).shard(prompts);
  const part = (before: number, count: number, length: number): HiddenStates => {
    const from = before + first * count * length * width;
    const data = values.slice(from, from + (last - first) * count * length * width);
    const states = (last - first) * count;
    return {
      states: engine.tensor(data, [states, length, width]),
      lengths: new Int32Array(states).fill(length),
    };
  };
  const responses = part(0, group, rows);
  const traces = part(prompts * group * rows * width, 1, columns);
  return () => engine.scope(() => [...transport(engine, responses, traces, TIMERPO_TRANSPORT).distance]);
}

let solve: (() => number[]) | undefined;
port.on('message', (question: string) => {
  try {
    solve ??= start();
    post({ kind: 'answer', answer: question === 'transport' ? solve() : [] });
  } catch (error) {
    post({ kind: 'error', error: failureOf(error) });
  }
});
