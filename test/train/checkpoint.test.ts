import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { CheckpointError } from '../../src/ground/errors.ts';
import { WriteError } from '../../src/ground/files.ts';
import { MANIFEST_FILE, TRAINING_FILES } from '../../src/ground/manifest.ts';
import { Policy } from '../../src/policy/policy.ts';
import { FOREIGN_CARD, readCard } from '../../src/tasks/card.ts';
import {
  checkpointDamage,
  readState,
  recoverCheckpoint,
  restoreOptimizer,
  saveCheckpoint,
} from '../../src/train/checkpoint.ts';
import { DEVICE } from '../helpers/device.ts';
import { identical } from '../helpers/full-sequence.ts';
import { temporary } from '../helpers/temporary.ts';
import { moments, ORIGIN, teach, tinyLearner, tinyPolicy } from '../helpers/tiny-policy.ts';
import { editListed } from '../helpers/tiny-run.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const learner = tinyLearner(tinyPolicy(engine));
const shared = temporary('checkpoint');
const saved = join(shared, 'saved');
let stage = '';
let checkpoint = '';

beforeAll(async () => {
  await teach(learner, { samples: 12 });
  saveCheckpoint(saved, learner, FOREIGN_CARD, {
    stage: 'sft',
    step: 4,
    skippedInARow: 2,
    engines: ['torch'],
    origin: ORIGIN,
  });
});
beforeEach(() => {
  stage = mkdtempSync(join(shared, 'stage-'));
  checkpoint = join(stage, 'checkpoint');
});
afterEach(() => rmSync(stage, { recursive: true, force: true }));

const copy = (to: string): void => cpSync(saved, to, { recursive: true });
const setStep = (directory: string, step: number): void => {
  editListed(join(directory, 'training.json'), (text) => JSON.stringify({ ...JSON.parse(text), step }));
};

type Moments = ReturnType<typeof moments>;
function expectSameMoments(a: Moments, b: Moments): void {
  expect(a.step).toBe(b.step);
  expect(identical(a.first, b.first)).toBe(true);
  expect(identical(a.second, b.second)).toBe(true);
}

describe('a checkpoint', () => {
  test('holds weights, moments and the count of updates, to the bit', () => {
    const state = readState(saved)!;
    expect(state).toEqual({
      version: 3,
      stage: 'sft',
      step: 4,
      updates: 4,
      skippedInARow: 2,
      engines: ['torch'],
      origin: ORIGIN,
    });
    expect(readCard(saved)).toEqual(FOREIGN_CARD);
    const policy = Policy.load(engine, saved);
    expect(identical(engine.floats(policy.flat), engine.floats(learner.policy.flat))).toBe(true);
    const again = tinyLearner(policy);
    restoreOptimizer(saved, again, state);
    expectSameMoments(moments(again), moments(learner));
    expect(moments(again).first.some((value) => value !== 0)).toBe(true);
  });

  test('replaces an older one whole and leaves nothing beside it', () => {
    copy(checkpoint);
    writeFileSync(join(checkpoint, 'stray'), '');
    saveCheckpoint(checkpoint, learner, FOREIGN_CARD, {
      stage: 'rl',
      step: 9,
      skippedInARow: 0,
      origin: ORIGIN,
    });
    expect(readState(checkpoint)).toMatchObject({ stage: 'rl', step: 9, skippedInARow: 0 });
    expect(existsSync(join(checkpoint, 'stray'))).toBe(false);
    expect(readdirSync(stage)).toEqual(['checkpoint']);
  });

  test('that cannot be written leaves the older one as it was', () => {
    writeFileSync(join(stage, 'file'), '');
    expect(() =>
      saveCheckpoint(join(stage, 'file', 'checkpoint'), learner, FOREIGN_CARD, {
        stage: 'sft',
        step: 5,
        skippedInARow: 0,
        origin: ORIGIN,
      }),
    ).toThrow(WriteError);
    expect(readFileSync(join(stage, 'file'), 'utf8')).toBe('');
  });

  test('is not there before the first one was saved', () => {
    expect(readState(checkpoint)).toBeNull();
  });
});

describe('a damaged checkpoint', () => {
  test.each([
    ['missing', (file: string) => rmSync(file), /training\.json: no such file; .*--force/],
    ['truncated', (file: string) => truncateSync(file, 9), /training\.json: not a training state; .*--force/],
    [
      'of another version',
      (file: string) => writeFileSync(file, '{"version":2,"stage":"sft","step":3,"updates":3}'),
      /training\.json: a checkpoint of version 2, this timeseer resumes version 3; .*--force/,
    ],
    [
      'of a negative step',
      (file: string) =>
        writeFileSync(file, '{"version":3,"stage":"sft","step":-1,"updates":0,"skippedInARow":0}'),
      /training\.json: not a training state/,
    ],
  ])('state: %s', (_name, damage, message) => {
    copy(checkpoint);
    damage(join(checkpoint, 'training.json'));
    expect(() => readState(checkpoint)).toThrow(CheckpointError);
    expect(() => readState(checkpoint)).toThrow(message);
  });

  test.each([
    ['missing', (file: string) => rmSync(file)],
    ['empty', (file: string) => truncateSync(file, 0)],
    ['cut in its header', (file: string) => truncateSync(file, 40)],
    ['cut in its data', (file: string) => truncateSync(file, 5000)],
  ])('moments and weights: %s', (_name, damage) => {
    copy(checkpoint);
    damage(join(checkpoint, 'optimizer.safetensors'));
    const restore = () => restoreOptimizer(checkpoint, learner, readState(checkpoint)!);
    const before = moments(learner);
    expect(restore).toThrow(CheckpointError);
    expect(restore).toThrow(/checkpoint\/optimizer\.safetensors: /);
    expectSameMoments(moments(learner), before);
    damage(join(checkpoint, 'model.safetensors'));
    expect(() => Policy.load(engine, checkpoint)).toThrow(CheckpointError);
    expect(() => Policy.load(engine, checkpoint)).toThrow(/checkpoint.*model\.safetensors/);
  });

  test('moments of another policy', () => {
    copy(checkpoint);
    const other = tinyLearner(tinyPolicy(engine, 3, { tied: false }));
    expect(() => restoreOptimizer(checkpoint, other, readState(checkpoint)!)).toThrow(
      /tensor head\.first_moment is missing; .*--force/,
    );
  });
});

describe('what a checkpoint holds is compared with what was saved', () => {
  test('nothing differs', () => {
    expect(checkpointDamage(saved)).toBeNull();
  });

  const weights = 'model.safetensors';
  const optimizer = 'optimizer.safetensors';
  /** Exchanges two pieces of a file. */
  const exchange = (bytes: Buffer, a: number, b: number, length: number): void => {
    const piece = Buffer.from(bytes.subarray(a, a + length));
    bytes.copy(bytes, a, b, b + length);
    piece.copy(bytes, b);
  };
  test.each<[string, string, (bytes: Buffer) => void]>([
    [
      'a flipped bit of the weights',
      weights,
      (bytes) => bytes.writeUInt8(bytes.at(-9)! ^ 1, bytes.length - 9),
    ],
    ['a zeroed block of the weights', weights, (bytes) => bytes.fill(0, bytes.length - 4096)],
    [
      'exchanged rows of the weights',
      weights,
      (bytes) => exchange(bytes, bytes.length - 512, bytes.length - 1024, 512),
    ],
    [
      'a flipped bit of the moments',
      optimizer,
      (bytes) => bytes.writeUInt8(bytes.at(-9)! ^ 1, bytes.length - 9),
    ],
    [
      'another count of updates',
      'training.json',
      (bytes) => bytes.write('9', bytes.indexOf('"updates": ') + 11),
    ],
  ])('%s', (_name, file, damage) => {
    copy(checkpoint);
    const bytes = readFileSync(join(checkpoint, file));
    damage(bytes);
    writeFileSync(join(checkpoint, file), bytes);
    expect(checkpointDamage(checkpoint)).toMatch(
      new RegExp(
        `^${join(checkpoint, file)}: differs from what was saved there \\(SHA-256 [0-9a-f]{12}…, in timeseer.sha256 [0-9a-f]{12}…\\)$`,
      ),
    );
  });

  test('the optimiser of another step', async () => {
    copy(checkpoint);
    const later = join(stage, 'later');
    const other = tinyLearner(tinyPolicy(engine));
    await teach(other, { samples: 6 });
    saveCheckpoint(later, other, FOREIGN_CARD, { stage: 'sft', step: 2, skippedInARow: 0, origin: ORIGIN });
    cpSync(join(later, optimizer), join(checkpoint, optimizer));
    expect(checkpointDamage(checkpoint)).toContain(`${optimizer}: differs from what was saved there`);
  });

  test('a missing card, a missing manifest, one that is cut, and a file that nobody saved', () => {
    copy(checkpoint);
    rmSync(join(checkpoint, 'timeseer.json'));
    expect(checkpointDamage(checkpoint)).toMatch(
      /timeseer\.json: no such file, but timeseer\.sha256 lists it$/,
    );
    copy(checkpoint);
    writeFileSync(join(checkpoint, 'added_tokens.json'), '{}');
    expect(checkpointDamage(checkpoint)).toMatch(/added_tokens\.json: was not saved there/);
    rmSync(join(checkpoint, 'added_tokens.json'));
    writeFileSync(join(checkpoint, 'notes.md'), 'my own');
    expect(checkpointDamage(checkpoint)).toBeNull();
    truncateSync(join(checkpoint, MANIFEST_FILE), 100);
    expect(checkpointDamage(checkpoint)).toMatch(/timeseer\.sha256:2: not a line of sha256sum/);
    truncateSync(join(checkpoint, MANIFEST_FILE), 0);
    expect(checkpointDamage(checkpoint)).toMatch(/timeseer\.sha256:1: not a line of sha256sum/);
    rmSync(join(checkpoint, MANIFEST_FILE));
    expect(checkpointDamage(checkpoint)).toMatch(/timeseer\.sha256: no such file/);
  });
});

describe('after a process was killed while it saved', () => {
  const left = (name: string): string => join(stage, `.checkpoint.123.${name}.tmp`);

  test('between the two renames, the newer of the complete ones becomes the checkpoint', () => {
    copy(left('older'));
    copy(left('newer'));
    setStep(left('newer'), 8);
    recoverCheckpoint(checkpoint);
    expect(readState(checkpoint)!.step).toBe(8);
    expect(readdirSync(stage)).toEqual(['checkpoint']);
  });

  test('a half-written one is never taken', () => {
    copy(left('older'));
    copy(left('half'));
    setStep(left('half'), 9);
    rmSync(join(left('half'), MANIFEST_FILE)); // the last file that is written
    recoverCheckpoint(checkpoint);
    expect(readState(checkpoint)!.step).toBe(4);
    expect(readdirSync(stage)).toEqual(['checkpoint']);
  });

  test('a damaged one is not taken before an older one that is whole', () => {
    copy(left('older'));
    copy(left('newer'));
    setStep(left('newer'), 8);
    truncateSync(join(left('newer'), 'model.safetensors'), 5000);
    recoverCheckpoint(checkpoint);
    expect(readState(checkpoint)!.step).toBe(4);
  });

  test('a checkpoint in its place stays, and the remains of others go', () => {
    copy(checkpoint);
    copy(left('half'));
    setStep(left('half'), 99);
    recoverCheckpoint(checkpoint);
    expect(readState(checkpoint)!.step).toBe(4);
    expect(readdirSync(stage)).toEqual(['checkpoint']);
  });

  test('nothing complete is left: there is no checkpoint', () => {
    mkdirSync(left('half'));
    recoverCheckpoint(checkpoint);
    expect(readState(checkpoint)).toBeNull();
    expect(readdirSync(stage)).toEqual([]);
  });

  test('files of other names are left alone', () => {
    copy(checkpoint);
    renameSync(checkpoint, join(stage, '.policy.123.abc.tmp'));
    writeFileSync(join(stage, 'metrics.jsonl'), '');
    recoverCheckpoint(checkpoint);
    expect(readdirSync(stage).sort()).toEqual(['.policy.123.abc.tmp', 'metrics.jsonl']);
    recoverCheckpoint(join(stage, 'not', 'there'));
  });
});

test('the files of training are those that a policy directory does not have', () => {
  const policy = join(stage, 'policy');
  learner.policy.save(policy);
  const extra = readdirSync(saved).filter((name) => !existsSync(join(policy, name)));
  expect(extra.sort()).toEqual([...TRAINING_FILES, 'timeseer.json'].sort());
});
