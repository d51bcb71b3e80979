/** Milliseconds per analysis of one noisy series of 1000 samples, after warm-up: npx tsx test/bench/analysis.ts */
import { nano5 } from '../../datasets/anomaly/nano5.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { nanoTeacher } from '../../src/expcot/nano.ts';
import { blind, teacher } from '../../src/expcot/trace.ts';
import { frequencyTest, profileTest, rangeTest, trendTest } from '../../src/series/analyses.ts';

const series = Array.from({ length: 50 }, (_, index) => nano5(3407, 'train', index));
let sink = 0;

function measure(name: string, work: (index: number) => unknown): number {
  for (let i = 0; i < 300; i++) if (work(i % series.length) === undefined) sink++;
  const rounds: number[] = [];
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    for (let i = 0; i < 100; i++) if (work(i % series.length) === undefined) sink++;
    rounds.push((performance.now() - start) / 100);
  }
  rounds.sort((a, b) => a - b);
  const middle = rounds[2]!;
  console.log(`${name.padEnd(36)} ${middle.toFixed(3)} ms (fastest round ${rounds[0]!.toFixed(3)})`);
  return middle;
}

const values = (index: number) => series[index]!.values;
const four = [
  measure('range test', (i) => rangeTest(values(i))),
  measure('trend test', (i) => trendTest(values(i))),
  measure('frequency test', (i) => frequencyTest(values(i))),
  measure('matrix profile test', (i) => profileTest(values(i))),
];
console.log(`${'the four tests'.padEnd(36)} ${four.reduce((sum, ms) => sum + ms, 0).toFixed(3)} ms`);
measure('base and noise', (i) => analyse(values(i)).base);
measure('nano target, family not cited', (i) => nanoTeacher(analyse(values(i)), series[i]!, { cite: false }));
measure('nano target, family cited', (i) => nanoTeacher(analyse(values(i)), series[i]!));
measure('teacher trace', (i) => teacher(analyse(values(i)), series[i]!.intervals, series[i]!.class));
measure('blind trace', (i) => blind(analyse(values(i))));
if (sink > 0) console.log(`${sink} analyses did not apply`);
