/** Extensions: the advice after an answer, as traces give it. */

import type { Example } from '../ground/types.ts';
import { bridge } from '../series/missing.ts';
import { moments, summarise } from '../series/stats.ts';
import type { TaskPrompt } from './kind.ts';
import { taskKind } from './kinds.ts';

/** Returns true if the task requests an extension. */
export const hasExtension = ({ kind, advice }: Pick<TaskPrompt, 'kind' | 'advice'>): boolean =>
  advice !== null && taskKind(kind).evaluation.answerParts.includes('extension');

const PARTS = 10;
const say = (value: number): string => String(Number(value.toPrecision(3)));

/** Facts with which advice can begin: the tenth of a channel that differs most from the rest, and its highest point. */
function shown({ channels, names }: Pick<Example, 'channels' | 'names'>): string {
  const facts = channels.flatMap((channel, c) => {
    if (channel.every(Number.isNaN)) return [];
    const { values } = bridge(channel);
    const { mean, std, max } = summarise(values);
    const parts = Math.min(PARTS, values.length);
    const tenths = Array.from({ length: parts }, (_, i) => {
      const [start, end] = [i, i + 1].map((k) => Math.round((k * values.length) / parts)) as [number, number];
      const level = moments(values, start, end).mean;
      return { start, end, level, size: std === 0 ? 0 : Math.abs(level - mean) / std };
    });
    const far = tenths.reduce((best, tenth) => (tenth.size > best.size ? tenth : best));
    const channelText = channels.length === 1 ? '' : ` of ${names[c]}`;
    return [{ channelText, far, max, at: values.indexOf(max) }];
  });
  const first = facts.toSorted((a, b) => b.far.size - a.far.size)[0];
  if (first === undefined) return '';
  const { channelText, far, max, at } = first;
  return `In this series begin with the stretch from ${far.start} to ${far.end}, where the level${channelText} is ${say(far.level)}; its highest value, ${say(max)}, is at index ${at}.`;
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
