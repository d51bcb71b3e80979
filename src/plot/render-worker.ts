/** A render pool's Worker: draws what it is sent, and sends back pixels or the error in words. */
import { parentPort } from 'node:worker_threads';
import { ConfigError, DataError } from '../errors.ts';
import type { Picture } from '../types.ts';
import type { FigureValues } from './data.ts';
import type { Figure } from './figure.ts';
import { render } from './raster.ts';

export interface RenderRequest {
  readonly id: number;
  readonly figure: Figure;
  readonly values: FigureValues;
  readonly times: Float64Array | undefined;
}

/** Error classes do not survive the way between threads; their kind does. */
export type RenderReply = { readonly id: number } & (
  | { readonly picture: Picture }
  | { readonly kind: 'data' | 'config' | 'other'; readonly message: string }
);

const port = parentPort;
port?.on('message', async ({ id, figure, values, times }: RenderRequest) => {
  try {
    const picture = await render(figure, values, times);
    port.postMessage({ id, picture } satisfies RenderReply, [picture.data.buffer as ArrayBuffer]);
  } catch (error) {
    const kind = error instanceof DataError ? 'data' : error instanceof ConfigError ? 'config' : 'other';
    const message = error instanceof Error ? error.message : String(error);
    port.postMessage({ id, kind, message } satisfies RenderReply);
  }
});
