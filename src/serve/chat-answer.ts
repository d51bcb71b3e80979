/** Completions in OpenAI's shapes: one object at the end, or a stream of server-sent events. */
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
export function chatStream(
  thread: PolicyThread,
  job: CompletionJob,
  { usage, ...head }: Head & { readonly usage: boolean },
  within: (body: (signal: AbortSignal) => Promise<number>) => Promise<number>,
  refusalOf: (error: unknown) => { readonly error: object },
): { readonly body: ReadableStream<Uint8Array>; readonly ended: Promise<void> } {
  const encoder = new TextEncoder();
  const gone = new AbortController();
  let sink!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      sink = controller;
    },
    cancel: () => gone.abort(clientGone()),
  });
  const send = (data: string): void => {
    if (!gone.signal.aborted) sink.enqueue(encoder.encode(`data: ${data}\n\n`));
  };
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
  const run = async (): Promise<void> => {
    for (let i = 0; i < job.samples; i++)
      chunk([choice(i, { role: 'assistant', content: '', refusal: null })]);
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
      if (gone.signal.aborted) return;
      send(JSON.stringify({ error: refusalOf(error).error }));
    }
    if (!gone.signal.aborted) sink.close();
  };
  return { body, ended: run() };
}
