import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { keyOf } from '../../src/commands/serve.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { until } from '../helpers/service.ts';

const given = { auth: true, host: '127.0.0.1', apiKey: undefined };

describe('the key of the service', () => {
  test('is not needed where only this machine reaches it', () => {
    for (const host of ['127.0.0.1', '127.1.2.3', 'localhost', '::1'])
      expect(keyOf({ ...given, host }, {})).toBeNull();
  });

  test.each(['0.0.0.0', '::', '192.168.1.4', 'example.org', '127.evil.org', 'localhost.example.org'])(
    'is needed on %s, unless it is said that it is not',
    (host) => {
      expect(() => keyOf({ ...given, host }, {})).toThrow(/set TIMESEER_API_KEY, or add --no-auth/);
      expect(keyOf({ ...given, host, auth: false }, {})).toBeNull();
      expect(keyOf({ ...given, host }, { TIMESEER_API_KEY: 'abc' })).toBe('abc');
      expect(keyOf({ ...given, host, apiKey: 'def' }, { TIMESEER_API_KEY: 'abc' })).toBe('def');
    },
  );

  test('is refused when it is empty, has blanks, or would be without effect, and is not repeated', () => {
    expect(() => keyOf(given, { TIMESEER_API_KEY: '' })).toThrow(
      /TIMESEER_API_KEY: expected one or more visible ASCII/,
    );
    const secret = 'two words';
    expect(() => keyOf({ ...given, apiKey: secret }, {})).toThrow(
      /--api-key: expected one or more visible ASCII/,
    );
    expect(() => keyOf({ ...given, apiKey: secret }, {})).not.toThrow(secret);
    expect(() => keyOf({ ...given, auth: false, apiKey: 'k' }, {})).toThrow(/no effect with --no-auth/);
  });
});

describe('timeseer serve', () => {
  test.each([
    [['--port', '70000'], '--port: expected a whole number from 0 to 65535, got 70000'],
    [['--max-queue', '0'], '--max-queue: expected a whole number from 1'],
    [['--timeout', 'soon'], "--timeout: got 'soon', expected a number"],
    [['--adapter', 'x'], '--adapter: needs --policy'],
    [['--host', '0.0.0.0'], '--host 0.0.0.0: other machines can reach this address'],
    [['--policy', 'no-such-directory'], 'no-such-directory: no such directory'],
    [['--host', '192.0.2.1', '--no-auth', '--port', '0'], '--host 192.0.2.1 --port 0: cannot be listened to'],
  ])('refuses %j', async (args, message) => {
    const { code, err } = await inside('serve', ...args);
    expect(err).toContain(message);
    expect(code).not.toBe(0);
  });

  test('answers until Ctrl-C, finishes what it has begun, and ends with 130', async () => {
    const child = spawn(process.execPath, [CLI, 'serve', '--port', '0', '--json'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = once(child, 'exit');
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    await until(() => out.includes('\n'));
    const { url, model, key } = JSON.parse(out) as { url: string; model: null; key: boolean };
    expect([model, key]).toEqual([null, false]);
    const values = Array.from({ length: 20_000 }, (_, i) => Math.sin(i / 40) + (i === 15_000 ? 8 : 0));
    const answer = fetch(`${url}/v1/explain`, {
      ...{ method: 'POST', body: JSON.stringify({ values }) },
      headers: { 'Content-Type': 'application/json' },
    });
    await until(async () => (await (await fetch(`${url}/readyz`)).text()).includes('"explain":1'));
    child.kill('SIGINT');
    await until(() => err.includes('pending requests have been answered'));
    const { findings } = (await (await answer).json()) as { findings: { start: number }[] };
    expect(findings[0]).toMatchObject({ start: 15_000 });
    expect(await ended).toEqual([130, null]);
    expect(err).toMatch(/POST \/v1\/explain 200/);
  });
});
