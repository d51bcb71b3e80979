/**
 * The short style of variates, for policies of a million parameters: a walk through the variates in the order of their ids, one symbol
 * each, then the ids.
 *
 *   <think>9 variates; scan ..x....x.</think><answer>[2, 7]</answer>
 *
 *   .  like the others      x  unlike them
 *
 * The symbols are those of the short style of anomalies, and mean the same: nothing here, something here. The teacher's come from
 * the annotation, not from a test.
 */
import { DataError } from '../errors.ts';
import type { VariatesEvidence } from './variates.ts';

const SCAN = ' variates; scan ';
const SYMBOLS = ['.', 'x'] as const;

/** Every fixed phrase of the style's think part, for a tokenizer that keeps each as one token. */
export const NANO_VARIATES_PHRASES: readonly string[] = [SCAN, ...SYMBOLS];

function tell({ variates }: VariatesEvidence, ids: readonly number[]): string {
  const scan = variates.map(({ id }) => SYMBOLS[ids.includes(id) ? 1 : 0]).join('');
  return `<think>${variates.length}${SCAN}${scan}</think><answer>[${ids.join(', ')}]</answer>`;
}

/**
 * The short target of a training series: scan and answer from the annotation (`gold`, ids from 0), in ascending order. C + 10 tokens
 * and two or three for each id, when every tag, phrase, symbol, digit and separator is one token.
 * @throws DataError for an id that is not there, or comes twice
 */
export function nanoVariatesTeacher(evidence: VariatesEvidence, gold: readonly number[]): string {
  const count = evidence.variates.length;
  const ids = [...gold].sort((a, b) => a - b);
  ids.forEach((id, i) => {
    if (evidence.variates[id] === undefined) {
      throw new DataError(`variate ${id}: the series has ${count}, counted from 0`);
    }
    if (id === ids[i + 1]) throw new DataError(`variate ${id} is named twice`);
  });
  return tell(evidence, ids);
}

/** The blind reading in the short style. */
export function nanoVariatesBlind(evidence: VariatesEvidence): string {
  return tell(evidence, evidence.reading.variates);
}
