/** Evaluated responses made by the real parser and reward, for tests of metrics and reports. */
import { parseAnswer } from '../../rewards/answer.ts';
import { anomalyReward } from '../../rewards/combine.ts';
import type { AnomalyClass, EvalRecord, Interval } from '../../src/types.ts';

export function writeResponse(intervals: readonly Interval[], label: string, think = 'sine wave'): string {
  return `<think>${think}</think><answer>${JSON.stringify(intervals)}</answer><class>${label}</class>`;
}

export function evalRecord(
  seriesId: string,
  gold: { readonly intervals: readonly Interval[]; readonly class: AnomalyClass },
  response: string,
  length = 1000,
): EvalRecord {
  const answer = parseAnswer(response, length);
  return {
    seriesId,
    task: seriesId.split('/')[0]!,
    length,
    goldIntervals: gold.intervals,
    goldClass: gold.class,
    response,
    answer,
    score: anomalyReward(answer, gold, length),
  };
}
