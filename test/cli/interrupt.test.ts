import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Interrupted, withInterrupt } from '../../src/ground/interrupt.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('interrupt');
afterEach(() => {
  process.exitCode = undefined;
  vi.restoreAllMocks();
});

interface Ending {
  readonly code: number | null;
  /** That the system ended the process with; a shell then says 128 and its number. */
  readonly by: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

/** Runs `body` inside withInterrupt in a process of its own, and sends a signal for each line it prints. */
function signalled(body: string, signals: readonly NodeJS.Signals[]): Promise<Ending> {
  const file = join(directory, `${Math.random().toString(36).slice(2)}.mjs`);
  writeFileSync(
    file,
    `import { setTimeout as sleep } from 'node:timers/promises';
     import { withInterrupt } from ${JSON.stringify(resolve('dist/src/ground/interrupt.js'))};
     await withInterrupt(async (signal) => { ${body} });
     console.log('after');`,
  );
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  const waiting = [...signals];
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
    const next = waiting.shift();
    if (next !== undefined) child.kill(next);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  return new Promise((done) => child.on('close', (code, by) => done({ code, by, out, err })));
}

describe('withInterrupt', () => {
  test.each(['SIGINT', 'SIGTERM'] as const)(
    'the first %s lets the work save and return, with code 130',
    async (name) => {
      const body = "console.log('working'); while (!signal.aborted) await sleep(5); console.log('saved');";
      const { code, out, err } = await signalled(body, [name]);
      expect(code).toBe(130);
      expect(out).toBe('working\nsaved\nafter\n');
      expect(err).toMatch(/saving first; press Ctrl-C again to quit at once/);
    },
  );

  test('a hangup, and a second one, lets the work save and return, with code 129 and not a word', async () => {
    const body =
      "console.log('working'); while (!signal.aborted) await sleep(5); console.log('saving'); await sleep(300); console.log('saved');";
    const { code, out, err } = await signalled(body, ['SIGHUP', 'SIGHUP']);
    expect(code).toBe(129);
    expect(out).toBe('working\nsaving\nsaved\nafter\n');
    expect(err).toBe('');
  });

  test('the second quits at once', async () => {
    const body =
      "console.log('working'); while (!signal.aborted) await sleep(5); console.log('saving'); await sleep(60_000);";
    const { by, out } = await signalled(body, ['SIGINT', 'SIGINT']);
    expect(by).toBe('SIGINT');
    expect(out).toBe('working\nsaving\n');
  });

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'the second quits at once even where nothing lets the event loop turn, whatever the first was (%s)',
    async (name) => {
      const body =
        "console.log('working'); while (!signal.aborted) await sleep(5); console.log('saving'); for (;;);";
      const { by, out } = await signalled(body, ['SIGTERM', name]);
      expect(by).toBe(name);
      expect(out).toBe('working\nsaving\n');
    },
  );

  test('throwing the reason ends as Interrupted, as does an aborted timer', async () => {
    vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    for (const body of [
      (signal: AbortSignal) =>
        new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason))),
      async (signal: AbortSignal) => {
        const { setTimeout: sleep } = await import('node:timers/promises');
        await sleep(60_000, undefined, { signal });
      },
    ]) {
      const run = withInterrupt(body);
      process.emit('SIGINT');
      await expect(run).rejects.toThrow(Interrupted);
    }
  });

  test('without a signal it passes values and errors through and leaves no trace', async () => {
    const before = process.listenerCount('SIGINT');
    expect(await withInterrupt(async () => 7)).toBe(7);
    await expect(withInterrupt(async () => Promise.reject(new RangeError('mine')))).rejects.toThrow(
      RangeError,
    );
    expect(process.listenerCount('SIGINT')).toBe(before);
    expect(process.exitCode).toBeUndefined();
  });

  test('nested calls share one signal', async () => {
    await withInterrupt(async (outer) => {
      await withInterrupt(async (inner) => {
        expect(inner).toBe(outer);
        return null;
      });
    });
  });
});
