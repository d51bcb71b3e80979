/** The benchmarks of a device on the GPU and on the processor of one machine, as one table: see cuda.sh. */
import { parseArgs } from 'node:util';
import type { DecodeReport } from './decode.ts';
import { table } from './measure.ts';
import { argumentsOf, type BenchmarkName, runBenchmark } from './run.ts';
import type { StepReport } from './timerpo-step.ts';
import type { TrainReport } from './train.ts';
import type { TransportReport } from './transport.ts';
import { withPolicy } from './workload.ts';

const { device } = parseArgs({ options: { device: { type: 'string', default: 'cuda' } } }).values;

interface Line {
  readonly name: string;
  readonly unit: string;
  readonly value: number;
  /** Whether more is better. */
  readonly speed: boolean;
}

async function measure(on: string, policy: string): Promise<{ lines: Line[]; notes: string[] }> {
  const report = async (name: BenchmarkName): Promise<unknown> =>
    JSON.parse(
      await runBenchmark(
        name,
        [...argumentsOf(name, { device: on, policy, rounds: undefined }), '--json'],
        true,
      ),
    );
  const sinkhorn = (await report('transport')) as TransportReport;
  const step = (await report('timerpo-step')) as StepReport;
  const decode = (await report('decode')) as DecodeReport;
  const train = (await report('train')) as TrainReport;
  const rows = (what: string, unit: string, list: TrainReport['update']['rows']): Line[] =>
    list.map(({ name, processes, perSecond }) => ({
      name: `${what}, ${name}, ${processes}`,
      unit,
      value: perSecond,
      speed: true,
    }));
  const lines: Line[] = [
    { name: 'matmul 512³', unit: 'GFLOP/s', value: sinkhorn.gflops, speed: true },
    { name: 'Sinkhorn, scaling', unit: 'ms', value: sinkhorn.scaling, speed: false },
    { name: 'Sinkhorn, log domain', unit: 'ms', value: sinkhorn.logDomain, speed: false },
    ...step.rows.flatMap((row) => [
      ...Object.entries(row.ms).map(
        ([part, value]): Line => ({
          name: `TimerPO ${part}, ${row.workers} workers`,
          unit: 'ms',
          value,
          speed: false,
        }),
      ),
      { name: `TimerPO step, ${row.workers} workers`, unit: 'ms', value: row.total, speed: false },
    ]),
    ...decode.settings.flatMap((setting) => rows(`decode to ${setting.limit}`, 'tokens/s', setting.rows)),
    ...train.stage.map((row) => ({
      name: `supervised stage, ${row.workers} workers`,
      unit: 'samples/s',
      value: row.samplesPerSecond,
      speed: true,
    })),
    ...rows('update', 'samples/s', train.update.rows),
  ];
  const differences = Object.entries(train.update.lossDifference).map(
    ([name, value]) => `${on}: loss of ${name} differs by ${value.toExponential(1)}`,
  );
  const skipped = train.update.skipped.map((why) => `${on}: SKIPPED ${why}`);
  return { lines, notes: [`${on}: libtorch ${train.machine.libtorch}`, ...differences, ...skipped] };
}

await withPolicy(undefined, device, async (policy) => {
  const gpu = await measure(device, policy);
  const cpu = await measure('cpu', policy);
  const of = new Map(cpu.lines.map((line) => [line.name, line.value]));
  console.log(
    table(
      ['', 'unit', device, 'cpu', 'gain'],
      gpu.lines.map(({ name, unit, value, speed }) => {
        const other = of.get(name);
        const gain = other === undefined ? '–' : `${(speed ? value / other : other / value).toFixed(2)}×`;
        return [name, unit, value.toFixed(1), other?.toFixed(1) ?? '–', gain];
      }),
    ),
  );
  console.log([...gpu.notes, ...cpu.notes].join('\n'));
});
