import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRecording, wallTime } from '../../datasets/readers/recording.ts';
import { isoTime, type PolicyOpinion } from '../../src/explain/report.ts';
import { Random } from '../../src/ground/random.ts';
import { clocksOf, detectFile, detectRecording, weekendsOf } from '../../src/run/detect.ts';
import { temporary } from '../helpers/temporary.ts';

const shared = temporary('detect');

/** Half-hourly requests that follow the clock of a zone for 26 days around its change, stamped in UTC. Default: Berlin in March 2025. */
function acrossSpring(zone = 'Europe/Berlin', first = Date.UTC(2025, 2, 16, 23)): string {
  const draw = new Random(4, 'spring');
  const rows = Array.from({ length: 26 * 48 }, (_, i) => {
    const ms = first + i * 1_800_000;
    const hour = (wallTime(ms, zone) % 86_400_000) / 86_400_000;
    const value = 300 + 200 * Math.exp(-((hour - 0.55) ** 2) / 0.001) + 5 * draw.normal();
    return `${new Date(ms).toISOString().slice(0, 19)}Z,${value.toFixed(2)}`;
  });
  return `time,requests\n${rows.join('\n')}\n`;
}

/** Values of working days, stamped at midnight UTC, of which one is odd. */
function daily(): string {
  const draw = new Random(5, 'daily');
  const days = Array.from({ length: 400 }, (_, i) => new Date(Date.UTC(2024, 0, 1 + i)));
  const working = days.filter((day) => day.getUTCDay() % 6 !== 0);
  const rows = working.map((day, i) => `${day.toISOString()},${(i === 150 ? 90 : 50) + draw.normal()}`);
  return `time,requests\n${rows.join('\n')}\n`;
}

describe('a statement', () => {
  test('has the digits of the numbers that it shows, not of an expected value that it leaves out', async () => {
    const draw = new Random(1, 'flat');
    const rows = Array.from({ length: 1000 }, (_, i) => {
      const value = 120 * Math.exp(0.3 * draw.normal());
      const at = new Date(Date.UTC(2025, 2, 3) + i * 300_000).toISOString().slice(0, 16);
      return `${at},${(i >= 600 && i < 640 ? 68.2 : value).toFixed(1)}`;
    });
    const recording = readRecording(new TextEncoder().encode(`time,latency\n${rows.join('\n')}\n`));
    const { report } = await detectRecording('made', recording, {});
    expect(report.findings.map(({ statement }) => statement)).toEqual([
      'latency stayed at 68.2 from 2025-03-05 02:00 to 05:15.',
    ]);
  });
});

describe('a series that is no table', () => {
  const values = Float64Array.from(
    { length: 400 },
    (_, t) => Math.sin(t / 5) + (t >= 300 && t < 310 ? 4 : 0) + ((t * 7919) % 13) / 100,
  );
  /** Bytes of a .npy file of version 1.0. */
  const npy = (array: Float64Array, shape: string): Buffer => {
    const header = `{'descr': '<f8', 'fortran_order': False, 'shape': (${shape}), }`.padEnd(117);
    const length = Buffer.from(Uint16Array.of(118).buffer);
    return Buffer.concat([
      Buffer.from('\x93NUMPY\x01\x00', 'latin1'),
      ...[length, Buffer.from(`${header}\n`), Buffer.from(array.buffer)],
    ]);
  };
  const request = { columns: [], time: undefined, key: undefined, select: undefined, tz: undefined };
  const written = (name: string, content: string | Buffer): string => {
    writeFileSync(join(shared, name), content);
    return join(shared, name);
  };

  test('is judged like a column of the same numbers', async () => {
    const files = [
      written('001_UCR_Anomaly_made_200_301_310.txt', `  ${values.join('  ')}\n`),
      written('one.npy', npy(values, '400,')),
      written('column.csv', `${values.join('\n')}\n`),
    ];
    const reports = await Promise.all(files.map((file) => detectFile({ ...request, file })));
    const found = reports.map(({ report }) => report.findings.map(({ start, end }) => [start, end]));
    expect(found[0]!.length).toBeGreaterThan(0);
    expect(found[1]).toEqual(found[0]);
    expect(found[2]).toEqual(found[0]);
    expect(reports.map(({ report }) => report.columns[0]!.name)).toEqual(['value', 'channel 1', 'column 1']);
  });

  test('has samples for places, not lines', async () => {
    const gapped = values.slice();
    gapped[7] = Number.NaN;
    const { report } = await detectFile({ ...request, file: written('gap.npy', npy(gapped, '400,')) });
    expect(report.notes.map(({ text }) => text)).toEqual([
      '1 value missing, the first at sample 7, column "channel 1".',
    ]);
    expect(report.findings.every(({ rows }) => rows === null)).toBe(true);
  });

  test('is one, and knows no options of tables', async () => {
    const file = written('two.npy', npy(values, '2, 200'));
    await expect(detectFile({ ...request, file })).rejects.toThrow(
      /two\.npy: 2 series, one is read: save x\[0\], or .* as CSV/,
    );
    await expect(detectFile({ ...request, file, key: 'host' })).rejects.toThrow('--key: ');
    expect(() => readRecording(npy(values, '400,'))).toThrow(
      "not text, but a NumPy array; save it as CSV: np.savetxt('x.csv', x, delimiter=',')",
    );
  });
});

test('weekends are listed until three weeks are known, which is when weeks repeat', () => {
  const hour = 3_600_000;
  const weeks = (hours: number) => {
    const time = Float64Array.from({ length: hours }, (_, i) => Date.UTC(2014, 3, 1) + i * hour);
    return weekendsOf({ step: hour, time, clockZone: null, origin: 'calendar' });
  };
  const weekends = [4, 11, 18].map((day) => [24 * day, 24 * (day + 2)]);
  expect(weeks(14 * 24)).toEqual(weekends.slice(0, 2));
  expect(weeks(21 * 24 - 1)).toEqual(weekends);
  expect(weeks(21 * 24)).toEqual([]);
});

describe('a recording across the change of the clock', () => {
  const file = join(shared, 'spring.csv');
  writeFileSync(file, acrossSpring());
  const request = { file, columns: [], time: undefined, key: undefined, select: undefined };

  test.each([undefined, 'Europe/Berlin', 'America/New_York', 'Pacific/Auckland'])(
    'keeps its season whatever zone it is shown in: %s',
    async (tz) => {
      const { report } = await detectFile({ ...request, tz });
      expect(report.columns[0]!.seasons).toEqual([48]);
      expect(report.findings).toEqual([]);
    },
  );

  test.each([
    ['America/Los_Angeles', Date.UTC(2025, 9, 20)],
    ['America/Chicago', Date.UTC(2025, 1, 25)],
    ['Europe/London', Date.UTC(2025, 9, 12)],
    ['Australia/Melbourne', Date.UTC(2025, 8, 22)],
    ['Asia/Tokyo', Date.UTC(2025, 2, 16)],
  ])('keeps its season where %s sets the clock and the stamps are UTC', async (zone, first) => {
    const rows = acrossSpring(zone, first).split('\n');
    const own = rows.map((row) =>
      row.replace(/^(\S+Z),/, (_, stamp) => `${isoTime(Date.parse(stamp), zone)},`),
    );
    for (const lines of [rows, own]) {
      const recording = readRecording(Buffer.from(lines.join('\n')));
      const { report } = await detectRecording('a.csv', recording, {});
      expect([report.columns[0]!.seasons, report.findings]).toEqual([[48], []]);
    }
  });

  test('has equal findings in every zone', async () => {
    const rows = acrossSpring().trimEnd().split('\n');
    const odd = rows.map((row, i) => (i >= 800 && i < 812 ? row.replace(/,.*/, ',650') : row)).join('\n');
    const stamps = [
      odd,
      odd.replaceAll(/^(\S+)Z,/gm, (_, stamp) => `${Date.parse(`${stamp}Z`) / 1000},`),
      odd.replaceAll(/^(\S+)Z,/gm, (_, stamp) => `${stamp}+00:00,`),
      daily(),
    ];
    const zones = fc.constantFrom(...Intl.supportedValuesOf('timeZone'), 'UTC', '+14:00', '-11:30');
    const found = async (text: string, tz?: string) => {
      const recording = readRecording(Buffer.from(text), { tz });
      const { source, report } = await detectRecording('a.csv', recording, { severity: 1 });
      return {
        findings: report.findings.map(({ column, kind, level, severity, start, end, from }) => ({
          ...{ column, kind, level, severity, start, end, ms: from!.ms },
        })),
        bounds: source.columns.map(({ detection }) => [...detection.low, ...detection.high]),
      };
    };
    for (const text of stamps) {
      const expected = await found(text);
      expect(expected.findings).not.toEqual([]);
      await fc.assert(
        fc.asyncProperty(zones, async (tz) => {
          expect(await found(text, tz)).toEqual(expected);
        }),
        { numRuns: 5, examples: [['America/New_York'], ['Europe/Berlin'], ['Pacific/Kiritimati']] },
      );
    }
  });

  test('is not reported with answers of a policy that contradict themselves', async () => {
    const recording = readRecording(file);
    const column: PolicyOpinion['columns'][number] = {
      ...{ column: 'requests', status: 'answers', statement: 'Marks 9 intervals.', window: 48, doubtful: 0 },
      ...{ limit: 0.3, class: null, signals: [], answers: [], intervals: [] },
    };
    const ask = async (): Promise<PolicyOpinion> => ({ name: 'p', record: {}, notes: [], columns: [column] });
    await expect(detectRecording('spring.csv', recording, { ask })).rejects.toThrow(/statement/);
  });

  test('has a clock that is two half hours ahead from then on, and none in UTC', () => {
    const hours = 24 * 26;
    const time = Float64Array.from(
      { length: 2 * hours },
      (_, i) => Date.UTC(2025, 2, 16, 23) + i * 1_800_000,
    );
    const recording = { time, step: 1_800_000, origin: 'calendar' as const };
    const clock = clocksOf({ ...recording, clockZone: 'Europe/Berlin' }).clock!;
    const spring = time.indexOf(Date.UTC(2025, 2, 30, 1));
    expect([clock[0], clock[spring - 1], clock[spring], clock.at(-1)]).toEqual([0, 0, 2, 2]);
    expect(clocksOf({ ...recording, clockZone: 'Asia/Tokyo' })).toEqual({});
    expect(clocksOf({ ...recording, clockZone: 'Europe/Berlin', origin: 'start' })).toEqual({});
    // Where the stamps are UTC, it is one of those to try.
    const { clocks } = clocksOf({ ...recording, clockZone: 'UTC' });
    expect(clocks).toContainEqual(clock);
  });
});
