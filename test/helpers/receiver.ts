/** Streams whose events are told to a webhook. */
import { spawn } from 'node:child_process';
import { Random } from '../../src/ground/random.ts';
import { CLI } from './program.ts';

/** Rows every 15 minutes; 90 in samples [from, to), else noise around 50. */
export function levelRows(n: number, from: number, to: number): string[] {
  const draw = new Random(5, 'follow');
  return Array.from({ length: n }, (_, i) => {
    const value = (i >= from && i < to ? 90 : 50) + draw.normal();
    return `${new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16)},${value.toFixed(2)}\n`;
  });
}

/** Follows a stream in a process of its own, telling its events to a receiver, and keeps what it prints. */
export function followInto(state: string, url: string) {
  const child = spawn(
    process.execPath,
    [
      ...[CLI, 'detect', '--follow', '--json', '--window', '300', '--every', '25'],
      ...['--severity', '3', '--state', state, '--webhook', url],
    ],
    { stdio: 'pipe' },
  );
  const got = { out: '', err: '' };
  child.stdout.on('data', (text) => {
    got.out += text;
  });
  child.stderr.on('data', (text) => {
    got.err += text;
  });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  return { child, got, ended };
}
