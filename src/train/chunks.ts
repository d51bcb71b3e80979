/** How an optimiser goes through a flat buffer of any size: in ranges that one operation handles at once. */

/** A range of the flat buffer that is one parameter. */
export interface Range {
  readonly offset: number;
  readonly size: number;
  /** Whether weight decay applies. */
  readonly decay: boolean;
}

/** Elements that one update handles at once: 128 MiB in float32. */
export const CHUNK = 1 << 25;
/** Parameters from this size on have chunks of their own, in which one number is the decay. */
export const LARGE = 1 << 20;
/** Elements start … end of the buffer, which belong to `ranges`. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly ranges: readonly Range[];
}

/** The part of `ranges` inside [start, end), cut into chunks: runs of small ranges together, large ones alone. */
export function chunksOf(
  ranges: readonly Range[],
  start: number,
  end: number,
  largest: number = CHUNK,
  large: number = LARGE,
): Span[] {
  const out: { start: number; end: number; ranges: Range[]; alone: boolean }[] = [];
  for (const range of ranges) {
    const alone = range.size >= Math.min(large, largest);
    const last = Math.min(end, range.offset + range.size);
    for (let at = Math.max(start, range.offset); at < last; at += largest) {
      const stop = Math.min(last, at + largest);
      const before = out.at(-1);
      if (before !== undefined && !alone && !before.alone && stop - before.start <= largest) {
        before.end = stop;
        before.ranges.push(range);
      } else {
        out.push({ start: at, end: stop, ranges: [range], alone });
      }
    }
  }
  return out;
}
