import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
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
  test('memory does not grow with the stream', async () => {
    function* parts(): Generator<string> {
      yield 'time,load,text\n';
      for (let i = 0; i < 9000; i++) yield row(i, 50, `,${String(i).repeat(3000)}`);
    }
    // Over 100 MB of rows, which would not fit.
    const { code, lines } = await piped(
      ['detect', '--follow', '--json', '--column', 'load', '--window', '100', '--every', '100'],
      parts(),
      { node: ['--max-old-space-size=100'] },
    );
    expect(code).toBe(0);
    expect(lines.at(-1)).toMatchObject({ event: 'end', rows: 9001, bad: 0 });
  }, 120_000);
});
