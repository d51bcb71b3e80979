/**
 * Strict reader of JSON objects, one per line of text: exactly the known fields, messages that name the
 * field.
 */
import type { z } from 'zod';
import { ConfigError, DataError, suggestion } from './errors.ts';

/** Location of a record, put in front of every message about it. */
export interface Place {
  readonly file?: string;
  readonly line?: number;
}

/** Object of JSON: neither a list nor null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Values of a nested record by key, with dots between levels (`parts.format`). */
export function leavesOf(tree: object, prefix = ''): [key: string, value: unknown][] {
  return Object.entries(tree).flatMap(([key, value]): [string, unknown][] =>
    isObject(value) ? leavesOf(value, `${prefix}${key}.`) : [[`${prefix}${key}`, value]],
  );
}

/** Formats a value for a message: JSON, cut off at 60 characters. */
export function show(value: unknown): string {
  let text: string;
  try {
    text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  } catch {
    return 'a value that is nested too deep to be shown';
  }
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** True when no continuation of the text can be JSON; false when it is JSON or merely ends too early. */
function isBroken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    const message = String((error as Error).message);
    return !message.includes('end of JSON') && !message.includes(`position ${text.length}`);
  }
}

/** The 1-based place in a text of its JSON syntax error, by bisection: the engine names it for some errors only. */
export function syntaxColumn(text: string): number {
  let whole = 0;
  let broken = text.length + 1;
  while (broken - whole > 1) {
    const middle = (whole + broken) >>> 1;
    if (isBroken(text.slice(0, middle))) broken = middle;
    else whole = middle;
  }
  return broken;
}

/**
 * @param what names the object where it is part of a record
 * @param optional fields that may be absent
 * @throws DataError unless `value` is an object with exactly `fields`
 */
export function checkFields(
  value: unknown,
  fields: readonly string[],
  at: Place,
  what = '',
  optional: readonly string[] = [],
): Record<string, unknown> {
  const lead = what === '' ? '' : `${what}: `;
  if (!isObject(value)) {
    throw new DataError(`${lead}got ${show(value)}, expected an object with ${fields.join(', ')}`, at);
  }
  for (const name of fields) {
    if (!Object.hasOwn(value, name)) throw new DataError(`${lead}${name}: missing`, at);
  }
  for (const name of Object.keys(value)) {
    if (!fields.includes(name) && !optional.includes(name)) {
      throw new DataError(
        `${lead}${show(name)}: unknown field; known: ${[...fields, ...optional].join(', ')}`,
        at,
      );
    }
  }
  return value;
}

/** States why a text is not JSON, from the error of `JSON.parse`; Python writes numbers that JSON does not have. */
export const jsonProblem = (text: string, { message }: Error): string =>
  /^(?:Unexpected token '[NI]'|No number after minus)/u.test(message) && /NaN|Infinity/u.test(text)
    ? 'not JSON, which has no NaN and no Infinity: write null where a value is missing'
    : `not JSON: ${message}`;

/** @throws DataError with column (syntax) or field (content) unless `text` is an object with exactly `fields`, `optional` ones aside */
export function parseRecord(
  text: string,
  fields: readonly string[],
  at: Place,
  optional: readonly string[] = [],
): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const place = { ...at, column: syntaxColumn(text), cause };
    throw new DataError(jsonProblem(text, cause as Error), place);
  }
  return checkFields(value, fields, at, '', optional);
}

export function stringField(record: Record<string, unknown>, name: string, at: Place): string {
  const value = record[name];
  if (typeof value === 'string') return value;
  throw new DataError(`${name}: got ${show(value)}, expected text`, at);
}

export function listField(record: Record<string, unknown>, name: string, at: Place): unknown[] {
  const value = record[name];
  if (Array.isArray(value)) return value;
  throw new DataError(`${name}: got ${show(value)}, expected a list`, at);
}

/** @throws ConfigError naming the first key of a program's options that is none of `known`, and the nearest that is */
export function checkKeys(what: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    throw new ConfigError(
      `${what}: ${key}: unknown key.${suggestion(key, known)} Known: ${known.join(', ')}`,
    );
  }
}

/** @throws ConfigError unless an option of the command line is absent, or a whole number from `least` to `most` */
export function checkWhole(
  option: string,
  value: number | undefined,
  least: number,
  most: number = Number.MAX_SAFE_INTEGER,
): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= least && value <= most)) return;
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  throw new ConfigError(`--${option}: expected a whole number ${range}, got ${value}`);
}

/** Describes what a failed zod check expected, as the end of `got …, expected …`. */
export function expected(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected === 'int'
        ? 'an integer'
        : `${/^[aeiou]/.test(issue.expected) ? 'an' : 'a'} ${issue.expected}`;
    case 'too_small':
      return issue.origin === 'string'
        ? 'a non-empty string'
        : issue.origin === 'array'
          ? `${issue.minimum} entries`
          : `a number ${issue.inclusive === false ? '>' : '≥'} ${issue.minimum}`;
    case 'too_big':
      return issue.origin === 'array'
        ? `${issue.maximum} entries`
        : `a number ${issue.inclusive === false ? '<' : '≤'} ${issue.maximum}`;
    case 'invalid_value':
      return `one of ${issue.values.map(String).join(', ')}`;
    default:
      return issue.message;
  }
}

/** Value at a path of a tree; undefined where there is none. */
export function valueAt(tree: unknown, path: readonly PropertyKey[]): unknown {
  let value = tree;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

/** Formats a value of a tree for a message. */
export const shown = (value: unknown): string => (value === undefined ? 'nothing' : show(value));

/** Describes an issue: `splits.train.count: got null, expected a number`. `root`: name of the whole tree. */
export function issueText(issue: z.core.$ZodIssue, tree: unknown, root: string): string {
  const path = [...issue.path];
  if (issue.code === 'unrecognized_keys') {
    return `${[...path, issue.keys[0]!].map(String).join('.')}: unknown; leave it out`;
  }
  const field = path.length === 0 ? root : path.map(String).join('.');
  const wanted = expected(issue);
  // A message of the schema's own may be a whole sentence, or only what was expected.
  const complete = wanted === issue.message && !wanted.startsWith('expected ');
  return complete
    ? `${field}: ${wanted}`
    : `${field}: got ${shown(valueAt(tree, path))}, expected ${wanted.replace(/^expected /, '')}`;
}
