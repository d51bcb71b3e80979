/** What the benchmarks share: options, medians, tables, and the speed of this machine at the time. */
import { parseArgs } from 'node:util';
import type { Engine } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';

export interface BenchOptions {
  readonly json: boolean;
  readonly device: string;
  /** Directory of a saved policy; without one, a policy is trained briefly first. */
  readonly policy: string | undefined;
  /** Measured rounds (of a comparison) or steps (of a loop), warm-up not counted. */
  readonly rounds: number;
}

export function benchOptions(rounds: number): BenchOptions {
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      device: { type: 'string', default: 'cpu' },
      policy: { type: 'string' },
      rounds: { type: 'string', default: String(rounds) },
    },
  });
  const wanted = Number(values.rounds);
  if (!Number.isInteger(wanted) || wanted < 1)
    throw new RangeError(`--rounds ${values.rounds}: a whole number`);
  return { json: values.json, device: values.device, policy: values.policy, rounds: wanted };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export interface Machine {
  readonly libtorch: string;
  readonly node: string;
  readonly device: string;
  readonly blas: string;
}

export function machineOf({ info }: Engine): Machine {
  return {
    libtorch: info.version,
    node: process.version,
    device: info.deviceName,
    blas: info.blas.replace(/\S*\//g, ''),
  };
}

const SIDE = 512;
let calibration: { readonly engine: Engine; readonly device: string } | undefined;

/** GFLOP/s of a float32 product of 512 × 512 matrices on one thread, now; the fastest of a few rounds. */
export function gflops(on: string | Engine = 'cpu'): number {
  if (typeof on === 'string' && calibration?.device !== on) {
    calibration = { engine: openTorch({ device: on, threads: 1 }), device: on };
  }
  const engine = typeof on === 'string' ? calibration!.engine : on;
  const perRound = 10;
  return engine.scope(() => {
    const a = engine.tensor(new Float32Array(SIDE * SIDE).fill(0.5), [SIDE, SIDE]);
    let best = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 6; round++) {
      const began = performance.now();
      for (let i = 0; i < perRound; i++) {
        const product = engine.matmul(a, a);
        if (i === perRound - 1) engine.item(engine.narrow(engine.reshape(product, [-1]), 0, 0, 1)); // waits for a GPU
        engine.dispose(product);
      }
      best = Math.min(best, performance.now() - began);
    }
    return (perRound * 2 * SIDE ** 3) / 1e6 / best;
  });
}

/** Columns aligned: the first to the left, the others to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, c) => Math.max(...all.map((row) => (row[c] ?? '').length)));
  return all
    .map((row) =>
      row.map((cell, c) => (c === 0 ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]! + 2))).join(''),
    )
    .join('\n');
}
