import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { FORMATS, numberWords, scoresCsv, toCsv, toGrafana, toMarkdown } from '../../src/explain/formats.ts';
import { buildReport, type ReportSource, selectFindings } from '../../src/explain/report.ts';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import {
  failOn,
  newFindings,
  readState,
  reportOnce as reportAll,
  sinceReport,
} from '../../src/explain/state.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { host, requests } from '../helpers/anomalies.ts';
import { inside } from '../helpers/command-line.ts';

const report = buildReport(requests());

/** Fields of a CSV text without line breaks inside of fields. */
const fields = (text: string): string[][] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain!,
      ),
    );

describe('a report for other programs', () => {
  test('is JSON that reads back as it was', () => {
    expect(JSON.parse(FORMATS['json']!(report))).toEqual(report);
  });

  test('is CSV with one record for each finding, quoted where it must be', () => {
    const odd = {
      ...report,
      findings: report.findings.map((one) => ({ ...one, statement: 'it said "0", twice' })),
    };
    const [header, ...records] = fields(toCsv(odd));
    expect(records).toHaveLength(3);
    for (const record of records) expect(record).toHaveLength(header!.length);
    const first = Object.fromEntries(header!.map((name, i) => [name, records[0]![i]]));
    expect(first).toMatchObject({
      ...{
        rank: '1',
        from: '2025-03-04T14:00:00',
        to: '2025-03-04T16:30:00',
        level: 'critical',
        ongoing: 'false',
      },
      ...{ observed_least: '0', first_line: '458', incident: '', statement: 'it said "0", twice' },
    });
  });

  test('has a score for every sample', () => {
    const source = requests();
    const { values, detection } = source.columns[0]!;
    values[7] = Number.NaN;
    const records = fields([...scoresCsv(source)].join(''));
    expect(records).toHaveLength(2881);
    expect(records[0]).toEqual(['column', 'index', 'time', 'value', 'expected', 'low', 'high', 'score']);
    expect(records[461]).toEqual([
      ...['requests', '460', '2025-03-04T14:20:00', '0', String(detection.expected[460])],
      ...[String(detection.low[460]), String(detection.high[460]), '14.2'],
    ]);
    expect(records[8]![3]).toBe('');
    expect(fields([...scoresCsv({ ...source, time: null })].join(''))[0]).not.toContain('time');
  });

  test('is Markdown in which nothing of the file is markup', () => {
    const plain = toMarkdown(report);
    expect(plain).toContain(
      '| 1 | **critical** | 2025-03-04 14:00 to 16:30 | 2 h 35 min, ended | requests | flat line | 0 throughout |',
    );
    expect(plain).toContain('   - against: a part of the same length is missing nowhere else');
    const text = toMarkdown({ ...report, file: '[x](http://y) | <b>\n# z @all `c`' });
    expect(text.split('\n')[0]).toBe(
      '# Anomalies in \\[x\\]\\(http://y\\) \\| &lt;b&gt; \\# z \\@all \\`c\\`',
    );
    expect(toMarkdown(buildReport(host()))).toContain('## Incidents');
  });

  test('is annotations of Grafana, in milliseconds', () => {
    expect(toGrafana(report)[0]).toEqual({
      time: Date.UTC(2025, 2, 4, 14),
      timeEnd: Date.UTC(2025, 2, 4, 16, 35),
      tags: ['timeseer', 'critical', 'flat', 'requests'],
      text: 'requests stood still from 2025-03-04 14:00 to 16:30.',
    });
    const [first] = report.findings;
    expect(toGrafana({ ...report, findings: [{ ...first!, statement: '<img src=x>' }] })[0]!.text).toContain(
      '&lt;img',
    );
    expect(() => toGrafana(buildReport(requests({ time: null, step: null })))).toThrow(DataError);
  });

  test('writes numbers as finely as what is usual varies, with a true minus', () => {
    const words = [0, -12.3456789, 1234567.25, 9876.5, 0.1 + 0.2, 1.5e-7, -2e20, null].map((value) =>
      numberWords(value),
    );
    const told = [
      '0',
      '\u221212.3457',
      '1\u202f234\u202f567.25',
      '9876.5',
      '0.3',
      '1.5e\u22127',
      '\u22122e+20',
      '\u2013',
    ];
    expect(words).toEqual(told);
    const fine = [
      numberWords(1013.254, 0.5),
      numberWords(446.315, 66),
      numberWords(-51234.6, 20_000),
      numberWords(3, 0),
    ];
    expect(fine).toEqual(['1013.254', '446.3', '\u221251\u202f235', '3']);
  });
});

describe('what is told', () => {
  const directory = mkdtempSync(join(tmpdir(), 'state-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  /** Reports one recording. @returns what is new */
  async function reportOnce(
    path: string,
    whole: AnomalyReport,
    source: ReportSource,
    tell: (fresh: AnomalyReport) => void | Promise<void>,
  ): Promise<AnomalyReport> {
    const told: AnomalyReport[] = [];
    const publish = (fresh: AnomalyReport) => {
      told.push(fresh);
      return tell(fresh);
    };
    await reportAll(path, (once) => once(whole, source, publish), undefined, false);
    return told[0]!;
  }

  const kinds = (one: AnomalyReport): string[] => one.findings.map(({ kind }) => kind);

  test('fails from a level on', () => {
    expect([failOn(report, 'low'), failOn(report, 'critical'), failOn(report, null)]).toEqual([1, 1, 0]);
    const mild = selectFindings(report, ({ level }) => level === 'medium');
    expect([failOn(mild, 'medium'), failOn(mild, 'high')]).toEqual([1, 0]);
  });

  test('begins at a moment or a span before the end, in the zone of the recording', () => {
    expect(kinds(sinceReport(report, '2025-03-04'))).toEqual(['flat', 'spike', 'level']);
    expect(kinds(sinceReport(report, '2025-03-04T16:30'))).toEqual(['flat', 'spike', 'level']);
    expect(kinds(sinceReport(report, '2025-03-04 16:31'))).toEqual(['spike', 'level']);
    expect(kinds(sinceReport(report, '2h'))).toEqual(['level']);
    expect(sinceReport(report, '2h').findings[0]!.rank).toBe(1);
    expect(sinceReport(report, '2h').notes.at(-1)!.text).toBe('2 findings over before --since 2h.');
    const berlin = buildReport(requests({ zone: 'Europe/Berlin' }));
    expect(kinds(sinceReport(berlin, '2025-03-04T17:30'))).toEqual(['flat', 'spike', 'level']);
    expect(kinds(sinceReport(berlin, '2025-03-04T17:31'))).toEqual(['spike', 'level']);
    expect(kinds(sinceReport(berlin, '2025-03-04T16:31Z'))).toEqual(['spike', 'level']);
    for (const wrong of ['yesterday', '2025-13-01', '3 fortnights']) {
      expect(() => sinceReport(report, wrong)).toThrow(ConfigError);
    }
    expect(() => sinceReport(buildReport(requests({ time: null, step: null })), '2h')).toThrow('no time');
  });

  test('is told once, also when it has grown or its beginning was found elsewhere, and again while it goes on', async () => {
    const path = join(directory, 'once.json');
    const told: string[][] = [];
    const leftOut: string[][] = [];
    const tell = (fresh: AnomalyReport): void => {
      told.push(kinds(fresh));
      leftOut.push(fresh.notes.filter(({ kind }) => kind === 'filtered').map(({ text }) => text));
    };
    const early = selectFindings(report, ({ kind }) => kind !== 'spike');
    await reportOnce(path, early, requests(), tell);
    await reportOnce(path, report, requests(), tell);
    const grown = requests();
    const { detection } = grown.columns[0]!;
    const findings = detection.findings.map((one) =>
      one.kind === 'flat' ? { ...one, start: 450, end: 495 } : one,
    );
    const column = { ...grown.columns[0]!, detection: { ...detection, findings } };
    await reportOnce(path, buildReport({ ...grown, columns: [column] }), grown, tell);
    expect(told).toEqual([['flat', 'level'], ['spike', 'level'], ['level']]);
    const reported = (words: string): string => `${words} reported before, by --state.`;
    expect(leftOut).toEqual([[], [reported('1 finding')], [reported('2 findings')]]);
    expect(readdirSync(directory)).toEqual(['once.json']);
  });

  test('is told again when telling it failed', async () => {
    const path = join(directory, 'failed.json');
    const fail = (): void => {
      throw new Error('the pager is down');
    };
    await expect(reportOnce(path, report, requests(), fail)).rejects.toThrow('the pager is down');
    expect((await reportOnce(path, report, requests(), () => {})).findings).toHaveLength(3);
  });

  test('is not hidden by the state of another recording, which is refused', async () => {
    const path = join(directory, 'host-a.json');
    const source = requests();
    const [column] = source.columns;
    await reportOnce(path, report, source, () => {});
    const before = readFileSync(path, 'utf8');
    // The latest rows came in late, or were revised.
    const revised = column!.values.map((value, i, all) => (i < all.length - 10 ? value : value + 1));
    await reportOnce(path, report, { ...source, columns: [{ ...column!, values: revised }] }, () => {});
    writeFileSync(path, before);
    const other = { ...source, columns: [{ ...column!, values: column!.values.map((value) => value + 1) }] };
    await expect(reportOnce(path, report, other, () => {})).rejects.toThrow(
      /host-a\.json: belongs to another recording.* is .* here; give each recording its own --state/,
    );
    const aside = { ...source, time: source.time!.map((ms) => ms + 7) };
    await expect(reportOnce(path, report, aside, () => {})).rejects.toThrow(/which this one has not/);
    expect(readFileSync(path, 'utf8')).toBe(before);
  });

  test('is compared with its state where their times overlap, and taken for a later part elsewhere', async () => {
    const path = join(directory, 'host-b.json');
    const source = requests();
    await reportOnce(path, report, source, () => {});
    const [column] = source.columns;
    const values = column!.values.map((value) => value + 1);
    const time = source.time!.map((ms) => ms + 1000 * 24 * 3600 * 1000);
    const later = { ...source, time, columns: [{ ...column!, values }] };
    expect((await reportOnce(path, buildReport(later), later, () => {})).findings).toHaveLength(3);
    const { out } = await inside('detect', '--help');
    expect(out.replaceAll(/\s+/g, ' ')).toContain('is refused where its times overlap those remembered');
  });

  test('is told by one of two runs at the same time', async () => {
    const path = join(directory, 'twice.json');
    const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30));
    const runs = await Promise.all([
      reportOnce(path, report, requests(), pause),
      reportOnce(path, report, requests(), pause),
    ]);
    expect(runs.map((fresh) => fresh.findings.length).sort()).toEqual([1, 3]);
  });

  test('is forgotten when it was over before the recording begins', () => {
    const { state } = newFindings(report, null);
    expect(Object.keys(state.seen)).toHaveLength(3);
    const later = { ...selectFindings(report, () => false), from: report.findings[1]!.to };
    expect(Object.values(newFindings(later, state).state.seen).map(({ kind }) => kind)).toEqual([
      'spike',
      'level',
    ]);
  });

  test('a damaged state file is said to be one', async () => {
    const path = join(directory, 'damaged.json');
    for (const [content, why] of [
      ['{"schema":', 'not a state file (it is not JSON)'],
      [
        '{"schema":"timeseer.anomalies.state","version":3}',
        'a state of version 3, which this timeseer does not',
      ],
      ['{"schema":"timeseer.anomalies.state","version":1,"timed":true,"seen":{"a":{}}}', 'seen.a.column'],
    ] as const) {
      writeFileSync(path, content);
      await expect(readState(path)).rejects.toThrow(DataError);
      await expect(readState(path)).rejects.toThrow(why);
      await expect(reportOnce(path, report, requests(), () => {})).rejects.toThrow(path);
      expect(readFileSync(path, 'utf8')).toBe(content);
    }
  });
});
