/** Command lines run in this process, with what they print. */
import { vi } from 'vitest';
import { main } from '../../src/cli.ts';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function inside(...args: string[]): Promise<Outcome> {
  const out: string[] = [];
  const err: string[] = [];
  const keep =
    (lines: string[]) =>
    (text: unknown): boolean => {
      lines.push(String(text));
      return true;
    };
  vi.spyOn(console, 'log').mockImplementation(keep(out));
  vi.spyOn(console, 'error').mockImplementation(keep(err));
  vi.spyOn(process.stdout, 'write').mockImplementation(keep(out));
  vi.spyOn(process.stderr, 'write').mockImplementation(keep(err));
  try {
    return { code: await main(args), out: out.join(''), err: err.join('') };
  } finally {
    process.exitCode = undefined; // of this command line alone
    vi.restoreAllMocks();
  }
}
