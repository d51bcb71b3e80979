/** Worker of the point scores: scores one channel by name, on the scale of the threshold. */
import { answerRequests } from '../ground/worker-thread.ts';
import { comparable, POINT_SCORES } from './point-scores.ts';

export interface ScoreRequest {
  /** Key of POINT_SCORES. */
  readonly name: string;
  readonly values: Float64Array;
}

answerRequests<ScoreRequest, Float64Array>(({ name, values }) => {
  const reply = comparable(POINT_SCORES[name]!, values);
  return { reply, transfer: [reply.buffer as ArrayBuffer] };
});
