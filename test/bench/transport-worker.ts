/** One rank of the transport of responses to traces whose states a file holds: its share of the traces, and the responses to them. */
import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import type { Engine } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type HiddenStates, marginals, TIMERPO_TRANSPORT, transport } from '../../src/train/transport.ts';
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

function start(): (question: string) => number[] {
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
  const { epsilon, iterations } = TIMERPO_TRANSPORT;
  const ready = problemsOf(engine, responses, traces);
  return (question) =>
    engine.scope(() => [
      ...(question === 'transport'
        ? transport(engine, responses, traces, TIMERPO_TRANSPORT).distance
        : engine.doubles(engine.sinkhorn({ ...ready, epsilon, iterations }).distance)),
    ]);
}

/** Costs and masses of the responses to their traces. */
function problemsOf(engine: Engine, responses: HiddenStates, traces: HiddenStates) {
  const prepared = ({ states, lengths }: HiddenStates) => {
    const [count, length] = states.shape as [number, number, number];
    const wide = engine.cast(states, 'float64');
    const norms = engine.norm(wide); // [N, T]
    const unit = engine.div(wide, engine.add(engine.reshape(norms, [count, length, 1]), 1e-6));
    return { unit, mass: marginals(engine.doubles(norms), lengths, length) };
  };
  const { group, rows, columns, width } = job;
  const [from, to] = [prepared(responses), prepared(traces)];
  const count = responses.lengths.length;
  const grouped = engine.reshape(from.unit, [count / group, group * rows, width]);
  const cosine = engine.matmul(grouped, engine.permute(to.unit, [0, 2, 1])); // [P, G·T, S]
  const cost = engine.reshape(engine.clamp(engine.add(engine.mul(cosine, -1), 1), 0, 2), [
    count,
    rows,
    columns,
  ]);
  const spread = Float64Array.from({ length: count * columns }, (_, i) => {
    const trace = Math.floor(i / (group * columns));
    return to.mass[trace * columns + (i % columns)]!;
  });
  return {
    cost,
    rows: engine.tensor(from.mass, [count, rows]),
    columns: engine.tensor(spread, [count, columns]),
  };
}

let solve: ((question: string) => number[]) | undefined;
port.on('message', (question: string) => {
  try {
    solve ??= start();
    post({ kind: 'answer', answer: question === 'ready' ? [] : solve(question) });
  } catch (error) {
    post({ kind: 'error', error: failureOf(error) });
  }
});
