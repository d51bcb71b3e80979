import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { followInto, levelRows } from '../helpers/receiver.ts';
import { WebServer } from '../helpers/web-server.ts';

const directory = mkdtempSync(join(tmpdir(), 'webhook-'));
const server = new WebServer();
afterAll(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

test('a stream ends although the receiver never answers, and says what waits', async () => {
  server.usual = () => {};
  await server.start();
  const run = followInto(join(directory, 'silent.state'), server.url);
  run.child.stdin.end(`time,load\n${levelRows(600, 430, 460).join('')}`);
  expect(await run.ended).toBe(0);
  expect(server.calls.length).toBeGreaterThan(0);
  expect(run.got.err).toMatch(/2 events wait in the state for the next run/);
});
