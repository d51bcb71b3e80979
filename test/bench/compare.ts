/** Contenders in turns within one run, so that a machine whose speed changes is the same for all of them. */
import { gflops, median, table } from './measure.ts';
import type { Contender } from './team.ts';

export interface Comparison {
  readonly name: string;
  readonly processes: number;
  /** Units (samples, tokens) per second, median over rounds. */
  readonly perSecond: number;
  /** Ours of as many processes over this one in the same round, median over rounds; null for ours. */
  readonly ratio: number | null;
}

export interface Turns<Answer> {
  readonly rows: readonly Comparison[];
  /** Answers of each contender in the first round, which warms up, and in the last. */
  readonly first: ReadonlyMap<Contender<Answer>, readonly Answer[]>;
  readonly last: ReadonlyMap<Contender<Answer>, readonly Answer[]>;
  /** GFLOP/s of this machine on one thread: median of one calibration per round. */
  readonly gflops: number;
}

/**
 * Asks every contender the question in each round and divides `units` of its answers by the time. The first round
 * warms up and is not counted. A contender named `ours` is what the others are compared with.
 */
export async function takeTurns<Answer>(
  contenders: readonly Contender<Answer>[],
  question: string,
  units: (answers: readonly Answer[]) => number,
  rounds: number,
  device: string,
): Promise<Turns<Answer>> {
  const speeds = contenders.map((): number[] => []);
  const first = new Map<Contender<Answer>, readonly Answer[]>();
  const last = new Map<Contender<Answer>, readonly Answer[]>();
  const calibrations: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    if (round > 0) calibrations.push(gflops(device));
    for (const [c, contender] of contenders.entries()) {
      const began = performance.now();
      const given = await contender.ask(question);
      const seconds = (performance.now() - began) / 1000;
      if (round === 0) first.set(contender, given);
      else speeds[c]!.push(units(given) / seconds);
      last.set(contender, given);
    }
  }
  const rows = contenders.map((contender, c): Comparison => {
    const { name, processes } = contender;
    const mine = contenders.findIndex((other) => other.name === OURS && other.processes === processes);
    const ratios = mine < 0 ? [] : speeds[mine]!.map((speed, round) => speed / speeds[c]![round]!);
    return {
      name,
      processes,
      perSecond: median(speeds[c]!),
      ratio: name === OURS || ratios.length === 0 ? null : median(ratios),
    };
  });
  return { rows, first, last, gflops: median(calibrations) };
}

export const OURS = 'timeseer';

export function comparisonTable(unit: string, rows: readonly Comparison[]): string {
  return table(
    [`${unit}/s`, '1 worker', '2 workers', 'ours/peer, 1', 'ours/peer, 2'],
    [...new Set(rows.map(({ name }) => name))].map((name) => {
      const of = (processes: number) => rows.find((row) => row.name === name && row.processes === processes);
      const speed = (processes: number) => of(processes)?.perSecond.toFixed(0) ?? '–';
      const ratio = (processes: number) => {
        const value = of(processes)?.ratio ?? null;
        return value === null ? '–' : `${value.toFixed(2)}×`;
      };
      return [name, speed(1), speed(2), ratio(1), ratio(2)];
    }),
  );
}
