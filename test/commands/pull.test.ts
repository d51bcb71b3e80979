import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { inside } from '../helpers/command-line.ts';
import { FakeHub, REPO } from '../helpers/fake-hub.ts';
import { CLI } from '../helpers/program.ts';

const GOLDEN = resolve(import.meta.dirname, '../golden/qwen');
const WEIGHTS = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31 + (i >> 8) * 7) & 255));
const FILES = {
  'config.json': readFileSync(join(GOLDEN, 'config.json')),
  'tokenizer.json': readFileSync(join(GOLDEN, 'tokenizer.json')),
  'model.safetensors': WEIGHTS,
};
const home = process.cwd();
let directory = '';
let server: FakeHub;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'pull-command-'));
  process.chdir(directory);
  server = new FakeHub();
  await server.start();
  server.commit('a'.repeat(40), FILES);
  vi.stubEnv('HF_TOKEN', '');
  vi.stubEnv('HF_ENDPOINT', server.endpoint);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  process.exitCode = undefined;
  process.chdir(home);
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

describe('timeseer pull', () => {
  test('fills models/NAME from HF_ENDPOINT, and says what came and what to do next', async () => {
    const { code, out, err } = await inside('pull', REPO);
    expect(code, err).toBe(0);
    const lines = out.trimEnd().split('\n');
    expect(lines[0]).toMatch(
      /^models\/tiny-vl: owner\/tiny-vl at aaaaaaaaaaaa, 3 files, \d+ kB; 3 fetched and verified in \d/,
    );
    expect(lines[1]).toBe('next: timeseer ask --policy models/tiny-vl --image X.png --prompt "…"');
    expect(readFileSync('models/tiny-vl/model.safetensors').equals(WEIGHTS)).toBe(true);
    expect(readdirSync('models/tiny-vl').sort()).toEqual([
      '.timeseer-pull.json',
      'config.json',
      'model.safetensors',
      'tokenizer.json',
    ]);
    expect((await inside('pull', `${server.endpoint}/${REPO}`)).out).toMatch(/complete and verified already/);
  });

  test('--json prints one object and nothing else', async () => {
    const { code, out, err } = await inside('pull', REPO, '--out', 'here', '--include', '*.json', '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(JSON.parse(out)).toMatchObject({
      repo: REPO,
      commit: 'a'.repeat(40),
      directory: 'here',
      files: ['config.json', 'tokenizer.json'],
      incomplete: 'no model.safetensors',
    });
  });

  test('takes the token from --token before HF_TOKEN, and never writes it', async () => {
    server.token = 'hf_right';
    vi.stubEnv('HF_TOKEN', 'hf_wrong');
    const refused = await inside('pull', REPO);
    expect(refused.code).toBe(3);
    expect(refused.err).toMatch(
      /^error: owner\/tiny-vl at main: .*status 401.*check that the token may read it\n$/,
    );
    const { code, out, err } = await inside('pull', REPO, '--token', 'hf_right', '--out', 'mine');
    expect(code, err).toBe(0);
    const written = readFileSync('mine/.timeseer-pull.json', 'utf8');
    vi.stubEnv('HF_TOKEN', 'hf_right');
    const verbose = await inside('pull', 'owner/none', '--verbose');
    expect(verbose.err).toMatch(/\n +at /); // with the stack
    await server.stop();
    const away = await inside('pull', REPO, '--verbose', '--out', 'mine', '--endpoint', server.endpoint);
    expect(away.err).toMatch(/cannot be reached/);
    const all = [refused, verbose, away].map((ending) => ending.out + ending.err).join('');
    expect(`${all}${out}${err}${written}`).not.toMatch(/hf_/);
  });

  test('a failure at the start leaves no directory behind', async () => {
    const { code, err } = await inside('pull', 'owner/no-such', '--out', 'a/b');
    expect(code).toBe(3);
    expect(err).toMatch(/^error: owner\/no-such at main: .*finds no such repository.*\n$/);
    expect(existsSync('a')).toBe(false);
  });

  test('says that its directory was removed meanwhile, and writes nothing more there', async () => {
    let open = (): void => undefined;
    server.gates.set('model.safetensors', new Promise((done) => (open = done)));
    const pulling = inside('pull', REPO, '--out', 'here');
    await vi.waitUntil(() => existsSync('here/tokenizer.json'));
    rmSync('here', { recursive: true });
    open();
    const { code, err } = await pulling;
    expect(code).toBe(3);
    expect(err).toMatch(/error: here: was removed or replaced during the work/);
    expect(existsSync('here')).toBe(false);
  });

  test.each([
    [['not a repo'], /expected OWNER\/NAME/],
    [[REPO, '--endpoint', 'x'], /endpoint x: expected an address/],
    [
      [`owner/${'n'.repeat(300)}`],
      /n\.\.\.: not the name of a model repository; expected OWNER\/NAME, each of at most 96/,
    ],
    [[REPO, '--revision', ' '], /--revision: expected/],
    [[REPO, '--out', 'file'], /file: is a file; choose a directory with --out/],
  ])('%j is wrong usage', async (args, message) => {
    writeFileSync('file', '');
    const { code, err } = await inside('pull', ...args);
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });
});

describe('a pull that is stopped', () => {
  interface Ending {
    readonly code: number | null;
    readonly signal: NodeJS.Signals | null;
    readonly err: string;
  }

  /** Runs it as a program that gets `signal` when 200 000 bytes of the weights are on their way. */
  async function stopped(signal: NodeJS.Signals): Promise<Ending> {
    server.faults.set('model.safetensors', [{ hang: 200_000 }]);
    const child = spawn(process.execPath, [CLI, 'pull', REPO, '--out', resolve('p')], {
      cwd: home,
      env: { ...process.env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let err = '';
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk.toString();
    });
    const part = join('p', 'model.safetensors.part');
    const timer = setInterval(() => {
      if (!existsSync(part) || statSync(part).size < 200_000) return;
      clearInterval(timer);
      child.kill(signal);
    }, 20);
    return new Promise((done) =>
      child.on('close', (code, by) => {
        clearInterval(timer);
        done({ code, signal: by, err });
      }),
    );
  }

  async function goOn(): Promise<void> {
    server.asked.length = 0;
    server.stored.length = 0;
    const { code, err } = await inside('pull', REPO, '--out', 'p');
    expect(code, err).toBe(0);
    expect(server.stored).toMatchObject([{ path: 'model.safetensors', range: 'bytes=200000-' }]);
    expect(readFileSync('p/model.safetensors').equals(WEIGHTS)).toBe(true);
  }

  test('by Ctrl-C says what is kept and how to resume, and the next one does', async () => {
    const { code, err } = await stopped('SIGINT');
    expect(code).toBe(130);
    expect(err).toMatch(/p: \d+ kB of \d+ kB kept; run the same command again to resume\n$/);
    await goOn();
  });

  test('by kill -9 goes on all the same', async () => {
    expect((await stopped('SIGKILL')).signal).toBe('SIGKILL');
    await goOn();
  });
});
