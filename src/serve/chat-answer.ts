/** Completions in OpenAI's shapes: one object at the end, or a stream of server-sent events. */
import type { SSEStreamingApi } from 'hono/streaming';
import type { WorkerThread } from '../ground/worker-thread.ts';
import type { CompletionEvent, CompletionJob } from './completions.ts';
import { clientGone } from './request.ts';

/** Worker that holds the policy. */
export type PolicyThread = WorkerThread<CompletionJob, undefined, CompletionEvent>;

interface Head {
  readonly id: string;
  readonly created: number; // seconds since 1970
  readonly model: string;
}

function usageOf({ prompt }: CompletionJob, completion: number): object {
  const { length } = prompt.ids;
  return { prompt_tokens: length, completion_tokens: completion, total_tokens: length + completion };
}

/**
 * Generates until all samples have ended; returns the number of sampled tokens.
 * @throws TimeseerError when the policy fails; the reason of the signal, which ends the decoding
 */
async function generate(
  thread: PolicyThread,
  job: CompletionJob,
  signal: AbortSignal,
  onEvent: (event: CompletionEvent) => void,
): Promise<number> {
  let tokens = 0;
  await thread.call(job, {
    signal,
    transfer: job.prompt.images.map(({ patches }) => patches.buffer as ArrayBuffer),
    onPart: (event) => {
      onEvent(event);
      if (event.kind === 'end') tokens += event.tokens;
    },
  });
  return tokens;
}

/** Returns the whole answer. */
export async function chatCompletion(
  thread: PolicyThread,
  job: CompletionJob,
  head: Head,
  signal: AbortSignal,
): Promise<object> {
  const choices = Array.from({ length: job.samples }, () => ({ content: '', reason: '' }));
  const tokens = await generate(thread, job, signal, (event) => {
    const choice = choices[event.sample]!;
    if (event.kind === 'text') choice.content += event.text;
    else choice.reason = event.reason;
  });
  return {
    ...{ id: head.id, object: 'chat.completion', created: head.created, model: head.model },
    choices: choices.map(({ content, reason }, index) => ({
      index,
      message: { role: 'assistant', content, refusal: null },
      logprobs: null,
      finish_reason: reason,
    })),
    usage: usageOf(job, tokens),
  };
}

/**
 * Streams the answer while it is sampled. An error after the beginning comes as an event, and the stream ends behind it.
 * @param within runs a body with the signal that ends it
 */
export async function chatStream(
  events: SSEStreamingApi,
  thread: PolicyThread,
  job: CompletionJob,
  { usage, ...head }: Head & { readonly usage: boolean },
  within: (body: (signal: AbortSignal) => Promise<number>) => Promise<number>,
  refusalOf: (error: unknown) => { readonly error: object },
): Promise<void> {
  const gone = new AbortController();
  events.onAbort(() => gone.abort(clientGone()));
  // A slow reader does not hold the decoding up: events wait in the stream.
  const send = (data: string): void => void events.writeSSE({ data });
  const chunk = (choices: readonly object[], more: object = usage ? { usage: null } : {}): void =>
    send(
      JSON.stringify({
        ...{ id: head.id, object: 'chat.completion.chunk', created: head.created, model: head.model },
        ...{ choices, ...more },
      }),
    );
  const choice = (index: number, delta: object, reason: string | null = null): object => ({
    ...{ index, delta, logprobs: null, finish_reason: reason },
  });
  for (let i = 0; i < job.samples; i++) chunk([choice(i, { role: 'assistant', content: '', refusal: null })]);
  try {
    const tokens = await within((signal) =>
      generate(thread, job, AbortSignal.any([signal, gone.signal]), (event) =>
        chunk([
          event.kind === 'text'
            ? choice(event.sample, { content: event.text })
            : choice(event.sample, {}, event.reason),
        ]),
      ),
    );
    if (usage) chunk([], { usage: usageOf(job, tokens) });
    send('[DONE]');
  } catch (error) {
    if (!gone.signal.aborted) send(JSON.stringify({ error: refusalOf(error).error }));
  }
}
