/** `timeseer adapt`: from recordings to a policy for them. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { ExampleSet } from '../../datasets/example-set.ts';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { readSources } from '../../src/run/sources.ts';
import { temporary } from '../helpers/temporary.ts';
import { type Ending, temporaries, timeseer, until, writeTinyPolicy } from '../helpers/tiny-run.ts';

const root = temporary('adapt');
const path = (name: string): string => join(root, name);

/** Writes a recording with a stamp every `minutes`; `value(t, noise)` gives its columns. */
function write(
  name: string,
  rows: number,
  minutes: number,
  header: string,
  value: (t: number, noise: number) => string,
): string {
  const random = new Random(rows, name);
  const lines = Array.from({ length: rows }, (_, t) => {
    const stamp = new Date(Date.UTC(2025, 0, 1) + t * minutes * 60_000).toISOString();
    return `${stamp},${value(t, random.normal())}`;
  });
  writeFileSync(path(name), `${['time', header].join()}\n${lines.join('\n')}\n`);
  return path(name);
}

const wave = (t: number, noise: number): number => 40 + 30 * Math.sin((2 * Math.PI * t) / 48) + 2 * noise;
const ADAPT = ['--series', '24', '--set', 'sft.samples=40', '--set', 'rl.steps=1'];
const out = path('adapted');
let [file, recipe]: string[] = [];
let interrupted: Ending;
let finished: Ending;

beforeAll(async () => {
  // A daily wave with a spike, beside a column without a change.
  file = write(
    'pump.csv',
    2400,
    30,
    'load,state',
    (t, noise) => `${(wave(t, noise) + (t === 700 ? 300 : 0)).toFixed(1)},1`,
  );
  const policy = path('policy');
  writeTinyPolicy(policy);
  recipe = path('tiny.yaml');
  writeFileSync(
    recipe,
    `policy: {init: ${JSON.stringify(policy)}}
sft: {batch: 4, warmup: 2, learningRate: 0.01, checkpointEvery: 2, workers: 1}
rl: {prompts: 2, group: 2, maxTokens: 24, checkpointEvery: 1, workers: 1}
eval: {series: 12, samples: 1, validation: 16, bootstrap: 100, maxTokens: 24}
`,
  );
  const running = timeseer('adapt', '--data', file, '--out', out, '--recipe', recipe, ...ADAPT);
  await until(() => existsSync(join(out, 'sft/metrics.jsonl')));
  process.emit('SIGINT');
  interrupted = await running;
  finished = await timeseer(
    'adapt',
    '--data',
    file,
    '--out',
    out,
    '--recipe',
    recipe,
    ...ADAPT,
    '--resume',
    '--quiet',
  );
});

describe('timeseer adapt', () => {
  test('stopped on its way says how to go on, with code 130', () => {
    expect(interrupted.code, interrupted.err).toBe(130);
    expect(interrupted.err).toContain('run the same command with --resume');
    expect(interrupted.err).toContain('left out: pump: state: its value never changes');
    expect(interrupted.err).toContain('Replaced 1 finding in the first part by expected values.');
  });

  test('resumed comes to its end, with a verdict', () => {
    expect(finished.code, finished.err).toBe(0);
    expect(finished.out).toMatch(/Affiliation F1 +\d\.\d{3} +\d\.\d{3} +\S/);
    expect(finished.out).toMatch(/The adapted policy finds made anomalies|No better than .*: keep /);
    expect(temporaries(out)).toEqual([]);
  });

  test('trains on windows like those of the first part and as many series of wild, and tests on windows of the last', () => {
    const set = new ExampleSet(join(out, 'data'));
    expect(['train', 'validation', 'test'].map((split) => set.count(split as 'train'))).toEqual([24, 20, 20]);
    expect(set.manifest.parameters['backgrounds']).toMatchObject({ sources: ['pump: load: bootstrap'] });
    const own = Array.from(set.read('train'), ({ id }) => id.includes('pump: load'));
    expect(own).toEqual(own.map((_, i) => i % 2 === 0));
    const rows = readFileSync(file!, 'utf8')
      .split('\n')
      .slice(1, -1)
      .map((line) => Number(line.split(',')[1]));
    const last = rows.slice(1680);
    // Unmodified samples stand in the held-out part as they are; all of the recording is in tenths.
    const sameAt = (values: Float64Array, at: number): number =>
      values.filter((value, t) => Math.abs(value - last[at + t]!) < 0.01).length / values.length;
    for (const { channels } of set.read('test')) {
      const [values] = channels as [Float64Array];
      const shares = Array.from({ length: last.length - values.length + 1 }, (_, at) => sameAt(values, at));
      // Blocks of the recording put together are the same at a single place for at most a sixth of a window.
      expect(Math.max(...shares)).toBeGreaterThan(0.4);
    }
  });

  test('writes a policy that explain takes, a page, a card and its figures', async () => {
    const record = JSON.parse(readFileSync(join(out, 'adapt.json'), 'utf8'));
    expect(record).toMatchObject({
      version: 1,
      asked: { background: 'bootstrap', series: 24, sources: { 'pump: load': { samples: 2400 } } },
    });
    expect(record.sources[0].likeness.nearest.generated).toBeGreaterThan(0);
    expect(record.metrics.map(({ metric }: { metric: string }) => metric)).toContain('affiliation_f1');
    // The tiny policy sees one scale.
    expect(record.notes[0]).toContain('Its confidence is not calibrated');
    // The tiny policy sees one scale: no confidence can be fitted, and the one before is named as it was.
    expect(record.policy).toBe(record.better ? out : join(out, 'initial'));
    expect(existsSync(join(out, 'kept'))).toBe(false);
    const page = readFileSync(join(out, 'adapt.html'), 'utf8');
    expect(page).toContain(record.verdict);
    expect(page.match(/<svg role="img"/g)).toHaveLength(5);
    const card = readFileSync(join(out, 'README.md'), 'utf8');
    expect(card).toContain(record.verdict);
    expect(card).toContain('in timeseer.history.json: detect and explain put them before later');
    for (const policy of new Set([out, record.policy])) {
      const { code, err } = await timeseer('detect', file!, '--column', 'load', '--policy', policy, '--json');
      expect(code, err).toBe(0);
    }
  });

  test('keeps the recordings, and judges what comes after them by what was usual there', async () => {
    const whole = write('whole.csv', 2700, 30, 'load', (t, noise) =>
      (wave(t, noise) - (t >= 2520 && t < 2530 ? 40 : 0)).toFixed(1),
    );
    const [header, ...rows] = readFileSync(whole, 'utf8').split('\n');
    writeFileSync(path('pump-later.csv'), [header, ...rows.slice(2450)].join('\n'));
    const judged = async (name: string) => {
      const { code, out: report, err } = await timeseer('detect', path(name), '--policy', out, '--json');
      expect(code, err).toBe(0);
      return JSON.parse(report);
    };
    const later = await judged('pump-later.csv');
    expect(later.notes[0].text.replace(/\s/gu, ' ')).toBe(
      '2 400 earlier samples that the policy was adapted to show what is usual; only what ends after them is reported.',
    );
    expect(later.samples).toBe(2700);
    expect(later.findings).toMatchObject([{ start: 2520, end: 2530, direction: 'below' }]);
    const begin = later.policy.columns[0].answers.map(({ end }: { end: number }) => end);
    expect(Math.min(...begin)).toBeGreaterThan(2450);
    // A recording of another column has no history there, and one that begins with it needs none.
    writeFileSync(path('heat.csv'), [header!.replace('load', 'heat'), ...rows.slice(2450)].join('\n'));
    expect((await judged('heat.csv')).notes[0].text).toBe(
      'Earlier samples that the policy was adapted to are not used: they have no column heat, or several.',
    );
    expect(JSON.stringify((await judged('whole.csv')).notes)).not.toContain('arlier samples');
  });

  test('resumed once more makes nothing anew but the page', async () => {
    const policy = join(out, 'rl/policy/model.safetensors');
    const before = statSync(policy).mtimeMs;
    const page = readFileSync(join(out, 'adapt.html'), 'utf8');
    const again = await timeseer(
      'adapt',
      '--data',
      file!,
      '--out',
      out,
      '--recipe',
      recipe!,
      ...ADAPT,
      '--resume',
      '--quiet',
    );
    expect(again.out).toBe(finished.out);
    expect(statSync(policy).mtimeMs).toBe(before);
    expect(readFileSync(join(out, 'adapt.html'), 'utf8')).toBe(page);
  });

  test.each([
    ['a directory that is not resumed', [], /holds an adaptation: add --resume/],
    [
      'another background',
      ['--resume', '--background', 'flow'],
      /was begun with other --background \("bootstrap"\)/,
    ],
    ['another number of series', ['--resume', '--series', '30'], /was begun with other --series \(24\)/],
  ])('refuses %s', async (_, more, message) => {
    const { code, err } = await timeseer(
      'adapt',
      '--data',
      file!,
      '--out',
      out,
      ...ADAPT.slice(2),
      ...more,
      ...(more.includes('--series') ? [] : ['--series', '24']),
    );
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });

  test('refuses to resume with a recording in which a value was changed', async () => {
    mkdirSync(path('changed'), { recursive: true });
    const changed = path('changed/pump.csv');
    const rows = readFileSync(file!, 'utf8').split('\n');
    writeFileSync(changed, rows.map((row, i) => (i === 90 ? row.replace(/,.*,/, ',41.5,') : row)).join('\n'));
    const args = ['--out', out, '--recipe', recipe!, ...ADAPT, '--resume'];
    const { code, err } = await timeseer('adapt', '--data', changed, ...args);
    expect(code).toBe(2);
    expect(err).toMatch(/was begun with other recordings/);
  });

  test('refuses a directory with other files, no recordings, and too few series', async () => {
    const refused = async (...args: string[]): Promise<string> => {
      const { code, err } = await timeseer('adapt', ...args);
      expect(code).toBe(2);
      return err;
    };
    expect(await refused('--data', file!, '--out', root)).toContain(
      'holds other files, which are never replaced',
    );
    expect(await refused('--out', path('none'))).toContain('--data');
    expect(await refused('--data', file!, '--out', path('none'), '--series', '3')).toContain(
      '--series: expected a whole number from 20 to 1000000, got 3',
    );
    const set = async (...settings: string[]) =>
      refused('--data', file!, '--out', path('none'), ...settings.flatMap((setting) => ['--set', setting]));
    expect(await set('data.name=wild')).toContain('adapt trains on windows of the recordings; leave it out');
    expect(await set('sft.samples=0', 'rl.steps=0')).toContain('--recipe adapt: trains nothing');
    expect(await set('sft.sample=4')).toContain('did you mean sft.samples?');
    expect(existsSync(path('none'))).toBe(false);
  });
});

describe('sources', () => {
  const read = async (...data: string[]) => (await readSources({ data, columns: [] })).sources;

  /** Sources, and what is said on standard error. */
  async function heard(...data: string[]) {
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const sources = await read(...data);
    const text = said.mock.calls.join('');
    said.mockRestore();
    return { sources, text };
  }

  test('of different sampling are each read with their own step, and it is said', async () => {
    const fast = write('fast.csv', 2000, 5, 'cpu', (t, noise) => wave(t, noise).toFixed(1));
    const slow = write('slow.csv', 2000, 60, 'cpu', (t, noise) => wave(t, noise).toFixed(1));
    const { sources, text } = await heard(fast, slow);
    expect(sources.map(({ name, calendar }) => [name, calendar[0]])).toEqual([
      ['fast: cpu', 12],
      ['slow: cpu', 24],
    ]);
    expect(text).toContain('sampled every 5 min, 1 h: each source is learned by its own samples');
    // A week of 2016 samples; the first part has 1300.
    expect(sources[0]!.notes).toContain(
      'Seasons of 2016 samples are not learned: the first part covers fewer than two.',
    );
    expect(sources[1]!.notes.join()).not.toContain('are not learned');
  });

  test('are left out where the others can be used, and refused where none can', async () => {
    const short = write('short.csv', 900, 5, 'cpu', (t, noise) => wave(t, noise).toFixed(1));
    const error = await read(short).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DataError);
    expect(String(error)).toContain(
      '900 samples; at least 1820 are needed, 1120 to learn from and 700 held out',
    );
    // Side by side, the shorter one ends with missing values.
    const { sources, text } = await heard(short, path('fast.csv'));
    expect(sources.map(({ name }) => name)).toEqual(['fast: cpu']);
    expect(text).toContain('left out: short: cpu: 900 samples');
    const flat = write('flat.csv', 2000, 5, 'cpu', () => '7');
    await expect(read(flat)).rejects.toThrow('its value never changes in the first part');
    const ended = write('ended.csv', 2000, 5, 'cpu', (t, noise) =>
      (t < 1250 ? wave(t, noise) : 0).toFixed(1),
    );
    await expect(read(ended)).rejects.toThrow('its value never changes in the held-out part');
    const huge = write('huge.csv', 2000, 5, 'cpu', (t) => (t % 2 === 0 ? '-1e308' : '1e308'));
    await expect(read(huge)).rejects.toThrow('its values from -1e+308 to 1e+308 are too far apart');
  });

  test('with gaps everywhere are refused, with the number of windows that are left', async () => {
    const gaps = write('gaps.csv', 2400, 5, 'cpu', (t, noise) =>
      t % 200 < 60 ? '' : wave(t, noise).toFixed(1),
    );
    await expect(read(gaps)).rejects.toThrow(
      /0 windows of 560 samples without anomalies or gaps in the first part \(\d+ findings?, 480 missing values, 0 jumps of time\)/,
    );
  });

  test('are not learned across a jump of years, but across a few missing samples', async () => {
    const file = write('jump.csv', 3000, 60, 'cpu', (t, noise) => wave(t, noise).toFixed(1));
    const [header, ...rows] = readFileSync(file, 'utf8').trim().split('\n');
    const later = (row: string): string => `${Number(row.slice(0, 4)) + 3}${row.slice(4)}`;
    const jumped = rows
      .filter((_, i) => i !== 700 && i !== 701)
      .map((row, i) => (i < 1400 ? row : later(row)));
    writeFileSync(file, `${[header, ...jumped].join('\n')}\n`);
    const [source] = await read(file);
    const across = (at: number) => source!.training.filter(({ start }) => start < at && start + 560 > at);
    expect(across(1400)).toEqual([]);
    expect(across(700).length).toBeGreaterThan(10);
    expect(source!.notes).toContainEqual(
      'Its time jumps 3 times; no window misses more than 28 samples by that.',
    );
  });

  test('lose what the detector finds, and keep the rest', async () => {
    const values = (t: number, noise: number) =>
      (wave(t, noise) + (t >= 500 && t < 505 ? 400 : 0)).toFixed(1);
    const [source] = await read(write('spiky.csv', 2400, 30, 'cpu', values));
    expect(source!.training.length).toBeGreaterThan(50);
    expect(Math.max(...source!.training.flatMap((window) => [...window.values]))).toBeLessThan(100);
    expect(source!.periods).toContain(48);
  });
});
