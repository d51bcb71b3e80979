import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('arguments that turn against the addon while it reads them never end the process', () => {
  const program = fileURLToPath(new URL('./attacks.ts', import.meta.url));
  const run = spawnSync(process.execPath, ['--import', 'tsx', program], {
    encoding: 'utf8',
    timeout: 100_000,
  });
  // The last line is the attack that ended it.
  expect({ last: run.stdout.trim().split('\n').at(-1), signal: run.signal, error: run.stderr }).toEqual({
    last: 'done',
    signal: null,
    error: '',
  });
}, 120_000);
