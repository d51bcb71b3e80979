/** Stands in for a render Worker: dies on every series that begins with 13, answers others with a black pixel. */
import { parentPort } from 'node:worker_threads';
import type { RenderReply, RenderRequest } from '../../src/plot/render-worker.ts';

parentPort?.on('message', ({ id, values }: RenderRequest) => {
  if ((values as Float64Array)[0] === 13) throw new Error('out of luck');
  const picture = { width: 1, height: 1, data: new Uint8Array(3) };
  parentPort?.postMessage({ id, picture } satisfies RenderReply);
});
