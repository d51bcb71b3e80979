import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { StudyResults } from '../../eval/study-results.ts';
import { matches } from '../../src/run/study.ts';
import { temporary } from '../helpers/temporary.ts';
import { timeseer } from '../helpers/tiny-run.ts';
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
  test('ends after the run in which its budget is used up, with code 75 and what goes on', async () => {
    const { code, out: text, err } = await run('--budget', '0.0001');
    expect(code).toBe(75);
    expect(err).toMatch(
      /^stopped after 0.0001 minutes: 1 of 6 runs are finished; resume with: timeseer study \S+ --out \S+ --budget 0.0001 --resume\n$/,
    );
    const command = `timeseer study ${study} --out DIR`;
    expect(results(text)).toMatchObject({ command, finished: 1, cells: 6 });
    expect(finished()).toEqual(['nano5/start/seed-1']);
  });

  test('is not gone on with unasked, nor with runs that there are not', async () => {
    expect(await run()).toMatchObject({ code: 2, err: expect.stringMatching(/holds a study: add --resume/) });
    const { code, err } = await run('--resume', '--only', 'nano5/ppo');
    expect(code).toBe(2);
    expect(err).toMatch(/--only nano5\/ppo: no such cell; cells: nano5\/start, nano5\/more, nano5\/timerpo/);
  });
});

test.each([
  ['few/grpo/seed-1', 'few', true],
  ['few/grpo/seed-1', 'few/grpo', true],
  ['few/grpo/seed-1', '*/grpo', true],
  ['few/dr_grpo/seed-1', '*/grpo', false],
  ['few/dr_grpo/seed-1', '*/*grpo/seed-1', true],
  ['few/grpo/seed-12', 'few/grpo/seed-1', false],
  ['few/grpo/seed-1', 'f.w', false],
  ['few/grpo/seed-1', 'few/grpo/seed-1/x', false],
])('%s is meant by %s: %s', (path, pattern, meant) => {
  expect(matches(path, pattern)).toBe(meant);
});
