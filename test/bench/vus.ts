/**
 * Volume under the surface of 100 000 points against TSB-AD on one core, in turns: npm run bench -- vus [--rounds N] [--json]. Python
 * with TSB-AD (`pip install numpy scikit-learn && pip install --no-deps TSB-AD`) is `python3`, or what TIMESEER_PYTHON names; without it
 * the comparison is skipped, and said so. The volumes must agree within 1e-9, or the benchmark fails.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { volumeUnderSurface } from '../../src/measures/curves.ts';
import { median } from './measure.ts';
import { openPeer } from './peer.ts';

const N = 100_000;
const WINDOW = 100;
/** Anomalies of 200 points. */
const COUNTS = [1, 20, 200] as const;

interface Answer {
  readonly seconds: number;
  readonly pr: number;
  readonly roc: number;
}

function problem(count: number): { readonly scores: Float64Array; readonly truth: Interval[] } {
  const random = new Random(count, 'vus-bench');
  const truth = Array.from({ length: count }, (_, i): Interval => {
    const start = Math.floor(((i + 0.3) * N) / count);
    return [start, start + 200];
  });
  const scores = Float64Array.from({ length: N }, () => Math.abs(random.normal()));
  for (const [start, end] of truth) for (let i = start; i < end; i++) scores[i]! += 1;
  return { scores, truth };
}

function ours(scores: Float64Array, truth: readonly Interval[], thresholds: number | 'all'): Answer {
  const began = performance.now();
  const volumes = volumeUnderSurface(scores, truth, { window: WINDOW, thresholds });
  return { seconds: (performance.now() - began) / 1000, ...volumes };
}

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, rounds: { type: 'string', default: '3' } },
});
const rounds = Number(values.rounds);
const directory = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
const peer = await openPeer<Answer>('TSB-AD', 'vus', 1, []);
const rows = [];
try {
  for (const count of COUNTS) {
    const { scores, truth } = problem(count);
    const file = join(directory, `${count}.f64`);
    writeFileSync(file, new Uint8Array(scores.buffer));
    const question = (version: string): string => JSON.stringify({ file, truth, window: WINDOW, version });
    ours(scores, truth, 250);
    const [own, exact, theirs, inMemory]: number[][] = [[], [], [], []];
    for (let round = 0; round < rounds; round++) {
      const mine = ours(scores, truth, 250);
      own!.push(mine.seconds);
      exact!.push(ours(scores, truth, 'all').seconds);
      if (typeof peer === 'string') continue;
      for (const [version, list] of [
        ['opt', theirs],
        ['opt_mem', inMemory],
      ] as const) {
        const [other] = await peer.ask(question(version));
        list!.push(other!.seconds);
        if (Math.abs(other!.pr - mine.pr) > 1e-9 || Math.abs(other!.roc - mine.roc) > 1e-9) {
          throw new Error(`volumes differ: ${JSON.stringify([mine, other])}`);
        }
      }
    }
    const ratio = (list: readonly number[]): number | null =>
      list.length === 0 ? null : median(list.map((seconds, round) => seconds / own![round]!));
    const middle = (list: readonly number[]): number | null => (list.length === 0 ? null : median(list));
    rows.push({
      anomalies: count,
      seconds: median(own!),
      secondsAtEveryScore: median(exact!),
      peer: middle(theirs!),
      peerInMemory: middle(inMemory!),
      ratio: ratio(theirs!),
      ratioInMemory: ratio(inMemory!),
    });
  }
} finally {
  rmSync(directory, { recursive: true });
  if (typeof peer !== 'string') await peer.close();
}
const load = loadavg()[0]!.toFixed(1);
const versions = typeof peer === 'string' ? `SKIPPED: ${peer}` : peer.versions;
if (values.json) {
  console.log(JSON.stringify({ peer: versions, points: N, window: WINDOW, load, rows }));
} else {
  console.log(`${N} points, window ${WINDOW}; ${versions}; load of the machine ${load}`);
  console.log('anomalies  ours       every score  TSB-AD opt  ratio    opt_mem    ratio');
  const seconds = (value: number | null): string => (value === null ? '–' : `${value.toFixed(3)} s`);
  const times = (value: number | null): string => (value === null ? '–' : `${value.toFixed(1)}×`);
  for (const row of rows) {
    const cells = [
      String(row.anomalies).padEnd(11),
      seconds(row.seconds).padEnd(11),
      seconds(row.secondsAtEveryScore).padEnd(13),
      seconds(row.peer).padEnd(12),
      times(row.ratio).padEnd(9),
      seconds(row.peerInMemory).padEnd(11),
      times(row.ratioInMemory),
    ];
    console.log(cells.join(''));
  }
}
