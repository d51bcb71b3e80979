/** Answerers that take one request at a time: many requests at once, missing responses, and when to give up. */
import { setMaxListeners } from 'node:events';
import { EndpointError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import { type AnswerOptions, type AnswerRequest, type Response, remedyFor } from './answerer.ts';

/** Failures in a row that are no accident: nothing answers any more. */
const GIVE_UP = 16;

/** Seed of one response: equal whenever the questions are asked with the same seed. */
export const responseSeed = (seed: number, key: number, sample: number): number =>
  new Random(seed, 'endpoint', key, sample).integer(0, 2 ** 31 - 1);

interface OneByOne {
  /** Reference that the answerer was opened from. */
  readonly given: string;
  /** Requests at once. */
  readonly concurrency: number;
  /** Requests one response. */
  respond(
    request: AnswerRequest,
    sample: number,
    signal: AbortSignal,
  ): Promise<Omit<Response, 'key' | 'sample' | 'failure'>>;
  /** Reason why there is no response to this one request; null where the error ends the call. */
  failure(error: unknown): string | null;
}

/**
 * Answers questions one sample at a time.
 * @throws EndpointError after many failures in a row; errors that `failure` does not explain
 */
export async function answerEach(
  { given, concurrency, respond, failure }: OneByOne,
  asked: readonly AnswerRequest[],
  { signal }: Pick<AnswerOptions, 'signal'>,
  report: (response: Response) => void,
): Promise<void> {
  const requests = asked.flatMap((request) => request.samples.map((sample) => ({ request, sample })));
  const failed = new AbortController();
  const stop = AbortSignal.any([failed.signal, ...(signal === undefined ? [] : [signal])]);
  setMaxListeners(0, stop); // every request that waits listens
  let [next, failures] = [0, 0];
  const ask = async (request: AnswerRequest, sample: number): Promise<void> => {
    const { key } = request;
    let response: Response;
    try {
      response = { ...(await respond(request, sample, stop)), key, sample };
    } catch (error) {
      const reason = stop.aborted ? null : failure(error);
      if (reason === null) throw error;
      report({ key, sample, text: '', failure: reason });
      if (++failures < Math.max(GIVE_UP, 2 * concurrency)) return;
      throw new EndpointError(`${failures} requests in a row have failed, the last one: ${reason}`, {
        advice: remedyFor(given),
      });
    }
    failures = 0;
    report(response);
  };
  const work = async (): Promise<void> => {
    while (next < requests.length) {
      stop.throwIfAborted();
      const { request, sample } = requests[next++]!;
      await ask(request, sample);
    }
  };
  const workers = Array.from({ length: Math.min(requests.length, concurrency) }, async () => {
    try {
      await work();
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  });
  const ends = await Promise.allSettled(workers);
  signal?.throwIfAborted();
  // When one fails, the others have its error as their reason to stop.
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}
