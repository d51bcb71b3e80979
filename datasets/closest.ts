/** The known name that a mistyped one most likely meant. */

/** Levenshtein distance between two strings. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/**
 * The name closest to `given`, ignoring case; the part after the last slash counts as a name of its own, so that
 * `trend` finds `anomllm/trend`. Null when more than 40 % of the letters differ.
 */
export function closest(given: string, known: readonly string[]): string | null {
  const wanted = given.toLowerCase();
  let best: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const name of known) {
    for (const form of [name, name.slice(name.lastIndexOf('/') + 1)]) {
      const share = distance(wanted, form.toLowerCase()) / Math.max(wanted.length, form.length, 1);
      if (share < least) {
        least = share;
        best = name;
      }
    }
  }
  return least <= 0.4 ? best : null;
}

/** ` Did you mean …?`, or nothing. */
export function suggestion(given: string, known: readonly string[]): string {
  const name = closest(given, known);
  return name === null ? '' : ` Did you mean ${name}?`;
}
