/**
 * Ranges of a Prometheus server, or of one that speaks its HTTP API (Thanos, Mimir, VictoriaMetrics): `query_range`, split where a series
 * would have more samples than a request may ask for. The token goes to the address that was given and nowhere else: redirects are refused.
 */
import { z } from 'zod';
import { broken, isBusy, Passing, retry, retryAfter } from '../ground/download.ts';
import { ConfigError, DataError, EndpointError } from '../ground/errors.ts';
import {
  excerpt,
  issueOf,
  openConnections,
  type Posted,
  parsed,
  serverAddress,
  Timeout,
} from './requests.ts';

interface RangeQuery {
  /** Address of the server, with or without `/api/v1/query_range`. */
  readonly url: string;
  readonly query: string;
  /** First and last time in ms since 1970; both whole steps. */
  readonly from: number;
  readonly to: number;
  readonly step: number; // ms
  /** Bearer token; null: none. */
  readonly token: string | null;
  /** Certificates (PEM) of authorities to trust beside the usual ones. */
  readonly ca?: string | undefined;
  /** Seconds until a request counts as failed; default 60. */
  readonly timeout?: number | undefined;
  /** ms of back-off after the first failure; default 1000. */
  readonly pause?: number | undefined;
}

export interface Range {
  /** [N] ms since 1970: the steps at which some series has a sample. */
  readonly time: Float64Array;
  /** Series by name, `up{instance="a:9100",job="node"}`; NaN where a sample is missing. */
  readonly columns: readonly { readonly name: string; readonly values: Float64Array }[];
  /** Warnings of the server, each once: the data may be partial. */
  readonly warnings: readonly string[];
  /** Number of values that are infinite, which count as missing. */
  readonly infinite: number;
}

/** Samples of a series that a server gives in one answer. */
const MOST_OF_A_REQUEST = 11_000;
/** Series, and values of all of them, that are read at most. */
const [MOST_SERIES, MOST_VALUES] = [1000, 2_000_000];
/** Bytes of one answer: all values of a request. */
const LONGEST = 2 ** 27;
const ATTEMPTS = 4;

const FAILURE = z.object({ status: z.literal('error'), errorType: z.string(), error: z.string() });
const SAMPLE = z.tuple([z.number(), z.string()]);
const MATRIX = z.object({
  status: z.literal('success'),
  data: z.object({
    resultType: z.literal('matrix', { error: 'the query gives no series over time' }),
    result: z.array(
      z.object({ metric: z.record(z.string(), z.string()), values: z.array(SAMPLE).optional() }),
    ),
  }),
  warnings: z.array(z.string()).nullish(),
});

/** Name of a series in Prometheus' own notation; of one without labels the query. */
export function seriesName(metric: Readonly<Record<string, string>>, query: string): string {
  const { __name__: name = '', ...labels } = metric;
  const pairs = Object.entries(labels)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  if (pairs.length === 0) return name === '' ? query : name;
  return `${name}{${pairs.join(',')}}`;
}

const ADVICE: Readonly<Record<number, string>> = {
  401: 'give a valid token with --token-file or in the environment',
  403: 'the token gives no right to query',
  404: 'check the address: the API is expected at /api/v1 below it',
  405: 'check the address: the API is expected at /api/v1 below it',
};

/** Explains a refusal. @returns what may pass, or the error */
function refusal(response: Posted, body: unknown, shown: string): Error {
  const { status, text } = response;
  const failure = FAILURE.safeParse(body);
  if (status >= 300 && status < 400)
    return new EndpointError(`${shown}: redirects elsewhere (status ${status})`, {
      advice: 'name the address that answers itself: the token goes nowhere else',
    });
  const said = failure.success ? `${failure.data.errorType}: ${excerpt(failure.data.error)}` : excerpt(text);
  if (failure.success && /^(?:bad_data|execution)$/.test(failure.data.errorType) && status < 500)
    return new ConfigError(`--query: ${shown} refuses it (${said})`);
  const advice = ADVICE[status];
  const error = new EndpointError(
    `${shown}: answers with status ${status}${said === '' ? '' : ` (${said})`}`,
    advice === undefined ? {} : { advice },
  );
  return isBusy(response) ? new Passing(error, retryAfter(response)) : error;
}

/**
 * Reads a range of all series of a query.
 * @throws ConfigError for a query or an address that is wrong; EndpointError; DataError for an empty or too large result; the signal's reason
 */
export async function readRange(
  { url, query, from, to, step, token, ca, timeout = 60, pause = 1000 }: RangeQuery,
  signal: AbortSignal,
  onRetry?: (message: string) => void,
): Promise<Range> {
  const address = serverAddress(url, '--prometheus', 'http://localhost:9090');
  const path = address.pathname.replace(/\/+$/, '').replace(/\/api\/v1(?:\/query_range)?$/, '');
  address.pathname = `${path}/api/v1/query_range`;
  const shown = `${address.origin}${address.pathname}`;
  const headers = {
    ...{ 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  };
  const post = openConnections(address, headers, { ca, longest: LONGEST });
  const masked = (text: string): string => (token === null ? text : text.replaceAll(token, '[token]'));
  let reached = false;
  const ask = async (first: number, last: number): Promise<z.infer<typeof MATRIX>> => {
    const form = new URLSearchParams({
      ...{ query, start: String(first / 1000), end: String(last / 1000), step: String(step / 1000) },
    });
    const response = await post(Buffer.from(form.toString()), timeout, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      if (error instanceof Timeout)
        throw new Passing(new EndpointError(`${shown}: no answer within ${timeout} s`));
      throw broken({ address: shown, remedy: 'correct --prometheus' }, 'Prometheus', error, reached);
    });
    reached = true;
    const answer = { ...response, text: masked(response.text) };
    const body = parsed(answer.text);
    if (answer.status !== 200 || FAILURE.safeParse(body).success) throw refusal(answer, body, shown);
    const matrix = MATRIX.safeParse(body);
    if (matrix.success) return matrix.data;
    const what = body === undefined ? excerpt(answer.text) || 'nothing' : issueOf(matrix.error);
    throw new EndpointError(`${shown}: sends no result of a range query (${what})`, {
      advice: 'check the address: the API is expected at /api/v1 below it',
    });
  };
  const places = Math.round((to - from) / step) + 1;
  if (places > MOST_VALUES)
    throw new ConfigError(
      `--history: ${places} samples of a series are more than the ${MOST_VALUES} that are judged at once; ask for a longer --step`,
    );
  const columns = new Map<string, Float64Array>();
  const warnings = new Set<string>();
  const used = new Uint8Array(places);
  let infinite = 0;
  for (let start = 0; start < places; start += MOST_OF_A_REQUEST) {
    const end = Math.min(places, start + MOST_OF_A_REQUEST) - 1;
    const part = await retry(signal, { attempts: ATTEMPTS, pause, spread: 0.5, onRetry }, () =>
      ask(from + start * step, from + end * step),
    );
    for (const warning of part.warnings ?? []) warnings.add(excerpt(warning));
    for (const { metric, values = [] } of part.data.result) {
      const name = seriesName(metric, query);
      if (!columns.has(name)) {
        const count = columns.size + 1;
        if (count > MOST_SERIES || count * places > MOST_VALUES)
          throw new DataError(
            `${shown}: the query gives ${part.data.result.length} series of ${places} samples, more than the ${Math.min(MOST_SERIES, Math.floor(MOST_VALUES / places))} that are judged at once; aggregate them (sum by), choose some by their labels, or ask for a longer --step`,
          );
        columns.set(name, new Float64Array(places).fill(Number.NaN));
      }
      const column = columns.get(name)!;
      for (const [seconds, text] of values) {
        const place = Math.round((seconds * 1000 - from) / step);
        if (!(place >= start && place <= end)) continue;
        used[place] = 1;
        const value = Number(text);
        if (Number.isFinite(value)) column[place] = value;
        else if (/inf/i.test(text)) infinite++;
      }
    }
  }
  const kept = Array.from(used.keys()).filter((place) => used[place] === 1);
  if (kept.length === 0)
    throw new DataError(
      `${shown}: the query gives no sample in this range; try it in the expression browser, or ask for a longer range`,
    );
  return {
    time: Float64Array.from(kept, (place) => from + place * step),
    columns: [...columns].map(([name, values]) => ({
      ...{ name, values: Float64Array.from(kept, (place) => values[place]!) },
    })),
    warnings: [...warnings],
    infinite,
  };
}
