/**
 * Sinkhorn as scalings of the kernel against potentials in the log domain, in turns: 64 responses of 50 tokens to traces
 * of 50, 50 iterations, float64, one thread: npx tsx test/bench/transport.ts [--json] [--rounds N] [--device cuda]
 *
 * Both through the public function, which takes the log domain where ε is too small for the scaling form; the number
 * of operations does not depend on ε.
 *
 * Then, on the CPU, in turns with POT: 128 problems of 100 × 200, 50 iterations, float64, from the same costs and from the same hidden states.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/ground/random.ts';
import { type HiddenStates, TIMERPO_TRANSPORT, transport } from '../../src/train/transport.ts';
import { type Comparison, comparisonTable, OURS, takeTurns } from './compare.ts';
import { type BenchOptions, benchOptions, gflops, type Machine, machineOf, median } from './measure.ts';
import { openPeer, sorted } from './peer.ts';
import { openTeam } from './team.ts';
import type { TransportJob } from './transport-worker.ts';
import { withScratch } from './workload.ts';

const [PROMPTS, GROUP, TOKENS, WIDTH] = [8, 8, 50, 128];
const PROBLEMS = { prompts: 16, group: 8, rows: 100, columns: 200, width: WIDTH } as const;
/** Relative: sums of 20 000 terms in another order, 50 times. */
const TOLERANCE = 1e-9;
const SOLVERS = [
  ['sinkhorn', 'POT, ot.sinkhorn'],
  ['batch', 'POT, ot.batch.solve_batch'],
] as const;
const LOG_DOMAIN = { ...TIMERPO_TRANSPORT, epsilon: 0.0039 };

export interface TransportReport {
  readonly machine: Machine;
  /** Milliseconds of the whole call (norms, cosines, iterations, distance), median over rounds. */
  readonly scaling: number;
  readonly logDomain: number;
  /** logDomain / scaling of the same round, median: of the whole call, and of the 50 iterations alone. */
  readonly ratio: number;
  readonly iterationRatio: number;
  readonly gflops: number;
  /** In turns with POT; null on a GPU. */
  readonly pot: PotComparison | null;
}

export interface PotRow {
  /** From costs and masses, or from hidden states. */
  readonly question: 'sinkhorn' | 'transport';
  readonly rows: readonly Comparison[];
  readonly gflops: number;
  /** Largest relative difference of a problem's cost from ours. */
  readonly difference: number;
}

export interface PotComparison {
  readonly compared: readonly PotRow[];
  readonly peers: readonly string[];
  readonly skipped: readonly string[];
}

/** Writes states of responses, then of traces: float32. */
function writeStates(file: string): void {
  const { prompts, group, rows, columns, width } = PROBLEMS;
  const random = new Random(12, 'states');
  const count = prompts * (group * rows + columns) * width;
  writeFileSync(
    file,
    Float32Array.from({ length: count }, () => random.normal()),
  );
}

/** @throws Error where POT's costs are not ours */
async function compareWithPot(rounds: number): Promise<PotComparison> {
  return withScratch(async (scratch) => {
    const file = join(scratch, 'states.f32');
    writeStates(file);
    const { epsilon, iterations } = TIMERPO_TRANSPORT;
    const job: TransportJob = { file, ...PROBLEMS };
    const args = Object.entries({ ...job, epsilon, iterations }).flatMap(([key, value]) => [
      `--${key}`,
      String(value),
    ]);
    const { contenders, peers, skipped } = sorted<readonly number[]>(
      await Promise.all([
        ...[1, 2].map((size) =>
          openTeam<TransportJob, readonly number[]>(OURS, './transport-worker', size, job),
        ),
        ...SOLVERS.flatMap(([solver, name]) =>
          [1, 2].map((size) => openPeer<readonly number[]>(name, 'pot', size, ['--solver', solver, ...args])),
        ),
      ]),
    );
    try {
      const solved = (answers: readonly (readonly number[])[]): number => answers.flat().length;
      const compared: PotRow[] = [];
      for (const question of ['sinkhorn', 'transport'] as const) {
        const { rows, last, gflops: now } = await takeTurns(contenders, question, solved, rounds, 'cpu');
        const ours = last.get(contenders[0]!)!.flat();
        const differences = contenders.flatMap((contender) => {
          const costs = last.get(contender)!.flat();
          return costs.map((cost, b) => Math.abs(cost / ours[b]! - 1));
        });
        const difference = Math.max(...differences);
        if (!(difference <= TOLERANCE)) throw new Error(`transport: costs of POT differ by ${difference}`);
        compared.push({ question, rows, gflops: now, difference });
      }
      return { compared, peers, skipped };
    } finally {
      for (const contender of contenders) await contender.close();
    }
  });
}

export async function measureTransport({ rounds, device }: BenchOptions): Promise<TransportReport> {
  const engine = openTorch({ device, threads: 1 });
  const states = (rows: number, name: string): HiddenStates => {
    const random = new Random(11, name);
    const data = Float32Array.from({ length: rows * TOKENS * WIDTH }, () => random.normal());
    return {
      states: engine.tensor(data, [rows, TOKENS, WIDTH]),
      lengths: new Int32Array(rows).fill(TOKENS),
    };
  };
  const responses = states(PROMPTS * GROUP, 'responses');
  const traces = states(PROMPTS, 'traces');
  const time = (options: typeof TIMERPO_TRANSPORT): number => {
    const began = performance.now();
    transport(engine, responses, traces, options);
    return performance.now() - began;
  };
  const scaling: number[] = [];
  const logDomain: number[] = [];
  const iterations: number[] = []; // ratios
  for (let round = 0; round <= rounds; round++) {
    const [scaled, logged] = [time(TIMERPO_TRANSPORT), time(LOG_DOMAIN)];
    // What is left without the iterations, but for one.
    const [scaledOnce, loggedOnce] = [
      time({ ...TIMERPO_TRANSPORT, iterations: 1 }),
      time({ ...LOG_DOMAIN, iterations: 1 }),
    ];
    if (round === 0) continue; // warms up
    scaling.push(scaled);
    logDomain.push(logged);
    iterations.push((logged - loggedOnce) / (scaled - scaledOnce));
  }
  return {
    machine: machineOf(engine),
    scaling: median(scaling),
    logDomain: median(logDomain),
    ratio: median(logDomain.map((ms, i) => ms / scaling[i]!)),
    iterationRatio: median(iterations),
    gflops: gflops(device),
    pot: device === 'cpu' ? await compareWithPot(rounds) : null,
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const options = benchOptions(15);
  const report = await measureTransport(options);
  const { machine, scaling, logDomain, ratio, iterationRatio, pot } = report;
  if (options.json) console.log(JSON.stringify(report, null, 2));
  else {
    console.log(
      `Sinkhorn, ${PROMPTS * GROUP} responses × ${TOKENS} × ${TOKENS}, 50 iterations; libtorch ${machine.libtorch}, ${machine.blas}, ` +
        `${machine.device}, matmul on one thread ${report.gflops.toFixed(0)} GFLOP/s\n` +
        `scaling ${scaling.toFixed(1)} ms, log domain ${logDomain.toFixed(1)} ms: ${ratio.toFixed(1)}×; of the iterations alone ${iterationRatio.toFixed(1)}×`,
    );
    if (pot !== null) {
      const { prompts, group, rows, columns } = PROBLEMS;
      const size = `${prompts * group} problems of ${rows} × ${columns}, 50 iterations`;
      const from = { sinkhorn: 'from costs and masses', transport: 'from hidden states' };
      const lines = pot.compared.flatMap((one) => [
        `\n${size}, ${from[one.question]}, in turns; matmul on one thread ${one.gflops.toFixed(0)} GFLOP/s; ${pot.peers.join('; ')}`,
        comparisonTable('problems', one.rows),
        `costs differ by at most ${one.difference.toExponential(0)}`,
      ]);
      const skipped = pot.skipped.map(
        (why) => `SKIPPED ${why} (set TIMESEER_PYTHON to a Python with POT and torch)`,
      );
      console.log([...lines, ...skipped].join('\n'));
    }
  }
}
