import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { claimRun } from '../../../src/commands/run/lock.ts';
import { ConfigError } from '../../../src/errors.ts';

const directory = mkdtempSync(join(tmpdir(), 'timeseer-lock-'));
const file = join(directory, '.lock');
afterAll(() => rmSync(directory, { recursive: true, force: true }));

test('a claimed run is refused to others until it is given back', () => {
  writeFileSync(file, String(process.ppid));
  expect(() => claimRun(directory)).toThrow(ConfigError);
  expect(() => claimRun(directory)).toThrow(`process ${process.ppid} is working on this run`);
  rmSync(file);
  const release = claimRun(directory);
  expect(existsSync(file)).toBe(true);
  release();
  expect(existsSync(file)).toBe(false);
});

test('the claim of a process that is gone, or a damaged one, is taken over', () => {
  const gone = spawnSync(process.execPath, ['-e', '']).pid;
  for (const left of [String(gone), 'nonsense', '']) {
    writeFileSync(file, left);
    claimRun(directory)();
    expect(existsSync(file)).toBe(false);
  }
});
