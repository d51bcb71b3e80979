/** A Worker that composes materials of one data set; it reads its examples itself, so that only numbers and results travel. */
import { workerData } from 'node:worker_threads';
import { answerRequests } from '../src/ground/worker-thread.ts';
import { type Composed, type Learned, MaterialComposer, type MaterialParts } from './compose-materials.ts';
import type { Split } from './split.ts';

export interface MaterialWork {
  readonly directory: string;
  readonly parts: MaterialParts;
}

export type MaterialRequest = { readonly split: Split; readonly index: number } | 'classes';

const { directory, parts } = workerData as MaterialWork;
const composer = new MaterialComposer(directory, parts);

answerRequests<MaterialRequest, Composed | Learned>(async (request, { part }) => {
  if (request === 'classes') return { reply: composer.learn(part) };
  const reply = await composer.compose(request.split, request.index);
  return { reply, transfer: reply.png === null ? [] : [reply.png.buffer as ArrayBuffer] };
});
