import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { StudyResults } from '../../eval/study-results.ts';
import { temporary } from '../helpers/temporary.ts';
import { edit, timeseer } from '../helpers/tiny-run.ts';
import { writeTinyStudy } from '../helpers/tiny-study.ts';

const shared = temporary('study');
const out = join(shared, 'out');
let study = '';
const run = (...more: string[]) => timeseer('study', study, '--out', out, '--quiet', '--json', ...more);
const results = (text: string): StudyResults => JSON.parse(text) as StudyResults;
const CELLS = [1, 2].flatMap((seed) =>
  ['start', 'more', 'timerpo'].map((arm) => `nano5/${arm}/seed-${seed}`),
);
const finished = () => CELLS.filter((cell) => resultFiles(cell).length > 0);
const resultFiles = (cell: string) => {
  const directory = join(out, cell, 'eval');
  return existsSync(directory) ? readdirSync(directory).filter((name) => name.endsWith('.study.json')) : [];
};

beforeAll(() => {
  study = writeTinyStudy(shared);
});

describe('a study', { timeout: 240_000 }, () => {
  test('runs some of its runs, with the start that they need', async () => {
    expect((await run('--only', '*/timerpo/seed-2')).code).toBe(0);
    expect(finished()).toEqual(['nano5/start/seed-2', 'nano5/timerpo/seed-2']);
  });

  test('comes to its end with table, page and numbers, and leaves finished runs alone', async () => {
    const before = statSync(join(out, 'nano5/timerpo/seed-2/rl/policy/model.safetensors')).mtimeMs;
    const { code, out: text, err } = await run('--resume');
    expect([code, err]).toEqual([0, '']);
    expect(finished()).toEqual(CELLS);
    expect(statSync(join(out, 'nano5/timerpo/seed-2/rl/policy/model.safetensors')).mtimeMs).toBe(before);
    const [nano5] = results(text).settings;
    expect(nano5!.arms.map(({ arm, seeds }) => [arm, seeds])).toEqual([
      ['start', [1, 2]],
      ['more', [1, 2]],
      ['timerpo', [1, 2]],
    ]);
    const [start, more, timerpo] = nano5!.arms;
    // The policy is its own reference; steps away from it have a divergence.
    expect(Math.abs(start!.values['kl']!.mean)).toBeLessThan(1e-5);
    expect(Math.abs(more!.values['kl']!.mean)).toBeGreaterThan(1e-4);
    expect(Math.abs(timerpo!.values['kl']!.mean)).toBeGreaterThan(1e-5);
    expect(start!.values['entropy']!.mean).toBeGreaterThan(0.5);
    expect(timerpo!.toBase!['reward']!.seeds).toBe(2);
    expect([more!.training, timerpo!.training]).toEqual([
      { samples: 20, steps: 0 },
      { samples: 0, steps: 2 },
    ]);
    expect(nano5!.curves.find(({ name }) => name === 'similarity')!.arms).toMatchObject([
      { title: 'TimerPO', step: [1, 2] },
    ]);
    expect(readFileSync(join(out, 'study.md'), 'utf8')).toContain('6 of 6 cells are finished');
    expect(readFileSync(join(out, 'study.html'), 'utf8')).toMatch(/^<!doctype html>/);
  });

  test('keeps of a run its recipe, metrics, policy and answers', () => {
    const cell = join(out, 'nano5/timerpo/seed-1');
    const files = readdirSync(cell).sort();
    expect(files).toEqual(['environment.json', 'eval', 'recipe.json', 'rl']);
    expect(readdirSync(join(cell, 'rl')).sort()).toEqual([
      ...['metrics.jsonl', 'policy', 'stage.json', 'tensorboard'],
    ]);
    expect(readdirSync(join(cell, 'eval')).sort()).toEqual([
      ...['rl.study.0.jsonl', 'rl.study.1.jsonl', 'rl.study.json'],
    ]);
  });

  test('has runs that other commands take, and that are finished for them too', async () => {
    const cell = join(out, 'nano5/timerpo/seed-1');
    const file = join(cell, 'rl/policy/model.safetensors');
    const before = readFileSync(file);
    expect((await timeseer('train', '--out', cell, '--resume', '--quiet')).code).toBe(0);
    expect(readFileSync(file).equals(before)).toBe(true);
    const asked = ['--seed', '42', '--count', '6', '--length', '400', '--maxTokens', '24', '--no-classical'];
    const { code, out: text } = await timeseer('eval', '--policy', cell, ...asked, '--quiet', '--json');
    expect(code).toBe(0);
    const own = JSON.parse(readFileSync(join(cell, 'eval/rl.study.json'), 'utf8')).answers[0].values
      .reward as number[];
    const { overall } = JSON.parse(text).metrics;
    expect(own.reduce((sum, value) => sum + value, 0) / 6).toBeCloseTo(overall.reward.mean, 5);
  });

  test('makes the same results again from its runs', async () => {
    const before = readFileSync(join(out, 'study.json'), 'utf8');
    for (const name of ['json', 'md', 'html']) rmSync(join(out, `study.${name}`));
    expect((await run('--report')).code).toBe(0);
    expect(readFileSync(join(out, 'study.json'), 'utf8')).toBe(before);
    expect(existsSync(join(out, 'study.html'))).toBe(true);
  });

  test('is evaluated again, and not trained again, where only the evaluation has changed', async () => {
    const file = join(out, 'nano5/more/seed-1/sft/policy/model.safetensors');
    const before = statSync(file).mtimeMs;
    edit(study, (text) => text.replace('temperatures: [0, 1]', 'temperatures: [0]'));
    const { code, out: text } = await run('--resume');
    expect(code).toBe(0);
    expect(results(text).settings[0]!.keys.map(({ key }) => key)).not.toContain('kl');
    expect(statSync(file).mtimeMs).toBe(before);
  });

  test('evaluates the policies of a setting on other data in another one, without training', async () => {
    const setting = '  again:\n    recipe: ./tiny.yaml\n    policies: nano5\n    evaluation: {series: 4}\n';
    edit(study, (text) => text.replace('arms:\n', `${setting}arms:\n`));
    const { code, out: text } = await run('--resume');
    expect(code).toBe(0);
    const [nano5, again] = results(text).settings;
    expect(again!.arms.map(({ arm, seeds, training }) => [arm, seeds, training])).toEqual(
      nano5!.arms.map(({ arm, seeds, training }) => [arm, seeds, training]),
    );
    expect([nano5!.series, again!.series]).toEqual([6, 4]);
    expect(readdirSync(join(out, 'again/timerpo/seed-1'))).toEqual(['eval']);
  });

  test('is refused where its runs had another recipe, by the keys', async () => {
    writeFileSync(study, readFileSync(study, 'utf8').replace('rl.steps: 2', 'rl.steps: 3'));
    const { code, err } = await run('--resume');
    expect(code).toBe(2);
    expect(err).toMatch(
      /timerpo\/seed-1: this cell was started with other values of rl.steps than the study has now/,
    );
  });
});

test('evaluates a finished arm with a start of its own in a further setting without training it again', async () => {
  const directory = mkdtempSync(join(shared, 'settings-'));
  const file = writeTinyStudy(directory);
  const text = readFileSync(file, 'utf8')
    .replace('seeds: [1, 2]\nbase: more', 'seeds: [1]\nbase: alone')
    .replace(
      'arms:\n',
      '  longer:\n    recipe: ./tiny.yaml\n    policies: nano5\n    set: {data.length: 280}\n$&',
    )
    .replace(/arms:\n.*$/s, 'arms:\n  alone:\n    start: none\n    set: {rl.steps: 1, sft.samples: 20}\n');
  writeFileSync(file, text);
  const [into, stage] = [join(directory, 'out'), join(directory, 'out/nano5/alone/seed-1/sft/stage.json')];
  const cell = (only: string, ...more: string[]) =>
    timeseer('study', file, '--out', into, '--quiet', '--json', '--only', only, ...more);
  expect(await cell('nano5/alone')).toMatchObject({ err: '', code: 0 });
  const trained = readFileSync(stage, 'utf8');
  expect(await cell('longer/alone', '--resume')).toMatchObject({ err: '', code: 0 });
  expect(readFileSync(stage, 'utf8')).toBe(trained);
}, 240_000);
