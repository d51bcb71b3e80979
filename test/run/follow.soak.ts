import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRecording } from '../../datasets/readers/recording.ts';
import type { FollowedFinding, ReportState } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { detectRecording } from '../../src/run/detect.ts';
import { type FollowEvent, type FollowOptions, follow, pace } from '../../src/run/follow.ts';

const OPTIONS: FollowOptions = {
  ...{ name: 'input', columns: [], time: undefined, key: undefined, select: undefined, tz: undefined },
  ...{ severity: 3, direction: 'both', absoluteFloor: 0, relativeFloor: 0.02 },
  ...{ window: 300, every: 25, state: null },
};

const stamp = (i: number): string => new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16);

async function* inParts(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const only = (events: readonly FollowEvent[], kind: FollowEvent['event']): FollowEvent[] =>
  events.filter(({ event }) => event === kind);

/** Noise around 50 every 15 minutes, with 40 more in stretches [from, to). */
function recorded(n: number, seed: number, stretches: readonly (readonly [number, number])[]): string[] {
  const draw = new Random(seed, 'runs');
  return Array.from({ length: n }, (_, i) => {
    const more = stretches.some(([from, to]) => i >= from && i < to) ? 40 : 0;
    return `${stamp(i)},${(50 + more + draw.normal()).toFixed(2)}`;
  });
}

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
        // Rows of each run; and those that come again in it. A run with such rows is killed.
        fc.array(fc.tuple(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 40 })), {
          maxLength: 5,
        }),
        async (seed, first, second, end, runs) => {
          const incidents = [[first, first + 24] as const, [second, 600] as const];
          const lines = recorded(600, seed, incidents).slice(0, end);
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
          for (const incident of incidents) {
            const count = opened.filter((finding) => within(finding, incident)).length;
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
