import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { REPORT } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';

let directory = '';
let file = '';
const place = (name: string): string => join(directory, name);

/** Ten days of requests and errors, every 15 minutes; on the eighth of March requests fall to 0 and errors rise from 14:00 to 16:30. */
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'detect-'));
  file = place('shop.csv');
  const draw = new Random(3, 'shop');
  const rows = Array.from({ length: 960 }, (_, i) => {
    const at = new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16).replace('T', ' ');
    const out = i >= 728 && i < 738;
    const hour = (i % 96) / 96;
    const requests = out ? 0 : 300 + 200 * Math.sin(Math.PI * hour) + 8 * draw.normal();
    const errors = (out ? 90 : 6) + draw.normal();
    return `${at};${requests.toFixed(1).replace('.', ',')};${errors.toFixed(1).replace('.', ',')}`;
  });
  // The file is as people have it: newest first, decimal commas.
  writeFileSync(file, `time;requests;errors\n${rows.reverse().join('\n')}\n`);
});
afterEach(() => {
  process.exitCode = undefined;
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Hourly values with a missing day, under a name. */
function withGap(name: string): string {
  const draw = new Random(6, 'gap');
  const hours = Array.from({ length: 24 * 14 }, (_, i) => i).filter((i) => i < 72 || i >= 96);
  const rows = hours.map((i) => `${new Date(Date.UTC(2025, 2, 3, i)).toISOString()},${draw.normal()}`);
  writeFileSync(place(name), `time,load\n${rows.join('\n')}\n`);
  return place(name);
}

/** Eight days of load by the hour, every 15 minutes and some seconds: a week, and a day with the load of midnight at noon, for two hours. */
function weekAndDay(): { readonly week: string; readonly day: string } {
  const draw = new Random(8, 'week');
  const rows = Array.from({ length: 8 * 96 }, (_, i) => {
    const hour = i >= 720 && i < 728 ? 0 : (i % 96) / 96;
    const at = Date.UTC(2025, 2, 3) + i * 900_000 + (i % 4 === 0 ? 5000 : 0);
    return `${new Date(at).toISOString()},${(300 - 200 * Math.cos(2 * Math.PI * hour) + 8 * draw.normal()).toFixed(1)}`;
  });
  const write = (name: string, part: readonly string[]): string => {
    writeFileSync(place(name), `time,load\n${part.join('\n')}\n`);
    return place(name);
  };
  return { week: write('week.csv', rows.slice(0, 672)), day: write('day.csv', rows.slice(672)) };
}

describe('timeseer detect', () => {
  test('judges a day by the week of --history, and reports that day alone', async () => {
    const { week, day } = weekAndDay();
    const shown = JSON.parse((await inside('detect', day, '--history', week, '--json')).out);
    expect([shown.samples, shown.findings.length]).toEqual([768, 1]);
    const [{ start, end, from, rows, direction }] = shown.findings;
    expect([Math.abs(start - 720) <= 1, Math.abs(end - 728) <= 1, direction]).toEqual([true, true, 'below']);
    // Lines are those of the day, below its header.
    expect(rows).toEqual({ first: start - 672 + 2, last: end - 672 + 1 });
    expect(from.ms).toBe(Date.UTC(2025, 2, 3) + start * 900_000 + (start % 4 === 0 ? 5000 : 0));
    expect(shown.notes[0].text.replace(/\s/gu, ' ')).toMatch(/^672 earlier samples of week\.csv show what/);
    // What was over before is no finding, and said to be left out without an option that nobody gave.
    const rest = place('rest.csv');
    const [header, ...all] = readFileSync(day, 'utf8').split('\n');
    writeFileSync(rest, [header, ...all.slice(64)].join('\n'));
    writeFileSync(place('until.csv'), readFileSync(week, 'utf8') + all.slice(0, 64).join('\n'));
    const { out } = await inside('detect', rest, '--history', place('until.csv'));
    expect(out).toMatch(/Nothing unusual .*note: 1 finding over before the recording begins\.\n/s);
  });

  test('keeps the stamps of a --history, so that a state knows them the day after', async () => {
    const { week, day } = weekAndDay();
    const state = place('days.json');
    expect((await inside('detect', week, '--state', state)).code).toBe(0);
    const next = await inside('detect', day, '--history', week, '--state', state);
    expect([next.code, next.out]).toEqual([0, expect.stringContaining('1 finding: ')]);
    const again = await inside('detect', day, '--history', week, '--state', state);
    expect(again.out).toContain('note: 1 finding reported before, by --state.');
  });

  test.each([
    [['--history', 'day.csv'], /none of them comes before the recording/],
    [['--history', '7d'], /--history 7d: a duration needs --prometheus/],
    [['--history', 'week.csv', '--window', '2025-03-05..2025-03-06'], /ends before the recording begins/],
    [['--history', 'week.csv', '--follow'], /--history: --follow learns from its first rows/],
  ])('%j is refused', async (options, message) => {
    const { day } = weekAndDay();
    const given = options.map((option) => (option.endsWith('.csv') ? place(option) : option));
    const named = given.includes('--follow') ? [] : [day];
    const { code, err } = await inside('detect', ...named, ...given);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
  });

  test('tells faults of the data apart from findings and assumptions, in every form', async () => {
    const path = withGap('gap.csv');
    const sentence =
      '1 gap without samples (24 missing at a step of 1 h), from 2025-03-05 23:00 UTC to 2025-03-07 00:00 UTC.';
    expect((await inside('detect', path)).out).toContain(`\n  data: ${sentence}\n`);
    const { notes } = JSON.parse((await inside('detect', path, '--json')).out);
    expect(notes).toMatchObject([
      { kind: 'gaps', quality: true, column: null, start: 71, end: 97, rows: { first: 73, last: 74 } },
    ]);
    expect(notes[0]).toMatchObject({ count: 24, text: sentence, option: null });
    expect(notes[0].from.iso).toBe('2025-03-05T23:00:00Z');
    const markdown = (await inside('detect', path, '--format', 'markdown')).out;
    expect(markdown).toMatch(/\n## Data quality\n\n- 1 gap without samples/);
    await inside('detect', path, '--out', place('gap'));
    expect(readFileSync(place('gap.html'), 'utf8')).toMatch(/Data quality<\/strong>.*1 gap without samples/s);
  });

  test.each([
    [['--fail-on', 'low'], 0],
    [['--fail-on-quality'], 1],
    [['--fail-on-quality', '--since', '9d'], 0],
    [['--fail-on-quality', '--fail-on', 'critical'], 1],
  ])('%j exits with %i where a day is missing and nothing else is unusual', async (options, code) => {
    expect((await inside('detect', withGap('gap.csv'), ...options)).code).toBe(code);
  });

  test.each<[string, string | Buffer, RegExp]>([
    [
      'a list of numbers',
      '[1, 2, 3]\n',
      /bad: JSON, but neither a table nor one object in each line; .* jq /,
    ],
    ['lines of events', '{"t": "x", "v": "a"}\n{"t": "y", "v": "b"}\n', /bad: JSON lines without numbers/],
    ['a picture', Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'), /bad: not text, but binary data/],
    ['a PDF', '%PDF-1.7\n%\u00e2\u00e3\n1 0 obj\n', /bad: not text, but a PDF document/],
    ['one row', 'time,v\n2025-03-01,1\n', /bad: 1 row of data; a recording needs at least 2/],
    [
      'a line of a million letters',
      `time,v\n2025-03-01,1\n${'x'.repeat(1e6)}\n2025-03-02,2\n`,
      /bad:3:1: 1 field where the others have 2/,
    ],
  ])('%s is no recording, and told what it is', async (_, content, message) => {
    writeFileSync(place('bad'), content);
    const { code, err } = await inside('detect', place('bad'));
    expect(code).toBe(3);
    expect(err).toMatch(message);
    expect(err.length).toBeLessThan(400);
  });

  test('names with line breaks and control characters are escaped in text', async () => {
    writeFileSync(
      place('names.csv'),
      readFileSync(file, 'utf8').replace('requests', '"re\u001b[31m\nquests"'),
    );
    const { out } = await inside(
      'detect',
      place('names.csv'),
      '--window',
      '2025-03-08T14:00..2025-03-08T16:30',
    );
    expect(out).toContain(String.raw`re\x1b[31m\nquests: `);
    expect(out).not.toMatch(/^quests/m);
  });

  test('a file that begins with a dash comes after --', async () => {
    const { out, code } = await inside('detect', '--json', '--', '-dash.csv');
    expect([code, out]).toEqual([3, '']);
    expect((await inside('detect', '--', '-dash.csv')).err).toMatch(
      /\.\/-dash\.csv: cannot be read \(no such file/,
    );
  });

  test('a path of a page that ends in a slash is refused', async () => {
    const { err, code } = await inside('detect', file, '--out', place('o/'));
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(/--out .*o\/: name the files in it, such as .*o\/report/),
    ]);
  });

  test('what moved in a window is ranked, against what came before', async () => {
    const { code, out } = await inside('detect', file, '--window', '2025-03-08T14:00..2025-03-08T16:30');
    expect(code).toBe(0);
    expect(out).toMatch(
      /1 incident in 2 columns\. It is critical: errors \+[\d.]+ and requests \u2212[\d.]+, 2025-03-08 14:00 to 16:15 \(2 h 30 min\)\./,
    );
    expect(out).toMatch(
      /note: Compared 10 samples with the 728 before; the 222 samples after were not read\./,
    );
    const before = await inside('detect', file, '--window', '30h..26h', '--fail-on', 'low');
    expect([before.code, before.out]).toEqual([0, expect.stringMatching(/Nothing moved: 2025-03-0/)]);
  });

  test.each([
    ['60', /a number of samples needs --follow/],
    ['2h', /expected FROM\.\.TO/],
    ['..2h', /expected FROM\.\.TO/],
    ['1h..2h', /FROM comes after TO/],
    ['2026-01-01..', /holds no sample/],
    ['soon..', /neither a time .* nor a duration/],
    ['2025-03-01..', /only 0 samples come before it/],
  ])('--window %s is refused', async (window, message) => {
    const { code, err } = await inside('detect', file, '--window', window);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
  });

  test('times of day without a date are told with their day', async () => {
    const two = (n: number): string => String(n).padStart(2, '0');
    const rows = Array.from({ length: 340 }, (_, i) => {
      const value = ((i * 37) % 11) / 10 + (i >= 320 && i < 326 ? 30 : 0);
      return `${two(Math.floor((i * 5) / 60) % 24)}:${two((i * 5) % 60)}:00,${value}`;
    });
    writeFileSync(place('clock.csv'), `time,v\n${rows.join('\n')}\n`);
    const { code, out } = await inside('detect', place('clock.csv'));
    expect([code, out]).toEqual([0, expect.stringContaining('from day 2, 02:40 to day 2, 03:05')]);
  });

  test('a short recording is said not to be judged', async () => {
    writeFileSync(place('short.csv'), 'time,v\n2025-03-01,1\n2025-03-02,2');
    const { code, out } = await inside('detect', place('short.csv'), '--fail-on-quality');
    expect([code, out]).toEqual([1, expect.stringMatching(/data: 2 samples are too few .* below 16/)]);
  });

  test('says what happened when, what was expected, and what it assumed about the file', async () => {
    const { code, out } = await inside('detect', file);
    expect(code).toBe(0);
    expect(out).toContain('2025-03-08 14:00 to 16:15');
    expect(out).toMatch(/requests: level shift/);
    expect(out).toMatch(
      /requests fell to 0 from 2025-03-08 14:00 to 16:15 \(expected about 4\d\d; 4\d\d to 4\d\d on average at this time on the previous \d days\)\./,
    );
    expect(out).toMatch(/note: .*comma/i);
  });

  test('writes a page, a report that its schema accepts, and a score for every sample', async () => {
    const { code } = await inside('detect', file, '--out', place('report'), '--scores', place('scores.csv'));
    expect(code).toBe(0);
    const report = REPORT.parse(JSON.parse(readFileSync(place('report.json'), 'utf8')));
    expect(report.incidents).toHaveLength(1);
    expect(report.findings.map(({ column, start, end }) => [column, start, end]).sort()).toEqual([
      ['errors', 728, 738],
      ['requests', 728, 738],
    ]);
    expect(readFileSync(place('report.html'), 'utf8')).toContain('Written by timeseer.');
    const scores = readFileSync(place('scores.csv'), 'utf8').trimEnd().split('\n');
    expect(scores).toHaveLength(1 + 2 * 960);
  });

  test('chooses a column, a direction and a form, and fails on what is severe', async () => {
    const json = await inside('detect', file, '--column', 'errors', '--json', '--fail-on', 'high');
    expect(JSON.parse(json.out).findings).toMatchObject([
      { column: 'errors', direction: 'above', level: 'critical' },
    ]);
    expect(json.code).toBe(1);
    const below = await inside(
      'detect',
      file,
      '--column',
      'errors',
      '--direction',
      'below',
      '--fail-on',
      'low',
    );
    expect(below.out).toMatch(/Nothing unusual .*, but for findings left out\./);
    expect(below.out).toMatch(/note: 1 finding left out by --direction\./);
    expect(below.code).toBe(0);
    const annotations = await inside('detect', file, '--format', 'grafana-annotations');
    expect(JSON.parse(annotations.out)).toHaveLength(2);
  });

  test('tells each finding once where it keeps a state', async () => {
    const args = ['detect', file, '--json', '--state', place('seen.json')];
    expect(JSON.parse((await inside(...args)).out).findings).toHaveLength(2);
    expect(JSON.parse((await inside(...args)).out).findings).toHaveLength(0);
  });

  test('reports what is still ongoing again where it keeps a state, and fails on it', async () => {
    const growing = place('growing.csv');
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    // The latest rows, which come first, are an outage.
    const outage = lines.map((line, i) => (i < 1 || i > 9 ? line : line.replace(/;.*/, ';0,0;6,0')));
    writeFileSync(growing, `${outage.join('\n')}\n`);
    const args = ['detect', growing, '--json', '--fail-on', 'high', '--state', place('growing.json')];
    for (const reported of [false, true]) {
      const { code, out } = await inside(...args);
      expect(code).toBe(1);
      const { findings, counts } = JSON.parse(out);
      const ongoing = findings.filter((finding: { ongoing: boolean }) => finding.ongoing);
      expect(ongoing.length).toBeGreaterThan(0);
      expect(counts.ongoing).toBe(ongoing.length);
      for (const finding of ongoing) expect(finding.reported).toBe(reported);
      expect(findings.length > ongoing.length).toBe(!reported);
    }
  });

  test('tells a dip inside a level that its state knows', async () => {
    const random = new Random(1, 'inside');
    const rows = Array.from({ length: 1400 }, (_, i) => {
      const level = i < 1100 ? 100 : i >= 1250 && i < 1256 ? 60 : 119;
      return `${new Date(Date.UTC(2025, 2, 3) + i * 300_000).toISOString()},${(level + 3 * random.normal()).toFixed(2)}`;
    });
    const found = async (samples: number): Promise<object[]> => {
      writeFileSync(place('dip.csv'), `time,load\n${rows.slice(0, samples).join('\n')}\n`);
      const { out } = await inside('detect', place('dip.csv'), '--json', '--state', place('dip.json'));
      return JSON.parse(out).findings;
    };
    const level = { kind: 'level', ongoing: true };
    expect(await found(1200)).toMatchObject([{ ...level, reported: false }]);
    const both = await found(1400);
    expect(both).toHaveLength(2);
    expect(both).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ ...level, reported: true }),
        expect.objectContaining({ start: 1250, end: 1256, direction: 'below', reported: false }),
      ]),
    );
    expect(await found(1400)).toMatchObject([{ ...level, reported: true }]);
  });

  test('a dash reads standard input, which errors name', () => {
    const run = (input: string) =>
      spawnSync(process.execPath, [CLI, 'detect', '-'], { input, encoding: 'utf8' });
    expect(run(readFileSync(file, 'utf8')).stdout).toMatch(/^stdin: 1 incident in 2 columns/);
    expect(run('time,v\n2025-03-01,1\n2025-02-30,2\n').stderr).toMatch(
      /^error: standard input:3:1: "2025-02-30"/,
    );
  });

  test('prints its schema', async () => {
    expect(JSON.parse((await inside('detect', '--schema')).out)).toMatchObject({ type: 'object' });
  });

  test('refuses what it cannot do, and leaves files that are not its own', async () => {
    writeFileSync(place('empty.json'), '');
    for (const [args, reason, expected] of [
      [[], /file: missing; name a CSV file/],
      [['detect', file, '--column', 'request'], /no such column.*requests/s],
      [['detect', place('nothing.csv')], /nothing\.csv/],
      [['detect', file, '--severity', '0'], /severity.*1 to 100/],
      [['detect', file, '--severity', 'high'], /--severity: expected a number, 1 to 100: .*4 for high/],
      [
        ['detect', file, '--state', place('none/seen.json')],
        /--state .*: there is no directory .*none; make it/,
      ],
      [['detect', file, '--since', 'yesterday'], /--since/],
      [['detect', file, '--fail_on', 'low'], /Unknown argument: fail_on\. Did you mean --fail-on\?/],
      [['detect', file, '--fial-on=low'], /Unknown argument: fial-on\. Did you mean --fail-on\?/],
      [['detect', file, '--fail-on', 'hig'], /--fail-on: got "hig"\. Choices: .* Did you mean high\?/],
      [['explain', file, file], /shop\.csv: one file too many; run the command once for each file/],
      [
        ['adapt', file, '--out', place('adapted')],
        /shop\.csv: data are named by an option here; write --data .*shop\.csv/,
      ],
      [['explain'], /file: missing; name a CSV file, for example metrics.csv, or a server/],
      [['detect', file, '--rate', 'load'], /--rate load: .* no such column/],
      [['detect', file, '--decimal', '.'], /is not a number with --decimal \./],
      [['detect', file, '--policy', 'smal'], /smal: no such directory; .*Expected small/, 2],
      [['detect', file, '--policy', place('run/none')], /none: no such directory/, 3],
      [['detect', file, '--state', place('empty.json')], /empty\.json: is empty, .*; remove the file/, 3],
    ] as const) {
      const { code, err } = await inside(...(args.length === 0 ? ['detect'] : args));
      expect(code).toBe(expected ?? code);
      expect(code).not.toBe(0);
      expect(err).toMatch(reason);
    }
    writeFileSync(place('mine.html'), 'my own page');
    const { code, err } = await inside('detect', file, '--out', place('mine'));
    expect(code).not.toBe(0);
    expect(err).toMatch(/was not written by this command/);
    expect(existsSync(place('mine.json'))).toBe(false);
  });
});
