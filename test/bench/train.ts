/**
 * Supervised samples per second at quickstart size with one and two workers: the whole stage (series, trace, picture,
 * gradient, update) by its own loop, and the update alone on examples that are ready, in turns with PyTorch on the
 * same weights and examples: npx tsx test/bench/train.ts [--json] [--rounds N] [--policy DIR] [--device cuda]
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Policy } from '../../src/policy/policy.ts';
import { runStage } from '../../src/run/stage.ts';
import type { SftMetrics } from '../../src/train/metrics.ts';
import { type Comparison, comparisonTable, OURS, takeTurns } from './compare.ts';
import type { GradientAnswer, GradientJob } from './gradient-worker.ts';
import {
  type BenchOptions,
  benchOptions,
  gflops,
  type Machine,
  machineOf,
  median,
  table,
} from './measure.ts';
import { openPeer, PEERS, sorted } from './peer.ts';
import { openTeam } from './team.ts';
import { examples, quickstart, withPolicy, withScratch, writeExamples } from './workload.ts';

const STAGE_STEPS = 40;
const WARM_STEPS = 10;
const BATCHES = 8;

export interface StageRow {
  readonly workers: number;
  /** Of the median step: one that another process held up does not count. */
  readonly samplesPerSecond: number;
  /** Median milliseconds of a step: series, traces and pictures; forward and backward; reduction and AdamW. */
  readonly ms: SftMetrics['ms'];
  readonly gflops: number;
}

export interface TrainReport {
  readonly machine: Machine;
  readonly batch: number;
  readonly stage: readonly StageRow[];
  readonly update: {
    readonly rows: readonly Comparison[];
    readonly gflops: number;
    readonly peers: readonly string[];
    /** Why a peer did not take part. */
    readonly skipped: readonly string[];
    /** Largest relative difference of a batch's loss from ours with one worker, over the first round's updates. */
    readonly lossDifference: Readonly<Record<string, number>>;
  };
}

async function stageSpeed(
  policy: string,
  workers: number,
  device: string,
  scratch: string,
): Promise<StageRow> {
  const samples = STAGE_STEPS * quickstart().sft.batch;
  const recipe = quickstart([`sft.samples=${samples}`, 'sft.checkpointEvery=1000000']);
  const steps: SftMetrics[] = [];
  const now = gflops(device);
  await runStage(
    {
      stage: 'sft',
      recompute: false,
      origin: { recipe: {}, data: null, policy: {} },
      recipe,
      device,
      base: policy,
      from: policy,
      examples: {
        name: recipe.data.name,
        split: 'train',
        seed: recipe.seed,
        length: recipe.data.length,
        offset: 1_000_000,
      },
      checkpoint: join(scratch, 'checkpoint'),
      output: join(scratch, 'policy'),
      evaluator: null,
      adapter: join(scratch, 'adapter'),
    },
    workers,
    (note) => {
      if (note.kind === 'sft') steps.push(note.metrics);
    },
  );
  const counted = steps.slice(WARM_STEPS);
  const step = median(counted.map(({ ms }) => ms.data + ms.gradient + ms.update));
  const middle = (key: keyof SftMetrics['ms']): number => median(counted.map(({ ms }) => ms[key]));
  return {
    workers,
    samplesPerSecond: (recipe.sft.batch / step) * 1000,
    ms: { data: middle('data'), gradient: middle('gradient'), update: middle('update') },
    gflops: now,
  };
}

async function compareUpdates(policy: string, { device, rounds }: BenchOptions, scratch: string) {
  const { batch, learningRate, weightDecay, clip } = quickstart().sft;
  const engine = openTorch({ device, threads: 1 });
  const loaded = Policy.load(engine, policy);
  const file = join(scratch, 'examples.safetensors');
  writeExamples(file, loaded, await examples(loaded, policy, 0, BATCHES * batch));
  loaded.dispose();
  const rate = learningRate * 0.05; // late in the stage: small enough that rounding does not part the paths
  const job: GradientJob = { device, policy, first: 0, batches: BATCHES, batch, learningRate: rate };
  const numbers = { policy, examples: file, device, batch, rate, decay: weightDecay, clip };
  const args = Object.entries(numbers).flatMap(([key, value]) => [`--${key}`, String(value)]);
  const { contenders, peers, skipped } = sorted(
    await Promise.all([
      ...[1, 2].map((workers) =>
        openTeam<GradientJob, GradientAnswer>(OURS, './gradient-worker', workers, job),
      ),
      ...PEERS.flatMap(([model, name]) =>
        [1, 2].map((processes) =>
          openPeer<GradientAnswer>(name, 'train', processes, ['--model', model, ...args]),
        ),
      ),
    ]),
  );
  try {
    const turns = await takeTurns(contenders, 'round', () => BATCHES * batch, rounds, device);
    // The first round is every contender's first: same weights, same examples, so the losses must agree.
    const losses = new Map(
      contenders.map((contender) => {
        const ranks = turns.first.get(contender)!;
        // Ours reports the loss over all ranks, a peer's processes their share of it.
        const parts = contender.name === OURS ? [ranks[0]!] : ranks;
        return [contender, ranks[0]!.map((_, b) => parts.reduce((sum, part) => sum + part[b]!, 0))];
      }),
    );
    const ours = losses.get(contenders[0]!)!;
    const lossDifference = Object.fromEntries(
      contenders.slice(1).map((contender) => {
        const differences = losses.get(contender)!.map((loss, b) => Math.abs(loss - ours[b]!) / ours[b]!);
        return [`${contender.name}, ${contender.processes}`, Math.max(...differences)];
      }),
    );
    return { rows: turns.rows, gflops: turns.gflops, peers, skipped, lossDifference };
  } finally {
    for (const contender of contenders) await contender.close();
  }
}

export async function measureTraining(options: BenchOptions): Promise<TrainReport> {
  const machine = machineOf(openTorch({ device: options.device, threads: 1 }));
  return withPolicy(options.policy, options.device, (policy) =>
    withScratch(async (scratch) => {
      const stage: StageRow[] = [];
      for (const workers of [1, 2]) stage.push(await stageSpeed(policy, workers, options.device, scratch));
      const update = await compareUpdates(policy, options, scratch);
      return { machine, batch: quickstart().sft.batch, stage, update };
    }),
  );
}

function text({ machine, batch, stage, update }: TrainReport): string {
  const lines = [
    `supervised stage at quickstart size, batch ${batch}; libtorch ${machine.libtorch}, ${machine.blas}, ${machine.device}`,
    table(
      ['whole stage', 'samples/s', 'data ms', 'gradient ms', 'update ms', 'GFLOP/s'],
      stage.map((row) => [
        `${row.workers} worker${row.workers === 1 ? '' : 's'}`,
        row.samplesPerSecond.toFixed(0),
        row.ms.data.toFixed(1),
        row.ms.gradient.toFixed(1),
        row.ms.update.toFixed(1),
        row.gflops.toFixed(0),
      ]),
    ),
    '',
    `update alone, in turns; matmul on one thread ${update.gflops.toFixed(0)} GFLOP/s; ${update.peers.join('; ')}`,
    comparisonTable('samples', update.rows),
    ...Object.entries(update.lossDifference).map(
      ([name, value]) =>
        `loss, largest relative difference from ours with 1 worker: ${name}: ${value.toExponential(1)}`,
    ),
    ...update.skipped.map(
      (why) => `SKIPPED ${why} (set TIMESEER_PYTHON to a Python with torch and transformers)`,
    ),
  ];
  return lines.join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const options = benchOptions(3);
  const report = await measureTraining(options);
  console.log(options.json ? JSON.stringify(report, null, 2) : text(report));
}
