import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';

let directory = '';
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'follow-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const draw = new Random(7, 'follow');
const row = (i: number, value: number, text = ''): string =>
  `${new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16)},${(value + draw.normal()).toFixed(2)}${text}\n`;

interface Piped {
  readonly code: number | null;
  readonly lines: readonly { readonly event: string }[];
  readonly err: string;
}

/** Writes parts to the command as it takes them; after the last, ends its input or, once `until` was printed, sends a signal. */
async function piped(
  args: readonly string[],
  parts: Iterable<string>,
  { node = [], until }: { node?: readonly string[]; until?: RegExp } = {},
): Promise<Piped> {
  const child = spawn(process.execPath, [...node, CLI, ...args], { stdio: 'pipe' });
  let [out, err] = ['', ''];
  let asked = false;
  child.stdin.on('error', () => {});
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    // Once: a second one quits at once.
    if (until?.test(out) && !asked) asked = child.kill('SIGINT');
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  for (const part of parts) {
    if (child.exitCode !== null) break;
    if (!child.stdin.write(part))
      await Promise.race([ended, new Promise((r) => child.stdin.once('drain', r))]);
  }
  if (until === undefined) child.stdin.end();
  const code = await ended;
  const lines = out.split('\n').filter((line) => line !== '');
  return { code, err, lines: lines.map((line) => JSON.parse(line)) };
}

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
