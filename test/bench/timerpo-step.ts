/**
 * One TimerPO step at quickstart size, by the stage's own loop, in its parts: milliseconds,
 * median over steps, with one and two workers; then, on the CPU, in turns with the same step in PyTorch and transformers, of this policy and
 * of one of 48 M parameters: npx tsx test/bench/timerpo-step.ts [--json] [--rounds STEPS] [--policy DIR] [--device cuda]
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { runStage } from '../../src/run/stage.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import {
  type BenchOptions,
  benchOptions,
  gflops,
  type Machine,
  machineOf,
  median,
  table,
} from './measure.ts';
import { compareSteps, comparisonText, type StepComparison } from './timerpo-compare.ts';
import { quickstart, withPolicy, withScratch } from './workload.ts';

/** Steps that warm up and are not counted. */
const WARM = 2;
/** Most rounds of turns with the peer. */
const TURNS = 5;

export interface StepRow {
  readonly workers: number;
  /** Milliseconds of each part, mean over workers, median over steps. */
  readonly ms: RlMetrics['ms'];
  /** Sum of the parts: median over steps. */
  readonly total: number;
  /** Share of groups that did not take part in the update; median. */
  readonly zeroVariance: number;
  /** Mean tokens of a response; median. */
  readonly tokens: number;
  readonly tokensPerSecond: number;
  readonly reward: number;
  readonly gflops: number;
}

export interface StepReport {
  readonly machine: Machine;
  readonly prompts: number;
  readonly group: number;
  readonly steps: number;
  readonly rows: readonly StepRow[];
  /** In turns with a peer; none on a GPU. */
  readonly against: readonly StepComparison[];
}

const PARTS = ['data', 'rollout', 'transport', 'reference', 'update'] as const;

async function steps(
  policy: string,
  workers: number,
  options: BenchOptions,
  scratch: string,
): Promise<StepRow> {
  const recipe = quickstart([`rl.steps=${options.rounds + WARM}`, 'rl.checkpointEvery=1000000']);
  const seen: RlMetrics[] = [];
  const now = gflops(options.device);
  await runStage(
    {
      stage: 'rl',
      recompute: false,
      origin: { recipe: {}, data: null, policy: {} },
      recipe,
      device: options.device,
      base: policy,
      from: policy,
      examples: {
        name: recipe.data.name,
        split: 'train',
        seed: recipe.seed,
        length: recipe.data.length,
        offset: 3_000_000,
      },
      checkpoint: join(scratch, 'checkpoint'),
      output: join(scratch, 'policy'),
      evaluator: null,
      adapter: join(scratch, 'adapter'),
    },
    workers,
    (note) => {
      if (note.kind === 'rl') seen.push(note.metrics);
    },
  );
  const counted = seen.slice(WARM);
  const middle = (value: (metrics: RlMetrics) => number): number => median(counted.map(value));
  const { prompts, group } = recipe.rl;
  return {
    workers,
    ms: Object.fromEntries(PARTS.map((part) => [part, middle(({ ms }) => ms[part])])) as RlMetrics['ms'],
    total: middle(({ ms }) => PARTS.reduce((sum, part) => sum + ms[part], 0)),
    zeroVariance: middle(({ zeroVariance }) => zeroVariance),
    tokens: middle(({ tokens }) => tokens),
    tokensPerSecond: middle(({ tokens, ms }) => (1000 * tokens * prompts * group) / ms.rollout),
    reward: middle(({ reward }) => reward),
    gflops: now,
  };
}

export async function measureSteps(options: BenchOptions): Promise<StepReport> {
  const machine = machineOf(openTorch({ device: options.device, threads: 1 }));
  const { prompts, group } = quickstart().rl;
  return withPolicy(options.policy, options.device, (policy) =>
    withScratch(async (scratch) => {
      const rows: StepRow[] = [];
      for (const workers of [1, 2]) rows.push(await steps(policy, workers, options, scratch));
      const turns = Math.min(TURNS, options.rounds);
      const against = options.device === 'cpu' ? await compareSteps(policy, turns) : [];
      return { machine, prompts, group, steps: options.rounds, rows, against };
    }),
  );
}

function text({ machine, prompts, group, steps: count, rows, against }: StepReport): string {
  const cell = (value: number): string => value.toFixed(value < 10 ? 1 : 0);
  return [
    `TimerPO step, ${prompts} prompts × ${group} responses, ms, median of ${count} steps; libtorch ${machine.libtorch}, ${machine.blas}, ${machine.device}`,
    table(
      [
        '',
        ...PARTS,
        'step',
        'tokens/response',
        'rollout tokens/s',
        'reward',
        'zero-variance groups',
        'GFLOP/s',
      ],
      rows.map((row) => [
        `${row.workers} worker${row.workers === 1 ? '' : 's'}`,
        ...PARTS.map((part) => cell(row.ms[part])),
        cell(row.total),
        row.tokens.toFixed(1),
        row.tokensPerSecond.toFixed(0),
        row.reward.toFixed(3),
        row.zeroVariance.toFixed(2),
        row.gflops.toFixed(0),
      ]),
    ),
    ...against.map((one) => `\n${comparisonText(one)}`),
  ].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const options = benchOptions(10);
  const report = await measureSteps(options);
  console.log(options.json ? JSON.stringify(report, null, 2) : text(report));
}
