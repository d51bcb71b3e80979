import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ExampleSet } from '../../datasets/example-set.ts';
import { runList } from '../../src/commands/data/list.ts';
import { Progress } from '../../src/ground/progress.ts';
import { commandLine, print, printJson, say, visible, withoutSecrets } from '../../src/ground/terminal.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('terminal');
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  process.exitCode = undefined;
});

/** Colour, the clipboard (OSC 52), a link (OSC 8), an 8-bit escape, a return to the start of the line, an override, an isolate. */
const HOSTILE =
  '\u001b[31m\u001b]52;c;aGk=\u0007\u001b]8;;http://x\u001b\\\u009b2J\r\u202egnp\u2066\u2028end';
const OBEYED = /[^\P{Cc}\n\t]|\p{Bidi_Control}|\u2028/u;

/** What `work` writes to standard output and error. */
function written(work: () => void): string {
  const all: string[] = [];
  for (const stream of [process.stdout, process.stderr])
    vi.spyOn(stream, 'write').mockImplementation((text) => all.push(String(text)) > 0);
  work();
  vi.restoreAllMocks();
  return all.join('');
}

describe('text for a terminal', () => {
  test('shows what a terminal would obey, and leaves every other text as it is', () => {
    expect(visible(HOSTILE)).toBe(
      '\\x1b[31m\\x1b]52;c;aGk=\\x07\\x1b]8;;http://x\\x1b\\\\x9b2J\\x0d\\u202egnp\\u2066\\u2028end',
    );
    const plain = 'a\tb\nÄpfel, 日本語, العربية, 😀 — “quoted” \\x1b';
    expect(visible(plain)).toBe(plain);
  });

  test('is what results, warnings and progress are written as', () => {
    const text = written(() => {
      print(HOSTILE);
      say(HOSTILE);
      const progress = new Progress({ label: HOSTILE, total: 2, every: 0 });
      progress.update(1, { note: HOSTILE });
      progress.note(HOSTILE);
      progress.stop();
    });
    expect(text.split('\\x1b]52;c').length).toBeGreaterThan(5);
    expect(text).not.toMatch(OBEYED);
  });

  test('JSON escapes it too, and reads back the same', () => {
    const text = written(() => printJson({ [HOSTILE]: HOSTILE }));
    expect(text).not.toMatch(OBEYED);
    expect(text).toMatch(/^[^\n]*\n$/);
    expect(JSON.parse(text)).toEqual({ [HOSTILE]: HOSTILE });
  });

  test.each([
    ['a file’s name', ['explain', `${HOSTILE}.csv`, '--policy', 'none']],
    ['the name of a repository', ['pull', HOSTILE]],
    ['a command', [HOSTILE]],
    ['an option', ['doctor', `--${HOSTILE}`]],
    ['a recipe', ['plan', '--recipe', HOSTILE]],
    ['a value of a recipe', ['plan', '--set', `data.name=${HOSTILE}`]],
    ['a policy', ['ask', '--policy', HOSTILE, '--prompt', 'x']],
  ])('%s in an error is shown', async (_, args) => {
    const { code, out, err } = await inside(...args);
    expect(code).not.toBe(0);
    expect(err).toContain('x1b');
    expect(out + err).not.toMatch(OBEYED);
  });

  test('so are the names of classes and channels of a data set in its table', async () => {
    const folder = join(directory, 'own');
    mkdirSync(folder);
    const rows = Array.from(
      { length: 12 },
      (_, i) => `s${i}.csv,${i % 2 === 0 ? 'a' : `"\u001b[31mred\u202e"`}`,
    );
    writeFileSync(join(folder, 'labels.csv'), `file,class\n${rows.join('\n')}\n`);
    for (let i = 0; i < 12; i++) {
      const values = Array.from({ length: 30 }, (_, t) => Math.sin(t * (1 + (i % 2))) + i / 100);
      writeFileSync(join(folder, `s${i}.csv`), `"\u001b[1mchannel"\n${values.join('\n')}\n`);
    }
    const out = join(directory, 'set');
    const prepared = await inside(
      'data',
      'prepare',
      'custom',
      '--from',
      folder,
      '--out',
      out,
      '--shares',
      '8,2,2',
    );
    expect(prepared.code, prepared.err).toBe(0);
    const stats = await inside('data', 'stats', out);
    expect(new ExampleSet(out).manifest.classes).toContain('\u001b[31mred\u202e'); // as it is, in files
    expect(stats.out).toContain('\\x1b[31mred\\u202e');
    const all = [prepared, stats, await inside('data', 'show', out), await inside('data', 'validate', out)];
    for (const { out: text, err } of all) expect(text + err).not.toMatch(OBEYED);
  });
});

describe('secrets', () => {
  test.each([
    ['https://user:secret@host/path', 'https://***@host/path'],
    ['cannot reach https://secret@host:80, again', 'cannot reach https://***@host:80, again'],
    ['http://u:se@cret/secret@host/x', 'http://***@host/x'],
    ["'socks5://u:secret@h' and ftp://u:secret@h", "'socks5://***@h' and ftp://***@h"],
  ])('%s is shown without them', (text, shown) => {
    expect(withoutSecrets(text)).toBe(shown);
  });

  test.each([
    'https://host/path@v1?at=@',
    'mail a@b.c',
    'git@host:repo',
    'a://b c@d',
    'https://github.com/a/b#c@d',
  ])('%s is no secret', (text) => {
    expect(withoutSecrets(text)).toBe(text);
  });

  test('of an endpoint are in no message, with a stack or without, wherever they were given', async () => {
    const repo = 'owner/name';
    for (const address of [
      'https://user:secret@localhost:1/',
      'https://:secret@localhost:1',
      'http://user:sec/ret@localhost:1',
      'https://u:secret@[bad',
    ]) {
      vi.stubEnv('HF_ENDPOINT', address);
      for (const args of [[], ['--endpoint', address], ['--verbose']]) {
        const { code, out, err } = await inside('pull', repo, '--out', join(directory, 'p'), ...args);
        expect(code).toBe(2);
        expect(err).toMatch(/endpoint: holds a user name or password; .* the access token in HF_TOKEN/);
        expect(out + err).not.toMatch(/sec\/?ret/);
      }
    }
    expect(existsSync(join(directory, 'p'))).toBe(false);
  });

  test('of a fault are in no stack', () => {
    const text = written(() => say(new Error('fetch https://user:secret@host failed').stack!));
    expect(text).toContain('fetch https://***@host failed');
    expect(text).not.toContain('secret');
  });

  test('are not in the command line that a run records', () => {
    vi.spyOn(process, 'argv', 'get').mockReturnValue([
      ...['node', 'cli', 'sft', '--set', 'data.name=https://user:secret@host/a b'],
    ]);
    expect(commandLine()).toBe("timeseer sft --set 'data.name=https://***@host/a b'");
  });
});

describe('a standard output that takes no more', () => {
  const full = existsSync('/dev/full');
  const shell = (command: string): { status: number | null; stdout: string; stderr: string } =>
    spawnSync('bash', ['-c', command, 'bash', process.execPath, CLI], { encoding: 'utf8' });

  test.skipIf(!full).each(['data list', 'data list --json', '--help'])(
    '%s on a full disk is an error of one line and exit code 3',
    (command) => {
      const { status, stderr } = shell(`"$@" ${command} > /dev/full`);
      expect(stderr).toBe('error: standard output: not written (the disk is full)\n');
      expect(status).toBe(3);
    },
  );

  test.skipIf(!full)('an error that nobody can be told still has its exit code', () => {
    expect(shell('"$@" nonsense 2> /dev/full').status).toBe(2);
  });

  test('a reader that has seen enough ends the command quietly', () => {
    const { status, stderr } = shell('set -o pipefail; "$@" data list --json | head -c 10 > /dev/null');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  test('a log that takes no more does not stop the work', () => {
    const progress = new Progress({
      ...{ label: 'sft', total: 2, every: 0 },
      stream: {
        write: () => {
          throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
        },
      } as unknown as NodeJS.WritableStream,
    });
    progress.update(1);
    progress.note('a line');
    progress.stop();
  });

  test('an error of the stream itself names it', () => {
    vi.spyOn(process.stdout, 'write').mockImplementation(() => {
      throw Object.assign(new Error('EIO: i/o error, write'), { code: 'EIO', syscall: 'write' });
    });
    expect(() => runList({ json: false })).toThrow(
      'standard output: not written (the disk reports an error)',
    );
  });
});
