/**
 * Geometry of the vision tower, all of it on the host: which patches attend to which, in what order they stand,
 * and their rotary angles. Attention is independent of the order inside a window, so windows of equal length
 * stand together and each length is one batched product; the merger's output is put back in reading order.
 */
import type { VisionDims } from './dims.ts';

export interface Grid {
  /** Patches per column and per row, multiples of the merge size. */
  readonly rows: number;
  readonly columns: number;
}

/** `count` segments of `length` patches each, from patch `start` on. */
export interface Segments {
  readonly start: number;
  readonly count: number;
  readonly length: number;
}

export interface VisionPlan {
  /** Number of patches, L. */
  readonly patches: number;
  /** [L / merge²]: merged token (reading order, images one after another) that stands at each place. */
  readonly order: Int32Array;
  /** Inverse of `order`; null when it is the identity. */
  readonly inverse: Int32Array | null;
  /** Attention windows in the order above. */
  readonly windows: readonly Segments[];
  /** Whole images, after gathering patches by `gather` when that is not null. */
  readonly images: readonly Segments[];
  /** [L]: place of each patch when images stand together, and back; null when they do already. */
  readonly gather: Int32Array | null;
  readonly scatter: Int32Array | null;
  /** Rotary tables in the order above: [L, D]. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** Groups consecutive equal lengths. */
function segments(lengths: readonly number[]): Segments[] {
  const out: { start: number; count: number; length: number }[] = [];
  let start = 0;
  for (const length of lengths) {
    const last = out.at(-1);
    if (last?.length === length) last.count++;
    else out.push({ start, count: 1, length });
    start += length;
  }
  return out;
}

function invert(order: Int32Array): Int32Array {
  const inverse = new Int32Array(order.length);
  for (let i = 0; i < order.length; i++) inverse[order[i]!] = i;
  return inverse;
}

const isIdentity = (order: Int32Array): boolean => order.every((value, i) => value === i);

/** The windows of one image as lists of merged tokens (row, column), in reading order. */
function windowsOf(grid: Grid, merge: number, side: number): [row: number, column: number][][] {
  const rows = grid.rows / merge;
  const columns = grid.columns / merge;
  const out: [number, number][][] = [];
  for (let top = 0; top < rows; top += side) {
    for (let left = 0; left < columns; left += side) {
      const window: [number, number][] = [];
      for (let row = top; row < Math.min(top + side, rows); row++) {
        for (let column = left; column < Math.min(left + side, columns); column++) window.push([row, column]);
      }
      out.push(window);
    }
  }
  return out;
}

function plan(vision: VisionDims, grids: readonly Grid[]): VisionPlan {
  const { merge } = vision;
  const unit = merge * merge;
  const side = Math.floor(vision.window / merge / vision.patch);
  const all: { image: number; tokens: [number, number][]; base: number; columns: number }[] = [];
  let base = 0;
  for (const [image, grid] of grids.entries()) {
    for (const tokens of windowsOf(grid, merge, side)) {
      all.push({ image, tokens, base, columns: grid.columns / merge });
    }
    base += (grid.rows * grid.columns) / unit;
  }
  all.sort((a, b) => b.tokens.length - a.tokens.length); // stable: equal lengths keep image order
  const patches = base * unit;
  const order = new Int32Array(base);
  const imageOf = new Int32Array(base);
  const width = vision.width / vision.heads; // D
  const quarter = width / 4;
  const cos = new Float32Array(patches * width);
  const sin = new Float32Array(patches * width);
  let place = 0;
  for (const { image, tokens, base: first, columns } of all) {
    for (const [row, column] of tokens) {
      order[place] = first + row * columns + column;
      imageOf[place] = image;
      for (let sub = 0; sub < unit; sub++) {
        const at = (place * unit + sub) * width;
        const y = row * merge + Math.floor(sub / merge);
        const x = column * merge + (sub % merge);
        for (let j = 0; j < quarter; j++) {
          const frequency = vision.theta ** (-j / quarter);
          // [height angles, width angles], twice: the halves that rotate against each other.
          for (const [k, angle] of [y * frequency, x * frequency].entries()) {
            const c = Math.cos(angle);
            const s = Math.sin(angle);
            cos[at + k * quarter + j] = c;
            sin[at + k * quarter + j] = s;
            cos[at + (k + 2) * quarter + j] = c;
            sin[at + (k + 2) * quarter + j] = s;
          }
        }
      }
      place++;
    }
  }
  // Places sorted by image, stable: where each image's patches stand.
  const places = Int32Array.from({ length: base }, (_, i) => i).sort(
    (a, b) => imageOf[a]! - imageOf[b]! || a - b,
  );
  const together = isIdentity(places);
  const gather = Int32Array.from(
    { length: patches },
    (_, i) => places[Math.floor(i / unit)]! * unit + (i % unit),
  );
  return {
    patches,
    order,
    inverse: isIdentity(order) ? null : invert(order),
    windows: segments(all.map(({ tokens }) => tokens.length * unit)),
    images: segments(grids.map((grid) => grid.rows * grid.columns)),
    gather: together ? null : gather,
    scatter: together ? null : invert(gather),
    cos,
    sin,
  };
}

const cache = new WeakMap<VisionDims, Map<string, VisionPlan>>();
const CACHE_LIMIT = 64;

/** The plan of a batch of images; plans are remembered, since figures share few sizes. */
export function planVision(vision: VisionDims, grids: readonly Grid[]): VisionPlan {
  const key = grids.map((grid) => `${grid.rows}x${grid.columns}`).join();
  const known = cache.get(vision) ?? new Map<string, VisionPlan>();
  cache.set(vision, known);
  let found = known.get(key);
  if (found === undefined) {
    if (known.size >= CACHE_LIMIT) known.clear();
    found = plan(vision, grids);
    known.set(key, found);
  }
  return found;
}
