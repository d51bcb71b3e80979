/** The Worker that prepares chat requests: it decodes pictures and encodes prompts, which may take long, beside the policy's Worker. */
import { workerData } from 'node:worker_threads';
import { answerRequests } from '../ground/worker-thread.ts';
import { readGenerationConfig } from '../policy/generation-config.ts';
import { Prompting } from '../policy/policy.ts';
import { type ChatLimits, type ChatRequest, readChatRequest } from './chat-request.ts';
import { type Outcome, outcomeOf } from './refused.ts';

export interface ChatWorkerData {
  readonly directory: string;
  readonly model: string;
  readonly limits: ChatLimits;
}

const { directory, model, limits } = workerData as ChatWorkerData;
const prompting = Prompting.read(directory);
const config = readGenerationConfig(directory);

answerRequests<Uint8Array, Outcome<ChatRequest>>(async (body) => {
  const reply = await outcomeOf(() => readChatRequest(body, model, prompting, config, limits));
  const patches =
    'answer' in reply ? reply.answer.completion.prompt.images.map((image) => image.patches.buffer) : [];
  return { reply, transfer: patches as ArrayBuffer[] };
});
