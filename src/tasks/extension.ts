/** Extensions: the advice after an answer, as traces give it. */

import { factsOf } from '../../rewards/judge.ts';
import type { Example } from '../ground/types.ts';
import type { TaskPrompt } from './kind.ts';
import { taskKind } from './kinds.ts';

/** Returns true if the task requests an extension. */
export const hasExtension = ({ kind, advice }: Pick<TaskPrompt, 'kind' | 'advice'>): boolean =>
  advice !== null && taskKind(kind).evaluation.answerParts.includes('extension');

const say = (value: number): string => String(Number(value.toPrecision(3)));

/** Facts with which advice can begin: the tenth of a channel that differs most from the rest, and its highest point. */
function shown(series: Pick<Example, 'channels' | 'names'>): string {
  const far = factsOf(series).map((facts) => {
    const { mean, std, tenths } = facts;
    const sizes = tenths.map((level) => (std === 0 ? 0 : Math.abs(level - mean) / std));
    const tenth = sizes.reduce((best, size, i) => (size > sizes[best]! ? i : best), 0);
    return { ...facts, size: sizes[tenth]!, tenth };
  });
  const first = far.toSorted((a, b) => b.size - a.size)[0];
  if (first === undefined) return '';
  const { name, points, tenths, tenth, max, maxAt } = first;
  const [start, end] = [tenth, tenth + 1].map((k) => Math.round((k * points) / tenths.length));
  const channel = series.channels.length === 1 ? '' : ` of ${name}`;
  return `In this series begin with the stretch from ${start} to ${end}, where the level${channel} is ${say(tenths[tenth]!)}; its highest value, ${say(max)}, is at index ${maxAt}.`;
}

/**
 * Writes the advice of a trace: the benchmark's advice for the class and, in the full style, facts of the
 * series; without the former, the facts alone. Free of tags and line ends.
 */
export function extensionTrace(
  example: Pick<Example, 'channels' | 'names'>,
  name: string,
  { advised = {} }: Pick<TaskPrompt, 'advised'>,
  style: 'nano' | 'full',
): string {
  const words = Object.hasOwn(advised, name) ? advised[name]! : `This is ${name}.`;
  const text = style === 'nano' ? words : `${words} ${shown(example)}`.trim();
  return text.replaceAll(/[<>\n\r]+/g, ' ');
}
