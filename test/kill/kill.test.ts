import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readState } from '../../src/train/checkpoint.ts';
import { Child, listing, timeseer } from '../helpers/tiny-run.ts';
import { broken, differences, makeTinyRuns, type TinyRuns } from './harness.ts';

const shared = mkdtempSync(join(tmpdir(), 'timeseer-kill-'));
let runs: TinyRuns;
let out = '';

beforeAll(async () => {
  runs = await makeTinyRuns(shared, async (...args) =>
    expect(await timeseer(...args)).toMatchObject({ code: 0, err: '' }),
  );
});
afterAll(() => rmSync(shared, { recursive: true, force: true }));
beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'run-')), 'run');
});

describe('killed and resumed, a run equals the unbroken one byte for byte', { timeout: 300_000 }, () => {
  test('supervised: killed between the two renames of a swap, and as its end is recorded', async () => {
    const kills = ['worker renameSync 1 \\.old\\.tmp$', 'main renameSync 1 sft/stage\\.json$'];
    expect(await broken(runs.sft(out), kills)).toBe(2);
    expect(differences(runs.half, out)).toEqual([]);
  });

  test('reinforcement: killed between the two renames of a swap, with a clock that jumps', async () => {
    cpSync(runs.half, out, { recursive: true });
    const kills = ['worker renameSync 1 \\.old\\.tmp$'];
    expect(await broken(runs.rl(out), kills, { JUMPY_CLOCK: '1' })).toBe(1);
    expect(differences(runs.whole, out)).toEqual([]);
  });
});

test('a run directory belongs to one of two commands that begin it at once: recipe and policy are of the same', async () => {
  const both = [31, 32].map(
    (seed) =>
      new Child([
        ...runs.sft(out).begin,
        '--set',
        `seed=${seed}`,
        '--set',
        'policy.init=nano',
        '--set',
        'sft.samples=8',
      ]),
  );
  const ended = await Promise.all(both.map((child) => child.ended));
  const winner = ended.findIndex(({ code }) => code === 0);
  expect(ended.map(({ code }) => code).sort()).toEqual([0, 2]);
  expect(ended[1 - winner]!.err).toMatch(
    /is working on this directory|was started with other values of seed/,
  );
  expect(JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8')).recipe.seed).toBe(31 + winner);
  expect(readState(join(out, 'sft/checkpoint'))!.origin.recipe['seed']).toBe(31 + winner);
  expect(listing(out).filter((name) => name.includes('.lock') || name.endsWith('.tmp'))).toEqual([]);
});
