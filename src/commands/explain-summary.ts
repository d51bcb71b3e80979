/** What `timeseer explain` found, in a few lines of text. */
import { disagrees, type Explanation } from '../explain/page.ts';

const SHOWN = 10;

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

/** Whether the policy was asked, and none of its answers could be read. */
export function unanswered({ windows }: Explanation): boolean {
  return windows.length > 0 && windows.every((one) => one.intervals === null);
}

export function summary(found: Explanation, files: { html: string; json: string }, seconds: number): string {
  const { intervals, classical, windows } = found;
  const lines = [
    `${found.file}: ${found.length} samples, ${unanswered(found) ? 'no readable answer' : `${count(intervals.length, 'anomaly', 'anomalies')}, class ${found.class}`} ` +
      `(${found.policy === null ? 'classical analyses' : `policy ${found.policy}`}, ${seconds.toFixed(1)} s)`,
  ];
  for (const { start, end, from, to, confirmed } of intervals.slice(0, SHOWN)) {
    const when = from === null ? '' : `  ${from} to ${to}`;
    const also = found.policy === null ? '' : confirmed ? '  classical analyses too' : '  policy alone';
    lines.push(`  [${start}, ${end})${when}${also}`);
  }
  if (intervals.length > SHOWN) lines.push(`  and ${intervals.length - SHOWN} more`);
  if (disagrees(found)) {
    const said = classical.intervals.slice(0, SHOWN).map(([start, end]) => `[${start}, ${end})`);
    const more = classical.intervals.length - said.length;
    lines.push(
      said.length === 0
        ? '  the classical analyses disagree: they find nothing'
        : `  the classical analyses disagree: ${said.join(' ')}${more > 0 ? ` and ${more} more` : ''} ${classical.class}`,
    );
  }
  if (found.policy !== null) {
    const unreadable = windows.filter((one) => one.intervals === null).length;
    lines.push(
      `  ${count(windows.length, 'window')} answered` +
        (unreadable === 0 ? '' : `, ${unreadable} of them unreadable: they count as nothing found`),
      `  classical analyses: ${count(classical.intervals.length, 'interval')}, class ${classical.class}` +
        (classical.agreement === undefined
          ? ''
          : `, intersection over union ${classical.agreement.toFixed(2)}`),
    );
  }
  lines.push(`  ${files.html}`, `  ${files.json}`);
  return lines.join('\n');
}
