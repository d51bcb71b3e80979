/**
 * What the blind expert says of series without an anomaly: how often it flags them, and whether their period is right:
 * npx tsx test/bench/expert.ts [--json] [--rounds SEEDS]. Slow sines, random walks, and everyday series.
 */
import { pathToFileURL } from 'node:url';
import { analyseChannels, blindAnomaly } from '../../src/expcot/anomaly.ts';
import { NORMAL, series, type Value } from '../helpers/everyday.ts';
import { benchOptions, table } from './measure.ts';

const SEEDS = 24;
/** Cycles in 1000 samples, below and above the four from which there is a period. */
const TOO_SLOW = [0.5, 1, 1.5, 2, 2.5, 3, 3.3];
const SLOW = [3.7, 4.5, 5.3, 7, 8];
const NOISE = [0, 0.02, 0.1];

export interface ExpertRow {
  readonly what: string;
  readonly series: number;
  /** Series that are flagged although nothing is wrong with them. */
  readonly flagged: number;
  /** Series whose period is another than theirs: more than 1 % off, one where there is none, or none where there is one. */
  readonly wrongPeriod: number;
}

interface Kind {
  readonly length: number;
  readonly period: number | null;
  readonly value: Value;
}

function measure(what: string, kinds: readonly Kind[], seeds: number): ExpertRow {
  let [flagged, wrongPeriod] = [0, 0];
  for (const { length, period, value } of kinds) {
    for (let seed = 0; seed < seeds; seed++) {
      const analysed = analyseChannels([series(length, value, seed)], ['value']);
      const found = analysed[0]!.evidence.base.period;
      if (blindAnomaly(analysed, ['value']).intervals.length > 0) flagged++;
      const right = period === null ? found === null : Math.abs((found ?? 0) / period - 1) < 0.01;
      if (!right) wrongPeriod++;
    }
  }
  return { what, series: kinds.length * seeds, flagged, wrongPeriod };
}

function sines(cycles: readonly number[], period: boolean, seeds: number): Kind[] {
  const turn = 2 * Math.PI;
  return cycles.flatMap((count) =>
    NOISE.map((noise) => ({
      length: 1000,
      period: period ? 1000 / count : null,
      value: (i, random, seed) =>
        Math.sin(turn * ((count * i) / 1000 + seed / seeds)) + noise * random.normal(),
    })),
  );
}

/** A walk keeps its place between the calls for its samples, which come in order. */
function walk(): Kind {
  let place = 0;
  const value: Value = (i, random) => {
    place = (i === 0 ? 0 : place) + random.normal();
    return place;
  };
  return { length: 1000, period: null, value };
}

/** All rows; about ten seconds on two cores. */
export function measureExpert(seeds = SEEDS): ExpertRow[] {
  return [
    measure('sines of 0.5 to 3.3 cycles', sines(TOO_SLOW, false, seeds), seeds),
    measure('sines of 3.7 to 8 cycles', sines(SLOW, true, seeds), seeds),
    measure('random walks', [walk()], seeds),
    ...NORMAL.map(([what, length, period, value]) => measure(what, [{ length, period, value }], seeds)),
  ];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { json, rounds } = benchOptions(SEEDS);
  const rows = measureExpert(rounds);
  const cells = rows.map((row) => [row.what, ...[row.series, row.flagged, row.wrongPeriod].map(String)]);
  console.log(
    json
      ? JSON.stringify(rows)
      : table(['series without an anomaly', 'of', 'flagged', 'wrong period'], cells),
  );
}
