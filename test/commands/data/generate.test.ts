import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import yargs from 'yargs';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { nano5 } from '../../../datasets/generators/nano5.ts';
import { generateCommand } from '../../../src/commands/data/generate.ts';
import { ConfigError } from '../../../src/ground/errors.ts';
import { CLI } from '../../helpers/program.ts';
import { temporary } from '../../helpers/temporary.ts';

const root = temporary('generate');
afterEach(() => vi.restoreAllMocks());
let made = 0;
const freshPath = (): string => join(root, `place${made++}`, 'set');

/** Runs the command as the CLI does; returns what it printed. */
async function run(...args: string[]): Promise<string> {
  const printed: string[] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed.push(String(text));
    return true;
  });
  await yargs(['generate', ...args])
    .command(generateCommand)
    .strict()
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? new Error(message);
    })
    .parseAsync();
  vi.restoreAllMocks();
  return printed.join('');
}

describe('timeseer data generate', () => {
  it('writes the series that were asked for and says so', async () => {
    const out = freshPath();
    const text = await run(
      'nano5',
      '--out',
      out,
      '--count',
      '10',
      '--split',
      'train',
      '--seed',
      '6',
      '--length',
      '200',
      '--offset',
      '5',
    );
    const set = new ExampleSet(out);
    expect([...set.read('train')]).toEqual(
      Array.from({ length: 10 }, (_, i) => nano5(6, 'train', i + 5, 200)),
    );
    expect(text).toContain(`${out}: 10 series of 200 points, nano5 train, seed 6;`);
    expect(text).toMatch(/normal\s+2 {2}20\.0 %/);
    expect(set.splits).toEqual(['train']);
    expect(set.manifest).toMatchObject({
      task: 'nano5',
      parameters: { seeds: { train: 6 }, length: 200, offset: 5, gap: 30, period: [30, 70] },
    });
  });

  it('takes 400 series of the test split with its seed unless told otherwise', async () => {
    const out = freshPath();
    const summary = JSON.parse(await run('anomllm/point', '--out', out, '--length', '50', '--json'));
    expect(summary).toMatchObject({
      out,
      format: 'timeseer-examples',
      parameters: { seeds: { test: 42 } },
      splits: { test: { count: 400, length: 50 } },
    });
    expect(summary.seconds).toBeGreaterThan(0);
    expect(summary.splits.test.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it('replaces a data set only with --force', async () => {
    const out = freshPath();
    await run('nano5', '--out', out, '--count', '3');
    await expect(run('nano5', '--out', out, '--count', '4')).rejects.toThrow(
      /holds a data set already; .* add --force/,
    );
    expect(new ExampleSet(out).count('test')).toBe(3);
    await run('nano5', '--out', out, '--count', '4', '--force');
    expect(new ExampleSet(out).count('test')).toBe(4);
  });

  it('never replaces what it did not make, even with --force', async () => {
    const out = freshPath();
    mkdirSync(out, { recursive: true });
    writeFileSync(join(out, 'thesis.txt'), 'years of work');
    await expect(run('nano5', '--out', out, '--force')).rejects.toThrow(
      /holds other files, which are never replaced/,
    );
    const file = join(out, 'thesis.txt');
    await expect(run('nano5', '--out', file, '--force')).rejects.toThrow(/is a file; choose a directory/);
    expect(readFileSync(file, 'utf8')).toBe('years of work');
  });

  it('fills an empty directory', async () => {
    const out = freshPath();
    mkdirSync(out, { recursive: true });
    await run('nano5', '--out', out, '--count', '2');
    expect(new ExampleSet(out).count('test')).toBe(2);
  });

  it.each([
    [['nano6'], /no generator named 'nano6'. Did you mean nano5\?/],
    [[root], /is a path; expected the name of a generator: nano5, /],
    [['nano5', '--count', '0'], /count: got 0/],
    [['nano5', '--seed', '-1'], /seed: got -1/],
    [['nano5', '--length', '20'], /length: got 20/],
  ])('refuses %j before it writes', async (args, message) => {
    const out = freshPath();
    const running = run(...args, '--out', out);
    await expect(running).rejects.toThrow(message);
    await expect(running).rejects.toThrow(ConfigError);
    expect(existsSync(out)).toBe(false);
  });

  it('refuses a split that does not exist', async () => {
    await expect(run('nano5', '--out', freshPath(), '--split', 'dev')).rejects.toThrow(
      /Choices: "train", "validation", "test"/,
    );
  });

  it('lists every generator in its help', async () => {
    const help = await yargs([]).command(generateCommand).getHelp();
    expect(help).toContain('generate <name>');
    const own = await new Promise<string>((resolve) => {
      yargs(['generate', '--help'])
        .command(generateCommand)
        .exitProcess(false)
        .parse('generate --help', {}, (_error, _argv, text) => resolve(text));
    });
    for (const part of ['nano5', 'anomllm/noisy-trend', 'Examples:', '--force']) expect(own).toContain(part);
  });
});

/** Starts the command in a process of its own; `limit` bounds the size of any file it writes, in kilobytes. */
function start(args: string[], limit?: number) {
  const node = [process.execPath, CLI, 'data', 'generate', ...args];
  const shell = `${limit === undefined ? '' : `ulimit -f ${limit}; `}exec "$@"`;
  const child = spawn('bash', ['-c', shell, 'bash', ...node], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += String(chunk);
  });
  const ended = new Promise<{ code: number | null; stderr: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, stderr }));
  });
  return { child, ended };
}

describe('timeseer data generate, interrupted', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 130],
    ['SIGHUP', 129],
  ] as const)('%s leaves nothing and exits with %d', async (signal, status) => {
    const out = freshPath();
    const parent = join(out, '..');
    mkdirSync(parent);
    const { child, ended } = start(['nano5', '--out', out, '--count', '100000']);
    while (child.exitCode === null && readdirSync(parent).length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(readdirSync(parent).length).toBe(1);
    child.kill(signal);
    const { code, stderr } = await ended;
    expect(stderr).toContain(signal === 'SIGHUP' ? '' : 'nothing half-written is left');
    expect(code).toBe(status);
    expect(readdirSync(parent)).toEqual([]);
  });

  it('a disk that takes no more leaves nothing, and says so', async () => {
    const out = freshPath();
    const parent = join(out, '..');
    mkdirSync(parent);
    const { ended } = start(['nano5', '--out', out, '--count', '3000'], 8192);
    const { code, stderr } = await ended;
    expect(stderr).toMatch(/set: not written \([^\n]*\)\n/);
    expect(code).toBe(3);
    expect(readdirSync(parent)).toEqual([]);
  });
});
