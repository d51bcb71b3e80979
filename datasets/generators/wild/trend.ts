/** What a series does in the long run. */
import { standardNormal } from '../gaussian.ts';
import { chance, type Draft, sign } from './draft.ts';

/** Adds a line, a bent line, growth that slows down, or growth that speeds up; `size` is the whole rise or fall. */
export function addTrend(draft: Draft, size: number): void {
  const { random, n, level } = draft;
  const rise = sign(random) * size;
  const bend = random.between(0.25, 0.75);
  const after = random.between(-0.5, 1.5);
  const speed = random.between(1.5, 4);
  const curve = random.pick<(x: number) => number>([
    (x) => x,
    (x) => (x < bend ? x : bend + after * (x - bend)),
    (x) => (1 - Math.exp(-speed * x)) / (1 - Math.exp(-speed)),
    (x) => (Math.exp(speed * x) - 1) / (Math.exp(speed) - 1),
  ]);
  for (let t = 0; t < n; t++) level[t] = level[t]! + rise * curve(t / n);
  draft.components.add('trend');
}

/** Adds slow swings without a period, each longer than a third of the series. */
export function addDrift(draft: Draft, size: number): void {
  const { random, n, level } = draft;
  for (let k = 0; k < 3; k++) {
    const cycles = random.between(0.3, 3);
    const at = random.uniform();
    const height = (size * random.between(0.3, 1)) / (1 + cycles);
    const step = (2 * Math.PI * cycles) / n;
    for (let t = 0; t < n; t++) level[t] = level[t]! + height * Math.sin(step * t + 2 * Math.PI * at);
  }
  draft.components.add('drift');
}

/**
 * Adds a random walk, or one that is drawn back to where it began; `size` is the standard deviation of where it gets to.
 * Steps are normal, or now and then ten times as large.
 */
export function addWalk(draft: Draft, size: number): void {
  const { random, n, events } = draft;
  const memory = chance(random, 0.4) ? 1 : 1 - 1 / (n * random.between(0.01, 0.2));
  const jumps = chance(random, 0.25) ? random.between(0.002, 0.02) : 0;
  const reach = memory === 1 ? Math.sqrt(n / 2) : Math.sqrt(1 / (1 - memory * memory));
  const step = size / (reach * Math.sqrt(1 + 24 * jumps));
  let at = memory === 1 ? 0 : step * reach * standardNormal(random);
  for (let t = 0; t < n; t++) {
    const size = jumps > 0 && chance(random, jumps) ? 5 * step : step;
    at = memory * at + size * standardNormal(random);
    events[t] = events[t]! + at;
  }
  draft.components.add('walk');
}
