/** Policies that answer one request at a time: many requests at once, failures that are no answers, and when to give up. */
import { setMaxListeners } from 'node:events';
import { type ResponseFacts, recordOf } from '../../eval/harness.ts';
import type { EvalData, EvalPolicy, EvalPrompt, ResponseRequest } from '../../eval/policy.ts';
import { EndpointError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import type { EvalRecord } from '../ground/types.ts';

/** So many failures in a row are no chance: what answers is gone. */
const GIVE_UP = 16;

/** One request, with what is asked. */
export interface OneRequest extends EvalPrompt, ResponseRequest {
  /** Of this response: the same whenever the evaluation is run with the same seed. */
  readonly seed: number;
  /** Longest response, in tokens. */
  readonly maxTokens: number;
}

/** One response. */
export interface OneAnswer extends Pick<ResponseFacts, 'usage' | 'seconds' | 'cost'> {
  readonly text: string;
}

export interface OneByOne {
  /** Requests at once. */
  readonly concurrency: number;
  /** Of one response. */
  record(request: ResponseRequest, signal: AbortSignal): Promise<EvalRecord>;
  /** Why there is no response to this one request; null where the error ends the evaluation. */
  failure(error: unknown): string | null;
}

/** The record of a response to what is asked in words and pictures. */
export function asked(
  { form, task, source, prompt }: EvalData,
  answer: (request: OneRequest, signal: AbortSignal) => Promise<OneAnswer>,
): OneByOne['record'] {
  return async (request, signal) => {
    const { number, sample } = request;
    const seed = new Random(form.seed, 'endpoint', number, sample).integer(0, 2 ** 31 - 1);
    const question = { ...(await prompt(number)), ...request, seed, maxTokens: form.maxTokens };
    const { text, ...facts } = await answer(question, signal);
    return recordOf(task, source.at(number), text, facts);
  };
}

/**
 * Answers all requests of an `EvalPolicy`.
 * @throws EndpointError after many failures in a row; what `failure` says is none
 */
export async function answerOneByOne(
  { concurrency, record, failure }: OneByOne,
  { task, source }: EvalData,
  requests: readonly ResponseRequest[],
  report: Parameters<EvalPolicy['answer']>[2],
  signal: AbortSignal,
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  setMaxListeners(0, stop); // every request that waits listens
  let [next, failures] = [0, 0];
  const ask = async (request: ResponseRequest): Promise<void> => {
    const { number, sample, temperature } = request;
    const tell = (found: EvalRecord): void => report({ ...found, sample, temperature }, request);
    let found: EvalRecord;
    try {
      found = await record(request, stop);
    } catch (error) {
      const reason = stop.aborted ? null : failure(error);
      if (reason === null) throw error;
      tell(recordOf(task, source.at(number), '', { failure: reason }));
      if (++failures < Math.max(GIVE_UP, 2 * concurrency)) return;
      throw new EndpointError(`${failures} requests in a row have failed, the last one: ${reason}`, {
        advice: 'see to what answers',
      });
    }
    failures = 0;
    tell(found);
  };
  const work = async (): Promise<void> => {
    while (next < requests.length) {
      stop.throwIfAborted();
      await ask(requests[next++]!);
    }
  };
  const all = Array.from({ length: Math.min(requests.length, concurrency) }, async () => {
    try {
      await work();
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  });
  const ends = await Promise.allSettled(all);
  signal.throwIfAborted();
  // Of one that failed the others have its error as their reason to stop.
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}
