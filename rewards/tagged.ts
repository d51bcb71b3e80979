/** Responses made of tagged parts, `<think>…</think><answer>…</answer>…`: never evaluated. */

/** Longest response that is looked at, in UTF-16 units; real ones have a few thousand. */
export const MAX_RESPONSE_LENGTH = 200_000;

/** The tags that a kind of response consists of, in order. */
export interface TagFormat {
  readonly names: readonly string[];
  readonly pattern: RegExp;
}

export function tagFormat(...names: readonly string[]): TagFormat {
  return { names, pattern: new RegExp(`</?(?:${names.join('|')})>`, 'g') };
}

export interface TaggedParts {
  /** Text between the tags of each name; null where the pair is absent, repeated or interleaved. */
  readonly parts: Readonly<Record<string, string | null>>;
  /** Why the response is not exactly these parts in this order; null when it is. */
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
 * Finds the tagged parts. A part counts where its opening tag occurs once, its closing tag once, and no other
 * tag of the format stands between them, so that a response cannot offer several answers. `problem` also
 * covers order and text outside the parts; what a part must contain is the caller's business.
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
    const own = tags.filter((tag) => tag.text === `<${name}>` || tag.text === `</${name}>`);
    const opening = own[0];
    if (opening === undefined || own.length !== 2 || opening.text !== `<${name}>`) continue;
    const closing = tags[tags.indexOf(opening) + 1]!;
    if (closing.text === `</${name}>`) parts[name] = text.slice(opening.end, closing.start);
  }
  return { parts, problem: layoutProblem(text, tags, format) };
}

/**
 * Text between all tags of a name in whatever case, in order: from an opening tag to the next closing one. What a response
 * that is not well formed offers; which of several counts is the caller's business.
 */
export function offered(text: string, name: string): string[] {
  const found: string[] = [];
  if (text.length > MAX_RESPONSE_LENGTH) return found;
  let from: number | null = null;
  for (const tag of text.matchAll(new RegExp(`<(/?)${name}>`, 'gi'))) {
    if (tag[1] === '') from ??= tag.index + tag[0].length;
    else if (from !== null) {
      found.push(text.slice(from, tag.index));
      from = null;
    }
  }
  return found;
}

/** A trimmed, non-empty, one-line label of at most 200 characters (code points); null otherwise. */
export function readLabel(text: string | null): string | null {
  const label = text?.trim() ?? '';
  return label === '' || [...label].length > 200 || /[\n\r]/.test(label) ? null : label;
}

const folded = (label: string): string => label.trim().replace(/\s+/g, ' ').toLowerCase();

/**
 * The class that a label names in whatever case and white space; the label in one line where it names none of them, or
 * several. `others`: further spellings, folded, with their classes.
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
