/**
 * Program of the two Workers behind chat. One prepares requests: it decodes pictures and encodes prompts, which may take long. The other
 * holds the policy, completes what was prepared, and goes on listening between steps of decoding.
 */
import { workerData } from 'node:worker_threads';
import type { EngineName } from '../answer/answerer.ts';
import { answerRequests } from '../ground/worker-thread.ts';
import { readGenerationConfig } from '../policy/model-config.ts';
import type { ChatLimits, ChatRequest } from './chat-request.ts';
import type { CompletionEvent, CompletionJob, Completions } from './completions.ts';
import type { Outcome } from './request.ts';

/** Policy to serve and how it is computed. */
export interface PolicySettings {
  /** Reference to a policy on this machine. */
  readonly policy: string;
  readonly adapter: string | undefined;
  readonly engine?: EngineName | undefined;
  readonly device: string | undefined;
  readonly dtype: 'auto' | 'float32' | 'bfloat16';
  readonly threads: number;
  readonly maxRows: number;
}

export type ChatWorkerData =
  | {
      readonly role: 'prompts';
      readonly directory: string;
      readonly model: string;
      readonly limits: ChatLimits;
    }
  | { readonly role: 'policy'; readonly settings: PolicySettings };

async function servePrompts({ directory, model, limits }: Extract<ChatWorkerData, { role: 'prompts' }>) {
  const { Prompting } = await import('../policy/policy.ts');
  const { readChatRequest } = await import('./chat-request.ts');
  const { outcomeOf } = await import('./request.ts');
  const prompting = Prompting.read(directory);
  const config = readGenerationConfig(directory);
  return (body: Uint8Array): Promise<Outcome<ChatRequest>> =>
    outcomeOf(() => readChatRequest(body, model, prompting, config, limits));
}

async function openCompletions({ policy, maxRows, ...options }: PolicySettings): Promise<Completions> {
  const { openLocal } = await import('../answer/open.ts');
  const { checkIds } = await import('../answer/prompt.ts');
  const { Completions } = await import('./completions.ts');
  const source = await openLocal(policy, {
    ...options,
    beforeWeights: ({ dims }) => checkIds(config, dims.vocabulary, source.directory),
  });
  const config = readGenerationConfig(source.directory);
  return new Completions(await source.load(), config, maxRows);
}

const data = workerData as ChatWorkerData;
if (data.role === 'prompts') {
  let read!: Awaited<ReturnType<typeof servePrompts>>;
  answerRequests<Uint8Array, Outcome<ChatRequest>>(
    async (body) => {
      const reply = await read(body);
      const patches =
        'answer' in reply ? reply.answer.completion.prompt.images.map((image) => image.patches.buffer) : [];
      return { reply, transfer: patches as ArrayBuffer[] };
    },
    {
      prepare: async () => {
        read = await servePrompts(data);
      },
    },
  );
} else {
  let completions!: Completions;
  answerRequests<CompletionJob, undefined, CompletionEvent>(
    async (job, { signal, part }) => {
      await completions.complete(job, part, signal);
      return { reply: undefined };
    },
    {
      prepare: async () => {
        completions = await openCompletions(data.settings);
      },
      concurrent: true,
    },
  );
}
