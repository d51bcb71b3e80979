/** The Worker that holds the policy: completes what it is sent, and goes on listening between steps of decoding. */
import { parentPort, workerData } from 'node:worker_threads';
import { TimeseerError } from '../ground/errors.ts';
import { readGenerationConfig } from '../policy/generation-config.ts';
import { loadAdapter } from '../policy/peft.ts';
import { Policy } from '../policy/policy.ts';
import { openEngine } from '../run/engine.ts';
import { checkIds } from '../run/generate-text.ts';
import { type CompletionEvent, type CompletionJob, Completions } from './completions.ts';

export interface PolicyWorkerData {
  readonly directory: string;
  readonly adapter: string | undefined;
  readonly device: string | undefined;
  readonly dtype: 'auto' | 'float32' | 'bfloat16';
  readonly threads: number;
  readonly maxRows: number;
}

export type ToPolicy = { readonly job: CompletionJob } | { readonly stop: number };

export type FromPolicy =
  | { readonly kind: 'ready' }
  /** The policy could not be loaded. */
  | { readonly kind: 'unusable'; readonly message: string }
  | { readonly kind: 'event'; readonly event: CompletionEvent };

const port = parentPort!;
const post = (message: FromPolicy): void => port.postMessage(message);

function load(data: PolicyWorkerData): Policy {
  const { directory, adapter, device, dtype, threads } = data;
  const engine = openEngine(device, threads);
  const config = readGenerationConfig(directory);
  return Policy.load(engine, directory, {
    ...{ tuning: 'none', dtype },
    beforeWeights: ({ dims }) => checkIds(config, dims.vocabulary, directory),
    ...(adapter === undefined ? {} : { adapter: (dims) => loadAdapter(engine, dims, adapter) }),
  });
}

function listen(data: PolicyWorkerData): void {
  const policy = load(data);
  const config = readGenerationConfig(data.directory);
  const completions = new Completions(policy, config, data.maxRows, (event) =>
    post({ kind: 'event', event }),
  );
  port.on('message', (message: ToPolicy) => {
    if ('job' in message) completions.add(message.job);
    else completions.stop(message.stop);
  });
  post({ kind: 'ready' });
}

try {
  listen(workerData as PolicyWorkerData);
} catch (error) {
  if (!(error instanceof TimeseerError)) throw error;
  post({ kind: 'unusable', message: error.message });
}
