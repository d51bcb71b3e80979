/**
 * What reasoning is worth beside its answer: how many of the numbers that it states are true of the series, whether what it concludes is what
 * it answers, and whether it contradicts itself. Pure functions of a response and its example.
 */

import type { ClassProfile } from '../src/expcot/class-profile.ts';
import { scan } from '../src/expcot/nano.ts';
import type { Example, Interval, ParsedAnswer, ReasoningCheck } from '../src/ground/types.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { ClaimChecker, SAME_STRETCH, unionOverlap } from './claim-check.ts';
import { type Claim, readClaims } from './claims.ts';

export interface CheckOptions {
  /** What was learned of the classes, by which typical values of a class are checked. */
  readonly profile?: ClassProfile | null;
  /** Classes that an answer may name; those of the kind of answer where absent or none. */
  readonly classes?: readonly string[];
}

/** False claims that are kept with a record. */
const MOST_KEPT = 20;
/** Letters of a claim that are kept. */
const LONGEST_KEPT = 200;

/** What the claims of a reasoning are worth; null without any reasoning. */
export function checkReasoning(
  answer: ParsedAnswer,
  { channels, names, gold }: Pick<Example, 'channels' | 'names' | 'gold'>,
  { profile = null, classes = [] }: CheckOptions = {},
): ReasoningCheck | null {
  const { think } = answer;
  if (think === null || think.trim() === '') return null;
  const { claims, numbers } = readClaims(think, names);
  const kind = taskKind(gold.kind);
  const length = channels[0]!.length;
  const intervals = kind.localises ? (kind.marks(gold, length)?.intervals ?? []) : null;
  const checker = new ClaimChecker({ channels, names, intervals, profile });
  const known = classes.length > 0 || kind.classes === 'data' ? classes : kind.classes;
  const counts = { true: 0, false: 0, unchecked: 0 };
  const checked = new Set<number>();
  const wrong: { text: string; quantity: string; why: string }[] = [];
  for (const claim of claims) {
    const { verdict, why } = checker.check(claim);
    counts[verdict]++;
    if (verdict === 'unchecked') continue;
    for (const [start] of claim.uses) checked.add(start);
    if (verdict === 'false' && wrong.length < MOST_KEPT) {
      wrong.push({ text: think.slice(...claim.span).slice(0, LONGEST_KEPT), quantity: claim.quantity, why });
    }
  }
  const decided = counts.true + counts.false;
  return {
    claims: claims.length,
    ...counts,
    truth: decided === 0 ? null : counts.true / decided,
    coverage: numbers === 0 ? null : Math.min(1, checked.size / numbers),
    agreement: agreementOf(think, claims, answer, known, length),
    contradictions: contradictionsOf(claims).length,
    wrong,
  };
}

const MARKER =
  /\b(?:conclusion|conclude|therefore|thus|hence|in summary|to sum up|to summari[sz]e|final answer|taken together|overall)\b/gi;
const NOTHING =
  /\b(?:no (?:\w{1,20} ){0,2}anomal(?:y|ies)|not anomalous|nothing (?:is )?(?:anomalous|departs|unusual)|no (?:variate|outliers?|discords?)|(?:is|looks?|appears?|seems?|class is|class:) (?:\w{1,12} ){0,2}normal)\b/i;
const OTHERS = /\b(?:and others|among others|etc|such as|for example|e\.g\.)/i;
const SCAN = /\bscan ([.()#ox]{1,4096})/;
const VARIATES = /\bvariates? (\d{1,6}(?:(?:, and |, | and )\d{1,6}){0,200})/gi;

/** Where what is concluded begins: behind the last word that announces it; the beginning where there is none. */
function conclusionAt(text: string): number {
  let at = 0;
  for (const match of text.matchAll(MARKER)) at = match.index;
  return at;
}

/**
 * Whether the answer is what the reasoning concludes: intervals (each with intersection over union of ½ or more, index within one), variates and
 * class, as far as the reasoning names them. False where one differs; null where it names none.
 */
export function agreementOf(
  text: string,
  claims: readonly Claim[],
  answer: ParsedAnswer,
  classes: readonly string[],
  length: number,
): boolean | null {
  const from = conclusionAt(text);
  const conclusion = text.slice(from);
  // "A sine with trend" is a shape; what a text that concludes nothing calls a class is one.
  const namesClass = from > 0 || answer.intervals === null || /\bclass\b/i.test(text);
  const found = [
    answer.intervals === null
      ? null
      : intervalsAgree(text, conclusion, from, claims, answer.intervals, length),
    answer.variates == null ? null : variatesAgree(text, conclusion, answer.variates),
    answer.class === null || !namesClass ? null : classAgrees(conclusion, answer.class, classes),
  ].filter((one) => one !== null);
  return found.length === 0 ? null : !found.includes(false);
}

function intervalsAgree(
  text: string,
  conclusion: string,
  from: number,
  claims: readonly Claim[],
  answered: readonly Interval[],
  length: number,
): boolean | null {
  const scanned = SCAN.exec(text)?.[1];
  if (scanned !== undefined) return scanned === scan(answered, length, scanned.length);
  const named = claims.filter(({ quantity, negated }) => quantity === 'anomaly' && !negated);
  const last = named.filter(({ span }) => span[0] >= from);
  if (last.length === 0 && NOTHING.test(conclusion)) return answered.length === 0;
  const concluded = last.length > 0 ? last : named;
  if (concluded.length === 0) return null;
  const same = ({ within, kind }: Claim, interval: Interval): boolean =>
    kind === 'index'
      ? within![0] >= interval[0] - 1 && within![0] <= interval[1]
      : unionOverlap(within!, interval) >= SAME_STRETCH;
  const told = concluded.every((claim) => answered.some((interval) => same(claim, interval)));
  const others = OTHERS.test(conclusion);
  return told && (others || answered.every((interval) => concluded.some((claim) => same(claim, interval))));
}

function variatesAgree(text: string, conclusion: string, answered: readonly number[]): boolean | null {
  const scanned = SCAN.exec(text)?.[1];
  const ids =
    scanned === undefined
      ? [...conclusion.matchAll(VARIATES)].flatMap((match) => match[1]!.match(/\d+/g)!.map(Number))
      : [...scanned].flatMap((symbol, id) => (symbol === 'x' ? [id] : []));
  if (scanned === undefined && ids.length === 0)
    return NOTHING.test(conclusion) ? answered.length === 0 : null;
  const told = new Set(ids);
  return told.size === answered.length && answered.every((id) => told.has(id));
}

/** Null where the conclusion names no class, or several. */
function classAgrees(conclusion: string, answered: string, classes: readonly string[]): boolean | null {
  const known = [...new Set([...classes, answered])].sort((a, b) => b.length - a.length);
  let rest = ` ${conclusion.toLowerCase()} `;
  const named = new Set<string>();
  for (const name of known) {
    const word = name.toLowerCase();
    for (let at = rest.indexOf(word); at >= 0; at = rest.indexOf(word, at + word.length)) {
      const whole =
        !/[\p{L}\p{N}_]/u.test(rest[at - 1]!) && !/[\p{L}\p{N}_]/u.test(rest[at + word.length] ?? ' ');
      if (!whole) continue;
      const denied = /\b(?:not|than|rather than|instead of|against|no) (?:an? |the )?$/.test(
        rest.slice(Math.max(0, at - 24), at),
      );
      if (!denied) named.add(name);
      // "contextual point" holds no "point" of its own.
      rest = `${rest.slice(0, at)}${' '.repeat(word.length)}${rest.slice(at + word.length)}`;
    }
  }
  return named.size === 1 ? named.has(answered) : null;
}

/** Pairs of claims about one quantity of one place that cannot both be true. */
export function contradictionsOf(claims: readonly Claim[]): (readonly [Claim, Claim])[] {
  const first = new Map<string, Claim>();
  const found: [Claim, Claim][] = [];
  for (const claim of claims) {
    const { quantity, at, within, channel, relation, negated, kind, numbers, range } = claim;
    if (relation !== 'is' || negated || range || kind === 'expert' || numbers.length !== 1) continue;
    if (quantity === 'anomaly' || quantity === 'place' || quantity === 'z' || quantity.endsWith(' of a part'))
      continue;
    // A value is the value of its index; what else is told of an index is not.
    const key = `${quantity} ${quantity === 'value' ? at?.value : ''} ${within} ${channel}`;
    const before = first.get(key);
    if (before === undefined) first.set(key, claim);
    else if (!compatible(before, claim)) found.push([before, claim]);
  }
  return found;
}

function compatible(a: Claim, b: Claim): boolean {
  const [one, other] = [a.numbers[0]!, b.numbers[0]!];
  const part = a.hedged || b.hedged ? 0.2 : 0.02;
  const slack = one.rounding + other.rounding + part * Math.max(Math.abs(one.value), Math.abs(other.value));
  return Math.abs(one.value - other.value) <= slack;
}
