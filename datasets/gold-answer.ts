/** The right answer to an example as a response would give it. */
import type { Gold } from '../src/types.ts';

/** Stands for the class of an anomaly whose kind is not named: any answer is as good. */
const UNNAMED = 'contextual point';

/**
 * The parts after the reasoning: `<answer>[[3, 9]]</answer><class>trend</class>`, `<class>Laptop</class>`, …; of an anomaly
 * whose kind is not named, the intervals alone.
 */
export function goldParts(gold: Gold): string {
  if (gold.kind === 'classification') return `<class>${gold.class}</class>`;
  if (gold.kind === 'variates') return `<answer>[${gold.variates.join(', ')}]</answer>`;
  const pairs = gold.intervals.map(([start, end]) => `[${start}, ${end}]`);
  const answer = `<answer>[${pairs.join(', ')}]</answer>`;
  return gold.class === null ? answer : `${answer}<class>${gold.class}</class>`;
}

/** A whole response with the right answer; where the class is not named, one is made up, which no reward counts. */
export function goldResponse(gold: Gold, think: string): string {
  const made = gold.kind === 'anomaly' && gold.class === null ? `<class>${UNNAMED}</class>` : '';
  return `<think>${think}</think>${goldParts(gold)}${made}`;
}
