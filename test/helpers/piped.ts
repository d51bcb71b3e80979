/** `detect --follow` behind a pipe: rows of a quarter of an hour, and the program that reads them. */
import { spawn } from 'node:child_process';
import { Random } from '../../src/ground/random.ts';
import { CLI } from './program.ts';

const draw = new Random(7, 'follow');
export const row = (i: number, value: number, text = ''): string =>
  `${new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16)},${(value + draw.normal()).toFixed(2)}${text}\n`;

interface Piped {
  readonly code: number | null;
  readonly lines: readonly { readonly event: string }[];
  readonly err: string;
}

/** Writes parts to the command as it takes them; after the last, ends its input or, once `until` was printed, sends a signal. */
export async function piped(
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
