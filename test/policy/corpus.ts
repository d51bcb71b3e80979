/** Text like the nano policy's: prompts and traces, from a fixed formula. */
import { Random } from '../../src/ground/random.ts';

const CLASSES = ['contextual point', 'global point', 'seasonal', 'trend', 'normal'];
const BASES = ['flat line', 'sine wave', 'sine with trend', 'noise'];
const CITED = ['; range test', '; trend test', '; period shift', '; discord', '; no test'];

export const PROMPT = 'Find the anomalies in this series of 1000 points.';

export function corpus(count: number): string[] {
  const random = new Random(7, 'corpus');
  return Array.from({ length: count }, (_, i) => {
    const scan = Array.from({ length: 20 }, () => random.pick(['.', '.', '.', '(', '#', ')', 'o', 'x'])).join(
      '',
    );
    const start = random.integer(0, 80) * 10;
    const period = random.uniform() < 0.3 ? '' : `; period ${random.integer(20, 70)}`;
    const trace =
      `<think>${random.pick(BASES)}${period}; scan ${scan}${i % 3 === 0 ? '' : random.pick(CITED)}</think>` +
      `<answer>[[${start}, ${start + 10 * random.integer(2, 12)}]]</answer><class>${random.pick(CLASSES)}</class>`;
    return i % 5 === 4 ? `${PROMPT} Classes: ${CLASSES.join(', ')}.` : trace;
  });
}
