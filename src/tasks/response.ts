/**
 * Reads responses with a fixed grammar over text of bounded length; nothing is evaluated as code. A response
 * consists of tagged parts, `<think>…</think><answer>…</answer>…`; the answer kind defines which, and their content.
 *
 * Each part is read on its own, so a response with a format fault can still earn the other rewards. `wellFormed`
 * requires exactly the parts of the kind, in order, each valid and not blank, with only white space around them.
 *
 * Readings:
 * - `lenient` (default) accepts what the releases of both papers accept: tags in any case; the last of several
 *   answers; the first of several classes; classes in any case and white space (`contextual` and `global` for the
 *   point anomalies); numbers such as 100.0, truncated to integers. Intervals are clipped to the series; empty,
 *   reversed and outside ones are dropped. A list whose items are all dropped is unreadable, so that it is not taken
 *   for "nothing is anomalous".
 * - `strict` reads a part only if it is valid.
 *
 * The format reward is `wellFormed`, which is strict in both readings. The releases check less: TimeMaster only for a
 * known class, AnomSeer for the three parts anywhere. Unlike the releases, Python literals (evaluated as code there)
 * and objects in place of pairs are not accepted, and an interval that begins before the series is clipped, where
 * AnomSeer drops it.
 */
import { DataError } from '../ground/errors.ts';

/** Leniency in reading an answer; the format reward is always strict. */
export const READINGS = ['lenient', 'strict'] as const;
export type Reading = (typeof READINGS)[number];

/** Markup that no text of the data may contain, because it belongs to answers or the chat: tags, and special tokens such as <|im_end|>. */
export const RESERVED = /<\/?(?:think|answer|class|extension)>|<\|[^|]*\|>/i;

/** Maximum length of a response in UTF-16 units; longer ones are not read. Usual: a few thousand. */
export const MAX_RESPONSE_LENGTH = 200_000;

/** Tag names of a kind of response, in order, and the pattern that finds them. */
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
  /** First deviation from exactly these parts in this order; null without one. */
  readonly problem: string | null;
  /**
   * Returns a part. If its tags are repeated, interleaved or in another case, a lenient reading takes the first (`which` 0) or last (−1)
   * text between them.
   */
  readonly part: (name: string, which?: 0 | -1) => string | null;
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
export function readTagged(text: string, format: TagFormat, reading: Reading): TaggedParts {
  const parts: Record<string, string | null> = {};
  for (const name of format.names) parts[name] = null;
  const part = (name: string, which: 0 | -1 = 0): string | null =>
    parts[name] ?? (reading === 'strict' ? null : (taggedTexts(text, name).at(which) ?? null));
  if (text.length > MAX_RESPONSE_LENGTH) {
    return { parts, part, problem: `longer than ${MAX_RESPONSE_LENGTH} characters` };
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
  return { parts, part, problem: layoutProblem(text, tags, format) };
}

/** Returns all texts between tags of one name (in any case), in order; used for malformed responses. */
function taggedTexts(text: string, name: string): string[] {
  const texts: string[] = [];
  if (text.length > MAX_RESPONSE_LENGTH) return texts;
  let from: number | null = null;
  for (const tag of text.matchAll(new RegExp(`<(/?)${name}>`, 'gi'))) {
    if (tag[1] === '') from ??= tag.index + tag[0].length;
    else if (from !== null) {
      texts.push(text.slice(from, tag.index));
      from = null;
    }
  }
  return texts;
}

/** Returns the span inside the first `<think>` tags (in any case); null if a tag is missing or nothing is between. */
export function reasoningRange(text: string): readonly [start: number, end: number] | null {
  if (text.length > MAX_RESPONSE_LENGTH) return null;
  const opening = /<think>/i.exec(text);
  if (opening === null) return null;
  const start = opening.index + opening[0].length;
  const length = text.slice(start).search(/<\/think>/i);
  return length < 1 ? null : [start, start + length];
}

/** Returns the trimmed label; null unless it is one line of 1 to 200 characters (code points). */
export function readLabel(text: string | null): string | null {
  const label = text?.trim() ?? '';
  return label === '' || [...label].length > 200 || /[\n\r]/.test(label) ? null : label;
}

/** Folds a label: lower case, single blanks. */
export const folded = (label: string): string => label.trim().replace(/\s+/g, ' ').toLowerCase();

/**
 * Returns the class that a label names, ignoring case and white space; if it names none or several, the label
 * itself on one line. `others` maps further spellings (folded) to classes.
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
  /** Returns the item's value, null to drop the item, or a reason to reject the whole list. */
  read(match: RegExpExecArray): T | string | null;
  /** Maximum number of items. */
  readonly most: number;
  /** The list, as in "the answer is not a list of …". */
  readonly list: string;
  /** Name of an item, as in "expected …". */
  readonly itemName: string;
  /** Items, as in "more than 1000 …". */
  readonly itemsName: string;
}

/** An integer without sign, at most nine digits, no leading zero. */
export const INTEGER = String.raw`(0|[1-9]\d{0,8})`;
/** JSON number, with optional sign, fraction and exponent. */
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
      if (match === null) return `expected ${grammar.itemName} at character ${at} of the answer`;
      at = grammar.item.lastIndex;
      const value = grammar.read(match);
      if (typeof value === 'string') return value;
      if (count++ === grammar.most) return `more than ${grammar.most} ${grammar.itemsName}`;
      if (value !== null) items.push(value);
      at = skip(text, at);
      if (text[at] === ']') break;
      if (text[at] !== ',') return `expected "," or "]" at character ${at} of the answer`;
      at = skip(text, at + 1);
    }
  }
  if (skip(text, at + 1) !== text.length) return 'text after the list of the answer';
  // All items were dropped. Returning [] would make it "nothing is anomalous", which is a different answer.
  return count > 0 && items.length === 0 ? `none of the ${grammar.itemsName} is in the series` : items;
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
