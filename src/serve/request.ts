/** Requests: JSON bodies, and refusals with an HTTP status and the error object of OpenAI's interface. */
import { z } from 'zod';
import { TimeseerError } from '../ground/errors.ts';
import { isObject } from '../ground/json-record.ts';

/** Error object of OpenAI's interface. */
export const ERROR = z.object({
  message: z.string(),
  type: z.enum([
    'invalid_request_error',
    'authentication_error',
    'permission_error',
    'rate_limit_error',
    'server_error',
  ]),
  param: z.string().nullable().describe('parameter that is wrong, such as messages[0].content'),
  code: z.string().nullable(),
});
type ErrorObject = Readonly<z.infer<typeof ERROR>>;

/** Plain data, which can be sent between threads. */
export interface Refusal {
  readonly status: 400 | 401 | 403 | 404 | 405 | 406 | 408 | 413 | 415 | 429 | 499 | 500 | 503 | 504;
  readonly error: ErrorObject;
  readonly headers?: Readonly<Record<string, string>>;
}

export class Refused extends TimeseerError {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.error.message);
    this.refusal = refusal;
  }
}

/** Refusal of a kind of error. */
export const refused = (
  status: Refusal['status'],
  type: ErrorObject['type'],
  message: string,
  param: string | null = null,
  code: string | null = null,
  headers: Readonly<Record<string, string>> = {},
): Refused => new Refused({ status, error: { message, type, param, code }, headers });

/** Refusal for a client that has gone, so that nobody reads an answer; proxies log it as 499. */
export const clientGone = (): Refused => refused(499, 'invalid_request_error', 'the client has gone');

/** Refusal of a request with a wrong parameter. */
export const invalid = (
  message: string,
  param: string | null = null,
  code: string | null = null,
  status: Refusal['status'] = 400,
): Refused => refused(status, 'invalid_request_error', message, param, code);

/** Refusal that begins with the parameter at fault. */
export const wrong = (param: string, problem: string, code: string | null = null): Refused =>
  invalid(`${param}: ${problem}`, param, code);

/** Reply of a Worker: its answer, or the refusal. */
export type Outcome<T> = { readonly answer: T } | { readonly refusal: Refusal };

/** Runs `body` and returns its outcome; errors other than `Refused` pass through. */
export async function outcomeOf<T>(body: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { answer: await body() };
  } catch (error) {
    if (error instanceof Refused) return { refusal: error.refusal };
    throw error;
  }
}

/** @throws Refused where the Worker refused */
export function answerOf<T>(outcome: Outcome<T>): T {
  if ('refusal' in outcome) throw new Refused(outcome.refusal);
  return outcome.answer;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Describes a value in messages. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'an array';
  if (isObject(value)) return 'an object';
  const text = typeof value === 'number' ? String(value) : JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
}

/** Parses a body. @throws Refused (400) for anything but a JSON object in UTF-8 */
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

/** Media types that the client takes, the best first. */
export function accepted(header: string): { type: string; quality: number }[] {
  return header
    .split(',')
    .map((part) => {
      const [type = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
      const stated = parameters.find((text) => text.startsWith('q='));
      return { type, quality: stated === undefined ? 1 : Number(stated.slice(2)) };
    })
    .filter(({ type, quality }) => type !== '' && quality > 0)
    .sort((a, b) => b.quality - a.quality);
}

/** Media type of an answer in events: progress, findings, the report. */
export const EVENTS = 'text/event-stream';
/** Returns true for a client that prefers an answer in events. */
export const wantsEvents = (accept = ''): boolean => accepted(accept)[0]?.type === EVENTS;
