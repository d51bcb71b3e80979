/** Completions in OpenAI's shapes: one object at the end, or a stream of server-sent events. */
import { say } from '../ground/terminal.ts';
import type { CompletionEvent, CompletionJob } from './completions.ts';
import type { PolicyThread } from './policy-thread.ts';
import { clientGone, Refused } from './refused.ts';

interface Head {
  readonly id: string;
  readonly created: number; // seconds since 1970
  readonly model: string;
}

type Job = Omit<CompletionJob, 'id'>;

function usageOf({ prompt }: Job, completion: number): object {
  const { length } = prompt.ids;
  return { prompt_tokens: length, completion_tokens: completion, total_tokens: length + completion };
}

/**
 * Generates, telling about it, until all samples have ended; returns the tokens that were sampled.
 * @throws Refused when the policy failed; the reason of the signal, which ends the decoding
 */
function generate(
  thread: PolicyThread,
  job: Job,
  signal: AbortSignal,
  tell: (event: Extract<CompletionEvent, { kind: 'text' | 'end' }>) => void,
): Promise<number> {
  return new Promise((resolve, reject) => {
    let [tokens, left] = [0, job.samples];
    const finish = (settle: () => void): void => {
      signal.removeEventListener('abort', abort);
      stop();
      settle();
    };
    const abort = (): void => finish(() => reject(signal.reason));
    const stop = thread.complete(job, (event) => {
      if (event.kind === 'failed') {
        say(`error: ${event.message}`);
        const message = 'the policy failed; the log of the service says why';
        const error = { message, type: 'server_error', param: null, code: 'internal_error' } as const;
        finish(() => reject(new Refused({ status: 500, error })));
        return;
      }
      tell(event);
      if (event.kind !== 'end') return;
      tokens += event.tokens;
      if (--left === 0) finish(() => resolve(tokens));
    });
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
  });
}

/** The whole answer. */
export async function chatCompletion(
  thread: PolicyThread,
  job: Job,
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
 * The answer as it is sampled. An error after the beginning comes as an event of its own, behind which the stream ends.
 * @param within runs something with the signal that ends it
 */
export function chatStream(
  thread: PolicyThread,
  job: Job,
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
