/**
 * Sinkhorn as scalings of the kernel against potentials in the log domain, in turns: 64 responses of 50 tokens to traces
 * of 50, 50 iterations, float64, one thread: npx tsx test/bench/transport.ts [--json] [--rounds N] [--device cuda]
 *
 * Both through the public function, which takes the log domain where ε is too small for the scaling form; the number
 * of operations does not depend on ε.
 */
import { pathToFileURL } from 'node:url';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/random.ts';
import { type HiddenStates, TIMERPO_TRANSPORT, transport } from '../../src/train/transport.ts';
import { type BenchOptions, benchOptions, gflops, type Machine, machineOf, median } from './measure.ts';

const [PROMPTS, GROUP, TOKENS, WIDTH] = [8, 8, 50, 128];
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
}

export function measureTransport({ rounds, device }: BenchOptions): TransportReport {
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
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const options = benchOptions(15);
  const report = measureTransport(options);
  const { machine, scaling, logDomain, ratio, iterationRatio } = report;
  if (options.json) console.log(JSON.stringify(report, null, 2));
  else {
    console.log(
      `Sinkhorn, ${PROMPTS * GROUP} responses × ${TOKENS} × ${TOKENS}, 50 iterations; libtorch ${machine.libtorch}, ${machine.blas}, ` +
        `${machine.device}, matmul on one thread ${report.gflops.toFixed(0)} GFLOP/s\n` +
        `scaling ${scaling.toFixed(1)} ms, log domain ${logDomain.toFixed(1)} ms: ${ratio.toFixed(1)}×; of the iterations alone ${iterationRatio.toFixed(1)}×`,
    );
  }
}
