/** Made-up recordings with what a detector would say about them. */

import { precedents } from '../../src/detect/describe.ts';
import { type Detection, type Finding, LEVELS, type Level } from '../../src/detect/finding.ts';
import { count, figure, say } from '../../src/detect/sentence.ts';
import type { ReportColumn, ReportSource } from '../../src/explain/report.ts';
import { Random } from '../../src/ground/random.ts';

/** A departure to put into a column, and how severe it is said to be. */
export interface Departure extends Partial<Finding> {
  /** What happened, as it follows the name of the column; when absent, from the value to what was expected. */
  readonly fact?: string;
  readonly start: number;
  readonly end: number;
  readonly severity: number;
  readonly kind: Finding['kind'];
  /** What the value becomes. */
  readonly becomes: (usual: number, i: number) => number;
}

/** "went to 410 (expected about 150)". */
function usualFact(values: Float64Array, expected: Float64Array, peak: number): Finding['says'] {
  const at = { start: peak, end: peak + 1 };
  const value = figure(values[peak]!, 0.1, { quantity: 'value', ...at });
  const usual = figure(expected[peak]!, 0.1, { quantity: 'expected', ...at });
  return { fact: say`went to ${value}`, context: [say`expected about ${usual}`] };
}

const levelOf = (severity: number): Level =>
  (Object.keys(LEVELS) as Level[]).findLast((name) => severity >= LEVELS[name]) ?? 'low';

/** A daily season of `day` samples around `mean` with noise, and departures in it. */
export function sampleColumn(
  name: string,
  length: number,
  { day, mean, departures }: { day: number; mean: number; departures: readonly Departure[] },
): ReportColumn {
  const random = new Random(3, `column ${name}`);
  const expected = Float64Array.from(
    { length },
    (_, i) => mean * (1 + 0.6 * Math.sin((2 * Math.PI * (i - day / 3)) / day)),
  );
  const values = expected.map((value) => value + 0.04 * mean * random.normal());
  const width = 0.11 * mean;
  const score = values.map((value, i) => Math.max(0, (Math.abs(value - expected[i]!) / width - 0.6) * 0.9));
  const findings = departures.map((one): Finding => {
    for (let i = one.start; i < one.end; i++) {
      values[i] = one.becomes(values[i]!, i);
      score[i] = one.severity;
    }
    const inside = values.subarray(one.start, one.end);
    const distance = (i: number): number => Math.abs(values[i]! - expected[i]!);
    let peak = one.start;
    for (let i = one.start; i < one.end; i++) if (distance(i) > distance(peak)) peak = i;
    return {
      start: one.start,
      end: one.end,
      kind: one.kind,
      direction: one.direction ?? (values[peak]! > expected[peak]! ? 'above' : 'below'),
      severity: one.severity,
      level: levelOf(one.severity),
      peak: { index: peak },
      observed: {
        least: Math.min(...inside),
        mean: inside.reduce((sum, value) => sum + value, 0) / inside.length,
        largest: Math.max(...inside),
        peak: values[peak]!,
      },
      expected: { value: expected[peak]!, low: expected[peak]! - width, high: expected[peak]! + width },
      before: precedents(values, { ...one, peak: { index: peak } }, { period: day, clock: null }, []),
      says:
        one.fact === undefined ? usualFact(values, expected, peak) : { fact: say([one.fact]), context: [] },
      evidence: one.evidence ?? {
        for: [`${distance(peak).toPrecision(3)} from what is usual at that time of day`],
        against: [],
      },
      similar: one.similar ?? [],
      stepped: null,
      lasting: false,
      ongoing: one.end === length,
    };
  });
  const detection: Detection = {
    score,
    expected,
    low: expected.map((value) => value - width),
    high: expected.map((value) => value + width),
    findings: findings.sort((a, b) => b.severity - a.severity),
    leftOut: { severity: 0, direction: 0, change: 0, share: 0 },
    structure: say`Repeats every ${count(day, { quantity: 'period', start: 0, end: length })} samples.`,
    seasons: [day],
  };
  return { name, values, detection };
}

export const stamp = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');

/** A recording of columns; every five minutes from 3 March 2025 where nothing else is said. */
export function sampleSource(
  columns: readonly ReportColumn[],
  change: Partial<ReportSource> = {},
): ReportSource {
  const step = 300_000;
  const first = Date.UTC(2025, 2, 3);
  return {
    file: 'web-requests.csv',
    columns,
    time: Float64Array.from({ length: columns[0]!.values.length }, (_, i) => first + i * step),
    step,
    origin: 'calendar',
    zone: null,
    formatTime: stamp,
    lines: Int32Array.from({ length: columns[0]!.values.length }, (_, i) => i + 2),
    notes: [
      { kind: 'naive', text: 'The time stamps name no zone; they are shown as they stand in the file.' },
      { kind: 'step', text: 'One sample every 5 minutes.' },
    ],
    ...change,
  };
}

/** Ten days of requests: a dropout on the second day, a spike on the sixth, and a shift that goes on. */
export function requests(change: Partial<ReportSource> = {}): ReportSource {
  const column = sampleColumn('requests', 2880, {
    day: 288,
    mean: 300,
    departures: [
      {
        start: 456,
        end: 487,
        severity: 14.2,
        kind: 'flat',
        becomes: () => 0,
        fact: 'stood still',
        evidence: {
          for: ['31 samples at 0, where no other day has one', 'it begins and ends within one sample'],
          against: ['a part of the same length is missing nowhere else'],
        },
        similar: [{ start: 1700, end: 1704 }],
      },
      { start: 1610, end: 1613, severity: 5.1, kind: 'spike', becomes: (usual) => usual + 260 },
      { start: 2800, end: 2880, severity: 3.2, kind: 'level', becomes: (usual) => usual + 55 },
    ],
  });
  return sampleSource([column], change);
}

/** Three columns of one host: disk waits first, then the load, then requests fall; and a spike in one alone. */
export function host(): ReportSource {
  const day = 288;
  const length = 2016;
  return sampleSource(
    [
      sampleColumn('requests', length, {
        ...{ day, mean: 300 },
        departures: [
          { start: 1212, end: 1260, severity: 9.5, kind: 'level', becomes: (usual) => 0.35 * usual },
          { start: 500, end: 502, severity: 2.4, kind: 'spike', becomes: (usual) => usual + 120 },
        ],
      }),
      sampleColumn('disk_wait_ms', length, {
        ...{ day, mean: 12 },
        departures: [
          { start: 1200, end: 1262, severity: 6.3, kind: 'level', becomes: (usual) => usual + 14 },
        ],
      }),
      sampleColumn('load', length, {
        ...{ day, mean: 3 },
        departures: [
          {
            start: 1206,
            end: 1259,
            severity: 4.4,
            kind: 'variance',
            becomes: (usual, i) => usual + 3 * ((i * 7) % 3),
          },
        ],
      }),
    ],
    { file: 'host-17.csv' },
  );
}

/** 100 000 samples at each minute, with spikes of one sample and longer departures. */
export function longSource(): ReportSource {
  const n = 100_000;
  const departures = Array.from({ length: 30 }, (_, k) => ({
    start: 3000 + 3101 * k,
    end: 3000 + 3101 * k + (k % 3 === 0 ? 500 : 1),
    severity: 1.5 + (k % 7),
    kind: 'spike' as const,
    becomes: (usual: number) => usual + 60 + k,
  }));
  const first = Date.UTC(2025, 0, 1);
  return sampleSource([sampleColumn('latency', n, { day: 1440, mean: 80, departures })], {
    ...{ step: 60_000, lines: null, time: Float64Array.from({ length: n }, (_, i) => first + i * 60_000) },
  });
}
