/** What must not matter to what is learnt, through the command line: how a step is cut up, over whom, and where a run was resumed. */
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { relativeDistance } from '../helpers/full-sequence.ts';
import { temporary } from '../helpers/temporary.ts';
import { bits, timeless, timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';
import { differences } from '../kill/harness.ts';

const shared = temporary('equivalence');
const recipe = join(shared, 'tiny.yaml');
const whole = join(shared, 'whole');
/** Micro-batches of the whole batch, one worker, layers computed once. */
const USUAL = [
  ...['sft.samples=24', 'sft.batch=8', 'sft.workers=1', 'memory.recompute=never'],
  ...['rl.steps=3', 'rl.workers=1', 'rl.miniBatches=1', 'rl.checkpointEvery=1', 'rl.keep.last=3'],
];
/** Float32 sums in another order: of a gradient, relatively, and after three steps of Adam. */
const LOSS = 1e-4;
const WEIGHTS = 1e-3;

async function trained(out: string, settings: readonly string[]): Promise<void> {
  const set = [...USUAL, ...settings].flatMap((key) => ['--set', key]);
  for (const args of [['sft', '--recipe', recipe, ...set], ['train']]) {
    expect(await timeseer(...args, '--out', out, '--quiet')).toMatchObject({ code: 0, err: '' });
  }
}

const MODEL = 'rl/policy/model.safetensors';

const weights = (out: string, stage: string): Float32Array => {
  const bytes = bits(join(out, stage, 'policy/model.safetensors'));
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
};

interface Line {
  readonly loss: number;
  readonly gradNorm: number;
}
const lines = (out: string, stage: string) => timeless(join(out, stage, 'metrics.jsonl')) as Line[];

beforeAll(async () => {
  writeTinyPolicy(join(shared, 'policy'));
  writeTinyRecipe(recipe, join(shared, 'policy'));
  await trained(whole, []);
});

describe('one trajectory', { timeout: 120_000 }, () => {
  test.each([
    ['eight micro-batches of one example, or one of eight', ['memory.tokens=1']],
    ['one worker, or two', ['sft.workers=2', 'rl.workers=2']],
    ['layers computed once, or again in the backward pass', ['memory.recompute=always']],
  ])('%s', async (name, settings) => {
    const out = join(shared, name.replace(/\W+/g, '-'));
    await trained(out, settings);
    for (const stage of ['sft', 'rl']) {
      const [a, b] = [lines(whole, stage), lines(out, stage)];
      expect(b).toHaveLength(3);
      for (const [i, { loss, gradNorm }] of a.entries()) {
        expect(Math.abs(b[i]!.loss - loss)).toBeLessThan(LOSS * Math.max(1, Math.abs(loss)));
        expect(Math.abs(b[i]!.gradNorm / gradNorm - 1)).toBeLessThan(LOSS * 10);
      }
      expect(relativeDistance(weights(out, stage), weights(whole, stage))).toBeLessThan(WEIGHTS);
    }
    // The same operations again give the same bits; sums in another order do not.
    const same = settings[0] === 'memory.recompute=always';
    expect(bits(join(out, MODEL)).equals(bits(join(whole, MODEL)))).toBe(same);
  });

  test.each([1, 2])('resumed after step %i, to the byte', async (step) => {
    const out = join(shared, `resumed-${step}`);
    cpSync(whole, out, { recursive: true });
    const checkpoint = join(out, 'rl/checkpoint');
    for (const one of ['rl/policy', 'rl/checkpoint', step === 1 ? 'rl/checkpoints/step-2' : '-']) {
      rmSync(join(out, one), { recursive: true, force: true });
    }
    renameSync(join(out, `rl/checkpoints/step-${step}`), checkpoint);
    expect(await timeseer('train', '--out', out, '--resume', '--quiet')).toMatchObject({ code: 0, err: '' });
    expect(differences(whole, out)).toEqual([]);
  });
});
