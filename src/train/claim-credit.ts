/**
 * Credit of claims: the advantage of a statement goes to the tokens that make it. A reward of the whole response cannot say which of its
 * claims was false; the verdicts can. Where the series also says what would be true, the correct text is a known-good action that the policy did
 * not sample: a correction adds a loss term with advantage w on that text, conditioned on the policy's own prefix (as DAgger labels the
 * states that a policy visits: Ross et al. 2011). A counterfactual does the same for the answer behind a reasoning that was moved elsewhere:
 * there the picture contradicts the answer, so only a policy that reads its own reasoning can give it.
 */
import type { OpenNumber } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Prompting } from '../policy/policy.ts';
import type { Tokenizer } from '../policy/tokenizer.ts';
import { tokenEnds, tokensWithin } from './similarity.ts';
import type { StatedClaim } from './task.ts';

/** Added to the squared norm of the main part before dividing, as in `timerpo`. */
const PROJECTION_EPSILON = 1e-8;

/**
 * Computes the advantage of each claim in a group of responses: with v = 1 for a true and 0 for a false claim, v minus the mean of v over
 * all claims of the same fact in the group. If all claims of a fact agree, its advantages are 0. With `main` [G] the vector a of each fact
 * (summed per response) is projected, a − ⟨a, main⟩ / (‖main‖² + 1e-8) · main, as TimerPO does with similarity. Responses that do not
 * state the fact get none, so that the result is orthogonal only where all state it.
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
 * @param alpha weight of the claim advantages relative to the task advantage
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
  const ends = tokenEnds(tokenizer, ids);
  claims.forEach(({ span }, c) => {
    const range = advantages[c] === 0 ? null : tokensWithin(ends, span);
    if (range === null) return;
    for (let t = range[0]; t < range[1]; t++) out[t]! += alpha * advantages[c]!;
  });
  return out;
}

/** A changed response, up to the last token that it teaches: a correction or a counterfactual. */
interface Lesson {
  readonly ids: Int32Array; // [T]
  /** Weight of each token: 1 where its text is taught, else 0. */
  readonly weights: Float32Array; // [T]
  /** Ids that are as right as the token's own, by its index: any of them is taught. Absent: only the tokens themselves. */
  readonly choices?: ReadonlyMap<number, readonly number[]>;
}

/** Range of `right` without the prefix and suffix that it shares with `wrong`; at least one character. */
function difference(wrong: string, right: string): readonly [start: number, end: number] {
  const shorter = Math.min(wrong.length, right.length);
  let start = 0;
  while (start < shorter && wrong[start] === right[start]) start++;
  let behind = 0;
  while (behind < shorter - start && wrong.at(-1 - behind) === right.at(-1 - behind)) behind++;
  return [start, Math.max(start + 1, right.length - behind)];
}

/**
 * Corrects the false claims of a response whose true text is known, and skips those that overlap an earlier one. Returns null if nothing was
 * corrected. Only tokens of characters that differ have weight.
 */
export function corrected(
  { tokenizer }: Pick<Prompting, 'tokenizer'>,
  text: string,
  claims: readonly StatedClaim[],
): Lesson | null {
  const wrong = claims
    .filter(({ holds, correction }) => !holds && correction != null)
    .sort((a, b) => a.span[0] - b.span[0]);
  let [out, from] = ['', 0];
  const changed: (readonly [start: number, end: number])[] = [];
  for (const { span, correction } of wrong) {
    const stated = text.slice(...span);
    const right = correction!;
    if (span[0] < from || stated === right) continue;
    out += text.slice(from, span[0]);
    const [first, end] = difference(stated, right);
    changed.push([out.length + first, out.length + end]);
    out += right;
    from = span[1];
  }
  return lesson(tokenizer, out + text.slice(from), changed);
}

/**
 * Teaches the tokens of a text that lie in the given ranges; null where none does. A digit of an open number is as right as any other that
 * continues the digits before it to a number of its range, so that their common probability is taught, and not which of them it is.
 */
export function lesson(
  tokenizer: Tokenizer,
  text: string,
  ranges: readonly (readonly [start: number, end: number])[],
  open: readonly OpenNumber[] = [],
): Lesson | null {
  const ids = Int32Array.from(tokenizer.encode(text));
  const weights = new Float32Array(ids.length);
  const ends = tokenEnds(tokenizer, ids);
  let end = 0;
  for (const range of ranges) {
    const [first, last] = tokensWithin(ends, range) ?? [0, 0];
    weights.fill(1, first, last);
    end = Math.max(end, last);
  }
  if (end === 0) return null;
  const choices = new Map<number, readonly number[]>();
  for (const { span, within } of open) {
    for (let at = span[0]; at < span[1]; at++) {
      const token = ends.indexOf(at + 1);
      if (token < 0 || (token > 0 && ends[token - 1] !== at)) continue; // holds more than the digit
      const digits = digitsBehind(text.slice(span[0], at), within);
      choices.set(token, [
        ...new Set([ids[token]!, ...digits.flatMap((digit) => [...tokenizer.encode(digit)])]),
      ]);
    }
  }
  return { ids: ids.slice(0, end), weights: weights.slice(0, end), choices };
}

/** Lists the ids that are right at each token of some lessons, [K][C]; null where the tokens alone are. */
export function choicesOf(lessons: readonly Lesson[]): (readonly number[])[] | null {
  if (lessons.every(({ choices }) => choices === undefined || choices.size === 0)) return null;
  return lessons.flatMap(({ ids, choices }) => Array.from(ids, (id, t) => choices?.get(t) ?? [id]));
}

/** Lists the digits that continue a prefix to a whole number of a range. */
function digitsBehind(prefix: string, [least, most]: OpenNumber['within']): string[] {
  const found = new Set<string>();
  for (let number = least; number <= most; number++) {
    const digits = String(number);
    if (digits.startsWith(prefix) && digits.length > prefix.length) found.add(digits[prefix.length]!);
  }
  return [...found];
}

/** Lessons behind one prompt. */
export interface TaughtGroup {
  /** Number of its prompt in the step, over all ranks. */
  readonly index: number;
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Lesson[];
}

/** Maximum number of corrected responses of a group; each needs its own forward and backward pass. */
const MOST_CORRECTED = 2;

/**
 * Picks up to MOST_CORRECTED responses per group at even spacing. Weights are scaled by count / picked to keep the group's total. Smaller groups
 * are padded with a zero-weight copy, so that batch shapes match; groups without corrections are left out.
 */
export function pickCorrections(
  groups: readonly (Omit<TaughtGroup, 'responses'> & { readonly corrections: readonly Lesson[] })[],
): TaughtGroup[] {
  const most = Math.min(MOST_CORRECTED, Math.max(0, ...groups.map(({ corrections }) => corrections.length)));
  return groups.flatMap(({ corrections, ...group }) => {
    const count = corrections.length;
    if (count === 0) return [];
    const taken = Math.min(most, count);
    const responses = Array.from({ length: most }, (_, k): Lesson => {
      const { weights, ...taught } = corrections[Math.floor((Math.min(k, taken - 1) * count) / taken)]!;
      return { ...taught, weights: weights.map((own) => (k < taken ? (own * count) / taken : 0)) };
    });
    return [{ ...group, responses }];
  });
}
