import { describe, expect, test } from 'vitest';
import type { ReportState } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { type FollowEvent, type FollowOptions, follow, pace } from '../../src/run/follow.ts';

const OPTIONS: FollowOptions = {
  ...{ name: 'input', columns: [], time: undefined, key: undefined, select: undefined, tz: undefined },
  ...{ severity: 3, direction: 'both', absoluteFloor: 0, relativeFloor: 0.02 },
  ...{ window: 300, every: 25, state: null },
};

const stamp = (i: number): string => new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16);

/** Noise around 50 every 15 minutes; 90 in samples [from, to). */
function rows(n: number, from: number, to: number): string[] {
  const draw = new Random(5, 'follow');
  return Array.from(
    { length: n },
    (_, i) => `${stamp(i)},${((i >= from && i < to ? 90 : 50) + draw.normal()).toFixed(2)}`,
  );
}

async function* inParts(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function told(
  lines: readonly string[],
  options: Partial<FollowOptions> = {},
  remember?: (state: ReportState) => void,
): Promise<FollowEvent[]> {
  const events: FollowEvent[] = [];
  const text = `time,load\n${lines.join('\n')}\n`;
  await follow(inParts(text, 997), { ...OPTIONS, ...options }, (event) => events.push(event), remember);
  return events;
}

const only = (events: readonly FollowEvent[], kind: FollowEvent['event']): FollowEvent[] =>
  events.filter(({ event }) => event === kind);
const note = (events: readonly FollowEvent[], wanted: string): string =>
  events.flatMap((one) => (one.event === 'note' && one.code === wanted ? [one.text] : [])).join();

describe('rows that are followed', () => {
  test('a finding is told when it appears and when it is over, with its extent in time and in lines', async () => {
    const events = await told(rows(600, 430, 460));
    expect(events[0]).toMatchObject({ event: 'start', schema: 'timeseer.follow', window: 300, delay: 25 });
    expect(only(events, 'open')).toMatchObject([
      { column: 'load', ongoing: true, from: { shown: '2025-03-05 11:30' } },
    ]);
    expect(only(events, 'closed')).toMatchObject([
      {
        reason: 'over',
        ongoing: false,
        from: { shown: '2025-03-05 11:30' },
        to: { shown: '2025-03-05 18:45' },
        rows: { first: 432, last: 461 },
      },
    ]);
    expect(only(events, 'open')[0]).toHaveProperty('id', (only(events, 'closed')[0] as { id: string }).id);
    expect(events.at(-1)).toEqual({ event: 'end', rows: 601, bad: 0, late: 0, tooLate: 0 });
  });

  test('what lasts until the input ends is closed as such', async () => {
    const events = await told(rows(460, 440, 460));
    expect(only(events, 'closed')).toMatchObject([{ reason: 'input ended', ongoing: true }]);
  });

  test('rows that come late are sorted in, those older than the window are dropped, and both are said', async () => {
    const lines = rows(600, 430, 460);
    const moved = lines.splice(440, 1)[0]!;
    lines.splice(447, 0, moved);
    lines.splice(590, 0, `${stamp(3)},4000`);
    const events = await told(lines);
    expect(note(events, 'late')).toMatch(/^Line 449 .*sorted in/);
    expect(note(events, 'too-late')).toMatch(/^Line 592 .*dropped/);
    expect(events.at(-1)).toMatchObject({ late: 1, tooLate: 1 });
    expect(only(events, 'closed')).toMatchObject([{ to: { shown: '2025-03-05 18:45' } }]);
  });

  test('rows that cannot be read are counted, the first with its line, and end nothing', async () => {
    const lines = rows(600, 430, 460);
    lines.splice(100, 0, 'not a row', `${stamp(100)},1,2,3`);
    lines.splice(500, 0, 'yesterday,50.2', 'later');
    const events = await told(lines);
    expect(note(events, 'bad-row')).toMatch(/^Line (102|103) was left out: /);
    expect(events.at(-1)).toMatchObject({ bad: 4, rows: 605 });
    expect(only(events, 'open')).toHaveLength(1);
  });

  test('a header or times that cannot be read end it', async () => {
    const none = async (text: string): Promise<void> => follow(inParts(text, 50), OPTIONS, () => {});
    await expect(none('1,2\n3,4\n5,6\n7,8\n')).rejects.toThrow(/no header/);
    await expect(none('a,b\n3,4\n5,7\n7,8\n1,9\n')).rejects.toThrow(/no time column/);
    await expect(none('time,b\n10:00,4\n10:01,7\n10:02,8\n10:03,9\n')).rejects.toThrow(/without dates/);
  });

  test('what was told before a restart is not told again', async () => {
    let state: ReportState | null = null;
    const lines = rows(500, 430, 460);
    await told(lines, {}, (now) => {
      state = now;
    });
    expect(state).not.toBeNull();
    expect(only(await told(lines, { state }), 'open')).toHaveLength(0);
  });

  test('the window and the pace are held to their range', () => {
    expect(pace({ window: 20_000, every: undefined })).toEqual({ every: 100, delay: 5000, first: 200 });
    expect(() => pace({ window: 49, every: undefined })).toThrow(/--window: expected 50/);
    expect(() => pace({ window: 100_001, every: undefined })).toThrow(/100000/);
    expect(() => pace({ window: 100, every: 101 })).toThrow(/--every: expected 1 to 100/);
  });
});
