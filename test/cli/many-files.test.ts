/** Several files of `detect`: by path, pattern and directory, side by side or one after the other. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { REPORT } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';

const root = mkdtempSync(join(tmpdir(), 'many-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let directory = '';
let count = 0;
beforeEach(() => {
  directory = join(root, `case-${count++}`);
  mkdirSync(directory);
});
const place = (name: string): string => join(directory, name);

interface Shape {
  readonly column?: string;
  readonly minutes?: number;
  /** Minutes by which the first sample is later. */
  readonly later?: number;
  readonly spike?: boolean;
  readonly zone?: string;
}

/** 400 samples of noise, with 5 high ones from sample 200 on where it has a spike. */
function write(
  name: string,
  { column = 'p99', minutes = 5, later = 0, spike = false, zone = 'Z' }: Shape = {},
): string {
  const draw = new Random(name.length, 'many');
  const rows = Array.from({ length: 400 }, (_, i) => {
    const at = new Date(Date.UTC(2025, 2, 1) + (later + i * minutes) * 60_000).toISOString().slice(0, 19);
    return `${at}${zone},${(50 + draw.normal() + (spike && i >= 200 && i < 205 ? 40 : 0)).toFixed(3)}`;
  });
  writeFileSync(place(name), `time,${column}\n${rows.join('\n')}\n`);
  return place(name);
}

describe('files with the same times', () => {
  test.each([
    ['a pattern', () => [place('web-*.csv')]],
    ['a directory', () => [directory]],
    ['several paths', () => [place('web-1.csv'), place('web-2.csv'), place('web-3.csv')]],
  ])(
    'named by %s stand side by side in one report, and columns bear the names of files',
    async (_, named) => {
      for (const name of ['web-1.csv', 'web-2.csv', 'web-3.csv'])
        write(name, { spike: name !== 'web-3.csv' });
      writeFileSync(place('notes.md'), 'no recording');
      const { code, out } = await inside('detect', ...named(), '--json', '--fail-on', 'high');
      const report = REPORT.parse(JSON.parse(out));
      expect(code).toBe(1);
      expect(report.file).toBe('web-1.csv and 2 more');
      expect(report.columns.map(({ name }) => name)).toEqual(['web-1: p99', 'web-2: p99', 'web-3: p99']);
      expect(
        report.findings.map(({ column, start, end, rows }) => [column, start, end, rows]).sort(),
      ).toEqual([
        ['web-1: p99', 200, 205, null],
        ['web-2: p99', 200, 205, null],
      ]);
      expect(report.incidents.map(({ columns }) => columns.length)).toEqual([2]);
    },
  );

  test('are judged as each of them alone', async () => {
    write('a.csv', { spike: true });
    write('bb.csv', { spike: true });
    const joined = JSON.parse((await inside('detect', directory, '--json')).out);
    for (const name of ['a', 'bb']) {
      const alone = JSON.parse((await inside('detect', place(`${name}.csv`), '--json')).out);
      const [own] = joined.findings.filter((one: { column: string }) => one.column === `${name}: p99`);
      expect([own.severity, own.from, own.observed]).toEqual([
        alone.findings[0].severity,
        alone.findings[0].from,
        alone.findings[0].observed,
      ]);
    }
  });

  test('may begin later, and keep their notes under their names and at their times', async () => {
    write('a.csv');
    const lines = readFileSync(write('bb.csv', { later: 50 }), 'utf8').split('\n');
    writeFileSync(place('bb.csv'), [...lines.slice(0, 100), ...lines.slice(130)].join('\n'));
    const report = JSON.parse((await inside('detect', directory, '--json')).out);
    expect(report.samples).toBe(410);
    const gap = report.notes.find(({ kind }: { kind: string }) => kind === 'gaps');
    expect(gap.text).toMatch(/^bb: 1 gap without samples \(30 missing/);
    expect([gap.from.iso, gap.rows]).toEqual(['2025-03-01T09:00:00Z', null]);
    expect(report.columns[1].missing).toBe(40);
  });

  test('are judged in a window together', async () => {
    write('a.csv', { spike: true });
    write('bb.csv');
    const { out } = await inside('detect', directory, '--window', '17h..16h', '--json');
    const { findings, notes, columns } = REPORT.parse(JSON.parse(out));
    expect(columns).toHaveLength(2);
    expect(notes.some(({ kind }) => kind === 'window')).toBe(true);
    expect(findings.map(({ column }) => column)).toContain('a: p99');
  });

  test('share one state, which reports each finding once', async () => {
    write('a.csv', { spike: true });
    write('bb.csv');
    const run = () => inside('detect', directory, '--state', place('seen.json'), '--out', place('night'));
    expect((await run()).out).toContain('a: p99');
    expect((await run()).out).toMatch(/Nothing/);
    expect(existsSync(place('night.html'))).toBe(true);
  });
});

describe('files with other times', () => {
  const three = (): void => {
    write('a.csv');
    write('b.csv', { minutes: 60, column: 'load', spike: true });
    write('c.csv', { zone: '', spike: true });
  };

  test('have a report each, under the name of the file, and an index line', async () => {
    three();
    const { out, code } = await inside('detect', directory, '--fail-on', 'low');
    expect(out).toMatch(/^a\.csv: Nothing unusual.*\nb\.csv: 1 finding.*\n(?:.*\n)*c\.csv: 1 finding/);
    expect(out).toMatch(
      /\n3 files; 3 reports, as the files do not share their times; findings: b\.csv 1, c\.csv 1\n$/,
    );
    expect(code).toBe(1);
  });

  test('are one document in every format', async () => {
    three();
    const formatted = async (format: string) => (await inside('detect', directory, '--format', format)).out;
    const reports = JSON.parse(await formatted('json'));
    expect(reports.map((report: unknown) => REPORT.parse(report).file)).toEqual(['a.csv', 'b.csv', 'c.csv']);
    const [header, ...records] = (await formatted('csv')).trimEnd().split('\n');
    expect(header).toMatch(/^id,rank,column,/);
    expect(records.map((record) => record.split(',')[2])).toEqual(['b: load', 'c: p99']);
    const annotations = JSON.parse(await formatted('grafana-annotations'));
    expect(annotations.map(({ tags }: { tags: string[] }) => tags.at(-1))).toEqual(['b: load', 'c: p99']);
    expect((await formatted('markdown')).match(/^# Anomalies in .*$/gm)).toHaveLength(3);
  });

  test('write files and states of their own', async () => {
    three();
    const run = () =>
      inside(
        ...['detect', directory, '--out', place('night'), '--state', place('seen.json')],
        ...['--scores', place('scores.csv.txt')],
      );
    expect((await run()).out).toContain('b: load');
    for (const name of ['a', 'b', 'c']) {
      expect(JSON.parse(readFileSync(place(`night.${name}.json`), 'utf8')).file).toBe(`${name}.csv`);
      expect(existsSync(place(`seen.${name}.json`))).toBe(true);
      expect(existsSync(place(`scores.csv.${name}.txt`))).toBe(true);
    }
    expect((await run()).out).not.toContain('1 finding:');
  });
});

describe('what goes wrong', () => {
  test('a file that cannot be read is named; the others are judged, and the exit code is 3', async () => {
    write('a.csv', { spike: true });
    write('bb.csv');
    writeFileSync(place('broken.csv'), 'time,v\nnever,x\n');
    const { code, out, err } = await inside('detect', directory, '--fail-on', 'low');
    expect([code, err]).toEqual([3, expect.stringMatching(/error: .*broken\.csv: /)]);
    expect(out).toMatch(
      /a: p99.*\n(?:.*\n)*3 files; findings: a\.csv and 1 more 1; not judged: broken\.csv\n$/,
    );
  });

  test('thousands of files that cannot be read are told in some lines', async () => {
    for (let i = 0; i < 2000; i++) writeFileSync(place(`${i}.csv`), 'x\n');
    const { code, err } = await inside('detect', directory);
    expect(code).toBe(3);
    expect(err).toContain('none of the 2000 files could be judged');
    expect(err.split('\n').length).toBeLessThan(30);
  });

  test.each<[string, () => string[], RegExp]>([
    ['a pattern without a match', () => [place('*.tsv')], /\*\.tsv: no file matches/],
    ['an empty directory', () => [place('empty')], /empty: no recordings in this directory \(it is empty\)/],
    [
      'a directory of other files',
      () => [place('other')],
      /other: no recordings in this directory \(skipped: a\.png\); they end in \.csv, /,
    ],
    [
      'two files of one name',
      () => [place('a.csv'), place('other/../sub/a.csv')],
      /a\.csv and .*a\.csv have the same name/,
    ],
    ['standard input beside a file', () => ['-', place('a.csv')], /-: standard input is read alone/],
    ['a wrong option', () => [place('a.csv'), place('sub/b.csv'), '--min-share', '7'], /--min-share/],
    [
      'a following of files',
      () => [place('a.csv'), place('b.csv'), '--follow'],
      /--follow reads standard input/,
    ],
  ])('%s is wrong usage', async (_, named, message) => {
    for (const name of ['empty', 'other', 'sub']) mkdirSync(place(name));
    writeFileSync(place('other/a.png'), '');
    for (const name of ['a.csv', 'sub/a.csv', 'sub/b.csv']) write(name);
    const { code, err } = await inside('detect', ...named());
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
  });

  test('a name with a star that is there is a file', async () => {
    write('a*.csv', { spike: true });
    write('ab.csv');
    const { out } = await inside('detect', place('a*.csv'));
    expect(out).toMatch(/^a\*\.csv: 1 finding/);
  });
});
