/** `timeseer serve`: an HTTP service for anomaly reports and for chat with a policy. */
import type { CommandModule } from 'yargs';
import { ENGINE_HELP, ENGINES, type EngineName } from '../answer/answerer.ts';
import { ConfigError } from '../ground/errors.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { cores } from '../ground/machine.ts';
import { print, printJson } from '../ground/terminal.ts';
import { isLocalHost, type ServeOptions, startService } from '../serve/server.ts';

export interface ServeArguments {
  readonly policy: string | undefined;
  readonly adapter: string | undefined;
  readonly engine: EngineName | undefined;
  readonly device: string | undefined;
  readonly dtype: 'auto' | 'float32' | 'bfloat16';
  readonly threads: number;
  readonly host: string;
  readonly port: number;
  readonly 'api-key': string | undefined;
  readonly auth: boolean;
  readonly 'max-body': number;
  readonly 'max-queue': number;
  readonly timeout: number;
  readonly 'max-pixels': number;
  readonly 'max-prompt': number;
  readonly 'max-batch': number;
  readonly json: boolean;
}

/** Environment variable with the key; the list of processes shows command lines to everybody. */
const KEY_VARIABLE = 'TIMESEER_API_KEY';

function check(args: ServeArguments): void {
  const whole = (name: keyof ServeArguments, least: number, most: number): void => {
    const value = args[name] as number;
    if (Number.isSafeInteger(value) && value >= least && value <= most) return;
    throw new ConfigError(`--${name}: expected a whole number from ${least} to ${most}, got ${value}`);
  };
  whole('port', 0, 65_535);
  whole('threads', 1, 1024);
  whole('max-body', 1, 1024);
  whole('max-queue', 1, 100_000);
  whole('timeout', 1, 86_400);
  whole('max-pixels', 1, 178_956_970);
  whole('max-prompt', 1, 1_000_000);
  whole('max-batch', 1, 1024);
  if (args.adapter !== undefined && args.policy === undefined) {
    throw new ConfigError('--adapter: needs --policy, the policy that it was trained for');
  }
}

/** Returns the key that clients must send, or null. @throws ConfigError when others could use the service without one */
export function keyOf(
  { auth, host, 'api-key': given }: Pick<ServeArguments, 'auth' | 'host' | 'api-key'>,
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
    ...{ host, port, apiKey: keyOf(args) },
    policy:
      policy === undefined
        ? null
        : { policy, adapter, engine, device, dtype, threads, maxRows: args['max-batch'] },
    limits: {
      bodyBytes: args['max-body'] * 1e6,
      queue: args['max-queue'],
      seconds: args.timeout,
      pixels: args['max-pixels'],
      promptTokens: args['max-prompt'],
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
      const what = model === null ? 'reports only (no policy)' : `policy ${model}`;
      print(
        `${url}: ${what}; ${options.apiKey === null ? 'no API key needed' : 'API key required'}; press Ctrl-C to stop`,
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

export const serveCommand: CommandModule<object, ServeArguments> = {
  command: 'serve',
  describe: 'Serve anomaly reports and chat with a policy over HTTP (OpenAI protocol)',
  builder: (yargs) =>
    yargs
      .option('policy', {
        type: 'string',
        describe:
          'Policy to chat with: small (ships with timeseer), or the directory of a checkpoint, an export or a run',
        requiresArg: true,
      })
      .option('adapter', {
        type: 'string',
        describe: 'Directory of a LoRA adapter for the policy, in PEFT format',
        requiresArg: true,
      })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        describe: 'Device of the policy: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('dtype', {
        choices: ['auto', 'float32', 'bfloat16'] as const,
        default: 'auto' as const,
        describe: 'Data type of the weights',
        requiresArg: true,
      })
      .option('threads', {
        type: 'number',
        default: cores(),
        defaultDescription: 'one per core',
        describe: 'Number of threads for the policy',
        requiresArg: true,
      })
      .option('max-batch', {
        type: 'number',
        default: 16,
        describe: 'Maximum number of responses decoded in one batch',
        requiresArg: true,
      })
      .option('max-prompt', {
        type: 'number',
        default: 8192,
        describe: 'Maximum prompt length in tokens, image tokens included',
        requiresArg: true,
      })
      .option('max-pixels', {
        type: 'number',
        default: 16_777_216,
        describe: 'Maximum number of pixels in all images of a prompt',
        requiresArg: true,
      })
      .group(
        [
          'policy',
          'adapter',
          'engine',
          'device',
          'dtype',
          'threads',
          'max-batch',
          'max-prompt',
          'max-pixels',
        ],
        'Chat:',
      )
      .option('host', {
        type: 'string',
        default: '127.0.0.1',
        describe: 'Address to listen on; 0.0.0.0 for all networks',
        requiresArg: true,
      })
      .option('port', {
        type: 'number',
        default: 8000,
        describe: 'Port to listen on; 0 picks a free one',
        requiresArg: true,
      })
      .option('api-key', {
        type: 'string',
        describe: `API key that clients must send (safer: the variable ${KEY_VARIABLE}; other users can see command lines)`,
        requiresArg: true,
      })
      .option('auth', {
        type: 'boolean',
        default: true,
        describe: 'Require an API key when other machines can connect; --no-auth lets them in without one',
      })
      .option('max-body', {
        type: 'number',
        default: 32,
        describe: 'Maximum size of a request body in MB',
        requiresArg: true,
      })
      .option('max-queue', {
        type: 'number',
        default: 64,
        describe: 'Maximum number of pending requests per endpoint; further ones are refused',
        requiresArg: true,
      })
      .option('timeout', {
        type: 'number',
        default: 300,
        describe: 'Timeout of a request in seconds',
        requiresArg: true,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the address as JSON' })
      .example('$0 serve', 'Reports only, for clients on this machine, on port 8000')
      .example(
        'curl -H "Content-Type: text/csv" --data-binary @metrics.csv "localhost:8000/v1/explain?severity=3"',
        'Report of a table as JSON',
      )
      .example(
        'curl -H "Content-Type: text/csv" -H "Accept: text/html" --data-binary @metrics.csv localhost:8000/v1/explain',
        'Report of a table as an HTML page',
      )
      .example(
        '$0 serve --policy runs/quickstart',
        'With chat: the base URL for OpenAI clients is http://127.0.0.1:8000/v1',
      )
      .example(
        `${KEY_VARIABLE}=… $0 serve --host 0.0.0.0`,
        'For other machines; use a TLS proxy on networks that you do not control',
      )
      .epilogue(
        [
          'POST /v1/explain takes text/csv, with options of `detect` as query parameters (column, time, key, select, tz, severity,',
          'direction, min-change, min-share, since, format, name), or JSON: {"values": [1, null, 2]} or {"columns": {"a": [1, 2]}},',
          'with "time": […] and "options": {"severity": 3}. POST /v1/chat/completions and GET /v1/models follow the OpenAI API;',
          'sampling parameters default to those of the checkpoint. GET /health needs no key.',
        ].join(' '),
      ),
  handler: runServe,
};
