/** One process of a distributed job: runs the scene it is started with, and prints lines of JSON. */
import type { DType, Tensor } from '../../src/engine/engine.ts';
import { ProcessGroup, Store } from '../../src/engine/torch/distributed.ts';
import { devicesLike, openTorch } from '../../src/engine/torch/torch.ts';
import { DEVICE } from '../helpers/device.ts';

export interface PeerData {
  readonly scene: keyof typeof SCENES;
  readonly port: number;
  readonly rank: number;
  readonly size: number;
  readonly timeoutMs: number;
}

const say = (line: unknown): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

const data = JSON.parse(process.argv.at(-1)!) as PeerData;
const { port, rank, size, timeoutMs } = data;
const host = '127.0.0.1';
const engine = openTorch({ device: DEVICE, threads: 1 });
const open = (prefix: string): ProcessGroup => {
  const group = ProcessGroup.open({ host, port, prefix, rank, size, timeoutMs });
  // NCCL refuses ranks that share a GPU: with fewer GPUs than ranks Gloo is tested on their tensors.
  if (DEVICE.startsWith('cuda') && size <= devicesLike(DEVICE) && !group.useNccl())
    throw new Error('no NCCL');
  return group;
};
const second = Math.min(1, size - 1);

const floats = (values: readonly number[], dtype: DType = 'float32'): Tensor =>
  engine.cast(engine.tensor(Float64Array.from(values), [values.length]), dtype);
const listed = (tensor: Tensor): number[] => [...engine.doubles(tensor)];
const message = (body: () => unknown): string => {
  try {
    body();
    return 'no error';
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
};

const SCENES = {
  operations(): void {
    const group = open('operations');
    const result: Record<string, unknown> = {};
    for (const dtype of ['float32', 'float64', 'int64', 'uint8'] as const) {
      const sum = floats([rank + 1, 10 * rank, 7], dtype);
      group.allReduce(sum).wait();
      const reduced = floats([3 ** rank, rank], dtype);
      group.reduce(reduced, size - 1).wait();
      result[dtype] = { sum: listed(sum), reduced: rank === size - 1 ? listed(reduced) : [] };
    }
    for (const dtype of ['float32', 'bfloat16', 'float16', 'int64', 'uint8', 'bool'] as const) {
      const own = floats([rank, 1.5 - rank, 0], dtype);
      const into = Array.from({ length: size }, () => engine.zeros([3], dtype));
      group.gather(own, second, rank === second ? into : []).wait();
      const all = Array.from({ length: size }, () => engine.zeros([3], dtype));
      group.allGather(own, all).wait();
      result[`${dtype} gathered`] = { root: into.map(listed), all: all.map(listed), own: listed(own) };
    }
    // Two operations under way at once, on parts of one flat buffer, the later one waited for first.
    const flat = floats(Array.from({ length: 7 }, (_, i) => 100 * rank + i));
    const works = [
      group.allReduce(engine.narrow(flat, 0, 1, 2)),
      group.broadcast(engine.narrow(flat, 0, 4, 2), size - 1),
    ];
    for (const work of works.reverse()) work.wait();
    for (const work of works) work.wait(); // a second time: nothing to wait for
    result['flat'] = listed(flat);
    // Zeros, denormal, infinity, NaN.
    const patterns = [0, -0, 2 ** -133, Number.POSITIVE_INFINITY, Number.NaN, -1.5, 3e38];
    const sent = floats(rank === 0 ? patterns : patterns.map(() => 7), 'bfloat16');
    group.broadcast(sent, 0).wait();
    result['bits'] = [...engine.bytes(sent)];
    const scalar = engine.reshape(floats([rank + 0.5]), []);
    group.broadcast(scalar, second).wait();
    group.allReduce(engine.zeros([0])).wait();
    result['scalar'] = engine.item(scalar);
    group.barrier();
    result['refused'] = [
      message(() => group.allReduce(floats([1], 'bfloat16'))),
      message(() => group.broadcast(engine.permute(engine.zeros([2, 3]), [1, 0]), 0)),
      message(() => group.broadcast(engine.zeros([1]), size)),
      message(() => group.allGather(engine.zeros([1]), [])),
      message(() =>
        group.allGather(
          engine.zeros([1]),
          Array.from({ length: size }, () => engine.zeros([2])),
        ),
      ),
    ];
    group.barrier();
    group.close();
    result['closed'] = message(() => group.barrier());
    say(result);
  },

  /** All but the last rank wait in an all-reduce for a peer that the test kills or stops. */
  lost(): void {
    const group = open('lost');
    say('ready');
    if (rank === size - 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    const sum = engine.zeros([1000]);
    const error = message(() => group.allReduce(sum).wait());
    say({ error, again: message(() => group.allReduce(sum)) });
  },

  absent(): void {
    const group = open('absent');
    say('ready');
    if (rank === size - 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    say({ error: message(() => group.barrier(2000)) });
  },

  alone(): void {
    say({ error: message(() => open('alone')) });
  },

  async server(): Promise<void> {
    const store = await Store.open({ host, port: 0, server: true, timeoutMs });
    await store.set('name', 'value');
    say({ port: store.port });
    setInterval(() => {}, 1000);
  },

  /** Talks to a server that the test has stopped; ends by process.exit while an operation is stuck. */
  async client(): Promise<void> {
    const store = await Store.open({ host, port, timeoutMs });
    say('ready');
    await new Promise((done) => process.stdin.once('data', done));
    let ticks = 0;
    const timer = setInterval(() => ticks++, 5);
    const error = await store.add('counter', 1).catch(({ message }: Error) => message);
    clearInterval(timer);
    say({ error, ticks });
    void store.get('name').catch(() => {});
    process.exit(7);
  },

  async pending(): Promise<void> {
    const store = await Store.open({ host, port, timeoutMs });
    const got = store.get('never');
    say('ready');
    await got;
  },

  /** Ends without close, while its store is idle: nothing may keep the process alive. */
  async idle(): Promise<void> {
    const store = await Store.open({ host, port, timeoutMs });
    say({ value: (await store.get('name')).toString() });
  },
};

await SCENES[data.scene]();
