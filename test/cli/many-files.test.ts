/** Several files of `detect`: by path, pattern and directory, side by side or one after the other. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { type AnomalyReport, REPORT } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('many');
let directory = '';
let count = 0;
beforeEach(() => {
  directory = join(root, `case-${count++}`);
  mkdirSync(directory);
});
const place = (name: string): string => join(directory, name);

const reportsOf = (out: string): AnomalyReport[] => REPORT.array().parse(JSON.parse(out));

interface Shape {
  readonly column?: string;
  readonly minutes?: number;
  readonly seconds?: number;
  /** Minutes by which the first sample is later. */
  readonly later?: number;
  readonly spike?: boolean;
  readonly zone?: string;
}

/** 400 samples of noise, with 5 high ones from sample 200 on where it has a spike. */
function write(
  name: string,
  { column = 'p99', minutes = 5, seconds = 0, later = 0, spike = false, zone = 'Z' }: Shape = {},
): string {
  const draw = new Random(name.length, 'many');
  const rows = Array.from({ length: 400 }, (_, i) => {
    const at = new Date(Date.UTC(2025, 2, 1, 0, 0, seconds) + (later + i * minutes) * 60_000)
      .toISOString()
      .slice(0, 19);
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
      const [report] = reportsOf(out) as [AnomalyReport];
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
    const [joined] = JSON.parse((await inside('detect', directory, '--json')).out);
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
    const [report] = JSON.parse((await inside('detect', directory, '--json')).out);
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
    const [{ findings, notes, columns }] = reportsOf(out) as [AnomalyReport];
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
      /\n3 files; 3 reports, as not all files share their times; 1 finding in b\.csv, 1 finding in c\.csv\n$/,
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

  test('share a state, and write pages and scores of their own', async () => {
    three();
    const run = () =>
      inside(
        ...['detect', directory, '--out', place('night'), '--state', place('seen.json')],
        ...['--scores', place('scores.csv.txt')],
      );
    expect((await run()).out).toContain('b: load');
    for (const [name, own] of [
      ['a', ''],
      ['b', '.b'],
      ['c', '.c'],
    ]) {
      expect(JSON.parse(readFileSync(place(`night${own}.json`), 'utf8')).file).toBe(`${name}.csv`);
      expect(existsSync(place(`scores.csv${own}.txt`))).toBe(true);
    }
    expect((await run()).out).not.toContain('1 finding:');
    expect(Object.keys(JSON.parse(readFileSync(place('seen.json'), 'utf8')).columns).sort()).toEqual([
      ...['a: p99', 'b: load', 'c: p99'],
    ]);
  });
});

describe('names and shapes follow from the arguments', () => {
  const state = () => ['--state', place('seen.json')];
  const columnsOf = (out: string) => reportsOf(out).flatMap(({ columns }) => columns.map(({ name }) => name));

  test('a directory of one file is read as one of two', async () => {
    write('web-1.csv', { spike: true });
    const first = await inside('detect', directory, '--json', ...state());
    expect([columnsOf(first.out), reportsOf(first.out)[0]!.findings.length]).toEqual([['web-1: p99'], 1]);
    write('web-22.csv', { spike: true });
    const [second] = reportsOf((await inside('detect', directory, '--json', ...state())).out);
    expect(second!.findings.map(({ column }) => column)).toEqual(['web-22: p99']);
  });

  test('a file that is missing, broken or of other times for a night changes nothing for it and for others', async () => {
    const spiked = (name: string, more = {}) => write(name, { spike: true, ...more });
    const night = async () => {
      const { out, code } = await inside(
        'detect',
        ...['a', 'bb', 'ccc'].map((n) => place(`${n}.csv`)),
        '--json',
        ...state(),
      );
      return [code, ...reportsOf(out).flatMap(({ findings }) => findings.map(({ column }) => column))];
    };
    for (const name of ['a.csv', 'bb.csv', 'ccc.csv']) spiked(name);
    expect((await night()).sort()).toEqual([0, 'a: p99', 'bb: p99', 'ccc: p99']);
    rmSync(place('a.csv'));
    expect(await night()).toEqual([3]);
    writeFileSync(place('ccc.csv'), 'time,v\nnever,x\n');
    expect(await night()).toEqual([3]);
    spiked('a.csv', { zone: '' });
    expect(await night()).toEqual([3]);
    spiked('a.csv');
    spiked('ccc.csv');
    expect(await night()).toEqual([0]);
    expect(existsSync(place('seen.a.json'))).toBe(false);
  });

  test('findings of columns that were not read for a month are forgotten', async () => {
    write('a.csv', { spike: true });
    write('bb.csv', { spike: true });
    await inside('detect', directory, ...state());
    rmSync(place('bb.csv'));
    const read = () => JSON.parse(readFileSync(place('seen.json'), 'utf8'));
    const old = read();
    writeFileSync(place('seen.json'), JSON.stringify({ ...old, columns: { ...old.columns, 'bb: p99': 0 } }));
    await inside('detect', directory, ...state());
    const { seen, columns, samples } = read();
    expect(Object.values<{ column: string }>(seen).map(({ column }) => column)).toEqual(['a: p99']);
    expect([Object.keys(columns), JSON.stringify(samples).includes('bb')]).toEqual([['a: p99'], false]);
  });

  test('files of one name in several directories are told apart by them', async () => {
    for (const host of ['web-1', 'web-2']) mkdirSync(place(host));
    for (const host of ['web-1', 'web-2']) write(`${host}/load.csv`);
    for (const named of [[place('*/load.csv')], [place('web-1'), place('web-2/load.csv')]])
      expect(columnsOf((await inside('detect', ...named, '--json')).out)).toEqual([
        ...['web-1/load: p99', 'web-2/load: p99'],
      ]);
    expect(columnsOf((await inside('detect', place('web-1/*.csv'), '--json')).out)).toEqual(['load: p99']);
  });

  test('a pattern without a match tonight ends no other', async () => {
    write('a.csv', { spike: true });
    const { out, err, code } = await inside('detect', place('a*.csv'), place('b*.csv'));
    expect([code, err]).toEqual([
      3,
      expect.stringMatching(/b\*\.csv: cannot be read \(no such file or directory\)/),
    ]);
    expect(out).toMatch(/\n2 files; 1 finding in a\.csv; not judged: b\*\.csv\n$/);
  });

  test('of two files that differ in their ending one is judged, and the other is named', async () => {
    write('a.csv', { spike: true });
    write('a.tsv');
    const { out, err, code } = await inside('detect', directory);
    expect([code, err]).toEqual([
      3,
      expect.stringMatching(/a\.tsv: its columns would have the names of those of .*a\.csv/),
    ]);
    expect(out).toMatch(/2 files; 1 finding in a\.csv; not judged: a\.tsv\n$/);
  });
});

describe('files of which some share their times', () => {
  test('are joined, and only the others are apart', async () => {
    for (const name of ['a.csv', 'bb.csv', 'ccc.csv']) write(name, { spike: true });
    write('aa.csv', { minutes: 60 });
    write('bbb.csv', { zone: '', spike: true });
    const reports = reportsOf((await inside('detect', directory, '--json')).out);
    expect(reports.map(({ file }) => file)).toEqual(['a.csv and 2 more', 'aa.csv', 'bbb.csv']);
    expect(reports.map(({ incidents }) => incidents.length)).toEqual([1, 0, 0]);
  });

  test('stand side by side where their samples alternate, and keep their state apart from the others', async () => {
    write('a.csv', { spike: true });
    write('bb.csv', { spike: true, seconds: 30 });
    const run = async () =>
      reportsOf((await inside('detect', directory, '--json', '--state', place('seen.json'))).out);
    const [report] = await run();
    expect([report!.samples, report!.incidents.map(({ columns }) => columns.length)]).toEqual([400, [2]]);
    expect(report!.notes.find(({ kind }) => kind === 'aligned')!.text).toContain('up to 30 s away');
    rmSync(place('a.csv'));
    const [alone] = await run();
    expect([alone!.columns[0]!.name, alone!.findings]).toEqual(['bb: p99', []]);
  });
});

describe('what is left out', () => {
  test('files that timeseer wrote, and second paths to one file', async () => {
    write('a.csv', { spike: true });
    symlinkSync(place('a.csv'), place('link.csv'));
    await inside('detect', place('a.csv'), '--scores', place('scores.csv'));
    writeFileSync(place('found.csv'), (await inside('detect', place('a.csv'), '--format', 'csv')).out);
    const { out, err } = await inside('detect', directory);
    expect(out).toMatch(/1 file; 1 finding in a\.csv\n$/);
    expect(err).toMatch(/note: written by timeseer, and left out: .*found\.csv, .*scores\.csv\n/);
    expect(err).toMatch(/note: .*link\.csv is the same file as .*a\.csv, and is read once\n/);
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
      /a: p99.*\n(?:.*\n)*3 files; 1 finding in a\.csv and 1 more; not judged: broken\.csv\n$/,
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

describe('parts of the reports', () => {
  test('judge every report once between them, in files of their own names', async () => {
    for (const [k, name] of ['a.csv', 'b.csv', 'c.csv', 'd.csv'].entries()) {
      // The first two share their times, and are one report.
      write(name, { minutes: k < 2 ? 5 : 5 + k, spike: k === 3 });
    }
    const judged: string[] = [];
    for (const part of ['1/4', '2/4', '3/4', '4/4']) {
      const out = join(root, 'parts', 'metrics');
      const { code, out: text } = await inside('detect', directory, '--json', '--shard', part, '--out', out);
      expect(code).toBe(0);
      judged.push(...reportsOf(text).map(({ file }) => file));
    }
    expect(judged.sort()).toEqual(['a.csv and 1 more', 'c.csv', 'd.csv']);
    expect(readdirSync(join(root, 'parts')).sort()).toEqual(
      ['a', 'c', 'd'].flatMap((name) => [`metrics.${name}.html`, `metrics.${name}.json`]),
    );
  });

  test('may have none, and hold a report whatever other files there are', async () => {
    write('a.csv');
    write('c.csv', { minutes: 7 });
    const partsOf = async (): Promise<string[][]> => {
      const judged: string[][] = [];
      for (let part = 1; part <= 8; part++) {
        const { code, out } = await inside('detect', directory, '--json', '--shard', `${part}/8`);
        expect(code).toBe(0);
        judged.push(reportsOf(out).map(({ file }) => file));
      }
      return judged;
    };
    const before = await partsOf();
    expect(before.flat().sort()).toEqual(['a.csv', 'c.csv']);
    const empty = before.findIndex((files) => files.length === 0) + 1;
    const { code, out } = await inside('detect', directory, '--format', 'csv', '--shard', `${empty}/8`);
    expect([code, out]).toEqual([0, '']);
    write('b.csv', { minutes: 9 });
    expect((await partsOf()).map((files) => files.filter((file) => file !== 'b.csv'))).toEqual(before);
  });

  test('write files of different names, also for reports whose names have a slash or a dash', async () => {
    mkdirSync(place('a'));
    write('a/b.csv');
    write('a-b.csv', { minutes: 7 });
    for (const part of ['1/2', '2/2']) {
      await inside('detect', place('a/b.csv'), place('a-b.csv'), '--shard', part, '--out', place('o/x'));
    }
    expect(readdirSync(place('o')).sort()).toEqual([
      ...['x.a-b-2.html', 'x.a-b-2.json'],
      ...['x.a-b.html', 'x.a-b.json'],
    ]);
  });

  test.each([
    [['--shard', '5/4'], /--shard: got '5\/4', expected part\/parts/],
    [['--shard', '1/2', '--state', 'seen.json'], /--shard and --state: cannot be combined/],
    [['--shard', '1/2', '--follow'], /--shard and --follow: cannot be combined/],
    [['--shard', '1/1', '--policy', 'nosuch'], /none of the 2 files could be judged/],
  ])('with %j are refused', async (options, message) => {
    write('a.csv');
    write('b.csv', { minutes: 7 });
    const { code, err } = await inside('detect', directory, ...options);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
  });

  test('of a single file are refused', async () => {
    const { code, err } = await inside('detect', write('a.csv'), '--shard', '1/2');
    expect([code, err]).toEqual([2, expect.stringContaining('--shard: needs several files')]);
  });
});
