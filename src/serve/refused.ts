/** A request that is refused, with the HTTP status and the error object that OpenAI's interface answers with. */
import { TimeseerError } from '../ground/errors.ts';

export interface ErrorObject {
  readonly message: string;
  readonly type:
    | 'invalid_request_error'
    | 'authentication_error'
    | 'permission_error'
    | 'rate_limit_error'
    | 'server_error';
  /** The parameter that is wrong, such as `messages[0].content`. */
  readonly param: string | null;
  readonly code: string | null;
}

/** As plain data, which survives the way between threads. */
export interface Refusal {
  readonly status: 400 | 401 | 403 | 404 | 405 | 406 | 413 | 415 | 429 | 499 | 500 | 503 | 504;
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

/** The client has gone, so that nobody reads an answer. 499 is what proxies log for it. */
export function clientGone(): Refused {
  const error = {
    message: 'the client has gone',
    type: 'invalid_request_error',
    param: null,
    code: null,
  } as const;
  return new Refused({ status: 499, error });
}

/** A request with a wrong parameter. */
export function invalid(
  message: string,
  param: string | null = null,
  code: string | null = null,
  status: Refusal['status'] = 400,
): Refused {
  return new Refused({ status, error: { message, type: 'invalid_request_error', param, code } });
}

/** What a Worker replies: its answer, or why there is none. */
export type Outcome<T> = { readonly answer: T } | { readonly refusal: Refusal };

/** The outcome of `body`; errors other than `Refused` pass through. */
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
