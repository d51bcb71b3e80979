import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { readState } from '../../src/train/checkpoint.ts';
import { loggedName } from '../../src/train/glossary.ts';
import { readEvents } from '../helpers/event-file.ts';
import { timeseer } from '../helpers/tiny-run.ts';
import { lines, recipe, set, shared, whole } from '../helpers/validated.ts';
import { differences } from '../kill/harness.ts';

let out = '';

beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'one-')), 'run');
});

describe('evaluation while a stage trains', { timeout: 120_000 }, () => {
  test('leaves a line of metrics for every other step, and the best policy, which can be evaluated by itself', async () => {
    expect(lines(whole).map(({ step, examples }) => [step, examples])).toEqual([
      [2, 6],
      [4, 6],
      [6, 6],
    ]);
    expect(lines(whole, 'sft').map(({ step, examples }) => [step, examples])).toEqual([
      [7, 3],
      [10, 3],
    ]);
    const rewards = lines(whole).map(({ metrics }) => metrics['reward']!);
    const best = 2 * (rewards.indexOf(Math.max(...rewards)) + 1);
    expect(readlinkSync(join(whole, 'rl/best'))).toBe(`validation/step-${best}`);
    const asked = ['--split', 'validation', '--count', '6', '--length', '400', '--max-tokens', '24'];
    const { code, out: said } = await timeseer(
      'eval',
      '--policy',
      join(whole, 'rl/best'),
      ...asked,
      '--json',
      '--quiet',
    );
    expect(code).toBe(0);
    const overall = JSON.parse(said).metrics.overall;
    for (const [name, value] of Object.entries(lines(whole)[best / 2 - 1]!.metrics)) {
      expect(overall[name].mean).toBe(value);
    }
  });

  test('is drawn in TensorBoard beside the training, each metric under a name of the glossary', () => {
    const directory = join(whole, 'rl/tensorboard');
    const events = readEvents(join(directory, readdirSync(directory)[0]!));
    const drawn = events.filter(({ scalars }) => scalars !== null && 'eval/reward' in scalars);
    expect(drawn.map(({ step, scalars }) => [step, scalars!['eval/reward']])).toEqual(
      lines(whole).map(({ step, metrics }) => [step, Math.fround(metrics['reward']!)]),
    );
    for (const line of lines(whole)) {
      for (const key of Object.keys(line)) expect(loggedName('validation', key)).not.toBeNull();
    }
  });

  test('is refused where there is nothing to evaluate on, or no such metric', async () => {
    const begin = ['sft', '--recipe', recipe, '--out', out];
    const unknown = await timeseer(...begin, ...set('rl.evalEvery=2', 'rl.keep.best=accuracy'));
    expect(unknown.err).toMatch(/rl\.keep\.best: nano5 has no metric accuracy; known: .*reward/);
    const useless = await timeseer(...begin, ...set('rl.patience=2'));
    expect(useless.err).toMatch(/rl\.patience: got 2, expected 0 while rl\.evalEvery is 0/);
    const data = join(shared, 'set');
    await timeseer('data', 'generate', 'nano5', '--count', '30', '--out', data);
    const none = await timeseer(...begin, ...set(`data.name=${data}`, 'rl.evalEvery=2'));
    expect(none.err).toMatch(/rl\.evalEvery: .* has no validation split/);
    expect(existsSync(out)).toBe(false);
  });
});

describe('of several checkpoints', { timeout: 120_000 }, () => {
  test('the last ones are kept', () => {
    expect(readdirSync(join(whole, 'rl/checkpoints'))).toEqual(['step-4']);
    expect(readState(join(whole, 'rl/checkpoints/step-4'))!.step).toBe(4);
    expect(readState(join(whole, 'rl/checkpoint'))!.step).toBe(6);
  });

  test('the one before is resumed from when the last one is damaged, and the run is the unbroken one', async () => {
    cpSync(whole, out, { recursive: true, verbatimSymlinks: true });
    rmSync(join(out, 'rl/policy'), { recursive: true });
    const weights = join(out, 'rl/checkpoint/model.safetensors');
    const bytes = readFileSync(weights);
    bytes[bytes.length - 5]! ^= 1;
    writeFileSync(weights, bytes);
    const { code, err } = await timeseer('train', '--out', out, '--resume', '--quiet');
    expect(err).toMatch(
      /^warning: .*rl\/checkpoint\/model\.safetensors: differs from what was saved there .*resuming from the checkpoint of step 4/,
    );
    expect(code).toBe(0);
    rmSync(join(out, 'rl/checkpoint.damaged'), { recursive: true });
    expect(differences(whole, out)).toEqual([]);
  });
});
