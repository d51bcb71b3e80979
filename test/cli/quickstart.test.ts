import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { RunDirectory } from '../../eval/run-directory.ts';
import { readSummary } from '../../eval/summary.ts';
import { resultLines } from '../../src/run/report.ts';
import { temporary } from '../helpers/temporary.ts';
import { temporaries, timeseer, until, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const shared = temporary('quickstart');
const recipe = join(shared, 'tiny.yaml');
const out = join(shared, 'run');
const BASE = ['quickstart', '--out', out];
const SMALLER = ['sft.samples=40', 'rl.steps=2', 'eval.series=6', 'eval.transfer=4', 'eval.validation=6'];
const SHORT = ['--recipe', recipe, ...SMALLER.flatMap((setting) => ['--set', setting])];

let interrupted: Awaited<ReturnType<typeof timeseer>>;
let finished: Awaited<ReturnType<typeof timeseer>>;

beforeAll(async () => {
  const policy = join(shared, 'policy');
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  // Stopped once on its way, as people do.
  const running = timeseer(...BASE, ...SHORT);
  await until(() => existsSync(join(out, 'sft/metrics.jsonl')));
  process.emit('SIGINT');
  interrupted = await running;
  finished = await timeseer(...BASE, '--resume', '--quiet');
});

describe('timeseer quickstart', () => {
  test('stopped on its way says how to resume, with code 130 and no report', () => {
    expect(interrupted.code).toBe(130);
    expect(interrupted.err).toContain(`resume with: timeseer quickstart --out ${out} --resume\n`);
    expect(interrupted.out).toBe('');
  });

  test('stopped in the last step of a stage it does not begin the next', async () => {
    const other = join(shared, 'last-step');
    const running = timeseer('quickstart', '--out', other, ...SHORT, '--quiet');
    const log = join(other, 'sft/metrics.jsonl');
    await until(() => existsSync(log) && readFileSync(log, 'utf8').split('\n').length > 10);
    process.emit('SIGINT');
    const { code, err } = await running;
    expect([code, existsSync(join(other, 'report.html')), existsSync(join(other, 'rl'))]).toEqual([
      130,
      false,
      false,
    ]);
    expect(err).toContain('resume with: ');
  });

  test('resumed it comes to its end, and names what it made', () => {
    expect(finished.code, finished.err).toBe(0);
    expect(finished.out).toContain(
      `report: ${join(out, 'report.html')}\nsummary: ${join(out, 'summary.json')}\n`,
    );
    expect(finished.out).toContain(`--policy ${out}`);
    const table = resultLines(readSummary(join(out, 'summary.json')));
    expect(finished.out.startsWith(`${table.join('\n')}\n`)).toBe(true);
    expect(table.some((line) => line.startsWith('after reinforcement'))).toBe(true);
    expect(temporaries(out)).toEqual([]);
  });

  test('the time of evaluation is recorded, and its end is the end of the run', () => {
    const run = new RunDirectory(out);
    const { evaluation_s: seconds, evaluation_finished: end } = run.environment;
    expect(seconds).toBeGreaterThan(0);
    expect(run.finished()).toBe(end);
    expect(Date.parse(String(end))).toBeGreaterThanOrEqual(Date.parse(run.cost('rl')!.finished!));
    const page = readFileSync(join(out, 'report.html'), 'utf8');
    expect(page).toMatch(/<dt>Time<\/dt><dd>[^<]* = [^<]* \+ evaluation [^<]*<\/dd>/);
  });

  test('every part of the run is there and whole', () => {
    const run = new RunDirectory(out);
    expect(run.name).toBe('tiny');
    expect(run.cost('sft')).toMatchObject({ samples: 40, steps: 10, complete: true });
    expect(run.cost('rl')).toMatchObject({ steps: 2, complete: true });
    expect(run.sftLines()).toHaveLength(10);
    expect(run.rlLines()).toHaveLength(2);
    for (const [policy, samples] of [
      ['initial', 1],
      ['sft', 2],
      ['rl', 2],
    ] as const) {
      const answers = run.answers(policy)!;
      expect(answers.greedy).toHaveLength(6);
      expect(answers.sampled).toHaveLength(6 * samples);
    }
    expect(run.transfer()).toMatchObject({ by: 'rl' });
    expect(run.transfer()!.records).toHaveLength(4);
    expect(run.baselines()).not.toBeNull();
    expect(run.environment).toMatchObject({ device: 'cpu', install_s: expect.any(Number) });
    expect(run.environment['peak_memory_mib']).toBeGreaterThan(50);
  });

  test('the summary reads back, with all its metrics', () => {
    const summary = readSummary(join(out, 'summary.json'));
    expect(summary.sft!.samples).toBe(40);
    expect(summary.rl!.steps).toBe(2);
    for (const metrics of [summary.sft!.metrics, summary.rl!.metrics_before, summary.rl!.metrics_after]) {
      for (const key of [
        'format',
        'class_accuracy',
        'point_f1',
        'affiliation_f1',
        'reward_greedy',
        'reward_sampled',
      ] as const) {
        const { mean, ci95, n } = metrics![key]!;
        expect(mean >= ci95[0] && mean <= ci95[1] && ci95[0] >= 0 && ci95[1] <= 1, key).toBe(true);
        expect(n).toBeGreaterThan(0);
      }
    }
    expect(summary.classical!.metrics.point_f1?.n).toBe(6);
  });

  test('the report is one page that loads nothing from elsewhere', () => {
    const page = readFileSync(join(out, 'report.html'), 'utf8');
    expect(page).toMatch(/^<!doctype html>/i);
    const loads = page.matchAll(
      /<(?:script|link|img|iframe|source|object|embed)\b[^>]*?\s(?:src|href|data)\s*=\s*["']?([^"'\s>]*)/gi,
    );
    for (const [, address] of loads) expect(address).toMatch(/^(data:|#|$)/);
    expect(page).not.toMatch(/@import\s|url\(\s*["']?(?:https?:)?\/\//i);
  });

  test('resumed once more it does nothing', async () => {
    const files = [
      'report.html',
      'summary.json',
      'environment.json',
      'rl/checkpoint/training.json',
      'eval/rl.greedy.jsonl',
    ];
    const times = files.map((name) => statSync(join(out, name)).mtimeMs);
    const again = await timeseer(...BASE, '--resume', '--json');
    expect(again.code).toBe(0);
    // A processor that OpenBLAS does not know is said to be one.
    expect(again.err).toMatch(/^(?:OpenBLAS does not choose .*\n)?$/);
    expect(JSON.parse(again.out)).toMatchObject({ out, report: join(out, 'report.html') });
    expect(files.map((name) => statSync(join(out, name)).mtimeMs)).toEqual(times);
  });

  test('a report that was removed is made again, and nothing else', async () => {
    rmSync(join(out, 'report.html'));
    const { mtimeMs } = statSync(join(out, 'environment.json'));
    expect((await timeseer(...BASE, '--resume', '--quiet')).code).toBe(0);
    expect(existsSync(join(out, 'report.html'))).toBe(true);
    expect(statSync(join(out, 'environment.json')).mtimeMs).toBe(mtimeMs);
  });

  test('a run that is there is neither taken up nor replaced unasked', async () => {
    const before = readFileSync(join(out, 'recipe.json'), 'utf8');
    const { code, err } = await timeseer(...BASE, '--quiet');
    expect(code).toBe(2);
    expect(err).toMatch(
      /holds a run: add --resume to resume it, --force to start over, or choose another --out\n$/,
    );
    const typo = await timeseer(...BASE, '--force', '--quiet', '--set', 'sft.sample=3');
    expect(typo.code).toBe(2);
    expect(readFileSync(join(out, 'recipe.json'), 'utf8')).toBe(before);
    expect(existsSync(join(out, 'rl/policy'))).toBe(true);
  });

  test('--resume without a run, and an unusable device, are refused before anything is written', async () => {
    const none = join(shared, 'none');
    const resume = await timeseer('quickstart', '--out', none, '--resume', '--quiet');
    expect(resume.code).toBe(2);
    expect(resume.err).toMatch(/no run there to resume/);
    const device = await timeseer('quickstart', '--out', none, '--device', 'cuda:99', '--quiet');
    expect(device.code).toBe(3);
    expect(device.err).toMatch(/device 'cuda:99'/);
    expect(existsSync(none)).toBe(false);
  });

  test('--force removes the old run and leaves other files alone', async () => {
    const mine = join(shared, 'mine');
    mkdirSync(join(mine, 'rl'), { recursive: true });
    for (const name of ['recipe.json', 'notes.txt', 'rl/old']) writeFileSync(join(mine, name), '{}');
    const running = timeseer('quickstart', '--out', mine, ...SHORT, '--force', '--quiet');
    await until(() => existsSync(join(mine, 'environment.json')));
    process.emit('SIGINT');
    expect((await running).code).toBe(130);
    expect(existsSync(join(mine, 'notes.txt'))).toBe(true);
    expect(existsSync(join(mine, 'rl'))).toBe(false);
    expect(new RunDirectory(mine).name).toBe('tiny');
  });
});
