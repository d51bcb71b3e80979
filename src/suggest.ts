/** What a misspelt name probably meant: for error messages. */

/** Number of single-character edits between two words. */
function editDistance(a: string, b: string): number {
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
 * The candidate that `word` most likely means, or undefined when none is near. What follows the last slash counts as a name
 * of its own, so that `trend` finds `anomllm/trend`.
 */
export function closest(word: string, candidates: readonly string[]): string | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  const ranked = candidates
    .flatMap((candidate) =>
      [candidate, candidate.slice(candidate.lastIndexOf('/') + 1)].map((form) => ({
        candidate,
        distance: editDistance(plain(word), plain(form)),
      })),
    )
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best !== undefined && best.distance <= Math.max(1, word.length * 0.4) ? best.candidate : undefined;
}

/** ` Did you mean …?`, or nothing. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const name = closest(word, candidates);
  return name === undefined ? '' : ` Did you mean ${name}?`;
}
