/**
 * Tokens per second of batched sampling at quickstart size (16 prompts × 8 responses, temperature 1) with one and two
 * workers, pictures and prompts encoded each time, in turns with PyTorch on the same weights and prompts:
 * npx tsx test/bench/decode.ts [--json] [--rounds N] [--policy DIR] [--device cuda]
 *
 * Peers: a hand-written loop with preallocated caches, which draws the same tokens from the same numbers, and `generate`
 * of transformers. Two settings: to the end of every response (finished rows leave our batch, not the peers'), and cut
 * off before any response ends, when all contenders do the same steps on the same rows.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Policy } from '../../src/policy/policy.ts';
import { type Comparison, comparisonTable, OURS, takeTurns } from './compare.ts';
import type { DecodeAnswer, DecodeJob } from './decode-worker.ts';
import { type BenchOptions, benchOptions, type Machine, machineOf } from './measure.ts';
import { openPeer, PEERS, sorted } from './peer.ts';
import { type Contender, openTeam } from './team.ts';
import { draws, examples, quickstart, withPolicy, withScratch, writeExamples } from './workload.ts';

/** Fewer tokens than the shortest response of a trained nano policy. */
const CUT = 24;
const SEED = 7;

export interface DecodeRow {
  readonly limit: number;
  readonly rows: readonly Comparison[];
  readonly gflops: number;
  /** Tokens of a response in the last round: mean and longest. */
  readonly tokens: { readonly mean: number; readonly longest: number };
  /**
   * Share of responses in which every token equals ours with one worker: greedy ones of all, and the sampled ones of those
   * that draw from the same numbers.
   */
  readonly agreement: Readonly<Record<string, number>>;
}

export interface DecodeReport {
  readonly machine: Machine;
  readonly prompts: number;
  readonly samples: number;
  readonly settings: readonly DecodeRow[];
  readonly peers: readonly string[];
  readonly skipped: readonly string[];
}

const all = (answers: readonly DecodeAnswer[]): readonly (readonly number[])[] => answers.flat();
const tokensOf = (answers: readonly DecodeAnswer[]): number =>
  all(answers).reduce((sum, ids) => sum + ids.length, 0);

/** Share of the responses of `a` that equal those of `b`. */
function equalShare(a: readonly (readonly number[])[], b: readonly (readonly number[])[]): number {
  const equal = a.filter((ids, n) => ids.join() === b[n]?.join()).length;
  return equal / Math.max(a.length, b.length);
}

async function open(
  policy: string,
  limit: number,
  device: string,
  scratch: string,
): Promise<{ contenders: Contender<DecodeAnswer>[]; peers: string[]; skipped: string[] }> {
  const { prompts, group: samples } = quickstart().rl;
  const first = 2_000_000;
  const loaded = Policy.load(openTorch({ device, threads: 1 }), policy);
  const file = join(scratch, 'prompts.safetensors');
  const list = await examples(loaded, policy, first, prompts);
  writeExamples(file, loaded, list, { values: draws(SEED, prompts, samples, limit), steps: limit });
  const { end, pad } = loaded.dims.special;
  loaded.dispose();
  const job: DecodeJob = { device, policy, first, prompts, samples, seed: SEED };
  const args = Object.entries({ policy, examples: file, samples, end, pad, device }).flatMap(
    ([key, value]) => [`--${key}`, String(value)],
  );
  const opened = await Promise.all([
    ...[1, 2].map((workers) => openTeam<DecodeJob, DecodeAnswer>(OURS, './decode-worker', workers, job)),
    ...PEERS.flatMap(([model, name]) =>
      [1, 2].map((processes) =>
        openPeer<DecodeAnswer>(name, 'decode', processes, ['--model', model, ...args]),
      ),
    ),
  ]);
  return sorted(opened);
}

async function measureLimit(
  contenders: readonly Contender<DecodeAnswer>[],
  limit: number,
  { rounds, device }: BenchOptions,
): Promise<DecodeRow> {
  const agreement: Record<string, number> = {};
  const greedy = all(await contenders[0]!.ask(`greedy ${limit}`));
  for (const contender of contenders.slice(1)) {
    const share = equalShare(all(await contender.ask(`greedy ${limit}`)), greedy);
    agreement[`${contender.name}, ${contender.processes}, greedy`] = share;
  }
  const turns = await takeTurns(contenders, `sampled ${limit}`, tokensOf, rounds, device);
  const sampled = all(turns.last.get(contenders[0]!)!);
  for (const contender of contenders.slice(1)) {
    if (contender.name.includes('transformers')) continue; // it draws from its own numbers
    const share = equalShare(all(turns.last.get(contender)!), sampled);
    agreement[`${contender.name}, ${contender.processes}, sampled`] = share;
  }
  const lengths = sampled.map((ids) => ids.length);
  const mean = lengths.reduce((a, b) => a + b, 0) / lengths.length;
  const tokens = { mean, longest: Math.max(...lengths) };
  return { limit, rows: turns.rows, gflops: turns.gflops, tokens, agreement };
}

export async function measureDecoding(options: BenchOptions): Promise<DecodeReport> {
  const { device } = options;
  const { prompts, group, maxTokens } = quickstart().rl;
  const machine = machineOf(openTorch({ device, threads: 1 }));
  return withPolicy(options.policy, device, (policy) =>
    withScratch(async (scratch) => {
      const { contenders, peers, skipped } = await open(policy, maxTokens, device, scratch);
      try {
        const settings = [];
        for (const limit of [maxTokens, CUT]) settings.push(await measureLimit(contenders, limit, options));
        return { machine, prompts, samples: group, settings, peers, skipped };
      } finally {
        for (const contender of contenders) await contender.close();
      }
    }),
  );
}

function text({ machine, prompts, samples, settings, peers, skipped }: DecodeReport): string {
  const lines = [
    `sampling, ${prompts} prompts × ${samples} responses; libtorch ${machine.libtorch}, ${machine.blas}, ${machine.device}; ${peers.join('; ')}`,
  ];
  for (const { limit, rows, gflops, tokens, agreement } of settings) {
    lines.push(
      '',
      `at most ${limit} tokens: ${tokens.mean.toFixed(1)} on average, longest ${tokens.longest}; matmul on one thread ${gflops.toFixed(0)} GFLOP/s`,
      comparisonTable('tokens', rows),
      ...Object.entries(agreement).map(
        ([name, share]) => `responses equal to ours: ${name}: ${(100 * share).toFixed(0)} %`,
      ),
    );
  }
  lines.push(
    ...skipped.map((why) => `SKIPPED ${why} (set TIMESEER_PYTHON to a Python with torch and transformers)`),
  );
  return lines.join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const options = benchOptions(3);
  const report = await measureDecoding(options);
  console.log(options.json ? JSON.stringify(report, null, 2) : text(report));
}
