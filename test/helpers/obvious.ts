/** Six series with one change each that anybody sees, as a table. */
import { writeFileSync } from 'node:fs';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';

export const LENGTH = 560;

/** Each series by name: the place of its change and the value at sample i. */
export const OBVIOUS: Readonly<
  Record<string, { readonly truth: Interval; value(i: number, changed: boolean, noise: number): number }>
> = {
  spike: { truth: [300, 306], value: (i, changed, e) => Math.sin(i / 9) + 0.1 * e + (changed ? 6 : 0) },
  flat: { truth: [220, 280], value: (i, changed, e) => (changed ? 0 : Math.sin(i / 6)) + 0.05 * e },
  fast: { truth: [350, 410], value: (i, changed, e) => Math.sin(changed ? i / 2 : i / 8) + 0.05 * e },
  shift: { truth: [400, 460], value: (i, changed, e) => Math.sin(i / 10) + 0.2 * e + (changed ? 4 : 0) },
  loud: { truth: [150, 200], value: (_, changed, e) => (changed ? 8 : 1) * e },
  drop: {
    truth: [470, 490],
    value: (i, changed, e) => 10 + Math.sin(i / 12) + 0.2 * e - (changed ? 8 : 0),
  },
};

export function writeObvious(file: string): void {
  const random = new Random(1, 'obvious');
  const rows = Array.from({ length: LENGTH }, (_, i) =>
    Object.values(OBVIOUS).map(({ truth, value }) =>
      value(i, i >= truth[0] && i < truth[1], random.uniform() - 0.5).toFixed(4),
    ),
  );
  writeFileSync(file, [Object.keys(OBVIOUS), ...rows].map((row) => `${row.join(',')}\n`).join(''));
}
