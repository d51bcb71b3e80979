/**
 * A step in pieces that go through the policy one at a time, so that memory is bounded by tokens and not by the batch.
 * Losses are sums over tokens, so the gradients of the pieces add up to that of the whole.
 */

/** Tokens of one piece, padding included, where a recipe does not say. */
export const TOKENS_AT_ONCE = 1 << 15;

/**
 * Divides items into pieces of at most `budget` tokens, or of one item. `extents` gives the lengths of an item's parts;
 * within a piece each part is padded to its longest, so a piece of n items takes n · Σ longest. All in one piece stay in
 * their order; else items of like length come together, the longest first, so that memory that does not suffice shows at
 * once and little is padded.
 */
export function piecesOf<T>(
  items: readonly T[],
  extents: (item: T) => readonly number[],
  budget: number = TOKENS_AT_ONCE,
): T[][] {
  const sized = items.map((item) => ({ item, parts: extents(item) }));
  const whole = sized.reduce<readonly number[]>((most, { parts }) => longest(most, parts), []);
  if (items.length > 0 && items.length * total(whole) <= budget) return [[...items]];
  const out: T[][] = [];
  let most: readonly number[] = [];
  for (const { item, parts } of sized.sort((a, b) => total(b.parts) - total(a.parts))) {
    const last = out.at(-1);
    const grown = longest(most, parts);
    if (last !== undefined && (last.length + 1) * total(grown) <= budget) {
      last.push(item);
      most = grown;
    } else {
      out.push([item]);
      most = parts;
    }
  }
  return out;
}

const total = (parts: readonly number[]): number => parts.reduce((sum, length) => sum + length, 0);

const longest = (a: readonly number[], b: readonly number[]): readonly number[] =>
  b.map((length, i) => Math.max(length, a[i] ?? 0));

/** Places of a batch and the tokens that stand in them: what is left is padding. */
export class PaddingMeter {
  places = 0;
  tokens = 0;

  add({
    batch,
    length,
    lengths,
  }: {
    readonly batch: number;
    readonly length: number;
    readonly lengths?: Int32Array;
  }): void {
    this.places += batch * length;
    this.tokens += lengths === undefined ? batch * length : lengths.reduce((sum, n) => sum + n, 0);
  }
}
