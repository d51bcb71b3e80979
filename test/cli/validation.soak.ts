import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { bits, timeseer } from '../helpers/tiny-run.ts';
import { lines, recipe, set, shared, supervised, whole } from '../helpers/validated.ts';

let out = '';

beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'one-')), 'run');
});

describe('evaluation while a stage trains', { timeout: 120_000 }, () => {
  test('changes nothing of the training', async () => {
    supervised(out, { evalEvery: 0, keep: { last: 1, best: 'reward' } });
    expect((await timeseer('train', '--out', out, '--quiet')).code).toBe(0);
    const file = 'rl/policy/model.safetensors';
    expect(bits(join(out, file)).equals(bits(join(whole, file)))).toBe(true);
    expect(existsSync(join(out, 'rl/validation.jsonl'))).toBe(false);
  });

  test('ends the stage early when nothing gets better, and the best policy is what it leaves', async () => {
    supervised(out, {
      evalEvery: 1,
      patience: 1,
      output: 'best',
      keep: { last: 1, best: 'unparsable' },
      learningRate: 1e-9,
    });
    const { code, err } = await timeseer('train', '--out', out);
    expect(code).toBe(0);
    expect(err).toContain('rl: ended early after step 3 of 6: no better unparsable in 1 evaluations');
    expect(lines(out).map(({ step }) => step)).toEqual([1, 2, 3]);
    expect(readdirSync(join(out, 'rl/validation'))).toEqual(['step-1']);
    const [left, best] = ['rl/policy', 'rl/validation/step-1'].map((name) =>
      readFileSync(join(out, name, 'model.safetensors')),
    );
    expect(left!.equals(best!)).toBe(true);
    expect(
      bits(join(out, 'rl/checkpoint/model.safetensors')).equals(
        bits(join(out, 'rl/policy/model.safetensors')),
      ),
    ).toBe(false);
    const before = readFileSync(join(out, 'rl/stage.json'), 'utf8');
    expect((await timeseer('train', '--out', out, '--resume')).code).toBe(0);
    expect(readFileSync(join(out, 'rl/stage.json'), 'utf8')).toBe(before);
  });

  test('of an adapter keeps the adapter, and leaves it merged', async () => {
    const settings = [
      'policy.tune=adapter',
      'rl.output=best',
      'rl.steps=2',
      'rl.evalEvery=1',
      'rl.evalSeries=3',
    ];
    const begun = await timeseer(
      'train',
      '--policy',
      whole,
      '--recipe',
      recipe,
      ...set(...settings),
      '--out',
      out,
      '--quiet',
    );
    expect(begun).toMatchObject({ code: 0, err: '' });
    expect(lines(out).map(({ step }) => step)).toEqual([1, 2]);
    const weights = (name: string) => bits(join(out, name, 'adapter_model.safetensors'));
    expect(weights('rl/adapter').equals(weights('rl/best'))).toBe(true);
  });
});
