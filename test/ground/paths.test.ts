import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { workerUrl } from '../../src/ground/paths.ts';

it('starts a TypeScript Worker from a TypeScript caller', async () => {
  const { url, execArgv } = workerUrl('../helpers/echo-worker.ts', import.meta.url);
  const worker = new Worker(url, { execArgv });
  try {
    const answer = await new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
      worker.postMessage(21);
    });
    expect(answer).toEqual({ double: 42, error: 'DataError' });
  } finally {
    await worker.terminate();
  }
});

it('names the built file when its caller is built', () => {
  for (const name of ['./render-worker', './render-worker.ts', './render-worker.js']) {
    const { url, execArgv } = workerUrl(name, 'file:///a/dist/src/plot/pool.js');
    expect(url.href).toBe('file:///a/dist/src/plot/render-worker.js');
    expect(execArgv).toEqual([]);
  }
});
