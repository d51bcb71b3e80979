/** Lists in square brackets, `[item, item, …]`: a fixed grammar over bounded text, nothing is evaluated. */

/** What one kind of list holds. */
export interface ListGrammar<T> {
  /** Sticky; matches one item at its `lastIndex`. */
  readonly item: RegExp;
  /** The item's value; why the list is refused for it; or null: it is left out. */
  read(match: RegExpExecArray): T | string | null;
  /** Most items that a list may have. */
  readonly most: number;
  /** The list, as in "the answer is not a list of …". */
  readonly list: string;
  /** One item, as in "expected …". */
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

/**
 * The items of a list, in the order written; or why `text` is not such a list: white space of JSON may stand anywhere
 * between signs and numbers, nothing else may stand around the list.
 */
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
