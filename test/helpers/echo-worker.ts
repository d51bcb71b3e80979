/** Answers each message with its double, by way of a module of ours: shows that `.ts` imports resolve in a Worker. */
import { parentPort } from 'node:worker_threads';
import { DataError } from '../../src/ground/errors.ts';

parentPort?.on('message', (value: number) => {
  parentPort?.postMessage({ double: 2 * value, error: new DataError('x').name });
});
