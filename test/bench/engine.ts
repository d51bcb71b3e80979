/**
 * What an engine call costs: microseconds per operation on one thread, on tensors so small that only the call counts,
 * beside an empty native call; and the speed of a product of 512 × 512 matrices, forward and backward, on all. Against Python's torch in
 * turns in the same run, where `python3` (or what TIMESEER_PYTHON names) has it; without it the comparison is
 * skipped, and said so: npx tsx test/bench/engine.ts [--json] [--threads N]
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { loadNative } from '../../src/engine/torch/native.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';

const ROUNDS = 7;
const SIDE = 512;

/** The peer: runs one operation by name `count` times and answers with seconds per run. */
const PEER = `
import json, math, sys, time
import torch
import torch.nn.functional as F
a, w, w2 = torch.zeros(2, 8), torch.ones(8), torch.zeros(4, 8)
p = torch.zeros(2, 8, requires_grad=True)
q, k, pk = torch.zeros(2, 4, 1, 8), torch.zeros(2, 2, 3, 8), torch.zeros(1, 2, 5, 8)
x, c = torch.zeros(2, 1, 4, 8), torch.zeros(2, 1, 8)
big = [torch.randn(${SIDE}, ${SIDE}, requires_grad=True) for _ in range(2)]

def norm(v):
    return v * torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-6) * w

def rotary():
    turned = torch.cat((-x[..., 4:], x[..., :4]), -1)
    return x * c.unsqueeze(2) + turned * c.unsqueeze(2)

def attention(before=None):
    keys = k if before is None else torch.cat((before.expand(2, -1, -1, -1), k), 2)
    keys = keys.repeat_interleave(2, 1)
    return torch.softmax(q @ keys.transpose(2, 3) / math.sqrt(8), -1) @ keys

def swiglu():
    gate, up = a.chunk(2, -1)
    return F.silu(gate) * up

def product():
    big[0].grad = big[1].grad = None
    (big[0] @ big[1]).sum().backward()

work = {
    "add": lambda: a + a, "add, recorded": lambda: p + a, "mul by a number": lambda: a * 1.5,
    "reshape": lambda: a.reshape(16), "narrow": lambda: a.narrow(1, 2, 4), "linear": lambda: F.linear(a, w2),
    "rmsNorm": lambda: norm(a), "rotary": rotary, "swiglu": swiglu, "attention": attention,
    "attention with prefix": lambda: attention(pk), "product": product,
}
print(json.dumps({"version": torch.__version__}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    run = work[job["name"]]
    torch.set_num_threads(job["threads"])
    start = time.perf_counter()
    for _ in range(job["count"]):
        run()
    print(json.dumps({"seconds": (time.perf_counter() - start) / job["count"]}), flush=True)
`;

interface Peer {
  readonly version: string;
  seconds(job: Job): Promise<number>;
  close(): void;
}

async function startPeer(): Promise<Peer | string> {
  const python = process.env['TIMESEER_PYTHON'] ?? 'python3';
  const child: ChildProcessWithoutNullStreams = spawn(python, ['-c', PEER]);
  let problem = '';
  child.on('error', (error) => {
    problem = error.message;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    problem = chunk.toString().trim().split('\n').at(-1) ?? '';
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.done === true) {
    if (child.exitCode === null && problem === '') await once(child, 'close');
    return `${python}: ${problem}`;
  }
  return {
    version: (JSON.parse(first.value) as { version: string }).version,
    async seconds({ name, count, threads }) {
      child.stdin.write(`${JSON.stringify({ name, count, threads })}\n`);
      const line = await lines.next();
      if (line.done === true) throw new Error(`the peer ended: ${problem}`);
      return (JSON.parse(line.value) as { seconds: number }).seconds;
    },
    close: () => child.stdin.end(),
  };
}

interface Job {
  readonly name: string;
  readonly count: number;
  readonly threads: number;
  readonly run: () => void;
  /** Whether the peer has the same. */
  readonly peer: boolean;
}

interface Row {
  readonly name: string;
  readonly microseconds: number;
  /** Times an empty native call. */
  readonly calls: number;
  readonly peerMicroseconds: number | null;
}

function jobs(engine: Engine): Job[] {
  const native = loadNative();
  const [a, w, w2] = [engine.zeros([2, 8]), engine.zeros([8]), engine.zeros([4, 8])];
  const p = engine.parameter(engine.zeros([2, 8]));
  const [query, key, before] = [
    engine.zeros([2, 4, 1, 8]),
    engine.zeros([2, 2, 3, 8]),
    engine.zeros([1, 2, 5, 8]),
  ];
  const [x, c] = [engine.zeros([2, 1, 4, 8]), engine.zeros([2, 1, 8])];
  const targets = engine.tensor(new Int32Array(2), [2]);
  const logits = engine.zeros([8, 320]);
  const draws = new Float32Array(8).fill(0.4);
  const uniforms = engine.tensor(draws, [8]);
  const flat = (): Tensor => engine.zeros([1000]);
  const state = {
    parameters: flat(),
    gradients: flat(),
    firstMoment: flat(),
    secondMoment: flat(),
    decay: flat(),
  };
  const options = { learningRate: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, step: 1 };
  const drop = (make: () => Tensor) => (): void => engine.dispose(make());
  const job = (name: string, run: () => void, peer = false, count = 4000): Job => {
    return { name, run, peer, count, threads: 1 };
  };
  return [
    job('empty native call', () => native.live(), false, 100_000),
    job('empty scope', () => engine.scope(() => 0), false, 100_000),
    job(
      'add',
      drop(() => engine.add(a, a)),
      true,
      20_000,
    ),
    job(
      'add, recorded',
      drop(() => engine.add(p, a)),
      true,
      20_000,
    ),
    job(
      'mul by a number',
      drop(() => engine.mul(a, 1.5)),
      true,
      20_000,
    ),
    job(
      'reshape',
      drop(() => engine.reshape(a, [16])),
      true,
      20_000,
    ),
    job(
      'narrow',
      drop(() => engine.narrow(a, 1, 2, 4)),
      true,
      20_000,
    ),
    job(
      'linear',
      drop(() => engine.linear(a, w2)),
      true,
      20_000,
    ),
    job(
      'rmsNorm',
      drop(() => engine.rmsNorm(a, w, 1e-6)),
      true,
    ),
    job(
      'rotary',
      drop(() => engine.rotary(x, c, c)),
      true,
    ),
    job(
      'swiglu',
      drop(() => engine.swiglu(a)),
      true,
    ),
    job(
      'attention',
      drop(() => engine.attention({ query, key, value: key })),
      true,
    ),
    job(
      'attention with prefix',
      drop(() => engine.attention({ query, key, value: key, prefix: { key: before, value: before } })),
      true,
    ),
    job('logProbs', () => engine.scope(() => void engine.logProbs(a, w2, targets))),
    job(
      'sample 8 of 320',
      () => engine.scope(() => void engine.sample(logits, { temperature: 1, topP: 1, uniforms })),
      false,
      1000,
    ),
    job(
      'sample 8 of 320, top-p',
      () => engine.scope(() => void engine.sample(logits, { temperature: 1, topP: 0.9, uniforms })),
      false,
      1000,
    ),
    job('adamW of 1000', () => engine.adamW(state, options)),
    job(
      'upload of 8',
      drop(() => engine.tensor(draws, [8])),
      false,
      20_000,
    ),
    job('download of 16', () => void engine.floats(a), false, 20_000),
  ];
}

function product(engine: Engine, threads: number): Job {
  const random = (): Tensor =>
    engine.parameter(
      engine.tensor(
        Float32Array.from({ length: SIDE * SIDE }, (_, i) => Math.sin(i * i)),
        [SIDE, SIDE],
      ),
    );
  const [a, b] = [random(), random()];
  const run = (): void => engine.scope(() => void engine.grad(engine.sum(engine.matmul(a, b)), [a, b]));
  return { name: 'product', count: 20, threads, peer: true, run };
}

/** The fastest of several rounds, ours and the peer's in turns. */
async function measure(job: Job, peer: Peer | null): Promise<{ ours: number; theirs: number | null }> {
  for (let i = 0; i < job.count; i++) job.run();
  if (job.peer) await peer?.seconds(job);
  let ours = Number.POSITIVE_INFINITY;
  let theirs = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    for (let i = 0; i < job.count; i++) job.run();
    ours = Math.min(ours, (performance.now() - start) / 1000 / job.count);
    if (peer !== null && job.peer) theirs = Math.min(theirs, await peer.seconds(job));
  }
  return { ours, theirs: Number.isFinite(theirs) ? theirs : null };
}

const json = process.argv.includes('--json');
const asked = process.argv.indexOf('--threads');
const threads = asked < 0 ? availableParallelism() : Number(process.argv[asked + 1]);
const engine = openTorch({ threads: 1 });
const started = await startPeer();
const peer = typeof started === 'string' ? null : started;

const rows: Row[] = [];
for (const job of jobs(engine)) {
  const { ours, theirs } = await measure(job, peer);
  rows.push({
    name: job.name,
    microseconds: ours * 1e6,
    calls: (ours * 1e6) / (rows[0]?.microseconds ?? ours * 1e6),
    peerMicroseconds: theirs === null ? null : theirs * 1e6,
  });
}
const { ours, theirs } = await measure(product(openTorch({ threads }), threads), peer);
peer?.close();
const gflops = (seconds: number): number => (6 * SIDE ** 3) / seconds / 1e9; // one product forward, two backward

if (json) {
  const comparison = typeof started === 'string' ? { skipped: started } : { version: started.version };
  const speed = { side: SIDE, gflops: gflops(ours), peerGflops: theirs === null ? null : gflops(theirs) };
  console.log(
    JSON.stringify({ engine: engine.info, threads, peer: comparison, operations: rows, product: speed }),
  );
} else {
  const { version, blas } = engine.info;
  console.log(`libtorch ${version}, operations on 1 thread, the product on ${threads}; ${blas}`);
  if (typeof started === 'string') console.log(`comparison with Python's torch skipped: ${started}`);
  else console.log(`beside Python's torch ${started.version}: the ratio is its time over ours`);
  for (const { name, microseconds, calls, peerMicroseconds } of rows) {
    const ratio =
      peerMicroseconds === null
        ? ''
        : `${peerMicroseconds.toFixed(2).padStart(9)} µs  ${(peerMicroseconds / microseconds).toFixed(2)}×`;
    console.log(
      `${name.padEnd(24)} ${microseconds.toFixed(2).padStart(8)} µs ${calls.toFixed(0).padStart(6)} calls ${ratio}`,
    );
  }
  const against =
    theirs === null ? '' : `, Python's torch ${gflops(theirs).toFixed(0)}: ${(theirs / ours).toFixed(2)}×`;
  console.log(`product of ${SIDE}³, forward + backward: ${gflops(ours).toFixed(0)} GFLOP/s${against}`);
}
