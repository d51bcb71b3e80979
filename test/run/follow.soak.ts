import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRecording } from '../../datasets/readers/recording.ts';
import { checkState, type FollowedFinding, type ReportState } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { detectRecording } from '../../src/run/detect.ts';
import { type FollowEvent, follow, pace } from '../../src/run/follow.ts';
import { inParts, note, OPTIONS, only, recorded, stamp, told } from '../helpers/followed.ts';

describe('a level that stays', () => {
  const options = { window: 450, every: 25 };
  const reasons = (events: readonly FollowEvent[]): (string | undefined)[] =>
    events.map((event) => (event.event === 'closed' ? event.reason : undefined)).filter(Boolean);

  test('closes as usual, and its way back is noted, not opened', async () => {
    const events = await told(recorded(1600, 5, [[500, 1000]]), options);
    expect(only(events, 'open')).toMatchObject([{ direction: 'above' }]);
    expect(reasons(events)).toEqual(['became usual']);
    const { id } = only(events, 'open')[0] as { id: string };
    expect(note(events, 'returned')).toContain(`back at about the level before finding ${id}`);
  });

  test('is over when it returns while it is open', async () => {
    for (const end of [530, 700]) {
      const events = await told(recorded(1600, 5, [[500, end]]), options);
      expect(only(events, 'open')).toMatchObject([{ direction: 'above' }]);
      expect(reasons(events)).toEqual(['over']);
    }
  });
});

describe('a leak', () => {
  test('under a season is told while it goes on, and is over with the restart that ends it', async () => {
    const draw = new Random(9, 'leak');
    const [begins, ends] = [960, 1248];
    const lines = Array.from({ length: 1500 }, (_, i) => {
      const leaked = i >= begins && i < ends ? (40 * (i - begins)) / (ends - begins) : 0;
      return `${stamp(i)},${(40 + 3 * Math.sin((2 * Math.PI * i) / 96) + leaked + draw.normal()).toFixed(2)}`;
    });
    const events = await told(lines, { window: 672, every: 12 });
    const opened = only(events, 'open') as FollowedFinding[];
    expect(opened).toMatchObject([{ kind: 'trend', direction: 'above', ongoing: true }]);
    const start = Date.parse(`${stamp(0)}Z`);
    const begun = (opened[0]!.from!.ms - start) / 900_000;
    expect(Math.abs(begun - begins)).toBeLessThan(24);
    expect(only(events, 'closed')).toMatchObject([{ reason: 'over' }]);
  });
});

describe('a weekly course in a window of half a week', () => {
  const options = { window: 336, every: 12, severity: 2 };
  /** Days of 96 samples with a wave at daytime, half as high on weekends; the first is a Monday. */
  const weeks = (n: number, seed: number): string[] => {
    const draw = new Random(seed, 'weeks');
    return Array.from({ length: n }, (_, i) => {
      const height = Math.floor(i / 96) % 7 < 5 ? 80 : 40;
      const wave = Math.max(0, Math.sin((2 * Math.PI * ((i % 96) - 28)) / 96));
      const at = new Date(Date.UTC(2025, 2, 3) + i * 900_000).toISOString().slice(0, 16);
      return `${at},${(40 + height * wave + 2 * draw.normal()).toFixed(2)}`;
    });
  };

  test('opens nothing that the same hours of the week before show, nor on the first weekend', async () => {
    for (const seed of [1, 2]) expect(only(await told(weeks(1900, seed), options), 'open')).toEqual([]);
  });

  test('opens a Tuesday like a night, also where the week before was told by an earlier run', async () => {
    const lines = weeks(1900, 1);
    const tuesday = 15 * 96;
    for (let i = tuesday; i < tuesday + 96; i++)
      lines[i] = lines[i]!.replace(/,.*/, `,${lines[tuesday - 12 + (i % 12)]!.split(',')[1]}`);
    let state: ReportState | null = null;
    const remember = (now: ReportState): void => {
      state = JSON.parse(JSON.stringify(now));
    };
    const first = await told(lines.slice(0, 1008), options, remember);
    expect(state!.followed!.hours!.length).toBeGreaterThan(240);
    const second = await told(lines.slice(1008), { ...options, state }, remember);
    const opened = only([...first, ...second], 'open') as FollowedFinding[];
    expect(opened.map(({ from }) => from!.shown.slice(0, 10))).toEqual(['2025-03-18']);
    expect(state!.followed!.hours!.length).toBeLessThanOrEqual(1009);
  });

  test('opens the peak of a job that runs once a week the first time alone', async () => {
    const lines = weeks(1500, 1);
    for (const sunday of [6, 13])
      for (let i = sunday * 96 + 8; i < sunday * 96 + 10; i++) lines[i] = lines[i]!.replace(/,.*/, ',400');
    const opened = only(await told(lines, options), 'open') as FollowedFinding[];
    expect(opened.map(({ from }) => from!.shown)).toEqual(['2025-03-09 02:00']);
  });

  test('goes on with a state of version 1, which has no hours', async () => {
    let state: ReportState | null = null;
    await told(weeks(1008, 1), options, (now) => {
      const { hours, ...followed } = now.followed!;
      state = checkState(JSON.parse(JSON.stringify({ ...now, version: 1, followed })), 'state', 'remove it');
    });
    const events = await told(weeks(1100, 1).slice(1000), { ...options, state });
    expect(events.at(-1)).toMatchObject({ known: 8, bad: 0 });
  });
});

describe('any number of runs', () => {
  const options = { window: 450, every: 30, severity: 4 };
  const start = Date.parse(`${stamp(0)}Z`);
  const sampleOf = (ms: number): number => Math.round((ms - start) / 900_000);

  test('with kills report each incident of any prefix once, and end as a batch run over the window does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 1000 }),
        fc.integer({ min: 300, max: 340 }),
        fc.integer({ min: 440, max: 500 }),
        fc.integer({ min: 350, max: 600 }),
        // A dip inside the second incident.
        fc.option(fc.integer({ min: 30, max: 80 })),
        // Rows of each run; and those that come again in it. A run with such rows is killed.
        fc.array(fc.tuple(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 40 })), {
          maxLength: 5,
        }),
        async (seed, first, second, end, inside, runs) => {
          const incidents = [[first, first + 24] as const, [second, 600] as const];
          const whole = recorded(600, seed, incidents);
          const dip = [second + (inside ?? 0), second + (inside ?? 0) + (inside === null ? 0 : 4)] as const;
          for (let i = dip[0]; i < dip[1]; i++) whole[i] = `${stamp(i)},10`;
          const lines = whole.slice(0, end);
          let state: ReportState | null = null;
          const events: FollowEvent[] = [];
          for (const [count, lost] of [...runs, [lines.length, 0] as const]) {
            const at: number = sampleOf(state?.followed?.rows.at(-1)?.[1] ?? start - 900_000) + 1;
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
          const opened = only(events, 'open') as FollowedFinding[];
          const within = ({ from, to }: FollowedFinding, [begin, over]: readonly [number, number]): boolean =>
            sampleOf(from!.ms) < over && sampleOf(to!.ms) >= begin;
          const { delay } = pace(options);
          // The dip, by any name; a level that it ends is not told again.
          const inDip = opened.filter(
            ({ from }) => inside !== null && sampleOf(from!.ms) >= second + inside / 2,
          );
          expect(inDip.length).toBeLessThanOrEqual(1);
          for (const incident of incidents) {
            const some = opened.filter((finding) => !inDip.includes(finding) && within(finding, incident));
            const count = some.length;
            expect(count).toBeLessThanOrEqual(1);
            if (incident[0] + delay + options.every <= end) expect(count).toBe(1);
          }
          expect(opened.every((finding) => incidents.some((one) => within(finding, one)))).toBe(true);
          const open = new Set<string>();
          for (const event of events) {
            if (event.event === 'open') open.add(event.id);
            if (event.event === 'closed') expect(open.delete(event.id)).toBe(true);
          }
          const left = (events.at(-1) as { open: readonly FollowedFinding[] }).open;
          expect(new Set(left.map(({ id }) => id))).toEqual(open);
          const text = `time,load\n${lines.slice(-options.window).join('\n')}\n`;
          const recording = readRecording(new TextEncoder().encode(text));
          const { report } = await detectRecording('input', recording, { severity: 1 });
          const ongoing = report.findings.filter(({ ongoing }) => ongoing);
          type Span = Pick<FollowedFinding, 'from' | 'to'>;
          const same = (a: Span, b: Span): boolean => a.from!.ms <= b.to!.ms && b.from!.ms <= a.to!.ms;
          for (const finding of ongoing)
            if (
              finding.severity >= options.severity &&
              sampleOf(finding.from!.ms) + delay + options.every <= end
            )
              expect(left.some((one) => same(one, finding))).toBe(true);
          for (const one of left)
            if (sampleOf(one.to!.ms) + 1 === end && end - sampleOf(one.from!.ms) < options.window / 4)
              expect(ongoing.some((finding) => same(one, finding))).toBe(true);
        },
      ),
      // TIMESEER_RUNS draws others.
      process.env['TIMESEER_RUNS'] === undefined
        ? { numRuns: 40, seed: 7 }
        : { numRuns: Number(process.env['TIMESEER_RUNS']), endOnFailure: true },
    );
  }, 240_000);
});
