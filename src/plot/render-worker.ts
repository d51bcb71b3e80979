/** Worker of a render pool. */
import type { Picture } from '../ground/types.ts';
import { answerRequests } from '../ground/worker-thread.ts';
import type { RenderJob } from './pool.ts';
import { render } from './raster.ts';

answerRequests<RenderJob, Picture>(async ({ figure, values, times }) => {
  const reply = await render(figure, values, times);
  return { reply, transfer: [reply.data.buffer as ArrayBuffer] };
});
