/** A small classification task of unequal classes: three machines told by period, sharpness and level of their vibration. */
import { Random } from '../../src/ground/random.ts';
import type { Example } from '../../src/ground/types.ts';

export const MACHINES = ['fan', 'pump', 'idle'] as const;

function vibration(kind: (typeof MACHINES)[number], random: Random, length: number): Float64Array {
  const phase = random.uniform();
  const size = 1 + 0.4 * random.uniform();
  const period = kind === 'fan' ? 8 : 40;
  return Float64Array.from({ length }, (_, i) => {
    const cycle = (i / period + phase) % 1;
    const noise = 0.3 * (random.uniform() - 0.5);
    if (kind === 'idle') return 0.2 + noise;
    return size * (kind === 'fan' ? Math.sin(2 * Math.PI * cycle) : 3 * Math.exp(-12 * cycle)) + noise;
  });
}

/** Examples in turn: fan, pump, idle. */
export function machines(split: 'train' | 'test', count: number, length = 240): Example[] {
  return Array.from({ length: count }, (_, index) => {
    const kind = MACHINES[index % MACHINES.length]!;
    return {
      id: `machines/${split}/${index}`,
      task: 'machines',
      channels: [vibration(kind, new Random(29, `machines/${split}`, index), length)],
      names: ['vibration'],
      times: null,
      gold: { kind: 'classification', class: kind },
      recording: null,
    };
  });
}
