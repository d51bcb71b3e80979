/**
 * The benchmarks of a device on the GPU and on the processor of one machine, a table each as soon as both are measured:
 * see cuda.sh. npx tsx test/bench/cuda.ts [--device cuda] [--rounds N] [NAME…]
 */
import { parseArgs } from 'node:util';
import type { DecodeReport } from './decode.ts';
import { table } from './measure.ts';
import { argumentsOf, runBenchmark } from './run.ts';
import type { StepReport } from './timerpo-step.ts';
import type { TrainReport } from './train.ts';
import type { TransportReport } from './transport.ts';
import { withPolicy } from './workload.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { device: { type: 'string', default: 'cuda' }, rounds: { type: 'string' } },
});
const { device, rounds } = values;

interface Line {
  readonly name: string;
  readonly unit: string;
  readonly value: number;
  /** Whether more is better. */
  readonly speed: boolean;
}

const rows = (what: string, unit: string, list: TrainReport['update']['rows']): Line[] =>
  list.map(({ name, processes, perSecond }) => ({
    name: `${what}, ${name}, ${processes}`,
    unit,
    value: perSecond,
    speed: true,
  }));

const stepLines = ({ rows: steps }: StepReport): Line[] =>
  steps.flatMap(({ workers, ms, total }) =>
    Object.entries({ ...ms, step: total }).map(([part, value]) => ({
      name: `TimerPO ${part}, ${workers} workers`,
      unit: 'ms',
      value,
      speed: false,
    })),
  );

/** Lines of each benchmark's report. */
const LINES = {
  transport: ({ gflops, scaling, logDomain }: TransportReport): Line[] => [
    { name: 'matmul 512³', unit: 'GFLOP/s', value: gflops, speed: true },
    { name: 'Sinkhorn, scaling', unit: 'ms', value: scaling, speed: false },
    { name: 'Sinkhorn, log domain', unit: 'ms', value: logDomain, speed: false },
  ],
  'timerpo-step': stepLines,
  decode: ({ settings }: DecodeReport): Line[] =>
    settings.flatMap((setting) => rows(`decode to ${setting.limit}`, 'tokens/s', setting.rows)),
  train: ({ stage, update }: TrainReport): Line[] => [
    ...stage.map(({ workers, samplesPerSecond }) => ({
      name: `supervised stage, ${workers} workers`,
      unit: 'samples/s',
      value: samplesPerSecond,
      speed: true,
    })),
    ...rows('update', 'samples/s', update.rows),
  ],
};

type Measured = keyof typeof LINES;
const unknown = positionals.find((name) => !Object.hasOwn(LINES, name));
if (unknown !== undefined)
  throw new RangeError(`no benchmark '${unknown}': ${Object.keys(LINES).join(', ')}`);
const names = (positionals.length > 0 ? positionals : Object.keys(LINES)) as Measured[];

async function inTurn<A, B>(list: readonly A[], work: (one: A) => Promise<B>): Promise<B[]> {
  const done: B[] = [];
  for (const one of list) done.push(await work(one));
  return done;
}

await withPolicy(undefined, device, async (policy) => {
  for (const name of names) {
    const [gpu, cpu] = (await inTurn([device, 'cpu'], async (on) => {
      const args = argumentsOf(name, { device: on, policy, rounds });
      const report = JSON.parse(await runBenchmark(name, [...args, '--json'], true));
      return LINES[name](report as never);
    })) as [Line[], Line[]];
    const of = new Map(cpu.map((line) => [line.name, line.value]));
    console.log(
      table(
        [name, 'unit', device, 'cpu', 'gain'],
        gpu.map((line) => {
          const other = of.get(line.name);
          const gain = other === undefined ? null : line.speed ? line.value / other : other / line.value;
          const numbers = [line.value, other].map((value) => value?.toFixed(1) ?? '–');
          return [line.name, line.unit, ...numbers, gain === null ? '–' : `${gain.toFixed(2)}×`];
        }),
      ),
    );
  }
});
