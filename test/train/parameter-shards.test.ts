/** ZeRO 3 on simulated ranks, which run one after the other: the layers that they gather, what they compute, and what they hold. */
import { createHash } from 'node:crypto';
import { afterAll, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { EngineError } from '../../src/ground/errors.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { Learner } from '../../src/train/learner.ts';
import { PASSES, responseStates } from '../../src/train/micro-batch.ts';
import type { OPTIMIZERS } from '../../src/train/muon.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { DEVICE } from '../helpers/device.ts';
import { LoneRank, type Operation } from '../helpers/lone-rank.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const asked = tinyPolicy(engine);
const encoder = new PromptEncoder(asked);
const task = tinyTask();
const prompts = await Promise.all(
  [0, 1, 2].map(async (i): Promise<EncodedPrompt> => {
    const series = task.example(i);
    return encoder.encode(await task.picture(series), task.instruction(series));
  }),
);
asked.dispose();
/** Micro-batches of each rank, by the length of the response: the first rank has most, the last none. */
const ROUNDS = [[5, 3], [4], []] as const;
const BUCKET = 700;
const OPTIONS = { betas: [0.9, 0.99], weightDecay: 0.1, clip: 1 } as const;

interface Run {
  /** Operations of each rank. */
  readonly logs: readonly (readonly Operation[])[];
  /** Weights of each rank behind the update, [P]. */
  readonly weights: readonly Float32Array[];
}

interface Variant {
  readonly tuning: 'all' | 'decoder';
  readonly dtype: 'float32' | 'bfloat16';
  readonly tied: boolean;
  readonly optimizer: keyof typeof OPTIMIZERS;
}

/** Makes the micro-batches of a rank. */
const microBatchesOf = (learner: Learner, rank: number): (() => void)[] =>
  ROUNDS[rank]!.map((length, i) => () => {
    engine.scope(() => {
      const tape = learner.tape();
      const response = Int32Array.from({ length }, (_, t) => 20 + 7 * t + rank + i);
      const { states, targets } = responseStates(learner.policy, [prompts[rank]!], [response], tape);
      learner.backward(states, targets, {}, (logProb) => engine.sum(logProb), tape);
    });
  });

/** Runs an update on every rank, each of which receives what the ranks of a run before have sent. */
function run({ tuning, dtype, tied, optimizer }: Variant, zero: 2 | 3, before: Run | null): Run {
  const done = ROUNDS.map((_, rank) => {
    const workers = new LoneRank(engine, rank, 3, before?.logs ?? null, ROUNDS[0].length);
    const policy = tinyPolicy(engine, 3, { tuning, dtype, tied });
    const learner = new Learner(policy, workers, { ...OPTIONS, optimizer }, true, { zero, bucket: BUCKET });
    const microBatches = microBatchesOf(learner, rank);
    learner.accumulate(microBatches, PASSES);
    learner.update(12, 1e-2);
    expect(workers.open).toBe(0);
    const weights = engine.floats(policy.flat);
    policy.parameters.forEach((parameter, i) => {
      const { offset, size } = policy.layout.parameters[i]!;
      expect(digest(engine.floats(parameter))).toBe(digest(weights.subarray(offset, offset + size)));
    });
    learner.optimizer.dispose();
    policy.dispose();
    return { workers, weights };
  });
  return { logs: done.map(({ workers }) => workers.log), weights: done.map(({ weights }) => weights) };
}

/** Digest of the bits of numbers: a difference of long arrays takes minutes to print. */
const digest = (values: Iterable<number>): string =>
  createHash('sha256')
    .update(new Uint8Array(Float32Array.from(values).buffer))
    .digest('hex')
    .slice(0, 8);
const gathers = ({ logs }: Run): string[][] =>
  logs.map((log) =>
    log.filter(({ kind }) => kind === 'gather').map(({ root, values }) => `${root} ${digest(values)}`),
  );
const order = (log: readonly Operation[]): string[] =>
  log.map(({ kind, root, values }) => `${kind} ${values.length} to or from ${root}`);

describe.each<Variant>([
  { tuning: 'all', dtype: 'float32', tied: true, optimizer: 'adamw' },
  { tuning: 'decoder', dtype: 'bfloat16', tied: false, optimizer: 'adamw' },
  { tuning: 'all', dtype: 'float32', tied: false, optimizer: 'muon' },
  { tuning: 'decoder', dtype: 'bfloat16', tied: true, optimizer: 'muon' },
])('with weights of $dtype, tuning $tuning by $optimizer', (variant) => {
  // Gradients that a rank sends are right once it has received the layers of others, its weights once it has received their gradients.
  const repeated = (zero: 2 | 3, times: number): Run =>
    run(variant, zero, times > 1 ? repeated(zero, times - 1) : null);
  const [whole, shared] = [repeated(2, 3), repeated(3, 4)];

  test('every rank gathers the same layers and sends the same gradients in the same order, one without micro-batches too', () => {
    const [first, ...others] = shared.logs.map(order);
    for (const other of others) expect(other).toEqual(first);
    expect(first!.filter((line) => line.startsWith('broadcast')).length).toBeGreaterThan(0);
  });

  test('the gradients are those of whole weights, to the bit', () => {
    expect(gathers(shared)).toEqual(gathers(whole));
  });

  test('the weights behind the update are those of whole weights, on every rank', () => {
    expect(shared.weights.map(digest)).toEqual(whole.weights.map(digest));
  });

  test('the weights behind the update are those of one rank with all micro-batches, but for rounding', () => {
    const { tuning, dtype, tied, optimizer } = variant;
    const policy = tinyPolicy(engine, 3, { tuning, dtype, tied });
    const before = engine.floats(policy.flat);
    const learner = new Learner(policy, WorkerGroup.single(), { ...OPTIONS, optimizer }, true);
    learner.accumulate(
      ROUNDS.flatMap((_, rank) => microBatchesOf(learner, rank)),
      PASSES,
    );
    learner.update(12, 1e-2);
    const alone = engine.floats(policy.flat);
    const change = (weights: Float32Array): number[] => [...weights].map((value, i) => value - before[i]!);
    const [want, got] = [change(alone), change(shared.weights[1]!)];
    const squares = (values: readonly number[]): number => values.reduce((sum, value) => sum + value ** 2, 0);
    const off = squares(got.map((value, i) => value - want[i]!)) / squares(want);
    expect(squares(want)).toBeGreaterThan(0.01);
    expect(Math.sqrt(off)).toBeLessThan(dtype === 'float32' ? 5e-3 : 0.1);
    learner.optimizer.dispose();
    policy.dispose();
  });
});

test('a forward pass over weights in shares that does not gather them fails', () => {
  const policy = tinyPolicy(engine);
  const options = { betas: [0.9, 0.99] as const, epsilon: 1e-8, weightDecay: 0, clip: 1 };
  const learner = new Learner(policy, new LoneRank(engine, 0, 3, null, 1), options, true, { zero: 3 });
  const stray = (): void => {
    engine.scope(() => void responseStates(policy, [prompts[0]!], [Int32Array.of(30, 31)]));
  };
  expect(() => learner.accumulate([stray], PASSES)).toThrow(EngineError);
  learner.discard();
  stray();
  learner.optimizer.dispose();
  policy.dispose();
});

test('a layer out of turn is refused by name', () => {
  const policy = tinyPolicy(engine);
  const options = { betas: [0.9, 0.99] as const, epsilon: 1e-8, weightDecay: 0, clip: 1 };
  const learner = new Learner(policy, new LoneRank(engine, 0, 3, null, 1), options, true, { zero: 3 });
  const forward = (): void => {
    engine.scope(() => void responseStates(policy, [prompts[0]!], [Int32Array.of(30, 31)], learner.tape()));
  };
  expect(() => learner.accumulate([forward], 1)).toThrow(
    'ZeRO 3: layer 0 runs where the ranks gather layer 1; use memory.zero=2',
  );
  learner.discard();
  learner.optimizer.dispose();
  policy.dispose();
});
