/** Medians of windows that slide along a series: each window is kept sorted, and one value of it replaced at a time. */

/** Median of the first `count` values, which are sorted; interpolated between the middle two, as in `quantileInPlace`. */
function middleOf(sorted: Float64Array, count: number): number {
  const below = (count - 1) >> 1;
  const low = sorted[below]!;
  return count % 2 === 1 ? low : low + 0.5 * (sorted[below + 1]! - low);
}

/** Puts a value at its place among the first `count`, which are sorted. */
function insert(sorted: Float64Array, count: number, value: number): void {
  let place = count;
  for (; place > 0 && sorted[place - 1]! > value; place--) sorted[place] = sorted[place - 1]!;
  sorted[place] = value;
}

/** Replaces one of the first `count` values, which are sorted and stay so. */
function replace(sorted: Float64Array, count: number, leaving: number, entering: number): void {
  let place = 0;
  for (let high = count - 1; place < high; ) {
    const middle = (place + high) >> 1;
    if (sorted[middle]! < leaving) place = middle + 1;
    else high = middle;
  }
  for (; place + 1 < count && sorted[place + 1]! < entering; place++) sorted[place] = sorted[place + 1]!;
  for (; place > 0 && sorted[place - 1]! > entering; place--) sorted[place] = sorted[place - 1]!;
  sorted[place] = entering;
}

/**
 * Median of every window of `window` samples of [N], of which every `stride`-th is taken, the first one of the window always: [N − window
 * + 1], empty for a shorter series. Values must be finite. O(N·window/stride) at most, far less where neighbours are alike.
 */
export function runningMedians(values: Float64Array, window: number, stride = 1): Float64Array {
  const starts = Math.max(0, values.length - window + 1);
  const medians = new Float64Array(starts);
  const count = Math.ceil(window / stride);
  const sorted = new Float64Array(count);
  // Windows a stride apart differ in one value; those in between share none with them.
  for (let first = 0; first < Math.min(stride, starts); first++) {
    for (let k = 0; k < count; k++) insert(sorted, k, values[first + k * stride]!);
    medians[first] = middleOf(sorted, count);
    for (let start = first + stride; start < starts; start += stride) {
      replace(sorted, count, values[start - stride]!, values[start + (count - 1) * stride]!);
      medians[start] = middleOf(sorted, count);
    }
  }
  return medians;
}
