/** A Worker that composes materials: answers each request with what was asked for, or with the error in words. */
import { parentPort, workerData } from 'node:worker_threads';
import { ConfigError, DataError, TimeseerError } from '../src/errors.ts';
import { type Composed, type Learned, MaterialComposer, type MaterialParts } from './material-composer.ts';
import type { Split } from './split.ts';

export interface MaterialWork {
  readonly directory: string;
  readonly parts: MaterialParts;
}

export type MaterialRequest = { readonly id: number } & (
  | { readonly kind: 'learn' }
  | { readonly kind: 'compose'; readonly split: Split; readonly index: number }
);

/** Error classes do not survive the way between threads; their kind does. */
export type MaterialReply = { readonly id: number } & (
  | { readonly kind: 'progress'; readonly read: number }
  | { readonly kind: 'learned'; readonly learned: Learned }
  | { readonly kind: 'composed'; readonly composed: Composed }
  | { readonly kind: 'failed'; readonly error: 'data' | 'config' | 'other'; readonly message: string }
);

const port = parentPort;
if (port !== null) {
  const { directory, parts } = workerData as MaterialWork;
  const composer = new MaterialComposer(directory, parts);
  const answer = async (request: MaterialRequest): Promise<void> => {
    const { id } = request;
    try {
      if (request.kind === 'learn') {
        const learned = composer.learn((read) => {
          port.postMessage({ id, kind: 'progress', read } satisfies MaterialReply);
        });
        port.postMessage({ id, kind: 'learned', learned } satisfies MaterialReply);
      } else {
        const composed = await composer.compose(request.split, request.index);
        const reply: MaterialReply = { id, kind: 'composed', composed };
        port.postMessage(reply, composed.png === null ? [] : [composed.png.buffer as ArrayBuffer]);
      }
    } catch (error) {
      // Anything else is a fault of the program: it ends this Worker, and with it the command.
      if (!(error instanceof TimeseerError)) throw error;
      const kind = error instanceof DataError ? 'data' : error instanceof ConfigError ? 'config' : 'other';
      port.postMessage({ id, kind: 'failed', error: kind, message: error.message } satisfies MaterialReply);
    }
  };
  let turn = Promise.resolve();
  port.on('message', (request: MaterialRequest) => {
    turn = turn.then(() => answer(request));
  });
}
