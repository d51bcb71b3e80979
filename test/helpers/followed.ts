/** Streams of rows for `follow`, and what it tells of them. */
import type { ReportState } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { type FollowEvent, type FollowOptions, follow } from '../../src/run/follow.ts';

export const OPTIONS: FollowOptions = {
  ...{ name: 'input', columns: [], time: undefined, key: undefined, select: undefined, tz: undefined },
  ...{ severity: 3, direction: 'both', absoluteFloor: 0, relativeFloor: 0.02 },
  ...{ window: 300, every: 25, state: null },
};

export const stamp = (i: number): string =>
  new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16);

/** Noise around 50 every 15 minutes, with 40 more in stretches [from, to). */
export function recorded(
  n: number,
  seed: number,
  stretches: readonly (readonly [number, number])[],
): string[] {
  const draw = new Random(seed, 'runs');
  return Array.from({ length: n }, (_, i) => {
    const more = stretches.some(([from, to]) => i >= from && i < to) ? 40 : 0;
    return `${stamp(i)},${(50 + more + draw.normal()).toFixed(2)}`;
  });
}

export async function* inParts(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

export async function told(
  lines: readonly string[],
  options: Partial<FollowOptions> = {},
  remember?: (state: ReportState) => void,
): Promise<FollowEvent[]> {
  const events: FollowEvent[] = [];
  const text = `time,load\n${lines.join('\n')}\n`;
  await follow(inParts(text, 997), { ...OPTIONS, ...options }, (event) => events.push(event), remember);
  return events;
}

export const only = (events: readonly FollowEvent[], kind: FollowEvent['event']): FollowEvent[] =>
  events.filter(({ event }) => event === kind);
export const note = (events: readonly FollowEvent[], wanted: string): string =>
  events.flatMap((one) => (one.event === 'note' && one.code === wanted ? [one.text] : [])).join();
