/**
 * Credit of claims: the advantage of a statement goes to the tokens that make it. A reward of the whole response cannot say which of its
 * claims was false; the verdicts can.
 */
import type { Tokenizer } from '../policy/tokenizer.ts';
import { tokensOf } from './similarity.ts';
import type { StatedClaim } from './task.ts';

/** Added to the squared norm of the main part before dividing, as in `timerpo`. */
const PROJECTION_EPSILON = 1e-8;

/**
 * Computes the advantage of each claim in a group of responses: with v = 1 for a true and 0 for a false claim, v minus the mean of v over
 * all claims of the same fact in the group. A fact that is always true or always false has none. With `main` [G] the vector of each fact
 * (summed per response) is made orthogonal to it, a − ⟨a, main⟩ / (‖main‖² + 1e-8) · main, as TimerPO does with similarity; responses
 * that do not state the fact have no tokens for their component, which is dropped.
 * @returns [G][claims of the response]
 */
export function claimAdvantages(
  claims: readonly (readonly StatedClaim[])[],
  main: readonly number[] | null,
): number[][] {
  const out = claims.map((stated) => stated.map(() => 0));
  for (const fact of new Set(claims.flatMap((stated) => stated.map((claim) => claim.fact)))) {
    const places = claims.flatMap((stated, g) =>
      stated.flatMap((claim, c) => (claim.fact === fact ? [{ g, c, value: claim.holds ? 1 : 0 }] : [])),
    );
    const mean = places.reduce((sum, { value }) => sum + value, 0) / places.length;
    if (mean === 0 || mean === 1) continue;
    let along = 0;
    if (main !== null) {
      const product = places.reduce((sum, { g, value }) => sum + (value - mean) * main[g]!, 0);
      along = product / (main.reduce((sum, value) => sum + value ** 2, 0) + PROJECTION_EPSILON);
    }
    for (const { g, c, value } of places) {
      const stated = places.filter((place) => place.g === g).length;
      out[g]![c] = value - mean - (main === null ? 0 : (along * main[g]!) / stated);
    }
  }
  return out;
}

/**
 * Spreads the advantages of claims over the tokens of their text: [T]; null without any. Claims that share a token add up.
 * @param alpha weight of the claims beside the main part
 */
export function tokenCredit(
  tokenizer: Tokenizer,
  ids: Int32Array,
  claims: readonly StatedClaim[],
  advantages: readonly number[],
  alpha: number,
): Float32Array | null {
  if (advantages.every((value) => value === 0)) return null;
  const out = new Float32Array(ids.length);
  claims.forEach(({ span }, c) => {
    const range = advantages[c] === 0 ? null : tokensOf(tokenizer, ids, span);
    if (range === null) return;
    for (let t = range[0]; t < range[1]; t++) out[t]! += alpha * advantages[c]!;
  });
  return out;
}
