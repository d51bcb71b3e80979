/** Answers a number with its double and the number of its thread; a negative one never. */
import { threadId } from 'node:worker_threads';
import { answerRequests } from '../../src/ground/worker-thread.ts';

answerRequests<number, { thread: number; double: number }>((value) =>
  value < 0 ? new Promise(() => {}) : Promise.resolve({ reply: { thread: threadId, double: 2 * value } }),
);
