/** The Worker that holds the policy: completes what it is sent, and goes on listening between steps of decoding. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EngineName } from '../answer/answerer.ts';
import { openLocal } from '../answer/open.ts';
import { checkIds } from '../answer/prompt.ts';
import { TimeseerError } from '../ground/errors.ts';
import { readGenerationConfig } from '../policy/generation-config.ts';
import { type CompletionEvent, type CompletionJob, Completions } from './completions.ts';

export interface PolicyWorkerData {
  /** Reference to a policy on this machine. */
  readonly policy: string;
  readonly adapter: string | undefined;
  readonly engine?: EngineName | undefined;
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

async function listen({ policy: reference, maxRows, ...options }: PolicyWorkerData): Promise<void> {
  const source = await openLocal(reference, {
    ...options,
    beforeWeights: ({ dims }) => checkIds(config, dims.vocabulary, source.directory),
  });
  const config = readGenerationConfig(source.directory);
  const policy = await source.load();
  const completions = new Completions(policy, config, maxRows, (event) => post({ kind: 'event', event }));
  port.on('message', (message: ToPolicy) => {
    if ('job' in message) completions.add(message.job);
    else completions.stop(message.stop);
  });
  post({ kind: 'ready' });
}

try {
  await listen(workerData as PolicyWorkerData);
} catch (error) {
  if (!(error instanceof TimeseerError)) throw error;
  post({ kind: 'unusable', message: error.message });
}
