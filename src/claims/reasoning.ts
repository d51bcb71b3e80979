/**
 * Checks the reasoning of a response: the share of its stated numbers that are true of the series, its agreement with the answer, and its
 * contradictions. Pure functions of a response and its example.
 */
import type { ClassProfile } from '../expcot/class-profile.ts';
import { SCAN, scan } from '../expcot/nano.ts';
import {
  ANOMALY_CLASSES,
  type Example,
  type Interval,
  type ParsedAnswer,
  type ReasoningCheck,
} from '../ground/types.ts';
import { Amender, type Amendment, type NamedClaim } from './amendment.ts';
import { ClaimChecker, SAME_STRETCH, type Subject, unionOverlap, type Verdict } from './check.ts';
import { type Claim, claimsOf, statesDeparture } from './read.ts';

/** Facts beside the series that reasonings are checked against. */
export interface CheckOptions {
  /** Profile of the classes, by which their typical values are checked. */
  readonly profile?: ClassProfile | null;
  /** Classes that an answer may name, for data sets that bring their own. */
  readonly classes?: readonly string[];
  /** Expert trace of the series, whose facts a reasoning can recall; null where there is none. */
  readonly trace?: string | null;
}

/** Maximum number of grades that a grader keeps. */
const MOST_GRADES = 64;
/** Maximum number of false claims kept with a record, and of characters of each. */
const MOST_KEPT = 20;
const LONGEST_KEPT = 200;

type Described = Pick<Example, 'channels' | 'names' | 'gold' | 'facts' | 'plotted'>;

/** Returns what claims about an example are checked against: its series, its annotation and the facts of its generator. */
export function subjectOf({ channels, names, gold, facts, plotted }: Described): Subject {
  return {
    channels,
    names,
    intervals: 'intervals' in gold ? gold.intervals : null,
    variates: 'variates' in gold ? gold.variates : null,
    ...(facts === undefined ? {} : { facts }),
    ...(plotted === undefined ? {} : { plotted }),
  };
}

/** A claim of a reasoning with its verdict. */
export interface GradedClaim {
  readonly claim: Claim;
  readonly verdict: Verdict;
  /** Kind of fact: what is stated of which channel, without its numbers. */
  readonly fact: string;
  /** Text of the claim as it would be true; null where it is not false, or that is not known. */
  readonly correction: string | null;
  /** True for a claim that repeats an earlier one, or is not false but hedges, denies or bounds where the expert trace states a number. */
  readonly void: boolean;
  /** True for a claim that was made before, or is as true as an earlier one of the same fact and place. */
  readonly repeats: boolean;
}

/** Claims of one reasoning, and how many facts of the expert trace are among them. */
export interface ReasoningGrade {
  readonly claims: readonly GradedClaim[];
  /** Symbols of its scan, where the series is annotated. */
  readonly cells: readonly GradedCell[];
  /** Count of the numbers that the reasoning holds. */
  readonly numbers: number;
  /** Facts of the trace; 0 without a trace. */
  readonly facts: number;
  /** Facts stated truly, each counted once. */
  readonly recalled: number;
  /** False claims, each counted once. */
  readonly false: number;
  /**
   * 2·recalled / (recalled + false + facts): F1 of recalled facts, false claims and missed facts, in [0, 1]; null without facts. True
   * claims beyond the facts of the trace count nowhere, so trivial ones earn nothing.
   */
  readonly f1: number | null;
  /** Statements of a short trace that the reasoning lacks. */
  readonly amendments: readonly Amendment[];
}

const factOf = ({ quantity, channel, statement }: Claim): string =>
  `${quantity} ${statement?.phrase.literals.join('_') ?? ''} ${channel}`;

/** Text of a claim's contents: two claims of one fact with the same contents are the same claim. */
const contentsOf = ({ numbers, statement, at, within, share, negated, relation }: Claim): string =>
  JSON.stringify([
    numbers.map(({ value }) => value),
    ...[statement?.contents, at?.value, within, share, negated, relation],
  ]);

/** Key of a stated departure without its size: kind and direction. */
const departureWords = (claim: Claim): string =>
  [factOf(claim), ...claim.statement!.contents.filter((content) => typeof content === 'string')].join(' ');
/** Largest distance of the sizes of one departure, as a logarithm. */
const ABOUT = Math.log(1.6);
const sizeOf = ({ numbers }: Claim): number => numbers[0]?.value ?? 1;

/** Significant digits from which two numbers of a trace's statement are the same. */
const SAME_DIGITS = 2;

/**
 * Returns the contents of a claim that another true claim of its fact must share to say the same: the place, the words of a statement and
 * whether it is hedged; the mean as 2.333 and as 2.334 is one truth, as is one annotated anomaly with two starts.
 */
function truthOf(claim: Claim, { actual }: Verdict): string {
  const { quantity, statement, at, within, share, hedged, negated, relation, range } = claim;
  if (statesDeparture(claim)) return '';
  const place = quantity === 'anomaly' && !negated ? actual : [at?.value, within, share];
  const contents = statement?.contents.map((content) =>
    typeof content === 'number' ? content.toPrecision(SAME_DIGITS) : content,
  );
  return JSON.stringify([place, contents, hedged, negated, relation, range]);
}

const isVague = ({ hedged, negated, relation, range }: Claim): boolean =>
  hedged || negated || relation !== 'is' || range;

const isChecked = ({ numbers, statement, scan }: Claim): boolean =>
  scan === undefined && (numbers.length > 0 || statement !== undefined);

/**
 * Grades reasonings about one series by their claims: those that are true, and the facts of the expert trace that they state. What the
 * series cannot decide is not a fact. Analyses of the series are computed once for all its reasonings.
 */
export class ReasoningGrader {
  readonly #names: readonly string[];
  readonly #checker: ClaimChecker;
  /** Occurrences in the trace of each fact by the key of `#recalledBy`, and of each with the contents of `truthOf`. */
  readonly #facts = new Map<string, number>();
  readonly #stated = new Map<string, number>();
  /** Sizes of the trace's departures by their words. */
  readonly #sizes = new Map<string, number[]>();
  readonly #amender: Amender;
  /** Facts that the trace itself states as bounds. */
  readonly #vague = new Set<string>();
  /** Grades by reasoning: a step asks for each twice, and responses of a group are often alike. */
  readonly #grades = new Map<string, ReasoningGrade>();

  constructor(example: Described, { profile = null, trace = null }: CheckOptions = {}) {
    this.#names = example.names;
    this.#checker = new ClaimChecker({ ...subjectOf(example), profile });
    const text = thinkOf(trace ?? '');
    const claims = claimsOf(text, this.#names).claims.map((claim) => this.#named(claim));
    const facts = claims.filter(({ claim, holds }) => isChecked(claim) && holds);
    for (const { claim } of facts) {
      if (!statesDeparture(claim)) continue;
      const words = departureWords(claim);
      this.#sizes.set(words, [...(this.#sizes.get(words) ?? []), sizeOf(claim)]);
    }
    for (const { claim, fact, verdict } of facts) {
      const recalls = this.#recalledBy(claim);
      const same = recalls + truthOf(claim, verdict);
      this.#facts.set(recalls, (this.#facts.get(recalls) ?? 0) + 1);
      this.#stated.set(same, (this.#stated.get(same) ?? 0) + 1);
      if (isVague(claim)) this.#vague.add(fact);
    }
    const { intervals } = this.#checker.subject;
    this.#amender = new Amender(text, claims, intervals ?? [], this.#checker.length);
  }

  #named(claim: Claim, verdict = this.#checker.check(claim)): NamedClaim & { readonly verdict: Verdict } {
    const fact = factOf(claim);
    return { claim, fact, key: fact + contentsOf(claim), holds: verdict.verdict === 'true', verdict };
  }

  /**
   * Returns the key of the fact that a true claim recalls: of departures in the same words the one of the trace nearest in size that no claim
   * before has recalled (`recalled`: how often each was) and that is about as large; so a near copy of one recalls no other.
   */
  #recalledBy(claim: Claim, recalled: ReadonlyMap<string, number> = new Map()): string {
    if (!statesDeparture(claim)) return factOf(claim);
    const words = departureWords(claim);
    const distance = (size: number): number => Math.abs(Math.log(size / sizeOf(claim)));
    const sizes = (this.#sizes.get(words) ?? []).toSorted((a, b) => distance(a) - distance(b));
    const keyOf = (size: number): string => `${words} ${size}`;
    const isFree = (size: number): boolean =>
      distance(size) < ABOUT && (recalled.get(keyOf(size)) ?? 0) < (this.#facts.get(keyOf(size)) ?? 0);
    return keyOf(sizes.find(isFree) ?? sizes[0] ?? Number.NaN);
  }

  /** Grades a reasoning, once for all responses that have it. */
  grade(think: string): ReasoningGrade {
    const known = this.#grades.get(think);
    if (known !== undefined) return known;
    if (this.#grades.size >= MOST_GRADES) this.#grades.clear();
    const grade = this.#graded(think);
    this.#grades.set(think, grade);
    return grade;
  }

  #graded(think: string): ReasoningGrade {
    const [seen, before] = [new Map<string, number>(), new Map<string, number>()];
    const reading = claimsOf(think, this.#names);
    const claims = reading.claims.filter(isChecked).map((claim): GradedClaim & { recalls: string } => {
      const fact = factOf(claim);
      const recalls = this.#recalledBy(claim, before);
      const verdict = this.#checker.check(claim);
      const holds = verdict.verdict === 'true';
      if (holds) before.set(recalls, (before.get(recalls) ?? 0) + 1);
      const same = holds ? recalls + truthOf(claim, verdict) : fact + contentsOf(claim);
      const times = (seen.get(same) ?? 0) + 1;
      seen.set(same, times);
      const repeats = times > Math.max(1, this.#stated.get(same) ?? 0);
      const vague = isVague(claim) && !this.#vague.has(fact);
      const correction =
        verdict.verdict === 'false' ? this.#checker.correction(claim, think.slice(...claim.span)) : null;
      const isVoid = repeats || (vague && verdict.verdict !== 'false');
      return { claim, verdict, fact, correction, void: isVoid, repeats, recalls };
    });
    const count = (verdict: Verdict['verdict'], fact?: string): number =>
      claims.filter(
        (graded) =>
          !graded.void &&
          graded.verdict.verdict === verdict &&
          (fact === undefined || graded.recalls === fact),
      ).length;
    let [facts, recalled] = [0, 0];
    for (const [fact, times] of this.#facts) {
      facts += times;
      recalled += Math.min(times, count('true', fact));
    }
    const wrong = count('false');
    const drawn = reading.claims.find(({ scan }) => scan !== undefined);
    const truth = drawn === undefined ? null : this.#checker.scanTruth(drawn.scan!);
    const end = drawn?.span[1] ?? 0;
    const cells =
      truth === null
        ? []
        : [...drawn!.scan!].map((symbol, k, { length }): GradedCell => {
            const at = end - length + k;
            return { span: [at, at + 1], holds: symbol === truth[k] };
          });
    const f1 = facts === 0 ? null : (2 * recalled) / (recalled + wrong + facts);
    const named = claims.map(({ claim, verdict }) => this.#named(claim, verdict));
    if (drawn !== undefined) named.push(this.#named(drawn));
    const amendments = this.#amender.amend(think, named);
    return { claims, cells, numbers: reading.numbers, facts, recalled, false: wrong, f1, amendments };
  }
}

/** Symbol of a scan, and whether the annotation asks for it there. */
export interface GradedCell {
  readonly span: readonly [start: number, end: number];
  readonly holds: boolean;
}

/** End of an answered interval, or their number, compared with what the scan concludes. */
export interface GradedEnd {
  /** `start`, `end`, or `count` at the end of the answer. */
  readonly part: 'start' | 'end' | 'count';
  readonly span: readonly [start: number, end: number];
  readonly holds: boolean;
}

/**
 * Compares the ends of the intervals in an answer with the scan that led to it. An end agrees where the cell that it lies in has a symbol
 * for such an end.
 * @param response whole response; the answer stands in `range`
 * @param length samples of the series
 */
export function gradeEnds(
  response: string,
  range: readonly [start: number, end: number],
  symbols: string,
  length: number,
): GradedEnd[] {
  const width = length / symbols.length;
  const found = [...response.slice(...range).matchAll(/\[\s*(\d+)\s*,\s*(\d+)\s*\]/g)];
  const ends = found.flatMap((match): GradedEnd[] => {
    const [whole, start, end] = match as unknown as [string, string, string];
    const at = range[0] + match.index;
    const [first, last] = [at + whole.indexOf(start), at + whole.lastIndexOf(end)];
    const [opens, closes] = [Math.floor(Number(start) / width), Math.ceil(Number(end) / width) - 1];
    return [
      { part: 'start', span: [first, first + start.length], holds: '(ox'.includes(symbols[opens] ?? ' ') },
      { part: 'end', span: [last, last + end.length], holds: ')ox'.includes(symbols[closes] ?? ' ') },
    ];
  });
  const closing = range[1] - 1;
  const concluded = [...symbols].filter((symbol) => '(o'.includes(symbol)).length;
  // A cell that several intervals touch does not say how many.
  if (symbols.includes('x') || closing < range[0]) return ends;
  return [...ends, { part: 'count', span: [closing, range[1]], holds: found.length === concluded }];
}

const graders = new WeakMap<
  object,
  Required<Omit<CheckOptions, 'classes'>> & { readonly grader: ReasoningGrader }
>();

/** Returns the grader of an example, made once for all responses to it. */
export function graderOf(
  example: Described,
  { profile = null, trace = null }: CheckOptions = {},
): ReasoningGrader {
  const kept = graders.get(example);
  if (kept !== undefined && kept.trace === trace && kept.profile === profile) return kept.grader;
  const grader = new ReasoningGrader(example, { profile, trace });
  graders.set(example, { trace, profile, grader });
  return grader;
}

/** Returns the reasoning of a response or trace: the text between its think tags, or all of it without any. */
const thinkOf = (text: string): string => /<think>([\s\S]*?)<\/think>/.exec(text)?.[1] ?? text;

/** Checks the claims of a reasoning, and what it concludes; null without any reasoning. */
export function checkReasoning(
  answer: ParsedAnswer,
  example: Described,
  { classes = [], ...options }: CheckOptions = {},
): ReasoningCheck | null {
  const { think } = answer;
  if (think === null || think.trim() === '') return null;
  const { claims: graded, numbers, facts, recalled, f1 } = graderOf(example, options).grade(think);
  const claims = graded.map(({ claim }) => claim);
  const counts = { true: 0, false: 0, unchecked: 0 };
  const checked = new Set<number>();
  const wrong: { text: string; quantity: string; why: string }[] = [];
  for (const { claim, void: isVoid, repeats, verdict: judged } of graded) {
    const { verdict, why } = judged;
    const { uses, span, quantity, hedged, negated, relation, range } = claim;
    // "About 12" can be false. A bound or a denial may exclude next to nothing.
    const isHedged = hedged && !negated && !range && relation === 'is';
    const isCounted = !repeats && (!isVoid || isHedged);
    if (isCounted) counts[verdict]++;
    if (verdict === 'unchecked') continue;
    for (const [start] of uses) checked.add(start);
    if (isCounted && verdict === 'false' && wrong.length < MOST_KEPT) {
      wrong.push({ text: think.slice(...span).slice(0, LONGEST_KEPT), quantity, why });
    }
  }
  const decided = counts.true + counts.false;
  const known = classes.length === 0 && 'intervals' in example.gold ? ANOMALY_CLASSES : classes;
  return {
    claims: counts.true + counts.false + counts.unchecked,
    ...counts,
    truth: decided === 0 ? null : counts.true / decided,
    ...(f1 === null ? {} : { facts, recalled, f1 }),
    coverage: numbers === 0 ? null : Math.min(1, checked.size / numbers),
    agreement: agreementOf(think, claims, answer, known, example.channels[0]!.length),
    contradictions: contradictionsOf(claims).length,
    wrong,
  };
}

const MARKER =
  /\b(?:conclusion|conclude|therefore|thus|hence|in summary|to sum up|to summari[sz]e|final answer|taken together|overall)\b/gi;
const NOTHING =
  /\b(?:no (?:\w{1,20} ){0,2}anomal(?:y|ies)|not anomalous|nothing (?:is )?(?:anomalous|departs|unusual)|no (?:variate|outliers?|discords?)|(?:is|looks?|appears?|seems?|class is|class:) (?:\w{1,12} ){0,2}normal)\b/i;
const OTHERS = /\b(?:and others|among others|etc|such as|for example|e\.g\.)/i;
const VARIATES = /\bvariates? (\d{1,6}(?:(?:, and |, | and )\d{1,6}){0,200})/gi;

/** Finds the start of the conclusion: the last word that announces one; 0 without any. */
function conclusionAt(text: string): number {
  let at = 0;
  for (const match of text.matchAll(MARKER)) at = match.index;
  return at;
}

/**
 * Compares the answer with what the reasoning concludes, as far as it names any: intervals (intersection over union of at least ½, an index
 * inside), variates and class. False where one differs; null where it names none.
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
  const parts = [
    answer.intervals === null
      ? null
      : intervalsAgree(text, conclusion, from, () => claims, answer.intervals, length),
    answer.variates == null ? null : variatesAgree(text, conclusion, answer.variates),
    answer.class === null || !namesClass ? null : classAgrees(conclusion, answer.class, classes),
  ].filter((agrees) => agrees !== null);
  return parts.length === 0 ? null : !parts.includes(false);
}

/** Compares intervals with those that a reasoning concludes; null where it names none. */
export function concludedIntervals(
  text: string,
  names: readonly string[],
  answered: readonly Interval[],
  length: number,
): boolean | null {
  const from = conclusionAt(text);
  return intervalsAgree(text, text.slice(from), from, () => claimsOf(text, names).claims, answered, length);
}

function intervalsAgree(
  text: string,
  conclusion: string,
  from: number,
  claimsIn: () => readonly Claim[], // not read where a scan concludes
  answered: readonly Interval[],
  length: number,
): boolean | null {
  const symbols = SCAN.exec(text)?.[1]?.replace(/\d/g, '.');
  if (symbols !== undefined) return symbols === scan(answered, length, symbols.length);
  const named = claimsIn().filter(({ quantity, negated }) => quantity === 'anomaly' && !negated);
  const last = named.filter(({ span }) => span[0] >= from);
  if (last.length === 0 && NOTHING.test(conclusion)) return answered.length === 0;
  const concluded = last.length > 0 ? last : named;
  if (concluded.length === 0) return null;
  const same = ({ within, numbers }: Claim, interval: Interval): boolean =>
    numbers.length === 1
      ? within![0] >= interval[0] - 1 && within![0] <= interval[1]
      : unionOverlap(within!, interval) >= SAME_STRETCH;
  const answeredAll = concluded.every((claim) => answered.some((interval) => same(claim, interval)));
  const others = OTHERS.test(conclusion);
  return (
    answeredAll && (others || answered.every((interval) => concluded.some((claim) => same(claim, interval))))
  );
}

function variatesAgree(text: string, conclusion: string, answered: readonly number[]): boolean | null {
  const symbols = SCAN.exec(text)?.[1];
  const ids =
    symbols === undefined
      ? [...conclusion.matchAll(VARIATES)].flatMap((match) => match[1]!.match(/\d+/g)!.map(Number))
      : [...symbols].flatMap((symbol, id) => (symbol === 'x' ? [id] : []));
  if (symbols === undefined && ids.length === 0)
    return NOTHING.test(conclusion) ? answered.length === 0 : null;
  const concluded = new Set(ids);
  return concluded.size === answered.length && answered.every((id) => concluded.has(id));
}

/** Letter of an option; "A sine" names none. */
const OPTION =
  /(?<![\p{L}\p{N}_])(?:[B-Z]|A(?!\s+(?!(?:or|and|is|as|but|since|because)\b)\p{Ll}))(?![\p{L}\p{N}_])/gu;

/** Null where the conclusion names no class, or several. */
function classAgrees(conclusion: string, answered: string, classes: readonly string[]): boolean | null {
  const known = [...new Set([...classes, answered])].sort((a, b) => b.length - a.length);
  if (known.every((name) => /^\p{Lu}$/u.test(name))) {
    const letters: readonly string[] = conclusion.match(OPTION) ?? [];
    const stated = known.filter((name) => letters.includes(name));
    return stated.length === 1 ? stated[0] === answered : null;
  }
  let rest = ` ${conclusion.toLowerCase().replaceAll('_', ' ')} `;
  const named = new Set<string>();
  for (const name of known) {
    const word = name.toLowerCase().replaceAll('_', ' ');
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

/** Finds pairs of claims about one quantity of one place that cannot both be true. */
function contradictionsOf(claims: readonly Claim[]): (readonly [Claim, Claim])[] {
  const first = new Map<string, Claim>();
  const pairs: [Claim, Claim][] = [];
  for (const claim of claims) {
    const { quantity, at, within, share, channel, relation, negated, numbers, range } = claim;
    if (relation !== 'is' || negated || range || claim.statement !== undefined || numbers.length !== 1)
      continue;
    if (quantity === 'anomaly' || quantity === 'place' || quantity === 'z' || quantity.endsWith(' of a part'))
      continue;
    // A value belongs to its index; other quantities do not.
    const key = `${quantity} ${quantity === 'value' ? at?.value : ''} ${within} ${share} ${channel}`;
    const before = first.get(key);
    if (before === undefined) first.set(key, claim);
    else if (!compatible(before, claim)) pairs.push([before, claim]);
  }
  return pairs;
}

function compatible(a: Claim, b: Claim): boolean {
  const [first, second] = [a.numbers[0]!, b.numbers[0]!];
  const part = a.hedged || b.hedged ? 0.2 : 0.02;
  const slack =
    first.rounding + second.rounding + part * Math.max(Math.abs(first.value), Math.abs(second.value));
  return Math.abs(first.value - second.value) <= slack;
}
