import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { COMMANDS, main } from '../../src/cli.ts';
import { packageVersion } from '../../src/ground/paths.ts';
import { recipeKeys } from '../../src/recipe/recipe.ts';
import { inside, type Outcome } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('cli');
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** Runs it as a program. */
function outside(args: readonly string[], env: NodeJS.ProcessEnv = {}): Outcome {
  const run = spawnSync(process.execPath, [CLI, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { code: run.status ?? -1, out: run.stdout, err: run.stderr };
}

const names = Object.keys(COMMANDS);

describe('help', () => {
  test('lists every command with what it does', async () => {
    const { code, out } = await inside('--help');
    expect(code).toBe(0);
    for (const name of names) expect(out).toMatch(new RegExp(`timeseer ${name} +[A-Z]`));
  });

  test.each(names)('%s --help describes it in the words of the list and shows examples', async (name) => {
    const list = (await inside('--help')).out;
    const { code, out } = await inside(name, '--help');
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^timeseer ${name}`));
    expect(out).toMatch(/Examples:\n +\S/);
    const plain = (text: string): string => text.replaceAll(/\s+/g, ' ');
    expect(plain(out)).toContain(COMMANDS[name]!.describe);
    expect(plain(list)).toContain(COMMANDS[name]!.describe);
  });

  test.each([
    ['sft', 'sft', 'rl'],
    ['train', 'rl', 'sft'],
  ])('%s --help explains the keys of its stage and of the whole run', async (name, own, other) => {
    const { out } = await inside(name, '--help');
    const told = [...out.matchAll(/^ {2}([\w.]+)=\S+(?:\s+)([A-Z'].*)/gm)].map(([, key]) => key!);
    for (const { key } of recipeKeys()) {
      const section = key.split('.')[0]!;
      if (section === own || ['seed', 'data', 'policy', 'answers'].includes(section))
        expect(told).toContain(key);
      if (section === other) expect(told).not.toContain(key);
    }
  });

  test('train --help gives the values of the recipe that applies, and those of other recipes beside them', async () => {
    const plain = (await inside('train', '--help')).out.replaceAll(/\s+/g, ' ');
    expect(plain).toContain('with their values in quickstart, which a new run has without --recipe; else:');
    expect(plain).toMatch(/ rl\.steps=1000 [^[]*\[≥ 0; else 360\]/);
    expect(plain).toMatch(/ rl\.optimizer=muon [^[]*\[adamw \| muon; else adamw\]/);
    expect(plain).toMatch(/ rl\.prompts=16 [^[]*\[1 … 65536\]/);
  });

  test.each(names)('%s takes --verbose and refuses an option that it does not know', async (name) => {
    const own =
      { merge: ['--adapter', 'a'], score: ['--gold', 'g', '--pred', 'p'], compare: ['w'] }[name] ?? [];
    const required = ['--out', 'x', '--policy', 'z', ...own];
    const { code, err } = await inside(name, '--verbose', '--frobnicate', ...required, 'y');
    expect(code).toBe(2);
    expect(err).toContain('frobnicate');
  });

  test('the version is the package’s', async () => {
    expect((await inside('--version')).out).toBe(packageVersion());
    expect(packageVersion()).toMatch(/^\d+\.\d+\.\d+/);
  });
});

describe('wrong usage', () => {
  test.each([
    [[], /^error: no command given\nsee timeseer --help\n$/],
    [['setpu'], /^error: no command called setpu; did you mean setup\?\nsee timeseer --help\n$/],
    [['zzzzzz'], /^error: no command called zzzzzz; commands: setup, doctor, /],
    [['setup', '--nope'], /^error: Unknown argument: nope\nsee timeseer setup --help\n$/],
    [['doctor', 'extra'], /^error: Unknown argument: extra\nsee timeseer doctor --help\n$/],
    [
      ['data', 'show', 'CTU', '--n', '2', '--n', '3'],
      /^error: --n: given twice; give it once\nsee timeseer data show --help\n$/,
    ],
    [
      ['sft', '--out', 'a', '--out', 'b'],
      /^error: --out: given twice; give it once\nsee timeseer sft --help\n$/,
    ],
    [
      ['explain', 'a.csv', '--no-policy'],
      /^error: --no-policy: --policy is no switch; leave it out, or give it a value\nsee timeseer explain --help\n$/,
    ],
    [
      ['data', 'list', '--json=maybe'],
      /^error: --json: got 'maybe', expected true or false; --json alone means true\nsee timeseer data list --help\n$/,
    ],
    [['data', 'prepare', 'x', '--out', 'y', '--allowSharedRecordings=1'], /got '1', expected true or false/],
    [
      ['sft', '--out', 'a', '--resume=no', '--quiet=true'],
      /^error: --resume: got 'no', expected true or false/,
    ],
    [
      ['data', 'generate', 'nano5', '--out', 'a', '--count=many'],
      /^error: --count: got 'many', expected a number\nsee timeseer data generate --help\n$/,
    ],
    [
      ['eval', '--policy', 'small', '--max-tokens', ' '],
      /^error: --max-tokens: got ' ', expected a number\n/,
    ],
    [
      ['eval', '--policy', 'small', '--maxTokens', '1k'],
      /^error: --maxTokens: got '1k', expected a number\n/,
    ],
    [['eval', '--policy', 'small', '--max-tokens'], /^error: Not enough arguments following: max-tokens\n/],
    [['compare'], /^error: <a> and <b> are missing; usage: timeseer compare <a> <b>\n/],
    [
      ['compare', 'a'],
      /^error: <b> is missing; usage: timeseer compare <a> <b>\nsee timeseer compare --help\n$/,
    ],
    [['data', 'show'], /^error: <source> is missing; usage: timeseer data show <source>\n/],
    [['reward', 'check'], /^error: <rewards\.\.> is missing; usage: timeseer reward check <rewards\.\.>\n/],
    [['data', 'generate', 'nano5'], /^error: Missing required argument: out\n/],
    [
      ['generate', 'nano5', '--out', 'a b'],
      /^error: generate is two commands now: data generate writes .*; write: timeseer data generate nano5 --out 'a b'\n/,
    ],
    [
      ['generate', '--policy', 'runs/x', '--prompt', 'Hi'],
      /ask puts a prompt to a policy; write: timeseer ask --policy runs\/x --prompt Hi\n/,
    ],
  ])('%j is one clear error and exit code 2', async (args, message) => {
    const { code, out, err } = await inside(...args);
    expect(code).toBe(2);
    expect(err).toMatch(message);
    expect(out).toBe('');
  });

  test('names of Object’s own properties are no commands', async () => {
    expect((await inside('constructor')).err).toMatch(/no command called constructor/);
  });
});

describe('failures', () => {
  const broken = { LIBTORCH: '/nonexistent', TIMESEER_CACHE: join(directory, 'cache') };

  test('an error of ours is one line on stderr and exit code 1', () => {
    const { code, out, err } = outside(['setup', '--no-install'], broken);
    expect(code).toBe(3);
    expect(out).toBe('');
    expect(err).toMatch(/^error: LIBTORCH=\/nonexistent: no libtorch there .*\n$/);
  });

  test('--verbose adds the stack', () => {
    const { code, err } = outside(['setup', '--no-install', '--verbose'], broken);
    expect(code).toBe(3);
    expect(err).toMatch(/^error: LIBTORCH=.*\nEngineError: .*\n +at /);
  });

  test('an unexpected error shows its stack and asks to be reported', async () => {
    vi.spyOn(COMMANDS['doctor']!, 'register').mockRejectedValue(new TypeError('x is not a function'));
    const err: string[] = [];
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0);
    expect(await main(['doctor'])).toBe(3);
    expect(err.join('')).toMatch(
      /^error: unexpected: TypeError: x is not a function\n +at [\s\S]*please report it/,
    );
  });

  test('a reader that stops early is no error', async () => {
    const child = spawn(process.execPath, [CLI, '--help'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    let err = '';
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk.toString();
    });
    const code = await new Promise((done) => child.on('close', done));
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });
});

describe('doctor', () => {
  const empty = { TIMESEER_CACHE: join(directory, 'empty'), PATH: join(directory, 'nothing'), CXX: '' };

  test('--json says what is missing, how to get it, and fails where the engine needs it', () => {
    const { code, out } = outside(['doctor', '--json', '--engine', 'torch'], empty);
    expect(code).toBe(1);
    const report = JSON.parse(out) as { version: string; checks: Record<string, string>[] };
    expect(report).toMatchObject({ ok: false, engine: 'torch' });
    expect(report.version).toBe(packageVersion());
    const compiler = report.checks.find(({ name }) => name === 'compiler')!;
    expect(compiler).toMatchObject({ status: 'missing', found: 'no C++ compiler' });
    expect(compiler['fix']).toMatch(/./);
    expect(report.checks.find(({ name }) => name === 'node')).toMatchObject({ status: 'ok' });
    expect(report.checks.find(({ name }) => name === 'font')!['found']).toMatch(/DejaVuSans\.ttf$/);
    expect(report.checks.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['libtorch', 'cpu', 'gpu', 'threads', 'memory', 'disk', 'cache', 'browser']),
    );
  });

  test('prints one line for each thing, and the fix below what is missing', () => {
    const { code, out } = outside(['doctor'], { ...empty, TIMESEER_ENGINE: 'torch' });
    expect(code).toBe(1);
    expect(out).toMatch(/^timeseer \d/);
    expect(out).toMatch(/^ok {7}node {6}v\d+/m);
    expect(out).toMatch(/^missing {2}compiler {2}no C\+\+ compiler\n +fix: \S/m);
    expect(out).toMatch(/^engine torch \(asked for\): something needed is missing/m);
  });

  test.each([
    [[], 'chosen by auto'],
    [['--engine', 'tfjs'], 'asked for'],
  ])('only warns of libtorch where tfjs computes: %j', (more, by) => {
    const { code, out, err } = outside(['doctor', ...more], empty);
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^warning {2}compiler {2}no C\+\+ compiler\n +fix: \S/m);
    expect(out).toMatch(/^ok {7}tfjs {6}@tensorflow\/tfjs-backend-wasm 4/m);
    expect(out).toContain(`engine tfjs (${by}): everything needed is here\n`);
  });

  test('builds and installs nothing', () => {
    outside(['doctor'], empty);
    const cache = join(directory, 'empty');
    expect(existsSync(cache) ? readdirSync(cache) : []).toEqual([]);
  });
});
