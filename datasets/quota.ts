/** Whole numbers out of shares: tables whose entries are rounded up or down, and whose sums stay exact. */
import { DataError } from '../src/errors.ts';

/**
 * Sizes of parts of `total` in proportion to `shares`: rounded down, and what is left goes to the largest remainders,
 * of equal ones to the first. Each is off by less than one; they sum to `total`.
 *
 * @param shares at least one above 0, none below
 */
export function apportion(total: number, shares: readonly number[]): number[] {
  const sum = shares.reduce((all, share) => all + share, 0);
  if (!(sum > 0) || shares.some((share) => !(share >= 0))) {
    throw new DataError(`shares ${shares.join(', ')}: expected numbers of at least 0, one of them above`);
  }
  const exact = shares.map((share) => (total * share) / sum);
  const sizes = exact.map(Math.floor);
  const order = exact
    .map((_, i) => i)
    .sort((a, b) => exact[b]! - sizes[b]! - (exact[a]! - sizes[a]!) || a - b);
  const left = total - sizes.reduce((all, size) => all + size, 0);
  for (let k = 0; k < left; k++) sizes[order[k]!]!++;
  return sizes;
}

/**
 * A table of whole numbers with the given sums of rows and columns, each entry the expected rows[r] · columns[c] / total
 * rounded up or down. Such a table always exists (Cox 1987, controlled rounding); this one is found by augmenting
 * paths between the rows and columns that rounding down left short.
 *
 * @throws DataError when rows and columns have different sums
 */
export function roundedTable(rows: readonly number[], columns: readonly number[]): number[][] {
  const total = rows.reduce((sum, n) => sum + n, 0);
  const across = columns.reduce((sum, n) => sum + n, 0);
  if (total !== across) throw new DataError(`rows sum to ${total}, columns to ${across}`);
  // Products of integers stay exact, so that a whole expected entry has no remainder.
  const table = rows.map((n) => columns.map((m) => (total === 0 ? 0 : Math.floor((n * m) / total))));
  const open = rows.map((n) => columns.map((m) => total !== 0 && (n * m) % total !== 0));
  const short = columns.map((m, c) => m - table.reduce((sum, row) => sum + row[c]!, 0));
  const raised = rows.map(() => columns.map(() => false));
  const reach = (r: number, seen: Set<number>): boolean => {
    for (const c of columns.keys()) {
      if (!open[r]![c]! || raised[r]![c]! || seen.has(c)) continue;
      seen.add(c);
      const other = short[c]! > 0 ? -1 : raised.findIndex((row, k) => row[c]! && k !== r && reach(k, seen));
      if (short[c]! > 0) short[c]!--;
      else if (other < 0) continue;
      else raised[other]![c] = false;
      raised[r]![c] = true;
      return true;
    }
    return false;
  };
  for (const [r, n] of rows.entries()) {
    const deficit = n - table[r]!.reduce((sum, entry) => sum + entry, 0);
    for (let k = 0; k < deficit; k++) {
      if (!reach(r, new Set())) throw new DataError('no table with these sums');
    }
  }
  return table.map((row, r) => row.map((entry, c) => entry + Number(raised[r]![c]!)));
}
