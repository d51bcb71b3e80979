/**
 * The tfjs engine at quickstart size beside the torch engine, on one thread and the same weights and examples, in turns: a supervised
 * update, and decoding. Share of the time that is spent in TensorFlow.js's products, and the speed of a product of 512 × 512 now:
 * npx tsx test/bench/tfjs.ts [--json] [--rounds N] [--policy DIR]
 */
import { pathToFileURL } from 'node:url';
import type { Engine } from '../../src/engine/engine.ts';
import { type Backend, backend } from '../../src/engine/tfjs/backend.ts';
import { TfjsEngine } from '../../src/engine/tfjs/tfjs.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { forward } from '../../src/policy/forward.ts';
import { generate } from '../../src/policy/generate.ts';
import { Policy } from '../../src/policy/policy.ts';
import { Learner } from '../../src/train/learner.ts';
import { supervisedLoss } from '../../src/train/loss.ts';
import { sequenceBatch } from '../../src/train/micro-batch.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { benchOptions, gflops, machineOf, median, table } from './measure.ts';
import { examples, quickstart, withPolicy } from './workload.ts';

const PROMPTS = 16;
const SAMPLES = 8;
const TOKENS = 96;

export interface EngineRow {
  readonly engine: string;
  /** Milliseconds of one update, and of decoding. */
  readonly update: number;
  readonly decode: number;
  /** Shares of the time inside products; null where they are not counted. */
  readonly updateProducts: number | null;
  readonly decodeProducts: number | null;
  readonly loss: number;
  readonly gflops: number;
}

/** A backend that counts the time in products. */
function counted(real: Backend): { backend: Backend; time: { ms: number } } {
  const time = { ms: 0 };
  const timed = <T>(work: () => T): T => {
    const began = performance.now();
    const result = work();
    time.ms += performance.now() - began;
    return result;
  };
  const counting: Backend = {
    ...real,
    pack(...matrix) {
      const pack = timed(() => real.pack(...matrix));
      return { times: (...product) => timed(() => pack.times(...product)), free: pack.free };
    },
  };
  return { backend: counting, time };
}

async function contender(engine: Engine, directory: string, time: { ms: number } | null) {
  const { sft } = quickstart();
  const policy = Policy.load(engine, directory);
  const learner = new Learner(policy, WorkerGroup.single(), sft);
  const all = await examples(policy, directory, 0, sft.batch);
  const { input, targets } = sequenceBatch(
    all.map(({ prompt }) => prompt),
    all.map(({ response }) => response),
    policy.dims.special.pad,
  );
  const update = (): number => {
    let loss = 0;
    engine.scope(() => {
      const { hidden } = forward(policy, input); // [K, D]
      learner.backward(hidden, targets, {}, (logProb) => {
        const sum = supervisedLoss(engine, logProb); // []
        loss = engine.item(sum) / targets.length;
        return sum;
      });
    });
    learner.update(targets.length, sft.learningRate * 0.05);
    return loss;
  };
  const prompts = all.slice(0, PROMPTS).map(({ prompt }) => prompt);
  const decode = (): Promise<unknown> =>
    generate(policy, prompts, { samples: SAMPLES, temperature: 1, maxTokens: TOKENS, seed: 1 });
  /** Milliseconds, and those in products. */
  const measured = async (work: () => unknown): Promise<readonly [number, number]> => {
    const before = time?.ms ?? 0;
    const began = performance.now();
    await work();
    return [performance.now() - began, (time?.ms ?? 0) - before];
  };
  const loss = update();
  await decode();
  const updates: (readonly [number, number])[] = [];
  const decodes: (readonly [number, number])[] = [];
  return {
    async round(): Promise<void> {
      updates.push(await measured(update));
      decodes.push(await measured(decode));
    },
    row(speed: number): EngineRow {
      const of = (pairs: typeof updates, which: 0 | 1): number => median(pairs.map((pair) => pair[which]));
      const share = (pairs: typeof updates): number | null =>
        time === null ? null : of(pairs, 1) / of(pairs, 0);
      return {
        ...{ engine: engine.info.name, update: of(updates, 0), decode: of(decodes, 0), loss, gflops: speed },
        ...{ updateProducts: share(updates), decodeProducts: share(decodes) },
      };
    },
  };
}

export async function run(directory: string, rounds: number): Promise<readonly EngineRow[]> {
  const { backend: counting, time } = counted(await backend());
  const [torch, tfjs] = [openTorch({ threads: 1 }), new TfjsEngine(counting)];
  const ours = await contender(tfjs, directory, time);
  const theirs = await contender(torch, directory, null);
  for (let i = 0; i < rounds; i++) {
    await ours.round();
    await theirs.round();
  }
  return [theirs.row(gflops(torch)), ours.row(gflops(tfjs))];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { json, policy: given, rounds } = benchOptions(7);
  await withPolicy(given, 'cpu', async (directory) => {
    const rows = await run(directory, rounds);
    if (json) {
      console.log(JSON.stringify({ machine: machineOf(openTorch({ threads: 1 })), rows }));
      return;
    }
    const percent = (share: number | null): string => (share === null ? '' : `${(100 * share).toFixed(0)} %`);
    const cells = rows.map((row) => [
      ...[row.engine, row.update.toFixed(0), percent(row.updateProducts), row.decode.toFixed(0)],
      ...[percent(row.decodeProducts), row.loss.toFixed(5), row.gflops.toFixed(1)],
    ]);
    console.log(
      table(['engine', 'update ms', 'in products', 'decoding ms', 'in products', 'loss', 'GFLOP/s'], cells),
    );
  });
}
