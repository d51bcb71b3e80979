import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readState } from '../../src/train/checkpoint.ts';
import {
  Child,
  edit,
  editListed,
  lineCount,
  listing,
  timeseer,
  until,
  writeTinyPolicy,
  writeTinyRecipe,
} from '../helpers/tiny-run.ts';
import { attempt, broken, differences, type Stage } from './harness.ts';

const shared = mkdtempSync(join(tmpdir(), 'timeseer-kill-'));
const recipe = join(shared, 'tiny.yaml');
const whole = join(shared, 'whole');
/** The same, before its reinforcement. */
const half = join(shared, 'half');
const BEGIN = ['sft', '--recipe', recipe, '--set', 'sft.samples=80', '--quiet', '--out'];
let out = '';
let sft: Stage;
let rl: Stage;

beforeAll(async () => {
  writeTinyPolicy(join(shared, 'policy'));
  writeTinyRecipe(recipe, join(shared, 'policy'));
  expect(await timeseer(...BEGIN, whole)).toMatchObject({ code: 0, err: '' });
  cpSync(whole, half, { recursive: true });
  expect(await timeseer('train', '--out', whole, '--quiet')).toMatchObject({ code: 0, err: '' });
});
afterAll(() => rmSync(shared, { recursive: true, force: true }));
beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'one-')), 'run');
  sft = { out, begin: [...BEGIN, out], resume: ['sft', '--out', out, '--resume', '--quiet'] };
  rl = {
    out,
    begin: ['train', '--out', out, '--quiet'],
    resume: ['train', '--out', out, '--resume', '--quiet'],
  };
});

describe('killed and resumed, a run is the unbroken one, byte for byte', { timeout: 300_000 }, () => {
  test('supervised: while it begins, in the weights, between the two renames of a swap, in a record, at any time', async () => {
    const kills = [
      'main renameSync 1 recipe\\.json$',
      'worker writeSync 12',
      'worker renameSync 1 \\.old\\.tmp$',
      'main writeSync 2 stage\\.json',
      900 + 600 * Math.random(),
    ];
    expect(await broken(sft, kills)).toBeGreaterThanOrEqual(3);
    expect(differences(half, out)).toEqual([]);
  });

  test('reinforcement, with a clock that jumps', async () => {
    cpSync(half, out, { recursive: true });
    const kills = [
      'worker renameSync 1 \\.old\\.tmp$',
      'worker fsyncSync 9',
      'worker rmSync 1 \\.old\\.tmp$',
    ];
    expect(await broken(rl, kills, { JUMPY_CLOCK: '1' })).toBeGreaterThanOrEqual(2);
    expect(differences(whole, out)).toEqual([]);
  });

  test('with its random streams left out of what is restored it is another', async () => {
    await attempt(sft.begin, 'worker renameSync 1 \\.old\\.tmp$');
    expect((await attempt(sft.begin)).err).toMatch(/holds a checkpoint of step 14: add --resume/); // and puts it back
    const checkpoint = join(out, 'sft/checkpoint');
    // Streams are keyed by the seed: as many updates follow, from the same weights and moments, with other draws.
    const reseeded = (text: string): string => text.replace(/"seed": 42\b/, '"seed": 43');
    edit(join(out, 'recipe.json'), reseeded);
    editListed(join(checkpoint, 'training.json'), reseeded);
    const { code, err } = await attempt(sft.resume);
    expect([code, err]).toEqual([0, '']);
    expect(differences(half, out)).toContain('sft/policy/model.safetensors');
  });

  test('after a full disk, whatever did not fit', async () => {
    for (const kib of [1, 30, 120]) {
      const { code, err } = await new Child(existsSync(out) ? sft.resume : sft.begin, kib).ended;
      expect(err).toMatch(/^error: [^\n]*not written[^\n]*\n$/);
      expect(code).toBe(1);
    }
    expect((await attempt(sft.resume)).code).toBe(0);
    expect(differences(half, out)).toEqual([]);
  });
});

describe('a run directory', { timeout: 300_000 }, () => {
  const LONG = ['--set', 'sft.samples=4000000'];
  const steps = () => lineCount(join(out, 'sft/metrics.jsonl'));

  test('that is removed while it is worked on is an error, and no part of it appears again', async () => {
    const child = new Child([...sft.begin, ...LONG, '--set', 'sft.checkpointEvery=1']);
    await until(() => steps() >= 3);
    while (existsSync(out)) {
      try {
        rmSync(out, { recursive: true, force: true });
      } catch {
        // a file came in between
      }
    }
    const { code, err } = await child.ended;
    expect(err).toMatch(new RegExp(`^error: ${out}: was removed or replaced while it was worked on`));
    expect(code).toBe(1);
    expect(existsSync(out)).toBe(false);
  });

  test('belongs to one of two that begin it at the same time: recipe and policy are of the same', async () => {
    const both = [31, 32].map(
      (seed) =>
        new Child([
          ...BEGIN,
          out,
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
    expect(ended[1 - winner]!.err).toMatch(/is working on this directory|began with other values of seed/);
    expect(JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8')).recipe.seed).toBe(31 + winner);
    expect(readState(join(out, 'sft/checkpoint'))!.origin.recipe['seed']).toBe(31 + winner);
    expect(listing(out).filter((name) => name.includes('.lock') || name.endsWith('.tmp'))).toEqual([]);
  });

  test('is saved when the terminal is closed, with code 129', async () => {
    const child = new Child([...sft.begin.filter((word) => word !== '--quiet'), ...LONG]);
    await until(() => steps() >= 2);
    child.process.stderr!.destroy();
    child.process.stdout!.destroy();
    child.process.kill('SIGHUP');
    expect((await child.ended).code).toBe(129);
    expect(readState(join(out, 'sft/checkpoint'))!.step).toBe(steps());
  });
});
