/** Where a text stops being JSON: the parser's own messages often name no position. */

const TOKEN =
  /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null))/uy;
const BLANKS = /[ \t\n\r]*/y;

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma' | 'end';

/** What may follow a token; null when the token may not stand there. */
function step(expected: Expected, token: string, text: boolean, open: string[]): Expected | null {
  const close = (): Expected => {
    open.pop();
    return open.length === 0 ? 'end' : 'comma';
  };
  if (expected === 'colon') return token === ':' ? 'value' : null;
  if (expected === 'comma' && token === ',') return open.at(-1) === '{' ? 'key' : 'value';
  if (token === '}')
    return open.at(-1) === '{' && (expected === 'comma' || expected === 'key or }') ? close() : null;
  if (token === ']')
    return open.at(-1) === '[' && (expected === 'comma' || expected === 'value or ]') ? close() : null;
  if (expected === 'key' || expected === 'key or }') return text ? 'colon' : null;
  if (expected !== 'value' && expected !== 'value or ]') return null;
  if (token === '{' || token === '[') {
    open.push(token);
    return token === '{' ? 'key or }' : 'value or ]';
  }
  if (token === ',' || token === ':') return null;
  return open.length === 0 ? 'end' : 'comma';
}

/** Line and column, from 1, of the first token that JSON does not allow, or of the end where something is missing. */
export function jsonPlace(text: string): { line: number; column: number } {
  const open: string[] = [];
  let expected: Expected | null = 'value';
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (match === null) break;
    expected = step(expected, match[1] ?? match[2] ?? match[3]!, match[2] !== undefined, open);
    if (expected === null) break;
    at = TOKEN.lastIndex;
  }
  BLANKS.lastIndex = at;
  BLANKS.exec(text);
  const before = text.slice(0, BLANKS.lastIndex).split('\n');
  return { line: before.length, column: before.at(-1)!.length + 1 };
}
