/**
 * Credit of claims: the advantage of a statement goes to the tokens that make it. A reward of the whole response cannot say which of its
 * claims was false; the verdicts can. Where the series also says what would be true, the correct text is a known-good action that the policy did
 * not sample: a correction adds a loss term with advantage w on that text, conditioned on the policy's own prefix (as DAgger labels the
 * states that a policy visits: Ross et al. 2011). A counterfactual does the same for the answer behind a reasoning that was moved elsewhere:
 * there the picture contradicts the answer, so only a policy that reads its own reasoning can give it.
 */
import type { OpenNumber } from '../ground/types.ts';
import type { Tokenizer } from '../policy/tokenizer.ts';
import type { Lesson } from './micro-batch.ts';
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

/** A changed response, and the ranges of its text that are taught. */
export interface Draft {
  readonly text: string;
  readonly ranges: readonly (readonly [start: number, end: number])[];
  readonly open?: readonly OpenNumber[];
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
 * corrected. Only characters that differ are taught. An empty span inserts, and all of its text is taught.
 */
export function corrected(text: string, claims: readonly StatedClaim[]): Draft | null {
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
  return changed.length === 0 ? null : { text: out + text.slice(from), ranges: changed };
}

/**
 * Encodes a draft with a weight for what it teaches. A digit of an open number is as right as any other that continues the digits before it to
 * a number of its range, so that their common probability is taught, and not which of them it is.
 */
export function lesson(tokenizer: Tokenizer, { text, ranges, open = [] }: Draft, weight: number): Lesson {
  const ids = Int32Array.from(tokenizer.encode(text));
  const weights = new Float32Array(ids.length);
  const ends = tokenEnds(tokenizer, ids);
  let end = 0;
  for (const range of ranges) {
    const [first, last] = tokensWithin(ends, range) ?? [0, 0];
    weights.fill(weight, first, last);
    end = Math.max(end, last);
  }
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
  if (lessons.every(({ choices }) => choices.size === 0)) return null;
  return lessons.flatMap(({ ids, choices }) => Array.from(ids, (id, t) => choices.get(t) ?? [id]));
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

/** Responses to one prompt that could be taught. */
interface TaughtDrafts {
  readonly corrections: readonly Draft[];
  readonly counterfactual: Draft | null;
}

/** Maximum number of corrected responses of a group. */
const MOST_CORRECTED = 2;

/**
 * Picks the lessons of a group: up to MOST_CORRECTED corrections at even spacing, with weights that keep the group's total (times count /
 * picked), and its counterfactual.
 * @param of weights of each correction and of each counterfactual
 */
export function pickLessons(
  tokenizer: Tokenizer,
  { corrections, counterfactual }: TaughtDrafts,
  of: { readonly corrections: number; readonly counterfactuals: number },
): Lesson[] {
  const count = corrections.length;
  const taken = Math.min(MOST_CORRECTED, count);
  const lessons = Array.from({ length: taken }, (_, k) =>
    lesson(tokenizer, corrections[Math.floor((k * count) / taken)]!, (of.corrections * count) / taken),
  );
  if (counterfactual !== null) lessons.push(lesson(tokenizer, counterfactual, of.counterfactuals));
  return lessons.filter(({ ids }) => ids.length > 0);
}

/** Number of lessons of a group, at most. */
export const mostLessons = (of: { readonly corrections: number; readonly counterfactuals: number }): number =>
  (of.corrections > 0 ? MOST_CORRECTED : 0) + (of.counterfactuals > 0 ? 1 : 0);
