/** The environment record of a run with words and units for people; programs read the record itself. */

import { duration } from '../src/html/numbers.ts';
import type { Json } from './report-input.ts';

interface Label {
  readonly text: string;
  readonly value?: (number: number) => string;
}

const thin = (unit: string) => (value: number) => `${value}\u202f${unit}`;

const LABELS: Readonly<Record<string, Label>> = {
  timeseer: { text: 'timeseer' },
  node: { text: 'Node.js' },
  platform: { text: 'Platform' },
  libtorch: { text: 'libtorch' },
  blas: { text: 'BLAS' },
  device: { text: 'Device' },
  device_name: { text: 'Device model' },
  cpu: { text: 'Processor' },
  cores: { text: 'Cores' },
  memory_gib: { text: 'Memory', value: thin('GiB') },
  matmul_gflops_one_thread: { text: '512\u00b3 matrix product, one thread', value: thin('GFLOP/s') },
  workers: { text: 'Workers' },
  rl_workers: { text: 'Workers of reinforcement' },
  install_s: { text: 'Set-up', value: duration },
  evaluation_s: { text: 'Evaluation', value: duration },
  evaluation_finished: { text: 'Evaluation finished' },
  peak_memory_mib: { text: 'Peak memory', value: thin('MiB') },
};

/** The record as it is shown: known keys labelled, the device not named twice; unknown keys stay as they are. */
export function labelled(environment: Readonly<Record<string, Json>>): Record<string, Json> {
  const shown = Object.entries(environment).filter(
    ([key, value]) => key !== 'device_name' || value !== environment['cpu'],
  );
  return Object.fromEntries(
    shown.map(([key, value]) => {
      const label = Object.hasOwn(LABELS, key) ? LABELS[key] : undefined;
      const text = typeof value === 'number' ? label?.value?.(value) : undefined;
      return [label?.text ?? key, text ?? value];
    }),
  );
}
