/** Refusals of the operating system: one line that says what, where and what helps, and exit code 3. */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { COMMANDS, main } from '../../src/cli.ts';
import { TimeseerError } from '../../src/ground/errors.ts';
import { systemError } from '../../src/ground/files.ts';
import { failureOf } from '../../src/train/worker-group.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('refusals');
const series = join(directory, 'series.csv');
writeFileSync(series, Array.from({ length: 60 }, (_, t) => Math.sin(t / 3)).join('\n'));
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** As the system raises it. */
function refusal(code: string, path?: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: refused, open '${path}'`), {
    ...{ code, syscall: 'open', errno: -1 },
    ...(path === undefined ? {} : { path }),
  });
}

describe('a refusal that nobody expected where it came', () => {
  const cases = [
    'EACCES',
    'EROFS',
    'ENOSPC',
    'EDQUOT',
    'ENOTDIR',
    'EISDIR',
    'ELOOP',
    'ENAMETOOLONG',
    'EMFILE',
    'EIO',
  ];

  test.each(cases)('%s is one line that names the file, with the stack only on request', async (code) => {
    for (const verbose of [false, true]) {
      vi.spyOn(COMMANDS['doctor']!, 'register').mockRejectedValue(refusal(code, '/a/file'));
      const err: string[] = [];
      vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0);
      expect(await main(verbose ? ['doctor', '--verbose'] : ['doctor'])).toBe(3);
      vi.restoreAllMocks();
      const [line, ...more] = err.join('').trimEnd().split('\n');
      expect(line).toMatch(/^error: \/a\/file: [a-z]/);
      expect(line).not.toMatch(/E[A-Z]{3,}|fault/);
      expect(more.length > 0).toBe(verbose);
    }
  });

  test('in a Worker is typed too', () => {
    expect(failureOf(refusal('ENOSPC', '/a/file'))).toMatchObject({
      expected: true,
      message:
        '/a/file: the disk is full; free some space and run the command again (a run, a study, an evaluation: with --resume)',
    });
  });

  test('is told apart from a fault of the program', () => {
    for (const error of [new TypeError('x'), refusal('EBADF', '/a'), refusal('EINVAL'), 'text', null]) {
      expect(systemError(error)).toBeNull();
    }
    expect(systemError(refusal('EIO'))).toBeInstanceOf(TimeseerError);
  });
});

describe('places that cannot be written', () => {
  const file = join(directory, 'file');
  writeFileSync(file, '');
  const commands: readonly (readonly string[])[] = [
    ['explain', series, '--policy', 'none', '--out'],
    ['render', series, '--out'],
    ['data', 'generate', 'nano5', '--count', '2', '--out'],
    ['data', 'prepare', 'nano5', '--count', '2', '--out'],
    ['pull', 'owner/name', '--out'],
    ['sft', '--set', 'sft.samples=16', '--out'],
  ];

  test.each(commands)('%s %s: below a file, or under a name of 300 characters', async (...args) => {
    for (const name of ['below', 'x'.repeat(300)]) {
      const { code, out, err } = await inside(...args, join(name === 'below' ? file : directory, name));
      expect([2, 3]).toContain(code);
      expect(out).toBe('');
      expect(err).toMatch(/^(?:(?:render|prepare) .*\n)*error: .*(?:file|longer than).*\n$/);
    }
    expect(readFileSync(file, 'utf8')).toBe('');
  });

  const root = process.getuid?.() === 0;
  const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
  const other = root ? nobody : [];
  const can = spawnSync('sh', ['-c', '"$@" --version', 'sh', ...other, process.execPath, CLI]).status === 0;

  test.skipIf(!can)('a directory of someone else', () => {
    const closed = join(directory, 'closed');
    mkdirSync(closed);
    chmodSync(closed, 0o555);
    chmodSync(directory, 0o755);
    const [program, ...args] = [
      ...other,
      process.execPath,
      CLI,
      'explain',
      series,
      '--policy',
      'none',
      '--out',
      join(closed, 'a'),
    ];
    const { status, stderr } = spawnSync(program!, args, { encoding: 'utf8' });
    expect(stderr).toMatch(/^error: .*closed\/a\S*: not written \(no permission: choose another place.*\n$/);
    expect(status).toBe(3);
  });
});

// How many files Node keeps open for itself differs between machines; near 30 reading the modules fails on all that were tried.
test.each([26, 30])('with room for only %i open files it says so, and how to get more', (limit) => {
  const { status, stdout, stderr } = spawnSync(
    'bash',
    [
      '-c',
      `ulimit -n ${limit}; exec "$@"`,
      'bash',
      process.execPath,
      CLI,
      'explain',
      series,
      '--policy',
      'none',
    ],
    { encoding: 'utf8' },
  );
  expect(stderr).toMatch(
    /^error: \S+: this process has too many files open; allow more with `ulimit -n 4096`.*\n$/,
  );
  expect({ status, stdout }).toEqual({ status: 3, stdout: '' });
});

const first = spawnSync('unshare', ['-pf', '--kill-child', 'true']).status === 0;

test.skipIf(!first)('as the first process of a container a signal ends it too', async () => {
  const script = `import { endAsFirstProcess } from ${JSON.stringify(resolve('src/ground/interrupt.ts'))};
    endAsFirstProcess(); setInterval(() => {}, 1000); console.log(process.pid);`;
  const program = join(directory, 'first.mts');
  writeFileSync(program, script);
  const child = spawn('unshare', ['-pf', '--kill-child', process.execPath, '--import', 'tsx', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((done) => child.on('close', done));
  const said = await new Promise((done) =>
    child.stdout.once('data', (data: Buffer) => done(data.toString())),
  );
  expect(said).toBe('1\n');
  const inner = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'));
  process.kill(inner, 'SIGTERM');
  expect(await ended).toBe(143);
});
