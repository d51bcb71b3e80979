/** The example programs run as they stand, with the package's name bound to the sources. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ChatServer, says } from '../helpers/chat-server.ts';

const server = new ChatServer();
beforeAll(async () => {
  server.usual = says('<think>flat</think><answer>[]</answer><class>normal</class>');
  await server.start();
  process.env['ENDPOINT'] = server.url;
});
afterAll(() => server.stop());

/** What a program prints. */
async function printed(name: string): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => {
    lines.push(values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join(' '));
  });
  try {
    await import(`../examples/${name}.ts`);
  } finally {
    log.mockRestore();
  }
  return lines.join('\n');
}

const PROGRAMS: Readonly<Record<string, RegExp>> = {
  'detect-array':
    /^season of 24 hours\n(?:.*\n)*2026-01-17T16:00:00\.000Z, 6 h, (?:dip|flat|level): mean 0, expected \d+/,
  'evaluate-endpoint': /^format at temperature 0: 1\.00 \[1\.00, 1\.00\]$/m,
  'load-and-ask': /^<think>[^<]+<\/think>/,
  'own-estimator': /^advantage [01] for reward .*\n1 step with best$/,
  'own-reward': /^step 1: reward .*"brief":.*\nstep 2: reward .*\n2 steps; the policy is in .*policy$/,
  'own-task': /^step 1: loss \d.*\nstep 2: loss \d.*\ntrained for 2 steps$/,
  'render-and-look': /^1000 × 150 pixels\n\{/,
  'sft-then-rl':
    /^step 1: reward \S+, KL \d.*\nstep 2: reward \S+, KL \S+\n2 supervised steps, 2 of reinforcement$/,
};

test('every program is run, and has at most 30 lines', () => {
  const files = readdirSync(import.meta.dirname).filter((name) => !name.endsWith('.test.ts'));
  expect(files.sort()).toEqual(Object.keys(PROGRAMS).map((name) => `${name}.ts`));
  for (const file of files) {
    expect(readFileSync(join(import.meta.dirname, file), 'utf8').split('\n').length).toBeLessThanOrEqual(31);
  }
});

test.each(Object.entries(PROGRAMS))('%s', async (name, output) => {
  expect(await printed(name)).toMatch(output);
});
