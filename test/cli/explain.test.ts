import { spawnSync } from 'node:child_process';
import type * as fs from 'node:fs';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { findPolicy, RUN_POLICIES } from '../../src/answer/reference.ts';
import { main } from '../../src/cli.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { REPORT } from '../../src/explain/schema.ts';
import { CheckpointError } from '../../src/ground/errors.ts';
import { OWNER } from '../../src/ground/files.ts';
import { writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { writeCard } from '../../src/tasks/card.ts';
import { findBrowser, loadPage } from '../helpers/browser.ts';
import { CLI } from '../helpers/program.ts';
import { Child } from '../helpers/tiny-run.ts';
import { corpus } from '../policy/corpus.ts';

const disk = vi.hoisted(() => ({ room: Number.POSITIVE_INFINITY }));

vi.mock('node:fs', async (load) => {
  const real = await load<typeof fs>();
  const writeSync = ((handle: number, data: Uint8Array, offset: number, length: number) => {
    if (disk.room <= 0) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    const written = real.writeSync(handle, data, offset, Math.min(length, disk.room));
    disk.room -= written;
    return written;
  }) as typeof real.writeSync;
  return { ...real, default: { ...real, writeSync }, writeSync };
});

const shared = mkdtempSync(join(tmpdir(), 'timeseer-explain-'));
const policyDirectory = join(shared, 'run/sft/policy');
const wideDirectory = join(shared, 'wide');
let directory: string;

beforeAll(() => {
  const policy = Policy.create(openTorch({ threads: 1 }), { tokenizer: trainBpe(corpus(200)), seed: 5 });
  for (const [path, channels] of [
    [policyDirectory, 1],
    [wideDirectory, 3],
  ] as const) {
    writeManifestedDirectory(path, (temporary) => {
      policy.write(temporary);
      writeCard(temporary, {
        version: 1,
        style: 'nano',
        figure: 'nano',
        length: 250,
        kind: 'anomaly',
        task: 'nano5',
        channels,
        numbers: null,
        classes: [...ANOMALY_CLASSES],
        limitations: [],
        stage: 'sft',
      });
    });
  }
  policy.dispose();
});
afterAll(() => rmSync(shared, { recursive: true, force: true }));
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-explain-'));
});
afterEach(() => {
  disk.room = Number.POSITIVE_INFINITY;
  process.exitCode = undefined;
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

/** Runs a command line in this process; without a policy unless it names one. */
async function inside(...given: string[]): Promise<{ code: number; out: string; err: string }> {
  const args = given[0] === 'explain' && !given.includes('--policy') ? [...given, '--policy', 'none'] : given;
  const [out, err]: [string[], string[]] = [[], []];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => out.push(String(text)) > 0);
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0);
  const code = await main(args);
  vi.restoreAllMocks();
  return { code, out: out.join(''), err: err.join('') };
}

function csv(name: string, lines: Iterable<string | number>): string {
  const file = join(directory, name);
  writeFileSync(file, `${[...lines].join('\n')}\n`);
  return file;
}

const wave = (length: number): number[] =>
  Array.from({ length }, (_, i) => Number((Math.sin(i / 7) + (i >= 400 && i < 412 ? 6 : 0)).toFixed(4)));

/** What lies beside the inputs. */
const written = (): string[] => readdirSync(directory).filter((name) => !name.endsWith('.csv'));

describe('timeseer explain', () => {
  test('finds what detect finds, and writes a page and its JSON', async () => {
    const file = csv('plain.csv', wave(600));
    const out = join(directory, 'deep/er/plain');
    const { code, out: text } = await inside('explain', file, '--out', out);
    expect(code).toBe(0);
    expect(text).toMatch(/^plain\.csv: 1 finding/);
    expect(text).toContain(`${out}.html`);
    expect(readdirSync(join(directory, 'deep/er')).sort()).toEqual(['plain.html', 'plain.json']);
    const report = REPORT.parse(JSON.parse(readFileSync(`${out}.json`, 'utf8')));
    expect(report.findings[0]!.start).toBeLessThan(412);
    expect(report.findings[0]!.end).toBeGreaterThan(400);
    expect(report.findings[0]!.markedByPolicy).toBeNull();
    expect(report.policy).toBeUndefined();
    const named = await inside('explain', file, '--out', `${out}.html`, '--json');
    expect(named.err).toContain(`${out}.html\n`);
    expect(named.err).not.toContain('.html.html');
    const printed = JSON.parse(named.out) as unknown;
    expect(printed).toEqual(report);
    expect(JSON.parse((await inside('detect', file, '--json')).out)).toEqual(report);
  });

  test('refuses a policy of several channels, as each column is asked about alone', async () => {
    const { code, err } = await inside('explain', csv('plain.csv', wave(600)), '--policy', wideDirectory);
    expect(code).toBe(2);
    expect(err).toContain('was trained on series of 3 channels, and each column is asked about alone');
  });

  test('reads recordings as detect does: any order, a chosen column, and fails on what is severe', async () => {
    const rows = wave(600).map((value, i) => {
      const clock = new Date(Date.UTC(2025, 2, 1) + 60_000 * i).toISOString().slice(0, 16).replace('T', ' ');
      return `${clock};${String(value).replace('.', ',')};${i % 5}`;
    });
    const file = csv('pump.csv', ['time;pressure;other', ...rows.reverse()]);
    const out = join(directory, 'pump');
    const args = [
      'explain',
      file,
      '--column',
      'pressure',
      '--out',
      out,
      '--scores',
      join(directory, 'scores.csv'),
    ];
    const { code, out: text } = await inside(...args, '--tz', 'UTC', '--fail-on', 'low');
    expect(text).toContain('2025-03-01 06:40');
    expect(code).toBe(1);
    expect(readFileSync(join(directory, 'scores.csv'), 'utf8').trimEnd().split('\n')).toHaveLength(601);
    expect((await inside(...args, '--since', '10min')).out).toContain('Nothing unusual');
  });

  test('puts what a policy of a run directory says beside the findings, and changes none by it', async () => {
    const file = csv('pump.csv', ['pressure,flow', ...wave(600).map((value) => `${value},1`)]);
    const [out, alone] = [join(directory, 'pump'), join(directory, 'alone')];
    const { code, out: text } = await inside(
      ...['explain', file, '--policy', join(shared, 'run'), '--window', '250', '--out', out],
    );
    expect(code).toBe(0);
    await inside('explain', file, '--out', alone);
    const [found, plain] = [out, alone].map((name) =>
      REPORT.parse(JSON.parse(readFileSync(`${name}.json`, 'utf8'))),
    );
    const { policy, ...rest } = found!;
    const bare = rest.findings.map((one) => ({ ...one, markedByPolicy: null }));
    expect({ ...rest, findings: bare }).toEqual(plain);
    expect(policy!.name).toBe(policyDirectory);
    expect(policy!.notes.join(' ')).toContain('no record of its training data');
    const [pressure, flow] = policy!.columns;
    expect(pressure).toMatchObject({ column: 'pressure', window: 250 });
    expect(pressure!.answers).toHaveLength(4);
    // What an untrained policy says can hardly ever be read.
    expect(pressure).toMatchObject({ status: 'abstains', intervals: [] });
    expect(flow).toMatchObject({ column: 'flow', status: 'not asked' });
    expect(text).toContain(`policy, pressure: ${pressure!.statement}`);
    const page = readFileSync(`${out}.html`, 'utf8');
    expect(page.indexOf('What the policy says')).toBeGreaterThan(page.indexOf('id="findings"'));
    expect(page).toContain('Abstains: ');
    expect(readFileSync(`${alone}.html`, 'utf8')).not.toContain('What the policy says');
  });

  test('the default result is named after the file, in the current directory, and a detection loads few modules', () => {
    const file = csv('tank level.csv', wave(120));
    const [cwd, coverage] = [join(directory, 'here'), join(directory, 'coverage')];
    mkdirSync(cwd);
    const run = spawnSync(process.execPath, [CLI, 'explain', file, '--policy', 'none'], {
      ...{ cwd, encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: coverage } },
    });
    expect(run.stderr).toBe('');
    expect(run.status).toBe(0);
    expect(readdirSync(cwd).sort()).toEqual(['tank level.explain.html', 'tank level.explain.json']);
    const loaded = readdirSync(coverage).flatMap((name) => {
      const { result } = JSON.parse(readFileSync(join(coverage, name), 'utf8')) as {
        result: { url: string }[];
      };
      return result.flatMap(({ url }) => (/^file:(?!.*\/(?:tsx|esbuild)\/)/.test(url) ? [url] : []));
    });
    expect(loaded.length).toBeGreaterThan(50);
    expect(new Set(loaded).size).toBeLessThanOrEqual(150);
  });

  test('a result of a chosen column is named after it too', () => {
    const file = csv('two.csv', ['a,b/c', ...wave(120).map((value, i) => `${i % 9},${value}`)]);
    const ran = spawnSync(process.execPath, [CLI, 'explain', file, '--column', 'b/c', '--policy', 'none'], {
      cwd: directory,
      encoding: 'utf8',
    });
    expect(ran.stderr).toBe('');
    expect(written().sort()).toEqual(['two.b_c.explain.html', 'two.b_c.explain.json']);
  });

  test('replaces its own results and nothing else', async () => {
    const file = csv('a.csv', wave(200));
    const out = join(directory, 'a');
    // Left by a process that was killed while it wrote: this process id, of a process that started before any.
    const left = join(directory, `.a.json.${OWNER.replace(/\d+$/, '1')}.1a.tmp`);
    writeFileSync(left, '{');
    expect((await inside('explain', file, '--out', out)).code).toBe(0);
    expect(existsSync(left)).toBe(false);
    expect((await inside('explain', file, '--out', out)).code).toBe(0);
    for (const name of ['a.json', 'a.html']) {
      const before = readFileSync(join(directory, name));
      writeFileSync(join(directory, name), '{"mine": true}');
      const { code, err } = await inside('explain', file, '--out', out);
      expect(code).toBe(2);
      expect(err).toMatch(
        new RegExp(`${name.replace('.', '\\.')} exists and was not written by this command`),
      );
      expect(readFileSync(join(directory, name), 'utf8')).toBe('{"mine": true}');
      writeFileSync(join(directory, name), before);
    }
  });

  test('a hostile file name and header run nothing', async () => {
    const file = csv('x<img src=y onerror=z>.csv', ['<script>alert(1)</script>', ...wave(150)]);
    const out = join(directory, 'hostile');
    expect((await inside('explain', file, '--out', out)).code).toBe(0);
    const page = readFileSync(`${out}.html`, 'utf8');
    expect(page).not.toContain('<script>alert');
    expect(page).not.toContain('<img src=y');
    expect(page).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  });
});

describe('bad input is one clear error, and writes nothing', () => {
  test.each([
    ['a column of words', ['when,what', ...Array.from({ length: 9 }, () => 'a,b')], /bad\.csv: /],
    ['an empty file', [], /bad\.csv: /],
    ['no value at all', ['t,v', '0,', '1,NaN', '2,NA'], /bad\.csv: /],
    ['one point', ['value', '5'], /bad\.csv: .*at least 2/],
  ])('%s', async (_name, lines, message) => {
    const file = lines.length === 0 ? join(directory, 'bad.csv') : csv('bad.csv', lines);
    if (lines.length === 0) writeFileSync(file, '');
    const { code, out, err } = await inside(
      ...['explain', file, '--policy', policyDirectory, '--out', join(directory, 'o')],
    );
    expect(code).toBe(3);
    expect(out).toBe('');
    expect(err).toMatch(message);
    expect(err.trimEnd().split('\n').length).toBe(1);
    expect(written()).toEqual([]);
  });

  test('a missing file, a directory, and a column that is not there or holds words', async () => {
    const missing = await inside('explain', join(directory, 'none.csv'));
    expect(missing.code).toBe(3);
    expect(missing.err).toMatch(/none\.csv: cannot be read/);
    expect((await inside('explain', directory)).err).toMatch(/^error: .*\n$/);
    const file = csv('two.csv', ['a,b', ...Array.from({ length: 9 }, (_, i) => `${i},x`)]);
    const wrong = await inside('explain', file, '--column', 'c');
    expect(wrong.code).toBe(2);
    expect(wrong.err).toMatch(/--column c: .* no such column/);
    expect((await inside('explain', file, '--column', 'b')).err).toMatch(/^error: .*two\.csv.*"?b"?.*\n$/);
    expect(written()).toEqual([]);
  });

  test.each([
    [['--window', '1'], /--window: expected a whole number from 2 to 500000000, got 1/],
    [['--window', 'many'], /--window: got 'many', expected a number/],
    [['--overlap', '1'], /--overlap: expected a share from 0 to 0\.9, got 1/],
    [['--device', 'tpu'], /unknown device 'tpu'/],
  ])('%j', async (extra, message) => {
    const file = csv('good.csv', wave(300));
    const out = join(directory, 'o');
    const { code, err } = await inside('explain', file, '--policy', policyDirectory, '--out', out, ...extra);
    expect(code).toBeGreaterThan(0);
    expect(err).toMatch(message);
    expect(written()).toEqual([]);
  });

  test.each([
    ['a file in the way', 'good.csv/foo', /good\.csv is a file, not a directory/],
    ['a name too long', 'n'.repeat(250), /longer than 200 bytes/],
  ])('a place that cannot be: %s', async (_name, out, message) => {
    const file = csv('good.csv', wave(300));
    const { code, err } = await inside('explain', file, '--out', join(directory, out));
    expect(code).toBe(3);
    expect(err).toMatch(message);
    expect(err.trimEnd().split('\n').length).toBe(1);
    expect(written()).toEqual([]);
  });

  test.each([
    ['--device', 'cpu'],
    ['--window', '100'],
    ['--overlap', '0.2'],
  ])('%s %s without a policy', async (...option) => {
    const { code, err } = await inside('explain', csv('good.csv', wave(300)), ...option);
    expect(code).toBe(2);
    expect(err).toMatch(new RegExp(`${option[0]}: has no effect without a policy`));
  });

  test.each([
    ['missing weights', (to: string) => rmSync(join(to, 'model.safetensors')), /no weights|safetensors/],
    ['truncated weights', (to: string) => truncateSync(join(to, 'model.safetensors'), 20_000), /safetensors/],
    ['an empty tokenizer', (to: string) => writeFileSync(join(to, 'tokenizer.json'), ''), /tokenizer\.json/],
    [
      'a broken card',
      (to: string) => writeFileSync(join(to, 'timeseer.json'), '{"version": 9}'),
      /timeseer\.json/,
    ],
    ['a broken configuration', (to: string) => writeFileSync(join(to, 'config.json'), '{}'), /config\.json/],
    [
      'a broken reference',
      (to: string) => {
        rmSync(join(to, 'timeseer.sha256'));
        writeFileSync(join(to, 'timeseer.reference.json'), '{"version": 9}');
      },
      /timeseer\.reference\.json: not a reference of this version \(version: /,
    ],
  ])('a checkpoint with %s', async (_name, spoil, message) => {
    const broken = join(directory, 'policy');
    cpSync(policyDirectory, broken, { recursive: true });
    spoil(broken);
    const file = csv('good.csv', wave(300));
    const { code, out, err } = await inside(
      'explain',
      file,
      '--policy',
      broken,
      '--out',
      join(directory, 'o'),
    );
    expect(code).toBe(3);
    expect(out).toBe('');
    expect(err).toMatch(/^error: /);
    expect(err).toMatch(message);
    expect(err).not.toContain('unexpected');
    expect(written()).toEqual(['policy']);
  });

  test('no policy where one is said to be', async () => {
    const { code, err } = await inside(
      'explain',
      csv('good.csv', wave(300)),
      '--policy',
      join(directory, 'runs/none'),
    );
    expect(code).toBe(3);
    expect(err).toMatch(/runs\/none: no such directory; .*timeseer quickstart/);
  });

  test('a full disk leaves nothing, or what was there', async () => {
    const file = csv('good.csv', wave(300));
    const out = join(directory, 'o');
    disk.room = 1000;
    const first = await inside('explain', file, '--out', out);
    expect(first.code).toBe(3);
    expect(first.err).toMatch(/not written \(the disk is full/);
    expect(written()).toEqual([]);
    disk.room = Number.POSITIVE_INFINITY;
    expect((await inside('explain', file, '--out', out)).code).toBe(0);
    const before = ['o.html', 'o.json'].map((name) => readFileSync(join(directory, name), 'utf8'));
    // Room for one of the two files is not enough: they belong together.
    const changed = csv('good.csv', wave(310));
    disk.room = Buffer.byteLength(before[1]!) + 1000;
    expect((await inside('explain', changed, '--out', out)).code).toBe(3);
    expect(['o.html', 'o.json'].map((name) => readFileSync(join(directory, name), 'utf8'))).toEqual(before);
    expect(written()).toEqual(['o.html', 'o.json']);
  });

  test('no libtorch: the policy cannot be loaded, the detector still works', () => {
    const file = csv('good.csv', wave(300));
    const env = {
      ...process.env,
      TIMESEER_CACHE: join(directory, 'cache'),
      LIBTORCH: join(directory, 'nothing'),
    };
    const run = (...extra: string[]) =>
      spawnSync(process.execPath, [CLI, 'explain', file, '--out', join(directory, 'o'), ...extra], {
        encoding: 'utf8',
        env,
      });
    const refused = run('--policy', policyDirectory);
    expect(refused.status).toBe(3);
    expect(refused.stderr).toMatch(/^error: LIBTORCH=.*no libtorch there .*\n$/);
    expect(existsSync(join(directory, 'o.html'))).toBe(false);
    const alone = run('--policy', 'none');
    expect(alone.stderr).toBe('');
    expect(alone.status).toBe(0);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('%s ends it at once, and nothing is written', async (name) => {
    const args = ['explain', csv('long.csv', wave(60_000)), '--policy', policyDirectory];
    const child = new Child([...args, '--out', join(directory, 'o')]);
    await sleep(1_000); // whatever it is doing by then, the end must be the same
    expect(child.process.exitCode).toBe(null);
    const began = performance.now();
    child.process.kill(name);
    expect(await child.ended).toMatchObject({ code: null, signal: name, out: '' });
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(written()).toEqual([]);
  });
});

describe('findPolicy', () => {
  const put = (name: string): string => {
    const to = join(directory, name);
    mkdirSync(to, { recursive: true });
    copyFileSync(join(policyDirectory, 'config.json'), join(to, 'config.json'));
    return to;
  };

  test('takes the furthest trained policy of a run', () => {
    for (const name of [...RUN_POLICIES].reverse()) {
      const made = put(name);
      expect(findPolicy(directory)).toBe(made);
    }
  });

  test('takes a policy directory itself, before anything in it', () => {
    put('rl/policy');
    copyFileSync(join(policyDirectory, 'config.json'), join(directory, 'config.json'));
    expect(findPolicy(directory)).toBe(directory);
  });

  test('says what it looked for and how to make one', () => {
    expect(() => findPolicy(directory)).toThrow(CheckpointError);
    expect(() => findPolicy(directory)).toThrow(
      /config\.json.*rl\/policy, rl\/checkpoint, sft\/policy.*quickstart/,
    );
    expect(() => findPolicy(csv('a.csv', [1]))).toThrow(/is a file/);
    expect(() => findPolicy(join(directory, 'none'))).toThrow(/no such directory/);
  });
});

const browser = findBrowser();
test.skipIf(browser === null)('the page shows itself in a browser without a complaint', async () => {
  const file = csv('seen.csv', wave(600));
  const out = join(directory, 'seen');
  await inside('explain', file, '--policy', policyDirectory, '--out', out);
  const { dom, complaints } = loadPage(browser!, { 'seen.html': readFileSync(`${out}.html`, 'utf8') });
  expect(complaints).toEqual([]);
  expect(dom).toContain('data-report="drawn"');
  expect(dom).toContain('as the policy sees it');
});
