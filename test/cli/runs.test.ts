import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readSummary } from '../../eval/summary.ts';
import { sparkline } from '../../src/commands/runs.ts';
import { claimDirectory } from '../../src/ground/lock.ts';
import { buildReport } from '../../src/run/report.ts';
import type { DamagedRun, RunFacts } from '../../src/run/runs.ts';
import { findBrowser, loadPage } from '../helpers/browser.ts';
import { inside } from '../helpers/command-line.ts';
import { writeRun } from '../helpers/run-directory.ts';
import { edit } from '../helpers/tiny-run.ts';

let directory = '';
/** A whole run. */
let one = '';
/** The same without KL, whose reinforced policy answers as the first one's supervised policy. */
let other = '';
/** Half of its supervised stage, in a folder of its own. */
let stopped = '';

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-runs-'));
  one = join(directory, 'one');
  writeRun(one, { series: 20 });
  await buildReport(one);
  other = join(directory, 'other');
  cpSync(one, other, { recursive: true });
  edit(join(other, 'recipe.json'), (text) => text.replace(/"kl":\s*0,/, '"kl":0.02,'));
  for (const mode of ['greedy', 'sampled']) {
    cpSync(join(other, `eval/sft.${mode}.jsonl`), join(other, `eval/rl.${mode}.jsonl`));
  }
  stopped = join(directory, 'nested/deeper/stopped');
  mkdirSync(join(stopped, 'sft'), { recursive: true });
  cpSync(join(one, 'recipe.json'), join(stopped, 'recipe.json'));
  const lines = readFileSync(join(one, 'sft/metrics.jsonl'), 'utf8').split('\n').slice(0, 30);
  writeFileSync(join(stopped, 'sft/metrics.jsonl'), `${lines.join('\n')}\n{"step":31,"sam`);
  writeFileSync(join(stopped, 'sft/stage.json'), '{"seconds": 61, "finished": false}');
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function listed(...args: string[]): Promise<Record<string, RunFacts | DamagedRun>> {
  const { code, out, err } = await inside('runs', ...args, '--json');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  const found = JSON.parse(out) as (RunFacts | DamagedRun)[];
  return Object.fromEntries(found.map((run) => [run.path.slice(directory.length + 1), run]));
}

describe('timeseer runs', () => {
  test('lists the runs at any depth, with what each has come to', async () => {
    const found = await listed(directory);
    expect(Object.keys(found)).toEqual(['nested/deeper/stopped', 'one', 'other']);
    const summary = readSummary(join(one, 'summary.json'));
    const lines = readFileSync(join(one, 'rl/metrics.jsonl'), 'utf8').trim().split('\n').slice(-10);
    const rewards = lines.map((line) => (JSON.parse(line) as { reward: number }).reward);
    expect(found['one']).toMatchObject({
      ...{ name: 'quickstart', data: 'nano5', method: 'timerpo', state: 'finished' },
      at: { stage: 'rl', step: 20, steps: 20 },
      reward: expect.closeTo(rewards.reduce((sum, value) => sum + value, 0) / 10, 12),
      greedy: summary.rl!.metrics_after.reward_greedy.mean,
      sampled: summary.rl!.metrics_after.reward_sampled!.mean,
      seconds: summary.sft!.seconds + summary.rl!.seconds,
    });
    expect(found['nested/deeper/stopped']).toMatchObject({
      ...{ state: 'stopped', at: { stage: 'sft', step: 30, steps: 30 }, seconds: 61 },
      ...{ reward: null, greedy: null, sampled: null },
    });
  });

  test('a run whose supervised stage has finished and whose reinforcement has not begun is done with it', async () => {
    const file = join(stopped, 'sft/stage.json');
    const before = readFileSync(file, 'utf8');
    writeFileSync(file, '{"seconds": 61, "finished": "2026-01-01T00:00:00.000Z"}');
    try {
      expect((await listed(directory))['nested/deeper/stopped']).toMatchObject({ state: 'sft done' });
    } finally {
      writeFileSync(file, before);
    }
  });

  test('names the keys that are not at their defaults', async () => {
    const found = await listed(directory);
    const { changed } = found['other'] as RunFacts;
    expect(changed).toMatchObject({ 'rl.kl': 0.02, seed: 7, 'eval.temperature': 0.7 });
    expect(Object.keys(changed)).not.toContain('rl.entropy');
    expect(Object.keys(changed).filter((key) => key.startsWith('requirements'))).toEqual([]);
  });

  test('a run that a process works on is running, and is left alone', async () => {
    const lock = await claimDirectory(one);
    try {
      const before = readdirSync(one);
      expect((await listed(one))['one']).toMatchObject({ state: 'running' });
      expect(readdirSync(one)).toEqual(before);
    } finally {
      lock.release();
    }
    expect((await listed(one))['one']).toMatchObject({ state: 'finished' });
    // The ticket of a process that has ended.
    const ticket = join(one, '.lock.00000000-1-1.0');
    writeFileSync(ticket, 'held\n');
    expect((await listed(one))['one']).toMatchObject({ state: 'running' });
    rmSync(ticket);
  });

  test('a damaged run is told with what is wrong, and the others all the same', async () => {
    const damaged = join(directory, 'a-damaged');
    const old = join(directory, 'b-old');
    cpSync(stopped, damaged, { recursive: true });
    writeFileSync(join(damaged, 'sft/metrics.jsonl'), '{"step":1}\n');
    cpSync(stopped, old, { recursive: true });
    edit(join(old, 'recipe.json'), (text) => text.replace(/"version":\s*\d+/, '"version":1'));
    try {
      const { code, out } = await inside('runs', directory);
      expect(code).toBe(0);
      expect(out).toMatch(/^run +recipe +data +method +state +step +reward/);
      expect(out).toMatch(/one +quickstart +nano5 +timerpo +finished +rl 20\/20 +0\.\d{3} /);
      expect(out).toMatch(/^not read: \S*a-damaged\/sft\/metrics\.jsonl:1: "samples": /m);
      expect(out).toMatch(/^not read: \S*b-old\/recipe\.json: a run of version 1,/m);
    } finally {
      rmSync(damaged, { recursive: true });
      rmSync(old, { recursive: true });
    }
  });

  test('says when there is none, and refuses a directory that is not there', async () => {
    expect(await inside('runs', join(one, 'eval'))).toMatchObject({
      code: 0,
      out: '',
      err: `no runs in ${join(one, 'eval')}\n`,
    });
    const { code, err } = await inside('runs', join(directory, 'none'));
    expect(code).toBe(3);
    expect(err).toMatch(/none: no such directory/);
  });
});

describe('timeseer runs --compare', () => {
  test('tells the keys that differ, and the paired change of every metric', async () => {
    const { code, out } = await inside('runs', '--compare', one, other, '--json');
    expect(code).toBe(0);
    const { keys, metrics, notes, runs } = JSON.parse(out);
    expect(keys).toEqual([{ key: 'rl.kl', values: [0, 0.02] }]);
    expect(notes).toEqual([]);
    expect(runs[1]).toEqual({ path: other, policy: 'rl', series: 20 });
    const { gain, metrics_after: after } = readSummary(join(one, 'summary.json')).rl!;
    const of = (name: string) => metrics.find((one: { metric: string }) => one.metric === name);
    // The other run's answers are those of the first before its reinforcement.
    for (const name of ['reward_greedy', 'reward_sampled'] as const) {
      const [none, difference] = of(name === 'reward_greedy' ? 'reward' : name).differences;
      expect(none).toBeNull();
      expect(difference.mean).toBeCloseTo(-gain![name]!.mean, 12);
      expect(difference.ci95[0]).toBeLessThan(difference.mean);
      expect(difference.n).toBe(20);
    }
    expect(of('point_f1').values[0].mean).toBeCloseTo(after.point_f1!.mean, 12);
  });

  test('prints both tables and the curves', async () => {
    const { out } = await inside('runs', '--compare', one, other);
    expect(out).toMatch(/^key +\S+one +\S+other\nrl\.kl +0 +0\.02\n/);
    expect(out).toMatch(/^Point F1 +0\.\d{3} +0\.\d{3} +[+−]\d\.\d{3} \[[+−]/m);
    expect(out).toMatch(/other +[▁▂▃▄▅▆▇█]{20} +20 steps, 0\.\d{3} → 0\.\d{3}/);
  });

  test('does not pair answers to other series, and says so', async () => {
    const third = join(directory, 'third');
    cpSync(other, third, { recursive: true });
    try {
      for (const mode of ['greedy', 'sampled']) {
        edit(join(third, `eval/rl.${mode}.jsonl`), (text) =>
          text.replaceAll('"seriesId":"', '"seriesId":"x'),
        );
      }
      const { out } = await inside('runs', '--compare', one, third, '--json');
      const { metrics, notes } = JSON.parse(out);
      expect(notes).toEqual([
        expect.stringMatching(
          /third: no differences from .*one: they answer other series \(20 and 20, 0 of them/,
        ),
      ]);
      for (const { values, differences } of metrics) {
        expect(values.every((value: unknown) => value !== null)).toBe(true);
        expect(differences).toEqual([null, null]);
      }
    } finally {
      rmSync(third, { recursive: true });
    }
  });

  test.each([
    [['--compare'], /name at least two runs/],
    [['--html', 'x.html'], /--html writes a comparison: add --compare/],
    [['--compare', '--glossary', 'a', 'b'], /give one of them/],
  ])('refuses %j', async (args, message) => {
    const { code, err } = await inside('runs', ...args);
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });

  test('refuses a run against itself', async () => {
    expect((await inside('runs', '--compare', one, `${one}/`)).err).toMatch(/is named twice/);
  });

  const browser = findBrowser();
  test('--html writes a page of its own with a curve of each run in every panel', async () => {
    const file = join(directory, 'compare.html');
    expect((await inside('runs', '--compare', one, other, '--html', file)).code).toBe(0);
    const text = readFileSync(file, 'utf8');
    const references = text.slice(0, text.indexOf('<script>')).matchAll(/(?:src|href)="(?!data:)[^"]*/g);
    expect([...references].map(([found]) => found)).toEqual([]);
    const { panels: data } = JSON.parse(/id="curve-data">(.*?)<\/script>/s.exec(text)![1]!) as {
      panels: { traces: { name: string }[] }[];
    };
    expect(data.length).toBeGreaterThan(4);
    for (const { traces } of data) expect(traces.map(({ name }) => name)).toEqual([one, other]);
    if (browser === null) return;
    const { dom, complaints } = loadPage(browser, { 'compare.html': text });
    expect(complaints).toEqual([]);
    expect(dom).toMatch(/data-curves="drawn"/);
  });
});

test('a curve in blocks is the means of its parts, from the lowest to the highest', () => {
  expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 0, 7)).toBe('▁▂▃▄▅▆▇█');
  expect(
    sparkline(
      Array.from({ length: 80 }, (_, i) => (i < 40 ? 0 : 1)),
      0,
      1,
    ),
  ).toBe('▁'.repeat(20) + '█'.repeat(20));
  expect(sparkline([3, 3], 3, 3)).toBe('▁▁');
  expect(sparkline([], 0, 1)).toBe('');
});

test('timeseer runs --glossary tells every name with its definition and its tag', async () => {
  const { code, out } = await inside('runs', '--glossary');
  expect(code).toBe(0);
  expect(out).toMatch(/^ {2}kl {2}\[TensorBoard train\/kl, as TRL\]\n {6}Mean k3 estimate/m);
  expect(out).toMatch(/^ {2}reward_sampled\n {6}Mean over series/m);
});
