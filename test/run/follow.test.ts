import { describe, expect, test } from 'vitest';
import type { FollowedFinding, ReportState } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { type FollowEvent, follow, pace } from '../../src/run/follow.ts';
import { inParts, note, OPTIONS, only, recorded, stamp, told } from '../helpers/followed.ts';

/** Noise around 50 every 15 minutes; 90 in samples [from, to). */
function rows(n: number, from: number, to: number): string[] {
  const draw = new Random(5, 'follow');
  return Array.from(
    { length: n },
    (_, i) => `${stamp(i)},${((i >= from && i < to ? 90 : 50) + draw.normal()).toFixed(2)}`,
  );
}

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

  test.each<[string, (row: string) => string]>([
    [
      'JSON lines',
      (row) =>
        JSON.stringify({ load: Number(row.split(',')[1]), time: row.split(',')[0], s: '5" "x', more: 'y' }),
    ],
    [
      'line protocol',
      (row) => `m,host=a s="5\\" x",load=${row.split(',')[1]} ${Date.parse(`${row.split(',')[0]}Z`)}000000`,
    ],
  ])('%s are followed as rows are', async (_, write) => {
    const events: FollowEvent[] = [];
    const text = rows(600, 430, 460).map((row) => `${write(row)}\n`);
    text.splice(500, 0, 'restarted\n');
    await follow(inParts(text.join(''), 997), OPTIONS, (event) => events.push(event));
    const [open, closed] = [only(events, 'open'), only(events, 'closed')] as unknown as FollowedFinding[][];
    const [plain] = only(await told(rows(600, 430, 460)), 'closed') as unknown as FollowedFinding[];
    expect(open).toMatchObject([{ column: 'load', ongoing: true }]);
    expect(closed).toMatchObject([{ observed: plain!.observed, rows: { first: 431, last: 460 } }]);
    expect(closed![0]!.to!.ms).toBe(plain!.to!.ms);
    expect(events.at(-1)).toMatchObject({ rows: 601, bad: 1, open: [] });
  });

  test('a dip inside an open level is a finding of its own, and the level goes on', async () => {
    const lines = rows(1200, 900, 1200);
    for (let i = 1040; i < 1046; i++) lines[i] = `${stamp(i)},12`;
    const events = await told(lines, { window: 900 });
    expect(only(events, 'open')).toMatchObject([
      { kind: 'level', direction: 'above' },
      { direction: 'below', from: { ms: Date.parse(`${stamp(1040)}Z`) } },
    ]);
    const [level, dip] = only(events, 'open') as { id: string }[];
    expect(only(events, 'closed')).toMatchObject([{ id: dip!.id, reason: 'over' }]);
    expect(events.at(-1)).toMatchObject({ open: [{ id: level!.id }] });
  });

  test('usual values at an unusual time are told also where all rows come at once', async () => {
    const draw = new Random(5, 'at once');
    const lines = Array.from({ length: 1152 }, (_, i) => {
      const night = i >= 840 && i < 856; // from 18:00 on
      const value = 50 - 20 * Math.cos((2 * Math.PI * i) / 96) + draw.normal();
      return `${stamp(i)},${(night ? 31 + draw.normal() : value).toFixed(2)}`;
    });
    const events: FollowEvent[] = [];
    const options = { ...OPTIONS, window: 20_000, every: undefined };
    await follow(inParts(`time,load\n${lines.join('\n')}\n`, 1e6), options, (event) => events.push(event));
    expect(only(events, 'closed')).toMatchObject([
      { direction: 'below', reason: 'over', from: { ms: Date.parse(`${stamp(840)}Z`) } },
    ]);
  });

  test('rows that come at once show what is usual before anything is told', async () => {
    const draw = new Random(5, 'weekly');
    // A peak of two hours once a week, from the second week on.
    const lines = Array.from({ length: 672 * 6 }, (_, i) => {
      const peak = i >= 672 && i % 672 >= 420 && i % 672 < 428;
      return `${stamp(i)},${(50 + (peak ? 40 : 0) + draw.normal()).toFixed(2)}`;
    });
    const events: FollowEvent[] = [];
    const options = { ...OPTIONS, window: 20_000, every: undefined };
    await follow(inParts(`time,load\n${lines.join('\n')}\n`, 1e6), options, (event) => events.push(event));
    expect(only(events, 'open').length).toBeLessThanOrEqual(1);
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

  test.each([0, 30])(
    'a stamp years ahead before the first judgement, after %i rows, costs nothing',
    async (at) => {
      const lines = rows(600, 430, 460);
      lines.splice(1 + at, 0, `${stamp(200_000)},51`);
      const events = await told(lines);
      expect(note(events, 'stray-row')).toContain(`Line ${3 + at} was left out`);
      expect(events.at(-1)).toMatchObject({ bad: 1, late: 0, tooLate: 0, open: [] });
      expect(only(events, 'closed')).toMatchObject([{ to: { shown: '2025-03-05 18:45' } }]);
    },
  );

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

  test('the state of another stream is refused, where its findings would hide others', async () => {
    let state: ReportState | null = null;
    await told(rows(400, 0, 0), {}, (now) => {
      state = now;
    });
    const others = rows(500, 0, 0)
      .slice(300)
      .map((row) => `${row}5`);
    await expect(told(others, { state })).rejects.toThrow(/belongs to another stream: \d+ rows have times/);
  });

  describe('rows of another form', () => {
    const json = (row: string): string => `{"time":"${row.split(',')[0]}","load":${row.split(',')[1]}}`;
    const follows = async (text: readonly string[], state: ReportState | null) => {
      let last = state;
      const events: FollowEvent[] = [];
      const options = { ...OPTIONS, state };
      const remember = (now: ReportState): void => {
        last = now;
      };
      await follow(
        inParts(text.map((row) => `${row}\n`).join(''), 997),
        options,
        (e) => events.push(e),
        remember,
      );
      return { events, last };
    };

    test.each<[string, string[], string[], RegExp]>([
      [
        'another header',
        ['time,load'],
        ['time,cpu', ...rows(420, 0, 0).slice(400)],
        /another header \(time,cpu\)/,
      ],
      [
        'more columns',
        ['time,load'],
        rows(420, 0, 0)
          .slice(400)
          .map((row) => `${row},1`),
        /none of 20 rows/,
      ],
      ['JSON lines in CSV', ['time,load'], rows(420, 0, 0).slice(400).map(json), /none of 20 rows/],
    ])('%s is refused, and nothing of it is kept', async (_, head, others, message) => {
      const { last } = await follows([...head, ...rows(400, 0, 0)], null);
      const before = JSON.stringify(last);
      await expect(follows(others, last)).rejects.toThrow(message);
      expect(JSON.stringify(last)).toBe(before);
    });

    test('CSV in JSON lines is refused with a state, and noted within a stream', async () => {
      const { last } = await follows(rows(400, 0, 0).map(json), null);
      const csv = ['time,load', ...rows(460, 0, 0).slice(400)];
      await expect(follows(csv, last)).rejects.toThrow(
        /belongs to another stream: none of 25 rows from line 1/,
      );
      const { events, last: kept } = await follows([...rows(400, 0, 0).map(json), ...csv], null);
      expect(note(events, 'other-form')).toMatch(
        /^The form of the input has changed: none of \d+ rows from line 4/,
      );
      expect(kept!.followed!.rows.at(-1)![0]).toBe(400);
    });

    test('JSON lines of other keys are refused with a state', async () => {
      const { last } = await follows(rows(400, 0, 0).map(json), null);
      const others = rows(460, 0, 0)
        .slice(400)
        .map((row) => json(row).replace('load', 'cpu'));
      await expect(follows(others, last)).rejects.toThrow(/another stream: none of 25 rows from line 1/);
    });

    test('new keys of numbers are noted', async () => {
      const more = rows(460, 0, 0).map((row, i) =>
        i < 420 ? json(row) : json(row).replace('}', ',"cpu":1,"msg":"x"}'),
      );
      expect(note((await follows(more, null)).events, 'new-key')).toMatch(/^New keys, not followed: "cpu"/);
    });

    test('a line of words that is no header ends nothing', async () => {
      const lines = ['time,load', ...rows(400, 0, 0)];
      lines.splice(300, 0, 'error,timeout');
      expect((await follows(lines, null)).events.at(-1)).toMatchObject({ bad: 1 });
    });
  });

  test('an input without rows is said to have none', async () => {
    for (const [text, said] of [
      ['', 'had 0 lines'],
      ['time,load\n', 'had 1 line,'],
    ] as const) {
      const events: FollowEvent[] = [];
      await follow(inParts(text, 50), OPTIONS, (event) => events.push(event));
      expect(note(events, 'no-rows')).toContain(said);
    }
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

describe('a short window', () => {
  /** Days of 288 samples between 40 and 60, those of the weekend between 44 and 56. */
  const days = (n: number): string[] => {
    const draw = new Random(3, 'days');
    return Array.from({ length: n }, (_, i) => {
      const swing = Math.floor(i / 288) % 7 < 5 ? 10 : 6;
      const value = 50 + swing * Math.sin((2 * Math.PI * i) / 288) + draw.normal();
      return `${new Date(Date.UTC(2025, 2, 3) + i * 300_000).toISOString().slice(0, 16)},${value.toFixed(2)}`;
    });
  };

  test('opens nothing in a usual week, and says what it cannot know', async () => {
    const events = await told(days(3000), { window: 1000, every: 50, severity: 2 });
    expect(only(events, 'open')).toEqual([]);
    expect(note(events, 'no-week')).toMatch(/less than two weeks.*no level is higher than high/);
  });

  test('opens at once what lies beyond all other values, and what was over long before never', async () => {
    const lines = days(1600);
    for (let i = 1400; i < 1406; i++) lines[i] = lines[i]!.replace(/,.*/, ',95');
    for (let i = 500; i < 506; i++) lines[i] = lines[i]!.replace(/,.*/, ',95');
    const opened = only(await told(lines, { window: 1000, every: 50, severity: 2 }), 'open');
    expect(opened).toMatchObject([{ from: { shown: '2025-03-07 20:40' }, level: 'high' }]);
  });
});

describe('any number of runs', () => {
  const options = { window: 450, every: 30, severity: 4 };
  const start = Date.parse(`${stamp(0)}Z`);
  const sampleOf = (ms: number): number => Math.round((ms - start) / 900_000);

  test('keep a last row far ahead of the others, which the next run confirms', async () => {
    let state: ReportState | null = null;
    const remember = (now: ReportState): void => {
      state = JSON.parse(JSON.stringify(now));
    };
    const lines = recorded(400, 1, []);
    const ahead = (i: number): string => `${stamp(200_000 + i)},51`;
    expect((await told([...lines, ahead(0)], options, remember)).at(-1)).toMatchObject({ bad: 0 });
    expect(state!.followed!.rows).toHaveLength(400);
    expect(state!.followed!.ahead?.[1]).toBe(start + 200_000 * 900_000);
    // It comes again, as from a reader that begins a little earlier, which confirms nothing.
    const second = await told([ahead(0), ahead(1), ahead(2)], { ...options, state }, remember);
    expect(second.at(-1)).toMatchObject({ bad: 0, known: 1 });
    expect(state!.followed!.rows.slice(-3).map(([, time]) => sampleOf(time))).toEqual([
      200_000, 200_001, 200_002,
    ]);
  });
});
