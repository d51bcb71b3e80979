/** `timeseer serve`: an HTTP service for anomaly reports and for chat with a policy. */
import { ConfigError } from '../ground/errors.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { checkWhole } from '../ground/json-record.ts';
import { cores } from '../ground/machine.ts';
import { print, printJson } from '../ground/terminal.ts';
import { isLocalHost, type ServeOptions, startService } from '../serve/server.ts';
import {
  ADAPTER,
  choice,
  command,
  ENGINE_OPTIONS,
  flag,
  type Given,
  grouped,
  number,
  text,
} from './options.ts';

type ServeArguments = Given<typeof OPTIONS>;

/** Environment variable with the key; the list of processes shows command lines to everybody. */
const KEY_VARIABLE = 'TIMESEER_API_KEY';

function check(args: ServeArguments): void {
  for (const [name, value, least, most] of [
    ['port', args.port, 0, 65_535],
    ['threads', args.threads, 1, 1024],
    ['max-body', args.maxBody, 1, 1024],
    ['max-queue', args.maxQueue, 1, 100_000],
    ['timeout', args.timeout, 1, 86_400],
    ['max-pixels', args.maxPixels, 1, 178_956_970],
    ['max-prompt', args.maxPrompt, 1, 1_000_000],
    ['max-batch', args.maxBatch, 1, 1024],
  ] as const) {
    checkWhole(name, value, least, most);
  }
  if (args.adapter !== undefined && args.policy === undefined) {
    throw new ConfigError('--adapter: needs --policy, the policy that it was trained for');
  }
}

/** Returns the key that clients must send, or null. @throws ConfigError when others could use the service without one */
export function keyOf(
  { auth, host, apiKey: given }: Pick<ServeArguments, 'auth' | 'host' | 'apiKey'>,
  env: NodeJS.ProcessEnv = process.env,
): string | null {
  const key = given ?? env[KEY_VARIABLE];
  if (!auth) {
    if (given !== undefined)
      throw new ConfigError('--api-key: has no effect with --no-auth; leave one of them out');
    return null;
  }
  if (key !== undefined) {
    if (/^[\x21-\x7e]+$/.test(key)) return key;
    const where = given === undefined ? KEY_VARIABLE : '--api-key';
    throw new ConfigError(`${where}: expected one or more visible ASCII characters without blanks`);
  }
  if (isLocalHost(host)) return null;
  throw new ConfigError(
    `--host ${host}: other machines can reach this address, so an API key is needed: set ${KEY_VARIABLE}, or add --no-auth`,
  );
}

function optionsOf(args: ServeArguments): ServeOptions {
  check(args);
  const { policy, adapter, engine, device, dtype, threads, host, port } = args;
  return {
    ...{ host, port, apiKey: keyOf(args), jsonLog: args.log === 'json' },
    policy:
      policy === undefined
        ? null
        : { policy, adapter, engine, device, dtype, threads, maxRows: args.maxBatch },
    limits: {
      bodyBytes: args.maxBody * 1e6,
      queue: args.maxQueue,
      seconds: args.timeout,
      pixels: args.maxPixels,
      promptTokens: args.maxPrompt,
    },
  };
}

/**
 * Serves until it is interrupted, then answers pending requests and returns; a second Ctrl-C quits at once.
 * @throws ConfigError for a wrong option or address; CheckpointError for a policy that cannot be loaded
 */
async function runServe(args: ServeArguments): Promise<void> {
  const options = optionsOf(args);
  await withInterrupt(async (signal) => {
    const service = await startService(options);
    const { url, port, model } = service;
    if (args.json) printJson({ url, port, model, key: options.apiKey !== null });
    else {
      const served = model === null ? 'reports only (no policy)' : `policy ${model}`;
      print(
        `${url}: ${served}; ${options.apiKey === null ? 'no API key needed' : 'API key required'}; press Ctrl-C to stop`,
      );
    }
    const stopped = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve());
    });
    try {
      await Promise.race([stopped, service.failed]);
    } finally {
      await service.close();
    }
  }, 'stopping after pending requests have been answered; press Ctrl-C again to quit at once');
}

const OPTIONS = {
  ...grouped('Chat:', {
    policy: text(
      'Policy to chat with: small or inspect (which ship with timeseer), or the directory of a checkpoint, an export or a run. Default: none, reports only',
    ),
    adapter: ADAPTER,
    ...ENGINE_OPTIONS,
    dtype: choice(['auto', 'float32', 'bfloat16'], 'Data type of the weights', { default: 'auto' }),
    threads: number('Number of threads for the policy', {
      default: cores(),
      defaultDescription: 'one per core',
    }),
    'max-batch': number('Maximum number of responses decoded in one batch', { default: 16 }),
    'max-prompt': number('Maximum prompt length in tokens, image tokens included', { default: 8192 }),
    'max-pixels': number('Maximum number of pixels in all images of a prompt', { default: 16_777_216 }),
  }),
  host: text('Address to listen on; 0.0.0.0 for all networks', { default: '127.0.0.1' }),
  port: number('Port to listen on; 0 picks a free one', { default: 8000 }),
  'api-key': text(
    `API key that clients must send. Safer: set the environment variable ${KEY_VARIABLE}, because other users can see command lines`,
  ),
  auth: flag('Require an API key if --host lets other machines connect; --no-auth requires none', true),
  'max-body': number('Maximum size of a request body in MB', { default: 32 }),
  'max-queue': number('Maximum number of pending requests per endpoint; further ones are refused', {
    default: 64,
  }),
  timeout: number('Timeout of a request in seconds; also of the end of the service after SIGTERM', {
    default: 300,
  }),
  log: choice(['text', 'json'], 'Form of the log on standard error: a line for each request, with its id', {
    default: 'text',
  }),
  json: flag('Print the address as JSON'),
};

export const serveCommand = command({
  command: 'serve',
  options: OPTIONS,
  examples: [
    ['$0 serve', 'Reports only, for clients on this machine, on port 8000'],
    [
      'curl -H "Content-Type: text/csv" --data-binary @metrics.csv "localhost:8000/v1/explain?severity=3"',
      'Report of a table as JSON',
    ],
    [
      'curl -H "Content-Type: text/csv" -H "Accept: text/html" --data-binary @metrics.csv localhost:8000/v1/explain',
      'Report of a table as an HTML page',
    ],
    [
      'curl -N -H "Accept: text/event-stream" -H "Content-Type: text/csv" --data-binary @metrics.csv localhost:8000/v1/explain',
      'Server-sent events: the progress, each finding, the report',
    ],
    [
      '$0 serve --log json',
      'JSON lines as log; metrics for Prometheus at /metrics, probes at /healthz and /readyz',
    ],
    [
      '$0 serve --policy runs/quickstart',
      'With chat: the base URL for OpenAI clients is http://127.0.0.1:8000/v1',
    ],
    [
      `${KEY_VARIABLE}=… $0 serve --host 0.0.0.0`,
      'For other machines; use a TLS proxy on networks that you do not control',
    ],
  ],
  epilogue: [
    'POST /v1/explain takes text/csv, with options of `detect` as query parameters (column, time, key, select, tz, rate,',
    'decimal, severity, direction, min-change, min-share, since, format, name), or JSON: {"values": [1, null, 2]} or {"columns": {"a": [1, 2]}},',
    'with "time": […] and "options": {"severity": 3}. GET /openapi.json describes all requests. POST /v1/chat/completions and GET /v1/models follow the OpenAI API;',
    'sampling parameters default to those of the checkpoint. GET /metrics is for Prometheus; GET /healthz and /readyz, for probes, need no key.',
    'A Dockerfile, units of systemd, and a compose.yaml with Prometheus and Grafana are in src/serve/deploy of the package.',
  ].join(' '),
  handler: runServe,
});
