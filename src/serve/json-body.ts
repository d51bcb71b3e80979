/** The JSON body of a request. */
import { invalid } from './refused.ts';

export type Fields = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Words for what a value is, for messages. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'an array';
  if (isObject(value)) return 'an object';
  const text = typeof value === 'number' ? String(value) : JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
}

/** @throws Refused (400) for what is not a JSON object in UTF-8 */
export function parseBody(body: Uint8Array): Fields {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (cause) {
    throw invalid(`the body is not JSON: ${(cause as Error).message}`, null, 'invalid_json');
  }
  if (!isObject(value)) throw invalid(`the body must be a JSON object, got ${shown(value)}`);
  return value;
}
