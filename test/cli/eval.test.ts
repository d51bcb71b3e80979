import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readRecords } from '../../eval/records.ts';
import { RUN_VERSION } from '../../eval/run-directory.ts';
import { OWNER } from '../../src/ground/files.ts';
import { recipeSchema } from '../../src/recipe/recipe.ts';
import { temporary } from '../helpers/temporary.ts';
import { listing, timeseer, until, writeTinyPolicy } from '../helpers/tiny-run.ts';

const shared = temporary('eval');
const policy = join(shared, 'policy');
const BASE = [
  'eval',
  '--policy',
  policy,
  '--length',
  '400',
  '--maxTokens',
  '12',
  '--no-classical',
  '--quiet',
];
let out = '';

beforeAll(() => writeTinyPolicy(policy));
beforeEach(() => {
  out = mkdtempSync(join(shared, 'out-'));
  rmSync(out, { recursive: true });
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

describe('timeseer eval', () => {
  test('writes records and metrics of every series, and prints a table', async () => {
    const sampled = ['--count', '7', '--temperature', '1', '--samples', '2', '--out', out];
    const { code, err, out: text } = await timeseer(...BASE, ...sampled);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(text).toMatch(/^\s+format .*\nall series/);
    const records = readRecords(join(out, 'records.jsonl'));
    expect(records.map(({ seriesId }) => seriesId)).toEqual(
      Array.from({ length: 14 }, (_, i) => `nano5/test/${Math.floor(i / 2)}`),
    );
    expect(new Set(records.map(({ response }) => response)).size).toBeGreaterThan(7);
    const metrics = JSON.parse(readFileSync(join(out, 'metrics.json'), 'utf8'));
    expect(metrics).toMatchObject({
      policy,
      temperature: 1,
      data: { name: 'nano5', count: 7 },
      classical: {},
    });
  });

  test('parts of the examples, answered in any order, are put together to the records of one evaluation', async () => {
    const sampled = ['--count', '7', '--temperature', '0,1', '--samples', '2'];
    const whole = join(shared, 'whole');
    expect(await timeseer(...BASE, ...sampled, '--out', whole)).toMatchObject({ code: 0 });
    for (const part of ['3/3', '1/3', '2/3', '2/3']) {
      const { code, err } = await timeseer(...BASE, ...sampled, '--out', out, '--shard', part);
      expect(code, err).toBe(0);
      expect(err).toContain(
        `part ${part.split('/').join(' of ')}: these figures are about its examples alone`,
      );
    }
    expect(readRecords(join(out, 'records.0.shard-1-of-3.jsonl')).map(({ seriesId }) => seriesId)).toEqual(
      [0, 3, 6].map((i) => `nano5/test/${i}`),
    );
    expect(existsSync(join(out, 'metrics.json'))).toBe(false);
    expect(await timeseer(...BASE, ...sampled, '--out', out, '--resume')).toMatchObject({ code: 0, err: '' });
    expect(listing(out)).toEqual(['eval.json', 'metrics.json', 'records.0.jsonl', 'records.1.jsonl']);
    for (const name of ['records.0.jsonl', 'records.1.jsonl', 'metrics.json']) {
      expect(readFileSync(join(out, name), 'utf8')).toBe(readFileSync(join(whole, name), 'utf8'));
    }
    const refused = async (...args: string[]) => (await timeseer(...BASE, '--count', '7', ...args)).err;
    expect(await refused('--shard', '2/4')).toMatch(/--shard: needs --out/);
    expect(await refused('--out', out, '--shard', '5/4')).toMatch(
      /--shard: got '5\/4', expected part\/parts/,
    );
    expect(await refused('--out', join(shared, 'few'), '--shard', '1/8')).toMatch(/8 parts of 7 examples/);
    expect(await refused('--out', out, '--shard', '1/2', '--force')).toMatch(/--shard and --force/);
  });

  test('removes what an evaluation that was killed while it wrote has left', async () => {
    const gone = `${OWNER.split('-')[0]}-${2 ** 22 - 1}-1`;
    mkdirSync(out);
    writeFileSync(join(out, `.records.jsonl.${gone}.abc.tmp`), 'half');
    writeFileSync(join(out, '.mine.tmp'), 'kept');
    const { code } = await timeseer(...BASE, '--count', '2', '--out', out);
    expect(code).toBe(0);
    expect(readdirSync(out).sort()).toEqual([...['.mine.tmp', 'eval.json', 'metrics.json', 'records.jsonl']]);
  });

  test('reads and limits answers as the run of the policy does, unless told otherwise', async () => {
    const run = join(out, 'run');
    mkdirSync(run, { recursive: true });
    cpSync(policy, join(run, 'initial'), { recursive: true });
    const recipe = recipeSchema.parse({
      ...{ answers: 'strict', data: { length: 400 }, eval: { maxTokens: 9 } },
    });
    const header = { name: 'tiny', recipe, command: 'timeseer sft', version: RUN_VERSION };
    writeFileSync(join(run, 'recipe.json'), JSON.stringify(header));
    const reading = async (from: string, ...args: string[]): Promise<unknown> => {
      const asked = BASE.map((one) => (one === policy ? from : one));
      const { code, out: text, err } = await timeseer(...asked, '--count', '1', '--json', ...args);
      expect(code, err).toBe(0);
      return JSON.parse(text).answers;
    };
    expect(await reading(policy)).toBe('lenient');
    expect(await reading(join(run, 'initial'))).toBe('strict');
    expect(await reading(join(run, 'initial'), '--answers', 'lenient')).toBe('lenient');
    const limit = async (from: string): Promise<unknown> => {
      const asked = ['--policy', from, '--length', '400', '--count', '1', '--no-classical', '--quiet'];
      const { code, err } = await timeseer('eval', ...asked, '--out', join(out, basename(from)));
      expect(code, err).toBe(0);
      return JSON.parse(readFileSync(join(out, basename(from), 'eval.json'), 'utf8')).settings.maxTokens;
    };
    expect([await limit(policy), await limit(join(run, 'initial'))]).toEqual([96, 9]);
  });

  test('goes on with what an evaluation that was killed has left, to the same records', async () => {
    const asked = [...BASE, '--count', '5', '--temperature', '0.8', '--samples', '3', '--out', out];
    expect((await timeseer(...asked)).code).toBe(0);
    const file = join(out, 'records.jsonl');
    const whole = readFileSync(file, 'utf8');
    const lines = whole.split('\n');
    // In the order in which they came, the last one torn.
    const left = [lines[13], lines[0], lines[4], lines[2]!].join('\n');
    writeFileSync(file, left.slice(0, -20));
    rmSync(join(out, 'metrics.json'));
    const refused = await timeseer(...asked);
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringMatching(/holds an evaluation; add --resume/),
    });
    const other = await timeseer(
      ...asked.map((one) => (one === '0.8' ? '0.9' : one)),
      '--seed',
      '7',
      '--resume',
    );
    expect(other.err).toMatch(
      /other settings: data\.seed \(was 42, is 7\), seed \(was 42, is 7\), temperatures \(was \[0\.8\], is \[0\.9\]\)/,
    );
    const { code, err } = await timeseer(...asked, '--resume');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(readFileSync(file, 'utf8')).toBe(whole);
    expect(existsSync(join(out, 'metrics.json'))).toBe(true);
  });

  test('Ctrl-C ends it soon, in the middle of a batch, with code 130 and the responses that had come', async () => {
    // One batch of long answers; a policy that knows nothing never ends them.
    const long = ['--count', '64', '--temperature', '1', '--samples', '4', '--maxTokens', '3000'];
    const waiting = process.listenerCount('SIGINT');
    const running = timeseer(
      'eval',
      '--policy',
      policy,
      '--length',
      '400',
      ...long,
      '--workers',
      '1',
      '--out',
      out,
    );
    await until(() => process.listenerCount('SIGINT') > waiting); // before, Ctrl-C ends the process itself
    await sleep(1500);
    process.emit('SIGINT');
    const { code, err, out: text } = await running;
    expect(code).toBe(130);
    expect(err).toMatch(/saving first.*\n(eval .*\n)?stopped on request\n$/s);
    expect(text).toBe('');
    expect(existsSync(join(out, 'metrics.json'))).toBe(false);
    const kept = listing(out).includes('records.jsonl') ? readRecords(join(out, 'records.jsonl')) : [];
    expect(kept.length).toBeLessThan(256);
    for (const { usage, sample } of kept) {
      expect(usage!.completion).toBeLessThan(3000);
      expect(sample).toBeLessThan(4);
    }
  });
});

describe('bad input: one clear line', () => {
  async function failure(code: number, ...args: string[]): Promise<string> {
    const ending = await timeseer('eval', ...args);
    expect(ending.code, ending.err).toBe(code);
    expect(ending.err.trimEnd().split('\n')).toHaveLength(1);
    return ending.err;
  }

  test('numbers out of range', async () => {
    for (const [option, value] of [
      ['--count', '0'],
      ['--samples', '1.5'],
      ['--maxTokens', '-1'],
      ['--workers', '0'],
    ] as const) {
      expect(await failure(2, '--policy', policy, option, value)).toMatch(
        /expected a whole number from 1 to \d+, got -?[\d.]+/,
      );
    }
    for (const option of ['--count', '--samples', '--maxTokens', '--workers', '--points', '--length']) {
      expect(await failure(2, '--policy', policy, option, '9007199254740992')).toMatch(
        /from [12] to \d+, got 9007199254740992/,
      );
    }
    for (const wrong of ['-1', '11', 'hot', '', '0.5,', '0.5;1', '1,nan']) {
      expect(await failure(2, '--policy', policy, `--temperature=${wrong}`)).toMatch(
        /--temperature: .*got|Not enough arguments following: temperature/,
      );
    }
    expect(await failure(2, '--policy', policy, '--temperature', '0.5,1,.5')).toMatch(
      /names a temperature twice/,
    );
  });

  test('a policy, device or data set that is not there', async () => {
    expect(await failure(3, '--policy', join(shared, 'none'))).toMatch(/none: no such directory/);
    expect(await failure(3, '--policy', policy, '--count', '2', '--device', 'cuda:99', '--quiet')).toMatch(
      /device 'cuda:99'/,
    );
    expect(await failure(2, '--policy', policy, '--data', 'nano6')).toMatch(/nano6/);
  });

  test('a file where the results should go, before any series is answered', async () => {
    writeFileSync(out, 'mine');
    expect(await failure(2, '--policy', policy, '--out', out)).toMatch(
      /is a file; choose a directory with --out/,
    );
    expect(readFileSync(out, 'utf8')).toBe('mine');
    expect(existsSync(join(shared, 'records.jsonl'))).toBe(false);
  });
});
