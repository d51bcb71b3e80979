/**
 * What a failed request to a hub means: whether asking again may help, and what the user can do. The codes in
 * `X-Error-Code` are the hub's own.
 */
import { EndpointError } from '../errors.ts';

/** Codes of connections that never came about, as against those that broke. */
const UNREACHABLE = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EACCES',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** A failure that may pass: `error` is what remains when it does not. */
export class Passing extends Error {
  readonly error: EndpointError;
  /** Seconds that the server asks to wait. */
  readonly wait: number | undefined;
  constructor(error: EndpointError, wait?: number) {
    super(error.message, { cause: error });
    this.error = error;
    this.wait = wait;
  }
}

/** Innermost cause of a failed fetch: its code, or its message. */
function causeOf(error: unknown): { code: string; message: string } {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  if (at instanceof AggregateError && at.errors[0] instanceof Error) at = at.errors[0];
  const code = at instanceof Error && 'code' in at && typeof at.code === 'string' ? at.code : '';
  return { code, message: at instanceof Error && at.message !== '' ? at.message : code || String(at) };
}

/** Seconds of a Retry-After header: a number or a date. */
function pauseOf(response: Response): number | undefined {
  const text = response.headers.get('retry-after');
  if (text === null) return undefined;
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** A connection that broke or never came about; only the latter is final, and only at the start. */
export function broken(
  endpoint: string,
  what: string,
  error: unknown,
  reached: boolean,
): Passing | EndpointError {
  const { code, message } = causeOf(error);
  if (/CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code)) {
    return new EndpointError(
      `${endpoint}: its certificate is not trusted (${message}); name your organisation's in NODE_EXTRA_CA_CERTS`,
      { cause: error },
    );
  }
  if (reached || !UNREACHABLE.has(code)) {
    return new Passing(
      new EndpointError(`${what}: the connection to ${endpoint} broke (${message})`, { cause: error }),
    );
  }
  const proxy = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].find((name) => process.env[name]);
  const through =
    proxy === undefined || process.env['NODE_USE_ENV_PROXY'] === '1'
      ? ''
      : `, set NODE_USE_ENV_PROXY=1 for Node to use ${proxy} (22.21, 24.5 or later)`;
  return new EndpointError(
    `${endpoint} cannot be reached (${message}); check the network${through}, name a mirror with --endpoint or ` +
      'HF_ENDPOINT, or download the files elsewhere and copy the directory here',
    { cause: error },
  );
}

/** What an answer means that is not what was asked for. */
export function refusal(
  endpoint: string,
  what: string,
  response: Response,
  withToken: boolean,
): Passing | EndpointError {
  const { status } = response;
  const reason = response.headers.get('x-error-code') ?? '';
  const by = `${endpoint} (status ${status})`;
  if (status === 408 || status === 429 || status >= 500) {
    const busy = status === 429 ? 'asks to slow down' : 'fails';
    return new Passing(
      new EndpointError(`${what}: ${by} ${busy}; run the same command again later to go on`),
      pauseOf(response),
    );
  }
  const token = withToken
    ? 'check that the token may read it'
    : 'pass a token of your account (HF_TOKEN or --token)';
  if (status === 403 || reason === 'GatedRepo') {
    return new EndpointError(
      `${what}: ${by} does not let you read it; accept its licence on its page there, and ${token}`,
    );
  }
  if (status === 401) {
    return new EndpointError(
      `${what}: ${by} finds no such repository, or it is private or gated; check the name; where it needs access, ` +
        `accept its licence on its page there, and ${token}`,
    );
  }
  if (status === 404) {
    const missing =
      reason === 'RevisionNotFound'
        ? 'has no such revision; check --revision'
        : reason === 'EntryNotFound'
          ? 'has no such file'
          : 'finds no such repository or revision; check the name and --revision';
    return new EndpointError(`${what}: ${by} ${missing}`);
  }
  return new EndpointError(`${what}: ${by} refuses`);
}
