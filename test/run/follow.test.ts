import fc from 'fast-check';
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
    expect(events[0]).toMatchObject({ event: 'start', schema: 'timeseer.follow', window: 300, delay: 55 });
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
    expect(events.at(-1)).toEqual({
      ...{ event: 'end', rows: 601, bad: 0, late: 0, tooLate: 0, known: 0, open: [] },
    });
  });

  test('what lasts until the input ends stays open, and the next run goes on with it', async () => {
    let state: ReportState | null = null;
    const remember = (now: ReportState): void => {
      state = JSON.parse(JSON.stringify(now));
    };
    const lines = rows(520, 440, 470);
    const first = await told(lines.slice(0, 455), {}, remember);
    expect(only(first, 'open')).toHaveLength(1);
    expect(only(first, 'closed')).toEqual([]);
    const [open] = only(first, 'open') as { id: string }[];
    expect(first.at(-1)).toMatchObject({ open: [{ id: open!.id, level: expect.any(String) }] });
    // Five rows come again, as from a reader that begins a little earlier.
    const second = await told(lines.slice(450), { state }, remember);
    expect(second[0]).toMatchObject({ event: 'start', open: [{ id: open!.id }] });
    expect(only(second, 'open')).toEqual([]);
    expect(only(second, 'closed')).toMatchObject([{ id: open!.id, reason: 'over' }]);
    expect(second.at(-1)).toMatchObject({ known: 5, late: 0, open: [] });
  });

  test('rows without a value far from the others, and times that leap alone, open no gap', async () => {
    const lines = rows(600, 430, 460);
    lines.splice(480, 0, `${stamp(100)},`, `${stamp(90_000)},51`, `${stamp(90_001)},`);
    const events = await told(lines);
    expect(note(events, 'stray-row')).toMatch(/^Line 483 was left out: its time is far ahead/);
    expect(events.at(-1)).toMatchObject({ bad: 3, late: 0, open: [] });
    expect(only(events, 'open')).toHaveLength(1);
    expect(only(events, 'closed')).toMatchObject([{ to: { shown: '2025-03-05 18:45' } }]);
  });

  test('a stop of weeks is a gap like any other', async () => {
    const lines = rows(600, 430, 460);
    const later = rows(120, 0, 0).map((row, i) => row.replace(/^[^,]*/, stamp(20_000 + i)));
    const events = await told([...lines, ...later]);
    expect(events.at(-1)).toMatchObject({ rows: 721, bad: 0, late: 0 });
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
    expect(pace({ window: 20_000, every: undefined })).toEqual({
      ...{ every: 100, most: 5000, delay: 5100, first: 200 },
    });
    expect(() => pace({ window: 49, every: undefined })).toThrow(/--window: expected 50/);
    expect(() => pace({ window: 100_001, every: undefined })).toThrow(/100000/);
    expect(() => pace({ window: 100, every: 101 })).toThrow(/--every: expected 1 to 100/);
  });
});

describe('any number of runs', () => {
  /** Two incidents in six days of noise, every 15 minutes: a step that is taken back, and one that goes on. */
  const recorded = (seed: number, first: number, second: number): string[] => {
    const draw = new Random(seed, 'runs');
    return Array.from({ length: 600 }, (_, i) => {
      const incident = (i >= first && i < first + 24) || i >= second ? 40 : 0;
      return `${stamp(i)},${(50 + incident + draw.normal()).toFixed(2)}`;
    });
  };

  test('with kills report each incident once, open it before they close it, and end as one run does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 1000 }),
        fc.integer({ min: 220, max: 320 }),
        fc.integer({ min: 500, max: 570 }),
        // Rows of each run; and those that come again in it. A run with such rows is killed.
        fc.array(fc.tuple(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 40 })), {
          maxLength: 5,
        }),
        async (seed, first, second, runs) => {
          const lines = recorded(seed, first, second);
          const options = { window: 450, every: 30, severity: 4 };
          const whole = await told(lines, options);
          let state: ReportState | null = null;
          const events: FollowEvent[] = [];
          for (const [count, lost] of [...runs, [lines.length, 0] as const]) {
            const last: number = state?.followed?.rows.at(-1)?.[1] ?? Date.parse(`${stamp(0)}Z`) - 900_000;
            const at: number = (last - Date.parse(`${stamp(0)}Z`)) / 900_000 + 1;
            const states: { readonly events: number; readonly state: ReportState }[] = [];
            const part: FollowEvent[] = [];
            const rows = lines.slice(Math.max(0, at - lost), at + count).join('\n');
            await follow(
              inParts(`time,load\n${rows}\n`, 997),
              { ...OPTIONS, ...options, state },
              (event) => part.push(event),
              (now) => states.push({ events: part.length, state: JSON.parse(JSON.stringify(now)) }),
            );
            // A killed run has told and remembered what came before its last judgement.
            const kept = lost === 0 ? states.at(-1) : (states.at(-2) ?? states.at(-1));
            if (kept === undefined) continue;
            state = kept.state;
            events.push(...(lost === 0 ? part : part.slice(0, kept.events)));
          }
          const ids = only(events, 'open').map((event) => (event as { id: string }).id);
          expect(new Set(ids).size).toBe(ids.length);
          const open = new Set<string>();
          for (const event of events) {
            if (event.event === 'open') open.add(event.id);
            if (event.event === 'closed') expect(open.delete(event.id)).toBe(true);
          }
          const last = (list: readonly FollowEvent[]) =>
            (list.at(-1) as { open: readonly { column: string; from: { ms: number } }[] }).open;
          expect(open.size).toBe(last(events).length);
          expect(last(events).length).toBe(last(whole).length);
          expect(only(events, 'open').length).toBe(only(whole, 'open').length);
        },
      ),
      { numRuns: Number(process.env['TIMESEER_RUNS'] ?? 4), endOnFailure: true },
    );
  }, 240_000);
});
