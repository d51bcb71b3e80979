import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inside } from '../helpers/command-line.ts';
import { piped, row } from '../helpers/piped.ts';
import { CLI } from '../helpers/program.ts';

let directory = '';
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'follow-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('timeseer detect --follow', () => {
  test('fails on a fault of the data where that is asked for', async () => {
    const rows = Array.from({ length: 260 }, (_, i) => row(i < 200 ? i : i + 10, 50));
    const options = ['--window', '250', '--every', '50'];
    const run = (...more: string[]) =>
      piped(['detect', '--follow', '--json', ...options, ...more], ['time,load\n', ...rows]);
    const { code, lines } = await run('--fail-on-quality');
    expect(lines).toContainEqual(expect.objectContaining({ event: 'note', code: 'gaps' }));
    expect([code, (await run()).code]).toEqual([1, 0]);
  });

  test('the command of the guide tells a finding, fails where it is severe, and does not repeat it', async () => {
    const command = /^ +tail .*\| npx timeseer (detect --follow .*)$/m.exec(
      readFileSync('src/README.md', 'utf8'),
    )![1]!;
    const args = [...command.split(' '), '--state', join(directory, 'seen.json'), '--fail-on', 'high'];
    const parts = [
      'time,load\n',
      ...Array.from({ length: 520 }, (_, i) => row(i, i >= 400 && i < 420 ? 90 : 50)),
    ];
    const first = await piped(args, parts);
    expect(first.err).toBe('');
    expect(first.lines.map(({ event }) => event).filter((event) => event !== 'note')).toEqual([
      ...['start', 'open', 'closed', 'end'],
    ]);
    expect(first.code).toBe(1);
    const again = await piped(args, parts);
    expect(again.lines.map(({ event }) => event)).not.toContain('open');
    expect(again.code).toBe(0);
  }, 60_000);

  test('Ctrl-C judges the last rows, leaves open what is open, and ends with 130', async () => {
    const parts = ['time,load\n', ...Array.from({ length: 420 }, (_, i) => row(i, i >= 400 ? 90 : 50))];
    const args = ['detect', '--follow', '--json', '--window', '400', '--every', '30'];
    const { code, lines } = await piped(args, parts, { until: /"event":"open"/ });
    expect(code).toBe(130);
    expect(lines.slice(-2)).toMatchObject([{ event: 'open' }, { event: 'end', open: [{ column: 'load' }] }]);
  }, 60_000);

  test('a second one with the same state file is refused, with the process that uses it; a killed one holds nobody up', async () => {
    const args = ['detect', '--follow', '--json', '--window', '400', '--every', '30', '--state'];
    const path = join(directory, 'shared.json');
    const first = spawn(process.execPath, [CLI, ...args, path], { stdio: ['pipe', 'pipe', 'inherit'] });
    await new Promise((resolve) => first.stdout.once('data', resolve));
    const parts = ['time,load\n', ...Array.from({ length: 40 }, (_, i) => row(i, 50))];
    const second = await piped([...args, path], parts);
    expect(second).toMatchObject({ code: 2, lines: [] });
    expect(second.err).toMatch(
      new RegExp(
        `--state .*shared.json: process ${first.pid} has used it for \\d+ s .*choose another --state`,
      ),
    );
    const ended = new Promise((resolve) => first.once('close', resolve));
    first.kill('SIGKILL');
    await ended;
    expect((await piped([...args, path], parts)).code).toBe(0);
  }, 60_000);

  test('a state file that is damaged, or of another version, is refused and left as it is', async () => {
    const state = (text: string): string => {
      const path = join(directory, 'damaged.json');
      writeFileSync(path, text);
      return path;
    };
    const good = '{"schema":"timeseer.anomalies.state","version":1,"timed":true,"seen":{}}';
    for (const [text, reason] of [
      [good.slice(0, 40), /damaged\.json: not a state file .*choose another --state, or remove the file/],
      [
        good.replace('1', '7'),
        /a state of version 7, which this timeseer does not know; choose another --state/,
      ],
      [good.replace('true', '3'), /not a state file: timed: .*boolean/],
    ] as const) {
      const { code, err } = await piped(['detect', '--follow', '--state', state(text)], ['time,load\n']);
      expect(code).toBe(3);
      expect(err).toMatch(reason);
      expect(readFileSync(join(directory, 'damaged.json'), 'utf8')).toBe(text);
    }
  }, 60_000);

  test('refuses what does not go with it, and why', async () => {
    for (const [args, reason] of [
      [['my.csv'], /tail -n \+1 -F my\.csv \| timeseer detect --follow/],
      [['--since', '2h'], /--since: .*only new findings/],
      [['--out', 'page'], /--out: .*does not keep the whole recording/],
      [['--format', 'csv'], /--format csv: .*text or json/],
      [['--window', '10'], /--window: expected 50 to 100000/],
    ] as const) {
      const { code, err } = await inside('detect', '--follow', ...args);
      expect(code).not.toBe(0);
      expect(err).toMatch(reason);
    }
    expect((await inside('detect', 'my.csv', '--every', '5')).err).toMatch(/--every: needs --follow/);
  });
});
