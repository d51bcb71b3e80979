/** What a failed check of zod wanted, in words. */
import type { z } from 'zod';

/** What was expected instead, as the end of `got …, expected …`. */
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

function valueAt(tree: unknown, path: readonly PropertyKey[]): unknown {
  let value = tree;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

/** A value as messages repeat it: JSON, cut off where it is long. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/**
 * The first thing that is wrong with `tree`: `splits.train.count: got null, expected a number`.
 *
 * @param root what the tree as a whole is called
 */
export function issueText(issue: z.core.$ZodIssue, tree: unknown, root: string): string {
  const path = [...issue.path];
  if (issue.code === 'unrecognized_keys') {
    return `${[...path, issue.keys[0]!].map(String).join('.')}: unknown; leave it out`;
  }
  const field = path.length === 0 ? root : path.map(String).join('.');
  const wanted = expected(issue);
  // A message of the schema's own may be a whole sentence, or only what was expected.
  const own = wanted === issue.message && !wanted.startsWith('expected ');
  return own
    ? `${field}: ${wanted}`
    : `${field}: got ${shown(valueAt(tree, path))}, expected ${wanted.replace(/^expected /, '')}`;
}
