/**
 * All benchmarks, or those that are named: npm run bench -- [NAME…] [--json] [--device cuda] [--policy DIR] [--rounds N]
 *
 * Each runs in a process of its own, one after another. Those that need a policy share one, trained here for a few
 * seconds unless --policy names one.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { setup } from '../../src/engine/torch/setup.ts';
import { withPolicy } from './workload.ts';

interface Benchmark {
  /** What it is about, for the list. */
  readonly about: string;
  readonly policy: boolean;
  readonly device: boolean;
}

export const BENCHMARKS = {
  render: { about: 'pictures against matplotlib', policy: false, device: false },
  analysis: { about: 'classical analyses and expert traces', policy: false, device: false },
  expert: { about: 'the blind expert on series without an anomaly', policy: false, device: false },
  anomalies: {
    about: 'the anomaly detector against classical scores at an equal number of alarms',
    policy: false,
    device: false,
  },
  policy: {
    about: 'a policy in windows of several scales against the detector, the expert and classical scores',
    policy: true,
    device: false,
  },
  wild: { about: 'the generator wild beside recordings, and its speed', policy: false, device: false },
  data: { about: 'AnomLLM prepared with figures and traces', policy: false, device: false },
  'matrix-profile': { about: 'exact matrix profiles against stumpy', policy: false, device: false },
  score: { about: '100 000 predictions from files to metrics', policy: false, device: false },
  vus: { about: 'volume under the surface against TSB-AD', policy: false, device: false },
  endpoint: {
    about: '64 requests at once to a chat endpoint that answers in 200 ms',
    policy: false,
    device: false,
  },
  serve: { about: 'the service under load, and how it ends', policy: false, device: false },
  page: {
    about: 'the page in headless Chromium: first paint, 10 000 and 100 000 samples',
    policy: false,
    device: false,
  },
  moved: { about: 'what moved in a window of 1000 series', policy: false, device: false },
  classify: {
    about: 'small policies trained on small classification sets, beside nearest neighbours and MiniRocket',
    policy: false,
    device: false,
  },
  dtw: { about: '1-NN by dynamic time warping against aeon', policy: false, device: false },
  engine: { about: 'cost of an engine call', policy: false, device: false },
  tfjs: { about: 'the tfjs engine beside the torch engine', policy: true, device: false },
  transport: { about: 'Sinkhorn: scaling form against log domain, and POT', policy: false, device: true },
  'timerpo-step': {
    about: 'one TimerPO step in its parts, and against PyTorch',
    policy: true,
    device: true,
  },
  trl: { about: "GRPO to a reward against TRL's trainer", policy: true, device: false },
  decode: { about: 'batched sampling against PyTorch', policy: true, device: true },
  onnx: { about: 'decoding by onnxruntime against transformers.js', policy: true, device: false },
  train: { about: 'supervised stage and update against PyTorch', policy: true, device: true },
  served: { about: 'rollouts on an inference server against this process', policy: true, device: false },
  episodes: {
    about: 'reinforcement steps of episodes against single responses',
    policy: false,
    device: false,
  },
  processes: { about: 'training steps of two processes against two Workers', policy: false, device: false },
  large: {
    about: '126 M parameters: prefill, gradients, decoding, GRPO against transformers',
    policy: false,
    device: true,
  },
} as const satisfies Readonly<Record<string, Benchmark>>;

export type BenchmarkName = keyof typeof BENCHMARKS;

const isName = (word: string): word is BenchmarkName => Object.hasOwn(BENCHMARKS, word);

/** Runs one benchmark; its output goes to this terminal, or is returned when it is captured. */
export async function runBenchmark(
  name: BenchmarkName,
  args: readonly string[],
  capture: boolean,
): Promise<string> {
  const program = fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', program, ...args], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: ['ignore', capture ? 'pipe' : 'inherit', 'inherit'],
  });
  let out = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`benchmark ${name} ended with code ${code}`);
  return out;
}

/** Benchmarks that measure once. */
const WITHOUT_ROUNDS: readonly BenchmarkName[] = ['engine', 'analysis', 'anomalies', 'policy', 'wild'];

/** Arguments of one benchmark on a device with a policy. */
export function argumentsOf(
  name: BenchmarkName,
  given: {
    readonly device: string;
    readonly policy: string | undefined;
    readonly rounds: string | undefined;
  },
): string[] {
  const { policy, device } = BENCHMARKS[name];
  return [
    ...(device ? ['--device', given.device] : []),
    ...(policy && given.policy !== undefined ? ['--policy', given.policy] : []),
    ...(given.rounds === undefined || WITHOUT_ROUNDS.includes(name) ? [] : ['--rounds', given.rounds]),
  ];
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'boolean', default: false },
      device: { type: 'string', default: 'cpu' },
      policy: { type: 'string' },
      rounds: { type: 'string' },
    },
  });
  const unknown = positionals.find((word) => !isName(word));
  if (unknown !== undefined) {
    const list = Object.entries(BENCHMARKS).map(([name, { about }]) => `  ${name.padEnd(14)}${about}`);
    console.error(`no benchmark '${unknown}'; there are:\n${list.join('\n')}`);
    process.exitCode = 2;
    return;
  }
  const named = positionals.filter(isName);
  const names = named.length > 0 ? named : (Object.keys(BENCHMARKS) as BenchmarkName[]);
  await setup({ install: false, log: (line) => void process.stderr.write(`${line}\n`) });
  const all = async (policy: string | undefined): Promise<void> => {
    const results: Record<string, unknown> = {};
    for (const name of names) {
      const args = argumentsOf(name, { device: values.device, policy, rounds: values.rounds });
      if (!values.json) {
        console.log(`\n── ${name}: ${BENCHMARKS[name].about}`);
        await runBenchmark(name, args, false);
      } else if (name === 'analysis')
        results[name] = (await runBenchmark(name, args, true)).trim().split('\n');
      else results[name] = JSON.parse(await runBenchmark(name, [...args, '--json'], true));
    }
    if (values.json) console.log(JSON.stringify(results, null, 2));
  };
  if (names.some((name) => BENCHMARKS[name].policy)) await withPolicy(values.policy, values.device, all);
  else await all(undefined);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
