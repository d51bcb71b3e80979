/** Refusals of the operating system: one line that says what, where and what helps, and exit code 3. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('refusals');
const series = join(directory, 'series.csv');
writeFileSync(series, Array.from({ length: 60 }, (_, t) => Math.sin(t / 3)).join('\n'));
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

describe('places that cannot be written', () => {
  const file = join(directory, 'file');
  writeFileSync(file, '');

  /** Command that mounts something that only a test sees: as root, or as a user that may call itself root. */
  const apart = ['-m', '-rm'].find(
    (how) => spawnSync('unshare', [how, 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0,
  );

  test.skipIf(apart === undefined).each([
    ['read-only', 'mount -o remount,ro /mnt', /file system is read-only/],
    ['full', 'head -c 99999 /dev/zero > /mnt/fill', /the disk is full: free some space/],
  ])('a file system that is %s: of a run, of a pull, of the cache', (_, make, reason) => {
    const run = (command: string): string => `"$@" ${command} 2>&1; echo "code $?"`;
    const script = [
      'mount -t tmpfs -o size=8k none /mnt; mkdir /mnt/run',
      `${make} 2> /dev/null`,
      run('sft --out /mnt/run --set sft.samples=16'),
      run('pull owner/name --out /mnt/run'),
      run('explain "$SERIES" --out /mnt/run/a'),
      `TIMESEER_CACHE=/mnt/cache ${run('setup --no-install')}`,
    ].join('\n');
    const { stdout } = spawnSync('unshare', [apart!, 'bash', '-c', script, 'bash', process.execPath, CLI], {
      encoding: 'utf8',
      env: { ...process.env, SERIES: series },
    });
    const lines = stdout.trimEnd().split('\n');
    expect(lines.filter((_, i) => i % 2 === 1)).toEqual(Array(4).fill('code 3'));
    const errors = lines.filter((_, i) => i % 2 === 0);
    for (const line of errors) {
      expect(line).toMatch(/^error: \/mnt\/(?:run|cache)\S*: not written/);
      expect(line).toMatch(reason);
    }
    expect(errors[0]).toContain('/mnt/run:');
  });
});
