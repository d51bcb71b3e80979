/**
 * Windows that the learned backgrounds generate, beside held-out windows of recordings:
 *
 *     npx tsx test/bench/backgrounds.ts metrics.csv
 *
 * Each cell is `real/generated`: distances from held-out windows to those that were learned from, and to generated ones.
 */
import { learnBackground, METHODS, type Method, sampleBackground } from '../../src/background/background.ts';
import { likeness } from '../../src/background/likeness.ts';
import { columns } from '../../src/ground/terminal.ts';
import { lazyEngine } from '../../src/run/backgrounds.ts';
import { readSources, valuesOf } from '../../src/run/sources.ts';

const SEED = 1;
const SAMPLES = 100;

const engine = lazyEngine();
const rows = [['source', 'method', 'mean', 'spread', 'autocorr.', 'spectral', 'discr.', 'nearest', 's']];
const { sources } = await readSources({ data: process.argv.slice(2), columns: [] });
for (const { name, training, heldOut, periods } of sources) {
  for (const method of Object.keys(METHODS) as Method[]) {
    const began = performance.now();
    const windows = { windows: training, periods };
    const background = await learnBackground(method, name, windows, { seed: SEED }, engine);
    const generated = sampleBackground(background, SAMPLES, SEED, engine);
    const seconds = (performance.now() - began) / 1000;
    const figures = await likeness(valuesOf(heldOut), generated, valuesOf(training));
    const cells = Object.values(figures).map(({ real, generated }) =>
      [real, generated].map((value) => Number(value.toPrecision(3))).join('/'),
    );
    rows.push([name, method, ...cells, seconds.toFixed(0)]);
  }
}
console.log(columns(rows));
