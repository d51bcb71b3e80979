/** Inversions: pairs of a sequence that stand in the wrong order. */

/** Length of the runs that insertion sorts before they are merged. */
const RUN = 8;

/**
 * Sorts keys [N] in place and `order` [N] along with them; equal keys keep their order. Returns the number of pairs i < j with keys[i] >
 * keys[j]. O(N log N).
 */
export function sortCountingInversions(keys: Float64Array, order: Int32Array): number {
  const n = keys.length;
  let inversions = 0;
  for (let start = 0; start < n; start += RUN) {
    const end = Math.min(n, start + RUN);
    for (let i = start + 1; i < end; i++) {
      const key = keys[i]!;
      const own = order[i]!;
      let place = i;
      for (; place > start && keys[place - 1]! > key; place--) {
        keys[place] = keys[place - 1]!;
        order[place] = order[place - 1]!;
      }
      keys[place] = key;
      order[place] = own;
      inversions += i - place;
    }
  }
  let from = keys;
  let to = new Float64Array(n) as typeof keys;
  let orderFrom = order;
  let orderTo = new Int32Array(n) as typeof order;
  for (let width = RUN; width < n; width *= 2) {
    for (let left = 0; left < n; left += 2 * width) {
      const middle = Math.min(n, left + width);
      const end = Math.min(n, left + 2 * width);
      let a = left;
      let b = middle;
      for (let k = left; k < end; k++) {
        if (a < middle && (b >= end || from[a]! <= from[b]!)) {
          orderTo[k] = orderFrom[a]!;
          to[k] = from[a++]!;
        } else {
          inversions += middle - a;
          orderTo[k] = orderFrom[b]!;
          to[k] = from[b++]!;
        }
      }
    }
    [from, to] = [to, from];
    [orderFrom, orderTo] = [orderTo, orderFrom];
  }
  if (from !== keys) {
    keys.set(from);
    order.set(orderFrom);
  }
  return inversions;
}
