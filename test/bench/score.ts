/**
 * Scoring 100 000 predictions, half of them text, from two files to all metrics: npm run bench -- score [--rounds N] [--json]. In this
 * process, start and compilation of the first round included.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { readPredictions } from '../../eval/predictions.ts';
import { scored } from '../../eval/scoring.ts';
import { Random } from '../../src/ground/random.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { benchOptions, median } from './measure.ts';

const COUNT = 100_000;
/** The project's own limit. */
const TARGET = 5;

function writeFiles(gold: string, pred: string): void {
  const random = new Random(3, 'score-bench');
  const [golds, preds]: [string[], string[]] = [[], []];
  const named = ANOMALY_CLASSES.filter((name) => name !== 'normal');
  for (let i = 0; i < COUNT; i++) {
    const start = random.uint32() % 900;
    const end = start + 5 + (random.uint32() % 85);
    const normal = i % 5 === 0;
    const id = `set/test/${i}`;
    const intervals = normal ? [] : [[start, end]];
    const own = normal ? 'normal' : named[i % named.length];
    golds.push(JSON.stringify({ id, length: 1000, intervals, class: own }));
    const said = [
      [Math.max(0, start - 20 + (random.uint32() % 40)), end + 10],
      ...(i % 3 === 0 ? [[5, 12]] : []),
    ];
    const label = named[random.uint32() % named.length];
    const text = `<think>sine wave; range test</think><answer>${JSON.stringify(said)}</answer><class>${label}</class>`;
    preds.push(JSON.stringify(i % 2 === 0 ? { id, text } : { id, intervals: said, class: label }));
  }
  writeFileSync(gold, `${golds.join('\n')}\n`);
  writeFileSync(pred, `${preds.join('\n')}\n`);
}

const { rounds, json } = benchOptions(3);
const directory = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
const [wall, cpu]: [number[], number[]] = [[], []];
try {
  const files = { gold: join(directory, 'gold.jsonl'), pred: join(directory, 'pred.jsonl') };
  writeFiles(files.gold, files.pred);
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage();
    const began = performance.now();
    scored(readPredictions(files));
    wall.push((performance.now() - began) / 1000);
    const { user, system } = process.cpuUsage(before);
    cpu.push((user + system) / 1e6);
  }
} finally {
  rmSync(directory, { recursive: true });
}
const load = loadavg()[0]!;
const result = { predictions: COUNT, wall: median(wall), cpu: median(cpu), target: TARGET, load };
if (json) console.log(JSON.stringify(result));
else {
  const seconds = (value: number): string => `${value.toFixed(2)} s`;
  console.log(
    `${COUNT} predictions: ${seconds(result.wall)} of wall clock, ${seconds(result.cpu)} of processor time (at most ${TARGET} s wanted); load ${load.toFixed(1)}`,
  );
}
