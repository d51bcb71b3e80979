/** Lasting changes of the level: the mean after a sample against the mean before it, at several spans, each against its own tail. */
import { deviation } from './scan.ts';
import { cumulative } from './season.ts';
import { fitTail, surprise, tempered } from './tail.ts';

export interface Step {
  /** First sample of the new level. */
  readonly at: number;
  readonly size: number;
  /** Samples before and after it whose means differ. */
  readonly span: number;
  readonly severity: number;
}

export interface StepOptions {
  readonly floor: number;
  readonly least: number;
  readonly looks: number;
  /** Shortest span. */
  readonly shortest: number;
}

/** Other steps of this part of the size, and how many halve the severity: where the level steps often, one more is usual. */
const ALIKE = 0.5;
const PEERS = 2;
/** A step and the one that takes it back; and in how many blocks of a span a step shows at that part of its size. */
const OWN = 2;
const BLOCKS = 2;

/** The largest change, up or down, in each block of a span, ascending. */
function largestOfBlocks(changes: Float64Array, span: number): Float64Array {
  const largest = new Float64Array(Math.ceil(changes.length / span));
  for (let i = 0; i < changes.length; i++) {
    const block = Math.floor(i / span);
    largest[block] = Math.max(largest[block]!, Math.abs(changes[i]!));
  }
  return largest.sort();
}

/** The part of its severity that a step keeps beside the others that are like it. */
function amongOthers(blocks: Float64Array, size: number): number {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks[middle]! < ALIKE * size) low = middle + 1;
    else high = middle;
  }
  const others = Math.max(0, (blocks.length - low) / BLOCKS - OWN);
  return 1 / (1 + (others / PEERS) ** 2);
}

/** Standard deviation of the noise, from neighbours: a step does not count. */
function stepNoise(values: Float64Array): number {
  return deviation(values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]!))) / Math.SQRT2;
}

/** Steps of [N] by time, at most one within a span of another. */
export function steps(values: Float64Array, { floor, least, looks, shortest }: StepOptions): Step[] {
  const n = values.length;
  const single = fitTail(values, floor);
  const clipped = values.map((value) =>
    Math.min(single.centre + single.bandAbove, Math.max(single.centre - single.bandBelow, value)),
  );
  const sums = cumulative(clipped);
  const noise = stepNoise(clipped);
  const found: Step[] = [];
  for (let span = shortest; span <= n / 12; span = Math.round(span * 2)) {
    const count = n - 2 * span + 1;
    const changes = Float64Array.from(
      { length: count },
      (_, i) => (sums[i + 2 * span]! - 2 * sums[i + span]! + sums[i]!) / span,
    );
    const tail = fitTail(changes, floor, span, { tail: single, sigma: noise * Math.SQRT2 });
    const blocks = largestOfBlocks(changes, span);
    const chance = Math.log10((n / span) * looks);
    for (let i = 0; i < count; i++) {
      const severity = tempered(surprise(tail, changes[i]! - tail.centre) / Math.LN10 - chance);
      if (severity < least) continue;
      let top = i;
      for (let j = i; j < Math.min(count, i + span); j++)
        if (Math.abs(changes[j]!) > Math.abs(changes[top]!)) top = j;
      const alone = tempered(surprise(tail, changes[top]! - tail.centre) / Math.LN10 - chance);
      found.push({
        at: top + span,
        size: changes[top]!,
        severity: alone * amongOthers(blocks, Math.abs(changes[top]!)),
        span,
      });
      i = top + span - 1;
    }
  }
  found.sort((a, b) => b.severity - a.severity);
  const kept: typeof found = [];
  for (const one of found) {
    if (
      one.severity >= least &&
      !kept.some((other) => Math.abs(other.at - one.at) < Math.max(one.span, other.span))
    )
      kept.push(one);
  }
  return kept.sort((a, b) => a.at - b.at);
}
