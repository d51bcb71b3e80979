/** Stands in for a render Worker: dies on every series that begins with 13, answers others with a black pixel. */

import type { Picture } from '../../src/ground/types.ts';
import { answerRequests } from '../../src/ground/worker-thread.ts';
import type { RenderJob } from '../../src/plot/pool.ts';

answerRequests<RenderJob, Picture>(async ({ values }) => {
  if ((values as Float64Array)[0] === 13) throw new Error('out of luck');
  return { reply: { width: 1, height: 1, data: new Uint8Array(3) } };
});
