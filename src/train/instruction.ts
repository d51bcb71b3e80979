/** What a policy is asked, beside the picture. Depends on the length and the class list, never on labels. */
import type { AnomalyClass } from '../types.ts';
import type { PolicyCard } from './card.ts';

/** `nano`: one phrase, without the length, which is always the trained one; `full`: AnomSeer's request with output format and class list. */
export function instruction(
  style: PolicyCard['style'],
  length: number,
  classes: readonly AnomalyClass[],
): string {
  if (style === 'nano') return 'Find the anomalies.';
  return (
    `The plot shows one time series of ${length} points; the x axis is the index, 0 to ${length - 1}. ` +
    'Find the intervals in which it behaves anomalously, if there are any, and name the kind of anomaly. ' +
    'Reason step by step about what you see between <think> and </think>. ' +
    'Then give the intervals as half-open index ranges between <answer> and </answer>, for example ' +
    '<answer>[[120, 180], [400, 420]]</answer>, or <answer>[]</answer> when nothing is anomalous. ' +
    `Then give one class between <class> and </class>: ${classes.join(', ')}.`
  );
}
