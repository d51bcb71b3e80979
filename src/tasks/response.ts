/**
 * Reads responses: a fixed grammar over bounded text, nothing is evaluated. A response consists of tagged parts,
 * `<think>…</think><answer>…</answer>…`; which ones, and what they hold, is up to the kind of answer.
 *
 * Each part is read on its own, so a response with a format fault can still earn the rest; `wellFormed` demands exactly
 * the parts of the kind, in order, with only white space around them, none of them blank, each valid.
 *
 * Readings. `lenient`, the default, takes what both papers' releases take: a class in any case and white space (`contextual` and
 * `global` for the points); numbers such as 100.0, cut to integers; intervals cut to the series, those that are empty, reversed
 * or outside of it left out while the others count; tags in any case; of several answers the last, of several classes the
 * first. A list of which nothing is left is unreadable, so that it is not taken for "nothing is anomalous". `strict` reads a part
 * only where it is valid. `wellFormed`, which the format reward is, is strict in both; the releases' is not: TimeMaster's asks
 * for a known class alone, AnomSeer's for the three parts anywhere. Not taken over: Python literals, which they evaluate as code,
 * and objects in place of pairs. An interval that begins before the series is cut; AnomSeer's drops it.
 */
import { DataError } from '../ground/errors.ts';

/** Leniency in reading an answer; the format reward is always strict. */
export const READINGS = ['lenient', 'strict'] as const;
export type Reading = (typeof READINGS)[number];

/** Longest response that is looked at, in UTF-16 units; real ones have a few thousand. */
export const MAX_RESPONSE_LENGTH = 200_000;

/** The tags that a kind of response consists of, in order. */
interface TagFormat {
  readonly names: readonly string[];
  readonly pattern: RegExp;
}

export function tagFormat(...names: readonly string[]): TagFormat {
  return { names, pattern: new RegExp(`</?(?:${names.join('|')})>`, 'g') };
}

interface TaggedParts {
  /** Text between the tags of each name; null where the pair is absent, repeated or interleaved. */
  readonly parts: Readonly<Record<string, string | null>>;
  /** Reason why the response is not exactly these parts in this order; null when it is. */
  readonly problem: string | null;
}

interface Tag {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const BLANK = /^\s*$/;

function layoutProblem(text: string, tags: readonly Tag[], format: TagFormat): string | null {
  const expected = format.names.flatMap((name) => [`<${name}>`, `</${name}>`]);
  for (let i = 0; i < expected.length; i++) {
    const tag = tags[i];
    if (tag === undefined) return `${expected[i]} is missing`;
    if (tag.text !== expected[i]) return `expected ${expected[i]}, found ${tag.text}`;
    const outside = i % 2 === 0;
    if (outside && !BLANK.test(text.slice(tags[i - 1]?.end ?? 0, tag.start))) {
      return `text before ${tag.text}`;
    }
  }
  const extra = tags[expected.length];
  if (extra !== undefined) return `${extra.text} appears again`;
  if (!BLANK.test(text.slice(tags[expected.length - 1]!.end))) return `text after ${expected.at(-1)}`;
  return null;
}

/**
 * Finds the tagged parts. A part counts only if its tags occur once each with no other tag of the format
 * between them, so that a response cannot offer several answers. `problem` covers order and text outside the
 * parts, not their content.
 */
export function readTagged(text: string, format: TagFormat): TaggedParts {
  const parts: Record<string, string | null> = {};
  for (const name of format.names) parts[name] = null;
  if (text.length > MAX_RESPONSE_LENGTH) {
    return { parts, problem: `longer than ${MAX_RESPONSE_LENGTH} characters` };
  }
  const tags: Tag[] = [];
  for (const match of text.matchAll(format.pattern)) {
    tags.push({ text: match[0], start: match.index, end: match.index + match[0].length });
  }
  for (const name of format.names) {
    const pair = tags.filter((tag) => tag.text === `<${name}>` || tag.text === `</${name}>`);
    const opening = pair[0];
    if (opening === undefined || pair.length !== 2 || opening.text !== `<${name}>`) continue;
    const closing = tags[tags.indexOf(opening) + 1]!;
    if (closing.text === `</${name}>`) parts[name] = text.slice(opening.end, closing.start);
  }
  return { parts, problem: layoutProblem(text, tags, format) };
}

/** Finds the texts between the tags of a name, in any case, in order: the parts of a malformed response. */
function offered(text: string, name: string): string[] {
  const offers: string[] = [];
  if (text.length > MAX_RESPONSE_LENGTH) return offers;
  let from: number | null = null;
  for (const tag of text.matchAll(new RegExp(`<(/?)${name}>`, 'gi'))) {
    if (tag[1] === '') from ??= tag.index + tag[0].length;
    else if (from !== null) {
      offers.push(text.slice(from, tag.index));
      from = null;
    }
  }
  return offers;
}

/** Span of the first reasoning of a text, without its tags (any case); null where a tag is missing or nothing is between. */
export function reasoningRange(text: string): readonly [start: number, end: number] | null {
  if (text.length > MAX_RESPONSE_LENGTH) return null;
  const opening = /<think>/i.exec(text);
  if (opening === null) return null;
  const start = opening.index + opening[0].length;
  const length = text.slice(start).search(/<\/think>/i);
  return length < 1 ? null : [start, start + length];
}

/** A trimmed, non-empty, one-line label of at most 200 characters (code points); null otherwise. */
export function readLabel(text: string | null): string | null {
  const label = text?.trim() ?? '';
  return label === '' || [...label].length > 200 || /[\n\r]/.test(label) ? null : label;
}

const folded = (label: string): string => label.trim().replace(/\s+/g, ' ').toLowerCase();

/**
 * Finds the class that a label names, ignoring case and white space; the label in one line if it names none
 * or several. `others`: further spellings, folded, with their classes.
 */
export function nameClass(
  text: string | null,
  classes: readonly string[],
  others: Readonly<Record<string, string>> = {},
): string | null {
  const exact = readLabel(text);
  if (exact !== null && classes.includes(exact)) return exact;
  const label = readLabel(text?.replace(/\s+/g, ' ') ?? null);
  if (label === null) return null;
  const key = folded(label);
  const same = classes.filter((name) => folded(name) === key);
  if (same.length === 1) return same[0]!;
  return same.length === 0 && Object.hasOwn(others, key) ? others[key]! : label;
}

/** Element type of one kind of list. */
interface ListGrammar<T> {
  /** Sticky; matches one item at its `lastIndex`. */
  readonly item: RegExp;
  /** The item's value; why the list is refused for it; or null: it is left out. */
  read(match: RegExpExecArray): T | string | null;
  /** Most items that a list may have. */
  readonly most: number;
  /** The list, as in "the answer is not a list of …". */
  readonly list: string;
  /** Name of an item, as in "expected …". */
  readonly one: string;
  /** Items, as in "more than 1000 …". */
  readonly many: string;
}

/** An integer without sign, at most nine digits, no leading zero. */
export const INTEGER = String.raw`(0|[1-9]\d{0,8})`;
/** A number of JSON: with a sign, a fraction or an exponent too. */
export const JSON_NUMBER = String.raw`(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)`;
/** White space of JSON. */
export const GAP = String.raw`[ \t\n\r]*`;

const SPACE = new RegExp(GAP, 'y');

function skip(text: string, at: number): number {
  SPACE.lastIndex = at;
  SPACE.test(text);
  return SPACE.lastIndex;
}

/** Returns the items of a list in order, or the reason why `text` is no such list. White space as in JSON. */
export function readList<T extends object | number>(text: string, grammar: ListGrammar<T>): T[] | string {
  let at = skip(text, 0);
  if (text[at] !== '[') return `the answer is not a list of ${grammar.list}`;
  at = skip(text, at + 1);
  const items: T[] = [];
  let count = 0;
  if (text[at] !== ']') {
    for (;;) {
      grammar.item.lastIndex = at;
      const match = grammar.item.exec(text);
      if (match === null) return `expected ${grammar.one} at character ${at} of the answer`;
      at = grammar.item.lastIndex;
      const value = grammar.read(match);
      if (typeof value === 'string') return value;
      if (count++ === grammar.most) return `more than ${grammar.most} ${grammar.many}`;
      if (value !== null) items.push(value);
      at = skip(text, at);
      if (text[at] === ']') break;
      if (text[at] !== ',') return `expected "," or "]" at character ${at} of the answer`;
      at = skip(text, at + 1);
    }
  }
  if (skip(text, at + 1) !== text.length) return 'text after the list of the answer';
  // A list of nothing but what is left out names nothing, which is another answer than the empty list.
  return count > 0 && items.length === 0 ? `none of the ${grammar.many} is in the series` : items;
}

/** @throws DataError unless `count` is a positive integer */
export function checkCount(caller: string, what: string, count: number): void {
  if (Number.isInteger(count) && count >= 1) return;
  throw new DataError(`${caller}: ${what} ${count} is not a positive integer`);
}

/** Problem text for a missing list. */
export const MISSING = 'the answer is missing';

export const thinkProblem = (think: string | null): string | null =>
  think?.trim() === '' ? 'the think part is blank' : null;

export const labelProblem = (label: string | null): string | null =>
  label === null ? 'the class is blank, too long or more than one line' : null;

/** A part that stands where it should; where it does not, and the reading is lenient, what the response offers in its place. */
export function partOf(
  { parts }: TaggedParts,
  name: string,
  response: string,
  reading: Reading,
  which: 0 | -1 = 0,
): string | null {
  return parts[name] ?? (reading === 'strict' ? null : (offered(response, name).at(which) ?? null));
}
