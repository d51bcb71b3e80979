/** Evaluated responses made by the real parser and reward, for tests of metrics and reports. */

import type { AnomalyClass, EvalRecord, Gold, Interval } from '../../src/ground/types.ts';
import { parseResponse, scoreAnswer } from '../../src/tasks/kinds.ts';

export function writeResponse(intervals: readonly Interval[], label: string, think = 'sine wave'): string {
  return `<think>${think}</think><answer>${JSON.stringify(intervals)}</answer><class>${label}</class>`;
}

/** A response that names a class. */
export function classResponse(label: string, think = 'two levels'): string {
  return `<think>${think}</think><class>${label}</class>`;
}

/** A response that names variates. */
export function variatesResponse(variates: readonly number[], think = 'square waves'): string {
  return `<think>${think}</think><answer>${JSON.stringify(variates)}</answer>`;
}

/** The record of a response to a question of any kind, about a series of `length` points and 9 channels. */
export function recordOf(seriesId: string, gold: Gold, response: string, length = 1000): EvalRecord {
  const answer = parseResponse(response, { kind: gold.kind, length, channels: 9, classes: [] });
  const task = seriesId.split('/')[0]!;
  return { seriesId, task, length, gold, response, answer, score: scoreAnswer(answer, gold, length) };
}

/** The record of a response about anomalies. */
export function evalRecord(
  seriesId: string,
  gold: { readonly intervals: readonly Interval[]; readonly class: AnomalyClass | null },
  response: string,
  length = 1000,
): EvalRecord {
  const { intervals, class: label } = gold;
  return recordOf(seriesId, { kind: 'anomaly', class: label, intervals }, response, length);
}
