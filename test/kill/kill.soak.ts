/** Kill tests, for `npm run soak`. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { checkpointDamage, readState } from '../../src/train/checkpoint.ts';
import { temporary } from '../helpers/temporary.ts';
import { Child, edit, editListed, lineCount, timeseer, until } from '../helpers/tiny-run.ts';
import { attempt, broken, differences, makeTinyRuns, type Stage, type TinyRuns } from './harness.ts';
import { loseAt } from './power-loss.ts';

const shared = temporary('kill');
let runs: TinyRuns;
let out = '';
let sft: Stage;
let rl: Stage;

beforeAll(async () => {
  runs = await makeTinyRuns(shared, async (...args) =>
    expect(await timeseer(...args)).toMatchObject({ code: 0, err: '' }),
  );
});
beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'run-')), 'run');
  [sft, rl] = [runs.sft(out), runs.rl(out)];
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
    expect(differences(runs.half, out)).toEqual([]);
  });

  test('reinforcement, with a clock that jumps', async () => {
    cpSync(runs.half, out, { recursive: true });
    const kills = [
      'worker renameSync 1 \\.old\\.tmp$',
      'worker fsyncSync 9',
      'worker rmSync 1 \\.old\\.tmp$',
    ];
    expect(await broken(rl, kills, { JUMPY_CLOCK: '1' })).toBeGreaterThanOrEqual(2);
    expect(differences(runs.whole, out)).toEqual([]);
  });

  test('supervised: killed between the two renames of a swap, and as its end is recorded', async () => {
    const kills = ['worker renameSync 1 \\.old\\.tmp$', 'main renameSync 1 sft/stage\\.json$'];
    expect(await broken(sft, kills)).toBe(2);
    expect(differences(runs.half, out)).toEqual([]);
  });

  test('reinforcement: killed between the two renames of a swap, with a clock that jumps', async () => {
    cpSync(runs.half, out, { recursive: true });
    expect(await broken(rl, ['worker renameSync 1 \\.old\\.tmp$'], { JUMPY_CLOCK: '1' })).toBe(1);
    expect(differences(runs.whole, out)).toEqual([]);
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
    expect(differences(runs.half, out)).toContain('sft/policy/model.safetensors');
  });

  test('after power failures: what was not synced is lost, or half of it', async () => {
    const root = dirname(out);
    const [first, second] = ['worker renameSync 1 \\.old\\.tmp$', 'worker fsyncSync 9'];
    expect(await loseAt(sft, root, first)).toBe(true);
    // The first checkpoint was synced before the second took its place.
    expect(checkpointDamage(join(out, 'sft/checkpoint'))).toBeNull();
    expect(readState(join(out, 'sft/checkpoint'))!.step).toBe(7);
    const random = new Random(3, 'power');
    expect(await loseAt(sft, root, second, () => random.uniform() < 0.5)).toBe(true);
    expect((await attempt(sft.resume)).code).toBe(0);
    expect(differences(runs.half, out)).toEqual([]);
  });

  test('after a full disk, whatever did not fit', async () => {
    for (const kib of [1, 30, 120]) {
      const { code, err } = await new Child(existsSync(out) ? sft.resume : sft.begin, kib).ended;
      expect(err).toMatch(/^error: [^\n]*not written[^\n]*\n$/);
      expect(code).toBe(3);
    }
    expect((await attempt(sft.resume)).code).toBe(0);
    expect(differences(runs.half, out)).toEqual([]);
  });
});

describe('evaluation, killed and begun again, is the unbroken one', { timeout: 300_000 }, () => {
  test('of a policy by itself', async () => {
    const [one, two] = ['one', 'two'].map((name) => join(dirname(out), name));
    const asked = [
      '--policy',
      runs.whole,
      '--count',
      '6',
      '--length',
      '400',
      '--max-tokens',
      '16',
      '--workers',
      '1',
      '--quiet',
    ];
    const evaluation = (to: string): Stage => {
      const begin = ['eval', ...asked, '--out', to, '--resume'];
      return { out: to, begin, resume: begin };
    };
    expect(await broken(evaluation(one!), [])).toBe(0);
    // The records are there and the metrics are not.
    expect(await broken(evaluation(two!), ['main renameSync 1 records\\.jsonl$'])).toBe(1);
    expect(differences(one!, two!)).toEqual([]);
  });

  test('beside the training: before its policy is there, with a result that is not yet recorded, at its link to the best', async () => {
    const evaluated = ['rl.evalEvery=2', 'rl.evalSeries=4', 'rl.keep.last=2'].flatMap((key) => [
      '--set',
      key,
    ]);
    const begin = [
      'train',
      '--recipe',
      runs.recipe,
      '--policy',
      join(runs.half, 'sft/policy'),
      ...evaluated,
      '--quiet',
      '--out',
    ];
    const unbroken = join(dirname(out), 'unbroken');
    expect((await attempt([...begin, unbroken])).code).toBe(0);
    const stage: Stage = { ...rl, begin: [...begin, out] };
    const kills = [
      'worker mkdirSync 1 validation/\\.step-2',
      'main openSync 1 validation\\.jsonl$',
      'main renameSync 2 best$',
    ];
    expect(await broken(stage, kills)).toBe(3);
    expect(differences(unbroken, out)).toEqual([]);
  });
});

describe('a full disk', { timeout: 300_000 }, () => {
  /** A small file system of its own, where that is permitted. */
  const disk = join(shared, 'disk');
  let mounted = false;
  beforeAll(() => {
    mkdirSync(disk);
    mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', disk]).status === 0;
  });
  afterAll(() => void (mounted && spawnSync('umount', [disk])));

  test('ends a run with an error, its last checkpoint whole; with room again it is the unbroken run', async ({
    skip,
  }) => {
    skip(!mounted, 'no file system can be mounted here');
    const run = join(disk, 'run');
    cpSync(runs.half, run, { recursive: true });
    const [begin, resume] = [rl.begin, rl.resume].map((args) =>
      args.map((word) => (word === out ? run : word)),
    );
    expect((await attempt(begin!, 'main renameSync 1 rl/stage\\.json$')).code).toBeNull();
    const checkpoint = join(run, 'rl/checkpoint');
    const { step } = readState(checkpoint)!;
    const { bavail, bsize } = statfsSync(disk);
    // Room for the log of the steps up to the next checkpoint, and not for that.
    writeFileSync(join(disk, 'filler'), Buffer.alloc(bavail * bsize - 96 * 1024));
    const { code, err } = await attempt(resume!);
    expect(err).toMatch(
      /^error: [^\n]*rl\/\.checkpoint\.[^\n]*: not written \(the disk is full: free some space[^\n]*\n$/,
    );
    expect(code).toBe(3);
    expect(checkpointDamage(checkpoint)).toBeNull();
    expect(readState(checkpoint)!.step).toBe(step);
    rmSync(join(disk, 'filler'));
    expect((await attempt(resume!)).code).toBe(0);
    expect(differences(runs.whole, run)).toEqual([]);
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
    expect(err).toMatch(new RegExp(`^error: ${out}: was removed or replaced during the work`));
    expect(code).toBe(3);
    expect(existsSync(out)).toBe(false);
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
