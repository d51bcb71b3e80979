import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { formatTime, readRecording } from '../../datasets/readers/recording.ts';
import { detect } from '../../src/detect/detect.ts';
import { say, stateFinding, statementOf } from '../../src/detect/sentence.ts';
import { policyStatement } from '../../src/explain/policy-words.ts';
import {
  agreementWords,
  buildReport,
  durationWords,
  isoTime,
  markedAlone,
  type PolicyOpinion,
  type ReportSource,
  reportSource,
  selectFindings,
  spanWords,
} from '../../src/explain/report.ts';
import { type AnomalyReport, REPORT, reportSchema } from '../../src/explain/schema.ts';
import { ReportMismatch, verify } from '../../src/explain/verify.ts';
import { Random } from '../../src/ground/random.ts';
import { host, requests, sampleColumn, sampleSource } from '../helpers/anomalies.ts';

describe('a report', () => {
  const source = requests();
  const report = buildReport(source);

  test('ranks findings, with times, durations, values and lines of the file', () => {
    expect(report.findings.map(({ rank, level, kind }) => [rank, level, kind])).toEqual([
      [1, 'critical', 'flat'],
      [2, 'high', 'spike'],
      [3, 'medium', 'level'],
    ]);
    expect(report.findings[0]).toMatchObject({
      ...{ start: 456, end: 487, durationSeconds: 9300, duration: '2 h 35 min', ongoing: false },
      from: { iso: '2025-03-04T14:00:00', shown: '2025-03-04 14:00', ms: Date.UTC(2025, 2, 4, 14) },
      to: { iso: '2025-03-04T16:30:00' },
      observed: { least: 0, mean: 0, largest: 0, peak: 0 },
      rows: { first: 458, last: 488 },
      similar: [{ start: 1700, end: 1704, from: { shown: '2025-03-08 21:40' } }],
    });
    expect(report.counts).toEqual({ low: 0, medium: 1, high: 1, critical: 1, ongoing: 1 });
  });

  test('tells at its head how many, the worst, and what goes on', () => {
    expect(report.headline).toBe(
      '3 findings, 1 ongoing. The worst is a critical flat line in requests, 2025-03-04 14:00 to 16:30 (2 h 35 min), ended. ' +
        'Ongoing: medium level shift in requests since 2025-03-12 17:20.',
    );
    const quiet = selectFindings(report, () => false);
    expect(quiet.headline).toBe(
      'Nothing unusual in 2\u202f880 samples, 2025-03-03 00:00 to 2025-03-12 23:55.',
    );
    expect(selectFindings(report, ({ ongoing }) => ongoing).headline).toBe(
      '1 finding: a medium level shift in requests, 2025-03-12 17:20 to 23:55 (6 h 40 min), ongoing since 2025-03-12 17:20.',
    );
  });

  test.each([2, 15.625, 31.25, 62.5])('holds for samples %f ms apart', (step) => {
    const random = new Random(2, 'fast');
    const rows = Array.from({ length: 600 }, (_, i) => {
      const stamp = new Date(Date.UTC(2025, 0, 1) + i * step).toISOString();
      return `${stamp},${(random.normal() + (i === 400 || i === 401 ? 50 : 0)).toFixed(3)}`;
    });
    const recording = readRecording(Buffer.from(`time,load\n${rows.join('\n')}\n`), { name: 'load.csv' });
    const detection = detect(Float64Array.from(recording.columns[0]!.values));
    const read = reportSource('load.csv', recording, [detection]);
    const told = buildReport(read);
    expect(told.findings).toMatchObject([{ kind: 'spike', start: 400, end: 402 }]);
    verify(told, read);
  });

  test('recognises a finding in a longer recording', () => {
    const longer = buildReport({
      ...source,
      ...{ time: source.time!.slice(100), lines: null },
      columns: source.columns.map(({ name, values, detection }) => ({
        name,
        values: values.slice(100),
        detection: {
          ...detection,
          ...{ score: detection.score.slice(100), expected: detection.expected.slice(100) },
          ...{ low: detection.low.slice(100), high: detection.high.slice(100) },
          findings: detection.findings
            .slice(0, 1)
            .map((one) => ({ ...one, start: 356, end: 390, peak: { index: 360 }, similar: [] })),
        },
      })),
    });
    expect(longer.findings[0]!.id).toBe(report.findings[0]!.id);
    expect(new Set(report.findings.map(({ id }) => id)).size).toBe(3);
  });

  test('counts samples where there is no time', () => {
    const bare = buildReport(requests({ time: null, step: null, lines: null }));
    expect(bare.findings[0]).toMatchObject({
      from: null,
      durationSeconds: null,
      duration: '31 samples',
      rows: null,
    });
    expect(bare.headline).toContain('flat line in requests, samples 456 to 486 (31 samples), ended.');
    verify(bare, requests({ time: null, step: null, lines: null }));
  });

  test('reads its own JSON, publishes its schema, and never holds a number that is none', () => {
    expect(REPORT.parse(JSON.parse(JSON.stringify(report)))).toEqual(report);
    expect(reportSchema()).toMatchObject({ type: 'object', properties: { version: { const: 6 } } });
    const column = source.columns[0]!;
    const values = column.values.map((value, i) => (i < 500 ? Number.NaN : value));
    const findings = column.detection.findings.map((one) => ({
      ...one,
      before: null,
      says: { fact: say`stood still`, context: [] },
      severity: Number.POSITIVE_INFINITY,
      level: 'critical' as const,
      expected: { value: Number.NaN, low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY },
    }));
    const none = new Float64Array(values.length).fill(Number.NaN);
    const detection = { ...column.detection, findings, expected: none, low: none, high: none };
    const odd = { ...source, columns: [{ ...column, values, detection }] };
    const told = buildReport(odd);
    verify(told, odd);
    expect(told.findings[0]).toMatchObject({
      severity: 999,
      expected: { value: null, low: null },
      observed: { least: null, mean: null, peak: null },
    });
    expect(() => REPORT.parse({ ...report, samples: Number.NaN })).toThrow(/samples/);
    expect(() => REPORT.parse({ ...report, version: 1 })).toThrow(/version/);
  });

  test('of times without dates tells no dates, and of a sample that stands for none no line', () => {
    const lines = Int32Array.from({ length: 2880 }, (_, i) => (i === 456 || i > 2790 ? -1 : i + 2));
    const elapsed = requests({
      origin: 'start',
      formatTime: (ms) => formatTime(ms, { zone: null, step: 1000, origin: 'start' }),
      time: Float64Array.from({ length: 2880 }, (_, i) => i * 1000),
      step: 1000,
      lines,
    });
    const told = buildReport(elapsed);
    verify(told, elapsed);
    expect(told.findings.map(({ from, rows }) => [from!.iso, rows])).toEqual([
      [null, { first: 459, last: 488 }],
      [null, { first: 1612, last: 1614 }],
      [null, null],
    ]);
    expect(new Set(told.findings.map(({ id }) => id)).size).toBe(3);
  });

  test('is made of a recording as it is read', () => {
    const rows = Array.from(
      { length: 400 },
      (_, i) =>
        `2025-03-03T${String(Math.floor(i / 60)).padStart(2, '0')}:${String(i % 60).padStart(2, '0')}:00Z,${i % 7}`,
    );
    const recording = readRecording(Buffer.from(`time,load\n${rows.join('\n')}\n`), { name: 'load.csv' });
    const { detection } = sampleColumn('load', 400, {
      day: 100,
      mean: 5,
      departures: [
        { start: 60, end: 65, severity: 3, kind: 'spike', fact: 'stood out', becomes: (usual) => usual },
      ],
    });
    const findings = detection.findings.map((one) => ({ ...one, before: null }));
    const read = reportSource('load.csv', recording, [{ ...detection, findings }]);
    const told = buildReport(read);
    verify(told, read);
    expect(told.columns[0]).toMatchObject({ name: 'load', least: 0, largest: 6 });
    expect(told.findings[0]).toMatchObject({
      from: { iso: '2025-03-03T01:00:00Z' },
      duration: '5 min',
      rows: { first: 62, last: 66 },
    });
    expect(told.headline).toContain('2025-03-03 01:00 to 01:04 UTC (5 min)');
  });

  test('refuses columns of different lengths and of one name', () => {
    const short = { ...source.columns[0]!, values: new Float64Array(7) };
    expect(() => buildReport({ ...source, columns: [short] })).toThrow('column requests');
    expect(() => buildReport({ ...source, columns: [source.columns[0]!, source.columns[0]!] })).toThrow(
      'same name',
    );
  });
});

describe('the sentence of a finding', () => {
  const statements = (change: Parameters<typeof requests>[0] = {}) =>
    buildReport(requests(change)).findings.map(({ statement }) => statement);

  test('says what happened when, what was expected, and earlier values', () => {
    const [flat, spike, level] = statements();
    expect(flat).toBe('requests stood still from 2025-03-04 14:00 to 16:30.'); // one day before it is too few
    expect(spike).toMatch(
      /^requests went to [\d.]+ from 2025-03-08 14:10 to 14:20 \(expected about [\d.]+; [\d.]+ to [\d.]+ at this time on the previous 5 days\)\.$/,
    );
    expect(level).toMatch(
      /^requests went to .* since 2025-03-12 17:20 \(.*; .* on average at this time on the previous 9 days\)\.$/,
    );
  });

  test('counts samples and cycles where there is no time', () => {
    const [flat, spike] = statements({ time: null, step: null, lines: null });
    expect(flat).toBe('requests stood still in samples 456 to 486.');
    expect(spike).toMatch(/in samples 1610 to 1612 \(.* at the same phase in the previous 5 cycles\)\.$/);
  });

  test('names the weekday where the season is a week', () => {
    const weekly = sampleColumn('sales', 30 * 24, {
      day: 168,
      mean: 300,
      departures: [{ start: 532, end: 533, severity: 5, kind: 'spike', becomes: (usual) => usual + 260 }],
    });
    const hourly = sampleSource([weekly], {
      time: Float64Array.from({ length: 720 }, (_, i) => Date.UTC(2025, 2, 3) + i * 3_600_000),
      step: 3_600_000,
    });
    const report = buildReport(hourly);
    verify(report, hourly);
    expect(report.findings[0]!.statement).toMatch(
      /^sales went to .* at 2025-03-25 04:00 \(.*; [\d.]+ to [\d.]+ at this time on the previous 3 Tuesdays\)\.$/,
    );
  });

  const base: Parameters<typeof stateFinding>[0] = {
    ...{ start: 10, end: 20, kind: 'cutoff', direction: 'above', stepped: null, lasting: false },
    ...{ peak: { index: 12 }, observed: { least: 0.9, mean: 0.99, largest: 0.9999, peak: 0.9999 } },
    expected: { value: 0.8858, low: 0.8, high: 0.9 },
  };
  const measured = {
    ...{
      meanExpected: 0.9,
      step: 0.1,
      usualStep: 0.2,
      pace: undefined,
      rhythm: undefined,
      period: null,
      late: null,
    },
    ...{ atLeast: 1, atLargest: 8 },
  };
  test.each([
    ['a cutoff above what was expected', base, 'was cut off at 1 (8 samples there)'],
    [
      'a shape at what was expected',
      {
        ...base,
        kind: 'shape',
        observed: { least: 0, mean: 0, largest: 0, peak: 0 },
        expected: { value: 0, low: 0, high: 0 },
      },
      'had an unusual shape',
    ],
    [
      'a mean that is expected',
      { ...base, kind: 'level', observed: { ...base.observed, mean: 0.9 } },
      'was 0.9 on average (observed 0.9 to 1)',
    ],
    [
      'a spike that is expected',
      { ...base, kind: 'spike', expected: { value: 0.9999, low: 0, high: 1 } },
      'was 1 (usual range 0 to 1)',
    ],
    [
      'more movement that is less',
      { ...base, kind: 'variance' },
      'varied unusually (by 0.1 from sample to sample on average, 0.2 elsewhere)',
    ],
  ] as const)('does not contradict itself: %s', (_, finding, expected) => {
    expect(statementOf(stateFinding(finding, measured))).toBe(expected);
  });

  test('has as many digits as tell its numbers apart, and no more', () => {
    const spike = {
      ...base,
      kind: 'spike',
      observed: { least: 0, mean: 0, largest: 0, peak: 1013.22 },
    } as const;
    const words = (value: number) =>
      stateFinding({ ...spike, expected: { value, low: 1, high: 2 } }, measured).fact.text;
    expect([0, 1010, 1013.17].map(words)).toEqual(['rose to 1013', 'rose to 1013.2', 'rose to 1013.22']);
  });
});

/** Three columns, of which b departs `lag` samples before the others. */
function lagging(lag: number): ReportSource {
  const columns = ['a', 'b', 'c'].map((name, k) =>
    sampleColumn(name, 1000, {
      ...{ day: 100, mean: 50 },
      departures: [
        {
          ...{ start: k === 1 ? 500 : 500 + lag, end: 560 + lag, severity: 3 + k, kind: 'level' },
          becomes: (usual) => usual + 20,
        },
      ],
    }),
  );
  return sampleSource(columns);
}

describe('findings of several columns', () => {
  const report = buildReport(host());

  test('that overlap are one incident, told with the moves of its columns by severity and the time that most of them share', () => {
    expect(report.incidents).toHaveLength(1);
    const [incident] = report.incidents;
    expect(incident).toMatchObject({
      ...{ start: 1206, end: 1260, level: 'critical', severity: 9.5, ongoing: false, first: null },
      columns: [
        { column: 'requests', severity: 9.5 },
        { column: 'disk_wait_ms', severity: 6.3 },
        { column: 'load', severity: 4.4 },
      ],
    });
    expect(incident!.statement).toMatch(
      /^3 columns moved from 2025-03-07 04:30 to \d\d:\d\d: requests \u2212[\d.]+, disk_wait_ms \+[\d.]+ and load \(change of variance\)\.$/,
    );
    expect(report.headline).toMatch(
      /^1 incident in 3 columns and 1 other finding\. The worst is critical, in 3 columns: requests \u2212[\d.]+, disk_wait_ms \+[\d.]+ and load \(change of variance\), 2025-03-07 04:30 to /,
    );
    expect(report.findings.map(({ incident }) => incident !== null)).toEqual([true, true, true, false]);
  });

  test.each([
    [40, true],
    [20, false],
  ])(
    '%i samples apart, of 60: the first one is named only if slow departures cannot explain it',
    (lag, told) => {
      const source = lagging(lag);
      const report = buildReport(source);
      verify(report, source);
      const [incident] = report.incidents;
      expect(incident!.first).toEqual(
        told ? expect.objectContaining({ column: 'b', samplesEarlier: lag }) : null,
      );
      expect(incident!.statement.includes('b departed first')).toBe(told);
    },
  );

  test('of many columns are told by the six most severe', () => {
    const columns = Array.from({ length: 9 }, (_, k) =>
      sampleColumn(`c${k}`, 1000, {
        ...{ day: 100, mean: 50 },
        departures: [
          { start: 500, end: 560, severity: 12 - k, kind: 'level', becomes: (usual) => usual + 20 },
        ],
      }),
    );
    const source = sampleSource(columns);
    const report = buildReport(source);
    verify(report, source);
    expect(report.headline).toMatch(
      /^1 incident in 9 columns\. It is critical: c0 \+.*, c5 \+[\d.]+ and 3 more, 2025.*\.$/,
    );
  });

  test('do not join what lies far inside a much longer one', () => {
    const columns = [
      sampleColumn('a', 1000, {
        ...{ day: 100, mean: 5 },
        departures: [{ start: 100, end: 900, severity: 3, kind: 'trend', becomes: (usual) => usual + 2 }],
      }),
      sampleColumn('b', 1000, {
        ...{ day: 100, mean: 5 },
        departures: [{ start: 600, end: 603, severity: 4, kind: 'spike', becomes: (usual) => usual + 9 }],
      }),
    ];
    expect(buildReport(sampleSource(columns)).incidents).toEqual([]);
  });
});

/** A level, a spike, a step that stays, a change of pace and a cutoff, in a recording with time and a zone. */
function recorded(): ReportSource {
  const draw = new Random(8, 'verify');
  const rows = Array.from({ length: 2016 }, (_, i) => {
    const day = 100 + 40 * Math.sin((2 * Math.PI * i) / 96);
    const load = i >= 800 && i < 830 ? 20 : i === 1400 ? 400 : day;
    const level = i >= 1500 ? 80 : 50;
    const wave = 50 + 20 * Math.sin(i / (i >= 600 && i < 900 ? 3 : 9));
    const limited = i >= 1200 && i < 1400 ? Math.min(55, wave) : wave;
    const stamp = new Date(Date.UTC(2025, 2, 3) + i * 900_000).toISOString().slice(0, 16);
    return `${stamp}Z,${load + 2 * draw.normal()},${level + draw.normal()},${limited + (limited === 55 ? 0 : draw.normal() / 5)}`;
  });
  const recording = readRecording(Buffer.from(`time,load,level,wave\n${rows.join('\n')}\n`), {
    ...{ name: 'recorded.csv', tz: 'Europe/Berlin' },
  });
  const detections = recording.columns.map(({ values }) => detect(values));
  return reportSource('recorded.csv', recording, detections);
}

describe('verification', () => {
  const sources = [host(), requests(), recorded(), lagging(40)];

  test('passes what the values hold', () => {
    const more = ['Europe/Berlin', '-03:30'].map((zone) =>
      requests({ step: null, zone, formatTime: (ms) => formatTime(ms, { step: null, zone }) }),
    );
    for (const source of [...sources, ...more]) verify(buildReport(source), source);
  });

  /** Paths of the numbers, texts and truths of a report, but those that only name or explain. */
  function leaves(value: unknown, path: readonly (string | number)[] = []): (string | number)[][] {
    if (value === null || typeof value !== 'object') return [[...path]];
    return Object.entries(value).flatMap(([key, inner]) =>
      FREE.has(key) ? [] : leaves(inner, [...path, Array.isArray(value) ? Number(key) : key]),
    );
  }
  const FREE = new Set([
    'schema',
    'version',
    'file',
    'notes',
    'id',
    'tolerance',
    'headline',
    'structure',
    'statement',
    // What an earlier run has reported is not in the recording.
    'reported',
  ]);

  test.each([0, 1, 2, 3])('refuses report %i with any other number, extent, time or truth', (k) => {
    const source = sources[k]!;
    const report = buildReport(source);
    const passed: string[] = [];
    for (const path of leaves(report)) {
      const copy = structuredClone(report);
      // biome-ignore lint/suspicious/noExplicitAny: a walk over any field
      const parent = path.slice(0, -1).reduce((inner: any, key) => inner[key], copy);
      const key = path.at(-1)!;
      const old = parent[key];
      if (typeof old === 'number') parent[key] = Number.isInteger(old) ? old + 1 : old * 1.02 + 0.01;
      else if (typeof old === 'boolean') parent[key] = !old;
      else if (typeof old === 'string') parent[key] = `${old}x`;
      else continue;
      try {
        verify(copy, source);
        passed.push(path.join('.'));
      } catch (error) {
        if (!(error instanceof ReportMismatch)) throw new Error(`${path.join('.')}: ${error}`);
      }
    }
    expect(passed).toEqual([]);
  });

  test.each([
    [/\d+(?=\.| )/, (text: string) => String(Number(text) + 7)],
    [/rose|went up|drifted up/, () => 'fell'],
    [/\bfell\b/, () => 'rose'],
    [/previous (\d)/, () => 'previous 2'],
    [/since/, () => 'from'],
    [/1 ongoing/, () => 'all ended'],
    [/departed first/, () => 'departed somehow'],
    [/\+\d/, () => '+9'],
    [/(\d) columns/, (_: string, n: string) => `${Number(n) + 1} columns`],
    [/\d\d:\d\d/, () => '23:59'],
    [/critical/, () => 'low'],
    [/\.$/, () => ', rose above 9.'],
  ])('refuses a sentence in which %s is something else', (pattern, replacement) => {
    let changed = 0;
    for (const source of sources) {
      const report = buildReport(source);
      const places = [...report.findings, ...report.incidents, { statement: report.headline }];
      for (const [i, { statement }] of places.entries()) {
        const wrong = statement.replace(pattern, replacement as () => string);
        if (wrong === statement) continue;
        changed++;
        const copy = structuredClone(report);
        const target = [...copy.findings, ...copy.incidents][i];
        if (target === undefined) copy.headline = wrong;
        else target.statement = wrong;
        expect(() => verify(copy, source), wrong).toThrow(ReportMismatch);
      }
    }
    expect(changed).toBeGreaterThan(0);
  });

  /** The module with a part of its text replaced, loaded from a place of its own: what if this line were wrong? */
  async function mutated(file: string, from: string, to: string): Promise<typeof buildReport> {
    const root = join(import.meta.dirname, '../..');
    const directory = mkdtempSync(join(tmpdir(), 'timeseer-mutant-'));
    const load = (name: string): string => {
      const text = readFileSync(join(root, name), 'utf8');
      if (name === file && text.split(from).length !== 2)
        throw new Error(`${file}: '${from}' is not there once`);
      const own = name === file ? text.replace(from, to) : text;
      const place = join(directory, name.replaceAll('/', '-'));
      const absolute = own.replaceAll(/from '(\.[^']*)'/g, (_, path: string) => {
        const target = relative(root, join(root, dirname(name), path));
        return `from '${/explain\/report|detect\/sentence/.test(target) ? load(target) : join(root, target)}'`;
      });
      writeFileSync(place, absolute);
      return place;
    };
    try {
      return ((await import(load('src/explain/report.ts'))) as { buildReport: typeof buildReport })
        .buildReport;
    } finally {
      rmSync(directory, { recursive: true });
    }
  }

  const REPORT = 'src/explain/report.ts';
  test.each([
    [REPORT, 'least = Math.min(least, value);', 'least = Math.max(least, value);'],
    [REPORT, 'sum += value;', 'sum += 2 * value;'],
    [REPORT, 'to: instant(source, end - 1) };', 'to: instant(source, end - 2) };'],
    [REPORT, 'start]! + (step ?? 0)) / 1000', 'start]!) / 1000'],
    [REPORT, 'last = Math.max(last, lines[i]!);', 'last = lines[start]!;'],
    [REPORT, '|| shared <= 0) return false;', '|| shared <= 1e9) return false;'],
    [REPORT, 'samplesEarlier: next.start - start', 'samplesEarlier: next.end - start'],
    [REPORT, 'severity: own[0]!.severity', 'severity: own.at(-1)!.severity + 1'],
    [REPORT, 'severityAt(() => true) / 2', 'severityAt(() => true) * 0.95'],
    [REPORT, 'values[peak.index]! - (stepped', 'values[start]! - (stepped'],
    [REPORT, 'DOUBT * (end - start)', '0 * (end - start)'],
    [
      REPORT,
      '.sort((a, b) => b.severity - a.severity || a.start - b.start || ',
      '.sort((a, b) => a.start - b.start || ',
    ],
    [REPORT, 'finding.level === level).length', 'finding.level !== level).length'],
    [REPORT, 'const worst = findings[0];', 'const worst = findings.at(-1);'],
    [
      REPORT,
      'findings.filter((finding) => finding.ongoing);',
      'findings.filter((finding) => !finding.ongoing);',
    ],
    [REPORT, 'consecutive ? `previous', 'true ? `last'],
    [REPORT, 'figure(least, step, {', 'figure(largest + 9, step, {'],
    [REPORT, 'text: from?.shown ?? ', 'text: from?.iso ?? '],
    [REPORT, 'formatDuration(1000 * seconds)', 'formatDuration(1100 * seconds)'],
    [REPORT, '${day} ${clock} ${between} ${tail}', '${day} ${tail} ${between} ${tail}'],
    [REPORT, 'const whole = Math.round(ms);', 'const whole = Math.round(ms) + 60_000;'],
    ['src/detect/sentence.ts', 'Number(value.toFixed(decimals))', 'Number(value.toFixed(decimals)) + 9'],
    ['src/detect/sentence.ts', 'at: at + inner.at', 'at'],
  ])('finds a fault of the code that reports: %s: %s', async (file, from, to) => {
    const build = await mutated(file, from, to);
    const wrong = sources.filter((source) => {
      try {
        verify(build(source), source);
        return false;
      } catch (error) {
        expect(error).toBeInstanceOf(ReportMismatch);
        return true;
      }
    });
    expect(wrong.length).toBeGreaterThan(0);
  });

  test('refuses a report when a value of the recording is another one', () => {
    const [source] = sources as [ReportSource];
    const values = source.columns[0]!.values.slice();
    values[1220] = -1;
    const other = { ...source, columns: [{ ...source.columns[0]!, values }, ...source.columns.slice(1)] };
    expect(() => verify(buildReport(source), other)).toThrow('least');
  });
});

describe('times', () => {
  test('stand with their offset, and without one where the file names no zone', () => {
    const summer = Date.UTC(2025, 6, 1, 12);
    expect(isoTime(summer, null)).toBe('2025-07-01T12:00:00');
    expect(isoTime(summer, 'UTC')).toBe('2025-07-01T12:00:00Z');
    expect(isoTime(summer, '-03:30')).toBe('2025-07-01T08:30:00-03:30');
    expect(isoTime(summer + 250, 'Europe/Berlin')).toBe('2025-07-01T14:00:00.250+02:00');
    expect(() => isoTime(summer, 'Mars/Olympus')).toThrow(RangeError);
  });

  test('have durations and spans in words', () => {
    const words = [9300, 45, 0.25, 86_399, 90_061, 3600, 172_800, 3599.6].map(durationWords);
    expect(words).toEqual(['2 h 35 min', '45 s', '250 ms', '1 d', '1 d 1 h', '1 h', '2 d', '1 h']);
    expect(spanWords('2025-03-04 14:00', '2025-03-04 16:30')).toBe('2025-03-04 14:00 to 16:30');
    expect(spanWords('2025-03-04 14:00', '2025-03-05 01:30')).toBe('2025-03-04 14:00 to 2025-03-05 01:30');
    expect(spanWords('2025-03-04 14:00 UTC', '2025-03-04 16:30 UTC')).toBe('2025-03-04 14:00 to 16:30 UTC');
    expect(spanWords('2025-03-30 01:00 +01:00', '2025-03-30 04:00 +02:00')).toBe(
      '2025-03-30 01:00 +01:00 to 04:00 +02:00',
    );
    expect(spanWords('2025-03-04', '2025-03-05')).toBe('2025-03-04 to 2025-03-05');
    expect(spanWords('2025-03-04', '2025-03-04')).toBe('2025-03-04');
  });
});

test('a series of the time before zones had whole minutes is reported in one', () => {
  const rows = Array.from({ length: 240 }, (_, i) => {
    const value = i === 150 ? 30 : Math.sin(i);
    return `${new Date(Date.UTC(1860, i, 1)).toISOString().slice(0, 16)},${value.toFixed(3)}`;
  });
  const options = { name: 'spots.csv', tz: 'Europe/Berlin' };
  const recording = readRecording(Buffer.from(`time,spots\n${rows.join('\n')}\n`), options);
  const source = reportSource('spots.csv', recording, [detect(recording.columns[0]!.values)]);
  const report = buildReport(source);
  verify(report, source);
  expect(report.from).toMatchObject({ iso: '1860-01-01T00:00:00+00:53', shown: '1860-01-01' });
});

describe('what a policy says in a report', () => {
  const source = requests();
  const plain = buildReport(source);
  const opinion = (change: Partial<PolicyOpinion['columns'][number]> = {}): PolicyOpinion => {
    const answers = [
      {
        ...{ start: 0, end: 1440, class: 'trend', problem: null, doubts: [] },
        response: '<think>noise; scan .o.; level shift up 4 sd</think>',
        intervals: [[480, 500] as [number, number]],
        ...{ logProbability: -0.1, distance: null, sampleAgreement: 0.8, shiftAgreement: null },
      },
    ];
    const told = {
      ...{ status: 'answers' as const, doubtful: 0, limit: 0.3, class: 'trend', signals: [], answers },
      intervals: [
        [480, 500],
        [900, 910],
      ] as const,
      ...change,
    };
    const column = { column: 'requests', window: 1440, statement: policyStatement(told), ...told };
    return { name: 'runs/x', record: { parameters: 1 }, notes: ['It is small.'], columns: [column] };
  };

  test('changes nothing of the findings but that they know whether it marks them as well', () => {
    const report = buildReport(source, opinion());
    verify(report, source);
    expect(report.findings.map(({ markedByPolicy }) => markedByPolicy)).toEqual([true, false, false]);
    const { policy, ...rest } = report;
    const bare = rest.findings.map((one) => ({ ...one, markedByPolicy: null }));
    expect({ ...rest, findings: bare }).toEqual(plain);
    expect(policy!.columns[0]).toMatchObject({
      statement: 'Marks 2 intervals, most of it called trend.',
      intervals: [
        { start: 480, end: 500, from: { shown: '2025-03-04 16:00' }, finding: true },
        { start: 900, end: 910, finding: false, class: null, kind: null },
      ],
    });
    expect(policy!.columns[0]!.intervals[0]).toMatchObject({
      ...{ class: 'trend', kind: 'level shift', direction: 'up', size: 4 },
    });
    expect(policy!.agreement).toEqual({ both: 1, detectorAlone: 2, unanswered: 0, policyAlone: 1 });
    expect(markedAlone(report)).toEqual([{ column: 'requests', interval: policy!.columns[0]!.intervals[1] }]);
    expect(REPORT.parse(JSON.parse(JSON.stringify(report)))).toEqual(report);
  });

  test('marks no finding where it abstains', () => {
    const report = buildReport(source, opinion({ status: 'abstains', doubtful: 1, intervals: [] }));
    expect(report.findings.map(({ markedByPolicy }) => markedByPolicy)).toEqual([null, null, null]);
    expect(agreementWords(report.policy!.agreement)).toBe(
      '0 found by both, 0 by the detector alone, 0 by the policy alone; the policy gives no answer about 3 findings.',
    );
  });

  const ranked = () =>
    opinion({
      ofFindings: [0.9, null, 0.3],
      ranking: [
        { interval: [480, 500], confidence: 0.9 },
        { interval: [900, 910], confidence: 0.5 },
        { interval: [700, 710], confidence: 0.3 },
      ],
    });

  test('ranks what both tell of, by whom, each finding once, and gives each its confidence', () => {
    const report = buildReport(source, ranked());
    verify(report, source);
    const found = source.columns.find(({ name }) => name === 'requests')!.detection.findings;
    for (const [k, { start, kind }] of found.entries()) {
      const finding = report.findings.find((one) => one.start === start && one.kind === kind)!;
      expect(finding.confidence).toBe([0.9, null, 0.3][k]);
    }
    expect(report.policy!.ranking).toMatchObject([
      {
        column: 'requests',
        start: 480,
        end: 500,
        confidence: 0.9,
        by: 'both',
        finding: plain.findings[0]!.id,
      },
      { column: 'requests', start: 900, end: 910, confidence: 0.5, by: 'policy', finding: null },
      { column: 'requests', start: 700, end: 710, confidence: 0.3, by: 'policy', finding: null },
    ]);
    const { columns, ...head } = ranked();
    const ranking = [...columns[0]!.ranking!, { interval: [495, 530] as const, confidence: 0.2 }];
    const beside = buildReport(source, { ...head, columns: [{ ...columns[0]!, ranking }] });
    expect(beside.policy!.ranking.at(-1)).toMatchObject({ by: 'policy', finding: null });
    const reordered = structuredClone(report);
    reordered.policy!.ranking.reverse();
    expect(() => verify(reordered, source)).toThrow(/ranking/);
    const unheard = structuredClone(report);
    unheard.policy!.ranking[0]!.by = 'policy';
    expect(() => verify(unheard, source)).toThrow(/who tells of it/);
  });

  test('is checked against the findings, its own numbers, and the stamps', () => {
    const wrong = (change: (report: AnomalyReport) => void): (() => void) => {
      const report = buildReport(source, opinion());
      change(report);
      return () => verify(report, source);
    };
    expect(wrong((report) => (report.findings[1]!.markedByPolicy = true))).toThrow(/marked by the policy/);
    expect(wrong(({ policy }) => (policy!.columns[0]!.intervals[0]!.finding = false))).toThrow(
      /a finding overlaps/,
    );
    expect(wrong(({ policy }) => (policy!.columns[0]!.intervals[0]!.end = 501))).toThrow(/an interval/);
    expect(wrong(({ policy }) => (policy!.columns[0]!.statement = 'Marks 9 intervals.'))).toThrow(
      /statement/,
    );
    expect(wrong(({ policy }) => (policy!.columns[0]!.intervals[0]!.size = 5))).toThrow(
      /claim supported by an answer/,
    );
    expect(wrong(({ policy }) => (policy!.agreement.policyAlone = 2))).toThrow(/agreement/);
    expect(wrong(({ policy }) => (policy!.columns[0]!.doubtful = 1))).toThrow(/statement|doubtful/);
    expect(wrong(({ policy }) => (policy!.columns[0]!.status = 'abstains'))).toThrow(ReportMismatch);
  });

  test('takes the claims of an inspection from the turn that named them', () => {
    const [first] = opinion().columns[0]!.answers;
    const both: [number, number][] = [
      [480, 500],
      [900, 910],
    ];
    const last = {
      ...first!,
      start: 720,
      class: 'point',
      intervals: both,
      response: '<think>spike 9 sd</think>',
    };
    const claims = [
      { class: 'point', kind: 'level shift', direction: 'up', size: 4 },
      { class: 'point', kind: 'spike', direction: null, size: 9 },
    ] as const;
    const report = buildReport(source, opinion({ window: null, answers: [first!, last], claims }));
    expect(report.policy!.columns[0]!.intervals).toMatchObject(claims);
    verify(report, source);
    report.policy!.columns[0]!.intervals[0]!.size = 5;
    expect(() => verify(report, source)).toThrow(/claim supported by an answer/);
  });

  test('has no size where the answer was about a window without its season', () => {
    const [answer] = opinion().columns[0]!.answers;
    const without = opinion({ answers: [{ ...answer!, deseasonalised: true }] });
    const report = buildReport(source, without);
    const [interval] = report.policy!.columns[0]!.intervals;
    expect(interval).toMatchObject({ class: 'trend', kind: 'level shift', direction: 'up', size: null });
    verify(report, source);
    interval!.size = 4;
    expect(() => verify(report, source)).toThrow(/claim supported by an answer/);
    interval!.size = null;
    interval!.direction = null;
    expect(() => verify(report, source)).toThrow(/claim supported by an answer/);
  });

  test('stays in a report of some of the findings, and knows of the others', () => {
    const report = selectFindings(buildReport(source, opinion()), ({ rank }) => rank > 1);
    verify(report, source);
    expect(report.policy!.columns[0]!.intervals[0]!.finding).toBe(true);
  });
});
